"""Measures how the devices of a job spend the run, and how long ranks wait for late ranks.

Times are sums over the ranks with device work, on the fitted clock. A rank's span extends from its
first device work to its last. For example, two ranks with spans of 100 ms that are busy for 90 and
70 ms have ``all_ns`` 200 ms, ``busy_ns`` 160 ms and ``idle_ns`` 40 ms.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from hta_widgets import analysis
from hta_widgets.analysis.cross_rank.imposed_waits import imposed_waits, waits_for_mask
from hta_widgets.analysis.cross_rank.waits import collective_waits, exposed_waits_for
from hta_widgets.analysis.idle import wait_for_first_work_ns
from hta_widgets.analysis.launches import launch_pairs
from hta_widgets.analysis.scope import rank_part, rank_parts
from hta_widgets.facts import facts
from hta_widgets.panels.frames import CLOCK
from hta_widgets.taxonomy import KINDS
from hta_widgets.trace.arrays import Bools
from hta_widgets.trace.build import step_numbers
from hta_widgets.trace.columns import EventTable
from hta_widgets.trace.graph_captures import capture_times
from hta_widgets.trace.intervals import Intervals, intersect, total_length, union
from hta_widgets.trace.memo import iter_ranks
from hta_widgets.trace.names import short_name
from hta_widgets.trace.summary import device_word
from hta_widgets.trace.trace import Trace
from hta_widgets.trace.traceset import Selection, TraceSet

#: Smallest share of the run for which findings and waits are reported.
MIN_SHARE: float = facts("limits")["wait_share"]
#: Smallest share of the run that device spans take in a job with device work.
_MIN_WORK_SHARE = 0.01
#: In a healthy job, devices are busy for at least this share of their spans.
_MIN_HEALTHY_BUSY = 0.95
#: In a healthy job, at most this share of each rank's span is idle or exposed communication.
_MAX_HEALTHY_LOSS = 0.05
#: Number of ranks required for a median rank; with two ranks, the slow rank itself is half of the
#: median.
MIN_RANKS = 3
#: Smallest excess of a slow phase over the median rank.
_MIN_EXCESS = 0.02
#: Share of the waits for a late rank that its slow phase must explain.
_MIN_EXPLAINED = 0.1
#: Launches per rank required to call a job host-bound.
_MIN_LAUNCHES = 20
#: Largest mean device time per launch in a launch-bound job. Eager PyTorch launches in less time,
#: so a device with longer work only waits for a host that is slower than usual.
_MAX_LAUNCH_WORK_NS = 20_000
#: Longest gap that the rate of launches can cause.
_MAX_LAUNCH_GAP_NS = 1_000_000
#: Causes of idle time in which the device waits for a host that is busy launching.
_LAUNCHING = ("host_operator", "host_python", "launch_call")
_PHASES = {"forward": "forward pass", "backward": "backward pass", "optimizer": "optimizer step"}


@dataclass(frozen=True)
class RunTimes:
    """Total times of the ranks with device work; the run is on the fitted clock."""

    run_ns: int  # duration of the run, excluding the time between recording windows
    span_ns: dict[int, int]
    busy_ns: int
    compute_ns: int
    communication_ns: int
    exposed_ns: int
    exposed_memory_ns: int
    exposed_wait_ns: int
    unmatched_ns: int  # exposed communication that is not matched on all ranks
    idle_ns: int
    idle_by_cause: dict[str, int]
    device: str  # word for the devices, such as ``GPU``
    recorded_ns: int  # total duration of the windows recorded by ranks with device work
    exposed_by_rank: dict[int, int]
    idle_by_rank: dict[int, int]
    unrecorded_ns: int  # time without recorded work in which devices are probably busy
    first_wait_ns: int  # from the launch of the first work to its start, as a mean over ranks

    @property
    def ranks(self) -> list[int]:
        """The ranks with device work."""
        return list(self.span_ns)

    @property
    def all_ns(self) -> int:
        """Sum of the spans of all ranks with device work."""
        return max(sum(self.span_ns.values()), 1)

    @property
    def span_share(self) -> float:
        """Share of the run covered by a rank's span, averaged over ranks."""
        return self.all_ns / self.recorded_ns

    @property
    def has_work(self) -> bool:
        """Whether the spans are at least `_MIN_WORK_SHARE` of the run."""
        return self.span_share >= _MIN_WORK_SHARE

    @property
    def is_healthy(self) -> bool:
        """Whether devices are busy and no rank loses much time."""
        return self.busy_ns > _MIN_HEALTHY_BUSY * self.all_ns and all(
            losses.get(rank, 0) < _MAX_HEALTHY_LOSS * span_ns
            for rank, span_ns in self.span_ns.items()
            for losses in (self.exposed_by_rank, self.idle_by_rank)
        )


def run_times(traces: TraceSet) -> RunTimes:
    """Sum up how the devices of a job spend the run."""
    devices: Any = analysis.temporal_breakdown(traces).set_index("rank")
    waits = analysis.exposed_waits(traces, clock=CLOCK)
    idle: Any = analysis.device_idle_breakdown(traces)
    # A device that is busy with unrecorded work is not idle.
    idle["idle_ns"] -= idle["unrecorded_ns"]
    idle_by_cause = idle.groupby("idle_category", observed=True)["idle_ns"].sum()
    on_clock = traces.with_clock(CLOCK)
    first_waits_ns = map(wait_for_first_work_ns, iter_ranks(traces.values()))
    return RunTimes(
        # The run includes the profiler's own span if the files have it, as in the timeline.
        run_ns=max(sum(high - low for low, high in on_clock.windows), 1),
        span_ns=devices["span_ns"].to_dict(),
        busy_ns=int(devices["busy_ns"].sum()),
        compute_ns=int(devices["compute_ns"].sum()),
        communication_ns=int(devices["communication_ns"].sum()),
        exposed_ns=int(devices["exposed_communication_ns"].sum()),
        exposed_memory_ns=int(devices["exposed_memory_ns"].sum()),
        exposed_wait_ns=int(waits["exposed_wait_ns"].clip(lower=0).sum()),
        unmatched_ns=int(waits["unmatched_exposed_ns"].sum()),
        idle_ns=int(idle["idle_ns"].sum()),
        idle_by_cause={str(cause): int(time_ns) for cause, time_ns in idle_by_cause.items()},
        device=device_word(traces.values()),
        recorded_ns=_recorded_ns(on_clock, devices.index.tolist()),
        exposed_by_rank=devices["exposed_communication_ns"].to_dict(),
        idle_by_rank=idle.groupby("rank")["idle_ns"].sum().to_dict(),
        unrecorded_ns=int(idle["unrecorded_ns"].sum()),
        first_wait_ns=sum(first_waits_ns) // max(len(devices), 1),
    )


def _recorded_ns(traces: TraceSet, ranks: Sequence[int]) -> int:
    """Return the duration of the job's recording windows, summed over ranks that recorded them."""
    windows = traces.windows
    if len(windows) == 1:
        low, high = windows[0]
        return len(ranks) * max(high - low, 1)
    recorded_ns = 0
    for rank in ranks:
        windows_of_rank = traces.subset([rank]).windows
        recorded_ns += sum(
            max(high - low, 1)
            for low, high in windows
            if any(start < high and low < end for start, end in windows_of_rank)
        )
    return recorded_ns


@dataclass(frozen=True)
class LaunchRate:
    """A rank's number of launches, and the device time per launch."""

    launches: int
    work_ns: float
    interval_ns: float

    @property
    def is_launch_bound(self) -> bool:
        """Whether launches have so little work that no host could keep the device busy."""
        return self.work_ns <= _MAX_LAUNCH_WORK_NS


def host_bound_rate(traces: TraceSet, times: RunTimes) -> LaunchRate | None:
    """Return the launch rate of a host-bound job, otherwise None.

    The host of such a job launches more slowly than the device works: short gaps in which the
    device waits for launches are at least half of the idle time, and longer than the busy time.
    """
    min_wait_ns = max(times.idle_ns / 2, times.busy_ns)
    if sum(times.idle_by_cause.get(cause, 0) for cause in _LAUNCHING) < min_wait_ns:
        return None
    gaps = analysis.device_idle_gaps(traces)
    waits = gaps.loc[gaps["dur_ns"] <= _MAX_LAUNCH_GAP_NS, [f"{cause}_ns" for cause in _LAUNCHING]]
    if waits.to_numpy().sum() < min_wait_ns:
        return None
    launches, work_ns = 0, 0
    for part in rank_parts(traces):
        call, work, _ = launch_pairs(part, part.device_work_rows())
        launches += len(np.unique(call))
        work_ns += int(part.table.dur_ns[work].sum())
    if launches < _MIN_LAUNCHES * len(times.ranks):
        return None
    return LaunchRate(launches // len(times.ranks), work_ns / launches, times.all_ns / launches)


def idle_while_capturing_ns(traces: TraceSet, times: RunTimes) -> int:
    """Return how long devices idle while their hosts capture graphs, when no kernels run."""
    captured_ns = 0
    for trace in iter_ranks([traces[rank] for rank in times.ranks]):
        captures = capture_times(trace)
        if len(captures.start):
            gaps = Intervals(*rank_part(trace, Selection()).device_gaps())
            captured_ns += total_length(intersect(captures, gaps))
    return captured_ns


class SlowPhase(NamedTuple):
    """The phase that makes a rank late, its median duration, and its excess as a share."""

    name: str
    dur_ns: float
    excess: float


@dataclass(frozen=True)
class LateRanks:
    """Ranks for which the others wait, and how often and why the first of them is last."""

    ranks: list[int]
    waiting: list[int]  # ranks with long waits, or all that wait if no wait is long
    wait_ns: int  # exposed waits of all ranks for these ranks
    #: Number of collectives at which the first rank is last, and of all its collectives.
    last: int
    collectives: int
    on_hosts: bool  # whether hosts run the collectives
    phase: SlowPhase | None  # slow phase of the first rank


def late_ranks(traces: TraceSet, times: RunTimes, ranks: list[int]) -> LateRanks | None:
    """Return how long other ranks wait for `ranks` without computing; None if they do not wait."""
    if not ranks:
        return None
    waits = collective_waits(traces, CLOCK)
    work = imposed_waits(traces, Selection(), CLOCK)
    wait_of_rank = exposed_waits_for(waits, waits_for_mask(work, ranks))
    waiting = [rank for rank, wait_ns in wait_of_rank.items() if wait_ns > 0 and rank not in ranks]
    if not waiting:
        return None
    long_waiting = [rank for rank in waiting if wait_of_rank[rank] >= MIN_SHARE * times.run_ns]
    wait_ns = sum(wait_of_rank.values())
    entries = waits.match.of_trace[list(traces).index(ranks[0])]
    return LateRanks(
        ranks=ranks,
        waiting=long_waiting or waiting,
        wait_ns=wait_ns,
        last=int((waits.times.last_rank[entries] == ranks[0]).sum()),
        collectives=len(entries),
        on_hosts=waits.on_hosts,
        phase=_slow_phase(traces, ranks[0], wait_ns / len(waiting)),
    )


def _slow_phase(traces: TraceSet, rank: int, wait_ns: float) -> SlowPhase | None:
    """Return the phase that explains `_MIN_EXPLAINED` of `wait_ns`, the mean wait of a rank."""
    if len(traces) < MIN_RANKS:
        return None
    frame = analysis.phase_times(traces)
    frame = frame[frame["rank"] == rank]
    by_phase = frame.groupby("phase", sort=False)
    dur_ns, excess_ns, excess = (
        by_phase[name].median() for name in ("dur_ns", "deviation_ns", "deviation_share")
    )
    explained_ns = excess_ns * by_phase.size()
    excess_ns = excess_ns[(excess >= _MIN_EXCESS) & (explained_ns >= _MIN_EXPLAINED * wait_ns)]
    if not len(excess_ns):
        return None
    phase = str(excess_ns.idxmax())
    return SlowPhase(_PHASES.get(phase, phase), float(dur_ns[phase]), float(excess[phase]))


def range_around(trace: Trace, start_ns: int, dur_ns: int) -> str:
    """Return the name of a host range, other than a step, that fills most of a gap, or ""."""
    table, low = trace.table, start_ns - trace.shift_ns
    rows = np.flatnonzero((table.kind == KINDS.index("annotation")) & (table.stream < 0))
    rows = rows[step_numbers(table.names.values)[table.name[rows]] < 0]
    start, range_ns = table.start_ns[rows], table.dur_ns[rows]
    inside_ns = np.minimum(start + range_ns, low + dur_ns) - np.maximum(start, low)
    rows = rows[2 * inside_ns > np.maximum(range_ns, dur_ns)]
    if not len(rows):
        return ""
    return short_name(table.names[int(table.name[rows[table.dur_ns[rows].argmin()]])])


def host_time_and_calls(
    traces: Sequence[Trace], mask_of: Callable[[EventTable], Bools]
) -> tuple[int, dict[str, int]]:
    """Return the time covered by the host events in a mask, and their numbers keyed by name."""
    time_ns, calls = 0, Counter[str]()
    for trace in iter_ranks(traces):
        table = trace.table
        rows = np.flatnonzero(mask_of(table) & (table.stream < 0))
        start_ns = table.start_ns[rows]
        time_ns += total_length(union(start_ns, start_ns + table.dur_ns[rows]))
        calls.update(table.names[code] for code in table.name[rows].tolist())
    return time_ns, calls
