"""The strip above the lanes: steps and phases of the rank that stands for all."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from hta_widgets.tiles.layout import Job
from hta_widgets.tiles.layout import Rank
from hta_widgets.trace.table import KINDS

__all__ = ["strip"]

_ANNOTATION = KINDS.index("annotation")

#: Shorter phases, as a share of their step, are not worth a label.
MIN_SHARE = 0.005

Rows = npt.NDArray[np.intp]


def strip(job: Job) -> dict[str, Any]:
    """Return ``steps_rank, steps, phases`` of the scene."""
    rank = _median_rank(job)
    if rank is None:
        return {"steps_rank": None, "steps": [], "phases": []}
    return {
        "steps_rank": rank.rank,
        "steps": [_span(rank, row) for row in rank.steps.tolist()],
        "phases": [
            {**_span(rank, row), "name": name}
            for row in _phases(rank).tolist()
            if (name := phase_name(rank.table.names[int(rank.table.name[row])]))
        ],
    }


def phase_name(name: str) -> str:
    """Return an annotation's name without hash signs: ``## forward ##`` is ``forward``."""
    return name.strip("# \t").partition("#")[0].strip()


def _median_rank(job: Job) -> Rank | None:
    """Return the rank whose steps take the median time, or the first that has events."""
    timed = sorted(
        (int(rank.table.dur_ns[rank.steps].sum()), rank.rank)
        for rank in job.ranks
        if len(rank.steps)
    )
    if timed:
        return job.of_rank(timed[(len(timed) - 1) // 2][1])
    return next((rank for rank in job.ranks if len(rank.table)), None)


def _phases(rank: Rank) -> Rows:
    """Return annotations directly inside a step, or the outermost ones where there is no step."""
    table = rank.table
    on_host = np.array([track.role == "thread" for track in table.tracks], np.bool_)
    rows = np.flatnonzero((table.kind == _ANNOTATION) & on_host[table.track])
    rows = rows[~np.isin(rows, rank.steps)]
    above = _annotation_above(rank, rows)
    if len(rank.steps):
        inside = np.isin(above, rank.steps)
        whole = table.dur_ns[above]
    else:
        inside = above < 0
        whole = np.full(len(rows), rank.range_ns[1] - rank.range_ns[0])
    kept: Rows = rows[inside & (table.dur_ns[rows] >= MIN_SHARE * whole) & (table.dur_ns[rows] > 0)]
    return kept


def _annotation_above(rank: Rank, rows: Rows) -> Rows:
    """Return the innermost annotation around each row, -1 for none."""
    table = rank.table
    above = table.parent[rows].astype(np.intp)
    while True:
        climbing = np.flatnonzero((above >= 0) & (table.kind[above] != _ANNOTATION))
        if not len(climbing):
            return above
        above[climbing] = table.parent[above[climbing]]


def _span(rank: Rank, row: int) -> dict[str, Any]:
    table = rank.table
    return {
        "name": table.names[int(table.name[row])],
        "start": int(table.start_ns[row]) + rank.shift_ns,
        "dur": int(table.dur_ns[row]),
    }
