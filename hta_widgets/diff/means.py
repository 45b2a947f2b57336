"""Sums over ranks as means in whole nanoseconds that still add up."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

__all__ = ["mean_parts"]

Ints = npt.NDArray[np.int64]


def mean_parts(sums: Ints, count: int) -> Ints:
    """Return each of `sums` by `count`, such that they add up to the sum of all by `count`.

    What is left over when all are rounded down goes, one each, to those that lost most by it; the
    total is rounded half up.

    Examples
    --------
    >>> mean_parts(np.array([10, 10, 11]), 3)
    array([3, 3, 4])
    """
    whole, rest = np.divmod(sums.astype(np.int64), count)
    total = (2 * int(sums.sum()) + count) // (2 * count)
    left = total - int(whole.sum())
    order = np.argsort(-rest, kind="stable")
    whole[order[:left]] += 1
    return whole
