"""Series that keep a value until their next change, such as queue lengths and bandwidths.

Changes are sorted by group and time. For example, the values 2 at 0 ns, 4 at 30 ns and 0 at 40 ns
last for 30, 10 and 0 ns. Their time-weighted mean is (2 * 30 + 4 * 10) / 40 = 2.5.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from hta_widgets.trace.arrays import (
    Array,
    Bools,
    Floats,
    Ints,
    Rows,
    group_order,
    order_and_bounds,
    stable_order,
)

#: Names of the statistics, as in pandas' ``describe``.
STATISTICS = ("count", "mean", "std", "min", "25%", "50%", "75%", "max")

STATISTICS_SCHEMA = {"count": "int64", **dict.fromkeys(STATISTICS[1:], "float64")}


def order_by_group_and_time(group: Array, groups: int, time_ns: Ints) -> Rows:
    """Return a stable sort order of changes by group and time."""
    if not len(time_ns):
        return np.empty(0, dtype=np.intp)
    by_time = stable_order(time_ns - time_ns.min())
    return by_time[group_order(group[by_time], groups)]


def running_total(group: Array, change: Array) -> Array:
    """Return the cumulative sum of changes within each group; rows are sorted by group."""
    total = np.cumsum(change)
    if not len(total):
        return total
    first = np.flatnonzero(np.append(True, group[1:] != group[:-1]))
    total_of_earlier_groups = (total - change)[first]
    total -= np.repeat(total_of_earlier_groups, np.diff(np.append(first, len(total))))
    return total


def is_last_at_instant(group: Array, time_ns: Ints) -> Bools:
    """Return whether each change is the last of its group at its instant."""
    last = np.ones(len(time_ns), dtype=bool)
    last[:-1] = (group[1:] != group[:-1]) | (time_ns[1:] != time_ns[:-1])
    return last


def hold_times_ns(
    group: Array, time_ns: Ints, low: int | None = None, high: int | None = None
) -> Ints:
    """Return how long each value lasts within the window; 0 for the last value of a group."""
    until = np.append(time_ns[1:], time_ns[-1:])
    is_last_of_group = np.append(group[1:] != group[:-1], True)[: len(time_ns)]
    until[is_last_of_group] = time_ns[is_last_of_group]
    start = time_ns if low is None else np.maximum(time_ns, low)
    until = until if high is None else np.minimum(until, high)
    return np.maximum(until - start, 0)


def time_weighted_sums(
    group: Array, groups: int, value: Array, hold_ns: Ints
) -> tuple[Floats, Floats]:
    """Return the sum of each group's values, weighted by duration, and the total duration."""
    weight = hold_ns.astype(np.float64)
    weighted_sum = np.bincount(group, weights=value * weight, minlength=groups).astype(np.float64)
    return weighted_sum, np.bincount(group, weights=weight, minlength=groups).astype(np.float64)


def describe(group: Array, groups: int, value: Array) -> dict[str, Any]:
    """Return the columns of pandas' ``describe`` for each group; NaN for groups without values."""
    statistics = np.full((groups, len(STATISTICS)), np.nan)
    order, bounds = order_and_bounds(group, groups)
    for code in range(groups):
        sample = value[order[bounds[code] : bounds[code + 1]]].astype(np.float64)
        statistics[code, 0] = len(sample)
        if len(sample):
            std = sample.std(ddof=1) if len(sample) > 1 else np.nan
            quartiles = np.quantile(sample, (0, 0.25, 0.5, 0.75, 1))
            statistics[code, 1:] = (sample.mean(), std, *quartiles)
    columns: dict[str, Any] = dict(zip(STATISTICS, statistics.T, strict=True))
    columns["count"] = columns["count"].astype(np.int64)
    return columns
