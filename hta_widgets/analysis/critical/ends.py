"""The last work of a stream that had ended by an instant."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from hta_widgets.trace.trace import Trace
from hta_widgets.trace.derived import derived

from hta_widgets.analysis.critical.nodes import busy_rows

__all__ = ["Ends"]

Ints = npt.NDArray[np.int64]
Rows = npt.NDArray[np.intp]


class Ends:
    """Device work by stream and end.

    Parameters
    ----------
    trace : Trace
    rows : array of int
        The device work.
    """

    def __init__(self, trace: Trace, rows: Rows) -> None:
        table = trace.table
        end = table.start_ns[rows] + table.dur_ns[rows]
        #: Longer than any time, so a stream and a time fit into one number.
        self._width = int(end.max(initial=0)) + 2
        key = table.track[rows].astype(np.int64) * self._width + end
        order = np.argsort(key, kind="stable")
        self._key, self._row = key[order], rows[order]
        self._track = table.track[self._row]

    @classmethod
    def of_work(cls, trace: Trace) -> Ends:
        """Return the ends of all work of the rank's devices, kept with the trace."""
        key = ("ends of device work", hash(trace.table.kind.tobytes()))
        return derived(trace, key, lambda: cls(trace, busy_rows(trace)))

    def before(self, track: npt.NDArray[np.int32], time: Ints, below: Rows | None = None) -> Ints:
        """Return the row of the last to end at or before `time` on `track`, -1 for none.

        `below` leaves out rows from that number on, for pieces of work that ask for the one
        before themselves.
        """
        if not len(self._row):
            return np.full(len(time), -1, dtype=np.int64)
        asked = track.astype(np.int64) * self._width + np.clip(time, -1, self._width - 1)
        place = np.searchsorted(self._key, asked, side="right") - 1
        while below is not None:
            # Work without duration ends where it starts, and so may the next.
            later = (place >= 0) & (self._row[place] >= below) & (self._track[place] == track)
            if not later.any():
                break
            place[later] -= 1
        found = np.where((place >= 0) & (self._track[place] == track), self._row[place], -1)
        return found.astype(np.int64)
