"""Several charts as one: beside or below each other."""

from __future__ import annotations

from typing import Any

from hta_widgets.charts.bokeh_modules import models
from hta_widgets.charts.in_notebooks import shows_itself

__all__ = ["column", "row"]

_SPACING_PX = 8


def row(*charts: Any) -> Any:
    """Place charts beside each other; together they take the width that the page gives.

    Parameters
    ----------
    *charts : bokeh model
        Charts, or rows and columns of them.

    Returns
    -------
    bokeh.models.Row
        Shows itself as the value of a notebook's cell, and `to_html` writes it, as a chart.

    Examples
    --------
    >>> charts.row(charts.operators(ops), charts.kernel_breakdown(kernels))  # doctest: +SKIP
    """
    return _shown(models.Row, charts)


def column(*charts: Any) -> Any:
    """Place charts below each other; parameters and result as of `row`.

    Returns
    -------
    bokeh.models.Column
    """
    return _shown(models.Column, charts)


def _shown(layout: Any, charts: tuple[Any, ...]) -> Any:
    children = list(charts)
    return shows_itself(layout(children=children, spacing=_SPACING_PX, sizing_mode="stretch_width"))
