"""XPlane profiles as JAX writes them, encoded by hand."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

START_NS = 1_771_595_639_214_724_894
SECRET = "hunter2-token"
#: name, start and end in ps from the start of the line, statistics
Event = tuple[str, int, int, Mapping[str, Any]]


def varint(value: int) -> bytes:
    value &= (1 << 64) - 1
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes((*out, value))


def number(field: int, value: int) -> bytes:
    return varint(field << 3) + varint(value)


def message(field: int, content: bytes | str) -> bytes:
    body = content.encode() if isinstance(content, str) else content
    return varint(field << 3 | 2) + varint(len(body)) + body


def plane(
    name: str, lines: Mapping[str, Sequence[Event]], first_ns: int = 1_000, **facts: Any
) -> bytes:
    """Return a plane; statistics that begin with ``_shared_`` belong to the event metadata."""
    events: dict[str, int] = {}
    stats: dict[str, int] = {}
    shared: dict[str, bytes] = {}

    def stat(key: str, value: Any) -> bytes:
        body = number(1, stats.setdefault(key, len(stats) + 1))
        if isinstance(value, float):
            return body + varint(2 << 3 | 1) + struct.pack("<d", value)
        return body + (message(5, value) if isinstance(value, str) else number(4, value))

    encoded = b""
    for at, (line, contents) in enumerate(lines.items()):
        body = number(1, at + 1) + message(2, line) + number(3, first_ns)
        for event, start, end, args in contents:
            code = events.setdefault(event, len(events) + 1)
            own = b""
            for key, value in args.items():
                if key.startswith("_shared_"):
                    shared.setdefault(event, b"")
                    shared[event] += message(5, stat(key[8:], value))
                else:
                    own += message(4, stat(key, value))
            body += message(4, number(1, code) + number(2, start) + number(3, end - start) + own)
        encoded += message(3, body)
    known = b"".join(message(6, stat(key, value)) for key, value in facts.items())
    names = b"".join(
        message(
            4,
            number(1, code)
            + message(2, number(1, code) + message(2, name) + shared.get(name, b"")),
        )
        for name, code in events.items()
    )
    keys = b"".join(
        message(5, number(1, code) + message(2, number(1, code) + message(2, key)))
        for key, code in stats.items()
    )
    return message(2, name) + encoded + names + keys + known


def profile(*planes: bytes, host: str = "node0", start_ns: int | None = START_NS) -> bytes:
    facts = {} if start_ns is None else {"profile_start_time": start_ns, "command": SECRET}
    environment = plane("Task Environment", {}, **facts)
    return b"".join(message(1, one) for one in (*planes, environment)) + message(4, host)


def gpu_profile(devices: int = 2, *, late_ps: int = 0, steps: int = 3) -> bytes:
    """Return steps of 100 µs: a product of 20 µs, then an all-reduce that ends everywhere at once.

    The last device starts `late_ps` later.
    """
    planes, threads = [], {}
    for device in range(devices):
        work, calls, ranges = [], [], []
        for step in range(steps):
            at = step * 100_000_000
            begin = at + 10_000_000 + (late_ps if device == devices - 1 else 0)
            done = at + 60_000_000 + late_ps
            ids = [1000 * device + 10 * step + place for place in (1, 2)]
            product = {"hlo_op": "dot.1", "hlo_module": "jit_step"}
            reduce = {"hlo_op": "all-reduce.3", "hlo_module": "jit_step"}
            figures = {"_shared_flops": 2_000_000_000, "_shared_bytes_accessed": 1 << 20}
            work += [
                (
                    "gemm",
                    begin,
                    begin + 20_000_000,
                    {**product, **({} if step else figures), "correlation_id": ids[0]},
                ),
                (
                    "ncclDevKernel_AllReduce",
                    begin + 20_000_000,
                    done,
                    {**reduce, "correlation_id": ids[1]},
                ),
            ]
            calls += [
                (
                    "cuLaunchKernel",
                    begin - 9_000_000,
                    begin - 8_000_000,
                    {**product, "correlation_id": ids[0]},
                ),
                (
                    "cuLaunchKernel",
                    begin - 7_000_000,
                    begin - 6_000_000,
                    {**reduce, "correlation_id": ids[1]},
                ),
            ]
            ranges.append(("train", at, at + 90_000_000, {"step_num": step}))
        derived = [("jit_step(1)", 10_000_000, 60_000_000, {})]
        planes.append(
            plane(
                f"/device:GPU:{device}",
                {
                    f"Stream #{13 + device}(Compute,MemcpyD2D)": work,
                    "XLA Modules": derived,
                    "XLA Ops": derived,
                },
                device_vendor="Nvidia",
                core_count=132,
                memory_size=80 << 30,
                compute_cap_major=9,
                compute_cap_minor=0,
            )
        )
        threads[f"py_xla_execute/{device + 1}"] = [*ranges, *calls]
    planes.append(plane("/device:GPU:7", {}))
    allocation = {"allocator_name": "GPU_1_bfc", "bytes_allocated": 4096}
    threads["python"] = [
        ("$train.py:12 step", 0, 290_000_000, {}),
        ("MemoryAllocation", 50_000_000, 50_000_000, allocation),
    ]
    return profile(*planes, plane("/host:CPU", threads))


def tpu_profile() -> bytes:
    """Return two TPU steps; their work has no launch calls."""
    ops, steps = [], []
    for step in range(2):
        at = step * 100_000_000
        shared = {
            "_shared_flops": 4_000_000,
            "_shared_bytes_accessed": 2_000_000,
            "_shared_hlo_category": "convolution fusion",
        }
        ops += [
            ("fusion.1", at, at + 40_000_500, shared if not step else {}),
            ("all-reduce.2", at + 40_000_500, at + 60_000_000, {}),
        ]
        steps.append((str(step + 7), at, at + 80_000_000, {}))
    lines = {"Steps": steps, "XLA Modules": [("jit_f(1)", 0, 160_000_000, {})], "XLA Ops": ops}
    return profile(
        plane("/device:TPU:0", lines, device_type_string="TPU v5 lite"), plane("/host:CPU", {})
    )


def write_profile(path: Path, data: bytes) -> Path:
    path.write_bytes(data)
    return path
