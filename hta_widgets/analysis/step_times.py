"""How long each rank takes for each training step, and what of it is its own work."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt
import pandas as pd

from hta_widgets.trace.selection import Selection
from hta_widgets.trace.trace import Trace
from hta_widgets.trace.traceset import TraceSet
from hta_widgets.trace.derived import derived
from hta_widgets.trace.intervals import Intervals
from hta_widgets.trace.intervals import subtract
from hta_widgets.trace.intervals import union
from hta_widgets.trace.keeping import walked

from hta_widgets.analysis.collective_waits import RankWaits
from hta_widgets.analysis.collective_waits import Waits
from hta_widgets.analysis.collective_waits import waits_of
from hta_widgets.analysis.collectives import Clock
from hta_widgets.analysis.over_ranks import over_ranks
from hta_widgets.analysis.results import joined
from hta_widgets.analysis.results import result
from hta_widgets.analysis.scope import Part
from hta_widgets.analysis.scope import Window
from hta_widgets.analysis.scope import count_kinds
from hta_widgets.analysis.scope import part_of
from hta_widgets.analysis.scope import parts

__all__ = [
    "DEVICE_TIMES",
    "Waits",
    "device_times",
    "from_median",
    "host_steps",
    "step_numbers",
    "step_times",
    "waits_of",
]

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Rows = npt.NDArray[np.intp]
Flags = npt.NDArray[np.bool_]

_STEP = re.compile(r"ProfilerStep\s*#\s*(\d{1,18})")

#: What `device_times` returns, in this order.
DEVICE_TIMES: tuple[str, ...] = (
    "device_start_ns",
    "device_span_ns",
    "busy_ns",
    "idle_ns",
    "compute_ns",
    "communication_ns",
    "exposed_communication_ns",
    "wait_ns",
    "exposed_wait_ns",
    "unmatched_exposed_ns",
)


def step_times(
    traces: TraceSet,
    *,
    clock: Clock | None = None,
    selection: Selection | None = None,
    window: Window | None = None,
    ranks: Iterable[int] | None = None,
) -> pd.DataFrame:
    """Return how long each rank takes for each step, and what its device does in that time.

    Ranks that wait for each other in collectives take equally long for a step, so step time alone
    hides the slow rank: its step is as long as that of the others, who wait. What tells is
    ``own_ns``, the step less the time that the rank waited in collectives and computed nothing; the
    slow rank has most of it.

    A step is the host's range ``ProfilerStep#n``. Device work belongs to the step that launched it,
    also where it runs on after the range has ended, so ``device_span_ns`` may be longer than
    ``dur_ns``. A rank waits from its arrival at a collective to that of the last rank, as in
    `collectives`.

    Parameters
    ----------
    traces : TraceSet
    clock : {"host", "fitted"}, optional
        Whose times tell the last arrival. Default: those of the set, or the fitted ones where ends
        of collectives disagree on the recorded clock by clearly more than on the fitted one.
    selection : Selection, optional
        The events to work on; all by default.
    window : (start_ns, end_ns), optional
        Narrows the selection in time; steps and device work are clipped to it.
    ranks : iterable of int, optional
        Narrows the selection to these ranks; deviations are from their median.

    Returns
    -------
    DataFrame
        One row per rank and step, in that order. ``rank``; ``step``, n of ``ProfilerStep#n``;
        ``start_ns, dur_ns`` of the range on the host; of the device work that it launched, over all
        streams:

        - ``device_start_ns`` (-1 for none), ``device_span_ns``: from the first start to the last
          end; ``busy_ns``: any work; ``idle_ns``: the rest of the span
        - ``compute_ns, communication_ns``: any of that kind, whatever else runs;
          ``exposed_communication_ns``: communicating and not computing
        - ``wait_ns``: in a collective that has not all its ranks yet; ``exposed_wait_ns``: and
          computing nothing
        - ``unmatched_exposed_ns``: communicating and not computing, in collectives of which the
          files lack other ranks' events, so that what of it is waiting is known in part at best
        - ``own_ns``: ``dur_ns - exposed_wait_ns``

        All int64. ``dur_deviation_ns, own_deviation_ns`` (float64): ``dur_ns`` and ``own_ns`` less
        the median over the ranks of that step; ``dur_deviation_share, own_deviation_share``
        (float64): the same as a share of that median, NaN where it is 0.

        ``.attrs["clock"]`` says whose times tell the last arrival.

    Raises
    ------
    TraceError
        For an unknown clock, or a rank that is not there.

    Examples
    --------
    >>> traces = hw.load("runs/job")  # doctest: +SKIP
    >>> steps = step_times(traces)  # doctest: +SKIP
    >>> steps.groupby("rank")["own_deviation_share"].mean()  # doctest: +SKIP
    """
    chosen = parts(traces, selection, window, ranks)
    waits = waits_of(traces, clock)
    found = list(over_ranks(chosen, _of_rank, each=waits.each(chosen.ranks)))
    column = {
        name: joined([one[name] for one in found])
        for name in ("rank", "step", "start_ns", "dur_ns", *DEVICE_TIMES)
    }
    column["own_ns"] = column["dur_ns"] - column["exposed_wait_ns"]
    deviations = {}
    for name in ("dur", "own"):
        apart, share = from_median(column["step"], column[f"{name}_ns"])
        deviations[f"{name}_deviation_ns"] = apart
        deviations[f"{name}_deviation_share"] = share
    without = [
        trace for trace, one in zip(chosen.traces, found, strict=True) if not len(one["step"])
    ]
    return result(
        {**column, **deviations},
        matched={"steps": len(column["step"]), **count_kinds(chosen)},
        note=_note(without, len(chosen)),
        clock=waits.clock,
    )


def _note(without: list[Trace], ranks: int) -> str:
    if not ranks:
        return "no ranks are selected"
    known = sum(_steps_of(trace) for trace in walked(without))
    if len(without) == ranks:
        if known:
            return (
                "the selection or window holds no range ProfilerStep#n of the host, of which"
                f" there are {known}: select them too"
            )
        return "no ProfilerStep is in the trace: call the profiler's step() once an iteration"
    selected = " selected" if known else ""
    listed = ", ".join(str(trace.rank) for trace in without)
    return f"no ProfilerStep{selected} on ranks {listed}" if without else ""


def _steps_of(trace: Trace) -> int:
    """Return how many steps a rank has, selected or not."""
    part = part_of(trace, Selection())
    return part.once("steps", lambda: len(host_steps(part)[0]))


def _of_rank(part: Part, waits: RankWaits) -> dict[str, Ints]:
    numbers, start, end = host_steps(part)
    trace = part.trace
    code = np.empty(0, dtype=np.int64)
    if len(numbers):
        at = np.minimum(np.searchsorted(numbers, trace.table.step), len(numbers) - 1)
        code = np.where(numbers[at] == trace.table.step, at, -1)
    times = device_times(part, code, len(numbers), waits)
    known = times["device_start_ns"] >= 0
    times["device_start_ns"] = np.where(known, times["device_start_ns"] + trace.shift_ns, -1)
    return {
        "rank": np.full(len(numbers), part.rank, dtype=np.int64),
        "step": numbers,
        "start_ns": start + trace.shift_ns,
        "dur_ns": end - start,
        **times,
    }


def host_steps(part: Part) -> tuple[Ints, Ints, Ints]:
    """Return the numbers of a rank's steps, ascending, and their starts and ends on the host."""
    table = part.table
    number_of = step_numbers(part.trace)
    rows = part.rows[number_of[table.name[part.rows]] >= 0]
    rows = rows[table.stream[rows] < 0]
    numbers, inverse = np.unique(number_of[table.name[rows]], return_inverse=True)
    start, end = part.clipped(rows)
    first = np.full(len(numbers), np.iinfo(np.int64).max)
    last = np.full(len(numbers), np.iinfo(np.int64).min)
    np.minimum.at(first, inverse, start)
    np.maximum.at(last, inverse, end)
    return numbers.astype(np.int64), first, last


def step_numbers(trace: Trace) -> Ints:
    """Return for each name of a rank which step it is of, -1 for names that are no step's."""
    names = trace.table.names
    return derived(
        trace,
        "step_numbers",
        lambda: _step_numbers(names.values),
        lambda known: len(known) == len(names),
    )


def _step_numbers(names: Sequence[str]) -> Ints:
    numbers = np.full(len(names), -1, dtype=np.int64)
    for code, text in enumerate(names):
        if text.startswith("ProfilerStep") and (found := _STEP.match(text)):
            numbers[code] = int(found[1])
    return numbers


def from_median(step: Ints, value: Ints) -> tuple[Floats, Floats]:
    """Return how far values are from the median of their step, and that as a share of it."""
    middle = np.zeros(len(value))
    if len(value):
        order = np.lexsort((value, step))
        ordered = value[order].astype(np.float64)
        first = np.flatnonzero(np.diff(step[order], prepend=step[order][0] - 1))
        sizes = np.diff(np.append(first, len(value)))
        median = (ordered[first + (sizes - 1) // 2] + ordered[first + sizes // 2]) / 2
        middle[order] = np.repeat(median, sizes)
    apart = value - middle
    return apart, apart / np.where(middle != 0, middle, np.nan)


# --- the device -----------------------------------------------------------------------------------


def device_times(part: Part, code: Ints, count: int, waits: RankWaits) -> dict[str, Ints]:
    """Return `DEVICE_TIMES` of a rank's work, stretch by stretch.

    Parameters
    ----------
    part : Part
    code : array of int
        By id: which of the stretches 0 .. `count` - 1 an event belongs to, -1 for none.
    count : int
    waits : RankWaits
    """
    if not count:
        return {name: np.empty(0, dtype=np.int64) for name in DEVICE_TIMES}
    rows = part.whole.busy_rows()
    rows = rows[code[rows] >= 0]
    first = np.full(count, np.iinfo(np.int64).max)
    last = np.full(count, np.iinfo(np.int64).min)
    np.minimum.at(first, code[rows], part.table.start_ns[rows])
    np.maximum.at(last, code[rows], part.table.end_ns[rows])
    # A window in which the device idles all the time is a part of the step as any other.
    first, last = part.clipped_edges(first, last)
    rows = part.busy_rows()
    rows = rows[code[rows] >= 0]
    start, end = part.clipped(rows)
    there = last > first
    there[code[rows]] = True
    apart = _Apart(int(start.min(initial=0)), int(end.max(initial=0)), count)
    busy = apart.pieces(code[rows], start, end)
    kinds = {}
    for kind in ("compute", "communication"):
        mine = part.of_kinds(kind)
        mine = mine[(code[mine] >= 0) & (part.table.stream[mine] >= 0)]
        kinds[kind] = apart.pieces(code[mine], *part.clipped(mine))
    selected = np.zeros(len(part.trace), dtype=bool)
    selected[rows] = True
    kept = selected[waits.rows]
    waiting, begin, until = waits.rows[kept], waits.begin[kept], waits.until[kept]
    if part.low is not None:
        begin = np.maximum(begin, part.low)
    if part.high is not None:
        until = np.minimum(until, part.high)
    wait = apart.pieces(code[waiting], begin, until)
    unmatched = waits.unmatched[selected[waits.unmatched]]
    unknown = apart.pieces(code[unmatched], *part.clipped(unmatched))
    span = np.where(there, last - np.where(there, first, 0), 0)
    spent = apart.lengths(busy)
    return {
        "device_start_ns": np.where(there, first, -1),
        "device_span_ns": span,
        "busy_ns": spent,
        "idle_ns": span - spent,
        "compute_ns": apart.lengths(kinds["compute"]),
        "communication_ns": apart.lengths(kinds["communication"]),
        "exposed_communication_ns": apart.lengths(
            subtract(kinds["communication"], kinds["compute"])
        ),
        "wait_ns": apart.lengths(wait),
        "exposed_wait_ns": apart.lengths(subtract(wait, kinds["compute"])),
        "unmatched_exposed_ns": apart.lengths(subtract(unknown, kinds["compute"])),
    }


class _Apart:
    """Lays stretches, which may overlap, one behind the other, so that one union serves all."""

    def __init__(self, first: int, last: int, count: int) -> None:
        self._first, self._count = first, count
        # One more than anything lasts: what ends one stretch does not touch the next.
        self._width = last - first + 1

    def pieces(self, code: Ints, start: Ints, end: Ints) -> Intervals:
        moved = code * self._width - self._first
        return union(start + moved, end + moved)

    def lengths(self, pieces: Intervals) -> Ints:
        """Return the covered time of each stretch."""
        found = np.zeros(self._count, dtype=np.int64)
        np.add.at(found, pieces.start // self._width, pieces.end - pieces.start)
        return found
