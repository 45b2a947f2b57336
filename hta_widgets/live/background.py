"""Long computations on one background thread per process.

A request waits for `within_ms`. If the answer is not ready then, the reply is `PENDING`, and the
page sends the request again. Meanwhile the kernel's main thread answers other requests. A
computation is a `BackgroundTask`: it runs once for all callers, and can be cancelled::

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
#: Reply to a request whose answer is not ready.
PENDING: Mapping[str, Any] = {"pending": True}
_SUPERSEDED_AFTER = 32  # number of later requests for other tasks after which a task is cancelled
_NAME = "hta-background"


class NotReadyError(Exception):
    """A result is not ready by its deadline; the reply to the request is `PENDING`."""


def deadline_after(within_ms: float | None) -> float:
    """Return the deadline of a request, as a value of `time.perf_counter`."""
    return math.inf if within_ms is None else time.perf_counter() + within_ms / 1000


class BackgroundTask(Generic[T]):
    """A result that is computed on first request.

    After a failure or `cancel`, the next request computes it again.
    """

    def __init__(self, make: Callable[[], T]) -> None:
        self.last_request = 0
        self._make = make
        self._lock = threading.Lock()
        self._future: Future[T] = Future()
        self._is_queued = self._is_cancelled = False

    def wait_until(self, deadline: float) -> bool:
        """Wait until `deadline` for the background thread; return whether the result is ready."""
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
        """Return the result; raise a `NotReadyError` if it is not ready by `deadline`."""
        if not self.wait_until(deadline):
            raise NotReadyError
        return self.value

    @property
    def value(self) -> T:
        """The result, computed in this thread unless another thread is computing it."""
        self._is_cancelled = False
        while True:
            future = self._future
            self._run(future)
            wait((future,))
            if _has_result(future):
                return future.result()

    def cancel(self) -> None:
        """Stop the computation at the next rank."""
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
    """Return whether a finished future has a result; raise its error unless it was stopped."""
    error = future.exception()
    if error is None:
        return True
    if isinstance(error, (ComputationCancelled, KeyboardInterrupt)):
        return False
    raise error


class TaskCache:
    """The latest answers to requests of one engine, ready or being computed."""

    def __init__(self, max_tasks: int = 16) -> None:
        self._tasks: LRU[Hashable, BackgroundTask[Any]] = LRU(
            max_tasks, on_evict=BackgroundTask.cancel
        )
        self._requests = 0

    def get(self, key: Hashable, make: Callable[[], T]) -> BackgroundTask[T]:
        """Return the task under `key`, and cancel superseded tasks."""
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
#: Other threads whose work is cancelled when the interpreter ends.
cancelled_at_exit: WeakSet[threading.Thread] = WeakSet()
#: Whether the work of this thread waits for answers to pages at each `give_way`.
gives_way: ContextVar[bool] = ContextVar("gives way", default=False)
_starting = threading.Lock()


def _submit(call: Callable[[], None]) -> None:
    with _starting:
        if all(thread.name != _NAME for thread in threading.enumerate()):
            # A daemon thread, because the interpreter ends without waiting for it.
            threading.Thread(target=_serve, name=_NAME, daemon=True).start()
    _queue.put(call)


def _serve() -> None:
    while True:
        with suppress(BaseException):  # the future has the error, for the caller
            _queue.get()()
        _queue.task_done()


def give_way() -> None:
    """Wait until no answer is being computed, in a thread that `gives_way`.

    Threads share one interpreter: without this, answers take several times as long. Must not be
    called inside a `BackgroundTask`, which would wait for itself.
    """
    if gives_way.get():
        _queue.join()
        raise_if_cancelled()


@atexit.register
def _cancel_all() -> None:
    """Cancel all work, and wait up to two seconds for its threads.

    The interpreter stops a daemon thread that still runs wherever it is. Inside of a C++ library,
    this can abort the process.
    """
    is_ending.set()
    deadline = deadline_after(2_000)
    while time.perf_counter() < deadline and (
        _queue.unfinished_tasks or any(thread.is_alive() for thread in cancelled_at_exit)
    ):
        time.sleep(0.005)
    # Functions that run at exit after this one may compute something, too.
    is_ending.clear()
