"""What changed between two runs, and what each name costs in both."""

from __future__ import annotations

from typing import Any

import pandas as pd

from hta_widgets.text import duration_delta
from hta_widgets.text import plural
from hta_widgets.text import share_delta
from hta_widgets.trace.names import short_name

from hta_widgets.charts.canvas import blank
from hta_widgets.charts.canvas import sentences
from hta_widgets.charts.canvas import unmatched
from hta_widgets.charts.delta_rows import calls
from hta_widgets.charts.delta_rows import colour
from hta_widgets.charts.delta_rows import signed_ticks
from hta_widgets.charts.delta_rows import times
from hta_widgets.charts.diffs import diff_ops
from hta_widgets.charts.frames import draws_only
from hta_widgets.charts.frames import require_diff
from hta_widgets.charts.labels import told_apart
from hta_widgets.charts.rows import Bars
from hta_widgets.charts.rows import Column
from hta_widgets.charts.rows import Tooltip
from hta_widgets.charts.rows import rows_chart
from hta_widgets.charts.theme import Theme
from hta_widgets.charts.theme import theme_of

__all__ = ["diff_changes", "diff_names"]


@draws_only("hta_widgets.diff.changes(diff.compare(before, after))")
def diff_changes(
    frame: pd.DataFrame,
    *,
    top: int = 15,
    width: int | None = None,
    theme: str | Theme = "light",
    title: str = "What changed, beyond noise",
) -> Any:
    """Draw the changes with most time: regressions and improvements, each on its side of zero.

    Parameters
    ----------
    frame : DataFrame
        Of `hta_widgets.diff.changes`.
    top : int, default 15
        How many; how many others there are is said.
    width : int, optional
        In CSS pixels; by default what the page gives.
    theme : {"light", "dark"} or Theme, default "light"
    title : str

    Returns
    -------
    bokeh.plotting.figure
        A bar a change: its time in a step after, less before; its source has the frame's columns.

    Examples
    --------
    >>> charts.diff_changes(diff.changes(both))  # doctest: +SKIP
    """
    colors = theme_of(theme)
    if frame.empty:
        return blank(frame, title, colors, width)
    require_diff(frame, "changes", "change", "measure", "name", "path", "before_count")
    require_diff(frame, "changes", "after_count", "before_ns", "after_ns", "diff_ns")
    data = frame.head(top).reset_index(drop=True)
    data = data.assign(**{name: data[name].astype(str) for name in ("change", "measure", "name")})
    data["row"] = range(len(data))
    colour(data, colors)
    data["diff_text"] = [duration_delta(each) for each in data["diff_ns"].round()]
    share = data["diff_ns"] / data["before_ns"].where(data["before_ns"] > 0)
    timed = data["change"].isin(["slower", "faster"])
    data["share_text"] = [
        share_delta(each) if flag else "" for each, flag in zip(share, timed, strict=True)
    ]
    data["what"] = [
        f"{change} · {measure}" if flag else change
        for change, measure, flag in zip(data["change"], data["measure"], timed, strict=True)
    ]
    data["times_text"] = times(data)
    data["counts_text"] = [
        f"{calls(was)} → {calls(now)}"
        for was, now in zip(data["before_count"], data["after_count"], strict=True)
    ]
    low, high = min(0.0, float(data["diff_ns"].min())), max(0.0, float(data["diff_ns"].max()))
    span = high - low or 1.0
    left = len(frame) - len(data)
    return rows_chart(
        data,
        told_apart(
            [short_name(name) for name in data["name"]], list(data["name"]), list(data["what"])
        ),
        [Bars(0.0, "diff_ns", "@fill", line="@line")],
        x_start=low - 0.02 * span,
        x_end=high + 0.02 * span,
        title=title,
        subtitle=sentences(
            "time in a step after, less before; mean over steps and ranks",
            "green: less, magenta: more",
            f"{plural(left, 'smaller change')} not drawn" if left else "",
            unmatched(frame, ()),
        ),
        theme=colors,
        width=width,
        head="name",
        zero_line=True,
        ticks=signed_ticks(low, high),
        columns=[
            Column("change", list(data["what"]), 460),
            Column("difference", list(data["diff_text"])),
            Column("", list(data["share_text"]), 520),
            Column("a step", list(data["times_text"]), 680),
        ],
        tooltip=Tooltip(
            "@{name}",
            [
                ("change", "@{what}"),
                ("time in a step", "@{times_text}"),
                ("difference", "@{diff_text} @{share_text}"),
                ("calls in a step", "@{counts_text}"),
                ("in", "@{path}"),
            ],
        ),
    )


@draws_only("hta_widgets.diff.names(diff.compare(before, after))")
def diff_names(
    frame: pd.DataFrame,
    *,
    top: int = 15,
    width: int | None = None,
    theme: str | Theme = "light",
    title: str = "Names, after against before, in a step",
) -> Any:
    """Draw the names whose time in a step differs most.

    Parameters
    ----------
    frame : DataFrame
        Of `hta_widgets.diff.names`.
    top : int, default 15
    width : int, optional
        In CSS pixels; by default what the page gives.
    theme : {"light", "dark"} or Theme, default "light"
    title : str

    Returns
    -------
    bokeh.plotting.figure
        One bar a name; as `diff_ops`, but counts and times are of one step and rank.

    Examples
    --------
    >>> charts.diff_names(diff.names(both))  # doctest: +SKIP
    """
    if not frame.empty:
        require_diff(frame, "names", "name", "kind", "diff_ns_per_step")
        require_diff(frame, "names", "before_ns_per_step", "after_ns_per_step")
        require_diff(frame, "names", "before_count_per_step", "after_count_per_step")
        attrs = frame.attrs
        frame = frame.assign(
            **{
                f"{word}_{unit}": frame[f"{word}_{unit}_per_step"]
                for word in ("before", "after")
                for unit in ("count", "ns")
            },
            diff_ns=frame["diff_ns_per_step"],
        )
        frame.attrs = attrs
    return diff_ops(frame, top=top, width=width, theme=theme, title=title)
