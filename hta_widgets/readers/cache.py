"""Columnar copies of traces that were loaded, so that loading them again takes milliseconds.

One small store per trace file, named after the file's identity (real path, size, time of change)
and after the code that made it. Columns are mapped, not read: what is not looked at costs nothing.
Copies are written aside and renamed, so that a half-written one is never seen; what turns out to be
damaged is read from the trace file again.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from functools import cache as remembered, partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from hta_widgets.errors import TraceError
from hta_widgets.files import cache_folder, code_stamp
from hta_widgets.readers.formats import Outcome, all_formats, format_named, profile_type, referred
from hta_widgets.store.rank_file import Kept, KeptSource
from hta_widgets.store.ranks import open_store
from hta_widgets.store.saving import write_files
from hta_widgets.trace.columns import RecordSource
from hta_widgets.trace.trace import Trace

__all__ = ["CacheInfo", "clear", "folder", "info", "limit_bytes"]

_SUFFIX = ".trace-cache"
#: Folders in the making.
PART = ".part"
#: Files from elsewhere.
REMOTE = ".remote"
#: What a process that was killed left over, if older.
_LONGEST_WRITE_S = 3600
_MOST_BYTES = 20 << 30
_MOST_OF_DISK = 0.1
#: Other processes write copies as well: when to look how much there is by now.
_LOOK_AGAIN_S = 60
_SHARE_UNSEEN = 0.1

_counts = {"hits": 0, "misses": 0, "rebuilt": 0}


class CacheInfo(NamedTuple):
    """What the cache holds, and what it was good for in this process.

    Attributes
    ----------
    folder : Path
    files : int
        Trace files of which there are copies.
    size_bytes, limit_bytes : int
        What all copies take, and may take.
    hits, misses : int
        Files that were found here, and that were not.
    rebuilt : int
        Copies that were damaged, so that the trace file was read instead.
    """

    folder: Path
    files: int
    size_bytes: int
    limit_bytes: int
    hits: int
    misses: int
    rebuilt: int


def folder() -> Path:
    """Return the folder of the copies: ``HTA_WIDGETS_CACHE``, or one in the user's cache."""
    return cache_folder()


def limit_bytes() -> int:
    """Return what all copies may take: ``HTA_WIDGETS_CACHE_MB``, or 20 GB or a tenth of the disk.

    With 0 nothing is kept.

    Raises
    ------
    TraceError
        Where the variable is no number.
    """
    if named := os.environ.get("HTA_WIDGETS_CACHE_MB"):
        try:
            return max(int(float(named) * 1_000_000), 0)
        except (ValueError, OverflowError):
            raise TraceError(
                f"HTA_WIDGETS_CACHE_MB is {named!r}, which is no number of megabytes",
                remedy="Set it to a number, for example 5000, or unset it.",
            ) from None
    with contextlib.suppress(OSError):
        return min(_MOST_BYTES, int(_MOST_OF_DISK * shutil.disk_usage(_there(folder())).total))
    return _MOST_BYTES


def info() -> CacheInfo:
    """Return where the cache is, how full, and of what use it was in this process."""
    copies = _copies()
    files = sum(copy.name.endswith(_SUFFIX) for copy in copies)
    return CacheInfo(folder(), files, sum(map(_size, copies)), limit_bytes(), **_counts)


def clear() -> None:
    """Remove all copies."""
    for copy in _copies():
        _remove(copy)


def fetch(path: str, format: str = "kineto") -> Outcome | None:  # noqa: A002 - as in `load`
    """Return what was kept for a file as it is now and is read as `format`, or None."""
    copy = _copy_of(path, format)
    if copy is None or not copy.is_dir():
        _counts["misses"] += 1
        return None
    try:
        found = _opened(copy, path, format)
    except (TraceError, OSError):
        _counts["rebuilt"] += 1
        _remove(copy)
        return None
    with contextlib.suppress(OSError):  # where others' copies are read, their order is theirs
        os.utime(copy)  # it was of use: when space is short, others go first
    _counts["hits"] += 1
    return found


def keep(path: str, outcome: Outcome, format: str = "kineto") -> Outcome | None:  # noqa: A002
    """Keep what a file as it is now was read to; return it as it comes back, mapped.

    None where it cannot be kept, or would soon have to go.
    """
    copy, most = _copy_of(path, format), limit_bytes()
    if copy is None or not most:
        return None
    part = None
    try:
        if not copy.exists():
            copy.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            part = Path(tempfile.mkdtemp(dir=copy.parent, suffix=PART))  # for the user alone
            write_files(part, outcome.traces, outcome.problems, None, kept_source)
            size = _size(part)
            part.rename(copy)
            _room.took(copy, size)
        found = _opened(copy, path, format)
    except (OSError, TraceError, TypeError):
        # A full disk, a folder that may not be written; or another process was faster.
        if part is not None:
            _remove(part)
        return None
    for trace, read in zip(found.traces, outcome.traces, strict=True):
        if getattr(read.source, "keeps_places", False):
            trace.source.know(read.source)  # type: ignore[union-attr]
    return found


def _opened(folder: Path, path: str, format: str) -> Outcome:  # noqa: A002
    rebuild = partial(_rebuilt, path, format, str(folder))
    opened = open_store(folder, KeptSource(restored_source, rebuild), profile_type)
    return Outcome(tuple(opened.traces), opened.problems)


def kept_source(source: RecordSource) -> Kept:
    """Return the facts and columns from which a source of records can be restored."""
    if not hasattr(source, "kept"):
        raise TypeError(f"no way to keep a {type(source).__name__}")
    kept: Kept = source.kept()
    return kept


def restored_source(facts: dict[str, Any], column: Callable[[str], Any]) -> RecordSource:
    """Return a source of records again, read by the format that has its kind."""
    kinds = {kind: name for known in all_formats() for kind, name in known.sources.items()}
    source: RecordSource = referred(kinds[facts["kind"]]).restored(facts, column)
    return source


def set_aside(outcome: Outcome, into: Path, path: str, format: str) -> Outcome:  # noqa: A002
    """Write what a file was read to into a folder; return it as it comes back, mapped."""
    try:
        folder = Path(tempfile.mkdtemp(dir=into))
        write_files(folder, outcome.traces, outcome.problems, None, kept_source)
    except OSError as cause:
        raise TraceError(
            f"its columns cannot be set aside in {into} ({cause.strerror or cause})",
            path=path,
            remedy="Free some space there, name another folder in TMPDIR, or load without a"
            " memory_limit.",
        ) from None
    return _opened(folder, path, format)


def _rebuilt(path: str, format: str, copy: str, place: int) -> Trace:  # noqa: A002
    """Read the trace file of which the copy is damaged."""
    _remove(Path(copy))
    _counts["rebuilt"] += 1
    outcome: Outcome = referred(format_named(format).read)(path)
    return outcome.traces[place]


def _copy_of(path: str, format: str) -> Path | None:  # noqa: A002 - as in `load`
    try:
        state = Path(path).stat()
        identity = (os.path.realpath(path), path, state.st_size, state.st_mtime_ns, _code(), format)
    except OSError:
        return None
    return folder() / (hashlib.sha256(repr(identity).encode()).hexdigest()[:40] + _SUFFIX)


@remembered
def _code() -> tuple[object, ...]:
    """Return the fingerprint of the code that makes a cache entry."""
    rooms = ("trace", "tiles", "store", "readers", "formats/*")
    stamp = code_stamp("hta_widgets", "*.py", *(f"{room}/*.py" for room in rooms))
    return *stamp, sys.version_info[:2], np.__version__


def _copies() -> list[Path]:
    try:
        charts = folder() / "charts"
        found = [copy for suffix in (_SUFFIX, REMOTE, PART) for copy in folder().glob(f"*{suffix}")]
        return [*found, *charts.glob("*.json"), *charts.glob(f"*{PART}")]
    except OSError:
        return []


def _size(copy: Path) -> int:
    size = 0
    with contextlib.suppress(OSError):
        for file in copy.rglob("*") if copy.is_dir() else [copy]:
            size += file.stat().st_size if file.is_file() else 0
    return size


def _there(path: Path) -> Path:
    """Return the nearest folder that exists."""
    return next((one for one in (path, *path.parents) if one.is_dir()), Path())


def _remove(copy: Path) -> None:
    if copy.is_dir() and not copy.is_symlink():
        shutil.rmtree(copy, ignore_errors=True)
        return
    with contextlib.suppress(OSError):
        copy.unlink()


def make_room(new: Path) -> int:
    """Remove what was left over, and the copies that were not used for longest; never the new."""
    known = []
    for copy in _copies():
        with contextlib.suppress(OSError):
            used = copy.stat().st_mtime
            if copy.name.endswith(PART):
                if time.time() - used > _LONGEST_WRITE_S:
                    _remove(copy)
                continue
            known.append((used, _size(copy), copy))
    total, most = sum(size for _, size, _ in known), limit_bytes()
    for _, size, copy in sorted(known):
        if total <= most:
            break
        if copy != new:
            _remove(copy)
            total -= size
    return total


class _Room:
    """Looks through all copies only now and then: a thousand of them take a while."""

    def __init__(self) -> None:
        self._folder: Path | None = None
        self._total = 0
        self._unseen = 0
        self._looked_s = 0.0

    def took(self, copy: Path, size: int) -> None:
        """Take note of a new copy; make room where it may be one too many."""
        self._unseen += size
        most = limit_bytes()
        if (
            copy.parent != self._folder
            or self._total + self._unseen > most
            or self._unseen > _SHARE_UNSEEN * most
            or time.monotonic() - self._looked_s > _LOOK_AGAIN_S
        ):
            self._total, self._unseen = make_room(copy), 0
            self._folder, self._looked_s = copy.parent, time.monotonic()


_room = _Room()


def __dir__() -> list[str]:
    return __all__
