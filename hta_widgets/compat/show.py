"""Shows a chart below the cell of a notebook; elsewhere nothing happens."""

from __future__ import annotations

import sys
from typing import Any

import pandas as pd

__all__ = ["display_figure", "in_notebook", "show"]


def show(chart: str, frame: pd.DataFrame | None, **options: Any) -> None:
    """Draw a frame with the function of `hta_widgets.charts` of that name, and show it.

    Nothing happens outside of notebooks, where no figure could be seen, and for frames without
    rows.
    """
    if frame is None or not len(frame) or not in_notebook():
        return
    from hta_widgets import charts  # noqa: PLC0415 - Bokeh takes a while to import

    display_figure(getattr(charts, chart)(frame, **options))


def in_notebook() -> bool:
    """Tell whether code runs in a Jupyter kernel."""
    if "IPython" not in sys.modules:
        return False
    from IPython.core.getipython import get_ipython  # noqa: PLC0415 - absent from plain Python

    return getattr(get_ipython(), "kernel", None) is not None


def display_figure(figure: Any) -> None:
    """Show a Bokeh figure below the cell that runs; it needs no earlier call."""
    from IPython.display import display  # noqa: PLC0415 - only there in notebooks

    from hta_widgets.charts.in_notebooks import html_of  # noqa: PLC0415

    output = {"text/html": html_of(figure), "text/plain": repr(figure)}
    display(output, raw=True)  # type: ignore[no-untyped-call]
