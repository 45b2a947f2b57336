"""The kernels launched by operators, with delays and sequences.

Work launched by a call belongs to the operators that enclose the call on its thread. For example,
``aten::linear`` launches the kernels ``gemm`` and ``add``, so its sequence is ``gemm -> add``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any, TypeVar

import numpy as np
import pandas as pd

from hta_widgets.analysis.frames import categorical, float64, int64, result_frame, stack_blocks
from hta_widgets.analysis.map_ranks import map_ranks
from hta_widgets.analysis.notes import prelaunched_note
from hta_widgets.analysis.scope import RankPart, Window, count_by_kind, device_work_rows, rank_parts
from hta_widgets.arguments import Count, check_arguments
from hta_widgets.taxonomy import KINDS
from hta_widgets.trace.arrays import Ints, Rows, mask_of_rows, positions_of_rows, sum_by_group
from hta_widgets.trace.event_columns import drop_unused_texts
from hta_widgets.trace.host_stack import (
    attach_backward_threads,
    backward_parents,
    forest_of,
    name_mask,
    nearest_ancestor,
    nested_parents,
    operator_tree,
)
from hta_widgets.trace.trace import Trace
from hta_widgets.trace.traceset import Selection, TraceSet

Text = TypeVar("Text", str, tuple[str, str])

#: Calls that copy or fill. HTA excludes them from the delays.
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

    An event belongs to the innermost operator that encloses its launch call on the call's thread. A
    single call may launch several events, such as a CUDA graph's.

    Parameters
    ----------
    traces : TraceSet
    operator_name : str, optional
        Substring of the operators' names, as in `frequent_kernel_sequences`. Default: all
        operators. With a name, every matching host event is used, including ranges of the program.
    exact : bool, default False
        Match the whole name.
    selection, window, ranks : Selection, (start_ns, end_ns), iterable of int, optional
        The device work to return, restricted by time and ranks. Default: all. Times are clipped to
        the window; delays are not.

    Returns
    -------
    DataFrame
        One row per device event (computing, communicating, copying), ordered by rank and start:
        ``rank, id, name, kind, stream, start_ns, dur_ns, operator, operator_id``; ``launch_id``,
        the id of the launch call; ``operator_delay_ns``, from the operator's start to the call's;
        ``runtime_delay_ns``, from the call's start to the event's. ``name``, ``kind`` and
        ``operator`` are categorical; times and ids are int64.
    """
    chosen = rank_parts(traces, selection, window, ranks)
    blocks = list(map_ranks(chosen, partial(_kernels_of, exact=exact), operator_name))
    schema = {
        **int64("rank id"), "name": "category", "kind": "int64", "stream": "int32",
        **int64("start_ns dur_ns"), "operator": "category",
        **int64("operator_id launch_id operator_delay_ns runtime_delay_ns"),
    }  # fmt: skip
    columns = stack_blocks(blocks, schema)
    columns["kind"] = categorical(columns["kind"], KINDS)
    if len(columns["rank"]):
        note = prelaunched_note(chosen)
    else:
        named = "any operator" if operator_name is None else f"an operator named {operator_name!r}"
        note = f"no device work was launched by {named}"
    return result_frame(
        columns,
        matched={**count_by_kind(chosen), "below_operator": len(columns["rank"])},
        note=note,
    )


def _kernels_of(part: RankPart, operator_name: str | None, *, exact: bool) -> dict[str, Any]:
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
    by ``…Memcpy…`` and ``…Memset…`` calls are excluded. The sequence of an occurrence consists of
    the names of all kernels that it launched; delays are measured for its first kernel.

    Parameters
    ----------
    traces : TraceSet
    prefix : str, default "aten::"
        Prefix of the operators' names.
    selection, window, ranks : Selection, (start_ns, end_ns), iterable of int, optional
        The operators to analyze, restricted to ranks and to those that overlap the window. Default:
        all. All work that they launched is included; delays are not clipped.

    Returns
    -------
    DataFrame
        One row per rank, operator and sequence, ordered by rank, most frequent first: ``rank``
        (int64); ``operator, kernel_sequence`` (str; ``" -> "`` separates kernels);
        ``occurrence_count`` (int64); ``avg_operator_launch_delay_ns`` (float64), the mean time from
        the start of the operator to the start of its first launch call; ``avg_runtime_delay_ns``
        (float64), from the start of that call to the start of the kernel.

    Notes
    -----
    The definition follows HTA's ``get_aten_op_kernels_and_delay``, which takes the last operator to
    start on any thread, covers only CUDA calls, and fails if a call launches several kernels.
    """
    chosen = rank_parts(traces, selection, window, ranks)
    results = list(map_ranks(chosen, _delays_of, prefix))
    schema = {
        "rank": "int64", "operator": "str", "kernel_sequence": "str", "occurrence_count": "int64",
        **float64("avg_operator_launch_delay_ns avg_runtime_delay_ns"),
    }  # fmt: skip
    columns = stack_blocks([columns_of_rank for columns_of_rank, _, _ in results], schema)
    note = f"no kernel was launched by an operator named {prefix}…"
    return result_frame(
        columns,
        matched={
            "operators": sum(operators for _, operators, _ in results),
            "kernels": sum(kernels for _, _, kernels in results),
        },
        note="" if len(columns["rank"]) else note,
    )


def _delays_of(part: RankPart, prefix: str) -> tuple[dict[str, Any], int, int]:
    """Return a rank's columns, and the numbers of selected operators and counted kernels."""
    trace, start_ns = part.trace, part.table.start_ns
    is_operator = name_mask(trace, lambda name: name.startswith(prefix))
    is_selected = mask_of_rows(part.rows[is_operator[part.rows]], len(trace) + 1)
    operator_above = nearest_ancestor(nested_parents(trace, is_operator), is_operator)
    work = device_work_rows(trace)
    call = trace.launch_of[work]
    operator = operator_above[call]
    is_copy = name_mask(trace, _COPIES.search)
    counted = np.flatnonzero((call >= 0) & ~is_copy[call] & is_selected[operator])
    order = counted[np.lexsort((work[counted], call[counted], operator[counted]))]
    work, call, operator = work[order], call[order], operator[order]
    first = np.flatnonzero(np.diff(operator, prepend=-1))  # each operator's first work
    sizes = np.diff(first, append=len(work))
    texts, group = _group_sequences(
        part, operator[first], work, sizes, lambda name, kernels: (name, " -> ".join(kernels))
    )
    count = np.bincount(group, minlength=len(texts))
    launch_delay_ns = start_ns[call[first]] - start_ns[operator[first]]
    runtime_delay_ns = start_ns[work[first]] - start_ns[call[first]]
    columns = {
        "rank": part.rank,
        "operator": [name for name, _ in texts],
        "kernel_sequence": [sequence for _, sequence in texts],
        "occurrence_count": count,
        "avg_operator_launch_delay_ns": sum_by_group(group, launch_delay_ns, len(texts)) / count,
        "avg_runtime_delay_ns": sum_by_group(group, runtime_delay_ns, len(texts)) / count,
    }
    return columns, int(is_selected.sum()), len(counted)


def _group_sequences(
    part: RankPart,
    operators: Ints,
    work: Rows,
    sizes: Ints,
    write: Callable[[str, list[str]], Text],
) -> tuple[list[Text], Ints]:
    """Return labels for groups with equal operator and sequence, and each operator's group.

    `work` has `sizes` events per operator, in the order of `operators`. `write` composes a label
    from the names of an operator and its work. Groups are sorted by frequency, then by label.
    """
    names, name = part.table.names, part.table.name
    # Sequences of codes are converted to bytes to serve as dictionary keys.
    codes = np.ascontiguousarray(name[work], dtype=np.int32)
    content = codes.tobytes()
    ends: list[int] = (np.cumsum(sizes) * codes.itemsize).tolist()
    sequences = [content[low:high] for low, high in pairwise([0, *ends])]
    keys = list(zip(name[operators].tolist(), sequences, strict=True))
    group, distinct_keys = pd.factorize(pd.Series(keys, dtype=object))
    labels = []
    for operator_code, sequence in distinct_keys:
        kernels = [names[code] for code in np.frombuffer(sequence, np.int32).tolist()]
        labels.append(write(names[operator_code], kernels))
    count = np.bincount(group, minlength=len(labels)).tolist()
    order = sorted(range(len(labels)), key=lambda number: (-count[number], labels[number]))
    return [labels[number] for number in order], np.argsort(order)[group]


@check_arguments
def frequent_kernel_sequences(
    traces: TraceSet,
    operator_name: str,
    *,
    min_pattern_len: int = 3,
    top_k: Count | None = None,
    every_depth: bool = False,
    selection: Selection | None = None,
    window: Window | None = None,
    ranks: Iterable[int] | None = None,
) -> pd.DataFrame:
    """Return the sequences of device work that an operator launches, most frequent first.

    Occurrences are the host events whose names contain `operator_name`, at their smallest depth on
    each rank, with at least `min_pattern_len` device events below. The depth counts all enclosing
    host events. Events on the autograd thread are below the ``## backward ##`` range or the step
    that runs at that time. A pattern consists of the name of the occurrence and the names of its
    device events, ordered by start: kernels, copies and waits on any stream.

    Parameters
    ----------
    traces : TraceSet
    operator_name : str
        Substring of the names, for example ``"aten::linear"``.
    min_pattern_len : int, default 3
        Minimum number of device events in a pattern.
    top_k : int, optional
        Maximum number of patterns per rank. Default: all.
    every_depth : bool, default False
        Count occurrences at every depth, except within another occurrence. HTA counts only those at
        the smallest depth, and so misses operators that a model calls at several depths.
    selection, window, ranks : Selection, (start_ns, end_ns), iterable of int, optional
        The operators to analyze, restricted to ranks and to those that overlap the window. Default:
        all. All work that they launched is included. The window clips times, not patterns.

    Returns
    -------
    DataFrame
        One row per rank and pattern, ordered by rank, most frequent first, then by pattern:
        ``rank`` (int64); ``pattern`` (str; ``|`` separates names); ``count`` (int64); ``kernel_ns``
        (int64), the total duration of the device events; ``operator_ns`` (int64), that of the
        occurrences.

    See Also
    --------
    hta_widgets.export.traces.overlays.export_patterns : Marks the occurrences in the trace.
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
    blocks = [
        {
            "rank": patterns.rank,
            "pattern": patterns.texts,
            "count": patterns.count,
            "kernel_ns": patterns.kernel_ns,
            "operator_ns": patterns.operator_ns,
        }
        for patterns in patterns_of_ranks
    ]
    schema = {"rank": "int64", "pattern": "str", **int64("count kernel_ns operator_ns")}
    return result_frame(
        stack_blocks(blocks, schema),
        matched={
            "operators": candidates,
            "occurrences": sum(len(patterns.occurrences) for patterns in patterns_of_ranks),
            "kernels": sum(patterns.kernels for patterns in patterns_of_ranks),
        },
        note=note,
    )


@dataclass(frozen=True, eq=False)
class SequencePatterns:
    """The patterns of a rank, most frequent first."""

    rank: int
    texts: list[str]
    count: Ints
    kernel_ns: Ints
    operator_ns: Ints
    occurrences: Rows  # counted operators
    pattern: Ints  # pattern of each occurrence; -1 if beyond the maximum number of patterns
    below: Ints  # position of the occurrence that encloses each event; -1 if none does
    candidates: int  # number of operators with a matching name
    kernels: int  # number of device events within occurrences


def find_patterns(
    part: RankPart,
    operator_name: str,
    min_pattern_len: int,
    *,
    top_k: int | None = None,
    every_depth: bool = False,
) -> SequencePatterns:
    """Return the patterns of a rank; see `frequent_kernel_sequences` for the parameters."""
    trace, table = part.trace, part.table
    is_named = name_mask(trace, lambda name: operator_name and operator_name in name)
    candidates = part.rows[is_named[part.rows]]
    roots = _roots(backward_parents(trace), candidates, every_depth=every_depth)
    launched = np.flatnonzero(
        (table.stream >= 0) & (table.kind != _ANNOTATION) & (trace.launch_of >= 0)
    )
    root = _root_of_events(trace, roots, launched)
    size_of_root = np.bincount(root[launched][root[launched] >= 0], minlength=len(roots))
    is_long = size_of_root >= max(min_pattern_len, 0)
    occurrences, sizes = roots[is_long], size_of_root[is_long]
    # The last item serves events without a root (-1).
    occurrence_of_root = np.append(np.where(is_long, np.cumsum(is_long) - 1, -1), -1)
    occurrence = occurrence_of_root[root]
    work = launched[occurrence[launched] >= 0]
    work = work[np.argsort(occurrence[work], kind="stable")]
    texts, group = _group_sequences(
        part, occurrences, work, sizes, lambda name, kernels: "|".join([name, *kernels])
    )
    work_ns = np.maximum(part.durations(work), 0)
    kernel_ns = sum_by_group(np.repeat(group, sizes), work_ns, len(texts))
    operator_ns = sum_by_group(group, part.durations(occurrences), len(texts))
    return SequencePatterns(
        rank=part.rank,
        texts=texts[:top_k],
        count=np.bincount(group, minlength=len(texts))[:top_k],
        kernel_ns=kernel_ns[:top_k],
        operator_ns=operator_ns[:top_k],
        occurrences=occurrences,
        pattern=np.where(group < len(texts[:top_k]), group, -1),
        below=occurrence,
        candidates=len(candidates),
        kernels=len(work),
    )


def _roots(parent: Ints, candidates: Rows, *, every_depth: bool) -> Rows:
    """Return the candidates at the smallest depth, or all those without an enclosing candidate."""
    if not len(candidates):
        return candidates
    if every_depth:
        above = nearest_ancestor(parent, mask_of_rows(candidates, len(parent)))[parent[candidates]]
        return candidates[above < 0]
    depth = forest_of(parent).depth[candidates]
    outermost: Rows = candidates[depth == depth.min()]
    return outermost


def _root_of_events(trace: Trace, roots: Rows, launched: Rows) -> Ints:
    """Return the position of the root that encloses each event or its call; -1 if none does.

    Device events that are not `launched` have no root.
    """
    is_root = mask_of_rows(roots, len(trace))
    parent = attach_backward_threads(trace, nested_parents(trace, is_root))
    root_above = positions_of_rows(roots, len(trace))[nearest_ancestor(parent, is_root)]
    root = np.where(trace.table.stream < 0, root_above[:-1], -1)
    root[launched] = root_above[trace.launch_of[launched]]
    return root
