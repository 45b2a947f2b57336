"""Cache and temporary folders, atomic file writes, and table files."""

from __future__ import annotations

import atexit
import contextlib
import errno
import functools
import glob
import gzip
import io
import os
import platform
import re
import secrets
import shutil
import sys
import tempfile
import time
import zlib
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import pandas as pd
import pyarrow as pa

from hta_widgets.errors import TraceError

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

_caller_cache_folder: ContextVar[str | None] = ContextVar(
    "cache folder of the caller", default=None
)


def cache_folder() -> Path:
    """Return the cache folder: ``HTA_WIDGETS_CACHE``, or a folder in the user's cache."""
    if named := _caller_cache_folder.get() or os.environ.get("HTA_WIDGETS_CACHE"):
        return expand_home(named)
    if sys.platform == "win32":
        base = Path(os.environ.get("LOCALAPPDATA", Path.home() / "AppData" / "Local"))
    elif sys.platform == "darwin":
        base = Path.home() / "Library" / "Caches"
    else:
        base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return base / "hta_widgets"


def expand_home(path: str) -> Path:
    """Expand a leading ``~`` or ``~user`` to the user's home folder.

    Names such as ``~.trace.json`` are kept.
    """
    expanded = os.path.expanduser(path)  # noqa: PTH111 - `Path` would take ``./~`` for a home
    if expanded == path and re.match(r"~[^/\\]*[/\\]", path):
        raise TraceError(
            "the path begins with an unknown user", path=path, remedy="Check the path."
        )
    return Path(expanded)


@contextlib.contextmanager
def use_cache_folder(folder: str) -> Iterator[None]:
    """Use another cache folder in this thread, within a ``with`` block."""
    token = _caller_cache_folder.set(folder)
    try:
        yield
    finally:
        _caller_cache_folder.reset(token)


@functools.cache
def package_version(package: str) -> str:
    """Return the version of a package; ``""`` if it is not installed."""
    from importlib import metadata  # takes as long as all other imports of this module

    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return ""


def code_fingerprint(*patterns: str) -> tuple[object, ...]:
    """Return a fingerprint of the code files that match `patterns`."""
    root = Path(__file__).resolve().parent
    return tuple(
        (file.name, file.stat().st_size, file.stat().st_mtime_ns)
        for pattern in patterns
        for file in sorted(root.glob(pattern))
    )


def target_path(path: str | os.PathLike[str]) -> Path:
    """Return the path of a file or folder to write; raise a `TraceError` if it is invalid."""
    try:
        target = expand_home(os.fsdecode(path))
        os.fsencode(target)
    except (TypeError, UnicodeError) as cause:
        raise TraceError(f"{path!r} cannot be a path: {cause}") from None
    if "\0" in str(target):
        raise TraceError("a path cannot contain zero bytes", path=repr(path))
    return target


@contextmanager
def write_errors(path: Path) -> Iterator[None]:
    """Convert an `OSError` in a ``with`` block to a `TraceError` about `path`."""
    try:
        yield
    except OSError as cause:
        full = cause.errno in {errno.ENOSPC, errno.EDQUOT}
        raise TraceError(
            f"cannot be written: {cause.strerror or cause}",
            path=path,
            remedy="Nothing was changed there. "
            + ("Free some space." if full else "Does the folder exist, and may you write to it?"),
        ) from None


def new_folder(path: str | os.PathLike[str]) -> Path:
    """Create a folder and its parents if they do not exist."""
    folder = target_path(path)
    with write_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
    return folder


@contextmanager
def write_atomically(target: Path) -> Iterator[IO[bytes]]:
    """Write a temporary file that replaces `target` if the block succeeds.

    A symbolic link at `target` is replaced.
    """
    with write_errors(target):
        if target.exists() and not target.is_file():
            raise TraceError("is not a file", path=target, remedy="Choose another name.")
        with new_partial_file(target) as part:
            with part.open("wb") as file:
                yield file
            part.replace(target)


def write_text(path: str | os.PathLike[str], text: str) -> str:
    """Write a text file and return its path. Invalid Unicode becomes question marks."""
    target = target_path(path)
    with write_atomically(target) as file:
        file.write(text.encode("utf-8", "replace"))
    return str(target)


_PARTIAL_SUFFIX = ".part"
#: Suffix of this machine's unfinished files. Locks may not work across machines that share a disk,
#: so each machine only removes its own files.
_OWN_PARTIAL_SUFFIX = f".{zlib.crc32(platform.node().encode()):08x}{_PARTIAL_SUFFIX}"
#: Older partial files are removed in any case: the process that wrote them must have been killed.
_LONGEST_WRITE_S = 86_400


@contextmanager
def new_partial_file(path: Path, *, is_folder: bool = False) -> Iterator[Path]:
    """Create a hidden file or folder next to `path`, locked while in use.

    Partial files of `path` that were left behind by killed processes are removed.
    """
    _remove_stale_partials(path)
    handle = None
    while True:
        # Plain creation applies the umask, which a process cannot read without changing it.
        part = path.parent / f".{path.name}.{secrets.token_hex(4)}{_OWN_PARTIAL_SUFFIX}"
        if is_folder:
            part.mkdir()
        else:
            part.touch(exist_ok=False)
        handle = lock_path(part, wait=True)
        if part.exists():
            break
        # Another process removed the file before it was locked.
        if handle is not None:
            os.close(handle)
    try:
        yield part
    finally:
        remove_path(part)
        if handle is not None:
            os.close(handle)


def remove_path(path: Path) -> None:
    """Remove a file, a link, or a folder with its contents, and ignore errors."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        with suppress(OSError):
            path.unlink()


def _remove_stale_partials(path: Path) -> None:
    for part in path.parent.glob(f".{glob.escape(path.name)}.*{_PARTIAL_SUFFIX}"):
        with suppress(OSError):
            if time.time() - part.lstat().st_mtime > _LONGEST_WRITE_S:
                remove_path(part)
            elif part.name.endswith(_OWN_PARTIAL_SUFFIX):
                handle = lock_path(part, wait=False)
                if handle is not None:
                    remove_path(part)
                    os.close(handle)


def lock_path(path: Path, *, wait: bool) -> int | None:
    """Lock a path and return the handle of the lock; None if it cannot be locked.

    Without `wait`, a lock held by another process also gives None.
    """
    if fcntl is None:
        return None
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    except OSError:
        return None
    try:
        fcntl.flock(handle, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:  # locked by another process, or locks are not supported
        os.close(handle)
        return None
    return handle


#: File systems on other machines or in user space.
_REMOTE = re.compile(
    r"nfs\d?|cifs|smb\w*|9p|afs|ceph|lustre|gpfs|glusterfs|beegfs|panfs|pvfs2|orangefs|wekafs"
    r"|fuse(\..+)?|gfs2|ocfs2|virtiofs|vboxsf|prl_fs|davfs|coda|ncpfs"
)
_MOUNTS = Path("/proc/self/mountinfo")


def is_remote(path: Path) -> bool:
    """Return whether a file is on a network disk; False on systems other than Linux."""
    try:
        device = path.stat().st_dev
        mounts = _MOUNTS.read_text("utf-8", "replace").splitlines()
    except OSError:
        return False
    number = f"{os.major(device)}:{os.minor(device)}"
    # Example of a line: 36 35 98:0 /root /mount rw … - TYPE SOURCE OPTIONS.
    types = (line.partition(" - ")[2].split(" ")[0] for line in mounts if number in line.split())
    return any(map(_REMOTE.fullmatch, types))


class Output(io.BufferedWriter):
    """A JSON file with a large write buffer."""

    def __init__(self, file: Any) -> None:
        super().__init__(file, buffer_size=1 << 20)
        self._listed = False

    def write_list(self, records: Iterable[bytes]) -> None:
        """Write list entries; further calls continue the list."""
        for record in records:
            self.write(b",\n" + record if self._listed else record)
            self._listed = True


@dataclass(slots=True)
class Target:
    """The file or directory of an export."""

    path: Path
    is_directory: bool
    written_bytes: int = 0

    @classmethod
    def of(cls, path: str | os.PathLike[str]) -> Target:
        """Check a path and determine whether it is a file or a directory."""
        path = target_path(path)
        suffixes = "".join(path.suffixes[-2:]).lower()
        is_file = suffixes.endswith((".json", ".json.gz", ".gz"))
        with write_errors(path):
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
            if not is_file and (path.is_symlink() or (path.exists() and not path.is_dir())):
                raise TraceError(
                    "is a link" if path.is_symlink() else "is a file",
                    path=path,
                    remedy="End the name with .json or .json.gz to replace it.",
                )
            if not path.parent.is_dir():
                raise TraceError(
                    "the folder does not exist", path=path.parent, remedy="Create it first."
                )
        return cls(path, not is_file)

    @contextmanager
    def file(self) -> Iterator[Output]:
        """Open the file; an existing file is replaced only if the block succeeds."""
        with write_atomically(self.path) as raw:
            yield from _buffered_output(raw, self.path.name)
        self.written_bytes = self.path.stat().st_size

    @contextmanager
    def directory(
        self, names: Iterable[str]
    ) -> Iterator[Callable[[str], AbstractContextManager[Output]]]:
        """Yield a function that opens files in the directory; `names` are the allowed names.

        The files are moved into the directory only if the block succeeds.
        """
        replaced = set(names)
        with write_errors(self.path):
            existed = self.path.is_dir()
            others = sorted(
                entry.name
                for entry in (self.path.iterdir() if existed else ())
                if entry.name.endswith((".json", ".gz")) and entry.name not in replaced
            )
            if others:
                raise TraceError(
                    f"already has other traces, for example {others[0]}",
                    path=self.path,
                    remedy="Choose a new directory, so that the ranks do not mix.",
                )
            with new_partial_file(self.path, is_folder=True) as part:

                @contextmanager
                def open_output(name: str) -> Iterator[Output]:
                    with (part / name).open("wb") as raw:
                        yield from _buffered_output(raw, name)

                yield open_output
                written = list(part.iterdir())
                self.written_bytes = sum(file.stat().st_size for file in written)
                if existed:
                    _exchange_folder(self.path, part, replaced)
                else:
                    part.rename(self.path)


def _exchange_folder(folder: Path, part: Path, replaced: Collection[str]) -> None:
    """Replace a folder by `part`, and keep files of the folder that are not in `replaced`.

    Old and new traces are never mixed. If the process is killed meanwhile, what was not moved yet
    remains next to the folder as ``.NAME.….old``.
    """
    old = folder.with_name(f".{folder.name}.{secrets.token_hex(4)}.old")
    shutil.copymode(folder, part)
    folder.rename(old)
    try:
        part.rename(folder)
    except OSError:
        old.rename(folder)
        raise
    for entry in old.iterdir():
        if entry.name not in replaced:
            entry.rename(folder / entry.name)
    shutil.rmtree(old, ignore_errors=True)


def _buffered_output(raw: Any, name: str) -> Iterator[Output]:
    """Yield an output for a raw file, compressed if `name` ends with ``.gz``; flush at the end."""
    with contextlib.ExitStack() as stack:
        if name.lower().endswith(".gz"):
            raw = stack.enter_context(gzip.GzipFile("", "wb", 6, raw, mtime=0))
        output = Output(raw)
        yield output
        output.detach()


@functools.cache
def temporary_folder() -> Path:
    """Return the temporary folder of this process, which is removed at exit."""
    try:
        folder = tempfile.mkdtemp(prefix="hta_widgets-")
    except OSError as cause:
        raise TraceError(
            f"no temporary folder can be created ({cause.strerror or cause})",
            remedy="Free some space, or name a folder in TMPDIR.",
        ) from None
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return Path(folder)


#: Cells that spreadsheets take for formulas, even after blanks or in full-width characters.
_FORMULA = re.compile(r"\s*[=+\-@\uff1d\uff0b\uff0d\uff20]|[\t\r\n]")


def table_bytes(frame: pd.DataFrame, format: str) -> bytes:
    """Return a frame as a ``csv`` or ``parquet`` file in memory."""
    file = io.BytesIO()
    _write_table(frame, file, f".{format}")
    return file.getvalue()


def write_table(frame: pd.DataFrame, path: str | os.PathLike[str]) -> str:
    """Write a frame as ``.csv``, ``.csv.gz`` or ``.parquet``, depending on the suffix of `path`."""
    target = target_path(path)
    suffixes = [suffix.lower() for suffix in target.suffixes]
    suffix = "".join(suffixes[-2:] if suffixes[-1:] == [".gz"] else suffixes[-1:])
    if suffix not in {".csv", ".csv.gz", ".parquet"}:
        raise TraceError(
            f"cannot write a table as {suffix!r}",
            path=target,
            remedy="Name it .csv, .csv.gz or .parquet.",
        )
    with write_atomically(target) as file:
        _write_table(frame, file, suffix)
    return str(target)


def _write_table(frame: pd.DataFrame, file: IO[bytes], suffix: str) -> None:
    plain = frame.copy(deep=False)
    if suffix == ".parquet":
        plain.attrs = {}  # Parquet cannot store these
        try:
            plain.to_parquet(file, index=False)
        except (TypeError, ValueError, pa.ArrowException) as cause:
            raise TraceError(f"Parquet cannot hold this table: {cause}") from None
        return
    for position, dtype in enumerate(plain.dtypes):
        if not pd.api.types.is_numeric_dtype(dtype):
            cells: Any = plain.iloc[:, position].map(_escape_formula)
            plain.isetitem(position, cells)
    compression: Any = {"method": "gzip", "mtime": 0} if suffix == ".csv.gz" else None
    # RFC 4180 line endings, as in tables saved from a page; pandas quotes strings with \r or \n.
    plain.to_csv(
        file, index=False, compression=compression, errors="replace", lineterminator="\r\n"
    )


def _escape_formula(value: object) -> object:
    """Return a cell value, with an apostrophe before strings that look like formulas."""
    return f"'{value}" if isinstance(value, str) and _FORMULA.match(value) else value
