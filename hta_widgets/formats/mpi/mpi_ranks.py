"""What each MPI rank and each host of a job spent."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from hta_widgets.trace.selection import Selection
from hta_widgets.trace.traceset import TraceSet
from hta_widgets.formats.mpi.mpi_jobs import MpiJob
from hta_widgets.formats.mpi.mpi_tables_model import MpiProfile

from hta_widgets.formats.mpi.mpi_tables import MpiRank
from hta_widgets.formats.mpi.mpi_tables import divided
from hta_widgets.formats.mpi.mpi_tables import mpi_scope
from hta_widgets.analysis.results import result

__all__ = ["MpiRankRow", "mpi_hosts", "mpi_rank_rows", "mpi_ranks"]

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

    Examples
    --------
    >>> table = mpi_ranks(traces)  # doctest: +SKIP
    >>> table.sort_values("comm_s").head(3)  # doctest: +SKIP
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

    Examples
    --------
    >>> mpi_hosts(traces)  # doctest: +SKIP
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
