"""Waits in collectives, and the ranks that cause them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Unpack

import numpy as np
import numpy.typing as npt
import pandas as pd

from hta_widgets.analysis.clocks import clock_fit
from hta_widgets.analysis.collectives import Arrivals, Clock, arrivals, steps_of
from hta_widgets.analysis.lateness import PARTS, Lateness, costly_share, lateness
from hta_widgets.analysis.matching import Matching, counted, loaded_ranks, matching
from hta_widgets.analysis.scope import (
    BUSY,
    Part,
    Scope,
    count_kinds,
    narrowed,
    over_ranks,
    parts,
    result,
    scoped,
)
from hta_widgets.readers.formats import provided
from hta_widgets.taxonomy import KINDS
from hta_widgets.trace.intervals import subtract, total, union
from hta_widgets.trace.memo import memo
from hta_widgets.trace.selection import Selection
from hta_widgets.trace.trace import Trace
from hta_widgets.trace.traceset import TraceSet

Ints = npt.NDArray[np.int64]
Rows = npt.NDArray[np.intp]
Flags = npt.NDArray[np.bool_]
Floats = npt.NDArray[np.float64]

# A straggler has to cost more than `costly_share`, and to meet these limits.
_STEADY = 0.8  # of what is costly, in the median step
_STAND_OUT = 2.0  # times the typical other rank
_STALL = 0.25  # of a step: one such step is more than noise
_WORTH_NAMING = 0.02  # of the others' time, on average, where only some steps are slow
_LEAST_COLLECTIVES = 4  # ranks with fewer are not judged

# Limits for naming a rank that is not a straggler.
_NEARLY_ALWAYS = 0.9  # of its collectives it is last at
_WORTH_SAYING = 0.01  # of the run, which the others wait for it on average

_CAUSES = {
    "waiting": "waiting elsewhere",
    "data_loading": "data loading",
    "host": "launch-bound host",
    "compute": "slower kernels",
}
_EXTRA_WORK = "extra work"
_HOST_WORK = "host work"


@scoped
def exposed_waits(
    traces: TraceSet,
    *,
    clock: Clock | None = None,
    **scope: Unpack[Scope],
) -> pd.DataFrame:
    """Return how long each rank waits in collectives for the last of their ranks.

    A rank waits in a collective from its own arrival to that of the last rank, or to the end of
    its own event where that is earlier; the last rank is found before anything is selected, as
    in `collectives`. The wait is *exposed* while no selected compute kernel of the rank runs, so it
    is the part of ``exposed_communication_ns`` of `temporal_breakdown` in which no data could move
    yet. Waits in collectives that run at once count once.

    Parameters
    ----------
    clock : {"host", "fitted"}, optional
        The clock of the arrivals. Default: that of the set, or the fitted one where ends of
        collectives disagree on the recorded clock by clearly more than on the fitted one.
    ranks : iterable of int, optional
        Narrows the selection to these ranks. Others still count as those that came last.

    Returns
    -------
    DataFrame
        One row per selected rank, all int64:

        - ``rank``
        - ``collectives``: selected events of the rank that are matched with other ranks'
        - ``wait_ns``: waiting in any of them; ``exposed_wait_ns``: and computing nothing
        - ``exposed_communication_ns``: communicating at all and computing nothing

        ``wait_ns`` and ``exposed_wait_ns`` are -1 where no communication of the rank, selected or
        not, is matched: its waits are not known. ``.attrs["clock"]`` is the clock of the arrivals.

    Raises
    ------
    TraceError
        For an unknown clock, or a rank that is not there.

    Notes
    -----
    HTA has no such analysis. ``exposed_wait_ns`` is what `step_times` has by step.
    """
    chosen = parts(traces, **scope)
    waits = waits_of(traces, clock)
    found = list(over_ranks(chosen, _of_rank, each=waits.each(chosen.ranks)))
    times = np.array(found, dtype=np.int64).reshape(-1, 4)
    unknown = np.array(chosen.ranks, dtype=np.int64)[times[:, 1] < 0].tolist()
    note = "" if len(chosen) else "no ranks are selected"
    if unknown:
        of = f" of rank{'s' * (len(unknown) > 1)} {', '.join(map(str, unknown))}"
        of = "" if len(unknown) == len(chosen) else of
        note = f"no communication{of} is matched with other ranks', so waits are not known"
    return result(
        {
            "rank": np.array(chosen.ranks, dtype=np.int64),
            "collectives": times[:, 0],
            "wait_ns": times[:, 1],
            "exposed_wait_ns": times[:, 2],
            "exposed_communication_ns": times[:, 3],
        },
        matched={**count_kinds(chosen, BUSY[:2]), "matched": int(times[:, 0].sum())},
        note=note,
        clock=waits.clock,
    )


@scoped
def stragglers(
    traces: TraceSet,
    *,
    clock: Clock | None = None,
    **scope: Unpack[Scope],
) -> pd.DataFrame:
    """Return how often each rank comes last to collectives, at which cost, and why.

    The rank that arrives last at a matched collective (`collectives`) makes the others wait. Some
    rank always does; a straggler does so more than by chance, and at a cost that matters.
    The measure is time lost: waits of the others in which they compute nothing, as a share of
    their time, per step. A rank is a consistent straggler if it costs them 5 % on average over
    many steps, nearly as much in the median step, and twice what the typical rank does. With few
    steps and ranks the limit is higher, 5 % times 1 + 1 / steps + 12 / (ranks · steps²), and half
    as much again for two ranks, each compared with the other alone. A rank is an occasional
    straggler if it stalls them for a quarter of a step's time in some steps. Lateness that a rank
    inherits by waiting in another group, such as for its neighbour in tensor parallelism, is not
    counted against it. A rank is never a straggler if a file is missing from one of its groups,
    because the late rank may be the missing one, or if it has fewer than four collectives.

    The cause is what took longer than on the other ranks (median) between the previous collective
    of the group and the arrival: kernels, which are slower or more; waiting in other collectives;
    the device idle while the host loads data; the device idle otherwise, behind a slow host.

    Parameters
    ----------
    clock : {"host", "fitted"}, optional
        The clock of the arrivals. Default as in `exposed_waits`.
    selection : Selection, optional
        Only collectives with a selected event count.
    ranks : iterable of int, optional
        Only these ranks are returned; the waits that they cause are counted over all.

    Returns
    -------
    DataFrame
        One row per rank. ``rank`` (int64); ``host`` (str); ``collectives`` (int64), how many
        matched ones it takes part in; ``score`` (float64), the share of them at which it arrives
        last, alone; ``late_ns_mean`` (float64), its arrival less the median arrival, on average;
        ``imposed_wait_ns`` (int64), the others' waits where it is last, added up (of ranks that
        come last at once the lowest is charged); ``wait_ns``
        (int64), its own waits; ``lost_ns`` (int64), the part of the imposed waits in which the
        others compute nothing and that the rank did not inherit; ``lost_share`` (float64), what
        the others lose of their time, averaged over steps; ``is_straggler`` (bool); ``pattern``
        (``"consistent"``, ``"occasional"`` or ``""``); ``cause`` (``"slower kernels"``, ``"extra
        work"``, ``"launch-bound host"``, ``"host work"`` where no rank has a
        device, ``"data loading"``, ``"waiting elsewhere"`` or ``""``);
        ``late_compute_ns, late_waiting_ns, late_data_loading_ns, late_host_ns`` (int64), where
        the rank is last: how much longer each took than on the others.

        Ranks that are late and inherited it are no stragglers and have the cause ``"waiting
        elsewhere"``. ``.attrs["clock"]`` is the clock of the arrivals, ``.attrs["matched"]`` as in
        `collectives`.

    Notes
    -----
    HTA's method with the same aim ranks candidates by the start times of the longest kernels
    called ``ncclKernel…`` and always returns some.
    """
    chosen = narrowed(traces, **scope)
    work = imposed_waits(traces, chosen, clock)
    match, count = work.match, len(traces)
    last, trace = work.last, match.trace
    taken = np.bincount(trace[work.kept], minlength=count)
    imposed, lost = np.zeros((2, count), dtype=np.int64)
    np.add.at(imposed, trace[last], work.imposed_ns)
    np.add.at(lost, trace[last], work.lost_ns)
    middle = median_arrival(match, work.times)
    late = np.bincount(
        trace[work.kept], (work.times.arrival_ns - middle)[work.kept], minlength=count
    )
    own = np.zeros(count, dtype=np.int64)
    np.add.at(own, trace[work.kept], work.times.wait_ns[work.kept])
    excess = {
        part: np.asarray(
            np.bincount(trace[last], np.nan_to_num(values[last]), minlength=count), np.float64
        )
        for part, values in work.late.excess_ns.items()
    }
    shares, raw = step_shares(work, count)
    lacking = np.array(match.lacking, dtype=bool)
    pattern, likely = _patterns(shares), _patterns(shares, sure=False)
    inherited = (likely == "") & (_patterns(raw, sure=False) != "")
    # Who comes last of those loaded may have waited for one that is not.
    unsure = lacking | (taken < _LEAST_COLLECTIVES)
    pattern[unsure] = ""
    cause = np.where(inherited & ~unsure, _CAUSES["waiting"], "").astype(object)
    named = np.flatnonzero(pattern != "")
    cause[named] = _causes(traces, excess, named)
    shown = np.flatnonzero([chosen.ranks is None or rank in chosen.ranks for rank in traces.ranks])
    columns = {
        "rank": np.array(traces.ranks, dtype=np.int64),
        "host": np.array([header.host for header in match.headers], dtype=object),
        "collectives": taken,
        "score": np.bincount(trace[last], work.alone, minlength=count) / np.maximum(taken, 1),
        "late_ns_mean": late / np.maximum(taken, 1),
        "imposed_wait_ns": imposed,
        "wait_ns": own,
        "lost_ns": lost,
        "lost_share": np.nan_to_num(mean_share(shares)),
        "is_straggler": pattern != "",
        "pattern": pattern,
        "cause": cause,
        **{f"late_{part}_ns": np.rint(values).astype(np.int64) for part, values in excess.items()},
    }
    if not len(match):
        shown = shown[:0]
    return result(
        {name: values[shown] for name, values in columns.items()},
        matched=work.matched,
        note=_straggler_note(work, count),
        clock=work.clock,
    )


@scoped
def stragglers_by_step(
    traces: TraceSet,
    *,
    clock: Clock | None = None,
    **scope: Unpack[Scope],
) -> pd.DataFrame:
    """Return the numbers of `stragglers` step by step.

    Definitions are those of `stragglers`. Where the trace has no steps, the run is cut
    into as many stretches as the rarest of its collectives occurs.

    Returns
    -------
    DataFrame
        One row per rank and step with matched collectives. ``rank`` (int64); ``step`` (int64), n
        of ``ProfilerStep#n``, or the stretch's number where there are none (``.attrs["steps"]``
        says which); ``collectives`` (int64); ``score`` (float64); ``imposed_wait_ns`` and
        ``lost_ns`` (int64); ``lost_share`` (float64).
    """
    chosen = narrowed(traces, **scope)
    work = imposed_waits(traces, chosen, clock)
    match, count = work.match, len(traces)
    numbers, column = np.unique(work.step, return_inverse=True)
    size = (len(numbers), count)
    taken, last, imposed, lost = np.zeros((4, *size), dtype=np.int64)
    np.add.at(taken, (column[work.kept], match.trace[work.kept]), 1)
    at_last = (column[work.last], match.trace[work.last])
    np.add.at(last, at_last, work.alone)
    np.add.at(imposed, at_last, work.imposed_ns)
    np.add.at(lost, at_last, work.lost_ns)
    step_ns = step_time(work, numbers, column)
    share = lost / (step_ns * np.maximum(companions(match, count), 1))
    wanted = np.array(
        [chosen.ranks is None or rank in chosen.ranks for rank in traces.ranks], dtype=bool
    )
    rank, step = np.nonzero((taken > 0).T & wanted.reshape(-1, 1))
    return result(
        {
            "rank": np.array(traces.ranks, dtype=np.int64)[rank],
            "step": numbers[step],
            "collectives": taken[step, rank],
            "score": last[step, rank] / np.maximum(taken[step, rank], 1),
            "imposed_wait_ns": imposed[step, rank],
            "lost_ns": lost[step, rank],
            "lost_share": share[step, rank],
        },
        matched=work.matched,
        note=_straggler_note(work, count),
        clock=work.clock,
        steps="ProfilerStep" if work.stated_steps else "stretches",
    )


# --- waits ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class RankWaits:
    """The events in which a rank waits, and from when to when, in its table's times.

    `unmatched` are its communication events without the events of all other ranks.
    """

    rows: Rows
    begin: Ints
    until: Ints
    unmatched: Rows


@dataclass(frozen=True, slots=True, eq=False)
class Waits:
    """The waits of ranks in collectives, on one clock."""

    match: Matching
    times: Arrivals
    clock: Clock
    number: dict[int, int]  # each rank's position in the set
    complete: Flags  # by entry: whether all ranks' events are there

    def of(self, trace: Trace) -> tuple[Rows, Ints, Ints]:
        """Return the events in which a rank waits, and from when to when, in its table's times."""
        found = self.of_rank(trace.rank)
        return found.rows, found.begin, found.until

    def unmatched(self, trace: Trace) -> Rows:
        """Return the communication without the events of all other ranks."""
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

    def each(self, ranks: list[int]) -> list[tuple[RankWaits]]:
        """Return the waits of some ranks, as arguments for `over_ranks`."""
        return [(self.of_rank(rank),) for rank in ranks]


def waits_of(traces: TraceSet, clock: Clock | None = None) -> Waits:
    """Return the waits of all ranks; the clock is the fitted one where that is needed."""
    clock = clock or _shared_clock(traces)
    match = matching(traces)

    def derive() -> Waits:
        number = {trace.rank: place for place, trace in enumerate(match.traces)}
        complete = match.each((match.expected <= 0) | (match.sizes() >= match.expected))
        return Waits(match, arrivals(traces, match, clock), clock, number, complete)

    return memo(traces, ("waits", clock), derive)


def _shared_clock(traces: TraceSet) -> Clock:
    """Return the clock of the set, or the fitted one where the recorded one is skewed."""
    is_skewed = traces.clock == "host" and clock_fit(traces).is_needed
    return "fitted" if is_skewed else traces.clock


def waiting(part: Part, waits: RankWaits) -> tuple[Rows, Ints, Ints]:
    """Return the selected events in which a rank waits, and from when to when in the window."""
    kept = part.has(waits.rows)
    rows, begin, until = waits.rows[kept], waits.begin[kept], waits.until[kept]
    if part.low is not None:
        begin, until = np.maximum(begin, part.low), np.maximum(until, part.low)
    if part.high is not None:
        begin, until = np.minimum(begin, part.high), np.minimum(until, part.high)
    return rows, begin, until


def _of_rank(part: Part, waits: RankWaits) -> tuple[int, int, int, int]:
    compute = part.covered("compute")
    exposed = total(subtract(part.covered("communication"), compute))
    if not len(waits.rows):
        return 0, -1, -1, exposed
    rows, begin, until = waiting(part, waits)
    pieces = union(begin, until)
    return len(rows), total(pieces), total(subtract(pieces, compute)), exposed


# --- waits that ranks impose ----------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class ImposedWaits:
    """The matched collectives that count, and the rank charged with each.

    `last` are the entries of ranks that came last; where several came at once, of the lowest.
    """

    match: Matching
    times: Arrivals
    late: Lateness
    clock: Clock
    matched: dict[str, int]
    kept: Ints  # entries of the collectives that count
    step: Ints  # of each entry
    stated_steps: bool
    last: Ints
    alone: Flags  # by `last`: whether no other rank came at the same time
    imposed_ns: Ints  # by `last`: the waits of the others
    raw_ns: Ints  # ... in which they compute nothing
    lost_ns: Ints  # ... without the share that the rank inherited


def imposed_waits(traces: TraceSet, chosen: Selection, clock: Clock | None) -> ImposedWaits:
    """Return which ranks come last to collectives, and the cost for the others.

    Without a `clock` it is that of the set, or the fitted one where the recorded one is skewed.
    """
    match = matching(traces)
    name = clock or _shared_clock(traces)

    def derive() -> tuple[Arrivals, Ints, bool, Lateness]:
        times = arrivals(traces, match, name)
        step, stated = _steps(match, times)
        return times, step, stated, lateness(match, times, step)

    times, step, stated, late = memo(traces, ("lateness", name), derive)
    # Collectives count whole: imposed waits do not depend on which ranks are shown.
    everyone = Selection(
        chosen.start_ns, chosen.end_ns, None, chosen.tracks, chosen.query, chosen.ids, traces
    )
    selected, matched = counted(match, everyone)
    if len(match):
        selected = match.each(np.logical_or.reduceat(selected, match.starts))
        imposed = match.each(np.add.reduceat(times.wait_ns, match.starts))
        raw = match.each(np.add.reduceat(late.exposed_wait_ns, match.starts))
        entries = np.where(times.wait_ns == 0, np.arange(len(match)), len(match))
        last = np.minimum.reduceat(entries, match.starts)
        last = last[selected[last]]
    else:
        imposed = raw = last = np.zeros(0, dtype=np.int64)
    lost = np.rint(raw[last] * late.own_share[last]).astype(np.int64)
    return ImposedWaits(
        match, times, late, name, matched, np.flatnonzero(selected), step, stated, last,
        times.is_last[last], imposed[last], raw[last], lost,
    )  # fmt: skip


def median_arrival(match: Matching, times: Arrivals) -> Floats:
    """Return for each entry the median arrival of its collective."""
    order = np.lexsort((times.arrival_ns, match.collective))
    ordered = times.arrival_ns[order]
    sizes = match.sizes()
    low, high = match.starts + (sizes - 1) // 2, match.starts + sizes // 2
    return match.each((ordered[low] + ordered[high]) / 2)


def _steps(match: Matching, times: Arrivals) -> tuple[Ints, bool]:
    """Return each entry's step, the same for all of a collective, and whether files state it."""
    if not len(match):
        return np.empty(0, dtype=np.int64), True
    step = np.maximum.reduceat(steps_of(match), match.starts)
    if (step >= 0).any():
        return match.each(step), True
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
    return match.each(place * stretches // len(first)), False


def companions(match: Matching, count: int) -> Ints:
    """Return with how many others each rank shares collectives."""
    pairs = np.unique(match.lane * count + match.trace)
    begins = np.flatnonzero(np.diff(pairs // count, prepend=-1))
    distinct = {members.tobytes() for members in np.split(pairs % count, begins[1:])}
    beside = np.zeros((count, count), dtype=bool)
    for text in distinct:
        members = np.frombuffer(text, dtype=np.int64)
        beside[np.ix_(members, members)] = True
    others: Ints = np.maximum(beside.sum(axis=1) - 1, 0)
    return others


def step_time(work: ImposedWaits, numbers: Ints, column: Ints) -> float:
    """Return how long a step takes, from one step's last collective to the next one's."""
    last_end = np.full(len(numbers), np.iinfo(np.int64).min)
    np.maximum.at(last_end, column, work.times.end_ns)
    known = numbers >= 0
    apart = np.diff(last_end[known]) / np.maximum(np.diff(numbers[known]), 1)
    if len(apart) and np.median(apart) > 0:
        return float(np.median(apart))
    starts = [
        trace.start_ns - trace.shift_ns + shift
        for trace, shift in zip(work.match.traces, work.times.shifts_ns.tolist(), strict=True)
        if len(trace)
    ]
    return float(max(int(last_end.max(initial=0)) - min(starts, default=0), 1))


def step_shares(work: ImposedWaits, count: int) -> tuple[Floats, Floats]:
    """Return the cost of each rank for the others, by (step, rank), as a share of their time.

    The second array includes inherited lateness. NaN stands for steps that the file of the rank
    holds only in part.
    """
    match = work.match
    numbers, column = np.unique(work.step, return_inverse=True)
    lost, raw, taken = np.zeros((3, len(numbers), count))
    np.add.at(taken, (column, match.trace), 1)
    at_last = (column[work.last], match.trace[work.last])
    np.add.at(lost, at_last, work.lost_ns)
    np.add.at(raw, at_last, work.raw_ns)
    step_ns = step_time(work, numbers, column)
    scale = step_ns * np.maximum(companions(match, count), 1)
    chosen = np.zeros(len(numbers), dtype=bool)
    chosen[np.unique(column[work.kept])] = True
    stated = numbers >= 0
    usual = np.median(taken[stated], axis=0) if stated.any() else np.zeros(count)
    partial = ~(chosen & stated)[:, None] | (taken * 2 < usual) | (taken == 0)
    return np.where(partial, np.nan, lost / scale), np.where(partial, np.nan, raw / scale)


def mean_share(shares: Floats) -> Floats:
    """Return the mean of each column's known values."""
    counts = (~np.isnan(shares)).sum(axis=0)
    return np.where(counts > 0, np.nansum(shares, axis=0) / np.maximum(counts, 1), np.nan)


# --- the judgement of a whole job -----------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class LastRank:
    """A rank that arrives last at nearly all of its collectives and is no straggler."""

    rank: int
    wait_ns: float
    hidden_share: float
    cause: str


@dataclass(frozen=True, slots=True)
class Judgement:
    """The late ranks of a job; every page, panel and message reads them from here."""

    stragglers: list[int]
    causes: dict[int, str]
    last: list[LastRank]
    loaded: int
    of: int


def judgement(traces: TraceSet) -> Judgement:
    """Return the late ranks of the whole job, whatever part of it is shown."""
    found = stragglers(traces)
    work = imposed_waits(traces, Selection(), None)
    missing = work.match.missing_ranks
    late = found[found["is_straggler"]].sort_values("lost_ns", ascending=False, kind="stable")
    ranks = [int(rank) for rank in late["rank"]]
    causes = dict(zip(ranks, late["cause"].astype(str), strict=True))
    for late_of in provided("late_ranks"):
        ranks += [rank for rank in late_of(traces) if rank not in causes]
    loaded = len(loaded_ranks(traces.values()))
    return Judgement(ranks, causes, _last(traces, work, found), loaded, loaded + missing)


def _last(traces: TraceSet, work: ImposedWaits, found: pd.DataFrame) -> list[LastRank]:
    """Return the ranks that are last at nearly all collectives and are not stragglers."""
    match = work.match
    start_ns, end_ns = traces.span_ns
    run_ns = max(end_ns - start_ns, 1)
    others = np.maximum(companions(match, len(traces)), 1)
    last = []
    for place, row in enumerate(found.to_dict("records")):
        always = row["collectives"] >= _LEAST_COLLECTIVES and row["score"] >= _NEARLY_ALWAYS
        if row["is_straggler"] or not always:
            continue
        mine = match.trace[work.last] == place
        wait_ns = _waited_at(work, match.collective[work.last[mine]]) / int(others[place])
        if wait_ns < _WORTH_SAYING * run_ns:
            continue
        cause = str(row["cause"])
        if not cause and not match.lacking[place]:
            excess = {part: found[f"late_{part}_ns"].to_numpy(float) for part in PARTS}
            (cause,) = _causes(traces, excess, np.array([place]))
        imposed, lost = (int(values[mine].sum()) for values in (work.imposed_ns, work.raw_ns))
        last.append(LastRank(int(row["rank"]), wait_ns, 1 - lost / max(imposed, 1), cause))
    return sorted(last, key=lambda one: -one.wait_ns)


def _waited_at(work: ImposedWaits, collectives: Ints) -> int:
    """Add up over ranks how long each waits at these collectives."""
    waited = 0
    for entries in work.match.of_trace:
        mine = entries[np.isin(work.match.collective[entries], collectives)]
        start = work.times.arrival_ns[mine]
        waited += total(union(start, start + work.times.wait_ns[mine]))
    return waited


# --- whether a rank is one ------------------------------------------------------------------------


def _patterns(shares: Floats, *, sure: bool = True) -> npt.NDArray[np.object_]:
    """Return for each rank whether it is a straggler: consistent, occasional, or "" for none.

    With `sure` the limit for one or two steps is so high that chance hardly reaches it.
    """
    count = shares.shape[1]
    found = np.full(count, "", dtype=object)
    mean = mean_share(shares)
    for rank in range(count):
        own = shares[~np.isnan(shares[:, rank]), rank]
        others = np.delete(mean, rank)
        others = others[~np.isnan(others)]
        if not len(own) or not len(others) or mean[rank] < _STAND_OUT * np.median(others):
            continue
        bar = costly_share(len(own), len(others) + 1, sure=sure)
        if mean[rank] >= bar and np.median(own) >= _STEADY * bar:
            found[rank] = "consistent"
        elif mean[rank] >= _WORTH_NAMING and own.max() >= _STALL:
            found[rank] = "occasional"
    return found


def _causes(traces: TraceSet, excess: Mapping[str, Floats], late: Ints) -> list[str]:
    """Return the cause of each late rank: the part that took longer there than on the others."""
    if not len(late):
        return []
    found_of = np.array(list(over_ranks(traces, _kernels)), dtype=np.float64).reshape(-1, 3)
    kernels, mean_ns, on_device = found_of[:, 0], found_of[:, 1], bool(found_of[:, 2].any())
    found = []
    for rank in late.tolist():
        part = max(PARTS, key=lambda name: excess[name][rank])
        cause = _CAUSES[part] if on_device or part != "host" else _HOST_WORK
        if part == "compute":
            others = np.delete(np.arange(len(kernels)), rank)
            more = kernels[rank] / max(float(np.median(kernels[others])), 1e-12)
            longer = mean_ns[rank] / max(float(np.median(mean_ns[others])), 1.0)
            if more > max(longer, 1.0):
                cause = _EXTRA_WORK
        found.append(cause)
    return found


def _kernels(trace: Trace) -> tuple[float, float, bool]:
    """Return a rank's compute kernels per time, their mean time, and whether it has a device."""
    table = trace.table
    on_device = table.stream >= 0
    compute = (table.kind == KINDS.index("compute")) & on_device
    number = int(compute.sum())
    span = max(trace.end_ns - trace.start_ns, 1)
    mean = float(table.dur_ns[compute].sum()) / max(number, 1)
    return number / span, mean, bool(on_device.any())


def _straggler_note(work: ImposedWaits, count: int) -> str:
    if count < 2:
        return "one rank keeps no other waiting: load several"
    if not len(work.match):
        return "no collective is found on two ranks, so none can be seen to wait for another"
    if not len(work.kept):
        return (
            "the selection or window holds none of the collectives that are on two ranks, so"
            " nothing is told of who is late"
        )
    parts = []
    if work.match.missing_ranks:
        parts.append(
            f"files of {work.match.missing_ranks} ranks are missing, which may be later than"
            " those here"
        )
    if work.matched["unmatched"]:
        parts.append(f"{work.matched['unmatched']} events have no partner and do not count")
    return "; ".join(parts)
