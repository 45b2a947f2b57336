"""Which files of two runs compare event by event, and which by their own tables alone."""

from __future__ import annotations

from hta_widgets.analysis.scope import Part
from hta_widgets.errors import TraceError
from hta_widgets.readers.formats import all_formats

Parts = dict[int, Part]


def is_host_only(name: str) -> bool:
    """Whether files of a format have no device work: calls that communicate keep the host."""
    return any(one.host_only for one in all_formats() if one.name == name)


def formats_of(parts: Parts) -> set[str]:
    """Return the formats of the files of some ranks."""
    return {part.trace.format for part in parts.values()}


def with_time_lines(before: Parts, after: Parts) -> tuple[tuple[Parts, Parts], tuple[Parts, Parts]]:
    """Return the ranks whose events are compared, and those that only tables compare.

    Servers beside workers keep another clock and have no steps; profiles beside time lines have no
    events, and state the same calls once more.
    """
    formats = formats_of(before), formats_of(after)
    shared = formats[0] & formats[1]
    known = {one.name: one for one in all_formats()}
    if not shared:
        both = formats[0] | formats[1]
        if all(both <= {name, *known[name].compared_with} for name in both if name in known):
            return (before, after), ({}, {})
        names = {name: known[name].plural if name in known else name for name in both}
        words = [" and ".join(names[name] for name in sorted(one)) for one in formats]
        raise TraceError(
            f"{words[0]} cannot be compared with {words[1]}",
            remedy="Compare two runs of the same format.",
        )
    shared -= {name for name in shared if name in known and known[name].beside in shared}
    kept, tabled = (
        tuple(
            {rank: part for rank, part in side.items() if (part.trace.format in shared) is wanted}
            for side in (before, after)
        )
        for wanted in (True, False)
    )
    return (kept[0], kept[1]), (tabled[0], tabled[1])
