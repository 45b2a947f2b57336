"""BytePS's servers: who is late in each iteration, how loaded they are, and their clocks."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from hta_widgets.formats.byteps.byteps_files import CONSISTENT_SHARE
from hta_widgets.text import count
from hta_widgets.text import duration
from hta_widgets.text import plural
from hta_widgets.formats.byteps.byteps_requests import node_label
from hta_widgets.formats.byteps.byteps_frames import by_iteration

from hta_widgets.charts.across_ranks import ramp
from hta_widgets.charts.canvas import blank
from hta_widgets.charts.canvas import sentences
from hta_widgets.charts.frames import draws
from hta_widgets.charts.frames import require
from hta_widgets.charts.inks import add_times
from hta_widgets.charts.inks import note_of
from hta_widgets.charts.inks import stacked
from hta_widgets.charts.marks import Whiskers
from hta_widgets.charts.rows import Bars
from hta_widgets.charts.rows import Column
from hta_widgets.charts.rows import Tooltip
from hta_widgets.charts.rows import rows_chart
from hta_widgets.charts.rows import time_ticks
from hta_widgets.charts.theme import Theme
from hta_widgets.charts.theme import theme_of

__all__ = ["byteps_arrivals", "byteps_clock", "byteps_servers"]

#: More iterations than this share cells.
_MOST_CELLS = 400
_SERVER = ("server", "requests", "keys", "busy_ns", "push_ns", "wait_ns", "service_ns")
_CLOCK = ("worker", "server", "node", "offset_ns", "error_ns", "low_ns", "high_ns", "requests")


@draws("byteps_arrivals")
def byteps_arrivals(
    frame: pd.DataFrame,
    *,
    width: int | None = None,
    theme: str | Theme = "light",
    title: str = "Who is late, iteration by iteration",
) -> Any:
    """Draw how far each worker is behind the first in each iteration, and who comes last.

    Parameters and result as of `byteps_gradients`.

    Parameters
    ----------
    frame : DataFrame, TraceSet, Trace or Selection
        Of `hta_widgets.analysis.byteps_arrivals`, by the servers' clocks; or of
        `hta_widgets.analysis.byteps_pulls`, where a lag is how much shorter a worker's PULL is
        than the longest, which needs no common clock.

    Returns
    -------
    bokeh.plotting.figure
        A row a worker and a cell an iteration: the darker the later, in the colour of who is late
        where it alone is last for more than half of the keys.

    Examples
    --------
    >>> charts.byteps_arrivals(analysis.byteps_arrivals(traces))  # doctest: +SKIP
    """
    colors = theme_of(theme)
    if frame.empty:
        return blank(frame, title, colors, width)
    pulls = "step" in frame
    analysis = "byteps_pulls" if pulls else "byteps_arrivals"
    own = ("worker", "dur_ns", "shortest") if pulls else ("iteration", "node", "lag_ns", "last")
    require(frame, analysis, "job", "key", "start_ns", *own)
    cells = by_iteration(frame)
    rows = cells[["job", "node", "label"]].drop_duplicates().reset_index(drop=True)
    place = {pair: at for at, pair in enumerate(zip(rows["job"], rows["node"], strict=True))}
    pairs = list(zip(cells["job"], cells["node"], strict=True))
    cells["row"] = [place[pair] for pair in pairs]
    cells["mean_ns"] = cells["lag_ns"] / cells["keys"]
    cells["is_late"] = cells["last"] * 2 > cells["keys"]
    iterations = np.unique(cells["iteration"])
    fold = max(1, -(-len(iterations) // _MOST_CELLS))
    at = np.searchsorted(iterations, cells["iteration"]) // fold * fold
    cells["left_cell"], cells["right_cell"] = at, np.minimum(at + fold, len(iterations))
    order = np.lexsort((cells["mean_ns"], at, cells["row"]))
    cells = cells.iloc[order].drop_duplicates(["row", "left_cell"], keep="last")
    cells = cells.reset_index(drop=True)
    _paint(cells, colors)
    whole = by_iteration(frame)
    sums = whole.groupby(["job", "node"], sort=True)[["lag_ns", "last", "keys"]].sum()
    score = (sums["last"] / sums["keys"]).to_numpy()
    lag = (sums["lag_ns"] / sums["keys"]).to_numpy()
    worst = int(np.argmax(score))
    last_text = [
        f"{count(last)} of {count(keys)}"
        for last, keys in zip(sums["last"], sums["keys"], strict=True)
    ]
    return rows_chart(
        cells,
        [str(label) for label in rows["label"]],
        [Bars("left_cell", "right_cell", "@fill")],
        x_end=float(len(iterations)),
        title=title,
        subtitle=sentences(
            _defined(pulls=pulls),
            f"{plural(len(iterations), 'iteration')} from left to right",
            f"each cell the latest of {fold}" if fold > 1 else "",
            f"{rows['label'][worst]} is last {last_text[worst]} times"
            if score[worst] >= CONSISTENT_SHARE
            else "nobody is last most of the time",
            note_of(frame),
        ),
        theme=colors,
        width=width,
        head=" ",
        ticks=[
            (here + 0.5, str(iterations[here]))
            for here in range(0, len(iterations), max(1, -(-len(iterations) // 10)))
        ],
        columns=[
            Column("last", last_text),
            Column("behind", [duration(each) for each in lag], 420),
        ],
        legend=[
            Bars(0.0, "", colors.late, "last for most keys"),
            Bars(0.0, "", colors.rule_strong, "behind"),
            Bars(0.0, "", colors.lane, "first", line=colors.rule),
        ],
        pitch=28,
        tooltip=Tooltip(
            "@{label} · iteration @{iteration}",
            [
                ("behind the first" if not pulls else "shorter than the longest", "@{lag_text}"),
                ("last, alone, for", "@{last} of @{keys} keys"),
            ],
        ),
    )


def _defined(*, pulls: bool) -> str:
    if pulls:
        return "how much shorter a worker's PULL is than the longest: who pushes last waits least"
    return "how long after the first worker's push of a key its own arrives, mean over keys"


def _paint(cells: pd.DataFrame, colors: Theme) -> None:
    most = float(cells["mean_ns"].max()) or 1.0
    steps = 32
    late = np.array(ramp((colors.late_fill, colors.late), steps))
    behind = np.array(ramp((colors.lane, colors.rule_strong), steps))
    at = np.ceil(cells["mean_ns"].to_numpy(float) / most * (steps - 1)).astype(int)
    cells["fill"] = np.where(cells["is_late"], late[at], behind[at])
    cells["lag_text"] = [duration(each) for each in cells["mean_ns"]]


@draws("byteps_servers")
def byteps_servers(
    frame: pd.DataFrame,
    *,
    width: int | None = None,
    theme: str | Theme = "light",
    title: str = "Load of the servers",
) -> Any:
    """Draw what each server's requests took: pushes, pulls served, pulls that waited for pushes.

    Parameters and result as of `byteps_gradients`; `frame` is of
    `hta_widgets.analysis.byteps_servers`.

    Examples
    --------
    >>> charts.byteps_servers(analysis.byteps_servers(traces))  # doctest: +SKIP
    """
    colors = theme_of(theme)
    if frame.empty:
        return blank(frame, title, colors, width)
    require(frame, "byteps_servers", *_SERVER)
    data = frame.reset_index(drop=True)
    data["row"] = np.arange(len(data))
    marks, ends = stacked(
        data,
        [
            ("communication", "pushes", data["push_ns"]),
            ("memory", "pulls served", data["service_ns"]),
            ("wait", "pulls wait for a push", data["wait_ns"]),
        ],
        colors,
    )
    add_times(data, push_text=data["push_ns"], service_text=data["service_ns"])
    add_times(data, wait_text=data["wait_ns"], busy_text=data["busy_ns"])
    busy = data["busy_ns"].to_numpy(float)
    uneven = busy.max() / busy.mean() if busy.mean() > 0 else 1.0
    return rows_chart(
        data,
        [f"server {server}" for server in data["server"]],
        marks,
        x_end=max(ends) * 1.02 or 1.0,
        title=title,
        subtitle=sentences(
            "time of requests added up, which overlap",
            f"the busiest server works {uneven:.2f} times the mean" if len(data) > 1 else "",
            note_of(frame),
        ),
        theme=colors,
        width=width,
        head=" ",
        ticks=time_ticks(max(ends)),
        columns=[
            Column("keys", [count(each) for each in data["keys"]]),
            Column("busy", list(data["busy_text"]), 420),
        ],
        tooltip=Tooltip(
            "server @{server}",
            [
                ("pushes", "@{push_text}"),
                ("pulls served", "@{service_text}"),
                ("pulls wait", "@{wait_text}"),
                ("works on pushes", "@{busy_text}"),
                ("requests", "@{requests}"),
                ("keys", "@{keys}"),
            ],
        ),
    )


@draws("byteps_clock")
def byteps_clock(
    frame: pd.DataFrame,
    *,
    width: int | None = None,
    theme: str | Theme = "light",
    title: str = "Clocks of servers against workers",
) -> Any:
    """Draw how far servers' clocks are ahead of workers', with the interval of what is possible.

    Parameters and result as of `byteps_gradients`; `frame` is of
    `hta_widgets.analysis.byteps_clock`.

    Examples
    --------
    >>> charts.byteps_clock(analysis.byteps_clock(traces))  # doctest: +SKIP
    """
    colors = theme_of(theme)
    if frame.empty:
        return blank(frame, title, colors, width)
    require(frame, "byteps_clock", *_CLOCK)
    data = frame.reset_index(drop=True)
    data["row"] = np.arange(len(data))
    low, high = min(0, int(data["low_ns"].min())), max(0, int(data["high_ns"].max()))
    around = max(high - low, 1) * 0.04
    data["left_communication"] = data["offset_ns"] - around / 6
    data["right_communication"] = data["offset_ns"] + around / 6
    said = [
        f"{_signed(offset)} ± {duration(error)}"
        for offset, error in zip(data["offset_ns"], data["error_ns"], strict=True)
    ]
    data["said"] = said
    data["node_text"] = [node_label(int(node)) for node in data["node"]]
    return rows_chart(
        data,
        [
            f"worker {worker} · server {server}"
            for worker, server in zip(data["worker"], data["server"], strict=True)
        ],
        [
            Whiskers("low_ns", "high_ns", colors.ink),
            Bars("left_communication", "right_communication", colors.kind["communication"], ""),
        ],
        x_start=low - around,
        x_end=high + around,
        title=title,
        subtitle=sentences(
            "server's clock less worker's; the line holds every value that all requests allow",
            note_of(frame),
        ),
        theme=colors,
        width=width,
        head=" ",
        ticks=time_ticks(high, 3, low),
        columns=[Column("ahead", said)],
        zero_line=True,
        legend=[],
        tooltip=Tooltip(
            "worker @{worker} · server @{server}",
            [("ahead", "@{said}"), ("is", "@{node_text}"), ("by requests", "@{requests}")],
        ),
    )


def _signed(ns: float) -> str:
    return duration(ns) if ns <= 0 else f"+{duration(ns)}"
