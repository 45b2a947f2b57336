"""The dashboard's charts as Bokeh items without data, which the page fills."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import pandas as pd

from hta_widgets.analysis.idle import IDLE_CATEGORIES
from hta_widgets.charts.device import (
    comm_comp_overlap,
    device_idle_breakdown,
    kernel_duration_by_rank,
    kernel_type_breakdown,
    queue_length_summary,
    temporal_breakdown,
)
from hta_widgets.charts.figure import embed
from hta_widgets.charts.ranks import rank_time_heatmap
from hta_widgets.charts.rows import inks_sheet, laid_out_by_the_page
from hta_widgets.charts.steps import step_phases
from hta_widgets.charts.theme import Theme, theme_of
from hta_widgets.panels.catalog import own_panels

Draw = Callable[..., Any]


def _breakdown() -> pd.DataFrame:
    return pd.DataFrame(
        {
            "rank": [0],
            "span_ns": [1],
            "idle_ns": [0],
            "compute_ns": [1],
            "non_compute_ns": [0],
            "exposed_communication_ns": [0],
            "exposed_memory_ns": [0],
            "exposed_wait_ns": [0],
        }
    )


def _overlap() -> pd.DataFrame:
    return pd.DataFrame(
        {"rank": [0], "communication_ns": [1], "overlapped_ns": [0], "overlap_share": [0.0]}
    )


def _idle() -> pd.DataFrame:
    causes = list(IDLE_CATEGORIES)
    return pd.DataFrame(
        {"rank": 0, "idle_category": causes, "idle_ns": 1, "gaps": 1, "idle_share": 0.0}
    )


def _queue() -> pd.DataFrame:
    return pd.DataFrame(
        {"rank": [0], "stream": [7], "count": [1], "time_weighted_mean": [1.0], "max": [1.0]}
    )


def _kernel_types() -> pd.DataFrame:
    return pd.DataFrame({"kernel_type": ["COMPUTATION"], "sum_ns": [1], "share": [1.0]})


def _kernel_durations() -> pd.DataFrame:
    name = {"name": ["k"], "short": ["k"], "kind": ["compute"], "rank": [0], "count": [1]}
    return pd.DataFrame({**name, "mean_ns": [1.0], "min_ns": [1], "max_ns": [1]})


def _steps() -> pd.DataFrame:
    return pd.DataFrame(
        {
            "phase": ["step", "step"],
            "step": [0, 0],
            "rank": [0, 1],
            "start_ns": [0, 0],
            "dur_ns": [1, 1],
            "deviation_share": [0.0, 0.0],
        }
    )


def _heatmap() -> pd.DataFrame:
    cell = {"rank": [0], "bin": [0], "start_ns": [0], "end_ns": [1], "value_ns": [0]}
    return pd.DataFrame({**cell, "share": [0.0]})


#: How each panel is drawn, and a frame that has all the marks it may ever need.
_PANELS: dict[str, tuple[Draw, Callable[[], pd.DataFrame]]] = {
    "breakdown": (temporal_breakdown, _breakdown),
    "overlap": (comm_comp_overlap, _overlap),
    "idle": (device_idle_breakdown, _idle),
    "queue": (queue_length_summary, _queue),
    "kernel_types": (kernel_type_breakdown, _kernel_types),
    "kernel_durations": (kernel_duration_by_rank, _kernel_durations),
    "steps": (step_phases, _steps),
    "heatmap": (rank_time_heatmap, _heatmap),
}

#: Panels that are charts with a sheet of their own, by id.
CHART_PANELS: tuple[str, ...] = tuple(_PANELS)


def panel_figure(
    panel: str, frame: pd.DataFrame | None = None, *, theme: str | Theme = "light"
) -> Any:
    """Return one of the dashboard's charts as a sheet.

    A sheet has marks and no layout: the page places its words and sets its scale
    (``js/src/charts``). For a chart that stands alone take the function of its analysis.
    """
    if panel not in _PANELS:
        raise ValueError(f"no chart {panel!r}: there are {', '.join(_PANELS)}")
    draw, sample = _PANELS[panel]
    with laid_out_by_the_page():
        figure = draw(sample() if frame is None else frame, theme=theme)
    if frame is None:
        rows = figure.select_one({"name": "rows"})
        if rows is not None:
            rows.data = {name: [] for name in rows.data}
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
    # One sheet serves all of these, filled by ``js/src/formats``.
    if panel in {one.id for one in own_panels()}:
        return {name: embed.json_item(_inks(name)) for name in ("light", "dark")}
    return {name: embed.json_item(panel_figure(panel, theme=name)) for name in ("light", "dark")}


def _inks(theme: str) -> Any:
    with laid_out_by_the_page():
        figure = inks_sheet(theme_of(theme))
    rows = figure.select_one({"name": "rows"})
    rows.data = {name: [] for name in rows.data}
    _lean(figure)
    return figure
