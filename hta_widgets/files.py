"""Where the package keeps what it can make again, and how a file gets to its place."""

from __future__ import annotations

import contextlib
import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import IO

__all__ = ["cache_folder", "caching_in", "code_stamp", "written_whole"]

_of_caller: ContextVar[str | None] = ContextVar("cache folder of the caller", default=None)


def cache_folder() -> Path:
    """Return the folder of copies: ``HTA_WIDGETS_CACHE``, or one in the user's cache."""
    if named := _of_caller.get() or os.environ.get("HTA_WIDGETS_CACHE"):
        return Path(named).expanduser()
    if sys.platform == "win32":
        base = Path(os.environ.get("LOCALAPPDATA", Path.home() / "AppData" / "Local"))
    elif sys.platform == "darwin":
        base = Path.home() / "Library" / "Caches"
    else:
        base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return base / "hta_widgets"


@contextlib.contextmanager
def caching_in(folder: str) -> Iterator[None]:
    """Within this block and this thread, let the folder of copies be another."""
    token = _of_caller.set(folder)
    try:
        yield
    finally:
        _of_caller.reset(token)


def code_stamp(package: str, *patterns: str) -> tuple[object, ...]:
    """Return what tells that something was made by this very code.

    Parameters
    ----------
    package : str
        An installed package, of which the version counts.
    *patterns : str
        Which of our own files count, such as ``charts/*.py``: by name, size and time of change.
    """
    try:
        release = version(package)
    except PackageNotFoundError:
        release = ""
    root = Path(__file__).resolve().parent
    states = [
        (file.name, file.stat().st_size, file.stat().st_mtime_ns)
        for pattern in patterns
        for file in sorted(root.glob(pattern))
    ]
    return release, tuple(states)


@contextlib.contextmanager
def written_whole(
    target: Path, refused: Callable[[OSError], Exception] | None = None
) -> Iterator[IO[bytes]]:
    """Write a file aside: it takes its place when the block ends well, and not at all otherwise.

    `refused` makes the error to raise where nothing may be written beside the target.
    """
    try:
        handle, name = tempfile.mkstemp(
            prefix=f".{target.name}.", suffix=".part", dir=target.parent
        )
    except OSError as cause:
        if refused is None:
            raise
        raise refused(cause) from None
    part = Path(name)
    try:
        with os.fdopen(handle, "wb") as file:
            yield file
        # A temporary file is its maker's alone; this one has the rights of any new file.
        mask = os.umask(0)
        os.umask(mask)
        part.chmod(0o666 & ~mask)
        part.replace(target)
    except BaseException:
        with contextlib.suppress(OSError):
            part.unlink()
        raise
