r"""Ids in exports that merge several ranks into one file, and the mark of exported files.

Ranks use the same ids for different flows and launches. An export of several ranks therefore writes
ids that include the rank, and a reader restores the original ids::

    scoped_id(b"17", 3)  # b"3000000000017"
    scoped_id(b'"0xa"', 3)  # b'"3:\"0xa\""'
    original_id(b"3000000000017", 3)  # b"17"

An exported file is marked by the top-level key ``"hta_widgets"``, which states the job that the
file is part of. docs/merged-format.md describes the format.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

#: Top-level key of exports, name of their metadata records, and key of changed args.
MARK_KEY = "hta_widgets"
#: Key of the mark for the worker, GPU or server of a file.
IDENTITY_KEY = "identity"
#: Key of the mark for the exported part of the job; see `ExportPart`.
PART_KEY = "part"
#: Key of the mark for the windows of a rank that was recorded in several files.
WINDOWS_KEY = "windows"
#: An id of rank r is written as r * ID_STRIDE + id; exact in a double up to rank 9006.
ID_STRIDE = 10**12
#: Processes of rank r are numbered from r * PID_STRIDE + 1.
PID_STRIDE = 100_000
#: Fields of records and of their args whose ids are made unique by rank.
ID_FIELDS = ("id", "bind_id")
ID_ARGS = ("correlation", "External id", "external id", "wait_on_cuda_event_record_corr_id")
#: Limit on numeric ids. Larger ids are strings, because doubles cannot hold them exactly.
LARGEST_ID = 1 << 53


def scoped_id(raw: bytes, rank: int) -> bytes:
    """Return an id that no other rank has, as JSON.

    Numbers below `ID_STRIDE` are moved into the range of the rank. Negative numbers and null mean
    "none" and do not change. All other values become the string ``"<rank>:<its JSON text>"``.
    """
    if raw[:1] == b"-" or raw == b"null":
        return raw
    if raw.isdigit() and len(raw) <= 12 and (rank + 1) * ID_STRIDE < LARGEST_ID:
        return str(rank * ID_STRIDE + int(raw)).encode()
    return json.dumps(f"{rank}:{raw.decode()}", ensure_ascii=False).encode()


def original_id(raw: bytes, rank: int) -> bytes:
    """Undo `scoped_id`; other values are returned unchanged."""
    if raw.isdigit() and len(raw) <= 18:
        number = int(raw) - rank * ID_STRIDE
        return str(number).encode() if 0 <= number < ID_STRIDE else raw
    if raw[:1] == b'"':
        text = json.loads(raw)
        prefix = f"{rank}:"
        if text.startswith(prefix):
            return str(text[len(prefix) :]).encode()
    return raw


@dataclass(frozen=True, slots=True)
class ExportPart:
    """The part of a job that the file of an exported rank contains."""

    start_ns: int
    end_ns: int
    work_start_ns: int
    work_end_ns: int
    cut_events: int
    all_time: bool
    all_events: bool
    job_ranks: int

    def mark(self) -> dict[str, Any]:
        """Return the part as an entry of the file's mark."""
        return {PART_KEY: asdict(self)}


def stated_export_part(metadata: Mapping[str, Any]) -> ExportPart | None:
    """Return the part stated in a file's top-level keys; None if the file holds a whole rank."""
    mark = metadata.get(MARK_KEY)
    return parse_export_part(mark.get(PART_KEY) if isinstance(mark, Mapping) else None)


def parse_export_part(entry: object) -> ExportPart | None:
    """Return the part described by an entry of the mark; None if it is invalid."""
    try:
        part = ExportPart(**entry) if isinstance(entry, Mapping) else None
    except TypeError:
        return None
    is_valid = part is not None and all(
        isinstance(value, int) and abs(value) <= 1 << 62 for value in asdict(part).values()
    )
    return part if is_valid else None


def windows_mark(windows_ns: Iterable[tuple[int, int]]) -> dict[str, Any]:
    """Return recording windows as an entry of the file's mark, in the file's times."""
    return {WINDOWS_KEY: [[int(low), int(high)] for low, high in windows_ns]}


def stated_windows(metadata: Mapping[str, Any]) -> list[tuple[int, int]]:
    """Return the windows stated in a file's top-level keys, in order; empty for a single window."""
    mark = metadata.get(MARK_KEY)
    entry = mark.get(WINDOWS_KEY) if isinstance(mark, Mapping) else None
    if not isinstance(entry, list) or len(entry) < 2:
        return []
    try:
        windows = [(int(low), int(high)) for low, high in entry]
    except (TypeError, ValueError, OverflowError):
        return []
    edges = [edge for window in windows for edge in window]
    is_valid = edges == sorted(edges) and abs(edges[0]) <= 1 << 62 and abs(edges[-1]) <= 1 << 62
    return windows if is_valid else []
