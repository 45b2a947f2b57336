"""HTA's critical path analysis: `CPGraph`, its nodes and edges, and the overlaid trace.

Ids of events are HTA's: places in ``traceEvents``. Times and weights are µs. The graph is HTA's
0.5.0 (`hta_widgets.analysis.critical.HTA`), whose numbers it gives on its own test traces. What
differs, and why:

- Every kernel of a launched CUDA graph takes part. HTA keeps only the last of each, since it joins
  calls and kernels one to one, and so misses most of the work of such traces.
- No edge goes back in time. HTA counts those as 0, so a path may pass through an instant twice.
- Kernels of stream 0, and threads with Triton's operators, take part.
- Instances of an annotation are those on the host; HTA counts their copies on the device as well.
- Communication is what `hta_widgets.taxonomy` says, not only names that begin with ``nccl``.
- Times are exact. HTA rounds fractions of a µs, which changes each edge by up to 1 µs.
- Of 0.6.1, ``data_load_events`` is here. Its edges for a lock that launches share, its merging of
  the backward thread, and its limit of 1500 µs between kernels are not: they are guesses that
  `hta_widgets.analysis.critical_path` replaces by what the trace records.
- Where HTA fails (no launches, an instance that is not there) there is a graph of the host alone,
  or an error that says which instances there are.

`CPGraph` is a ``networkx.DiGraph`` where networkx is installed, which is not needed to run.
"""

from __future__ import annotations

import io
import json
import os
import zipfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from hta_widgets.analysis.critical.nodes import trace_of
from hta_widgets.analysis.critical.path import path_of
from hta_widgets.analysis.critical.rules import HTA
from hta_widgets.compat.common.trace_symbol_table import TraceSymbolTable
from hta_widgets.compat.configs.config import logger
from hta_widgets.compat.cp_graph import BoundType, CPEdge, CPEdgeType, CPGraph, CPNode
from hta_widgets.compat.scope import kept_of, zero_ns_of
from hta_widgets.errors import TraceError
from hta_widgets.export.overlays import write_overlay
from hta_widgets.trace.trace import Trace
from hta_widgets.trace.traceset import TraceSet

__all__ = [
    "BoundType",
    "CPEdge",
    "CPEdgeType",
    "CPGraph",
    "CPNode",
    "critical_path_analysis",
    "overlay_critical_path_analysis",
    "restore_cpgraph",
]


#: HTA's environment variables for the graph.
_VARIABLES = (
    "CRITICAL_PATH_ADD_ZERO_WEIGHT_LAUNCH_EDGE",
    "CRITICAL_PATH_SHOW_ZERO_WEIGHT_LAUNCH_EDGE",
    "CRITICAL_PATH_STRICT_NEGATIVE_WEIGHT_CHECKS",
)


def critical_path_analysis(
    traces: TraceSet,
    rank: int,
    annotation: str,
    instance_id: int | tuple[int, int] | None,
    data_load_events: Iterable[str] | None = None,
    symbols: TraceSymbolTable | None = None,
) -> tuple[CPGraph, bool] | None:
    """Return the graph of a range on a rank and whether it has a path, as HTA does.

    Parameters
    ----------
    traces : TraceSet
        The events that HTA would look at; those of a `hta_widgets.compat` ``Trace`` without the
        last step.
    rank : int
    annotation : str
        Part of the name of a range; ``""`` is the whole rank.
    instance_id : int, (first, last) or None
        Which of the ranges; None is the first.
    data_load_events : iterable of str, optional
        Regular expressions of events that load data.
    symbols : TraceSymbolTable, optional
        The numbers of categories in breakdowns.

    Returns
    -------
    (CPGraph, bool) or None
        None where no event has `annotation` in its name.

    Raises
    ------
    TraceError
        Where there is no such rank or instance.
    """
    if ignored := [name for name in _VARIABLES if os.environ.get(name) == "1"]:
        logger.warning(
            "%s: set, but without effect here: no edges of weight 0 are added for launches, and no"
            " edge goes back in time",
            ", ".join(ignored),
        )
    kept = kept_of(traces)
    asked: Any = list(instance_id) if isinstance(instance_id, tuple) else instance_id
    path = path_of(
        trace_of(kept, rank), annotation, instance_id, data_load_events=data_load_events, rules=HTA
    )
    if path is None:
        return None
    if symbols is None:
        symbols = getattr(traces, "symbol_table", None)
    graph = CPGraph(path, zero_ns=zero_ns_of(traces), symbols=symbols, asked=(annotation, asked))
    return graph, graph.critical_path()


def overlay_critical_path_analysis(
    rank: int,
    graph: CPGraph,
    output_dir: str,
    only_show_critical_events: bool = True,
    show_all_edges: bool = False,
) -> str:
    """Write ``overlaid_critical_path_<file>`` into a folder, and return its path.

    The folder is made where it is not there. Other than in HTA it never replaces the trace's own
    file.
    """
    trace: Trace = graph.path.trace
    if rank != graph.rank:
        raise TraceError(f"the graph is of rank {graph.rank}, not {rank}")
    folder = Path(output_dir).expanduser()
    if folder.exists() and not folder.is_dir():
        raise TraceError("is not a folder", path=folder, remedy="Choose another output_dir.")
    folder.mkdir(parents=True, exist_ok=True)
    name = Path(trace.path).name or f"rank-{rank}.json.gz"
    if not name.endswith((".json", ".gz")):
        name += ".json"
    report = write_overlay(
        graph.path,
        folder / f"overlaid_critical_path_{name}",
        only_path=only_show_critical_events,
        all_edges=show_all_edges,
    )
    return str(report.path)


def restore_cpgraph(zip_filename: str, t_full: TraceSet, rank: int) -> CPGraph:
    """Return a graph that `CPGraph.save` wrote, over the same trace.

    Raises
    ------
    TraceError
        Where the file is none of `CPGraph.save`, or the trace is another one.
    """
    try:
        with zipfile.ZipFile(zip_filename) as archive:
            asked = json.loads(archive.read("asked.json"))
            saved = np.load(io.BytesIO(archive.read("edges.npz")))
            source, target, weight = saved["source"], saved["target"], saved["weight_ns"]
    except (OSError, KeyError, ValueError, zipfile.BadZipFile) as cause:
        raise TraceError(
            f"holds no graph ({cause})", path=zip_filename, remedy="Give what save returned."
        ) from None
    instance = asked["instance_id"]
    found = critical_path_analysis(
        t_full,
        rank,
        asked["annotation"],
        tuple(instance) if isinstance(instance, list) else instance,
        asked["data_load_events"],
    )
    if found is None:
        raise TraceError("the graph is of another trace", path=zip_filename)
    graph = found[0]
    edges = graph.path.edges
    if not (np.array_equal(edges.source, source) and np.array_equal(edges.target, target)):
        raise TraceError(
            "the graph is of another trace",
            path=zip_filename,
            remedy="Load the trace that it was made from, as it was then.",
        )
    for place in np.flatnonzero(edges.weight_ns != weight):
        graph.edges[int(source[place]), int(target[place])]["weight"] = int(weight[place]) / 1000
    graph.critical_path()
    return graph
