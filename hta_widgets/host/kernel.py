"""Open widgets in a kernel, and report progress to the JupyterLab extension."""

from __future__ import annotations

from typing import Any

from IPython.display import publish_display_data

from hta_widgets.host.opening import failure_message, models_of, open_view

#: MIME type of the messages `progress`, `opened` and `failed`; see docs/protocol-hosts.md.
MIME = "application/vnd.hta-widgets+json"

_Request = tuple[str, tuple[str, ...]]
#: The widget displayed for each request. A reloaded page gets the same widget again.
_shown: dict[_Request, Any] = {}


def show(*paths: str, view: str = "dashboard") -> tuple[Any, ...]:
    """Open a dashboard, or a comparison for ``view="diff"``; return the traces and the widget.

    Progress and the outcome are reported to the page.
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
