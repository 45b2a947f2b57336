"""HTA's plots of device events; here they select the events in our own timeline."""

from __future__ import annotations

from collections.abc import Iterable

import pandas as pd

from hta_widgets.compat.common.timeline import show_timeline
from hta_widgets.compat.common.trace import Trace
from hta_widgets.compat.common.trace_symbol_table import TraceSymbolTable
from hta_widgets.widgets.timeline import Timeline

__all__ = ["plot_timeline_gpu_kernels", "plot_timeline_gpu_kernels_from_trace"]


def plot_timeline_gpu_kernels(
    title: str,
    df: pd.DataFrame,
    symbol_table: TraceSymbolTable,
    ranks: Iterable[int] | None = None,
    iterations: Iterable[int] | None = None,
    streams: Iterable[int] | None = None,
    duration_threshold: int = 1000,
) -> Timeline | None:
    """Show the timeline of the trace that a frame is of, with its device events selected.

    Parameters
    ----------
    title : str
        Without meaning here.
    df : DataFrame
        Events of a `Trace`; of several ranks, with a column ``rank``.
    symbol_table : TraceSymbolTable
        That of the trace, which must still be there.
    ranks, iterations, streams : iterable of int, optional
        Only events of these; all by default.
    duration_threshold : int
        Without meaning here: nothing is drawn longer than it is.
    """
    del title, duration_threshold
    events = df[df["stream"] >= 0]
    for column, chosen in (("rank", ranks), ("iteration", iterations), ("stream", streams)):
        if chosen is not None and column in events.columns:
            events = events[events[column].isin(list(chosen))]
    return show_timeline(events, symbol_table)


def plot_timeline_gpu_kernels_from_trace(
    title: str,
    trace_data: Trace,
    ranks: Iterable[int] | None = None,
    iterations: Iterable[int] | None = None,
    streams: Iterable[int] | None = None,
    duration_threshold: int = 1000,
) -> Timeline | None:
    """Show the timeline of a trace with device events selected; see `plot_timeline_gpu_kernels`."""
    chosen = trace_data.get_ranks() if ranks is None else list(ranks)
    events = pd.concat([trace_data.get_trace(rank).assign(rank=rank) for rank in chosen])
    return plot_timeline_gpu_kernels(
        title, events, trace_data.symbol_table, None, iterations, streams, duration_threshold
    )
