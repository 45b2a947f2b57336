"""What a view hands out beside traces and pages: pictures and tables."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, Protocol

from hta_widgets.errors import TraceError
from hta_widgets.export.svg.picture import timeline_svg
from hta_widgets.text import Time
from hta_widgets.text import as_window
from hta_widgets.trace.traceset import TraceSet
from hta_widgets.live.tile_engine import TileEngine

__all__ = ["write_svg", "write_text"]


class _Shared(Protocol):
    ranks_from: str

    def snapshot(self) -> dict[str, Any]: ...


class _View(Protocol):
    traces: TraceSet
    engine: TileEngine
    height: int
    folded: bool
    state: Any
    _scene: Any


def write_svg(
    view: _View,
    path: str | os.PathLike[str],
    *,
    width: float = 1200,
    window: tuple[Time, Time] | None = None,
    theme: str = "light",
) -> str:
    """Write what a timeline shows as a picture; see ``Timeline.to_svg``."""
    state = view.state.snapshot()
    if window is not None:
        state["view"] = list(as_window(window))
    text = timeline_svg(
        view.engine,
        view._scene,  # noqa: SLF001 - the view's own, handed to its own exporter
        state,
        width=width,
        height=view.height,
        theme=theme,
        folded=view.folded,
        only=_shown_ranks(view.state, state),
    )
    return write_text(path, text)


def write_text(path: str | os.PathLike[str], text: str) -> str:
    """Write a file that a view hands out; return its path."""
    target = Path(os.fspath(path)).expanduser()
    try:
        target.write_text(text, "utf-8")
    except OSError as error:
        raise TraceError(
            f"cannot be written ({error.strerror})",
            path=str(target),
            remedy="Is the folder there, and may you write to it?",
        ) from None
    return str(target)


def _shown_ranks(shared: _Shared, state: Mapping[str, Any]) -> Collection[int] | None:
    """Return the ranks that a dashboard's timeline shows: those that another panel has chosen."""
    ranks = (state.get("selection") or {}).get("ranks")
    chosen_elsewhere = shared.ranks_from not in {"", "timeline"}
    return set(ranks) if ranks and chosen_elsewhere else None
