"""How likely calls of one step differ by chance, where no other steps tell how much they spread."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from hta_widgets.analysis.results import joined
from hta_widgets.trace.table import KINDS

from hta_widgets.diff.families import MPI
from hta_widgets.diff.matching import Matches
from hta_widgets.diff.sides import Comparison
from hta_widgets.diff.significance import paired
from hta_widgets.diff.tree_matching import numbered
from hta_widgets.diff.trees import OPERATOR
from hta_widgets.diff.trees import WORK
from hta_widgets.diff.trees import RankTree
from hta_widgets.diff.values import NodeTimes
from hta_widgets.diff.values import node_times

__all__ = ["chance_by_call"]

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]

_COMMUNICATION = KINDS.index("communication")
_NTH = 0xFFFFFFFF  # of what `numbered` returns, the place among its likes


def chance_by_call(
    diff: Comparison, matches: Matches, chosen: list[Flags]
) -> tuple[Floats, Floats]:
    """Return by path how likely device and host times of its calls differ by chance.

    Ranks that communicate wait for each other: of the n-th call of a path the mean over ranks is
    one draw. Other calls of each rank are draws of their own.

    Parameters
    ----------
    diff : Comparison
    matches : Matches
    chosen : list of array of bool
        The nodes before, all with partners, of each pair of ranks.

    Returns
    -------
    (array of float, array of float)
        Of the time on the device that operators launched themselves, and of their own on the host;
        NaN where fewer than three draws tell nothing.
    """
    paths: list[Ints] = []
    draws: list[Ints] = []
    gaps: tuple[list[Ints], list[Ints]] = ([], [])
    every = zip(matches.ranks, matches.shared_paths, node_times(diff), chosen, strict=True)
    for number, (one, paths_of, times, kept) in enumerate(every):
        nodes = np.flatnonzero(kept & (one.trees[0].slot < diff.step_count))
        partner = one.partner[0][nodes]
        # In an order that is the same with the sides turned round.
        places = one.trees[0].order[nodes], one.trees[1].order[partner]
        ordered = np.lexsort((np.minimum(*places), places[0] + places[1]))
        nodes, partner = nodes[ordered], partner[ordered]
        path = paths_of[0][nodes]
        alone = ~_communicates(one.trees[0])[nodes]
        paths.append(path)
        draws.append((numbered(path) & _NTH) * len(matches.ranks) + np.where(alone, number, 0))
        device = [_with_launched(tree, each) for tree, each in zip(one.trees, times, strict=True)]
        for place, values in enumerate((device, [each.host_self_ns for each in times])):
            gaps[place].append(values[1][partner] - values[0][nodes])
    path, draw = joined(paths), joined(draws)
    size = len(matches.path_name)
    # Paths first, so that of each draw the first tells its path.
    keys, first, at = np.unique(
        path * (int(draw.max(initial=0)) + 1) + draw, return_index=True, return_inverse=True
    )
    many = np.maximum(np.bincount(at, minlength=len(keys)), 1)
    found = [
        paired(path[first], np.bincount(at, joined(gap), len(keys)) / many, size) for gap in gaps
    ]
    return found[0], found[1]


def _communicates(tree: RankTree) -> Flags:
    """Return which nodes communicate, or launched what does."""
    found: Flags = tree.part.table.kind[tree.rows] == _COMMUNICATION
    found &= (tree.kind != OPERATOR) | (tree.part.trace.format in MPI)
    work = np.flatnonzero(found & (tree.parent >= 0))
    found[tree.parent[work]] = True
    return found


def _with_launched(tree: RankTree, times: NodeTimes) -> Ints:
    """Return device time of nodes: of operators that of the work that they launched themselves."""
    found = times.device_ns.copy()
    work = np.flatnonzero((tree.kind == WORK) & (tree.parent >= 0))
    np.add.at(found, tree.parent[work], times.device_ns[work])
    return found
