"""Probability that a rank's lateness at collectives is due to chance.

If batches differ between steps, the lateness of all ranks varies from step to step. For example, a
rank arrives 10, 12 and 11 ns late in three steps, and three other ranks 1, -1, 0, 0, 1, -1, -1, 0
and 1 ns late. Such steps are better evidence than many in which all ranks are 0 to 20 ns late.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import pandas as pd

from hta_widgets.analysis.cross_rank.clock_fit import deviation_from_peers
from hta_widgets.analysis.cross_rank.imposed_waits import MIN_AS_LATE, ImposedWaits
from hta_widgets.trace.arrays import Bools, Floats, Ints

_MIN_OF_SPREAD = 3.5  # minimum mean lateness in standard errors of the others' lateness
_LIKELY_CHANCE = 0.04  # maximum for a steadily late rank if there are several steps
#: Chance is ruled out below these probabilities: for the mean over steps, and for their number.
_MAX_CHANCE, _MAX_CHANCE_OF_REPEATS = 1e-4, 1e-3
_MIN_ERROR = 0.01  # of the excess, because a few equal samples do not show the spread


class LateEvidence(NamedTuple):
    """Per rank, whether its lateness is more than chance."""

    #: Whether lateness far exceeds the standard error of the other ranks' mean lateness.
    is_steady: Bools
    #: Whether the number and similarity of the samples rule out chance.
    is_certain: Bools


def late_evidence(work: ImposedWaits) -> LateEvidence:
    """Compare each rank's lateness with the others in its most costly group."""
    match, rank_count = work.match, len(work.match.traces)
    member = match.lane * rank_count + match.trace
    is_member = np.bincount(member) > 0
    group, rank = np.divmod(np.flatnonzero(is_member), rank_count)
    column = np.cumsum(is_member)[member] - 1

    def sum_by_member(values: Floats) -> Floats:
        totals = np.zeros((len(work.steps), len(group)))
        np.add.at(totals, (work.step, column), values)
        return totals[work.steps >= 0]

    counts = work.is_counted.astype(np.float64)
    entry_counts = sum_by_member(counts)
    own_ns = sum_by_member(counts * work.late.late_ns * work.late.own_share)
    late_ns = pd.DataFrame(own_ns / np.maximum(entry_counts, 1)).where(entry_counts > 0)
    mean_ns, error_ns = (values.fillna(0).to_numpy() for values in (late_ns.mean(), late_ns.sem()))
    # A value minus its distance from the others' median is that median.
    usual_ns = error_ns - deviation_from_peers(group, error_ns)
    chance = _chances(late_ns.to_numpy(), group)
    # Estimated steps may be parts of steps, in which a rank is not equally late.
    is_likely = (chance < _LIKELY_CHANCE) | (len(late_ns) < 2) | (not work.stated_steps)
    by_cost = np.bincount(column, work.lost_ns).argsort(kind="stable")
    is_steady, is_certain = np.zeros((2, rank_count), dtype=bool)
    is_steady[rank[by_cost]] = (is_likely & (mean_ns >= _MIN_OF_SPREAD * usual_ns))[by_cost]
    is_certain[rank[by_cost]] = (chance < _MAX_CHANCE)[by_cost]
    return LateEvidence(is_steady, is_certain)


def is_beyond_chance(samples: Floats) -> Bools:
    """Return whether each column's mean exceeds the other columns' beyond chance."""
    return _chances(samples, np.zeros(samples.shape[1], dtype=np.int64)) < _MAX_CHANCE


def _chances(samples: Floats, group: Ints) -> Floats:
    """Return the probability that a column's mean exceeds its group's other columns by chance.

    Rows of `samples` are steps, NaN if unknown. Columns that are nearly as large are not compared.
    """
    chances = np.ones(samples.shape[1])
    has_samples = ~np.isnan(samples)
    means = np.where(has_samples, samples, 0.0).sum(axis=0) / np.maximum(has_samples.sum(axis=0), 1)
    for column in np.flatnonzero(means > 0).tolist():
        is_peer = group == group[column]
        is_peer[column] = False
        # With two ranks, one is as late as the other is early.
        is_lower = is_peer & (means < MIN_AS_LATE * means[column]) & (is_peer.sum() > 1)
        own, others = (
            samples[:, columns][has_samples[:, columns]] for columns in (column, is_lower)
        )
        chances[column] = _chance(own, others)
    return chances


def is_repeated_beyond_chance(is_costly: Bools) -> Bools:
    """Return which ranks are costly in more steps than chance would give to one of equal ranks.

    `is_costly` has a row per step. If 6 steps are costly because of one of 8 equal ranks, the
    probability that it is always the same rank is 8 * 8**-6. For 5 of 6 steps, it is 8 * 6 * 8**-5.
    """
    rank_count, step_count = is_costly.shape[1], int(is_costly.any(axis=1).sum())
    chances = [
        rank_count * math.comb(step_count, count) / rank_count**count
        for count in is_costly.sum(axis=0).tolist()
    ]
    return np.array(chances) < _MAX_CHANCE_OF_REPEATS


def _chance(own: Floats, others: Floats) -> float:
    """Return an upper bound of the probability that `own` exceeds `others` by chance.

    The bound of Student's test with n degrees of freedom is (1 + t²/n) ** (-n/2). A single step may
    be slow for many reasons, so one slow step among several counts as spread.
    """
    if len(own) < 2:
        return 1.0
    samples = [sample for sample in (own, others) if len(sample)]
    freedom = sum(map(len, samples)) - len(samples)
    spread = sum(float(sample.var()) * len(sample) for sample in samples) / freedom
    spread = max(spread, float(own.var(ddof=1)))
    gap = own.mean() - (others.mean() if len(others) else 0.0)
    if gap <= 0:
        return 1.0
    squared_error = spread * sum(1 / len(sample) for sample in samples)
    t_squared = gap**2 / max(squared_error, (_MIN_ERROR * gap) ** 2)
    return float((1 + t_squared / freedom) ** (-freedom / 2))
