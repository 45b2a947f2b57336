"""What a comparison says of every event, as a code that timelines have a colour for."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from hta_widgets.diff.compare import Comparison

Codes = npt.NDArray[np.uint8]

#: By code, the same as in `js/src/compare/event_classes.ts`. The first number of slower and faster
#: is for less than a third longer than the other, the second for less than twice as long.
CLASSES: tuple[str, ...] = (
    "same",
    "slower_1",
    "slower_2",
    "slower_3",
    "faster_1",
    "faster_2",
    "faster_3",
    "only_here",
    "moved",
    "replaced",
    "not_compared",
)

_THIRD, _TWICE = 4 / 3, 2.0


class EventClasses:
    """A class for every event of both sides."""

    def __init__(self, both: Comparison, pairs: pd.DataFrame) -> None:
        self.of_pairs = classes_of_pairs(pairs)
        self._rank_pairs = both.rank_pairs
        self._by_rank: list[dict[int, Codes]] = []
        for word, side in zip(("before", "after"), both.sides, strict=True):
            rank, ids = pairs[f"{word}_rank"].to_numpy(), pairs[f"{word}_id"].to_numpy()
            found = {}
            for number, part in side.parts.items():
                codes = np.full(len(part.table), CLASSES.index("not_compared"), np.uint8)
                rows = np.flatnonzero((rank == number) & (ids >= 0))
                codes[ids[rows]] = self.of_pairs[rows]
                found[number] = codes
            self._by_rank.append(found)

    def of_rank(self, side: int, rank: int) -> Codes | None:
        """Return the class of each event of a rank, by id; None of ranks that are not compared."""
        return self._by_rank[side].get(rank)

    def counts(self) -> dict[str, Any]:
        """Return how many events have each class."""
        by_rank = [
            {number: np.bincount(codes, minlength=len(CLASSES)) for number, codes in side.items()}
            for side in self._by_rank
        ]
        none = np.zeros(len(CLASSES), np.int64)
        return {
            "counts": [sum(side.values(), none).tolist() for side in by_rank],
            "pair_counts": [
                [side[rank].tolist() for side, rank in zip(by_rank, ranks, strict=True)]
                for ranks in self._rank_pairs
            ],
        }


def classes_of_pairs(pairs: pd.DataFrame) -> Codes:
    """Return the class of each pair."""
    before, after = pairs["before_ns"].to_numpy(), pairs["after_ns"].to_numpy()
    statuses = list(pairs["status"].cat.categories)
    ratio = np.maximum(before, after) / np.maximum(np.minimum(before, after), 1)
    size = (ratio >= _THIRD).astype(np.int64) + (ratio >= _TWICE)
    changed = np.where(
        after > before, CLASSES.index("slower_1") + size, CLASSES.index("faster_1") + size
    )
    alone = {"added": "only_here", "removed": "only_here"}
    class_of = np.array(
        [CLASSES.index(alone.get(name, name)) if name != "changed" else -1 for name in statuses]
    )
    found = class_of[pairs["status"].cat.codes.to_numpy()]
    codes: Codes = np.where(found < 0, changed, found).astype(np.uint8)
    return codes
