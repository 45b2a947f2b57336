"""Charts of critical paths: of a rank over time, of a job from rank to rank, and their sums.

Each segment has the style of its cause: solid for work, hatched for waits. A path can have a
hundred thousand segments, so neighbours of one cause that share a pixel are joined.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from hta_widgets.arguments import Positive, check_arguments
from hta_widgets.charts.data import ChartSource, analysis_frame, columns_of
from hta_widgets.charts.figure import (
    Figure,
    FigureStyle,
    add_tooltip,
    empty_figure,
    keep_dominant,
    models,
    unmatched_note,
)
from hta_widgets.charts.lanes import Lane, lanes_figure
from hta_widgets.charts.rows import (
    Bars,
    Column,
    RowsContent,
    Tooltip,
    draw_rows,
    legend_for,
    time_scale,
    view_of,
    with_tooltip_columns,
)
from hta_widgets.charts.theme import Theme, ThemeName, theme_of
from hta_widgets.panels.added import path_cause_text
from hta_widgets.text import count, duration, plural, rank_list, share

_MAX_SEGMENTS = 20_000
_DEFINED = "the chain of work and waits that determines the duration; every moment counts once"


@check_arguments
def critical_path(
    frame: ChartSource,
    *,
    width: Positive | None = None,
    theme: ThemeName | Theme = "light",
    title: str = "Critical path",
    **options: object,
) -> Figure:
    """Draw the critical path over time, and a lane for each cause.

    Parameters
    ----------
    frame : DataFrame, TraceSet, Trace or Selection
        Result of `hta_widgets.analysis.critical_path`.
    width, theme, title : int, {"light", "dark"} or Theme, and str, optional
        The width is in CSS px; its default is that of the output area.
    **options
        Arguments of the analysis, for traces.

    Returns
    -------
    bokeh.plotting.figure
        The path, and below it a lane for each cause; its source has the frame's rows. Above 20 000
        segments, neighbours of one cause are joined, and the subtitle reports that.
        Each pixel of the path shows the cause that takes most of it, even after zooming; in the
        lane of a cause, segments shorter than a pixel are one pixel wide.

    Examples
    --------
    >>> charts.critical_path(analysis.critical_path(traces, rank=0))  # doctest: +SKIP
    """
    frame = analysis_frame(
        "critical_path", frame, options, "rank", "start_ns", "dur_ns", "id", "name", "bound_by"
    )
    style = FigureStyle(title, theme_of(theme), width)
    if frame.empty:
        return empty_figure(frame, style)
    data = _segments(frame)
    start, end = float(data["start_ns"].min()), float(data["end_ns"].max())
    total = _time_by(data, "bound_by")
    total = total[total > 0]
    joining = ""
    if len(data) > _MAX_SEGMENTS:
        max_gap = (end - start) / (_MAX_SEGMENTS / max(1, len(total)))
        gap = duration(max_gap)
        joining = f"{count(len(data))} segments; those of one cause closer than {gap} are joined"
        data = _join_near(data, max_gap)
    data = data[data["dur_ns"] > 0].reset_index(drop=True)
    row_of = {name: row for row, name in enumerate(total.index, 1)}
    data["row"] = data["bound_by"].map(row_of)
    data["bound_text"] = data["bound_by"].map(path_cause_text)
    data["name"] = data["name"].astype(str)
    ranks = frame["rank"].unique()
    if len(ranks) == 1:
        style = replace(style, title=f"{title} of rank {ranks[0]}")
    tooltip = with_tooltip_columns(
        data,
        Tooltip(
            "@{name}",
            [
                ("bound by", "@{bound_text}"),
                ("takes", "{dur_ns:duration}"),
                ("from", "@{start_ns}{0,0} ns"),
            ],
        ),
    )
    style = style.with_subtitle(
        _DEFINED,
        "a pixel of the path shows its main cause; bars below are at least a pixel wide",
        joining,
        unmatched_note(frame, ()),
    )
    return _draw_segments(data, total, (start, end), tooltip, style)


def _segments(frame: pd.DataFrame) -> pd.DataFrame:
    """Return the segments of a path with their ends, and their causes as texts."""
    data = frame.reset_index(drop=True)
    data["bound_by"] = data["bound_by"].astype(str)
    data["end_ns"] = data["start_ns"] + data["dur_ns"]
    return data


def _time_by(data: pd.DataFrame, column: str) -> pd.Series:
    """Return the time of each value of a column, the longest first."""
    return data.groupby(column)["dur_ns"].sum().sort_values(ascending=False, kind="stable")


def _draw_segments(
    data: pd.DataFrame,
    causes: pd.Series,
    window: tuple[float, float],
    tooltip: Tooltip,
    style: FigureStyle,
) -> Figure:
    """Draw the path in the first lane and the segments of each cause in separate lanes."""
    total_ns = float(causes.sum()) or 1.0
    lanes = [
        Lane(path_cause_text(str(name)), _share_text(time_ns, total_ns))
        for name, time_ns in causes.items()
    ]
    figure, finish = lanes_figure(
        [Lane("path", duration(total_ns)), *lanes],
        style,
        start_ns=window[0],
        end_ns=window[1],
        pitch=22,
        heads=("bound by", "of the path"),
    )
    source = models.ColumnDataSource(columns_of(data))
    pixels = keep_dominant(
        figure, source, {row + 1: str(name) for row, name in enumerate(causes.index)}
    )
    bars = partial(
        figure.hbar,
        y="row",
        left="left",
        right="right",
        height=0.72,
        source=pixels,
        line_color=None,
        # Selected segments are drawn over the pixels, which therefore do not fade.
        nonselection_fill_alpha=1,
    )
    for name in map(str, causes.index):
        cause = _cause_bars(name, style.theme)
        bars(view=view_of("bound_by", name), fill_color=cause.fill, **_hatch(cause, 1))
        if cause.hatch or cause.line != cause.fill:
            # Bars too narrow for a hatch have the line's colour, as pale ones could not be seen.
            bars(view=view_of("thin", name), fill_color=cause.line)
    marks = [
        figure.hbar(
            y=place,
            left="start_ns",
            right="end_ns",
            height=0.72,
            source=source,
            fill_color=style.theme.brush_line,
            fill_alpha=0,
            line_color=None,
            selection_fill_alpha=0.35,
            nonselection_fill_alpha=0,
        )
        for place in (0, "row")
    ]
    add_tooltip(figure, marks, style.theme, tooltip.heading, tooltip.rows)
    finish(None)
    return figure


def _hatch(bars: Bars, unselected: float) -> dict[str, Any]:
    if not bars.hatch:
        return {}
    style = {"hatch_pattern": bars.hatch, "hatch_color": bars.hatch_color, "hatch_scale": 5}
    return {**style, "nonselection_hatch_alpha": unselected}


def _join_near(data: pd.DataFrame, max_gap: float) -> pd.DataFrame:
    """Return the segments by cause; those of one cause are joined over gaps of up to `max_gap`."""
    data = data.iloc[np.argsort(pd.factorize(data["bound_by"])[0], kind="stable")]
    gap_ns = data["start_ns"] - data["end_ns"].shift(fill_value=0)
    is_first = data["bound_by"].ne(data["bound_by"].shift()) | (gap_ns > max_gap)
    columns = ["rank", "start_ns", "end_ns", "dur_ns", "id", "name", "bound_by"]
    return _join(data[columns], is_first)


def _cause_bars(bound: str, colors: Theme) -> Bars:
    """Return the bars of a cause, named for legends: solid for work, hatched for waits."""
    solid = {
        "cpu_bound": "cpu", "cpu_outside_operators": "cpu", "data_loading": "other",
        "gpu_compute_bound": "compute", "gpu_communication_bound": "communication",
        "gpu_memory_bound": "memory", "sync_overhead": "sync",
    }  # fmt: skip
    if bound in solid:
        color = colors.kind[solid[bound]]
        hatch = "/" if bound == "cpu_outside_operators" else None
        fill, line, hatch_color = color, color, colors.bg
    else:
        hatch = None if bound == "outside_path" else "/"
        line = colors.kind["sync"] if bound == "cpu_blocked" else colors.idle_line
        fill, hatch_color = colors.idle, line
    name = path_cause_text(bound)
    return Bars("from", "to", fill, name, line=line, hatch=hatch, hatch_color=hatch_color)


_MAX_LANES = 24
#: Maximum number of dark lines between ranks; if there are more, all are pale, to show the lanes.
_FEW_LINES = 100


@check_arguments
def job_critical_path(
    frame: ChartSource,
    *,
    width: Positive | None = None,
    theme: ThemeName | Theme = "light",
    title: str = "Critical path across ranks",
    **options: object,
) -> Figure:
    """Draw which rank the critical path is on at each moment, and what bounds it.

    Parameters
    ----------
    frame : DataFrame, TraceSet, Trace or Selection
        Result of `hta_widgets.analysis.job_critical_path`.
    width, theme, title : int, {"light", "dark"} or Theme, and str, optional
        The width is in CSS px; its default is that of the output area.
    **options
        Arguments of the analysis, for traces.

    Returns
    -------
    bokeh.plotting.figure
        One lane per rank on the path, and thin lines where the path changes ranks; its source has
        the frame's rows. Ranks beyond the 24 with most of the path share a lane. Above 20 000
        segments, neighbours of one rank and cause are joined, and the subtitle reports that.

    Examples
    --------
    >>> charts.job_critical_path(analysis.job_critical_path(traces))  # doctest: +SKIP
    """
    frame = analysis_frame(
        "job_critical_path", frame, options, "rank", "start_ns", "dur_ns", "name", "bound_by"
    )
    style = FigureStyle(title, theme_of(theme), width)
    if frame.empty:
        return empty_figure(frame, style)
    data = _segments(frame)
    data["is_jump"] = data["rank"].ne(data["rank"].shift()) & (data.index > 0)
    by_rank = _time_by(data, "rank")
    total_ns = float(by_rank.sum()) or 1.0
    ranks = sorted(int(rank) for rank in by_rank.index[:_MAX_LANES])
    lane_of = {rank: lane for lane, rank in enumerate(ranks)}
    data["row"] = [lane_of.get(int(rank), len(ranks)) for rank in data["rank"]]
    jumps = int(data["is_jump"].sum())
    lines = _jump_lines(data)
    joining = ""
    if len(data) > _MAX_SEGMENTS:
        joining = f"{count(len(data))} segments; adjacent ones of one rank and cause are joined"
        keys = data[["rank", "bound_by"]]
        data = _join(data, (keys != keys.shift()).any(axis=1))
    data = data[data["dur_ns"] > 0].reset_index(drop=True)
    causes = _time_by(data, "bound_by")
    lanes = [Lane(f"rank {rank}", _share_text(by_rank[rank], total_ns)) for rank in ranks]
    if len(by_rank) > len(ranks):
        left = float(by_rank.iloc[_MAX_LANES:].sum())
        lanes.append(
            Lane(plural(len(by_rank) - len(ranks), "other rank"), _share_text(left, total_ns))
        )
    start_ns = float(frame["start_ns"].min())
    data["after_ns"] = data["start_ns"] - start_ns
    data["bound_text"] = data["bound_by"].map(path_cause_text)
    tooltip = with_tooltip_columns(
        data,
        Tooltip(
            "@{name}",
            [
                ("rank", "@{rank}"),
                ("bound by", "@{bound_text}"),
                ("takes", "{dur_ns:duration}"),
                ("after", "{after_ns:duration}"),
                *([("reached by", "@{via}")] if "via" in data else []),
            ],
        ),
    )
    style = style.with_subtitle(
        _DEFINED,
        _path_finding(by_rank, causes, total_ns),
        f"the path changes ranks {plural(jumps, 'time')}" if jumps else "",
        joining,
        unmatched_note(frame, ()),
    )
    return _rank_lanes(data, lanes, lines, causes / total_ns, start_ns, tooltip, style)


def _rank_lanes(
    data: pd.DataFrame,
    lanes: Sequence[Lane],
    lines: dict[str, Any],
    parts: pd.Series,
    start_ns: float,
    tooltip: Tooltip,
    style: FigureStyle,
) -> Figure:
    """Draw segments in the lanes of their ranks, by cause, and lines from lane to lane."""
    theme = style.theme
    figure, finish = lanes_figure(
        lanes,
        style,
        start_ns=start_ns,
        end_ns=float(data["end_ns"].max()),
        pitch=24,
        heads=(" ", "of the path"),
    )
    figure.segment(
        x0="x",
        x1="x",
        y0="y0",
        y1="y1",
        source=models.ColumnDataSource(lines),
        line_color=theme.ink3,
        line_width=1,
        line_alpha=0.8 if len(lines["x"]) <= _FEW_LINES else 0.25,
    )
    source = models.ColumnDataSource(columns_of(data))
    marks, entries = [], []
    for cause, part in parts.items():
        bars = _cause_bars(str(cause), theme)
        entries.append(replace(bars, name=f"{bars.name} {share(part)}"))
        marks.append(
            figure.hbar(
                y="row",
                left="start_ns",
                right="end_ns",
                height=0.72,
                source=source,
                view=view_of("bound_by", str(cause)),
                fill_color=bars.fill,
                # An outline would widen very short segments.
                line_color=None,
                nonselection_fill_alpha=0.3,
                **_hatch(bars, 0.3),
            )
        )
    add_tooltip(figure, marks, theme, tooltip.heading, tooltip.rows)
    finish(legend_for(figure, entries, theme))
    return figure


def _share_text(time_ns: float, total_ns: float) -> str:
    return f"{share(time_ns / total_ns)} · {duration(time_ns)}"


def _jump_lines(data: pd.DataFrame) -> dict[str, Any]:
    """Return a line for each change of ranks, from lane to lane."""
    jumps = np.flatnonzero(data["is_jump"].to_numpy())
    rows = data["row"].to_numpy(float)
    moved = jumps[rows[jumps] != rows[jumps - 1]]
    if len(moved) > _MAX_SEGMENTS:
        # More lines than that would merge into one area anyway.
        moved = moved[:: -(-len(moved) // _MAX_SEGMENTS)]
    return {
        "x": data["start_ns"].to_numpy(float)[moved],
        "y0": rows[moved - 1],
        "y1": rows[moved],
    }


def _join(data: pd.DataFrame, is_first: pd.Series) -> pd.DataFrame:
    """Join each segment with the ones after it, up to the next one that `is_first`."""
    groups = data.groupby(is_first.cumsum(), sort=False)
    joined = groups.first()
    joined["dur_ns"] = groups["dur_ns"].sum()
    joined["end_ns"] = groups["end_ns"].max()
    is_single = groups.size() == 1
    joined["name"] = joined["name"].astype(str).where(is_single, "several segments")
    if "id" in joined:
        joined["id"] = joined["id"].where(is_single, -1)
    return joined.reset_index(drop=True)


def _path_finding(by_rank: pd.Series, causes: pd.Series, total_ns: float) -> str:
    if causes.empty:
        return ""
    first = int(by_rank.index[0])
    cause = path_cause_text(str(causes.index[0]))
    main_text = f"{cause} is {share(float(causes.iloc[0]) / total_ns)} of it"
    if len(by_rank) == 1:
        return f"all of it is on rank {first}, {main_text}"
    return f"{share(float(by_rank.iloc[0]) / total_ns)} of it is on rank {first}, {main_text}"


@check_arguments
def job_path_summary(
    frame: ChartSource,
    *,
    width: Positive | None = None,
    theme: ThemeName | Theme = "light",
    title: str = "Critical path by rank",
    **options: object,
) -> Figure:
    """Draw each rank's share of the job's critical path, by cause.

    Parameters
    ----------
    frame : DataFrame, TraceSet, Trace or Selection
        Result of `hta_widgets.analysis.job_path_summary`.
    width, theme, title : int, {"light", "dark"} or Theme, and str, optional
        The width is in CSS px; its default is that of the output area.
    **options
        Arguments of the analysis, for traces.

    Returns
    -------
    bokeh.plotting.figure
        One bar per rank, the longest first, stacked by cause; its source has the frame's rows.
        Ranks beyond the first 24 share a bar.

    Examples
    --------
    >>> path = analysis.job_critical_path(traces)  # doctest: +SKIP
    >>> charts.job_path_summary(analysis.job_path_summary(path))  # doctest: +SKIP
    """
    frame = analysis_frame(
        "job_path_summary",
        frame,
        options,
        *("rank", "bound_by", "count", "dur_ns"),
        path="job_critical_path",
    )
    theme = theme_of(theme)
    style = FigureStyle(title, theme, width)
    if frame.empty:
        return empty_figure(frame, style)
    data = frame.reset_index(drop=True)
    data["bound_by"] = data["bound_by"].astype(str)
    by_rank = _time_by(data, "rank")
    total_ns = float(by_rank.sum()) or 1.0
    row_of = {int(rank): min(row, _MAX_LANES) for row, rank in enumerate(by_rank.index)}
    data["row"] = [row_of[int(rank)] for rank in data["rank"]]
    names = [f"rank {rank}" for rank in by_rank.index[:_MAX_LANES]]
    if len(by_rank) > _MAX_LANES:
        names.append(plural(len(by_rank) - _MAX_LANES, "other rank"))
        rest = data["row"] == _MAX_LANES
        others = data[rest].groupby("bound_by", as_index=False)[["count", "dur_ns"]].sum()
        others = others.assign(rank=-1, row=_MAX_LANES)
        data = pd.concat([data[~rest], others], ignore_index=True)
    causes = _time_by(data, "bound_by")
    place = {name: number for number, name in enumerate(causes.index)}
    # Causes have the same order in each bar.
    data = data.assign(order=data["bound_by"].map(place)).sort_values(["row", "order"])
    data = data.reset_index(drop=True)
    data["to"] = data.groupby("row")["dur_ns"].cumsum()
    data["from"] = data["to"] - data["dur_ns"]
    data["share"] = data["dur_ns"] / total_ns
    data["bound_text"] = data["bound_by"].map(path_cause_text)
    data["who"] = [names[row] for row in data["row"]]
    per_row = data.groupby("row")["dur_ns"].sum()
    on_most = by_rank.index[by_rank > total_ns / 2].tolist()
    return draw_rows(
        RowsContent(
            data=data,
            names=names,
            marks=[
                replace(_cause_bars(cause, theme), only=("bound_by", cause))
                for cause in causes.index[causes > 0]
            ],
            scale=time_scale(float(per_row.max())),
            head=" ",
            columns=[
                Column("of the path", [share(float(time_ns) / total_ns) for time_ns in per_row]),
                Column("time", [duration(float(time_ns)) for time_ns in per_row], 420),
            ],
            tooltip=Tooltip(
                "@{who} · @{bound_text}",
                [
                    ("time", "{dur_ns:duration}"),
                    ("of the path", "{share:share}"),
                    ("segments", "@{count}"),
                ],
            ),
        ),
        style.with_subtitle(
            "time on the path, by rank and cause; the bars add up to the span",
            f"more than half of it is on {rank_list(on_most)}"
            if on_most
            else f"no rank has more than half of it; {names[0]} has the most",
            unmatched_note(frame, ()),
        ),
    )
