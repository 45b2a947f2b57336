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
    """The ranks that the others wait for.

    Attributes
    ----------
    ranks : list of int
        Whom the others wait for, longest first.
    waiting : list of int
        Those who wait for them for 2 % of the run or more.
    total : int
        All ranks of the job.
    wait_ns : float
        How long each of `waiting` does, on average: where one of `ranks` alone comes last, and
        moments of several such waits once, as the timeline's ``wait_for_late``.
    last, collectives : int
        At how many of its collectives the first of `ranks` arrives last.
    cause : str
        As in `stragglers`.
    phase, phase_ns, phase_over
        The phase of a step that costs the first of `ranks` most time over the median rank: its
        name, the rank's median time for it, and how much that is more, as a share.
    """

    ranks: list[int]
    waiting: list[int]
    total: int
    wait_ns: float
    last: int
    collectives: int
    cause: str
    phase: str = ""
    phase_ns: float = 0.0
    phase_over: float = 0.0


def late_ranks(traces: TraceSet, times: RunTimes) -> LateRanks | None:
    """Return whom the others wait for; None where nobody stands out."""
    found = analysis.stragglers(traces, clock=CLOCK)
    found = found[found["is_straggler"]] if len(found) else found
    if not len(found):
        return None
    found = found.sort_values("lost_ns", ascending=False, kind="stable")
    ranks = [int(rank) for rank in found["rank"]]
    lateness = Lateness(traces, analysis.collectives(traces, clock=CLOCK), {})
    waits = lateness.waited_for(ranks, times.start_ns, times.start_ns + times.run_ns)
    by_rank = {
        rank: wait
        for rank, wait in zip(traces, waits, strict=True)
        if rank not in ranks and wait >= LEAST_SHARE * times.run_ns
    }
    if not by_rank:
        return None
    first = found.iloc[0]
    collectives = int(first["collectives"])
    return LateRanks(
        ranks,
        list(by_rank),
        len(traces),
        sum(by_rank.values()) / len(by_rank),
        round(float(first["score"]) * collectives),
        collectives,
        str(first["cause"]),
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
