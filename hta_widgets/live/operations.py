"""Requests of pages, and the replies to them."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from typing import Any, Protocol

from hta_widgets.errors import TraceError

Answer = tuple[dict[str, Any], bytes | None]


class _Messenger(Protocol):
    def send(self, content: Any, buffers: list[Any] | None = None) -> None: ...

    def on_msg(self, callback: Callable[[Any, Any, list[Any]], None]) -> None: ...


def serve(widget: _Messenger, answer: Callable[[dict[str, Any]], Answer]) -> None:
    """Answer every ``{"rpc", "op", …}`` message of `widget` with `answer`, errors included.

    A failure must reach the page: what a message handler raises is seen by nobody.
    """

    def handle(_widget: Any, content: Any, _buffers: list[Any]) -> None:
        if not isinstance(content, dict) or "rpc" not in content:
            return
        token = content["rpc"]
        try:
            reply, buffer = answer(content)
            buffers = [] if buffer is None else [buffer]
            widget.send({"rpc": token, "ok": True, "reply": reply}, buffers)
        except KeyboardInterrupt:
            # Who stops the kernel stops this; the page must not wait on for it.
            widget.send({"rpc": token, "ok": False, "error": {"message": "Interrupted."}})
        except TraceError as error:
            widget.send({"rpc": token, "ok": False, "error": {"message": str(error)}})
        except Exception as error:  # noqa: BLE001 - whatever it is, the page must hear of it
            message = f"{type(error).__name__}: {error}"
            detail = traceback.format_exc(limit=-6)
            widget.send(
                {"rpc": token, "ok": False, "error": {"message": message, "detail": detail}}
            )

    widget.on_msg(handle)
