"""Aligns two runs on one time axis and compares the durations of their steps.

For example, if steps take 10 and 20 ms before and 12 and 15 ms after, the slots of base ``steps``
begin at 0 and 12 ms and last 12 and 20 ms. The first run has a gap from 10 to 12 ms, the second
from 27 to 32 ms.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
import numpy.typing as npt
import pandas as pd

from hta_widgets.analysis.cross_rank.matching import matching
from hta_widgets.analysis.frames import result_frame
from hta_widgets.arguments import check_arguments
from hta_widgets.diff.causes import KIND_OF, step_times_by_cause
from hta_widgets.diff.compare import Comparison
from hta_widgets.diff.sequences import align_positions
from hta_widgets.diff.sides import RunSide, step_at
from hta_widgets.diff.stats import combined_p_value, mean_parts
from hta_widgets.trace.arrays import Array, Ints, concatenate_ranges
from hta_widgets.trace.build import step_numbers
from hta_widgets.trace.intervals import CumulativeCoverage, union

Base = Literal["absolute", "first_step", "steps", "collectives", "scaled"]

#: Time bases that `align` accepts.
BASES: tuple[Base, ...] = get_args(Base)
#: Kinds of work that have their own lane, in drawing order.
LANES = ("compute", "communication", "memory")
STEP_KINDS = ("compute", "communication", "memory", "idle", "cpu")
ALPHA = 0.05  # largest p-value of a change
_ALPHA_SMALL = 0.01  # the same for differences below `_LARGE_RATIO`, as in `answers.verdict`
_LARGE_RATIO = 0.2  # share of the longer side
_MAX_NS = 1 << 62


@dataclass(frozen=True, eq=False)
class TimeMap:
    """Maps a run's times to the common axis and back, piecewise, in whole ns.

    Pieces ``[own_start, own_end)`` of the run map to ``[common_start, common_end)``. Common pieces
    are at least as long, so the inverse is exact. Times before the first and after the last piece
    keep their distance from it. A gap between two pieces on the common axis is time that exists
    only in the other run.

    Attributes
    ----------
    own_start, own_end, common_start, common_end : array of int
        One entry per piece, ascending on both axes; pieces are adjacent in the run's own time.
    """

    own_start: Ints
    own_end: Ints
    common_start: Ints
    common_end: Ints

    def to_common(self, time_ns: npt.ArrayLike) -> Ints:
        """Map times of the run to the common axis."""
        time = np.asarray(time_ns, dtype=np.int64)
        piece, since_start, own_length, common_length = self._pieces(time, self.own_start)
        scaled = _scale(np.clip(since_start, 0, own_length), common_length, own_length, up=False)
        since_end = since_start - own_length
        offset = np.select(
            [since_start < 0, since_end >= 0], [since_start, common_length + since_end], scaled
        )
        return self.common_start[piece] + offset

    def to_own(self, time_ns: npt.ArrayLike) -> Ints:
        """Map common times to the run's own time; in a gap, return the last instant before it."""
        time = np.asarray(time_ns, dtype=np.int64)
        piece, since_start, own_length, common_length = self._pieces(time, self.common_start)
        scaled = _scale(np.clip(since_start, 0, common_length), own_length, common_length, up=True)
        since_end = since_start - common_length
        is_last = piece == len(self.own_start) - 1
        beyond_end = own_length + np.where(is_last, since_end, 0)
        offset = np.select(
            [since_start < 0, since_end >= 0],
            [since_start, beyond_end],
            np.minimum(scaled, own_length),
        )
        return self.own_start[piece] + offset

    def gaps(self) -> tuple[Ints, Ints]:
        """Return the starts and ends of the gaps, where the common axis has no time of this run."""
        start, end = self.common_end[:-1], self.common_start[1:]
        is_gap = end > start
        return start[is_gap], end[is_gap]

    def _pieces(self, time: Ints, starts: Ints) -> tuple[Ints, Ints, Ints, Ints]:
        """Return the piece of each time, its offset in the piece, and the lengths on both axes."""
        piece = np.clip(np.searchsorted(starts, time, side="right") - 1, 0, len(starts) - 1)
        own_length = self.own_end[piece] - self.own_start[piece]
        common_length = self.common_end[piece] - self.common_start[piece]
        return piece, time - starts[piece], own_length, common_length


@dataclass(frozen=True, eq=False)
class Alignment:
    """Two runs on one time axis.

    Attributes
    ----------
    base : str
    before, after : TimeMap
    slots : DataFrame
        One row per pair of steps or collectives, in order: ``slot`` (int64); ``before_label,
        after_label`` (str); int64 ``before_start_ns, before_end_ns, after_start_ns, after_end_ns``
        in each run's own time; ``common_start_ns, common_end_ns`` on the common axis; and
        ``delta_ns``, how much longer the slot takes in the second run.
    gaps : DataFrame
        One row per interval of the axis without a counterpart in one run: ``side`` (``before``,
        ``after``), ``start_ns, end_ns`` (int64, common axis).
    """

    base: str
    before: TimeMap
    after: TimeMap
    slots: pd.DataFrame
    gaps: pd.DataFrame

    def segments(self) -> pd.DataFrame:
        """Return the pieces of both maps.

        Returns
        -------
        DataFrame
            ``side`` and int64 ``own_start_ns, own_end_ns, common_start_ns, common_end_ns``.
        """
        names = ("own_start", "own_end", "common_start", "common_end")
        maps = {"before": self.before, "after": self.after}
        frames = [
            pd.DataFrame({"side": side} | {f"{name}_ns": getattr(time_map, name) for name in names})
            for side, time_map in maps.items()
        ]
        return pd.concat(frames, ignore_index=True)


@check_arguments
def align(diff: Comparison, base: Base = "steps") -> Alignment:
    """Align two runs on one time axis.

    Parameters
    ----------
    diff : Comparison
    base : {"absolute", "first_step", "steps", "collectives", "scaled"}, default "steps"
        - ``"absolute"``: each run's own times, unchanged
        - ``"first_step"``: the second run is shifted so that the first matched steps start together
        - ``"steps"``: both steps of a pair start together; a slot is as long as the longer step,
          and a gap follows the shorter one
        - ``"collectives"``: the same for every pair of collectives of the first pair of ranks,
          matched by name and order
        - ``"scaled"``: the shorter run is stretched uniformly to the length of the longer one

    Returns
    -------
    Alignment
        A step of several ranks extends from its earliest start to its latest end.
    """
    labels = [_step_labels(side) if side.has_steps else ["all"] for side in diff.sides]
    edges = [side.envelope() for side in diff.sides]
    note = ""
    if base == "collectives":
        collectives = _collectives(diff)
        if collectives is None:
            note = "no collectives match: steps are aligned instead"
        else:
            edges, labels = collectives
    maps = _slot_maps(edges) if base in ("steps", "collectives") else _run_maps(edges, base)
    return Alignment(base, *maps, _slots(maps, edges, labels, note), _gap_frame(*maps))


def _run_maps(edges: list[tuple[Ints, Ints]], base: Base) -> tuple[TimeMap, TimeMap]:
    """Return maps of the runs as a whole; `edges` holds each side's step starts and ends."""
    starts_ns = [int(start[0]) for start, _ in edges]
    ends_ns = [int(end[-1]) for _, end in edges]
    lengths = [max(end - start, 1) for start, end in zip(starts_ns, ends_ns, strict=True)]

    def map_of_side(side: int) -> TimeMap:
        start_ns, length = starts_ns[side], lengths[side]
        common_ns = start_ns if base == "absolute" else starts_ns[0]
        common_length = max(lengths) if base == "scaled" else length
        edges_ns = start_ns, start_ns + length, common_ns, common_ns + common_length
        return TimeMap(*(np.array([edge]) for edge in edges_ns))

    return map_of_side(0), map_of_side(1)


def _step_labels(side: RunSide) -> list[str]:
    table = next(iter(side.parts.values())).table
    named = step_numbers(table.names.values)[table.name]
    rows = np.flatnonzero((named >= 0) & (table.stream < 0))
    number_of_step = dict(zip(table.step[rows].tolist(), named[rows].tolist(), strict=True))
    labels = []
    for step in side.steps.tolist():
        number = number_of_step.get(step, step)
        labels.append(f"ProfilerStep#{number}{'' if number == step else f' (step {step})'}")
    return labels


def _slot_maps(edges: list[tuple[Ints, Ints]]) -> tuple[TimeMap, TimeMap]:
    """Return maps in which both runs start each slot at the same time."""
    # Steps of several ranks may overlap and be out of order.
    starts = [np.append(start, end[-1] if len(end) else 0) for start, end in edges]
    before, after = map(np.maximum.accumulate, starts)
    lengths = np.maximum(np.diff(before), np.diff(after))
    slots = before[0] + np.concatenate(([0], np.cumsum(lengths)))

    def map_edges(own_edges: Ints) -> TimeMap:
        # The last piece covers the time after the last slot.
        ends = np.append(slots[:-1] + np.diff(own_edges), slots[-1])
        return TimeMap(own_edges, np.append(own_edges[1:], own_edges[-1]), slots, ends)

    return map_edges(before), map_edges(after)


def _slots(
    maps: tuple[TimeMap, TimeMap],
    edges: list[tuple[Ints, Ints]],
    labels: list[list[str]],
    note: str,
) -> pd.DataFrame:
    """Return the slots of `Alignment` from each side's slot edges and labels."""
    columns: dict[str, Any] = {"slot": np.arange(len(edges[0][0]), dtype=np.int64)}
    texts = [pd.array(label, dtype="str") for label in labels]
    columns["before_label"], columns["after_label"] = texts
    for word, (start, end) in zip(("before", "after"), edges, strict=True):
        columns |= {f"{word}_start_ns": start, f"{word}_end_ns": end}
    sides = list(zip(maps, edges, strict=True))
    starts = [time_map.to_common(start) for time_map, (start, _) in sides]
    columns["common_start_ns"] = np.minimum(*starts)
    # The end belongs to the next slot, so the last instant before it is mapped.
    columns["common_end_ns"] = np.maximum(
        *(
            time_map.to_common(np.maximum(end - 1, start)) + (end > start)
            for time_map, (start, end) in sides
        )
    )
    lengths = [end - start for start, end in edges]
    columns["delta_ns"] = lengths[1] - lengths[0]
    return result_frame(columns, matched={"slots": len(lengths[0])}, note=note)


def _gap_frame(before: TimeMap, after: TimeMap) -> pd.DataFrame:
    gaps = before.gaps(), after.gaps()
    counts = [len(start) for start, _ in gaps]
    sides = np.repeat(np.array(["before", "after"], dtype=object), counts)
    start, end = (np.concatenate(edges) for edges in zip(*gaps, strict=True))
    return result_frame(
        {"side": pd.Series(sides, dtype=object), "start_ns": start, "end_ns": end},
        matched={"before": counts[0], "after": counts[1]},
        note="" if len(sides) else "no gaps: all times have a counterpart",
    )


def _collectives(diff: Comparison) -> tuple[list[tuple[Ints, Ints]], list[list[str]]] | None:
    """Return the matched collectives' starts, ends and names; None if there are none."""
    before, after = map(_collectives_of, diff.sides, diff.rank_pairs[0])
    codes, _ = pd.factorize(np.concatenate([before["name"], after["name"]]))
    before_code, after_code = np.split(codes, [len(before["name"])])
    pairs = [np.empty((0, 2), np.int64)]
    for step in range(diff.step_count):
        before_rows = np.flatnonzero(before["step"] == step)
        after_rows = np.flatnonzero(after["step"] == step)
        codes_of_step = before_code[before_rows], after_code[after_rows]
        hashes = [codes.astype(np.uint64) for codes in codes_of_step]
        positions = align_positions(*codes_of_step, hashes[0], hashes[1])
        pairs.append(np.stack([before_rows[positions[:, 0]], after_rows[positions[:, 1]]], axis=1))
    rows_of_sides = np.concatenate(pairs).T
    if not rows_of_sides.size:
        return None
    sides = list(zip((before, after), rows_of_sides, strict=True))
    edges = [(columns["start"][rows], columns["end"][rows]) for columns, rows in sides]
    return edges, [columns["name"][rows].tolist() for columns, rows in sides]


def _collectives_of(side: RunSide, rank: int) -> dict[str, Array]:
    """Return a rank's collectives as columns ordered by start."""
    part = side.parts[rank]
    match = matching(side.traces)
    number = [trace.rank for trace in match.traces].index(rank)
    rows = np.sort(match.events[number].rows)
    rows = rows[np.isin(rows, part.rows)]
    table = part.table
    start = table.start_ns[rows] + part.trace.shift_ns
    step = step_at(side, rank, start)
    rows, start, step = rows[step >= 0], start[step >= 0], step[step >= 0]
    names = np.array([table.names[code] for code in table.name[rows].tolist()], dtype=object)
    return {"start": start, "end": start + table.dur_ns[rows], "step": step, "name": names}


def _scale(value: Ints, numerator: Ints, denominator: Ints, *, up: bool) -> Ints:
    """Return ``value * numerator / denominator`` in integers, rounded down or up."""
    denominator = np.maximum(denominator, 1)
    if (numerator == denominator).all():
        return value
    terms = value, numerator, denominator
    if int(np.abs(value).max(initial=0)) * int(numerator.max(initial=0)) >= _MAX_NS:
        # Python integers are exact beyond 64 bits, but slower.
        terms = tuple(term.astype(object) for term in terms)  # type: ignore[assignment]
    product = terms[0] * terms[1]
    exact = -(-product // terms[2]) if up else product // terms[2]
    return exact.astype(np.int64)


def lanes(diff: Comparison, line: Alignment, *, pair: int = 0, bins: int = 1600) -> pd.DataFrame:
    """Return the busy time of a pair of ranks for each slot, lane, and cell of equal width."""
    slots = line.slots
    length = (slots["common_end_ns"] - slots["common_start_ns"]).to_numpy()
    cell_ns = max(1, -(-int(length.sum()) // max(bins, 1)))
    frames = []
    for number, side in enumerate(diff.sides):
        rank = diff.rank_pairs[pair][number]
        part = side.parts[rank]
        start, end = side.windows[rank].T
        count = -(-(end - start) // cell_ns)
        slot = np.repeat(np.arange(len(start)), count)
        cell = concatenate_ranges(np.zeros_like(count), count)
        low = start[slot] + cell * cell_ns
        high = np.minimum(low + cell_ns, end[slot])
        shift_ns = part.trace.shift_ns
        for lane, kind in enumerate(LANES):
            covered = CumulativeCoverage(*union(*part.clip_rows(part.rows_of_kinds(kind))))
            busy_ns = covered(high - shift_ns) - covered(low - shift_ns)
            columns = {"slot": slot, "side": number, "lane": lane, "cell": cell, "busy_ns": busy_ns}
            frames.append(pd.DataFrame(columns)[busy_ns > 0])
    shares = pd.concat(frames, ignore_index=True)
    return result_frame(
        {str(name): shares[name] for name in shares},
        matched={"cells": len(shares)},
        note="" if len(shares) else "no device work in the compared steps",
        cell_ns=cell_ns,
        lanes=list(LANES),
    )


@check_arguments
def steps(diff: Comparison) -> pd.DataFrame:
    """Return the difference in duration of each pair of steps, in total and by kind of time.

    Parameters
    ----------
    diff : Comparison

    Returns
    -------
    DataFrame
        One row per pair of steps, in order: ``slot`` (int64), counted from 0; ``before_step,
        after_step`` (int64), the step numbers, -1 if the runs have no steps; ``before_ns, after_ns,
        diff_ns`` (int64), the step durations (`RunSide.windows`) as means over the ranks, rounded
        so that the kinds add up; ``change_share`` (float64), the difference divided by the duration
        before; and int64 ``compute_diff_ns, communication_diff_ns, memory_diff_ns, idle_diff_ns,
        cpu_diff_ns``, which add up to ``diff_ns``: see `waterfall`. A step ends at the start of the
        next step and excludes the time between recording windows.

        ``.attrs``: ``p_value`` of Welch's test, None with fewer than two steps. If at least three
        steps have the same numbers on both sides, it is twice the smaller of this p-value and that
        of a paired Student's t-test. ``is_significant``: whether the p-value is below 0.05.
        ``may_be_chance``: whether the p-value is at least 0.05, or at least 0.01 if the mean
        duration changes by less than 20 %. Both are None without a p-value. ``median_share``: the
        median of ``change_share``. ``before_std_ns, after_std_ns`` (float): standard deviations of
        the durations.
    """
    by_kind = [kind_times(diff, side) for side in diff.sides]
    before, after = (kinds.sum(axis=1) for kinds in by_kind)
    change = by_kind[1] - by_kind[0]
    share = (after - before) / np.where(before > 0, before, np.nan)
    lengths = before[:, None].astype(float), after[:, None].astype(float)
    p_value = float(combined_p_value(*lengths, by_step=diff.same_steps, factors=(2, 2))[0])
    is_tested = not np.isnan(p_value)
    return result_frame(
        {
            "slot": np.arange(diff.step_count, dtype=np.int64),
            "before_step": diff.before.steps.astype(np.int64),
            "after_step": diff.after.steps.astype(np.int64),
            "before_ns": before,
            "after_ns": after,
            "diff_ns": after - before,
            "change_share": share,
            **{f"{kind}_diff_ns": change[:, k] for k, kind in enumerate(STEP_KINDS)},
        },
        matched={"steps": diff.step_count},
        p_value=p_value if is_tested else None,
        is_significant=p_value < ALPHA if is_tested else None,
        may_be_chance=may_be_chance(p_value, before.mean(), after.mean()) if is_tested else None,
        median_share=float(np.nanmedian(share)) if np.isfinite(share).any() else None,
        before_std_ns=float(before.std(ddof=1)) if is_tested else None,
        after_std_ns=float(after.std(ddof=1)) if is_tested else None,
    )


def may_be_chance(p_value: float, before_ns: float, after_ns: float) -> bool:
    """Return whether a change of the mean step duration is described as possible chance."""
    is_large = abs(after_ns - before_ns) >= _LARGE_RATIO * max(before_ns, after_ns)
    return bool(p_value >= (ALPHA if is_large else _ALPHA_SMALL))


def kind_times(diff: Comparison, side: RunSide) -> Ints:
    """Return the time per step and kind, averaged over ranks."""
    sums = np.zeros((diff.step_count, len(STEP_KINDS)), dtype=np.int64)
    for causes in step_times_by_cause(diff, side).values():
        for cause, times in causes.items():
            sums[:, STEP_KINDS.index(KIND_OF[cause])] += times
    return np.stack([mean_parts(row, len(side.ranks)) for row in sums])
