"""Run a function over the ranks of a job, in this process or in an executor's workers.

A job may be larger than memory, so a rank's data is released before the next rank is read. Results
per rank are small and are yielded in the order of the ranks.

An executor receives batches of ranks. For example, 100 ranks are divided into 16 batches for 4
workers, and at most 8 batches are submitted at a time. A worker that finishes thus finds another
batch, and no worker runs far ahead of the consumed results.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor, Future
from itertools import pairwise
from typing import Any, TypeVar

import numpy as np

from hta_widgets.analysis.scope import RankParts, rank_part
from hta_widgets.trace.arrays import Ints
from hta_widgets.trace.memo import iter_ranks
from hta_widgets.trace.trace import Trace
from hta_widgets.trace.traceset import Selection, TraceSet
from hta_widgets.workers import ExecutorClosedError, result_of, submit, workers_of

T = TypeVar("T")
_BATCHES_PER_WORKER = 4  # so that a worker that finishes early gets another batch
_IN_FLIGHT_PER_WORKER = 2  # submitted batches
_RankArguments = Sequence[tuple[Any, ...]]  # arguments for each rank
_RankResult = tuple[Any, Ints | None]  # a rank's result, and its number of events by kind


def map_ranks(
    over: TraceSet | RankParts | Sequence[Trace],
    function: Callable[..., T],
    *args: Any,
    each: _RankArguments | None = None,
    executor: Executor | None = None,
) -> Iterator[T]:
    """Yield the result of ``function(rank, *args, *each[i])`` for each rank, in order.

    A stored rank's data is released before the next is read, unless all ranks fit in the memory
    limit (`hta_widgets.trace.memo`). An executor is used only if all ranks are in files. The rank
    is a `RankPart` if `over` has a selection, otherwise a `Trace`.
    """
    selection = over.selection if isinstance(over, RankParts) else None
    traces: Sequence[Trace]
    if isinstance(over, TraceSet):
        traces = list(over.values())
    else:
        traces = over.traces if isinstance(over, RankParts) else over
    if executor is None:
        executor = getattr(over, "executor", None)
    arguments = [(*args, *rank_args) for rank_args in each or [()] * len(traces)]
    if executor is not None and traces and all(trace.in_file for trace in traces):
        results = _map_elsewhere(executor, traces, selection, function, arguments)
    else:
        results = _map_here(traces, selection, function, arguments)
    for trace, (value, counts) in zip(traces, results, strict=True):
        if counts is not None and isinstance(over, RankParts):
            over.kind_counts[trace.rank] = counts
        yield value


def map_working_ranks(
    chosen: RankParts, function: Callable[..., T | None], *args: Any
) -> dict[int, T]:
    """Return the results of ``function(part, *args)`` that are not None, keyed by rank."""
    results = zip(chosen.ranks, map_ranks(chosen, function, *args), strict=True)
    return {rank: result for rank, result in results if result is not None}


def _map_here(
    traces: Sequence[Trace],
    selection: Selection | None,
    function: Callable[..., Any],
    arguments: _RankArguments,
) -> Iterator[_RankResult]:
    for trace, args in zip(iter_ranks(traces), arguments, strict=True):
        if selection is None:
            yield function(trace, *args), None
        else:
            part = rank_part(trace, selection)
            yield function(part, *args), part.kind_counts


def _map_elsewhere(
    executor: Executor,
    traces: Sequence[Trace],
    selection: Selection | None,
    function: Callable[..., Any],
    arguments: _RankArguments,
) -> Iterator[_RankResult]:
    """Yield the results of `_map_here`, computed by an executor in batches until it is closed."""
    workers = workers_of(executor)
    batch_count = min(len(traces), workers * _BATCHES_PER_WORKER)
    edges = np.linspace(0, len(traces), batch_count + 1).astype(int)
    batches = deque(pairwise(edges.tolist()))
    futures: deque[Future[Any]] = deque()
    while batches or futures:
        while batches and len(futures) < workers * _IN_FLIGHT_PER_WORKER:
            low, high = batches[0]
            work = traces[low:high], selection, function, arguments[low:high]
            try:
                futures.append(submit(executor, _run_batch, *work))
            except ExecutorClosedError:
                break
            batches.popleft()
        if not futures:
            # The executor was closed, so the remaining ranks run in this process.
            low = batches[0][0]
            yield from _map_here(traces[low:], selection, function, arguments[low:])
            return
        yield from result_of(futures.popleft())


def _run_batch(*work: Any) -> list[_RankResult]:
    return list(_map_here(*work))
