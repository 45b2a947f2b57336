"""BytePS's workers: where gradients' time goes, what stages take, whom PULLs wait for."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from hta_widgets.formats.byteps.byteps_files import CONSISTENT_SHARE
from hta_widgets.text import duration
from hta_widgets.text import plural
from hta_widgets.text import share
from hta_widgets.formats.byteps.byteps_frames import by_tensor

from hta_widgets.charts.canvas import blank
from hta_widgets.charts.canvas import sentences
from hta_widgets.charts.frames import draws
from hta_widgets.charts.frames import require
from hta_widgets.charts.inks import add_times
from hta_widgets.charts.inks import note_of
from hta_widgets.charts.inks import stacked
from hta_widgets.charts.rows import Column
from hta_widgets.charts.rows import Tooltip
from hta_widgets.charts.rows import rows_chart
from hta_widgets.charts.rows import time_ticks
from hta_widgets.charts.theme import Theme
from hta_widgets.charts.theme import theme_of

__all__ = ["byteps_gradients", "byteps_pull_blame", "byteps_stages"]

#: Rows of tensors; of more than this many workers fewer tensors are shown.
_ROWS = 24
_TENSORS = 10
#: Names of GPUs and stages are readable up to here; of more, GPUs of a kind are put together.
_MOST_STAGES = 56
_GRADIENT = (
    *("tensor", "job", "worker", "total_ns", "busy_ns", "queue_ns", "tail_ns", "critical"),
    "root",
)
_STAGE = (
    *("stage", "worker", "local_rank", "count", "sum_ns", "union_ns", "queue_ns", "root"),
    "waits_for_root",
)


@draws("byteps_gradients")
def byteps_gradients(
    frame: pd.DataFrame,
    *,
    top: int | None = None,
    width: int | None = None,
    theme: str | Theme = "light",
    title: str = "Slowest gradients",
) -> Any:
    """Draw what the synchronisation of the slowest tensors is spent on, worker by worker.

    Parameters
    ----------
    frame : DataFrame, TraceSet, Trace or Selection
        Of `hta_widgets.analysis.byteps_gradients`.
    top : int, optional
        How many tensors; by default as many as have room, ten at most.
    width : int, optional
        In CSS pixels; by default what the page gives.
    theme : {"light", "dark"} or Theme, default "light"
    title : str

    Returns
    -------
    bokeh.plotting.figure
        A bar a tensor and worker: queue, work and tail of the partition that ends last, means over
        the steps of the worker's root GPU, or of its others where that is not there, which add up
        to the whole.

    Examples
    --------
    >>> charts.byteps_gradients(analysis.byteps_gradients(traces))  # doctest: +SKIP
    """
    colors = theme_of(theme)
    if frame.empty:
        return blank(frame, title, colors, width)
    require(frame, "byteps_gradients", *_GRADIENT)
    every = by_tensor(frame)
    if every.empty:
        return blank(frame, title, colors, width, note="no stage of these gradients was recorded")
    workers = every.groupby(["job", "worker"]).ngroups
    kept = top if top is not None else max(3, min(_TENSORS, _ROWS // workers))
    tensors = every["tensor"].drop_duplicates()
    data = every[every["tensor"].isin(set(tensors[:kept]))].reset_index(drop=True)
    data["row"] = np.arange(len(data))
    mean = {name: data[f"{name}_ns"] / data["count"] for name in ("queue", "busy", "tail", "total")}
    marks, _ = stacked(
        data,
        [
            ("queue", "queue", mean["queue"]),
            ("communication", "work", mean["busy"]),
            ("other", "tail", mean["tail"]),
        ],
        colors,
    )
    add_times(data, **{f"{name}_text": values for name, values in mean.items()})
    first = data.iloc[0]
    queued = float(data["queue_ns"].sum() / max(data["total_ns"].sum(), 1))
    names = _with_worker(data, several=workers > 1)
    most = float(mean["total"].max())
    left = len(tensors) - kept
    return rows_chart(
        data,
        names,
        marks,
        x_end=most * 1.02 or 1.0,
        title=title,
        subtitle=sentences(
            "one synchronisation, by its partition that ends last; mean over steps, of the root "
            "GPU where it is recorded",
            f"{first['tensor']} takes longest, {first['total_text']}; {share(queued)} of these is "
            "queue",
            f"{plural(left, 'faster tensor')} not shown" if left > 0 else "",
            note_of(frame),
        ),
        theme=colors,
        width=width,
        head="tensor",
        ticks=time_ticks(most),
        columns=[Column("each", list(data["total_text"]))],
        tooltip=Tooltip(
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
    )


def _with_worker(data: pd.DataFrame, *, several: bool) -> list[str]:
    """Name the first row of each tensor by it, and all by their worker."""
    short = [str(name).removeprefix("byteps.") for name in data["tensor"]]
    if not several:
        return short
    return [f"{name} · w{worker}" for name, worker in zip(short, data["worker"], strict=True)]


@draws("byteps_stages")
def byteps_stages(
    frame: pd.DataFrame,
    *,
    width: int | None = None,
    theme: str | Theme = "light",
    title: str = "Stages of the pipeline",
) -> Any:
    """Draw what a task takes in each stage, and how long it queues before it, GPU by GPU.

    Parameters and result as of `byteps_gradients`; `frame` is of
    `hta_widgets.analysis.byteps_stages`. The queue before COPYH2D of GPUs that are not the root is
    hatched: it is waiting for the root, and holds the whole way to the servers and back.

    Examples
    --------
    >>> charts.byteps_stages(analysis.byteps_stages(traces))  # doctest: +SKIP
    """
    colors = theme_of(theme)
    if frame.empty:
        return blank(frame, title, colors, width)
    require(frame, "byteps_stages", *_STAGE)
    data, names = _stage_rows(frame)
    data["row"] = np.arange(len(data))
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
        colors,
    )
    add_times(data, queue_text=queue, work_text=work, all_text=data["sum_ns"])
    data["together"] = data["sum_ns"] / data["union_ns"].clip(lower=1)
    data["together_text"] = [f"{each:.1f}" for each in data["together"]]
    most = max(ends)
    return rows_chart(
        data,
        names,
        marks,
        x_end=most * 1.02 or 1.0,
        title=title,
        subtitle=sentences(
            "mean of a partition's task, along the pipeline",
            "PULL includes waiting for the other workers' pushes",
            note_of(frame),
        ),
        theme=colors,
        width=width,
        head="GPU · stage",
        ticks=time_ticks(most),
        columns=[
            Column("at a time", list(data["together_text"]), 420),
            Column("each", [duration(each) for each in queue + work]),
        ],
        tooltip=Tooltip(
            "@{name}",
            [
                ("queue before it", "@{queue_text}"),
                ("the stage", "@{work_text}"),
                ("tasks", "@{count}"),
                ("added up", "@{all_text}"),
                ("at a time", "@{together_text}"),
            ],
        ),
    )


def _stage_rows(frame: pd.DataFrame) -> tuple[pd.DataFrame, list[str]]:
    data = frame.reset_index(drop=True)
    data["stage"] = data["stage"].astype(str)
    if len(data) > _MOST_STAGES:
        sums = ["count", "sum_ns", "union_ns", "queue_ns"]
        grouped = data.groupby(["root", "stage"], sort=False)
        gpus = grouped.size().to_dict()
        data = grouped[[*sums, "waits_for_root"]].agg(
            {**dict.fromkeys(sums, "sum"), "waits_for_root": "max"}
        )
        data = data.reset_index()
        data["name"] = [
            f"{plural(gpus[root, stage], 'root GPU' if root else 'other GPU')} · {stage}"
            for root, stage in zip(data["root"], data["stage"], strict=True)
        ]
    else:
        data["name"] = [
            f"w{row.worker} GPU{row.local_rank}{' root' if row.root else ''} · {row.stage}"
            for row in data.itertuples()
        ]
    return data, list(data["name"])


@draws("byteps_pull_blame")
def byteps_pull_blame(
    frame: pd.DataFrame,
    *,
    width: int | None = None,
    theme: str | Theme = "light",
    title: str = "Whom PULLs wait for",
) -> Any:
    """Draw each worker's PULLs: what they waited for others, and how often it was the last.

    Parameters and result as of `byteps_gradients`; `frame` is of
    `hta_widgets.analysis.byteps_pull_blame`.

    Examples
    --------
    >>> charts.byteps_pull_blame(analysis.byteps_pull_blame(traces))  # doctest: +SKIP
    """
    colors = theme_of(theme)
    if frame.empty:
        return blank(frame, title, colors, width)
    require(frame, "byteps_pull_blame", "worker", "blame", "slack_ns", "pulls", "pull_ns")
    data = frame.reset_index(drop=True)
    data["row"] = np.arange(len(data))
    pulls = data["pulls"].clip(lower=1)
    least, slack = (data["pull_ns"] - data["slack_ns"]) / pulls, data["slack_ns"] / pulls
    marks, ends = stacked(
        data,
        [("communication", "as the shortest", least), ("wait", "slack: waiting", slack)],
        colors,
    )
    add_times(data, least_text=least, slack_text=slack, sum_text=data["slack_ns"])
    data["blame_text"] = [share(each) for each in data["blame"]]
    most = max(ends)
    worst = int(data["blame"].to_numpy().argmax())
    others = float(data["slack_ns"].sum())
    found = (
        f"worker {data['worker'][worst]} pulls last and waits least, in {data['blame_text'][worst]}"
        f" of PULLs; the others wait {duration(others)} in all"
        if data["blame"][worst] > CONSISTENT_SHARE
        else "nobody stands out"
    )
    return rows_chart(
        data,
        [f"worker {worker}" for worker in data["worker"]],
        marks,
        x_end=most * 1.02 or 1.0,
        title=title,
        subtitle=sentences(
            "mean PULL of a partition; slack is how much longer it is than the shortest worker's",
            found,
            note_of(frame),
        ),
        theme=colors,
        width=width,
        head=" ",
        ticks=time_ticks(most),
        columns=[Column("shortest in", list(data["blame_text"]))],
        tooltip=Tooltip(
            "worker @{worker}",
            [
                ("as the shortest", "@{least_text}"),
                ("slack", "@{slack_text}"),
                ("slack in all", "@{sum_text}"),
                ("shortest in", "@{blame_text}"),
                ("PULLs", "@{pulls}"),
            ],
        ),
    )
