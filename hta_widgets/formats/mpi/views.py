"""Panels, headline and charts of MPI."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import pandas as pd

from hta_widgets.charts.data import draws, draws_panel, ramp, require, require_measure
from hta_widgets.charts.figure import blank, sentences
from hta_widgets.charts.rows import (
    Bars,
    Column,
    Tooltip,
    Whiskers,
    note_of,
    rows_chart,
    stacked,
    time_ticks,
)
from hta_widgets.charts.theme import Theme, theme_of
from hta_widgets.formats.mpi.frames import by_routine, by_size
from hta_widgets.text import (
    binary_size,
    count,
    duration,
    plural,
    share,
    size,
    size_range,
)

Measure = Literal["calls", "time", "bytes"]

_SHADES = 32
_TOP = 16
_SIZE = ("job", "routine", "size_lo", "size_hi", "calls", "time_s", "bytes")
_CHANGE = ("routine", "before_time_s", "after_time_s", "diff_time_s", "before_calls", "after_calls")


@draws("mpi_message_sizes")
def mpi_message_sizes(
    frame: pd.DataFrame,
    *,
    measure: Measure = "calls",
    routines: pd.DataFrame | None = None,
    width: int | None = None,
    theme: str | Theme = "light",
    title: str = "Message sizes",
) -> Any:
    """Draw which routine moves messages of which size: by calls, by time or by bytes.

    Parameters
    ----------
    frame : DataFrame, TraceSet, Trace or Selection
        Of `hta_widgets.analysis.mpi_message_sizes`.
    measure : {"calls", "time", "bytes"}, default "calls"
        Look at all three: small messages are most of the calls and none of the bytes.
    routines : DataFrame, optional
        Of `hta_widgets.analysis.mpi_routines`: routines whose messages have no size are drawn too.
    width, theme, title
        As of `mpi_ranks`.

    Returns
    -------
    bokeh.plotting.figure
        A row a routine and a column a size, shaded by the share of all.

    Raises
    ------
    ValueError
        For an unknown measure.

    Examples
    --------
    >>> sizes = analysis.mpi_message_sizes(traces)  # doctest: +SKIP
    >>> charts.mpi_message_sizes(sizes, measure="time")  # doctest: +SKIP
    """
    require_measure(measure, ("calls", "time", "bytes"))
    colors = theme_of(theme)
    if frame.empty:
        return blank(frame, title, colors, width)
    require(frame, "mpi_message_sizes", *_SIZE)
    plain = pd.DataFrame({name: frame[name].iloc[:0] for name in ("job", "routine")})
    plain = plain.assign(calls=0, time_s=0.0, bytes=0.0)
    data = by_size(frame, plain if routines is None else routines)
    values = data["time_s" if measure == "time" else measure].to_numpy(float)
    total = float(values.sum())
    several = len(set(data["job"])) > 1
    names = [
        f"{job} · {name}" if several else str(name)
        for job, name in zip(data["job"], data["name"], strict=True)
    ]
    rows = list(dict.fromkeys(names))
    highs = sorted(set(data["size_hi"].tolist()))
    at = {high: place for place, high in enumerate(highs)}
    data["row"] = [rows.index(name) for name in names]
    data["left_cell"] = [at[high] + 0.04 for high in data["size_hi"]]
    data["right_cell"] = data["left_cell"] + 0.92
    of_job = pd.Series(values).groupby(data["job"]).transform("sum").to_numpy()
    part = np.divide(values, of_job, out=np.zeros(len(values)), where=of_job > 0)
    stops = np.array(ramp(colors.busy, _SHADES))
    data["fill"] = stops[np.ceil(part / max(part.max(), 1e-300) * (_SHADES - 1)).astype(int)]
    data["calls_text"] = [count(each) for each in data["calls"]]
    data["time_text"] = [duration(each * 1e9) for each in data["time_s"]]
    data["bytes_text"] = [size(each) for each in data["bytes"]]
    for name in ("calls", "time", "bytes"):
        data[f"{name}_share"] = [share(each) for each in data[f"share_of_{name}"]]
    data["size_text"] = [
        size_range(low, high) for low, high in zip(data["size_lo"], data["size_hi"], strict=True)
    ]
    sums = pd.Series(values).groupby(data["row"]).sum()
    word = {
        "calls": count,
        "time": lambda seconds: duration(seconds * 1e9),
        "bytes": size,
    }[measure]
    most = int(part.argmax())
    return rows_chart(
        data,
        rows,
        [Bars("left_cell", "right_cell", "@fill")],
        x_end=float(len(highs)),
        title=f"{title}, by {measure}",
        subtitle=sentences(
            f"{measure} by routine and size of one message, all ranks with tables together",
            "shares are of each job's own" if several else "",
            f"{share(part[most])} are {names[most]} of {data['size_text'][most]}" if total else "",
            note_of(frame),
        ),
        theme=colors,
        width=width,
        head="routine",
        ticks=[(place + 0.5, binary_size(high)) for place, high in enumerate(highs)],
        columns=[Column("total", [word(sums[row]) for row in range(len(rows))])],
        tooltip=Tooltip(
            "@{name} · @{size_text}",
            [
                ("calls", "@{calls_text} · @{calls_share} of the routine's"),
                ("time", "@{time_text} · @{time_share}"),
                ("bytes", "@{bytes_text} · @{bytes_share}"),
            ],
        ),
        legend=[],
    )


@draws("mpi_routines")
def mpi_routines(
    frame: pd.DataFrame,
    *,
    top: int = _TOP,
    width: int | None = None,
    theme: str | Theme = "light",
    title: str = "MPI routines over ranks",
) -> Any:
    """Draw the time in each routine, mean over ranks, with the least and the most of any rank.

    Parameters
    ----------
    frame : DataFrame, TraceSet, Trace or Selection
        Of `hta_widgets.analysis.mpi_routines`.
    top : int, default 16
        How many routines.
    width, theme, title
        As of `mpi_ranks`.

    Returns
    -------
    bokeh.plotting.figure

    Examples
    --------
    >>> charts.mpi_routines(analysis.mpi_routines(traces))  # doctest: +SKIP
    """
    colors = theme_of(theme)
    if frame.empty:
        return blank(frame, title, colors, width)
    require(frame, "mpi_routines", "job", "routine", "rank", "calls", "time_s", "bytes", "is_io")
    every = by_routine(frame)
    data = every[:top].copy()
    data["row"] = np.arange(len(data))
    data["right_communication"] = data["mean_s"] * 1e9
    data["left_communication"] = 0.0
    data["low"], data["high"] = data["min_s"] * 1e9, data["max_s"] * 1e9
    for name in ("mean", "min", "max"):
        data[f"{name}_text"] = [duration(each * 1e9) for each in data[f"{name}_s"]]
    data["calls_text"] = [count(each) for each in data["calls"]]
    data["bytes_text"] = [size(each) for each in data["bytes"]]
    data["share_text"] = [share(each) for each in data["share_of_time"]]
    most = float(data["high"].max())
    several = len(set(data["job"])) > 1
    ranks = int(data["ranks"].max())
    left = len(every) - len(data)
    return rows_chart(
        data,
        [
            f"{job} · {name}" if several else str(name)
            for job, name in zip(data["job"], data["name"], strict=True)
        ],
        [
            Bars(0.0, "right_communication", colors.kind["communication"], ""),
            *([Whiskers("low", "high", colors.ink)] if ranks > 1 else []),
        ],
        x_end=most * 1.02 or 1.0,
        title=title,
        subtitle=sentences(
            f"mean of {plural(ranks, 'rank')} with tables of routines; line: least to most of any"
            if ranks > 1
            else "of the one rank with a table of routines",
            f"{plural(left, 'routine')} with less time not shown" if left else "",
            note_of(frame),
        ),
        theme=colors,
        width=width,
        head="routine",
        ticks=time_ticks(most),
        columns=[
            Column("calls", list(data["calls_text"]), 420),
            Column("mean", list(data["mean_text"])),
        ],
        legend=[],
        tooltip=Tooltip(
            "@{name}",
            [
                ("mean of ranks", "@{mean_text}"),
                ("least", "@{min_text} · rank @{min_rank}"),
                ("most", "@{max_text} · rank @{max_rank}"),
                ("of all MPI time", "@{share_text}"),
                ("calls", "@{calls_text}"),
                ("bytes", "@{bytes_text}"),
            ],
        ),
    )


@draws("mpi_compare")
def mpi_compare(
    frame: pd.DataFrame,
    *,
    top: int = _TOP,
    width: int | None = None,
    theme: str | Theme = "light",
    title: str = "Two runs: time in MPI per rank",
) -> Any:
    """Draw by how much the time of each routine and size differs between two runs.

    Parameters
    ----------
    frame : DataFrame, TraceSet, Trace or Selection
        Of `hta_widgets.analysis.mpi_compare`.
    top : int, default 16
        How many rows, those that differ most.
    width, theme, title
        As of `mpi_ranks`.

    Returns
    -------
    bokeh.plotting.figure
        A bar a routine and size: to the left what the second run saves, to the right what it adds.

    Examples
    --------
    >>> charts.mpi_compare(analysis.mpi_compare(cpu, gpu))  # doctest: +SKIP
    """
    colors = theme_of(theme)
    if frame.empty:
        return blank(frame, title, colors, width)
    require(frame, "mpi_compare", *_CHANGE)
    data = frame[:top].reset_index(drop=True)
    data["row"] = np.arange(len(data))
    diff = data["diff_time_s"].to_numpy(float) * 1e9
    data["left"], data["right"] = np.minimum(diff, 0), np.maximum(diff, 0)
    data["fill"] = np.where(diff < 0, colors.delta[1], colors.delta[5])
    data["before"] = [duration(each * 1e9) for each in data["before_time_s"]]
    data["after"] = [duration(each * 1e9) for each in data["after_time_s"]]
    data["diff"] = [duration(each) if each <= 0 else f"+{duration(each)}" for each in diff]
    data["calls"] = [
        f"{count(one)} → {count(other)}"
        for one, other in zip(data["before_calls"], data["after_calls"], strict=True)
    ]
    most = float(np.abs(diff).max()) or 1.0
    names = [str(name) for name in data["routine"]]
    if {"size_lo", "size_hi"} <= set(data.columns):
        names = [
            f"{name} · {size_range(low, high)}" if high >= 0 else name
            for name, low, high in zip(names, data["size_lo"], data["size_hi"], strict=True)
        ]
    data["name"] = names
    total = float(frame["diff_time_s"].sum()) * 1e9
    return rows_chart(
        data,
        names,
        [Bars("left", "right", "@fill")],
        x_start=-most * 1.02,
        x_end=most * 1.02,
        title=title,
        subtitle=sentences(
            "after less before, means over the ranks with tables of routines",
            f"in all {'+' if total > 0 else ''}{duration(total)}",
            note_of(frame),
        ),
        theme=colors,
        width=width,
        head="routine · size",
        ticks=time_ticks(most, 2, -most),
        columns=[Column("calls", list(data["calls"]), 420), Column("time", list(data["diff"]))],
        legend=[],
        zero_line=True,
        tooltip=Tooltip(
            "@{name}",
            [
                ("before", "@{before}"),
                ("after", "@{after}"),
                ("difference", "@{diff}"),
                ("calls", "@{calls}"),
            ],
        ),
    )


_RANK = ("job", "rank", "host", "comm_s", "noncomm_s", "elapsed_s", "comm_share")


@draws_panel("mpi_ranks")
def mpi_ranks(
    frame: pd.DataFrame,
    *,
    width: int | None = None,
    theme: str | Theme = "light",
    title: str = "Time in MPI, by rank",
) -> Any:
    """Draw each rank's elapsed time as compute and communication, the least communication last.

    Parameters
    ----------
    frame : DataFrame, TraceSet, Trace or Selection
        Of `hta_widgets.analysis.mpi_ranks`, or a dashboard's panel of that name.
    width : int, optional
        In CSS pixels; by default what the page gives.
    theme : {"light", "dark"} or Theme, default "light"
    title : str

    Returns
    -------
    bokeh.plotting.figure
        A bar a rank, sorted by the share of communication, hosts together where there are several:
        the host whose ranks communicate most first. For whom the others wait is marked: of traces
        as a dashboard judges, of a frame where its column ``is_straggler`` says so.

    Examples
    --------
    >>> charts.mpi_ranks(traces)  # doctest: +SKIP
    """
    colors = theme_of(theme)
    if frame.empty:
        return blank(frame, title, colors, width)
    require(frame, "mpi_ranks", *_RANK)
    known = frame[frame["comm_s"].notna() & frame["elapsed_s"].notna()]
    if known.empty:
        return blank(frame, title, colors, width)
    data = _sorted(known)
    data["row"] = np.arange(len(data))
    late = data.get("is_straggler", pd.Series(False, data.index)).to_numpy(bool)
    compute, comm = data["noncomm_s"] * 1e9, data["comm_s"] * 1e9
    others, own = np.where(late, 0, comm), np.where(late, comm, 0)
    marks, ends = stacked(
        data,
        [
            ("compute", "outside of MPI", compute),
            ("communication", "in MPI", others),
            ("late", "in MPI: waited for", own),
        ],
        colors,
    )
    data["compute_text"] = [duration(each) for each in compute]
    data["comm_text"] = [duration(each) for each in comm]
    data["elapsed_text"] = [duration(each * 1e9) for each in data["elapsed_s"]]
    data["share_text"] = [share(each) for each in data["comm_share"]]
    jobs = data["job"].nunique()
    return rows_chart(
        data,
        _rank_names(data, jobs),
        marks,
        x_end=max(ends) * 1.01 or 1.0,
        title=title,
        subtitle=sentences(
            "elapsed time; outside of MPI is at most what was computed",
            _said(data, late),
        ),
        theme=colors,
        width=width,
        head="rank",
        ticks=time_ticks(max(ends)),
        columns=[
            Column("in MPI", list(data["share_text"])),
            Column("elapsed", list(data["elapsed_text"]), 420),
        ],
        tooltip=Tooltip(
            "rank @{rank} · @{host}",
            [
                ("outside of MPI", "@{compute_text}"),
                ("in MPI", "@{comm_text} · @{share_text}"),
                ("elapsed", "@{elapsed_text}"),
            ],
        ),
    )


def _sorted(frame: pd.DataFrame) -> pd.DataFrame:
    data = frame.reset_index(drop=True)
    by_host = data.groupby(["job", "host"])["comm_share"].transform("mean")
    order = np.lexsort((data["rank"], -data["comm_share"], data["host"], -by_host, data["job"]))
    return data.iloc[order].reset_index(drop=True)


def _rank_names(data: pd.DataFrame, jobs: int) -> list[str]:
    hosts = data.groupby("job")["host"].nunique().max() > 1
    return [
        " · ".join(
            part
            for part in (
                str(job) if jobs > 1 else "",
                str(host) if hosts else "",
                f"rank {rank}",
            )
            if part
        )
        for job, host, rank in zip(data["job"], data["host"], data["rank"], strict=True)
    ]


def _said(data: pd.DataFrame, late: Any) -> str:
    words = []
    for job, rank in zip(data["job"][late], data["rank"][late], strict=True):
        others = int((data["job"] == job).sum()) - 1
        words.append(f"rank {rank} has the least time in MPI: the other {others} wait for it")
    return "; ".join(words)
