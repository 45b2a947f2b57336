"""Charts of MPI's analyses."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import pandas as pd

from hta_widgets.charts.data import draws, draws_panel, ramp, require_measure
from hta_widgets.charts.defined import defines
from hta_widgets.charts.rows import (
    Bars,
    Column,
    Tooltip,
    add_times,
    defines_rows,
    stacked,
    time_ticks,
)
from hta_widgets.charts.theme import Theme
from hta_widgets.formats.mpi.frames import by_routine, by_size
from hta_widgets.text import binary_size, count, duration, share, size, size_range

Measure = Literal["calls", "time", "bytes"]

_SHADES = 32
_TOP = 16


@defines_rows(
    draws("mpi_message_sizes"),
    "Message sizes",
    *("job", "routine", "size_lo", "size_hi", "calls", "time_s", "bytes"),
)
def mpi_message_sizes(
    frame: pd.DataFrame,
    theme: Theme,
    *,
    measure: Measure = "calls",
    routines: pd.DataFrame | None = None,
) -> dict[str, Any]:
    """Draw the message sizes of each routine, by calls, by time or by bytes.

    Parameters
    ----------
    measure : {"calls", "time", "bytes"}, default "calls"
        Look at all three: small messages are most of the calls and few of the bytes.
    routines : DataFrame, optional
        Of `hta_widgets.analysis.mpi_routines`; adds routines whose messages have no size.

    Returns
    -------
    bokeh.plotting.figure
        One row per routine and one column per size, shaded by the share of all. Raises a
        ``ValueError`` for an unknown measure.
    """
    require_measure(measure, ("calls", "time", "bytes"))
    plain = frame[["job", "routine"]].iloc[:0].assign(calls=0, time_s=0.0, bytes=0.0)
    data = by_size(frame, plain if routines is None else routines)
    values = data["time_s" if measure == "time" else measure].to_numpy(float)
    several = len(set(data["job"])) > 1
    names = _names(data, several=several)
    rows = list(dict.fromkeys(names))
    highs = sorted(set(data["size_hi"].tolist()))
    data["row"] = [rows.index(name) for name in names]
    data["left_cell"] = np.searchsorted(highs, data["size_hi"]) + 0.04
    data["right_cell"] = data["left_cell"] + 0.92
    of_job = pd.Series(values).groupby(data["job"]).transform("sum").to_numpy()
    part = np.divide(values, of_job, out=np.zeros(len(values)), where=of_job > 0)
    stops = np.array(ramp(theme.busy, _SHADES))
    data["fill"] = stops[np.ceil(part / max(part.max(), 1e-300) * (_SHADES - 1)).astype(int)]
    _add_amounts(data)
    data["time_text"] = [duration(each * 1e9) for each in data["time_s"]]
    for name in ("calls", "time", "bytes"):
        data[f"{name}_share"] = [share(each) for each in data[f"share_of_{name}"]]
    data["size_text"] = [
        size_range(low, high) for low, high in zip(data["size_lo"], data["size_hi"], strict=True)
    ]
    sums = pd.Series(values).groupby(data["row"]).sum()
    words = {"calls": count, "time": lambda seconds: duration(seconds * 1e9), "bytes": size}
    most = int(part.argmax())
    largest = f"{share(part[most])} are {names[most]} of {data['size_text'][most]}"
    return {
        "data": data,
        "names": rows,
        "marks": [Bars("left_cell", "right_cell", "@fill")],
        "x_end": float(len(highs)),
        "title_by": f", by {measure}",
        "subtitle": [
            f"{measure} by routine and size of one message, all ranks with tables together",
            "shares are of each job's own" if several else "",
            largest if values.sum() else "",
        ],
        "head": "routine",
        "ticks": [(place + 0.5, binary_size(high)) for place, high in enumerate(highs)],
        "columns": [Column("total", [words[measure](sums[row]) for row in range(len(rows))])],
        "tooltip": Tooltip(
            "@{name} · @{size_text}",
            [
                ("calls", "@{calls_text} · @{calls_share} of the routine's"),
                ("time", "@{time_text} · @{time_share}"),
                ("bytes", "@{bytes_text} · @{bytes_share}"),
            ],
        ),
        "legend": [],
    }


def _names(data: pd.DataFrame, *, several: bool) -> list[str]:
    """Return the routines, with their job if there are several."""
    if not several:
        return [str(name) for name in data["name"]]
    return [f"{job} · {name}" for job, name in zip(data["job"], data["name"], strict=True)]


def _add_amounts(data: pd.DataFrame) -> None:
    data["calls_text"] = [count(each) for each in data["calls"]]
    data["bytes_text"] = [size(each) for each in data["bytes"]]


@defines(
    draws("mpi_routines"),
    "mpi_routines",
    *("job", "routine", "rank", "calls", "time_s", "bytes", "is_io"),
)
def mpi_routines(frame: pd.DataFrame, *, top: int = _TOP) -> pd.DataFrame:
    """Draw the mean time of each routine over the ranks, with the minimum and the maximum.

    Parameters
    ----------
    top : int, default 16
        Number of routines.
    """
    data = by_routine(frame)
    data.attrs = {**frame.attrs, "top": top}
    return data


@defines_rows(
    draws("mpi_compare"),
    "Two runs: time in MPI per rank",
    *("routine", "before_time_s", "after_time_s", "diff_time_s", "before_calls", "after_calls"),
)
def mpi_compare(frame: pd.DataFrame, theme: Theme, *, top: int = _TOP) -> dict[str, Any]:
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
    add_times(data, before=data["before_time_s"] * 1e9, after=data["after_time_s"] * 1e9)
    data["diff"] = [f"{'+' if each > 0 else ''}{duration(each)}" for each in diff]
    data["calls"] = [
        f"{count(before)} → {count(after)}"
        for before, after in zip(data["before_calls"], data["after_calls"], strict=True)
    ]
    most = float(np.abs(diff).max()) or 1.0
    data["name"] = data["routine"].astype(str)
    if {"size_lo", "size_hi"} <= set(data.columns):
        data["name"] = [
            f"{name} · {size_range(low, high)}" if high >= 0 else name
            for name, low, high in zip(data["name"], data["size_lo"], data["size_hi"], strict=True)
        ]
    total = float(frame["diff_time_s"].sum()) * 1e9
    return {
        "data": data,
        "names": list(data["name"]),
        "marks": [Bars("left", "right", "@fill")],
        "x_start": -most * 1.02,
        "x_end": most * 1.02,
        "subtitle": [
            "after less before, means over the ranks with tables of routines",
            f"in all {'+' if total > 0 else ''}{duration(total)}",
        ],
        "head": "routine · size",
        "ticks": time_ticks(most, 2, -most),
        "columns": [Column("calls", list(data["calls"]), 420), Column("time", list(data["diff"]))],
        "legend": [],
        "zero_line": True,
        "tooltip": Tooltip(
            "@{name}",
            [
                ("before", "@{before}"),
                ("after", "@{after}"),
                ("difference", "@{diff}"),
                ("calls", "@{calls}"),
            ],
        ),
    }


@defines_rows(
    draws_panel("mpi_ranks"),
    "Time in MPI, by rank",
    *("job", "rank", "host", "comm_s", "noncomm_s", "elapsed_s", "comm_share"),
)
def mpi_ranks(frame: pd.DataFrame, theme: Theme) -> dict[str, Any] | str:
    """Draw each rank's elapsed time as compute and communication, the least communication last.

    Parameters
    ----------
    frame : DataFrame, TraceSet, Trace or Selection
        Of `hta_widgets.analysis.mpi_ranks`, or a dashboard's panel of that name.

    Returns
    -------
    bokeh.plotting.figure
        One bar per rank, sorted by the share of communication; several hosts are sorted by their
        mean share, and their ranks are together. Ranks that the others wait for are marked: for
        traces, those that a dashboard names; for a frame, those in its column ``is_straggler``.
    """
    data = frame[frame["comm_s"].notna() & frame["elapsed_s"].notna()].reset_index(drop=True)
    if data.empty:
        return ""
    by_host = data.groupby(["job", "host"])["comm_share"].transform("mean")
    order = np.lexsort((data["rank"], -data["comm_share"], data["host"], -by_host, data["job"]))
    data = data.iloc[order].reset_index(drop=True)
    late = data.get("is_straggler", pd.Series(False, data.index)).to_numpy(bool)
    compute, comm = data["noncomm_s"] * 1e9, data["comm_s"] * 1e9
    marks, ends = stacked(
        data,
        [
            ("compute", "outside of MPI", compute),
            ("communication", "in MPI", np.where(late, 0, comm)),
            ("late", "in MPI: waited for", np.where(late, comm, 0)),
        ],
        theme,
    )
    add_times(data, compute_text=compute, comm_text=comm, elapsed_text=data["elapsed_s"] * 1e9)
    data["share_text"] = [share(each) for each in data["comm_share"]]
    jobs, hosts = len(set(data["job"])) > 1, data.groupby("job")["host"].nunique().max() > 1
    names = [
        " · ".join(filter(None, [job if jobs else "", host if hosts else "", f"rank {rank}"]))
        for job, host, rank in zip(data["job"], data["host"], data["rank"], strict=True)
    ]
    others = data.groupby("job")["rank"].transform("size") - 1
    waits = [
        f"rank {rank} has the least time in MPI: the other {number} wait for it"
        for rank, number in zip(data["rank"][late], others[late], strict=True)
    ]
    return {
        "data": data,
        "names": names,
        "marks": marks,
        "end_ns": max(ends),
        "x_end": max(ends) * 1.01 or 1.0,
        "note": "",
        "subtitle": ["elapsed time; outside of MPI is at most what was computed", "; ".join(waits)],
        "head": "rank",
        "columns": [
            Column("in MPI", list(data["share_text"])),
            Column("elapsed", list(data["elapsed_text"]), 420),
        ],
        "tooltip": Tooltip(
            "rank @{rank} · @{host}",
            [
                ("outside of MPI", "@{compute_text}"),
                ("in MPI", "@{comm_text} · @{share_text}"),
                ("elapsed", "@{elapsed_text}"),
            ],
        ),
    }
