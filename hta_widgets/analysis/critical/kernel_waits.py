"""Which kernels waited for another stream, where the file records the calls but not the waits."""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from hta_widgets.analysis.device_idle import STREAM_WAITS

from hta_widgets.analysis.critical.ends import Ends
from hta_widgets.analysis.critical.nodes import Nodes
from hta_widgets.analysis.critical.nodes import busy_rows
from hta_widgets.analysis.critical.rules import named

__all__ = ["inferred_kernel_waits"]

Ints = npt.NDArray[np.int64]
Rows = npt.NDArray[np.intp]

#: A kernel that was held back starts within this time after what held it has ended.
_LATENCY_NS: Final = 10_000
#: How many pieces of work that ended within it are looked at.
_MOST: Final = 16


def inferred_kernel_waits(nodes: Nodes) -> tuple[Ints, Ints]:
    """Return pairs of work that was awaited and of the kernel that waited.

    A kernel is taken to have waited where all of this holds: its stream was idle although it had
    been launched; since the launch before it into its stream, the host had called for a stream to
    wait for an event; and work of another stream of the device, launched before that call, had
    ended just before it started.
    """
    trace, rows = nodes.trace, nodes.device
    table = trace.table
    rows = rows[trace.launch_of[rows] >= 0].astype(np.int64)
    none = np.empty(0, dtype=np.int64)
    if not len(rows):
        return none, none
    call = trace.launch_of[rows]
    asked_ns = _asked_to_wait(nodes, rows, call)
    start = table.start_ns[rows]
    previous = Ends.of_work(trace).before(table.track[rows], start, rows)
    idle_from = np.where(previous >= 0, table.end_ns[previous], -1)
    ready = np.maximum(idle_from, table.start_ns[call])
    candidate = np.flatnonzero((asked_ns >= 0) & (start > ready))
    if not len(candidate):
        return none, none
    rows, start, ready = rows[candidate], start[candidate], ready[candidate]
    return _awaited(nodes, rows, np.maximum(ready, start - _LATENCY_NS), asked_ns[candidate]), rows


def _asked_to_wait(nodes: Nodes, rows: Ints, call: Ints) -> Ints:
    """Return when the host last asked for a wait before each launch, -1: not since the one before.

    Whichever thread asked: a backward pass leaves the wait to what comes after it.
    """
    trace = nodes.trace
    table = trace.table
    called = table.start_ns[call]
    order = np.lexsort((rows, called, table.track[rows]))
    before = np.full(len(rows), -1, dtype=np.int64)
    same = table.track[rows[order[1:]]] == table.track[rows[order[:-1]]]
    before[order[1:]] = np.where(same, called[order[:-1]], -1)
    waits = nodes.host[named(trace, nodes.host, STREAM_WAITS.fullmatch)]
    if not len(waits):
        return np.full(len(rows), -1, dtype=np.int64)
    asked_ns = table.start_ns[waits]
    place = np.searchsorted(asked_ns, called, side="right") - 1
    asked = np.where(place >= 0, asked_ns[np.maximum(place, 0)], -1)
    return np.where(asked > before, asked, -1)


def _awaited(nodes: Nodes, rows: Ints, after: Ints, asked_ns: Ints) -> Ints:
    """Return the last work of other streams to end in ``(after, start]``, -1 for none."""
    trace = nodes.trace
    table, tracks = trace.table, trace.tracks
    processes = {track.pid: k for k, track in enumerate(tracks)}
    device_of = np.array([processes[track.pid] for track in tracks], dtype=np.int64)
    work = busy_rows(trace)
    work = work[trace.launch_of[work] >= 0]
    end = table.start_ns[work] + table.dur_ns[work]
    order = np.argsort(end, kind="stable")
    work, end = work[order].astype(np.int64), end[order]
    called = table.start_ns[trace.launch_of[work]]

    found = np.full(len(rows), -1, dtype=np.int64)
    place = np.searchsorted(end, table.start_ns[rows], side="right") - 1
    for _ in range(_MOST):
        open_ = np.flatnonzero((found < 0) & (place >= 0))
        open_ = open_[end[place[open_]] > after[open_]]
        if not len(open_):
            break
        other, own = place[open_], rows[open_]
        fits = table.track[work[other]] != table.track[own]
        fits &= device_of[table.track[work[other]]] == device_of[table.track[own]]
        fits &= called[other] < asked_ns[open_]
        found[open_[fits]] = work[other[fits]]
        place[open_] -= 1
    return found
