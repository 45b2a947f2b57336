"""Which of many ranges an event falls into."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

__all__ = ["shortest_overlapping"]

Ints = npt.NDArray[np.int64]


def shortest_overlapping(start: Ints, end: Ints, low: Ints, high: Ints) -> Ints:
    """Return for each event the shortest range that overlaps it.

    Half-open: an event that ends where a range starts does not overlap it. Of equally short
    ranges the one that comes later is taken.

    Parameters
    ----------
    start, end : arrays of int64
        The events, sorted by start.
    low, high : arrays of int64
        The ranges.

    Returns
    -------
    array of int64
        Positions of ranges, -1 where none overlaps.

    Examples
    --------
    >>> import numpy as np
    >>> a = np.array
    >>> shortest_overlapping(a([1, 6, 30]), a([2, 8, 31]), a([0, 5]), a([20, 9]))
    array([ 0,  1, -1])
    """
    # Numbers of the ranges by length, so that the least number is the shortest.
    by_length = np.lexsort((-np.arange(len(low)), high - low))
    low, high = low[by_length], high[by_length]
    found = np.full(len(start), len(low), dtype=np.int64)
    left = np.arange(len(start))
    while len(left):
        # Events that end in the order of their starts: a range overlaps a run of them.
        ordered = end[left] >= np.maximum.accumulate(end[left])
        chain, left = left[ordered], left[~ordered]
        first = np.searchsorted(end[chain], low, side="right")
        after = np.searchsorted(start[chain], high, side="left")
        found[chain] = _least(len(chain), first, after)
    found[found >= len(low)] = -1
    return np.append(by_length, -1)[found]


def _least(size: int, first: Ints, after: Ints) -> Ints:
    """Return for each of `size` places the least number of the runs ``[first, after)`` over it.

    Each run is two runs of a power of two, which may overlap; these are halved, all of one length
    at once, until they are single places.
    """
    nothing = len(first)
    least = np.full(size, nothing, dtype=np.int64)
    run = np.flatnonzero(after > first)
    if not len(run):
        return least
    length = after[run] - first[run]
    power = np.frexp(length.astype(np.float64))[1] - 1
    for exponent in range(int(power.max()), -1, -1):
        half = 1 << exponent
        if exponent < int(power.max()):
            # What held for a run of twice this length holds for both its halves.
            wider = least.copy()
            wider[half:] = np.minimum(wider[half:], least[:-half])
            least = wider
        here = run[power == exponent]
        np.minimum.at(least, first[here], here)
        np.minimum.at(least, after[here] - half, here)
    return least
