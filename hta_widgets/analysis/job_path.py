"""The critical path of a job: which rank the job waits for, and what that rank does meanwhile.

For example, two ranks leave an all-reduce together at 100 ns, and rank 1 arrived last, at 80 ns.
The path follows rank 1 until 80 ns, then the transfer from 80 to 100 ns.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from hta_widgets.analysis.critical.graph import build_graph
from hta_widgets.analysis.critical.nodes import (
    BOUNDS,
    EDGE_TYPES,
    EXACT_RULES,
    AnalysisRange,
    find_nodes,
    find_ranges,
    instance_numbers,
    resolve_annotation,
    without_steps_note,
)
from hta_widgets.analysis.critical.path import critical_path_summary
from hta_widgets.analysis.critical.walk import PathWalker, RankGraph
from hta_widgets.analysis.cross_rank.arrivals import Arrivals, arrival_times
from hta_widgets.analysis.cross_rank.clock_fit import RankClock, drift_fit
from hta_widgets.analysis.cross_rank.comm_events import SYNCHRONIZING_OPERATIONS
from hta_widgets.analysis.cross_rank.matching import Matching, count_selected, matching
from hta_widgets.analysis.frames import categorical, result_frame
from hta_widgets.analysis.scope import Window, device_work_rows
from hta_widgets.arguments import check_arguments
from hta_widgets.errors import TraceError
from hta_widgets.taxonomy import KINDS
from hta_widgets.text import as_window, plural
from hta_widgets.trace.arrays import Ints, Rows, distinct_codes, number_in_group
from hta_widgets.trace.trace import Trace
from hta_widgets.trace.traceset import Selection, TraceSet

#: Type of a segment that the path enters from another rank; other types are from `EDGE_TYPES`.
COLLECTIVE = len(EDGE_TYPES)

_NO_ROWS = np.empty(0, dtype=np.intp)
_WHOLE_RANK = AnalysisRange(None, None, _NO_ROWS)
_ANNOTATION = KINDS.index("annotation")
_CPU = KINDS.index("cpu")
_NEVER = np.iinfo(np.int64).max
#: The connection by which the path enters a segment, indexed by the segment's type.
_VIA = ("event", "thread", "launch", "stream", "wait", "unknown", "collective")


@check_arguments
def job_critical_path(
    traces: TraceSet,
    *,
    annotation: str = "ProfilerStep",
    instance: int | tuple[int, int] = 0,
    window: Window | None = None,
) -> pd.DataFrame:
    """Return the chain of dependencies, over all ranks, that determines a step's duration.

    The path shows which rank the job waits for, and what that rank does meanwhile. Time that the
    others spend waiting for it in collectives is not on the path.

    The path is walked backwards from the end of the rank that ends last. Within a rank it follows
    the path of `critical_path`: from each start or end to the launch call, the previous kernel of
    the stream, the work of another stream or the device, or the previous event of the thread,
    whichever has the longest chain of dependencies. At the end of a collective in which the rank
    waited, the rank is charged with the transfer, which begins at the last arrival; before that,
    the path continues on the rank that arrived last.

    Times are always on the fitted clock (`TraceSet.with_clock`), because only this clock orders the
    arrivals of different ranks. A clear clock drift is corrected.

    Parameters
    ----------
    traces : TraceSet
    annotation : str, default "ProfilerStep"
        Part of the name of a host range; ``""`` analyzes the whole job. For a job without
        ``ProfilerStep``, the path is that of a step of its inference engine, or else of the whole
        job, as in `critical_path`.
    instance : int or (first, last), default 0
        Number of the range among those with that name, counted from 0 by their earliest start on
        any rank. Names identify the same range on different ranks (``ProfilerStep#4``); ranges with
        the same name are identified by their order. The span extends from the earliest start on any
        rank to the latest end, or to the end of the last device work launched in the range.
    window : (start_ns, end_ns), optional
        A span on the fitted clock instead of a range.

    Returns
    -------
    DataFrame
        One row per segment, in order of time and without gaps; ``dur_ns`` adds up to the span.

        ``rank``; ``start_ns, dur_ns`` (int64); ``id`` of the event to which the time belongs, -1 if
        there is none; its ``name``, ``kind`` and ``stream`` (-1 on the host); ``bound_by`` and
        ``type`` as in `critical_path`, with ``outside_path`` also if no dependency of an event is
        known; ``via``, how the path enters the segment: ``event`` (within an event), ``thread``,
        ``launch``, ``stream``, ``wait``, ``collective`` (from the rank of the previous row, which
        arrived last at this row's event), ``unknown``.

        ``.attrs``: ``span_ns``; ``clock``; ``residual_ns``, the largest of `clock_offsets` after
        correction of clock drift, -1 if unknown; ``jumps``, how often the path changes ranks;
        ``clock_overlap_ns``, the time that is excluded because the path would count it twice,
        summed over the jumps. This occurs if a rank leaves a collective before the last one
        arrives, which shows that the clocks are inaccurate.

    Notes
    -----
    HTA's critical path is that of a single rank; for a job with one rank, this path equals that of
    `critical_path`. In collectives with missing files, it continues on the last loaded rank.
    """
    match = matching(traces)
    drift = drift_fit(traces)
    times = arrival_times(traces, match, "fitted")
    requested = annotation
    annotation = resolve_annotation(match.traces, requested)
    ranks = list(zip(range(len(match.traces)), match.traces, times.clocks, strict=True))
    spans = _spans_of_ranks(ranks, annotation, instance, window)
    span = _span_of_job(spans, window)
    walk = _JobWalker(match, times, spans)
    if span is not None:
        walk.run(span)
    return result_frame(
        _path_columns(match, walk.job_segments()),
        matched=count_selected(match, Selection())[1],
        note=[
            _path_note(traces, match, span, requested if window is None else "", annotation),
            drift.note,
        ],
        clock="fitted",
        residual_ns=drift.residual_ns,
        span_ns=(0, 0) if span is None else (span.low, span.high),
        jumps=walk.jumps,
        clock_overlap_ns=walk.overlap_ns,
    )


@check_arguments
def job_path_summary(frame: pd.DataFrame) -> pd.DataFrame:
    """Return how much of a job's critical path is on each rank, by cause.

    Parameters
    ----------
    frame : DataFrame
        From `job_critical_path`.

    Returns
    -------
    DataFrame
        One row per rank and cause that occurs, most time first: ``rank`` (int64), ``bound_by``,
        ``count`` (int64, segments), ``dur_ns`` (int64), ``share`` (float64, 0..1 of the path). It
        has the ``.attrs`` of `frame`.
    """
    table = critical_path_summary(frame)
    table["share"] = table["dur_ns"] / max(int(table["dur_ns"].sum()), 1)
    return table.sort_values(
        ["dur_ns", "rank"], ascending=[False, True], kind="stable", ignore_index=True
    )


def _path_note(
    traces: TraceSet, match: Matching, span: _JobSpan | None, requested: str, annotation: str
) -> str:
    if not len(traces):
        return "no ranks are loaded"
    if span is None and annotation:
        return f"no event of any rank has {annotation!r} in its name"
    if span is None:
        return "no rank has events before the end of the window"
    notes = [without_steps_note(requested, annotation)] if requested else []
    if not len(match):
        notes.append(
            "no collective is found on two ranks, so the path is that of the rank that ends last"
        )
    elif match.missing_ranks:
        missing = plural(match.missing_ranks, "rank")
        notes.append(f"files of {missing} are missing; these ranks may have arrived later")
    return "; ".join(filter(None, notes))


def _path_columns(match: Matching, segments: Ints) -> dict[str, Any]:
    start, end, place, type_, _, event, bound, _ = segments
    name, kind, stream = np.full((3, len(place)), -1)
    names: dict[str, int] = {"": 0}
    for number, trace in enumerate(match.traces):
        positions = np.flatnonzero((place == number) & (event >= 0))
        rows, table = event[positions], trace.table
        kind[positions], stream[positions] = table.kind[rows], table.stream[rows]
        used, inverse = distinct_codes(table.name[rows])
        codes = [names.setdefault(table.names[code], len(names)) for code in used.tolist()]
        name[positions] = np.array(codes, dtype=np.int64)[inverse]
    return {
        "rank": np.array([trace.rank for trace in match.traces], dtype=np.int64)[place],
        "start_ns": start,
        "dur_ns": end - start,
        "id": event,
        "name": categorical(np.maximum(name, 0), list(names)),
        "bound_by": categorical(bound, BOUNDS),
        "kind": categorical(kind, KINDS),
        "type": categorical(np.where(type_ == COLLECTIVE, 0, type_), EDGE_TYPES),
        "via": categorical(type_, _VIA),
        "stream": stream,
    }


@dataclass(frozen=True, slots=True, eq=False)
class _JobSpan:
    """A rank's time range on the job's common clock and on the rank's own clock."""

    low: int
    high: int
    place: int  # of the rank
    within: AnalysisRange  # the part that the rank's graph is built from
    row: int = -1  # device work that extends beyond the end of the range


def _spans_of_ranks(
    ranks: Sequence[tuple[int, Trace, RankClock]],
    annotation: str,
    instance: int | tuple[int, int],
    window: Window | None,
) -> list[_JobSpan | None]:
    """Return each rank's span of the named ranges, the window or all events; None if empty."""
    if window is not None:
        edges = as_window(window)
        return [_span_in_window(trace, clock, place, edges) for place, trace, clock in ranks]
    if annotation:
        return _spans_of_ranges(ranks, annotation, instance)
    spans: list[_JobSpan | None] = [None] * len(ranks)
    for place, trace, clock in ranks:
        nodes = find_nodes(trace, _WHOLE_RANK, EXACT_RULES)
        if len(nodes):
            low, high = clock.to_job(nodes.time_ns[[0, -1]]).tolist()
            spans[place] = _JobSpan(low, high, place, _WHOLE_RANK)
    return spans


def _span_of_job(spans: Sequence[_JobSpan | None], window: Window | None) -> _JobSpan | None:
    """Return the span of the last-ending rank from the earliest start; None without spans."""
    nonempty = [span for span in spans if span is not None]
    if not nonempty:
        return None
    latest = max(nonempty, key=lambda span: (span.high, -span.place))
    if window is not None:
        low, high = as_window(window)
        return replace(latest, low=low, high=high)
    return replace(latest, low=min(span.low for span in nonempty))


def _rank_activity(trace: Trace) -> tuple[Rows, Rows]:
    """Return a rank's device work, and the host events of the threads that launch it.

    Other threads, such as collective watchdogs, are not on the path.
    """
    table = trace.table
    device = device_work_rows(trace)
    host = np.flatnonzero((table.stream < 0) & (table.kind != _ANNOTATION))
    call = trace.launch_of[device]
    launching = np.unique(table.track[call[call >= 0]])
    return device, host[np.isin(table.track[host], launching)] if len(launching) else host


def _span_in_window(
    trace: Trace, clock: RankClock, place: int, window: tuple[int, int]
) -> _JobSpan | None:
    """Return a rank's span up to the last end in a window, of device work if any, or host events.

    Device work that extends beyond the window, if any, is the span's `row`.
    """
    low, high = clock.to_rank(np.array(window)).tolist()
    table = trace.table
    device, host = _rank_activity(trace)
    start, end = table.start_ns[device], table.end_ns[device]
    ends = end[(end > low) & (end <= high)]
    if not len(ends):
        ends = table.end_ns[host]
        ends = ends[(ends > low) & (ends <= high)]
    running = device[(start < high) & (end > high)]
    if not len(ends) and not len(running):
        return None
    last = int(ends.max()) if len(ends) else low
    within = AnalysisRange(_earliest_start(trace, low), high, _NO_ROWS)
    row = int(running[-1]) if len(running) else -1
    job_low, job_last = clock.to_job(np.array([low, last])).tolist()
    return _JobSpan(job_low, job_last, place, within, row)


def _spans_of_ranges(
    ranks: Sequence[tuple[int, Trace, RankClock]], annotation: str, instance: int | tuple[int, int]
) -> list[_JobSpan | None]:
    """Return each rank's span from the first to the last instance; None if it lacks them."""
    first, last = instance_numbers(instance)
    instances_of_ranks = [_instances(trace, annotation) for _, trace, _ in ranks]
    starts: dict[tuple[str, int], int] = {}
    for (_, trace, clock), row_of in zip(ranks, instances_of_ranks, strict=True):
        for key, row in row_of.items():
            start = int(clock.to_job(trace.table.start_ns[row]))
            starts[key] = min(start, starts.get(key, start))
    keys = sorted(starts, key=lambda key: (starts[key], key))
    if keys and last >= len(keys):
        raise TraceError(
            f"no rank has an instance {last} of {annotation!r}",
            remedy=f"There are {len(keys)}, numbered from 0"
            f" ({', '.join(name for name, _ in keys[:5])}{', …' if len(keys) > 5 else ''}).",
        )
    spans = []
    for (place, trace, clock), row_of in zip(ranks, instances_of_ranks, strict=True):
        rows = [row_of[key] for key in keys[first : last + 1] if key in row_of]
        spans.append(_span_of(trace, place, clock, np.array(rows, dtype=np.intp)) if rows else None)
    return spans


def _instances(trace: Trace, annotation: str) -> dict[tuple[str, int], int]:
    # Ranks may start recording at different steps, so numbers alone do not identify a range.
    table, rows = trace.table, find_ranges(trace, annotation)
    names = [table.names[code] for code in table.name[rows].tolist()]
    numbers = number_in_group(table.name[rows].astype(np.int64)).tolist()
    return dict(zip(zip(names, numbers, strict=True), rows.tolist(), strict=True))


def _span_of(trace: Trace, place: int, clock: RankClock, rows: Rows) -> _JobSpan:
    """Return the time span of a rank's ranges, including the device work launched in them."""
    table = trace.table
    start, end = int(table.start_ns[rows].min()), int(table.end_ns[rows].max())
    within = AnalysisRange(start, end, rows)
    device = device_work_rows(trace)
    call = trace.launch_of[device]
    called = np.where(call >= 0, table.start_ns[call], table.start_ns[device])
    device = device[(called >= start) & (called < end)]
    high = int(table.end_ns[device].max(initial=end))
    start, high = clock.to_job(np.array([start, high])).tolist()
    return _JobSpan(start, high, place, within)


class _JobWalker(PathWalker):
    """Walks over all ranks: from each collective to the rank that arrived last."""

    def __init__(self, match: Matching, times: Arrivals, spans: Sequence[_JobSpan | None]) -> None:
        super().__init__(0)
        self._match, self._times, self._spans = match, times, spans
        self._graphs: dict[int, RankGraph] = {}
        self._rows = match.event_field("rows")
        #: per entry: the entry of the rank that arrives last at the collective
        self._last = match.per_entry(match.last_entries(times.last_ns - times.arrival_ns))
        is_synchronizing = np.isin(match.event_field("operation"), SYNCHRONIZING_OPERATIONS)
        #: whether the clocks show that the rank waited for the last one
        self._waited = (times.wait_ns > 0) & (is_synchronizing | (times.end_ns > times.last_ns))
        self._limit = _NEVER
        self.jumps = 0
        self.overlap_ns = 0

    def run(self, span: _JobSpan) -> None:
        self.low, self._high = span.low, span.high
        graph = self._graph(span.place)
        node = int(graph.path.nodes.of_start[span.row]) if span.row >= 0 else -1
        self.walk(span.place, graph, node if node >= 0 else graph.first_node(span.high), span.high)

    def leave(
        self, place: int, graph: RankGraph, node: int, now: int
    ) -> tuple[int, RankGraph, int, int] | None:
        entry = graph.exits.get(node, -1)
        if entry < 0 or graph.time[node] >= self._limit:
            return None
        last_entry = int(self._last[entry])
        last_place = int(self._match.trace[last_entry])
        last_graph = self._graph(last_place)
        arrival_node = int(last_graph.path.nodes.of_start[self._rows[last_entry]])
        if arrival_node < 0:
            return None
        arrival_ns = int(self._times.last_ns[entry])
        begin = max(min(arrival_ns, now), self.low)
        # The segment has no duration if, by the clocks, the rank left before the last arrival.
        self.add_edge(begin, now, place, COLLECTIVE, int(graph.path.chains.last_edge[node]))
        self.overlap_ns += max(arrival_ns - now, 0)
        self.jumps += 1
        # Allow only one jump per instant, because clocks that disagree could cause a loop.
        self._limit = now if arrival_ns >= now else begin + 1
        return last_place, last_graph, arrival_node, begin

    def _graph(self, place: int) -> RankGraph:
        """Return a rank's graph, whose exits are the ends of collectives in which it waited."""
        if place not in self._graphs:
            entries = np.flatnonzero((self._match.trace == place) & self._waited)
            trace, clock = self._match.traces[place], self._times.clocks[place]
            low, high = clock.to_rank(np.array([self.low, self._high])).tolist()
            span = self._spans[place]
            within = AnalysisRange(low, high, _NO_ROWS) if span is None else span.within
            if within.start_ns is not None:
                within = replace(within, start_ns=min(within.start_ns, low))
            path = build_graph(trace, within, EXACT_RULES)
            ends = path.nodes.of_end[self._rows[entries]]
            exits = dict(zip(ends.tolist(), entries.tolist(), strict=True))
            exits.pop(-1, None)  # events that are not analyzed have node -1
            self._graphs[place] = RankGraph(path, clock.to_job(path.nodes.time_ns), exits)
        return self._graphs[place]

    def job_segments(self) -> Ints:
        return self.segments({place: graph.path for place, graph in self._graphs.items()})


def _earliest_start(trace: Trace, low: int) -> int:
    """Return the earliest start of events that end after `low`, and of their launch calls."""
    table = trace.table
    end = table.start_ns + table.dur_ns
    device = device_work_rows(trace)
    device = device[end[device] > low]
    call = trace.launch_of[device]
    host = (table.stream < 0) & (table.kind == _CPU) & (table.start_ns < low) & (end > low)
    starts = (table.start_ns[call[call >= 0]], table.start_ns[device], table.start_ns[host])
    return min([low, *(int(starts_ns.min()) for starts_ns in starts if len(starts_ns))])
