"""Charts of BytePS's analyses."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from hta_widgets.charts.data import draws, ramp, require
from hta_widgets.charts.defined import defines
from hta_widgets.charts.rows import (
    Bars,
    Column,
    Tooltip,
    add_times,
    defines_rows,
    stacked,
)
from hta_widgets.charts.theme import Theme
from hta_widgets.formats.byteps.frames import by_iteration, by_tensor
from hta_widgets.formats.byteps.workers import CONSISTENT_SHARE
from hta_widgets.text import count, duration, plural, share

#: Maximum number of cells in a row; more iterations share cells.
_MOST_CELLS = 400
#: Maximum number of rows of tensors, and of tensors if there is one worker.
_ROWS = 24
_TENSORS = 10
#: With more rows, GPUs of a kind are added up.
_MOST_STAGES = 56


@defines_rows(draws("byteps_arrivals"), "Who is late, iteration by iteration")
def byteps_arrivals(frame: pd.DataFrame, theme: Theme) -> dict[str, Any]:
    """Draw each worker's delay behind the first in each iteration, and the last workers.

    Parameters
    ----------
    frame : DataFrame, TraceSet, Trace or Selection
        Of `hta_widgets.analysis.byteps_arrivals`, by the servers' clocks; or of
        `hta_widgets.analysis.byteps_pulls`: then a lag is the difference between the longest PULL
        and the worker's, which needs no common clock.

    Returns
    -------
    bokeh.plotting.figure
        One row per worker and one cell per iteration. Later cells are darker; cells in which the
        worker is the only last one for more than half of the keys have the colour for late.
    """
    pulls = "step" in frame
    analysis = "byteps_pulls" if pulls else "byteps_arrivals"
    own = ("worker", "dur_ns", "shortest") if pulls else ("iteration", "node", "lag_ns", "last")
    require(frame, analysis, "job", "key", "start_ns", *own)
    whole = by_iteration(frame)
    cells = whole.copy()
    rows = cells[["job", "node", "label"]].drop_duplicates().reset_index(drop=True)
    cells["row"] = cells.groupby(["job", "node"], sort=False).ngroup()
    cells["mean_ns"] = cells["lag_ns"] / cells["keys"]
    cells["is_late"] = cells["last"] * 2 > cells["keys"]
    iterations = np.unique(cells["iteration"])
    fold = max(1, -(-len(iterations) // _MOST_CELLS))
    at = np.searchsorted(iterations, cells["iteration"]) // fold * fold
    cells["left_cell"], cells["right_cell"] = at, np.minimum(at + fold, len(iterations))
    cells = cells.iloc[np.lexsort((cells["mean_ns"], at, cells["row"]))]
    cells = cells.drop_duplicates(["row", "left_cell"], keep="last").reset_index(drop=True)
    steps = 32
    shade = cells["mean_ns"].to_numpy(float) / (float(cells["mean_ns"].max()) or 1.0)
    shade = np.ceil(shade * (steps - 1)).astype(int)
    late = np.array(ramp((theme.late_fill, theme.late), steps))[shade]
    behind = np.array(ramp((theme.lane, theme.rule_strong), steps))[shade]
    cells["fill"] = np.where(cells["is_late"], late, behind)
    add_times(cells, lag_text=cells["mean_ns"])
    sums = whole.groupby(["job", "node"], sort=True)[["lag_ns", "last", "keys"]].sum()
    score = (sums["last"] / sums["keys"]).to_numpy()
    worst = int(np.argmax(score))
    last_text = [
        f"{count(last)} of {count(keys)}"
        for last, keys in zip(sums["last"], sums["keys"], strict=True)
    ]
    return {
        "data": cells,
        "names": [str(label) for label in rows["label"]],
        "marks": [Bars("left_cell", "right_cell", "@fill")],
        "x_end": float(len(iterations)),
        "subtitle": [
            "how much shorter a worker's PULL is than the longest: who pushes last waits least"
            if pulls
            else "how long after the first worker's push of a key its own arrives, mean over keys",
            f"{plural(len(iterations), 'iteration')} from left to right",
            f"each cell the latest of {fold}" if fold > 1 else "",
            f"{rows['label'][worst]} is last {last_text[worst]} times"
            if score[worst] >= CONSISTENT_SHARE
            else "nobody is last most of the time",
        ],
        "head": " ",
        "ticks": [
            (here + 0.5, str(iterations[here]))
            for here in range(0, len(iterations), max(1, -(-len(iterations) // 10)))
        ],
        "columns": [
            Column("last", last_text),
            Column("behind", [duration(each) for each in sums["lag_ns"] / sums["keys"]], 420),
        ],
        "legend": [
            Bars(0.0, "", theme.late, "last for most keys"),
            Bars(0.0, "", theme.rule_strong, "behind"),
            Bars(0.0, "", theme.lane, "first", line=theme.rule),
        ],
        "pitch": 28,
        "tooltip": Tooltip(
            "@{label} · iteration @{iteration}",
            [
                ("shorter than the longest" if pulls else "behind the first", "@{lag_text}"),
                ("last, alone, for", "@{last} of @{keys} keys"),
            ],
        ),
    }


@defines(draws("byteps_servers"), "byteps_servers")
def byteps_servers(frame: pd.DataFrame) -> pd.DataFrame:
    """Draw the time of each server's requests: pushes, pulls served, and pulls that waited."""
    return frame


@defines(draws("byteps_clock"), "byteps_clock")
def byteps_clock(frame: pd.DataFrame) -> pd.DataFrame:
    """Draw how far servers' clocks are ahead of workers', with the interval of possible offsets."""
    return frame


@defines_rows(
    draws("byteps_gradients"),
    "Slowest gradients",
    *("tensor", "job", "worker", "total_ns", "busy_ns", "queue_ns", "tail_ns", "critical", "root"),
)
def byteps_gradients(
    frame: pd.DataFrame, theme: Theme, *, top: int | None = None
) -> dict[str, Any] | str:
    """Draw the queue, work and tail of the synchronisations of the slowest tensors, by worker.

    Parameters
    ----------
    top : int, optional
        Number of tensors. Default: as many as have room, ten at most.

    Returns
    -------
    bokeh.plotting.figure
        One bar per tensor and worker: queue, work and tail of the partition that ends last, which
        add up to the whole. They are means over the steps of the worker's root GPU, or of its
        other GPUs if the root is not recorded.
    """
    every = by_tensor(frame)
    if every.empty:
        return "no stage of these gradients was recorded"
    workers = every.groupby(["job", "worker"]).ngroups
    shown = top if top is not None else max(3, min(_TENSORS, _ROWS // workers))
    tensors = every["tensor"].drop_duplicates()
    data = every[every["tensor"].isin(set(tensors[:shown]))].reset_index(drop=True)
    mean = {name: data[f"{name}_ns"] / data["count"] for name in ("queue", "busy", "tail", "total")}
    marks, _ = stacked(
        data,
        [
            ("queue", "queue", mean["queue"]),
            ("communication", "work", mean["busy"]),
            ("other", "tail", mean["tail"]),
        ],
        theme,
    )
    add_times(data, **{f"{name}_text": values for name, values in mean.items()})
    first = data.iloc[0]
    queued = share(float(data["queue_ns"].sum() / max(data["total_ns"].sum(), 1)))
    names = [str(name).removeprefix("byteps.") for name in data["tensor"]]
    if workers > 1:
        names = [f"{name} · w{worker}" for name, worker in zip(names, data["worker"], strict=True)]
    most = float(mean["total"].max())
    left = len(tensors) - shown
    return {
        "data": data,
        "names": names,
        "marks": marks,
        "end_ns": most,
        "subtitle": [
            (
                "one synchronisation, by its partition that ends last; mean over steps, of the"
                " root GPU where it is recorded"
            ),
            f"{first['tensor']} takes longest, {first['total_text']}; {queued} of these is queue",
            f"{plural(left, 'faster tensor')} not shown" if left > 0 else "",
        ],
        "head": "tensor",
        "columns": [Column("each", list(data["total_text"]))],
        "tooltip": Tooltip(
            "@{tensor} · worker @{worker}",
            [
                ("queue", "@{queue_text}"),
                ("work", "@{busy_text}"),
                ("tail", "@{tail_text}"),
                ("one synchronisation", "@{total_text}"),
                ("synchronisations", "@{count}"),
                ("ends last in its step", "@{critical}"),
            ],
        ),
    }


@defines_rows(
    draws("byteps_stages"),
    "Stages of the pipeline",
    *("stage", "worker", "local_rank", "count", "sum_ns", "union_ns", "queue_ns", "root"),
    "waits_for_root",
)
def byteps_stages(frame: pd.DataFrame, theme: Theme) -> dict[str, Any]:
    """Draw the time of a task in each stage, and of its queue before it, for each GPU.

    The queue before COPYH2D of GPUs that are not the root is hatched: it is waiting for the root,
    and includes the whole way to the servers and back.
    """
    data = _stage_rows(frame)
    tasks = data["count"].clip(lower=1)
    queue, work = data["queue_ns"] / tasks, data["sum_ns"] / tasks
    waits = data["waits_for_root"].to_numpy(bool)
    marks, ends = stacked(
        data,
        [
            ("queue", "queue before it", np.where(waits, 0, queue)),
            ("wait", "waiting for the root", np.where(waits, queue, 0)),
            ("communication", "the stage", work),
        ],
        theme,
    )
    add_times(data, queue_text=queue, work_text=work, all_text=data["sum_ns"])
    data["together"] = data["sum_ns"] / data["union_ns"].clip(lower=1)
    data["together_text"] = [f"{each:.1f}" for each in data["together"]]
    return {
        "data": data,
        "names": list(data["name"]),
        "marks": marks,
        "end_ns": max(ends),
        "subtitle": [
            "mean of a partition's task, along the pipeline",
            "PULL includes waiting for the other workers' pushes",
        ],
        "head": "GPU · stage",
        "columns": [
            Column("at a time", list(data["together_text"]), 420),
            Column("each", [duration(each) for each in queue + work]),
        ],
        "tooltip": Tooltip(
            "@{name}",
            [
                ("queue before it", "@{queue_text}"),
                ("the stage", "@{work_text}"),
                ("tasks", "@{count}"),
                ("added up", "@{all_text}"),
                ("at a time", "@{together_text}"),
            ],
        ),
    }


def _stage_rows(frame: pd.DataFrame) -> pd.DataFrame:
    """Return the stages with the names of their rows; many GPUs are summed by kind."""
    data = frame.reset_index(drop=True)
    data["stage"] = data["stage"].astype(str)
    if len(data) <= _MOST_STAGES:
        data["name"] = [
            f"w{row.worker} GPU{row.local_rank}{' root' if row.root else ''} · {row.stage}"
            for row in data.itertuples()
        ]
        return data
    sums = dict.fromkeys(["count", "sum_ns", "union_ns", "queue_ns"], "sum")
    groups = data.groupby(["root", "stage"], sort=False)
    data = groups.agg({**sums, "waits_for_root": "max"}).reset_index()
    data["name"] = [
        f"{plural(gpus, 'root GPU' if root else 'other GPU')} · {stage}"
        for root, stage, gpus in groups.size().reset_index().itertuples(index=False)
    ]
    return data


@defines(draws("byteps_pull_blame"), "byteps_blame")
def byteps_pull_blame(frame: pd.DataFrame) -> pd.DataFrame:
    """Draw the time that each worker's PULLs waited for others, and how often it was the last."""
    return frame
