"""Depth and parent of every event on its track, and lanes for events that do not nest.

Order on a track is by start, longest first, then file order. An event's *subtree* is the run of
events after it that it encloses; it ends at the first event that starts at its end or later. Where
all subtrees nest, depth is the number of subtrees that an event lies in, so counting gives it
for all events at once. Where files round times, edges meet a unit too early or too late:

* a sibling that starts up to one unit before the previous event ends is still a sibling;
* a child that ends up to one unit after its parent is still a child;
* an event that lies fully inside another is always its child.

Whatever still crosses is settled by an exact stack, only around the crossing (`lanes_exact`).
"""

from __future__ import annotations

from dataclasses import dataclass
from heapq import heappop, heappush
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from .lanes_exact import Crossing, settle
from .ordering import group_order

__all__ = ["Lanes", "assign_lanes"]

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

_MAX_DEPTH = np.iinfo(np.int16).max
_EXTENSIONS = 8
_FEW_TRACKS = 256


@dataclass(slots=True)
class Lanes:
    """Where events are drawn, and what encloses them."""

    depth: npt.NDArray[np.int16]
    parent: npt.NDArray[np.int32]  # row, -1 for none
    nested: Ints  # by track: lanes of properly nested events
    lanes: Ints  # by track: all lanes
    overlaps: int  # events put into spill lanes
    rounded: int  # events that nest only within the resolution
    too_deep: int  # events below the deepest lane that can be told


def assign_lanes(
    start: Ints, dur: Ints, track: npt.NDArray[np.int32], tracks: int, resolution_ns: int
) -> Lanes:
    """Return lanes of events that are sorted by (start, longest first, file order).

    Parameters
    ----------
    start, dur : arrays of int64
        Starts are not negative.
    track : array of int32
        The track of each event, 0 .. `tracks`-1.
    resolution_ns : int
        Edges that miss each other by at most this much are taken as equal.
    """
    count = len(start)
    if not count:
        none = np.zeros(tracks, dtype=np.int64)
        return Lanes(np.empty(0, np.int16), np.empty(0, np.int32), none, none.copy(), 0, 0, 0)
    order = group_order(track, tracks)
    first = np.concatenate(([0], np.cumsum(np.bincount(track, minlength=tracks))))
    begin, end = start[order], (start + dur)[order]

    stop, rounded = _subtree_ends(begin, end, first, resolution_ns)
    depth, parent, crossing, late = _nest(end, stop)
    for _ in range(_EXTENSIONS):
        if not crossing.any():
            break
        longer = _longer_parents(crossing, late, track[order], resolution_ns)
        if not len(longer):
            break
        np.maximum.at(stop, parent[longer], stop[longer])
        depth, parent, crossing, late = _nest(end, stop)
    crossing |= late > resolution_ns
    rounded |= (late > 0) & ~crossing

    overlaps = np.empty(0, dtype=np.int64)
    if crossing.any():
        found = settle(
            Crossing(begin, end, stop, depth, parent), np.flatnonzero(crossing), resolution_ns
        )
        depth, parent, overlaps = found.depth, found.parent, found.spilled
        rounded[found.settled] = found.rounded[found.settled]

    nested, lanes = _count_lanes(depth, overlaps, first)
    _spill(begin, end, depth, overlaps, first, nested, lanes)
    too_deep = int((depth > _MAX_DEPTH).sum())

    result_depth = np.empty(count, dtype=np.int16)
    result_depth[order] = np.minimum(depth, _MAX_DEPTH) if too_deep else depth
    result_parent = np.empty(count, dtype=np.int32)
    # Of the last event where there is no parent: overwritten next.
    result_parent[order] = order[parent]
    result_parent[order[parent < 0]] = -1
    return Lanes(
        result_depth, result_parent, nested, lanes, len(overlaps), int(rounded.sum()), too_deep
    )


def _subtree_ends(begin: Ints, end: Ints, first: Ints, unit: int) -> tuple[Ints, Bools]:
    """Return for each event where its subtree ends, and which end was moved by rounding."""
    sizes = np.diff(first)
    span = int(end.max()) + 1 + unit
    if len(sizes) > _FEW_TRACKS and span.bit_length() + len(sizes).bit_length() <= 62:
        # The tracks behind each other in time, so that one search serves all of them.
        offset = np.repeat(np.arange(len(sizes)) * span, sizes)
        return _subtree_ends_of_one(begin + offset, end + offset, unit)
    stop = np.empty(len(begin), dtype=np.int64)
    rounded = np.zeros(len(begin), dtype=bool)
    for low, high in pairwise(first.tolist()):
        if low < high:
            part = _subtree_ends_of_one(begin[low:high], end[low:high], unit)
            np.add(part[0], low, out=stop[low:high])
            rounded[low:high] = part[1]
    return stop, rounded


def _subtree_ends_of_one(begin: Ints, end: Ints, unit: int) -> tuple[Ints, Bools]:
    count = len(begin)
    rows = np.arange(count)
    stop = rows + 1
    # Most events are over before the next one starts.
    holds_next = np.zeros(count, dtype=bool)
    holds_next[:-1] = end[:-1] > begin[1:]
    open_rows = np.flatnonzero(holds_next)
    stop[open_rows] = np.maximum(np.searchsorted(begin, end[open_rows], side="left"), open_rows + 1)
    # The last event of the subtree starts within a unit of its end and outlasts it: a sibling.
    rounded = np.zeros(count, dtype=bool)
    last = stop[open_rows] - 1
    near = (begin[last] >= end[open_rows] - unit) & (begin[last] > begin[open_rows])
    candidates = open_rows[near]
    if len(candidates):
        head = np.maximum.accumulate(np.where(np.diff(begin, prepend=-1) != 0, rows, 0))
        sibling = head[last[near]]
        outlasts = end[sibling] > end[candidates]
        stop[candidates[outlasts]] = sibling[outlasts]
        rounded[candidates[outlasts]] = True
    return stop, rounded


def _depth(stop: Ints) -> Ints:
    """Return how many subtrees each event lies in."""
    count = len(stop)
    closed = np.bincount(stop, minlength=count + 1)[:count]
    np.cumsum(closed, out=closed)
    depth: Ints = np.subtract(np.arange(count), closed, out=closed)
    return depth


def _parents(depth: Ints) -> Ints:
    """Return the enclosing event: the one before a first child, and shared by siblings."""
    count = len(depth)
    parent = np.full(count, -1, dtype=np.int64)
    deepest = int(depth.max())
    if not deepest:
        return parent
    by_depth = group_order(depth, deepest + 1)
    deeper = np.zeros(count, dtype=bool)
    deeper[1:] = depth[1:] > depth[:-1]
    # Depth by depth, the siblings of a first child follow it.
    first_child = np.flatnonzero(deeper[by_depth])
    siblings = np.diff(first_child, append=count)
    parent[by_depth[first_child[0] :]] = np.repeat(by_depth[first_child] - 1, siblings)
    return parent


def _nest(end: Ints, stop: Ints) -> tuple[Ints, Ints, Bools, Ints]:
    """Return depth, parent, whose subtree leaves its parent's, and how late each ends in it."""
    depth = _depth(stop)
    parent = _parents(depth)
    inner = parent >= 0
    crossing = (stop > stop[parent]) & inner
    late = end - end[parent]
    late[~inner] = 0
    return depth, parent, crossing, late


def _longer_parents(crossing: Bools, late: Ints, track: npt.NDArray[np.int32], unit: int) -> Ints:
    """Return children whose parents have to last until they end.

    A child that ends a unit late, with an event of its own in that unit: the event lies in both.
    Only on tracks where nothing really crosses, since counting is exact only up to there.
    """
    crosses = late > unit
    rows = np.flatnonzero(crossing & ~crosses)
    if len(rows) and crosses.any():
        rows = rows[~np.isin(track[rows], track[crosses])]
    return rows


def _count_lanes(depth: Ints, spilled: Ints, first: Ints) -> tuple[Ints, Ints]:
    proper = depth + 1
    proper[spilled] = 0
    sizes = np.diff(first)
    nested = np.zeros(len(sizes), dtype=np.int64)
    filled = np.flatnonzero(sizes)
    nested[filled] = np.maximum.reduceat(proper, first[:-1][filled])
    return nested, nested.copy()


def _spill(
    begin: Ints, end: Ints, depth: Ints, spilled: Ints, first: Ints, nested: Ints, lanes: Ints
) -> None:
    """Put each spilled event into the first spill lane of its track that is free."""
    track_of = np.searchsorted(first, spilled, side="right") - 1
    for track in np.unique(track_of).tolist():
        rows = spilled[track_of == track]
        busy: list[tuple[int, int]] = []  # (end, lane)
        free: list[int] = []
        used = 0
        for row, start, stop in zip(
            rows.tolist(), begin[rows].tolist(), end[rows].tolist(), strict=True
        ):
            while busy and busy[0][0] <= start:
                heappush(free, heappop(busy)[1])
            if free:
                lane = heappop(free)
            else:
                lane, used = used, used + 1
            heappush(busy, (stop, lane))
            depth[row] = nested[track] + lane
        lanes[track] += used
