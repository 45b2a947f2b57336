"""Match the events of two runs, split their steps' time by cause, test for chance."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pandas as pd

from hta_widgets.analysis.frames import categorical, concat_arrays, result_frame, stack_blocks
from hta_widgets.analysis.idle import IDLE_CATEGORIES, first_launched, gap_pieces
from hta_widgets.analysis.scope import RankPart
from hta_widgets.arguments import check_arguments
from hta_widgets.diff.compare import Comparison, RunSide, both_have_frames, is_host_only
from hta_widgets.diff.trees import (
    STATUSES,
    MatchedTrees,
    NamePool,
    RankTree,
    TreeMatcher,
    rank_tree,
)
from hta_widgets.readers.formats import formats_named, load_references
from hta_widgets.taxonomy import KINDS
from hta_widgets.trace.arrays import Floats, Ints, Rows, concatenate_ranges
from hta_widgets.trace.intervals import CumulativeCoverage, Intervals, intersect, subtract, union
from hta_widgets.trace.memo import memoized

_lgamma = np.vectorize(math.lgamma, otypes=[np.float64])
_ROUNDS = 200
_SMALLEST = 1e-300
MIN_PAIRS = 3  # minimum number of differences for estimating their spread


def mean_parts(sums: Ints, count: int) -> Ints:
    """Return `sums` divided by `count`, rounded so that they add up to the total's rounded mean."""
    # The largest remainder method: round down, then give the missing units to the largest ones.
    whole, rest = np.divmod(sums.astype(np.int64), count)
    total = (2 * int(sums.sum()) + count) // (2 * count)
    left = total - int(whole.sum())
    order = np.argsort(-rest, kind="stable")
    whole[order[:left]] += 1
    return whole


def welch_p_value(before: Floats, after: Floats) -> Floats:
    """Return the two-sided p-value of Welch's t-test of each column; rows are steps."""
    # The steps of one run count as independent draws; the two sides may spread differently.
    counts = len(before), len(after)
    if min(counts) < 2:
        return np.full(before.shape[1], np.nan)
    gap = after.mean(axis=0) - before.mean(axis=0)
    errors = [side.var(axis=0, ddof=1) / len(side) for side in (before, after)]
    error = errors[0] + errors[1]
    freedom = error**2 / np.maximum(
        errors[0] ** 2 / (counts[0] - 1) + errors[1] ** 2 / (counts[1] - 1), _SMALLEST
    )
    return _p_value(gap, error, freedom)


def _p_value(mean: Floats, error: Floats, freedom: Floats) -> Floats:
    """Return the p-value of Student's t for means with squared standard errors `error`."""
    # Rounding of means must not count as spread.
    still = error <= (1e-12 * np.maximum(np.abs(mean), 1e-12)) ** 2
    freedom = np.where(still, 1.0, freedom)
    likely = _regularised_beta(
        freedom / 2, 0.5, freedom / (freedom + mean**2 / np.where(still, 1.0, error))
    )
    return np.where(still, np.where(np.abs(mean) > 0, 0.0, 1.0), likely)


def paired_steps_p_value(before: Floats, after: Floats) -> Floats:
    """Return the p-value of each column by a paired t-test of the logarithms of ratios."""
    # Steps that differ by design do so on both sides; a change by one factor is equal in all steps.
    count, columns = before.shape
    known = (before > 0).all(axis=0) & (after > 0).all(axis=0)
    ratio = np.log(np.where(known, after, 1.0) / np.where(known, before, 1.0))
    group = np.tile(np.arange(columns), count)
    return np.where(known, paired_p_value(group, ratio.ravel(), columns), np.nan)


def combined_p_value(
    before: Floats, after: Floats, *, by_step: bool, factors: tuple[float, float] = (1, 10)
) -> Floats:
    """Return the p-value of each column by Welch's test, also paired if `by_step`."""
    # It is the smaller of the two, each multiplied by its factor, because two tests have more false
    # positives than one. With the default factors Welch's test decides among many columns, and
    # together both have at most a tenth more.
    p_value = welch_p_value(before, after)
    if by_step and len(before) >= MIN_PAIRS:
        p_value = np.fmin(factors[0] * p_value, factors[1] * paired_steps_p_value(before, after))
    return np.minimum(p_value, 1.0)


def paired_p_value(group: Ints, difference: Floats, size: int) -> Floats:
    """Return the p-value of the mean difference of each group, by Student's paired t-test."""
    # The pairs are steps, or calls if there are too few steps.
    count = np.bincount(group, minlength=size).astype(np.float64)
    mean = np.bincount(group, difference, size) / np.maximum(count, 1)
    spread = np.bincount(group, (difference - mean[group]) ** 2, size)
    freedom = np.maximum(count - 1, 1)
    likely = _p_value(mean, spread / freedom / np.maximum(count, 1), freedom)
    return np.where(count >= MIN_PAIRS, likely, np.nan)


def _regularised_beta(a: Floats, b: float, x: Floats) -> Floats:
    """Return the regularised incomplete beta function, by its continued fraction."""
    x = np.clip(x, 0.0, 1.0)
    swap = x > (a + 1) / (a + b + 2)
    first, two = np.where(swap, b, a), np.where(swap, a, b)
    at = np.where(swap, 1 - x, x)
    inside = (at > 0) & (at < 1)
    safe = np.where(inside, at, 0.5)
    front = np.exp(
        _lgamma(first + two) - _lgamma(first) - _lgamma(two)
        + first * np.log(safe) + two * np.log1p(-safe)
    ) / first  # fmt: skip
    value = front * _beta_fraction(first, two, safe)
    value = np.where(inside, value, np.where(at <= 0, 0.0, 1.0))
    return np.where(swap, 1 - value, value)


def _beta_fraction(a: Floats, b: Floats, x: Floats) -> Floats:
    """Evaluate the continued fraction of the incomplete beta function by Lentz's method."""
    c = np.ones_like(x)
    d = _nonzero(1 - (a + b) * x / (a + 1))
    d = 1 / d
    value = d.copy()
    for m in range(1, _ROUNDS):
        even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        d = 1 / _nonzero(1 + even * d)
        c = _nonzero(1 + even / c)
        value = value * d * c
        odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        d = 1 / _nonzero(1 + odd * d)
        c = _nonzero(1 + odd / c)
        step = d * c
        value = value * step
        if np.all(np.abs(step - 1) < 1e-14):
            break
    return value


def _nonzero(values: Floats) -> Floats:
    """Replace values near 0, by which the fraction divides."""
    return np.where(np.abs(values) < _SMALLEST, _SMALLEST, values)


# --- pairs ----------------------------------------------------------------------------------------


_SAME, _CHANGED = STATUSES.index("same"), STATUSES.index("changed")
_RELATIVE = 0.05  # of the longer duration; smaller differences are not changes
_MIN_OCCURRENCES = 4  # minimum calls of a path on one rank for estimating its spread
_SPREADS = 3 * 1.4826  # median deviations: three standard deviations of a normal distribution
_SHORT_NS = 30_000  # maximum gap that the switch between two launched kernels explains
_KNOWN = 0.99  # minimum matched share of exposed communication for separating waits
_WORK_KINDS = ("compute", "communication", "memory")

#: Causes of time in a step, in order of precedence.
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
#: The kind of time of each cause.
KIND_OF: dict[str, str] = dict.fromkeys(CAUSES, "idle") | {
    "compute": "compute",
    "communication": "communication",
    "communication_wait": "communication",
    "communication_transfer": "communication",
    "copies": "memory",
    "host": "cpu",
}


@dataclass(eq=False)
class Matches:
    """All pairs of ranks, and the names and call paths that they share."""

    ranks: list[MatchedTrees]
    pool: NamePool
    #: by path: the caller's path (-1 for none), the code of the name, and the class
    path_parent: Ints
    path_name: Ints
    path_kind: Ints

    @cached_property
    def path_depth(self) -> Ints:
        """The number of callers of each path."""
        depth = [0] * len(self.path_parent)
        for path, parent in enumerate(self.path_parent.tolist()):
            depth[path] = depth[parent] + 1 if parent >= 0 else 0
        return np.array(depth, dtype=np.int64)

    @cached_property
    def rank_of_path(self) -> Ints:
        """The position of each path among all, ordered by depth, deepest first, then by name."""
        # Unlike the numbers of paths, the position does not depend on which side is read first.
        names = [self.pool.names[name] for name in self.path_name.tolist()]
        depth = (-self.path_depth).tolist()
        keys = list(zip(depth, self.callers, names, self.path_kind.tolist(), strict=True))
        found = np.empty(len(keys), dtype=np.int64)
        found[sorted(range(len(keys)), key=keys.__getitem__)] = np.arange(len(keys))
        return found

    @cached_property
    def shared_paths(self) -> list[tuple[Ints, Ints]]:
        """For each pair of ranks, the path of every node, equal for both nodes of a pair."""
        return [
            (matched.shared_path(0, self.rank_of_path), matched.shared_path(1, self.rank_of_path))
            for matched in self.ranks
        ]

    @cached_property
    def callers(self) -> list[str]:
        """The callers of each path, outermost first, joined by ``" > "``."""
        names, texts = self.pool.names, [""] * len(self.path_name)
        for path, parent in enumerate(self.path_parent.tolist()):
            if parent >= 0:
                above, name = texts[parent], names[self.path_name[parent]]
                texts[path] = f"{above} > {name}" if above else name
        return texts


@memoized
def match_ranks(diff: Comparison) -> Matches:
    """Match the events of the paired ranks."""
    # From the outermost operators down, the calls of two matched operators are aligned in order by
    # name, identical subtrees first; names are those of `diff.trees.comparable_name`. The
    # callees of a Python function without a partner match as if its caller had called them. Threads
    # match by the work they run, device work below its operator in order of launch. An operator's
    # unmatched work on both sides is ``replaced``. Operators left over on both sides with equal
    # subtrees, or with equal names if both sides have as many, are ``moved`` within their step.
    pool = NamePool()
    stacks = both_have_frames(diff)
    paths: dict[tuple[int, int, int], int] = {}
    ranks = []
    for before, after in diff.rank_pairs:
        trees = (
            rank_tree(diff.before, before, pool, stacks=stacks),
            rank_tree(diff.after, after, pool, stacks=stacks),
        )
        found = TreeMatcher(trees, pool.hashes()).run()
        found.path = (_paths(trees[0], paths), _paths(trees[1], paths))
        ranks.append(found)
    matches = Matches(ranks, pool, *np.array(list(paths), dtype=np.int64).reshape(-1, 3).T)
    _mark_changed(matches)
    return matches


def _paths(tree: RankTree, paths: dict[tuple[int, int, int], int]) -> Ints:
    """Return the number of each node's path; new ones are added to `paths`."""
    path_of_node = np.full(len(tree), -1, dtype=np.int64)
    for members in tree.forest.levels:
        parent = tree.parent[members]
        above = np.where(parent >= 0, path_of_node[parent], -1)
        keys = np.stack([above, tree.name[members], tree.kind[members].astype(np.int64)], axis=1)
        # One number sorts faster than three.
        packed = ((keys[:, 0] + 1) << 33) | (keys[:, 1] << 2) | keys[:, 2]
        _, first, inverse = np.unique(packed, return_index=True, return_inverse=True)
        codes = [
            paths.setdefault((up, name, kind), len(paths))
            for up, name, kind in keys[first].tolist()
        ]
        path_of_node[members] = np.array(codes, dtype=np.int64)[inverse]
    return path_of_node


def _mark_changed(matches: Matches) -> None:
    """Mark pairs as changed if their durations differ by more than the spread of their path."""
    chosen = [np.flatnonzero(matched.status[0] == _SAME) for matched in matches.ranks]
    every = list(zip(matches.ranks, chosen, matches.shared_paths, strict=True))
    path = concat_arrays([paths[0][rows] for _, rows, paths in every])
    before = concat_arrays([matched.trees[0].durations[rows] for matched, rows, _ in every])
    after = concat_arrays(
        [matched.trees[1].durations[matched.partner[0][rows]] for matched, rows, _ in every]
    )
    diff = after - before
    finest = max(
        tree.part.trace.resolution_ns for matched in matches.ranks for tree in matched.trees
    )
    beyond = np.abs(diff) > np.maximum(_RELATIVE * np.maximum(before, after), 2.0 * finest)
    # Most pairs are within these limits; only the paths of the others need spreads.
    at = np.flatnonzero(np.isin(path, np.unique(path[beyond])))
    spread = np.zeros(len(path))
    spread[at] = _spreads(path[at], diff[at])
    # A change on some of the ranks is not noise, so the spread on one rank counts too.
    rank = np.repeat(np.arange(len(chosen)), [len(rows) for rows in chosen])[at]
    _, group_code, calls = np.unique(
        path[at] * len(chosen) + rank, return_inverse=True, return_counts=True
    )
    lower = np.minimum(spread[at], _spreads(group_code, diff[at]))
    spread[at] = np.where(calls[group_code] >= _MIN_OCCURRENCES, lower, spread[at])
    changed = beyond & (np.abs(diff) > _SPREADS * spread)
    ends = np.cumsum([len(rows) for rows in chosen])[:-1]
    for matched, rows, flags in zip(matches.ranks, chosen, np.split(changed, ends), strict=True):
        matched.status[0][rows[flags]] = _CHANGED
        matched.status[1][matched.partner[0][rows[flags]]] = _CHANGED


def _spreads(group: Ints, value: Ints) -> Floats:
    """Return for each value the median deviation from the median of its group."""
    deviation = (value - pd.Series(value).groupby(group).transform("median")).abs()
    spreads: Floats = deviation.groupby(group).transform("median").to_numpy(dtype=np.float64)
    return spreads


@dataclass(frozen=True, eq=False)
class Shares:
    """Device work of one rank, and the time that each piece adds to its kind.

    If several pieces of a kind run at the same time, the time belongs to the one that started
    first, so that the times of all pieces add up to `step_times_by_cause`.
    """

    rows: Rows
    step: Ints  # position among the compared steps
    kind: Ints  # 0 compute, 1 communication, 2 copies
    time_ns: Ints


@dataclass(frozen=True, slots=True)
class StepPiece:
    """One kind of piece of a rank's steps: its cause, its stage, and its time in each step."""

    cause: str
    stage: str
    times_ns: Ints


@memoized
def splits_communication(diff: Comparison) -> bool:
    """Return whether both sides have the waits within their exposed communication."""
    return all(_is_matched(side) for side in diff.sides)


@memoized
def step_times_by_cause(diff: Comparison, side: RunSide) -> dict[int, dict[str, Ints]]:
    """Return the time of each compared step by rank and cause.

    Over all causes the times add up to the steps' lengths, to the nanosecond.
    """
    split, pieces = splits_communication(diff), chains(diff, side)
    every = [part for one in diff.sides for part in one.parts.values()]
    # If any rank has device work, the devices of ranks without it are idle.
    device = any(len(_work_by_kind(part, kind)) for part in every for kind in _WORK_KINDS)
    return {
        rank: _pieces_of_chain(side, rank, pieces[rank])
        if rank in pieces
        else _pieces_of_rank(side, rank, split=split, device=device)
        for rank in side.parts
    }


@memoized
def chains(_diff: Comparison, side: RunSide) -> dict[int, list[StepPiece]]:
    """Return the waits of the steps of ranks whose format has them (`FormatComparison.chain`)."""
    return {
        rank: chain_of(side, rank)
        for rank, part in side.parts.items()
        for chain_of in load_references(
            format_.comparison.chain for format_ in formats_named([part.trace.format])
        )
    }


def _pieces_of_chain(side: RunSide, rank: int, pieces: list[StepPiece]) -> dict[str, Ints]:
    windows = side.windows[rank]
    times_by_cause = {cause: np.zeros(len(windows), dtype=np.int64) for cause in CAUSES}
    for piece in pieces:
        times_by_cause[piece.cause] += piece.times_ns
    times_by_cause["host"] = (
        windows[:, 1] - windows[:, 0] - np.sum(list(times_by_cause.values()), axis=0)
    )
    return times_by_cause


@memoized
def work_shares(_diff: Comparison, side: RunSide, rank: int) -> Shares:
    """Return the time that each piece of device work of a rank adds to the steps."""
    part = side.parts[rank]
    windows = side.windows[rank] - part.trace.shift_ns
    before = Intervals.empty()
    shares: list[tuple[Rows, Ints, Ints, Ints]] = []
    for number, kind in enumerate(_WORK_KINDS):
        rows = _work_by_kind(part, kind)
        start, end = part.clip_rows(rows)
        added_from = start.copy()
        added_from[1:] = np.maximum(start[1:], np.maximum.accumulate(end)[:-1])
        lasting = end > added_from
        which, step, low, high = _clip_to_windows(added_from[lasting], end[lasting], windows)
        hidden = CumulativeCoverage(*before)
        time = (high - low) - (hidden(high) - hidden(low))
        shares.append((rows[lasting][which], step, np.full(len(which), number), time))
        before = _union(before, union(start, end))
    return Shares(*(np.concatenate(column) for column in zip(*shares, strict=True)))


def _work_by_kind(part: RankPart, kind: str) -> Rows:
    rows = part.rows_of_kinds(kind)
    if is_host_only(part.trace.format):
        # In these formats host calls are the communication.
        return rows
    return rows[part.table.stream[rows] >= 0]


def _union(a: Intervals, b: Intervals) -> Intervals:
    return union(np.concatenate([a.start, b.start]), np.concatenate([a.end, b.end]))


def _clip_to_windows(start: Ints, end: Ints, windows: Ints) -> tuple[Rows, Rows, Ints, Ints]:
    """Intersect disjoint pieces with disjoint windows, which may be in any order.

    Returns the piece, the window, the start and the end of each intersection.
    """
    first = np.searchsorted(end, windows[:, 0], side="right")
    count = np.maximum(np.searchsorted(start, windows[:, 1], side="left") - first, 0)
    piece = concatenate_ranges(first, count)
    window = np.repeat(np.arange(len(windows)), count)
    low, high = windows[window].T
    return piece, window, np.maximum(start[piece], low), np.minimum(end[piece], high)


def _is_matched(side: RunSide) -> bool:
    exposed = unmatched = 0
    for rank, part in side.parts.items():
        windows = side.windows[rank] - part.trace.shift_ns
        compute = union(*part.clip_rows(_work_by_kind(part, "compute")))
        alone = subtract(union(*part.clip_rows(_work_by_kind(part, "communication"))), compute)
        exposed += int(_time_per_step(alone, windows).sum())
        rows = side.waits.of_rank(part.rank).unmatched
        rows = rows[np.isin(rows, part.rows)]
        unknown = subtract(union(*part.clip_rows(rows)), compute)
        unmatched += int(_time_per_step(unknown, windows).sum())
    return unmatched <= (1 - _KNOWN) * exposed


def _time_per_step(pieces: Intervals, windows: Ints) -> Ints:
    covered = CumulativeCoverage(*pieces)
    return covered(windows[:, 1]) - covered(windows[:, 0])


def _pieces_of_rank(side: RunSide, rank: int, *, split: bool, device: bool) -> dict[str, Ints]:
    part = side.parts[rank]
    windows = side.windows[rank] - part.trace.shift_ns
    times_by_cause = {cause: np.zeros(len(windows), dtype=np.int64) for cause in CAUSES}
    compute, communication, copies = (
        union(*part.clip_rows(_work_by_kind(part, kind))) for kind in _WORK_KINDS
    )
    busy = _union(_union(compute, communication), copies)
    if not len(busy.start):
        on_host = is_host_only(part.trace.format) or not device
        times_by_cause["host" if on_host else "nothing_launched"] = windows[:, 1] - windows[:, 0]
        return times_by_cause
    exposed = subtract(communication, compute)
    pieces = {"compute": compute, "communication": exposed}
    if split:
        waiting, begin, until, _ = side.waits.of_rank(part.rank)
        kept = np.isin(waiting, part.rows)
        wait = intersect(exposed, union(begin[kept], until[kept]))
        pieces["communication"] = Intervals.empty()
        pieces["communication_wait"] = wait
        pieces["communication_transfer"] = subtract(exposed, wait)
    pieces["copies"] = subtract(copies, _union(compute, communication))
    for cause, covered in pieces.items():
        times_by_cause[cause] = _time_per_step(covered, windows)
    if is_host_only(part.trace.format):
        times_by_cause["host"] = windows[:, 1] - windows[:, 0] - _time_per_step(busy, windows)
        return times_by_cause
    return times_by_cause | _idle_pieces(part, busy, windows)


def _idle_pieces(part: RankPart, busy: Intervals, windows: Ints) -> dict[str, Ints]:
    """Split idle time by cause and step, as `device_idle_breakdown` does."""
    # Time before the rank's first work counts as a gap before it; time after the last work is
    # ``nothing_launched``.
    first_ns = min(int(windows.min()), int(busy.start[0]))
    last_ns = max(int(windows.max()), int(busy.end[-1]))
    start, end = np.concatenate(([first_ns], busy.end[:-1])), busy.start
    lasting = end > start
    start, end = start[lasting], end[lasting]
    call = _ending_call(part, end)
    gap, step, low, high = _clip_to_windows(start, end, windows)
    pieces = gap_pieces(part.trace, (start[gap], end[gap]), (low, high), call[gap], _SHORT_NS)
    spent = np.zeros((len(windows), len(IDLE_CATEGORIES)), dtype=np.int64)
    np.add.at(spent, step, pieces)
    rest = Intervals(busy.end[-1:], np.array([last_ns]))
    found = dict(zip(IDLE_CATEGORIES, spent.T, strict=True))
    return found | {"nothing_launched": _time_per_step(rest, windows)}


def _ending_call(part: RankPart, end: Ints) -> Ints:
    """Return the call that launched the work at the end of each gap, -1 if unknown."""
    rows = np.concatenate([_work_by_kind(part, kind) for kind in _WORK_KINDS])
    start, after = part.clip_rows(rows)
    rows, start = rows[after > start], start[after > start]
    order = np.argsort(start, kind="stable")
    rows, start = rows[order], start[order]
    call: Ints = part.trace.launch_of[rows[first_launched(part.trace, rows, start, end)]]
    return call


@check_arguments
def pairs(diff: Comparison) -> pd.DataFrame:
    """Return every operator, call and piece of device work of the paired ranks with its partner.

    Parameters
    ----------
    diff : Comparison

    Returns
    -------
    DataFrame
        One row per pair, or event without a partner, by rank, then time before:

        - ``pair`` (int64), from 0
        - ``before_rank, before_id, after_rank, after_id`` (int64): ids are -1 without a partner
        - ``name`` (category), after's if it has a partner; ``kind`` (category), as in events
        - ``path`` (category): the enclosing operators and annotations, outermost first, joined
          by ``" > "``, without threads and steps
        - ``before_step, after_step`` (int64): numbers of the steps, -1 for none
        - ``before_ns, after_ns, diff_ns`` (int64): durations, 0 without a partner
        - ``status`` (category): ``same``; ``changed``: durations differ by more than 5 % of the
          longer and three times the spread of the differences on the same path; ``added,
          removed``; ``moved``: in another place of its step; ``replaced``: other device work below
          the same operator, in order; ids are -1 if one piece of work replaced several

        Events of steps that are not compared are left out. ``.attrs["matched"]`` counts the rows
        of each status.
    """
    return _pair_frame(diff).copy()


@memoized
def _pair_frame(diff: Comparison) -> pd.DataFrame:
    matches = match_ranks(diff)
    blocks: list[dict[str, Ints]] = []
    for ranks, matched in zip(diff.rank_pairs, matches.ranks, strict=True):
        added = np.flatnonzero(matched.partner[1] < 0)
        nodes = (
            np.append(np.arange(len(matched.trees[0])), np.full(len(added), -1)),
            np.append(matched.partner[0], added),
        )
        block = {}
        for word, rank, tree, at in zip(
            ("before", "after"), ranks, matched.trees, nodes, strict=True
        ):
            # The last entry is for nodes without a partner, -1.
            block[f"{word}_rank"] = np.full(len(at), rank)
            block[f"{word}_id"] = np.append(tree.rows, -1)[at]
            block[f"{word}_step"] = np.append(tree.part.table.step[tree.rows], -1)[at]
            block[f"{word}_ns"] = np.append(tree.durations, 0)[at]
        kinds = [tree.part.table.kind[tree.rows] for tree in matched.trees]
        names = [tree.name for tree in matched.trees]
        for name, (before, after) in (
            ("name", names), ("kind", kinds), ("path", matched.path), ("status", matched.status),
        ):  # fmt: skip
            values = np.append(before, -1)[nodes[0]], np.append(after, -1)[nodes[1]]
            block[name] = np.where(nodes[1] >= 0, values[1], values[0])
        blocks.append(block)
    column = stack_blocks(blocks, dict.fromkeys(blocks[0], "int64"))
    callers, distinct = pd.factorize(np.array(matches.callers, dtype=object))
    status = column["status"]
    plain = ("before_rank", "before_id", "after_rank", "after_id")
    times = ("before_step", "after_step", "before_ns", "after_ns")
    return result_frame(
        {
            "pair": np.arange(len(status), dtype=np.int64),
            **{name: column[name] for name in plain},
            "name": categorical(column["name"], matches.pool.names),
            "kind": categorical(column["kind"], KINDS),
            "path": categorical(callers[column["path"]], distinct.tolist()),
            **{name: column[name] for name in times},
            "diff_ns": column["after_ns"] - column["before_ns"],
            "status": categorical(status, STATUSES),
        },
        matched={word: int((status == code).sum()) for code, word in enumerate(STATUSES)},
        note="" if len(status) else "no events are compared",
    )
