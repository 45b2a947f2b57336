"""When ranks wait in collectives for the last one to come, rank by rank."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import overload

import numpy as np
import numpy.typing as npt

from hta_widgets.trace.trace import Trace
from hta_widgets.trace.traceset import TraceSet
from hta_widgets.trace.derived import derived

from hta_widgets.analysis.clock_offsets import clock_fit
from hta_widgets.analysis.collectives import Arrivals
from hta_widgets.analysis.collectives import Clock
from hta_widgets.analysis.collectives import arrivals
from hta_widgets.analysis.matching import Matching
from hta_widgets.analysis.matching import matching

__all__ = ["RankWaits", "Waits", "waits_of"]

Ints = npt.NDArray[np.int64]
Rows = npt.NDArray[np.intp]
Flags = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True, eq=False)
class RankWaits:
    """Of one rank: the events in which it waits, and from when to when, in its table's times.

    `unmatched` is the communication of which the files lack other ranks' events.
    """

    rows: Rows
    begin: Ints
    until: Ints
    unmatched: Rows


@dataclass(frozen=True, slots=True, eq=False)
class Waits:
    """When ranks wait in collectives, on the clock named."""

    match: Matching
    times: Arrivals
    clock: Clock
    number: dict[int, int]  # of each rank its position in the set
    complete: Flags  # by entry: whether all ranks' events are there

    def of(self, trace: Trace) -> tuple[Rows, Ints, Ints]:
        """Return the events in which a rank waits, and from when to when, in its table's times."""
        found = self.of_rank(trace.rank)
        return found.rows, found.begin, found.until

    def unmatched(self, trace: Trace) -> Rows:
        """Return the communication of which the files lack other ranks' events."""
        return self.of_rank(trace.rank).unmatched

    def of_rank(self, rank: int) -> RankWaits:
        """Return the waits of a rank."""
        number = self.number[rank]
        mine, events = self.match.of_trace[number], self.match.events[number]
        place = self.match.place[mine]
        last = self.times.last_ns[mine] - self.times.shifts_ns[number]
        until = np.minimum(last, events.end_ns[place])
        alone = np.array([group.size == 1 for group in events.groups], dtype=bool)
        known: Flags = alone[events.group] if len(events.rows) else np.zeros(0, dtype=bool)
        known[place[self.complete[mine]]] = True
        return RankWaits(events.rows[place], events.start_ns[place], until, events.rows[~known])

    def each(self, ranks: list[int]) -> EachRank:
        """Return the waits of some ranks, as arguments of what is done with each."""
        return EachRank(self, ranks)


class EachRank(Sequence[tuple[RankWaits]]):
    """The waits of some ranks, put together as they are asked for."""

    def __init__(self, waits: Waits, ranks: Sequence[int]) -> None:
        self._waits, self._ranks = waits, ranks

    def __len__(self) -> int:
        return len(self._ranks)

    @overload
    def __getitem__(self, place: int) -> tuple[RankWaits]: ...

    @overload
    def __getitem__(self, place: slice) -> EachRank: ...

    def __getitem__(self, place: int | slice) -> tuple[RankWaits] | EachRank:
        if isinstance(place, slice):
            return EachRank(self._waits, self._ranks[place])
        return (self._waits.of_rank(self._ranks[place]),)


def waits_of(traces: TraceSet, clock: Clock | None = None) -> Waits:
    """Return the waits of all ranks; the clock is the fitted one where that is needed."""
    if clock is None:
        needed = traces.clock == "host" and clock_fit(traces).is_needed
        clock = "fitted" if needed else traces.clock
    match = matching(traces)
    return derived(
        traces,
        ("waits", clock),
        lambda: _waits(traces, match, clock),
        # The very same entries: others mean that kinds were told by other rules.
        lambda known: known.match.collective is match.collective,
    )


def _waits(traces: TraceSet, match: Matching, clock: Clock) -> Waits:
    number = {trace.rank: place for place, trace in enumerate(match.traces)}
    complete = match.each((match.expected <= 0) | (match.sizes() >= match.expected))
    return Waits(match, arrivals(traces, match, clock), clock, number, complete)
