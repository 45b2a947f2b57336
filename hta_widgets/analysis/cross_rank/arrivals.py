"""When each rank arrives at a collective, and which rank is last.

For example, four ranks arrive at 10, 14, 14 and 30 ns. Rank 3 arrives last, at 30 ns, and the ranks
wait for 20, 16, 16 and 0 ns. If two ranks are last together, ``last_rank`` is -1.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from hta_widgets.analysis.cross_rank.clock_fit import RankClock, clock_fit, rank_clocks
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
    """Times of the entries in a `Matching`, on one clock."""

    clocks: list[RankClock]  # per rank: the line from its times to the clock
    arrival_ns: Ints
    end_ns: Ints
    last_ns: Ints  # last arrival at the collective
    last_rank: Ints  # -1 if several ranks arrive last
    is_last: Bools  # whether only this entry arrives last

    @property
    def wait_ns(self) -> Ints:
        """Time from each arrival until the last arrival."""
        return self.last_ns - self.arrival_ns


def arrival_times(traces: TraceSet, match: Matching, clock: Clock) -> Arrivals:
    """Return when ranks arrive and leave; on fitted clocks, drift is corrected."""
    clocks = rank_clocks(traces, match, clock)
    arrival, end = np.empty((2, len(match)), dtype=np.int64)
    for rank_clock, events, entries in zip(clocks, match.events, match.of_trace, strict=True):
        place = match.place[entries]
        arrival[entries] = rank_clock.to_job(events.start_ns[place])
        end[entries] = rank_clock.to_job(events.end_ns[place])
    last = match.reduce_per_entry(np.maximum, arrival)
    at_last = arrival == last
    is_shared = match.reduce_per_entry(np.add, at_last.astype(np.int64)) > 1
    ranks = np.array([trace.rank for trace in match.traces], dtype=np.int64)[match.trace]
    last_rank = match.reduce_per_entry(np.maximum, np.where(at_last, ranks, -1))
    last_rank = np.where(is_shared, -1, last_rank)
    # If a rank may leave early, it does not wait for ranks that arrive after it has left.
    last = np.where(match.event_field("early") == 1, np.minimum(last, end), last)
    return Arrivals(clocks, arrival, end, last, last_rank, at_last & ~is_shared)


def entry_steps(match: Matching) -> Ints:
    """Return the step of each entry; -1 if it has none."""
    steps = np.full(len(match), -1, dtype=np.int64)
    for entries, of_rank in zip(match.of_trace, match.steps, strict=True):
        steps[entries] = of_rank[match.place[entries]]
    return steps


def device_intervals(trace: Trace, kind: str) -> Intervals:
    """Return when a rank's device does work of a given kind, on its table's clock."""
    table = trace.table
    rows = np.flatnonzero((table.kind == KINDS.index(kind)) & (table.stream >= 0))
    start = table.start_ns[rows]
    return union(start, start + table.dur_ns[rows])


@memoize
def computing_intervals(trace: Trace) -> Intervals:
    """Return when a rank's device computes, on its table's clock."""
    return device_intervals(trace, "compute")


@memoize
def _cumulative_compute(trace: Trace) -> CumulativeCoverage:
    return CumulativeCoverage(*computing_intervals(trace))


def compute_time_between(trace: Trace, start_ns: Ints, end_ns: Ints) -> Ints:
    """Return a rank's compute time in each interval on its table's clock."""
    covered = _cumulative_compute(trace)
    return covered(end_ns) - covered(start_ns)


def shared_clock(traces: TraceSet) -> Clock:
    """Return ``"fitted"`` if collectives connect the ranks' clocks, else the trace set's clock."""
    return "fitted" if clock_fit(traces).collectives.any() else traces.clock
