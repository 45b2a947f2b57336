"""The tables of an export that hold events, and how a row of each becomes an event.

An export has a table per kind of event, with ids instead of names, processes and threads. A global
id has 8 bits each of hardware and virtual machine, 24 of the process, and 24 of the thread::

    globalTid  0x01 00 000fa0 000fd2     process 0x01 00 000fa0, thread 0xfd2 = 4050

Correlation ids and devices are numbered by each process, so an `EventBlock` states the process of
every event. `read_block` reads all events of a table, or only some rows whose records are
wanted later.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from hta_widgets.readers.sqlite import Database
from hta_widgets.taxonomy import MPI_CATEGORY
from hta_widgets.trace.arrays import Bools, Ints, Rows
from hta_widgets.trace.columns import StringPool

#: Bits of the number of a thread, and of a process, in a global id.
ID_BITS = 24
ID_MASK = (1 << ID_BITS) - 1
#: Thread of copies of managed memory that the driver makes; they have a track of their own.
UNIFIED_MEMORY, UNIFIED_THREAD = "unified memory", -2
#: Kinds of events and records that are not in `EVENT_TABLES`.
RANGE, MARK, ASYNC_BEGIN, ASYNC_END, STEP, NAME = range(100, 106)

_COPY_KINDS = (
    "Unknown", "HtoD", "DtoH", "HtoA", "AtoH", "AtoA", "AtoD", "DtoA", "DtoD", "HtoH", "PtoP",
    "HtoD", "DtoH", "DtoD",
)  # fmt: skip
_FIRST_UNIFIED_COPY, _LAST_UNIFIED_COPY = 11, 13
_MEMORY_KINDS = (
    "Pageable", "Pinned", "Device", "Array", "Managed", "Device Static", "Managed Static",
)  # fmt: skip
#: The version of CUDA in a call's name, as in ``cudaLaunchKernel_v7000``; not in ``cuMemAlloc_v2``.
_VERSION = re.compile(r"_v\d{4,5}(_ptsz|_ptds)?$")
_TEXT_TABLE = "StringIds"
#: Columns with names of kernels; the first that has one counts.
_KERNEL_NAMES = ("demangledName", "shortName", "mangledName")


def process_of(global_id: Ints) -> Ints:
    """Return the part of global ids that identifies a process."""
    return global_id >> ID_BITS


def id_in_system(process: int) -> int:
    """Return the number that the system gave to a process or thread."""
    return process & ID_MASK


def thread_id(thread: int) -> int | str:
    """Return the id of a thread or stream in records."""
    return UNIFIED_MEMORY if thread == UNIFIED_THREAD else thread


@dataclass(slots=True)
class EventBlock:
    """Events of one or several tables."""

    kind: Ints  # position in `EVENT_TABLES`, or `RANGE`, `MARK` and so on
    rowid: Ints
    start_ns: Ints  # since the start of the session
    end_ns: Ints  # `NO_TIME` for marks and for ranges that never end
    name: Ints  # codes into a pool
    category: Ints  # codes into `CATEGORIES`
    process: Ints  # -1 for none
    thread: Ints  # of events of a device, the stream or `UNIFIED_THREAD`
    device: Ints  # -1 for events of the host
    stream: Ints  # -1 for events of the host
    correlation: Ints  # unique within a process
    size_bytes: Ints  # of copies and fills, else -1
    domain: Ints  # codes of NVTX domains; -1 for other events

    def __len__(self) -> int:
        return len(self.start_ns)

    def select(self, mask: Bools) -> EventBlock:
        """Return the events of a mask."""
        return self if mask.all() else self.take(np.flatnonzero(mask))

    def take(self, rows: Rows | slice) -> EventBlock:
        """Return some of the events."""
        return EventBlock(*(getattr(self, name)[rows] for name in self.__slots__))

    def columns(self) -> dict[str, Ints]:
        """Return the columns by name."""
        return {name: getattr(self, name) for name in self.__slots__}


def event_block(start_ns: Ints, **columns: Ints | int) -> EventBlock:
    """Return events; a number stands for a column that has it everywhere, -1 by default."""
    values = {**dict.fromkeys(EventBlock.__slots__, -1), **columns, "start_ns": start_ns}
    narrow: dict[str, Any] = {
        k: np.int32(v) if isinstance(v, int) else v for k, v in values.items()
    }
    return EventBlock(**{k: np.broadcast_to(v, len(start_ns)) for k, v in narrow.items()})


def concatenate_blocks(blocks: Iterable[EventBlock]) -> EventBlock:
    """Return the events of all blocks."""
    all_blocks = list(blocks)
    filled = [block for block in all_blocks if len(block)] or all_blocks[:1]
    if len(filled) == 1:
        return filled[0]
    parts = [[getattr(block, name) for name in EventBlock.__slots__] for block in filled]
    return EventBlock(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))


def texts_by_id(database: Database, ids: Iterable[int]) -> dict[int, str]:
    """Return texts of an export by their ids."""
    return database.texts_of(_TEXT_TABLE, "id", "value", ids)


class Texts:
    """Texts of an export by id, as codes into a pool of names."""

    def __init__(self, database: Database, pool: StringPool) -> None:
        self.pool = pool
        self._database = database

    def codes(
        self, ids: Ints, change: Callable[[str], str] = str, unknown: str = "name {}"
    ) -> Ints:
        """Return the codes of texts; only those that are used enter the pool."""
        distinct, places = np.unique(ids, return_inverse=True)
        texts = texts_by_id(self._database, distinct.tolist())
        codes = [
            self.pool.add(change(texts.get(number, unknown.format(number))))
            for number in distinct.tolist()
        ]
        return np.array(codes, np.int64)[places] if codes else np.empty(0, np.int64)


#: A table's columns of integers by name.
Columns = dict[str, Ints]
#: Returns the codes of names of a table's rows, and of their categories or category.
NameRows = Callable[[Columns, Texts], tuple[Ints, Ints | int]]

CATEGORIES = (
    "kernel", "gpu_memcpy", "gpu_memset", "cuda_runtime", "cuda_driver", MPI_CATEGORY,
    "os_runtime", "overhead", "user_annotation", "cpu_op",
)  # fmt: skip


def category_code(name: str) -> int:
    """Return the code of a category."""
    return CATEGORIES.index(name)


@dataclass(frozen=True, slots=True)
class ExportTable:
    """A table of events.

    Attributes
    ----------
    name : str
        Its name, without a suffix such as ``_V2``.
    columns : tuple of str
        What `name_rows` needs.
    name_rows : NameRows
    of_device : bool
        Whether its events have a device and a stream; others have a thread.
    args : dict of str to str
        Columns by the arg of an event's record; NULL is left out.
    text_args : dict of str to str
        The same for columns that refer to texts.
    """

    name: str
    columns: tuple[str, ...]
    name_rows: NameRows
    of_device: bool = False
    args: dict[str, str] = field(default_factory=dict)
    text_args: dict[str, str] = field(default_factory=dict)

    def stored_name(self, database: Database) -> str:
        """Return the name of the table in a file; the name itself if it is missing."""
        pattern = re.compile(rf"{self.name}(_V\d+)?")
        return next((name for name in database.tables if pattern.fullmatch(name)), self.name)


def _name_kernels(columns: Columns, texts: Texts) -> tuple[Ints, Ints | int]:
    ids = columns[_KERNEL_NAMES[-1]]
    for column in _KERNEL_NAMES[-2::-1]:
        ids = np.where(columns[column] >= 0, columns[column], ids)
    codes = texts.codes(ids, unknown="kernel {}")
    return codes, category_code("kernel")


def _name_copies(columns: Columns, texts: Texts) -> tuple[Ints, Ints | int]:
    kinds = np.stack([columns[name] for name in ("copyKind", "srcKind", "dstKind")])
    distinct, places = np.unique(kinds, axis=1, return_inverse=True)
    names = [
        f"Memcpy {_word(_COPY_KINDS, kind)} ({_word(_MEMORY_KINDS, source)} ->"
        f" {_word(_MEMORY_KINDS, target)})"
        for kind, source, target in distinct.T.tolist()
    ]
    codes = np.array([texts.pool.add(name) for name in names], np.int64)[places.reshape(-1)]
    return codes, category_code("gpu_memcpy")


def _word(words: tuple[str, ...], code: int) -> str:
    return words[code] if 0 <= code < len(words) else "Unknown"


def _name_fills(columns: Columns, texts: Texts) -> tuple[Ints, Ints | int]:
    count = len(columns["start"])
    return np.full(count, texts.pool.add("Memset (Device)")), category_code("gpu_memset")


def _name_graphs(columns: Columns, texts: Texts) -> tuple[Ints, Ints | int]:
    distinct, places = np.unique(columns["graphId"], return_inverse=True)
    codes = [texts.pool.add(f"CUDA graph {number}") for number in distinct.tolist()]
    return np.array(codes, np.int64)[places], category_code("kernel")


def _name_calls(columns: Columns, texts: Texts) -> tuple[Ints, Ints | int]:
    codes = texts.codes(columns["nameId"], lambda text: _VERSION.sub("", text), "CUDA call {}")
    codes_of = np.array([category_code(name) for name in ("cuda_runtime", "cuda_driver")], np.int32)
    return codes, codes_of[(columns["eventClass"] == 1).astype(np.int8)]


def _names_in(column: str, category: str) -> NameRows:
    """Return a function that takes names from the texts that a column refers to."""

    def name_rows(columns: Columns, texts: Texts) -> tuple[Ints, Ints | int]:
        codes = texts.codes(columns[column])
        return codes, category_code(category)

    return name_rows


_LAUNCH_ARGS = {
    **{axis: axis for what in ("grid", "block") for axis in (f"{what}X", f"{what}Y", f"{what}Z")},
    "registers per thread": "registersPerThread",
    "static shared memory": "staticSharedMemory",
    "dynamic shared memory": "dynamicSharedMemory",
    "context": "contextId",
    "graph node id": "graphNodeId",
}
_SHARED_MEMORY = ("static shared memory", "dynamic shared memory")
_MPI_ARGS = {
    "bytes": "size",
    "communicator": "commHandle",
    "root": "rootRank",
    "peer": "remoteRank",
}
_MPI_TABLES = tuple(
    ExportTable(
        f"MPI_{kind}_EVENTS", ("textId",), _names_in("textId", MPI_CATEGORY), args=_MPI_ARGS
    )
    for kind in ("COLLECTIVES", "P2P", "START_WAIT", "OTHER")
)
_OVERHEAD = _names_in("nameId", "overhead")

#: All tables of events but NVTX's. Records refer to positions in this list.
EVENT_TABLES = (
    ExportTable(
        "CUPTI_ACTIVITY_KIND_KERNEL", _KERNEL_NAMES, _name_kernels, of_device=True,
        args=_LAUNCH_ARGS, text_args={"short name": "shortName"},
    ),
    ExportTable(
        "CUPTI_ACTIVITY_KIND_MEMCPY", ("bytes", "copyKind", "srcKind", "dstKind"), _name_copies,
        of_device=True, args={"bytes": "bytes", "context": "contextId",
                              "graph node id": "graphNodeId", "source device": "srcDeviceId",
                              "target device": "dstDeviceId"},
    ),
    ExportTable(
        "CUPTI_ACTIVITY_KIND_MEMSET", ("bytes",), _name_fills, of_device=True,
        args={"bytes": "bytes", "value": "value", "context": "contextId"},
    ),
    ExportTable(
        "CUPTI_ACTIVITY_KIND_GRAPH_TRACE", ("graphId",), _name_graphs, of_device=True,
        args={"graph id": "graphId", "graph exec id": "graphExecId", "context": "contextId"},
    ),
    ExportTable(
        "CUPTI_ACTIVITY_KIND_RUNTIME", ("eventClass", "nameId"), _name_calls,
        args={"return value": "returnValue"},
    ),
    *_MPI_TABLES,
    ExportTable("OSRT_API", ("nameId",), _names_in("nameId", "os_runtime")),
    ExportTable("CUPTI_ACTIVITY_KIND_OVERHEAD", ("nameId",), _OVERHEAD),
    ExportTable("PROFILER_OVERHEAD", ("nameId",), _OVERHEAD),
)  # fmt: skip
GRAPHS, CALLS = 3, 4

_DEVICE_COLUMNS = ("deviceId", "streamId", "correlationId", "globalPid")
_HOST_COLUMNS = ("globalTid", "correlationId")


def read_block(
    database: Database, number: int, texts: Texts, rowids: Ints | None = None
) -> EventBlock:
    """Return the events of a table, or of some of its rows."""
    table = EVENT_TABLES[number]
    place = _DEVICE_COLUMNS if table.of_device else _HOST_COLUMNS
    names = dict.fromkeys(("start", "end", *place, *table.columns))
    columns = database.integers(table.stored_name(database), tuple(names), rowids=rowids)
    name, category = table.name_rows(columns, texts)
    common: dict[str, Any] = {
        "rowid": columns["rowid"],
        "start_ns": columns["start"],
        "end_ns": columns["end"],
        "name": name,
        "category": category,
        "correlation": columns["correlationId"],
    }
    if not table.of_device:
        ids = columns["globalTid"]
        return event_block(kind=number, process=process_of(ids), thread=ids & ID_MASK, **common)
    kinds = columns.get("copyKind", np.array(-1))
    is_unified = (kinds >= _FIRST_UNIFIED_COPY) & (kinds <= _LAST_UNIFIED_COPY)
    return event_block(
        kind=number,
        process=process_of(columns["globalPid"]),
        thread=np.where(is_unified, UNIFIED_THREAD, columns["streamId"]),
        device=np.maximum(columns["deviceId"], 0),
        stream=columns["streamId"],
        size_bytes=columns.get("bytes", -1),
        **common,
    )


def args_of_rows(database: Database, number: int, rowids: Ints) -> list[dict[str, Any]]:
    """Return the further args of some rows of a table."""
    table = EVENT_TABLES[number]
    stored = table.stored_name(database)
    labels = {**table.args, **table.text_args}
    rows = database.rows(stored, ("rowid", *labels.values()), rowids=rowids)
    args: dict[int, dict[str, Any]] = {rowid: {} for rowid in rowids.tolist()}
    for place, label in enumerate(labels, 1):
        values = {row[0]: row[place] for row in rows if type(row[place]) is int}
        if label in table.text_args:
            words = texts_by_id(database, values.values())
            values = {rowid: words[key] for rowid, key in values.items() if key in words}
        for rowid, value in values.items():
            if value != -1:
                args[rowid][label] = value
    return [_join_launch_args(row_args) for row_args in args.values()]


def _join_launch_args(args: dict[str, Any]) -> dict[str, Any]:
    """Join the args of a launch as PyTorch does: ``"grid": [128, 1, 1]``, and shared memory."""
    joined: dict[str, Any] = {}
    for prefix in ("grid", "block"):
        sizes = [args.pop(f"{prefix}{axis}", None) for axis in "XYZ"]
        if None not in sizes:
            joined[prefix] = sizes
    if all(key in args for key in _SHARED_MEMORY):
        joined["shared memory"] = sum(args[key] for key in _SHARED_MEMORY)
    return joined | args


_WAITS, _RECORDS = "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION", "CUPTI_ACTIVITY_KIND_CUDA_EVENT"
_WAIT_COLUMNS = ("correlationId", "globalPid", "syncType", "streamId", "eventId")
_WAIT_KINDS = {1: "event", 2: "stream waits for event", 3: "stream", 4: "context"}
_STREAM_WAITS = 2
_NONE = (1 << 32) - 1


def waits_of_calls(
    database: Database, process: int, correlations: Iterable[int]
) -> dict[int, dict[str, Any]]:
    """Return what some calls of a process wait for as args, by their correlation ids.

    Of a stream that waits for an event, the args state what PyTorch's do: the stream into which the
    event was recorded, and the correlation id of the call that recorded it.
    """
    if not set(_WAIT_COLUMNS) <= set(database.columns_of(_WAITS)):
        return {}
    listed = ",".join(map(str, correlations))
    where = f"correlationId in ({listed})"
    rows = database.rows(_WAITS, (*_WAIT_COLUMNS, "eventSyncId"), where=where)
    rows = [row for row in rows if isinstance(row[1], int) and row[1] >> ID_BITS == process]
    records = _event_records(database, process, [row[4:] for row in rows])
    waits = {}
    for correlation, _, kind, stream, *event in rows:
        args: dict[str, Any] = {"synchronization": _WAIT_KINDS.get(kind, f"type {kind}")}
        is_stream_wait = kind == _STREAM_WAITS
        stream_key = "waiting stream" if is_stream_wait else "waited stream"
        args |= {
            key: value
            for key, value in ((stream_key, stream), ("waited event", event[0]))
            if value not in (None, _NONE)
        }
        earlier = [
            record for record in records.get(_event_key(*event), ()) if record[0] < correlation
        ]
        if is_stream_wait and earlier:
            args["wait_on_cuda_event_record_corr_id"], args["wait_on_stream"] = max(earlier)
        waits[correlation] = args
    return waits


def _event_key(event: object, recording: object) -> tuple[str, object]:
    """Return what identifies a recording of an event; ids of events are used again."""
    if recording in (None, _NONE):
        return "eventId", event
    return "eventSyncId", recording


def _event_records(
    database: Database, process: int, events: Iterable[tuple[object, ...]]
) -> dict[tuple[str, object], list[tuple[int, int]]]:
    """Return the correlation id and the stream of each recording of some events of a process."""
    columns = ("eventId", "eventSyncId", "correlationId", "streamId", "globalPid")
    present = database.columns_of(_RECORDS)
    records: dict[tuple[str, object], list[tuple[int, int]]] = {}
    keys = {_event_key(*event) for event in events}
    for column in {"eventId", "eventSyncId"} & set(present):
        ids = [value for name, value in keys if name == column and isinstance(value, int)]
        where = f"{column} in ({','.join(map(str, ids))})"
        for *ids_of_row, correlation, stream, of_process in database.rows(
            _RECORDS, columns, where=where
        ):
            values = correlation, stream, of_process
            if all(isinstance(value, int) for value in values) and of_process >> ID_BITS == process:
                key = column, ids_of_row[column == "eventSyncId"]
                records.setdefault(key, []).append((correlation, stream))
    return records
