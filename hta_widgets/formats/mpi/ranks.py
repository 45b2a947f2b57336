"""Analyses of MPI ranks: time in MPI, hosts, imbalance, stragglers."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import pandas as pd

from hta_widgets.analysis.cross_rank.stragglers import (
    COSTLY_SHARE,
    STAND_OUT,
    costly_share,
    stragglers,
)
from hta_widgets.analysis.frames import columns_of_rows, float64, int64, result_frame
from hta_widgets.analysis.scope import Window
from hta_widgets.arguments import check_arguments
from hta_widgets.formats.mpi.model import MpiJob, mpi_jobs
from hta_widgets.formats.mpi.routines import MpiRank, by_events, mpi_scope, safe_ratio
from hta_widgets.text import share
from hta_widgets.trace.arrays import Floats, Ints
from hta_widgets.trace.traceset import Selection, TraceSet

_NAN = float("nan")
_COLUMNS = {
    "job": "object", "rank": "int64", "host": "object",
    **float64("comm_s elapsed_s user_s system_s rss_mib"), **int64("switches cpu"),
    **float64("sync_s io_s"), "key": "int64", "stale": "bool", "source": "object",
}  # fmt: skip
#: Default values of columns that the files lack.
_UNKNOWN: dict[str, Any] = {
    name: {"object": "", "int64": -1, "float64": _NAN, "bool": False}[dtype]
    for name, dtype in _COLUMNS.items()
}


@check_arguments
def mpi_ranks(
    traces: TraceSet,
    *,
    selection: Selection | None = None,
    window: Window | None = None,
    ranks: Iterable[int] | None = None,
) -> pd.DataFrame:
    """Return time in MPI, other time, memory and host of each MPI rank of a job.

    By default, mpitrace writes files for only four ranks, but rank 0's file ends with a table of
    all ranks. Figures are taken from this table, which has hundredths of a second, even for ranks
    with files of their own, so that all ranks are measured in the same way. Ranks that the table
    lacks get their figures from their files, and time lines from their events. Files that
    contradict the table are ``stale`` and not used. `selection` and `window` only apply to time
    lines; they exclude text profiles, as the note states.

    Parameters
    ----------
    traces : TraceSet
    selection, window : Selection, (start_ns, end_ns), optional
        The events to analyze, restricted by time. Default: all.
    ranks : iterable of int, optional
        Trace-set keys of the files to use. The table in rank 0's file is always used as a whole.

    Returns
    -------
    DataFrame
        By job and rank: ``job`` (str), ``rank`` (int64), ``host`` (str, empty if unknown),
        ``comm_s`` (float64, seconds in MPI, without MPI-IO), ``elapsed_s, user_s, system_s``,
        ``rss_mib`` (largest resident set), ``switches`` (int64, context switches, -1 unknown);
        ``noncomm_s`` (elapsed less comm, an upper bound of computing), ``comm_share`` (of
        elapsed), ``cpu_utilisation`` (user and system over elapsed; above 1 with threads),
        ``cpu`` (int64, the processor at the end, -1 unknown), ``sync_s`` and ``io_s`` (of ranks
        with files), ``key`` (int64, of the rank's file in the set, -1 without), ``stale`` (bool),
        ``source`` (``"table"``, ``"file"`` or ``"trace"``). NaN for values that files lack.

        The note lists the ranks that have tables of routines.
    """
    frame, notes, matched = _rank_frame(traces, selection, window, ranks)
    elapsed = frame["elapsed_s"]
    used_s = frame["user_s"] + frame["system_s"]
    columns: dict[Any, Any] = {
        **frame.loc[:, :"switches"].to_dict("series"),
        "noncomm_s": elapsed - frame["comm_s"],
        "comm_share": (frame["comm_s"] / elapsed).where(elapsed > 0),
        "cpu_utilisation": (used_s / elapsed).where(elapsed > 0),
        **frame.loc[:, "cpu":].to_dict("series"),
    }
    return result_frame(columns, matched=matched, note=notes)


def _rank_frame(
    traces: TraceSet,
    selection: Selection | None,
    window: Window | None,
    ranks: Iterable[int] | None,
) -> tuple[pd.DataFrame, list[str], dict[str, int]]:
    """Return the ranks of all jobs, notes, and the number of ranks from each source."""
    selected_scope = mpi_scope(traces, selection, window, ranks, stale=True)
    rows: list[dict[str, Any]] = []
    notes = [selected_scope.note]
    for job in selected_scope.jobs:
        ranks_of_job = [rank for rank in selected_scope.ranks if rank.job == job.name]
        uses_profiles = not by_events(selection, window)
        rows_of_job = _job_rows(job, ranks_of_job, traces, uses_profiles=uses_profiles)
        rows += rows_of_job
        if job.profiles and uses_profiles:
            notes += _missing_files_text(job, rows_of_job)
    frame = pd.DataFrame(columns_of_rows((row.values() for row in rows), _COLUMNS))
    sources = frame["source"].tolist()
    matched = {f"from_{source}": sources.count(source) for source in ("table", "file", "trace")}
    matched["stale"] = int(frame["stale"].sum())
    return frame, notes, matched


def _job_rows(
    job: MpiJob, ranks_of_job: list[MpiRank], traces: TraceSet, *, uses_profiles: bool
) -> list[dict[str, Any]]:
    """Return the ranks of a job, from rank 0's table if it has one, else from their files."""
    rows: dict[int, dict[str, Any]] = {}
    head = job.head if uses_profiles else None
    if head is not None and head.summary is not None:
        for entry in head.summary.ranks:
            rows[entry.rank] = {**_UNKNOWN, "job": job.name, "source": "table", **entry._asdict()}
    for rank in ranks_of_job:
        row = rows.setdefault(rank.rank, {**_UNKNOWN, "job": job.name, "rank": rank.rank})
        profile = traces[rank.key].profile if rank.is_profile else None
        if profile is not None and profile.stale:
            row |= {"stale": True, "source": row["source"] or "file"}
            continue
        row["key"] = rank.key
        if profile is not None:
            row |= {"sync_s": profile.sync_s, "io_s": profile.io_s}
        if row["source"] == "table":
            continue
        row |= {"source": "trace", "comm_s": rank.comm_s, "elapsed_s": rank.elapsed_s}
        if profile is not None:
            names = ("user_s", "system_s", "rss_mib")
            row |= {"source": "file", **{name: getattr(profile, name) for name in names}}
    return [rows[rank] for rank in sorted(rows)]


def _missing_files_text(job: MpiJob, rows: list[dict[str, Any]]) -> list[str]:
    """Return sentences about files that a job lacks, and about files that are not used."""
    notes = []
    present = [row["rank"] for row in rows if row["key"] >= 0]
    if len(present) < job.ntasks:
        listed = ", ".join(map(str, present[:16])) + (", …" if len(present) > 16 else "")
        notes.append(f"job {job.name} has routine tables of ranks {listed} of {job.ntasks}")
    if job.head is None:
        notes.append(
            f"job {job.name} has no table of all ranks: rank 0's file is missing or cut off"
        )
    stale = ", ".join(str(row["rank"]) for row in rows if row["stale"])
    if stale:
        notes.append(
            f"files of ranks {stale} of job {job.name} are left over from another run and not used"
        )
    return notes


@check_arguments
def mpi_hosts(
    traces: TraceSet,
    *,
    selection: Selection | None = None,
    window: Window | None = None,
    ranks: Iterable[int] | None = None,
) -> pd.DataFrame:
    """Return time in MPI and memory for each host of a job.

    A host is slow as a whole if each of its ranks spends less time in MPI than every rank on other
    hosts, so that the other hosts wait for all of its ranks.

    Parameters
    ----------
    traces : TraceSet
    selection, window, ranks : Selection, (start_ns, end_ns), iterable of int, optional
        The events to analyze, restricted by time and ranks. Default: all.

    Returns
    -------
    DataFrame
        By job, in the order of the lowest ranks: ``job, host`` (str), ``ranks`` (int64),
        ``comm_mean_s, comm_min_s, comm_max_s, noncomm_mean_s`` (float64), ``rss_max_mib``,
        ``rss_sum_mib`` (float64), ``switches_mean`` (float64), ``is_slow`` (bool).
    """
    frame, notes, matched = _rank_frame(traces, selection, window, ranks)
    rows: list[tuple[Any, ...]] = []
    timed = frame[frame["comm_s"].notna()]
    for (job, host), ranks_of_host in timed.groupby(["job", "host"], sort=False):
        comm, rss = ranks_of_host["comm_s"].to_numpy(), ranks_of_host["rss_mib"].to_numpy()
        other = ranks_of_host["elapsed_s"].to_numpy() - comm
        counts = ranks_of_host["switches"]
        switches = counts.mean() if (counts >= 0).all() else _NAN
        times = comm.mean(), comm.min(), comm.max(), other.mean()
        rows.append((job, host, len(ranks_of_host), *times, rss.max(), rss.sum(), switches))
    schema = {
        "job": "object", "host": "object", "ranks": "int64",
        **float64("comm_mean_s comm_min_s comm_max_s noncomm_mean_s rss_max_mib rss_sum_mib"),
        **float64("switches_mean"),
    }  # fmt: skip
    hosts = pd.DataFrame(columns_of_rows(rows, schema))
    is_slow = [
        bool(max_s < hosts["comm_min_s"][(hosts["job"] == job) & (hosts["host"] != host)].min())
        for job, host, max_s in zip(hosts["job"], hosts["host"], hosts["comm_max_s"], strict=True)
    ]
    columns: dict[Any, Any] = hosts.assign(is_slow=np.array(is_slow, bool)).to_dict("series")
    return result_frame(columns, matched=matched, note=notes)


#: A rank stands out if its time outside of MPI is more than this multiple of the ranks' mean
_UNEVEN = 1.2
#: and its time in MPI is below the mean by at least this many standard deviations.
_FAR = -1.0
_MAD = 1.4826  # standard deviation / median distance of a normal distribution


@check_arguments
def mpi_imbalance(
    traces: TraceSet,
    *,
    selection: Selection | None = None,
    window: Window | None = None,
    ranks: Iterable[int] | None = None,
) -> pd.DataFrame:
    """Return, for each job, the imbalance between the ranks' times in MPI and its possible cause.

    Ranks that train together leave each collective at the same time, so the rank that computes
    longest waits least: **the straggler is the rank with the least time in MPI**. The rank with the
    most time waits longest for it. mpitrace's own lines "minimum" and "maximum communication time"
    seem to suggest the opposite.

    Parameters
    ----------
    traces : TraceSet
    selection, window, ranks : Selection, (start_ns, end_ns), iterable of int, optional
        The events to analyze, restricted by time and ranks. Default: all.

    Returns
    -------
    DataFrame
        ``job`` (str), ``ranks`` and ``ntasks`` (int64, ranks with figures, and ranks of the job);
        ``comm_mean_s, comm_min_s`` (float64), ``comm_min_rank`` (int64, the lowest of several),
        ``comm_max_s, comm_max_rank``, ``comm_median_s`` (the lower median, as mpitrace's);
        ``imbalance_pct``: 100·(max/mean - 1), and ``imbalance_cray_pct``:
        100·(max - mean)/max·n/(n - 1), NaN for one rank; ``noncomm_mean_s, noncomm_max_s,
        noncomm_max_rank, noncomm_ratio`` (max over mean) of the time outside of MPI;
        ``straggler_rank`` (int64): the candidate, the rank with the least time in MPI, -1 for
        one rank; ``straggler_z``: (min - mean)/population standard deviation, NaN if all are
        equal; ``straggler_robust_z``: (min - median)/(1.4826 · median distance from the median);
        ``lost_share`` (float64): how much less time the candidate spends in MPI than the median of
        the others, of the mean elapsed time; ``stands_out`` (bool): whether the candidate also
        spends the most time outside of MPI, ``noncomm_ratio`` exceeds 1.2 and the z-score is
        below -1, no other rank's time in MPI is nearer to the candidate's than to the median, and
        all ranks of the job are known; ``is_straggler`` (bool): whether it stands out and costs
        the others too much to be chance, with the limit of `stragglers` for a single step, 5 %
        times 2 + 12 / ranks: totals do not show how steps differ; ``explanation`` (str): the same
        in words.

    Notes
    -----
    This interpretation holds for synchronous training. If ranks have different tasks, the rank with
    the least time in MPI may simply send the fewest messages.
    """
    frame, notes, matched = _rank_frame(traces, selection, window, ranks)
    timed = frame[frame["comm_s"].notna() & frame["elapsed_s"].notna()]
    tasks = {job.name: job.ntasks for job in mpi_jobs(traces.values())}
    records = [
        {"job": job, **_imbalance(ranks_of_job, tasks.get(str(job), 0))}
        for job, ranks_of_job in timed.groupby("job", sort=False)
    ]
    columns = columns_of_rows((record.values() for record in records), _IMBALANCE)
    explained = [str(record["explanation"]) for record in records if record["is_straggler"]]
    return result_frame(columns, matched=matched, note=[*explained, *notes])


_IMBALANCE = {
    "job": "object", "ranks": "int64", **float64("comm_mean_s comm_min_s"),
    "comm_min_rank": "int64", "comm_max_s": "float64", "comm_max_rank": "int64",
    **float64("comm_median_s imbalance_pct imbalance_cray_pct noncomm_mean_s noncomm_max_s"),
    "noncomm_max_rank": "int64", "noncomm_ratio": "float64", "straggler_rank": "int64",
    **float64("straggler_z straggler_robust_z lost_share"), "stands_out": "bool",
    "is_straggler": "bool", "explanation": "object",
}  # fmt: skip


def _imbalance(ranks_of_job: pd.DataFrame, ntasks: int) -> dict[str, Any]:
    """Return the columns of `_IMBALANCE` that follow the job."""
    rank, comm_s = ranks_of_job["rank"].to_numpy(), ranks_of_job["comm_s"].to_numpy()
    # Rounding removes floating-point errors from differences between printed decimals.
    other_s = np.round(ranks_of_job["elapsed_s"].to_numpy() - comm_s, 9)
    least, most, busiest = int(comm_s.argmin()), int(comm_s.argmax()), int(other_s.argmax())
    count, min_s, max_s = len(comm_s), float(comm_s[least]), float(comm_s[most])
    mean, median, deviation = float(comm_s.mean()), float(np.median(comm_s)), float(comm_s.std())
    robust_deviation = _MAD * float(np.median(np.abs(comm_s - median)))
    z_score = (min_s - mean) / deviation if deviation > 1e-12 else _NAN
    ratio = safe_ratio(float(other_s.max()), float(other_s.mean()))
    is_far = count >= max(ntasks, 2) and least == busiest and ratio > _UNEVEN and z_score < _FAR
    rival = _rival(rank, comm_s) if is_far else ""
    stands_out = is_far and not rival
    elapsed_s = float((comm_s + other_s).mean())
    lost_share = _NAN
    if count > 1 and elapsed_s > 0:
        lost_share = float(np.median(np.delete(comm_s, least)) - min_s) / elapsed_s
    record: dict[str, Any] = {
        "ranks": count,
        "comm_mean_s": mean,
        "comm_min_s": min_s,
        "comm_min_rank": int(rank[least]),
        "comm_max_s": max_s,
        "comm_max_rank": int(rank[most]),
        "comm_median_s": float(np.sort(comm_s)[(count - 1) // 2]),
        "imbalance_pct": 100 * (safe_ratio(max_s, mean) - 1),
        "imbalance_cray_pct": (
            100 * (max_s - mean) / max_s * count / (count - 1) if count > 1 and max_s > 0 else _NAN
        ),
        "noncomm_mean_s": float(other_s.mean()),
        "noncomm_max_s": float(other_s.max()),
        "noncomm_max_rank": int(rank[busiest]),
        "noncomm_ratio": ratio,
        "straggler_rank": int(rank[least]) if count > 1 else -1,
        "straggler_z": z_score,
        "straggler_robust_z": (
            (min_s - median) / robust_deviation if robust_deviation > 1e-12 else _NAN
        ),
        "lost_share": lost_share,
        "stands_out": stands_out,
        "is_straggler": stands_out and lost_share >= costly_share(1, count),
    }
    return {**record, "explanation": _imbalance_cause(record, rival)}


def _rival(rank: Ints, comm: Floats) -> str:
    """Describe the rank, if any, with nearly the least time in MPI; other ranks wait for it too."""
    least, second = np.argsort(comm, kind="stable")[:2]
    is_near = 2 * comm[second] < comm[least] + np.median(comm)
    return f"rank {rank[second]} ({comm[second]:.2f} s)" if is_near else ""


def _imbalance_cause(record: dict[str, Any], rival: str) -> str:
    """Explain a record of `_imbalance`; `rival` describes a rank with nearly the least time."""
    if record["ranks"] == 1:
        return "A single rank has no other rank to wait for."
    min_text = (
        f"Rank {record['comm_min_rank']} has the least time in MPI"
        f" ({record['comm_min_s']:.2f} s, mean {record['comm_mean_s']:.2f} s)"
    )
    if record["is_straggler"]:
        return (
            f"{min_text} and the most time outside MPI ({record['noncomm_max_s']:.2f} s, mean"
            f" {record['noncomm_mean_s']:.2f} s): the others wait for it. Rank"
            f" {record['comm_max_rank']} has the most time in MPI because it waits longest;"
            " it is not the cause."
        )
    if rival:
        return f"{min_text}, but {rival} has almost as little: no single rank stands out."
    if record["stands_out"]:
        return (
            f"{min_text} and the most time outside MPI, but its time in MPI is below the median of"
            f" the others by only {share(record['lost_share'])} of the run, which may be chance:"
            " no rank is a straggler."
        )
    return (
        f"{min_text}, but no rank stands out: the most time outside MPI is"
        f" {record['noncomm_ratio']:.2f} times the mean."
    )


def mpi_stragglers(traces: TraceSet) -> set[tuple[str, int]]:
    """Return (job, MPI rank) of each rank for which other ranks wait.

    These are the ranks named by `stragglers` for a job's time lines or, if it names none, the ranks
    that `mpi_imbalance` identifies by their time in MPI.
    """
    jobs = mpi_jobs(traces.values())
    if not jobs:
        return set()
    late = stragglers(traces)
    late_keys = set(late["rank"][late["is_straggler"]].tolist())
    uneven = mpi_imbalance(traces)
    uneven = uneven[uneven["is_straggler"]]
    late_ranks_of_jobs: set[tuple[str, int]] = set()
    for job in jobs:
        mpi_ranks = [int(line.stated_rank or 0) for line in job.lines if line.rank in late_keys]
        if not mpi_ranks:
            mpi_ranks = uneven["straggler_rank"][uneven["job"] == job.name].tolist()
        late_ranks_of_jobs.update((job.name, rank) for rank in mpi_ranks)
    return late_ranks_of_jobs


def costly_ranks(traces: TraceSet) -> dict[str, tuple[int, float]]:
    """Return each job's MPI rank that costs other ranks most time, and the share of time lost.

    Only ranks that stand out in a job's time lines are returned. Without steps, `stragglers` names
    a rank only if its cost is far above chance, so it may omit them.
    """
    jobs = [job for job in mpi_jobs(traces.values()) if len(job.lines) > 1]
    if not jobs:
        return {}
    lost_shares = stragglers(traces).set_index("rank")["lost_share"]
    costly = {}
    for job in jobs:
        shares = lost_shares.reindex([trace.rank for trace in job.lines]).fillna(0)
        place, largest = int(shares.argmax()), float(shares.max())
        others = np.delete(shares.to_numpy(), place)
        if largest >= max(COSTLY_SHARE, STAND_OUT * float(np.median(others))):
            costly[job.name] = (int(job.lines[place].stated_rank or 0), largest)
    return costly


def late_ranks(traces: TraceSet) -> list[int]:
    """Return the ranks of the trace set whose files belong to `mpi_stragglers`."""
    named = mpi_stragglers(traces)
    ranks: list[int] = []
    for job in mpi_jobs(traces.values()) if named else ():
        # If a rank has files of both kinds, its key is the time line's.
        files = {member.stated_rank: member.rank for member in job.profiles + job.lines}
        ranks += [key for rank, key in files.items() if (job.name, rank) in named]
    return ranks
