"""How long events of one name take: figures and a histogram."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["MAX_HISTOGRAM_BINS", "duration_figures"]

MAX_HISTOGRAM_BINS = 40

#: From this ratio of longest to shortest on, equal steps would put almost all into one bin.
_LOG_FROM = 20


def duration_figures(durs: npt.NDArray[np.int64]) -> dict[str, Any]:
    """Return count, sum, mean, median, min, max and a histogram of durations, which are not none.

    The histogram has about as many bins as Sturges' rule asks for, doubled, and no bin narrower
    than a nanosecond; its steps are equal, or grow by an equal factor (``scale``).
    """
    low, high = int(durs.min()), int(durs.max())
    edges, scale = _edges(low, high, len(durs))
    counts, _ = np.histogram(durs, edges)
    return {
        "count": len(durs),
        "sum": int(durs.sum()),
        "mean": float(durs.mean()),
        "median": float(np.median(durs)),
        "min": low,
        "max": high,
        "edges": edges.tolist(),
        "counts": counts.tolist(),
        "scale": scale,
    }


def _edges(low: int, high: int, count: int) -> tuple[npt.NDArray[np.float64], str]:
    if low == high:
        return np.array((low, low + 1), np.float64), "linear"
    wanted = min(MAX_HISTOGRAM_BINS, 2 * (count.bit_length() + 1))
    if low > 0 and high / low >= _LOG_FROM:
        edges = np.geomspace(low, high, wanted + 1)
        scale = "log"
    else:
        edges = np.linspace(low, high, min(wanted, high - low) + 1)
        scale = "linear"
    # Whatever the steps were rounded to: the ends are exact, so that nothing falls out.
    edges[0], edges[-1] = low, high
    return edges, scale
