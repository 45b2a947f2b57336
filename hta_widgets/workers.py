"""Run calls in a pool of processes or in any `Executor`."""

from __future__ import annotations

import contextlib
import os
import pickle
import queue
import re
import socket
import struct
import subprocess
import sys
import threading
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import BrokenExecutor, CancelledError, Executor, Future
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, NamedTuple

from hta_widgets import taxonomy
from hta_widgets.errors import TraceError
from hta_widgets.files import cache_folder, package_version, use_cache_folder

_LENGTH = struct.Struct("<Q")
#: Source code of a worker. The working directory is not on the path, because a `json.py` there
#: would shadow Python's. The package comes right after the standard library.
_MAIN = """
import os, signal, sys
signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent ends workers
package, *parent_path = sys.argv[1:]
stdlib = os.path.dirname(os.__file__)
sys.path.insert(sys.path.index(stdlib) + 1 if stdlib in sys.path else 0, package)
sys.path += [path for path in parent_path if path not in sys.path]
from hta_widgets.workers import serve
serve()
"""

#: Function called with the values that a running task reports.
Report = Callable[[Any], object]


class _Task(NamedTuple):
    future: Future[Any]
    message: bytes
    report: Report | None


class WorkerPool(Executor):
    """Runs picklable functions in separate interpreters. An error in a ``with`` block kills them.

    Each worker has a thread that sends it one task at a time and waits for the result.
    """

    def __init__(self, workers: int) -> None:
        self._max_workers = workers
        self._is_shut = False
        self._is_killed = False
        self._workers: set[subprocess.Popen[bytes]] = set()
        self._workers_lock = threading.Lock()
        self._tasks: queue.SimpleQueue[_Task | None] = queue.SimpleQueue()
        self._threads = [
            threading.Thread(target=self._serve_worker, daemon=True) for _ in range(workers)
        ]
        for thread in self._threads:
            thread.start()

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Run ``fn(*args, **kwargs)`` in a worker."""
        return self.submit_reporting(None, fn, *args, **kwargs)

    def submit_reporting(
        self, report: Report | None, fn: Callable[..., Any], /, *args: Any, **kwargs: Any
    ) -> Future[Any]:
        """Submit a call. A pool thread passes the values given to `advance` on to `report`."""
        if self._is_shut:
            raise RuntimeError("cannot schedule new futures after shutdown")
        future: Future[Any] = Future()
        message = pickle.dumps((fn, args, kwargs, report is not None))
        self._tasks.put(_Task(future, message, report))
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:  # noqa: FBT001, FBT002
        """End the workers after all submitted calls."""
        self._is_shut = True
        with contextlib.suppress(queue.Empty):
            while cancel_futures:
                task = self._tasks.get_nowait()
                if task is not None:
                    task.future.cancel()
        for _ in self._threads:
            self._tasks.put(None)
        if wait:
            for thread in self._threads:
                thread.join()

    def __exit__(self, kind: type[BaseException] | None, *_error: object) -> None:
        """End the workers after all submitted calls or, on an error, immediately."""
        if kind is not None:
            self.kill()
        self.shutdown()

    def kill(self) -> None:
        """Kill the workers; running and pending calls are dropped."""
        with self._workers_lock:
            self._is_killed = True
            for worker in self._workers:
                worker.kill()
        self.shutdown(wait=False, cancel_futures=True)

    def _start(self) -> subprocess.Popen[bytes]:
        with self._workers_lock:
            if self._is_killed:
                raise CancelledError
            package = str(Path(__file__).resolve().parents[1])
            worker = subprocess.Popen(
                [sys.executable, "-P", "-c", _MAIN, package, *filter(None, sys.path)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
            )
            self._workers.add(worker)
        return worker

    def _end(self, worker: subprocess.Popen[bytes]) -> None:
        for pipe in (worker.stdin, worker.stdout):
            with contextlib.suppress(OSError):  # the worker may have died before it read all data
                if pipe is not None:
                    pipe.close()
        worker.wait()
        with self._workers_lock:
            self._workers.discard(worker)

    def _serve_worker(self) -> None:
        """Run tasks until the pool is shut down. The first task starts the worker."""
        worker: subprocess.Popen[bytes] | None = None
        while (task := self._tasks.get()) is not None:
            if task.future.set_running_or_notify_cancel():
                worker = self._run_task(task, worker)
        if worker is not None:
            self._end(worker)

    def _run_task(
        self, task: _Task, worker: subprocess.Popen[bytes] | None
    ) -> subprocess.Popen[bytes] | None:
        """Run a task and return the worker for the next one; None if the worker ended.

        If the worker ends unexpectedly, the task runs again in a new worker.
        """
        for is_last in (False, True):
            try:
                worker = worker or self._start()
                failed, result = _run_in_worker(worker, task)
            except BaseException as error:  # noqa: BLE001 - the future carries it
                if worker is not None:
                    worker.kill()
                    self._end(worker)
                    worker = None
                is_lost = isinstance(error, (EOFError, OSError)) and not self._is_killed
                if is_lost and not is_last:
                    continue
                failed, result = True, _killed_worker_error(error) if is_lost else error
            if failed:
                task.future.set_exception(result)
            else:
                task.future.set_result(result)
            break
        return worker


def _run_in_worker(worker: subprocess.Popen[bytes], task: _Task) -> tuple[bool, Any]:
    """Return whether a task failed, and its result or error."""
    assert worker.stdin is not None  # noqa: S101
    assert worker.stdout is not None  # noqa: S101
    _send(worker.stdin, [task.message])
    failed, result = _receive(worker.stdout)
    while task.report is not None and failed is None:  # a value reported by the task
        task.report(result)
        failed, result = _receive(worker.stdout)
    return failed, result


def _killed_worker_error(cause: BaseException) -> TraceError:
    error = TraceError(
        f"a worker process ended unexpectedly, and so did the worker that replaced it ({cause})",
        remedy="The usual reason is too little memory: give a memory_limit, load fewer ranks,"
        " or close other programs.",
    )
    error.__cause__ = cause
    return error


def serve() -> None:
    """Run tasks from standard input until it ends. Tasks print to standard error."""
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    tasks = sys.stdin.buffer
    while True:
        try:
            function, args, kwargs, has_report = _receive(tasks)
        except EOFError:
            return
        if has_report:
            kwargs["advance"] = lambda value: _send(answers, [pickle.dumps((None, value))])
        try:
            answer = (False, function(*args, **kwargs))
        except Exception as error:  # noqa: BLE001 - sent to the caller
            answer = (True, error)
        buffers: list[pickle.PickleBuffer] = []
        body = pickle.dumps(answer, protocol=5, buffer_callback=buffers.append)
        _send(answers, [body, *(buffer.raw() for buffer in buffers)])


def _send(pipe: IO[bytes], parts: list[Any]) -> None:
    """Write a message: number of parts, size of each part, parts."""
    pipe.write(_LENGTH.pack(len(parts)))
    for part in parts:
        pipe.write(_LENGTH.pack(memoryview(part).nbytes))
    for part in parts:
        pipe.write(part)
    pipe.flush()


def _receive(pipe: IO[bytes]) -> Any:
    """Read a message from `_send` and unpickle its first part; the other parts are buffers."""
    count = _read_length(pipe)
    sizes = [_read_length(pipe) for _ in range(count)]
    body, *buffers = (_read_bytes(pipe, size) for size in sizes)
    return pickle.loads(body, buffers=buffers)  # noqa: S301 - from our own process


def _read_length(pipe: IO[bytes]) -> int:
    return int(_LENGTH.unpack(_read_bytes(pipe, _LENGTH.size))[0])


def _read_bytes(pipe: IO[bytes], size: int) -> bytearray:
    data = bytearray(size)
    rest = memoryview(data)
    while rest and (read_bytes := pipe.readinto(rest)):  # type: ignore[attr-defined]
        rest = rest[read_bytes:]
    if rest:
        raise EOFError("its answer is not complete")
    return data


_CLOSED = re.compile(r"^ClosedClientError|after (interpreter )?(shutdown|closing)")
_SAME_VERSIONS = "Install the same versions of hta_widgets and its dependencies on both."

#: The process that submitted the current call; None outside of calls.
_submitted_by: ContextVar[str | None] = ContextVar("submitting process", default=None)


class ExecutorClosedError(Exception):
    """Raised if an executor no longer accepts calls."""


@dataclass(frozen=True, eq=False)
class _Call:
    """A function, its arguments, and the settings on which the result depends."""

    function: Callable[..., Any]
    args: tuple[Any, ...]
    version: str
    home: str
    cache: str
    rules: tuple[taxonomy.Rule, ...]

    @property
    def __name__(self) -> str:
        # This name appears in the dashboard of a cluster.
        function = getattr(self.function, "func", self.function)
        return str(getattr(function, "__name__", "call")).strip("_")

    def __dask_tokenize__(self) -> str:
        # A new token for each call: Dask would reuse the result of an equal call even if files have
        # changed.
        return uuid.uuid4().hex

    def __call__(self) -> Any:
        if self.version != (own_version := package_version("hta_widgets")):
            raise TraceError(
                f"hta_widgets is {own_version} on the worker {socket.gethostname()}, and"
                f" {self.version} here",
                remedy=_SAME_VERSIONS,
            )
        token = _submitted_by.set(self.home)
        try:
            with use_cache_folder(self.cache), _rules.using(self.rules):
                return self.function(*self.args)
        except TraceError as error:
            if is_own_process() or error.path is None or Path(error.path).exists():
                raise
            raise missing_file_error(error.path) from None
        finally:
            _submitted_by.reset(token)


def submit(executor: Executor, function: Callable[..., Any], *args: object) -> Future[Any]:
    """Submit ``function(*args)`` to `executor`, with the taxonomy rules of this process."""
    call = _Call(
        function,
        args,
        version=package_version("hta_widgets"),
        home=_this_process(),
        cache=str(cache_folder()),
        rules=taxonomy.added_rules(),
    )
    try:
        return executor.submit(call)
    except BrokenExecutor as cause:
        raise _lost_worker_error(cause) from cause
    except Exception as cause:
        # Exceptions for a closed executor differ between libraries, so the text is searched.
        if _CLOSED.search(f"{type(cause).__name__}: {cause}"):
            raise ExecutorClosedError(type(cause).__name__) from None
        raise


def result_of(future: Future[Any]) -> Any:
    """Wait for a call and return its result."""
    try:
        return future.result()
    except (BrokenExecutor, CancelledError) as cause:
        raise _lost_worker_error(cause) from cause
    except Exception as cause:
        if type(cause).__name__ == "KilledWorker":
            raise TraceError(
                "each worker that was given this task ended unexpectedly",
                remedy="Was it out of memory? Give each worker more memory, or fewer threads, and"
                " check the workers' logs.",
            ) from cause
        if "deserializ" in str(cause):
            raise TraceError(
                f"a worker, or the scheduler, cannot decode what it is sent ({cause})",
                remedy=_SAME_VERSIONS,
            ) from cause
        raise


def missing_file_error(path: str) -> TraceError:
    """Return the error for a file that does not exist on this worker."""
    return TraceError(
        f"does not exist on the worker {socket.gethostname()}",
        path=path,
        remedy="Workers open the files themselves: mount their folder at the same path.",
    )


def _lost_worker_error(cause: BaseException) -> TraceError:
    return TraceError(
        f"the executor lost its workers or its tasks ({str(cause) or type(cause).__name__})",
        remedy="Were they out of memory, or stopped? Start them again, and load again.",
    )


def workers_of(executor: Executor) -> int:
    """Return the number of concurrent calls in an executor; the number of CPUs if unknown."""
    max_workers = getattr(executor, "_max_workers", None)
    if isinstance(max_workers, int):
        return max(max_workers, 1)
    try:
        return max(sum(executor._client.ncores().values()), 1)  # type: ignore[attr-defined]  # noqa: SLF001
    except Exception:  # noqa: BLE001 - not Dask's, or its cluster does not answer
        return os.cpu_count() or 1


def require_executor(executor: object) -> None:
    """Raise a `TraceError` if an object is not an executor."""
    if not callable(getattr(executor, "submit", None)):
        raise TraceError(
            f"{executor!r} is not an executor",
            remedy="Pass a concurrent.futures executor or, for Dask, client.get_executor().",
        )


def is_own_process() -> bool:
    """Return whether this process submitted the current call; True outside of calls."""
    return _submitted_by.get() in {None, _this_process()}


def _this_process() -> str:
    # A forked process has the same token but another id; another host may use the same ids.
    return f"{_TOKEN}-{os.getpid()}"


_TOKEN = uuid.uuid4().hex


class _RulesLock:
    """Applies taxonomy rules during a call; calls with other rules wait for running calls."""

    def __init__(self) -> None:
        self._free = threading.Condition()
        self._running = 0

    @contextmanager
    def using(self, rules: tuple[taxonomy.Rule, ...]) -> Iterator[None]:
        if is_own_process():
            yield
            return
        with self._free:
            self._free.wait_for(lambda: not self._running or rules == taxonomy.added_rules())
            taxonomy.use_rules(rules)
            self._running += 1
        try:
            yield
        finally:
            with self._free:
                self._running -= 1
                self._free.notify_all()


_rules = _RulesLock()
