"""When each rank arrives at a collective, and which rank is last.

For example, four ranks arrive at 10, 14, 14 and 30 ns. The last arrival is that of rank 3 at 30 ns,
and the ranks wait for 20, 16, 16 and 0 ns. If two ranks arrive last at once, ``last_rank`` is -1.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from hta_widgets.analysis.cross_rank.clock_fit import clock_fit, drift_by_entry
from hta_widgets.analysis.cross_rank.comm_events import recorded_shift
from hta_widgets.analysis.cross_rank.matching import Matching
from hta_widgets.taxonomy import KINDS
from hta_widgets.trace.arrays import Bools, Ints
from hta_widgets.trace.intervals import CumulativeCoverage, Intervals, union
from hta_widgets.trace.memo import memoize
from hta_widgets.trace.trace import Trace
from hta_widgets.trace.traceset import TraceSet

Clock = Literal["host", "fitted"]


@dataclass(frozen=True, slots=True, eq=False)
class Arrivals:
    """Times of the entries of a `Matching`, on one clock."""

    shifts_ns: Ints
    arrival_ns: Ints
    end_ns: Ints
    last_ns: Ints
    last_rank: Ints
    is_last: Bools

    @property
    def wait_ns(self) -> Ints:
        """Time from each arrival to the last."""
        return self.last_ns - self.arrival_ns


def arrival_times(
    traces: TraceSet, match: Matching, clock: Clock, *, without_drift: bool = False
) -> Arrivals:
    """Return the times at which ranks arrive and leave, on a clock.

    With `without_drift`, ranks are compared on fitted clocks that do not drift, and the results are
    on the clock of each entry's rank again.
    """
    shifts = np.array([trace.shift_ns for trace in match.traces], dtype=np.int64)
    if clock != traces.clock:
        shifts = np.array([recorded_shift(trace) for trace in match.traces], dtype=np.int64)
        if clock == "fitted":
            fit = clock_fit(traces)
            shifts += fit.origin_offset_ns - fit.offset_ns
    corrects = without_drift and clock == "fitted"
    drift = drift_by_entry(traces, match) if corrects else np.zeros(len(match), dtype=np.int64)
    shift_of_entry = shifts[match.trace] - drift
    arrival, end = (
        match.event_field("start_ns") + shift_of_entry,
        match.event_field("end_ns") + shift_of_entry,
    )
    last = match.reduce_per_entry(np.maximum, arrival)
    at_last = arrival == last
    is_shared = match.reduce_per_entry(np.add, at_last.astype(np.int64)) > 1
    ranks = np.array([trace.rank for trace in match.traces], dtype=np.int64)[match.trace]
    latest = match.reduce_per_entry(np.maximum, np.where(at_last, ranks, -1))
    # A rank that has left did not wait for later ones.
    last = np.where(match.event_field("early") == 1, np.minimum(last, end), last)
    last_rank = np.where(is_shared, -1, latest)
    is_last = at_last & ~is_shared
    return Arrivals(shifts, arrival + drift, end + drift, last + drift, last_rank, is_last)


def entry_steps(match: Matching) -> Ints:
    """Return the step of each entry, -1 for none."""
    steps = np.full(len(match), -1, dtype=np.int64)
    for entries, of_rank in zip(match.of_trace, match.steps, strict=True):
        steps[entries] = of_rank[match.place[entries]]
    return steps


@memoize
def compute_intervals(trace: Trace) -> Intervals:
    """Return the intervals in which a rank's device computes, in its table's times."""
    table = trace.table
    rows = np.flatnonzero((table.kind == KINDS.index("compute")) & (table.stream >= 0))
    start = table.start_ns[rows]
    return union(start, start + table.dur_ns[rows])


@memoize
def _cumulative_compute(trace: Trace) -> CumulativeCoverage:
    """Return the cumulative compute time of a rank, in its table's times."""
    return CumulativeCoverage(*compute_intervals(trace))


def compute_time_between(trace: Trace, start_ns: Ints, end_ns: Ints) -> Ints:
    """Return a rank's compute time in each interval of its table's times."""
    covered = _cumulative_compute(trace)
    return covered(end_ns) - covered(start_ns)


def shared_clock(traces: TraceSet) -> Clock:
    """Return the clock of the set, or the fitted one if collectives compare its clocks."""
    is_compared = clock_fit(traces).collectives.any()
    return "fitted" if is_compared else traces.clock
