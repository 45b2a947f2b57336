"""Charts of stragglers, the ranks that others wait for, and of the time lost in each step."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any, Literal, NamedTuple

import numpy as np
import pandas as pd

from hta_widgets.arguments import Positive, check_arguments
from hta_widgets.charts.data import ChartSource, analysis_frame, color_ramp, largest_of_cells
from hta_widgets.charts.defined import styled_bars
from hta_widgets.charts.figure import Figure, FigureStyle, empty_figure, unmatched_note
from hta_widgets.charts.rows import (
    NAMED_ROWS,
    Bars,
    Column,
    RowsContent,
    Scale,
    Tooltip,
    draw_rows,
    time_scale,
)
from hta_widgets.charts.theme import Theme, ThemeName, blend, theme_of
from hta_widgets.text import count, duration, plural, rank_list
from hta_widgets.trace.arrays import Array, Ints

_SHADES = 64
_LEFT_OUT = "collectives outside the steps are left out"

#: Maximum number of ranks with their own row. If there are more, only stragglers and the first
#: `_TOP` ranks have one.
_MAX_ROWS = 24
_TOP = 16


@check_arguments
def stragglers(
    frame: ChartSource,
    *,
    width: Positive | None = None,
    theme: ThemeName | Theme = "light",
    title: str = "Wait imposed on other ranks",
    **options: object,
) -> Figure:
    """Draw how long other ranks wait for each rank, and why it is late.

    Parameters
    ----------
    frame : DataFrame, TraceSet, Trace or Selection
        Result of `hta_widgets.analysis.stragglers`, or traces to analyze.
    width, theme, title : int, {"light", "dark"} or Theme, and str, optional
        Width in CSS px. Default: the width of the output area.
    **options
        Arguments passed to the analysis. Only valid if `frame` is not a DataFrame.

    Returns
    -------
    bokeh.plotting.figure
        One bar per rank, longest imposed wait first. The data source holds the frame's rows. With
        more than 24 ranks, the first 16 and all stragglers have their own row; the rest share one.

    Examples
    --------
    >>> charts.stragglers(analysis.stragglers(traces))  # doctest: +SKIP
    """
    frame = analysis_frame("stragglers", frame, options, "rank score late_ns_mean imposed_wait_ns")
    style = FigureStyle(title, theme_of(theme), width)
    if frame.empty:
        return empty_figure(frame, style)
    theme, ranks = style.theme, _sort_ranks(frame)
    data, names = _top_ranks(ranks)
    _add_bar_columns(data, theme)
    has_loss = "lost_ns" in frame
    late = styled_bars("late", 0.0, "", "straggler", theme)
    lost = replace(styled_bars("wait", 0.0, "lost_to_ns", "", theme), height=0.4)
    return draw_rows(
        RowsContent(
            data=data,
            names=names,
            marks=[Bars(0.0, "imposed_to_ns", "fill", line="line"), *([lost] if has_loss else [])],
            scale=time_scale(float(data["imposed_wait_ns"].max())),
            head=" ",
            legend=[
                *([late] if data["is_straggler"].any() else []),
                Bars(0.0, "", theme.idle, "rank", line=theme.idle_line),
                *([replace(lost, name="exposed")] if has_loss else []),
            ],
            columns=[
                Column("cause", "{why}"),
                Column("the others wait", "{imposed_wait_ns:duration}", 560),
                Column("last in", "{score:share}", 680),
                Column("lost to the rank", "{lost_share:share}", 800),
            ],
            tooltip=Tooltip(
                "rank @{rank}",
                [
                    ("cause", "@{why}"),
                    ("the others wait", "{imposed_wait_ns:duration}"),
                    ("exposed, not inherited", "{lost_ns:duration}"),
                    ("share of the others' time", "{lost_share:share}"),
                    ("last in", "{score:share}"),
                    ("mean delay from the median", "@{late_text}"),
                    ("host", "@{host}"),
                ],
            ),
        ),
        style.with_subtitle(
            "total time that the other ranks wait in collectives for the last rank to arrive",
            _straggler_finding(ranks),
            unmatched_note(frame),
        ),
    )


def _add_bar_columns(data: pd.DataFrame, theme: Theme) -> None:
    is_straggler = data["is_straggler"].to_numpy(bool)
    data["fill"] = np.where(is_straggler, theme.late_fill, theme.idle)
    data["line"] = np.where(is_straggler, theme.late, theme.idle_line)
    # A bar of length 0 would still show its outline.
    data["imposed_to_ns"] = data["imposed_wait_ns"].where(data["imposed_wait_ns"] > 0)
    data["lost_to_ns"] = data["lost_ns"].where(data["lost_ns"] > 0)
    data["late_text"] = [
        f"{duration(-late_ns)} early" if late_ns < 0 else duration(late_ns)
        for late_ns in data["late_ns_mean"]
    ]
    data["why"] = [
        _cause_text(cause, pattern, is_straggler=is_late)
        for cause, pattern, is_late in zip(
            data["cause"], data["pattern"], is_straggler, strict=True
        )
    ]


def _sort_ranks(frame: pd.DataFrame) -> pd.DataFrame:
    # Frames that lack these columns can be drawn, but show no stragglers.
    texts = dict.fromkeys(("cause", "pattern", "host"), "")
    defaults: dict[str, Any] = {"is_straggler": False, "lost_ns": 0, "lost_share": np.nan, **texts}
    ranks = frame.assign(**{name: defaults[name] for name in defaults if name not in frame})
    return ranks.sort_values(
        ["imposed_wait_ns", "lost_ns", "rank"], ascending=[False, False, True], kind="stable"
    ).reset_index(drop=True)


def _top_ranks(ranks: pd.DataFrame) -> tuple[pd.DataFrame, list[str]]:
    """Return the ranks to draw, one row for the others, and the names of the rows."""
    is_drawn = ranks["is_straggler"].to_numpy(bool) | (np.arange(len(ranks)) < _TOP)
    if len(ranks) <= _MAX_ROWS:
        is_drawn[:] = True
    data, others = ranks[is_drawn].reset_index(drop=True), ranks[~is_drawn]
    names = [f"rank {rank}" for rank in data["rank"]]
    if len(others):
        names.append(plural(len(others), "other rank"))
        data = pd.concat([data, _sum_others(others)], ignore_index=True)
    return data, names


def _sum_others(others: pd.DataFrame) -> pd.DataFrame:
    """Combine ranks into one row: sum waits and lost time, and average other numbers."""
    added = {"imposed_wait_ns", "lost_ns", "wait_ns"}
    row: dict[str, Any] = dict.fromkeys(map(str, others), "")
    for name, values in others.select_dtypes("number").items():
        row[str(name)] = values.sum() if name in added else values.mean()
    row |= {"rank": -1, "is_straggler": False, "host": "", "cause": "", "pattern": ""}
    return pd.DataFrame([row])


def _cause_text(cause: str, pattern: str, *, is_straggler: bool) -> str:
    if cause and not is_straggler:
        # In parentheses, because the rank inherits the delay rather than causing it.
        return f"({cause})"
    return f"{cause}, at times" if pattern == "occasional" else cause


def _straggler_finding(ranks: pd.DataFrame) -> str:
    straggler_rows = ranks[ranks["is_straggler"].to_numpy(bool)]
    if straggler_rows.empty:
        return f"none of {plural(len(ranks), 'rank')} is a straggler"
    first = straggler_rows.iloc[0]
    if len(straggler_rows) > 1:
        return f"{rank_list(straggler_rows['rank'].tolist())} are stragglers"
    steps = "some" if first["pattern"] == "occasional" else "most"
    cause = first["cause"] or "for an unknown reason"
    return f"rank {first['rank']} is late in {steps} steps, {cause}"


#: Maximum number of ranks with their own row if there are more than `NAMED_ROWS`.
_MAX_TOP = 40
#: Maximum number of columns. If there are more steps, several share a cell.
_MAX_STEPS = 300
#: Smallest share of lost time drawn as costly, the same as in `analysis.stragglers`.
_COSTLY = 0.05
#: Share of lost time from which a cell has the darkest color, even if other steps cost more.
_STALL = 0.25


class _Measure(NamedTuple):
    column: str  # of cells
    sum_column: str  # shown at the right, summed per rank
    sum_head: str
    title: str
    explanation: str


_MEASURES = {
    "lost_share": _Measure(
        "lost_share",
        "lost_ns",
        "lost",
        "Time lost to each rank, by step",
        "share of the others' time that is exposed waiting for the rank",
    ),
    "imposed_wait": _Measure(
        "imposed_wait_ns",
        "imposed_wait_ns",
        "total",
        "Wait imposed on other ranks, by step",
        "total time that the others wait in collectives for the last rank to arrive",
    ),
}


@check_arguments
def stragglers_by_step(
    frame: ChartSource,
    *,
    measure: Literal["lost_share", "imposed_wait"] = "lost_share",
    width: Positive | None = None,
    theme: ThemeName | Theme = "light",
    title: str = "",
    **options: object,
) -> Figure:
    """Draw, for each step and rank, how much time other ranks lose by waiting for that rank.

    Parameters
    ----------
    frame : DataFrame, TraceSet, Trace or Selection
        Result of `hta_widgets.analysis.stragglers_by_step`, or traces to analyze.
    measure : {"lost_share", "imposed_wait"}, default "lost_share"
        Draw the share of the step lost by other ranks, or their total wait for the rank, including
        waits hidden behind compute.
    width, theme, title : int, {"light", "dark"} or Theme, and str, optional
        Width in CSS px. Default: the width of the output area.
    **options
        Arguments passed to the analysis. Only valid if `frame` is not a DataFrame.

    Returns
    -------
    bokeh.plotting.figure
        One row per rank and one cell per step, so a rank that is always slow shows as a colored
        row, and a rank that was slow once as a single colored cell. A step is costly if the loss is
        at least 5 %. The data source holds the frame's rows. Collectives outside of steps, such as
        during setup, are left out. With more than 64 ranks, the costliest have their own row and
        the rest share one. With more than 300 steps, a cell covers several and shows the costliest.

    Examples
    --------
    >>> charts.stragglers_by_step(analysis.stragglers_by_step(traces))  # doctest: +SKIP
    """
    columns = "rank step imposed_wait_ns lost_ns lost_share"
    frame = analysis_frame("stragglers_by_step", frame, options, columns)
    measured = _MEASURES[measure]
    style = FigureStyle(title or measured.title, theme_of(theme), width)
    if frame.empty:
        return empty_figure(frame, style)
    is_outside = frame["step"] < 0
    left_out = _LEFT_OUT if is_outside.any() else ""
    frame = frame[~is_outside]
    if frame.empty:
        return empty_figure(frame, style, note=left_out)
    steps = np.unique(frame["step"])
    names, cells, by_row = _rows_and_sums(frame, measured.column)
    data, fold = _costliest_cells(cells, steps)
    kind = "step" if str(frame.attrs.get("steps", "ProfilerStep")) == "ProfilerStep" else "stretch"
    return draw_rows(
        RowsContent(
            data=data,
            names=names,
            marks=[Bars("left", "right", "fill", line="fill")],
            scale=Scale(float(len(steps)), ticks=_ticks(steps)),
            legend=_add_colors(data, style.theme, measure),
            head=" ",
            columns=[
                Column(f"costly {kind}s" if kind == "step" else "costly", _costly_texts(by_row)),
                Column(measured.sum_head, list(map(duration, by_row[measured.sum_column])), 520),
            ],
            tooltip=Tooltip(
                f"rank @{{rank}} · {kind} @{{step}}",
                [
                    ("the others lose", "{lost_ns:duration} · {lost_share:share}"),
                    ("the others wait", "{imposed_wait_ns:duration}"),
                    *([("last in", "{score:share} of collectives")] if "score" in data else []),
                    *([("collectives", "@{collectives}")] if "collectives" in data else []),
                ],
            ),
        ),
        style.with_subtitle(
            f"{measured.explanation}; {_count_text(len(steps), kind)} from left to right",
            f"each cell the costliest of {count(fold)}" if fold > 1 else "",
            _steps_finding(cells, kind),
            left_out,
            unmatched_note(frame),
        ),
    )


def _rows_and_sums(
    frame: pd.DataFrame, column: str
) -> tuple[list[str], pd.DataFrame, pd.DataFrame]:
    """Return the row names, the cells with their rows, and sums by row. Cells show `column`."""
    costs = frame.reset_index(drop=True)
    costs["shown"] = costs[column].fillna(0.0).astype(float)
    costs["is_costly"] = costs["lost_share"].fillna(0.0) >= _COSTLY
    ranks = np.unique(costs["rank"])
    groups = costs.groupby("rank", sort=True)
    sums = groups[["lost_ns", "imposed_wait_ns", "shown"]].sum()
    sums["costly"] = groups["is_costly"].sum()
    sums["steps"] = groups.size()
    shown = ranks
    if len(ranks) > NAMED_ROWS:
        order = sums.sort_values(["costly", "shown"], ascending=False, kind="stable").index
        max_rows = max(_TOP, min(_MAX_TOP, int((sums["costly"] > 0).sum())))
        shown = np.sort(order[:max_rows].to_numpy())
    others = ranks[~np.isin(ranks, shown)]
    row_of = {rank: row for row, rank in enumerate(shown)}
    cells = costs.assign(row=[row_of.get(rank, len(shown)) for rank in costs["rank"]])
    names = [f"rank {rank}" for rank in shown]
    by_row = sums.loc[shown].reset_index(drop=True)
    if len(others):
        names.append(plural(len(others), "other rank"))
        others_row = sums.loc[others].sum().to_frame().T
        # Steps that are costly on several ranks would be counted several times.
        others_row["costly"] = 0
        by_row = pd.concat([by_row, others_row], ignore_index=True)
    return names, cells, by_row


def _costly_texts(by_row: pd.DataFrame) -> list[str]:
    return [
        f"{count(costly)} of {count(steps)}" if costly else ""
        for costly, steps in zip(by_row["costly"], by_row["steps"], strict=True)
    ]


def _costliest_cells(cells: pd.DataFrame, steps: Ints) -> tuple[pd.DataFrame, int]:
    """Reduce each group of `fold` steps to its costliest cell; return the cells and `fold`."""
    fold = max(1, math.ceil(len(steps) / _MAX_STEPS))
    cells["left"] = np.searchsorted(steps, cells["step"]) // fold * fold
    data = largest_of_cells(cells, "shown")
    data["right"] = np.minimum(data["left"] + fold, len(steps))
    return data, fold


def _add_colors(data: pd.DataFrame, theme: Theme, measure: str) -> list[Bars]:
    """Add the column `fill` to the cells, and return the entries of the legend."""
    shown = data["shown"].to_numpy(float)
    late, pale = theme.late, blend(theme.late_fill, theme.lane, 0.7)
    # Costly cells start at a clearly darker color, so they need no outline.
    costly = blend(late, theme.late_fill, 0.4)
    if measure == "lost_share":
        cheap_shades = np.array(color_ramp((theme.lane, pale), _SHADES))
        costly_shades = np.array(color_ramp((costly, late), _SHADES))
        cheap_share = np.clip(shown / _COSTLY, 0, 1)
        costly_share = np.clip((shown - _COSTLY) / (_STALL - _COSTLY), 0, 1)
        data["fill"] = np.where(
            data["is_costly"],
            costly_shades[(costly_share * (_SHADES - 1)).astype(int)],
            cheap_shades[(cheap_share * (_SHADES - 1)).astype(int)],
        )
        return [
            Bars(0.0, "", late, f"{_percent(_STALL)} or more"),
            Bars(0.0, "", costly, f"{_percent(_COSTLY)} or more, costly"),
            Bars(0.0, "", pale, "less", line=theme.rule),
        ]
    largest = float(shown.max()) or 1.0
    shades = np.array(color_ramp((theme.lane, pale, late), _SHADES))
    data["fill"] = shades[np.ceil(shown / largest * (_SHADES - 1)).astype(int)]
    return [
        Bars(0.0, "", late, duration(largest)),
        Bars(0.0, "", costly, "less"),
        Bars(0.0, "", theme.lane, "none", line=theme.rule),
    ]


def _percent(part: float) -> str:
    return f"{round(part * 100)}\u202f%"


def _ticks(steps: Array) -> list[tuple[float, str]]:
    distance = max(1, math.ceil(len(steps) / 10))
    return [(index + 0.5, str(steps[index])) for index in range(0, len(steps), distance)]


def _count_text(number: int, kind: str) -> str:
    return plural(number, kind) if kind == "step" or number == 1 else f"{count(number)} stretches"


def _steps_finding(costs: pd.DataFrame, kind: str) -> str:
    costly = costs[costs["is_costly"]]
    limit = _percent(_COSTLY)
    if costly.empty:
        return f"none costs {limit} of a {kind} or more"
    costly_count = costly.groupby("rank").size().sort_values(ascending=False, kind="stable")
    step_count = costs.groupby("rank").size().reindex(costly_count.index)
    if len(costly_count) == 1:
        where = _costly_steps_text(costly["step"].tolist(), int(step_count.iloc[0]), kind)
        return f"rank {costly_count.index[0]} costs {limit} or more {where}"
    often = costly_count.index[costly_count > step_count / 2]
    if often.empty:
        ranks = rank_list(costly_count.index.tolist())
        return f"{ranks} cost {limit} or more at times, none in most"
    verb = "costs" if len(often) == 1 else "cost"
    others = costly_count.index.difference(often).tolist()
    at_times = f", {rank_list(others)} at times" if others else ""
    return f"{rank_list(often.tolist())} {verb} {limit} or more in most{at_times}"


def _costly_steps_text(costly_steps: list[int], step_count: int, kind: str) -> str:
    if len(costly_steps) == 1 < step_count:
        return f"only in {kind} {costly_steps[0]}"
    steps = _count_text(step_count, kind)
    if len(costly_steps) == step_count:
        return f"in each of {steps}"
    return f"in {count(len(costly_steps))} of {steps}"
