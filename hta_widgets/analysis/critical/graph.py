"""The graph of one rank's dependencies, and the longest path through it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import numpy.typing as npt

from hta_widgets.trace.table import KINDS
from hta_widgets.trace.trace import Trace

from hta_widgets.analysis.critical.device import add_device_work
from hta_widgets.analysis.critical.edges import EdgeList
from hta_widgets.analysis.critical.edges import Edges
from hta_widgets.analysis.critical.host import add_hand_overs
from hta_widgets.analysis.critical.host import add_threads
from hta_widgets.analysis.critical.longest import longest_path
from hta_widgets.analysis.critical.nodes import Nodes
from hta_widgets.analysis.critical.nodes import find_nodes
from hta_widgets.analysis.critical.rules import BOUNDS
from hta_widgets.analysis.critical.rules import EXACT
from hta_widgets.analysis.critical.rules import KERNEL_KERNEL
from hta_widgets.analysis.critical.rules import LAUNCH
from hta_widgets.analysis.critical.rules import OPERATOR
from hta_widgets.analysis.critical.rules import SYNC
from hta_widgets.analysis.critical.rules import Rules
from hta_widgets.analysis.critical.rules import is_blocking_in_hta
from hta_widgets.analysis.critical.rules import named
from hta_widgets.analysis.critical.rules import patterns_of
from hta_widgets.analysis.critical.waits import find_waits
from hta_widgets.analysis.critical.window import Stretch
from hta_widgets.analysis.critical.window import stretch_of

__all__ = ["CriticalPath", "build", "path_of"]

Ints = npt.NDArray[np.int64]
Codes = npt.NDArray[np.uint8]


@dataclass(frozen=True, eq=False)
class CriticalPath:
    """Dependencies between the events of one rank, and the longest path through them.

    Times are those of the rank's table; add ``trace.shift_ns`` for those that users see.

    Attributes
    ----------
    trace : Trace
    stretch : Stretch
        What was asked for.
    nodes : Nodes
        Starts and ends of events, in topological order.
    edges : Edges
        What waits for what.
    on_path : array of int64
        Positions in `edges` of the path, in order.
    blocked : array of bool
        By id: calls whose own time does not count, as they wait for the device.
    rules : Rules
    matched : dict of str to int
        How many events and dependencies each class matched.
    """

    trace: Trace
    stretch: Stretch
    nodes: Nodes
    edges: Edges
    on_path: Ints
    blocked: npt.NDArray[np.bool_]
    rules: Rules
    matched: dict[str, int]

    @cached_property
    def path_nodes(self) -> Ints:
        """The nodes of the path, in order."""
        if not len(self.on_path):
            return np.empty(0, dtype=np.int64)
        return np.concatenate(
            (self.edges.source[self.on_path[:1]], self.edges.target[self.on_path])
        )

    @cached_property
    def path_events(self) -> Ints:
        """Ids of the events that start or end on the path, ascending."""
        return np.unique(self.nodes.row[self.path_nodes]).astype(np.int64)

    @cached_property
    def length_ns(self) -> int:
        """The total weight of the path: its time without what is only waited for."""
        return int(self.edges.weight_ns[self.on_path].sum())

    @cached_property
    def span_ns(self) -> tuple[int, int]:
        """What is analysed: the stretch, and what lasts longer than it."""
        times = self.nodes.time_ns
        first = int(times[0]) if len(times) else 0
        start = first if self.stretch.start_ns is None else self.stretch.start_ns
        end = int(times[-1]) if len(times) else start
        return start, end if self.stretch.end_ns is None else max(end, self.stretch.end_ns)

    def bound_by(self, positions: Ints) -> Codes:
        """Return codes into `rules.BOUNDS`: what bounds the time along some edges."""
        edges, table = self.edges, self.trace.table
        kind, event = edges.type[positions], edges.event[positions]
        free = edges.weight_ns[positions] == 0
        bound = np.full(len(positions), _code("cpu_outside_operators"), dtype=np.uint8)
        bound[kind == KERNEL_KERNEL] = _code("gpu_kernel_kernel_overhead")
        bound[kind == LAUNCH] = _code("gpu_kernel_launch_overhead")
        bound[(kind == LAUNCH) & free] = _code("gpu_queue_wait")
        bound[kind == SYNC] = _code("sync_overhead")
        operator = np.flatnonzero(kind == OPERATOR)
        rows = event[operator]
        of_kind = np.full(len(KINDS), _code("gpu_compute_bound"), dtype=np.uint8)
        of_kind[KINDS.index("communication")] = _code("gpu_communication_bound")
        if not self.rules.as_hta:
            of_kind[KINDS.index("memory")] = _code("gpu_memory_bound")
        on_host = self.nodes.on_host[edges.source[positions[operator]]]
        host = np.where(self._loads_data(rows), _code("data_loading"), _code("cpu_bound"))
        host = np.where(free[operator], _code("cpu_blocked"), host)
        bound[operator] = np.where(on_host, host, of_kind[table.kind[rows]])
        return bound

    def _loads_data(self, rows: Ints) -> npt.NDArray[np.bool_]:
        """Return which events, or what encloses them, load data; HTA looks at the event alone."""
        if not self.rules.data_loading:
            return np.zeros(len(rows), dtype=bool)
        wanted = patterns_of(self.rules.data_loading)
        parent = self.trace.table.parent
        found = np.zeros(len(rows), dtype=bool)
        at = np.arange(len(rows))[rows >= 0]
        above = rows[at]
        while len(at):
            says = named(self.trace, above, wanted)
            found[at[says]] = True
            if self.rules.as_hta:
                break
            up = ~says & (parent[above] >= 0)
            at, above = at[up], parent[above[up]].astype(np.int64)
        return found


def build(trace: Trace, stretch: Stretch, rules: Rules) -> CriticalPath:
    """Return the graph of a stretch of one rank, with its longest path."""
    nodes = find_nodes(trace, stretch, rules)
    edges = EdgeList(nodes)
    waits = find_waits(nodes, rules)
    table = trace.table
    blocked = np.zeros(len(trace) + 1, dtype=bool)
    if rules.as_hta:
        blocked[nodes.host[named(trace, nodes.host, is_blocking_in_hta)]] = True
    else:
        end = table.start_ns[waits.work] + table.dur_ns[waits.work]
        kept = (end > table.start_ns[waits.call]) & (end <= table.end_ns[waits.call])
        kept &= nodes.of_end[waits.work] >= 0
        blocked[waits.call[kept]] = True
    add_threads(edges, nodes, blocked)
    hand_overs = 0 if rules.as_hta else add_hand_overs(edges, nodes)
    launches = add_device_work(edges, nodes, (waits.awaited, waits.waiting), rules)
    calls = edges.add(
        nodes.of_end[waits.work], nodes.of_end[waits.call], SYNC, waits.call, counts=False
    )
    found = edges.finish()
    return CriticalPath(
        trace,
        stretch,
        nodes,
        found,
        longest_path(len(nodes), found, first=rules.as_hta),
        blocked,
        rules,
        {
            "host_events": len(nodes.host),
            "device_events": len(nodes.device),
            "launches": launches,
            "waits_of_calls": calls,
            "recorded_waits": waits.recorded,
            "inferred_waits": waits.inferred,
            "waits_of_kernels": len(waits.awaited),
            "hand_overs": hand_overs,
            "backward_in_time": edges.backward,
        },
    )


def path_of(
    trace: Trace,
    annotation: str = "ProfilerStep",
    instance: int | tuple[int, int] | None = 0,
    *,
    data_load_events: Iterable[str] | None = None,
    rules: Rules = EXACT,
) -> CriticalPath | None:
    """Return the graph and path of one rank, None where the rank has no such range."""
    if data_load_events is not None:
        texts = [data_load_events] if isinstance(data_load_events, str) else data_load_events
        rules = replace(rules, data_loading=tuple(texts))
    patterns_of(rules.data_loading)
    stretch = stretch_of(trace, annotation, instance, closed=rules.as_hta)
    return None if stretch is None else build(trace, stretch, rules)


def _code(bound: str) -> int:
    return BOUNDS.index(bound)
