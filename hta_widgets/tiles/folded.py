"""What the lanes of a folded rank hold: the events of some tracks and kinds, at all depths."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from hta_widgets.taxonomy import KINDS
from hta_widgets.tiles.lane_index import Lane, index_lane
from hta_widgets.tiles.layout import LaneRef
from hta_widgets.trace.columns import EventTable

__all__ = ["FOLDED_ROLES", "RowIds", "device_rows", "folded_lane", "folded_rows"]

FOLDED_ROLES = ("gpu", "comm", "cpu")

_COMMUNICATION = KINDS.index("communication")
_ANNOTATION = KINDS.index("annotation")

RowIds = npt.NDArray[np.integer]


def device_rows(table: EventTable) -> RowIds:
    """Return the rows of the events on device streams."""
    on_stream = np.array([track.role == "stream" for track in table.tracks], np.bool_)
    if not on_stream.any():
        return np.empty(0, np.intp)
    return np.flatnonzero(on_stream.take(table.track))


def folded_rows(table: EventTable, ref: LaneRef, device: RowIds) -> RowIds:
    """Return the rows of a lane of a folded rank, in lane order.

    Parameters
    ----------
    table : EventTable
    ref : LaneRef
        Of a role in `FOLDED_ROLES`.
    device : array of int
        What `device_rows` returned.
    """
    if ref.role == "cpu":
        return np.flatnonzero(_on_host(table, ref))
    communicates = table.kind.take(device) == _COMMUNICATION
    chosen: RowIds = device[communicates if ref.role == "comm" else ~communicates]
    return chosen


def _on_host(table: EventTable, ref: LaneRef) -> npt.NDArray[np.bool_]:
    member: npt.NDArray[np.bool_]
    if len(ref.sources) == 1:
        member = table.track == ref.sources[0]
    else:
        chosen = np.zeros(len(table.tracks), np.bool_)
        chosen[list(ref.sources)] = True
        member = chosen.take(table.track)
    return member if ref.annotations else member & (table.kind != _ANNOTATION)


def folded_lane(table: EventTable, ref: LaneRef, device: RowIds) -> Lane:
    """Return a lane of a folded rank, indexed; the arguments are those of `folded_rows`."""
    rows = folded_rows(table, ref, device)
    return index_lane(
        table.start_ns.take(rows),
        table.dur_ns.take(rows),
        table.kind.take(rows),
        None if ref.role == "cpu" else rows,
    )
