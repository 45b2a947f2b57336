"""The main thread of a host: it does what pages ask, one thing after another, as a kernel does.

While it reads a trace for one page, it answers what others ask of views that are open.
"""

from __future__ import annotations

import os
import queue
import signal
import sys
import threading
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from hta_widgets.errors import TraceError
from hta_widgets.export.page_format import version_text
from hta_widgets.host.hub import Hub, Offer, Send
from hta_widgets.host.opening import failure_of, models_of, open_view

PROTOCOL = 1
#: A load whose pages have all left goes on for this long: pages dial again.
_GRACE_S = 10.0
#: Views that no page shows are kept up to this number.
_MOST_KEPT = 4
#: Not SIGINT: Ctrl+C ends the host, also during a load.
_CANCEL: signal.Signals = getattr(signal, "SIGUSR1", signal.SIGTERM)

#: Paths as pages name them, and what `hta_widgets.load` takes; None: they are not on offer.
Sources = Callable[[str], Any]
#: A method, and its arguments; the first is the page.
_Task = tuple[Callable[..., None], tuple[Any, ...]]


class Cancelled(KeyboardInterrupt):
    """No page wants the load that runs any more."""


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
    #: pages that wait for it, and the number that each of them gave it
    waiting: dict[str, Any]
    is_exposed: bool = False
    is_cancelled: bool = False


class Session:
    """Owns the widgets. `put`, `join`, `leave` and `stop` are for any thread."""

    def __init__(
        self, sources: Sources, hello: dict[str, Any] | None = None, *, offer: Offer | None = None
    ) -> None:
        self.hub = Hub(offer)
        self._sources = sources
        self._hello = hello or {}
        self._tasks: queue.SimpleQueue[_Task | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._load: _Load | None = None
        #: the one used last at the end
        self._widgets: dict[_Request, Any] = {}
        self._shown: dict[str, _Request] = {}
        self._is_ending = False

    # --- from any thread --------------------------------------------------------------------------

    def join(self, page: str, send: Send) -> None:
        """Connect a page."""
        self._tasks.put((self._join, (page, send)))

    def leave(self, page: str) -> None:
        """Disconnect a page; a load that no other page waits for is cancelled after a while."""
        with self._lock:
            load = self._load
            if load is not None and load.waiting.pop(page, None) is not None and not load.waiting:
                timer = threading.Timer(_GRACE_S, self._drop, [load])
                timer.daemon = True
                timer.start()
        self._tasks.put((self._leave, (page,)))

    def put(self, page: str, message: dict[str, Any], buffers: list[Any]) -> None:
        """Take a message of a page."""
        kind = message.get("type")
        if kind == "cancel":
            with self._lock:
                load = self._load
                waiting = {} if load is None else dict(load.waiting)
            if load is not None and page in waiting and waiting[page] == message.get("id"):
                self._cancel(load)
        elif not _is_open(message) or not self._waits(page, message):
            self._tasks.put((self._handle, (page, message, buffers)))

    def stop(self) -> None:
        """End `run` when it is done with what was put before."""
        self._tasks.put(None)

    def end(self) -> None:
        """End `run` at once, also during a load."""
        _interrupt_main(signal.SIGTERM)
        self.stop()  # if a signal does not end waiting

    def _waits(self, page: str, message: dict[str, Any]) -> bool:
        """Whether a page asks for what is being loaded; it waits for that, too."""
        with self._lock:
            load = self._load
            if load is None or load.is_cancelled or load.request != _Request.of(message):
                return False
            load.waiting[page] = message.get("id")
            return True

    def _drop(self, load: _Load) -> None:
        with self._lock:
            is_unwanted = not load.waiting
        if is_unwanted:
            self._cancel(load)

    def _cancel(self, load: _Load) -> None:
        load.is_cancelled = True
        _interrupt_main(_CANCEL)

    # --- in the main thread -----------------------------------------------------------------------

    def run(self) -> None:
        """Do what comes, until `stop`, or a KeyboardInterrupt by Ctrl+C or SIGTERM."""
        self.hub.install()
        handlers = {
            _CANCEL: self._interrupted,
            signal.SIGINT: self._end,
            signal.SIGTERM: self._end,
        }
        before = {number: signal.signal(number, one) for number, one in handlers.items()}
        try:
            while not self._is_ending and (task := self._tasks.get()) is not None:
                self._do(*task)
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def _do(self, function: Callable[..., None], arguments: tuple[Any, ...]) -> None:
        try:
            function(*arguments)
        except Exception:  # noqa: BLE001 - a bad message must not end the host
            traceback.print_exc(file=sys.stderr)

    def _answer_others(self, load: _Load) -> None:
        """Do what came during a load, except further loads and what their pages ask after them."""
        load.is_exposed = False
        later: list[_Task | None] = []
        held: set[str] = set()
        while not self._tasks.empty():
            task = self._tasks.get()
            is_open = task is not None and task[0] == self._handle and _is_open(task[1][1])
            if task is None or is_open or task[1][0] in held:
                later.append(task)
                held |= set() if task is None else {task[1][0]}
            else:
                self._do(*task)
        for task in later:
            self._tasks.put(task)
        if self._is_ending:
            raise KeyboardInterrupt
        load.is_exposed = not load.is_cancelled
        if load.is_cancelled:
            raise Cancelled

    def _end(self, *_signal: object) -> None:
        # Answering a request goes on after a KeyboardInterrupt, as in a notebook.
        self._is_ending = True
        raise KeyboardInterrupt

    def _interrupted(self, *_signal: object) -> None:
        load = self._load
        if load is not None and load.is_exposed and load.is_cancelled:
            load.is_exposed = False
            raise Cancelled

    def _join(self, page: str, send: Send) -> None:
        hello = {"protocol": PROTOCOL, "pid": os.getpid(), "version": version_text()}
        self.hub.join(page, send, {**hello, **self._hello})

    def _leave(self, page: str) -> None:
        self.hub.leave(page)
        self._shown.pop(page, None)

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
        outcome = self._outcome(load)
        with self._lock:
            self._load = None
        for waiting, number in load.waiting.items():
            if outcome["type"] == "opened":
                self._shown[waiting] = load.request
            self.hub.send({**outcome, "id": number}, to=waiting)
        self._close_unused()

    def _outcome(self, load: _Load) -> dict[str, Any]:
        """Return the message that ends a load. It is interrupted only inside this function."""
        try:
            try:
                load.is_exposed = True
                model = self._widget(load.request, load)
            except Exception as error:  # noqa: BLE001 - the page shows any error
                return failure_of(error)
            finally:
                load.is_exposed = False
        except Cancelled:
            return {"type": "failed", "cancelled": True, "message": "Cancelled."}
        return {"type": "opened", "model": model.model_id}

    def _widget(self, request: _Request, load: _Load) -> Any:
        if load.is_cancelled:
            raise Cancelled
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

    def _report(self, load: _Load, **at: Any) -> None:
        for page, number in list(load.waiting.items()):
            self.hub.send({"type": "progress", "id": number, **at}, to=page)
        self._answer_others(load)

    def _close_unused(self) -> None:
        unused = [one for one in self._widgets if one not in self._shown.values()]
        for request in unused[: max(len(unused) - _MOST_KEPT, 0)]:
            for widget in models_of(self._widgets.pop(request)):
                widget.close()


def _is_open(message: dict[str, Any]) -> bool:
    return message.get("type") == "open"


def _interrupt_main(number: signal.Signals) -> None:
    """Let the main thread handle a signal, whatever it waits for."""
    if hasattr(signal, "pthread_kill"):
        signal.pthread_kill(threading.main_thread().ident or 0, number)
    else:
        import _thread  # noqa: PLC0415 - Windows

        _thread.interrupt_main(number)
