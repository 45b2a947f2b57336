"""Who keeps the others waiting, how much that costs, and why."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from hta_widgets.text import duration
from hta_widgets.text import plural
from hta_widgets.text import share

from hta_widgets.charts.across_ranks import listed
from hta_widgets.charts.canvas import blank
from hta_widgets.charts.canvas import sentences
from hta_widgets.charts.canvas import unmatched
from hta_widgets.charts.frames import draws
from hta_widgets.charts.frames import require
from hta_widgets.charts.rows import Bars
from hta_widgets.charts.rows import Column
from hta_widgets.charts.rows import Tooltip
from hta_widgets.charts.rows import rows_chart
from hta_widgets.charts.rows import time_ticks
from hta_widgets.charts.theme import Theme
from hta_widgets.charts.theme import theme_of

__all__ = ["stragglers"]

#: With more ranks than this only those that cost most have a row.
_MOST_ROWS = 24
_TOP = 16


@draws("stragglers")
def stragglers(
    frame: pd.DataFrame,
    *,
    width: int | None = None,
    theme: str | Theme = "light",
    title: str = "Who keeps the others waiting",
) -> Any:
    """Draw how long the others wait for each rank, and why it is late.

    Parameters
    ----------
    frame : DataFrame, TraceSet, Trace or Selection
        Of `hta_widgets.analysis.stragglers`.
    width : int, optional
        In CSS pixels; by default what the page gives.
    theme : {"light", "dark"} or Theme, default "light"
    title : str

    Returns
    -------
    bokeh.plotting.figure
        One bar a rank, the most imposed wait first; its source has the frame's rows. With more
        than 24 ranks, the 16 first and all stragglers; the others share a row.

    Examples
    --------
    >>> charts.stragglers(analysis.stragglers(traces))  # doctest: +SKIP
    """
    colors = theme_of(theme)
    if frame.empty:
        return blank(frame, title, colors, width)
    require(frame, "stragglers", "rank", "score", "late_ns_mean", "imposed_wait_ns")
    every = frame.reset_index(drop=True)
    # Frames of fewer columns are drawn, too; nothing is judged from them.
    for name, missing in (
        ("is_straggler", False),
        ("lost_ns", 0),
        ("lost_share", np.nan),
        ("cause", ""),
        ("pattern", ""),
        ("host", ""),
    ):
        if name not in every:
            every[name] = missing
    every = every.sort_values(
        ["imposed_wait_ns", "lost_ns", "rank"], ascending=[False, False, True], kind="stable"
    ).reset_index(drop=True)
    data, left = every, every.iloc[:0]
    if len(every) > _MOST_ROWS:
        shown = every["is_straggler"].to_numpy(bool) | (np.arange(len(every)) < _TOP)
        data, left = every[shown].reset_index(drop=True), every[~shown]
    names = [f"rank {rank}" for rank in data["rank"]]
    if len(left):
        names.append(plural(len(left), "other rank"))
        data = pd.concat([data, _together(left)], ignore_index=True)
    data["row"] = np.arange(len(data))
    culprit = data["is_straggler"].to_numpy(bool)
    data["fill"] = np.where(culprit, colors.late_fill, colors.idle)
    data["line"] = np.where(culprit, colors.late, colors.idle_line)
    # Bars of no length would show their outline.
    data["imposed_to_ns"] = data["imposed_wait_ns"].where(data["imposed_wait_ns"] > 0)
    data["lost_to_ns"] = data["lost_ns"].where(data["lost_ns"] > 0)
    data["imposed_wait_ns_text"] = [duration(each) for each in data["imposed_wait_ns"]]
    data["lost_ns_text"] = [duration(each) for each in data["lost_ns"]]
    data["score_text"] = [share(each) for each in data["score"]]
    data["lost_share_text"] = [share(each) for each in data["lost_share"]]
    data["late_ns_mean_text"] = [
        duration(each) if not each < 0 else f"{duration(-each)} early"
        for each in data["late_ns_mean"]
    ]
    data["why"] = [
        _why(str(cause), str(pattern), guilty=guilty)
        for cause, pattern, guilty in zip(data["cause"], data["pattern"], culprit, strict=True)
    ]
    most = float(data["imposed_wait_ns"].max()) or 1.0
    known = "lost_ns" in frame
    return rows_chart(
        data,
        names,
        [
            Bars(0.0, "imposed_to_ns", "@fill", line="@line"),
            *(
                [
                    Bars(
                        0.0,
                        "lost_to_ns",
                        colors.wait_fill,
                        "",
                        line=colors.wait_line,
                        hatch="/",
                        hatch_color=colors.wait_line,
                        height=0.4,
                    )
                ]
                if known
                else []
            ),
        ],
        x_end=most * 1.02,
        title=title,
        subtitle=sentences(
            "how long the other ranks wait in collectives for the rank that comes last, added up",
            _finding(every),
            unmatched(frame),
        ),
        theme=colors,
        width=width,
        head=" ",
        ticks=time_ticks(most),
        legend=[
            *(
                [Bars(0.0, "", colors.late_fill, "straggler", line=colors.late)]
                * int(culprit.any())
            ),
            Bars(0.0, "", colors.idle, "rank", line=colors.idle_line),
            *(
                [
                    Bars(
                        0.0,
                        "",
                        colors.wait_fill,
                        "computing nothing",
                        line=colors.wait_line,
                        hatch="/",
                        hatch_color=colors.wait_line,
                    )
                ]
                if known
                else []
            ),
        ],
        columns=[
            Column("because of", list(data["why"])),
            Column("the others wait", list(data["imposed_wait_ns_text"]), 560),
            Column("last in", list(data["score_text"]), 680),
            Column("costs the others", list(data["lost_share_text"]), 800),
        ],
        tooltip=Tooltip(
            "rank @{rank}",
            [
                ("why", "@{why}"),
                ("the others wait", "@{imposed_wait_ns_text}"),
                ("and compute nothing", "@{lost_ns_text}"),
                ("of their time", "@{lost_share_text}"),
                ("last in", "@{score_text}"),
                ("mean lateness against the median", "@{late_ns_mean_text}"),
                ("host", "@{host}"),
            ],
        ),
    )


def _together(left: pd.DataFrame) -> pd.DataFrame:
    """Return one row for many ranks: what they impose is added up, the rest is their mean."""
    added = {"imposed_wait_ns", "lost_ns", "wait_ns"}
    row: dict[str, Any] = {
        str(name): (values.sum() if name in added else values.mean())
        if values.dtype.kind in "iuf"
        else ""
        for name, values in left.items()
    }
    row |= {"rank": -1, "is_straggler": False, "host": "", "cause": "", "pattern": ""}
    return pd.DataFrame([row])


def _why(cause: str, pattern: str, *, guilty: bool) -> str:
    if cause and not guilty:
        # What it inherited is not its fault.
        return f"({cause})"
    often = {"occasional": ", at times"}
    return f"{cause}{often.get(pattern, '')}"


def _finding(every: pd.DataFrame) -> str:
    found = every[every["is_straggler"].to_numpy(bool)]
    if found.empty:
        return f"none of {plural(len(every), 'rank')} is a straggler"
    first = found.iloc[0]
    if len(found) > 1:
        return f"{listed(found['rank'].tolist())} are stragglers"
    often = "at times" if first["pattern"] == "occasional" else "all along"
    return (
        f"rank {first['rank']} is late {often}, {first['cause'] or 'why is not known'}:"
        f" the others wait {duration(first['imposed_wait_ns'])} together"
        f" and lose {share(first['lost_share'])} of their time"
    )
