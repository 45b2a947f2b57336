"""Which worker the others' pulls wait for, from workers' traces alone."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt
import pandas as pd

from hta_widgets.trace.selection import Selection
from hta_widgets.trace.traceset import TraceSet

from hta_widgets.formats.byteps.byteps_files import CONSISTENT_SHARE
from hta_widgets.formats.byteps.byteps_files import NO_WORKERS
from hta_widgets.formats.byteps.byteps_files import told_jobs
from hta_widgets.formats.byteps.byteps_files import worker_parts
from hta_widgets.analysis.results import by_column
from hta_widgets.analysis.results import joined_columns
from hta_widgets.analysis.results import result

__all__ = ["byteps_pull_blame", "byteps_pulls"]

Ints = npt.NDArray[np.int64]


def byteps_pull_blame(
    traces: TraceSet,
    *,
    selection: Selection | str | None = None,
    window: tuple[int, int] | None = None,
    ranks: Iterable[int] | None = None,
) -> pd.DataFrame:
    """Return per worker how often its pull was the shortest, and how long others waited longer.

    A server answers a pull when all workers' pushes of the same partition and iteration are in.
    Who pushes last pulls last and waits least: the worker with the *shortest* PULL is the one that
    the others waited for. This compares durations only, so clocks need not agree.

    Parameters
    ----------
    traces : TraceSet
    selection : Selection or str, optional
        Only selected PULLs count.
    window : (int, int), optional
    ranks : iterable of int, optional

    Returns
    -------
    DataFrame
        One row per worker, with

        ``worker`` : int64
        ``blame`` : float64
            Share of (partition, step) in which it alone had the shortest PULL. About one over the
            number of workers means chance; above 0.8 it is a consistent straggler.
        ``slack_ns`` : int64
            Sum of how much longer its PULLs took than the shortest: its wait for others.
        ``pulls`` : int64
            How many (partition, step) all workers have; others do not count.
        ``pull_ns`` : int64
            Sum of its PULLs among them.
        ``straggler`` : bool
        ``job`` : object

    Examples
    --------
    >>> analysis.byteps_pull_blame(traces)  # doctest: +SKIP
    """
    pulls = byteps_pulls(traces, selection=selection, window=window, ranks=ranks)
    rows: list[tuple[int, float, int, int, int, bool, str | None]] = []
    for job in pulls["job"].unique().tolist() if len(pulls) else []:
        of_job = pulls[pulls["job"] == job]
        workers = sorted(of_job["worker"].unique().tolist())
        count = len(of_job) // len(workers)
        for worker in workers:
            own = of_job[of_job["worker"] == worker]
            blame = float(own["shortest"].mean())
            rows.append(
                (
                    worker,
                    blame,
                    int(own["slack_ns"].sum()),
                    count,
                    int(own["dur_ns"].sum()),
                    blame > CONSISTENT_SHARE,
                    job or None,
                )
            )
    return result(
        by_column(rows, _BLAME),
        matched=pulls.attrs["matched"],
        note=pulls.attrs.get("note", ""),
        dropped=pulls.attrs["dropped"],
    )


_BLAME = {
    "worker": np.int64,
    "blame": np.float64,
    "slack_ns": np.int64,
    "pulls": np.int64,
    "pull_ns": np.int64,
    "straggler": np.bool_,
    "job": object,
}


def byteps_pulls(
    traces: TraceSet,
    *,
    selection: Selection | str | None = None,
    window: tuple[int, int] | None = None,
    ranks: Iterable[int] | None = None,
) -> pd.DataFrame:
    """Return the PULLs of all workers for the same partition and step beside each other.

    Parameters
    ----------
    traces : TraceSet
    selection, window, ranks
        As for `byteps_pull_blame`.

    Returns
    -------
    DataFrame
        One row per partition, step and worker: ``job`` (object, empty for none)``, key, step,
        worker, rank, id, start_ns, dur_ns, slack_ns`` (int64, over the shortest)`` and
        ``shortest`` (bool, whether it alone is). ``.attrs["dropped"]``: PULLs of which another
        worker has none.

    Examples
    --------
    >>> pulls = analysis.byteps_pulls(traces)  # doctest: +SKIP
    >>> pulls.groupby(["step", "worker"])["shortest"].mean().unstack()  # doctest: +SKIP
    """
    found = worker_parts(traces, selection, window, ranks)
    blocks: list[dict[str, Ints]] = []
    jobs: list[str] = []
    matched = dropped = 0
    few = True
    for job in told_jobs(part for part, _, _ in found):
        own: list[dict[str, Ints]] = []
        for part, rows, chosen in found:
            if (part.trace.job or "") != job:
                continue
            pull = rows.parts.stage == rows.stages.index("PULL")
            at = np.flatnonzero(pull & chosen[rows.parts.row])
            own.append(
                {
                    "key": rows.parts.key[at],
                    "step": rows.parts.step[at],
                    "worker": np.full(len(at), part.trace.worker),
                    "rank": np.full(len(at), part.rank),
                    "id": rows.parts.row[at],
                    "start_ns": rows.parts.start_ns[at] + part.trace.shift_ns,
                    "dur_ns": rows.parts.dur_ns[at],
                }
            )
        data = joined_columns(own, _COLUMNS[:-2])
        matched += len(data["key"])
        workers = len(np.unique(data["worker"]))
        if workers < 2:
            continue
        few = False
        data, lost = _of_all(data, workers)
        dropped += lost
        shortest = data["dur_ns"].reshape(-1, workers).min(axis=1)
        slack = data["dur_ns"] - np.repeat(shortest, workers)
        alone = (slack.reshape(-1, workers) == 0).sum(axis=1) == 1
        data["slack_ns"], data["shortest"] = slack, (slack == 0) & np.repeat(alone, workers)
        blocks.append(data)
        jobs += [job] * len(slack)
    note = NO_WORKERS if not found else "it takes PULLs of two workers or more" if few else ""
    whole = joined_columns(blocks, _COLUMNS, shortest=np.bool_)
    return result(
        {"job": pd.Series(jobs, dtype=object), **whole},
        matched={"PULL": matched},
        note=note,
        dropped=dropped,
    )


_COLUMNS = ("key", "step", "worker", "rank", "id", "start_ns", "dur_ns", "slack_ns", "shortest")


def _of_all(data: dict[str, Ints], workers: int) -> tuple[dict[str, Ints], int]:
    """Keep what every worker has exactly once, in the order of (key, step, worker)."""
    order = np.lexsort((data["worker"], data["step"], data["key"]))
    data = {name: values[order] for name, values in data.items()}
    new = np.append(True, (np.diff(data["key"]) != 0) | (np.diff(data["step"]) != 0))
    group = np.cumsum(new) - 1
    size = np.bincount(group)
    same = np.append(False, ~new[1:] & (np.diff(data["worker"]) == 0))
    twice = np.bincount(group[same], minlength=len(size)) > 0
    kept = ((size == workers) & ~twice)[group]
    return {name: values[kept] for name, values in data.items()}, int((~kept).sum())
