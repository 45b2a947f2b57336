"""Back along dependencies from the end of a job: within ranks, and across them at collectives."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from hta_widgets.trace.table import KINDS
from hta_widgets.trace.trace import Trace

from hta_widgets.analysis.collective_args import OPERATIONS
from hta_widgets.analysis.collectives import Arrivals
from hta_widgets.analysis.critical.graph import CriticalPath
from hta_widgets.analysis.critical.graph import build
from hta_widgets.analysis.critical.rules import BOUNDS
from hta_widgets.analysis.critical.rules import EDGE_TYPES
from hta_widgets.analysis.critical.rules import EXACT
from hta_widgets.analysis.critical.rules import LEAD
from hta_widgets.analysis.critical.rules import OPERATOR
from hta_widgets.analysis.critical.window import Stretch
from hta_widgets.analysis.job_span import JobSpan
from hta_widgets.analysis.matching import Matching
from hta_widgets.analysis.scope import BUSY

__all__ = ["COLLECTIVE", "Segments", "walked"]

Ints = npt.NDArray[np.int64]

#: The type of a segment that the path came to from another rank; others are `EDGE_TYPES`.
COLLECTIVE = len(EDGE_TYPES)

_BUSY = [KINDS.index(kind) for kind in BUSY]
_CPU = KINDS.index("cpu")
_OUTSIDE = BOUNDS.index("outside_path")
#: Collectives that no rank leaves before all have arrived.
_TOGETHER = [
    OPERATIONS.index(name)
    for name in ("all_reduce", "reduce_scatter", "all_gather", "all_to_all", "barrier")
]
_NEVER = np.iinfo(np.int64).max


@dataclass(slots=True)
class Segments:
    """The path from its end; times on the job's clock, `place` is the rank's position in the set.

    Attributes
    ----------
    overlap_ns : int
        How much later than a rank left its collective the last one came, by clocks that do not fit.
    """

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
                # The rank left before the last one came, say the clocks.
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
    """The graphs of the ranks that the path comes by, and where it may change over."""

    def __init__(
        self, traces: Sequence[Trace], match: Matching, times: Arrivals, span: JobSpan
    ) -> None:
        self._traces, self._match, self._times, self._span = traces, match, times, span
        self._graphs: dict[int, _Graph] = {}
        self._rows = match.taken("rows")
        self._last = _last_entries(match, times)
        together = np.isin(match.taken("operation"), _TOGETHER)
        #: whether the rank waited for the last one, as far as clocks tell
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
    """What depends on what on one rank, as lists, which a walk reads faster than arrays."""

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
        """Return what runs on from a node, and what that is bound by."""
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
    """Return from when on to look at a rank's host, so that all is known that runs after `low`."""
    table = trace.table
    end = table.start_ns + table.dur_ns
    device = np.flatnonzero((table.stream >= 0) & np.isin(table.kind, _BUSY) & (end > low))
    call = trace.launch_of[device]
    host = (table.stream < 0) & (table.kind == _CPU) & (table.start_ns < low) & (end > low)
    starts = (table.start_ns[call[call >= 0]], table.start_ns[device], table.start_ns[host])
    return min([low, *(int(one.min()) for one in starts if len(one))])
