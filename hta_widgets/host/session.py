"""The main thread of a host, the frames that it exchanges with pages, and the comms of widgets.

The thread handles the messages of pages one after another, as a Jupyter kernel does. While it reads
a trace for one page, it answers requests of other pages to views that are open.

A frame is one JSON object and any number of buffers, little-endian: ``u32 n``, ``u32 length[n]``
and n parts. Part 0 is the object in UTF-8. Each part begins at a multiple of 8, so that a page can
read typed arrays in place.
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
#: Maximum size of a frame from a page; frames from the host may be larger.
MAX_BYTES = 64 << 20


class WireError(Exception):
    """Raised for bytes that are not a frame; the connection cannot be used any more."""


def pack(message: dict[str, Any], buffers: Sequence[Any] = ()) -> bytes:
    """Return the frame of a message and its buffers."""
    text = json.dumps(message, separators=(",", ":"), allow_nan=False)
    # ASCII, because names in traces may contain lone surrogates, which UTF-8 lacks.
    parts = [memoryview(text.encode("ascii")), *(memoryview(part).cast("B") for part in buffers)]
    out = bytearray(struct.pack(f"<{len(parts) + 1}I", len(parts), *map(len, parts)))
    for part in parts:
        out += bytes(-len(out) % 8)
        out += part
    return bytes(out)


def unpack(frame: bytes) -> tuple[dict[str, Any], list[memoryview]]:
    """Return the object and the buffers of a frame."""
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
            raise WireError(f"a frame of {start} bytes has {len(view)}")
        message = json.loads(bytes(parts[0]))
    except (struct.error, ValueError, RecursionError) as error:
        raise WireError(str(error)) from None
    if not isinstance(message, dict):
        raise WireError("part 0 is not a JSON object")
    return message, parts[1:]


Send = Callable[[bytes], None]
#: Function from the path of a written file to its name and address for pages, or None.
Offer = Callable[[Path], tuple[str, str] | None]

#: Traits that make up most of a model's bytes; each value is sent once and identified by its hash.
_TEXTS = ("_esm", "_css")
#: Traits for Jupyter's own front ends, which are not sent.
_DROPPED = ("layout", "tabbable", "tooltip", "_dom_classes", "_anywidget_id", "_view_count")


class Hub:
    """All comms of this process, and all pages. Only the main thread uses it."""

    def __init__(self, offer: Offer | None = None) -> None:
        self.offer = offer
        #: Long strings of models, by the key under which pages request them.
        self.texts: dict[str, str] = {}
        #: The page whose message is handled; only this page gets the replies.
        self.current: str | None = None
        self._pages: dict[str, Send] = {}
        self._comms: dict[str, WireComm] = {}
        #: The page that joins, to which models send their states.
        self._joining: str | None = None

    def install(self) -> None:
        """Make widgets open their comms in this hub."""
        comm.create_comm = lambda *args, **options: WireComm(self, *args, **options)

    def join(self, page: str, send: Send, hello: dict[str, Any]) -> None:
        """Send a page the greeting and every model."""
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
        """Send a message to one page, or to all except one."""
        frame = pack(message, buffers)
        for page, send in self._pages.items():
            if page != but and to in {None, page}:
                send(frame)

    def receive(self, page: str, message: dict[str, Any], buffers: list[Any]) -> None:
        """Handle a message from a page to a model; drop it if this host does not have the model."""
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
        """Keep a string; return the key under which pages request it."""
        key = hashlib.sha256(source.encode()).hexdigest()[:32]
        self.texts[key] = source
        return key

    def publish(self, comm: WireComm, kind: str, data: dict[str, Any], buffers: Any) -> None:
        """Send a message from a widget to the pages that need it."""
        if kind == "comm_open":
            # Layouts and other models are not drawn by pages of this host.
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
            # The page that made a change needs no echo of it.
            excluded = self.current
        message = {"type": kind, "comm": comm.comm_id, "data": data}
        self.send(message, buffers, to=receiver, but=excluded)

    def _open(self, comm: WireComm, data: dict[str, Any], buffers: Any, to: str | None) -> None:
        state = {key: value for key, value in data["state"].items() if key not in _DROPPED}
        state |= {key: self.text(state[key]) for key in _TEXTS if key in state}
        content = {"state": state, "buffer_paths": data.get("buffer_paths", [])}
        self.send({"type": "comm_open", "comm": comm.comm_id, "data": content}, buffers, to=to)

    def _with_download(self, data: dict[str, Any]) -> dict[str, Any]:
        """Return a reply with the name and the address of a written file instead of its path."""
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
    """A comm for ipywidgets that sends Jupyter's messages as frames."""

    def __init__(self, hub: Hub, *args: Any, **options: Any) -> None:
        self._hub = hub
        super().__init__(*args, **options)

    def receive(self, data: dict[str, Any], buffers: list[Any]) -> None:
        """Hand a message from a page to the widget."""
        self.handle_msg({"content": {"data": data}, "buffers": buffers})

    def publish_msg(
        self,
        msg_type: str,
        data: dict[str, Any] | None = None,
        metadata: dict[str, Any] | None = None,  # noqa: ARG002 - the base class's signature
        buffers: list[bytes] | None = None,
        **_keys: object,
    ) -> None:
        """Send a message of the widget."""
        self._hub.publish(self, msg_type, data or {}, buffers or [])


PROTOCOL = 1
#: Time for which a load continues without pages, since pages reconnect.
_GRACE_S = 10.0
#: Maximum number of views that are kept while no page shows them.
_MAX_CACHED_WIDGETS = 4
#: Signal that cancels a load; not SIGINT, by which Ctrl+C ends the host.
_CANCEL: signal.Signals = getattr(signal, "SIGUSR1", signal.SIGTERM)

#: Function that maps the path that a page names to what `hta_widgets.load` takes, or to None if the
#: host does not offer it.
Sources = Callable[[str], Any]


_CANCELLED: Final = {"type": "failed", "cancelled": True, "message": "Cancelled."}


class LoadCancelled(KeyboardInterrupt):
    """Raised in a load that no page waits for any more."""


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
    """A view that a page opens; equal requests share their models."""

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
    #: The number of the request, for each page that waits for the load.
    waiting: dict[str, Any]
    #: Whether a signal may interrupt the main thread now.
    can_interrupt: bool = False
    is_cancelled: bool = False


class Session:
    """Owns the widgets. Any thread may call `join`, `leave`, `enqueue`, `stop` and `end`."""

    def __init__(
        self, sources: Sources, hello: dict[str, Any] | None = None, *, offer: Offer | None = None
    ) -> None:
        self.hub = Hub(offer)
        self._sources = sources
        self._hello = hello or {}
        self._tasks: queue.SimpleQueue[_PageTask | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._load: _Load | None = None
        #: The open views, from the least to the most recently used one.
        self._widgets: dict[_Request, Any] = {}
        self._shown: dict[str, _Request] = {}
        self._is_ending = False

    def join(self, page: str, send: Send) -> None:
        """Connect a page."""
        self._tasks.put(_PageTask(self._join, page, (send,)))

    def leave(self, page: str) -> None:
        """Disconnect a page; a load that no other page waits for is cancelled after a while."""
        with self._lock:
            load = self._load
            if load is not None and load.waiting.pop(page, None) is not None and not load.waiting:
                timer = threading.Timer(_GRACE_S, self._drop, [load])
                timer.daemon = True
                timer.start()
        self._tasks.put(_PageTask(self._leave, page))

    def enqueue(self, page: str, message: dict[str, Any], buffers: list[Any]) -> None:
        """Receive a message from a page."""
        if message.get("type") == "cancel":
            self._cancel_request(page, message.get("id"))
        elif not _is_open(message) or not self._join_running_load(page, message):
            self._tasks.put(_PageTask(self._handle, page, (message, buffers)))

    def stop(self) -> None:
        """End `run` after the tasks that are queued already."""
        self._tasks.put(None)

    def end(self) -> None:
        """End `run` immediately, even during a load."""
        _interrupt_main(signal.SIGTERM)
        self.stop()  # in case the signal does not interrupt `run` while it waits

    def _join_running_load(self, page: str, message: dict[str, Any]) -> bool:
        """Return whether the view that a page opens is being loaded; the page then waits for it."""
        with self._lock:
            load = self._load
            if load is None or load.is_cancelled or load.request != _Request.of(message):
                return False
            load.waiting[page] = message.get("id")
            return True

    def _cancel_request(self, page: str, number: object) -> None:
        """Cancel the load that a page waits for, or only its wait if other pages wait as well."""
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
        """Handle tasks until `stop`, or until Ctrl+C or SIGTERM raises a KeyboardInterrupt."""
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
        """Handle the tasks that came during a load, except further loads and what follows them."""
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
        # If a request catches the KeyboardInterrupt, as in a notebook, the flag ends `run`.
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
        """Return the message that ends a load; only this function may be interrupted."""
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
                remedy="Start hta-widgets view with it.",
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
    """Make the main thread handle a signal, even while it waits."""
    if hasattr(signal, "pthread_kill"):
        signal.pthread_kill(threading.main_thread().ident or 0, number)
    else:
        import _thread  # Windows

        _thread.interrupt_main(number)
