"""What analyses derive as counters of the ranks: length of queues, bandwidth of copies."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
import numpy.typing as npt

from hta_widgets.errors import TraceError
from hta_widgets.trace.table import CounterTable
from hta_widgets.trace.traceset import TraceSet

from hta_widgets.analysis.copies import bandwidth_steps
from hta_widgets.analysis.queue_steps import queue_steps
from hta_widgets.analysis.scope import Part
from hta_widgets.analysis.scope import parts
from hta_widgets.analysis.step_series import settled

__all__ = ["COUNTER_KINDS", "CounterKind", "with_counters"]

Ints = npt.NDArray[np.int64]

CounterKind = Literal["queue_length", "memory_bandwidth"]
COUNTER_KINDS: tuple[CounterKind, ...] = get_args(CounterKind)

#: Names of the series, as HTA writes them.
_QUEUE = "Queue Length"
_BANDWIDTH = "Memcpy BW"


@dataclass(frozen=True, slots=True)
class _Series:
    key: tuple[str, str, str]  # pid, name, series, as in `CounterTable.series`
    time_ns: Ints
    value: npt.NDArray[np.float64]


def with_counters(
    traces: TraceSet,
    kinds: CounterKind | Iterable[CounterKind] = COUNTER_KINDS,
    *,
    ranks: Iterable[int] | None = None,
) -> TraceSet:
    """Return the set with counters derived from its events, beside those of its files.

    A timeline of the result draws them as tracks, and exports with counters hold them. They are
    in `Trace.counters` like the files' own; ``Trace.counter_table.record`` is -1 for them. What a
    file already has of them, because it is such an export, is not added again.

    Parameters
    ----------
    traces : TraceSet
    kinds : iterable of str
        ``"queue_length"``: one counter ``Queue Length[7]`` for each stream, see `queue_length`.
        ``"memory_bandwidth"``: one counter ``Memcpy HtoD``, ``Memset``, … for each kind of copy,
        in GB/s, see `memory_bandwidth`.
    ranks : iterable of int, optional
        The ranks that get them; the others stay as they are.

    Returns
    -------
    TraceSet
        Of the same ranks and events.

    Raises
    ------
    TraceError
        Where a kind or a rank is not there.

    Examples
    --------
    >>> traces = hw.load("runs/job")  # doctest: +SKIP
    >>> hw.Timeline(with_counters(traces))  # doctest: +SKIP
    """
    chosen: list[str] = [kinds] if isinstance(kinds, str) else list(kinds)
    unknown = [kind for kind in chosen if kind not in COUNTER_KINDS]
    if unknown:
        raise TraceError(
            f"there is no counter {unknown[0]!r}", remedy=f"There are {', '.join(COUNTER_KINDS)}."
        )
    counted = {part.rank: _counted(part, chosen) for part in parts(traces, ranks=ranks)}
    return TraceSet(
        [
            trace.replace(counter_table=counted.get(trace.rank, trace.counter_table))
            for trace in traces.values()
        ],
        problems=traces.found,
        like=traces,
    )


def _counted(part: Part, kinds: list[str]) -> CounterTable:
    """Return the rank's counters and the derived ones, which come last."""
    own = part.trace.counter_table
    known = set(own.series)
    series = [one for kind in kinds for one in _SERIES[kind](part) if one.key not in known]
    if not series:
        return own
    sizes = [len(one.time_ns) for one in series]
    first = len(own.series)
    numbers = np.arange(first, first + len(series), dtype=np.int32)
    return CounterTable(
        time_ns=np.concatenate([own.time_ns, *(one.time_ns for one in series)]),
        series_id=np.concatenate([own.series_id, np.repeat(numbers, sizes)]),
        value=np.concatenate([own.value, *(one.value for one in series)]),
        series=[*own.series, *(one.key for one in series)],
        record=np.concatenate([own.record, np.full(sum(sizes), -1, dtype=np.int64)]),
    )


def _queues(part: Part) -> Iterator[_Series]:
    steps = queue_steps(part)
    kept = settled(steps.code, steps.time_ns)
    first = np.searchsorted(steps.code, np.arange(len(steps.streams)))
    for code, stream in enumerate(steps.streams.tolist()):
        rows = kept & (steps.code == code)
        pid = _pid(part, int(steps.device_row[first[code]]))
        yield _Series(
            (pid, f"{_QUEUE}[{stream}]", _QUEUE),
            steps.time_ns[rows],
            steps.queue_length[rows].astype(np.float64),
        )


def _bandwidths(part: Part) -> Iterator[_Series]:
    steps = bandwidth_steps(part)
    kept = settled(steps.code, steps.time_ns)
    for code, kind in enumerate(steps.kinds):
        rows = np.flatnonzero(kept & (steps.code == code))
        if len(rows):
            pid = _pid(part, int(steps.row[rows[0]]))
            yield _Series((pid, kind, _BANDWIDTH), steps.time_ns[rows], steps.gb_per_s[rows])


_SERIES: dict[str, Callable[[Part], Iterator[_Series]]] = {
    "queue_length": _queues,
    "memory_bandwidth": _bandwidths,
}


def _pid(part: Part, row: int) -> str:
    """Return the device of an event, by which the counter is shown."""
    pid: str = part.table.tracks[part.table.track[row]].pid
    return pid
