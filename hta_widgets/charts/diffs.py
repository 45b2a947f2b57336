"""Charts that compare two runs."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any, Literal

import numpy as np
import pandas as pd

from hta_widgets.arguments import Positive, check_arguments
from hta_widgets.charts.data import (
    ChartFrame,
    ChartSource,
    analysis_frame,
    diff_frame,
    require_columns_of,
)
from hta_widgets.charts.defined import idle_cause_text
from hta_widgets.charts.figure import Figure, FigureStyle, empty_figure, unmatched_note
from hta_widgets.charts.rows import (
    Bars,
    Column,
    Dots,
    RowsContent,
    Scale,
    Tooltip,
    Whiskers,
    draw_rows,
    round_ticks,
    tick_step,
)
from hta_widgets.charts.theme import Theme, ThemeName, theme_of
from hta_widgets.panels.layers import left_edges
from hta_widgets.text import (
    MINUS,
    Number,
    axis_time,
    count,
    duration,
    duration_delta,
    mean_count,
    plural,
    share,
    share_delta,
)
from hta_widgets.trace.arrays import Ints
from hta_widgets.trace.names import disambiguate, short_name

#: Largest change, as a share of the value before, that is drawn in gray.
_SAME_RATIO = 0.02
_COLORS = "green: less, magenta: more"
_TIMES = "{before_ns:duration} → {after_ns:duration}"


def _counts_text(data: pd.DataFrame) -> list[str]:
    pairs = zip(data["before_count"], data["after_count"], strict=True)
    return [f"{mean_count(before)} → {mean_count(after)}" for before, after in pairs]


def _relative_change(data: pd.DataFrame) -> pd.Series:
    return data["diff_ns"] / data["before_ns"].where(data["before_ns"] > 0)


def _signed_bars(
    data: pd.DataFrame,
    ends: tuple[str | float, str],
    relative: pd.Series,
    is_more: pd.Series,
    theme: Theme,
) -> tuple[list[Bars], Scale]:
    """Return bars on either side of zero, colored by the sign of the change, and a scale."""
    is_same = (relative.abs() <= _SAME_RATIO).to_numpy(dtype=bool)
    signed_fill = np.where(is_more.to_numpy(dtype=bool), theme.delta[5], theme.delta[1])
    data["fill"] = np.where(is_same, theme.delta[3], signed_fill)
    data["line"] = np.where(is_same, theme.rule_strong, data["fill"])
    sides = [data[end] for end in ends if isinstance(end, str)]
    low = min(0.0, *(float(side.min()) for side in sides))
    high = max(0.0, *(float(side.max()) for side in sides))
    margin = (high - low or 1.0) * 0.02
    ticks = round_ticks(high, 2, low)
    step = tick_step(ticks, max(high, -low))
    labels = [(tick, ("+" if tick > 0 else "") + axis_time(tick, step)) for tick in ticks]
    bars = Bars(*ends, "fill", line="line")
    return [bars], Scale(high + margin, low - margin, labels, zero_line=True)


_OPS_TITLES = {"duration": "Change in time, by name", "count": "Change in calls, by name"}


@check_arguments
def diff_ops(
    frame: ChartSource,
    *,
    measure: Literal["duration", "count"] = "duration",
    top: Positive = 15,
    width: Positive | None = None,
    theme: ThemeName | Theme = "light",
    title: str | None = None,
    **options: object,
) -> Figure:
    """Draw the names whose time or count differs most between two runs.

    Parameters
    ----------
    frame : DataFrame, TraceSet, Trace or Selection
        Result of `hta_widgets.analysis.diff_ops`, or traces to analyze.
    measure : {"duration", "count"}, default "duration"
        Whether to compare times or call counts.
    top : int, default 15
        Number of names to draw. The subtitle states how many others differ.
    width, theme, title : int, {"light", "dark"} or Theme, and str, optional
        Width in CSS px. Default: the width of the output area.
    **options
        Arguments passed to the analysis. Only valid if `frame` is not a DataFrame.

    Returns
    -------
    bokeh.plotting.figure
        One bar per name, to the right of zero if the value increased. The data source has the
        columns of the frame.

    Examples
    --------
    >>> charts.diff_ops(analysis.diff_ops(before, after))  # doctest: +SKIP
    """
    columns = "name kind before_count after_count before_ns after_ns"
    frame = analysis_frame("diff_ops", frame, options, columns)
    style = FigureStyle(title or _OPS_TITLES[measure], theme_of(theme), width)
    if frame.empty:
        return empty_figure(frame, style)
    return _draw_ops(frame, style, measure, top)


def _draw_ops(frame: pd.DataFrame, style: FigureStyle, measure: str, top: int) -> Figure:
    is_timed = measure == "duration"
    column, before = ("diff_ns", "before_ns") if is_timed else ("diff_count", "before_count")
    delta_text = duration_delta if is_timed else _count_delta
    require_columns_of(frame, "analysis.diff_ops", column)
    changed = frame[frame[column] != 0]
    if changed.empty:
        note = f"all {len(frame)} names have the same {'time' if is_timed else 'count'}"
        return empty_figure(frame, style, note=note)
    order = changed[column].abs().sort_values(ascending=False, kind="stable").index[:top]
    data = changed.loc[order].reset_index(drop=True)
    relative = data[column] / data[before].where(data[before] > 0)
    _add_op_texts(data, relative, data[column].map(delta_text))
    marks, scale = _signed_bars(data, (0.0, column), relative, data[column] > 0, style.theme)
    if not is_timed:
        scale = replace(scale, ticks=[(tick, _count_delta(tick)) for tick, _ in scale.ticks])
    # The time of a range includes its events; adding ranges would count them twice.
    total = delta_text(float(frame.loc[frame["kind"] != "annotation", column].sum()))
    others = len(changed) - len(data)
    counts = "{before_count:count} → {after_count:count}"
    return draw_rows(
        RowsContent(
            data=data,
            names=_distinct_names(data, data["kind"].astype(str)),
            marks=marks,
            scale=scale,
            head="name",
            columns=[
                Column("difference", "{diff_text}"),
                Column("", "{change_text}", 480),
                Column("count", counts, 620),
            ],
            tooltip=Tooltip(
                "@{name}",
                [
                    ("kind", "@{kind}"),
                    ("time", _TIMES),
                    ("count", counts),
                    ("difference", "@{diff_text} @{change_text}"),
                ],
            ),
        ),
        style.with_subtitle(
            "total after minus total before",
            f"all names except ranges {total}",
            f"{_COLORS}, grey: within ±2 %",
            f"{plural(others, 'other name')} with smaller differences not drawn" if others else "",
            unmatched_note(frame),
        ),
    )


def _add_op_texts(data: pd.DataFrame, relative: pd.Series, differences: pd.Series) -> None:
    data["name"] = data["name"].astype(str)
    data["change_text"] = list(map(share_delta, relative))
    data.loc[data["after_count"] == 0, "change_text"] = "gone"
    data.loc[data["before_count"] == 0, "change_text"] = "new"
    data["diff_text"] = list(differences)


def _distinct_names(data: pd.DataFrame, details: pd.Series) -> list[str]:
    """Shorten the names; names that become equal are extended by the full name or by `details`."""
    names = list(data["name"])
    return disambiguate([short_name(name) for name in names], names, list(details))


def _count_delta(number: Number) -> str:
    if not number:
        return "±0"
    return ("+" if number > 0 else MINUS) + count(abs(number))


@check_arguments
def diff_changes(
    frame: ChartFrame,
    *,
    top: Positive = 15,
    width: Positive | None = None,
    theme: ThemeName | Theme = "light",
    title: str = "Changes above noise",
) -> Figure:
    """Draw the largest changes, with regressions to the right of zero and improvements to the left.

    Parameters
    ----------
    frame : DataFrame
        Result of `hta_widgets.diff.changes`.
    top : int, default 15
        Number of changes to draw. The subtitle states how many are left out.
    width, theme, title : int, {"light", "dark"} or Theme, and str, optional
        Width in CSS px. Default: the width of the output area.

    Returns
    -------
    bokeh.plotting.figure
        One bar per change, showing the time per step after minus before. The data source has the
        columns of the frame.

    Examples
    --------
    >>> charts.diff_changes(diff.changes(both))  # doctest: +SKIP
    """
    columns = "change measure name path before_count after_count before_ns after_ns diff_ns"
    frame = diff_frame("diff_changes", frame, columns)
    style = FigureStyle(title, theme_of(theme), width)
    if frame.empty:
        return empty_figure(frame, style)
    data = frame.head(top).reset_index(drop=True)
    data = data.assign(**{name: data[name].astype(str) for name in ("change", "measure", "name")})
    relative = _relative_change(data)
    is_timed = data["change"].isin(["slower", "faster"])
    data["share_text"] = list(map(share_delta, relative))
    data.loc[~is_timed, "share_text"] = ""
    data["what"] = data["change"].where(~is_timed, data["change"] + " · " + data["measure"])
    data["diff_text"] = [duration_delta(change) for change in data["diff_ns"].round()]
    data["was"], data["now"] = data["before_ns"].round(), data["after_ns"].round()
    data["counts_text"] = _counts_text(data)
    others = len(frame) - len(data)
    marks, scale = _signed_bars(data, (0.0, "diff_ns"), relative, data["diff_ns"] > 0, style.theme)
    return draw_rows(
        RowsContent(
            data=data,
            marks=marks,
            scale=scale,
            names=_distinct_names(data, data["what"]),
            head="name",
            columns=[
                Column("change", "{what}", 460),
                Column("difference", "{diff_text}"),
                Column("", "{share_text}", 520),
                Column("per step", "{was:duration} → {now:duration}", 680),
            ],
            tooltip=Tooltip(
                "@{name}",
                [
                    ("change", "@{what}"),
                    ("time per step", "{was:duration} → {now:duration}"),
                    ("difference", "@{diff_text} @{share_text}"),
                    ("calls per step", "@{counts_text}"),
                    ("in", "@{path}"),
                ],
            ),
        ),
        style.with_subtitle(
            "time per step after minus before; mean over steps and ranks",
            _COLORS,
            f"{plural(others, 'smaller change')} not drawn" if others else "",
            unmatched_note(frame, ()),
        ),
    )


@check_arguments
def diff_names(
    frame: ChartFrame,
    *,
    top: Positive = 15,
    width: Positive | None = None,
    theme: ThemeName | Theme = "light",
    title: str = "Change in time per step, by name",
) -> Figure:
    """Draw the names whose time per step differs most.

    Parameters
    ----------
    frame : DataFrame
        Result of `hta_widgets.diff.names`.
    top : int, default 15
        Number of names to draw. The subtitle states how many others differ.
    width, theme, title : int, {"light", "dark"} or Theme, and str, optional
        Width in CSS px. Default: the width of the output area.

    Returns
    -------
    bokeh.plotting.figure
        One bar per name, as in `diff_ops`, with counts and times per step and rank.

    Examples
    --------
    >>> charts.diff_names(diff.names(both))  # doctest: +SKIP
    """
    columns = (
        "name kind diff_ns_per_step before_ns_per_step after_ns_per_step "
        "before_count_per_step after_count_per_step"
    )
    frame = diff_frame("diff_names", frame, columns)
    style = FigureStyle(title, theme_of(theme), width)
    if frame.empty:
        return empty_figure(frame, style)
    names = ("before_ns", "after_ns", "diff_ns", "before_count", "after_count")
    data = frame.assign(**{name: frame[f"{name}_per_step"] for name in names})
    return _draw_ops(data, style, "duration", top)


_WORDS = {
    "communication": "exposed communication", "communication_wait": "waiting for other ranks",
    "communication_transfer": "exposed transfer", "copies": "exposed copies", "idle": "idle device",
    "host": "host only",
}  # fmt: skip


@check_arguments
def diff_waterfall(
    frame: ChartFrame,
    *,
    top: Positive = 15,
    width: Positive | None = None,
    theme: ThemeName | Theme = "light",
    title: str = "Step time difference by part",
) -> Figure:
    """Draw the contribution of each part to the step time difference, and their sum.

    Parameters
    ----------
    frame : DataFrame
        Result of `hta_widgets.diff.waterfall`, or ``tables(diff)["mpi_times"]``.
    top : int, default 15
        Number of parts to draw. The rest share one bar, so that the bars still add up.
    width, theme, title : int, {"light", "dark"} or Theme, and str, optional
        Width in CSS px. Default: the width of the output area.

    Returns
    -------
    bokeh.plotting.figure
        One bar per part, starting where the bar above ends, and one for the total. The data source
        has the columns ``label, before_ns, after_ns, diff_ns``.

    Examples
    --------
    >>> charts.diff_waterfall(diff.waterfall(both, "cause"))  # doctest: +SKIP
    """
    frame = diff_frame("diff_waterfall", frame, "before_ns after_ns diff_ns")
    style = FigureStyle(title, theme_of(theme), width)
    if frame.empty:
        return empty_figure(frame, style)
    if "routine" not in frame:
        require_columns_of(frame, "diff.waterfall", "cause")
    changed = frame[frame["diff_ns"] != 0]
    before, after = int(frame["before_ns"].sum()), int(frame["after_ns"].sum())
    if changed.empty:
        return empty_figure(frame, style, note="every part takes the same time in both runs")
    data = _waterfall_rows(changed, before, after, top)
    is_increase = data["diff_ns"] > 0
    marks, scale = _signed_bars(
        data, ("low", "high"), _relative_change(data), is_increase, style.theme
    )
    return draw_rows(
        RowsContent(
            data=data,
            marks=marks,
            scale=scale,
            names="{label}",
            head="part",
            columns=[
                Column("difference", "{diff_ns:duration_delta}"),
                Column("of before", "{share:delta}", 480),
                Column("", _TIMES, 620),
            ],
            tooltip=Tooltip(
                "{label}",
                [
                    ("difference", "{diff_ns:duration_delta} · {share:delta} of before"),
                    ("time", _TIMES),
                ],
            ),
        ),
        style.with_subtitle(
            f"{duration(before)} → {duration(after)}{_scope_text(frame)}",
            f"each bar begins at the end of the bar above; {_COLORS}",
            unmatched_note(frame, ()),
        ),
    )


def _waterfall_rows(changed: pd.DataFrame, before: int, after: int, top: int) -> pd.DataFrame:
    """Return a row per part, one for the rest, and one for the totals `before` and `after`."""
    shown, others = changed.head(top), changed.iloc[top:]
    sums = ["before_ns", "after_ns", "diff_ns"]
    data = shown[sums].astype("int64").reset_index(drop=True)
    labels = _part_labels(shown)
    if len(others):
        data.loc[len(data)] = others[sums].sum()
        labels.append(plural(len(others), "other part"))
    data.loc[len(data)] = [before, after, after - before]
    data["label"] = [*labels, "total"]
    # Each bar starts where the bar above ends. The first bar and the total start at 0.
    ends = np.cumsum(data["diff_ns"].to_numpy())
    ends[-1] = after - before
    starts = np.array([0, *ends[:-2], 0])
    data["low"], data["high"] = np.minimum(starts, ends), np.maximum(starts, ends)
    data["share"] = data["diff_ns"] / before if before else np.nan
    return data


@check_arguments
def diff_steps(
    frame: ChartFrame,
    *,
    width: Positive | None = None,
    theme: ThemeName | Theme = "light",
    title: str = "Steps, before and after",
) -> Figure:
    """Draw the duration of each pair of steps before and after, with the spread over steps.

    Parameters
    ----------
    frame : DataFrame
        Result of `hta_widgets.diff.steps`.
    width, theme, title : int, {"light", "dark"} or Theme, and str, optional
        Width in CSS px. Default: the width of the output area.

    Returns
    -------
    bokeh.plotting.figure
        One row per pair of steps, with a dot for each run and a line between the dots. With several
        pairs, two more rows show the mean of each run, with a line that extends one standard
        deviation to either side. The data source has the columns of the frame.

    Examples
    --------
    >>> charts.diff_steps(diff.steps(both))  # doctest: +SKIP
    """
    columns = "before_step after_step before_ns after_ns diff_ns"
    frame = diff_frame("diff_steps", frame, columns)
    style = FigureStyle(title, theme_of(theme), width)
    if frame.empty:
        return empty_figure(frame, style)
    data = frame[columns.split()].astype("float64")
    data["low"] = data[["before_ns", "after_ns"]].min(axis=1)
    data["high"] = data[["before_ns", "after_ns"]].max(axis=1)
    data["diff_text"] = [duration_delta(diff_ns) for diff_ns in data["diff_ns"]]
    data["share_text"] = [share_delta(diff_ns) for diff_ns in _relative_change(data)]
    sides = zip(data["before_ns"].round(), data["after_ns"].round(), strict=True)
    data["times_text"] = [f"{duration(before)} → {duration(after)}" for before, after in sides]
    pairs = zip(frame["before_step"], frame["after_step"], strict=True)
    data["label"] = [_step_text(*pair) for pair in pairs]
    if len(data) > 1:
        means = [_mean_row(frame, side, data.columns) for side in ("before", "after")]
        data = pd.concat([data, pd.DataFrame(means)], ignore_index=True)
    highest, lowest = float(data["high"].max()), float(data["low"].min())
    spread = highest - lowest
    # If the scale started at zero, small relative differences would be invisible.
    start = 0.0 if spread > 0.25 * highest else lowest - 0.25 * (spread or highest)
    return draw_rows(
        RowsContent(
            data=data,
            names="{label}",
            marks=[
                Whiskers("low", "high", style.theme.rule_strong),
                Dots("before_ns", style.theme.ink3, 9, "before"),
                Dots("after_ns", style.theme.delta[5], 9, "after"),
            ],
            scale=Scale(highest + 0.03 * (highest - start), start, _ticks(start, highest)),
            head="step",
            columns=[
                Column("difference", "{diff_text}"),
                Column("", "{share_text}", 480),
                Column("before → after", "{times_text}", 620),
            ],
            tooltip=Tooltip("{label}", [("time", "{times_text}"), ("difference", "{diff_text}")]),
        ),
        style.with_subtitle(
            "one row per pair of steps; duration on the host",
            _p_value_text(frame.attrs.get("p_value")),
            unmatched_note(frame, ()),
        ),
    )


def _mean_row(frame: pd.DataFrame, side: str, columns: Iterable[str]) -> dict[str, Any]:
    mean, deviation = float(frame[f"{side}_ns"].mean()), frame.attrs.get(f"{side}_std_ns") or 0.0
    return dict.fromkeys(columns, np.nan) | {
        f"{side}_ns": mean, "low": mean - deviation, "high": mean + deviation,
        "label": f"mean {side}", "diff_text": "", "share_text": "",
        "times_text": f"{duration(mean)} ± {duration(deviation)}",
    }  # fmt: skip


def _part_labels(frame: pd.DataFrame) -> list[str]:
    if "routine" in frame:
        return [str(name) for name in frame["routine"]]
    causes = [_WORDS.get(str(cause), idle_cause_text(str(cause))) for cause in frame["cause"]]
    if "name" not in frame:
        return causes
    full_names = [str(name) for name in frame["name"]]
    labels = []
    for name, cause in zip(full_names, causes, strict=True):
        label = short_name(name) if name else cause
        # BytePS names a queue after the stage that it feeds.
        is_queue = cause in {"stage queue", "root wait"}
        labels.append(f"queue before {label}" if is_queue else label)
    return disambiguate(labels, full_names, causes)


def _scope_text(frame: pd.DataFrame) -> str:
    steps = frame.attrs.get("steps", 0)
    ranks = max(frame.attrs.get("before_ranks", 1), frame.attrs.get("after_ranks", 1))
    in_steps = f" in {plural(steps, 'step')}" if steps > 1 else ""
    return f"{in_steps}, mean over ranks" if ranks > 1 else in_steps


def _step_text(before: int, after: int) -> str:
    if before < 0:
        return "whole run"
    return f"step {before}" if before == after else f"step {before} → {after}"


def _p_value_text(p_value: float | None) -> str:
    if p_value is None:
        return "with one step per side, no p-value can be computed"
    pairs = "less than 1 of 1 000" if p_value < 0.001 else f"{share(p_value)} of"
    return f"the means differ as much by chance in {pairs} such pairs"


def _ticks(start: float, end: float) -> list[tuple[float, str]]:
    span = end - start
    ticks = round_ticks(span, 3)
    step = ticks[1] if len(ticks) > 1 else max(span, 1.0)
    first = np.ceil(start / step) * step
    every = np.arange(first, end + 0.01 * step, step)
    return [(float(tick), axis_time(float(tick), step)) for tick in every]


#: Smallest width of a drawn tile, as a share of the total width.
_MIN_SHARE = 0.001
#: Relative differences at which a tile gets the next darker of three shades.
_SHADE_STEPS = (0.05, 0.25, 1.0)
#: Prefix of the ranges that contain the operators of a backward pass.
_AUTOGRAD = "autograd::engine::evaluate_function: "
#: Estimated number of letters across the chart. The page hides texts wider than their tile.
_MAX_LETTERS = 120


@check_arguments
def diff_icicle(
    frame: ChartFrame,
    *,
    depth: Positive = 14,
    width: Positive | None = None,
    theme: ThemeName | Theme = "light",
    title: str = "Operators of both runs",
) -> Figure:
    """Draw the operator tree of both runs, with callers above callees.

    Parameters
    ----------
    frame : DataFrame
        Result of `hta_widgets.diff.icicle`.
    depth : int, default 14
        Number of levels.
    width, theme, title : int, {"light", "dark"} or Theme, and str, optional
        Width in CSS px. Default: the width of the output area.

    Returns
    -------
    bokeh.plotting.figure
        One tile per path, colored by its change. The width is the time per step, averaged over
        before and after so that widths add up. Tiles narrower than 0.1 % of the total are left out.
        The data source has the columns of the frame.

    Examples
    --------
    >>> charts.diff_icicle(diff.icicle(both))  # doctest: +SKIP
    """
    columns = (
        "node parent depth name before_ns after_ns diff_ns diff_self_ns before_count "
        "after_count path"
    )
    frame = diff_frame("diff_icicle", frame, columns)
    style = FigureStyle(title, theme_of(theme), width)
    if frame.empty:
        return empty_figure(frame, style)
    sizes = ((frame["before_ns"] + frame["after_ns"]) / 2).to_numpy(dtype=np.float64)
    level = frame["depth"].to_numpy()
    total = float(sizes[level == 0].sum())
    if total <= 0:
        return empty_figure(frame, style, note="nothing below these operators takes time")
    left = left_edges(frame["parent"].to_numpy(), sizes)
    is_wide = sizes >= _MIN_SHARE * total
    tiles = frame.assign(low=left, high=left + sizes, row=frame["depth"])
    drawn = tiles[is_wide & (level < depth)].reset_index(drop=True)
    data = _icicle_tiles(drawn, total, style.theme)
    deeper = int((is_wide & (level >= depth)).sum())
    narrow = int((~is_wide).sum())
    measure = str(frame.attrs.get("measure", ""))
    on_measure = f" on the {measure}" if measure else ""
    bars = Bars(
        "low", "high", "fill", line=style.theme.bg, text="label", text_color="ink", height=0.96
    )
    return draw_rows(
        RowsContent(
            data=data,
            names=[""] * (int(data["depth"].max()) + 1),
            marks=[bars],
            scale=Scale(total),
            pitch=20.0,
            tooltip=Tooltip(
                "@{name}",
                [
                    ("time per step", "{before_whole:duration} → {after_whole:duration}"),
                    ("difference", "{diff_whole:duration_delta} {share_text}"),
                    ("self", "{diff_self_whole:duration_delta}"),
                    ("calls per step", "@{counts_text}"),
                    ("in", "@{path}"),
                ],
            ),
        ),
        style.with_subtitle(
            f"width: time{on_measure} per step, mean of both runs",
            _COLORS,
            f"{plural(narrow, 'narrow tile')} not drawn" if narrow else "",
            f"{plural(deeper, 'tile')} on deeper levels not drawn" if deeper else "",
            unmatched_note(frame, ()),
        ),
    )


def _icicle_tiles(data: pd.DataFrame, total: float, theme: Theme) -> pd.DataFrame:
    data["name"] = data["name"].astype(str)
    sizes = (data["before_ns"] + data["after_ns"]) / 2
    data["label"] = [
        _tile_label(name, int(_MAX_LETTERS * tile_size / total))
        for name, tile_size in zip(data["name"], sizes, strict=True)
    ]
    shades = _shade_index(data).tolist()
    data["fill"] = [theme.delta[shade] for shade in shades]
    # Texts have the background color on the dark ends of the ramp, and the ink color in the pale
    # middle.
    data["ink"] = [theme.bg if shade in {0, 1, 5, 6} else theme.ink for shade in shades]
    data["share_text"] = list(map(share_delta, _relative_change(data)))
    data.loc[data["before_ns"] == 0, "share_text"] = "new"
    data["counts_text"] = _counts_text(data)
    for name in ("before", "after", "diff", "diff_self"):
        data[f"{name}_whole"] = data[f"{name}_ns"].round()
    return data


def _tile_label(name: str, letters: int) -> str:
    label = short_name(name).removeprefix(_AUTOGRAD)
    return label if len(label) <= letters or letters < 6 else f"{label[: letters - 1]}…"


def _shade_index(data: pd.DataFrame) -> Ints:
    """Return each tile's color index in `Theme.delta`, based on its relative change."""
    change = _relative_change(data).fillna(np.inf).where(data["diff_ns"] != 0, 0.0)
    steps = np.searchsorted(np.array(_SHADE_STEPS), change.abs(), side="right")
    # Index 3, the middle of the ramp, means no change.
    shades: Ints = 3 + steps * np.sign(data["diff_ns"].to_numpy()).astype(np.int64)
    return shades
