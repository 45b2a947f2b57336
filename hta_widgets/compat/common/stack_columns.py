"""Which event of a frame encloses or launched which, and what lies below each."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from hta_widgets.trace.tracks import assign_lanes

__all__ = ["STACK_COLUMNS", "Forest", "Threads", "forest_of_frame", "threads_of"]

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

#: What `CallGraph` adds to a frame.
STACK_COLUMNS = (
    "parent",
    "depth",
    "height",
    "first_kernel_start",
    "last_kernel_end",
    "num_kernels",
    "kernel_dur_sum",
    "kernel_span",
)


@dataclass(frozen=True, slots=True)
class Threads:
    """The host's threads of a frame.

    Attributes
    ----------
    keys : list of (pid, tid)
    code : array of int64
        The thread of each row, -1 of rows that are on none: those of devices.
    """

    keys: list[tuple[Any, Any]]
    code: Ints


@dataclass(frozen=True, eq=False)
class Forest:
    """The rows of a frame as nodes.

    Attributes
    ----------
    parent : array of int64
        The row that encloses each, or launched it; -1 at the top, and of rows without a place.
    member : array of bool
        Rows that have a place: those of threads, and device events whose call is there.
    device : array of bool
    """

    parent: Ints
    member: Bools
    device: Bools

    @cached_property
    def depth(self) -> Ints:
        """How many rows are above each."""
        depth = np.zeros(len(self.parent), dtype=np.int64)
        above = self.parent.copy()
        while (open_ := np.flatnonzero(above >= 0)).size:
            depth[open_] += 1
            above[open_] = self.parent[above[open_]]
        return depth

    def children(self) -> tuple[Ints, Ints]:
        """Return the rows grouped by parent, and where the group of each row begins."""
        below = np.flatnonzero(self.parent >= 0)
        order = below[np.argsort(self.parent[below], kind="stable")]
        first = np.searchsorted(self.parent[order], np.arange(len(self.parent) + 1))
        return order, first

    def columns(self, frame: pd.DataFrame) -> dict[str, npt.NDArray[Any]]:
        """Return `STACK_COLUMNS` of the frame that this was made of, ``parent`` as a row."""
        start = frame["ts"].to_numpy()
        lasts = frame["dur"].to_numpy()
        kernel = self.device & self.member
        count = kernel.astype(np.int64)
        total = np.where(kernel, lasts, 0)
        none_before = start.max(initial=0) + 1
        first = np.where(kernel, start, none_before)
        last = np.where(kernel, start + lasts, -1)
        height = np.where(self.device, 0, 1)
        by_depth = np.argsort(self.depth, kind="stable")
        edges = np.searchsorted(self.depth[by_depth], np.arange(self.depth.max(initial=0) + 2))
        for level in range(len(edges) - 2, 0, -1):  # the deepest first; the top has no parent
            rows = by_depth[edges[level] : edges[level + 1]]
            up = self.parent[rows]
            np.add.at(count, up, count[rows])
            np.add.at(total, up, total[rows])
            np.minimum.at(first, up, first[rows])
            np.maximum.at(last, up, last[rows])
            np.maximum.at(height, up, height[rows] + 1)
        some = count > 0
        return {
            "parent": self.parent,
            "depth": np.where(self.member, self.depth, -1),
            "height": np.where(self.member, height, -1),
            "first_kernel_start": np.where(some, first, -1),
            "last_kernel_end": np.where(some, last, -1),
            "num_kernels": count,
            "kernel_dur_sum": total,
            "kernel_span": np.where(some, last - first, 0),
        }


def threads_of(frame: pd.DataFrame, device_categories: frozenset[int]) -> Threads:
    """Return the host's threads.

    Parameters
    ----------
    frame : DataFrame
    device_categories : frozenset of int
        Numbers of categories of devices' events, some of which have no stream: ranges, and waits
        for the whole device.
    """
    apart = (frame["stream"] >= 0) | frame["cat"].isin(device_categories)
    host = frame[~apart.to_numpy()]
    on_thread = np.flatnonzero(~apart.to_numpy())
    code = np.full(len(frame), -1, dtype=np.int64)
    groups = host.groupby(["pid", "tid"], sort=True)
    code[on_thread] = groups.ngroup().to_numpy()
    keys = [key for key, _ in groups]
    return Threads([(pid, tid) for pid, tid in keys], code)


def forest_of_frame(frame: pd.DataFrame, threads: Threads) -> Forest:
    """Return which row encloses or launched which."""
    parent = np.full(len(frame), -1, dtype=np.int64)
    start, lasts = _ns(frame["ts"]), _ns(frame["dur"])
    fine = bool((start % 1000).any() or (lasts % 1000).any())
    rows = np.flatnonzero(threads.code >= 0)
    begin = start[rows] - start.min(initial=0)
    place = frame["index"].to_numpy()[rows]
    rows = rows[np.lexsort((place, -lasts[rows], begin))]
    lanes = assign_lanes(
        start[rows] - start.min(initial=0),
        np.maximum(lasts[rows], 0),
        threads.code[rows].astype(np.int32),
        max(len(threads.keys), 1),
        1 if fine else 1000,
    )
    inside = lanes.parent >= 0
    parent[rows[inside]] = rows[lanes.parent[inside]]

    device = (frame["stream"] >= 0).to_numpy()
    row_of = pd.Series(np.arange(len(frame)), index=frame["index"].to_numpy())
    launched = np.flatnonzero(device & (frame["index_correlation"] > 0).to_numpy())
    call = row_of.reindex(frame["index_correlation"].to_numpy()[launched]).to_numpy()
    known = ~np.isnan(call)
    parent[launched[known]] = call[known].astype(np.int64)
    member = threads.code >= 0
    member[launched[known]] = True
    return Forest(parent, member, device)


def _ns(times: pd.Series[Any]) -> Ints:
    if times.dtype.kind in "iu":
        return times.to_numpy(dtype=np.int64) * 1000
    nanoseconds: Ints = np.rint(times.to_numpy(dtype=np.float64) * 1000).astype(np.int64)
    return nanoseconds
