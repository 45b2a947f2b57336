"""Reads pickles of plain containers, strings and numbers, such as PyTorch's dumps.

Python's unpickler can run any code and take any amount of memory. Here, `plain_pickle` reads the
file in a separate process with limits, which refuses all code and returns a new pickle of plain
values. Since a job has a dump per rank, the process reads further files, and exits after being idle
for some seconds. A process that has read a large file or refused a file exits immediately.
"""

from __future__ import annotations

import atexit
import io
import json
import os
import subprocess
import sys
import threading
from contextlib import suppress
from typing import Any

from hta_widgets.errors import TraceError
from hta_widgets.readers import plain_pickle
from hta_widgets.trace.problems import Problems

_MAX_BYTES = 1 << 32
#: Limits of the process; values take up to about 20 bytes per byte of the file.
_MEMORY_BYTES, _MEMORY_PER_BYTE = 1 << 29, 64
_CPU_S, _BYTES_PER_S = 20, 1 << 20
#: A process that has read a larger file exits, because it may keep memory.
_MAX_REUSE_BYTES = 1 << 22
_IDLE_S = 5.0
_REMEDY = "Dump it again with PyTorch. If someone else sent it, ask which program wrote it."


def read_pickle(path: str, data: bytes, problems: Problems) -> Any:
    """Return the value of a pickle file of plain values; report an early end.

    Raises
    ------
    TraceError
        If the pickle refers to a class or function, contains anything but plain values, is damaged,
        or takes more time or memory than a file of its size should.
    """
    if len(data) > _MAX_BYTES:
        raise TraceError(
            f"has {len(data):,} bytes; the limit for pickles is {_MAX_BYTES:,}",
            path=path,
            remedy="Record fewer events: max_entries= of _record_memory_history.",
        )
    cpu_s = _CPU_S + len(data) // _BYTES_PER_S
    request = b"%d %d %d\n" % (len(data), _MEMORY_BYTES + _MEMORY_PER_BYTE * len(data), cpu_s)
    try:
        header, body = _ask([request, data], 10 * cpu_s, can_reuse=len(data) < _MAX_REUSE_BYTES)
    except OSError as cause:
        raise TraceError(
            f"cannot be read in a separate process ({type(cause).__name__})",
            path=path,
            remedy="Close other programs, and load it again.",
        ) from None
    error = header.get("error") or ("" if header else "takes too much time or memory to read")
    if error:
        raise TraceError(error, path=path, remedy=_REMEDY)
    if header["is_cut"]:
        detail = "the pickle is truncated; the values before the cut are read"
        problems.add("truncated", 1, detail, file=path)
    return plain_pickle.PlainUnpickler(io.BytesIO(body)).load()


#: Idle processes, and the id of the process that started them, because forks cannot share them.
_idle: list[tuple[int, subprocess.Popen[bytes]]] = []


def _ask(parts: list[bytes], timeout_s: float, *, can_reuse: bool) -> tuple[dict[str, Any], bytes]:
    """Return the answer of a process to a request; an empty header if it exited instead."""
    process = _take_process()
    timer = threading.Timer(timeout_s, process.kill)
    timer.start()
    header: dict[str, Any] = {}
    try:
        assert process.stdin is not None  # noqa: S101
        assert process.stdout is not None  # noqa: S101
        with suppress(BrokenPipeError):
            process.stdin.writelines(parts)
            process.stdin.flush()
        line = process.stdout.readline()
        header = json.loads(line) if line else {}
        body = process.stdout.read(header.get("size_bytes", 0))
        return (header, body) if len(body) == header.get("size_bytes", 0) else ({}, b"")
    finally:
        timer.cancel()
        if can_reuse and "size_bytes" in header:
            _keep_for_a_while(process)
        else:
            _end(process)


def _take_process() -> subprocess.Popen[bytes]:
    with suppress(IndexError):  # none is left
        while True:
            owner, process = _idle.pop()
            if owner == os.getpid() and process.poll() is None:
                return process
    return subprocess.Popen(
        [sys.executable, "-I", "-S", plain_pickle.__file__],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )


def _keep_for_a_while(process: subprocess.Popen[bytes]) -> None:
    """Keep a process for the next file; terminate it if none follows soon."""
    entry = os.getpid(), process
    _idle.append(entry)

    def end_if_idle() -> None:
        with suppress(ValueError):  # it is working again
            _idle.remove(entry)
            _end(process)

    timer = threading.Timer(_IDLE_S, end_if_idle)
    timer.daemon = True
    timer.start()


def _end(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    with suppress(OSError):  # it may have exited before reading everything
        process.communicate()


@atexit.register
def _end_idle() -> None:
    while _idle:
        owner, process = _idle.pop()
        if owner == os.getpid():
            _end(process)
