"""Charts of MPI's analyses."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import pandas as pd

from hta_widgets.analysis.frames import require_columns
from hta_widgets.arguments import Positive
from hta_widgets.charts.chart import chart, defines
from hta_widgets.charts.data import takes_panel
from hta_widgets.charts.rows import Bars, Column, Tooltip, time_ticks
from hta_widgets.charts.theme import Theme
from hta_widgets.formats.mpi.frames import by_routine, by_size
from hta_widgets.text import duration, size_range

Measure = Literal["calls", "time", "bytes"]

_TOP = 16


@defines(
    "mpi_sizes",
    *("job", "routine", "size_lo", "size_hi", "calls", "time_s", "bytes"),
)
def mpi_message_sizes(
    frame: pd.DataFrame, *, measure: Measure = "calls", routines: pd.DataFrame | None = None
) -> pd.DataFrame:
    """Draw the message sizes of each routine, by calls, by time or by bytes.

    Parameters
    ----------
    measure : {"calls", "time", "bytes"}, default "calls"
        Look at all three: small messages are most of the calls and few of the bytes.
    routines : DataFrame, optional
        Result of `hta_widgets.analysis.mpi_routines`; adds routines whose messages have no size.

    Returns
    -------
    bokeh.plotting.figure
        One row per routine and one column per size, shaded by the share of all. Raises a
        ``ValueError`` for an unknown measure.
    """
    plain = frame[["job", "routine"]].iloc[:0].assign(calls=0, time_s=0.0, bytes=0.0)
    if routines is not None:
        needs = ("job", "routine", "calls", "time_s", "bytes")
        require_columns(routines, "Give the frame of hta_widgets.analysis.mpi_routines.", needs)
    data = by_size(frame, plain if routines is None else routines)
    data.attrs = {**frame.attrs, "measure": measure}
    return data


@defines(
    "mpi_routines",
    *("job", "routine", "rank", "calls", "time_s", "bytes", "is_io"),
)
def mpi_routines(frame: pd.DataFrame, *, top: Positive = _TOP) -> pd.DataFrame:
    """Draw the mean time of each routine over the ranks, with the minimum and the maximum.

    Parameters
    ----------
    top : int, default 16
        Number of routines.
    """
    data = by_routine(frame)
    data.attrs = {**frame.attrs, "top": top}
    return data


@chart(
    "Two runs: time in MPI per rank",
    *("routine", "before_time_s", "after_time_s", "diff_time_s", "before_calls", "after_calls"),
)
def mpi_compare(frame: pd.DataFrame, theme: Theme, *, top: Positive = _TOP) -> dict[str, Any]:
    """Draw the difference in time of each routine and size between two runs.

    Parameters
    ----------
    top : int, default 16
        Number of rows, those that differ most.

    Returns
    -------
    bokeh.plotting.figure
        One bar per routine and size: to the left if the second run takes less time, to the right
        if it takes more.
    """
    data = frame[:top].reset_index(drop=True)
    diff = data["diff_time_s"].to_numpy(float) * 1e9
    data["left"], data["right"] = np.minimum(diff, 0), np.maximum(diff, 0)
    data["fill"] = np.where(diff < 0, theme.delta[1], theme.delta[5])
    data["before_ns"], data["after_ns"] = data["before_time_s"] * 1e9, data["after_time_s"] * 1e9
    data["diff"] = [f"{'+' if each > 0 else ''}{duration(each)}" for each in diff]
    most = float(np.abs(diff).max()) or 1.0
    data["name"] = data["routine"].astype(str)
    if {"size_lo", "size_hi"} <= set(data.columns):
        data["name"] = [
            f"{name} · {size_range(low, high)}" if high >= 0 else name
            for name, low, high in zip(data["name"], data["size_lo"], data["size_hi"], strict=True)
        ]
    total = float(frame["diff_time_s"].sum()) * 1e9
    calls = "{before_calls:count} → {after_calls:count}"
    return {
        "data": data,
        "names": "{name}",
        "marks": [Bars("left", "right", "@fill")],
        "x_start": -most * 1.02,
        "x_end": most * 1.02,
        "subtitle": [
            "after less before, means over the ranks with tables of routines",
            f"in all {'+' if total > 0 else ''}{duration(total)}",
        ],
        "note": str(frame.attrs.get("note", "")),
        "head": "routine · size",
        "ticks": time_ticks(most, 2, -most),
        "columns": [Column("calls", calls, 420), Column("time", "{diff}")],
        "legend": [],
        "zero_line": True,
        "tooltip": Tooltip(
            "{name}",
            [
                ("before", "{before_ns:duration}"),
                ("after", "{after_ns:duration}"),
                ("difference", "{diff}"),
                ("calls", calls),
            ],
        ),
    }


@defines("mpi_ranks", takes=takes_panel("mpi_ranks"))
def mpi_ranks(frame: pd.DataFrame) -> pd.DataFrame:
    """Draw each rank's elapsed time as compute and communication, the least communication last.

    Parameters
    ----------
    frame : DataFrame, TraceSet, Trace or Selection
        Result of `hta_widgets.analysis.mpi_ranks`, or a dashboard's panel of that name.

    Returns
    -------
    bokeh.plotting.figure
        One bar per rank, sorted by the share of communication; several hosts are sorted by their
        mean share, and their ranks are together. Ranks that the others wait for are marked: for
        traces, those that a dashboard names; for a frame, those in its column ``is_straggler``.
    """
    return frame
