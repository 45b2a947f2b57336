"""What each rank's device does when: any of its times, cut into bins of equal length."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from hta_widgets.errors import TraceError
from hta_widgets.trace.selection import Selection
from hta_widgets.trace.traceset import TraceSet
from hta_widgets.trace.intervals import Covered
from hta_widgets.trace.intervals import Intervals
from hta_widgets.trace.intervals import subtract
from hta_widgets.trace.intervals import union

from hta_widgets.analysis.collective_waits import RankWaits
from hta_widgets.analysis.collective_waits import waits_of
from hta_widgets.analysis.collectives import Clock
from hta_widgets.analysis.exposed_waits import waiting
from hta_widgets.analysis.over_ranks import over_ranks
from hta_widgets.analysis.results import result
from hta_widgets.analysis.scope import BUSY
from hta_widgets.analysis.scope import Part
from hta_widgets.analysis.scope import Window
from hta_widgets.analysis.scope import count_kinds
from hta_widgets.analysis.scope import narrowed
from hta_widgets.analysis.scope import parts

__all__ = ["HEATMAP_METRICS", "bin_edges", "metric_times", "rank_time_heatmap"]

Ints = npt.NDArray[np.int64]

#: What can be looked at.
HEATMAP_METRICS: tuple[str, ...] = (
    "busy",
    "compute",
    "communication",
    "exposed_communication",
    "waiting",
    "idle",
)
MOST_BINS = 1 << 16


def rank_time_heatmap(
    traces: TraceSet,
    *,
    metric: str = "busy",
    bins: int = 100,
    clock: Clock | None = None,
    selection: Selection | None = None,
    window: Window | None = None,
    ranks: Iterable[int] | None = None,
) -> pd.DataFrame:
    """Return what each rank's device does over time, exact in every bin.

    - ``busy``: any work; ``compute``, ``communication``: any of that kind, whatever else runs
    - ``exposed_communication``: communicating and not computing
    - ``waiting``: in a collective that has not all its ranks yet (`exposed_waits`), computing or
      not
    - ``idle``: no work, between the first start and the last end of the rank's selected work of
      all times

    Parameters
    ----------
    traces : TraceSet
    metric : {"busy", "compute", "communication", "exposed_communication", "waiting", "idle"}
    bins : int, default 100
        Into how many bins the window is cut; edges are rounded down to nanoseconds.
    clock : {"host", "fitted"}, optional
        Whose times tell the last arrival at collectives; as in `exposed_waits`.
    selection : Selection, optional
        The events to work on; all by default.
    window : (start_ns, end_ns), optional
        What is cut into bins. Default: the window of the selection, else the whole job.
    ranks : iterable of int, optional
        Narrows the selection to these ranks.

    Returns
    -------
    DataFrame
        One row per rank and bin: ``rank, bin, start_ns, end_ns, value_ns`` (int64) and ``share``
        (float64), of the bin, 0..1, NaN for a bin without length. The values of a rank add up to
        its time in the window. ``.attrs["span_ns"]``: of each rank how much of the window lies in
        its span, as in `temporal_breakdown`.

    Raises
    ------
    TraceError
        For an unknown metric or clock, or a rank that is not there.

    Notes
    -----
    Busy includes waiting inside of collectives, so the rank that others wait for looks least busy.

    Examples
    --------
    >>> traces = hw.load("runs/job")  # doctest: +SKIP
    >>> frame = rank_time_heatmap(traces, metric="waiting", bins=50)  # doctest: +SKIP
    >>> frame.pivot(index="rank", columns="bin", values="share")  # doctest: +SKIP
    """
    if metric not in HEATMAP_METRICS:
        raise TraceError(
            f"there is no metric {metric!r}",
            remedy=f"The metrics are {', '.join(HEATMAP_METRICS)}.",
        )
    if not 1 <= bins <= MOST_BINS:
        raise TraceError(f"{bins} bins cannot be made", remedy=f"Ask for 1 to {MOST_BINS}.")
    chosen = narrowed(traces, selection, window, ranks)
    low = traces.start_ns if chosen.start_ns is None else chosen.start_ns
    high = traces.end_ns if chosen.end_ns is None else chosen.end_ns
    edges = bin_edges(low, max(low, high), bins)
    # Idle is told by the work around it, which may lie outside of the window.
    of_all_times = Selection(None, None, chosen.ranks, chosen.tracks, chosen.query, chosen.ids)
    ranks_of = parts(traces, of_all_times)
    waits = waits_of(traces, clock) if metric == "waiting" else None
    none: Sequence[tuple[Any, ...]] = [(None,)] * len(ranks_of)
    own = none if waits is None else waits.each(ranks_of.ranks)
    found = list(over_ranks(ranks_of, _in_bins, metric, edges, each=own))
    values = np.array([value for value, _, _ in found], dtype=np.int64).reshape(-1, bins)
    starts = np.tile(edges[:-1], len(ranks_of))
    ends = np.tile(edges[1:], len(ranks_of))
    length = np.where(ends > starts, ends - starts, np.nan)
    attrs: dict[str, Any] = {} if waits is None else {"clock": waits.clock}
    return result(
        {
            "rank": np.array(ranks_of.ranks, dtype=np.int64).repeat(bins),
            "bin": np.tile(np.arange(bins), len(ranks_of)),
            "start_ns": starts,
            "end_ns": ends,
            "value_ns": values.reshape(-1),
            "share": values.reshape(-1) / length,
        },
        matched=count_kinds(ranks_of),
        note=_note([works for _, works, _ in found], metric, values),
        span_ns=[span for _, _, span in found],
        metric=metric,
        **attrs,
    )


def bin_edges(start: int, end: int, bins: int) -> Ints:
    """Return the edges of bins, rounded down to whole nanoseconds."""
    steps = np.arange(bins + 1, dtype=np.int64)
    # In two parts, so that a long job times many bins stays within int64.
    whole, rest = divmod(end - start, bins)
    edges: Ints = start + whole * steps + rest * steps // bins
    return edges


def metric_times(part: Part, metric: str, waits: RankWaits | None = None) -> Intervals:
    """Return when a metric holds for a rank, in its table's times."""
    if metric == "busy":
        return part.covered(*BUSY)
    if metric == "exposed_communication":
        return subtract(part.covered("communication"), part.covered("compute"))
    if metric == "waiting":
        if waits is None:
            raise ValueError("waits are to be given")
        return union(*waiting(part, waits)[1:])
    if metric == "idle":
        if part.span is None:
            return Intervals.none()
        start, end = part.span
        return subtract(union([start], [end]), part.covered(*BUSY))
    return part.covered(metric)


def _in_bins(
    part: Part, metric: str, edges: Ints, waits: RankWaits | None
) -> tuple[Ints, bool, int]:
    """Return the time in each bin, whether the device does anything, and its span in the bins."""
    pieces = metric_times(part, metric, waits)
    within: Ints = np.diff(Covered(*pieces)(edges - part.trace.shift_ns))
    first, last = part.span or (0, 0)
    low, high = (int(edge) - part.trace.shift_ns for edge in (edges[0], edges[-1]))
    span = max(min(last, high) - max(first, low), 0)
    return within, bool(len(part.busy_rows())), span


def _note(work: Sequence[bool], metric: str, values: Ints) -> str:
    if not work:
        return "no ranks are selected"
    if not any(work):
        return "no device work is selected: no kernels and no copies"
    if not values.any():
        return f"nothing is {metric.replace('_', ' ')} here"
    return ""
