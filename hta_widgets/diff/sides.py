"""Represents one side of a comparison: the events of its ranks, and their common steps.

A step is the host's range ``ProfilerStep#n``. It ends where the next one begins, so steps do not
overlap. For ranges from 0 to 110 and from 100 to 200 ns, the windows are

    step 1: 0–100, step 2: 100–200, overlap_ns 10

If hosts leave most of their steps before the devices do the work, device steps are used. A device
step extends from the end of the previous step's work to the end of its own work.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property, reduce
from typing import NamedTuple

import numpy as np

from hta_widgets.analysis.cross_rank.waits import CollectiveWaits, collective_waits
from hta_widgets.analysis.scope import RankPart
from hta_widgets.analysis.steps import clipped_steps, device_edges, host_steps, steps_ahead
from hta_widgets.readers.formats import formats_named, load_references
from hta_widgets.taxonomy import KINDS
from hta_widgets.trace.arrays import Ints
from hta_widgets.trace.intervals import CumulativeCoverage, Intervals, union
from hta_widgets.trace.traceset import TraceSet

PartsByRank = dict[int, RankPart]


class _SideSteps(NamedTuple):
    """Numbers and bounds (steps, 2) of a rank's steps, and the time by which they overlapped."""

    numbers: Ints
    bounds: Ints
    overlap_ns: int


_OTHER = KINDS.index("other")


@dataclass(frozen=True, eq=False)
class RunSide:
    """One side of a comparison: the selected events of its ranks, and its steps.

    Attributes
    ----------
    label : str
    traces : TraceSet
        The trace set of the ranks.
    parts : dict of int to Part
        The selected events of each compared rank.
    steps : array of int
        Numbers of the steps that all these ranks have and that lie completely within the selection.
        Without such steps, the whole selection is compared, with the single number -1.
    windows : dict of int to array
        For each rank, the start and end of each step (steps, 2), including the clock's shift. A
        step ends where the next one begins, so steps do not overlap. For hosts that are ahead, see
        `compare`.
    left_out : tuple of int
        Ranks without steps, if other ranks have steps.
    tabled : dict of int to Part
        Ranks that are compared only in the tables of their format: BytePS servers next to workers,
        MPI profiles of one job next to timelines of another.
    overlap_ns : int
        Longest time by which the steps of a rank overlapped.
    on_device : bool
        Whether the steps are measured on the devices.
    """

    label: str
    traces: TraceSet
    parts: PartsByRank
    steps: Ints
    windows: dict[int, Ints]
    left_out: tuple[int, ...] = ()
    tabled: PartsByRank = field(default_factory=dict)
    overlap_ns: int = 0
    on_device: bool = False

    @property
    def ranks(self) -> list[int]:
        """The ranks that are compared."""
        return list(self.parts)

    @property
    def table_ranks(self) -> list[int]:
        """All ranks, including those that are compared only in tables."""
        return [*self.parts, *self.tabled]

    @property
    def formats(self) -> set[str]:
        """Formats of the files of all ranks."""
        return formats_of(self.parts) | formats_of(self.tabled)

    @property
    def is_totals(self) -> bool:
        """Whether all files are profiles, which have totals of a run instead of events."""
        return all(part.trace.is_totals for part in self.parts.values())

    @property
    def has_steps(self) -> bool:
        """Whether steps are compared, instead of the whole selection."""
        return not (len(self.steps) == 1 and self.steps[0] < 0)

    @cached_property
    def waits(self) -> CollectiveWaits:
        """The waits of the ranks in collectives, with clock drift corrected."""
        return collective_waits(self.traces)

    @cached_property
    def pauses(self) -> dict[int, Intervals]:
        """For each rank, the times between recording windows, on the time axis of its table.

        No step includes them.
        """
        edges = {
            rank: np.array(part.trace.recorded_ns, np.int64).ravel()[1:-1]
            for rank, part in self.parts.items()
        }
        return {rank: union(inner[::2], inner[1::2]) for rank, inner in edges.items()}

    def step_lengths(self, rank: int) -> Ints:
        """Return the durations of a rank's steps, excluding `pauses`."""
        start, end = (self.windows[rank] - self.parts[rank].trace.shift_ns).T
        paused = CumulativeCoverage(*self.pauses[rank])
        lengths: Ints = end - start - (paused(end) - paused(start))
        return lengths

    @property
    def step_ns(self) -> float:
        """Mean duration of a step, averaged over ranks."""
        return float(np.mean([self.step_lengths(rank).mean() for rank in self.ranks]))

    def of_steps(self, places: Ints) -> RunSide:
        """Return the side restricted to some of its steps."""
        windows = {rank: windows[places] for rank, windows in self.windows.items()}
        return replace(self, steps=self.steps[places], windows=windows)

    def envelope(self) -> tuple[Ints, Ints]:
        """Return the first start and the last end of each step on any rank."""
        windows = np.stack(list(self.windows.values()))
        return windows[:, :, 0].min(axis=0), windows[:, :, 1].max(axis=0)


def is_host_only(name: str) -> bool:
    """Return whether files in a format contain only calls on the host, without device work."""
    return any(format_.comparison.host_only for format_ in formats_named([name]))


def step_at(side: RunSide, rank: int, time_ns: Ints) -> Ints:
    """Return the compared step of a rank at each of the times; -1 if none."""
    windows = side.windows[rank]
    positions = np.searchsorted(windows[:, 0], time_ns, side="right") - 1
    is_inside = (positions >= 0) & (time_ns < windows[np.maximum(positions, 0), 1])
    return np.where(is_inside, positions, -1)


def formats_of(parts: PartsByRank) -> set[str]:
    """Return the file formats of the given ranks."""
    return {part.trace.format for part in parts.values()}


def make_sides(compared: list[tuple[str, TraceSet, PartsByRank]]) -> list[RunSide]:
    """Return both sides with the same kind of steps: host steps, device steps, or none."""
    sides = [_side(*side) for side in compared]
    if all(side.has_steps for side in sides):
        ahead = [np.isin(side.steps, steps_ahead(side.traces)) for side in sides]
        if any(2 * int(is_ahead.sum()) > len(is_ahead) for is_ahead in ahead):
            sides = [_side(*side, on_device=True) for side in compared]
    if sides[0].has_steps != sides[1].has_steps:
        sides = [_whole_side(*side) for side in compared]
    return sides


def _side(label: str, traces: TraceSet, parts: PartsByRank, *, on_device: bool = False) -> RunSide:
    steps_by_rank = {rank: _steps_within(part, on_device=on_device) for rank, part in parts.items()}
    # A rank without steps, such as a server, cannot be compared step by step.
    left_out = tuple(rank for rank, steps in steps_by_rank.items() if not len(steps.numbers))
    if len(left_out) == len(parts):
        return _whole_side(label, traces, parts)
    parts = {rank: part for rank, part in parts.items() if rank not in left_out}
    common = reduce(np.intersect1d, (steps_by_rank[rank].numbers for rank in parts))
    if not len(common):
        return _whole_side(label, traces, parts)
    windows = {}
    for rank in parts:
        steps = steps_by_rank[rank]
        windows[rank] = steps.bounds[np.searchsorted(steps.numbers, common)]
    order = np.argsort(next(iter(windows.values()))[:, 0], kind="stable")
    return RunSide(
        label,
        traces,
        parts,
        common[order],
        {rank: bounds[order] for rank, bounds in windows.items()},
        left_out,
        overlap_ns=max(steps_by_rank[rank].overlap_ns for rank in parts),
        on_device=on_device,
    )


def _whole_side(label: str, traces: TraceSet, parts: PartsByRank) -> RunSide:
    windows = {rank: _whole_window(part) for rank, part in parts.items()}
    return RunSide(label, traces, parts, np.array([-1], dtype=np.int64), windows)


def _steps_within(part: RankPart, *, on_device: bool) -> _SideSteps:
    """Return the steps that lie completely within the selection."""
    table = part.table
    formats = formats_named([part.trace.format])
    steps_of = load_references(format_.comparison.steps for format_ in formats)
    if steps_of:
        numbers, start, end = steps_of[0](part)
    else:
        numbers, start, end = host_steps(RankPart(part.trace, np.arange(len(table)), None, None))
    steps_with_work, first_work, last_work = device_edges(part.trace)
    if on_device and len(steps_with_work):
        # Copies for later steps may begin early, so a step begins when the previous one is done.
        order = np.argsort(last_work, kind="stable")
        numbers, first_work, end = steps_with_work[order], first_work[order], last_work[order]
        # Time between two recording windows belongs to no step.
        window = np.searchsorted(part.trace.recorded_marks_ns, first_work)
        follows_step = np.diff(window, prepend=-1) == 0
        start = np.where(follows_step, np.append(first_work[:1], end[:-1]), first_work)
    is_compared = np.isin(numbers, np.unique(table.step[part.rows]))
    is_compared &= ~np.isin(numbers, clipped_steps(part.trace))
    if part.low is not None:
        is_compared &= start >= part.low
    if part.high is not None:
        is_compared &= end <= part.high
    order = np.argsort(start, kind="stable")
    latest_end = np.maximum.accumulate(end[order])
    # A step ends where the next one begins, so that no time counts twice.
    cut_end = np.empty_like(end)
    cut_end[order] = np.minimum(latest_end, np.append(start[order][1:], latest_end[-1:]))
    bounds = np.stack([start, cut_end], axis=1) + part.trace.shift_ns
    overlap_ns = int((end - cut_end).sum())
    return _SideSteps(numbers[is_compared], bounds[is_compared], overlap_ns)


def _whole_window(part: RankPart) -> Ints:
    """Return the window, (1, 2); without bounds, from the first start to the last end of events."""
    table = part.table
    rows = part.rows[table.kind[part.rows] != _OTHER]
    rows = rows if len(rows) else part.rows
    first = int(table.start_ns[rows].min()) if len(rows) else 0
    last = int(table.end_ns[rows].max()) if len(rows) else first
    low = first if part.low is None else part.low
    high = max(last if part.high is None else part.high, low)
    return np.array([[low, high]], dtype=np.int64) + part.trace.shift_ns
