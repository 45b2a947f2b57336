"""Time of operators, and the kernels that they launch, with delays and sequences."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeVar, Unpack

import numpy as np
import pandas as pd

from hta_widgets.analysis.scope import (
    BUSY,
    Part,
    Scope,
    busy_rows,
    categorical,
    count_kinds,
    joined,
    narrowed,
    over_ranks,
    parts,
    prelaunched_note,
    result,
    scoped,
    stacked,
    used_texts,
)
from hta_widgets.facts import note_for
from hta_widgets.taxonomy import KINDS
from hta_widgets.trace.arrays import Ints, Rows, marked, positions, sums
from hta_widgets.trace.columns import event_args
from hta_widgets.trace.host_stack import (
    Forest,
    OperatorTree,
    backward_parents,
    below_backward,
    covered_by_children,
    forest_of,
    nearest,
    nested_parents,
    of_category,
    of_name,
    operator_tree,
)
from hta_widgets.trace.memo import memo
from hta_widgets.trace.selection import Overlapping, index_of, overlapping
from hta_widgets.trace.trace import Trace
from hta_widgets.trace.traceset import TraceSet

_Found = tuple[dict[str, Any], dict[str, int]]

_MEASURES = ("count", "cpu_total_ns", "cpu_self_ns", "device_total_ns", "device_self_ns")


@scoped
def operators(
    traces: TraceSet,
    *,
    group_by_shape: bool = False,
    group_by_stack: bool = False,
    annotations: bool = False,
    **scope: Unpack[Scope],
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

    The window cuts times. Device work in the window counts for its operator even if that ran
    before; such an operator has ``count`` 0. Other selections choose operators, and their device
    work counts whether it is selected or not.

    Parameters
    ----------
    group_by_shape : bool, default False
        One row per shape of the inputs, as the profiler wrote it with ``record_shapes=True``.
    group_by_stack : bool, default False
        One row per call stack, as the profiler wrote it with ``with_stack=True``: from the arg
        ``Call stack``, or from the Python functions that enclose the operator.
    annotations : bool, default False
        Treat ranges named by the program (``record_function``) as operators.
    selection : Selection, optional
        The operators to work on; all by default.

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
    chosen = narrowed(traces, **scope)
    lasting = replace(chosen, start_ns=None, end_ns=None)
    keys = ["name"] + ["input_shapes"] * group_by_shape + ["call_stack"] * group_by_stack
    find = partial(_within_window, keys=keys, annotations=annotations)
    found = list(over_ranks(parts(traces, lasting), find, (chosen.start_ns, chosen.end_ns)))
    names = " ".join(["rank", *(f"{key}:t" for key in keys), *_MEASURES])
    frame = pd.DataFrame(stacked([block for block, _ in found], names))
    order = {"rank": True, "device_total_ns": False, "cpu_total_ns": False}
    order |= dict.fromkeys(keys, True)
    frame = frame.sort_values(list(order), ascending=list(order.values()), ignore_index=True)
    counts = Counter[str]()
    for _, of_rank in found:
        counts.update(of_rank)
    if len(frame):
        note = prelaunched_note(parts(traces, chosen))
    elif counts["all_operators"]:
        note = note_for("no_operators_selected")
    else:
        note = note_for("no_operators")
    unattributed = ("unlinked_ns", "outside_operators_ns", "not_selected_ns")
    return result(
        {name: frame[name] for name in ("rank", *keys, *_MEASURES)},
        matched={key: counts[key] for key in ("operators", "device_work", "linked")},
        note=note,
        device_ns=counts["device_ns"],
        unattributed={key: counts[key] for key in unattributed},
    )


def _within_window(
    part: Part, window_ns: tuple[int | None, int | None], *, keys: list[str], annotations: bool
) -> _Found:
    if window_ns == (None, None):
        find = partial(_of_rank, part, keys, annotations=annotations)
        return part.once(("operators", *keys, annotations), find)
    return _of_rank(part.within(*window_ns), keys, annotations=annotations)


def _of_rank(part: Part, keys: list[str], *, annotations: bool) -> _Found:
    """Return the columns of one rank, and its counts and times for ``attrs``."""
    trace = part.trace
    tree = operator_tree(trace, annotations=True) if annotations else operator_tree(trace)
    work = index_of(trace).of_kinds_within(BUSY, part.low, part.high)
    work = work[part.table.stream[work] >= 0]
    there = _involved(part, tree, work, annotations=annotations)
    of_tree = tree.rows[there.positions]
    members = np.flatnonzero(part.has(of_tree))
    rows = of_tree[members]

    start, end = _within(part, work)
    time, linked, position = end - start, there.calls >= 0, there.innermost
    device = sums(position[position >= 0], time[position >= 0], len(of_tree))
    own = alone = below = device
    if len(members):
        start, end = _within(part, of_tree)
        own = end - start
        alone = own - covered_by_children(there.forest.parent, start, end)
        below = there.forest.sums(device)

    texts = pd.DataFrame({key: _COLUMNS[key](trace, rows) for key in keys})
    group = np.asarray(texts.groupby(keys, sort=False, observed=True).ngroup(), dtype=np.int64)
    outermost = ~there.forest.repeated(members, group)
    first_ns = part.table.start_ns[rows]
    counted = overlapping(first_ns, first_ns + part.table.dur_ns[rows], part.low, part.high)
    measures = {
        "count": counted.astype(np.int64),
        "cpu_total_ns": own[members] * outermost,
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
    python = of_category(trace, "python_function")
    functions = np.flatnonzero(python)
    above = positions(functions, len(table))[nearest(table.parent, python)]
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
class _Involved:
    """The operators with time in a window, and the operators that enclose them."""

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


def _within(part: Part, rows: Rows) -> tuple[Ints, Ints]:
    """Return starts and ends, both limited to the window."""
    table = part.table
    start, end = table.start_ns[rows], table.start_ns[rows] + table.dur_ns[rows]
    return np.clip(start, part.low, part.high), np.clip(end, part.low, part.high)


Text = TypeVar("Text", str, tuple[str, str])

#: Copying calls, which HTA leaves out of the delays.
_COPIES = re.compile(r"mem(cpy|set)", re.IGNORECASE)

_ANNOTATION = KINDS.index("annotation")


@scoped
def operator_kernels(
    traces: TraceSet,
    operator_name: str | None = None,
    *,
    exact: bool = False,
    **scope: Unpack[Scope],
) -> pd.DataFrame:
    """Return the device work that operators launch, event by event.

    An event belongs to the innermost of the operators that encloses its launching call on the
    call's thread. One call may launch several events (a CUDA graph).

    Parameters
    ----------
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

    Returns
    -------
    DataFrame
        One row per device event (computing, communicating, copying), by rank and start: ``rank,
        id, name`` (categorical)``, kind`` (categorical)``, stream, start_ns, dur_ns``;
        ``operator`` (categorical)``, operator_id``; ``launch_id``, the id of the launching call;
        ``operator_delay_ns`` from the operator's start to the call's, ``runtime_delay_ns`` from
        the call's start to the event's. All times and ids are int64.
    """
    chosen = parts(traces, **scope)
    found = list(over_ranks(chosen, partial(_kernels_of, exact=exact), operator_name))
    whole = stacked(
        found,
        "rank id name:c kind stream:i start_ns dur_ns operator:c operator_id launch_id"
        " operator_delay_ns runtime_delay_ns",
    )
    whole["kind"] = categorical(whole["kind"], KINDS)
    wanted = "any operator" if operator_name is None else f"an operator named {operator_name!r}"
    return result(
        whole,
        matched={**count_kinds(chosen), "below_operator": len(whole["rank"])},
        note=prelaunched_note(chosen)
        if len(whole["rank"])
        else f"no device work was launched by {wanted}",
    )


def _kernels_of(part: Part, operator_name: str | None, *, exact: bool) -> dict[str, Any]:
    """Return the columns of one rank."""
    trace, table = part.trace, part.table
    work = part.busy_rows()
    call = trace.launch_of[work]
    if operator_name is None:
        tree = operator_tree(trace)
        operator = np.append(tree.rows, -1)[tree.innermost[call]]
    else:
        stops = of_name(
            trace, lambda name: name == operator_name if exact else operator_name in name
        )
        operator = nearest(nested_parents(trace, stops), stops)[call]
    below = operator >= 0
    work, call, operator = work[below], call[below], operator[below]
    start, end = part.clipped(work)
    return {
        "rank": part.rank,
        "id": work,
        "name": used_texts(table.name[work], table.names),
        "kind": table.kind[work],
        "stream": table.stream[work],
        "start_ns": start + trace.shift_ns,
        "dur_ns": end - start,
        "operator": used_texts(table.name[operator], table.names),
        "operator_id": operator,
        "launch_id": call,
        "operator_delay_ns": table.start_ns[call] - table.start_ns[operator],
        "runtime_delay_ns": table.start_ns[work] - table.start_ns[call],
    }


@scoped
def operator_launch_delays(
    traces: TraceSet, *, prefix: str = "aten::", **scope: Unpack[Scope]
) -> pd.DataFrame:
    """Return the sequences of kernels that operators launch, and the delays of their launches.

    A launch belongs to the innermost operator with `prefix` that encloses it on its thread. Copies
    by ``…Memcpy…`` and ``…Memset…`` calls are left out. The sequence of an occurrence has the
    names of all kernels that it launched; delays are measured for its first kernel.

    Parameters
    ----------
    prefix : str, default "aten::"
        Start of the operators' names.
    selection : Selection, optional
        The operators to work on; all by default. All work that they launched counts.
    window : (start_ns, end_ns), optional
        Narrows the selection in time: to operators that overlap the window. Delays are not cut.

    Returns
    -------
    DataFrame
        One row per rank, operator and sequence, the most frequent first: ``rank`` (int64)``,
        operator, kernel_sequence`` (str, ``" -> "`` between)``, occurrence_count`` (int64);
        ``avg_operator_launch_delay_ns`` (float64), mean of the time from the operator's start to
        its first launching call's; ``avg_runtime_delay_ns`` (float64), from that call's start to
        the kernel's.

    Notes
    -----
    HTA's ``get_aten_op_kernels_and_delay``. HTA uses the operator that started last on any
    thread, covers CUDA's calls only, and fails if a call launched several kernels.
    """
    found = list(over_ranks(parts(traces, **scope), _delays_of, prefix))
    names = "rank operator:t kernel_sequence:t occurrence_count"
    names += " avg_operator_launch_delay_ns:f avg_runtime_delay_ns:f"
    columns = stacked([one for one, _, _ in found], names)
    return result(
        columns,
        matched={
            "operators": sum(operators for _, operators, _ in found),
            "kernels": sum(kernels for _, _, kernels in found),
        },
        note=""
        if len(columns["rank"])
        else f"no kernel was launched by an operator named {prefix}…",
    )


def _delays_of(part: Part, prefix: str) -> tuple[dict[str, Any], int, int]:
    """Return the columns of one rank, and its numbers of operators and kernels."""
    trace, table = part.trace, part.table
    operators = of_name(trace, lambda name: name.startswith(prefix))
    members = marked(part.rows[operators[part.rows]], len(table) + 1)

    call = trace.launch_of
    work = busy_rows(trace)
    work = work[call[work] >= 0]
    copies = of_name(trace, lambda name: _COPIES.search(name) is not None)
    work = work[~copies[call[work]]]
    operator = nearest(nested_parents(trace, operators), operators)[call[work]]
    below = members[operator]
    work, operator = work[below], operator[below]
    order = np.lexsort((work, call[work], operator))
    work, operator = work[order], operator[order]

    first = np.flatnonzero(np.diff(operator, prepend=-1))
    sizes = np.diff(first, append=len(work))
    texts, group = _by_frequency(
        part, operator[first], work, sizes, lambda name, kernels: (name, " -> ".join(kernels))
    )
    call, start = call[work[first]], table.start_ns
    count = np.bincount(group, minlength=len(texts))
    columns = {
        "rank": part.rank,
        "operator": [operator for operator, _ in texts],
        "kernel_sequence": [sequence for _, sequence in texts],
        "occurrence_count": count,
        "avg_operator_launch_delay_ns": sums(
            group, start[call] - start[operator[first]], len(texts)
        )
        / count,
        "avg_runtime_delay_ns": sums(group, start[work[first]] - start[call], len(texts)) / count,
    }
    return columns, int(members.sum()), len(work)


def _by_frequency(
    part: Part, operators: Ints, work: Rows, sizes: Ints, write: Callable[[str, list[str]], Text]
) -> tuple[list[Text], Ints]:
    """Group operators by their name and the names of their work; `sizes` are numbers of events."""
    # The texts of the groups come first, most frequent first and then by text.
    names, name = part.table.names, part.table.name
    codes = np.ascontiguousarray(name[work], dtype=np.int32).tobytes()
    ends: list[int] = (np.cumsum(sizes) * 4).tolist()
    known: dict[tuple[int, bytes], int] = {}
    keys = zip(name[operators].tolist(), [0, *ends], ends, strict=False)
    found = [known.setdefault((own, codes[low:high]), len(known)) for own, low, high in keys]
    group = np.array(found, dtype=np.int64)
    texts = [
        write(names[own], [names[code] for code in np.frombuffer(sequence, np.int32).tolist()])
        for own, sequence in known
    ]
    count = np.bincount(group, minlength=len(texts)).tolist()
    order = sorted(range(len(texts)), key=lambda row: (-count[row], texts[row]))
    return [texts[row] for row in order], np.argsort(order)[group]


@scoped
def frequent_kernel_sequences(
    traces: TraceSet,
    operator_name: str,
    *,
    min_pattern_len: int = 3,
    top_k: int | None = None,
    every_depth: bool = False,
    **scope: Unpack[Scope],
) -> pd.DataFrame:
    """Return the sequences of device work that occurrences of an operator launch, by frequency.

    Occurrences are the host events whose names contain `operator_name`, at their smallest depth on
    each rank, with at least `min_pattern_len` device events below. The depth counts all enclosing
    host events; events of the autograd thread lie below the ``## backward ##`` range or the step
    that runs at that time. The pattern has the name of the occurrence and of its device events by
    start: kernels, copies and waits, on any stream.

    Parameters
    ----------
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

    Returns
    -------
    DataFrame
        One row per rank and pattern, by rank, the most frequent first, then by pattern: ``rank``
        (int64)``, pattern`` (str, ``|`` between)``, count`` (int64); ``kernel_ns`` (int64), the sum
        of the device events' durations; ``operator_ns`` (int64), that of the occurrences.

    See Also
    --------
    hta_widgets.export.overlays.export_patterns : Marks the occurrences in the trace.
    """
    find = partial(find_patterns, top_k=top_k, every_depth=every_depth)
    chosen = parts(traces, **scope)
    found = list(over_ranks(chosen, find, operator_name, min_pattern_len))
    candidates = sum(one.candidates for one in found)
    note = ""
    if not candidates:
        note = f"no host event's name contains {operator_name!r}"
    elif not any(one.texts for one in found):
        note = f"no {operator_name!r} launched {min_pattern_len} or more device events"
    return result(
        {
            "rank": joined([np.full(len(one.texts), one.rank) for one in found]),
            "pattern": pd.array([text for one in found for text in one.texts], dtype="str"),
            "count": joined([one.count for one in found]),
            "kernel_ns": joined([one.kernel_ns for one in found]),
            "operator_ns": joined([one.operator_ns for one in found]),
        },
        matched={
            "operators": candidates,
            "occurrences": sum(len(one.occurrences) for one in found),
            "kernels": sum(one.kernels for one in found),
        },
        note=note,
    )


@dataclass(frozen=True, eq=False)
class Patterns:
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
    part: Part,
    operator_name: str,
    min_pattern_len: int,
    *,
    top_k: int | None = None,
    every_depth: bool = False,
) -> Patterns:
    """Return the patterns of one rank; parameters as in `frequent_kernel_sequences`."""
    trace, table = part.trace, part.table
    named = of_name(trace, lambda name: bool(operator_name) and operator_name in name)
    candidates = part.rows[named[part.rows]]
    parent = backward_parents(trace)
    roots = _roots(parent, candidates, every_depth=every_depth)

    call = trace.launch_of
    device = np.flatnonzero((table.stream >= 0) & (table.kind != _ANNOTATION) & (call >= 0))
    below, launched = _below(trace, roots, device, call)
    size = np.bincount(launched[launched >= 0], minlength=len(roots))
    kept = size >= max(min_pattern_len, 0)
    occurrences, size = roots[kept], size[kept]
    number = np.append(np.where(kept, np.cumsum(kept) - 1, -1), -1)
    below, launched = number[below], number[launched]

    work = device[launched >= 0]
    launched = launched[launched >= 0]
    work = work[np.argsort(launched, kind="stable")]
    texts, group = _by_frequency(
        part, occurrences, work, size, lambda name, kernels: "|".join([name, *kernels])
    )
    kernel_ns = sums(np.repeat(group, size), np.maximum(part.durations(work), 0), len(texts))
    operator_ns = sums(group, part.durations(occurrences), len(texts))
    return Patterns(
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
        above = nearest(parent, marked(candidates, len(parent)))[parent[candidates]]
        return candidates[above < 0]
    depth = forest_of(parent).depth[candidates]
    least: Rows = candidates[depth == depth.min()]
    return least


def _below(trace: Trace, roots: Rows, device: Rows, call: Ints) -> tuple[Ints, Ints]:
    """Return the root (a position) above each event, and above each device event."""
    stops = marked(roots, len(trace))
    above = nearest(below_backward(trace, nested_parents(trace, stops)), stops)
    up = positions(roots, len(trace))[above]
    launched = up[call[device]]
    below = up[:-1].copy()
    below[trace.table.stream >= 0] = -1
    below[device] = launched
    return below, launched
