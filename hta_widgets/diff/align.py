"""One time axis for both."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt
import pandas as pd

from hta_widgets.analysis.matching import matching
from hta_widgets.analysis.scope import result
from hta_widgets.diff.compare import Comparison, RunSide
from hta_widgets.diff.pairs import KIND_OF, moments
from hta_widgets.diff.statistics import either_test, mean_parts
from hta_widgets.diff.trees import aligned_places
from hta_widgets.errors import TraceError
from hta_widgets.trace.intervals import Covered, union

Ints = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]

Base = Literal["absolute", "first_step", "steps", "collectives", "scaled"]

#: The time bases, as `align` takes them.
BASES: tuple[Base, ...] = ("absolute", "first_step", "steps", "collectives", "scaled")

_MOST = 1 << 62


@dataclass(frozen=True, eq=False)
class TimeMap:
    """Maps a run's own times onto the common axis and back, piece by piece, in whole ns.

    Pieces ``[own_start, own_end)`` go to ``[common_start, common_end)``, which are as long or
    longer, never shorter: so each own instant has a place of its own, and the way back gives it
    exactly. Before the first and after the last piece, times go on as they are. What lies between
    two pieces on the common axis is a gap: the other run has something there, this one has not.

    Attributes
    ----------
    own_start, own_end, common_start, common_end : array of int
        One entry per piece, ascending on both axes; the pieces join on the own axis.
    """

    own_start: Ints
    own_end: Ints
    common_start: Ints
    common_end: Ints

    def to_common(self, time_ns: npt.ArrayLike) -> Ints:
        """Return the places of own times on the common axis."""
        time = np.asarray(time_ns, dtype=np.int64)
        piece = np.clip(
            np.searchsorted(self.own_start, time, side="right") - 1, 0, len(self.own_start) - 1
        )
        own, common = self._lengths(piece)
        inside = time - self.own_start[piece]
        beyond = (inside < 0) | (inside >= own)
        scaled = _scaled(np.clip(inside, 0, own), common, own, up=False)
        after = inside - own + common
        moved = np.where(inside < 0, inside, np.where(beyond, after, scaled))
        placed: Ints = self.common_start[piece] + moved
        return placed

    def to_own(self, time_ns: npt.ArrayLike) -> Ints:
        """Return the own times at places of the common axis; in a gap, the instant before it."""
        time = np.asarray(time_ns, dtype=np.int64)
        piece = np.clip(
            np.searchsorted(self.common_start, time, side="right") - 1, 0, len(self.own_start) - 1
        )
        own, common = self._lengths(piece)
        inside = time - self.common_start[piece]
        last = piece == len(self.own_start) - 1
        beyond = (inside < 0) | (inside >= common)
        after = np.where(last, inside - common + own, own)
        scaled = _scaled(np.clip(inside, 0, common), own, common, up=True)
        moved = np.where(inside < 0, inside, np.where(beyond, after, np.minimum(scaled, own)))
        placed: Ints = self.own_start[piece] + moved
        return placed

    def gaps(self) -> tuple[Ints, Ints]:
        """Return the stretches of the common axis in which the run has nothing."""
        start, end = self.common_end[:-1], self.common_start[1:]
        lasting = end > start
        return start[lasting], end[lasting]

    def in_gap(self, time_ns: npt.ArrayLike) -> Flags:
        """Return which places of the common axis lie in a gap."""
        start, end = self.gaps()
        time = np.asarray(time_ns, dtype=np.int64)
        if not len(start):
            return np.zeros(time.shape, dtype=bool)
        at = np.searchsorted(start, time, side="right") - 1
        found: Flags = (at >= 0) & (time < end[np.maximum(at, 0)])
        return found

    def _lengths(self, piece: Ints) -> tuple[Ints, Ints]:
        own = self.own_end[piece] - self.own_start[piece]
        return own, self.common_end[piece] - self.common_start[piece]


@dataclass(frozen=True, eq=False)
class Alignment:
    """Two runs on one axis.

    Attributes
    ----------
    base : str
    before, after : TimeMap
    slots : DataFrame
        One row per pair of steps, or of collectives, in order. ``slot`` (int64);
        ``before_label, after_label`` (str); int64: ``before_start_ns, before_end_ns,
        after_start_ns, after_end_ns`` in each run's own times; ``common_start_ns, common_end_ns``,
        the slot on the axis; ``delta_ns``, how much longer it takes after.
    gaps : DataFrame
        One row per stretch of the axis in which a run has no counterpart: ``side`` (``before``,
        ``after``), ``start_ns, end_ns`` (int64, common axis).
    """

    base: str
    before: TimeMap
    after: TimeMap
    slots: pd.DataFrame
    gaps: pd.DataFrame

    def segments(self) -> pd.DataFrame:
        """Return the pieces of both maps, as a page needs them.

        Returns
        -------
        DataFrame
            ``side`` and int64 ``own_start_ns, own_end_ns, common_start_ns, common_end_ns``.
        """
        maps = (self.before, self.after)
        sizes = [len(one.own_start) for one in maps]
        columns = ("own_start", "own_end", "common_start", "common_end")
        return pd.DataFrame(
            {
                "side": np.repeat(np.array(["before", "after"], dtype=object), sizes),
                **{
                    f"{name}_ns": np.concatenate([getattr(one, name) for one in maps])
                    for name in columns
                },
            }
        )


def align(diff: Comparison, base: Base = "steps") -> Alignment:
    """Lay two runs on one time axis.

    Parameters
    ----------
    diff : Comparison
    base : {"absolute", "first_step", "steps", "collectives", "scaled"}, default "steps"
        - ``"absolute"``: each run's own times, as they are
        - ``"first_step"``: moved, so that the first steps that belong together start at once
        - ``"steps"``: every pair of steps starts at once; a slot is as long as the longer of the
          two, and the shorter ends in a gap
        - ``"collectives"``: the same with every pair of collectives of the first pair of ranks:
          those of one name in one order
        - ``"scaled"``: the shorter run is stretched evenly to the length of the longer one

    Returns
    -------
    Alignment
        On several ranks a step runs from its earliest start to its latest end.

    Raises
    ------
    TraceError
        For an unknown base.

    Examples
    --------
    >>> both = align(diff, "steps")  # doctest: +SKIP
    >>> both.after.to_common(after_events["start_ns"])  # doctest: +SKIP
    """
    if base not in BASES:
        raise TraceError(f"there is no time base {base!r}", remedy=f"They are {', '.join(BASES)}.")
    labels = [_labels(side) for side in diff.sides]
    marks = [side.envelope() for side in diff.sides]
    note = ""
    if base == "collectives":
        found = _collectives(diff)
        if found is None:
            note = "no collectives belong together: steps are lined up instead"
        else:
            marks, labels = found
    starts, ends = [list(one) for one in zip(*marks, strict=True)]
    if base in ("steps", "collectives"):
        bounds = [_bounds(start, end) for start, end in zip(starts, ends, strict=True)]
        before, after = _warped(bounds[0], bounds[1])
    else:
        shift = 0 if base == "absolute" else int(starts[0][0] - starts[1][0])
        first = [int(start[0]) for start in starts]
        lengths = [max(int(end[-1]) - at, 1) for end, at in zip(ends, first, strict=True)]
        common = max(lengths) if base == "scaled" else 0
        if base == "scaled":
            shift = first[0] - first[1]
        maps = [
            TimeMap(*(np.array([value], dtype=np.int64) for value in values))
            for values in (
                (first[0], first[0] + lengths[0], first[0], first[0] + (common or lengths[0])),
                (
                    first[1],
                    first[1] + lengths[1],
                    first[1] + shift,
                    first[1] + shift + (common or lengths[1]),
                ),
            )
        ]
        before, after = maps
    return Alignment(
        base,
        before,
        after,
        _slots(before, after, starts, ends, labels, note),
        _gap_frame(before, after),
    )


def _labels(side: RunSide) -> list[str]:
    return [f"ProfilerStep#{step}" for step in side.steps.tolist()] if side.has_steps else ["all"]


def _bounds(start: Ints, end: Ints) -> Ints:
    """Return where slots begin, and where the last one ends: what follows a step is its slot's.

    Steps of several ranks may overlap, and steps need not follow each other in order.
    """
    bounds: Ints = np.maximum.accumulate(np.append(start, end[-1] if len(end) else 0))
    return bounds


def _warped(before: Ints, after: Ints) -> tuple[TimeMap, TimeMap]:
    """Return maps on which all slots, given by their bounds, start in line."""
    lengths = np.maximum(np.diff(before), np.diff(after))
    slots = before[0] + np.concatenate(([0], np.cumsum(lengths)))
    return _placed(before, slots), _placed(after, slots)


def _placed(own: Ints, slots: Ints) -> TimeMap:
    """Return the map of pieces that start where slots do; what follows the last is one more."""
    ends = np.append(slots[:-1] + np.diff(own), slots[-1])
    return TimeMap(own, np.append(own[1:], own[-1]), slots, ends)


def _slots(
    before: TimeMap,
    after: TimeMap,
    starts: list[Ints],
    ends: list[Ints],
    labels: list[list[str]],
    note: str,
) -> pd.DataFrame:
    placed = [one.to_common(start) for one, start in zip((before, after), starts, strict=True)]
    # The last instant of a step is placed; one more is its end.
    ended = [
        one.to_common(np.maximum(end - 1, start)) + (end > start)
        for one, start, end in zip((before, after), starts, ends, strict=True)
    ]
    return result(
        {
            "slot": np.arange(len(starts[0]), dtype=np.int64),
            "before_label": pd.array(labels[0], dtype="str"),
            "after_label": pd.array(labels[1], dtype="str"),
            "before_start_ns": starts[0],
            "before_end_ns": ends[0],
            "after_start_ns": starts[1],
            "after_end_ns": ends[1],
            "common_start_ns": np.minimum(*placed),
            "common_end_ns": np.maximum(*ended),
            "delta_ns": (ends[1] - starts[1]) - (ends[0] - starts[0]),
        },
        matched={"slots": len(starts[0])},
        note=note,
    )


def _gap_frame(before: TimeMap, after: TimeMap) -> pd.DataFrame:
    found = [one.gaps() for one in (before, after)]
    sides = np.repeat(np.array(["before", "after"], dtype=object), [len(gap[0]) for gap in found])
    return result(
        {
            "side": pd.Series(sides, dtype=object),
            "start_ns": np.concatenate([gap[0] for gap in found]),
            "end_ns": np.concatenate([gap[1] for gap in found]),
        },
        matched={"before": len(found[0][0]), "after": len(found[1][0])},
        note="" if len(sides) else "no gaps: nothing is without a counterpart",
    )


# --- collectives ----------------------------------------------------------------------------------


def _collectives(
    diff: Comparison,
) -> tuple[list[tuple[Ints, Ints]], list[list[str]]] | None:
    """Return starts and ends of the collectives that belong together, and their names."""
    names: dict[str, int] = {}
    found = [
        _collectives_of(side, rank, names)
        for side, rank in zip(diff.sides, diff.rank_pairs[0], strict=True)
    ]
    pairs: list[npt.NDArray[np.int64]] = []
    for step in range(diff.step_count):
        mine = [np.flatnonzero(one[2] == step) for one in found]
        codes = [one[3][rows] for one, rows in zip(found, mine, strict=True)]
        places = aligned_places(
            codes[0], codes[1], codes[0].astype(np.uint64), codes[1].astype(np.uint64)
        )
        pairs.append(np.stack([mine[0][places[:, 0]], mine[1][places[:, 1]]], axis=1))
    joined = np.concatenate(pairs) if pairs else np.empty((0, 2), np.int64)
    if not len(joined):
        return None
    texts = list(names)
    rows = joined[:, 0], joined[:, 1]
    marks = [(one[0][row], one[1][row]) for one, row in zip(found, rows, strict=True)]
    labels = [
        [texts[code] for code in one[3][row].tolist()] for one, row in zip(found, rows, strict=True)
    ]
    return marks, labels


def _collectives_of(
    side: RunSide, rank: int, names: dict[str, int]
) -> tuple[Ints, Ints, Ints, Ints]:
    """Return start, end, place of the step and name of a rank's collectives, in order of start."""
    part = side.parts[rank]
    match = matching(side.traces)
    number = [trace.rank for trace in match.traces].index(rank)
    events = match.events[number]
    rows = np.sort(events.rows)
    rows = rows[np.isin(rows, part.rows)]
    table, shift = part.table, part.trace.shift_ns
    windows = side.windows[rank]
    start = table.start_ns[rows] + shift
    at = np.searchsorted(windows[:, 0], start, side="right") - 1
    inside = (at >= 0) & (start < windows[np.maximum(at, 0), 1])
    rows, start, at = rows[inside], start[inside], at[inside]
    code = np.array(
        [names.setdefault(table.names[k], len(names)) for k in table.name[rows].tolist()],
        dtype=np.int64,
    )
    return start, start + table.dur_ns[rows], at, code


def _scaled(value: Ints, numerator: Ints, denominator: Ints, *, up: bool) -> Ints:
    """Return ``value * numerator / denominator`` in whole numbers, rounded down or up."""
    denominator = np.maximum(denominator, 1)
    same = numerator == denominator
    if same.all():
        return value
    most = int(np.abs(value).max(initial=0)) * int(numerator.max(initial=0))
    if most < _MOST:
        product = value * numerator
        return -(-product // denominator) if up else product // denominator
    # Beyond int64 Python's own integers are exact, if slower.
    product = value.astype(object) * numerator.astype(object)
    below = denominator.astype(object)
    exact = -(-product // below) if up else product // below
    found: Ints = exact.astype(np.int64)
    return found


#: The kinds that have a lane each, in the order in which they are drawn.
LANES = ("compute", "communication", "memory")


def lanes(diff: Comparison, line: Alignment, *, pair: int = 0, bins: int = 1600) -> pd.DataFrame:
    """Return how busy the devices of a pair of ranks are in their own steps, in equal cells."""
    slots = line.slots
    length = (slots["common_end_ns"] - slots["common_start_ns"]).to_numpy()
    cell_ns = max(1, -(-int(length.sum()) // max(bins, 1)))
    found: dict[str, list[Ints]] = {name: [] for name in ("slot", "side", "lane", "cell", "busy")}
    for place, side in enumerate(diff.sides):
        rank = diff.rank_pairs[pair][place]
        start, end = side.windows[rank].T
        count = -(-(end - start) // cell_ns)
        slot = np.repeat(np.arange(len(start)), count)
        cell = np.arange(int(count.sum())) - np.repeat(np.cumsum(count) - count, count)
        low = start[slot] + cell * cell_ns
        high = np.minimum(low + cell_ns, end[slot])
        for lane, kind in enumerate(LANES):
            covered = _covered(side, rank, kind)
            busy = covered(high) - covered(low)
            kept = busy > 0
            rows = int(kept.sum())
            for name, values in (
                ("slot", slot[kept]),
                ("side", np.full(rows, place)),
                ("lane", np.full(rows, lane)),
                ("cell", cell[kept]),
                ("busy", busy[kept]),
            ):
                found[name].append(values.astype(np.int64))
    columns = {name: np.concatenate(values) for name, values in found.items()}
    columns["busy_ns"] = columns.pop("busy")
    rows = len(columns["slot"])
    return result(
        columns,
        matched={"cells": rows},
        note="" if rows else "no device work in the steps that are compared",
        cell_ns=cell_ns,
        lanes=list(LANES),
    )


def _covered(side: RunSide, rank: int, kind: str) -> Covered:
    part = side.parts[rank]
    start, end = part.clipped(part.of_kinds(kind))
    shift = part.trace.shift_ns
    pieces = union(start + shift, end + shift)
    return Covered(pieces.start, pieces.end)


#: What is likelier than this to be chance is not called a change.
ALPHA = 0.05

#: What the moments of a step are parted into.
STEP_KINDS = ("compute", "communication", "memory", "idle", "cpu")


def steps(diff: Comparison) -> pd.DataFrame:
    """Return how much longer each step takes after than before, and what of it goes to which kind.

    Parameters
    ----------
    diff : Comparison

    Returns
    -------
    DataFrame
        One row per pair of steps, in order: ``slot`` (int64), from 0; ``before_step, after_step``
        (int64), their numbers, -1 where the whole is one stretch; and int64 ``before_ns, after_ns,
        diff_ns``: lengths of the steps on the host, of several ranks the mean, rounded so that
        the kinds add up; ``change_share`` (float64); and by kind, ``compute_diff_ns,
        communication_diff_ns, memory_diff_ns, idle_diff_ns, cpu_diff_ns`` (int64), which add up
        to ``diff_ns``: see `waterfall`.

        ``.attrs``: ``p_value``, how likely the steps differ as much by chance: by Welch's test, and
        where at least three steps have the same numbers on both sides by Student's t-test of the
        pairs, twice the smaller of the two; None with fewer than two steps; ``is_significant``,
        whether that is below 0.05, or None; ``median_share``, the median of ``change_share``;
        ``before_std_ns, after_std_ns`` (float), the spread of the steps.

    Examples
    --------
    >>> found = steps(diff)  # doctest: +SKIP
    >>> found.loc[found["diff_ns"].idxmax()]  # doctest: +SKIP
    """
    by_kind = [kind_times(diff, side) for side in diff.sides]
    before, after = (kinds.sum(axis=1) for kinds in by_kind)
    change = by_kind[1] - by_kind[0]
    share = (after - before) / np.where(before > 0, before, np.nan)
    lengths = before[:, None].astype(float), after[:, None].astype(float)
    likely = float(either_test(*lengths, by_step=diff.same_steps, factors=(2, 2))[0])
    known = not np.isnan(likely)
    return result(
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
        p_value=likely if known else None,
        is_significant=likely < ALPHA if known else None,
        median_share=float(np.nanmedian(share)) if np.isfinite(share).any() else None,
        before_std_ns=float(before.std(ddof=1)) if known else None,
        after_std_ns=float(after.std(ddof=1)) if known else None,
    )


def kind_times(diff: Comparison, side: RunSide) -> Ints:
    """Return the time of each step and kind, the mean over ranks."""
    sums = np.zeros((diff.step_count, len(STEP_KINDS)), dtype=np.int64)
    for causes in moments(diff, side).values():
        for cause, times in causes.items():
            sums[:, STEP_KINDS.index(KIND_OF[cause])] += times
    return np.stack([mean_parts(row, len(side.ranks)) for row in sums])
