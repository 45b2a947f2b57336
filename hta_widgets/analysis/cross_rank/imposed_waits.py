"""How long other ranks wait for each rank that arrives last at a collective.

For example, four ranks wait for 20, 16, 16 and 0 ns, so 52 ns are charged to the last rank. For 12
ns they compute while they wait, so they lose 40 ns. If a quarter of the rank's lateness was
inherited (`lateness`), the rank cost the others 30 ns, ``lost_ns``. In a step of 200 ns, the three
others lose 30 / (3 * 200) = 5 % of their time to it.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from itertools import compress
from typing import Any

import numpy as np
import pandas as pd

from hta_widgets.analysis.cross_rank.arrivals import (
    Arrivals,
    Clock,
    arrival_times,
    entry_steps,
    shared_clock,
)
from hta_widgets.analysis.cross_rank.clock_fit import deviation_from_peers
from hta_widgets.analysis.cross_rank.comm_events import factorize
from hta_widgets.analysis.cross_rank.lateness import (
    OWN_PARTS,
    EntryLateness,
    entry_lateness,
    previous_entries,
    start_times,
)
from hta_widgets.analysis.cross_rank.matching import Matching, count_selected, matching
from hta_widgets.trace.arrays import Array, Bools, Floats, Ints, mask_of_rows, positions_of_rows
from hta_widgets.trace.memo import iter_ranks, memo
from hta_widgets.trace.traceset import Selection, TraceSet

#: Smallest own lateness of a rank that is late with the last one, relative to the last one's.
MIN_AS_LATE = 0.75
#: If less of its lateness is its own, the last rank is late because of another rank.
_MIN_OWN_SHARE = 0.5
#: A rank's peers are the members of groups with at least this share of its largest group loss.
_MIN_GROUP_RATIO = 0.1


@dataclass(frozen=True, slots=True, eq=False)
class ImposedWaits:
    """The matched collectives to count, and the rank charged with each, one item per entry.

    If several ranks arrive last together, the lowest is charged. Other entries have zero times.
    """

    match: Matching
    times: Arrivals
    late: EntryLateness
    clock: Clock
    matched: dict[str, int]
    steps: Ints  # step numbers
    step: Ints  # positions in `steps`
    step_ns: Floats  # duration of each of `steps`
    stated_steps: bool  # whether the files state steps; if not, steps are estimated
    is_counted: Bools  # whether the collective is selected
    is_charged: Bools
    is_only_last: Bools  # charged, and the only one to arrive last
    imposed_ns: Ints  # waits of the others
    exposed_ns: Ints  # time without compute by which the collective ends later for the others
    lost_ns: Ints  # part of `exposed_ns` that the rank did not inherit

    @property
    def is_late(self) -> Bools:
        """Whether the rank is last, or nearly as late and charged with the last rank's loss."""
        return self.is_charged | (self.lost_ns > 0)

    def sum_by_step(self, values: Array) -> Array:
        """Sum values of entries by step and rank."""
        steps, ranks = len(self.steps), len(self.match.traces)
        totals = np.zeros(steps * ranks, dtype=np.result_type(values, np.int64))
        np.add.at(totals, self.step * ranks + self.match.trace, values)
        return totals.reshape(steps, ranks)

    def sum_by_rank(self, values: Array) -> Array:
        """Sum values of entries by rank."""
        totals: Array = self.sum_by_step(values).sum(axis=0)
        return totals

    def complete_counts(self) -> Ints:
        """Return, for each rank, the number of collectives in which all members have events."""
        return self.sum_by_rank(self.is_counted & self.match.per_entry(self.match.is_complete))

    def companion_counts(self, min_group_ratio: float = _MIN_GROUP_RATIO) -> Ints:
        """Return the number of peers that share collectives with each rank; at least 1.

        A group counts if its loss is at least this share of the rank's largest loss in a group.
        """
        match = self.match
        shape = match.lane.max(initial=-1) + 1, len(match.traces)
        place = match.lane * shape[1] + match.trace
        member = mask_of_rows(place, shape[0] * shape[1]).reshape(shape).astype(np.float32)
        lost_ns = np.bincount(place, self.lost_ns, member.size).reshape(shape)
        costly = member * (lost_ns >= min_group_ratio * lost_ns.max(axis=0, initial=0))
        shared: Ints = (costly.T @ member > 0).sum(axis=1)
        return np.maximum(shared - 1, 1)

    def shares_of_others(self, *costs_ns: Array) -> list[Floats]:
        """Return the cost of each entry by (step, rank), as a share of its peers' time.

        The share is at most 1, even if clocks that differ by more than a step lengthen the waits.
        """
        time_ns = np.outer(self.step_ns, self.companion_counts())
        return [np.minimum(self.sum_by_step(cost_ns) / time_ns, 1.0) for cost_ns in costs_ns]


def imposed_waits(traces: TraceSet, chosen: Selection, clock: Clock | None) -> ImposedWaits:
    """Return the rank charged with each collective, and its cost; `clock` as in `exposed_waits`."""
    match = matching(traces)
    name = clock or shared_clock(traces)

    def derive() -> dict[str, Any]:
        """Return the fields that do not depend on the selection."""
        times = arrival_times(traces, match, name)
        step, stated = _steps(match, times)
        steps, position = np.unique(step, return_inverse=True)
        return {
            "times": times,
            "late": entry_lateness(match, times, step),
            "steps": steps,
            "step": position,
            "step_ns": _step_lengths(match, times, steps, position),
            "stated_steps": stated,
        }

    fields = memo(traces, ("lateness", name), derive)
    times, late = fields["times"], fields["late"]
    # Imposed waits include the waits of ranks that are not shown.
    everyone = replace(chosen, ranks=None, traces=traces)
    selected, matched = count_selected(match, everyone)
    is_counted = match.reduce_per_entry(np.logical_or, selected)
    is_charged = mask_of_rows(match.last_entries(times.wait_ns), len(match)) & is_counted
    imposed_ns, exposed_ns = (
        np.where(is_charged, match.reduce_per_entry(np.add, waits), 0)
        for waits in (times.wait_ns, late.exposed_wait_ns)
    )
    return ImposedWaits(
        match=match,
        clock=name,
        matched=matched,
        is_counted=is_counted,
        is_charged=is_charged,
        is_only_last=is_charged & times.is_last,
        imposed_ns=imposed_ns,
        exposed_ns=exposed_ns,
        lost_ns=_lost_ns(match, late, is_charged, exposed_ns),
        **fields,
    )


def _lost_ns(match: Matching, late: EntryLateness, is_charged: Bools, exposed_ns: Ints) -> Ints:
    """Return the part of `exposed_ns` that ranks did not inherit.

    If the last rank inherited most of its lateness, the loss belongs to the rank that is nearly as
    late by itself. For example, two ranks wait for the third in their tensor group, and all arrive
    10 ns late at the next collective of all ranks. Whichever arrives last, the third is charged.
    """
    # At most one entry per collective is charged, so the sum over a collective is its value.
    last_late_ns = match.reduce_per_entry(np.add, np.where(is_charged, late.late_ns, 0.0))
    last_share = match.reduce_per_entry(np.add, np.where(is_charged, late.own_share, 0.0))
    loss_ns = match.reduce_per_entry(np.add, exposed_ns)
    is_nearly_last = (late.late_ns > 0) & (late.late_ns >= MIN_AS_LATE * last_late_ns)
    own_share = np.where(is_nearly_last | is_charged, late.own_share, 0.0)
    is_largest = own_share == match.reduce_per_entry(np.maximum, own_share)
    first_largest = mask_of_rows(match.last_entries(np.where(is_largest, 0, 1)), len(match))
    is_responsible = np.where(last_share < _MIN_OWN_SHARE, first_largest, is_charged)
    return np.where(is_responsible, np.rint(loss_ns * own_share), 0).astype(np.int64)


def own_shares(work: ImposedWaits) -> Floats:
    """Return, by (step, rank), how much longer a rank works than the others in its group.

    It is a share of the step, and limited to how much longer the others wait. Of several groups,
    the one in which the rank works longest counts. Ranks that send to each other are ignored, as
    they may be pipeline stages with different work. The share is NaN for ranks without a group, and
    for a group's first step, because the time before its first collective is unknown.
    """
    match, parts_ns = work.match, work.late.excess_ns
    own_ns = np.sum([parts_ns[part] for part in OWN_PARTS], axis=0)
    waits_ns = work.sum_by_step(np.where(work.is_counted, work.late.exposed_wait_ns, 0))
    shares = np.full(waits_ns.shape, np.nan)
    totals = np.full(len(match.traces), -np.inf)
    is_in_group = work.is_counted & (match.event_field("source") < 0)
    for lane in np.unique(match.lane[is_in_group]).tolist():
        is_in_lane = is_in_group & (match.lane == lane)
        members = np.unique(match.trace[is_in_lane])
        longer_ns = work.sum_by_step(np.where(is_in_lane, own_ns, 0.0))[:, members]
        step = np.repeat(np.arange(len(work.steps)), len(members))
        less_waits_ns = -deviation_from_peers(step, waits_ns[:, members].ravel())
        cost_ns = np.minimum(longer_ns, less_waits_ns.reshape(longer_ns.shape))
        total_ns = np.nansum(cost_ns, axis=0)
        is_larger = total_ns > totals[members]
        changed = members[is_larger]
        totals[changed] = total_ns[is_larger]
        shares[:, changed] = cost_ns[:, is_larger] / work.step_ns[:, None]
    return shares


def waits_for_mask(work: ImposedWaits, late: list[int]) -> Bools:
    """Return the entries at which a rank waits for one of `late`, directly or through others.

    A rank passes a wait on if it inherited most of its lateness, and waited mostly for `late` since
    the group's previous collective. For example, ranks 0 and 1 wait for rank 2 in their tensor
    group, so the ranks in the data groups of all three wait for rank 2.
    """
    match, times = work.match, work.times
    order = np.lexsort((times.arrival_ns, match.trace))
    position = positions_of_rows(order, len(order))[:-1]
    first = np.searchsorted(match.trace[order], match.trace)
    before = previous_entries(match, times)
    since = np.where(before >= 0, position[before] + 1, first)
    has_inherited = work.is_charged & (work.late.own_share < _MIN_OWN_SHARE)

    def waited_before(is_counted: Bools) -> Ints:
        """Return how long each rank waited between the group's previous collective and this one."""
        waits_ns = np.where(is_counted, times.wait_ns, 0)[order]
        total_ns = np.append(0, np.cumsum(waits_ns))
        waited_ns: Ints = total_ns[position] - total_ns[since]
        return waited_ns

    all_waited_ns = waited_before(np.ones(len(match), dtype=bool))
    is_for_late = np.isin(times.last_rank, late)
    for _ in match.traces:  # with more rounds, a wait could return to a rank that passed it on
        passes_on = has_inherited & (2 * waited_before(is_for_late) > all_waited_ns)
        grown = is_for_late | match.reduce_per_entry(np.logical_or, passes_on)
        if (grown == is_for_late).all():
            break
        is_for_late = grown
    return is_for_late


def _step_lengths(match: Matching, times: Arrivals, steps: Ints, step: Ints) -> Floats:
    """Return the duration of each step, measured between the last collectives of successive steps.

    The first step has the median duration, or that of its collectives if longer.
    """
    limits, shape = np.iinfo(np.int64), (len(steps), len(match.traces))
    # Separate by rank, because several runs that are loaded together have equal steps.
    first_of_ranks = np.full(shape, limits.max)
    last_of_ranks = np.full(shape, limits.min)
    place = step, match.trace
    np.minimum.at(first_of_ranks, place, times.arrival_ns)
    np.maximum.at(last_of_ranks, place, times.end_ns)
    has_step = first_of_ranks < limits.max
    # A single step extends from the start of the recording to the last end.
    has_ends = has_step.any(axis=0)
    ends_ns = last_of_ranks.max(axis=0, initial=limits.min)[has_ends]
    run_ns = (ends_ns - start_times(match, times)[has_ends]).max(initial=1)
    lengths: Floats = np.full(len(steps), float(run_ns))
    is_step = steps >= 0
    if np.count_nonzero(is_step) > 1:
        intervals_ns = _step_intervals(match, times, last_of_ranks[is_step], has_step[is_step])
        usual_ns = np.nan_to_num(pd.Series(intervals_ns).median())
        intervals_ns = np.where(np.isnan(intervals_ns), usual_ns, intervals_ns)
        spans_ns = np.where(has_step, last_of_ranks - np.where(has_step, first_of_ranks, 0), 0)
        min_ns = spans_ns[is_step].max(axis=1, initial=1)
        lengths[is_step] = np.maximum([usual_ns, *intervals_ns], min_ns)
    return lengths


def _step_intervals(
    match: Matching, times: Arrivals, last_of_ranks: Ints, has_step: Bools
) -> Floats:
    """Return the time from each step's end to the next one's; NaN if unknown.

    `last_of_ranks` is the last end of each step (row) on each rank, if `has_step`.
    """
    last_ns = last_of_ranks.max(axis=1)
    # Time between two recording windows belongs to no step.
    clocks = zip(iter_ranks(match.traces), times.clocks, strict=True)
    marks = [clock.to_job(trace.recorded_marks_ns) for trace, clock in clocks]
    marks_ns = np.sort(max(marks, key=len))
    is_recorded = np.diff(np.searchsorted(marks_ns, last_ns)) == 0
    # Nor does time between two runs, for which no rank has both steps.
    has_both = has_step[1:] & has_step[:-1]
    of_ranks_ns = np.where(has_both, np.diff(last_of_ranks, axis=0), 0)
    intervals_ns = np.minimum(np.diff(last_ns), of_ranks_ns.max(axis=1))
    return np.where(is_recorded & has_both.any(axis=1), intervals_ns, np.nan)


def charge_as_late(work: ImposedWaits, is_rank: Bools | None = None) -> ImposedWaits:
    """Charge a collective's loss also to ranks that are nearly as late as the last one.

    `is_rank` masks the ranks that may be charged in addition. Default: all.
    """
    match = work.match
    own_ns = work.late.late_ns * work.late.own_share
    costs = work.lost_ns > 0
    last_ns = match.reduce_per_entry(np.maximum, np.where(costs, own_ns, 0.0))
    is_late = work.is_counted & (own_ns > 0) & (own_ns >= MIN_AS_LATE * last_ns)
    if is_rank is not None:
        is_late &= is_rank[match.trace]
    lost_ns = np.where(costs | is_late, match.reduce_per_entry(np.maximum, work.lost_ns), 0)
    return replace(work, is_charged=work.is_charged | is_late, lost_ns=lost_ns)


def _steps(match: Matching, times: Arrivals) -> tuple[Ints, bool]:
    """Return each entry's step, and whether the files state steps.

    All entries of a collective have the same step. If the files state no steps, they are estimated
    from the order of collectives, with -1 before and after the steps.
    """
    step = match.reduce_per_entry(np.maximum, entry_steps(match))
    if not len(match) or (step >= 0).any():
        return step, True
    columns = match.lane, match.trace, match.place
    lane, trace, place = (column[match.starts].tolist() for column in columns)
    events = [match.events[number] for number in trace]
    kinds = [
        (of_lane, of_rank.content[of_rank.content_code[position]])
        for of_lane, of_rank, position in zip(lane, events, place, strict=True)
    ]
    first_ns = np.minimum.reduceat(times.arrival_ns, match.starts)
    operation = match.event_field("operation")[match.starts]
    in_steps = _in_steps(factorize(kinds)[0], operation, first_ns)
    # The rarest collective is assumed to run once per step.
    steps = min(Counter(compress(kinds, in_steps)).values())
    # Collectives that prepare a run matter only if they are rarer than those in its steps.
    if steps == min(Counter(kinds).values()):
        in_steps[:] = True
    number = np.full(len(first_ns), -1, dtype=np.int64)
    order = np.flatnonzero(in_steps)[np.argsort(first_ns[in_steps], kind="stable")]
    number[order] = np.arange(len(order)) * steps // len(order)
    return match.per_entry(number), False


def _in_steps(kind: Ints, operation: Ints, first_ns: Ints) -> Bools:
    """Return which collectives belong to the steps of a run.

    Kinds that occur only before or after the most frequent operation prepare or end the run. For
    example, parameters are broadcast once before the first all-reduce of gradients. However, if the
    time before or after is longer than the time of the most frequent operation, all kinds belong to
    steps, because that operation may itself prepare the run, such as a broadcast of each parameter.
    """
    operations, counts = np.unique(operation, return_counts=True)
    most_frequent_ns = first_ns[operation == operations[counts.argmax()]]
    low, high = most_frequent_ns.min(), most_frequent_ns.max()
    for outside_ns in (first_ns[first_ns < low], first_ns[first_ns > high]):
        if len(outside_ns) and np.ptp(outside_ns) > high - low:
            return np.ones(len(kind), dtype=bool)
    return np.isin(kind, kind[(first_ns >= low) & (first_ns <= high)])


def step_shares(work: ImposedWaits, *, complete: bool = False) -> tuple[Floats, Floats]:
    """Return each rank's cost to the others, by (step, rank), as a share of their time.

    The first array excludes inherited lateness, the second includes it. NaN: steps without a
    selected collective, and steps that are only partly in the rank's file. With `complete`, only
    collectives with events of all their ranks are used.
    """
    match = work.match
    is_used = match.per_entry(match.is_complete) if complete else np.ones(len(match), dtype=bool)
    count = work.sum_by_step(is_used)
    is_step = work.steps >= 0
    is_selected = is_step & (work.sum_by_step(work.is_counted & is_used).sum(axis=1) > 0)
    usual_count = np.median(count[is_step], axis=0) if is_step.any() else 0
    # A rank with less than half of its usual collectives was recorded for only a part of the step.
    is_partial = (count == 0) | (count * 2 < usual_count)
    is_unknown = is_partial | ~is_selected[:, None]
    costs_ns = [np.where(is_used, cost, 0) for cost in (work.lost_ns, work.exposed_ns)]
    lost, exposed = work.shares_of_others(*costs_ns)
    return np.where(is_unknown, np.nan, lost), np.where(is_unknown, np.nan, exposed)


def mean_lost_shares(work: ImposedWaits) -> Floats:
    """Return the share of their time, over all steps, that the others lose to each rank."""
    return np.nan_to_num(mean_share(step_shares(work)[0], work.step_ns))


def mean_share(shares: Floats, step_ns: Floats) -> Floats:
    """Return each column's mean over its known steps, weighted by their durations."""
    known_ns = np.where(np.isnan(shares), 0.0, step_ns[:, None]).sum(axis=0)
    lost = np.nansum(shares * step_ns[:, None], axis=0)
    return np.where(known_ns > 0, lost / np.maximum(known_ns, 1.0), np.nan)
