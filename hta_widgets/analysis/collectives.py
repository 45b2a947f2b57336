"""When each rank came to each collective, how long it waited there, and how fast data moved."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt
import pandas as pd

from hta_widgets.errors import TraceError
from hta_widgets.trace.table import KINDS
from hta_widgets.trace.selection import Selection
from hta_widgets.trace.trace import Trace
from hta_widgets.trace.traceset import TraceSet
from hta_widgets.trace.derived import derived
from hta_widgets.trace.derived import derived_by_rules
from hta_widgets.trace.intervals import Covered
from hta_widgets.trace.intervals import union
from hta_widgets.trace.turns import rest

from hta_widgets.analysis.clock_offsets import clock_fit
from hta_widgets.analysis.collective_args import OPERATIONS
from hta_widgets.analysis.collective_args import unsized
from hta_widgets.analysis.collective_args import unsized_note
from hta_widgets.analysis.matching import Matching
from hta_widgets.analysis.matching import counted
from hta_widgets.analysis.matching import matching
from hta_widgets.analysis.matching import recorded_shift
from hta_widgets.analysis.over_ranks import over_ranks
from hta_widgets.analysis.results import categorical
from hta_widgets.analysis.results import result
from hta_widgets.analysis.scope import narrowed
from hta_widgets.analysis.scope import on_hosts_note

__all__ = ["Arrivals", "Clock", "arrivals", "collectives", "covered_by_compute"]

Ints = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]
Clock = Literal["host", "fitted"]

#: Members give or take different amounts, and only the largest is the message.
_ROOTED = [OPERATIONS.index(name) for name in ("gather", "scatter")]


def collectives(
    traces: TraceSet,
    *,
    clock: Clock | None = None,
    selection: Selection | None = None,
    window: tuple[int, int] | None = None,
    ranks: Iterable[int] | None = None,
) -> pd.DataFrame:
    """Return one row per collective and rank: when it came, how long it waited, how fast it was.

    A collective moves data once the last of its ranks has arrived; until then the others wait.
    Events of different ranks are matched by process group and sequence number, or by order, names,
    sizes and times within the group where files have no numbers; sends are matched with their
    receives. Whole collectives are matched before anything is selected, so the last arrival is
    that of all ranks whose files are there.

    Bandwidths are those of nccl-tests: the algorithm's is ``size / time``, the bus's multiplies
    with what each link has to carry: ``2(n-1)/n`` for all-reduce, ``(n-1)/n`` for all-gather,
    reduce-scatter, all-to-all, gather and scatter, 1 for broadcast, reduce and send-receive. Size
    is the larger of a rank's input and output; time is the transfer, without the wait.

    Parameters
    ----------
    traces : TraceSet
    clock : {"host", "fitted"}, optional
        Whose times: as recorded, or as `TraceSet.with_clock` moves them. Default: those of the
        set.
    selection : Selection, optional
        Rows are returned of the events selected; all by default.
    window : (start_ns, end_ns), optional
        Narrows the selection in time. Rows are whole: nothing is cut at its edges.
    ranks : iterable of int, optional
        Narrows the selection to these ranks.

    Returns
    -------
    DataFrame
        Sorted by collective, then rank. ``collective`` (int64), from 0 in order of time; ``name``
        (categorical), as the file has it; ``operation`` (categorical), such as ``all_reduce``;
        ``group`` (categorical), the process group's name, with its ranks where names repeat;
        ``size_bytes`` (int64, -1 unknown); ``rank``, ``id`` and ``step`` (int64) of the device
        event; ``arrival_ns`` and ``end_ns`` (int64), its start and end; ``wait_ns`` (int64), last
        arrival less own arrival; ``transfer_ns`` (int64), own end less last arrival, negative where
        a rank left before the last one came; ``last_rank`` (int64), who came last, -1 where
        several did at once; ``exposed_ns`` (int64), how long the event ran while the rank computed
        nothing; ``algbw_gb_s`` and ``busbw_gb_s`` (float64, NaN where unknown); ``ranks`` and
        ``group_size`` (int64), how many ranks' events there are, and how many the group has
        (-1 unknown).

        ``.attrs["matched"]`` counts selected ``communication`` events, and collectives that are
        ``matched`` on all their ranks, ``partly_matched``, ``unmatched`` (one rank's event alone),
        and of one rank (``alone``); the note says what is missing, and which types
        of elements are not known. ``.attrs["clock"]`` says whose
        times these are, ``.attrs["matched_by"]`` what collectives were matched by.

    Raises
    ------
    TraceError
        For an unknown clock.

    Examples
    --------
    >>> traces = hw.load("runs/job")  # doctest: +SKIP
    >>> frame = collectives(traces, clock="fitted")  # doctest: +SKIP
    >>> frame.groupby("last_rank").wait_ns.sum()  # doctest: +SKIP
    """
    chosen = narrowed(traces, selection, window, ranks)
    match = matching(traces)
    name = traces.clock if clock is None else clock
    times = arrivals(traces, match, name)
    kept, matched = counted(match, chosen)
    rows = np.flatnonzero(kept)
    size, algorithm, bus = _bandwidths(match, times)
    trace, group = match.trace[rows], match.group[rows]
    names: dict[str, int] = {}
    lookup = [
        np.array([names.setdefault(text, len(names)) for text in one.names], dtype=np.int64)
        for one in match.events
    ]
    named = match.taken("name")
    for number, codes in enumerate(lookup):
        mine = match.of_trace[number]
        named[mine] = codes[named[mine]]
    return result(
        {
            "collective": match.collective[rows],
            "name": categorical(named[rows], list(names)),
            "operation": categorical(match.taken("operation")[rows], OPERATIONS),
            "group": categorical(group, [one.label for one in match.groups]),
            "size_bytes": size[rows],
            "rank": np.array(traces.ranks, dtype=np.int64)[trace],
            "id": match.taken("rows")[rows],
            "step": steps_of(match)[rows],
            "arrival_ns": times.arrival_ns[rows],
            "wait_ns": times.wait_ns[rows],
            "transfer_ns": (times.end_ns - times.last_ns)[rows],
            "end_ns": times.end_ns[rows],
            "last_rank": times.last_rank[rows],
            "exposed_ns": _exposed(traces, match, times, name)[rows],
            "algbw_gb_s": algorithm[rows],
            "busbw_gb_s": bus[rows],
            "ranks": match.each(match.sizes())[rows],
            "group_size": match.each(match.expected)[rows],
        },
        matched=matched,
        note=_note(match, kept, matched, traces),
        copy=False,
        clock=name,
        matched_by=match.matched_by,
        groups={one.label: {"ranks": list(one.ranks), "size": one.size} for one in match.groups},
    )


# --- times ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class Arrivals:
    """Times of the entries of a `Matching`, on one clock.

    Attributes
    ----------
    shifts_ns : array of int
        By position in the set: what was added to the times of tables.
    arrival_ns, end_ns : array of int
    last_ns : array of int
        When the last rank of the entry's collective arrived; where ranks may leave before that,
        no later than the entry's end.
    last_rank : array of int
        Which one that was; -1 where several arrived at once.
    is_last : array of bool
        Whether the entry is that of the last rank, alone.
    """

    shifts_ns: Ints
    arrival_ns: Ints
    end_ns: Ints
    last_ns: Ints
    last_rank: Ints
    is_last: Flags

    @property
    def wait_ns(self) -> Ints:
        """From each arrival to the last."""
        return self.last_ns - self.arrival_ns


def arrivals(traces: TraceSet, match: Matching, clock: Clock) -> Arrivals:
    """Return when ranks arrive and leave, on the clock asked for."""
    if clock not in {"host", "fitted"}:
        raise TraceError(
            f"there is no clock {clock!r}", remedy='The clocks are "host" and "fitted".'
        )
    shifts = np.array([trace.shift_ns for trace in match.traces], dtype=np.int64)
    if clock != traces.clock:
        shifts = np.array([recorded_shift(trace) for trace in match.traces], dtype=np.int64)
        if clock == "fitted":
            fit = clock_fit(traces)
            shifts += fit.lift_ns - fit.offset_ns
    own = shifts[match.trace]
    arrival = match.taken("start_ns") + own
    end = match.taken("end_ns") + own
    if not len(match):
        return Arrivals(shifts, arrival, end, arrival, arrival, np.zeros(0, dtype=bool))
    last = match.each(np.maximum.reduceat(arrival, match.starts))
    at_last = arrival == last
    several = match.each(np.add.reduceat(at_last.astype(np.int64), match.starts)) > 1
    ranks = np.array([trace.rank for trace in match.traces], dtype=np.int64)[match.trace]
    who = match.each(np.maximum.reduceat(np.where(at_last, ranks, -1), match.starts))
    # Who has left did not wait for those that came later.
    last = np.where(match.taken("early") == 1, np.minimum(last, end), last)
    return Arrivals(shifts, arrival, end, last, np.where(several, -1, who), at_last & ~several)


def steps_of(match: Matching) -> Ints:
    """Return the step of each entry, -1 for none."""
    steps = np.full(len(match), -1, dtype=np.int64)
    for mine, of_rank in zip(match.of_trace, match.steps, strict=True):
        steps[mine] = of_rank[match.place[mine]]
    return steps


@derived_by_rules("covered_by_compute")
def covered_by_compute(trace: Trace) -> Covered:
    """Return how long a rank has computed before any instant of its table."""
    table = trace.table
    rows = np.flatnonzero((table.kind == KINDS.index("compute")) & (table.stream >= 0))
    start = table.start_ns[rows]
    return Covered(*union(start, start + table.dur_ns[rows]))


def _exposed(traces: TraceSet, match: Matching, times: Arrivals, clock: Clock) -> Ints:
    """Return how long each entry ran while its rank computed nothing."""

    def derive() -> tuple[Ints, Ints]:
        each = [
            (times.arrival_ns[mine] - shift, times.end_ns[mine] - shift)
            for mine, shift in zip(match.of_trace, times.shifts_ns.tolist(), strict=True)
        ]
        exposed = times.end_ns - times.arrival_ns
        found = over_ranks(match.traces, computed_between, each=each, executor=match.executor)
        for mine, computed in zip(match.of_trace, found, strict=True):
            exposed[mine] -= computed
        return match.collective, exposed

    # The very same entries: others mean that kinds were told by other rules.
    _, exposed = derived(
        traces, ("exposed", clock), derive, lambda known: known[0] is match.collective
    )
    return exposed


def computed_between(trace: Trace, start_ns: Ints, end_ns: Ints) -> Ints:
    """Return how long a rank computes in each interval of its table's times."""
    covered = covered_by_compute(trace)
    computed: Ints = covered(end_ns) - covered(start_ns)
    return computed


# --- bandwidth ------------------------------------------------------------------------------------


def _bandwidths(
    match: Matching, times: Arrivals
) -> tuple[Ints, npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Return the message's size, and the algorithm's and the bus's bandwidth, in GB/s."""
    size, operation = match.taken("size_bytes"), match.taken("operation")
    if len(match):
        largest = match.each(np.maximum.reduceat(size, match.starts))
        size = np.where(np.isin(operation, _ROOTED), largest, size)
    members = match.each(np.where(match.expected > 0, match.expected, match.sizes()))
    share = (members - 1) / np.maximum(members, 1)
    factors = {
        "all_reduce": 2 * share,
        "reduce_scatter": share,
        "all_gather": share,
        "all_to_all": share,
        "gather": share,
        "scatter": share,
        "broadcast": np.ones(len(match)),
        "reduce": np.ones(len(match)),
        "send_recv": np.ones(len(match)),
    }
    factor = np.full(len(match), np.nan)
    for name, values in factors.items():
        mine = operation == OPERATIONS.index(name)
        factor[mine] = values[mine]
        rest()
    transfer = times.end_ns - times.last_ns
    known = (size > 0) & (transfer > 0)
    # Bytes per nanosecond are 10^9 bytes per second.
    algorithm = np.full(len(match), np.nan)
    algorithm[known] = size[known] / transfer[known]
    return size, algorithm, algorithm * factor


# --- what is missing -----------------------------------------------------------------------------


def _note(match: Matching, kept: Flags, matched: dict[str, int], traces: TraceSet) -> str:
    if not matched["communication"]:
        none = "no communication on a device is selected"
        return "; ".join(filter(None, [none, on_hosts_note(traces.values())]))
    ranks = len(traces)
    parts = []
    if matched["alone"]:
        parts.append(f"{matched['alone']} events are of groups of one rank")
    if matched["unmatched"]:
        parts.append(f"{matched['unmatched']} events are on one rank only and not among the rows")
    if matched["partly_matched"]:
        parts.append(
            f"{matched['partly_matched']} collectives lack events of some of their ranks, which"
            " may have come later than the last one here"
        )
    if match.missing_ranks:
        parts.append(
            f"files of {match.missing_ranks} of {match.missing_ranks + ranks} ranks are missing"
        )
    parts.append(
        unsized_note(
            unsized(events, match.place[mine[kept[mine]]])
            for mine, events in zip(match.of_trace, match.events, strict=True)
        )
    )
    return "; ".join(filter(None, parts))
