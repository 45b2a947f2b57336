"""Kernels by name and rank, their hardware counters, and the bandwidth of copies."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
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
    BUSY,
    Part,
    Parts,
    Scope,
    categorical,
    count_kinds,
    over_ranks,
    parts,
    prelaunched_note,
    result,
    scoped,
    stacked,
    statistics_by_name,
)
from hta_widgets.arguments import checked
from hta_widgets.facts import note_for
from hta_widgets.taxonomy import KINDS
from hta_widgets.trace.arrays import Array, Floats, Ints, Rows, sums
from hta_widgets.trace.columns import CounterTable, Pool, event_args, numbers_of
from hta_widgets.trace.host_stack import operator_tree
from hta_widgets.trace.trace import Trace
from hta_widgets.trace.traceset import TraceSet

_RANGE = "cuda_profiler_range"
_INT64_END = 1 << 63

#: Floating point operations of one executed instruction, by the counter of that instruction:
#: a fused multiply-add is two. Of double (d), single (f) and half (h) precision.
CUDA_SASS_INSTRUCTION_COUNTER_FLOPS: dict[str, float] = {
    f"smsp__sass_thread_inst_executed_op_{precision}{operation}_pred_on.sum": flops
    for precision in "fhd"
    for operation, flops in (("fma", 2.0), ("mul", 1.0), ("add", 1.0))
}


@scoped
def cupti_counters(traces: TraceSet, **scope: Unpack[Scope]) -> pd.DataFrame:
    """Return the hardware counters of each kernel, and the operators that launched it.

    With ``experimental_config=_ExperimentalConfig(profiler_metrics=[...])`` PyTorch's profiler
    measures counters for each kernel instead of recording when kernels run. The file then holds
    one event of category ``cuda_profiler_range`` per kernel, without a link to its launch. The
    k-th event is paired with the k-th call that launches a kernel, on any thread.

    Parameters
    ----------
    selection : Selection, optional
        The kernels; all by default. They are paired with launches before they are selected.

    Returns
    -------
    DataFrame
        One row per kernel, by rank and start:

        ``rank, id``
            int64
        ``name``
            str
        ``start_ns, dur_ns``
            int64; spread evenly by the profiler, not the times at which kernels ran
        ``launch_id``
            int64, id of the launching call, -1 for none
        ``op_stack``
            list of str: the operators around the launch, outermost first
        ``top_level_op, bottom_level_op``
            str, the first and last operator; empty without operators
        *one column per counter*
            named as in the file; int64 (-1: not measured), or float64 (NaN: not measured) if any
            value is a fraction
        ``flops``
            int64: floating point operations, if the file has counters of SASS instructions (see
            ``CUDA_SASS_INSTRUCTION_COUNTER_FLOPS``)

        ``.attrs["matched"]`` counts ``kernels`` and ``launches``. If they differ on a rank, pairs
        after the missing event are wrong, and ``.attrs["note"]`` lists the rank.

    Notes
    -----
    Definition of HTA's ``get_cupti_counter_data_with_operators``, which returns nothing for ranks
    whose numbers differ, and counts calls named ``cudaLaunchKernel…`` only. Driver calls named
    ``cuLaunchKernel…`` (Triton) count here if that makes the numbers equal.
    """
    blocks: list[dict[str, Any]] = []
    names: list[str] = []
    stacks: list[list[str]] = []
    args: list[Mapping[str, Any]] = []
    notes = []
    for part in parts(traces, **scope):
        trace, table = part.trace, part.table
        kernels, launches = _paired(trace)
        launch_of = np.full(len(kernels), -1, dtype=np.int64)
        pairs = min(len(kernels), len(launches))
        launch_of[:pairs] = launches[:pairs]
        if len(kernels) and len(kernels) != len(launches):
            notes.append(
                f"rank {trace.rank}: {len(kernels)} kernels but {len(launches)} launches; they are"
                " paired from the first on, so pairs behind a missing event are wrong"
            )
        chosen = np.isin(kernels, part.rows)
        rows, launch_of = kernels[chosen], launch_of[chosen]
        block = {
            "rank": trace.rank,
            "id": rows,
            "start_ns": table.start_ns[rows] + trace.shift_ns,
            "dur_ns": table.dur_ns[rows],
            "launch_id": launch_of,
        }
        blocks.append(block)
        names += [table.names[code] for code in table.name[rows].tolist()]
        if len(rows):
            stacks += _stacks(trace, launch_of)
            args += _args(trace, rows)
    if not names:
        notes.append(
            f"no events of category {_RANGE}: counters are recorded where profiler_metrics are"
            " asked for"
        )
    column = stacked(blocks, "rank id start_ns dur_ns launch_id")
    counters = _counters(args)
    columns: dict[str, Any] = {
        "rank": column["rank"],
        "id": column["id"],
        "name": pd.Series(names, dtype=object),
        **{name: column[name] for name in ("start_ns", "dur_ns", "launch_id")},
        "op_stack": pd.Series(stacks, dtype=object),
        "top_level_op": pd.Series(["".join(stack[:1]) for stack in stacks], dtype=object),
        "bottom_level_op": pd.Series(["".join(stack[-1:]) for stack in stacks], dtype=object),
    }
    columns |= {key: values for key, values in counters.items() if key not in columns}
    flops = _flops(counters)
    if flops is not None:
        columns["flops"] = flops
    launched = int((column["launch_id"] >= 0).sum())
    matched = {"kernels": len(names), "launches": launched}
    return result(columns, matched=matched, note=notes)


def _paired(trace: Trace) -> tuple[Rows, Rows]:
    """Return a rank's kernels and the calls that launch kernels, both by start."""
    table = trace.table
    ranges = [code for code, text in enumerate(table.categories.values) if text == _RANGE]
    kernels = np.flatnonzero(np.isin(table.category, ranges))
    if not len(kernels):
        return kernels, kernels
    of_runtime = _calls(trace, "runtime", "cudaLaunchKernel")
    if len(of_runtime) != len(kernels):
        of_driver = _calls(trace, "driver", "cuLaunchKernel")
        if len(of_runtime) + len(of_driver) == len(kernels):
            return kernels, np.sort(np.concatenate((of_runtime, of_driver)))
    return kernels, of_runtime


def _calls(trace: Trace, category: str, prefix: str) -> Rows:
    table = trace.table
    categories = [
        code for code, text in enumerate(table.categories.values) if category in text.lower()
    ]
    names = [code for code, text in enumerate(table.names.values) if text.startswith(prefix)]
    return np.flatnonzero(np.isin(table.category, categories) & np.isin(table.name, names))


def _stacks(trace: Trace, calls: Ints) -> list[list[str]]:
    """Return the names of the operators around some calls, outermost first."""
    tree = operator_tree(trace)
    table = trace.table
    up = tree.forest.parent
    names = [table.names[code] for code in table.name[tree.rows].tolist()]
    at = tree.innermost[calls]
    paths: list[list[str]] = [[] for _ in range(len(calls))]
    while (at >= 0).any():
        for path, place in zip(paths, at.tolist(), strict=True):
            if place >= 0:
                path.append(names[place])
        at = np.where(at >= 0, up[at], -1)
    return [path[::-1] for path in paths]


def _args(trace: Trace, rows: Rows) -> list[Mapping[str, Any]]:
    """Return all args of some events."""
    known: dict[int, Mapping[str, Any]] = {}
    records = trace.table.record[rows]
    if trace.source is not None:
        for record, body in trace.source.records(records):
            try:
                event = json.loads(body.decode("utf-8", "replace"), strict=False)
            except ValueError:
                continue
            args = event.get("args") if isinstance(event, dict) else None
            known[record] = args if isinstance(args, dict) else {}
    return [known.get(record, {}) for record in records.tolist()]


def _counters(args: Sequence[Mapping[str, Any]]) -> dict[str, Array]:
    """Return one column per arg with any number, in order of first occurrence."""
    keys = dict.fromkeys(key for one in args for key in one)
    columns = {}
    for key in keys:
        values = [_number(one.get(key)) for one in args]
        there = [value for value in values if value is not None]
        if not there:
            continue
        whole = all(isinstance(value, int) and abs(value) < _INT64_END for value in there)
        missing = -1 if whole else np.nan
        columns[key] = np.array(
            [missing if value is None else value for value in values],
            dtype=np.int64 if whole else np.float64,
        )
    return columns


def _number(value: Any) -> int | float | None:
    if isinstance(value, (int, float)):
        return value
    try:
        return float(value)
    except (TypeError, ValueError):
        return None


def _flops(counters: Mapping[str, Array]) -> Ints | None:
    """Return the floating point operations of each kernel; None without such counters."""
    known = [key for key in CUDA_SASS_INSTRUCTION_COUNTER_FLOPS if key in counters]
    if not known:
        return None
    total = np.zeros(len(counters[known[0]]), dtype=np.int64)
    for key in known:
        executed = np.maximum(np.nan_to_num(counters[key]), 0).astype(np.int64)
        total += executed * int(CUDA_SASS_INSTRUCTION_COUNTER_FLOPS[key])
    return total


@scoped
def kernel_breakdown(
    traces: TraceSet, *, include_memory: bool = True, **scope: Unpack[Scope]
) -> pd.DataFrame:
    """Return count and durations of every kernel, by rank.

    Durations of concurrent kernels add up. They are clipped to the window; a kernel counts if it
    overlaps the window.

    Returns
    -------
    DataFrame
        One row per rank, kind and kernel, in order of ranks, most time first:

        - ``rank`` (int64)
        - ``kind`` (categorical): ``compute``, ``communication`` or ``memory``
        - ``name`` (text): as in the file
        - ``count, sum_ns`` (int64)
        - ``mean_ns`` (float); ``min_ns, max_ns`` (int64)
        - ``std_ns`` (float): standard deviation of a sample (ddof 1), 0 for one kernel
    """
    chosen = parts(traces, **scope)
    kinds = BUSY if include_memory else BUSY[:2]
    order = {"rank": True, "sum_ns": False, "count": False, "kind": True}
    frame = _statistics(chosen, kinds)
    frame = frame.sort_values(list(order), ascending=list(order.values()))
    columns = ("rank", "kind", "name", "count", "sum_ns", "mean_ns", "min_ns", "max_ns", "std_ns")
    return _kernel_frame(chosen, kinds, frame, columns)


@scoped
def kernel_duration_by_rank(
    traces: TraceSet, *, include_memory: bool = True, top: int | None = None, **scope: Unpack[Scope]
) -> pd.DataFrame:
    """Return the durations of each kernel on each rank, to compare ranks.

    Parameters
    ----------
    top : int, optional
        Return only this many kernels, those with most time over all ranks.

    Returns
    -------
    DataFrame
        One row per kernel and rank that ran it, kernels with most time over all ranks first:

        - ``rank`` (int64); ``name`` (text); ``kind`` (categorical)
        - ``count`` (int64)
        - ``mean_ns`` (float); ``min_ns, max_ns, sum_ns`` (int64)
    """
    chosen = parts(traces, **scope)
    kinds = BUSY if include_memory else BUSY[:2]
    frame = _statistics(chosen, kinds)
    kernels = frame.groupby(["kind", "name"], sort=False)
    frame = frame.assign(spent_ns=kernels["sum_ns"].transform("sum"), kernel=kernels.ngroup())
    frame = frame.sort_values(["spent_ns", "kernel", "rank"], ascending=[False, True, True])
    if top is not None:
        frame = frame[frame.groupby("kernel", sort=False).ngroup() < top]
    columns = ("rank", "name", "kind", "count", "mean_ns", "min_ns", "max_ns", "sum_ns")
    return _kernel_frame(chosen, kinds, frame, columns)


def _kernel_frame(
    chosen: Parts, kinds: Sequence[str], frame: pd.DataFrame, columns: Sequence[str]
) -> pd.DataFrame:
    frame = frame.assign(
        kind=categorical(frame["kind"].to_numpy(), KINDS),
        name=pd.array(frame["name"].tolist(), dtype="str"),
        mean_ns=frame["sum_ns"] / frame["count"],
    ).reset_index(drop=True)
    return result(
        {name: frame[name] for name in columns},
        matched=count_kinds(chosen, kinds),
        note=prelaunched_note(chosen) if len(frame) else note_for("no_device_work"),
    )


def _statistics(chosen: Parts, kinds: Sequence[str]) -> pd.DataFrame:
    """Return statistics of each rank's kernels by kind and name."""
    found = list(over_ranks(chosen, _of_rank, kinds))
    return pd.DataFrame(stacked(found, "rank kind name:s count sum_ns min_ns max_ns std_ns:f"))


def _of_rank(part: Part, kinds: Sequence[str]) -> dict[str, Any]:
    return statistics_by_name(part, part.of_kinds(*kinds))[0]


# --- copies ---------------------------------------------------------------------------------------


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
    traces: TraceSet,
    scope: Scope,
    columns_of: Callable[[Part, _Copies], dict[str, Any]],
    names: str,
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
    part: Part, columns_of: Callable[[Part, _Copies], dict[str, Any]]
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
    return TraceSet(
        [
            trace.replace(counter_table=counted.get(trace.rank, trace.counter_table))
            for trace in traces.values()
        ],
        problems=traces.found,
        like=traces,
    )


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
