"""Classes of events in a comparison, as codes that timelines colour."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import pandas as pd

from hta_widgets.facts import facts
from hta_widgets.tiles.replies import ClassCounts
from hta_widgets.trace.arrays import Bools, Codes, Rows

#: By code. Numbers of slower and faster: less than a third longer than the other, less than twice
#: as long, longer.
CLASSES: tuple[str, ...] = tuple(facts("event_classes")["light"])
_THIRD, _TWICE = 4 / 3, 2.0
_BETWEEN = " > "

DEVICE = ("compute", "communication", "memory")


def rows_of_change(pairs: pd.DataFrame, change: pd.Series) -> Rows:
    """Return the rows of `pairs` that belong to a change.

    These are the changed operators of its name with their device work: all work below for added,
    removed and moved ones, the work they launched for slower and faster ones; for replaced work
    only the work.
    """
    word, name = str(change["change"]), str(change["name"])
    status = pairs["status"].to_numpy()
    named = _of_texts(pairs["name"], lambda text: text == name)
    device = pairs["kind"].isin(DEVICE).to_numpy()
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


def _of_texts(column: pd.Series, holds: Callable[[str], bool]) -> Bools:
    """Return which rows have a category for which `holds` is true."""
    # The last entry is for missing values, -1.
    flags = np.array([*map(holds, column.cat.categories), False], dtype=np.bool_)
    found: Bools = flags[column.cat.codes.to_numpy()]
    return found


class EventClasses:
    """A class for every event of both sides; `rows` has the pair of each event by side and rank."""

    def __init__(
        self,
        of_pairs: Codes,
        rows: Sequence[Mapping[int, Rows]],
        rank_pairs: Sequence[tuple[int, int]],
    ) -> None:
        self.of_pairs = of_pairs
        self._rank_pairs = rank_pairs
        # The last entry is for events without a pair, -1.
        codes = np.append(of_pairs, np.uint8(CLASSES.index("not_compared")))
        self._by_rank = [{rank: codes[pair] for rank, pair in side.items()} for side in rows]

    def of_rank(self, side: int, rank: int) -> Codes | None:
        """Return the class of each event of a rank, by id; None if the rank is not compared."""
        return self._by_rank[side].get(rank)

    def counts(self) -> ClassCounts:
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
    ratio = np.maximum(before, after) / np.maximum(np.minimum(before, after), 1)
    size = (ratio >= _THIRD).astype(np.int64) + (ratio >= _TWICE)
    changed = size + np.where(after > before, CLASSES.index("slower_1"), CLASSES.index("faster_1"))
    names = {"added": "only_here", "removed": "only_here", "changed": "slower_1"}
    statuses = pairs["status"].cat.categories
    class_of = np.array([CLASSES.index(names.get(name, name)) for name in statuses])
    found = class_of[pairs["status"].cat.codes.to_numpy()]
    codes: Codes = np.where(pairs["status"] == "changed", changed, found).astype(np.uint8)
    return codes
