"""What became of the device work over the whole of each side, for minimaps in these colours."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pandas as pd

from hta_widgets.diff.sides import Comparison
from hta_widgets.diff.sides import RunSide
from hta_widgets.live.event_classes import CLASSES
from hta_widgets.live.event_classes import Codes
from hta_widgets.live.event_classes import EventClasses
from hta_widgets.export.svg.event_looks import GROUPS
from hta_widgets.export.svg.class_colours import ClassParts
from hta_widgets.trace.table import KINDS

__all__ = ["BINS", "class_overview", "class_parts"]

#: A minimap is about as many px wide.
BINS = 600
_DEVICE = [KINDS.index(kind) for kind in ("compute", "communication", "memory")]
_SIDES = ("before", "after")

Ints = npt.NDArray[np.int64]


def class_overview(both: Comparison, classes: EventClasses) -> pd.DataFrame:
    """Return the time of device work of each class in equal parts of both sides.

    Parameters
    ----------
    both : Comparison
    classes : EventClasses

    Returns
    -------
    DataFrame
        One row per part; ``before_N`` and ``after_N`` (int64, ns) for each class N that there is,
        over all ranks, parallel streams added up. ``.attrs`` has ``before_start_ns, before_end_ns``
        and those of after: what is parted, from the first to the last device work.
    """
    columns: dict[str, Ints] = {}
    attrs: dict[str, int] = {}
    for place, (word, side) in enumerate(zip(_SIDES, both.sides, strict=True)):
        work = [_device(side, rank, classes.of_rank(place, rank)) for rank in side.parts]
        start, end, code = (np.concatenate(column) for column in zip(*work, strict=True))
        if not len(start):
            continue
        edges = _edges(int(start.min()), int(end.max()))
        attrs |= {f"{word}_start_ns": int(edges[0]), f"{word}_end_ns": int(edges[-1])}
        for one in np.unique(code).tolist():
            of = code == one
            columns[f"{word}_{one}"] = _time_in(start[of], end[of], edges)
    found = pd.DataFrame(columns, index=range(BINS))
    found.attrs.update(attrs)
    return found


def class_parts(overview: pd.DataFrame, side: int) -> ClassParts | None:
    """Return what each class takes of a side's device work; None where there is none.

    What the legend names first is first: it stands on the ground of a minimap.
    """
    word = _SIDES[side]
    if f"{word}_start_ns" not in overview.attrs:
        return None
    order = [CLASSES.index(name) for _, names in GROUPS for name in names]
    times = {
        code: overview[f"{word}_{code}"].to_numpy(np.float64)
        for code in order
        if f"{word}_{code}" in overview
    }
    whole = sum(times.values(), np.zeros(BINS))
    shares = {
        code: np.divide(time, whole, out=np.zeros(BINS), where=whole > 0)
        for code, time in times.items()
    }
    span = overview.attrs[f"{word}_start_ns"], overview.attrs[f"{word}_end_ns"]
    return ClassParts(*span, shares)


def _edges(start: int, end: int) -> Ints:
    return start + (end - start) * np.arange(BINS + 1, dtype=np.int64) // BINS


def _device(side: RunSide, rank: int, codes: Codes | None) -> tuple[Ints, Ints, Codes]:
    part = side.parts[rank]
    rows = np.flatnonzero(np.isin(part.table.kind, _DEVICE))
    start = part.table.start_ns[rows] + part.trace.shift_ns
    unknown = np.full(len(rows), len(CLASSES) - 1, np.uint8)
    return start, start + part.table.dur_ns[rows], unknown if codes is None else codes[rows]


def _time_in(start: Ints, end: Ints, edges: Ints) -> Ints:
    """Return what intervals, which may overlap, take between neighbouring edges."""
    first = edges[0]
    time = _before(start - first, edges - first) - _before(end - first, edges - first)
    found: Ints = np.diff(time)
    return found


def _before(marks: Ints, edges: Ints) -> Ints:
    """Return the sum of the distances from all marks before each edge to it."""
    marks = np.sort(marks)
    at = marks.searchsorted(edges)
    sums = np.concatenate([[0], np.cumsum(marks)])
    found: Ints = at * edges - sums[at]
    return found
