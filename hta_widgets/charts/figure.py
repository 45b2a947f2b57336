"""Bokeh figures in the style of the package, their layout, and export to HTML."""

from __future__ import annotations

import math
import re
import textwrap
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from html import escape
from importlib import import_module
from os import PathLike
from pathlib import Path
from typing import Any, Literal, TypeAlias

import pandas as pd

from hta_widgets.arguments import check_arguments
from hta_widgets.charts.theme import FONT, LIGHT, Theme, ThemeName, color_channels, theme_of
from hta_widgets.errors import TraceError
from hta_widgets.facts import facts, note_text
from hta_widgets.files import write_text
from hta_widgets.text import count


class _LazyModule:
    """A module that is imported on first access to one of its attributes."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, name: str) -> Any:
        return getattr(import_module(self._name), name)


embed: Any = _LazyModule("bokeh.embed")
models: Any = _LazyModule("bokeh.models")
plotting: Any = _LazyModule("bokeh.plotting")
resources: Any = _LazyModule("bokeh.resources")

#: `bokeh.plotting.figure` and `bokeh.models.LayoutDOM`. The classes themselves are not used because
#: importing Bokeh is slow and its type hints reject arguments that it accepts.
Figure: TypeAlias = Any
LayoutDOM: TypeAlias = Any

#: Maps each BokehJS script to the cell whose output includes it and the id of that execution. The
#: scripts are large, so other outputs do not include them again but wait until they are loaded.
_loaded_by: dict[str, tuple[str | None, str | None]] = {}


def display_in_notebooks(chart: Any) -> Any:
    """Make notebooks display a chart as a figure. By default, they list its properties."""

    def bundle(**_: object) -> dict[str, str]:
        return {"text/html": html_of(chart), "text/plain": repr(chart)}

    chart._repr_mimebundle_ = bundle
    return chart


def html_of(chart: LayoutDOM) -> str:
    """Return HTML for a chart that needs neither a network nor an earlier setup call.

    The first chart of a Jupyter kernel includes BokehJS. Later charts wait until it is loaded, so
    the order in which the page runs the scripts does not matter.
    """
    from bokeh.core.json_encoder import serialize_json  # takes a while
    from bokeh.core.types import ID
    from bokeh.embed.bundle import bundle_for_objs_and_resources
    from bokeh.util.serialization import make_globally_unique_id

    place = f"hta-chart-{make_globally_unique_id()}"
    item = str(serialize_json(embed.json_item(chart, ID(place)))).replace("</", "<\\/")
    cell, run = _running_cell()
    scripts = []
    for script in bundle_for_objs_and_resources([chart], resources.INLINE).js_raw:
        loaded_cell, loaded_run = _loaded_by.get(script, (None, None))
        # Running a cell again discards its output, so the new output must include the script again.
        is_lost = cell is not None and cell == loaded_cell and run != loaded_run
        if script not in _loaded_by or is_lost:
            _loaded_by[script] = cell, run
            scripts.append(script)
    library = "".join(f"<script>{script}</script>" for script in scripts)
    return (
        f'{library}<div id="{escape(place)}"></div><script>(function () {{'
        f"const item = {item}; let tries = 0;"
        "(function draw() {"
        "if (window.Bokeh && window.Bokeh.embed) { window.Bokeh.embed.embed_item(item); return; }"
        "if (++tries < 100) { setTimeout(draw, 100); return; }"
        f'document.getElementById("{place}").textContent = '
        '"BokehJS is missing: the output of the first chart includes it. '
        'Restart the kernel and run the notebook again.";'
        "})(); })();</script>"
    )


def _running_cell() -> tuple[str | None, str | None]:
    from IPython.core.getipython import get_ipython  # only needed in notebooks

    kernel = getattr(get_ipython(), "kernel", None)
    if kernel is None:
        return None, None
    parent = kernel.get_parent("shell")
    return parent.get("metadata", {}).get("cellId"), parent.get("header", {}).get("msg_id")


_SPACING_PX = 8


def row(*charts: LayoutDOM) -> LayoutDOM:
    """Place charts side by side, sharing the available width.

    Parameters
    ----------
    *charts : bokeh model
        Charts, or rows and columns of charts.

    Returns
    -------
    bokeh.models.Row
        Like a chart, it can be displayed in a notebook or passed to `to_html`.

    Examples
    --------
    >>> charts.row(charts.operators(ops), charts.kernel_breakdown(kernels))  # doctest: +SKIP
    """
    return _lay_out(models.Row, charts)


def column(*charts: LayoutDOM) -> LayoutDOM:
    """Place charts below each other, with the parameters of `row`.

    Returns
    -------
    bokeh.models.Column
    """
    return _lay_out(models.Column, charts)


def _lay_out(layout: Any, charts: tuple[LayoutDOM, ...]) -> LayoutDOM:
    _require_models(charts)
    return display_in_notebooks(
        layout(children=list(charts), spacing=_SPACING_PX, sizing_mode="stretch_width")
    )


def _require_models(charts: tuple[LayoutDOM, ...]) -> None:
    for chart in charts:
        if not isinstance(chart, models.LayoutDOM):
            raise TraceError(
                f"a {type(chart).__name__} is not a chart",
                remedy="Pass a chart made by hta_widgets.charts.",
            )


#: Width in px assumed for a figure of full width until the browser measures it.
ASSUMED_WIDTH = 720
#: Estimated average width of a letter in px.
LETTER_WIDTH = 6.4


@cache
def script(name: str) -> str:
    """Return the text of ``scripts/NAME.js``, the body of a function that charts call."""
    return Path(__file__).with_name("scripts").joinpath(f"{name}.js").read_text("utf-8")


def _after_layout(code: str) -> str:
    """Defer code until after a layout, during which Bokeh may fail to draw changes."""
    return f"setTimeout(() => {{{code}}}, 0);"


#: Control characters and whitespace, except for the narrow spaces used in numbers.
_BREAKS = re.compile(r"[\x00-\x20\x7f\x85\u2028\u2029]+")
_MATH = re.compile(r"\$(?=\$)|\\(?=[\[\](){}])")


def escape_text(text: str) -> str:
    """Convert a string to a single line that Bokeh does not interpret as a formula."""
    flat = _BREAKS.sub(" ", str(text)).strip(" ")
    return _MATH.sub(lambda match: match[0] + "\u200b", flat)


def keep_fitting(
    figure: Figure,
    *,
    width: int | None,
    names: Sequence[tuple[float, str]] = (),
    columns: Sequence[tuple[Any, int]] = (),
    labels: Any = None,
    legend: Any = None,
    timed: bool = False,
) -> None:
    """Fit the figure's texts to its width: first by an estimate, then exactly in the browser.

    `names` are row labels, `columns` the axes at the right with their minimum widths, and `labels`
    the data source of texts in bars. `timed` figures have the same borders as the timeline.
    """
    assumed_px = width or ASSUMED_WIDTH
    gutter_px = _gutter_px(assumed_px, names, timed=timed)
    figure.min_border_left = gutter_px
    if timed:
        figure.min_border_right = 8 if assumed_px < 900 else 128
    axis = figure.yaxis[0] if len(figure.yaxis) else None
    if axis is not None and names:
        letters = max(2, int((gutter_px - 12) / LETTER_WIDTH))
        axis.major_label_overrides = _short_labels(names, letters)
    titles = _wrap_titles(figure, assumed_px, gutter_px)
    for column, min_width in columns:
        column.visible = assumed_px >= min_width
    if legend is not None:
        longest = max(len(item.label.value or "") for item in legend.items)
        in_a_line = (assumed_px - 12) // (longest * LETTER_WIDTH + 26)
        legend.ncols = int(max(1, min(len(legend.items), in_a_line)))
        legend.location = (4 - gutter_px, 0)
    if labels is not None and len(labels.data["full"]):
        inner_px = max(40.0, assumed_px - gutter_px - 60.0 * len(columns))
        _hide_long_texts(labels, inner_px / abs(figure.x_range.end - figure.x_range.start))
    is_log = isinstance(figure.x_scale, models.LogScale)
    fit = models.CustomJS(
        args={
            "fig": figure,
            "axis": axis,
            "names": [
                [position, "\n".join(map(escape_text, text.split("\n")))]
                for position, text in names
            ],
            "words": titles,
            "columns": [list(entry) for entry in columns],
            "labels": labels,
            "legend": legend,
            "timed": timed,
            # The script thins out these ticks in narrow figures. It leaves logarithmic axes alone.
            "ticks": [] if is_log else sorted(getattr(figure.xaxis[0].ticker, "ticks", None) or []),
            "family": FONT,
        },
        code=_after_layout(script("fit")),
    )
    figure.js_on_change("outer_width", fit)
    figure.js_on_change("inner_width", fit)


def _hide_long_texts(labels: Any, px_per_unit: float) -> None:
    labels.data["text"] = [
        text if len(text) * LETTER_WIDTH + 8 <= span * px_per_unit else ""
        for text, span in zip(labels.data["full"], labels.data["span"], strict=True)
    ]


def _gutter_px(width_px: int, names: Sequence[tuple[float, str]], *, timed: bool) -> int:
    """Return the width reserved for row labels, the same as in the timeline for `timed` figures."""
    if timed:
        return 104 if width_px < 760 else 164
    if not names:
        return 4
    longest = max(len(text) for _, text in names)
    return int(min(longest * LETTER_WIDTH + 14, max(72, width_px * 0.36)))


def _wrap_titles(figure: Figure, width_px: int, gutter_px: int) -> list[list[Any]]:
    """Wrap the titles of a figure; return each one with its full text and its CSS font."""
    subtitles = [title for title in figure.above if isinstance(title, models.Title)]
    titles = [[title, title.text, f"{title.text_font_size} "] for title in subtitles]
    titles.append([figure.title, figure.title.text, "bold 13px "])
    letters = max(int((width_px - 12) / LETTER_WIDTH), 1)
    for title, text, _ in titles:
        title.offset = 4 - gutter_px
        title.text = textwrap.fill(text, letters, break_long_words=False, break_on_hyphens=False)
    return titles


def _short_labels(names: Sequence[tuple[float, str]], letters: int) -> dict[float, str]:
    """Return names keyed by position; long lines are cut, and equal results are numbered."""
    occurrences: Counter[str] = Counter()
    labels = {}
    for position, text in names:
        joined = text.replace("\n", " · ")
        lines = [joined] if len(joined) <= letters else text.split("\n")
        *first, last = map(escape_text, lines)
        head = [_cut_middle(line, letters) for line in first]
        label = "\n".join([*head, _cut_middle(last, letters)])
        occurrences[label] += 1
        is_repeated = occurrences[label] > 1 and "…" in label
        end = f" ({occurrences[label]})" if is_repeated else ""
        labels[position] = "\n".join([*head, _cut_middle(last, letters - len(end)) + end])
    return labels


def _cut_middle(text: str, letters: int) -> str:
    """Cut a text in the middle, because long kernel names often differ only at their ends."""
    if len(text) <= letters:
        return text
    head = math.ceil(letters * 6 / 10)
    tail = letters - 1 - head
    return f"{text[:head]}…{text[len(text) - tail :]}"


def text_on(color: str) -> str:
    """Return a text color that is legible on `color`: dark on light colors, else light."""
    red, green, blue = ((channel / 255) ** 2.2 for channel in color_channels(color))
    luminance = 0.2126 * red + 0.7152 * green + 0.0722 * blue
    return LIGHT.ink if luminance > 0.3 else LIGHT.bg


def join_sentences(*parts: str) -> str:
    """Join the non-empty parts of a subtitle with middle dots."""
    return " · ".join(part for part in parts if part)


def unmatched_note(
    frame: pd.DataFrame, kinds: Iterable[str] = ("compute", "communication", "memory")
) -> str:
    """Return a note that lists the `kinds` without matching events, plus the frame's own note."""
    matched = frame.attrs.get("matched", {})
    without = [
        f"no {facts('kind_names').get(kind, kind)}"
        for kind, matches in matched.items()
        if matches == 0 and kind in kinds
    ]
    return join_sentences(" and ".join(without), str(frame.attrs.get("note", "")))


@dataclass(frozen=True)
class FigureStyle:
    """Title, theme and width of a figure; a width of None means the full width of the page."""

    title: str
    theme: Theme
    width: int | None
    subtitle: str = ""

    def with_subtitle(self, *sentences: str) -> FigureStyle:
        """Return a copy whose subtitle consists of the non-empty sentences."""
        return replace(self, subtitle=join_sentences(*sentences))


def new_figure(
    style: FigureStyle,
    *,
    frame_height: int,
    x_range: object,
    y_range: object,
    select: Literal["width", "height", "both"] | None = None,
    tools: Sequence[Any] = (),
    axis_type: Literal["linear", "log"] = "linear",
) -> Figure:
    """Return a figure with a title and no marks; dragging selects in the directions of `select`."""
    theme, width = style.theme, style.width
    if select is not None:
        selector = models.BoxSelectTool(dimensions=select, overlay=_selection_box(theme))
        tools = [selector, models.TapTool(), *tools]
    sizing = {"width": int(width)} if width else {"sizing_mode": "stretch_width", "min_width": 240}
    figure = plotting.figure(
        height=None,
        frame_height=int(frame_height),
        x_range=x_range,
        y_range=y_range,
        x_axis_type=axis_type,
        y_axis_type=axis_type,
        tools=list(tools),
        toolbar_location=None,
        background_fill_color=theme.bg,
        border_fill_color=theme.bg,
        outline_line_color=None,
        min_border=4,
        frame_align=False,
        lod_threshold=None,
        # Otherwise the page is visible through seams between the frame and its borders.
        styles={"background-color": theme.bg},
        **sizing,
    )
    figure.toolbar.logo = None
    figure.toolbar.autohide = True
    figure.title = _title(style.title, "13px", "bold", theme.ink, standoff=4)
    if style.subtitle:
        subtitle = _title(style.subtitle, "11px", "normal", theme.ink3, standoff=6)
        figure.add_layout(subtitle, "above")
    for axis in figure.axis:
        plain_axis(axis, theme)
    figure.grid.grid_line_color = None
    return display_in_notebooks(figure)


def _selection_box(theme: Theme) -> Any:
    return models.BoxAnnotation(
        level="overlay",
        visible=False,
        syncable=False,
        left=float("nan"),
        right=float("nan"),
        top=float("nan"),
        bottom=float("nan"),
        fill_color=theme.brush_line,
        fill_alpha=0.12,
        line_color=theme.brush_line,
        line_width=2,
        line_alpha=1,
        line_dash="solid",
    )


def _title(text: str, size: str, weight: str, color: str, *, standoff: int) -> Any:
    return models.Title(
        text=escape_text(text),
        text_font=FONT,
        text_font_size=size,
        text_font_style=weight,
        text_color=color,
        text_line_height=1.3,
        standoff=standoff,
    )


def draw_areas(
    figure: Figure,
    source: object,
    color: str,
    *,
    bottom: str | float,
    top: str | float,
    selected_alpha: float,
) -> Any:
    """Draw invisible areas with tooltips, one per time span; selected areas become visible."""
    return figure.quad(
        left="time_ns",
        right="until_ns",
        top=top,
        bottom=bottom,
        source=source,
        fill_color=color,
        fill_alpha=0,
        line_color=None,
        selection_fill_alpha=selected_alpha,
        nonselection_fill_alpha=0,
    )


def plain_axis(axis: Any, theme: Theme) -> None:
    """Style an axis to show its labels but no lines and ticks."""
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


def side_axis(
    figure: Figure, ticks: Sequence[float], labels: Mapping[float, str], theme: Theme
) -> Any:
    """Add an axis with the given labels at the right of a figure, and return it."""
    axis = models.LinearAxis(
        ticker=models.FixedTicker(ticks=list(ticks)), major_label_overrides=labels
    )
    plain_axis(axis, theme)
    figure.add_layout(axis, "right")
    return axis


def draw_row_texts(figure: Figure, source: object, *, x: str | float, color: str) -> None:
    """Draw the texts of a data source in their rows."""
    figure.text(
        x=x,
        y="row",
        text="text",
        text_color=color,
        source=source,
        x_offset=4,
        text_baseline="middle",
        text_font={"value": FONT},
        text_font_size="11px",
    )


def add_ground(figure: Figure, theme: Theme, **sides: float) -> None:
    """Fill a rectangle below all marks with the color of empty lanes."""
    figure.add_layout(
        models.BoxAnnotation(
            **sides, fill_color=theme.lane, fill_alpha=1, line_color=None, level="underlay"
        )
    )


def add_tooltip(
    figure: Figure,
    renderers: Sequence[Any],
    theme: Theme,
    heading: str,
    rows: Sequence[tuple[str, str]],
) -> None:
    """Add a tooltip that shows values of the mark under the pointer.

    Bokeh escapes values from the data source, so event names are never interpreted as markup.
    """
    cells = "".join(
        f'<div style="color:{theme.ink3}">{label}</div>'
        f'<div style="text-align:right">{template}</div>'
        for label, template in rows
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


def empty_figure(frame: pd.DataFrame, style: FigureStyle, *, note: str = "") -> Figure:
    """Return a figure without marks whose subtitle states why it is empty."""
    reason = note or str(frame.attrs.get("note", "")) or note_text("nothing")
    matched = frame.attrs.get("matched", {})
    counts = ", ".join(
        f"{count(matches)} {kind.replace('_', ' ')}" for kind, matches in matched.items()
    )
    figure = new_figure(
        style.with_subtitle(
            reason[:1].upper() + reason[1:], f"matched: {counts}" if counts else ""
        ),
        frame_height=8,
        x_range=models.Range1d(0, 1),
        y_range=models.Range1d(0, 1),
    )
    figure.axis.visible = False
    columns: dict[str, list[Any]] = {str(column): [] for column in frame.columns}
    source = models.ColumnDataSource({"x": [], **columns})
    figure.text(x="x", y=0, text="x", source=source)
    keep_fitting(figure, width=style.width)
    return figure


@check_arguments
def to_html(
    chart: object, path: str | PathLike[str], *, title: str = "", theme: ThemeName | Theme = "light"
) -> Path:
    """Write a chart or a layout of charts to an HTML file that works offline.

    Parameters
    ----------
    chart : bokeh model
    path : str or PathLike
        An existing file is overwritten.
    title : str, optional
        Title of the page.
    theme : {"light", "dark"} or Theme, default "light"
        Colors of the page around the chart.

    Returns
    -------
    Path

    Examples
    --------
    >>> charts.to_html(charts.operators(frame), "operators.html")  # doctest: +SKIP
    """
    colors = theme_of(theme)
    _require_models((chart,))
    page = embed.file_html(chart, resources.INLINE, escape(title or "Chart"))
    ground = f"<style>html,body{{background:{colors.bg};margin:0;padding:8px}}</style>"
    return Path(write_text(path, page.replace("</head>", f"{ground}</head>", 1)))


def keep_dominant(figure: Figure, segments: object, causes: Mapping[int, str]) -> Any:
    """Return a pixel source to draw instead of segments; a script updates it on each zoom.

    In row 0, each pixel shows the cause that takes most of its time, or none if even more time has
    no cause. Each other row shows the segments of one cause, at least a pixel wide.
    """
    columns = ("left", "right", "row", "bound_by", "thin")
    pixels = models.ColumnDataSource({name: [] for name in columns})
    arguments = {
        "fig": figure,
        "segments": segments,
        "pixels": pixels,
        "causes": [list(entry) for entry in causes.items()],
    }
    on_resize = models.CustomJS(args=arguments, code=_after_layout(script("pixels")))
    figure.js_on_change("inner_width", on_resize)
    on_zoom = models.CustomJS(args=arguments, code=script("pixels"))
    figure.x_range.js_on_change("start", on_zoom)
    figure.x_range.js_on_change("end", on_zoom)
    return pixels
