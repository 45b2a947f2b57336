"""Two runs side by side: where the difference of the steps comes from, and step by step."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from hta_widgets.text import axis_time
from hta_widgets.text import duration
from hta_widgets.text import duration_delta
from hta_widgets.text import plural
from hta_widgets.text import share
from hta_widgets.text import share_delta
from hta_widgets.trace.names import short_name

from hta_widgets.charts.canvas import blank
from hta_widgets.charts.canvas import sentences
from hta_widgets.charts.canvas import unmatched
from hta_widgets.charts.delta_rows import colour
from hta_widgets.charts.delta_rows import signed_ticks
from hta_widgets.charts.delta_rows import times
from hta_widgets.charts.frames import draws_only
from hta_widgets.charts.frames import require_diff
from hta_widgets.charts.idle import idle_words
from hta_widgets.charts.labels import told_apart
from hta_widgets.charts.rows import Bars
from hta_widgets.charts.rows import Column
from hta_widgets.charts.rows import Dots
from hta_widgets.charts.rows import Tooltip
from hta_widgets.charts.rows import Whiskers
from hta_widgets.charts.rows import nice_ticks
from hta_widgets.charts.rows import rows_chart
from hta_widgets.charts.theme import Theme
from hta_widgets.charts.theme import theme_of

__all__ = ["diff_steps", "diff_waterfall"]

_WORDS = {
    "communication": "exposed communication",
    "communication_wait": "waiting for other ranks",
    "communication_transfer": "exposed transfer",
    "copies": "exposed copies",
    "idle": "idle device",
    "host": "host alone",
}


@draws_only("hta_widgets.diff.waterfall(diff.compare(before, after))")
def diff_waterfall(
    frame: pd.DataFrame,
    *,
    top: int = 15,
    width: int | None = None,
    theme: str | Theme = "light",
    title: str = "Where the difference of the step times comes from",
) -> Any:
    """Draw what each part adds to the step times or takes from them, up to the whole difference.

    Parameters
    ----------
    frame : DataFrame
        Of `hta_widgets.diff.waterfall`, or of ``tables(diff)["mpi_times"]``.
    top : int, default 15
        How many parts; the rest is one, so that the bars still add up.
    width : int, optional
        In CSS pixels; by default what the page gives.
    theme : {"light", "dark"} or Theme, default "light"
    title : str

    Returns
    -------
    bokeh.plotting.figure
        A bar a part, each beginning where the one above it ends, and one of the whole; its source
        has ``label, before_ns, after_ns, diff_ns``.

    Examples
    --------
    >>> charts.diff_waterfall(diff.waterfall(both, "cause"))  # doctest: +SKIP
    """
    colors = theme_of(theme)
    if frame.empty:
        return blank(frame, title, colors, width)
    require_diff(frame, "waterfall", "before_ns", "after_ns", "diff_ns")
    if "routine" not in frame:
        require_diff(frame, "waterfall", "cause")
    changed = frame[frame["diff_ns"] != 0]
    before, after = int(frame["before_ns"].sum()), int(frame["after_ns"].sum())
    if changed.empty:
        return blank(frame, title, colors, width, note="every part takes as long in both runs")
    shown, left = changed.head(top), changed.iloc[top:]
    sums = ["before_ns", "after_ns", "diff_ns"]
    data = shown[sums].astype("int64").reset_index(drop=True)
    labels = _parts(shown)
    if len(left):
        data.loc[len(data)] = left[sums].sum()
        labels.append(plural(len(left), "other part"))
    data.loc[len(data)] = [before, after, after - before]
    labels.append("in all")
    data["row"] = range(len(data))
    data["label"] = labels
    ends = np.cumsum(data["diff_ns"].to_numpy())
    ends[-1] = after - before
    starts = np.append(np.append(0, ends[:-2]), 0)
    data["low"], data["high"] = np.minimum(starts, ends), np.maximum(starts, ends)
    colour(data, colors)
    low, high = min(0, int(data["low"].min())), max(0, int(data["high"].max()))
    room = 0.02 * (high - low)
    share = data["diff_ns"] / before if before else data["diff_ns"] * np.nan
    data["diff_text"] = [duration_delta(each) for each in data["diff_ns"]]
    data["share_text"] = [share_delta(each) for each in share]
    data["times_text"] = times(data)
    return rows_chart(
        data,
        labels,
        [Bars("low", "high", "@fill", line="@line")],
        x_start=low - room,
        x_end=high + room,
        title=title,
        subtitle=sentences(
            f"{duration(before)} → {duration(after)}{_scope(frame)}",
            "each bar begins where the one above it ends; green: less, magenta: more",
            unmatched(frame, ()),
        ),
        theme=colors,
        width=width,
        head="part",
        zero_line=True,
        ticks=signed_ticks(low, high),
        columns=[
            Column("difference", list(data["diff_text"])),
            Column("of before", list(data["share_text"]), 480),
            Column("", list(data["times_text"]), 620),
        ],
        tooltip=Tooltip(
            "@{label}",
            [
                ("difference", "@{diff_text} · @{share_text} of before"),
                ("time", "@{times_text}"),
            ],
        ),
    )


@draws_only("hta_widgets.diff.steps(diff.compare(before, after))")
def diff_steps(
    frame: pd.DataFrame,
    *,
    width: int | None = None,
    theme: str | Theme = "light",
    title: str = "Steps, before and after",
) -> Any:
    """Draw how long each pair of steps takes before and after, and how much the steps spread.

    Parameters
    ----------
    frame : DataFrame
        Of `hta_widgets.diff.steps`.
    width : int, optional
        In CSS pixels; by default what the page gives.
    theme : {"light", "dark"} or Theme, default "light"
    title : str

    Returns
    -------
    bokeh.plotting.figure
        A row a pair of steps with a dot for each side and a line between; where there are several,
        below them a row for each side with its mean, the line a standard deviation to both sides.
        Its source has the frame's columns.

    Examples
    --------
    >>> charts.diff_steps(diff.steps(both))  # doctest: +SKIP
    """
    colors = theme_of(theme)
    if frame.empty:
        return blank(frame, title, colors, width)
    require_diff(frame, "steps", "before_step", "after_step", "before_ns", "after_ns", "diff_ns")
    data = frame[["before_step", "after_step", "before_ns", "after_ns", "diff_ns"]].astype(
        "float64"
    )
    names = [_step(*pair) for pair in zip(frame["before_step"], frame["after_step"], strict=True)]
    data["low"] = data[["before_ns", "after_ns"]].min(axis=1)
    data["high"] = data[["before_ns", "after_ns"]].max(axis=1)
    data["diff_text"] = [duration_delta(each) for each in data["diff_ns"]]
    share = data["diff_ns"] / data["before_ns"].where(data["before_ns"] > 0)
    data["share_text"] = [share_delta(each) for each in share]
    data["times_text"] = times(data)
    data["label"] = names
    if len(data) > 1:
        for side in ("before", "after"):
            mean = float(data[f"{side}_ns"].head(len(frame)).mean())
            spread = frame.attrs.get(f"{side}_std_ns") or 0.0
            row: dict[str, Any] = dict.fromkeys(data.columns, np.nan) | {
                f"{side}_ns": mean, "low": mean - spread, "high": mean + spread,
                "label": f"mean {side}", "diff_text": "", "share_text": "",
                "times_text": f"{duration(mean)} ± {duration(spread)}",
            }  # fmt: skip
            data.loc[len(data)] = pd.Series(row)
    data["row"] = range(len(data))
    most, least = float(data["high"].max()), float(data["low"].min())
    # Steps are compared with each other: a scale from zero would show the same length again.
    start = 0.0 if most - least > 0.25 * most else least - 0.25 * (most - least or most)
    likely = frame.attrs.get("p_value")
    return rows_chart(
        data,
        list(data["label"]),
        [
            Whiskers("low", "high", colors.rule_strong),
            Dots("before_ns", colors.ink3, 9, "before"),
            Dots("after_ns", colors.delta[5], 9, "after"),
        ],
        x_start=max(start, 0.0),
        x_end=most + 0.03 * (most - start),
        title=title,
        subtitle=sentences(
            "a row is a pair of steps; length on the host",
            _chance(likely),
            unmatched(frame, ()),
        ),
        theme=colors,
        width=width,
        head="step",
        ticks=_ticks(max(start, 0.0), most),
        columns=[
            Column("difference", list(data["diff_text"])),
            Column("", list(data["share_text"]), 480),
            Column("before → after", list(data["times_text"]), 620),
        ],
        tooltip=Tooltip("@{label}", [("time", "@{times_text}"), ("difference", "@{diff_text}")]),
    )


# --- words ----------------------------------------------------------------------------------------


def _parts(frame: pd.DataFrame) -> list[str]:
    if "routine" in frame:
        return [str(name) for name in frame["routine"]]
    causes = [_WORDS.get(str(cause), idle_words(str(cause))) for cause in frame["cause"]]
    if "name" not in frame:
        return causes
    names = [
        short_name(str(name)) if name else cause
        for name, cause in zip(frame["name"], causes, strict=True)
    ]
    # Of BytePS, queues have the name of the stage that they are before.
    names = [
        f"queue before {name}" if cause in {"stage queue", "root wait"} else name
        for name, cause in zip(names, causes, strict=True)
    ]
    return told_apart(names, [str(name) for name in frame["name"]], causes)


def _scope(frame: pd.DataFrame) -> str:
    steps = frame.attrs.get("steps", 0)
    ranks = max(frame.attrs.get("before_ranks", 1), frame.attrs.get("after_ranks", 1))
    in_steps = f" in {plural(steps, 'step')}" if steps > 1 else ""
    return f"{in_steps}, mean over ranks" if ranks > 1 else in_steps


def _step(before: int, after: int) -> str:
    if before < 0:
        return "the whole"
    return f"step {before}" if before == after else f"step {before} → {after}"


def _chance(likely: float | None) -> str:
    if likely is None:
        return "one step a side tells nothing of chance"
    if likely < 0.001:
        return "by chance the means differ as much in less than 1 of 1 000 such pairs"
    return f"by chance the means differ as much in {share(likely)} of such pairs"


def _ticks(start: float, end: float) -> list[tuple[float, str]]:
    span = end - start
    apart = nice_ticks(span, 3)
    step = apart[1] if len(apart) > 1 else max(span, 1.0)
    first = np.ceil(start / step) * step
    every = np.arange(first, end + 0.01 * step, step)
    return [(float(at), axis_time(float(at), step)) for at in every]
