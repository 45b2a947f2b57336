"""HTA's graph of critical paths: `CPGraph`, its nodes and its edges."""

from __future__ import annotations

import importlib
import io
import json
import zipfile
from dataclasses import dataclass, replace
from enum import Enum
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from hta_widgets.analysis.critical.path import CriticalPath, longest_path
from hta_widgets.analysis.critical.rules import (
    BOUNDS,
    EDGE_TYPES,
    KERNEL_KERNEL,
    OPERATOR,
)
from hta_widgets.compat.common.trace_symbol_table import TraceSymbolTable
from hta_widgets.compat.graph_views import DiGraph
from hta_widgets.compat.hta_frame import hta_frame, hta_rows, in_us, symbols_of
from hta_widgets.compat.utils.utils import shorten_name
from hta_widgets.errors import TraceError

__all__ = ["BoundType", "CPEdge", "CPEdgeType", "CPGraph", "CPNode"]

try:
    _DiGraph: Any = importlib.import_module("networkx").DiGraph
except ImportError:
    _DiGraph = DiGraph

Ints = npt.NDArray[np.int64]

_PREFIX = "critical_path_"
#: Our terms for what HTA leaves unnamed or does not tell apart.
_IN_HTA = {
    "cpu_blocked": "cpu_bound",
    "gpu_memory_bound": "gpu_compute_bound",
    "gpu_queue_wait": "gpu_kernel_launch_overhead",
    "cpu_outside_operators": "",
    "sync_overhead": "",
    "outside_path": "",
}


class CPEdgeType(Enum):
    """What an edge stands for."""

    OPERATOR_KERNEL = "critical_path_operator"
    DEPENDENCY = "critical_path_dependency"
    KERNEL_LAUNCH_DELAY = "critical_path_kernel_launch_delay"
    KERNEL_KERNEL_DELAY = "critical_path_kernel_kernel_delay"
    SYNC_DEPENDENCY = "critical_path_sync_dependency"


class BoundType(Enum):
    """What bounds the time of an edge."""

    GPU_KERNEL_KERNEL_OVERHEAD = "gpu_kernel_kernel_overhead"
    GPU_KERNEL_LAUNCH_OVERHEAD = "gpu_kernel_launch_overhead"
    DATA_LOADING = "data_loading"
    CPU_BOUND = "cpu_bound"
    GPU_COMPUTE_BOUND = "gpu_compute_bound"
    GPU_COMMUNICATION_BOUND = "gpu_communication_bound"


@dataclass
class CPNode:
    """The start or end of an event: number, event, µs."""

    idx: int = -1
    ev_idx: int = -1
    ts: float = 0
    is_start: bool = False
    is_blocking: bool = False


@dataclass(frozen=True)
class CPEdge:
    """A dependency between two nodes, given by number; `weight` in µs."""

    begin: int
    end: int
    type: CPEdgeType
    weight: float = 0


class CPGraph(_DiGraph):  # type: ignore[misc]
    """Which events of a rank wait for which, and the longest path through them.

    A ``networkx.DiGraph`` where networkx is installed, else a graph that is read like one.
    `critical_path_analysis` makes it; without a path it is an empty graph, as networkx needs it.

    Weights may be changed, to ask what a faster kernel would bring: set
    ``graph.edges[begin, end]["weight"]`` and call `critical_path` again.

    Attributes
    ----------
    rank : int
    path : CriticalPath
        The graph in exact terms, in ns.
    critical_path_nodes : list of int
    critical_path_events_set : set of int
    critical_path_edges_set : set of CPEdge
    """

    def __init__(
        self,
        path: CriticalPath | None = None,
        *,
        zero_ns: int = 0,
        symbols: TraceSymbolTable | None = None,
        asked: tuple[str, Any] = ("", None),
    ) -> None:
        super().__init__()
        if path is None:
            return
        self.path, self._edges = path, path.edges
        self._add_edges()
        self.rank = path.trace.rank
        self.full_trace = path.trace
        self.data_load_events = list(path.rules.data_loading) or None
        self._zero_ns = zero_ns - path.trace.shift_ns
        self._asked = asked
        table = path.trace.table
        self.symbol_table = (
            TraceSymbolTable(symbols_of(table, hta_rows(table))) if symbols is None else symbols
        )
        self.critical_path_nodes: list[int] = path.path_nodes.tolist()
        self._take_path()

    # --- the graph --------------------------------------------------------------------------------

    @cached_property
    def node_list(self) -> list[CPNode]:
        """The nodes by number."""
        nodes, table = self.path.nodes, self.path.trace.table
        return [
            CPNode(*values)
            for values in zip(
                range(len(nodes)),
                table.record[nodes.row].tolist(),
                in_us(nodes.time_ns - self._zero_ns).tolist(),
                nodes.is_start.tolist(),
                self._blocking[nodes.row].tolist(),
                strict=True,
            )
        ]

    def _add_edges(self) -> None:
        edges, types = self.path.edges, list(CPEdgeType)
        found: dict[tuple[int, int], dict[str, Any]] = {}
        for begin, end, kind, weight in zip(
            edges.source.tolist(),
            edges.target.tolist(),
            edges.type.tolist(),
            in_us(edges.weight_ns).tolist(),
            strict=True,
        ):
            known = found.get((begin, end))
            if known is None or weight > known["weight"]:
                edge = CPEdge(begin, end, types[kind], weight)
                found[begin, end] = {"weight": weight, "object": edge}
        self.add_nodes_from(range(len(self.path.nodes)))
        self.add_edges_from((begin, end, data) for (begin, end), data in found.items())
        self._edge_count = len(found)

    def __repr__(self) -> str:
        return (
            f"<CPGraph of rank {self.rank}: {len(self.path.nodes)} nodes,"
            f" {len(self.path.edges)} edges, {len(self.critical_path_nodes)} on the path>"
        )

    # --- the path ---------------------------------------------------------------------------------

    def critical_path(self) -> bool:
        """Find the longest path, by the weights as they are now; return whether there is one."""
        weights = {pair: self.edges[pair]["weight"] for pair in self.edges}
        if len(weights) != self._edge_count or not weights.keys() <= self._places.keys():
            raise TraceError(
                "edges were added or removed",
                remedy="Change their weights only: 0 stands for an edge that is not waited for.",
            )
        changed = {
            pair: weight
            for pair, weight in weights.items()
            if weight != self.edges[pair]["object"].weight
        }
        if changed or self.path.edges is not self._edges:
            weight_ns = self._edges.weight_ns.copy()
            for pair, weight in changed.items():
                weight_ns[self._places[pair]] = round(weight * 1000)
            edges = replace(self._edges, weight_ns=weight_ns)
            found = longest_path(len(self.path.nodes), edges, first=True)
            self.path = replace(self.path, edges=edges, on_path=found)
        self.critical_path_nodes = self.path.path_nodes.tolist()
        self._take_path()
        return bool(self.critical_path_nodes)

    @cached_property
    def _places(self) -> dict[tuple[int, int], list[int]]:
        """Which edges of the path's graph lie between two nodes."""
        found: dict[tuple[int, int], list[int]] = {}
        pairs = zip(self._edges.source.tolist(), self._edges.target.tolist(), strict=True)
        for place, pair in enumerate(pairs):
            found.setdefault(pair, []).append(place)
        return found

    def _take_path(self) -> None:
        record = self.path.trace.table.record
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
        """Return the edges of the path, in order; None where there are none.

        Returns
        -------
        DataFrame
            ``event_idx``, the event that the time belongs to (NaN for launches, dependencies and
            waits); ``duration``, the weight in µs; ``type``; the event's ``s_name`` (short),
            ``cat`` (a number of the symbol table), ``pid, tid, stream, index``; ``bound_by``, empty
            for dependencies and waits.
        """
        on_path = self.path.on_path
        if not len(on_path):
            return None
        edges, table = self.path.edges, self.path.trace.table
        kind = edges.type[on_path]
        named = np.isin(kind, (OPERATOR, KERNEL_KERNEL)) & (edges.event[on_path] >= 0)
        rows = np.where(named, edges.event[on_path], 0)
        used, place = np.unique(rows, return_inverse=True)
        frame = hta_frame(self.path.trace, used, self.symbol_table, zero_ns=0)
        codes, of_name = np.unique(table.name[used], return_inverse=True)
        short = np.array([shorten_name(table.names[code]) for code in codes.tolist()], object)
        short = short[of_name]
        bounds = [_IN_HTA.get(bound, bound) for bound in BOUNDS]
        columns: dict[str, Any] = {
            "event_idx": np.where(named, table.record[rows], np.nan),
            "duration": in_us(edges.weight_ns[on_path]).astype(np.float64),
            "type": [_PREFIX + EDGE_TYPES[code] for code in kind.tolist()],
            "s_name": pd.Series(short[place], dtype=object).where(named),
        }
        for column in ("cat", "pid", "tid", "stream", "index"):
            columns[column] = pd.Series(frame[column].to_numpy()[place]).where(named)
        columns["bound_by"] = [bounds[code] for code in self.path.bound_by(on_path).tolist()]
        return pd.DataFrame(columns)

    def summary(self) -> pd.Series[Any]:
        """Return the share of the path's time by what bounds it, in percent."""
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
            print(f"{self.node_list[number]} {name}")  # noqa: T201 - what it is for

    # --- look-ups ---------------------------------------------------------------------------------

    @cached_property
    def trace_df(self) -> pd.DataFrame:
        """The events of the graph, as HTA's frames show them."""
        nodes = self.path.nodes
        rows = np.sort(np.concatenate((nodes.host, nodes.device)))
        zero_ns = self._zero_ns + self.path.trace.shift_ns
        return hta_frame(self.path.trace, rows, self.symbol_table, zero_ns=zero_ns)

    @cached_property
    def event_to_start_node_map(self) -> dict[int, int]:
        """The node at which each event starts."""
        return self._by_event(self.path.nodes.is_start)

    @cached_property
    def event_to_end_node_map(self) -> dict[int, int]:
        """The node at which each event ends."""
        return self._by_event(~self.path.nodes.is_start)

    @cached_property
    def edge_to_event_map(self) -> dict[tuple[int, int], int]:
        """The event that the time of an edge belongs to, where it belongs to one."""
        edges, record = self.path.edges, self.path.trace.table.record
        known = np.flatnonzero(np.isin(edges.type, (OPERATOR, KERNEL_KERNEL)) & (edges.event >= 0))
        pairs = zip(edges.source[known].tolist(), edges.target[known].tolist(), strict=True)
        return dict(zip(pairs, record[edges.event[known]].tolist(), strict=True))

    def get_nodes_for_event(self, ev_id: int) -> tuple[CPNode | None, CPNode | None]:
        """Return the nodes at which an event starts and ends."""
        start, end = self.event_to_start_node_map.get(ev_id), self.event_to_end_node_map.get(ev_id)
        return (
            None if start is None else self.node_list[start],
            None if end is None else self.node_list[end],
        )

    def get_events_for_edge(self, edge: CPEdge) -> tuple[int, int]:
        """Return the events between which an edge is."""
        return self.node_list[edge.begin].ev_idx, self.node_list[edge.end].ev_idx

    def get_event_attribution_for_edge(self, edge: CPEdge) -> int | None:
        """Return the event that the time of an edge belongs to."""
        return self.edge_to_event_map.get((edge.begin, edge.end))

    def get_edges_attributed_to_event(self, ev_idx: int) -> list[CPEdge]:
        """Return the edges whose time belongs to an event."""
        return [self.edges[pair]["object"] for pair in self._edges_of.get(ev_idx, [])]

    @cached_property
    def _edges_of(self) -> dict[int, list[tuple[int, int]]]:
        found: dict[int, list[tuple[int, int]]] = {}
        for pair, event in self.edge_to_event_map.items():
            found.setdefault(event, []).append(pair)
        return found

    @cached_property
    def _blocking(self) -> npt.NDArray[np.bool_]:
        return self.path.blocked

    def _by_event(self, wanted: npt.NDArray[np.bool_]) -> dict[int, int]:
        numbers = np.flatnonzero(wanted)
        record = self.path.trace.table.record[self.path.nodes.row[numbers]]
        return dict(zip(record.tolist(), numbers.tolist(), strict=True))

    # --- files ------------------------------------------------------------------------------------

    def save(self, out_dir: str) -> str:
        """Write ``<out_dir>.zip``, from which `restore_cpgraph` gives the graph back; return it.

        It holds what was asked for, the edges and their weights; the events stay in the trace.
        """
        target = Path(f"{out_dir}.zip")
        target.parent.mkdir(parents=True, exist_ok=True)
        edges = self.path.edges
        arrays = io.BytesIO()
        np.savez_compressed(
            arrays, source=edges.source, target=edges.target, weight_ns=edges.weight_ns
        )
        annotation, instance = self._asked
        asked = {
            "rank": self.rank,
            "annotation": annotation,
            "instance_id": instance,
            "data_load_events": self.data_load_events,
        }
        with zipfile.ZipFile(target, "w") as out:
            out.writestr("asked.json", json.dumps(asked))
            out.writestr("edges.npz", arrays.getvalue())
        return str(target)
