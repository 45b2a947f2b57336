"""Charts of operators, annotations and kernel sequences."""

from __future__ import annotations

from dataclasses import replace

import pandas as pd

from hta_widgets.arguments import Positive, check_arguments
from hta_widgets.charts.data import (
    ChartSource,
    analysis_frame,
    require_columns_of,
    spread_over_ranks,
    top_rows,
)
from hta_widgets.charts.figure import Figure, FigureStyle, empty_figure, unmatched_note
from hta_widgets.charts.rows import (
    Bars,
    Column,
    RowsContent,
    Tooltip,
    Whiskers,
    draw_rows,
    time_scale,
)
from hta_widgets.charts.theme import Theme, ThemeName, theme_of
from hta_widgets.text import plural
from hta_widgets.trace.names import disambiguate, short_name


def _bar_pair(
    data: pd.DataFrame, device: tuple[str, str], host: tuple[str, str], theme: Theme
) -> list[Bars]:
    data["upper"], data["lower"] = data["row"] - 0.2, data["row"] + 0.2
    compute, cpu = theme.kind["compute"], theme.kind["cpu"]
    return [
        Bars(0.0, device[0], compute, device[1], row="upper", height=0.4),
        Bars(0.0, host[0], cpu, host[1], cpu, alpha=0.3, row="lower", height=0.36),
    ]


@check_arguments
def operators(
    frame: ChartSource,
    *,
    top: Positive = 12,
    width: Positive | None = None,
    theme: ThemeName | Theme = "light",
    title: str = "Top operators",
    **options: object,
) -> Figure:
    """Draw the operators with the most self time on the device and the host.

    Parameters
    ----------
    frame : DataFrame, TraceSet, Trace or Selection
        Result of `hta_widgets.analysis.operators`, or traces to analyze.
    top : int, default 12
        Number of operators to draw. The rest share one row, labeled with their number.
    width, theme, title : int, {"light", "dark"} or Theme, and str, optional
        Width in CSS px. Default: the width of the output area.
    **options
        Arguments passed to the analysis. Only valid if `frame` is not a DataFrame.

    Returns
    -------
    bokeh.plotting.figure
        Two bars per operator. The data source has the columns of the frame; times are means over
        ranks.

    Examples
    --------
    >>> charts.operators(analysis.operators(traces))  # doctest: +SKIP
    """
    columns = "rank name count cpu_self_ns device_self_ns cpu_total_ns device_total_ns"
    frame = analysis_frame("operators", frame, options, columns)
    style = FigureStyle(title, theme_of(theme), width)
    if frame.empty:
        return empty_figure(frame, style)
    measures = ["cpu_total_ns", "cpu_self_ns", "device_total_ns", "device_self_ns"]
    ranks = frame["rank"].nunique()
    keys = [key for key in ("name", "input_shapes", "call_stack") if key in frame]
    data = frame.groupby(keys, observed=True)[["count", *measures]].sum().reset_index()
    data[measures] = data[measures] / ranks
    on_device = bool(data["device_self_ns"].sum())
    time_column = "device_self_ns" if on_device else "cpu_self_ns"
    data, names = top_rows(data, time_column, top, "operator", short_name)
    with_shapes = "input_shapes" in keys
    if with_shapes:
        names = [
            f"{name} {shapes}" if shapes else name
            for name, shapes in zip(names, data["input_shapes"].astype(str), strict=True)
        ]
    bars = _bar_pair(data, ("device_self_ns", "device"), ("cpu_self_ns", "host"), style.theme)
    cpu = style.theme.kind["cpu"]
    return draw_rows(
        RowsContent(
            data=data,
            names=disambiguate(names, list(data["name"])),
            marks=bars if on_device else [Bars(0.0, "cpu_self_ns", cpu, "host", cpu, alpha=0.3)],
            scale=time_scale(float(data[["device_self_ns", "cpu_self_ns"]].to_numpy().max())),
            head="operator",
            columns=[
                *([Column("device", "{device_self_ns:duration}")] if on_device else []),
                Column("host", "{cpu_self_ns:duration}", 420 if on_device else 0),
                Column("calls", "{count:count}", 560),
            ],
            tooltip=Tooltip(
                "@{name}",
                [
                    *([("shapes", "@{input_shapes}")] if with_shapes else []),
                    ("device, self", "{device_self_ns:duration}"),
                    ("device, total", "{device_total_ns:duration}"),
                    ("host, self", "{cpu_self_ns:duration}"),
                    ("host, total", "{cpu_total_ns:duration}"),
                    ("calls, all ranks", "{count:count}"),
                ],
            ),
        ),
        style.with_subtitle(
            "self time: without the operators that an operator calls",
            "mean of ranks" if ranks > 1 else "",
            "" if on_device else "no device work is linked to operators",
            unmatched_note(frame),
        ),
    )


@check_arguments
def user_annotation_breakdown(
    frame: ChartSource,
    *,
    top: Positive = 12,
    width: Positive | None = None,
    theme: ThemeName | Theme = "light",
    title: str = "Time in annotated ranges",
    **options: object,
) -> Figure:
    """Draw the annotated ranges that take the most time, by name.

    Parameters
    ----------
    frame : DataFrame, TraceSet, Trace or Selection
        Result of `hta_widgets.analysis.user_annotation_breakdown`, or traces to analyze.
    top : int, default 12
        Number of annotations to draw. The rest share one bar, labeled with their number.
    width, theme, title : int, {"light", "dark"} or Theme, and str, optional
        Width in CSS px. Default: the width of the output area.
    **options
        Arguments passed to the analysis. Only valid if `frame` is not a DataFrame.

    Returns
    -------
    bokeh.plotting.figure
        One bar per annotation. The data source has the columns of the frame, combined over ranks.

    Examples
    --------
    >>> charts.user_annotation_breakdown(
    ...     analysis.user_annotation_breakdown(traces)
    ... )  # doctest: +SKIP
    """
    frame = analysis_frame("user_annotation_breakdown", frame, options, "sum_ns")
    style = FigureStyle(title, theme_of(theme), width)
    if frame.empty:
        return empty_figure(frame, style)
    name_column = "annotation" if "annotation" in frame else "name"
    require_columns_of(frame, "analysis.user_annotation_breakdown", f"{name_column} sum_ns")
    ranks = frame["rank"].nunique() if "rank" in frame else 1
    has_ranks = ranks > 1
    named = frame if "name" in frame else frame.rename(columns={"annotation": "name"})
    columns = {"sum_ns": "sum", "min_ns": "min", "max_ns": "max", "count": "sum"}
    rules = {name: rule for name, rule in columns.items() if name in named}
    data = named.groupby("name", observed=True, sort=False).agg(rules).reset_index()
    data, names = top_rows(data, "sum_ns", top, "annotation", str)
    data = spread_over_ranks(named, data, ["name"]) if has_ranks else data
    data["per_rank_ns"] = data["sum_ns"] / ranks
    lines = [
        ("total per rank", "{per_rank_ns:duration}", "per_rank_ns"),
        ("count, all ranks", "@{count}", "count"),
        ("shortest", "{min_ns:duration}", "min_ns"),
        ("longest", "{max_ns:duration}", "max_ns"),
    ]
    return draw_rows(
        RowsContent(
            data=data,
            names=names,
            marks=[
                Bars(0.0, "per_rank_ns", style.theme.kind["annotation"]),
                *([Whiskers("least_ns", "most_ns", style.theme.ink2)] if has_ranks else []),
            ],
            scale=time_scale(float(data["most_ns" if has_ranks else "per_rank_ns"].max())),
            head="annotation",
            columns=[
                Column("total", "{per_rank_ns:duration}"),
                *([Column("count", "{count:count}", 480)] if "count" in data else []),
            ],
            tooltip=Tooltip(
                "@{name}", [(label, text) for label, text, column in lines if column in data]
            ),
        ),
        style.with_subtitle(
            "summed durations by name; nested ranges count for each name",
            "mean of ranks, line: min to max of a rank" if has_ranks else "",
            unmatched_note(frame),
        ),
    )


@check_arguments
def frequent_kernel_sequences(
    frame: ChartSource,
    *,
    top: Positive = 10,
    width: Positive | None = None,
    theme: ThemeName | Theme = "light",
    title: str = "Frequent kernel sequences",
    **options: object,
) -> Figure:
    """Draw the most frequent kernel sequences.

    Parameters
    ----------
    frame : DataFrame, TraceSet, Trace or Selection
        Result of `hta_widgets.analysis.frequent_kernel_sequences`, or traces to analyze.
    top : int, default 10
        Number of sequences to draw. The rest share one row, labeled with their number.
    width, theme, title : int, {"light", "dark"} or Theme, and str, optional
        Width in CSS px. Default: the width of the output area.
    **options
        Arguments passed to the analysis. Only valid if `frame` is not a DataFrame.

    Returns
    -------
    bokeh.plotting.figure
        Two bars per sequence. The data source has the columns of the frame, summed over ranks.

    Examples
    --------
    >>> frame = analysis.frequent_kernel_sequences(traces, "aten::linear")  # doctest: +SKIP
    >>> charts.frequent_kernel_sequences(frame)  # doctest: +SKIP
    """
    columns = "pattern count kernel_ns operator_ns"
    frame = analysis_frame("frequent_kernel_sequences", frame, options, columns)
    style = FigureStyle(title, theme_of(theme), width)
    if frame.empty:
        return empty_figure(frame, style)
    measures = ["count", "kernel_ns", "operator_ns"]
    data = frame.groupby("pattern", observed=True, sort=False)[measures].sum().reset_index()
    data = data.rename(columns={"pattern": "name"})
    operators = {str(name).partition("|")[0] for name in data["name"]}
    label, head = _sequence_names, "operator: kernels"
    if len(operators) == 1:
        label, head = _kernel_names, "kernels"
        style = replace(style, title=f"{title}: {short_name(*operators)}")
    data, names = top_rows(data, "count", top, "sequence", label)
    data["pattern"] = data["name"]
    return draw_rows(
        RowsContent(
            data=data,
            names=disambiguate(names, list(data["name"])),
            marks=_bar_pair(
                data, ("kernel_ns", "kernels"), ("operator_ns", "operator on the host"), style.theme
            ),
            scale=time_scale(float(data[["kernel_ns", "operator_ns"]].to_numpy().max())),
            head=head,
            columns=[
                Column("count", "{count:count}"),
                Column("kernels", "{kernel_ns:duration}", 480),
            ],
            tooltip=Tooltip(
                "@{pattern}",
                [
                    ("count", "@{count}"),
                    ("kernels", "{kernel_ns:duration}"),
                    ("operator", "{operator_ns:duration}"),
                ],
            ),
        ),
        style.with_subtitle(
            "the kernels that one call of the operator launches, most frequent first",
            f"{plural(int(data['names'].sum()), 'sequence')}, total time of all occurrences",
            unmatched_note(frame),
        ),
    )


def _sequence_names(pattern: str) -> str:
    operator, _, _ = pattern.partition("|")
    return f"{short_name(operator)}: {_kernel_names(pattern)}"


def _kernel_names(pattern: str) -> str:
    return " → ".join(short_name(kernel) for kernel in pattern.split("|")[1:])
