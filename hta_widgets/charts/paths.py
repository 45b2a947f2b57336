"""Charts of the critical path of a rank or a job.

Segments are styled by cause: solid for work, hatched for waits. A path can have a hundred thousand
segments; if there are more than `_MAX_SEGMENTS`, nearby segments with the same cause are merged.
"""

from __future__ import annotations

import math
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
    add_legend,
    draw_rows,
    time_scale,
    view_of,
    with_tooltip_columns,
)
from hta_widgets.charts.theme import Theme, ThemeName, theme_of
from hta_widgets.panels.added import path_cause_text
from hta_widgets.text import count, duration, plural, rank_list, share

_MAX_SEGMENTS = 20_000
_DEFINED = "the chain of work and waits that determines the duration; its segments do not overlap"


@check_arguments
def critical_path(
    frame: ChartSource,
    *,
    width: Positive | None = None,
    theme: ThemeName | Theme = "light",
    title: str = "Critical path",
    **options: object,
) -> Figure:
    """Draw the critical path over time, with a lane for each cause.

    Parameters
    ----------
    frame : DataFrame, TraceSet, Trace or Selection
        Result of `hta_widgets.analysis.critical_path`, or traces to analyze.
    width, theme, title : int, {"light", "dark"} or Theme, and str, optional
        Width in CSS px. Default: the width of the output area.
    **options
        Arguments passed to the analysis. Only valid if `frame` is not a DataFrame.

    Returns
    -------
    bokeh.plotting.figure
        The path and, below it, one lane per cause. The data source holds the frame's rows. With
        more than 20 000 segments, nearby segments with the same cause are merged, as stated in the
        subtitle. At any zoom level, a pixel of the path shows the cause that takes most of its
        time, and segments in the other lanes are at least one pixel wide.

    Examples
    --------
    >>> charts.critical_path(analysis.critical_path(traces, rank=0))  # doctest: +SKIP
    """
    frame = analysis_frame("critical_path", frame, options, "rank start_ns dur_ns id name bound_by")
    style = FigureStyle(title, theme_of(theme), width)
    if frame.empty:
        return empty_figure(frame, style)
    data = _segments(frame)
    start, end = float(data["start_ns"].min()), float(data["end_ns"].max())
    cause_ns = _time_by(data, "bound_by")
    cause_ns = cause_ns[cause_ns > 0]
    joining = ""
    if len(data) > _MAX_SEGMENTS:
        max_gap = (end - start) / (_MAX_SEGMENTS / max(1, len(cause_ns)))
        gap = duration(max_gap)
        joining = f"{count(len(data))} segments; those of one cause closer than {gap} are joined"
        data = _join_near(data, max_gap)
    data = data[data["dur_ns"] > 0].reset_index(drop=True)
    row_of = {name: row for row, name in enumerate(cause_ns.index, 1)}
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
    return _draw_segments(data, cause_ns, (start, end), tooltip, style)


def _segments(frame: pd.DataFrame) -> pd.DataFrame:
    """Return a copy of the segments with their ends, and with causes as text."""
    data = frame.reset_index(drop=True)
    data["bound_by"] = data["bound_by"].astype(str)
    data["end_ns"] = data["start_ns"] + data["dur_ns"]
    return data


def _time_by(data: pd.DataFrame, column: str) -> pd.Series:
    """Return the total time of the segments by the values of a column, in descending order."""
    return data.groupby(column)["dur_ns"].sum().sort_values(ascending=False, kind="stable")


def _draw_segments(
    data: pd.DataFrame,
    cause_ns: pd.Series,
    window: tuple[float, float],
    tooltip: Tooltip,
    style: FigureStyle,
) -> Figure:
    total_ns = float(cause_ns.sum()) or 1.0
    causes = list(map(str, cause_ns.index))
    lanes = [
        Lane(path_cause_text(cause), _share_text(time_ns, total_ns))
        for cause, time_ns in zip(causes, cause_ns, strict=True)
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
    _draw_pixels(figure, source, causes, style.theme)
    # Add invisible bars for the segments themselves, for tooltips and selections.
    marks = [
        figure.hbar(
            y=y,
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
        for y in (0, "row")
    ]
    add_tooltip(figure, marks, style.theme, tooltip.heading, tooltip.rows)
    finish(None)
    return figure


def _draw_pixels(figure: Figure, segments: object, causes: Sequence[str], theme: Theme) -> None:
    """Draw the main cause of each pixel in row 0, and the segments of each cause in its row."""
    draw_pixels = partial(
        figure.hbar,
        y="row",
        left="left",
        right="right",
        height=0.72,
        source=keep_dominant(figure, segments, dict(enumerate(causes, 1))),
        line_color=None,
        # Pixels do not fade, because selected segments are highlighted on top of them.
        nonselection_fill_alpha=1,
    )
    for cause in causes:
        bars = _cause_bars(cause, theme)
        draw_pixels(view=view_of("bound_by", cause), fill_color=bars.fill, **_hatch(bars, 1))
        if bars.hatch or bars.line != bars.fill:
            # Bars too narrow for a hatch get the line color; the pale fill would be invisible.
            draw_pixels(view=view_of("thin", cause), fill_color=bars.line)


def _hatch(bars: Bars, nonselection_alpha: float) -> dict[str, Any]:
    if not bars.hatch:
        return {}
    style = {"hatch_pattern": bars.hatch, "hatch_color": bars.hatch_color, "hatch_scale": 5}
    return {**style, "nonselection_hatch_alpha": nonselection_alpha}


def _join_near(data: pd.DataFrame, max_gap: float) -> pd.DataFrame:
    """Sort the segments by cause and merge those at most `max_gap` ns apart."""
    data = data.iloc[np.argsort(pd.factorize(data["bound_by"])[0], kind="stable")]
    gap_ns = data["start_ns"] - data["end_ns"].shift(fill_value=0)
    is_first = data["bound_by"].ne(data["bound_by"].shift()) | (gap_ns > max_gap)
    columns = ["rank", "start_ns", "end_ns", "dur_ns", "id", "name", "bound_by"]
    return _join(data[columns], is_first)


def _cause_bars(cause: str, colors: Theme) -> Bars:
    """Return the bar style for a cause: solid for work, hatched for waits."""
    kind_of_work = {
        "cpu_bound": "cpu", "cpu_outside_operators": "cpu", "data_loading": "other",
        "gpu_compute_bound": "compute", "gpu_communication_bound": "communication",
        "gpu_memory_bound": "memory", "sync_overhead": "sync",
    }  # fmt: skip
    if cause in kind_of_work:
        hatch = "/" if cause == "cpu_outside_operators" else None
        line = fill = colors.kind[kind_of_work[cause]]
        hatch_color = colors.bg
    else:
        hatch = None if cause == "outside_path" else "/"
        line = colors.kind["sync"] if cause == "cpu_blocked" else colors.idle_line
        fill, hatch_color = colors.idle, line
    name = path_cause_text(cause)
    return Bars("from", "to", fill, name, line=line, hatch=hatch, hatch_color=hatch_color)


#: Maximum number of ranks with their own lane or bar.
_MAX_LANES = 24
#: Maximum number of rank changes drawn as dark lines. If there are more, lines are pale to keep the
#: lanes visible.
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
    """Draw the job's critical path over time, by rank and cause.

    Parameters
    ----------
    frame : DataFrame, TraceSet, Trace or Selection
        Result of `hta_widgets.analysis.job_critical_path`, or traces to analyze.
    width, theme, title : int, {"light", "dark"} or Theme, and str, optional
        Width in CSS px. Default: the width of the output area.
    **options
        Arguments passed to the analysis. Only valid if `frame` is not a DataFrame.

    Returns
    -------
    bokeh.plotting.figure
        One lane per rank on the path, with thin lines where the path moves to another rank. The
        data source holds the frame's rows. The 24 ranks with the longest parts of the path have
        their own lanes; the rest share a lane. With more than 20 000 segments, adjacent ones with
        the same rank and cause are merged, as stated in the subtitle.

    Examples
    --------
    >>> charts.job_critical_path(analysis.job_critical_path(traces))  # doctest: +SKIP
    """
    columns = "rank start_ns dur_ns name bound_by"
    frame = analysis_frame("job_critical_path", frame, options, columns)
    style = FigureStyle(title, theme_of(theme), width)
    if frame.empty:
        return empty_figure(frame, style)
    data = _segments(frame)
    by_rank = _time_by(data, "rank")
    ranks = sorted(int(rank) for rank in by_rank.index[:_MAX_LANES])
    lane_of = {rank: lane for lane, rank in enumerate(ranks)}
    data["row"] = [lane_of.get(int(rank), len(ranks)) for rank in data["rank"]]
    data["is_jump"] = data["rank"].ne(data["rank"].shift()) & (data.index > 0)
    jumps = int(data["is_jump"].sum())
    lines = _jump_lines(data)
    joining = ""
    if len(data) > _MAX_SEGMENTS:
        joining = f"{count(len(data))} segments; adjacent ones of one rank and cause are joined"
        keys = data[["rank", "bound_by"]]
        data = _join(data, (keys != keys.shift()).any(axis=1))
    data = data[data["dur_ns"] > 0].reset_index(drop=True)
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
        _path_finding(by_rank, _time_by(data, "bound_by")),
        f"the path changes ranks {plural(jumps, 'time')}" if jumps else "",
        joining,
        unmatched_note(frame, ()),
    )
    return _draw_rank_lanes(data, _lanes_of_ranks(by_rank), lines, start_ns, tooltip, style)


def _lanes_of_ranks(by_rank: pd.Series) -> list[Lane]:
    """Return lanes for the ranks with the most time, in rank order, and one for the rest."""
    total_ns = float(by_rank.sum()) or 1.0
    times_ns = by_rank.iloc[:_MAX_LANES].sort_index()
    lanes = [Lane(f"rank {rank}", _share_text(ns, total_ns)) for rank, ns in times_ns.items()]
    others = by_rank.iloc[_MAX_LANES:]
    if len(others):
        name = plural(len(others), "other rank")
        lanes.append(Lane(name, _share_text(float(others.sum()), total_ns)))
    return lanes


def _draw_rank_lanes(
    data: pd.DataFrame,
    lanes: Sequence[Lane],
    lines: dict[str, Any],
    start_ns: float,
    tooltip: Tooltip,
    style: FigureStyle,
) -> Figure:
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
    causes = _time_by(data, "bound_by")
    for cause, time_ns in causes.items():
        bars = _cause_bars(str(cause), theme)
        entries.append(replace(bars, name=f"{bars.name} {share(time_ns / causes.sum())}"))
        marks.append(
            figure.hbar(
                y="row",
                left="start_ns",
                right="end_ns",
                height=0.72,
                source=source,
                view=view_of("bound_by", str(cause)),
                fill_color=bars.fill,
                # An outline would make short segments look longer.
                line_color=None,
                nonselection_fill_alpha=0.3,
                **_hatch(bars, 0.3),
            )
        )
    add_tooltip(figure, marks, theme, tooltip.heading, tooltip.rows)
    finish(add_legend(figure, entries, theme))
    return figure


def _share_text(time_ns: float, total_ns: float) -> str:
    return f"{share(time_ns / total_ns)} · {duration(time_ns)}"


def _jump_lines(data: pd.DataFrame) -> dict[str, Any]:
    """Return vertical lines between the lanes of the segments before and after each jump."""
    jumps = np.flatnonzero(data["is_jump"])
    rows = data["row"].to_numpy(float)
    drawn = jumps[rows[jumps] != rows[jumps - 1]]
    if len(drawn) > _MAX_SEGMENTS:
        # Beyond this number, lines would blend into an area anyway.
        drawn = drawn[:: math.ceil(len(drawn) / _MAX_SEGMENTS)]
    return {
        "x": data["start_ns"].to_numpy(float)[drawn],
        "y0": rows[drawn - 1],
        "y1": rows[drawn],
    }


def _join(data: pd.DataFrame, is_first: pd.Series) -> pd.DataFrame:
    """Merge each segment where `is_first` is False into the segment before it."""
    groups = data.groupby(is_first.cumsum(), sort=False)
    joined = groups.first()
    joined["dur_ns"] = groups["dur_ns"].sum()
    joined["end_ns"] = groups["end_ns"].max()
    is_single = groups.size() == 1
    joined["name"] = joined["name"].astype(str).where(is_single, "several segments")
    if "id" in joined:
        joined["id"] = joined["id"].where(is_single, -1)
    return joined.reset_index(drop=True)


def _path_finding(by_rank: pd.Series, causes: pd.Series) -> str:
    """Name the rank and the cause with the most time; both Series are in descending order."""
    if causes.empty:
        return ""
    cause = path_cause_text(str(causes.index[0]))
    cause_text = f"{cause} is {share(causes.iloc[0] / causes.sum())} of it"
    on_first = "all" if len(by_rank) == 1 else share(by_rank.iloc[0] / by_rank.sum())
    return f"{on_first} of it is on rank {by_rank.index[0]}, {cause_text}"


@check_arguments
def job_path_summary(
    frame: ChartSource,
    *,
    width: Positive | None = None,
    theme: ThemeName | Theme = "light",
    title: str = "Critical path by rank",
    **options: object,
) -> Figure:
    """Draw the part of the job's critical path on each rank, by cause.

    Parameters
    ----------
    frame : DataFrame, TraceSet, Trace or Selection
        Result of `hta_widgets.analysis.job_path_summary`, or traces to analyze.
    width, theme, title : int, {"light", "dark"} or Theme, and str, optional
        Width in CSS px. Default: the width of the output area.
    **options
        Arguments passed to the analysis. Only valid if `frame` is not a DataFrame.

    Returns
    -------
    bokeh.plotting.figure
        One bar per rank, longest first, stacked by cause. The data source holds the frame's rows.
        Ranks after the first 24 share a bar.

    Examples
    --------
    >>> path = analysis.job_critical_path(traces)  # doctest: +SKIP
    >>> charts.job_path_summary(analysis.job_path_summary(path))  # doctest: +SKIP
    """
    columns = "rank bound_by count dur_ns"
    frame = analysis_frame(
        "job_path_summary", frame, options, columns, input_analysis="job_critical_path"
    )
    style = FigureStyle(title, theme_of(theme), width)
    if frame.empty:
        return empty_figure(frame, style)
    by_rank = _time_by(frame, "rank")
    data, names = _stack_causes(frame, by_rank)
    causes, per_row = _time_by(data, "bound_by"), data.groupby("row")["dur_ns"].sum()
    total_ns = float(by_rank.sum()) or 1.0
    data["share"] = data["dur_ns"] / total_ns
    on_most = by_rank.index[by_rank > total_ns / 2].tolist()
    return draw_rows(
        RowsContent(
            data=data,
            names=names,
            marks=[
                replace(_cause_bars(cause, style.theme), only=("bound_by", cause))
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


def _stack_causes(frame: pd.DataFrame, by_rank: pd.Series) -> tuple[pd.DataFrame, list[str]]:
    data = frame.reset_index(drop=True)
    data["bound_by"] = data["bound_by"].astype(str)
    data["row"] = by_rank.index.get_indexer(pd.Index(data["rank"])).clip(max=_MAX_LANES)
    names = [f"rank {rank}" for rank in by_rank.index[:_MAX_LANES]]
    if len(by_rank) > _MAX_LANES:
        names.append(plural(len(by_rank) - _MAX_LANES, "other rank"))
        is_other = data["row"] == _MAX_LANES
        others = data[is_other].groupby("bound_by", as_index=False)[["count", "dur_ns"]].sum()
        others = others.assign(rank=-1, row=_MAX_LANES)
        data = pd.concat([data[~is_other], others], ignore_index=True)
    # Stack the causes in the same order in each bar.
    data["order"] = _time_by(data, "bound_by").index.get_indexer(pd.Index(data["bound_by"]))
    data = data.sort_values(["row", "order"], ignore_index=True)
    data["to"] = data.groupby("row")["dur_ns"].cumsum()
    data["from"] = data["to"] - data["dur_ns"]
    data["bound_text"] = data["bound_by"].map(path_cause_text)
    data["who"] = [names[row] for row in data["row"]]
    return data, names
