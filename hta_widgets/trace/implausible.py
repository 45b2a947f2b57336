"""Times that cannot be right: far from all others, or of device work that outlasts later work.

A device stream works in order. Here the copy states 3 s, though the kernels after it end earlier::

    stream 7   [copy ..................................................
                     [kernel] [kernel] [kernel] [kernel]

So the copy ended before the first kernel began, and its duration is cut there. Neighbors may
overlap if they end in order: with programmatic dependent launch a kernel begins before the one
before it ends.

A time of 0 among times since 1970 is 50 years away from a job of a second. Such records are left
out, since the job would last 50 years with them. Both are counted, with names and places.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from hta_widgets.taxonomy import is_stream_work
from hta_widgets.trace.arrays import (
    Array,
    Bools,
    Ints,
    Rows,
    compact_codes,
    event_order,
    order_and_bounds,
    positions_of_rows,
)
from hta_widgets.trace.columns import RankColumns
from hta_widgets.trace.problems import Problems

#: Times are near the job if they are nearer than this, or than this many times the job's length.
_NEAR_NS = 3_600_000_000_000
_NEAR_LENGTHS = 1000
#: A group of times is far although it has more of the different times than this share of the
#: job's, if it is farther away than no job pauses.
_FEW = 0.01
_LONGEST_PAUSE_NS = 30 * 24 * _NEAR_NS
#: Minimum number of different times that show where the job is.
_KNOWN_TIMES = 3
_EVERYTHING = -(1 << 62), 1 << 62

#: Neighbors may end in the wrong order by this much.
_JITTER_NS = 10_000
#: Neighbors that are dependent launches do not overlap for longer.
_LONG_OVERLAP_NS = 1_000_000
#: A stream does not work in order if more of its events than this number and share outlast others.
_MANY, _MANY_SHARE = 2, 1 / 3
#: No order explains events that outlast all others by this many times the length of these.
_MAX_LENGTHS = 4

_NAMED = 3
_NAME_LENGTH = 60


def exclude_far_records(
    columns: RankColumns, by_phase: dict[str, Rows], problems: Problems
) -> None:
    """Remove rows from `by_phase` whose times are far from the events."""
    starts = {letters: columns.start_ns[rows] for letters, rows in by_phase.items()}
    events = np.concatenate((starts["X"], starts["BE"])) if len(by_phase["BE"]) else starts["X"]
    low, high = _near_job(events if len(events) else starts["bneSTF"])
    for letters, rows in by_phase.items():
        start = starts[letters]
        if len(rows) and (start.min() < low or start.max() > high):
            is_near = (start >= low) & (start <= high)
            text = "times far from all others; left out"
            _count(columns, columns.name, columns.record, rows[~is_near], text, problems)
            by_phase[letters] = rows[is_near]


def _near_job(times: Ints) -> tuple[int, int]:
    """Return the bounds of the times that are near the job, given when its events start."""
    if len(times) < _KNOWN_TIMES:
        return _EVERYTHING
    earliest, latest = int(times.min()), int(times.max())
    if not ((times > earliest) & (times < latest)).any():  # fewer than three different times
        return _EVERYTHING
    if latest - earliest <= _NEAR_NS:
        reach = max(_NEAR_NS, _NEAR_LENGTHS * (latest - earliest))
        return max(earliest - reach, _EVERYTHING[0]), min(latest + reach, _EVERYTHING[1])
    distinct = np.unique(times)
    cut = np.flatnonzero(np.diff(distinct) > _NEAR_NS)
    first, last = np.append(0, cut + 1), np.append(cut, len(distinct) - 1)
    low, high, count = distinct[first], distinct[last], last - first + 1
    job = len(count) - 1 - int(count[::-1].argmax())
    if count[job] < _KNOWN_TIMES:
        return _EVERYTHING
    length = int(high[job] - low[job])
    reach = max(_NEAR_NS, _NEAR_LENGTHS * length)
    distance = np.maximum(low - high[job], low[job] - high)
    is_small = count <= max(1, _FEW * int(count[job]))
    longer = np.maximum(high - low, length).astype(np.float64)
    is_other = distance > np.maximum(_LONGEST_PAUSE_NS, _NEAR_LENGTHS * longer)
    near_rows = np.flatnonzero(~((distance > reach) & (is_small | is_other)))
    return (
        max(int(low[near_rows[0]]) - reach, _EVERYTHING[0]),
        min(int(high[near_rows[-1]]) + reach, _EVERYTHING[1]),
    )


def repair_durations(
    columns: RankColumns, events: dict[str, Any], end_record: dict[int, int], problems: Problems
) -> dict[int, int]:
    """Cut or leave out events whose durations cannot be right, and keep the order of the others.

    `events` has the columns of the event table, sorted. Returns `end_record` for the new rows.
    """
    stated = events["dur_ns"]
    dur = _clip_outlasting(columns, events, problems)
    is_near = _ends_near(columns, events, dur, problems)
    if dur is stated and is_near is None:
        return end_record
    events["dur_ns"] = dur
    order = event_order(events["start_ns"], dur)
    if is_near is not None:
        order = order[is_near[order]]
    place = positions_of_rows(order, len(dur))
    for name, values in events.items():
        events[name] = values[order]
    return {int(place[row]): record for row, record in end_record.items()}


def _ends_near(
    columns: RankColumns, events: dict[str, Any], dur: Ints, problems: Problems
) -> Bools | None:
    """Return which events end near the job; None if all do."""
    if dur.max(initial=0) <= _NEAR_NS:
        return None
    start = events["start_ns"]
    _, high = _near_job(start)
    # The end of a pair is a record of its own, whose time was checked.
    is_near: Bools = (dur <= high - start) | (events["phase"] != 0)
    text = "durations that end far from all other times; left out"
    _count(columns, events["name"], events["record"], np.flatnonzero(~is_near), text, problems)
    return None if is_near.all() else is_near


def _clip_outlasting(columns: RankColumns, events: dict[str, Any], problems: Problems) -> Ints:
    """Return durations, with those cut that outlast later work of their stream."""
    dur: Ints = events["dur_ns"]
    is_work = np.array([is_stream_work(text) for text in columns.categories.values], np.bool_)
    if not is_work.any():
        return dur
    # Events without length, such as those of a negative one, show nothing about others.
    work = np.flatnonzero(is_work[events["category"]] & (dur > 0))
    threads = len(columns.tids)
    slot = events["pid"][work].astype(np.int64) * threads + events["tid"][work]
    code, slots = compact_codes(slot, len(columns.pids) * threads)
    by_stream, bounds = order_and_bounds(code, len(slots))
    work, code = work[by_stream], code[by_stream]
    begin = events["start_ns"][work]
    end = begin + dur[work]
    jitter = max(_JITTER_NS, columns.resolution_ns)
    suspicious = (end[1:] < end[:-1] - jitter) | (begin[1:] < end[:-1] - _LONG_OVERLAP_NS)
    outlasts = np.flatnonzero(suspicious & (code[1:] == code[:-1]))
    if not len(outlasts):
        return dur
    clipped = dur.copy()
    changed = [np.empty(0, np.int64)]
    for stream in np.unique(code[outlasts]).tolist():
        low, high = int(bounds[stream]), int(bounds[stream + 1])
        wrong, until = _outlasting(begin[low:high], end[low:high], jitter)
        clipped[work[low + wrong]] = until - begin[low + wrong]
        changed.append(work[low + wrong])
    rows = np.sort(np.concatenate(changed))
    if not len(rows):
        return dur
    text = "durations that outlast later work of their stream; cut at its start"
    _count(columns, events["name"], events["record"], rows, text, problems)
    return clipped


def _outlasting(begin: Ints, end: Ints, jitter: int) -> tuple[Rows, Ints]:
    """Return the events of a stream whose ends are wrong, and where they end at the latest.

    These end after later ones, or long after all others, and are cut at the start of the next one.
    Last events that are as long as a cut one are cut at their own start.
    """
    first_end = np.minimum.accumulate(end[::-1])[::-1]
    is_disproved = end[:-1] > first_end[1:] + jitter
    wrong = np.flatnonzero(is_disproved | (end[:-1] > begin[1:] + _LONG_OVERLAP_NS))
    following = np.searchsorted(begin, begin[wrong], "right")
    next_start = begin[np.minimum(following, len(begin) - 1)]
    until = np.where(following < len(begin), next_start, first_end[wrong + 1])
    dur = end - begin
    is_last = 2 * dur >= dur[wrong].max(initial=0)
    is_last[wrong] = False
    in_order = ~is_last
    in_order[wrong] = False
    limit = _EVERYTHING[1]
    if np.count_nonzero(in_order) >= _KNOWN_TIMES:
        last_end = int(end[in_order].max())
        limit = last_end + _MAX_LENGTHS * (last_end - int(begin[0]))
    is_beyond = end[wrong] > limit
    last = np.flatnonzero(is_last & (end > limit)) if is_beyond.any() else wrong[:0]
    are_few = np.count_nonzero(is_disproved) <= max(_MANY, _MANY_SHARE * len(begin))
    is_cut = is_beyond | (is_disproved[wrong] & are_few)
    return np.append(wrong[is_cut], last), np.append(until[is_cut], begin[last])


def _count(
    columns: RankColumns, name: Array, record: Ints, rows: Rows, text: str, problems: Problems
) -> None:
    """Count records, with the names and places of some."""
    named = [
        f"{columns.names[name[row]][:_NAME_LENGTH]!r} (record {int(record[row]):,})"
        for row in rows[:_NAMED].tolist()
    ]
    more_text = f" and {len(rows) - _NAMED:,} more" if len(rows) > _NAMED else ""
    problems.add("overflow", len(rows), f"{text}: {', '.join(named)}{more_text}")
