"""Find the ranks that keep the others waiting on one side only.

`hta_widgets.analysis.stragglers` judges the compared steps of each side. If it names rank 1 after
but not before, the finding has the time of its own that changed most beyond the other ranks', those
ranks' change of the same time, and the ranks whose waits became longer:

    rank 1: compute 8 → 10 ms; rank 0: compute 8 → 8.1 ms, waits 0 → 2 ms
"""

from __future__ import annotations

import numpy as np
import pandas as pd

from hta_widgets.analysis.cross_rank.stragglers import stragglers
from hta_widgets.diff.causes import KIND_OF, splits_communication, step_times_by_cause
from hta_widgets.diff.compare import Comparison
from hta_widgets.diff.records import Finding, rank_findings, time_change
from hta_widgets.trace.arrays import Floats
from hta_widgets.trace.memo import memoize

_MIN_LOST_RATIO = 0.5  # minimum relative change of lost time; less may be chance near the limit
_MIN_WAITS_RATIO = (
    0.25  # minimum change of a wait for naming its rank, as a share of the largest change
)
#: Kinds of a rank's own time; communication depends on the other ranks.
_OWN_KINDS = ("compute", "memory", "idle", "cpu")
_TOPIC = "late_rank"


@memoize
def late_ranks(diff: Comparison) -> list[Finding]:
    """Return the ranks that keep the others waiting on one side only, the most costly first.

    A rank is returned if its cost at least halves or doubles and it has the same number on both
    sides, or if only one side has it or is compared with it. With a single step on each side the
    result is empty. ``details["appears"]`` is whether the rank is late after, not before.
    """
    shared = [before for before, after in diff.rank_pairs if before == after]
    single = diff.before.has_steps and diff.step_count == 1
    formats = diff.before.formats | diff.after.formats
    if single or formats != {"kineto"} or not splits_communication(diff):
        return []
    judged = []
    for side in diff.sides:
        low, high = side.envelope()
        window = int(low.min()), int(high.max())
        judged.append(stragglers(side.traces, window=window).set_index("rank"))
    own_times, waits = _times_outside_waits(diff, shared)
    results = []
    for rank in sorted({*shared, *lone_ranks(diff)}):
        if rank in shared and not all(rank in frame.index for frame in judged):
            continue
        was, now = (bool(frame["is_straggler"].get(rank, False)) for frame in judged)
        lost = [float(frame["lost_share"].get(rank, 0.0)) for frame in judged]
        if was is now or abs(lost[1] - lost[0]) < _MIN_LOST_RATIO * max(lost):
            continue
        results.append(
            _late_on_both_sides(shared, rank, own_times, waits, appears=now, weight=max(lost))
            if rank in shared
            else _late_on_one_side(judged[now], rank, appears=now, weight=max(lost))
        )
    return rank_findings(results, [_TOPIC])


def lone_ranks(diff: Comparison) -> set[int]:
    """Return the ranks that only one side has or is compared with."""
    before, after = diff.sides
    return set(before.traces) ^ set(after.traces) | set(before.ranks) ^ set(after.ranks)


def _times_outside_waits(diff: Comparison, ranks: list[int]) -> tuple[dict[str, Floats], Floats]:
    """Return the time of each kind of own time, and of waits, before and after: (ranks, 2)."""
    own_times = {kind: np.zeros((len(ranks), 2)) for kind in _OWN_KINDS}
    waits = np.zeros((len(ranks), 2))
    for side, run in enumerate(diff.sides):
        for place, rank in enumerate(ranks):
            for cause, times in step_times_by_cause(diff, run)[rank].items():
                if KIND_OF[cause] in own_times:
                    own_times[KIND_OF[cause]][place, side] += times.sum()
                if cause == "communication_wait":
                    waits[place, side] = times.sum()
    return own_times, waits


def _late_on_both_sides(
    ranks: list[int],
    rank: int,
    own_times: dict[str, Floats],
    waits: Floats,
    *,
    appears: bool,
    weight: float,
) -> Finding:
    """Return the change of a rank that both sides have, compared with the other ranks."""
    sign = 1 if appears else -1
    place = ranks.index(rank)
    others = np.delete(np.arange(len(ranks)), place)

    def excess_ns(kind: str) -> float:
        change = np.diff(own_times[kind], axis=1)[:, 0]
        usual = float(np.median(change[others])) if len(others) else 0.0
        return sign * (float(change[place]) - usual)

    kind = max(own_times, key=excess_ns)
    parts = [
        time_change("other_rank", *own_times[kind][k].tolist(), ranks=(ranks[k],), measure=kind)
        for k in others.tolist()
    ]
    # Positive if the others wait longer for a rank that appears, less for one that disappears.
    moved_ns = sign * np.diff(waits, axis=1)[others, 0]
    min_moved_ns = max(_MIN_WAITS_RATIO * float(moved_ns.max(initial=0)), 1)
    parts += [
        time_change("wait", *waits[k].tolist(), ranks=(ranks[k],), measure="communication_wait")
        for k in others[moved_ns >= min_moved_ns].tolist()
    ]
    return time_change(
        "straggler",
        *own_times[kind][place].tolist(),
        topic=_TOPIC,
        ranks=(rank,),
        measure=kind,
        weight=weight,
        parts=tuple(parts),
        details={"appears": appears},
    )


def _late_on_one_side(judged: pd.DataFrame, rank: int, *, appears: bool, weight: float) -> Finding:
    """Return what a rank that one side lacks costs each of the others on the side that has it."""
    cost_ns = float(judged["lost_ns"][rank]) / (len(judged) - 1)
    return Finding(
        "straggler",
        diff_ns=cost_ns if appears else -cost_ns,
        topic=_TOPIC,
        ranks=(rank,),
        measure="communication_wait",
        weight=weight,
        details={"appears": appears, "cause": str(judged["cause"][rank])},
    )
