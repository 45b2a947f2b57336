"""Activities of host threads: waits, memory calls, data loading, operators, Python functions.

A device idles because of what the host does before it launches the next work. Only threads that
launch work are analyzed. At each instant, a thread has one activity, the first that applies in
`_LEVELS`. For example, ``cudaFree`` in an operator in a Python function is a memory call.

A synchronization returns within microseconds after the last work ends, and a copy from pageable
memory starts within 0.3 ms. If a thread waits for more than 1 ms while its device runs no recorded
work, the device must therefore run other work. This part of a call is the activity
`UNRECORDED_WAIT`; the rest is a wait for the device. For example, if ``cudaStreamSynchronize``
lasts from 0 to 6 ms and the last work ends at 1 ms, 5 ms of it are `UNRECORDED_WAIT`.

Level k covers the time of activities 0 to k, so each level contains the previous one. The time of
activity k is the time of level k minus the time of level k - 1. For example, with 10 ns in the
first level (memory calls) and 25 ns in the next (operators), operators take 15 ns.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Container, Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import pandas as pd

from hta_widgets.analysis.scope import DEVICE_WORK_KINDS, device_work_rows, rank_part
from hta_widgets.facts import facts
from hta_widgets.taxonomy import KINDS, is_graph_launch
from hta_widgets.trace.arrays import (
    Array,
    Bools,
    Ints,
    Rows,
    concatenate_ranges,
    distinct_codes,
    mask_of_rows,
    occurring_codes,
    positions_by_code,
)
from hta_widgets.trace.build import step_numbers
from hta_widgets.trace.conditions import trace_index
from hta_widgets.trace.host_stack import CALLS, category_mask, name_mask, names_match
from hta_widgets.trace.intervals import (
    CumulativeCoverage,
    Intervals,
    subtract,
    total_length,
    union,
    unite,
)
from hta_widgets.trace.memo import iter_ranks, memoize
from hta_widgets.trace.trace import Trace
from hta_widgets.trace.traceset import Selection

#: What a thread does before it launches work. If several activities apply, the first counts.
ACTIVITIES: tuple[str, ...] = tuple(facts("causes"))[:5]
_ALLOCATION, _PYTHON = 1, 4
#: Code for waiting for work that is not in the file; follows the codes of `ACTIVITIES`.
UNRECORDED_WAIT = len(ACTIVITIES)
#: Activities by precedence, each on the thread itself (False) or on any launching thread (True).
#: Memory calls on any thread delay the device, so they precede Python functions.
_LEVELS: tuple[tuple[int, bool], ...] = (
    (UNRECORDED_WAIT, False),
    *((activity, False) for activity in range(_PYTHON)),
    (_ALLOCATION, True),
    (_PYTHON, False),
    (UNRECORDED_WAIT, True),
    *((activity, True) for activity in range(len(ACTIVITIES))),
)
#: Longer waits while the device runs nothing are for work that is not in the file.
LONG_WAIT_NS = 1_000_000
#: Calls in which a host thread waits for its device. `_WAITING_CALLS` adds blocking copies.
SYNCHRONIZING = re.compile(r"synchroni[sz]e|^ur(QueueFinish|EventWait)", re.IGNORECASE)
_WAITING_CALLS = re.compile(
    rf"{SYNCHRONIZING.pattern}|^(cuda|cu|hip|musa)Memcpy(?!.*Async)", re.IGNORECASE
)
#: Copies that return at once except from or to pageable memory; calls over `_BLOCKING_NS` waited.
_ASYNC_COPIES = re.compile(r"(cuda|cu|hip|musa)Memcpy\w*Async\w*", re.IGNORECASE)
_BLOCKING_NS = 1_000_000
#: Longest time to launch a graph node; real launches take up to 4 µs.
_NODE_NS = 10_000
#: Calls that make a stream wait for work of another stream.
_STREAM_WAITS = re.compile(
    r"(cuda|hip|cu|musa|mu|aclrt)StreamWait(Event|Value)\w*|urEnqueueEventsWait\w*", re.IGNORECASE
)

#: Calls that allocate or free device memory, or host memory that a device can access.
_ALLOCATOR_CALLS = re.compile(
    r"(cuda|cu|hip|musa|mu|aclrt|cnrt)(Host|Ext|Mem|MemHost)?(Malloc|Alloc|Free)\w*"
    r"|(cuda|cu|hip|musa|mu|aclrt)(Mem)?Host(Register|Unregister)\w*"
    r"|(cu|hip|musa|mu)Mem(Create|Release|Map|Unmap|Address|SetAccess)\w*"
    r"|aclrt(Map|Unmap|Reserve|Release)Mem\w*|(cuda|hip|cu)MemPoolTrim\w*"
    r"|zeMem(Alloc|Free)\w*|urUSM\w*(Alloc|Free)\w*|hsa_\w*memory_\w*(allocate|free)",
    re.IGNORECASE,
)
#: Names of events that load data, matched without the folders of Python files.
_DATA_LOADING = re.compile(r"data_?load|DataLoader|data_?iter|next_batch", re.IGNORECASE)
_FOLDERS = re.compile(r"^.*[/\\](?=[^/\\]+\.py\(\d+\): )")
#: Calls that free device memory.
_FREES = re.compile(r"(?!.*host).*free", re.IGNORECASE)
#: Python functions in which a thread sleeps or waits for another thread.
_PAUSES = re.compile(r"<(built-in (function|method)|method) '?(sleep|acquire|select|poll|wait)\b")
_LAUNCHES = re.compile(r"(cuda|cu|hip|musa)(Ext|Module|Graph)?Launch(?!HostFunc)\w*", re.IGNORECASE)
#: Largest share of launches without work in the file for a rank that uses only one device.
_MAX_UNLINKED = 0.05
#: Number of freeing calls that shows that a program has no caching allocator.
_MANY_FREES = 10
#: Largest share of the busy time that stalling events may cover.
_MAX_STALLED_BUSY = 0.1
#: Smallest time of a nested stalling event, relative to the longest, that is named instead.
_MIN_INNERMOST = 0.8
_ADDRESS = re.compile(r" object at 0x[0-9a-fA-F]+")


class _ThreadTimes(NamedTuple):
    track: Array
    start: Ints
    end: Ints

    def union(self, thread: int | None = None) -> Intervals:
        """Return the times of the thread on track `thread`; of all threads if None."""
        if thread is None:
            return union(self.start, self.end)
        is_of_thread = self.track == thread
        return union(self.start[is_of_thread], self.end[is_of_thread])


class _Level(NamedTuple):
    """The time of a thread's activity, including all activities that take precedence."""

    activity: int
    covered: Intervals


def activity_times(trace: Trace, start: Ints, end: Ints, call: Ints) -> list[Ints]:
    """Return the time of each activity within intervals, on the thread of each one's call.

    Columns are `ACTIVITIES`, followed by `UNRECORDED_WAIT`. Interval k extends from ``start[k]`` to
    ``end[k]``, and its call is ``call[k]``. If it has no call (-1), its times are 0.
    """
    activity_ns = [np.zeros(len(start), dtype=np.int64) for _ in range(UNRECORDED_WAIT + 1)]
    threads = trace.table.track[call]
    for thread, levels in _levels_by_thread(trace).items():
        positions = np.flatnonzero((threads == thread) & (call >= 0))
        if not len(positions):
            continue
        previous_level_ns = np.zeros(len(positions), dtype=np.int64)
        for activity, intervals in levels:
            coverage = CumulativeCoverage(*intervals)
            level_ns = coverage(end[positions]) - coverage(start[positions])
            activity_ns[activity][positions] += level_ns - previous_level_ns
            previous_level_ns = level_ns
    return activity_ns


@memoize
def _levels_by_thread(trace: Trace) -> dict[int, list[_Level]]:
    """Return the levels of each thread that launches work, without levels that add no time."""
    table = trace.table
    threads = occurring_codes(table.track[launch_calls(trace)])
    launching = np.isin(table.track, threads)
    loads_data = name_mask(trace, is_data_loading_name)
    # in the order of `ACTIVITIES`
    masks = waiting_calls(trace), memory_calls(trace), loads_data, *_call_masks(trace)
    times = [_thread_times(trace, np.flatnonzero(mask & launching)) for mask in masks]
    times.append(_unrecorded_waits(trace))
    on_all_threads = [times_of_activity.union() for times_of_activity in times]
    levels_by_thread = {}
    for thread in threads.tolist():
        on_thread = [times_of_activity.union(thread) for times_of_activity in times]
        covered = Intervals.empty()
        levels: list[_Level] = []
        for activity, is_shared in _LEVELS:
            added = (on_all_threads if is_shared else on_thread)[activity]
            # A single thread has no other threads whose activities could be included.
            if not len(added.start) or (is_shared and len(threads) == 1):
                continue
            covered = unite(covered, added)
            levels.append(_Level(activity, covered))
        levels_by_thread[thread] = levels
    return levels_by_thread


def _thread_times(trace: Trace, rows: Rows) -> _ThreadTimes:
    table = trace.table
    start = table.start_ns[rows]
    return _ThreadTimes(table.track[rows], start, start + table.dur_ns[rows])


@memoize
def _unrecorded_waits(trace: Trace) -> _ThreadTimes:
    """Return the parts of waits, over 1 ms, during which the device runs no recorded work."""
    gap_start, gap_end = rank_part(trace, Selection()).device_gaps()
    is_long = gap_end - gap_start > LONG_WAIT_NS
    # A thread that launches on several devices may wait for any of them.
    if not is_long.any() or _has_launches_elsewhere(trace):
        return _thread_times(trace, np.zeros(0, dtype=np.intp))
    gap_start, gap_end = gap_start[is_long], gap_end[is_long]
    rows = _long_waits(trace)
    launching_threads = occurring_codes(trace.table.track[launch_calls(trace)])
    waits = _thread_times(trace, rows[np.isin(trace.table.track[rows], launching_threads)])
    first = np.searchsorted(gap_end, waits.start, "right")
    count = np.searchsorted(gap_start, waits.end, "left") - first
    # Each wait is paired with each of the `count` gaps that it overlaps.
    wait, gap = np.repeat(np.arange(len(count)), count), concatenate_ranges(first, count)
    start = np.maximum(waits.start[wait], gap_start[gap])
    end = np.minimum(waits.end[wait], gap_end[gap])
    is_counted = end - start > LONG_WAIT_NS
    return _ThreadTimes(waits.track[wait][is_counted], start[is_counted], end[is_counted])


def _long_waits(trace: Trace) -> Rows:
    rows = np.flatnonzero(trace.table.dur_ns > LONG_WAIT_NS)
    return rows[_waiting_mask(trace, rows)]


def waits_without_recorded_work(trace: Trace) -> Rows:
    """Return the waiting calls over 1 ms during which the device mostly runs unrecorded work.

    Unlike `UNRECORDED_WAIT`, this includes calls before the first work in the file.
    """
    rows, table = _long_waits(trace), trace.table
    if not len(rows):
        return rows
    work = device_work_rows(trace)
    busy = CumulativeCoverage(*union(table.start_ns[work], table.end_ns[work]))
    busy_ns = busy(table.end_ns[rows]) - busy(table.start_ns[rows])
    return rows[2 * busy_ns < table.dur_ns[rows]]


def _has_launches_elsewhere(trace: Trace) -> bool:
    """Return whether threads of a single-device rank also launch work on other devices."""
    if trace.local_rank < 0:
        return False
    is_launch = name_mask(trace, _LAUNCHES.fullmatch)
    count = np.count_nonzero(is_launch)
    is_launch[launch_calls(trace)] = False
    return bool(np.count_nonzero(is_launch) > _MAX_UNLINKED * count)


def unrecorded_waits_by_thread(trace: Trace) -> dict[int, Intervals]:
    """Return the times of `UNRECORDED_WAIT`, keyed by the track of each work-launching thread."""
    waits: dict[int, Intervals] = {}
    if not len(_unrecorded_waits(trace).start):
        return waits
    for thread, levels in _levels_by_thread(trace).items():
        waits[thread], level_before = Intervals.empty(), Intervals.empty()
        for activity, covered in levels:
            if activity == UNRECORDED_WAIT:
                waits[thread] = unite(waits[thread], subtract(covered, level_before))
            level_before = covered
    return waits


def activities_by_thread(trace: Trace) -> dict[int, tuple[Ints, Ints]]:
    """Return starts and codes of activities, keyed by the track of each work-launching thread.

    Codes count from 1 in the order of `ACTIVITIES`, then `UNRECORDED_WAIT`; 0 means no activity.
    """
    activities = {}
    for thread, levels in _levels_by_thread(trace).items():
        edges_of_levels = [edges for level in levels for edges in level.covered]
        edges = np.unique(np.concatenate([*Intervals.empty(), *edges_of_levels]))
        codes = np.zeros(len(edges), dtype=np.int64)
        # The first levels take precedence, so they are written last.
        for activity, (start, end) in reversed(levels):
            interval = np.searchsorted(start, edges, "right") - 1
            is_within = (interval >= 0) & (edges < end[interval])
            codes[is_within] = activity + 1
        changes = np.flatnonzero(np.diff(codes, prepend=0))
        activities[thread] = edges[changes], codes[changes]
    return activities


def _call_masks(trace: Trace, rows: Rows | slice = slice(None)) -> tuple[Bools, Bools]:
    """Return two masks of events: one for operators and other calls, one for Python functions."""
    table = trace.table
    # Files from 2021 categorize steps as operators, but steps are not an activity.
    is_step = (step_numbers(table.names.values) >= 0)[table.name[rows]]
    called = (table.stream[rows] < 0) & (table.kind[rows] == KINDS.index("cpu")) & ~is_step
    python = category_mask(trace, "python_function", rows)
    return called & ~python, called & python


@lru_cache(maxsize=1 << 14)
def is_data_loading_name(name: str) -> bool:
    """Return whether a name, given without folders of Python files, is of a data-loading event."""
    return _DATA_LOADING.search(_FOLDERS.sub("", name)) is not None


@memoize
def time_in_calls(trace: Trace) -> Intervals:
    """Return when a thread that launches work is inside a recorded call.

    Python functions also count as calls, except during `python_pauses`.
    """
    rows = rows_of_launching_threads(trace)
    in_calls, in_python = (rows[mask] for mask in _call_masks(trace, rows))
    call_times = _thread_times(trace, in_calls).union()
    if not len(in_python):
        return call_times
    python_times = _thread_times(trace, in_python).union()
    return unite(call_times, subtract(python_times, python_pauses(trace)))


def python_pauses(trace: Trace) -> Intervals:
    """Return when a thread that launches work sleeps in Python or waits for another thread."""
    rows = rows_of_launching_threads(trace)
    return _thread_times(trace, rows[names_match(trace, rows, _PAUSES.match)]).union()


def rows_of_launching_threads(trace: Trace) -> Rows:
    """Return the host events on threads that launch work."""
    table = trace.table
    is_launching = mask_of_rows(table.track[launch_calls(trace)], len(table.tracks))
    return np.flatnonzero(is_launching[table.track])


def stalling_event(
    traces: Sequence[Trace], min_idle_ns: float, peers: Sequence[Trace] = ()
) -> tuple[str, int] | None:
    """Return the name of the innermost host events that explain idle time, and that idle time.

    Events with this name, such as ``torch.save``, cover more than `min_idle_ns` of the devices'
    idle time but hardly any of their busy time. Events of a host that merely launches too slowly
    cover both. The median idle time on `peers` is subtracted. Returns None if no events explain it.
    """
    idle_ns, busy_ns, depth = Counter[str](), Counter[str](), Counter[str]()
    for trace in iter_ranks(traces):
        for name, times in _idle_and_busy_times(trace, min_idle_ns / 2 / len(traces)).items():
            idle_ns[name] += times.idle_ns
            busy_ns[name] += times.busy_ns
            depth[name] = max(depth[name], times.depth)
    max_busy_ns = _MAX_STALLED_BUSY * busy_ns.pop("", 0)
    stalls = {
        name: stall_ns
        for name, stall_ns in idle_ns.items()
        if stall_ns > min_idle_ns and busy_ns[name] <= max_busy_ns
    }
    if stalls and peers:
        usual_ns = _median_idle_times(peers, stalls, min_idle_ns / 2)
        stalls = {name: stall_ns - usual_ns[name] for name, stall_ns in stalls.items()}
        stalls = {name: stall_ns for name, stall_ns in stalls.items() if stall_ns > min_idle_ns}
    if not stalls:
        return None
    min_ns = _MIN_INNERMOST * max(stalls.values())
    name = max((name for name in stalls if stalls[name] >= min_ns), key=depth.__getitem__)
    return name, stalls[name]


def _median_idle_times(
    traces: Sequence[Trace], names: Collection[str], min_ns: float
) -> dict[str, int]:
    """Return, by event name, the median over ranks of the idle time during such events."""
    times_of_ranks = [_idle_and_busy_times(trace, min_ns, names) for trace in iter_ranks(traces)]
    return {
        name: int(np.median([times.get(name, _NO_TIME).idle_ns for times in times_of_ranks]))
        for name in names
    }


def is_pause(name: str) -> bool:
    """Return whether a name is of a Python function that sleeps or waits for another thread."""
    return _PAUSES.match(name) is not None


class _EventTimes(NamedTuple):
    idle_ns: int
    busy_ns: int
    depth: int


_NO_TIME = _EventTimes(0, 0, 0)


def _idle_and_busy_times(
    trace: Trace, min_ns: float, selected: Container[str] | None = None
) -> dict[str, _EventTimes]:
    """Return the device's idle and busy time during host events, by event name.

    Names that take less than `min_ns` or are not `selected` are omitted; "" is the whole trace.
    """
    table = trace.table
    busy = _thread_times(trace, device_work_rows(trace)).union()
    idle_before = CumulativeCoverage(*rank_part(trace, Selection()).device_gaps())
    busy_before = CumulativeCoverage(*busy)
    rows = rows_of_launching_threads(trace)
    rows = rows[(step_numbers(table.names.values) < 0)[table.name[rows]]]
    codes, code_of_row = distinct_codes(table.name[rows])
    # Python adds the object's address to names of methods.
    texts = [_ADDRESS.sub("", table.names[code]) for code in codes.tolist()]
    name_of_code, names = pd.factorize(np.array(texts, dtype=object))
    name_of_row = name_of_code[code_of_row]
    dur_ns = np.bincount(name_of_row, table.dur_ns[rows], len(names))
    positions_of_names = positions_by_code(name_of_row, len(names))
    times_by_name = {"": _EventTimes(0, total_length(busy), 0)}
    for name, name_ns, positions in zip(names, dur_ns, positions_of_names, strict=True):
        if name_ns < min_ns or (selected is not None and name not in selected):
            continue
        events = rows[positions]
        start, end = _thread_times(trace, events).union()
        idle_ns = int((idle_before(end) - idle_before(start)).sum())
        busy_ns = int((busy_before(end) - busy_before(start)).sum())
        times_by_name[name] = _EventTimes(idle_ns, busy_ns, int(table.depth[events].max()))
    return times_by_name


@memoize
def follows_stream_wait(trace: Trace) -> Bools:
    """Return whether each event launches its thread's first work after a stream wait."""
    table = trace.table
    follows = np.zeros(len(table), dtype=bool)
    waits, launches = stream_wait_calls(trace), launch_calls(trace)
    for thread in np.unique(table.track[waits]).tolist():
        wait_ns = table.start_ns[waits[table.track[waits] == thread]]
        launches_of_thread = launches[table.track[launches] == thread]
        next_launch = np.searchsorted(table.start_ns[launches_of_thread], wait_ns)
        has_next = next_launch < len(launches_of_thread)
        follows[launches_of_thread[next_launch[has_next]]] = True
    return follows


def stream_wait_calls(trace: Trace) -> Rows:
    """Return the calls that make a stream wait for work of another stream, sorted by start."""
    return np.flatnonzero(name_mask(trace, _STREAM_WAITS.fullmatch))


@memoize
def launch_calls(trace: Trace) -> Rows:
    """Return the calls that launched device work, sorted by start."""
    call = trace.launch_of[trace_index(trace).rows_of_kinds(DEVICE_WORK_KINDS)]
    return occurring_codes(call[call >= 0])


def loading_launches(trace: Trace) -> Rows:
    """Return, for each kernel name, its first launch call if it takes more than 1 ms.

    During such a call, the runtime loads or compiles the kernel's code. Calls before any device
    work are excluded, because no device idles at that time.
    """
    table = trace.table
    work = trace_index(trace).rows_of_kinds(DEVICE_WORK_KINDS)
    first = work[np.unique(table.name[work], return_index=True)[1]]
    call = occurring_codes(trace.launch_of[first][trace.launch_of[first] >= 0])
    begins_late = table.start_ns[call] >= table.start_ns[work[:1]]
    return call[begins_late & (table.dur_ns[call] > LONG_WAIT_NS)]


@memoize
def waiting_calls(trace: Trace) -> Bools:
    """Return whether each event is a call in which a host thread waits for its device."""
    return _waiting_mask(trace, np.arange(len(trace)))


def _waiting_mask(trace: Trace, rows: Rows) -> Bools:
    table = trace.table
    is_waiting = category_mask(trace, CALLS, rows)
    calls = rows[is_waiting]
    blocks = names_match(trace, calls, _ASYNC_COPIES.fullmatch)
    blocks &= table.dur_ns[calls] > _BLOCKING_NS
    blocks |= mask_of_rows(_blocked_graph_launches(trace), len(table))[calls]
    is_waiting[is_waiting] = blocks | names_match(trace, calls, _WAITING_CALLS.search)
    return is_waiting


@memoize
def _blocked_graph_launches(trace: Trace) -> Rows:
    """Return graph launches that waited for earlier graphs whose work is not in the file.

    They take longer than launching their recorded nodes requires. The first launch of a graph is
    excluded, because it may also load the graph. Graphs are identified by their number of nodes.
    """
    launches = np.flatnonzero(name_mask(trace, is_graph_launch))
    if not len(launches):
        return launches
    launch_of_work = trace.launch_of[trace_index(trace).rows_of_kinds(DEVICE_WORK_KINDS)]
    calls = launch_of_work[launch_of_work >= 0]
    nodes = np.bincount(calls, minlength=len(trace))[launches]
    is_first = mask_of_rows(np.unique(nodes, return_index=True)[1], len(nodes))
    is_long = trace.table.dur_ns[launches] > _BLOCKING_NS + _NODE_NS * nodes
    # Launches without recorded nodes belong to unknown graphs, so none counts as the first.
    return launches[is_long & ~(is_first & (nodes > 0))]


@memoize
def union_of_waits(trace: Trace) -> Intervals:
    """Return the times during which any host thread waits for its device."""
    return _thread_times(trace, np.flatnonzero(waiting_calls(trace))).union()


@memoize
def memory_calls(trace: Trace) -> Bools:
    """Return whether each event is a call that allocates or frees memory."""
    return category_mask(trace, CALLS) & name_mask(trace, _ALLOCATOR_CALLS.fullmatch)


def free_calls(trace: Trace) -> Rows:
    """Return the calls that free device memory, if too frequent for a caching allocator.

    PyTorch's caching allocator rarely frees device memory. The result is empty if one call takes
    most of the time, because such a call does other work: a program's first call loads libraries.
    """
    rows = np.flatnonzero(memory_calls(trace))
    frees = rows[names_match(trace, rows, _FREES.match)]
    is_frequent = len(frees) >= _MANY_FREES and 3 * len(frees) > len(rows)
    dur_ns = trace.table.dur_ns[frees]
    return frees if is_frequent and 2 * int(dur_ns.max()) <= int(dur_ns.sum()) else frees[:0]


def pinned_memory_calls(trace: Trace) -> Rows:
    """Return the calls for host memory, if they take most of the time of all memory calls."""
    rows = np.flatnonzero(memory_calls(trace))
    pinned = rows[names_match(trace, rows, lambda name: "host" in name.lower())]
    dur_ns = trace.table.dur_ns
    return pinned if 2 * int(dur_ns[pinned].sum()) > int(dur_ns[rows].sum()) else pinned[:0]


def longest_memory_call(trace: Trace) -> int | None:
    """Return the memory call that takes more time than all others combined, or None."""
    rows = np.flatnonzero(memory_calls(trace))
    dur_ns = trace.table.dur_ns[rows]
    dominates = len(rows) > 0 and 2 * int(dur_ns.max()) > int(dur_ns.sum())
    return int(rows[dur_ns.argmax()]) if dominates else None
