"""Parts of communication events in which a rank waits, or lets others wait, as intervals."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from hta_widgets.trace.spans import Ints
from hta_widgets.trace.intervals import Intervals
from hta_widgets.trace.intervals import subtract
from hta_widgets.trace.intervals import union

__all__ = ["Pieces", "pieces_of", "waits_without_transfers"]


@dataclass(frozen=True, slots=True)
class Pieces:
    """Parts of communication events of one rank, in the order of a lane.

    Attributes
    ----------
    start, dur : array of int64
    row : array of int64
        The event that each is of.
    """

    start: Ints
    dur: Ints
    row: Ints

    def of_rows(self, member: npt.NDArray[np.bool_]) -> Pieces:
        """Return those of the events for which `member`, by row, is true."""
        kept = member[self.row]
        return Pieces(self.start[kept], self.dur[kept], self.row[kept])


def pieces_of(start: Ints, dur: Ints, row: Ints) -> Pieces:
    """Return the pieces that have a length, in the order of a lane."""
    order = np.lexsort((row, -dur, start))
    order = order[dur[order] > 0]
    return Pieces(start[order], dur[order], row[order])


def waits_without_transfers(waits: Pieces, transfers: Intervals) -> Pieces:
    """Return when a rank does nothing but wait: the union of its waits less all its transfers.

    Of waits that overlap, each moment is of the one that began first; of those that began
    together, of the longest.
    """
    end = waits.start + waits.dur
    if not len(end):
        return waits
    # What earlier waits cover already is theirs.
    before = np.r_[waits.start[0], np.maximum.accumulate(end)[:-1]]
    start = np.maximum(waits.start, before)
    own = end > start
    start, end, row = start[own], end[own], waits.row[own]
    left = subtract(Intervals(start, end), union(transfers.start, transfers.end))
    of = np.searchsorted(start, left.start, side="right") - 1
    return Pieces(left.start, left.end - left.start, row[of])
