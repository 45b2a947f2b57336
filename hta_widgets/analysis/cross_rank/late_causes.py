"""Why a late rank is late: the part of its time that most exceeds the other ranks'.

For example, a rank arrives 3 ms late on average. Since its previous arrival, it has computed for
2.5 ms longer than the others, and its device has idled for 0.4 ms longer. The part is compute, and
the cause is "slower kernels" unless the rank runs more kernels than the others.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from hta_widgets.analysis.cross_rank.imposed_waits import ImposedWaits
from hta_widgets.analysis.cross_rank.lateness import PARTS, has_longer_pauses
from hta_widgets.analysis.host_activity import is_pause, stalling_event
from hta_widgets.analysis.map_ranks import map_ranks
from hta_widgets.analysis.scope import device_work_rows
from hta_widgets.taxonomy import KINDS
from hta_widgets.trace.arrays import Floats, Ints
from hta_widgets.trace.trace import Trace

_MIN_EXPLAINED_SHARE = 0.25  # smallest share of the lost time that a cause explains
_MIN_RATIO = 1.005  # number or duration of kernels that counts as larger, relative to the others

#: The cause if a rank waited in another group.
WAITING = "waiting elsewhere"
_CAUSES = {
    "waiting": WAITING,
    "data_loading": "data loading",
    "host": "launch-bound host",
    "compute": "slower kernels",
    "copies": "memory copies",
}
#: The cause if a rank's recording starts later than the others.
LATE_START = "late start"
#: The cause if the device idles while the host is mostly inside no recorded call.
_PAUSED = "idle host"
#: The cause if the device idles while the file has no host calls.
_NOT_RECORDED = "host not recorded"
#: Prefix of the cause if the host is in one kind of event while the device idles.
_INSIDE = "host inside "
_CAUSE_TEXTS = {
    _CAUSES["host"]: ", as its host launches late",
    _PAUSED: ", after pauses in which its host slept or was inside no recorded call",
    _NOT_RECORDED: ", for an unknown cause, because its host was not recorded",
}


def excess_by_rank(work: ImposedWaits) -> dict[str, Floats]:
    """Return, by part, each late rank's total excess of time over the other ranks."""
    return {
        part: work.sum_by_rank(np.where(work.is_late, np.nan_to_num(excess_ns), 0.0))
        for part, excess_ns in work.late.excess_ns.items()
    }


def late_causes(work: ImposedWaits, places: Ints, costs_ns: Floats) -> list[str]:
    """Return the cause for each late rank: the part with the largest excess over the others.

    It is "" if the excess explains only a small part of the rank's cost. `places` are the positions
    of the late ranks in the trace set, and `costs_ns` their costs.
    """
    if not len(places):
        return []
    match, edges = work.match, []
    for entries, events in zip(match.of_trace, match.events, strict=True):
        end_ns = events.end_ns[match.place[entries]]
        edges.append((int(end_ns.min(initial=np.iinfo(np.int64).max)), int(end_ns.max(initial=0))))
    contents = list(map_ranks(match.traces, _file_contents, each=edges, executor=match.executor))
    excess, causes = excess_by_rank(work), []
    for place, cost_ns in zip(places.tolist(), costs_ns.tolist(), strict=True):
        part = max(PARTS, key=lambda name: excess[name][place])
        excess_ns = float(excess[part][place])
        cause = _CAUSES[part]
        if excess_ns < _MIN_EXPLAINED_SHARE * cost_ns:
            cause = ""
        elif part == "compute":
            cause = _compute_cause(contents, place)
        elif part == "host":
            cause = _host_cause(work, contents, place, excess_ns / 2)
        causes.append(cause)
    return causes


def _host_cause(
    work: ImposedWaits, contents: Sequence[_Contents], place: int, min_idle_ns: float
) -> str:
    """Return what a rank's host did while its device idled, for `min_idle_ns` or longer."""
    match = work.match
    if not contents[place].has_launches:
        has_devices = any(contents_of_rank.has_device for contents_of_rank in contents)
        return _NOT_RECORDED if has_devices else "host work"
    peers = [*match.traces[:place], *match.traces[place + 1 :]]
    stall = stalling_event([match.traces[place]], min_idle_ns, peers)
    # Operators launch work, so a host inside them is slow rather than stalled.
    if stall and not is_pause(stall[0]) and not stall[0].startswith("aten::"):
        return f"{_INSIDE}{stall[0]}"
    late = np.flatnonzero(work.is_late & (match.trace == place))
    is_paused = has_longer_pauses(match, work.times, late, min_idle_ns)
    return _PAUSED if is_paused else _CAUSES["host"]


class _Contents(NamedTuple):
    kernels_per_ns: float  # compute kernels between the ends of the first and last collective
    kernel_mean_ns: float
    has_device: bool
    has_launches: bool  # whether the rank has calls that launch the device's work


def _file_contents(trace: Trace, first_ns: int, last_ns: int) -> _Contents:
    # Count kernels between the same collectives, because recordings start at different times.
    table = trace.table
    on_device = table.stream >= 0
    is_compute = (table.kind == KINDS.index("compute")) & on_device
    windows = np.array(trace.recorded_ns or [(0, table.last_ns)], dtype=np.int64)
    between = np.clip(windows, first_ns, last_ns)
    if not np.diff(between).any():  # there is only one collective
        between = windows
    start_ns = table.start_ns[is_compute]
    is_between = (start_ns >= between[0, 0]) & (start_ns < between[-1, 1])
    mean_ns = float(table.dur_ns[is_compute].sum()) / max(len(start_ns), 1)
    has_launches = bool((trace.launch_of[device_work_rows(trace)] >= 0).any())
    per_ns = int(is_between.sum()) / max(int(np.diff(between).sum()), 1)
    return _Contents(per_ns, mean_ns, bool(on_device.any()), has_launches)


def _compute_cause(contents: Sequence[_Contents], place: int) -> str:
    """Return whether a rank's kernels are slower or more numerous than others'; "" if neither."""
    others = [*contents[:place], *contents[place + 1 :]]
    usual_per_ns = float(np.median([of_rank.kernels_per_ns for of_rank in others]))
    usual_mean_ns = float(np.median([of_rank.kernel_mean_ns for of_rank in others]))
    count_ratio = contents[place].kernels_per_ns / max(usual_per_ns, 1e-12)
    duration_ratio = contents[place].kernel_mean_ns / max(usual_mean_ns, 1.0)
    if max(count_ratio, duration_ratio) < _MIN_RATIO:
        return ""
    return "extra work" if count_ratio > max(duration_ratio, 1.0) else _CAUSES["compute"]


def cause_text(cause: str) -> str:
    """Return the end of a sentence about a late rank, ``, after slower kernels``; "" if unknown."""
    if cause.startswith(_INSIDE):
        return f", while its {cause.replace(_INSIDE, 'host was inside ', 1)}"
    return _CAUSE_TEXTS.get(cause, f", after {cause}" if cause else "")
