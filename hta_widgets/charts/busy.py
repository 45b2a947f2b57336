"""Where devices' time goes: busy and idle by rank, kinds of kernels, and what overlaps."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from hta_widgets.text import duration
from hta_widgets.text import share

from hta_widgets.charts.canvas import blank
from hta_widgets.charts.canvas import sentences
from hta_widgets.charts.canvas import unmatched
from hta_widgets.charts.frames import draws
from hta_widgets.charts.frames import require
from hta_widgets.charts.rows import Bars
from hta_widgets.charts.rows import Column
from hta_widgets.charts.rows import Tooltip
from hta_widgets.charts.rows import extremes
from hta_widgets.charts.rows import rows_chart
from hta_widgets.charts.rows import time_ticks
from hta_widgets.charts.sheets import is_sheet
from hta_widgets.charts.theme import Theme
from hta_widgets.charts.theme import theme_of

__all__ = ["comm_comp_overlap", "kernel_type_breakdown", "temporal_breakdown"]

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
    """Return the parts of which the bars consist, without those that are nothing on every rank.

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
