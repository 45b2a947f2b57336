"""What every moment of a step goes to: computing, else communicating, else copying, else idling."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from hta_widgets.analysis.device_idle import IDLE_CATEGORIES
from hta_widgets.analysis.device_idle import gap_pieces
from hta_widgets.analysis.device_idle import launched_first
from hta_widgets.analysis.scope import Part
from hta_widgets.trace.derived import derived
from hta_widgets.trace.derived import derived_once
from hta_widgets.trace.intervals import Covered
from hta_widgets.trace.intervals import Intervals
from hta_widgets.trace.intervals import intersect
from hta_widgets.trace.intervals import subtract
from hta_widgets.trace.intervals import union

from hta_widgets.formats.byteps.byteps_chain import Piece
from hta_widgets.formats.byteps.byteps_chain import byteps_chain
from hta_widgets.diff.families import MPI
from hta_widgets.diff.sides import Comparison
from hta_widgets.diff.sides import RunSide

__all__ = [
    "CAUSES",
    "KIND_OF",
    "Shares",
    "chains",
    "moments",
    "splits_communication",
    "work_shares",
]

Ints = npt.NDArray[np.int64]
Rows = npt.NDArray[np.intp]

_SHORT_NS = 30_000  # longer gaps between launched kernels are no mere changing over
_KNOWN = 0.99  # of the exposed communication, for waiting and transfer to be told apart

#: What a moment can go to, in order; the first that applies takes it.
CAUSES: tuple[str, ...] = (
    "compute",
    "communication",
    "communication_wait",
    "communication_transfer",
    "copies",
    *IDLE_CATEGORIES,
    "nothing_launched",
    "stage_queue",
    "root_wait",
    "coordination",
    "tail",
    "host",
)

#: The kind of moment that each cause is one of.
KIND_OF: dict[str, str] = {
    cause: "compute"
    if cause == "compute"
    else "communication"
    if cause.startswith("communication")
    else "memory"
    if cause == "copies"
    else "cpu"
    if cause == "host"
    else "idle"
    for cause in CAUSES
}


@dataclass(frozen=True, eq=False)
class Shares:
    """Device work of one rank and what each piece adds to the time in which a kind runs.

    Moments in which several pieces of a kind run go to the one that was there first, so the times
    of all pieces add up to `moments`.
    """

    rows: Rows
    step: Ints  # which of the compared steps
    kind: Ints  # 0 compute, 1 communication, 2 copies
    time_ns: Ints


@derived_once("splits_communication")
def splits_communication(diff: Comparison) -> bool:
    """Whether both sides know what of their exposed communication is waiting for other ranks."""
    return all(_is_matched(side) for side in diff.sides)


def moments(diff: Comparison, side: RunSide) -> dict[int, dict[str, Ints]]:
    """Return by rank and cause the time of each compared step that goes to it.

    Over all causes the times add up to the steps' lengths, to the nanosecond.
    """

    def derive() -> dict[int, dict[str, Ints]]:
        split = splits_communication(diff)
        return {
            rank: _of_chain(side, rank, chains(diff, side)[rank])
            if part.trace.format == "byteps"
            else _of_rank(side, rank, split=split)
            for rank, part in side.parts.items()
        }

    return derived(diff, ("moments", side is diff.after), derive)


def chains(diff: Comparison, side: RunSide) -> dict[int, list[Piece]]:
    """Return by GPU of a BytePS run what its steps wait for; nothing for other ranks."""

    def derive() -> dict[int, list[Piece]]:
        return {
            rank: byteps_chain(side, rank)
            for rank, part in side.parts.items()
            if part.trace.format == "byteps"
        }

    return derived(diff, ("chains", side is diff.after), derive)


def _of_chain(side: RunSide, rank: int, pieces: list[Piece]) -> dict[str, Ints]:
    windows = side.windows[rank]
    found = {cause: np.zeros(len(windows), dtype=np.int64) for cause in CAUSES}
    for piece in pieces:
        found[piece.cause] += piece.times_ns
    found["host"] = windows[:, 1] - windows[:, 0] - np.sum(list(found.values()), axis=0)
    return found


def work_shares(diff: Comparison, side: RunSide, rank: int) -> Shares:
    """Return what each piece of device work of a rank adds to the moments of the steps."""
    key = ("shares", side is diff.after, rank)
    return derived(diff, key, lambda: _shares(side, rank))


def _shares(side: RunSide, rank: int) -> Shares:
    part = side.parts[rank]
    windows = side.windows[rank] - part.trace.shift_ns
    before = Intervals.none()
    found: list[tuple[Rows, Ints, Ints, Ints]] = []
    for number, kind in enumerate(("compute", "communication", "memory")):
        rows = _work(part, kind)
        start, end = part.clipped(rows)
        reached = np.maximum.accumulate(end) if len(end) else end
        # What was there first keeps its moments.
        own = start.copy()
        own[1:] = np.maximum(start[1:], reached[:-1])
        lasting = end > own
        which, step, low, high = _within(own[lasting], end[lasting], windows)
        hidden = Covered(*before)
        time = (high - low) - (hidden(high) - hidden(low))
        found.append((rows[lasting][which], step, np.full(len(which), number), time))
        before = _either(before, union(start, end))
    return Shares(*(np.concatenate(column) for column in zip(*found, strict=True)))


def _work(part: Part, kind: str) -> Rows:
    rows = part.of_kinds(kind)
    if part.trace.format in MPI:
        # Calls keep the host, which has no device.
        return rows
    found: Rows = rows[part.table.stream[rows] >= 0]
    return found


def _either(a: Intervals, b: Intervals) -> Intervals:
    return union(np.concatenate([a.start, b.start]), np.concatenate([a.end, b.end]))


def _within(start: Ints, end: Ints, windows: Ints) -> tuple[Rows, Rows, Ints, Ints]:
    """Cut disjoint pieces by windows, which may overlap: piece, window, start and end."""
    found = []
    for number, (low, high) in enumerate(windows.tolist()):
        first = int(np.searchsorted(end, low, side="right"))
        after = max(int(np.searchsorted(start, high, side="left")), first)
        which = np.arange(first, after)
        found.append(
            (
                which,
                np.full(len(which), number),
                np.maximum(start[which], low),
                np.minimum(end[which], high),
            )
        )
    if not found:
        none = np.empty(0, dtype=np.int64)
        return none, none, none, none
    which, step, low_ns, high_ns = (np.concatenate(one) for one in zip(*found, strict=True))
    return which, step, low_ns, high_ns


def _is_matched(side: RunSide) -> bool:
    exposed = unmatched = 0
    for rank, part in side.parts.items():
        windows = side.windows[rank] - part.trace.shift_ns
        compute = union(*part.clipped(_work(part, "compute")))
        alone = subtract(union(*part.clipped(_work(part, "communication"))), compute)
        exposed += int(_per_step(alone, windows).sum())
        rows = side.waits.unmatched(part.trace)
        rows = rows[np.isin(rows, part.rows)]
        unknown = subtract(union(*part.clipped(rows)), compute)
        unmatched += int(_per_step(unknown, windows).sum())
    return unmatched <= (1 - _KNOWN) * exposed


def _per_step(pieces: Intervals, windows: Ints) -> Ints:
    covered = Covered(*pieces)
    found: Ints = covered(windows[:, 1]) - covered(windows[:, 0])
    return found


def _of_rank(side: RunSide, rank: int, *, split: bool) -> dict[str, Ints]:
    part = side.parts[rank]
    windows = side.windows[rank] - part.trace.shift_ns
    found = {cause: np.zeros(len(windows), dtype=np.int64) for cause in CAUSES}
    compute, communication, copies = (
        union(*part.clipped(_work(part, kind))) for kind in ("compute", "communication", "memory")
    )
    busy = _either(_either(compute, communication), copies)
    if not len(busy.start):
        found["host"] = windows[:, 1] - windows[:, 0]
        return found
    exposed = subtract(communication, compute)
    pieces = {"compute": compute, "communication": exposed}
    if split:
        waiting, begin, until = side.waits.of(part.trace)
        kept = np.isin(waiting, part.rows)
        wait = intersect(exposed, union(begin[kept], until[kept]))
        pieces["communication"] = Intervals.none()
        pieces["communication_wait"] = wait
        pieces["communication_transfer"] = subtract(exposed, wait)
    pieces["copies"] = subtract(copies, _either(compute, communication))
    for cause, covered in pieces.items():
        found[cause] = _per_step(covered, windows)
    if part.trace.format in MPI:
        found["host"] = windows[:, 1] - windows[:, 0] - _per_step(busy, windows)
        return found
    return found | _idle(part, busy, windows)


# --- idle -----------------------------------------------------------------------------------------


def _idle(part: Part, busy: Intervals, windows: Ints) -> dict[str, Ints]:
    """Split what is not busy by cause and step, as `device_idle_breakdown` does.

    What precedes the first work of the rank waits for it; what follows the last has nothing to
    wait for.
    """
    first_ns = min(int(windows.min()), int(busy.start[0]))
    last_ns = max(int(windows.max()), int(busy.end[-1]))
    start, end = np.concatenate(([first_ns], busy.end[:-1])), busy.start
    lasting = end > start
    start, end = start[lasting], end[lasting]
    call = _ending_call(part, end)
    gap, step, low, high = _within(start, end, windows)
    pieces = gap_pieces(part.trace, (start[gap], end[gap]), (low, high), call[gap], _SHORT_NS)
    found = {cause: np.zeros(len(windows), dtype=np.int64) for cause in IDLE_CATEGORIES}
    for place, spent in enumerate(found.values()):
        np.add.at(spent, step, pieces[:, place])
    rest = Intervals(busy.end[-1:], np.array([last_ns]))
    return found | {"nothing_launched": _per_step(rest, windows)}


def _ending_call(part: Part, end: Ints) -> Ints:
    """Return the call that launched what ends each gap; of several the first, -1 if unknown."""
    rows = np.concatenate([_work(part, kind) for kind in ("compute", "communication", "memory")])
    start, after = part.clipped(rows)
    rows, start = rows[after > start], start[after > start]
    order = np.argsort(start, kind="stable")
    rows, start = rows[order], start[order]
    call: Ints = part.trace.launch_of[rows[launched_first(part.trace, rows, start, end)]]
    return call
