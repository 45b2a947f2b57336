"""Which ranks the others wait for, how long, and what these ranks are slow in."""

from __future__ import annotations

from dataclasses import dataclass

from hta_widgets import analysis
from hta_widgets.model import TraceSet
from hta_widgets.tiles.lateness import Lateness

from .frames import CLOCK
from .run_times import RunTimes

__all__ = ["LateRanks", "late_ranks"]

#: Who waits less than this share of the run for them does not count as waiting.
LEAST_SHARE = 0.02
#: A phase is slow from this much over the median rank on.
LEAST_OVER = 0.02
#: Of fewer ranks none is the median: what lies between two is half the slow one's own.
LEAST_RANKS = 3

_PHASES = {
    "forward": "forward pass",
    "backward": "backward pass",
    "optimizer": "optimizer step",
}


@dataclass(frozen=True)
class LateRanks:
    """Ranks that the others wait for, in figures.

    Attributes
    ----------
    ranks : list of int
        Ranks that the others wait for, most costly first.
    waiting : list of int
        Those who wait for them for 2 % of the run or more; all others if none does.
    wait_ns : float
        How long each of `waiting` does, on average: where one of `ranks` alone comes last, and
        moments of several such waits once, as the timeline's ``wait_for_late``.
    last, collectives : int
        At how many of its collectives the first of `ranks` arrives last.
    phase, phase_ns, phase_over
        The phase of a step that costs the first of `ranks` most time over the median rank: its
        name, the rank's median time for it, and how much that is more, as a share.
    """

    ranks: list[int]
    waiting: list[int]
    wait_ns: float
    last: int
    collectives: int
    phase: str = ""
    phase_ns: float = 0.0
    phase_over: float = 0.0


def late_ranks(traces: TraceSet, times: RunTimes, ranks: list[int]) -> LateRanks | None:
    """Return what the others wait for some ranks, which `judgement` names; None if for none."""
    if not ranks:
        return None
    frame = analysis.collectives(traces, clock=CLOCK)
    lateness = Lateness(traces, frame, {})
    run = lateness.within(times.start_ns, times.start_ns + times.run_ns)
    waits = lateness.waited_for(ranks, times.start_ns, times.start_ns + times.run_ns)
    by_rank = {rank: wait for rank, wait in zip(traces, waits, strict=True) if rank not in ranks}
    long = {rank: wait for rank, wait in by_rank.items() if wait >= LEAST_SHARE * times.run_ns}
    by_rank = long or by_rank
    if not any(by_rank.values()):
        return None
    first = traces.ranks.index(ranks[0])
    return LateRanks(
        ranks,
        list(by_rank),
        sum(by_rank.values()) / max(len(by_rank), 1),
        run["last"][first],
        run["collectives"][first],
        *_slow_phase(traces, ranks[0]),
    )


def _slow_phase(traces: TraceSet, rank: int) -> tuple[str, float, float]:
    if len(traces) < LEAST_RANKS:
        return "", 0.0, 0.0
    frame = analysis.phase_times(traces)
    frame = frame[frame["rank"] == rank]
    if not len(frame):
        return "", 0.0, 0.0
    by_phase = frame.groupby("phase", sort=False)
    lasting, apart, over = (
        by_phase[name].median() for name in ("dur_ns", "deviation_ns", "deviation_share")
    )
    apart = apart[over >= LEAST_OVER]
    if not len(apart):
        return "", 0.0, 0.0
    phase = str(apart.idxmax())
    return _PHASES.get(phase, phase), float(lasting[phase]), float(over[phase])
