"""How ranks communicate: by process group and by stream."""

from __future__ import annotations

from typing import Any

import pandas as pd

from hta_widgets.text import count
from hta_widgets.text import duration
from hta_widgets.text import share
from hta_widgets.text import size

from hta_widgets.charts.canvas import blank
from hta_widgets.charts.canvas import sentences
from hta_widgets.charts.canvas import unmatched
from hta_widgets.charts.frames import draws
from hta_widgets.charts.frames import require
from hta_widgets.charts.rows import Bars
from hta_widgets.charts.rows import Column
from hta_widgets.charts.rows import Tooltip
from hta_widgets.charts.rows import Whiskers
from hta_widgets.charts.rows import rows_chart
from hta_widgets.charts.rows import time_ticks
from hta_widgets.charts.theme import Theme
from hta_widgets.charts.theme import theme_of

__all__ = ["communication_by_group", "communication_by_stream"]


@draws("communication_by_group")
def communication_by_group(
    frame: pd.DataFrame,
    *,
    width: int | None = None,
    theme: str | Theme = "light",
    title: str = "Communication by process group",
) -> Any:
    """Draw each process group's communication, split into hidden behind compute and exposed.

    Parameters
    ----------
    frame : DataFrame, TraceSet, Trace or Selection
        Of `hta_widgets.analysis.communication_by_group`.
    width : int, optional
        In CSS pixels; by default what the page gives.
    theme : {"light", "dark"} or Theme, default "light"
    title : str

    Returns
    -------
    bokeh.plotting.figure
        One bar a group; its source has the frame's times as means of the ranks in the group.

    Examples
    --------
    >>> charts.communication_by_group(analysis.communication_by_group(traces))  # doctest: +SKIP
    """
    keys = [key for key in ("group", "description", "collective") if key in frame]
    return _by(frame, keys, "process group", title, theme_of(theme), width)


@draws("communication_by_stream")
def communication_by_stream(
    frame: pd.DataFrame,
    *,
    width: int | None = None,
    theme: str | Theme = "light",
    title: str = "Communication by stream",
) -> Any:
    """Draw each stream's communication, split into hidden behind compute and exposed.

    Parameters and result as of `communication_by_group`; `frame` is of
    `hta_widgets.analysis.communication_by_stream`.

    Examples
    --------
    >>> charts.communication_by_stream(analysis.communication_by_stream(traces))  # doctest: +SKIP
    """
    return _by(frame, ["stream"], "stream", title, theme_of(theme), width)


def _by(
    frame: pd.DataFrame,
    keys: list[str],
    noun: str,
    title: str,
    colors: Theme,
    width: int | None,
) -> Any:
    if frame.empty:
        return blank(frame, title, colors, width)
    name = "communication_by_stream" if "stream" in keys else "communication_by_group"
    needed = ("rank", "communication_ns", "overlapped_ns", "exposed_ns", "count")
    require(frame, name, *(keys or ["group"]), *needed)
    text = frame.assign(**{key: frame[key].astype(str) for key in keys})
    grouped = text.groupby(keys, sort=False)
    data = grouped[["communication_ns", "overlapped_ns", "exposed_ns"]].mean()
    data["count"] = grouped["count"].sum()
    data["ranks"] = grouped["rank"].nunique()
    data["least_ns"] = grouped["communication_ns"].min()
    data["most_ns"] = grouped["communication_ns"].max()
    for key in ("in_bytes", "out_bytes"):
        if key in frame:
            data[key] = grouped[key].agg(
                lambda each: each[each >= 0].sum() if (each >= 0).any() else -1
            )
    data = data.sort_values("communication_ns", ascending=False, kind="stable").reset_index()
    data["row"] = range(len(data))
    data["overlap_share"] = data["overlapped_ns"] / data["communication_ns"].where(
        data["communication_ns"] > 0
    )
    names = [_label(record, noun) for record in data[keys].to_dict("records")]
    data["name"] = names
    for each in ("communication_ns", "overlapped_ns", "exposed_ns", "least_ns", "most_ns"):
        data[f"{each}_text"] = [duration(number) for number in data[each]]
    data["hidden_text"] = [share(each) for each in data["overlap_share"]]
    data["count_text"] = [count(each) for each in data["count"]]
    more = []
    if {"in_bytes", "out_bytes"} <= set(data.columns):
        for each in ("in_bytes", "out_bytes"):
            data[f"{each}_text"] = ["–" if n < 0 else size(n) for n in data[each]]
        more = [("in, out, all ranks", "@{in_bytes_text}, @{out_bytes_text}")]
    orange = colors.kind["communication"]
    most = float(data["most_ns"].max()) or 1.0
    several = len(frame["rank"].unique()) > 1
    return rows_chart(
        data,
        names,
        [
            Bars(0.0, "overlapped_ns", orange, "behind compute"),
            Bars("overlapped_ns", "communication_ns", orange, "exposed", line=orange, alpha=0.25),
            *([Whiskers("least_ns", "most_ns", colors.ink2)] if several else []),
        ],
        x_end=most * 1.02,
        title=title,
        subtitle=sentences(
            "time in which any communication kernel runs, waiting included",
            "mean of ranks, line: least to most of a rank" if several else "",
            unmatched(frame),
        ),
        theme=colors,
        width=width,
        head=noun,
        ticks=time_ticks(most),
        columns=[
            Column("hidden", list(data["hidden_text"])),
            Column("total", list(data["communication_ns_text"]), 420),
            Column("ranks", [count(each) for each in data["ranks"]], 560),
            Column("kernels", list(data["count_text"]), 680),
        ],
        tooltip=Tooltip(
            "@{name}",
            [
                ("communication", "@{communication_ns_text}"),
                ("behind compute", "@{overlapped_ns_text} · @{hidden_text}"),
                ("exposed", "@{exposed_ns_text}"),
                ("least and most of a rank", "@{least_ns_text} – @{most_ns_text}"),
                ("kernels on ranks", "@{count_text} on @{ranks}"),
                *more,
            ],
        ),
    )


def _label(record: dict[Any, Any], noun: str) -> str:
    words = [record.get("description") or "", record.get("group") or "", record.get("stream") or ""]
    named = " · ".join(word for word in words if word)
    named = f"stream {named}" if "stream" in record else named or f"{noun} not stated"
    return f"{named} · {record['collective']}" if record.get("collective") else named
