"""Charts of training steps: how the steps of ranks and their phases differ from the median."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

import numpy as np
import pandas as pd

from hta_widgets.arguments import Positive, check_arguments
from hta_widgets.charts.data import (
    ChartSource,
    analysis_frame,
    groups_of_ranks,
    panel_frame,
    require_columns_of,
    thin_points,
)
from hta_widgets.charts.defined import draw_definition
from hta_widgets.charts.figure import Figure, FigureStyle, empty_figure, unmatched_note
from hta_widgets.charts.rows import (
    NAMED_ROWS,
    Column,
    Dots,
    RowsContent,
    Scale,
    Tooltip,
    draw_rows,
    round_ticks,
)
from hta_widgets.charts.theme import Theme, ThemeName, theme_of
from hta_widgets.text import count, duration, rank_list, share_delta
from hta_widgets.trace.arrays import Bools


@check_arguments
def step_phases(
    frame: ChartSource,
    *,
    late: Iterable[int] | None = None,
    clusters: pd.DataFrame | None = None,
    width: Positive | None = None,
    theme: ThemeName | Theme = "light",
    title: str = "Steps and phases",
) -> Figure:
    """Draw how much each rank's steps and their phases differ from the median rank's.

    Parameters
    ----------
    frame : DataFrame
        One row per phase, step and rank: ``phase, step, rank, start_ns, dur_ns, deviation_share``,
        the last relative to the median rank of that step and phase.
    late : iterable of int, optional
        Ranks to draw in red, such as stragglers. Default: the ranks that the headline names, from
        ``.attrs["late_ranks"]`` of frames of a dashboard.
    clusters : DataFrame, optional
        Result of `hta_widgets.analysis.rank_clusters`. Each is drawn as mean, minimum and maximum.
    width, theme, title : int, {"light", "dark"} or Theme, and str, optional
        The width is in CSS px; the default is the width of the output area.

    Returns
    -------
    bokeh.plotting.figure
        One row per phase. Each step has a line of dots in it, one per rank at its difference from
        the median rank. A rank that is not `late` is dark in two cases: it stands out in a phase,
        by 5 % of the median rank's time, four times the usual deviation and 2 % of a step; or the
        headline names it although others do not wait for it. For a single rank there is one dot
        per step, at its difference from the median step.

    Examples
    --------
    >>> charts.step_phases(dash.panel_frame("steps"))  # doctest: +SKIP
    """
    frame = panel_frame("step_phases", frame, "steps")
    if late is not None:
        frame = frame.copy(deep=False)
        frame.attrs = {**frame.attrs, "late_ranks": list(late)}
    return draw_definition("steps", frame, width, theme, title, clusters)


#: Minimum time by which an outlier exceeds the median rank, as a share of the median.
_MIN_LONGER = 0.05
#: Minimum ratio of an outlier's deviation to the median deviation of the ranks in its row.
_OUTLIER_FACTOR = 4.0
_MAX_DOTS = 20_000
#: Drawing order of dots; usual dots, which have 0, are drawn first.
_OUTLIER, _LATE = 1, 2

_TITLES = {"own": "Own work per step", "dur": "Time per step"}
_MEASURE_TEXTS = {
    "own": "a step less the time that the rank waits for others",
    "dur": "from start to end on the host, waits included",
}
#: Times of a step that tooltips show, with their labels.
_TIMES = {
    "dur_ns": "step",
    "own_ns": "own work",
    "compute_ns": "computes",
    "exposed_wait_ns": "exposed waiting",
    "idle_ns": "idle",
}


@check_arguments
def step_times(
    frame: ChartSource,
    *,
    measure: Literal["own", "dur"] = "own",
    groups: pd.DataFrame | None = None,
    late: Iterable[int] | None = None,
    width: Positive | None = None,
    theme: ThemeName | Theme = "light",
    title: str = "",
    **options: object,
) -> Figure:
    """Draw how much each rank's steps differ from the median rank's.

    Parameters
    ----------
    frame : DataFrame, TraceSet, Trace or Selection
        Result of `hta_widgets.analysis.step_times`.
    measure : {"own", "dur"}, default "own"
        Column to compare: ``own_ns`` or ``dur_ns``. Steps of ranks that wait for each other take
        equally long, so ``dur_ns`` does not show which rank is slow.
    groups : DataFrame, optional
        Result of `hta_widgets.analysis.parallel_groups`. With it, each group of one kind has a row
        for each step. The kind is the first of tensor, context, expert, pipeline and data that has
        several groups. For another kind, give only its rows.
    late : iterable of int, optional
        Ranks to draw in red, such as stragglers.
    width, theme, title : int, {"light", "dark"} or Theme, and str, optional
        The width is in CSS px; the default is the width of the output area.
    **options
        Arguments of the analysis, for traces.

    Returns
    -------
    bokeh.plotting.figure
        One row per step, or per group and step, and one dot per rank. If groups and steps give more
        than 64 rows, each group has one. Its source has the frame's rows. A rank is dark if it
        takes 5 % longer than the median rank, and its deviation is four times the median deviation
        of its row. Of over 20 000 dots, all outliers and one dot per cell of a grid are drawn, and
        the subtitle reports that.

    Examples
    --------
    >>> charts.step_times(analysis.step_times(traces))  # doctest: +SKIP

    Each row has the ranks of one data-parallel group:

    >>> groups = analysis.parallel_groups(traces)  # doctest: +SKIP
    >>> data = groups[groups["kind"] == "data"]  # doctest: +SKIP
    >>> charts.step_times(analysis.step_times(traces), groups=data)  # doctest: +SKIP
    """
    frame = analysis_frame("step_times", frame, options, "rank step")
    theme = theme_of(theme)
    style = FigureStyle(title or _TITLES[measure], theme, width)
    if frame.empty:
        return empty_figure(frame, style)
    deviation = f"{measure}_deviation_ns"
    columns = f"{measure}_ns {deviation} {measure}_deviation_share"
    require_columns_of(frame, "analysis.step_times", columns)
    dots, names = _step_dots(frame, measure, groups)
    median = dots.groupby("row")["median_ns"].median()
    data, thinning = _thin_dots(dots, len(names))
    late_ranks = frame.attrs.get("late_ranks", ()) if late is None else late
    marked = [int(rank) for rank in late_ranks]
    data = _color_dots(data, marked, theme)
    orders = set(data["order"])
    return draw_rows(
        RowsContent(
            data=data,
            names=names,
            marks=[Dots("apart", "fill", 7 if len(names) <= NAMED_ROWS else 4)],
            scale=_deviation_scale(dots["apart"]),
            head=" ",
            columns=[
                Column("stands out", _furthest_ranks(dots, len(names))),
                Column("median rank", [duration(median_ns) for median_ns in median], 520),
            ],
            legend=[
                *([Dots("x", theme.late, 7, rank_list(marked))] if _LATE in orders else []),
                *([Dots("x", theme.ink, 7, "stands out")] if _OUTLIER in orders else []),
                Dots("x", theme.rule_strong, 7, "a rank"),
            ],
            tooltip=Tooltip(
                "rank @{rank} · step @{step}" + ("" if groups is None else " · @{of_group}"),
                [("against the median rank", f"{{{deviation}:duration_delta}} · {{apart:delta}}")]
                + [(_TIMES[name], f"{{{name}:duration}}") for name in _TIMES if name in data],
            ),
        ),
        style.with_subtitle(
            f"one dot per step of a rank, against the median rank; {_MEASURE_TEXTS[measure]}",
            _steps_finding(dots),
            thinning,
            unmatched_note(frame),
        ),
    )


def _step_dots(
    frame: pd.DataFrame, measure: str, groups: pd.DataFrame | None
) -> tuple[pd.DataFrame, list[str]]:
    dots = frame.reset_index(drop=True)
    steps = np.unique(dots["step"])
    dots["row"] = np.searchsorted(steps, dots["step"])
    dots["apart"] = dots[f"{measure}_deviation_share"].fillna(0.0)
    dots["is_outlier"] = _outliers(dots)
    dots["median_ns"] = dots[f"{measure}_ns"] - dots[f"{measure}_deviation_ns"]
    names = [f"step {step}" for step in steps]
    if groups is not None:
        require_columns_of(groups, "analysis.parallel_groups", "group rank kind")
        names = _set_group_rows(dots, groups, names)
    return dots, names


def _color_dots(dots: pd.DataFrame, late: list[int], theme: Theme) -> pd.DataFrame:
    order = np.select([dots["rank"].isin(late), dots["is_outlier"]], [_LATE, _OUTLIER], default=0)
    data = dots.assign(order=order).sort_values("order", kind="stable").reset_index(drop=True)
    data["fill"] = np.array([theme.rule_strong, theme.ink, theme.late])[data["order"]]
    return data


def _thin_dots(dots: pd.DataFrame, rows: int) -> tuple[pd.DataFrame, str]:
    """Return the dots to draw, with all outliers, and a sentence about the others."""
    if len(dots) <= _MAX_DOTS:
        return dots, ""
    # Each outlier has a grid of its own, so that all of them are kept.
    grids = np.where(dots["is_outlier"], 1 + np.arange(len(dots)), 0)
    grid_rows = max(1, min(rows, _MAX_DOTS // 100))
    drawn, _ = thin_points(dots["apart"], dots["row"], grids, columns=100, rows=grid_rows)
    thinning = f"{count(len(dots))} dots, drawn as {count(len(drawn))} with all outliers"
    return dots.iloc[drawn], thinning


def _deviation_scale(deviation: pd.Series) -> Scale:
    low, high = min(float(deviation.min()), 0.0), max(float(deviation.max()), 0.01)
    margin = (high - low) * 0.05
    ticks = [
        (tick, "median" if abs(tick) < 1e-9 else share_delta(tick))
        for tick in round_ticks(high, 3, low)
    ]
    return Scale(high + margin, low - margin, ticks, zero_line=True)


def _set_group_rows(dots: pd.DataFrame, groups: pd.DataFrame, steps: list[str]) -> list[str]:
    """Set one row per group and step, or per group if that is too many; return the rows' names."""
    names, group = groups_of_ranks(groups, dots["rank"])
    if (group < 0).any():
        names.append("no group")
        group = np.where(group < 0, len(names) - 1, group)
    dots["of_group"] = np.array(names, dtype=object)[group]
    # Groups without a rank in the frame have no row.
    present, row_of_group = np.unique(group, return_inverse=True)
    names = [names[number] for number in present]
    if len(names) * len(steps) > NAMED_ROWS:
        dots["row"] = row_of_group
        return names
    dots["row"] += row_of_group * len(steps)
    return [f"{name} · {step}" for name in names for step in steps]


def _outliers(dots: pd.DataFrame) -> Bools:
    usual = dots["apart"].abs().groupby(dots["row"]).transform("median").to_numpy()
    deviation = dots["apart"].to_numpy()
    return (deviation >= _MIN_LONGER) & (deviation >= _OUTLIER_FACTOR * usual)


def _furthest_ranks(dots: pd.DataFrame, rows: int) -> list[str]:
    """Return each row's outlier with the largest deviation, and the deviation, as text."""
    texts = [""] * rows
    outliers = dots[dots["is_outlier"]].sort_values("apart", kind="stable")
    outliers = outliers.drop_duplicates(["row", "rank"], keep="last")
    outlier_count = outliers.groupby("row").size()
    for record in outliers.drop_duplicates("row", keep="last").to_dict("records"):
        row = int(record["row"])
        other_count = int(outlier_count[row]) - 1
        also = f", {count(other_count)} more" if other_count else ""
        texts[row] = f"rank {record['rank']} {share_delta(record['apart'])}{also}"
    return texts


def _steps_finding(dots: pd.DataFrame) -> str:
    outliers = dots[dots["is_outlier"]]
    if outliers.empty:
        return "no rank stands out"
    steps = dots["step"].nunique()
    steps_of_rank = outliers.groupby("rank").size()
    often = steps_of_rank[steps_of_rank > steps / 2]
    if len(often):
        verb = "stands" if len(often) == 1 else "stand"
        return f"{rank_list(often.index.tolist())} {verb} out in most of {count(steps)} steps"
    return f"{rank_list(steps_of_rank.index.tolist())} in individual steps"
