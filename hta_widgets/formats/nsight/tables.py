"""Tables of an export that hold events, and how their rows become events.

An export has one table per kind of event, which holds ids instead of names, processes and threads.
A global id has 8 bits each for hardware and virtual machine, 24 for the process, and 24 for the
thread::

    globalTid  0x01 00 000fa0 000fd2     process 0x01 00 000fa0, thread 0xfd2 = 4050

Processes number their correlation ids and devices independently, so the columns of `read_table`
include the process.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from hta_widgets.formats.event_rows import EventRows, distinct_rows, join_columns, map_distinct
from hta_widgets.readers.sqlite import NO_TIME, Database
from hta_widgets.taxonomy import MPI_CATEGORY
from hta_widgets.trace.arrays import Ints
from hta_widgets.trace.columns import StringPool

Columns = dict[str, Ints]

#: Bits of a global id that hold the operating system's number of a thread or process.
ID_BITS = 24
ID_MASK = (1 << ID_BITS) - 1
_PROCESS_MASK = (1 << 64 - ID_BITS) - 1
#: Thread number for managed-memory copies made by the driver. They have a separate track.
UNIFIED_THREAD = -2

_COPY_KINDS = (
    "Unknown", "HtoD", "DtoH", "HtoA", "AtoH", "AtoA", "AtoD", "DtoA", "DtoD", "HtoH", "PtoP",
    "HtoD", "DtoH", "DtoD",
)  # fmt: skip
_FIRST_UNIFIED_COPY, _LAST_UNIFIED_COPY = 11, 13
_MEMORY_KINDS = (
    "Pageable", "Pinned", "Device", "Array", "Managed", "Device Static", "Managed Static",
)  # fmt: skip
#: The CUDA version in a call's name, as in ``cudaLaunchKernel_v7000`` but not ``cuMemAlloc_v2``.
_VERSION = re.compile(r"_v\d{4,5}(_ptsz|_ptds)?$")
_DRIVER_CALL = 1


def process_of(global_id: int) -> int:
    """Return the part of a global id that identifies a process, as a nonnegative number."""
    return (global_id >> ID_BITS) & _PROCESS_MASK


def processes_of(global_ids: Ints) -> Ints:
    """Return the process of each global id; -1 for a missing id."""
    is_missing = np.isin(global_ids, (-1, NO_TIME))
    return np.where(is_missing, -1, (global_ids >> ID_BITS) & _PROCESS_MASK)


def machine_of(process: int) -> int:
    """Return the number of hardware and virtual machine on which a process runs."""
    return process >> ID_BITS


def texts_by_id(database: Database, *ids: Ints | Sequence[int]) -> dict[int, str]:
    """Return the strings of an export, keyed by id."""
    return database.texts_of("StringIds", "value", *ids)


def text_codes(
    database: Database,
    pool: StringPool,
    ids: Ints,
    unknown: str = "event {}",
    change: Callable[[str], str] = str,
) -> Ints:
    """Return the code in `pool` of each id's string.

    `unknown` is formatted with the id to name an event whose string is not in the export.
    """
    texts = {-1: f"{unknown.removesuffix(' {}')} without a name"}
    texts |= texts_by_id(database, ids)
    return map_distinct(
        ids, lambda number: pool.add(change(texts.get(number, unknown.format(number))))
    )


@dataclass(frozen=True, slots=True, eq=False)
class ExportTable:
    """A table of events, named without a suffix such as ``_V2``."""

    name: str
    category: str
    #: columns with the id of a name; the first one whose string is in the export is used
    names: tuple[str, ...] = ("nameId",)
    #: name of an event whose string is not in the export; formatted with the id
    unknown: str = "event {}"
    #: makes a name from the values of the columns `names`, which are then not string ids
    label: Callable[..., str] | None = None
    #: whether its events have a device and a stream instead of a thread
    of_device: bool = False
    #: column for each arg of an event's record; NULL values are omitted
    args: dict[str, str] = field(default_factory=dict)

    def stored_names(self, database: Database) -> list[str]:
        """Return the names of the table's versions that have rows, or else its own name."""
        pattern = re.compile(rf"{self.name}(_V\d+)?")
        names = filter(pattern.fullmatch, sorted(database.tables))
        return [name for name in names if not database.is_empty(name)] or [self.name]


def _copy_label(kind: int, source: int, target: int) -> str:
    ends = f"{_word(_MEMORY_KINDS, source)} -> {_word(_MEMORY_KINDS, target)}"
    return f"Memcpy {_word(_COPY_KINDS, kind)} ({ends})"


def _fill_label(kind: int) -> str:
    return f"Memset ({_word(_MEMORY_KINDS, kind) if kind >= 0 else 'Device'})"


def _word(words: tuple[str, ...], code: int) -> str:
    return words[code] if 0 <= code < len(words) else "Unknown"


_SHORT_NAME = "short name"
_CONTEXT_ARGS = {"context": "contextId", "graph node id": "graphNodeId"}
_KERNEL_ARGS = {
    **{axis: axis for what in ("grid", "block") for axis in (f"{what}X", f"{what}Y", f"{what}Z")},
    "registers per thread": "registersPerThread",
    "static shared memory": "staticSharedMemory",
    "dynamic shared memory": "dynamicSharedMemory",
    _SHORT_NAME: "shortName",
    **_CONTEXT_ARGS,
}
_SHARED_MEMORY = ("static shared memory", "dynamic shared memory")
_COPY_ARGS = {**_CONTEXT_ARGS, "source device": "srcDeviceId", "target device": "dstDeviceId"}
_GRAPH_ARGS = {"graph id": "graphId", "graph exec id": "graphExecId", "context": "contextId"}
_MPI_ARGS = {
    "bytes": "size",
    "communicator": "commHandle",
    "root": "rootRank",
    "peer": "remoteRank",
}

KERNELS = ExportTable(
    "CUPTI_ACTIVITY_KIND_KERNEL", "kernel", ("demangledName", "shortName", "mangledName"),
    "kernel {}", of_device=True, args=_KERNEL_ARGS,
)  # fmt: skip
GRAPHS = ExportTable(
    "CUPTI_ACTIVITY_KIND_GRAPH_TRACE", "kernel", ("graphId",), label="CUDA graph {}".format,
    of_device=True, args=_GRAPH_ARGS,
)  # fmt: skip
CALLS = ExportTable(
    "CUPTI_ACTIVITY_KIND_RUNTIME", "cuda_runtime", unknown="CUDA call {}",
    args={"return value": "returnValue"},
)  # fmt: skip
#: All tables of events except NVTX: device tables, then host tables.
DEVICE_TABLES = (
    KERNELS,
    ExportTable(
        "CUPTI_ACTIVITY_KIND_MEMCPY", "gpu_memcpy", ("copyKind", "srcKind", "dstKind"),
        label=_copy_label, of_device=True, args=_COPY_ARGS,
    ),
    ExportTable(
        "CUPTI_ACTIVITY_KIND_MEMSET", "gpu_memset", ("memKind",), label=_fill_label,
        of_device=True, args={"value": "value", **_CONTEXT_ARGS},
    ),
    GRAPHS,
)  # fmt: skip
HOST_TABLES = (
    CALLS,
    *(
        ExportTable(f"MPI_{kind}_EVENTS", MPI_CATEGORY, ("textId",), args=_MPI_ARGS)
        for kind in ("COLLECTIVES", "P2P", "START_WAIT", "OTHER")
    ),
    ExportTable("OSRT_API", "os_runtime"),
    ExportTable("CUPTI_ACTIVITY_KIND_OVERHEAD", "overhead", args={"correlation": "correlationId"}),
    ExportTable("PROFILER_OVERHEAD", "overhead"),
)


def read_table(database: Database, table: ExportTable, rows: EventRows) -> Columns:
    """Return the columns of a table's events, with codes of names and args in `rows`."""
    track = "deviceId streamId globalPid" if table.of_device else "globalTid"
    required = " ".join(["start end correlationId", track, *table.names])
    optional = " ".join(["eventClass bytes graphNodeId", *table.args.values()])
    return join_columns(
        [
            _event_columns(database, table, columns, rows)
            for name in table.stored_names(database)
            for columns in database.integer_blocks(name, required, optional=optional)
        ]
    )


def _event_columns(
    database: Database, table: ExportTable, columns: Columns, rows: EventRows
) -> Columns:
    ids = columns["globalPid" if table.of_device else "globalTid"]
    missing = np.full(len(ids), -1)
    category = np.full(len(ids), rows.category.add(table.category))
    if table is CALLS:
        category[columns["eventClass"] == _DRIVER_CALL] = rows.category.add("cuda_driver")
    event_columns = {
        "start_ns": columns["start"],
        "end_ns": columns["end"],
        "name": _names(database, table, columns, rows),
        "category": category,
        "args": _args(database, table, columns, rows),
        "process": processes_of(ids),
        "correlation": columns["correlationId"] if table.of_device or table is CALLS else missing,
    }
    if not table.of_device:
        return event_columns | {"thread": ids & ID_MASK, "device": missing}
    stream = np.maximum(columns["streamId"], 0)
    kinds = columns.get("copyKind", np.array(-1))
    is_unified = (kinds >= _FIRST_UNIFIED_COPY) & (kinds <= _LAST_UNIFIED_COPY)
    return event_columns | {
        "thread": np.where(is_unified, UNIFIED_THREAD, stream),
        "device": np.maximum(columns["deviceId"], 0),
        "stream": stream,
        "size_bytes": columns["bytes"],
        "graph_node": columns["graphNodeId"],
    }


def _names(database: Database, table: ExportTable, columns: Columns, rows: EventRows) -> Ints:
    name_columns = [columns[name] for name in table.names]
    if table.label is not None:
        distinct, code = distinct_rows(*name_columns)
        return rows.name_codes(table.label(*values) for values in distinct)[code]
    ids = name_columns[0]
    if len(name_columns) > 1:
        known_ids = list(texts_by_id(database, *name_columns))
        has_text = [np.isin(column, known_ids) for column in name_columns]
        has_id = [column >= 0 for column in name_columns]
        ids = np.select([*has_text, *has_id], [*name_columns, *name_columns], -1)

    def change(text: str) -> str:
        return _VERSION.sub("", text) if table is CALLS else text

    return text_codes(database, rows.name, ids, table.unknown, change)


def _args(database: Database, table: ExportTable, columns: Columns, rows: EventRows) -> Ints:
    if not table.args:
        return np.zeros(len(columns["rowid"]), np.int64)
    short_names = texts_by_id(database, columns["shortName"]) if _SHORT_NAME in table.args else {}

    def args_of(*values: int) -> dict[str, Any]:
        args: dict[str, Any] = {
            label: value for label, value in zip(table.args, values, strict=True) if value != -1
        }
        short_name = short_names.get(args.pop(_SHORT_NAME, -1))
        return _join_launch_args(args | ({_SHORT_NAME: short_name} if short_name else {}))

    return rows.args_by_row(args_of, *(columns[name] for name in table.args.values()))


def _join_launch_args(args: dict[str, Any]) -> dict[str, Any]:
    """Combine the args of a launch as PyTorch does: ``"grid": [128, 1, 1]``, and shared memory."""
    joined: dict[str, Any] = {}
    for prefix in ("grid", "block"):
        sizes = [args.pop(f"{prefix}{axis}", None) for axis in "XYZ"]
        if None not in sizes:
            joined[prefix] = sizes
    if all(key in args for key in _SHARED_MEMORY):
        joined["shared memory"] = sum(args[key] for key in _SHARED_MEMORY)
    return joined | args
