"""Ranks that behave the same, and device time of each rank over time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Unpack

import numpy as np
import numpy.typing as npt
import pandas as pd

from hta_widgets.analysis.collectives import Clock, stage_of
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
from hta_widgets.trace.names import short_name
from hta_widgets.trace.selection import Selection
from hta_widgets.trace.traceset import TraceSet

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]

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
_SCATTER = 3.0  # times the usual standard error may be chance
_UNSURE = 1.5  # of that more for two steps, half of it for three, and so on
_FEW = 1 / 3  # of the ranks that do the same work: more are no outliers
_MOST_REASONS = 3
_WIDER = 1.5  # times the tolerance, where there are too many clusters
_BLOCK = 64  # ranks that are compared with all others at a time, within a processor's cache

#: What is compared, causes first, and how a difference is put into words.
_COMPARED: tuple[tuple[str, str, str], ...] = (
    ("compute", "computes {} longer", "computes {} shorter"),
    ("idle", "its device idles {} of {} longer", "its device idles {} of {} less"),
    ("kernels", "", ""),
    (
        "transfer",
        "communicates {} of {} longer, not hidden by computing",
        "communicates {} of {} less, not hidden by computing",
    ),
    ("lost", "costs the others {} of their time more", "costs the others {} of their time less"),
    ("wait", "waits {} of {} longer", "waits {} of {} less"),
    ("step", "its steps take {} longer", "its steps take {} shorter"),
)
_NAMES = tuple(name for name, _, _ in _COMPARED)

#: Of these a difference is told as a share of the time itself, not of a step.
_RELATIVE = frozenset({"compute", "step"})


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
        note=_heatmap_note([works for _, works, _ in found], metric, values),
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


def _heatmap_note(work: Sequence[bool], metric: str, values: Ints) -> str:
    if not work:
        return "no ranks are selected"
    if not any(work):
        return "no device work is selected: no kernels and no copies"
    if not values.any():
        return f"nothing is {metric.replace('_', ' ')} here"
    return ""


@scoped
def rank_clusters(
    traces: TraceSet,
    *,
    tolerance: float = 0.05,
    max_clusters: int = 16,
    clock: Clock | None = None,
    **scope: Unpack[Scope],
) -> pd.DataFrame:
    """Return which ranks behave alike: clusters, the rank that stands for each, and outliers.

    Two ranks are alike if none of these differs by more than the `tolerance`:

    - time per step in which the device computes; is idle; waits in collectives and computes
      nothing; communicates otherwise and computes nothing; and the step's time: as shares of the
      median rank's step (without steps, of the rank's own time)
    - what the rank costs the others, as a share of their time: ``lost_share`` of `stragglers`
    - which kernels it computes with: the share of compute time that goes to other kernels

    Times are means over the steps that all ranks have. Where they scatter so much from step to step
    that a difference may be chance, more than the tolerance is allowed: three times the standard
    error of the median rank, times ``1 + 1.5 / (steps - 1)``, as few steps tell little of it. Ranks
    of different pipeline stages do different work and are never taken together.

    In collectives of which other ranks' files are missing, it is not known what of the time is
    waiting. It may be any of it, and ranks differ only by what is more than that.

    The rank with most ranks like it stands for them; of the rest again the one with most, and so
    on. So every rank is like its representative. Outliers are the ranks of clusters that hold at
    most a third of the ranks of the stage, and at most half of what the largest cluster of the
    stage holds: where all ranks differ, none stands out.

    Parameters
    ----------
    tolerance : float, default 0.05
        Of a step. Healthy ranks of a job differ by a few percent.
    max_clusters : int, default 16
        Where there are more, the tolerance grows by half until there are not, or until only
        different stages are apart; outliers are told by the tolerance that was asked for.
    clock : {"host", "fitted"}, optional
        Whose times tell the last arrival. Default: as in `step_times`.
        Narrows the selection to these ranks, which are then compared among themselves.

    Returns
    -------
    DataFrame
        One row per rank. ``rank``; ``cluster`` (int64), from 0, largest first; ``representative``
        (int64), the rank that stands for the cluster; ``distance`` (float64), the largest
        difference from it in tolerances, so 0..1; ``from_typical`` (float64), the same from the
        representative of the stage's largest cluster; ``is_outlier`` (bool); ``why`` (text), what
        differs from that one and by how much, at most three things, causes first; empty in the
        largest cluster; ``stage`` (int64), of the pipeline; ``steps`` (int64), how many steps the
        times are means of, 0 where all of the rank's time counts as one; and per step, in ns
        (float64): ``step_ns, own_ns, compute_ns, idle_ns, exposed_communication_ns,
        exposed_wait_ns, unmatched_exposed_ns``, defined as in `step_times`; ``lost_share``
        (float64).

        ``.attrs["tolerance"]`` is the tolerance of the clusters, ``.attrs["clusters"]`` how many
        there are, ``.attrs["outliers"]`` which ranks are.

    Notes
    -----
    HTA has no such analysis.
    """
    if not tolerance > 0 or max_clusters < 1:
        raise TraceError(
            f"ranks cannot be put into {max_clusters} clusters with a tolerance of {tolerance}",
            remedy="Both must be positive.",
        )
    chosen = parts(traces, **scope)
    waits = waits_of(traces, clock)
    features = rank_features(traces, chosen, waits, narrowed(traces, **scope))
    stages = stage_of(traces)
    stage = np.array([stages[rank] for rank in chosen.ranks], dtype=np.int64)
    found = clustered(features, stage, tolerance, max_clusters)
    rank = np.array(chosen.ranks, dtype=np.int64)
    return result(
        {
            "rank": rank,
            "cluster": found.cluster,
            "representative": rank[found.representative],
            "distance": found.distance,
            "from_typical": found.from_typical,
            "is_outlier": found.is_outlier,
            "why": pd.array(found.why, dtype="str"),
            "stage": stage,
            "steps": features.steps,
            **dict(zip(TIMES, features.times_ns.T, strict=True)),
            "lost_share": features.lost_share,
        },
        matched=count_kinds(chosen),
        note=_clusters_note(chosen, features),
        clock=waits.clock,
        tolerance=found.tolerance,
        clusters=int(found.cluster.max(initial=-1)) + 1,
        outliers=rank[found.is_outlier].tolist(),
    )


def _clusters_note(chosen: Sequence[Part], features: RankFeatures) -> str:
    if not chosen:
        return "no ranks are selected"
    if len(chosen) == 1:
        return "one rank has no other to be like: load several"
    if not features.steps.any():
        return "no steps are selected: all of a rank's time counts as one"
    if not features.shared:
        return "ranks have no step in common, so means are over different steps"
    return ""


@dataclass(frozen=True, slots=True, eq=False)
class Clusters:
    """Clusters of ranks by position; `representative` and `typical` are positions."""

    cluster: Ints
    representative: Ints
    distance: Floats
    from_typical: Floats
    is_outlier: Flags
    why: list[str]
    tolerance: float


def clustered(features: RankFeatures, stage: Ints, tolerance: float, max_clusters: int) -> Clusters:
    """Return the clusters of ranks by their features, within stages."""
    compared = _Compared.of(features, tolerance)
    apart = compared.distances()
    apart[stage[:, None] != stage[None, :]] = np.inf
    standing = _standing_for(apart, 1.0)
    outlier, typical = _outliers(standing, stage)
    widened = 1.0
    most = max(max_clusters, len(np.unique(stage)))
    folded = standing
    while len(np.unique(folded)) > most:
        widened *= _WIDER
        folded = _standing_for(apart, widened)
    order, sizes = np.unique(folded, return_counts=True)
    by_size = order[np.lexsort((order, -sizes))]
    number = np.zeros(len(stage), dtype=np.int64)
    number[by_size] = np.arange(len(by_size))
    own = np.arange(len(stage))
    why = [
        "" if standing[k] == typical[k] else compared.why(k, int(typical[k]))
        for k in range(len(stage))
    ]
    return Clusters(
        number[folded],
        folded,
        apart[own, folded] / widened,
        apart[own, typical],
        outlier,
        why,
        tolerance * widened,
    )


def _standing_for(apart: Floats, limit: float) -> Ints:
    """Return who stands for each rank: again and again the one with most ranks like it left.

    Of several the one that is closest to those, then the first.
    """
    alike = apart <= limit
    close = np.where(alike, apart, 0.0)
    found = np.arange(len(apart))
    left = np.ones(len(apart), dtype=bool)
    count = alike.sum(axis=1)
    near = close.sum(axis=1)
    while left.any():
        most = int(count[left].max())
        if most <= 1:
            # Whoever is left stands for itself.
            break
        best = np.flatnonzero(left & (count == most))
        closest = int(best[np.argmin(near[best])])
        mine = np.flatnonzero(alike[closest] & left)
        found[mine] = closest
        left[mine] = False
        count -= alike[mine].sum(axis=0)
        near -= close[mine].sum(axis=0)
    return found


def _outliers(standing: Ints, stage: Ints) -> tuple[Flags, Ints]:
    """Return which ranks are outliers, and who is typical of each rank's stage."""
    outlier = np.zeros(len(stage), dtype=bool)
    typical = np.zeros(len(stage), dtype=np.int64)
    sizes = np.bincount(standing, minlength=len(stage))
    for one in np.unique(stage).tolist():
        members = stage == one
        largest = int(np.where(members, sizes, -1).argmax())
        typical[members] = largest
        size = sizes[standing]
        few = (size <= _FEW * members.sum()) & (2 * size <= sizes[largest])
        outlier |= members & few
    return outlier, typical


@dataclass(frozen=True, slots=True, eq=False)
class _Compared:
    """What is compared, in the order of `_NAMES` but for kernels, and what may differ."""

    features: RankFeatures
    least: Floats  # (ranks, names), as shares of the median rank's step; kernels: 0
    most: Floats  # the same, where it is not known exactly
    limits: Floats

    @classmethod
    def of(cls, features: RankFeatures, tolerance: float) -> _Compared:
        time = {name: features.times_ns[:, k] for k, name in enumerate(TIMES)}
        error = {name: features.error_ns[:, k] for k, name in enumerate(TIMES)}
        # Without steps the length of a trace says how long it was recorded, no more.
        stepped = bool(features.steps.any())
        whole = time["step_ns"]
        step = np.full(len(whole), np.median(whole)) if stepped and len(whole) else whole
        step = np.maximum(step, 1.0)
        none = np.zeros(len(features.times_ns))
        exposed, wait = time["exposed_communication_ns"], time["exposed_wait_ns"]
        waiting_at_most = np.maximum(np.minimum(wait + time["unmatched_exposed_ns"], exposed), wait)
        columns = {
            "compute": (time["compute_ns"] / step,) * 2,
            "idle": (time["idle_ns"] / step,) * 2,
            "kernels": (none, none),
            "transfer": ((exposed - waiting_at_most) / step, (exposed - wait) / step),
            "lost": (features.lost_share,) * 2,
            "wait": (wait / step, waiting_at_most / step),
            "step": (whole / step,) * 2,
        }
        scatter = {
            "compute": error["compute_ns"],
            "idle": error["idle_ns"],
            "transfer": error["exposed_communication_ns"],
            "wait": error["exposed_wait_ns"],
            "step": error["step_ns"],
        }
        steps = int(np.median(features.steps)) if len(features.steps) else 0
        allowed = _SCATTER * (1 + _UNSURE / max(steps - 1, 1))
        limits = [
            max(tolerance, allowed * float(np.median(scatter.get(name, none) / step)))
            if len(none)
            else tolerance
            for name in _NAMES
        ]
        least, most = (np.stack([columns[name][k] for name in _NAMES], axis=1) for k in range(2))
        return cls(features, least, most, np.array(limits))

    def distances(self) -> Floats:
        """Return the largest difference of each pair of ranks, in what may differ."""
        count, kernels = len(self.least), self.features.kernels.T
        limit = self.limits[_NAMES.index("kernels")]
        found = np.zeros((count, count))
        for low in range(0, count, _BLOCK):
            rows = slice(low, low + _BLOCK)
            block = found[rows]
            for share in kernels:
                block += np.abs(share[rows, None] - share)
            block /= 2 * limit
            for low_of, high_of, limit_of in zip(
                self.least.T, self.most.T, self.limits.tolist(), strict=True
            ):
                np.maximum(block, (low_of[rows, None] - high_of) / limit_of, out=block)
                np.maximum(block, (low_of - high_of[rows, None]) / limit_of, out=block)
        return found

    def why(self, one: int, typical: int) -> str:
        """Say what differs by more than it may, at most three things, causes first."""
        more = self.least[one] - self.most[typical]
        less = self.most[one] - self.least[typical]
        apart = np.where(more > 0, more, np.where(less < 0, less, 0.0))
        shares = self.features.kernels[one] - self.features.kernels[typical]
        apart[_NAMES.index("kernels")] = np.abs(shares).sum() / 2
        telling = np.flatnonzero(np.abs(apart) > self.limits)
        most = telling[np.argsort(-(np.abs(apart) / self.limits)[telling], kind="stable")]
        return "; ".join(
            self._words(k, float(apart[k]), shares, float(self.least[typical, k]))
            for k in sorted(most[:_MOST_REASONS].tolist())
        )

    def _words(self, which: int, apart: float, shares: Floats, usual: float) -> str:
        name, more, less = _COMPARED[which]
        if name == "kernels":
            kernel = int(np.abs(shares).argmax())
            return (
                f"runs other kernels: {short_name(self.features.kernel_names[kernel])} takes"
                f" {_percent(abs(shares[kernel]))} {'more' if shares[kernel] > 0 else 'less'}"
                " of its compute time"
            )
        if name in _RELATIVE and usual > 0:
            apart /= usual
        stepped = bool(self.features.steps.any())
        unit = "a step" if stepped else "its time"
        return (more if apart > 0 else less).format(_percent(abs(apart)), unit)


def _percent(share: float) -> str:
    return f"{100 * share:.{0 if share >= 0.1 else 1}f} %"
