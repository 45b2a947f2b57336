"""Files that workers read: columns stay in files that both see, and what names them comes back."""

from __future__ import annotations

import contextlib
import secrets
import socket
import warnings
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor, as_completed
from pathlib import Path
from typing import Any, NamedTuple

from hta_widgets.errors import TraceError
from hta_widgets.workers import Closed
from hta_widgets.workers import at_home
from hta_widgets.workers import not_there
from hta_widgets.workers import result_of
from hta_widgets.workers import submit
from hta_widgets.workers import workers_of

from hta_widgets.readers import cache as columnar
from hta_widgets.readers.discovery import Found
from hta_widgets.readers.registry import Outcome
from hta_widgets.readers.scratch import scratch

__all__ = ["read_elsewhere"]

#: Smaller tasks share the work better; each costs the scheduler some milliseconds.
_TASKS_PER_WORKER = 8

#: As `load.read_trace`, which does the reading.
ReadTrace = Callable[..., Outcome]


class _File(NamedTuple):
    path: str
    format: str
    #: whether a copy is to stay in the cache
    keep: bool


class _Read(NamedTuple):
    outcome: Outcome
    #: the worker that sent columns, instead of leaving them in a file
    sent_by: str | None = None


class _Handover(NamedTuple):
    """Where workers leave columns: for good, or as long as the process lasts that asked."""

    kept: Path
    aside: Path
    #: name of a file in both, by which workers tell whether they see the same folder
    sign: str


def read_elsewhere(
    executor: Executor,
    read: ReadTrace,
    files: Sequence[Found],
    keep: Sequence[bool],
    aside: Path | None,
    done: Callable[[int], object],
) -> list[Outcome]:
    """Read files on an executor; columns come back only from workers that see no common folder.

    Parameters
    ----------
    executor : Executor
    read : callable
        Reads one file.
    files : sequence of Found
    keep : sequence of bool
        Of which files copies stay in the cache.
    aside : Path or None
        Where columns of others wait if they are read in this process, by its threads.
    done : callable
        Told the place of each file that was read.

    Raises
    ------
    TraceError
        Where a worker does not see the files, or the executor is of no use.
    """
    size = max(1, len(files) // (_TASKS_PER_WORKER * workers_of(executor)))
    found: dict[int, _Read] = {}
    with _handover() as handover:
        tasks: dict[Any, range] = {}
        try:
            for start in range(0, len(files), size):
                batch = range(start, min(start + size, len(files)))
                given = [_File(files[k].path, files[k].format, keep[k]) for k in batch]
                tasks[submit(executor, _read_there, read, given, aside, handover)] = batch
            for task in _completed(tasks):
                found.update(zip(tasks[task], result_of(task), strict=True))
                for place in tasks[task]:
                    done(place)
        except Closed:
            raise TraceError(
                "the executor takes no tasks any more", remedy="It was shut down: start another."
            ) from None
        finally:
            for task in tasks:
                task.cancel()
    _tell_of_sent(list(found.values()), any(keep), handover)
    return [found[place].outcome for place in range(len(files))]


@contextlib.contextmanager
def _handover() -> Iterator[_Handover]:
    handover = _Handover(columnar.folder(), scratch(), f"seen-{secrets.token_hex(8)}")
    signs = [folder / handover.sign for folder in (handover.kept, handover.aside)]
    for sign in signs:
        with contextlib.suppress(OSError):
            sign.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            sign.touch()
    try:
        yield handover
    finally:
        for sign in signs:
            with contextlib.suppress(OSError):
                sign.unlink()


def _completed(tasks: dict[Any, range]) -> Iterator[Any]:
    """Futures as they are done; those of other libraries than the standard one, in order."""
    try:
        yield from as_completed(tasks)
    except (AttributeError, TypeError):
        yield from tasks


def _tell_of_sent(found: list[_Read], keep: bool, handover: _Handover) -> None:  # noqa: FBT001
    workers = sorted({read.sent_by for read in found if read.sent_by})
    if not workers:
        return
    count = sum(read.sent_by is not None for read in found)
    names = ", ".join(workers[:3]) + (", …" if len(workers) > 3 else "")
    folder = handover.kept if keep else handover.aside
    remedy = "Let HTA_WIDGETS_CACHE name a folder that all share" + (
        "." if keep else ", cache=True."
    )
    warnings.warn(
        f"Columns of {count} of {len(found)} files came over the network, and are analysed here: "
        f"the workers on {names} cannot leave them in {folder}. {remedy}",
        RuntimeWarning,
        stacklevel=5,
    )


# --- on the worker --------------------------------------------------------------------------------


def _read_there(
    read: ReadTrace, files: list[_File], aside: Path | None, handover: _Handover
) -> list[_Read]:
    if at_home():
        return [_Read(read(one.path, one.format, cache=one.keep, aside=aside)) for one in files]
    return [_read_one(read, one, handover) for one in files]


def _read_one(read: ReadTrace, file: _File, handover: _Handover) -> _Read:
    if not Path(file.path).exists():
        raise not_there(file.path)
    keep = file.keep and (handover.kept / handover.sign).exists()
    aside = handover.aside if (handover.aside / handover.sign).exists() else None
    if keep and (copy := columnar.fetch(file.path, file.format)) is not None:
        return _Read(copy)  # another worker was faster, and died, or has the same file
    outcome = read(file.path, file.format, cache=keep, aside=aside)
    sent = not all(trace.in_file for trace in outcome.traces)
    return _Read(outcome, socket.gethostname() if sent else None)
