"""Charts of collectives and stragglers."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from functools import partial
from typing import Any, Literal

import numpy as np
import pandas as pd

from hta_widgets.charts.chart import chart, defines
from hta_widgets.charts.data import (
    color_ramp,
    columns_of,
    complete_rows,
    median_of,
    most_often_last,
    rank_list,
    thin_points,
)
from hta_widgets.charts.figure import (
    add_tooltip,
    blend,
    keep_fitting,
    models,
    new_figure,
    plain_axis,
)
from hta_widgets.charts.lanes import time_axis
from hta_widgets.charts.rows import (
    NAMED_ROWS,
    Bars,
    Column,
    Dots,
    Tooltip,
    extremes_text,
    legend_for,
    round_ticks,
    rows_chart,
    selection_box,
)
from hta_widgets.charts.theme import FONT, Theme
from hta_widgets.text import (
    MINUS,
    axis_time,
    count,
    duration,
    plural,
    rate,
    share,
    size,
)

#: Maximum number of dots; above it, one dot per cell of a grid is drawn (`thin_points`).
_MAX_DOTS = 20_000
_COLUMNS, _ROWS = 200, 48
_HEIGHT = 200


def _spread_text(spread: pd.Series) -> str:
    return (
        f"first and last lie {duration(float(spread.median()))} apart in the median,"
        f" at most {duration(float(spread.max()))}"
    )


def _last_rank_names(ranks: pd.Series) -> list[str]:
    return ["several" if rank < 0 else f"rank {rank}" for rank in ranks]


def _signed_tick(at: float, step: float, zero: str) -> str:
    return zero if at == 0 else f"{'+' if at > 0 else MINUS}{axis_time(abs(at), step)}"


def _tick_step(ticks: list[float], end: float) -> float:
    return ticks[1] - ticks[0] if len(ticks) > 1 else max(end, 1.0)


@chart(
    "How late each rank arrives",
    *("rank", "collective", "arrival_ns", "wait_ns", "last_rank"),
    of="analysis.collectives",
)
def arrivals(
    frame: pd.DataFrame, theme: Theme, *, late: Iterable[int] | None = None
) -> dict[str, Any]:
    """Draw how late ranks arrive at collectives over time, against the median of each collective.

    Parameters
    ----------
    frame : DataFrame, TraceSet, Trace or Selection
        Result of `hta_widgets.analysis.collectives`, on a clock that the ranks share. Otherwise the
        spread is that of the clocks.
    late : iterable of int, optional
        Ranks to draw in red, such as those that `hta_widgets.analysis.stragglers` names. By default
        one rank may be drawn dark, which is not a judgement: it alone is last at more than half of
        its collectives, and more than half of all waiting is for it.

    Returns
    -------
    bokeh.plotting.figure
        One dot per collective and rank; its source has the frame's rows and ``late_ns``. Above
        20 000 dots, one per cell of a fine grid is kept, among them the latest of each column of
        the grid, and the subtitle reports that.
    """
    data = frame.reset_index(drop=True)
    data["late_ns"] = data["arrival_ns"] - median_of(data["arrival_ns"], data["collective"])
    marked = most_often_last(data, late)
    data["is_late"] = data["rank"].isin(marked).to_numpy()
    data["arrivals"] = 1
    spread = data.groupby("collective")["arrival_ns"].agg(np.ptp)
    said = ""
    if len(data) > _MAX_DOTS:
        kept, stands_for = thin_points(
            data["arrival_ns"], data["late_ns"], data["is_late"], columns=_COLUMNS, rows=_ROWS
        )
        said = (
            f"{count(len(data))} arrivals, drawn as {count(len(kept))},"
            " the latest at any time among them"
        )
        data = data.iloc[kept].assign(arrivals=stands_for)
    # Draw late arrivals on top.
    data = data.sort_values(["is_late", "arrival_ns"], kind="stable").reset_index(drop=True)
    # Only given ranks are red: these rows alone do not allow a judgement.
    ink = theme.ink if late is None else theme.late
    data["fill"] = np.where(data["is_late"], ink, theme.rule_strong)
    data["size"] = np.where(data["is_late"], 5, 4)
    data["last_text"] = _last_rank_names(data["last_rank"])
    keys = [Dots("x", theme.rule_strong, 6, "other ranks" if marked else "a rank")]
    if marked:
        keys = [Dots("x", ink, 6, _last_rank_text(frame, marked, late)), *keys]
    return {
        "by": _arrival_dots,
        "data": data,
        "window": (float(frame["arrival_ns"].min()), float(frame["arrival_ns"].max())),
        "keys": keys,
        "subtitle": [
            "a dot is a rank's arrival at a collective, against the median of its ranks",
            _spread_text(spread),
            said,
        ],
        "tooltip": Tooltip(
            "rank @{rank} · @{name}",
            [
                ("against the median", "{late_ns:duration_delta}"),
                ("waits", "{wait_ns:duration}"),
                ("last", "@{last_text}"),
                ("collective", "@{collective}"),
                ("at", "{arrival_ns:duration}"),
                *[("arrivals in this spot", "@{arrivals}")] * bool(said),
            ],
        ),
    }


def _arrival_dots(
    data: pd.DataFrame,
    window: tuple[float, float],
    keys: list[Dots],
    tooltip: Tooltip,
    *,
    title: str,
    subtitle: str,
    theme: Theme,
    width: int | None,
) -> Any:
    """Draw one dot per arrival over time."""
    low, high = float(data["late_ns"].min()), float(data["late_ns"].max())
    room = max(high - low, 1_000.0) * 0.06
    start, end = window
    beside = max(end - start, 1_000.0) * 0.01
    tools = [
        models.BoxSelectTool(dimensions="both", overlay=selection_box(theme)),
        models.TapTool(),
    ]
    if "modifiers" in models.WheelZoomTool.properties():
        # Zoom with Ctrl, as in the timeline; the wheel without Ctrl scrolls the page.
        tools.append(models.WheelZoomTool(dimensions="width", modifiers={"ctrl": True}))
    figure = new_figure(
        title,
        subtitle,
        theme,
        width,
        frame_height=_HEIGHT,
        x_range=models.Range1d(start - beside, end + beside, bounds="auto"),
        y_range=models.Range1d(low - room, high + room),
        tools=tools,
    )
    if len(tools) > 2:
        figure.toolbar.active_scroll = tools[2]
    time_axis(figure)
    figure.xgrid.grid_line_color = theme.rule
    ticks = round_ticks(high, 3, low)
    figure.yaxis.ticker = models.FixedTicker(ticks=ticks)
    figure.ygrid.ticker = figure.yaxis[0].ticker
    figure.ygrid.grid_line_color = theme.rule
    figure.segment(
        x0=[start - beside], x1=[end + beside], y0=[0], y1=[0], line_color=theme.rule_strong
    )
    dots = figure.scatter(
        x="arrival_ns",
        y="late_ns",
        size="size",
        marker="circle",
        source=models.ColumnDataSource(columns_of(data)),
        fill_color="fill",
        fill_alpha=0.75,
        line_color=None,
        selection_fill_alpha=1,
        nonselection_fill_alpha=0.15,
    )
    add_tooltip(figure, [dots], theme, tooltip.heading, tooltip.rows)
    legend = legend_for(figure, keys, theme)
    step = _tick_step(ticks, high)
    names = [(at, _signed_tick(at, step, "median")) for at in ticks]
    keep_fitting(figure, width=width, names=names, legend=legend, timed=True)
    return figure


def _last_rank_text(frame: pd.DataFrame, marked: list[int], late: Iterable[int] | None) -> str:
    if len(marked) > 1 or late is not None:
        return rank_list(marked)
    mine = frame[frame["rank"] == marked[0]]
    last = int((mine["last_rank"] == marked[0]).sum())
    return f"rank {marked[0]}, last in {count(last)} of {count(len(mine))}"


@defines("clocks")
def clock_offsets(frame: pd.DataFrame) -> pd.DataFrame:
    """Draw each rank's clock offset, and its residuals before and after the fit.

    Returns
    -------
    bokeh.plotting.figure
        One dot per rank at its offset. To both sides of it are the residuals at the ends of
        collectives, on the recorded clock (pale bar) and on the fitted one (line). Its source has
        the frame's rows.
    """
    return frame


#: Maximum number of columns; above it, several collectives share a cell.
_MAX_COLUMNS = 400
#: Maximum number of cells that are drawn as rectangles; more are drawn as one image.
_MAX_CELLS = 12_000
#: Maximum number of collectives whose cells are wide enough for an outline.
_MAX_OUTLINED = 80
_SHADES = 64

_DEFINED = {
    "wait": "from a rank's arrival to that of the last",
    "lateness": "arrival after the median of its ranks",
}


@chart(
    {"wait": "Who waits at which collective", "lateness": "Who is late to which collective"},
    *("rank", "collective", "name", "size_bytes", "last_rank", "busbw_gb_s"),
    *("arrival_ns", "wait_ns", "transfer_ns"),
)
def collectives(
    frame: pd.DataFrame,
    theme: Theme,
    *,
    measure: Literal["wait", "lateness"] = "wait",
    late: Iterable[int] | None = None,
) -> dict[str, Any]:
    """Draw how long each rank waits at each collective, or how late it arrives.

    Parameters
    ----------
    measure : {"wait", "lateness"}, default "wait"
        Wait for the last rank, or arrival after the median of the collective's ranks; earlier
        arrivals count as 0.
    late : iterable of int, optional
        Ranks to mark, as in `arrivals`.

    Returns
    -------
    bokeh.plotting.figure
        One row per rank and one cell per collective, in order of time; its source has the frame's
        rows. With more than 400 collectives, each cell shows the longest of several. With more
        than 12 000 cells or 64 ranks, the cells are one image, and the source has one row per rank.

    Raises
    ------
    ValueError
        For an unknown measure.
    """
    grid = _Grid(frame, measure, late)
    each = f", each cell the longest of {count(grid.fold)}" if grid.fold > 1 else ""
    in_all = extremes_text(grid.names(), grid.total, duration)
    as_image = len(grid.cells) > _MAX_CELLS or len(grid.ranks) > NAMED_ROWS
    return {
        **({"by": _image, "grid": grid} if as_image else _cell_columns(grid, theme)),
        "subtitle": [
            f"{_DEFINED[measure]}, {count(grid.count)} collectives in order of time{each}",
            _spread_text(grid.spread),
            f"in all {in_all}" if in_all else "",
        ],
    }


class _Grid:
    """The values of a frame by rank and cell; a cell is one collective or several."""

    def __init__(self, frame: pd.DataFrame, measure: str, late: Iterable[int] | None) -> None:
        data = frame.reset_index(drop=True)
        data["late_ns"] = data["arrival_ns"] - median_of(data["arrival_ns"], data["collective"])
        self.measure = "wait_ns" if measure == "wait" else "late_ns"
        self.ranks = np.unique(data["rank"])
        self.marked = most_often_last(data, late)
        #: whether the caller gave the ranks to mark; only then they are red, which is a judgement
        self.is_judged = late is not None
        numbers = np.unique(data["collective"])
        self.count = len(numbers)
        self.fold = max(1, -(-self.count // _MAX_COLUMNS))
        self.columns = -(-self.count // self.fold)
        data["row"] = np.searchsorted(self.ranks, data["rank"])
        data["left"] = np.searchsorted(numbers, data["collective"]) // self.fold * self.fold
        data["shown_ns"] = data[self.measure].clip(lower=0)
        self.spread = data.groupby("collective")["arrival_ns"].agg(np.ptp)
        self.total = data.groupby("row")["shown_ns"].sum().to_numpy()
        self.most = data.groupby("row")["shown_ns"].max().to_numpy()
        self.all = data
        if self.fold > 1:
            # A cell shows its longest wait or lateness.
            order = np.lexsort((data["shown_ns"], data["left"], data["row"]))
            at = data[["row", "left"]].to_numpy()[order]
            longest = np.append((np.diff(at, axis=0) != 0).any(axis=1), True)
            data = data.iloc[order[longest]].reset_index(drop=True)
        self.cells = data
        shown = data["shown_ns"].to_numpy(float)
        self.darkest = float(np.quantile(shown, 0.98)) or float(shown.max()) or 1.0

    @property
    def verb(self) -> str:
        return "waits" if self.measure == "wait_ns" else "late by"

    def names(self) -> list[str]:
        return [f"rank {rank}" for rank in self.ranks]

    def ticks(self) -> list[tuple[float, str]]:
        return [(at, count(at)) for at in round_ticks(float(self.count), 4) if at == int(at)]

    def end(self) -> float:
        return float(self.columns * self.fold)


def _legend_items(grid: _Grid, theme: Theme) -> list[Bars]:
    """Return the legend; empty if no rank waits or is late."""
    if not grid.total.any():
        return []
    verb = grid.verb
    return [
        Bars(0.0, "", theme.waiting[-2], f"{verb} {duration(grid.darkest)} or more"),
        Bars(0.0, "", theme.waiting[2], "less", line=theme.waiting[2]),
        Bars(0.0, "", theme.lane, "nothing", line=theme.rule),
    ]


def _cell_columns(grid: _Grid, theme: Theme) -> dict[str, Any]:
    data = grid.cells
    data["right"] = data["left"] + grid.fold
    shades = np.array(color_ramp(theme.waiting, _SHADES))
    depth = np.clip(data["shown_ns"].to_numpy(float) / grid.darkest, 0, 1)
    data["fill"] = shades[np.ceil(depth * (len(shades) - 1)).astype(int)]
    data["is_last"] = (data["last_rank"] == data["rank"]) & complete_rows(data) & (grid.fold == 1)
    outlined = grid.columns <= _MAX_OUTLINED and bool(grid.total.any())
    flagged = data["is_last"].to_numpy(bool) & outlined
    data["line"] = np.where(flagged, theme.late, data["fill"])
    if grid.measure == "wait_ns":
        data.loc[flagged, "fill"] = theme.late_fill
    if outlined:
        # Outlines overlap the neighbouring cells, so outlined cells are drawn last.
        data = data.sort_values("is_last", kind="stable").reset_index(drop=True)
    data["spread_ns"] = data["collective"].map(grid.spread)
    data["size_text"] = ["–" if each < 0 else size(each) for each in data["size_bytes"]]
    data["bandwidth_text"] = [rate(each) for each in data["busbw_gb_s"]]
    data["last_text"] = _last_rank_names(data["last_rank"])
    data["name"] = data["name"].astype(str)
    keys = _legend_items(grid, theme)
    if flagged.any() and keys:
        keys.append(Bars(0.0, "", theme.late_fill, "arrives last", line=theme.late))
    return {
        "by": rows_chart if outlined else partial(_draw_marked_rows, grid),
        "data": data,
        "names": grid.names(),
        "marks": [Bars("left", "right", "@fill", line="@line")],
        "x_end": grid.end(),
        "head": " ",
        "ticks": grid.ticks(),
        "columns": [Column("in all", [duration(each) for each in grid.total])],
        "legend": keys,
        "tooltip": Tooltip(
            "rank @{rank} · @{name}",
            [
                ("waits", "{wait_ns:duration}"),
                ("against the median", "{late_ns:duration}"),
                ("last", "@{last_text}"),
                ("first to last arrival", "{spread_ns:duration}"),
                ("collective", "@{collective}"),
                ("transfer", "{transfer_ns:duration}"),
                ("size", "@{size_text}"),
                ("bus bandwidth", "@{bandwidth_text}"),
            ],
        ),
    }


def _draw_marked_rows(grid: _Grid, *, theme: Theme, **content: Any) -> Any:
    figure = rows_chart(**content, theme=theme)
    _mark_rows(figure, grid, theme, 0.4)
    return figure


def _mark_rows(figure: Any, grid: _Grid, theme: Theme, half: float) -> None:
    """Outline the rows of late ranks, for charts whose cells are too narrow for outlines."""
    rows = np.searchsorted(grid.ranks, grid.marked)
    ink = theme.late if grid.is_judged else theme.ink
    for color, thick in ((theme.bg, 3.5), (ink, 1.5)):
        if len(rows):
            figure.quad(
                left=[0.0] * len(rows),
                right=[grid.end()] * len(rows),
                top=(rows - half).tolist(),
                bottom=(rows + half).tolist(),
                fill_color=None,
                line_color=color,
                line_width=thick,
            )


def _image(grid: _Grid, *, title: str, subtitle: str, theme: Theme, width: int | None) -> Any:
    rows = len(grid.ranks)
    pitch = 14 if rows <= NAMED_ROWS else max(1, 640 // rows)
    # Room for the name of the first row, which may be taller than the row.
    above = 8
    figure = new_figure(
        title,
        subtitle,
        theme,
        width,
        frame_height=rows * pitch + above,
        x_range=models.Range1d(0, grid.end()),
        y_range=models.Range1d(rows - 0.5, -0.5 - above / pitch),
        tools=[
            models.BoxSelectTool(dimensions="height", overlay=selection_box(theme)),
            models.TapTool(),
        ],
    )
    axis = figure.xaxis[0]
    axis.ticker = models.FixedTicker(ticks=[at for at, _ in grid.ticks()])
    axis.major_label_overrides = dict(grid.ticks())
    figure.add_layout(
        models.BoxAnnotation(
            left=0,
            right=grid.end(),
            top=-0.5,
            bottom=rows - 0.5,
            fill_color=theme.lane,
            fill_alpha=1,
            line_color=None,
            level="underlay",
        )
    )
    shown = np.full((rows, grid.columns), np.nan, dtype=np.float32)
    cells = grid.cells
    at = cells["row"].to_numpy(), cells["left"].to_numpy() // grid.fold
    shown[at] = cells["shown_ns"] / 1e3
    last = np.full((rows, grid.columns), -1, dtype=np.int32)
    last[at] = cells["last_rank"]
    which = np.full((rows, grid.columns), -1, dtype=np.int32)
    which[at] = cells["collective"]
    rank = np.repeat(grid.ranks.astype(np.int32)[:, None], grid.columns, axis=1)
    picture = figure.image(
        image="shown_us",
        x=0,
        y=-0.5,
        dw=grid.end(),
        dh=rows,
        source=models.ColumnDataSource(
            {"shown_us": [shown], "of_rank": [rank], "last": [last], "which": [which]}
        ),
        color_mapper=models.LinearColorMapper(
            palette=color_ramp(theme.waiting, 256),
            low=0,
            high=grid.darkest / 1e3,
            nan_color="rgba(0, 0, 0, 0)",
        ),
    )
    _add_rank_bars(figure, grid, theme)
    add_tooltip(
        figure,
        [picture],
        theme,
        "rank @{of_rank} · collective @{which}",
        [(grid.verb, "@{shown_us}{0,0.0} µs"), ("last", "rank @{last}")],
    )
    _mark_rows(figure, grid, theme, max(0.5, 2 / pitch))
    legend = legend_for(figure, _legend_items(grid, theme), theme)
    named, numbers = _row_labels(grid, pitch)
    figure.yaxis.ticker = models.FixedTicker(ticks=[row for row, _ in named])
    figure.yaxis.major_label_text_font = FONT
    side = models.LinearAxis(
        ticker=models.FixedTicker(ticks=[row for row, _ in named]),
        major_label_overrides=numbers,
    )
    plain_axis(side, theme)
    figure.add_layout(side, "right")
    keep_fitting(figure, width=width, names=named, columns=[(side, 0)], legend=legend)
    return figure


def _add_rank_bars(figure: Any, grid: _Grid, theme: Theme) -> None:
    """Add an invisible bar per rank, which is outlined if the rank is selected."""
    data = pd.DataFrame(
        {
            "rank": grid.ranks,
            "row": np.arange(len(grid.ranks)),
            "collectives": grid.all.groupby("row").size().to_numpy(),
            "wait_ns": grid.all.groupby("row")["wait_ns"].sum().to_numpy(),
            "last": (grid.all["last_rank"] == grid.all["rank"])
            .groupby(grid.all["row"])
            .sum()
            .to_numpy(),
        }
    )
    figure.hbar(
        y="row",
        left=0,
        right=grid.end(),
        # Less than a row, so that a tap selects only one rank.
        height=0.9,
        source=models.ColumnDataSource(columns_of(data)),
        fill_alpha=0,
        line_alpha=0,
        selection_line_alpha=1,
        selection_line_color=theme.brush_line,
        nonselection_fill_alpha=0,
        nonselection_line_alpha=0,
    )


def _row_labels(grid: _Grid, pitch: int) -> tuple[list[tuple[float, str]], dict[float, str]]:
    """Return the row labels that fit, and the totals of the labelled rows.

    Marked ranks always have a label.
    """
    rows = len(grid.ranks)
    step = next(s for s in (1, 2, 4, 8, 16, 32, 64, 128, 256, 1024, 4096) if s * pitch >= 14)
    marked = np.searchsorted(grid.ranks, grid.marked).tolist()
    room = 14 / pitch
    shown = [
        row for row in range(0, rows, step) if all(abs(row - other) >= room for other in marked)
    ]
    rows_shown = sorted([*shown, *marked])
    return (
        [(row, f"rank {grid.ranks[row]}") for row in rows_shown],
        {row: duration(float(grid.total[row])) for row in rows_shown},
    )


#: Maximum number of ranks with a row each; of more, only the first `_TOP` and stragglers have one.
_MAX_ROWS = 24
_TOP = 16


@chart("Who keeps the others waiting", "rank", "score", "late_ns_mean", "imposed_wait_ns")
def stragglers(frame: pd.DataFrame, theme: Theme) -> dict[str, Any]:
    """Draw how long the others wait for each rank, and why it is late.

    Returns
    -------
    bokeh.plotting.figure
        One bar per rank, the longest imposed wait first; its source has the frame's rows. With more
        than 24 ranks, the first 16 and all stragglers have a row; the others share one.
    """
    every = frame.reset_index(drop=True)
    # Frames without these columns are drawn too, but without stragglers.
    for name, missing in (
        ("is_straggler", False),
        ("lost_ns", 0),
        ("lost_share", np.nan),
        ("cause", ""),
        ("pattern", ""),
        ("host", ""),
    ):
        if name not in every:
            every[name] = missing
    every = every.sort_values(
        ["imposed_wait_ns", "lost_ns", "rank"], ascending=[False, False, True], kind="stable"
    ).reset_index(drop=True)
    data, left = every, every.iloc[:0]
    if len(every) > _MAX_ROWS:
        shown = every["is_straggler"].to_numpy(bool) | (np.arange(len(every)) < _TOP)
        data, left = every[shown].reset_index(drop=True), every[~shown]
    names = [f"rank {rank}" for rank in data["rank"]]
    if len(left):
        names.append(plural(len(left), "other rank"))
        data = pd.concat([data, _sum_others(left)], ignore_index=True)
    culprit = data["is_straggler"].to_numpy(bool)
    data["fill"] = np.where(culprit, theme.late_fill, theme.idle)
    data["line"] = np.where(culprit, theme.late, theme.idle_line)
    # A zero-length bar would still draw its outline.
    data["imposed_to_ns"] = data["imposed_wait_ns"].where(data["imposed_wait_ns"] > 0)
    data["lost_to_ns"] = data["lost_ns"].where(data["lost_ns"] > 0)
    data["late_text"] = [
        duration(each) if not each < 0 else f"{duration(-each)} early"
        for each in data["late_ns_mean"]
    ]
    data["why"] = [
        _cause_text(str(cause), str(pattern), guilty=guilty)
        for cause, pattern, guilty in zip(data["cause"], data["pattern"], culprit, strict=True)
    ]
    known = "lost_ns" in frame
    lost = Bars(
        0.0,
        "lost_to_ns",
        theme.wait_fill,
        line=theme.wait_line,
        hatch="/",
        hatch_color=theme.wait_line,
        height=0.4,
    )
    return {
        "data": data,
        "names": names,
        "marks": [Bars(0.0, "imposed_to_ns", "@fill", line="@line"), *[lost] * known],
        "end_ns": float(data["imposed_wait_ns"].max()),
        "subtitle": [
            "how long the other ranks wait in collectives for the rank that comes last, added up",
            _straggler_finding(every),
        ],
        "head": " ",
        "legend": [
            *[Bars(0.0, "", theme.late_fill, "straggler", line=theme.late)] * bool(culprit.any()),
            Bars(0.0, "", theme.idle, "rank", line=theme.idle_line),
            *[replace(lost, name="computing nothing")] * known,
        ],
        "columns": [
            Column("because of", "{why}"),
            Column("the others wait", "{imposed_wait_ns:duration}", 560),
            Column("last in", "{score:share}", 680),
            Column("costs the others", "{lost_share:share}", 800),
        ],
        "tooltip": Tooltip(
            "rank @{rank}",
            [
                ("why", "@{why}"),
                ("the others wait", "{imposed_wait_ns:duration}"),
                ("and compute nothing", "{lost_ns:duration}"),
                ("of their time", "{lost_share:share}"),
                ("last in", "{score:share}"),
                ("mean lateness against the median", "@{late_text}"),
                ("host", "@{host}"),
            ],
        ),
    }


def _sum_others(left: pd.DataFrame) -> pd.DataFrame:
    """Return one row for many ranks, with sums of waits and lost time, and means of the rest."""
    added = {"imposed_wait_ns", "lost_ns", "wait_ns"}
    row: dict[str, Any] = {
        str(name): (values.sum() if name in added else values.mean())
        if values.dtype.kind in "iuf"
        else ""
        for name, values in left.items()
    }
    row |= {"rank": -1, "is_straggler": False, "host": "", "cause": "", "pattern": ""}
    return pd.DataFrame([row])


def _cause_text(cause: str, pattern: str, *, guilty: bool) -> str:
    if cause and not guilty:
        # In brackets, because this rank does not cause the delay but inherits it.
        return f"({cause})"
    often = {"occasional": ", at times"}
    return f"{cause}{often.get(pattern, '')}"


def _straggler_finding(every: pd.DataFrame) -> str:
    straggler_rows = every[every["is_straggler"].to_numpy(bool)]
    if straggler_rows.empty:
        return f"none of {plural(len(every), 'rank')} is a straggler"
    first = straggler_rows.iloc[0]
    if len(straggler_rows) > 1:
        return f"{rank_list(straggler_rows['rank'].tolist())} are stragglers"
    often = "at times" if first["pattern"] == "occasional" else "all along"
    return (
        f"rank {first['rank']} is late {often}, {first['cause'] or 'why is not known'}:"
        f" the others wait {duration(first['imposed_wait_ns'])} together"
        f" and lose {share(first['lost_share'])} of their time"
    )


#: Maximum number of ranks with a row if there are more than `NAMED_ROWS`.
_MAX_TOP = 40
#: Maximum number of columns; of more steps, several share a cell.
_MAX_STEPS = 300
#: Minimum share of lost time that is drawn as costly, as in `analysis.stragglers`.
_COSTLY = 0.05
#: Minimum share of lost time that is drawn in the darkest colour, whatever other steps cost.
_STALL = 0.25

_COSTS = {
    "lost_share": (
        *("lost_share", "lost_ns", "lost"),
        "share of their time that the others lose, computing nothing, while they wait for the rank",
    ),
    "imposed_wait": (
        *("imposed_wait_ns", "imposed_wait_ns", "in all"),
        "how long the others wait in collectives for the rank that comes last, added up",
    ),
}


@chart(
    {
        "lost_share": "When each rank delays the others",
        "imposed_wait": "How long each rank keeps the others waiting, and when",
    },
    *("rank", "step", "imposed_wait_ns", "lost_ns", "lost_share"),
)
def stragglers_by_step(
    frame: pd.DataFrame,
    theme: Theme,
    *,
    measure: Literal["lost_share", "imposed_wait"] = "lost_share",
) -> dict[str, Any]:
    """Draw the cost of each rank to the others in each step.

    Parameters
    ----------
    measure : {"lost_share", "imposed_wait"}, default "lost_share"
        Share of the step that the others lose, or all their waiting for the rank, including the
        part that is hidden behind computing.

    Returns
    -------
    bokeh.plotting.figure
        One row per rank and one cell per step: a rank that is always slow is a coloured row, and
        one that was slow once is a single coloured cell. Costly means 5 % of a step or more. The
        source has the frame's rows. With more than 64 ranks, those that cost most have a row, and
        the others share one; with more than 300 steps, each cell shows the costliest of several.

    Raises
    ------
    ValueError
        For an unknown measure.
    """
    column, total, head, defined = _COSTS[measure]
    every = frame.reset_index(drop=True)
    every["shown"] = every[column].fillna(0.0).astype(float)
    every["is_costly"] = every["lost_share"].fillna(0.0) >= _COSTLY
    steps = np.unique(every["step"])
    names, cells, by_row = _rows_and_sums(every)
    fold = max(1, -(-len(steps) // _MAX_STEPS))
    cells["left"] = np.searchsorted(steps, cells["step"]) // fold * fold
    data = _costliest_rows(cells)
    data["right"] = np.minimum(data["left"] + fold, len(steps))
    kind = "step" if str(frame.attrs.get("steps", "ProfilerStep")) == "ProfilerStep" else "stretch"
    often = [
        f"{count(bad)} of {count(met)}" if bad else ""
        for bad, met in zip(by_row["bad"], by_row["met"], strict=True)
    ]
    return {
        "data": data,
        "names": names,
        "marks": [Bars("left", "right", "@fill", line="@fill")],
        "x_end": float(len(steps)),
        "legend": _add_colors(data, theme, measure),
        "subtitle": [
            f"{defined}; {_count_text(len(steps), kind)} from left to right",
            f"each cell the costliest of {count(fold)}" if fold > 1 else "",
            _steps_finding(every, kind),
        ],
        "head": " ",
        "ticks": _ticks(steps),
        "columns": [
            Column(f"costly {kind}s" if kind == "step" else "costly", often),
            Column(head, [duration(each) for each in by_row[total]], 520),
        ],
        "tooltip": Tooltip(
            f"rank @{{rank}} · {kind} @{{step}}",
            [
                ("the others lose", "{lost_ns:duration} · {lost_share:share}"),
                ("the others wait", "{imposed_wait_ns:duration}"),
                *[("last in", "{score:share} of collectives")] * ("score" in data),
                *[("collectives", "@{collectives}")] * ("collectives" in data),
            ],
        ),
    }


def _rows_and_sums(every: pd.DataFrame) -> tuple[list[str], pd.DataFrame, pd.DataFrame]:
    """Return the names of the rows, the cells with their row, and the rows' sums."""
    ranks = np.unique(every["rank"])
    groups = every.groupby("rank", sort=True)
    sums = groups[["lost_ns", "imposed_wait_ns", "shown"]].sum()
    sums["bad"] = groups["is_costly"].sum()
    sums["met"] = groups.size()
    shown = ranks
    if len(ranks) > NAMED_ROWS:
        order = sums.sort_values(["bad", "shown"], ascending=False, kind="stable").index
        kept = max(_TOP, min(_MAX_TOP, int((sums["bad"] > 0).sum())))
        shown = np.sort(order[:kept].to_numpy())
    others = ~np.isin(ranks, shown)
    cells = every.copy()
    at = np.searchsorted(shown, cells["rank"])
    cells["row"] = np.where(np.isin(cells["rank"], shown), at, len(shown))
    names = [f"rank {rank}" for rank in shown]
    by_row = sums.loc[shown].reset_index(drop=True)
    if others.any():
        names.append(plural(int(others.sum()), "other rank"))
        left = sums.loc[ranks[others]].sum().to_frame().T
        # A sum over several ranks would not be a number of steps.
        left["bad"] = 0
        by_row = pd.concat([by_row, left], ignore_index=True)
    return names, cells, by_row


def _costliest_rows(cells: pd.DataFrame) -> pd.DataFrame:
    """Return the most expensive row of each cell."""
    order = np.lexsort((cells["shown"], cells["left"], cells["row"]))
    at = cells[["row", "left"]].to_numpy()[order]
    most = np.append((np.diff(at, axis=0) != 0).any(axis=1), True)
    found: pd.DataFrame = cells.iloc[order[most]].reset_index(drop=True)
    return found


def _add_colors(data: pd.DataFrame, theme: Theme, measure: str) -> list[Bars]:
    """Add colours to the cells; return their legend."""
    shown = data["shown"].to_numpy(float)
    late, pale = theme.late, blend(theme.late_fill, theme.lane, 0.7)
    if measure == "lost_share":
        # Costly cells start at a clearly darker colour, so they need no outline.
        costly = blend(late, theme.late_fill, 0.4)
        below = np.array(color_ramp((theme.lane, pale), _SHADES))
        above = np.array(color_ramp((costly, late), _SHADES))
        low = np.clip(shown / _COSTLY, 0, 1)
        high = np.clip((shown - _COSTLY) / (_STALL - _COSTLY), 0, 1)
        data["fill"] = np.where(
            data["is_costly"],
            above[(high * (_SHADES - 1)).astype(int)],
            below[(low * (_SHADES - 1)).astype(int)],
        )
        key = [
            Bars(0.0, "", late, f"{_percent(_STALL)} or more"),
            Bars(0.0, "", costly, f"{_percent(_COSTLY)} or more, costly"),
            Bars(0.0, "", pale, "less", line=theme.rule),
        ]
    else:
        most = float(shown.max()) or 1.0
        shades = np.array(color_ramp((theme.lane, pale, late), _SHADES))
        data["fill"] = shades[np.ceil(shown / most * (_SHADES - 1)).astype(int)]
        key = [
            Bars(0.0, "", late, duration(most)),
            Bars(0.0, "", blend(late, theme.late_fill, 0.4), "less"),
            Bars(0.0, "", theme.lane, "nothing", line=theme.rule),
        ]
    return key


def _percent(part: float) -> str:
    return f"{round(part * 100)}\u202f%"


def _ticks(steps: Any) -> list[tuple[float, str]]:
    """Return up to ten ticks at the middle of cells, with the numbers of their steps."""
    every = max(1, -(-len(steps) // 10))
    return [(at + 0.5, str(steps[at])) for at in range(0, len(steps), every)]


def _count_text(number: int, kind: str) -> str:
    return plural(number, kind) if kind == "step" or number == 1 else f"{count(number)} stretches"


def _steps_finding(every: pd.DataFrame, kind: str) -> str:
    costly = every[every["is_costly"]]
    if costly.empty:
        return f"none costs {_percent(_COSTLY)} of a {kind} or more"
    steps_by_rank = costly.groupby("rank").size().sort_values(ascending=False, kind="stable")
    first = int(steps_by_rank.index[0])
    met = int((every["rank"] == first).sum())
    if len(steps_by_rank) == 1:
        costly_steps = costly["step"].tolist()
        where = f"in {kind} {costly_steps[0]} alone" if len(costly_steps) == 1 < met else ""
        where = where or (
            f"in each of {_count_text(met, kind)}"
            if len(costly_steps) == met
            else f"in {count(len(costly_steps))} of {_count_text(met, kind)}"
        )
        return f"rank {first} costs {_percent(_COSTLY)} or more {where}"
    often = steps_by_rank[
        steps_by_rank > every.groupby("rank").size().reindex(steps_by_rank.index) / 2
    ]
    if len(often):
        verb = "costs" if len(often) == 1 else "cost"
        rest = steps_by_rank.index.difference(often.index).tolist()
        at_times = f", {rank_list(rest)} at times" if rest else ""
        ranks = rank_list(often.index.tolist())
        return f"{ranks} {verb} {_percent(_COSTLY)} or more in most{at_times}"
    ranks = rank_list(steps_by_rank.index.tolist())
    return f"{ranks} cost {_percent(_COSTLY)} or more at times, none in most"
