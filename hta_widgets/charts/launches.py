"""Charts of launches: histograms of delays and durations on logarithmic scales."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from hta_widgets.arguments import Positive, check_arguments
from hta_widgets.charts.data import ChartSource, analysis_frame
from hta_widgets.charts.figure import (
    Figure,
    FigureStyle,
    LayoutDOM,
    add_tooltip,
    display_in_notebooks,
    empty_figure,
    keep_fitting,
    models,
    new_figure,
    unmatched_note,
)
from hta_widgets.charts.theme import Theme, ThemeName, theme_of
from hta_widgets.text import count, duration, share
from hta_widgets.trace.arrays import Bools, Floats, Ints

#: Number of bars per factor of ten.
_BINS_PER_DECADE = 8


@check_arguments
def launch_stats(
    frame: ChartSource,
    *,
    runtime_cutoff_ns: int = 50_000,
    launch_delay_cutoff_ns: int = 100_000,
    width: Positive | None = None,
    theme: ThemeName | Theme = "light",
    title: str = "Launches",
    **options: object,
) -> LayoutDOM:
    """Draw histograms of launch delays, launch call durations and kernel durations.

    Parameters
    ----------
    frame : DataFrame, TraceSet, Trace or Selection
        Result of `hta_widgets.analysis.launch_stats`, or traces to analyze.
    runtime_cutoff_ns : int, default 50 000
        Threshold above which launch calls are drawn solid.
    launch_delay_cutoff_ns : int, default 100 000
        Threshold above which launch delays are drawn solid.
    width, theme, title : int, {"light", "dark"} or Theme, and str, optional
        Width in CSS px. Default: the width of the output area.
    **options
        Arguments passed to the analysis. Only valid if `frame` is not a DataFrame.

    Returns
    -------
    bokeh.models.Column
        Histograms of launch delays, launch call durations and device event durations. In the last
        one, events shorter than their launch call are drawn solid. Data sources have the columns
        ``from_ns, to_ns, count, solid``.

    Examples
    --------
    >>> charts.launch_stats(analysis.launch_stats(traces))  # doctest: +SKIP
    """
    frame = analysis_frame("launch_stats", frame, options, "launch_delay_ns cpu_dur_ns gpu_dur_ns")
    style = FigureStyle(title, theme_of(theme), width)
    if frame.empty:
        return empty_figure(frame, style)
    delay, call = frame["launch_delay_ns"].to_numpy(), frame["cpu_dur_ns"].to_numpy()
    kernel = frame["gpu_dur_ns"].to_numpy()
    blue, grey = style.theme.kind["compute"], style.theme.kind["cpu"]
    histograms = [
        _Histogram(
            name="delay of kernels",
            explanation="from the end of the launch call to the kernel's start,"
            " 0 if the kernel starts before",
            values=delay,
            solid=delay > launch_delay_cutoff_ns,
            solid_name=f"later than {duration(launch_delay_cutoff_ns)}",
            color=blue,
        ),
        _Histogram(
            name="duration of calls",
            explanation="time that the call blocks its thread",
            values=call,
            solid=call > runtime_cutoff_ns,
            solid_name=f"longer than {duration(runtime_cutoff_ns)}",
            color=grey,
        ),
        _Histogram(
            name="duration of kernels",
            explanation="device time of launched work, copies included",
            values=kernel,
            solid=kernel < call,
            solid_name="shorter than their launch call",
            color=blue,
            note=unmatched_note(frame),
        ),
    ]
    figures = [_draw_histogram(histogram, style) for histogram in histograms]
    sizing = {"width": int(width)} if width else {"sizing_mode": "stretch_width"}
    return display_in_notebooks(models.Column(children=figures, spacing=8, **sizing))


@dataclass(frozen=True)
class _Histogram:
    name: str
    explanation: str
    values: Ints
    solid: Bools
    solid_name: str
    color: str
    note: str = ""


@dataclass(frozen=True)
class _DecadeBins:
    """Value counts by decimal logarithm, with a separate bin for zeros at the left."""

    low: float
    high: float
    left: Floats
    right: Floats
    counts: Ints
    solid_counts: Ints
    #: Position of the bin for zeros on the logarithmic axis, or None if no value is 0.
    zero_at: float | None


def _decade_bins(histogram: _Histogram) -> _DecadeBins:
    values, solid = histogram.values, histogram.solid
    is_zero = values <= 0
    logs = np.log10(np.maximum(values[~is_zero], 1).astype(float))
    low = float(np.floor(logs.min())) if len(logs) else 2.0
    high = max(low + 1, float(np.ceil(logs.max() + 1e-9))) if len(logs) else 3.0
    bins = round((high - low) * _BINS_PER_DECADE)
    edges = low + np.arange(bins + 1) / _BINS_PER_DECADE
    bin_of_value = np.clip(((logs - low) * _BINS_PER_DECADE).astype(int), 0, bins - 1)
    counts = np.bincount(bin_of_value, minlength=bins)
    solid_counts = np.bincount(bin_of_value[solid[~is_zero]], minlength=bins)
    left, right, zero_at = edges[:-1], edges[1:], None
    if is_zero.any():
        # The bin for zeros is as wide as the others and separated from them by a gap of four bins.
        zero_right = low - 4 / _BINS_PER_DECADE
        zero_left = zero_right - 1 / _BINS_PER_DECADE
        zero_at = (zero_left + zero_right) / 2
        left, right = np.r_[zero_left, left], np.r_[zero_right, right]
        counts = np.r_[is_zero.sum(), counts]
        solid_counts = np.r_[solid[is_zero].sum(), solid_counts]
    return _DecadeBins(low, high, left, right, counts, solid_counts, zero_at)


def _draw_histogram(histogram: _Histogram, style: FigureStyle) -> Figure:
    bins, solid = _decade_bins(histogram), histogram.solid
    solid_ns = histogram.values[solid].sum()
    style = replace(style, title=f"{style.title}: {histogram.name}").with_subtitle(
        histogram.explanation,
        f"solid: {histogram.solid_name}, {count(int(solid.sum()))} of {count(len(solid))} "
        f"({share(float(solid.mean()))}), {duration(float(solid_ns))} together",
        "both scales logarithmic",
        histogram.note,
    )
    # The y axis is logarithmic as well, to keep small counts visible.
    top = max(1.0, float(np.log10(1 + bins.counts.max())))
    count_ticks = _count_ticks(top)
    figure = new_figure(
        style,
        frame_height=96,
        x_range=models.Range1d(float(bins.left[0]) - 0.05, bins.high + 0.05),
        y_range=models.Range1d(0, top * 1.06),
        select="width",
    )
    _label_decades(figure, bins)
    figure.yaxis.ticker = models.FixedTicker(ticks=[tick for tick, _ in count_ticks])
    figure.ygrid.grid_line_color = style.theme.rule
    shared = {
        "left": "left",
        "right": "right",
        "bottom": 0,
        "source": models.ColumnDataSource(_bar_columns(bins)),
        "fill_color": histogram.color,
        "line_color": None,
    }
    bars = [
        figure.quad(top="top", fill_alpha=0.3, nonselection_fill_alpha=0.12, **shared),
        figure.quad(top="solid_top", nonselection_fill_alpha=0.4, **shared),
    ]
    rows = [("all", "@{count_text}"), (histogram.solid_name, "@{solid_text}")]
    add_tooltip(figure, bars, style.theme, "@{range_text}", rows)
    keep_fitting(figure, width=style.width, names=count_ticks)
    return figure


def _bar_columns(bins: _DecadeBins) -> dict[str, Any]:
    gap = 0.12 / _BINS_PER_DECADE
    start_ns, end_ns = 10.0**bins.left, 10.0**bins.right
    if bins.zero_at is not None:
        start_ns[0] = end_ns[0] = 0.0
    range_texts = [
        f"{duration(start)} to {duration(end)}" if end else "0 ns"
        for start, end in zip(start_ns, end_ns, strict=True)
    ]
    return {
        "left": bins.left + gap,
        "right": bins.right - gap,
        "count": bins.counts,
        "solid": bins.solid_counts,
        "top": np.log10(1.0 + bins.counts),
        "solid_top": np.log10(1.0 + bins.solid_counts),
        "from_ns": start_ns,
        "to_ns": end_ns,
        "range_text": range_texts,
        "count_text": list(map(count, bins.counts)),
        "solid_text": list(map(count, bins.solid_counts)),
    }


def _count_ticks(top: float) -> list[tuple[float, str]]:
    counts = [10**power for power in range(8) if np.log10(1 + 10**power) <= top * 1.05]
    step = max(1, math.ceil(len(counts) / 3))
    shown = [0, *counts[::-1][::step]]
    return [(float(np.log10(1 + number)), count(number)) for number in shown]


def _label_decades(figure: Figure, bins: _DecadeBins) -> None:
    powers = range(int(bins.low), int(bins.high) + 1)
    labels = {float(power): _power_of_ten(power) for power in powers}
    if bins.zero_at is not None:
        labels[bins.zero_at] = "0"
    figure.xaxis.ticker = models.FixedTicker(ticks=sorted(labels))
    figure.xaxis.major_label_overrides = labels


def _power_of_ten(power: int) -> str:
    exponent = min(power // 3, 3)
    unit = ("ns", "\u00b5s", "ms", "s")[exponent]
    return f"{10 ** (power - 3 * exponent)}\u202f{unit}"
