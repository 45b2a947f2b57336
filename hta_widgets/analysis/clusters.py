"""Ranks that are alike; rank by time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Unpack

import numpy as np
import numpy.typing as npt
import pandas as pd

from hta_widgets.analysis.collectives import Clock
from hta_widgets.analysis.scope import (
    BUSY,
    Part,
    Parts,
    Scope,
    count_kinds,
    narrowed,
    over_ranks,
    parts,
    result,
    scoped,
)
from hta_widgets.analysis.steps import device_times, host_steps
from hta_widgets.analysis.stragglers import (
    RankWaits,
    Waits,
    imposed_waits,
    mean_share,
    step_shares,
    waiting,
    waits_of,
)
from hta_widgets.errors import TraceError
from hta_widgets.taxonomy import KINDS
from hta_widgets.trace.intervals import Covered, Intervals, subtract, union
from hta_widgets.trace.selection import Selection
from hta_widgets.trace.traceset import TraceSet

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

#: Times of a rank per step.
TIMES: tuple[str, ...] = (
    "step_ns",
    "own_ns",
    "compute_ns",
    "idle_ns",
    "exposed_communication_ns",
    "exposed_wait_ns",
    "unmatched_exposed_ns",
)
_MOST_KERNELS = 48  # names of kernels that are told apart, by time


@dataclass(frozen=True, slots=True, eq=False)
class RankFeatures:
    """Where each rank's time goes; one row per rank."""

    times_ns: Floats
    error_ns: Floats
    lost_share: Floats
    kernels: Floats
    kernel_names: list[str]
    steps: Ints
    shared: bool


def rank_features(
    traces: TraceSet, chosen: Parts, waits: Waits, narrowed: Selection
) -> RankFeatures:
    """Return the features of the ranks, over the steps that all of them have.

    Where they have none in common each rank's own count, and where there are no steps the whole
    time of a rank is one.
    """
    found = list(over_ranks(chosen, _of_rank, None, each=waits.each(chosen.ranks)))
    common = _common([one.stepped for one in found])
    if len(common):
        # Few have steps that others lack: those are gone over again.
        again = [len(one.stepped) > 0 and len(one.stepped) != len(common) for one in found]
        places = np.flatnonzero(again).tolist()
        rest = Parts([chosen.traces[place] for place in places], chosen.selection, chosen.executor)
        others = over_ranks(rest, _of_rank, common, each=waits.each(rest.ranks))
        for place, one in zip(places, others, strict=True):
            found[place] = one
    names: dict[str, int] = {}
    kernels = [
        (np.array([names.setdefault(n, len(names)) for n in one.kernels], np.int64), one.kernel_ns)
        for one in found
    ]
    share, kernel_names = _shares(kernels, list(names))
    counts = np.array([one.steps for one in found], dtype=np.int64)
    return RankFeatures(
        np.array([one.times for one in found]).reshape(-1, len(TIMES)),
        np.array([one.error for one in found]).reshape(-1, len(TIMES)),
        _lost(traces, chosen, waits, narrowed),
        share,
        kernel_names,
        counts,
        bool(len(common)),
    )


@dataclass(frozen=True, slots=True, eq=False)
class _OfRank:
    """The features of one rank, over its steps or those asked for."""

    stepped: Ints  # its steps
    steps: int
    times: Floats
    error: Floats
    kernels: list[str]
    kernel_ns: Floats


def _of_rank(part: Part, common: Ints | None, waits: RankWaits) -> _OfRank:
    steps = host_steps(part)
    code, dur, count = _stretches(part, steps, steps[0] if common is None else common)
    spent = device_times(part, code, len(dur), waits)
    own = dur - spent["exposed_wait_ns"]
    table = np.stack([dur, own, *(spent[name] for name in TIMES[2:])], axis=1)
    error = np.zeros(len(TIMES))
    if len(dur) > 1:
        error = table.std(axis=0, ddof=1) / np.sqrt(len(dur))
    return _OfRank(steps[0], count, table.mean(axis=0), error, *_kernels(part, code))


def _stretches(part: Part, steps: tuple[Ints, Ints, Ints], common: Ints) -> tuple[Ints, Ints, int]:
    """Return the step of each event by position, how long each step is, and how many there are."""
    kept = np.isin(steps[0], common) if len(common) else np.ones(len(steps[0]), dtype=bool)
    numbers, start, end = (one[kept] for one in steps)
    if len(numbers):
        step = part.table.step
        at = np.minimum(np.searchsorted(numbers, step), len(numbers) - 1)
        return np.where(numbers[at] == step, at, -1), end - start, len(numbers)
    code = np.full(len(part.trace), -1, dtype=np.int64)
    code[part.whole.rows] = 0
    start, end = part.clipped(part.rows)
    dur = np.array([int(end.max()) - int(start.min()) if len(start) else 0])
    return code, dur, 0


def _common(numbers: Sequence[Ints]) -> Ints:
    """Return the steps that every rank has, of those that have steps at all."""
    having = [one for one in numbers if len(one)]
    if not having:
        return np.empty(0, dtype=np.int64)
    values, counts = np.unique(np.concatenate(having), return_counts=True)
    common: Ints = values[counts == len(having)]
    return common


def _lost(traces: TraceSet, chosen: Parts, waits: Waits, narrowed: Selection) -> Floats:
    found = imposed_waits(traces, narrowed, waits.clock)
    if not len(found.match):
        return np.zeros(len(chosen))
    shares, _ = step_shares(found, len(traces))
    mean = np.nan_to_num(mean_share(shares))
    place = {rank: number for number, rank in enumerate(traces.ranks)}
    return mean[[place[rank] for rank in chosen.ranks]]


def _kernels(part: Part, code: Ints) -> tuple[list[str], Floats]:
    """Return the names of the rank's compute kernels, and how long each runs."""
    table = part.table
    rows = part.rows[(part.kinds == KINDS.index("compute")) & (table.stream[part.rows] >= 0)]
    rows = rows[code[rows] >= 0]
    spent: Floats = np.bincount(
        table.name[rows], part.durations(rows), minlength=len(table.names)
    ).astype(np.float64)
    used = np.flatnonzero(spent)
    names = table.names.values
    return [names[name] for name in used.tolist()], spent[used]


def _shares(kernels: Sequence[tuple[Ints, Floats]], names: list[str]) -> tuple[Floats, list[str]]:
    """Return the share of each name in each rank's compute; what is rare goes into one column."""
    whole = np.zeros((len(kernels), len(names)))
    for place, (numbers, spent) in enumerate(kernels):
        whole[place, numbers] = spent
    whole /= np.maximum(whole.sum(axis=1, keepdims=True), 1.0)
    # What is much of any rank's time counts, also where few ranks run it.
    order = np.argsort(-whole.max(axis=0, initial=0.0), kind="stable")
    most, rest = order[:_MOST_KERNELS], order[_MOST_KERNELS:]
    kept = whole[:, most]
    if not len(rest):
        return kept, [names[k] for k in most.tolist()]
    other = whole[:, rest].sum(axis=1, keepdims=True)
    return np.concatenate((kept, other), axis=1), [*(names[k] for k in most.tolist()), "others"]


#: What can be looked at.
HEATMAP_METRICS: tuple[str, ...] = (
    "busy",
    "compute",
    "communication",
    "exposed_communication",
    "waiting",
    "idle",
)
MOST_BINS = 1 << 16


@scoped
def rank_time_heatmap(
    traces: TraceSet,
    *,
    metric: str = "busy",
    bins: int = 100,
    clock: Clock | None = None,
    **scope: Unpack[Scope],
) -> pd.DataFrame:
    """Return what each rank's device does over time, exact in every bin.

    - ``busy``: any work; ``compute``, ``communication``: any of that kind, whatever else runs
    - ``exposed_communication``: communicating and not computing
    - ``waiting``: in a collective that has not all its ranks yet (`exposed_waits`), computing or
      not
    - ``idle``: no work, between the first start and the last end of the rank's selected work of
      all times

    Parameters
    ----------
    metric : {"busy", "compute", "communication", "exposed_communication", "waiting", "idle"}
    bins : int, default 100
        Into how many bins the window is cut; edges are rounded down to nanoseconds.
    clock : {"host", "fitted"}, optional
        Whose times tell the last arrival at collectives; as in `exposed_waits`.
    window : (start_ns, end_ns), optional
        What is cut into bins. Default: the window of the selection, else the whole job.

    Returns
    -------
    DataFrame
        One row per rank and bin: ``rank, bin, start_ns, end_ns, value_ns`` (int64) and ``share``
        (float64), of the bin, 0..1, NaN for a bin without length. The values of a rank add up to
        its time in the window. ``.attrs["span_ns"]``: of each rank how much of the window lies in
        its span, as in `temporal_breakdown`.

    Notes
    -----
    Busy includes waiting inside of collectives, so the rank that others wait for looks least busy.
    """
    if metric not in HEATMAP_METRICS:
        raise TraceError(
            f"there is no metric {metric!r}",
            remedy=f"The metrics are {', '.join(HEATMAP_METRICS)}.",
        )
    if not 1 <= bins <= MOST_BINS:
        raise TraceError(f"{bins} bins cannot be made", remedy=f"Ask for 1 to {MOST_BINS}.")
    chosen = narrowed(traces, **scope)
    low = traces.start_ns if chosen.start_ns is None else chosen.start_ns
    high = traces.end_ns if chosen.end_ns is None else chosen.end_ns
    edges = bin_edges(low, max(low, high), bins)
    # Idle is told by the work around it, which may lie outside of the window.
    of_all_times = Selection(None, None, chosen.ranks, chosen.tracks, chosen.query, chosen.ids)
    ranks_of = parts(traces, of_all_times)
    waits = waits_of(traces, clock) if metric == "waiting" else None
    none: Sequence[tuple[Any, ...]] = [(None,)] * len(ranks_of)
    own = none if waits is None else waits.each(ranks_of.ranks)
    found = list(over_ranks(ranks_of, _in_bins, metric, edges, each=own))
    values = np.array([value for value, _, _ in found], dtype=np.int64).reshape(-1, bins)
    starts = np.tile(edges[:-1], len(ranks_of))
    ends = np.tile(edges[1:], len(ranks_of))
    length = np.where(ends > starts, ends - starts, np.nan)
    attrs: dict[str, Any] = {} if waits is None else {"clock": waits.clock}
    return result(
        {
            "rank": np.array(ranks_of.ranks, dtype=np.int64).repeat(bins),
            "bin": np.tile(np.arange(bins), len(ranks_of)),
            "start_ns": starts,
            "end_ns": ends,
            "value_ns": values.reshape(-1),
            "share": values.reshape(-1) / length,
        },
        matched=count_kinds(ranks_of),
        note=_note([works for _, works, _ in found], metric, values),
        span_ns=[span for _, _, span in found],
        metric=metric,
        **attrs,
    )


def bin_edges(start: int, end: int, bins: int) -> Ints:
    """Return the edges of bins, rounded down to whole nanoseconds."""
    steps = np.arange(bins + 1, dtype=np.int64)
    # In two parts, so that a long job times many bins stays within int64.
    whole, rest = divmod(end - start, bins)
    edges: Ints = start + whole * steps + rest * steps // bins
    return edges


def metric_times(part: Part, metric: str, waits: RankWaits | None = None) -> Intervals:
    """Return when a metric holds for a rank, in its table's times."""
    if metric == "busy":
        return part.covered(*BUSY)
    if metric == "exposed_communication":
        return subtract(part.covered("communication"), part.covered("compute"))
    if metric == "waiting":
        if waits is None:
            raise ValueError("waits are to be given")
        return union(*waiting(part, waits)[1:])
    if metric == "idle":
        if part.span is None:
            return Intervals.none()
        start, end = part.span
        return subtract(union([start], [end]), part.covered(*BUSY))
    return part.covered(metric)


def _in_bins(
    part: Part, metric: str, edges: Ints, waits: RankWaits | None
) -> tuple[Ints, bool, int]:
    """Return the time in each bin, whether the device does anything, and its span in the bins."""
    pieces = metric_times(part, metric, waits)
    within: Ints = np.diff(Covered(*pieces)(edges - part.trace.shift_ns))
    first, last = part.span or (0, 0)
    low, high = (int(edge) - part.trace.shift_ns for edge in (edges[0], edges[-1]))
    span = max(min(last, high) - max(first, low), 0)
    return within, bool(len(part.busy_rows())), span


def _note(work: Sequence[bool], metric: str, values: Ints) -> str:
    if not work:
        return "no ranks are selected"
    if not any(work):
        return "no device work is selected: no kernels and no copies"
    if not values.any():
        return f"nothing is {metric.replace('_', ' ')} here"
    return ""
