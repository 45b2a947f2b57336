"""Shows a chart below the cell of a notebook; elsewhere nothing happens."""

from __future__ import annotations

import sys
from html import escape
from typing import Any

import pandas as pd

__all__ = ["display_figure", "in_notebook", "show"]

#: BokehJS is large: one cell's output brings it along, and the others wait for it. By script: the
#: cell, and the run of it.
_brought_by: dict[str, tuple[str | None, str | None]] = {}


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
    """Show a Bokeh figure as HTML that needs no network and no earlier call.

    The first figure of a kernel brings BokehJS along; the others use it once it is there, in
    whatever order a page runs them.
    """
    from IPython.display import display  # noqa: PLC0415 - only there in notebooks

    output = {"text/html": _html(figure), "text/plain": repr(figure)}
    display(output, raw=True)  # type: ignore[no-untyped-call]


def _html(figure: Any) -> str:
    from bokeh.core.types import ID  # noqa: PLC0415
    from bokeh.embed import json_item  # noqa: PLC0415
    from bokeh.embed.bundle import bundle_for_objs_and_resources  # noqa: PLC0415
    from bokeh.resources import INLINE  # noqa: PLC0415
    from bokeh.util.serialization import make_globally_unique_id  # noqa: PLC0415

    place = f"hta-chart-{make_globally_unique_id()}"
    item = _script_safe(_json(json_item(figure, ID(place))))
    cell, run = _running()
    scripts = []
    for script in bundle_for_objs_and_resources([figure], INLINE).js_raw:
        # A cell that runs again loses its output, so what that brought must come again.
        known = _brought_by.get(script)
        if known is None or (cell is not None and known[0] == cell and known[1] != run):
            _brought_by[script] = cell, run
            scripts.append(script)
    library = "".join(f"<script>{script}</script>" for script in scripts)
    return (
        f'{library}<div id="{escape(place)}"></div><script>(function () {{'
        f"const item = {item}; let tries = 0;"
        "(function draw() {"
        "if (window.Bokeh && window.Bokeh.embed) { window.Bokeh.embed.embed_item(item); return; }"
        "if (++tries < 100) { setTimeout(draw, 100); return; }"
        f'document.getElementById("{place}").textContent = '
        '"BokehJS is missing, which the first chart brings: restart and run the notebook again.";'
        "})(); })();</script>"
    )


def _running() -> tuple[str | None, str | None]:
    """Return which cell runs, and which run of it this is, as far as the front end says."""
    from IPython.core.getipython import get_ipython  # noqa: PLC0415

    kernel = getattr(get_ipython(), "kernel", None)
    if kernel is None:
        return None, None
    parent = kernel.get_parent("shell")
    return parent.get("metadata", {}).get("cellId"), parent.get("header", {}).get("msg_id")


def _json(item: Any) -> str:
    from bokeh.core.json_encoder import serialize_json  # noqa: PLC0415

    return str(serialize_json(item))


def _script_safe(text: str) -> str:
    return text.replace("</", "<\\/")
