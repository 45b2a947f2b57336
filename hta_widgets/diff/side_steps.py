"""Which steps a selection of a rank holds whole, and from when to when each runs."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from hta_widgets.analysis.scope import Part
from hta_widgets.analysis.step_times import host_steps
from hta_widgets.trace.table import KINDS
from hta_widgets.formats.byteps.byteps import worker_rows

__all__ = ["steps_within", "whole"]

Ints = npt.NDArray[np.int64]

_OTHER = KINDS.index("other")


def steps_within(part: Part) -> tuple[Ints, Ints]:
    """Return numbers and bounds of the steps that the selection holds whole.

    Of BytePS, whose files hold no more of a step than its synchronisations, a step lasts from the
    first of them to the first of the next step; the last one, whose end no file tells, is left out
    where there are others.
    """
    table = part.table
    if part.trace.format == "byteps":
        numbers, start, end = _iterations(part)
    else:
        whole_rank = Part(part.trace, np.arange(len(table)), None, None)
        numbers, start, end = host_steps(whole_rank)
    kept = np.isin(numbers, np.unique(table.step[part.rows]))
    if part.low is not None:
        kept &= start >= part.low
    if part.high is not None:
        kept &= end <= part.high
    bounds = np.stack([start, end], axis=1) + part.trace.shift_ns
    return numbers[kept], bounds[kept]


def whole(part: Part) -> Ints:
    """Return the window, or where it is open, from the first to the last event, (1, 2)."""
    table = part.table
    rows = part.rows[table.kind[part.rows] != _OTHER]
    rows = rows if len(rows) else part.rows
    first = int(table.start_ns[rows].min()) if len(rows) else 0
    last = int(table.end_ns[rows].max()) if len(rows) else first
    low = first if part.low is None else part.low
    high = max(last if part.high is None else part.high, low)
    return np.array([[low, high]], dtype=np.int64) + part.trace.shift_ns


def _iterations(part: Part) -> tuple[Ints, Ints, Ints]:
    totals = worker_rows(part.trace).totals
    lasting = totals.dur_ns > 0
    numbers, at = np.unique(totals.step[lasting], return_inverse=True)
    start = np.full(len(numbers), np.iinfo(np.int64).max, dtype=np.int64)
    end = np.full(len(numbers), np.iinfo(np.int64).min, dtype=np.int64)
    np.minimum.at(start, at, totals.start_ns[lasting])
    np.maximum.at(end, at, totals.start_ns[lasting] + totals.dur_ns[lasting])
    if len(numbers) > 1:
        numbers, start, end = numbers[:-1], start[:-1], start[1:]
    rising = end > start
    return numbers[rising].astype(np.int64), start[rising], end[rising]
