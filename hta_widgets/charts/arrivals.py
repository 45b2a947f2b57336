"""When ranks come to collectives, over time, and how well their clocks agree on it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import pandas as pd

from hta_widgets.text import MINUS
from hta_widgets.text import axis_time
from hta_widgets.text import count
from hta_widgets.text import duration
from hta_widgets.text import duration_delta
from hta_widgets.text import plural

from hta_widgets.charts.across_ranks import columns_of
from hta_widgets.charts.across_ranks import last_often
from hta_widgets.charts.across_ranks import listed
from hta_widgets.charts.across_ranks import median_of
from hta_widgets.charts.across_ranks import thinned
from hta_widgets.charts.bokeh_modules import models
from hta_widgets.charts.canvas import add_tooltip
from hta_widgets.charts.canvas import blank
from hta_widgets.charts.canvas import new_figure
from hta_widgets.charts.canvas import sentences
from hta_widgets.charts.canvas import unmatched
from hta_widgets.charts.fitting import keep_fitting
from hta_widgets.charts.frames import draws
from hta_widgets.charts.frames import require
from hta_widgets.charts.lanes import time_axis
from hta_widgets.charts.rows import NAMED_ROWS
from hta_widgets.charts.rows import Bars
from hta_widgets.charts.rows import Column
from hta_widgets.charts.rows import Dots
from hta_widgets.charts.rows import Tooltip
from hta_widgets.charts.rows import Whiskers
from hta_widgets.charts.rows import brush
from hta_widgets.charts.rows import legend_of
from hta_widgets.charts.rows import nice_ticks
from hta_widgets.charts.rows import rows_chart
from hta_widgets.charts.theme import Theme
from hta_widgets.charts.theme import theme_of

__all__ = ["arrivals", "clock_offsets"]

#: More dots than this are drawn as the latest of each cell of a grid.
_MOST_DOTS = 20_000
_COLUMNS, _ROWS = 200, 48
_HEIGHT = 200


@draws("collectives")
def arrivals(
    frame: pd.DataFrame,
    *,
    late: Iterable[int] | None = None,
    width: int | None = None,
    theme: str | Theme = "light",
    title: str = "How late each rank arrives",
) -> Any:
    """Draw over time how late ranks come to collectives, against the median of each collective.

    Parameters
    ----------
    frame : DataFrame, TraceSet, Trace or Selection
        Of `hta_widgets.analysis.collectives`; on a clock that ranks share, or the spread is that
        of the clocks.
    late : iterable of int, optional
        Ranks to draw in red, such as those that `hta_widgets.analysis.stragglers` names. By default
        dark, as that is no judgement: a rank that comes last, alone, to more than half of its
        collectives and for which more than half of all the waiting is done.
    width : int, optional
        In CSS pixels; by default what the page gives.
    theme : {"light", "dark"} or Theme, default "light"
    title : str

    Returns
    -------
    bokeh.plotting.figure
        A dot a collective and rank; its source has the frame's rows and ``late_ns``. Above 20 000
        dots one of each cell of a fine grid is kept, and the latest at any time; the chart says so.

    Examples
    --------
    >>> charts.arrivals(analysis.collectives(traces))  # doctest: +SKIP
    """
    colors = theme_of(theme)
    if frame.empty:
        return blank(frame, title, colors, width)
    needed = ("rank", "collective", "arrival_ns", "wait_ns", "last_rank")
    require(frame, "collectives", *needed)
    data = frame.reset_index(drop=True)
    data["late_ns"] = data["arrival_ns"] - median_of(data["arrival_ns"], data["collective"])
    marked = last_often(data, late)
    data["is_late"] = data["rank"].isin(marked).to_numpy()
    data["arrivals"] = 1
    spread = data.groupby("collective")["arrival_ns"].agg(np.ptp)
    said = ""
    if len(data) > _MOST_DOTS:
        kept, stands_for = thinned(
            data["arrival_ns"], data["late_ns"], data["is_late"], columns=_COLUMNS, rows=_ROWS
        )
        said = (
            f"{count(len(data))} arrivals, drawn as {count(len(kept))},"
            " the latest at any time among them"
        )
        data = data.iloc[kept].assign(arrivals=stands_for)
    # What is late lies on top.
    data = data.sort_values(["is_late", "arrival_ns"], kind="stable").reset_index(drop=True)
    # What these rows alone say is no judgement.
    ink = colors.ink if late is None else colors.late
    data["fill"] = np.where(data["is_late"], ink, colors.rule_strong)
    data["size"] = np.where(data["is_late"], 5, 4)
    for name in ("late_ns", "wait_ns", "arrival_ns"):
        words = duration_delta if name == "late_ns" else duration
        data[f"{name}_text"] = [words(each) for each in data[name]]
    data["last_text"] = ["several" if each < 0 else f"rank {each}" for each in data["last_rank"]]
    low, high = float(data["late_ns"].min()), float(data["late_ns"].max())
    room = max(high - low, 1_000.0) * 0.06
    start, end = float(frame["arrival_ns"].min()), float(frame["arrival_ns"].max())
    beside = max(end - start, 1_000.0) * 0.01
    figure = new_figure(
        title,
        sentences(
            "a dot is a rank's arrival at a collective, against the median of its ranks",
            f"first and last lie {duration(float(spread.median()))} apart in the median,"
            f" at most {duration(float(spread.max()))}",
            said,
            unmatched(frame),
        ),
        colors,
        width,
        frame_height=_HEIGHT,
        x_range=models.Range1d(start - beside, end + beside, bounds="auto"),
        y_range=models.Range1d(low - room, high + room),
        tools=_tools(colors),
    )
    if len(figure.toolbar.tools) > 2:
        figure.toolbar.active_scroll = figure.toolbar.tools[2]
    time_axis(figure)
    figure.xgrid.grid_line_color = colors.rule
    ticks = nice_ticks(high, 3, low)
    figure.yaxis.ticker = models.FixedTicker(ticks=ticks)
    figure.ygrid.ticker = figure.yaxis[0].ticker
    figure.ygrid.grid_line_color = colors.rule
    figure.segment(
        x0=[start - beside], x1=[end + beside], y0=[0], y1=[0], line_color=colors.rule_strong
    )
    source = models.ColumnDataSource(columns_of(data))
    dots = figure.scatter(
        x="arrival_ns",
        y="late_ns",
        size="size",
        marker="circle",
        source=source,
        fill_color="fill",
        fill_alpha=0.75,
        line_color=None,
        selection_fill_alpha=1,
        nonselection_fill_alpha=0.15,
    )
    add_tooltip(
        figure,
        [dots],
        colors,
        "rank @{rank} · @{name}",
        [
            ("against the median", "@{late_ns_text}"),
            ("waits", "@{wait_ns_text}"),
            ("last", "@{last_text}"),
            ("collective", "@{collective}"),
            ("at", "@{arrival_ns_text}"),
            *([("arrivals in this spot", "@{arrivals}")] if said else []),
        ],
    )
    keys = [Dots("x", colors.rule_strong, 6, "other ranks" if marked else "a rank")]
    if marked:
        keys = [Dots("x", ink, 6, _last_words(frame, marked, late)), *keys]
    legend = legend_of(figure, keys, colors)
    step = ticks[1] - ticks[0] if len(ticks) > 1 else max(high, 1.0)
    keep_fitting(
        figure,
        width=width,
        names=[(at, _signed(at, step)) for at in ticks],
        legend=legend,
        timed=True,
    )
    return figure


def _last_words(frame: pd.DataFrame, marked: list[int], late: Iterable[int] | None) -> str:
    if len(marked) > 1 or late is not None:
        return listed(marked)
    mine = frame[frame["rank"] == marked[0]]
    last = int((mine["last_rank"] == marked[0]).sum())
    return f"rank {marked[0]}, last in {count(last)} of {count(len(mine))}"


def _signed(at: float, step: float) -> str:
    if at == 0:
        return "median"
    return f"{'+' if at > 0 else MINUS}{axis_time(abs(at), step)}"


def _tools(colors: Theme) -> list[Any]:
    tools = [models.BoxSelectTool(dimensions="both", overlay=brush(colors)), models.TapTool()]
    if "modifiers" in models.WheelZoomTool.properties():
        # As in the timeline; the plain wheel scrolls the page.
        tools.append(models.WheelZoomTool(dimensions="width", modifiers={"ctrl": True}))
    return tools


@draws("clock_offsets")
def clock_offsets(
    frame: pd.DataFrame,
    *,
    width: int | None = None,
    theme: str | Theme = "light",
    title: str = "How far clocks are off",
) -> Any:
    """Draw each rank's clock offset, and how far ends of collectives disagree before and after.

    Parameters
    ----------
    frame : DataFrame, TraceSet, Trace or Selection
        Of `hta_widgets.analysis.clock_offsets`.
    width : int, optional
        In CSS pixels; by default what the page gives.
    theme : {"light", "dark"} or Theme, default "light"
    title : str

    Returns
    -------
    bokeh.plotting.figure
        A dot a rank at its offset in µs, with its residuals on the recorded clock (pale) and on
        the fitted one (line) to both sides; its source has the frame's rows.

    Examples
    --------
    >>> charts.clock_offsets(analysis.clock_offsets(traces))  # doctest: +SKIP
    """
    colors = theme_of(theme)
    if frame.empty:
        return blank(frame, title, colors, width)
    needed = ("rank", "offset_ns", "residual_ns", "recorded_residual_ns", "collectives")
    require(frame, "clock_offsets", *needed)
    data = frame.reset_index(drop=True)
    data["row"] = np.arange(len(data))
    data["offset_us"] = data["offset_ns"] / 1e3
    known = (data["residual_ns"] >= 0).to_numpy()
    for name in ("residual", "recorded_residual"):
        apart = data[f"{name}_ns"].clip(lower=0) / 1e3
        data[f"{name}_from_us"] = data["offset_us"] - apart
        data[f"{name}_to_us"] = data["offset_us"] + apart
        data[f"{name}_text"] = [_residual(each) for each in data[f"{name}_ns"]]
    data["fill"] = np.where(known, colors.kind["compute"], colors.idle_line)
    data["offset_text"] = [
        duration_delta(each) if told else "–"
        for each, told in zip(data["offset_ns"], known, strict=True)
    ]
    if "drift_ppm" in data:
        data["drift_text"] = [
            "–" if not np.isfinite(each) else f"{each:+.2f} ppm".replace("-", MINUS)
            for each in data["drift_ppm"]
        ]
    parts = data["part"].nunique() if "part" in data else 1
    names = [
        f"rank {rank}" if parts == 1 else f"rank {rank} · part {part}"
        for rank, part in zip(data["rank"], data.get("part", data["rank"]), strict=True)
    ]
    low = float(data["recorded_residual_from_us"].min())
    high = float(data["recorded_residual_to_us"].max())
    room = max((high - low) * 0.04, 0.05)
    ticks = nice_ticks(high, 3, low)
    step = ticks[1] - ticks[0] if len(ticks) > 1 else max(high, 1.0)
    profile = len(data) > NAMED_ROWS
    pale = Bars(
        "recorded_residual_from_us",
        "recorded_residual_to_us",
        colors.idle,
        "± how far ends of collectives disagree as recorded",
        height=0.5,
    )
    spread: list[Bars | Whiskers] = [pale]
    spread.append(
        Bars("residual_from_us", "residual_to_us", colors.ink)
        if profile
        else Whiskers("residual_from_us", "residual_to_us", colors.ink)
    )
    told = data[known]
    return rows_chart(
        data,
        names,
        [*spread, Dots("offset_us", "@fill", 3 if profile else 7)],
        x_start=low - room,
        x_end=high + room,
        title=title,
        subtitle=sentences(
            "what is subtracted from a rank's times so that ranks leave collectives together",
            f"ends then lie {duration(float(told['residual_ns'].median()))} apart in the median,"
            f" as recorded {duration(float(told['recorded_residual_ns'].median()))}"
            if len(told)
            else "",
            f"nothing is known of {plural(int((~known).sum()), 'rank')}" if not known.all() else "",
            f"{parts} parts, between which nothing is known" if parts > 1 else "",
            str(frame.attrs.get("note", "")),
        ),
        theme=colors,
        width=width,
        head=" ",
        ticks=[(at, _signed_us(at, step)) for at in ticks],
        zero_line=True,
        columns=[
            Column("offset", list(data["offset_text"])),
            Column("fitted", list(data["residual_text"]), 420),
            Column("recorded", list(data["recorded_residual_text"]), 560),
            Column("collectives", [count(each) for each in data["collectives"]], 700),
        ],
        legend=[pale],
        tooltip=Tooltip(
            "rank @{rank}",
            [
                ("offset", "@{offset_text}"),
                ("ends of collectives, fitted", "@{residual_text}"),
                ("as recorded", "@{recorded_residual_text}"),
                ("collectives", "@{collectives}"),
                *([("drift", "@{drift_text}")] if "drift_text" in data else []),
            ],
        ),
    )


def _residual(residual_ns: float) -> str:
    return "–" if residual_ns < 0 else f"±{duration(residual_ns)}"


def _signed_us(at: float, step: float) -> str:
    if at == 0:
        return "0"
    return f"{'+' if at > 0 else MINUS}{axis_time(abs(at) * 1e3, step * 1e3)}"
