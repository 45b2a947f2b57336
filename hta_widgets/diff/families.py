"""Which files of two runs compare event by event, and which by their own tables alone."""

from __future__ import annotations

from hta_widgets.analysis.scope import Part
from hta_widgets.errors import TraceError

__all__ = ["BYTEPS", "MPI", "formats_of", "with_time_lines"]

Parts = dict[int, Part]

#: Formats of BytePS, and of mpitrace; of each the one with time lines comes first.
BYTEPS = ("byteps", "byteps-server")
MPI = ("mpi-trace", "mpi-profile")

_WORDS = {
    "kineto": "Kineto traces",
    "byteps": "BytePS workers' traces",
    "byteps-server": "BytePS servers' profiles",
    "mpi-trace": "MPI time lines",
    "mpi-profile": "MPI profiles",
}


def formats_of(parts: Parts) -> set[str]:
    """Return the formats of the files of some ranks."""
    return {part.trace.format for part in parts.values()}


def with_time_lines(before: Parts, after: Parts) -> tuple[tuple[Parts, Parts], tuple[Parts, Parts]]:
    """Return the ranks whose events are compared, and those that only tables compare.

    Servers beside workers keep another clock and have no steps; profiles beside time lines have no
    events, and state the same calls once more.

    Raises
    ------
    TraceError
        Where the sides have nothing in common.
    """
    formats = formats_of(before), formats_of(after)
    shared = formats[0] & formats[1]
    if not shared:
        if all(one <= set(MPI) for one in formats):
            return (before, after), ({}, {})
        words = [" and ".join(_WORDS.get(name, name) for name in sorted(one)) for one in formats]
        raise TraceError(
            f"{words[0]} cannot be compared with {words[1]}",
            remedy="Compare two runs of the same format.",
        )
    for first, second in (BYTEPS, MPI):
        if first in shared:
            shared.discard(second)
    kept, tabled = (
        tuple(
            {rank: part for rank, part in side.items() if (part.trace.format in shared) is wanted}
            for side in (before, after)
        )
        for wanted in (True, False)
    )
    return (kept[0], kept[1]), (tabled[0], tabled[1])
