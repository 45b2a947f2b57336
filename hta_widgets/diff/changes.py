"""Added, removed, moved, replaced, slower."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pandas as pd

from hta_widgets.analysis.host_stack import covered_by_children
from hta_widgets.analysis.idle import waiting_calls
from hta_widgets.analysis.scope import joined, result
from hta_widgets.diff.align import STEP_KINDS, kind_times, steps
from hta_widgets.diff.compare import HOW, Comparison, RunSide, how_replaced, is_host_only
from hta_widgets.diff.pairs import Matches, match, splits_communication
from hta_widgets.diff.statistics import either_test, paired
from hta_widgets.diff.trees import (
    CALL,
    OPERATOR,
    STATUSES,
    WORK,
    Matched,
    RankTree,
    numbered,
)
from hta_widgets.taxonomy import KINDS
from hta_widgets.trace.memo import memoized
from hta_widgets.trace.trace import dtype_of

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class NodeTimes:
    """Times of the nodes of one tree."""

    host_ns: Ints
    host_self_ns: Ints
    device_ns: Ints
    below_ns: Ints


@dataclass(frozen=True, eq=False)
class PathTimes:
    """Sums by step and path of one side, means over the paired ranks: arrays (steps, paths)."""

    count: Floats
    host_ns: Floats
    host_self_ns: Floats
    device_ns: Floats


@memoized
def node_times(diff: Comparison) -> list[tuple[NodeTimes, NodeTimes]]:
    """Return the times of all nodes, for each pair of ranks before and after."""
    split = splits_communication(diff)
    return [
        (
            _of_tree(diff.before, one.trees[0], split=split),
            _of_tree(diff.after, one.trees[1], split=split),
        )
        for one in match(diff).ranks
    ]


@memoized
def path_times(diff: Comparison) -> tuple[PathTimes, PathTimes]:
    """Return the times of all paths before and after."""
    matches = match(diff)
    before, after = (
        PathTimes(
            step_sums(diff, matches, k, None),
            *(
                step_sums(diff, matches, k, [getattr(one[k], name) for one in node_times(diff)])
                for name in ("host_ns", "host_self_ns", "device_ns")
            ),
        )
        for k in (0, 1)
    )
    return before, after


def step_sums(
    diff: Comparison,
    matches: Matches,
    side: int,
    values: list[Ints] | None,
    chosen: list[Flags] | None = None,
    paths: list[Ints] | None = None,
) -> Floats:
    """Return sums by step and path of one side, means over the paired ranks, (steps, paths)."""
    size = len(matches.path_name)
    sums = np.zeros(diff.step_count * size, dtype=np.int64)
    for number, one in enumerate(matches.ranks):
        tree = one.trees[side]
        kept = tree.slot < diff.step_count
        if chosen is not None:
            kept &= chosen[number]
        nodes = np.flatnonzero(kept)
        path = one.path[side] if paths is None else paths[number]
        key = tree.slot[nodes] * size + path[nodes]
        np.add.at(sums, key, 1 if values is None else values[number][nodes])
    return sums.reshape(diff.step_count, size) / max(len(matches.ranks), 1)


def _of_tree(side: RunSide, tree: RankTree, *, split: bool) -> NodeTimes:
    part = tree.part
    length = tree.durations
    operator, work = tree.kind == OPERATOR, tree.kind == WORK
    host = np.where(operator, length, 0)
    # Waiting is the device's time, not the operator's own; copies from pageable memory wait, too.
    copies = np.array(["Memcpy" in name for name in part.table.names.values] + [False])
    waits = np.isin(tree.rows, waiting_calls(part.trace)) | copies[part.table.name[tree.rows]]
    waits &= tree.kind == CALL
    nodes = np.flatnonzero(operator | waits)
    position = np.full(len(tree) + 1, -1, dtype=np.int64)
    position[nodes] = np.arange(len(nodes))
    start, end = part.clipped(tree.rows[nodes])
    alone = (end - start) - covered_by_children(position[tree.parent[nodes]], start, end)
    own = np.zeros(len(tree), dtype=np.int64)
    own[nodes] = alone
    own[~operator] = 0
    device = np.where(work, length, 0)
    if split:
        rows, _, until = side.waits.of(part.trace)
        position = np.full(len(part.table), -1, dtype=np.int64)
        position[tree.rows] = np.arange(len(tree))
        at = position[rows]
        at, until = at[at >= 0], until[at >= 0]
        begin, finish = part.clipped(tree.rows[at])
        device[at] = finish - np.clip(until, begin, finish)
    return NodeTimes(host, own, device, tree.forest.sums(device))


_COMMUNICATION = KINDS.index("communication")
_NTH = 0xFFFFFFFF  # of what `numbered` returns, the place among its likes


def chance_by_call(
    diff: Comparison, matches: Matches, chosen: list[Flags]
) -> tuple[Floats, Floats]:
    """Return by path how likely device and host times of its calls differ by chance.

    Ranks that communicate wait for each other: of the n-th call of a path the mean over ranks is
    one draw. Other calls of each rank are draws of their own.
    """
    paths: list[Ints] = []
    draws: list[Ints] = []
    gaps: tuple[list[Ints], list[Ints]] = ([], [])
    every = zip(matches.ranks, matches.shared_paths, node_times(diff), chosen, strict=True)
    for number, (one, paths_of, times, kept) in enumerate(every):
        nodes = np.flatnonzero(kept & (one.trees[0].slot < diff.step_count))
        partner = one.partner[0][nodes]
        # In an order that is the same with the sides turned round.
        places = one.trees[0].order[nodes], one.trees[1].order[partner]
        ordered = np.lexsort((np.minimum(*places), places[0] + places[1]))
        nodes, partner = nodes[ordered], partner[ordered]
        path = paths_of[0][nodes]
        alone = ~_communicates(one.trees[0])[nodes]
        paths.append(path)
        draws.append((numbered(path) & _NTH) * len(matches.ranks) + np.where(alone, number, 0))
        device = [_with_launched(tree, each) for tree, each in zip(one.trees, times, strict=True)]
        for place, values in enumerate((device, [each.host_self_ns for each in times])):
            gaps[place].append(values[1][partner] - values[0][nodes])
    path, draw = joined(paths), joined(draws)
    size = len(matches.path_name)
    # Paths first, so that of each draw the first tells its path.
    keys, first, at = np.unique(
        path * (int(draw.max(initial=0)) + 1) + draw, return_index=True, return_inverse=True
    )
    many = np.maximum(np.bincount(at, minlength=len(keys)), 1)
    found = [
        paired(path[first], np.bincount(at, joined(gap), len(keys)) / many, size) for gap in gaps
    ]
    return found[0], found[1]


def _communicates(tree: RankTree) -> Flags:
    """Return which nodes communicate, or launched what does."""
    found: Flags = tree.part.table.kind[tree.rows] == _COMMUNICATION
    found &= (tree.kind != OPERATOR) | is_host_only(tree.part.trace.format)
    work = np.flatnonzero(found & (tree.parent >= 0))
    found[tree.parent[work]] = True
    return found


def _with_launched(tree: RankTree, times: NodeTimes) -> Ints:
    """Return device time of nodes: of operators that of the work that they launched themselves."""
    found = times.device_ns.copy()
    work = np.flatnonzero((tree.kind == WORK) & (tree.parent >= 0))
    np.add.at(found, tree.parent[work], times.device_ns[work])
    return found


#: What can be told of a name, in the order of the categories of ``change``.
CHANGES: tuple[str, ...] = ("slower", "faster", "added", "removed", "moved", "replaced")

#: What each is turned round, so that the order is the same either way.
_TURNED = {"faster": "slower", "removed": "added"}

_RELATIVE = 0.05  # of the longer of two times; runs of one program differ by less
_RELATIVE_MUCH = 0.4  # so much need not stand out among all that was tested
_ALPHA = 0.01  # of all that is tested together
_ALPHA_MUCH = 0.002
_RELATIVE_CALLS = 0.2  # with one step on a side, whose calls share what is particular to it
_RELATIVE_ALONE = 0.75  # where nothing is known of the spread, which a hiccup may reach
_OF_STEP_ALONE = 0.05  # of a step; of less such a hiccup is made, and explains nothing
_OF_STEP = 0.001  # of a step; less does not matter
_STEPS_THAT_TELL = 3  # how much steps spread; of two, too little is known
_MOST_STEPS = 0.5  # what happens in fewer of the steps is chance

_ADDED, _REMOVED, _MOVED, _REPLACED = (
    STATUSES.index(word) for word in ("added", "removed", "moved", "replaced")
)


@dataclass(slots=True)
class _Change:
    """One row in the making; times and counts are a step's, means over steps and ranks."""

    change: str
    measure: str
    name: str
    path: str
    places: int
    before_count: float
    after_count: float
    before_ns: float
    after_ns: float
    before_names: list[str]
    after_names: list[str]
    p_value: float | None


def changes(diff: Comparison) -> pd.DataFrame:
    """Return what changed between the runs and is more than noise, each change once.

    *What is called* changed where operators, or device work of matched operators, were added,
    removed, moved or replaced in more than half of the steps. Of an added or removed operator what
    it calls is part of it; calls of the runtime go with their operators. A Python function is only
    told of where nothing that it calls has a partner. Of operators without device work those count
    that take at least 0.1 % of a step.

    *How long it takes* changed where an operator that is matched takes another time by itself: on
    the host less the operators below it, less copies and less waiting for the device; or on the
    device, for the work that it launched, of collectives without waiting for other ranks where that
    is known. Of operators of one call path the times of a step are added up. A difference counts
    that is at least 5 % of the longer time and 0.1 % of a step, and unlikely to be chance: by
    Welch's test over the steps, and where steps have the same numbers on both sides by Student's
    t-test of their pairs, at 1 % divided by the number of times that are tested, or at 0.2 % where
    the difference is 40 % and more. With fewer than three steps on a side their calls are what
    tells of the spread: the calls of a path, on all ranks, are tested pair by pair (Student's
    t-test of paired values, at the same levels), and 20 % is asked for; of fewer than three pairs
    nothing is known, and only what takes four times as long counts, and makes 5 % of the step. An
    operator of which work was added, removed or replaced is told of once, by that.

    Parameters
    ----------
    diff : Comparison

    Returns
    -------
    DataFrame
        One row per change and name, by time that it makes in a step. Times and counts are per step
        and rank, means over steps and ranks:

        - ``change`` (category): ``slower, faster, added, removed, moved, replaced``
        - ``measure`` (str): ``device``, ``host`` or ``device and host`` for ``slower, faster``;
          ``operator``, ``function`` (of Python) or ``kernel`` for the rest
        - ``name`` (str): of the operator; of device work that was added or removed, its own
        - ``path`` (str): what encloses it, in the place with most time; ``places`` (int64): in how
          many paths
        - ``before_count, after_count, before_ns, after_ns, diff_ns`` (float64): times of added,
          removed and moved operators are those of all device work below them, or where there is
          none, of the host
        - ``before_names, after_names`` (str): of replaced work, the names, ``"; "`` between
        - ``how`` (category): of replaced work ``fused`` (fewer kernels than before), ``split``
          (more), ``other library`` (by the names of kernels, as far as these tell), ``other
          kernels``; else empty
        - ``p_value`` (float64): NaN where it is not a matter of chance, or not known

        ``.attrs["tested"]`` is the number of times tested, ``.attrs["note"]`` says where nothing
        changed.

    Examples
    --------
    >>> changes(diff)[["change", "name", "diff_ns"]]  # doctest: +SKIP
    """
    return _changes(diff).copy()


@memoized
def _changes(diff: Comparison) -> pd.DataFrame:
    matches = match(diff)
    told = set[int]()
    rows = [*_structure(diff, matches, told)]
    slower, tested = _times(diff, matches, told)
    found = rows + slower
    note = "nothing changed by more than noise"
    if steps(diff).attrs["is_significant"]:
        many = len(matches.ranks)
        over = f" in the mean over {many} ranks" if many > 1 else ""
        note = f"the steps changed, but no single operator or kernel by more than noise{over}"
    return _frame(found, tested, "" if found else note)


# --- what is called -------------------------------------------------------------------------------


def _structure(diff: Comparison, matches: Matches, told: set[int]) -> Iterator[_Change]:
    """Yield changes of what is called; `told` takes the paths of operators whose work changed."""
    names, callers = matches.pool.names, matches.callers
    cells = diff.step_count * max(len(matches.ranks), 1)
    length = max(_step_ns(side) for side in diff.sides)
    found: dict[tuple[str, str, int], _Group] = {}
    for one, shared, times in zip(
        matches.ranks, matches.shared_paths, node_times(diff), strict=True
    ):
        for k, tree in enumerate(one.trees):
            for word, measure, nodes in _outermost(one, k, diff.step_count):
                below = times[k].below_ns[nodes]
                host = times[k].host_ns[nodes]
                path = one.path[k][nodes]
                if measure == "kernel":
                    above = np.array(matches.path_parent, dtype=np.int64)[path]
                    owner = tree.parent[nodes]
                    told.update(shared[k][owner[owner >= 0]].tolist())
                # Replaced work is told of by its operator.
                group = above if word == "replaced" else path
                name = np.array(matches.path_name, dtype=np.int64)[group]
                for code in np.unique(name).tolist():
                    mine = name == code
                    key = (word, measure, code)
                    found.setdefault(key, _Group(diff.step_count)).add(
                        k,
                        tree.slot[nodes[mine]],
                        below[mine],
                        host[mine],
                        group[mine],
                        tree.name[nodes[mine]],
                    )
    for (word, measure, code), change in found.items():
        if change.steps_with() <= _MOST_STEPS * diff.step_count:
            continue
        device = any(change.device_ns)
        times_ns = change.device_ns if device else change.host_ns
        if not device and max(times_ns) < _OF_STEP * length * cells:
            continue
        listed = ([], []) if word != "replaced" else change.names(names)
        yield _Change(
            word,
            measure,
            names[code],
            callers[change.path(matches.rank_of_path)],
            len(change.paths),
            change.counts[0].sum() / cells,
            change.counts[1].sum() / cells,
            times_ns[0] / cells,
            times_ns[1] / cells,
            listed[0],
            listed[1],
            None,
        )


class _Group:
    """All nodes of one change and name."""

    def __init__(self, steps: int) -> None:
        self.counts = np.zeros((2, steps), dtype=np.int64)
        self.device_ns = [0, 0]
        self.host_ns = [0, 0]
        self.paths: dict[int, int] = {}
        self._names: tuple[set[int], set[int]] = (set(), set())

    def add(self, side: int, slot: Ints, device: Ints, host: Ints, path: Ints, name: Ints) -> None:
        np.add.at(self.counts[side], slot, 1)
        self.device_ns[side] += int(device.sum())
        self.host_ns[side] += int(host.sum())
        for number, time in zip(path.tolist(), np.maximum(device, host).tolist(), strict=True):
            self.paths[number] = self.paths.get(number, 0) + time
        self._names[side].update(name.tolist())

    def steps_with(self) -> int:
        """In how many steps it happens."""
        return int((self.counts.sum(axis=0) > 0).sum())

    def path(self, rank_of_path: Ints) -> int:
        """Return the path with most time."""
        return max(self.paths, key=lambda path: (self.paths[path], -rank_of_path[path]))

    def names(self, texts: list[str]) -> tuple[list[str], list[str]]:
        before, after = (sorted(texts[code] for code in side) for side in self._names)
        return before, after


def _outermost(one: Matched, side: int, steps: int) -> Iterator[tuple[str, str, Ints]]:
    """Yield change, measure and nodes of what was added, removed, moved or replaced as a whole."""
    tree, status = one.trees[side], one.status[side]
    inside = tree.slot < steps
    above = np.where(tree.parent >= 0, status[tree.parent], -1) if len(tree) else status
    code, word = ((_REMOVED, "removed"), (_ADDED, "added"))[side]
    # Where what a Python function calls has partners, another way to the same calls is no change.
    has_partner = tree.forest.sums((one.partner[side] >= 0).astype(np.int64)) > 0
    operators = inside & (tree.kind == OPERATOR) & ~(tree.frame & has_partner)
    for number, text in ((code, word), (_MOVED, "moved")):
        told = operators & (status == number) & (above != number)
        for measure, chosen in (("operator", told & ~tree.frame), ("function", told & tree.frame)):
            nodes = np.flatnonzero(chosen)
            if len(nodes):
                yield text, measure, nodes
    work = inside & (tree.kind == WORK)
    for number, text in ((code, word), (_REPLACED, "replaced")):
        nodes = np.flatnonzero(work & (status == number) & (above != code))
        if len(nodes):
            yield text, "kernel", nodes


# --- how long it takes ----------------------------------------------------------------------------


def _times(diff: Comparison, matches: Matches, told: set[int]) -> tuple[list[_Change], int]:
    """Return operators that are slower or faster by themselves, and how many times were tested."""
    paired_nodes = [
        [(one.partner[k] >= 0) & (one.status[k] != _REPLACED) for one in matches.ranks]
        for k in (0, 1)
    ]
    per_side = []
    for k in (0, 1):
        nodes = [times[k] for times in node_times(diff)]
        # What moved counts in one place, on both sides.
        paths = [shared[k] for shared in matches.shared_paths]
        host = step_sums(
            diff, matches, k, [one.host_self_ns for one in nodes], paired_nodes[k], paths
        )
        work = step_sums(diff, matches, k, [one.device_ns for one in nodes], paired_nodes[k], paths)
        count = step_sums(diff, matches, k, None, paired_nodes[k], paths)
        per_side.append((_launched(matches, work), host, count))
    length = max(_step_ns(side) for side in diff.sides)
    floor = _OF_STEP * length
    known = np.ones(len(matches.path_name), dtype=bool)
    known[sorted(path for path in told if path >= 0)] = False
    tests = []
    by_call = (
        chance_by_call(diff, matches, paired_nodes[0])
        if diff.step_count < _STEPS_THAT_TELL
        else None
    )
    for measure in (0, 1):
        before, after = per_side[0][measure], per_side[1][measure]
        mean = before.mean(axis=0), after.mean(axis=0)
        asked_of = np.flatnonzero(known & (np.maximum(*mean) >= floor))
        p_value = (
            either_test(before[:, asked_of], after[:, asked_of], by_step=diff.same_steps)
            if by_call is None
            else by_call[measure][asked_of]
        )
        tests.append((asked_of, mean, p_value))
    tested = sum(len(asked_of) for asked_of, _, _ in tests)
    flagged: dict[tuple[str, int], dict[int, list[int]]] = {}
    likely: dict[tuple[str, int], float] = {}
    for measure, (asked_of, mean, p_value) in enumerate(tests):
        gap = (mean[1] - mean[0])[asked_of]
        most = np.maximum(*mean)[asked_of]
        alone = np.isnan(p_value)
        least = _RELATIVE if by_call is None else _RELATIVE_CALLS
        asked = np.where(alone, _RELATIVE_ALONE, least) * most
        allowed = np.where(np.abs(gap) >= _RELATIVE_MUCH * most, _ALPHA_MUCH, 0)
        allowed = np.maximum(allowed, _ALPHA / max(tested, 1))
        asked = np.maximum(asked, np.where(alone, _OF_STEP_ALONE * length, floor))
        counts = np.flatnonzero((np.abs(gap) >= asked) & (alone | (p_value < allowed)))
        for place in counts.tolist():
            path = int(asked_of[place])
            key = ("slower" if gap[place] > 0 else "faster", matches.path_name[path])
            flagged.setdefault(key, {}).setdefault(measure, []).append(path)
            if not alone[place]:
                likely[key] = min(likely.get(key, 1.0), float(p_value[place]))
    names, callers = matches.pool.names, matches.callers
    found = []
    for (word, code), measures in flagged.items():
        sums = [
            sum(float(per_side[k][m][:, mine].mean(axis=0).sum()) for m, mine in measures.items())
            for k in (0, 1)
        ]
        where = sorted({path for mine in measures.values() for path in mine})
        counted = [float(per_side[k][2][:, where].mean(axis=0).sum()) for k in (0, 1)]
        most_at = max(
            where,
            key=lambda path: (
                max(float(side[m][:, path].sum()) for side in per_side for m in (0, 1)),
                -matches.rank_of_path[path],
            ),
        )
        measure_words = " and ".join(("device", "host")[m] for m in sorted(measures))
        found.append(
            _Change(
                word,
                measure_words,
                names[code],
                callers[most_at],
                len(where),
                counted[0],
                counted[1],
                sums[0],
                sums[1],
                [],
                [],
                likely.get((word, code)),
            )
        )
    return found, tested


def _launched(matches: Matches, work: Floats) -> Floats:
    """Return device time by the path of the operator that launched it, or else its own."""
    parent = np.array(matches.path_parent, dtype=np.int64)
    kind = np.array(matches.path_kind, dtype=np.int64)
    found = np.zeros_like(work)
    paths = np.flatnonzero(kind == WORK)
    owner = np.where(parent[paths] >= 0, parent[paths], paths)
    for step, times in zip(found, work, strict=True):
        np.add.at(step, owner, times[paths])
    return found


def _step_ns(side: RunSide) -> float:
    windows = np.stack(list(side.windows.values()))
    return float((windows[:, :, 1] - windows[:, :, 0]).mean())


def _how(row: _Change) -> str:
    if row.change != "replaced":
        return ""
    return how_replaced(row.before_names, row.after_names, row.before_count, row.after_count)


def _frame(rows: list[_Change], tested: int, note: str) -> pd.DataFrame:
    rows.sort(
        key=lambda row: (
            -abs(row.after_ns - row.before_ns),
            row.name,
            _TURNED.get(row.change, row.change),
        )
    )

    def numbers(name: str) -> Floats:
        return np.array([getattr(row, name) for row in rows], dtype=np.float64)

    def texts(values: list[str]) -> pd.api.extensions.ExtensionArray:
        return pd.array(values, dtype="str")

    before, after = numbers("before_ns"), numbers("after_ns")
    return result(
        {
            "change": pd.Categorical([row.change for row in rows], dtype=dtype_of(CHANGES)),
            "measure": texts([row.measure for row in rows]),
            "name": texts([row.name for row in rows]),
            "path": texts([row.path for row in rows]),
            "places": np.array([row.places for row in rows], dtype=np.int64),
            "before_count": numbers("before_count"),
            "after_count": numbers("after_count"),
            "before_ns": before,
            "after_ns": after,
            "diff_ns": after - before,
            "before_names": texts(["; ".join(row.before_names) for row in rows]),
            "after_names": texts(["; ".join(row.after_names) for row in rows]),
            "how": pd.Categorical([_how(row) for row in rows], dtype=dtype_of(HOW)),
            "p_value": np.array(
                [np.nan if row.p_value is None else row.p_value for row in rows], dtype=np.float64
            ),
        },
        matched={word: sum(row.change == word for row in rows) for word in CHANGES},
        note=note,
        tested=tested,
    )


_PARTS_OF_STEP = 0.05  # steps of one program may differ by less
_PARTS_OF_STEP_ALONE = 0.2  # where one step on a side tells nothing of chance


def shifted_kinds(diff: Comparison) -> set[str]:
    """Return the kinds of time whose share of the steps differs by more than noise.

    By more than 5 % of the step and not by chance: tests as in `changes` over the shares of single
    steps, at 1 % divided by the number of kinds that there are; with one step on a side, by more
    than 20 %.
    """
    times = [kind_times(diff, side).astype(np.float64) for side in diff.sides]
    there = np.flatnonzero(times[0].any(axis=0) | times[1].any(axis=0))
    whole = [_shares(one.sum(axis=0, keepdims=True))[0] for one in times]
    likely = either_test(*(_shares(one) for one in times), by_step=diff.same_steps)
    alone = np.isnan(likely)
    moved = np.abs(whole[1] - whole[0]) > np.where(alone, _PARTS_OF_STEP_ALONE, _PARTS_OF_STEP)
    told = moved & (alone | (likely * len(there) < _ALPHA))
    return {STEP_KINDS[k] for k in np.flatnonzero(told).tolist()}


def _shares(times: Floats) -> Floats:
    found: Floats = times / np.maximum(times.sum(axis=1, keepdims=True), 1)
    return found
