"""Short names for what the gutter shows: threads, streams, counters, the job itself."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from pathlib import Path

from hta_widgets.trace.columns import Track
from hta_widgets.trace.trace import Trace

__all__ = [
    "ProcessName",
    "counter_label",
    "counter_unit",
    "distinct",
    "job_title",
    "place_label",
    "thread_label",
    "track_label",
]

#: Name of a process by its pid.
ProcessName = Callable[[str], str]

_NUMBERED = re.compile(r"thread (\S+)(?: \((.*)\))?")
_AUTOGRAD_NAME = re.compile(r"(pt_)?autograd", re.IGNORECASE)
#: Names that threads inherit from the program, and that so tell nothing of them.
_INHERITED = re.compile(r"(pt_)?main_?thread|python[\d.]*|", re.IGNORECASE)
#: Units of series that are known by name: HTA's.
_UNITS = {"Memcpy BW": "GB/s"}
_UNIT = re.compile(r"\(([^()]{1,8})\)$")
_SUFFIXES = re.compile(r"(\.pt)?(\.trace)?\.json(\.gz)?$", re.IGNORECASE)


def thread_label(track: Track, *, main: bool, autograd: bool) -> str:
    """Return what a host thread is called: by its part where that is known, else by its number."""
    named = _NUMBERED.fullmatch(track.label)
    own = (named[2] or "") if named else track.label
    if main:
        return "main thread"
    if autograd or _AUTOGRAD_NAME.match(own):
        return "autograd thread"
    if own != track.process and not _INHERITED.fullmatch(own):
        return own
    return f"thread {named[1] if named else track.tid}"


def track_label(track: Track) -> str:
    """Return the label of a device stream, its annotations or a track of another sort."""
    if track.role in {"stream", "annotation"}:
        stream = f"stream {track.stream}" if track.stream >= 0 else track.label
        return stream if track.role == "stream" else f"{stream} annotations"
    # The row of a tensor's whole synchronisation stands for the tensor.
    return track.process if track.label == "whole" else track.label


def place_label(trace: Trace) -> str:
    """Return which GPU of which worker, or which server a trace is of; nothing for plain ranks."""
    if trace.server >= 0:
        return f"server {trace.server}"
    return f"worker {trace.worker} · GPU {trace.local_rank}" if trace.worker >= 0 else ""


def distinct(labels: Sequence[str]) -> list[str]:
    """Tell repeated labels apart by a number: ``autograd thread``, ``autograd thread 2``."""
    seen: dict[str, int] = {}
    result = []
    for label in labels:
        seen[label] = seen.get(label, 0) + 1
        result.append(label if seen[label] == 1 else f"{label} {seen[label]}")
    return result


def counter_label(name: str, series: str) -> str:
    """Return the label of a counter; a series that says "value" or its name adds nothing."""
    known = {name, name.partition("[")[0], *_UNITS}
    if not series or series in known or series.lower() == "value":
        return name
    return f"{name} {series}"


def counter_unit(name: str, series: str) -> str:
    """Return the unit of a counter, which its names state in brackets at the end, or nothing."""
    if series in _UNITS:
        return _UNITS[series]
    for text in (series, name):
        found = _UNIT.search(text)
        if found:
            return found[1]
    return ""


def job_title(paths: Sequence[str]) -> str:
    """Return what the files have in common: the name of their directory, or of the one file."""
    if not paths:
        return "empty"
    if len(set(paths)) == 1:
        name = Path(paths[0]).name
        # mpitrace writes the ranks of a job into one file, which a number names.
        if name.endswith(".trc") and (folder := Path(paths[0]).resolve().parent.name):
            return folder
        return _SUFFIXES.sub("", name) or name
    try:
        return Path(os.path.commonpath([Path(path).resolve() for path in paths])).name or "job"
    except ValueError:  # on several drives
        return "job"
