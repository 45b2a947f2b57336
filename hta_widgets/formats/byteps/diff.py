"""Compare two BytePS runs: tables, steps and their waits, findings."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pandas as pd

from hta_widgets.analysis.frames import result_frame
from hta_widgets.analysis.scope import RankPart
from hta_widgets.diff.causes import StepPiece
from hta_widgets.diff.compare import Comparison
from hta_widgets.diff.records import Finding, rank_findings, time_change
from hta_widgets.diff.sentences import capitalize, longer_or_less, relative_text, times_text
from hta_widgets.diff.sides import RunSide
from hta_widgets.diff.stats import welch_p_value
from hta_widgets.diff.tables import analyse_sides, iter_rows, join_sides
from hta_widgets.formats.byteps.rows import STAGES, worker_rows
from hta_widgets.formats.byteps.servers import byteps_servers, byteps_worker_lag
from hta_widgets.formats.byteps.workers import (
    byteps_gradient_stages,
    byteps_gradients,
    byteps_pull_blame,
)
from hta_widgets.text import share
from hta_widgets.trace.arrays import Floats, Ints, edges_by_group
from hta_widgets.trace.memo import memoize

KIND_WORDS = {
    "communication": "time in REDUCE, PUSH, PULL and BROADCAST",
    "copies": "time in copies",
    "idle": "time in queues",
    "host": "time outside synchronizations",
}
KIND_LABELS = {
    "communication": "BytePS stages",
    "memory": "copies",
    "idle": "queues",
    "cpu": "outside of BytePS",
}
_RELATIVE = 0.05  # of the longer time; repeated runs vary by less
_OF_STEP = 0.01  # of a step; smaller changes are negligible
_ALPHA = 0.01
#: Relative difference that counts if a side has a single step, so that the spread is unknown.
_RELATIVE_SINGLE = 0.2
_SHARE = 0.25  # of partitions; equally fast workers differ by less
_MAX_FINDINGS = 6

_MEASURES = ("count", "work_ns", "queue_ns")


def byteps_stages(diff: Comparison) -> pd.DataFrame:
    """Return the time per step in each stage and in the queue before it, in both runs."""
    return _stage_frame(diff).copy()


@memoize
def _stage_frame(diff: Comparison) -> pd.DataFrame:
    sides = [_by_stage(side) for side in diff.sides]
    number_of = {stage: number for number, stage in enumerate(STAGES)}
    keys = sorted({**sides[0], **sides[1]}, key=lambda key: number_of.get(key[0], len(STAGES)))
    columns: dict[str, object] = {
        "stage": pd.array([stage for stage, _ in keys], dtype="str"),
        "waits_for_root": np.array([waits_for_root for _, waits_for_root in keys], dtype=np.bool_),
    }
    nothing = np.zeros((len(_MEASURES), diff.step_count))
    p_values: dict[str, object] = {}
    for number, name in enumerate(_MEASURES):
        # Rows are stages, columns are steps.
        before, after = (
            np.array([side.get(key, nothing)[number] for key in keys]).reshape(-1, diff.step_count)
            for side in sides
        )
        before_mean, after_mean = before.mean(axis=1), after.mean(axis=1)
        columns |= {
            f"before_{name}": before_mean, f"after_{name}": after_mean,
            f"diff_{name}": after_mean - before_mean,
        }  # fmt: skip
        if name != "count":
            p_values[f"{name.removesuffix('_ns')}_p_value"] = welch_p_value(before.T, after.T)
    return result_frame(
        columns | p_values,
        matched={"stages": len(keys)},
        note="" if keys else "no stages in the compared steps",
        steps=diff.step_count,
    )


def _by_stage(side: RunSide) -> dict[tuple[str, bool], Floats]:
    """Return `_MEASURES` of each stage for each step, averaged over the GPUs with this stage."""
    sums: dict[tuple[str, bool], list[Floats]] = {}
    count = len(side.steps)
    for part in side.parts.values():
        rows = worker_rows(part.trace)
        stages = rows.parts
        column = np.zeros(len(stages.step), dtype=np.intp)
        if side.has_steps:
            column = pd.Index(side.steps).get_indexer(pd.Index(stages.step))
        is_selected = part.contains(stages.row) & (column >= 0)
        # In a truncated file, queue times are known only for complete partitions.
        queue_ns = np.where(stages.complete, stages.queue_ns, 0)
        measures = (np.ones(len(stages.row)), stages.dur_ns, queue_ns)
        for code, stage in enumerate(rows.stages):
            of_stage = np.flatnonzero(is_selected & (stages.stage == code))
            if not len(of_stage):
                continue
            step_sums = [
                np.bincount(column[of_stage], values[of_stage], count) for values in measures
            ]
            key = stage, stage == "COPYH2D" and not rows.is_root
            sums.setdefault(key, []).append(np.stack(step_sums))
    return {key: np.mean(sums_of_gpus, axis=0) for key, sums_of_gpus in sums.items()}


def byteps_tensors(diff: Comparison) -> pd.DataFrame:
    """Return the synchronization time of each tensor in both runs."""
    columns = ["total_ns", "busy_ns", "queue_ns", "tail_ns", "last_share"]
    sides = []
    for side in diff.sides:
        frame = byteps_gradients(side.traces, ranks=side.ranks)
        if side.has_steps:
            frame = frame[frame["step"].isin(side.steps)]
        frame = frame.assign(
            tensor=frame["tensor"].astype(str), last_share=frame["critical"].astype(np.float64)
        )
        # Tensors without stages have only a total.
        for name in ("busy_ns", "queue_ns", "tail_ns"):
            frame[name] = frame[name].where(frame[name] >= 0).astype(np.float64)
        sides.append(frame.groupby("tensor", sort=True)[columns].mean().reset_index())
    return join_sides(sides, ["tensor"], columns, by="total_ns")


def byteps_workers(diff: Comparison) -> pd.DataFrame:
    """Return each worker's mean step in both runs, and the workers for which others wait."""
    sides = []
    for side in diff.sides:
        step_ns: dict[int, list[float]] = {}  # of each worker's GPUs
        for rank, part in side.parts.items():
            gpu_step_ns = float(np.diff(side.windows[rank], axis=1).mean())
            step_ns.setdefault(part.trace.worker, []).append(gpu_step_ns)
        query = f"step in {tuple(side.steps.tolist())}" if side.has_steps else None
        selection = None if query is None else side.traces.select(query)
        blame = byteps_pull_blame(side.traces, selection=selection, ranks=side.ranks)
        blame = blame.drop_duplicates("worker").set_index("worker")
        workers = sorted(step_ns)
        straggler = [bool(blame["straggler"][w]) if w in blame.index else None for w in workers]
        sides.append(
            pd.DataFrame(
                {
                    "worker": np.array(workers, dtype=np.int64),
                    "step_ns": [float(np.mean(step_ns[worker])) for worker in workers],
                    "blame": blame["blame"].reindex(workers).to_numpy(),
                    "slack_ns": blame["slack_ns"].reindex(workers).to_numpy() / len(side.steps),
                    "straggler": straggler,
                }
            )
        )
    return join_sides(sides, ["worker"], ["step_ns", "blame", "slack_ns"], ["straggler"])


def byteps_lag(diff: Comparison) -> pd.DataFrame:
    """Return the nodes whose pushes arrive last at the servers in both runs, and their lag.

    The figures cover the whole run, because server profiles do.
    """
    measures = ["score", "mean_lag_ns", "median_lag_ns", "max_lag_ns", "imposed_wait_ns"]
    sides, notes = analyse_sides(diff, byteps_worker_lag)
    sides = [_means(side, ["imposed_wait_ns"], "iterations", "node") for side in sides]
    return join_sides(sides, ["node", "label"], measures, ["straggler"], note="; ".join(notes))


def byteps_server_times(diff: Comparison) -> pd.DataFrame:
    """Return each server's load over the whole of both runs, because its files have no steps."""
    times = ["busy_ns", "push_ns", "wait_ns", "service_ns"]
    sides, notes = analyse_sides(diff, byteps_servers)
    sides = [_means(side, times, "requests", "server") for side in sides]
    return join_sides(sides, ["server"], ["requests", "keys", *times], note="; ".join(notes))


def _means(frame: pd.DataFrame, sums: list[str], count: str, key: str) -> pd.DataFrame:
    """Divide columns by `count`, then keep the first row of each key."""
    divisor = frame[count].clip(lower=1)
    return frame.assign(**{name: frame[name] / divisor for name in sums}).drop_duplicates(key)


WORKER_TABLES = {
    "byteps_stages": byteps_stages,
    "byteps_tensors": byteps_tensors,
    "byteps_workers": byteps_workers,
}
SERVER_TABLES = {"byteps_lag": byteps_lag, "byteps_servers": byteps_server_times}


def iterations(part: RankPart) -> tuple[Ints, Ints, Ints]:
    """Return the numbers, starts and ends of the steps.

    A step lasts from its first synchronization to the first one of the next step, so the last step
    is excluded. If the file has a single step, it lasts until the end of its last synchronization.
    """
    totals = worker_rows(part.trace).totals
    rows = totals.dur_ns > 0
    ends = totals.start_ns + totals.dur_ns
    numbers, start, end = edges_by_group(totals.step[rows], totals.start_ns[rows], ends[rows])
    if len(numbers) > 1:
        numbers, start, end = numbers[:-1], start[:-1], start[1:]
    is_positive = end > start
    return numbers[is_positive], start[is_positive], end[is_positive]


def byteps_chain(side: RunSide, rank: int) -> list[StepPiece]:
    """Return, for each step of a GPU, the parts of the synchronization that ends last.

    The parts are the stages of its last partition, the queues before them, and the time after the
    last stage. They do not overlap. The rest of the step is time in which the framework computes.
    """
    gradients = byteps_gradients(side.traces, ranks=[rank])
    last_gradients = gradients[gradients["critical"] & (gradients["critical_partition"] >= 0)]
    stages = byteps_gradient_stages(side.traces, ranks=[rank])
    last_tensors = last_gradients.set_index("step")["tensor"].astype(str)
    stages = stages[stages["tensor"].astype(str) == stages["step"].map(last_tensors)]
    times: dict[tuple[str, str], Ints] = {}
    windows = side.windows[rank].tolist()
    column_of = {step: column for column, step in enumerate(side.steps.tolist())}

    def add(cause: str, stage: str, step: int, start: int, end: int) -> None:
        column = column_of.get(step)
        if column is None:
            return
        # Exclude the time after the end of the step.
        low, high = windows[column]
        time = min(end, high) - max(start, low)
        if time > 0:
            piece_ns = times.setdefault((cause, stage), np.zeros(len(windows), dtype=np.int64))
            piece_ns[column] += time

    for row in iter_rows(stages.astype({"stage": str})):
        queue = "root_wait" if row.waits_for_root else "stage_queue"
        add(queue, row.stage, row.step, row.start_ns - row.queue_ns, row.start_ns)
        cause = "copies" if row.stage.startswith("COPY") else "communication"
        if row.stage.startswith("COORDINATE"):
            cause = "coordination"
        add(cause, row.stage, row.step, row.start_ns, row.start_ns + row.dur_ns)
    for row in iter_rows(last_gradients):
        end = row.start_ns + row.total_ns
        add("tail", "", row.step, end - row.tail_ns, end)
    return [StepPiece(cause, stage, time_ns) for (cause, stage), time_ns in times.items()]


def findings(diff: Comparison) -> Iterator[Finding]:
    """Yield findings for stages that changed, and for workers that are late in only one run.

    A stage's work or queue must differ by 5 % of the longer time and by 1 % of a step. The
    difference must be significant in Welch's test over the steps, at a level of 1 % divided by the
    number of tests. For workers, the share of partitions in which others wait for them must differ
    by 0.25.
    """
    shared = diff.before.formats & diff.after.formats
    if "byteps" in shared:
        yield from _changed_stages(diff)
        workers = byteps_workers(diff)
        yield from _late_workers(workers, [f"worker {n}" for n in workers["worker"]], "blame")
    elif "byteps-server" in shared:
        nodes = byteps_lag(diff)
        yield from _late_workers(nodes, nodes["label"].tolist(), "score")


def _changed_stages(diff: Comparison) -> list[Finding]:
    frame = byteps_stages(diff)
    results: list[Finding] = []
    for row in frame.to_dict("records"):
        queue = "root_wait" if row["waits_for_root"] else "stage_queue"
        for measure, cause in (("work", "work"), ("queue", queue)):
            times = row[f"before_{measure}_ns"], row[f"after_{measure}_ns"]
            p_value = row[f"{measure}_p_value"]
            if np.isnan(p_value):
                min_share = _RELATIVE_SINGLE
            else:
                min_share = _RELATIVE if p_value * 2 * len(frame) < _ALPHA else np.inf
            change = time_change("stage", *times, name=row["stage"], measure=cause, p_value=p_value)
            if change.weight >= max(min_share * max(times), _OF_STEP * diff.step_ns):
                results.append(change)
    return rank_findings(results, ["stage"])[:_MAX_FINDINGS]


def _late_workers(frame: pd.DataFrame, names: list[str], score: str) -> Iterator[Finding]:
    for name, row in zip(names, iter_rows(frame), strict=True):
        before, after = bool(row.before_straggler), bool(row.after_straggler)
        # A share near the limit for stragglers may cross it by chance.
        if before == after or abs(getattr(row, f"diff_{score}")) < _SHARE:
            continue
        yield Finding(
            "straggler",
            topic="late_worker",
            name=name,
            measure="shortest pull" if score == "blame" else "last push",
            before=getattr(row, f"before_{score}"),
            after=getattr(row, f"after_{score}"),
            unit="share",
            details={"appears": after},
        )


def _stage_text(finding: Finding, _diff: Comparison) -> str:
    subject = {
        "root_wait": "Waiting for the root GPU",
        "stage_queue": f"Queueing before {finding.name}",
    }.get(finding.measure, finding.name)
    return (
        f"{subject} takes {longer_or_less(finding)}: {times_text(finding)} per step and GPU in "
        f"which it occurs, summed over partitions{relative_text(finding)}."
    )


def _late_worker_text(finding: Finding, _diff: Comparison) -> str:
    return (
        f"{capitalize(finding.name)} is {'now' if finding.details['appears'] else 'no longer'} the "
        f"one that the others wait for: it has the {finding.measure} in {share(finding.before)} → "
        f"{share(finding.after)} of partitions."
    )


FINDING_WORDS = {"stage": _stage_text, "late_worker": _late_worker_text}
