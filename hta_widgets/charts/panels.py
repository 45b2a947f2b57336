"""The dashboard's charts as Bokeh items without data, which the page fills."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import pandas as pd

from hta_widgets.charts.defined import draw, sheet
from hta_widgets.charts.figure import embed
from hta_widgets.charts.ranks import rank_time_heatmap
from hta_widgets.charts.rows import laid_out_by_the_page
from hta_widgets.charts.theme import Theme

Draw = Callable[..., Any]


def _heatmap() -> pd.DataFrame:
    cell = {"rank": [0], "bin": [0], "start_ns": [0], "end_ns": [1], "value_ns": [0]}
    return pd.DataFrame({**cell, "share": [0.0]})


#: Panels that are charts, by id: each has a file in ``definitions``.
CHART_PANELS: tuple[str, ...] = (
    *("breakdown", "overlap", "idle", "queue", "kernel_types", "kernel_durations", "steps"),
    *("heatmap", "byteps_stragglers", "byteps_gradients", "byteps_stages", "byteps_blame"),
    *("byteps_servers", "byteps_clock", "mpi_ranks", "mpi_sizes", "mpi_routines"),
)


def panel_figure(
    panel: str, frame: pd.DataFrame | None = None, *, theme: str | Theme = "light"
) -> Any:
    """Return one of the dashboard's charts as a sheet.

    A sheet has marks and no layout: the page places its words and sets its scale
    (``js/src/charts``). For a chart that stands alone take the function of its analysis.
    """
    if panel not in CHART_PANELS:
        raise ValueError(f"no chart {panel!r}: there are {', '.join(CHART_PANELS)}")
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
    return {name: embed.json_item(panel_figure(panel, theme=name)) for name in ("light", "dark")}
