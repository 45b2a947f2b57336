"""Open widgets from paths and manage the files that pages write, in any host."""

from __future__ import annotations

import secrets
import shutil
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from hta_widgets.errors import TraceError
from hta_widgets.files import temporary_folder

VIEWS = ("dashboard", "diff")
#: Minimum time between two progress reports.
_REPORT_EVERY_S = 0.1


def open_view(view: str, sources: Sequence[Any], report: Callable[..., None]) -> Any:
    """Read traces and return the widget of a view. `report` is called with fields of `progress`."""
    if view not in VIEWS:
        raise TraceError(f"unknown view {view!r}", remedy=f"Use {', '.join(VIEWS)}.")
    # These imports take a second or two, during which the page should already be visible.
    report(stage="import")
    from hta_widgets.live.background import deadline_after
    from hta_widgets.readers.load import load

    reported_s = 0.0

    def progress(done: int, total: int) -> None:
        nonlocal reported_s
        now_s = time.monotonic()
        if now_s - reported_s >= _REPORT_EVERY_S or done == total:
            reported_s = now_s
            report(stage="read", done=done, of=total)

    if view == "diff":
        if len(sources) != 2:
            raise TraceError(f"a comparison has two sides, not {len(sources)}")
        from hta_widgets.widgets.trace_diff import TraceDiff

        sides = [load(source, progress=progress) for source in sources]
        report(stage="draw")
        return TraceDiff(*sides)
    from hta_widgets.widgets.dashboard import Dashboard

    traces = load(sources[0] if len(sources) == 1 else list(sources), progress=progress)
    report(stage="draw")
    dashboard = Dashboard(traces)
    # Start computing the headline while the page is still loading the view.
    dashboard.panel_engine.headline_until(deadline_after(0))
    return dashboard


def models_of(widget: Any) -> Sequence[Any]:
    """Return all models of a view, its own model last."""
    if hasattr(widget, "sides"):
        return [*(model for side in widget.sides for model in (side, side.state)), widget]
    return [widget.state, widget]


def failure_message(error: Exception) -> dict[str, Any]:
    """Return a `failed` message; print the traceback of an unexpected error."""
    details = {name: getattr(error, name, None) for name in ("path", "place", "remedy")}
    message = error.message if isinstance(error, TraceError) else str(error)
    kind = type(error).__name__
    if not isinstance(error, TraceError):
        traceback.print_exception(error, file=sys.stderr)
    return {"type": "failed", "message": message, "kind": kind, **details}


class Downloads:
    """Files written by pages. Each file can be fetched once, using an unguessable key."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(dir=temporary_folder()))
        #: Folder for files written by pages, until `keep` moves them.
        self.written = self.folder / "written"
        self.written.mkdir()
        self._files: dict[str, Path] = {}

    def keep(self, path: Path) -> tuple[str, Path] | None:
        """Move a file written by a page; return its key and new path, or None for other paths."""
        if not path.is_absolute() or not path.resolve().is_relative_to(self.written.resolve()):
            return None
        key = secrets.token_urlsafe(24)
        folder = self.folder / key
        folder.mkdir()
        if path.is_dir():
            moved = Path(shutil.make_archive(str(folder / path.name), "zip", path))
            shutil.rmtree(path)
        else:
            moved = path.rename(folder / path.name)
        self._files[key] = moved
        return key, moved

    def offer(self, path: Path) -> tuple[str, str] | None:
        """Keep a file written by a page; return its name and URL, or None for other paths."""
        kept = self.keep(path)
        if kept is None:
            return None
        key, moved = kept
        return moved.name, f"/file/{key}"

    def take(self, key: str) -> Path | None:
        """Return a file on the first request, and None afterwards. The caller deletes the file."""
        return self._files.pop(key, None)
