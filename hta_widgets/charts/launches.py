"""How long launches take, and how late kernels start after them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from hta_widgets.text import count
from hta_widgets.text import duration
from hta_widgets.text import share

from hta_widgets.charts.bokeh_modules import models
from hta_widgets.charts.canvas import add_tooltip
from hta_widgets.charts.canvas import blank
from hta_widgets.charts.canvas import new_figure
from hta_widgets.charts.canvas import sentences
from hta_widgets.charts.canvas import unmatched
from hta_widgets.charts.fitting import keep_fitting
from hta_widgets.charts.frames import draws
from hta_widgets.charts.frames import require
from hta_widgets.charts.in_notebooks import shows_itself
from hta_widgets.charts.rows import brush
from hta_widgets.charts.theme import Theme
from hta_widgets.charts.theme import theme_of

__all__ = ["launch_stats"]

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
