"""Charts of rows as Bokeh figures, drawn from the JSON files in ``definitions``.

``js/src/charts/defined.ts`` reads the same files for dashboards; docs/changing.md describes their
format. Similar ranks are folded into one row or mark, which shows their mean and the range of one
measure (``folding.ts`` in the page).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pandas as pd

from hta_widgets.charts import definition as specs
from hta_widgets.charts.data import ChartSource, analysis_frame, color_ramp, require_columns_of
from hta_widgets.charts.figure import (
    Figure,
    FigureStyle,
    empty_figure,
    join_sentences,
    text_on,
    unmatched_note,
)
from hta_widgets.charts.language import (
    CELLS,
    Scope,
    aggregate,
    column,
    combination_codes,
    evaluate,
    fill_template,
    is_rows,
)
from hta_widgets.charts.rows import (
    Bars,
    Column,
    Dots,
    RowsContent,
    Scale,
    Tooltip,
    Whiskers,
    round_ticks,
    rows_chart,
    tick_step,
)
from hta_widgets.charts.theme import Theme, ThemeName, blend, theme_of
from hta_widgets.errors import TraceError
from hta_widgets.facts import facts
from hta_widgets.text import (
    axis_time,
    consecutive_runs,
    count,
    duration,
    rank_list,
    run_text,
    share,
    share_delta,
)

#: Maps each rank that shares a row to all ranks of that row, in ascending order.
Groups = Mapping[int, Sequence[int]]


def folded_groups(frame: pd.DataFrame) -> Groups:
    """Map each rank to its group in the frame's attribute ``folded``, largest groups first.

    Ranks named in the headline are left out and keep rows of their own.
    """
    marked = {*frame.attrs.get("late_ranks", ()), *frame.attrs.get("fact_ranks", ())}
    foldable = set(frame["rank"].tolist()) - marked if "rank" in frame else set()
    members = [sorted(foldable.intersection(ranks)) for ranks in frame.attrs.get("folded", ())]
    groups = sorted(
        (ranks for ranks in members if len(ranks) > 1), key=lambda ranks: (-len(ranks), ranks)
    )
    return {rank: ranks for ranks in groups for rank in ranks}


def row_name(ranks: Sequence[int]) -> str:
    """Return ``rank 5`` or ``59 ranks: 0–4, 6 …``."""
    if len(ranks) == 1:
        return f"rank {ranks[0]}"
    runs = [run_text(run) for run in consecutive_runs(ranks)]
    return f"{count(len(ranks))} ranks: {', '.join(runs[:2])}{' …' if len(runs) > 2 else ''}"


#: Appended to the subtitle if ranks share rows.
TOGETHER = "similar ranks share a row: mean"


def set_members(scope: Scope, members: Sequence[Sequence[int]]) -> None:
    """Set ``members``, the ranks of each item, and ``who``, a label for them."""
    scope["members"] = np.empty(len(members), object)
    scope["members"][:] = [list(ranks) for ranks in members]
    scope["who"] = np.array([row_name(ranks) for ranks in members], object)


def fold_items(
    scope: Scope, fold: specs.FoldSpec, groups: Groups, apart: Sequence[Any] = ()
) -> None:
    """Fold the items of a scope, so that each group becomes one item per value of `apart`.

    Without `apart`, ranks outside any group come first. Adds ``members``, ``who``, ``mean_of``,
    ``fold_low``, ``fold_high`` and ``spread_text`` to the scope.
    """
    items, spread = len(scope["rank"]), fold.spread
    group = _group_numbers(scope, fold, groups)
    columns = [name for name, value in scope.items() if is_rows(value) and len(value) == items]
    if not apart:
        order = np.argsort(group, kind="stable")
        scope |= {name: scope[name][order] for name in columns}
        group = group[order]
    rank = scope["rank"]
    values = np.broadcast_to(evaluate(spread.of, scope), items)
    line_at = spread.of if spread.at is None else spread.at
    positions = np.broadcast_to(evaluate(line_at, scope), items)
    # Groups have negative numbers, to distinguish them from ranks.
    group_or_rank = np.where(group > 0, -group, rank)
    folds = combination_codes([*apart, group_or_rank, *(scope[name] for name in fold.each)])

    def reduce_folds(function: str, *columns: object) -> Any:
        return aggregate(function, columns, {"by": folds})

    members = [sorted({int(number) for number in ranks}) for ranks in reduce_folds("lists", rank)]
    is_single = np.array([len(ranks) == 1 for ranks in members])
    for name in columns:
        rule = "min" if name == "rank" else fold.by.get(name, "mean")
        scope[name] = _reduce_column(scope[name], rule, reduce_folds)
    set_members(scope, members)
    scope["fold_low"] = np.where(is_single, np.nan, reduce_folds("min", positions).astype(float))
    scope["fold_high"] = np.where(is_single, np.nan, reduce_folds("max", positions).astype(float))
    ends = {
        "low": reduce_folds("min", values),
        "high": reduce_folds("max", values),
        "rank_of_low": reduce_folds("pick", rank, -values),
        "rank_of_high": reduce_folds("pick", rank, values),
    }
    low, high = (f"{{{end}:{spread.format}}} (rank {{rank_of_{end}}})" for end in ("low", "high"))
    scope["spread_text"] = np.where(is_single, "", fill_template(f"{low} – {high}", ends))
    scope["mean_of"] = np.array(
        ["" if len(ranks) == 1 else rank_list(ranks, 8) for ranks in members], object
    )


def _group_numbers(scope: Scope, fold: specs.FoldSpec, groups: Groups) -> np.ndarray:
    """Return the group number of each item, counted from 1; 0 if the item is not folded."""
    distinct_groups = dict.fromkeys(map(tuple, groups.values()))
    number_of = {rank: number for number, ranks in enumerate(distinct_groups, 1) for rank in ranks}
    numbers = np.array([number_of.get(int(rank), 0) for rank in scope["rank"]], int)
    if fold.keep is None:
        return numbers
    return np.where(np.asarray(evaluate(fold.keep, scope), bool), 0, numbers)


def _reduce_column(values: Any, rule: str, reduce_folds: Callable[..., Any]) -> Any:
    """Return one value per fold: an aggregate, or with the rule ``same`` the common value."""
    is_text = np.asarray(values).dtype.kind in "OU"
    if rule != "same":
        return reduce_folds("first" if is_text else rule, values)
    is_same = reduce_folds("distinct", values) == 1
    return np.where(is_same, reduce_folds("first", values), "" if is_text else np.nan)


def with_folded_groups(frame: pd.DataFrame, clusters: pd.DataFrame | None) -> pd.DataFrame:
    """Return the frame with the clusters of `rank_clusters` in its attribute ``folded``."""
    if clusters is None:
        return frame
    require_columns_of(clusters, "analysis.rank_clusters", "cluster rank")
    folded = frame.copy(deep=False)
    groups = clusters.groupby("cluster")["rank"].agg(list).tolist()
    folded.attrs = {**frame.attrs, "folded": [ranks for ranks in groups if len(ranks) > 1]}
    return folded


def draw_analysis(
    name: str,
    source: ChartSource,
    options: Mapping[str, Any],
    width: int | None,
    theme: ThemeName | Theme,
    title: str,
    clusters: pd.DataFrame | None = None,
) -> Figure:
    """Draw the result of an analysis according to the chart definition `name`.

    If `source` holds traces, the definition's analysis is run on them first.
    """
    frame = analysis_frame(specs.rows_definition(name).analysis, source, options)
    return draw_definition(name, frame, width, theme, title, clusters)


def draw_definition(
    name: str,
    frame: pd.DataFrame,
    width: int | None = None,
    theme: ThemeName | Theme = "light",
    title: str = "",
    clusters: pd.DataFrame | None = None,
) -> Figure:
    """Draw a frame according to the chart definition `name`; ranks of a cluster share a row."""
    title = fill_device_word(title or specs.rows_definition(name).title, frame)
    style = FigureStyle(title, theme_of(theme), width)
    content, style, note = rows_content(name, frame, style, clusters)
    return empty_figure(frame, style, note=note) if content is None else rows_chart(content, style)


def fill_device_word(text: str, frame: pd.DataFrame) -> str:
    """Replace ``{device_word}`` in a string with the frame's word for devices, such as ``NPU``."""
    return text.replace("{device_word}", str(frame.attrs.get("device_word", "GPU")))


def rows_content(
    name: str, frame: pd.DataFrame, style: FigureStyle, clusters: pd.DataFrame | None = None
) -> tuple[RowsContent | None, FigureStyle, str]:
    """Return the content (None if nothing is drawn), the style with a subtitle, and a note."""
    definition = specs.rows_definition(name)
    if frame.empty:
        return None, style, ""
    source = f"analysis.{definition.analysis}" if definition.analysis else f"panel.{name}"
    require_columns_of(frame, source, " ".join(definition.needs))
    frame = with_folded_groups(frame, clusters)
    # Texts and the scale cover all ranks, whether folded or not.
    scope_of_all, drawn_frame = chart_scope(definition, frame)
    if drawn_frame.empty:
        return None, style, ""
    if definition.empty is not None and evaluate(definition.empty.when, scope_of_all):
        note = str(frame.attrs.get("note", "")) or definition.empty.text
        return None, style, note
    groups = folded_groups(frame) if definition.fold else {}
    if not groups:
        content = _make_content(definition, drawn_frame, scope_of_all, scope_of_all, style.theme)
        return content, style.with_subtitle(subtitle_of(definition, drawn_frame, scope_of_all)), ""
    scope = fold_scope(definition, frame, scope_of_all, groups)
    # This call sets ``ends`` and ``parts``, which the scale and the subtitle may use.
    _add_stack(definition, scope_of_all, {}, style.theme)
    folded_frame = _folded_frame(scope, drawn_frame)
    content = _make_content(definition, folded_frame, scope, scope_of_all, style.theme)
    subtitle = subtitle_of(definition, drawn_frame, scope_of_all)
    line = f"line: min to max {_fold_of(definition).spread.name}"
    return content, style.with_subtitle(subtitle, f"{TOGETHER}, {line}"), ""


def _make_content(
    definition: specs.RowsDefinition,
    frame: pd.DataFrame,
    scope: Scope,
    scope_of_all: Scope,
    colors: Theme,
) -> RowsContent:
    """Return the content for the items of `scope`; the scale covers `scope_of_all`, unfolded."""
    is_folded = scope is not scope_of_all
    if isinstance(definition.stack, specs.PartStack):
        # Bars are drawn once per row, but a row has several items if the definition groups them.
        frame = frame[~pd.Series(scope["row"]).duplicated().to_numpy()]
        scope["row"] = np.arange(len(frame))
    data: dict[str, Any] = {"row": scope["row"]}
    marks, tooltip = _add_marks(definition, scope, data, colors, is_folded=is_folded)
    if definition.place is not None:
        data["row"] = evaluate(definition.place, scope)
    source_data = frame.reset_index(drop=True).assign(**data)
    if definition.order is not None:
        order = np.argsort(evaluate(definition.order, scope), kind="stable")
        source_data = source_data.iloc[order]
    pitch = definition.rows.pitch
    return RowsContent(
        data=source_data.reset_index(drop=True),
        names=list(scope["names"]),
        marks=marks,
        scale=_evaluate_scale(definition.scale, scope_of_all),
        columns=_fill_columns(definition, scope),
        tooltip=tooltip,
        head=definition.rows.head,
        pitch=None if pitch is None else evaluate(pitch, scope),
    )


def _add_marks(
    definition: specs.RowsDefinition,
    scope: Scope,
    data: dict[str, Any],
    colors: Theme,
    *,
    is_folded: bool,
) -> tuple[list[Bars | Dots | Whiskers], Tooltip]:
    """Return the marks and the tooltip; their columns are added to `data`."""
    marks, parts = _add_stack(definition, scope, data, colors)
    marks += [_add_mark(mark, scope, data, colors) for mark in definition.marks]
    if is_folded:
        # The line is drawn above bars, but below dots.
        mark_index = len(marks) if _has_rank_rows(definition) else 0
        marks.insert(mark_index, _add_spread(definition, scope, data, colors))
    return marks, _add_tooltip(definition, scope, data, parts, is_folded=is_folded)


def _fill_columns(definition: specs.Definition, scope: Scope) -> list[Column]:
    rows = definition.rows
    columns = [column for column in definition.columns if evaluate(column.when, scope)]
    return [
        Column(column.head, _fill_texts(column.text, scope), column.min_width)
        for column in (*columns, rows.ends, rows.second)
        if column is not None
    ]


def _has_rank_rows(definition: specs.Definition) -> bool:
    return definition.rows.rank is not None and definition.rows.selects == "ranks"


def _fold_of(definition: specs.Definition) -> specs.FoldSpec:
    if definition.fold is None:
        raise TypeError("this chart does not fold ranks")
    return definition.fold


def fold_scope(
    definition: specs.Definition, frame: pd.DataFrame, scope_of_all: Scope, groups: Groups
) -> Scope:
    """Return a scope in which each of the `groups` of ranks is one item."""
    if _has_rank_rows(definition):
        return chart_scope(definition, frame, groups)[0]
    scope = dict(scope_of_all)
    fold_items(scope, _fold_of(definition), groups, [scope["row"]])
    return scope


def _folded_frame(scope: Scope, frame: pd.DataFrame) -> pd.DataFrame:
    columns = {name: scope[name] for name in frame if name in scope}
    folded = pd.DataFrame({**columns, "ranks": scope["who"]}, index=range(len(scope["who"])))
    folded.attrs = frame.attrs
    return folded


def _add_spread(
    definition: specs.Definition, scope: Scope, data: dict[str, Any], colors: Theme
) -> Whiskers:
    first = np.ones(len(scope["who"]), bool)
    if _has_rank_rows(definition):
        # Draw a single line in a row that has several items.
        first = ~pd.Series(scope["row"]).duplicated().to_numpy()
    for name in ("fold_low", "fold_high"):
        data[name] = np.where(first, scope[name], np.nan)
    return Whiskers("fold_low", "fold_high", colors.ink)


def chart_scope(
    definition: specs.Definition, frame: pd.DataFrame, groups: Groups | None = None
) -> tuple[Scope, pd.DataFrame]:
    """Return the names that texts and marks may use, with their values, and the rows to draw.

    Each of the `groups` of ranks is folded into a single item.
    """
    scope: Scope = {"nan": np.nan, "device_word": fill_device_word("{device_word}", frame)}
    for name, default in definition.attrs.items():
        values = (frame.attrs.get(name), default, np.nan)
        scope[name] = next(value for value in values if value is not None)
    for name in ("late_ranks", "fact_ranks"):
        scope[name] = list(frame.attrs.get(name, ()))
    for name in (*definition.needs, *definition.uses):
        scope[name] = column(frame[name]) if name in frame else np.full(len(frame), np.nan)
    if definition.from_ is not None:
        preparation, rows = definition.from_, np.arange(len(frame))
        for name, code in preparation.let.items():
            scope[name] = evaluate(code, scope)
        if preparation.sort:
            keys = [evaluate(code, scope) for code in preparation.sort]
            # `lexsort` takes the primary key last.
            rows = np.lexsort([CELLS["order"](key) for key in reversed(keys)])
        if preparation.keep is not None:
            rows = rows[np.asarray(evaluate(preparation.keep, scope), bool)[rows]]
        attrs, frame = frame.attrs, frame.iloc[rows]
        frame.attrs = attrs
        scope = {name: value[rows] if is_rows(value) else value for name, value in scope.items()}
    if frame.empty:
        return scope, frame
    if groups:
        fold_items(scope, _fold_of(definition), groups)
    elif definition.fold is not None:
        set_members(scope, [[int(rank)] for rank in scope["rank"]])
    items = len(scope[definition.needs[0]])
    group = [np.broadcast_to(scope[name], items) for name in definition.group]
    scope["row"] = combination_codes(group) if group else np.arange(items)
    for name, code in definition.let.items():
        scope[name] = evaluate(code, scope)
    scope["names"] = fill_template(definition.rows.name, scope)
    return scope, frame


def idle_cause_text(cause: str) -> str:
    """Return the label of an idle cause, such as ``host: data loading``."""
    label: str = facts("causes").get(cause, {}).get("label", cause.replace("_", " "))
    return label


def _fill_sentences(texts: Sequence[str | specs.ConditionalText], scope: Scope) -> list[str]:
    templates = (
        text.text if isinstance(text, specs.ConditionalText) else text
        for text in texts
        if not isinstance(text, specs.ConditionalText) or evaluate(text.when, scope)
    )
    return [str(fill_template(template, scope)) for template in templates]


def subtitle_of(definition: specs.Definition, frame: pd.DataFrame, scope: Scope) -> str:
    """Return the subtitle. Sets ``finding`` in the scope first, because the subtitle may use it."""
    scope["finding"] = join_sentences(*_fill_sentences(definition.finding, scope))
    kinds = definition.unmatched
    note = "" if kinds is None else unmatched_note(frame, kinds)
    return join_sentences(*_fill_sentences(definition.subtitle, scope), note)


def _fill_texts(template: str, scope: Scope) -> list[str]:
    filled = fill_template(template, scope)
    return list(filled) if is_rows(filled) else [filled] * len(scope["names"])


@cache
def _shade_colors(stops: tuple[str, ...]) -> list[str]:
    return color_ramp(stops, 256)


def color_of(token: str, colors: Theme) -> str:
    """Return the color named `token`, such as ``late`` or ``kind.compute``."""
    name, _, kind = token.partition(".")
    color = getattr(colors, name, None)
    if color is None:
        raise TraceError(
            f"unknown color {token!r} in a chart definition",
            remedy="Use a color from facts/tokens.json, such as 'late' or 'kind.compute'.",
        )
    return str(color.get(kind, color["other"]) if kind else color)


def item_colors(color: specs.ItemColor, scope: Scope, colors: Theme) -> list[str]:
    """Evaluate a color definition and return one color per item."""

    def evaluate_items(code: specs.Code) -> Any:
        return np.broadcast_to(evaluate(code, scope), len(scope["row"]))

    if isinstance(color, specs.ColumnColor):
        return [color_of(token, colors) for token in evaluate_items(color.tokens)]
    places = evaluate_items(color.at)
    if isinstance(color, specs.RampColor):
        stops = getattr(colors, color.ramp)
        missing = color_of(color.missing, colors)
        return [missing if np.isnan(value) else _ramp_color(stops, value) for value in places]
    ends = zip(evaluate_items(color.start), evaluate_items(color.end), places, strict=True)
    return [
        _ramp_color((color_of(start, colors), color_of(end, colors)), value)
        for start, end, value in ends
    ]


def _ramp_color(stops: tuple[str, ...], value: float) -> str:
    return _shade_colors(stops)[round(float(value) * 255)]


def styled_bars(style_name: str, left: str | float, right: str, name: str, colors: Theme) -> Bars:
    """Return bars with the style `style_name` of ``bar_styles.json``."""
    style = specs.style_of(style_name)
    fill = color_of(style.fill, colors)
    line = color_of(style.line, colors) if style.line else None
    return Bars(
        left,
        right,
        fill,
        name,
        line=blend(fill, colors.bg, style.alpha) if style.outlined else line,
        hatch=style.hatch,
        hatch_color=color_of(style.hatch_color, colors) if style.hatch_color else None,
        alpha=style.alpha,
        text_color=color_of(style.on or "ink", colors),
    )


StackMarks = tuple[list[Bars | Dots | Whiskers], list[tuple[str, str]]]


def _add_stack(
    definition: specs.RowsDefinition, scope: Scope, data: dict[str, Any], colors: Theme
) -> StackMarks:
    """Add the columns of stacked bars and set ``parts``; return the marks and tooltip lines."""
    if definition.stack is None:
        return [], []
    if isinstance(definition.stack, specs.ItemStack):
        return _add_item_stack(definition.stack, scope, data, colors)
    return _add_part_stack(definition.stack, scope, data, colors)


def _add_item_stack(
    stack: specs.ItemStack, scope: Scope, data: dict[str, Any], colors: Theme
) -> StackMarks:
    size = np.maximum(np.nan_to_num(evaluate(stack.value, scope)), 0)
    right = pd.Series(size).groupby(scope["row"]).cumsum().to_numpy(float)
    data["left"] = np.where(size > 0, right - size, np.nan)
    data["right"] = np.where(size > 0, right, np.nan)
    data["part"] = [idle_cause_text(part) for part in scope[stack.by]]
    data["part_text"] = _fill_texts(stack.text, scope)
    data["inside"] = [share(part) if part > 0 else "" for part in scope[stack.share]]
    marks: list[Bars | Dots | Whiskers] = []
    shares = []
    style_names = {part: part for part in facts(stack.labels)} | stack.also
    for part, style_name in style_names.items():
        part_size = size[scope[stack.by] == part].sum()
        if part_size > 0:
            bars = styled_bars(style_name, "left", "right", idle_cause_text(part), colors)
            text = "inside" if specs.style_of(style_name).on else ""
            marks.append(replace(bars, only=(stack.by, part), text=text))
            shares.append(f"{bars.name} {share(part_size / max(size.sum(), 1))}")
    scope["parts"] = ", ".join(shares)
    return marks, [("@{part}", "@{part_text}")]


def _add_part_stack(
    stack: specs.PartStack, scope: Scope, data: dict[str, Any], colors: Theme
) -> StackMarks:
    rows = len(scope["names"])
    total = None if stack.of is None else evaluate(stack.of, scope)
    left = np.zeros(rows)
    marks: list[Bars | Dots | Whiskers] = []
    lines, shares = [], []
    for index, part in enumerate(stack.parts):
        ns = np.nan_to_num(np.broadcast_to(evaluate(part.ns, scope), rows).astype(float))
        # Differences between means are not exactly 0.
        ns[np.abs(ns) < 1e-3] = 0
        size = ns if total is None else np.divide(ns, total, out=np.zeros(rows), where=total > 0)
        name = str(fill_template(part.name, scope))
        bars = styled_bars(part.color, f"left_{index}", f"right_{index}", name, colors)
        # A bar of width 0 would still show its outline.
        is_drawn = (size > 0) | (bars.line is None)
        data[f"left_{index}"] = np.where(is_drawn, left, np.nan)
        data[f"right_{index}"] = np.where(is_drawn, left + size, np.nan)
        left = left + size
        if not (ns > 0).any():
            continue
        has_text = total is not None and bars.hatch is None
        marks.append(replace(bars, text=f"text_{index}" if has_text else ""))
        if total is not None:
            shares.append(f"{name} {share(ns.sum() / max(total.sum(), 1))}")
            data[f"text_{index}"] = [share(part_share) for part_share in size]
            data[f"time_{index}"] = [duration(time_ns) for time_ns in ns]
            lines.append((name, f"@{{time_{index}}} · @{{text_{index}}}"))
    scope["ends"] = left
    scope["parts"] = ", ".join(shares)
    return marks, lines


def _add_mark(
    mark: specs.Mark, scope: Scope, data: dict[str, Any], colors: Theme
) -> Bars | Dots | Whiskers:
    """Return a mark; the columns that it draws are added to `data`."""

    def add_column(code: object) -> Any:
        # A string names a column with one value per item; a number applies to all items.
        if isinstance(code, str):
            data[code] = np.broadcast_to(evaluate(code, scope), len(scope["row"]))
        return code

    def mark_color(color: str | specs.ItemColor) -> str:
        if isinstance(color, str):
            return color_of(color, colors)
        column = color_column(color)
        data[column] = item_colors(color, scope, colors)
        return column

    if isinstance(mark, specs.DotMark):
        return Dots(
            add_column(mark.at),
            mark_color(mark.color),
            add_column(mark.size),
            marker=add_column(mark.marker) or "",
            angle=add_column(mark.angle) or "",
        )
    left, right = add_column(mark.left), add_column(mark.right)
    if isinstance(mark, specs.LineMark):
        return Whiskers(left, right, mark_color(mark.color))
    left = left if isinstance(left, str) else float(left)
    if isinstance(mark.color, str):
        return styled_bars(mark.color, left, right, mark.name, colors)
    bars = Bars(left, right, mark_color(mark.color), mark.name)
    if mark.bar_text:
        data["inside"] = fill_template(mark.bar_text, scope)
        data["on"] = [text_on(fill) for fill in data[color_column(mark.color)]]
        return replace(bars, text="inside", text_color="on")
    if mark.hatch is None:
        return bars
    return replace(
        bars,
        hatch=add_column(mark.hatch.pattern),
        hatch_color=mark_color(mark.hatch.color),
        hatch_weight=3,
        hatch_scale=12,
    )


def color_column(color: specs.ItemColor) -> str:
    """Return the data source column that holds the colors of the items."""
    return str(color.tokens) if isinstance(color, specs.ColumnColor) else "fill"


def _evaluate_scale(scale: specs.ScaleSpec, scope: Scope) -> Scale:
    return Scale(
        float(evaluate(scale.to, scope)) or 1.0,
        float(evaluate(scale.from_, scope)),
        _scale_ticks(scale, scope),
        zero_line=bool(evaluate(scale.zero_line, scope)),
    )


def _scale_ticks(scale: specs.ScaleSpec, scope: Scope) -> list[tuple[float, str]]:
    ticks = next((ticks for ticks in scale.ticks if evaluate(ticks.when, scope)), None)
    if ticks is None:
        return []
    if isinstance(ticks, specs.PlacedTicks):
        is_drawn = np.asarray(evaluate(ticks.where, scope), bool)
        texts = fill_template(ticks.text, scope)[is_drawn]
        return list(zip(evaluate(ticks.at, scope)[is_drawn].tolist(), texts, strict=True))
    end, start, max_ticks = (
        float(evaluate(code, scope)) for code in (ticks.to, ticks.from_, ticks.max_ticks)
    )
    positions = round_ticks(end, int(max_ticks), start)
    step = tick_step(positions, end)
    return [
        (tick, ticks.zero if tick == 0 and ticks.zero else _tick_text(ticks.format, tick, step))
        for tick in positions
        if ticks.format != "count" or tick == int(tick)
    ]


def _tick_text(format_: str, tick: float, step: float) -> str:
    if format_ == "share_delta":
        return share_delta(tick)
    if format_ == "count":
        return count(tick)
    sign = "+" if format_ == "duration_delta" and tick > 0 else ""
    return sign + axis_time(tick, step)


def _add_tooltip(
    definition: specs.RowsDefinition,
    scope: Scope,
    data: dict[str, Any],
    parts: list[tuple[str, str]],
    *,
    is_folded: bool,
) -> Tooltip:
    """Return the tooltip; its texts are added as columns to `data`."""
    tooltips = [mark.tooltip for mark in definition.marks if not isinstance(mark, specs.LineMark)]
    tooltip = next(filter(None, tooltips), definition.tooltip)

    def add_texts(template: str, column: str) -> str:
        texts = fill_template(template, scope)
        if not is_rows(texts):
            return str(texts)
        # A template gives one string per item or one per row; a row may have several items.
        data[column] = texts if len(texts) == len(scope["row"]) else texts[scope["row"]]
        return f"@{{{column}}}"

    lines: list[tuple[str, str]] = []
    templates = (
        line.of if isinstance(line, specs.ConditionalLine) else line
        for line in tooltip.lines
        if not isinstance(line, specs.ConditionalLine) or evaluate(line.when, scope)
    )
    for index, (label, template) in enumerate(templates):
        if label == "{parts}":
            lines += parts
        else:
            label_column, column = f"tip_name_{index}", f"tip_{index}"
            lines.append((add_texts(label, label_column), add_texts(template, column)))
    if is_folded:
        data["tip_of"], data["tip_spread"] = scope["mean_of"], scope["spread_text"]
        lines += [("mean of", "@{tip_of}"), (_fold_of(definition).spread.name, "@{tip_spread}")]
    return Tooltip(add_texts(tooltip.heading, "tip_heading"), lines)
