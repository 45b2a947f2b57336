"""Validate the windows of requests and divide them into bins.

A bin starts at the first whole ns inside it. For example, a window from 0 to 10 ns in three bins
has bins that start at 0, 4 and 7 ns.
"""

from __future__ import annotations

import numpy as np

from hta_widgets.facts import facts
from hta_widgets.trace.arrays import Ints

MAX_BINS: int = facts("limits")["window_bins"]


def check_window(start: int, end: int, noun: str = "a window") -> None:
    """Raise a `ValueError` if a window is empty."""
    if end <= start:
        raise ValueError(f"{noun} must end after it starts, not {start} to {end}")


def check_bins(bins: int) -> None:
    """Raise a `ValueError` if a number of bins is out of range."""
    if not 1 <= bins <= MAX_BINS:
        raise ValueError(f"bins must be within 1 … {MAX_BINS}, not {bins}")


def bin_starts(start: int, end: int, bins: int) -> Ints:
    """Return the start of each bin of a window, rounded up."""
    # To round up, negate the window and the rounded-down edges.
    return start - bin_edges(0, start - end, bins)[:-1]


def bin_edges(start: int, end: int, bins: int) -> Ints:
    """Return the edges of the bins of a window, rounded down."""
    # Computed in two parts: multiplying a long time by many bins could overflow int64.
    bin_ns, rest = divmod(end - start, bins)
    numbers = np.arange(bins + 1, dtype=np.int64)
    return start + bin_ns * numbers + rest * numbers // bins
