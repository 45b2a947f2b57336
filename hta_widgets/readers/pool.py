"""A pool of worker processes that need nothing of the program that started them.

`multiprocessing` imports the main module again in every worker: a script that loads traces without
an ``if __name__ == "__main__"`` would load them over and over. These workers are plain
interpreters that read tasks from a pipe; arrays come back as raw buffers.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import queue
import struct
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import Executor, Future
from pathlib import Path
from typing import IO, Any

__all__ = ["WorkerPool"]

_LENGTH = struct.Struct("<Q")
#: Not the folder where the user works, which is first on the path otherwise: a `json.py` there
#: would be taken for Python's. The package comes right behind Python's own modules.
_MAIN = """
import os, sys
package, *more = sys.argv[1:]
own = os.path.dirname(os.__file__)
sys.path.insert(sys.path.index(own) + 1 if own in sys.path else 0, package)
sys.path += [path for path in more if path not in sys.path]
from hta_widgets.readers.pool import serve
serve()
"""


class WorkerPool(Executor):
    """Runs picklable functions in separate interpreters.

    Parameters
    ----------
    workers : int
    """

    def __init__(self, workers: int) -> None:
        self._max_workers = workers
        self._shut = False
        self._tasks: queue.SimpleQueue[tuple[Future[Any], bytes] | None] = queue.SimpleQueue()
        self._threads = [threading.Thread(target=self._tend, daemon=True) for _ in range(workers)]
        for thread in self._threads:
            thread.start()

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Run ``fn(*args, **kwargs)`` in a worker."""
        if self._shut:
            raise RuntimeError("cannot schedule new futures after shutdown")
        future: Future[Any] = Future()
        self._tasks.put((future, pickle.dumps((fn, args, kwargs))))
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:  # noqa: FBT001, FBT002
        """End the workers when they have done what was submitted."""
        self._shut = True
        while cancel_futures and not self._tasks.empty():
            task = self._tasks.get()
            if task is not None:
                task[0].cancel()
        for _ in self._threads:
            self._tasks.put(None)
        if wait:
            for thread in self._threads:
                thread.join()

    def _tend(self) -> None:
        worker: subprocess.Popen[bytes] | None = None
        while (task := self._tasks.get()) is not None:
            future, message = task
            if not future.set_running_or_notify_cancel():
                continue
            try:
                if worker is None:
                    worker = _start()
                assert worker.stdin is not None  # noqa: S101
                assert worker.stdout is not None  # noqa: S101
                _send(worker.stdin, [message])
                failed, result = _receive(worker.stdout)
            except BaseException as error:  # noqa: BLE001 - the future carries it
                if worker is not None:
                    worker.kill()
                    _end(worker)
                    worker = None
                future.set_exception(error)
                continue
            if failed:
                future.set_exception(result)
            else:
                future.set_result(result)
        if worker is not None:
            _end(worker)


def _start() -> subprocess.Popen[bytes]:
    package = str(Path(__file__).resolve().parents[2])
    return subprocess.Popen(
        [sys.executable, "-P", "-c", _MAIN, package, *filter(None, sys.path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )


def _end(worker: subprocess.Popen[bytes]) -> None:
    for pipe in (worker.stdin, worker.stdout):
        with contextlib.suppress(OSError):  # it may have died with something unsent
            if pipe is not None:
                pipe.close()
    worker.wait()


def serve() -> None:
    """Answer tasks from standard input until it ends; what tasks print goes to standard error."""
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    tasks = sys.stdin.buffer
    while True:
        try:
            function, args, kwargs = _receive(tasks)
        except EOFError:
            return
        try:
            answer = (False, function(*args, **kwargs))
        except Exception as error:  # noqa: BLE001 - the caller gets it
            answer = (True, error)
        buffers: list[pickle.PickleBuffer] = []
        body = pickle.dumps(answer, protocol=5, buffer_callback=buffers.append)
        _send(answers, [body, *(buffer.raw() for buffer in buffers)])


def _send(pipe: IO[bytes], parts: list[Any]) -> None:
    pipe.write(_LENGTH.pack(len(parts)))
    for part in parts:
        pipe.write(_LENGTH.pack(memoryview(part).nbytes))
    for part in parts:
        pipe.write(part)
    pipe.flush()


def _receive(pipe: IO[bytes]) -> Any:
    count = _number(pipe)
    sizes = [_number(pipe) for _ in range(count)]
    parts = []
    for size in sizes:
        part = bytearray(size)
        view = memoryview(part)
        while view and (got := pipe.readinto(view)):  # type: ignore[attr-defined]
            view = view[got:]
        if view:
            raise EOFError("a worker process ended unexpectedly; was it out of memory?")
        parts.append(part)
    return pickle.loads(parts[0], buffers=parts[1:])  # noqa: S301 - from our own process


def _number(pipe: IO[bytes]) -> int:
    data = pipe.read(_LENGTH.size)
    if len(data) < _LENGTH.size:
        raise EOFError("a worker process ended unexpectedly; was it out of memory?")
    return int(_LENGTH.unpack(data)[0])
