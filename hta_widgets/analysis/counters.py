"""Counters derived from events: queue lengths, memory bandwidth, achieved TFLOP/s.

For example, two kernels on a stream are launched at 0 and 2 µs and start at 5 and 9 µs. The counter
``Queue Length`` of the stream is 1 at 0, 2 at 2, 1 at 5 and 0 at 9 µs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from typing import Literal

import numpy as np

from hta_widgets.analysis.bandwidth import bandwidth_steps
from hta_widgets.analysis.efficiency.call_efficiency import call_efficiency
from hta_widgets.analysis.queues import queue_steps
from hta_widgets.analysis.scope import RankPart, rank_parts
from hta_widgets.analysis.step_series import is_last_at_instant
from hta_widgets.arguments import check_arguments
from hta_widgets.taxonomy import KINDS
from hta_widgets.trace.arrays import Floats, Ints
from hta_widgets.trace.columns import CounterTable
from hta_widgets.trace.traceset import TraceSet, replace_ranks

CounterKind = Literal["queue_length", "memory_bandwidth", "tflop_per_s"]

#: HTA's counters, which do not require shapes.
COUNTER_KINDS: tuple[CounterKind, ...] = ("queue_length", "memory_bandwidth")

#: Names of the series, as in HTA.
_QUEUE = "Queue Length"
_BANDWIDTH = "Memcpy BW"
#: Name of the counter for the achieved rate, and of its series.
_RATE = "Achieved TFLOP/s"
_OF_KNOWN = "of known FLOPs"

#: A counter's pid, name and series, as in `CounterTable.series`, and its times and values.
_Series = tuple[tuple[str, str, str], Ints, Floats]


@check_arguments
def with_counters(
    traces: TraceSet,
    kinds: Iterable[CounterKind] = COUNTER_KINDS,
    *,
    ranks: Iterable[int] | None = None,
) -> TraceSet:
    """Return the trace set with additional counters derived from its events.

    Timelines draw them as tracks, and exports with counters contain them. `Trace.counters` lists
    them after the file's counters, and their ``Trace.counter_table.record`` is -1. Counters that a
    file already has, because it is such an export, are not added again.

    Parameters
    ----------
    traces : TraceSet
    kinds : iterable of str
        ``"queue_length"``: one counter ``Queue Length[7]`` per stream, see `queue_length`.
        ``"memory_bandwidth"``: one counter ``Memcpy HtoD``, ``Memset``, … per kind of copy, in
        GB/s, see `memory_bandwidth`. ``"tflop_per_s"``, not a default: one counter ``Achieved
        TFLOP/s`` for the device, with the FLOPs of each operator call spread evenly over its
        kernels. Work with unknown FLOPs adds nothing; while only such work computes, the value is
        NaN, a gap in the track. Ranks without shapes have no such counter.
    ranks : iterable of int, optional
        Adds counters to these ranks only.

    Returns
    -------
    TraceSet
        The same ranks and events, with counters.
    """
    changed = {
        part.rank: traces[part.rank].replace(counter_table=_with_derived_counters(part, kinds))
        for part in rank_parts(traces, ranks=ranks)
    }
    return replace_ranks(traces, changed)


def _with_derived_counters(part: RankPart, kinds: Iterable[CounterKind]) -> CounterTable:
    recorded_counters = part.trace.counter_table
    recorded_keys = set(recorded_counters.series)
    derived = chain.from_iterable(_SERIES[kind](part) for kind in kinds)
    series = [entry for entry in derived if entry[0] not in recorded_keys]
    if not series:
        return recorded_counters
    keys, times, values = zip(*series, strict=True)
    sizes = list(map(len, times))
    first = len(recorded_counters.series)
    numbers = np.arange(first, first + len(series), dtype=np.int32)
    return CounterTable(
        time_ns=np.concatenate([recorded_counters.time_ns, *times]),
        series_id=np.concatenate([recorded_counters.series_id, np.repeat(numbers, sizes)]),
        value=np.concatenate([recorded_counters.value, *values]),
        series=[*recorded_counters.series, *keys],
        record=np.concatenate([recorded_counters.record, np.full(sum(sizes), -1, dtype=np.int64)]),
    )


def _queues(part: RankPart) -> Iterator[_Series]:
    steps = queue_steps(part)
    is_last = is_last_at_instant(steps.code, steps.time_ns)
    for code, stream in enumerate(steps.streams.tolist()):
        is_of_stream = steps.code == code
        pid = _pid(part, steps.device_row[is_of_stream.argmax()])
        rows = is_last & is_of_stream
        length = steps.queue_length[rows].astype(np.float64)
        yield (pid, f"{_QUEUE}[{stream}]", _QUEUE), steps.time_ns[rows], length


def _bandwidths(part: RankPart) -> Iterator[_Series]:
    steps = bandwidth_steps(part)
    is_last = is_last_at_instant(steps.code, steps.time_ns)
    for code, kind in enumerate(steps.kinds):
        rows = np.flatnonzero(is_last & (steps.code == code))
        if len(rows):
            pid = _pid(part, steps.row[rows[0]])
            yield (pid, kind, _BANDWIDTH), steps.time_ns[rows], steps.gb_per_s[rows]


def _rates(part: RankPart) -> Iterator[_Series]:
    """Yield the achieved rate of the device: the sum over running calls; NaN if none is known."""
    efficiency = call_efficiency(part.trace)
    if efficiency is None:
        return
    table, work = part.table, part.device_work_rows()
    # Work outside calls (-1) gets the appended NaN.
    rate_of_call = np.append(efficiency.calls["tflop_per_s"].to_numpy(np.float64), np.nan)
    rate = rate_of_call[efficiency.call_of_event[work]]
    has_rate = rate > 0
    if not has_rate.any():
        return
    is_unknown = np.isnan(rate) & (table.kind[work] == KINDS.index("compute"))
    is_counted = has_rate | is_unknown
    work, rate = work[is_counted], np.where(has_rate, rate, 0)[is_counted]
    edges_ns = np.concatenate([table.start_ns[work], table.start_ns[work] + table.dur_ns[work]])
    order = np.argsort(edges_ns, kind="stable")
    time_ns = edges_ns[order]

    def sum_of_running(value: Floats) -> Floats:
        return np.cumsum(np.concatenate([value, -value])[order])

    # While nothing runs, the rate is 0 instead of the sums' rounding error.
    rated, running = sum_of_running(np.sign(rate)), sum_of_running(np.ones(len(rate)))
    total = np.where(rated > 0, sum_of_running(rate), np.where(running > 0, np.nan, 0.0))
    is_last = is_last_at_instant(np.zeros(len(time_ns), np.int64), time_ns)
    yield (_pid(part, work[0]), _RATE, _OF_KNOWN), time_ns[is_last], total[is_last]


_SERIES: dict[str, Callable[[RankPart], Iterator[_Series]]] = {
    "queue_length": _queues,
    "memory_bandwidth": _bandwidths,
    "tflop_per_s": _rates,
}


def _pid(part: RankPart, row: int) -> str:
    pid: str = part.table.tracks[part.table.track[row]].pid
    return pid
