"""Step functions of time, such as the length of a queue: order, running totals, statistics.

A series is a run of changes, sorted by group (a stream, a kind of copy) and time. Its value after
a change holds until the next change of the group.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from hta_widgets.trace.ordering import group_order
from hta_widgets.trace.ordering import stable_order

__all__ = ["STATISTICS", "describe", "held_ns", "in_order", "running_total", "settled", "weighted"]

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Rows = npt.NDArray[np.intp]
Flags = npt.NDArray[np.bool_]

#: Names of the statistics, as pandas' ``describe`` has them.
STATISTICS = ("count", "mean", "std", "min", "25%", "50%", "75%", "max")

_QUARTILES = (0.25, 0.5, 0.75)


def in_order(group: npt.NDArray[Any], groups: int, time_ns: Ints) -> Rows:
    """Return the order by group and time; what falls together stays in its order."""
    if not len(time_ns):
        return np.empty(0, dtype=np.intp)
    by_time = stable_order(time_ns - time_ns.min())
    return by_time[group_order(group[by_time], groups)]


def running_total(group: npt.NDArray[Any], change: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return the sum of the changes of the group so far; rows must be sorted by group.

    Examples
    --------
    >>> running_total(np.array([0, 0, 1, 1]), np.array([2, -1, 5, 1]))
    array([2, 1, 5, 6])
    """
    total = np.cumsum(change)
    if not len(total):
        return total
    first = _first_of_group(group)
    before = np.repeat((total - change)[first], np.diff(np.append(first, len(total))))
    total -= before
    return total


def settled(group: npt.NDArray[Any], time_ns: Ints) -> Flags:
    """Return which changes are the last of their group at their instant."""
    last = np.ones(len(time_ns), dtype=bool)
    last[:-1] = (group[1:] != group[:-1]) | (time_ns[1:] != time_ns[:-1])
    return last


def held_ns(
    group: npt.NDArray[Any], time_ns: Ints, low: int | None = None, high: int | None = None
) -> Ints:
    """Return how long each value holds within the window; the last of a group holds no time."""
    if not len(time_ns):
        return np.empty(0, dtype=np.int64)
    until = np.append(time_ns[1:], time_ns[-1])
    ends = np.append(group[1:] != group[:-1], True)
    until[ends] = time_ns[ends]
    start = time_ns if low is None else np.maximum(time_ns, low)
    until = until if high is None else np.minimum(until, high)
    held: Ints = np.maximum(until - start, 0)
    return held


def weighted(
    group: npt.NDArray[Any], groups: int, value: npt.NDArray[Any], held: Ints
) -> tuple[Floats, Floats]:
    """Return of each group the value times the time that it holds, and that time."""
    time = held.astype(np.float64)
    area = np.bincount(group, weights=value * time, minlength=groups)
    return area.astype(np.float64), np.bincount(group, weights=time, minlength=groups).astype(
        np.float64
    )


def describe(group: npt.NDArray[Any], groups: int, value: npt.NDArray[Any]) -> dict[str, Any]:
    """Return statistics of the values of each group; NaN of groups without any.

    The same as pandas' ``describe``: standard deviation of a sample, quartiles between values.
    """
    found = np.full((groups, len(STATISTICS)), np.nan)
    order = group_order(group, groups)
    first = np.searchsorted(group[order], np.arange(groups + 1))
    for code in range(groups):
        values = value[order[first[code] : first[code + 1]]].astype(np.float64)
        found[code, 0] = len(values)
        if not len(values):
            continue
        std = values.std(ddof=1) if len(values) > 1 else np.nan
        quartiles = np.quantile(values, _QUARTILES)
        found[code, 1:] = (values.mean(), std, values.min(), *quartiles, values.max())
    columns: dict[str, Any] = dict(zip(STATISTICS, found.T, strict=True))
    columns["count"] = columns["count"].astype(np.int64)
    return columns


def _first_of_group(group: npt.NDArray[Any]) -> Rows:
    """Return where each group begins; rows must be sorted by group."""
    return np.flatnonzero(np.append(True, group[1:] != group[:-1]))
