"""HTA's plots of events over time: here they are our own timeline, with the events selected.

HTA draws the events that it is given as bars, short ones longer than they are. Here the whole
trace is shown, at any zoom, with these events selected and in view.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

import numpy as np
import pandas as pd

from hta_widgets.compat.common.trace import Trace, owner_of
from hta_widgets.compat.common.trace_df import (
    find_events_by_name_patterns_using_decoded_names,
    find_events_by_name_patterns_using_symbol_table,
)
from hta_widgets.compat.common.trace_symbol_table import TraceSymbolTable
from hta_widgets.compat.show import in_notebook
from hta_widgets.errors import TraceError
from hta_widgets.trace.selection import Selection
from hta_widgets.widgets.timeline import Timeline as TraceTimeline

__all__ = [
    "EventType",
    "PlotFormat",
    "Timeline",
    "TimelinePlotSetting",
    "align_module_with_kernels",
    "selection_of_frame",
    "show_timeline",
]

_logger = logging.getLogger("hta")

#: HTA's number for the stream of ranges that stand above the kernels that they launched.
ANNOTATION_STREAM = -2


class EventType(Enum):
    """Whose events HTA draws."""

    GPUEvents = 0
    CPUEvents = 1
    AllEvents = 2


class PlotFormat(Enum):
    """Where HTA's figure goes."""

    HTML = "html"
    Inline = "inline"
    File = "file"


@dataclass
class TimelinePlotSetting:
    """HTA's looks of a figure; accepted, without meaning here."""

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
    """Events of a frame, to be shown in the timeline of the trace that they are of.

    Parameters
    ----------
    timeline_events : DataFrame
        Of a `Trace`.
    symbol_table : TraceSymbolTable
        That of the trace, which must still be there.
    filter_func : callable, optional
        Called with both; returns the events to show.
    setting, hover_columns
        Without meaning here.
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
        """Show the timeline, and save it as a page if a path is given; return it.

        None, where there are no events, or the trace is not there.
        """
        del title
        return show_timeline(self.timeline_events, self.symbol_table, save_path)


def show_timeline(
    events: pd.DataFrame, symbol_table: TraceSymbolTable, save_path: str | None = None
) -> TraceTimeline | None:
    """Show the timeline of the trace that events are of, with these selected and in view."""
    trace = owner_of(symbol_table)
    if trace is None or events.empty:
        _logger.warning("no events to show" if trace else "the trace of these events is not there")
        return None
    selection = selection_of_frame(events, trace)
    timeline = TraceTimeline(trace)
    timeline.select(selection)
    chosen = selection.events()
    if len(chosen):
        start, end = chosen["start_ns"], chosen["start_ns"] + chosen["dur_ns"]
        timeline.zoom_to(int(start.min()), max(int(end.max()), int(start.min()) + 1))
    if save_path is not None:
        timeline.save_html(save_path)
    if in_notebook():
        from IPython.display import display  # noqa: PLC0415 - only there in notebooks

        display(timeline)  # type: ignore[no-untyped-call]
    return timeline


def selection_of_frame(events: pd.DataFrame, trace: Trace) -> Selection:
    """Return the events of a frame of HTA's form as a selection.

    A frame without a column ``rank`` is of the first rank that has all its events, by place in
    the file and name.
    """
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
    """Return the ids of a rank's events; None where it does not have them all."""
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
        numbers = trace.symbol_table.sym_index
        known = np.array([numbers.get(name, -1) for name in table.names.values], dtype=np.int64)
        if not np.array_equal(known[table.name[rows]], events["name"].to_numpy()):
            return None
    return [(rank, row) for row in rows.tolist()]


def align_module_with_kernels(
    events_df: pd.DataFrame,
    module_list: Sequence[str],
    sym_table: TraceSymbolTable | None = None,
    include_original_cpu_events: bool = False,
) -> pd.DataFrame:
    """Return device events, and host ranges as long as the device events that they launched.

    Parameters
    ----------
    events_df : DataFrame
        Of which a `CallGraph` was made.
    module_list : sequence of str
        Regular expressions; names that begin with a match are the ranges.
    sym_table : TraceSymbolTable, optional
        Where names are numbers.
    include_original_cpu_events : bool, default False
        Whether the host's events stay.

    Returns
    -------
    DataFrame
        The columns of `events_df`. Ranges are on stream -2, from the start of their first to the
        end of their last device event.
    """
    needed = {"num_kernels", "first_kernel_start", "kernel_span"}
    if not needed <= set(events_df.columns):
        raise TraceError(
            f"the frame has no columns {sorted(needed - set(events_df.columns))}",
            remedy="Make a CallGraph of its trace first.",
        )
    ranges = events_df[(events_df["stream"] == -1) & (events_df["num_kernels"] > 0)]
    if sym_table is not None and events_df["name"].dtype.kind == "i":
        wanted: Any = find_events_by_name_patterns_using_symbol_table(
            ranges, module_list, sym_table
        )
    else:
        texts = [
            name
            for name in ("name", "s_name")
            if name in events_df.columns and pd.api.types.is_string_dtype(events_df[name])
        ]
        if not texts:
            raise TraceError(
                "the frame has no names as text, in column `name` or `s_name`",
                remedy="Give the sym_table of its trace, or decode the frame with it.",
            )
        column = texts[0]
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
