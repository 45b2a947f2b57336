"""Times of matched and unmatched calls by call path and step, on both sides."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from hta_widgets.analysis.device_idle import waiting_calls
from hta_widgets.analysis.host_stack import covered_by_children
from hta_widgets.trace.derived import derived_once

from hta_widgets.diff.matching import Matches
from hta_widgets.diff.matching import match
from hta_widgets.diff.moments import splits_communication
from hta_widgets.diff.sides import Comparison
from hta_widgets.diff.sides import RunSide
from hta_widgets.diff.trees import CALL
from hta_widgets.diff.trees import OPERATOR
from hta_widgets.diff.trees import WORK
from hta_widgets.diff.trees import RankTree

__all__ = ["NodeTimes", "PathTimes", "node_times", "path_times", "step_sums"]

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class NodeTimes:
    """Times of the nodes of one tree.

    Attributes
    ----------
    host_ns : array of int
        Length of operators, 0 for the rest.
    host_self_ns : array of int
        Less what operators below cover, and less calls that wait for the device or copy.
    device_ns : array of int
        Length of device work, 0 for the rest; of collectives without waiting for other ranks,
        where the files of both sides tell.
    below_ns : array of int
        `device_ns` of a node and all below it.
    """

    host_ns: Ints
    host_self_ns: Ints
    device_ns: Ints
    below_ns: Ints


@dataclass(frozen=True, eq=False)
class PathTimes:
    """Sums by step and path of one side, means over the paired ranks: arrays (steps, paths)."""

    count: Floats
    host_ns: Floats
    host_self_ns: Floats
    device_ns: Floats


@derived_once("node_times")
def node_times(diff: Comparison) -> list[tuple[NodeTimes, NodeTimes]]:
    """Return the times of all nodes, for each pair of ranks before and after."""
    split = splits_communication(diff)
    return [
        (
            _of_tree(diff.before, one.trees[0], split=split),
            _of_tree(diff.after, one.trees[1], split=split),
        )
        for one in match(diff).ranks
    ]


@derived_once("path_times")
def path_times(diff: Comparison) -> tuple[PathTimes, PathTimes]:
    """Return the times of all paths before and after."""
    matches = match(diff)
    before, after = (
        PathTimes(
            step_sums(diff, matches, k, None),
            *(
                step_sums(diff, matches, k, [getattr(one[k], name) for one in node_times(diff)])
                for name in ("host_ns", "host_self_ns", "device_ns")
            ),
        )
        for k in (0, 1)
    )
    return before, after


def step_sums(
    diff: Comparison,
    matches: Matches,
    side: int,
    values: list[Ints] | None,
    chosen: list[Flags] | None = None,
    paths: list[Ints] | None = None,
) -> Floats:
    """Return sums by step and path of one side, means over the paired ranks, (steps, paths).

    Parameters
    ----------
    diff : Comparison
    matches : Matches
    side : int
        0 is before, 1 after.
    values : list of array, optional
        Of each tree's nodes; by default nodes are counted.
    chosen : list of array of bool, optional
        Only these nodes of each tree.
    paths : list of array, optional
        Of each tree's nodes; by default their own.
    """
    size = len(matches.path_name)
    sums = np.zeros(diff.step_count * size, dtype=np.int64)
    for number, one in enumerate(matches.ranks):
        tree = one.trees[side]
        kept = tree.slot < diff.step_count
        if chosen is not None:
            kept &= chosen[number]
        nodes = np.flatnonzero(kept)
        path = one.path[side] if paths is None else paths[number]
        key = tree.slot[nodes] * size + path[nodes]
        np.add.at(sums, key, 1 if values is None else values[number][nodes])
    return sums.reshape(diff.step_count, size) / max(len(matches.ranks), 1)


def _of_tree(side: RunSide, tree: RankTree, *, split: bool) -> NodeTimes:
    part = tree.part
    length = tree.durations
    operator, work = tree.kind == OPERATOR, tree.kind == WORK
    host = np.where(operator, length, 0)
    # Waiting is the device's time, not the operator's own; copies from pageable memory wait, too.
    copies = np.array(["Memcpy" in name for name in part.table.names.values] + [False])
    waits = np.isin(tree.rows, waiting_calls(part.trace)) | copies[part.table.name[tree.rows]]
    waits &= tree.kind == CALL
    nodes = np.flatnonzero(operator | waits)
    position = np.full(len(tree) + 1, -1, dtype=np.int64)
    position[nodes] = np.arange(len(nodes))
    start, end = part.clipped(tree.rows[nodes])
    alone = (end - start) - covered_by_children(position[tree.parent[nodes]], start, end)
    own = np.zeros(len(tree), dtype=np.int64)
    own[nodes] = alone
    own[~operator] = 0
    device = np.where(work, length, 0)
    if split:
        rows, _, until = side.waits.of(part.trace)
        position = np.full(len(part.table), -1, dtype=np.int64)
        position[tree.rows] = np.arange(len(tree))
        at = position[rows]
        at, until = at[at >= 0], until[at >= 0]
        begin, finish = part.clipped(tree.rows[at])
        device[at] = finish - np.clip(until, begin, finish)
    return NodeTimes(host, own, device, tree.forest.sums(device))
