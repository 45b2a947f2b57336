"""A made-up Nsight Systems export: ranks of one node, with every kind of event in each step."""

import sqlite3
import struct
from contextlib import closing
from pathlib import Path

MS = 1_000_000
EPOCH_NS = 1_780_000_000_000_000_000
STEP_NS = 20 * MS
FIRST_NS = 100 * MS
COMMUNICATOR = 0xABCD
MESSAGE_BYTES = 4096
GEMM, NCCL = "void gemm<float>(int)", "ncclDevKernel_AllReduce_Sum_f32_RING_LL(Args)"
_SYSTEM = 1 << 48  # process id of the first virtual machine
_PUSH_POP, _START_END, _MARK, _DOMAIN = 59, 60, 34, 75

_TABLES = {
    "StringIds": "id INTEGER PRIMARY KEY, value TEXT",
    "META_DATA_EXPORT": "name TEXT, value TEXT",
    "META_DATA_CAPTURE": "name TEXT, value TEXT",
    "TARGET_INFO_SESSION_START_TIME": "utcEpochNs INTEGER, utcTime TEXT",
    "TARGET_INFO_SYSTEM_ENV": "name TEXT, value TEXT",
    "TARGET_INFO_GPU": "id INTEGER, name TEXT, smCount INTEGER, totalMemory INTEGER",
    "TARGET_INFO_CUDA_DEVICE": "gpuId INTEGER, cudaId INTEGER, pid INTEGER",
    "PROCESSES": "globalPid INTEGER, pid INTEGER, name TEXT",
    "ProcessStreams": "globalPid INTEGER, filenameId INTEGER, contentId INTEGER",
    "ThreadNames": "nameId INTEGER, priority INTEGER, globalTid INTEGER",
    "MPI_RANKS": "globalTid INTEGER, rank INTEGER",
    "CUPTI_ACTIVITY_KIND_KERNEL": (
        "start INTEGER, end INTEGER, deviceId INTEGER, streamId INTEGER, correlationId INTEGER,"
        " globalPid INTEGER, demangledName INTEGER, shortName INTEGER, gridX INTEGER,"
        " gridY INTEGER, gridZ INTEGER, graphNodeId INTEGER"
    ),
    "CUPTI_ACTIVITY_KIND_MEMCPY": (
        "start INTEGER, end INTEGER, deviceId INTEGER, streamId INTEGER, correlationId INTEGER,"
        " globalPid INTEGER, bytes INTEGER, copyKind INTEGER, srcKind INTEGER, dstKind INTEGER"
    ),
    "CUPTI_ACTIVITY_KIND_GRAPH_TRACE": (
        "start INTEGER, end INTEGER, deviceId INTEGER, streamId INTEGER, correlationId INTEGER,"
        " globalPid INTEGER, graphId INTEGER, graphExecId INTEGER"
    ),
    "CUPTI_ACTIVITY_KIND_RUNTIME": (
        "start INTEGER, end INTEGER, eventClass INTEGER, globalTid INTEGER,"
        " correlationId INTEGER, nameId INTEGER, returnValue INTEGER"
    ),
    "NVTX_EVENTS": (
        "start INTEGER, end INTEGER, eventType INTEGER, text TEXT, textId INTEGER,"
        " globalTid INTEGER, endGlobalTid INTEGER, domainId INTEGER, binaryData TEXT"
    ),
    "NVTX_PAYLOAD_SCHEMA_ENTRIES": (
        "domainId INTEGER, schemaId INTEGER, idx INTEGER, name TEXT, type INTEGER, offset INTEGER"
    ),
    "MPI_COLLECTIVES_EVENTS": (
        "start INTEGER, end INTEGER, globalTid INTEGER, textId INTEGER, size INTEGER"
    ),
    "GPU_METRICS": "timestamp INTEGER, typeId INTEGER, metricId INTEGER, value REAL",
    "TARGET_INFO_GPU_METRICS": "typeId INTEGER, metricId INTEGER, metricName TEXT",
    "DIAGNOSTIC_EVENT": "timestamp INTEGER, severity INTEGER, text TEXT, globalPid INTEGER",
}


class _Export:
    """Inserts rows and gives ids to texts."""

    def __init__(self, database: sqlite3.Connection) -> None:
        self._database = database
        self._ids: dict[str, int] = {}
        for name, columns in _TABLES.items():
            database.execute(f"CREATE TABLE {name} ({columns})")

    def add(self, table: str, *values: object) -> None:
        marks = ", ".join("?" * len(values))
        self._database.execute(f"INSERT INTO {table} VALUES ({marks})", values)

    def text(self, value: str) -> int:
        if value not in self._ids:
            self._ids[value] = len(self._ids) + 1
            self.add("StringIds", self._ids[value], value)
        return self._ids[value]

    def range(self, start: int, end: int | None, name: str, tid: int, kind: int = _PUSH_POP,
              domain: int = 0, payload: bytes | None = None) -> None:  # fmt: skip
        self.add("NVTX_EVENTS", start, end, kind, name, None, tid, None, domain, payload)


def write_export(
    path: Path, *, ranks: int = 2, steps: int = 3, first_rank: int = 0, late_ns: int = 0,
    devices_per_process: int = 1, range_name: str = "iteration {}", shift_ns: int = 0,
    mpi: bool = True,
) -> Path:  # fmt: skip
    """Write ranks from `first_rank` on; the last rank is late by `late_ns` in each step."""
    path.unlink(missing_ok=True)
    with closing(sqlite3.connect(path)) as database:
        export = _Export(database)
        export.add("META_DATA_EXPORT", "EXPORT_PRODUCT_VERSION", "2025.1.3")
        export.add("TARGET_INFO_SESSION_START_TIME", EPOCH_NS + shift_ns, "")
        export.add("TARGET_INFO_SYSTEM_ENV", "Hostname", "node0")
        for place, kind in enumerate((18, 22)):
            name = ("NCCL communicator ID", "Message size [bytes]")[place]
            export.add("NVTX_PAYLOAD_SCHEMA_ENTRIES", 1, 99, place, name, kind, 8 * place or None)
        for number in range(ranks):
            _write_rank(
                export,
                number,
                first_rank + number,
                steps,
                devices_per_process,
                late_ns if number == ranks - 1 else 0,
                range_name,
                shift_ns,
                mpi=mpi,
            )
        database.commit()
    return path


def _write_rank(
    export: _Export, number: int, rank: int, steps: int, devices: int, late_ns: int,
    range_name: str, shift_ns: int, *, mpi: bool,
) -> None:  # fmt: skip
    process, device = divmod(number, devices)
    pid = 4000 + process
    gpid = _SYSTEM | pid << 24
    tid = gpid | (pid + device)
    if not device:
        export.add("PROCESSES", gpid, pid, "/usr/bin/python3")
        export.range(0, None, "NCCL", tid, _DOMAIN, 1)
        if mpi:
            export.add("MPI_RANKS", tid, rank)
    export.add("TARGET_INFO_GPU", number, "NVIDIA H100", 132, 80 << 30)
    export.add("TARGET_INFO_CUDA_DEVICE", number, device, pid)
    export.add("ThreadNames", export.text("python3"), 10, tid)
    export.add("TARGET_INFO_GPU_METRICS", _SYSTEM | number, 1, "SMs Active [%]")
    for step in range(steps):
        at = FIRST_NS + step * STEP_NS - shift_ns
        first = 100 * device + 10 * step + 1  # equal in all processes
        export.range(at, at + 18 * MS, range_name.format(step + 5), tid)
        export.range(
            at + MS, at + 5 * MS, f"aten::mm, seq = {step}, op_id = 7{step}, sizes = [[8, 8]]", tid
        )
        place = device, 7, first, gpid
        _write_call(export, at + 2 * MS, tid, first, "cudaLaunchKernel_v7000")
        export.add("CUPTI_ACTIVITY_KIND_KERNEL", at + 3 * MS, at + 6 * MS, *place,
                   export.text(GEMM), export.text("gemm"), 128, 1, 1, None)  # fmt: skip
        arrives = at + 8 * MS + late_ns
        payload = struct.pack("<QQ", COMMUNICATOR, MESSAGE_BYTES)
        header = struct.pack("<QQQQ", 1, 99, len(payload), 32)
        export.range(arrives - MS, arrives - MS // 2, "ncclAllReduce", tid, domain=1,
                     payload=header + payload)  # fmt: skip
        _write_call(export, arrives - MS + 1000, tid, first + 1, "cuLaunchKernelEx")
        export.add("CUPTI_ACTIVITY_KIND_KERNEL", arrives, at + 12 * MS, device, 21, first + 1,
                   gpid, export.text(NCCL), export.text("nccl"), 1, 1, 1, None)  # fmt: skip
        export.add("CUPTI_ACTIVITY_KIND_MEMCPY", at + 13 * MS, at + 14 * MS, device, 7, 0, gpid,
                   65536, 11, 4, 2)  # fmt: skip
        _write_call(export, at + 15 * MS, tid, first + 2, "cudaDeviceSynchronize_v3020")
        export.range(at + 15 * MS, at + 16 * MS, "save", tid, _START_END)
        export.range(at + 16 * MS, None, "saved", tid, _MARK)
        export.add("MPI_COLLECTIVES_EVENTS", at + 16 * MS, at + 17 * MS, tid,
                   export.text("MPI_Allreduce"), 8)  # fmt: skip
        export.add("GPU_METRICS", at + MS, _SYSTEM | number, 1, 50.5 + step)


def _write_call(export: _Export, start_ns: int, tid: int, correlation: int, name: str) -> None:
    export.add("CUPTI_ACTIVITY_KIND_RUNTIME", start_ns, start_ns + 10_000, 0, tid, correlation,
               export.text(name), 0)  # fmt: skip
