"""Files that pages may open: of the command line, and the jobs and files of a folder."""

from __future__ import annotations

import glob
import os
import re
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hta_widgets.errors import TraceError
from hta_widgets.readers.discovery import files_below, is_remote, natural_key
from hta_widgets.readers.formats import format_named, sniff
from hta_widgets.readers.streams import open_stream
from hta_widgets.store.files import MANIFEST

_HEAD_BYTES = 1 << 16
_EVENTS = re.compile(rb'"(traceEvents|schemaVersion|deviceProperties|ph)"')
#: What a file is read for again when it changes: time and size.
_State = tuple[int, int]


@dataclass(frozen=True)
class _File:
    path: Path
    state: _State
    format: str


@dataclass
class Entry:
    """A job or a file that can be opened."""

    #: name of it to pages, below the folder
    path: str
    #: what `hta_widgets.load` takes
    source: Any
    files: int
    bytes: int
    changed_ns: int
    formats: list[str]
    #: the files of a job
    parts: list[Entry] = field(default_factory=list)

    def to_json(self) -> dict[str, Any]:
        """Return what pages show."""
        return {
            "path": self.path,
            "files": self.files,
            "bytes": self.bytes,
            "changed_ms": self.changed_ns // 1_000_000,
            "formats": self.formats,
            "parts": [part.to_json() for part in self.parts],
        }


class Folder:
    """Lists the traces of a folder; files that did not change are not opened again."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path).resolve()
        self.entries: list[Entry] = []
        self._known: dict[str, tuple[_State, str | None]] = {}
        #: files as they were at the last look: one that changes meanwhile is being written
        self._states: dict[str, _State] | None = None

    def source(self, path: str) -> Any:
        """Return what to load for an entry's path, or None."""
        every = [one for entry in self.entries for one in (entry, *entry.parts)]
        return next((one.source for one in every if one.path == path), None)

    def look(self) -> bool:
        """Read the folder; return whether its entries changed."""
        states = dict(self._files())
        before, self._states = self._states, states
        files = [
            _File(Path(path), state, known)
            for path, state in states.items()
            if (before is None or before.get(path) == state or path in self._known)
            and (known := self._format(path, state)) is not None
        ]
        self._known = {path: self._known[path] for path in states if path in self._known}
        entries = _entries(self.path, files)
        is_new = entries != self.entries
        self.entries = entries
        return is_new

    def _files(self) -> list[tuple[str, _State]]:
        found = []
        try:
            paths = sorted(files_below(str(self.path)), key=natural_key)
        except TraceError:
            return []  # it was removed, or cannot be read now
        for path in paths:
            try:
                state = Path(path).stat()
            except OSError:
                continue
            found.append((path, (state.st_mtime_ns, state.st_size)))
        return found

    def _format(self, path: str, state: _State) -> str | None:
        """Return the format of a trace file; None if it is something else."""
        known = self._known.get(path)
        if known is None or known[0] != state:
            try:
                sniffed = sniff(path)
                is_trace = not sniffed.aside and (sniffed.format != "kineto" or _has_events(path))
                known = state, sniffed.format if is_trace else None
            except TraceError:
                known = state, None
            self._known[path] = known
        return known[1]


def _has_events(path: str) -> bool:
    """Whether JSON, which `sniff` takes for a trace whatever it holds, begins like one."""
    with open_stream(path) as stream:
        return _EVENTS.search(stream.read(_HEAD_BYTES)) is not None


def _entries(root: Path, files: list[_File]) -> list[Entry]:
    """Return jobs and single files, newest first."""
    groups: dict[Path, list[_File]] = defaultdict(list)
    for file in files:
        groups[_job_of(file.path, root)].append(file)
    entries = []
    for folder, members in groups.items():
        parts = [_entry(root, file.path, [file]) for file in members]
        is_loose = folder == root and len(groups) > 1 and len({*map(_pattern, members)}) > 1
        if len(members) == 1 or is_loose:
            entries += parts
            continue
        # Loading a folder reads what is below it, too.
        is_alone = not any(folder in other.parents for other in groups)
        job = _entry(root, folder, members)
        job.source = str(folder) if is_alone else [str(file.path) for file in members]
        job.parts = sorted(parts, key=lambda part: natural_key(part.path))
        entries.append(job)
    return sorted(entries, key=lambda entry: (-entry.changed_ns, natural_key(entry.path)))


def _job_of(path: Path, root: Path) -> Path:
    """Return the folder whose files are one job."""
    folder = path.parent
    # BytePS writes a numbered folder for each GPU of a worker.
    while folder.name.isdecimal() and path.name == "comm.json" and folder != root:
        folder = folder.parent
    return folder


def _pattern(file: _File) -> str:
    """Return a file's name without numbers, which ranks of a job have in common."""
    return re.sub(r"\d+", "#", file.path.name)


def _entry(root: Path, path: Path, files: list[_File]) -> Entry:
    labels = sorted({format_named(file.format).label for file in files})
    shown = path.parent if path.name == MANIFEST else path
    return Entry(
        path=str(shown.relative_to(root)) if shown != root else ".",
        source=str(shown),
        files=len(files),
        bytes=sum(_size(file) for file in files),
        changed_ns=max(file.state[0] for file in files),
        formats=labels,
    )


def _size(file: _File) -> int:
    """Return the bytes of a file, or of the store that it describes."""
    if file.path.name != MANIFEST:
        return file.state[1]
    return sum(one.stat().st_size for one in file.path.parent.iterdir() if one.is_file())


class Offered:
    """The files that pages may open: of the command line, and of its folder."""

    def __init__(self, paths: list[str], compare: str | None) -> None:
        self.paths, self.compare = paths, compare
        self.named = [*paths, *([compare] if compare is not None else [])]
        for path in self.named:
            require_there(path)
        is_folder = len(paths) == 1 and compare is None and Path(paths[0]).is_dir()
        self.folder = Folder(paths[0]) if is_folder else None
        if self.folder is not None:
            self.folder.look()

    def source(self, path: str) -> Any:
        """Return what to load for a path that a page names, or None."""
        if path in self.named:
            return path
        return None if self.folder is None else self.folder.source(path)

    @property
    def request(self) -> dict[str, Any] | None:
        """The first view of a page; None for the start page."""
        if self.compare is not None:
            return {"view": "diff", "paths": [self.paths[0], self.compare]}
        if self.folder is None:
            return {"view": "dashboard", "paths": self.paths}
        if len(self.folder.entries) == 1:
            return {"view": "dashboard", "paths": [self.folder.entries[0].path]}
        return None

    @property
    def title(self) -> str:
        """Names of what is shown."""
        return ", ".join(Path(path).resolve().name or path for path in self.named)


def require_there(path: str) -> None:
    """Raise a `TraceError` if a path of the command line does not exist."""
    if is_remote(path) or glob.has_magic(path):
        return
    if not Path(path).expanduser().exists():
        raise TraceError("does not exist", path=path, remedy="Check the path.")
