"""Which kernels take longer on one rank than on the others."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from hta_widgets.formats import count, duration, share_delta

from .canvas import blank, sentences, unmatched
from .frames import draws_panel, require_panel
from .labels import told_apart
from .rows import Bars, Column, Dots, Tooltip, nice_ticks, rows_chart, time_ticks
from .theme import Theme, theme_of

__all__ = ["kernel_durations"]

#: A few per cent are what any two GPUs of one kind differ by.
_APART = 0.05
#: Bars of kernels reach at most this far; communication, which waits, may reach beyond.
_FARTHEST = 1.0
_NEAREST = 0.1


@draws_panel("kernel_durations")
def kernel_durations(
    frame: pd.DataFrame,
    *,
    width: int | None = None,
    theme: str | Theme = "light",
    title: str = "Kernel durations over ranks",
) -> Any:
    """Draw how far the mean durations of kernels lie apart over ranks.

    Parameters
    ----------
    frame : DataFrame
        One row a kernel: ``name, short, kind, count, mean_ns, min_ns, min_rank, max_ns, max_rank,
        ranks``; the mean over ranks of a rank's mean duration, and the least and most of a rank.
    width : int, optional
        In CSS pixels; by default what the page gives.
    theme : {"light", "dark"} or Theme, default "light"
    title : str

    Returns
    -------
    bokeh.plotting.figure
        One row a kernel: a bar from the least to the most rank, against the mean of
        ranks, and a dot at the farther of the two.
        On one rank: bars of mean durations.

    Examples
    --------
    >>> charts.kernel_durations(dash.panel_frame("kernel_durations"))  # doctest: +SKIP
    """
    colors = theme_of(theme)
    if frame.empty:
        return blank(frame, title, colors, width)
    needed = ("name", "short", "kind", "mean_ns", "min_ns", "min_rank", "max_ns", "max_rank")
    require_panel(frame, "kernel_durations", *needed, "ranks", "count")
    data = frame.reset_index(drop=True)
    data["row"] = np.arange(len(data))
    names = [str(each) for each in data["name"]]
    labels = told_apart([str(each) for each in data["short"]], names)
    data["fill"] = [colors.kind.get(str(kind), colors.kind["other"]) for kind in data["kind"]]
    one = int(data["ranks"].max()) <= 1
    mean = data["mean_ns"].to_numpy(float)
    low, high = (
        np.divide(data[name].to_numpy(float), mean, out=np.ones(len(mean)), where=mean > 0) - 1
        for name in ("min_ns", "max_ns")
    )
    reach = _reach(low, high, data["kind"].astype(str).to_numpy() == "communication")
    none = np.full(len(data), np.nan)
    data["end"] = mean if one else none
    data["low"] = none if one else np.clip(low, -reach, reach)
    data["high"] = none if one else np.clip(high, -reach, reach)
    far = np.where(np.abs(high) >= np.abs(low), high, low)
    slow = (far >= _APART) & (data["kind"].astype(str) != "communication")
    data["far"] = none if one else np.clip(far, -reach, reach)
    data["ink"] = np.where(slow, colors.late, data["fill"])
    most = float(mean.max()) or 1.0
    for name in ("mean_ns", "min_ns", "max_ns"):
        data[f"{name}_text"] = [duration(each) for each in data[name]]
    data["count_text"] = [count(each) for each in data["count"]]
    if one:
        marked = time_ticks(most)
    else:
        steps = nice_ticks(reach, 1 if reach < 0.15 else 2, -reach)
        marked = [(at, "mean" if at == 0 else share_delta(at)) for at in steps]
    columns = [Column("mean", list(data["mean_ns_text"]))]
    if not one:
        columns.insert(0, Column("farthest", _farthest(data, low, high)))
    return rows_chart(
        data,
        labels,
        [
            Bars(0.0, "end", "@fill"),
            Bars("low", "high", "@fill", height=0.35),
            Dots("far", "@ink"),
        ],
        x_start=0.0 if one else -reach * 1.04,
        x_end=most * 1.02 if one else reach * 1.04,
        title=title,
        subtitle=sentences(
            "mean duration, by name with most time"
            if one
            else "from the rank with the shortest mean duration to that with the longest",
            "" if one else "communication includes waiting: who waits less is not faster",
            unmatched(frame),
        ),
        theme=colors,
        width=width,
        head="kernel",
        ticks=marked,
        zero_line=not one,
        columns=columns,
        tooltip=Tooltip(
            "@{name}",
            [
                ("kind", "@{kind}"),
                ("mean of ranks", "@{mean_ns_text}"),
                ("shortest", "@{min_ns_text} on rank @{min_rank}"),
                ("longest", "@{max_ns_text} on rank @{max_rank}"),
                ("kernels", "@{count_text}"),
            ],
        ),
    )


def _reach(low: Any, high: Any, waits: Any) -> float:
    """Return how far the scale goes: to the farthest kernel that does not wait."""
    far = np.maximum(np.abs(low), np.abs(high))
    chosen = far if waits.all() else far[~waits]
    return float(min(max(chosen.max(), _NEAREST), _FARTHEST))


def _farthest(data: pd.DataFrame, low: Any, high: Any) -> list[str]:
    slower = np.abs(high) >= np.abs(low)
    rank = np.where(slower, data["max_rank"], data["min_rank"])
    apart = np.where(slower, high, low)
    return [
        f"rank {each} {share_delta(by)}" if abs(by) >= _APART else "within ±5\u2009%"
        for each, by in zip(rank, apart, strict=True)
    ]
