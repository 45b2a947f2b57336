"""Run the main thread of a host, which exchanges frames with pages and owns the widgets.

Messages are handled one at a time, as in a Jupyter kernel. While a trace is being read for one
page, requests from other pages about open views are still answered.

A frame consists of a JSON object and any number of buffers. It starts with the little-endian
integers ``u32 n`` and ``u32 length[n]``, followed by n parts. Part 0 is the object in UTF-8. All
parts are aligned to 8 bytes, which allows pages to read typed arrays in place.
"""

from __future__ import annotations

import hashlib
import json
import os
import queue
import signal
import struct
import sys
import threading
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple

import comm
from comm.base_comm import BaseComm

from hta_widgets.errors import TraceError
from hta_widgets.export.pages.format import version_text
from hta_widgets.host.opening import failure_message, models_of, open_view

MAX_PARTS = 1024
#: Maximum size of a frame from a page. Frames from the host can be larger.
MAX_BYTES = 64 << 20


class WireError(Exception):
    """Raised for data that is not a valid frame. The connection is unusable afterwards."""


def pack(message: dict[str, Any], buffers: Sequence[Any] = ()) -> bytes:
    """Encode a message and its buffers as a frame."""
    text = json.dumps(message, separators=(",", ":"), allow_nan=False)
    # The JSON is ASCII, since UTF-8 cannot encode lone surrogates, which occur in names in traces.
    parts = [memoryview(text.encode("ascii")), *(memoryview(part).cast("B") for part in buffers)]
    out = bytearray(struct.pack(f"<{len(parts) + 1}I", len(parts), *map(len, parts)))
    for part in parts:
        out += bytes(-len(out) % 8)
        out += part
    return bytes(out)


def unpack(frame: bytes) -> tuple[dict[str, Any], list[memoryview]]:
    """Decode the message and the buffers of a frame."""
    view, parts = memoryview(frame), []
    try:
        (count,) = struct.unpack_from("<I", view)
        if not 1 <= count <= MAX_PARTS:
            raise WireError(f"a frame has 1 to {MAX_PARTS} parts, not {count}")
        lengths = struct.unpack_from(f"<{count}I", view, 4)
        start = 4 + 4 * count
        for length in lengths:
            start += -start % 8
            parts.append(view[start : start + length])
            start += length
        if start != len(view):
            raise WireError(f"a frame should have {start} bytes, but has {len(view)}")
        message = json.loads(bytes(parts[0]))
    except (struct.error, ValueError, RecursionError) as error:
        raise WireError(str(error)) from None
    if not isinstance(message, dict):
        raise WireError("part 0 is not a JSON object")
    return message, parts[1:]


Send = Callable[[bytes], None]
#: Maps the path of a written file to its name and URL for pages, or to None.
Offer = Callable[[Path], tuple[str, str] | None]

#: Large traits of models. Each distinct value is sent only once, and is identified by its hash.
_TEXTS = ("_esm", "_css")
#: Traits used only by Jupyter front ends. They are not sent.
_DROPPED = ("layout", "tabbable", "tooltip", "_dom_classes", "_anywidget_id", "_view_count")


class Hub:
    """Connects the comms of this process to all pages. It must be used only in the main thread."""

    def __init__(self, offer: Offer | None = None) -> None:
        self.offer = offer
        #: Large strings of models, identified by key.
        self.texts: dict[str, str] = {}
        #: The page whose message is being handled, which receives the replies.
        self.current: str | None = None
        self._pages: dict[str, Send] = {}
        self._comms: dict[str, WireComm] = {}
        #: The page that is joining, which receives the state of all models.
        self._joining: str | None = None

    def install(self) -> None:
        """Make new widgets open their comms in this hub."""
        comm.create_comm = lambda *args, **options: WireComm(self, *args, **options)

    def join(self, page: str, send: Send, hello: dict[str, Any]) -> None:
        """Connect a page; send it the greeting and the state of all models."""
        self._pages[page] = send
        self.send({"type": "hello", **hello}, to=page)
        self._joining = page
        try:
            for comm in list(self._comms.values()):
                comm.receive({"method": "request_state"}, [])
        finally:
            self._joining = None

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
        """Send a message to the page `to` (default: all pages), but not to the page `but`."""
        frame = pack(message, buffers)
        for page, send in self._pages.items():
            if page != but and to in {None, page}:
                send(frame)

    def receive(self, page: str, message: dict[str, Any], buffers: list[Any]) -> None:
        """Pass a message from a page to a model; ignore it if the model is unknown."""
        comm = self._comms.get(str(message.get("comm")))
        data = message.get("data")
        if comm is None or not isinstance(data, dict):
            return
        self.current = page
        try:
            comm.receive(data, buffers)
        finally:
            self.current = None

    def text(self, source: str) -> str:
        """Store a string; return the key with which pages can request it."""
        key = hashlib.sha256(source.encode()).hexdigest()[:32]
        self.texts[key] = source
        return key

    def publish(self, comm: WireComm, kind: str, data: dict[str, Any], buffers: Any) -> None:
        """Send a message from a widget to the pages that need it."""
        if kind == "comm_open":
            # Pages of this host do not draw layouts and other ipywidgets models.
            if data["state"].get("_model_module") == "anywidget":
                self._comms[comm.comm_id] = comm
                self._open(comm, data, buffers, None)
            return
        if comm.comm_id not in self._comms:
            return
        if kind == "comm_close":
            del self._comms[comm.comm_id]
        method = data.get("method")
        if self._joining is not None and method == "update":
            self._open(comm, data, buffers, self._joining)
            return
        receiver = excluded = None
        if method == "custom":
            data, receiver = self._with_download(data), self.current
        elif method == "echo_update":
            # The page that made the change does not need an echo.
            excluded = self.current
        message = {"type": kind, "comm": comm.comm_id, "data": data}
        self.send(message, buffers, to=receiver, but=excluded)

    def _open(self, comm: WireComm, data: dict[str, Any], buffers: Any, to: str | None) -> None:
        state = {key: value for key, value in data["state"].items() if key not in _DROPPED}
        state |= {key: self.text(state[key]) for key in _TEXTS if key in state}
        content = {"state": state, "buffer_paths": data.get("buffer_paths", [])}
        self.send({"type": "comm_open", "comm": comm.comm_id, "data": content}, buffers, to=to)

    def _with_download(self, data: dict[str, Any]) -> dict[str, Any]:
        """Replace the path of a written file in a reply with its name and URL."""
        content: Any = data.get("content")
        reply: Any = content.get("reply") if isinstance(content, dict) else None
        path = reply.get("path") if isinstance(reply, dict) else None
        offered = self.offer(Path(path)) if self.offer and isinstance(path, str) else None
        if offered is None:
            return data
        name, address = offered
        reply = {**reply, "path": name, "download": address}
        return {**data, "content": {**content, "reply": reply}}


class WireComm(BaseComm):
    """An ipywidgets comm that sends Jupyter messages as frames."""

    def __init__(self, hub: Hub, *args: Any, **options: Any) -> None:
        self._hub = hub
        super().__init__(*args, **options)

    def receive(self, data: dict[str, Any], buffers: list[Any]) -> None:
        """Pass a message from a page to the widget."""
        self.handle_msg({"content": {"data": data}, "buffers": buffers})

    def publish_msg(
        self,
        msg_type: str,
        data: dict[str, Any] | None = None,
        metadata: dict[str, Any] | None = None,  # noqa: ARG002 - signature of the base class
        buffers: list[bytes] | None = None,
        **_keys: object,
    ) -> None:
        """Send a message from the widget."""
        self._hub.publish(self, msg_type, data or {}, buffers or [])


PROTOCOL = 1
#: How long a load continues after its last page has disconnected, since that page may reconnect.
_GRACE_S = 10.0
#: Maximum number of views kept open without a page that shows them.
_MAX_CACHED_WIDGETS = 4
#: Signal for canceling a load. SIGINT is not used, because Ctrl+C ends the host.
_CANCEL: signal.Signals = getattr(signal, "SIGUSR1", signal.SIGTERM)

#: Maps a path from a page to an argument of `hta_widgets.load`, or to None if it is not allowed.
Sources = Callable[[str], Any]


_CANCELLED: Final = {"type": "failed", "cancelled": True, "message": "Cancelled."}


class LoadCancelled(KeyboardInterrupt):
    """Raised during a load to cancel it."""


class _PageTask(NamedTuple):
    method: Callable[..., None]
    page: str
    arguments: tuple[Any, ...] = ()

    def run(self) -> None:
        try:
            self.method(self.page, *self.arguments)
        except Exception:  # noqa: BLE001 - a bad message must not end the host
            traceback.print_exc(file=sys.stderr)


@dataclass(frozen=True)
class _Request:
    """A view requested by a page. Pages with the same request share the models."""

    view: str
    paths: tuple[str, ...]

    @classmethod
    def of(cls, message: dict[str, Any]) -> _Request:
        paths = message.get("paths")
        texts = tuple(map(str, paths)) if isinstance(paths, list) else ()
        return cls(str(message.get("view")), texts)


@dataclass(eq=False)
class _Load:
    request: _Request
    #: The request number of each page that waits for the load.
    waiting: dict[str, Any]
    #: Whether a signal may interrupt the main thread at this point.
    can_interrupt: bool = False
    is_cancelled: bool = False


class Session:
    """Owns the widgets. `join`, `leave`, `enqueue`, `stop` and `end` are thread-safe."""

    def __init__(
        self, sources: Sources, hello: dict[str, Any] | None = None, *, offer: Offer | None = None
    ) -> None:
        self.hub = Hub(offer)
        self._sources = sources
        self._hello = hello or {}
        self._tasks: queue.SimpleQueue[_PageTask | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._load: _Load | None = None
        #: Open views, least recently used first.
        self._widgets: dict[_Request, Any] = {}
        #: The view shown by each page.
        self._shown: dict[str, _Request] = {}
        self._is_ending = False

    def join(self, page: str, send: Send) -> None:
        """Connect a page."""
        self._tasks.put(_PageTask(self._join, page, (send,)))

    def leave(self, page: str) -> None:
        """Disconnect a page. A load that no other page waits for is canceled after a delay."""
        with self._lock:
            load = self._load
            if load is not None and load.waiting.pop(page, None) is not None and not load.waiting:
                timer = threading.Timer(_GRACE_S, self._drop, [load])
                timer.daemon = True
                timer.start()
        self._tasks.put(_PageTask(self._leave, page))

    def enqueue(self, page: str, message: dict[str, Any], buffers: list[Any]) -> None:
        """Handle a message from a page, or queue it for the main thread."""
        if message.get("type") == "cancel":
            self._cancel_request(page, message.get("id"))
        elif not _is_open(message) or not self._join_running_load(page, message):
            self._tasks.put(_PageTask(self._handle, page, (message, buffers)))

    def stop(self) -> None:
        """End `run` after the tasks that are already queued."""
        self._tasks.put(None)

    def end(self) -> None:
        """End `run` immediately, even while loading."""
        _interrupt_main(signal.SIGTERM)
        self.stop()  # in case the signal does not interrupt a waiting `run`

    def _join_running_load(self, page: str, message: dict[str, Any]) -> bool:
        """If a page requests the view that is being loaded, let it wait for that load."""
        with self._lock:
            load = self._load
            if load is None or load.is_cancelled or load.request != _Request.of(message):
                return False
            load.waiting[page] = message.get("id")
            return True

    def _cancel_request(self, page: str, number: object) -> None:
        """Cancel a page's load; if other pages wait for the same load, only remove this page."""
        with self._lock:
            load = self._load
            if load is None or number is None or load.waiting.get(page) != number:
                return
            is_shared = len(load.waiting) > 1
            if is_shared:
                del load.waiting[page]
        if is_shared:
            self._tasks.put(_PageTask(self._leave_load, page, (number,)))
        else:
            self._cancel(load)

    def _drop(self, load: _Load) -> None:
        with self._lock:
            is_unwanted = not load.waiting
        if is_unwanted:
            self._cancel(load)

    def _cancel(self, load: _Load) -> None:
        load.is_cancelled = True
        _interrupt_main(_CANCEL)

    def run(self) -> None:
        """Handle tasks until `stop`, or until Ctrl+C or SIGTERM raises KeyboardInterrupt."""
        self.hub.install()
        handlers = {
            _CANCEL: self._on_interrupt_signal,
            signal.SIGINT: self._on_end_signal,
            signal.SIGTERM: self._on_end_signal,
        }
        before = {number: signal.signal(number, handler) for number, handler in handlers.items()}
        try:
            while not self._is_ending and (task := self._tasks.get()) is not None:
                task.run()
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def _answer_others(self, load: _Load) -> None:
        """Handle tasks queued during a load; defer other loads and the tasks that follow them."""
        load.can_interrupt = False
        later: list[_PageTask | None] = []
        deferred_pages: set[str] = set()
        while not self._tasks.empty():
            task = self._tasks.get()
            if task is None:
                later.append(task)
                continue
            opens = task.method == self._handle and _is_open(task.arguments[0])
            if opens or task.page in deferred_pages:
                later.append(task)
                deferred_pages.add(task.page)
            else:
                task.run()
        for task in later:
            self._tasks.put(task)
        if self._is_ending:
            raise KeyboardInterrupt
        load.can_interrupt = not load.is_cancelled
        if load.is_cancelled:
            raise LoadCancelled

    def _on_end_signal(self, *_signal: object) -> None:
        # Even if a request catches the KeyboardInterrupt, as notebooks do, this flag ends `run`.
        self._is_ending = True
        raise KeyboardInterrupt

    def _on_interrupt_signal(self, *_signal: object) -> None:
        load = self._load
        if load is not None and load.can_interrupt and load.is_cancelled:
            load.can_interrupt = False
            raise LoadCancelled

    def _join(self, page: str, send: Send) -> None:
        hello = {"protocol": PROTOCOL, "pid": os.getpid(), "version": version_text()}
        self.hub.join(page, send, {**hello, **self._hello})

    def _leave(self, page: str) -> None:
        self.hub.leave(page)
        self._shown.pop(page, None)

    def _leave_load(self, page: str, number: object) -> None:
        self.hub.send({**_CANCELLED, "id": number}, to=page)

    def _handle(self, page: str, message: dict[str, Any], buffers: list[Any]) -> None:
        kind = message.get("type")
        if kind == "comm_msg":
            self.hub.receive(page, message, buffers)
        elif kind == "text":
            key = str(message.get("key"))
            content = self.hub.texts.get(key, "").encode()
            self.hub.send({"type": "text", "key": key}, [content], to=page)
        elif kind == "open":
            self._open(page, message)

    def _open(self, page: str, message: dict[str, Any]) -> None:
        load = _Load(_Request.of(message), {page: message.get("id")})
        with self._lock:
            self._load = load
        outcome = self._load_result_message(load)
        with self._lock:
            self._load = None
        for waiting, number in load.waiting.items():
            if outcome["type"] == "opened":
                self._shown[waiting] = load.request
            self.hub.send({**outcome, "id": number}, to=waiting)
        self._close_unused()

    def _load_result_message(self, load: _Load) -> dict[str, Any]:
        """Load a view; return the outcome as a message. Only this function can be interrupted."""
        try:
            try:
                load.can_interrupt = True
                model = self._widget(load.request, load)
            except Exception as error:  # noqa: BLE001 - the page shows any error
                return failure_message(error)
            finally:
                load.can_interrupt = False
        except LoadCancelled:
            return _CANCELLED
        return {"type": "opened", "model": model.model_id}

    def _widget(self, request: _Request, load: _Load) -> Any:
        if load.is_cancelled:
            raise LoadCancelled
        widget = self._widgets.pop(request, None)
        if widget is None:
            sources = [self._source(path) for path in request.paths]
            widget = open_view(request.view, sources, partial(self._report, load))
        self._widgets[request] = widget
        return widget

    def _source(self, path: str) -> Any:
        source = self._sources(path)
        if source is None:
            raise TraceError(
                "is not among the files of this host",
                path=path,
                remedy="Pass it to hta-widgets view.",
            )
        return source

    def _report(self, load: _Load, **progress: object) -> None:
        for page, number in list(load.waiting.items()):
            self.hub.send({"type": "progress", "id": number, **progress}, to=page)
        self._answer_others(load)

    def _close_unused(self) -> None:
        unused = [request for request in self._widgets if request not in self._shown.values()]
        for request in unused[: max(len(unused) - _MAX_CACHED_WIDGETS, 0)]:
            for widget in models_of(self._widgets.pop(request)):
                widget.close()


def _is_open(message: dict[str, Any]) -> bool:
    return message.get("type") == "open"


def _interrupt_main(number: signal.Signals) -> None:
    """Send a signal to the main thread, even if it is waiting."""
    if hasattr(signal, "pthread_kill"):
        signal.pthread_kill(threading.main_thread().ident or 0, number)
    else:
        import _thread  # Windows

        _thread.interrupt_main(number)
