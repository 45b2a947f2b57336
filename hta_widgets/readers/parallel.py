"""Reads many files on an executor. The available memory limits the number of processes."""

from __future__ import annotations

import contextlib
import ctypes
import re
import secrets
import socket
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Executor, as_completed
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from hta_widgets.arguments import stack_level
from hta_widgets.errors import TraceError
from hta_widgets.files import temporary_folder
from hta_widgets.readers import cache as columnar
from hta_widgets.readers.formats import Outcome
from hta_widgets.workers import (
    ExecutorClosedError,
    is_own_process,
    missing_file_error,
    result_of,
    submit,
    workers_of,
)


def trim_memory() -> None:
    """Return freed memory to the system, which glibc would otherwise keep."""
    trim = _malloc_trim()
    if trim is not None:
        trim(0)


@cache
def _malloc_trim() -> Callable[[int], int] | None:
    try:
        trim: Callable[[int], int] = ctypes.CDLL(None).malloc_trim
    except (OSError, AttributeError, TypeError):  # musl, macOS, Windows
        return None
    return trim


#: Tasks per worker. More tasks balance better, but each costs the scheduler some milliseconds.
_TASKS_PER_WORKER = 8

#: Function that reads a file, with the signature of `load.read_trace`.
ReadTrace = Callable[..., Outcome]


class FileToRead(NamedTuple):
    """A file that is not cached yet."""

    path: str
    format: str
    size_bytes: int
    #: whether to write its columns to the cache
    to_cache: bool


class _Read(NamedTuple):
    outcome: Outcome
    #: the worker that sent the columns; None if they are in a file
    sent_by: str | None = None


class _Handover(NamedTuple):
    """Folders for workers' columns: the cache, and a folder that this process removes at exit."""

    cache: Path
    temporary: Path
    #: name of a file in both folders; a worker that sees this file shares the folder
    marker: str


def read_on_executor(
    executor: Executor,
    read: ReadTrace,
    files: Sequence[FileToRead],
    aside: Path | None,
    advance: Callable[[int], object],
) -> list[Outcome]:
    """Read files on an executor; workers that do not share the folder send their columns."""
    size = max(1, len(files) // (_TASKS_PER_WORKER * workers_of(executor)))
    batches = [files[start : start + size] for start in range(0, len(files), size)]
    reads_of_batch: dict[int, list[_Read]] = {}
    with _handover() as handover:
        tasks: dict[Any, int] = {}
        try:
            for number, batch in enumerate(batches):
                tasks[submit(executor, _read_in_worker, read, batch, aside, handover)] = number
            for task in _as_completed(tasks):
                number = tasks[task]
                reads_of_batch[number] = result_of(task)
                for file in batches[number]:
                    advance(file.size_bytes)
        except ExecutorClosedError:
            raise TraceError("the executor was shut down", remedy="Start another.") from None
        finally:
            for task in tasks:
                task.cancel()
    reads = [read for number in range(len(batches)) for read in reads_of_batch[number]]
    _warn_about_transfers(reads, handover, to_cache=any(file.to_cache for file in files))
    return [read.outcome for read in reads]


@contextlib.contextmanager
def _handover() -> Iterator[_Handover]:
    """Yield the folders for workers' columns, which contain the marker."""
    handover = _Handover(columnar.folder(), temporary_folder(), f"seen-{secrets.token_hex(8)}")
    markers = [folder / handover.marker for folder in (handover.cache, handover.temporary)]
    for marker in markers:
        with contextlib.suppress(OSError):
            marker.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            marker.touch()
    try:
        yield handover
    finally:
        for marker in markers:
            with contextlib.suppress(OSError):
                marker.unlink()


def _as_completed(tasks: Iterable[Any]) -> Iterator[Any]:
    """Yield futures as they complete, or in submission order if from another library."""
    try:
        yield from as_completed(tasks)
    except (AttributeError, TypeError):
        yield from tasks


def _warn_about_transfers(reads: list[_Read], handover: _Handover, *, to_cache: bool) -> None:
    """Warn if workers sent columns because they could not write to a shared folder."""
    senders = [read.sent_by for read in reads if read.sent_by is not None]
    if not senders:
        return
    workers = sorted(set(senders))
    names = ", ".join(workers[:3]) + (", …" if len(workers) > 3 else "")
    folder = handover.cache if to_cache else handover.temporary
    remedy = "Set HTA_WIDGETS_CACHE to a folder that all machines share"
    remedy += "." if to_cache else ", and pass cache=True."
    _warn(
        f"Columns of {len(senders)} of {len(reads)} files were sent over the network and are"
        f" analyzed in this process, because the workers on {names} do not share {folder}, or"
        f" cannot write to it. {remedy}"
    )


def _read_in_worker(
    read: ReadTrace, files: Sequence[FileToRead], aside: Path | None, handover: _Handover
) -> list[_Read]:
    if is_own_process():
        return [
            _Read(read(file.path, file.format, cache=file.to_cache, aside=aside)) for file in files
        ]
    return [_read_in_other_process(read, file, handover) for file in files]


def _read_in_other_process(read: ReadTrace, file: FileToRead, handover: _Handover) -> _Read:
    """Read a file; write its columns to the cache or temporary folder if that is shared."""
    if not Path(file.path).exists():
        raise missing_file_error(file.path)
    to_cache = file.to_cache and (handover.cache / handover.marker).exists()
    shares_temporary = (handover.temporary / handover.marker).exists()
    aside = handover.temporary if shares_temporary else None
    if to_cache and (entry := columnar.fetch(file.path, file.format)) is not None:
        return _Read(entry)  # another worker has read it
    outcome = read(file.path, file.format, cache=to_cache, aside=aside)
    is_in_memory = not all(trace.in_file for trace in outcome.traces)
    return _Read(outcome, socket.gethostname() if is_in_memory else None)


#: Bytes of memory per byte of JSON, measured on PyTorch traces: after loading, and at peak.
_RESIDENT_SHARE = 0.3
_PEAK_SHARE = 0.7
#: Memory of each process, with the libraries that it imports.
_PROCESS_BYTES = 150_000_000

_UNITS = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12}
_BINARY = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}
_SIZE = re.compile(r"\s*([\d.]+)\s*([kmgt]?)(i?)b?\s*", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class WorkerPlan:
    """How many processes load files, and whether ranks are written to disk."""

    workers: int
    spills_to_disk: bool


def as_bytes(limit: float | str) -> int:
    """Convert a size such as ``"3 GB"``, ``"512MiB"`` or ``3e9`` to bytes."""
    match = _SIZE.fullmatch(str(limit)) if isinstance(limit, str) else None
    with contextlib.suppress(TypeError, ValueError):
        if match is not None:
            units = _BINARY if match[3] else _UNITS
            size = float(match[1]) * units[match[2].lower()]
        else:
            size = float(limit)
        if 0 < size < float("inf"):
            return int(size)
    raise TraceError(
        f"memory_limit={limit!r} is not a size", remedy='Give bytes, or a string such as "3 GB".'
    )


def plan_workers(
    sizes_bytes: Sequence[int], limit_bytes: int | None, cores: int, *, is_mapped: bool = False
) -> WorkerPlan:
    """Plan the loading of files with these decompressed sizes; warn if memory is short.

    With `is_mapped`, loaded ranks take no memory because they are in the cache.
    """
    largest, total = max(sizes_bytes, default=0), sum(sizes_bytes)
    workers = max(1, min(cores, len(sizes_bytes)))
    peak_bytes = _PEAK_SHARE * largest
    if limit_bytes is None:
        resident_bytes = 0.0 if is_mapped else _RESIDENT_SHARE * (total - largest)
        free_bytes = _available_bytes()
        if free_bytes is not None and resident_bytes + peak_bytes > free_bytes:
            _warn(
                f"loading needs about {_gb(resident_bytes + peak_bytes)} of memory "
                f"but only {_gb(free_bytes)} is available: "
                f'give a memory_limit, for example "{0.7 * free_bytes / 1e9:.1f} GB", to keep ranks'
                " on disk"
            )
        usable_bytes = float("inf") if free_bytes is None else free_bytes - resident_bytes
    else:
        usable_bytes = limit_bytes - _PROCESS_BYTES
        if peak_bytes > usable_bytes:
            _warn(
                f"reading the largest file takes about {_gb(peak_bytes + _PROCESS_BYTES)} of"
                f" memory, more than the memory_limit of {_gb(limit_bytes)}: files are read one at"
                " a time"
            )
    if usable_bytes < float("inf"):
        workers = min(workers, int(usable_bytes // (peak_bytes + _PROCESS_BYTES)))
    return WorkerPlan(max(1, workers), spills_to_disk=limit_bytes is not None)


def _warn(text: str) -> None:
    warnings.warn(text, RuntimeWarning, stacklevel=stack_level())


def _gb(size_bytes: float) -> str:
    return f"{size_bytes / 1e9:,.1f} GB" if size_bytes >= 1e8 else f"{size_bytes / 1e6:,.1f} MB"


def _available_bytes() -> int | None:
    limits = []
    with contextlib.suppress(OSError, UnicodeDecodeError):
        text = Path("/proc/meminfo").read_text("ascii")
        if match := re.search(r"MemAvailable:\s*(\d+) kB", text):
            limits.append(int(match[1]) * 1024)
    with contextlib.suppress(OSError, ValueError):
        group = Path("/sys/fs/cgroup")
        max_text = (group / "memory.max").read_text("ascii").strip()
        if max_text.isdigit():
            limits.append(int(max_text) - int((group / "memory.current").read_text("ascii")))
    return min(limits, default=None)
