"""Which files a source names, and which of them may hold traces."""

from __future__ import annotations

import glob
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from hta_widgets.errors import TraceError
from hta_widgets.trace.problems import Problems

from hta_widgets.readers.formats import WHAT_IS_READ
from hta_widgets.readers.formats import remedy_for
from hta_widgets.readers.formats import sniff
from hta_widgets.readers.natural import natural_key
from hta_widgets.readers.stored import manifest_in

__all__ = ["Found", "find_files", "natural_key"]

_MOST_FOREIGN_ROWS = 50


@dataclass(frozen=True, slots=True)
class Found:
    """A file that may hold a trace."""

    path: str
    #: the rank that the caller gave it
    rank: int | None = None
    #: whether it was named itself; errors in others are problems, not exceptions
    named: bool = True
    format: str = "kineto"


def find_files(source: Any, problems: Problems, wanted: str = "auto") -> list[Found]:
    """List the files that a source names, in natural order, and report those of other formats.

    Parameters
    ----------
    source : path-like, iterable of path-like, or mapping of int to path-like
        Files, directories (searched recursively), or glob patterns.
    problems : Problems
        Takes files in directories that hold something else.
    wanted : str
        The format to read them as, or ``"auto"``: each as what it is.

    Raises
    ------
    TraceError
        Where nothing is left to read.
    """
    found = list(_named(source))
    sole = len(found) == 1 and found[0].named
    readable: list[Found] = []
    aside: list[tuple[Found, str]] = []
    foreign: list[tuple[str, str]] = []
    unreadable: TraceError | None = None
    for file in found:
        try:
            sniffed = sniff(file.path, wanted)
        except TraceError as error:
            if file.named:
                raise
            problems.add("skipped", 1, f"the file {error.message}", file=file.path)
            unreadable = unreadable or error
            continue
        what = sniffed.foreign
        if sniffed.format is not None:
            known = replace(file, format=sniffed.format)
            if sniffed.aside and not file.named:
                aside.append((known, f"is {what}; load it by itself"))
            else:
                readable.append(known)
        elif sole or (file.named and what is not None):
            if what is None:
                why = _why_empty(file.path).removeprefix("the file ")
                raise TraceError(why, path=file.path, remedy="Copy the file again.")
            raise TraceError(f"is {what}", path=file.path, remedy=remedy_for(what))
        elif what is None:
            problems.add("empty", 1, _why_empty(file.path), file=file.path)
        else:
            foreign.append((file.path, f"is {what}"))
    if readable:
        foreign += [(file.path, detail) for file, detail in aside]
    else:
        readable = [file for file, _ in aside]
    report_foreign(foreign, problems)
    if not readable:
        if unreadable is not None:
            raise unreadable
        if not found:
            raise TraceError(
                "holds no files" if isinstance(source, (str, os.PathLike)) else "no files given",
                path=str(source) if isinstance(source, (str, os.PathLike)) else None,
                remedy="Load a trace file, a directory of them, or a glob pattern.",
            )
        raise TraceError(
            f"none of its {len(found):,} files is a trace: {_listed(foreign, problems)}",
            path=str(source) if isinstance(source, (str, os.PathLike)) else None,
            remedy=WHAT_IS_READ,
        )
    return readable


def report_foreign(foreign: list[tuple[str, str]], problems: Problems) -> None:
    """Report files of other formats one by one, but not thousands of them."""
    for path, detail in foreign[:_MOST_FOREIGN_ROWS]:
        problems.add("foreign", 1, detail, file=path)
    rest = len(foreign) - _MOST_FOREIGN_ROWS
    if rest > 0:
        problems.add("foreign", rest, "further files that are no traces")


def _why_empty(path: str) -> str:
    if Path(path).name in ("comm.json", "server_profile.json"):
        return "the file is empty: BytePS was killed before it wrote the first bytes"
    return "the file is empty"


def _named(source: Any) -> Iterable[Found]:
    if isinstance(source, (str, os.PathLike)):
        yield from _from_path(os.fspath(source))
    elif isinstance(source, Mapping):
        for rank, path in source.items():
            if isinstance(rank, bool) or not hasattr(rank, "__index__"):
                raise TraceError(
                    f"{rank!r} is not a rank", remedy="Give a mapping of int ranks to paths."
                )
            if Path(path).is_dir():
                raise TraceError(
                    "is a directory", path=path, remedy=f"Name the one file of rank {rank}."
                )
            yield Found(os.fspath(path), rank.__index__())
    elif isinstance(source, Iterable):
        for part in source:
            yield from _from_path(os.fspath(part))
    else:
        raise TraceError(
            f"cannot load a {type(source).__name__}",
            remedy="Give a path, a directory, a glob pattern, a list, a {rank: path} mapping, "
            "or a torch.profiler.profile.",
        )


def _from_path(path: str | bytes) -> Iterable[Found]:
    if not path:
        raise TraceError("the path is empty", remedy="Load a trace file or a directory of them.")
    path = str(Path(os.fsdecode(path)).expanduser())
    if (manifest := manifest_in(path)) is not None:
        yield Found(manifest)
    elif Path(path).is_dir():
        yield from (Found(name, named=False) for name in _files_below(path))
    elif Path(path).exists() or not glob.has_magic(path):
        yield Found(path)
    else:
        matches = sorted(glob.glob(path, recursive=True), key=natural_key)  # noqa: PTH207
        if not matches:
            raise TraceError("matches no files", path=path, remedy="Check the pattern.")
        for match in matches:
            if Path(match).is_dir():
                yield from (Found(name, named=False) for name in _files_below(match))
            else:
                yield Found(match, named=False)


def _files_below(directory: str) -> list[str]:
    """List the files below a directory, hidden ones left out, in natural order."""

    def fail(cause: OSError) -> None:
        raise TraceError(
            f"cannot be listed: {cause.strerror or cause}",
            path=cause.filename or directory,
            remedy="Check its permissions.",
        )

    names = []
    for folder, below, files in os.walk(directory, onerror=fail, followlinks=True):
        below[:] = [name for name in below if not name.startswith(".")]
        if (manifest := manifest_in(folder)) is not None:
            names.append(manifest)
            below.clear()
            continue
        names += [
            str(Path(folder, name))
            for name in files
            if not name.startswith(".") and Path(folder, name).is_file()
        ]
    return sorted(names, key=natural_key)


def _listed(foreign: list[tuple[str, str]], problems: Problems) -> str:
    empty = [(p.file or "", "is empty") for p in problems if p.kind == "empty"]
    every = [*empty, *foreign]
    shown = "; ".join(f"{Path(path).name} {detail}" for path, detail in every[:3])
    return f"{shown}; …" if len(every) > 3 else shown
