"""Which event of one run is which of the other: by call path, name and order within a step."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from hta_widgets.analysis.results import joined
from hta_widgets.trace.derived import derived_once

from hta_widgets.diff.cautions import both_have_frames
from hta_widgets.diff.sides import Comparison
from hta_widgets.diff.tree_matching import STATUSES
from hta_widgets.diff.tree_matching import Matched
from hta_widgets.diff.tree_matching import TreeMatcher
from hta_widgets.diff.trees import NamePool
from hta_widgets.diff.trees import RankTree
from hta_widgets.diff.trees import rank_tree

__all__ = ["Matches", "match"]

Ints = npt.NDArray[np.int64]

_SAME, _CHANGED = STATUSES.index("same"), STATUSES.index("changed")
_RELATIVE = 0.05  # of the longer of two; less is not called a change
_ENOUGH = 4  # calls of a path on one rank, whose spread says something
_SPREADS = 3 * 1.4826  # times the median deviation: three standard deviations of a normal spread


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

    @cached_property
    def rank_of_path(self) -> Ints:
        """Of each path its place among all, the deepest first, then by their names.

        Numbers of paths depend on which side was read first; this does not.
        """
        names, depth = self.pool.names, [0] * len(self.path_name)
        for path, parent in enumerate(self.path_parent):
            depth[path] = depth[parent] + 1 if parent >= 0 else 0
        every = zip(self.callers, self.path_name, self.path_kind, strict=True)
        keys = [
            (-depth[k], above, names[name], kind) for k, (above, name, kind) in enumerate(every)
        ]
        found = np.empty(len(keys), dtype=np.int64)
        found[sorted(range(len(keys)), key=keys.__getitem__)] = np.arange(len(keys))
        return found

    @cached_property
    def shared_paths(self) -> list[tuple[Ints, Ints]]:
        """Of each pair of ranks and side the path of every node, one for both of a pair."""
        return [
            (one.shared_path(0, self.rank_of_path), one.shared_path(1, self.rank_of_path))
            for one in self.ranks
        ]

    @cached_property
    def callers(self) -> list[str]:
        """Of each path what calls it, outermost first, ``" > "`` between."""
        names, texts = self.pool.names, [""] * len(self.path_name)
        for path, parent in enumerate(self.path_parent):
            if parent >= 0:
                above = texts[parent]
                name = names[self.path_name[parent]]
                texts[path] = f"{above} > {name}" if above else name
        return texts


@derived_once("matches")
def match(diff: Comparison) -> Matches:
    """Return which events of the paired ranks belong together.

    From the outermost operators down, the calls below one pair of operators are laid upon each
    other in their order: those of one name pair, those that are alike in all below them first. Of
    Python functions the file and the function make the name, not the line or the folder, and of an
    ``nn.Module`` its class (see `hta_widgets.diff.trees.compared_name`). What a function without a
    partner calls pairs as if its caller had called it.
    Threads pair by what they run. Device work belongs to the operator that launched it, in order of
    launch. Where an operator has unmatched work on both sides, it was ``replaced``. Operators left
    over on both sides that are alike in all below them have ``moved`` within their step; so have
    those of one name where both sides have as many left.
    """
    pool = NamePool()
    stacks = both_have_frames(diff)
    matches = Matches([], pool, [], [], [])
    paths: dict[tuple[int, int, int], int] = {}
    for before, after in diff.rank_pairs:
        trees = (
            rank_tree(diff.before, before, pool, stacks=stacks),
            rank_tree(diff.after, after, pool, stacks=stacks),
        )
        found = TreeMatcher(trees, pool.hashes()).run()
        found.path = (_paths(trees[0], paths), _paths(trees[1], paths))
        matches.ranks.append(found)
    for parent, name, kind in paths:
        matches.path_parent.append(parent)
        matches.path_name.append(name)
        matches.path_kind.append(kind)
    _judge(matches)
    return matches


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
    path = joined(
        [paths[0][rows] for paths, rows in zip(matches.shared_paths, chosen, strict=True)]
    )
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
    # Where some ranks changed and others did not, that is no noise: each by its own calls, too.
    rank = np.repeat(np.arange(len(chosen)), [len(rows) for rows in chosen])[asked]
    _, own, calls = np.unique(
        path[asked] * len(chosen) + rank, return_inverse=True, return_counts=True
    )
    of_rank = _spreads(own, diff[asked])
    spread[asked] = np.where(
        calls[own] >= _ENOUGH, np.minimum(spread[asked], of_rank), spread[asked]
    )
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
