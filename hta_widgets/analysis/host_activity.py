"""What the threads of a host do: waits for the device, memory calls, loading, operators, Python.

A device idles because of what the host does before it launches the next work. Threads that launch
work are looked at only, and at each instant one activity of a thread counts, for example a call of
``cudaFree`` within an operator within a Python function as a memory call.
"""

from __future__ import annotations

import re

import numpy as np

from hta_widgets.analysis.cross_rank.lateness import is_data_loading_name
from hta_widgets.analysis.scope import DEVICE_WORK_KINDS, codes_of
from hta_widgets.facts import facts
from hta_widgets.taxonomy import KINDS
from hta_widgets.trace.arrays import Bools, Ints, Rows, distinct_codes
from hta_widgets.trace.host_stack import CALLS, category_mask, name_mask
from hta_widgets.trace.intervals import CumulativeCoverage, Intervals, union
from hta_widgets.trace.memo import memoize
from hta_widgets.trace.trace import Trace

#: Activities of a thread before it launches; of several at the same time, the first listed counts.
ACTIVITIES: tuple[str, ...] = tuple(facts("causes"))[:5]
_ALLOCATION, _PYTHON = 1, 4
#: The order in which activities count: those of the thread itself (False), then those of all
#: threads that launch work (True). Memory calls of any thread hold up the device, so they precede
#: Python.
_LEVELS: tuple[tuple[int, bool], ...] = (
    *((activity, False) for activity in range(_PYTHON)),
    (_ALLOCATION, True),
    (_PYTHON, False),
    *((activity, True) for activity in range(len(ACTIVITIES))),
)
#: Calls in which a host thread waits for its device.
_WAITING_CALLS = re.compile(r"synchroni[sz]e|^(cuda|cu|hip|musa)Memcpy(?!.*Async)", re.IGNORECASE)
#: Calls that make a stream wait for work of another one.
_STREAM_WAITS = re.compile(r"(cuda|hip|cu|mu|aclrt)StreamWaitEvent\w*", re.IGNORECASE)

#: Calls that allocate or free memory of a device, or memory of the host that a device can reach.
_ALLOCATOR_CALLS = re.compile(
    r"(cuda|cu|hip|musa|mu|aclrt)(Host|Ext|Mem|MemHost)?"
    r"(Malloc|Alloc|Free|Register|Unregister|Create|Release|Map|Unmap|Address|SetAccess)\w*",
    re.IGNORECASE,
)
#: Minimum number of calls that free memory for a program without a cache.
_MANY_FREES = 10


def activity_before_calls(trace: Trace, start: Ints, end: Ints, call: Ints) -> list[Ints]:
    """Return the time of each of `ACTIVITIES` on the thread of each call between two instants."""
    spent = [np.zeros(len(start), dtype=np.int64) for _ in ACTIVITIES]
    threads = trace.table.track[call]
    for thread, levels in _activity_by_thread(trace).items():
        of_gap = np.flatnonzero((threads == thread) & (call >= 0))
        if not len(of_gap):
            continue
        below = np.zeros(len(of_gap), dtype=np.int64)
        for activity, pieces in levels:
            covered = CumulativeCoverage(*pieces)
            reached = covered(end[of_gap]) - covered(start[of_gap])
            spent[activity][of_gap] += reached - below
            below = reached
    return spent


@memoize
def _activity_by_thread(trace: Trace) -> dict[int, list[tuple[int, Intervals]]]:
    """Return the times of activities of each thread that launches work, as cumulative levels."""
    # Each level adds one activity to the level before; those that would add nothing are left out.
    table = trace.table
    threads = distinct_codes(table.track[launch_calls(trace)])[0]
    launching = np.isin(table.track, threads)
    rows = [np.flatnonzero(mask & launching) for mask in host_activities(trace)]
    end = table.start_ns + table.dur_ns
    shared = [union(table.start_ns[event_rows], end[event_rows]) for event_rows in rows]
    coverage_by_track = {}
    for thread in threads.tolist():
        rows_of_thread = [event_rows[table.track[event_rows] == thread] for event_rows in rows]
        of_thread = [union(table.start_ns[each], end[each]) for each in rows_of_thread]
        level, levels = Intervals.empty(), []
        for activity, is_shared in _LEVELS:
            pieces = (shared if is_shared else of_thread)[activity]
            if not len(pieces.start) or (is_shared and len(threads) == 1):
                continue
            level = union(*(np.concatenate(sides) for sides in zip(level, pieces, strict=True)))
            levels.append((activity, level))
        coverage_by_track[thread] = levels
    return coverage_by_track


def activities_by_thread(trace: Trace) -> dict[int, tuple[Ints, Ints]]:
    """Return, by track of each thread that launches work, starts of activities and their codes.

    Codes count from 1 in the order of `ACTIVITIES`; 0 stands for none.
    """
    activities = {}
    for thread, levels in _activity_by_thread(trace).items():
        sides = [side for _, level in [(0, Intervals.empty()), *levels] for side in level]
        edges = np.unique(np.concatenate(sides))
        does = np.zeros(len(edges), dtype=np.int64)
        for activity, (start, end) in reversed(levels):
            piece = np.searchsorted(start, edges, "right") - 1
            within = (piece >= 0) & (edges < np.append(end, edges[:1])[piece])
            does[within] = activity + 1
        changes = np.flatnonzero(np.diff(does, prepend=0))
        activities[thread] = edges[changes], does[changes]
    return activities


def host_activities(trace: Trace) -> tuple[Bools, ...]:
    """Return a mask of the host events for each of `ACTIVITIES`."""
    table = trace.table
    called = (table.stream < 0) & (table.kind == KINDS.index("cpu"))
    python = category_mask(trace, "python_function")
    loads = name_mask(trace, is_data_loading_name)
    return waiting_calls(trace), memory_calls(trace), loads, called & ~python, called & python


@memoize
def follows_stream_wait(trace: Trace) -> Bools:
    """Return whether each event launches the first work of its thread after a stream wait."""
    table = trace.table
    behind = np.zeros(len(table), dtype=bool)
    waits = stream_wait_calls(trace)
    calls = launch_calls(trace)
    for thread in np.unique(table.track[waits]).tolist():
        calls_of_thread = calls[table.track[calls] == thread]
        at = np.searchsorted(
            table.start_ns[calls_of_thread], table.start_ns[waits[table.track[waits] == thread]]
        )
        behind[calls_of_thread[at[at < len(calls_of_thread)]]] = True
    return behind


def stream_wait_calls(trace: Trace) -> Rows:
    """Return the calls that make a stream wait for work of another one, by start."""
    return np.flatnonzero(name_mask(trace, lambda name: _STREAM_WAITS.fullmatch(name) is not None))


def launch_calls(trace: Trace) -> Rows:
    """Return the calls that launched device work, by start."""
    call = trace.launch_of[np.isin(trace.table.kind, codes_of(DEVICE_WORK_KINDS))]
    return distinct_codes(call[call >= 0])[0]


@memoize
def waiting_calls(trace: Trace) -> Bools:
    """Return whether each event is a call in which a host thread waits for its device."""
    return category_mask(trace, CALLS) & name_mask(
        trace, lambda name: _WAITING_CALLS.search(name) is not None
    )


@memoize
def memory_calls(trace: Trace) -> Bools:
    """Return whether each event is a call that allocates or frees memory."""
    return category_mask(trace, CALLS) & name_mask(
        trace, lambda name: _ALLOCATOR_CALLS.fullmatch(name) is not None
    )


def free_calls(trace: Trace) -> Rows:
    """Return the calls that free memory, if the host frees as often as a program without a cache.

    PyTorch's caching allocator keeps the memory of a device and hardly ever frees any.
    """
    table = trace.table
    rows = np.flatnonzero(memory_calls(trace))
    frees = np.array(["free" in name.lower() for name in table.names.values], dtype=bool)
    freed: Rows = rows[frees[table.name[rows]]]
    return freed if len(freed) >= _MANY_FREES and 3 * len(freed) > len(rows) else freed[:0]
