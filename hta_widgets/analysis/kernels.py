"""What each kernel costs: counts and durations by rank and name."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pandas as pd

from hta_widgets.trace.table import KINDS
from hta_widgets.trace.selection import Selection
from hta_widgets.trace.traceset import TraceSet
from hta_widgets.trace.frames import dtype_of
from hta_widgets.trace.ordering import dense
from hta_widgets.trace.ordering import group_order

from hta_widgets.analysis.over_ranks import over_ranks
from hta_widgets.analysis.over_ranks import prelaunched_note
from hta_widgets.analysis.results import joined
from hta_widgets.analysis.results import result
from hta_widgets.analysis.scope import BUSY
from hta_widgets.analysis.scope import Part
from hta_widgets.analysis.scope import Parts
from hta_widgets.analysis.scope import Window
from hta_widgets.analysis.scope import count_kinds
from hta_widgets.analysis.scope import parts

__all__ = ["kernel_breakdown", "kernel_duration_by_rank"]

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

_NOTHING = "no device work is selected: no kernels and no copies"


@dataclass(frozen=True, slots=True)
class _Kernels:
    """Statistics of each rank's kernels, one entry per rank, kind and name."""

    rank: Ints
    kind: Ints
    name: list[str]
    count: Ints
    sum: Ints
    min: Ints
    max: Ints
    std: Floats

    def in_order(self, order: npt.NDArray[np.intp]) -> _Kernels:
        return _Kernels(
            self.rank[order],
            self.kind[order],
            [self.name[place] for place in order.tolist()],
            self.count[order],
            self.sum[order],
            self.min[order],
            self.max[order],
            self.std[order],
        )


def kernel_breakdown(
    traces: TraceSet,
    *,
    include_memory: bool = True,
    selection: Selection | None = None,
    window: Window | None = None,
    ranks: Iterable[int] | None = None,
) -> pd.DataFrame:
    """Return count and durations of every kernel, by rank.

    Durations are added as they are, so kernels that run at once count both. They are clipped to
    the window; counts are of the kernels that overlap it.

    Parameters
    ----------
    traces : TraceSet
    include_memory : bool, default True
        Whether copies and fills are listed.
    selection : Selection, optional
        The events to work on; all by default.
    window : (start_ns, end_ns), optional
        Narrows the selection in time.
    ranks : iterable of int, optional
        Narrows the selection to these ranks.

    Returns
    -------
    DataFrame
        One row per rank, kind and kernel, in order of ranks, most time first:

        - ``rank`` (int64)
        - ``kind`` (categorical): ``compute``, ``communication`` or ``memory``
        - ``name`` (text): as in the file
        - ``count, sum_ns`` (int64)
        - ``mean_ns`` (float); ``min_ns, max_ns`` (int64)
        - ``std_ns`` (float): standard deviation of a sample (ddof 1), 0 for one kernel

    Notes
    -----
    The statistics of HTA's GPU kernel breakdown, for every kernel: nothing is put together as
    "others", after which HTA's minimum, maximum, mean and deviation are those of sums.

    Examples
    --------
    >>> kernel_breakdown(traces, ranks=[0]).head(10)  # doctest: +SKIP
    """
    chosen = parts(traces, selection, window, ranks)
    kinds = BUSY if include_memory else BUSY[:2]
    kernels = _kernels(chosen, kinds)
    kernels = kernels.in_order(
        np.lexsort((kernels.kind, -kernels.count, -kernels.sum, _place(chosen.ranks, kernels.rank)))
    )
    return result(
        {
            "rank": kernels.rank,
            "kind": pd.Categorical.from_codes(kernels.kind, dtype=dtype_of(KINDS)),
            "name": pd.array(kernels.name, dtype="str"),
            "count": kernels.count,
            "sum_ns": kernels.sum,
            "mean_ns": kernels.sum / kernels.count,
            "min_ns": kernels.min,
            "max_ns": kernels.max,
            "std_ns": kernels.std,
        },
        matched=count_kinds(chosen, kinds),
        note=prelaunched_note(chosen) if len(kernels.name) else _NOTHING,
    )


def kernel_duration_by_rank(
    traces: TraceSet,
    *,
    include_memory: bool = True,
    top: int | None = None,
    selection: Selection | None = None,
    window: Window | None = None,
    ranks: Iterable[int] | None = None,
) -> pd.DataFrame:
    """Return how long each kernel takes on each rank, to see ranks that differ.

    Parameters
    ----------
    traces : TraceSet
    include_memory : bool, default True
        Whether copies and fills are listed.
    top : int, optional
        Only so many kernels, those with most time over all ranks.
    selection, window, ranks
        What to work on, as in `kernel_breakdown`.

    Returns
    -------
    DataFrame
        One row per kernel and rank that ran it, kernels with most time over all ranks first:

        - ``rank`` (int64); ``name`` (text); ``kind`` (categorical)
        - ``count`` (int64)
        - ``mean_ns`` (float); ``min_ns, max_ns, sum_ns`` (int64): of the kernel on this rank

    Notes
    -----
    The table behind the bars of mean, minimum and maximum per rank that HTA draws with its GPU
    kernel breakdown.

    Examples
    --------
    >>> frame = kernel_duration_by_rank(traces, top=5)  # doctest: +SKIP
    >>> frame.pivot(index="name", columns="rank", values="mean_ns")  # doctest: +SKIP
    """
    chosen = parts(traces, selection, window, ranks)
    kinds = BUSY if include_memory else BUSY[:2]
    kernels = _kernels(chosen, kinds)
    groups: dict[tuple[int, str], int] = {}
    group = np.array(
        [
            groups.setdefault(key, len(groups))
            for key in zip(kernels.kind.tolist(), kernels.name, strict=True)
        ],
        dtype=np.int64,
    )
    spent = np.zeros(len(groups), dtype=np.int64)
    np.add.at(spent, group, kernels.sum)
    position = np.empty(len(groups), dtype=np.int64)
    position[np.argsort(-spent, kind="stable")] = np.arange(len(groups))
    order = np.lexsort((_place(chosen.ranks, kernels.rank), position[group]))
    if top is not None:
        order = order[position[group][order] < top]
    kernels = kernels.in_order(order)
    return result(
        {
            "rank": kernels.rank,
            "name": pd.array(kernels.name, dtype="str"),
            "kind": pd.Categorical.from_codes(kernels.kind, dtype=dtype_of(KINDS)),
            "count": kernels.count,
            "mean_ns": kernels.sum / kernels.count,
            "min_ns": kernels.min,
            "max_ns": kernels.max,
            "sum_ns": kernels.sum,
        },
        matched=count_kinds(chosen, kinds),
        note=prelaunched_note(chosen) if len(kernels.name) else _NOTHING,
    )


def _place(ranks: Sequence[int], rank: Ints) -> Ints:
    """Return the position of each rank in its set."""
    place = {one: number for number, one in enumerate(ranks)}
    return np.array([place[one] for one in rank.tolist()], dtype=np.int64)


def _kernels(chosen: Parts, kinds: Sequence[str]) -> _Kernels:
    found = list(over_ranks(chosen, _of_rank, kinds))
    return _Kernels(
        joined([one.rank for one in found]),
        joined([one.kind for one in found]),
        [name for one in found for name in one.name],
        joined([one.count for one in found]),
        joined([one.sum for one in found]),
        joined([one.min for one in found]),
        joined([one.max for one in found]),
        joined([one.std for one in found], np.float64),
    )


def _of_rank(part: Part, kinds: Sequence[str]) -> _Kernels:
    table = part.table
    rows = part.of_kinds(*kinds)
    key = table.name[rows].astype(np.int64) * len(KINDS) + table.kind[rows]
    code, occurring = dense(key, len(table.names) * len(KINDS))
    if not len(rows):
        empty = np.empty(0, dtype=np.int64)
        return _Kernels(empty, empty, [], empty, empty, empty, empty, np.empty(0))
    order = group_order(code, len(occurring))
    lasts = part.durations(rows)[order]
    count = np.bincount(code, minlength=len(occurring))
    first = np.cumsum(count) - count
    spent = np.add.reduceat(lasts, first)
    # Two passes: the deviation of long kernels that hardly differ would drown in the squares.
    off = lasts - np.repeat(spent / count, count)
    return _Kernels(
        np.full(len(occurring), part.rank, dtype=np.int64),
        occurring % len(KINDS),
        [table.names[name] for name in (occurring // len(KINDS)).tolist()],
        count,
        spent,
        np.minimum.reduceat(lasts, first),
        np.maximum.reduceat(lasts, first),
        np.sqrt(np.add.reduceat(off * off, first) / np.maximum(count - 1, 1)),
    )
