"""Launch delays, and how many launches wait on each stream."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from typing import Any, Generic, TypeVar, Unpack

import numpy as np
import numpy.typing as npt
import pandas as pd

from hta_widgets.analysis.scope import (
    BUSY,
    Part,
    Scope,
    categorical,
    count_kinds,
    joined,
    narrowed,
    over_ranks,
    parts,
    prelaunched_note,
    result,
    scoped,
    stacked,
    used_texts,
)
from hta_widgets.analysis.steps import (
    STATISTICS,
    describe,
    held_ns,
    in_order,
    running_total,
    settled,
    weighted,
)
from hta_widgets.taxonomy import KINDS
from hta_widgets.trace.grouping import stable_order
from hta_widgets.trace.trace import dtype_of
from hta_widgets.trace.traceset import TraceSet

Ints = npt.NDArray[np.int64]
Rows = npt.NDArray[np.intp]

_OUTLIERS = ("short kernel", "long call", "late start")
NOTHING = "no device work is selected whose launch the files hold"

#: Columns of `launch_stats`, and their dtypes.
_LAUNCHES = {
    "rank": np.int64,
    "correlation": np.int64,
    "kernel": str,
    "kind": np.uint8,
    "launch": str,
    **dict.fromkeys(("stream", "cpu_dur_ns", "gpu_dur_ns", "launch_delay_ns"), np.int64),
    **dict.fromkeys(("launch_id", "kernel_id"), np.int64),
}
T = TypeVar("T")
_STILL = "the window holds nothing: no queue changes or lasts in it"

#: How many launches a CUDA stream takes before the next one blocks the host.
MAX_QUEUE_LENGTH = 1024

#: Queues that stay this close to the limit, for this share of the trace, are full in all but name.
_NEARLY = 0.98
_LONG = 0.01


@scoped
def launch_stats(
    traces: TraceSet, *, include_memory: bool = True, **scope: Unpack[Scope]
) -> pd.DataFrame:
    """Return every launch with the device work that it launched, and how long each took.

    All calls that launch count, of every vendor: runtime and driver, kernels, copies and fills,
    cooperative launches, graphs. A graph launch has as many rows as it launched events. Of calls
    that share an id, the innermost that launches is taken, so no kernel counts twice. Rows are of
    the selected device work; durations are whole, also where a window cuts the event.

    Parameters
    ----------
    include_memory : bool, default True
        Whether launches of copies and fills count.
    selection : Selection, optional
        The device events to work on; all by default.

    Returns
    -------
    DataFrame
        One row per launch and device event, by rank and the call's start:

        - ``rank, correlation`` (int64, -1 where the file links by other means)
        - ``kernel`` (the full name), ``kind``, ``launch`` (name of the call): categorical
        - ``stream`` (int64)
        - ``cpu_dur_ns, gpu_dur_ns`` (int64): the call's duration and the device event's
        - ``launch_delay_ns`` (int64): from the call's end to the device event's start, 0 where
          it starts earlier
        - ``launch_id, kernel_id`` (int64): the two events

        ``.attrs["unlaunched"]`` counts selected device work whose launch the files do not hold.

    Notes
    -----
    Durations and delay are those of HTA's CUDA kernel launch statistics, which knows three of the
    calls, and does not tell which kernel it was.
    """
    chosen = parts(traces, **scope)
    kinds = BUSY if include_memory else BUSY[:2]
    found = list(over_ranks(chosen, _launches_of, kinds))
    column = stacked([columns for columns, _ in found], _LAUNCHES)
    column["kind"] = pd.Categorical.from_codes(column["kind"], dtype=dtype_of(KINDS))
    return result(
        column,
        matched={**count_kinds(chosen, kinds), "launched": len(column["rank"])},
        note=prelaunched_note(chosen) if len(column["rank"]) else NOTHING,
        unlaunched=sum(lost for _, lost in found),
    )


def launched_rows(part: Part, work: Rows) -> tuple[Ints, Rows, int]:
    """Return the calls that launched device events, these events, and how many have no call."""
    call = part.trace.launch_of[work]
    known = call >= 0
    if known.all():
        return call, work, 0
    return call[known], work[known], int(len(work) - known.sum())


def _launches_of(part: Part, kinds: Sequence[str]) -> tuple[dict[str, Any], int]:
    """Return a rank's columns, and how many of its events have no call."""
    table = part.table
    call, work, lost = launched_rows(part, part.of_kinds(*kinds))
    order = stable_order(call)
    call, work = call[order], work[order]
    call_end = table.start_ns[call] + table.dur_ns[call]
    columns = {
        "rank": np.full(len(work), part.rank),
        "correlation": table.correlation[work],
        "kernel": used_texts(table.name[work], table.names),
        "kind": table.kind[work],
        "launch": used_texts(table.name[call], table.names),
        "stream": table.stream[work],
        "cpu_dur_ns": table.dur_ns[call],
        "gpu_dur_ns": table.dur_ns[work],
        "launch_delay_ns": np.maximum(table.start_ns[work] - call_end, 0),
        "launch_id": call,
        "kernel_id": work,
    }
    return columns, lost


@scoped
def launch_outliers(
    traces: TraceSet,
    *,
    runtime_cutoff_ns: int = 50_000,
    launch_delay_cutoff_ns: int = 100_000,
    include_memory: bool = True,
    **scope: Unpack[Scope],
) -> pd.DataFrame:
    """Return which kernels are launched at a bad price, and how often.

    Three things stand out, and a launch may be several of them:

    - ``short kernel``: the call takes at most `runtime_cutoff_ns`, and the kernel less than it
    - ``long call``: the call takes more than `runtime_cutoff_ns`
    - ``late start``: the kernel starts more than `launch_delay_cutoff_ns` after the call's end

    Parameters
    ----------
    runtime_cutoff_ns : int, default 50 000
    launch_delay_cutoff_ns : int, default 100 000
    include_memory
        As in `launch_stats`.

    Returns
    -------
    DataFrame
        One row per rank, outlier and kernel, most frequent first within the first two: ``rank,
        outlier, kernel`` (the latter two categorical), ``count`` and ``launches`` (int64: outliers,
        and all launches of the kernel), ``share`` (count of launches), ``cpu_sum_ns, gpu_sum_ns,
        launch_delay_sum_ns`` (int64, of the outliers).

    Notes
    -----
    The cutoffs and the three views are those of HTA's CUDA kernel launch statistics, which draws
    them as histograms. `launch_stats` has the single launches.
    """
    stats = launch_stats(traces, include_memory=include_memory, **scope)
    call, kernel, delay = (
        stats[name].to_numpy() for name in ("cpu_dur_ns", "gpu_dur_ns", "launch_delay_ns")
    )
    masks = (
        (call <= runtime_cutoff_ns) & (kernel < call),
        call > runtime_cutoff_ns,
        delay > launch_delay_cutoff_ns,
    )
    names = list(stats["kernel"].cat.categories)
    at, group = np.unique(
        stats["rank"].to_numpy() * max(len(names), 1) + stats["kernel"].cat.codes.to_numpy(),
        return_inverse=True,
    )
    launches = np.bincount(group, minlength=len(at))
    rows = [
        (code, place, int(count))
        for code, mask in enumerate(masks)
        for place, count in enumerate(np.bincount(group[mask], minlength=len(at)).tolist())
        if count
    ]
    outlier, place, count = np.array(rows, dtype=np.int64).reshape(-1, 3).T
    sums = {
        f"{name}_sum_ns": _sums(values, masks, group, len(at))[outlier, place]
        for name, values in (("cpu", call), ("gpu", kernel), ("launch_delay", delay))
    }
    rank, name = at[place] // max(len(names), 1), at[place] % max(len(names), 1)
    order = np.lexsort((name, -count, outlier, rank))
    frame = result(
        {
            "rank": rank[order],
            "outlier": categorical(outlier[order], _OUTLIERS),
            "kernel": categorical(name[order], names),
            "count": count[order],
            "launches": launches[place][order],
            "share": (count / launches[place])[order],
            **{key: values[order] for key, values in sums.items()},
        },
        matched={
            **stats.attrs["matched"],
            **{name: int(mask.sum()) for name, mask in zip(_OUTLIERS, masks, strict=True)},
        },
        note=stats.attrs.get("note", ""),
        unlaunched=stats.attrs["unlaunched"],
    )
    if not len(frame) and len(stats):
        frame.attrs["note"] = "no launch stands out"
    return frame


def _sums(values: Ints, masks: tuple[npt.NDArray[np.bool_], ...], group: Rows, groups: int) -> Ints:
    """Return the sums of the values that each mask takes, by mask and group, in integers."""
    sums = np.zeros((len(masks), groups), dtype=np.int64)
    for code, mask in enumerate(masks):
        np.add.at(sums[code], group[mask], values[mask])
    return sums


@dataclass(frozen=True, slots=True)
class QueueSteps:
    """All changes of a rank's queues, by stream and time; launches before starts at an instant."""

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
    """Return all changes of the queues of one rank's selected device work."""
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


@dataclass(frozen=True, slots=True)
class OfQueues(Generic[T]):
    """What was found of one rank's queues, and how many events are in them."""

    found: T
    kinds: dict[str, int]
    launched: int
    unlaunched: int
    early: int


def over_queues(
    traces: TraceSet,
    scope: Scope,
    function: Callable[..., T],
    *args: Any,
    launches: bool = False,
) -> list[OfQueues[T]]:
    """Return what a function says of each rank's selected events of all times, and its queues.

    It is given them with the window's edges, since what waits through the whole window is in none
    of the events that overlap it.
    """
    chosen = narrowed(traces, **scope)
    always = parts(traces, replace(chosen, start_ns=None, end_ns=None))
    edges = (chosen.start_ns, chosen.end_ns)
    return list(over_ranks(always, _queue_steps_of_rank, function, edges, launches, *args))


def _queue_steps_of_rank(
    part: Part,
    function: Callable[..., T],
    edges: tuple[int | None, int | None],
    launches: bool,  # noqa: FBT001 - from the function above alone
    *args: Any,
) -> OfQueues[T]:
    steps = part.once(("queue_steps", launches), partial(queue_steps, part, launches=launches))
    low, high = (None if edge is None else edge - part.trace.shift_ns for edge in edges)
    found = function(replace(part, low=low, high=high, plain=False), steps, *args)
    return OfQueues(found, steps.kinds, len(steps.row) // 2, steps.unlaunched, steps.early)


def counts_of(found: Sequence[OfQueues[Any]]) -> dict[str, Any]:
    """Return what frames of these queues say of them in ``attrs``."""
    return {
        "matched": {
            **{kind: sum(one.kinds.get(kind, 0) for one in found) for kind in BUSY},
            "launched": sum(one.launched for one in found),
        },
        "unlaunched": sum(one.unlaunched for one in found),
        "early": sum(one.early for one in found),
    }


@scoped
def queue_length(traces: TraceSet, **scope: Unpack[Scope]) -> pd.DataFrame:
    """Return how many launched events wait on each stream, at every instant at which that changes.

    Device work (kernels, copies, fills) waits from the start of the call that launches it to its
    own start. A graph launch puts in as many as it launches.

    Parameters
    ----------
    selection : Selection, optional
        The device work whose queues are looked at; all by default.
    window : (start_ns, end_ns), optional
        Cuts the series: each stream's first row is then at the window's start, with what waits
        there already.

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
    """
    found = over_queues(traces, scope, _series)
    names = ("rank", "stream", "time_ns", "queue_length")
    return result(
        {name: joined([one.found[name] for one in found]) for name in names},
        **counts_of(found),
        note="" if any(len(one.found["rank"]) for one in found) else NOTHING,
    )


def _series(part: Part, steps: QueueSteps) -> dict[str, Ints]:
    time_ns = steps.time_ns
    if part.low is not None:
        time_ns = np.maximum(time_ns, part.low)
    kept = settled(steps.code, time_ns)
    if part.high is not None:
        kept &= time_ns < part.high
    return {
        "rank": np.full(int(kept.sum()), part.rank),
        "stream": steps.streams[steps.code[kept]],
        "time_ns": time_ns[kept] + part.trace.shift_ns,
        "queue_length": steps.queue_length[kept],
    }


@scoped
def queue_length_summary(traces: TraceSet, **scope: Unpack[Scope]) -> pd.DataFrame:
    """Return statistics of each stream's queue.

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
    """
    found = over_queues(traces, scope, _statistics)
    names = ("rank", "stream", *STATISTICS, "time_weighted_mean", "span_ns")
    columns = {name: [one.found[name] for one in found] for name in names}
    note = "" if any(map(len, columns["rank"])) else NOTHING
    if not note and not any(one.any() for one in (*columns["count"], *columns["span_ns"])):
        note = _STILL
    whole = {"rank", "stream", "count", "span_ns"}
    return result(
        {
            name: joined(values, np.int64 if name in whole else np.float64)
            for name, values in columns.items()
        },
        **counts_of(found),
        note=note,
    )


def _statistics(part: Part, steps: QueueSteps) -> dict[str, npt.NDArray[Any]]:
    groups = len(steps.streams)
    there = _within(part, steps)
    code, time_ns, length = (
        values[there] for values in (steps.code, steps.time_ns, steps.queue_length)
    )
    inside = _inside(part, time_ns)
    figures = describe(code[inside], groups, length[inside])
    held = held_ns(code, time_ns, part.low, part.high)
    area, span = weighted(code, groups, length, held)
    return {
        "rank": np.full(groups, part.rank),
        "stream": steps.streams,
        **{name: figures[name] for name in STATISTICS},
        "time_weighted_mean": area / np.where(span > 0, span, np.nan),
        "span_ns": span.astype(np.int64),
    }


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


@scoped
def time_blocked_on_full_queue(
    traces: TraceSet, *, max_queue_length: int = MAX_QUEUE_LENGTH, **scope: Unpack[Scope]
) -> pd.DataFrame:
    """Return how long each stream's queue was full, so that launching on it blocks the host.

    What fills a queue are launches: unlike in `queue_length`, a graph counts once, until its
    first kernel starts.

    A duration of 0 does not say that the host never was blocked. Files may show a queue that is
    full as a few launches shorter than the limit: look at ``peak`` and ``at_peak_ns``, and lower
    `max_queue_length` where a queue stays at its peak while launch calls last long.

    Parameters
    ----------
    max_queue_length : int, default 1024
        From how many waiting launches on a queue is full; CUDA's limit by default.

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
    """
    found = over_queues(traces, scope, _blocked, max_queue_length, launches=True)
    names = ("rank", "stream", "duration_ns", "trace_ns", "peak", "at_peak_ns")
    column = {name: joined([one.found[0][name] for one in found]) for name in names}
    near = [text for one in found for text in one.found[1]]
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
        **counts_of(found),
        note=_note(near, max_queue_length) if len(whole) else NOTHING,
    )


def _blocked(
    part: Part, steps: QueueSteps, max_queue_length: int
) -> tuple[dict[str, Ints], list[str]]:
    """Return a rank's columns, and which of its queues are nearly full for long."""
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
    near = [
        _nearly_full(part.rank, int(steps.streams[at]), int(peak[at]), int(nearly[at]))
        for at in np.flatnonzero(almost).tolist()
    ]
    columns = {
        "rank": np.full(groups, part.rank),
        "stream": steps.streams,
        "duration_ns": duration,
        "trace_ns": np.full(groups, trace_ns),
        "peak": peak,
        "at_peak_ns": at_peak,
    }
    return columns, near


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
