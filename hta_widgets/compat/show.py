"""Shows a chart below the cell of a notebook; elsewhere a line says where charts are shown."""

from __future__ import annotations

import sys
from functools import cache
from typing import Any

import pandas as pd

__all__ = ["display_figure", "in_notebook", "say_where_figures_are", "show"]

_ELSEWHERE = (
    "figures are shown in notebooks only; hta_widgets.charts.to_html(figure, path) writes a page"
)


def show(chart: str, frame: pd.DataFrame | None, **options: Any) -> None:
    """Draw a frame with the function of `hta_widgets.charts` of that name, and show it.

    Nothing happens for frames without rows. Outside of notebooks no figure could be seen: one
    line on stderr says so, once a process.
    """
    if frame is None or not len(frame):
        return
    if not in_notebook():
        say_where_figures_are()
        return
    from hta_widgets import charts  # noqa: PLC0415 - Bokeh takes a while to import

    display_figure(getattr(charts, chart)(frame, **options))


@cache
def say_where_figures_are() -> None:
    """Print, once a process, that figures are shown in notebooks."""
    print(_ELSEWHERE, file=sys.stderr)  # noqa: T201 - for scripts, which may have no logging


def in_notebook() -> bool:
    """Tell whether code runs in a Jupyter kernel."""
    if "IPython" not in sys.modules:
        return False
    from IPython.core.getipython import get_ipython  # noqa: PLC0415 - absent from plain Python

    return getattr(get_ipython(), "kernel", None) is not None


def display_figure(figure: Any) -> None:
    """Show a Bokeh figure below the cell that runs; it needs no earlier call."""
    from IPython.display import display  # noqa: PLC0415 - only there in notebooks

    from hta_widgets.charts.figure import html_of  # noqa: PLC0415

    output = {"text/html": html_of(figure), "text/plain": repr(figure)}
    display(output, raw=True)  # type: ignore[no-untyped-call]
