"""Charts of critical paths."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from hta_widgets.charts.data import columns_of, draws, listed, require
from hta_widgets.charts.figure import add_tooltip, blank, keep_dominant, models, sentences
from hta_widgets.charts.lanes import Lane, lanes_figure
from hta_widgets.charts.rows import Bars, Column, Tooltip, legend_of, rows_chart, time_ticks
from hta_widgets.charts.theme import Theme, theme_of
from hta_widgets.text import count, duration, plural, share

_MOST_SEGMENTS = 20_000


@draws("critical_path")
def critical_path(
    frame: pd.DataFrame,
    *,
    width: int | None = None,
    theme: str | Theme = "light",
    title: str = "Critical path",
) -> Any:
    """Draw what bounds the analysed range, moment by moment, and how much of it.

    Parameters
    ----------
    frame : DataFrame, TraceSet, Trace or Selection
        Of `hta_widgets.analysis.critical_path`.
    width : int, optional
        In CSS pixels; by default what the page gives.
    theme : {"light", "dark"} or Theme, default "light"
    title : str

    Returns
    -------
    bokeh.plotting.figure
        The path, and below a lane for each cause; its source has the frame's rows. Above 20 000
        segments, neighbours of one cause are joined, and the subtitle reports that.
        In the path each pixel shows what takes most of it, also after zooming; in a cause's lane
        shorter segments are one pixel wide.

    Examples
    --------
    >>> charts.critical_path(analysis.critical_path(traces, rank=0))  # doctest: +SKIP
    """
    colors = theme_of(theme)
    if frame.empty:
        return blank(frame, title, colors, width)
    require(frame, "critical_path", "rank", "start_ns", "dur_ns", "id", "name", "bound_by")
    data = frame.reset_index(drop=True)
    data["bound_by"] = data["bound_by"].astype(str)
    data["end_ns"] = data["start_ns"] + data["dur_ns"]
    start, end = float(data["start_ns"].min()), float(data["end_ns"].max())
    total = data.groupby("bound_by")["dur_ns"].sum()
    total = total[total > 0].sort_values(ascending=False, kind="stable")
    whole = float(total.sum()) or 1.0
    said = ""
    segments = len(data)
    if segments > _MOST_SEGMENTS:
        near = (end - start) / (_MOST_SEGMENTS / max(1, len(total)))
        data = pd.concat(_joined(data, near), ignore_index=True)
        said = f"{count(segments)} segments, of one cause closer than {duration(near)} drawn as one"
    data = data[data["dur_ns"] > 0].reset_index(drop=True)
    row_of = {str(name): row + 1 for row, name in enumerate(total.index)}
    data["row"] = data["bound_by"].map(row_of)
    styles = {str(name): cause_style(str(name), colors) for name in total.index}
    data["dur_ns_text"] = [duration(each) for each in data["dur_ns"]]
    data["name"] = data["name"].astype(str)
    data["bound_text"] = [cause_words(name) for name in data["bound_by"]]
    lanes = [
        Lane("path", duration(whole)),
        *(
            Lane(cause_words(str(name)), f"{share(part / whole)} · {duration(part)}")
            for name, part in total.items()
        ),
    ]
    figure, finish = lanes_figure(
        lanes,
        start_ns=start,
        end_ns=end,
        pitch=22,
        title=title,
        subtitle=sentences(
            "the chain of work and waits that decides how long it takes; every moment counts once",
            "the path shows what takes most of a pixel; the rows below show a pixel at least",
            said,
            str(frame.attrs.get("note", "")),
        ),
        theme=colors,
        width=width,
        heads=("bound by", "of the path"),
    )
    ranks = frame["rank"].unique()
    if len(ranks) == 1:
        figure.title.text = f"{figure.title.text} of rank {ranks[0]}"
    source = models.ColumnDataSource(
        {
            str(name): values.to_numpy() if values.dtype.kind in "if" else [str(v) for v in values]
            for name, values in data.items()
        }
    )
    pixels = keep_dominant(figure, source, {row_of[name]: name for name in styles})
    bars = partial(
        figure.hbar,
        y="row",
        left="left",
        right="right",
        height=0.72,
        source=pixels,
        line_color=None,
        # Pixels are not segments: selected segments are drawn over them.
        nonselection_fill_alpha=1,
    )
    for name, style in styles.items():
        # One mark a cause: hatches that differ from bar to bar take seconds to draw.
        view = models.CDSView(filter=models.GroupFilter(column_name="bound_by", group=name))
        hatch = {
            "hatch_pattern": style["hatch"],
            "hatch_color": style["hatch_color"],
            "hatch_scale": 5,
            "nonselection_hatch_alpha": 1,
        }
        bars(view=view, fill_color=style["fill"], **(hatch if style["hatch"] else {}))
        if style["hatch"] or style["line"] != style["fill"]:
            # Too narrow for a hatch, pale causes would not be seen.
            thin = models.CDSView(filter=models.GroupFilter(column_name="thin", group=name))
            bars(view=thin, fill_color=style["line"])
    marks = [
        figure.hbar(
            y=place,
            left="start_ns",
            right="end_ns",
            height=0.72,
            source=source,
            fill_color=colors.brush_line,
            fill_alpha=0,
            line_color=None,
            selection_fill_alpha=0.35,
            nonselection_fill_alpha=0,
        )
        for place in (0, "row")
    ]
    add_tooltip(
        figure,
        marks,
        colors,
        "@{name}",
        [
            ("bound by", "@{bound_text}"),
            ("takes", "@{dur_ns_text}"),
            ("from", "@{start_ns}{0,0} ns"),
        ],
    )
    finish(None)
    return figure


def _joined(data: pd.DataFrame, near: float) -> Iterator[pd.DataFrame]:
    """Put segments of a cause together that lie closer than `near`."""
    for cause, part in data.groupby("bound_by", sort=False):
        gap = part["start_ns"].to_numpy()[1:] - part["end_ns"].to_numpy()[:-1]
        group = np.r_[0, np.cumsum(gap > near)]
        each = part.groupby(group)
        names = each["name"].first().astype(str)
        several = each.size() > 1
        yield pd.DataFrame(
            {
                "rank": each["rank"].first(),
                "start_ns": each["start_ns"].min(),
                "end_ns": each["end_ns"].max(),
                "dur_ns": each["dur_ns"].sum(),
                "id": each["id"].first().where(~several, -1),
                "name": names.where(~several, "several segments"),
                "bound_by": cause,
            }
        )


_WORDS = {
    "cpu_bound": "host",
    "data_loading": "data loading",
    "gpu_compute_bound": "compute",
    "gpu_communication_bound": "communication",
    "gpu_memory_bound": "copies",
    "gpu_kernel_kernel_overhead": "between kernels",
    "gpu_kernel_launch_overhead": "launch",
    "cpu_outside_operators": "host, no operator",
    "cpu_blocked": "host blocked",
    "gpu_queue_wait": "queue wait",
    "sync_overhead": "synchronisation",
    "outside_path": "outside the path",
}


def cause_words(bound: str) -> str:
    """Return what bounds a segment, in words."""
    return _WORDS.get(bound, bound.replace("_", " "))


def cause_style(bound: str, colors: Theme) -> dict[str, Any]:
    """Return how a cause is drawn: work solid, waits hatched."""
    solid = {
        "cpu_bound": "cpu",
        "cpu_outside_operators": "cpu",
        "data_loading": "other",
        "gpu_compute_bound": "compute",
        "gpu_communication_bound": "communication",
        "gpu_memory_bound": "memory",
        "sync_overhead": "sync",
    }
    if bound in solid:
        color = colors.kind[solid[bound]]
        hatch = "/" if bound == "cpu_outside_operators" else None
        return {"fill": color, "line": color, "hatch": hatch, "hatch_color": colors.bg}
    hatch = None if bound == "outside_path" else "/"
    line = colors.kind["sync"] if bound == "cpu_blocked" else colors.idle_line
    return {"fill": colors.idle, "line": line, "hatch": hatch, "hatch_color": line}


_MOST_LANES = 24
#: More changes of ranks than this would hide the lanes.
_FEW_LINES = 100


@draws("job_critical_path")
def job_critical_path(
    frame: pd.DataFrame,
    *,
    width: int | None = None,
    theme: str | Theme = "light",
    title: str = "Critical path across ranks",
) -> Any:
    """Draw which rank decides how long a step takes, moment by moment, and what bounds it.

    Parameters
    ----------
    frame : DataFrame, TraceSet, Trace or Selection
        Of `hta_widgets.analysis.job_critical_path`.
    width : int, optional
        In CSS pixels; by default what the page gives.
    theme : {"light", "dark"} or Theme, default "light"
    title : str

    Returns
    -------
    bokeh.plotting.figure
        A lane a rank that the path is on, and thin lines where it changes ranks; its source has
        the frame's rows. Ranks beyond the 24 with most of the path share a lane. Above 20 000
        segments neighbours of one rank and cause are joined, and the subtitle reports that.

    Examples
    --------
    >>> charts.job_critical_path(analysis.job_critical_path(traces))  # doctest: +SKIP
    """
    colors = theme_of(theme)
    if frame.empty:
        return blank(frame, title, colors, width)
    require(frame, "job_critical_path", "rank", "start_ns", "dur_ns", "name", "bound_by")
    data = frame.reset_index(drop=True)
    data["bound_by"] = data["bound_by"].astype(str)
    data["end_ns"] = data["start_ns"] + data["dur_ns"]
    data["is_jump"] = data["rank"].ne(data["rank"].shift()) & (data.index > 0)
    by_rank = data.groupby("rank")["dur_ns"].sum()
    by_rank = by_rank.sort_values(ascending=False, kind="stable")
    whole = float(by_rank.sum()) or 1.0
    ranks = sorted(int(rank) for rank in by_rank.index[:_MOST_LANES])
    rest = len(by_rank) - len(ranks)
    lane_of = {rank: lane for lane, rank in enumerate(ranks)}
    data["row"] = [lane_of.get(int(rank), len(ranks)) for rank in data["rank"]]
    jumps = int(data["is_jump"].sum())
    lines = _jumps(data)
    segments, said = len(data), ""
    if segments > _MOST_SEGMENTS:
        data = _joined_path(data)
        said = f"{count(segments)} segments, those of one rank and cause that touch drawn as one"
    data = data[data["dur_ns"] > 0].reset_index(drop=True)
    total = data.groupby("bound_by")["dur_ns"].sum().sort_values(ascending=False, kind="stable")
    start, end = float(frame["start_ns"].min()), float(data["end_ns"].max())
    lanes = [Lane(f"rank {rank}", _part(by_rank[rank], whole)) for rank in ranks]
    if rest:
        left = float(by_rank.iloc[_MOST_LANES:].sum())
        lanes.append(Lane(plural(rest, "other rank"), _part(left, whole)))
    figure, finish = lanes_figure(
        lanes,
        start_ns=start,
        end_ns=end,
        pitch=24,
        title=title,
        subtitle=sentences(
            "the chain of work and waits that decides how long it takes; every moment counts once",
            _finding(by_rank, total, whole),
            f"it changes ranks {plural(jumps, 'time')}" if jumps else "",
            said,
            str(frame.attrs.get("note", "")),
        ),
        theme=colors,
        width=width,
        heads=(" ", "of the path"),
    )
    figure.segment(
        x0="x",
        x1="x",
        y0="y0",
        y1="y1",
        source=models.ColumnDataSource(lines),
        line_color=colors.ink3,
        line_width=1,
        line_alpha=0.8 if len(lines["x"]) <= _FEW_LINES else 0.25,
    )
    data["dur_ns_text"] = [duration(each) for each in data["dur_ns"]]
    data["bound_text"] = [cause_words(name) for name in data["bound_by"]]
    data["after_text"] = [duration(each - start) for each in data["start_ns"]]
    source = models.ColumnDataSource(columns_of(data))
    marks, keys = [], []
    for cause in total.index:
        style = cause_style(str(cause), colors)
        # One mark a cause: hatches that differ from bar to bar take seconds to draw.
        view = models.CDSView(filter=models.GroupFilter(column_name="bound_by", group=str(cause)))
        hatch = {
            "hatch_pattern": style["hatch"],
            "hatch_color": style["hatch_color"],
            "hatch_scale": 5,
            "nonselection_hatch_alpha": 0.3,
        }
        marks.append(
            figure.hbar(
                y="row",
                left="start_ns",
                right="end_ns",
                height=0.72,
                source=source,
                view=view,
                fill_color=style["fill"],
                # An outline would make the shortest segments wider than they are.
                line_color=None,
                nonselection_fill_alpha=0.3,
                **(hatch if style["hatch"] else {}),
            )
        )
        keys.append(
            Bars(
                0.0,
                "",
                style["fill"],
                f"{cause_words(str(cause))} {share(total[cause] / whole)}",
                line=style["line"],
                hatch=style["hatch"],
                hatch_color=style["hatch_color"],
            )
        )
    add_tooltip(
        figure,
        marks,
        colors,
        "@{name}",
        [
            ("rank", "@{rank}"),
            ("bound by", "@{bound_text}"),
            ("takes", "@{dur_ns_text}"),
            ("after", "@{after_text}"),
            *([("reached by", "@{via}")] if "via" in data else []),
        ],
    )
    finish(legend_of(figure, keys, colors))
    return figure


def _part(time_ns: float, whole: float) -> str:
    return f"{share(time_ns / whole)} · {duration(time_ns)}"


def _jumps(data: pd.DataFrame) -> dict[str, Any]:
    """Return a line for each change of ranks, from lane to lane."""
    at = np.flatnonzero(data["is_jump"].to_numpy())
    rows = data["row"].to_numpy(float)
    moved = at[rows[at] != rows[at - 1]]
    if len(moved) > _MOST_SEGMENTS:
        # Closer together they are one surface anyway.
        moved = moved[:: -(-len(moved) // _MOST_SEGMENTS)]
    return {
        "x": data["start_ns"].to_numpy(float)[moved],
        "y0": rows[moved - 1],
        "y1": rows[moved],
    }


def _joined_path(data: pd.DataFrame) -> pd.DataFrame:
    """Put neighbours of one rank and cause together."""
    changed = (data["rank"] != data["rank"].shift()) | (
        data["bound_by"] != data["bound_by"].shift()
    )
    groups = data.groupby(changed.cumsum(), sort=False)
    first = groups.first()
    first["dur_ns"] = groups["dur_ns"].sum()
    first["end_ns"] = groups["end_ns"].max()
    several = groups.size() > 1
    first["name"] = first["name"].astype(str).where(~several, "several segments")
    if "id" in first:
        first["id"] = first["id"].where(~several, -1)
    return first.reset_index(drop=True)


def _finding(by_rank: pd.Series, total: pd.Series, whole: float) -> str:
    if total.empty:
        return ""
    first = int(by_rank.index[0])
    most = f"{cause_words(str(total.index[0]))} is {share(float(total.iloc[0]) / whole)} of it"
    if len(by_rank) == 1:
        return f"all of it is on rank {first}, {most}"
    return f"{share(float(by_rank.iloc[0]) / whole)} of it is on rank {first}, {most}"


@draws("job_path_summary", of="job_critical_path")
def job_path_summary(
    frame: pd.DataFrame,
    *,
    width: int | None = None,
    theme: str | Theme = "light",
    title: str = "Whose time the critical path is",
) -> Any:
    """Draw each rank's share of the job's critical path, by what bounds it.

    Parameters
    ----------
    frame : DataFrame, TraceSet, Trace or Selection
        Of `hta_widgets.analysis.job_path_summary`.
    width : int, optional
        In CSS pixels; by default what the page gives.
    theme : {"light", "dark"} or Theme, default "light"
    title : str

    Returns
    -------
    bokeh.plotting.figure
        One bar a rank, the most first, stacked by cause; its source has the frame's rows. Ranks
        beyond the first 24 share a bar.

    Examples
    --------
    >>> path = analysis.job_critical_path(traces)  # doctest: +SKIP
    >>> charts.job_path_summary(analysis.job_path_summary(path))  # doctest: +SKIP
    """
    colors = theme_of(theme)
    if frame.empty:
        return blank(frame, title, colors, width)
    require(frame, "job_path_summary", "rank", "bound_by", "count", "dur_ns")
    data = frame.reset_index(drop=True)
    data["bound_by"] = data["bound_by"].astype(str)
    by_rank = data.groupby("rank")["dur_ns"].sum().sort_values(ascending=False, kind="stable")
    whole = float(by_rank.sum()) or 1.0
    row_of = {int(rank): min(row, _MOST_LANES) for row, rank in enumerate(by_rank.index)}
    data["row"] = [row_of[int(rank)] for rank in data["rank"]]
    names = [f"rank {rank}" for rank in by_rank.index[:_MOST_LANES]]
    if len(by_rank) > _MOST_LANES:
        names.append(plural(len(by_rank) - _MOST_LANES, "other rank"))
        rest = data["row"] == _MOST_LANES
        others = data[rest].groupby("bound_by", as_index=False)[["count", "dur_ns"]].sum()
        others = others.assign(rank=-1, row=_MOST_LANES, share=others["dur_ns"] / whole)
        data = pd.concat([data[~rest], others], ignore_index=True)
    causes = data.groupby("bound_by")["dur_ns"].sum().sort_values(ascending=False, kind="stable")
    place = {str(name): number for number, name in enumerate(causes.index)}
    # The same cause at the same place in each bar.
    data = data.assign(order=data["bound_by"].map(place)).sort_values(["row", "order"])
    data = data.reset_index(drop=True)
    data["to"] = data.groupby("row")["dur_ns"].cumsum()
    data["from"] = data["to"] - data["dur_ns"]
    data["dur_ns_text"] = [duration(each) for each in data["dur_ns"]]
    data["share_text"] = [share(each / whole) for each in data["dur_ns"]]
    data["bound_text"] = [cause_words(name) for name in data["bound_by"]]
    data["who"] = [names[row] for row in data["row"]]
    per_row = data.groupby("row")["dur_ns"].sum()
    marks = []
    for cause in causes.index[causes > 0]:
        style = cause_style(str(cause), colors)
        marks.append(
            Bars(
                "from",
                "to",
                style["fill"],
                cause_words(str(cause)),
                line=style["line"],
                hatch=style["hatch"],
                hatch_color=style["hatch_color"],
                only=("bound_by", str(cause)),
            )
        )
    most = float(per_row.max()) or 1.0
    on_most = by_rank.index[by_rank > whole / 2].tolist()
    return rows_chart(
        data,
        names,
        marks,
        x_end=most * 1.02,
        title=title,
        subtitle=sentences(
            "time on the path, by rank and by what bounds it; all bars together are the span",
            f"more than half of it is on {listed(on_most)}"
            if on_most
            else f"no rank has more than half of it; {names[0]} has most",
            str(frame.attrs.get("note", "")),
        ),
        theme=colors,
        width=width,
        head=" ",
        ticks=time_ticks(most),
        columns=[
            Column("of the path", [share(float(each) / whole) for each in per_row]),
            Column("time", [duration(float(each)) for each in per_row], 420),
        ],
        tooltip=Tooltip(
            "@{who} · @{bound_text}",
            [
                ("time", "@{dur_ns_text}"),
                ("of the path", "@{share_text}"),
                ("segments", "@{count}"),
            ],
        ),
    )
