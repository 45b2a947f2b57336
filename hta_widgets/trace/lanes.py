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

from hta_widgets.trace.lanes_exact import settle
from hta_widgets.trace.ordering import group_order

__all__ = ["Lanes", "assign_lanes"]

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

_MAX_DEPTH = np.iinfo(np.int16).max
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

    stop = _subtree_ends(begin, end, first)
    depth, parent, crossing = _nest(end, stop)
    overlaps, rounded = np.empty(0, dtype=np.int64), 0
    if crossing.any():
        touched = np.unique(track[order[crossing]]).tolist()
        spilled = []
        for low, high in ((int(first[number]), int(first[number + 1])) for number in touched):
            found = settle(begin[low:high], end[low:high], stop[low:high] - low, resolution_ns)
            kept = np.delete(np.arange(high - low), found.spilled)
            place = np.zeros(high - low + 1, dtype=np.int64)
            place[kept + 1] = 1
            np.cumsum(place, out=place)
            level = _depth(place[found.stop[kept]])
            above = _parents(level)
            depth[low + kept] = level
            parent[low + kept] = np.where(above >= 0, low + kept[above], -1)
            found.around_spilled(begin[low:high], end[low:high], low, parent[low:high])
            spilled.append(low + found.spilled)
            rounded += found.rounded
        overlaps = np.concatenate(spilled)

    nested, lanes = _count_lanes(depth, overlaps, first)
    _spill(begin, end, depth, overlaps, first, nested, lanes)
    too_deep = int((depth > _MAX_DEPTH).sum())

    result_depth = np.empty(count, dtype=np.int16)
    result_depth[order] = np.minimum(depth, _MAX_DEPTH) if too_deep else depth
    result_parent = np.empty(count, dtype=np.int32)
    # Of the last event where there is no parent: overwritten next.
    result_parent[order] = order[parent]
    result_parent[order[parent < 0]] = -1
    return Lanes(result_depth, result_parent, nested, lanes, len(overlaps), rounded, too_deep)


def _subtree_ends(begin: Ints, end: Ints, first: Ints) -> Ints:
    """Return for each event the first later one of its track that begins at its end or later."""
    sizes = np.diff(first)
    span = int(end.max()) + 1
    if len(sizes) > _FEW_TRACKS and span.bit_length() + len(sizes).bit_length() <= 62:
        # The tracks behind each other in time, so that one search serves all of them.
        offset = np.repeat(np.arange(len(sizes)) * span, sizes)
        return _subtree_ends_of_one(begin + offset, end + offset)
    stop = np.empty(len(begin), dtype=np.int64)
    for low, high in pairwise(first.tolist()):
        if low < high:
            np.add(_subtree_ends_of_one(begin[low:high], end[low:high]), low, out=stop[low:high])
    return stop


def _subtree_ends_of_one(begin: Ints, end: Ints) -> Ints:
    stop = np.arange(1, len(begin) + 1)
    # Most events are over before the next one starts.
    open_rows = np.flatnonzero(end[:-1] > begin[1:])
    stop[open_rows] = np.searchsorted(begin, end[open_rows], side="left")
    return stop


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


def _nest(end: Ints, stop: Ints) -> tuple[Ints, Ints, Bools]:
    """Return depth and parent where all subtrees nest, and which events do not lie in theirs."""
    depth = _depth(stop)
    parent = _parents(depth)
    crossing = (stop > stop[parent]) | (end > end[parent])
    crossing &= parent >= 0
    return depth, parent, crossing


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
