"""HTA's critical path: `CPGraph` with its nodes and edges, and the trace with an overlay.

Event ids are those of HTA: positions in ``traceEvents``. Times and weights are in µs. The graph
follows HTA 0.5.0, but models launches as later versions do. docs/differences-from-hta.md lists the
differences. If networkx, which is optional, is installed, `CPGraph` is a ``networkx.DiGraph``.
"""

from __future__ import annotations

import importlib
import io
import json
import os
import zipfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from hta_widgets.analysis.critical.graph import CriticalPath, critical_path_of, longest_chains
from hta_widgets.analysis.critical.nodes import (
    BOUNDS,
    EDGE_TYPES,
    HTA_RULES,
    KERNEL_KERNEL,
    OPERATOR,
)
from hta_widgets.compat.config import logger
from hta_widgets.compat.frames import (
    TraceSymbolTable,
    first_event_ns,
    hta_frame,
    in_us,
    shorten_name,
    symbols_of,
)
from hta_widgets.compat.trace import kept_of
from hta_widgets.errors import TraceError
from hta_widgets.export.traces.overlays import write_overlay
from hta_widgets.files import new_folder, target_path, write_atomically
from hta_widgets.trace.arrays import Bools, Ints
from hta_widgets.trace.traceset import TraceSet

#: HTA's environment variables for the graph.
_VARIABLES = (
    "CRITICAL_PATH_ADD_ZERO_WEIGHT_LAUNCH_EDGE",
    "CRITICAL_PATH_SHOW_ZERO_WEIGHT_LAUNCH_EDGE",
    "CRITICAL_PATH_STRICT_NEGATIVE_WEIGHT_CHECKS",
)
#: Our bounds that HTA leaves unnamed (``""``) or does not distinguish, with HTA's names.
_IN_HTA = {
    "cpu_blocked": "cpu_bound", "gpu_memory_bound": "gpu_compute_bound",
    "gpu_queue_wait": "gpu_kernel_launch_overhead", "cpu_outside_operators": "",
    "sync_overhead": "", "unknown_wait": "", "outside_path": "",
}  # fmt: skip

Data = dict[str, Any]


class _View(dict[Any, Data]):
    """Nodes, or edges by node pair. Called as in networkx: ``view(nbunch, data=…)``."""

    end = 0  # position of the edge's end that `nbunch` restricts

    def __call__(
        self,
        nbunch: int | Iterable[int] | None = None,
        data: bool | str = False,
        *,
        default: object = None,
    ) -> list[Any]:
        wanted = nbunch if nbunch is None or isinstance(nbunch, Iterable) else {nbunch}
        keys = [key for key in self if wanted is None or key[self.end] in wanted]
        if data is False:
            return keys
        values = (self[key] if data is True else self[key].get(data, default) for key in keys)
        pairs = zip(keys, values, strict=True)
        return [(*key, value) if isinstance(key, tuple) else (key, value) for key, value in pairs]

    def data(self, data: bool | str = True, default: object = None) -> list[Any]:
        return self(data=data, default=default)


class _NodeView(_View):
    def __call__(self, data: bool | str = False, default: object = None) -> list[Any]:  # type: ignore[override]
        return super().__call__(data=data, default=default)


class _InEdgeView(_View):
    end = 1


class _DiGraph:
    """A directed graph with the reading methods of networkx."""

    def __init__(self) -> None:
        self.nodes, self.edges = _NodeView(), _View()
        self.succ: dict[int, dict[int, Data]] = {}
        self.pred: dict[int, dict[int, Data]] = {}
        self.adj, self.out_edges = self.succ, self.edges

    def add_nodes_from(self, nodes: Iterable[int]) -> None:
        for node in nodes:
            if node not in self.nodes:
                self.nodes[node], self.succ[node], self.pred[node] = {}, {}, {}

    def add_edges_from(self, edges: Iterable[tuple[int, int, Data]]) -> None:
        for begin, end, data in edges:
            self.add_nodes_from((begin, end))
            self.edges[begin, end] = self.succ[begin][end] = self.pred[end][begin] = data

    @property
    def in_edges(self) -> _View:
        return _InEdgeView(self.edges)

    def __getitem__(self, node: int) -> dict[int, Data]:
        return self.succ[node]

    def __iter__(self) -> Iterator[int]:
        return iter(self.nodes)

    def __len__(self) -> int:
        return len(self.nodes)

    order = number_of_nodes = __len__

    def __contains__(self, node: object) -> bool:
        return node in self.nodes

    has_node = __contains__

    def has_edge(self, begin: int, end: int) -> bool:
        return (begin, end) in self.edges

    def get_edge_data(self, begin: int, end: int, default: object = None) -> Any:
        return self.edges.get((begin, end), default)

    def successors(self, node: int) -> Iterator[int]:
        return iter(self.succ[node])

    neighbors = successors

    def predecessors(self, node: int) -> Iterator[int]:
        return iter(self.pred[node])

    def out_degree(self, node: int) -> int:
        return len(self.succ[node])

    def in_degree(self, node: int) -> int:
        return len(self.pred[node])

    def size(self) -> int:
        return len(self.edges)

    number_of_edges = size

    def is_directed(self) -> bool:
        return True

    def is_multigraph(self) -> bool:
        return False


try:
    _Base: Any = importlib.import_module("networkx").DiGraph
except ImportError:
    _Base = _DiGraph


class CPEdgeType(Enum):
    """The kind of an edge."""

    OPERATOR_KERNEL = "critical_path_operator"
    DEPENDENCY = "critical_path_dependency"
    KERNEL_LAUNCH_DELAY = "critical_path_kernel_launch_delay"
    KERNEL_KERNEL_DELAY = "critical_path_kernel_kernel_delay"
    SYNC_DEPENDENCY = "critical_path_sync_dependency"


class BoundType(Enum):
    """What the time of an edge is bound by."""

    GPU_KERNEL_KERNEL_OVERHEAD = "gpu_kernel_kernel_overhead"
    GPU_KERNEL_LAUNCH_OVERHEAD = "gpu_kernel_launch_overhead"
    DATA_LOADING = "data_loading"
    CPU_BOUND = "cpu_bound"
    GPU_COMPUTE_BOUND = "gpu_compute_bound"
    GPU_COMMUNICATION_BOUND = "gpu_communication_bound"


@dataclass
class CPNode:
    """The start or end of an event: number, event, and time in µs."""

    idx: int = -1
    ev_idx: int = -1
    ts: float = 0
    is_start: bool = False
    is_blocking: bool = False


@dataclass(frozen=True)
class CPEdge:
    """A dependency between two nodes, given by number. `weight` is in µs."""

    begin: int
    end: int
    type: CPEdgeType
    weight: float = 0


class CPGraph(_Base):  # type: ignore[misc]
    """The dependencies between the events of a rank, and the longest path through them.

    `path` is the exact graph, in ns. To estimate the gain from a faster kernel, set
    ``graph.edges[begin, end]["weight"]`` and call `critical_path` again. Without `path`, the graph
    is empty, as networkx requires.
    """

    def __init__(
        self,
        path: CriticalPath | None = None,
        *,
        zero_ns: int = 0,
        symbols: TraceSymbolTable | None = None,
        request: tuple[str, Any] = ("", None),
    ) -> None:
        super().__init__()
        if path is None:
            return
        self.path, self._edges = path, path.edges
        edges: dict[tuple[int, int], Data] = {}
        for edge in self._edges_at(np.arange(len(path.edges))):
            heaviest = edges.get((edge.begin, edge.end))  # of parallel edges
            if heaviest is None or edge.weight > heaviest["weight"]:
                edges[edge.begin, edge.end] = {"weight": edge.weight, "object": edge}
        self.add_nodes_from(range(len(path.nodes)))
        self.add_edges_from((begin, end, data) for (begin, end), data in edges.items())
        self._edge_count = len(edges)
        self.rank = path.trace.rank
        self.full_trace = path.trace
        self.data_load_events = list(path.rules.data_loading) or None
        self._zero_ns = zero_ns - path.trace.shift_ns
        self._request = request
        self.symbol_table = symbols or TraceSymbolTable(symbols_of(path.trace.table))
        self._copy_path_attributes()

    def __repr__(self) -> str:
        return (
            f"<CPGraph of rank {self.rank}: {len(self.path.nodes)} nodes,"
            f" {len(self.path.edges)} edges, {len(self.critical_path_nodes)} on the path>"
        )

    def critical_path(self) -> bool:
        """Find the longest path for the current weights. Return whether there is one."""
        weights = {pair: self.edges[pair]["weight"] for pair in self.edges}
        if len(weights) != self._edge_count or not weights.keys() <= self._positions.keys():
            raise TraceError(
                "edges were added or removed",
                remedy="Change only weights; weight 0 stands for an edge that nothing waits for.",
            )
        changed = {
            pair: weight
            for pair, weight in weights.items()
            if weight != self.edges[pair]["object"].weight
        }
        if changed or self.path.edges is not self._edges:
            weight_ns = self._edges.weight_ns.copy()
            for pair, weight in changed.items():
                weight_ns[self._positions[pair]] = round(weight * 1000)
            edges = replace(self._edges, weight_ns=weight_ns)
            chains = longest_chains(len(self.path.nodes), edges)
            self.path = replace(self.path, edges=edges, chains=chains)
        self._copy_path_attributes()
        return bool(self.critical_path_nodes)

    @cached_property
    def _positions(self) -> dict[tuple[int, int], list[int]]:
        """For each pair of nodes, the positions of their edges in the exact graph."""
        positions: dict[tuple[int, int], list[int]] = {}
        pairs = zip(self._edges.source.tolist(), self._edges.target.tolist(), strict=True)
        for position, pair in enumerate(pairs):
            positions.setdefault(pair, []).append(position)
        return positions

    def _copy_path_attributes(self) -> None:
        record = self.path.trace.table.record
        self.critical_path_nodes: list[int] = self.path.path_nodes.tolist()
        self.critical_path_events_set: set[int] = set(record[self.path.path_events].tolist())
        self.critical_path_edges_set: set[CPEdge] = set(self._edges_at(self.path.on_path))

    def _edges_at(self, positions: Ints) -> list[CPEdge]:
        edges, types = self.path.edges, list(CPEdgeType)
        return [
            CPEdge(begin, end, types[kind], weight)
            for begin, end, kind, weight in zip(
                edges.source[positions].tolist(),
                edges.target[positions].tolist(),
                edges.type[positions].tolist(),
                in_us(edges.weight_ns[positions]).tolist(),
                strict=True,
            )
        ]

    def get_critical_path_breakdown(self) -> pd.DataFrame | None:
        """Return the edges on the path in order, or None if the graph has no path.

        ``event_idx`` is the event to which the time belongs (NaN for launches, dependencies and
        waits), ``duration`` the weight in µs, and ``cat`` a number of the symbol table.
        ``bound_by`` is empty for dependencies and waits.
        """
        on_path = self.path.on_path
        if not len(on_path):
            return None
        edges, table = self.path.edges, self.path.trace.table
        kind = edges.type[on_path]
        has_event = self._has_event[on_path]
        rows = np.where(has_event, edges.event[on_path], 0)
        codes, place = np.unique(table.name[rows], return_inverse=True)
        short = np.array([shorten_name(table.names[code]) for code in codes.tolist()], object)
        bounds = [_IN_HTA.get(bound, bound) for bound in BOUNDS]
        events = hta_frame(self.path.trace, rows, self.symbol_table, zero_ns=0).reset_index(
            drop=True
        )
        columns: dict[str, Any] = {
            "event_idx": np.where(has_event, table.record[rows], np.nan),
            "duration": in_us(edges.weight_ns[on_path]).astype(np.float64),
            "type": ["critical_path_" + EDGE_TYPES[code] for code in kind.tolist()],
            "s_name": pd.Series(short[place], dtype=object).where(has_event),
        }
        for column in ("cat", "pid", "tid", "stream", "index"):
            columns[column] = events[column].where(has_event)
        columns["bound_by"] = [bounds[code] for code in self.path.bound_by(on_path).tolist()]
        return pd.DataFrame(columns)

    def summary(self) -> pd.Series[Any]:
        """Return the percentage of the path's time for each bound."""
        frame = self.get_critical_path_breakdown()
        if frame is None:
            return pd.Series([], dtype=np.float64, name="duration")
        sums = frame.groupby("bound_by")["duration"].sum()
        return sums / max(float(sums.sum()), 1e-9) * 100

    def show_critical_path(self) -> None:
        """Print the nodes of the path."""
        table, rows = self.path.trace.table, self.path.nodes.row
        for number in self.critical_path_nodes:
            name = table.names[table.name[rows[number]]]
            print(f"{self.node_list[number]} {name}")

    @cached_property
    def node_list(self) -> list[CPNode]:
        """The nodes, indexed by number."""
        nodes, table = self.path.nodes, self.path.trace.table
        return [
            CPNode(*values)
            for values in zip(
                range(len(nodes)),
                table.record[nodes.row].tolist(),
                in_us(nodes.time_ns - self._zero_ns).tolist(),
                nodes.is_start.tolist(),
                self.path.blocked[nodes.row].tolist(),
                strict=True,
            )
        ]

    @cached_property
    def trace_df(self) -> pd.DataFrame:
        """The events of the graph, as in HTA's frames."""
        nodes = self.path.nodes
        rows = np.sort(np.concatenate((nodes.host, nodes.device)))
        zero_ns = self._zero_ns + self.path.trace.shift_ns
        return hta_frame(self.path.trace, rows, self.symbol_table, zero_ns=zero_ns)

    @cached_property
    def event_to_start_node_map(self) -> dict[int, int]:
        """For each event, the node at which it starts."""
        return {node.ev_idx: node.idx for node in self.node_list if node.is_start}

    @cached_property
    def event_to_end_node_map(self) -> dict[int, int]:
        """For each event, the node at which it ends."""
        return {node.ev_idx: node.idx for node in self.node_list if not node.is_start}

    @cached_property
    def edge_to_event_map(self) -> dict[tuple[int, int], int]:
        """For each edge, the event to which its time belongs, if there is one."""
        edges, record = self.path.edges, self.path.trace.table.record
        with_event = np.flatnonzero(self._has_event)
        pairs = zip(
            edges.source[with_event].tolist(), edges.target[with_event].tolist(), strict=True
        )
        return dict(zip(pairs, record[edges.event[with_event]].tolist(), strict=True))

    @property
    def _has_event(self) -> Bools:
        edges = self.path.edges
        return np.isin(edges.type, (OPERATOR, KERNEL_KERNEL)) & (edges.event >= 0)

    def get_nodes_for_event(self, ev_id: int) -> tuple[CPNode | None, CPNode | None]:
        """Return the nodes at which an event starts and ends."""
        start, end = self.event_to_start_node_map.get(ev_id), self.event_to_end_node_map.get(ev_id)
        nodes = self.node_list
        return None if start is None else nodes[start], None if end is None else nodes[end]

    def get_events_for_edge(self, edge: CPEdge) -> tuple[int, int]:
        """Return the events at both ends of an edge."""
        return self.node_list[edge.begin].ev_idx, self.node_list[edge.end].ev_idx

    def get_event_attribution_for_edge(self, edge: CPEdge) -> int | None:
        """Return the event to which the time of an edge belongs."""
        return self.edge_to_event_map.get((edge.begin, edge.end))

    def get_edges_attributed_to_event(self, ev_idx: int) -> list[CPEdge]:
        """Return the edges whose time belongs to an event."""
        return [self.edges[pair]["object"] for pair in self._edges_of.get(ev_idx, [])]

    @cached_property
    def _edges_of(self) -> dict[int, list[tuple[int, int]]]:
        edges: dict[int, list[tuple[int, int]]] = {}
        for pair, event in self.edge_to_event_map.items():
            edges.setdefault(event, []).append(pair)
        return edges

    def save(self, out_dir: str) -> str:
        """Write ``<out_dir>.zip`` for `restore_cpgraph`. Return its path.

        The file contains the request, the edges and their weights. The events remain in the trace.
        """
        target = target_path(f"{out_dir}.zip")
        new_folder(target.parent)
        edges, arrays = self.path.edges, io.BytesIO()
        np.savez_compressed(
            arrays, source=edges.source, target=edges.target, weight_ns=edges.weight_ns
        )
        request = dict(zip(("annotation", "instance_id"), self._request, strict=True))
        request |= {"rank": self.rank, "data_load_events": self.data_load_events}
        with write_atomically(target) as file, zipfile.ZipFile(file, "w") as out:
            out.writestr("asked.json", json.dumps(request))
            out.writestr("edges.npz", arrays.getvalue())
        return str(target)


def graph_of(
    t: TraceSet,
    rank: int,
    annotation: str,
    instance_id: int | tuple[int, int] | None,
    data_load_events: Sequence[str] | None = None,
) -> CPGraph | None:
    """Return the graph of a range; None if no range has that name."""
    if ignored := [name for name in _VARIABLES if os.environ.get(name) == "1"]:
        logger.warning(
            "%s: set, but without effect here: no edges of weight 0 are added for launches,"
            " and no edge goes back in time",
            ", ".join(ignored),
        )
    path = critical_path_of(
        kept_of(t)[rank],
        annotation,
        instance_id,
        data_load_events=data_load_events,
        rules=HTA_RULES,
    )
    if path is None:
        return None
    return CPGraph(
        path,
        zero_ns=first_event_ns(t.values()),
        symbols=getattr(t, "symbol_table", None),
        request=(annotation, instance_id),
    )


def overlay_graph(
    rank: int, graph: CPGraph, output_dir: str, *, only_path: bool, all_edges: bool
) -> str:
    """Write the trace with the graph; see `TraceAnalysis.overlay_critical_path_analysis`."""
    if not isinstance(graph, CPGraph):
        remedy = "Pass the first item that critical_path_analysis returns."
        raise TraceError(f"critical_path_graph= takes a CPGraph, not {graph!r:.60}", remedy=remedy)
    if rank != graph.rank:
        raise TraceError(f"the graph belongs to rank {graph.rank}, not {rank}")
    folder = new_folder(output_dir)
    name = Path(graph.path.trace.path).name or f"rank-{rank}.json.gz"
    if not name.endswith((".json", ".gz")):
        name += ".json"
    target = folder / f"overlaid_critical_path_{name}"
    report = write_overlay(graph.path, target, only_path=only_path, all_edges=all_edges)
    return str(report.path)


def restore_cpgraph(zip_filename: str, t_full: TraceSet, rank: int) -> CPGraph:
    """Return a graph written by `CPGraph.save`. Raise if it belongs to another trace."""
    try:
        with zipfile.ZipFile(zip_filename) as archive:
            request = json.loads(archive.read("asked.json"))
            saved = np.load(io.BytesIO(archive.read("edges.npz")))
            source, target, weight_ns = saved["source"], saved["target"], saved["weight_ns"]
    except (OSError, KeyError, ValueError, zipfile.BadZipFile) as cause:
        raise TraceError(
            f"holds no graph ({cause})", path=zip_filename, remedy="Give what save returned."
        ) from None
    instance = request["instance_id"]
    if isinstance(instance, list):
        instance = tuple(instance)  # JSON has no tuples
    graph = graph_of(t_full, rank, request["annotation"], instance, request["data_load_events"])
    if graph is None or not (
        np.array_equal(graph.path.edges.source, source)
        and np.array_equal(graph.path.edges.target, target)
    ):
        raise TraceError(
            "the graph belongs to another trace",
            path=zip_filename,
            remedy="Load the trace from which the graph was made; it must be unchanged.",
        )
    # Restore the weights that were changed before saving.
    for edge in np.flatnonzero(graph.path.edges.weight_ns != weight_ns):
        graph.edges[int(source[edge]), int(target[edge])]["weight"] = int(weight_ns[edge]) / 1000
    graph.critical_path()
    return graph
