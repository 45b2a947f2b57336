"""Stacks of Python frames that the page can fold into a single row.

A profile recorded with stacks begins with rows of nested frames that cover the same time::

    depth 0   <string>(1): <module>                    one event
    depth 1   multiprocessing/spawn.py(122): main      one event
    depth 2   train.py(184): main                      one event, with 5 children
    depth 3   train.py(82): train_step                 5 events

No event at depths 0 and 1 has more than one child, so depths 0 to 2 form a stack. It is stored as
``(0, 3)``: first depth, number of depths. The lanes stay separate; only the page draws them as one
row.
"""

from __future__ import annotations

import numpy as np

from hta_widgets.trace.arrays import Bools
from hta_widgets.trace.host_stack import category_mask
from hta_widgets.trace.trace import Trace

#: Smallest number of depths worth folding.
MIN_FRAMES = 3


def foldable_stacks(trace: Trace) -> dict[int, list[tuple[int, int]]]:
    """Return the stacks, as pairs of first depth and number of depths, by track position."""
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
        # From lane `nested` on, events overlap without nesting.
        depths = slice(first_lane[position], first_lane[position] + track.nested)
        track_stacks = _chains(only_frames[depths], branches[depths])
        if track.role == "thread" and track_stacks:
            stacks[position] = track_stacks
    return stacks


def _chains(only_frames: Bools, branches: Bools) -> list[tuple[int, int]]:
    """Return runs of depths that contain only frames and do not branch before their last depth."""
    continues_below = only_frames[:-1] & ~branches[:-1] & only_frames[1:]
    edges = np.flatnonzero(np.diff(np.concatenate(([0], continues_below.astype(np.int8), [0]))))
    return [
        (first, last - first + 1)
        for first, last in zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True)
        if last - first + 1 >= MIN_FRAMES
    ]
