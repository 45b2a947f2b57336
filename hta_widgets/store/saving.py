"""Traces into a folder, at once or not at all."""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import shutil
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from hta_widgets.errors import TraceError
from hta_widgets.model.problems import Problems
from hta_widgets.model.trace import Trace
from hta_widgets.model.traceset import TraceSet

from .manifest import MANIFEST, begins_manifest, dump_manifest
from .traces import KeepSource, write_trace

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

__all__ = ["save_set", "save_traces", "write_files"]

_PART = ".part"
#: A folder in the making that is older belongs to a process that was killed.
_LONGEST_SAVE_S = 86_400


def save_set(traces: TraceSet, path: str | os.PathLike[str]) -> str:
    """Save a set as a store; see `TraceSet.save`."""
    clock = {"name": traces.clock, "origin_ns": traces.origin_ns, "lift_ns": traces.lift_ns}
    return save_traces(path, list(traces.values()), traces.found, clock)


def save_traces(
    path: str | os.PathLike[str], traces: Sequence[Trace], problems: Problems, clock: dict[str, Any]
) -> str:
    """Write a store, whole with its checksums, and only then put it in its place.

    Raises
    ------
    TraceError
        Where something else is at `path`, or it cannot be written.
    """
    path = Path(path).expanduser()
    with _told(path):
        _check_target(path)
        path.parent.mkdir(parents=True, exist_ok=True)
        _clear_old_parts(path)
        name = f".{path.name}."
        part = Path(tempfile.mkdtemp(prefix=name, suffix=_PART, dir=path.parent))
        try:
            written = write_files(part, traces, problems, clock)
            for file in (*written, MANIFEST):
                _flush(part / file)
            _put_in_place(part, path, written)
        finally:
            shutil.rmtree(part, ignore_errors=True)
    return str(path)


def write_files(
    folder: Path,
    traces: Sequence[Trace],
    problems: Problems,
    clock: dict[str, Any] | None,
    keep_source: KeepSource | None = None,
) -> list[str]:
    """Write the files of a store into a folder; return the names of the ranks' files."""
    token = secrets.token_hex(4)
    ranks = [
        write_trace(folder / f"rank-{trace.rank}-{place}.{token}.arrow", trace, keep_source)
        for place, trace in enumerate(traces)
    ]
    found = [[p.kind, p.count, p.detail, p.rank, p.file] for p in problems]
    body = {"clock": clock, "problems": found, "ranks": ranks}
    (folder / MANIFEST).write_bytes(dump_manifest(body))
    return [rank["file"] for rank in ranks]


@contextlib.contextmanager
def _told(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as cause:
        full = cause.errno in {errno.ENOSPC, errno.EDQUOT}
        raise TraceError(
            f"cannot be saved: {cause.strerror or cause}",
            path=path,
            remedy="Nothing was changed there. "
            + ("Free some space, or save elsewhere." if full else "Save elsewhere."),
        ) from None


def _check_target(path: Path) -> None:
    """Refuse to write over what is no store."""
    manifest = path / MANIFEST
    if path.is_dir():
        if not any(path.iterdir()) or (
            manifest.is_file() and begins_manifest(manifest.read_bytes()[:64])
        ):
            return
        what = "is a folder of other files"
    elif path.exists() or path.is_symlink():
        what = "is a file, and a store is a folder"
    else:
        return
    raise TraceError(what, path=path, remedy="Save under another name.")


def _put_in_place(part: Path, path: Path, written: list[str]) -> None:
    if not path.exists():
        # Made for its owner alone; the store is as open as what the user makes.
        mask = os.umask(0)
        os.umask(mask)
        part.chmod(0o777 & ~mask)
        try:
            part.rename(path)
        except OSError:
            if not path.exists():
                raise  # else another process saved there meanwhile
        else:
            _flush(path.parent)
            return
    with _alone_in(path):
        # Those that a killed save left over among them.
        old = [file.name for file in path.glob("rank-*.arrow")]
        for file in written:
            (part / file).replace(path / file)
        _flush(path)
        # From here on the store is the new one: the old one's files have names of their own.
        (part / MANIFEST).replace(path / MANIFEST)
        _flush(path)
        for file in old:
            with contextlib.suppress(OSError):
                (path / file).unlink()


@contextlib.contextmanager
def _alone_in(folder: Path) -> Iterator[None]:
    """Wait for other processes that put files in place; where that cannot be told, do not."""
    if fcntl is None:
        yield
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        with contextlib.suppress(OSError):  # some network file systems have no locks
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def _clear_old_parts(path: Path) -> None:
    for part in path.parent.glob(f".{path.name}.*{_PART}"):
        with contextlib.suppress(OSError):
            if time.time() - part.stat().st_mtime > _LONGEST_SAVE_S:
                shutil.rmtree(part, ignore_errors=True)


def _flush(path: Path) -> None:
    """Have the disk hold what was written; where a folder cannot be flushed, it is not."""
    try:
        handle = os.open(path, os.O_RDONLY)
    except OSError:
        return
    try:
        os.fsync(handle)
    except OSError as cause:
        if cause.errno in {errno.ENOSPC, errno.EDQUOT, errno.EIO}:
            raise
    finally:
        os.close(handle)
