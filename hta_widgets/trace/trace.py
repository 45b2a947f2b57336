"""`Trace`: one rank of a job, with its events as DataFrames and as an Arrow stream.

polars, pyarrow, DuckDB and other libraries read objects with ``__arrow_c_stream__`` without an
intermediate DataFrame. For a whole rank, durations, correlations, steps and name codes
share the memory of the trace; other columns are built per batch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

from hta_widgets import taxonomy
from hta_widgets.arguments import check_arguments
from hta_widgets.errors import TraceError
from hta_widgets.taxonomy import KINDS
from hta_widgets.text import count, duration, plural, time_point, valid_text
from hta_widgets.trace.arrays import Array, Bools, Ints, Rows
from hta_widgets.trace.columns import (
    AsyncTable,
    CopyTable,
    CounterTable,
    EventTable,
    FlowTable,
    InstantTable,
    RecordSource,
    StringPool,
    Track,
    as_integer,
    decode_args,
)
from hta_widgets.trace.event_columns import (
    EVENT_COLUMNS,
    STRING_COLUMNS,
    categorical_dtype,
    concat_categoricals,
    concat_columns,
    table_frame,
    validate_columns,
)
from hta_widgets.trace.memo import iter_ranks, memoize
from hta_widgets.trace.merged_format import ExportPart, stated_export_part, stated_windows

_RowSelector = Rows | slice

_PHASES = ("X", "B")


def _categorical_column(
    trace: Trace, column: str, rows: _RowSelector
) -> tuple[Array, Sequence[str]]:
    table = trace.table
    if column == "track":
        return table.track[rows], [track.key for track in table.tracks]
    texts: dict[str, Sequence[str]] = {
        "name": table.names.values,
        "category": table.categories.values,
        "kind": KINDS,
        "phase": _PHASES,
    }
    if column in texts:
        return getattr(table, column)[rows], texts[column]
    pool = StringPool()
    codes = np.array([pool.add(getattr(track, column)) for track in table.tracks], np.int32)
    return (codes[table.track[rows]] if len(codes) else table.track[rows]), pool.values


def _plain_column(trace: Trace, column: str, rows: _RowSelector) -> Array:
    table = trace.table
    if column == "start_ns":
        return table.start_ns[rows] + trace.shift_ns
    if column == "parent":
        return table.parent[rows].astype(np.int64)
    if column == "prelaunched":
        return trace.prelaunched[rows]
    values: Array = getattr(table, column)[rows]
    return values


def event_frame(
    trace: Trace, rows: _RowSelector | None = None, columns: Iterable[str] | None = None
) -> pd.DataFrame:
    """Return `rows` and `columns` of the events of a rank. Default: all."""
    wanted = validate_columns(columns)
    if rows is None:
        return _frame([(trace, slice(None))], wanted, pd.RangeIndex(len(trace), name="id"))
    index = pd.Index(np.arange(len(trace), dtype=np.int64)[rows], name="id")
    return _frame([(trace, rows)], wanted, index)


def events_of(
    traces: Sequence[Trace],
    columns: Iterable[str] | None = None,
    rows_of: Callable[[Trace], _RowSelector] = lambda _: slice(None),
) -> pd.DataFrame:
    """Return events of several ranks, concatenated, with ``rank`` as the first column."""
    wanted = [name for name in validate_columns(columns, ("rank",)) if name != "rank"]
    pairs = [(trace, rows_of(trace)) for trace in traces]
    ids = [np.arange(len(trace.table), dtype=np.int64)[rows] for trace, rows in pairs]
    index = pd.Index(np.concatenate([*ids, np.empty(0, np.int64)]), name="id")
    frame = _frame(pairs, wanted, index)
    ranks = np.array([trace.rank for trace in traces], np.int64)
    frame.insert(0, "rank", np.repeat(ranks, [len(ids_of_rank) for ids_of_rank in ids]))
    return frame


def _frame(
    pairs: Sequence[tuple[Trace, _RowSelector]], columns: Sequence[str], index: pd.Index[Any]
) -> pd.DataFrame:
    data: dict[str, Any] = {}
    for column in columns:
        if column in STRING_COLUMNS:
            parts = [_categorical_column(trace, column, rows) for trace, rows in pairs]
            data[column] = concat_categoricals(parts, column)
        else:
            data[column] = concat_columns(
                [_plain_column(trace, column, rows) for trace, rows in pairs]
            )
    return pd.DataFrame(data, index=index, copy=False)


def event_schema() -> Any:
    """Return the Arrow schema of events; time fields state their unit."""
    strings: Any = pa.dictionary(pa.int32(), pa.string())
    fields = [pa.field("rank", pa.int64()), pa.field("id", pa.int64())]
    for name in EVENT_COLUMNS:
        # Streams are int64, because some ranks have 64-bit handles as stream ids.
        plain: Any = pa.int16() if name == "depth" else pa.int64()
        kind = strings if name in STRING_COLUMNS else plain
        metadata = {"unit": "ns"} if name.endswith("_ns") else None
        fields.append(pa.field(name, kind, metadata=metadata))
    return pa.schema(fields)


def event_batch(trace: Trace, rows: Rows | None = None) -> Any:
    """Return `rows` of the events of a rank as an Arrow record batch. Default: all."""
    schema = event_schema()
    selector = slice(None) if rows is None else rows
    ids = np.arange(len(trace), dtype=np.int64)[selector]
    arrays: list[Any] = [pa.array(np.full(len(ids), trace.rank, np.int64)), pa.array(ids)]
    for name in EVENT_COLUMNS:
        if name in STRING_COLUMNS:
            codes, texts = _categorical_column(trace, name, selector)
            code_array: Any = pa.array(codes.astype(np.int32, copy=False))
            text_array = pa.array(list(map(valid_text, texts)), pa.string())
            arrays.append(pa.DictionaryArray.from_arrays(code_array, text_array))
        else:
            values = _plain_column(trace, name, selector)
            arrays.append(pa.array(values, type=schema.field(name).type))
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def event_stream(
    traces: Sequence[Trace], rows_of: Callable[[Trace], Rows | None] = lambda _: None
) -> Any:
    """Return an Arrow reader that builds a batch per rank when it is read."""
    batches = (event_batch(trace, rows_of(trace)) for trace in iter_ranks(traces))
    return pa.RecordBatchReader.from_batches(event_schema(), batches)


#: Whether to copy frames; since pandas 3 they are copied on write.
_COPY_FRAMES = int(pd.__version__.partition(".")[0]) < 3


@dataclass(eq=False, repr=False)
class Trace:
    """One rank of a job.

    Users get it as a value of a `TraceSet`. Times in its frames are nanoseconds since the earliest
    event of that set.

    Attributes
    ----------
    rank : int
        Key in the trace set.
    path : str
        The file from which it was read.
    format : str
        Name of the file's format, for example ``"kineto"``.
    metadata : dict
        Top-level keys of the file, without the events.
    zero_ns : int
        Absolute time of the rank's earliest event, on the clock recorded in the file.
    shift_ns : int
        Time added to the times of `table` to get the times in frames.
    resolution_ns : int
        Value in ns of the last digit of the file's times.
    """

    rank: int
    path: str
    metadata: dict[str, Any]
    flow_table: FlowTable
    counter_table: CounterTable
    instant_table: InstantTable
    async_table: AsyncTable
    zero_ns: int
    source: RecordSource | None = None
    format: str = "kineto"
    resolution_ns: int = 1
    shift_ns: int = 0
    #: difference between the shift for the recorded clock and `shift_ns`; see `TraceSet.with_clock`
    clock_offset_ns: int = 0
    stated_rank: int | None = None
    job: str | None = None
    host: str | None = None
    worker: int = -1
    local_rank: int = -1
    server: int = -1
    #: tables of totals, for example from an MPI profile
    profile: Any = None
    #: file of `profile`, if it is not `path`
    profile_path: str | None = None
    #: whether the file has events of this rank that are not in `table`
    part: bool = False
    copy_table: CopyTable = field(default_factory=CopyTable)
    #: trace of the capture of this rank's graphs; see `hta_widgets.trace.graph_captures`
    capture: Trace | None = None
    _table: EventTable = field(kw_only=True)
    _rules_version: int = field(default=-1, kw_only=True)
    _frame: pd.DataFrame | None = field(default=None, init=False)
    #: results that depend only on the columns; see `hta_widgets.trace.memo`
    memo: dict[Any, Any] = field(default_factory=dict, init=False)

    @property
    def table(self) -> EventTable:
        """The columns of `events`; times are relative to `zero_ns`."""
        version = taxonomy.version()
        if self._rules_version != version:
            table = self._table
            kind = taxonomy.kind_codes(
                table.category, table.name, table.categories.values, table.names.values
            )
            self._table = table.with_kinds(kind)
            self._rules_version = version
            self._frame = None
        return self._table

    @property
    def tracks(self) -> list[Track]:
        """Threads, device streams and their annotations, in display order."""
        return self._table.tracks

    @property
    @memoize
    def launch_of(self) -> Ints:
        """For each event, the id of the host call that launched it; -1 for other events."""
        call = np.full(len(self), -1, dtype=np.int64)
        flows = self.flow_table
        if "launch" in flows.kinds:
            launches = flows.kind == flows.kinds.index("launch")
            call[flows.target[launches]] = flows.source[launches]
        return call

    @property
    @memoize
    def prelaunched(self) -> Bools:
        """Mask of device work that was launched before recording began.

        Such work has no launch in the file. It starts before the first launched work of its stream
        or, if the stream has none, of the rank. All values are False in a file without launches.
        """
        table = self.table
        result = np.zeros(len(self), dtype=bool)
        work = np.flatnonzero(table.kind <= KINDS.index("memory"))
        work = work[table.stream[work] >= 0]
        launched = work[self.launch_of[work] >= 0]
        if len(launched) in (0, len(work)):
            return result
        never = np.iinfo(np.int64).max
        first_launched_ns = np.full(len(table.tracks), never)
        np.minimum.at(first_launched_ns, table.track[launched], table.start_ns[launched])
        first_launched_ns[first_launched_ns == never] = first_launched_ns.min()
        result[work] = table.start_ns[work] < first_launched_ns[table.track[work]]
        result[launched] = False
        return result

    @property
    def in_file(self) -> bool:
        """Whether the columns are in a file that other processes can map."""
        return False

    def __len__(self) -> int:
        return len(self._table)

    @property
    def is_totals(self) -> bool:
        """Whether the file is a profile, which has totals of a run instead of events."""
        return self.profile is not None and not len(self)

    @property
    def start_ns(self) -> int:
        """Start of the earliest event or, without events, of the file's other contents."""
        return self._extent_ns[0] + self.shift_ns

    @property
    def end_ns(self) -> int:
        """End of the last event or, without events, of the file's other contents."""
        return self._extent_ns[1] + self.shift_ns

    @cached_property
    def _extent_ns(self) -> tuple[int, int]:
        if not self.has_times or len(self):
            return self._table.first_ns, self._table.last_ns
        intervals = self.async_table
        ends = intervals.start_ns + np.maximum(intervals.dur_ns, 0)
        points = (self.instant_table.time_ns, self.counter_table.time_ns)
        times = np.concatenate((intervals.start_ns, ends, *points))
        return int(times.min()), int(times.max())

    @property
    def has_times(self) -> bool:
        """Whether there are events, async intervals, instants or counters."""
        return bool(len(self)) or any(len(getattr(self, name)) for _, name in _OTHER_CONTENTS)

    @property
    def export_part(self) -> ExportPart | None:
        """The part of a job that the file exports; None if it is not an export."""
        return stated_export_part(self.metadata)

    @property
    def world_size(self) -> int:
        """Number of ranks of the job as stated in the file; 0 if it is not stated."""
        info = self.metadata.get("distributedInfo")
        size = as_integer(info.get("world_size")) if isinstance(info, dict) else 0
        return size if 0 < size < 1 << 31 else 0

    @property
    def window_ns(self) -> tuple[int, int] | None:
        """The window of the job that the file exports; None if it is not an export."""
        part = self.export_part
        if part is None:
            return None
        offset_ns = self.shift_ns - self.zero_ns
        return part.start_ns + offset_ns, part.end_ns + offset_ns

    @property
    def recorded_ns(self) -> list[tuple[int, int]]:
        """The windows in which this rank was recorded, on the time axis of `table`.

        Empty for a single window.
        """
        windows = stated_windows(self.metadata)
        return [(low - self.zero_ns, high - self.zero_ns) for low, high in windows]

    @property
    def recorded_marks_ns(self) -> Ints:
        """The middle of each gap between successive windows of `recorded_ns`, ascending."""
        edges = np.array(self.recorded_ns, np.int64).reshape(-1, 2)
        return edges[:-1, 1] + (edges[1:, 0] - edges[:-1, 1] + 1) // 2

    @property
    def stated_work_ns(self) -> tuple[int, int] | None:
        """First start and last end of device work in the exported job, on the time axis of `table`.

        None if the file does not state them.
        """
        part = self.export_part
        if part is None or part.work_start_ns >= part.work_end_ns:
            return None
        return part.work_start_ns - self.zero_ns, part.work_end_ns - self.zero_ns

    @property
    def events(self) -> pd.DataFrame:
        """Complete events and paired begin/end events, sorted by start; the index is ``id``.

        Returns
        -------
        DataFrame
            ``start_ns, dur_ns``; ``name, category``; ``kind`` (see `hta_widgets.taxonomy`) and
            ``track``; ``pid, tid`` as in the file; ``depth``, the lane within the track;
            ``parent``, the id of the enclosing event on the track; the device ``stream``; the
            ``correlation`` id; ``step``, the n of the enclosing ``ProfilerStep#n`` (for device
            events, around their launch), renumbered if numbers repeat; and ``phase`` (``X`` or
            ``B``). Missing values are -1.
        """
        table = self.table
        if self._frame is None or len(self._frame) != len(table):
            self._frame = event_frame(self)
        return self._frame.copy(deep=_COPY_FRAMES)

    @check_arguments
    def frame(
        self, rows: _RowSelector | None = None, columns: Iterable[str] | None = None
    ) -> pd.DataFrame:
        """Return some `rows` and `columns` of `events` without building the rest."""
        try:
            return event_frame(self, rows, columns)
        except (IndexError, TypeError, ValueError, OverflowError) as cause:
            if isinstance(cause, TraceError):
                raise
            raise TraceError(f"rows= are not rows of rank {self.rank} ({cause})") from None

    @property
    def instants(self) -> pd.DataFrame:
        """Instant events: ``time_ns, name, category, pid, tid, scope``."""
        table = self.instant_table
        return table_frame(
            {
                "time_ns": table.time_ns + self.shift_ns,
                **self._names_and_categories(table),
                "pid": table.pid,
                "tid": table.tid,
                "scope": table.scope,
            }
        )

    @property
    def asyncs(self) -> pd.DataFrame:
        """Async intervals: ``start_ns, dur_ns`` (-1: no end), ``name, category, id, pid``."""
        table = self.async_table
        return table_frame(
            {
                "start_ns": table.start_ns + self.shift_ns,
                "dur_ns": table.dur_ns,
                **self._names_and_categories(table),
                "id": table.async_id,
                "pid": table.pid,
            }
        )

    def _names_and_categories(self, table: InstantTable | AsyncTable) -> dict[str, list[str]]:
        names, categories = self._table.names, self._table.categories
        return {
            "name": [names[code] for code in table.name],
            "category": [categories[code] for code in table.category],
        }

    @property
    def counters(self) -> pd.DataFrame:
        """Samples of counters: ``time_ns, name, series, value, pid``."""
        table = self.counter_table
        series = [table.series[code] for code in table.series_id]
        return table_frame(
            {
                "time_ns": table.time_ns + self.shift_ns,
                "name": [name for _, name, _ in series],
                "series": [label for _, _, label in series],
                "value": table.value,
                "pid": [pid for pid, _, _ in series],
            }
        )

    @property
    def flows(self) -> pd.DataFrame:
        """Arrows between events: ``kind`` (such as ``launch``), and the ids ``source, target``."""
        table = self.flow_table
        return pd.DataFrame(
            {
                "kind": pd.Categorical.from_codes(table.kind, dtype=categorical_dtype(table.kinds)),
                "source": table.source,
                "target": table.target,
            }
        )

    @check_arguments
    def args(self, id: int) -> dict[str, Any]:
        """Return the args of an event, as in the file.

        Parameters
        ----------
        id : int
            Index of the event in `events`.

        Returns
        -------
        dict
            For an event with begin and end records, the args of both.
        """
        if not 0 <= id < len(self):
            id_range = f"Ids go from 0 to {len(self) - 1}."
            raise TraceError(
                f"rank {self.rank} has no event {id}",
                path=self.path,
                remedy=id_range if len(self) else "It has no complete events.",
            )
        if self.source is None:
            return {}
        args = self._record_args(self.source, int(self._table.record[id]))
        end = self._table.end_record.get(id)
        return args if end is None else {**args, **self._record_args(self.source, end)}

    def _record_args(self, source: RecordSource, record: int) -> dict[str, Any]:
        try:
            return decode_args(source.record(record))
        except (ValueError, RecursionError) as cause:
            raise TraceError(
                f"the record cannot be decoded ({cause})",
                path=self.path,
                place=f"record {record}",
                remedy="Check whether the file was changed after loading, and load it again.",
            ) from None

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """Return the events as an Arrow stream, for example for ``pa.table(trace)``."""
        return event_stream([self]).__arrow_c_stream__(requested_schema)

    @property
    def is_mapped(self) -> bool:
        """Whether the columns are mapped from a file and can be released."""
        return False

    def require_whole(self) -> None:
        """Raise a `TraceError` if the columns are mapped from a file that has since been truncated.

        Views call this before each request, because they hold columns that were mapped earlier, and
        the system kills a process that reads a mapped file beyond its end.
        """

    def release(self) -> None:
        """Release memoized results, which are computed again when needed."""
        # The dict is replaced instead of cleared, because other threads may be using it.
        self.memo = {}
        self._frame = None

    def replace(self, **changes: Any) -> Trace:
        """Return a copy with some fields changed, for example ``rank=3``; arrays are shared."""
        return replace(self, **changes)

    def __getstate__(self) -> dict[str, Any]:
        # Another process may use other rules, and frames are cheaper to build than to send.
        rules = 0 if self._rules_version == 0 else -1
        return {**self.__dict__, "_frame": None, "memo": {}, "_rules_version": rules}

    def __repr__(self) -> str:
        if self.is_totals:
            return f"<Trace rank {self.rank}: {totals_text([self])}, {self.path}>"
        start_ns, end_ns = self.start_ns, self.end_ns
        if self.window_ns is not None:
            start_ns, end_ns = np.clip((start_ns, end_ns), *self.window_ns)
        return (
            f"<Trace rank {self.rank}: {contents_text([self])} on {len(self.tracks)} tracks, "
            f"{time_point(end_ns - start_ns)}, {self.path}>"
        )

    def _repr_html_(self) -> str:
        from html import escape

        return f"<code>{escape(repr(self))}</code>"


def profile_value(trace: Trace, name: str) -> float:
    """Return a figure of the profile; NaN if the profile or the figure is missing."""
    return float(getattr(trace.profile, name, np.nan))


_OTHER_CONTENTS = (
    ("async interval", "async_table"),
    ("instant", "instant_table"),
    ("counter sample", "counter_table"),
)


def contents_text(traces: Iterable[Trace]) -> str:
    """Return the count of events (``1 024 events``) or, without events, of other contents."""
    ranks = list(traces)
    if events := sum(map(len, ranks)):
        return f"{count(events)} events"
    for noun, table in _OTHER_CONTENTS:
        if number := sum(len(getattr(trace, table)) for trace in ranks):
            return plural(number, noun)
    return "0 events"


def totals_text(traces: Iterable[Trace]) -> str:
    """Return the times of profiles, for example ``totals: 790 ms to 2.68 s in MPI of 3.16 s``.

    The elapsed time is the longest one. Profiles left by other runs are ignored.
    """
    used = [trace for trace in traces if not getattr(trace.profile, "stale", False)]

    def times_ns(name: str) -> list[float]:
        values = (profile_value(trace, name) for trace in used)
        return [value * 1e9 for value in values if value >= 0]

    comm_ns, elapsed_ns = times_ns("comm_s"), times_ns("elapsed_s")
    if not comm_ns:
        return "totals without events"
    shortest, longest = duration(min(comm_ns)), duration(max(comm_ns))
    range_text = shortest if shortest == longest else f"{shortest} to {longest}"
    of_elapsed = f" of {duration(max(elapsed_ns))}" if any(elapsed_ns) else ""
    return f"totals: {range_text} in MPI{of_elapsed}"
