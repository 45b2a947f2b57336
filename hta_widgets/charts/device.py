"""Charts of device time by activity, idle cause and kernel."""

from __future__ import annotations

from collections.abc import Iterable

import pandas as pd

from hta_widgets.arguments import Positive, check_arguments
from hta_widgets.charts.data import ChartSource, analysis_frame, spread_over_ranks, top_rows
from hta_widgets.charts.defined import draw_analysis, draw_definition
from hta_widgets.charts.definition import definition
from hta_widgets.charts.figure import Figure, FigureStyle, empty_figure, unmatched_note
from hta_widgets.charts.language import extremes_text
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
from hta_widgets.facts import facts
from hta_widgets.text import count, duration, plural
from hta_widgets.trace.names import disambiguate, short_name


@check_arguments
def temporal_breakdown(
    frame: ChartSource,
    *,
    clusters: pd.DataFrame | None = None,
    width: Positive | None = None,
    theme: ThemeName | Theme = "light",
    title: str = "Where {device_word} time goes",
    **options: object,
) -> Figure:
    """Draw how each rank's device spends its time.

    Parameters
    ----------
    frame : DataFrame, TraceSet, Trace or Selection
        Result of `hta_widgets.analysis.temporal_breakdown`, or traces to analyze. If it has a
        column ``exposed_wait_ns`` (the part of ``exposed_communication_ns`` spent waiting for the
        last rank), communication is split into transfers and hatched waits.
    clusters : DataFrame, optional
        Result of `hta_widgets.analysis.rank_clusters`. A cluster is drawn as its mean and range.
    width, theme, title : int, {"light", "dark"} or Theme, and str, optional
        Width in CSS px. Default: the width of the output area.
    **options
        Arguments passed to the analysis. Only valid if `frame` is not a DataFrame.

    Returns
    -------
    bokeh.plotting.figure
        One bar per rank. The data source holds the frame's rows.

    Examples
    --------
    >>> charts.temporal_breakdown(analysis.temporal_breakdown(traces))  # doctest: +SKIP
    """
    return draw_analysis("breakdown", frame, options, width, theme, title, clusters)


@check_arguments
def kernel_type_breakdown(
    frame: ChartSource,
    *,
    width: Positive | None = None,
    theme: ThemeName | Theme = "light",
    title: str = "{device_word} time by kind",
    **options: object,
) -> Figure:
    """Draw the busy time of each kind of kernel, and of kinds that run concurrently.

    Parameters
    ----------
    frame : DataFrame, TraceSet, Trace or Selection
        Result of `hta_widgets.analysis.kernel_type_breakdown`, or traces to analyze.
    width, theme, title : int, {"light", "dark"} or Theme, and str, optional
        Width in CSS px. Default: the width of the output area.
    **options
        Arguments passed to the analysis. Only valid if `frame` is not a DataFrame.

    Examples
    --------
    >>> charts.kernel_type_breakdown(analysis.kernel_type_breakdown(traces))  # doctest: +SKIP
    """
    frame = analysis_frame("kernel_type_breakdown", frame, options, "kernel_type sum_ns")
    if len(frame) and "rank" in frame:
        attrs = {**frame.attrs, "together": 1}
        sums = frame.groupby("kernel_type", sort=False, observed=True)["sum_ns"].sum()
        frame = sums.sort_values(ascending=False, kind="stable").reset_index()
        frame["share"] = frame["sum_ns"] / max(1, frame["sum_ns"].sum())
        frame.attrs = attrs
    return draw_definition("kernel_types", frame, width, theme, title)


@check_arguments
def comm_comp_overlap(
    frame: ChartSource,
    *,
    clusters: pd.DataFrame | None = None,
    width: Positive | None = None,
    theme: ThemeName | Theme = "light",
    title: str = "Communication and overlap",
    **options: object,
) -> Figure:
    """Draw the communication time of each rank: hidden behind compute, and exposed.

    Parameters
    ----------
    frame : DataFrame, TraceSet, Trace or Selection
        Result of `hta_widgets.analysis.comm_comp_overlap`, or traces to analyze.
    clusters : DataFrame, optional
        Result of `hta_widgets.analysis.rank_clusters`. A cluster is drawn as its mean and range.
    width, theme, title : int, {"light", "dark"} or Theme, and str, optional
        Width in CSS px. Default: the width of the output area.
    **options
        Arguments passed to the analysis. Only valid if `frame` is not a DataFrame.

    Examples
    --------
    >>> charts.comm_comp_overlap(analysis.comm_comp_overlap(traces))  # doctest: +SKIP
    """
    return draw_analysis("overlap", frame, options, width, theme, title, clusters)


@check_arguments
def idle_time_breakdown(
    frame: ChartSource,
    *,
    clusters: pd.DataFrame | None = None,
    width: Positive | None = None,
    theme: ThemeName | Theme = "light",
    title: str = "Stream idle time by cause",
    **options: object,
) -> Figure:
    """Draw each stream's idle time by cause.

    Parameters
    ----------
    frame : DataFrame, TraceSet, Trace or Selection
        Result of `hta_widgets.analysis.idle_time_breakdown`, or traces to analyze.
    clusters : DataFrame, optional
        Result of `hta_widgets.analysis.rank_clusters`. A cluster is drawn as its mean and range.
    width, theme, title : int, {"light", "dark"} or Theme, and str, optional
        Width in CSS px. Default: the width of the output area.
    **options
        Arguments passed to the analysis. Only valid if `frame` is not a DataFrame.

    Returns
    -------
    bokeh.plotting.figure
        One bar per stream. The data source holds the frame's rows.

    Examples
    --------
    >>> charts.idle_time_breakdown(analysis.idle_time_breakdown(traces))  # doctest: +SKIP
    """
    return draw_analysis("idle_streams", frame, options, width, theme, title, clusters)


@check_arguments
def device_idle_breakdown(
    frame: ChartSource,
    *,
    clusters: pd.DataFrame | None = None,
    width: Positive | None = None,
    theme: ThemeName | Theme = "light",
    title: str = "{device_word} idle time by cause",
    **options: object,
) -> Figure:
    """Draw each device's idle time by cause.

    Parameters
    ----------
    frame : DataFrame, TraceSet, Trace or Selection
        Result of `hta_widgets.analysis.device_idle_breakdown`, or traces to analyze.
    clusters : DataFrame, optional
        Result of `hta_widgets.analysis.rank_clusters`. A cluster is drawn as its mean and range.
    width, theme, title : int, {"light", "dark"} or Theme, and str, optional
        Width in CSS px. Default: the width of the output area.
    **options
        Arguments passed to the analysis. Only valid if `frame` is not a DataFrame.

    Examples
    --------
    >>> charts.device_idle_breakdown(analysis.device_idle_breakdown(traces))  # doctest: +SKIP
    """
    return draw_analysis("idle", frame, options, width, theme, title, clusters)


#: How kernel statistics are combined over ranks.
_AGGREGATIONS = {"count": "sum", "sum_ns": "sum", "min_ns": "min", "max_ns": "max"}


@check_arguments
def kernel_breakdown(
    frame: ChartSource,
    *,
    top: Positive = 12,
    width: Positive | None = None,
    theme: ThemeName | Theme = "light",
    title: str = "Top kernels",
    **options: object,
) -> Figure:
    """Draw the kernels that take the most time.

    Parameters
    ----------
    frame : DataFrame, TraceSet, Trace or Selection
        Result of `hta_widgets.analysis.kernel_breakdown`, or traces to analyze.
    top : int, default 12
        Number of kernels to draw. The rest share one bar, labeled with their number.
    width, theme, title : int, {"light", "dark"} or Theme, and str, optional
        Width in CSS px. Default: the width of the output area.
    **options
        Arguments passed to the analysis. Only valid if `frame` is not a DataFrame.

    Returns
    -------
    bokeh.plotting.figure
        One bar per kernel. The data source has the columns ``kind, name, count, sum_ns, mean_ns,
        min_ns, max_ns`` over all ranks, and the bar length ``per_rank_ns``. A line extends from
        ``least_ns`` to ``most_ns``, the smallest and largest sum of any rank.

    Examples
    --------
    >>> charts.kernel_breakdown(analysis.kernel_breakdown(traces))  # doctest: +SKIP
    """
    columns = f"rank kind name {' '.join(_AGGREGATIONS)}"
    frame = analysis_frame("kernel_breakdown", frame, options, columns)
    style = FigureStyle(title, theme_of(theme), width)
    if frame.empty:
        return empty_figure(frame, style)
    theme, ranks = style.theme, frame["rank"].nunique()
    has_ranks = ranks > 1
    data, names = _kernel_rows(frame, top)
    data["per_rank_ns"] = data["sum_ns"] / ranks
    data["fill"] = [theme.kind.get(str(kind), theme.idle) for kind in data["kind"]]
    measure = "mean of ranks, line: min to max of a rank" if has_ranks else "summed durations"
    return draw_rows(
        RowsContent(
            data=data,
            names=names,
            marks=[
                Bars(0.0, "per_rank_ns", "fill"),
                *([Whiskers("least_ns", "most_ns", theme.ink2)] if has_ranks else []),
            ],
            scale=time_scale(float(data["most_ns"].max())),
            head="kernel",
            columns=[
                Column("total", "{per_rank_ns:duration}"),
                Column("share", "{share:share}", 480),
                Column("count", "{count:count}", 620),
                Column("mean", "{mean_ns:duration}", 620),
            ],
            legend=[
                Bars(0.0, "per_rank_ns", theme.kind[kind], facts("kind_names").get(kind, kind))
                for kind in ("compute", "communication", "memory", "other")
                if (data["kind"].astype(str) == kind).any()
            ],
            tooltip=Tooltip(
                "@{name}",
                [
                    ("kind", "@{kind}"),
                    ("total per rank", "{per_rank_ns:duration}"),
                    ("minimum and maximum of a rank", "{least_ns:duration} – {most_ns:duration}"),
                    ("of all device time", "{share:share}"),
                    ("kernels, all ranks", "{count:count}"),
                    ("mean", "{mean_ns:duration}"),
                    ("shortest and longest", "{min_ns:duration} – {max_ns:duration}"),
                ],
            ),
        ),
        style.with_subtitle(
            f"device time by name, {measure}",
            f"{plural(int(data['names'].sum()), 'name')} on {plural(ranks, 'rank')}",
            unmatched_note(frame),
        ),
    )


def _kernel_rows(frame: pd.DataFrame, top: int) -> tuple[pd.DataFrame, list[str]]:
    """Return the kernels with the most time over all ranks, one row for the rest, and row names."""
    by_name = frame.groupby(["kind", "name"], observed=True).agg(_AGGREGATIONS).reset_index()
    data, names = top_rows(by_name, "sum_ns", top, "kernel", short_name)
    data = spread_over_ranks(frame, data, ["kind", "name"])
    data["mean_ns"] = data["sum_ns"] / data["count"]
    data["share"] = data["sum_ns"] / (float(frame["sum_ns"].sum()) or 1.0)
    return data, disambiguate(names, list(data["name"]), [str(kind) for kind in data["kind"]])


_DURATIONS = definition("kernel_durations")


@check_arguments
def kernel_duration_by_rank(
    frame: ChartSource,
    *,
    name: str | None = None,
    top: Positive = 12,
    late: Iterable[int] | None = None,
    clusters: pd.DataFrame | None = None,
    width: Positive | None = None,
    theme: ThemeName | Theme = "light",
    title: str | None = None,
    **options: object,
) -> Figure:
    """Draw the kernel durations of each rank.

    With a `name`, or for a single rank, bars show the mean and lines the range. Otherwise each
    kernel has a row with one dot per rank, placed by the rank's mean relative to the median rank.
    The scale covers all dots of kernels other than communication, but at least 10 % and at most 100
    %; arrowheads at its ends stand for ranks outside it. The dot farthest from the median is dark
    if it differs from the median by at least 5 %, and by at least 1 % of a rank's kernel time.

    Parameters
    ----------
    frame : DataFrame, TraceSet, Trace or Selection
        Result of `hta_widgets.analysis.kernel_duration_by_rank`, or traces to analyze.
    name : str, optional
        Full name of a kernel, to draw only that kernel.
    top : int, default 12
        Number of kernels to draw, ordered by total time.
    late : iterable of int, optional
        Ranks to draw in red, as in `step_phases`.
    clusters : DataFrame, optional
        Result of `hta_widgets.analysis.rank_clusters`. A cluster is drawn as its mean and range.
    width, theme, title : int, {"light", "dark"} or Theme, and str, optional
        Width in CSS px. Default: the width of the output area.
    **options
        Arguments passed to the analysis. Only valid if `frame` is not a DataFrame.

    Examples
    --------
    >>> charts.kernel_duration_by_rank(analysis.kernel_duration_by_rank(traces))  # doctest: +SKIP
    """
    frame = analysis_frame("kernel_duration_by_rank", frame, options, " ".join(_DURATIONS.needs))
    title = title or (_DURATIONS.title if name is None else short_name(name))
    style = FigureStyle(title, theme_of(theme), width)
    if frame.empty:
        return empty_figure(frame, style)
    chosen = frame if name is None else frame[frame["name"].astype(str) == name]
    if chosen.empty:
        return empty_figure(frame, style, note="no kernel has this name")
    if name is not None or len(chosen["rank"].unique()) == 1:
        return _draw_mean_durations(chosen, style, name, top)
    data = frame.assign(kind=frame["kind"].astype(str) if "kind" in frame else "")
    data["name"] = data["name"].astype(str)
    kernel = data.groupby(["name", "kind"], sort=False).ngroup()
    total = (data["mean_ns"] * data["count"]).groupby(kernel).sum()
    order = total.sort_values(ascending=False, kind="stable").index
    row = kernel.map({number: row for row, number in enumerate(order[:top])})
    data = data[row.notna()].iloc[row.dropna().argsort(kind="stable")]
    if "short" not in data:
        data["short"] = [short_name(full_name) for full_name in data["name"]]
    data.attrs = {**frame.attrs, "drawn": top, "others": max(0, len(total) - top)}
    data.attrs |= {} if late is None else {"late_ranks": list(late)}
    return draw_definition("kernel_durations", data, width, theme, title, clusters)


def _draw_mean_durations(
    chosen: pd.DataFrame, style: FigureStyle, name: str | None, top: int
) -> Figure:
    theme, data = style.theme, chosen.reset_index(drop=True)
    if name is None:
        order = (data["mean_ns"] * data["count"]).sort_values(ascending=False, kind="stable").index
        data = data.loc[order[:top]].reset_index(drop=True)
        full_names = [str(kernel) for kernel in data["name"]]
        names = disambiguate([short_name(kernel) for kernel in full_names], full_names)
        summary = ""
        if len(order) > top:
            others = plural(len(order) - top, "other")
            summary = f"the {count(top)} with the most time; {others} not drawn"
    else:
        names = [f"rank {rank}" for rank in data["rank"]]
        summary = extremes_text(names, data["mean_ns"], duration)
    kinds = data["kind"].astype(str) if "kind" in data else ["compute"] * len(data)
    data["fill"] = [theme.kind.get(kind, theme.kind["other"]) for kind in kinds]
    return draw_rows(
        RowsContent(
            data=data,
            names=names,
            marks=[Bars(0.0, "mean_ns", "fill"), Whiskers("min_ns", "max_ns", theme.ink2)],
            scale=time_scale(float(data["max_ns"].max())),
            head="kernel" if name is None else " ",
            columns=[
                Column("mean", "{mean_ns:duration}"),
                Column("longest", "{max_ns:duration}", 480),
                Column("count", "{count:count}", 620),
            ],
            tooltip=Tooltip(
                "@{name}",
                [
                    ("rank", "@{rank}"),
                    ("mean", "{mean_ns:duration}"),
                    ("shortest and longest", "{min_ns:duration} – {max_ns:duration}"),
                    ("kernels", "{count:count}"),
                ],
            ),
        ),
        style.with_subtitle(
            "bar: mean duration, line: shortest to longest", summary, unmatched_note(chosen)
        ),
    )


@check_arguments
def queue_length_summary(
    frame: ChartSource,
    *,
    clusters: pd.DataFrame | None = None,
    width: Positive | None = None,
    theme: ThemeName | Theme = "light",
    title: str = "Launch queue",
    **options: object,
) -> Figure:
    """Draw the mean and maximum launch queue length of each stream.

    Parameters
    ----------
    frame : DataFrame, TraceSet, Trace or Selection
        Result of `hta_widgets.analysis.queue_length_summary`, or traces to analyze.
    clusters : DataFrame, optional
        Result of `hta_widgets.analysis.rank_clusters`. A cluster is drawn as its mean and range.
    width, theme, title : int, {"light", "dark"} or Theme, and str, optional
        Width in CSS px. Default: the width of the output area.
    **options
        Arguments passed to the analysis. Only valid if `frame` is not a DataFrame.

    Returns
    -------
    bokeh.plotting.figure
        One bar per stream; with several ranks, each rank's stream with the longest mean queue.

    Examples
    --------
    >>> charts.queue_length_summary(analysis.queue_length_summary(traces))  # doctest: +SKIP
    """
    return draw_analysis("queue", frame, options, width, theme, title, clusters)
