"""Collectives over all ranks: arrivals, waits and bandwidths."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Unpack

import numpy as np
import pandas as pd

from hta_widgets.analysis.clocks import clock_fit
from hta_widgets.analysis.comm_events import OPERATIONS, operation_codes, unsized, unsized_note
from hta_widgets.analysis.matching import Matching, counted, matching, recorded_shift
from hta_widgets.analysis.scope import (
    Scope,
    categorical,
    narrowed,
    on_hosts_note,
    over_ranks,
    result,
    scoped,
)
from hta_widgets.taxonomy import KINDS
from hta_widgets.trace.arrays import Bools, Floats, Ints
from hta_widgets.trace.intervals import Covered, Intervals, union
from hta_widgets.trace.memo import memo, memoized
from hta_widgets.trace.trace import Trace
from hta_widgets.trace.traceset import TraceSet

Clock = Literal["host", "fitted"]

#: Collectives whose members have different sizes; the largest is that of the message.
_ROOTED = operation_codes("gather", "scatter")
#: Collectives in which each link carries 2(n-1)/n of the message, (n-1)/n, or all of it.
_ALL_REDUCE = operation_codes("all_reduce")
_SHARED = operation_codes("reduce_scatter", "all_gather", "all_to_all", "gather", "scatter")
_WHOLE = operation_codes("broadcast", "reduce", "send_recv")


@scoped
def collectives(
    traces: TraceSet, *, clock: Clock | None = None, **scope: Unpack[Scope]
) -> pd.DataFrame:
    """Return arrival, wait, transfer and bandwidth of each rank in each collective.

    A collective moves data once the last of its ranks has arrived; until then the others wait.
    Events of different ranks are matched by process group and sequence number, or by order, names,
    sizes and times within the group where files have no numbers; sends are matched with their
    receives. Whole collectives are matched before anything is selected, so the last arrival is
    that of all ranks whose files are there.

    Bandwidths are defined as in nccl-tests: the algorithm's is ``size / time``, the bus's
    multiplies it by the part that each link carries: ``2(n-1)/n`` for all-reduce, ``(n-1)/n`` for
    all-gather, reduce-scatter, all-to-all, gather and scatter, 1 for broadcast, reduce and
    send-receive. Size is the larger of a rank's input and output; time is the transfer, without
    the wait.

    Parameters
    ----------
    clock : {"host", "fitted"}, optional
        The clock of the times, see `TraceSet.with_clock`. Default: that of the set.
    selection : Selection, optional
        Rows are returned of the selected events; all by default.
    window : (start_ns, end_ns), optional
        Narrows the selection in time; events are not cut at its edges.

    Returns
    -------
    DataFrame
        Sorted by collective, then rank. ``collective`` (int64), from 0 in order of time; ``name``
        (categorical), as the file has it; ``operation`` (categorical), such as ``all_reduce``;
        ``group`` (categorical), the process group's name, with its ranks where names repeat;
        ``size_bytes`` (int64, -1 unknown); ``rank``, ``id`` and ``step`` (int64) of the device
        event; ``arrival_ns`` and ``end_ns`` (int64), its start and end; ``wait_ns`` (int64), last
        arrival less own arrival; ``transfer_ns`` (int64), own end less last arrival, negative if
        a rank left before the last one arrived; ``last_rank`` (int64), the last to arrive, -1 if
        several arrived at the same time; ``exposed_ns`` (int64), the part of the event without
        compute of the rank; ``algbw_gb_s`` and ``busbw_gb_s`` (float64, NaN if unknown);
        ``ranks`` and ``group_size`` (int64), the number of ranks with events, and that of the
        group (-1 unknown).

        ``.attrs["matched"]`` counts selected ``communication`` events, and collectives that are
        ``matched`` on all their ranks, ``partly_matched``, ``unmatched`` (one rank's event alone),
        and of one rank (``alone``); the note names missing ranks and unknown types of elements.
        ``.attrs["clock"]`` is the clock of the times, ``.attrs["matched_by"]`` counts collectives
        by how they were matched.
    """
    chosen = narrowed(traces, **scope)
    match = matching(traces)
    name = traces.clock if clock is None else clock
    times = arrivals(traces, match, name)
    kept, matched = counted(match, chosen)
    rows = np.flatnonzero(kept)
    size, algorithm, bus = _bandwidths(match, times)
    trace, group = match.trace[rows], match.group[rows]
    names: dict[str, int] = {}
    named = match.taken("name")
    for mine, events in zip(match.of_trace, match.events, strict=True):
        codes = [names.setdefault(text, len(names)) for text in events.names]
        named[mine] = np.array(codes, dtype=np.int64)[named[mine]]
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
        note=_notes(match, kept, matched, traces),
        copy=False,
        clock=name,
        matched_by=match.matched_by,
        groups={one.label: {"ranks": list(one.ranks), "size": one.size} for one in match.groups},
    )


# --- times ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class Arrivals:
    """Times of the entries of a `Matching`, on one clock."""

    shifts_ns: Ints
    arrival_ns: Ints
    end_ns: Ints
    last_ns: Ints
    last_rank: Ints
    is_last: Bools

    @property
    def wait_ns(self) -> Ints:
        """Time from each arrival to the last."""
        return self.last_ns - self.arrival_ns


def arrivals(traces: TraceSet, match: Matching, clock: Clock) -> Arrivals:
    """Return the times at which ranks arrive and leave, on a clock."""
    shifts = np.array([trace.shift_ns for trace in match.traces], dtype=np.int64)
    if clock != traces.clock:
        shifts = np.array([recorded_shift(trace) for trace in match.traces], dtype=np.int64)
        if clock == "fitted":
            fit = clock_fit(traces)
            shifts += fit.lift_ns - fit.offset_ns
    own = shifts[match.trace]
    arrival, end = match.taken("start_ns") + own, match.taken("end_ns") + own
    last = match.spread(np.maximum, arrival)
    at_last = arrival == last
    is_shared = match.spread(np.add, at_last.astype(np.int64)) > 1
    ranks = np.array([trace.rank for trace in match.traces], dtype=np.int64)[match.trace]
    latest = match.spread(np.maximum, np.where(at_last, ranks, -1))
    # A rank that has left did not wait for later ones.
    last = np.where(match.taken("early") == 1, np.minimum(last, end), last)
    return Arrivals(
        shifts, arrival, end, last, np.where(is_shared, -1, latest), at_last & ~is_shared
    )


def steps_of(match: Matching) -> Ints:
    """Return the step of each entry, -1 for none."""
    steps = np.full(len(match), -1, dtype=np.int64)
    for mine, of_rank in zip(match.of_trace, match.steps, strict=True):
        steps[mine] = of_rank[match.place[mine]]
    return steps


@memoized
def compute_of(trace: Trace) -> Intervals:
    """Return the intervals in which a rank's device computes, by times of its table."""
    table = trace.table
    rows = np.flatnonzero((table.kind == KINDS.index("compute")) & (table.stream >= 0))
    start = table.start_ns[rows]
    return union(start, start + table.dur_ns[rows])


@memoized
def _covered_by_compute(trace: Trace) -> Covered:
    """Return the cumulative compute time of a rank, by times of its table."""
    return Covered(*compute_of(trace))


def _exposed(traces: TraceSet, match: Matching, times: Arrivals, clock: Clock) -> Ints:
    """Return the part of each entry during which its rank does not compute."""

    def derive() -> Ints:
        each = [
            (times.arrival_ns[mine] - shift, times.end_ns[mine] - shift)
            for mine, shift in zip(match.of_trace, times.shifts_ns.tolist(), strict=True)
        ]
        exposed = times.end_ns - times.arrival_ns
        found = over_ranks(match.traces, computed_between, each=each, executor=match.executor)
        for mine, computed in zip(match.of_trace, found, strict=True):
            exposed[mine] -= computed
        return exposed

    return memo(traces, ("exposed", clock), derive)


def computed_between(trace: Trace, start_ns: Ints, end_ns: Ints) -> Ints:
    """Return a rank's compute time in each interval of its table's times."""
    covered = _covered_by_compute(trace)
    return covered(end_ns) - covered(start_ns)


# --- bandwidth ------------------------------------------------------------------------------------


def _bandwidths(match: Matching, times: Arrivals) -> tuple[Ints, Floats, Floats]:
    """Return the message's size, and the algorithm's and the bus's bandwidth, in GB/s."""
    size, operation = match.taken("size_bytes"), match.taken("operation")
    size = np.where(np.isin(operation, _ROOTED), match.spread(np.maximum, size), size)
    members = match.each(np.where(match.expected > 0, match.expected, match.sizes()))
    share = (members - 1) / np.maximum(members, 1)
    factor = np.select(
        [np.isin(operation, codes) for codes in (_ALL_REDUCE, _SHARED, _WHOLE)],
        [2 * share, share, np.ones(len(match))],
        np.nan,
    )
    transfer = times.end_ns - times.last_ns
    known = (size > 0) & (transfer > 0)
    # Bytes per nanosecond are 10^9 bytes per second.
    algorithm = np.full(len(match), np.nan)
    algorithm[known] = size[known] / transfer[known]
    return size, algorithm, algorithm * factor


# --- what is missing -----------------------------------------------------------------------------


def _notes(match: Matching, kept: Bools, matched: dict[str, int], traces: TraceSet) -> list[str]:
    if not matched["communication"]:
        return ["no communication on a device is selected", on_hosts_note(traces.values())]
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
    return parts
