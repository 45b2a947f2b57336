"""Questions about a spot of one lane: what a cell holds, what comes next, the nearest edge."""

from __future__ import annotations

from typing import Any

import numpy as np

from hta_widgets.tiles.lane_index import CounterLane
from hta_widgets.tiles.lane_index import Lane
from hta_widgets.tiles.layout import LaneRef
from hta_widgets.trace.table import KINDS
from hta_widgets.tiles.briefs import brief
from hta_widgets.tiles.briefs import lane_of_row
from hta_widgets.tiles.cells import kind_times
from hta_widgets.tiles.rank_index import RankIndex
from hta_widgets.tiles.rank_index import Rows

__all__ = ["cell", "neighbor", "snap"]


def cell(index: RankIndex, number: int, start: int, end: int) -> dict[str, Any]:
    """Answer ``cell``: exact contents of a window of a lane."""
    if end <= start:
        raise ValueError(f"a cell must end after it starts, not {start} to {end}")
    ref, lane = index.lane(number)
    low, high = start - index.rank.shift_ns, end - index.rank.shift_ns
    edges = np.array((low, high), np.int64)
    if isinstance(lane, CounterLane):
        smallest, largest = (float(column[0]) for column in lane.measure(edges))
        first, last = lane.times.searchsorted(edges)
        held = not np.isnan(smallest)
        return {
            "count": int(last - first),
            "busy": 0,
            "longest": None,
            "kinds": {},
            "min": smallest if held else None,
            "max": largest if held else None,
        }
    covered, count = lane.spans.measure(edges)
    # What is on lanes of waits are parts of events, of which nothing more can be told.
    named = bool(count[0]) and ref.role not in {"wait", "late"}
    row = _longest(index, ref, low, high) if named else None
    return {
        "count": int(count[0]),
        "busy": int(covered[0]),
        "longest": None if row is None else brief(index, index.table_of(ref), row),
        "kinds": {KINDS[code]: time for code, time in kind_times(lane, low, high).items()},
    }


def _longest(index: RankIndex, ref: LaneRef, low: int, high: int) -> int:
    """Return the row of the longest event of a window that has one, the first among equals."""
    table, rows = index.table_of(ref), index.members(ref)
    rows = rows[: np.searchsorted(table.start_ns[rows], high)]
    starts, durs = table.start_ns[rows], table.dur_ns[rows]
    inside = np.flatnonzero(np.where(durs > 0, starts + durs > low, starts >= low))
    return int(rows[inside[durs[inside].argmax()]])


def neighbor(index: RankIndex, table: Rows, row: int, direction: int) -> dict[str, Any] | None:
    """Answer ``neighbor``: the next or previous event of the same lane."""
    members = index.members(index.rank.ref(lane_of_row(index, table.table, row)))
    # Asyncs of one start are not in the order of their rows.
    at = int(np.flatnonzero(members == row)[0]) + (1 if direction > 0 else -1)
    if not 0 <= at < len(members):
        return None
    return brief(index, table, int(members[at]))


def snap(index: RankIndex, number: int, time: int, tolerance: int) -> int | None:
    """Answer ``snap``: the nearest edge of an event of a lane, the earlier one among equals."""
    _, lane = index.lane(number)
    local = time - index.rank.shift_ns
    near = [edge for edge in _edges_around(lane, local) if abs(edge - local) <= tolerance]
    if not near:
        return None
    return min(near, key=lambda edge: (abs(edge - local), edge)) + index.rank.shift_ns


def _edges_around(lane: Lane | CounterLane, time: int) -> list[int]:
    """Return the last edge before and the first one after a time, of each sort of edge."""
    if isinstance(lane, CounterLane):
        sorts = [lane.times]
    else:
        sorts = [lane.spans.begins, lane.spans.finishes, lane.spans.points]
    found = []
    for edges in sorts:
        at = int(edges.searchsorted(time))
        found += edges[max(at - 1, 0) : at + 1].tolist()
    return found
