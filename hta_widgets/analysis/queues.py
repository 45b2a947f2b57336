"""The queue of launched work on each stream.

Work waits from the start of its launch call until it starts. For example, calls start at 0 and 10
ns, and their kernels at 20 and 30 ns. The queue length becomes 1, 2, 1 and 0 at these times.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from typing import Any, TypeVar

import numpy as np
import pandas as pd

from hta_widgets.analysis.frames import int64, result_frame, stack_blocks
from hta_widgets.analysis.launches import launch_pairs
from hta_widgets.analysis.map_ranks import map_ranks
from hta_widgets.analysis.scope import RankPart, Window, count_by_kind, narrow_selection, rank_parts
from hta_widgets.analysis.step_series import (
    STATISTICS_SCHEMA,
    describe,
    hold_times_ns,
    is_last_at_instant,
    order_by_group_and_time,
    running_total,
    time_weighted_sums,
)
from hta_widgets.arguments import check_arguments
from hta_widgets.facts import note_text
from hta_widgets.trace.arrays import Bools, Ints, Rows, sum_by_group
from hta_widgets.trace.summary import device_word_attrs
from hta_widgets.trace.traceset import Selection, TraceSet

T = TypeVar("T")

#: Number of launches that a CUDA stream can hold before another launch blocks the host.
MAX_QUEUE_LENGTH = 1024

#: A note names a queue that is filled to this share for this share of the trace.
_NEARLY_FULL = 0.98
_MIN_NOTED_SHARE = 0.01


@dataclass(frozen=True, slots=True)
class QueueSteps:
    """All changes of a rank's queues, by stream and time; launches come first at equal times."""

    streams: Ints
    code: Rows  # position in `streams`
    time_ns: Ints
    queue_length: Ints  # from this change on
    row: Ints  # the launch call, or the work that starts
    device_row: Ints  # the work
    early: int  # number of events that start before their call
    unlaunched: int  # number of events without a call


def queue_steps(part: RankPart, *, launches: bool = False) -> QueueSteps:
    """Return all changes of the queues of a rank's selected device work.

    With `launches`, each call counts once per stream, until its first work there starts.
    """
    table = part.table
    call, work, unlaunched = launch_pairs(part, part.device_work_rows())
    streams, code = np.unique(table.stream[work].astype(np.int64), return_inverse=True)
    if launches:
        # Work is sorted by start, so the first item of a call and stream starts first.
        first = np.sort(np.unique(call * len(streams) + code, return_index=True)[1])
        call, work, code = call[first], work[first], code[first]
    enters, leaves = table.start_ns[call], table.start_ns[work]
    code = np.concatenate((code, code))
    time_ns = np.concatenate((enters, np.maximum(enters, leaves)))
    order = order_by_group_and_time(code, len(streams), time_ns)
    change = np.repeat(np.array([1, -1]), len(work))
    return QueueSteps(
        streams=streams,
        code=code[order],
        time_ns=time_ns[order],
        queue_length=running_total(code[order], change[order]),
        row=np.concatenate((call, work))[order],
        device_row=np.concatenate((work, work))[order],
        early=int((leaves < enters).sum()),
        unlaunched=unlaunched,
    )


def _map_queues(
    chosen: Selection, function: Callable[..., T], *args: Any, launches: bool = False
) -> tuple[list[T], dict[str, Any]]:
    """Return the results of `function` for each rank's queues, and the frame's attributes."""
    # If work waits throughout the window, neither the work nor its launch call overlaps it. Queues
    # are therefore built from the selected events at all times.
    always = rank_parts(chosen.owner, replace(chosen, start_ns=None, end_ns=None))
    edges = (chosen.start_ns, chosen.end_ns)
    results = list(map_ranks(always, _queues_of_rank, function, edges, launches, *args))
    counts = np.array([rank_counts for _, rank_counts in results], np.int64).reshape(-1, 3)
    launched, unlaunched, early = counts.sum(axis=0).tolist()
    matched = {**count_by_kind(always), "launched": launched}
    attrs = {"matched": matched, "unlaunched": unlaunched, "early": early}
    return [value for value, _ in results], attrs


def _queues_of_rank(
    part: RankPart,
    function: Callable[..., T],
    edges: tuple[int | None, int | None],
    launches: bool,  # noqa: FBT001 - passed on by `map_ranks`
    *args: Any,
) -> tuple[T, tuple[int, int, int]]:
    """Return `function` of a rank's queues; counts of launched, unlaunched and early work."""
    find = partial(queue_steps, part, launches=launches)
    steps = part.get_or_compute(("queue_steps", launches), find)
    value = function(part.with_window(*edges), steps, *args)
    launched = len(steps.row) // 2  # work has a step when it enters the queue, and when it leaves
    return value, (launched, steps.unlaunched, steps.early)


@check_arguments
def queue_length(
    traces: TraceSet,
    *,
    selection: Selection | None = None,
    window: Window | None = None,
    ranks: Iterable[int] | None = None,
) -> pd.DataFrame:
    """Return the number of launched events that wait on each stream, at each change.

    Device work (kernels, copies, fills) waits from the start of the call that launches it until it
    starts. A graph launch adds as many events as it launches.

    Parameters
    ----------
    traces : TraceSet
    selection : Selection, optional
        The device work whose queues are returned. Default: all.
    window : (start_ns, end_ns), optional
        Clips the series. The first row of each stream is then at the start of the window, with the
        number of events that already wait there.
    ranks : iterable of int, optional
        Restricts the selection to these ranks.

    Returns
    -------
    DataFrame
        One row per rank, stream and instant of change, in this order: ``rank, stream, time_ns,
        queue_length`` (int64), the length after all changes at that instant, until the stream's
        next row. ``.attrs["unlaunched"]`` counts device work without a launch in the files;
        ``.attrs["early"]`` counts work that starts before its call, according to the clocks in the
        files, and therefore never waits.
    """
    blocks, attrs = _map_queues(narrow_selection(traces, selection, window, ranks), _series)
    columns = stack_blocks(blocks, int64("rank stream time_ns queue_length"))
    note = "" if len(columns["rank"]) else note_text("no_launches")
    return result_frame(columns, **attrs, note=note)


def _series(part: RankPart, steps: QueueSteps) -> dict[str, Any]:
    # Changes before the window are moved to its start, where only the last change is shown.
    time_ns = steps.time_ns
    if part.low is not None:
        time_ns = np.maximum(time_ns, part.low)
    is_shown = is_last_at_instant(steps.code, time_ns) & part.is_in_window(time_ns)
    return {
        "rank": part.rank,
        "stream": steps.streams[steps.code[is_shown]],
        "time_ns": time_ns[is_shown] + part.trace.shift_ns,
        "queue_length": steps.queue_length[is_shown],
    }


@check_arguments
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
    traces : TraceSet
    selection, window, ranks : Selection, (start_ns, end_ns), iterable of int, optional
        The events to analyze, restricted by time and ranks. Default: all.

    Returns
    -------
    DataFrame
        One row per rank and stream: ``rank, stream``; ``count, mean, std, min, 25%, 50%, 75%, max``
        of the length after each change in the window (two per launched event), not weighted by
        duration; ``time_weighted_mean``: the mean over time, from the stream's first to its last
        change in the trace, clipped to the window; ``span_ns`` (int64): that time.

    Notes
    -----
    The statistics match HTA's queue length summary. They weigh each change equally, so
    ``time_weighted_mean`` is a better measure of the usual queue length.
    """
    blocks, attrs = _map_queues(narrow_selection(traces, selection, window, ranks), _statistics)
    schema = {**int64("rank stream"), **STATISTICS_SCHEMA, "time_weighted_mean": "float64"}
    columns = stack_blocks(blocks, {**schema, "span_ns": "int64"})
    note = "" if len(columns["rank"]) else note_text("no_launches")
    if not note and not (columns["count"].any() or columns["span_ns"].any()):
        note = note_text("no_queue_changes")
    return result_frame(columns, **attrs, note=note, **device_word_attrs(traces))


def _statistics(part: RankPart, steps: QueueSteps) -> dict[str, Any]:
    groups = len(steps.streams)
    changes = _steps_in_window(part, steps)
    columns = steps.code, steps.time_ns, steps.queue_length
    code, time_ns, length = (column[changes] for column in columns)
    inside = part.is_in_window(time_ns)
    # Between recording windows, the length is unknown.
    window = np.searchsorted(part.trace.recorded_marks_ns, time_ns)
    hold_ns = hold_times_ns(code, time_ns, part.low, part.high)
    hold_ns[:-1][window[1:] != window[:-1]] = 0
    weighted_sum, span = time_weighted_sums(code, groups, length, hold_ns)
    return {
        "rank": part.rank,
        "stream": steps.streams,
        **describe(code[inside], groups, length[inside]),
        "time_weighted_mean": weighted_sum / np.where(span > 0, span, np.nan),
        "span_ns": span.astype(np.int64),
    }


def _steps_in_window(part: RankPart, steps: QueueSteps) -> slice | Rows:
    """Return the changes in the window, and each stream's last before and first after it.

    The last change before the window has the queue length at its start.
    """
    if not part.has_window:
        return slice(None)
    edges_of_streams = np.searchsorted(steps.code, np.arange(len(steps.streams) + 1)).tolist()
    positions = [np.empty(0, dtype=np.intp)]
    for first, last in pairwise(edges_of_streams):
        time_ns = steps.time_ns[first:last]
        low = 0 if part.low is None else int(np.searchsorted(time_ns, part.low, "left")) - 1
        high = len(time_ns)
        if part.high is not None:
            high = int(np.searchsorted(time_ns, part.high, "left")) + 1
        positions.append(np.arange(first + max(low, 0), min(first + high, last)))
    return np.concatenate(positions)


@check_arguments
def time_blocked_on_full_queue(
    traces: TraceSet,
    *,
    max_queue_length: int = MAX_QUEUE_LENGTH,
    selection: Selection | None = None,
    window: Window | None = None,
    ranks: Iterable[int] | None = None,
) -> pd.DataFrame:
    """Return how long each stream's queue was full, which blocks a host that launches on it.

    Unlike in `queue_length`, a graph launch counts once, until its first kernel starts.

    The host may be blocked even if the duration is 0, because queues in files may be full a few
    launches below the limit. Check ``peak`` and ``at_peak_ns``, and lower `max_queue_length` if a
    queue stays at its peak while launch calls take long.

    Parameters
    ----------
    traces : TraceSet
    max_queue_length : int, default 1024
        Number of waiting launches from which a queue is full. Default: CUDA's limit.
    selection, window, ranks : Selection, (start_ns, end_ns), iterable of int, optional
        The events to analyze, restricted by time and ranks. Default: all.

    Returns
    -------
    DataFrame
        One row per rank and stream with launched work: ``rank, stream``; ``duration_ns`` (int64),
        the time at `max_queue_length` or more; ``share`` of the trace's duration, 0..1;
        ``trace_ns`` (int64), that duration, from the first to the last start of an event of the
        rank, or the part of it in the window; ``peak`` (int64), the largest length that lasts
        longer than 0 ns; ``at_peak_ns`` (int64), the time at that length.

        ``.attrs["note"]`` names queues that come within 2 % of the limit for 1 % of the trace.
    """
    chosen = narrow_selection(traces, selection, window, ranks)
    results, attrs = _map_queues(chosen, _blocked_times, max_queue_length, launches=True)
    schema = {
        **int64("rank stream duration_ns"), "share": "float64",
        **int64("trace_ns peak at_peak_ns"),
    }  # fmt: skip
    columns = stack_blocks([columns for columns, _ in results], schema)
    nearly_full = [text for _, texts in results for text in texts]
    note = "" if len(columns["rank"]) else note_text("no_launches")
    if nearly_full:
        listed = "; ".join(nearly_full[:4])
        more = f"; and {len(nearly_full) - 4} more" if len(nearly_full) > 4 else ""
        note = (
            f"queues stay just below the limit of {max_queue_length:,}: {listed}{more}. If launch"
            " calls take long during that time, the host was blocked; see max_queue_length"
        )
    return result_frame(columns, **attrs, note=note)


def _blocked_times(
    part: RankPart, steps: QueueSteps, max_queue_length: int
) -> tuple[dict[str, Any], list[str]]:
    """Return a rank's columns, and a clause about each queue that was nearly full for long."""
    groups, length = len(steps.streams), steps.queue_length
    hold_ns = hold_times_ns(steps.code, steps.time_ns, part.low, part.high)
    peak = np.zeros(groups, dtype=np.int64)
    np.maximum.at(peak, steps.code, np.where(hold_ns > 0, length, 0))
    is_full = length >= max_queue_length
    is_nearly_full = (length >= _NEARLY_FULL * max_queue_length) & ~is_full

    def time_while(is_counted: Bools) -> Ints:
        return sum_by_group(steps.code, np.where(is_counted, hold_ns, 0), groups)

    full_ns, nearly_full_ns = time_while(is_full), time_while(is_nearly_full)
    trace_ns = _trace_ns(part)
    is_noted = (full_ns == 0) & (nearly_full_ns > 0)
    is_noted &= nearly_full_ns >= _MIN_NOTED_SHARE * trace_ns
    nearly_full_texts = [
        f"rank {part.rank}, stream {steps.streams[group]}"
        f" for {nearly_full_ns[group] / 1e6:,.1f} ms, with up to {peak[group]:,} launches"
        for group in np.flatnonzero(is_noted).tolist()
    ]
    columns = {
        "rank": part.rank,
        "stream": steps.streams,
        "duration_ns": full_ns,
        "share": full_ns / (trace_ns or np.nan),
        "trace_ns": trace_ns,
        "peak": peak,
        "at_peak_ns": time_while(length == peak[steps.code]),
    }
    return columns, nearly_full_texts


def _trace_ns(part: RankPart) -> int:
    """Return the time from the rank's first to its last start, ignoring the profiler's own span."""
    table = part.table
    profiler = [code for code, name in enumerate(table.categories.values) if name == "Trace"]
    start = table.start_ns[~np.isin(table.category, profiler)] if profiler else table.start_ns
    if not len(start):
        return 0
    low, high = int(start[0]), int(start[-1])
    low = low if part.low is None else max(low, part.low)
    high = high if part.high is None else min(high, part.high)
    return max(high - low, 0)
