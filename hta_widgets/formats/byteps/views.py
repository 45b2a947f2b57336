"""Panels, headline and charts of BytePS."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from hta_widgets.charts.data import draws, ramp, require
from hta_widgets.charts.figure import blank, sentences
from hta_widgets.charts.rows import (
    Bars,
    Column,
    Tooltip,
    Whiskers,
    add_times,
    note_of,
    rows_chart,
    stacked,
    time_ticks,
)
from hta_widgets.charts.theme import Theme, theme_of
from hta_widgets.formats.byteps.frames import by_iteration, by_tensor
from hta_widgets.formats.byteps.rows import node_label
from hta_widgets.formats.byteps.workers import CONSISTENT_SHARE
from hta_widgets.text import count, duration, plural, share

#: More iterations than this share cells.
_MOST_CELLS = 400
_SERVER = ("server", "requests", "keys", "busy_ns", "push_ns", "wait_ns", "service_ns")
_CLOCK = ("worker", "server", "node", "offset_ns", "error_ns", "low_ns", "high_ns", "requests")


@draws("byteps_arrivals")
def byteps_arrivals(
    frame: pd.DataFrame,
    *,
    width: int | None = None,
    theme: str | Theme = "light",
    title: str = "Who is late, iteration by iteration",
) -> Any:
    """Draw how far each worker is behind the first in each iteration, and who comes last.

    Parameters and result as of `byteps_gradients`.

    Parameters
    ----------
    frame : DataFrame, TraceSet, Trace or Selection
        Of `hta_widgets.analysis.byteps_arrivals`, by the servers' clocks; or of
        `hta_widgets.analysis.byteps_pulls`, where a lag is how much shorter a worker's PULL is
        than the longest, which needs no common clock.

    Returns
    -------
    bokeh.plotting.figure
        A row a worker and a cell an iteration: the darker the later, in the colour of who is late
        where it alone is last for more than half of the keys.

    Examples
    --------
    >>> charts.byteps_arrivals(analysis.byteps_arrivals(traces))  # doctest: +SKIP
    """
    colors = theme_of(theme)
    if frame.empty:
        return blank(frame, title, colors, width)
    pulls = "step" in frame
    analysis = "byteps_pulls" if pulls else "byteps_arrivals"
    own = ("worker", "dur_ns", "shortest") if pulls else ("iteration", "node", "lag_ns", "last")
    require(frame, analysis, "job", "key", "start_ns", *own)
    cells = by_iteration(frame)
    rows = cells[["job", "node", "label"]].drop_duplicates().reset_index(drop=True)
    place = {pair: at for at, pair in enumerate(zip(rows["job"], rows["node"], strict=True))}
    pairs = list(zip(cells["job"], cells["node"], strict=True))
    cells["row"] = [place[pair] for pair in pairs]
    cells["mean_ns"] = cells["lag_ns"] / cells["keys"]
    cells["is_late"] = cells["last"] * 2 > cells["keys"]
    iterations = np.unique(cells["iteration"])
    fold = max(1, -(-len(iterations) // _MOST_CELLS))
    at = np.searchsorted(iterations, cells["iteration"]) // fold * fold
    cells["left_cell"], cells["right_cell"] = at, np.minimum(at + fold, len(iterations))
    order = np.lexsort((cells["mean_ns"], at, cells["row"]))
    cells = cells.iloc[order].drop_duplicates(["row", "left_cell"], keep="last")
    cells = cells.reset_index(drop=True)
    _paint(cells, colors)
    whole = by_iteration(frame)
    sums = whole.groupby(["job", "node"], sort=True)[["lag_ns", "last", "keys"]].sum()
    score = (sums["last"] / sums["keys"]).to_numpy()
    lag = (sums["lag_ns"] / sums["keys"]).to_numpy()
    worst = int(np.argmax(score))
    last_text = [
        f"{count(last)} of {count(keys)}"
        for last, keys in zip(sums["last"], sums["keys"], strict=True)
    ]
    return rows_chart(
        cells,
        [str(label) for label in rows["label"]],
        [Bars("left_cell", "right_cell", "@fill")],
        x_end=float(len(iterations)),
        title=title,
        subtitle=sentences(
            _defined(pulls=pulls),
            f"{plural(len(iterations), 'iteration')} from left to right",
            f"each cell the latest of {fold}" if fold > 1 else "",
            f"{rows['label'][worst]} is last {last_text[worst]} times"
            if score[worst] >= CONSISTENT_SHARE
            else "nobody is last most of the time",
            note_of(frame),
        ),
        theme=colors,
        width=width,
        head=" ",
        ticks=[
            (here + 0.5, str(iterations[here]))
            for here in range(0, len(iterations), max(1, -(-len(iterations) // 10)))
        ],
        columns=[
            Column("last", last_text),
            Column("behind", [duration(each) for each in lag], 420),
        ],
        legend=[
            Bars(0.0, "", colors.late, "last for most keys"),
            Bars(0.0, "", colors.rule_strong, "behind"),
            Bars(0.0, "", colors.lane, "first", line=colors.rule),
        ],
        pitch=28,
        tooltip=Tooltip(
            "@{label} · iteration @{iteration}",
            [
                ("behind the first" if not pulls else "shorter than the longest", "@{lag_text}"),
                ("last, alone, for", "@{last} of @{keys} keys"),
            ],
        ),
    )


def _defined(*, pulls: bool) -> str:
    if pulls:
        return "how much shorter a worker's PULL is than the longest: who pushes last waits least"
    return "how long after the first worker's push of a key its own arrives, mean over keys"


def _paint(cells: pd.DataFrame, colors: Theme) -> None:
    most = float(cells["mean_ns"].max()) or 1.0
    steps = 32
    late = np.array(ramp((colors.late_fill, colors.late), steps))
    behind = np.array(ramp((colors.lane, colors.rule_strong), steps))
    at = np.ceil(cells["mean_ns"].to_numpy(float) / most * (steps - 1)).astype(int)
    cells["fill"] = np.where(cells["is_late"], late[at], behind[at])
    cells["lag_text"] = [duration(each) for each in cells["mean_ns"]]


@draws("byteps_servers")
def byteps_servers(
    frame: pd.DataFrame,
    *,
    width: int | None = None,
    theme: str | Theme = "light",
    title: str = "Load of the servers",
) -> Any:
    """Draw what each server's requests took: pushes, pulls served, pulls that waited for pushes.

    Parameters and result as of `byteps_gradients`; `frame` is of
    `hta_widgets.analysis.byteps_servers`.

    Examples
    --------
    >>> charts.byteps_servers(analysis.byteps_servers(traces))  # doctest: +SKIP
    """
    colors = theme_of(theme)
    if frame.empty:
        return blank(frame, title, colors, width)
    require(frame, "byteps_servers", *_SERVER)
    data = frame.reset_index(drop=True)
    data["row"] = np.arange(len(data))
    marks, ends = stacked(
        data,
        [
            ("communication", "pushes", data["push_ns"]),
            ("memory", "pulls served", data["service_ns"]),
            ("wait", "pulls wait for a push", data["wait_ns"]),
        ],
        colors,
    )
    add_times(data, push_text=data["push_ns"], service_text=data["service_ns"])
    add_times(data, wait_text=data["wait_ns"], busy_text=data["busy_ns"])
    busy = data["busy_ns"].to_numpy(float)
    uneven = busy.max() / busy.mean() if busy.mean() > 0 else 1.0
    return rows_chart(
        data,
        [f"server {server}" for server in data["server"]],
        marks,
        x_end=max(ends) * 1.02 or 1.0,
        title=title,
        subtitle=sentences(
            "time of requests added up, which overlap",
            f"the busiest server works {uneven:.2f} times the mean" if len(data) > 1 else "",
            note_of(frame),
        ),
        theme=colors,
        width=width,
        head=" ",
        ticks=time_ticks(max(ends)),
        columns=[
            Column("keys", [count(each) for each in data["keys"]]),
            Column("busy", list(data["busy_text"]), 420),
        ],
        tooltip=Tooltip(
            "server @{server}",
            [
                ("pushes", "@{push_text}"),
                ("pulls served", "@{service_text}"),
                ("pulls wait", "@{wait_text}"),
                ("works on pushes", "@{busy_text}"),
                ("requests", "@{requests}"),
                ("keys", "@{keys}"),
            ],
        ),
    )


@draws("byteps_clock")
def byteps_clock(
    frame: pd.DataFrame,
    *,
    width: int | None = None,
    theme: str | Theme = "light",
    title: str = "Clocks of servers against workers",
) -> Any:
    """Draw how far servers' clocks are ahead of workers', with the interval of what is possible.

    Parameters and result as of `byteps_gradients`; `frame` is of
    `hta_widgets.analysis.byteps_clock`.

    Examples
    --------
    >>> charts.byteps_clock(analysis.byteps_clock(traces))  # doctest: +SKIP
    """
    colors = theme_of(theme)
    if frame.empty:
        return blank(frame, title, colors, width)
    require(frame, "byteps_clock", *_CLOCK)
    data = frame.reset_index(drop=True)
    data["row"] = np.arange(len(data))
    low, high = min(0, int(data["low_ns"].min())), max(0, int(data["high_ns"].max()))
    around = max(high - low, 1) * 0.04
    data["left_communication"] = data["offset_ns"] - around / 6
    data["right_communication"] = data["offset_ns"] + around / 6
    said = [
        f"{_signed(offset)} ± {duration(error)}"
        for offset, error in zip(data["offset_ns"], data["error_ns"], strict=True)
    ]
    data["said"] = said
    data["node_text"] = [node_label(int(node)) for node in data["node"]]
    return rows_chart(
        data,
        [
            f"worker {worker} · server {server}"
            for worker, server in zip(data["worker"], data["server"], strict=True)
        ],
        [
            Whiskers("low_ns", "high_ns", colors.ink),
            Bars("left_communication", "right_communication", colors.kind["communication"], ""),
        ],
        x_start=low - around,
        x_end=high + around,
        title=title,
        subtitle=sentences(
            "server's clock less worker's; the line holds every value that all requests allow",
            note_of(frame),
        ),
        theme=colors,
        width=width,
        head=" ",
        ticks=time_ticks(high, 3, low),
        columns=[Column("ahead", said)],
        zero_line=True,
        legend=[],
        tooltip=Tooltip(
            "worker @{worker} · server @{server}",
            [("ahead", "@{said}"), ("is", "@{node_text}"), ("by requests", "@{requests}")],
        ),
    )


def _signed(ns: float) -> str:
    return duration(ns) if ns <= 0 else f"+{duration(ns)}"


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
