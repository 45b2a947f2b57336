"""What surrounds the events in a rank's file: its header, names of threads, and its end."""

from __future__ import annotations

import json
from typing import Any

from hta_widgets.demo.program import (
    AUTOGRAD,
    COMPUTE,
    COPY,
    DEVICE,
    GRADIENTS,
    MAIN,
    PINNER,
    TENSORS,
)

BASE_NS = 1_735_689_600_000_000_000  #: baseTimeNanoseconds of every file
RANKS_A_HOST = 8


def host_name(rank: int) -> str:
    """Name of the host that runs a rank."""
    return f"gpu-node-{rank // RANKS_A_HOST:02d}"


def thread_ids(rank: int) -> dict[int, int]:
    """Operating system's ids of a rank's threads; the main thread's is the process's."""
    pid = 40_100 + 173 * (rank % RANKS_A_HOST) + 7 * (rank // RANKS_A_HOST)
    return {MAIN: pid, AUTOGRAD: pid + 61, PINNER: pid + 58}


def micros(time_ns: int) -> str:
    """Write a time as Kineto does: µs with three decimals."""
    return f"{time_ns // 1000}.{time_ns % 1000:03d}"


def header(rank: int, ranks: int, groups: list[dict[str, Any]], seed: int) -> str:
    """Write all up to the first event."""
    properties = [
        {
            "id": device,
            "name": "NVIDIA A100-SXM4-80GB",
            "totalGlobalMem": 85_097_971_712,
            "computeMajor": 8,
            "computeMinor": 0,
            "maxThreadsPerBlock": 1024,
            "maxThreadsPerMultiprocessor": 2048,
            "regsPerBlock": 65_536,
            "warpSize": 32,
            "sharedMemPerBlock": 49_152,
            "numSms": 108,
            "regsPerMultiprocessor": 65_536,
            "sharedMemPerBlockOptin": 166_912,
            "sharedMemPerMultiprocessor": 167_936,
        }
        for device in range(min(ranks, RANKS_A_HOST))
    ]
    info = {
        "backend": "nccl",
        "rank": rank,
        "world_size": ranks,
        "pg_count": len(groups),
        "pg_config": groups,
        "nccl_version": "2.21.5",
    }
    trace_id = f"{(seed * 0x9E3779B97F4A7C15 + rank * 0xBF58476D1CE4E5B9) % (1 << 64):016X}"
    lines = [
        '  "schemaVersion": 1',
        f'  "deviceProperties": {json.dumps(properties, indent=2)}',
        f'  "distributedInfo": {json.dumps(info)}',
        '  "cuda_runtime_version": 12040',
        '  "cuda_driver_version": 12040',
        '  "profile_memory": 1',
        '  "record_shapes": 1',
        f'  "trace_id": "{trace_id}"',
        f'  "host_name": "{host_name(rank)}"',
        '  "displayTimeUnit": "ms"',
        f'  "baseTimeNanoseconds": {BASE_NS}',
        '  "traceEvents": [\n',
    ]
    return "{\n" + ",\n".join(lines)


def footer(rank: int, start_ns: int, end_ns: int) -> tuple[str, int, int]:
    """Write what names processes and threads, the profiler's own span, and the closing keys."""
    threads = thread_ids(rank)
    pid, device = threads[MAIN], rank % RANKS_A_HOST
    ts = micros(start_ns)
    records: list[str] = []

    def named(record: str, pid: int | str, tid: int, key: str, value: int | str) -> None:
        records.append(
            f'  {{\n    "name": "{record}", "ph": "M", "ts": {ts}, "pid": {json.dumps(pid)}, '
            f'"tid": {tid},\n    "args": {{\n      "{key}": {json.dumps(value)}\n    }}\n  }}'
        )

    def process(number: int, label: str, sort_index: int) -> None:
        named("process_name", number, 0, "name", "python3.11")
        named("process_labels", number, 0, "labels", label)
        named("process_sort_index", number, 0, "sort_index", sort_index)

    def thread(number: int, tid: int, name: str, sort_index: int) -> None:
        named("thread_name", number, tid, "name", name)
        named("thread_sort_index", number, tid, "sort_index", sort_index)

    process(pid, "CPU", pid)
    process(device, f"GPU {device}", 16_777_216 + device)
    thread(device, DEVICE, f"Device {device}", DEVICE)
    for stream in (COMPUTE, GRADIENTS, COPY, TENSORS):
        thread(device, stream, f"stream {stream} ", stream)
    names = {MAIN: "pt_main_thread", AUTOGRAD: "pt_autograd_0", PINNER: "pt_data_pin"}
    for which in (MAIN, AUTOGRAD, PINNER):
        thread(pid, threads[which], f"thread {threads[which]} ({names[which]})", threads[which])
    records.append(
        f'  {{\n    "ph": "X", "cat": "Trace", "ts": {ts}, "dur": {micros(end_ns - start_ns)},\n'
        '    "pid": "Spans", "tid": "PyTorch Profiler",\n    "name": "PyTorch Profiler (0)",\n'
        '    "args": {\n      "Op count": 0\n    }\n  }'
    )
    named("process_sort_index", "Spans", 0, "sort_index", 536_870_912)
    records.append(
        '  {\n    "name": "Iteration Start: PyTorch Profiler", "ph": "i", "s": "g",\n'
        f'    "pid": "Traces", "tid": "Trace PyTorch Profiler", "ts": {ts}\n  }}'
    )
    records.append(
        '  {\n    "name": "Record Window End", "ph": "i", "s": "g",\n'
        f'    "pid": "", "tid": "", "ts": {micros(end_ns)}\n  }}'
    )
    name = f"/home/trainer/runs/demo/rank-{rank}.json"
    text = ",\n".join(records) + f'\n  ],\n  "traceName": "{name}"\n}}\n'
    return text, len(records), 1
