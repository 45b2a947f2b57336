"""Two BytePS runs side by side: stages, tensors, workers and servers."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pandas as pd

from hta_widgets.analysis.scope import result
from hta_widgets.diff.beside import beside, of_sides
from hta_widgets.diff.compare import Comparison, RunSide
from hta_widgets.diff.statistics import welch
from hta_widgets.formats.byteps.rows import STAGES, worker_rows
from hta_widgets.formats.byteps.servers import byteps_servers, byteps_worker_lag
from hta_widgets.formats.byteps.workers import byteps_gradients, byteps_pull_blame
from hta_widgets.trace.memo import derived_once

__all__ = ["byteps_lag", "byteps_server_times", "byteps_stages", "byteps_tensors", "byteps_workers"]

Floats = npt.NDArray[np.float64]

_MEASURES = ("count", "work_ns", "queue_ns")


def byteps_stages(diff: Comparison) -> pd.DataFrame:
    """Return what each stage takes in a step of both runs, and the queue before it.

    Parameters
    ----------
    diff : Comparison
        Of workers' traces.

    Returns
    -------
    DataFrame
        One row per stage, and whether the queue before it is waiting for the root GPU's word, along
        the pipeline: ``stage`` (str), ``waits_for_root`` (bool), and per step and GPU that has the
        stage, sums over its partitions, which overlap (float64): ``before_count, after_count,
        diff_count``, the same of ``work_ns`` and ``queue_ns``; and ``work_p_value,
        queue_p_value``: Welch's test over the steps, NaN with fewer than two.

    Examples
    --------
    >>> byteps_stages(diff)[["stage", "diff_work_ns", "diff_queue_ns"]]  # doctest: +SKIP
    """
    return _stages(diff).copy()


@derived_once("byteps_stages")
def _stages(diff: Comparison) -> pd.DataFrame:
    sides = [_by_stage(side) for side in diff.sides]
    every = dict.fromkeys([*sides[0], *sides[1]])
    order = sorted(every, key=lambda key: _place(key[0]))
    nothing = np.zeros((len(_MEASURES), diff.step_count))
    columns: dict[str, object] = {
        "stage": pd.array([stage for stage, _ in order], dtype="str"),
        "waits_for_root": np.array([root for _, root in order], dtype=np.bool_),
    }
    values = [
        np.stack([side.get(key, nothing) for key in order])
        if order
        else np.zeros((0, *nothing.shape))
        for side in sides
    ]
    means = [value.mean(axis=2) for value in values]
    for k, name in enumerate(_MEASURES):
        columns[f"before_{name}"] = means[0][:, k]
        columns[f"after_{name}"] = means[1][:, k]
        columns[f"diff_{name}"] = means[1][:, k] - means[0][:, k]
    for k, name in ((1, "work"), (2, "queue")):
        columns[f"{name}_p_value"] = welch(values[0][:, k].T, values[1][:, k].T)
    return result(
        columns,
        matched={"stages": len(order)},
        note="" if order else "no stages in the steps that are compared",
        steps=diff.step_count,
    )


def _by_stage(side: RunSide) -> dict[tuple[str, bool], Floats]:
    """Return `_MEASURES` by step of each stage: means over the GPUs that have it."""
    sums: dict[tuple[str, bool], list[Floats]] = {}
    count = len(side.steps)
    for part in side.parts.values():
        rows = worker_rows(part.trace)
        stages = rows.parts
        chosen = np.zeros(len(part.trace), dtype=bool)
        chosen[part.rows] = True
        place = np.searchsorted(np.sort(side.steps), stages.step)
        order = np.argsort(side.steps, kind="stable")
        at = order[np.minimum(place, count - 1)] if count else place
        kept = chosen[stages.row]
        kept &= (side.steps[at] == stages.step) | (not side.has_steps)
        for code, stage in enumerate(rows.stages):
            mine = np.flatnonzero(kept & (stages.stage == code))
            if not len(mine):
                continue
            step = at[mine] if side.has_steps else np.zeros(len(mine), dtype=np.intp)
            # Of a cut file, queues are known of whole partitions alone.
            queue = np.where(stages.complete[mine], stages.queue_ns[mine], 0)
            weights = np.ones(len(mine)), stages.dur_ns[mine], queue
            found: Floats = np.stack(
                [np.bincount(step, weight, count).astype(np.float64) for weight in weights]
            )
            key = stage, stage == "COPYH2D" and not rows.is_root
            sums.setdefault(key, []).append(found)
    return {key: np.mean(found, axis=0) for key, found in sums.items()}


def _place(stage: str) -> int:
    return STAGES.index(stage) if stage in STAGES else len(STAGES)


def byteps_tensors(diff: Comparison) -> pd.DataFrame:
    """Return what the synchronisation of each tensor takes in both runs.

    Parameters
    ----------
    diff : Comparison
        Of workers' traces.

    Returns
    -------
    DataFrame
        One row per tensor, by the change of its time: ``tensor`` (str); means over GPUs and steps
        (float64): ``before_total_ns, after_total_ns, diff_total_ns``, and the same of ``busy_ns``,
        ``queue_ns`` and ``tail_ns`` of the partition that ends last, which add up to the total; and
        of ``last_share``: the share of steps in which the tensor was the last to end.

    Examples
    --------
    >>> byteps_tensors(diff).head()  # doctest: +SKIP
    """
    sides = []
    for side in diff.sides:
        frame = byteps_gradients(side.traces, ranks=side.ranks)
        if side.has_steps:
            frame = frame[frame["step"].isin(side.steps)]
        frame = frame.assign(
            tensor=frame["tensor"].astype(str), last_share=frame["critical"].astype(np.float64)
        )
        # What no stage is known of has a total alone.
        for name in ("busy_ns", "queue_ns", "tail_ns"):
            frame[name] = frame[name].where(frame[name] >= 0).astype(np.float64)
        columns = ["total_ns", "busy_ns", "queue_ns", "tail_ns", "last_share"]
        sides.append(frame.groupby("tensor", sort=True)[columns].mean().reset_index())
    return beside(
        sides,
        ["tensor"],
        ["total_ns", "busy_ns", "queue_ns", "tail_ns", "last_share"],
        by="total_ns",
    )


def byteps_workers(diff: Comparison) -> pd.DataFrame:
    """Return how long steps of each worker take in both runs, and who is waited for.

    Parameters
    ----------
    diff : Comparison
        Of workers' traces.

    Returns
    -------
    DataFrame
        One row per worker: ``worker`` (int64); ``before_step_ns, after_step_ns, diff_step_ns``
        (float64, mean over its GPUs and steps); the same of ``blame`` (share of partitions and
        steps in which it alone had the shortest PULL) and of ``slack_ns`` (what its PULLs took
        longer than the shortest, per step); ``before_straggler, after_straggler`` (bool or None):
        see `hta_widgets.analysis.byteps_pull_blame`, which needs two workers.

    Examples
    --------
    >>> byteps_workers(diff)[["worker", "diff_step_ns", "after_straggler"]]  # doctest: +SKIP
    """
    sides = []
    for side in diff.sides:
        lengths: dict[int, list[float]] = {}
        for rank, part in side.parts.items():
            windows = side.windows[rank]
            step = float((windows[:, 1] - windows[:, 0]).mean())
            lengths.setdefault(part.trace.worker, []).append(step)
        blame = byteps_pull_blame(
            side.traces, selection=_of_steps(side), ranks=side.ranks
        ).drop_duplicates("worker")
        told = blame.set_index("worker")
        workers = sorted(lengths)
        sides.append(
            pd.DataFrame(
                {
                    "worker": np.array(workers, dtype=np.int64),
                    "step_ns": [float(np.mean(lengths[worker])) for worker in workers],
                    "blame": told["blame"].reindex(workers).to_numpy(),
                    "slack_ns": told["slack_ns"].reindex(workers).to_numpy() / len(side.steps),
                    "straggler": [
                        bool(told["straggler"][worker]) if worker in told.index else None
                        for worker in workers
                    ],
                }
            )
        )
    return beside(sides, ["worker"], ["step_ns", "blame", "slack_ns"], ["straggler"])


def _of_steps(side: RunSide) -> str | None:
    return f"step in {tuple(side.steps.tolist())}" if side.has_steps else None


def byteps_lag(diff: Comparison) -> pd.DataFrame:
    """Return whose pushes reach the servers last in both runs, and how late.

    Servers' profiles are of the whole run; so are these figures.

    Parameters
    ----------
    diff : Comparison

    Returns
    -------
    DataFrame
        One row per node: ``node`` (int64, ps-lite's id), ``label`` (str); of ``score`` (share of
        partitions and iterations at which it comes last, alone), ``mean_lag_ns``,
        ``median_lag_ns``, ``max_lag_ns`` and ``imposed_wait_ns`` (per iteration): ``before_…,
        after_…, diff_…`` (float64); ``before_straggler, after_straggler`` (bool, None without).

    Examples
    --------
    >>> byteps_lag(diff)[["label", "before_score", "after_score"]]  # doctest: +SKIP
    """
    measures = ["score", "mean_lag_ns", "median_lag_ns", "max_lag_ns", "imposed_wait_ns"]
    sides, notes = of_sides(diff, byteps_worker_lag)
    for k, side in enumerate(sides):
        sides[k] = side.assign(
            imposed_wait_ns=side["imposed_wait_ns"] / side["iterations"].clip(lower=1)
        ).drop_duplicates("node")
    return beside(sides, ["node", "label"], measures, ["straggler"], note="; ".join(notes))


def byteps_server_times(diff: Comparison) -> pd.DataFrame:
    """Return what each server did in both runs; of the whole runs, as servers tell no steps.

    Parameters
    ----------
    diff : Comparison

    Returns
    -------
    DataFrame
        One row per server: ``server`` (int64); of ``requests``, ``keys``, ``busy_ns`` (in which it
        worked on anything), ``push_ns`` (of pushes), ``wait_ns`` (of pulls that wait for other
        workers' pushes) and ``service_ns`` (of the rest of pulls), the latter four per request:
        ``before_…, after_…, diff_…`` (float64).

    Examples
    --------
    >>> byteps_server_times(diff)[["server", "diff_busy_ns"]]  # doctest: +SKIP
    """
    times = ["busy_ns", "push_ns", "wait_ns", "service_ns"]
    sides, notes = of_sides(diff, byteps_servers)
    for k, side in enumerate(sides):
        each = side["requests"].clip(lower=1)
        sides[k] = side.assign(**{name: side[name] / each for name in times}).drop_duplicates(
            "server"
        )
    return beside(sides, ["server"], ["requests", "keys", *times], note="; ".join(notes))
