"""Files of ROCm's profilers, with their schemas: rocpd, rocmProfileData and rocprofv3's JSON."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

BOOT_NS = 63_871_560_000_000
SECRET = "hunter2-token"
MODEL = "AMD Instinct MI350X"
_ROCPD = {
    "metadata": "id, tag, value",
    "string": "id integer primary key, string",
    "info_node": "id, hostname",
    "info_process": "id, pid, command, environment",
    "info_thread": "id, tid, name",
    "info_agent": "id, type, absolute_index, type_index, product_name, name, extdata",
    "info_kernel_symbol": "id integer primary key, display_name",
    "event": "id, category_id, stack_id, correlation_id",
    "region": "pid, tid, start, end, name_id, event_id",
    "kernel_dispatch": "pid, agent_id, kernel_id, queue_id, stream_id, start, end,"
    " workgroup_size_x, workgroup_size_y, workgroup_size_z, grid_size_x, grid_size_y,"
    " grid_size_z, group_segment_size, event_id",
    "memory_copy": "pid, start, end, name_id, dst_agent_id, src_agent_id, size, stream_id,"
    " event_id",
}
#: texts by id
_STRINGS = (
    *("HIP_RUNTIME_API", "KERNEL_DISPATCH", "MARKER_CORE_API", "RCCL_API", "hipLaunchKernel"),
    *("hipMemcpyAsync", "iteration 7", "ncclAllReduce", "MEMORY_COPY_HOST_TO_DEVICE"),
)


def _fill(path: Path, tables: Mapping[str, tuple[str, Sequence[Sequence[Any]]]]) -> Path:
    with closing(sqlite3.connect(path)) as database:
        for name, (columns, rows) in tables.items():
            database.execute(f'create table "{name}" ({columns})')
            for row in rows:
                marks = ",".join("?" * len(row))
                database.execute(f'insert into "{name}" values ({marks})', row)
        database.execute("create view kernels as with recursive n(i) as (select 1 union all"
                         " select i + 1 from n) select * from n")  # fmt: skip
        database.commit()
    return path


def write_rocpd(path: Path, pids: Sequence[int] = (900,), *, rank: int | None = None) -> Path:
    """Write a matrix product (30 µs), a copy (5 µs) and a collective (40 µs) in an iteration."""
    tables = {}
    for place, pid in enumerate(pids):
        at = BOOT_NS + 1_000_000 * place
        environment = {"HF_TOKEN": SECRET, **({} if rank is None else {"RANK": str(rank)})}
        extra = json.dumps({"cu_count": 256})
        rows = {
            "metadata": [(1, "schema_version", "3")],
            "string": list(enumerate(_STRINGS, 1)),
            "info_node": [(1, "node0")],
            "info_process": [(1, pid, f"python train.py --key {SECRET}", json.dumps(environment))],
            "info_thread": [(5, pid + 1, "worker")],
            "info_agent": [(0, "CPU", 0, 0, "EPYC", "", "{}"), (2, "GPU", 2, 0, MODEL, "", extra)],
            "info_kernel_symbol": [(10, "Cijk_gemm"), (11, "ncclDevKernel_Generic_1(args)")],
            "event": [(1, 1, 501, 0), (2, 2, 501, 0), (3, 3, 0, 0), (4, 4, 503, 0), (5, 2, 503, 0),
                      (6, 1, 502, 0), (7, 2, 502, 0)],
            "region": [(1, 5, at, at + 90_000, 7, 3), (1, 5, at + 1_000, at + 2_000, 5, 1),
                       (1, 5, at + 3_000, at + 4_000, 6, 6), (1, 5, at + 5_000, at + 6_000, 8, 4)],
            "kernel_dispatch": [
                (1, 2, 10, 18, 3, at + 10_000, at + 40_000, 64, 2, 1, 192, 32, 1, 512, 2),
                (1, 2, 11, 19, 4, at + 45_000, at + 85_000, 256, 1, 1, 256, 1, 1, 0, 5),
            ],
            "memory_copy": [(1, at + 40_000, at + 45_000, 9, 2, 0, 50_000, 3, 7)],
        }  # fmt: skip
        suffix = f"_{place:04d}aaa"
        tables |= {f"rocpd_{name}{suffix}": (_ROCPD[name], rows[name]) for name in _ROCPD}
    return _fill(path, tables)


def write_rpd(path: Path) -> Path:
    """Write one kernel on each of two devices, launched by calls on different threads."""
    texts = ("KernelExecution", "gemm", "hipLaunchKernel", "UserMarker", "step 3", "")
    ops, apis = [], [(9, 70, 71, BOOT_NS, BOOT_NS + 80_000, 4, 5)]
    for device in (0, 1):
        at = BOOT_NS + 1_000 * device
        ops.append((device + 1, device, 0, at + 10_000, at + 30_000, 2, 1))
        apis.append((device + 20, 70, 71 + device, at + 2_000, at + 3_000, 3, 6))
    return _fill(
        path,
        {
            "rocpd_string": ("id integer primary key, string", list(enumerate(texts, 1))),
            "rocpd_op": ("id, gpuId, queueId, start, end, description_id, opType_id", ops),
            "rocpd_api": ("id, pid, tid, start, end, apiName_id, args_id", apis),
            "rocpd_api_ops": ("api_id, op_id", [(20, 1), (21, 2)]),
        },
    )


def rocprof_json(kernels: int = 1, streams: int = 1) -> dict[str, Any]:
    """Return kernels of 10 µs on separate streams, half overlapping, with their launches."""

    def times(first: int, last: int, number: int) -> dict[str, Any]:
        return {
            "start_timestamp": BOOT_NS + first,
            "end_timestamp": BOOT_NS + last,
            "thread_id": 71,
            "correlation_id": {"internal": number + 1, "external": 0},
        }

    calls = [{**times(100 * n, 100 * n + 50, n), "kind": 1, "operation": 0} for n in range(kernels)]
    sizes = {"x": 64, "y": 1, "z": 1}
    dispatches = [
        {
            **times(10_000 + 5_000 * n, 20_000 + 5_000 * n, n),
            "kind": 2,
            "operation": 2,
            "stream_id": {"handle": n % streams},
            "dispatch_info": {
                "agent_id": {"handle": 77},
                "queue_id": {"handle": 1},
                "kernel_id": 5,
                "workgroup_size": sizes,
                "grid_size": {**sizes, "x": 640},
            },
        }
        for n in range(kernels)
    ]
    kinds = [{"kind": "NONE", "operations": []},
             {"kind": "HIP_RUNTIME_API", "operations": ["hipLaunchKernel"]}]  # fmt: skip
    process = {
        "metadata": {"pid": 70, "node": {"hostname": "node0"}, "command": [SECRET], "config": {}},
        "agents": [{"id": {"handle": 77}, "type": 2, "product_name": MODEL, "cu_count": 256}],
        "kernel_symbols": [{"kernel_id": 5, "formatted_kernel_name": "gemm"}],
        "strings": {"buffer_records": kinds},
        "buffer_records": {"hip_api": calls, "kernel_dispatch": dispatches, "hsa_api": []},
    }
    return {"rocprofiler-sdk-tool": [process]}
