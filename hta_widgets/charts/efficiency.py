"""The roofline chart of operators and the tree of modules.

The roofline chart plots TFLOP/s over FLOPs per byte, both on logarithmic scales. A roof rises with
the memory bandwidth up to the peak of a precision. For example, with 2039 GB/s and 312 TFLOP/s, an
operator of 100 FLOP/byte reaches at most 204 TFLOP/s (limited by bandwidth), and one of 200
FLOP/byte at most 312 TFLOP/s (limited by the peak).
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from hta_widgets.arguments import Positive, check_arguments
from hta_widgets.charts.data import ChartSource, analysis_frame, columns_of
from hta_widgets.charts.defined import draw_definition
from hta_widgets.charts.figure import (
    Figure,
    FigureStyle,
    add_tooltip,
    empty_figure,
    keep_fitting,
    models,
    new_figure,
    unmatched_note,
)
from hta_widgets.charts.rows import Dots, add_legend
from hta_widgets.charts.theme import Theme, ThemeName, theme_of
from hta_widgets.panels.layers import module_bars
from hta_widgets.text import duration, plural, rate, share, value

_HEIGHT = 280
#: Smallest device time of a drawn row, as a share of all device time.
_MIN_SHARE = 1e-4
#: Smallest TFLOP/s of a drawn row, as a share of the highest peak. Slower rows would stretch the
#: scale too far.
_MIN_RATE = 1e-6
#: Smallest and largest diameter of a mark in px.
_SMALLEST, _LARGEST = 4.0, 34.0
_MATRIX, _OTHER = "matrix products, convolutions, attention", "other operators"


@check_arguments
def operator_efficiency(
    frame: ChartSource,
    *,
    width: Positive | None = None,
    theme: ThemeName | Theme = "light",
    title: str = "Roofline of operators",
    **options: object,
) -> Figure:
    """Draw the roofline chart of operators: FLOPs per byte, TFLOP/s and the limits of the devices.

    Parameters
    ----------
    frame : DataFrame, TraceSet, Trace or Selection
        Result of `hta_widgets.analysis.operator_efficiency`, or traces to analyze.
    width, theme, title : int, {"light", "dark"} or Theme, and str, optional
        Width in CSS px. Default: the width of the output area.
    **options
        Arguments passed to the analysis. Only valid if `frame` is not a DataFrame.

    Returns
    -------
    bokeh.plotting.figure
        One mark per row with FLOPs, bytes and at least 0.01 % of the device time, and one roof per
        device and precision. The area of a mark is proportional to its device time. Both scales are
        logarithmic. The data source of the marks has the columns of the frame.

    Examples
    --------
    >>> charts.operator_efficiency(analysis.operator_efficiency(traces))  # doctest: +SKIP
    """
    columns = (
        "rank name input_shapes flops_kind precision count device_ns intensity tflop_per_s "
        "gb_per_s roofline_share bound device peak_tflop_per_s memory_gb_s peak_source "
        "peak_certainty"
    )
    frame = analysis_frame("operator_efficiency", frame, options, columns)
    style = FigureStyle(title, theme_of(theme), width)
    if frame.empty:
        return empty_figure(frame, style)
    is_long = frame["device_ns"] >= _MIN_SHARE * frame["device_ns"].sum()
    fastest = max(frame["peak_tflop_per_s"].max(), frame["tflop_per_s"].max())
    is_fast = frame["tflop_per_s"] > _MIN_RATE * np.nan_to_num(fastest)
    drawn = frame[(frame["intensity"] > 0) & is_fast & is_long]
    if drawn.empty:
        return empty_figure(frame, style, note="no operator has a rate")
    rows = plural(len(frame) - len(drawn), "row")
    style = style.with_subtitle(
        "TFLOP/s over FLOPs per byte, both logarithmic; a mark's area is the time on the device",
        *_peak_sources(drawn),
        f"{rows} without FLOPs, or with little time, not drawn" if len(drawn) < len(frame) else "",
        unmatched_note(frame),
    )
    return _draw_roofline(drawn, style)


@check_arguments
def modules(
    frame: ChartSource,
    *,
    width: Positive | None = None,
    theme: ThemeName | Theme = "light",
    title: str = "Layers",
    **options: object,
) -> Figure:
    """Draw the tree of modules as an icicle chart; the width of a tile is its device time.

    Parameters
    ----------
    frame : DataFrame, TraceSet, Trace or Selection
        Result of `hta_widgets.analysis.modules`, or traces to analyze.
    width, theme, title : int, {"light", "dark"} or Theme, and str, optional
        Width in CSS px. Default: the width of the output area.
    **options
        Arguments passed to the analysis. Only valid if `frame` is not a DataFrame.

    Returns
    -------
    bokeh.plotting.figure
        One tile per path that takes at least 0.1 % of the time. Times are device times averaged
        over ranks, or host times if the trace has no device work.

    Examples
    --------
    >>> charts.modules(analysis.modules(traces))  # doctest: +SKIP
    """
    columns = (
        "rank path module depth parent instances calls host_ns device_ns device_self_ns "
        "forward_device_ns backward_device_ns recompute_device_ns forward_flops "
        "backward_flops recompute_flops events"
    )
    frame = analysis_frame("modules", frame, options, columns)
    bars = frame if frame.empty else module_bars(frame)
    return draw_definition("layers", bars, width, theme, title)


def _peak_sources(frame: pd.DataFrame) -> list[str]:
    columns = ["device", "peak_source", "peak_certainty"]
    rows = frame.loc[frame["device"] != "", columns].drop_duplicates()
    return [", ".join(row) for row in rows.itertuples(index=False, name=None)]


def _draw_roofline(frame: pd.DataFrame, style: FigureStyle) -> Figure:
    theme = style.theme
    columns = ["device", "precision", "peak_tflop_per_s", "memory_gb_s"]
    roofs = frame.loc[frame["device"] != "", columns].dropna().drop_duplicates()
    # The ridge is the intensity, in FLOPs per byte, at which a roof becomes flat.
    roofs = roofs.assign(ridge=roofs["peak_tflop_per_s"] * 1e3 / roofs["memory_gb_s"])
    left, right = _decades([*frame["intensity"], *roofs["ridge"]])
    bottom, top = _decades([*frame["tflop_per_s"], *roofs["peak_tflop_per_s"]])
    figure = new_figure(
        style,
        frame_height=_HEIGHT,
        x_range=models.Range1d(left, right),
        y_range=models.Range1d(bottom, top),
        select="both",
        axis_type="log",
    )
    figure.grid.grid_line_color = theme.rule
    _draw_roofs(figure, roofs, (left, right), theme.ink2)
    is_matrix = (frame["flops_kind"] == "matrix").to_numpy()
    sizes = np.sqrt(frame["device_ns"] / frame["device_ns"].max()) * _LARGEST
    colors = theme.kind["compute"], theme.kind["memory"]
    texts = {
        "size": np.maximum(sizes, _SMALLEST),
        "color": np.where(is_matrix, *colors),
        "time_text": [duration(ns) for ns in frame["device_ns"]],
        "rate_text": [f"{value(number)} TFLOP/s" for number in frame["tflop_per_s"]],
        "bytes_text": [rate(number) for number in frame["gb_per_s"]],
        "share_text": [share(part) for part in frame["roofline_share"]],
    }
    source = models.ColumnDataSource(columns_of(frame) | texts)
    marks = figure.scatter(
        x="intensity", y="tflop_per_s", size="size", fill_color="color", line_color="color",
        fill_alpha=0.5, nonselection_fill_alpha=0.1, source=source,
    )  # fmt: skip
    rows = [
        ("shapes", "@{input_shapes}"), ("time", "@{time_text}"), ("calls", "@{count}"),
        ("achieved", "@{rate_text} @{precision}"), ("memory", "@{bytes_text}"),
        ("of the roofline", "@{share_text}"), ("bound by", "@{bound}"),
    ]  # fmt: skip
    add_tooltip(figure, [marks], theme, "@{name}", rows)
    _label_decades(figure.xaxis, left, right)
    names = _label_decades(figure.yaxis, bottom, top)
    entries = []
    if is_matrix.any():
        entries.append(Dots("intensity", colors[0], name=_MATRIX))
    if not is_matrix.all():
        entries.append(Dots("intensity", colors[1], name=_OTHER))
    legend = add_legend(figure, entries, theme)
    keep_fitting(figure, width=style.width, names=names, legend=legend)
    return figure


def _draw_roofs(figure: Figure, roofs: pd.DataFrame, ends: tuple[float, float], ink: str) -> None:
    left, right = ends
    for roof in roofs.to_dict("records"):
        peak, ridge = roof["peak_tflop_per_s"], roof["ridge"]
        heights = [peak * left / ridge, peak, peak]
        figure.line([left, ridge, right], heights, line_color=ink, line_width=1)
        figure.text(
            x=[right], y=[peak], text=[f"{roof['precision']} {value(peak)} TFLOP/s"],
            text_align="right", text_baseline="bottom", text_font_size="10px", text_color=ink,
        )  # fmt: skip


def _decades(values: list[float]) -> tuple[float, float]:
    """Return the powers of ten that enclose all values, with room for marks at the edges."""
    powers = np.log10([value for value in values if value > 0])
    low, high = np.floor(powers.min() - 0.2), np.ceil(powers.max() + 0.2)
    return 10.0**low, 10.0**high


def _label_decades(axis: Any, low: float, high: float) -> list[tuple[float, str]]:
    """Label about six powers of ten in ``[low, high)``; return pairs of position and label."""
    first_power, end_power = round(np.log10(low)), round(np.log10(high))
    step = max(1, round((end_power - first_power) / 6))
    ticks = [10.0**power for power in range(first_power, end_power, step)]
    labels = {tick: value(tick) for tick in ticks}
    axis.ticker = models.FixedTicker(ticks=ticks)
    axis.major_label_overrides = labels
    return list(labels.items())
