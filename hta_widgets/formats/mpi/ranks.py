"""Ranks, hosts, imbalance."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from hta_widgets.analysis.lateness import costly_share
from hta_widgets.analysis.scope import result
from hta_widgets.analysis.stragglers import stragglers
from hta_widgets.formats.mpi.model import MpiJob, MpiProfile, mpi_jobs
from hta_widgets.formats.mpi.routines import MpiRank, divided, mpi_scope
from hta_widgets.text import share
from hta_widgets.trace.selection import Selection
from hta_widgets.trace.traceset import TraceSet

Floats = npt.NDArray[np.float64]

_NAN = float("nan")


@dataclass(slots=True)
class MpiRankRow:
    """One rank of a job, from the best source that there is."""

    job: str
    rank: int
    host: str = ""
    comm_s: float = _NAN
    elapsed_s: float = _NAN
    user_s: float = _NAN
    system_s: float = _NAN
    rss_mib: float = _NAN
    switches: int = -1
    cpu: int = -1
    sync_s: float = _NAN
    io_s: float = _NAN
    key: int = -1
    stale: bool = False
    source: str = "table"


def mpi_ranks(
    traces: TraceSet,
    *,
    selection: Selection | None = None,
    window: tuple[int, int] | None = None,
    ranks: Iterable[int] | None = None,
) -> pd.DataFrame:
    """Return one row per MPI rank of a job: its time in MPI, its other time, memory, host.

    By default mpitrace writes files of four ranks only, but rank 0's file ends with a table of
    all. Ranks of that table are told by it, to the hundredth of a second, also where they have
    files of their own, so that all are measured alike; other ranks by their files; ranks of time
    lines by their events. Files that contradict the table are ``stale`` and are not used.

    Parameters
    ----------
    traces : TraceSet
    selection, window
        Narrow the events of time lines. They cannot apply to text profiles, which are then left
        out; the note says so.
    ranks : iterable of int, optional
        Keys of the set: which files to use. The table of rank 0's file is always whole.

    Returns
    -------
    DataFrame
        By job and rank: ``job`` (str), ``rank`` (int64), ``host`` (str, empty where unknown),
        ``comm_s`` (float64, seconds in MPI, without MPI-IO), ``elapsed_s, user_s, system_s``,
        ``rss_mib`` (largest resident set), ``switches`` (int64, context switches, -1 unknown);
        ``noncomm_s`` (elapsed less comm, an upper bound of computing), ``comm_share`` (of
        elapsed), ``cpu_utilisation`` (user and system over elapsed; threads make it exceed 1),
        ``cpu`` (int64, the processor at the end, -1 unknown), ``sync_s`` and ``io_s`` (of ranks
        with files), ``key`` (int64, of the rank's file in the set, -1 without), ``stale`` (bool),
        ``source`` (``"table"``, ``"file"`` or ``"trace"``). NaN for what files do not tell.

        The note says of which ranks there are tables of routines.
    """
    rows, note, matched = mpi_rank_rows(traces, selection, window, ranks)
    column = _columns(rows)
    for name in ("job", "host", "source"):
        column[name] = pd.Series(column[name], dtype=object)
    elapsed, comm = column["elapsed_s"], column["comm_s"]
    known = column.pop("cpu"), column.pop("sync_s"), column.pop("io_s")
    tail = {name: column.pop(name) for name in ("key", "stale", "source")}
    return result(
        {
            **column,
            "noncomm_s": elapsed - comm,
            "comm_share": divided(comm, elapsed),
            "cpu_utilisation": divided(column["user_s"] + column["system_s"], elapsed),
            "cpu": known[0],
            "sync_s": known[1],
            "io_s": known[2],
            **tail,
        },
        matched=matched,
        note=note,
    )


def mpi_rank_rows(
    traces: TraceSet,
    selection: Selection | None,
    window: tuple[int, int] | None,
    ranks: Iterable[int] | None,
) -> tuple[list[MpiRankRow], str, dict[str, int]]:
    """Return the ranks of all jobs, what to say of them, and how many there are of each source."""
    scope = mpi_scope(traces, selection, window, ranks, stale=True)
    by_events = selection is not None or window is not None
    rows: list[MpiRankRow] = []
    notes = [scope.note] if scope.note else []
    for job in scope.jobs:
        mine = [rank for rank in scope.ranks if rank.job == job.name]
        found = _job_rows(job, mine, traces, by_events=by_events)
        rows += found
        text = "" if by_events else _told(job, found)
        if text:
            notes.append(text)
    matched = {
        f"from_{source}": sum(row.source == source for row in rows)
        for source in ("table", "file", "trace")
    }
    matched["stale"] = sum(row.stale for row in rows)
    return rows, "; ".join(notes), matched


def _job_rows(
    job: MpiJob, told: list[MpiRank], traces: TraceSet, *, by_events: bool
) -> list[MpiRankRow]:
    head = None if by_events else job.head
    rows: dict[int, MpiRankRow] = {}
    if head is not None and head.summary is not None:
        for one in head.summary.ranks:
            rows[one.rank] = MpiRankRow(job.name, **one._asdict())
    for rank in told:
        row = rows.setdefault(rank.rank, MpiRankRow(job.name, rank.rank, source=""))
        profile = traces[rank.key].profile if rank.is_profile else None
        if profile is not None and profile.stale:
            row.stale = True
            row.source = row.source or "file"
            continue
        row.key = rank.key
        if profile is not None:
            row.sync_s, row.io_s = profile.sync_s, profile.io_s
        if row.source == "table":
            continue
        row.source = "file" if profile is not None else "trace"
        row.comm_s, row.elapsed_s = rank.comm_s, rank.elapsed_s
        if profile is not None:
            _fill(row, profile)
    return [rows[rank] for rank in sorted(rows)]


def _fill(row: MpiRankRow, profile: MpiProfile) -> None:
    row.user_s, row.system_s, row.rss_mib = profile.user_s, profile.system_s, profile.rss_mib


def _told(job: MpiJob, rows: list[MpiRankRow]) -> str:
    """Return of which ranks there are tables of routines, unless it is all."""
    if not job.profiles:
        return ""
    have = [row.rank for row in rows if row.key >= 0]
    text = ""
    if len(have) < job.ntasks:
        listed = ", ".join(map(str, have[:16])) + (", …" if len(have) > 16 else "")
        text = f"job {job.name} has tables of routines of ranks {listed} of {job.ntasks}"
    if job.head is None:
        text += ("; " if text else "") + (
            f"job {job.name} has no table of all ranks: rank 0's file is missing or cut off"
        )
    old = [row.rank for row in rows if row.stale]
    if old:
        listed = ", ".join(map(str, old))
        text += ("; " if text else "") + (
            f"files of ranks {listed} of job {job.name} are left over from another run and not used"
        )
    return text


def _columns(rows: list[MpiRankRow]) -> dict[str, Any]:
    dtypes: dict[str, Any] = {"str": object, "int": np.int64, "float": np.float64, "bool": np.bool_}
    return {
        field.name: np.array(
            [getattr(row, field.name) for row in rows], dtype=dtypes[str(field.type)]
        )
        for field in fields(MpiRankRow)
    }


def mpi_hosts(
    traces: TraceSet,
    *,
    selection: Selection | None = None,
    window: tuple[int, int] | None = None,
    ranks: Iterable[int] | None = None,
) -> pd.DataFrame:
    """Return one row per host of a job: how its ranks did.

    A host is slow as a whole if every one of its ranks spends less time in MPI than every rank of
    the other hosts: the others wait for all of them.

    Parameters
    ----------
    traces, selection, window, ranks
        As in `mpi_ranks`.

    Returns
    -------
    DataFrame
        By job, in the order of the lowest ranks: ``job, host`` (str), ``ranks`` (int64),
        ``comm_mean_s, comm_min_s, comm_max_s, noncomm_mean_s`` (float64), ``rss_max_mib``,
        ``rss_sum_mib`` (float64), ``switches_mean`` (float64), ``is_slow`` (bool).
    """
    rows, note, matched = mpi_rank_rows(traces, selection, window, ranks)
    groups: dict[tuple[str, str], list[MpiRankRow]] = {}
    for row in rows:
        if not np.isnan(row.comm_s):
            groups.setdefault((row.job, row.host), []).append(row)
    comm = [np.array([row.comm_s for row in group]) for group in groups.values()]
    elapsed = [np.array([row.elapsed_s for row in group]) for group in groups.values()]
    memory = [np.array([row.rss_mib for row in group]) for group in groups.values()]
    switches = [np.array([row.switches for row in group], float) for group in groups.values()]
    slow = [
        any(job == key[0] and other != key for other in groups for job in [other[0]])
        and bool(mine.size)
        and all(
            float(mine.max()) < float(others.min())
            for other, others in zip(groups, comm, strict=True)
            if other[0] == key[0] and other != key
        )
        for key, mine in zip(groups, comm, strict=True)
    ]
    return result(
        {
            "job": pd.Series([job for job, _ in groups], dtype=object),
            "host": pd.Series([host for _, host in groups], dtype=object),
            "ranks": np.array([len(one) for one in comm], dtype=np.int64),
            "comm_mean_s": np.array([one.mean() for one in comm], dtype=np.float64),
            "comm_min_s": np.array([one.min() for one in comm], dtype=np.float64),
            "comm_max_s": np.array([one.max() for one in comm], dtype=np.float64),
            "noncomm_mean_s": np.array(
                [(a - b).mean() for a, b in zip(elapsed, comm, strict=True)], dtype=np.float64
            ),
            "rss_max_mib": np.array([one.max() for one in memory], dtype=np.float64),
            "rss_sum_mib": np.array([one.sum() for one in memory], dtype=np.float64),
            "switches_mean": np.array(
                [one.mean() if (one >= 0).all() else _NAN for one in switches], dtype=np.float64
            ),
            "is_slow": np.array(slow, dtype=np.bool_),
        },
        matched=matched,
        note=note,
    )


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


def mpi_stragglers(traces: TraceSet) -> set[tuple[str, int]]:
    """Return job and MPI rank of the ranks that the others wait for.

    These are the ranks of a job's time line that `stragglers` names; if it names none, those that
    `mpi_imbalance` names by their time in MPI.
    """
    jobs = mpi_jobs(traces.values())
    if not jobs:
        return set()
    late = stragglers(traces)
    keys = set(late["rank"][late["is_straggler"]].tolist())
    uneven = mpi_imbalance(traces)
    found = set()
    for name, rank in uneven.loc[uneven["is_straggler"], ["job", "straggler_rank"]].to_numpy():
        found.add((str(name), int(rank)))
    for job in jobs:
        named = {(job.name, int(o.stated_rank or 0)) for o in job.lines if o.rank in keys}
        if named:
            found = {one for one in found if one[0] != job.name} | named
    return found


def late_ranks(traces: TraceSet) -> list[int]:
    """Return the ranks of the set whose files are of `mpi_stragglers`."""
    named = mpi_stragglers(traces)
    found: list[int] = []
    for job in mpi_jobs(traces.values()) if named else ():
        # A rank's time line and its profile are one rank: the line is what a page shows.
        files = {one.stated_rank: one.rank for one in job.profiles + job.lines}
        found += [key for rank, key in files.items() if (job.name, rank) in named]
    return found
