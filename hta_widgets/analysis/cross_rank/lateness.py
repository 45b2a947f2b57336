"""How late each rank arrives at collectives, and what it did before.

A rank's lateness is its arrival minus the others' median arrival. Its time since its last arrival
in the group is divided into `PARTS`, whose excess is also relative to the others' median.

A rank may be late only because it waited or transferred data in another group, or because its
recording starts later. This inherited lateness is not charged to it (`_inherited_lateness`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pandas as pd

from hta_widgets.analysis.cross_rank.arrivals import (
    Arrivals,
    compute_time_between,
    computing_intervals,
    device_intervals,
)
from hta_widgets.analysis.cross_rank.clock_fit import deviation_from_peers
from hta_widgets.analysis.cross_rank.matching import Matching
from hta_widgets.analysis.host_activity import is_data_loading_name, time_in_calls
from hta_widgets.analysis.map_ranks import map_ranks
from hta_widgets.analysis.scope import device_work_rows, host_collectives
from hta_widgets.taxonomy import KINDS
from hta_widgets.trace.arrays import Floats, Ints
from hta_widgets.trace.host_stack import name_mask
from hta_widgets.trace.intervals import CumulativeCoverage, Intervals, intersect, subtract, union
from hta_widgets.trace.memo import iter_ranks, memoize
from hta_widgets.trace.trace import Trace

#: earlier than all events
_NEVER = int(np.iinfo(np.int64).min) // 2
#: The parts of a rank's time before it arrives, and the parts not spent on other ranks.
PARTS: tuple[str, ...] = ("compute", "waiting", "data_loading", "host", "copies")
OWN_PARTS: tuple[str, ...] = ("compute", "data_loading", "host", "copies")


@dataclass(frozen=True, slots=True, eq=False)
class EntryLateness:
    """The lateness of each entry of a `Matching`, and the share caused by the rank itself."""

    late_ns: Floats
    own_share: Floats
    exposed_wait_ns: Ints  # time without compute by which lateness of others delays the rank's exit
    excess_ns: dict[str, Floats]  # keyed by part; NaN for a rank's first entry in a group


def entry_lateness(match: Matching, times: Arrivals, step: Ints) -> EntryLateness:
    """Compare each arrival, and the time before it, with the collective's other entries."""
    late_ns = deviation_from_peers(match.collective, times.arrival_ns)
    before = previous_entries(match, times)
    has_previous = before >= 0
    spent_ns, communicated_ns, exposed_ns = _time_before_arrival(match, times, before)
    # The time that the rank's lateness costs the others: the median of their waits.
    paid_ns = exposed_ns - deviation_from_peers(match.collective, exposed_ns)
    # A rank's work before its recording is unknown. A file that begins with communication, like
    # MPI's time lines, does not show when its rank started, because it may have computed before.
    shows_start = ~has_previous & (times.arrival_ns > _work_starts(match, times)[match.trace])
    starts_ns = start_times(match, times)[match.trace]
    later_ns = np.where(shows_start, deviation_from_peers(match.collective, starts_ns), 0.0)
    extra_wait_ns = deviation_from_peers(match.collective, communicated_ns) + later_ns
    inherited_ns = _inherited_lateness(match, times, step, late_ns, paid_ns, extra_wait_ns)
    own_share = np.clip(1.0 - inherited_ns / np.maximum(late_ns, 1.0), 0.0, 1.0)
    excess_ns = {
        part: np.where(has_previous, deviation_from_peers(match.collective, part_ns), np.nan)
        for part, part_ns in spent_ns.items()
    }
    return EntryLateness(late_ns, np.where(late_ns > 0, own_share, 1.0), exposed_ns, excess_ns)


def previous_entries(match: Matching, times: Arrivals) -> Ints:
    """Return the previous entry of each entry in its rank's sequence; -1 for the first.

    The time between two recording windows is unknown, so each window has a first entry.
    """
    window = np.zeros(len(match), np.int64)
    ranks = zip(iter_ranks(match.traces), times.clocks, match.of_trace, strict=True)
    for trace_of_rank, clock, entries in ranks:
        arrival_ns = clock.to_rank(times.arrival_ns[entries])
        window[entries] = np.searchsorted(trace_of_rank.recorded_marks_ns, arrival_ns)
    order = np.lexsort((times.arrival_ns, match.lane, match.trace))
    trace, lane, window = match.trace[order], match.lane[order], window[order]
    is_next = (trace[1:] == trace[:-1]) & (lane[1:] == lane[:-1]) & (window[1:] == window[:-1])
    before = np.full(len(match), -1, dtype=np.int64)
    before[order[1:]] = np.where(is_next, order[:-1], -1)
    return before


def _work_starts(match: Matching, times: Arrivals) -> Ints:
    """Return when each rank's first event other than communication starts; 2**63 - 1 if never."""
    starts_ns = []
    for trace, clock in zip(iter_ranks(match.traces), times.clocks, strict=True):
        first = np.flatnonzero(trace.table.kind != KINDS.index("communication"))[:1]
        work_ns = clock.to_job(trace.table.start_ns[first])
        starts_ns.append(work_ns.min(initial=np.iinfo(np.int64).max))
    return np.array(starts_ns, dtype=np.int64)


def start_times(match: Matching, times: Arrivals) -> Ints:
    """Return when the recording of each rank starts, on the clock of the arrivals."""
    ranks = zip(iter_ranks(match.traces), times.clocks, strict=True)
    return np.array(
        [clock.to_job(np.array([trace.start_ns - trace.shift_ns]))[0] for trace, clock in ranks],
        dtype=np.int64,
    )


def _inherited_lateness(
    match: Matching, times: Arrivals, step: Ints, late: Floats, paid: Floats, extra_wait: Floats
) -> Floats:
    """Return how much of each entry's lateness is inherited from other groups.

    `late` is the lateness. `extra_wait` is how much longer than the others the rank communicated in
    other groups before, or how much later its recording started. `paid` is the time during which
    the others wait for the rank without computing.

    A rank that computes while a collective runs is just as late to the next one, without a wait in
    between. Inherited lateness is therefore carried forward until the others have waited for it or
    the rank is on time. For example, a rank waits 10 ns longer than the others in its tensor group,
    and is 10 ns late to the next three collectives of its data group. The others compute during the
    first and wait in the second::

        collective  late  waited  paid  carried on  inherited
        1             10      10     0          10         10
        2             10       0    10           0         10
        3             10       0    10           0          0

    The third lateness was caused by the rank itself.
    """
    order = np.lexsort((times.arrival_ns, step, match.lane, match.trace))
    extra_wait = extra_wait[order]
    keys = np.stack([match.trace[order], match.lane[order], step[order]])
    # Nothing is carried to a group's first collective in a step, or on from a rank that is on time.
    is_fresh = np.ones(len(order), dtype=bool)
    is_fresh[1:] = (keys[:, 1:] != keys[:, :-1]).any(axis=0) | (late[order] <= 0)[:-1]
    # carried[c] = max(0, carried[c-1] + gain[c]) is the sum of gains minus its minimum so far.
    gain = extra_wait - paid[order]
    total = np.cumsum(gain)
    sums = pd.Series(np.where(is_fresh, np.minimum(total, total - gain), total))
    carried = total - sums.groupby(np.cumsum(is_fresh)).cummin().to_numpy()
    inherited = np.empty(len(order))
    inherited[order] = extra_wait + np.where(is_fresh, 0, np.roll(carried, 1))
    # Waits elsewhere may also delay the others, so a rank may wait for longer than it is late.
    return np.clip(inherited, 0.0, np.maximum(late, 0.0))


def _time_before_arrival(
    match: Matching, times: Arrivals, before: Ints
) -> tuple[dict[str, Floats], Floats, Ints]:
    """Return the parts of each rank's time before it arrived, and the cost of its waits.

    The second value is the part ``waiting`` plus transfers, which slow links may lengthen.
    """
    spent = {part: np.zeros(len(match)) for part in PARTS}
    communicated = np.zeros(len(match))
    exposed = np.zeros(len(match), dtype=np.int64)
    # Parts count from one arrival to the next, because ranks also work while a collective runs.
    # Waits count from the last arrival, as the last rank may do later what others do while waiting.
    has_previous = before >= 0
    since = np.where(has_previous, times.arrival_ns[before], times.arrival_ns)
    last_before = np.minimum(times.last_ns[before], times.arrival_ns)
    waits_since = np.where(has_previous, last_before, _NEVER)
    rank_entries = []
    for clock, entries, events in zip(times.clocks, match.of_trace, match.events, strict=True):
        instants = [
            clock.to_rank(time_ns[entries])
            for time_ns in (since, waits_since, times.arrival_ns, times.last_ns, times.end_ns)
        ]
        # How long an unmatched event waits is unknown, so all of its time counts as waiting.
        is_unmatched = ~events.is_single_rank
        is_unmatched[match.place[entries]] = False
        instants += [events.start_ns[is_unmatched], events.end_ns[is_unmatched]]
        rank_entries.append(_RankEntries(*instants))
    results = map_ranks(
        match.traces, _time_before_entries, each=[*zip(rank_entries)], executor=match.executor
    )
    for entries, result in zip(match.of_trace, results, strict=True):
        parts_ns, communicated[entries], exposed[entries] = result
        for part, part_ns in zip(PARTS, parts_ns, strict=True):
            spent[part][entries] = part_ns
    return spent, communicated, exposed


class _RankEntries(NamedTuple):
    """The times of a rank's entries, on the clock of its table."""

    since: Ints  # previous arrival in the group, or this one if there is none
    waits_since: Ints  # last arrival at the previous collective; `_NEVER` if there is none
    arrival: Ints
    last_arrival: Ints
    end: Ints
    unmatched_start: Ints  # of unmatched communication
    unmatched_end: Ints


def _time_before_entries(
    trace: Trace, entries: _RankEntries
) -> tuple[tuple[Ints, ...], Ints, Ints]:
    """Return a rank's `PARTS`, its communication with transfers, and its exposed wait."""
    since, waits_since, arrival, last_arrival, end, unmatched_start, unmatched_end = entries
    loading, communicating, idle = (
        CumulativeCoverage(*intervals) for intervals in _idle_intervals(trace)
    )
    begin = np.concatenate([arrival, unmatched_start])
    on_host_ns = communicating(arrival) - communicating(waits_since)

    def exposed_until(until: Ints) -> Ints:
        """Return the time in collectives without compute, each up to `until`."""
        pieces = union(begin, np.concatenate([until, unmatched_end]))
        covered = CumulativeCoverage(*subtract(pieces, computing_intervals(trace)))
        return covered(arrival) - covered(waits_since) + on_host_ns

    wait_ns, communicated_ns = exposed_until(last_arrival), exposed_until(end)
    compute_ns = compute_time_between(trace, since, arrival)
    other_ns = (
        covered_before(arrival) - covered_before(since)
        for covered_before in (loading, idle, _copy_only_coverage(trace))
    )
    # The wait delays the end from `on_time_end` to `delayed_end`, unless hidden by compute.
    on_time_end = arrival + np.maximum(end - last_arrival, 0)
    delayed_end = np.maximum(end, last_arrival)
    exposed_wait_ns = delayed_end - on_time_end
    exposed_wait_ns -= compute_time_between(trace, on_time_end, delayed_end)
    return (compute_ns, wait_ns, *other_ns), communicated_ns, exposed_wait_ns


@memoize
def _copy_only_coverage(trace: Trace) -> CumulativeCoverage:
    copying = device_intervals(trace, "memory")
    return CumulativeCoverage(*subtract(copying, computing_intervals(trace)))


@memoize
def _idle_intervals(trace: Trace) -> tuple[Intervals, Intervals, Intervals]:
    """Return when a device idles while the host loads data, communicates, or does neither."""
    table, end = trace.table, trace.table.end_ns
    busy = device_work_rows(trace)
    recording = union([table.first_ns], [table.last_ns])
    idle = subtract(recording, union(table.start_ns[busy], end[busy]))
    loads = name_mask(trace, is_data_loading_name)
    loading = intersect(idle, union(table.start_ns[loads], end[loads]))
    calls, rest = host_collectives(trace), subtract(idle, loading)
    communicating = intersect(rest, union(table.start_ns[calls], end[calls]))
    return loading, communicating, subtract(rest, communicating)


def has_longer_pauses(match: Matching, times: Arrivals, entries: Ints, min_ns: float) -> bool:
    """Return whether a rank's host paused for over `min_ns` longer than the others'.

    In a pause, the device idles while the host is in no recorded call. The pauses before all
    `entries` of the rank are summed, except before first arrivals.
    """
    before = previous_entries(match, times)
    since_ns = np.where(before >= 0, times.arrival_ns[before], times.arrival_ns)
    counted = entries[before[entries] >= 0]
    paused_ns = np.zeros(len(match))
    is_own = np.isin(np.arange(len(match.traces)), match.trace[entries])
    # The rank's pauses alone are an upper bound of the excess, and often low enough.
    for places in (np.flatnonzero(is_own).tolist(), np.flatnonzero(~is_own).tolist()):
        intervals = []
        for place in places:
            to_rank, of_rank = times.clocks[place].to_rank, match.of_trace[place]
            intervals.append((to_rank(since_ns[of_rank]), to_rank(times.arrival_ns[of_rank])))
        traces = [match.traces[place] for place in places]
        results = map_ranks(traces, _pauses_of_rank, each=intervals, executor=match.executor)
        for place, pauses_ns in zip(places, results, strict=True):
            paused_ns[match.of_trace[place]] = pauses_ns
        if deviation_from_peers(match.collective, paused_ns)[counted].sum() <= min_ns:
            return False
    return True


def _pauses_of_rank(trace: Trace, since: Ints, arrival: Ints) -> Ints:
    idle = _idle_intervals(trace)[-1]
    paused = CumulativeCoverage(*subtract(idle, time_in_calls(trace)))
    return paused(arrival) - paused(since)
