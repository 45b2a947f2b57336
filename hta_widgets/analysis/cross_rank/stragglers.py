"""Waits in collectives, and the ranks that cause them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple, Unpack

import numpy as np
import numpy.typing as npt
import pandas as pd

from hta_widgets.analysis.cross_rank.clock_fit import clock_fit
from hta_widgets.analysis.cross_rank.collectives import (
    PARTS,
    Arrivals,
    Clock,
    EntryLateness,
    arrival_times,
    compute_intervals,
    costly_share,
    entry_lateness,
    entry_steps,
)
from hta_widgets.analysis.cross_rank.matching import (
    Matching,
    count_selected,
    loaded_ranks,
    matching,
    selected_ranks,
)
from hta_widgets.analysis.scope import (
    DEVICE_WORK_KINDS,
    RankPart,
    Scope,
    columns_of_rows,
    count_by_kind,
    map_ranks,
    narrow_selection,
    on_hosts_note,
    rank_parts,
    result_frame,
    with_scope,
)
from hta_widgets.facts import note_text
from hta_widgets.readers.formats import format_hooks
from hta_widgets.taxonomy import KINDS
from hta_widgets.text import plural
from hta_widgets.trace.arrays import Array, Bools, Floats, Ints, Rows, mask_of_rows
from hta_widgets.trace.intervals import subtract, total_length, union
from hta_widgets.trace.memo import memo
from hta_widgets.trace.selection import Selection
from hta_widgets.trace.trace import Trace
from hta_widgets.trace.traceset import TraceSet

# Limits of a straggler, in addition to `costly_share`.
_CONSISTENT_SHARE = 0.8  # of the costly share, in the median step
_STAND_OUT = 2.0  # times the share of the typical other rank
_STALL = 0.25  # of a step: one such step is more than noise
_WORTH_NAMING = 0.02  # of the others' time, on average, if only some steps are slow
_EXPLAINS = 0.25  # of the lost time, for a cause
_MIN_RATIO = 1.005  # times the kernels or their duration on the others
_MIN_COLLECTIVES = 4  # ranks with fewer are not judged

# Limits for naming a rank that is not a straggler.
_NEARLY_ALWAYS_SHARE = 0.9  # share of a rank's collectives at which it is last
_WORTH_SAYING = 0.01  # share of the run that the others wait for it on average

_CAUSES = {
    "waiting": "waiting elsewhere",
    "data_loading": "data loading",
    "host": "launch-bound host",
    "compute": "slower kernels",
    "copies": "memory copies",
}
_NOT_MATCHED = "which are not matched: time in them is a wait, and the late rank is unknown"
_EXTRA_WORK = "extra work"
_HOST_WORK = "host work"


@with_scope
def exposed_waits(
    traces: TraceSet, *, clock: Clock | None = None, **scope: Unpack[Scope]
) -> pd.DataFrame:
    """Return each rank's time in collectives before the last of their ranks arrives.

    A rank waits in a collective from its own arrival to that of the last rank, or to the end of
    its own event if that is earlier; the last rank is found before anything is selected, as
    in `collectives`. The wait is *exposed* while no selected compute kernel of the rank runs: it
    is the part of ``exposed_communication_ns`` of `temporal_breakdown` before data can move.
    Waits in collectives that overlap count once.

    Parameters
    ----------
    ranks : iterable of int, optional
        Narrows the selection to these ranks. Any rank may be the last to arrive.

    Returns
    -------
    DataFrame
        One row per selected rank, all int64:

        - ``rank``
        - ``collectives``: selected events of the rank that are matched with other ranks'
        - ``wait_ns``: time in any wait; ``exposed_wait_ns``: the same without compute
        - ``exposed_communication_ns``: all communication without compute;
          ``unmatched_exposed_ns``: the part in events that are not matched on all ranks of their
          group, whose waits are not fully known

        ``wait_ns`` and ``exposed_wait_ns`` are -1 if no communication of the rank, selected or
        not, is matched. ``.attrs["clock"]`` is the clock of the arrivals.
    """
    chosen = rank_parts(traces, **scope)
    waits = collective_waits(traces, clock)
    found = list(map_ranks(chosen, _waits_of_rank, each=waits.arguments_by_rank(chosen.ranks)))
    times = np.array(found, dtype=np.int64).reshape(-1, 5)
    ranks = np.array(chosen.ranks, dtype=np.int64)
    unknown = ranks[times[:, 1] < 0].tolist()
    note = "" if len(chosen) else note_text("no_ranks")
    if unknown:
        of = f" of rank{'s' * (len(unknown) > 1)} {', '.join(map(str, unknown))}"
        of = "" if len(unknown) == len(chosen) else of
        note = f"no communication{of} is matched with other ranks', so waits are not known"
    names = "rank collectives wait_ns exposed_wait_ns exposed_communication_ns unmatched_exposed_ns"
    return result_frame(
        columns_of_rows(np.column_stack([ranks, times]).tolist(), names),
        matched={**count_by_kind(chosen, DEVICE_WORK_KINDS[:2]), "matched": int(times[:, 0].sum())},
        note=note,
        clock=waits.clock,
    )


@with_scope
def stragglers(
    traces: TraceSet, *, clock: Clock | None = None, **scope: Unpack[Scope]
) -> pd.DataFrame:
    """Return how often each rank is last at collectives, the cost, and the cause.

    The rank that arrives last at a matched collective (`collectives`) makes the others wait. Some
    rank is always last; a straggler is last more often than by chance, and at a cost that matters.
    The measure is time lost: waits of the others without compute, as a share of
    their time, per step. A rank is a consistent straggler if it costs them 5 % on average over
    many steps, nearly as much in the median step, and twice as much as the typical rank. With few
    steps and ranks the limit is higher, 5 % times 1 + 1 / steps + 12 / (ranks · steps²), and half
    as much again for two ranks, each compared with the other alone. A rank is an occasional
    straggler if it stalls them for a quarter of a step's time in some steps. Lateness that a rank
    inherits by waiting, without compute, in another group, such as for its neighbour in tensor
    parallelism or for the stage before it, is not counted against it. A rank is never a straggler
    if a file is missing from one of its groups, because the late rank may be the missing one, or if
    it has fewer than four collectives with events of all their ranks; others are left out of the
    verdict for the same reason.

    The cause is the part of the time from the arrival at the previous collective of the group to
    this arrival that exceeds the median of the other ranks most: kernels that are slower or more
    numerous; waits in other collectives, and communication without a partner or on the host (Gloo),
    whose waits are unknown; time in which the device idles while the host loads data; other idle
    time, due to a slow host; or copies without compute. It is not stated if it is less than a
    quarter of the time that each of the others loses.

    Parameters
    ----------
    selection : Selection, optional
        Only collectives with a selected event count.
    ranks : iterable of int, optional
        Only these ranks are returned; the waits that they cause are counted over all.

    Returns
    -------
    DataFrame
        One row per rank. ``rank`` (int64); ``host`` (str); ``collectives`` (int64), the number of
        matched ones it takes part in; ``score`` (float64), the share of them at which it is the
        only last rank; ``late_ns_mean`` (float64), its arrival less the median arrival, on average;
        ``imposed_wait_ns`` (int64), the others' waits in collectives at which it is last, added up
        (if several ranks are last, the lowest is charged); ``wait_ns`` (int64), its own waits;
        ``lost_ns`` (int64), the imposed waits without compute, less the inherited share;
        ``lost_share`` (float64), the share of their time that the others lose, over all steps;
        ``is_straggler`` (bool); ``pattern`` (``"consistent"``, ``"occasional"`` or ``""``);
        ``cause`` (``"slower kernels"``, ``"extra work"``, ``"launch-bound host"``, ``"host work"``
        if no rank has a device, ``"data loading"``, ``"memory copies"``, ``"waiting elsewhere"``
        or ``""``); ``late_compute_ns, late_waiting_ns, late_data_loading_ns, late_host_ns,
        late_copies_ns`` (int64), by how much each took longer than on the others, over the
        collectives at which the rank is last.

        Ranks with inherited lateness are not stragglers and have the cause ``"waiting
        elsewhere"``. ``.attrs["clock"]`` is the clock of the arrivals, ``.attrs["matched"]`` as in
        `collectives`.
    """
    chosen = narrow_selection(traces, **scope)
    work = imposed_waits(traces, chosen, clock)
    match, times, kept = work.match, work.times, work.is_kept
    taken = work.of_ranks(kept)
    middle = pd.Series(times.arrival_ns).groupby(match.collective).transform("median").to_numpy()
    excess = {
        part: work.of_ranks(np.where(work.is_charged, np.nan_to_num(values), 0.0))
        for part, values in work.late.excess_ns.items()
    }
    # The last recorded rank of a collective may have waited for a rank that has no event there.
    shares, raw = step_shares(work, complete=True)
    step_ns = work.step_ns()
    pattern, likely = _patterns(shares, step_ns), _patterns(shares, step_ns, sure=False)
    inherited = (likely == "") & (_patterns(raw, step_ns, sure=False) != "")
    # The last loaded rank may have waited for a rank whose file is missing.
    unsure = np.array(match.incomplete, dtype=bool) | (work.complete() < _MIN_COLLECTIVES)
    pattern[unsure] = ""
    cause = np.where(inherited & ~unsure, _CAUSES["waiting"], "").astype(object)
    named = np.flatnonzero(pattern != "")
    # Nothing is known of the time before the first collective of a group.
    known = np.where(np.isnan(work.late.excess_ns["host"]), 0, work.lost_ns)
    cause[named] = _causes(traces, excess, named, work.of_ranks(known) / work.companions())
    columns = {
        "rank": np.array(traces.ranks, dtype=np.int64),
        "host": np.array([header.host for header in match.headers], dtype=object),
        "collectives": taken,
        "score": work.of_ranks(work.is_alone) / np.maximum(taken, 1),
        "late_ns_mean": work.of_ranks(np.where(kept, times.arrival_ns - middle, 0.0))
        / np.maximum(taken, 1),
        "imposed_wait_ns": work.of_ranks(work.imposed_ns),
        "wait_ns": work.of_ranks(np.where(kept, times.wait_ns, 0)),
        "lost_ns": work.of_ranks(work.lost_ns),
        "lost_share": np.nan_to_num(mean_share(step_shares(work)[0], step_ns)),
        "is_straggler": pattern != "",
        "pattern": pattern,
        "cause": cause,
        **{f"late_{part}_ns": np.rint(values).astype(np.int64) for part, values in excess.items()},
    }
    shown = selected_ranks(traces, chosen) if len(match) else slice(0)
    return result_frame(
        {name: values[shown] for name, values in columns.items()},
        matched=work.matched,
        note=_straggler_notes(work),
        clock=work.clock,
    )


@with_scope
def stragglers_by_step(
    traces: TraceSet, *, clock: Clock | None = None, **scope: Unpack[Scope]
) -> pd.DataFrame:
    """Return the numbers of `stragglers` step by step.

    Definitions are as in `stragglers`. If the trace has no steps, the run is cut into as many
    stretches as its rarest collective has occurrences.

    Returns
    -------
    DataFrame
        One row per rank and step with matched collectives. ``rank`` (int64); ``step`` (int64), n
        of ``ProfilerStep#n``, or the stretch's number (see ``.attrs["steps"]``); ``collectives``
        (int64); ``score`` (float64); ``imposed_wait_ns`` and ``lost_ns`` (int64); ``lost_share``
        (float64).
    """
    chosen = narrow_selection(traces, **scope)
    work = imposed_waits(traces, chosen, clock)
    taken, lost = work.sums(work.is_kept), work.sums(work.lost_ns)
    share = lost / work.time_of_others()
    rank, step = np.nonzero((taken > 0).T & selected_ranks(traces, chosen)[:, None])
    columns = {
        "collectives": taken,
        "score": work.sums(work.is_alone) / np.maximum(taken, 1),
        "imposed_wait_ns": work.sums(work.imposed_ns),
        "lost_ns": lost,
        "lost_share": share,
    }
    return result_frame(
        {
            "rank": np.array(traces.ranks, dtype=np.int64)[rank],
            "step": work.steps[step],
            **{name: values[step, rank] for name, values in columns.items()},
        },
        matched=work.matched,
        note=_straggler_notes(work),
        clock=work.clock,
        steps="ProfilerStep" if work.stated_steps else "stretches",
    )


# --- waits ----------------------------------------------------------------------------------------


class RankWaits(NamedTuple):
    """A rank's waits, in its table's times, and its events that are not matched on all ranks."""

    rows: Rows
    begin: Ints
    until: Ints
    unmatched: Rows


@dataclass(frozen=True, slots=True, eq=False)
class CollectiveWaits:
    """The waits of ranks in collectives, on one clock."""

    match: Matching
    times: Arrivals
    clock: Clock

    def of_rank(self, rank: int) -> RankWaits:
        """Return the waits of a rank."""
        match, number = self.match, [trace.rank for trace in self.match.traces].index(rank)
        entries, events = match.of_trace[number], match.events[number]
        place = match.place[entries]
        last = self.times.last_ns[entries] - self.times.shifts_ns[number]
        until = np.minimum(last, events.end_ns[place])
        return RankWaits(
            events.rows[place], events.start_ns[place], until, unmatched_rows(match, number)
        )

    def last_rank_mask(self, rank: int, late: list[int]) -> Bools:
        """Return at which of its collectives one of `late` alone arrives last."""
        number = [trace.rank for trace in self.match.traces].index(rank)
        return np.isin(self.times.last_rank[self.match.of_trace[number]], late)

    def arguments_by_rank(self, ranks: list[int]) -> list[tuple[RankWaits]]:
        """Return the waits of some ranks, as arguments for `map_ranks`."""
        return [(self.of_rank(rank),) for rank in ranks]


def unmatched_rows(match: Matching, number: int) -> Rows:
    """Return the communication of a trace that is not matched on all the ranks of its group."""
    entries, events = match.of_trace[number], match.events[number]
    known = events.is_single_rank.copy()
    known[match.place[entries[match.is_complete[match.collective[entries]]]]] = True
    return events.rows[~known]


def collective_waits(traces: TraceSet, clock: Clock | None = None) -> CollectiveWaits:
    """Return the waits of all ranks; `clock` as in `exposed_waits`."""
    clock = clock or _shared_clock(traces)
    match = matching(traces)
    return memo(
        traces,
        ("waits", clock),
        lambda: CollectiveWaits(match, arrival_times(traces, match, clock), clock),
    )


def _shared_clock(traces: TraceSet) -> Clock:
    """Return the clock of the set, or the fitted one if collectives compare its clocks."""
    is_compared = clock_fit(traces).collectives.any()
    return "fitted" if is_compared else traces.clock


def wait_intervals(part: RankPart, waits: RankWaits) -> tuple[Rows, Ints, Ints]:
    """Return the selected events in which a rank waits, with each wait's start and end."""
    kept = part.contains(waits.rows)
    begin, until = (
        np.clip(times[kept], part.low, part.high) for times in (waits.begin, waits.until)
    )
    return waits.rows[kept], begin, until


def _waits_of_rank(part: RankPart, waits: RankWaits) -> tuple[int, int, int, int, int]:
    compute = part.union_of_kinds("compute")
    exposed = total_length(subtract(part.union_of_kinds("communication"), compute))
    alone = np.intersect1d(part.rows_of_kinds("communication"), waits.unmatched)
    unmatched = total_length(subtract(union(*part.clip_rows(alone)), compute))
    if not len(waits.rows):
        return 0, -1, -1, exposed, unmatched
    rows, begin, until = wait_intervals(part, waits)
    pieces = union(begin, until)
    return (
        len(rows),
        total_length(pieces),
        total_length(subtract(pieces, compute)),
        exposed,
        unmatched,
    )


# --- waits that ranks impose ----------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class ImposedWaits:
    """The matched collectives that count, and the rank charged with each; one item per entry.

    If several ranks are last at the same time, the lowest is charged. Times are 0 for entries that
    are not charged.
    """

    match: Matching
    times: Arrivals
    late: EntryLateness
    clock: Clock
    matched: dict[str, int]
    steps: Ints  # numbers of the steps
    step: Ints  # positions in `steps`
    stated_steps: bool
    is_kept: Bools  # whether the collective counts
    is_charged: Bools
    is_alone: Bools  # charged, and no other rank arrived at the same time
    imposed_ns: Ints  # waits of the others
    raw_ns: Ints  # ... without compute
    lost_ns: Ints  # ... and without the share that the rank inherited

    def sums(self, values: Array) -> Array:
        """Add up values of entries by step and rank."""
        shape = len(self.steps), len(self.match.traces)
        sums = np.zeros(shape, dtype=np.result_type(values, np.int64))
        np.add.at(sums, (self.step, self.match.trace), values)
        return sums

    def of_ranks(self, values: Array) -> Array:
        """Add up values of entries by rank."""
        totals: Array = self.sums(values).sum(axis=0)
        return totals

    def complete(self) -> Ints:
        """Return the number of each rank's collectives that have events of all their ranks."""
        return self.of_ranks(self.is_kept & self.match.per_entry(self.match.is_complete))

    def companions(self) -> Ints:
        """Return the number of other ranks with which each rank shares collectives, at least 1."""
        match = self.match
        member = np.zeros((match.lane.max(initial=-1) + 1, len(match.traces)), dtype=np.float32)
        member[match.lane, match.trace] = 1
        shared: Ints = (member.T @ member > 0).sum(axis=1)
        return np.maximum(shared - 1, 1)

    def time_of_others(self) -> Floats:
        """Return by step and rank the length of the step, added up over the rank's companions."""
        return np.outer(self.step_ns(), self.companions())

    def step_ns(self) -> Floats:
        """Return the length of each step, from the last collective of the step before to its own.

        The first one's is the median, or its own collectives' if that is longer.
        """
        span = np.iinfo(np.int64)
        first, last = np.full(len(self.steps), span.max), np.full(len(self.steps), span.min)
        np.minimum.at(first, self.step, self.times.arrival_ns)
        np.maximum.at(last, self.step, self.times.end_ns)
        known = self.steps >= 0
        apart = np.diff(last[known])
        starts = [
            trace.start_ns - trace.shift_ns + shift
            for trace, shift in zip(self.match.traces, self.times.shifts_ns.tolist(), strict=True)
            if len(trace)
        ]
        whole = last.max(initial=0) - min(starts, default=0)
        lengths: Floats = np.full(len(first), float(max(whole, 1)))
        if len(apart):
            own = np.maximum((last - first)[known], 1)
            lengths[known] = np.maximum([np.median(apart), *apart], own)
        return lengths


def imposed_waits(traces: TraceSet, chosen: Selection, clock: Clock | None) -> ImposedWaits:
    """Return the last ranks of collectives and others' waits; `clock` as in `exposed_waits`."""
    match = matching(traces)
    name = clock or _shared_clock(traces)

    def derive() -> tuple[Arrivals, Ints, bool, EntryLateness]:
        times = arrival_times(traces, match, name)
        step, stated = _steps(match, times)
        return times, step, stated, entry_lateness(match, times, step)

    times, step, stated, late = memo(traces, ("lateness", name), derive)
    # Imposed waits include those of all ranks, even of ranks that are not shown.
    everyone = replace(chosen, ranks=None, traces=traces)
    selected, matched = count_selected(match, everyone)
    kept = match.reduce_per_entry(np.logical_or, selected)
    is_charged = mask_of_rows(match.last_entries(times.wait_ns), len(match)) & kept
    imposed, raw = (
        np.where(is_charged, match.reduce_per_entry(np.add, waits), 0)
        for waits in (times.wait_ns, late.exposed_wait_ns)
    )
    steps, column = np.unique(step, return_inverse=True)
    return ImposedWaits(
        match, times, late, name, matched, steps, column, stated, kept, is_charged,
        is_charged & times.is_last, imposed, raw, np.rint(raw * late.own_share).astype(np.int64),
    )  # fmt: skip


def _steps(match: Matching, times: Arrivals) -> tuple[Ints, bool]:
    """Return each entry's step, and whether the files state steps.

    All entries of a collective have the same step. If the files state none, steps are estimated
    from the order of the collectives.
    """
    step = match.reduce_per_entry(np.maximum, entry_steps(match))
    if not len(match) or (step >= 0).any():
        return step, True
    content = [
        match.events[t].content[match.events[t].content_code[p]]
        for t, p in zip(
            match.trace[match.starts].tolist(), match.place[match.starts].tolist(), strict=True
        )
    ]
    kinds = Counter(zip(match.lane[match.starts].tolist(), content, strict=True))
    stretches = min(kinds.values())
    first = np.minimum.reduceat(times.arrival_ns, match.starts)
    place = np.empty(len(first), dtype=np.int64)
    place[np.argsort(first, kind="stable")] = np.arange(len(first))
    return match.per_entry(place * stretches // len(first)), False


def step_shares(work: ImposedWaits, *, complete: bool = False) -> tuple[Floats, Floats]:
    """Return the cost of each rank for the others, by (step, rank), as a share of their time.

    The second array includes inherited lateness. NaN stands for steps that the file of the rank
    holds only in part. With `complete`, only collectives with events of all their ranks count.
    """
    match = work.match
    counts = match.per_entry(match.is_complete) if complete else np.ones(len(match), dtype=bool)
    taken = work.sums(counts)
    stated = work.steps >= 0
    known = stated & (work.sums(work.is_kept & counts).sum(axis=1) > 0)
    usual = np.median(taken[stated], axis=0) if stated.any() else np.zeros(taken.shape[1])
    partial = ~known[:, None] | (taken * 2 < usual) | (taken == 0)
    scale = work.time_of_others()
    lost, raw = (
        np.where(partial, np.nan, work.sums(np.where(counts, cost, 0)) / scale)
        for cost in (work.lost_ns, work.raw_ns)
    )
    return lost, raw


def mean_share(shares: Floats, step_ns: Floats) -> Floats:
    """Return each column's mean over its known steps, weighted by their lengths."""
    known = np.where(np.isnan(shares), 0.0, step_ns[:, None]).sum(axis=0)
    lost = np.nansum(shares * step_ns[:, None], axis=0)
    return np.where(known > 0, lost / np.maximum(known, 1.0), np.nan)


# --- the judgement of a whole job -----------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class LastRank:
    """A rank that arrives last at nearly all of its collectives but is not a straggler."""

    rank: int
    wait_ns: float
    hidden_share: float
    cause: str


@dataclass(frozen=True, slots=True)
class StragglerReport:
    """The late ranks of a job, for all pages, panels and messages."""

    stragglers: list[int]
    causes: dict[int, str]
    last_ranks: list[LastRank]
    loaded: int
    of: int


def straggler_report(traces: TraceSet) -> StragglerReport:
    """Return the late ranks of the whole job."""
    straggler_frame = stragglers(traces)
    work = imposed_waits(traces, Selection(), None)
    missing = work.match.missing_ranks
    late = straggler_frame[straggler_frame["is_straggler"]].sort_values(
        "lost_ns", ascending=False, kind="stable"
    )
    ranks = [int(rank) for rank in late["rank"]]
    causes = dict(zip(ranks, late["cause"].astype(str), strict=True))
    for late_of in format_hooks("late_ranks"):
        ranks += [rank for rank in late_of(traces) if rank not in causes]
    loaded = len(loaded_ranks(traces.values()))
    return StragglerReport(
        ranks, causes, _always_last_ranks(traces, work, straggler_frame), loaded, loaded + missing
    )


def _always_last_ranks(
    traces: TraceSet, work: ImposedWaits, straggler_frame: pd.DataFrame
) -> list[LastRank]:
    """Return the ranks that are last at nearly all collectives and are not stragglers."""
    match = work.match
    start_ns, end_ns = traces.span_ns
    others, complete = work.companions().tolist(), work.complete().tolist()
    last = []
    for place, row in enumerate(straggler_frame.to_dict("records")):
        if (
            not match.incomplete[place]
            and complete[place] < _NEARLY_ALWAYS_SHARE * row["collectives"]
        ):
            continue
        always = row["collectives"] >= _MIN_COLLECTIVES and row["score"] >= _NEARLY_ALWAYS_SHARE
        if row["is_straggler"] or not always:
            continue
        charged = work.is_charged & (match.trace == place)
        wait_ns = _total_wait_at(work, match.collective[charged]) / others[place]
        if wait_ns < _WORTH_SAYING * max(end_ns - start_ns, 1):
            continue
        cause = str(row["cause"])
        if not cause and not match.incomplete[place]:
            excess = {part: straggler_frame[f"late_{part}_ns"].to_numpy(float) for part in PARTS}
            # A rank that compute hides is as late to all collectives of a step as to the first.
            late_ns = wait_ns * len(work.steps) / max(int(charged.sum()), 1)
            (cause,) = _causes(
                traces, excess, np.array([place]), np.full(len(straggler_frame), late_ns)
            )
        imposed, lost = (int(values[charged].sum()) for values in (work.imposed_ns, work.raw_ns))
        last.append(LastRank(int(row["rank"]), wait_ns, 1 - lost / max(imposed, 1), cause))
    return sorted(last, key=lambda last_rank: -last_rank.wait_ns)


def _total_wait_at(work: ImposedWaits, collectives: Ints) -> int:
    """Return the sum over ranks of their waits at these collectives."""
    waited = 0
    for entries in work.match.of_trace:
        mine = entries[np.isin(work.match.collective[entries], collectives)]
        start = work.times.arrival_ns[mine]
        waited += total_length(union(start, start + work.times.wait_ns[mine]))
    return waited


def exposed_waits_for(waits: CollectiveWaits, late: list[int], ranks: list[int]) -> int:
    """Return the sum over ranks of their waits, without compute, for one of `late` alone."""
    chosen = [trace for trace in waits.match.traces if trace.rank in ranks]
    each = [
        (*waits.of_rank(trace.rank)[1:3], waits.last_rank_mask(trace.rank, late))
        for trace in chosen
    ]
    return sum(map_ranks(chosen, _exposed_wait_of_rank, each=each))


def _exposed_wait_of_rank(trace: Trace, begin: Ints, until: Ints, theirs: Bools) -> int:
    return total_length(subtract(union(begin[theirs], until[theirs]), compute_intervals(trace)))


# --- limits and causes ----------------------------------------------------------------------------


def _patterns(shares: Floats, step_ns: Floats, *, sure: bool = True) -> npt.NDArray[np.object_]:
    """Return each rank's pattern: consistent, occasional, or ""; `sure` as in `costly_share`."""
    count = shares.shape[1]
    patterns = np.full(count, "", dtype=object)
    mean = mean_share(shares, step_ns)
    for rank in range(count):
        shares_of_rank = shares[~np.isnan(shares[:, rank]), rank]
        others = np.delete(mean, rank)
        others = others[~np.isnan(others)]
        if (
            not len(shares_of_rank)
            or not len(others)
            or mean[rank] < _STAND_OUT * np.median(others)
        ):
            continue
        bar = costly_share(len(shares_of_rank), len(others) + 1, sure=sure)
        if mean[rank] >= bar and np.median(shares_of_rank) >= _CONSISTENT_SHARE * bar:
            patterns[rank] = "consistent"
        elif mean[rank] >= _WORTH_NAMING and shares_of_rank.max() >= _STALL:
            patterns[rank] = "occasional"
    return patterns


def _causes(
    traces: TraceSet, excess: Mapping[str, Floats], late: Ints, cost_ns: Floats
) -> list[str]:
    """Return the cause of each late rank: the part with the largest excess over the others.

    It is "" if that is little of `cost_ns`, by rank.
    """
    if not len(late):
        return []
    kernels, mean_ns, on_device = np.array(list(map_ranks(traces, _kernels)), np.float64).T
    causes = []
    for rank in late.tolist():
        part = max(PARTS, key=lambda name: excess[name][rank])
        cause = _CAUSES[part] if on_device.any() or part != "host" else _HOST_WORK
        if part == "compute":
            others = np.delete(np.arange(len(kernels)), rank)
            more = kernels[rank] / max(float(np.median(kernels[others])), 1e-12)
            longer = mean_ns[rank] / max(float(np.median(mean_ns[others])), 1.0)
            if more > max(longer, 1.0):
                cause = _EXTRA_WORK
            if max(more, longer) < _MIN_RATIO:
                cause = ""
        causes.append(cause if excess[part][rank] >= _EXPLAINS * cost_ns[rank] else "")
    return causes


def _kernels(trace: Trace) -> tuple[float, float, bool]:
    """Return a rank's compute kernels per ns, their mean duration, and whether it has a device."""
    table = trace.table
    on_device = table.stream >= 0
    compute = (table.kind == KINDS.index("compute")) & on_device
    number = int(compute.sum())
    span = max(trace.end_ns - trace.start_ns, 1)
    mean = float(table.dur_ns[compute].sum()) / max(number, 1)
    return number / span, mean, bool(on_device.any())


def _straggler_notes(work: ImposedWaits) -> list[str]:
    if len(work.match.traces) < 2:
        return ["one rank keeps no other waiting: load several"]
    on_hosts = on_hosts_note(work.match.on_hosts, _NOT_MATCHED)
    if not len(work.match):
        none = "no collective is found on two ranks, so none can be seen to wait for another"
        return [none, on_hosts]
    if not work.is_kept.any():
        none = "the selection or window holds none of the collectives that are on two ranks"
        return [f"{none}, so no late rank can be named", on_hosts]
    parts = [on_hosts]
    if work.match.missing_ranks:
        parts.append(
            f"files of {plural(work.match.missing_ranks, 'rank')} are missing, which may be later"
            " than those here"
        )
    if work.matched["unmatched"]:
        parts.append(f"{work.matched['unmatched']} events have no partner and do not count")
    if work.matched["partly_matched"]:
        parts.append(
            f"{plural(work.matched['partly_matched'], 'collective')} without events of some ranks,"
            " which may be later, do not count for the verdict"
        )
    return parts
