"""Small flight recorder dumps, with the schema of PyTorch 2.10."""

import json
import pickle
from pathlib import Path
from typing import Any

STACK = [
    {"name": "all_reduce", "filename": "/x/site-packages/torch/distributed_c10d.py", "line": 9},
    {"name": "train", "filename": "/home/ann/project/train.py", "line": 42},
]
T0 = 1_770_000_000_000_000_000


def entry(group: str, sequence: int, state: str = "completed", **more: Any) -> dict[str, Any]:
    """Return the entry of an all-reduce; `more` adds or replaces keys."""
    return {
        "frames": STACK, "record_id": sequence, "pg_id": int(group), "collective_seq_id": sequence,
        "process_group": (group, {"0": "default_pg"}.get(group, "dp")), "p2p_seq_id": 0,
        "profiling_name": "nccl:all_reduce", "time_created_ns": T0 + sequence * 1_000_000,
        "input_sizes": [[8, 4]], "input_dtypes": ["Float"], "output_sizes": [[8, 4]],
        "output_dtypes": ["Float"], "state": state, "is_p2p": False,
        "time_discovered_started_ns": None, "time_discovered_completed_ns": None,
        "retired": state == "completed", "timeout_ms": 600_000, **more,
    }  # fmt: skip


def dump(entries: list[dict[str, Any]], ranks: dict[str, list[int]]) -> dict[str, Any]:
    """Return the dump of one rank; `ranks` maps groups to their member ranks."""
    config = {name: {"name": name, "desc": "", "ranks": str(of)} for name, of in ranks.items()}
    return {"version": "2.10", "pg_config": config, "pg_status": {}, "entries": entries}


def write_dumps(folder: Path, dumps: dict[int, dict[str, Any]], *, as_json: bool = False) -> Path:
    """Write one dump per rank with PyTorch's file names and return the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    for rank, value in dumps.items():
        name = f"nccl_trace_rank_{rank}{'.json' if as_json else ''}"
        data = json.dumps(value).encode() if as_json else pickle.dumps(value, 2)
        (folder / name).write_bytes(data)
    return folder


def write_hang(folder: Path, **options: Any) -> Path:
    """Write a job of three ranks; rank 1 lacks the last of three collectives."""
    of = {"0": [0, 1, 2]}
    both = [entry("0", 1), entry("0", 2)]
    waiting = dump([*both, entry("0", 3, "started")], of)
    return write_dumps(folder, {0: waiting, 1: dump(both, of), 2: waiting}, **options)
