"""Clusters of similar ranks, and each rank's device time over time.

Ranks are compared by features: times per step, cost to other ranks, and kernels. For example, ranks
that compute for 60, 61 and 70 % of a step form two clusters at a tolerance of 5 % of a step.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from hta_widgets.analysis.cross_rank.arrivals import Clock
from hta_widgets.analysis.cross_rank.imposed_waits import imposed_waits, mean_lost_shares
from hta_widgets.analysis.cross_rank.parallel_groups import pipeline_stages
from hta_widgets.analysis.cross_rank.waits import (
    CollectiveWaits,
    RankWaits,
    collective_waits,
    wait_intervals,
)
from hta_widgets.analysis.frames import concat_arrays, result_frame
from hta_widgets.analysis.idle import unrecorded_work
from hta_widgets.analysis.map_ranks import map_ranks
from hta_widgets.analysis.scope import (
    DEVICE_WORK_KINDS,
    RankPart,
    RankParts,
    Window,
    count_by_kind,
    narrow_selection,
    rank_parts,
)
from hta_widgets.analysis.steps import device_times, host_steps, step_length, steps_ahead
from hta_widgets.arguments import check_arguments
from hta_widgets.errors import TraceError
from hta_widgets.facts import facts, note_text
from hta_widgets.taxonomy import KINDS
from hta_widgets.tiles.windows import bin_edges
from hta_widgets.trace.arrays import Bools, Floats, Ints, positions_in
from hta_widgets.trace.intervals import (
    CumulativeCoverage,
    Intervals,
    clip,
    subtract,
    total_length,
    union,
)
from hta_widgets.trace.names import short_name
from hta_widgets.trace.summary import device_word_attrs
from hta_widgets.trace.traceset import Selection, TraceSet

#: Columns with a rank's mean time per step.
TIMES: tuple[str, ...] = (
    "step_ns", "own_ns", "compute_ns", "idle_ns", "exposed_communication_ns", "exposed_wait_ns",
    "unmatched_exposed_ns",
)  # fmt: skip
_MAX_KERNELS = 48  # compared individually; all other kernel names share a column

HEATMAP_METRICS: tuple[str, ...] = tuple(facts("metrics"))
_MAX_BINS: int = facts("limits")["window_bins"]
_MAX_ERRORS = 3.0  # difference, in standard errors, that may be due to chance
_FEW_STEPS_INCREASE = 1.5  # relative increase of the limit for two steps; halved for three
_MAX_OUTLIER_SHARE = 1 / 3  # of a stage's ranks; larger clusters are not outliers
_MAX_REASONS = 3
_TOLERANCE_FACTOR = 1.5  # applied to the tolerance repeatedly while there are too many clusters
_BLOCK = 64  # number of ranks compared with all others at once; fits in the CPU cache

#: By feature, causes first: the column of times whose standard error may raise the limit, and the
#: clauses for a rank with more and with less of that time.
_FEATURE_WORDS: dict[str, tuple[str, str, str]] = {
    "compute": ("compute_ns", "computes {} longer", "computes {} shorter"),
    "idle": (
        "idle_ns",
        "its device is idle for {} more of {}",
        "its device is idle for {} less of {}",
    ),
    "kernels": ("", "", ""),
    "transfer": (
        "exposed_communication_ns",
        "communicates without computing for {} more of {}",
        "communicates without computing for {} less of {}",
    ),
    "lost": (
        "",
        "costs the others {} more of their time",
        "costs the others {} less of their time",
    ),
    "wait": ("exposed_wait_ns", "waits for {} more of {}", "waits for {} less of {}"),
    "step": ("step_ns", "its steps take {} longer", "its steps take {} shorter"),
}
_FEATURES = tuple(_FEATURE_WORDS)

#: Features whose differences are stated relative to their typical time, not to a step.
_OF_TYPICAL = frozenset({"compute", "step"})


@dataclass(frozen=True, slots=True, eq=False)
class RankFeatures:
    """Times and kernels by which ranks are compared, with one row per rank."""

    times_ns: Floats  # by `TIMES`, averaged over steps
    error_ns: Floats  # standard errors of the means
    lost_share: Floats
    kernels: Floats  # shares of compute time, by kernel name
    kernel_names: list[str]
    steps: Ints
    shared: bool  # whether all ranks are averaged over the same steps


def rank_features(chosen: RankParts, waits: CollectiveWaits) -> RankFeatures:
    """Return the features of ranks, averaged over the steps that all ranks have.

    If no step is shared, all steps of each rank are used. A rank without steps counts as one step.
    """
    traces = chosen.owner
    samples, shared = _rank_samples(chosen, waits)
    share, kernel_names = _kernel_shares([sample.kernel_ns for sample in samples])
    work = imposed_waits(traces, chosen.selection, waits.clock)
    lost = mean_lost_shares(work) if len(work.match) else np.zeros(len(traces))
    return RankFeatures(
        times_ns=np.array([sample.times for sample in samples]).reshape(-1, len(TIMES)),
        error_ns=np.array([sample.error for sample in samples]).reshape(-1, len(TIMES)),
        lost_share=lost[np.isin(traces.ranks, chosen.ranks)],
        kernels=share,
        kernel_names=kernel_names,
        steps=np.array([sample.steps for sample in samples], dtype=np.int64),
        shared=shared,
    )


class _RankSample(NamedTuple):
    numbers: Ints  # of all its steps
    steps: int  # number of steps averaged
    times: Floats  # by `TIMES`
    error: Floats  # standard errors of the times
    kernel_ns: dict[str, float]


def _rank_samples(chosen: RankParts, waits: CollectiveWaits) -> tuple[list[_RankSample], bool]:
    """Return the features of each rank, and whether all are averaged over the same steps."""
    ahead = steps_ahead(chosen.owner)

    def samples_of(ranks: RankParts, steps: Ints | None) -> list[_RankSample]:
        each = waits.arguments_by_rank(ranks.ranks)
        return list(map_ranks(ranks, _features_of_rank, steps, ahead, each=each))

    samples = samples_of(chosen, None)
    with_steps = [sample.numbers for sample in samples if len(sample.numbers)]
    numbers, counts = np.unique(concat_arrays(with_steps), return_counts=True)
    common = numbers[counts == len(with_steps)]
    if not len(common):
        return samples, False
    # Only the few ranks with steps that others lack must be computed again.
    positions = [
        position
        for position, sample in enumerate(samples)
        if len(sample.numbers) not in {0, len(common)}
    ]
    members = [chosen.traces[position] for position in positions]
    rest = RankParts(members, chosen.selection, chosen.executor)
    for position, sample in zip(positions, samples_of(rest, common), strict=True):
        samples[position] = sample
    return samples, True


def _features_of_rank(
    part: RankPart, common: Ints | None, ahead: Ints, waits: RankWaits
) -> _RankSample:
    """Return a rank's features over the `common` steps; over all of its steps if None."""
    all_numbers, start, end = host_steps(part)
    is_used = slice(None) if common is None else np.isin(all_numbers, common)
    numbers = all_numbers[is_used]
    if len(numbers):
        code, dur = positions_in(numbers, part.table.step), (end - start)[is_used]
    else:
        code, dur = _whole_time_as_step(part)
    spent = device_times(part, code, len(dur), waits)
    if len(numbers):
        dur = step_length(ahead, numbers, dur, spent["device_span_ns"])
    own_ns = dur - spent["exposed_wait_ns"]
    times = np.stack([dur, own_ns, *(spent[name] for name in TIMES[2:])], axis=1)
    error = np.zeros(len(TIMES))
    if len(dur) > 1:
        error = times.std(axis=0, ddof=1) / np.sqrt(len(dur))
    kernel_ns = _kernel_times(part, code)
    return _RankSample(all_numbers, len(numbers), times.mean(axis=0), error, kernel_ns)


def _whole_time_as_step(part: RankPart) -> tuple[Ints, Ints]:
    """Return step 0 for the selected events, -1 for other events, and the step's duration."""
    code = np.full(len(part.trace), -1, dtype=np.int64)
    code[part.without_window.rows] = 0
    start, end = part.clip_rows(part.rows)
    return code, np.array([int(end.max()) - int(start.min()) if len(start) else 0])


def _kernel_times(part: RankPart, step: Ints) -> dict[str, float]:
    """Return the time of selected compute kernels within steps (not -1), by name."""
    table, rows = part.table, part.rows
    is_compute = (part.kinds == KINDS.index("compute")) & (table.stream[rows] >= 0)
    rows = rows[is_compute & (step[rows] >= 0)]
    time_ns = np.bincount(table.name[rows], part.durations(rows), minlength=len(table.names))
    return {table.names[name]: time_ns[name] for name in np.flatnonzero(time_ns).tolist()}


def _kernel_shares(kernels: Sequence[dict[str, float]]) -> tuple[Floats, list[str]]:
    """Return kernels' shares of each rank's compute, and their names; the last may be "others"."""
    table = pd.DataFrame(list(kernels), index=range(len(kernels))).fillna(0.0)
    share = np.array(table, dtype=np.float64, order="C")
    share /= np.maximum(share.sum(axis=1, keepdims=True), 1.0)
    # A kernel matters if it takes much of one rank's time, even if few ranks run it.
    order = np.argsort(-share.max(axis=0, initial=0.0), kind="stable")
    first, rest = order[:_MAX_KERNELS], order[_MAX_KERNELS:]
    names = table.columns[first].tolist()
    if not len(rest):
        return share[:, first], names
    other = share[:, rest].sum(axis=1, keepdims=True)
    return np.concatenate((share[:, first], other), axis=1), [*names, "others"]


@check_arguments
def rank_time_heatmap(
    traces: TraceSet,
    *,
    metric: str = "busy",
    bins: int = 100,
    clock: Clock | None = None,
    selection: Selection | None = None,
    window: Window | None = None,
    ranks: Iterable[int] | None = None,
) -> pd.DataFrame:
    """Return the exact device time of each rank in bins of time.

    `metric` determines what counts:

    - ``busy``: any work; ``compute``, ``communication``: any work of that kind
    - ``exposed_communication``: communication without compute
    - ``waiting``: time in a collective before its last rank arrives (`exposed_waits`), with or
      without compute
    - ``idle``: no work, between the first start and the last end of the rank's selected work at any
      time, without ``unrecorded_ns`` of `temporal_breakdown`

    Parameters
    ----------
    traces : TraceSet
    metric : {"busy", "compute", "communication", "exposed_communication", "waiting", "idle"}
    bins : int, default 100
        Number of bins in the window; edges are rounded down to nanoseconds.
    clock : {"host", "fitted"}, optional
        The clock of arrivals. Default: fitted, or the trace set's if no collective spans two ranks.
    selection : Selection, optional
        The events to analyze. Default: all.
    window : (start_ns, end_ns), optional
        The time range to divide. Default: the window of the selection, or else the whole job.
    ranks : iterable of int, optional
        Restricts the selection to these ranks.

    Returns
    -------
    DataFrame
        One row per rank and bin: ``rank, bin, start_ns, end_ns, value_ns`` (int64) and ``share``
        (float64) of the bin, 0..1, NaN for a bin without duration. The values of a rank add up to
        its time in the window. ``.attrs["span_ns"]``: the part of the window in each rank's span,
        as in `temporal_breakdown`.

    Notes
    -----
    Busy time includes waiting in collectives, so the rank that others wait for is the least busy.
    """
    if metric not in HEATMAP_METRICS:
        remedy = f"The metrics are {', '.join(HEATMAP_METRICS)}."
        raise TraceError(f"unknown metric {metric!r}", remedy=remedy)
    if not 1 <= bins <= _MAX_BINS:
        raise TraceError(f"invalid number of bins: {bins}", remedy=f"Ask for 1 to {_MAX_BINS}.")
    chosen = narrow_selection(traces, selection, window, ranks)
    edges = _bin_edges(chosen, bins)
    # Idle time depends on the surrounding work, which may lie outside the window.
    parts = rank_parts(traces, replace(chosen, start_ns=None, end_ns=None))
    waits = collective_waits(chosen.owner, clock) if metric == "waiting" else None
    arguments = None if waits is None else waits.arguments_by_rank(parts.ranks)
    binned = list(map_ranks(parts, _time_in_bins, metric, edges, each=arguments))
    times_ns = np.array([time_ns for time_ns, _, _ in binned], dtype=np.int64).reshape(-1, bins)
    starts, ends = np.tile(edges[:-1], len(parts)), np.tile(edges[1:], len(parts))
    length = np.where(ends > starts, ends - starts, np.nan)
    clock_attr: dict[str, Any] = {} if waits is None else {"clock": waits.clock}
    return result_frame(
        {
            "rank": np.array(parts.ranks, dtype=np.int64).repeat(bins),
            "bin": np.tile(np.arange(bins), len(parts)),
            "start_ns": starts,
            "end_ns": ends,
            "value_ns": times_ns.reshape(-1),
            "share": times_ns.reshape(-1) / length,
        },
        matched=count_by_kind(parts),
        note=_heatmap_note([has_work for _, has_work, _ in binned], metric, times_ns),
        **device_word_attrs(parts.owner),
        span_ns=[span for _, _, span in binned],
        metric=metric,
        **clock_attr,
    )


def _bin_edges(selection: Selection, bins: int) -> Ints:
    job = selection.owner
    low = job.start_ns if selection.start_ns is None else selection.start_ns
    high = max(job.end_ns if selection.end_ns is None else selection.end_ns, low)
    return bin_edges(low, high, bins)


def _metric_times(part: RankPart, metric: str, waits: RankWaits | None) -> Intervals:
    if metric == "busy":
        return part.union_of_kinds(*DEVICE_WORK_KINDS)
    if metric == "exposed_communication":
        return subtract(part.union_of_kinds("communication"), part.union_of_kinds("compute"))
    if metric == "waiting" and waits is not None:
        return union(*wait_intervals(part, waits)[1:])
    if metric == "idle":
        start, end = part.span or (0, 0)
        idle = subtract(union([start], [end]), part.union_of_kinds(*DEVICE_WORK_KINDS))
        return subtract(subtract(idle, part.unrecorded), unrecorded_work(part.trace))
    return part.union_of_kinds(metric)


def _time_in_bins(
    part: RankPart, metric: str, edges: Ints, waits: RankWaits | None = None
) -> tuple[Ints, bool, int]:
    """Return the time in each bin, whether the device has work, and its span within the bins."""
    covered = CumulativeCoverage(*_metric_times(part, metric, waits))
    edges = edges - part.trace.shift_ns
    times_ns: Ints = np.diff(covered(edges))
    first, last = part.span or (0, 0)
    span = clip(union([first], [last]), int(edges[0]), int(edges[-1]))
    span_ns = total_length(subtract(span, part.unrecorded))
    return times_ns, bool(len(part.device_work_rows())), span_ns


def _heatmap_note(has_work: Sequence[bool], metric: str, times_ns: Ints) -> str:
    if not has_work:
        return note_text("no_ranks")
    if not any(has_work):
        return note_text("no_device_work")
    if not times_ns.any():
        return f"the selection has no {metric.replace('_', ' ')} time"
    return ""


@check_arguments
def rank_clusters(
    traces: TraceSet,
    *,
    tolerance: float = 0.05,
    max_clusters: int = 16,
    clock: Clock | None = None,
    selection: Selection | None = None,
    window: Window | None = None,
    ranks: Iterable[int] | None = None,
) -> pd.DataFrame:
    """Return clusters of similar ranks, their representatives, and outliers.

    Two ranks are similar if none of these differs by more than `tolerance`:

    - times per step: compute; device idle time; exposed waits in collectives; other exposed
      communication; and the step time, as shares of the median rank's step (without steps, of the
      rank's own time)
    - the rank's cost to others, as a share of their time: ``lost_share`` of `stragglers`
    - the kernels: the share of compute time spent in different kernels

    Times are means over the steps that all ranks have. If times vary so much between steps that a
    difference may be chance, more than the tolerance is allowed: three standard errors of the
    median rank, times ``1 + 1.5 / (steps - 1)``, because few steps are weak evidence. Ranks of
    different pipeline stages do different work and are never in the same cluster.

    If files of other ranks of a collective are missing, any part of its time may be waiting. Two
    ranks are then different only if they differ for every possible amount of waiting.

    The rank with the most similar ranks represents them. The same rule then applies to the
    remaining ranks, so every rank is similar to its representative. Outliers are the ranks of
    clusters with at most a third of the stage's ranks and at most half as many as the stage's
    largest cluster. If all ranks differ, none is an outlier.

    Parameters
    ----------
    traces : TraceSet
    tolerance : float, default 0.05
        The allowed difference as a share of a step. Healthy ranks of a job differ by a few percent.
    max_clusters : int, default 16
        While there are more clusters than this and than pipeline stages, the tolerance is raised by
        half. Outliers are still judged by the given tolerance.
    clock : {"host", "fitted"}, optional
        The clock of arrivals. Default: fitted, or the trace set's if no collective spans two ranks.
    selection, window : Selection, (start_ns, end_ns), optional
        The events to analyze, restricted by time. Default: all.
    ranks : iterable of int, optional
        Restricts the selection to these ranks, which are then compared with each other.

    Returns
    -------
    DataFrame
        One row per rank. ``rank``; ``cluster`` (int64), from 0, largest first; ``representative``
        (int64), the rank that represents the cluster; ``distance`` (float64), the largest
        difference from the representative divided by the allowed difference, so 0..1;
        ``from_typical`` (float64), the same relative to the representative of the stage's largest
        cluster; ``is_outlier`` (bool); ``why`` (str), at most three differences from that
        representative, causes first, empty in the largest cluster; ``stage`` (int64) of the
        pipeline; ``steps`` (int64), the number of averaged steps, 0 if all of the rank's time
        counts as one; and per step, in ns (float64): ``step_ns, own_ns, compute_ns, idle_ns,
        exposed_communication_ns, exposed_wait_ns, unmatched_exposed_ns``, defined as in
        `step_times`, where ``step_ns`` is ``dur_ns``, or ``device_span_ns`` if hosts are ahead of
        devices; ``lost_share`` (float64).

        ``.attrs["tolerance"]`` is the tolerance of the clusters, ``.attrs["clusters"]`` their
        number, ``.attrs["outliers"]`` the ranks that are outliers.
    """
    if not tolerance > 0 or max_clusters < 1:
        raise TraceError(
            f"ranks cannot be put into {max_clusters} clusters with a tolerance of {tolerance}",
            remedy="Both must be positive.",
        )
    chosen = rank_parts(traces, selection, window, ranks)
    waits = collective_waits(chosen.owner, clock)
    features = rank_features(chosen, waits)
    stages = pipeline_stages(chosen.owner)
    stage = np.array([stages[rank] for rank in chosen.ranks], dtype=np.int64)
    clustering = cluster_ranks(features, stage, tolerance, max_clusters)
    rank = np.array(chosen.ranks, dtype=np.int64)
    return result_frame(
        {
            "rank": rank,
            "cluster": clustering.cluster,
            "representative": rank[clustering.representative],
            "distance": clustering.distance,
            "from_typical": clustering.from_typical,
            "is_outlier": clustering.is_outlier,
            "why": pd.array(clustering.why, dtype="str"),
            "stage": stage,
            "steps": features.steps,
            **dict(zip(TIMES, features.times_ns.T, strict=True)),
            "lost_share": features.lost_share,
        },
        matched=count_by_kind(chosen),
        note=_clusters_note(chosen, features),
        clock=waits.clock,
        tolerance=clustering.tolerance,
        clusters=int(clustering.cluster.max(initial=-1)) + 1,
        outliers=rank[clustering.is_outlier].tolist(),
        **device_word_attrs(chosen.owner),
    )


def _clusters_note(chosen: RankParts, features: RankFeatures) -> str:
    if not len(chosen):
        return note_text("no_ranks")
    if len(chosen) == 1:
        return "a single rank cannot be compared: load several ranks"
    if not features.steps.any():
        return "no steps are selected: each rank's whole time counts as one step"
    if not features.shared:
        return "the ranks have no step in common, so their means are over different steps"
    return ""


@dataclass(frozen=True, slots=True, eq=False)
class RankClusters:
    """Clusters of ranks. Arrays have one item per rank; `representative` is a position."""

    cluster: Ints
    representative: Ints
    distance: Floats
    from_typical: Floats
    is_outlier: Bools
    why: list[str]
    tolerance: float


def cluster_ranks(
    features: RankFeatures, stage: Ints, tolerance: float, max_clusters: int
) -> RankClusters:
    """Return clusters of ranks with similar features within each stage.

    Too many clusters raise the tolerance. Outliers still refer to the given tolerance.
    """
    compared = _FeatureComparison.build(features, tolerance)
    distances = compared.distances()
    distances[stage[:, None] != stage[None, :]] = np.inf
    representative, factor = _representatives(distances, 1.0), 1.0
    is_outlier, typical = _outliers(representative, stage)
    why = [
        compared.reasons(position, usual) if representative[position] != usual else ""
        for position, usual in enumerate(typical.tolist())
    ]
    while len(np.unique(representative)) > max(max_clusters, len(np.unique(stage))):
        factor *= _TOLERANCE_FACTOR
        representative = _representatives(distances, factor)
    # Number the clusters by size, largest first.
    distinct, sizes = np.unique(representative, return_counts=True)
    number = np.zeros(len(stage), dtype=np.int64)
    number[distinct[np.lexsort((distinct, -sizes))]] = np.arange(len(distinct))
    position = np.arange(len(stage))
    return RankClusters(
        cluster=number[representative],
        representative=representative,
        distance=distances[position, representative] / factor,
        from_typical=distances[position, typical],
        is_outlier=is_outlier,
        why=why,
        tolerance=tolerance * factor,
    )


def _representatives(distances: Floats, limit: float) -> Ints:
    """Return each rank's representative, repeatedly choosing the one similar to most other ranks.

    Ties go to the rank closest to its similar ranks, then to the first.
    """
    is_similar = distances <= limit
    similar_distances = np.where(is_similar, distances, 0.0)
    representatives = np.arange(len(distances))
    is_remaining = np.ones(len(distances), dtype=bool)
    count = is_similar.sum(axis=1)
    distance_sum = similar_distances.sum(axis=1)
    while is_remaining.any():
        max_count = int(count[is_remaining].max())
        if max_count <= 1:
            break
        candidates = np.flatnonzero(is_remaining & (count == max_count))
        closest = int(candidates[np.argmin(distance_sum[candidates])])
        members = np.flatnonzero(is_similar[closest] & is_remaining)
        representatives[members] = closest
        is_remaining[members] = False
        count -= is_similar[members].sum(axis=0)
        distance_sum -= similar_distances[members].sum(axis=0)
    return representatives


def _outliers(representative: Ints, stage: Ints) -> tuple[Bools, Ints]:
    """Return a mask of outliers, and the representative of each rank's stage's largest cluster."""
    is_outlier = np.zeros(len(stage), dtype=bool)
    typical = np.zeros(len(stage), dtype=np.int64)
    size_by_representative = np.bincount(representative, minlength=len(stage))
    size = size_by_representative[representative]
    for number in np.unique(stage).tolist():
        is_member = stage == number
        largest = int(np.where(is_member, size_by_representative, -1).argmax())
        typical[is_member] = largest
        is_small = (size <= _MAX_OUTLIER_SHARE * is_member.sum()) & (2 * size <= size[largest])
        is_outlier |= is_member & is_small
    return is_outlier, typical


@dataclass(frozen=True, slots=True, eq=False)
class _FeatureComparison:
    """Features of ranks as shares of a step, by rank and feature (`_FEATURES`); 0 for kernels.

    Shares are between `low` and `high`, which differ if the files leave the waiting time unknown.
    """

    features: RankFeatures
    low: Floats
    high: Floats
    limits: Floats  # allowed difference of each feature

    @classmethod
    def build(cls, features: RankFeatures, tolerance: float) -> _FeatureComparison:
        count = len(features.times_ns)
        time = dict(zip(TIMES, features.times_ns.T, strict=True))
        # Without steps, shares refer to each rank's own time, as recordings differ in length.
        step = time["step_ns"]
        if count and features.steps.any():
            step = np.full(count, np.median(step))
        step = np.maximum(step, 1.0)
        exposed, wait = time["exposed_communication_ns"], time["exposed_wait_ns"]
        max_wait = np.maximum(np.minimum(wait + time["unmatched_exposed_ns"], exposed), wait)
        low = {
            "compute": time["compute_ns"] / step,
            "idle": time["idle_ns"] / step,
            "kernels": np.zeros(count),
            "transfer": (exposed - max_wait) / step,
            "lost": features.lost_share,
            "wait": wait / step,
            "step": time["step_ns"] / step,
        }
        high = {**low, "transfer": (exposed - wait) / step, "wait": max_wait / step}
        return cls(
            features,
            np.stack([low[name] for name in _FEATURES], axis=1),
            np.stack([high[name] for name in _FEATURES], axis=1),
            _allowed_differences(features, step, tolerance),
        )

    def distances(self) -> Floats:
        """Return each pair's largest difference, relative to the allowed difference."""
        count, kernels = len(self.low), self.features.kernels.T
        limit = self.limits[_FEATURES.index("kernels")]
        distances = np.zeros((count, count))
        for first in range(0, count, _BLOCK):
            rows = slice(first, first + _BLOCK)
            block = distances[rows]
            for share in kernels:
                block += np.abs(share[rows, None] - share)
            block /= 2 * limit
            for low_values, high_values, allowed in zip(
                self.low.T, self.high.T, self.limits.tolist(), strict=True
            ):
                np.maximum(block, (low_values[rows, None] - high_values) / allowed, out=block)
                np.maximum(block, (low_values - high_values[rows, None]) / allowed, out=block)
        return distances

    def reasons(self, rank: int, representative: int) -> str:
        """Return at most three differences that exceed their limits as text, causes first."""
        excess = self.low[rank] - self.high[representative]
        shortfall = self.high[rank] - self.low[representative]
        differences = np.select([excess > 0, shortfall < 0], [excess, shortfall], 0.0)
        kernel_differences = self.features.kernels[rank] - self.features.kernels[representative]
        # A share that moves from one kernel to another changes both, so the sum is halved.
        differences[_FEATURES.index("kernels")] = np.abs(kernel_differences).sum() / 2
        relative = np.abs(differences) / self.limits
        count = min(int((relative > 1).sum()), _MAX_REASONS)
        largest = np.argsort(-relative, kind="stable")[:count]
        clauses = []
        for number in sorted(largest.tolist()):
            feature, difference = _FEATURES[number], float(differences[number])
            usual = float(self.low[representative, number])
            if feature == "kernels":
                clauses.append(self._kernel_text(kernel_differences))
            elif feature in _OF_TYPICAL and usual > 0:
                clauses.append(self._time_text(feature, difference / usual))
            else:
                clauses.append(self._time_text(feature, difference))
        return "; ".join(clauses)

    def _kernel_text(self, differences: Floats) -> str:
        kernel = int(np.abs(differences).argmax())
        share = float(differences[kernel])
        return (
            f"runs other kernels: {short_name(self.features.kernel_names[kernel])} takes"
            f" {_percent(abs(share))} {'more' if share > 0 else 'less'} of its compute time"
        )

    def _time_text(self, feature: str, difference: float) -> str:
        _, more_text, less_text = _FEATURE_WORDS[feature]
        unit = "a step" if self.features.steps.any() else "its time"
        return (more_text if difference > 0 else less_text).format(_percent(abs(difference)), unit)


def _allowed_differences(features: RankFeatures, step_ns: Floats, tolerance: float) -> Floats:
    """Return the limit of each feature: the tolerance, or more if a difference may be chance."""
    if not len(step_ns):
        return np.full(len(_FEATURES), tolerance)
    error_ns = {"": np.zeros(len(step_ns)), **dict(zip(TIMES, features.error_ns.T, strict=True))}
    columns = [column for column, _, _ in _FEATURE_WORDS.values()]
    median_errors = [float(np.median(error_ns[column] / step_ns)) for column in columns]
    steps = int(np.median(features.steps))
    max_errors = _MAX_ERRORS * (1 + _FEW_STEPS_INCREASE / max(steps - 1, 1))
    return np.maximum(tolerance, max_errors * np.array(median_errors))


def _percent(share: float) -> str:
    return f"{100 * share:.{0 if share >= 0.1 else 1}f} %"
