"""Match the events of two runs, and assign each event the class that determines its color.

Each row of the table is a pair of matched events, or an unmatched event. Events that belong to a
row of `changes` get its class; all others are ``same``. For example, if ``aten::gelu`` went from
100 to 150 µs per step, its calls and their kernels get the class ``slower_2`` on both sides: they
take at least a third longer, but less than twice as long.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import pandas as pd

from hta_widgets.diff.changes import changes
from hta_widgets.diff.compare import Comparison
from hta_widgets.diff.pairs import pairs
from hta_widgets.diff.sides import RunSide
from hta_widgets.facts import facts
from hta_widgets.taxonomy import KINDS
from hta_widgets.tiles.replies import ClassCounts, PairEvents, Partner
from hta_widgets.trace.arrays import Bools, Codes, Ints, Rows

#: Event classes, in the order of their codes. Slower and faster have three degrees each: the longer
#: time exceeds the shorter one by less than a third, by at least a third, or by at least 100 %.
CLASSES: tuple[str, ...] = tuple(facts("event_classes")["light"])
_THIRD, _TWICE = 4 / 3, 2.0
_BETWEEN = " > "

DEVICE = ("compute", "communication", "memory")
_DEVICE_CODES = [KINDS.index(kind) for kind in DEVICE]
Ranks = tuple[int, int]  # before and after
BINS = 600  # number of bins of the overview, about a minimap's width in px
#: Maximum number of events marked for a call path, and of changes whose events can be marked.
MAX_MARKED, _MAX_CHANGES = 20_000, 60


def rows_of_change(pairs: pd.DataFrame, change: pd.Series) -> Rows:
    """Return the rows of `pairs` that belong to a change.

    A change of an operator includes its events and its device work. If the operator was added,
    removed or moved, this is all work below it; if it became slower or faster, only the work that
    it launched directly. A change of replaced work includes only the rows of that work.
    """
    word, name = str(change["change"]), str(change["name"])
    status, path = pairs["status"], pairs["path"]
    is_device = pairs["kind"].isin(DEVICE).to_numpy()
    has_name = _category_mask(pairs["name"], lambda text: text == name)
    is_operator = has_name & ~is_device
    # The path of device work ends with the operator that launched it.
    is_launched = is_device & _category_mask(
        path, lambda text: text == name or text.endswith(_BETWEEN + name)
    )
    if word in {"slower", "faster"}:
        is_matched = (pairs["before_id"] >= 0) & (pairs["after_id"] >= 0) & (status != "replaced")
        return np.flatnonzero(is_matched & (is_operator | is_launched))
    has_status = (status == word).to_numpy()
    if word == "replaced":
        return np.flatnonzero(has_status & is_launched)
    if str(change["measure"]) == "kernel":
        return np.flatnonzero(has_status & has_name & is_device)
    step = f"{_BETWEEN}{name}{_BETWEEN}"
    is_below = is_device & _category_mask(path, lambda text: step in f"{_BETWEEN}{text}{_BETWEEN}")
    return np.flatnonzero(has_status & (is_operator | is_below))


def _category_mask(column: pd.Series, matches: Callable[[str], bool]) -> Bools:
    # Missing values have the code -1, which indexes the last entry.
    is_match = np.array([*map(matches, column.cat.categories), False], dtype=np.bool_)
    return is_match[column.cat.codes.to_numpy()]


class EventClasses:
    """The class of each pair (`of_pairs`) and of each event."""

    def __init__(
        self,
        of_pairs: Codes,
        rows: Sequence[Mapping[int, Rows]],
        rank_pairs: Sequence[tuple[int, int]],
    ) -> None:
        self.of_pairs = of_pairs
        self._rank_pairs = rank_pairs
        # Events without a pair have the row -1, which indexes the last entry.
        codes = np.append(of_pairs, np.uint8(CLASSES.index("not_compared")))
        self._by_rank = [{rank: codes[pair] for rank, pair in side.items()} for side in rows]

    def of_rank(self, side: int, rank: int) -> Codes | None:
        """Return the class of each event of a rank, indexed by id (None: rank not compared)."""
        return self._by_rank[side].get(rank)

    def counts(self) -> ClassCounts:
        """Return the number of events in each class."""
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


def classes_of_pairs(pairs: pd.DataFrame, changes: pd.DataFrame) -> Codes:
    """Return the class of each pair, as determined by the largest change that contains it."""
    codes = np.full(len(pairs), CLASSES.index("same"), np.uint8)
    # Changes are sorted by size in descending order. The largest is written last, so it prevails.
    for row in reversed(range(len(changes))):
        change = changes.iloc[row]
        codes[rows_of_change(pairs, change)] = CLASSES.index(_class_of_change(change))
    return codes


def _class_of_change(change: pd.Series) -> str:
    word, before, after = str(change["change"]), change["before_ns"], change["after_ns"]
    if word in {"slower", "faster"}:
        ratio = max(before, after) / max(min(before, after), 1)
        return f"{word}_{1 + (ratio >= _THIRD) + (ratio >= _TWICE)}"
    return "only_here" if word in {"added", "removed"} else word


def class_overview(both: Comparison, classes: EventClasses) -> pd.DataFrame:
    """Return the device time of each class, in `BINS` equal intervals per side."""
    columns: dict[str, Ints] = {}
    attrs: dict[str, int] = {}
    for place, (word, side) in enumerate(zip(("before", "after"), both.sides, strict=True)):
        work = [
            _device_time_by_class(side, rank, classes.of_rank(place, rank)) for rank in side.parts
        ]
        start, end, code = (np.concatenate(column) for column in zip(*work, strict=True))
        if not len(start):
            continue
        first, last = int(start.min()), int(end.max())
        edges = first + (last - first) * np.arange(BINS + 1, dtype=np.int64) // BINS
        attrs |= {f"{word}_start_ns": first, f"{word}_end_ns": last}
        for class_code in np.unique(code).tolist():
            of_class = code == class_code
            columns[f"{word}_{class_code}"] = _time_between_edges(
                start[of_class], end[of_class], edges
            )
    overview = pd.DataFrame(columns, index=range(BINS))
    overview.attrs.update(attrs)
    return overview


def _device_time_by_class(
    side: RunSide, rank: int, codes: Codes | None
) -> tuple[Ints, Ints, Codes]:
    """Return the starts, ends and class codes of a rank's device work."""
    part = side.parts[rank]
    rows = np.flatnonzero(np.isin(part.table.kind, _DEVICE_CODES))
    start = part.table.start_ns[rows] + part.trace.shift_ns
    unknown = np.full(len(rows), len(CLASSES) - 1, np.uint8)
    return start, start + part.table.dur_ns[rows], unknown if codes is None else codes[rows]


def _time_between_edges(start: Ints, end: Ints, edges: Ints) -> Ints:
    """Return the total time of intervals, which may overlap, between adjacent edges."""
    # At an edge, an interval contributes the time since its start minus the time since its end.
    first = edges[0]
    since_starts = _distance_sums(start - first, edges - first)
    since_ends = _distance_sums(end - first, edges - first)
    return np.diff(since_starts - since_ends)


def _distance_sums(times: Ints, edges: Ints) -> Ints:
    """Return, for each edge, the sum of its distances to all earlier times."""
    times = np.sort(times)
    counts = times.searchsorted(edges)
    sums = np.concatenate([[0], np.cumsum(times)])
    distances: Ints = counts * edges - sums[counts]
    return distances


class PairTable:
    """The table of matched and unmatched events of a comparison."""

    def __init__(self, diff: Comparison, tree: pd.DataFrame) -> None:
        frame = pairs(diff)
        self._frame, self._changes = frame, changes(diff)
        self.statuses = [str(name) for name in frame["status"].cat.categories]
        self.status = frame["status"].cat.codes.to_numpy().astype(np.int64)
        self.rank = [frame[f"{side}_rank"].to_numpy() for side in ("before", "after")]
        self.id = [frame[f"{side}_id"].to_numpy() for side in ("before", "after")]
        self.node = _node_of_pairs(frame, tree)
        #: The row of each event in the pair table (-1 if it has none), for each side and rank.
        self._row_of: tuple[dict[int, Ints], dict[int, Ints]] = ({}, {})
        for number, side in enumerate(diff.sides):
            for rank, part in side.parts.items():
                rows = np.flatnonzero((self.rank[number] == rank) & (self.id[number] >= 0))
                row_of = self._row_of[number][rank] = np.full(len(part.table), -1, np.int64)
                row_of[self.id[number][rows]] = rows
        self.classes = EventClasses(
            classes_of_pairs(frame, self._changes), self._row_of, diff.rank_pairs
        )

    def partner_of(self, side: int, rank: int, event: int) -> Partner:
        """Return an event's status and node, and the rank and id of its partner."""
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

    def events_of(self, node: int, ranks: Ranks | None = None) -> PairEvents:
        """Return a call path's events on each side as (rank, id), optionally of some ranks only."""
        return self._events(np.flatnonzero((self.node == node) & (node >= 0)), ranks)

    def events_of_change(self, change: pd.Series, ranks: Ranks | None = None) -> PairEvents:
        """Return a change's events on each side as (rank, id); see `hta_widgets.diff.changes`."""
        return self._events(rows_of_change(self._frame, change), ranks)

    def _events(self, rows: Rows, ranks: Ranks | None) -> PairEvents:
        events = []
        for side, (rank, event) in enumerate(zip(self.rank, self.id, strict=True)):
            side_rows = rows[event[rows] >= 0]
            if ranks is not None:
                side_rows = side_rows[rank[side_rows] == ranks[side]]
            side_rows = side_rows[:MAX_MARKED]
            events.append(np.stack([rank[side_rows], event[side_rows]], axis=1).tolist())
        return {"events": events}

    def rows_of_changes(self) -> list[Ints]:
        """Return the rows of pairs that belong to each of the first `_MAX_CHANGES` changes."""
        count = min(len(self._changes), _MAX_CHANGES)
        return [rows_of_change(self._frame, self._changes.iloc[row]) for row in range(count)]


def _node_of_pairs(frame: pd.DataFrame, tree: pd.DataFrame) -> Ints:
    """Return the node of each pair, or -1 if its call path is not in the tree."""
    paths = zip(tree["path"], tree["name"], strict=True)
    node_of = {path: node for node, path in enumerate(paths)}
    # Look up each distinct path only once.
    group = frame.groupby(["path", "name"], observed=True, sort=False).ngroup()
    keys = frame.loc[~group.duplicated(), ["path", "name"]].itertuples(index=False, name=None)
    nodes = np.array([node_of.get(key, -1) for key in keys], np.int64)
    return nodes[group.to_numpy()]
