"""The longest path through a graph whose nodes are numbered in topological order."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from hta_widgets.analysis.critical.edges import Edges

__all__ = ["longest_path"]

Ints = npt.NDArray[np.int64]


def longest_path(count: int, edges: Edges, *, first: bool = False) -> Ints:
    """Return the edges of the path of the greatest total weight, in order.

    Among equals a path goes back along the edge from the latest node, and ends at the latest.

    Parameters
    ----------
    count : int
        How many nodes there are.
    edges : Edges
        Sorted by target; every edge goes from a lower number to a higher.
    first : bool, default False
        End at the first node of the greatest length instead of the latest, as HTA does.
    """
    if not len(edges):
        return np.empty(0, dtype=np.int64)
    best = [0] * count
    via = [-1] * count
    # Sources are settled before they are read: all their own edges come earlier.
    for edge, (source, target, weight) in enumerate(
        zip(edges.source.tolist(), edges.target.tolist(), edges.weight_ns.tolist(), strict=True)
    ):
        length = best[source] + weight
        if via[target] < 0 or length > best[target]:
            best[target] = length
            via[target] = edge
    longest = np.array(best, dtype=np.int64)
    node = int(np.flatnonzero(longest == longest.max())[0 if first else -1])
    path = []
    sources = edges.source
    while via[node] >= 0:
        path.append(via[node])
        node = int(sources[via[node]])
    return np.array(path[::-1], dtype=np.int64)
