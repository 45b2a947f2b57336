"""Which ranks behave alike, so that one stands for many, and which ones do not."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Unpack

import numpy as np
import numpy.typing as npt
import pandas as pd

from hta_widgets.analysis.clusters import TIMES, RankFeatures, rank_features
from hta_widgets.analysis.collectives import Clock, stage_of
from hta_widgets.analysis.scope import (
    Part,
    Scope,
    count_kinds,
    narrowed,
    parts,
    result,
    scoped,
)
from hta_widgets.analysis.stragglers import waits_of
from hta_widgets.errors import TraceError
from hta_widgets.trace.names import short_name
from hta_widgets.trace.traceset import TraceSet

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]

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
        note=_note(chosen, features),
        clock=waits.clock,
        tolerance=found.tolerance,
        clusters=int(found.cluster.max(initial=-1)) + 1,
        outliers=rank[found.is_outlier].tolist(),
    )


def _note(chosen: Sequence[Part], features: RankFeatures) -> str:
    if not chosen:
        return "no ranks are selected"
    if len(chosen) == 1:
        return "one rank has no other to be like: load several"
    if not features.steps.any():
        return "no steps are selected: all of a rank's time counts as one"
    if not features.shared:
        return "ranks have no step in common, so means are over different steps"
    return ""


# --- clusters -------------------------------------------------------------------------------------


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


# --- differences ----------------------------------------------------------------------------------


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
