"""HTA's critical path, under the names of its module."""

from __future__ import annotations

from collections.abc import Sequence

from hta_widgets.compat.common.trace import Trace
from hta_widgets.compat.critical_path import (
    BoundType,
    CPEdge,
    CPEdgeType,
    CPGraph,
    CPNode,
    critical_path_analysis,
    overlay_critical_path_analysis,
    restore_cpgraph,
)
from hta_widgets.trace.traceset import TraceSet

__all__ = [
    "BoundType",
    "CPEdge",
    "CPEdgeType",
    "CPGraph",
    "CPNode",
    "CriticalPathAnalysis",
    "restore_cpgraph",
]


class CriticalPathAnalysis:
    """What a range of the program waits for."""

    @classmethod
    def critical_path_analysis(
        cls,
        t: Trace,
        rank: int,
        annotation: str,
        instance_id: int | tuple[int, int] | None,
        data_load_events: Sequence[str] | None = None,
    ) -> tuple[CPGraph, bool] | None:
        """Return the graph, and whether it has a path; see the method of `TraceAnalysis`."""
        return critical_path_analysis(t, rank, annotation, instance_id, data_load_events)

    @classmethod
    def overlay_critical_path_analysis(
        cls,
        t: TraceSet,
        rank: int,
        critical_path_graph: CPGraph,
        output_dir: str,
        only_show_critical_events: bool = True,
        show_all_edges: bool = False,
    ) -> str:
        """Write the trace with the path's edges as arrows; see the method of `TraceAnalysis`."""
        del t
        return overlay_critical_path_analysis(
            rank, critical_path_graph, output_dir, only_show_critical_events, show_all_edges
        )
