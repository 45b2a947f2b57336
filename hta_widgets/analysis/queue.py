"""How much launched work waits on each device stream."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from hta_widgets.model import Selection, TraceSet

from .launches import launched_rows
from .results import joined, result
from .scope import BUSY, Part, Window, count_kinds, narrowed, parts
from .step_series import STATISTICS, describe, held_ns, in_order, running_total, settled, weighted

__all__ = [
    "MAX_QUEUE_LENGTH",
    "QueueSteps",
    "queue_length",
    "queue_length_summary",
    "queue_steps",
    "time_blocked_on_full_queue",
]

Ints = npt.NDArray[np.int64]

#: How many launches a CUDA stream takes before the next one blocks the host.
MAX_QUEUE_LENGTH = 1024

#: Queues that stay this close to the limit, for this share of the trace, are full in all but name.
_NEARLY = 0.98
_LONG = 0.01

_NOTHING = "no device work is selected whose launch the files hold"
_STILL = "the window holds nothing: no queue changes or lasts in it"


@dataclass(frozen=True, slots=True)
class QueueSteps:
    """All changes of a rank's queues, by stream and time; launches before starts at an instant.

    Attributes
    ----------
    streams : array of int64
        The streams that work was launched on, ascending.
    code : array of int
        Position in `streams` of each change.
    time_ns : array of int64
        Since the rank's zero, as in `Trace.table`.
    queue_length : array of int64
        After this change.
    row : array of int
        The event behind the change: the call that launches, or the device event that starts.
    device_row : array of int
        The device event that is launched or starts.
    early : int
        How many device events start before their call does, by the clocks of the file. They
        never wait: both changes are at the call's start.
    unlaunched : int
        How many have no call in the file, and are left out.
    kinds : dict
        How many device events there are of each kind of work.
    """

    streams: Ints
    code: npt.NDArray[np.intp]
    time_ns: Ints
    queue_length: Ints
    row: Ints
    device_row: Ints
    early: int
    unlaunched: int
    kinds: dict[str, int]


def queue_steps(part: Part, *, launches: bool = False) -> QueueSteps:
    """Return all changes of the queues of one rank's selected device work.

    Parameters
    ----------
    part : Part
    launches : bool, default False
        Count a call once a stream, until the first that it launched there starts, instead of
        each event. That differs for graphs only.
    """
    table = part.table
    call, work, unlaunched = launched_rows(part, part.busy_rows())
    if launches:
        # Work is sorted by start, so the first of a call and stream is the first to start.
        entry = call * (int(table.stream.max(initial=0)) + 1) + table.stream[work]
        first = np.sort(np.unique(entry, return_index=True)[1])
        call, work = call[first], work[first]
    enters, leaves = table.start_ns[call], table.start_ns[work]
    early = leaves < enters
    streams, code = np.unique(table.stream[work].astype(np.int64), return_inverse=True)
    code = np.concatenate((code, code))
    time_ns = np.concatenate((enters, np.maximum(enters, leaves)))
    order = in_order(code, len(streams), time_ns)
    change = np.repeat(np.array([1, -1]), len(work))
    return QueueSteps(
        streams,
        code[order],
        time_ns[order],
        running_total(code[order], change[order]),
        np.concatenate((call, work))[order],
        np.concatenate((work, work))[order],
        int(early.sum()),
        unlaunched,
        count_kinds([part], BUSY),
    )


def queue_length(
    traces: TraceSet,
    *,
    selection: Selection | None = None,
    window: Window | None = None,
    ranks: Iterable[int] | None = None,
) -> pd.DataFrame:
    """Return how many launched events wait on each stream, at every instant at which that changes.

    Device work (kernels, copies, fills) waits from the start of the call that launches it to its
    own start. A graph launch puts in as many as it launches.

    Parameters
    ----------
    traces : TraceSet
    selection : Selection, optional
        The device work whose queues are looked at; all by default.
    window : (start_ns, end_ns), optional
        Cuts the series: each stream's first row is then at the window's start, with what waits
        there already.
    ranks : iterable of int, optional

    Returns
    -------
    DataFrame
        One row per rank, stream and instant of change, in that order: ``rank, stream, time_ns,
        queue_length`` (int64), the length after all changes at that instant; it holds until the
        stream's next row. ``.attrs["unlaunched"]`` counts device work without a launch in the
        files, ``.attrs["early"]`` what starts before its call by the files' clocks and so never
        waits.

    Notes
    -----
    The definition is that of HTA's queue length time series, which knows a dozen calls by name
    and has one row per event, in no particular order at an instant.

    Examples
    --------
    >>> traces = hw.load("runs/job")  # doctest: +SKIP
    >>> queue_length(traces, ranks=[0]).groupby("stream")["queue_length"].max()  # doctest: +SKIP
    """
    found = _found(traces, selection, window, ranks)
    columns: dict[str, list[Ints]] = {
        name: [] for name in ("rank", "stream", "time_ns", "queue_length")
    }
    for part, steps in found:
        time_ns = steps.time_ns
        if part.low is not None:
            time_ns = np.maximum(time_ns, part.low)
        kept = settled(steps.code, time_ns)
        if part.high is not None:
            kept &= time_ns < part.high
        columns["rank"].append(np.full(int(kept.sum()), part.rank))
        columns["stream"].append(steps.streams[steps.code[kept]])
        columns["time_ns"].append(time_ns[kept] + part.trace.shift_ns)
        columns["queue_length"].append(steps.queue_length[kept])
    return result(
        {name: joined(values) for name, values in columns.items()},
        **_about(found),
        note="" if any(map(len, columns["rank"])) else _NOTHING,
    )


def queue_length_summary(
    traces: TraceSet,
    *,
    selection: Selection | None = None,
    window: Window | None = None,
    ranks: Iterable[int] | None = None,
) -> pd.DataFrame:
    """Return statistics of each stream's queue.

    Parameters
    ----------
    traces, selection, window, ranks
        As in `queue_length`.

    Returns
    -------
    DataFrame
        One row per rank and stream: ``rank, stream``; ``count, mean, std, min, 25%, 50%, 75%,
        max`` of the length after each change in the window (two per launched event), however
        long it holds; ``time_weighted_mean``: the mean over time, from the stream's first to its
        last change in the trace, cut at the window's edges, so that what waits there already
        counts; ``span_ns`` (int64): that time.

    Notes
    -----
    The statistics are those of HTA's queue length summary. Changes are frequent where the queue
    is short-lived, so they say little of how long it usually is; the mean over time does.

    Examples
    --------
    >>> traces = hw.load("runs/job")  # doctest: +SKIP
    >>> queue_length_summary(traces)  # doctest: +SKIP
    """
    found = _found(traces, selection, window, ranks)
    names = ("rank", "stream", *STATISTICS, "time_weighted_mean", "span_ns")
    columns: dict[str, list[npt.NDArray[np.generic]]] = {name: [] for name in names}
    for part, steps in found:
        groups = len(steps.streams)
        there = _within(part, steps)
        code, time_ns, length = (
            values[there] for values in (steps.code, steps.time_ns, steps.queue_length)
        )
        inside = _inside(part, time_ns)
        columns["rank"].append(np.full(groups, part.rank))
        columns["stream"].append(steps.streams)
        figures = describe(code[inside], groups, length[inside])
        for name in STATISTICS:
            columns[name].append(figures[name])
        held = held_ns(code, time_ns, part.low, part.high)
        area, span = weighted(code, groups, length, held)
        columns["time_weighted_mean"].append(area / np.where(span > 0, span, np.nan))
        columns["span_ns"].append(span.astype(np.int64))
    note = "" if any(map(len, columns["rank"])) else _NOTHING
    if not note and not any(one.any() for one in (*columns["count"], *columns["span_ns"])):
        note = _STILL
    whole = {"rank", "stream", "count", "span_ns"}
    return result(
        {
            name: joined(values, np.int64 if name in whole else np.float64)
            for name, values in columns.items()
        },
        **_about(found),
        note=note,
    )


def time_blocked_on_full_queue(
    traces: TraceSet,
    *,
    max_queue_length: int = MAX_QUEUE_LENGTH,
    selection: Selection | None = None,
    window: Window | None = None,
    ranks: Iterable[int] | None = None,
) -> pd.DataFrame:
    """Return how long each stream's queue was full, so that launching on it blocks the host.

    What fills a queue are launches: unlike in `queue_length`, a graph counts once, until its
    first kernel starts.

    A duration of 0 does not say that the host never was blocked. Files may show a queue that is
    full as a few launches shorter than the limit: look at ``peak`` and ``at_peak_ns``, and lower
    `max_queue_length` where a queue stays at its peak while launch calls last long.

    Parameters
    ----------
    traces : TraceSet
    max_queue_length : int, default 1024
        From how many waiting launches on a queue is full; CUDA's limit by default.
    selection, window, ranks
        As in `queue_length`.

    Returns
    -------
    DataFrame
        One row per rank and stream that work was launched on: ``rank, stream``; ``duration_ns``
        (int64) at `max_queue_length` or more; ``share``: of the trace's duration, 0..1;
        ``trace_ns`` (int64): that duration, from the first to the last start of an event of the
        rank, or the window's part of it; ``peak`` (int64): the largest length that lasts any
        time; ``at_peak_ns`` (int64): how long it does.

        ``.attrs["note"]`` names queues that never get to `max_queue_length`, but spend 1 % of the
        trace or more within 2 % below it.

    Notes
    -----
    The definition is that of HTA's time blocked on a full queue, which keeps one stream a rank.

    Examples
    --------
    >>> traces = hw.load("runs/job")  # doctest: +SKIP
    >>> time_blocked_on_full_queue(traces, max_queue_length=1000)  # doctest: +SKIP
    """
    found = _found(traces, selection, window, ranks, launches=True)
    columns: dict[str, list[Ints]] = {
        name: [] for name in ("rank", "stream", "duration_ns", "trace_ns", "peak", "at_peak_ns")
    }
    near = []
    for part, steps in found:
        groups = len(steps.streams)
        held = held_ns(steps.code, steps.time_ns, part.low, part.high)
        length = steps.queue_length
        peak = np.zeros(groups, dtype=np.int64)
        np.maximum.at(peak, steps.code, np.where(held > 0, length, 0))
        duration, at_peak, nearly = (
            _time_in(steps.code, groups, held, those)
            for those in (
                length >= max_queue_length,
                length == peak[steps.code],
                (length >= _NEARLY * max_queue_length) & (length < max_queue_length),
            )
        )
        trace_ns = _trace_ns(part)
        almost = (duration == 0) & (nearly > 0) & (nearly >= _LONG * trace_ns)
        near += [
            _nearly_full(part.rank, int(steps.streams[at]), int(peak[at]), int(nearly[at]))
            for at in np.flatnonzero(almost).tolist()
        ]
        columns["rank"].append(np.full(groups, part.rank))
        columns["stream"].append(steps.streams)
        columns["duration_ns"].append(duration)
        columns["trace_ns"].append(np.full(groups, trace_ns))
        columns["peak"].append(peak)
        columns["at_peak_ns"].append(at_peak)
    column = {name: joined(values) for name, values in columns.items()}
    whole = column["trace_ns"]
    return result(
        {
            "rank": column["rank"],
            "stream": column["stream"],
            "duration_ns": column["duration_ns"],
            "share": column["duration_ns"] / np.where(whole > 0, whole, np.nan),
            "trace_ns": whole,
            "peak": column["peak"],
            "at_peak_ns": column["at_peak_ns"],
        },
        **_about(found),
        note=_note(near, max_queue_length) if len(whole) else _NOTHING,
    )


def _time_in(
    code: npt.NDArray[np.intp], groups: int, held: Ints, those: npt.NDArray[np.bool_]
) -> Ints:
    found = np.zeros(groups, dtype=np.int64)
    np.add.at(found, code[those], held[those])
    return found


def _nearly_full(rank: int, stream: int, peak: int, nearly_ns: int) -> str:
    return f"of rank {rank} stream {stream} for {nearly_ns / 1e6:,.1f} ms, at up to {peak:,}"


def _note(near: list[str], limit: int) -> str:
    if not near:
        return ""
    listed = "; ".join(near[:4]) + (f"; and {len(near) - 4} more" if len(near) > 4 else "")
    return (
        f"queues stay just below the limit of {limit:,}: {listed}. Where launch calls last long"
        " meanwhile, the host was blocked; see max_queue_length"
    )


def _found(
    traces: TraceSet,
    selection: Selection | None,
    window: Window | None,
    ranks: Iterable[int] | None,
    *,
    launches: bool = False,
) -> list[tuple[Part, QueueSteps]]:
    """Return the selected events of all times, with the window's edges, and their queues.

    What waits through the whole window is in none of the events that overlap it.
    """
    chosen = narrowed(traces, selection, window, ranks)
    found = []
    for part in parts(traces, replace(chosen, start_ns=None, end_ns=None)):
        steps = part.once(("queue_steps", launches), partial(queue_steps, part, launches=launches))
        shift = part.trace.shift_ns
        low = None if chosen.start_ns is None else chosen.start_ns - shift
        high = None if chosen.end_ns is None else chosen.end_ns - shift
        found.append((replace(part, low=low, high=high, plain=False), steps))
    return found


def _within(part: Part, steps: QueueSteps) -> slice | npt.NDArray[np.intp]:
    """Return the changes in the window, of each stream with those right before and after it.

    What waits as the window begins was said by the change before, until the one after.
    """
    if part.low is None and part.high is None:
        return slice(None)
    bounds = np.searchsorted(steps.code, np.arange(len(steps.streams) + 1)).tolist()
    found = [np.empty(0, dtype=np.intp)]
    for first, last in pairwise(bounds):
        time_ns = steps.time_ns[first:last]
        low = 0 if part.low is None else int(np.searchsorted(time_ns, part.low, "left")) - 1
        high = len(time_ns)
        if part.high is not None:
            high = int(np.searchsorted(time_ns, part.high, "left")) + 1
        found.append(np.arange(first + max(low, 0), min(first + high, last)))
    return np.concatenate(found)


def _inside(part: Part, time_ns: Ints) -> npt.NDArray[np.bool_]:
    inside = np.ones(len(time_ns), dtype=bool)
    if part.low is not None:
        inside &= time_ns >= part.low
    if part.high is not None:
        inside &= time_ns < part.high
    return inside


def _trace_ns(part: Part) -> int:
    """Return the time from the rank's first to its last start; the profiler's own span is none."""
    table = part.table
    span = [code for code, name in enumerate(table.categories.values) if name == "Trace"]
    start = table.start_ns[~np.isin(table.category, span)] if span else table.start_ns
    if not len(start):
        return 0
    low, high = int(start[0]), int(start[-1])
    low = low if part.low is None else max(low, part.low)
    high = high if part.high is None else min(high, part.high)
    return max(high - low, 0)


def _about(found: list[tuple[Part, QueueSteps]]) -> dict[str, Any]:
    return {
        "matched": {
            **{kind: sum(steps.kinds.get(kind, 0) for _, steps in found) for kind in BUSY},
            "launched": sum(len(steps.row) // 2 for _, steps in found),
        },
        "unlaunched": sum(steps.unlaunched for _, steps in found),
        "early": sum(steps.early for _, steps in found),
    }
