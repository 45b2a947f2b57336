"""Matching begin and end records as brackets."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["match_brackets"]

Rows = npt.NDArray[np.intp]


def match_brackets(
    group: npt.NDArray[Any], time: npt.NDArray[np.int64], opens: npt.NDArray[np.bool_]
) -> tuple[Rows, Rows, Rows]:
    """Pair each closing record with the latest open one of its group.

    Parameters
    ----------
    group : array of int
        Only records of the same group can pair.
    time : array of int64
        Records are taken by time, then by position.
    opens : array of bool
        True for an opening record.

    Returns
    -------
    (begins, ends, unmatched)
        Positions of the partners, and of the records without one.
    """
    count = len(group)
    order = np.lexsort((time, group))
    opening = opens[order]
    balance = np.cumsum(np.where(opening, 1, -1))
    new_group = np.diff(group[order], prepend=-1) != 0
    before = np.concatenate(([0], balance[:-1]))
    base = np.maximum.accumulate(np.where(new_group, np.arange(count), 0)) if count else order
    level = np.where(opening, balance, balance + 1) - before[base]
    # At one level of one group, brackets open and close in turn.
    by_level = np.lexsort((np.arange(count), level, group[order]))
    sorted_level, sorted_group = level[by_level], group[order][by_level]
    sorted_open = opening[by_level]
    pair = (
        (sorted_level[1:] == sorted_level[:-1])
        & (sorted_group[1:] == sorted_group[:-1])
        & sorted_open[:-1]
        & ~sorted_open[1:]
    )
    at = np.flatnonzero(pair)
    begins, ends = order[by_level[at]], order[by_level[at + 1]]
    alone = np.ones(count, dtype=bool)
    alone[begins] = alone[ends] = False
    return begins, ends, np.flatnonzero(alone)
