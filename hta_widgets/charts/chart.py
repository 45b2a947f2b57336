"""The decorators that make charts: shared arguments, notes, and templates of texts."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from functools import wraps
from typing import Any

import numpy as np
import pandas as pd

from hta_widgets.arguments import Positive, check_arguments
from hta_widgets.charts.data import (
    Draw,
    require_columns_of_source,
    takes_analysis,
    takes_frame_only,
)
from hta_widgets.charts.defined import draw_definition, with_folded_groups
from hta_widgets.charts.definition import definition
from hta_widgets.charts.figure import empty_figure, join_sentences, unmatched_note
from hta_widgets.charts.language import column, fill_template, is_rows
from hta_widgets.charts.rows import Column, Tooltip, rows_chart, time_ticks
from hta_widgets.charts.theme import Theme, ThemeName, theme_of

_PARAMETERS = """
Parameters
----------
"""
_FRAME = """frame : DataFrame{or_traces}
    Result of `hta_widgets.{of}`.
"""
_SHARED = """width : int, optional
    In CSS px. Default: the width of the output area.
theme : {"light", "dark"} or Theme, default "light"
title : str, optional
"""
_CLUSTERS_DOC = """clusters : DataFrame, optional
    Result of `hta_widgets.analysis.rank_clusters`: the ranks of a cluster are drawn together, as
    their mean, with a line from the least to the most of them. By default each rank is drawn.
"""
_CLUSTERS = inspect.Parameter(
    "clusters",
    inspect.Parameter.KEYWORD_ONLY,
    default=None,
    annotation="DataFrame | None",
)
_RETURNS = """
Returns
-------
bokeh.plotting.figure
"""
_EXAMPLES = "Examples\n--------\n"


Title = str | Mapping[str, str] | Callable[..., str]
Content = str | dict[str, Any] | tuple[str, pd.DataFrame]


def chart(
    title: Title,
    *needs: str,
    of: str = "",
    folds: bool = False,
    takes: Callable[[Draw], Draw] | None = None,
) -> Callable[[Draw], Draw]:
    """Make a chart from a function that returns the content to draw for a frame and a theme.

    The content is a mapping with the arguments of `rows_chart`, or of the function under its key
    ``by``. Its `subtitle` is a list of sentences, to which `note` is added (default: the result of
    `unmatched_note`). Its `end_ns` is the end of a time axis; `title_by` is appended to the title.
    Texts of columns, names and tooltips are templates over the columns of `data`
    (``{sum_ns:duration}``, as in definitions). Instead of a mapping, the content may be a text,
    which is the reason why there is nothing to draw, or the name of a definition and its frame.

    The chart also takes `width`, `theme` and `title`, and `clusters` if it `folds` ranks. It draws
    a note if the frame is empty, and rejects a frame that lacks one of the columns `needs`. A
    mapping of titles has one for each value of the argument ``measure``; a function of titles takes
    the chart's arguments. `of` is the analysis (``analysis.NAME``), comparison (``diff.NAME``) or
    panel (``panel.NAME``) whose frame it draws, by default the analysis of the same name. `takes`
    is a decorator that replaces `takes_analysis`.
    """
    default = title if isinstance(title, str) else "" if isinstance(title, Mapping) else None

    def decorate(define: Draw) -> Draw:
        source = of or f"analysis.{define.__name__}"
        own_parameters = inspect.signature(define).parameters
        given = {key: parameter.default for key, parameter in own_parameters.items()}

        def titled(options: Mapping[str, Any]) -> str:
            if isinstance(title, str):
                return title
            if callable(title):
                return title(**{**given, **options})
            return title[options.get("measure", given["measure"])]

        @wraps(define, assigned=("__module__", "__name__", "__qualname__"))
        def draws_frame(
            frame: pd.DataFrame,
            *,
            width: Positive | None = None,
            theme: ThemeName | Theme = "light",
            title: str | None = default,
            **options: Any,
        ) -> Any:
            clusters = options.pop("clusters", None) if folds else None
            colors, known = theme_of(theme), titled(options)
            title = title or known
            if frame.empty:
                return empty_figure(frame, title, colors, width)
            require_columns_of_source(source, frame, *needs)
            frame = with_folded_groups(frame, clusters)
            given_theme = {"theme": colors} if "theme" in own_parameters else {}
            content = define(frame, **given_theme, **options)
            if isinstance(content, str):
                return empty_figure(frame, title, colors, width, note=content)
            if isinstance(content, tuple):
                shown = "" if title == default else title
                return draw_definition(*content, width=width, theme=colors, title=shown)
            return _draw_content(content, frame, title, colors, width)

        shared = inspect.signature(draws_frame, follow_wrapped=False).parameters
        kept = [parameter for key, parameter in own_parameters.items() if key != "theme"]
        kept += [_CLUSTERS] * folds
        kept += [shared["width"], shared["theme"]]
        kept += [shared["title"].replace(annotation="str | None" if default is None else "str")]
        signature = inspect.Signature(kept, return_annotation="Any")
        vars(draws_frame)["__signature__"] = signature
        draws_frame.__doc__ = _docstring(define, source, folds=folds)
        if folds:
            draws_frame.__annotations__["clusters"] = "pd.DataFrame | None"
        draws_frame = check_arguments(draws_frame)
        if takes is not None:
            return takes(draws_frame)
        if source.startswith("diff."):
            return takes_frame_only(f"hta_widgets.{source}(diff.compare(before, after))")(
                draws_frame
            )
        return takes_analysis(source.removeprefix("analysis."))(draws_frame)

    return decorate


def defines(
    name: str, *needs: str, of: str = "", takes: Callable[[Draw], Draw] | None = None
) -> Callable[[Draw], Draw]:
    """Make a chart from a function that returns the frame for the definition of this name.

    `needs` are the columns that the function's frame must have, by default the definition's.
    """
    look = definition(name)

    def decorate(define: Draw) -> Draw:
        @wraps(define)
        def content(*given: Any, **options: Any) -> Content:
            return name, define(*given, **options)

        title = look["title"]
        folds = "fold" in look
        return chart(title, *(needs or look["needs"]), of=of, folds=folds, takes=takes)(content)

    return decorate


def _draw_content(
    content: dict[str, Any], frame: pd.DataFrame, title: str, colors: Theme, width: int | None
) -> Any:
    by: Callable[..., Any] = content.pop("by", rows_chart)
    note = content.pop("note", None)
    note = unmatched_note(frame) if note is None else note
    content["subtitle"] = join_sentences(*content["subtitle"], note)
    title += content.pop("title_by", "")
    if "end_ns" in content:
        end_ns = content.pop("end_ns") or 1.0
        content = {"x_end": end_ns * 1.02, "ticks": time_ticks(end_ns), **content}
    if isinstance(content.get("data"), pd.DataFrame):
        _fill_templates(content)
    return by(**content, title=title, theme=colors, width=width)


class _ExpressionColumns(Mapping[str, Any]):
    """The columns of a frame for expressions, each converted at its first use."""

    def __init__(self, data: pd.DataFrame) -> None:
        self._data = data
        self._known: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:
        if name not in self._known:
            self._known[name] = column(self._data[name])
        return self._known[name]

    def __iter__(self) -> Iterator[str]:
        return map(str, self._data)

    def __len__(self) -> int:
        return self._data.shape[1]


def row_texts(data: pd.DataFrame, template: str) -> list[str]:
    """Return a template's text for each row."""
    filled = fill_template(template, _ExpressionColumns(data))
    return list(filled) if is_rows(filled) else [str(filled)] * len(data)


def _fill_templates(content: dict[str, Any]) -> None:
    """Replace the templates of a content's names, columns and tooltip by one text per row."""
    data: pd.DataFrame = content["data"]
    if "row" not in data:
        data["row"] = np.arange(len(data))
    if isinstance(content.get("names"), str):
        content["names"] = row_texts(data, content["names"])
    if "columns" in content:
        content["columns"] = [
            Column(each.head, row_texts(data, each.texts), each.min_width)
            if isinstance(each.texts, str)
            else each
            for each in content["columns"]
        ]
    if content.get("tooltip") is not None:
        content["tooltip"] = with_tooltip_columns(data, content["tooltip"])


def with_tooltip_columns(data: pd.DataFrame, tooltip: Tooltip) -> Tooltip:
    """Add a column of texts for each template of a tooltip; return a tooltip that names them."""

    def place(template: str, name: str) -> str:
        if "@" in template or "{" not in template:
            return template
        data[name] = row_texts(data, template)
        return f"@{{{name}}}"

    lines = [
        (what, place(template, f"tip_{at}")) for at, (what, template) in enumerate(tooltip.rows)
    ]
    return Tooltip(place(tooltip.heading, "tip_heading"), lines)


def _docstring(define: Draw, source: str, *, folds: bool) -> str:
    name = define.__name__
    doc, _, returns = inspect.cleandoc(define.__doc__ or "").partition(_RETURNS[:-1])
    doc, _, described = doc.partition(_PARAMETERS)
    traces = source.startswith("analysis.")
    if not described.startswith("frame "):
        or_traces = ", TraceSet, Trace or Selection" if traces else ""
        described = _FRAME.format(or_traces=or_traces, of=source) + described
    returns, _, examples = returns.partition(_EXAMPLES)
    if not examples:
        call = f"{source}(traces)" if traces else f"{source}(both)"
        examples = f">>> charts.{name}({call})  # doctest: +SKIP"
    described += _CLUSTERS_DOC * folds + _SHARED + (_RETURNS + returns.removeprefix("\n")).rstrip()
    return f"{doc.rstrip()}\n{_PARAMETERS}{described}\n\n{_EXAMPLES}{examples.rstrip()}\n"
