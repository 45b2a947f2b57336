"""Offsets of the ranks' clocks, fitted from the ends of collectives.

Ranks leave a collective together, so differences between ends are differences between clocks. For
example, rank 0 leaves three collectives at 100, 200 and 300 ns, and rank 1 at 150, 251 and 349 ns.
The differences are 50, 51 and 49 ns, and the offset of rank 1 is their median, 50 ns. Without it,
the ends differ by 0, 1 and -1 ns. The median distance from 0 is the residual, 1 ns.

Over seconds, clocks also drift: if the differences grow from 50 ns to 20 050 ns within a second,
the clock of rank 1 runs 20 ppm faster. If drift is clear, the times of collectives are corrected by
a line per rank (`RankClock`) instead of an offset.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import pandas as pd

from hta_widgets.analysis.cross_rank.comm_events import SYNCHRONIZING_OPERATIONS, recorded_shift
from hta_widgets.analysis.cross_rank.matching import (
    Matching,
    count_selected,
    matching,
    selected_ranks,
)
from hta_widgets.analysis.frames import concat_arrays, result_frame
from hta_widgets.analysis.scope import Window, narrow_selection
from hta_widgets.arguments import check_arguments
from hta_widgets.readers.formats import formats_named, load_references
from hta_widgets.text import duration
from hta_widgets.trace.arrays import (
    Array,
    Bools,
    Floats,
    Ints,
    mask_of_rows,
    positions_by_code,
    positions_of_rows,
)
from hta_widgets.trace.memo import memoize
from hta_widgets.trace.trace import Trace
from hta_widgets.trace.traceset import Selection, TraceSet

_COLUMNS = (
    "offset_ns", "residual_ns", "recorded_residual_ns", "collectives", "part", "drift_ppm",
)  # fmt: skip
_ROUNDS = 12  # maximum number of least-squares solutions; each reweights outlying pairs
_ROUNDS_OF_DRIFT = 30
_SECOND_NS = 1e9
MIN_COLLECTIVES = 3  # a clock with fewer collectives is not reported as skewed
_FLOOR_NS = 100.0  # minimum uncertainty of the difference between two clocks
_MIN_SPAN_NS = 1_000_000_000  # shortest trace for which drift is estimated
_MIN_FOR_DRIFT = 12  # fewest collectives for which drift is estimated
_MIN_DRIFT_NS = 1_000  # smallest drift over a trace that a note mentions
_OUTLIER = 6.0  # distance from a line that makes an outlier, relative to the median distance
_SIGNIFICANT_DRIFT = 6.0  # smallest drift that is corrected, relative to the residual of a line


@dataclass(frozen=True, slots=True, eq=False)
class ClockFit:
    """Offsets to subtract from each rank's recorded times, with one array item per rank."""

    offset_ns: Ints
    residual_ns: Ints
    collectives: Ints  # number of collectives used
    part: Ints  # number of each rank's part; collectives connect the ranks of a part
    drift_ppm: Floats
    recorded_residual_ns: Ints
    origin_offset_ns: int  # added to all times so that none is negative
    drift_ns: Ints  # how far each clock drifts over the trace; 0 if no drift is clear

    @property
    def is_needed(self) -> bool:
        """Whether a recorded clock is off by clearly more than the fit's residual."""
        # The residual of a fit to few collectives is always small.
        enough = self.collectives >= MIN_COLLECTIVES
        return bool((enough & (self.recorded_residual_ns > 2 * self.residual_ns + 1_000)).any())

    @property
    def drift_text(self) -> str:
        """Drift of the clocks: ``clocks drift by up to 20 ppm, …``; "" without drift."""
        worst = int(self.drift_ns.argmax()) if len(self.drift_ns) else -1
        if worst < 0 or self.drift_ns[worst] < _MIN_DRIFT_NS:
            return ""
        ppm = float(abs(self.drift_ppm[worst]))
        return (
            f"clocks drift by up to {ppm:.{2 if ppm < 100 else 3}g} ppm,"
            f" {duration(int(self.drift_ns[worst]))} over the collectives"
        )


@dataclass(frozen=True, slots=True)
class RankClock:
    """A line that maps a rank's table times to the clock of the job."""

    shift_ns: int
    rate: float = 0.0  # ns that the shifted clock gains on the job's clock per ns
    ahead_ns: float = 0.0  # its lead at `center_ns`
    center_ns: float = 0.0

    def to_job(self, time_ns: Ints) -> Ints:
        """Convert times of the rank's table to the clock of the job."""
        shifted: Ints = time_ns + self.shift_ns
        if not self.rate and not self.ahead_ns:
            return shifted
        ahead = self.rate * (shifted - self.center_ns) + self.ahead_ns
        shifted -= np.rint(ahead).astype(np.int64)
        return shifted

    def to_rank(self, time_ns: Ints) -> Ints:
        """Convert times on the clock of the job to times of the rank's table."""
        ahead = (self.rate * (time_ns - self.center_ns) + self.ahead_ns) / (1 - self.rate)
        shifted: Ints = time_ns + np.rint(ahead).astype(np.int64)
        return shifted - self.shift_ns


@dataclass(frozen=True, slots=True, eq=False)
class DriftFit:
    """Lines of the ranks' clocks relative to the clock of each part's lowest rank.

    Times are on fitted clocks: recorded times minus the offset of `ClockFit`.
    """

    rate: Floats
    ahead_ns: Floats
    center_ns: float
    residual_ns: int
    note: str  # how much clocks drift, and how well lines fit; "" if offsets suffice


@check_arguments
def clock_offsets(
    traces: TraceSet,
    *,
    selection: Selection | None = None,
    window: Window | None = None,
    ranks: Iterable[int] | None = None,
) -> pd.DataFrame:
    """Return each rank's clock offset, fitted from collectives.

    All ranks leave a collective together, so the clocks of two ranks differ by the median
    difference between their ends over common collectives. Ranks without a common process group are
    compared through other ranks: a single least-squares fit uses the differences within all groups,
    with larger weights for differences that scatter less. Ranks that no chain of collectives
    connects are not compared. Ranks may leave broadcasts, reductions and messages before others
    arrive, so these count only in groups without other collectives, as the note states. Each
    connected component of the ranks keeps the recorded time of its lowest rank, has a number in
    ``part``, and is listed in the note.

    Parameters
    ----------
    traces : TraceSet
    selection, window : Selection, (start_ns, end_ns), optional
        Restricts the fit to collectives with a selected event in the window.
    ranks : iterable of int, optional
        Restricts the rows to these ranks; the fit uses all ranks.

    Returns
    -------
    DataFrame
        One row per rank. ``rank``; ``offset_ns`` (int64), to subtract from the rank's recorded
        times, 0 for the lowest rank of each part; ``residual_ns`` (int64), the median distance
        between the rank's ends and the median of the others' after that, -1 if unknown;
        ``recorded_residual_ns`` (int64), the same on the recorded clock; ``collectives`` (int64),
        the number used; ``part`` (int64); ``drift_ppm`` (float64), how much faster the clock runs
        than the median of the other clocks (NaN if the trace is shorter than a second or has few
        collectives). Offsets, and `TraceSet.with_clock`, do not correct drift; analyses of
        collectives do.

    See Also
    --------
    TraceSet.with_clock
    """
    chosen = narrow_selection(traces, selection, window, ranks)
    traces = chosen.owner
    match = matching(traces)
    fit = clock_fit(traces)
    member, matched = count_selected(match, chosen)
    if not replace(chosen, ranks=None).is_everything:
        # A collective is used if any of its events is selected.
        fit = _fit(match, match.reduce_per_entry(np.logical_or, member))
    shown = selected_ranks(traces, chosen)
    return result_frame(
        {
            "rank": np.array(traces.ranks, dtype=np.int64)[shown],
            **{name: getattr(fit, name)[shown] for name in _COLUMNS},
        },
        matched=matched,
        note=[
            _clock_note(traces, fit, has_collectives=len(match) > 0),
            _early_leavers_note(match),
            drift_fit(traces).note,
        ],
    )


@memoize
def clock_fit(traces: TraceSet) -> ClockFit:
    """Return the fit from all collectives, regardless of the clock of the trace set."""
    match = matching(traces)
    return _fit(match, np.ones(len(match), dtype=bool))


def _clock_note(traces: TraceSet, fit: ClockFit, *, has_collectives: bool) -> str:
    if not len(traces):
        return "no ranks are loaded"
    if not fit.collectives.any():
        if not has_collectives:
            return "no collective is found on two ranks, so clocks cannot be compared"
        return (
            "the selection or window contains no collective that is on two ranks, so clocks are not"
            " compared"
        )
    parts = positions_by_code(fit.part, int(fit.part.max()) + 1)
    if len(parts) == 1:
        return ""
    ranks = np.array(traces.ranks)
    listed = "; ".join(", ".join(map(str, ranks[part].tolist())) for part in parts[:8])
    listed += "; …" if len(parts) > 8 else ""
    return f"no collectives connect these parts, so their clocks are not compared: {listed}"


def _early_leavers_note(match: Matching) -> str:
    """Return a note about groups without collectives that all ranks leave together."""
    is_synchronizing = np.isin(match.event_field("operation"), SYNCHRONIZING_OPERATIONS)
    if (is_synchronizing | ~_usable_mask(match)).all():
        return ""
    return (
        "some groups have broadcasts, reductions or messages only, which a rank may leave before"
        " others arrive: there, a late rank cannot be distinguished from one whose clock is ahead"
    )


def _fit(match: Matching, used: Bools) -> ClockFit:
    """Return the fit from those `used` entries that are suitable."""
    count = len(match.traces)
    shifts = np.array([recorded_shift(trace) for trace in match.traces], dtype=np.int64)
    used = used & _usable_mask(match)
    collective, trace = match.collective[used], match.trace[used]
    end = (match.event_field("end_ns") + shifts[match.trace])[used]
    pairs = _median_differences(collective, trace, end, match.group[used])
    offset, part = _solve_offsets(count, pairs)
    from_peers_ns = deviation_from_peers(collective, end - offset[trace])
    recorded_from_peers_ns = deviation_from_peers(collective, end)
    residual_ns, recorded_ns = np.full((2, count), -1, dtype=np.int64)
    drift, moved_ns = np.full(count, np.nan), np.zeros(count, dtype=np.int64)
    for rank, entries in enumerate(positions_by_code(trace, count)):
        if len(entries):
            residual_ns[rank] = round(float(np.median(np.abs(from_peers_ns[entries]))))
            recorded_ns[rank] = round(float(np.median(np.abs(recorded_from_peers_ns[entries]))))
            drift[rank], moved_ns[rank] = _drift(end[entries], from_peers_ns[entries])
    return ClockFit(
        offset_ns=offset,
        residual_ns=residual_ns,
        collectives=np.bincount(trace, minlength=count),
        part=part,
        drift_ppm=drift * 1e6,
        recorded_residual_ns=recorded_ns,
        origin_offset_ns=_origin_offset_ns(match.traces, offset.tolist()),
        drift_ns=moved_ns,
    )


def _origin_offset_ns(traces: Iterable[Trace], offsets: list[int]) -> int:
    """Return the smallest shift such that no event starts before 0 on the corrected clocks."""
    starts = [
        trace.start_ns + trace.clock_offset_ns - offset
        for trace, offset in zip(traces, offsets, strict=True)
        if len(trace)
    ]
    return max(-min(starts, default=0), 0)


def _usable_mask(match: Matching) -> Bools:
    """Return a mask of the entries to fit, whose collectives all ranks leave together.

    A group without such collectives contributes the entries in which no rank may leave early.
    """
    is_synchronizing = np.isin(match.event_field("operation"), SYNCHRONIZING_OPERATIONS)
    has_synchronizing = mask_of_rows(match.group[is_synchronizing], len(match.groups))
    may_leave_early = match.event_field("early") == 1
    usable: Bools = is_synchronizing | ~(has_synchronizing[match.group] | may_leave_early)
    return usable


def deviation_from_peers(collective: Ints, values: Ints | Floats) -> Floats:
    """Return each value's distance from the median of the collective's other entries."""
    order = np.lexsort((values, collective))
    ordered, group = values[order], collective[order]
    position = np.arange(len(group))
    first = np.searchsorted(group, group)
    last = np.searchsorted(group, group, side="right") - 1

    def skip_entry(middle: Ints) -> Ints:
        # `middle` skips the entry itself, so positions at or after the entry move up by one.
        return np.clip(middle + (middle >= position), first, last)

    # The median is the mean of the two middle values, which coincide if the number is odd.
    low, high = skip_entry((first + last - 1) // 2), skip_entry((first + last) // 2)
    deviations = np.empty(len(group))
    # Halving comes last, so that integers remain exact.
    deviations[order] = (2 * ordered - ordered[low] - ordered[high]) / 2
    return deviations


class _RankPairs(NamedTuple):
    """Pairs of ranks that share collectives, and the differences between their clocks."""

    left: Ints
    right: Ints
    difference_ns: Floats  # median of the right rank's ends minus those of the left rank
    weight: Floats


def _solve_offsets(count: int, pairs: _RankPairs) -> tuple[Ints, Ints]:
    """Return each rank's offset and the number of its connected component."""
    component = _connected_components(count, pairs)
    component_of_pair = component[pairs.left]
    offset = np.zeros(count)
    for code in np.unique(component_of_pair).tolist():
        members = np.flatnonzero(component == code)
        position = positions_of_rows(members, count)
        left, right, *differences = (column[component_of_pair == code] for column in pairs)
        renumbered = _RankPairs(position[left], position[right], *differences)
        offset[members] = _least_squares(len(members), renumbered)
    return np.rint(offset).astype(np.int64), component


def _median_differences(collective: Ints, trace: Ints, end: Ints, group: Ints) -> _RankPairs:
    """Return pairs of ranks within each group, compared by the ends of its collectives."""
    blocks: list[tuple[Array, ...]] = []
    for entries in positions_by_code(group, int(group.max(initial=-1)) + 1):
        if not len(entries):
            continue
        members, column = np.unique(trace[entries], return_inverse=True)
        distinct, row = np.unique(collective[entries], return_inverse=True)
        table = np.full((len(distinct), len(members)), np.nan)
        table[row, column] = end[entries] - int(end[entries].min())
        hub, other, *differences = _differences_to_hub(table)
        blocks.append((members[hub], members[other], *differences))
    left, right, difference_ns, weight = (
        concat_arrays([block[k] for block in blocks], dtype)
        for k, dtype in enumerate((np.int64, np.int64, np.float64, np.float64))
    )
    return _RankPairs(left, right, difference_ns, weight)


def _differences_to_hub(table: Floats) -> _RankPairs:
    """Compare each column with the fullest one, directly or through other columns."""
    has_value = ~np.isnan(table)
    hubs = [int(has_value.sum(axis=0).argmax())]
    open_columns = [column for column in range(table.shape[1]) if column != hubs[0]]
    pairs: list[tuple[int, int]] = []
    medians: list[float] = []
    weights: list[float] = []
    while open_columns and hubs:
        hub = hubs.pop(0)
        common = has_value & has_value[:, [hub]]
        for other in [column for column in open_columns if common[:, column].any()]:
            rows = common[:, other]
            differences = table[rows, other] - table[rows, hub]
            middle = float(np.median(differences))
            # For normal noise, the median distance times 1.4826 is the standard deviation, which is
            # uncertain if there are few samples.
            scatter = 1.4826 * float(np.median(np.abs(differences - middle)))
            scatter += _FLOOR_NS + 10_000.0 / len(differences)
            pairs.append((hub, other))
            medians.append(middle)
            weights.append(len(differences) / scatter**2)
            open_columns.remove(other)
            hubs.append(other)
    hub_of, other_of = np.array(pairs, dtype=np.int64).reshape(-1, 2).T
    return _RankPairs(hub_of, other_of, np.array(medians), np.array(weights))


def _connected_components(count: int, pairs: _RankPairs) -> Ints:
    """Return each rank's connected component; components are numbered by lowest rank."""
    part = np.arange(count, dtype=np.int64)
    while len(pairs.left):
        low = np.minimum(part[pairs.left], part[pairs.right])
        before = part.copy()
        np.minimum.at(part, pairs.left, low)
        np.minimum.at(part, pairs.right, low)
        part = part[part]
        if np.array_equal(before, part):
            break
    return np.unique(part, return_inverse=True)[1].reshape(-1).astype(np.int64)


def _least_squares(count: int, pairs: _RankPairs) -> Floats:
    """Return offsets that fit the pairs' differences, with less weight for outlying pairs.

    Pairs determine only differences, so the first offset is set to 0.
    """
    left, right, difference_ns, initial_weight = pairs
    weight = initial_weight
    solution = np.zeros(count)
    for _ in range(_ROUNDS):
        matrix = np.zeros((count, count))
        np.add.at(matrix, (left, left), weight)
        np.add.at(matrix, (right, right), weight)
        np.add.at(matrix, (left, right), -weight)
        np.add.at(matrix, (right, left), -weight)
        right_side = np.zeros(count)
        np.add.at(right_side, right, weight * difference_ns)
        np.add.at(right_side, left, -weight * difference_ns)
        previous, solution = solution, np.zeros(count)
        solution[1:] = np.linalg.solve(matrix[1:, 1:], right_side[1:])
        is_settled = np.abs(solution - previous).max(initial=0.0) < 0.5
        # With fewer pairs than ranks, the pairs form a tree, and all equations hold exactly.
        if is_settled or len(difference_ns) < count:
            break
        error_ns = np.abs(solution[right] - solution[left] - difference_ns)
        usual_error_ns = 3 * np.sqrt(1 / initial_weight) + _FLOOR_NS
        weight = initial_weight / np.maximum(1.0, error_ns / usual_error_ns)
    return solution


def _drift(end: Ints, residual_ns: Floats) -> tuple[float, int]:
    """Return a rank's drift rate (NaN if unknown) and total drift (0 if not clear)."""
    if len(end) < _MIN_FOR_DRIFT or int(end.max() - end.min()) < _MIN_SPAN_NS:
        return float("nan"), 0
    # The slope is the one between early and late collectives.
    order = np.argsort(end, kind="stable")
    third = len(order) // 3
    early, late = order[:third], order[-third:]
    span_ns = float(np.median(end[late]) - np.median(end[early]))
    if span_ns <= 0:
        return float("nan"), 0
    slope = float(np.median(residual_ns[late]) - np.median(residual_ns[early])) / span_ns
    moved_ns = abs(slope) * int(end.max() - end.min())
    from_line_ns = residual_ns - slope * (end - int(end.min()))
    scatter_ns = float(np.median(np.abs(from_line_ns - np.median(from_line_ns))))
    return slope, round(moved_ns) if moved_ns > _SIGNIFICANT_DRIFT * scatter_ns else 0


@memoize
def drift_fit(traces: TraceSet) -> DriftFit:
    """Return the lines of the ranks' clocks, which are flat unless drift is clear."""
    fit, match = clock_fit(traces), matching(traces)
    if not fit.drift_text:
        level = np.zeros(len(match.traces))
        return DriftFit(level, level, 0.0, int(fit.residual_ns.max(initial=-1)), "")
    used = _usable_mask(match)
    trace = match.trace[used]
    shifts = np.array([recorded_shift(rank_trace) for rank_trace in match.traces], dtype=np.int64)
    end = match.event_field("end_ns")[used] + (shifts - fit.offset_ns)[trace]
    center_ns = float(end.mean())
    time_s = (end - center_ns) / _SECOND_NS
    collective = np.unique(match.collective[used], return_inverse=True)[1].reshape(-1)
    has_slope = ~np.isnan(fit.drift_ppm)
    rate, level = _lines_from_mean(trace, collective, time_s, end - center_ns, has_slope)
    # From here on, the reference is the clock of each part's lowest rank instead of the mean clock.
    # One of its seconds lasts `second` seconds on the mean clock.
    first = np.unique(fit.part, return_index=True)[1][fit.part]
    second = 1 - rate[first] / _SECOND_NS
    rate, level = (rate - rate[first]) / second, (level - level[first]) / second
    corrected = end - np.rint(rate[trace] * time_s + level[trace]).astype(np.int64)
    distance_ns = np.abs(deviation_from_peers(collective, corrected))
    worst_ns = round(float(pd.Series(distance_ns).groupby(trace).median().max()))
    note = (
        f"{fit.drift_text}; times of collectives are corrected for it, after which ranks leave"
        f" them within {duration(worst_ns)} of each other"
    )
    return DriftFit(rate / _SECOND_NS, level, center_ns, worst_ns, note)


def _lines_from_mean(
    trace: Ints, collective: Ints, time_s: Floats, end_ns: Floats, has_slope: Bools
) -> tuple[Floats, Floats]:
    """Return each clock's gain on the mean clock in ns per second, and its lead at time 0 in ns.

    `has_slope` states whether each rank has enough collectives for a slope of its own.
    """
    rate, level = np.zeros((2, len(has_slope)))
    # Lines of ranks without a common group are related through other ranks, round by round.
    for _ in range(_ROUNDS_OF_DRIFT):
        ahead_ns = rate[trace] * time_s + level[trace]
        corrected_ns = end_ns - ahead_ns
        mean_ns = np.bincount(collective, corrected_ns) / np.bincount(collective)
        from_mean_ns = corrected_ns - mean_ns[collective]
        limit_ns = _OUTLIER * float(np.median(np.abs(from_mean_ns))) + _FLOOR_NS
        limited_ns = np.clip(from_mean_ns, -limit_ns, limit_ns)
        rate, level = _lines(trace, time_s, ahead_ns + limited_ns, len(has_slope))
        rate, level = np.where(has_slope, rate, 0.0), np.where(has_slope, level, 0.0)
    return rate, level


def _lines(group: Ints, x: Floats, y: Floats, size: int) -> tuple[Floats, Floats]:
    """Return slope and intercept of the line through each group's points."""
    count = np.maximum(np.bincount(group, minlength=size), 1)
    mean_x, mean_y = (np.bincount(group, values, size) / count for values in (x, y))
    from_mean = x - mean_x[group]
    spread = np.bincount(group, from_mean**2, size)
    slope = np.bincount(group, from_mean * y, size) / np.where(spread > 0, spread, np.inf)
    return slope, mean_y - slope * mean_x


def drift_error_ns(traces: TraceSet) -> int:
    """Return the maximum drift between two ranks that remains after offsets; 0 if unclear."""
    drift = drift_fit(traces)
    if not drift.note:
        return 0
    from_center = np.array(traces.span_ns) - drift.center_ns
    ahead = pd.DataFrame(np.outer(drift.rate, from_center) + drift.ahead_ns[:, None])
    ranks = ahead.groupby(clock_fit(traces).part)
    return round(float((ranks.max() - ranks.min()).to_numpy().max()))


def rank_clocks(traces: TraceSet, match: Matching, clock: str) -> list[RankClock]:
    """Return, for each rank of a `Matching`, its line to `clock`, ``"host"`` or ``"fitted"``."""
    if clock == traces.clock:
        # These shifts may come from a format's own offsets instead of the fit.
        shifts = [trace.shift_ns for trace in match.traces]
    else:
        shifts = [recorded_shift(trace) for trace in match.traces]
    if clock != "fitted":
        return [RankClock(shift) for shift in shifts]
    fit, drift = clock_fit(traces), drift_fit(traces)
    if clock != traces.clock:
        moves = (fit.origin_offset_ns - fit.offset_ns).tolist()
        shifts = [shift + move for shift, move in zip(shifts, moves, strict=True)]
    # The drift was fitted before time 0 was moved.
    center_ns = drift.center_ns + fit.origin_offset_ns
    lines = zip(shifts, drift.rate.tolist(), drift.ahead_ns.tolist(), strict=True)
    return [RankClock(shift, rate, ahead_ns, center_ns) for shift, rate, ahead_ns in lines]


def fitted_offsets(traces: TraceSet) -> tuple[list[int], int]:
    """Return the offset to subtract from each rank's times, and the shift that keeps times >= 0."""
    # Offsets provided by a format take precedence over offsets fitted from collectives.
    for offsets_of in load_references(
        format_.analyses.clock_offsets for format_ in formats_named(traces.formats)
    ):
        offset_by_rank = offsets_of(traces)
        if offset_by_rank is None:
            continue
        offsets = [offset_by_rank.get(rank, 0) for rank in traces]
        origin_offset_ns = _origin_offset_ns(traces.values(), offsets)
        return [offset - origin_offset_ns for offset in offsets], origin_offset_ns
    fit = clock_fit(traces)
    return (fit.offset_ns - fit.origin_offset_ns).tolist(), fit.origin_offset_ns
