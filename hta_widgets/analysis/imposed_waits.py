"""How long each rank keeps the others waiting, step by step, and what of it costs them time."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from hta_widgets.trace.selection import Selection
from hta_widgets.trace.traceset import TraceSet
from hta_widgets.trace.derived import derived
from hta_widgets.trace.turns import rest

from hta_widgets.analysis.clock_offsets import clock_fit
from hta_widgets.analysis.collectives import Arrivals
from hta_widgets.analysis.collectives import Clock
from hta_widgets.analysis.collectives import arrivals
from hta_widgets.analysis.collectives import steps_of
from hta_widgets.analysis.lateness import Lateness
from hta_widgets.analysis.lateness import lateness
from hta_widgets.analysis.matching import Matching
from hta_widgets.analysis.matching import counted
from hta_widgets.analysis.matching import matching

__all__ = [
    "ImposedWaits",
    "companions",
    "imposed_waits",
    "mean_share",
    "median_arrival",
    "step_shares",
    "step_time",
]

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class ImposedWaits:
    """The matched collectives that count, and who is charged with each.

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
    alone: npt.NDArray[np.bool_]  # of each of `last`: whether no other came at once
    imposed_ns: Ints  # of each of `last`: what the others wait
    raw_ns: Ints  # ... and compute nothing in
    lost_ns: Ints  # ... of which the rank did not inherit the cause


def imposed_waits(traces: TraceSet, chosen: Selection, clock: Clock | None) -> ImposedWaits:
    """Return who comes last to collectives, and what that costs the others.

    Without a `clock` it is that of the set, or the fitted one where the recorded one is skewed.
    """
    match = matching(traces)
    name = clock if clock is not None else "fitted" if _is_skewed(traces) else traces.clock
    times, step, stated, late = _of_all(traces, match, name)
    # Collectives count whole: whom a rank keeps waiting does not depend on who is shown.
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


def _of_all(
    traces: TraceSet, match: Matching, clock: Clock
) -> tuple[Arrivals, Ints, bool, Lateness]:
    """Return what does not depend on the selection; it is kept with the set."""

    def derive() -> tuple[Ints, tuple[Arrivals, Ints, bool, Lateness]]:
        times = arrivals(traces, match, clock)
        step, stated = _steps(match, times)
        return match.collective, (times, step, stated, lateness(match, times, step))

    # The very same entries: others mean that kinds were told by other rules.
    _, found = derived(
        traces, ("lateness", clock), derive, lambda known: known[0] is match.collective
    )
    return found


def _is_skewed(traces: TraceSet) -> bool:
    return traces.clock == "host" and clock_fit(traces).is_needed


def median_arrival(match: Matching, times: Arrivals) -> Floats:
    """Return for each entry the median arrival of its collective."""
    rest()
    order = np.lexsort((times.arrival_ns, match.collective))
    rest()
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
    """Return what each rank costs the others, by (step, rank), as a share of their time.

    The second array also counts what it inherited. NaN stands for steps that the file of the rank
    holds only in part.
    """
    match = work.match
    numbers, column = np.unique(work.step, return_inverse=True)
    rest()
    lost, raw, taken = np.zeros((3, len(numbers), count))
    np.add.at(taken, (column, match.trace), 1)
    rest()
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
    """Return the mean of each column, without what is not known."""
    known = ~np.isnan(shares)
    counts = known.sum(axis=0)
    sums = np.where(known, shares, 0.0).sum(axis=0)
    return np.where(counts > 0, sums / np.maximum(counts, 1), np.nan)
