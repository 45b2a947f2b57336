"""Waiting time of each rank in collectives, until the last rank arrives.

For example, a rank waits from 10 to 30 ns and computes from 5 to 15 ns. It waits for 20 ns. Its
device does not compute from 15 to 30 ns, so 15 ns of the wait are exposed.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pandas as pd

from hta_widgets.analysis.cross_rank.arrivals import (
    Arrivals,
    Clock,
    arrival_times,
    computing_intervals,
    shared_clock,
)
from hta_widgets.analysis.cross_rank.matching import Matching, matching
from hta_widgets.analysis.frames import columns_of_rows, int64, result_frame
from hta_widgets.analysis.map_ranks import map_ranks
from hta_widgets.analysis.scope import (
    DEVICE_WORK_KINDS,
    RankPart,
    Window,
    count_by_kind,
    rank_parts,
)
from hta_widgets.arguments import check_arguments
from hta_widgets.facts import note_text
from hta_widgets.trace.arrays import Bools, Ints, Rows
from hta_widgets.trace.intervals import subtract, total_length, union
from hta_widgets.trace.memo import memo
from hta_widgets.trace.trace import Trace
from hta_widgets.trace.traceset import Selection, TraceSet


@check_arguments
def exposed_waits(
    traces: TraceSet,
    *,
    clock: Clock | None = None,
    selection: Selection | None = None,
    window: Window | None = None,
    ranks: Iterable[int] | None = None,
) -> pd.DataFrame:
    """Return the time that each rank spends in collectives before the last rank arrives.

    A rank waits in a collective from its own arrival until the last rank's, or until the end of its
    own event if that is earlier. As in `collectives`, the last rank is determined before anything
    is selected. The wait is *exposed* while no selected compute kernel of the rank runs. It is part
    of `temporal_breakdown`'s ``exposed_communication_ns``. Overlapping waits count once.

    Parameters
    ----------
    traces : TraceSet
    clock : {"host", "fitted"}, optional
        The clock of arrivals. Default: fitted, or the trace set's if no collective spans two ranks.
    selection, window : Selection, (start_ns, end_ns), optional
        The events to analyze, restricted by time. Default: all.
    ranks : iterable of int, optional
        Restricts the selection to these ranks. Any rank may be the last to arrive.

    Returns
    -------
    DataFrame
        One row per selected rank, all int64:

        - ``rank``
        - ``collectives``: selected events of the rank that are matched with events of other ranks
        - ``wait_ns``: time in any wait; ``exposed_wait_ns``: the same without compute
        - ``exposed_communication_ns``: all communication without compute; ``unmatched_exposed_ns``:
          the part in events that are not matched on all ranks, with waits that are not fully known

        ``wait_ns`` and ``exposed_wait_ns`` are -1 if no communication of the rank, selected or not,
        is matched. ``.attrs["clock"]`` is the clock of the arrivals.
    """
    chosen = rank_parts(traces, selection, window, ranks)
    traces = chosen.owner
    waits = collective_waits(traces, clock)
    arguments = waits.arguments_by_rank(chosen.ranks)
    times_by_rank = list(map_ranks(chosen, _waits_of_rank, each=arguments))
    times = np.array(times_by_rank, dtype=np.int64).reshape(-1, 5)
    rank = np.array(chosen.ranks, dtype=np.int64)
    unknown = rank[times[:, 1] < 0].tolist()
    note = "" if len(chosen) else note_text("no_ranks")
    if unknown:
        plural_s = "s" if len(unknown) > 1 else ""
        of_ranks = f" of rank{plural_s} {', '.join(map(str, unknown))}"
        note = (
            f"no communication{of_ranks if len(unknown) < len(chosen) else ''} could be matched"
            " with that of other ranks, so waits are unknown"
        )
    schema = int64(
        "rank collectives wait_ns exposed_wait_ns exposed_communication_ns unmatched_exposed_ns"
    )
    return result_frame(
        columns_of_rows(np.column_stack([rank, times]).tolist(), schema),
        matched={**count_by_kind(chosen, DEVICE_WORK_KINDS[:2]), "matched": int(times[:, 0].sum())},
        note=note,
        clock=waits.clock,
    )


class RankWaits(NamedTuple):
    """A rank's waits on its table's clock, and its events that are not matched on all ranks."""

    rows: Rows  # events in which the rank waits
    begin: Ints
    until: Ints
    unmatched: Rows


@dataclass(frozen=True, slots=True, eq=False)
class CollectiveWaits:
    """The waits of ranks in collectives, on one clock."""

    match: Matching
    times: Arrivals
    clock: Clock

    @property
    def on_hosts(self) -> bool:
        """Whether hosts run the collectives, because no device does."""
        return any(
            bool((trace.table.stream[events.rows[:1]] < 0).any())
            for trace, events in zip(self.match.traces, self.match.events, strict=True)
        )

    def of_rank(self, rank: int) -> RankWaits:
        """Return a rank's waits, each until the last arrival or the end of its event."""
        match, number = self.match, [trace.rank for trace in self.match.traces].index(rank)
        entries, events = match.of_trace[number], match.events[number]
        place = match.place[entries]
        begin, end = events.start_ns[place], events.end_ns[place]
        last_arrival = self.times.clocks[number].to_rank(self.times.last_ns[entries])
        until = np.clip(last_arrival, begin, end)
        return RankWaits(events.rows[place], begin, until, unmatched_rows(match, number))

    def arguments_by_rank(self, ranks: list[int]) -> list[tuple[RankWaits]]:
        """Return the waits of the given ranks as arguments for `map_ranks`."""
        return [(self.of_rank(rank),) for rank in ranks]


def unmatched_rows(match: Matching, number: int) -> Rows:
    """Return a trace's communication that is not matched on all ranks of its group."""
    entries, events = match.of_trace[number], match.events[number]
    complete = entries[match.is_complete[match.collective[entries]]]
    is_matched = events.is_single_rank
    is_matched[match.place[complete]] = True
    return events.rows[~is_matched]


def collective_waits(traces: TraceSet, clock: Clock | None = None) -> CollectiveWaits:
    """Return the waits of all ranks; `clock` as in `exposed_waits`."""
    clock = clock or shared_clock(traces)
    match = matching(traces)
    return memo(
        traces,
        ("waits", clock),
        lambda: CollectiveWaits(match, arrival_times(traces, match, clock), clock),
    )


def wait_intervals(part: RankPart, waits: RankWaits) -> tuple[Rows, Ints, Ints]:
    """Return the selected events in which a rank waits, and each wait's start and end."""
    is_selected = part.contains(waits.rows)
    times = waits.begin[is_selected], waits.until[is_selected]
    begin, until = (np.clip(times_ns, part.low, part.high) for times_ns in times)
    return waits.rows[is_selected], begin, until


def _waits_of_rank(part: RankPart, waits: RankWaits) -> tuple[int, int, int, int, int]:
    """Return the values of the columns of `exposed_waits` after ``rank``."""
    compute = part.union_of_kinds("compute")
    communication_ns = total_length(subtract(part.union_of_kinds("communication"), compute))
    alone = np.intersect1d(part.rows_of_kinds("communication"), waits.unmatched)
    unmatched_ns = total_length(subtract(union(*part.clip_rows(alone)), compute))
    if not len(waits.rows):
        return 0, -1, -1, communication_ns, unmatched_ns
    rows, begin, until = wait_intervals(part, waits)
    waiting = union(begin, until)
    exposed_wait_ns = total_length(subtract(waiting, compute))
    return len(rows), total_length(waiting), exposed_wait_ns, communication_ns, unmatched_ns


def exposed_waits_for(waits: CollectiveWaits, is_for_late: Bools) -> dict[int, int]:
    """Return, by rank, the additional time in the given entries due to late ranks.

    This is the time without compute by which collectives end later than if no rank were late. A
    wait may be hidden by compute, unlike the transfer that it delays.
    """
    match = waits.match
    arguments = [
        (waits.of_rank(trace.rank), is_for_late[entries])
        for trace, entries in zip(match.traces, match.of_trace, strict=True)
    ]
    waits_ns = map_ranks(match.traces, _exposed_wait_of_rank, each=arguments)
    return dict(zip((trace.rank for trace in match.traces), waits_ns, strict=True))


def _exposed_wait_of_rank(trace: Trace, waits: RankWaits, is_late: Bools) -> int:
    begin, until, end = waits.begin, waits.until, trace.table.end_ns[waits.rows]
    is_late = is_late & (until > begin)
    delayed = union((begin + end - until)[is_late], end[is_late])
    return total_length(subtract(delayed, computing_intervals(trace)))
