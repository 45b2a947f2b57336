"""Which kernels operators launch, and in which sequence."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import partial
from typing import Any, Unpack

import numpy as np
import numpy.typing as npt
import pandas as pd

from hta_widgets.analysis.host_stack import (
    backward_parents,
    below_backward,
    forest_of,
    nearest,
    nested_parents,
    of_name,
    operator_tree,
)
from hta_widgets.analysis.scope import (
    BUSY,
    Part,
    Scope,
    count_kinds,
    joined,
    over_ranks,
    parts,
    prelaunched_note,
    result,
    scoped,
    stacked,
    used_texts,
)
from hta_widgets.taxonomy import KINDS
from hta_widgets.trace.trace import Trace, dtype_of
from hta_widgets.trace.traceset import TraceSet

Ints = npt.NDArray[np.int64]
Rows = npt.NDArray[np.intp]

#: Calls that copy; HTA leaves them out of the delays.
_COPIES = re.compile(r"mem(cpy|set)", re.IGNORECASE)

#: Columns of `operator_kernels`, and their dtypes.
_KERNELS = {
    "rank": np.int64,
    "id": np.int64,
    "name": str,
    "kind": np.uint8,
    "stream": np.int32,
    "start_ns": np.int64,
    "dur_ns": np.int64,
    "operator": str,
    "operator_id": np.int64,
    **dict.fromkeys(("launch_id", "operator_delay_ns", "runtime_delay_ns"), np.int64),
}
_ANNOTATION = KINDS.index("annotation")


class Runs:
    """Sequences of codes, one behind the other, told apart by their content."""

    def __init__(self, codes: npt.NDArray[np.signedinteger], lengths: Ints) -> None:
        text = np.ascontiguousarray(codes, dtype=np.int32).tobytes()
        ends = (np.cumsum(lengths) * 4).tolist()
        known: dict[bytes, int] = {}
        kinds, begin = [], 0
        # One lookup a sequence; the bytes of a sequence are its key.
        for end in ends:
            kinds.append(known.setdefault(text[begin:end], len(known)))
            begin = end
        self.kind: Ints = np.array(kinds, dtype=np.int64)
        self._contents = list(known)

    def __len__(self) -> int:
        """Return how many different sequences there are."""
        return len(self._contents)

    def codes(self, kind: int) -> list[int]:
        """Return the codes of a sequence."""
        codes: list[int] = np.frombuffer(self._contents[kind], dtype=np.int32).tolist()
        return codes


@scoped
def operator_kernels(
    traces: TraceSet,
    operator_name: str | None = None,
    *,
    exact: bool = False,
    **scope: Unpack[Scope],
) -> pd.DataFrame:
    """Return the device work that operators launch, event by event.

    An event belongs to the innermost of the operators in question that encloses its launching
    call on the call's thread. One call may launch several events (a CUDA graph).

    Parameters
    ----------
    operator_name : str, optional
        What the operators' names contain, as in `frequent_kernel_sequences`; by default all
        operators count. With a name, every host event with such a name counts, ranges that the
        program names as well.
    exact : bool, default False
        Take operators of exactly this name only.
    selection : Selection, optional
        The device work to look at; all by default.
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
    whole = stacked(found, _KERNELS)
    whole["kind"] = pd.Categorical.from_codes(whole["kind"], dtype=dtype_of(KINDS))
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
        position = tree.innermost[call]
        operator = np.append(tree.rows, -1)[position]
    else:
        stops = of_name(
            trace,
            lambda name: name == operator_name if exact else operator_name in name,
        )
        operator = nearest(nested_parents(trace, stops), stops)[call]
    below = operator >= 0
    work, call, operator = work[below], call[below], operator[below]
    start, end = part.clipped(work)
    return {
        "rank": np.full(len(work), part.rank, dtype=np.int64),
        "id": work.astype(np.int64),
        "name": used_texts(table.name[work], table.names),
        "kind": table.kind[work],
        "stream": table.stream[work],
        "start_ns": start + trace.shift_ns,
        "dur_ns": end - start,
        "operator": used_texts(table.name[operator], table.names),
        "operator_id": operator.astype(np.int64),
        "launch_id": call,
        "operator_delay_ns": table.start_ns[call] - table.start_ns[operator],
        "runtime_delay_ns": table.start_ns[work] - table.start_ns[call],
    }


@scoped
def operator_launch_delays(
    traces: TraceSet, *, prefix: str = "aten::", **scope: Unpack[Scope]
) -> pd.DataFrame:
    """Return which kernels operators launch, in what order, and after what delays.

    A launch belongs to the innermost operator with a name in question that encloses it on its
    thread. Copies by ``…Memcpy…`` and ``…Memset…`` calls are left out. Per occurrence of an
    operator, the names of all kernels that it launched form the sequence, and the delays are
    those of its first one.

    Parameters
    ----------
    prefix : str, default "aten::"
        How the operators' names begin.
    selection : Selection, optional
        The operators to work on; all by default. What they launched is theirs whether it is
        selected or not.
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
    HTA's ``get_aten_op_kernels_and_delay``. HTA takes the operator that started last on any
    thread, knows CUDA's calls only, and fails where a call launched several kernels.
    """
    chosen = parts(traces, **scope)
    found = list(over_ranks(chosen, _delays_of, prefix))
    sizes = [len(one.count) for one in found]
    return result(
        {
            "rank": np.repeat(np.array(chosen.ranks, dtype=np.int64), sizes),
            "operator": pd.array([x for one in found for x in one.operator], dtype="str"),
            "kernel_sequence": pd.array([x for one in found for x in one.sequence], dtype="str"),
            "occurrence_count": joined([one.count for one in found]),
            "avg_operator_launch_delay_ns": joined([one.to_call for one in found], np.float64),
            "avg_runtime_delay_ns": joined([one.to_kernel for one in found], np.float64),
        },
        matched={
            "operators": sum(one.operators for one in found),
            "kernels": sum(one.kernels for one in found),
        },
        note="" if sum(sizes) else f"no kernel was launched by an operator named {prefix}…",
    )


@dataclass(slots=True)
class _Delays:
    operator: list[str]
    sequence: list[str]
    count: Ints
    to_call: npt.NDArray[np.float64]
    to_kernel: npt.NDArray[np.float64]
    operators: int
    kernels: int


def _delays_of(part: Part, prefix: str) -> _Delays:
    trace, table = part.trace, part.table
    operators = of_name(trace, lambda name: name.startswith(prefix))
    members = np.zeros(len(table) + 1, dtype=bool)
    members[part.rows] = operators[part.rows]

    work, call = _launched(part)
    operator = nearest(nested_parents(trace, operators), operators)[call]
    below = members[operator]
    work, call, operator = work[below], call[below], operator[below]
    order = np.lexsort((work, call, operator))
    work, call, operator = work[order], call[order], operator[order]

    first = np.flatnonzero(np.diff(operator, prepend=-1))
    runs = Runs(table.name[work], np.diff(first, append=len(work)))
    size = max(len(runs), 1)
    key = table.name[operator[first]].astype(np.int64) * size + runs.kind
    pairs, group, count = np.unique(key, return_inverse=True, return_counts=True)
    to_call = table.start_ns[call[first]] - table.start_ns[operator[first]]
    to_kernel = table.start_ns[work[first]] - table.start_ns[call[first]]
    names = table.names
    texts = [
        (names[name], " -> ".join(names[code] for code in runs.codes(kind)))
        for name, kind in zip(*(part.tolist() for part in np.divmod(pairs, size)), strict=True)
    ]
    by_count = sorted(range(len(texts)), key=lambda row: (-count[row], texts[row]))
    return _Delays(
        [texts[row][0] for row in by_count],
        [texts[row][1] for row in by_count],
        count.astype(np.int64)[by_count],
        _means(to_call, group, count)[by_count],
        _means(to_kernel, group, count)[by_count],
        int(members.sum()),
        len(work),
    )


def _launched(part: Part) -> tuple[Rows, Ints]:
    """Return all work of the rank that calls other than copies launched, and those calls."""
    table = part.table
    busy = np.zeros(len(KINDS), dtype=bool)
    busy[[KINDS.index(kind) for kind in BUSY]] = True
    call = part.trace.launch_of
    work = np.flatnonzero(busy[table.kind] & (table.stream >= 0) & (call >= 0))
    copies = of_name(part.trace, lambda name: _COPIES.search(name) is not None)
    work = work[~copies[call[work]]]
    return work, call[work]


def _means(values: Ints, group: Ints, count: Ints) -> npt.NDArray[np.float64]:
    total = np.zeros(len(count), dtype=np.int64)
    np.add.at(total, group, values)
    mean: npt.NDArray[np.float64] = total / np.maximum(count, 1)
    return mean


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

    Taken are the host's events whose names contain `operator_name`, on each rank those that lie
    least deep of all; the depth counts every host event above, and events of the autograd thread
    lie below the ``## backward ##`` range or the step that runs meanwhile. Of these, the ones with
    `min_pattern_len` or more device events below are the occurrences. The pattern of one is its
    name and the names of these device events by their start: kernels, copies and waits, on any
    stream.

    Parameters
    ----------
    operator_name : str
        What the names contain, for example ``"aten::linear"``.
    min_pattern_len : int, default 3
        How many device events at least.
    top_k : int, optional
        How many patterns of each rank at most; all by default.
    every_depth : bool, default False
        Take every occurrence that is not below another one, at whatever depth. HTA takes the
        least deep only, and so leaves out an operator that a model calls at several depths.
    selection : Selection, optional
        The operators to work on; all by default. What they launched is theirs whether it is
        selected or not.
    window : (start_ns, end_ns), optional
        Narrows the selection in time: to operators that overlap the window. Patterns are whole,
        times are cut.

    Returns
    -------
    DataFrame
        One row per rank and pattern, by rank, the most frequent first, then by pattern: ``rank``
        (int64)``, pattern`` (str, ``|`` between)``, count`` (int64); ``kernel_ns`` (int64), the sum
        of the device events' durations; ``operator_ns`` (int64), that of the occurrences.

    See Also
    --------
    hta_widgets.export.pattern_overlay.export_patterns : Marks the occurrences in the trace.

    Notes
    -----
    HTA's ``get_frequent_cuda_kernel_sequences``. HTA returns all patterns as well; its `top_k` is
    for what it draws and marks.
    """
    find = partial(find_patterns, top_k=top_k, every_depth=every_depth)
    chosen = parts(traces, **scope)
    found = list(over_ranks(chosen, find, operator_name, min_pattern_len))
    sizes = [len(one.texts) for one in found]
    candidates = sum(one.candidates for one in found)
    note = ""
    if not candidates:
        note = f"no host event's name contains {operator_name!r}"
    elif not sum(sizes):
        note = f"no {operator_name!r} launched {min_pattern_len} or more device events"
    return result(
        {
            "rank": np.repeat(np.array([one.rank for one in found], dtype=np.int64), sizes),
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
    runs = Runs(table.name[work], size)
    width = max(len(runs), 1)
    key = table.name[occurrences].astype(np.int64) * width + runs.kind
    pairs, group, count = np.unique(key, return_inverse=True, return_counts=True)
    texts = [
        "|".join(table.names[code] for code in [name, *runs.codes(kind)])
        for name, kind in zip(*(half.tolist() for half in np.divmod(pairs, width)), strict=True)
    ]
    by_count = sorted(range(len(texts)), key=lambda row: (-count[row], texts[row]))[:top_k]
    place = np.full(len(texts), -1, dtype=np.int64)
    place[by_count] = np.arange(len(by_count))
    kernel_ns, operator_ns = (np.zeros(len(texts), dtype=np.int64) for _ in range(2))
    np.add.at(kernel_ns, np.repeat(group, size), np.maximum(part.durations(work), 0))
    np.add.at(operator_ns, group, part.durations(occurrences))
    return Patterns(
        part.rank,
        [texts[row] for row in by_count],
        count.astype(np.int64)[by_count],
        kernel_ns[by_count],
        operator_ns[by_count],
        occurrences,
        place[group],
        below,
        len(candidates),
        len(work),
    )


def _roots(parent: Ints, candidates: Rows, *, every_depth: bool) -> Rows:
    """Return the candidates from which to look down."""
    if not len(candidates):
        return candidates
    if every_depth:
        stops = np.zeros(len(parent), dtype=bool)
        stops[candidates] = True
        above = nearest(parent, stops)[parent[candidates]]
        return candidates[above < 0]
    depth = forest_of(parent).depth[candidates]
    least: Rows = candidates[depth == depth.min()]
    return least


def _below(trace: Trace, roots: Rows, device: Rows, call: Ints) -> tuple[Ints, Ints]:
    """Return the root (a position) above each event, and above those of the device alone."""
    stops = np.zeros(len(trace), dtype=bool)
    stops[roots] = True
    position = np.full(len(trace) + 1, -1, dtype=np.int64)
    position[roots] = np.arange(len(roots))
    up = position[nearest(below_backward(trace, nested_parents(trace, stops)), stops)]
    launched = up[call[device]]
    below = up[:-1].copy()
    below[trace.table.stream >= 0] = -1
    below[device] = launched
    return below, launched
