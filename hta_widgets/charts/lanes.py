"""Charts over time: lanes below each other, aligned with the timeline."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from hta_widgets.charts.figure import (
    add_tooltip,
    blend,
    escape_text,
    keep_fitting,
    models,
    new_figure,
    plain_axis,
)
from hta_widgets.charts.rows import Tooltip, selection_box
from hta_widgets.charts.theme import Theme
from hta_widgets.text import count

#: Maximum number of changes that are drawn one by one. With more, each lane is divided into slices
#: of time, this many in all lanes together, and each slice is drawn as its minimum and maximum.
MAX_POINTS = 20_000

#: `axis_time` in JavaScript, for axes whose ticks change with the zoom. Bokeh sets `tick`, `ticks`.
_AXIS_JS = """
const step = ticks.length > 1 ? Math.abs(ticks[1] - ticks[0]) : Math.max(Math.abs(tick), 1);
const [unit, scale] = step >= 1e9 ? ["s", 1e9] : step >= 1e5 ? ["ms", 1e6] : ["\u00b5s", 1e3];
const decimals = Math.max(0, Math.ceil(-Math.log10(step / scale) - 1e-9));
const [whole, part] = (Math.abs(tick) / scale).toFixed(decimals).split(".");
const grouped = whole.replace(/\\B(?=(\\d{3})+(?!\\d))/g, "\u202f");
return (tick < 0 ? "\u2212" : "") + grouped + (part ? "." + part : "") + "\u202f" + unit;
"""

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Lane:
    """The labels of a lane: a name at the left and a number at the right."""

    name: str
    number: str = ""


@dataclass(frozen=True, eq=False)
class LaneSteps:
    """The values of one lane: `value` holds from `time_ns` until `until_ns`.

    If several changes were put together, `value` is the minimum and `most` the maximum in that
    time; otherwise both are equal.
    """

    time_ns: Floats
    until_ns: Floats
    value: Floats
    most: Floats
    exact: bool


def time_axis(figure: Any) -> None:
    """Label the x axis with times and their units."""
    axis = figure.xaxis[0]
    axis.ticker = models.AdaptiveTicker(
        base=10, mantissas=[1, 2, 5], min_interval=1, desired_num_ticks=4, num_minor_ticks=0
    )
    axis.formatter = models.CustomJSTickFormatter(code=_AXIS_JS)
    figure.xgrid.ticker = axis.ticker


def lanes_figure(
    lanes: Sequence[Lane],
    *,
    start_ns: float,
    end_ns: float,
    pitch: float,
    title: str,
    subtitle: str,
    theme: Theme,
    width: int | None,
    shown: Sequence[int] | None = None,
    heads: tuple[str, str] = ("", ""),
    dimensions: str = "width",
) -> tuple[Any, Callable[..., None]]:
    """Return a figure of empty lanes from the top down, and a function to call after adding marks.

    Lane k reaches from k − 0.5 to k + 0.5 on the y axis, which points down. The function takes the
    chart's legend, or None, and optionally labels to show instead of the lanes' names.
    """
    rows = len(lanes)
    headed = bool(heads[0] or heads[1])
    select = models.BoxSelectTool(dimensions=dimensions, overlay=selection_box(theme))
    tools = [select, models.TapTool()]
    if "modifiers" in models.WheelZoomTool.properties():
        # Zoom with Ctrl, as in the timeline; the wheel without Ctrl scrolls the page.
        zoom = models.WheelZoomTool(dimensions="width", modifiers={"ctrl": True})
        tools.append(zoom)
    figure = new_figure(
        title,
        subtitle,
        theme,
        width,
        frame_height=int(np.ceil(rows * pitch + headed * 18)),
        x_range=models.Range1d(start_ns, max(end_ns, start_ns + 1), bounds="auto"),
        y_range=models.Range1d(rows - 0.5, -0.5 - headed * 18 / pitch),
        tools=tools,
    )
    if len(tools) > 2:
        figure.toolbar.active_scroll = tools[2]
    time_axis(figure)
    figure.xgrid.grid_line_color = theme.rule
    visible = list(range(rows)) if shown is None else list(shown)
    head_at = -0.5 - 9 / pitch
    ticks = [*([head_at] if headed else []), *visible]
    figure.yaxis.ticker = models.FixedTicker(ticks=ticks)
    numbers: dict[float, str] = {row: escape_text(lanes[row].number) or "\u200b" for row in visible}
    if headed:
        numbers[head_at] = escape_text(heads[1]) or "\u200b"
    columns = []
    if any(lane.number for lane in lanes):
        axis = models.LinearAxis(
            ticker=models.FixedTicker(ticks=ticks), major_label_overrides=numbers
        )
        plain_axis(axis, theme)
        figure.add_layout(axis, "right")
        columns.append((axis, 0))

    def finish(legend: Any, names: Sequence[tuple[float, str]] | None = None) -> None:
        keep_fitting(
            figure,
            width=width,
            names=names
            or [
                *([(head_at, heads[0] or "\u200b")] if headed else []),
                *((row, lanes[row].name) for row in visible),
            ],
            columns=columns,
            legend=legend,
            timed=True,
        )

    return figure, finish


def lane_steps(time_ns: Any, value: Any, end_ns: float, most: int) -> LaneSteps:
    """Return a series as steps; of more than `most`, minimum and maximum per slice of time."""
    times = np.asarray(time_ns, dtype=float)
    values = np.asarray(value, dtype=float)
    until = np.append(times[1:], max(end_ns, times[-1] if len(times) else end_ns))
    if len(times) <= most:
        return LaneSteps(times, until, values, values, exact=True)
    edges = np.linspace(times[0], until[-1], most + 1)
    first = np.searchsorted(times, edges[:-1], side="left")
    # A slice includes the value from before its start, unless the value changes exactly there.
    carried = np.maximum(np.searchsorted(times, edges[:-1], side="right") - 1, 0)
    last = np.append(first[1:], len(times))
    least, highest = values[carried].copy(), values[carried].copy()
    filled = np.flatnonzero(last > first)
    # Slices without a change have no index, so `reduceat` needs the starts of the others only.
    least[filled] = np.minimum(least[filled], np.minimum.reduceat(values, first[filled]))
    highest[filled] = np.maximum(highest[filled], np.maximum.reduceat(values, first[filled]))
    return LaneSteps(edges[:-1], edges[1:], least, highest, exact=False)


def step_lanes(
    series: Sequence[tuple[Lane, Mapping[str, Any], Any, Any]],
    *,
    value_name: str,
    until_ns: float,
    color: str,
    words: Callable[[float], str],
    title: str,
    subtitle: str,
    theme: Theme,
    width: int | None,
    heads: tuple[str, str],
    tooltip: Tooltip,
    pitch: float = 40,
) -> Any:
    """Return a figure with one lane per step series, each scaled to its own peak."""
    share_of = max(256, MAX_POINTS // max(1, len(series)))
    total = sum(len(times) for _, _, times, _ in series)
    budget = max(total, 1) if total <= MAX_POINTS else share_of
    names = ("time_ns", "until_ns", value_name, "most", "top", "bottom")
    columns: dict[str, list[Any]] = {key: [] for key in names}
    keys = list(series[0][1]) if series else []
    columns |= {key: [] for key in keys}
    drawings = []
    exact = True
    for row, (_, fixed, times, values) in enumerate(series):
        steps = lane_steps(times, values, until_ns, budget)
        exact &= steps.exact
        peak = float(steps.most.max()) if len(steps.most) and steps.most.max() > 0 else 1.0
        base = row + 0.46
        low, high = (base - each / peak * 0.86 for each in (steps.value, steps.most))
        drawings.append(
            {
                "x": np.append(steps.time_ns, steps.until_ns[-1:]),
                "low": np.append(low, low[-1:]),
                "high": np.append(high, high[-1:]),
                "base": np.full(len(low) + 1, base),
            }
        )
        columns["time_ns"].append(steps.time_ns)
        columns["until_ns"].append(steps.until_ns)
        columns[value_name].append(steps.value)
        columns["most"].append(steps.most)
        columns["top"].append(np.minimum(high, base - 0.04))
        columns["bottom"].append(np.full(len(low), base))
        for key in keys:
            columns[key] += [fixed[key]] * len(low)
    data: dict[str, Any] = {
        key: values if key in keys else np.concatenate(values or [np.empty(0)])
        for key, values in columns.items()
    }
    texts = _range_texts(data[value_name], data["most"], words)
    start = min((float(times[0]) for _, _, times, _ in series if len(times)), default=0.0)
    said = ""
    if not exact:
        said = (
            f" · {count(total)} changes, drawn as least and most of {count(budget)} slices of time"
        )
    figure, finish = lanes_figure(
        [lane for lane, *_ in series],
        start_ns=start,
        end_ns=until_ns,
        pitch=pitch,
        title=title,
        subtitle=subtitle + said,
        theme=theme,
        width=width,
        heads=heads,
    )
    pale = blend(color, theme.bg, 0.25)
    for drawing in drawings:
        # An area, because adjacent bars would show seams.
        shape = models.ColumnDataSource(drawing)
        figure.varea_step(
            x="x", y1="base", y2="low", source=shape, step_mode="after", fill_color=pale
        )
        if not exact:
            figure.varea_step(
                x="x", y1="low", y2="high", source=shape, step_mode="after", fill_color=color
            )
        figure.step(x="x", y="high", source=shape, mode="after", line_color=color, line_width=1.25)
    source = models.ColumnDataSource({**data, "value_text": texts})
    marks = [
        figure.quad(
            left="time_ns",
            right="until_ns",
            top="top",
            bottom="bottom",
            source=source,
            fill_color=theme.brush_line,
            fill_alpha=0,
            line_color=None,
            selection_fill_alpha=0.35,
            nonselection_fill_alpha=0,
        )
    ]
    figure.segment(
        x0=[start] * len(series),
        x1=[max(until_ns, start + 1)] * len(series),
        y0=[row + 0.46 for row in range(len(series))],
        y1=[row + 0.46 for row in range(len(series))],
        line_color=theme.rule,
        line_width=1,
    )
    add_tooltip(figure, marks, theme, tooltip.heading, tooltip.rows)
    finish(None)
    return figure


def _range_texts(
    lows: Sequence[float], highs: Sequence[float], words: Callable[[float], str]
) -> list[str]:
    """Return the text of each range; each distinct value is formatted once."""
    known: dict[float, str] = {}

    def word(number: float) -> str:
        if number not in known:
            known[number] = words(number)
        return known[number]

    return [
        word(low) if low == high else f"{word(low)} to {word(high)}"
        for low, high in zip(lows, highs, strict=True)
    ]
