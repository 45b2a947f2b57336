"""Launches and their delays, and the queue of launches on each stream."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from typing import Any, TypeVar, Unpack

import numpy as np
import pandas as pd

from hta_widgets.analysis.scope import (
    DEVICE_WORK_KINDS,
    RankPart,
    Scope,
    categorical,
    count_by_kind,
    drop_unused_texts,
    map_ranks,
    narrow_selection,
    prelaunched_note,
    rank_parts,
    result_frame,
    stack_blocks,
    with_scope,
)
from hta_widgets.facts import note_text
from hta_widgets.taxonomy import KINDS
from hta_widgets.trace.arrays import (
    Array,
    Bools,
    Floats,
    Ints,
    Rows,
    group_order,
    order_and_bounds,
    stable_order,
    sum_by_group,
)
from hta_widgets.trace.traceset import TraceSet

_OUTLIERS = ("short kernel", "long call", "late start")

T = TypeVar("T")

#: Launches that a CUDA stream holds before the next one blocks the host.
MAX_QUEUE_LENGTH = 1024

#: Minimum fill of a queue, and minimum share of the trace, to be reported as nearly full.
_NEARLY = 0.98
_LONG = 0.01


@with_scope
def launch_stats(
    traces: TraceSet, *, include_memory: bool = True, **scope: Unpack[Scope]
) -> pd.DataFrame:
    """Return every launch, the device work that it launched, and the durations of both.

    The launching calls of all vendors count: runtime and driver calls that launch kernels, copies,
    fills, cooperative kernels or graphs. A graph launch has one row per launched event. If several
    calls share an id, the innermost launching call is used, so no kernel counts twice. A window
    does not cut durations.

    Parameters
    ----------
    selection : Selection, optional
        The device events to work on; all by default.

    Returns
    -------
    DataFrame
        One row per launch and device event, by rank and the call's start:

        - ``rank, correlation`` (int64, -1 if the file links by other means)
        - ``kernel`` (the full name), ``kind``, ``launch`` (name of the call): categorical
        - ``stream`` (int64)
        - ``cpu_dur_ns, gpu_dur_ns`` (int64): the call's duration and the device event's
        - ``launch_delay_ns`` (int64): from the call's end to the device event's start, 0 where
          it starts earlier
        - ``launch_id, kernel_id`` (int64): the two events

        ``.attrs["unlaunched"]`` counts selected device work whose launch the files do not hold.
    """
    chosen = rank_parts(traces, **scope)
    kinds = DEVICE_WORK_KINDS if include_memory else DEVICE_WORK_KINDS[:2]
    found = list(map_ranks(chosen, _launches_of_rank, kinds))
    column = stack_blocks(
        [columns for columns, _ in found],
        "rank correlation kernel:c kind launch:c stream cpu_dur_ns gpu_dur_ns launch_delay_ns"
        " launch_id kernel_id",
    )
    column["kind"] = categorical(column["kind"], KINDS)
    return result_frame(
        column,
        matched={**count_by_kind(chosen, kinds), "launched": len(column["rank"])},
        note=prelaunched_note(chosen) if len(column["rank"]) else note_text("no_launches"),
        unlaunched=sum(lost for _, lost in found),
    )


def _launch_pairs(part: RankPart, work: Rows) -> tuple[Ints, Rows, int]:
    """Return the calls that launched device events, these events, and the number without a call."""
    call = part.trace.launch_of[work]
    known = call >= 0
    return call[known], work[known], int(len(work) - known.sum())


def _launches_of_rank(part: RankPart, kinds: Sequence[str]) -> tuple[dict[str, Any], int]:
    """Return a rank's columns, and the number of its events without a call."""
    table = part.table
    call, work, lost = _launch_pairs(part, part.rows_of_kinds(*kinds))
    order = stable_order(call)
    call, work = call[order], work[order]
    call_end = table.start_ns[call] + table.dur_ns[call]
    columns = {
        "rank": part.rank,
        "correlation": table.correlation[work],
        "kernel": drop_unused_texts(table.name[work], table.names),
        "kind": table.kind[work],
        "launch": drop_unused_texts(table.name[call], table.names),
        "stream": table.stream[work],
        "cpu_dur_ns": table.dur_ns[call],
        "gpu_dur_ns": table.dur_ns[work],
        "launch_delay_ns": np.maximum(table.start_ns[work] - call_end, 0),
        "launch_id": call,
        "kernel_id": work,
    }
    return columns, lost


@with_scope
def launch_outliers(
    traces: TraceSet,
    *,
    runtime_cutoff_ns: int = 50_000,
    launch_delay_cutoff_ns: int = 100_000,
    include_memory: bool = True,
    **scope: Unpack[Scope],
) -> pd.DataFrame:
    """Count the inefficient launches of each kernel.

    There are three kinds of outliers; a launch may be several of them:

    - ``short kernel``: the call takes at most `runtime_cutoff_ns`, and the kernel less than it
    - ``long call``: the call takes more than `runtime_cutoff_ns`
    - ``late start``: the kernel starts more than `launch_delay_cutoff_ns` after the call's end

    A call that launches several events, such as a graph, counts once: for the event that starts
    first, with the duration of all.

    Parameters
    ----------
    runtime_cutoff_ns : int, default 50 000
    launch_delay_cutoff_ns : int, default 100 000

    Returns
    -------
    DataFrame
        One row per rank, outlier and kernel, by rank and outlier, most frequent first: ``rank,
        outlier, kernel`` (the latter two categorical), ``count`` and ``launches`` (int64: outliers,
        and all launches of the kernel), ``share`` (``count / launches``), ``cpu_sum_ns, gpu_sum_ns,
        launch_delay_sum_ns`` (int64, of the outliers).
    """
    events = launch_stats(traces, include_memory=include_memory, **scope)
    stats = _calls(events)
    call, kernel, delay = (
        stats[name].to_numpy() for name in ("cpu_dur_ns", "gpu_dur_ns", "launch_delay_ns")
    )
    masks = (
        (call <= runtime_cutoff_ns) & (kernel < call),
        call > runtime_cutoff_ns,
        delay > launch_delay_cutoff_ns,
    )
    keys = ["rank", "kernel"]
    blocks = [
        stats[mask]
        .groupby(keys, observed=True)
        .agg(
            count=("kernel_id", "size"),
            cpu_sum_ns=("cpu_dur_ns", "sum"),
            gpu_sum_ns=("gpu_dur_ns", "sum"),
            launch_delay_sum_ns=("launch_delay_ns", "sum"),
        )
        .reset_index()
        for mask in masks
    ]
    outliers = pd.concat(blocks, ignore_index=True)
    launches = stats.groupby(keys, observed=True).size().reset_index(name="launches")
    outliers = outliers.merge(launches)
    outlier = np.repeat(np.arange(len(masks)), list(map(len, blocks)))
    order = np.lexsort(
        (outliers["kernel"].cat.codes, -outliers["count"], outlier, outliers["rank"])
    )
    outliers = outliers.iloc[order].reset_index(drop=True)
    frame = result_frame(
        {
            "rank": outliers["rank"],
            "outlier": categorical(outlier[order], _OUTLIERS),
            "kernel": outliers["kernel"],
            "count": outliers["count"],
            "launches": outliers["launches"],
            "share": outliers["count"] / outliers["launches"],
            **{
                name: outliers[name] for name in ("cpu_sum_ns", "gpu_sum_ns", "launch_delay_sum_ns")
            },
        },
        matched={
            **events.attrs["matched"],
            **{name: int(mask.sum()) for name, mask in zip(_OUTLIERS, masks, strict=True)},
        },
        note=events.attrs.get("note", ""),
        unlaunched=events.attrs["unlaunched"],
    )
    if not len(frame) and len(stats):
        frame.attrs["note"] = "no launch stands out"
    return frame


def _calls(events: pd.DataFrame) -> pd.DataFrame:
    """Return the launched events that start first of each call, with the duration of all."""
    call = ["rank", "launch_id"]
    if not events.duplicated(call).any():
        return events
    sums = events.groupby(call)["gpu_dur_ns"].transform("sum")
    # Event ids are in the order of their starts.
    first = events.assign(gpu_dur_ns=sums).sort_values([*call, "kernel_id"], kind="stable")
    return first.drop_duplicates(call)


@dataclass(frozen=True, slots=True)
class QueueSteps:
    """All changes of a rank's queues, by stream and time; launches precede starts at an instant."""

    streams: Ints
    code: Rows  # position in `streams`
    time_ns: Ints
    queue_length: Ints
    row: Ints
    device_row: Ints
    early: int
    unlaunched: int


def queue_steps(part: RankPart, *, launches: bool = False) -> QueueSteps:
    """Return all changes of the queues of one rank's selected device work."""
    table = part.table
    call, work, unlaunched = _launch_pairs(part, part.device_work_rows())
    if launches:
        # Work is sorted by start, so the first of a call and stream is the first to start.
        entry = call * (int(table.stream.max(initial=0)) + 1) + table.stream[work]
        first = np.sort(np.unique(entry, return_index=True)[1])
        call, work = call[first], work[first]
    enters, leaves = table.start_ns[call], table.start_ns[work]
    streams, code = np.unique(table.stream[work].astype(np.int64), return_inverse=True)
    code = np.concatenate((code, code))
    time_ns = np.concatenate((enters, np.maximum(enters, leaves)))
    order = order_by_group_and_time(code, len(streams), time_ns)
    change = np.repeat(np.array([1, -1]), len(work))
    return QueueSteps(
        streams,
        code[order],
        time_ns[order],
        running_total(code[order], change[order]),
        np.concatenate((call, work))[order],
        np.concatenate((work, work))[order],
        int((leaves < enters).sum()),
        unlaunched,
    )


def _map_queues(
    traces: TraceSet, scope: Scope, function: Callable[..., T], *args: Any, launches: bool = False
) -> tuple[list[T], dict[str, Any]]:
    """Return a function's result for each rank's queues, and the attributes of their frame."""
    # The function receives the selected events of all times and the window's edges: if work waits
    # throughout the window, neither the work nor its launching call overlaps the window.
    chosen = narrow_selection(traces, **scope)
    always = rank_parts(traces, replace(chosen, start_ns=None, end_ns=None))
    edges = (chosen.start_ns, chosen.end_ns)
    found = list(map_ranks(always, _queues_of_rank, function, edges, launches, *args))
    counts = np.array([of_rank for _, of_rank in found], dtype=np.int64).reshape(-1, 3)
    launched, unlaunched, early = counts.sum(axis=0).tolist()
    matched = {**count_by_kind(always), "launched": launched}
    about = {"matched": matched, "unlaunched": unlaunched, "early": early}
    return [value for value, _ in found], about


def _queues_of_rank(
    part: RankPart,
    function: Callable[..., T],
    edges: tuple[int | None, int | None],
    launches: bool,  # noqa: FBT001 - passed on by `map_ranks`
    *args: Any,
) -> tuple[T, tuple[int, int, int]]:
    steps = part.cached(("queue_steps", launches), partial(queue_steps, part, launches=launches))
    found = function(part.with_window(*edges), steps, *args)
    return found, (len(steps.row) // 2, steps.unlaunched, steps.early)


@with_scope
def queue_length(traces: TraceSet, **scope: Unpack[Scope]) -> pd.DataFrame:
    """Return the number of launched events that wait on each stream, at each instant of change.

    Device work (kernels, copies, fills) waits from the start of the call that launches it to its
    own start. A graph launch adds as many events as it launches.

    Parameters
    ----------
    selection : Selection, optional
        The device work whose queues are returned; all by default.
    window : (start_ns, end_ns), optional
        Cuts the series: each stream's first row is then at the window's start, with the events
        that wait there already.

    Returns
    -------
    DataFrame
        One row per rank, stream and instant of change, in that order: ``rank, stream, time_ns,
        queue_length`` (int64), the length after all changes at that instant; it holds until the
        stream's next row. ``.attrs["unlaunched"]`` counts device work without a launch in the
        files, ``.attrs["early"]`` work that starts before its call by the files' clocks and
        therefore never waits.
    """
    found, about = _map_queues(traces, scope, _series)
    columns = stack_blocks(found, "rank stream time_ns queue_length")
    return result_frame(
        columns, **about, note="" if len(columns["rank"]) else note_text("no_launches")
    )


def _series(part: RankPart, steps: QueueSteps) -> dict[str, Any]:
    time_ns = steps.time_ns
    if part.low is not None:
        time_ns = np.maximum(time_ns, part.low)
    kept = is_last_at_instant(steps.code, time_ns) & part.is_in_window(time_ns)
    return {
        "rank": part.rank,
        "stream": steps.streams[steps.code[kept]],
        "time_ns": time_ns[kept] + part.trace.shift_ns,
        "queue_length": steps.queue_length[kept],
    }


@with_scope
def queue_length_summary(traces: TraceSet, **scope: Unpack[Scope]) -> pd.DataFrame:
    """Return statistics of each stream's queue.

    Returns
    -------
    DataFrame
        One row per rank and stream: ``rank, stream``; ``count, mean, std, min, 25%, 50%, 75%,
        max`` of the length after each change in the window (two per launched event), however
        long it holds; ``time_weighted_mean``: the mean over time, from the stream's first to its
        last change in the trace, cut at the window's edges; ``span_ns`` (int64): that time.

    Notes
    -----
    Statistics as in HTA's queue length summary. They weigh each change equally, so prefer
    ``time_weighted_mean`` for the usual length of a queue.
    """
    found, about = _map_queues(traces, scope, _statistics)
    columns = stack_blocks(found, f"rank stream {STATISTICS_COLUMNS} time_weighted_mean:f span_ns")
    note = "" if len(columns["rank"]) else note_text("no_launches")
    if not note and not (columns["count"].any() or columns["span_ns"].any()):
        note = note_text("no_queue_changes")
    return result_frame(columns, **about, note=note)


def _statistics(part: RankPart, steps: QueueSteps) -> dict[str, Any]:
    groups = len(steps.streams)
    there = _steps_in_window(part, steps)
    code, time_ns, length = (
        values[there] for values in (steps.code, steps.time_ns, steps.queue_length)
    )
    inside = part.is_in_window(time_ns)
    area, span = time_weighted_sums(
        code, groups, length, hold_times_ns(code, time_ns, part.low, part.high)
    )
    return {
        "rank": part.rank,
        "stream": steps.streams,
        **describe(code[inside], groups, length[inside]),
        "time_weighted_mean": area / np.where(span > 0, span, np.nan),
        "span_ns": span.astype(np.int64),
    }


def _steps_in_window(part: RankPart, steps: QueueSteps) -> slice | Rows:
    """Return the changes in the window, and each stream's last before and first after it."""
    # Their queue lengths hold at the window's edges.
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


@with_scope
def time_blocked_on_full_queue(
    traces: TraceSet, *, max_queue_length: int = MAX_QUEUE_LENGTH, **scope: Unpack[Scope]
) -> pd.DataFrame:
    """Return how long each stream's queue was full, which blocks the host that launches on it.

    Unlike in `queue_length`, a graph launch counts once, until its first kernel starts.

    A duration of 0 does not exclude that the host was blocked: queues in files may be full a few
    launches below the limit. Check ``peak`` and ``at_peak_ns``, and lower `max_queue_length` if a
    queue stays at its peak while launch calls last long.

    Parameters
    ----------
    max_queue_length : int, default 1024
        Number of waiting launches from which on a queue is full; CUDA's limit by default.

    Returns
    -------
    DataFrame
        One row per rank and stream that work was launched on: ``rank, stream``; ``duration_ns``
        (int64), the time at `max_queue_length` or more; ``share``: of the trace's duration, 0..1;
        ``trace_ns`` (int64): that duration, from the first to the last start of an event of the
        rank, or the window's part of it; ``peak`` (int64): the largest length that lasts any
        time; ``at_peak_ns`` (int64): the time at that length.

        ``.attrs["note"]`` names queues that never reach `max_queue_length`, but spend 1 % of the
        trace or more within 2 % below it.
    """
    found, about = _map_queues(traces, scope, _blocked_times, max_queue_length, launches=True)
    names = "rank stream duration_ns share:f trace_ns peak at_peak_ns"
    column = stack_blocks([columns for columns, _ in found], names)
    near = [text for _, texts in found for text in texts]
    return result_frame(
        column,
        **about,
        note=_nearly_full_note(near, max_queue_length)
        if len(column["rank"])
        else note_text("no_launches"),
    )


def _blocked_times(
    part: RankPart, steps: QueueSteps, max_queue_length: int
) -> tuple[dict[str, Any], list[str]]:
    """Return a rank's columns, and descriptions of its queues that are nearly full for long."""
    groups, length = len(steps.streams), steps.queue_length
    held = hold_times_ns(steps.code, steps.time_ns, part.low, part.high)
    peak = np.zeros(groups, dtype=np.int64)
    np.maximum.at(peak, steps.code, np.where(held > 0, length, 0))
    near_limit = (length >= _NEARLY * max_queue_length) & (length < max_queue_length)
    duration, at_peak, nearly = (
        sum_by_group(steps.code, np.where(chosen, held, 0), groups)
        for chosen in (length >= max_queue_length, length == peak[steps.code], near_limit)
    )
    trace_ns = _trace_ns(part)
    almost = (duration == 0) & (nearly > 0) & (nearly >= _LONG * trace_ns)
    near = [
        f"of rank {part.rank} stream {steps.streams[at]} for {nearly[at] / 1e6:,.1f} ms, at up to"
        f" {peak[at]:,}"
        for at in np.flatnonzero(almost).tolist()
    ]
    columns = {
        "rank": part.rank,
        "stream": steps.streams,
        "duration_ns": duration,
        "share": duration / (trace_ns or np.nan),
        "trace_ns": trace_ns,
        "peak": peak,
        "at_peak_ns": at_peak,
    }
    return columns, near


def _nearly_full_note(near: list[str], limit: int) -> str:
    if not near:
        return ""
    listed = "; ".join(near[:4]) + (f"; and {len(near) - 4} more" if len(near) > 4 else "")
    return (
        f"queues stay just below the limit of {limit:,}: {listed}. Where launch calls last long"
        " meanwhile, the host was blocked; see max_queue_length"
    )


def _trace_ns(part: RankPart) -> int:
    """Return the time from the rank's first to its last start, without the profiler's own span."""
    table = part.table
    span = [code for code, name in enumerate(table.categories.values) if name == "Trace"]
    start = table.start_ns[~np.isin(table.category, span)] if span else table.start_ns
    if not len(start):
        return 0
    low, high = int(start[0]), int(start[-1])
    low = low if part.low is None else max(low, part.low)
    high = high if part.high is None else min(high, part.high)
    return max(high - low, 0)


#: Names of the statistics, as pandas' ``describe`` has them.
STATISTICS = ("count", "mean", "std", "min", "25%", "50%", "75%", "max")
STATISTICS_COLUMNS = "count " + " ".join(f"{name}:f" for name in STATISTICS[1:])


def order_by_group_and_time(group: Array, groups: int, time_ns: Ints) -> Rows:
    """Return the stable order by group and time."""
    if not len(time_ns):
        return np.empty(0, dtype=np.intp)
    by_time = stable_order(time_ns - time_ns.min())
    return by_time[group_order(group[by_time], groups)]


def running_total(group: Array, change: Array) -> Array:
    """Return the cumulative sum of changes within each group; rows are sorted by group."""
    total = np.cumsum(change)
    if not len(total):
        return total
    first = np.flatnonzero(np.append(True, group[1:] != group[:-1]))
    total -= np.repeat((total - change)[first], np.diff(np.append(first, len(total))))
    return total


def is_last_at_instant(group: Array, time_ns: Ints) -> Bools:
    """Return whether each change is the last of its group at its instant."""
    last = np.ones(len(time_ns), dtype=bool)
    last[:-1] = (group[1:] != group[:-1]) | (time_ns[1:] != time_ns[:-1])
    return last


def hold_times_ns(
    group: Array, time_ns: Ints, low: int | None = None, high: int | None = None
) -> Ints:
    """Return how long each value holds within the window; the last of a group holds no time."""
    until = np.append(time_ns[1:], time_ns[-1:])
    ends = np.append(group[1:] != group[:-1], True)[: len(time_ns)]
    until[ends] = time_ns[ends]
    start = time_ns if low is None else np.maximum(time_ns, low)
    until = until if high is None else np.minimum(until, high)
    return np.maximum(until - start, 0)


def time_weighted_sums(
    group: Array, groups: int, value: Array, held: Ints
) -> tuple[Floats, Floats]:
    """Return the sum of each group's values weighted by the time that they hold, and that time."""
    time = held.astype(np.float64)
    area = np.bincount(group, weights=value * time, minlength=groups).astype(np.float64)
    return area, np.bincount(group, weights=time, minlength=groups).astype(np.float64)


def describe(group: Array, groups: int, value: Array) -> dict[str, Any]:
    """Return the columns of pandas' ``describe`` for each group; NaN for groups without values."""
    result = np.full((groups, len(STATISTICS)), np.nan)
    order, first = order_and_bounds(group, groups)
    for code in range(groups):
        values = value[order[first[code] : first[code + 1]]].astype(np.float64)
        result[code, 0] = len(values)
        if len(values):
            std = values.std(ddof=1) if len(values) > 1 else np.nan
            quartiles = np.quantile(values, (0, 0.25, 0.5, 0.75, 1))
            result[code, 1:] = (values.mean(), std, *quartiles)
    columns: dict[str, Any] = dict(zip(STATISTICS, result.T, strict=True))
    columns["count"] = columns["count"].astype(np.int64)
    return columns
