"""Charts of BytePS's analyses."""

from __future__ import annotations

from typing import Any

from hta_widgets.arguments import Positive, check_arguments
from hta_widgets.charts.data import ChartSource, analysis_frame, require_columns_of
from hta_widgets.charts.defined import draw_analysis, draw_definition
from hta_widgets.charts.theme import Theme, ThemeName
from hta_widgets.formats.byteps.frames import by_iteration, by_tensor


@check_arguments
def byteps_arrivals(
    frame: ChartSource,
    *,
    width: Positive | None = None,
    theme: ThemeName | Theme = "light",
    title: str = "Arrival delay by iteration",
    **options: Any,
) -> Any:
    """Draw each worker's lag behind the first worker by iteration, and which worker is last.

    Parameters
    ----------
    frame : DataFrame, TraceSet, Trace or Selection
        Result of `hta_widgets.analysis.byteps_arrivals`, which uses the servers' clocks, or of
        `hta_widgets.analysis.byteps_pulls`. For pulls, a lag is the longest PULL minus the worker's
        PULL, which does not require a common clock.
    width, theme, title : int, {"light", "dark"} or Theme, and str, optional
        Width in CSS px. Default: the width of the output area.
    **options
        Arguments passed to the analysis. Only valid if `frame` is not a DataFrame.

    Returns
    -------
    bokeh.plotting.figure
        One row per worker and one cell per iteration. Darker cells are later. A cell has the color
        for late ranks if the worker alone is last for more than half of the keys.

    Examples
    --------
    >>> charts.byteps_arrivals(analysis.byteps_arrivals(traces))  # doctest: +SKIP
    """
    frame = analysis_frame("byteps_arrivals", frame, options, "job key start_ns")
    if len(frame):
        if "step" in frame:
            require_columns_of(frame, "analysis.byteps_pulls", "worker dur_ns shortest")
        else:
            require_columns_of(frame, "analysis.byteps_arrivals", "iteration node lag_ns last")
        frame = by_iteration(frame)
    return draw_definition("byteps_stragglers", frame, width, theme, title)


@check_arguments
def byteps_servers(
    frame: ChartSource,
    *,
    width: Positive | None = None,
    theme: ThemeName | Theme = "light",
    title: str = "Server load",
    **options: Any,
) -> Any:
    """Draw each server's time for requests: pushes, served pulls, and pulls that waited.

    Parameters
    ----------
    frame : DataFrame, TraceSet, Trace or Selection
        Result of `hta_widgets.analysis.byteps_servers`.
    width, theme, title : int, {"light", "dark"} or Theme, and str, optional
        Width in CSS px. Default: the width of the output area.
    **options
        Arguments passed to the analysis. Only valid if `frame` is not a DataFrame.

    Returns
    -------
    bokeh.plotting.figure

    Examples
    --------
    >>> charts.byteps_servers(analysis.byteps_servers(traces))  # doctest: +SKIP
    """
    return draw_analysis("byteps_servers", frame, options, width, theme, title)


@check_arguments
def byteps_clock(
    frame: ChartSource,
    *,
    width: Positive | None = None,
    theme: ThemeName | Theme = "light",
    title: str = "Clocks",
    **options: Any,
) -> Any:
    """Draw offsets of servers' clocks to workers' clocks, with the interval of possible offsets.

    Parameters
    ----------
    frame : DataFrame, TraceSet, Trace or Selection
        Result of `hta_widgets.analysis.byteps_clock`.
    width, theme, title : int, {"light", "dark"} or Theme, and str, optional
        Width in CSS px. Default: the width of the output area.
    **options
        Arguments passed to the analysis. Only valid if `frame` is not a DataFrame.

    Returns
    -------
    bokeh.plotting.figure

    Examples
    --------
    >>> charts.byteps_clock(analysis.byteps_clock(traces))  # doctest: +SKIP
    """
    return draw_analysis("byteps_clock", frame, options, width, theme, title)


@check_arguments
def byteps_gradients(
    frame: ChartSource,
    *,
    top: Positive | None = None,
    width: Positive | None = None,
    theme: ThemeName | Theme = "light",
    title: str = "Slowest gradients",
    **options: Any,
) -> Any:
    """Draw queue, work and tail of the slowest tensors' synchronizations, by worker.

    Parameters
    ----------
    frame : DataFrame, TraceSet, Trace or Selection
        Result of `hta_widgets.analysis.byteps_gradients`.
    top : int, optional
        Number of tensors. Default: as many as fit, at most ten.
    width, theme, title : int, {"light", "dark"} or Theme, and str, optional
        Width in CSS px. Default: the width of the output area.
    **options
        Arguments passed to the analysis. Only valid if `frame` is not a DataFrame.

    Returns
    -------
    bokeh.plotting.figure
        One bar per tensor and worker, stacking queue, work and tail of the partition that ends
        last. These are means over the steps of the worker's root GPU, or of its other GPUs if the
        root is not recorded.

    Examples
    --------
    >>> charts.byteps_gradients(analysis.byteps_gradients(traces))  # doctest: +SKIP
    """
    columns = "tensor job worker total_ns busy_ns queue_ns tail_ns critical root"
    frame = analysis_frame("byteps_gradients", frame, options, columns)
    if len(frame):
        frame = by_tensor(frame)
        frame.attrs["top"] = top or 0
        if frame.empty:
            frame.attrs["note"] = "no stage of these gradients was recorded"
    return draw_definition("byteps_gradients", frame, width, theme, title)


@check_arguments
def byteps_stages(
    frame: ChartSource,
    *,
    width: Positive | None = None,
    theme: ThemeName | Theme = "light",
    title: str = "Pipeline stages",
    **options: Any,
) -> Any:
    """Draw the time of a task in each stage and in the queue before it, for each GPU.

    On GPUs other than the root, the queue before COPYH2D is hatched: it is the wait for the root,
    including the way to the servers and back.

    Parameters
    ----------
    frame : DataFrame, TraceSet, Trace or Selection
        Result of `hta_widgets.analysis.byteps_stages`.
    width, theme, title : int, {"light", "dark"} or Theme, and str, optional
        Width in CSS px. Default: the width of the output area.
    **options
        Arguments passed to the analysis. Only valid if `frame` is not a DataFrame.

    Returns
    -------
    bokeh.plotting.figure

    Examples
    --------
    >>> charts.byteps_stages(analysis.byteps_stages(traces))  # doctest: +SKIP
    """
    return draw_analysis("byteps_stages", frame, options, width, theme, title)


@check_arguments
def byteps_pull_blame(
    frame: ChartSource,
    *,
    width: Positive | None = None,
    theme: ThemeName | Theme = "light",
    title: str = "PULL wait by worker",
    **options: Any,
) -> Any:
    """Draw how long each worker's PULLs waited for others, and how often the worker was last.

    Parameters
    ----------
    frame : DataFrame, TraceSet, Trace or Selection
        Result of `hta_widgets.analysis.byteps_pull_blame`.
    width, theme, title : int, {"light", "dark"} or Theme, and str, optional
        Width in CSS px. Default: the width of the output area.
    **options
        Arguments passed to the analysis. Only valid if `frame` is not a DataFrame.

    Returns
    -------
    bokeh.plotting.figure

    Examples
    --------
    >>> charts.byteps_pull_blame(analysis.byteps_pull_blame(traces))  # doctest: +SKIP
    """
    return draw_analysis("byteps_blame", frame, options, width, theme, title)
