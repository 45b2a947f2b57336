"""Which event is which."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
import pandas as pd

from hta_widgets.analysis.idle import IDLE_CATEGORIES, gap_pieces, launched_first
from hta_widgets.analysis.scope import Part, categorical, joined, result
from hta_widgets.diff.compare import Comparison, RunSide, both_have_frames, is_host_only
from hta_widgets.diff.trees import (
    STATUSES,
    Matched,
    NamePool,
    RankTree,
    TreeMatcher,
    rank_tree,
)
from hta_widgets.readers.formats import provided
from hta_widgets.taxonomy import KINDS
from hta_widgets.trace.intervals import Covered, Intervals, intersect, subtract, union
from hta_widgets.trace.memo import memo, memoized
from hta_widgets.trace.trace import dtype_of

Ints = npt.NDArray[np.int64]

_SAME, _CHANGED = STATUSES.index("same"), STATUSES.index("changed")
_RELATIVE = 0.05  # of the longer of two; less is not called a change
_ENOUGH = 4  # calls of a path on one rank, whose spread says something
_SPREADS = 3 * 1.4826  # times the median deviation: three standard deviations of a normal spread


@dataclass(eq=False)
class Matches:
    """All pairs of ranks, and the names and paths that they share."""

    ranks: list[Matched]
    pool: NamePool
    path_parent: list[int]
    path_name: list[int]
    path_kind: list[int]

    @cached_property
    def rank_of_path(self) -> Ints:
        """Of each path its place among all, the deepest first, then by their names.

        Numbers of paths depend on which side was read first; this does not.
        """
        names, depth = self.pool.names, [0] * len(self.path_name)
        for path, parent in enumerate(self.path_parent):
            depth[path] = depth[parent] + 1 if parent >= 0 else 0
        every = zip(self.callers, self.path_name, self.path_kind, strict=True)
        keys = [
            (-depth[k], above, names[name], kind) for k, (above, name, kind) in enumerate(every)
        ]
        found = np.empty(len(keys), dtype=np.int64)
        found[sorted(range(len(keys)), key=keys.__getitem__)] = np.arange(len(keys))
        return found

    @cached_property
    def shared_paths(self) -> list[tuple[Ints, Ints]]:
        """Of each pair of ranks and side the path of every node, one for both of a pair."""
        return [
            (one.shared_path(0, self.rank_of_path), one.shared_path(1, self.rank_of_path))
            for one in self.ranks
        ]

    @cached_property
    def callers(self) -> list[str]:
        """Of each path what calls it, outermost first, ``" > "`` between."""
        names, texts = self.pool.names, [""] * len(self.path_name)
        for path, parent in enumerate(self.path_parent):
            if parent >= 0:
                above = texts[parent]
                name = names[self.path_name[parent]]
                texts[path] = f"{above} > {name}" if above else name
        return texts


@memoized
def match(diff: Comparison) -> Matches:
    """Return which events of the paired ranks belong together.

    From the outermost operators down, the calls below one pair of operators are laid upon each
    other in their order: those of one name pair, those that are alike in all below them first. Of
    Python functions the file and the function make the name, not the line or the folder, and of an
    ``nn.Module`` its class (see `hta_widgets.diff.trees.compared_name`). What a function without a
    partner calls pairs as if its caller had called it.
    Threads pair by what they run. Device work belongs to the operator that launched it, in order of
    launch. Where an operator has unmatched work on both sides, it was ``replaced``. Operators left
    over on both sides that are alike in all below them have ``moved`` within their step; so have
    those of one name where both sides have as many left.
    """
    pool = NamePool()
    stacks = both_have_frames(diff)
    matches = Matches([], pool, [], [], [])
    paths: dict[tuple[int, int, int], int] = {}
    for before, after in diff.rank_pairs:
        trees = (
            rank_tree(diff.before, before, pool, stacks=stacks),
            rank_tree(diff.after, after, pool, stacks=stacks),
        )
        found = TreeMatcher(trees, pool.hashes()).run()
        found.path = (_paths(trees[0], paths), _paths(trees[1], paths))
        matches.ranks.append(found)
    for parent, name, kind in paths:
        matches.path_parent.append(parent)
        matches.path_name.append(name)
        matches.path_kind.append(kind)
    _judge(matches)
    return matches


def _paths(tree: RankTree, paths: dict[tuple[int, int, int], int]) -> Ints:
    """Return the number of each node's path; new ones are added to `paths`."""
    found = np.full(len(tree), -1, dtype=np.int64)
    for members in tree.forest.levels:
        parent = tree.parent[members]
        above = np.where(parent >= 0, found[parent], -1)
        keys = np.stack([above, tree.name[members], tree.kind[members].astype(np.int64)], axis=1)
        # One number sorts faster than three.
        packed = ((keys[:, 0] + 1) << 33) | (keys[:, 1] << 2) | keys[:, 2]
        _, first, inverse = np.unique(packed, return_index=True, return_inverse=True)
        codes = [
            paths.setdefault((up, name, kind), len(paths))
            for up, name, kind in keys[first].tolist()
        ]
        found[members] = np.array(codes, dtype=np.int64)[inverse]
    return found


# --- what counts as a change ----------------------------------------------------------------------


def _judge(matches: Matches) -> None:
    """Tell changed from same: by more than what events of one path differ by anyway."""
    chosen = [np.flatnonzero(one.status[0] == _SAME) for one in matches.ranks]
    if not chosen:
        return
    times = [
        (one.trees[0].durations[rows], one.trees[1].durations[one.partner[0][rows]])
        for one, rows in zip(matches.ranks, chosen, strict=True)
    ]
    path = joined(
        [paths[0][rows] for paths, rows in zip(matches.shared_paths, chosen, strict=True)]
    )
    before, after = (joined([time[k] for time in times]) for k in (0, 1))
    diff = after - before
    finest = max(tree.part.trace.resolution_ns for one in matches.ranks for tree in one.trees)
    floor = np.maximum(_RELATIVE * np.maximum(before, after), 2.0 * finest)
    # Most pairs are within that, and spreads are told of the rest of their paths alone.
    beyond = np.abs(diff) > floor
    suspects = np.unique(path[beyond])
    asked = np.flatnonzero(np.isin(path, suspects))
    spread = np.zeros(len(path))
    spread[asked] = _spreads(path[asked], diff[asked])
    # Where some ranks changed and others did not, that is no noise: each by its own calls, too.
    rank = np.repeat(np.arange(len(chosen)), [len(rows) for rows in chosen])[asked]
    _, own, calls = np.unique(
        path[asked] * len(chosen) + rank, return_inverse=True, return_counts=True
    )
    of_rank = _spreads(own, diff[asked])
    spread[asked] = np.where(
        calls[own] >= _ENOUGH, np.minimum(spread[asked], of_rank), spread[asked]
    )
    changed = beyond & (np.abs(diff) > _SPREADS * spread)
    begin = 0
    for one, rows in zip(matches.ranks, chosen, strict=True):
        mine = rows[changed[begin : begin + len(rows)]]
        begin += len(rows)
        one.status[0][mine] = _CHANGED
        one.status[1][one.partner[0][mine]] = _CHANGED


def _spreads(group: Ints, value: Ints) -> npt.NDArray[np.float64]:
    """Return for each value the median deviation from the median of its group."""
    middle = _medians(group, value.astype(np.float64))
    return _medians(group, np.abs(value - middle))


def _medians(group: Ints, value: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    order = np.lexsort((value, group))
    ordered = value[order]
    first = np.flatnonzero(np.diff(group[order], prepend=-1)) if len(group) else group
    sizes = np.diff(np.append(first, len(group)))
    median = (ordered[first + (sizes - 1) // 2] + ordered[first + sizes // 2]) / 2
    found = np.empty(len(group))
    found[order] = np.repeat(median, sizes)
    return found


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


@dataclass(frozen=True, slots=True)
class Piece:
    """One kind of piece of a rank's steps: its cause, its stage, and its time in each step."""

    cause: str
    stage: str
    times_ns: Ints


@memoized
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
            if rank in chains(diff, side)
            else _of_rank(side, rank, split=split)
            for rank, part in side.parts.items()
        }

    return memo(diff, ("moments", side is diff.after), derive)


def chains(diff: Comparison, side: RunSide) -> dict[int, list[Piece]]:
    """Return what the steps of ranks wait for, where their format says so (`Format.chain`)."""

    def derive() -> dict[int, list[Piece]]:
        return {
            rank: chain_of(side, rank)
            for rank, part in side.parts.items()
            for chain_of in provided("chain", {part.trace.format})
        }

    return memo(diff, ("chains", side is diff.after), derive)


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
    return memo(diff, key, lambda: _shares(side, rank))


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
    if is_host_only(part.trace.format):
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
    if is_host_only(part.trace.format):
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


Flags = npt.NDArray[np.bool_]


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
        - ``name`` (category): after's where there is one; ``kind`` (category), as in events
        - ``path`` (category): the operators and annotations that enclose it, outermost first,
          ``" > "`` between; threads and steps are no part of it
        - ``before_step, after_step`` (int64): numbers of the steps, -1 for none
        - ``before_ns, after_ns, diff_ns`` (int64): durations, 0 without a partner
        - ``status`` (category): ``same``; ``changed``: longer or shorter by more than 5 % of the
          longer, and than three times the spread that the differences of events of the same path
          have; ``added, removed``; ``moved``: in another place of its step;
          ``replaced``: other device work below the same operator, in order; ids are -1 where one
          piece of work took the place of several

        Events of steps that are not compared are left out. ``.attrs["matched"]`` counts the rows
        of each status.

    Examples
    --------
    >>> found = pairs(diff)  # doctest: +SKIP
    >>> found[found.status == "replaced"]  # doctest: +SKIP
    """
    return _pairs(diff).copy()


@memoized
def _pairs(diff: Comparison) -> pd.DataFrame:
    matches = match(diff)
    columns: dict[str, list[npt.NDArray[np.integer]]] = {
        name: []
        for name in (
            "before_rank", "before_id", "after_rank", "after_id", "name", "kind", "path",
            "before_step", "after_step", "before_ns", "after_ns", "status",
        )
    }  # fmt: skip
    for (before, after), one in zip(diff.rank_pairs, matches.ranks, strict=True):
        added = np.flatnonzero(one.partner[1] < 0)
        a = np.concatenate([np.arange(len(one.trees[0])), np.full(len(added), -1)])
        b = np.concatenate([one.partner[0], added])
        picked = [_picked(tree, nodes) for tree, nodes in zip(one.trees, (a, b), strict=True)]
        columns["before_rank"].append(np.full(len(a), before))
        columns["after_rank"].append(np.full(len(a), after))
        for k, word in enumerate(("before", "after")):
            for name, values in picked[k].items():
                columns[f"{word}_{name}"].append(values)
        theirs = b >= 0
        last = np.where(theirs, b, 0), np.where(a >= 0, a, 0)
        for name, of in (
            ("name", [tree.name for tree in one.trees]),
            ("kind", [tree.part.table.kind[tree.rows] for tree in one.trees]),
            ("path", list(one.path)),
            ("status", list(one.status)),
        ):
            columns[name].append(_either_side(of[1], of[0], last[0], last[1], theirs))
    column = {name: joined(values) for name, values in columns.items()}
    texts = matches.callers
    distinct = list(dict.fromkeys(texts))
    number = {text: k for k, text in enumerate(distinct)}
    path = np.array([number[text] for text in texts], dtype=np.int64)[column["path"]]
    status = column["status"]
    return result(
        {
            "pair": np.arange(len(status), dtype=np.int64),
            **{
                name: column[name]
                for name in ("before_rank", "before_id", "after_rank", "after_id")
            },
            "name": categorical(column["name"], matches.pool.names),
            "kind": pd.Categorical.from_codes(column["kind"], dtype=dtype_of(KINDS)),
            "path": categorical(path, distinct),
            **{
                name: column[name]
                for name in ("before_step", "after_step", "before_ns", "after_ns")
            },
            "diff_ns": column["after_ns"] - column["before_ns"],
            "status": pd.Categorical.from_codes(status, dtype=dtype_of(STATUSES)),
        },
        matched={word: int((status == code).sum()) for code, word in enumerate(STATUSES)},
        note="" if len(status) else "no events are compared",
    )


def _picked(tree: RankTree, nodes: Ints) -> dict[str, Ints]:
    there = nodes >= 0
    if not len(tree):
        none = np.full(len(nodes), -1, dtype=np.int64)
        return {"id": none, "step": none, "ns": np.zeros(len(nodes), dtype=np.int64)}
    at = np.where(there, nodes, 0)
    return {
        "id": np.where(there, tree.rows[at], -1),
        "step": np.where(there, tree.part.table.step[tree.rows[at]], -1),
        "ns": np.where(there, tree.durations[at], 0),
    }


def _either_side(
    one: npt.NDArray[np.integer],
    other: npt.NDArray[np.integer],
    at_one: Ints,
    at_other: Ints,
    takes_one: Flags,
) -> Ints:
    """Return values of the one, or where it has none, of the other."""
    if not len(one):
        return other[at_other].astype(np.int64)
    if not len(other):
        return one[at_one].astype(np.int64)
    found: Ints = np.where(takes_one, one[at_one], other[at_other]).astype(np.int64)
    return found
