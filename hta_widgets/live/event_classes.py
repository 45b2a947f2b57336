"""What a comparison says of every event, as a code that timelines have a colour for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from hta_widgets.diff.compare import Comparison

Flags = npt.NDArray[np.bool_]
Ints = npt.NDArray[np.intp]

_DEVICE = ("compute", "communication", "memory")
_BETWEEN = " > "


def rows_of_change(pairs: pd.DataFrame, change: pd.Series) -> Ints:
    """Return the rows of `pairs` that a change is about.

    Operators of its name, as far as their calls are what it says, and the device work that belongs
    to them: of what came, went or moved all work below, of slower and faster ones what they
    launched themselves, of replaced work that alone.
    """
    word, name = str(change["change"]), str(change["name"])
    status = pairs["status"].to_numpy()
    named = _of_texts(pairs["name"], lambda text: text == name)
    device = pairs["kind"].isin(_DEVICE).to_numpy()
    launched = device & _of_texts(
        pairs["path"], lambda text: text == name or text.endswith(_BETWEEN + name)
    )
    if word in {"slower", "faster"}:
        matched = (pairs["before_id"] >= 0).to_numpy() & (pairs["after_id"] >= 0).to_numpy()
        return np.flatnonzero(matched & (status != "replaced") & (named & ~device | launched))
    if word == "replaced":
        return np.flatnonzero((status == word) & launched)
    if str(change["measure"]) == "kernel":
        return np.flatnonzero((status == word) & named & device)
    within = f"{_BETWEEN}{name}{_BETWEEN}"
    below = _of_texts(pairs["path"], lambda text: within in f"{_BETWEEN}{text}{_BETWEEN}")
    return np.flatnonzero((status == word) & (named & ~device | below & device))


def _of_texts(column: pd.Series, holds: Callable[[str], bool]) -> Flags:
    """Return where a category holds; asked once for each distinct text."""
    asked = np.array([holds(text) for text in column.cat.categories], dtype=np.bool_)
    codes = column.cat.codes.to_numpy()
    found: Flags = asked[codes] & (codes >= 0) if len(asked) else np.zeros(len(codes), np.bool_)
    return found


Codes = npt.NDArray[np.uint8]

#: By code, the same as in `js/src/facts/event_classes.ts`. The first number of slower and faster
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
