"""Stacks of Python frames that the page folds into one row.

A profile with stacks begins with rows that all show the same time, one frame below the other::

    depth 0   <string>(1): <module>                    one event
    depth 1   multiprocessing/spawn.py(122): main      one event
    depth 2   train.py(184): main                      one event, with 5 children
    depth 3   train.py(82): train_step                 5 events

No event of depths 0 and 1 has more than one child, so depths 0 to 2 are a stack, ``(0, 3)``: its
first depth and its number of depths. They keep their lanes, which the page draws in one row.
"""

from __future__ import annotations

import numpy as np

from hta_widgets.trace.arrays import Bools
from hta_widgets.trace.host_stack import category_mask
from hta_widgets.trace.trace import Trace

#: Minimum number of lanes of a stack; fewer lanes are not worth folding.
MIN_FRAMES = 3


def foldable_stacks(trace: Trace) -> dict[int, list[tuple[int, int]]]:
    """Return the first depth and the number of depths of each stack, by the track's position."""
    is_frame = category_mask(trace, "python_function")
    if not is_frame.any():
        return {}
    table, tracks = trace.table, trace.table.tracks
    first_lane = np.concatenate(([0], np.cumsum([track.lanes for track in tracks])))
    lane = first_lane[table.track] + table.depth
    events = np.bincount(lane, minlength=first_lane[-1])
    frames = np.bincount(lane[is_frame], minlength=first_lane[-1])
    only_frames = (events > 0) & (events == frames)
    children = np.bincount(table.parent[table.parent >= 0], minlength=len(table))
    branches = np.zeros(first_lane[-1], np.bool_)
    branches[lane[children > 1]] = True
    stacks: dict[int, list[tuple[int, int]]] = {}
    for position, track in enumerate(tracks):
        # Lane `nested` and the lanes after it have events that overlap without nesting.
        depths = slice(first_lane[position], first_lane[position] + track.nested)
        track_stacks = _chains(only_frames[depths], branches[depths])
        if track.role == "thread" and track_stacks:
            stacks[position] = track_stacks
    return stacks


def _chains(only_frames: Bools, branches: Bools) -> list[tuple[int, int]]:
    """Return runs of depths with frames only; only the last depth of a run may branch."""
    continues_below = only_frames[:-1] & ~branches[:-1] & only_frames[1:]
    edges = np.flatnonzero(np.diff(np.concatenate(([0], continues_below.astype(np.int8), [0]))))
    return [
        (first, last - first + 1)
        for first, last in zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True)
        if last - first + 1 >= MIN_FRAMES
    ]
