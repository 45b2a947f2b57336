"""Charts of rows as Bokeh figures, drawn from the JSON files in ``definitions``.

``js/src/charts/defined.ts`` reads the same files for dashboards; docs/architecture.md describes
their format. Similar ranks fold into one row or mark, which shows their mean and the spread of one
measure (``folding.ts`` in the page).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pandas as pd

from hta_widgets.charts.data import (
    color_ramp,
    rank_list,
    require_columns_of,
)
from hta_widgets.charts.definition import Definition, definition, style_of
from hta_widgets.charts.figure import (
    FigureStyle,
    blend,
    empty_figure,
    join_sentences,
    text_on,
    unmatched_note,
)
from hta_widgets.charts.language import (
    CELLS,
    Scope,
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
)
from hta_widgets.charts.theme import Theme, ThemeName, theme_of
from hta_widgets.errors import TraceError
from hta_widgets.facts import facts
from hta_widgets.text import (
    axis_time,
    consecutive_runs,
    count,
    duration,
    run_text,
    share,
    share_delta,
)

#: By rank, the ranks that share its row, in ascending order.
Groups = Mapping[int, Sequence[int]]


def folded_groups(frame: pd.DataFrame) -> Groups:
    """Return the groups of a frame's ranks, largest first, from its attribute ``folded``.

    Ranks that the headline names are not in a group.
    """
    marked = {*frame.attrs.get("late_ranks", ()), *frame.attrs.get("fact_ranks", ())}
    there = set(frame["rank"].tolist()) - marked if "rank" in frame else set()
    given = [sorted(there.intersection(ranks)) for ranks in frame.attrs.get("folded", ())]
    groups = sorted((ranks for ranks in given if len(ranks) > 1), key=lambda one: (-len(one), one))
    return {rank: ranks for ranks in groups for rank in ranks}


def row_name(ranks: Sequence[int]) -> str:
    """Return ``rank 5`` or ``59 ranks: 0–4, 6 …``."""
    if len(ranks) == 1:
        return f"rank {ranks[0]}"
    runs = [run_text(run) for run in consecutive_runs(ranks)]
    return f"{count(len(ranks))} ranks: {', '.join(runs[:2])}{' …' if len(runs) > 2 else ''}"


#: Addition to a subtitle if ranks share rows.
TOGETHER = "similar ranks together: mean"


def folded_text(fold: Mapping[str, Any]) -> str:
    """Return `TOGETHER`, extended by what the line means in charts with a spread."""
    return f"{TOGETHER}, line: least to most {fold['spread']['name']}"


def set_members(scope: Scope, members: Sequence[Sequence[int]]) -> None:
    """Set ``members``, the ranks of each item, and ``who``, their name."""
    scope["members"] = _lists(members)
    scope["who"] = np.array([row_name(ranks) for ranks in members], object)


def _lists(values: Sequence[Any]) -> Any:
    lists = np.empty(len(values), object)
    lists[:] = [list(each) for each in values]
    return lists


def fold_items(
    scope: Scope, fold: Mapping[str, Any], groups: Groups, apart: Sequence[Any] = ()
) -> None:
    """Fold the items of a scope: each of `groups` becomes one item per value of `apart`.

    Without `apart`, single ranks come first. Adds ``members``, ``who``, ``mean_of``, ``fold_low``,
    ``fold_high`` and ``spread_text``.
    """
    items, rules, spread = len(scope["rank"]), fold.get("by", {}), fold["spread"]
    place_of: dict[int, int] = {}
    for ranks in groups.values():
        if ranks[0] not in place_of:
            place_of |= dict.fromkeys(ranks, max(place_of.values(), default=0) + 1)
    place = np.array([place_of.get(int(rank), 0) for rank in scope["rank"]], int)
    if "keep" in fold:
        place = np.where(np.asarray(evaluate(fold["keep"], scope), bool), 0, place)
    columns = [name for name, value in scope.items() if is_rows(value) and len(value) == items]
    if not apart:
        order = np.argsort(place, kind="stable")
        scope |= {name: scope[name][order] for name in columns}
        place = place[order]
    rank = scope["rank"]
    of = np.broadcast_to(evaluate(spread["of"], scope), items)
    at = np.broadcast_to(evaluate(spread.get("at", spread["of"]), scope), items)
    group_of_item = np.where(place > 0, -place, rank)
    inner = {
        "fold": combination_codes(
            [*apart, group_of_item, *(scope[name] for name in fold.get("each", ()))]
        )
    }
    inner |= {"measure": of, "position": at, "rank": rank}

    def evaluate_folded(code: str, value: Any = rank) -> Any:
        return evaluate(f"{code}, by=fold)", {**inner, "value": value})

    members = [sorted({int(number) for number in some}) for some in evaluate_folded("lists(rank")]
    alone = np.array([len(ranks) == 1 for ranks in members])
    for name in columns:
        value = scope[name]
        rule = "min" if name == "rank" else rules.get(name, "mean")
        if rule == "same":
            first = evaluate_folded("first(value", value)
            none: Any = "" if first.dtype.kind in "OU" else np.nan
            scope[name] = np.where(evaluate_folded("distinct(value", value) == 1, first, none)
        else:
            is_text = np.asarray(value).dtype.kind in "OU"
            scope[name] = evaluate_folded("first(value" if is_text else f"{rule}(value", value)
    set_members(scope, members)
    scope["fold_low"] = np.where(alone, np.nan, evaluate_folded("min(position").astype(float))
    scope["fold_high"] = np.where(alone, np.nan, evaluate_folded("max(position").astype(float))
    ends = {"low": evaluate_folded("min(measure"), "high": evaluate_folded("max(measure")}
    ends |= {
        "of_low": evaluate_folded("pick(rank, -measure"),
        "of_high": evaluate_folded("pick(rank, measure"),
    }
    how = spread["as"]
    said = fill_template(
        f"{{low:{how}}} (rank {{of_low}}) – {{high:{how}}} (rank {{of_high}})", ends
    )
    scope["spread_text"] = np.where(alone, "", said)
    scope["mean_of"] = np.array(
        ["" if len(ranks) == 1 else rank_list(ranks, 8) for ranks in members], object
    )


def with_folded_groups(frame: pd.DataFrame, clusters: pd.DataFrame | None) -> pd.DataFrame:
    """Return the frame with the clusters of `analysis.rank_clusters` as attribute ``folded``."""
    if clusters is None:
        return frame
    require_columns_of(clusters, "analysis.rank_clusters", "cluster", "rank")
    folded = frame.copy(deep=False)
    groups = clusters.groupby("cluster")["rank"].agg(list).tolist()
    folded.attrs = {**frame.attrs, "folded": [ranks for ranks in groups if len(ranks) > 1]}
    return folded


# --- charts ---------------------------------------------------------------------------------------


KINDS = ("compute", "communication", "memory")


def draw_definition(
    name: str,
    frame: pd.DataFrame,
    *,
    width: int | None = None,
    theme: ThemeName | Theme = "light",
    title: str | None = None,
    clusters: pd.DataFrame | None = None,
) -> Any:
    """Draw a frame by the definition of this name; `clusters` of ranks are drawn together."""
    look, colors = definition(name), theme_of(theme)
    style = FigureStyle(title or look["title"], colors, width)
    if frame.empty:
        return empty_figure(frame, style)
    require_columns_of(frame, _source(name, look), *look["needs"])
    frame = with_folded_groups(frame, clusters)
    given = frame
    # Texts and scale are those of all ranks, folded or not.
    whole, frame = chart_scope(look, frame)
    if frame.empty:
        return empty_figure(frame, style)
    for condition in _visible_texts([look["empty"]] if "empty" in look else [], whole):
        note = str(frame.attrs.get("note", "")) or condition["text"]
        return empty_figure(frame, style, note=note)
    groups = folded_groups(frame) if "fold" in look else {}
    scope = fold_scope(look, given, whole, groups) if groups else whole
    if groups:
        _add_stack(look, whole, {}, colors)
    subtitle = subtitle_of(look, frame, whole) if groups else ""
    if groups:
        frame = _folded_frame(scope, frame)
    if "parts" in look.get("stack", {}):
        # Bars are drawn per row; a row has several items if the definition groups them.
        frame = frame[~pd.Series(scope["row"]).duplicated().to_numpy()]
        scope["row"] = np.arange(len(frame))
    data: dict[str, Any] = {"row": scope["row"]}
    marks, parts = _add_stack(look, scope, data, colors)
    marks += [_add_mark(mark, scope, data, colors) for mark in look.get("marks", [])]
    if groups:
        # Over bars, below dots.
        at = len(marks) if _has_rank_rows(look) else 0
        marks.insert(at, _add_spread(look, scope, data, colors))
    if groups:
        style = style.with_subtitle(subtitle, folded_text(look["fold"]))
    else:
        style = style.with_subtitle(subtitle_of(look, frame, scope))
    rows = look["rows"]
    columns = [
        Column(each.get("head", ""), _fill_texts(each["text"], scope), each.get("from", 0))
        for each in (
            *_visible_texts(look.get("columns", []), scope),
            rows.get("ends"),
            rows.get("second"),
        )
        if each is not None
    ]
    tooltip = _add_tooltip(look, scope, data, parts, is_folded=bool(groups))
    if "place" in look:
        data["row"] = evaluate(look["place"], scope)
    source = frame.reset_index(drop=True).assign(**data)
    if "order" in look:
        source = source.iloc[np.argsort(evaluate(look["order"], scope), kind="stable")]
    content = RowsContent(
        data=source.reset_index(drop=True),
        names=list(scope["names"]),
        marks=marks,
        scale=_evaluate_scale(look["scale"], whole),
        columns=columns,
        tooltip=tooltip,
        head=rows.get("head", ""),
        pitch=evaluate(rows["pitch"], scope) if "pitch" in rows else None,
    )
    return rows_chart(content, style)


def _source(name: str, definition: Definition) -> str:
    return f"analysis.{definition['analysis']}" if "analysis" in definition else f"panel.{name}"


def _has_rank_rows(definition: Definition) -> bool:
    return "rank" in definition["rows"] and definition["rows"]["selects"] == "ranks"


def fold_scope(definition: Definition, frame: pd.DataFrame, whole: Scope, groups: Groups) -> Scope:
    """Return the scope in which `groups` of ranks are drawn together."""
    if _has_rank_rows(definition):
        return chart_scope(definition, frame, groups)[0]
    scope = dict(whole)
    fold_items(scope, definition["fold"], groups, [whole["row"]])
    return scope


def _folded_frame(scope: Scope, frame: pd.DataFrame) -> pd.DataFrame:
    """Return the folded items as a frame: the columns that the definition names, and ``ranks``."""
    items = len(scope["who"])
    columns = {name: scope[name] for name in frame if name in scope}
    found = pd.DataFrame({**columns, "ranks": scope["who"]}, index=range(items))
    found.attrs = frame.attrs
    return found


def _add_spread(
    definition: Definition, scope: Scope, data: dict[str, Any], colors: Theme
) -> Whiskers:
    """Add the columns of the line from the lowest to the highest folded rank; return its mark."""
    first = np.ones(len(scope["who"]), bool)
    if _has_rank_rows(definition):
        # A row of several items has one line.
        first = ~pd.Series(scope["row"]).duplicated().to_numpy()
    for name in ("fold_low", "fold_high"):
        data[name] = np.where(first, scope[name], np.nan)
    return Whiskers("fold_low", "fold_high", colors.ink)


def chart_scope(
    definition: Definition, frame: pd.DataFrame, groups: Groups | None = None
) -> tuple[Scope, pd.DataFrame]:
    """Return the values that texts and marks may name, and the rows that are drawn.

    Each of the `groups` of ranks is folded into one item.
    """
    scope: Scope = {"nan": np.nan}
    for name, least in definition.get("attrs", {}).items():
        scope[name] = frame.attrs.get(name, least)
    for name in ("late_ranks", "fact_ranks"):
        scope[name] = list(frame.attrs.get(name, ()))
    for name in (*definition["needs"], *definition.get("uses", ())):
        scope[name] = column(frame[name]) if name in frame else np.full(len(frame), np.nan)
    if "from" in definition:
        before = definition["from"]
        for name, code in before.get("let", {}).items():
            scope[name] = evaluate(code, scope)
        if "sort" in before:
            keys = [evaluate(code, scope) for code in before["sort"]]
            order = np.lexsort([CELLS["order"](key) for key in reversed(keys)])
        else:
            order = np.arange(len(frame))
        if "keep" in before:
            order = order[np.asarray(evaluate(before["keep"], scope), bool)[order]]
        attrs, frame = frame.attrs, frame.iloc[order]
        frame.attrs = attrs
        scope = {name: value[order] if is_rows(value) else value for name, value in scope.items()}
    if frame.empty:
        return scope, frame
    if groups:
        fold_items(scope, definition["fold"], groups)
    elif "fold" in definition:
        set_members(scope, [[int(rank)] for rank in scope["rank"]])
    items = len(scope[definition["needs"][0]])
    group = [np.broadcast_to(scope[name], items) for name in definition.get("group", ())]
    scope["row"] = combination_codes(group) if group else np.arange(items)
    for name, code in definition.get("let", {}).items():
        scope[name] = evaluate(code, scope)
    scope["names"] = fill_template(definition["rows"]["name"], scope)
    return scope, frame


def idle_cause_text(cause: str) -> str:
    """Return the label of a cause of idle time, such as ``host: data loading``."""
    label: str = facts("causes").get(cause, {}).get("label", cause.replace("_", " "))
    return label


def _condition_mask(item: Any, scope: Scope) -> bool:
    return not isinstance(item, dict) or bool(evaluate(item.get("when", 1), scope))


def _visible_texts(texts: Sequence[Any], scope: Scope) -> Iterator[Any]:
    for each in texts:
        if _condition_mask(each, scope):
            yield each


def _fill_sentences(texts: Sequence[Any], scope: Scope) -> list[str]:
    shown = (
        each["text"] if isinstance(each, dict) else each for each in _visible_texts(texts, scope)
    )
    return [str(fill_template(each, scope)) for each in shown]


def subtitle_of(definition: Definition, frame: pd.DataFrame, scope: Scope) -> str:
    """Return the subtitle; set ``finding`` in the scope, which subtitles may name."""
    scope["finding"] = join_sentences(*_fill_sentences(definition["finding"], scope))
    kinds = definition.get("unmatched", KINDS)
    notes = "" if kinds is None else unmatched_note(frame, kinds)
    return join_sentences(*_fill_sentences(definition["subtitle"], scope), notes)


def _fill_texts(template: str, scope: Scope) -> list[str]:
    filled = fill_template(template, scope)
    return list(filled) if is_rows(filled) else [filled] * len(scope["names"])


@cache
def _shade_colors(stops: tuple[str, ...]) -> list[str]:
    return color_ramp(stops, 256)


def color_of(token: str, colors: Theme) -> str:
    """Return a colour by its token.

    A token is the name of a colour, such as ``late`` or ``kind.compute``. ``busy 0.3`` is the
    colour at 30 % of a ramp, and ``lane>late 0.3`` the one at 30 % of the way between two colours.
    """
    name, _, part = token.partition(" ")
    if part:
        names = name.split(">")
        stops = [color_of(each, colors) for each in names] if names[1:] else getattr(colors, name)
        return _shade_colors(tuple(stops))[round(float(part) * 255)]
    name, _, kind = name.partition(".")
    color = getattr(colors, name, None)
    if color is None:
        raise TraceError(
            f"no colour {token!r} for a mark of a chart",
            remedy="Name a colour of facts/tokens.json, such as 'late' or 'kind.compute'.",
        )
    return str(color.get(kind, color["other"]) if kind else color)


def _stack_bars(style_name: str, left: str | float, right: str, name: str, colors: Theme) -> Bars:
    style = style_of(style_name)
    fill = color_of(style["fill"], colors)
    line = color_of(style["line"], colors) if "line" in style else None
    return Bars(
        left,
        right,
        fill,
        name,
        line=blend(fill, colors.bg, style["alpha"]) if "outlined" in style else line,
        hatch=style.get("hatch"),
        hatch_color=color_of(style["hatch_ink"], colors) if "hatch" in style else None,
        alpha=style.get("alpha", 1.0),
        text_color=color_of(style.get("on", "ink"), colors),
    )


def _stack_parts(definition: Definition, colors: Theme) -> list[tuple[Any, Bars]]:
    """Return the bars of a stack, each with its part or category."""
    stack = definition.get("stack", {})
    if "by" in stack:
        inks = {name: name for name in facts(stack["labels"])} | stack.get("also", {})
        return [
            (
                name,
                replace(
                    _stack_bars(ink, "left", "right", idle_cause_text(name), colors),
                    only=(stack["by"], name),
                ),
            )
            for name, ink in inks.items()
        ]
    return [
        (part, _stack_bars(part["ink"], f"left_{at}", f"right_{at}", part["name"], colors))
        for at, part in enumerate(stack.get("parts", ()))
    ]


def _add_stack(
    definition: Definition, scope: Scope, data: dict[str, Any], colors: Theme
) -> tuple[list[Any], list[tuple[str, str]]]:
    """Add the columns of stacked bars; return their marks, and lines of the tooltip."""
    stack, lines, said, kept = definition.get("stack"), [], [], []
    if stack is None:
        return [], []
    rows = len(scope["names"])
    if "by" in stack:
        size = np.maximum(np.nan_to_num(evaluate(stack["value"], scope)), 0)
        right = pd.Series(size).groupby(scope["row"]).cumsum().to_numpy(float)
        data["left"] = np.where(size > 0, right - size, np.nan)
        data["right"] = np.where(size > 0, right, np.nan)
        data["part"] = [idle_cause_text(each) for each in scope[stack["by"]]]
        data["part_text"] = _fill_texts(stack["text"], scope)
        shares = scope[stack["share"]]
        data["inside"] = [share(each) if each > 0 else "" for each in shares]
        for name, bars in _stack_parts(definition, colors):
            of = size[scope[stack["by"]] == name].sum()
            if of > 0:
                said.append(f"{bars.name} {share(of / max(size.sum(), 1))}")
            if of > 0:
                writes = "on" in style_of(stack.get("also", {}).get(name, name))
                kept.append(replace(bars, text="inside" if writes else ""))
        lines = [("@{part}", "@{part_text}")]
    else:
        whole = evaluate(stack["of"], scope) if "of" in stack else None
        left = np.zeros(rows)
        for at, (part, bars) in enumerate(_stack_parts(definition, colors)):
            ns = np.nan_to_num(np.broadcast_to(evaluate(part["ns"], scope), rows).astype(float))
            of = ns if whole is None else np.divide(ns, whole, out=np.zeros(rows), where=whole > 0)
            # A zero-width bar would still draw its outline.
            shown = (of > 0) | (bars.line is None)
            data[f"left_{at}"] = np.where(shown, left, np.nan)
            data[f"right_{at}"] = np.where(shown, left + of, np.nan)
            left = left + of
            name = str(fill_template(part["name"], scope))
            if (ns > 0).any():
                text = f"text_{at}" if whole is not None and bars.hatch is None else ""
                kept.append(replace(bars, name=name, text=text))
            if whole is not None and (ns > 0).any():
                said.append(f"{name} {share(ns.sum() / max(whole.sum(), 1))}")
                data[f"text_{at}"] = [share(each) for each in of]
                data[f"time_{at}"] = [duration(each) for each in ns]
                lines.append((name, f"@{{time_{at}}} · @{{text_{at}}}"))
        scope["ends"] = left
    scope["parts"] = ", ".join(said)
    return kept, lines


def _add_mark(
    mark: Mapping[str, Any], scope: Scope, data: dict[str, Any], colors: Theme
) -> Bars | Dots | Whiskers:
    """Return a mark, and add its columns."""

    def place(code: Any, *, ink: bool = False) -> Any:
        if not isinstance(code, str):
            return code
        values = np.broadcast_to(evaluate(code, scope), len(scope["row"]))
        data[code] = [color_of(each, colors) for each in values] if ink else values
        return code

    def color(ink: str) -> str:
        if not ink.startswith("@"):
            return color_of(ink, colors)
        place(ink[1:], ink=True)
        return ink

    if "dot" in mark:
        places = [place(mark.get(key, "")) if key in mark else "" for key in ("marker", "angle")]
        return Dots(
            place(mark["dot"]),
            color(mark["ink"]),
            place(mark["size"]),
            marker=places[0],
            angle=places[1],
        )
    left, right = (place(end) for end in mark.get("bar", mark.get("line")))
    if "line" in mark:
        return Whiskers(left, right, color(mark["ink"]))
    name = mark.get("name", "")
    if not mark["ink"].startswith("@"):
        return _stack_bars(
            mark["ink"], float(left) if not isinstance(left, str) else left, right, name, colors
        )
    bars = Bars(float(left) if not isinstance(left, str) else left, right, color(mark["ink"]), name)
    if "inside" in mark:
        data["inside"] = fill_template(mark["inside"], scope)
        data["on"] = [text_on(each) for each in data[mark["ink"][1:]]]
        return replace(bars, text="inside", text_color="@on")
    if "hatch" not in mark:
        return bars
    place(mark["hatch"])
    hatch, of_hatch = f"@{mark['hatch']}", color(mark["hatch_ink"])
    return replace(bars, hatch=hatch, hatch_color=of_hatch, hatch_weight=3, hatch_scale=12)


def _evaluate_scale(scale: Mapping[str, Any], scope: Scope) -> Scale:
    return Scale(
        float(evaluate(scale["to"], scope)) or 1.0,
        float(evaluate(scale.get("from", 0), scope)),
        _scale_ticks(scale, scope),
        zero_line=bool(evaluate(scale.get("zero_line", 0), scope)),
    )


def _scale_ticks(scale: Mapping[str, Any], scope: Scope) -> list[tuple[float, str]]:
    for each in _visible_texts(scale.get("ticks", []), scope):
        if "at" in each:
            where = np.asarray(evaluate(each["where"], scope), bool)
            texts = fill_template(each["text"], scope)[where]
            return list(zip(evaluate(each["at"], scope)[where].tolist(), texts, strict=True))
        end, start, most = (
            float(evaluate(each.get(key, 0), scope)) for key in ("to", "from", "most")
        )
        at = round_ticks(end, int(most), start)
        step = at[1] - at[0] if len(at) > 1 else max(end, 1.0)
        return [
            (
                here,
                each["zero"]
                if here == 0 and "zero" in each
                else _format_tick(each["as"], here, step),
            )
            for here in at
            if each["as"] != "count" or here == int(here)
        ]
    return []


def _format_tick(spec: str, at: float, step: float) -> str:
    if spec in ("share_delta", "count"):
        return share_delta(at) if spec == "share_delta" else count(at)
    return ("+" if spec == "duration_delta" and at > 0 else "") + axis_time(at, step)


def _add_tooltip(
    definition: Definition,
    scope: Scope,
    data: dict[str, Any],
    parts: list[tuple[str, str]],
    *,
    is_folded: bool,
) -> Tooltip:
    """Return the tooltip, and add the columns with its texts."""
    of_item = next((mark["tip"] for mark in definition.get("marks", []) if "tip" in mark), None)
    tip = of_item or definition["tip"]

    def place(template: str, name: str) -> str:
        texts = fill_template(template, scope)
        if not is_rows(texts):
            return str(texts)
        # The texts are one per row of the chart, and the source may have several items per row.
        data[name] = texts if len(texts) == len(scope["row"]) else texts[scope["row"]]
        return f"@{{{name}}}"

    lines: list[tuple[str, str]] = []
    for at, line in enumerate(_visible_texts(tip["lines"], scope)):
        what, template = line["of"] if isinstance(line, dict) else line
        if what == "{parts}":
            lines += parts
        else:
            lines.append((place(what, f"tip_name_{at}"), place(template, f"tip_{at}")))
    if is_folded:
        data["tip_of"], data["tip_spread"] = scope["mean_of"], scope["spread_text"]
        lines += [("mean of", "@{tip_of}"), (definition["fold"]["spread"]["name"], "@{tip_spread}")]
    return Tooltip(place(tip["heading"], "tip_heading"), lines)
