"""How late each rank comes to each collective, and what that costs the others, in bins."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from hta_widgets.tiles.cells import pack
from hta_widgets.tiles.lateness import Lateness
from hta_widgets.trace.intervals import Ints

__all__ = ["Ribbon"]

MOST_BINS = 1 << 16


class Ribbon:
    """Arrivals at the matched collectives of a job, by time.

    Late is what a rank comes after the median rank, the earlier one of two, and 0 before it.

    Parameters
    ----------
    lateness : Lateness
        The matched collectives.
    """

    def __init__(self, lateness: Lateness) -> None:
        frame = lateness.frame

        def column(name: str) -> Ints:
            values: Ints = frame[name].to_numpy(np.int64)
            return values

        call, arrival, time, rank = map(column, ("call", "arrival_ns", "start_ns", "rank"))
        event = column("id")
        self._names, name = _named(frame["name"])
        self._calls = int(call.max()) + 1 if len(call) else 0
        by_call = np.lexsort((arrival, call))
        first = np.searchsorted(call[by_call], np.arange(self._calls))
        size = np.diff(np.r_[first, len(call)])
        came = arrival[by_call]
        median = came[first + (size - 1) // 2]
        late = np.maximum(arrival - median[call], 0)
        order = np.argsort(time, kind="stable")
        self._time, self._late, self._rank = time[order], late[order], rank[order]
        self._call, self._name = call[order], name[order]
        self._event = event[order]

        # One entry for each call, where its last rank comes.
        end = first + size - 1
        last = by_call[end]
        alone = (size > 1) & (came[end] > came[np.maximum(end - 1, 0)])
        waited = np.add.reduceat(column("wait_ns")[by_call], first) if self._calls else first
        self._job_time, self._job_name = time[last], name[last]
        self._job_wait = waited // np.maximum(size - 1, 1)
        self._job_rank = np.where(alone, rank[last], -1)
        self._job_event = event[last]

    def within(
        self, start: int, end: int, bins: int, ranks: Sequence[int] | None = None
    ) -> tuple[dict[str, Any], bytes]:
        """Answer ``ribbon``: the latest arrival of each rank and bin, the costliest call of each.

        Parameters
        ----------
        start, end : int
            The window.
        bins : int
            Equal parts of it.
        ranks : sequence of int, optional
            Arrivals of these only; of all ranks by default.

        Returns
        -------
        reply : dict
        buffer : bytes
        """
        if end <= start:
            raise ValueError(f"a window must end after it starts, not {start} to {end}")
        if not 1 <= bins <= MOST_BINS:
            raise ValueError(f"a window has 1 to {MOST_BINS} bins, not {bins}")
        rows = np.arange(*np.searchsorted(self._time, (start, end)))
        if ranks is not None:
            rows = rows[np.isin(self._rank[rows], np.asarray(ranks, np.int64))]
        at = (self._time[rows] - start) * bins // (end - start)
        kept = _largest(self._rank[rows] * bins + at, self._late[rows])
        rows, at = rows[kept], at[kept]

        calls = np.flatnonzero((self._job_time >= start) & (self._job_time < end))
        call_at = (self._job_time[calls] - start) * bins // (end - start)
        kept = _largest(call_at, self._job_wait[calls])
        calls, call_at = calls[kept], call_at[kept]

        columns: dict[str, tuple[str, npt.ArrayLike]] = {
            "rank": ("i32", self._rank[rows]),
            "bin": ("u32", at),
            "late": ("f64", self._late[rows]),
            "call": ("u32", self._call[rows] + 1),
            "name": ("u32", self._name[rows]),
            "id": ("u32", self._event[rows]),
            "job_bin": ("u32", call_at),
            "job_time": ("f64", self._job_time[calls]),
            "job_wait": ("f64", self._job_wait[calls]),
            "job_rank": ("i32", self._job_rank[calls]),
            "job_call": ("u32", calls + 1),
            "job_name": ("u32", self._job_name[calls]),
            "job_id": ("u32", self._job_event[calls]),
        }
        header, buffer = pack(columns)
        return {
            "columns": header,
            "names": self._names,
            "of": self._calls,
            "most": int(self._late.max(initial=0)),
            "job_most": int(self._job_wait.max(initial=0)),
        }, buffer


def _named(column: pd.Series) -> tuple[list[str], Ints]:
    """Return the names that occur, sorted, and the place of each row's."""
    labels = column.astype("category").cat
    used, place = np.unique(labels.codes.to_numpy(np.int64), return_inverse=True)
    names = [str(labels.categories[code]) for code in used.tolist()]
    order = np.array(sorted(range(len(names)), key=names.__getitem__), np.int64)
    moved = np.empty(len(names), np.int64)
    moved[order] = np.arange(len(names))
    return [names[at] for at in order.tolist()], moved[place.reshape(-1)]


def _largest(key: Ints, value: Ints) -> npt.NDArray[np.intp]:
    """Return the place of the largest value of each key, the first among equals, by key."""
    order = np.lexsort((-value, key))
    ordered = key[order]
    new = np.ones(len(order), np.bool_)
    new[1:] = ordered[1:] != ordered[:-1]
    return order[new]
