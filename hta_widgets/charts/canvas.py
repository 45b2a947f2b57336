"""What all charts share: a figure with its words and its tools."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import pandas as pd

from hta_widgets.text import count

from hta_widgets.charts.across_ranks import listed
from hta_widgets.charts.bokeh_modules import models
from hta_widgets.charts.bokeh_modules import plotting
from hta_widgets.charts.fitting import drawn
from hta_widgets.charts.fitting import keep_fitting
from hta_widgets.charts.in_notebooks import shows_itself
from hta_widgets.charts.theme import FONT
from hta_widgets.charts.theme import Theme

__all__ = [
    "add_tooltip",
    "blank",
    "mixed",
    "new_figure",
    "plain_axis",
    "sentences",
    "unmatched",
]


def mixed(color: str, ground: str, part: float) -> str:
    """Return a colour as it looks where `part` of it covers a ground.

    Marks that are drawn through each other's edges would show seams.
    """
    channels = [(int(color[at : at + 2], 16), int(ground[at : at + 2], 16)) for at in (1, 3, 5)]
    return "#" + "".join(f"{round(part * a + (1 - part) * b):02x}" for a, b in channels)


def sentences(*parts: str) -> str:
    """Join what is said below the title."""
    return " · ".join(part for part in parts if part)


def unmatched(
    frame: pd.DataFrame, kinds: Iterable[str] = ("compute", "communication", "memory")
) -> str:
    """Say which kinds of events matched none, which ranks are not there, and what else is noted."""
    matched = frame.attrs.get("matched", {})
    none = [key for key, found in matched.items() if found == 0 and key in kinds]
    said = [f"no {' and no '.join(key.replace('_', ' ') for key in none)} events matched"]
    missing = [int(rank) for rank in frame.attrs.get("missing_ranks", [])]
    nothing = f"nothing on {listed(missing)}" if missing else ""
    return sentences(*(said if none else []), nothing, str(frame.attrs.get("note", "")))


def new_figure(
    title: str,
    subtitle: str,
    theme: Theme,
    width: int | None,
    *,
    frame_height: int,
    x_range: Any,
    y_range: Any,
    tools: Sequence[Any] = (),
    toolbar: bool = False,
) -> Any:
    """Return a figure with its words above, and nothing in it.

    Parameters
    ----------
    title, subtitle : str
        What the chart is about; how its measure is defined, and what must be known of it.
    theme : Theme
    width : int or None
        In CSS pixels; None takes what the page gives.
    frame_height : int
        Height of the marks' area.
    x_range, y_range : Range
    tools : sequence of Tool
        The first is active.
    toolbar : bool, default False
        Shown while the pointer is over the chart.
    """
    sizing = {"width": int(width)} if width else {"sizing_mode": "stretch_width", "min_width": 240}
    figure = plotting.figure(
        height=None,
        frame_height=int(frame_height),
        x_range=x_range,
        y_range=y_range,
        tools=list(tools),
        toolbar_location="right" if toolbar else None,
        background_fill_color=theme.bg,
        border_fill_color=theme.bg,
        outline_line_color=None,
        min_border=4,
        frame_align=False,
        lod_threshold=None,
        # The page would shine through the seams between the frame and its borders.
        styles={"background-color": theme.bg},
        **sizing,
    )
    figure.toolbar.logo = None
    figure.toolbar.autohide = True
    figure.title = models.Title(
        text=drawn(title),
        text_font=FONT,
        text_font_size="13px",
        text_font_style="bold",
        text_color=theme.ink,
        text_line_height=1.3,
        standoff=4,
    )
    if subtitle:
        figure.add_layout(_small(subtitle, theme), "above")
    for axis in figure.axis:
        plain_axis(axis, theme)
    figure.grid.grid_line_color = None
    return shows_itself(figure)


def _small(text: str, theme: Theme, size: str = "11px", **style: Any) -> Any:
    return models.Title(
        text=drawn(text),
        text_font=FONT,
        text_font_size=size,
        text_font_style="normal",
        text_color=theme.ink3,
        text_line_height=1.3,
        standoff=6,
        **style,
    )


def plain_axis(axis: Any, theme: Theme) -> None:
    """Draw an axis as labels alone."""
    axis.update(
        axis_line_color=None,
        major_tick_line_color=None,
        minor_tick_line_color=None,
        major_tick_in=0,
        major_tick_out=0,
        major_label_standoff=6,
        major_label_text_font=FONT,
        major_label_text_font_size="11px",
        major_label_text_color=theme.ink2,
    )


def add_tooltip(
    figure: Any,
    renderers: Sequence[Any],
    theme: Theme,
    heading: str,
    rows: Sequence[tuple[str, str]],
) -> None:
    """Show what is under the pointer.

    Values come from the source as text: Bokeh escapes them, so names of events are never markup.

    Parameters
    ----------
    heading : str
        Such as ``@{name}``.
    rows : sequence of (str, str)
        What, and a template such as ``@{sum_ns_text}``.
    """
    cells = "".join(
        f'<div style="color:{theme.ink3}">{what}</div>'
        f'<div style="text-align:right">{template}</div>'
        for what, template in rows
    )
    html = (
        f'<div style="background:{theme.bg};color:{theme.ink};font:11px/14px {FONT};margin:-6px;'
        'padding:8px;max-width:340px;overflow-wrap:anywhere;font-variant-numeric:tabular-nums">'
        f'<div style="font-weight:600;margin-bottom:4px;max-height:140px;overflow:hidden">{heading}'
        '</div><div style="display:grid;grid-template-columns:auto auto;column-gap:12px">'
        f"{cells}</div></div>"
    ).replace("\n", " ")
    figure.add_tools(
        models.HoverTool(
            renderers=list(renderers),
            tooltips=html,
            point_policy="follow_mouse",
            attachment="horizontal",
        )
    )


def blank(
    frame: pd.DataFrame, title: str, theme: Theme, width: int | None, *, note: str = ""
) -> Any:
    """Return a figure that says why there is nothing to draw."""
    said = note or str(frame.attrs.get("note", "")) or "nothing to draw"
    matched = frame.attrs.get("matched", {})
    counts = ", ".join(f"{count(found)} {key.replace('_', ' ')}" for key, found in matched.items())
    figure = new_figure(
        title,
        sentences(said[:1].upper() + said[1:], f"matched: {counts}" if counts else ""),
        theme,
        width,
        frame_height=8,
        x_range=models.Range1d(0, 1),
        y_range=models.Range1d(0, 1),
    )
    figure.axis.visible = False
    columns: dict[str, list[Any]] = {str(column): [] for column in frame.columns}
    source = models.ColumnDataSource({"x": [], **columns})
    figure.text(x="x", y=0, text="x", source=source)
    keep_fitting(figure, width=width)
    return figure
