"""Operators on host and device."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Unpack

import numpy as np
import numpy.typing as npt
import pandas as pd

from hta_widgets.analysis.host_stack import (
    Forest,
    OperatorTree,
    backward_parents,
    covered_by_children,
    forest_of,
    nearest,
    of_category,
    operator_tree,
)
from hta_widgets.analysis.scope import (
    BUSY,
    Part,
    Scope,
    joined,
    narrowed,
    over_ranks,
    parts,
    prelaunched_note,
    result,
    scoped,
)
from hta_widgets.taxonomy import KINDS
from hta_widgets.trace.event_args import event_args
from hta_widgets.trace.grouping import dense
from hta_widgets.trace.memo import memo
from hta_widgets.trace.selection import Overlapping, index_of
from hta_widgets.trace.trace import Trace
from hta_widgets.trace.traceset import TraceSet

_ANNOTATION = KINDS.index("annotation")
_LATEST = np.iinfo(np.int64).max
Ints = npt.NDArray[np.int64]
Rows = npt.NDArray[np.intp]
_MEASURES = ("count", "cpu_total_ns", "cpu_self_ns", "device_total_ns", "device_self_ns")


def call_tree(trace: Trace) -> pd.DataFrame:
    """Return where each event stands among what calls it and what it launches.

    Host events lie below what encloses them on their thread, and those of the autograd thread
    below the ``## backward ##`` range or the step that runs meanwhile. Device events lie below
    the call that launched them, waits included.
    """
    table = trace.table
    call = trace.launch_of
    on_device = table.stream >= 0
    parent = backward_parents(trace).copy()
    parent[on_device] = -1
    work = np.flatnonzero(on_device & (table.kind != _ANNOTATION) & (call >= 0))
    parent[work] = call[work]
    forest = forest_of(parent)

    is_work = np.zeros(len(table), dtype=np.int64)
    is_work[work] = 1
    height = np.where(on_device, 0, 1).astype(np.int64)
    first = np.where(is_work, table.start_ns, _LATEST)
    last = np.where(is_work, table.end_ns, -1)
    for members in reversed(forest.levels[1:]):
        above = parent[members]
        np.maximum.at(height, above, height[members] + 1)
        np.minimum.at(first, above, first[members])
        np.maximum.at(last, above, last[members])
    kernels = forest.sums(is_work)
    has_work = kernels > 0
    shift = trace.shift_ns
    depth = np.where(on_device & (is_work == 0), -1, forest.depth)
    return pd.DataFrame(
        {
            "parent": parent,
            "depth": depth,
            "height": height,
            "num_kernels": kernels,
            "kernel_dur_sum_ns": forest.sums(table.dur_ns * is_work),
            "kernel_span_ns": np.where(has_work, last - first, 0),
            "first_kernel_start_ns": np.where(has_work, first + shift, -1),
            "last_kernel_end_ns": np.where(has_work, last + shift, -1),
        },
        index=pd.RangeIndex(len(table), name="id"),
    )


@dataclass(frozen=True, slots=True)
class Column:
    """Strings as codes into `values`."""

    code: Ints
    values: Sequence[str]


@dataclass(frozen=True, slots=True)
class Groups:
    """Events that agree in some columns; all groups occur."""

    code: Ints
    columns: list[Column]

    @classmethod
    def of(cls, columns: Sequence[Column]) -> Groups:
        """Return the groups of events with these columns."""
        code, known = dense(columns[0].code, len(columns[0].values))
        chosen = [known]
        for column in columns[1:]:
            key = code.astype(np.int64) * max(len(column.values), 1) + column.code
            pairs, code = np.unique(key, return_inverse=True)
            before, value = np.divmod(pairs, max(len(column.values), 1))
            chosen = [values[before] for values in chosen] + [value]
        return cls(
            code.astype(np.int64),
            [Column(codes, column.values) for codes, column in zip(chosen, columns, strict=True)],
        )

    def sums(self, values: Ints) -> Ints:
        """Add up the events' values by group, in integers."""
        total = np.zeros(len(self.columns[0].code), dtype=np.int64)
        np.add.at(total, self.code, values)
        return total

    def texts(self, groups: Rows) -> list[list[str]]:
        """Return the strings of some groups, column by column."""
        return [
            [column.values[code] for code in column.code[groups].tolist()]
            for column in self.columns
        ]


def names_of(trace: Trace, rows: Rows) -> Column:
    """Return the events' names."""
    table = trace.table
    return Column(table.name[rows].astype(np.int64), table.names.values)


def input_shapes(trace: Trace, rows: Rows) -> Column:
    """Return the shapes of the inputs as JSON text, empty where the file has none."""
    args = event_args(trace, rows, ("Input Dims", "Input dims"))
    texts = [
        _text(new if old is None else old)
        for new, old in zip(args["Input Dims"], args["Input dims"], strict=True)
    ]
    return _coded(texts)


def call_stacks(trace: Trace, rows: Rows) -> Column:
    """Return the call stacks, the innermost call first, empty where the file has none."""
    stated = event_args(trace, rows, ("Call stack",))["Call stack"]
    if any(stated):
        return _coded([_text(stack) for stack in stated])
    return _python_stacks(trace, rows)


def _python_stacks(trace: Trace, rows: Rows) -> Column:
    """Return the names of the Python functions that enclose the events."""
    table = trace.table
    python = of_category(trace, "python_function")
    functions = np.flatnonzero(python)
    position = np.full(len(table) + 1, -1, dtype=np.int64)
    position[functions] = np.arange(len(functions))
    above = position[nearest(table.parent, python)]
    forest = forest_of(above[table.parent[functions]])
    stack = np.zeros(len(functions) + 1, dtype=np.int64)  # the last is that of no function
    texts = [""]
    # Functions with one name under one stack share a stack; from the outermost inwards.
    for members in forest.levels:
        key = stack[forest.parent[members]] * len(table.names) + table.name[functions[members]]
        pairs, code = np.unique(key, return_inverse=True)
        stack[members] = len(texts) + code
        outer_stacks, names = np.divmod(pairs, len(table.names))
        for outer, name in zip(outer_stacks.tolist(), names.tolist(), strict=True):
            texts.append(f"{table.names[name]};{texts[outer]}" if outer else table.names[name])
    return Column(stack[above[table.parent[rows]]], texts)


def _text(value: Any) -> str:
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value, separators=(", ", ": "))


def _coded(texts: Sequence[str]) -> Column:
    codes: dict[str, int] = {}
    code = np.array([codes.setdefault(text, len(codes)) for text in texts], dtype=np.int64)
    return Column(code, list(codes))


_COLUMNS = {"name": names_of, "input_shapes": input_shapes, "call_stack": call_stacks}


@scoped
def operators(
    traces: TraceSet,
    *,
    group_by_shape: bool = False,
    group_by_stack: bool = False,
    annotations: bool = False,
    **scope: Unpack[Scope],
) -> pd.DataFrame:
    """Return what each operator costs on the host and on the device.

    Operators are the host's events of category ``cpu_op`` (``operator`` in older files): those of
    PyTorch, of the autograd engine and of extensions, except ``ProfilerStep``. Calls of the runtime
    and Python functions are none; what lies between two operators does not part them. An event
    that overlaps others without nesting has what encloses it as a whole, or nothing, above it.

    - *Total* host time is from an operator's start to its end. An operator within one of the same
      row (the same name, or shape, or stack) adds nothing to it: recursion counts once.
    - *Self* host time is the total less what the operators directly below cover, so that the self
      times of all operators of a thread add up to the time that any of them runs.
    - *Device self* time is the time of the device work (computing, communicating, copying)
      whose launching call the operator is the innermost to enclose, on the thread of the call and
      on any stream. Work launched by the backward pass belongs to the operators of its thread.
    - *Device total* time also holds that of operators below; recursion counts once as well.

    The window cuts times: device work counts where it runs within the window, for its operator
    even if that ran before; such an operator has ``count`` 0. The rest of the selection chooses
    operators; device work is theirs whether it is selected or not.

    Parameters
    ----------
    group_by_shape : bool, default False
        One row per shape of the inputs, as the profiler wrote it with ``record_shapes=True``.
    group_by_stack : bool, default False
        One row per call stack, as the profiler wrote it with ``with_stack=True``: from the arg
        ``Call stack``, or from the Python functions that enclose the operator.
    annotations : bool, default False
        Take ranges that the program names (``record_function``) for operators as well.
    selection : Selection, optional
        The operators to work on; all by default.

    Returns
    -------
    DataFrame
        One row per rank and operator, by rank, then device time: ``rank`` (int64), ``name`` (str),
        ``input_shapes`` and ``call_stack`` (str; innermost call first, ``;`` between; empty where
        the file has none) if grouped by them, and in int64 ``count, cpu_total_ns, cpu_self_ns,
        device_total_ns, device_self_ns``.

        ``.attrs["device_ns"]`` is all device work within the window, and
        ``.attrs["unattributed"]`` what of it is in no row: ``unlinked_ns`` (no launching call
        in the file), ``outside_operators_ns`` and ``not_selected_ns``. With them the device
        self times add up to ``device_ns``.

    Notes
    -----
    The operator view of TensorBoard's profiler plugin has these columns. HTA has none of this.
    """
    chosen = narrowed(traces, **scope)
    lasting = replace(chosen, start_ns=None, end_ns=None)
    keys = ["name"] + ["input_shapes"] * group_by_shape + ["call_stack"] * group_by_stack
    window_ns = chosen.start_ns, chosen.end_ns
    find = partial(_within_window, keys=keys, annotations=annotations)
    found = list(over_ranks(parts(traces, lasting), find, window_ns))
    return _frame(found, keys, prelaunched_note(parts(traces, chosen)))


def _within_window(
    part: Part, window_ns: tuple[int | None, int | None], *, keys: list[str], annotations: bool
) -> _Found:
    if window_ns == (None, None):
        find = partial(_of_rank, part, keys, annotations=annotations)
        return part.once(("operators", *keys, annotations), find)
    low, high = (None if edge is None else edge - part.trace.shift_ns for edge in window_ns)
    cut = replace(part, low=low, high=high, plain=False)
    return _of_rank(cut, keys, annotations=annotations)


@dataclass(slots=True)
class _Found:
    """Sums of one rank; the texts of each row are by column."""

    rank: int
    texts: dict[str, list[str]]
    measures: dict[str, Ints]
    operators: int
    members: int
    work: int
    linked: int
    device_ns: int
    unattributed: dict[str, int]


def _of_rank(part: Part, keys: list[str], *, annotations: bool) -> _Found:
    trace = part.trace
    tree = operator_tree(trace, annotations=annotations)
    work = _work(part)
    there = _involved(part, tree, work, annotations=annotations)
    of_tree = tree.rows[there.positions]
    members = np.flatnonzero(part.has(of_tree))
    rows = of_tree[members]

    device, sums, unattributed = _device_time(part, there, work, members)
    if len(members):
        start, end = _within(part, of_tree)
        own = end - start
        alone = own - covered_by_children(there.forest.parent, start, end)
        below = there.forest.sums(device)
    else:
        own = alone = below = device

    groups = Groups.of([_COLUMNS[key](trace, rows) for key in keys])
    outermost = ~there.forest.repeated(members, groups.code)
    counted = _in_window(part, rows)
    measures = {
        "count": groups.sums(counted.astype(np.int64)),
        "cpu_total_ns": groups.sums(own[members] * outermost),
        "cpu_self_ns": groups.sums(alone[members]),
        "device_total_ns": groups.sums(below[members] * outermost),
        "device_self_ns": groups.sums(device[members]),
    }
    shown = np.flatnonzero((measures["count"] > 0) | (measures["device_total_ns"] > 0))
    texts = groups.texts(shown)
    return _Found(
        part.rank,
        dict(zip(keys, texts, strict=True)),
        {key: values[shown] for key, values in measures.items()},
        len(tree.rows),
        int(counted.sum()),
        len(work),
        sums["linked"],
        sums["device_ns"],
        unattributed,
    )


def _work(part: Part) -> Rows:
    """Return all device work of the rank that lies in the window."""
    rows = index_of(part.trace).of_kinds_within(BUSY, part.low, part.high)
    return rows[part.table.stream[rows] >= 0]


@dataclass(frozen=True, slots=True)
class _Involved:
    """The operators that have any time in a window, and all that enclose them."""

    positions: Rows
    forest: Forest
    innermost: Ints
    calls: Ints


def _involved(part: Part, tree: OperatorTree, work: Rows, *, annotations: bool) -> _Involved:
    trace = part.trace
    calls = trace.launch_of[work]
    innermost = tree.innermost[calls]
    if part.low is None and part.high is None:
        return _Involved(np.arange(len(tree.rows)), tree.forest, innermost, calls)

    def derive() -> Overlapping:
        start = trace.table.start_ns[tree.rows]
        return Overlapping(start, start + trace.table.dur_ns[tree.rows])

    overlapping = memo(trace, ("operators_overlapping", annotations), derive)
    inside = np.zeros(len(tree.rows), dtype=bool)
    found = np.concatenate((overlapping.within(part.low, part.high), innermost[innermost >= 0]))
    while len(found):
        found = found[~inside[found]]
        inside[found] = True
        above = tree.forest.parent[found]
        found = above[above >= 0]
    positions = np.flatnonzero(inside)
    number = np.cumsum(inside) - 1
    parent = tree.forest.parent[positions]
    parent = np.where(parent >= 0, number[parent], -1)
    innermost = np.where(innermost >= 0, number[innermost], -1) if len(number) else innermost
    return _Involved(positions, forest_of(parent), innermost, calls)


def _device_time(
    part: Part, there: _Involved, work: Rows, members: Rows
) -> tuple[Ints, dict[str, int], dict[str, int]]:
    """Return the device time of each operator alone, what there is, and what is in no row."""
    start, end = _within(part, work)
    time = end - start
    call, position = there.calls, there.innermost
    device = np.zeros(len(there.positions), dtype=np.int64)
    np.add.at(device, position[position >= 0], time[position >= 0])
    sums = {"device_ns": int(time.sum()), "linked": int((call >= 0).sum())}
    unattributed = {
        "unlinked_ns": int(time[call < 0].sum()),
        "outside_operators_ns": int(time[(call >= 0) & (position < 0)].sum()),
        "not_selected_ns": int(device.sum() - device[members].sum()),
    }
    return device, sums, unattributed


def _within(part: Part, rows: Rows) -> tuple[Ints, Ints]:
    """Return starts and ends, cut at the window's edges also where they lie outside of it."""
    table = part.table
    start, end = table.start_ns[rows], table.start_ns[rows] + table.dur_ns[rows]
    if part.low is not None or part.high is not None:
        start = np.clip(start, part.low, part.high)
        end = np.clip(end, part.low, part.high)
    return start, end


def _in_window(part: Part, rows: Rows) -> npt.NDArray[np.bool_]:
    """Return which events overlap the window, as `Selection` defines it."""
    start = part.table.start_ns[rows]
    inside = np.ones(len(rows), dtype=bool)
    if part.low is not None:
        inside &= (start + part.table.dur_ns[rows] > part.low) | (start >= part.low)
    if part.high is not None:
        inside &= (start < part.high) & (part.low != part.high)
    return inside


def _frame(found: list[_Found], keys: list[str], note: str) -> pd.DataFrame:
    measures = {key: joined([one.measures[key] for one in found]) for key in _MEASURES}
    rank = np.repeat(
        np.array([one.rank for one in found], dtype=np.int64),
        [len(one.measures["count"]) for one in found],
    )
    texts = {key: [text for one in found for text in one.texts[key]] for key in keys}
    figures = (rank, -measures["device_total_ns"], -measures["cpu_total_ns"])
    by = list(zip(*(values.tolist() for values in figures), *texts.values(), strict=True))
    order = sorted(range(len(rank)), key=by.__getitem__)
    columns = {"rank": rank[order]}
    strings = {
        key: pd.array([values[row] for row in order], dtype="str") for key, values in texts.items()
    }
    unattributed = {
        key: sum(one.unattributed[key] for one in found)
        for key in ("unlinked_ns", "outside_operators_ns", "not_selected_ns")
    }
    return result(
        columns | strings | {key: values[order] for key, values in measures.items()},
        matched={
            "operators": sum(one.members for one in found),
            "device_work": sum(one.work for one in found),
            "linked": sum(one.linked for one in found),
        },
        note=note if len(rank) else _why_none(found),
        device_ns=sum(one.device_ns for one in found),
        unattributed=unattributed,
    )


def _why_none(found: list[_Found]) -> str:
    if any(one.operators for one in found):
        return "no operators are selected"
    return "no operators: no host events of category cpu_op or operator"
