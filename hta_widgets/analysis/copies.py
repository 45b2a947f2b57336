"""Memory bandwidth, and counters derived from events."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Literal, Unpack, get_args

import numpy as np
import pandas as pd

from hta_widgets.analysis.launches import (
    STATISTICS_COLUMNS,
    describe,
    held_ns,
    in_order,
    queue_steps,
    running_total,
    settled,
    weighted,
)
from hta_widgets.analysis.scope import (
    Part,
    Scope,
    count_kinds,
    over_ranks,
    parts,
    result,
    scoped,
    stacked,
)
from hta_widgets.arguments import checked
from hta_widgets.trace.arrays import Floats, Ints, Rows
from hta_widgets.trace.columns import CounterTable, Pool
from hta_widgets.trace.event_args import event_args, numbers_of
from hta_widgets.trace.grouping import sums
from hta_widgets.trace.traceset import TraceSet, with_ranks

_FILL = re.compile(r"^(hip|cuda|cu)?memset|_fill|^fill", re.IGNORECASE)
#: "Memcpy HtoD (Pinned -> Device)", "hipMemcpyDtoHAsync", "CopyHostToDevice"
_LETTERS = re.compile(r"([HDAP])to([HDAP])")
_WORDS = re.compile(r"(host|device|peer|array)_?to_?(host|device|peer|array)", re.IGNORECASE)
#: MTIA's copies have direction and size in their args.
_DMA = re.compile(r"^dma", re.IGNORECASE)
_DMA_ARGS = ("direction", "size")
_UNKNOWN_WAY = "Memcpy Unknown"

_NOTHING = "no copies or fills are selected"
CounterKind = Literal["queue_length", "memory_bandwidth"]
COUNTER_KINDS: tuple[CounterKind, ...] = get_args(CounterKind)

#: Names of the series, as HTA writes them.
_QUEUE = "Queue Length"
_BANDWIDTH = "Memcpy BW"


def copy_kind(name: str) -> str:
    """Return the vendor-independent name of a copy or fill."""
    if _FILL.search(name):
        return "Memset"
    found = _LETTERS.search(name) or _WORDS.search(name)
    return f"Memcpy {found[1][0].upper()}to{found[2][0].upper()}" if found else _UNKNOWN_WAY


@dataclass(frozen=True, slots=True)
class _Copies:
    """The selected copies and fills of one rank."""

    rows: Rows
    kinds: list[str]  # those that occur, in order of their names
    code: Rows  # into `kinds`
    start_ns: Ints  # within the window
    end_ns: Ints
    gb_per_s: Floats  # NaN if unknown
    size_bytes: Ints  # -1 if unknown
    computed: int  # number of rates computed from size and duration


def _copies(part: Part) -> _Copies:
    trace, table = part.trace, part.table
    rows = part.of_kinds("memory")
    rate, size = trace.copy_table.of(table.record[rows])
    names, by_name = np.unique(table.name[rows], return_inverse=True)
    texts = [table.names[code] for code in names.tolist()]
    pool = Pool()
    code = np.array([pool.add(copy_kind(text)) for text in texts], dtype=np.intp)[by_name]
    is_dma = np.array([bool(_DMA.match(text)) for text in texts], dtype=bool)[by_name]
    if is_dma.any():
        at = np.flatnonzero(is_dma)
        args = event_args(trace, rows[at], _DMA_ARGS)
        code[at] = [pool.add(copy_kind(str(way or ""))) for way in args["direction"]]
        size[at] = np.where(size[at] < 0, numbers_of(args["size"]), size[at])
    size = np.maximum(size, -1)
    dur = table.dur_ns[rows]
    # Durations below the resolution of the file's times count as one unit.
    dur = np.where(dur > 0, dur, max(trace.resolution_ns, 1))
    derived = np.isnan(rate) & (size >= 0)
    rate[derived] = size[derived] / dur[derived]
    start, end = part.clipped_edges(table.start_ns[rows], table.start_ns[rows] + dur)
    kinds = sorted(pool.values[at] for at in np.unique(code).tolist())
    place = np.array([kinds.index(k) if k in kinds else -1 for k in pool.values], dtype=np.intp)
    return _Copies(
        rows,
        kinds,
        place[code] if len(place) else code,
        start,
        np.maximum(end, start),
        rate,
        size,
        int(derived.sum()),
    )


_ColumnsOf = Callable[[Part, _Copies], dict[str, Any]]


@dataclass(frozen=True, slots=True)
class BandwidthSteps:
    """All changes of a rank's memory bandwidth, by kind and time; ends before starts."""

    kinds: list[str]
    code: Rows
    time_ns: Ints
    gb_per_s: Floats
    row: Rows


def bandwidth_steps(part: Part) -> BandwidthSteps:
    """Return all changes of the memory bandwidth of one rank's selected copies and fills."""
    return _steps(_copies(part))


def _steps(copies: _Copies) -> BandwidthSteps:
    known = np.flatnonzero(~np.isnan(copies.gb_per_s))
    size = len(known)
    code = np.tile(copies.code[known], 2)
    time_ns = np.concatenate((copies.end_ns[known], copies.start_ns[known]))
    copy = np.tile(np.arange(size), 2)
    sign = np.repeat(np.array([-1, 1]), size)
    lasting = np.tile(copies.end_ns[known] > copies.start_ns[known], 2)
    order = in_order(code, len(copies.kinds), time_ns)
    order = order[lasting[order]]
    code, copy, sign = code[order], copy[order], sign[order]
    rate = copies.gb_per_s[known]
    running = running_total(code, sign)
    # The sum of the running copies' numbers is the copy itself if only one runs.
    alone = running_total(code, sign * copy)
    value = np.zeros(len(order))
    one = running == 1
    value[one] = rate[alone[one]]
    several = running > 1
    if several.any():
        total = running_total(code, sign * rate[copy].astype(np.longdouble))
        value[several] = total[several]
    return BandwidthSteps(copies.kinds, code, time_ns[order], value, copies.rows[known][copy])


@scoped
def memory_bandwidth(traces: TraceSet, **scope: Unpack[Scope]) -> pd.DataFrame:
    """Return the rate at which memory is copied and filled, at each instant of change.

    Rates of concurrent copies add up. The rate is the one in the file, or else bytes divided by
    duration; copies without either are left out and counted. A copy of 0 µs lasts one unit of the
    file's times.

    Parameters
    ----------
    selection : Selection, optional
        The copies; all by default.
    window : (start_ns, end_ns), optional
        Narrows the selection in time; copies are cut at its edges and keep their rate.

    Returns
    -------
    DataFrame
        One row per rank, kind of copy and instant of change, in that order: ``rank`` (int64),
        ``copy_kind`` (categorical: ``Memcpy HtoD``, ``Memset``, …), ``time_ns`` (int64),
        ``gb_per_s`` (float64, 10⁹ bytes a second): the rate after all changes at that instant,
        exactly 0 without copies. ``.attrs["unknown"]`` counts copies without a known rate, by
        kind; ``.attrs["computed"]`` counts rates computed from size and duration.

    Notes
    -----
    The definition is that of HTA's memory bandwidth time series. In HTA rounding may leave a rate
    other than 0 without copies, unknown rates count as 0, and a copy of 0 µs lasts 1 µs.
    """
    return _bandwidth_frame(traces, scope, _rates, "rank copy_kind:c time_ns gb_per_s:f")


def _rates(part: Part, copies: _Copies) -> dict[str, Any]:
    steps = _steps(copies)
    kept = settled(steps.code, steps.time_ns)
    return {
        "rank": part.rank,
        "copy_kind": (steps.code[kept], steps.kinds),
        "time_ns": steps.time_ns[kept] + part.trace.shift_ns,
        "gb_per_s": steps.gb_per_s[kept],
    }


@scoped
def memory_bandwidth_summary(traces: TraceSet, **scope: Unpack[Scope]) -> pd.DataFrame:
    """Return statistics of the memory bandwidth of each kind of copy.

    Returns
    -------
    DataFrame
        One row per rank and kind of copy:

        - ``rank`` (int64), ``copy_kind`` (categorical)
        - ``count, mean, std, min, 25%, 50%, 75%, max``: of the rates above 0 in the rows of
          `memory_bandwidth`, GB/s, however long they hold
        - ``time_weighted_mean``: the mean over the time in which anything of the kind runs;
          ``busy_ns`` (int64): that time
        - ``copies`` (int64): their number, with unknown rates too; ``size_bytes`` (int64): the sum
          of known sizes, which the window does not cut
    """
    columns = f"{STATISTICS_COLUMNS} time_weighted_mean:f busy_ns copies size_bytes"
    return _bandwidth_frame(traces, scope, _summary, f"rank copy_kind:c {columns}")


def _summary(part: Part, copies: _Copies) -> dict[str, Any]:
    groups = len(copies.kinds)
    steps = _steps(copies)
    shown = settled(steps.code, steps.time_ns) & (steps.gb_per_s > 0)
    held = np.where(steps.gb_per_s > 0, held_ns(steps.code, steps.time_ns), 0)
    area, busy = weighted(steps.code, groups, steps.gb_per_s, held)
    return {
        "rank": part.rank,
        "copy_kind": (np.arange(groups), copies.kinds),
        **describe(steps.code[shown], groups, steps.gb_per_s[shown]),
        "time_weighted_mean": area / np.where(busy > 0, busy, np.nan),
        "busy_ns": busy,
        "copies": np.bincount(copies.code, minlength=groups),
        "size_bytes": sums(copies.code, np.maximum(copies.size_bytes, 0), groups),
    }


def _bandwidth_frame(
    traces: TraceSet, scope: Scope, columns_of: _ColumnsOf, names: str
) -> pd.DataFrame:
    chosen = parts(traces, **scope)
    found = list(over_ranks(chosen, _columns_and_counts, columns_of))
    columns = stacked([one for one, _, _ in found], names)
    kind = columns["copy_kind"]
    columns["copy_kind"] = kind.reorder_categories(sorted(kind.categories))
    unknown = sum((one for _, one, _ in found), Counter[str]())
    note = _NOTHING
    if unknown:
        note = f"the files tell neither rate nor size of the {unknown.total():,} copies and fills"
    return result(
        columns,
        matched=count_kinds(chosen, ("memory",)),
        note="" if len(kind) else note,
        unknown=dict(unknown),
        computed=sum(one for _, _, one in found),
    )


def _columns_and_counts(
    part: Part, columns_of: _ColumnsOf
) -> tuple[dict[str, Any], Counter[str], int]:
    """Return a rank's columns, its copies without a known rate by kind, and its computed rates."""
    copies = _copies(part)
    missing = np.sort(copies.code[np.isnan(copies.gb_per_s)])
    unknown = Counter(copies.kinds[code] for code in missing.tolist())
    return columns_of(part, copies), unknown, copies.computed


#: Pid, name and series of a counter, as in `CounterTable.series`; its times and values.
_Series = tuple[tuple[str, str, str], Ints, Floats]


@checked
def with_counters(
    traces: TraceSet,
    kinds: Iterable[CounterKind] = COUNTER_KINDS,
    *,
    ranks: Iterable[int] | None = None,
) -> TraceSet:
    """Return the set with additional counters that are derived from its events.

    Timelines draw them as tracks, and exports with counters contain them. `Trace.counters` has
    them like the files' own, with -1 in ``Trace.counter_table.record``. Counters that a file
    already has, because it is such an export, are not added again.

    Parameters
    ----------
    traces : TraceSet
    kinds : iterable of str
        ``"queue_length"``: one counter ``Queue Length[7]`` for each stream, see `queue_length`.
        ``"memory_bandwidth"``: one counter ``Memcpy HtoD``, ``Memset``, … for each kind of copy,
        in GB/s, see `memory_bandwidth`.
    ranks : iterable of int, optional
        Add counters to these ranks only.

    Returns
    -------
    TraceSet
        The same ranks and events, with counters.
    """
    counted = {part.rank: _counted(part, kinds) for part in parts(traces, ranks=ranks)}
    changed = {rank: traces[rank].replace(counter_table=one) for rank, one in counted.items()}
    return with_ranks(traces, changed)


def _counted(part: Part, kinds: Iterable[CounterKind]) -> CounterTable:
    """Return the rank's counters, followed by the derived ones."""
    own = part.trace.counter_table
    known = set(own.series)
    series = [one for kind in kinds for one in _SERIES[kind](part) if one[0] not in known]
    if not series:
        return own
    keys, times, values = zip(*series, strict=True)
    sizes = list(map(len, times))
    first = len(own.series)
    numbers = np.arange(first, first + len(series), dtype=np.int32)
    return CounterTable(
        time_ns=np.concatenate([own.time_ns, *times]),
        series_id=np.concatenate([own.series_id, np.repeat(numbers, sizes)]),
        value=np.concatenate([own.value, *values]),
        series=[*own.series, *keys],
        record=np.concatenate([own.record, np.full(sum(sizes), -1, dtype=np.int64)]),
    )


def _queues(part: Part) -> Iterator[_Series]:
    steps = queue_steps(part)
    kept = settled(steps.code, steps.time_ns)
    first = np.searchsorted(steps.code, np.arange(len(steps.streams)))
    for code, stream in enumerate(steps.streams.tolist()):
        rows = kept & (steps.code == code)
        pid = _pid(part, steps.device_row[first[code]])
        length = steps.queue_length[rows].astype(np.float64)
        yield (pid, f"{_QUEUE}[{stream}]", _QUEUE), steps.time_ns[rows], length


def _bandwidths(part: Part) -> Iterator[_Series]:
    steps = bandwidth_steps(part)
    kept = settled(steps.code, steps.time_ns)
    for code, kind in enumerate(steps.kinds):
        rows = np.flatnonzero(kept & (steps.code == code))
        if len(rows):
            pid = _pid(part, steps.row[rows[0]])
            yield (pid, kind, _BANDWIDTH), steps.time_ns[rows], steps.gb_per_s[rows]


_SERIES: dict[str, Callable[[Part], Iterator[_Series]]] = {
    "queue_length": _queues,
    "memory_bandwidth": _bandwidths,
}


def _pid(part: Part, row: int) -> str:
    """Return the process of an event, which is its device."""
    pid: str = part.table.tracks[part.table.track[row]].pid
    return pid
