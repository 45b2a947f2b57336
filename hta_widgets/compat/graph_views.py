"""Nodes and edges of a graph, to be looked at as those of networkx are."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Any

__all__ = ["Edges", "Nodes"]

Pair = tuple[int, int]

_NO_DATA: Mapping[str, Any] = MappingProxyType({})


class Edges(dict[Pair, dict[str, Any]]):
    """The edges of a directed graph: their data, by the numbers of their two nodes.

    Iteration gives the pairs of nodes, ``edges[u, v]`` what is stored there.

    Examples
    --------
    >>> edges = Edges({(0, 1): {"weight": 5}, (1, 2): {"weight": 7}})
    >>> list(edges), edges[0, 1]["weight"]
    ([(0, 1), (1, 2)], 5)
    >>> edges(data=True)
    [(0, 1, {'weight': 5}), (1, 2, {'weight': 7})]
    >>> edges(1, data="weight")
    [(1, 2, 7)]
    """

    def __call__(
        self,
        nbunch: int | Iterable[int] | None = None,
        data: bool | str = False,
        *,
        default: Any = None,
    ) -> list[tuple[Any, ...]]:
        """Return the edges, of some nodes or all, with all their data, one entry, or none.

        Parameters
        ----------
        nbunch : int or iterable of int, optional
            Only edges that begin at these nodes.
        data : bool or str, default False
            What to add to each pair of nodes: True for the dict, a name for that entry.
        default : optional
            What stands for a named entry that an edge lacks.
        """
        chosen: Iterable[tuple[Pair, dict[str, Any]]] = self.items()
        if nbunch is not None:
            wanted = set(nbunch) if isinstance(nbunch, Iterable) else {nbunch}
            chosen = ((pair, entry) for pair, entry in chosen if pair[0] in wanted)
        if data is False:
            return [pair for pair, _ in chosen]
        if data is True:
            return [(*pair, entry) for pair, entry in chosen]
        return [(*pair, entry.get(data, default)) for pair, entry in chosen]

    def data(self, data: bool | str = True, default: Any = None) -> list[tuple[Any, ...]]:
        """Return the edges with their data; as ``edges(data=…)``."""
        return self(data=data, default=default)


class Nodes(Collection[int]):
    """The numbers of the nodes, 0 to `count` - 1, which carry no data: ``nodes[n]`` is empty.

    Examples
    --------
    >>> nodes = Nodes(2)
    >>> list(nodes), len(nodes), 2 in nodes
    ([0, 1], 2, False)
    >>> nodes(data="weight", default=1)
    [(0, 1), (1, 1)]
    """

    def __init__(self, count: int) -> None:
        self._numbers = range(count)

    def __getitem__(self, node: int) -> Mapping[str, Any]:
        if node not in self._numbers:
            raise KeyError(node)
        return _NO_DATA

    def __contains__(self, node: object) -> bool:
        return node in self._numbers

    def __iter__(self) -> Iterator[int]:
        return iter(self._numbers)

    def __len__(self) -> int:
        return len(self._numbers)

    def __repr__(self) -> str:
        return f"Nodes({len(self)})"

    def __call__(self, data: bool | str = False, default: Any = None) -> list[Any]:
        """Return the nodes; with `data`, each with its empty data, or `default` for a name."""
        if data is False:
            return list(self)
        return [(node, _NO_DATA if data is True else default) for node in self]

    def data(self, data: bool | str = True, default: Any = None) -> list[Any]:
        """Return the nodes with their data; as ``nodes(data=…)``."""
        return self(data=data, default=default)
