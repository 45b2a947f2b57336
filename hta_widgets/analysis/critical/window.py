"""Which stretch of time a critical path is asked for, and which instances of a range there are."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from hta_widgets.errors import TraceError
from hta_widgets.model import Trace

from .rules import named

__all__ = ["Stretch", "stretch_of"]


@dataclass(frozen=True)
class Stretch:
    """Host events that start within it are analysed, and what they launched.

    Attributes
    ----------
    start_ns, end_ns : int or None
        Both ends belong to it, on the clock of the rank's table; None is open.
    rows : array of int
        The instances of the range, none for the whole rank.
    """

    start_ns: int | None
    end_ns: int | None
    rows: npt.NDArray[np.intp]

    def holds(self, time: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
        """Return which instants lie in it."""
        inside = np.ones(len(time), dtype=bool)
        if self.start_ns is not None:
            inside &= time >= self.start_ns
        if self.end_ns is not None:
            inside &= time <= self.end_ns
        return inside


def stretch_of(
    trace: Trace, annotation: str, instance: int | tuple[int, int] | None
) -> Stretch | None:
    """Return the stretch of some instances of a range, None where the rank has no such range.

    Raises
    ------
    TraceError
        Where there are fewer instances.
    """
    first, last = _numbers(instance)
    if annotation == "":
        return Stretch(None, None, np.empty(0, dtype=np.intp))
    table = trace.table
    host = np.flatnonzero(table.stream < 0)
    rows = host[named(trace, host, lambda name: annotation in name)]
    if not len(rows):
        return None
    if last >= len(rows):
        raise TraceError(
            f"rank {trace.rank} has no instance {last} of {annotation!r}",
            path=trace.path,
            remedy=f"It has {len(rows)}, numbered from 0"
            f" ({_shown([table.names[code] for code in table.name[rows].tolist()])}).",
        )
    chosen = rows[first : last + 1]
    return Stretch(int(table.start_ns[chosen].min()), int(table.end_ns[chosen].max()), chosen)


def _numbers(instance: int | tuple[int, int] | None) -> tuple[int, int]:
    if instance is None:
        return 0, 0
    if isinstance(instance, (int, np.integer)) and not isinstance(instance, bool):
        pair = (int(instance), int(instance))
    elif isinstance(instance, (tuple, list)) and len(instance) == 2:
        pair = (int(instance[0]), int(instance[1]))
    else:
        pair = (-1, -1)
    if not 0 <= pair[0] <= pair[1]:
        raise TraceError(
            f"{instance!r} names no instances of a range",
            remedy="Give a number from 0 on, or the first and the last as a pair.",
        )
    return pair


def _shown(names: list[str], most: int = 5) -> str:
    return ", ".join(names[:most]) + (", …" if len(names) > most else "")
