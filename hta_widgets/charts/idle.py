"""Why streams and devices are idle."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from hta_widgets.analysis.device_idle import IDLE_CATEGORIES
from hta_widgets.text import duration
from hta_widgets.text import share

from hta_widgets.charts.canvas import blank
from hta_widgets.charts.canvas import mixed
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

__all__ = ["device_idle_breakdown", "idle_time_breakdown", "idle_words"]


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
    head, _, does = category.partition("_")
    if head != "host" or does == "wait":
        return category.replace("_", " ")
    does = {"python": "Python", "nothing": "nothing recorded"}.get(does, does.replace("_", " "))
    return f"host: {does}"


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
