"""How large MPI's messages are, and what share of calls, time and bytes is mere negotiation."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pandas as pd

from hta_widgets.trace.selection import Selection
from hta_widgets.trace.traceset import TraceSet
from hta_widgets.formats.mpi.mpi_names import bin_bounds
from hta_widgets.formats.mpi.mpi_names import size_class
from hta_widgets.formats.mpi.mpi_tables_model import SizeRow

from hta_widgets.formats.mpi.mpi_tables import Floats
from hta_widgets.formats.mpi.mpi_tables import MpiRank
from hta_widgets.formats.mpi.mpi_tables import divided
from hta_widgets.formats.mpi.mpi_tables import mpi_scope
from hta_widgets.analysis.results import result

__all__ = ["mpi_message_sizes", "mpi_negotiation"]


def mpi_message_sizes(
    traces: TraceSet,
    *,
    routine: str | None = None,
    stale: bool = False,
    selection: Selection | None = None,
    window: tuple[int, int] | None = None,
    ranks: Iterable[int] | None = None,
) -> pd.DataFrame:
    """Return one row per rank, routine and bin of message sizes.

    Bins are mpitrace's: 0 bytes, 1-4, 5-8, 9-16 and so on. Profiles print the average of each bin
    but not its bounds, which follow from it. What a size means depends on the routine: the whole
    message of a broadcast or an all-reduce, a rank's own block of a gather, what goes to one rank
    of an all-to-all.

    Parameters
    ----------
    traces : TraceSet
    routine : str, optional
        Only this one, such as ``"MPI_Allreduce"``.
    stale, selection, window, ranks
        As in `mpi_routines`.

    Returns
    -------
    DataFrame
        By job, rank, routine and size: ``job`` (str), ``rank`` (int64, the MPI rank),
        ``routine`` (str), ``size_lo, size_hi`` (int64, bytes, both included), ``avg_bytes``
        (float64), ``calls`` (int64), ``time_s`` (float64), ``share_of_calls, share_of_time,
        share_of_bytes`` (float64, of the routine's bins), ``bytes`` (float64, calls times
        average), ``mean_us`` (float64), ``gb_per_s`` (float64, bytes over time; NaN where the
        time prints as 0), ``size_class`` (``small`` up to 8 bytes, ``medium`` up to 64 KiB,
        ``large``), ``key`` and ``source`` as in `mpi_routines`.

        Routines that moved no byte have no bins. Small messages are latency and waiting for the
        last rank, not transfer: look at shares of calls, time *and* bytes together.

    Examples
    --------
    >>> sizes = mpi_message_sizes(traces, routine="MPI_Allreduce")  # doctest: +SKIP
    """
    scope = mpi_scope(traces, selection, window, ranks, stale=stale)
    flat = [
        (rank, row)
        for rank in scope.ranks
        for row in rank.sizes
        if routine is None or row.routine == routine
    ]
    note = scope.note
    if not flat and not note:
        note = "no profile tells message sizes" + (f" of {routine}" if routine else "")
    matched = {**scope.matched(), "bins": len(flat)}
    return result(_columns(flat), matched=matched, note=note)


def _columns(flat: list[tuple[MpiRank, SizeRow]]) -> dict[str, object]:
    bounds = np.array([bin_bounds(row.avg_bytes) for _, row in flat], np.int64).reshape(-1, 2)
    calls = np.array([row.calls for _, row in flat], dtype=np.int64)
    average = np.array([row.avg_bytes for _, row in flat], dtype=np.float64)
    time = np.array([row.time_s for _, row in flat], dtype=np.float64)
    owners: dict[tuple[int, str], int] = {}
    owner = np.array(
        [owners.setdefault((rank.key, row.routine), len(owners)) for rank, row in flat], np.int64
    )

    def share(values: Floats) -> Floats:
        sums: Floats = np.bincount(owner, weights=values).astype(np.float64)
        return divided(values, sums[owner])

    size = calls * average
    return {
        "job": pd.Series([rank.job for rank, _ in flat], dtype=object),
        "rank": np.array([rank.rank for rank, _ in flat], dtype=np.int64),
        "routine": pd.Series([row.routine for _, row in flat], dtype=object),
        "size_lo": bounds[:, 0],
        "size_hi": bounds[:, 1],
        "avg_bytes": average,
        "calls": calls,
        "time_s": time,
        "share_of_calls": share(calls.astype(np.float64)),
        "share_of_time": share(time),
        "share_of_bytes": share(size),
        "bytes": size,
        "mean_us": divided(time * 1e6, calls.astype(np.float64)),
        "gb_per_s": divided(size / 1e9, time),
        "size_class": pd.Series([size_class(row.avg_bytes) for _, row in flat], dtype=object),
        "key": np.array([rank.key for rank, _ in flat], dtype=np.int64),
        "source": pd.Series([rank.source for rank, _ in flat], dtype=object),
    }


def mpi_negotiation(
    traces: TraceSet,
    *,
    limit_bytes: int = 8,
    routine: str = "MPI_Allreduce",
    stale: bool = False,
    selection: Selection | None = None,
    window: tuple[int, int] | None = None,
    ranks: Iterable[int] | None = None,
) -> pd.DataFrame:
    """Return one row per rank: what part of a routine is messages of a few bytes.

    Horovod and its kin agree on which gradients are ready with an all-reduce of 8 bytes in each
    cycle. On processors that is most of the calls, about half of the time and hardly any of the
    bytes; where gradients go through NCCL, all of MPI's all-reduces are of this kind. Its time is
    waiting for the rank that comes last to the negotiation: the same calls take hardly any time
    when ranks meet in a barrier before (``COLLECTIVE_BARRIER``).

    Parameters
    ----------
    traces : TraceSet
    limit_bytes : int, default 8
        Messages up to this size, by the average of their bin, are negotiation.
    routine : str, default "MPI_Allreduce"
    stale, selection, window, ranks
        As in `mpi_routines`.

    Returns
    -------
    DataFrame
        By job and rank: ``job`` (str), ``rank`` (int64), ``calls`` (int64), ``bytes`` (float64),
        ``time_s`` (float64), ``mean_us`` (float64) of the negotiation; ``share_of_calls,
        share_of_time, share_of_bytes`` (float64, of the routine's bins), ``share_of_comm`` and
        ``share_of_elapsed`` (of the rank's totals), ``share_of_routine_time`` (of the time
        printed for the routine, which differs from the sum of its bins by rounding);
        ``routine_calls, routine_time_s``; ``coordination_calls`` (int64) and
        ``coordination_time_s`` (float64): gathers and broadcasts of up to 4 bytes, which tell
        who has what; ``key`` and ``source`` as in `mpi_routines`. Ranks that never call the
        routine have no row.

    Examples
    --------
    >>> share = mpi_negotiation(traces)  # doctest: +SKIP
    >>> share[["share_of_calls", "share_of_time", "share_of_bytes"]]  # doctest: +SKIP
    """
    scope = mpi_scope(traces, selection, window, ranks, stale=stale)
    rows = [
        (rank, found)
        for rank in scope.ranks
        if (found := _negotiated(rank, routine, limit_bytes)) is not None
    ]
    own = [rank for rank, _ in rows]
    numbers = np.array([row for _, row in rows], np.float64).reshape(-1, len(_NEGOTIATED))
    of = dict(zip(_NEGOTIATED, numbers.T, strict=True))
    note = scope.note
    if not rows and not note:
        note = f"no rank calls {routine}"
    return result(
        {
            "job": pd.Series([one.job for one in own], dtype=object),
            "rank": np.array([one.rank for one in own], dtype=np.int64),
            "calls": of["calls"].astype(np.int64),
            "bytes": of["bytes"],
            "time_s": of["time_s"],
            "mean_us": divided(of["time_s"] * 1e6, of["calls"]),
            "share_of_calls": divided(of["calls"], of["bin_calls"]),
            "share_of_time": divided(of["time_s"], of["bin_time_s"]),
            "share_of_bytes": divided(of["bytes"], of["bin_bytes"]),
            "share_of_comm": divided(of["time_s"], np.array([one.comm_s for one in own])),
            "share_of_elapsed": divided(of["time_s"], np.array([one.elapsed_s for one in own])),
            "share_of_routine_time": divided(of["time_s"], of["routine_time_s"]),
            "routine_calls": of["routine_calls"].astype(np.int64),
            "routine_time_s": of["routine_time_s"],
            "coordination_calls": of["coordination_calls"].astype(np.int64),
            "coordination_time_s": of["coordination_time_s"],
            "key": np.array([one.key for one in own], dtype=np.int64),
            "source": pd.Series([one.source for one in own], dtype=object),
        },
        matched={**scope.matched(), "ranks": len(rows)},
        note=note,
        limit_bytes=int(limit_bytes),
    )


#: What `_negotiated` returns, in order.
_NEGOTIATED = (
    "calls",
    "bytes",
    "time_s",
    "bin_calls",
    "bin_bytes",
    "bin_time_s",
    "routine_calls",
    "routine_time_s",
    "coordination_calls",
    "coordination_time_s",
)


def _negotiated(rank: MpiRank, routine: str, limit_bytes: int) -> tuple[float, ...] | None:
    row = next((row for row in rank.routines if row.routine == routine), None)
    if row is None:
        return None
    bins = [one for one in rank.sizes if one.routine == routine]
    small = [one for one in bins if one.avg_bytes <= limit_bytes]
    told = [
        one
        for one in rank.sizes
        if one.routine in {"MPI_Gather", "MPI_Bcast"} and 0 < one.avg_bytes <= 4
    ]
    return (
        *_sums(small),
        *_sums(bins),
        row.calls,
        row.time_s,
        _sums(told)[0],
        _sums(told)[2],
    )


def _sums(bins: list[SizeRow]) -> tuple[float, float, float]:
    return (
        sum(one.calls for one in bins),
        sum(one.calls * one.avg_bytes for one in bins),
        sum(one.time_s for one in bins),
    )
