"""The dependency graph of a rank, and the longest chain to each node.

Edges have weights in ns, 0 for waits. For example, two chains lead to a node. One has an operator
of 4 µs, the other a kernel of 9 µs that waited for 2 µs. The second is the longer one, with 9 µs.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from hta_widgets.analysis.critical.edges import (
    WaitPairs,
    add_device_work,
    add_thread_handoffs,
    add_threads,
    find_wait_pairs,
)
from hta_widgets.analysis.critical.nodes import (
    BLOCKING_IN_HTA,
    BOUNDS,
    EXACT_RULES,
    KERNEL_KERNEL,
    LAUNCH,
    OPERATOR,
    SYNC,
    AnalysisRange,
    EdgeList,
    Edges,
    GraphRules,
    Nodes,
    analysis_range,
    find_nodes,
    pattern_mask,
    resolve_annotation,
)
from hta_widgets.analysis.host_activity import waits_without_recorded_work
from hta_widgets.arguments import require_pattern
from hta_widgets.taxonomy import KINDS
from hta_widgets.trace.arrays import Bools, Codes, Ints
from hta_widgets.trace.host_stack import names_match
from hta_widgets.trace.trace import Trace

_BOUND_CODES = {bound: code for code, bound in enumerate(BOUNDS)}


@dataclass(frozen=True, eq=False)
class Chains:
    """The longest chain of dependencies to each node: its length and last edge, -1 if none."""

    length_ns: Ints
    last_edge: Ints


def longest_chains(count: int, edges: Edges) -> Chains:
    """Return the chain with the greatest total weight to each of `count` nodes.

    Of equally long chains, the latest is used. Edges are sorted by target and lead to later nodes.
    """
    length_ns = [0] * count
    last_edge = [-1] * count
    # All edges to a node precede the edges from it.
    for edge, (source, target, weight) in enumerate(
        zip(edges.source.tolist(), edges.target.tolist(), edges.weight_ns.tolist(), strict=True)
    ):
        length = length_ns[source] + weight
        if last_edge[target] < 0 or length > length_ns[target]:
            length_ns[target] = length
            last_edge[target] = edge
    return Chains(np.array(length_ns, dtype=np.int64), np.array(last_edge, dtype=np.int64))


@dataclass(frozen=True, eq=False)
class CriticalPath:
    """Dependencies between the events of a rank, and the longest path through them.

    Times are on the clock of the rank's table; add ``trace.shift_ns`` before showing them to users.
    """

    trace: Trace
    within: AnalysisRange
    nodes: Nodes  # in topological order
    edges: Edges
    chains: Chains
    blocked: Bools  # by row: whether a call waits for the device, so that its time has no weight
    rules: GraphRules
    matched: dict[str, int]  # number of events and dependencies of each class

    @cached_property
    def on_path(self) -> Ints:
        """The edges of the longest path, in order.

        Among equally long paths, it is the one that ends last or, by HTA's rules, first.
        """
        if not len(self.edges):
            return np.empty(0, dtype=np.int64)
        length_ns, last_edge = self.chains.length_ns, self.chains.last_edge
        ends = np.flatnonzero(length_ns == length_ns.max())
        node = int(ends[0 if self.rules.as_hta else -1])
        path = []
        while last_edge[node] >= 0:
            path.append(last_edge[node])
            node = int(self.edges.source[last_edge[node]])
        return np.array(path[::-1], dtype=np.int64)

    @cached_property
    def path_nodes(self) -> Ints:
        """The nodes of the path, in order."""
        if not len(self.on_path):
            return np.empty(0, dtype=np.int64)
        first, path = self.on_path[:1], self.on_path
        return np.concatenate((self.edges.source[first], self.edges.target[path]))

    @cached_property
    def path_events(self) -> Ints:
        """Ids of the events that start or end on the path, in ascending order."""
        return np.unique(self.nodes.row[self.path_nodes]).astype(np.int64)

    @cached_property
    def length_ns(self) -> int:
        """Total weight of the path: its time, except for waits and time between operators."""
        return int(self.chains.length_ns.max(initial=0))

    @cached_property
    def span_ns(self) -> tuple[int, int]:
        """Start and end of the analyzed range, extended to the last end of its events."""
        times = self.nodes.time_ns
        first = int(times[0]) if len(times) else 0
        start = first if self.within.start_ns is None else self.within.start_ns
        end = int(times[-1]) if len(times) else start
        return start, end if self.within.end_ns is None else max(end, self.within.end_ns)

    def bound_by(self, positions: Ints) -> Codes:
        """Return the cause of the time along each edge, as an index into `BOUNDS`."""
        edges, node_ns = self.edges, self.nodes.time_ns
        type_, weight_ns = edges.type[positions], edges.weight_ns[positions]
        bound = np.full(len(positions), _BOUND_CODES["cpu_outside_operators"], dtype=np.uint8)
        bound[type_ == KERNEL_KERNEL] = _BOUND_CODES["gpu_kernel_kernel_overhead"]
        bound[type_ == LAUNCH] = _BOUND_CODES["gpu_kernel_launch_overhead"]
        if not self.rules.as_hta:
            is_delay = (type_ == LAUNCH) | (type_ == KERNEL_KERNEL)
            time_ns = node_ns[edges.target[positions]] - node_ns[edges.source[positions]]
            bound[is_delay & (weight_ns < time_ns)] = _BOUND_CODES["unknown_wait"]
            bound[is_delay & (weight_ns == 0)] = _BOUND_CODES["gpu_queue_wait"]
        bound[type_ == SYNC] = _BOUND_CODES["sync_overhead"]
        is_operator = type_ == OPERATOR
        bound[is_operator] = self._bound_by_operator(positions[is_operator])
        return bound

    def _bound_by_operator(self, positions: Ints) -> Codes:
        """Return the cause of the time along edges within a host event or device work."""
        rows = self.edges.event[positions]
        bound_of_kind = np.full(len(KINDS), _BOUND_CODES["gpu_compute_bound"], dtype=np.uint8)
        bound_of_kind[KINDS.index("communication")] = _BOUND_CODES["gpu_communication_bound"]
        if not self.rules.as_hta:
            bound_of_kind[KINDS.index("memory")] = _BOUND_CODES["gpu_memory_bound"]
        bound_on_host = np.select(
            [self.edges.weight_ns[positions] == 0, self._loads_data(rows)],
            [_BOUND_CODES["cpu_blocked"], _BOUND_CODES["data_loading"]],
            _BOUND_CODES["cpu_bound"],
        )
        on_host = self.nodes.on_host[self.edges.source[positions]]
        return np.where(on_host, bound_on_host, bound_of_kind[self.trace.table.kind[rows]])

    def _loads_data(self, rows: Ints) -> Bools:
        """Return whether each event, or (except in HTA) an event around it, loads data."""
        parent = self.trace.table.parent
        loads_data = np.zeros(len(rows), dtype=bool)
        positions = np.flatnonzero(rows >= 0)
        above = rows[positions]
        while len(positions):
            is_match = pattern_mask(self.trace, above, self.rules.data_loading)
            loads_data[positions[is_match]] = True
            if self.rules.as_hta:
                break
            is_open = ~is_match & (parent[above] >= 0)
            positions, above = positions[is_open], parent[above[is_open]].astype(np.int64)
        return loads_data


def build_graph(trace: Trace, within: AnalysisRange, rules: GraphRules) -> CriticalPath:
    """Return the graph of a rank's time range, with its longest path."""
    nodes = find_nodes(trace, within, rules)
    edge_list = EdgeList(nodes)
    waits = find_wait_pairs(nodes, rules)
    blocked = _blocked_calls(nodes, waits, rules)
    polls = add_threads(edge_list, nodes, blocked, rules)
    handoffs = 0 if rules.as_hta else add_thread_handoffs(edge_list, nodes)
    launches = add_device_work(edge_list, nodes, (waits.awaited, waits.waiting), rules)
    work, call = nodes.of_end[waits.work], nodes.of_end[waits.call]
    waits_of_calls = edge_list.add(work, call, SYNC, waits.call, counts=False)
    edges = edge_list.build()
    return CriticalPath(
        trace=trace,
        within=within,
        nodes=nodes,
        edges=edges,
        chains=longest_chains(len(nodes), edges),
        blocked=blocked,
        rules=rules,
        matched={
            "host_events": len(nodes.host),
            "device_events": len(nodes.device),
            "launches": launches,
            "waits_of_calls": waits_of_calls,
            "recorded_waits": waits.recorded,
            "inferred_waits": waits.inferred + polls,
            "waits_of_kernels": len(waits.awaited),
            "hand_overs": handoffs,
            "backward_in_time": edge_list.backward,
        },
    )


def _blocked_calls(nodes: Nodes, waits: WaitPairs, rules: GraphRules) -> Bools:
    """Return, by row, which calls wait for the device; the last item is for no call (-1)."""
    trace, end_ns = nodes.trace, nodes.trace.table.end_ns
    blocked = np.zeros(len(trace) + 1, dtype=bool)
    if rules.as_hta:
        blocked[nodes.host[names_match(trace, nodes.host, BLOCKING_IN_HTA.__contains__)]] = True
        return blocked
    work_end = end_ns[waits.work]
    is_within = (work_end > trace.table.start_ns[waits.call]) & (work_end <= end_ns[waits.call])
    blocked[waits.call[is_within & (nodes.of_end[waits.work] >= 0)]] = True
    blocked[waits_without_recorded_work(trace)] = True
    return blocked


def critical_path_of(
    trace: Trace,
    annotation: str = "ProfilerStep",
    instance: int | tuple[int, int] | None = 0,
    *,
    data_load_events: Iterable[str] | None = None,
    rules: GraphRules = EXACT_RULES,
) -> CriticalPath | None:
    """Return the graph and critical path of a rank; None if it lacks a range of that name.

    Unless the rules are HTA's, `resolve_annotation` replaces a missing ``ProfilerStep``.
    """
    if not rules.as_hta:
        annotation = resolve_annotation([trace], annotation)
    if data_load_events is not None:
        texts = [data_load_events] if isinstance(data_load_events, str) else data_load_events
        rules = replace(rules, data_loading=tuple(texts))
    for text in rules.data_loading:
        require_pattern(text, f"{text!r} in data_load_events")
    within = analysis_range(trace, annotation, instance, closed=rules.as_hta)
    return None if within is None else build_graph(trace, within, rules)
