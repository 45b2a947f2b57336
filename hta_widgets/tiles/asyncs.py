"""Async intervals overlap freely: which lane each of them is drawn on."""

from __future__ import annotations

import heapq
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from hta_widgets.trace.table import AsyncTable
from hta_widgets.trace.table import Pool

__all__ = ["MAX_LAYERS", "AsyncGroup", "async_groups"]

#: What does not fit into that many lanes shares the last one.
MAX_LAYERS = 32

Ints = npt.NDArray[np.int64]


@dataclass(slots=True, frozen=True)
class AsyncGroup:
    """Asyncs of one process and category."""

    pid: str
    category: str
    rows: npt.NDArray[np.intp]
    layer: npt.NDArray[np.uint8]  # of each of `rows`

    @property
    def layers(self) -> int:
        """How many lanes it takes."""
        return int(self.layer.max()) + 1


def async_groups(table: AsyncTable, categories: Pool) -> list[AsyncGroup]:
    """Group the asyncs of a rank, in order of their first start, and give each a layer."""
    keys = list(zip(table.pid, table.category.tolist(), strict=True))
    places = {key: place for place, key in enumerate(dict.fromkeys(keys))}
    of_row = np.fromiter(map(places.__getitem__, keys), np.intp, len(keys))
    durs = np.maximum(table.dur_ns, 0)
    groups = []
    for (pid, category), place in places.items():
        rows = np.flatnonzero(of_row == place)
        rows = rows[np.lexsort((-durs[rows], table.start_ns[rows]))]
        layer = _layers(table.start_ns[rows], durs[rows])
        groups.append(AsyncGroup(pid, categories[category], rows, layer))
    return groups


def _layers(starts: Ints, durs: Ints) -> npt.NDArray[np.uint8]:
    """Put each interval on the first layer that is free when it starts."""
    layer = np.zeros(len(starts), np.uint8)
    ends = starts + durs
    if (starts[1:] >= np.maximum.accumulate(ends)[:-1]).all():
        return layer
    free = list(range(MAX_LAYERS - 1))
    taken: list[tuple[int, int]] = []
    for at, (start, end) in enumerate(zip(starts.tolist(), ends.tolist(), strict=True)):
        while taken and taken[0][0] <= start:
            heapq.heappush(free, heapq.heappop(taken)[1])
        if free:
            layer[at] = heapq.heappop(free)
            heapq.heappush(taken, (end, int(layer[at])))
        else:
            layer[at] = MAX_LAYERS - 1
    return layer
