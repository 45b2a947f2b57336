"""Finds the files of a source: a path, a glob pattern, a folder, a list, or a dict by rank.

A folder is searched recursively, and files without a trace are listed as problems. A store counts
as a single file, its manifest. Files that accompany another, such as the report from which a
database was exported, are skipped.
"""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from operator import itemgetter
from pathlib import Path
from typing import Any

from hta_widgets.errors import TraceError
from hta_widgets.files import expand_home
from hta_widgets.readers.detection import sniff
from hta_widgets.readers.foreign import SUPPORTED_FORMATS_TEXT, foreign_remedy
from hta_widgets.readers.formats import (
    FileStart,
    Outcome,
    format_named,
    profile_type,
    resolve_reference,
)
from hta_widgets.readers.ranks import LAST_RANK, is_rank
from hta_widgets.readers.streams import open_stream
from hta_widgets.store.files import MANIFEST, begins_manifest
from hta_widgets.store.ranks import open_store
from hta_widgets.trace.problems import Problems


def manifest_in(folder: str | Path) -> str | None:
    """Return the manifest in a store's folder; None for other folders."""
    path = Path(folder, MANIFEST)
    try:
        with open_stream(path) as stream:
            return str(path) if begins_manifest(stream.read(64)) else None
    except TraceError:
        return None


def read_store(
    path: str, *, advance: Callable[[int], object] | None = None, keepalive: object = None
) -> Outcome:
    """Return a store's ranks, ignoring the clock of the saved trace set."""
    del advance, keepalive
    stored = open_store(path, profile_type=profile_type)
    traces = tuple(trace.replace(shift_ns=0, clock_offset_ns=0) for trace in stored.traces)
    problems = (problem for problem in stored.problems if problem.kind != "clock")
    return Outcome(traces, Problems(problems))


def is_store(start: FileStart) -> bool:
    """Return whether a file is the manifest of a store."""
    return begins_manifest(start.without_bom)


_DIGITS = re.compile(r"(\d+)")


def natural_key(path: str) -> list[tuple[int, int, str]]:
    """Return a key that sorts ``rank-10`` after ``rank-9``."""
    return [
        (0, int(part), "") if part.isdecimal() else (1, 0, part) for part in _DIGITS.split(path)
    ]


_MAX_FOREIGN_ROWS = 50


@dataclass(frozen=True, slots=True)
class FoundFile:
    """A file that may be a trace."""

    path: str
    #: its rank in the caller's mapping
    rank: int | None = None
    #: whether the caller named this file; errors in other files are problems, not exceptions
    named: bool = True
    format: str = "kineto"


def find_files(source: object, problems: Problems, wanted: str = "auto") -> list[FoundFile]:
    """List the trace files of a source in natural order; report other files as problems.

    Parameters
    ----------
    source : path-like, iterable of path-like, or mapping of int to path-like
        Files, directories (searched recursively), or glob patterns.
    problems : Problems
        Receives the files that are skipped: empty, unreadable, or of another format.
    wanted : str
        The format of the files, or ``"auto"`` to detect the format of each file.

    Raises
    ------
    TraceError
        If the source has no trace file.
    """
    files = list(_Search().files_of(source))
    is_only = len(files) == 1 and files[0].named
    readable: list[FoundFile] = []
    aside: list[tuple[FoundFile, str]] = []
    foreign: list[tuple[str, str]] = []
    unreadable: TraceError | None = None
    for file in files:
        try:
            sniffed = sniff(file.path, wanted)
        except TraceError as error:
            if file.named:
                raise
            problems.add("skipped", 1, f"the file {error.message}", file=file.path)
            unreadable = unreadable or error
            continue
        contents = f"is {sniffed.foreign}"
        if sniffed.format is not None:
            detected = replace(file, format=sniffed.format)
            if sniffed.aside and not file.named:
                aside.append((detected, f"{contents}; load it separately"))
            else:
                readable.append(detected)
        elif sniffed.foreign is not None:
            remedy = foreign_remedy(sniffed.foreign)
            if file.named:
                raise TraceError(contents, path=file.path, remedy=remedy)
            if remedy != SUPPORTED_FORMATS_TEXT:  # other remedies are specific
                contents += f". {remedy.removesuffix('.')}"
            foreign.append((file.path, contents))
        elif is_only:
            reason = _why_empty(file.path).removeprefix("the file ")
            raise TraceError(reason, path=file.path, remedy="Copy the file again.")
        else:
            problems.add("empty", 1, _why_empty(file.path), file=file.path)
    foreign, readable = _drop_companions(foreign, readable, problems)
    if readable:
        foreign += [(file.path, detail) for file, detail in aside]
    else:
        readable = [file for file, _ in aside]
    report_foreign(foreign, problems)
    if readable:
        return readable
    raise unreadable or _no_trace_error(source, len(files), _list_foreign(foreign, problems))


def _no_trace_error(source: object, files: int, reasons: str) -> TraceError:
    path = str(source) if isinstance(source, (str, os.PathLike)) else None
    if files:
        message = f"none of its {files:,} files is a trace: {reasons}"
        return TraceError(message, path=path, remedy=SUPPORTED_FORMATS_TEXT)
    message = "no files given" if path is None else "holds no files"
    remedy = "Load a trace file, a directory of them, or a glob pattern."
    return TraceError(message, path=path, remedy=remedy)


def _drop_companions(
    foreign: list[tuple[str, str]], readable: list[FoundFile], problems: Problems
) -> tuple[list[tuple[str, str]], list[FoundFile]]:
    """Drop companions of readable files from both lists; report those that repeat events."""
    original_of: dict[str, str] = {}
    dropped: set[str] = set()
    for file in readable:
        companions = format_named(file.format).reading.companions
        if companions and file.path not in original_of:
            for path, repeats_events in resolve_reference(companions)(file.path):
                dropped.add(str(path))
                if repeats_events:
                    original_of.setdefault(str(path), file.path)
    dropped -= {file.path for file in readable if file.named}
    for path in sorted({file.path for file in readable} & set(original_of) & dropped):
        detail = f"left out: {Path(original_of[path]).name} holds the same run"
        problems.add("duplicate_rank", 1, detail, file=path)
    remaining = [file for file in readable if file.path not in dropped]
    return [(path, detail) for path, detail in foreign if path not in dropped], remaining


def files_below(directory: str) -> Iterator[str]:
    """Yield the files to read for a directory; for a store, only its manifest."""
    yield from (file.path for file in _Search().files_of(directory))


def report_foreign(foreign: list[tuple[str, str]], problems: Problems) -> None:
    """Report files of other formats: the first 50 individually, the rest as a count."""
    for path, detail in foreign[:_MAX_FOREIGN_ROWS]:
        problems.add("foreign", 1, detail, file=path)
    rest = len(foreign) - _MAX_FOREIGN_ROWS
    if rest > 0:
        problems.add("foreign", rest, "further files that are not traces")


def _why_empty(path: str) -> str:
    if Path(path).name in ("comm.json", "server_profile.json"):
        return "the file is empty: BytePS was killed before it wrote the first bytes"
    return "the file is empty"


@dataclass(slots=True)
class _Search:
    """Finds the files of a source, each once even if several links or patterns lead to it."""

    _seen: set[tuple[int, int]] = field(default_factory=set)

    def files_of(self, source: object) -> Iterator[FoundFile]:
        """Yield the files named by a source, with their ranks if it is a mapping."""
        if isinstance(source, (str, bytes, os.PathLike)):
            yield from self._files_at(_text(source))
        elif isinstance(source, Mapping):
            for rank, name in source.items():
                if not is_rank(rank):
                    raise TraceError(
                        f"{rank!r} is not a rank",
                        remedy=f"Give a mapping from int ranks, 0 to {LAST_RANK:,}, to paths.",
                    )
                if Path(path := _text(name)).is_dir():
                    raise TraceError(
                        "is a directory", path=path, remedy=f"Give one file for rank {rank}."
                    )
                yield FoundFile(path, rank.__index__())
        else:
            for part in source if isinstance(source, Iterable) else (source,):
                yield from self._files_at(_text(part))

    def _files_at(self, path: str) -> Iterator[FoundFile]:
        if (manifest := manifest_in(path)) is not None:
            yield from self._new_files([manifest], named=True)
        elif Path(path).is_dir():
            yield from self._files_below(path)
        elif Path(path).exists() or not glob.has_magic(path):
            yield from self._new_files([path], named=True)
        else:
            matches = sorted(_expand_glob(path), key=natural_key)
            if not matches:
                raise TraceError("matches no files", path=path, remedy="Check the pattern.")
            for match in matches:
                yield from (
                    self._files_below(match) if Path(match).is_dir() else self._new_files([match])
                )

    def _files_below(self, directory: str) -> Iterator[FoundFile]:
        names = []
        for folder, below, files in self.folders(directory):
            if (manifest := manifest_in(folder)) is not None:
                names.append(manifest)
                below.clear()
                continue
            names += [str(Path(folder, name)) for name in files if not name.startswith(".")]
        yield from self._new_files(sorted(names, key=natural_key))

    def folders(self, directory: str) -> Iterator[tuple[str, list[str], list[str]]]:
        """Walk the folders below a directory like `os.walk`, skipping hidden folders.

        The caller may remove names from the list of subfolders to skip these folders.
        """
        # `os.walk` is recursive in Python 3.11 and fails at 1,000 nested folders.
        waiting = [directory]
        while waiting:
            folder = waiting.pop()
            if not self._is_new(folder):
                continue
            below, files = _list_folder(folder)
            yield folder, below, files
            waiting += [str(Path(folder, name)) for name in reversed(below)]

    def _new_files(self, paths: list[str], *, named: bool = False) -> Iterator[FoundFile]:
        links_last = sorted(paths, key=lambda path: Path(path).is_symlink())
        new = {path for path in links_last if self._is_new(path)}
        yield from (FoundFile(path, named=named) for path in paths if path in new)

    def _is_new(self, path: str) -> bool:
        try:
            state = Path(path).stat()
        except OSError:
            return True  # opening it will report the reason
        key = (state.st_dev, state.st_ino)
        is_seen = key in self._seen and bool(state.st_ino)
        self._seen.add(key)
        return not is_seen


def _list_folder(folder: str) -> tuple[list[str], list[str]]:
    """Return the names of a folder's subfolders and files, excluding hidden subfolders."""
    below, files = [], []
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                is_folder = False
                with suppress(OSError):  # a link may point to itself
                    is_folder = entry.is_dir()
                if not is_folder:
                    files.append(entry.name)
                elif not entry.name.startswith("."):
                    below.append((entry.is_symlink(), entry.name))
    except OSError as cause:
        raise TraceError(
            f"cannot be listed: {cause.strerror or cause}",
            path=folder,
            remedy="Check its permissions.",
        ) from None
    # Links come last, so that a folder is listed under its own name.
    return [name for _, name in sorted(below, key=itemgetter(0))], files


def _text(path: Any) -> str:
    """Return a path as a string; raise a `TraceError` for other values."""
    try:
        text = os.fsdecode(path)
        os.fsencode(text)
        if text and "\0" not in text:
            text = str(expand_home(text))
            Path(text).is_dir()  # raises if the name is too long
            return text
        raise TraceError(
            "the path contains a NUL byte" if text else "the path is empty",
            remedy="Load a trace file or a directory of them.",
        )
    except TypeError:
        raise TraceError(
            f"cannot load a {type(path).__name__}",
            remedy="Give a path, a directory, a glob pattern, a list, a {rank: path} mapping, "
            "or a torch.profiler.profile.",
        ) from None
    except (OSError, UnicodeError) as cause:
        raise TraceError(
            f"cannot be opened: {getattr(cause, 'strerror', None) or cause}",
            path=os.fsdecode(path),
            remedy="Check the path.",
        ) from None


def _expand_glob(pattern: str) -> set[str]:
    """Expand a glob pattern; ``**`` enters each folder once, even if links lead to it."""
    parts = Path(pattern).parts
    if "**" not in parts:
        return set(glob.glob(pattern))  # noqa: PTH207 - a pattern may be absolute
    index = parts.index("**")
    paths: set[str] = set()
    for base in filter(os.path.isdir, _expand_glob(str(Path(*parts[:index])))):
        for folder, _, _ in _Search().folders(base):
            paths |= _expand_glob(str(Path(glob.escape(folder), *parts[index + 1 :])))
    return paths


def _list_foreign(foreign: list[tuple[str, str]], problems: Problems) -> str:
    empty = [(problem.file or "", "is empty") for problem in problems if problem.kind == "empty"]
    unread = [*empty, *foreign]
    shown = "; ".join(f"{Path(path).name} {detail}" for path, detail in unread[:3])
    return f"{shown}; …" if len(unread) > 3 else shown
