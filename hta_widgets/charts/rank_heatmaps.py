"""Every rank at every collective: who waits, who is late, and from when on."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import pandas as pd

from hta_widgets.text import count
from hta_widgets.text import duration
from hta_widgets.text import rate
from hta_widgets.text import size

from hta_widgets.charts.across_ranks import are_whole
from hta_widgets.charts.across_ranks import columns_of
from hta_widgets.charts.across_ranks import last_often
from hta_widgets.charts.across_ranks import median_of
from hta_widgets.charts.across_ranks import ramp
from hta_widgets.charts.bokeh_modules import models
from hta_widgets.charts.canvas import add_tooltip
from hta_widgets.charts.canvas import blank
from hta_widgets.charts.canvas import new_figure
from hta_widgets.charts.canvas import plain_axis
from hta_widgets.charts.canvas import sentences
from hta_widgets.charts.canvas import unmatched
from hta_widgets.charts.fitting import keep_fitting
from hta_widgets.charts.frames import draws
from hta_widgets.charts.frames import require
from hta_widgets.charts.frames import require_measure
from hta_widgets.charts.rows import NAMED_ROWS
from hta_widgets.charts.rows import Bars
from hta_widgets.charts.rows import Column
from hta_widgets.charts.rows import Tooltip
from hta_widgets.charts.rows import brush
from hta_widgets.charts.rows import extremes
from hta_widgets.charts.rows import legend_of
from hta_widgets.charts.rows import nice_ticks
from hta_widgets.charts.rows import rows_chart
from hta_widgets.charts.theme import FONT
from hta_widgets.charts.theme import Theme
from hta_widgets.charts.theme import theme_of

__all__ = ["collectives"]

Ints = npt.NDArray[np.int64]

#: More collectives than this share cells.
_MOST_COLUMNS = 400
#: More cells than this are drawn as one image.
_MOST_CELLS = 12_000
#: Up to this many collectives cells are wide enough for an outline.
_OUTLINED = 80
_SHADES = 64

_WORDS = {
    "wait": ("Who waits at which collective", "from a rank's arrival to that of the last"),
    "lateness": ("Who is late to which collective", "arrival after the median of its ranks"),
}


@draws("collectives")
def collectives(
    frame: pd.DataFrame,
    *,
    measure: Literal["wait", "lateness"] = "wait",
    late: Iterable[int] | None = None,
    width: int | None = None,
    theme: str | Theme = "light",
    title: str = "",
) -> Any:
    """Draw how long each rank waits at each collective, or how late it comes.

    Parameters
    ----------
    frame : DataFrame, TraceSet, Trace or Selection
        Of `hta_widgets.analysis.collectives`.
    measure : {"wait", "lateness"}, default "wait"
        Wait for the last rank, or arrival after the median of the collective's ranks; who comes
        before that counts as 0.
    late : iterable of int, optional
        Ranks to mark, as in `arrivals`.
    width : int, optional
        In CSS pixels; by default what the page gives.
    theme : {"light", "dark"} or Theme, default "light"
    title : str

    Returns
    -------
    bokeh.plotting.figure
        A row a rank and a cell a collective, in order of time; its source has the frame's rows.
        With more than 400 collectives each cell is the longest of several. With more than 12 000
        cells they are one image, and the source has a row a rank.

    Raises
    ------
    ValueError
        For an unknown measure.

    Examples
    --------
    >>> charts.collectives(analysis.collectives(traces))  # doctest: +SKIP
    """
    require_measure(measure, _WORDS)
    colors = theme_of(theme)
    title = title or _WORDS[measure][0]
    if frame.empty:
        return blank(frame, title, colors, width)
    needed = ("rank", "collective", "name", "size_bytes", "last_rank", "busbw_gb_s")
    require(frame, "collectives", *needed, "arrival_ns", "wait_ns", "transfer_ns")
    grid = _Grid(frame, measure, late)
    if len(grid.cells) > _MOST_CELLS or len(grid.ranks) > NAMED_ROWS:
        return _image(frame, grid, colors, width, title)
    return _cells(frame, grid, colors, width, title)


class _Grid:
    """The rows of a frame by rank and cell."""

    def __init__(self, frame: pd.DataFrame, measure: str, late: Iterable[int] | None) -> None:
        data = frame.reset_index(drop=True)
        data["late_ns"] = data["arrival_ns"] - median_of(data["arrival_ns"], data["collective"])
        self.measure = "wait_ns" if measure == "wait" else "late_ns"
        self.defined = _WORDS[measure][1]
        self.ranks = np.unique(data["rank"])
        self.marked = last_often(data, late)
        #: What these rows alone say is no judgement.
        self.is_judged = late is not None
        numbers = np.unique(data["collective"])
        self.count = len(numbers)
        self.fold = max(1, -(-self.count // _MOST_COLUMNS))
        self.columns = -(-self.count // self.fold)
        data["row"] = np.searchsorted(self.ranks, data["rank"])
        data["left"] = np.searchsorted(numbers, data["collective"]) // self.fold * self.fold
        data["shown_ns"] = data[self.measure].clip(lower=0)
        self.spread = data.groupby("collective")["arrival_ns"].agg(np.ptp)
        self.total = data.groupby("row")["shown_ns"].sum().to_numpy()
        self.most = data.groupby("row")["shown_ns"].max().to_numpy()
        self.all = data
        if self.fold > 1:
            # The row of the longest stands for its cell.
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

    def subtitle(self, frame: pd.DataFrame) -> str:
        names = self.names()
        each = f"each cell the longest of {count(self.fold)}" if self.fold > 1 else ""
        rest = f"{count(self.count)} collectives in order of time"
        return sentences(
            f"{self.defined}, {rest}" + (f", {each}" if each else ""),
            f"first and last lie {duration(float(self.spread.median()))} apart in the median,"
            f" at most {duration(float(self.spread.max()))}",
            _prefixed("in all ", extremes(names, self.total, duration)),
            unmatched(frame),
        )

    def ticks(self) -> list[tuple[float, str]]:
        return [(at, count(at)) for at in nice_ticks(float(self.count), 4) if at == int(at)]

    def end(self) -> float:
        return float(self.columns * self.fold)


def _prefixed(prefix: str, text: str) -> str:
    return prefix + text if text else ""


def _key(grid: _Grid, colors: Theme) -> list[Bars]:
    """Return what the colours mean; nothing where there is nothing to see."""
    if not grid.total.any():
        return []
    verb = grid.verb
    return [
        Bars(0.0, "", colors.waiting[-2], f"{verb} {duration(grid.darkest)} or more"),
        Bars(0.0, "", colors.waiting[2], "less", line=colors.waiting[2]),
        Bars(0.0, "", colors.lane, "nothing", line=colors.rule),
    ]


def _cells(frame: pd.DataFrame, grid: _Grid, colors: Theme, width: int | None, title: str) -> Any:
    data = grid.cells
    data["right"] = data["left"] + grid.fold
    shades = np.array(ramp(colors.waiting, _SHADES))
    depth = np.clip(data["shown_ns"].to_numpy(float) / grid.darkest, 0, 1)
    data["fill"] = shades[np.ceil(depth * (len(shades) - 1)).astype(int)]
    data["is_last"] = (data["last_rank"] == data["rank"]) & are_whole(data) & (grid.fold == 1)
    outlined = grid.columns <= _OUTLINED and bool(grid.total.any())
    flagged = data["is_last"].to_numpy(bool) & outlined
    data["line"] = np.where(flagged, colors.late, data["fill"])
    if grid.measure == "wait_ns":
        data.loc[flagged, "fill"] = colors.late_fill
    if outlined:
        # Outlines lie over the cells beside them.
        data = data.sort_values("is_last", kind="stable").reset_index(drop=True)
    spread = grid.spread
    for name in ("wait_ns", "transfer_ns", "late_ns"):
        data[f"{name}_text"] = [duration(each) for each in data[name]]
    data["spread_text"] = [duration(spread[number]) for number in data["collective"]]
    data["size_text"] = ["–" if each < 0 else size(each) for each in data["size_bytes"]]
    data["bandwidth_text"] = [rate(each) for each in data["busbw_gb_s"]]
    data["last_text"] = ["several" if each < 0 else f"rank {each}" for each in data["last_rank"]]
    data["name"] = data["name"].astype(str)
    names = grid.names()
    key = _key(grid, colors)
    if flagged.any() and key:
        key.append(Bars(0.0, "", colors.late_fill, "arrives last", line=colors.late))
    figure = rows_chart(
        data,
        names,
        [Bars("left", "right", "@fill", line="@line")],
        x_end=grid.end(),
        title=title,
        subtitle=grid.subtitle(frame),
        theme=colors,
        width=width,
        head=" ",
        ticks=grid.ticks(),
        columns=[Column("in all", [duration(each) for each in grid.total])],
        legend=key,
        tooltip=Tooltip(
            "rank @{rank} · @{name}",
            [
                ("waits", "@{wait_ns_text}"),
                ("against the median", "@{late_ns_text}"),
                ("last", "@{last_text}"),
                ("first to last arrival", "@{spread_text}"),
                ("collective", "@{collective}"),
                ("transfer", "@{transfer_ns_text}"),
                ("size", "@{size_text}"),
                ("bus bandwidth", "@{bandwidth_text}"),
            ],
        ),
    )
    if not outlined:
        _mark_rows(figure, grid, colors, 0.4)
    return figure


def _mark_rows(figure: Any, grid: _Grid, colors: Theme, half: float) -> None:
    """Outline the rows of late ranks, where single cells have no room for an outline."""
    rows = np.searchsorted(grid.ranks, grid.marked)
    ink = colors.late if grid.is_judged else colors.ink
    for color, thick in ((colors.bg, 3.5), (ink, 1.5)):
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


def _image(frame: pd.DataFrame, grid: _Grid, colors: Theme, width: int | None, title: str) -> Any:
    rows = len(grid.ranks)
    pitch = 14 if rows <= NAMED_ROWS else max(1, 640 // rows)
    # Names reach above the first row.
    above = 8
    figure = new_figure(
        title,
        grid.subtitle(frame),
        colors,
        width,
        frame_height=rows * pitch + above,
        x_range=models.Range1d(0, grid.end()),
        y_range=models.Range1d(rows - 0.5, -0.5 - above / pitch),
        tools=[models.BoxSelectTool(dimensions="height", overlay=brush(colors)), models.TapTool()],
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
            fill_color=colors.lane,
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
            palette=ramp(colors.waiting, 256),
            low=0,
            high=grid.darkest / 1e3,
            nan_color="rgba(0, 0, 0, 0)",
        ),
    )
    _per_rank(figure, grid, colors)
    add_tooltip(
        figure,
        [picture],
        colors,
        "rank @{of_rank} · collective @{which}",
        [(grid.verb, "@{shown_us}{0,0.0} µs"), ("last", "rank @{last}")],
    )
    _mark_rows(figure, grid, colors, max(0.5, 2 / pitch))
    legend = legend_of(figure, _key(grid, colors), colors)
    named, numbers = _names(grid, pitch)
    figure.yaxis.ticker = models.FixedTicker(ticks=[row for row, _ in named])
    figure.yaxis.major_label_text_font = FONT
    side = models.LinearAxis(
        ticker=models.FixedTicker(ticks=[row for row, _ in named]),
        major_label_overrides=numbers,
    )
    plain_axis(side, colors)
    figure.add_layout(side, "right")
    keep_fitting(figure, width=width, names=named, columns=[(side, 0)], legend=legend)
    return figure


def _per_rank(figure: Any, grid: _Grid, colors: Theme) -> None:
    """Add what taps and brushes select: a row a rank, seen only where it is selected."""
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
        # Less than a row, so that a tap is on one alone.
        height=0.9,
        source=models.ColumnDataSource(columns_of(data)),
        fill_alpha=0,
        line_alpha=0,
        selection_line_alpha=1,
        selection_line_color=colors.brush_line,
        nonselection_fill_alpha=0,
        nonselection_line_alpha=0,
    )


def _names(grid: _Grid, pitch: int) -> tuple[list[tuple[float, str]], dict[float, str]]:
    """Return the names that have room, late ranks first, and what those ranks wait in all."""
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
