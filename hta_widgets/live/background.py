"""Run long computations on one background thread per process.

A request waits up to `within_ms` for its answer. After that, the reply is `PENDING`, and the page
repeats the request. In the meantime, the main thread of the kernel handles other requests. A
`BackgroundTask` is a cancelable computation that runs once for all callers::

    task = BackgroundTask(lambda: slow_answer(traces))
    task.wait_until(deadline_after(50))  # False: not ready after 50 ms, still running
    task.value_by(deadline_after(50))  # the value, or a NotReadyError
"""

from __future__ import annotations

import atexit
import math
import threading
import time
from collections.abc import Callable, Hashable, Mapping
from concurrent.futures import Future, wait
from contextlib import suppress
from contextvars import ContextVar, copy_context
from functools import partial
from queue import Queue
from typing import Any, Generic, TypeVar
from weakref import WeakSet

from hta_widgets.trace.memo import (
    LRU,
    ComputationCancelled,
    is_cancelled,
    is_ending,
    raise_if_cancelled,
)

T = TypeVar("T")
#: Reply to a request if its answer is not ready yet.
PENDING: Mapping[str, Any] = {"pending": True}
_SUPERSEDED_AFTER = 32  # tasks not requested within this many requests are canceled
_NAME = "hta-background"


class NotReadyError(Exception):
    """Raised if a result is not ready by its deadline. The page then gets the reply `PENDING`."""


def deadline_after(within_ms: float | None) -> float:
    """Return the deadline of a request as a `time.perf_counter` value."""
    return math.inf if within_ms is None else time.perf_counter() + within_ms / 1000


class BackgroundTask(Generic[T]):
    """A result that is computed when it is first requested.

    After an error or `cancel`, the next request starts the computation again.
    """

    def __init__(self, make: Callable[[], T]) -> None:
        self.last_request = 0
        self._make = make
        self._lock = threading.Lock()
        self._future: Future[T] = Future()
        self._is_queued = self._is_cancelled = False

    def wait_until(self, deadline: float) -> bool:
        """Compute the result in the background; return whether it is ready by `deadline`."""
        if deadline == math.inf:
            self.value  # noqa: B018 - computed in this thread
            return True
        with self._lock:
            future, self._is_cancelled = self._future, False
            if not self._is_queued:
                self._is_queued = True
                _submit(partial(copy_context().run, self._run, future))
        try:
            wait((future,), max(0.0, deadline - time.perf_counter()))
        except KeyboardInterrupt:
            self.cancel()
            raise
        return future.done() and _has_result(future)

    def value_by(self, deadline: float) -> T:
        """Return the result; raise `NotReadyError` if it is not ready by `deadline`."""
        if not self.wait_until(deadline):
            raise NotReadyError
        return self.value

    @property
    def value(self) -> T:
        """The result. If no other thread is computing it, it is computed in the calling thread."""
        self._is_cancelled = False
        while True:
            future = self._future
            self._run(future)
            wait((future,))
            if _has_result(future):
                return future.result()

    def cancel(self) -> None:
        """Cancel the computation. It stops at its next check, typically before the next rank."""
        self._is_cancelled = True

    def _run(self, future: Future[T]) -> None:
        with self._lock:
            if future.running() or future.done():
                return
            future.set_running_or_notify_cancel()
        is_caller_cancelled = is_cancelled.get()
        token = is_cancelled.set(lambda: self._is_cancelled or is_caller_cancelled())
        try:
            raise_if_cancelled()
            result = self._make()
        except BaseException as error:
            with self._lock:
                self._future, self._is_queued, self._is_cancelled = Future(), False, False
            future.set_exception(error)
            raise
        finally:
            is_cancelled.reset(token)
        future.set_result(result)


def _has_result(future: Future[Any]) -> bool:
    """Return whether a finished future has a result; raise its error unless it was canceled."""
    error = future.exception()
    if error is None:
        return True
    if isinstance(error, (ComputationCancelled, KeyboardInterrupt)):
        return False
    raise error


class TaskCache:
    """A cache of tasks, finished or still running, for the latest requests to an engine."""

    def __init__(self, max_tasks: int) -> None:
        self._tasks: LRU[Hashable, BackgroundTask[Any]] = LRU(
            max_tasks, on_evict=BackgroundTask.cancel
        )
        self._requests = 0

    def get(self, key: Hashable, make: Callable[[], T]) -> BackgroundTask[T]:
        """Return the task stored under `key`, creating it if needed; cancel superseded tasks."""
        self._requests += 1
        task: BackgroundTask[T] = self._tasks.get_or_compute(key, lambda: BackgroundTask(make))
        task.last_request = self._requests
        for other in self._tasks.values():
            if other.last_request < self._requests - _SUPERSEDED_AFTER:
                other.cancel()
        return task

    def clear(self) -> None:
        """Cancel and remove all tasks."""
        self._tasks.clear()


_queue: Queue[Callable[[], None]] = Queue()
#: Other threads that are canceled when the interpreter exits.
cancelled_at_exit: WeakSet[threading.Thread] = WeakSet()
#: Whether `give_way` pauses the current thread while answers to pages are being computed.
gives_way: ContextVar[bool] = ContextVar("gives way", default=False)
_starting = threading.Lock()


def _submit(call: Callable[[], None]) -> None:
    with _starting:
        if all(thread.name != _NAME for thread in threading.enumerate()):
            # The interpreter does not wait for daemon threads when it exits.
            threading.Thread(target=_serve, name=_NAME, daemon=True).start()
    _queue.put(call)


def _serve() -> None:
    while True:
        with suppress(BaseException):  # the future passes the error to the caller
            _queue.get()()
        _queue.task_done()


def give_way() -> None:
    """If `gives_way` is set, wait until no answer is being computed.

    Threads compete for the interpreter lock. Without pauses, answers would take several times as
    long. Calling this inside a `BackgroundTask` would deadlock.
    """
    if gives_way.get():
        _queue.join()
        raise_if_cancelled()


@atexit.register
def _cancel_all() -> None:
    """Cancel all work, and wait up to two seconds for its threads.

    At exit, the interpreter kills running daemon threads at an arbitrary point. Inside a C++
    library, this can abort the process.
    """
    is_ending.set()
    deadline = deadline_after(2_000)
    while time.perf_counter() < deadline and (
        _queue.unfinished_tasks or any(thread.is_alive() for thread in cancelled_at_exit)
    ):
        time.sleep(0.005)
    # Exit handlers that run after this one may start computations again.
    is_ending.clear()
