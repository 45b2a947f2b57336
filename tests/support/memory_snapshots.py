"""Small snapshots of device memory, with PyTorch's schema."""

import pickle
from pathlib import Path
from typing import Any

T0 = 1_770_000_000_000_000
MODEL = {"name": "forward", "filename": "/home/ann/project/model.py", "line": 7}
LIBRARY = {"name": "linear", "filename": r"C:\Users\ann\Lib\site-packages\torch\nn\f.py", "line": 3}
ADAM = {"name": "step", "filename": "/x/site-packages/torch/optim/adam.py", "line": 5}
TRAIN = {"name": "train", "filename": "/home/ann/project/train.py", "line": 9}
ENGINE = {"name": "backward", "filename": "/x/dist-packages/torch/autograd/graph.py", "line": 8}
STACKS = {"model": [LIBRARY, MODEL], "adam": [ADAM, TRAIN], "backward": [ENGINE, TRAIN], "": []}


def block(address: int, size: int, state: str = "active_allocated", stack: str = "") -> Any:
    frames = STACKS[stack]
    return {"address": address, "size": size, "requested_size": size, "state": state,
            "frames": frames}  # fmt: skip


def segment(address: int, blocks: list[dict[str, Any]], **more: Any) -> dict[str, Any]:
    used = sum(each["size"] for each in blocks if each["state"] != "inactive")
    total = sum(each["size"] for each in blocks)
    return {
        "device": 0, "address": address, "total_size": total, "allocated_size": used,
        "active_size": used, "stream": 0, "segment_type": "large", "blocks": blocks, **more,
    }  # fmt: skip


def events(*changes: tuple[str, int, int, str], timed: bool = True) -> list[dict[str, Any]]:
    """Return the events of a ring buffer: action, address, size and the name of a stack."""
    return [
        {"action": action, "addr": address, "size": size, "stream": 0, "frames": STACKS[stack],
         **({"time_us": T0 + place * 10} if timed else {})}
        for place, (action, address, size, stack) in enumerate(changes)
    ]  # fmt: skip


def write_snapshot(path: Path, **more: Any) -> Path:
    """Write a snapshot that starts with 5,000 bytes in use and peaks at 9,500.

    Of the first 5,000 bytes, the model allocated 3,000; 1,000 are released after the peak and 1,000
    have an unknown stack.
    """
    ring = events(
        ("alloc", 100, 2000, "model"),
        ("alloc", 200, 2500, "adam"),  # 9,500 in use
        ("free_requested", 100, 2000, ""),
        ("free_completed", 100, 2000, ""),
        ("free_completed", 900, 1000, ""),  # allocated before the ring buffer starts
        ("alloc", 300, 500, "backward"),
        ("oom", 0, 8000, "") if more.pop("oom", False) else ("snapshot", 0, 0, ""),
        ("free_completed", 200, 2500, ""),
        timed=more.pop("timed", True),
    )
    segments = [
        segment(0, [block(300, 500, stack="backward"), block(800, 1500, "inactive")]),
        segment(5000, [block(5000, 3000, stack="model"), block(8000, 1000)]),
        segment(9000, [block(9000, 700, "inactive"), block(9700, 300, "inactive")], stream=7),
    ]
    value = {"segments": segments, "device_traces": [ring, []], "allocator_settings": {}, **more}
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(pickle.dumps(value))
    return path
