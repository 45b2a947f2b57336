"""Figures whose page lays out the words: no axes, no script of their own, and only data moves.

A dashboard draws its charts through one BokehJS (`hta_widgets.widgets.bokeh_asset`) and gives them
new columns at every brush. Laying out axes and titles anew would take longer than all else, and
the scripts that fit a chart that stands alone to its width need ``eval``, which saved pages forbid.
So here the frame fills the figure, and every word is a mark: `js/src/dash/charts` places them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any
from weakref import WeakKeyDictionary

from hta_widgets.charts.bokeh_modules import models
from hta_widgets.charts.bokeh_modules import plotting
from hta_widgets.charts.theme import FONT
from hta_widgets.charts.theme import Theme

__all__ = [
    "add_boxes",
    "add_key",
    "add_rules",
    "add_words",
    "content_of",
    "is_sheet",
    "laid_out_by_the_page",
    "new_sheet",
]

_by_page: ContextVar[bool] = ContextVar("_by_page", default=False)
_contents: WeakKeyDictionary[Any, dict[str, Any]] = WeakKeyDictionary()


@contextmanager
def laid_out_by_the_page() -> Iterator[None]:
    """Let charts made in here be sheets."""
    token = _by_page.set(True)
    try:
        yield
    finally:
        _by_page.reset(token)


def is_sheet() -> bool:
    """Whether charts are made for a page that lays them out."""
    return _by_page.get()


def content_of(figure: Any) -> dict[str, Any]:
    """Return what a sheet shows, before it is laid out: rows, columns, scale and words."""
    return _contents[figure]


def new_sheet(theme: Theme, content: Mapping[str, Any]) -> Any:
    """Return an empty figure that is all frame, with the sources of its words.

    Its ``words``, ``plates`` and ``rules`` are filled by the page.
    """
    figure = plotting.figure(
        width=400,
        height=200,
        x_range=models.Range1d(0, 1, name="x"),
        y_range=models.Range1d(1, 0, name="y"),
        tools="",
        toolbar_location=None,
        min_border=0,
        background_fill_color=theme.bg,
        border_fill_color=theme.bg,
        outline_line_color=None,
        frame_align=False,
        lod_threshold=None,
        styles={"background-color": theme.bg},
    )
    figure.axis.visible = False
    figure.grid.visible = False
    _contents[figure] = dict(content)
    return figure


def add_rules(figure: Any) -> None:
    """Add what lies below the marks: the lines of the scale."""
    figure.segment(
        x0="x0",
        x1="x1",
        y0="y0",
        y1="y1",
        line_color="color",
        line_width=1,
        source=_empty("rules", "x0", "x1", "y0", "y1", "color"),
        level="underlay",
    )


def add_boxes(figure: Any, name: str, **style: Any) -> None:
    """Add rectangles above the marks; the colours of their fills come with them."""
    figure.quad(
        left="left",
        right="right",
        top="top",
        bottom="bottom",
        source=_empty(name, "left", "right", "top", "bottom", "color"),
        level="annotation",
        **{"fill_color": "color", "line_color": None, **style},
    )


def add_words(figure: Any) -> None:
    """Add the words, above all marks, and the plates below some of them."""
    add_boxes(figure, "plates")
    figure.text(
        x="x",
        y="y",
        text="text",
        text_color="color",
        text_align="align",
        text_font_style="style",
        text_font_size="size",
        text_font={"value": FONT},
        text_baseline="middle",
        source=_empty("words", "x", "y", "text", "color", "align", "style", "size"),
        level="annotation",
    )


def add_key(figure: Any, number: int, **style: Any) -> None:
    """Add the swatch of the mark of this number to the legend."""
    figure.quad(
        left="left",
        right="right",
        top="top",
        bottom="bottom",
        source=_empty(f"key{number}", "left", "right", "top", "bottom"),
        level="annotation",
        **style,
    )


def _empty(name: str, *columns: str) -> Any:
    return models.ColumnDataSource({column: [] for column in columns}, name=name)
