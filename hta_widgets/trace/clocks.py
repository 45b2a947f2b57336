"""Which instant is zero, and how far each rank's clock is from it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hta_widgets.trace.problems import Problems

if TYPE_CHECKING:
    from hta_widgets.trace.trace import Trace

__all__ = ["Clock", "common_clock", "is_epoch"]

#: 2005-01-01 and 2100-01-01: a clock that reads between them counts from the epoch.
_EPOCH_FROM_NS = 1_104_537_600_000_000_000
_EPOCH_TO_NS = 4_102_444_800_000_000_000

#: Ranks of one job start together. Apart by more than this, and by more than ten times the longest
#: of them, they are on different clocks, or of different runs.
_FAR_NS = 60_000_000_000


@dataclass(frozen=True, slots=True)
class Clock:
    """The common time axis of a set."""

    origin_ns: int | None  # epoch time of instant 0
    shifts_ns: list[int]  # to be added to the times of each trace's table


def is_epoch(time_ns: int) -> bool:
    """Whether an absolute time is plainly one since 1970."""
    return _EPOCH_FROM_NS <= time_ns < _EPOCH_TO_NS


def common_clock(traces: Sequence[Trace], problems: Problems) -> Clock:
    """Place ranks on one axis: as recorded, unless their clocks have nothing in common.

    Ranks that lie far apart form groups. The largest keeps its recorded times; each other group is
    moved as a whole to start with it, and reported as a ``clock`` problem.
    """
    filled = [trace for trace in traces if len(trace)]
    if not filled:
        return Clock(None, [0] * len(traces))
    groups = _groups(filled)
    main = max(groups, key=len)
    origin = min(trace.zero_ns for trace in main)
    shift = {id(trace): trace.zero_ns - origin for trace in main}
    for group in groups:
        if group is main:
            continue
        start = min(trace.zero_ns for trace in group)
        for trace in group:
            shift[id(trace)] = trace.zero_ns - start
            problems.add("clock", 1, _apart(start, origin), trace.rank, trace.path)
    return Clock(
        origin if is_epoch(origin) else None,
        [shift.get(id(trace), 0) for trace in traces],
    )


def _groups(traces: Sequence[Trace]) -> list[list[Trace]]:
    def span(trace: Trace) -> int:
        return trace.table.last_ns

    far = max(_FAR_NS, 10 * max(span(trace) for trace in traces))
    groups: list[list[Trace]] = []
    reach = 0
    for trace in sorted(traces, key=lambda trace: trace.zero_ns):
        if not groups or trace.zero_ns - reach > far:
            groups.append([])
            reach = trace.zero_ns
        groups[-1].append(trace)
        reach = max(reach, trace.zero_ns + span(trace))
    return groups


def _apart(start_ns: int, origin_ns: int) -> str:
    moved = "moved to start with them"
    if is_epoch(start_ns) and not is_epoch(origin_ns):
        return f"its clock counts from the epoch, other ranks' clocks do not; {moved}"
    if is_epoch(origin_ns) and not is_epoch(start_ns):
        return f"its clock does not count from the epoch, other ranks' clocks do; {moved}"
    return f"its clock is {(start_ns - origin_ns) / 1e9:+,.0f} s from other ranks'; {moved}"
