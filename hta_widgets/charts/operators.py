"""Which operators, annotations and sequences of kernels take the time."""

from __future__ import annotations

from typing import Any

import pandas as pd

from hta_widgets.text import count
from hta_widgets.text import duration
from hta_widgets.text import plural
from hta_widgets.trace.names import short_name

from hta_widgets.charts.canvas import blank
from hta_widgets.charts.canvas import sentences
from hta_widgets.charts.canvas import unmatched
from hta_widgets.charts.frames import draws
from hta_widgets.charts.frames import require
from hta_widgets.charts.labels import told_apart
from hta_widgets.charts.rows import Bars
from hta_widgets.charts.rows import Column
from hta_widgets.charts.rows import Tooltip
from hta_widgets.charts.rows import Whiskers
from hta_widgets.charts.rows import rows_chart
from hta_widgets.charts.rows import time_ticks
from hta_widgets.charts.theme import Theme
from hta_widgets.charts.theme import theme_of
from hta_widgets.charts.top import spread_over_ranks
from hta_widgets.charts.top import top_rows

__all__ = ["frequent_kernel_sequences", "operators", "user_annotation_breakdown"]


@draws("operators")
def operators(
    frame: pd.DataFrame,
    *,
    top: int = 12,
    width: int | None = None,
    theme: str | Theme = "light",
    title: str = "Top operators",
) -> Any:
    """Draw the operators with most time of their own, on the device and on the host.

    Parameters
    ----------
    frame : DataFrame, TraceSet, Trace or Selection
        Of `hta_widgets.analysis.operators`.
    top : int, default 12
        How many operators; the others are one row that says how many they are.
    width : int, optional
        In CSS pixels; by default what the page gives.
    theme : {"light", "dark"} or Theme, default "light"
    title : str

    Returns
    -------
    bokeh.plotting.figure
        Two bars an operator; its source has the frame's columns, means of ranks.

    Examples
    --------
    >>> charts.operators(analysis.operators(traces))  # doctest: +SKIP
    """
    colors = theme_of(theme)
    if frame.empty:
        return blank(frame, title, colors, width)
    require(frame, "operators", "rank", "name", "count", "cpu_self_ns", "device_self_ns")
    require(frame, "operators", "cpu_total_ns", "device_total_ns")
    measures = ["cpu_total_ns", "cpu_self_ns", "device_total_ns", "device_self_ns"]
    ranks = frame["rank"].nunique()
    keys = [key for key in ("name", "input_shapes", "call_stack") if key in frame]
    data = frame.groupby(keys, observed=True)[["count", *measures]].sum().reset_index()
    data[measures] = data[measures] / ranks
    on_device = bool(data["device_self_ns"].sum())
    by = "device_self_ns" if on_device else "cpu_self_ns"
    data, names = top_rows(data, by, top, "operator", short_name)
    if "input_shapes" in keys:
        names = [
            f"{name} {shapes}" if shapes else name
            for name, shapes in zip(names, data["input_shapes"].astype(str), strict=True)
        ]
    names = told_apart(names, list(data["name"]))
    for each in measures:
        data[f"{each}_text"] = [duration(value) for value in data[each]]
    data["count_text"] = [count(each) for each in data["count"]]
    data["upper"], data["lower"] = data["row"] - 0.2, data["row"] + 0.2
    most = float(data[["device_self_ns", "cpu_self_ns"]].to_numpy().max()) or 1.0
    cpu = colors.kind["cpu"]
    device = Bars(0.0, "device_self_ns", colors.kind["compute"], "device", row="upper", height=0.4)
    host = Bars(
        0.0,
        "cpu_self_ns",
        cpu,
        "host",
        line=cpu,
        alpha=0.3,
        row="lower",
        height=0.36,
    )
    bars = [device, host] if on_device else [Bars(0.0, "cpu_self_ns", cpu, "host", cpu, alpha=0.3)]
    mean = "mean of ranks" if ranks > 1 else ""
    return rows_chart(
        data,
        names,
        bars,
        x_end=most * 1.02,
        title=title,
        subtitle=sentences(
            "time of an operator itself, without the operators that it calls",
            mean,
            "" if on_device else "no device work is linked to operators",
            unmatched(frame),
        ),
        theme=colors,
        width=width,
        head="operator",
        ticks=time_ticks(most),
        columns=[
            *([Column("device", list(data["device_self_ns_text"]))] if on_device else []),
            Column("host", list(data["cpu_self_ns_text"]), 420 if on_device else 0),
            Column("calls", list(data["count_text"]), 560),
        ],
        tooltip=Tooltip(
            "@{name}",
            [
                *([("shapes", "@{input_shapes}")] if "input_shapes" in keys else []),
                ("device, itself", "@{device_self_ns_text}"),
                ("device, with what it calls", "@{device_total_ns_text}"),
                ("host, itself", "@{cpu_self_ns_text}"),
                ("host, with what it calls", "@{cpu_total_ns_text}"),
                ("calls, all ranks", "@{count_text}"),
            ],
        ),
    )


@draws("user_annotation_breakdown")
def user_annotation_breakdown(
    frame: pd.DataFrame,
    *,
    top: int = 12,
    width: int | None = None,
    theme: str | Theme = "light",
    title: str = "Time in annotated ranges",
) -> Any:
    """Draw the annotations with most time.

    Parameters as of `operators`; `frame` is of
    `hta_widgets.analysis.user_annotation_breakdown`.

    Returns
    -------
    bokeh.plotting.figure
        One bar an annotation; its source has the frame's columns over all ranks.

    Examples
    --------
    >>> frame = analysis.user_annotation_breakdown(traces)  # doctest: +SKIP
    >>> charts.user_annotation_breakdown(frame)  # doctest: +SKIP
    """
    colors = theme_of(theme)
    if frame.empty:
        return blank(frame, title, colors, width)
    by = "annotation" if "annotation" in frame else "name"
    require(frame, "user_annotation_breakdown", by, "sum_ns")
    ranks = frame["rank"].nunique() if "rank" in frame else 1
    named = frame if "name" in frame else frame.rename(columns={"annotation": "name"})
    columns = {"sum_ns": "sum", "min_ns": "min", "max_ns": "max", "count": "sum"}
    known = {key: how for key, how in columns.items() if key in named}
    data = named.groupby("name", observed=True, sort=False).agg(known).reset_index()
    data, names = top_rows(data, "sum_ns", top, "annotation", str)
    if ranks > 1:
        data = spread_over_ranks(named, data, ["name"])
    data["per_rank_ns"] = data["sum_ns"] / ranks
    times = [key for key in data.columns if str(key).endswith("_ns")]
    for each in times:
        data[f"{each}_text"] = [duration(value) for value in data[each]]
    most = float(max(data["per_rank_ns"].max(), data["most_ns"].max() if ranks > 1 else 0)) or 1.0
    counts = [count(each) for each in data["count"]] if "count" in data else []
    whiskers = [Whiskers("least_ns", "most_ns", colors.ink2)] if ranks > 1 else []
    return rows_chart(
        data,
        names,
        [Bars(0.0, "per_rank_ns", colors.kind["annotation"]), *whiskers],
        x_end=most * 1.02,
        title=title,
        subtitle=sentences(
            "summed durations by name; ranges inside of others count for both",
            "mean of ranks, line: least to most of a rank" if ranks > 1 else "",
            unmatched(frame),
        ),
        theme=colors,
        width=width,
        head="annotation",
        ticks=time_ticks(most),
        columns=[
            Column("total", list(data["per_rank_ns_text"])),
            *([Column("count", counts, 480)] if counts else []),
        ],
        tooltip=Tooltip(
            "@{name}",
            [
                ("total a rank", "@{per_rank_ns_text}"),
                *([("count, all ranks", "@{count}")] if counts else []),
                *([("shortest", "@{min_ns_text}")] if "min_ns" in data else []),
                *([("longest", "@{max_ns_text}")] if "max_ns" in data else []),
            ],
        ),
    )


@draws("frequent_kernel_sequences")
def frequent_kernel_sequences(
    frame: pd.DataFrame,
    *,
    top: int = 10,
    width: int | None = None,
    theme: str | Theme = "light",
    title: str = "Frequent sequences of kernels",
) -> Any:
    """Draw the sequences of kernels that occur most often.

    Parameters as of `operators`; `frame` is of
    `hta_widgets.analysis.frequent_kernel_sequences`.

    Returns
    -------
    bokeh.plotting.figure
        Two bars a sequence; its source has the frame's columns over all ranks.

    Examples
    --------
    >>> frame = analysis.frequent_kernel_sequences(traces, "aten::linear")  # doctest: +SKIP
    >>> charts.frequent_kernel_sequences(frame)  # doctest: +SKIP
    """
    colors = theme_of(theme)
    if frame.empty:
        return blank(frame, title, colors, width)
    measures = ["count", "kernel_ns", "operator_ns"]
    require(frame, "frequent_kernel_sequences", "pattern", *measures)
    data = frame.groupby("pattern", observed=True, sort=False)[measures].sum().reset_index()
    data = data.rename(columns={"pattern": "name"})
    of_one = len({str(name).partition("|")[0] for name in data["name"]}) == 1
    data, names = top_rows(data, "count", top, "sequence", _kernels if of_one else _sequence)
    names = told_apart(names, list(data["name"]))
    operator = short_name(str(data["name"].iloc[0]).partition("|")[0])
    data["pattern"] = data["name"]
    data["upper"], data["lower"] = data["row"] - 0.2, data["row"] + 0.2
    for each in ("kernel_ns", "operator_ns"):
        data[f"{each}_text"] = [duration(value) for value in data[each]]
    most = float(data[["kernel_ns", "operator_ns"]].to_numpy().max()) or 1.0
    cpu = colors.kind["cpu"]
    return rows_chart(
        data,
        names,
        [
            Bars(0.0, "kernel_ns", colors.kind["compute"], "kernels", row="upper", height=0.4),
            Bars(
                0.0,
                "operator_ns",
                cpu,
                "operator on the host",
                cpu,
                alpha=0.3,
                row="lower",
                height=0.36,
            ),
        ],
        x_end=most * 1.02,
        title=f"{title}: {operator}" if of_one else title,
        subtitle=sentences(
            "the kernels that one call of the operator launches, most frequent first",
            f"{plural(int(data['names'].sum()), 'sequence')}, time of all occurrences",
            unmatched(frame),
        ),
        theme=colors,
        width=width,
        head="kernels" if of_one else "operator: kernels",
        ticks=time_ticks(most),
        columns=[
            Column("count", [count(each) for each in data["count"]]),
            Column("kernels", list(data["kernel_ns_text"]), 480),
        ],
        tooltip=Tooltip(
            "@{pattern}",
            [
                ("count", "@{count}"),
                ("kernels", "@{kernel_ns_text}"),
                ("operator", "@{operator_ns_text}"),
            ],
        ),
    )


def _sequence(pattern: str) -> str:
    """Return the short names of the operator and of its kernels."""
    operator, *_ = pattern.split("|")
    return f"{short_name(operator)}: {_kernels(pattern)}"


def _kernels(pattern: str) -> str:
    return " → ".join(short_name(kernel) for kernel in pattern.split("|")[1:])
