"""Who waited for the device: host calls and kernels, and for which work."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from hta_widgets.trace.table import KINDS
from hta_widgets.trace.trace import Trace
from hta_widgets.trace.event_args import event_args
from hta_widgets.trace.event_args import numbers_of

from hta_widgets.analysis.critical.ends import Ends
from hta_widgets.analysis.critical.kernel_waits import inferred_kernel_waits
from hta_widgets.analysis.critical.nodes import Nodes
from hta_widgets.analysis.critical.rules import Rules
from hta_widgets.analysis.critical.rules import copies
from hta_widgets.analysis.critical.rules import named
from hta_widgets.analysis.critical.rules import synchronizes

__all__ = ["Waits", "find_waits"]

Ints = npt.NDArray[np.int64]
Rows = npt.NDArray[np.intp]

_SYNC = KINDS.index("sync")
_ARGS = ("wait_on_stream", "wait_on_cuda_event_record_corr_id")


@dataclass(frozen=True, eq=False)
class Waits:
    """Pairs of what was awaited (device events) and who waited.

    Attributes
    ----------
    work, call : arrays of int
        Calls that returned only after the work had ended.
    awaited, waiting : arrays of int
        Device events that could start only after others had ended.
    recorded, inferred : int
        How many pairs with calls the file records, and how many follow from calls that block.
    """

    work: Ints
    call: Ints
    awaited: Ints
    waiting: Ints
    recorded: int
    inferred: int


def find_waits(nodes: Nodes, rules: Rules) -> Waits:
    """Return the waits that the file records, and, unless as HTA, those that calls imply."""
    trace = nodes.trace
    rows = _sync_rows(trace)
    call = trace.launch_of[rows]
    rows, call = rows[call >= 0], call[call >= 0]
    kernel_to_kernel = named(trace, rows, "Stream Wait Event".__eq__)
    event = named(trace, rows, "Event Sync".__eq__)
    stream = named(trace, rows, "Stream Sync".__eq__)
    context = named(trace, rows, {"Context Sync", "Device Sync"}.__contains__)
    recorded = _recorded_work(trace, rows[kernel_to_kernel | event])
    work_of = np.full(len(trace) + 1, -1, dtype=np.int64)
    work_of[rows[kernel_to_kernel | event]] = recorded

    pairs = [
        (work_of[rows[event]], call[event]),
        _on_own_stream(trace, rows[stream], call[stream]),
        _on_all_streams(trace, rows[context], call[context]),
    ]
    known = len(pairs)
    if not rules.as_hta:
        recorded_calls = np.concatenate([calls for _, calls in pairs])
        pairs.append(_last_before_return(nodes, recorded_calls))
        pairs.append(_own_copies(nodes, recorded_calls))
    pairs = [(work[work >= 0], calls[work >= 0]) for work, calls in pairs]
    waiting = _next_work(trace, rows[kernel_to_kernel], call[kernel_to_kernel])
    awaited = work_of[rows[kernel_to_kernel]]
    if not rules.as_hta and not kernel_to_kernel.any():
        awaited, waiting = inferred_kernel_waits(nodes)
    both = (awaited >= 0) & (waiting >= 0) & (awaited != waiting)
    return Waits(
        np.concatenate([work for work, _ in pairs]),
        np.concatenate([calls for _, calls in pairs]),
        awaited[both],
        waiting[both],
        sum(len(work) for work, _ in pairs[:known]),
        sum(len(work) for work, _ in pairs[known:]),
    )


def _sync_rows(trace: Trace) -> Rows:
    table = trace.table
    categories = np.array([name.lower().endswith("_sync") for name in table.categories.values])
    if not categories.any():
        return np.empty(0, dtype=np.intp)
    return np.flatnonzero((table.kind == _SYNC) & categories[table.category])


def _on_own_stream(trace: Trace, rows: Rows, call: Ints) -> tuple[Ints, Ints]:
    """What a stream had last done when the call that waits for the stream returned."""
    table = trace.table
    ends = Ends.of_work(trace)
    return ends.before(table.track[rows], table.end_ns[call]), call


def _on_all_streams(trace: Trace, rows: Rows, call: Ints) -> tuple[Ints, Ints]:
    """What each stream of the device had last done when the call returned."""
    table, tracks = trace.table, trace.tracks
    ends = Ends.of_work(trace)
    work, calls = [np.empty(0, dtype=np.int64)], [np.empty(0, dtype=np.int64)]
    for number, track in enumerate(tracks):
        if track.role != "stream":
            continue
        same = np.array([tracks[k].pid == track.pid for k in table.track[rows].tolist()], bool)
        asked = call[same]
        work.append(ends.before(np.full(len(asked), number, np.int32), table.end_ns[asked]))
        calls.append(asked)
    return np.concatenate(work), np.concatenate(calls)


def _recorded_work(trace: Trace, rows: Rows) -> Ints:
    """Return what was launched last into the stream of an event before the event was recorded."""
    table, tracks = trace.table, trace.tracks
    if not len(rows):
        return np.empty(0, dtype=np.int64)
    args = event_args(trace, rows, _ARGS)
    stream, recorded_by = (numbers_of(args[key]) for key in _ARGS)
    host = np.flatnonzero((table.stream < 0) & (table.correlation >= 0))
    records = host[named(trace, host, lambda name: "EventRecord" in name)]
    # Ids may be used again: the last record before the wait is meant, and rows are in time order.
    record_of = dict(zip(table.correlation[records].tolist(), records.tolist(), strict=True))
    number = {
        (track.pid, track.stream): k
        for k, track in reversed(list(enumerate(tracks)))
        if track.role == "stream"
    }
    track = np.array(
        [
            number.get((tracks[own].pid, value), -1)
            for own, value in zip(table.track[rows].tolist(), stream.tolist(), strict=True)
        ],
        dtype=np.int64,
    )
    record = np.array([record_of.get(key, -1) for key in recorded_by.tolist()], dtype=np.int64)
    found = np.full(len(rows), -1, dtype=np.int64)
    known = (track >= 0) & (record >= 0)
    launches = _Launches(trace)
    found[known] = launches.last_before(track[known], table.start_ns[record[known]])
    return found


def _next_work(trace: Trace, rows: Rows, call: Ints) -> Ints:
    """Return what is launched next into the stream of a wait."""
    table = trace.table
    return _Launches(trace).next_after(table.track[rows].astype(np.int64), table.start_ns[call])


class _Launches:
    """Device work in the order in which it was put into its stream."""

    def __init__(self, trace: Trace) -> None:
        table = trace.table
        rows = np.flatnonzero((table.stream >= 0) & (trace.launch_of >= 0) & (table.kind != _SYNC))
        called = table.start_ns[trace.launch_of[rows]]
        self._width = int(called.max(initial=0)) + 2
        key = table.track[rows].astype(np.int64) * self._width + called
        order = np.argsort(key, kind="stable")
        self._key, self._row = key[order], rows[order]
        self._track = table.track[self._row]

    def last_before(self, track: Ints, time: Ints) -> Ints:
        return self._at(np.searchsorted(self._key, self._asked(track, time)) - 1, track)

    def next_after(self, track: Ints, time: Ints) -> Ints:
        return self._at(np.searchsorted(self._key, self._asked(track, time)), track)

    def _asked(self, track: Ints, time: Ints) -> Ints:
        return track * self._width + np.clip(time, -1, self._width - 1)

    def _at(self, place: Ints, track: Ints) -> Ints:
        if not len(self._row):
            return np.full(len(place), -1, dtype=np.int64)
        inside = (place >= 0) & (place < len(self._row))
        place = np.where(inside, place, 0)
        return np.where(inside & (self._track[place] == track), self._row[place], -1)


def _last_before_return(nodes: Nodes, recorded: Ints) -> tuple[Ints, Ints]:
    """Return what calls that synchronise must have waited for, where no sync row says it.

    Such a call returns after work has ended. The last work of any stream that was called for
    before and ended while the call ran is what kept it.
    """
    trace = nodes.trace
    table = trace.table
    calls = nodes.host[named(trace, nodes.host, synchronizes)]
    calls = np.setdiff1d(calls, recorded).astype(np.int64)
    work = np.flatnonzero((table.stream >= 0) & (trace.launch_of >= 0) & (table.kind != _SYNC))
    if not len(calls) or not len(work):
        return np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64)
    end = table.start_ns[work] + table.dur_ns[work]
    order = np.argsort(end, kind="stable")
    work, end = work[order], end[order]
    start_of_call, end_of_call = table.start_ns[calls], table.end_ns[calls]
    place = np.searchsorted(end, end_of_call, side="right") - 1
    last = work[np.maximum(place, 0)]
    launched = table.start_ns[trace.launch_of[last]] <= start_of_call
    found = (place >= 0) & (end[np.maximum(place, 0)] > start_of_call) & launched
    return np.where(found, last, -1), calls


def _own_copies(nodes: Nodes, recorded: Ints) -> tuple[Ints, Ints]:
    """Return copies that had ended when the call that launched them returned: it waited."""
    trace = nodes.trace
    table = trace.table
    work = np.flatnonzero((table.stream >= 0) & (trace.launch_of >= 0) & (table.kind != _SYNC))
    call = trace.launch_of[work]
    kept = (nodes.of_end[call] >= 0) & (table.end_ns[work] <= table.end_ns[call])
    work, call = work[kept], call[kept]
    kept = named(trace, call, copies) & ~np.isin(call, recorded)
    return work[kept].astype(np.int64), call[kept]
