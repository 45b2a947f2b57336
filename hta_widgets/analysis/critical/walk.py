"""The walk along a critical path, from the end of a span back to its start.

The longest chain of dependencies rarely covers the whole span: it starts at an event that depends
on nothing in the file, and may end before the last event. There the walk continues along other
chains, so that each instant at which something is recorded has a segment. At the end it follows the
chain of the last event until the longest chain ends, and before the start of a chain the longest of
the chains that end earlier:

    thread    [launch][ op        ]          [ op ]
    stream 7     [ kernel            ]
    walk      [  ][ kernel           ][ none ][ op ]

Here the kernel's chain is the longest. The last operator is on another one, so the walk goes from
its start to the end of the kernel; the thread is not in an operator in between.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from typing import NamedTuple

import numpy as np

from hta_widgets.analysis.critical.graph import CriticalPath
from hta_widgets.analysis.critical.nodes import BOUNDS, LEAD, OPERATOR
from hta_widgets.trace.arrays import Bools, Ints

OUTSIDE = BOUNDS.index("outside_path")


class PathSegment(NamedTuple):
    """A segment of a path; `place` is the rank's position in the set."""

    start: int
    end: int
    place: int
    type: int
    edge: int  # of the rank's graph, if this determines the bound
    event: int
    bound: int
    is_longest: bool = False  # on the longest chain, whose weights add up to its length


#: A step to an earlier node: the edge, -1 for none; the node; whether it is on the longest chain.
PathStep = tuple[int, int, bool]


class RankGraph:
    """The chains of one rank as lists, which are faster than arrays to read item by item."""

    def __init__(self, path: CriticalPath, shift: int = 0) -> None:
        self.path = path
        nodes, edges = path.nodes, path.edges
        self.time: list[int] = (nodes.time_ns + shift).tolist()
        self.type: list[int] = edges.type.tolist()
        self._source: list[int] = edges.source.tolist()
        self.last_edge: list[int] = path.chains.last_edge.tolist()
        relevant = _last_position(_relevant_nodes(path))
        self._relevant: list[int] = relevant.tolist()
        length_ns = path.chains.length_ns
        longest = _last_position(length_ns == np.maximum.accumulate(length_ns))
        self._longest: list[int] = longest.tolist()

    def first_node(self, until: int) -> int:
        """Return the node from which to walk back from an instant, -1 for none."""
        # It is the last node of the threads that launch work and of the device, or a later end of
        # the longest chain.
        count = bisect_right(self.time, until)
        return max(self._relevant[count - 1], self._longest[count - 1]) if count else -1

    def steps_from(self, node: int, *, to_longest: bool = True) -> Iterator[PathStep]:
        """Yield the steps back from a node; with `to_longest` to the longest chain before it."""
        goal = self._longest[node] if to_longest else node
        is_first_chain = to_longest
        while True:
            edge, is_on_goal = self.last_edge[node], node == goal
            earlier = self._relevant[node - 1] if node else -1
            before = self._source[edge] if edge >= 0 else earlier
            if not is_on_goal:
                before = max(before, goal)
            if before < 0:
                return
            if is_on_goal:
                goal = before if edge >= 0 else self._longest[before]
            is_first_chain &= edge >= 0 or not is_on_goal
            yield edge, before, is_on_goal and is_first_chain
            node = before

    def running_between(self, before: int, after: int) -> tuple[int, int]:
        """Return the event that runs between two nodes that no edge joins, and its bound.

        -1 stands for the start and the end of the span.
        """
        nodes, table, rows = self.path.nodes, self.path.trace.table, self.path.within.rows
        event = -1
        if before >= 0 and nodes.is_start[before]:
            event = int(nodes.row[before])
            if not nodes.on_host[before]:
                edges = self.path.edges
                work = np.flatnonzero((edges.type == OPERATOR) & (edges.event == event))
                return event, int(self.path.bound_by(work[:1])[0]) if len(work) else OUTSIDE
        elif after >= 0 and nodes.on_host[after]:
            event = int(table.parent[nodes.row[after]])
        elif before >= 0 and nodes.on_host[before]:
            event = int(table.parent[nodes.row[before]])
        elif not len(rows):
            return -1, OUTSIDE
        if event < 0 and len(rows):
            event = int(rows[0])
        within = event >= 0 and nodes.of_start[event] >= 0
        return event, BOUNDS.index("cpu_bound" if within else "cpu_outside_operators")


def _relevant_nodes(path: CriticalPath) -> Bools:
    """Return whether each node is of the device, of the range's thread, or of one that launches."""
    # Other threads, such as watchdogs of collectives, run whatever the step does.
    nodes, table = path.nodes, path.trace.table
    calls = path.trace.launch_of[nodes.device]
    tracks = np.concatenate((table.track[calls[calls >= 0]], table.track[path.within.rows]))
    if not len(tracks):
        return np.ones(len(nodes), dtype=bool)
    return ~nodes.on_host | np.isin(table.track[nodes.row], tracks)


def _last_position(mask: Bools) -> Ints:
    """Return for each position the last one up to it at which a mask holds, -1 for none."""
    return np.maximum.accumulate(np.where(mask, np.arange(len(mask)), -1))


class PathWalker:
    """A walk back from the end of a span to its start, on one rank or over several."""

    def __init__(self, low: int) -> None:
        self.low = low
        self.segments: list[PathSegment] = []

    def walk(self, place: int, graph: RankGraph, node: int, now: int) -> None:
        """Walk from an instant to the start of the span; `node` is the first one to reach."""
        if node >= 0:
            begin = max(min(graph.time[node], now), self.low)
            event, bound = graph.running_between(node, -1)
            self.add(begin, now, place, LEAD, event=event, bound=bound)
            now = begin
            steps = graph.steps_from(node)
        while now > self.low and node >= 0:
            if (jump := self.leave(place, graph, node, now)) is not None:
                place, graph, node, now = jump
                steps = graph.steps_from(node, to_longest=False)
                continue
            step = next(steps, None)
            if step is None:
                break
            edge, before, is_longest = step
            begin = max(min(graph.time[before], now), self.low)
            if edge >= 0:
                self.add(begin, now, place, graph.type[edge], edge=edge, is_longest=is_longest)
            elif begin < now:
                event, bound = graph.running_between(before, node)
                self.add(begin, now, place, LEAD, event=event, bound=bound)
            node, now = before, begin
        if now > self.low:
            event, bound = graph.running_between(-1, node)
            self.add(self.low, now, place, LEAD, event=event, bound=bound)

    def leave(
        self, place: int, graph: RankGraph, node: int, now: int
    ) -> tuple[int, RankGraph, int, int] | None:
        """Return the rank, graph, node and instant to go to instead of a step, None for none."""
        del place, graph, node, now
        return None

    def add(
        self, start: int, end: int, place: int, type_: int, *,
        edge: int = -1, event: int = -1, bound: int = OUTSIDE, is_longest: bool = False,
    ) -> None:  # fmt: skip
        """Add a segment before all others, unless it has no length."""
        if end > start:
            self.segments.append(
                PathSegment(start, end, place, type_, edge, event, bound, is_longest)
            )


def segment_columns(segments: Sequence[PathSegment], paths: Mapping[int, CriticalPath]) -> Ints:
    """Return the fields of segments by time, with the event and the bound of those along edges."""
    width = len(PathSegment._fields)
    values = chain.from_iterable(reversed(segments))
    columns = np.fromiter(values, np.int64, width * len(segments)).reshape(-1, width).T.copy()
    _, _, places, _, edges, events, bounds, _ = columns
    for place, path in paths.items():
        positions = np.flatnonzero((places == place) & (edges >= 0))
        events[positions] = path.edges.event[edges[positions]]
        bounds[positions] = path.bound_by(edges[positions])
    return columns


def path_segments(path: CriticalPath) -> Ints:
    """Return start, length, event, type and cause of the segments of one rank's path, by time.

    The type is ``lead`` beyond the longest chain.
    """
    first, last = path.span_ns
    walker = PathWalker(first)
    graph = RankGraph(path)
    walker.walk(0, graph, graph.first_node(last), last)
    columns = segment_columns(walker.segments, {0: path})
    start, end, _, type_, _, event, bound, is_longest = columns
    return np.stack((start, end - start, event, np.where(is_longest, type_, LEAD), bound))
