"""Open the widget of a view from paths, in every host."""

from __future__ import annotations

import sys
import time
import traceback
from collections.abc import Callable, Sequence
from typing import Any

from hta_widgets.errors import TraceError

VIEWS = ("dashboard", "diff")
#: Progress is reported at most this often.
_REPORT_EVERY_S = 0.1


def open_view(view: str, sources: Sequence[Any], report: Callable[..., None]) -> Any:
    """Read traces, and return the widget of a view; `report` takes the fields of `progress`."""
    if view not in VIEWS:
        raise TraceError(f"unknown view {view!r}", remedy=f"Use {', '.join(VIEWS)}.")
    # Importing takes a second or two: after the page has come, not before.
    from hta_widgets.readers.load import load  # noqa: PLC0415
    from hta_widgets.widgets.dashboard import Dashboard  # noqa: PLC0415
    from hta_widgets.widgets.trace_diff import TraceDiff  # noqa: PLC0415
    from hta_widgets.widgets.view import on_better_clock  # noqa: PLC0415

    reported_s = 0.0

    def progress(done: int, of: int) -> None:
        nonlocal reported_s
        now = time.monotonic()
        if now - reported_s >= _REPORT_EVERY_S or done == of:
            reported_s = now
            report(stage="read", done=done, of=of)

    if view == "diff":
        if len(sources) != 2:
            raise TraceError(f"a comparison has two sides, not {len(sources)}")
        sides = [load(source, progress=progress) for source in sources]
        report(stage="draw")
        return TraceDiff(*on_better_clock(*sides))
    traces = load(sources[0] if len(sources) == 1 else list(sources), progress=progress)
    report(stage="draw")
    return Dashboard(traces, clock="auto")


def models_of(widget: Any) -> Sequence[Any]:
    """Return all models of a view, itself last."""
    if hasattr(widget, "sides"):
        return [*(part for side in widget.sides for part in (side, side.state)), widget]
    return [widget.state, widget]


def failure_of(error: Exception) -> dict[str, Any]:
    """Return the message `failed`; any other error is also printed."""
    known = {name: getattr(error, name, None) for name in ("path", "place", "remedy")}
    message = error.message if isinstance(error, TraceError) else str(error)
    kind = type(error).__name__
    if not isinstance(error, TraceError):
        traceback.print_exception(error, file=sys.stderr)
    return {"type": "failed", "message": message, "kind": kind, **known}
