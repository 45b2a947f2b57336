"""What `CPGraph` is where networkx is not installed: a graph that is read as one of networkx is."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

__all__ = ["DiGraph"]

Data = dict[str, Any]


class _Nodes(dict[int, Data]):
    """The nodes with their data; ``nodes(data=…)`` as in networkx."""

    def __call__(self, data: bool | str = False, default: Any = None) -> list[Any]:
        return _with_data([((node,), entry) for node, entry in self.items()], data, default)

    def data(self, data: bool | str = True, default: Any = None) -> list[Any]:
        return self(data, default)


class _Edges(dict[tuple[int, int], Data]):
    """The edges with their data, by pairs of nodes; ``edges(nbunch, data=…)`` as in networkx."""

    end = 0  # of the two nodes, which one `nbunch` chooses

    def __call__(
        self,
        nbunch: int | Iterable[int] | None = None,
        data: bool | str = False,
        *,
        default: Any = None,
    ) -> list[Any]:
        chosen = list(self.items())
        if nbunch is not None:
            wanted = set(nbunch) if isinstance(nbunch, Iterable) else {nbunch}
            chosen = [item for item in chosen if item[0][self.end] in wanted]
        return _with_data(chosen, data, default)

    def data(self, data: bool | str = True, default: Any = None) -> list[Any]:
        return self(data=data, default=default)


class _InEdges(_Edges):
    end = 1


def _with_data(
    items: Sequence[tuple[tuple[int, ...], Data]], data: bool | str, default: Any
) -> list[Any]:
    if data is False:
        return [key if len(key) > 1 else key[0] for key, _ in items]
    return [(*key, entry if data is True else entry.get(data, default)) for key, entry in items]


class DiGraph:
    """A directed graph of networkx's form, to be read: no algorithms, no removing.

    Examples
    --------
    >>> graph = DiGraph()
    >>> graph.add_edges_from([(0, 1, {"weight": 5}), (1, 2, {"weight": 7})])
    >>> list(graph), graph[0], graph.edges[1, 2]["weight"]
    ([0, 1, 2], {1: {'weight': 5}}, 7)
    >>> list(graph.successors(0)), graph.in_degree(2), graph.edges(1, data="weight")
    ([1], 1, [(1, 2, 7)])
    """

    def __init__(self) -> None:
        self.nodes, self.edges = _Nodes(), _Edges()
        self.succ: dict[int, dict[int, Data]] = {}
        self.pred: dict[int, dict[int, Data]] = {}

    def add_nodes_from(self, nodes: Iterable[int]) -> None:
        """Add nodes, where they are not there."""
        for node in nodes:
            if node not in self.nodes:
                self.nodes[node], self.succ[node], self.pred[node] = {}, {}, {}

    def add_edges_from(self, edges: Iterable[tuple[int, int, Data]]) -> None:
        """Add edges with their data."""
        for begin, end, data in edges:
            self.add_nodes_from((begin, end))
            self.edges[begin, end] = self.succ[begin][end] = self.pred[end][begin] = data

    @property
    def adj(self) -> dict[int, dict[int, Data]]:
        """The data of the edges by their begin and end."""
        return self.succ

    @property
    def out_edges(self) -> _Edges:
        """The edges."""
        return self.edges

    @property
    def in_edges(self) -> _Edges:
        """The edges; called with nodes, those that end there."""
        return _InEdges(self.edges)

    def __getitem__(self, node: int) -> dict[int, Data]:
        return self.succ[node]

    def __iter__(self) -> Iterator[int]:
        return iter(self.nodes)

    def __len__(self) -> int:
        return len(self.nodes)

    def __contains__(self, node: object) -> bool:
        return node in self.nodes

    def has_node(self, node: int) -> bool:
        """Tell whether a node is there."""
        return node in self.nodes

    def has_edge(self, begin: int, end: int) -> bool:
        """Tell whether an edge is there."""
        return (begin, end) in self.edges

    def get_edge_data(self, begin: int, end: int, default: Any = None) -> Any:
        """Return the data of an edge."""
        return self.edges.get((begin, end), default)

    def successors(self, node: int) -> Iterator[int]:
        """Return the nodes at which edges from here end."""
        return iter(self.succ[node])

    neighbors = successors

    def predecessors(self, node: int) -> Iterator[int]:
        """Return the nodes at which edges to here begin."""
        return iter(self.pred[node])

    def out_degree(self, node: int) -> int:
        """Return how many edges begin at a node."""
        return len(self.succ[node])

    def in_degree(self, node: int) -> int:
        """Return how many edges end at a node."""
        return len(self.pred[node])

    def number_of_nodes(self) -> int:
        """Return how many nodes there are."""
        return len(self.nodes)

    order = number_of_nodes

    def number_of_edges(self) -> int:
        """Return how many edges there are."""
        return len(self.edges)

    size = number_of_edges

    def is_directed(self) -> bool:
        """Return True."""
        return True

    def is_multigraph(self) -> bool:
        """Return False: there is one edge from a node to another."""
        return False
