"""The critical path of a whole job: which rank the others wait for, and what that rank does."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt
import pandas as pd

from hta_widgets.analysis.clocks import clock_fit
from hta_widgets.analysis.collectives import Arrivals, arrivals
from hta_widgets.analysis.comm_events import OPERATIONS
from hta_widgets.analysis.critical.nodes import (
    Stretch,
    busy_rows,
    instance_numbers,
    ranges_named,
)
from hta_widgets.analysis.critical.path import CriticalPath, build, critical_path_summary
from hta_widgets.analysis.critical.rules import (
    BOUNDS,
    EDGE_TYPES,
    EXACT,
    LEAD,
    OPERATOR,
)
from hta_widgets.analysis.matching import Matching, matching
from hta_widgets.analysis.scope import Window, categorical, result
from hta_widgets.errors import TraceError
from hta_widgets.taxonomy import KINDS
from hta_widgets.text import as_window
from hta_widgets.trace.trace import Trace
from hta_widgets.trace.traceset import TraceSet

Ints = npt.NDArray[np.int64]
Rows = npt.NDArray[np.intp]

#: The type of a segment that the path came to from another rank; others are `EDGE_TYPES`.
COLLECTIVE = len(EDGE_TYPES)

_ANNOTATION = KINDS.index("annotation")
_CPU = KINDS.index("cpu")
_OUTSIDE = BOUNDS.index("outside_path")
#: Collectives that no rank leaves before all have arrived.
_TOGETHER = [
    OPERATIONS.index(name)
    for name in ("all_reduce", "reduce_scatter", "all_gather", "all_to_all", "barrier")
]
_NEVER = np.iinfo(np.int64).max
#: How the path gets to a segment, by its type.
_VIA = ("event", "thread", "launch", "stream", "wait", "unknown", "collective")


def job_critical_path(
    traces: TraceSet,
    *,
    annotation: str = "ProfilerStep",
    instance: int | tuple[int, int] = 0,
    window: Window | None = None,
) -> pd.DataFrame:
    """Return the chain of dependencies that decides how long a step takes, over all ranks.

    The path shows which rank the job waits for, and what that rank does in the meantime: time that
    the others spend waiting for it in collectives is not on the path.

    The path is walked back from the end of the rank that ends last. Within a rank it follows the
    dependencies of `critical_path`: from each start or end to what it waited for, which is the
    launching call, the kernel before on the stream, the work of another stream or the device that
    was waited for, or what came before on the thread. Where it comes to the end of a collective in
    which the rank waited, the transfer, from the last arrival on, belongs to the rank; from the
    last arrival the path goes on back on the rank that arrived last.

    Times are those of ``traces.with_clock("fitted")``, whatever clock the set lies on, since only
    that one orders arrivals.

    Parameters
    ----------
    traces : TraceSet
    annotation : str, default "ProfilerStep"
        Part of the name of a range on the host; ``""`` is everything.
    instance : int or (first, last), default 0
        Which of the ranges of that name, numbered from 0 by their earliest start on any rank. The
        same range on different ranks is identified by its name (``ProfilerStep#4``), ranges of one
        name by their order. The span is from its earliest start on any rank to its latest end, or
        to the end of the last device work that it launched.
    window : (start_ns, end_ns), optional
        A span on the fitted clock instead of a range.

    Returns
    -------
    DataFrame
        One row per segment, in time; each starts where the one before ends, and ``dur_ns`` add up
        to the span.

        ``rank``; ``start_ns, dur_ns`` (int64); ``id`` of the event that the time belongs to, -1 for
        none; its ``name``, ``kind`` and ``stream`` (-1 on the host); ``bound_by`` and ``type`` as
        in `critical_path`, ``outside_path`` also where nothing is known that an event waited for;
        ``via``, how the path gets to the segment: ``event`` (within one), ``thread``, ``launch``,
        ``stream``, ``wait``, ``collective`` (from the rank of the row before, which arrived last at
        the event of this one), ``unknown``.

        ``.attrs``: ``span_ns``; ``clock``; ``residual_ns``, how well the fitted clock fits, the
        worst rank's of `clock_offsets`, -1 unknown; ``jumps``, how often the path changes ranks;
        ``clock_overlap_ns``: where a rank leaves a collective before the last one has come, the
        clocks contradict each other, and time on the last rank's side that would be counted twice
        is left out; this is by how much, added up over the jumps.

    Raises
    ------
    TraceError
        Where the range has fewer instances.

    Notes
    -----
    HTA's critical path is that of one rank. Here nothing is longest: the walk follows what each
    event last waited for, so the time of the path is that of the span. Collectives that lack ranks'
    files are left by the last rank that is there.
    """
    match = matching(traces)
    fit = clock_fit(traces)
    times = arrivals(traces, match, "fitted")
    span = span_of_job(match.traces, times.shifts_ns, annotation, instance, window)
    found = Segments() if span is None else walked(match.traces, match, times, span)
    known = fit.residual_ns[fit.residual_ns >= 0]
    return _frame(
        match,
        found,
        span,
        residual_ns=int(known.max()) if len(known) else -1,
        note=_note(traces, match, span, annotation),
    )


def job_path_summary(frame: pd.DataFrame) -> pd.DataFrame:
    """Return how much of a job's critical path is on each rank, by cause.

    Parameters
    ----------
    frame : DataFrame
        From `job_critical_path`.

    Returns
    -------
    DataFrame
        One row per rank and cause that occurs, the most time first: ``rank`` (int64), ``bound_by``,
        ``count`` (int64, segments), ``dur_ns`` (int64), ``share`` (float64, 0..1 of the path).
        Its attributes are those of the path.
    """
    table = critical_path_summary(frame)
    table["share"] = table["dur_ns"] / max(int(table["dur_ns"].sum()), 1)
    return table.sort_values(
        ["dur_ns", "rank"], ascending=[False, True], kind="stable", ignore_index=True
    )


def _note(traces: TraceSet, match: Matching, span: JobSpan | None, annotation: str) -> str:
    if not len(traces):
        return "no ranks are loaded"
    if span is None:
        return (
            f"no event of any rank has {annotation!r} in its name"
            if annotation
            else "nothing happens on any rank by then"
        )
    if not len(match):
        return "no collective is found on two ranks, so the path is that of the rank that ends last"
    if match.missing_ranks:
        return f"files of {match.missing_ranks} ranks are missing, which may have come later"
    return ""


def _frame(
    match: Matching, found: Segments, span: JobSpan | None, *, residual_ns: int, note: str
) -> pd.DataFrame:
    def column(values: list[int]) -> Ints:
        return np.array(values[::-1], dtype=np.int64)

    place, event, type_ = column(found.place), column(found.event), column(found.type)
    start, end = column(found.start), column(found.end)
    name, kind, stream = (np.full(len(place), -1, dtype=np.int64) for _ in range(3))
    names: dict[str, int] = {"": 0}
    for number, trace in enumerate(match.traces):
        mine = np.flatnonzero((place == number) & (event >= 0))
        if len(mine):
            rows, table = event[mine], trace.table
            kind[mine], stream[mine] = table.kind[rows], table.stream[rows]
            used, inverse = np.unique(table.name[rows], return_inverse=True)
            codes = [names.setdefault(table.names[code], len(names)) for code in used.tolist()]
            name[mine] = np.array(codes, dtype=np.int64)[inverse]
    ranks = np.array([trace.rank for trace in match.traces], dtype=np.int64)
    return result(
        {
            "rank": ranks[place] if len(ranks) else place,
            "start_ns": start,
            "dur_ns": end - start,
            "id": event,
            "name": categorical(np.maximum(name, 0), list(names)),
            "bound_by": categorical(column(found.bound), BOUNDS),
            "kind": categorical(kind, KINDS),
            "type": categorical(np.where(type_ == COLLECTIVE, 0, type_), EDGE_TYPES),
            "via": categorical(type_, _VIA),
            "stream": stream,
        },
        matched=match.counts,
        note=note,
        clock="fitted",
        residual_ns=residual_ns,
        span_ns=(0, 0) if span is None else (span.low, span.high),
        jumps=found.jumps,
        clock_overlap_ns=found.overlap_ns,
    )


# --- the span -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class JobSpan:
    """A stretch of a job on its common clock, and where it ends."""

    low: int
    high: int
    place: int
    row: int = -1
    track: int = -1


def span_of_job(
    traces: Sequence[Trace],
    shifts: Ints,
    annotation: str,
    instance: int | tuple[int, int],
    window: Window | None,
) -> JobSpan | None:
    """Return the stretch, None where nothing is there."""
    if window is None and annotation:
        return _of_range(traces, shifts, annotation, instance)
    edges = None if window is None else as_window(window)
    spans = [
        _whole(trace, shift, place) if edges is None else _cut(trace, shift, place, edges)
        for place, (trace, shift) in enumerate(zip(traces, shifts.tolist(), strict=True))
    ]
    found = [span for span in spans if span is not None]
    if not found:
        return None
    latest = max(found, key=lambda one: (one.high, -one.place))
    if edges is None:
        return replace(latest, low=min(one.low for one in found))
    return replace(latest, low=edges[0], high=edges[1])


def _work(trace: Trace) -> tuple[Rows, Rows]:
    """Return the device's work, and what the threads do that launch it.

    Other threads, such as those that watch over collectives, decide nothing.
    """
    table = trace.table
    device = busy_rows(trace)
    host = np.flatnonzero((table.stream < 0) & (table.kind != _ANNOTATION))
    call = trace.launch_of[device]
    launching = np.unique(table.track[call[call >= 0]])
    return device, host[np.isin(table.track[host], launching)] if len(launching) else host


def _whole(trace: Trace, shift: int, place: int) -> JobSpan | None:
    table = trace.table
    rows = np.concatenate(_work(trace))
    if not len(rows):
        return None
    end = table.start_ns[rows] + table.dur_ns[rows]
    last = int(end.argmax())
    low = int(table.start_ns[rows].min())
    return JobSpan(low + shift, int(end[last]) + shift, place, row=int(rows[last]))


def _cut(trace: Trace, shift: int, place: int, window: tuple[int, int]) -> JobSpan | None:
    """Return where a rank is at the end of a window; `high` is the last end in it.

    It is in the device work that runs then, started last; or else, as the device is idle, in what
    the thread does that launched last.
    """
    low, high = window[0] - shift, window[1] - shift
    table = trace.table
    device, host = _work(trace)
    start, end = table.start_ns[device], table.start_ns[device] + table.dur_ns[device]
    ends = end[(end > low) & (end <= high)]
    if not len(ends):
        ends = table.end_ns[host]
        ends = ends[(ends > low) & (ends <= high)]
    running = device[(start < high) & (end > high)]
    if not len(ends) and not len(running):
        return None
    last = int(ends.max()) if len(ends) else low
    if len(running):
        return JobSpan(low + shift, last + shift, place, row=int(running[-1]))
    call = trace.launch_of[device[start < high]]
    call = call[call >= 0]
    track = int(table.track[call[-1]]) if len(call) else -1
    return JobSpan(low + shift, last + shift, place, track=track)


def _of_range(
    traces: Sequence[Trace], shifts: Ints, annotation: str, instance: int | tuple[int, int]
) -> JobSpan | None:
    first, last = instance_numbers(instance)
    found = [_instances(trace, annotation) for trace in traces]
    starts: dict[tuple[str, int], int] = {}
    for trace, shift, rows_of in zip(traces, shifts.tolist(), found, strict=True):
        for key, row in rows_of.items():
            start = int(trace.table.start_ns[row]) + shift
            starts[key] = min(start, starts.get(key, start))
    if not starts:
        return None
    keys = sorted(starts, key=lambda key: (starts[key], key))
    if last >= len(keys):
        raise TraceError(
            f"no rank has an instance {last} of {annotation!r}",
            remedy=f"There are {len(keys)}, numbered from 0"
            f" ({', '.join(name for name, _ in keys[:5])}{', …' if len(keys) > 5 else ''}).",
        )
    spans = []
    for place, (trace, shift, rows_of) in enumerate(
        zip(traces, shifts.tolist(), found, strict=True)
    ):
        rows = [rows_of[key] for key in keys[first : last + 1] if key in rows_of]
        if rows:
            spans.append(_span_of(trace, place, shift, np.array(rows, dtype=np.intp)))
    latest = max(spans, key=lambda span: (span.high, -span.place))
    return replace(latest, low=min(span.low for span in spans))


def _instances(trace: Trace, annotation: str) -> dict[tuple[str, int], int]:
    """Return the ranges of a rank by name and how often that occurred before.

    Ranks may begin to record at different steps, so numbers alone do not identify a range.
    """
    table = trace.table
    seen = Counter[int]()
    found = {}
    for row in ranges_named(trace, annotation).tolist():
        code = int(table.name[row])
        found[table.names[code], seen[code]] = row
        seen[code] += 1
    return found


def _span_of(trace: Trace, place: int, shift: int, rows: Rows) -> JobSpan:
    """Return the stretch of one rank: its ranges, and the device work that they launched."""
    table = trace.table
    start, end = int(table.start_ns[rows].min()), int(table.end_ns[rows].max())
    last = int(rows[table.end_ns[rows].argmax()])
    device = busy_rows(trace)
    call = trace.launch_of[device]
    called = np.where(call >= 0, table.start_ns[call], table.start_ns[device])
    # Where the next range begins, this one has ended.
    device = device[(called >= start) & (called < end)]
    if len(device):
        latest = int(device[table.end_ns[device].argmax()])
        if int(table.end_ns[latest]) > end:
            return JobSpan(start + shift, int(table.end_ns[latest]) + shift, place, row=latest)
    return JobSpan(start + shift, end + shift, place, track=int(table.track[last]))


# --- the walk -------------------------------------------------------------------------------------


@dataclass(slots=True)
class Segments:
    """The path from its end, on the job's clock; `place` is the rank's position in the set."""

    start: list[int] = field(default_factory=list)
    end: list[int] = field(default_factory=list)
    place: list[int] = field(default_factory=list)
    event: list[int] = field(default_factory=list)
    type: list[int] = field(default_factory=list)
    bound: list[int] = field(default_factory=list)
    #: position in the graph's edges, for those whose bound is not known yet
    edge: list[int] = field(default_factory=list)
    jumps: int = 0
    overlap_ns: int = 0

    def add(
        self, start: int, end: int, place: int, type_: int, *,
        edge: int = -1, event: int = -1, bound: int = _OUTSIDE,
    ) -> None:  # fmt: skip
        """Add what comes before all that is there; nothing where it has no length."""
        if end > start:
            self.start.append(start)
            self.end.append(end)
            self.place.append(place)
            self.type.append(type_)
            self.edge.append(edge)
            self.event.append(event)
            self.bound.append(bound)


def walked(traces: Sequence[Trace], match: Matching, times: Arrivals, span: JobSpan) -> Segments:
    """Return the critical path of a stretch of a job, its end first.

    From each instant the walk goes back to what it waited for: along the dependency that counts in
    the rank's graph, or else the latest; from the end of a collective that the rank waited in to
    the arrival of the last rank, and on from there.
    """
    job = _Job(traces, match, times, span)
    found = Segments()
    place = span.place
    graph = job.graph(place)
    node = graph.last_node(span)
    now = span.high
    if node >= 0:
        begin = max(min(graph.time[node], now), span.low)
        event, bound = graph.running_after(node)
        found.add(begin, now, place, LEAD, event=event, bound=bound)
        now = begin
    limit = _NEVER
    while now > span.low:
        if node <= 0 and (node < 0 or graph.into[node] < 0):
            found.add(span.low, now, place, LEAD)
            break
        edge = graph.into[node]
        entry = graph.entry.get(node, -1)
        if entry >= 0 and graph.time[node] < limit and (to := job.jump(entry)) is not None:
            arrived = int(times.last_ns[entry])
            begin = max(min(arrived, now), span.low)
            found.add(begin, now, place, COLLECTIVE, edge=edge, event=graph.event(edge))
            if begin == now and found.type and found.place[-1] == place:
                # By the clocks, the rank left before the last one came.
                found.type[-1] = COLLECTIVE
            found.overlap_ns += max(arrived - now, 0)
            found.jumps += 1
            # No second jump from the same instant, so clocks that disagree cannot lead in circles.
            limit = now if arrived >= now else begin + 1
            now = begin
            place, node = to
            graph = job.graph(place)
            continue
        if edge < 0:
            before = node - 1
            begin = max(min(graph.time[before], now), span.low)
            found.add(begin, now, place, LEAD)
        else:
            before = graph.source[edge]
            begin = max(min(graph.time[before], now), span.low)
            found.add(begin, now, place, graph.type[edge], edge=edge, event=graph.event(edge))
        now, node = begin, before
    job.bound(found)
    return found


class _Job:
    """The graphs of the ranks on the path, and the collectives at which it may change ranks."""

    def __init__(
        self, traces: Sequence[Trace], match: Matching, times: Arrivals, span: JobSpan
    ) -> None:
        self._traces, self._match, self._times, self._span = traces, match, times, span
        self._graphs: dict[int, _Graph] = {}
        self._rows = match.taken("rows")
        self._last = _last_entries(match, times)
        together = np.isin(match.taken("operation"), _TOGETHER)
        #: whether the rank waited for the last one, by the clocks
        self._waited = (times.wait_ns > 0) & (together | (times.end_ns > times.last_ns))

    def graph(self, place: int) -> _Graph:
        known = self._graphs.get(place)
        if known is None:
            mine = np.flatnonzero((self._match.trace == place) & self._waited)
            shift = int(self._times.shifts_ns[place])
            known = _Graph(self._traces[place], shift, self._span, self._rows[mine], mine)
            self._graphs[place] = known
        return known

    def jump(self, entry: int) -> tuple[int, int] | None:
        """Return the rank that came last to an entry's collective, and the node of its arrival."""
        last = int(self._last[entry])
        place = int(self._match.trace[last])
        node = self.graph(place).arrival(int(self._rows[last]))
        return None if node < 0 else (place, node)

    def bound(self, found: Segments) -> None:
        """Fill in what bounds the segments that follow edges."""
        places, edges = np.array(found.place, np.int64), np.array(found.edge, np.int64)
        for place, graph in self._graphs.items():
            mine = np.flatnonzero((places == place) & (edges >= 0))
            if len(mine):
                bounds = graph.path.bound_by(edges[mine])
                for k, code in zip(mine.tolist(), bounds.tolist(), strict=True):
                    found.bound[k] = code


def _last_entries(match: Matching, times: Arrivals) -> Ints:
    """Return for each entry that of the collective's last rank; of several the lowest one's."""
    if not len(match):
        return np.empty(0, dtype=np.int64)
    own = np.arange(len(match))
    late = np.where(times.arrival_ns == times.last_ns, own, _NEVER)
    return match.each(np.minimum.reduceat(late, match.starts)).astype(np.int64)


class _Graph:
    """The dependencies of one rank, as lists, which a walk reads faster than arrays."""

    def __init__(self, trace: Trace, shift: int, span: JobSpan, rows: Ints, entries: Ints) -> None:
        self.trace = trace
        low, high = span.low - shift, span.high - shift
        none = np.empty(0, dtype=np.intp)
        self.path: CriticalPath = build(trace, Stretch(_begin(trace, low), high, none), EXACT)
        nodes, edges = self.path.nodes, self.path.edges
        self.time: list[int] = (nodes.time_ns + shift).tolist()
        self.into: list[int] = _binding(self.path).tolist()
        self.source: list[int] = edges.source.tolist()
        self.type: list[int] = edges.type.tolist()
        self._event: Ints = edges.event
        ends = nodes.of_end[rows]
        self.entry: dict[int, int] = dict(zip(ends.tolist(), entries.tolist(), strict=True))
        self.entry.pop(-1, None)

    def event(self, edge: int) -> int:
        return int(self._event[edge]) if edge >= 0 else -1

    def arrival(self, row: int) -> int:
        return int(self.path.nodes.of_start[row])

    def last_node(self, span: JobSpan) -> int:
        """Return the node at which the path ends, -1 for none."""
        nodes = self.path.nodes
        for known in (nodes.of_end, nodes.of_start):
            node = int(known[span.row]) if span.row >= 0 else -1
            if node >= 0 and self.time[node] <= span.high:
                return node
        count = int(np.searchsorted(np.array(self.time, dtype=np.int64), span.high, side="right"))
        if span.track >= 0:
            track = self.trace.table.track[nodes.row[:count]]
            own = np.flatnonzero(nodes.on_host[:count] & (track == span.track))
            if len(own):
                return int(own[-1])
        return count - 1

    def running_after(self, node: int) -> tuple[int, int]:
        """Return the event that runs on from a node, and its cause."""
        nodes, table = self.path.nodes, self.trace.table
        row = int(nodes.row[node])
        if not nodes.on_host[node]:
            if not nodes.is_start[node]:
                return -1, _OUTSIDE
            own = np.flatnonzero(
                (self.path.edges.type == OPERATOR) & (self.path.edges.event == row)
            )
            return row, int(self.path.bound_by(own[:1])[0]) if len(own) else _OUTSIDE
        event = row if nodes.is_start[node] else int(table.parent[row])
        within = event >= 0 and nodes.of_start[event] >= 0
        return event, BOUNDS.index("cpu_bound" if within else "cpu_outside_operators")


def _binding(path: CriticalPath) -> Ints:
    """Return the edge into each node that the walk goes back along, -1 for none.

    That is the one whose time counts: it was satisfied last. Where none counts, the latest.
    """
    edges = path.edges
    found = np.full(len(path.nodes), -1, dtype=np.int64)
    # Edges into a node come with the latest source first, and the last assignment stays.
    backward = np.arange(len(edges))[::-1]
    found[edges.target[backward]] = backward
    counting = backward[edges.weight_ns[backward] > 0]
    found[edges.target[counting]] = counting
    return found


def _begin(trace: Trace, low: int) -> int:
    """Return the time from which to read a rank's host, for all that runs after `low`."""
    table = trace.table
    end = table.start_ns + table.dur_ns
    device = busy_rows(trace)
    device = device[end[device] > low]
    call = trace.launch_of[device]
    host = (table.stream < 0) & (table.kind == _CPU) & (table.start_ns < low) & (end > low)
    starts = (table.start_ns[call[call >= 0]], table.start_ns[device], table.start_ns[host])
    return min([low, *(int(one.min()) for one in starts if len(one))])
