"""What an export says of itself: how ids of several ranks share one file, and of what it is a part.

``docs/merged-format.md`` describes the file.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

__all__ = [
    "IDENTITY",
    "ID_ARGS",
    "ID_FIELDS",
    "ID_STRIDE",
    "MARK",
    "PID_STRIDE",
    "ExportPart",
    "original_id",
    "part_in",
    "part_of",
    "scoped_id",
]

#: The top-level key, the name of its metadata records, and the key of what they changed.
MARK = "hta_widgets"
#: Under which key of the mark a file says which worker's, GPU's or server's it is.
IDENTITY = "identity"
#: Key of the mark under which an export states its window and ranks of the job.
PART = "part"
#: An id of rank r is written as r * ID_STRIDE + id; exact in a double up to rank 9006.
ID_STRIDE = 10**12
#: Processes of rank r get the numbers from r * PID_STRIDE + 1 on.
PID_STRIDE = 100_000
#: Fields of a record, and of its args, that hold such ids.
ID_FIELDS = ("id", "bind_id")
ID_ARGS = ("correlation", "External id", "external id", "wait_on_cuda_event_record_corr_id")

_LARGEST = 1 << 53


def scoped_id(raw: bytes, rank: int) -> bytes:
    """Return an id that no other rank has, as JSON.

    Numbers below `ID_STRIDE` are moved into the rank's own range. Negative numbers and null mean
    "none" and stay. Everything else becomes the string ``"<rank>:<its JSON text>"``.
    """
    if raw[:1] == b"-" or raw == b"null":
        return raw
    if raw.isdigit() and len(raw) <= 12 and (rank + 1) * ID_STRIDE < _LARGEST:
        return str(rank * ID_STRIDE + int(raw)).encode()
    return json.dumps(f"{rank}:{raw.decode()}", ensure_ascii=False).encode()


def original_id(raw: bytes, rank: int) -> bytes:
    """Undo `scoped_id`; anything that it did not write is returned as it is."""
    if raw.isdigit():
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
    """What one rank of an export holds of the job that it was taken from.

    Attributes
    ----------
    start_ns, end_ns : int
        The window, absolute on the clock of the file's times; a side that was left open ends where
        the rank's events did.
    work_start_ns, work_end_ns : int
        The first start and the last end of the rank's device work in the job; 0 for none.
    cut_events : int
        Events of the file that cross an edge of the window, or were cut there.
    all_time : bool
        Whether nothing of the job was before or after the window.
    all_events : bool
        Whether all events of the window are there.
    job_ranks : int
        How many ranks there were to choose from.
    """

    start_ns: int
    end_ns: int
    work_start_ns: int
    work_end_ns: int
    cut_events: int
    all_time: bool
    all_events: bool
    job_ranks: int

    def mark(self) -> dict[str, Any]:
        """Return the entry of the file's mark that says so."""
        return {PART: asdict(self)}


def part_in(metadata: Mapping[str, Any]) -> ExportPart | None:
    """Return what a file's top-level keys say of the part that it is; None where it is whole."""
    mark = metadata.get(MARK)
    return part_of(mark.get(PART) if isinstance(mark, Mapping) else None)


def part_of(told: object) -> ExportPart | None:
    """Return the part that an entry tells of; None where it tells of none."""
    try:
        part = ExportPart(**told) if isinstance(told, Mapping) else None
    except TypeError:
        return None
    known = part is not None and all(isinstance(value, int) for value in asdict(part).values())
    return part if known else None
