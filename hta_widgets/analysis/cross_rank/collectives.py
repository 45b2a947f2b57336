"""Collectives over all ranks: arrivals, waits and bandwidths, and the lateness of ranks."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal, Unpack

import numpy as np
import pandas as pd

from hta_widgets.analysis.cross_rank.clock_fit import clock_fit, deviation_from_peers
from hta_widgets.analysis.cross_rank.comm_events import (
    OPERATIONS,
    count_unsized,
    operation_codes,
    unsized_note,
)
from hta_widgets.analysis.cross_rank.matching import (
    Matching,
    count_selected,
    matching,
    recorded_shift,
)
from hta_widgets.analysis.scope import (
    Scope,
    categorical,
    device_work_rows,
    host_collectives,
    map_ranks,
    narrow_selection,
    on_hosts_note,
    result_frame,
    with_scope,
)
from hta_widgets.taxonomy import KINDS
from hta_widgets.trace.arrays import Bools, Floats, Ints
from hta_widgets.trace.host_stack import name_mask
from hta_widgets.trace.intervals import CumulativeCoverage, Intervals, intersect, subtract, union
from hta_widgets.trace.memo import memo, memoized
from hta_widgets.trace.trace import Trace
from hta_widgets.trace.traceset import TraceSet

Clock = Literal["host", "fitted"]

#: Collectives whose members state different sizes; the largest is the size of the message.
_ROOTED = operation_codes("gather", "scatter")
#: Collectives in which each link carries 2(n-1)/n of the message, (n-1)/n, or all of it.
_ALL_REDUCE = operation_codes("all_reduce")
_SHARED = operation_codes("reduce_scatter", "all_gather", "all_to_all", "gather", "scatter")
_WHOLE = operation_codes("broadcast", "reduce", "send_recv")


@with_scope
def collectives(
    traces: TraceSet, *, clock: Clock | None = None, **scope: Unpack[Scope]
) -> pd.DataFrame:
    """Return arrival, wait, transfer and bandwidth of each rank in each collective.

    A collective moves data once the last of its ranks has arrived; until then the others wait.
    Events of different ranks are matched by process group and sequence number, or by order, names,
    sizes and times within the group where files have no numbers; sends are matched with their
    receives. Collectives are matched before anything is selected, so the last arrival is the last
    one of all loaded ranks.

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
        Only rows of the selected events are returned; all by default.
    window : (start_ns, end_ns), optional
        Narrows the selection in time; events are not cut at its edges.

    Returns
    -------
    DataFrame
        Sorted by collective, then rank. ``collective`` (int64), from 0 in order of time; ``name``
        (categorical), as the file has it; ``operation`` (categorical), such as ``all_reduce``;
        ``group`` (categorical), the process group's name, with its ranks where names repeat, or the
        stream's, with the ranks of the listed group that it serves if times decide it;
        ``size_bytes`` (int64, -1 unknown); ``rank``, ``id`` and ``step`` (int64) of the device
        event; ``arrival_ns`` and ``end_ns`` (int64), its start and end; ``wait_ns`` (int64), last
        arrival less own arrival; ``transfer_ns`` (int64), own end less last arrival, negative if
        a rank left before the last one arrived; ``last_rank`` (int64), the last to arrive, -1 if
        several arrived at the same time; ``exposed_ns`` (int64), the part of the event in which
        the rank does not compute; ``algbw_gb_s`` and ``busbw_gb_s`` (float64, NaN if unknown);
        ``ranks`` and ``group_size`` (int64), the number of ranks with events, and that of the
        group (-1 unknown).

        ``.attrs["matched"]`` counts selected ``communication`` events, the collectives that are
        ``matched`` on all their ranks or ``partly_matched``, and the events that are ``unmatched``
        or of a group of one rank (``alone``); the note names missing ranks, unknown types of
        elements, and a drift of clocks, which the fitted clock does not correct.
        ``.attrs["clock"]`` is the clock of the times, ``.attrs["matched_by"]`` counts collectives
        by how they were matched.
    """
    chosen = narrow_selection(traces, **scope)
    match = matching(traces)
    name = traces.clock if clock is None else clock
    times = arrival_times(traces, match, name)
    drift = clock_fit(traces).drift_note if name == "fitted" else ""
    kept, matched = count_selected(match, chosen)
    rows = np.flatnonzero(kept)
    size, algorithm, bus = _bandwidths(match, times)
    trace, group = match.trace[rows], match.group[rows]
    names: dict[str, int] = {}
    named = match.event_field("name")
    for mine, events in zip(match.of_trace, match.events, strict=True):
        codes = [names.setdefault(text, len(names)) for text in events.names]
        named[mine] = np.array(codes, dtype=np.int64)[named[mine]]
    return result_frame(
        {
            "collective": match.collective[rows],
            "name": categorical(named[rows], list(names)),
            "operation": categorical(match.event_field("operation")[rows], OPERATIONS),
            "group": categorical(group, [group_.label for group_ in match.groups]),
            "size_bytes": size[rows],
            "rank": np.array(traces.ranks, dtype=np.int64)[trace],
            "id": match.event_field("rows")[rows],
            "step": entry_steps(match)[rows],
            "arrival_ns": times.arrival_ns[rows],
            "wait_ns": times.wait_ns[rows],
            "transfer_ns": (times.end_ns - times.last_ns)[rows],
            "end_ns": times.end_ns[rows],
            "last_rank": times.last_rank[rows],
            "exposed_ns": _exposed_ns(traces, match, times, name)[rows],
            "algbw_gb_s": algorithm[rows],
            "busbw_gb_s": bus[rows],
            "ranks": match.per_entry(match.sizes())[rows],
            "group_size": match.per_entry(match.expected)[rows],
        },
        matched=matched,
        note=[*_matching_notes(match, kept, matched, traces), drift if len(rows) else ""],
        copy=False,
        clock=name,
        matched_by=match.matched_by,
        groups={
            group_.label: {"ranks": list(group_.ranks), "size": group_.size}
            for group_ in match.groups
        },
    )


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


def arrival_times(traces: TraceSet, match: Matching, clock: Clock) -> Arrivals:
    """Return the times at which ranks arrive and leave, on a clock."""
    shifts = np.array([trace.shift_ns for trace in match.traces], dtype=np.int64)
    if clock != traces.clock:
        shifts = np.array([recorded_shift(trace) for trace in match.traces], dtype=np.int64)
        if clock == "fitted":
            fit = clock_fit(traces)
            shifts += fit.origin_offset_ns - fit.offset_ns
    shift_of_entry = shifts[match.trace]
    arrival, end = (
        match.event_field("start_ns") + shift_of_entry,
        match.event_field("end_ns") + shift_of_entry,
    )
    last = match.reduce_per_entry(np.maximum, arrival)
    at_last = arrival == last
    is_shared = match.reduce_per_entry(np.add, at_last.astype(np.int64)) > 1
    ranks = np.array([trace.rank for trace in match.traces], dtype=np.int64)[match.trace]
    latest = match.reduce_per_entry(np.maximum, np.where(at_last, ranks, -1))
    # A rank that has left did not wait for later ones.
    last = np.where(match.event_field("early") == 1, np.minimum(last, end), last)
    return Arrivals(
        shifts, arrival, end, last, np.where(is_shared, -1, latest), at_last & ~is_shared
    )


def entry_steps(match: Matching) -> Ints:
    """Return the step of each entry, -1 for none."""
    steps = np.full(len(match), -1, dtype=np.int64)
    for mine, of_rank in zip(match.of_trace, match.steps, strict=True):
        steps[mine] = of_rank[match.place[mine]]
    return steps


@memoized
def compute_intervals(trace: Trace) -> Intervals:
    """Return the intervals in which a rank's device computes, in its table's times."""
    table = trace.table
    rows = np.flatnonzero((table.kind == KINDS.index("compute")) & (table.stream >= 0))
    start = table.start_ns[rows]
    return union(start, start + table.dur_ns[rows])


@memoized
def _cumulative_compute(trace: Trace) -> CumulativeCoverage:
    """Return the cumulative compute time of a rank, in its table's times."""
    return CumulativeCoverage(*compute_intervals(trace))


def _exposed_ns(traces: TraceSet, match: Matching, times: Arrivals, clock: Clock) -> Ints:
    """Return the part of each entry during which its rank does not compute."""

    def derive() -> Ints:
        each = [
            (times.arrival_ns[mine] - shift, times.end_ns[mine] - shift)
            for mine, shift in zip(match.of_trace, times.shifts_ns.tolist(), strict=True)
        ]
        exposed = times.end_ns - times.arrival_ns
        found = map_ranks(match.traces, compute_time_between, each=each, executor=match.executor)
        for mine, computed in zip(match.of_trace, found, strict=True):
            exposed[mine] -= computed
        return exposed

    return memo(traces, ("exposed", clock), derive)


def compute_time_between(trace: Trace, start_ns: Ints, end_ns: Ints) -> Ints:
    """Return a rank's compute time in each interval of its table's times."""
    covered = _cumulative_compute(trace)
    return covered(end_ns) - covered(start_ns)


def _bandwidths(match: Matching, times: Arrivals) -> tuple[Ints, Floats, Floats]:
    """Return the message's size, and the algorithm's and the bus's bandwidth, in GB/s."""
    size, operation = match.event_field("size_bytes"), match.event_field("operation")
    size = np.where(np.isin(operation, _ROOTED), match.reduce_per_entry(np.maximum, size), size)
    members = match.per_entry(np.where(match.expected > 0, match.expected, match.sizes()))
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


def _matching_notes(
    match: Matching, kept: Bools, matched: dict[str, int], traces: TraceSet
) -> list[str]:
    if not matched["communication"]:
        return ["no communication on a device is selected", on_hosts_note(match.on_hosts)]
    ranks = len(traces)
    parts = []
    if matched["alone"]:
        parts.append(f"{matched['alone']} events are of groups of one rank")
    if matched["unmatched"]:
        parts.append(
            f"{matched['unmatched']} events match none of another rank and are not among the rows"
        )
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
            count_unsized(events, match.place[mine[kept[mine]]])
            for mine, events in zip(match.of_trace, match.events, strict=True)
        )
    )
    return [*parts, on_hosts_note(match.on_hosts)]


#: The parts of a rank's time before it arrives.
PARTS: tuple[str, ...] = ("compute", "waiting", "data_loading", "host", "copies")

# Healthy ranks differ by a few percent, by noise; stragglers cost more than these limits.
_COSTLY_SHARE = 0.05  # of the others' time, on average over many steps
_OF_TWO = 1.5  # factor for two ranks, as each is compared with only one other
_BY_CHANCE = 12.0  # divided by ranks times steps squared: the relative increase of the limit

_DATA_LOADING = re.compile(r"data_?load|DataLoader|data_?iter|next_batch", re.IGNORECASE)
_FOLDERS = re.compile(r"^.*[/\\](?=[^/\\]+\.py\(\d+\): )")


@dataclass(frozen=True, slots=True, eq=False)
class EntryLateness:
    """The lateness of each entry of a `Matching`, and the share that the rank itself causes."""

    late_ns: Floats
    own_share: Floats
    exposed_wait_ns: Ints
    excess_ns: dict[str, Floats]


def costly_share(steps: int, ranks: int, *, sure: bool = True) -> float:
    """Return the minimum share of their time that the others lose to a straggler."""
    # The fewer the steps and ranks, the more often one of them is slowest by chance. With `sure`
    # the limit for one or two steps is so high that chance hardly reaches it.
    few = 1 / steps + (_BY_CHANCE / ranks / steps**2 if sure else 0.0)
    return _COSTLY_SHARE * (1 + few) * (_OF_TWO if ranks == 2 else 1.0)


def entry_lateness(match: Matching, times: Arrivals, step: Ints) -> EntryLateness:
    """Compare each arrival, and the time before it, with the collective's other entries."""
    late = deviation_from_peers(match.collective, times.arrival_ns)
    before = _previous_entries(match, times)
    known = before >= 0
    spent, exposed = _time_before_arrival(match, times, before)
    paid = exposed - deviation_from_peers(match.collective, exposed)
    inherited = _inherited_lateness(match, times, step, late, paid, spent["waiting"])
    share = np.clip(1.0 - inherited / np.maximum(late, 1.0), 0.0, 1.0)
    excess = {
        part: np.where(known, deviation_from_peers(match.collective, spent[part]), np.nan)
        for part in PARTS
    }
    return EntryLateness(late, np.where(late > 0, share, 1.0), exposed, excess)


_NEVER = int(np.iinfo(np.int64).min) // 2


def _previous_entries(match: Matching, times: Arrivals) -> Ints:
    """Return the entry before each one in the same sequence of its rank; -1 for the first."""
    order = np.lexsort((times.arrival_ns, match.lane, match.trace))
    sequences = pd.Series(order).groupby([match.trace[order], match.lane[order]])
    before = np.empty(len(match), dtype=np.int64)
    before[order] = sequences.shift(fill_value=-1)
    return before


def _inherited_lateness(
    match: Matching, times: Arrivals, step: Ints, late: Floats, paid: Floats, waited: Floats
) -> Floats:
    """Return how much of each lateness came from waiting in other groups.

    `paid` is the time in which the others wait for the rank and do not compute.
    """
    # A rank that computes while a collective runs is just as late to the next one, without a wait
    # in between. So inherited lateness is carried on until the others have waited for it, or the
    # rank is not late. Others that run ahead are held up by their next collectives, so it may be
    # more than the lateness.
    order = np.lexsort((times.arrival_ns, step, match.lane, match.trace))
    more = deviation_from_peers(match.collective, waited)[order]
    keys = np.stack([match.trace[order], match.lane[order], step[order]])
    opens = np.ones(len(order), dtype=bool)
    opens[1:] = (keys[:, 1:] != keys[:, :-1]).any(axis=0) | (late[order] <= 0)[:-1]
    # left[c] = max(0, left[c-1] + more[c] - paid[c]) is the sum of all less its least value before.
    gain = more - paid[order]
    total = np.cumsum(gain)
    sums = pd.Series(np.where(opens, np.minimum(total, total - gain), total))
    left = total - sums.groupby(np.cumsum(opens)).cummin().to_numpy()
    inherited = np.empty(len(order))
    inherited[order] = more + np.where(opens, 0, np.roll(left, 1))
    return np.clip(inherited, 0.0, np.maximum(late, 0.0))


def _time_before_arrival(
    match: Matching, times: Arrivals, before: Ints
) -> tuple[dict[str, Floats], Ints]:
    """Return the parts of each rank's time before it arrived, and its waits without computing."""
    spent = {part: np.zeros(len(match)) for part in PARTS}
    exposed = times.wait_ns
    # The parts add up from one arrival to the next, since ranks also work while a collective runs.
    # What the others do during their wait, the last rank may do later; the wait is not a part.
    known = before >= 0
    since = np.where(known, times.arrival_ns[before], times.arrival_ns)
    free = np.where(known, np.minimum(times.last_ns[before], times.arrival_ns), _NEVER)
    each = []
    for number, (mine, events) in enumerate(zip(match.of_trace, match.events, strict=True)):
        shift = times.shifts_ns[number]
        instants = (
            values[mine] - shift for values in (since, free, times.arrival_ns, times.last_ns)
        )
        # The part of it in which the rank waited is unknown, so all of it counts as waiting.
        alone = ~events.is_single_rank
        alone[match.place[mine]] = False
        each.append((*instants, events.start_ns[alone], events.end_ns[alone]))
    found = map_ranks(
        match.traces, _time_before_arrival_of_rank, each=each, executor=match.executor
    )
    for mine, (parts, waited) in zip(match.of_trace, found, strict=True):
        for part, values in zip(PARTS, parts, strict=True):
            spent[part][mine] = values
        exposed[mine] = waited
    return spent, exposed


def _time_before_arrival_of_rank(
    trace: Trace, since: Ints, free: Ints, arrival: Ints, last: Ints, start: Ints, end: Ints
) -> tuple[tuple[Ints, ...], Ints]:
    """Return the parts of a rank's time before it arrived, and its waits without computing.

    Waits count from `free`, the others from `since`; `start` and `end` are the times of
    communication that is not matched.
    """
    loading, talking, idle = _idle_causes(trace)
    waits = union(np.concatenate([arrival, start]), np.concatenate([last, end]))
    waiting = CumulativeCoverage(*subtract(waits, compute_intervals(trace)))
    waited = waiting(arrival) - waiting(free) + talking(arrival) - talking(free)
    others = (of(arrival) - of(since) for of in (loading, idle, _copy_only_intervals(trace)))
    computed = compute_time_between(trace, since, arrival)
    exposed = last - arrival - compute_time_between(trace, arrival, last)
    return (computed, waited, *others), exposed


@lru_cache(maxsize=1 << 14)
def is_data_loading_name(name: str) -> bool:
    """Return whether a name, without folders of Python files, is that of a data-loading event."""
    return _DATA_LOADING.search(_FOLDERS.sub("", name)) is not None


@memoized
def _copy_only_intervals(trace: Trace) -> CumulativeCoverage:
    """Return the time in which a rank's device copies and does not compute."""
    table = trace.table
    rows = np.flatnonzero((table.kind == KINDS.index("memory")) & (table.stream >= 0))
    start = table.start_ns[rows]
    return CumulativeCoverage(
        *subtract(union(start, start + table.dur_ns[rows]), compute_intervals(trace))
    )


@memoized
def _idle_causes(trace: Trace) -> tuple[CumulativeCoverage, CumulativeCoverage, CumulativeCoverage]:
    """Return the device's idle time while the host loads data, communicates, and the rest."""
    table = trace.table
    end = table.start_ns + table.dur_ns
    busy = device_work_rows(trace)
    whole = Intervals.empty()
    if len(table):
        whole = union(table.start_ns[:1], end.max(keepdims=True))
    idle = subtract(whole, union(table.start_ns[busy], end[busy]))
    loads = name_mask(trace, is_data_loading_name)
    loading = intersect(idle, union(table.start_ns[loads], end[loads]))
    calls, rest = host_collectives(trace), subtract(idle, loading)
    talking = intersect(rest, union(table.start_ns[calls], end[calls]))
    return (
        CumulativeCoverage(*loading),
        CumulativeCoverage(*talking),
        CumulativeCoverage(*subtract(rest, talking)),
    )
