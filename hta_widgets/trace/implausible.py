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

import numpy as np

from hta_widgets.taxonomy import is_stream_work
from hta_widgets.trace.arrays import Bools, Ints, Rows, compact_codes, order_and_bounds
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
#: A stream does not work in order if more of its events than this number and share outlast others.
_MANY, _MANY_SHARE = 2, 1 / 3

_NAMED = 3
_NAME_LENGTH = 60


def exclude_far_records(
    columns: RankColumns, by_phase: dict[str, Rows], problems: Problems
) -> None:
    """Remove rows from `by_phase` whose times are far from those of the events."""
    events = np.concatenate((by_phase["X"], by_phase["BE"]))
    if not len(events):
        events = by_phase["bneSTF"]
    low, high = _near_job(columns.start_ns[events])
    for letters, rows in by_phase.items():
        start = columns.start_ns[rows]
        if len(rows) and (start.min() < low or start.max() > high):
            near = (start >= low) & (start <= high)
            _count(columns, rows[~near], "times far from all others; left out", problems)
            by_phase[letters] = rows[near]


def ends_near(columns: RankColumns, rows: Rows, dur: Ints, problems: Problems) -> Bools | None:
    """Return which events end near the job; None if all do."""
    if dur.max(initial=0) <= _NEAR_NS:
        return None
    start = columns.start_ns[rows]
    _, high = _near_job(start)
    near: Bools = dur <= high - start
    _count(columns, rows[~near], "durations that end far from all other times; left out", problems)
    return None if near.all() else near


def _near_job(times: Ints) -> tuple[int, int]:
    """Return the bounds of the times that are near the job, given when its events start."""
    if not len(times):
        return _EVERYTHING
    distinct = np.unique(times)
    if len(distinct) < _KNOWN_TIMES:
        return _EVERYTHING
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
    near = np.flatnonzero(~((distance > reach) & (is_small | is_other)))
    return (
        max(int(low[near[0]]) - reach, _EVERYTHING[0]),
        min(int(high[near[-1]]) + reach, _EVERYTHING[1]),
    )


def clip_outlasting(
    columns: RankColumns, rows: Rows, dur: Ints, order: Rows, problems: Problems
) -> Ints:
    """Return the durations of events with those cut that outlast later work of their stream.

    `order` sorts the events by their starts.
    """
    is_work = np.array([is_stream_work(text) for text in columns.categories.values], np.bool_)
    if not is_work.any():
        return dur
    work = order[is_work[columns.category[rows[order]]]]
    at = rows[work]
    threads = len(columns.tids)
    slot = columns.pid[at].astype(np.int64) * threads + columns.tid[at]
    code, slots = compact_codes(slot, len(columns.pids) * threads)
    by_stream, bounds = order_and_bounds(code, len(slots))
    work, code = work[by_stream], code[by_stream]
    begin = columns.start_ns[rows[work]]
    end = begin + dur[work]
    jitter = max(_JITTER_NS, columns.resolution_ns)
    outlasts = np.flatnonzero((end[1:] < end[:-1] - jitter) & (code[1:] == code[:-1]))
    if not len(outlasts):
        return dur
    clipped = dur.copy()
    changed = []
    for stream in np.unique(code[outlasts]).tolist():
        low, high = int(bounds[stream]), int(bounds[stream + 1])
        wrong, until = _outlasting(begin[low:high], end[low:high], jitter)
        if len(wrong) <= max(_MANY, _MANY_SHARE * (high - low)):
            clipped[work[low + wrong]] = until - begin[low + wrong]
            changed.append(work[low + wrong])
    if changed:
        text = "durations that outlast later work of their stream; cut at its start"
        _count(columns, rows[np.concatenate(changed)], text, problems)
    return clipped


def _outlasting(begin: Ints, end: Ints, jitter: int) -> tuple[Rows, Ints]:
    """Return the events of a stream that end after later ones, and the start of the next one."""
    first_end = np.minimum.accumulate(end[::-1])[::-1]
    wrong = np.flatnonzero(end[:-1] > first_end[1:] + jitter)
    following = np.searchsorted(begin, begin[wrong], "right")
    next_start = begin[np.minimum(following, len(begin) - 1)]
    return wrong, np.where(following < len(begin), next_start, first_end[wrong + 1])


def _count(columns: RankColumns, rows: Rows, text: str, problems: Problems) -> None:
    """Count records, with the names and places of some."""
    named = [
        f"{columns.names[columns.name[row]][:_NAME_LENGTH]!r} (record {int(columns.record[row]):,})"
        for row in rows[:_NAMED].tolist()
    ]
    more = f" and {len(rows) - _NAMED:,} more" if len(rows) > _NAMED else ""
    problems.add("overflow", len(rows), f"{text}: {', '.join(named)}{more}")
