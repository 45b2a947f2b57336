"""What charts of many ranks share: who is late, fewer points, and columns for a source."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from hta_widgets.formats import count, number_runs, run_text

__all__ = [
    "are_whole",
    "columns_of",
    "fact_ranks",
    "last_often",
    "late_ranks",
    "listed",
    "median_of",
    "ramp",
    "thinned",
]

Ints = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]

#: Fewer collectives than this tell nothing of a rank.
_TELLING = 4


def median_of(values: Any, groups: Any) -> npt.NDArray[np.float64]:
    """Return for each value the median of its group."""
    numbers = np.asarray(values, dtype=float)
    _, group = np.unique(np.asarray(groups), return_inverse=True)
    order = np.lexsort((numbers, group))
    ordered = numbers[order]
    sizes = np.bincount(group)
    first = np.cumsum(sizes) - sizes
    middle = (ordered[first + (sizes - 1) // 2] + ordered[first + sizes // 2]) / 2
    found: npt.NDArray[np.float64] = middle[group]
    return found


def are_whole(frame: pd.DataFrame) -> Flags:
    """Return of which rows of `collectives` all ranks' events are there, as far as one knows.

    Where some are missing, who comes last of the others need not be the last.
    """
    found = np.ones(len(frame), dtype=bool)
    if {"ranks", "group_size"} <= set(frame.columns):
        found = (frame["ranks"] >= frame["group_size"]).to_numpy()
    return found


def late_ranks(frame: pd.DataFrame, late: Iterable[int] | None = None) -> list[int]:
    """Return the ranks to mark in red: those given, else those that the headline names."""
    return [int(rank) for rank in (frame.attrs.get("late_ranks", ()) if late is None else late)]


def fact_ranks(frame: pd.DataFrame) -> list[int]:
    """Return the ranks that the headline states as a fact, to mark in ink."""
    return [int(rank) for rank in frame.attrs.get("fact_ranks", ())]


def last_often(frame: pd.DataFrame, late: Iterable[int] | None = None) -> list[int]:
    """Return the ranks to mark as late: those given, or whoever keeps the others waiting most.

    That is a rank that comes last, alone, to more than half of its collectives, at least four, and
    for which more than half of all the waiting is done; only collectives count of which no rank's
    event is missing. It is a reading of these rows alone; `hta_widgets.analysis.stragglers` judges.
    """
    if late is not None:
        wanted = set(late)
        return [int(rank) for rank in np.unique(frame["rank"]) if rank in wanted]
    frame = frame[are_whole(frame)]
    ranks, row = np.unique(frame["rank"].to_numpy(), return_inverse=True)
    last = frame["last_rank"].to_numpy() == frame["rank"].to_numpy()
    met = np.bincount(row, minlength=len(ranks))
    share = np.bincount(row, last, minlength=len(ranks)) / np.maximum(met, 1)
    wait = frame["wait_ns"].to_numpy(float)
    culprit = frame["last_rank"].to_numpy()
    owed = np.array([wait[culprit == rank].sum() for rank in ranks[share > 0.5]])
    marked = ranks[share > 0.5][(met[share > 0.5] >= _TELLING) & (owed > wait.sum() / 2)]
    return [int(rank) for rank in marked]


def thinned(
    x: Any, y: Any, kept_apart: Any, *, columns: int, rows: int
) -> tuple[npt.NDArray[np.intp], Ints]:
    """Return one point for each cell of a grid over all, and how many it stands for.

    Of the cells of a column the highest point of all is kept; of a cell else its first, which
    unlike the highest leaves no pattern.

    Parameters
    ----------
    x, y : array of float
    kept_apart : array of int
        Points of different numbers are never put together.
    columns, rows : int
        Of the grid.
    """
    across, up = (
        _places(np.asarray(values, dtype=float), cells)
        for values, cells in ((x, columns), (y, rows))
    )
    apart = np.asarray(kept_apart, dtype=np.int64)
    column = apart * columns + across
    cell = column * rows + up
    height = np.asarray(y, dtype=float)
    order = np.lexsort((-height, column))
    highest = np.zeros(len(height), dtype=bool)
    highest[order[np.flatnonzero(np.diff(column[order], prepend=-1))]] = True
    order = np.lexsort((~highest, cell))
    first = np.flatnonzero(np.diff(cell[order], prepend=-1))
    return order[first], np.diff(np.append(first, len(order)))


def _places(values: npt.NDArray[np.float64], cells: int) -> Ints:
    low, high = float(values.min()), float(values.max())
    found = (values - low) / max(high - low, 1e-300) * cells
    return np.minimum(found, cells - 1).astype(np.int64)


def listed(ranks: Sequence[int] | Ints, most: int = 3) -> str:
    """``rank 5``, ``ranks 0–4, 6, 7``, ``ranks 0–3, 8–11 and 24 more``."""
    numbers = sorted(int(rank) for rank in ranks)
    shown = number_runs(numbers)[:most]
    words = map(run_text, shown)
    left = len(numbers) - sum(map(len, shown))
    more = f" and {count(left)} more" if left else ""
    return f"rank{'' if len(numbers) == 1 else 's'} {', '.join(words)}{more}"


def ramp(stops: Sequence[str], steps: int) -> list[str]:
    """Return colours between the stops, evenly spaced."""
    known = np.array([[int(each[at : at + 2], 16) for at in (1, 3, 5)] for each in stops])
    wanted = np.linspace(0, len(stops) - 1, steps)
    mixed = [np.interp(wanted, np.arange(len(stops)), known[:, channel]) for channel in range(3)]
    return [
        "#{:02x}{:02x}{:02x}".format(*(round(float(part)) for part in parts))
        for parts in zip(*mixed, strict=True)
    ]


def columns_of(data: pd.DataFrame) -> dict[str, Any]:
    """Return a frame's columns as a source takes them: numbers as arrays, all else as text."""
    return {
        str(name): values.to_numpy() if values.dtype.kind in "iufb" else [str(v) for v in values]
        for name, values in data.items()
    }
