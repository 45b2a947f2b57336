"""Which events of two ranks belong together, where nothing but their order and times tells."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

__all__ = ["aligned"]

Ints = npt.NDArray[np.int64]

_TOLERANCE_NS = 500_000  # ranks leave a collective within this time of each other
_PROOF = 3  # so many ends that agree are no chance
_MOST_PAIRS = 4_000_000


def aligned(
    content: Ints, end_ns: Ints, other_content: Ints, other_end_ns: Ints, *, sure: bool
) -> Ints:
    """Return for each of the other rank's events its position in the first rank's sequence.

    Both sequences are of one process group, so they are parts of one sequence of collectives.
    They are laid upon each other where contents agree; of several such places, for repeating
    steps agree at many, the one counts at which the ends differ by the same time throughout.
    That does not depend on the clocks. Where events are missing in between, events are matched
    whose ends differ by what most pairs of events differ by.

    Parameters
    ----------
    content, end_ns : array of int64
        What each event is, and when it ends, on the first rank.
    other_content, other_end_ns : array of int64
        The same of the other rank.
    sure : bool
        Whether both are known to be of one group; else their ends must prove it.

    Returns
    -------
    array of int64
        May lie before 0 or after the first rank's last event; `MISSING` for events that match
        nothing.
    """
    count = len(other_content)
    if not count or not len(content):
        return np.full(count, MISSING)
    shift, agreeing = _best_shift(content, end_ns, other_content, other_end_ns)
    in_order = np.full(count, MISSING) if shift is None else np.arange(count) + shift
    together = 0 if shift is None else _overlap(len(content), count, shift)
    # A few ends agree by chance, unless all do.
    proof = 1 if sure or agreeing == len(content) == count else _PROOF
    if agreeing >= max(0.5 * together, proof):
        return in_order
    by_time = _by_time(content, end_ns, other_content, other_end_ns)
    timed = int((by_time != MISSING).sum())
    if timed >= (2 if sure else _PROOF) and timed > 1.5 * agreeing:
        return by_time
    # One or two events prove nothing by their ends.
    return in_order if sure or len(content) == count <= 2 else np.full(count, MISSING)


#: Position of what matches nothing.
MISSING = int(np.iinfo(np.int64).min)


def _overlap(first: int, second: int, shift: int) -> int:
    return min(first, shift + second) - max(0, shift)


def _best_shift(
    content: Ints, end_ns: Ints, other_content: Ints, other_end_ns: Ints
) -> tuple[int | None, int]:
    """Return where the other sequence lies on the first, and how many ends agree there."""
    first, second = len(content), len(other_content)
    need = max(1, min(first, second) // 2)
    best: tuple[float, int, int] | None = None
    for shift in range(need - second, first - need + 1):
        low, high = max(0, shift), min(first, shift + second)
        there = slice(low - shift, high - shift)
        if content[low] != other_content[low - shift]:
            continue
        if not np.array_equal(content[low:high], other_content[there]):
            continue
        apart = other_end_ns[there] - end_ns[low:high]
        middle = np.median(apart)
        off = np.abs(apart - middle)
        # The farther apart, the less likely; but clocks may be off by far more than one step.
        share = (high - low) / min(first, second)
        cost = (float(np.median(off)) + 1_000.0) / share**2 + 0.003 * abs(float(middle))
        if best is None or cost < best[0]:
            best = (cost, shift, int((off <= _TOLERANCE_NS).sum()))
    return (None, 0) if best is None else (best[1], best[2])


def _by_time(content: Ints, end_ns: Ints, other_content: Ints, other_end_ns: Ints) -> Ints:
    """Match events of equal content at the difference of ends that most pairs share."""
    found = np.full(len(other_content), MISSING)
    if len(content) * len(other_content) > _MOST_PAIRS:
        return found
    apart = other_end_ns[:, None] - end_ns[None, :]
    alike = other_content[:, None] == content[None, :]
    sorted_apart = np.sort(apart[alike])
    if not len(sorted_apart):
        return found
    reach = np.searchsorted(sorted_apart, sorted_apart + _TOLERANCE_NS, side="right")
    votes = reach - np.arange(len(sorted_apart))
    leaders = np.flatnonzero(votes == votes.max())
    leader = int(leaders[np.abs(sorted_apart[leaders]).argmin()])
    middle = int(np.median(sorted_apart[leader : reach[leader]]))
    off = np.where(alike, np.abs(apart - middle), np.iinfo(np.int64).max)
    nearest, back = off.argmin(axis=1), off.argmin(axis=0)
    each = np.arange(len(other_content))
    good = (off[each, nearest] <= _TOLERANCE_NS) & (back[nearest] == each)
    found[good] = nearest[good]
    return found
