"""Open widgets in a kernel and report the progress to JupyterLab's extension."""

from __future__ import annotations

from typing import Any

from IPython.display import publish_display_data

from hta_widgets.host.opening import failure_message, models_of, open_view

#: MIME type of the messages `progress`, `opened` and `failed`; see docs/protocol-hosts.md.
MIME = "application/vnd.hta-widgets+json"

_Request = tuple[str, tuple[str, ...]]
#: The view of the page by its request. A page that is reloaded gets the same view.
_shown: dict[_Request, Any] = {}


def show(*paths: str, view: str = "dashboard") -> tuple[Any, ...]:
    """Return the traces of paths and their dashboard, or of both runs and their comparison.

    The progress and the result are reported to the page.
    """
    request = (view, paths)
    widget = _shown.get(request)
    if widget is not None and widget.comm is not None:
        for model in models_of(widget):
            model.send_state()
    else:
        try:
            widget = open_view(view, paths, _report)
        except Exception as error:
            _publish(failure_message(error))
            raise
        _shown.clear()
        _shown[request] = widget
    _publish({"type": "opened", "model": widget.model_id})
    if view == "diff":
        before, after = widget.sources
        return before.traces, after.traces, widget
    return widget.traces, widget


def _report(**progress: object) -> None:
    _publish({"type": "progress", **progress})


def _publish(message: dict[str, Any]) -> None:
    publish_display_data({MIME: message, "text/plain": ""})  # type: ignore[no-untyped-call]
