"""The critical path as arrows between events, for a timeline."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from hta_widgets.trace.traceset import TraceSet
from hta_widgets.trace.table import FlowTable

from hta_widgets.analysis.critical.graph import CriticalPath
from hta_widgets.analysis.critical.graph import path_of
from hta_widgets.analysis.critical.rules import OPERATOR
from hta_widgets.analysis.critical.window import trace_of

__all__ = ["with_critical_path"]

_KIND = "critical_path"


def with_critical_path(
    traces: TraceSet,
    rank: int,
    annotation: str = "ProfilerStep",
    instance: int | tuple[int, int] | None = 0,
    *,
    data_load_events: Iterable[str] | None = None,
) -> TraceSet:
    """Return the set with the steps of a critical path as arrows of kind ``critical_path``.

    A timeline of the result shows, for an event on the path that is selected, where the path
    comes from and where it goes on; its keys that follow arrows walk along the path. Arrows lead
    from event to event wherever the path leaves one: launches, waits, the next kernel, the next
    operator. They are in `Trace.flows` beside the file's own.

    Parameters
    ----------
    traces : TraceSet
    rank, annotation, instance, data_load_events
        As in `critical_path`.

    Returns
    -------
    TraceSet
        Of the same ranks and events; as it is where the rank has no such range.

    Raises
    ------
    TraceError
        Where the set has no such rank, or the range has fewer instances.

    Examples
    --------
    >>> traces = hw.load("runs/job")  # doctest: +SKIP
    >>> view = hw.Timeline(hw.analysis.with_critical_path(traces, rank=0))  # doctest: +SKIP
    >>> path = hw.analysis.critical_path(traces, rank=0)  # doctest: +SKIP
    >>> view.select(hw.analysis.path_selection(path, traces))  # doctest: +SKIP
    """
    path = path_of(trace_of(traces, rank), annotation, instance, data_load_events=data_load_events)
    if path is None:
        return traces
    arrows = _with_arrows(path)
    return TraceSet(
        [
            trace.replace(flow_table=arrows) if trace.rank == rank else trace
            for trace in traces.values()
        ],
        like=traces,
        problems=traces.found,
    )


def _with_arrows(path: CriticalPath) -> FlowTable:
    edges, flows = path.edges, path.trace.flow_table
    leaving = path.on_path[edges.type[path.on_path] != OPERATOR]
    row = path.nodes.row.astype(np.int64)
    source, target = row[edges.source[leaving]], row[edges.target[leaving]]
    kinds = [*flows.kinds] if _KIND in flows.kinds else [*flows.kinds, _KIND]
    none = np.full(len(leaving), -1, dtype=np.int64)
    return FlowTable(
        np.concatenate((flows.kind, np.full(len(leaving), kinds.index(_KIND), dtype=np.uint8))),
        np.concatenate((flows.source, source)),
        np.concatenate((flows.target, target)),
        kinds,
        np.concatenate((flows.source_record, none)),
        np.concatenate((flows.target_record, none)),
    )
