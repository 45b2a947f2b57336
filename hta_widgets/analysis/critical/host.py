"""Edges on the host: along each thread, and from a thread to the one that it hands over to."""

from __future__ import annotations

import re

import numpy as np
import numpy.typing as npt

from hta_widgets.trace.ordering import stable_order

from hta_widgets.analysis.critical.edges import EdgeList
from hta_widgets.analysis.critical.nodes import Nodes
from hta_widgets.analysis.critical.rules import DEPENDENCY
from hta_widgets.analysis.critical.rules import OPERATOR
from hta_widgets.analysis.critical.rules import named

__all__ = ["add_hand_overs", "add_threads"]

Ints = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

#: Operators that only run in a backward pass.
_BACKWARD = re.compile(r"^autograd::engine|Backward\d*$")


class _Chains:
    """The host's nodes thread by thread, each in order, and how many events are open after."""

    def __init__(self, nodes: Nodes) -> None:
        host = np.flatnonzero(nodes.on_host)
        track = nodes.trace.table.track[nodes.row[host]].astype(np.int64)
        order = stable_order(track)
        self.node: Ints = host[order]
        self.track: Ints = track[order]
        self.is_start = nodes.is_start[self.node]
        # What a thread opens it closes, so each thread begins at 0.
        self.depth: Ints = np.cumsum(np.where(self.is_start, 1, -1))


def add_threads(edges: EdgeList, nodes: Nodes, blocked: Mask) -> None:
    """Join what follows on a thread.

    Within an operator all time counts, as that of the innermost event; between operators none.
    Neither does the time before the end of a call that was `blocked` (by row).
    """
    chains = _Chains(nodes)
    same = chains.track[1:] == chains.track[:-1]
    source, target = chains.node[:-1][same], chains.node[1:][same]
    within = chains.depth[:-1][same] > 0
    parent = nodes.trace.table.parent
    source_row, target_row = nodes.row[source], nodes.row[target]
    innermost = np.where(
        nodes.is_start[source],
        source_row,
        np.where(nodes.is_start[target], parent[source_row], target_row),
    )
    waited = ~nodes.is_start[target] & blocked[target_row]
    edges.add(
        source,
        target,
        np.where(within, OPERATOR, DEPENDENCY),
        np.where(within, innermost, parent[target_row]),
        counts=within & ~waited,
    )


def add_hand_overs(edges: EdgeList, nodes: Nodes) -> int:
    """Join threads of which one runs the backward pass of the other; return how many edges.

    While the backward pass runs, the thread that asked for it waits. So where an outermost
    operator of one of them is the next to start after one of the other has ended, it depends on
    it. Operators that overlap in time are left alone.
    """
    chains = _Chains(nodes)
    count = 0
    outermost = np.flatnonzero(chains.depth == chains.is_start)
    for pair in _backward_threads(nodes):
        both = outermost[np.isin(chains.track[outermost], pair)]
        both = both[np.argsort(chains.node[both], kind="stable")]
        before, after = both[:-1], both[1:]
        over = (chains.track[before] != chains.track[after]) & ~chains.is_start[before]
        over &= chains.is_start[after]
        before, after = chains.node[before[over]], chains.node[after[over]]
        count += edges.add(before, after, DEPENDENCY, counts=False)
    return count


def _backward_threads(nodes: Nodes) -> list[tuple[int, int]]:
    """Return pairs of tracks: of forward operators, and of their backward pass."""
    trace = nodes.trace
    table, flows = trace.table, trace.flow_table
    if "fwdbwd" in flows.kinds:
        arrows = flows.kind == flows.kinds.index("fwdbwd")
        pairs = np.column_stack(
            (table.track[flows.source[arrows]], table.track[flows.target[arrows]])
        )
        pairs = np.unique(pairs[pairs[:, 0] != pairs[:, 1]], axis=0)
        if len(pairs):
            return [(int(forward), int(backward)) for forward, backward in pairs]
    # Without arrows: what the autograd engine runs, apart from the thread with most operators.
    track = table.track[nodes.host].astype(np.int64)
    backward = np.unique(track[named(trace, nodes.host, _BACKWARD.search)])
    if not len(backward) or len(np.unique(track)) < 2:
        return []
    others = track[~np.isin(track, backward)]
    if not len(others):
        return []
    forward = int(np.bincount(others).argmax())
    return [(forward, int(thread)) for thread in backward.tolist()]
