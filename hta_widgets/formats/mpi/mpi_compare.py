"""Two MPI runs side by side: which calls went away, which came, which got faster."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import pandas as pd

from hta_widgets.trace.traceset import TraceSet
from hta_widgets.formats.mpi.mpi_names import bin_bounds

from hta_widgets.formats.mpi.mpi_tables import MpiRank
from hta_widgets.formats.mpi.mpi_tables import divided
from hta_widgets.formats.mpi.mpi_tables import mpi_scope
from hta_widgets.analysis.results import result

__all__ = ["mpi_compare"]

_Key = tuple[str, int, int]
_Figures = dict[_Key, tuple[float, float, float]]


def mpi_compare(
    before: TraceSet,
    after: TraceSet,
    *,
    by_size: bool = True,
    before_ranks: Iterable[int] | None = None,
    after_ranks: Iterable[int] | None = None,
) -> pd.DataFrame:
    """Return one row per routine and bin of sizes of two runs: calls, bytes and time of each.

    Figures are means over the ranks that have tables of routines, so that runs of different
    sizes compare. With one rank file on either side they are that rank's own figures. mpitrace's
    default of four files holds the ranks with the least and the most time, which is no fair
    sample; the note says of which ranks figures are.

    Parameters
    ----------
    before, after : TraceSet
        For example a run on processors and one whose gradients go through NCCL.
    by_size : bool, default True
        Whether to tell sizes apart; calls that are in no bin (routines without bytes) are then
        rows with ``size_lo`` and ``size_hi`` of -1.
    before_ranks, after_ranks : iterable of int, optional
        Keys of the sets to use.

    Returns
    -------
    DataFrame
        By the change of time, largest first: ``routine`` (str), with `by_size` ``size_lo,
        size_hi`` (int64); ``before_calls, after_calls, diff_calls, before_bytes, after_bytes,
        diff_bytes, before_time_s, after_time_s, diff_time_s, before_mean_us, after_mean_us``
        (float64, per rank; differences are after less before, means NaN without calls);
        ``change`` (``"added"``, ``"removed"``, ``"changed"`` or ``"same"``, by calls and bytes).
        ``.attrs["before_ranks"]``, ``.attrs["after_ranks"]`` list the ranks compared,
        ``.attrs["before_ntasks"]`` and ``.attrs["after_ntasks"]`` the sizes of the jobs.

    Examples
    --------
    >>> change = mpi_compare(hw.load("runs/cpu"), hw.load("runs/gpu"))  # doctest: +SKIP
    >>> change[["routine", "size_hi", "diff_calls", "diff_time_s"]].head()  # doctest: +SKIP
    """
    left, right = mpi_scope(before, ranks=before_ranks), mpi_scope(after, ranks=after_ranks)
    sides = [_means(scope.ranks, by_size=by_size) for scope in (left, right)]
    keys = list(dict.fromkeys([*sides[0], *sides[1]]))
    nothing = (0.0, 0.0, 0.0)
    one, other = (
        np.array([side.get(key, nothing) for key in keys]).reshape(-1, 3) for side in sides
    )
    change = np.array([_change(key, sides[0], sides[1]) for key in keys], dtype=object)
    diff = other - one
    order = np.lexsort((np.arange(len(keys)), -np.abs(diff[:, 2])))
    columns: dict[str, Any] = {"routine": pd.Series([key[0] for key in keys], dtype=object)}
    if by_size:
        columns["size_lo"] = np.array([key[1] for key in keys], dtype=np.int64)
        columns["size_hi"] = np.array([key[2] for key in keys], dtype=np.int64)
    for place, name in enumerate(("calls", "bytes", "time_s")):
        columns[f"before_{name}"] = one[:, place]
        columns[f"after_{name}"] = other[:, place]
        columns[f"diff_{name}"] = diff[:, place]
    columns["before_mean_us"] = divided(one[:, 2] * 1e6, one[:, 0])
    columns["after_mean_us"] = divided(other[:, 2] * 1e6, other[:, 0])
    columns["change"] = pd.Series(change, dtype=object)
    frame = result(
        columns,
        matched={
            "before_ranks": len(left.ranks),
            "after_ranks": len(right.ranks),
            **{kind: int((change == kind).sum()) for kind in ("added", "removed", "changed")},
            "same": int((change == "same").sum()),
        },
        note=_note(left.ranks, right.ranks, (left.note, right.note)),
        before_ranks=[f"{rank.job}:{rank.rank}" for rank in left.ranks],
        after_ranks=[f"{rank.job}:{rank.rank}" for rank in right.ranks],
        before_ntasks=max((rank.ntasks for rank in left.ranks), default=0),
        after_ntasks=max((rank.ntasks for rank in right.ranks), default=0),
    )
    attrs = frame.attrs
    frame = frame.iloc[order].reset_index(drop=True)
    frame.attrs = attrs
    return frame


def _means(ranks: list[MpiRank], *, by_size: bool) -> _Figures:
    """Return calls, bytes and seconds per rank of each routine and bin."""
    sums: dict[_Key, np.ndarray] = {}

    def add(key: _Key, calls: int, size: float, time_s: float) -> None:
        sums.setdefault(key, np.zeros(3))
        sums[key] += (calls, size, time_s)

    for rank in ranks:
        # Averages are printed to a tenth of a byte: those of bins add up to less of an error.
        binned: dict[str, float] = {}
        for one in rank.sizes:
            binned[one.routine] = binned.get(one.routine, 0.0) + one.calls * one.avg_bytes
        for row in rank.routines:
            if not by_size or row.routine not in binned:
                size = binned.get(row.routine, row.calls * row.avg_bytes)
                add((row.routine, -1, -1), row.calls, size, row.time_s)
        for one in rank.sizes if by_size else ():
            key = (one.routine, *bin_bounds(one.avg_bytes))
            add(key, one.calls, one.calls * one.avg_bytes, one.time_s)
    found: _Figures = {}
    for key, total in sums.items():
        calls, size, time_s = (total / len(ranks)).tolist()
        found[key] = (calls, size, time_s)
    return found


def _change(key: _Key, before: _Figures, after: _Figures) -> str:
    if key not in before:
        return "added"
    if key not in after:
        return "removed"
    return "same" if before[key][:2] == after[key][:2] else "changed"


def _note(before: list[MpiRank], after: list[MpiRank], notes: tuple[str, str]) -> str:
    parts = []
    for name, ranks in (("before", before), ("after", after)):
        jobs = {rank.job: rank.ntasks for rank in ranks}
        if len(jobs) > 1:
            parts.append(f"{name} holds {len(jobs)} jobs, of which figures are means")
        elif ranks and len(ranks) < ranks[0].ntasks:
            listed = ", ".join(str(rank.rank) for rank in ranks[:8])
            parts.append(
                f"{name} has tables of routines of ranks {listed} of {ranks[0].ntasks} only"
            )
    sizes = {max((rank.ntasks for rank in ranks), default=0) for ranks in (before, after)}
    if len(sizes) > 1 and before and after:
        parts.append("the jobs differ in size: figures are per rank")
    return "; ".join([*parts, *dict.fromkeys(note for note in notes if note)])
