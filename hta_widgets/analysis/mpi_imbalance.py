"""How evenly time in MPI is spread over the ranks of a job, and for whom the others wait."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from hta_widgets.formats import share
from hta_widgets.model import Selection, TraceSet
from hta_widgets.model.mpi_jobs import mpi_jobs

from .lateness import costly_share
from .mpi_ranks import MpiRankRow, mpi_rank_rows
from .results import result

__all__ = ["mpi_imbalance"]

Floats = npt.NDArray[np.float64]

#: Other time of the slowest rank over the mean, from which on a rank stands out.
_UNEVEN = 1.2
#: And so far below the mean its time in MPI must lie, in standard deviations.
_FAR = -1.0
_MAD = 1.4826  # the median distance of normal deviates from their median, inverted


def mpi_imbalance(
    traces: TraceSet,
    *,
    selection: Selection | None = None,
    window: tuple[int, int] | None = None,
    ranks: Iterable[int] | None = None,
) -> pd.DataFrame:
    """Return one row per job: how uneven its ranks' time in MPI is, and who may be the cause.

    Mind the direction. Ranks that train together leave each collective together, so who computes
    longest waits least: **the straggler is the rank with the least time in MPI**, and the rank
    with the most is its victim. mpitrace's own lines "minimum" and "maximum communication time"
    read the other way at first sight.

    Parameters
    ----------
    traces, selection, window, ranks
        As in `mpi_ranks`.

    Returns
    -------
    DataFrame
        ``job`` (str), ``ranks`` and ``ntasks`` (int64, ranks that figures are of, and of the job);
        ``comm_mean_s, comm_min_s`` (float64), ``comm_min_rank`` (int64, the lowest of several),
        ``comm_max_s, comm_max_rank``, ``comm_median_s`` (the lower median, as mpitrace's);
        ``imbalance_pct``: 100·(max/mean - 1), and ``imbalance_cray_pct``:
        100·(max - mean)/max·n/(n - 1), NaN for one rank; ``noncomm_mean_s, noncomm_max_s,
        noncomm_max_rank, noncomm_ratio`` (max over mean) of the time outside of MPI;
        ``straggler_rank`` (int64): the candidate, the rank with the least time in MPI, -1 for
        one rank; ``straggler_z``: (min - mean)/population standard deviation, NaN where all are
        alike; ``straggler_robust_z``: (min - median)/(1.4826 · median distance from the median);
        ``lost_share`` (float64): how much less time the candidate spends in MPI than the median of
        the others, of the mean elapsed time; ``stands_out`` (bool): whether the candidate also
        spends the most time outside of MPI, ``noncomm_ratio`` exceeds 1.2 and the z-score lies
        below -1, no other rank's time in MPI is nearer to the candidate's than to the median, and
        all ranks of the job are known; ``is_straggler`` (bool): whether it stands out and costs
        the others so much that it is hardly by chance, as `stragglers` asks of a single step, 5 %
        times 2 + 12 / ranks: totals do not tell how steps differ; ``explanation`` (str): the same
        in words.

    Notes
    -----
    That holds for synchronous training. Where ranks have different tasks, least time in MPI may
    just mean least to say.

    Examples
    --------
    >>> mpi_imbalance(traces).explanation[0]  # doctest: +SKIP
    'Rank 5 has the least time in MPI (0.79 s, mean 2.32 s) …'
    """
    rows, note, matched = mpi_rank_rows(traces, selection, window, ranks)
    jobs: dict[str, list[MpiRankRow]] = {}
    for row in rows:
        if not (np.isnan(row.comm_s) or np.isnan(row.elapsed_s)):
            jobs.setdefault(row.job, []).append(row)
    tasks = {job.name: job.ntasks for job in mpi_jobs(traces.values())}
    records = [_of_job(job, members, tasks.get(job, 0)) for job, members in jobs.items()]
    columns: dict[str, Any] = {
        name: pd.Series([record[name] for record in records], dtype=dtype)
        for name, dtype in _DTYPES.items()
    }
    explained = [str(record["explanation"]) for record in records if record["is_straggler"]]
    return result(columns, matched=matched, note="; ".join([*explained, *([note] if note else [])]))


_DTYPES: dict[str, type] = {
    "job": object,
    "ranks": np.int64,
    "comm_mean_s": np.float64,
    "comm_min_s": np.float64,
    "comm_min_rank": np.int64,
    "comm_max_s": np.float64,
    "comm_max_rank": np.int64,
    "comm_median_s": np.float64,
    "imbalance_pct": np.float64,
    "imbalance_cray_pct": np.float64,
    "noncomm_mean_s": np.float64,
    "noncomm_max_s": np.float64,
    "noncomm_max_rank": np.int64,
    "noncomm_ratio": np.float64,
    "straggler_rank": np.int64,
    "straggler_z": np.float64,
    "straggler_robust_z": np.float64,
    "lost_share": np.float64,
    "stands_out": np.bool_,
    "is_straggler": np.bool_,
    "explanation": object,
}


def _of_job(job: str, rows: list[MpiRankRow], ntasks: int) -> dict[str, object]:
    rank = np.array([row.rank for row in rows], dtype=np.int64)
    comm = np.array([row.comm_s for row in rows])
    # Differences of printed decimals, without what doubles add to them.
    other = np.round(np.array([row.elapsed_s for row in rows]) - comm, 9)
    least, most, busiest = int(comm.argmin()), int(comm.argmax()), int(other.argmax())
    mean, count, top = float(comm.mean()), len(comm), float(comm.max())
    spread = float(comm.std())
    z = (float(comm[least]) - mean) / spread if spread > 1e-12 else float("nan")
    ratio = float(other.max()) / float(other.mean()) if other.mean() > 0 else float("nan")
    apart = bool(count >= max(ntasks, 2) and least == busiest and ratio > _UNEVEN and z < _FAR)
    # Where two ranks compute as long as each other, the others wait for neither alone.
    second = int(np.argsort(comm, kind="stable")[1]) if count > 1 else least
    is_alone = bool(2 * comm[second] >= comm[least] + np.median(comm))
    beside = "" if is_alone or not apart else f"rank {rank[second]} ({comm[second]:.2f} s)"
    elapsed = float((comm + other).mean())
    lost = float("nan")
    if count > 1 and elapsed > 0:
        lost = float(np.median(np.delete(comm, least)) - comm[least]) / elapsed
    stands_out = apart and is_alone
    record: dict[str, object] = {
        "job": job,
        "ranks": count,
        "comm_mean_s": mean,
        "comm_min_s": float(comm[least]),
        "comm_min_rank": int(rank[least]),
        "comm_max_s": top,
        "comm_max_rank": int(rank[most]),
        "comm_median_s": float(np.sort(comm)[(count - 1) // 2]),
        "imbalance_pct": 100 * (top / mean - 1) if mean > 0 else float("nan"),
        "imbalance_cray_pct": (
            100 * (top - mean) / top * count / (count - 1)
            if count > 1 and top > 0
            else float("nan")
        ),
        "noncomm_mean_s": float(other.mean()),
        "noncomm_max_s": float(other.max()),
        "noncomm_max_rank": int(rank[busiest]),
        "noncomm_ratio": ratio,
        "straggler_rank": int(rank[least]) if count > 1 else -1,
        "straggler_z": z,
        "straggler_robust_z": _robust(comm),
        "lost_share": lost,
        "stands_out": stands_out,
        "is_straggler": stands_out and lost >= costly_share(1, count),
    }
    record["explanation"] = _words(record, beside)
    return record


def _robust(comm: Floats) -> float:
    middle = float(np.median(comm))
    apart = _MAD * float(np.median(np.abs(comm - middle)))
    return (float(comm.min()) - middle) / apart if apart > 1e-12 else float("nan")


def _words(of: dict[str, Any], beside: str) -> str:
    if of["ranks"] == 1:
        return "One rank: there is nobody to wait for."
    least = (
        f"Rank {of['comm_min_rank']} has the least time in MPI"
        f" ({of['comm_min_s']:.2f} s, mean {of['comm_mean_s']:.2f} s)"
    )
    if of["is_straggler"]:
        return (
            f"{least} and the most outside of it ({of['noncomm_max_s']:.2f} s, mean"
            f" {of['noncomm_mean_s']:.2f} s): the others wait for it. Rank"
            f" {of['comm_max_rank']}, with the most time in MPI, waits longest and is not the"
            " cause."
        )
    if beside:
        return f"{least}, but {beside} has hardly more: no rank stands out alone."
    if of["stands_out"]:
        return (
            f"{least} and the most outside of it, but that is {share(of['lost_share'])} of the run"
            " less than the median of the others, which may be chance: no rank is a straggler."
        )
    return (
        f"{least}, but no rank stands out: the most time outside of MPI is"
        f" {of['noncomm_ratio']:.2f} times the mean."
    )
