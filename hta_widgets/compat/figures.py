"""HTA's figures in notebooks: our charts, and our timeline with the events of a frame selected."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import cache
from typing import Any

import numpy as np
import pandas as pd

from hta_widgets.compat.config import logger
from hta_widgets.compat.frames import (
    TraceSymbolTable,
    find_events_by_name_patterns_using_decoded_names,
    find_events_by_name_patterns_using_symbol_table,
    get_symbol_column_names,
    symbol_numbers,
)
from hta_widgets.compat.trace import Trace, owner_of
from hta_widgets.errors import TraceError
from hta_widgets.trace.selection import Selection
from hta_widgets.widgets.timeline import Timeline as TraceTimeline

#: HTA's stream of ranges that `align_module_with_kernels` adds.
ANNOTATION_STREAM = -2

# --- charts ---------------------------------------------------------------------------------------


def show(
    chart: str, frame: pd.DataFrame | Callable[[], pd.DataFrame] | None, **options: Any
) -> None:
    """Show a frame with the function of `hta_widgets.charts`; nothing if it is empty.

    A callable that returns the frame is only called in notebooks. Elsewhere one line on stderr
    names the alternative, once per process.
    """
    if frame is None or (isinstance(frame, pd.DataFrame) and frame.empty):
        return
    if not in_notebook():
        print_where_figures_show()
        return
    if callable(frame):
        frame = frame()
        if frame.empty:
            return
    from IPython.display import display  # noqa: PLC0415 - only present in notebooks

    from hta_widgets import charts  # noqa: PLC0415 - Bokeh takes a while to import
    from hta_widgets.charts.figure import html_of  # noqa: PLC0415

    figure = getattr(charts, chart)(frame, **options)
    output = {"text/html": html_of(figure), "text/plain": repr(figure)}
    display(output, raw=True)  # type: ignore[no-untyped-call]


@cache
def print_where_figures_show() -> None:
    """Print, once per process, that figures show in notebooks."""
    print(  # noqa: T201 - for scripts, which may have no logging
        "figures are shown in notebooks only; hta_widgets.charts.to_html(figure, path) writes a"
        " page",
        file=sys.stderr,
    )


def in_notebook() -> bool:
    """Return whether the code runs in a Jupyter kernel."""
    if "IPython" not in sys.modules:
        return False
    from IPython.core.getipython import get_ipython  # noqa: PLC0415 - absent from plain Python

    return getattr(get_ipython(), "kernel", None) is not None


# --- timelines ------------------------------------------------------------------------------------

#: Side of the events that HTA draws.
EventType = Enum("EventType", "GPUEvents CPUEvents AllEvents", start=0)


class PlotFormat(Enum):
    """Target of HTA's figure."""

    HTML = "html"
    Inline = "inline"
    File = "file"


@dataclass
class TimelinePlotSetting:
    """HTA's settings of a figure; ignored."""

    auto_detect: bool = True
    event_type: EventType = EventType.GPUEvents
    multi_ranks: bool = False
    multi_traces: bool = False
    multi_streams: bool = True
    task_height: int = 30
    amplify_short_events: bool = True
    short_events_display_duration: int = 1000
    use_global_time: bool = False
    plot_format: PlotFormat = PlotFormat.Inline
    compress_threads: bool = True


class Timeline:
    """Events of a `Trace`, or those that `filter_func` returns, to show in the trace's timeline.

    The trace of `symbol_table` must still exist. `setting` and `hover_columns` are ignored.
    """

    def __init__(
        self,
        timeline_events: pd.DataFrame,
        symbol_table: TraceSymbolTable,
        filter_func: Callable[..., pd.DataFrame] | None = None,
        setting: TimelinePlotSetting | None = None,
        hover_columns: Sequence[str] | None = None,
    ) -> None:
        self.symbol_table = symbol_table
        self.setting = TimelinePlotSetting() if setting is None else setting
        self.hover_columns = list(hover_columns or ())
        self.timeline_events = timeline_events
        if filter_func is not None:
            self.timeline_events = filter_func(timeline_events, symbol_table)

    def plot(self, title: str, save_path: str | None = None) -> TraceTimeline | None:
        """Show the timeline, save it as a page on request, and return it; `title` is ignored.

        The result is None without events, or if the trace is gone.
        """
        trace = owner_of(self.symbol_table)
        if trace is None or self.timeline_events.empty:
            logger.warning("no events to show" if trace else "the trace of these events is gone")
            return None
        selection = _selection_of(self.timeline_events, trace)
        timeline = TraceTimeline(trace)
        timeline.select(selection)
        chosen = selection.events()
        if len(chosen):
            start, end = chosen["start_ns"], chosen["start_ns"] + chosen["dur_ns"]
            timeline.zoom_to(int(start.min()), max(int(end.max()), int(start.min()) + 1))
        if save_path is not None:
            timeline.save_html(save_path)
        if in_notebook():
            from IPython.display import display  # noqa: PLC0415 - only present in notebooks

            display(timeline)  # type: ignore[no-untyped-call]
        return timeline


def plot_timeline_gpu_kernels(
    title: str,
    df: pd.DataFrame,
    symbol_table: TraceSymbolTable,
    ranks: Iterable[int] | None = None,
    iterations: Iterable[int] | None = None,
    streams: Iterable[int] | None = None,
    duration_threshold: int = 1000,
) -> TraceTimeline | None:
    """Show the device events of a frame in the timeline of their trace, which must still exist.

    Events of several ranks need the column ``rank``. `title` and `duration_threshold` are ignored.
    """
    events = df[df["stream"] >= 0]
    for column, chosen in (("rank", ranks), ("iteration", iterations), ("stream", streams)):
        if chosen is not None and column in events.columns:
            events = events[events[column].isin(list(chosen))]
    return Timeline(events, symbol_table).plot(title)


def plot_timeline_gpu_kernels_from_trace(
    title: str,
    trace_data: Trace,
    ranks: Iterable[int] | None = None,
    iterations: Iterable[int] | None = None,
    streams: Iterable[int] | None = None,
    duration_threshold: int = 1000,
) -> TraceTimeline | None:
    """Show the device events of a trace in its timeline; see `plot_timeline_gpu_kernels`."""
    chosen = trace_data.get_ranks() if ranks is None else list(ranks)
    events = pd.concat([trace_data.get_trace(rank).assign(rank=rank) for rank in chosen])
    return plot_timeline_gpu_kernels(
        title, events, trace_data.symbol_table, None, iterations, streams
    )


def _selection_of(events: pd.DataFrame, trace: Trace) -> Selection:
    """Return events as a selection; without ``rank``, of the first rank that has them all."""
    if "rank" in events.columns:
        ids: list[tuple[int, int]] = []
        for rank in events["rank"].unique().tolist():
            ids += _ids(events[events["rank"] == rank], trace, rank) or []
        return trace.select(ids=ids)
    for rank in trace.ranks:
        found = _ids(events, trace, rank)
        if found is not None:
            return trace.select(ids=found)
    raise TraceError(
        "the events are of several ranks, or not of this trace", remedy="Keep the column 'rank'."
    )


def _ids(events: pd.DataFrame, trace: Trace, rank: int) -> list[tuple[int, int]] | None:
    """Return the ids of a rank's events; None if it lacks any, by place in the file and name."""
    table = trace[rank].table
    order = np.argsort(table.record, kind="stable")
    place = events["index"].to_numpy(dtype=np.int64)
    at = np.searchsorted(table.record[order], place)
    if len(place) and at.max() >= len(order):
        return None
    rows = order[at]
    if not np.array_equal(table.record[rows], place):
        return None
    if events["name"].dtype.kind == "i":
        numbers = symbol_numbers(trace.symbol_table, table.names.values)[table.name[rows]]
        if not np.array_equal(numbers, events["name"].to_numpy()):
            return None
    return [(rank, row) for row in rows.tolist()]


def align_module_with_kernels(
    events_df: pd.DataFrame,
    module_list: Sequence[str],
    sym_table: TraceSymbolTable | None = None,
    include_original_cpu_events: bool = False,
) -> pd.DataFrame:
    """Return device events, and host ranges as long as the device events that they launched.

    Ranges are the events whose names start with a match of `module_list`. They are on stream -2,
    from the start of their first to the end of their last device event. `events_df` needs the
    columns of a `CallGraph`, and `sym_table` if its names are numbers.
    """
    needed = {"num_kernels", "first_kernel_start", "kernel_span"}
    if not needed <= set(events_df.columns):
        raise TraceError(
            f"the frame has no columns {sorted(needed - set(events_df.columns))}",
            remedy="Make a CallGraph of its trace first.",
        )
    ranges = events_df[(events_df["stream"] == -1) & (events_df["num_kernels"] > 0)]
    if sym_table is not None and events_df["name"].dtype.kind == "i":
        wanted = find_events_by_name_patterns_using_symbol_table(ranges, module_list, sym_table)
    else:
        column, _ = get_symbol_column_names(events_df)
        if not column:
            raise TraceError(
                "the frame has no names as text, in column `name` or `s_name`",
                remedy="Give the sym_table of its trace, or decode the frame with it.",
            )
        wanted = find_events_by_name_patterns_using_decoded_names(ranges, module_list, column)
    ranges = ranges[ranges["index"].isin(wanted)]
    ranges = ranges.assign(
        ts=ranges["first_kernel_start"],
        dur=ranges["kernel_span"],
        end=ranges["first_kernel_start"] + ranges["kernel_span"],
        stream=ANNOTATION_STREAM,
    )
    rest = events_df["stream"] >= (-1 if include_original_cpu_events else 0)
    return pd.concat([events_df[rest], ranges], ignore_index=True)
