"""Idle time of devices and streams, and its causes.

A gap is an interval during which no stream of a device works. The call that launched the next work
splits it in two. For example, a gap from 0 to 100 µs ends with a kernel whose launch call took
place from 60 to 70 µs. The calling thread was inside ``cudaStreamSynchronize`` until 40 µs, and
inside an operator afterwards::

    0 ─ sync_wait ─ 40 ─ host_operator ─ 60 ─ launch_call ─ 70 ─ launch_latency ─ 100

`gap_pieces` divides gaps: the time before the call by what its thread was doing (`host_activity`),
and the time after it into a single category (`_wait_category`). `device_idle_breakdown` sums the
pieces for each device, and `idle_time_breakdown` sums the gaps of each stream.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import compress, pairwise
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from hta_widgets.analysis.frames import (
    Schema,
    categorical,
    concat_arrays,
    int64,
    result_frame,
    stack_blocks,
)
from hta_widgets.analysis.host_activity import (
    ACTIVITIES,
    LONG_WAIT_NS,
    UNRECORDED_WAIT,
    activity_times,
    follows_stream_wait,
    union_of_waits,
    unrecorded_waits_by_thread,
    waits_without_recorded_work,
)
from hta_widgets.analysis.map_ranks import map_ranks, map_working_ranks
from hta_widgets.analysis.notes import missing_ranks_note
from hta_widgets.analysis.scope import (
    DEVICE_WORK_KINDS,
    RankPart,
    RankParts,
    Window,
    count_by_kind,
    device_work_rows,
    rank_part,
    rank_parts,
)
from hta_widgets.analysis.step_series import describe
from hta_widgets.arguments import Count, check_arguments
from hta_widgets.facts import facts
from hta_widgets.trace.arrays import (
    Array,
    Bools,
    Ints,
    Rows,
    concatenate_ranges,
    order_and_bounds,
    sum_by_group,
)
from hta_widgets.trace.conditions import trace_index
from hta_widgets.trace.event_columns import drop_unused_texts
from hta_widgets.trace.intervals import (
    CumulativeCoverage,
    Intervals,
    intersect,
    total_length,
    union,
    unite,
)
from hta_widgets.trace.memo import memoize
from hta_widgets.trace.summary import device_word_attrs
from hta_widgets.trace.trace import Trace
from hta_widgets.trace.traceset import Selection, TraceSet

Columns = dict[str, Array]
#: Computes columns from each gap's cell, the number of cells, and each gap's duration.
_Measures = Callable[[Ints, int, Ints], Columns]

#: Categories, in the order in which they occur within a gap.
IDLE_CATEGORIES: tuple[str, ...] = tuple(facts("causes"))
(
    _HOST_NOTHING, _LAUNCH_CALL, _LAUNCH_LATENCY, _KERNEL_WAIT,
    _STREAM_WAIT, _BLOCKED, _UNRECORDED, _UNKNOWN,
) = range(len(ACTIVITIES), len(IDLE_CATEGORIES))  # fmt: skip
#: Whether each category is part of ``host_wait``.
_IS_HOST = [name.startswith("host_") for name in IDLE_CATEGORIES]
#: Categories of time before the host has launched the next work.
HOST_CAUSES = (*compress(IDLE_CATEGORIES, _IS_HOST), IDLE_CATEGORIES[_LAUNCH_CALL])

#: Shorter waits of launched work count as the device's latency between two kernels.
_SHORT_NS = 30_000

_NEVER = np.iinfo(np.int64).max
_CATEGORIES = ("host_wait", "kernel_wait", "other")
_STATS = ("mean_ns", "std_ns", "min_ns", "p25_ns", "p50_ns", "p75_ns", "max_ns")


@check_arguments
def device_idle_breakdown(
    traces: TraceSet,
    *,
    consecutive_kernel_delay_ns: int = _SHORT_NS,
    selection: Selection | None = None,
    window: Window | None = None,
    ranks: Iterable[int] | None = None,
) -> pd.DataFrame:
    """Return the idle time of each rank's whole device, by cause.

    Gaps are the parts of the rank's span (see `temporal_breakdown`) during which none of its
    streams works. A gap ends with the start of a kernel, copy or fill; if several start at that
    instant, the one launched first counts. A window clips gaps to its edges, but categories are
    determined from whole gaps. Every nanosecond of a gap belongs to one category:

    - ``sync_wait``: the launch call had not begun, and its thread was inside a call that waits for
      the device, such as ``cudaStreamSynchronize`` or a blocking copy.
    - ``host_allocation, host_data_loading, host_operator, host_python, host_nothing``: the launch
      call had not begun. Its thread was inside a call that allocates or frees memory, such as
      ``cudaFree``; was loading data; was inside an operator or another call; was inside Python
      functions only; or was inside no recorded event.
    - ``launch_call``: inside the launch call.
    - ``unrecorded``: while no stream had work, a call that waits for the device, possibly the
      launch call itself, took more than 1 ms. Such a call returns within microseconds after the
      device has finished, so the device was probably busy with work that is not in the file. This
      does not apply to a device (``local_rank`` of `TraceSet.summary`) whose threads also launch on
      others, because the host may wait for any of them.

    The time from the end of the launch call, or from the start of the gap if that is later, to the
    start of the kernel has a single category:

    - ``launch_latency``: the call ended within the gap.
    - ``kernel_wait``: the call ended before the gap, and the gap is shorter than
      `consecutive_kernel_delay_ns`, the time that a device needs between two kernels.
    - ``unrecorded``: the time is at least `consecutive_kernel_delay_ns`, and other work of the same
      CUDA graph launch had started before the gap; or the time is longer than 1 ms, and for most of
      it a thread that launches work was inside a call that waits for the device.
    - ``stream_wait``: neither applies, the time is at least `consecutive_kernel_delay_ns`, and the
      kernel is the first that its thread launched after a call such as ``cudaStreamWaitEvent``. It
      therefore waited for another stream or device.
    - ``blocked``: none of these applies; the reason for the wait is unknown.
    - ``unknown``: the file lacks the launch call, or, in an exported window, the time is before the
      first or after the last work in the file.

    While the calling thread is inside no recorded event, other threads that launch work are
    examined instead, because a backward pass begins on a separate thread. Memory calls of other
    threads also count while the calling thread runs Python, because they delay the device.

    Parameters
    ----------
    traces : TraceSet
    consecutive_kernel_delay_ns : int, default 30_000
        Shorter waits of launched work are ``kernel_wait`` or ``launch_latency``.
    selection, window, ranks : Selection, (start_ns, end_ns), iterable of int, optional
        The events to analyze, restricted by time and ranks. Default: all. Launch calls need not be
        selected.

    Returns
    -------
    DataFrame
        One row per category and rank of `temporal_breakdown`:

        - ``rank`` (int64); ``idle_category`` (categorical)
        - ``idle_ns`` (int64): adds up to ``idle_ns`` of `temporal_breakdown`, to the nanosecond
        - ``gaps`` (int64): number of gaps that include the category
        - ``idle_share`` (float): of the rank's idle time, 0..1; NaN without idle time
        - ``max_ns`` (int64): the largest part of a single gap
        - ``unrecorded_ns`` (int64): the part of ``idle_ns`` during which the device was probably
          busy with work that is not in the file: all of ``unrecorded``, 0 in other categories
    """
    chosen = rank_parts(traces, selection, window, ranks)
    working = map_working_ranks(chosen, _gap_sums, consecutive_kernel_delay_ns)
    size = len(IDLE_CATEGORIES)
    idle, gaps, longest = (
        concat_arrays([sums[column] for sums in working.values()]) for column in range(3)
    )
    category = np.tile(np.arange(size), len(working))
    idle_of_rank = idle.reshape(-1, size).sum(axis=1).repeat(size)
    return result_frame(
        {
            "rank": np.array(list(working), dtype=np.int64).repeat(size),
            "idle_category": categorical(category, IDLE_CATEGORIES),
            "idle_ns": idle,
            "gaps": gaps,
            "idle_share": idle / np.where(idle_of_rank > 0, idle_of_rank, np.nan),
            "max_ns": longest,
            "unrecorded_ns": np.where(category == _UNRECORDED, idle, 0),
        },
        matched=count_by_kind(chosen),
        note=missing_ranks_note(chosen.ranks, working),
        **device_word_attrs(chosen.owner),
    )


@check_arguments
def device_idle_gaps(
    traces: TraceSet,
    *,
    consecutive_kernel_delay_ns: int = _SHORT_NS,
    top: Count | None = None,
    selection: Selection | None = None,
    window: Window | None = None,
    ranks: Iterable[int] | None = None,
) -> pd.DataFrame:
    """Return the gaps in which each rank's whole device idles, and the events that end them.

    Parameters
    ----------
    traces : TraceSet
    consecutive_kernel_delay_ns
        As in `device_idle_breakdown`.
    top : int, optional
        Return only this many gaps, longest first. Default: all, ordered by rank and time.
    selection, window, ranks : Selection, (start_ns, end_ns), iterable of int, optional
        The events to analyze, restricted by time and ranks. Default: all.

    Returns
    -------
    DataFrame
        One row per gap:

        - ``rank, start_ns, dur_ns`` (int64)
        - ``idle_category`` (categorical): the category with the longest part
        - ``next_id`` (int64), ``next_name`` (categorical): the event that ended the gap
        - ``launch_id`` (int64): the call that launched that event; -1 if unknown
        - ``sync_wait_ns, host_allocation_ns, host_data_loading_ns, host_operator_ns,
          host_python_ns, host_nothing_ns, launch_call_ns, launch_latency_ns, kernel_wait_ns,
          stream_wait_ns, blocked_ns, unrecorded_ns, unknown_ns`` (int64): the parts of the gap,
          which add up to ``dur_ns``
        - ``host_wait_ns`` (int64): sum of the parts ``host_…``
    """
    chosen = rank_parts(traces, selection, window, ranks)
    working = map_working_ranks(chosen, _longest_gaps, consecutive_kernel_delay_ns, top)
    schema = int64("rank start_ns dur_ns next_id") | {"next_name": "category", "launch_id": "int64"}
    schema |= dict.fromkeys((f"{name}_ns" for name in IDLE_CATEGORIES), "int64")
    column = stack_blocks(list(working.values()), schema)
    if top is not None:
        order = np.argsort(-column["dur_ns"], kind="stable")[:top]
        column = {name: values[order] for name, values in column.items()}
    by_category = np.stack([column[f"{name}_ns"] for name in IDLE_CATEGORIES], axis=1)
    return result_frame(
        {
            **{name: column[name] for name in ("rank", "start_ns", "dur_ns")},
            "idle_category": categorical(by_category.argmax(axis=1), IDLE_CATEGORIES),
            **column,
            "host_wait_ns": by_category[:, _IS_HOST].sum(axis=1),
        },
        matched=count_by_kind(chosen),
        note=missing_ranks_note(chosen.ranks, working),
    )


def _gap_sums(part: RankPart, short_ns: int) -> tuple[Ints, Ints, Ints] | None:
    """Return each category's total time, the number of gaps with it, and its longest part."""
    gaps = _gaps_of_rank(part, short_ns)
    if gaps is None:
        return None
    # The span of an export may begin before the first and end after the last work in the file. This
    # idle time has no known cause. Without work, the whole span precedes the first work.
    low, high = part.span or (0, 0)
    start, end = part.without_window.clip_rows(part.without_window.device_work_rows())
    first = int(start.min(initial=high))
    last = int(end.max(initial=low)) if len(end) else high
    beyond = np.zeros((2, len(IDLE_CATEGORIES)), dtype=np.int64)
    beyond[:, _UNKNOWN] = max(first - low, 0), max(high - last, 0)
    pieces = np.concatenate((gaps.pieces, beyond))
    return pieces.sum(axis=0), (pieces > 0).sum(axis=0), pieces.max(axis=0, initial=0)


def _longest_gaps(part: RankPart, short_ns: int, top: int | None) -> dict[str, Any] | None:
    gaps = _gaps_of_rank(part, short_ns)
    if gaps is None:
        return None
    if top is not None and len(gaps.start) > top:
        longest = np.sort(np.argsort(gaps.start - gaps.end, kind="stable")[:top])
        gaps = _RankGaps(*(column[longest] for column in gaps))
    return {
        "rank": part.rank,
        "start_ns": gaps.start + part.trace.shift_ns,
        "dur_ns": gaps.end - gaps.start,
        "next_id": gaps.next,
        "next_name": drop_unused_texts(part.table.name[gaps.next], part.table.names),
        "launch_id": gaps.call,
        **{f"{name}_ns": gaps.pieces[:, k] for k, name in enumerate(IDLE_CATEGORIES)},
    }


class _RankGaps(NamedTuple):
    start: Ints
    end: Ints
    next: Rows  # the events that end gaps
    call: Ints  # the calls that launched these; -1 if unknown
    pieces: Ints  # time per gap and category


class IdleGap(NamedTuple):
    """One gap of a device."""

    start: int
    end: int
    next: int  # the event that ends the gap
    call: int  # the call that launched this event; -1 if unknown
    pieces: dict[str, int]  # time per category


def _gaps_of_rank(part: RankPart, short_ns: int) -> _RankGaps | None:
    """Return a rank's gaps, clipped to the window; None if the window has none of its span."""
    if part.span is None:
        return None
    return part.get_or_compute(("gaps by cause", short_ns), lambda: _split_gaps(part, short_ns))


def _split_gaps(part: RankPart, short_ns: int) -> _RankGaps:
    # Categories depend on the whole gap, even if only part of it is in the window.
    full_part = part.without_window
    start, end, ends_gap = full_part.get_or_compute("gaps", lambda: _whole_gaps(full_part))
    low, high = part.clip_edges(start, end)
    inside = np.flatnonzero(high > low)
    start, end, ends_gap, low, high = (
        column[inside] for column in (start, end, ends_gap, low, high)
    )
    call = part.trace.launch_of[ends_gap]
    pieces = gap_pieces(part.trace, (start, end), (low, high), call, short_ns)
    return _RankGaps(low, high, ends_gap, call, pieces)


def gap_at(trace: Trace, time: int) -> IdleGap | None:
    """Return the gap of a rank's device at a given time on its table's clock, or None."""
    part = rank_part(trace, Selection())
    starts, ends, ends_gap = part.get_or_compute("gaps", lambda: _whole_gaps(part))
    number = int(np.searchsorted(ends, time, "right"))
    if number == len(starts) or starts[number] > time:
        return None
    start, end, next_event = (column[[number]] for column in (starts, ends, ends_gap))
    call = trace.launch_of[next_event]
    pieces = gap_pieces(trace, (start, end), (start, end), call, _SHORT_NS)[0]
    by_category = dict(zip(IDLE_CATEGORIES, pieces.tolist(), strict=True))
    return IdleGap(start.item(), end.item(), next_event.item(), call.item(), by_category)


def _whole_gaps(part: RankPart) -> tuple[Ints, Ints, Rows]:
    """Return the start and end of each gap in a rank's work, and the event that ends it."""
    gap_start, gap_end = part.device_gaps()
    return gap_start, gap_end, _ends_of_gaps(part, gap_end)


def _ends_of_gaps(part: RankPart, gap_end: Ints) -> Rows:
    rows = part.device_work_rows()
    start, _ = part.clip_rows(rows)
    return rows[first_launched(part.trace, rows, start, gap_end)]


def first_launched(trace: Trace, rows: Rows, start: Ints, time: Ints) -> Rows:
    """Return, for each time, the position of the first-launched event among those that start then.

    `rows` are in ascending order of `start`.
    """
    first = np.searchsorted(start, time, "left")
    count = np.searchsorted(start, time, "right") - first
    several = np.flatnonzero(count > 1)
    if not len(several):
        return first
    count = count[several]
    group = np.repeat(np.arange(len(several)), count)
    position = concatenate_ranges(first[several], count)
    call = trace.launch_of[rows[position]]
    launched_ns = np.where(call >= 0, trace.table.start_ns[call], _NEVER)
    order = np.lexsort((launched_ns, group))
    first_of_group = np.cumsum(count) - count
    first[several] = position[order[first_of_group]]
    return first


def gap_pieces(
    trace: Trace, gap: tuple[Ints, Ints], cut: tuple[Ints, Ints], call: Ints, short_ns: int
) -> Ints:
    """Return how the part `cut` of each gap divides into categories.

    `call` is the call that launched the event at the end of each gap.
    """
    table = trace.table
    start, end = cut
    pieces = np.zeros((len(start), len(IDLE_CATEGORIES)), dtype=np.int64)
    has_call = call >= 0
    call_start = np.where(has_call, np.clip(table.start_ns[call], start, end), start)
    returned = table.start_ns[call] + table.dur_ns[call]
    call_end = np.where(has_call, np.clip(returned, call_start, end), start)
    # Before the call.
    *activities_ns, pieces[:, _UNRECORDED] = activity_times(trace, start, call_start, call)
    pieces[:, : len(ACTIVITIES)] = np.stack(activities_ns, axis=1)
    pieces[:, _HOST_NOTHING] = call_start - start - pieces.sum(axis=1)
    # Time inside the call, which may itself include waiting for work that is not in the file.
    pieces[:, _LAUNCH_CALL] = call_end - call_start
    long = np.flatnonzero(has_call & (table.dur_ns[call] > LONG_WAIT_NS))
    times_in_call = activity_times(trace, call_start[long], call_end[long], call[long])
    pieces[long, _LAUNCH_CALL] -= times_in_call[UNRECORDED_WAIT]
    pieces[long, _UNRECORDED] += times_in_call[UNRECORDED_WAIT]
    # After the call.
    wait = _wait_category(trace, gap, call, short_ns)
    pieces[np.arange(len(start)), wait] += end - call_end
    return pieces


def _wait_category(trace: Trace, gap: tuple[Ints, Ints], call: Ints, short_ns: int) -> Ints:
    """Return the category of each gap's time after the launch call returned."""
    returned = trace.table.start_ns[call] + trace.table.dur_ns[call]
    is_long = gap[1] - np.maximum(returned, gap[0]) >= short_ns
    return np.select(
        [
            call < 0,
            is_long & (_first_start_of_launches(trace)[call] < gap[0]),
            _is_host_blocked(trace, gap, call),
            is_long & follows_stream_wait(trace)[call],
            returned > gap[0],
            ~is_long,
        ],
        [_UNKNOWN, _UNRECORDED, _UNRECORDED, _STREAM_WAIT, _LAUNCH_LATENCY, _KERNEL_WAIT],
        _BLOCKED,
    )


@memoize
def unrecorded_work(trace: Trace) -> Intervals:
    """Return when a rank's device was probably busy with work that is not in the file.

    Times are on the clock of the rank's table; see ``unrecorded`` of `device_idle_breakdown`.
    """
    part = rank_part(trace, Selection())
    start, end = part.device_gaps()
    # Shorter gaps are never due to unrecorded work.
    is_long = end - start >= _SHORT_NS
    start, end = start[is_long], end[is_long]
    call = trace.launch_of[_ends_of_gaps(part, end)]
    start, end, call = (column[call >= 0] for column in (start, end, call))
    begin = np.maximum(start, trace.table.start_ns[call] + trace.table.dur_ns[call])
    unrecorded = Intervals.empty()
    for thread, waits in unrecorded_waits_by_thread(trace).items():
        is_launched = trace.table.track[call] == thread
        until_launched = union(start[is_launched], np.minimum(begin, end)[is_launched])
        unrecorded = unite(unrecorded, intersect(waits, until_launched))
    is_unrecorded = _wait_category(trace, (start, end), call, _SHORT_NS) == _UNRECORDED
    return unite(unrecorded, union(begin[is_unrecorded], end[is_unrecorded]))


def _is_host_blocked(trace: Trace, gap: tuple[Ints, Ints], call: Ints) -> Bools:
    """Return whether the host waited for the device for most of a long gap after the launch."""
    is_blocked = np.zeros(len(call), dtype=bool)
    gap_start, end = gap
    begin = np.maximum(trace.table.start_ns[call] + trace.table.dur_ns[call], gap_start)
    rows = np.flatnonzero((call >= 0) & (end - begin > LONG_WAIT_NS))
    if len(rows):
        # The waits of all threads are faster to find, and an upper bound for the waits of one.
        waiting = CumulativeCoverage(*union_of_waits(trace))
        rows = rows[2 * (waiting(end[rows]) - waiting(begin[rows])) > (end - begin)[rows]]
    if len(rows):
        times = activity_times(trace, begin[rows], end[rows], call[rows])
        waited_ns = times[IDLE_CATEGORIES.index("sync_wait")] + times[UNRECORDED_WAIT]
        is_blocked[rows] = 2 * waited_ns > (end - begin)[rows]
    return is_blocked


def times_not_idle(trace: Trace) -> tuple[Intervals, Intervals]:
    """Return times without recorded work that do not count as idle, on the rank's table clock.

    These are `unrecorded_work` and the times between recording windows.
    """
    return unrecorded_work(trace), rank_part(trace, Selection()).unrecorded


@memoize
def _first_start_of_launches(trace: Trace) -> Ints:
    first = np.full(len(trace) + 1, _NEVER, dtype=np.int64)
    work = trace_index(trace).rows_of_kinds(DEVICE_WORK_KINDS)
    # Work without a launch is written to position -1, which belongs to no event.
    np.minimum.at(first, trace.launch_of[work], trace.table.start_ns[work])
    first[-1] = _NEVER
    return first


def wait_for_first_work_ns(trace: Trace) -> int:
    """Return how long a rank's device is probably busy before its first work in the file.

    This is the case if the first work starts long after its launch, or if the host waits for the
    device before that. The device then runs work launched before the recording.
    """
    rows = device_work_rows(trace)
    if not len(rows):
        return 0
    table = trace.table
    first_ns = table.start_ns[rows[0]]
    waits = waits_without_recorded_work(trace)
    waits = waits[table.end_ns[waits] <= first_ns]
    waiting = union(table.start_ns[waits], table.end_ns[waits])
    call = trace.launch_of[rows[:1]]
    if call[0] >= 0 and first_ns - table.end_ns[call[0]] > LONG_WAIT_NS:
        waiting = unite(waiting, union(table.end_ns[call], table.start_ns[rows[:1]]))
    return total_length(waiting)


@check_arguments
def idle_time_breakdown(
    traces: TraceSet,
    *,
    consecutive_kernel_delay_ns: int = _SHORT_NS,
    streams: Iterable[int] | None = None,
    selection: Selection | None = None,
    window: Window | None = None,
    ranks: Iterable[int] | None = None,
) -> pd.DataFrame:
    """Return the idle time of each stream between its kernels, by cause.

    A gap is the time from the latest end of the stream's earlier work to the start of its next
    kernel, copy or fill. Its duration is 0 if these overlap. A gap belongs to one category:

    - ``host_wait``: the call that launched the next kernel began after the gap did, so the host was
      late.
    - ``kernel_wait``: otherwise, if the gap is shorter than `consecutive_kernel_delay_ns`, the time
      that a device needs between two kernels.
    - ``other``: otherwise, for example waits for other streams, or long gaps without a known
      launch.

    Time before the first and after the last kernel of a stream is excluded. A window clips gaps to
    its edges, so times of adjacent windows add up. `device_idle_breakdown` is for whole devices.

    Parameters
    ----------
    traces : TraceSet
    consecutive_kernel_delay_ns : int, default 30_000
        Gaps shorter than this are ``kernel_wait`` unless the host was late.
    streams : iterable of int, optional
        Restricts the result to these streams. Default: all.
    selection, window, ranks : Selection, (start_ns, end_ns), iterable of int, optional
        The events to analyze, restricted by time and ranks. Default: all.

    Returns
    -------
    DataFrame
        Three rows per rank and stream with device work or a gap in the window:

        - ``rank, stream`` (int64)
        - ``idle_category`` (categorical): ``host_wait, kernel_wait, other``
        - ``idle_ns`` (int64)
        - ``idle_share`` (float): of the stream's idle time, 0..1; NaN without idle time
        - ``gaps`` (int64): pairs of successive kernels in the category, including pairs without a
          gap between them

    Notes
    -----
    The definition follows HTA. In HTA, gaps begin at the end of the previous kernel, so they are
    negative if kernels of a stream overlap, and the start of a stream counts as ``other``.
    """
    chosen = rank_parts(traces, selection, window, ranks)
    schema = {"idle_ns": "int64", "idle_share": "float64", "gaps": "int64"}
    return _stream_frame(chosen, _stream_sums, schema, consecutive_kernel_delay_ns, streams)


@check_arguments
def idle_interval_stats(
    traces: TraceSet,
    *,
    consecutive_kernel_delay_ns: int = _SHORT_NS,
    streams: Iterable[int] | None = None,
    selection: Selection | None = None,
    window: Window | None = None,
    ranks: Iterable[int] | None = None,
) -> pd.DataFrame:
    """Return statistics of the gap durations on each stream, by category.

    Gaps, categories and parameters are defined by `idle_time_breakdown`.

    Parameters
    ----------
    traces : TraceSet
    selection, window, ranks : Selection, (start_ns, end_ns), iterable of int, optional
        The events to analyze, restricted by time and ranks. Default: all.

    Returns
    -------
    DataFrame
        Three rows per rank and stream with device work:

        - ``rank, stream`` (int64); ``idle_category`` (categorical)
        - ``count`` (int64): the ``gaps`` of `idle_time_breakdown`
        - ``mean_ns, std_ns`` (float): the standard deviation is that of a sample (ddof 1)
        - ``min_ns, p25_ns, p50_ns, p75_ns, max_ns`` (float): quartiles are interpolated

        Floats are NaN if there are too few gaps.
    """
    chosen = rank_parts(traces, selection, window, ranks)
    schema = {"count": "int64", **dict.fromkeys(_STATS, "float64")}
    return _stream_frame(chosen, _stream_statistics, schema, consecutive_kernel_delay_ns, streams)


def _stream_frame(
    chosen: RankParts,
    function: _Measures,
    schema: Schema,
    short_ns: int,
    streams: Iterable[int] | None,
) -> pd.DataFrame:
    wanted = None if streams is None else sorted({int(stream) for stream in streams})
    columns_of_ranks = list(map_ranks(chosen, _stream_columns, function, short_ns, wanted))
    column = stack_blocks(columns_of_ranks, {**int64("rank stream idle_category"), **schema})
    column["idle_category"] = categorical(column["idle_category"], _CATEGORIES)
    none = "no device work is selected: no stream has kernels or copies"
    note = "" if len(column["rank"]) else none
    return result_frame(column, matched=count_by_kind(chosen), note=note)


def _stream_columns(
    part: RankPart, function: _Measures, short_ns: int, wanted: list[int] | None
) -> dict[str, Any]:
    streams, cell, length = _stream_gaps(part, short_ns, wanted)
    size = len(_CATEGORIES)
    return {
        "rank": part.rank,
        "stream": streams.repeat(size),
        "idle_category": np.tile(np.arange(size), len(streams)),
        **function(cell, len(streams) * size, length),
    }


def _stream_sums(cell: Ints, cells: int, length: Ints) -> Columns:
    size, time = len(_CATEGORIES), sum_by_group(cell, length, cells)
    of_stream = time.reshape(-1, size).sum(axis=1).repeat(size)
    share = time / np.where(of_stream > 0, of_stream, np.nan)
    return {"idle_ns": time, "idle_share": share, "gaps": np.bincount(cell, minlength=cells)}


def _stream_statistics(cell: Ints, cells: int, length: Ints) -> Columns:
    return dict(zip(("count", *_STATS), describe(cell, cells, length).values(), strict=True))


def _stream_gaps(
    part: RankPart, short_ns: int, wanted: list[int] | None
) -> tuple[Ints, Ints, Ints]:
    """Return a rank's streams, and each gap's cell and duration.

    A cell combines stream and category: stream position times number of categories, plus category.
    """
    table = part.table
    rows = part.without_window.device_work_rows()
    rows = rows[table.stream[rows] >= 0]
    if wanted is not None:
        rows = rows[np.isin(table.stream[rows], wanted)]
    streams, stream = np.unique(table.stream[rows], return_inverse=True)
    order, bounds = order_and_bounds(stream, len(streams))
    rows, stream = rows[order], stream[order].astype(np.int64)
    start = table.start_ns[rows]
    latest_end = start + table.dur_ns[rows]
    for low, high in pairwise(bounds.tolist()):
        np.maximum.accumulate(latest_end[low:high], out=latest_end[low:high])
    window = np.searchsorted(part.trace.recorded_marks_ns, start, "right")
    # A gap separates two successive events of a stream within the same recording window.
    before = np.flatnonzero((stream[1:] == stream[:-1]) & (window[1:] == window[:-1]))
    gap_start, gap_end, ends_gap = latest_end[before], start[before + 1], rows[before + 1]
    length = np.maximum(gap_end - gap_start, 0)
    call = part.trace.launch_of[ends_gap]
    is_late = (call >= 0) & (table.start_ns[call] > gap_start)
    category = np.select([is_late, length < short_ns], [0, 1], 2)  # as in `_CATEGORIES`
    if part.without_window is part:
        return streams.astype(np.int64), stream[before] * len(_CATEGORIES) + category, length
    low_ns, high_ns = part.clip_edges(gap_start, gap_end)
    # A gap of 0 ns is included if it lies in the window.
    has_begun = np.ones(len(gap_end), dtype=bool) if part.low is None else gap_end >= part.low
    is_inside = (high_ns > low_ns) | ((length == 0) & part.contains(ends_gap) & has_begun)
    stream_of_gap = stream[before[is_inside]]
    present = np.union1d(stream_of_gap, stream[part.contains(rows)])
    cell = np.searchsorted(present, stream_of_gap) * len(_CATEGORIES) + category[is_inside]
    return streams[present].astype(np.int64), cell, np.maximum(high_ns - low_ns, 0)[is_inside]
