"""Walk along a critical path, from the end of a span back to its start.

The longest chain of dependencies rarely covers the whole span. It starts at an event that depends
on nothing in the file, and may end before the last event. Elsewhere, the walk follows other chains,
so that every instant with recorded events has a segment. From the end of the span, the walk follows
the chain of the last event until it meets the end of the longest chain. At the start of a chain, it
continues with the longest of the chains that end earlier:

    thread    [launch][ op        ]          [ op ]
    stream 7     [ kernel            ]
    walk      [  ][ kernel           ][ none ][ op ]

Here the kernel's chain is the longest. The last operator is on another chain, so the walk goes from
the start of that operator to the end of the kernel. No operator runs between them.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property

import numpy as np

from hta_widgets.analysis.critical.graph import CriticalPath
from hta_widgets.analysis.critical.nodes import BOUNDS, LEAD, OPERATOR
from hta_widgets.trace.arrays import Bools, Ints, last_true_positions, mask_of_rows
from hta_widgets.trace.intervals import CumulativeCoverage, union

OUTSIDE = BOUNDS.index("outside_path")
_OUTSIDE_OPERATORS = BOUNDS.index("cpu_outside_operators")
#: Rows of `PathWalker.segments`: start and end in ns; the rank's place; type; edge in the rank's
#: graph, or -1; event; bound; and whether the segment is on the longest chain.
_START, _END, _PLACE, _TYPE, _EDGE, _EVENT, _BOUND, _IS_LONGEST = range(8)
_ROWS = _IS_LONGEST + 1


class RankGraph:
    """The steps of a walk back through a rank's nodes.

    A state is twice a node, plus 1 if the walk is on its way to the longest chain that ends before
    the node. It determines the next step back. Steps are taken in Python, so they are precomputed.
    """

    def __init__(
        self, path: CriticalPath, time_ns: Ints, exits: Mapping[int, int] | None = None
    ) -> None:
        self.path = path
        self.time = time_ns
        #: Keyed by nodes where a trail stops, since the walk may leave the rank: the matching's
        #: entry.
        self.exits = exits or {}
        self._relevant = last_true_positions(_relevant_nodes(path))
        length_ns = path.chains.length_ns
        self._longest = last_true_positions(length_ns == np.maximum.accumulate(length_ns))
        self._before: list[int] = self._states_before().tolist()

    def _states_before(self) -> Ints:
        edge, longest = self.path.chains.last_edge, self._longest
        states = np.append(2 * np.arange(len(edge)) + (longest != np.arange(len(edge))), -1)
        node = np.append(-1, self._relevant)[:-1]
        has_edge = edge >= 0
        node[has_edge] = self.path.edges.source[edge[has_edge]]
        before = np.empty(2 * len(edge), dtype=np.int64)
        before[0::2] = np.where(has_edge, 2 * node, states[node])
        before[1::2] = states[np.maximum(node, longest)]
        return before

    def first_node(self, until: int) -> int:
        """Return the node at which a walk back from a given time begins; -1 if there is none."""
        # The last node of the device or a launching thread, or a later end of the longest chain.
        count = int(np.searchsorted(self.time, until, "right"))
        return int(max(self._relevant[count - 1], self._longest[count - 1])) if count else -1

    def first_state(self, node: int) -> int:
        """Return the state in which a walk from a node to the longest chain begins."""
        return 2 * node + int(self._longest[node] != node)

    def trail(self, state: int) -> list[int]:
        """Return the states from `state` back to the next exit or the first state."""
        states, before, exits = [state], self._before, self.exits
        while (state := before[state]) >= 0:
            states.append(state)
            if exits and state >> 1 in exits:  # the state's node
                break
        return states

    @cached_property
    def _host_activity(self) -> CumulativeCoverage:
        nodes = self.path.nodes
        start, end = (self.time[of_row[nodes.host]] for of_row in (nodes.of_start, nodes.of_end))
        return CumulativeCoverage(*union(start, end))

    def running_between(self, before: int, after: int, start: int, end: int) -> tuple[int, int]:
        """Return the event that runs between two nodes that have no edge, and its bound.

        Node -1 is the start or end of the span; `start` and `end` are the times of the nodes.
        """
        nodes, table, ranges = self.path.nodes, self.path.trace.table, self.path.within.rows
        event = -1
        if before >= 0 and nodes.is_start[before]:
            # The event that starts at the earlier node is running.
            event = int(nodes.row[before])
            if not nodes.on_host[before]:
                edges = self.path.edges
                work = np.flatnonzero((edges.type == OPERATOR) & (edges.event == event))
                return event, int(self.path.bound_by(work[:1])[0]) if len(work) else OUTSIDE
        # Otherwise, it is the event around one of the two nodes, if that node is on the host.
        elif after >= 0 and nodes.on_host[after]:
            event = int(table.parent[nodes.row[after]])
        elif before >= 0 and nodes.on_host[before]:
            event = int(table.parent[nodes.row[before]])
        elif not len(ranges):
            active_until_ns = self._host_activity(np.array([start, end]))
            is_active = active_until_ns[0] < active_until_ns[1]
            return -1, _OUTSIDE_OPERATORS if is_active else OUTSIDE
        if event < 0 and len(ranges):
            event = int(ranges[0])
        has_nodes = event >= 0 and nodes.of_start[event] >= 0
        return event, BOUNDS.index("cpu_bound") if has_nodes else _OUTSIDE_OPERATORS


def _relevant_nodes(path: CriticalPath) -> Bools:
    """Return whether each node is on the device, the range's thread or a launching thread."""
    # Other threads, such as collective watchdogs, do not affect the step.
    nodes, table = path.nodes, path.trace.table
    calls = path.trace.launch_of[nodes.device]
    tracks = np.concatenate((table.track[calls[calls >= 0]], table.track[path.within.rows]))
    if not len(tracks):
        return np.ones(len(nodes), dtype=bool)
    is_relevant = mask_of_rows(tracks, len(path.trace.tracks))
    return ~nodes.on_host | is_relevant[table.track[nodes.row]]


class PathWalker:
    """A walk back from the end of a span to its start, on one rank or across several."""

    def __init__(self, low: int) -> None:
        self.low = low
        #: Arrays of segments, in reverse order of time.
        self._blocks: list[Ints] = []

    def walk(self, place: int, graph: RankGraph, node: int, now: int) -> None:
        """Walk from time `now` to the start of the span; `node` is reached first."""
        if node >= 0:
            begin = max(min(int(graph.time[node]), now), self.low)
            self._add_lead(begin, now, place, graph, (node, -1))
            now, state = begin, graph.first_state(node)
        while now > self.low and node >= 0:
            if (jump := self.leave(place, graph, node, now)) is not None:
                place, graph, node, now = jump
                state = 2 * node
                continue
            trail = graph.trail(state)
            if len(trail) == 1:
                break
            now = self._add_trail(place, graph, np.array(trail), now)
            state = trail[-1]
            node = state >> 1
        self._add_lead(self.low, now, place, graph, (-1, node))

    def leave(
        self, place: int, graph: RankGraph, node: int, now: int
    ) -> tuple[int, RankGraph, int, int] | None:
        """Return the rank, graph, node and time to jump to, or None to take the next step."""
        del place, graph, node, now
        return None

    def _add_trail(self, place: int, graph: RankGraph, states: Ints, now: int) -> int:
        """Add the segments between the nodes of a trail; return the time of the last node."""
        node = states >> 1
        time = np.clip(graph.time[node], self.low, now)
        time[0] = now
        has_length = np.flatnonzero(time[1:] < time[:-1])
        after, before = node[has_length], node[has_length + 1]
        edges = graph.path.chains.last_edge[node[:-1]]  # -1 at the start of a chain
        # Even states are on the longest chain up to its start, then on other chains.
        is_even = states[:-1] % 2 == 0
        is_longest = is_even & ~np.logical_or.accumulate(is_even & (edges < 0))
        edge = edges[has_length]
        block = np.full((_ROWS, len(edge)), -1, dtype=np.int64)
        block[_START], block[_END], block[_PLACE] = time[has_length + 1], time[has_length], place
        block[_TYPE] = np.where(edge < 0, LEAD, graph.path.edges.type[edge])
        block[_EDGE], block[_IS_LONGEST] = edge, is_longest[has_length]
        for column in np.flatnonzero(edge < 0).tolist():
            nodes = int(before[column]), int(after[column])
            instants = block[_START : _END + 1, column].tolist()
            block[[_EVENT, _BOUND], column] = graph.running_between(*nodes, *instants)
        if block.size:
            self._blocks.append(block)
        return int(time[-1])

    def _add_lead(
        self, start: int, end: int, place: int, graph: RankGraph, nodes: tuple[int, int]
    ) -> None:
        """Add the segment between two nodes, where -1 means the start or end of the span."""
        if end > start:
            event, bound = graph.running_between(*nodes, start, end)
            self._blocks.append(np.array([[start, end, place, LEAD, -1, event, bound, 0]]).T)

    def add_edge(self, start: int, end: int, place: int, type_: int, edge: int) -> None:
        """Add a segment along an edge; if its duration is 0, set the last segment's type."""
        if end > start:
            self._blocks.append(np.array([[start, end, place, type_, edge, -1, OUTSIDE, 0]]).T)
        elif self._blocks and self._blocks[-1][_PLACE, -1] == place:
            self._blocks[-1][_TYPE, -1] = type_

    def segments(self, paths: Mapping[int, CriticalPath]) -> Ints:
        """Return the segments in order of time, given each rank's graph by place."""
        if not self._blocks:
            return np.empty((_ROWS, 0), dtype=np.int64)
        segments = np.concatenate(self._blocks, axis=1)[:, ::-1].copy()
        for place, path in paths.items():
            edges = segments[_EDGE]
            positions = np.flatnonzero((segments[_PLACE] == place) & (edges >= 0))
            segments[_EVENT, positions] = path.edges.event[edges[positions]]
            segments[_BOUND, positions] = path.bound_by(edges[positions])
        return segments


def path_segments(path: CriticalPath) -> Ints:
    """Return start, duration, event, type and cause of the segments of a rank's path, in order.

    Beyond the longest chain, the type is ``lead``.
    """
    first, last = path.span_ns
    walker = PathWalker(first)
    graph = RankGraph(path, path.nodes.time_ns)
    walker.walk(0, graph, graph.first_node(last), last)
    start, end, _, type_, _, event, bound, is_longest = walker.segments({0: path})
    return np.stack((start, end - start, event, np.where(is_longest, type_, LEAD), bound))
