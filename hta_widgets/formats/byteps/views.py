"""Charts of BytePS's analyses."""

from __future__ import annotations

import pandas as pd

from hta_widgets.charts.chart import defines
from hta_widgets.charts.data import require_columns_of
from hta_widgets.formats.byteps.frames import by_iteration, by_tensor


@defines("byteps_stragglers", "job", "key", "start_ns")
def byteps_arrivals(frame: pd.DataFrame) -> pd.DataFrame:
    """Draw each worker's delay behind the first in each iteration, and the last workers.

    Parameters
    ----------
    frame : DataFrame, TraceSet, Trace or Selection
        Result of `hta_widgets.analysis.byteps_arrivals`, by the servers' clocks; or of
        `hta_widgets.analysis.byteps_pulls`: then a lag is the difference between the longest PULL
        and the worker's, which needs no common clock.

    Returns
    -------
    bokeh.plotting.figure
        One row per worker and one cell per iteration. Later cells are darker; cells in which the
        worker is the only last one for more than half of the keys have the colour for late.
    """
    pulls = "step" in frame
    analysis = "byteps_pulls" if pulls else "byteps_arrivals"
    own = ("worker", "dur_ns", "shortest") if pulls else ("iteration", "node", "lag_ns", "last")
    require_columns_of(frame, analysis, *own)
    return by_iteration(frame)


@defines("byteps_servers")
def byteps_servers(frame: pd.DataFrame) -> pd.DataFrame:
    """Draw the time of each server's requests: pushes, pulls served, and pulls that waited."""
    return frame


@defines("byteps_clock")
def byteps_clock(frame: pd.DataFrame) -> pd.DataFrame:
    """Draw how far servers' clocks are ahead of workers', with the interval of possible offsets."""
    return frame


@defines(
    "byteps_gradients",
    *("tensor", "job", "worker", "total_ns", "busy_ns", "queue_ns", "tail_ns", "critical", "root"),
)
def byteps_gradients(frame: pd.DataFrame, *, top: int | None = None) -> pd.DataFrame:
    """Draw the queue, work and tail of the synchronisations of the slowest tensors, by worker.

    Parameters
    ----------
    top : int, optional
        Number of tensors. Default: as many as have room, ten at most.

    Returns
    -------
    bokeh.plotting.figure
        One bar per tensor and worker: queue, work and tail of the partition that ends last, which
        add up to the whole. They are means over the steps of the worker's root GPU, or of its
        other GPUs if the root is not recorded.
    """
    data = by_tensor(frame)
    data.attrs["top"] = top or 0
    if data.empty:
        data.attrs["note"] = "no stage of these gradients was recorded"
    return data


@defines("byteps_stages")
def byteps_stages(frame: pd.DataFrame) -> pd.DataFrame:
    """Draw the time of a task in each stage, and of its queue before it, for each GPU.

    The queue before COPYH2D of GPUs that are not the root is hatched: it is waiting for the root,
    and includes the whole way to the servers and back.
    """
    return frame


@defines("byteps_blame")
def byteps_pull_blame(frame: pd.DataFrame) -> pd.DataFrame:
    """Draw the time that each worker's PULLs waited for others, and how often it was the last."""
    return frame
