"""Durations of steps and their phases, compared between ranks.

A step is the host's range ``ProfilerStep#n``. Its phases (forward, backward, optimizer) follow from
the operators and annotations in it. All ranks end a step together, so the duration of the step does
not show which rank is slow. ``own_ns``, the step without waits for other ranks, does. For example,
if one of two ranks waits for 30 ns in a step of 100 ns, their own times are 70 and 100 ns.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from hta_widgets.analysis.cross_rank.arrivals import Clock
from hta_widgets.analysis.cross_rank.waits import RankWaits, collective_waits
from hta_widgets.analysis.frames import concat_arrays, int64, result_frame, stack_blocks
from hta_widgets.analysis.map_ranks import map_ranks
from hta_widgets.analysis.scope import (
    RankPart,
    RankParts,
    Window,
    count_by_kind,
    rank_part,
    rank_parts,
)
from hta_widgets.arguments import check_arguments
from hta_widgets.facts import note_text
from hta_widgets.taxonomy import KINDS
from hta_widgets.trace.arrays import (
    Bools,
    Floats,
    Ints,
    Rows,
    edges_by_group,
    mask_of_rows,
    positions_in,
    sum_by_group,
)
from hta_widgets.trace.build import step_numbers
from hta_widgets.trace.host_stack import name_mask, nearest_ancestor, repeats_step
from hta_widgets.trace.intervals import Intervals, subtract, union
from hta_widgets.trace.memo import iter_ranks, memoize
from hta_widgets.trace.names import short_name
from hta_widgets.trace.trace import Trace
from hta_widgets.trace.traceset import Selection, TraceSet

#: Arg of events that an export clipped to its window; see `hta_widgets.export.traces.members`.
CLIPPED = "hta_clipped"

#: Columns of `device_times`, in order.
DEVICE_TIMES: tuple[str, ...] = (
    "device_start_ns", "device_span_ns", "busy_ns", "idle_ns", "compute_ns", "communication_ns",
    "exposed_communication_ns", "wait_ns", "exposed_wait_ns", "unmatched_exposed_ns",
)  # fmt: skip


@check_arguments
def step_times(
    traces: TraceSet,
    *,
    clock: Clock | None = None,
    selection: Selection | None = None,
    window: Window | None = None,
    ranks: Iterable[int] | None = None,
) -> pd.DataFrame:
    """Return the duration of each rank's steps, and the time of its device's activities in each.

    Ranks that wait for each other in collectives take equally long for a step, which hides the slow
    rank. Compare ``own_ns``, the step without the time during which the rank waited in collectives
    and computed nothing. It is largest on the slow rank.

    A step is the host's range ``ProfilerStep#n``. Device work belongs to the step that launched it,
    even if it runs after the end of the range, so ``device_span_ns`` may exceed ``dur_ns``. A host
    that only launches leaves a step before the device does most of its work. Such steps are in
    ``.attrs["ahead"]``, and their ``own_ns`` is a part of ``device_span_ns``. A rank waits from its
    arrival at a collective until the arrival of the last rank, as in `collectives`.

    Parameters
    ----------
    traces : TraceSet
    clock : {"host", "fitted"}, optional
        The clock of arrivals. Default: fitted, or the trace set's if no collective spans two ranks.
    selection, window, ranks : Selection, (start_ns, end_ns), iterable of int, optional
        The events to analyze, restricted by time and ranks. Default: all. Steps and device work are
        clipped to the window, and deviations are from the median of these ranks.

    Returns
    -------
    DataFrame
        One row per rank and step, in this order. ``rank``; ``step``, n of ``ProfilerStep#n``;
        ``start_ns, dur_ns`` of the range on the host; for the device work launched in it, over all
        streams:

        - ``device_start_ns`` (-1 without work), ``device_span_ns``: from the first start to the
          last end; ``busy_ns``: any work; ``idle_ns``: the rest of the span
        - ``compute_ns, communication_ns``: any work of that kind, regardless of other work;
          ``exposed_communication_ns``: communicating and not computing
        - ``wait_ns``: time in a collective before its last rank arrives; ``exposed_wait_ns``: the
          part without compute
        - ``unmatched_exposed_ns``: communicating and not computing, in collectives whose events on
          other ranks are missing. How much of it is waiting is unknown.
        - ``own_ns``: ``dur_ns - exposed_wait_ns``, or ``device_span_ns - exposed_wait_ns`` if the
          hosts are ahead of the devices in this step

        All are int64. ``dur_deviation_ns, own_deviation_ns`` (float64): ``dur_ns`` and ``own_ns``
        minus the median over the ranks in that step; ``dur_deviation_share, own_deviation_share``
        (float64): the same as a share of that median, NaN if it is 0. Clipped steps have NaN.

        ``.attrs``: ``clock``, the clock used; ``ahead`` (list of int), the steps for which, summed
        over all ranks, the devices' spans are longer than the hosts' ranges, and less than half of
        these spans is within these ranges.
    """
    chosen = rank_parts(traces, selection, window, ranks)
    traces = chosen.owner
    waits = collective_waits(traces, clock)
    arguments = waits.arguments_by_rank(chosen.ranks)
    columns_of_ranks = list(map_ranks(chosen, _steps_of_rank, each=arguments))
    schema = {**int64("rank step start_ns dur_ns"), **dict.fromkeys(DEVICE_TIMES, "int64")}
    column = stack_blocks(columns_of_ranks, {**schema, "whole": "bool"})
    is_whole = column.pop("whole")
    ahead = steps_ahead(traces)
    length = step_length(ahead, column["step"], column["dur_ns"], column["device_span_ns"])
    column["own_ns"] = length - column["exposed_wait_ns"]
    deviations = {}
    for name in ("dur", "own"):
        deviations[f"{name}_deviation_ns"], deviations[f"{name}_deviation_share"] = (
            deviation_from_median(column["step"], column[f"{name}_ns"], is_whole)
        )
    without_steps = [
        trace
        for trace, columns in zip(chosen.traces, columns_of_ranks, strict=True)
        if not len(columns["step"])
    ]
    return result_frame(
        {**column, **deviations},
        matched={"steps": len(column["step"]), **count_by_kind(chosen)},
        note=(_missing_steps_note(without_steps, len(chosen)), _clipped_note(is_whole)),
        clock=waits.clock,
        ahead=ahead.tolist(),
    )


def _missing_steps_note(without_steps: list[Trace], ranks: int) -> str:
    """Return a note about ranks without selected steps, out of `ranks` in total."""
    if not ranks:
        return note_text("no_ranks")
    if not without_steps:
        return ""
    recorded = sum(len(_all_steps(trace)[0]) for trace in iter_ranks(without_steps))
    if len(without_steps) < ranks:
        listed = ", ".join(str(trace.rank) for trace in without_steps)
        return note_text("no_steps_selected_on" if recorded else "no_steps_on", ranks=listed)
    return note_text("no_steps_selected", steps=recorded) if recorded else note_text("no_steps")


def _clipped_note(is_whole: Bools) -> str:
    return "" if is_whole.all() else "steps that the window cuts are not compared between ranks"


def _all_steps(trace: Trace) -> tuple[Ints, Ints, Ints]:
    part = rank_part(trace, Selection())
    return part.get_or_compute("steps", lambda: host_steps(part))


def whole_steps(part: RankPart, steps: Ints) -> Bools:
    """Return whether each step is entirely in the window and was not clipped by an export."""
    numbers, start, end = _all_steps(part.trace)
    positions = np.searchsorted(numbers, steps)
    is_whole = ~np.isin(steps, clipped_steps(part.trace))
    if part.low is not None:
        is_whole &= start[positions] >= part.low
    if part.high is not None:
        is_whole &= end[positions] <= part.high
    return is_whole


@memoize
def clipped_steps(trace: Trace) -> Ints:
    """Return the numbers of the steps that an export clipped to its window."""
    if trace.window_ns is None:
        return np.empty(0, dtype=np.int64)
    rows = [row for row in _step_rows(trace).tolist() if CLIPPED in trace.args(row)]
    return np.unique(trace.table.step[rows])


@memoize
def _step_rows(trace: Trace) -> Rows:
    table = trace.table
    is_step = step_numbers(table.names.values) >= 0
    return np.flatnonzero(is_step[table.name] & (table.stream < 0))


def _steps_of_rank(part: RankPart, waits: RankWaits) -> dict[str, Any]:
    numbers, start, end = host_steps(part)
    trace = part.trace
    times = device_times(part, positions_in(numbers, trace.table.step), len(numbers), waits)
    has_work = times["device_start_ns"] >= 0
    times["device_start_ns"] = np.where(has_work, times["device_start_ns"] + trace.shift_ns, -1)
    return {
        "rank": part.rank,
        "step": numbers,
        "start_ns": start + trace.shift_ns,
        "dur_ns": end - start,
        "whole": whole_steps(part, numbers),
        **times,
    }


def host_steps(part: RankPart) -> tuple[Ints, Ints, Ints]:
    """Return a rank's step numbers in ascending order, with their starts and ends on the host."""
    rows = _step_rows(part.trace)
    rows = rows[part.contains(rows)]
    return edges_by_group(part.table.step[rows], *part.clip_rows(rows))


@memoize
def steps_ahead(traces: TraceSet) -> Ints:
    """Return the numbers of the steps that the hosts leave before most of their device work runs.

    The hosts' ranges are also shorter than the devices' spans, so a few late events do not matter.
    """
    spans = list(map_ranks(traces, _spans_of_steps))
    step, *times_ns = (concat_arrays([span[column] for span in spans]) for column in range(4))
    numbers, code = np.unique(step, return_inverse=True)
    device_ns, overlap_ns, host_ns = (
        sum_by_group(code, time_ns, len(numbers)) for time_ns in times_ns
    )
    return numbers[(2 * overlap_ns < device_ns) & (host_ns < device_ns)]


def device_steps(traces: TraceSet) -> dict[int, list[tuple[int, int, int]]]:
    """Return, per rank, the steps in `steps_ahead` with start and duration of their device work."""
    ahead = steps_ahead(traces)
    steps_of_rank = {}
    for trace in iter_ranks(traces.values()):
        numbers, first, last = device_edges(trace)
        positions = np.flatnonzero(np.isin(numbers, ahead))
        columns = numbers[positions], first[positions] + trace.shift_ns, (last - first)[positions]
        steps_of_rank[trace.rank] = list(zip(*(column.tolist() for column in columns), strict=True))
    return steps_of_rank


def _spans_of_steps(trace: Trace) -> tuple[Ints, Ints, Ints, Ints]:
    """Return the steps with device work, and the duration of three spans for each.

    These are the device's span, its part within the host's range, and the host's range.
    """
    numbers, start, end = _all_steps(trace)
    steps, first, last = device_edges(trace)
    positions = np.searchsorted(numbers, steps)
    start, end = start[positions], end[positions]
    overlap_ns = np.maximum(np.minimum(last, end) - np.maximum(first, start), 0)
    return steps, last - first, overlap_ns, end - start


@memoize
def device_edges(trace: Trace) -> tuple[Ints, Ints, Ints]:
    """Return the steps with device work, and when each step's work first starts and last ends."""
    part, table = rank_part(trace, Selection()), trace.table
    rows = part.device_work_rows()
    rows = rows[np.isin(table.step[rows], _all_steps(trace)[0])]
    return edges_by_group(table.step[rows], table.start_ns[rows], table.end_ns[rows])


def step_length(ahead: Sequence[int] | Ints, steps: Ints, on_host: Ints, on_device: Ints) -> Ints:
    """Return each step's duration on the host, or on the device if hosts are ahead."""
    return np.where(np.isin(steps, ahead), on_device, on_host)


def deviation_from_median(step: Ints, values: Ints, is_whole: Bools) -> tuple[Floats, Floats]:
    """Return the deviation of whole steps from the median over ranks, in ns and as a share."""
    whole_values = pd.Series(values, dtype=np.float64)[is_whole]
    whole_medians = whole_values.groupby(step[is_whole]).transform("median")
    median = whole_medians.reindex(range(len(values))).to_numpy()
    deviation = values - median
    return deviation, deviation / np.where(median != 0, median, np.nan)


def device_times(part: RankPart, code: Ints, count: int, waits: RankWaits) -> dict[str, Ints]:
    """Return `DEVICE_TIMES` of a rank's work in `count` ranges; `code` is each event's range."""
    if not count:
        return {name: np.empty(0, dtype=np.int64) for name in DEVICE_TIMES}
    first, last = _edges_of_work(part, code, count)
    work = part.device_work_rows()
    work = work[code[work] >= 0]
    has_work = last > first
    has_work[code[work]] = True  # even if all of it takes 0 ns
    unmatched_rows = waits.unmatched[part.contains(waits.unmatched)]
    is_selected = part.contains(waits.rows) & (code[waits.rows] >= 0)
    begin, until = part.clip_edges(waits.begin[is_selected], waits.until[is_selected])
    # Unmatched collectives may run on the host, outside the span of the device work.
    work_edges = part.clip_rows(np.concatenate([work, unmatched_rows]))
    edges = np.concatenate([*work_edges, begin, until])
    ranges = _ConcatenatedRanges(int(edges.min(initial=0)), int(edges.max(initial=0)), count)

    def unite_rows(rows: Rows) -> Intervals:
        rows = rows[code[rows] >= 0]
        return ranges.unite(code[rows], *part.clip_rows(rows))

    on_stream = part.table.stream >= 0
    compute_rows, communication_rows = map(part.rows_of_kinds, ("compute", "communication"))
    compute = unite_rows(compute_rows[on_stream[compute_rows]])
    communication = unite_rows(communication_rows[on_stream[communication_rows]])
    wait = ranges.unite(code[waits.rows[is_selected]], begin, until)
    unmatched = unite_rows(unmatched_rows)
    # Without work, the edges are the int64 limits, and their difference would overflow.
    first, last = np.where(has_work, first, -1), np.where(has_work, last, -1)
    busy_ns = ranges.lengths(unite_rows(work))
    return {
        "device_start_ns": first,
        "device_span_ns": last - first,
        "busy_ns": busy_ns,
        "idle_ns": last - first - busy_ns,
        "compute_ns": ranges.lengths(compute),
        "communication_ns": ranges.lengths(communication),
        "exposed_communication_ns": ranges.lengths(subtract(communication, compute)),
        "wait_ns": ranges.lengths(wait),
        "exposed_wait_ns": ranges.lengths(subtract(wait, compute)),
        "unmatched_exposed_ns": ranges.lengths(subtract(unmatched, compute)),
    }


def _edges_of_work(part: RankPart, code: Ints, count: int) -> tuple[Ints, Ints]:
    """Return when each range's work first starts and last ends, clipped to the window.

    A window without device work may still be within a range's span.
    """
    rows = part.without_window.device_work_rows()
    rows = rows[code[rows] >= 0]
    first = np.full(count, np.iinfo(np.int64).max)
    last = np.full(count, np.iinfo(np.int64).min)
    np.minimum.at(first, code[rows], part.table.start_ns[rows])
    np.maximum.at(last, code[rows], part.table.end_ns[rows])
    return part.clip_edges(first, last)


class _ConcatenatedRanges:
    """Time ranges laid end to end, so that one pass can unite the intervals of all ranges."""

    def __init__(self, first: int, last: int, count: int) -> None:
        self._first, self._count = first, count
        # Ranges are 1 ns apart so that intervals of neighboring ranges do not touch.
        self._width = last - first + 1

    def unite(self, code: Ints, start: Ints, end: Ints) -> Intervals:
        """Return the union of each range's intervals, on the concatenated axis."""
        moved_by = code * self._width - self._first
        return union(start + moved_by, end + moved_by)

    def lengths(self, united: Intervals) -> Ints:
        return sum_by_group(united.start // self._width, united.end - united.start, self._count)


_LOADING = re.compile(r"enumerate\(DataLoader\)|^data_?load(ing|er)?$", re.IGNORECASE)
#: Name prefixes of the ranges of communication libraries.
_NOT_A_PHASE = re.compile(r"(nccl|gloo|mpi|ucc|c10d|rccl):", re.IGNORECASE)
_LABELS = (
    (re.compile(r"Optimizer\.step#|.*\boptimizer[._ ]?step\b", re.IGNORECASE), "optimizer"),
    (re.compile(r"Optimizer\.zero_grad#|zero_grad$", re.IGNORECASE), "zero grad"),
    (re.compile(r"(.*[.:])?forward$", re.IGNORECASE), "forward"),
    (re.compile(r"(.*[.:])?backward$", re.IGNORECASE), "backward"),
    (_LOADING, "data loading"),
)
#: A name between number signs, as in ``## forward ##``.
_BANNER = re.compile(r"#+ *(.*?) *#+")


@check_arguments
def phase_times(
    traces: TraceSet,
    *,
    selection: Selection | None = None,
    window: Window | None = None,
    ranks: Iterable[int] | None = None,
) -> pd.DataFrame:
    """Return each rank's host time in each phase of a step, compared with other ranks.

    The duration of a step hides the slow rank, because all others wait for it. Phases show it: its
    forward pass takes longer, and its backward pass, in which the others wait, is shorter.

    Phases are the outermost host ranges (`record_function` and PyTorch's own: the forward pass of
    DDP, the optimizer, the DataLoader) on the thread of ``ProfilerStep`` within a step whose names
    occur exactly once in more than half of all steps of all ranks, selected or not. Ranges of
    communication libraries are excluded. If hosts run ahead, a phase is when its work is launched.

    Parameters
    ----------
    traces : TraceSet
    selection, window, ranks : Selection, (start_ns, end_ns), iterable of int, optional
        The events to analyze, restricted by time and ranks. Default: all. Phases are clipped to the
        window, and deviations are from the median of these ranks.

    Returns
    -------
    DataFrame
        One row per phase, rank and step, in this order; phases are in their order within a step:

        - ``phase`` (str): ``forward``, ``backward``, ``optimizer``, ``zero grad``,
          ``data loading``, or the name without its decoration; ``name`` (str): as in the file
        - ``rank, step`` (int64)
        - ``start_ns, dur_ns`` (int64): first start and total duration of its ranges in this step
        - ``deviation_ns, deviation_share`` (float64): ``dur_ns`` minus the median over the ranks in
          that phase and step, and as a share of it (NaN if it is 0); both are NaN in clipped steps
    """
    chosen = rank_parts(traces, selection, window, ranks)
    traces = chosen.owner
    phases = _phase_names(traces)
    number_of = {name: number for number, name in enumerate(phases)}
    columns_of_ranks = list(map_ranks(chosen, _phases_of_rank, number_of))
    schema = {**int64("phase rank step start_ns dur_ns"), "whole": "bool"}
    column = stack_blocks(columns_of_ranks, schema)
    is_whole = column.pop("whole")
    pairs = np.stack([column["phase"], column["step"]])
    pair_code = np.unique(pairs, axis=1, return_inverse=True)[1].reshape(-1)
    column["deviation_ns"], column["deviation_share"] = deviation_from_median(
        pair_code, column["dur_ns"], is_whole
    )
    # Each rank's rows are already sorted by phase and step, and ranks are in order.
    order = np.argsort(column["phase"], kind="stable")
    column = {name: values[order] for name, values in column.items()}
    codes, labels = column.pop("phase").tolist(), _phase_labels(phases)
    return result_frame(
        {
            "phase": pd.array([labels[code] for code in codes], dtype="str"),
            "name": pd.array([phases[code] for code in codes], dtype="str"),
            **column,
        },
        matched={
            "phases": len(phases),
            "ranges": sum(columns_of_rank["ranges"] for columns_of_rank in columns_of_ranks),
        },
        note=_clipped_note(is_whole) if len(order) else _phase_note(traces, phases, chosen),
    )


@dataclass(frozen=True, slots=True)
class RankPhases:
    """A rank's ranges that are steps or phases, whether or not selected."""

    rows: Rows  # rows of the steps, then of their phases
    step: Ints
    phase: Ints  # 0 for steps, otherwise 1 + the position in `PhaseRanges.names`


@dataclass(frozen=True, slots=True)
class PhaseRanges:
    """The phases of a job, and each rank's ranges."""

    names: list[str]
    labels: list[str]
    by_rank: dict[int, RankPhases]


def phase_ranges(traces: TraceSet) -> PhaseRanges:
    """Return the ranges whose times `step_times` and `phase_times` return."""
    names = _phase_names(traces)
    number_of = {name: number for number, name in enumerate(names)}
    phases = map_ranks(traces, _rank_phases, number_of)
    by_rank = dict(zip(traces.ranks, phases, strict=True))
    return PhaseRanges(names, _phase_labels(names), by_rank)


def _rank_phases(trace: Trace, number_of: dict[str, int]) -> RankPhases:
    ranges = _ranges_in_steps(trace)
    phase = _phase_of_ranges(trace, ranges, number_of)
    in_phase = phase >= 0
    rows = _step_rows(trace)
    return RankPhases(
        np.concatenate([rows, ranges.rows[in_phase]]),
        np.concatenate([trace.table.step[rows], ranges.step[in_phase]]),
        np.concatenate([np.zeros(len(rows), np.int64), phase[in_phase] + 1]),
    )


def phase_label(name: str) -> str:
    """Return the label of a phase: ``optimizer`` for ``Optimizer.step#SGD.step``."""
    banner = _BANNER.fullmatch(name)
    # A banner may consist of number signs only.
    text = banner[1] if banner and banner[1] else name
    for pattern, label in _LABELS:
        if pattern.match(text):
            return label
    return text if banner else short_name(text)


def _phase_labels(names: Sequence[str]) -> list[str]:
    """Return one label per phase; if its label is taken, a phase keeps its name."""
    labels: list[str] = []
    for name in names:
        label = phase_label(name)
        labels.append(label if label not in labels else name)
    return labels


def _phase_note(traces: TraceSet, phases: Sequence[str], chosen: RankParts) -> str:
    if not len(chosen):
        return note_text("no_ranks")
    if phases:
        return "no phase of a step is in the selection or window"
    if not any(len(_ranges_in_steps(trace).steps) for trace in iter_ranks(traces.values())):
        return note_text("no_steps")
    return "no range occurs once in most steps: mark phases with torch.profiler.record_function"


@dataclass(frozen=True, slots=True)
class _RangesInSteps:
    """The outermost ranges in a rank's steps."""

    rows: Rows
    step: Ints  # of each range
    steps: Ints  # for the whole rank


@memoize
def _ranges_in_steps(trace: Trace) -> _RangesInSteps:
    table, step_rows = trace.table, _step_rows(trace)
    is_step = mask_of_rows(step_rows, len(table))
    is_range = (table.kind == KINDS.index("annotation")) | name_mask(trace, _LOADING.search)
    is_range &= (table.stream < 0) & ~name_mask(trace, _NOT_A_PHASE.match)
    is_range &= ~is_step & ~repeats_step(trace)
    rows = np.flatnonzero(is_range & np.isin(table.track, np.unique(table.track[step_rows])))
    # The range or step that encloses each range. Nested ranges are skipped.
    above = nearest_ancestor(table.parent, is_range | is_step)[table.parent[rows]]
    is_outermost = (above >= 0) & is_step[above]
    rows, step = rows[is_outermost], table.step[above[is_outermost]]
    return _RangesInSteps(rows, step, np.unique(table.step[step_rows]))


@memoize
def _phase_names(traces: TraceSet) -> list[str]:
    """Return the names of phases, sorted by their median start within a step."""
    offsets_ns: dict[str, list[int]] = {}
    total = 0
    for steps, names in map_ranks(traces, _names_once_per_step):
        total += steps
        for name, offset_ns in names:
            offsets_ns.setdefault(name, []).append(offset_ns)
    middles_ns = {
        name: sorted(offsets)[len(offsets) // 2]
        for name, offsets in offsets_ns.items()
        if 2 * len(offsets) > total
    }
    return sorted(middles_ns, key=lambda name: (middles_ns[name], name))


def _names_once_per_step(trace: Trace) -> tuple[int, list[tuple[str, int]]]:
    """Return a rank's number of steps, and the names that occur once within a step.

    Each name comes with its start, in ns after the first range of the step.
    """
    ranges_in_steps = _ranges_in_steps(trace)
    table, rows = trace.table, ranges_in_steps.rows
    ranges = pd.DataFrame({"name": table.name[rows], "step": ranges_in_steps.step})
    start = pd.Series(table.start_ns[rows])
    offset_ns = start - start.groupby(ranges_in_steps.step).transform("first")
    is_unique = ~ranges.duplicated(keep=False)
    names = [table.names[code] for code in ranges["name"][is_unique].tolist()]
    return len(ranges_in_steps.steps), list(zip(names, offset_ns[is_unique].tolist(), strict=True))


def _phase_of_ranges(trace: Trace, ranges: _RangesInSteps, number_of: dict[str, int]) -> Ints:
    names = [trace.table.names[code] for code in trace.table.name[ranges.rows].tolist()]
    return np.array([number_of.get(name, -1) for name in names], dtype=np.int64)


def _phases_of_rank(part: RankPart, number_of: dict[str, int]) -> dict[str, Any]:
    trace = part.trace
    ranges = _ranges_in_steps(trace)
    phase = _phase_of_ranges(trace, ranges, number_of)
    is_selected = part.contains(ranges.rows) & (phase >= 0)
    rows, step, phase = ranges.rows[is_selected], ranges.step[is_selected], phase[is_selected]
    start, end = part.clip_rows(rows)
    pairs, first, inverse = np.unique(
        np.stack([phase, step]), axis=1, return_index=True, return_inverse=True
    )
    return {
        "phase": pairs[0],
        "step": pairs[1],
        "rank": part.rank,
        "start_ns": start[first] + trace.shift_ns,
        "dur_ns": sum_by_group(inverse.reshape(-1), end - start, len(first)),
        "whole": whole_steps(part, pairs[1]),
        "ranges": len(rows),
    }
