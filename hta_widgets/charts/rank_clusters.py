"""Ranks that behave alike as one row, so that any number of them fits on a screen."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from hta_widgets.text import count
from hta_widgets.text import duration
from hta_widgets.text import plural
from hta_widgets.text import share

from hta_widgets.charts.across_ranks import listed
from hta_widgets.charts.bokeh_modules import models
from hta_widgets.charts.canvas import blank
from hta_widgets.charts.canvas import mixed
from hta_widgets.charts.canvas import sentences
from hta_widgets.charts.fitting import drawn
from hta_widgets.charts.frames import draws
from hta_widgets.charts.frames import require
from hta_widgets.charts.rows import Bars
from hta_widgets.charts.rows import Column
from hta_widgets.charts.rows import Tooltip
from hta_widgets.charts.rows import rows_chart
from hta_widgets.charts.rows import time_ticks
from hta_widgets.charts.theme import FONT
from hta_widgets.charts.theme import Theme
from hta_widgets.charts.theme import theme_of

__all__ = ["rank_clusters"]

_MOST_ROWS = 60
#: Longer lists of ranks would be cut where there is little room.
_LETTERS = 18

# What differs is cut to the room that there is; the tooltip has it whole.
_CUT = r"""
if (!fig.inner_width) return;
const pen = document.createElement("canvas").getContext("2d");
pen.font = "11px " + family;
const fitting = (text) => {
  let end = text.length;
  const shown = () => (end < text.length ? text.slice(0, end) + "…" : text);
  while (end > 1 && pen.measureText(shown()).width > fig.inner_width - 12) end -= 1;
  return shown();
};
const text = Array.from(source.data.full, fitting);
if (text.some((each, k) => each !== source.data.text[k])) source.data = { ...source.data, text };
"""


@draws("rank_clusters")
def rank_clusters(
    frame: pd.DataFrame,
    *,
    width: int | None = None,
    theme: str | Theme = "light",
    title: str = "Which ranks behave alike",
) -> Any:
    """Draw one row a cluster of ranks: how their steps pass, and what sets outliers apart.

    Parameters
    ----------
    frame : DataFrame, TraceSet, Trace or Selection
        Of `hta_widgets.analysis.rank_clusters`.
    width : int, optional
        In CSS pixels; by default what the page gives.
    theme : {"light", "dark"} or Theme, default "light"
    title : str

    Returns
    -------
    bokeh.plotting.figure
        Outliers on top, then the largest first. Bars are means of a cluster's ranks, per step;
        below them stands what differs from the most typical ranks. Its source has a row a
        cluster with the frame's columns.

    Examples
    --------
    >>> charts.rank_clusters(analysis.rank_clusters(traces))  # doctest: +SKIP
    """
    colors = theme_of(theme)
    if frame.empty:
        return blank(frame, title, colors, width)
    require(frame, "rank_clusters", "rank", "cluster", "representative", "is_outlier", "why")
    require(frame, "rank_clusters", "step_ns", "compute_ns", "idle_ns")
    require(frame, "rank_clusters", "exposed_communication_ns", "exposed_wait_ns")
    data = _clusters(frame)
    shown, said = len(data), ""
    while len(data) > 1 and _height(data[:shown]) > _MOST_ROWS:
        shown -= 1
    if shown < len(data):
        said = f"the first {count(shown)} of {count(len(data))} clusters"
        data = data[:shown]
    texts: dict[str, list[Any]] = {"row": [], "full": []}
    names: list[str] = []
    grounds = []
    rows = []
    for cluster in data.to_dict("records"):
        first = len(names)
        rows.append(first)
        reasons = [each for each in str(cluster["why"]).split("; ") if each]
        names += [str(cluster["name"]), *[""] * len(reasons)]
        texts["row"] += range(first + 1, first + 1 + len(reasons))
        texts["full"] += [drawn(each) for each in reasons]
        if cluster["is_outlier"]:
            grounds.append((first - 0.5, first + len(reasons) + 0.5))
    data = data.assign(row=rows)
    parts = _parts(data, colors)
    longest = float(data["step_ns"].max()) or 1.0
    end = max(longest, float(data[parts[-1].right].max())) * 1.02
    by_row = dict(zip(rows, data.to_dict("records"), strict=True))

    def column(word: Any) -> list[str]:
        return [word(by_row[row]) if row in by_row else "" for row in range(len(names))]

    figure = rows_chart(
        data,
        names,
        parts,
        x_end=end,
        title=title,
        subtitle=sentences(
            "how a step passes on the device, mean of the cluster's ranks",
            _finding(frame, data),
            said,
            f"alike: within {share(float(frame.attrs['tolerance']))} of a step"
            if "tolerance" in frame.attrs
            else "",
            str(frame.attrs.get("note", "")),
        ),
        theme=colors,
        width=width,
        head=" ",
        ticks=time_ticks(end),
        columns=[
            Column("ranks", column(lambda each: count(each["ranks"]))),
            Column("step", column(lambda each: duration(each["step_ns"])), 420),
            Column("stands for them", column(lambda each: f"rank {each['representative']}"), 620),
        ],
        tooltip=Tooltip(
            "@{members}",
            [
                ("ranks", "@{ranks}"),
                ("stands for them", "rank @{representative}"),
                ("against the typical ranks", "@{why}"),
                *((mark.name, f"@{{{mark.right}_text}}") for mark in parts),
                ("step", "@{step_ns_text}"),
            ],
        ),
    )
    _ground(figure, grounds, colors)
    _reasons(figure, texts, width, colors)
    return figure


def _height(data: pd.DataFrame) -> int:
    return int(sum(1 + (text.count("; ") + 1 if text else 0) for text in data["why"]))


def _clusters(frame: pd.DataFrame) -> pd.DataFrame:
    times = [
        name
        for name in (
            "step_ns",
            "own_ns",
            "compute_ns",
            "idle_ns",
            "exposed_communication_ns",
            "exposed_wait_ns",
            "lost_share",
        )
        if name in frame
    ]
    groups = frame.groupby("cluster", sort=True)
    data = groups[times].mean()
    data["representative"] = groups["representative"].first()
    data["is_outlier"] = groups["is_outlier"].any()
    data["ranks"] = groups.size()
    standing = frame[frame["rank"] == frame["representative"]].set_index("cluster")["why"]
    data["why"] = standing.reindex(data.index).fillna("").astype(str)
    data["members"] = [listed(ranks.tolist(), 12) for _, ranks in groups["rank"]]
    data["name"] = [
        _name(ranks.tolist(), standing_for)
        for (_, ranks), standing_for in zip(groups["rank"], data["representative"], strict=True)
    ]
    data = data.reset_index()
    return data.sort_values(
        ["is_outlier", "ranks", "cluster"], ascending=[False, False, True], kind="stable"
    ).reset_index(drop=True)


def _name(ranks: list[int], standing_for: int) -> str:
    whole = listed(ranks, len(ranks))
    return whole if len(whole) <= _LETTERS else f"{count(len(ranks))} like rank {standing_for}"


def _parts(data: pd.DataFrame, colors: Theme) -> list[Bars]:
    """Add where the parts of a step begin and end to the data; gives the bars."""
    transfer = (data["exposed_communication_ns"] - data["exposed_wait_ns"]).clip(lower=0)
    known = data["compute_ns"] + transfer + data["exposed_wait_ns"] + data["idle_ns"]
    left = np.zeros(len(data))
    marks = []
    pieces: list[tuple[str, pd.Series, str, dict[str, Any]]] = [
        ("compute", data["compute_ns"], colors.kind["compute"], {}),
        ("transfer", transfer, colors.kind["communication"], {}),
        (
            "waits",
            data["exposed_wait_ns"],
            colors.wait_fill,
            {"line": colors.wait_line, "hatch": "/", "hatch_color": colors.wait_line},
        ),
        ("idle", data["idle_ns"], colors.idle, {}),
        (
            "rest of the step",
            (data["step_ns"] - known).clip(lower=0),
            mixed(colors.lane, colors.bg, 0.6),
            {},
        ),
    ]
    for name, values, fill, style in pieces:
        sizes = values.to_numpy(float)
        if name != "compute" and not (sizes > 0).any():
            continue
        data[f"{name} from"], data[name] = left, left + sizes
        data[f"{name}_text"] = [duration(each) for each in sizes]
        # Bars of no length would show their outline.
        data[f"{name} from"] = data[f"{name} from"].where(sizes > 0)
        marks.append(Bars(f"{name} from", name, fill, name, **style))
        left = left + sizes
    data["step_ns_text"] = [duration(each) for each in data["step_ns"]]
    return marks


def _finding(frame: pd.DataFrame, data: pd.DataFrame) -> str:
    outliers = frame.loc[frame["is_outlier"].to_numpy(bool), "rank"].tolist()
    clusters = int(frame["cluster"].nunique())
    all_of = f"{plural(len(frame), 'rank')} in {plural(clusters, 'cluster')}"
    if not outliers:
        return f"{all_of}, no outliers"
    if len(outliers) == 1:
        return f"{all_of}, {listed(outliers)} is an outlier: {data['why'].iloc[0]}"
    return f"{all_of}, {count(len(outliers))} of them are outliers: {listed(outliers)}"


def _ground(figure: Any, grounds: list[tuple[float, float]], colors: Theme) -> None:
    for low, high in grounds:
        figure.add_layout(
            models.BoxAnnotation(
                top=low,
                bottom=high,
                fill_color=colors.lane,
                fill_alpha=1,
                line_color=None,
                level="underlay",
            )
        )


def _reasons(figure: Any, texts: dict[str, list[Any]], width: int | None, colors: Theme) -> None:
    if not texts["full"]:
        return
    letters = int(((width or 720) * 0.6) / 6.4)
    cut = [each if len(each) <= letters else f"{each[: letters - 1]}…" for each in texts["full"]]
    source = models.ColumnDataSource({**texts, "text": cut})
    figure.text(
        x=0,
        y="row",
        text="text",
        source=source,
        x_offset=4,
        text_color=colors.ink,
        text_baseline="middle",
        text_font={"value": FONT},
        text_font_size="11px",
    )
    figure.js_on_change(
        "inner_width",
        models.CustomJS(args={"fig": figure, "source": source, "family": FONT}, code=_CUT),
    )
