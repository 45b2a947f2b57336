"""Charts as pages of their own."""

from __future__ import annotations

import html
from os import PathLike
from pathlib import Path
from typing import Any

from hta_widgets.charts.bokeh_modules import embed
from hta_widgets.charts.bokeh_modules import resources
from hta_widgets.charts.theme import Theme
from hta_widgets.charts.theme import theme_of

__all__ = ["to_html"]


def to_html(
    chart: Any, path: str | PathLike[str], *, title: str = "", theme: str | Theme = "light"
) -> Path:
    """Write a chart, or a layout of charts, as one file that needs no network.

    Parameters
    ----------
    chart : bokeh model
    path : str or PathLike
        What is there is replaced.
    title : str, optional
        Of the page.
    theme : {"light", "dark"} or Theme, default "light"
        For the ground around the chart.

    Returns
    -------
    Path

    Examples
    --------
    >>> charts.to_html(charts.operators(frame), "operators.html")  # doctest: +SKIP
    """
    colors = theme_of(theme)
    page = embed.file_html(chart, resources.INLINE, html.escape(title or "Chart"))
    ground = f"<style>html,body{{background:{colors.bg};margin:0;padding:8px}}</style>"
    target = Path(path)
    target.write_text(page.replace("</head>", f"{ground}</head>", 1), encoding="utf-8")
    return target
