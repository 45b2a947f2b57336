"""How long queues of launches are full, so that they block the host."""

from __future__ import annotations

from typing import Unpack

import numpy as np
import numpy.typing as npt
import pandas as pd

from hta_widgets.analysis.launches import NOTHING, QueueSteps, counts_of, over_queues
from hta_widgets.analysis.scope import Part, Scope, joined, result, scoped
from hta_widgets.analysis.steps import held_ns
from hta_widgets.trace.traceset import TraceSet

Ints = npt.NDArray[np.int64]

#: How many launches a CUDA stream takes before the next one blocks the host.
MAX_QUEUE_LENGTH = 1024

#: Queues that stay this close to the limit, for this share of the trace, are full in all but name.
_NEARLY = 0.98
_LONG = 0.01


@scoped
def time_blocked_on_full_queue(
    traces: TraceSet, *, max_queue_length: int = MAX_QUEUE_LENGTH, **scope: Unpack[Scope]
) -> pd.DataFrame:
    """Return how long each stream's queue was full, so that launching on it blocks the host.

    What fills a queue are launches: unlike in `queue_length`, a graph counts once, until its
    first kernel starts.

    A duration of 0 does not say that the host never was blocked. Files may show a queue that is
    full as a few launches shorter than the limit: look at ``peak`` and ``at_peak_ns``, and lower
    `max_queue_length` where a queue stays at its peak while launch calls last long.

    Parameters
    ----------
    max_queue_length : int, default 1024
        From how many waiting launches on a queue is full; CUDA's limit by default.

    Returns
    -------
    DataFrame
        One row per rank and stream that work was launched on: ``rank, stream``; ``duration_ns``
        (int64) at `max_queue_length` or more; ``share``: of the trace's duration, 0..1;
        ``trace_ns`` (int64): that duration, from the first to the last start of an event of the
        rank, or the window's part of it; ``peak`` (int64): the largest length that lasts any
        time; ``at_peak_ns`` (int64): how long it does.

        ``.attrs["note"]`` names queues that never get to `max_queue_length`, but spend 1 % of the
        trace or more within 2 % below it.

    Notes
    -----
    The definition is that of HTA's time blocked on a full queue, which keeps one stream a rank.
    """
    found = over_queues(traces, scope, _blocked, max_queue_length, launches=True)
    names = ("rank", "stream", "duration_ns", "trace_ns", "peak", "at_peak_ns")
    column = {name: joined([one.found[0][name] for one in found]) for name in names}
    near = [text for one in found for text in one.found[1]]
    whole = column["trace_ns"]
    return result(
        {
            "rank": column["rank"],
            "stream": column["stream"],
            "duration_ns": column["duration_ns"],
            "share": column["duration_ns"] / np.where(whole > 0, whole, np.nan),
            "trace_ns": whole,
            "peak": column["peak"],
            "at_peak_ns": column["at_peak_ns"],
        },
        **counts_of(found),
        note=_note(near, max_queue_length) if len(whole) else NOTHING,
    )


def _blocked(
    part: Part, steps: QueueSteps, max_queue_length: int
) -> tuple[dict[str, Ints], list[str]]:
    """Return a rank's columns, and which of its queues are nearly full for long."""
    groups = len(steps.streams)
    held = held_ns(steps.code, steps.time_ns, part.low, part.high)
    length = steps.queue_length
    peak = np.zeros(groups, dtype=np.int64)
    np.maximum.at(peak, steps.code, np.where(held > 0, length, 0))
    duration, at_peak, nearly = (
        _time_in(steps.code, groups, held, those)
        for those in (
            length >= max_queue_length,
            length == peak[steps.code],
            (length >= _NEARLY * max_queue_length) & (length < max_queue_length),
        )
    )
    trace_ns = _trace_ns(part)
    almost = (duration == 0) & (nearly > 0) & (nearly >= _LONG * trace_ns)
    near = [
        _nearly_full(part.rank, int(steps.streams[at]), int(peak[at]), int(nearly[at]))
        for at in np.flatnonzero(almost).tolist()
    ]
    columns = {
        "rank": np.full(groups, part.rank),
        "stream": steps.streams,
        "duration_ns": duration,
        "trace_ns": np.full(groups, trace_ns),
        "peak": peak,
        "at_peak_ns": at_peak,
    }
    return columns, near


def _time_in(
    code: npt.NDArray[np.intp], groups: int, held: Ints, those: npt.NDArray[np.bool_]
) -> Ints:
    found = np.zeros(groups, dtype=np.int64)
    np.add.at(found, code[those], held[those])
    return found


def _nearly_full(rank: int, stream: int, peak: int, nearly_ns: int) -> str:
    return f"of rank {rank} stream {stream} for {nearly_ns / 1e6:,.1f} ms, at up to {peak:,}"


def _note(near: list[str], limit: int) -> str:
    if not near:
        return ""
    listed = "; ".join(near[:4]) + (f"; and {len(near) - 4} more" if len(near) > 4 else "")
    return (
        f"queues stay just below the limit of {limit:,}: {listed}. Where launch calls last long"
        " meanwhile, the host was blocked; see max_queue_length"
    )


def _trace_ns(part: Part) -> int:
    """Return the time from the rank's first to its last start; the profiler's own span is none."""
    table = part.table
    span = [code for code, name in enumerate(table.categories.values) if name == "Trace"]
    start = table.start_ns[~np.isin(table.category, span)] if span else table.start_ns
    if not len(start):
        return 0
    low, high = int(start[0]), int(start[-1])
    low = low if part.low is None else max(low, part.low)
    high = high if part.high is None else min(high, part.high)
    return max(high - low, 0)
