"""How busy the device is, pixel by pixel, in the slots of two runs on one axis."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pandas as pd

from hta_widgets.analysis.results import result
from hta_widgets.trace.intervals import Covered
from hta_widgets.trace.intervals import union

from hta_widgets.diff.alignment import Alignment
from hta_widgets.diff.sides import Comparison
from hta_widgets.diff.sides import RunSide

__all__ = ["LANES", "lanes"]

Ints = npt.NDArray[np.int64]

#: The kinds that have a lane each, in the order in which they are drawn.
LANES = ("compute", "communication", "memory")


def lanes(diff: Comparison, line: Alignment, *, pair: int = 0, bins: int = 1600) -> pd.DataFrame:
    """Return how busy the device of a pair of ranks is in its own steps, in cells as wide on both.

    Parameters
    ----------
    diff : Comparison
    line : Alignment
        Its slots are drawn one beside the other.
    pair : int, default 0
        Which pair of ranks, by its place.
    bins : int, default 1600
        About how many cells all slots have together.

    Returns
    -------
    DataFrame
        One row per slot, side, kind and cell in which the kind runs: ``slot, cell`` (int64), the
        cell from the start of that rank's step; ``side`` (0 before, 1 after), ``lane`` (place in
        `LANES`); ``busy_ns`` (int64), of the cell, streams united. ``.attrs["cell_ns"]`` is how
        wide cells are; of an end inside of a cell its part before the end.

    Examples
    --------
    >>> lanes(diff, align(diff, "steps")).attrs["cell_ns"]  # doctest: +SKIP
    """
    slots = line.slots
    length = (slots["common_end_ns"] - slots["common_start_ns"]).to_numpy()
    cell_ns = max(1, -(-int(length.sum()) // max(bins, 1)))
    found: dict[str, list[Ints]] = {name: [] for name in ("slot", "side", "lane", "cell", "busy")}
    for place, side in enumerate(diff.sides):
        rank = diff.rank_pairs[pair][place]
        start, end = side.windows[rank].T
        count = -(-(end - start) // cell_ns)
        slot = np.repeat(np.arange(len(start)), count)
        cell = np.arange(int(count.sum())) - np.repeat(np.cumsum(count) - count, count)
        low = start[slot] + cell * cell_ns
        high = np.minimum(low + cell_ns, end[slot])
        for lane, kind in enumerate(LANES):
            covered = _covered(side, rank, kind)
            busy = covered(high) - covered(low)
            kept = busy > 0
            rows = int(kept.sum())
            for name, values in (
                ("slot", slot[kept]),
                ("side", np.full(rows, place)),
                ("lane", np.full(rows, lane)),
                ("cell", cell[kept]),
                ("busy", busy[kept]),
            ):
                found[name].append(values.astype(np.int64))
    columns = {name: np.concatenate(values) for name, values in found.items()}
    columns["busy_ns"] = columns.pop("busy")
    rows = len(columns["slot"])
    return result(
        columns,
        matched={"cells": rows},
        note="" if rows else "no device work in the steps that are compared",
        cell_ns=cell_ns,
        lanes=list(LANES),
    )


def _covered(side: RunSide, rank: int, kind: str) -> Covered:
    part = side.parts[rank]
    start, end = part.clipped(part.of_kinds(kind))
    shift = part.trace.shift_ns
    pieces = union(start + shift, end + shift)
    return Covered(pieces.start, pieces.end)
