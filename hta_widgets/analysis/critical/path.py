"""The critical path of one rank: the graph, its longest path, and the path as a frame."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import pandas as pd

from hta_widgets.analysis.critical.edges import (
    add_device_work,
    add_thread_handoffs,
    add_threads,
    find_wait_pairs,
)
from hta_widgets.analysis.critical.nodes import (
    BLOCKING_IN_HTA,
    BOUNDS,
    EDGE_TYPES,
    EXACT_RULES,
    KERNEL_KERNEL,
    LAUNCH,
    LEAD,
    OPERATOR,
    SYNC,
    AnalysisRange,
    EdgeList,
    Edges,
    GraphRules,
    Nodes,
    analysis_range,
    find_nodes,
    name_mask,
    pattern_matcher,
)
from hta_widgets.analysis.frames import categorical, require_columns, result_frame
from hta_widgets.arguments import check_arguments
from hta_widgets.taxonomy import KINDS
from hta_widgets.trace.arrays import Bools, Codes, Ints
from hta_widgets.trace.columns import FlowTable
from hta_widgets.trace.selection import Selection
from hta_widgets.trace.trace import Trace
from hta_widgets.trace.traceset import TraceSet, replace_ranks

#: The kind of the arrows along a path.
_KIND = "critical_path"
_BOUND_CODES = {bound: code for code, bound in enumerate(BOUNDS)}


def longest_path(count: int, edges: Edges, *, first: bool = False) -> Ints:
    """Return the edges of the path of the greatest total weight, in order.

    Among equally long paths, the edge from the latest node is taken. The path ends at the latest
    node or, with `first`, at the first one, as in HTA. Edges are sorted by target and lead to
    higher nodes.
    """
    if not len(edges):
        return np.empty(0, dtype=np.int64)
    best = [0] * count
    via = [-1] * count
    # All edges into a source come before the edges from it.
    for edge, (source, target, weight) in enumerate(
        zip(edges.source.tolist(), edges.target.tolist(), edges.weight_ns.tolist(), strict=True)
    ):
        length = best[source] + weight
        if via[target] < 0 or length > best[target]:
            best[target] = length
            via[target] = edge
    longest = np.array(best, dtype=np.int64)
    node = int(np.flatnonzero(longest == longest.max())[0 if first else -1])
    path = []
    sources = edges.source
    while via[node] >= 0:
        path.append(via[node])
        node = int(sources[via[node]])
    return np.array(path[::-1], dtype=np.int64)


@dataclass(frozen=True, eq=False)
class CriticalPath:
    """Dependencies between the events of one rank, and the longest path through them.

    Times are in the rank's table; add ``trace.shift_ns`` for times shown to users.
    """

    trace: Trace
    within: AnalysisRange
    nodes: Nodes  # in topological order
    edges: Edges
    on_path: Ints  # positions in `edges`, in order
    blocked: Bools  # by id: calls that wait for the device, so their time does not count
    rules: GraphRules
    matched: dict[str, int]  # number of events and dependencies of each class

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
        """The total weight of the path: its time without waits and time between operators."""
        return int(self.edges.weight_ns[self.on_path].sum())

    @cached_property
    def span_ns(self) -> tuple[int, int]:
        """Start and end of the analysed range, and of events that last longer than it."""
        times = self.nodes.time_ns
        first = int(times[0]) if len(times) else 0
        start = first if self.within.start_ns is None else self.within.start_ns
        end = int(times[-1]) if len(times) else start
        return start, end if self.within.end_ns is None else max(end, self.within.end_ns)

    def bound_by(self, positions: Ints) -> Codes:
        """Return the causes of the time along some edges, as codes into `BOUNDS`."""
        edges, table = self.edges, self.trace.table
        kind, event = edges.type[positions], edges.event[positions]
        free = edges.weight_ns[positions] == 0
        bound = np.full(len(positions), _BOUND_CODES["cpu_outside_operators"], dtype=np.uint8)
        bound[kind == KERNEL_KERNEL] = _BOUND_CODES["gpu_kernel_kernel_overhead"]
        bound[kind == LAUNCH] = _BOUND_CODES["gpu_kernel_launch_overhead"]
        bound[(kind == LAUNCH) & free] = _BOUND_CODES["gpu_queue_wait"]
        bound[kind == SYNC] = _BOUND_CODES["sync_overhead"]
        operator = np.flatnonzero(kind == OPERATOR)
        rows = event[operator]
        of_kind = np.full(len(KINDS), _BOUND_CODES["gpu_compute_bound"], dtype=np.uint8)
        of_kind[KINDS.index("communication")] = _BOUND_CODES["gpu_communication_bound"]
        if not self.rules.as_hta:
            of_kind[KINDS.index("memory")] = _BOUND_CODES["gpu_memory_bound"]
        on_host = self.nodes.on_host[edges.source[positions[operator]]]
        host = np.where(
            self._loads_data(rows), _BOUND_CODES["data_loading"], _BOUND_CODES["cpu_bound"]
        )
        host = np.where(free[operator], _BOUND_CODES["cpu_blocked"], host)
        bound[operator] = np.where(on_host, host, of_kind[table.kind[rows]])
        return bound

    def _loads_data(self, rows: Ints) -> Bools:
        """Return whether each event or one around it loads data; HTA checks the event only."""
        if not self.rules.data_loading:
            return np.zeros(len(rows), dtype=bool)
        wanted = pattern_matcher(self.rules.data_loading)
        parent = self.trace.table.parent
        result = np.zeros(len(rows), dtype=bool)
        at = np.arange(len(rows))[rows >= 0]
        above = rows[at]
        while len(at):
            hit = name_mask(self.trace, above, wanted)
            result[at[hit]] = True
            if self.rules.as_hta:
                break
            up = ~hit & (parent[above] >= 0)
            at, above = at[up], parent[above[up]].astype(np.int64)
        return result


def build_graph(trace: Trace, within: AnalysisRange, rules: GraphRules) -> CriticalPath:
    """Return the graph of a time range of one rank, with its longest path."""
    nodes = find_nodes(trace, within, rules)
    edges = EdgeList(nodes)
    waits = find_wait_pairs(nodes, rules)
    table = trace.table
    blocked = np.zeros(len(trace) + 1, dtype=bool)
    if rules.as_hta:
        blocked[nodes.host[name_mask(trace, nodes.host, BLOCKING_IN_HTA.__contains__)]] = True
    else:
        end = table.start_ns[waits.work] + table.dur_ns[waits.work]
        kept = (end > table.start_ns[waits.call]) & (end <= table.end_ns[waits.call])
        kept &= nodes.of_end[waits.work] >= 0
        blocked[waits.call[kept]] = True
    add_threads(edges, nodes, blocked)
    hand_overs = 0 if rules.as_hta else add_thread_handoffs(edges, nodes)
    launches = add_device_work(edges, nodes, (waits.awaited, waits.waiting), rules)
    calls = edges.add(
        nodes.of_end[waits.work], nodes.of_end[waits.call], SYNC, waits.call, counts=False
    )
    finished_edges = edges.build()
    return CriticalPath(
        trace,
        within,
        nodes,
        finished_edges,
        longest_path(len(nodes), finished_edges, first=rules.as_hta),
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


def critical_path_of(
    trace: Trace,
    annotation: str = "ProfilerStep",
    instance: int | tuple[int, int] | None = 0,
    *,
    data_load_events: Iterable[str] | None = None,
    rules: GraphRules = EXACT_RULES,
) -> CriticalPath | None:
    """Return the graph and critical path of one rank; None if it has no range of that name."""
    if data_load_events is not None:
        texts = [data_load_events] if isinstance(data_load_events, str) else data_load_events
        rules = replace(rules, data_loading=tuple(texts))
    pattern_matcher(rules.data_loading)
    within = analysis_range(trace, annotation, instance, closed=rules.as_hta)
    return None if within is None else build_graph(trace, within, rules)


@check_arguments
def with_critical_path(
    traces: TraceSet,
    rank: int,
    annotation: str = "ProfilerStep",
    instance: int | tuple[int, int] | None = 0,
    *,
    data_load_events: Iterable[str] | None = None,
) -> TraceSet:
    """Return the set with the steps of a critical path as arrows of kind ``critical_path``.

    For a selected event on the path, a timeline of the result shows the arrows from and to it; the
    keys that follow arrows walk along the path. Arrows lead from event to event wherever the path
    leaves one: launches, waits, the next kernel, the next operator. `Trace.flows` has them after
    the file's arrows.

    Parameters
    ----------
    traces : TraceSet
    rank, annotation, instance, data_load_events
        As in `critical_path`.

    Returns
    -------
    TraceSet
        The same ranks and events; the set is unchanged if the rank has no such range.
    """
    path = critical_path_of(traces[rank], annotation, instance, data_load_events=data_load_events)
    if path is None:
        return traces
    edges, flows = path.edges, path.trace.flow_table
    leaving = path.on_path[edges.type[path.on_path] != OPERATOR]
    row = path.nodes.row.astype(np.int64)
    kinds = [*flows.kinds] if _KIND in flows.kinds else [*flows.kinds, _KIND]
    none = np.full(len(leaving), -1, dtype=np.int64)
    arrows = FlowTable(
        np.concatenate((flows.kind, np.full(len(leaving), kinds.index(_KIND), dtype=np.uint8))),
        np.concatenate((flows.source, row[edges.source[leaving]])),
        np.concatenate((flows.target, row[edges.target[leaving]])),
        kinds,
        np.concatenate((flows.source_record, none)),
        np.concatenate((flows.target_record, none)),
    )
    return replace_ranks(traces, {rank: path.trace.replace(flow_table=arrows)})


@check_arguments
def critical_path(
    traces: TraceSet,
    rank: int,
    annotation: str = "ProfilerStep",
    instance: int | tuple[int, int] | None = 0,
    *,
    data_load_events: Iterable[str] | None = None,
) -> pd.DataFrame:
    """Return the chain of dependencies that determines the length of a step, by segment.

    It shows the work that determined the time of a step, and so the operator, kernel, launch or
    wait to look at first.

    The graph: every operator, runtime call and piece of device work has two nodes, its start and
    its end. On a thread each node depends on the one before. A kernel depends on the call that
    launched it, on the kernel before it on its stream, and on the CUDA events for which its stream
    waits; a call that waits for the device (context, stream and event synchronisation) depends
    on the awaited work. If the file records no synchronisation, calls that
    synchronise depend on the last work that ended while they ran, and calls that copy depend on
    their copy if it had ended when they returned. In such files, a kernel that was launched after a
    call to wait for an event, and did not start although its stream was idle, depends on the work
    of another stream that had ended within 10 µs before the kernel started. The backward pass
    follows the forward pass on any threads. Only the last of the dependencies of a kernel counts:
    time since then is launch overhead or delay between kernels.

    The path is the chain through this graph with the most time accounted for. Time between
    operators and in waits does not count when chains are compared; the result has rows for it, with
    its cause.

    Parameters
    ----------
    traces : TraceSet
    rank : int
    annotation : str, default "ProfilerStep"
        Part of the name of a range on the host; ``""`` is the whole rank. The analysis covers
        the host events that start within the range, cut at its end, and the work they launched.
    instance : int or (first, last), default 0
        Number of the range among those of that name, from 0 by start; or the numbers of the first
        and the last range.
    data_load_events : iterable of str, optional
        Regular expressions of host events that load data, searched for in names; PyTorch's
        ``DataLoader`` by default.

    Returns
    -------
    DataFrame
        One row per segment, in order of time without gaps; the ``dur_ns`` add up to the analysed
        span, from the start of the range to its end or to that of the last device work that it
        launched.

        ``rank``; ``start_ns, dur_ns`` (int64); ``id`` of the event that the time belongs to, -1
        for none; its ``name``, ``kind``, ``stream`` (-1 on the host), ``tid`` and ``track``;
        ``type``, the edge of the graph: ``operator``, ``dependency``, ``kernel_launch_delay``,
        ``kernel_kernel_delay``, ``sync_dependency`` or ``lead`` (before or after the path); and
        ``bound_by``:

        - ``cpu_bound``, ``data_loading``: the host works in an operator or a call;
        - ``gpu_compute_bound``, ``gpu_communication_bound``, ``gpu_memory_bound``: the device
          computes, communicates, copies;
        - ``gpu_kernel_launch_overhead``: from the start of a launching call to that of its kernel;
        - ``gpu_kernel_kernel_overhead``: from a kernel's end to the start of the next;
        - ``gpu_queue_wait``: a launched kernel waits for work that is not on the path;
        - ``cpu_blocked``: a call waits for the device;
        - ``sync_overhead``: from the end of awaited work to the return of the call, or to the
          start of the kernel, that waited;
        - ``cpu_outside_operators``: the thread is not in a recorded operator, for example because
          it runs Python;
        - ``outside_path``: before the first or after the last event of the path.

        ``.attrs``: ``length_ns``, the time that counts; ``span_ns``, the analysed (start, end);
        ``matched``, the number of events and dependencies of each class.

    Notes
    -----
    The definition is that of HTA's critical path analysis, whose terms `bound_by` keeps, except
    that copies are ``gpu_memory_bound`` (HTA: compute); every kernel of a launched CUDA graph takes
    part, not only the last; calls that block are found by the work they waited for, so
    ``cudaMemcpyAsync`` that did not wait counts; a kernel that found its stream idle is bound by
    its launch whichever call launched it; no edge goes back in time; events without duration and
    the calls of all vendors take part. `hw.TraceAnalysis.critical_path_analysis` keeps HTA's rules.
    """
    trace = traces[rank]
    path = critical_path_of(trace, annotation, instance, data_load_events=data_load_events)
    if path is None:
        return _path_frame(
            None, traces, rank, f"no event of rank {rank} has {annotation!r} in its name"
        )
    note = "" if len(path.nodes) else "nothing that counts starts within the range"
    return _path_frame(path, traces, rank, note)


_FROM = "Give the frame of hta_widgets.analysis.critical_path."


@check_arguments
def critical_path_summary(frame: pd.DataFrame) -> pd.DataFrame:
    """Return how much of a critical path each cause bounds.

    Parameters
    ----------
    frame : DataFrame
        From `critical_path`; concatenated frames are summed up rank by rank.

    Returns
    -------
    DataFrame
        One row per rank and cause that occurs, the most time first: ``rank, bound_by, count``
        (segments), ``dur_ns``, ``share`` (0..1 of the span).
    """
    require_columns(frame, _FROM, ("rank", "bound_by", "dur_ns"))
    times = frame.groupby(["rank", "bound_by"], observed=True, sort=False)["dur_ns"]
    table = times.agg(count="size", dur_ns="sum").reset_index()
    table = table.astype({"count": np.int64, "dur_ns": np.int64, "rank": np.int64})
    whole = table.groupby("rank")["dur_ns"].transform("sum")
    table["share"] = table["dur_ns"] / whole.clip(lower=1)
    table.attrs.update(frame.attrs)
    return table.sort_values(
        ["rank", "dur_ns"], ascending=[True, False], kind="stable", ignore_index=True
    )


@check_arguments
def path_selection(frame: pd.DataFrame, traces: TraceSet) -> Selection:
    """Return the selection of the events on a critical path, for `Timeline.select` and exports.

    It has the events that the time of the path belongs to, and the calls that launched its kernels.

    Parameters
    ----------
    frame : DataFrame
        From `critical_path`.
    traces : TraceSet
        The set that it was made from.
    """
    require_columns(frame, _FROM, ("id", "rank", "type"))
    known = frame[frame["id"] >= 0]
    pairs = set(zip(known["rank"].tolist(), known["id"].tolist(), strict=True))
    launched = known[known["type"] == "kernel_launch_delay"]
    for rank, row in zip(launched["rank"].tolist(), launched["id"].tolist(), strict=True):
        pairs.add((rank, int(traces[rank].launch_of[row])))
    return traces.select(ids=sorted(pairs))


def _path_frame(path: CriticalPath | None, traces: TraceSet, rank: int, note: str) -> pd.DataFrame:
    trace = traces[rank]
    table, tracks = trace.table, trace.tracks
    segments = np.empty((5, 0), dtype=np.int64) if path is None else _with_leads(path)
    start, dur, event, kind, bound = segments
    first, last = (0, 0) if path is None else path.span_ns
    known = event >= 0
    row = np.where(known, event, 0)
    names = [*table.names.values, ""]
    name = np.where(known, table.name[row], len(names) - 1)
    of_kind = np.where(known, table.kind[row].astype(np.int16), -1)
    track = np.where(known, table.track[row], len(tracks)).astype(np.int64)
    used, name = np.unique(name, return_inverse=True)
    return result_frame(
        {
            "rank": np.full(len(start), rank, dtype=np.int64),
            "start_ns": start + trace.shift_ns,
            "dur_ns": dur,
            "id": event,
            "name": _categorical_of(name, [names[code] for code in used.tolist()]),
            "bound_by": categorical(bound, BOUNDS),
            "kind": categorical(of_kind, KINDS),
            "type": categorical(kind, EDGE_TYPES),
            "stream": np.where(known, table.stream[row], -1).astype(np.int64),
            "tid": np.array([*(t.tid for t in tracks), ""], dtype=object)[track],
            "track": _categorical_of(track, [*(t.key for t in tracks), ""]),
        },
        matched={} if path is None else path.matched,
        note=note,
        length_ns=0 if path is None else path.length_ns,
        span_ns=(first + trace.shift_ns, last + trace.shift_ns),
    )


def _categorical_of(codes: Ints, values: list[str]) -> pd.Categorical:
    """Return a categorical of strings by code; values may occur twice."""
    distinct = list(dict.fromkeys(reversed(values)))
    number = {value: code for code, value in enumerate(distinct)}
    lookup = np.array([number[value] for value in values], dtype=np.int64)
    return categorical(lookup[codes], distinct)


def _with_leads(path: CriticalPath) -> Ints:
    """Return start, duration, event, type and cause of each segment that has a length."""
    edges, on_path = path.edges, path.on_path
    first, last = path.span_ns
    through = path.path_nodes
    if not len(through):
        through = np.zeros(min(1, len(path.nodes)), dtype=np.int64)
    cut = np.concatenate(([first], path.nodes.time_ns[through], [last]))
    between = np.stack([edges.event[on_path], edges.type[on_path], path.bound_by(on_path)])
    before, after = _lead(path, through[:1]), _lead(path, through[-1:])
    of_segments = np.concatenate((before, between, after) if len(through) else (before,), axis=1)
    dur = np.diff(cut)
    return np.stack([cut[:-1], dur, *of_segments])[:, dur > 0]


def _lead(path: CriticalPath, node: Ints) -> Ints:
    """Return event, type and cause of the segment before the first or after the last node."""
    rows, row, cause = path.within.rows, -1, "cpu_outside_operators"
    if not len(node):
        row = int(rows[0]) if len(rows) else -1
    elif not path.nodes.on_host[node[0]]:
        cause = "outside_path"
    else:
        table, own_row = path.trace.table, path.nodes.row[node[0]]
        row = int(table.parent[own_row])
        if len(rows) and not (table.track[rows] == table.track[own_row]).any():
            cause = "outside_path"
    return np.array([[row], [LEAD], [_BOUND_CODES[cause]]], dtype=np.int64)
