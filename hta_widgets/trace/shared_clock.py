"""The time axis shared by the ranks of a job, based on the times in their files.

Ranks of a job start together, so files whose times are close use the same clock and keep their
recorded times. Ranks far from the others use another clock, for example one that counts from the
start of the host. They are shifted to start with the largest group. For example, if three ranks
start at 1700.0 s, 1700.1 s and 5.2 s, the third is shifted by 1694.8 s, and a problem of the kind
``clock`` reports the difference.
"""

from __future__ import annotations

from collections.abc import Sequence

from hta_widgets.trace.problems import Problems
from hta_widgets.trace.trace import Trace

#: 2005-01-01 and 2100-01-01; a clock with times between them counts from the epoch.
_EPOCH_FROM_NS = 1_104_537_600_000_000_000
_EPOCH_TO_NS = 4_102_444_800_000_000_000
#: Ranks of a job start together. If starts are farther apart than `_FAR_NS` and than ten times the
#: duration of the longest rank, the ranks use different clocks or belong to different runs.
_FAR_NS = 60_000_000_000


def _is_epoch(time_ns: int) -> bool:
    return _EPOCH_FROM_NS <= time_ns < _EPOCH_TO_NS


def common_clock(traces: Sequence[Trace], problems: Problems) -> tuple[int | None, list[int]]:
    """Return the epoch time of instant 0, if known, and the shift of each trace."""
    with_events = [trace for trace in traces if len(trace) or len(trace.async_table)]
    if not with_events:
        return None, [0] * len(traces)
    groups = clock_groups(with_events)
    main = max(groups, key=len)
    origin = min(trace.zero_ns for trace in main)
    shift = {id(trace): trace.zero_ns - origin for trace in main}
    for group in groups:
        if group is main:
            continue
        start = min(trace.zero_ns for trace in group)
        for trace in group:
            shift[id(trace)] = trace.zero_ns - start
            problems.add("clock", 1, _describe_difference(start, origin), trace.rank, trace.path)
    shifts = [shift.get(id(trace), 0) for trace in traces]
    return origin if _is_epoch(origin) else None, shifts


def clock_groups(traces: Sequence[Trace]) -> list[list[Trace]]:
    """Group traces by clock; groups are too far apart to belong to the same recording."""
    max_distance_ns = max([_FAR_NS, *(10 * trace.table.last_ns for trace in traces)])
    groups: list[list[Trace]] = []
    end_ns = 0
    for trace in sorted(traces, key=lambda trace: trace.zero_ns):
        if not groups or trace.zero_ns - end_ns > max_distance_ns:
            groups.append([])
            end_ns = trace.zero_ns
        groups[-1].append(trace)
        end_ns = max(end_ns, trace.zero_ns + trace.table.last_ns)
    return groups


def _describe_difference(start_ns: int, origin_ns: int) -> str:
    moved = "moved to start with them"
    if _is_epoch(start_ns) and not _is_epoch(origin_ns):
        return f"its clock counts from the epoch, other ranks' clocks do not; {moved}"
    if _is_epoch(origin_ns) and not _is_epoch(start_ns):
        return f"its clock does not count from the epoch, other ranks' clocks do; {moved}"
    return f"its clock differs from other ranks' by {(start_ns - origin_ns) / 1e9:+,.0f} s; {moved}"
