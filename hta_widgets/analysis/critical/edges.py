"""Edges of the dependency graph: launches, streams, threads, and waits.

For example, a thread launches two kernels on a stream and waits for them. The edges connect the
calls of the thread, each call with its kernel, the first kernel with the second, and the second
kernel with the end of the waiting call.

Functions named ``add_…`` add one kind of edge. `find_wait_pairs` finds awaited and waiting work.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

import numpy as np
import pandas as pd

from hta_widgets.analysis.critical.nodes import (
    COPYING,
    DEPENDENCY,
    KERNEL_GAP_NS,
    KERNEL_KERNEL,
    LAUNCH,
    LAUNCH_GAP_NS,
    NO_LIMIT,
    OPERATOR,
    SYNC,
    DeviceWorkIndex,
    EdgeList,
    GraphRules,
    Nodes,
)
from hta_widgets.analysis.frames import concat_arrays
from hta_widgets.analysis.host_activity import SYNCHRONIZING, stream_wait_calls
from hta_widgets.analysis.scope import device_work_rows
from hta_widgets.taxonomy import KINDS
from hta_widgets.trace.arrays import Bools, Ints, Rows, last_true_positions, stable_order
from hta_widgets.trace.columns import StreamIds, event_args, to_int64
from hta_widgets.trace.host_stack import names_match
from hta_widgets.trace.trace import Trace

#: earlier than the end of any event
_NEVER = np.iinfo(np.int64).min
_SYNC = KINDS.index("sync")
#: Args of recorded waits for a CUDA event: its stream, and the recording call's correlation ID.
_STREAM_OF_EVENT, _RECORD_OF_EVENT = "wait_on_stream", "wait_on_cuda_event_record_corr_id"
#: Arg with the stream that a call makes wait, in files without wait events.
_WAITING_STREAM = "waiting stream"
#: Number of calls whose args are sampled to determine whether calls state their waits.
_PROBED_CALLS: Final = 8
#: Names of operators that run only in backward passes.
_BACKWARD = re.compile(r"^autograd::engine|Backward\d*$")
#: Usual maximum delay from the end of awaited work to the start of a kernel that waited for it.
_LATENCY_NS: Final = 30_000
#: Maximum delay in files with slower waits, and number of waits required to estimate it.
_MAX_LATENCY_NS: Final = 100_000
_ENOUGH_WAITS: Final = 8
#: Shortest pause that may be a thread waiting for a kernel or another thread.
_MIN_PAUSE_NS: Final = 1_000_000
#: Longest time that such a thread takes to resume.
_MAX_RESUME_NS: Final = 300_000
#: Maximum number of events, latest first, that are tested as the cause of a wait.
_MAX_CANDIDATES: Final = 16

#: Launch calls counted by HTA, which has counted ``cuLaunchKernelEx`` since version 0.6.
_COUNTED_IN_HTA = {
    "cudaLaunchKernel", "cudaLaunchKernelExC", "cuLaunchKernel", "cuLaunchKernelEx",
    "cudaMemcpyAsync", "cudaMemsetAsync",
    "hipLaunchKernel", "hipExtModuleLaunchKernel",
    "hipMemcpyAsync", "hipMemsetAsync", "hipMemcpyWithStream",
    "runFunction - job_prep_and_submit_for_execution",
}  # fmt: skip


def add_device_work(
    edges: EdgeList, nodes: Nodes, kernel_waits: tuple[Ints, Ints], rules: GraphRules
) -> int:
    """Add edges to device work from its launch, from the previous work, and from awaited work.

    Returns the number of edges from launches.
    """
    # A kernel can start once it has been launched, its stream's previous kernel has ended, and the
    # work that its stream waits for has ended. Only the last of these delays the kernel, so only
    # later time has a weight, measured from the start of the call or the end of the earlier work.
    trace, table, rows = nodes.trace, nodes.trace.table, nodes.device
    edges.add(nodes.of_start[rows], nodes.of_end[rows], OPERATOR, rows, counts=True)
    awaited_end = _add_kernel_waits(edges, nodes, *kernel_waits)
    previous = _previous_work(nodes, rules)
    end_ns = table.end_ns
    previous_end = np.where(previous >= 0, end_ns[previous], _NEVER)
    call = trace.launch_of[rows]
    has_call, call_ns = call >= 0, np.zeros(len(rows), dtype=np.int64)
    if not rules.as_hta:
        # If the call returned before the kernel started, it may have launched until it returned.
        has_returned = has_call & (end_ns[call] <= table.start_ns[rows])
        call_ns[has_returned] = table.dur_ns[call[has_returned]]
    launched_ns = np.where(has_call, table.start_ns[call] + call_ns, _NEVER)
    by_launch = has_call & (previous_end < launched_ns) & (awaited_end < launched_ns)
    # A stream executes in order, so this edge remains even if the kernel waited for something else.
    has_launch_edge, has_previous_edge = has_call, ~by_launch & (previous >= 0)
    if rules.as_hta:
        by_launch &= _had_empty_queue(trace, rows)
        has_launch_edge = by_launch
        has_previous_edge = ~by_launch & (previous >= 0) & (awaited_end < previous_end)
    launches = edges.add(
        nodes.of_start[call[has_launch_edge]],
        nodes.of_start[rows[has_launch_edge]],
        LAUNCH,
        rows[has_launch_edge],
        counts=by_launch[has_launch_edge],
        limit_ns=NO_LIMIT if rules.as_hta else call_ns[has_launch_edge] + LAUNCH_GAP_NS,
    )
    edges.add(
        nodes.of_end[previous[has_previous_edge]],
        nodes.of_start[rows[has_previous_edge]],
        KERNEL_KERNEL,
        previous[has_previous_edge],
        counts=(awaited_end < previous_end)[has_previous_edge],
        limit_ns=NO_LIMIT if rules.as_hta else KERNEL_GAP_NS,
    )
    return launches


def _add_kernel_waits(edges: EdgeList, nodes: Nodes, awaited: Ints, waiting: Ints) -> Ints:
    """Add edges from awaited to waiting work; return, for all device work, the last awaited end."""
    is_analysed = nodes.of_end[awaited] >= 0
    awaited, waiting = awaited[is_analysed], waiting[is_analysed]
    edges.add(nodes.of_end[awaited], nodes.of_start[waiting], SYNC, waiting, counts=False)
    last_end = np.full(len(nodes.trace), _NEVER, dtype=np.int64)
    np.maximum.at(last_end, waiting, nodes.trace.table.end_ns[awaited])
    return last_end[nodes.device]


def _previous_work(nodes: Nodes, rules: GraphRules) -> Ints:
    """Return the work that precedes each device event on its stream; -1 if there is none."""
    table, rows = nodes.trace.table, nodes.device
    if rules.as_hta:
        return pd.Series(rows).groupby(table.track[rows]).shift(fill_value=-1).to_numpy()
    # A stream may also be busy with work that is not analyzed.
    ends = DeviceWorkIndex.by_end(nodes.trace)
    return ends.last_until(table.track[rows], table.start_ns[rows], rows)


def _had_empty_queue(trace: Trace, rows: Rows) -> Bools:
    """Return whether each device event was alone in its queue from its launch call to its start.

    As in HTA, the length of a queue is the number of calls in `_COUNTED_IN_HTA` so far minus how
    many of their kernels and copies have started. All events of the rank are used, not only those
    in the analyzed range. Without a counted call, the length is unknown and the result is False.
    """
    table = trace.table
    device = np.flatnonzero((table.stream >= 0) & (trace.launch_of >= 0))
    device = device[names_match(trace, trace.launch_of[device], _COUNTED_IN_HTA.__contains__)]
    call, count = trace.launch_of[device], len(device)
    time_ns = np.concatenate((table.start_ns[call], table.start_ns[device]))
    change = np.repeat((1, -1), count)
    stream = np.tile(table.stream[device], 2)
    order = np.lexsort((-change, time_ns, stream))
    # The launches and starts of a stream cancel out, so the next stream begins at 0.
    length = np.empty(2 * count, dtype=np.int64)
    length[order] = np.cumsum(change[order])
    had_empty_queue = np.zeros(len(trace), dtype=bool)
    had_empty_queue[device] = (length[:count] == 1) & (length[count:] == 0)
    return had_empty_queue[rows]


class _ThreadChains:
    """Host nodes sorted by thread and time, and the number of open events after each node."""

    def __init__(self, nodes: Nodes) -> None:
        host = np.flatnonzero(nodes.on_host)
        track = nodes.trace.table.track[nodes.row[host]].astype(np.int64)
        order = stable_order(track)
        self.node: Ints = host[order]
        self.track: Ints = track[order]
        self.is_start = nodes.is_start[self.node]
        # Every opened event is closed on the same thread, so each thread begins at 0.
        self.depth: Ints = np.cumsum(np.where(self.is_start, 1, -1))


def add_threads(edges: EdgeList, nodes: Nodes, blocked: Bools, rules: GraphRules) -> int:
    """Join successive nodes of each thread; return the number of pauses that are waits.

    Time within operators belongs to the innermost event and has a weight, except before the end of
    a call that was `blocked` (by row) and in pauses during which the host waits for a kernel or
    another thread. Time between operators has no weight.
    """
    chains = _ThreadChains(nodes)
    is_same_track = chains.track[1:] == chains.track[:-1]
    source, target = chains.node[:-1][is_same_track], chains.node[1:][is_same_track]
    within = chains.depth[:-1][is_same_track] > 0
    parent = nodes.trace.table.parent
    source_row, target_row = nodes.row[source], nodes.row[target]
    innermost = np.where(
        nodes.is_start[source],
        source_row,
        np.where(nodes.is_start[target], parent[source_row], target_row),
    )
    waited = ~nodes.is_start[target] & blocked[target_row]
    waits = 0
    if not rules.as_hta:
        time = nodes.time_ns
        pauses = np.flatnonzero((time[target] - time[source] >= _MIN_PAUSE_NS) & ~waited)
        waiting = _Pauses(nodes, source[pauses], target[pauses])
        has_waited = waiting.add_polls(edges)
        has_waited |= waiting.add_joins(edges, chains, within[pauses])
        waited[pauses] = has_waited
        waits = int(has_waited.sum())
    edges.add(
        source,
        target,
        np.where(within, OPERATOR, DEPENDENCY),
        np.where(within, innermost, parent[target_row]),
        counts=within & ~waited,
    )
    return waits


class _Pauses:
    """Long pauses between two nodes of a thread, possibly waits that were not recorded.

    A kernel can write to memory that the host polls, and a thread can hand its work to another
    thread that launches it. A pause is such a wait if the awaited event ends when the pause ends.
    """

    def __init__(self, nodes: Nodes, source: Ints, target: Ints) -> None:
        self._nodes, self._source, self._target = nodes, source, target
        self._begin, self._end = nodes.time_ns[source], nodes.time_ns[target]
        self._tolerance = np.minimum((self._end - self._begin) // 20, _MAX_RESUME_NS)

    def add_polls(self, edges: EdgeList) -> Bools:
        """Add an edge from the work launched last, or ending last, if the pause ends with it.

        Only work launched before the pause counts.
        """
        nodes, target = self._nodes, self._target
        trace, table = nodes.trace, nodes.trace.table
        work = nodes.device[trace.launch_of[nodes.device] >= 0].astype(np.int64)
        returned_ns = table.end_ns[trace.launch_of[work]]
        order = np.argsort(returned_ns, kind="stable")
        work, returned_ns = work[order], returned_ns[order]
        ends_last = table.end_ns[work] == np.maximum.accumulate(table.end_ns[work])
        launched = np.searchsorted(returned_ns, self._begin, side="right") - 1
        polls = np.zeros(len(target), dtype=bool)
        for candidates in (work, work[last_true_positions(ends_last)]):
            last = np.append(candidates, -1)[launched]
            ends_with_it = np.abs(table.end_ns[last] - self._end) <= self._tolerance
            ends_with_it &= ~polls & (last >= 0) & (table.start_ns[last] < self._end)
            has_ended = table.end_ns[last] <= self._end
            by_end, by_write = ends_with_it & has_ended, ends_with_it & ~has_ended
            edges.add(nodes.of_end[last[by_end]], target[by_end], SYNC, counts=False)
            # The host resumes once the kernel has written the memory, before the kernel ends.
            writing = last[by_write]
            edges.add(nodes.of_start[writing], target[by_write], OPERATOR, writing, counts=True)
            polls |= ends_with_it
        return polls

    def add_joins(self, edges: EdgeList, chains: _ThreadChains, within: Bools) -> Bools:
        """Add edges to and from an outermost event that fills the pause on another thread.

        Only pauses marked in `within`, which are inside an event, are used.
        """
        nodes, trace = self._nodes, self._nodes.trace
        table = trace.table
        call = trace.launch_of[nodes.device]
        is_launching = np.isin(chains.track, table.track[call[call >= 0]])
        ends = np.sort(chains.node[is_launching & (chains.depth == 0) & ~chains.is_start])
        events = nodes.row[ends]
        track = table.track[nodes.row[self._target]]
        joined = np.full(len(track), -1, dtype=np.int64)
        # Try the events that ended before the end of each pause, latest first.
        candidate = np.searchsorted(ends, self._target) - 1
        for _ in range(_MAX_CANDIDATES):
            pause = np.flatnonzero(within & (joined < 0) & (candidate >= 0))
            end_ns = nodes.time_ns[ends[candidate[pause]]]
            pause = pause[end_ns >= self._end[pause] - self._tolerance[pause]]
            event = events[candidate[pause]]
            fits = table.start_ns[event] >= self._begin[pause]
            fits &= table.track[event] != track[pause]
            fits &= 2 * table.dur_ns[event] > self._end[pause] - self._begin[pause]
            joined[pause[fits]] = event[fits]
            candidate[pause] -= 1
        has_joined = joined >= 0
        event = joined[has_joined]
        edges.add(self._source[has_joined], nodes.of_start[event], DEPENDENCY, counts=False)
        edges.add(nodes.of_end[event], self._target[has_joined], DEPENDENCY, counts=False)
        return has_joined


def add_thread_handoffs(edges: EdgeList, nodes: Nodes) -> int:
    """Add edges between forward and backward threads; return their number."""
    # While the backward pass runs, the thread that started it waits. An outermost operator
    # therefore depends on the latest outermost operator of the other thread that ended before it
    # started. Operators that overlap in time are not joined.
    chains = _ThreadChains(nodes)
    count = 0
    outermost = np.flatnonzero(chains.depth == chains.is_start)
    for pair in _backward_threads(nodes):
        of_pair = outermost[np.isin(chains.track[outermost], pair)]
        of_pair = of_pair[np.argsort(chains.node[of_pair], kind="stable")]
        before, after = of_pair[:-1], of_pair[1:]
        is_handoff = chains.track[before] != chains.track[after]
        is_handoff &= ~chains.is_start[before] & chains.is_start[after]
        before, after = chains.node[before[is_handoff]], chains.node[after[is_handoff]]
        count += edges.add(before, after, DEPENDENCY, counts=False)
    return count


def _backward_threads(nodes: Nodes) -> list[tuple[int, int]]:
    """Return pairs of tracks, each a forward thread and its backward thread."""
    trace = nodes.trace
    table = trace.table
    pairs = np.column_stack([table.track[rows] for rows in trace.flow_table.of_kind("fwdbwd")])
    pairs = np.unique(pairs[pairs[:, 0] != pairs[:, 1]], axis=0)
    if len(pairs):
        return [(int(forward), int(backward)) for forward, backward in pairs]
    # Without flow arrows: pair the autograd engine's threads with the thread with most operators.
    track = table.track[nodes.host].astype(np.int64)
    backward = np.unique(track[names_match(trace, nodes.host, _BACKWARD.search)])
    others = track[~np.isin(track, backward)]
    if not len(others):
        return []
    forward = int(np.bincount(others).argmax())
    return [(forward, int(thread)) for thread in backward.tolist()]


def inferred_kernel_waits(nodes: Nodes) -> tuple[Ints, Ints]:
    """Return pairs of awaited work and waiting kernels, inferred from calls and times."""
    # A kernel is taken to have waited under three conditions. Its stream was idle although the
    # kernel had been launched. Since the previous launch on that stream, the host had called for a
    # stream to wait for an event. Work on another stream of the device, launched before that call,
    # ended just before the kernel started. If the calls precede the recording, the second condition
    # is instead that the stream was idle for longer than usual.
    trace, rows = nodes.trace, nodes.device.astype(np.int64)
    table = trace.table
    call, start_ns = trace.launch_of[rows], table.start_ns[rows]
    wait_call_ns = _wait_call_times(trace, rows, call)
    previous = DeviceWorkIndex.by_end(trace).last_until(table.track[rows], start_ns, rows)
    idle_from_ns = np.where(previous >= 0, table.end_ns[previous], -1)
    ready_ns = np.where(call >= 0, np.maximum(idle_from_ns, table.start_ns[call]), idle_from_ns)
    has_waited = (wait_call_ns >= 0) & (start_ns > ready_ns)
    is_idle_for_long = (call < 0) & (previous >= 0) & (start_ns - idle_from_ns > KERNEL_GAP_NS)
    wait_call_ns[is_idle_for_long] = start_ns[is_idle_for_long]
    has_waited |= is_idle_for_long
    earliest_end_ns = np.maximum(ready_ns, start_ns - _MAX_LATENCY_NS)[has_waited]
    rows = rows[has_waited]
    work = _last_awaited_work(nodes, rows, earliest_end_ns, wait_call_ns[has_waited])
    latency_ns = np.where(work >= 0, table.start_ns[rows] - table.end_ns[work], NO_LIMIT)
    found_ns = latency_ns[work >= 0]
    usual_ns = 2 * int(np.median(found_ns)) if len(found_ns) >= _ENOUGH_WAITS else 0
    max_ns = max(_LATENCY_NS, min(usual_ns, _MAX_LATENCY_NS))
    return np.where(latency_ns < max_ns, work, -1), rows


def _wait_call_times(trace: Trace, rows: Ints, call: Ints) -> Ints:
    """Return the time of the last stream wait between each launch and the previous one, or -1."""
    # Calls on all threads are used, because the code after a backward pass waits for its streams.
    table = trace.table
    called = np.where(call >= 0, table.start_ns[call], -1)
    order = np.lexsort((rows, called))
    before = np.empty(len(rows), dtype=np.int64)
    by_track = pd.Series(called[order]).groupby(table.track[rows[order]])
    before[order] = by_track.shift(fill_value=-1)
    wait_ns = table.start_ns[stream_wait_calls(trace)]
    last_wait_ns = np.append(-1, wait_ns)[np.searchsorted(wait_ns, called, side="right")]
    return np.where(last_wait_ns > before, last_wait_ns, -1)


def _last_awaited_work(nodes: Nodes, rows: Ints, after: Ints, wait_call_ns: Ints) -> Ints:
    """Return the last work of other streams that ends in ``(after, start]``; -1 if there is none.

    Only work launched before `wait_call_ns` is considered.
    """
    trace, table = nodes.trace, nodes.trace.table
    device_of_track, _ = pd.factorize(np.array([track.pid for track in trace.tracks], object))
    work = device_work_rows(trace).astype(np.int64)
    work = work[np.argsort(table.end_ns[work], kind="stable")]
    end_ns, call = table.end_ns[work], trace.launch_of[work]
    called_ns = np.where(call >= 0, table.start_ns[call], -1)
    awaited = np.full(len(rows), -1, dtype=np.int64)
    # Try the work that ended before each row started, latest first.
    candidate = np.searchsorted(end_ns, table.start_ns[rows], side="right") - 1
    for _ in range(_MAX_CANDIDATES):
        waiting = np.flatnonzero((awaited < 0) & (candidate >= 0))
        waiting = waiting[end_ns[candidate[waiting]] > after[waiting]]
        tried = candidate[waiting]
        track, waiting_track = table.track[work[tried]], table.track[rows[waiting]]
        fits = (track != waiting_track) & (device_of_track[track] == device_of_track[waiting_track])
        fits &= called_ns[tried] < wait_call_ns[waiting]
        awaited[waiting[fits]] = work[tried[fits]]
        candidate[waiting] -= 1
    return awaited


@dataclass(frozen=True, eq=False)
class WaitPairs:
    """Device work, paired with the calls or kernels that waited for it."""

    work: Ints  # work for which calls waited
    call: Ints
    awaited: Ints  # work for which kernels waited
    waiting: Ints
    recorded: int  # number of calls whose waits are in the file
    inferred: int


def find_wait_pairs(nodes: Nodes, rules: GraphRules) -> WaitPairs:
    """Return the waits in the file and, unless the rules are HTA's, inferred waits."""
    trace, table = nodes.trace, nodes.trace.table
    rows = _recorded_waits(trace)
    call, track = trace.launch_of[rows], _stream_tracks(trace, rows, table.stream[rows])
    is_event = names_match(trace, rows, "Event Sync".__eq__)
    is_stream = names_match(trace, rows, "Stream Sync".__eq__)
    is_context = names_match(trace, rows, {"Context Sync", "Device Sync"}.__contains__)
    launched = np.flatnonzero((table.stream >= 0) & (trace.launch_of >= 0) & (table.kind != _SYNC))
    launches = DeviceWorkIndex(trace, launched, table.start_ns[trace.launch_of[launched]])
    last_of_streams = DeviceWorkIndex.by_end(trace).last_until(
        track[is_stream], table.end_ns[call[is_stream]]
    )
    recorded = [
        (_work_before_record(trace, rows[is_event], launches), call[is_event]),
        (last_of_streams, call[is_stream]),
        _last_work_of_streams(trace, rows[is_context], call[is_context]),
    ]
    inferred: list[tuple[Ints, Ints]] = []
    if not rules.as_hta:
        # A recorded wait on an empty stream waited for nothing.
        on_stream = call[is_stream & (table.stream[rows] >= 0)]
        calls_with_work = [calls[work >= 0] for work, calls in recorded]
        recorded_calls = np.concatenate([on_stream, *calls_with_work])
        inferred.append(_last_before_return(nodes, recorded_calls, launched))
        inferred.append(_blocking_copies(nodes, recorded_calls, launched))
    recorded_count, inferred_count = (
        sum(int((work >= 0).sum()) for work, _ in pairs) for pairs in (recorded, inferred)
    )
    work, calls = (np.concatenate(column) for column in zip(*recorded, *inferred, strict=True))
    is_known = work >= 0
    is_kernel = names_match(trace, rows, "Stream Wait Event".__eq__)
    awaited, waiting = _kernel_waits(nodes, rules, launches, rows[is_kernel], track[is_kernel])
    return WaitPairs(
        work[is_known], calls[is_known], awaited, waiting, recorded_count, inferred_count
    )


def _recorded_waits(trace: Trace) -> Rows:
    """Return the recorded waits, by calls or streams, whose call is known."""
    table = trace.table
    codes = [
        code for code, name in enumerate(table.categories.values) if name.lower().endswith("_sync")
    ]
    is_wait = (table.kind == _SYNC) & np.isin(table.category, codes)
    return np.flatnonzero(is_wait & (trace.launch_of >= 0))


def _kernel_waits(
    nodes: Nodes, rules: GraphRules, launches: DeviceWorkIndex, rows: Rows, track: Ints
) -> tuple[Ints, Ints]:
    """Return pairs of awaited work and waiting kernels.

    The waits come from the file: `rows` on the streams `track`. If it has none, they are those
    stated in args of calls, or else inferred. By HTA's rules, only waits in the file count.
    """
    trace = nodes.trace
    if len(rows) or rules.as_hta:
        awaited = _work_before_record(trace, rows, launches)
        waiting = launches.first_from(track, trace.table.start_ns[trace.launch_of[rows]])
    else:
        stated = _stated_kernel_waits(trace, launches)
        awaited, waiting = inferred_kernel_waits(nodes) if stated is None else stated
    is_pair = (awaited >= 0) & (waiting >= 0) & (awaited != waiting)
    return awaited[is_pair], waiting[is_pair]


def _stated_kernel_waits(trace: Trace, launches: DeviceWorkIndex) -> tuple[Ints, Ints] | None:
    """Return pairs of awaited and waiting work from args of calls; None without such args."""
    calls = stream_wait_calls(trace)
    args = event_args(trace, calls[:_PROBED_CALLS], (_RECORD_OF_EVENT,))
    if all(record is None for record in args[_RECORD_OF_EVENT]):
        return None
    streams = to_int64(event_args(trace, calls, (_WAITING_STREAM,))[_WAITING_STREAM])
    tracks = _stream_tracks(trace, calls, streams)
    waiting = launches.first_from(tracks, trace.table.start_ns[calls])
    return _work_before_record(trace, calls, launches), waiting


def _last_work_of_streams(trace: Trace, rows: Rows, call: Ints) -> tuple[Ints, Ints]:
    """Return the last work on each stream until each device-wide call returned, and that call.

    The recorded waits `rows` are on the device of their `call`.
    """
    table, tracks = trace.table, trace.tracks
    ends, end_ns = DeviceWorkIndex.by_end(trace), table.end_ns
    pids = np.array([tracks[track].pid for track in table.track[rows].tolist()], dtype=object)
    work, calls = [], []
    for stream, track in enumerate(tracks):
        if track.role == "stream":
            calls.append(call[pids == track.pid])
            streams = np.full(len(calls[-1]), stream, np.int32)
            work.append(ends.last_until(streams, end_ns[calls[-1]]))
    return concat_arrays(work), concat_arrays(calls)


def _stream_tracks(trace: Trace, rows: Rows, streams: StreamIds) -> Ints:
    """Return the track of a stream on the device of each row; -1 if there is none.

    Waits may have tracks such as ``stream 7 (sync)``. A host call's stream may be on any device.
    """
    # The order is reversed so that the first track of each stream is kept.
    number_of = {
        (track.pid, track.stream): number
        for number, track in reversed(list(enumerate(trace.tracks)))
        if track.role == "stream"
    }
    of_any_device = {stream: number for (_, stream), number in number_of.items()}
    row_tracks = [trace.tracks[number] for number in trace.table.track[rows].tolist()]
    numbers = [
        of_any_device.get(stream, -1)
        if track.stream < 0
        else number_of.get((track.pid, stream), -1)
        for track, stream in zip(row_tracks, streams.tolist(), strict=True)
    ]
    return np.array(numbers, np.int64)


def _work_before_record(trace: Trace, rows: Rows, launches: DeviceWorkIndex) -> Ints:
    """Return the work awaited by each wait for a CUDA event in `rows`; -1 if there is none.

    It is the work launched last on the event's stream before the event was recorded.
    """
    work = np.full(len(rows), -1, dtype=np.int64)
    if not len(rows):
        return work
    args = event_args(trace, rows, (_STREAM_OF_EVENT, _RECORD_OF_EVENT))
    track = _stream_tracks(trace, rows, to_int64(args[_STREAM_OF_EVENT]))
    recording_call = _recording_calls(trace, to_int64(args[_RECORD_OF_EVENT]))
    is_known = (track >= 0) & (recording_call >= 0)
    recorded_ns = trace.table.start_ns[recording_call[is_known]]
    work[is_known] = launches.last_before(track[is_known], recorded_ns)
    return work


def _recording_calls(trace: Trace, correlations: Ints) -> Ints:
    """Return, by correlation ID, the last call that recorded a CUDA event; -1 if there is none."""
    table = trace.table
    host = np.flatnonzero((table.stream < 0) & (table.correlation >= 0))
    calls = host[names_match(trace, host, lambda name: "EventRecord" in name)]
    # Rows are sorted by time, so the dict keeps the last call for a repeated ID.
    call_of = dict(zip(table.correlation[calls].tolist(), calls.tolist(), strict=True))
    return np.array([call_of.get(number, -1) for number in correlations.tolist()], np.int64)


def _last_before_return(nodes: Nodes, recorded: Ints, work: Rows) -> tuple[Ints, Ints]:
    """Return pairs of work and synchronizing calls, without a recorded wait, that awaited it.

    A call waited for the last work that ended while the call ran and was launched before it.
    """
    trace, table = nodes.trace, nodes.trace.table
    start_ns, end_ns = table.start_ns, table.end_ns
    calls = nodes.host[names_match(trace, nodes.host, SYNCHRONIZING.search)]
    calls = np.setdiff1d(calls, recorded).astype(np.int64)
    work = work[np.argsort(end_ns[work], kind="stable")]
    last = np.append(-1, work)[np.searchsorted(end_ns[work], end_ns[calls], side="right")]
    has_ended_during = end_ns[last] > start_ns[calls]
    is_launched = start_ns[trace.launch_of[last]] <= start_ns[calls]
    return np.where(has_ended_during & is_launched, last, -1), calls


def _blocking_copies(nodes: Nodes, recorded: Ints, work: Rows) -> tuple[Ints, Ints]:
    """Return copies that ended before their launch call returned, and these calls."""
    trace = nodes.trace
    table = trace.table
    call = trace.launch_of[work]
    has_ended = (nodes.of_end[call] >= 0) & (table.end_ns[work] <= table.end_ns[call])
    work, call = work[has_ended], call[has_ended]
    is_copy = names_match(trace, call, COPYING.fullmatch) & ~np.isin(call, recorded)
    return work[is_copy].astype(np.int64), call[is_copy]
