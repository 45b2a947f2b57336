"""How long each rank takes for each phase of a step: forward, backward, optimizer, data loading."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from hta_widgets.trace.table import KINDS
from hta_widgets.trace.selection import Selection
from hta_widgets.trace.trace import Trace
from hta_widgets.trace.traceset import TraceSet
from hta_widgets.trace.derived import derived_by_rules
from hta_widgets.trace.keeping import walked
from hta_widgets.trace.names import short_name
from hta_widgets.trace.turns import rest

from hta_widgets.analysis.host_stack import nearest
from hta_widgets.analysis.over_ranks import over_ranks
from hta_widgets.analysis.results import joined
from hta_widgets.analysis.results import result
from hta_widgets.analysis.scope import Part
from hta_widgets.analysis.scope import Window
from hta_widgets.analysis.scope import parts
from hta_widgets.analysis.step_times import from_median
from hta_widgets.analysis.step_times import step_numbers

__all__ = ["PhaseRanges", "phase_label", "phase_ranges", "phase_times"]

Ints = npt.NDArray[np.int64]
Rows = npt.NDArray[np.intp]

_LOADING = re.compile(r"enumerate\(DataLoader\)|^data_?load(ing|er)?$", re.IGNORECASE)
#: Of libraries, not of the program's own course.
_NOT_A_PHASE = re.compile(r"(nccl|gloo|mpi|ucc|c10d|rccl):", re.IGNORECASE)
_LABELS = (
    (re.compile(r"Optimizer\.step#|.*\boptimizer[._ ]?step\b", re.IGNORECASE), "optimizer"),
    (re.compile(r"Optimizer\.zero_grad#|zero_grad$", re.IGNORECASE), "zero grad"),
    (re.compile(r"(.*[.:])?forward$", re.IGNORECASE), "forward"),
    (re.compile(r"(.*[.:])?backward$", re.IGNORECASE), "backward"),
    (_LOADING, "data loading"),
)
_FRAMED = re.compile(r"#+ *(.*?) *#+")


def phase_times(
    traces: TraceSet,
    *,
    selection: Selection | None = None,
    window: Window | None = None,
    ranks: Iterable[int] | None = None,
) -> pd.DataFrame:
    """Return how long each rank's host takes for each phase of a step, against the other ranks.

    Step time alone hides the slow rank, as all wait for it at the end of a step: its forward pass
    takes longer than the others', and its backward pass, in which they wait, shorter.

    Phases are ranges of the host (`record_function` and what PyTorch marks itself: the forward
    pass of DDP, the optimizer, the DataLoader) that lie on the thread of ``ProfilerStep``, within a
    step and within no other such range; of these, the names that occur exactly once in more than
    half of all steps of all ranks, whatever is selected. Ranges of communication libraries are
    none. Where the host runs ahead of its device, a phase is the time in which its work is
    launched.

    Parameters
    ----------
    traces : TraceSet
    selection : Selection, optional
        The events to work on; all by default.
    window : (start_ns, end_ns), optional
        Narrows the selection in time; phases are clipped to it.
    ranks : iterable of int, optional
        Narrows the selection to these ranks; deviations are from their median.

    Returns
    -------
    DataFrame
        One row per phase, rank and step, in that order, phases as they follow each other:

        - ``phase`` (text): ``forward``, ``backward``, ``optimizer``, ``zero grad``,
          ``data loading``, or the name without its decoration; ``name`` (text): as in the file
        - ``rank, step`` (int64)
        - ``start_ns, dur_ns`` (int64): first start; all its ranges in this step together
        - ``deviation_ns, deviation_share`` (float64): ``dur_ns`` less the median over the ranks of
          that phase and step, and that as a share of the median, NaN where it is 0

    Notes
    -----
    HTA has no such analysis. `step_times` has whole steps and what devices do in them.

    Examples
    --------
    >>> traces = hw.load("runs/job")  # doctest: +SKIP
    >>> phases = phase_times(traces)  # doctest: +SKIP
    >>> phases.groupby(["phase", "rank"])["deviation_share"].median()  # doctest: +SKIP
    """
    chosen = parts(traces, selection, window, ranks)
    phases = _phases(traces)
    place = {name: number for number, name in enumerate(phases)}
    found = list(over_ranks(chosen, _of_rank, place))
    column = {key: joined([one[key] for one in found]) for key in ("phase", "rank", "step")}
    times = {key: joined([one[key] for one in found]) for key in ("start_ns", "dur_ns")}
    position = {rank: number for number, rank in enumerate(chosen.ranks)}
    at = np.array([position[rank] for rank in column["rank"].tolist()], dtype=np.int64)
    order = np.lexsort((column["step"], at, column["phase"]))
    pairs = np.stack([column["phase"], column["step"]])
    together = np.unique(pairs, axis=1, return_inverse=True)[1].reshape(-1)
    apart, share = from_median(together, times["dur_ns"])
    labels = _labels(phases)
    codes = column["phase"][order].tolist()
    rest()
    return result(
        {
            "phase": pd.array([labels[code] for code in codes], dtype="str"),
            "name": pd.array([phases[code] for code in codes], dtype="str"),
            "rank": column["rank"][order],
            "step": column["step"][order],
            "start_ns": times["start_ns"][order],
            "dur_ns": times["dur_ns"][order],
            "deviation_ns": apart[order],
            "deviation_share": share[order],
        },
        matched={"phases": len(phases), "ranges": sum(one["ranges"] for one in found)},
        note="" if len(order) else _note(traces, phases, chosen),
    )


@dataclass(frozen=True, slots=True)
class PhaseRanges:
    """Which ranges are phases of steps, whatever is selected.

    Attributes
    ----------
    names, labels : list of str
        Of the phases, as they follow each other.
    of_rank : dict
        Of each rank: ids of ranges, ascending, their steps, and the place of each in `names`.
    """

    names: list[str]
    labels: list[str]
    of_rank: dict[int, tuple[Rows, Ints, Ints]]


def phase_ranges(traces: TraceSet) -> PhaseRanges:
    """Return the ranges that `phase_times` adds up."""
    names = _phases(traces)
    place = {name: number for number, name in enumerate(names)}
    found = over_ranks(traces, _ranges_of_phases, place)
    of_rank = dict(zip(traces.ranks, found, strict=True))
    return PhaseRanges(names, _labels(names), of_rank)


def _ranges_of_phases(trace: Trace, place: dict[str, int]) -> tuple[Rows, Ints, Ints]:
    ranges = _in_steps(trace)
    phase = _places(trace, ranges, place)
    known = phase >= 0
    return ranges.rows[known], ranges.step[known], phase[known]


def phase_label(name: str) -> str:
    """Return what a phase is called: ``Optimizer.step#SGD.step`` is the ``optimizer``."""
    framed = _FRAMED.fullmatch(name)
    plain = framed[1] if framed and framed[1] else name
    for pattern, label in _LABELS:
        if pattern.match(plain):
            return label
    return plain if framed else short_name(plain)


def _labels(names: Sequence[str]) -> list[str]:
    """Return one label per phase; where several have the same, the later ones keep their name."""
    labels: list[str] = []
    for name in names:
        label = phase_label(name)
        labels.append(label if label not in labels else name)
    return labels


def _note(traces: TraceSet, phases: Sequence[str], chosen: Sequence[Part]) -> str:
    if not chosen:
        return "no ranks are selected"
    if phases:
        return "the selection or window holds no phase of a step"
    if not any(len(_in_steps(trace).steps) for trace in walked(traces.values())):
        return "no ProfilerStep is in the trace: call the profiler's step() once an iteration"
    return "no range occurs once in most steps: mark phases with torch.profiler.record_function"


@dataclass(frozen=True, slots=True)
class _InSteps:
    """The outermost ranges within a rank's steps."""

    rows: Rows
    step: Ints  # of each
    steps: Ints  # the rank's


@derived_by_rules("ranges_in_steps")
def _in_steps(trace: Trace) -> _InSteps:
    table = trace.table
    number = step_numbers(trace)
    on_host = table.stream < 0
    is_step = (number[table.name] >= 0) & on_host
    steps = np.flatnonzero(is_step)
    loads, others = np.zeros((2, len(table.names)), dtype=bool)
    for code in np.unique(table.name[on_host]).tolist():
        text = table.names[code]
        loads[code] = _LOADING.search(text) is not None
        others[code] = _NOT_A_PHASE.match(text) is not None
    range_kind = table.kind == KINDS.index("annotation")
    is_range = (range_kind | loads[table.name]) & ~others[table.name] & on_host & ~is_step
    rows = np.flatnonzero(is_range & np.isin(table.track, np.unique(table.track[steps])))
    # What encloses each, a range or a step; those that only another range encloses are parts of it.
    above = nearest(table.parent, is_range | is_step)[table.parent[rows]]
    direct = (above >= 0) & is_step[above]
    rows = rows[direct]
    return _InSteps(rows, number[table.name[above[direct]]], np.unique(number[table.name[steps]]))


@derived_by_rules("phases")
def _phases(traces: TraceSet) -> list[str]:
    """Return the names of phases, as they follow each other."""
    once: Counter[str] = Counter()
    offset: dict[str, list[int]] = {}
    total = 0
    for steps, alone in over_ranks(traces, _alone_in_steps):
        total += steps
        for text, apart in alone:
            once[text] += 1
            offset.setdefault(text, []).append(apart)
    names_of = [name for name, count in once.items() if 2 * count > total]
    return sorted(names_of, key=lambda name: (sorted(offset[name])[len(offset[name]) // 2], name))


def _alone_in_steps(trace: Trace) -> tuple[int, list[tuple[str, int]]]:
    """Return how many steps a rank has, and what occurs once in a step, how long after its first.

    The first is the first range of the step.
    """
    found = _in_steps(trace)
    table = trace.table
    names = table.name[found.rows]
    pairs, first, counts = np.unique(
        np.stack([names, found.step]), axis=1, return_index=True, return_counts=True
    )
    begin = {
        int(step): int(start)
        for step, start in zip(
            found.step[::-1].tolist(), table.start_ns[found.rows][::-1].tolist(), strict=True
        )
    }
    alone = [
        (table.names[name], int(table.start_ns[row]) - begin[step])
        for (name, step), row, count in zip(
            pairs.T.tolist(), found.rows[first].tolist(), counts.tolist(), strict=True
        )
        if count == 1
    ]
    return len(found.steps), alone


def _places(trace: Trace, ranges: _InSteps, place: dict[str, int]) -> Ints:
    """Return which phase each range is of, -1 for none."""
    table = trace.table
    codes = {code: place.get(table.names[code], -1) for code in np.unique(table.name[ranges.rows])}
    return np.array([codes[code] for code in table.name[ranges.rows].tolist()], dtype=np.int64)


def _of_rank(part: Part, place: dict[str, int]) -> dict[str, Any]:
    trace = part.trace
    ranges = _in_steps(trace)
    phase = _places(trace, ranges, place)
    kept = part.has(ranges.rows) & (phase >= 0)
    rows, step, phase = ranges.rows[kept], ranges.step[kept], phase[kept]
    start, end = part.clipped(rows)
    pairs, first, inverse = np.unique(
        np.stack([phase, step]), axis=1, return_index=True, return_inverse=True
    )
    lasting = np.zeros(len(first), dtype=np.int64)
    np.add.at(lasting, inverse.reshape(-1), end - start)
    return {
        "phase": pairs[0],
        "step": pairs[1],
        "rank": np.full(len(first), part.rank, dtype=np.int64),
        "start_ns": start[first] + trace.shift_ns,
        "dur_ns": lasting,
        "ranges": len(rows),
    }
