"""Splits the time of each step by cause, so that the causes add up to the step.

Every moment of a step counts once. Compute takes precedence over communication, and communication
over copies. Time without device work is idle, and is split by what the device waited for. For
example, a step from 0 to 100 ns with a kernel from 10 to 60, an all-reduce from 50 to 80 and a copy
from 70 to 90 has

    compute 50 (10–60), communication 20 (60–80), copies 10 (80–90),
    idle 10 before the first launch (0–10), nothing_launched 10 (90–100): together 100

If the waits for other ranks are known, communication is split into ``communication_wait`` and
``communication_transfer``. If no rank of either side has device work, collectives on hosts (Gloo)
are the communication, and the rest of a step is ``host``.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hta_widgets.analysis.cross_rank.waits import wait_intervals
from hta_widgets.analysis.idle import IDLE_CATEGORIES, first_launched, gap_pieces
from hta_widgets.analysis.scope import DEVICE_WORK_KINDS, RankPart, host_collectives
from hta_widgets.diff.compare import Comparison
from hta_widgets.diff.sides import RunSide, is_host_only
from hta_widgets.readers.formats import formats_named, load_references
from hta_widgets.trace.arrays import Ints, Rows, concatenate_ranges, positions_of_rows
from hta_widgets.trace.intervals import (
    CumulativeCoverage,
    Intervals,
    intersect,
    subtract,
    union,
    unite,
)
from hta_widgets.trace.memo import memoize

_SHORT_NS = 30_000  # longest gap explained by the switch between two launched kernels
_MIN_MATCHED_SHARE = 0.99  # share of exposed communication that must be matched to separate waits

#: Causes of time in a step, in order of precedence.
CAUSES: tuple[str, ...] = (
    "compute", "communication", "communication_wait", "communication_transfer", "copies",
    *IDLE_CATEGORIES, "nothing_launched", "stage_queue", "root_wait", "coordination", "tail",
    "host",
)  # fmt: skip
#: The kind of time to which each cause belongs.
KIND_OF: dict[str, str] = dict.fromkeys(CAUSES, "idle") | {
    "compute": "compute", "communication": "communication", "communication_wait": "communication",
    "communication_transfer": "communication", "copies": "memory", "host": "cpu",
}  # fmt: skip


@dataclass(frozen=True, eq=False)
class Shares:
    """Device work of a rank, and the time that each piece adds to its kind.

    If several pieces of a kind overlap, the shared time counts for the piece that started first, so
    the times of all pieces add up to `step_times_by_cause`.
    """

    rows: Rows
    step: Ints  # position among the compared steps
    kind: Ints  # 0 compute, 1 communication, 2 copies
    time_ns: Ints


@dataclass(frozen=True, slots=True)
class StepPiece:
    """Time of one cause and stage in each step of a rank."""

    cause: str
    stage: str
    times_ns: Ints


@memoize
def splits_communication(diff: Comparison) -> bool:
    """Return whether the waits within exposed communication are known on both sides."""
    return all(_is_matched(diff, side) for side in diff.sides)


@memoize
def step_times_by_cause(diff: Comparison, side: RunSide) -> dict[int, dict[str, Ints]]:
    """Return the time in each compared step, keyed by rank and cause.

    The times of all causes add up to the step durations, to the nanosecond.
    """
    times_of_ranks, pieces = {}, chains(diff, side)
    for rank in side.parts:
        if rank not in pieces:
            times_of_ranks[rank] = _pieces_of_rank(diff, side, rank)
            continue
        lengths = np.diff(side.windows[rank])[:, 0]
        times_by_cause = {cause: np.zeros(len(lengths), dtype=np.int64) for cause in CAUSES}
        for piece in pieces[rank]:
            times_by_cause[piece.cause] += piece.times_ns
        times_by_cause["host"] = lengths - np.sum(list(times_by_cause.values()), axis=0)
        times_of_ranks[rank] = times_by_cause
    return times_of_ranks


@memoize
def _has_device_work(diff: Comparison) -> bool:
    parts = [part for side in diff.sides for part in side.parts.values()]
    return any((part.table.stream[part.device_work_rows()] >= 0).any() for part in parts)


@memoize
def chains(_diff: Comparison, side: RunSide) -> dict[int, list[StepPiece]]:
    """Return each rank's step pieces, if the format defines them (`FormatComparison.chain`)."""
    return {
        rank: chain_of(side, rank)
        for rank, part in side.parts.items()
        for chain_of in load_references(
            format_.comparison.chain for format_ in formats_named([part.trace.format])
        )
    }


@memoize
def work_shares(diff: Comparison, side: RunSide, rank: int) -> Shares:
    """Return the time that each piece of a rank's device work adds to the steps."""
    part = side.parts[rank]
    windows = side.windows[rank] - part.trace.shift_ns
    before = Intervals.empty()  # work of the kinds that take precedence
    shares: list[tuple[Rows, Ints, Ints, Ints]] = []
    for number, kind in enumerate(DEVICE_WORK_KINDS):
        rows = _work_by_kind(diff, part, kind)
        start, end = part.clip_rows(rows)
        # Each piece counts from the end of the earlier pieces of its kind.
        added_from = start.copy()
        added_from[1:] = np.maximum(start[1:], np.maximum.accumulate(end)[:-1])
        adds_time = end > added_from
        piece, step, low, high = _clip_to_windows(added_from[adds_time], end[adds_time], windows)
        hidden = CumulativeCoverage(*before)
        time = (high - low) - (hidden(high) - hidden(low))
        shares.append((rows[adds_time][piece], step, np.full(len(piece), number), time))
        before = unite(before, union(start, end))
    return Shares(*(np.concatenate(column) for column in zip(*shares, strict=True)))


def _work_by_kind(diff: Comparison, part: RankPart, kind: str) -> Rows:
    """Return a rank's device work of a kind, or host collectives if neither side used devices."""
    rows = part.rows_of_kinds(kind)
    if is_host_only(part.trace.format):
        # In these formats, communication is recorded as host calls.
        return rows
    if kind == "communication" and not _has_device_work(diff):
        calls = host_collectives(part.trace)
        return calls[part.contains(calls)]
    return rows[part.table.stream[rows] >= 0]


def _clip_to_windows(start: Ints, end: Ints, windows: Ints) -> tuple[Rows, Rows, Ints, Ints]:
    """Intersect disjoint pieces with disjoint windows, which may be in any order.

    Returns piece, window, start and end of each intersection.
    """
    first = np.searchsorted(end, windows[:, 0], side="right")
    count = np.maximum(np.searchsorted(start, windows[:, 1], side="left") - first, 0)
    piece = concatenate_ranges(first, count)
    window = np.repeat(np.arange(len(windows)), count)
    low, high = windows[window].T
    return piece, window, np.maximum(start[piece], low), np.minimum(end[piece], high)


def copy_times(diff: Comparison, side: RunSide, rank: int) -> Ints:
    """Return the time in each step during which copies run, hidden or exposed."""
    part = side.parts[rank]
    copies = union(*part.clip_rows(_work_by_kind(diff, part, "memory")))
    return _time_per_step(copies, side.windows[rank] - part.trace.shift_ns)


def transfer_times(diff: Comparison, side: RunSide, rank: int) -> Ints:
    """Return the time in each step during which data moves between ranks, hidden or exposed.

    A wait in one collective does not hide the transfer of a concurrent collective.
    """
    part = side.parts[rank]
    rows = _work_by_kind(diff, part, "communication")
    start, end = part.clip_rows(rows)
    waits = side.waits.of_rank(rank)
    position = positions_of_rows(waits.rows, len(part.table))[rows]
    waited = position >= 0
    start[waited] = np.clip(waits.until[position[waited]], start[waited], end[waited])
    return _time_per_step(union(start, end), side.windows[rank] - part.trace.shift_ns)


def _is_matched(diff: Comparison, side: RunSide) -> bool:
    """Return whether most exposed communication is in events matched on other ranks."""
    exposed_ns = unmatched_ns = 0
    for rank, part in side.parts.items():
        windows = side.windows[rank] - part.trace.shift_ns
        compute, communication = (
            union(*part.clip_rows(_work_by_kind(diff, part, kind)))
            for kind in ("compute", "communication")
        )
        exposed = subtract(communication, compute)
        exposed_ns += int(_time_per_step(exposed, windows).sum())
        rows = side.waits.of_rank(part.rank).unmatched
        rows = rows[np.isin(rows, part.rows)]
        unmatched = subtract(union(*part.clip_rows(rows)), compute)
        unmatched_ns += int(_time_per_step(unmatched, windows).sum())
    return unmatched_ns <= (1 - _MIN_MATCHED_SHARE) * exposed_ns


def _time_per_step(pieces: Intervals, windows: Ints) -> Ints:
    covered = CumulativeCoverage(*pieces)
    return covered(windows[:, 1]) - covered(windows[:, 0])


def _pieces_of_rank(diff: Comparison, side: RunSide, rank: int) -> dict[str, Ints]:
    """Return a rank's time in each step by cause."""
    part = side.parts[rank]
    windows = side.windows[rank] - part.trace.shift_ns
    lengths = side.step_lengths(rank)
    on_host = is_host_only(part.trace.format) or not _has_device_work(diff)
    times_by_cause = {cause: np.zeros(len(windows), dtype=np.int64) for cause in CAUSES}
    work = [_work_by_kind(diff, part, kind) for kind in DEVICE_WORK_KINDS]
    compute, communication, copies = (union(*part.clip_rows(rows)) for rows in work)
    compute_or_communication = unite(compute, communication)
    busy = unite(compute_or_communication, copies)
    if not len(busy.start):
        # If any rank has device work, the devices of ranks without it count as idle.
        return times_by_cause | {"host" if on_host else "nothing_launched": lengths}
    exposed = subtract(communication, compute)
    pieces = {"compute": compute, "copies": subtract(copies, compute_or_communication)}
    if splits_communication(diff):
        wait = intersect(exposed, union(*wait_intervals(part, side.waits.of_rank(rank))[1:]))
        pieces["communication_wait"] = wait
        pieces["communication_transfer"] = subtract(exposed, wait)
    else:
        pieces["communication"] = exposed
    times_by_cause |= {cause: _time_per_step(piece, windows) for cause, piece in pieces.items()}
    if on_host:
        return times_by_cause | {"host": lengths - _time_per_step(busy, windows)}
    return times_by_cause | _idle_pieces(part, busy, side.pauses[rank], windows)


def _idle_pieces(
    part: RankPart, busy: Intervals, pauses: Intervals, windows: Ints
) -> dict[str, Ints]:
    """Split idle time by cause and step, like `device_idle_breakdown`."""
    # Time before the rank's first work counts as a gap before that work; time after the last work
    # is ``nothing_launched``.
    first_ns = min(int(windows.min()), int(busy.start[0]))
    last_ns = max(int(windows.max()), int(busy.end[-1]))
    start, end = np.concatenate(([first_ns], busy.end[:-1])), busy.start
    is_gap = end > start
    start, end = subtract(Intervals(start[is_gap], end[is_gap]), pauses)
    call = _ending_call(part, end)
    gap, step, low, high = _clip_to_windows(start, end, windows)
    pieces = gap_pieces(part.trace, (start[gap], end[gap]), (low, high), call[gap], _SHORT_NS)
    spent = np.zeros((len(windows), len(IDLE_CATEGORIES)), dtype=np.int64)
    np.add.at(spent, step, pieces)
    rest = Intervals(busy.end[-1:], np.array([last_ns]))
    times_by_cause = dict(zip(IDLE_CATEGORIES, spent.T, strict=True))
    return times_by_cause | {"nothing_launched": _time_per_step(rest, windows)}


def _ending_call(part: RankPart, end: Ints) -> Ints:
    """Return the call that launched the work at the end of each gap; -1 if unknown."""
    rows = part.device_work_rows()
    rows = rows[part.table.stream[rows] >= 0]
    start, after = part.clip_rows(rows)
    rows, start = rows[after > start], start[after > start]
    order = np.argsort(start, kind="stable")
    rows, start = rows[order], start[order]
    return part.trace.launch_of[rows[first_launched(part.trace, rows, start, end)]]
