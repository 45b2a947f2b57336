"""Charts of device time."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from hta_widgets.analysis.idle import IDLE_CATEGORIES
from hta_widgets.charts.data import (
    draws,
    fact_ranks,
    late_ranks,
    median_of,
    require,
    spread_over_ranks,
    told_apart,
    top_rows,
)
from hta_widgets.charts.figure import (
    add_tooltip,
    blank,
    keep_fitting,
    mixed,
    models,
    new_figure,
    sentences,
    shows_itself,
    unmatched,
)
from hta_widgets.charts.rows import (
    Bars,
    Column,
    Dots,
    Tooltip,
    Whiskers,
    brush,
    extremes,
    is_sheet,
    nice_ticks,
    rows_chart,
    time_ticks,
)
from hta_widgets.charts.theme import Theme, theme_of
from hta_widgets.facts import facts
from hta_widgets.text import count, duration, plural, share, share_delta, value
from hta_widgets.trace.names import short_name

Floats = npt.NDArray[np.float64]

_WAIT = "exposed wait"


@draws("temporal_breakdown")
def temporal_breakdown(
    frame: pd.DataFrame,
    *,
    width: int | None = None,
    theme: str | Theme = "light",
    title: str = "Where GPU time goes",
) -> Any:
    """Draw what each rank's device does, as shares of its span.

    Parameters
    ----------
    frame : DataFrame, TraceSet, Trace or Selection
        Of `hta_widgets.analysis.temporal_breakdown`. With a column ``exposed_wait_ns``, the part
        of ``exposed_communication_ns`` that is spent waiting for the last rank, communication is
        drawn as transfer and, hatched, as wait.
    width : int, optional
        In CSS pixels; by default what the page gives.
    theme : {"light", "dark"} or Theme, default "light"
    title : str

    Returns
    -------
    bokeh.plotting.figure
        One bar a rank; its source has the frame's rows.

    Examples
    --------
    >>> charts.temporal_breakdown(analysis.temporal_breakdown(traces))  # doctest: +SKIP
    """
    colors = theme_of(theme)
    if frame.empty:
        return blank(frame, title, colors, width)
    needed = ("rank", "span_ns", "idle_ns", "compute_ns", "non_compute_ns")
    require(frame, "temporal_breakdown", *needed)
    data = frame.reset_index(drop=True)
    span = data["span_ns"].to_numpy(float)
    data["row"] = np.arange(len(data))
    pieces = _pieces(data, colors)
    marks, rows = [], []
    left = np.zeros(len(data))
    for number, piece in enumerate(pieces):
        size = np.divide(piece.ns, span, out=np.zeros(len(data)), where=span > 0)
        # Outlines of nothing would be seen.
        hidden = (size <= 0) & (piece.bars.line is not None)
        data[f"left_{number}"] = np.where(hidden, np.nan, left)
        data[f"right_{number}"] = np.where(hidden, np.nan, left + size)
        data[f"text_{number}"] = [share(each) for each in size]
        data[f"time_{number}"] = [duration(each) for each in piece.ns]
        marks.append(
            replace(
                piece.bars,
                left=f"left_{number}",
                right=f"right_{number}",
                # Hatched bars carry no number: it could not be read.
                text=f"text_{number}" if piece.bars.hatch is None else "",
            )
        )
        rows.append((piece.bars.name, f"@{{time_{number}}} · @{{text_{number}}}"))
        left = left + size
    data["span_ns_text"] = [duration(each) for each in span]
    names = [f"rank {rank}" for rank in data["rank"]]
    idle = data["idle_ns"] / np.maximum(span, 1)
    return rows_chart(
        data,
        names,
        marks,
        x_end=1.0,
        title=title,
        subtitle=sentences(
            "share of each rank's GPU span, from its first device event to its last",
            "communication and waiting: only what no compute hides",
            _prefixed("idle ", extremes(names, idle, share)),
            unmatched(frame),
        ),
        theme=colors,
        width=width,
        columns=[Column("span", list(data["span_ns_text"]), 420)],
        tooltip=Tooltip("rank @{rank}", [*rows, ("span", "@{span_ns_text}")]),
    )


@dataclass(frozen=True)
class _Piece:
    """One part of a bar: how it looks, and its time on each rank."""

    bars: Bars
    ns: Floats


def _waits(data: pd.DataFrame) -> bool:
    return "exposed_wait_ns" in data and bool(data["exposed_wait_ns"].notna().any())


def _pieces(data: pd.DataFrame, colors: Theme) -> list[_Piece]:
    """Return the parts of the bars, without those that are 0 on every rank.

    Sheets have them all, since what a selection has is not known when they are made.
    """

    def piece(name: str, kind: str, ns: Any) -> _Piece:
        bars = Bars("", "", colors.kind[kind], name, text_color=colors.on_kind[kind])
        return _Piece(bars, np.asarray(ns, dtype=float))

    whole = data["idle_ns"]
    idle = _Piece(Bars("", "", colors.idle, "idle", text_color=colors.ink2), whole.to_numpy(float))
    if not {"exposed_communication_ns", "exposed_memory_ns"} <= set(data.columns):
        return [
            piece("compute", "compute", data["compute_ns"]),
            piece("communication and copies", "other", data["non_compute_ns"]),
            idle,
        ]
    exposed = data["exposed_communication_ns"].to_numpy(float)
    wait = np.zeros(len(data))
    if _waits(data):
        wait = np.clip(data["exposed_wait_ns"].fillna(0).to_numpy(float), 0, exposed)
    rest = data["non_compute_ns"] - exposed - data["exposed_memory_ns"]
    hatched = Bars(
        "",
        "",
        colors.wait_fill,
        _WAIT,
        line=colors.wait_line,
        hatch="/",
        hatch_color=colors.wait_line,
        text_color=colors.ink,
    )
    known = _waits(data) or is_sheet()
    found = [
        piece("compute", "compute", data["compute_ns"]),
        piece("transfer" if known else "communication", "communication", exposed - wait),
        _Piece(hatched, wait),
        piece("copies" if known else "memory", "memory", data["exposed_memory_ns"]),
        piece("other work", "other", rest),
        idle,
    ]
    optional = (_WAIT, "other work")
    return [
        each
        for each in found
        if is_sheet() or each.bars.name not in optional or (each.ns > 0).any()
    ]


@draws("kernel_type_breakdown")
def kernel_type_breakdown(
    frame: pd.DataFrame,
    *,
    width: int | None = None,
    theme: str | Theme = "light",
    title: str = "Kinds of GPU work",
) -> Any:
    """Draw how much busy time goes to each kind, and to kinds that run at once.

    Parameters and result as of `temporal_breakdown`; `frame` is of
    `hta_widgets.analysis.kernel_type_breakdown`.

    Examples
    --------
    >>> charts.kernel_type_breakdown(analysis.kernel_type_breakdown(traces))  # doctest: +SKIP
    """
    colors = theme_of(theme)
    if frame.empty:
        return blank(frame, title, colors, width)
    require(frame, "kernel_type_breakdown", "kernel_type", "sum_ns")
    if "rank" not in frame:
        require(frame, "kernel_type_breakdown", "share")
    data = frame.reset_index(drop=True)
    ranks = ""
    if "rank" in data:
        ranks = "all ranks together"
        sums = data.groupby("kernel_type", sort=False, observed=True)["sum_ns"].sum()
        data = sums.sort_values(ascending=False, kind="stable").reset_index()
        data["share"] = data["sum_ns"] / max(1, data["sum_ns"].sum())
    kinds = [_kinds_of(str(label)) for label in data["kernel_type"]]
    data["row"] = np.arange(len(data))
    data["fill"] = [colors.kind[each[0]] for each in kinds]
    data["hatch"] = ["/" if len(each) > 1 else " " for each in kinds]
    data["hatch_color"] = [colors.kind[each[1]] if len(each) > 1 else colors.bg for each in kinds]
    data["sum_ns_text"] = [duration(each) for each in data["sum_ns"]]
    data["share_text"] = [share(each) for each in data["share"]]
    most = float(data["share"].max()) or 1.0
    return rows_chart(
        data,
        [_words_of(each) for each in kinds],
        [
            Bars(
                0.0,
                "share",
                "@fill",
                hatch="@hatch",
                hatch_color="@hatch_color",
                hatch_weight=3,
                hatch_scale=12,
            )
        ],
        x_end=most,
        title=title,
        subtitle=sentences(
            "busy device time, every moment counted once",
            "hatched: two kinds at once",
            ranks,
            unmatched(frame, ()),
        ),
        theme=colors,
        width=width,
        head="kind",
        columns=[
            Column("share", list(data["share_text"])),
            Column("total", list(data["sum_ns_text"]), 420),
        ],
        tooltip=Tooltip(
            "@{kernel_type}", [("total", "@{sum_ns_text}"), ("of busy time", "@{share_text}")]
        ),
    )


@draws("comm_comp_overlap")
def comm_comp_overlap(
    frame: pd.DataFrame,
    *,
    width: int | None = None,
    theme: str | Theme = "light",
    title: str = "Communication, and how much compute hides",
) -> Any:
    """Draw each rank's communication, split into hidden behind compute and exposed.

    Parameters and result as of `temporal_breakdown`; `frame` is of
    `hta_widgets.analysis.comm_comp_overlap`.

    Examples
    --------
    >>> charts.comm_comp_overlap(analysis.comm_comp_overlap(traces))  # doctest: +SKIP
    """
    colors = theme_of(theme)
    if len(frame):
        needed = ("rank", "communication_ns", "overlapped_ns", "overlap_share")
        require(frame, "comm_comp_overlap", *needed)
    total = frame["communication_ns"].sum() if len(frame) else 0
    if not total:
        none = "no communication kernels matched, so overlap is not shown (not 0 %)"
        return blank(frame, title, colors, width, note=str(frame.attrs.get("note", none)))
    data = frame.reset_index(drop=True)
    data["row"] = np.arange(len(data))
    data["exposed_end"] = data["communication_ns"]
    exposed = data["communication_ns"] - data["overlapped_ns"]
    data["hidden_text"] = [share(each) for each in data["overlap_share"]]
    data["communication_ns_text"] = [duration(each) for each in data["communication_ns"]]
    data["overlapped_ns_text"] = [duration(each) for each in data["overlapped_ns"]]
    data["exposed_ns_text"] = [duration(each) for each in exposed]
    names = [f"rank {rank}" for rank in data["rank"]]
    orange = colors.kind["communication"]
    most = float(data["communication_ns"].max())
    hidden = float(data["overlapped_ns"].sum() / total)
    return rows_chart(
        data,
        names,
        [
            Bars(0.0, "overlapped_ns", orange, "behind compute"),
            Bars("overlapped_ns", "exposed_end", orange, "exposed", line=orange, alpha=0.25),
        ],
        x_end=most * 1.02,
        title=title,
        subtitle=sentences(
            "time in which any communication kernel runs, waiting included",
            f"{share(hidden)} of it hidden",
            _prefixed("hidden ", extremes(names, data["overlap_share"], share)),
            unmatched(frame),
        ),
        theme=colors,
        width=width,
        head=" ",
        ticks=time_ticks(most),
        columns=[
            Column("hidden", list(data["hidden_text"])),
            Column("total", list(data["communication_ns_text"]), 420),
        ],
        tooltip=Tooltip(
            "rank @{rank}",
            [
                ("communication", "@{communication_ns_text}"),
                ("behind compute", "@{overlapped_ns_text} · @{hidden_text}"),
                ("exposed", "@{exposed_ns_text}"),
            ],
        ),
    )


def _prefixed(word: str, text: str) -> str:
    return word + text if text else ""


_KINDS = {"COMPUTATION": "compute", "COMMUNICATION": "communication", "MEMORY": "memory"}


def _kinds_of(label: str) -> list[str]:
    words = label.split(" overlapping ")
    return [_KINDS.get(word.strip().upper(), "other") for word in words]


def _words_of(kinds: list[str]) -> str:
    return " + ".join(kinds)


@draws("idle_time_breakdown")
def idle_time_breakdown(
    frame: pd.DataFrame,
    *,
    width: int | None = None,
    theme: str | Theme = "light",
    title: str = "Why streams are idle",
) -> Any:
    """Draw each stream's idle time, split by cause.

    Parameters
    ----------
    frame : DataFrame, TraceSet, Trace or Selection
        Of `hta_widgets.analysis.idle_time_breakdown`.
    width : int, optional
        In CSS pixels; by default what the page gives.
    theme : {"light", "dark"} or Theme, default "light"
    title : str

    Returns
    -------
    bokeh.plotting.figure
        One bar a stream; its source has the frame's rows.

    Examples
    --------
    >>> charts.idle_time_breakdown(analysis.idle_time_breakdown(traces))  # doctest: +SKIP
    """
    said = "gaps between a stream's kernels, each counted for one cause"
    return _idle(frame, ["rank", "stream"], said, title, theme_of(theme), width)


@draws("device_idle_breakdown")
def device_idle_breakdown(
    frame: pd.DataFrame,
    *,
    width: int | None = None,
    theme: str | Theme = "light",
    title: str = "Why devices are idle",
) -> Any:
    """Draw the idle time of each rank's whole device, split by cause.

    Parameters and result as of `idle_time_breakdown`, with one bar a rank; `frame` is of
    `hta_widgets.analysis.device_idle_breakdown`.

    Examples
    --------
    >>> charts.device_idle_breakdown(analysis.device_idle_breakdown(traces))  # doctest: +SKIP
    """
    said = "time in which no stream of the device works, split by what it waits for"
    return _idle(frame, ["rank"], said, title, theme_of(theme), width)


def _idle(
    frame: pd.DataFrame,
    keys: Sequence[str],
    said: str,
    title: str,
    colors: Theme,
    width: int | None,
) -> Any:
    if frame.empty:
        return blank(frame, title, colors, width)
    name = "idle_time_breakdown" if "stream" in keys else "device_idle_breakdown"
    require(frame, name, *keys, "idle_category", "idle_ns", "idle_share")
    if not (frame["idle_ns"] > 0).any():
        return blank(frame, title, colors, width, note="never idle")
    data = frame.reset_index(drop=True)
    data["idle_category"] = data["idle_category"].astype(str)
    group = data.groupby(list(keys), sort=False)["idle_ns"]
    data["row"] = group.ngroup()
    size = data["idle_ns"].clip(lower=0)
    data["right"] = size.groupby(data["row"]).cumsum().astype(float)
    data["left"] = data["right"] - size
    # Outlines of nothing would be seen.
    data.loc[size == 0, ["left", "right"]] = np.nan
    total = size.groupby(data["row"]).sum().to_numpy()
    styles = _styles(data["idle_category"], colors)
    data["idle_ns_text"] = [duration(each) for each in data["idle_ns"]]
    data["idle_share_text"] = [share(each) for each in data["idle_share"]]
    data["inside"] = ["" if each <= 0 else share(each) for each in data["idle_share"].fillna(0)]
    data["category_text"] = data["idle_category"].map(idle_words)
    heads = data.drop_duplicates("row")
    if "stream" in keys:
        several = len(heads["rank"].unique()) > 1
        names = [
            f"rank {rank} · stream {stream}" if several else f"stream {stream}"
            for rank, stream in zip(heads["rank"], heads["stream"], strict=True)
        ]
    else:
        names = [f"rank {rank}" for rank in heads["rank"]]
    most = float(total.max()) or 1.0
    marks = [
        Bars(
            "left",
            "right",
            style["fill"],
            idle_words(name),
            line=style["line"],
            hatch=style["hatch"],
            hatch_color=style["hatch_color"],
            # Hatched bars carry no number: it could not be read.
            text="inside" if style["hatch"] is None else "",
            text_color=style["ink"],
            only=("idle_category", name),
        )
        for name, style in styles.items()
        if is_sheet() or size[data["idle_category"] == name].any()
    ]
    where = "@{name_of_row}"
    data["name_of_row"] = [names[row] for row in data["row"]]
    return rows_chart(
        data,
        names,
        marks,
        x_end=most * 1.01,
        title=title,
        subtitle=sentences(
            said,
            *_meanings(data.loc[size > 0, "idle_category"]),
            extremes(names, total, duration),
            unmatched(frame, ()),
        ),
        theme=colors,
        width=width,
        head=" ",
        ticks=time_ticks(most),
        columns=[Column("idle", [duration(each) for each in total])],
        tooltip=Tooltip(
            where + " · @{category_text}",
            [("idle", "@{idle_ns_text}"), ("of all idle time", "@{idle_share_text}")]
            + ([("gaps", "@{gaps}")] if "gaps" in data else []),
        ),
    )


def _meanings(categories: pd.Series) -> list[str]:
    kept = list(dict.fromkeys(categories))
    return [_MEANING[name] for name in kept if name in _MEANING] if len(kept) <= 3 else []


def idle_words(category: str) -> str:
    """Return what people read of a category: ``host: data loading``."""
    label: str = facts("causes").get(category, {}).get("label", category.replace("_", " "))
    return label


_MEANING = {
    "host_wait": "host wait: the launch came after the previous kernel's end",
    "kernel_wait": "kernel wait: launched in time, a short gap",
}


def _styles(categories: pd.Series, colors: Theme) -> dict[str, dict[str, Any]]:
    """Return how each cause is drawn: the host's are dark, the device's pale, unknown is flat."""

    def style(
        fill: str,
        ink: str,
        hatch: str | None = None,
        hatch_color: str | None = None,
        line: str | None = None,
    ) -> dict[str, Any]:
        return {
            "fill": fill,
            "ink": ink,
            "hatch": hatch,
            "line": line or fill,
            "hatch_color": hatch_color or fill,
        }

    cpu, sync, on = colors.kind["cpu"], colors.kind["sync"], colors.on_kind
    tints = [mixed(cpu, colors.bg, part) for part in (0.7, 0.48, 0.28)]
    unknown = style(colors.idle, colors.ink2, line=colors.idle_line)
    known = {
        "sync_wait": style(sync, on["sync"]),
        "host_wait": style(cpu, on["cpu"]),
        "host_data_loading": style(cpu, on["cpu"]),
        "host_operator": style(tints[0], colors.ink),
        "host_python": style(tints[1], colors.ink),
        "host_nothing": style(tints[2], colors.ink),
        "launch_call": style(cpu, "", "\\", colors.bg),
        "launch_latency": style(colors.idle, "", "|", colors.rule_strong, colors.idle_line),
        "kernel_wait": style(colors.idle, "", "/", colors.idle_line, colors.idle_line),
        "stream_wait": style(colors.wait_fill, "", "/", colors.wait_line, colors.wait_line),
        "blocked": style(colors.wait_fill, "", "x", colors.wait_line, colors.wait_line),
    }
    names = IDLE_CATEGORIES if is_sheet() else dict.fromkeys(categories)
    return {name: known.get(name, unknown) for name in names}


#: A few per cent are what any two GPUs of one kind differ by.
_APART = 0.05
#: Of a rank's time for the kernels that are drawn: what is less stands out in per cent only.
_OF_WORK = 0.01
#: The scale goes at least and at most this far from the median.
_NEAREST, _FARTHEST = 0.1, 1.0
_DRAWN = ("count", "mean_ns", "min_ns", "max_ns")
_MEASURES = ("count", "sum_ns", "min_ns", "max_ns")


@draws("kernel_breakdown")
def kernel_breakdown(
    frame: pd.DataFrame,
    *,
    top: int = 12,
    width: int | None = None,
    theme: str | Theme = "light",
    title: str = "Top kernels",
) -> Any:
    """Draw the kernels with most time.

    Parameters
    ----------
    frame : DataFrame, TraceSet, Trace or Selection
        Of `hta_widgets.analysis.kernel_breakdown`.
    top : int, default 12
        How many kernels; the others are one bar that says how many they are.
    width : int, optional
        In CSS pixels; by default what the page gives.
    theme : {"light", "dark"} or Theme, default "light"
    title : str

    Returns
    -------
    bokeh.plotting.figure
        One bar a kernel; its source has columns ``kind, name, count, sum_ns, mean_ns, min_ns,
        max_ns`` over all ranks, and ``per_rank_ns``, what the bars show; the lines are from
        ``least_ns`` to ``most_ns``, sums of a rank.

    Examples
    --------
    >>> charts.kernel_breakdown(analysis.kernel_breakdown(traces))  # doctest: +SKIP
    """
    colors = theme_of(theme)
    if frame.empty:
        return blank(frame, title, colors, width)
    require(frame, "kernel_breakdown", "rank", "kind", "name", *_MEASURES)
    ranks = frame["rank"].nunique()
    grouped = frame.groupby(["kind", "name"], observed=True)
    data = pd.DataFrame(
        {
            "count": grouped["count"].sum(),
            "sum_ns": grouped["sum_ns"].sum(),
            "min_ns": grouped["min_ns"].min(),
            "max_ns": grouped["max_ns"].max(),
        }
    ).reset_index()
    data, names = top_rows(data, "sum_ns", top, "kernel", short_name)
    names = told_apart(names, list(data["name"]), [str(kind) for kind in data["kind"]])
    data = spread_over_ranks(frame, data, ["kind", "name"])
    data["mean_ns"] = data["sum_ns"] / data["count"]
    data["per_rank_ns"] = data["sum_ns"] / ranks
    whole = float(frame["sum_ns"].sum()) or 1.0
    data["fill"] = [colors.kind.get(str(kind), colors.idle) for kind in data["kind"]]
    for name in ("per_rank_ns", "mean_ns", "min_ns", "max_ns", "least_ns", "most_ns"):
        data[f"{name}_text"] = [duration(each) for each in data[name]]
    data["share_text"] = [share(each / whole) for each in data["sum_ns"]]
    data["count_text"] = [count(each) for each in data["count"]]
    whiskers = [Whiskers("least_ns", "most_ns", colors.ink2)] if ranks > 1 else []
    most = float(max(data["per_rank_ns"].max(), data["most_ns"].max() if ranks > 1 else 0)) or 1.0
    measure = "mean of ranks, line: least to most of a rank" if ranks > 1 else "summed durations"
    return rows_chart(
        data,
        names,
        [Bars(0.0, "per_rank_ns", "@fill"), *whiskers],
        x_end=most * 1.02,
        title=title,
        subtitle=sentences(
            f"device time by name, {measure}",
            f"{plural(int(data['names'].sum()), 'name')} on {plural(ranks, 'rank')}",
            unmatched(frame),
        ),
        theme=colors,
        width=width,
        head="kernel",
        ticks=time_ticks(most),
        columns=[
            Column("total", list(data["per_rank_ns_text"])),
            Column("share", list(data["share_text"]), 480),
            Column("count", list(data["count_text"]), 620),
            Column("mean", list(data["mean_ns_text"]), 620),
        ],
        legend=[
            Bars(0.0, "per_rank_ns", colors.kind[kind], kind)
            for kind in ("compute", "communication", "memory", "other")
            if (data["kind"].astype(str) == kind).any()
        ],
        tooltip=Tooltip(
            "@{name}",
            [
                ("kind", "@{kind}"),
                ("total a rank", "@{per_rank_ns_text}"),
                ("least and most of a rank", "@{least_ns_text} – @{most_ns_text}"),
                ("of all device time", "@{share_text}"),
                ("kernels, all ranks", "@{count_text}"),
                ("mean", "@{mean_ns_text}"),
                ("shortest and longest", "@{min_ns_text} – @{max_ns_text}"),
            ],
        ),
    )


@draws("kernel_duration_by_rank")
def kernel_duration_by_rank(
    frame: pd.DataFrame,
    *,
    name: str | None = None,
    top: int = 12,
    late: Iterable[int] | None = None,
    width: int | None = None,
    theme: str | Theme = "light",
    title: str | None = None,
) -> Any:
    """Draw how long kernels take on each rank.

    With a `name`, or on one rank: bars of the mean with lines from shortest to longest. Else one
    row a kernel, with a dot for each rank's mean against the median rank's. The scale ends at the
    farthest kernel that does not wait, at 100 % at most: arrow heads at its ends are ranks that
    are farther. Dark is the dot that is farthest of its kernel, by 5 % and 1 % of a rank's time.

    Parameters
    ----------
    frame : DataFrame, TraceSet, Trace or Selection
        Of `hta_widgets.analysis.kernel_duration_by_rank`.
    name : str, optional
        The full name of one kernel.
    top : int, default 12
        How many kernels, those with most time.
    late : iterable of int, optional
        Ranks to draw in red, as in `step_phases`.

    See Also
    --------
    kernel_breakdown : Has the other parameters.

    Examples
    --------
    >>> frame = analysis.kernel_duration_by_rank(traces)  # doctest: +SKIP
    >>> charts.kernel_duration_by_rank(frame)  # doctest: +SKIP
    """
    colors = theme_of(theme)
    given = title or ("Kernel durations over ranks" if name is None else short_name(name))
    if not frame.empty:
        require(frame, "kernel_duration_by_rank", "rank", "name", *_DRAWN)
    chosen = frame if name is None else frame[frame["name"].astype(str) == name]
    if chosen.empty:
        note = "" if frame.empty else "no kernel has this name"
        return blank(frame, given, colors, width, note=note)
    if not is_sheet() and (name is not None or len(chosen["rank"].unique()) == 1):
        return _means(chosen, frame, name, top, given, colors, width)
    return _against_median(
        chosen, top, late_ranks(frame, late), fact_ranks(frame), given, colors, width
    )


def _means(
    chosen: pd.DataFrame,
    frame: pd.DataFrame,
    name: str | None,
    top: int,
    title: str,
    colors: Theme,
    width: int | None,
) -> Any:
    data = chosen.reset_index(drop=True)
    said = ""
    if name is None:
        order = (data["mean_ns"] * data["count"]).sort_values(ascending=False, kind="stable").index
        said = _most(len(order), top)
        data = data.loc[order[:top]].reset_index(drop=True)
        full = [str(each) for each in data["name"]]
        names = told_apart(_shorts(full), full)
    else:
        names = [f"rank {rank}" for rank in data["rank"]]
    data["row"] = np.arange(len(data))
    for each in ("mean_ns", "min_ns", "max_ns"):
        data[f"{each}_text"] = [duration(value) for value in data[each]]
    data["count_text"] = [count(each) for each in data["count"]]
    data["fill"] = _fills(data, colors)
    most = float(data["max_ns"].max()) or 1.0
    return rows_chart(
        data,
        names,
        [Bars(0.0, "mean_ns", "@fill"), Whiskers("min_ns", "max_ns", colors.ink2)],
        x_end=most * 1.02,
        title=title,
        subtitle=sentences(
            "bar: mean duration, line: shortest to longest",
            said or (name is not None and extremes(names, data["mean_ns"], duration)) or "",
            unmatched(frame),
        ),
        theme=colors,
        width=width,
        head="kernel" if name is None else " ",
        ticks=time_ticks(most),
        columns=[
            Column("mean", list(data["mean_ns_text"])),
            Column("longest", list(data["max_ns_text"]), 480),
            Column("count", list(data["count_text"]), 620),
        ],
        tooltip=_DURATIONS,
    )


_DURATIONS = Tooltip(
    "@{name}",
    [
        ("rank", "@{rank}"),
        ("mean", "@{mean_ns_text}"),
        ("shortest and longest", "@{min_ns_text} – @{max_ns_text}"),
        ("kernels", "@{count_text}"),
    ],
)


def _shorts(names: list[str]) -> list[str]:
    return [short_name(name) for name in names]


def _most(names: int, top: int) -> str:
    if names <= top:
        return ""
    return f"the {count(top)} with most time; {plural(names - top, 'other')} not drawn"


def _fills(data: pd.DataFrame, colors: Theme) -> list[str]:
    if "kind" not in data:
        return [colors.kind["compute"]] * len(data)
    return [colors.kind.get(str(kind), colors.kind["other"]) for kind in data["kind"]]


def _against_median(
    frame: pd.DataFrame,
    top: int,
    late: list[int],
    facts: list[int],
    title: str,
    colors: Theme,
    width: int | None,
) -> Any:
    data = frame.reset_index(drop=True)
    data["name"] = data["name"].astype(str)
    data["kind"] = data["kind"].astype(str) if "kind" in data else ""
    data["of"] = data.groupby(["name", "kind"], sort=False).ngroup()
    data["spent_ns"] = data["mean_ns"] * data["count"]
    total = data.groupby("of")["spent_ns"].sum()
    if not is_sheet():
        total = total.sort_values(ascending=False, kind="stable")
    data["row"] = data["of"].map({of: row for row, of in enumerate(total.index[:top])})
    data = data[data["row"].notna()].astype({"row": int}).reset_index(drop=True)
    alone = len(data["rank"].unique()) == 1
    heads = data.drop_duplicates("row").sort_values("row")
    median = pd.Series(median_of(data["mean_ns"], data["row"]))
    data["against"] = np.where(median > 0, data["mean_ns"] / median.where(median > 0, 1) - 1, 0.0)
    apart = data["against"].abs()
    waits = data["kind"] == "communication"
    reach = min(max(float(apart[~waits | bool(waits.all())].max()), _NEAREST), _FARTHEST)
    beyond = apart > reach
    furthest = data.index.isin(apart.groupby(data["row"]).idxmax())
    whole = float(data.groupby("rank")["spent_ns"].sum().median())
    matters = (data["mean_ns"] - median).abs() * data["count"] >= _OF_WORK * whole
    is_late = data["rank"].isin(late)
    is_odd = (furthest & ~waits & matters & (apart >= _APART)) | data["rank"].isin(facts)
    data["ink"] = np.select(
        [is_late, is_odd], [colors.late, colors.ink], default=colors.rule_strong
    )
    data["at"] = np.nan if alone else data["against"].clip(-reach, reach)
    data["marker"] = np.where(beyond, "triangle", "circle")
    data["size"] = np.where(beyond, 11, 8)
    data["angle"] = np.where(beyond, -np.sign(data["against"]) * np.pi / 2, 0.0)
    data["end"] = data["mean_ns"] if alone else np.nan
    data["fill"] = _fills(data, colors)
    data["against_text"] = [share_delta(each) for each in data["against"]]
    for each in ("mean_ns", "min_ns", "max_ns"):
        data[f"{each}_text"] = [duration(value) for value in data[each]]
    data["count_text"] = [count(each) for each in data["count"]]
    far = data[furthest].sort_values("row")
    words = [
        f"rank {rank} {share_delta(each)}" if abs(each) >= _APART else "within ±5\u2009%"
        for rank, each in zip(far["rank"], far["against"], strict=True)
    ]
    # Marked rows are drawn last, over the others.
    data["order"] = np.select([is_late, is_odd], [2, 1], default=0)
    data = data.sort_values("order", kind="stable").reset_index(drop=True)
    names = [str(each) for each in heads["name"]]
    labels = [str(each) for each in heads["short"]] if "short" in heads else _shorts(names)
    ticks = nice_ticks(reach, 1 if reach < 0.15 else 2, -reach)
    marked = [(at, "median" if at == 0 else share_delta(at)) for at in ticks]
    most = float(data["mean_ns"].max()) or 1.0
    middle = median[heads.index]
    return rows_chart(
        data,
        told_apart(labels, names),
        [Bars(0.0, "end", "@fill"), Dots("at", "@ink", "size", marker="marker", angle="angle")],
        x_start=0.0 if alone else -reach * 1.04,
        x_end=most * 1.02 if alone else reach * 1.04,
        title=title,
        subtitle=sentences(
            "mean duration, by name with most time"
            if alone
            else "one dot per rank: its mean duration against the median rank's",
            "" if alone else "communication includes waiting: who waits less is not faster",
            "arrow: beyond the scale" if beyond.any() and not alone else "",
            _most(len(total), top),
            unmatched(frame, ()),
        ),
        theme=colors,
        width=width,
        head="kernel",
        zero_line=not alone,
        ticks=time_ticks(most) if alone else marked,
        columns=[
            *([] if alone else [Column("farthest", words)]),
            Column("mean" if alone else "median", [duration(each) for each in middle], 480),
        ],
        tooltip=Tooltip(
            _DURATIONS.heading, [*_DURATIONS.rows, ("against the median", "@{against_text}")]
        ),
    )


#: Bars a decade.
_FINE = 8


@draws("launch_stats")
def launch_stats(
    frame: pd.DataFrame,
    *,
    runtime_cutoff_ns: int = 50_000,
    launch_delay_cutoff_ns: int = 100_000,
    width: int | None = None,
    theme: str | Theme = "light",
    title: str = "Launches",
) -> Any:
    """Draw how launch delays, launch calls and short kernels are distributed.

    Parameters
    ----------
    frame : DataFrame, TraceSet, Trace or Selection
        Of `hta_widgets.analysis.launch_stats`.
    runtime_cutoff_ns : int, default 50 000
        A launch call that takes longer is drawn solid.
    launch_delay_cutoff_ns : int, default 100 000
        A kernel that starts later after its launch is drawn solid.
    width : int, optional
        In CSS pixels; by default what the page gives.
    theme : {"light", "dark"} or Theme, default "light"
    title : str

    Returns
    -------
    bokeh.models.Column
        Three histograms: launch delay; duration of launch calls; durations of device events, those
        shorter than their launch call apart. Sources have columns ``from_ns, to_ns, count,
        solid``.

    Examples
    --------
    >>> charts.launch_stats(analysis.launch_stats(traces))  # doctest: +SKIP
    """
    colors = theme_of(theme)
    if frame.empty:
        return blank(frame, title, colors, width)
    require(frame, "launch_stats", "launch_delay_ns", "cpu_dur_ns", "gpu_dur_ns")
    delay, call = frame["launch_delay_ns"].to_numpy(), frame["cpu_dur_ns"].to_numpy()
    kernel = frame["gpu_dur_ns"].to_numpy()
    blue, grey = colors.kind["compute"], colors.kind["cpu"]
    late, long, short = delay > launch_delay_cutoff_ns, call > runtime_cutoff_ns, kernel < call
    charts = [
        _histogram(
            delay,
            late,
            f"{title}: delay of kernels",
            "from the launch call's end to the kernel's start, 0 where it starts before",
            f"later than {duration(launch_delay_cutoff_ns)}",
            blue,
            colors,
            width,
        ),
        _histogram(
            call,
            long,
            f"{title}: duration of calls",
            "how long the thread is busy with the call",
            f"longer than {duration(runtime_cutoff_ns)}",
            grey,
            colors,
            width,
        ),
        _histogram(
            kernel,
            short,
            f"{title}: duration of kernels",
            "device time of what is launched, copies included",
            "shorter than their launch call",
            blue,
            colors,
            width,
            unmatched(frame),
        ),
    ]
    sizing = {"width": int(width)} if width else {"sizing_mode": "stretch_width"}
    return shows_itself(models.Column(children=charts, spacing=8, **sizing))


def _histogram(
    values: Any,
    solid: Any,
    title: str,
    said: str,
    of_solid: str,
    color: str,
    colors: Theme,
    width: int | None,
    note: str = "",
) -> Any:
    """Return a histogram over decades; zeros stand in a bar of their own at the left."""
    zero = values <= 0
    logs = np.log10(np.maximum(values[~zero], 1).astype(float))
    low = float(np.floor(logs.min())) if len(logs) else 2.0
    high = max(low + 1, float(np.ceil(logs.max() + 1e-9))) if len(logs) else 3.0
    bins = round((high - low) * _FINE)
    edges = low + np.arange(bins + 1) / _FINE
    place = np.clip(((logs - low) * _FINE).astype(int), 0, bins - 1)
    every = np.bincount(place, minlength=bins)
    chosen = np.bincount(place[solid[~zero]], minlength=bins)
    left, right = edges[:-1], edges[1:]
    start_ns, end_ns = 10.0**left, 10.0**right
    gap = 4 / _FINE
    if zero.any():
        left = np.r_[low - gap - 1.0 / _FINE, left]
        right = np.r_[low - gap, right]
        every = np.r_[zero.sum(), every]
        chosen = np.r_[solid[zero].sum(), chosen]
        start_ns, end_ns = np.r_[0.0, start_ns], np.r_[0.0, end_ns]
    # Counts differ by orders of magnitude, and the few are what one looks for.
    top = max(1.0, float(np.log10(1 + every.max())))
    taken = float(values[solid].sum())
    figure = new_figure(
        title,
        sentences(
            said,
            f"solid: {of_solid}, {count(int(solid.sum()))} of {count(len(values))} "
            f"({share(float(solid.mean()))}), {duration(taken)} together",
            "both scales logarithmic",
            note,
        ),
        colors,
        width,
        frame_height=96,
        x_range=models.Range1d(float(left[0]) - 0.05, high + 0.05),
        y_range=models.Range1d(0, top * 1.06),
        tools=[models.BoxSelectTool(dimensions="width", overlay=brush(colors)), models.TapTool()],
    )
    _decades(figure, low, high, top, zero=float(left[0] + right[0]) / 2 if zero.any() else None)
    figure.ygrid.grid_line_color = colors.rule
    inside = 0.12 / _FINE
    source = models.ColumnDataSource(
        {
            "left": left + inside,
            "right": right - inside,
            "count": every,
            "solid": chosen,
            "top": np.log10(1.0 + every),
            "solid_top": np.log10(1.0 + chosen),
            "from_ns": start_ns,
            "to_ns": end_ns,
            "range_text": _ranges(start_ns, end_ns),
            "count_text": [count(each) for each in every],
            "solid_text": [count(each) for each in chosen],
        }
    )
    pale = figure.quad(
        left="left",
        right="right",
        bottom=0,
        top="top",
        source=source,
        fill_color=color,
        fill_alpha=0.3,
        line_color=None,
        nonselection_fill_alpha=0.12,
    )
    full = figure.quad(
        left="left",
        right="right",
        bottom=0,
        top="solid_top",
        source=source,
        fill_color=color,
        line_color=None,
        nonselection_fill_alpha=0.4,
    )
    rows = [("all", "@{count_text}"), (of_solid, "@{solid_text}")]
    add_tooltip(figure, [pale, full], colors, "@{range_text}", rows)
    keep_fitting(
        figure,
        width=width,
        names=[(0.0, "0"), *((float(np.log10(1 + n)), count(n)) for n in _counts(top))],
    )
    return figure


def _ranges(start_ns: Any, end_ns: Any) -> list[str]:
    return [
        "0 ns" if until == 0 else f"{duration(since)} to {duration(until)}"
        for since, until in zip(start_ns, end_ns, strict=True)
    ]


def _counts(top: float) -> list[int]:
    """Return up to three counts for the scale at the left."""
    tens = [10**power for power in range(8) if np.log10(1 + 10**power) <= top * 1.05]
    step = max(1, -(-len(tens) // 3))
    return tens[::-1][::step]


def _decades(figure: Any, low: float, high: float, top: float, *, zero: float | None) -> None:
    """Label the scale below at powers of ten, and at zero."""
    powers = np.arange(low, high + 1)
    ticks = [float(power) for power in powers]
    labels = {at: _power(int(at)) for at in ticks}
    if zero is not None:
        ticks = [zero, *ticks]
        labels[zero] = "0"
    figure.xaxis.ticker = models.FixedTicker(ticks=ticks)
    figure.xaxis.major_label_overrides = labels
    figure.yaxis.ticker = models.FixedTicker(
        ticks=[0.0, *(float(np.log10(1 + n)) for n in _counts(top))]
    )


def _power(power: int) -> str:
    unit, scale = next(
        (each for each in (("s", 9), ("ms", 6), ("\u00b5s", 3)) if power >= each[1]), ("ns", 0)
    )
    return f"{10 ** (power - scale)}\u2009{unit}"


#: More queues than this are drawn as one a rank.
_MOST = 48


@draws("queue_length_summary")
def queue_length_summary(
    frame: pd.DataFrame,
    *,
    width: int | None = None,
    theme: str | Theme = "light",
    title: str = "Launched and not yet started",
) -> Any:
    """Draw how much launched work waits on each stream: in the mean, and at most.

    Parameters
    ----------
    frame : DataFrame, TraceSet, Trace or Selection
        Of `hta_widgets.analysis.queue_length_summary`.
    width : int, optional
        In CSS pixels; by default what the page gives.
    theme : {"light", "dark"} or Theme, default "light"
    title : str

    Returns
    -------
    bokeh.plotting.figure
        One bar a rank and stream; of more than 48, the stream with the longest queue of each rank.

    Examples
    --------
    >>> charts.queue_length_summary(analysis.queue_length_summary(traces))  # doctest: +SKIP
    """
    colors = theme_of(theme)
    if len(frame):
        require(frame, "queue_length_summary", "rank", "stream", "time_weighted_mean", "max")
    known = frame[frame["max"].notna()] if len(frame) else frame
    if known.empty:
        return blank(frame, title, colors, width)
    data = known.reset_index(drop=True)
    said = ""
    if len(data) > _MOST and data["rank"].duplicated().any():
        longest = data.sort_values(
            ["rank", "time_weighted_mean"], ascending=[True, False], kind="stable"
        )
        data = longest.drop_duplicates("rank").reset_index(drop=True)
        said = "of each rank the stream with the longest queue"
    data["row"] = np.arange(len(data))
    data["mean"] = data["time_weighted_mean"].fillna(0.0)
    several = bool((data["rank"] != data["rank"].iloc[0]).any())
    names = [
        f"rank {rank} · stream {stream}" if several else f"stream {stream}"
        for rank, stream in zip(data["rank"], data["stream"], strict=True)
    ]
    data["name_of_row"] = names
    data["mean_text"] = [_length(each) for each in data["time_weighted_mean"]]
    data["max_text"] = [value(each) for each in data["max"]]
    data["count_text"] = [count(each) for each in data["count"]] if "count" in data else ""
    most = float(data["max"].max()) or 1.0
    ticks = [at for at in nice_ticks(most, 3) if at == int(at)]
    ink = colors.kind["cpu"]
    return rows_chart(
        data,
        names,
        [
            Bars(0.0, "max", ink, "most", line=ink, alpha=0.2),
            Bars(0.0, "mean", ink, "mean over time"),
        ],
        x_end=most * 1.02,
        title=title,
        subtitle=sentences(
            "kernels and copies in a stream's queue",
            "a short queue: the GPU waits for launches",
            said,
            unmatched(frame, ("launched",)),
        ),
        theme=colors,
        width=width,
        head=" ",
        ticks=[(at, count(at)) for at in ticks],
        columns=[Column("mean", list(data["mean_text"])), Column("most", list(data["max_text"]))],
        tooltip=Tooltip(
            "@{name_of_row}",
            [("mean over time", "@{mean_text}"), ("most", "@{max_text}")]
            + ([("changes", "@{count_text}")] if "count" in data else []),
        ),
    )


def _length(mean: float) -> str:
    """Two digits tell short queues apart, and more say nothing."""
    if not np.isfinite(mean):
        return value(None)
    if 0 < mean < 0.01:
        return "<0.01"
    return value(round(mean)) if mean >= 10 else value(float(f"{mean:.2g}"))
