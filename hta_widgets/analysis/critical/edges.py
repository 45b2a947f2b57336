"""Edges: which instant has to wait for which, and how much of the time between is accounted for."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from hta_widgets.analysis.critical.nodes import Nodes

__all__ = ["EdgeList", "Edges"]

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Edges:
    """Dependencies, sorted by target; `source` < `target` always.

    Attributes
    ----------
    source, target : arrays of int64
        Numbers of nodes.
    weight_ns : array of int64
        The time that counts for the length of a path: all that passes, or none.
    type : array of uint8
        Codes into `rules.EDGE_TYPES`.
    event : array of int64
        Id of the event that the time belongs to, -1 for none.
    """

    source: Ints
    target: Ints
    weight_ns: Ints
    type: npt.NDArray[np.uint8]
    event: Ints

    def __len__(self) -> int:
        return len(self.source)


@dataclass(eq=False)
class EdgeList:
    """Collects edges; those that would go back in time are left out and counted."""

    nodes: Nodes
    backward: int = 0
    _parts: list[tuple[Ints, Ints, Ints, npt.NDArray[np.uint8], Ints]] = field(default_factory=list)

    def add(
        self,
        source: Ints,
        target: Ints,
        type: npt.NDArray[np.uint8] | int,  # noqa: A002 - the field's term
        event: Ints | int = -1,
        *,
        counts: npt.NDArray[np.bool_] | bool,
    ) -> int:
        """Add edges between nodes (-1: not analysed); return how many there are.

        `counts` says of which edges the time between is their weight; of others it is 0.
        """
        there = (source >= 0) & (target >= 0)
        forward = there & (source < target)
        self.backward += int((there & ~forward).sum())
        kept = np.flatnonzero(forward)
        source, target = source[kept], target[kept]
        time = self.nodes.time_ns
        shape = forward.shape
        weight = np.where(np.broadcast_to(counts, shape)[kept], time[target] - time[source], 0)
        self._parts.append(
            (
                source,
                target,
                weight,
                np.broadcast_to(np.asarray(type, dtype=np.uint8), shape)[kept],
                np.broadcast_to(np.asarray(event, dtype=np.int64), shape)[kept],
            )
        )
        return len(kept)

    def finish(self) -> Edges:
        """Return all edges, by target; of several into one the one from the latest source first."""
        if not self._parts:
            none = np.empty(0, dtype=np.int64)
            return Edges(none, none, none, none.astype(np.uint8), none)
        source, target, weight, kind, event = (
            np.concatenate(column) for column in zip(*self._parts, strict=True)
        )
        order = np.lexsort((-source, target))
        return Edges(source[order], target[order], weight[order], kind[order], event[order])
