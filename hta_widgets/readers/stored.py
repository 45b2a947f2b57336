"""Stores, read as a format among others."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from hta_widgets.readers.formats import Outcome, Start, profile_type
from hta_widgets.store.files import MANIFEST, begins_manifest
from hta_widgets.store.ranks import Opened, open_store
from hta_widgets.trace.problems import Problems


def manifest_in(folder: str | Path) -> str | None:
    """Return the manifest that makes a folder a store, or None."""
    path = Path(folder, MANIFEST)
    try:
        with path.open("rb") as file:
            return str(path) if begins_manifest(file.read(64)) else None
    except OSError:
        return None


def open_whole(path: str) -> Opened:
    """Open a store with all that it says of its set."""
    return open_store(path, profile_type=profile_type)


def read_store(
    path: str, *, advance: Callable[[int], object] | None = None, keepalive: Any = None
) -> Outcome:
    """Return a store's ranks for another set, whose clock they are placed on anew."""
    del advance, keepalive
    opened = open_store(path, profile_type=profile_type)
    traces = tuple(trace.replace(shift_ns=0, clock_offset_ns=0) for trace in opened.traces)
    problems = Problems()
    for problem in opened.problems:
        if problem.kind != "clock":  # of the set that it was
            problems.add(problem.kind, problem.count, problem.detail, problem.rank, problem.file)
    return Outcome(traces, problems)


def is_store(start: Start) -> bool:
    """Whether a file is the manifest of a store."""
    return begins_manifest(start.stripped)
