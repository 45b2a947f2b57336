"""The tree of calls of one rank: from threads through operators down to device work."""

from __future__ import annotations

import numpy as np
import pandas as pd

from hta_widgets.trace.table import KINDS
from hta_widgets.trace.trace import Trace

from hta_widgets.analysis.host_stack import backward_parents
from hta_widgets.analysis.host_stack import forest_of

__all__ = ["call_tree"]

_ANNOTATION = KINDS.index("annotation")
_LATEST = np.iinfo(np.int64).max


def call_tree(trace: Trace) -> pd.DataFrame:
    """Return where each event stands among what calls it and what it launches.

    Host events lie below what encloses them on their thread, and those of the autograd thread
    below the ``## backward ##`` range or the step that runs meanwhile. Device events lie below
    the call that launched them, waits included.

    Parameters
    ----------
    trace : Trace
        One rank.

    Returns
    -------
    DataFrame
        One row per event, index ``id``; all int64: ``parent`` (-1: none); ``depth``, 0 for the
        outermost, -1 for device events whose launch is unknown; ``height``, 0 for device events,
        1 for host events with nothing below or device events alone, else one more than the
        highest below; ``num_kernels``, the device events at or below it, and of these
        ``kernel_dur_sum_ns``, their durations; ``kernel_span_ns``, from ``first_kernel_start_ns``
        to ``last_kernel_end_ns`` (0, -1 and -1 without).

    Notes
    -----
    The columns of HTA's ``CallGraph``, which skips device stream 0.

    Examples
    --------
    >>> traces = hw.load("runs/job")  # doctest: +SKIP
    >>> tree = call_tree(traces[0])  # doctest: +SKIP
    """
    table = trace.table
    call = trace.launch_of
    on_device = table.stream >= 0
    parent = backward_parents(trace).copy()
    parent[on_device] = -1
    work = np.flatnonzero(on_device & (table.kind != _ANNOTATION) & (call >= 0))
    parent[work] = call[work]
    forest = forest_of(parent)

    is_work = np.zeros(len(table), dtype=np.int64)
    is_work[work] = 1
    height = np.where(on_device, 0, 1).astype(np.int64)
    first = np.where(is_work, table.start_ns, _LATEST)
    last = np.where(is_work, table.end_ns, -1)
    for members in reversed(forest.levels[1:]):
        above = parent[members]
        np.maximum.at(height, above, height[members] + 1)
        np.minimum.at(first, above, first[members])
        np.maximum.at(last, above, last[members])
    kernels = forest.sums(is_work)
    has_work = kernels > 0
    shift = trace.shift_ns
    depth = np.where(on_device & (is_work == 0), -1, forest.depth)
    return pd.DataFrame(
        {
            "parent": parent,
            "depth": depth,
            "height": height,
            "num_kernels": kernels,
            "kernel_dur_sum_ns": forest.sums(table.dur_ns * is_work),
            "kernel_span_ns": np.where(has_work, last - first, 0),
            "first_kernel_start_ns": np.where(has_work, first + shift, -1),
            "last_kernel_end_ns": np.where(has_work, last + shift, -1),
        },
        index=pd.RangeIndex(len(table), name="id"),
    )
