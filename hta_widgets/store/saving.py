"""Save traces into a folder, atomically."""

from __future__ import annotations

import contextlib
import errno
import glob
import os
import platform
import secrets
import shutil
import tempfile
import time
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from hta_widgets.errors import TraceError
from hta_widgets.store.files import MANIFEST, begins_manifest, dump_manifest
from hta_widgets.store.ranks import KeepSource, write_trace
from hta_widgets.trace.problems import Problems
from hta_widgets.trace.trace import Trace
from hta_widgets.trace.traceset import TraceSet

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

_PART = ".part"
#: Locks may not work across machines that share a disk, so each removes only its own parts.
_OWN_PART = f".{zlib.crc32(platform.node().encode()):08x}{_PART}"
#: An older part was left by a killed process, on any machine.
_LONGEST_SAVE_S = 86_400


def save_set(traces: TraceSet, path: str | os.PathLike[str]) -> str:
    """Save a set as a store; see `TraceSet.save`."""
    clock = {"name": traces.clock, "origin_ns": traces.origin_ns, "lift_ns": traces.lift_ns}
    return save_traces(path, list(traces.values()), traces.found, clock)


def save_traces(
    path: str | os.PathLike[str], traces: Sequence[Trace], problems: Problems, clock: dict[str, Any]
) -> str:
    """Write a store with its checksums next to `path`, then move it into place."""
    path = Path(path).expanduser()
    with _save_errors(path):
        _check_target(path)
        path.parent.mkdir(parents=True, exist_ok=True)
        _clear_old_parts(path)
        with _new_part(path) as part:
            written = write_files(part, traces, problems, clock)
            for file in (*written, MANIFEST):
                _flush(part / file)
            _put_in_place(part, path, written)
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
def _save_errors(path: Path) -> Iterator[None]:
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
    """Raise a `TraceError` if `path` exists and is not a store."""
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
        # `mkdtemp` allows only the owner; the store gets the user's default mode.
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
        # Includes files that a killed process left.
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
    """Lock a folder against other processes that save to it, if it can be locked."""
    handle = _locked(folder, wait=True)
    try:
        yield
    finally:
        if handle is not None:
            os.close(handle)


@contextlib.contextmanager
def _new_part(path: Path) -> Iterator[Path]:
    """Create a folder next to `path`, locked while this process uses it."""
    handle = None
    while True:
        part = Path(tempfile.mkdtemp(prefix=f".{path.name}.", suffix=_OWN_PART, dir=path.parent))
        handle = _locked(part, wait=True)
        if part.exists():
            break
        # Another process removed it before it was locked.
        if handle is not None:
            os.close(handle)
    try:
        yield part
    finally:
        shutil.rmtree(part, ignore_errors=True)
        if handle is not None:
            os.close(handle)


def _clear_old_parts(path: Path) -> None:
    """Remove what killed processes left of saves to `path`."""
    for part in path.parent.glob(f".{glob.escape(path.name)}.*{_PART}"):
        with contextlib.suppress(OSError):
            if time.time() - part.stat().st_mtime > _LONGEST_SAVE_S:
                shutil.rmtree(part, ignore_errors=True)
            elif part.name.endswith(_OWN_PART):
                handle = _locked(part, wait=False)
                if handle is not None:
                    shutil.rmtree(part, ignore_errors=True)
                    os.close(handle)


def _locked(folder: Path, *, wait: bool) -> int | None:
    """Return a handle that holds the lock of a folder; None if it is held, or cannot be locked."""
    if fcntl is None:
        return None
    try:
        handle = os.open(folder, os.O_RDONLY)
    except OSError:
        return None
    try:
        fcntl.flock(handle, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:  # held by another, or one of the network file systems that have no locks
        os.close(handle)
        return None
    return handle


def _flush(path: Path) -> None:
    """Flush a file or folder to disk, if the system can flush it."""
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
