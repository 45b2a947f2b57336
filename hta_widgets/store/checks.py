"""Validate the manifest and columns of a store beyond their checksums.

Checksums detect accidental damage, but a forged file can have valid ones. For example, the values
of ``events.name`` must be valid indices into ``names``, or looking up an event's name would fail.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Annotated, Any, Literal, NamedTuple, NotRequired, Protocol, TypedDict

import msgspec
import numpy as np
from msgspec import Meta

from hta_widgets.arguments import convert
from hta_widgets.taxonomy import KINDS
from hta_widgets.trace.arrays import Array
from hta_widgets.trace.columns import COMMUNICATION_KEYS, TrackRole
from hta_widgets.trace.problems import ProblemKind


class DamagedFileError(Exception):
    """Raised if a file was changed since it was written. The message describes the damage."""


def damage_text(cause: Exception) -> str:
    """Return the text of a `TraceError` for an exception that was raised while reading a file."""
    return str(cause) if isinstance(cause, DamagedFileError) else f"was changed ({cause!r})"


_MAX_INT64 = (1 << 63) - 1
Time = Annotated[int, Meta(ge=-_MAX_INT64, le=_MAX_INT64)]
Count = Annotated[int, Meta(ge=0, le=_MAX_INT64)]
Rank = Annotated[int, Meta(ge=0, lt=1 << 31)]
Code = Annotated[int, Meta(ge=-1, lt=1 << 31)]
StreamId = Annotated[int, Meta(ge=-1, le=_MAX_INT64)]
#: Number of lanes of a track. Depths are stored as int16.
Lanes = Annotated[int, Meta(ge=0, le=1 << 15)]

#: Minimum size of a row in bytes, since every table has an int64 column.
_ROW_BYTES = 8
#: Generous upper bound on the records per byte of a file; real records take several bytes.
_MAX_RECORDS_PER_BYTE = 1000

#: Fields of `Track`.
TrackRow = tuple[str, str, TrackRole, str, str, StreamId, list[int], Lanes, Lanes]


class Facts(TypedDict):
    """Fields of `Trace` that the manifest stores unchanged."""

    rank: Rank
    path: str
    profile_path: NotRequired[str | None]  # absent from older stores
    format: str
    zero_ns: Time
    shift_ns: Time
    clock_offset_ns: Time
    resolution_ns: Annotated[int, Meta(ge=1, le=_MAX_INT64)]
    stated_rank: Time | None
    job: str | None
    host: str | None
    worker: Code
    local_rank: Code
    server: Code
    part: bool


class Stated(TypedDict):
    """Metadata values that are repeated in the manifest."""

    export_part: dict[str, Any] | None
    world_size: Rank


class TableSizes(TypedDict):
    """Number of rows of each table."""

    _table: Count
    flow_table: Count
    counter_table: Count
    instant_table: Count
    async_table: Count
    copy_table: Count


class RankEntry(TypedDict):
    """The manifest entry of a rank."""

    file: str
    frame: tuple[Count, Count, Count, Count]
    rows: TableSizes
    span_ns: tuple[Time, Time]
    records: Annotated[int, Meta(ge=-1, le=_MAX_INT64)]
    has_profile: bool
    stated: NotRequired[Stated]  # absent from older stores
    rules: str
    trace: Facts


class Clock(TypedDict):
    """The time axis of a `TraceSet`."""

    name: Literal["host", "fitted"]
    origin_ns: Time | None
    lift_ns: Time


class Manifest(TypedDict):
    """The body of a manifest."""

    clock: Clock | None  # None in caches
    problems: list[tuple[ProblemKind, Count, str, Rank | None, str | None]]
    ranks: list[RankEntry]
    #: traces of graph captures, with their ranks; absent from older stores
    captures: NotRequired[list[tuple[Rank, RankEntry]]]


def validate_manifest(body: object, *, is_cache: bool) -> Manifest:
    """Return the body of a manifest; raise `DamagedFileError` if it is invalid."""
    try:
        manifest: Manifest = convert(body, Manifest)
    except msgspec.ValidationError as cause:
        raise DamagedFileError(f"was changed ({cause})") from None
    if not is_cache:
        ranks = {entry["trace"]["rank"] for entry in manifest["ranks"]}
        if not ranks:
            raise DamagedFileError("contains no ranks")
        if manifest["clock"] is None or len(ranks) != len(manifest["ranks"]):
            raise DamagedFileError("was changed (it has no clock or a duplicate rank)")
    for entry in all_entries(manifest):
        (start, end), shift = entry["span_ns"], entry["trace"]["shift_ns"]
        if end < start or max(abs(start + shift), abs(end + shift), end - start) > _MAX_INT64:
            raise DamagedFileError(f"was changed (events from {start} to {end} ns)")
        # This check must come first: memory for the rows is allocated before any column is read.
        rows: int = sum(entry["rows"].values())  # type: ignore[arg-type]
        size = entry["frame"][0]
        if rows * _ROW_BYTES > size or entry["records"] > size * _MAX_RECORDS_PER_BYTE:
            raise DamagedFileError(f"was changed ({rows:,} rows in {size:,} bytes)")
    return manifest


def all_entries(manifest: Manifest) -> list[RankEntry]:
    """Return all entries: ranks first, then captures."""
    return [*manifest["ranks"], *(entry for _, entry in manifest.get("captures", ()))]


class ColumnRule(NamedTuple):
    """Allowed values of a column; `limit` is an exclusive bound, or the table that is indexed."""

    low: int | None = None
    limit: str | int | None = None
    #: allowed values of ``dtype.kind``
    kinds: str = "i"
    ascending: bool = False


class CheckedRank(Protocol):
    """The part of `StoredRank` that column checks use."""

    #: number of rows by table, and number of ``"records"`` (-1 if the trace has no records)
    sizes: Mapping[str, int]
    #: start of the first event, end of the last event
    span_ns: tuple[int, int]

    def size(self, name: str) -> int:
        """Return the length of a table or a column, or the number of ``"records"``."""

    def numbers(self, name: str) -> Array:
        """Return a numeric column."""

    def json(self, name: str) -> Any:
        """Return a value that is stored as JSON."""


_TIMES = ColumnRule()
_RECORD = ColumnRule(-1, "records")
_ASCENDING = ColumnRule(ascending=True)
_FLOAT = ColumnRule(kinds="f")

RULES = {
    "events.start_ns": _ASCENDING,
    "events.dur_ns": ColumnRule(0),
    "events.name": ColumnRule(0, "names"),
    "events.category": ColumnRule(0, "categories"),
    "events.kind": ColumnRule(0, len(KINDS), "iu"),
    "events.track": ColumnRule(0, "tracks"),
    "events.depth": ColumnRule(0),
    "events.parent": ColumnRule(-1, "events"),
    "events.stream": ColumnRule(-1),
    "events.correlation": ColumnRule(),
    "events.step": ColumnRule(-1),
    "events.phase": ColumnRule(0, 2, "iu"),
    "events.record": _RECORD,
    "flows.kind": ColumnRule(0, "flow_kinds", "iu"),
    "flows.source": ColumnRule(0, "events"),
    "flows.target": ColumnRule(0, "events"),
    "flows.source_record": _RECORD,
    "flows.target_record": _RECORD,
    "counters.time_ns": _TIMES,
    "counters.series_id": ColumnRule(0, "counter_series", ascending=True),
    "counters.value": _FLOAT,
    "counters.record": _RECORD,
    "instants.time_ns": _ASCENDING,
    "instants.name": ColumnRule(0, "names"),
    "instants.category": ColumnRule(0, "categories"),
    "instants.record": _RECORD,
    "instants.pid.codes": ColumnRule(0, "instants.pid.values"),
    "instants.tid.codes": ColumnRule(0, "instants.tid.values"),
    "instants.scope.codes": ColumnRule(0, "instants.scope.values"),
    "asyncs.start_ns": _ASCENDING,
    "asyncs.dur_ns": ColumnRule(-1),
    "asyncs.name": ColumnRule(0, "names"),
    "asyncs.category": ColumnRule(0, "categories"),
    "asyncs.record": _RECORD,
    "asyncs.async_id.codes": ColumnRule(0, "asyncs.async_id.values"),
    "asyncs.pid.codes": ColumnRule(0, "asyncs.pid.values"),
    "copies.record": ColumnRule(0, "records", ascending=True),
    "copies.gb_per_s": _FLOAT,
    "copies.size_bytes": ColumnRule(-1),
    "events.ends": ColumnRule(0),
    "comm.record": ColumnRule(0, "records", ascending=True),
    **{f"comm.{key}": ColumnRule(0, "comm.values") for key in COMMUNICATION_KEYS},
    "args.bytes": ColumnRule(-1),
    "args.root": ColumnRule(-1),
    "lanes.ns": _TIMES,
    "lanes.rows": ColumnRule(0, "events"),
    "lanes.kinds": ColumnRule(0, len(KINDS), "u"),
    "records.first": ColumnRule(0, ascending=True),
    "records.end": ColumnRule(0, ascending=True),
    "records.raw_bytes": ColumnRule(0),
    "records.checksum": ColumnRule(0, kinds="u"),
}


#: Columns whose length differs from the number of rows of their table.
_OWN_LENGTH = {"events.ends", *(name for name in RULES if name.startswith("records."))}


def check_column(rank: CheckedRank, name: str, values: Array) -> None:
    """Raise `DamagedFileError` if a numeric column has invalid values."""
    if fault := _column_fault(rank, name, values):
        raise DamagedFileError(f"was changed: column {name} {fault}")


def _column_fault(rank: CheckedRank, name: str, values: Array) -> str:
    """Return why a column is invalid, or an empty string if it is valid."""
    # Columns without a rule come from record sources, which validate the order themselves.
    rule = RULES.get(name) or ColumnRule(kinds="iu")
    dtype = values.dtype
    is_time = name.endswith(("_ns", ".ns"))
    if dtype.kind not in rule.kinds or not dtype.isnative or (is_time and dtype != np.int64):
        return f"has the unexpected type {dtype}"
    table = name.partition(".")[0]
    if table in rank.sizes and name not in _OWN_LENGTH and len(values) != rank.sizes[table]:
        return f"has {len(values):,} rows instead of {rank.sizes[table]:,}"
    if len(values):
        limit = rank.size(rule.limit) if isinstance(rule.limit, str) else rule.limit
        is_limited = limit != -1  # without records, record numbers are unrestricted
        is_low = is_limited and rule.low is not None and values.min() < rule.low
        if is_low or (is_limited and limit is not None and values.max() >= limit):
            return f"has values outside {rule.low} … {limit}"
        if rule.ascending and not np.all(values[1:] >= values[:-1]):
            return "is not sorted"
    is_consistent = _CHECKS.get(name)
    if is_consistent is not None and not is_consistent(rank, values):
        return "contradicts other columns"
    return ""


def _has_last_end(rank: CheckedRank, values: Array) -> bool:
    first, last = rank.span_ns
    if not len(values):
        return first == last
    if values.max() > last - first:  # otherwise, start + duration could overflow int64
        return False
    return int((rank.numbers("events.start_ns") + values).max()) == last


def _has_lanes(rank: CheckedRank, values: Array) -> bool:
    lanes = np.array([track[-1] for track in rank.json("tracks")], np.int64)
    return not len(values) or bool(np.all(values < lanes[rank.numbers("events.track")]))


def _has_events_and_records(rank: CheckedRank, values: Array) -> bool:
    rows, end_records = values[::2], values[1::2]
    if len(rows) != len(end_records) or not len(rows):
        return not len(values)
    records = rank.size("records")
    has_records = records < 0 or end_records.max() < records
    return bool(rows.max() < rank.size("events") and has_records)


def _is_in_order_by_series(rank: CheckedRank, values: Array) -> bool:
    series = rank.numbers("counters.series_id")
    return bool(np.all((values[1:] >= values[:-1]) | (series[1:] != series[:-1])))


def _has_length_of(name: str) -> Callable[[CheckedRank, Array], bool]:
    return lambda rank, values: len(values) == len(rank.numbers(name))


def _has_all_records(rank: CheckedRank, values: Array) -> bool:
    return len(values) > 0 and values[0] == 0 and values[-1] == rank.size("records")


#: Base-2 logarithm of zstd's maximum compression ratio: a 4-byte block can expand to 128 KiB.
_MAX_EXPANSION_BITS = 15


def _can_expand(rank: CheckedRank, values: Array) -> bool:
    packed = np.diff(rank.numbers("records.end"))
    return len(values) == len(packed) and bool(np.all(values >> _MAX_EXPANSION_BITS <= packed))


_CHECKS: dict[str, Callable[[CheckedRank, Array], bool]] = {
    "events.start_ns": lambda rank, values: not len(values) or values[0] == rank.span_ns[0],
    "events.dur_ns": _has_last_end,
    "events.depth": _has_lanes,
    "events.parent": lambda _, values: bool((values < np.arange(len(values))).all()),
    "events.ends": _has_events_and_records,
    "counters.time_ns": _is_in_order_by_series,
    **dict.fromkeys((f"comm.{key}" for key in COMMUNICATION_KEYS), _has_length_of("comm.record")),
    "records.first": _has_all_records,
    "records.end": _has_length_of("records.first"),
    "records.raw_bytes": _can_expand,
    "records.checksum": lambda rank, values: len(values) + 1 == len(rank.numbers("records.end")),
}
