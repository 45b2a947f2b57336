"""Charts of two runs."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import pandas as pd

from hta_widgets.charts.data import draws, draws_only, require, require_diff, told_apart
from hta_widgets.charts.defined import idle_words
from hta_widgets.charts.figure import blank, sentences, unmatched
from hta_widgets.charts.rows import Bars, Column, Dots, Tooltip, Whiskers, nice_ticks, rows_chart
from hta_widgets.charts.theme import Theme, theme_of
from hta_widgets.text import (
    MINUS,
    axis_time,
    count,
    duration,
    duration_delta,
    plural,
    share,
    share_delta,
)
from hta_widgets.trace.names import short_name

_SAME = 0.02  # of before: less is drawn grey


def times(data: pd.DataFrame) -> list[str]:
    """Return the times of both runs as words."""
    return [
        f"{duration(was)} → {duration(now)}"
        for was, now in zip(data["before_ns"].round(), data["after_ns"].round(), strict=True)
    ]


def calls(number: float) -> str:
    """Return a mean number of calls as words."""
    return count(round(number)) if abs(number - round(number)) < 0.05 else f"{number:.1f}"


def colour(data: pd.DataFrame, colors: Theme) -> None:
    """Add columns ``fill`` and ``line``: less, more, or about the same."""
    relative = (data["diff_ns"] / data["before_ns"].where(data["before_ns"] > 0)).abs()
    same = (relative <= _SAME).to_numpy(dtype=bool)
    more = (data["diff_ns"] > 0).to_numpy(dtype=bool)
    data["fill"] = np.where(same, colors.delta[3], np.where(more, colors.delta[5], colors.delta[1]))
    data["line"] = np.where(same, colors.rule_strong, data["fill"])


def signed_ticks(low: float, high: float) -> list[tuple[float, str]]:
    """Return round differences of time from `low` to `high`, and their labels."""
    ticks = nice_ticks(max(high, 0), 2, min(low, 0))
    step = ticks[1] - ticks[0] if len(ticks) > 1 else max(high, -low, 1.0)
    return [(at, ("+" if at > 0 else "") + axis_time(at, step)) for at in ticks]


_LEAST = 0.001  # of the whole: narrower tiles could not be seen
#: From where on a tile has the next colour, as a share of before.
_STEPS = (0.05, 0.25, 1.0)
#: What every operator of a backward pass is called by.
_AUTOGRAD = "autograd::engine::evaluate_function: "
_LETTERS = 120  # that fit into the whole; the page leaves out what its width has no room for


@draws_only("hta_widgets.diff.icicle(diff.compare(before, after))")
def diff_icicle(
    frame: pd.DataFrame,
    *,
    depth: int = 14,
    width: int | None = None,
    theme: str | Theme = "light",
    title: str = "Operators of both runs",
) -> Any:
    """Draw the operator tree of both runs: callers above those that they call.

    Parameters
    ----------
    frame : DataFrame
        Of `hta_widgets.diff.icicle`.
    depth : int, default 14
        How many levels.
    width : int, optional
        In CSS pixels; by default what the page gives.
    theme : {"light", "dark"} or Theme, default "light"
    title : str

    Returns
    -------
    bokeh.plotting.figure
        A tile a path, as wide as its time in a step, the mean of before and after, so that tiles
        add up; coloured by the change. Tiles narrower than 0.1 % of the whole are left out. Its
        source has the frame's columns.

    Examples
    --------
    >>> charts.diff_icicle(diff.icicle(both))  # doctest: +SKIP
    """
    colors = theme_of(theme)
    if frame.empty:
        return blank(frame, title, colors, width)
    require_diff(
        frame, "icicle", "node", "parent", "depth", "name", "before_ns", "after_ns", "diff_ns"
    )
    require_diff(frame, "icicle", "diff_self_ns", "before_count", "after_count", "path")
    size = ((frame["before_ns"] + frame["after_ns"]) / 2).to_numpy(dtype=np.float64)
    level = frame["depth"].to_numpy()
    whole = float(size[level == 0].sum())
    if whole <= 0:
        return blank(frame, title, colors, width, note="nothing below these operators takes time")
    left = _lefts(frame["parent"].to_numpy(), size)
    wide = size >= _LEAST * whole
    kept = wide & (level < depth)
    data = frame[kept].reset_index(drop=True)
    data["row"] = data["depth"]
    data["low"] = left[kept]
    data["high"] = (left + size)[kept]
    data["name"] = data["name"].astype(str)
    data["label"] = [
        _cut(short_name(name).removeprefix(_AUTOGRAD), int(_LETTERS * wide / whole))
        for name, wide in zip(data["name"], size[kept].tolist(), strict=True)
    ]
    shade = _shades(data)
    data["fill"] = [colors.delta[k] for k in shade.tolist()]
    # The ramp's ends are strong; its middle is near the ground.
    data["ink"] = [colors.bg if k in {0, 1, 5, 6} else colors.ink for k in shade.tolist()]
    data["diff_text"] = [duration_delta(each) for each in data["diff_ns"].round()]
    data["self_text"] = [duration_delta(each) for each in data["diff_self_ns"].round()]
    share = data["diff_ns"] / data["before_ns"].where(data["before_ns"] > 0)
    data["share_text"] = [
        share_delta(each) if was else "new"
        for each, was in zip(share, data["before_ns"], strict=True)
    ]
    data["times_text"] = times(data)
    data["counts_text"] = [
        f"{calls(was)} → {calls(now)}"
        for was, now in zip(data["before_count"], data["after_count"], strict=True)
    ]
    rows = int(data["depth"].max()) + 1
    deeper = int((wide & (level >= depth)).sum())
    narrow = int((~wide).sum())
    measure = str(frame.attrs.get("measure", ""))
    return rows_chart(
        data,
        [""] * rows,
        [
            Bars(
                "low",
                "high",
                "@fill",
                line=colors.bg,
                text="label",
                text_color="@ink",
                height=0.96,
            )
        ],
        x_end=whole,
        title=title,
        subtitle=sentences(
            f"as wide as its time on the {measure} in a step, mean of both runs"
            if measure
            else "as wide as its time in a step, mean of both runs",
            "green: less, magenta: more",
            f"{plural(narrow, 'narrow tile')} not drawn" if narrow else "",
            f"{plural(deeper, 'tile')} of deeper levels not drawn" if deeper else "",
            unmatched(frame, ()),
        ),
        theme=colors,
        width=width,
        pitch=20.0,
        tooltip=Tooltip(
            "@{name}",
            [
                ("time in a step", "@{times_text}"),
                ("difference", "@{diff_text} @{share_text}"),
                ("of itself", "@{self_text}"),
                ("calls in a step", "@{counts_text}"),
                ("in", "@{path}"),
            ],
        ),
    )


def _cut(name: str, letters: int) -> str:
    return name if len(name) <= letters or letters < 6 else f"{name[: letters - 1]}…"


def _lefts(parent: npt.NDArray[Any], size: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Return where each tile begins: siblings side by side from where their parent begins."""
    left = np.zeros(len(size))
    taken = np.zeros(len(size) + 1)
    for node, above in enumerate(parent.tolist()):  # paths, which are few; parents come first
        begin = left[above] if above >= 0 else 0.0
        left[node] = begin + taken[above]
        taken[above] += size[node]
    return left


def _shades(data: pd.DataFrame) -> npt.NDArray[np.int64]:
    """Return each tile's index in the ramp of seven colours."""
    before = data["before_ns"].to_numpy(dtype=np.float64)
    change = data["diff_ns"].to_numpy(dtype=np.float64)
    share = np.where(before > 0, change / np.where(before > 0, before, 1.0), np.inf)
    share = np.where(change == 0, 0.0, share)
    steps = np.searchsorted(np.array(_STEPS), np.abs(share), side="right")
    found: npt.NDArray[np.int64] = 3 + steps * np.sign(change).astype(np.int64)
    return found


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
    # BytePS: a queue has the name of the stage after it.
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
