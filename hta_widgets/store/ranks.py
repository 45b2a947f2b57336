"""Write the rank files of a store, and open them as `Trace` objects with lazily read columns.

Each rank is one Arrow file; its row counts and time span are in the manifest. Metadata is read on
first access. `StoredEvents` and the other tables map a column when its field is first accessed, so
an analysis of kernel times never reads event arguments.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from hta_widgets import taxonomy
from hta_widgets.arguments import convert
from hta_widgets.errors import TraceError
from hta_widgets.store.checks import (
    Clock,
    DamagedFileError,
    Facts,
    RankEntry,
    all_entries,
    damage_text,
    validate_manifest,
)
from hta_widgets.store.files import (
    MANIFEST,
    Column,
    FileFrame,
    TextColumn,
    read_manifest,
    write_columns,
)
from hta_widgets.store.rank_file import SourceRestorer, StoredRank, StoredSource
from hta_widgets.store.records import StoredRecords, comm_arg_columns, pack_records
from hta_widgets.trace.arrays import Codes
from hta_widgets.trace.columns import (
    AsyncTable,
    CopyTable,
    CounterTable,
    EventTable,
    FlowTable,
    InstantTable,
    RecordSource,
    StringPool,
    TableFile,
    Track,
)
from hta_widgets.trace.merged_format import ExportPart, parse_export_part
from hta_widgets.trace.problems import Problem, Problems
from hta_widgets.trace.trace import Trace
from hta_widgets.trace.traceset import TraceSet

#: Fields of `Trace` that are tables, with their names in files.
TABLES = {
    "_table": "events", "flow_table": "flows", "counter_table": "counters",
    "instant_table": "instants", "async_table": "asyncs", "copy_table": "copies",
}  # fmt: skip

#: Numeric columns, by table.
NUMBERS = {
    "events": (
        "start_ns", "dur_ns", "name", "category", "kind", "track", "depth", "parent", "stream",
        "correlation", "step", "phase", "record",
    ),
    "flows": ("kind", "source", "target", "source_record", "target_record"),
    "counters": ("time_ns", "series_id", "value", "record"),
    "instants": ("time_ns", "name", "category", "record"),
    "asyncs": ("start_ns", "dur_ns", "name", "category", "record"),
    "copies": ("record", "gb_per_s", "size_bytes"),
}  # fmt: skip

#: String columns that are stored as codes and distinct values, by table.
CODED = {"instants": ("pid", "tid", "scope"), "asyncs": ("async_id", "pid")}


class _StoredPool(StringPool):
    """A string pool that builds its index of codes on first use."""

    __slots__ = ()

    def __init__(self, values: list[str]) -> None:
        self.values = values

    def __getattr__(self, name: str) -> Any:
        if name != "_codes":
            raise AttributeError(name)
        self._codes = {value: code for code, value in enumerate(self.values)}
        return self._codes


def _read(rank: StoredRank, table: str, name: str) -> Any:
    full = f"{table}.{name}"
    if name in NUMBERS[table]:
        return rank.numbers(full)
    if name in CODED.get(table, ()):
        return rank.get_or_compute(full, lambda: _decoded_column(rank, full))
    if name in {"names", "categories"}:
        return rank.get_or_compute(f"pool.{name}", lambda: _StoredPool(rank.strings(name)))
    if name == "tracks":
        return rank.get_or_compute(full, lambda: [_track(values) for values in rank.json("tracks")])
    if name == "kinds":
        return rank.json("flow_kinds")
    if name == "series":
        return rank.get_or_compute(full, lambda: rank.json("counter_series"))
    if name == "end_record":
        return rank.get_or_compute(
            full, lambda: dict(rank.numbers("events.ends").reshape(-1, 2).tolist())
        )
    raise AttributeError(f"{table} have no column {name!r}")


def _decoded_column(rank: StoredRank, name: str) -> list[str]:
    values = rank.strings(f"{name}.values")
    return [values[code] for code in rank.numbers(f"{name}.codes").tolist()]


def _track(values: list[Any]) -> Track:
    pid, tid, role, label, process, stream, sort, nested, lanes = values
    return Track(pid, tid, role, label, process, stream, tuple(sort), nested, lanes)


class _LazyColumns:
    """Base class of tables whose fields are read from the columns of a rank on first access."""

    __slots__ = ()
    _rank: StoredRank
    _count: int
    _field = ""

    def __init__(self, rank: StoredRank, count: int) -> None:
        # Slots are defined in subclasses: with two base classes, only one may have non-empty slots.
        self._rank, self._count = rank, count  # type: ignore[misc]

    def __getattr__(self, name: str) -> Any:
        # Called only for missing attributes: unread fields, and methods that pickle looks up.
        if name.startswith("_"):
            raise AttributeError(name)
        return self._rank.stored_or_rebuilt(
            lambda: _read(self._rank, TABLES[self._field], name),
            lambda trace: getattr(getattr(trace, self._field), name),
        )

    def __len__(self) -> int:
        return self._count

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self._rank, self._count)


class StoredEvents(_LazyColumns, EventTable):
    """See `EventTable`."""

    __slots__ = ("_count", "_rank", "_span_ns")
    _field = "_table"

    def __init__(self, rank: StoredRank, count: int, span_ns: tuple[int, int]) -> None:
        _LazyColumns.__init__(self, rank, count)
        self._span_ns = span_ns

    @property
    def first_ns(self) -> int:
        """Start of the earliest event."""
        return self._span_ns[0]

    @property
    def last_ns(self) -> int:
        """End of the last event."""
        return self._span_ns[1]

    def with_kinds(self, kind: Codes) -> EventTable:
        """Return the same events with the kinds in `kind`."""
        other = self.with_stored_kinds()
        other.kind = kind
        return other

    @property
    def has_own_kinds(self) -> bool:
        """Whether the kinds differ from those in the file."""
        try:
            object.__getattribute__(self, "kind")
        except AttributeError:
            return False
        return True

    @property
    def file(self) -> TableFile | None:
        """The rank's file, or None if the kinds differ from those in the file."""
        return None if self.has_own_kinds else self._rank

    def with_stored_kinds(self) -> StoredEvents:
        """Return the same events with the kinds from the file."""
        return StoredEvents(self._rank, self._count, self._span_ns)

    def __reduce__(self) -> tuple[object, ...]:
        return StoredEvents, (self._rank, self._count, self._span_ns)


class _StoredFlows(_LazyColumns, FlowTable):
    __slots__ = ("_count", "_rank")
    _field = "flow_table"


class _StoredCounters(_LazyColumns, CounterTable):
    __slots__ = ("_count", "_rank")
    _field = "counter_table"


class _StoredInstants(_LazyColumns, InstantTable):
    __slots__ = ("_count", "_rank")
    _field = "instant_table"


class _StoredAsyncs(_LazyColumns, AsyncTable):
    __slots__ = ("_count", "_rank")
    _field = "async_table"


class _StoredCopies(_LazyColumns, CopyTable):
    __slots__ = ("_count", "_rank")
    _field = "copy_table"


KeepSource = Callable[[RecordSource], StoredSource]


def write_trace(path: Path, trace: Trace, keep_source: KeepSource | None) -> dict[str, Any]:
    """Write the file of one rank; return its manifest entry."""
    columns = _table_columns(trace)
    table = trace._table  # noqa: SLF001 - not reclassified by later rules
    facts: dict[str, Any] = {}
    if trace.source is not None and keep_source is not None:
        source = keep_source(trace.source)
        facts |= source.facts
        columns |= {f"source.{name}": column for name, column in source.columns.items()}
    elif trace.source is not None:
        columns |= _record_columns(trace, trace.source)
    # This import takes about 10 ms and is not needed for reading a store.
    from hta_widgets.tiles.stored_lanes import FACT, stored_lane_columns

    if trace._rules_version == 0:  # noqa: SLF001 - otherwise, reclassified when opened
        lanes, facts[FACT] = stored_lane_columns(table)
        columns |= lanes
    frame = write_columns(path, columns, facts)
    return {
        "file": path.name,
        "frame": list(frame),
        "rows": {name: len(getattr(trace, name)) for name in TABLES},
        "span_ns": [table.first_ns, table.last_ns],
        "records": -1 if trace.source is None else len(trace.source),
        "has_profile": trace.profile is not None,
        "stated": {
            "export_part": trace.export_part and msgspec.to_builtins(trace.export_part),
            "world_size": trace.world_size,
        },
        "rules": _rules() if trace._rules_version == 0 else "",  # noqa: SLF001
        "trace": {name: getattr(trace, name) for name in Facts.__annotations__},
    }


def _record_columns(trace: Trace, source: RecordSource) -> dict[str, Column]:
    columns = pack_records(source, trace._table.record)  # noqa: SLF001
    columns |= comm_arg_columns(trace)
    texts = getattr(source, "metadata_text", None)
    decoded = texts and {key: bytes(raw).decode("latin-1") for key, raw in texts.items()}
    return columns | {"metadata_text": _json(decoded)}


def _table_columns(trace: Trace) -> dict[str, Column]:
    columns: dict[str, Column] = {}
    for field, table_name in TABLES.items():
        table = getattr(trace, field)
        for column in NUMBERS[table_name]:
            columns[f"{table_name}.{column}"] = np.asarray(getattr(table, column))
        for column in CODED.get(table_name, ()):
            columns |= _coded_column(f"{table_name}.{column}", getattr(table, column))
    events = trace._table  # noqa: SLF001 - not reclassified by later rules
    ends = [value for pair in events.end_record.items() for value in pair]
    tracks = [[getattr(track, name) for name in _TRACK_FIELDS] for track in events.tracks]
    profile = None if trace.profile is None else msgspec.to_builtins(trace.profile)
    return columns | {
        "events.ends": np.array(ends, np.int64),
        "names": TextColumn.of(events.names.values),
        "categories": TextColumn.of(events.categories.values),
        "tracks": _json(tracks),
        "flow_kinds": _json(trace.flow_table.kinds),
        "counter_series": _json(trace.counter_table.series),
        "metadata": _json(trace.metadata),
        "profile": _json(profile),
    }


_TRACK_FIELDS = ("pid", "tid", "role", "label", "process", "stream", "sort", "nested", "lanes")


def _json(value: object) -> TextColumn:
    """Return a column that contains one string: `value` as JSON."""
    # Unlike msgspec, json supports lone surrogates and integers of any size.
    texts = TextColumn()
    try:
        texts.add(json.dumps(value, default=_plain_value).encode())
    except (TypeError, ValueError) as cause:
        raise TraceError(f"the file's metadata cannot be stored ({cause})") from None
    return texts


def _plain_value(value: object) -> object:
    if isinstance(value, np.generic):
        return value.item()
    raise TypeError(f"a {type(value).__name__} cannot be written as JSON")


def _coded_column(name: str, values: list[str]) -> dict[str, Column]:
    pool = StringPool()
    codes = [pool.add(value) for value in values]
    return {
        f"{name}.codes": np.array(codes, np.int32),
        f"{name}.values": TextColumn.of(pool.values),
    }


@cache
def _rules() -> str:
    """Return a fingerprint of the built-in classification rules."""
    return f"{zlib.crc32(Path(taxonomy.__file__).read_bytes()):08x}"


def open_trace(
    folder: Path,
    entry: RankEntry,
    position: int = 0,
    restorer: SourceRestorer | None = None,
    profile_type: Callable[[str], type[Any]] | None = None,
) -> Trace:
    """Return the trace of a manifest entry; its columns are read on first access."""
    rows: Any = entry["rows"]
    facts = entry["trace"]
    sizes = {table: rows[name] for name, table in TABLES.items()} | {"records": entry["records"]}
    rank = StoredRank(
        folder / entry["file"],
        FileFrame(*entry["frame"]),
        position,
        restorer,
        sizes,
        entry["span_ns"],
    )
    source_type: Any = StoredRecords if restorer is None else _FileRecords
    source = source_type(rank, entry["records"], facts["path"]) if entry["records"] >= 0 else None
    trace = StoredTrace(
        metadata={},
        flow_table=_StoredFlows(rank, rows["flow_table"]),
        counter_table=_StoredCounters(rank, rows["counter_table"]),
        instant_table=_StoredInstants(rank, rows["instant_table"]),
        async_table=_StoredAsyncs(rank, rows["async_table"]),
        copy_table=_StoredCopies(rank, rows["copy_table"]),
        source=source,
        _table=StoredEvents(rank, rows["_table"], entry["span_ns"]),
        _rules_version=0 if entry["rules"] == _rules() else -1,
        **facts,
    )
    facts_of_metadata = None
    if stated := entry.get("stated"):  # absent from older stores
        facts_of_metadata = parse_export_part(stated["export_part"]), stated["world_size"]
    trace.read_later(rank, facts_of_metadata)
    if entry["has_profile"] and profile_type is not None:
        type_ = profile_type(trace.format)
        trace.profile = rank.stored_or_rebuilt(
            lambda: rank.read_checked(lambda: convert(rank.json("profile"), type_)),
            lambda rebuilt: rebuilt.profile,
        )
    return trace


class StoredTrace(Trace):
    """A trace whose metadata and columns are read on first access."""

    def read_later(self, rank: StoredRank, stated: tuple[ExportPart | None, int] | None) -> None:
        """Defer reading the metadata from the file of `rank` until it is first accessed.

        `stated` contains the export part and world size from the manifest (None in older stores).
        """
        del self.metadata
        self.__dict__.update(_stored=rank, _stated=stated)

    @property
    def export_part(self) -> ExportPart | None:
        """The part of the job that was exported to the file; None if the file is not an export."""
        stated: tuple[ExportPart | None, int] | None = self.__dict__.get("_stated")
        return super().export_part if stated is None else stated[0]

    @property
    def world_size(self) -> int:
        """The number of ranks of the job according to the file; 0 if unknown."""
        stated: tuple[ExportPart | None, int] | None = self.__dict__.get("_stated")
        return super().world_size if stated is None else stated[1]

    @property
    def in_file(self) -> bool:
        """Whether the columns are in a file that other processes can map."""
        return isinstance(self._table, StoredEvents)

    def __getattr__(self, name: str) -> Any:
        stored: StoredRank | None = self.__dict__.get("_stored")
        if name != "metadata" or stored is None:
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        metadata = stored.stored_or_rebuilt(
            lambda: stored.json("metadata"), lambda trace: trace.metadata
        )
        self.metadata = metadata
        self.__dict__["_metadata_is_read"] = True
        return metadata

    @property
    def is_mapped(self) -> bool:
        """Whether the columns are mapped from a file and can be released."""
        return "_stored" in self.__dict__  # false after `dataclasses.replace`, which reads all

    def require_whole(self) -> None:
        """Raise a `TraceError` if the mapped file was truncated; see `Trace.require_whole`."""
        if self.is_mapped:
            self.__dict__["_stored"].require_whole()

    def release(self) -> None:
        """Release cached and derived values; see `Trace.release`."""
        super().release()
        if not self.is_mapped:
            return
        table = self._table
        if isinstance(table, StoredEvents) and table.has_own_kinds:
            self._table, self._rules_version = table.with_stored_kinds(), -1
        if isinstance(self.source, (StoredRecords, _FileRecords)):
            self.source.release()
        if self.__dict__.pop("_metadata_is_read", False):
            self.__dict__.pop("metadata", None)
        stored: StoredRank = self.__dict__["_stored"]
        stored.release()

    def __getstate__(self) -> dict[str, Any]:
        state = super().__getstate__()
        table = self._table
        if isinstance(table, StoredEvents) and table.has_own_kinds:
            # Changed kinds are not pickled. The kinds in the file may come from other rules.
            state["_rules_version"] = -1
        if state.pop("_metadata_is_read", False):
            state.pop("metadata", None)
        return state

    def replace(self, **changes: object) -> Trace:
        """Return a copy with some fields changed, for example ``rank=3``; the arrays are shared."""
        other: Trace = object.__new__(type(self))
        other.__dict__.update(self.__dict__, _frame=None, memo={})
        other.__dict__.pop("_extent_ns", None)  # cached; the changes may affect it
        other.__dict__.update(changes)
        if "metadata" in changes:
            other.__dict__.pop("_metadata_is_read", None)
            other.__dict__.pop("_stated", None)
        return other


class _FileRecords:
    """The records of a rank from the cache, read from its trace file."""

    def __init__(self, rank: StoredRank, count: int, path: str) -> None:
        self.path = path
        self._rank, self._count = rank, count
        self._source: Any = None
        self._is_restored = True

    def __len__(self) -> int:
        return self._count

    def use_source(self, source: RecordSource) -> None:
        """Use the source that the cache entry was written from; it has already indexed the file."""
        self._source, self._is_restored = source, False

    def release(self) -> None:
        """Release a restored source and its mapped columns; the next access restores it."""
        if self._is_restored:
            self._source = None

    def __getattr__(self, name: str) -> Any:
        # All other attributes are delegated; some sources have additional ones.
        if name.startswith("_"):
            raise AttributeError(name)
        if self._source is None:
            rank, restorer = self._rank, self._rank.restorer
            assert restorer is not None  # noqa: S101
            self._source = rank.stored_or_rebuilt(
                lambda: rank.read_checked(lambda: self._restore_source(restorer)),
                lambda trace: trace.source,
            )
        return getattr(self._source, name)

    def _restore_source(self, restorer: SourceRestorer) -> Any:
        rank = self._rank
        source = restorer.restore(rank.file.facts, lambda key: rank.numbers(f"source.{key}"))
        if len(source) != self._count:
            raise DamagedFileError(
                f"was changed: it has {len(source):,} records, not {self._count:,}"
            )
        return source

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_source": None, "_is_restored": True}


@dataclass(frozen=True)
class OpenedStore:
    """Contents of a store."""

    traces: list[Trace]
    problems: Problems
    clock: Clock | None

    def trace_set(self, more: Problems | None = None) -> TraceSet:
        """Return the saved `TraceSet`, with the problems in `more` added."""
        assert self.clock is not None  # noqa: S101 - None only in caches
        problems = self.problems
        problems.merge(more or Problems())
        return TraceSet.restore(
            self.traces,
            problems,
            clock=self.clock["name"],
            origin_ns=self.clock["origin_ns"],
            origin_offset_ns=self.clock["lift_ns"],
        )


def open_store(
    path: str | Path,
    restorer: SourceRestorer | None = None,
    profile_type: Callable[[str], type[Any]] | None = None,
) -> OpenedStore:
    """Open a store, given its folder or its manifest."""
    folder = Path(path)
    if folder.name == MANIFEST and not folder.is_dir():
        folder = folder.parent
    try:
        body = validate_manifest(read_manifest(folder / MANIFEST), is_cache=restorer is not None)
        for entry in all_entries(body):
            _check_size(folder, entry)
        problems = Problems(Problem(*row) for row in body["problems"])
        traces = [
            open_trace(folder, entry, position, restorer, profile_type)
            for position, entry in enumerate(body["ranks"])
        ]
        captures = {
            rank: open_trace(folder, entry, profile_type=profile_type)
            for rank, entry in body.get("captures", ())
        }
        for trace in traces:
            trace.capture = captures.get(trace.rank)
        return OpenedStore(traces, problems, body["clock"])
    except (DamagedFileError, LookupError, TypeError, ValueError, OverflowError) as cause:
        if isinstance(cause, TraceError):
            raise
        text = damage_text(cause)
        raise TraceError(text, path=folder / MANIFEST, remedy=_COPY_AGAIN) from None


_COPY_AGAIN = "Copy the store again, or save the traces again."


def _check_size(folder: Path, entry: RankEntry) -> None:
    if Path(entry["file"]).name != entry["file"]:
        raise DamagedFileError(f"refers to a file outside its folder: {entry['file']}")
    file, expected_bytes = folder / entry["file"], entry["frame"][0]
    try:
        size_bytes = file.stat().st_size
        fault = f"has {size_bytes:,} bytes instead of {expected_bytes:,}"
    except OSError:
        size_bytes, fault = None, "is missing"
    if size_bytes != expected_bytes:
        raise TraceError(fault, path=file, remedy=_COPY_AGAIN)
