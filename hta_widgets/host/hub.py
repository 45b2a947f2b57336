"""Widgets' comms on a host's wire: who is connected receives every model."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import comm
from comm.base_comm import BaseComm

from hta_widgets.host.wire import pack

Send = Callable[[bytes], None]
#: Takes a file that a page requested; returns the file's name and its address, or None.
Offer = Callable[[Path], tuple[str, str] | None]

#: Most of a model's bytes: sent once, by their hash.
_TEXTS = ("_esm", "_css")
#: For Jupyter's own front ends.
_DROPPED = ("layout", "tabbable", "tooltip", "_dom_classes", "_anywidget_id", "_view_count")


class Hub:
    """All comms of this process, and all pages. Only the main thread uses it."""

    def __init__(self, offer: Offer | None = None) -> None:
        self.offer = offer
        self.texts: dict[str, str] = {}
        #: the page whose message is handled: it alone gets the replies
        self.current: str | None = None
        self._pages: dict[str, Send] = {}
        self._comms: dict[str, WireComm] = {}
        self._attaching: str | None = None

    def install(self) -> None:
        """Open comms of widgets here from now on."""
        comm.create_comm = lambda *args, **options: WireComm(self, *args, **options)

    def join(self, page: str, send: Send, hello: dict[str, Any]) -> None:
        """Greet a page, and send it every model."""
        self._pages[page] = send
        self.send({"type": "hello", **hello}, to=page)
        self._attaching = page
        try:
            for one in list(self._comms.values()):
                one.receive({"method": "request_state"}, [])
        finally:
            self._attaching = None

    def leave(self, page: str) -> None:
        """Forget a page."""
        self._pages.pop(page, None)

    def send(
        self,
        message: dict[str, Any],
        buffers: Sequence[Any] = (),
        *,
        to: str | None = None,
        but: str | None = None,
    ) -> None:
        """Send a message to one page, or to all except one."""
        frame = pack(message, buffers)
        for page, send in self._pages.items():
            if page != but and to in {None, page}:
                send(frame)

    def receive(self, page: str, message: dict[str, Any], buffers: list[Any]) -> None:
        """Handle a message of a page to a model; drop it if the model is not here."""
        one = self._comms.get(str(message.get("comm")))
        data = message.get("data")
        if one is None or not isinstance(data, dict):
            return
        self.current = page
        try:
            one.receive(data, buffers)
        finally:
            self.current = None

    def text(self, source: str) -> str:
        """Return the key under which pages find a text."""
        key = hashlib.sha256(source.encode()).hexdigest()[:32]
        self.texts[key] = source
        return key

    def publish(self, one: WireComm, kind: str, data: dict[str, Any], buffers: Any) -> None:
        """Send what a widget publishes to the pages that it is for."""
        if kind == "comm_open":
            # Layouts and other models that no page here draws are left out.
            if data["state"].get("_model_module") == "anywidget":
                self._comms[one.comm_id] = one
                self._open(one, data, buffers, None)
        elif one.comm_id in self._comms:
            if kind == "comm_close":
                del self._comms[one.comm_id]
            method = data.get("method")
            if self._attaching is not None and method == "update":
                self._open(one, data, buffers, self._attaching)
                return
            if method == "custom":
                data = self._with_download(data)
            to = self.current if method == "custom" else None
            # The page that made a change knows of it.
            but = self.current if method == "echo_update" else None
            self.send({"type": kind, "comm": one.comm_id, "data": data}, buffers, to=to, but=but)

    def _open(self, one: WireComm, data: dict[str, Any], buffers: Any, to: str | None) -> None:
        state = {key: value for key, value in data["state"].items() if key not in _DROPPED}
        state |= {key: self.text(state[key]) for key in _TEXTS if key in state}
        opened = {"state": state, "buffer_paths": data.get("buffer_paths", [])}
        self.send({"type": "comm_open", "comm": one.comm_id, "data": opened}, buffers, to=to)

    def _with_download(self, data: dict[str, Any]) -> dict[str, Any]:
        """Name a written file by the address at which the page gets it."""
        content = data.get("content")
        reply = content.get("reply") if isinstance(content, dict) else None
        if self.offer is None or not isinstance(content, dict) or not isinstance(reply, dict):
            return data
        path = reply.get("path")
        offered = self.offer(Path(path)) if isinstance(path, str) else None
        if offered is None:
            return data
        name, address = offered
        reply = {**reply, "path": name, "download": address}
        return {**data, "content": {**content, "reply": reply}}


class WireComm(BaseComm):
    """A comm as ipywidgets expects it: Jupyter's messages, in frames."""

    def __init__(self, hub: Hub, *args: Any, **options: Any) -> None:
        self._hub = hub
        super().__init__(*args, **options)

    def receive(self, data: dict[str, Any], buffers: list[Any]) -> None:
        """Hand a message of a page to the widget."""
        self.handle_msg({"content": {"data": data}, "buffers": buffers})

    def publish_msg(
        self,
        msg_type: str,
        data: dict[str, Any] | None = None,
        metadata: dict[str, Any] | None = None,  # noqa: ARG002 - the base class's signature
        buffers: list[bytes] | None = None,
        **_keys: Any,
    ) -> None:
        """Send a message of the widget."""
        self._hub.publish(self, msg_type, data or {}, buffers or [])
