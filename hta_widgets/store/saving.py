"""Save traces to a folder atomically."""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from hta_widgets.errors import TraceError
from hta_widgets.files import lock_path, new_partial_file, target_path, write_errors
from hta_widgets.store.files import MANIFEST, begins_manifest, dump_manifest
from hta_widgets.store.ranks import KeepSource, write_trace
from hta_widgets.trace.problems import Problems
from hta_widgets.trace.trace import Trace
from hta_widgets.trace.traceset import TraceSet


def save_trace_set(traces: TraceSet, path: str | os.PathLike[str]) -> str:
    """Save `traces` as a store: write it next to `path`, then move it; see `TraceSet.save`."""
    clock = {
        "name": traces.clock,
        "origin_ns": traces.origin_ns,
        "lift_ns": traces.origin_offset_ns,
    }
    target = target_path(path)
    with write_errors(target):
        _check_target(target)
        target.parent.mkdir(parents=True, exist_ok=True)
        with new_partial_file(target, is_folder=True) as part:
            written = write_files(part, list(traces.values()), traces.problem_list, clock)
            for file in (*written, MANIFEST):
                _flush(part / file)
            _replace_store(part, target, written)
    return str(target)


def write_files(
    folder: Path,
    traces: Sequence[Trace],
    problems: Problems,
    clock: dict[str, Any] | None,
    keep_source: KeepSource | None = None,
) -> list[str]:
    """Write the files of a store to a folder; return the names of the rank files."""
    token = secrets.token_hex(4)
    ranks, captures = [], []
    for position, trace in enumerate(traces):
        name = f"rank-{trace.rank}-{position}"
        ranks.append(write_trace(folder / f"{name}.{token}.arrow", trace, keep_source))
        if trace.capture is not None:
            entry = write_trace(folder / f"{name}-capture.{token}.arrow", trace.capture, None)
            captures.append((trace.rank, entry))
    problem_rows = [[p.kind, p.count, p.detail, p.rank, p.file] for p in problems]
    body: dict[str, Any] = {"clock": clock, "problems": problem_rows, "ranks": ranks}
    if captures:
        body["captures"] = captures
    (folder / MANIFEST).write_bytes(dump_manifest(body))
    return [entry["file"] for entry in (*ranks, *(entry for _, entry in captures))]


def _check_target(path: Path) -> None:
    """Raise a `TraceError` if `path` exists but is not a store or an empty folder."""
    manifest = path / MANIFEST
    if path.is_symlink():
        problem = "is a link"
    elif path.is_dir():
        is_store = manifest.is_file() and begins_manifest(manifest.read_bytes()[:64])
        if is_store or not any(path.iterdir()):
            return
        problem = "is a folder with other files"
    elif path.exists():
        problem = "is a file, but a store is a folder"
    else:
        return
    raise TraceError(problem, path=path, remedy="Save under another name.")


def _replace_store(part: Path, path: Path, written: list[str]) -> None:
    """Move the files of a new store to `path`; remove the files of a previous store."""
    if not path.exists():
        try:
            part.rename(path)
        except OSError:
            if not path.exists():
                raise  # otherwise, another process has just saved a store there
        else:
            _flush(path.parent)
            return
    with _lock_folder(path):
        # This includes files left behind by a killed process.
        old = [file.name for file in path.glob("rank-*.arrow")]
        for file in written:
            (part / file).replace(path / file)
        _flush(path)
        # The new manifest switches to the new files, which have different names from the old ones.
        (part / MANIFEST).replace(path / MANIFEST)
        _flush(path)
        for file in old:
            with contextlib.suppress(OSError):
                (path / file).unlink()


@contextlib.contextmanager
def _lock_folder(folder: Path) -> Iterator[None]:
    """Lock a folder, if supported, against other processes that save to it."""
    handle = lock_path(folder, wait=True)
    try:
        yield
    finally:
        if handle is not None:
            os.close(handle)


def _flush(path: Path) -> None:
    """Write a file or folder to the disk. Only a full or broken disk is an error."""
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
