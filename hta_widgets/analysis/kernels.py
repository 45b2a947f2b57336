"""Kernels by name and rank, their hardware counters, and named ranges that contain them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Literal

import numpy as np
import pandas as pd

from hta_widgets.analysis.frames import categorical, int64, result_frame, stack_blocks
from hta_widgets.analysis.map_ranks import map_ranks
from hta_widgets.analysis.notes import prelaunched_note
from hta_widgets.analysis.scope import (
    DEVICE_WORK_KINDS,
    RankPart,
    RankParts,
    Window,
    count_by_kind,
    rank_parts,
)
from hta_widgets.analysis.totals import statistics_by_name
from hta_widgets.arguments import Count, check_arguments
from hta_widgets.facts import note_text
from hta_widgets.taxonomy import KINDS
from hta_widgets.trace.arrays import Array, Bools, Ints, Rows
from hta_widgets.trace.columns import decode_args
from hta_widgets.trace.event_columns import drop_unused_texts
from hta_widgets.trace.host_stack import (
    attach_backward_threads,
    category_mask,
    name_mask,
    nearest_ancestor,
    nested_parents,
    operator_tree,
)
from hta_widgets.trace.trace import Trace
from hta_widgets.trace.traceset import Selection, TraceSet

_RANGE = "cuda_profiler_range"
_INT64_END = 1 << 63

#: Floating-point operations per executed instruction, by counter. A fused multiply-add counts as
#: two. Precisions are double (d), single (f) and half (h).
CUDA_SASS_INSTRUCTION_COUNTER_FLOPS: dict[str, float] = {
    f"smsp__sass_thread_inst_executed_op_{precision}{operation}_pred_on.sum": flops
    for precision in "fhd"
    for operation, flops in (("fma", 2.0), ("mul", 1.0), ("add", 1.0))
}


@check_arguments
def cupti_counters(
    traces: TraceSet,
    *,
    selection: Selection | None = None,
    window: Window | None = None,
    ranks: Iterable[int] | None = None,
) -> pd.DataFrame:
    """Return the hardware counters of each kernel, and the operators that launched it.

    With ``experimental_config=_ExperimentalConfig(profiler_metrics=[...])``, PyTorch's profiler
    measures counters for each kernel instead of recording when kernels run. The file then has one
    event of category ``cuda_profiler_range`` per kernel, without a link to its launch. The k-th
    event is paired with the k-th call that launches a kernel, on any thread.

    Parameters
    ----------
    traces : TraceSet
    selection, window, ranks : Selection, (start_ns, end_ns), iterable of int, optional
        The kernels to return, restricted by time and ranks. Default: all. They are paired with
        launches before they are selected.

    Returns
    -------
    DataFrame
        One row per kernel, ordered by rank and start:

        - ``rank, id`` (int64); ``name`` (str)
        - ``start_ns, dur_ns`` (int64): spread evenly by the profiler; not the times at which
          kernels ran
        - ``launch_id`` (int64): id of the launch call; -1 if there is none
        - ``op_stack`` (list of str): the operators around the launch, outermost first
        - ``top_level_op, bottom_level_op`` (str): the first and last of these operators; empty if
          there are none
        - one column per counter, named as in the file: int64 (-1: not measured), or float64 (NaN:
          not measured) if any value is a fraction
        - ``flops`` (int64): floating-point operations, if the file has counters of SASS
          instructions (see ``CUDA_SASS_INSTRUCTION_COUNTER_FLOPS``)

        ``.attrs["matched"]`` counts ``kernels`` and ``launches``. If they differ on a rank, pairs
        after the missing event are wrong, and ``.attrs["note"]`` lists the rank.

    Notes
    -----
    The definition follows HTA's ``get_cupti_counter_data_with_operators``, which returns nothing
    for ranks whose numbers differ, and counts only calls named ``cudaLaunchKernel…``. Here, driver
    calls named ``cuLaunchKernel…`` (Triton) are included if that makes the numbers equal.
    """
    blocks: list[dict[str, Any]] = []
    stacks: list[list[str]] = []
    args: list[Mapping[str, Any]] = []
    notes = []
    for part in rank_parts(traces, selection, window, ranks):
        block, note = _kernels_with_launches(part)
        blocks.append(block)
        notes.append(note)
        if len(block["id"]):
            stacks += _stacks(part.trace, block["launch_id"])
            args += _args(part.trace, block["id"])
    if not stacks:
        notes.append(
            f"no events of category {_RANGE}: set profiler_metrics in the profiler's"
            " experimental_config to record counters"
        )
    counters = _counter_columns(args)
    schema = {**int64("rank id"), "name": "object", **int64("start_ns dur_ns launch_id")}
    columns: dict[str, Any] = {
        **stack_blocks(blocks, schema),
        "op_stack": pd.Series(stacks, dtype=object),
        "top_level_op": pd.Series(["".join(stack[:1]) for stack in stacks], dtype=object),
        "bottom_level_op": pd.Series(["".join(stack[-1:]) for stack in stacks], dtype=object),
    }
    columns |= {name: column for name, column in counters.items() if name not in columns}
    flops = _flops(counters)
    if flops is not None:
        columns["flops"] = flops
    launched = int((columns["launch_id"] >= 0).sum())
    matched = {"kernels": len(stacks), "launches": launched}
    return result_frame(columns, matched=matched, note=notes)


def _kernels_with_launches(part: RankPart) -> tuple[dict[str, Any], str]:
    """Return the columns of a rank's kernels, and a note if the launches differ in number."""
    trace, table = part.trace, part.table
    kernels, launches = _kernels_and_calls(trace)
    launch_of = np.full(len(kernels), -1, dtype=np.int64)
    pairs = min(len(kernels), len(launches))
    launch_of[:pairs] = launches[:pairs]
    is_selected = np.isin(kernels, part.rows)
    rows = kernels[is_selected]
    block = {
        "rank": trace.rank,
        "id": rows,
        "name": [table.names[code] for code in table.name[rows].tolist()],
        "start_ns": table.start_ns[rows] + trace.shift_ns,
        "dur_ns": table.dur_ns[rows],
        "launch_id": launch_of[is_selected],
    }
    if not len(kernels) or len(kernels) == len(launches):
        return block, ""
    return block, (
        f"rank {trace.rank}: {len(kernels)} kernels but {len(launches)} launches; they are"
        " paired in order, so all pairs after a missing event are wrong"
    )


def _kernels_and_calls(trace: Trace) -> tuple[Rows, Rows]:
    """Return a rank's kernels and the calls to pair them with, both sorted by start."""
    table = trace.table
    codes = [code for code, text in enumerate(table.categories.values) if text == _RANGE]
    kernels = np.flatnonzero(np.isin(table.category, codes))
    if not len(kernels):
        return kernels, kernels
    runtime_calls = _calls(trace, "runtime", "cudaLaunchKernel")
    driver_calls = _calls(trace, "driver", "cuLaunchKernel")
    # Runtime calls may make driver calls, so driver calls count only if the sum fits.
    if len(runtime_calls) + len(driver_calls) == len(kernels):
        return kernels, np.sort(np.concatenate((runtime_calls, driver_calls)))
    return kernels, runtime_calls


def _calls(trace: Trace, category: str, prefix: str) -> Rows:
    has_prefix = name_mask(trace, lambda name: name.startswith(prefix))
    return np.flatnonzero(category_mask(trace, f".*{category}.*") & has_prefix)


def _stacks(trace: Trace, calls: Ints) -> list[list[str]]:
    """Return the names of the operators around each call, outermost first."""
    tree = operator_tree(trace)
    table = trace.table
    parent = tree.forest.parent
    names = [table.names[code] for code in table.name[tree.rows].tolist()]
    nodes = tree.innermost[calls]
    paths: list[list[str]] = [[] for _ in range(len(calls))]
    while (nodes >= 0).any():
        for path, node in zip(paths, nodes.tolist(), strict=True):
            if node >= 0:
                path.append(names[node])
        nodes = np.where(nodes >= 0, parent[nodes], -1)
    return [path[::-1] for path in paths]


def _args(trace: Trace, rows: Rows) -> list[Mapping[str, Any]]:
    args_by_record: dict[int, Mapping[str, Any]] = {}
    records = trace.table.record[rows]
    if trace.source is not None:
        for record, body in trace.source.records(records):
            with suppress(ValueError, RecursionError):
                args_by_record[record] = decode_args(body)
    return [args_by_record.get(record, {}) for record in records.tolist()]


def _counter_columns(args: Sequence[Mapping[str, Any]]) -> dict[str, Array]:
    """Return a column for each arg that is numeric in some event, by first occurrence."""
    names = dict.fromkeys(name for args_of_event in args for name in args_of_event)
    columns = {}
    for name in names:
        numbers = [_to_number(args_of_event.get(name)) for args_of_event in args]
        measured = [number for number in numbers if number is not None]
        if not measured:
            continue
        is_int64 = all(isinstance(number, int) and abs(number) < _INT64_END for number in measured)
        missing, dtype = (-1, np.int64) if is_int64 else (np.nan, np.float64)
        values = [missing if number is None else number for number in numbers]
        columns[name] = np.array(values, dtype)
    return columns


def _to_number(value: Any) -> int | float | None:
    if isinstance(value, (int, float)):
        return value
    try:
        return float(value)
    except (TypeError, ValueError):
        return None


def _flops(counters: Mapping[str, Array]) -> Ints | None:
    """Return the floating-point operations of each kernel; None without such counters."""
    names = [name for name in CUDA_SASS_INSTRUCTION_COUNTER_FLOPS if name in counters]
    if not names:
        return None
    flops = np.zeros(len(counters[names[0]]), dtype=np.int64)
    for name in names:
        executed = np.maximum(np.nan_to_num(counters[name]), 0).astype(np.int64)
        flops += executed * int(CUDA_SASS_INSTRUCTION_COUNTER_FLOPS[name])
    return flops


@check_arguments
def kernel_breakdown(
    traces: TraceSet,
    *,
    include_memory: bool = True,
    selection: Selection | None = None,
    window: Window | None = None,
    ranks: Iterable[int] | None = None,
) -> pd.DataFrame:
    """Return the count and durations of every kernel, by rank.

    Durations of concurrent kernels add up. They are clipped to the window.

    Parameters
    ----------
    traces : TraceSet
    include_memory : bool, default True
        Whether to include copies and fills.
    selection, window, ranks : Selection, (start_ns, end_ns), iterable of int, optional
        The events to analyze, restricted by time and ranks. Default: all.

    Returns
    -------
    DataFrame
        One row per rank, kind and kernel, ordered by rank, most time first:

        - ``rank`` (int64)
        - ``kind`` (categorical): ``compute``, ``communication`` or ``memory``
        - ``name`` (str): as in the file
        - ``count, sum_ns`` (int64)
        - ``mean_ns`` (float); ``min_ns, max_ns`` (int64)
        - ``std_ns`` (float): standard deviation of a sample (ddof 1); 0 for a single kernel
    """
    chosen = rank_parts(traces, selection, window, ranks)
    kinds = DEVICE_WORK_KINDS if include_memory else DEVICE_WORK_KINDS[:2]
    order = {"rank": True, "sum_ns": False, "count": False, "kind": True}
    frame = _statistics(chosen, kinds)
    frame = frame.sort_values(list(order), ascending=list(order.values()))
    columns = ("rank", "kind", "name", "count", "sum_ns", "mean_ns", "min_ns", "max_ns", "std_ns")
    return _kernel_frame(chosen, kinds, frame, columns)


@check_arguments
def kernel_duration_by_rank(
    traces: TraceSet,
    *,
    include_memory: bool = True,
    top: Count | None = None,
    selection: Selection | None = None,
    window: Window | None = None,
    ranks: Iterable[int] | None = None,
) -> pd.DataFrame:
    """Return the durations of each kernel on each rank.

    Parameters
    ----------
    traces : TraceSet
    top : int, optional
        Return only this many kernels, the ones with the most time over all ranks.
    include_memory : bool, default True
        Whether to include copies and fills.
    selection, window, ranks : Selection, (start_ns, end_ns), iterable of int, optional
        The events to analyze, restricted by time and ranks. Default: all.

    Returns
    -------
    DataFrame
        One row per kernel and rank that ran it, kernels with the most time over all ranks first:

        - ``rank`` (int64); ``name`` (str); ``kind`` (categorical)
        - ``count`` (int64)
        - ``mean_ns`` (float); ``min_ns, max_ns, sum_ns`` (int64)
    """
    chosen = rank_parts(traces, selection, window, ranks)
    kinds = DEVICE_WORK_KINDS if include_memory else DEVICE_WORK_KINDS[:2]
    frame = _statistics(chosen, kinds)
    kernels = frame.groupby(["kind", "name"], sort=False)
    frame = frame.assign(spent_ns=kernels["sum_ns"].transform("sum"), kernel=kernels.ngroup())
    frame = frame.sort_values(["spent_ns", "kernel", "rank"], ascending=[False, True, True])
    if top is not None:
        frame = frame[frame.groupby("kernel", sort=False).ngroup() < top]
    columns = ("rank", "name", "kind", "count", "mean_ns", "min_ns", "max_ns", "sum_ns")
    return _kernel_frame(chosen, kinds, frame, columns)


def _kernel_frame(
    chosen: RankParts, kinds: Sequence[str], frame: pd.DataFrame, columns: Sequence[str]
) -> pd.DataFrame:
    frame = frame.assign(
        kind=categorical(frame["kind"].to_numpy(), KINDS), mean_ns=frame["sum_ns"] / frame["count"]
    ).reset_index(drop=True)
    return result_frame(
        {name: frame[name] for name in columns},
        matched=count_by_kind(chosen, kinds),
        note=prelaunched_note(chosen) if len(frame) else note_text("no_device_work"),
    )


def _statistics(chosen: RankParts, kinds: Sequence[str]) -> pd.DataFrame:
    blocks = list(map_ranks(chosen, _statistics_of_rank, kinds))
    schema = {
        **int64("rank kind"), "name": "str", **int64("count sum_ns min_ns max_ns"),
        "std_ns": "float64",
    }  # fmt: skip
    return pd.DataFrame(stack_blocks(blocks, schema))


def _statistics_of_rank(part: RankPart, kinds: Sequence[str]) -> dict[str, Any]:
    return statistics_by_name(part, part.rows_of_kinds(*kinds))[0]


Source = Literal["auto", "device", "host"]
_ANNOTATION = KINDS.index("annotation")


@check_arguments
def user_annotation_breakdown(
    traces: TraceSet,
    *,
    use_device: bool = True,
    selection: Selection | None = None,
    window: Window | None = None,
    ranks: Iterable[int] | None = None,
) -> pd.DataFrame:
    """Return the durations of the program's named ranges, by rank and name.

    Ranges come from ``record_function`` and from the profiler, such as ``ProfilerStep#3``. On the
    host, a range lasts as long as its code. On the device, it extends from the start of the first
    work launched in it to the end of the last. All nested ranges are included.

    Parameters
    ----------
    traces : TraceSet
    use_device : bool, default True
        Use the ranges on the device (``gpu_user_annotation``) instead of those on the host
        (``user_annotation``).
    selection, window, ranks : Selection, (start_ns, end_ns), iterable of int, optional
        The events to analyze, restricted by time and ranks. Default: all. Durations are clipped to
        the window; counts include all ranges that overlap it.

    Returns
    -------
    DataFrame
        One row per rank and name, sorted by both: ``rank`` (int64), ``name`` (str), ``count,
        sum_ns`` (int64), ``mean_ns`` (float64), ``min_ns, max_ns`` (int64), ``std_ns`` (float64;
        standard deviation of a sample, 0 for a single range).
    """
    chosen = rank_parts(traces, selection, window, ranks)
    results = list(map_ranks(chosen, _range_statistics, use_device))
    schema = {
        "rank": "int64", "name": "str", **int64("count sum_ns"), "mean_ns": "float64",
        **int64("min_ns max_ns"), "std_ns": "float64",
    }  # fmt: skip
    column = stack_blocks([columns_of_rank for columns_of_rank, _, _ in results], schema)
    device, host = sum(count for _, count, _ in results), sum(count for _, _, count in results)
    on_other_side = host if use_device else device
    note = ""
    if not len(column["rank"]):
        note = "no ranges on the device" if use_device else "no ranges on the host"
        if on_other_side:
            note += f"; use_device={not use_device} has some"
    matched = {"device_annotations": device, "host_annotations": host}
    return result_frame(column, matched=matched, note=note)


def _range_statistics(part: RankPart, use_device: bool) -> tuple[dict[str, Any], int, int]:  # noqa: FBT001
    """Return statistics by name for ranges on one side, and range counts on device and host."""
    device, host = (part.rows[_ranges(part.trace, side)[part.rows]] for side in ("device", "host"))
    columns, _ = statistics_by_name(part, device if use_device else host)
    columns["mean_ns"] = columns["sum_ns"] / columns["count"]
    order = np.argsort(columns["name"], kind="stable")
    return {name: values[order] for name, values in columns.items()}, len(device), len(host)


def _ranges(trace: Trace, side: str) -> Bools:
    """Return a mask of the program's named ranges on the ``host`` or the ``device``."""
    if side == "host":
        return category_mask(trace, "user_annotation")
    table = trace.table
    is_range: Bools = (table.kind == _ANNOTATION) & (table.stream >= 0)
    return is_range


@check_arguments
def kernels_by_annotation(
    traces: TraceSet,
    *,
    source: Source = "auto",
    by_name: bool = False,
    selection: Selection | None = None,
    window: Window | None = None,
    ranks: Iterable[int] | None = None,
) -> pd.DataFrame:
    """Return the device events, each with the named range that contains it.

    Parameters
    ----------
    traces : TraceSet
    source : {"auto", "device", "host"}
        ``"device"``: the shortest device range (``gpu_user_annotation``) that overlaps the event on
        its stream. ``"host"``: the innermost host range that encloses the event's launch call on
        its thread. Calls on the autograd thread belong to the ``## backward ##`` range or the step
        that runs at that time. ``"auto"``: ``"device"`` on ranks with device ranges, otherwise
        ``"host"``.
    by_name : bool, default False
        Return sums by range and name.
    selection, window, ranks : Selection, (start_ns, end_ns), iterable of int, optional
        The device events to return, restricted by time and ranks. Default: all. Times are clipped
        to the window. Ranges need not be selected.

    Returns
    -------
    DataFrame
        One row per event on a stream, including waits, ordered by rank and start: ``rank, id,
        start_ns, dur_ns`` (int64), ``name`` (categorical), ``stream`` (int32), ``annotation``
        (categorical, empty if none). With `by_name`, one row per rank, range and name, most time of
        a rank first: ``rank, annotation, name, count, sum_ns``. ``.attrs["source"]`` has the source
        by rank.
    """
    chosen = rank_parts(traces, selection, window, ranks)
    results = list(map_ranks(chosen, _annotated_kernels, source))
    schema = {
        **int64("rank id start_ns dur_ns"), "name": "category", "stream": "int32",
        "annotation": "category",
    }  # fmt: skip
    columns = stack_blocks([columns_of_rank for columns_of_rank, _, _ in results], schema)
    sources = dict(zip(chosen.ranks, (side for _, side, _ in results), strict=True))
    annotations = sum(ranges for _, _, ranges in results)
    inside = int((columns["annotation"].codes > 0).sum())
    events = len(columns["rank"])
    note = "" if events else "no device events"
    if events and not inside:
        note = "no device event lies in a range" if annotations else "no ranges"
    matched = {"device_events": events, "annotations": annotations, "annotated": inside}
    if by_name:
        keys = ["rank", "annotation", "name"]
        groups = pd.DataFrame(columns).groupby(keys, observed=True)["dur_ns"]
        sums = groups.agg(count="size", sum_ns="sum").reset_index()
        order = np.lexsort((sums["name"].cat.codes, -sums["sum_ns"], sums["rank"]))
        columns = dict(sums.iloc[order].reset_index(drop=True))
    return result_frame(columns, matched=matched, note=note, source=sources)


def _annotated_kernels(part: RankPart, source: str) -> tuple[dict[str, Any], str, int]:
    trace, table = part.trace, part.table
    if source == "auto":
        source = "device" if _ranges(trace, "device").any() else "host"
    rows = part.rows[(table.stream[part.rows] >= 0) & (part.kinds != _ANNOTATION)]
    if source == "device":
        range_rows = _device_ranges(trace, rows)
    else:
        stops = _ranges(trace, "host")
        parents = attach_backward_threads(trace, nested_parents(trace, stops))
        range_rows = nearest_ancestor(parents, stops)[trace.launch_of[rows]]
    start, end = part.clip_rows(rows)
    is_annotated = range_rows >= 0
    code, names = drop_unused_texts(table.name[range_rows[is_annotated]], table.names)
    annotation = np.zeros(len(rows), dtype=np.int32)
    annotation[is_annotated] = code + 1
    columns = {
        "rank": part.rank,
        "id": rows,
        "start_ns": start + trace.shift_ns,
        "dur_ns": end - start,
        "name": drop_unused_texts(table.name[rows], table.names),
        "stream": table.stream[rows],
        "annotation": (annotation, ["", *names]),
    }
    return columns, source, int(_ranges(trace, source).sum())


def _device_ranges(trace: Trace, rows: Rows) -> Ints:
    """Return the shortest range that overlaps each event on its stream; -1 if there is none."""
    table = trace.table
    ranges = np.flatnonzero(_ranges(trace, "device"))
    # Streams of different devices in a file may have the same number, but not the same process.
    number_of: dict[tuple[str, str], int] = {}
    stream_of_track = np.array(
        [number_of.setdefault((track.pid, track.tid), len(number_of)) for track in table.tracks],
        dtype=np.int64,
    )
    stream_of_range, stream = (stream_of_track[table.track[events]] for events in (ranges, rows))
    shortest = np.full(len(rows), -1, dtype=np.int64)
    start_ns, end_ns = table.start_ns, table.end_ns
    for number in np.unique(stream_of_range).tolist():
        on_stream = ranges[stream_of_range == number]
        positions = np.flatnonzero(stream == number)
        events = rows[positions]
        range_of_event = shortest_overlapping(
            start_ns[events], end_ns[events], start_ns[on_stream], end_ns[on_stream]
        )
        shortest[positions] = np.append(on_stream, -1)[range_of_event]
    return shortest


def shortest_overlapping(start: Ints, end: Ints, low: Ints, high: Ints) -> Ints:
    """Return the shortest range that overlaps each event, or -1; ties go to the later range.

    Ranges are half-open: an event that ends at the start of a range does not overlap it.
    """
    # Process the longest range first, so that shorter ones replace it.
    by_length = np.lexsort((np.arange(len(low)), low - high))
    low, high = low[by_length], high[by_length]
    shortest = np.full(len(start), -1, dtype=np.int64)
    remaining = np.arange(len(start))
    while len(remaining):
        # If events end in the order in which they start, those that overlap a range are contiguous.
        is_in_order = end[remaining] >= np.maximum.accumulate(end[remaining])
        chain, remaining = remaining[is_in_order], remaining[~is_in_order]
        first = np.searchsorted(end[chain], low, side="right")
        after = np.searchsorted(start[chain], high, side="left")
        for number in np.flatnonzero(after > first).tolist():
            shortest[chain[first[number] : after[number]]] = by_length[number]
    return shortest
