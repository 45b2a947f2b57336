"""Which event's partner is which, laid out for looking up and for a page."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from hta_widgets.diff.sides import Comparison
from hta_widgets.diff.sides import RunSide
from hta_widgets.diff.changes import changes
from hta_widgets.diff.pairs import pairs
from hta_widgets.live.change_events import rows_of_change
from hta_widgets.live.event_classes import EventClasses
from hta_widgets.export.blocks import ColumnWriter
from hta_widgets.trace.table import KINDS

__all__ = ["MOST_EVENTS", "PairTable"]

Ints = npt.NDArray[np.int64]
#: One before and one after.
Ranks = tuple[int, int]

#: More events of one call path are not marked.
MOST_EVENTS = 20_000
#: More changes have no events to mark in a saved page.
_MOST_CHANGES = 60
_DEVICE = ("compute", "communication", "memory")


class PairTable:
    """The pairs of a comparison.

    Parameters
    ----------
    diff : Comparison
    tree : DataFrame
        As `hta_widgets.diff.icicle` has it: pairs know which of its nodes is theirs.
    """

    def __init__(self, diff: Comparison, tree: pd.DataFrame) -> None:
        frame = pairs(diff)
        self._frame, self._changes = frame, changes(diff)
        self.classes = EventClasses(diff, frame)
        self.statuses = [str(name) for name in frame["status"].cat.categories]
        self.status = frame["status"].cat.codes.to_numpy().astype(np.int64)
        self.rank = [frame[f"{side}_rank"].to_numpy() for side in ("before", "after")]
        self.id = [frame[f"{side}_id"].to_numpy() for side in ("before", "after")]
        self.kind = frame["kind"].cat.codes.to_numpy().astype(np.int64)
        self.node = _nodes(frame, tree)
        self.start, self.dur = zip(
            *(
                _times(side, rank, ids)
                for side, rank, ids in zip(diff.sides, self.rank, self.id, strict=True)
            ),
            strict=True,
        )
        self._row_of = [
            _rows_by_id(side, rank, ids)
            for side, rank, ids in zip(diff.sides, self.rank, self.id, strict=True)
        ]

    def partner(self, side: int, rank: int, event: int) -> dict[str, Any]:
        """Return what became of an event: its status, and rank and id on the other side."""
        rows = self._row_of[side].get(rank)
        row = -1 if rows is None or not 0 <= event < len(rows) else int(rows[event])
        if row < 0:
            return {"status": None, "rank": -1, "id": -1, "node": -1}
        other = 1 - side
        return {
            "status": self.statuses[self.status[row]],
            "rank": int(self.rank[other][row]),
            "id": int(self.id[other][row]),
            "node": int(self.node[row]),
        }

    def ties(self, side: int, start_ns: int, end_ns: int, most: int) -> dict[str, Any]:
        """Return the longest pieces of device work in a window, with their partners."""
        device = np.isin(self.kind, [KINDS.index(kind) for kind in _DEVICE])
        start, dur = self.start[side], self.dur[side]
        there = device & (self.id[side] >= 0) & (start < end_ns) & (start + dur > start_ns)
        rows = np.flatnonzero(there & (self.id[1 - side] >= 0))
        size = np.maximum(self.dur[0][rows], self.dur[1][rows])
        rows = rows[np.argsort(-size, kind="stable")[:most]]
        return {
            "of": int(there.sum()),
            "ties": [
                [int(values[row]) for k in (0, 1) for values in (self.start[k], self.dur[k])]
                for row in rows.tolist()
            ],
        }

    def events_of(self, node: int, ranks: Ranks | None = None) -> dict[str, Any]:
        """Return the events of one call path, by side, as (rank, id); of all ranks by default."""
        return self._events(np.flatnonzero((self.node == node) & (node >= 0)), ranks)

    def events_of_change(self, change: pd.Series, ranks: Ranks | None = None) -> dict[str, Any]:
        """Return the events of a row of `hta_widgets.diff.changes`, by side, as (rank, id)."""
        return self._events(rows_of_change(self._frame, change), ranks)

    def _events(self, rows: npt.NDArray[np.intp], ranks: Ranks | None) -> dict[str, Any]:
        found = []
        for k in (0, 1):
            there = rows[self.id[k][rows] >= 0]
            if ranks is not None:
                there = there[self.rank[k][there] == ranks[k]]
            there = there[:MOST_EVENTS]
            found.append(np.stack([self.rank[k][there], self.id[k][there]], axis=1).tolist())
        return {"events": found}

    def write(self) -> ColumnWriter:
        """Return what answers the same in a page."""
        out = ColumnWriter()
        device = np.isin(self.kind, [KINDS.index(kind) for kind in _DEVICE])
        for k in (0, 1):
            out.ints(f"rank{k}", self.rank[k] + 1, delta=True)
            out.ints(f"id{k}", self.id[k] + 1, delta=True)
            # Times of others are asked of their own events.
            out.ints(f"start{k}", self.start[k][device], delta=True)
            out.ints(f"dur{k}", self.dur[k][device])
        out.ints("status", self.status)
        out.ints("class", self.classes.of_pairs)
        out.ints("node", self.node + 1)
        for row in range(min(len(self._changes), _MOST_CHANGES)):
            rows = rows_of_change(self._frame, self._changes.iloc[row])
            out.ints(f"change{row}", rows.astype(np.int64), delta=True)
        out.ints("device", device)
        return out


def _nodes(frame: pd.DataFrame, tree: pd.DataFrame) -> Ints:
    """Return the node of each pair, -1 where the tree does not draw its call path."""
    node = {
        (path, name): number
        for number, (path, name) in enumerate(
            zip(tree["path"].tolist(), tree["name"].tolist(), strict=True)
        )
    }
    paths, names = frame["path"].cat, frame["name"].cat
    packed = paths.codes.to_numpy().astype(np.int64) * (len(names.categories) + 1)
    packed += names.codes.to_numpy()
    distinct, inverse = np.unique(packed, return_inverse=True)
    path_texts, name_texts = list(paths.categories), list(names.categories)
    width = len(name_texts) + 1
    numbers = np.array(
        [node.get((path_texts[k // width], name_texts[k % width]), -1) for k in distinct.tolist()],
        dtype=np.int64,
    )
    found: Ints = numbers[inverse] if len(numbers) else np.empty(0, np.int64)
    return found


def _rows_by_id(side: RunSide, rank: Ints, ids: Ints) -> dict[int, Ints]:
    """Return by rank the row of each event, by its id; -1 for none."""
    found = {}
    for number, part in side.parts.items():
        rows = np.flatnonzero((rank == number) & (ids >= 0))
        found[number] = np.full(len(part.table), -1, np.int64)
        found[number][ids[rows]] = rows
    return found


def _times(side: RunSide, rank: Ints, ids: Ints) -> tuple[Ints, Ints]:
    start, dur = np.zeros(len(ids), np.int64), np.zeros(len(ids), np.int64)
    for number, part in side.parts.items():
        rows = np.flatnonzero((rank == number) & (ids >= 0))
        start[rows] = part.table.start_ns[ids[rows]] + part.trace.shift_ns
        dur[rows] = part.table.dur_ns[ids[rows]]
    return start, dur
