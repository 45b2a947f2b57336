"""Which kernels take the time, and on which rank they take longer."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import pandas as pd

from hta_widgets.formats import count, duration, plural, share, share_delta
from hta_widgets.model.names import short_name

from .across_ranks import fact_ranks, late_ranks, median_of
from .canvas import blank, sentences, unmatched
from .frames import draws, require
from .labels import told_apart
from .rows import (
    Bars,
    Column,
    Dots,
    Tooltip,
    Whiskers,
    extremes,
    nice_ticks,
    rows_chart,
    time_ticks,
)
from .sheets import is_sheet
from .theme import Theme, theme_of
from .top import spread_over_ranks, top_rows

__all__ = ["kernel_breakdown", "kernel_duration_by_rank"]

#: A few per cent are what any two GPUs of one kind differ by.
_APART = 0.05
#: Of a rank's time for the kernels that are drawn: what is less stands out in per cent only.
_OF_WORK = 0.01
#: The scale goes at least and at most this far from the median.
_NEAREST, _FARTHEST = 0.1, 1.0
_DRAWN = ("count", "mean_ns", "min_ns", "max_ns")
_MEASURES = ("count", "sum_ns", "min_ns", "max_ns")


@draws("kernel_breakdown")
def kernel_breakdown(
    frame: pd.DataFrame,
    *,
    top: int = 12,
    width: int | None = None,
    theme: str | Theme = "light",
    title: str = "Top kernels",
) -> Any:
    """Draw the kernels with most time.

    Parameters
    ----------
    frame : DataFrame, TraceSet, Trace or Selection
        Of `hta_widgets.analysis.kernel_breakdown`.
    top : int, default 12
        How many kernels; the others are one bar that says how many they are.
    width : int, optional
        In CSS pixels; by default what the page gives.
    theme : {"light", "dark"} or Theme, default "light"
    title : str

    Returns
    -------
    bokeh.plotting.figure
        One bar a kernel; its source has columns ``kind, name, count, sum_ns, mean_ns, min_ns,
        max_ns`` over all ranks, and ``per_rank_ns``, what the bars show; the lines are from
        ``least_ns`` to ``most_ns``, sums of a rank.

    Examples
    --------
    >>> charts.kernel_breakdown(analysis.kernel_breakdown(traces))  # doctest: +SKIP
    """
    colors = theme_of(theme)
    if frame.empty:
        return blank(frame, title, colors, width)
    require(frame, "kernel_breakdown", "rank", "kind", "name", *_MEASURES)
    ranks = frame["rank"].nunique()
    grouped = frame.groupby(["kind", "name"], observed=True)
    data = pd.DataFrame(
        {
            "count": grouped["count"].sum(),
            "sum_ns": grouped["sum_ns"].sum(),
            "min_ns": grouped["min_ns"].min(),
            "max_ns": grouped["max_ns"].max(),
        }
    ).reset_index()
    data, names = top_rows(data, "sum_ns", top, "kernel", short_name)
    names = told_apart(names, list(data["name"]), [str(kind) for kind in data["kind"]])
    data = spread_over_ranks(frame, data, ["kind", "name"])
    data["mean_ns"] = data["sum_ns"] / data["count"]
    data["per_rank_ns"] = data["sum_ns"] / ranks
    whole = float(frame["sum_ns"].sum()) or 1.0
    data["fill"] = [colors.kind.get(str(kind), colors.idle) for kind in data["kind"]]
    for name in ("per_rank_ns", "mean_ns", "min_ns", "max_ns", "least_ns", "most_ns"):
        data[f"{name}_text"] = [duration(each) for each in data[name]]
    data["share_text"] = [share(each / whole) for each in data["sum_ns"]]
    data["count_text"] = [count(each) for each in data["count"]]
    whiskers = [Whiskers("least_ns", "most_ns", colors.ink2)] if ranks > 1 else []
    most = float(max(data["per_rank_ns"].max(), data["most_ns"].max() if ranks > 1 else 0)) or 1.0
    measure = "mean of ranks, line: least to most of a rank" if ranks > 1 else "summed durations"
    return rows_chart(
        data,
        names,
        [Bars(0.0, "per_rank_ns", "@fill"), *whiskers],
        x_end=most * 1.02,
        title=title,
        subtitle=sentences(
            f"device time by name, {measure}",
            f"{plural(int(data['names'].sum()), 'name')} on {plural(ranks, 'rank')}",
            unmatched(frame),
        ),
        theme=colors,
        width=width,
        head="kernel",
        ticks=time_ticks(most),
        columns=[
            Column("total", list(data["per_rank_ns_text"])),
            Column("share", list(data["share_text"]), 480),
            Column("count", list(data["count_text"]), 620),
            Column("mean", list(data["mean_ns_text"]), 620),
        ],
        legend=[
            Bars(0.0, "per_rank_ns", colors.kind[kind], kind)
            for kind in ("compute", "communication", "memory", "other")
            if (data["kind"].astype(str) == kind).any()
        ],
        tooltip=Tooltip(
            "@{name}",
            [
                ("kind", "@{kind}"),
                ("total a rank", "@{per_rank_ns_text}"),
                ("least and most of a rank", "@{least_ns_text} – @{most_ns_text}"),
                ("of all device time", "@{share_text}"),
                ("kernels, all ranks", "@{count_text}"),
                ("mean", "@{mean_ns_text}"),
                ("shortest and longest", "@{min_ns_text} – @{max_ns_text}"),
            ],
        ),
    )


@draws("kernel_duration_by_rank")
def kernel_duration_by_rank(
    frame: pd.DataFrame,
    *,
    name: str | None = None,
    top: int = 12,
    late: Iterable[int] | None = None,
    width: int | None = None,
    theme: str | Theme = "light",
    title: str | None = None,
) -> Any:
    """Draw how long kernels take on each rank.

    With a `name`, or on one rank: bars of the mean with lines from shortest to longest. Else one
    row a kernel, with a dot for each rank's mean against the median rank's. The scale ends at the
    farthest kernel that does not wait, at 100 % at most: arrow heads at its ends are ranks that
    are farther. Dark is the dot that is farthest of its kernel, by 5 % and 1 % of a rank's time.

    Parameters
    ----------
    frame : DataFrame, TraceSet, Trace or Selection
        Of `hta_widgets.analysis.kernel_duration_by_rank`.
    name : str, optional
        The full name of one kernel.
    top : int, default 12
        How many kernels, those with most time.
    late : iterable of int, optional
        Ranks to draw in red, as in `step_phases`.

    See Also
    --------
    kernel_breakdown : Has the other parameters.

    Examples
    --------
    >>> frame = analysis.kernel_duration_by_rank(traces)  # doctest: +SKIP
    >>> charts.kernel_duration_by_rank(frame)  # doctest: +SKIP
    """
    colors = theme_of(theme)
    given = title or ("Kernel durations over ranks" if name is None else short_name(name))
    if not frame.empty:
        require(frame, "kernel_duration_by_rank", "rank", "name", *_DRAWN)
    chosen = frame if name is None else frame[frame["name"].astype(str) == name]
    if chosen.empty:
        note = "" if frame.empty else "no kernel has this name"
        return blank(frame, given, colors, width, note=note)
    if not is_sheet() and (name is not None or len(chosen["rank"].unique()) == 1):
        return _means(chosen, frame, name, top, given, colors, width)
    return _against_median(
        chosen, top, late_ranks(frame, late), fact_ranks(frame), given, colors, width
    )


def _means(
    chosen: pd.DataFrame,
    frame: pd.DataFrame,
    name: str | None,
    top: int,
    title: str,
    colors: Theme,
    width: int | None,
) -> Any:
    data = chosen.reset_index(drop=True)
    said = ""
    if name is None:
        order = (data["mean_ns"] * data["count"]).sort_values(ascending=False, kind="stable").index
        said = _most(len(order), top)
        data = data.loc[order[:top]].reset_index(drop=True)
        full = [str(each) for each in data["name"]]
        names = told_apart(_shorts(full), full)
    else:
        names = [f"rank {rank}" for rank in data["rank"]]
    data["row"] = np.arange(len(data))
    for each in ("mean_ns", "min_ns", "max_ns"):
        data[f"{each}_text"] = [duration(value) for value in data[each]]
    data["count_text"] = [count(each) for each in data["count"]]
    data["fill"] = _fills(data, colors)
    most = float(data["max_ns"].max()) or 1.0
    return rows_chart(
        data,
        names,
        [Bars(0.0, "mean_ns", "@fill"), Whiskers("min_ns", "max_ns", colors.ink2)],
        x_end=most * 1.02,
        title=title,
        subtitle=sentences(
            "bar: mean duration, line: shortest to longest",
            said or (name is not None and extremes(names, data["mean_ns"], duration)) or "",
            unmatched(frame),
        ),
        theme=colors,
        width=width,
        head="kernel" if name is None else " ",
        ticks=time_ticks(most),
        columns=[
            Column("mean", list(data["mean_ns_text"])),
            Column("longest", list(data["max_ns_text"]), 480),
            Column("count", list(data["count_text"]), 620),
        ],
        tooltip=_DURATIONS,
    )


_DURATIONS = Tooltip(
    "@{name}",
    [
        ("rank", "@{rank}"),
        ("mean", "@{mean_ns_text}"),
        ("shortest and longest", "@{min_ns_text} – @{max_ns_text}"),
        ("kernels", "@{count_text}"),
    ],
)


def _shorts(names: list[str]) -> list[str]:
    return [short_name(name) for name in names]


def _most(names: int, top: int) -> str:
    if names <= top:
        return ""
    return f"the {count(top)} with most time; {plural(names - top, 'other')} not drawn"


def _fills(data: pd.DataFrame, colors: Theme) -> list[str]:
    if "kind" not in data:
        return [colors.kind["compute"]] * len(data)
    return [colors.kind.get(str(kind), colors.kind["other"]) for kind in data["kind"]]


def _against_median(
    frame: pd.DataFrame,
    top: int,
    late: list[int],
    facts: list[int],
    title: str,
    colors: Theme,
    width: int | None,
) -> Any:
    data = frame.reset_index(drop=True)
    data["name"] = data["name"].astype(str)
    data["kind"] = data["kind"].astype(str) if "kind" in data else ""
    data["of"] = data.groupby(["name", "kind"], sort=False).ngroup()
    data["spent_ns"] = data["mean_ns"] * data["count"]
    total = data.groupby("of")["spent_ns"].sum()
    if not is_sheet():
        total = total.sort_values(ascending=False, kind="stable")
    data["row"] = data["of"].map({of: row for row, of in enumerate(total.index[:top])})
    data = data[data["row"].notna()].astype({"row": int}).reset_index(drop=True)
    alone = len(data["rank"].unique()) == 1
    heads = data.drop_duplicates("row").sort_values("row")
    median = pd.Series(median_of(data["mean_ns"], data["row"]))
    data["against"] = np.where(median > 0, data["mean_ns"] / median.where(median > 0, 1) - 1, 0.0)
    apart = data["against"].abs()
    waits = data["kind"] == "communication"
    reach = min(max(float(apart[~waits | bool(waits.all())].max()), _NEAREST), _FARTHEST)
    beyond = apart > reach
    furthest = data.index.isin(apart.groupby(data["row"]).idxmax())
    whole = float(data.groupby("rank")["spent_ns"].sum().median())
    matters = (data["mean_ns"] - median).abs() * data["count"] >= _OF_WORK * whole
    is_late = data["rank"].isin(late)
    is_odd = (furthest & ~waits & matters & (apart >= _APART)) | data["rank"].isin(facts)
    data["ink"] = np.select(
        [is_late, is_odd], [colors.late, colors.ink], default=colors.rule_strong
    )
    data["at"] = np.nan if alone else data["against"].clip(-reach, reach)
    data["marker"] = np.where(beyond, "triangle", "circle")
    data["size"] = np.where(beyond, 11, 8)
    data["angle"] = np.where(beyond, -np.sign(data["against"]) * np.pi / 2, 0.0)
    data["end"] = data["mean_ns"] if alone else np.nan
    data["fill"] = _fills(data, colors)
    data["against_text"] = [share_delta(each) for each in data["against"]]
    for each in ("mean_ns", "min_ns", "max_ns"):
        data[f"{each}_text"] = [duration(value) for value in data[each]]
    data["count_text"] = [count(each) for each in data["count"]]
    far = data[furthest].sort_values("row")
    words = [
        f"rank {rank} {share_delta(each)}" if abs(each) >= _APART else "within ±5\u2009%"
        for rank, each in zip(far["rank"], far["against"], strict=True)
    ]
    # What is marked is drawn last, over the others.
    data["order"] = np.select([is_late, is_odd], [2, 1], default=0)
    data = data.sort_values("order", kind="stable").reset_index(drop=True)
    names = [str(each) for each in heads["name"]]
    labels = [str(each) for each in heads["short"]] if "short" in heads else _shorts(names)
    ticks = nice_ticks(reach, 1 if reach < 0.15 else 2, -reach)
    marked = [(at, "median" if at == 0 else share_delta(at)) for at in ticks]
    most = float(data["mean_ns"].max()) or 1.0
    middle = median[heads.index]
    return rows_chart(
        data,
        told_apart(labels, names),
        [Bars(0.0, "end", "@fill"), Dots("at", "@ink", "size", marker="marker", angle="angle")],
        x_start=0.0 if alone else -reach * 1.04,
        x_end=most * 1.02 if alone else reach * 1.04,
        title=title,
        subtitle=sentences(
            "mean duration, by name with most time"
            if alone
            else "one dot per rank: its mean duration against the median rank's",
            "" if alone else "communication includes waiting: who waits less is not faster",
            "arrow: beyond the scale" if beyond.any() and not alone else "",
            _most(len(total), top),
            unmatched(frame, ()),
        ),
        theme=colors,
        width=width,
        head="kernel",
        zero_line=not alone,
        ticks=time_ticks(most) if alone else marked,
        columns=[
            *([] if alone else [Column("farthest", words)]),
            Column("mean" if alone else "median", [duration(each) for each in middle], 480),
        ],
        tooltip=Tooltip(
            _DURATIONS.heading, [*_DURATIONS.rows, ("against the median", "@{against_text}")]
        ),
    )
