"""Which node of one call tree is which of the other."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from hta_widgets.analysis.host_stack import nearest

from hta_widgets.diff.sequences import aligned_places
from hta_widgets.diff.trees import CALL
from hta_widgets.diff.trees import OPERATOR
from hta_widgets.diff.trees import WORK
from hta_widgets.diff.trees import RankTree
from hta_widgets.diff.trees import mixed

__all__ = ["STATUSES", "Matched", "TreeMatcher", "numbered"]

Ints = npt.NDArray[np.int64]
Hashes = npt.NDArray[np.uint64]

#: What can become of an event, in the order of the categories of ``status``.
STATUSES: tuple[str, ...] = ("same", "changed", "added", "removed", "moved", "replaced")

_SAME, _ADDED, _REMOVED, _MOVED, _REPLACED = (
    STATUSES.index(word) for word in ("same", "added", "removed", "moved", "replaced")
)

#: How far a call may reach beyond the operator that it is in: files write ts and dur with few
#: digits, and round each by itself.
_TOUCH_NS = 2_000
_ROUNDS = 4


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

    def shared_path(self, side: int, rank_of_path: Ints) -> Ints:
        """Return for each node a path that its partner has, too: the first of theirs.

        Parameters
        ----------
        side : int
        rank_of_path : array of int
            As `hta_widgets.diff.matching.Matches` has it.
        """
        own = self.path[side]
        nodes = np.flatnonzero(self.partner[side] >= 0)
        theirs = self.path[1 - side][self.partner[side][nodes]]
        first = rank_of_path[theirs] < rank_of_path[own[nodes]]
        if not first.any():
            return own
        found = own.copy()
        found[nodes[first]] = theirs[first]
        return found


class TreeMatcher:
    """Matches two trees from the outermost operators down.

    Neither side is preferred: the other way round the same nodes find each other.
    """

    def __init__(self, trees: tuple[RankTree, RankTree], name_hashes: Hashes) -> None:
        self.trees = trees
        self.hashes = tuple(tree.hashes(name_hashes) for tree in trees)
        self.partner = tuple(np.full(len(tree), -1, dtype=np.int64) for tree in trees)
        self.replaced = tuple(np.zeros(len(tree), dtype=bool) for tree in trees)
        self.moved = tuple(np.zeros(len(tree), dtype=bool) for tree in trees)
        self.known: dict[tuple[bytes, ...], Ints] = {}
        self.roots = _roots(trees)
        self.listed = [_Listed(tree, root) for tree, root in zip(trees, self.roots, strict=True)]

    def run(self) -> Matched:
        """Return which nodes belong together."""
        before, after = self.trees
        count = [int(root.max(initial=-1)) + 1 for root in self.roots]
        shared = np.arange(max(0, min(count)), dtype=np.int64)
        self._down(shared + len(before), shared + len(after), moved=False)
        self._edges()
        self._frames()
        self._moves()
        self._edges()
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
        # Below calls that were paired by their edges, or as moved, some may have a partner already.
        for k in (0, 1):
            differs |= self.partner[k][nodes[k]] >= 0
        uneven = sizes[0] != sizes[1]
        uneven[group[differs]] = True
        direct = ~uneven[group]
        pairs = ([nodes[0][direct]], [nodes[1][direct]])
        replaced: tuple[list[Ints], list[Ints]] = ([], [])
        for place in np.flatnonzero(uneven).tolist():
            mine, theirs = (
                one.nodes[begin[place] : begin[place] + size[place]]
                for one, begin, size in zip(self.listed, first, sizes, strict=True)
            )
            self._sequence(mine, theirs, pairs, replaced)
        found = np.stack([np.concatenate(side) for side in pairs], axis=1)
        self._join(found)
        self._keep(found)
        if replaced[0]:
            self._join(np.stack([np.concatenate(side) for side in replaced], axis=1))
        return found

    def _sequence(
        self,
        mine: Ints,
        theirs: Ints,
        pairs: tuple[list[Ints], list[Ints]],
        replaced: tuple[list[Ints], list[Ints]],
    ) -> None:
        """Lay two sequences of siblings upon each other; add what belongs together."""
        mine, theirs = mine[self.partner[0][mine] < 0], theirs[self.partner[1][theirs] < 0]
        if not len(mine) or not len(theirs):
            return
        places = self._places(mine, theirs)
        in_mine, in_theirs = places[:, 0], places[:, 1]
        pairs[0].append(mine[in_mine])
        pairs[1].append(theirs[in_theirs])
        both = min(len(mine), len(theirs)) - len(places)
        one = mine[0]
        if not both or self.trees[0].kind[one] != WORK or self.trees[0].parent[one] < 0:
            return
        left = []
        for k, (every, at) in enumerate(((mine, in_mine), (theirs, in_theirs))):
            alone = np.ones(len(every), dtype=bool)
            alone[at] = False
            left.append(every[alone])
            self.replaced[k][left[k]] = True
        replaced[0].append(left[0][:both])
        replaced[1].append(left[1][:both])

    def _places(self, mine: Ints, theirs: Ints) -> Ints:
        """Return places of what belongs together of two sequences, (pairs, 2)."""
        one, other = self.trees
        hashes = self.hashes[0][mine], self.hashes[1][theirs]
        full = one.full_name[mine], other.full_name[theirs]
        # A hash tells the name, too.
        key = tuple(values.tobytes() for values in (*hashes, *full))
        if key not in self.known:
            self.known[key] = aligned_places(one.name[mine], other.name[theirs], *hashes, *full)
        return self.known[key]

    def _join(self, found: Ints) -> None:
        self.partner[0][found[:, 0]] = found[:, 1]
        self.partner[1][found[:, 1]] = found[:, 0]

    def _keep(self, found: Ints) -> None:
        """Take back that work was replaced which now has its own partner."""
        for k in (0, 1):
            self.replaced[k][found[:, k]] = False

    def _edges(self) -> None:
        """Pair calls at the edge of an operator, which times put inside on one side alone.

        Times are written with few digits, so that of two calls that touch it is chance which one
        encloses the other, and with it whose call a third is.
        """
        for _ in range(_ROUNDS):
            ways = np.concatenate([self._touching(0)[:, ::-1], self._touching(1)])
            if not len(ways):
                return
            # Where both ways found something for one call, that stays which comes first on both
            # sides: pairs that share a call cannot come equally early.
            early = sum(tree.order[ways[:, k]] for k, tree in enumerate(self.trees))
            taken: tuple[set[int], set[int]] = (set(), set())
            kept = []
            for a, b in ways[np.argsort(early, kind="stable")].tolist():
                if a not in taken[0] and b not in taken[1]:
                    taken[0].add(a)
                    taken[1].add(b)
                    kept.append((a, b))
            pairs = np.array(kept, dtype=np.int64)
            self._join(pairs)
            self._keep(pairs)
            goes_on = self.trees[0].kind[pairs[:, 0]] == OPERATOR
            self._down(pairs[goes_on, 0], pairs[goes_on, 1], moved=False)

    def _touching(self, side: int) -> Ints:
        """Return calls of the other side and of this one, of which only this one has a parent.

        Its parent has a partner; the call of the other side lies within that one's times, or so
        little beyond that digits may be to blame.
        """
        tree, other = self.trees[side], self.trees[1 - side]
        partner = self.partner[side]
        inner = np.flatnonzero((partner < 0) & (tree.parent >= 0))
        inner = inner[partner[tree.parent[inner]] >= 0]
        loose = np.flatnonzero(self.partner[1 - side] < 0)
        if not len(inner) or not len(loose):
            return np.empty((0, 2), dtype=np.int64)
        above = partner[tree.parent[inner]]
        low, high = other.begin_ns[above] - _TOUCH_NS, other.end_ns[above] + _TOUCH_NS
        first = min(int(low.min()), int(other.begin_ns[loose].min()))
        width = max(int(high.max()), int(other.begin_ns[loose].max())) - first + 1
        key = (other.name[loose] * 3 + other.kind[loose]) * width + other.begin_ns[loose] - first
        order = np.argsort(key, kind="stable")
        loose, key = loose[order], key[order]
        base = (tree.name[inner] * 3 + tree.kind[inner]) * width - first
        begin = np.searchsorted(key, base + low, side="left")
        end = np.searchsorted(key, base + high, side="right")
        asked = np.flatnonzero(end > begin)
        asked = asked[np.argsort(tree.order[inner[asked]], kind="stable")]
        taken: set[int] = set()
        found = []
        for place in asked.tolist():
            for node in loose[begin[place] : end[place]].tolist():
                fits = other.end_ns[node] <= high[place] and node not in taken
                same_lane = other.kind[node] == WORK or other.lane[node] == other.lane[above[place]]
                if fits and same_lane:
                    taken.add(node)
                    found.append((node, int(inner[place])))
                    break
        return np.array(found, dtype=np.int64).reshape(-1, 2)

    def _frames(self) -> None:
        """Pair what Python functions without a partner call as if their callers had called it.

        Another version of a library has a function more between two that both have.
        """
        for _ in range(_ROUNDS):
            alone = [
                tree.frame & (mine < 0) for tree, mine in zip(self.trees, self.partner, strict=True)
            ]
            if not any(one.any() for one in alone):
                return
            lists = [self._lifted(k, alone[k]) for k in (0, 1)]
            pairs = [
                self._nested(lists[0][key], lists[1][key])
                for key in lists[0].keys() & lists[1].keys()
            ]
            found = np.array([pair for some in pairs for pair in some], dtype=np.int64).reshape(
                -1, 2
            )
            if not len(found):
                return
            self._join(found)
            self._keep(found)
            goes_on = self.trees[0].kind[found[:, 0]] == OPERATOR
            # What these call is listed, too, and has its partner where both call it.
            self._down(found[goes_on, 0], found[goes_on, 1], moved=False)

    def _lifted(self, side: int, alone: npt.NDArray[np.bool_]) -> dict[tuple[int, int], Ints]:
        """Return nodes without a partner by class and by the nearest caller that has one, in order.

        Callers are named by the node of the first side; outermost nodes by their root. Only those
        with nothing but Python functions without a partner in between.
        """
        tree = self.trees[side]
        nodes = np.flatnonzero(self.partner[side] < 0)
        up = nearest(tree.parent, ~alone)[tree.parent[nodes]]
        top = nearest(tree.parent, tree.parent < 0)[nodes]
        known = (up < 0) | (self.partner[side][up] >= 0)
        nodes, up, top = nodes[known], up[known], top[known]
        caller = up if side == 0 else self.partner[1][up]
        caller = np.where(up < 0, -1 - self.roots[side][top], caller)
        key = caller * 3 + tree.kind[nodes]
        order = np.lexsort((tree.order[nodes], key))
        nodes, key = nodes[order], key[order]
        keys, first = np.unique(key, return_index=True)
        return {
            divmod(k, 3): some
            for k, some in zip(keys.tolist(), np.split(nodes, first)[1:], strict=True)
        }

    def _nested(self, mine: Ints, theirs: Ints) -> list[tuple[int, int]]:
        """Pair two lists of nodes, callers before what they call, such that callers pair, too."""
        taken: tuple[dict[int, int], dict[int, int]] = ({}, {})
        for i, j in self._places(mine, theirs).tolist():
            a, b = int(mine[i]), int(theirs[j])
            if taken[0].get(self._caller(0, a, taken[0]), -1) == self._caller(1, b, taken[1]):
                taken[0][a], taken[1][b] = b, a
        return list(taken[0].items())

    def _caller(self, side: int, node: int, taken: dict[int, int]) -> int:
        """Return the nearest caller that is paired by now, -1 for one outside of the list."""
        above = int(self.trees[side].parent[node])
        while above >= 0 and above not in taken and self.partner[side][above] < 0:
            above = int(self.trees[side].parent[above])
        return above if above in taken else -1

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
        (sum(min(count, theirs.get(key, 0)) for key, count in mine.items()), -a - b, a, b)
        for a, mine in profiles[0].items()
        for b, theirs in profiles[1].items()
    ]
    number = [np.full(len(tree.part.table.tracks) + 1, -1, dtype=np.int64) for tree in trees]
    following = 0
    # Of those that run as much of the same the first on both sides, whichever side is which.
    for score, _, a, b in sorted(alike, reverse=True):
        if score > 0 and number[0][a] < 0 and number[1][b] < 0:
            number[0][a] = number[1][b] = following
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
    places = numbered(mine[kept[0]]), numbered(theirs[kept[1]])
    _, in_a, in_b = np.intersect1d(*places, assume_unique=True, return_indices=True)
    return np.stack([kept[0][in_a], kept[1][in_b]], axis=1)


def numbered(codes: Ints) -> Ints:
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
