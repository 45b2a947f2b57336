"""Charts of training steps: differences between ranks, by step and phase."""

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
    """Draw how much the steps and phases of each rank differ from the median rank.

    Parameters
    ----------
    frame : DataFrame
        One row per phase, step and rank, with the columns ``phase, step, rank, start_ns, dur_ns,
        deviation_share``. The last is relative to the median rank in that step and phase.
    late : iterable of int, optional
        Ranks to draw in red, such as stragglers. Default: ``frame.attrs["late_ranks"]``, the late
        ranks in the headline of the dashboard that made the frame.
    clusters : DataFrame, optional
        Result of `hta_widgets.analysis.rank_clusters`. A cluster is drawn as its mean and range.
    width, theme, title : int, {"light", "dark"} or Theme, and str, optional
        Width in CSS px. Default: the width of the output area.

    Returns
    -------
    bokeh.plotting.figure
        One row per phase. Each step is a line of dots in that row, one per rank, placed by its
        difference from the median rank. Ranks that are not in `late` are dark in two cases: the
        rank exceeds the median by at least 5 %, four times the usual deviation and 2 % of a step;
        or it is in the headline although other ranks do not wait for it. With a single rank, there
        is one dot per step, relative to the median step.

    Examples
    --------
    >>> charts.step_phases(dash.panel_frame("steps"))  # doctest: +SKIP
    """
    frame = panel_frame("step_phases", frame, "steps")
    if late is not None:
        frame = frame.copy(deep=False)
        frame.attrs = {**frame.attrs, "late_ranks": list(late)}
    return draw_definition("steps", frame, width, theme, title, clusters)


#: Smallest excess of an outlier over the median rank, as a share of the median.
_MIN_LONGER = 0.05
#: Smallest ratio of an outlier's deviation to the median deviation in its row.
_OUTLIER_FACTOR = 4.0
_MAX_DOTS = 20_000
#: Drawing order of outliers and late ranks. All other dots have 0 and are drawn first.
_OUTLIER, _LATE = 1, 2

_TITLES = {"own": "Own work per step", "dur": "Time per step"}
_MEASURE_TEXTS = {
    "own": "a step less the time that the rank waits for others",
    "dur": "from start to end on the host, waits included",
}
#: Columns with times of a step, and their labels in tooltips.
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
    """Draw how much the steps of each rank differ from the median rank.

    Parameters
    ----------
    frame : DataFrame, TraceSet, Trace or Selection
        Result of `hta_widgets.analysis.step_times`, or traces to analyze.
    measure : {"own", "dur"}, default "own"
        Compare ``own_ns`` or ``dur_ns``. If ranks wait for each other, their steps take equally
        long, and ``dur_ns`` does not show which rank is slow.
    groups : DataFrame, optional
        Result of `hta_widgets.analysis.parallel_groups`. If given, each group has a row per step.
        Only groups of one kind are used: the first of tensor, context, expert, pipeline and data
        that has several groups. To use another kind, pass only the rows of that kind.
    late : iterable of int, optional
        Ranks to draw in red, such as stragglers.
    width, theme, title : int, {"light", "dark"} or Theme, and str, optional
        Width in CSS px. Default: the width of the output area.
    **options
        Arguments passed to the analysis. Only valid if `frame` is not a DataFrame.

    Returns
    -------
    bokeh.plotting.figure
        One row per step, or per group and step, and one dot per rank. If there would be more than
        64 rows, each group has a single one. The data source holds the frame's rows. A rank is dark
        if it takes 5 % longer than the median rank and deviates by at least four times the median
        deviation in its row. Above 20 000 dots, only outliers and one dot per grid cell are drawn,
        as stated in the subtitle.

    Examples
    --------
    >>> charts.step_times(analysis.step_times(traces))  # doctest: +SKIP

    Use one row per data-parallel group and step:

    >>> groups = analysis.parallel_groups(traces)  # doctest: +SKIP
    >>> data = groups[groups["kind"] == "data"]  # doctest: +SKIP
    >>> charts.step_times(analysis.step_times(traces), groups=data)  # doctest: +SKIP
    """
    frame = analysis_frame("step_times", frame, options, "rank step")
    style = FigureStyle(title or _TITLES[measure], theme_of(theme), width)
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
    data = _color_dots(data, marked, style.theme)
    theme, orders = style.theme, set(data["order"])
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
    """Return the dots, with their rows and deviations, and the names of the rows."""
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
    """Return the dots to draw, and a note if some are left out."""
    if len(dots) <= _MAX_DOTS:
        return dots, ""
    # Give each outlier its own grid, so that none is dropped.
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
    """Assign one row per group and step (or per group if too many); return the row names."""
    names, group = groups_of_ranks(groups, dots["rank"])
    if (group < 0).any():
        names.append("no group")
        group = np.where(group < 0, len(names) - 1, group)
    dots["of_group"] = np.array(names, dtype=object)[group]
    # Groups whose ranks are all absent from the frame get no row.
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
    """Return a text for each row that names the outlier with the largest deviation."""
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
