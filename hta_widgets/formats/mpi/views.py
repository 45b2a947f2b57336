"""Charts of MPI's analyses."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import pandas as pd

from hta_widgets.arguments import Positive, check_arguments
from hta_widgets.charts.data import ChartSource, analysis_frame, panel_frame, require_columns_of
from hta_widgets.charts.defined import draw_definition
from hta_widgets.charts.figure import FigureStyle, empty_figure
from hta_widgets.charts.rows import Bars, Column, RowsContent, Scale, Tooltip, draw_rows, time_ticks
from hta_widgets.charts.theme import Theme, ThemeName, theme_of
from hta_widgets.formats.mpi.frames import by_routine, by_size
from hta_widgets.text import duration, size_range

Measure = Literal["calls", "time", "bytes"]

_TOP = 16


@check_arguments
def mpi_message_sizes(
    frame: ChartSource,
    *,
    measure: Measure = "calls",
    routines: pd.DataFrame | None = None,
    width: Positive | None = None,
    theme: ThemeName | Theme = "light",
    title: str = "Message sizes",
    **options: Any,
) -> Any:
    """Draw the message sizes of each routine, by calls, by time or by bytes.

    Parameters
    ----------
    frame : DataFrame, TraceSet, Trace or Selection
        Result of `hta_widgets.analysis.mpi_message_sizes`.
    measure : {"calls", "time", "bytes"}, default "calls"
        Compare all three measures: small messages are most of the calls but few of the bytes.
    routines : DataFrame, optional
        Result of `hta_widgets.analysis.mpi_routines`, to add routines whose messages have no size.
    width, theme, title : int, {"light", "dark"} or Theme, and str, optional
        Width in CSS px. Default: the width of the output area.
    **options
        Arguments passed to the analysis. Only valid if `frame` is not a DataFrame.

    Returns
    -------
    bokeh.plotting.figure
        One row per routine and one column per size, shaded by share of the total. Raises
        ``ValueError`` if the measure is unknown.

    Examples
    --------
    >>> charts.mpi_message_sizes(analysis.mpi_message_sizes(traces))  # doctest: +SKIP
    """
    columns = "job routine size_lo size_hi calls time_s bytes"
    frame = analysis_frame("mpi_message_sizes", frame, options, columns)
    if routines is not None:
        require_columns_of(routines, "analysis.mpi_routines", "job routine calls time_s bytes")
    if len(frame):
        if routines is None:
            routines = frame[["job", "routine"]].iloc[:0].assign(calls=0, time_s=0.0, bytes=0.0)
        frame = by_size(frame, routines)
        frame.attrs["measure"] = measure
    return draw_definition("mpi_sizes", frame, width, theme, title)


@check_arguments
def mpi_routines(
    frame: ChartSource,
    *,
    top: Positive = _TOP,
    width: Positive | None = None,
    theme: ThemeName | Theme = "light",
    title: str = "Routines by rank",
    **options: Any,
) -> Any:
    """Draw each routine's mean time over the ranks, with minimum and maximum.

    Parameters
    ----------
    frame : DataFrame, TraceSet, Trace or Selection
        Result of `hta_widgets.analysis.mpi_routines`.
    top : int, default 16
        Number of routines.
    width, theme, title : int, {"light", "dark"} or Theme, and str, optional
        Width in CSS px. Default: the width of the output area.
    **options
        Arguments passed to the analysis. Only valid if `frame` is not a DataFrame.

    Returns
    -------
    bokeh.plotting.figure

    Examples
    --------
    >>> charts.mpi_routines(analysis.mpi_routines(traces))  # doctest: +SKIP
    """
    columns = "job routine rank calls time_s bytes is_io"
    frame = analysis_frame("mpi_routines", frame, options, columns)
    if len(frame):
        frame = by_routine(frame)
        frame.attrs["top"] = top
    return draw_definition("mpi_routines", frame, width, theme, title)


@check_arguments
def mpi_compare(
    frame: ChartSource,
    *,
    top: Positive = _TOP,
    width: Positive | None = None,
    theme: ThemeName | Theme = "light",
    title: str = "Two runs: time in MPI per rank",
    **options: Any,
) -> Any:
    """Draw the difference in time of each routine and size between two runs.

    Parameters
    ----------
    frame : DataFrame, TraceSet, Trace or Selection
        Result of `hta_widgets.analysis.mpi_compare`.
    top : int, default 16
        Number of rows; the largest differences come first.
    width, theme, title : int, {"light", "dark"} or Theme, and str, optional
        Width in CSS px. Default: the width of the output area.
    **options
        Arguments passed to the analysis. Only valid if `frame` is not a DataFrame.

    Returns
    -------
    bokeh.plotting.figure
        One bar per routine and size. Bars to the left mean that the second run takes less time, and
        bars to the right that it takes more.

    Examples
    --------
    >>> charts.mpi_compare(analysis.mpi_compare(traces))  # doctest: +SKIP
    """
    columns = "routine before_time_s after_time_s diff_time_s before_calls after_calls"
    frame = analysis_frame("mpi_compare", frame, options, columns)
    theme = theme_of(theme)
    style = FigureStyle(title, theme, width)
    if frame.empty:
        return empty_figure(frame, style)
    data = _compared_rows(frame[:top], theme)
    largest = float(max(data["right"].max(), -data["left"].min())) or 1.0
    total = float(frame["diff_time_s"].sum()) * 1e9
    calls = "{before_calls:count} → {after_calls:count}"
    return draw_rows(
        RowsContent(
            data=data,
            names="{name}",
            marks=[Bars("left", "right", "fill")],
            scale=Scale(
                largest * 1.02,
                start=-largest * 1.02,
                ticks=time_ticks(largest, 2, -largest),
                zero_line=True,
            ),
            head="routine · size",
            columns=[Column("calls", calls, 420), Column("time", "{diff}")],
            legend=[],
            tooltip=Tooltip(
                "{name}",
                [
                    ("before", "{before_ns:duration}"),
                    ("after", "{after_ns:duration}"),
                    ("difference", "{diff}"),
                    ("calls", calls),
                ],
            ),
        ),
        style.with_subtitle(
            "after less before, means over the ranks with tables of routines",
            f"in all {'+' if total > 0 else ''}{duration(total)}",
            str(frame.attrs.get("note", "")),
        ),
    )


def _compared_rows(compared: pd.DataFrame, theme: Theme) -> pd.DataFrame:
    """Return rows of `analysis.mpi_compare` with labels, bars and times in ns."""
    rows = compared.reset_index(drop=True)
    rows["before_ns"], rows["after_ns"] = rows["before_time_s"] * 1e9, rows["after_time_s"] * 1e9
    diff_ns = rows["diff_time_s"].to_numpy(float) * 1e9
    rows["left"], rows["right"] = np.minimum(diff_ns, 0), np.maximum(diff_ns, 0)
    rows["fill"] = np.where(diff_ns < 0, theme.delta[1], theme.delta[5])
    rows["diff"] = [f"{'+' if ns > 0 else ''}{duration(ns)}" for ns in diff_ns]
    rows["name"] = rows["routine"].astype(str)
    if {"size_lo", "size_hi"} <= set(rows.columns):
        rows["name"] = [
            f"{name} · {size_range(low, high)}" if high >= 0 else name
            for name, low, high in zip(rows["name"], rows["size_lo"], rows["size_hi"], strict=True)
        ]
    return rows


@check_arguments
def mpi_ranks(
    frame: ChartSource,
    *,
    width: Positive | None = None,
    theme: ThemeName | Theme = "light",
    title: str = "Time in MPI",
) -> Any:
    """Draw each rank's elapsed time as compute and communication, ordered by communication share.

    Parameters
    ----------
    frame : DataFrame, TraceSet, Trace or Selection
        Result of `hta_widgets.analysis.mpi_ranks`, or a dashboard's panel of that name.
    width, theme, title : int, {"light", "dark"} or Theme, and str, optional
        Width in CSS px. Default: the width of the output area.

    Returns
    -------
    bokeh.plotting.figure
        One bar per rank, in descending order of communication share. Several hosts are ordered by
        their mean share, with their ranks together. Ranks for which others wait are marked: for
        traces, the ranks that a dashboard names; for a frame, those flagged in ``is_straggler``.

    Examples
    --------
    >>> charts.mpi_ranks(analysis.mpi_ranks(traces))  # doctest: +SKIP
    """
    frame = panel_frame("mpi_ranks", frame, "mpi_ranks")
    return draw_definition("mpi_ranks", frame, width, theme, title)
