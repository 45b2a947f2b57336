"""Operator times on the host and on the device.

For example, ``aten::linear`` runs for 10 ns and calls ``aten::addmm``, which runs for 6 ns and
launches a kernel of 30 ns. Their total host times are 10 and 6 ns; without nested operators, they
are 4 and 6 ns. Their total device times are 30 and 30 ns; without nested operators, 0 and 30 ns.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from hta_widgets.analysis.frames import categorical, result_frame, stack_blocks
from hta_widgets.analysis.map_ranks import map_ranks
from hta_widgets.analysis.notes import outside_operators_note, prelaunched_note
from hta_widgets.analysis.scope import (
    DEVICE_WORK_KINDS,
    RankPart,
    Window,
    narrow_selection,
    rank_parts,
)
from hta_widgets.arguments import check_arguments
from hta_widgets.facts import note_text
from hta_widgets.taxonomy import KINDS
from hta_widgets.trace.arrays import (
    Bools,
    Ints,
    Rows,
    mask_of_rows,
    positions_of_rows,
    sum_by_group,
)
from hta_widgets.trace.columns import event_args
from hta_widgets.trace.conditions import OverlapIndex, overlaps_window, trace_index
from hta_widgets.trace.host_stack import (
    Forest,
    OperatorTree,
    add_enclosing_rows,
    category_mask,
    children_coverage,
    forest_of,
    nearest_ancestor,
    operator_tree,
)
from hta_widgets.trace.memo import memo
from hta_widgets.trace.trace import Trace
from hta_widgets.trace.traceset import Selection, TraceSet

_RankResult = tuple[dict[str, Any], dict[str, int]]

_MEASURES = ("count", "cpu_total_ns", "cpu_self_ns", "device_total_ns", "device_self_ns")
#: Columns for parts of ``device_total_ns``, by kind of device work.
_KIND_COLUMNS = {"communication": "communication_ns", "memory": "memory_ns"}


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
    """Return each operator's time on the host and on the device.

    Operators are host events of category ``cpu_op`` (``operator`` in older files), except
    ``ProfilerStep``. Runtime calls and Python functions between two operators are ignored. If
    events overlap without nesting, an operator's parent is the nearest that encloses it entirely.

    - *Total* host time extends from an operator's start to its end. Recursion counts once: an
      operator within another of the same row (of the same name, and shape or stack) adds nothing.
    - *Self* host time is the total without the time covered by direct children, so the self times
      of all operators of a thread add up to the time during which any of them runs.
    - *Device self* time is the time of device work (computing, communicating, copying) whose launch
      call has the operator as its innermost one, on the call's thread. Work launched in the
      backward pass belongs to the operators of its thread.
    - *Device total* time includes nested operators. Recursion counts once here as well.

    The window clips times. Device work in the window belongs to its operator even if the operator
    ran before the window; such an operator has ``count`` 0. Other selections select operators,
    whose device work is included whether or not it is selected.

    Parameters
    ----------
    traces : TraceSet
    group_by_shape : bool, default False
        Return one row per shape of the inputs, as recorded with ``record_shapes=True``.
    group_by_stack : bool, default False
        Return one row per call stack, as recorded with ``with_stack=True``: from the arg ``Call
        stack``, or from the Python functions that enclose the operator.
    annotations : bool, default False
        Treat ranges named by the program (``record_function``) as operators.
    selection, window, ranks : Selection, (start_ns, end_ns), iterable of int, optional
        The operators to work on, restricted by time and ranks. Default: all.

    Returns
    -------
    DataFrame
        One row per rank and operator, ordered by rank, then by device time: ``rank`` (int64),
        ``name`` (str), ``input_shapes`` and ``call_stack`` (str; innermost call first, separated by
        ``;``; empty if the file has none) if grouped by them, and in int64 ``count, cpu_total_ns,
        cpu_self_ns, device_total_ns, device_self_ns``.

        ``.attrs["device_ns"]`` is the time of all device work in the window, and
        ``.attrs["unattributed"]`` the part that is in no row: ``unlinked_ns`` (no launch call in
        the file), ``outside_operators_ns`` and ``not_selected_ns``. These and the device self times
        add up to ``device_ns``. The note states the share of the first two if it is at least 10 %.
    """
    chosen = narrow_selection(traces, selection, window, ranks)
    keys = ["name"] + ["input_shapes"] * group_by_shape + ["call_stack"] * group_by_stack
    frame = operators_with_kinds(chosen, keys, annotations=annotations)
    return frame.drop(columns=list(_KIND_COLUMNS.values()))


def operators_with_kinds(
    chosen: Selection, keys: list[str], *, annotations: bool = False
) -> pd.DataFrame:
    """Return the frame of `operators`, with communication and copy times as further columns."""
    traces = chosen.owner
    without_window = rank_parts(traces, replace(chosen, start_ns=None, end_ns=None))
    find = partial(_operators_by_window, keys=keys, annotations=annotations)
    results = list(map_ranks(without_window, find, (chosen.start_ns, chosen.end_ns)))
    measures = (*_MEASURES, *_KIND_COLUMNS.values())
    schema = {"rank": "int64", **dict.fromkeys(keys, "str"), **dict.fromkeys(measures, "int64")}
    frame = pd.DataFrame(stack_blocks([block for block, _ in results], schema))
    order = {"rank": True, "device_total_ns": False, "cpu_total_ns": False}
    order |= dict.fromkeys(keys, True)
    frame = frame.sort_values(list(order), ascending=list(order.values()), ignore_index=True)
    counts = sum((Counter(counts_of_rank) for _, counts_of_rank in results), Counter[str]())
    if len(frame):
        outside_ns = counts["unlinked_ns"] + counts["outside_operators_ns"]
        outside = outside_operators_note(outside_ns, counts["device_ns"])
        note = [prelaunched_note(rank_parts(traces, chosen)), outside]
    elif counts["all_operators"]:
        note = [note_text("no_operators_selected")]
    else:
        note = [note_text("no_operators")]
    unattributed = ("unlinked_ns", "outside_operators_ns", "not_selected_ns")
    return result_frame(
        {name: frame[name] for name in ("rank", *keys, *measures)},
        matched={key: counts[key] for key in ("operators", "device_work", "linked")},
        note=note,
        device_ns=counts["device_ns"],
        unattributed={key: counts[key] for key in unattributed},
    )


def _operators_by_window(
    part: RankPart, window_ns: tuple[int | None, int | None], *, keys: list[str], annotations: bool
) -> _RankResult:
    """Return `_operators_of_rank` for a window; the result for all times is cached."""
    if window_ns == (None, None):
        find = partial(_operators_of_rank, part, keys, annotations=annotations)
        return part.get_or_compute(("operators", *keys, annotations), find)
    return _operators_of_rank(part.with_window(*window_ns), keys, annotations=annotations)


def _operators_of_rank(part: RankPart, keys: list[str], *, annotations: bool) -> _RankResult:
    trace = part.trace
    tree = operator_tree(trace, annotations=True) if annotations else operator_tree(trace)
    work = trace_index(trace).rows_of_kinds_within(DEVICE_WORK_KINDS, part.low, part.high)
    work = work[part.table.stream[work] >= 0]
    window = _operators_in_window(part, tree, work, annotations=annotations)
    operator_rows = tree.rows[window.positions]
    selected = np.flatnonzero(part.contains(operator_rows))
    rows = operator_rows[selected]

    start, end = _clipped_edges(part, work)
    work_ns, has_call, has_operator = end - start, window.calls >= 0, window.innermost >= 0
    times = _times_of_operators(part, operator_rows, window, work, work_ns)

    texts = pd.DataFrame({key: _COLUMNS[key](trace, rows) for key in keys})
    group = np.asarray(texts.groupby(keys, sort=False, observed=True).ngroup(), dtype=np.int64)
    is_outermost = ~window.forest.is_nested_in_group(selected, group)
    first_ns = part.table.start_ns[rows]
    is_counted = overlaps_window(first_ns, first_ns + part.table.dur_ns[rows], part.low, part.high)
    measures = {name: values[selected] for name, values in times.items()}
    measures["count"] = is_counted.astype(np.int64)
    for name in ("cpu_total_ns", "device_total_ns", *_KIND_COLUMNS.values()):
        measures[name] *= is_outermost  # recursion counts once
    # Groups without events or device time in the window are excluded.
    sums = pd.DataFrame(measures).groupby(group).sum()
    is_shown = ((sums["count"] > 0) | (sums["device_total_ns"] > 0)).to_numpy()
    first = np.unique(group, return_index=True)[1][is_shown]
    columns = {
        "rank": part.rank,
        **{key: texts[key].iloc[first].to_numpy(dtype=object) for key in keys},
        **{name: sums[name].to_numpy()[is_shown] for name in measures},
    }
    counts = {
        "all_operators": len(tree.rows),
        "operators": int(is_counted.sum()),
        "device_work": len(work),
        "linked": int(has_call.sum()),
        "device_ns": int(work_ns.sum()),
        "unlinked_ns": int(work_ns[~has_call].sum()),
        "outside_operators_ns": int(work_ns[has_call & ~has_operator].sum()),
        "not_selected_ns": int(times["device_self_ns"].sum() - measures["device_self_ns"].sum()),
    }
    return columns, counts


def _times_of_operators(
    part: RankPart, rows: Rows, window: _WindowOperators, work: Rows, work_ns: Ints
) -> dict[str, Ints]:
    has_operator = window.innermost >= 0
    kinds = part.table.kind[work]

    def self_ns(is_counted: Bools) -> Ints:
        return sum_by_group(window.innermost[is_counted], work_ns[is_counted], len(rows))

    device_self_ns = self_ns(has_operator)
    total_ns_by_kind = {
        column: window.forest.subtree_sums(self_ns(has_operator & (kinds == KINDS.index(kind))))
        for kind, column in _KIND_COLUMNS.items()
    }
    start, end = _clipped_edges(part, rows)
    return {
        "cpu_total_ns": end - start,
        "cpu_self_ns": end - start - children_coverage(window.forest.parent, start, end),
        "device_total_ns": window.forest.subtree_sums(device_self_ns),
        "device_self_ns": device_self_ns,
        **total_ns_by_kind,
    }


def _input_shapes(trace: Trace, rows: Rows) -> list[str]:
    """Return the input shapes as JSON text; "" if the file has none."""
    args = event_args(trace, rows, ("Input Dims", "Input dims"))
    return [
        _text(new if old is None else old)
        for new, old in zip(args["Input Dims"], args["Input dims"], strict=True)
    ]


def call_stacks(trace: Trace, rows: Rows) -> Sequence[str]:
    """Return the call stacks, innermost call first; "" if the file has none."""
    stated = event_args(trace, rows, ("Call stack",))["Call stack"]
    if any(stated):
        return [_text(stack) for stack in stated]
    return _python_stacks(trace, rows)


def _text(value: Any) -> str:
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value, separators=(", ", ": "))


def _python_stacks(trace: Trace, rows: Rows) -> list[str]:
    """Return the names of the Python functions around each event, innermost first."""
    table = trace.table
    python = category_mask(trace, "python_function")
    functions = np.flatnonzero(python)
    number_of = positions_of_rows(functions, len(table))
    function_above = number_of[nearest_ancestor(table.parent, python)]
    forest = forest_of(function_above[table.parent[functions]])
    # Index into `texts` of each function's stack. The last item serves events without a stack.
    stack = np.zeros(len(functions) + 1, dtype=np.int64)
    texts = [""]
    # Functions with the same name and outer stack share a stack. Outermost functions come first.
    for members in forest.levels:
        outer_and_name = stack[forest.parent[members]] * len(table.names)
        outer_and_name += table.name[functions[members]]
        distinct, code = np.unique(outer_and_name, return_inverse=True)
        stack[members] = len(texts) + code
        outer_stacks, names = np.divmod(distinct, len(table.names))
        for outer, name in zip(outer_stacks.tolist(), names.tolist(), strict=True):
            texts.append(f"{table.names[name]};{texts[outer]}" if outer else table.names[name])
    return [texts[code] for code in stack[function_above[table.parent[rows]]].tolist()]


_COLUMNS: dict[str, Callable[[Trace, Rows], Any]] = {
    "name": lambda trace, rows: categorical(trace.table.name[rows], trace.table.names.values),
    "input_shapes": _input_shapes,
    "call_stack": call_stacks,
}


@dataclass(frozen=True, slots=True)
class _WindowOperators:
    """Operators with time in a window, and all operators that enclose them."""

    positions: Rows  # positions in the rank's operator tree
    forest: Forest  # of these operators
    innermost: Ints  # the innermost of them around each device event's launch; -1 if there is none
    calls: Ints  # each device event's launch call; -1 if unknown


def _operators_in_window(
    part: RankPart, tree: OperatorTree, work: Rows, *, annotations: bool
) -> _WindowOperators:
    """Return operators that overlap the window or launched `work`, and their ancestors."""
    trace = part.trace
    calls = trace.launch_of[work]
    innermost = tree.innermost[calls]
    if not part.has_window:
        return _WindowOperators(np.arange(len(tree.rows)), tree.forest, innermost, calls)

    def derive() -> OverlapIndex:
        start = trace.table.start_ns[tree.rows]
        return OverlapIndex(start, start + trace.table.dur_ns[tree.rows])

    overlapping = memo(trace, ("operators_overlapping", annotations), derive)
    within = overlapping.positions_within(part.low, part.high)
    is_included = mask_of_rows(within, len(tree.rows) + 1)
    is_included[innermost[innermost >= 0]] = True
    add_enclosing_rows(is_included, tree.forest.parent)
    positions = np.flatnonzero(is_included)
    # The last item serves position -1, which means no operator.
    renumbered = np.where(is_included, np.cumsum(is_included) - 1, -1)
    forest = forest_of(renumbered[tree.forest.parent[positions]])
    return _WindowOperators(positions, forest, renumbered[innermost], calls)


def _clipped_edges(part: RankPart, rows: Rows) -> tuple[Ints, Ints]:
    table = part.table
    start, end = table.start_ns[rows], table.start_ns[rows] + table.dur_ns[rows]
    return np.clip(start, part.low, part.high), np.clip(end, part.low, part.high)
