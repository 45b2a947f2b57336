"""A view as one file: it opens from a disk, without kernel, server or network."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from hta_widgets.export.blocks import Block
from hta_widgets.export.plan import embed
from hta_widgets.export.blocks import packed
from hta_widgets.export.page_file import ascii_json
from hta_widgets.export.page_file import code_blocks
from hta_widgets.export.page_file import footer_text
from hta_widgets.export.page_file import host_script
from hta_widgets.export.page_file import page_parts
from hta_widgets.export.page_file import page_target
from hta_widgets.export.page_file import source_files
from hta_widgets.export.page_file import version_text
from hta_widgets.export.page_file import write_page
from hta_widgets.live.tile_engine import TileEngine

__all__ = ["DashboardPart", "save_html"]

_TIMELINE = ("timeline.js", "state.js", "timeline.css")
_DASHBOARD = ("dashboard.js", "state.js", "dashboard.css")
#: Beside code and events: the page's own words, names of a small job, blocks' frames.
_WORDS_BYTES = 4000


@dataclass(frozen=True)
class DashboardPart:
    """What a page of a dashboard holds beyond its timeline.

    Parameters
    ----------
    traits : mapping
        Of the dashboard's model, as JSON values: panels, figures, headline, and so on.
    bokehjs : str
        The module that carries BokehJS.
    """

    traits: Mapping[str, Any]
    bokehjs: str


def save_html(
    path: str | os.PathLike[str],
    engine: TileEngine,
    scene: dict[str, Any],
    state: dict[str, Any],
    *,
    max_mb: float = 25,
    dashboard: DashboardPart | None = None,
) -> str:
    """Write a timeline, or a dashboard, as one self-contained page.

    Parameters
    ----------
    path : path-like
        The file to write.
    engine : TileEngine
        Of the job.
    scene : dict
        What the timeline shows.
    state : dict
        What its views share: window, selection, search, and so on.
    max_mb : float, default 25
        How large the file may become, in units of 1 000 000 bytes. Everything is embedded if it
        fits. Else all events of as many ranks as fit, those of the selection first, then those
        that the others wait for, and an overview of what is left; the page says which. Arguments
        of events come last.
    dashboard : DashboardPart, optional
        Panels, charts and words to show beside the timeline.

    Returns
    -------
    str
        The path that was written.

    Raises
    ------
    TraceError
        If `max_mb` is no size, or the file cannot be written.
    """
    target = page_target(
        path,
        max_mb,
        least_mb=0.1,
        remedy="A page without any event takes about as much, one of a dashboard 0.8.",
    )
    host = host_script()
    code = _code(dashboard)
    code_bytes = len(host) + sum(block.size_bytes for block in code)
    limit_bytes = max_mb * 1e6 - code_bytes - _WORDS_BYTES
    embedded = embed(engine, scene, state, limit_bytes)
    files = source_files(engine)
    saved_at = datetime.now(UTC)
    document = {
        "version": 1,
        "scene": embedded.scene,
        "state": state,
        "saved": {
            "at": saved_at.isoformat(timespec="seconds"),
            "by": f"hta_widgets {version_text()}",
            "files": [{"name": name, "bytes": size} for name, size in files],
            "embedded": embedded.sizes,
        },
        "origin_ns": None if engine.traces.origin_ns is None else str(engine.traces.origin_ns),
        "widget": "timeline" if dashboard is None else "dashboard",
        **embedded.document,
    }
    blocks = [packed("document", ascii_json(document)), *code, *embedded.blocks]
    sizes = [*embedded.sizes, ("names and lanes", blocks[0].size_bytes), ("code", code_bytes)]
    title = str(scene.get("title") or document["widget"])
    footer = footer_text(saved_at, files, sizes, embedded.scene["embedded"]["text"])
    write_page(target, page_parts(title, footer, host, blocks), max_mb)
    return str(target)


def _code(dashboard: DashboardPart | None) -> list[Block]:
    """Return the modules that a page runs; figures of a dashboard are code as well."""
    blocks = code_blocks(_TIMELINE if dashboard is None else _DASHBOARD)
    if dashboard is not None:
        blocks += [
            packed("bokeh.js", dashboard.bokehjs.encode()),
            packed("dashboard", ascii_json(dict(dashboard.traits))),
        ]
    return blocks
