"""The dashboard's charts as Bokeh items without data, which the page fills."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import pandas as pd

from hta_widgets.charts.defined import draw, sheet
from hta_widgets.charts.figure import embed
from hta_widgets.charts.ranks import rank_time_heatmap
from hta_widgets.charts.rows import inks_sheet, laid_out_by_the_page
from hta_widgets.charts.theme import Theme, theme_of
from hta_widgets.panels.catalog import own_panels

Draw = Callable[..., Any]


def _heatmap() -> pd.DataFrame:
    cell = {"rank": [0], "bin": [0], "start_ns": [0], "end_ns": [1], "value_ns": [0]}
    return pd.DataFrame({**cell, "share": [0.0]})


#: Panels whose charts stand in ``definitions``.
DEFINED = (
    "breakdown", "overlap", "idle", "queue", "kernel_types", "kernel_durations", "steps",
)  # fmt: skip

#: As `DEFINED`, for the panels of a format.
OF_FORMATS = ("byteps_blame", "byteps_servers", "byteps_clock", "mpi_routines")

#: Panels that are charts with a sheet of their own, by id.
CHART_PANELS: tuple[str, ...] = (*DEFINED, "heatmap")


def panel_figure(
    panel: str, frame: pd.DataFrame | None = None, *, theme: str | Theme = "light"
) -> Any:
    """Return one of the dashboard's charts as a sheet.

    A sheet has marks and no layout: the page places its words and sets its scale
    (``js/src/charts``). For a chart that stands alone take the function of its analysis.
    """
    known = (*CHART_PANELS, *OF_FORMATS)
    if panel not in known:
        raise ValueError(f"no chart {panel!r}: there are {', '.join(known)}")
    with laid_out_by_the_page():
        if panel == "heatmap":
            figure = rank_time_heatmap(_heatmap() if frame is None else frame, theme=theme)
        else:
            figure = sheet(panel, theme) if frame is None else draw(panel, frame, theme=theme)
    _lean(figure)
    return figure


def _lean(figure: Any) -> None:
    """Leave out the looks that nothing ever takes on: they are most of an item's size."""
    for renderer in figure.renderers:
        renderer.muted_glyph = None
        # Selected glyphs keep their look: BokehJS would otherwise draw a stale copy.
        renderer.selection_glyph = renderer.glyph
        if renderer.data_source.name != "rows":
            renderer.nonselection_glyph = None


@cache
def panel_items(panel: str) -> dict[str, Any]:
    """Return a chart's sheet as ``{"light": item, "dark": item}`` for BokehJS to embed.

    The items are of no job: the page fills in what each selection has.
    """
    # One sheet serves these, filled by ``js/src/formats``.
    if panel in {one.id for one in own_panels()} - {*OF_FORMATS}:
        return {name: embed.json_item(_inks(name)) for name in ("light", "dark")}
    return {name: embed.json_item(panel_figure(panel, theme=name)) for name in ("light", "dark")}


def _inks(theme: str) -> Any:
    with laid_out_by_the_page():
        figure = inks_sheet(theme_of(theme))
    rows = figure.select_one({"name": "rows"})
    rows.data = {name: [] for name in rows.data}
    _lean(figure)
    return figure
