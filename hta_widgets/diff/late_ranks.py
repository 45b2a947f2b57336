"""Find ranks that keep the others waiting on one side only, and how their times changed."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd

from hta_widgets.analysis.stragglers import stragglers
from hta_widgets.diff.compare import Comparison, RunSide
from hta_widgets.diff.pairs import KIND_OF, moments, splits_communication
from hta_widgets.text import duration, number_runs, run_text, share_delta
from hta_widgets.trace.memo import memoized

Floats = npt.NDArray[np.float64]

#: Least change of the share of time lost, as a part of the larger one: a rank near the straggler
#: limit crosses it by chance.
_LOST = 0.5
_WAITS = 0.25  # of the largest change of a wait; ranks with less are not named
#: Kinds of a rank's own time. Communication is left out because it depends on the other ranks.
_OWN = {
    "compute": "compute",
    "memory": "exposed copies",
    "idle": "idle time of the device",
    "cpu": "time on the host",
}


class LateRank(NamedTuple):
    """A rank that keeps the others waiting on one side only."""

    rank: int
    appears: bool
    text: str
    diff_ns: float

    @property
    def clause(self) -> str:
        """The change as a clause without a full stop."""
        verb = "now keeps" if self.appears else "no longer keeps"
        return f"rank {self.rank} {verb} the others waiting"


@memoized
def late_ranks(diff: Comparison) -> list[LateRank]:
    """Return the ranks that keep the others waiting on one side only, the most costly first.

    `hta_widgets.analysis.stragglers` judges the compared steps of each side. A rank is returned if
    its cost at least halves or doubles and it has the same number on both sides. With a single step
    on each side the result is empty.
    """
    shared = [before for before, after in diff.rank_pairs if before == after]
    alone = diff.before.has_steps and diff.step_count == 1
    formats = diff.before.formats | diff.after.formats
    if alone or formats != {"kineto"} or not shared or not splits_communication(diff):
        return []
    judged = [_judged(side) for side in diff.sides]
    own, waits = _changes(diff, shared)
    found = []
    for place, rank in enumerate(shared):
        if not all(rank in frame.index for frame in judged):
            continue
        was, now = (bool(frame["is_straggler"][rank]) for frame in judged)
        lost = [float(frame["lost_share"][rank]) for frame in judged]
        if was is now or abs(lost[1] - lost[0]) < _LOST * max(lost):
            continue
        text, gap = _describe(place, shared, own, waits, appears=now)
        found.append((max(lost), LateRank(rank, now, text, gap)))
    return [late for _, late in sorted(found, key=lambda one: (-one[0], one[1].rank))]


def _judged(side: RunSide) -> pd.DataFrame:
    low, high = side.envelope()
    window = int(low.min()), int(high.max())
    return stragglers(side.traces, window=window, ranks=side.ranks).set_index("rank")


def _changes(diff: Comparison, ranks: list[int]) -> tuple[dict[str, Floats], Floats]:
    """Return time before and change of each kind of own time, (ranks, 2), and changes of waits."""
    own = {kind: np.zeros((len(ranks), 2)) for kind in _OWN}
    waits = np.zeros((len(ranks), 2))
    for side, run in enumerate(diff.sides):
        for place, rank in enumerate(ranks):
            for cause, times in moments(diff, run)[rank].items():
                if KIND_OF[cause] in own:
                    own[KIND_OF[cause]][place, side] += times.sum()
            waits[place, side] = moments(diff, run)[rank]["communication_wait"].sum()
    changes = {
        kind: np.stack([one[:, 0], one[:, 1] - one[:, 0]], axis=1) for kind, one in own.items()
    }
    return changes, waits[:, 1] - waits[:, 0]


def _describe(
    place: int, ranks: list[int], own: dict[str, Floats], waits: Floats, *, appears: bool
) -> tuple[str, float]:
    """Describe the change of one rank, and return its size in ns."""
    way = 1 if appears else -1
    others = np.delete(np.arange(len(ranks)), place)

    def beyond(kind: str) -> float:
        usual = float(np.median(own[kind][others, 1])) if len(others) else 0.0
        return way * (float(own[kind][place, 1]) - usual)

    kind = max(own, key=beyond)
    before, gap = own[kind][place]
    shares = own[kind][:, 1] / np.maximum(own[kind][:, 0], 1)
    text = f"its {_OWN[kind]} {share_delta(shares[place]) if before else 'is new'}"
    if len(others):
        low, high = (share_delta(value) for value in (shares[others].min(), shares[others].max()))
        text += f" (the others {low} to {high})" if low != high else f" (the others {low})"
        # The sign is that of an appearing rank, so that a wait that matters is positive.
        moved = way * waits[others]
        most = float(moved.max())
        named = others[moved >= max(_WAITS * most, 1)]
        if len(named):
            lengths = np.abs(waits[named])
            span = [duration(round(value)) for value in (lengths.min(), lengths.max())]
            verb = "wait" if len(named) > 1 else "waits"
            text += (
                f"; {_numbers([ranks[k] for k in named])} {verb} "
                f"{' to '.join(dict.fromkeys(span))} {'longer' if appears else 'less'}"
                f"{' each' * (len(named) > 1)}"
            )
    return text, float(gap)


def _numbers(ranks: list[int]) -> str:
    """Return ``ranks 0–3, 6, 7``."""
    return f"rank{'s' * (len(ranks) > 1)} {', '.join(map(run_text, number_runs(ranks)))}"
