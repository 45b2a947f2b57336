"""What changed between two runs."""

from __future__ import annotations

from typing import Any, Literal

import pandas as pd

from hta_widgets.text import MINUS
from hta_widgets.text import axis_time
from hta_widgets.text import count
from hta_widgets.text import duration
from hta_widgets.text import duration_delta
from hta_widgets.text import plural
from hta_widgets.text import share_delta
from hta_widgets.trace.names import short_name

from hta_widgets.charts.canvas import blank
from hta_widgets.charts.canvas import sentences
from hta_widgets.charts.canvas import unmatched
from hta_widgets.charts.frames import draws
from hta_widgets.charts.frames import require
from hta_widgets.charts.labels import told_apart
from hta_widgets.charts.rows import Bars
from hta_widgets.charts.rows import Column
from hta_widgets.charts.rows import Tooltip
from hta_widgets.charts.rows import nice_ticks
from hta_widgets.charts.rows import rows_chart
from hta_widgets.charts.theme import Theme
from hta_widgets.charts.theme import theme_of

__all__ = ["diff_ops"]


@draws("diff_ops")
def diff_ops(
    frame: pd.DataFrame,
    *,
    measure: Literal["duration", "count"] = "duration",
    top: int = 15,
    width: int | None = None,
    theme: str | Theme = "light",
    title: str | None = None,
) -> Any:
    """Draw the names whose time, or count, differs most between two runs.

    Parameters
    ----------
    frame : DataFrame, TraceSet, Trace or Selection
        Of `hta_widgets.analysis.diff_ops`.
    measure : {"duration", "count"}, default "duration"
    top : int, default 15
        How many names; how many others differ is said.
    width : int, optional
        In CSS pixels; by default what the page gives.
    theme : {"light", "dark"} or Theme, default "light"
    title : str, optional

    Returns
    -------
    bokeh.plotting.figure
        One bar a name, on its side of zero; its source has the frame's columns.

    Examples
    --------
    >>> charts.diff_ops(analysis.diff_ops(before, after))  # doctest: +SKIP
    """
    colors = theme_of(theme)
    timed = measure == "duration"
    given = title or ("Time, after against before" if timed else "Calls, after against before")
    column = "diff_ns" if timed else "diff_count"
    if frame.empty:
        return blank(frame, given, colors, width)
    require(frame, "diff_ops", "name", "kind", "before_count", "after_count")
    require(frame, "diff_ops", "before_ns", "after_ns", column)
    changed = frame[frame[column] != 0]
    if changed.empty:
        what = "time" if timed else "count"
        return blank(
            frame, given, colors, width, note=f"all {len(frame)} names have the same {what}"
        )
    order = changed[column].abs().sort_values(ascending=False, kind="stable").index[:top]
    data = changed.loc[order].reset_index(drop=True)
    data["row"] = range(len(data))
    data["name"] = data["name"].astype(str)
    before = data["before_ns"] if timed else data["before_count"]
    relative = data[column] / before.where(before > 0)
    same = relative.abs() <= 0.02
    more = data[column] > 0
    data["fill"] = [
        colors.delta[3] if even else colors.delta[5] if up else colors.delta[1]
        for even, up in zip(same, more, strict=True)
    ]
    data["line"] = [
        colors.rule_strong if even else fill for even, fill in zip(same, data["fill"], strict=True)
    ]
    data["change_text"] = [
        "new" if was == 0 else "gone" if now == 0 else share_delta(each)
        for was, now, each in zip(data["before_count"], data["after_count"], relative, strict=True)
    ]
    data["diff_text"] = [duration_delta(n) if timed else _count_delta(n) for n in data[column]]
    data["counts_text"] = [
        f"{count(was)} → {count(now)}"
        for was, now in zip(data["before_count"], data["after_count"], strict=True)
    ]
    for each in ("before_ns", "after_ns"):
        data[f"{each}_text"] = [duration(number) for number in data[each]]
    most = float(data[column].max()) if more.any() else 0.0
    least = float(data[column].min()) if (~more).any() else 0.0
    room = 0.02 * (most - least)
    ticks = nice_ticks(max(most, 0), 2, min(least, 0))
    step = ticks[1] - ticks[0] if len(ticks) > 1 else max(most, -least)
    # Ranges hold what runs inside of them: adding both would count it twice.
    work = frame[frame["kind"] != "annotation"] if "kind" in frame else frame
    whole = float(work[column].sum())
    left = len(changed) - len(data)
    return rows_chart(
        data,
        told_apart(
            [short_name(name) for name in data["name"]],
            list(data["name"]),
            [str(kind) for kind in data["kind"]],
        ),
        [Bars(0.0, column, "@fill", line="@line")],
        x_start=least - room,
        x_end=most + room,
        title=given,
        subtitle=sentences(
            "total of a name after, less before",
            f"all names but ranges {duration_delta(whole) if timed else _count_delta(whole)}",
            "green: less, magenta: more, grey: within ±2 %",
            f"{plural(left, 'other name')} with smaller differences not drawn" if left else "",
            unmatched(frame),
        ),
        theme=colors,
        width=width,
        head="name",
        zero_line=True,
        ticks=[(at, _signed_time(at, step) if timed else _count_delta(at)) for at in ticks],
        columns=[
            Column("difference", list(data["diff_text"])),
            Column("", list(data["change_text"]), 480),
            Column("count", list(data["counts_text"]), 620),
        ],
        tooltip=Tooltip(
            "@{name}",
            [
                ("kind", "@{kind}"),
                ("time", "@{before_ns_text} → @{after_ns_text}"),
                ("count", "@{counts_text}"),
                ("difference", "@{diff_text} @{change_text}"),
            ],
        ),
    )


def _signed_time(at: float, step: float) -> str:
    return ("+" if at > 0 else "") + axis_time(at, step)


def _count_delta(number: float) -> str:
    if number == 0:
        return "±0"
    return ("+" if number > 0 else MINUS) + count(abs(number))
