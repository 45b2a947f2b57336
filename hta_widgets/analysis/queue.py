"""How much launched work waits on each device stream."""

from __future__ import annotations

from itertools import pairwise
from typing import Any, Unpack

import numpy as np
import numpy.typing as npt
import pandas as pd

from hta_widgets.analysis.launches import NOTHING, QueueSteps, counts_of, over_queues
from hta_widgets.analysis.scope import Part, Scope, joined, result, scoped
from hta_widgets.analysis.steps import STATISTICS, describe, held_ns, settled, weighted
from hta_widgets.trace.traceset import TraceSet

Ints = npt.NDArray[np.int64]

_STILL = "the window holds nothing: no queue changes or lasts in it"


@scoped
def queue_length(traces: TraceSet, **scope: Unpack[Scope]) -> pd.DataFrame:
    """Return how many launched events wait on each stream, at every instant at which that changes.

    Device work (kernels, copies, fills) waits from the start of the call that launches it to its
    own start. A graph launch puts in as many as it launches.

    Parameters
    ----------
    selection : Selection, optional
        The device work whose queues are looked at; all by default.
    window : (start_ns, end_ns), optional
        Cuts the series: each stream's first row is then at the window's start, with what waits
        there already.

    Returns
    -------
    DataFrame
        One row per rank, stream and instant of change, in that order: ``rank, stream, time_ns,
        queue_length`` (int64), the length after all changes at that instant; it holds until the
        stream's next row. ``.attrs["unlaunched"]`` counts device work without a launch in the
        files, ``.attrs["early"]`` what starts before its call by the files' clocks and so never
        waits.

    Notes
    -----
    The definition is that of HTA's queue length time series, which knows a dozen calls by name
    and has one row per event, in no particular order at an instant.
    """
    found = over_queues(traces, scope, _series)
    names = ("rank", "stream", "time_ns", "queue_length")
    return result(
        {name: joined([one.found[name] for one in found]) for name in names},
        **counts_of(found),
        note="" if any(len(one.found["rank"]) for one in found) else NOTHING,
    )


def _series(part: Part, steps: QueueSteps) -> dict[str, Ints]:
    time_ns = steps.time_ns
    if part.low is not None:
        time_ns = np.maximum(time_ns, part.low)
    kept = settled(steps.code, time_ns)
    if part.high is not None:
        kept &= time_ns < part.high
    return {
        "rank": np.full(int(kept.sum()), part.rank),
        "stream": steps.streams[steps.code[kept]],
        "time_ns": time_ns[kept] + part.trace.shift_ns,
        "queue_length": steps.queue_length[kept],
    }


@scoped
def queue_length_summary(traces: TraceSet, **scope: Unpack[Scope]) -> pd.DataFrame:
    """Return statistics of each stream's queue.

    Returns
    -------
    DataFrame
        One row per rank and stream: ``rank, stream``; ``count, mean, std, min, 25%, 50%, 75%,
        max`` of the length after each change in the window (two per launched event), however
        long it holds; ``time_weighted_mean``: the mean over time, from the stream's first to its
        last change in the trace, cut at the window's edges, so that what waits there already
        counts; ``span_ns`` (int64): that time.

    Notes
    -----
    The statistics are those of HTA's queue length summary. Changes are frequent where the queue
    is short-lived, so they say little of how long it usually is; the mean over time does.
    """
    found = over_queues(traces, scope, _statistics)
    names = ("rank", "stream", *STATISTICS, "time_weighted_mean", "span_ns")
    columns = {name: [one.found[name] for one in found] for name in names}
    note = "" if any(map(len, columns["rank"])) else NOTHING
    if not note and not any(one.any() for one in (*columns["count"], *columns["span_ns"])):
        note = _STILL
    whole = {"rank", "stream", "count", "span_ns"}
    return result(
        {
            name: joined(values, np.int64 if name in whole else np.float64)
            for name, values in columns.items()
        },
        **counts_of(found),
        note=note,
    )


def _statistics(part: Part, steps: QueueSteps) -> dict[str, npt.NDArray[Any]]:
    groups = len(steps.streams)
    there = _within(part, steps)
    code, time_ns, length = (
        values[there] for values in (steps.code, steps.time_ns, steps.queue_length)
    )
    inside = _inside(part, time_ns)
    figures = describe(code[inside], groups, length[inside])
    held = held_ns(code, time_ns, part.low, part.high)
    area, span = weighted(code, groups, length, held)
    return {
        "rank": np.full(groups, part.rank),
        "stream": steps.streams,
        **{name: figures[name] for name in STATISTICS},
        "time_weighted_mean": area / np.where(span > 0, span, np.nan),
        "span_ns": span.astype(np.int64),
    }


def _within(part: Part, steps: QueueSteps) -> slice | npt.NDArray[np.intp]:
    """Return the changes in the window, of each stream with those right before and after it.

    What waits as the window begins was said by the change before, until the one after.
    """
    if part.low is None and part.high is None:
        return slice(None)
    bounds = np.searchsorted(steps.code, np.arange(len(steps.streams) + 1)).tolist()
    found = [np.empty(0, dtype=np.intp)]
    for first, last in pairwise(bounds):
        time_ns = steps.time_ns[first:last]
        low = 0 if part.low is None else int(np.searchsorted(time_ns, part.low, "left")) - 1
        high = len(time_ns)
        if part.high is not None:
            high = int(np.searchsorted(time_ns, part.high, "left")) + 1
        found.append(np.arange(first + max(low, 0), min(first + high, last)))
    return np.concatenate(found)


def _inside(part: Part, time_ns: Ints) -> npt.NDArray[np.bool_]:
    inside = np.ones(len(time_ns), dtype=bool)
    if part.low is not None:
        inside &= time_ns >= part.low
    if part.high is not None:
        inside &= time_ns < part.high
    return inside
