"""Detects impossible times: far from all others, or after device work must have ended.

A device stream executes in order. In this example the copy states a duration of 3 s, but the
kernels after it end earlier::

    stream 7   [copy ..................................................
                     [kernel] [kernel] [kernel] [kernel]

Hence the copy ended before the first kernel began, and its duration is clipped there. Neighbors may
overlap if they end in order: with programmatic dependent launch, a kernel begins before the
previous one ends.

A call such as ``cudaDeviceSynchronize`` returns after all work that was launched before it. If such
work states an end far after all host events, it is clipped at the end of the call. Work is likewise
clipped at the record ``Record Window End``, because PyTorch's profiler writes no work that ends
later.

If times count from 1970, a record at time 0 is excluded, because the job would otherwise last 50
years. All such records are counted as problems, with names and record numbers.
"""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from hta_widgets.taxonomy import is_device_category, is_stream_work
from hta_widgets.trace.arrays import (
    Array,
    Bools,
    Ints,
    Rows,
    distinct_codes,
    event_order,
    mask_of_rows,
    order_and_bounds,
    positions_of_rows,
)
from hta_widgets.trace.columns import RankColumns
from hta_widgets.trace.problems import Problems

_HOUR_NS = 3_600_000_000_000
#: Times are near the job if they are within an hour of it, or within this multiple of its length.
_NEAR_LENGTHS = 1000
#: A group of far times is excluded if it has at most this share of the job's distinct times. Groups
#: farther away than any pause of a job are always excluded.
_SMALL_SHARE = 0.01
_LONGEST_PAUSE_NS = 30 * 24 * _HOUR_NS
#: Minimum number of distinct times for locating the job.
_MIN_TIMES = 3
_EVERYTHING = -(1 << 62), 1 << 62

#: Neighbors may end in the wrong order by up to this time.
_JITTER_NS = 10_000
#: Longest overlap of a kernel with its dependent launch.
_MAX_OVERLAP_NS = 1_000_000
#: A stream executes in order if at most this number or share of its events outlast later ones.
_MAX_DISORDERED, _MAX_DISORDERED_SHARE = 2, 1 / 3
#: An event is clipped if it ends later than the others by more than this multiple of their span.
#: `_outlasting` applies this even to streams that do not execute in order, `_clip_at_syncs` to work
#: for which a call waited.
_MAX_LENGTHS = 4

_DISORDERED = (
    "device events outlast later ones of their stream, although streams run in order; the file may"
    " mix the work of several processes, and overlapping time counts once"
)
#: Calls that wait for all work on their device.
_DEVICE_SYNC = re.compile(r"(device|ctx|context)_?synchronize|synchronize_?device", re.IGNORECASE)

#: Number of records that a problem names, and the maximum length of a name.
_NAMED_RECORDS = 3
_NAME_LENGTH = 60


def exclude_far_records(
    columns: RankColumns, by_phase: dict[str, Rows], problems: Problems
) -> None:
    """Remove rows from `by_phase` whose times are far from the events."""
    starts = {letters: columns.start_ns[rows] for letters, rows in by_phase.items()}
    events = np.concatenate((starts["X"], starts["BE"])) if len(by_phase["BE"]) else starts["X"]
    low, high = _near_job(events if len(events) else starts["beSF"])
    for letters, rows in by_phase.items():
        start = starts[letters]
        if len(rows) and (start.min() < low or start.max() > high):
            is_near = (start >= low) & (start <= high)
            text = "times far from all others; left out"
            _count(columns, columns.name, columns.record, rows[~is_near], text, problems)
            by_phase[letters] = rows[is_near]


def _near_job(times: Ints) -> tuple[int, int]:
    """Return the bounds of times near the job; its events start at `times`.

    Times less than an hour apart form a group. The job is the group with the most distinct times,
    or the last of several such groups.
    """
    if len(times) < _MIN_TIMES:
        return _EVERYTHING
    earliest, latest = int(times.min()), int(times.max())
    if not ((times > earliest) & (times < latest)).any():  # fewer than three distinct times
        return _EVERYTHING
    if latest - earliest <= _HOUR_NS:
        return _widen(earliest, latest, latest - earliest)
    distinct = np.unique(times)
    cut = np.flatnonzero(np.diff(distinct) > _HOUR_NS)
    first, last = np.append(0, cut + 1), np.append(cut, len(distinct) - 1)
    low, high, count = distinct[first], distinct[last], last - first + 1
    job = len(count) - 1 - int(count[::-1].argmax())
    if count[job] < _MIN_TIMES:
        return _EVERYTHING
    length_ns = int(high[job] - low[job])
    distance = np.maximum(low - high[job], low[job] - high)
    is_small = count <= max(1, _SMALL_SHARE * int(count[job]))
    longer = np.maximum(high - low, length_ns).astype(np.float64)
    is_other_run = distance > np.maximum(_LONGEST_PAUSE_NS, _NEAR_LENGTHS * longer)
    is_far = distance > max(_HOUR_NS, _NEAR_LENGTHS * length_ns)
    near_groups = np.flatnonzero(~(is_far & (is_small | is_other_run)))
    return _widen(int(low[near_groups[0]]), int(high[near_groups[-1]]), length_ns)


def _widen(low: int, high: int, length_ns: int) -> tuple[int, int]:
    """Return the bounds of times near a range that contains a job of this length."""
    margin = max(_HOUR_NS, _NEAR_LENGTHS * length_ns)
    return max(low - margin, _EVERYTHING[0]), min(high + margin, _EVERYTHING[1])


def repair_durations(
    columns: RankColumns,
    events: dict[str, Any],
    end_record: dict[int, int],
    problems: Problems,
    *,
    window_end_ns: int | None,
) -> dict[int, int]:
    """Clip or exclude events with impossible durations, and sort the events again.

    `events` has the sorted columns of the event table. `window_end_ns` is the time at which the
    profiler stopped, if the file states it. Returns `end_record` for the new rows.
    """
    recorded_dur = events["dur_ns"]
    dur = _clip_outlasting(columns, events, problems)
    dur = _clip_at_syncs(columns, events, dur, problems)
    if window_end_ns is not None:
        dur = _clip_at_window_end(columns, events, dur, window_end_ns, problems)
    is_near = _ends_near(columns, events, dur, problems)
    if dur is recorded_dur and is_near is None:
        return end_record
    events["dur_ns"] = dur
    order = event_order(events["start_ns"], dur)
    if is_near is not None:
        order = order[is_near[order]]
    new_row = positions_of_rows(order, len(dur))
    for name, values in events.items():
        events[name] = values[order]
    return {int(new_row[row]): record for row, record in end_record.items() if new_row[row] >= 0}


def _ends_near(
    columns: RankColumns, events: dict[str, Any], dur: Ints, problems: Problems
) -> Bools | None:
    """Return which events end near the job; None if all do."""
    if dur.max(initial=0) <= _HOUR_NS:
        return None
    start = events["start_ns"]
    _, high = _near_job(start)
    # The end of a pair is a separate record, whose time was checked before.
    is_near: Bools = (dur <= high - start) | (events["phase"] != 0)
    text = "events that end far from all other times; left out"
    _count(columns, events["name"], events["record"], np.flatnonzero(~is_near), text, problems)
    return None if is_near.all() else is_near


def _clip_outlasting(columns: RankColumns, events: dict[str, Any], problems: Problems) -> Ints:
    """Return the durations, clipping those that outlast later work of their stream."""
    dur: Ints = events["dur_ns"]
    is_work = np.array([is_stream_work(text) for text in columns.categories.values], np.bool_)
    if not is_work.any():
        return dur
    # The end of an event without duration may be as wrong as its duration.
    work = np.flatnonzero(is_work[events["category"]] & (dur > 0))
    thread = events["pid"][work].astype(np.int64) * len(columns.tids) + events["tid"][work]
    used_threads, stream = distinct_codes(thread)
    by_stream, bounds = order_and_bounds(stream, len(used_threads))
    work, stream = work[by_stream], stream[by_stream]
    begin = events["start_ns"][work]
    end = begin + dur[work]
    jitter_ns = max(_JITTER_NS, columns.resolution_ns)
    # Neighbors that end in the wrong order, or overlap more than dependent launch explains.
    is_suspicious = (end[1:] < end[:-1] - jitter_ns) | (begin[1:] < end[:-1] - _MAX_OVERLAP_NS)
    suspicious = np.flatnonzero(is_suspicious & (stream[1:] == stream[:-1]))
    if not len(suspicious):
        return dur
    clipped = dur.copy()
    clipped_rows = [np.empty(0, np.int64)]
    disordered = 0
    for number in np.unique(stream[suspicious]).tolist():
        low, high = int(bounds[number]), int(bounds[number + 1])
        # `wrong` has positions relative to `low`.
        wrong, latest_end, kept = _outlasting(begin[low:high], end[low:high], jitter_ns)
        disordered += kept
        clipped[work[low + wrong]] = latest_end - begin[low + wrong]
        clipped_rows.append(work[low + wrong])
    problems.add("overlap", disordered, _DISORDERED)
    rows = np.sort(np.concatenate(clipped_rows))
    if not len(rows):
        return dur
    text = "durations that outlast later work of their stream; cut at its start"
    _count(columns, events["name"], events["record"], rows, text, problems)
    return clipped


def _clip_at_syncs(
    columns: RankColumns, events: dict[str, Any], dur: Ints, problems: Problems
) -> Ints:
    """Return `dur`, clipping work with an end far after a call of the host that waited for it."""
    start = events["start_ns"]
    is_device_code = [is_device_category(text) for text in columns.categories.values]
    # The additional last entry allows indexing for files without categories.
    on_device = np.array([*is_device_code, False], np.bool_)[events["category"]]
    if on_device.all() or not on_device.any():
        return dur
    end = start + dur
    last_host_ns = int(end[~on_device].max())
    limit = last_host_ns + _MAX_LENGTHS * (last_host_ns - int(start[0]))
    suspects = np.flatnonzero(on_device & (end > limit) & (start < last_host_ns))
    # A call waits for only one device.
    if not len(suspects) or len(np.unique(events["pid"][on_device])) > 1:
        return dur
    names = [code for code, text in enumerate(columns.names.values) if _DEVICE_SYNC.search(text)]
    syncs = np.flatnonzero(~on_device & np.isin(events["name"], names))
    launched_ns = _launch_times(start, end, events["correlation"], ~on_device, suspects)
    # The earliest end among each call and all later calls; the last entry is for work without a
    # call.
    ends = np.append(end[syncs], _EVERYTHING[1])
    earliest_ends = np.minimum.accumulate(ends[::-1])[::-1]
    synced_ns = earliest_ends[np.searchsorted(start[syncs], launched_ns)]
    is_cut = (synced_ns > start[suspects]) & (synced_ns < end[suspects])
    rows = suspects[is_cut]
    if not len(rows):
        return dur
    clipped = dur.copy()
    clipped[rows] = synced_ns[is_cut] - start[rows]
    text = "durations that outlast a call that waited for their device; cut at its end"
    _count(columns, events["name"], events["record"], rows, text, problems)
    return clipped


def _clip_at_window_end(
    columns: RankColumns, events: dict[str, Any], dur: Ints, window_end_ns: int, problems: Problems
) -> Ints:
    start = events["start_ns"]
    latest_end_ns = window_end_ns + max(_JITTER_NS, columns.resolution_ns)
    late = np.flatnonzero((start < window_end_ns) & (start + dur > latest_end_ns))
    categories = columns.categories.values
    is_device = [is_device_category(categories[code]) for code in events["category"][late].tolist()]
    rows = late[np.array(is_device, np.bool_)]
    if not len(rows):
        return dur
    clipped = dur.copy()
    clipped[rows] = window_end_ns - start[rows]
    text = "durations that end after the profiler stopped; cut there"
    _count(columns, events["name"], events["record"], rows, text, problems)
    return clipped


def _launch_times(
    start: Ints, end: Ints, correlation: Ints, on_host: Bools, rows: Rows
) -> list[int]:
    """Return the end of the call that launched each event, or the event's start if earlier."""
    has_id = (correlation != 0) & (correlation != -1)
    calls = np.flatnonzero(on_host & has_id & np.isin(correlation, correlation[rows]))
    calls = calls[np.argsort(-end[calls])]  # if an id repeats, the dict keeps its earliest end
    end_of_call = dict(zip(correlation[calls].tolist(), end[calls].tolist(), strict=True))
    pairs = zip(correlation[rows].tolist(), start[rows].tolist(), strict=True)
    return [min(start_ns, end_of_call.get(number, start_ns)) for number, start_ns in pairs]


def _outlasting(begin: Ints, end: Ints, jitter_ns: int) -> tuple[Rows, Ints, int]:
    """Return the events of a stream with impossible ends, and the latest possible end of each.

    The last result is the number of other events that outlast a later event of the stream.

    A suspect is an event that ends after a later one, or long after the next one begins. It is
    clipped at the start of the next event if the stream otherwise executes in order, or if it ends
    far beyond the events that are not suspects. In the latter case, other events that end there and
    are as long as suspects, such as the last one, are clipped to no duration.
    """
    first_end = np.minimum.accumulate(end[::-1])[::-1]  # of each event and all later ones
    is_disproved = end[:-1] > first_end[1:] + jitter_ns
    suspects = np.flatnonzero(is_disproved | (end[:-1] > begin[1:] + _MAX_OVERLAP_NS))
    following = np.searchsorted(begin, begin[suspects], "right")
    next_start = begin[np.minimum(following, len(begin) - 1)]
    latest_end = np.where(following < len(begin), next_start, first_end[suspects + 1])
    dur = end - begin
    is_suspect = mask_of_rows(suspects, len(begin))
    is_as_long = ~is_suspect & (2 * dur >= dur[suspects].max(initial=0))
    is_plausible = ~is_suspect & ~is_as_long
    # Ends beyond `limit` are far from the plausible ends. A few plausible ends do not set a limit.
    limit = _EVERYTHING[1]
    if np.count_nonzero(is_plausible) >= _MIN_TIMES:
        last_end = int(end[is_plausible].max())
        limit = last_end + _MAX_LENGTHS * (last_end - int(begin[0]))
    is_beyond = end[suspects] > limit
    as_long = np.flatnonzero(is_as_long & (end > limit)) if is_beyond.any() else suspects[:0]
    max_disordered = max(_MAX_DISORDERED, _MAX_DISORDERED_SHARE * len(begin))
    works_in_order = np.count_nonzero(is_disproved) <= max_disordered
    is_cut = is_beyond | (is_disproved[suspects] & works_in_order)
    rows = np.append(suspects[is_cut], as_long)
    kept = int(np.count_nonzero(is_disproved[suspects] & ~is_cut))
    return rows, np.append(latest_end[is_cut], begin[as_long]), kept


def _count(
    columns: RankColumns, name: Array, record: Ints, rows: Rows, text: str, problems: Problems
) -> None:
    """Count records as a problem, with names and record numbers of the first few."""
    named = [
        f"{columns.names[name[row]][:_NAME_LENGTH]!r} (record {int(record[row]):,})"
        for row in rows[:_NAMED_RECORDS].tolist()
    ]
    more = len(rows) - len(named)
    more_text = f" and {more:,} more" if more else ""
    problems.add("overflow", len(rows), f"{text}: {', '.join(named)}{more_text}")
