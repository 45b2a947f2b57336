"""Analyses of BytePS workers: gradients, stages, steps, PULLs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import pandas as pd

from hta_widgets.analysis.frames import (
    categorical,
    columns_of_rows,
    int64,
    result_frame,
    stack_blocks,
)
from hta_widgets.analysis.scope import RankPart, Window, rank_parts
from hta_widgets.arguments import PartitionKey, check_arguments
from hta_widgets.errors import TraceError
from hta_widgets.facts import facts, note_text
from hta_widgets.formats.byteps.rows import STAGES, TotalRows, WorkerRows, worker_rows
from hta_widgets.trace.arrays import Ints
from hta_widgets.trace.intervals import total_length, union
from hta_widgets.trace.traceset import Selection, TraceSet

#: Smallest share of cases in which a straggler is last, well above what chance would give.
CONSISTENT_SHARE: float = facts("limits")["straggler_share"]
NO_WORKERS = note_text("no_byteps_workers")


def _worker_parts(
    traces: TraceSet,
    selection: Selection | None,
    window: Window | None,
    ranks: Iterable[int] | None,
) -> list[tuple[RankPart, WorkerRows, dict[str, Any]]]:
    """Return the selected worker GPUs with their rows and identifying columns."""
    parts = []
    for part in rank_parts(traces, selection, window, ranks):
        trace = part.trace
        if trace.format == "byteps":
            identity = {
                "rank": part.rank,
                "worker": trace.worker,
                "local_rank": trace.local_rank,
                "job": trace.job,
            }
            parts.append((part, worker_rows(trace), identity))
    return parts


@check_arguments
def byteps_gradients(
    traces: TraceSet,
    *,
    selection: Selection | None = None,
    window: Window | None = None,
    ranks: Iterable[int] | None = None,
) -> pd.DataFrame:
    """Split the time of each tensor synchronization into work, queue and tail.

    BytePS splits a tensor into partitions. Each passes through the stages of a pipeline in order. A
    stage ends when its task enters the next queue, so the gap before the next stage is purely time
    in that queue. For the critical partition, which ends last,

        total = work (its stages) + queue (its gaps) + tail (until the framework is notified)

    holds exactly. Stages of other partitions overlap with these and are not added. A
    synchronization counts in full if its ``total`` event is selected and overlaps the window.

    Parameters
    ----------
    traces : TraceSet
    selection, window, ranks : Selection, (start_ns, end_ns), iterable of int, optional
        The events to analyze, restricted by time and ranks. Default: all.

    Returns
    -------
    DataFrame
        One row per worker, GPU, tensor and step:

        - ``rank, worker, local_rank`` (int64)
        - ``tensor`` (category): without the prefix ``Comm.`` in the file
        - ``step`` (int64): counted from 0 in the file; BytePS does not record the training step
        - ``start_ns, total_ns`` (int64)
        - ``busy_ns, queue_ns, tail_ns`` (int64): of the critical partition; -1 if the file has no
          stage of this tensor and step
        - ``critical_partition`` (int64): ``key & 0xFFFF``, -1 if unknown; ``critical_key`` (int64)
        - ``critical`` (bool): whether it ends last among the tensors of its GPU and step
        - ``root`` (bool): whether the GPU communicates with the servers; on other GPUs,
          ``queue_ns`` includes the way to the servers and back
        - ``job`` (object)

        ``.attrs["unfinished"]``: the number of totals without a duration, which are excluded.
        ``.attrs["incomplete"]``: the number of rows in which partitions lack a stage because the
        file is truncated; these partitions cannot be critical.

    Notes
    -----
    The definitions follow BytePS's source. A maintainer's remark that bars "may include queuing"
    only applies to REDUCE, BROADCAST, PUSH and PULL, whose internal queues are not recorded.
    """
    selected_parts = _worker_parts(traces, selection, window, ranks)
    blocks: list[dict[str, Any]] = []
    matched = {"totals": 0, "stages": 0}
    unfinished = incomplete = 0
    for part, rows, identity in selected_parts:
        totals = rows.totals
        is_selected, is_finished = part.contains(totals.row), totals.dur_ns > 0
        unfinished += int((is_selected & ~is_finished).sum())
        order = np.lexsort((totals.tensor, totals.start_ns, totals.step))  # by step first
        shown = order[(is_selected & is_finished)[order]]
        matched["totals"] += len(shown)
        matched["stages"] += int(part.contains(rows.parts.row).sum())
        critical = {name: values[shown] for name, values in _critical_partitions(rows).items()}
        incomplete += int(critical["incomplete"].sum())
        blocks.append(
            {
                **identity,
                **critical,
                "tensor": (totals.tensor[shown], rows.tensors),
                "step": totals.step[shown],
                "start_ns": totals.start_ns[shown] + part.trace.shift_ns,
                "total_ns": totals.dur_ns[shown],
                "root": rows.is_root,
            }
        )
    notes = [] if selected_parts else [NO_WORKERS]
    if unfinished:
        notes.append(f"{unfinished} unfinished synchronizations are left out")
    if incomplete:
        notes.append(
            f"{incomplete} have partitions that are cut off at the end of the file, which may"
            " include the critical one"
        )
    schema = {
        **int64("rank worker local_rank"), "tensor": "category",
        **int64("step start_ns total_ns busy_ns queue_ns tail_ns critical_partition critical_key"),
        "critical": "bool", "root": "bool", "job": "object",
    }  # fmt: skip
    return result_frame(
        stack_blocks(blocks, schema),
        matched=matched,
        note=notes,
        unfinished=unfinished,
        incomplete=incomplete,
    )


def _critical_partitions(rows: WorkerRows) -> dict[str, Ints]:
    """Return the critical partition's columns for each total; -1 for totals without partitions."""
    totals, parts = rows.totals, rows.parts
    # Stages are sorted by partition and step, so each visit ends before the next first stage.
    first_stages = np.flatnonzero(parts.first)
    end_ns = np.maximum.reduceat(parts.start_ns + parts.dur_ns, first_stages)
    key, is_complete = parts.key[first_stages], parts.complete[first_stages]
    steps = int(max(totals.step.max(initial=0), parts.step.max(initial=0))) + 1
    tensor_step = parts.tensor[first_stages] * steps + parts.step[first_stages]
    total_tensor_step = totals.tensor * steps + totals.step
    # The partition that ends last is critical; in a tie, the one with the lowest key. It comes last
    # in this order and therefore overwrites the others.
    order = np.lexsort((-key, end_ns, tensor_step))
    order = order[is_complete[order]]
    critical_visit = np.full(len(rows.tensors) * steps, -1, np.int64)
    critical_visit[tensor_step[order]] = order
    visit = critical_visit[total_tensor_step]

    def of_critical(values: Ints) -> Ints:
        return np.asarray(np.append(values, -1)[visit])

    tail_ns = totals.start_ns + totals.dur_ns - of_critical(end_ns)
    return {
        "busy_ns": of_critical(np.add.reduceat(parts.dur_ns, first_stages)),
        "queue_ns": of_critical(np.add.reduceat(parts.queue_ns, first_stages)),
        "tail_ns": np.where(visit >= 0, tail_ns, -1),
        "critical_partition": of_critical(key & 0xFFFF),  # the lower bits of a key
        "critical_key": of_critical(key),
        "incomplete": np.isin(total_tensor_step, tensor_step[~is_complete]).astype(np.int64),
        "critical": _last_of_step(totals),
    }


def _last_of_step(totals: TotalRows) -> Ints:
    """Return 1 for the total that ends last in its step; in a tie, the earliest start counts."""
    order = np.lexsort((-totals.start_ns, totals.start_ns + totals.dur_ns, totals.step))
    is_last = np.zeros(len(order), np.int64)
    is_last[order] = np.diff(totals.step[order], append=-1) != 0
    return is_last


@check_arguments
def byteps_gradient_stages(
    traces: TraceSet,
    *,
    selection: Selection | None = None,
    window: Window | None = None,
    ranks: Iterable[int] | None = None,
) -> pd.DataFrame:
    """Return the stages of each synchronization's critical partition.

    For a tensor and step, the rows hold the time in each stage and in the queue before it. Together
    with ``tail_ns`` of `byteps_gradients`, they add up to ``total_ns``. On GPUs other than the
    root, the queue before COPYH2D is the whole way to the servers and back: the GPU waits for the
    root instead of copying.

    Parameters
    ----------
    traces : TraceSet
    selection, window, ranks : Selection, (start_ns, end_ns), iterable of int, optional
        The events to analyze, restricted by time and ranks. Default: all.

    Returns
    -------
    DataFrame
        One row per stage of a critical partition: ``rank, worker, local_rank`` (int64), ``tensor``
        (category), ``step, stage`` (category, in pipeline order), ``start_ns, dur_ns, queue_ns``
        (int64) and ``waits_for_root`` (bool).
    """
    selected_parts = _worker_parts(traces, selection, window, ranks)
    gradients = byteps_gradients(traces, selection=selection, window=window, ranks=ranks)
    blocks: list[dict[str, Any]] = []
    for part, rows, identity in selected_parts:
        gradients_of_rank = gradients[
            (gradients["rank"] == part.rank) & (gradients["critical_partition"] >= 0)
        ]
        parts = rows.parts
        steps = int(parts.step.max(initial=0)) + 1
        critical_keys, critical_steps = gradients_of_rank[["critical_key", "step"]].to_numpy().T
        wanted = critical_keys * steps + critical_steps
        positions = np.flatnonzero(np.isin(parts.key * steps + parts.step, wanted))
        is_copy = parts.stage[positions] == rows.stages.index("COPYH2D")
        blocks.append(
            {
                **identity,
                "tensor": (parts.tensor[positions], rows.tensors),
                "step": parts.step[positions],
                "stage": (parts.stage[positions], rows.stages),
                "start_ns": parts.start_ns[positions] + part.trace.shift_ns,
                "dur_ns": parts.dur_ns[positions],
                "queue_ns": parts.queue_ns[positions],
                "waits_for_root": is_copy & (parts.queue_ns[positions] > 0) & (not rows.is_root),
            }
        )
    schema = {
        **int64("rank worker local_rank"), "tensor": "category", "step": "int64",
        "stage": "category", **int64("start_ns dur_ns queue_ns"), "waits_for_root": "bool",
    }  # fmt: skip
    return result_frame(
        stack_blocks(blocks, schema),
        matched=gradients.attrs["matched"],
        note=gradients.attrs.get("note", ""),
    )


@check_arguments
def byteps_pull_blame(
    traces: TraceSet,
    *,
    selection: Selection | None = None,
    window: Window | None = None,
    ranks: Iterable[int] | None = None,
) -> pd.DataFrame:
    """Return how often each worker's PULL was the shortest, and how much longer its PULLs took.

    A server answers a pull when all workers' pushes of the same partition and iteration have
    arrived. The worker that pushes last pulls last and waits least. Therefore, the worker with the
    *shortest* PULL is the one for which the others waited. Only durations are compared, so clocks
    need not agree.

    Parameters
    ----------
    traces : TraceSet
    selection, window, ranks : Selection, (start_ns, end_ns), iterable of int, optional
        The events to analyze, restricted by time and ranks. Default: all.

    Returns
    -------
    DataFrame
        One row per worker:

        - ``worker`` (int64)
        - ``blame`` (float64): share of (partition, step) pairs in which only this worker had the
          shortest PULL. By chance, it would be about 1 / number of workers; 0.8 or more means a
          consistent straggler
        - ``slack_ns`` (int64): sum of its PULLs minus the shortest ones, that is, its wait for
          other workers
        - ``pulls`` (int64): number of (partition, step) pairs that all workers have; other pairs do
          not count
        - ``pull_ns`` (int64): total time of these PULLs
        - ``straggler`` (bool), ``job`` (object)
    """
    pulls = byteps_pulls(traces, selection=selection, window=window, ranks=ranks)
    by_worker = pulls.groupby(["job", "worker"], sort=True, as_index=False).agg(
        blame=("shortest", "mean"),
        slack_ns=("slack_ns", "sum"),
        pulls=("shortest", "size"),
        pull_ns=("dur_ns", "sum"),
    )
    by_worker["straggler"] = by_worker["blame"] >= CONSISTENT_SHARE
    return with_job_last(by_worker, pulls)


def with_job_last(sums: pd.DataFrame, reference: pd.DataFrame) -> pd.DataFrame:
    """Return `sums` with ``job`` last (None if empty), and with the attributes of `reference`."""
    job = sums.pop("job")
    frame = sums.assign(job=pd.Series([name or None for name in job], dtype=object))
    frame.attrs = dict(reference.attrs)
    return frame


@check_arguments
def byteps_pulls(
    traces: TraceSet,
    *,
    selection: Selection | None = None,
    window: Window | None = None,
    ranks: Iterable[int] | None = None,
) -> pd.DataFrame:
    """Return the PULLs that all workers have for the same partition and step.

    Parameters
    ----------
    traces : TraceSet
    selection, window, ranks : Selection, (start_ns, end_ns), iterable of int, optional
        The events to analyze, restricted by time and ranks. Default: all.

    Returns
    -------
    DataFrame
        One row per partition, step and worker: ``job`` (object, empty if there is none), ``key,
        step, worker, rank, id, start_ns, dur_ns`` (int64), ``slack_ns`` (int64, in excess of the
        shortest) and ``shortest`` (bool, whether only this PULL is the shortest).
        ``.attrs["dropped"]``: the number of PULLs excluded because another worker lacks the same
        partition and step.
    """
    selected_parts = _worker_parts(traces, selection, window, ranks)
    blocks: list[dict[str, Any]] = []
    for part, rows, identity in selected_parts:
        parts = rows.parts
        positions = np.flatnonzero(
            (parts.stage == rows.stages.index("PULL")) & part.contains(parts.row)
        )
        blocks.append(
            {
                **identity,
                "job": part.trace.job or "",
                "key": parts.key[positions],
                "step": parts.step[positions],
                "id": parts.row[positions],
                "start_ns": parts.start_ns[positions] + part.trace.shift_ns,
                "dur_ns": parts.dur_ns[positions],
            }
        )
    schema = {"job": "object", **int64("key step worker rank id start_ns dur_ns")}
    all_pulls = pd.DataFrame(stack_blocks(blocks, schema))
    workers_of_job = all_pulls.groupby("job")["worker"].transform("nunique")
    comparable = all_pulls[workers_of_job > 1]
    keys = ["job", "key", "step"]
    workers_of_pull = comparable.groupby(keys)["worker"]
    is_complete = workers_of_pull.transform("size") == workers_of_job[comparable.index]
    is_complete &= workers_of_pull.transform("nunique") == workers_of_job[comparable.index]
    pulls = comparable[is_complete].sort_values([*keys, "worker"], ignore_index=True)
    pulls["slack_ns"] = pulls["dur_ns"] - pulls.groupby(keys)["dur_ns"].transform("min")
    pulls["shortest"] = pulls["slack_ns"] == 0
    pulls["shortest"] &= pulls.groupby(keys)["shortest"].transform("sum") == 1
    note = "" if len(comparable) else "PULLs of at least two workers are needed"
    columns: dict[Any, Any] = pulls.to_dict("series")
    return result_frame(
        columns,
        matched={"PULL": len(all_pulls)},
        note=note if selected_parts else NO_WORKERS,
        dropped=len(comparable) - len(pulls),
    )


@check_arguments
def byteps_stages(
    traces: TraceSet,
    *,
    selection: Selection | None = None,
    window: Window | None = None,
    ranks: Iterable[int] | None = None,
) -> pd.DataFrame:
    """Return number, time, concurrency and preceding queue of each stage on each GPU.

    Events are clipped to the window; queues are not.

    Parameters
    ----------
    traces : TraceSet
    selection, window, ranks : Selection, (start_ns, end_ns), iterable of int, optional
        The events to analyze, restricted by time and ranks. Default: all.

    Returns
    -------
    DataFrame
        One row per GPU and stage, in pipeline order:

        - ``rank, worker, local_rank`` (int64)
        - ``stage`` (category): in pipeline order; a stage unknown to BytePS itself follows the
          stages that precede it in the file
        - ``count, sum_ns, union_ns`` (int64): ``union_ns`` is the time during which at least one
          partition was in the stage, so that on average the stage holds ``sum_ns / union_ns``
          partitions
        - ``mean_ns`` (float64), ``max_ns`` (int64)
        - ``queue_ns`` (int64): how long tasks waited before the stage, since the previous stage
          ended or, for first stages, since the synchronization began. In a truncated file,
          partitions that lack a stage in a step are excluded
        - ``root`` (bool): whether the GPU communicates with the servers
        - ``waits_for_root`` (bool): whether ``queue_ns`` is a wait for the root; on other GPUs, the
          queue before COPYH2D includes the way to the servers and back
        - ``job`` (object)

    Notes
    -----
    According to BytePS's source, grouped REDUCE and BROADCAST calls overlap and end together. PUSH
    and PULL include the queues of network and server; PULL also includes the wait for other
    workers' pushes.
    """
    selected_parts = _worker_parts(traces, selection, window, ranks)
    order = list(STAGES)
    for _, rows, _ in selected_parts:
        order = _merge_orders(order, rows.stages)
    gpu_stages: list[tuple[object, ...]] = []
    matched = dict.fromkeys(STAGES, 0)
    others = 0
    for part, rows, _ in selected_parts:
        trace, parts = part.trace, rows.parts
        others += rows.others
        for code, name in enumerate(rows.stages):
            positions = np.flatnonzero((parts.stage == code) & part.contains(parts.row))
            matched[name] = matched.get(name, 0) + len(positions)
            if not len(positions):
                continue
            start_ns, end_ns = part.clip_rows(parts.row[positions])
            dur_ns = end_ns - start_ns
            gpu_stages.append((
                part.rank, trace.worker, trace.local_rank, order.index(name), len(positions),
                int(dur_ns.sum()), total_length(union(start_ns, end_ns)),
                float(dur_ns.mean()), int(dur_ns.max()),
                int(parts.queue_ns[positions][parts.complete[positions]].sum()),
                rows.is_root, name == "COPYH2D" and not rows.is_root, trace.job,
            ))  # fmt: skip
    schema = {
        **int64("rank worker local_rank stage count sum_ns union_ns"), "mean_ns": "float64",
        **int64("max_ns queue_ns"), "root": "bool", "waits_for_root": "bool", "job": "object",
    }  # fmt: skip
    data = columns_of_rows(gpu_stages, schema)
    return result_frame(
        {**data, "stage": categorical(data["stage"], order)},
        matched={**matched, "others": others},
        note="" if selected_parts else NO_WORKERS,
    )


def _merge_orders(order: list[str], more: list[str]) -> list[str]:
    """Insert the stages missing from `order`, each after the stage that precedes it in `more`."""
    merged = list(order)
    previous = ""
    for name in more:
        if name not in merged:
            merged.insert(merged.index(previous) + 1 if previous else 0, name)
        previous = name
    return merged


@check_arguments
def byteps_steps(
    traces: TraceSet,
    *,
    selection: Selection | None = None,
    window: Window | None = None,
    ranks: Iterable[int] | None = None,
) -> pd.DataFrame:
    """Return each GPU's synchronization time per step, and the tensor that finishes last.

    Synchronizations are selected as in `byteps_gradients`.

    Parameters
    ----------
    traces : TraceSet
    selection, window, ranks : Selection, (start_ns, end_ns), iterable of int, optional
        The events to analyze, restricted by time and ranks. Default: all.

    Returns
    -------
    DataFrame
        One row per GPU and step, with ``rank, worker, local_rank, step`` (int64), ``start_ns,
        span_ns`` (int64, from the first start to the last end of a synchronization), ``sum_ns,
        union_ns`` (int64, of the synchronizations), ``concurrency`` (float64, their ratio),
        ``tensor`` (object, the one that ends last) and ``critical_key`` (int64).
    """
    gradients = byteps_gradients(traces, selection=selection, window=window, ranks=ranks)
    rows = []
    keys = ["rank", "worker", "local_rank", "step"]
    for gpu_step, group in gradients.groupby(keys, sort=True):
        start = group["start_ns"].to_numpy()
        end = start + group["total_ns"].to_numpy()
        critical = group["critical"].to_numpy()
        last = group.iloc[int(critical.argmax() if critical.any() else end.argmax())]
        sum_ns, union_ns = int((end - start).sum()), total_length(union(start, end))
        span = int(start.min()), int(end.max() - start.min())
        times = *span, sum_ns, union_ns, sum_ns / union_ns
        rows.append((*gpu_step, *times, str(last["tensor"]), int(last["critical_key"])))
    schema = {
        **int64("rank worker local_rank step start_ns span_ns sum_ns union_ns"),
        "concurrency": "float64", "tensor": "object", "critical_key": "int64",
    }  # fmt: skip
    return result_frame(
        columns_of_rows(rows, schema),
        matched=gradients.attrs["matched"],
        note=gradients.attrs.get("note", ""),
    )


@check_arguments
def byteps_bandwidth(
    traces: TraceSet,
    sizes: Mapping[PartitionKey, int],
    *,
    selection: Selection | None = None,
    window: Window | None = None,
    ranks: Iterable[int] | None = None,
) -> pd.DataFrame:
    """Return the rates at which root GPUs push to and pull from the servers.

    Traces do not state sizes, so the caller must provide them. The rate is the number of bytes
    divided by the time during which at least one transfer was in progress. Pushes overlap, so the
    mean rate of single pushes would be too low. Pulls wait for other workers, so their rate is a
    lower bound. Each selected event counts in full.

    Parameters
    ----------
    traces : TraceSet
    sizes : mapping of int to int
        Size of each partition in bytes, keyed by partition.
    selection, window, ranks : Selection, (start_ns, end_ns), iterable of int, optional
        The events to analyze, restricted by time and ranks. Default: all.

    Returns
    -------
    DataFrame
        One row per root GPU and stage: ``rank, worker, local_rank`` (int64), ``stage``
        (category), ``bytes, union_ns`` (int64), ``mb_per_s`` (float64) and ``without_size`` (int64,
        events excluded because their key has no size).
    """
    if not sizes:
        raise TraceError("no sizes given", remedy="Give the bytes of each partition by its key.")
    stages = ("PUSH", "PULL")
    transfers: list[tuple[object, ...]] = []
    matched = dict.fromkeys(stages, 0)
    selected_parts = _worker_parts(traces, selection, window, ranks)
    for part, rows, _ in selected_parts:
        trace, parts = part.trace, rows.parts
        size_bytes = np.array([int(sizes.get(key, -1)) for key in parts.key.tolist()], np.int64)
        for code, stage in enumerate(stages):
            is_transfer = (parts.stage == rows.stages.index(stage)) & part.contains(parts.row)
            matched[stage] += int(is_transfer.sum())
            has_size = is_transfer & (size_bytes >= 0)
            if not has_size.any():
                continue
            start_ns = parts.start_ns[has_size]
            union_ns = total_length(union(start_ns, start_ns + parts.dur_ns[has_size]))
            total_bytes = int(size_bytes[has_size].sum())
            mb_per_s = total_bytes / union_ns * 1e3 if union_ns else np.nan
            without_size = int((is_transfer & ~has_size).sum())
            gpu = part.rank, trace.worker, trace.local_rank
            transfers.append((*gpu, code, total_bytes, union_ns, mb_per_s, without_size))
    schema = {
        **int64("rank worker local_rank stage bytes union_ns"), "mb_per_s": "float64",
        "without_size": "int64",
    }  # fmt: skip
    data = columns_of_rows(transfers, schema)
    return result_frame(
        {**data, "stage": categorical(data["stage"], stages)},
        matched=matched,
        note="" if selected_parts else NO_WORKERS,
    )
