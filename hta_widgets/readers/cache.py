"""Columnar copies of traces that were loaded, so that loading them again takes milliseconds.

One file per trace file, named after the file's identity (real path, size, time of change) and
after the code that made it. Arrays are mapped, not read: what is not looked at costs nothing.
Copies are written aside and renamed, so that a half-written one is never seen.
"""

from __future__ import annotations

import contextlib
import hashlib
import mmap
import os
import pickle
import struct
import sys
import tempfile
from functools import cache as remembered
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np

__all__ = ["clear", "fetch", "folder", "keep"]

_SUFFIX = ".trace-cache"
_MAGIC = b"hta_widgets cache 1\n"
_NUMBER = struct.Struct("<Q")
_ALIGNMENT = 64
#: When all copies take more, those that were not used for longest go.
_MOST_BYTES = 8 << 30


def folder() -> Path:
    """Return the folder of the copies: ``HTA_WIDGETS_CACHE``, or one in the user's cache."""
    if named := os.environ.get("HTA_WIDGETS_CACHE"):
        return Path(named).expanduser()
    if sys.platform == "win32":
        base = Path(os.environ.get("LOCALAPPDATA", Path.home() / "AppData" / "Local"))
    elif sys.platform == "darwin":
        base = Path.home() / "Library" / "Caches"
    else:
        base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return base / "hta_widgets"


def clear() -> None:
    """Remove all copies."""
    for copy in _copies():
        with contextlib.suppress(OSError):
            copy.unlink()


def fetch(path: str, format: str = "kineto") -> Any:  # noqa: A002 - as in `load`
    """Return what was kept for a file as it is now and is read as `format`, or None."""
    copy = _copy_of(path, format)
    if copy is None:
        return None
    try:
        with copy.open("rb") as file:
            mapped = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
        kept = _unpack(mapped)
        os.utime(copy)  # it was of use: when space is short, others go first
    except FileNotFoundError:
        return None
    except Exception:  # noqa: BLE001 - whatever is wrong with a copy, the file itself is there
        with contextlib.suppress(OSError):
            copy.unlink()
        return None
    return kept


def keep(path: str, value: Any, format: str = "kineto") -> None:  # noqa: A002 - as in `load`
    """Keep a picklable value for a file as it is now; where that is not possible, do not."""
    copy = _copy_of(path, format)
    if copy is None:
        return
    with contextlib.suppress(OSError, pickle.PicklingError):
        copy.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        with tempfile.NamedTemporaryFile(dir=copy.parent, suffix=".part", delete=False) as file:
            try:
                _pack(file, value)
                file.close()
                Path(file.name).replace(copy)
            except BaseException:
                file.close()
                Path(file.name).unlink()
                raise
        _make_room()


def _pack(file: Any, value: Any) -> None:
    buffers: list[pickle.PickleBuffer] = []
    body = pickle.dumps(value, protocol=5, buffer_callback=buffers.append)
    parts = [memoryview(body), *(buffer.raw() for buffer in buffers)]
    file.write(_MAGIC)
    file.write(_NUMBER.pack(len(parts)))
    for part in parts:
        file.write(_NUMBER.pack(part.nbytes))
    for part in parts:
        file.write(b"\0" * (-file.tell() % _ALIGNMENT))
        file.write(part)


def _unpack(mapped: memoryview) -> Any:
    if mapped[: len(_MAGIC)] != _MAGIC:
        raise ValueError("not a copy")
    position = len(_MAGIC)
    count = _NUMBER.unpack_from(mapped, position)[0]
    sizes = struct.unpack_from(f"<{count}Q", mapped, position + _NUMBER.size)
    position += (count + 1) * _NUMBER.size
    parts = []
    for size in sizes:
        position += -position % _ALIGNMENT
        parts.append(mapped[position : position + size])
        position += size
    if position != len(mapped):
        raise ValueError("a copy of another size")
    return pickle.loads(parts[0], buffers=parts[1:])  # noqa: S301 - from the user's own folder


def _copy_of(path: str, format: str) -> Path | None:  # noqa: A002 - as in `load`
    try:
        state = Path(path).stat()
        identity = (os.path.realpath(path), path, state.st_size, state.st_mtime_ns, _code(), format)
    except OSError:
        return None
    return folder() / (hashlib.sha256(repr(identity).encode()).hexdigest()[:40] + _SUFFIX)


@remembered
def _code() -> tuple[object, ...]:
    """What tells that a copy was made by this very code."""
    try:
        package = version("hta_widgets")
    except PackageNotFoundError:
        package = ""
    root = Path(__file__).resolve().parents[1]
    states = [
        (file.name, file.stat().st_size, file.stat().st_mtime_ns)
        for pattern in ("*.py", "model/*.py", "readers/*.py")
        for file in sorted(root.glob(pattern))
    ]
    return package, sys.version_info[:2], np.__version__, tuple(states)


def _copies() -> list[Path]:
    try:
        charts = folder() / "charts"
        return [
            *folder().glob(f"*{_SUFFIX}"),
            *folder().glob("*.part"),
            *charts.glob("*.json"),
            *charts.glob("*.part"),
        ]
    except OSError:
        return []


def _make_room() -> None:
    known = []
    for copy in _copies():
        with contextlib.suppress(OSError):
            state = copy.stat()
            known.append((state.st_mtime, state.st_size, copy))
    total = sum(size for _, size, _ in known)
    for _, size, copy in sorted(known):
        if total <= _MOST_BYTES:
            return
        with contextlib.suppress(OSError):
            copy.unlink()
            total -= size
