"""Two BytePS runs side by side: tables, steps, and what they tell."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from hta_widgets.analysis.scope import Part, result
from hta_widgets.diff.compare import Comparison, RunSide
from hta_widgets.diff.findings import Finding
from hta_widgets.diff.pairs import Piece
from hta_widgets.diff.statistics import welch
from hta_widgets.diff.tables import beside, of_sides, rows_of
from hta_widgets.formats.byteps.rows import STAGES, worker_rows
from hta_widgets.formats.byteps.servers import byteps_servers, byteps_worker_lag
from hta_widgets.formats.byteps.workers import (
    byteps_gradient_stages,
    byteps_gradients,
    byteps_pull_blame,
)
from hta_widgets.text import duration, share, share_delta
from hta_widgets.trace.memo import memoized

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

KIND_WORDS = {
    "communication": "time in REDUCE, PUSH, PULL and BROADCAST",
    "copies": "time in copies",
    "idle": "time in queues",
    "host": "time outside of synchronisations",
}
KIND_LABELS = {
    "communication": "BytePS stages",
    "memory": "copies",
    "idle": "queues",
    "cpu": "outside of BytePS",
}
_RELATIVE = 0.05  # of the longer of two times: runs of one program differ by less
_OF_STEP = 0.01  # of a step; less does not matter
_ALPHA = 0.01
#: Where one step on a side does not show how times spread.
_RELATIVE_ALONE = 0.2
_SHARE = 0.25  # of partitions; who is last of equals varies by less
_MOST = 6

_MEASURES = ("count", "work_ns", "queue_ns")


def byteps_stages(diff: Comparison) -> pd.DataFrame:
    """Return what each stage takes in a step of both runs, and the queue before it."""
    return _stages(diff).copy()


@memoized
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
    """Return what the synchronisation of each tensor takes in both runs."""
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
    """Return how long steps of each worker take in both runs, and who is waited for."""
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
    """
    measures = ["score", "mean_lag_ns", "median_lag_ns", "max_lag_ns", "imposed_wait_ns"]
    sides, notes = of_sides(diff, byteps_worker_lag)
    for k, side in enumerate(sides):
        sides[k] = side.assign(
            imposed_wait_ns=side["imposed_wait_ns"] / side["iterations"].clip(lower=1)
        ).drop_duplicates("node")
    return beside(sides, ["node", "label"], measures, ["straggler"], note="; ".join(notes))


def byteps_server_times(diff: Comparison) -> pd.DataFrame:
    """Return what each server did in both runs; of the whole runs, as servers tell no steps."""
    times = ["busy_ns", "push_ns", "wait_ns", "service_ns"]
    sides, notes = of_sides(diff, byteps_servers)
    for k, side in enumerate(sides):
        each = side["requests"].clip(lower=1)
        sides[k] = side.assign(**{name: side[name] / each for name in times}).drop_duplicates(
            "server"
        )
    return beside(sides, ["server"], ["requests", "keys", *times], note="; ".join(notes))


WORKER_TABLES = {
    "byteps_stages": byteps_stages,
    "byteps_tensors": byteps_tensors,
    "byteps_workers": byteps_workers,
}
SERVER_TABLES = {"byteps_lag": byteps_lag, "byteps_servers": byteps_server_times}


# --- steps and what they wait for -----------------------------------------------------------------


def iterations(part: Part) -> tuple[Ints, Ints, Ints]:
    """Return numbers, starts and ends of the steps: from a first synchronisation to the next."""
    totals = worker_rows(part.trace).totals
    lasting = totals.dur_ns > 0
    numbers, at = np.unique(totals.step[lasting], return_inverse=True)
    start = np.full(len(numbers), np.iinfo(np.int64).max, dtype=np.int64)
    end = np.full(len(numbers), np.iinfo(np.int64).min, dtype=np.int64)
    np.minimum.at(start, at, totals.start_ns[lasting])
    np.maximum.at(end, at, totals.start_ns[lasting] + totals.dur_ns[lasting])
    if len(numbers) > 1:
        numbers, start, end = numbers[:-1], start[:-1], start[1:]
    rising = end > start
    return numbers[rising].astype(np.int64), start[rising], end[rising]


def byteps_chain(side: RunSide, rank: int) -> list[Piece]:
    """Return what the steps of a GPU wait for, piece by piece.

    Of the tensor that ends last in a step, the partition that ends last: its stages, the queues
    before them, and what comes after its last stage. They do not overlap, so with the time outside
    of them, in which the framework computes, they add up to the step.
    """
    owner = side.traces
    chosen = byteps_gradients(owner, ranks=[rank])
    chosen = chosen[chosen["critical"] & (chosen["critical_partition"] >= 0)]
    stages = byteps_gradient_stages(owner, ranks=[rank])
    kept = dict(zip(chosen["step"].tolist(), chosen["tensor"].astype(str).tolist(), strict=True))
    mine = stages["tensor"].astype(str).to_numpy(dtype=object) == np.array(
        [kept.get(step) for step in stages["step"].tolist()], dtype=object
    )
    stages = stages[mine]
    found: dict[tuple[str, str], npt.NDArray[np.int64]] = {}
    place = {step: k for k, step in enumerate(side.steps.tolist())}
    windows = side.windows[rank].tolist()

    def add(cause: str, stage: str, step: int, start: int, end: int) -> None:
        at = place.get(step)
        if at is None:
            return
        # What goes on into the next step is of this one no more.
        low, high = windows[at]
        time = min(end, high) - max(start, low)
        if time > 0:
            key = cause, stage
            found.setdefault(key, np.zeros(len(windows), dtype=np.int64))[at] += time

    columns = ("step", "stage", "start_ns", "dur_ns", "queue_ns", "waits_for_root")
    for step, stage, start, dur, queue, root in zip(
        *(stages[name].tolist() for name in columns), strict=True
    ):
        add("root_wait" if root else "stage_queue", stage, step, start - queue, start)
        add(_cause(stage), stage, step, start, start + dur)
    for step, start, total, tail in zip(
        *(chosen[name].tolist() for name in ("step", "start_ns", "total_ns", "tail_ns")),
        strict=True,
    ):
        add("tail", "", step, start + total - tail, start + total)
    return [Piece(cause, stage, times) for (cause, stage), times in found.items()]


def _cause(stage: str) -> str:
    if stage.startswith("COORDINATE"):
        return "coordination"
    return "copies" if stage.startswith("COPY") else "communication"


# --- findings -------------------------------------------------------------------------------------


def findings(diff: Comparison) -> Iterator[Finding]:
    """Yield stages that changed, and workers that are waited for on one side only.

    The work or queue of a stage must differ by 5 % of the longer and 1 % of a step, and not by
    chance: by Welch's test over the steps at 1 %, divided by the number of times tested. Who is
    waited for must differ in a quarter of the partitions at least.
    """
    shared = diff.before.formats & diff.after.formats
    if "byteps" in shared:
        yield from _changed_stages(diff)
        yield from _stragglers(byteps_workers(diff), lambda row: f"Worker {row.worker}")
    elif "byteps-server" in shared:
        yield from _stragglers(byteps_lag(diff), lambda row: _upper(str(row.label)))


def _changed_stages(diff: Comparison) -> list[Finding]:
    frame = byteps_stages(diff)
    windows = [np.stack(list(side.windows.values())) for side in diff.sides]
    step_ns = max(float((one[:, :, 1] - one[:, :, 0]).mean()) for one in windows)
    rows: list[tuple[float, Finding]] = []
    tested = 2 * len(frame)
    for row in rows_of(frame):
        for measure in ("work", "queue"):
            before, after = (
                getattr(row, f"before_{measure}_ns"),
                getattr(row, f"after_{measure}_ns"),
            )
            likely = getattr(row, f"{measure}_p_value")
            gap, most = after - before, max(before, after)
            if np.isnan(likely):
                told = abs(gap) >= _RELATIVE_ALONE * most
            else:
                told = abs(gap) >= _RELATIVE * most and likely * tested < _ALPHA
            if told and abs(gap) >= _OF_STEP * step_ns:
                rows.append((abs(gap), Finding("stage", _stage(row, measure, before, after), gap)))
    rows.sort(key=lambda item: -item[0])
    return [said for _, said in rows[:_MOST]]


def _stage(row: Any, measure: str, before: float, after: float) -> str:
    if measure == "work":
        what = row.stage
    elif row.waits_for_root:
        what = "Waiting for the root GPU"
    else:
        what = f"Queueing before {row.stage}"
    change = f", {share_delta((after - before) / before)}" if before else ""
    way = "longer" if after > before else "less"
    return (
        f"{what} takes {way}: {duration(before)} → {duration(after)} a step and GPU that has it, "
        f"partitions added up{change}."
    )


def _stragglers(frame: pd.DataFrame, name: Callable[[Any], str]) -> list[Finding]:
    found = []
    for row in rows_of(frame):
        before, after = (bool(row.before_straggler), bool(row.after_straggler))
        score = "blame" if hasattr(row, "after_blame") else "score"
        gap = abs(getattr(row, f"diff_{score}"))
        # A share that is near the limit for stragglers crosses it by chance.
        if before == after or gap < _SHARE:
            continue
        shares = " → ".join(share(getattr(row, f"{word}_{score}")) for word in ("before", "after"))
        why = "shortest pull" if score == "blame" else "last push"
        text = (
            f"{name(row)} is {'now' if after else 'no longer'} the one that the others wait for: "
            f"it has the {why} of {shares} of partitions."
        )
        found.append(Finding("straggler", text, 0.0))
    return found


def _upper(text: str) -> str:
    return text[:1].upper() + text[1:]
