"""The cache folder, temporary folders, atomic writing of files, and tables as files."""

from __future__ import annotations

import atexit
import contextlib
import functools
import gzip
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import IO, cast

import pandas as pd

from hta_widgets.errors import TraceError

_of_caller: ContextVar[str | None] = ContextVar("cache folder of the caller", default=None)


def cache_folder() -> Path:
    """Return the cache folder: ``HTA_WIDGETS_CACHE``, or one in the user's cache."""
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
    """Use another cache folder within this block and thread."""
    token = _of_caller.set(folder)
    try:
        yield
    finally:
        _of_caller.reset(token)


def code_stamp(package: str, *patterns: str) -> tuple[object, ...]:
    """Return a fingerprint of the code in files that match `patterns`."""
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
    """Write a temporary file that replaces `target` if the block succeeds.

    `refused` returns the error to raise if the folder is not writable.
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
        # Temporary files are private; give this one the rights of any new file.
        mask = os.umask(0)
        os.umask(mask)
        part.chmod(0o666 & ~mask)
        part.replace(target)
    except BaseException:
        with contextlib.suppress(OSError):
            part.unlink()
        raise


_BUFFER_BYTES = 1 << 20


class Output:
    """A JSON file that is written in large pieces."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self._pieces: list[bytes] = []
        self._size = 0
        self._listed = False

    def write(self, text: bytes) -> None:
        """Write some text."""
        self._pieces.append(text)
        self._size += len(text)
        if self._size >= _BUFFER_BYTES:
            self.flush()

    def write_list(self, records: Iterable[bytes]) -> None:
        """Write entries of a list; a second call goes on with it."""
        for record in records:
            self.write(b",\n" + record if self._listed else record)
            self._listed = True

    def flush(self) -> None:
        """Write the collected text."""
        self._file.write(b"".join(self._pieces))
        self._pieces, self._size = [], 0


@dataclass(slots=True)
class Target:
    """File or directory of an export."""

    path: Path
    is_directory: bool
    written_bytes: int = 0

    @classmethod
    def of(cls, path: str | Path) -> Target:
        """Check a path and decide whether it is a file or a directory."""
        path = Path(path).expanduser()
        suffixes = "".join(path.suffixes[-2:]).lower()
        is_file = suffixes.endswith((".json", ".json.gz", ".gz"))
        if path.suffix and not is_file and not path.is_dir():
            raise TraceError(
                f"a trace cannot be written as {path.suffix!r}",
                path=path,
                remedy="End the name with .json or .json.gz, or with neither for a directory.",
            )
        if is_file and path.is_dir():
            raise TraceError(
                "is a directory", path=path, remedy="Choose another name for the file."
            )
        if not is_file and path.exists() and not path.is_dir():
            raise TraceError(
                "is a file", path=path, remedy="End the name with .json or .json.gz to replace one."
            )
        if not path.parent.is_dir():
            raise TraceError(
                "the folder does not exist", path=path.parent, remedy="Create it first."
            )
        return cls(path, not is_file)

    @contextmanager
    def file(self, name: str | None = None) -> Iterator[Output]:
        """Open the file, or the one of that name in the directory.

        It is replaced only if the block succeeds.
        """
        target = self.path if name is None else self.path / name
        with _in_place(target) as output:
            yield output
        self.written_bytes += target.stat().st_size

    @contextmanager
    def directory(self, names: Iterable[str]) -> Iterator[None]:
        """Create the directory of files with `names`; remove it again if the block fails."""
        kept = set(names)
        if self.path.is_dir():
            others = sorted(
                entry.name
                for entry in self.path.iterdir()
                if entry.name.endswith((".json", ".gz")) and entry.name not in kept
            )
            if others:
                raise TraceError(
                    f"holds other traces already, for example {others[0]}",
                    path=self.path,
                    remedy="Choose a new directory, so that the ranks do not mix.",
                )
            yield
            return
        _create(self.path)
        try:
            yield
        except BaseException:
            for name in kept:
                (self.path / name).unlink(missing_ok=True)
            with suppress(OSError):
                self.path.rmdir()
            raise


def _create(path: Path) -> None:
    try:
        path.mkdir()
    except OSError as cause:
        raise TraceError(
            f"cannot be created: {cause.strerror}", path=path, remedy="Choose another place."
        ) from None


@contextmanager
def _in_place(target: Path) -> Iterator[Output]:
    def refused(cause: OSError) -> TraceError:
        return TraceError(
            f"cannot be written: {cause.strerror}", path=target, remedy="Choose another place."
        )

    with written_whole(target, refused) as raw:
        if target.suffix.lower() == ".gz":
            with gzip.GzipFile("", "wb", 6, raw, mtime=0) as packed:
                yield from _output(cast("IO[bytes]", packed))
        else:
            yield from _output(raw)


def _output(file: IO[bytes]) -> Iterator[Output]:
    output = Output(file)
    yield output
    output.flush()


@functools.cache
def scratch() -> Path:
    """Return a temporary folder of this process, removed at exit."""
    folder = tempfile.mkdtemp(prefix="hta_widgets-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return Path(folder)


def table_bytes(frame: pd.DataFrame, format: str) -> bytes:  # noqa: A002 - name in the protocol
    """Return a frame as the bytes of a ``csv`` or ``parquet`` file."""
    if format == "csv":
        return frame.to_csv(index=False).encode("utf-8", "replace")
    if format == "parquet":
        return bytes(_plain(frame).to_parquet(index=False))
    raise ValueError(f"no kind of table is called {format!r}; there are csv and parquet")


def _plain(frame: pd.DataFrame) -> pd.DataFrame:
    """Drop the attributes of a frame, which Parquet cannot store."""
    plain = frame.copy(deep=False)
    plain.attrs = {}
    return plain


def write_table(frame: pd.DataFrame, path: Path) -> str:
    """Write a frame by the suffix of `path`: ``.csv``, ``.csv.gz`` or ``.parquet``."""
    name = path.name.lower()
    try:
        if name.endswith((".csv", ".csv.gz")):
            frame.to_csv(path, index=False)
        elif name.endswith(".parquet"):
            _plain(frame).to_parquet(path, index=False)
        else:
            raise TraceError(
                f"no kind of table has the suffix {path.suffix!r}",
                path=str(path),
                remedy="Name it .csv, .csv.gz or .parquet.",
            )
    except OSError as cause:
        raise TraceError(
            f"cannot be written ({cause.strerror or cause})",
            path=str(path),
            remedy="Is the folder there, and may you write to it?",
        ) from None
    return str(path)
