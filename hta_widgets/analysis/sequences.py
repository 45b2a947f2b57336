"""Which sequences of kernels occur again and again under an operator."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial

import numpy as np
import numpy.typing as npt
import pandas as pd

from hta_widgets.trace.table import KINDS
from hta_widgets.trace.selection import Selection
from hta_widgets.trace.trace import Trace
from hta_widgets.trace.traceset import TraceSet

from hta_widgets.analysis.host_stack import backward_parents
from hta_widgets.analysis.host_stack import below_backward
from hta_widgets.analysis.host_stack import forest_of
from hta_widgets.analysis.host_stack import nearest
from hta_widgets.analysis.host_stack import nested_parents
from hta_widgets.analysis.host_stack import of_name
from hta_widgets.analysis.name_runs import Runs
from hta_widgets.analysis.over_ranks import over_ranks
from hta_widgets.analysis.results import joined
from hta_widgets.analysis.results import result
from hta_widgets.analysis.scope import Part
from hta_widgets.analysis.scope import parts

__all__ = ["Patterns", "find_patterns", "frequent_kernel_sequences"]

Ints = npt.NDArray[np.int64]
Rows = npt.NDArray[np.intp]

_ANNOTATION = KINDS.index("annotation")


def frequent_kernel_sequences(
    traces: TraceSet,
    operator_name: str,
    *,
    min_pattern_len: int = 3,
    top_k: int | None = None,
    every_depth: bool = False,
    selection: Selection | None = None,
    window: tuple[int, int] | None = None,
    ranks: Iterable[int] | None = None,
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
    traces : TraceSet
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
    ranks : iterable of int, optional
        Narrows the selection to these ranks.

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

    Examples
    --------
    >>> traces = hw.load("runs/job")  # doctest: +SKIP
    >>> frequent_kernel_sequences(traces, "aten::linear", top_k=5)  # doctest: +SKIP
    """
    find = partial(find_patterns, top_k=top_k, every_depth=every_depth)
    chosen = parts(traces, selection, window, ranks)
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
    """The patterns of one rank, the most frequent first.

    Attributes
    ----------
    rank : int
    texts : list of str
    count, kernel_ns, operator_ns : arrays of int64
    occurrences : array of int
        Ids of the operators that are occurrences, ascending.
    pattern : array of int64
        Which pattern each occurrence has, -1 where it was cut off.
    below : array of int64
        For each event the occurrence (a position in `occurrences`) that it is or lies below, by
        its launch if it is the device's; -1 for none.
    candidates, kernels : int
        How many events have such a name, and how many device events lie below occurrences.
    """

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
