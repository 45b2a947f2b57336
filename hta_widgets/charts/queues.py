"""How long the queues of launched work are."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from hta_widgets.formats import count, value

from .canvas import blank, sentences, unmatched
from .frames import draws, require
from .rows import Bars, Column, Tooltip, nice_ticks, rows_chart
from .theme import Theme, theme_of

__all__ = ["queue_length_summary"]

#: More queues than this are drawn as one a rank.
_MOST = 48


@draws("queue_length_summary")
def queue_length_summary(
    frame: pd.DataFrame,
    *,
    width: int | None = None,
    theme: str | Theme = "light",
    title: str = "Launched and not yet started",
) -> Any:
    """Draw how much launched work waits on each stream: in the mean, and at most.

    Parameters
    ----------
    frame : DataFrame, TraceSet, Trace or Selection
        Of `hta_widgets.analysis.queue_length_summary`.
    width : int, optional
        In CSS pixels; by default what the page gives.
    theme : {"light", "dark"} or Theme, default "light"
    title : str

    Returns
    -------
    bokeh.plotting.figure
        One bar a rank and stream; of more than 48, the stream with the longest queue of each rank.

    Examples
    --------
    >>> charts.queue_length_summary(analysis.queue_length_summary(traces))  # doctest: +SKIP
    """
    colors = theme_of(theme)
    if len(frame):
        require(frame, "queue_length_summary", "rank", "stream", "time_weighted_mean", "max")
    known = frame[frame["max"].notna()] if len(frame) else frame
    if known.empty:
        return blank(frame, title, colors, width)
    data = known.reset_index(drop=True)
    said = ""
    if len(data) > _MOST and data["rank"].duplicated().any():
        longest = data.sort_values(
            ["rank", "time_weighted_mean"], ascending=[True, False], kind="stable"
        )
        data = longest.drop_duplicates("rank").reset_index(drop=True)
        said = "of each rank the stream with the longest queue"
    data["row"] = np.arange(len(data))
    data["mean"] = data["time_weighted_mean"].fillna(0.0)
    several = bool((data["rank"] != data["rank"].iloc[0]).any())
    names = [
        f"rank {rank} · stream {stream}" if several else f"stream {stream}"
        for rank, stream in zip(data["rank"], data["stream"], strict=True)
    ]
    data["name_of_row"] = names
    data["mean_text"] = [_length(each) for each in data["time_weighted_mean"]]
    data["max_text"] = [value(each) for each in data["max"]]
    data["count_text"] = [count(each) for each in data["count"]] if "count" in data else ""
    most = float(data["max"].max()) or 1.0
    ticks = [at for at in nice_ticks(most, 3) if at == int(at)]
    ink = colors.kind["cpu"]
    return rows_chart(
        data,
        names,
        [
            Bars(0.0, "max", ink, "most", line=ink, alpha=0.2),
            Bars(0.0, "mean", ink, "mean over time"),
        ],
        x_end=most * 1.02,
        title=title,
        subtitle=sentences(
            "kernels and copies in a stream's queue",
            "a short queue: the GPU waits for launches",
            said,
            unmatched(frame, ("launched",)),
        ),
        theme=colors,
        width=width,
        head=" ",
        ticks=[(at, count(at)) for at in ticks],
        columns=[Column("mean", list(data["mean_text"])), Column("most", list(data["max_text"]))],
        tooltip=Tooltip(
            "@{name_of_row}",
            [("mean over time", "@{mean_text}"), ("most", "@{max_text}")]
            + ([("changes", "@{count_text}")] if "count" in data else []),
        ),
    )


def _length(mean: float) -> str:
    """Two digits tell short queues apart, and more say nothing."""
    if not np.isfinite(mean):
        return value(None)
    if 0 < mean < 0.01:
        return "<0.01"
    return value(round(mean)) if mean >= 10 else value(float(f"{mean:.2g}"))
