"""Charts as a page embeds them, kept on disk: they are of no job, and Bokeh takes a second."""

from __future__ import annotations

import contextlib
import hashlib
import json
from functools import cache
from pathlib import Path
from typing import Any

from hta_widgets.files import cache_folder
from hta_widgets.files import code_stamp
from hta_widgets.files import written_whole

__all__ = ["figure_items"]


@cache
def figure_items(panel: str) -> dict[str, Any]:
    """Return a panel's sheet as ``{"light": item, "dark": item}``; empty if it is no chart."""
    kept = _place(panel)
    with contextlib.suppress(OSError, ValueError):
        items = json.loads(kept.read_text("utf-8"))
        if isinstance(items, dict) and set(items) == {"light", "dark"}:
            return items
    from hta_widgets.live.panels import panel_items  # noqa: PLC0415 - imports all of Bokeh

    try:
        text = json.dumps(panel_items(panel), separators=(",", ":"))
    except ValueError:
        return {}
    _keep(kept, text)
    return dict(json.loads(text))


def _place(panel: str) -> Path:
    told = hashlib.sha256(repr((panel, _made_by())).encode()).hexdigest()[:40]
    return cache_folder() / "charts" / f"{told}.json"


@cache
def _made_by() -> tuple[object, ...]:
    """What tells that an item was made by this very code and this very Bokeh."""
    return code_stamp("bokeh", "*.py", "charts/*.py")


def _keep(place: Path, text: str) -> None:
    """Write an item aside and rename it: who reads never sees half of one."""
    with contextlib.suppress(OSError):
        place.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        with written_whole(place) as file:
            file.write(text.encode())
