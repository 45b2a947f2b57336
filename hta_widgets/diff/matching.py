"""Which event of one run is which of the other: by call path, name and order within a step."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pandas as pd

from hta_widgets.analysis.results import categorical, joined, result
from hta_widgets.model import KINDS
from hta_widgets.model.frames import dtype_of

from .cautions import stacks_on
from .sequences import aligned_places
from .sides import Comparison
from .trees import CALL, OPERATOR, WORK, NamePool, RankTree, mixed, rank_tree

__all__ = ["STATUSES", "Matched", "match", "pairs"]

Ints = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]
Hashes = npt.NDArray[np.uint64]

#: What can become of an event, in the order of the categories of ``status``.
STATUSES: tuple[str, ...] = ("same", "changed", "added", "removed", "moved", "replaced")

_SAME, _CHANGED, _ADDED, _REMOVED, _MOVED, _REPLACED = range(6)
_RELATIVE = 0.05  # of the longer of two; less is not called a change
_SPREADS = 3 * 1.4826  # times the median deviation: three standard deviations of a normal spread


@dataclass(eq=False)
class Matched:
    """Two ranks' call trees, and which nodes belong together.

    Attributes
    ----------
    trees : (RankTree, RankTree)
    partner : (array of int, array of int)
        For each node the one of the other tree, -1 for none.
    status : (array of int, array of int)
        Codes into `STATUSES`; of pairs both have the same.
    path : (array of int, array of int)
        Number of each node's path: names from the outermost operator down to itself.
    """

    trees: tuple[RankTree, RankTree]
    partner: tuple[Ints, Ints]
    status: tuple[npt.NDArray[np.int8], npt.NDArray[np.int8]]
    path: tuple[Ints, Ints] = field(default=(np.empty(0, np.int64), np.empty(0, np.int64)))

    def path_before(self) -> Ints:
        """Return for each node after the path of its partner before, or its own."""
        partner = self.partner[1]
        found = self.path[1].copy()
        found[partner >= 0] = self.path[0][partner[partner >= 0]]
        return found


@dataclass(eq=False)
class Matches:
    """All pairs of ranks, and the names and paths that they share.

    Attributes
    ----------
    ranks : list of Matched
        As in `Comparison.rank_pairs`.
    pool : NamePool
    path_parent, path_name, path_kind : list of int
        Of each path the one above (-1: none), its name, and the class of its node.
    """

    ranks: list[Matched]
    pool: NamePool
    path_parent: list[int]
    path_name: list[int]
    path_kind: list[int]

    def callers(self) -> list[str]:
        """Return of each path what calls it, outermost first, ``" > "`` between."""
        names, texts = self.pool.names, [""] * len(self.path_name)
        for path, parent in enumerate(self.path_parent):
            if parent >= 0:
                above = texts[parent]
                name = names[self.path_name[parent]]
                texts[path] = f"{above} > {name}" if above else name
        return texts


def match(diff: Comparison) -> Matches:
    """Return which events of the paired ranks belong together.

    From the outermost operators down, the calls below one pair of operators are laid upon each
    other in their order: those of one name pair, those that are alike in all below them first.
    Threads pair by what they run. Device work belongs to the operator that launched it, in order of
    launch. Where an operator has unmatched work on both sides, it was ``replaced``. Operators left
    over on both sides that are alike in all below them have ``moved`` within their step; so have
    those of one name where both sides have as many left.
    """
    known = diff.memo.get("matches")
    if known is None:
        pool = NamePool()
        stacks = all(
            any(stacks_on(part.trace) for part in side.parts.values()) for side in diff.sides
        )
        known = Matches([], pool, [], [], [])
        paths: dict[tuple[int, int, int], int] = {}
        for before, after in diff.rank_pairs:
            trees = (
                rank_tree(diff.before, before, pool, stacks=stacks),
                rank_tree(diff.after, after, pool, stacks=stacks),
            )
            found = _Matcher(trees, len(pool)).run()
            found.path = (_paths(trees[0], paths), _paths(trees[1], paths))
            known.ranks.append(found)
        for parent, name, kind in paths:
            known.path_parent.append(parent)
            known.path_name.append(name)
            known.path_kind.append(kind)
        _judge(known)
        diff.memo["matches"] = known
    return known


def pairs(diff: Comparison) -> pd.DataFrame:
    """Return every operator, call and piece of device work of the paired ranks with its partner.

    Parameters
    ----------
    diff : Comparison

    Returns
    -------
    DataFrame
        One row per pair, or event without a partner, by rank, then time before:

        - ``pair`` (int64), from 0
        - ``before_rank, before_id, after_rank, after_id`` (int64): ids are -1 without a partner
        - ``name`` (category): after's where there is one; ``kind`` (category), as in events
        - ``path`` (category): the operators and annotations that enclose it, outermost first,
          ``" > "`` between; threads and steps are no part of it
        - ``before_step, after_step`` (int64): numbers of the steps, -1 for none
        - ``before_ns, after_ns, diff_ns`` (int64): durations, 0 without a partner
        - ``status`` (category): ``same``; ``changed``: longer or shorter by more than 5 % of the
          longer, and than three times the spread that the differences of events of the same path
          have; ``added, removed``; ``moved``: in another place of its step;
          ``replaced``: other device work below the same operator, in order; ids are -1 where one
          piece of work took the place of several

        Events of steps that are not compared are left out. ``.attrs["matched"]`` counts the rows
        of each status.

    Examples
    --------
    >>> found = pairs(diff)  # doctest: +SKIP
    >>> found[found.status == "replaced"]  # doctest: +SKIP
    """
    known = diff.memo.get("pairs")
    if known is None:
        known = diff.memo["pairs"] = _frame(diff, match(diff))
    frame: pd.DataFrame = known.copy()
    frame.attrs = dict(known.attrs)
    return frame


class _Matcher:
    """Matches two trees from the outermost operators down."""

    def __init__(self, trees: tuple[RankTree, RankTree], names: int) -> None:
        self.trees = trees
        mixed_names = mixed(np.arange(names, dtype=np.uint64))
        self.hashes = tuple(tree.hashes(mixed_names) for tree in trees)
        self.partner = tuple(np.full(len(tree), -1, dtype=np.int64) for tree in trees)
        self.replaced = tuple(np.zeros(len(tree), dtype=bool) for tree in trees)
        self.moved = tuple(np.zeros(len(tree), dtype=bool) for tree in trees)
        self.known: dict[tuple[bytes, ...], Ints] = {}
        self.roots = _roots(trees)
        self.listed = [_Listed(tree, root) for tree, root in zip(trees, self.roots, strict=True)]

    def run(self) -> Matched:
        before, after = self.trees
        count = [int(root.max(initial=-1)) + 1 for root in self.roots]
        shared = np.arange(max(0, min(count)), dtype=np.int64)
        self._down(shared + len(before), shared + len(after), moved=False)
        self._moves()
        status = []
        for k, alone in ((0, _REMOVED), (1, _ADDED)):
            found = np.where(self.partner[k] >= 0, _SAME, alone).astype(np.int8)
            found[self.moved[k]] = _MOVED
            found[self.replaced[k]] = _REPLACED
            status.append(found)
        return Matched(self.trees, (self.partner[0], self.partner[1]), (status[0], status[1]))

    def _down(self, a: Ints, b: Ints, *, moved: bool) -> None:
        """Match all below pairs of nodes, level by level."""
        while len(a):
            found = self._level(a, b)
            if moved:
                self.moved[0][found[:, 0]] = True
                self.moved[1][found[:, 1]] = True
            goes_on = self.trees[0].kind[found[:, 0]] == OPERATOR
            a, b = found[goes_on, 0], found[goes_on, 1]

    def _level(self, a: Ints, b: Ints) -> Ints:
        """Match what lies directly below pairs of nodes; return the pairs found."""
        kinds = np.arange(3)
        buckets = (a[:, None] * 3 + kinds).ravel(), (b[:, None] * 3 + kinds).ravel()
        counts = [one.count[bucket] for one, bucket in zip(self.listed, buckets, strict=True)]
        there = (counts[0] > 0) & (counts[1] > 0)
        first = [one.first[bucket][there] for one, bucket in zip(self.listed, buckets, strict=True)]
        sizes = [count[there] for count in counts]
        even = np.flatnonzero(sizes[0] == sizes[1])
        nodes = [
            one.nodes[_ranges(begin[even], sizes[0][even])]
            for one, begin in zip(self.listed, first, strict=True)
        ]
        group = np.repeat(even, sizes[0][even])
        differs = self.trees[0].name[nodes[0]] != self.trees[1].name[nodes[1]]
        uneven = sizes[0] != sizes[1]
        uneven[group[differs]] = True
        direct = ~uneven[group]
        found = [np.stack([nodes[0][direct], nodes[1][direct]], axis=1)]
        self._join(found[0])
        for place in np.flatnonzero(uneven).tolist():
            mine, theirs = (
                one.nodes[begin[place] : begin[place] + size[place]]
                for one, begin, size in zip(self.listed, first, sizes, strict=True)
            )
            found.append(self._sequence(mine, theirs))
        return np.concatenate(found)

    def _sequence(self, mine: Ints, theirs: Ints) -> Ints:
        """Lay two sequences of siblings upon each other."""
        names = self.trees[0].name[mine], self.trees[1].name[theirs]
        hashes = self.hashes[0][mine], self.hashes[1][theirs]
        key = (*(one.tobytes() for one in names), *(one.tobytes() for one in hashes))
        places = self.known.get(key)
        if places is None:
            places = self.known[key] = aligned_places(*names, *hashes)
        found = np.stack([mine[places[:, 0]], theirs[places[:, 1]]], axis=1)
        self._join(found)
        if self.trees[0].kind[mine[0]] == WORK:
            left = np.delete(mine, places[:, 0]), np.delete(theirs, places[:, 1])
            if len(left[0]) and len(left[1]) and self.trees[0].parent[mine[0]] >= 0:
                self.replaced[0][left[0]] = True
                self.replaced[1][left[1]] = True
                both = min(map(len, left))
                self._join(np.stack([left[0][:both], left[1][:both]], axis=1))
        return found

    def _join(self, found: Ints) -> None:
        self.partner[0][found[:, 0]] = found[:, 1]
        self.partner[1][found[:, 1]] = found[:, 0]

    def _moves(self) -> None:
        """Pair operators that are left over on both sides of a step.

        First those alike in all below them, then those of one name of which both sides have as
        many.
        """
        for by_content in (True, False):
            keys = []
            for k, tree in enumerate(self.trees):
                alone = self.partner[k] < 0
                outermost = alone & (tree.kind == OPERATOR)
                outermost &= (tree.parent < 0) | ~alone[tree.parent]
                # A lone call such as aten::empty has no identity of its own.
                outermost &= tree.forest.sums((tree.kind != CALL).astype(np.int64)) > 1
                nodes = np.flatnonzero(outermost)
                nodes = nodes[np.argsort(tree.order[nodes], kind="stable")]
                told = self.hashes[k][nodes] if by_content else tree.name[nodes].astype(np.uint64)
                keys.append((nodes, mixed(told + mixed(tree.slot[nodes].astype(np.uint64)))))
            (a, told_a), (b, told_b) = keys
            if not len(a) or not len(b):
                return
            places = _namesakes(told_a, told_b, as_many=not by_content)
            found = np.stack([a[places[:, 0]], b[places[:, 1]]], axis=1)
            self._join(found)
            self.moved[0][found[:, 0]] = True
            self.moved[1][found[:, 1]] = True
            self._down(found[:, 0], found[:, 1], moved=True)


class _Listed:
    """Children of each node, and of the roots behind them, by class and in order."""

    def __init__(self, tree: RankTree, root: Ints) -> None:
        count = len(tree)
        above = np.where(tree.parent >= 0, tree.parent, count + root)
        key = above * 3 + tree.kind
        self.nodes = np.lexsort((tree.order, key))
        buckets = (count + int(root.max(initial=-1)) + 1) * 3
        self.count = np.bincount(key, minlength=buckets)
        self.first = np.cumsum(self.count) - self.count


def _roots(trees: tuple[RankTree, RankTree]) -> tuple[Ints, Ints]:
    """Return for each outermost node the number of its step and track, which both sides share."""
    lanes = _lanes(trees)
    size = max((int(lane.max(initial=-1)) for lane in lanes), default=-1) + 1
    found = []
    slots = max(tree.outside for tree in trees) + 1
    for tree, lane in zip(trees, lanes, strict=True):
        root = np.where(tree.parent < 0, tree.slot * size + lane[tree.lane], 0)
        # The last one is there on both sides, so that both have as many.
        found.append(np.append(root, slots * size))
    return found[0][:-1], found[1][:-1]


def _lanes(trees: tuple[RankTree, RankTree]) -> tuple[Ints, Ints]:
    """Return numbers of tracks: those that run the same have the same on both sides."""
    profiles: list[dict[int, dict[tuple[int, int], int]]] = []
    for tree in trees:
        outermost = np.flatnonzero(tree.parent < 0)
        keys = np.stack([tree.lane, tree.name, tree.kind == WORK], axis=1)[outermost]
        distinct, counts = np.unique(keys, axis=0, return_counts=True)
        profile: dict[int, dict[tuple[int, int], int]] = {}
        for (lane, name, work), count in zip(distinct.tolist(), counts.tolist(), strict=True):
            profile.setdefault(lane, {})[name, work] = count
        profiles.append(profile)
    alike = [
        (sum(min(count, theirs.get(key, 0)) for key, count in mine.items()), -a, -b)
        for a, mine in profiles[0].items()
        for b, theirs in profiles[1].items()
    ]
    number = [np.full(len(tree.part.table.tracks) + 1, -1, dtype=np.int64) for tree in trees]
    following = 0
    for score, a, b in sorted(alike, reverse=True):
        if score > 0 and number[0][-a] < 0 and number[1][-b] < 0:
            number[0][-a] = number[1][-b] = following
            following += 1
    for k, profile in enumerate(profiles):
        for lane in profile:
            if number[k][lane] < 0:
                number[k][lane] = following
                following += 1
    return number[0], number[1]


def _namesakes(a: Hashes, b: Hashes, *, as_many: bool) -> Ints:
    """Return places of the n-th of a key and the n-th, (pairs, 2).

    Parameters
    ----------
    a, b : array of uint64
    as_many : bool
        Only keys that both have equally often.
    """
    keys, codes = np.unique(np.concatenate([a, b]), return_inverse=True)
    mine, theirs = codes[: len(a)].astype(np.int64), codes[len(a) :].astype(np.int64)
    if as_many:
        counts = [np.bincount(one, minlength=len(keys)) for one in (mine, theirs)]
        alike = counts[0] == counts[1]
        kept = np.flatnonzero(alike[mine]), np.flatnonzero(alike[theirs])
    else:
        kept = np.arange(len(a)), np.arange(len(b))
    numbered = _numbered(mine[kept[0]]), _numbered(theirs[kept[1]])
    _, in_a, in_b = np.intersect1d(*numbered, assume_unique=True, return_indices=True)
    return np.stack([kept[0][in_a], kept[1][in_b]], axis=1)


def _numbered(codes: Ints) -> Ints:
    """Return codes that also count how often each was there before."""
    order = np.argsort(codes, kind="stable")
    first = np.flatnonzero(np.diff(codes[order], prepend=-1)) if len(codes) else order
    sizes = np.diff(np.append(first, len(codes)))
    number = np.empty(len(codes), dtype=np.int64)
    number[order] = np.arange(len(codes)) - np.repeat(first, sizes)
    return (codes << 32) | number


def _ranges(first: Ints, count: Ints) -> Ints:
    """Return all places of runs, given where they begin and how long they are."""
    within = np.arange(int(count.sum())) - np.repeat(np.cumsum(count) - count, count)
    return np.repeat(first, count) + within


def _paths(tree: RankTree, paths: dict[tuple[int, int, int], int]) -> Ints:
    """Return the number of each node's path; new ones are added to `paths`."""
    found = np.full(len(tree), -1, dtype=np.int64)
    for members in tree.forest.levels:
        parent = tree.parent[members]
        above = np.where(parent >= 0, found[parent], -1)
        keys = np.stack([above, tree.name[members], tree.kind[members].astype(np.int64)], axis=1)
        # One number sorts faster than three.
        packed = ((keys[:, 0] + 1) << 33) | (keys[:, 1] << 2) | keys[:, 2]
        _, first, inverse = np.unique(packed, return_index=True, return_inverse=True)
        codes = [
            paths.setdefault((up, name, kind), len(paths))
            for up, name, kind in keys[first].tolist()
        ]
        found[members] = np.array(codes, dtype=np.int64)[inverse]
    return found


# --- what counts as a change ----------------------------------------------------------------------


def _judge(matches: Matches) -> None:
    """Tell changed from same: by more than what events of one path differ by anyway."""
    chosen = [np.flatnonzero(one.status[0] == _SAME) for one in matches.ranks]
    if not chosen:
        return
    times = [
        (one.trees[0].durations[rows], one.trees[1].durations[one.partner[0][rows]])
        for one, rows in zip(matches.ranks, chosen, strict=True)
    ]
    path = joined([one.path[0][rows] for one, rows in zip(matches.ranks, chosen, strict=True)])
    before, after = (joined([time[k] for time in times]) for k in (0, 1))
    diff = after - before
    finest = max(tree.part.trace.resolution_ns for one in matches.ranks for tree in one.trees)
    floor = np.maximum(_RELATIVE * np.maximum(before, after), 2.0 * finest)
    # Most pairs are within that, and spreads are told of the rest of their paths alone.
    beyond = np.abs(diff) > floor
    suspects = np.unique(path[beyond])
    asked = np.flatnonzero(np.isin(path, suspects))
    spread = np.zeros(len(path))
    spread[asked] = _spreads(path[asked], diff[asked])
    changed = beyond & (np.abs(diff) > _SPREADS * spread)
    begin = 0
    for one, rows in zip(matches.ranks, chosen, strict=True):
        mine = rows[changed[begin : begin + len(rows)]]
        begin += len(rows)
        one.status[0][mine] = _CHANGED
        one.status[1][one.partner[0][mine]] = _CHANGED


def _spreads(group: Ints, value: Ints) -> npt.NDArray[np.float64]:
    """Return for each value the median deviation from the median of its group."""
    middle = _medians(group, value.astype(np.float64))
    return _medians(group, np.abs(value - middle))


def _medians(group: Ints, value: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    order = np.lexsort((value, group))
    ordered = value[order]
    first = np.flatnonzero(np.diff(group[order], prepend=-1)) if len(group) else group
    sizes = np.diff(np.append(first, len(group)))
    median = (ordered[first + (sizes - 1) // 2] + ordered[first + sizes // 2]) / 2
    found = np.empty(len(group))
    found[order] = np.repeat(median, sizes)
    return found


# --- the frame ------------------------------------------------------------------------------------


def _frame(diff: Comparison, matches: Matches) -> pd.DataFrame:
    columns: dict[str, list[npt.NDArray[np.integer]]] = {
        name: []
        for name in (
            "before_rank", "before_id", "after_rank", "after_id", "name", "kind", "path",
            "before_step", "after_step", "before_ns", "after_ns", "status",
        )
    }  # fmt: skip
    for (before, after), one in zip(diff.rank_pairs, matches.ranks, strict=True):
        added = np.flatnonzero(one.partner[1] < 0)
        a = np.concatenate([np.arange(len(one.trees[0])), np.full(len(added), -1)])
        b = np.concatenate([one.partner[0], added])
        picked = [_picked(tree, nodes) for tree, nodes in zip(one.trees, (a, b), strict=True)]
        columns["before_rank"].append(np.full(len(a), before))
        columns["after_rank"].append(np.full(len(a), after))
        for k, word in enumerate(("before", "after")):
            for name, values in picked[k].items():
                columns[f"{word}_{name}"].append(values)
        theirs = b >= 0
        last = np.where(theirs, b, 0), np.where(a >= 0, a, 0)
        for name, of in (
            ("name", [tree.name for tree in one.trees]),
            ("kind", [tree.part.table.kind[tree.rows] for tree in one.trees]),
            ("path", list(one.path)),
            ("status", list(one.status)),
        ):
            columns[name].append(_either(of[1], of[0], last[0], last[1], theirs))
    column = {name: joined(values) for name, values in columns.items()}
    texts = matches.callers()
    distinct = list(dict.fromkeys(texts))
    number = {text: k for k, text in enumerate(distinct)}
    path = np.array([number[text] for text in texts], dtype=np.int64)[column["path"]]
    status = column["status"]
    return result(
        {
            "pair": np.arange(len(status), dtype=np.int64),
            **{
                name: column[name]
                for name in ("before_rank", "before_id", "after_rank", "after_id")
            },
            "name": categorical(column["name"], matches.pool.names),
            "kind": pd.Categorical.from_codes(column["kind"], dtype=dtype_of(KINDS)),
            "path": categorical(path, distinct),
            **{
                name: column[name]
                for name in ("before_step", "after_step", "before_ns", "after_ns")
            },
            "diff_ns": column["after_ns"] - column["before_ns"],
            "status": pd.Categorical.from_codes(status, dtype=dtype_of(STATUSES)),
        },
        matched={word: int((status == code).sum()) for code, word in enumerate(STATUSES)},
        note="" if len(status) else "no events are compared",
    )


def _picked(tree: RankTree, nodes: Ints) -> dict[str, Ints]:
    there = nodes >= 0
    if not len(tree):
        none = np.full(len(nodes), -1, dtype=np.int64)
        return {"id": none, "step": none, "ns": np.zeros(len(nodes), dtype=np.int64)}
    at = np.where(there, nodes, 0)
    return {
        "id": np.where(there, tree.rows[at], -1),
        "step": np.where(there, tree.part.table.step[tree.rows[at]], -1),
        "ns": np.where(there, tree.durations[at], 0),
    }


def _either(
    one: npt.NDArray[np.integer],
    other: npt.NDArray[np.integer],
    at_one: Ints,
    at_other: Ints,
    takes_one: Flags,
) -> Ints:
    """Return values of the one, or where it has none, of the other."""
    if not len(one):
        return other[at_other].astype(np.int64)
    if not len(other):
        return one[at_one].astype(np.int64)
    found: Ints = np.where(takes_one, one[at_one], other[at_other]).astype(np.int64)
    return found
