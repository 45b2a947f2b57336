"""What a step's length depends on."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from hta_widgets.text import count
from hta_widgets.text import duration
from hta_widgets.text import share

from hta_widgets.charts.bokeh_modules import models
from hta_widgets.charts.canvas import add_tooltip
from hta_widgets.charts.canvas import blank
from hta_widgets.charts.canvas import sentences
from hta_widgets.charts.frames import draws
from hta_widgets.charts.frames import require
from hta_widgets.charts.lanes import Lane
from hta_widgets.charts.lanes import lanes_figure
from hta_widgets.charts.pixels import keep_dominant
from hta_widgets.charts.theme import Theme
from hta_widgets.charts.theme import theme_of

__all__ = ["cause_style", "cause_words", "critical_path"]

_MOST_SEGMENTS = 20_000


@draws("critical_path")
def critical_path(
    frame: pd.DataFrame,
    *,
    width: int | None = None,
    theme: str | Theme = "light",
    title: str = "Critical path",
) -> Any:
    """Draw what bounds the analysed range, moment by moment, and how much of it.

    Parameters
    ----------
    frame : DataFrame, TraceSet, Trace or Selection
        Of `hta_widgets.analysis.critical_path`.
    width : int, optional
        In CSS pixels; by default what the page gives.
    theme : {"light", "dark"} or Theme, default "light"
    title : str

    Returns
    -------
    bokeh.plotting.figure
        The path, and below a lane for each cause; its source has the frame's rows. Above 20 000
        segments, those of a cause that nearly touch are put together, which the chart says.
        In the path each pixel shows what takes most of it, also after zooming; in a cause's lane
        shorter segments are one pixel wide.

    Examples
    --------
    >>> charts.critical_path(analysis.critical_path(traces, rank=0))  # doctest: +SKIP
    """
    colors = theme_of(theme)
    if frame.empty:
        return blank(frame, title, colors, width)
    require(frame, "critical_path", "rank", "start_ns", "dur_ns", "id", "name", "bound_by")
    data = frame.reset_index(drop=True)
    data["bound_by"] = data["bound_by"].astype(str)
    data["end_ns"] = data["start_ns"] + data["dur_ns"]
    start, end = float(data["start_ns"].min()), float(data["end_ns"].max())
    total = data.groupby("bound_by")["dur_ns"].sum()
    total = total[total > 0].sort_values(ascending=False, kind="stable")
    whole = float(total.sum()) or 1.0
    said = ""
    segments = len(data)
    if segments > _MOST_SEGMENTS:
        near = (end - start) / (_MOST_SEGMENTS / max(1, len(total)))
        data = pd.concat(_joined(data, near), ignore_index=True)
        said = f"{count(segments)} segments, of one cause closer than {duration(near)} drawn as one"
    data = data[data["dur_ns"] > 0].reset_index(drop=True)
    row_of = {str(name): row + 1 for row, name in enumerate(total.index)}
    data["row"] = data["bound_by"].map(row_of)
    styles = {str(name): cause_style(str(name), colors) for name in total.index}
    data["dur_ns_text"] = [duration(each) for each in data["dur_ns"]]
    data["name"] = data["name"].astype(str)
    data["bound_text"] = [cause_words(name) for name in data["bound_by"]]
    lanes = [
        Lane("path", duration(whole)),
        *(
            Lane(cause_words(str(name)), f"{share(part / whole)} · {duration(part)}")
            for name, part in total.items()
        ),
    ]
    figure, finish = lanes_figure(
        lanes,
        start_ns=start,
        end_ns=end,
        pitch=22,
        title=title,
        subtitle=sentences(
            "the chain of work and waits that decides how long it takes; every moment counts once",
            "the path shows what takes most of a pixel; the rows below show a pixel at least",
            said,
            str(frame.attrs.get("note", "")),
        ),
        theme=colors,
        width=width,
        heads=("bound by", "of the path"),
    )
    ranks = frame["rank"].unique()
    if len(ranks) == 1:
        figure.title.text = f"{figure.title.text} of rank {ranks[0]}"
    source = models.ColumnDataSource(
        {
            str(name): values.to_numpy() if values.dtype.kind in "if" else [str(v) for v in values]
            for name, values in data.items()
        }
    )
    pixels = keep_dominant(figure, source, {row_of[name]: name for name in styles})
    bars = partial(
        figure.hbar,
        y="row",
        left="left",
        right="right",
        height=0.72,
        source=pixels,
        line_color=None,
        # Pixels are no segments: what is selected is marked upon them.
        nonselection_fill_alpha=1,
    )
    for name, style in styles.items():
        # One mark a cause: hatches that differ from bar to bar take seconds to draw.
        view = models.CDSView(filter=models.GroupFilter(column_name="bound_by", group=name))
        hatch = {
            "hatch_pattern": style["hatch"],
            "hatch_color": style["hatch_color"],
            "hatch_scale": 5,
            "nonselection_hatch_alpha": 1,
        }
        bars(view=view, fill_color=style["fill"], **(hatch if style["hatch"] else {}))
        if style["hatch"] or style["line"] != style["fill"]:
            # Too narrow for a hatch, pale causes would not be seen.
            thin = models.CDSView(filter=models.GroupFilter(column_name="thin", group=name))
            bars(view=thin, fill_color=style["line"])
    marks = [
        figure.hbar(
            y=place,
            left="start_ns",
            right="end_ns",
            height=0.72,
            source=source,
            fill_color=colors.brush_line,
            fill_alpha=0,
            line_color=None,
            selection_fill_alpha=0.35,
            nonselection_fill_alpha=0,
        )
        for place in (0, "row")
    ]
    add_tooltip(
        figure,
        marks,
        colors,
        "@{name}",
        [
            ("bound by", "@{bound_text}"),
            ("takes", "@{dur_ns_text}"),
            ("from", "@{start_ns}{0,0} ns"),
        ],
    )
    finish(None)
    return figure


def _joined(data: pd.DataFrame, near: float) -> Iterator[pd.DataFrame]:
    """Put segments of a cause together that lie closer than `near`."""
    for cause, part in data.groupby("bound_by", sort=False):
        gap = part["start_ns"].to_numpy()[1:] - part["end_ns"].to_numpy()[:-1]
        group = np.r_[0, np.cumsum(gap > near)]
        each = part.groupby(group)
        names = each["name"].first().astype(str)
        several = each.size() > 1
        yield pd.DataFrame(
            {
                "rank": each["rank"].first(),
                "start_ns": each["start_ns"].min(),
                "end_ns": each["end_ns"].max(),
                "dur_ns": each["dur_ns"].sum(),
                "id": each["id"].first().where(~several, -1),
                "name": names.where(~several, "several segments"),
                "bound_by": cause,
            }
        )


_WORDS = {
    "cpu_bound": "host",
    "data_loading": "data loading",
    "gpu_compute_bound": "compute",
    "gpu_communication_bound": "communication",
    "gpu_memory_bound": "copies",
    "gpu_kernel_kernel_overhead": "between kernels",
    "gpu_kernel_launch_overhead": "launch",
    "cpu_outside_operators": "host, no operator",
    "cpu_blocked": "host blocked",
    "gpu_queue_wait": "queue wait",
    "sync_overhead": "synchronisation",
    "outside_path": "outside the path",
}


def cause_words(bound: str) -> str:
    """Return what bounds a segment, in words."""
    return _WORDS.get(bound, bound.replace("_", " "))


def cause_style(bound: str, colors: Theme) -> dict[str, Any]:
    """Return how a cause is drawn: work solid, waits hatched."""
    solid = {
        "cpu_bound": "cpu",
        "cpu_outside_operators": "cpu",
        "data_loading": "other",
        "gpu_compute_bound": "compute",
        "gpu_communication_bound": "communication",
        "gpu_memory_bound": "memory",
        "sync_overhead": "sync",
    }
    if bound in solid:
        color = colors.kind[solid[bound]]
        hatch = "/" if bound == "cpu_outside_operators" else None
        return {"fill": color, "line": color, "hatch": hatch, "hatch_color": colors.bg}
    hatch = None if bound == "outside_path" else "/"
    line = colors.kind["sync"] if bound == "cpu_blocked" else colors.idle_line
    return {"fill": colors.idle, "line": line, "hatch": hatch, "hatch_color": line}
