"""The events of each rank that an analysis uses.

An analysis takes a trace set, restricted by `selection`, `window` and `ranks`. `narrow_selection`
returns their intersection, bound to the traces on the selection's clock. `rank_parts` returns the
selected events of each rank.

For example, a rank computes from 10 to 30 and from 40 to 60, and the window is (20, 50). Both
kernels are selected. ``clip_rows`` clips them to (20, 30) and (40, 50), ``span`` is (20, 50), and
``union_of_kinds("compute")`` covers 20 ns of it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, TypeVar

import numpy as np

from hta_widgets import taxonomy
from hta_widgets.errors import TraceError
from hta_widgets.taxonomy import KINDS
from hta_widgets.text import Time, as_window
from hta_widgets.trace.arrays import Bools, Codes, Ints, Rows, mask_of_rows
from hta_widgets.trace.columns import EventTable
from hta_widgets.trace.conditions import (
    device_trace_index,
    member_rows,
    resolve_ranks,
    window_in_table_time,
)
from hta_widgets.trace.graph_captures import captured_trace
from hta_widgets.trace.host_stack import name_mask
from hta_widgets.trace.intervals import Intervals, clip, total_length, union
from hta_widgets.trace.memo import LRU, iter_ranks, memo, memoize
from hta_widgets.trace.trace import Trace
from hta_widgets.trace.traceset import Selection, TraceSet

Window = tuple[Time, Time]
T = TypeVar("T")

_COMMUNICATION = KINDS.index("communication")
#: Limits per rank: the number of cached selections, and their events as a multiple of the rank's.
_MAX_PARTS = 16
_MAX_ROWS = 3

#: Kinds of events that keep a device busy.
DEVICE_WORK_KINDS: tuple[str, ...] = ("compute", "communication", "memory")


def codes_of(kinds: Iterable[str]) -> list[int]:
    """Return the codes of kinds."""
    return [KINDS.index(kind) for kind in kinds]


def device_work_rows(trace: Trace) -> Rows:
    """Return a rank's device work: compute, communication and copies."""
    table = trace.table
    return np.flatnonzero(
        (table.stream >= 0) & mask_of_rows(codes_of(DEVICE_WORK_KINDS), len(KINDS))[table.kind]
    )


@dataclass(frozen=True, eq=False)
class RankPart:
    """The selected events of a rank.

    Times are on the clock of `Trace.table`; add ``trace.shift_ns`` before returning them to users.
    """

    trace: Trace
    rows: Rows
    low: int | None  # start of the window
    high: int | None  # end of the window
    plain: bool = False  # whether all events of the window are selected
    chosen_by: Selection = field(default_factory=Selection)
    _results: dict[Hashable, Any] = field(default_factory=dict, init=False, repr=False)

    def get_or_compute(self, key: Hashable, compute: Callable[[], T]) -> T:
        """Return the cached result of `key`, computed on first use. Callers must not change it."""
        if key not in self._results:
            self._results[key] = compute()
        result: T = self._results[key]
        return result

    @property
    def rank(self) -> int:
        """The rank's key in its trace set."""
        return self.trace.rank

    @property
    def table(self) -> EventTable:
        """The rank's table of events."""
        return self.trace.table

    @property
    def has_window(self) -> bool:
        """Whether a window restricts the selection in time."""
        return self.low is not None or self.high is not None

    @cached_property
    def kinds(self) -> Codes:
        """Kind codes of `rows`; host collectives do not count as communication."""
        return device_trace_index(self.trace).kind[self.rows]

    @cached_property
    def kind_counts(self) -> Ints:
        """Number of selected events by kind."""
        if self.plain and not self.has_window:
            return device_trace_index(self.trace).kind_counts
        return np.bincount(self.kinds, minlength=len(KINDS))

    def rows_of_kinds(self, *kinds: str) -> Rows:
        """Return the selected events of the given kinds in ascending order."""

        def find() -> Rows:
            if self.plain:
                index = device_trace_index(self.trace)
                return index.rows_of_kinds_within(kinds, self.low, self.high)
            return self.rows[mask_of_rows(codes_of(kinds), len(KINDS))[self.kinds]]

        return self.get_or_compute(("rows", kinds), find)

    def contains(self, rows: Rows) -> Bools:
        """Return whether each event is selected."""
        if len(self.rows) == len(self.table):
            return np.ones(len(rows), dtype=bool)
        return self._is_selected[rows]

    @cached_property
    def _is_selected(self) -> Bools:
        return mask_of_rows(self.rows, len(self.table))

    def device_work_rows(self) -> Rows:
        """Return the selected device work (compute, communication, copies) in ascending order."""
        return self.rows_of_kinds(*DEVICE_WORK_KINDS)

    def device_gaps(self) -> tuple[Ints, Ints]:
        """Return start and end of each gap between selected device work, in order of time.

        Times between recording windows are not gaps.
        """
        return self.get_or_compute("device gaps", self._device_gaps)

    def _device_gaps(self) -> tuple[Ints, Ints]:
        start, end = self.clip_rows(self.device_work_rows())
        if not len(start):
            return start, end
        busy = self.union_of_kinds(*DEVICE_WORK_KINDS)
        # Events of 0 ns are part of the span although they cover none of it.
        gap_start = np.concatenate(([start.min()], busy.end))
        gap_end = np.concatenate((busy.start, [end.max()]))
        is_gap = gap_end > gap_start
        if len(self.unrecorded.start):
            is_gap &= ~np.isin(gap_start, self.unrecorded.start)
        return gap_start[is_gap], gap_end[is_gap]

    @property
    def without_window(self) -> RankPart:
        """The same selection without its window."""
        if not self.has_window:
            return self
        return rank_part(self.trace, replace(self.chosen_by, start_ns=None, end_ns=None))

    @cached_property
    def span(self) -> tuple[int, int] | None:
        """The window, limited to the time from first start to last end of selected device work.

        Work outside the window counts as well, so that idle times of adjacent windows add up. None
        if the window is before or after all work.
        """
        first, last = self.without_window.edges or (0, 0)
        low = first if self.low is None else max(first, self.low)
        high = last if self.high is None else min(last, self.high)
        return (low, high) if low < high or len(self.device_work_rows()) else None

    @cached_property
    def unrecorded(self) -> Intervals:
        """The times between recording windows; see `TraceSet.windows`.

        Each interval extends from the last work of a window to the first work of the next.
        Intervals are clipped to the selection's window.
        """
        marks = self.trace.recorded_marks_ns
        if not len(marks):
            return Intervals.empty()
        start, end = self.without_window.clip_rows(self.without_window.device_work_rows())
        gaps = [
            (int(end[start < mark].max()), int(start[start >= mark].min()))
            for mark in marks.tolist()
            if (start < mark).any() and (start >= mark).any()
        ]
        gap_start, gap_end = np.array(gaps, np.int64).reshape(-1, 2).T
        return clip(union(gap_start, gap_end), self.low, self.high)

    @property
    def recorded_span_ns(self) -> int:
        """The duration of `span`, excluding times that were not recorded."""
        low, high = self.span or (0, 0)
        return high - low - total_length(clip(self.unrecorded, low, high))

    @cached_property
    def edges(self) -> tuple[int, int] | None:
        """The first start and last end of the selected device work; None without work.

        In an exported window, these are the edges of the rank's work in the whole job.
        """
        start, end = self.clip_rows(self.device_work_rows())
        stated = self.trace.stated_work_ns
        if not len(start):
            return stated if self.plain else None
        first, last = int(start.min()), int(end.max())
        return (first, last) if stated is None else (min(first, stated[0]), max(last, stated[1]))

    def clip_edges(self, start: Ints, end: Ints) -> tuple[Ints, Ints]:
        """Clip starts and ends to the window."""
        return (
            start if self.low is None else np.maximum(start, self.low),
            end if self.high is None else np.minimum(end, self.high),
        )

    def clip_rows(self, rows: Rows) -> tuple[Ints, Ints]:
        """Return starts and ends of events, clipped to the window."""
        start = self.table.start_ns[rows]
        return self.clip_edges(start, start + self.table.dur_ns[rows])

    def durations(self, rows: Rows) -> Ints:
        """Return the durations of events within the window."""
        start, end = self.clip_rows(rows)
        return end - start

    def union_of_kinds(self, *kinds: str) -> Intervals:
        """Return the times in the window during which a selected event of these kinds runs."""
        if self.plain:
            return self.union_of_all_of_kinds(*kinds)

        def find() -> Intervals:
            if self.without_window is not self:
                return clip(self.without_window.union_of_kinds(*kinds), self.low, self.high)
            return union(*self.clip_rows(self.rows_of_kinds(*kinds)))

        return self.get_or_compute(("covered", kinds), find)

    def with_window(self, low: int | None, high: int | None) -> RankPart:
        """Return the same events, clipped to another window on the trace set's clock."""
        shift = self.trace.shift_ns
        low, high = (None if edge is None else edge - shift for edge in (low, high))
        return replace(self, low=low, high=high, plain=False)

    def is_in_window(self, time_ns: Ints) -> Bools:
        """Return which times of the table's clock are in the window."""
        inside = np.ones(len(time_ns), dtype=bool)
        if self.low is not None:
            inside &= time_ns >= self.low
        if self.high is not None:
            inside &= time_ns < self.high
        return inside

    def union_of_all_of_kinds(self, *kinds: str) -> Intervals:
        """Return the times in the window when any event of these kinds runs, selected or not."""
        # Communication is hidden by any compute, even if only the communication is selected.
        return self.get_or_compute(
            ("covered by all", kinds),
            lambda: clip(device_trace_index(self.trace).union_of_kinds(kinds), self.low, self.high),
        )


class RankParts:
    """The selected events of several ranks.

    A part is computed on access. Iterating releases each rank before the next unless all fit in the
    memory limit, so keep results of a part instead of the part.
    """

    def __init__(self, traces: Sequence[Trace], selection: Selection, executor: Any = None) -> None:
        self.traces = list(traces)
        self.selection = selection
        self.executor = executor
        self.kind_counts: dict[int, Ints] = {}

    @property
    def owner(self) -> TraceSet:
        """The ranks' trace set, on the clock of the selection."""
        return self.selection.owner

    @property
    def ranks(self) -> list[int]:
        """The ranks, ascending."""
        return [trace.rank for trace in self.traces]

    def __len__(self) -> int:
        return len(self.traces)

    def __getitem__(self, position: int) -> RankPart:
        return rank_part(self.traces[position], self.selection)

    def __iter__(self) -> Iterator[RankPart]:
        for trace in iter_ranks(self.traces):
            part = rank_part(trace, self.selection)
            yield part
            self.kind_counts[trace.rank] = part.kind_counts

    def counts(self) -> Ints:
        """Return the number of events by kind, over all ranks."""
        uncounted = [trace for trace in self.traces if trace.rank not in self.kind_counts]
        for trace in iter_ranks(uncounted):
            self.kind_counts[trace.rank] = rank_part(trace, self.selection).kind_counts
        total = np.zeros(len(KINDS), dtype=np.int64)
        for rank in self.ranks:
            total += self.kind_counts[rank]
        return total


def narrow_selection(
    traces: TraceSet,
    selection: Selection | str | None = None,
    window: Window | None = None,
    ranks: Iterable[int] | int | None = None,
) -> Selection:
    """Return the intersection of the arguments, bound to the traces on the selection's clock.

    `selection` may be a query over event columns.
    """
    if isinstance(selection, str):
        selection = traces.select(selection)
    chosen = Selection() if selection is None else selection
    if not isinstance(chosen, Selection):
        raise TraceError(
            f"{selection!r} is not a selection",
            remedy="Give traces.select(...), or a query such as \"kind == 'compute'\".",
        )
    if chosen.traces is not None:
        # The selection's times are on the clock of its own trace set, possibly a view's.
        traces = traces.with_clock(chosen.traces.clock)
    start, end = chosen.start_ns, chosen.end_ns
    # An export lacks events outside its window, so this window always applies.
    windows = [None if window is None else as_window(window), traces.window_ns]
    for low, high in filter(None, windows):
        start = low if start is None else max(start, low)
        end = high if end is None else min(end, high)
    if start is not None and end is not None:
        end = max(start, end)  # empty if the windows do not overlap
    if ranks is not None:
        ranks = resolve_ranks(traces, ranks)
        if chosen.ranks is not None:
            ranks = set(ranks) & set(chosen.ranks)
    return traces.select(chosen, start_ns=start, end_ns=end, ranks=ranks)


def rank_parts(
    traces: TraceSet,
    selection: Selection | str | None = None,
    window: Window | None = None,
    ranks: Iterable[int] | int | None = None,
    *,
    captured: bool = False,
) -> RankParts:
    """Return the selected events of each selected rank; see `narrow_selection`.

    With `captured`, a CUDA graph's kernels have the operators from its capture.
    """
    chosen = narrow_selection(traces, selection, window, ranks)
    members = [
        trace
        for trace in chosen.owner.values()
        if chosen.ranks is None or trace.rank in chosen.ranks
    ]
    if captured:
        members = [captured_trace(trace) if trace.capture else trace for trace in members]
    return RankParts(members, chosen, traces.executor)


def rank_part(trace: Trace, selection: Selection) -> RankPart:
    """Return the events of a rank in a selection, cached for recent selections."""
    # The result depends neither on the other selected ranks nor on the trace set.
    selection = replace(selection, ranks=None, traces=None)
    limit = _MAX_ROWS * len(trace)
    recent: LRU[Selection, RankPart] = memo(
        trace,
        ("parts", trace.shift_ns),
        lambda: LRU(limit, lambda part: max(len(part.rows), limit // _MAX_PARTS)),
    )

    def find() -> RankPart:
        low, high = window_in_table_time(selection, trace)
        is_plain = selection.tracks is None and selection.query is None and selection.ids is None
        return RankPart(trace, member_rows(selection, trace), low, high, is_plain, selection)

    return recent.get_or_compute(selection, find)


@memoize
def host_collectives(trace: Trace) -> Rows:
    """Return the collectives that libraries run on a rank's host, each listed once.

    A collective is a range of its library (``gloo:all_reduce``). PyTorch's call for it
    (``c10d::allreduce_``) counts only if the file has neither such ranges nor communication on the
    device, which the call may have launched.
    """
    table = trace.table
    for pattern in (taxonomy.HOST_LIBRARIES, taxonomy.HOST_CALLS):
        # Dumps also have collectives that were only enqueued, which have no duration.
        is_call = name_mask(trace, re.compile(pattern).match) & (table.dur_ns > 0)
        rows = np.flatnonzero(is_call)
        if len(rows) or ((table.kind == _COMMUNICATION) & (table.stream >= 0)).any():
            return rows
    return rows


def count_by_kind(chosen: RankParts, kinds: Sequence[str] = DEVICE_WORK_KINDS) -> dict[str, int]:
    """Return the number of selected events by kind; 0 for kinds without events."""
    counts = chosen.counts()
    return {kind: int(counts[KINDS.index(kind)]) for kind in kinds}
