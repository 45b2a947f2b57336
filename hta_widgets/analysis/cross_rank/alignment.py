"""Align the collectives of two ranks whose files have no sequence numbers.

All ranks of a process group run the same collectives in the same order, but a file may begin later,
end earlier, or lack events. One sequence is shifted along the other until their contents (operation
and size) agree. If several shifts fit, ends decide. Ranks leave a collective together, so the ends
of all pairs differ by nearly the same time, which is the difference between the clocks.

For example, the first rank leaves A, B, A, B and A at 10, 20, 30, 40 and 50 ms, and the second
leaves A, B and A at 32, 42 and 52 ms. Contents agree at shifts 0 and 2. All ends differ by 22 ms at
shift 0 and by 2 ms at shift 2. Shift 2 is more likely, so the positions are 2, 3 and 4.

On a busy host, the ends of Gloo's collectives scatter by milliseconds, so a wrong shift may fit
better by chance. Ranks usually give a step the same number. A shift that pairs different steps must
therefore fit clearly better than the shift that pairs equal steps.
"""

from __future__ import annotations

from itertools import accumulate, repeat
from typing import Any, NamedTuple

import numpy as np

from hta_widgets.trace.arrays import Bools, Floats, Ints

_TOLERANCE_NS = 500_000  # all ranks leave a collective within this time
_CLOSE_NS = 20_000  # most ranks leave within this time; step durations differ by more
_MIN_AGREEING = 3  # number of agreeing ends that rules out chance
_MAX_DRIFT = 1e-4  # of a clock
_MAX_DRIFT_APART = 2e-4  # of two clocks in opposite directions
_MAX_APART_SHARE = 0.1  # largest share of pairs that do not overlap in time in a valid alignment
_MAX_PAIRS_BY_TIME = 4_000_000  # longer sequences are not aligned by time
_MAX_FEW_PAIRS = 250_000  # up to this number, the differences of all pairs are compared at once
_MAX_PAIRS_BY_SHIFT = 1 << 20  # pairs over all shifts; with more, shifts are selected on a sample
_SAMPLE, _FEW_SHIFTS = 64, 8  # pairs per shift in the first sample; number of shifts always tried
_MIN_RIVAL_SHARE = 0.9  # smallest share of overlapping pairs for a rival shift
_SCATTER_NS = 1_000  # noise of ends
_CLOCK_NS = 1_000_000  # largest difference between clocks that are set by NTP
_FAR_CLOCK_NS = 1_000_000_000  # clocks that differ by more are not synchronized at all
_GOLDEN = 0.618033988749895
_OTHER_STEPS_COST = 4  # cost factor of a shift that pairs events of different steps
_PRIME, _BASE = (1 << 31) - 1, 1_000_003  # for hashing contents

#: Position of an event without a match.
MISSING = int(np.iinfo(np.int64).min)


class RankSequence(NamedTuple):
    """A rank's events in a sequence of collectives."""

    content: Ints
    start: Ints
    end: Ints
    together: Bools
    step: Ints  # -1 outside steps


class _Ends(NamedTuple):
    """The contents of a sequence of collectives, and when the rank leaves each."""

    content: Ints
    end_ns: Ints


def align_to_longest(longest: RankSequence, sequence: RankSequence, *, sure: bool) -> Ints:
    """Return each event's position in the longest sequence; `sure` if the files name the group."""
    place = align_sequences(
        *(longest.content, longest.end, sequence.content, sequence.end),
        sure=sure,
        step_shift=_shift_of_equal_steps(longest.step, sequence.step),
    )
    rows = np.flatnonzero((place >= 0) & (place < len(longest.end)))
    if sure or not len(rows):
        return place
    # Apart from drift, events of the same collective overlap in time.
    partners = place[rows]
    start, end = sequence.start[rows], sequence.end[rows]
    other_start, other_end = longest.start[partners], longest.end[partners]
    offset = np.median(end - other_end)
    gap = np.maximum(other_start - (end - offset), (start - offset) - other_end)
    max_gap = _CLOSE_NS + _MAX_DRIFT * np.abs(end - np.median(end))
    is_apart = (gap > max_gap) & sequence.together[rows] & longest.together[partners]
    if is_apart.mean() > _MAX_APART_SHARE:
        return np.full_like(place, MISSING)
    place[rows[is_apart]] = MISSING
    return place


def _shift_of_equal_steps(step: Ints, other_step: Ints) -> int | None:
    """Return the shift at which most steps begin together; None if no step is shared."""
    numbers, first = np.unique(step, return_index=True)
    other_numbers, other_first = np.unique(other_step, return_index=True)
    common, place, other_place = np.intersect1d(numbers, other_numbers, return_indices=True)
    shifts = (first[place] - other_first[other_place])[common >= 0]
    if not len(shifts):
        return None
    values, counts = np.unique(shifts, return_counts=True)
    return int(values[counts.argmax()])


def is_ambiguous(longest: RankSequence, sequence: RankSequence, place: Ints) -> bool:
    """Return whether a shift other than the one in `place` explains the ends equally well.

    Equal collectives at equal intervals look the same one interval later. Only the difference
    between the clocks distinguishes these shifts, if it is at least `_CLOCK_NS`.
    """
    first, second = len(longest.end), len(sequence.end)
    shift = place - np.arange(second)
    if first == second or not second or (shift != shift[0]).any() or shift[0] == MISSING:
        return False
    scatter, clock_ns = _fit_of_shift(longest, sequence, int(shift[0]))
    low, high = _overlap(int(shift[0]), first, second)
    min_pairs = max(1, int(_MIN_RIVAL_SHARE * (high - low)))
    rivals = _shifts_of_equal_content(longest.content, sequence.content, min_pairs=min_pairs)
    nearest = [rivals[rivals < shift[0]][-1:], rivals[rivals > shift[0]][:1]]
    for rival in np.concatenate(nearest).tolist():
        rival_scatter, rival_clock_ns = _fit_of_shift(longest, sequence, rival)
        is_as_near = rival_clock_ns <= max(_CLOCK_NS, 2 * clock_ns)
        if rival_scatter <= 2 * scatter + _SCATTER_NS and is_as_near:
            return True
    return False


def _fit_of_shift(longest: RankSequence, sequence: RankSequence, shift: int) -> tuple[float, float]:
    """Return the scatter of the differences at a shift, and how much the clocks differ."""
    low, high = _overlap(shift, len(longest.end), len(sequence.end))
    ends = longest.end[low:high]
    differences = sequence.end[low - shift : high - shift] - ends
    _, middle, scatter = _deviations(differences, ends)
    return float(scatter), float(np.abs(middle))


def align_sequences(
    content: Ints,
    end_ns: Ints,
    other_content: Ints,
    other_end_ns: Ints,
    *,
    sure: bool,
    step_shift: int | None = None,
) -> Ints:
    """Return the position, in the first rank's sequence, of each event on the other rank.

    Both sequences are parts of the collectives of one process group. The second is shifted along
    the first until contents agree. If several shifts fit, the one at which all ends differ by
    nearly the same time is used, however far apart the clocks are. If events are missing in
    between, events match if their ends differ by the time that most pairs have in common.
    `step_shift` is the shift at which equal steps meet, if steps are known.
    """
    count = len(other_content)
    if not count or not len(content):
        return np.full(count, MISSING)
    first, second = _Ends(content, end_ns), _Ends(other_content, other_end_ns)
    in_order, pairs = np.full(count, MISSING), 0
    shift, agreeing = _best_shift(first, second, step_shift)
    if shift is not None:
        in_order = np.arange(count) + shift
        low, high = _overlap(shift, len(content), count)
        pairs = int(high - low)
    # If only a few ends agree, they may agree by chance, unless these are all the ends.
    min_agreeing = 1 if sure or agreeing == len(content) == count else _MIN_AGREEING
    if shift is not None and agreeing >= max(0.5 * pairs, min_agreeing):
        by_gaps = _align_over_gaps(first, second, shift)
        return in_order if by_gaps is None else by_gaps
    by_time = _align_by_time(first, second)
    pairs_by_time = int((by_time != MISSING).sum())
    # The order of a named group is better evidence than times that explain only a part of it.
    min_pairs = max(0.75 * pairs, 2) if sure else _MIN_AGREEING
    if pairs_by_time >= min_pairs and pairs_by_time > 1.5 * agreeing:
        return by_time
    # One or two matching ends may be a coincidence.
    return in_order if sure or len(content) == count <= 2 else np.full(count, MISSING)


def _best_shift(first: _Ends, second: _Ends, step_shift: int | None) -> tuple[int | None, int]:
    """Return the shift at which contents match, or None, and the number of matching ends."""
    sizes = len(first.content), len(second.content)
    if np.array_equal(first.content, second.content):
        deviations, _, _ = _deviations(second.end_ns - first.end_ns, first.end_ns)
        # If steps have equal durations, other shifts also fit, but ranks record the same steps.
        if (deviations <= _CLOSE_NS).sum() >= 0.9 * sizes[0]:
            return 0, int((deviations <= _TOLERANCE_NS).sum())
    min_pairs = max(1, min(sizes) // 2)
    shifts = _shifts_of_equal_content(first.content, second.content, min_pairs=min_pairs)
    lowest_cost, best_shift, agreeing = np.inf, None, 0
    for shift in _cheapest_shifts(shifts, first.end_ns, second.end_ns).tolist():
        low, high = _overlap(shift, *sizes)
        partners = slice(low - shift, high - shift)
        if not np.array_equal(first.content[low:high], second.content[partners]):
            continue
        ends = first.end_ns[low:high]
        cost, deviations = _cost(second.end_ns[partners] - ends, ends, (high - low) / min(sizes))
        if step_shift not in {None, shift}:
            cost *= _OTHER_STEPS_COST
        if cost < lowest_cost:
            lowest_cost, best_shift = float(cost), shift
            agreeing = int((deviations <= _TOLERANCE_NS).sum())
    return best_shift, agreeing


def _overlap(shift: Any, first: int, second: int) -> tuple[Any, Any]:
    """Return the bounds, in the first sequence, of its overlap with the shifted second one."""
    return np.maximum(shift, 0), np.minimum(first, shift + second)


def _cost(differences: Ints, time_ns: Ints, share: Any) -> tuple[Any, Floats]:
    """Return how unlikely a shift is, and the deviations of its differences from the usual one.

    `differences` are differences between ends, along the last axis, and `time_ns` are the ends on
    the first clock. `share` is the part of the shorter sequence that has partners.
    """
    deviations, middle, scatter = _deviations(differences, time_ns)
    # The median difference has little weight, because clocks may differ by many steps, or by hours.
    # It has more with few pairs, whose scatter may be small by chance.
    clock_ns = np.abs(middle)
    has_few = differences.shape[-1] < _SAMPLE * share
    near_ns = np.minimum(clock_ns, np.where(has_few, _FAR_CLOCK_NS, _CLOCK_NS))
    cost = (scatter + 1_000.0) / share**2 + 0.003 * near_ns + 1e-6 * clock_ns
    return cost, deviations


def _deviations(differences: Ints, time_ns: Ints) -> tuple[Floats, Any, Any]:
    """Return the deviations of differences from their median, or from drift if it explains most.

    Also returns the median difference and the median deviation.
    """
    middle = np.median(differences, axis=-1, keepdims=True)
    from_median = differences - middle
    deviations: Floats = np.abs(from_median)
    scatter = np.median(deviations, axis=-1, keepdims=True)
    elapsed = time_ns - time_ns.mean(axis=-1, keepdims=True)
    moment, covariance = (
        np.einsum("...i,...i->...", elapsed, values) for values in (elapsed, from_median)
    )
    drift = np.clip(covariance / np.maximum(moment, 1), -_MAX_DRIFT_APART, _MAX_DRIFT_APART)
    drift = drift[..., None]
    # Drift changes no value by more than this, so a smaller change cannot halve the scatter.
    moved_ns = 2 * np.abs(drift) * np.abs(elapsed).max(axis=-1, keepdims=True)
    may_drift = (scatter < 2 * moved_ns)[..., 0]
    if may_drift.any():
        from_line = from_median[may_drift] - drift[may_drift] * elapsed[may_drift]
        from_line = np.abs(from_line - np.median(from_line, axis=-1, keepdims=True))
        scatter_of_line = np.median(from_line, axis=-1, keepdims=True)
        is_better = 2 * scatter_of_line < scatter[may_drift]
        deviations[may_drift] = np.where(is_better, from_line, deviations[may_drift])
        scatter[may_drift] = np.where(is_better, scatter_of_line, scatter[may_drift])
    return deviations, middle[..., 0], scatter[..., 0]


def _shifts_of_equal_content(content: Ints, other_content: Ints, *, min_pairs: int) -> Ints:
    """Return the shifts at which at least `min_pairs` pairs overlap and hashes agree."""
    first, second = len(content), len(other_content)
    shifts = np.arange(min_pairs - second, first - min_pairs + 1)
    # The hash of a slice is the sum of content[k] · base^k. Multiplied by base^d, it is the hash of
    # the same contents d positions later. The caller rejects unequal contents with equal hashes.
    powers = accumulate(repeat(_BASE, max(first, second)), lambda a, b: a * b % _PRIME, initial=1)
    power = np.fromiter(powers, np.int64)
    sums, other_sums = (
        np.append(0, np.cumsum((codes + 1) * power[: len(codes)] % _PRIME))
        for codes in (content, other_content)
    )
    low, high = _overlap(shifts, first, second)
    slice_sums = (sums[high] - sums[low]) % _PRIME * power[np.maximum(-shifts, 0)] % _PRIME
    other_slice_sums = (other_sums[high - shifts] - other_sums[low - shifts]) % _PRIME
    is_equal = slice_sums == other_slice_sums * power[np.maximum(shifts, 0)] % _PRIME
    equal_shifts: Ints = shifts[is_equal]
    return equal_shifts


def _cheapest_shifts(shifts: Ints, end_ns: Ints, other_end_ns: Ints) -> Ints:
    """Return the shifts with the lowest cost on a sample of pairs, or all shifts if few."""
    # Each round keeps a quarter of the shifts and compares four times as many pairs for each, so
    # the time grows linearly with the length instead of quadratically.
    first, second = len(end_ns), len(other_end_ns)
    shorter, size = min(first, second), _SAMPLE
    while len(shifts) > _FEW_SHIFTS and len(shifts) * shorter > _MAX_PAIRS_BY_SHIFT:
        # Multiples of the golden ratio are evenly spread and avoid the period of steps.
        parts = np.arange(size) * _GOLDEN % 1.0
        costs = []
        for block in np.array_split(shifts[:, None], len(shifts) * size // _MAX_PAIRS_BY_SHIFT + 1):
            low, high = _overlap(block, first, second)
            place = low + (parts * (high - low)).astype(np.int64)
            share = (high - low)[:, 0] / shorter
            ends = end_ns[place]
            costs.append(_cost(other_end_ns[place - block] - ends, ends, share)[0])
        cheapest = np.argsort(np.concatenate(costs), kind="stable")
        shifts = np.sort(shifts[cheapest[: max(len(shifts) // 4, _FEW_SHIFTS)]])
        size *= 4
    return shifts


def _align_over_gaps(first: _Ends, second: _Ends, shift: int) -> Ints | None:
    """Match events at the most common difference of ends; None if the shift is as good.

    If a file lacks events in the middle, a shift fits only the part before or after them. The
    difference between ends fits both. In this example, at shift 0 the third pair is wrong, and the
    event at 30 ms has no partner::

        ends in ms    10  20  30  40
        other ends    10  20  40
    """
    # Equal sequences lack nothing: if their ends differ, events were late or the clocks were set.
    sizes = len(first.content), len(second.content)
    if min(sizes) < _MIN_AGREEING or np.array_equal(first.content, second.content):
        return None
    low, high = _overlap(shift, *sizes)
    differences = second.end_ns[low - shift : high - shift] - first.end_ns[low:high]
    middle = int(np.median(differences))
    from_middle_ns = np.abs(differences - middle)
    if (from_middle_ns <= _CLOSE_NS).all():
        return None
    spacing_ns = float(np.median(np.diff(np.sort(first.end_ns))))
    close_ns = int(min(max(spacing_ns / 8, _CLOSE_NS), _TOLERANCE_NS))
    in_order = int((from_middle_ns <= close_ns).sum())
    middles = [middle]
    if in_order < 0.75 * len(differences) and sizes[0] * sizes[1] <= _MAX_FEW_PAIRS:
        of_pairs = second.end_ns[:, None] - first.end_ns[None, :]
        middles.append(_usual_difference(of_pairs.ravel(), close_ns))
    best, best_count = None, in_order + _MIN_AGREEING - 1
    for middle in middles:
        nearest, deviations = _nearest_of_equal_content(first, second, middle)
        is_match = nearest != MISSING
        # If clocks drift by more than the time between events, neighbors match by chance.
        if not is_match.any() or 8 * np.median(deviations[is_match]) > spacing_ns:
            continue
        rows = np.flatnonzero(is_match & (deviations <= 2 * close_ns))
        # A missing event shifts all later events, while a single shifted event merely ends late.
        run = np.cumsum(np.diff(nearest[rows] - rows, prepend=0) != 0)
        in_run = rows[np.bincount(run)[run] >= _MIN_AGREEING]
        count = int((deviations[in_run] <= close_ns).sum())
        if count > best_count and (nearest[in_run] != in_run + shift).any():
            best, best_count = np.full_like(nearest, MISSING), count
            best[rows] = nearest[rows]
    return best


def _usual_difference(differences: Ints, close_ns: int) -> int:
    """Return the median of the largest group of differences that lie within `close_ns`.

    Among groups of equal size, the one whose smallest difference is closest to 0 is used.
    """
    ordered = np.sort(differences)
    # A group begins at each difference.
    sizes = np.searchsorted(ordered, ordered + close_ns, "right") - np.arange(len(ordered))
    largest = np.flatnonzero(sizes == sizes.max())
    first = int(largest[np.abs(ordered[largest]).argmin()])
    return int(np.median(ordered[first : first + sizes[first]]))


def _nearest_of_equal_content(first: _Ends, second: _Ends, middle: int) -> tuple[Ints, Ints]:
    """Return the first rank's event nearest to each of the second's, and the distances.

    `middle` is the difference between the clocks. The position is `MISSING` if contents differ or
    if the nearest event is nearer to another one.
    """
    order, other_order = np.argsort(first.end_ns), np.argsort(second.end_ns)
    nearest = order[_nearest(first.end_ns[order], second.end_ns - middle)]
    nearest_other = other_order[_nearest(second.end_ns[other_order], first.end_ns + middle)]
    is_match = nearest_other[nearest] == np.arange(len(second.end_ns))
    is_match &= first.content[nearest] == second.content
    deviations = np.abs(second.end_ns - middle - first.end_ns[nearest])
    return np.where(is_match, nearest, MISSING), deviations


def _nearest(ascending: Ints, values: Ints) -> Ints:
    right = np.clip(np.searchsorted(ascending, values), 1, len(ascending) - 1)
    is_left = values - ascending[right - 1] <= ascending[right] - values
    return right - is_left


def _align_by_time(first: _Ends, second: _Ends) -> Ints:
    """Return the positions of `align_sequences`, using the most common difference of ends."""
    positions = np.arange(len(second.content))
    unmatched = np.full(len(positions), MISSING)
    if len(first.content) * len(second.content) > _MAX_PAIRS_BY_TIME:
        return unmatched
    differences = second.end_ns[:, None] - first.end_ns[None, :]
    is_equal = second.content[:, None] == first.content[None, :]
    if not is_equal.any():
        return unmatched
    middle = _usual_difference(differences[is_equal], _TOLERANCE_NS)
    deviations = np.where(is_equal, np.abs(differences - middle), np.iinfo(np.int64).max)
    # Events match if each is the other's nearest.
    nearest, nearest_other = deviations.argmin(axis=1), deviations.argmin(axis=0)
    is_match = nearest_other[nearest] == positions
    is_match &= deviations[positions, nearest] <= _TOLERANCE_NS
    return np.where(is_match, nearest, MISSING)
