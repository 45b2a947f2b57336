"""Matches the events of two runs with each other.

Each pair of ranks has two call trees (`hta_widgets.diff.trees`), which are matched from the
outermost operators down. Calls below two matched operators are aligned in order by name, equal
subtrees first. For

    before                        after
    forward                       forward
      aten::linear                  aten::linear
        gemm_a (kernel)               gemm_b (kernel)
      aten::relu                    aten::gelu

``forward`` and ``aten::linear`` have partners. ``gemm_a`` is ``replaced`` by ``gemm_b``, which runs
below the same operator. ``aten::relu`` is ``removed`` and ``aten::gelu`` is ``added``. Remaining
operators are ``moved`` within their step if both sides have equal subtrees, or equal names equally
often. Partners are ``changed`` if their durations differ by more than usual on their call path,
otherwise ``same``.

The callees of a Python function without a partner are matched as if the function's caller had
called them. Threads are matched by the work that they run, and device work by launch order.
"""

from __future__ import annotations

import itertools
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import numpy.typing as npt
import pandas as pd

from hta_widgets.analysis.frames import concat_arrays
from hta_widgets.diff.compare import Comparison, both_have_frames
from hta_widgets.diff.sequences import Hashes, align_positions, pair_equal_keys
from hta_widgets.diff.trees import CALL, OPERATOR, WORK, NamePool, RankTree, mix_hash, rank_tree
from hta_widgets.trace.arrays import Bools, Floats, Ints, concatenate_ranges
from hta_widgets.trace.host_stack import forest_of, nearest_ancestor
from hta_widgets.trace.memo import memoize

#: Categories of ``status`` in `pairs`, in order.
STATUSES: tuple[str, ...] = ("same", "changed", "added", "removed", "moved", "replaced")
_SAME, _CHANGED, _ADDED, _REMOVED, _MOVED, _REPLACED = range(len(STATUSES))

_EDGE_TOLERANCE_NS = 2_000  # tolerance by which a call's rounded times may exceed its operator's
_ROUNDS = 4  # maximum number of rounds; each matches below the pairs of the previous round
_MIN_RATIO = 0.05  # share of the longer duration; smaller differences are not changes
_MIN_OCCURRENCES = 4  # calls of a path on one rank required to estimate the spread
_SPREADS = 3 * 1.4826  # in median deviations; three standard deviations of a normal distribution


@dataclass(eq=False)
class MatchedTrees:
    """The call trees of two ranks, with partner, status and call path of each node."""

    trees: tuple[RankTree, RankTree]
    partner: tuple[Ints, Ints]
    status: tuple[npt.NDArray[np.int8], npt.NDArray[np.int8]]
    path: tuple[Ints, Ints] = field(default=(np.empty(0, np.int64), np.empty(0, np.int64)))

    def shared_path(self, side: int, rank_of_path: Ints) -> Ints:
        """Return the path of each node; both nodes of a pair get the first of their two paths."""
        path_of_node = self.path[side]
        nodes = np.flatnonzero(self.partner[side] >= 0)
        path_of_partner = self.path[1 - side][self.partner[side][nodes]]
        first = rank_of_path[path_of_partner] < rank_of_path[path_of_node[nodes]]
        if not first.any():
            return path_of_node
        result = path_of_node.copy()
        result[nodes[first]] = path_of_partner[first]
        return result


class TreeMatcher:
    """Matches two trees from the outermost operators down.

    The result does not depend on the order of the sides.
    """

    def __init__(self, trees: tuple[RankTree, RankTree], name_hashes: Hashes) -> None:
        self.trees = trees
        self.hashes = tuple(tree.hashes(name_hashes) for tree in trees)
        self.partner = tuple(np.full(len(tree), -1, dtype=np.int64) for tree in trees)
        self.replaced = tuple(np.zeros(len(tree), dtype=bool) for tree in trees)
        self.moved = tuple(np.zeros(len(tree), dtype=bool) for tree in trees)
        #: results of `align_positions`, cached because many operators have the same callees
        self.alignments: dict[tuple[bytes, ...], Ints] = {}
        self.roots = _root_numbers(trees)
        both = zip(trees, self.roots, strict=True)
        self.children = [_ChildLists(tree, root) for tree, root in both]

    def run(self) -> MatchedTrees:
        """Return partner and status of all nodes."""
        before, after = self.trees
        count = [int(root.max(initial=-1)) + 1 for root in self.roots]
        shared = np.arange(max(0, min(count)), dtype=np.int64)
        # In `_ChildLists`, the roots come after the nodes.
        self._match_below(self._match_children(shared + len(before), shared + len(after)))
        self._match_at_edges()
        self._match_frames()
        self._match_moved()
        self._match_at_edges()
        status = []
        for k, alone in ((0, _REMOVED), (1, _ADDED)):
            node_status = np.where(self.partner[k] >= 0, _SAME, alone).astype(np.int8)
            node_status[self.moved[k]] = _MOVED
            node_status[self.replaced[k]] = _REPLACED
            status.append(node_status)
        return MatchedTrees(self.trees, (self.partner[0], self.partner[1]), (status[0], status[1]))

    def _match_below(self, pairs: Ints, *, moved: bool = False) -> None:
        """Match everything below pairs of nodes, level by level."""
        while len(pairs):
            if moved:
                self.moved[0][pairs[:, 0]] = self.moved[1][pairs[:, 1]] = True
            is_operator = self.trees[0].kind[pairs[:, 0]] == OPERATOR
            pairs = self._match_children(*pairs[is_operator].T)

    def _match_children(self, a: Ints, b: Ints) -> Ints:
        """Match the children of pairs of nodes; return the new pairs.

        A bucket holds the children of one node and class. Two buckets with the same names in the
        same order are paired at once; other buckets are aligned.
        """
        kinds = np.arange(3)
        before, after = self.children
        a_buckets, b_buckets = ((nodes[:, None] * 3 + kinds).ravel() for nodes in (a, b))
        is_on_both = (before.count[a_buckets] > 0) & (after.count[b_buckets] > 0)
        a_buckets, b_buckets = a_buckets[is_on_both], b_buckets[is_on_both]
        needs_alignment = before.count[a_buckets] != after.count[b_buckets]
        same_size = np.flatnonzero(~needs_alignment)
        sizes = before.count[a_buckets[same_size]]
        a_nodes = before.nodes[concatenate_ranges(before.first[a_buckets[same_size]], sizes)]
        b_nodes = after.nodes[concatenate_ranges(after.first[b_buckets[same_size]], sizes)]
        differs = self.trees[0].name[a_nodes] != self.trees[1].name[b_nodes]
        # Below calls that were paired by their edges or as moved, some calls may already have a
        # partner.
        differs |= (self.partner[0][a_nodes] >= 0) | (self.partner[1][b_nodes] >= 0)
        bucket_of_node = np.repeat(same_size, sizes)
        needs_alignment[bucket_of_node[differs]] = True
        is_paired = ~needs_alignment[bucket_of_node]
        pairs = [np.stack([a_nodes[is_paired], b_nodes[is_paired]], axis=1)]
        replaced: list[Ints] = []
        for bucket in np.flatnonzero(needs_alignment).tolist():
            siblings = before.members(a_buckets[bucket]), after.members(b_buckets[bucket])
            self._align_siblings(*siblings, pairs, replaced)
        new_pairs = np.concatenate(pairs)
        self._pair_nodes(new_pairs)
        if replaced:
            self._pair_nodes(np.concatenate(replaced), replaced=True)
        return new_pairs

    def _align_siblings(
        self, a_nodes: Ints, b_nodes: Ints, pairs: list[Ints], replaced: list[Ints]
    ) -> None:
        """Align two sequences of siblings; add the pairs, and the pairs of replaced work."""
        a_nodes = a_nodes[self.partner[0][a_nodes] < 0]
        b_nodes = b_nodes[self.partner[1][b_nodes] < 0]
        if not len(a_nodes) or not len(b_nodes):
            return
        places = self._aligned_nodes(a_nodes, b_nodes)
        pairs.append(np.stack([a_nodes[places[:, 0]], b_nodes[places[:, 1]]], axis=1))
        both = min(len(a_nodes), len(b_nodes)) - len(places)
        tree, first = self.trees[0], a_nodes[0]
        if both and tree.kind[first] == WORK and tree.parent[first] >= 0:
            left = np.delete(a_nodes, places[:, 0]), np.delete(b_nodes, places[:, 1])
            for k in (0, 1):
                self.replaced[k][left[k]] = True
            replaced.append(np.stack([left[0][:both], left[1][:both]], axis=1))

    def _aligned_nodes(self, a_nodes: Ints, b_nodes: Ints) -> Ints:
        before, after = self.trees
        hashes = self.hashes[0][a_nodes], self.hashes[1][b_nodes]
        full = before.full_name[a_nodes], after.full_name[b_nodes]
        # The key does not need names, because hashes include them.
        key = tuple(values.tobytes() for values in (*hashes, *full))
        if key not in self.alignments:
            names = before.name[a_nodes], after.name[b_nodes]
            self.alignments[key] = align_positions(*names, *hashes, *full)
        return self.alignments[key]

    def _pair_nodes(self, pairs: Ints, *, replaced: bool = False) -> None:
        a, b = pairs.T
        self.partner[0][a], self.partner[1][b] = b, a
        self.replaced[0][a] = self.replaced[1][b] = replaced

    def _pair_subtrees(self, pairs: Ints, *, moved: bool = False) -> None:
        self._pair_nodes(pairs)
        self._match_below(pairs, moved=moved)

    def _match_at_edges(self) -> None:
        """Pair calls at the edges of an operator that encloses only one of the two."""
        # Because times are rounded, it is arbitrary which of two touching calls encloses the other,
        # and which is the parent of a third call.
        for _ in range(_ROUNDS):
            both = np.concatenate([self._edge_candidates(0)[:, ::-1], self._edge_candidates(1)])
            if not len(both):
                return
            # A call in several pairs keeps the pair with the smallest sum of positions. Pairs that
            # share a call differ in this sum.
            position = sum(tree.order[both[:, k]] for k, tree in enumerate(self.trees))
            used_nodes: tuple[set[int], set[int]] = (set(), set())
            pairs = []
            for a, b in both[np.argsort(position, kind="stable")].tolist():
                if a not in used_nodes[0] and b not in used_nodes[1]:
                    used_nodes[0].add(a)
                    used_nodes[1].add(b)
                    pairs.append((a, b))
            self._pair_subtrees(np.array(pairs, dtype=np.int64))

    def _edge_candidates(self, side: int) -> Ints:
        """Return pairs of unmatched calls, each with the other side's call first.

        The call of `side` has a matched caller. The other call lies within the times of that
        caller's partner, give or take the rounding error.
        """
        tree, other = self.trees[side], self.trees[1 - side]
        partner = self.partner[side]
        inner = np.flatnonzero((partner < 0) & (tree.parent >= 0))
        inner = inner[partner[tree.parent[inner]] >= 0]
        loose = np.flatnonzero(self.partner[1 - side] < 0)
        if not len(inner) or not len(loose):
            return np.empty((0, 2), dtype=np.int64)
        above = partner[tree.parent[inner]]
        low, high = (
            other.begin_ns[above] - _EDGE_TOLERANCE_NS,
            other.end_ns[above] + _EDGE_TOLERANCE_NS,
        )
        # If name, class and start are packed into one number and sorted, possible matches are
        # adjacent.
        first = min(int(low.min()), int(other.begin_ns[loose].min()))
        width = max(int(high.max()), int(other.begin_ns[loose].max())) - first + 1
        key = (other.name[loose] * 3 + other.kind[loose]) * width + other.begin_ns[loose] - first
        order = np.argsort(key, kind="stable")
        loose, key = loose[order], key[order]
        base = (tree.name[inner] * 3 + tree.kind[inner]) * width - first
        begin = np.searchsorted(key, base + low, side="left")
        end = np.searchsorted(key, base + high, side="right")
        inside = np.flatnonzero(end > begin)
        inside = inside[np.argsort(tree.order[inner[inside]], kind="stable")]
        used_nodes: set[int] = set()
        candidates = []
        for place in inside.tolist():
            for node in loose[begin[place] : end[place]].tolist():
                fits = other.end_ns[node] <= high[place] and node not in used_nodes
                same_lane = other.kind[node] == WORK or other.lane[node] == other.lane[above[place]]
                if fits and same_lane:
                    used_nodes.add(node)
                    candidates.append((node, int(inner[place])))
                    break
        return np.array(candidates, dtype=np.int64).reshape(-1, 2)

    def _match_frames(self) -> None:
        """Pair callees of Python functions without a partner as if their callers called them."""
        # Two versions of a library may differ by a Python function between a caller and its
        # callees.
        for _ in range(_ROUNDS):
            alone = [tree.frame & (self.partner[k] < 0) for k, tree in enumerate(self.trees)]
            if not any(is_alone.any() for is_alone in alone):
                return
            lists = [self._unmatched_by_caller(k, alone[k]) for k in (0, 1)]
            pairs = [
                pair
                for key in lists[0].keys() & lists[1].keys()
                for pair in self._pair_nested(lists[0][key], lists[1][key])
            ]
            if not pairs:
                return
            self._pair_subtrees(np.array(pairs, dtype=np.int64))

    def _unmatched_by_caller(self, side: int, alone: Bools) -> dict[tuple[int, int], Ints]:
        """Return nodes without a partner, keyed by class and nearest caller with a partner.

        Callers are nodes of the first side; outermost nodes have their root as caller. Only Python
        functions without a partner lie between a node and its caller.
        """
        tree = self.trees[side]
        nodes = np.flatnonzero(self.partner[side] < 0)
        caller = nearest_ancestor(tree.parent, ~alone)[tree.parent[nodes]]
        top = nearest_ancestor(tree.parent, tree.parent < 0)[nodes]
        is_listed = (caller < 0) | (self.partner[side][caller] >= 0)
        nodes, caller, top = nodes[is_listed], caller[is_listed], top[is_listed]
        caller_before = caller if side == 0 else self.partner[1][caller]
        caller_before = np.where(caller < 0, -1 - self.roots[side][top], caller_before)
        key = caller_before * 3 + tree.kind[nodes]  # packs caller and class into one number
        order = np.lexsort((tree.order[nodes], key))
        nodes, key = nodes[order], key[order]
        keys, first = np.unique(key, return_index=True)
        return {
            divmod(k, 3): nodes_of_key
            for k, nodes_of_key in zip(keys.tolist(), np.split(nodes, first)[1:], strict=True)
        }

    def _pair_nested(self, a_nodes: Ints, b_nodes: Ints) -> list[tuple[int, int]]:
        """Pair two lists of nodes, callers first, so that paired nodes have paired callers."""
        used_nodes: tuple[dict[int, int], dict[int, int]] = ({}, {})
        for i, j in self._aligned_nodes(a_nodes, b_nodes).tolist():
            a, b = int(a_nodes[i]), int(b_nodes[j])
            a_caller = self._nearest_paired_caller(0, a, used_nodes[0])
            b_caller = self._nearest_paired_caller(1, b, used_nodes[1])
            if used_nodes[0].get(a_caller, -1) == b_caller:
                used_nodes[0][a], used_nodes[1][b] = b, a
        return list(used_nodes[0].items())

    def _nearest_paired_caller(self, side: int, node: int, taken: dict[int, int]) -> int:
        above = int(self.trees[side].parent[node])
        while above >= 0 and above not in taken and self.partner[side][above] < 0:
            above = int(self.trees[side].parent[above])
        return above if above in taken else -1

    def _match_moved(self) -> None:
        # Pair by equal subtrees first, then by names that occur equally often on both sides.
        for by_content in (True, False):
            (a, a_key), (b, b_key) = (self._movable_nodes(k, by_content=by_content) for k in (0, 1))
            places = pair_equal_keys(a_key, b_key, as_many=not by_content)
            new_pairs = np.stack([a[places[:, 0]], b[places[:, 1]]], axis=1)
            self._pair_subtrees(new_pairs, moved=True)

    def _movable_nodes(self, side: int, *, by_content: bool) -> tuple[Ints, Hashes]:
        """Return nodes that may have moved, with keys of their steps and subtrees (or names)."""
        tree = self.trees[side]
        alone = self.partner[side] < 0
        outermost = alone & (tree.kind == OPERATOR)
        outermost &= (tree.parent < 0) | ~alone[tree.parent]
        # A single call such as aten::empty is too common to be recognized elsewhere.
        outermost &= tree.forest.subtree_sums((tree.kind != CALL).astype(np.int64)) > 1
        if not by_content:
            # Work without an operator has a place only in its stream.
            outermost |= alone & (tree.kind == WORK) & (tree.parent < 0)
        nodes = np.flatnonzero(outermost)
        nodes = nodes[np.argsort(tree.order[nodes], kind="stable")]
        content = self.hashes[side][nodes] if by_content else tree.name[nodes].astype(np.uint64)
        return nodes, mix_hash(content + mix_hash(tree.slot[nodes].astype(np.uint64)))


class _ChildLists:
    """The children of each node, then of each root, in buckets by parent and class."""

    def __init__(self, tree: RankTree, root: Ints) -> None:
        count = len(tree)
        above = np.where(tree.parent >= 0, tree.parent, count + root)
        key = above * 3 + tree.kind
        self.nodes = np.lexsort((tree.order, key))
        buckets = (count + int(root.max(initial=-1)) + 1) * 3
        self.count = np.bincount(key, minlength=buckets)
        self.first = np.cumsum(self.count) - self.count

    def members(self, bucket: int) -> Ints:
        begin = self.first[bucket]
        return self.nodes[begin : begin + self.count[bucket]]


def _root_numbers(trees: tuple[RankTree, RankTree]) -> tuple[Ints, Ints]:
    """Return numbers of the outermost nodes by step and track, equal on both sides."""
    lanes = _shared_track_numbers(trees)
    size = max((int(lane.max(initial=-1)) for lane in lanes), default=-1) + 1
    first, second = (
        np.where(tree.parent < 0, tree.slot * size + lane[tree.lane], 0)
        for tree, lane in zip(trees, lanes, strict=True)
    )
    return first, second


def _shared_track_numbers(trees: tuple[RankTree, RankTree]) -> tuple[Ints, Ints]:
    """Return numbers for the tracks of both sides; tracks with the same work share a number."""
    calls_of_sides: list[dict[int, Counter[tuple[int, int]]]] = []
    for tree in trees:
        # For each track, how many outermost nodes have each name; device work is counted
        # separately.
        calls_of_sides.append(defaultdict(Counter))
        keys = np.stack([tree.lane, tree.name, tree.kind == WORK], axis=1)[tree.parent < 0]
        distinct, counts = np.unique(keys, axis=0, return_counts=True)
        for (track, name, work), count in zip(distinct.tolist(), counts.tolist(), strict=True):
            calls_of_sides[-1][track][name, work] = count
    shared = [
        ((before_calls & after_calls).total(), -a - b, a, b)
        for a, before_calls in calls_of_sides[0].items()
        for b, after_calls in calls_of_sides[1].items()
    ]
    numbers = [np.full(len(tree.part.table.tracks) + 1, -1, dtype=np.int64) for tree in trees]
    next_number = itertools.count()
    # Most shared work first. Swapping the sides does not affect ties.
    for score, _, a, b in sorted(shared, reverse=True):
        if score > 0 and numbers[0][a] < 0 and numbers[1][b] < 0:
            numbers[0][a] = numbers[1][b] = next(next_number)
    for number_of_track, calls_of_tracks in zip(numbers, calls_of_sides, strict=True):
        for track in calls_of_tracks:
            if number_of_track[track] < 0:
                number_of_track[track] = next(next_number)
    return numbers[0], numbers[1]


@dataclass(eq=False)
class Matches:
    """All pairs of ranks, and the names and call paths that they share."""

    ranks: list[MatchedTrees]
    pool: NamePool
    #: by path: the caller's path (-1 if none), the name code, and the class
    path_parent: Ints
    path_name: Ints
    path_kind: Ints

    @cached_property
    def path_depth(self) -> Ints:
        """Number of callers of each path."""
        return forest_of(self.path_parent).depth

    @cached_property
    def rank_of_path(self) -> Ints:
        """Position of each path when sorted by depth, deepest first, then by name."""
        # Unlike path numbers, this does not depend on which side is read first.
        names = [self.pool.names[name] for name in self.path_name.tolist()]
        depth = (-self.path_depth).tolist()
        keys = list(zip(depth, self.callers, names, self.path_kind.tolist(), strict=True))
        places = np.empty(len(keys), dtype=np.int64)
        places[sorted(range(len(keys)), key=keys.__getitem__)] = np.arange(len(keys))
        return places

    @cached_property
    def shared_paths(self) -> list[tuple[Ints, Ints]]:
        """For each pair of ranks, the path of every node; paired nodes share a path."""
        return [
            (matched.shared_path(0, self.rank_of_path), matched.shared_path(1, self.rank_of_path))
            for matched in self.ranks
        ]

    @cached_property
    def callers(self) -> list[str]:
        """Callers of each path, outermost first, joined by ``" > "``."""
        names, texts = self.pool.names, [""] * len(self.path_name)
        for path, parent in enumerate(self.path_parent.tolist()):
            if parent >= 0:
                above, name = texts[parent], names[self.path_name[parent]]
                texts[path] = f"{above} > {name}" if above else name
        return texts


@memoize
def match_ranks(diff: Comparison) -> Matches:
    """Match the events of the paired ranks."""
    pool = NamePool()
    stacks = both_have_frames(diff)
    paths: dict[tuple[int, int, int], int] = {}
    ranks = []
    for before, after in diff.rank_pairs:
        trees = (
            rank_tree(diff.before, before, pool, stacks=stacks),
            rank_tree(diff.after, after, pool, stacks=stacks),
        )
        matched = TreeMatcher(trees, pool.hashes()).run()
        matched.path = (_paths(trees[0], paths), _paths(trees[1], paths))
        ranks.append(matched)
    matches = Matches(ranks, pool, *np.array(list(paths), dtype=np.int64).reshape(-1, 3).T)
    _mark_changed(matches)
    return matches


def _paths(tree: RankTree, paths: dict[tuple[int, int, int], int]) -> Ints:
    """Return each node's path number; new paths are added to `paths`."""
    path_of_node = np.full(len(tree), -1, dtype=np.int64)
    for members in tree.forest.levels:
        parent = tree.parent[members]
        above = np.where(parent >= 0, path_of_node[parent], -1)
        keys = np.stack([above, tree.name[members], tree.kind[members].astype(np.int64)], axis=1)
        # Sorting one number is faster than sorting three.
        packed = ((keys[:, 0] + 1) << 33) | (keys[:, 1] << 2) | keys[:, 2]
        _, first, inverse = np.unique(packed, return_index=True, return_inverse=True)
        codes = [
            paths.setdefault((parent_path, name, kind), len(paths))
            for parent_path, name, kind in keys[first].tolist()
        ]
        path_of_node[members] = np.array(codes, dtype=np.int64)[inverse]
    return path_of_node


def _mark_changed(matches: Matches) -> None:
    """Mark pairs as changed if their durations differ by more than the spread of their path."""
    chosen = [np.flatnonzero(matched.status[0] == _SAME) for matched in matches.ranks]
    ranks = list(zip(matches.ranks, chosen, matches.shared_paths, strict=True))
    path = concat_arrays([paths[0][rows] for _, rows, paths in ranks])
    before = concat_arrays([matched.trees[0].durations[rows] for matched, rows, _ in ranks])
    after = concat_arrays(
        [matched.trees[1].durations[matched.partner[0][rows]] for matched, rows, _ in ranks]
    )
    diff = after - before
    trees = [tree for matched in matches.ranks for tree in matched.trees]
    finest = max(tree.part.trace.resolution_ns for tree in trees)
    beyond = np.abs(diff) > np.maximum(_MIN_RATIO * np.maximum(before, after), 2.0 * finest)
    # Most pairs are within these limits, so spreads are computed only for the other paths.
    positions = np.flatnonzero(np.isin(path, np.unique(path[beyond])))
    spread = np.zeros(len(path))
    spread[positions] = _spreads(path[positions], diff[positions])
    # A change on only some ranks is not noise, so the spread on one rank also counts.
    rank = np.repeat(np.arange(len(chosen)), [len(rows) for rows in chosen])[positions]
    group = path[positions] * len(chosen) + rank
    _, group_code, calls = np.unique(group, return_inverse=True, return_counts=True)
    lower = np.minimum(spread[positions], _spreads(group_code, diff[positions]))
    spread[positions] = np.where(calls[group_code] >= _MIN_OCCURRENCES, lower, spread[positions])
    changed = beyond & (np.abs(diff) > _SPREADS * spread)
    ends = np.cumsum([len(rows) for rows in chosen])[:-1]
    for matched, rows, flags in zip(matches.ranks, chosen, np.split(changed, ends), strict=True):
        matched.status[0][rows[flags]] = _CHANGED
        matched.status[1][matched.partner[0][rows[flags]]] = _CHANGED


def _spreads(group: Ints, value: Ints) -> Floats:
    """Return, for each value, the median deviation from the median of its group."""
    deviation = (value - pd.Series(value).groupby(group).transform("median")).abs()
    spreads: Floats = deviation.groupby(group).transform("median").to_numpy(dtype=np.float64)
    return spreads
