"""Finds the ranks that changed differently from the others.

Late ranks (`late_ranks`): `hta_widgets.analysis.stragglers` judges the compared steps of each side.
If it names rank 1 after but not before, the finding states which kind of rank 1's own time changed
most compared with the other ranks, how this kind changed there, and which ranks wait longer. All
values are means over steps:

    rank 1: compute 8 → 10 ms; rank 0: compute 8 → 8.1 ms, waits 0 → 2 ms

Ranks that changed alone (`changed_ranks`) have the same finding, but without a verdict about waits.
The *usual* change is the change of the median rank. For example, if compute changes by 0.1, 0.2,
2.1 and 0.1 ms on four ranks, the usual change is 0.1 ms, the *excess* of rank 2 is 2 ms, and the
spread of the other ranks is 0.1 ms. An excess of idle time counts only if the other ranks then
waited longer.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import product

import numpy as np
import pandas as pd

from hta_widgets.analysis.cross_rank.stragglers import stragglers
from hta_widgets.analysis.cross_rank.waits import exposed_waits_for
from hta_widgets.diff.causes import (
    KIND_OF,
    copy_times,
    splits_communication,
    step_times_by_cause,
    transfer_times,
)
from hta_widgets.diff.compare import Comparison
from hta_widgets.diff.records import Finding, time_change
from hta_widgets.diff.stats import welch_p_value
from hta_widgets.trace.arrays import Bools, Floats, Ints
from hta_widgets.trace.memo import memoize

_MIN_LOST_RATIO = 0.5  # smallest relative change of lost time; below it, verdicts may be chance
#: A rank is named if its wait changes by at least this share of the largest change.
_MIN_WAITS_RATIO = 0.25
# Smallest excess of a rank that changed alone. The second value applies to one step on a side, or
# to two ranks.
_MIN_EXCESS, _MIN_EXCESS_ONE_STEP = 0.02, 0.05  # as a share of the longer of its two times
_MIN_EXCESS_OF_STEP, _MIN_EXCESS_OF_ONLY_STEP = 0.01, 0.03
_MIN_EXCESS_OF_SPREAD = 4.0
_MIN_FOLLOWED = 0.5  # smallest change that must follow from an excess, as a share of the excess
_MIN_ALIKE = 0.5  # smallest excess of a rank, as a share of the largest excess in the same finding
_MIN_AS_LATE = 0.75  # the same for ranks that jointly keep others waiting
_ALPHA = 0.01
#: Kinds of a rank's own time. Waits depend on other ranks, and transfers on the rank's group.
_OWN_KINDS = ("compute", "memory", "idle", "cpu", "transfer")


@dataclass(frozen=True, eq=False)
class RankTimes:
    """Times of the ranks that both sides have, before and after, in each compared step."""

    ranks: list[int]
    own_ns: Floats  # (kinds of `_OWN_KINDS`, ranks, sides, steps)
    waits_ns: Floats  # (ranks, sides, steps)
    communication_ns: Floats  # exposed, including waits: (ranks, sides, steps)
    copies_ns: Floats  # hidden and exposed: (ranks, sides, steps)

    @property
    def change_ns(self) -> Floats:
        """Mean change per step of each kind of a rank's own time: (kinds, ranks)."""
        return _mean_change(self.own_ns)

    @property
    def excess_ns(self) -> Floats:
        """Difference between each change and the usual change: (kinds, ranks)."""
        change_ns = self.change_ns
        if len(self.ranks) == 1:
            return change_ns
        return change_ns - np.take_along_axis(change_ns, self.usual_rank[:, None], axis=1)

    def chance_of_waits(self, rank: int) -> float:
        """Return the p-value of the change in how much longer other ranks wait than `rank`.

        Both sides are tested with the spread of the steadier side, because a rank that is late in
        half of the steps is late. NaN if there are too few steps for a test, or no other ranks.
        """
        if len(self.ranks) == 1:
            return np.nan
        place = self.ranks.index(rank)
        longer_ns = np.delete(self.waits_ns, place, axis=0).mean(axis=0) - self.waits_ns[place]
        steadier_ns = longer_ns[longer_ns.std(axis=1).argmin()][:, None]
        return float(welch_p_value(steadier_ns, steadier_ns + _mean_change(longer_ns))[0])

    @property
    def usual_rank(self) -> Ints:
        """Position of the rank with the median change, for each kind."""
        middle = (len(self.ranks) - 1) // 2
        return np.argsort(np.abs(self.change_ns), axis=1, kind="stable")[:, middle]


@memoize
def late_ranks(diff: Comparison) -> list[Finding]:
    """Return the ranks that keep the others waiting on one side only, most costly first.

    A rank is returned if its cost at least halves or doubles. If the rank is compared on both
    sides, the waits of all ranks must be known on both sides, and their change must be significant
    at 1 %. With a single step on each side, the result is empty. ``details["appears"]`` is True if
    the rank is late only in the second run.
    """
    if (diff.before.has_steps and diff.step_count == 1) or not diff.is_of_devices:
        return []
    verdicts: list[pd.DataFrame] = []
    for side in diff.sides:
        low, high = side.envelope()
        window = int(low.min()), int(high.max())
        verdicts.append(stragglers(side.traces, window=window).set_index("rank"))
    shared = [before for before, after in diff.rank_pairs if before == after]
    times = _times_outside_waits(diff, shared)
    excess_ns = _excess_alone(diff, times)
    results: list[Finding] = []
    # If a side's waits are unknown, only ranks that exist on one side can be judged.
    judged = {*shared} if splits_communication(diff) else set()
    for rank in sorted(judged | lone_ranks(diff)):
        if rank in shared and not all(rank in frame.index for frame in verdicts):
            continue
        was_late, is_late = (bool(frame["is_straggler"].get(rank, False)) for frame in verdicts)
        shares = [float(frame["lost_share"].get(rank, 0.0)) for frame in verdicts]
        if was_late is is_late or abs(shares[1] - shares[0]) < _MIN_LOST_RATIO * max(shares):
            continue
        if rank in shared and times.chance_of_waits(rank) >= _ALPHA:
            continue
        if rank in shared:
            finding = _late_on_both_sides(times, excess_ns, rank, appears=is_late)
            reason = str(verdicts[is_late]["cause"][rank]) if finding.measure == "idle" else ""
            finding = replace(finding, details={**finding.details, "reason": reason})
        else:
            finding = _late_on_one_side(verdicts[is_late], rank, diff.step_count, appears=is_late)
        # Late ranks cost others time, so they precede ranks that only changed.
        results.append(replace(finding, weight=1 + max(shares)))
    min_excess_ns = _MIN_EXCESS_OF_STEP * diff.step_ns
    results = [finding for finding in results if not _is_as_late(finding, times, min_excess_ns)]
    results = sorted(results, key=lambda finding: -finding.weight)
    # Two late ranks that changed equally would each list the other.
    return [
        finding
        for place, finding in enumerate(results)
        if not any(set(finding.ranks) <= set(other.ranks) for other in results[:place])
    ]


def _is_as_late(finding: Finding, times: RankTimes, min_excess_ns: float) -> bool:
    """Return whether a rank is as slow as before, while another changed in the opposite direction.

    If two ranks are equally late, only one is charged with the waits. When that rank becomes
    faster, the waits are charged to the other, although it did not change. The same happens to a
    rank when the others become faster.
    """
    if abs(finding.details.get("excess_ns", min_excess_ns)) >= min_excess_ns:
        return False
    excess_ns = times.excess_ns.sum(axis=0) * finding.details["sign"]
    return float(excess_ns.min()) <= -min_excess_ns


@memoize
def changed_ranks(diff: Comparison) -> list[Finding]:
    """Return ranks whose own time changed differently from the others', except `late_ranks`.

    The excess must be at least 2 % of the longer time, 1 % of the step, and four times the spread
    of the other ranks, and be significant in Welch's test at 1 % divided by the number of kinds of
    time. A kind of time that meets these conditions on more than half of the ranks has no findings.

    - With two ranks, the first two limits are 5 % and 3 %.
    - A single step on each side cannot be tested. The first two limits are also 5 % and 3 %, at
      least three ranks are required, and idle time does not count because it differs between any
      two steps.
    - Idle time and exposed copies count if the exposed communication of the other ranks changed by
      at least half as much, or does not exist. Exposed copies also count if the rank copied for
      longer.
    - Exposed transfer counts if the rank's transfers, including hidden ones, changed by at least
      half as much: the links of its group became slower or faster.
    """
    ranks = [before for before, after in diff.rank_pairs if before == after]
    if len(ranks) < 2 or not diff.is_of_devices:
        return []
    times = _times_outside_waits(diff, ranks)
    stated = {rank for finding in late_ranks(diff) for rank in finding.ranks}
    excess_ns = _excess_alone(diff, times)
    main_kind = np.abs(excess_ns).argmax(axis=0)
    results = []
    for kind, sign in product(range(len(_OWN_KINDS)), (1, -1)):
        changed_ns = np.where(main_kind == kind, excess_ns[kind] * sign, 0.0)
        changed_ns[[rank in stated for rank in ranks]] = 0.0
        # A finding lists the rank that changed most, and the ranks that changed at least half as
        # much.
        while (largest_ns := float(changed_ns.max())) > 0:
            places = np.flatnonzero(changed_ns >= _MIN_ALIKE * largest_ns).tolist()
            waiting = _ranks_waiting_for(diff, [ranks[k] for k in places], sign)
            finding = _rank_change(times, places, kind, sign=sign, waiting=waiting)
            results.append(replace(finding, weight=largest_ns / max(diff.step_ns, 1)))
            changed_ns[places] = 0.0
    is_only = len(results) == 1 and not stated
    results = [
        replace(finding, details={**finding.details, "is_only": is_only}) for finding in results
    ]
    return sorted(results, key=lambda finding: -finding.weight)


def _ranks_waiting_for(diff: Comparison, ranks: list[int], sign: int) -> set[int]:
    """Return the ranks that mostly wait for `ranks`, on the side where these are slower."""
    side = diff.sides[sign > 0]
    last_rank = side.waits.times.last_rank
    for_ranks, for_any = (
        exposed_waits_for(side.waits, is_counted)
        for is_counted in (np.isin(last_rank, ranks), last_rank >= 0)
    )
    return {rank for rank, wait_ns in for_ranks.items() if 2 * wait_ns > for_any[rank]}


def _excess_alone(diff: Comparison, times: RankTimes) -> Floats:
    """Return the excess of ranks that changed when most others did not; 0 for all other ranks."""
    if len(times.ranks) < 2:
        return np.zeros((len(_OWN_KINDS), len(times.ranks)))
    is_alone = _alone_mask(times, diff.step_ns)
    # These kinds also change when other ranks do: a device whose host is ahead waits in collectives
    # instead of idling, and a copy or transfer may be hidden by other work.
    idle, memory, transfer = map(_OWN_KINDS.index, ("idle", "memory", "transfer"))
    change_ns = _mean_change(times.communication_ns)
    others_ns = np.array([np.median(np.delete(change_ns, k)) for k in range(len(change_ns))])
    others_follow = _follows(others_ns, times.excess_ns) | (not times.communication_ns.any())
    copies_follow = _follows(_mean_change(times.copies_ns), times.excess_ns[memory])
    is_alone[idle] &= others_follow[idle]
    is_alone[memory] &= others_follow[memory] | copies_follow
    for place in np.flatnonzero(is_alone[transfer]).tolist():
        rank = times.ranks[place]
        before, after = (transfer_times(diff, side, rank).mean() for side in diff.sides)
        is_alone[transfer, place] = _follows(after - before, times.excess_ns[transfer, place])
    return np.where(is_alone, times.excess_ns, 0.0)


def _mean_change(times_ns: Floats) -> Floats:
    mean: Floats = times_ns.mean(axis=-1)
    return mean[..., 1] - mean[..., 0]


def _follows(change_ns: Floats, excess_ns: Floats) -> Bools:
    """Return where a change has the direction of the excess and at least a part of its size."""
    return change_ns * np.sign(excess_ns) >= _MIN_FOLLOWED * np.abs(excess_ns)


def _alone_mask(times: RankTimes, step_ns: float) -> Bools:
    """Return a mask (kinds, ranks) of the times that changed differently from most ranks."""
    step_count = times.own_ns.shape[-1]
    if step_count == 1 and len(times.ranks) < 3:
        return np.zeros(times.own_ns.shape[:2], dtype=bool)
    excess_ns = np.abs(times.excess_ns)
    longer_ns = times.own_ns.mean(axis=-1).max(axis=-1)
    of_time, of_step = _MIN_EXCESS, _MIN_EXCESS_OF_STEP
    # With one step or two ranks, nothing shows how much times vary between runs.
    if step_count == 1 or len(times.ranks) < 3:
        of_time, of_step = _MIN_EXCESS_ONE_STEP, _MIN_EXCESS_OF_ONLY_STEP
    is_alone: Bools = excess_ns >= np.maximum(of_time * longer_ns, of_step * step_ns)
    if step_count > 1:
        usual_ns = np.take_along_axis(times.own_ns, times.usual_rank[:, None, None, None], axis=1)
        gap_ns = times.own_ns - usual_ns
        before, after = (gap_ns[:, :, k].reshape(-1, step_count).T for k in (0, 1))
        # The spread of the other ranks limits errors from testing many ranks, but not many kinds of
        # time.
        kinds = np.count_nonzero(longer_ns.any(axis=1))
        is_alone &= (welch_p_value(before, after) * kinds < _ALPHA).reshape(is_alone.shape)
    else:
        is_alone[_OWN_KINDS.index("idle")] = False
    # The other ranks may include one that changed as much by chance.
    spread_ns = np.where(is_alone, 0.0, excess_ns).max(axis=1, keepdims=True)
    is_alone &= excess_ns >= _MIN_EXCESS_OF_SPREAD * spread_ns
    is_alone &= 2 * is_alone.sum(axis=1, keepdims=True) <= len(times.ranks)
    return is_alone


def lone_ranks(diff: Comparison) -> set[int]:
    """Return the ranks that exist, or are compared, only on one side."""
    before, after = diff.sides
    return set(before.traces) ^ set(after.traces) | set(before.ranks) ^ set(after.ranks)


def _times_outside_waits(diff: Comparison, ranks: list[int]) -> RankTimes:
    own_ns = np.zeros((len(_OWN_KINDS), len(ranks), 2, diff.step_count))
    waits_ns, communication_ns, copies_ns = np.zeros((3, *own_ns.shape[1:]))
    for side, run in enumerate(diff.sides):
        for place, rank in enumerate(ranks):
            copies_ns[place, side] = copy_times(diff, run, rank)
            for cause, times in step_times_by_cause(diff, run)[rank].items():
                kind = "transfer" if cause == "communication_transfer" else KIND_OF[cause]
                if kind in _OWN_KINDS:
                    own_ns[_OWN_KINDS.index(kind), place, side] += times
                if KIND_OF[cause] == "communication":
                    communication_ns[place, side] += times
                if cause == "communication_wait":
                    waits_ns[place, side] = times
    return RankTimes(ranks, own_ns, waits_ns, communication_ns, copies_ns)


def _late_on_both_sides(
    times: RankTimes, excess_alone_ns: Floats, rank: int, *, appears: bool
) -> Finding:
    """Return the change of a rank that both sides have, compared with the other ranks.

    The finding includes all ranks that changed equally, because only one of several equally late
    ranks is charged with the waits.
    """
    sign = 1 if appears else -1
    place = times.ranks.index(rank)
    kind = int((sign * times.excess_ns[:, place]).argmax())
    own_ns = abs(float(times.excess_ns[kind, place]))
    ratio = sign * excess_alone_ns[kind] / max(own_ns, 1)
    is_as_late = (ratio >= _MIN_AS_LATE) & (ratio <= 1 / _MIN_AS_LATE)
    is_as_late[place] = True
    places = np.flatnonzero(is_as_late).tolist()
    finding = _rank_change(times, places, kind, sign=sign, waiting=set(times.ranks))
    return replace(finding, details={**finding.details, "appears": appears})


def _rank_change(
    times: RankTimes, places: list[int], kind: int, *, sign: int, waiting: set[int]
) -> Finding:
    """Return how one kind of time of some ranks changed, compared with the other ranks.

    `waiting` lists the ranks that may wait for them.
    """
    ranks, measure = times.ranks, _OWN_KINDS[kind]
    own_ns: Floats = times.own_ns[kind].mean(axis=-1)
    waits_ns: Floats = times.waits_ns.mean(axis=-1)
    others = np.delete(np.arange(len(ranks)), places)
    parts = [
        time_change("other_rank", *own_ns[k].tolist(), ranks=(ranks[k],), measure=measure)
        for k in others.tolist()
    ]
    # Positive if others wait longer for ranks that became slower, or less for ranks that became
    # faster.
    moved_ns = sign * np.diff(waits_ns, axis=1)[others, 0]
    min_moved_ns = max(_MIN_WAITS_RATIO * float(moved_ns.max(initial=0)), 1)
    parts += [
        time_change("wait", *waits_ns[k].tolist(), ranks=(ranks[k],), measure="communication_wait")
        for k in others[moved_ns >= min_moved_ns].tolist()
        if ranks[k] in waiting
    ]
    # A rank may lose time of one kind and gain time of another. The step changes by the sum.
    excess_ns = times.excess_ns.sum(axis=0)[places]
    return time_change(
        "straggler",
        *own_ns[places].mean(axis=0).tolist(),
        ranks=tuple(ranks[k] for k in places),
        measure=measure,
        parts=tuple(parts),
        details={"excess_ns": float(excess_ns[np.abs(excess_ns).argmax()]), "sign": sign},
    )


def _late_on_one_side(
    verdict: pd.DataFrame, rank: int, step_count: int, *, appears: bool
) -> Finding:
    """For a rank on one side only, return its cost to each other rank on that side.

    `verdict` is the result of `stragglers` for that side, indexed by rank.
    """
    cost_ns = float(verdict["lost_ns"][rank]) / (len(verdict) - 1) / step_count
    return Finding(
        "straggler",
        diff_ns=cost_ns if appears else -cost_ns,
        ranks=(rank,),
        measure="communication_wait",
        details={
            "appears": appears,
            "sign": 1 if appears else -1,
            "cause": str(verdict["cause"][rank]),
        },
    )
