"""Time of operators, and the kernels that they launch, with delays and sequences."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeVar

import numpy as np
import pandas as pd

from hta_widgets.analysis.frames import (
    categorical,
    concat_arrays,
    drop_unused_texts,
    float64,
    int64,
    result_frame,
    stack_blocks,
)
from hta_widgets.analysis.map_ranks import map_ranks
from hta_widgets.analysis.notes import prelaunched_note
from hta_widgets.analysis.scope import (
    DEVICE_WORK_KINDS,
    RankPart,
    Window,
    count_by_kind,
    device_work_rows,
    narrow_selection,
    rank_parts,
)
from hta_widgets.arguments import check_arguments
from hta_widgets.facts import note_text
from hta_widgets.taxonomy import KINDS
from hta_widgets.trace.arrays import Ints, Rows, mask_of_rows, positions_of_rows, sum_by_group
from hta_widgets.trace.columns import event_args
from hta_widgets.trace.host_stack import (
    Forest,
    OperatorTree,
    attach_backward_threads,
    backward_parents,
    category_mask,
    children_coverage,
    forest_of,
    name_mask,
    nearest_ancestor,
    nested_parents,
    operator_tree,
)
from hta_widgets.trace.memo import memo
from hta_widgets.trace.selection import OverlapIndex, Selection, overlaps_window, trace_index
from hta_widgets.trace.trace import Trace
from hta_widgets.trace.traceset import TraceSet

_RankResult = tuple[dict[str, Any], dict[str, int]]

_MEASURES = ("count", "cpu_total_ns", "cpu_self_ns", "device_total_ns", "device_self_ns")


@check_arguments
def operators(
    traces: TraceSet,
    *,
    group_by_shape: bool = False,
    group_by_stack: bool = False,
    annotations: bool = False,
    selection: Selection | None = None,
    window: Window | None = None,
    ranks: Iterable[int] | None = None,
) -> pd.DataFrame:
    """Return the time of each operator on the host and on the device.

    Operators are host events of category ``cpu_op`` (``operator`` in older files), except
    ``ProfilerStep``. Runtime calls and Python functions between two operators are ignored. If
    events overlap without nesting, an operator's parent is the nearest that encloses it entirely.

    - *Total* host time is from an operator's start to its end. Recursion counts once: an operator
      within another of the same row (same name, and shape or stack) adds nothing.
    - *Self* host time is the total without the time covered by direct children, so the self times
      of all operators of a thread add up to the time in which any of them runs.
    - *Device self* time is that of the device work (computing, communicating, copying) whose
      launching call has the operator as its innermost, on the call's thread. Work launched by the
      backward pass belongs to the operators of its thread.
    - *Device total* time includes operators below; recursion counts once as well.

    The window cuts times. Device work in the window counts for its operator even if the operator
    ran before the window; such an operator has ``count`` 0. Other selections choose operators, and
    the device work of these counts whether it is selected or not.

    Parameters
    ----------
    traces : TraceSet
    group_by_shape : bool, default False
        One row per shape of the inputs, as the profiler wrote it with ``record_shapes=True``.
    group_by_stack : bool, default False
        One row per call stack, as the profiler wrote it with ``with_stack=True``: from the arg
        ``Call stack``, or from the Python functions that enclose the operator.
    annotations : bool, default False
        Treat ranges named by the program (``record_function``) as operators.
    selection : Selection, optional
        The operators to work on; all by default.
    window, ranks : (start_ns, end_ns), iterable of int, optional
        Narrow the selection in time and to ranks.

    Returns
    -------
    DataFrame
        One row per rank and operator, by rank, then device time: ``rank`` (int64), ``name`` (str),
        ``input_shapes`` and ``call_stack`` (str; innermost call first, separated by ``;``; empty
        if the file has none) if grouped by them, and in int64 ``count, cpu_total_ns, cpu_self_ns,
        device_total_ns, device_self_ns``.

        ``.attrs["device_ns"]`` is the time of all device work in the window, and
        ``.attrs["unattributed"]`` the part in no row: ``unlinked_ns`` (no launching call in the
        file), ``outside_operators_ns`` and ``not_selected_ns``. These and the device self times
        add up to ``device_ns``.
    """
    chosen = narrow_selection(traces, selection, window, ranks)
    traces = chosen.owner
    lasting = replace(chosen, start_ns=None, end_ns=None)
    keys = ["name"] + ["input_shapes"] * group_by_shape + ["call_stack"] * group_by_stack
    find = partial(_operators_by_window, keys=keys, annotations=annotations)
    found = list(map_ranks(rank_parts(traces, lasting), find, (chosen.start_ns, chosen.end_ns)))
    schema = {"rank": "int64", **dict.fromkeys(keys, "str"), **dict.fromkeys(_MEASURES, "int64")}
    frame = pd.DataFrame(stack_blocks([block for block, _ in found], schema))
    order = {"rank": True, "device_total_ns": False, "cpu_total_ns": False}
    order |= dict.fromkeys(keys, True)
    frame = frame.sort_values(list(order), ascending=list(order.values()), ignore_index=True)
    counts = Counter[str]()
    for _, of_rank in found:
        counts.update(of_rank)
    if len(frame):
        note = prelaunched_note(rank_parts(traces, chosen))
    elif counts["all_operators"]:
        note = note_text("no_operators_selected")
    else:
        note = note_text("no_operators")
    unattributed = ("unlinked_ns", "outside_operators_ns", "not_selected_ns")
    return result_frame(
        {name: frame[name] for name in ("rank", *keys, *_MEASURES)},
        matched={key: counts[key] for key in ("operators", "device_work", "linked")},
        note=note,
        device_ns=counts["device_ns"],
        unattributed={key: counts[key] for key in unattributed},
    )


def _operators_by_window(
    part: RankPart, window_ns: tuple[int | None, int | None], *, keys: list[str], annotations: bool
) -> _RankResult:
    if window_ns == (None, None):
        find = partial(_operators_of_rank, part, keys, annotations=annotations)
        return part.cached(("operators", *keys, annotations), find)
    return _operators_of_rank(part.with_window(*window_ns), keys, annotations=annotations)


def _operators_of_rank(part: RankPart, keys: list[str], *, annotations: bool) -> _RankResult:
    """Return the columns of one rank, and its counts and times for ``attrs``."""
    trace = part.trace
    tree = operator_tree(trace, annotations=True) if annotations else operator_tree(trace)
    work = trace_index(trace).rows_of_kinds_within(DEVICE_WORK_KINDS, part.low, part.high)
    work = work[part.table.stream[work] >= 0]
    there = _operators_in_window(part, tree, work, annotations=annotations)
    of_tree = tree.rows[there.positions]
    members = np.flatnonzero(part.contains(of_tree))
    rows = of_tree[members]

    start, end = _clipped_edges(part, work)
    time, linked, position = end - start, there.calls >= 0, there.innermost
    device = sum_by_group(position[position >= 0], time[position >= 0], len(of_tree))
    self_device = alone = below = device
    if len(members):
        start, end = _clipped_edges(part, of_tree)
        self_device = end - start
        alone = self_device - children_coverage(there.forest.parent, start, end)
        below = there.forest.subtree_sums(device)

    texts = pd.DataFrame({key: _COLUMNS[key](trace, rows) for key in keys})
    group = np.asarray(texts.groupby(keys, sort=False, observed=True).ngroup(), dtype=np.int64)
    outermost = ~there.forest.is_nested_in_group(members, group)
    first_ns = part.table.start_ns[rows]
    counted = overlaps_window(first_ns, first_ns + part.table.dur_ns[rows], part.low, part.high)
    measures = {
        "count": counted.astype(np.int64),
        "cpu_total_ns": self_device[members] * outermost,
        "cpu_self_ns": alone[members],
        "device_total_ns": below[members] * outermost,
        "device_self_ns": device[members],
    }
    by_group = pd.DataFrame(measures).groupby(group).sum()
    shown = ((by_group["count"] > 0) | (by_group["device_total_ns"] > 0)).to_numpy()
    first = np.unique(group, return_index=True)[1][shown]
    columns = {
        "rank": part.rank,
        **{key: texts[key].iloc[first].to_numpy(dtype=object) for key in keys},
        **{key: by_group[key].to_numpy()[shown] for key in measures},
    }
    counts = {
        "all_operators": len(tree.rows),
        "operators": int(counted.sum()),
        "device_work": len(work),
        "linked": int(linked.sum()),
        "device_ns": int(time.sum()),
        "unlinked_ns": int(time[~linked].sum()),
        "outside_operators_ns": int(time[linked & (position < 0)].sum()),
        "not_selected_ns": int(device.sum() - device[members].sum()),
    }
    return columns, counts


def _input_shapes(trace: Trace, rows: Rows) -> list[str]:
    """Return the shapes of the inputs as JSON text, empty if the file has none."""
    args = event_args(trace, rows, ("Input Dims", "Input dims"))
    return [
        _text(new if old is None else old)
        for new, old in zip(args["Input Dims"], args["Input dims"], strict=True)
    ]


def _call_stacks(trace: Trace, rows: Rows) -> Sequence[str]:
    """Return the call stacks, the innermost call first, empty if the file has none."""
    stated = event_args(trace, rows, ("Call stack",))["Call stack"]
    if any(stated):
        return [_text(stack) for stack in stated]
    return _python_stacks(trace, rows)


def _text(value: Any) -> str:
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value, separators=(", ", ": "))


def _python_stacks(trace: Trace, rows: Rows) -> list[str]:
    """Return the names of the Python functions that enclose the events."""
    table = trace.table
    python = category_mask(trace, "python_function")
    functions = np.flatnonzero(python)
    above = positions_of_rows(functions, len(table))[nearest_ancestor(table.parent, python)]
    forest = forest_of(above[table.parent[functions]])
    stack = np.zeros(len(functions) + 1, dtype=np.int64)  # the last is for events without function
    texts = [""]
    # Functions with the same name and outer stack share a stack; the outermost come first.
    for members in forest.levels:
        key = stack[forest.parent[members]] * len(table.names) + table.name[functions[members]]
        pairs, code = np.unique(key, return_inverse=True)
        stack[members] = len(texts) + code
        outer_stacks, names = np.divmod(pairs, len(table.names))
        for outer, name in zip(outer_stacks.tolist(), names.tolist(), strict=True):
            texts.append(f"{table.names[name]};{texts[outer]}" if outer else table.names[name])
    return [texts[code] for code in stack[above[table.parent[rows]]].tolist()]


_COLUMNS: dict[str, Callable[[Trace, Rows], Any]] = {
    "name": lambda trace, rows: categorical(trace.table.name[rows], trace.table.names.values),
    "input_shapes": _input_shapes,
    "call_stack": _call_stacks,
}


@dataclass(frozen=True, slots=True)
class _WindowOperators:
    """The operators with time in a window, and the operators that enclose them."""

    positions: Rows
    forest: Forest
    innermost: Ints
    calls: Ints


def _operators_in_window(
    part: RankPart, tree: OperatorTree, work: Rows, *, annotations: bool
) -> _WindowOperators:
    trace = part.trace
    calls = trace.launch_of[work]
    innermost = tree.innermost[calls]
    if part.low is None and part.high is None:
        return _WindowOperators(np.arange(len(tree.rows)), tree.forest, innermost, calls)

    def derive() -> OverlapIndex:
        start = trace.table.start_ns[tree.rows]
        return OverlapIndex(start, start + trace.table.dur_ns[tree.rows])

    overlapping = memo(trace, ("operators_overlapping", annotations), derive)
    inside = np.zeros(len(tree.rows), dtype=bool)
    operator_rows = np.concatenate(
        (overlapping.positions_within(part.low, part.high), innermost[innermost >= 0])
    )
    while len(operator_rows):
        operator_rows = operator_rows[~inside[operator_rows]]
        inside[operator_rows] = True
        above = tree.forest.parent[operator_rows]
        operator_rows = above[above >= 0]
    positions = np.flatnonzero(inside)
    number = np.cumsum(inside) - 1
    parent = tree.forest.parent[positions]
    parent = np.where(parent >= 0, number[parent], -1)
    innermost = np.where(innermost >= 0, number[innermost], -1) if len(number) else innermost
    return _WindowOperators(positions, forest_of(parent), innermost, calls)


def _clipped_edges(part: RankPart, rows: Rows) -> tuple[Ints, Ints]:
    """Return starts and ends, both limited to the window."""
    table = part.table
    start, end = table.start_ns[rows], table.start_ns[rows] + table.dur_ns[rows]
    return np.clip(start, part.low, part.high), np.clip(end, part.low, part.high)


Text = TypeVar("Text", str, tuple[str, str])

#: Calls that copy; HTA excludes them from the delays.
_COPIES = re.compile(r"mem(cpy|set)", re.IGNORECASE)

_ANNOTATION = KINDS.index("annotation")


@check_arguments
def operator_kernels(
    traces: TraceSet,
    operator_name: str | None = None,
    *,
    exact: bool = False,
    selection: Selection | None = None,
    window: Window | None = None,
    ranks: Iterable[int] | None = None,
) -> pd.DataFrame:
    """Return the device work that operators launch, event by event.

    An event belongs to the innermost of the operators that encloses its launching call on the
    call's thread. One call may launch several events (a CUDA graph).

    Parameters
    ----------
    traces : TraceSet
    operator_name : str, optional
        Text in the operators' names, as in `frequent_kernel_sequences`; by default all operators
        count. With a name, every matching host event counts, including ranges named by the
        program.
    exact : bool, default False
        Match the whole name.
    selection : Selection, optional
        The device work; all by default.
    window : (start_ns, end_ns), optional
        Narrows the selection in time. Times are clipped to it, delays are not.
    ranks : iterable of int, optional
        Narrows the selection to these ranks.

    Returns
    -------
    DataFrame
        One row per device event (computing, communicating, copying), by rank and start:
        ``rank, id, name, kind, stream, start_ns, dur_ns, operator, operator_id``; ``launch_id``,
        the id of the launching call; ``operator_delay_ns``, from the operator's start to the
        call's; ``runtime_delay_ns``, from the call's start to the event's. ``name``, ``kind`` and
        ``operator`` are categorical; times and ids are int64.
    """
    chosen = rank_parts(traces, selection, window, ranks)
    found = list(map_ranks(chosen, partial(_kernels_of, exact=exact), operator_name))
    schema = {
        **int64("rank id"), "name": "category", "kind": "int64", "stream": "int32",
        **int64("start_ns dur_ns"), "operator": "category",
        **int64("operator_id launch_id operator_delay_ns runtime_delay_ns"),
    }  # fmt: skip
    whole = stack_blocks(
        found,
        schema,
    )
    whole["kind"] = categorical(whole["kind"], KINDS)
    wanted = "any operator" if operator_name is None else f"an operator named {operator_name!r}"
    return result_frame(
        whole,
        matched={**count_by_kind(chosen), "below_operator": len(whole["rank"])},
        note=prelaunched_note(chosen)
        if len(whole["rank"])
        else f"no device work was launched by {wanted}",
    )


def _kernels_of(part: RankPart, operator_name: str | None, *, exact: bool) -> dict[str, Any]:
    """Return the columns of one rank."""
    trace, table = part.trace, part.table
    work = part.device_work_rows()
    call = trace.launch_of[work]
    if operator_name is None:
        tree = operator_tree(trace)
        operator = np.append(tree.rows, -1)[tree.innermost[call]]
    else:
        stops = name_mask(
            trace, lambda name: name == operator_name if exact else operator_name in name
        )
        operator = nearest_ancestor(nested_parents(trace, stops), stops)[call]
    below = operator >= 0
    work, call, operator = work[below], call[below], operator[below]
    start, end = part.clip_rows(work)
    return {
        "rank": part.rank,
        "id": work,
        "name": drop_unused_texts(table.name[work], table.names),
        "kind": table.kind[work],
        "stream": table.stream[work],
        "start_ns": start + trace.shift_ns,
        "dur_ns": end - start,
        "operator": drop_unused_texts(table.name[operator], table.names),
        "operator_id": operator,
        "launch_id": call,
        "operator_delay_ns": table.start_ns[call] - table.start_ns[operator],
        "runtime_delay_ns": table.start_ns[work] - table.start_ns[call],
    }


@check_arguments
def operator_launch_delays(
    traces: TraceSet,
    *,
    prefix: str = "aten::",
    selection: Selection | None = None,
    window: Window | None = None,
    ranks: Iterable[int] | None = None,
) -> pd.DataFrame:
    """Return the sequences of kernels that operators launch, and the delays of their launches.

    A launch belongs to the innermost operator with `prefix` that encloses it on its thread. Copies
    by ``…Memcpy…`` and ``…Memset…`` calls are left out. The sequence of an occurrence consists of
    the names of all kernels that it launched; delays are measured for its first kernel.

    Parameters
    ----------
    traces : TraceSet
    prefix : str, default "aten::"
        Start of the operators' names.
    selection : Selection, optional
        The operators to work on; all by default. All work that they launched counts.
    window : (start_ns, end_ns), optional
        Narrows the selection in time: to operators that overlap the window. Delays are not cut.
    ranks : iterable of int, optional
        Narrows the selection to these ranks.

    Returns
    -------
    DataFrame
        One row per rank, operator and sequence, the most frequent of a rank first: ``rank``
        (int64); ``operator, kernel_sequence`` (str; ``" -> "`` separates kernels);
        ``occurrence_count`` (int64); ``avg_operator_launch_delay_ns`` (float64), the mean time from
        the start of the operator to the start of its first launching call;
        ``avg_runtime_delay_ns`` (float64), from the start of that call to that of the kernel.

    Notes
    -----
    The definition is that of HTA's ``get_aten_op_kernels_and_delay``, but HTA uses the operator
    that started last on any thread, covers CUDA's calls only, and fails if a call launched several
    kernels.
    """
    results = list(map_ranks(rank_parts(traces, selection, window, ranks), _delays_of, prefix))
    schema = {
        "rank": "int64", "operator": "str", "kernel_sequence": "str", "occurrence_count": "int64",
        **float64("avg_operator_launch_delay_ns avg_runtime_delay_ns"),
    }  # fmt: skip
    columns = stack_blocks([columns_of_rank for columns_of_rank, _, _ in results], schema)
    return result_frame(
        columns,
        matched={
            "operators": sum(operators for _, operators, _ in results),
            "kernels": sum(kernels for _, _, kernels in results),
        },
        note=""
        if len(columns["rank"])
        else f"no kernel was launched by an operator named {prefix}…",
    )


def _delays_of(part: RankPart, prefix: str) -> tuple[dict[str, Any], int, int]:
    """Return the columns of one rank, and its numbers of operators and kernels."""
    trace, table = part.trace, part.table
    operators = name_mask(trace, lambda name: name.startswith(prefix))
    members = mask_of_rows(part.rows[operators[part.rows]], len(table) + 1)

    call = trace.launch_of
    work = device_work_rows(trace)
    work = work[call[work] >= 0]
    copies = name_mask(trace, lambda name: _COPIES.search(name) is not None)
    work = work[~copies[call[work]]]
    operator = nearest_ancestor(nested_parents(trace, operators), operators)[call[work]]
    below = members[operator]
    work, operator = work[below], operator[below]
    order = np.lexsort((work, call[work], operator))
    work, operator = work[order], operator[order]

    first = np.flatnonzero(np.diff(operator, prepend=-1))
    sizes = np.diff(first, append=len(work))
    texts, group = _group_sequences(
        part, operator[first], work, sizes, lambda name, kernels: (name, " -> ".join(kernels))
    )
    call, start = call[work[first]], table.start_ns
    count = np.bincount(group, minlength=len(texts))
    columns = {
        "rank": part.rank,
        "operator": [operator for operator, _ in texts],
        "kernel_sequence": [sequence for _, sequence in texts],
        "occurrence_count": count,
        "avg_operator_launch_delay_ns": sum_by_group(
            group, start[call] - start[operator[first]], len(texts)
        )
        / count,
        "avg_runtime_delay_ns": sum_by_group(group, start[work[first]] - start[call], len(texts))
        / count,
    }
    return columns, int(members.sum()), len(work)


def _group_sequences(
    part: RankPart,
    operators: Ints,
    work: Rows,
    sizes: Ints,
    write: Callable[[str, list[str]], Text],
) -> tuple[list[Text], Ints]:
    """Group operators by name and the names of their work; return texts and each operator's group.

    `work` holds `sizes` events per operator. Groups are numbered by frequency, then by text.
    """
    names, name = part.table.names, part.table.name
    codes = np.ascontiguousarray(name[work], dtype=np.int32).tobytes()
    ends: list[int] = (np.cumsum(sizes) * 4).tolist()
    known: dict[tuple[int, bytes], int] = {}
    keys = zip(name[operators].tolist(), [0, *ends], ends, strict=False)
    sequence_codes = [
        known.setdefault((operator_name_code, codes[low:high]), len(known))
        for operator_name_code, low, high in keys
    ]
    group = np.array(sequence_codes, dtype=np.int64)
    texts = [
        write(
            names[operator_name_code],
            [names[code] for code in np.frombuffer(sequence, np.int32).tolist()],
        )
        for operator_name_code, sequence in known
    ]
    count = np.bincount(group, minlength=len(texts)).tolist()
    order = sorted(range(len(texts)), key=lambda row: (-count[row], texts[row]))
    return [texts[row] for row in order], np.argsort(order)[group]


@check_arguments
def frequent_kernel_sequences(
    traces: TraceSet,
    operator_name: str,
    *,
    min_pattern_len: int = 3,
    top_k: int | None = None,
    every_depth: bool = False,
    selection: Selection | None = None,
    window: Window | None = None,
    ranks: Iterable[int] | None = None,
) -> pd.DataFrame:
    """Return the sequences of device work that occurrences of an operator launch, by frequency.

    Occurrences are the host events whose names contain `operator_name`, at their smallest depth on
    each rank, with at least `min_pattern_len` device events below. The depth counts all enclosing
    host events; events of the autograd thread lie below the ``## backward ##`` range or the step
    that runs at that time. A pattern is the name of the occurrence and those of its device events
    by start: kernels, copies and waits, on any stream.

    Parameters
    ----------
    traces : TraceSet
    operator_name : str
        Text in the names, for example ``"aten::linear"``.
    min_pattern_len : int, default 3
        Minimum number of device events.
    top_k : int, optional
        Maximum number of patterns per rank; all by default.
    every_depth : bool, default False
        Count occurrences at every depth unless they are below another one. HTA counts those at
        the smallest depth, and so misses an operator that a model calls at several depths.
    selection : Selection, optional
        The operators to work on; all by default. All work that they launched counts.
    window : (start_ns, end_ns), optional
        Narrows the selection in time: to operators that overlap the window. Times are cut,
        patterns are not.
    ranks : iterable of int, optional
        Narrows the selection to these ranks.

    Returns
    -------
    DataFrame
        One row per rank and pattern, by rank, the most frequent first, then by pattern: ``rank``
        (int64); ``pattern`` (str; ``|`` separates names); ``count`` (int64); ``kernel_ns`` (int64),
        the sum of the device events' durations; ``operator_ns`` (int64), that of the occurrences.

    See Also
    --------
    hta_widgets.export.overlays.export_patterns : Marks the occurrences in the trace.
    """
    find = partial(find_patterns, top_k=top_k, every_depth=every_depth)
    chosen = rank_parts(traces, selection, window, ranks)
    patterns_of_ranks = list(map_ranks(chosen, find, operator_name, min_pattern_len))
    candidates = sum(patterns.candidates for patterns in patterns_of_ranks)
    note = ""
    if not candidates:
        note = f"no host event's name contains {operator_name!r}"
    elif not any(patterns.texts for patterns in patterns_of_ranks):
        note = f"no {operator_name!r} launched {min_pattern_len} or more device events"
    return result_frame(
        {
            "rank": concat_arrays(
                [np.full(len(patterns.texts), patterns.rank) for patterns in patterns_of_ranks]
            ),
            "pattern": pd.array(
                [text for patterns in patterns_of_ranks for text in patterns.texts], dtype="str"
            ),
            "count": concat_arrays([patterns.count for patterns in patterns_of_ranks]),
            "kernel_ns": concat_arrays([patterns.kernel_ns for patterns in patterns_of_ranks]),
            "operator_ns": concat_arrays([patterns.operator_ns for patterns in patterns_of_ranks]),
        },
        matched={
            "operators": candidates,
            "occurrences": sum(len(patterns.occurrences) for patterns in patterns_of_ranks),
            "kernels": sum(patterns.kernels for patterns in patterns_of_ranks),
        },
        note=note,
    )


@dataclass(frozen=True, eq=False)
class SequencePatterns:
    """The patterns of one rank, the most frequent first."""

    rank: int
    texts: list[str]
    count: Ints
    kernel_ns: Ints
    operator_ns: Ints
    occurrences: Rows
    pattern: Ints
    below: Ints
    candidates: int
    kernels: int


def find_patterns(
    part: RankPart,
    operator_name: str,
    min_pattern_len: int,
    *,
    top_k: int | None = None,
    every_depth: bool = False,
) -> SequencePatterns:
    """Return the patterns of one rank; parameters as in `frequent_kernel_sequences`."""
    trace, table = part.trace, part.table
    named = name_mask(trace, lambda name: bool(operator_name) and operator_name in name)
    candidates = part.rows[named[part.rows]]
    parent = backward_parents(trace)
    roots = _roots(parent, candidates, every_depth=every_depth)

    call = trace.launch_of
    device = np.flatnonzero((table.stream >= 0) & (table.kind != _ANNOTATION) & (call >= 0))
    below, launched = _root_of_events(trace, roots, device, call)
    size = np.bincount(launched[launched >= 0], minlength=len(roots))
    kept = size >= max(min_pattern_len, 0)
    occurrences, size = roots[kept], size[kept]
    number = np.append(np.where(kept, np.cumsum(kept) - 1, -1), -1)
    below, launched = number[below], number[launched]

    work = device[launched >= 0]
    launched = launched[launched >= 0]
    work = work[np.argsort(launched, kind="stable")]
    texts, group = _group_sequences(
        part, occurrences, work, size, lambda name, kernels: "|".join([name, *kernels])
    )
    kernel_ns = sum_by_group(
        np.repeat(group, size), np.maximum(part.durations(work), 0), len(texts)
    )
    operator_ns = sum_by_group(group, part.durations(occurrences), len(texts))
    return SequencePatterns(
        part.rank,
        texts[:top_k],
        np.bincount(group, minlength=len(texts))[:top_k],
        kernel_ns[:top_k],
        operator_ns[:top_k],
        occurrences,
        np.where(group < len(texts[:top_k]), group, -1),
        below,
        len(candidates),
        len(work),
    )


def _roots(parent: Ints, candidates: Rows, *, every_depth: bool) -> Rows:
    """Return the candidates that count: those at the smallest depth, or all outermost ones."""
    if not len(candidates):
        return candidates
    if every_depth:
        above = nearest_ancestor(parent, mask_of_rows(candidates, len(parent)))[parent[candidates]]
        return candidates[above < 0]
    depth = forest_of(parent).depth[candidates]
    least: Rows = candidates[depth == depth.min()]
    return least


def _root_of_events(trace: Trace, roots: Rows, device: Rows, call: Ints) -> tuple[Ints, Ints]:
    """Return the root above each event and above each of `device`, as positions, -1 for none."""
    stops = mask_of_rows(roots, len(trace))
    above = nearest_ancestor(attach_backward_threads(trace, nested_parents(trace, stops)), stops)
    up = positions_of_rows(roots, len(trace))[above]
    launched = up[call[device]]
    below = up[:-1].copy()
    below[trace.table.stream >= 0] = -1
    below[device] = launched
    return below, launched
