"""Work that is done rank by rank: here, one rank in memory at a time, or on an executor."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor, Future
from typing import Any, TypeVar

import numpy as np

from hta_widgets.workers import Closed
from hta_widgets.workers import result_of
from hta_widgets.workers import submit
from hta_widgets.workers import workers_of
from hta_widgets.trace.selection import Selection
from hta_widgets.trace.trace import Trace
from hta_widgets.trace.traceset import TraceSet
from hta_widgets.trace.keeping import walked

from hta_widgets.analysis.scope import Ints
from hta_widgets.analysis.scope import Part
from hta_widgets.analysis.scope import Parts
from hta_widgets.analysis.scope import part_of

__all__ = ["over_ranks", "prelaunched_note"]

T = TypeVar("T")

_BATCHES = 4  # for each worker: who is done early takes another
_UNDER_WAY = 2  # batches for each worker

_Each = Sequence[tuple[Any, ...]]


def over_ranks(
    over: TraceSet | Parts | Sequence[Trace],
    function: Callable[..., T],
    *args: Any,
    each: _Each | None = None,
    executor: Executor | None = None,
) -> Iterator[T]:
    """Yield what a function returns of each rank, in the order of the ranks.

    Of stored ranks, what was read and derived of one is let go before the next, unless all of them
    fit into what may be kept (`hta_widgets.model.keeping`). On an executor ranks are worked on in
    batches, a few of which are under way at once; ranks that are in memory here are not sent.

    Parameters
    ----------
    over : TraceSet, Parts or sequence of Trace
        The ranks, or the selected events of some.
    function : callable
        Called with a `Trace`, or of `Parts` with a `Part`. It is defined in a module, so that other
        processes find it, and what it returns is small: no columns, and nothing that views them.
    *args
        Its further arguments, the same for all ranks.
    each : sequence of tuple, optional
        More of them, one tuple per rank.
    executor : Executor, optional
        Default: that of the set, if it has any.
    """
    parts = over if isinstance(over, Parts) else None
    traces: Sequence[Trace]
    if isinstance(over, TraceSet):
        traces = list(over.values())
    else:
        traces = over.traces if isinstance(over, Parts) else over
    if executor is None:
        executor = getattr(over, "executor", None)
    if executor is not None and traces and all(trace.in_file for trace in traces):
        yield from _elsewhere(executor, traces, parts, function, args, each)
    else:
        yield from _here(traces, parts, function, args, each)


def prelaunched_note(chosen: Parts) -> str:
    """Say how much of the selected device work was launched before recording began."""
    counts = np.array(list(over_ranks(chosen, _prelaunched)), dtype=np.int64).reshape(-1, 3)
    count, early_ns, all_ns = counts.sum(axis=0).tolist()
    if not count:
        return ""
    share = int(100 * early_ns / max(all_ns, 1) + 0.5)
    exported = any(trace.stated_work_ns is not None for trace in chosen.traces)
    what = "the exported window" if exported else "recording"
    return (
        f"{count} of the device events, {share} % of their time, were launched before {what}"
        ' began; the query "prelaunched == False" leaves them out'
    )


def _prelaunched(part: Part) -> tuple[int, int, int]:
    """Return how many selected device events are, how long they last, and how long all do."""
    rows = part.busy_rows()
    dur_ns, mine = part.durations(rows), part.trace.prelaunched[rows]
    return int(mine.sum()), int(dur_ns[mine].sum()), int(dur_ns.sum())


def _here(
    traces: Sequence[Trace],
    parts: Parts | None,
    function: Callable[..., T],
    args: tuple[Any, ...],
    each: _Each | None,
) -> Iterator[T]:
    selection = None if parts is None else parts.selection
    own: Sequence[tuple[Any, ...]] = [()] * len(traces) if each is None else each
    for trace, more in zip(walked(traces), own, strict=True):
        found, counts = _of_rank(trace, selection, function, (*args, *more))
        if counts is not None and parts is not None:
            parts.kind_counts[trace.rank] = counts
        yield found


def _of_rank(
    trace: Trace, selection: Selection | None, function: Callable[..., T], args: tuple[Any, ...]
) -> tuple[T, Ints | None]:
    if selection is None:
        return function(trace, *args), None
    part = part_of(trace, selection)
    return function(part, *args), part.kind_counts


# --- elsewhere ------------------------------------------------------------------------------------


def _elsewhere(
    executor: Executor,
    traces: Sequence[Trace],
    parts: Parts | None,
    function: Callable[..., T],
    args: tuple[Any, ...],
    each: _Each | None,
) -> Iterator[T]:
    selection = None if parts is None else parts.selection
    workers = workers_of(executor)
    batches = deque(np.array_split(np.arange(len(traces)), min(len(traces), workers * _BATCHES)))
    sent: deque[tuple[list[int], Future[Any]]] = deque()
    while batches or sent:
        while batches and len(sent) < workers * _UNDER_WAY:
            places = batches[0].tolist()
            own = None if each is None else [each[place] for place in places]
            batch = [traces[place] for place in places]
            try:
                future = submit(executor, _of_batch, batch, selection, function, args, own)
            except Closed:
                # What is left is done here.
                break
            batches.popleft()
            sent.append((places, future))
        if not sent:
            rest = [int(place) for batch in batches for place in batch]
            own = None if each is None else [each[place] for place in rest]
            yield from _here([traces[place] for place in rest], parts, function, args, own)
            return
        places, future = sent.popleft()
        for place, (found, counts) in zip(places, result_of(future), strict=True):
            if counts is not None and parts is not None:
                parts.kind_counts[traces[place].rank] = counts
            yield found


def _of_batch(
    traces: Sequence[Trace],
    selection: Selection | None,
    function: Callable[..., Any],
    args: tuple[Any, ...],
    each: _Each | None,
) -> list[tuple[Any, Ints | None]]:
    own: Sequence[tuple[Any, ...]] = [()] * len(traces) if each is None else each
    return [
        _of_rank(trace, selection, function, (*args, *more))
        for trace, more in zip(walked(traces), own, strict=True)
    ]
