"""How a chart shows itself below the cell of a notebook: as HTML that needs no earlier call."""

from __future__ import annotations

from html import escape
from typing import Any

from hta_widgets.charts.bokeh_modules import embed
from hta_widgets.charts.bokeh_modules import resources

__all__ = ["html_of", "shows_itself"]

#: BokehJS is large: one cell's output brings it along, and the others wait for it. By script: the
#: cell, and the run of it.
_brought_by: dict[str, tuple[str | None, str | None]] = {}


def shows_itself(chart: Any) -> Any:
    """Let notebooks draw a chart where it is a cell's value; Bokeh lists its properties there."""

    def bundle(**_: Any) -> dict[str, str]:
        return {"text/html": html_of(chart), "text/plain": repr(chart)}

    chart._repr_mimebundle_ = bundle
    return chart


def html_of(chart: Any) -> str:
    """Return a chart as HTML that needs no network and no earlier call.

    The first chart of a kernel brings BokehJS along; the others use it once it is there, in
    whatever order a page runs them.
    """
    from bokeh.core.json_encoder import serialize_json  # noqa: PLC0415 - takes a while
    from bokeh.core.types import ID  # noqa: PLC0415
    from bokeh.embed.bundle import bundle_for_objs_and_resources  # noqa: PLC0415
    from bokeh.util.serialization import make_globally_unique_id  # noqa: PLC0415

    place = f"hta-chart-{make_globally_unique_id()}"
    item = _script_safe(str(serialize_json(embed.json_item(chart, ID(place)))))
    cell, run = _running()
    scripts = []
    for script in bundle_for_objs_and_resources([chart], resources.INLINE).js_raw:
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
    from IPython.core.getipython import get_ipython  # noqa: PLC0415 - absent from plain Python

    kernel = getattr(get_ipython(), "kernel", None)
    if kernel is None:
        return None, None
    parent = kernel.get_parent("shell")
    return parent.get("metadata", {}).get("cellId"), parent.get("header", {}).get("msg_id")


def _script_safe(text: str) -> str:
    return text.replace("</", "<\\/")
