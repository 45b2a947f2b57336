"""Cache of loaded traces: one small store per trace file, whose columns are memory-mapped.

The name of an entry is a hash of the file's real path, inode, size and times, and of the code that
wrote the entry. A new entry is renamed into place when it is complete. If an entry is damaged, its
trace file is read again.
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
from hta_widgets.files import cache_folder, code_fingerprint, remove_path
from hta_widgets.readers.file_traces import read_file, shorten_paths_of_source
from hta_widgets.readers.formats import Outcome, all_formats, profile_type, resolve_reference
from hta_widgets.store.rank_file import SourceRestorer, StoredSource
from hta_widgets.store.ranks import open_store
from hta_widgets.store.saving import write_files
from hta_widgets.trace.columns import RecordSource
from hta_widgets.trace.trace import Trace

__all__ = ["CacheInfo", "clear", "folder", "info", "limit_bytes"]

_SUFFIX = ".trace-cache"
PART = ".part"
REMOTE = ".remote"
#: Maximum age of an unfinished folder; older folders were left by killed processes.
_LONGEST_WRITE_S = 3600
_MAX_BYTES = 20 << 30
_MAX_SHARE_OF_DISK = 0.1
#: Time after which the size is measured again, because other processes also write entries.
_MEASURE_AGAIN_S = 60
#: Share of the limit that this process may add before the size is measured again.
_MAX_ADDED_SHARE = 0.1

_counts = {"hits": 0, "misses": 0, "rebuilt": 0}


class CacheInfo(NamedTuple):
    """Contents of the cache, and how this process used it.

    Attributes
    ----------
    folder : Path
    files : int
        Number of cached trace files.
    size_bytes, limit_bytes : int
        Size of all entries, and the size limit.
    hits, misses : int
        Number of files that were read from the cache, and number read from the trace file itself.
    rebuilt : int
        Number of damaged entries, whose trace files were read instead.
    """

    folder: Path
    files: int
    size_bytes: int
    limit_bytes: int
    hits: int
    misses: int
    rebuilt: int


def folder() -> Path:
    """Return the cache folder: ``HTA_WIDGETS_CACHE``, or a folder in the user's cache directory."""
    return cache_folder()


def limit_bytes() -> int:
    """Return the size limit: ``HTA_WIDGETS_CACHE_MB``, or 20 GB but at most 10 % of the disk.

    A limit of 0 disables the cache.

    Raises
    ------
    TraceError
        If the variable is not a number.
    """
    if named := os.environ.get("HTA_WIDGETS_CACHE_MB"):
        try:
            return max(int(float(named) * 1_000_000), 0)
        except (ValueError, OverflowError):
            raise TraceError(
                f"HTA_WIDGETS_CACHE_MB is {named!r}, not a number of megabytes",
                remedy="Set it to a number, for example 5000, or unset it.",
            ) from None
    with contextlib.suppress(OSError):
        parents = (path for path in (folder(), *folder().parents) if path.is_dir())
        disk_bytes = shutil.disk_usage(next(parents, Path())).total
        return min(_MAX_BYTES, int(_MAX_SHARE_OF_DISK * disk_bytes))
    return _MAX_BYTES


def info() -> CacheInfo:
    """Return folder, size and hit counts of the cache."""
    copies = _cache_entries()
    files = sum(copy.name.endswith(_SUFFIX) for copy in copies)
    return CacheInfo(folder(), files, sum(map(_size, copies)), limit_bytes(), **_counts)


def clear() -> None:
    """Remove all entries."""
    for copy in _cache_entries():
        remove_path(copy)


def fetch(path: str, format_name: str = "kineto") -> Outcome | None:
    """Return a file's entry for a format; None if it is missing or the file has changed."""
    copy = _entry_folder(path, format_name)
    if copy is None or not copy.is_dir():
        _counts["misses"] += 1
        return None
    try:
        outcome = _open_entry(copy, path, format_name)
    except (TraceError, OSError):
        _counts["rebuilt"] += 1
        remove_path(copy)
        return None
    with contextlib.suppress(OSError):  # the cache may be read-only
        os.utime(copy)  # entries are evicted by time of last use
    _counts["hits"] += 1
    return outcome


def store_entry(path: str, outcome: Outcome, format_name: str = "kineto") -> Outcome | None:
    """Write an entry for a file and return its mapped traces; None if writing fails."""
    copy, max_bytes = _entry_folder(path, format_name), limit_bytes()
    if copy is None or not max_bytes:
        return None
    part = None
    try:
        if not copy.exists():
            copy.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            part = Path(tempfile.mkdtemp(dir=copy.parent, suffix=PART))  # private to the user
            write_files(part, outcome.traces, outcome.problems, None, source_to_store)
            size = _size(part)
            part.rename(copy)
            _cache_size.count_entry(copy, size)
        entry = _open_entry(copy, path, format_name)
    except Exception:  # noqa: BLE001 - without an entry the next load is only slower
        # The disk is full, the folder is read-only, or another process was faster.
        if part is not None:
            remove_path(part)
        return None
    for trace, read in zip(entry.traces, outcome.traces, strict=True):
        if getattr(read.source, "keeps_places", False):
            trace.source.use_source(read.source)  # type: ignore[union-attr]
    return entry


def _open_entry(folder: Path, path: str, format_name: str) -> Outcome:
    rebuild = partial(_rebuild_entry, path, format_name, str(folder))
    traces = open_store(folder, SourceRestorer(source_from_store, rebuild), profile_type)
    return Outcome(tuple(traces.traces), traces.problems)


def source_to_store(source: RecordSource) -> StoredSource:
    """Return the facts and columns from which a record source can be restored."""
    if not hasattr(source, "to_stored"):
        raise TypeError(f"a {type(source).__name__} has no method to_stored")
    stored: StoredSource = source.to_stored()
    stored.facts["shortens_paths"] = getattr(source, "shortens_paths", False)
    return stored


def source_from_store(facts: dict[str, Any], column: Callable[[str], Any]) -> RecordSource:
    """Restore a record source from its facts and columns."""
    kinds = {
        kind: name for format_ in all_formats() for kind, name in format_.reading.sources.items()
    }
    source: RecordSource = resolve_reference(kinds[facts["kind"]]).restore(facts, column)
    if facts["shortens_paths"]:
        shorten_paths_of_source(source)
    return source


def spill_to_disk(outcome: Outcome, into: Path, path: str, format_name: str) -> Outcome:
    """Write the traces of a file to a temporary store; return them mapped."""
    try:
        folder = Path(tempfile.mkdtemp(dir=into))
        write_files(folder, outcome.traces, outcome.problems, None, source_to_store)
    except OSError as cause:
        raise TraceError(
            f"cannot be written to {into} ({cause.strerror or cause})",
            path=path,
            remedy="Free some space there, set TMPDIR to another folder, or load without a"
            " memory_limit.",
        ) from None
    return _open_entry(folder, path, format_name)


def _rebuild_entry(path: str, format_name: str, copy: str, place: int) -> Trace:
    """Remove a damaged entry, read its trace file, and return trace `place` of the file."""
    remove_path(Path(copy))
    _counts["rebuilt"] += 1
    return read_file(path, format_name).traces[place]


def _entry_folder(path: str, format_name: str) -> Path | None:
    try:
        state = Path(path).stat()
        file_state = (state.st_size, state.st_mtime_ns, state.st_ctime_ns, state.st_ino)
        identity = (os.path.realpath(path), path, *file_state, _code_fingerprint(), format_name)
    except (OSError, ValueError):
        return None
    return folder() / (hashlib.sha256(repr(identity).encode()).hexdigest()[:40] + _SUFFIX)


@remembered
def _code_fingerprint() -> tuple[object, ...]:
    layers = ("trace", "tiles", "store", "readers", "formats/*")
    states = code_fingerprint("*.py", "facts/*.json", *(f"{layer}/*.py" for layer in layers))
    return states, sys.version_info[:2], np.__version__


def _cache_entries() -> list[Path]:
    try:
        return [copy for suffix in (_SUFFIX, REMOTE, PART) for copy in folder().glob(f"*{suffix}")]
    except OSError:
        return []


def _size(copy: Path) -> int:
    size = 0
    with contextlib.suppress(OSError):
        for file in copy.rglob("*") if copy.is_dir() else [copy]:
            size += file.stat().st_size if file.is_file() else 0
    return size


def evict(new: Path) -> int:
    """Remove old unfinished folders and the least recently used entries, except `new`.

    Returns the size of the remaining entries.
    """
    entries = []
    for copy in _cache_entries():
        with contextlib.suppress(OSError):
            used_at_s = copy.stat().st_mtime
            if not copy.name.endswith(PART):
                entries.append((used_at_s, _size(copy), copy))
            elif time.time() - used_at_s > _LONGEST_WRITE_S:
                remove_path(copy)
    total, max_bytes = sum(size for _, size, _ in entries), limit_bytes()
    for _, size, copy in sorted(entries):
        if total <= max_bytes:
            break
        if copy != new:
            remove_path(copy)
            total -= size
    return total


class _CacheSize:
    """Size of the cache, measured rarely because listing a thousand entries takes long."""

    def __init__(self) -> None:
        self._folder: Path | None = None
        #: bytes at the last measurement, and bytes that this process has written since then
        self._measured_bytes = 0
        self._added_bytes = 0
        self._measured_at_s = 0.0

    def count_entry(self, copy: Path, size: int) -> None:
        """Count a new entry; evict others if the limit may be exceeded."""
        self._added_bytes += size
        max_bytes = limit_bytes()
        if (
            copy.parent != self._folder
            or self._measured_bytes + self._added_bytes > max_bytes
            or self._added_bytes > _MAX_ADDED_SHARE * max_bytes
            or time.monotonic() - self._measured_at_s > _MEASURE_AGAIN_S
        ):
            self._measured_bytes, self._added_bytes = evict(copy), 0
            self._folder, self._measured_at_s = copy.parent, time.monotonic()


_cache_size = _CacheSize()


def __dir__() -> list[str]:
    return __all__
