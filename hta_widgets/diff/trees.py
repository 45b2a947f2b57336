"""Build the call trees of two ranks and match their nodes."""

from __future__ import annotations

import bisect
import itertools
import re
from collections import Counter
from dataclasses import dataclass, field
from hashlib import blake2b

import numpy as np
import numpy.typing as npt

from hta_widgets.analysis.cross_rank.comm_events import comm_events
from hta_widgets.analysis.scope import RankPart, device_work_rows
from hta_widgets.diff.compare import RunSide, step_at
from hta_widgets.taxonomy import KINDS
from hta_widgets.trace.arrays import (
    Bools,
    Ints,
    concatenate_ranges,
    mask_of_rows,
    positions_of_rows,
)
from hta_widgets.trace.columns import StringPool
from hta_widgets.trace.host_stack import (
    CALLS,
    Forest,
    attach_backward_threads,
    category_mask,
    forest_of,
    name_mask,
    nearest_ancestor,
    nested_parents,
)

Hashes = npt.NDArray[np.uint64]

#: Classes of nodes. Nodes of one class and parent form a sequence; device work is apart, because it
#: runs when its stream reaches it, so its times do not order it among operators.
OPERATOR, CALL, WORK = 0, 1, 2
#: The category of Python functions.
FRAME = "python_function"
#: Categories of ``status`` in `pairs`, in order.
STATUSES: tuple[str, ...] = ("same", "changed", "added", "removed", "moved", "replaced")
_SAME_NODE, _ADDED, _REMOVED, _MOVED, _REPLACED = (
    STATUSES.index(word) for word in ("same", "added", "removed", "moved", "replaced")
)

_RUNS = (1, 4, 16, 64)
_FACTOR = np.uint64(0x9E3779B97F4A7C15)
_MIX_CONSTANTS = tuple(
    np.uint64(value) for value in (0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB)
)
_MAX_CELLS = 4_000_000  # maximum size of the table of one exact alignment
#: Scores of a pair with equal names and subtrees, and with equal names only; and the penalty for
#: different full names, so small that its sum over a whole table is below one such score.
_SAME, _NAMESAKE, _OTHER_FULL = 3 << 13, 2 << 13, 1
_EDGE_TOLERANCE_NS = 2_000  # rounded times of a call may exceed its operator's by this
_ROUNDS = 4

_ADDRESS = re.compile(r"0x[0-9a-fA-F]{4,}")
_LINE = re.compile(r"(?:.*[/\\])?([^/\\]+)\(\d+\): (.+)", re.DOTALL)
_MODULE = re.compile(r"(nn\.Module: .+)_\d+", re.DOTALL)


def align_positions(
    a: Ints,
    b: Ints,
    a_hash: Hashes,
    b_hash: Hashes,
    a_full: Ints | None = None,
    b_full: Ints | None = None,
) -> Ints:
    """Align two sequences; return positions of pairs, (pairs, 2), ascending on both sides."""
    # Elements pair if their names are equal. Among all pairings in order, the one with the highest
    # score is taken: equal subtrees count half as much again, and equal full names break ties. Long
    # sequences are first split at elements, or runs of them, that occur once on each side. The
    # result does not depend on which side is `a`.
    if (len(b), b_hash.tobytes()) < (len(a), a_hash.tobytes()):
        return align_positions(b, a, b_hash, a_hash, b_full, a_full)[:, ::-1]
    # Rows are names, hashes and full names.
    one, other = (
        np.stack([names.astype(np.uint64), hashes, (names if full is None else full).astype("u8")])
        for names, hashes, full in ((a, a_hash, a_full), (b, b_hash, b_full))
    )
    runs: list[tuple[int, int, int]] = []  # positions in a and b, length of the run
    _align(one, other, 0, 0, runs)
    first_a, first_b, length = np.array(runs, dtype=np.int64).reshape(-1, 3).T
    pairs = np.stack(
        [concatenate_ranges(first_a, length), concatenate_ranges(first_b, length)], axis=1
    )
    return pairs[np.argsort(pairs[:, 0], kind="stable")]


def _align(a: Hashes, b: Hashes, at_a: int, at_b: int, runs: list[tuple[int, int, int]]) -> None:
    """Align two sequences, which begin at `at_a` and `at_b`; add the runs of pairs to `found`."""
    short = min(a.shape[1], b.shape[1])
    is_small = a.shape[1] * b.shape[1] <= _MAX_CELLS
    # An optimal alignment pairs the equal elements at both ends.
    rows = slice(1, 3) if is_small and not np.array_equal(a[1], b[1]) else slice(1, 2)
    head = _equal_ahead(a[rows, :short], b[rows, :short])
    tail = _equal_ahead(a[rows, ::-1][:, : short - head], b[rows, ::-1][:, : short - head])
    if head:
        runs.append((at_a, at_b, head))
    if tail:
        runs.append((at_a + a.shape[1] - tail, at_b + b.shape[1] - tail, tail))
    a, b = a[:, head : a.shape[1] - tail], b[:, head : b.shape[1] - tail]
    at_a, at_b = at_a + head, at_b + head
    size_a, size_b = a.shape[1], b.shape[1]
    if not size_a or not size_b:
        return
    if size_a * size_b <= _MAX_CELLS:
        runs += [(at_a + i, at_b + j, 1) for i, j in _best_alignment(a, b)]
        return
    by_hash = _landmarks(a[1], b[1])
    anchors = by_hash if len(by_hash) else _landmarks(a[0], b[0])
    if not len(anchors):
        # Pair the n-th elements of each name.
        pairs = _pair_equal_keys(a[0], b[0], as_many=False)
        runs += [(at_a + i, at_b + j, 1) for i, j in _longest_increasing_run(pairs).tolist()]
        return
    from_a = from_b = 0
    for i, j in [*anchors.tolist(), [size_a, size_b]]:
        _align(a[:, from_a:i], b[:, from_b:j], at_a + from_a, at_b + from_b, runs)
        if i < size_a:
            runs.append((at_a + i, at_b + j, 1))
        from_a, from_b = i + 1, j + 1


def _equal_ahead(a: Hashes, b: Hashes) -> int:
    """Return the number of equal columns at the beginning."""
    differs = (a != b).any(axis=0)
    return int(differs.argmax()) if differs.any() else len(differs)


def _best_alignment(a: Hashes, b: Hashes) -> list[tuple[int, int]]:
    """Return the pairing with the highest score, from the table of all prefixes."""
    table = _score_table(a, b) if a.shape[1] <= b.shape[1] else _score_table(b, a).T
    pairs = []
    i, j = a.shape[1], b.shape[1]
    while i and j:
        here = table[i, j]
        if here == table[i - 1, j]:
            i -= 1
        elif here == table[i, j - 1]:
            j -= 1
        else:
            pairs.append((i - 1, j - 1))
            i, j = i - 1, j - 1
    return pairs[::-1]


def _score_table(first: Hashes, second: Hashes) -> npt.NDArray[np.int32]:
    """Return the highest score of each pair of prefixes, row by row of the shorter sequence."""
    same_name, same_hash, same_full = (
        mine[:, None] == theirs for mine, theirs in zip(first, second, strict=True)
    )
    gain = np.where(same_hash, np.int32(_SAME), same_name * np.int32(_NAMESAKE))
    gain -= ((gain > 0) & ~same_full) * np.int32(_OTHER_FULL)
    table = np.zeros((first.shape[1] + 1, second.shape[1] + 1), dtype=np.int32)
    score = np.empty(second.shape[1], dtype=np.int32)
    rows = list(table)
    above = rows[0]
    for here, mine in zip(rows[1:], gain, strict=True):
        # Without a gain, the score is at most that of the row above.
        np.add(above[:-1], mine, out=score)
        np.maximum(score, above[1:], out=score)
        np.maximum.accumulate(score, out=here[1:])
        above = here
    return table


def _landmarks(a: Hashes, b: Hashes) -> Ints:
    """Return positions of the shortest runs of elements that occur once on each side."""
    for length in _RUNS:
        if length <= min(len(a), len(b)):
            landmarks = _anchors(_runs(a, length), _runs(b, length))
            if len(landmarks):
                return landmarks
    return np.empty((0, 2), dtype=np.int64)


def _runs(values: Hashes, length: int) -> Hashes:
    """Return a hash of each run of `length` elements, by the position of its first element."""
    runs = values
    width = 1
    with np.errstate(over="ignore"):
        while width < length:
            runs = runs[:-width] * _FACTOR + (runs[width:] ^ (runs[width:] >> np.uint64(29)))
            width *= 2
    return runs


def _anchors(a: Hashes, b: Hashes) -> Ints:
    """Return positions of values that occur once on each side, those in equal order on both."""
    one_a, at_a, count_a = np.unique(a, return_index=True, return_counts=True)
    one_b, at_b, count_b = np.unique(b, return_index=True, return_counts=True)
    _, in_a, in_b = np.intersect1d(
        one_a[count_a == 1], one_b[count_b == 1], assume_unique=True, return_indices=True
    )
    return _longest_increasing_run(
        np.stack([at_a[count_a == 1][in_a], at_b[count_b == 1][in_b]], axis=1)
    )


def _longest_increasing_run(pairs: Ints) -> Ints:
    """Return the longest series of pairs that ascends on both sides (patience sorting)."""
    pairs = pairs[np.argsort(pairs[:, 0])]
    tops: list[int] = []
    holders: list[int] = []
    before = [-1] * len(pairs)
    for place, value in enumerate(pairs[:, 1].tolist()):
        at = bisect.bisect_left(tops, value)
        before[place] = holders[at - 1] if at else -1
        if at == len(tops):
            tops.append(value)
            holders.append(place)
        else:
            tops[at], holders[at] = value, place
    chain = []
    at = holders[-1] if holders else -1
    while at >= 0:
        chain.append(at)
        at = before[at]
    return pairs[chain[::-1]]


def comparable_name(name: str, *, frame: bool) -> str:
    """Return a name without the parts that differ between two runs of the same program.

    Addresses are replaced. A Python function keeps the name of its file and its own, without
    folder and line; an ``nn.Module`` keeps its class, without its number.
    """
    text = _ADDRESS.sub("0x…", name) if "0x" in name else name
    if not frame:
        return text
    if match := _LINE.fullmatch(text):
        return f"{match[1]}: {match[2]}"
    match = _MODULE.fullmatch(text)
    return match[1] if match else text


class NamePool:
    """Codes of the names of both sides, and the text shown for each."""

    def __init__(self) -> None:
        self._codes: dict[str, int] = {}
        self._shown: list[str] = []
        self._full = StringPool()
        self._hashes: list[int] = []

    def codes(self, names: list[str]) -> Ints:
        """Return the code of each name."""
        return np.array([self.code(name) for name in names], dtype=np.int64)

    def code(self, name: str, shown: str | None = None) -> int:
        """Return the code of a name."""
        code = self._codes.setdefault(name, len(self._codes))
        shown = name if shown is None else shown
        if code == len(self._shown):
            self._shown.append(shown)
        elif self._shown[code] != shown:
            self._shown[code] = name
        return code

    @property
    def names(self) -> list[str]:
        """The shown name of each code, all distinct."""
        often = Counter(self._shown)
        return [
            shown if often[shown] == 1 else name
            for name, shown in zip(self._codes, self._shown, strict=True)
        ]

    def full_codes(self, names: list[str]) -> Ints:
        """Return the code of each full name."""
        return np.array([self._full.add(name) for name in names], dtype=np.int64)

    def hashes(self) -> Hashes:
        """Return a hash of each name, by code; codes depend on the reading order, hashes do not."""
        new = itertools.islice(self._codes, len(self._hashes), None)
        self._hashes += [
            int.from_bytes(blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest())
            for text in new
        ]
        return np.array(self._hashes, dtype=np.uint64)

    def __len__(self) -> int:
        return len(self._codes)


@dataclass(frozen=True, eq=False)
class RankTree:
    """Nodes of one rank, sorted by class, then time; device work is below its operator."""

    part: RankPart
    rows: Ints
    kind: npt.NDArray[np.int8]
    name: Ints
    full_name: Ints
    frame: Bools
    parent: Ints
    slot: Ints
    lane: Ints
    order: Ints
    #: start on the host; for device work, start of its launch
    begin_ns: Ints
    end_ns: Ints
    #: data that a collective moves, as a code of the pool; -1 for the rest
    content: Ints
    forest: Forest

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def durations(self) -> Ints:
        """The duration of each node within the window."""
        return self.part.durations(self.rows)

    def hashes(self, name_hashes: Hashes) -> Hashes:
        """Return a hash of each node with all operators and work below it, in order."""
        # Collectives also differ by the data that they move.
        hash_of_node = name_hashes[self.name].copy()
        stated = self.content >= 0
        hash_of_node[stated] += mix_hash(name_hashes[self.content[stated]])
        counted = self.kind != CALL
        for members in reversed(self.forest.levels[1:]):
            kids = members[counted[members]]
            if not len(kids):
                continue
            order = np.lexsort((self.order[kids], self.kind[kids], self.parent[kids]))
            kids = kids[order]
            above = self.parent[kids]
            first = np.flatnonzero(np.diff(above, prepend=-2))
            # The position among siblings, so that their order counts.
            place = concatenate_ranges(np.zeros_like(first), np.diff(np.append(first, len(kids))))
            np.add.at(
                hash_of_node,
                above,
                mix_hash(
                    hash_of_node[kids] + mix_hash(place.astype(np.uint64) + _MIX_CONSTANTS[0])
                ),
            )
        return hash_of_node


def mix_hash(values: Hashes) -> Hashes:
    """Scramble numbers, so that equal sums mean equal terms."""
    first, second, third = _MIX_CONSTANTS
    with np.errstate(over="ignore"):
        value = values + first
        value = (value ^ (value >> np.uint64(30))) * second
        value = (value ^ (value >> np.uint64(27))) * third
        result: Hashes = value ^ (value >> np.uint64(31))
    return result


def steps_of_rows(side: RunSide, part: RankPart, rows: Ints) -> Ints:
    """Return the number of the compared step of each event.

    -1 for steps that are not compared; the count of steps for events outside of all steps. Device
    work whose launch is not in the file belongs to the step in which it starts.
    """
    count = len(side.steps)
    if not side.has_steps:
        return np.zeros(len(rows), dtype=np.int64)
    table = part.table
    step = table.step[rows]
    order = np.argsort(side.steps, kind="stable")
    ascending = side.steps[order]
    at = np.minimum(np.searchsorted(ascending, step), count - 1)
    found: Ints = np.where(ascending[at] == step, order[at], np.where(step < 0, count, -1))
    unknown = (step < 0) & (table.stream[rows] >= 0) & (part.trace.launch_of[rows] < 0)
    lost = np.flatnonzero(unknown)
    within = step_at(side, part.rank, table.start_ns[rows[lost]] + part.trace.shift_ns)
    found[lost[within >= 0]] = within[within >= 0]
    return found


def rank_tree(side: RunSide, rank: int, pool: NamePool, *, stacks: bool) -> RankTree:
    """Return the call tree of one rank."""
    part = side.parts[rank]
    trace, table = part.trace, part.table
    work = mask_of_rows(device_work_rows(trace), len(table))
    # Waits on the device repeat calls of the runtime.
    kept = mask_of_rows(part.rows, len(table)) & (table.kind != KINDS.index("sync"))
    kept &= (table.stream < 0) | work
    kept &= ~category_mask(trace, "trace" if stacks else f"trace|{FRAME}")
    kept &= ~name_mask(trace, lambda name: name.startswith("ProfilerStep"))
    slot = np.full(len(table), -1, dtype=np.int64)
    slot[part.rows] = steps_of_rows(side, part, part.rows)
    kept &= slot >= 0
    call = kept & category_mask(trace, CALLS)
    operator = kept & ~call & ~work

    above = attach_backward_threads(trace, nested_parents(trace, operator))
    up = nearest_ancestor(above, operator)
    parent = np.where(work, up[trace.launch_of], up[above])
    # A node inside another step's operator is outermost in its own step.
    parent[(parent >= 0) & (slot[parent] != slot)] = -1

    rows = np.flatnonzero(kept)
    at = positions_of_rows(rows, len(table))[parent[rows]]
    kind = np.select([call[rows], work[rows]], [CALL, WORK], OPERATOR).astype(np.int8)
    launched = np.where(work[rows], trace.launch_of[rows], rows)
    # Work of the same launch, or of an unknown one, is ordered by time, which is by row.
    when = np.where(launched >= 0, launched, rows)
    order = np.empty(len(rows), dtype=np.int64)
    order[np.lexsort((rows, when))] = np.arange(len(rows))
    frame = category_mask(trace, FRAME)[rows]
    # Names of Python functions come after all others.
    key, at_key = np.unique(table.name[rows] + frame * len(table.names), return_inverse=True)
    texts = [table.names[code % len(table.names)] for code in key.tolist()]
    full, name = [], []
    for text, of_frame in zip(texts, (key >= len(table.names)).tolist(), strict=True):
        full.append(comparable_name(text, frame=False))
        name.append(pool.code(comparable_name(text, frame=of_frame), full[-1]))
    return RankTree(
        part,
        rows,
        kind,
        np.array(name, dtype=np.int64)[at_key],
        pool.full_codes(full)[at_key],
        frame,
        at,
        slot[rows],
        table.track[rows].astype(np.int64),
        order,
        table.start_ns[when],
        table.start_ns[when] + table.dur_ns[when],
        _node_contents(part, rows, pool),
        forest_of(at),
    )


def _node_contents(part: RankPart, rows: Ints, pool: NamePool) -> Ints:
    found = np.full(len(part.table), -1, dtype=np.int64)
    events = comm_events(part.trace)
    if len(events.rows):
        codes = pool.codes([f"content {item!r}" for item in events.content])
        found[events.rows] = codes[events.content_code]
    return found[rows]


@dataclass(eq=False)
class MatchedTrees:
    """Two ranks' call trees, and the partner of each node."""

    trees: tuple[RankTree, RankTree]
    partner: tuple[Ints, Ints]
    status: tuple[npt.NDArray[np.int8], npt.NDArray[np.int8]]
    path: tuple[Ints, Ints] = field(default=(np.empty(0, np.int64), np.empty(0, np.int64)))

    def shared_path(self, side: int, rank_of_path: Ints) -> Ints:
        """Return a path per node, the same for both of a pair: the first of their two paths."""
        path_of_node = self.path[side]
        nodes = np.flatnonzero(self.partner[side] >= 0)
        theirs = self.path[1 - side][self.partner[side][nodes]]
        first = rank_of_path[theirs] < rank_of_path[path_of_node[nodes]]
        if not first.any():
            return path_of_node
        result = path_of_node.copy()
        result[nodes[first]] = theirs[first]
        return result


class TreeMatcher:
    """Matches two trees from the outermost operators down.

    The result does not depend on the order of the sides.
    """

    def __init__(self, trees: tuple[RankTree, RankTree], name_hashes: Hashes) -> None:
        self.trees = trees
        self.hashes = tuple(tree.hashes(name_hashes) for tree in trees)
        self.partner = tuple(np.full(len(tree), -1, dtype=np.int64) for tree in trees)
        self.replaced = tuple(np.zeros(len(tree), dtype=bool) for tree in trees)
        self.moved = tuple(np.zeros(len(tree), dtype=bool) for tree in trees)
        self.known: dict[tuple[bytes, ...], Ints] = {}
        self.roots = _root_numbers(trees)
        self.listed = [
            _ChildLists(tree, root) for tree, root in zip(trees, self.roots, strict=True)
        ]

    def run(self) -> MatchedTrees:
        """Return the partner and status of all nodes."""
        before, after = self.trees
        count = [int(root.max(initial=-1)) + 1 for root in self.roots]
        shared = np.arange(max(0, min(count)), dtype=np.int64)
        self._match_below(shared + len(before), shared + len(after))
        self._match_at_edges()
        self._match_frames()
        self._match_moved()
        self._match_at_edges()
        status = []
        for k, alone in ((0, _REMOVED), (1, _ADDED)):
            node_status = np.where(self.partner[k] >= 0, _SAME_NODE, alone).astype(np.int8)
            node_status[self.moved[k]] = _MOVED
            node_status[self.replaced[k]] = _REPLACED
            status.append(node_status)
        return MatchedTrees(self.trees, (self.partner[0], self.partner[1]), (status[0], status[1]))

    def _match_below(self, a: Ints, b: Ints, *, moved: bool = False) -> None:
        """Match everything below pairs of nodes, level by level."""
        while len(a):
            new_pairs = self._match_children(a, b)
            if moved:
                self.moved[0][new_pairs[:, 0]] = self.moved[1][new_pairs[:, 1]] = True
            goes_on = self.trees[0].kind[new_pairs[:, 0]] == OPERATOR
            a, b = new_pairs[goes_on].T

    def _match_children(self, a: Ints, b: Ints) -> Ints:
        """Match the children of pairs of nodes; return the pairs found."""
        kinds = np.arange(3)
        buckets = (a[:, None] * 3 + kinds).ravel(), (b[:, None] * 3 + kinds).ravel()
        counts = [
            children.count[bucket] for children, bucket in zip(self.listed, buckets, strict=True)
        ]
        there = (counts[0] > 0) & (counts[1] > 0)
        first = [
            children.first[bucket][there]
            for children, bucket in zip(self.listed, buckets, strict=True)
        ]
        sizes = [count[there] for count in counts]
        even = np.flatnonzero(sizes[0] == sizes[1])
        nodes = [
            children.nodes[concatenate_ranges(begin[even], sizes[0][even])]
            for children, begin in zip(self.listed, first, strict=True)
        ]
        group = np.repeat(even, sizes[0][even])
        differs = self.trees[0].name[nodes[0]] != self.trees[1].name[nodes[1]]
        # Below calls that were paired by their edges, or as moved, some may have a partner already.
        for k in (0, 1):
            differs |= self.partner[k][nodes[k]] >= 0
        uneven = sizes[0] != sizes[1]
        uneven[group[differs]] = True
        direct = ~uneven[group]
        pairs = [np.stack([nodes[0][direct], nodes[1][direct]], axis=1)]
        replaced: list[Ints] = []
        for place in np.flatnonzero(uneven).tolist():
            mine, theirs = (
                children.nodes[begin[place] : begin[place] + size[place]]
                for children, begin, size in zip(self.listed, first, sizes, strict=True)
            )
            self._align_siblings(mine, theirs, pairs, replaced)
        new_pairs = np.concatenate(pairs)
        self._pair_nodes(new_pairs)
        if replaced:
            self._pair_nodes(np.concatenate(replaced), replaced=True)
        return new_pairs

    def _align_siblings(
        self, mine: Ints, theirs: Ints, pairs: list[Ints], replaced: list[Ints]
    ) -> None:
        """Align two sequences of siblings; add the pairs, and pairs of replaced work."""
        mine, theirs = mine[self.partner[0][mine] < 0], theirs[self.partner[1][theirs] < 0]
        if not len(mine) or not len(theirs):
            return
        places = self._aligned_nodes(mine, theirs)
        pairs.append(np.stack([mine[places[:, 0]], theirs[places[:, 1]]], axis=1))
        both = min(len(mine), len(theirs)) - len(places)
        if both and self.trees[0].kind[mine[0]] == WORK and self.trees[0].parent[mine[0]] >= 0:
            left = np.delete(mine, places[:, 0]), np.delete(theirs, places[:, 1])
            for k in (0, 1):
                self.replaced[k][left[k]] = True
            replaced.append(np.stack([left[0][:both], left[1][:both]], axis=1))

    def _aligned_nodes(self, mine: Ints, theirs: Ints) -> Ints:
        """Return the `align_positions` of two sequences of nodes."""
        one, other = self.trees
        hashes = self.hashes[0][mine], self.hashes[1][theirs]
        full = one.full_name[mine], other.full_name[theirs]
        # Hashes include the names.
        key = tuple(values.tobytes() for values in (*hashes, *full))
        if key not in self.known:
            self.known[key] = align_positions(one.name[mine], other.name[theirs], *hashes, *full)
        return self.known[key]

    def _pair_nodes(self, found: Ints, *, replaced: bool = False) -> None:
        """Pair nodes; this clears the mark of work that was replaced, unless `replaced`."""
        a, b = found.T
        self.partner[0][a], self.partner[1][b] = b, a
        self.replaced[0][a] = self.replaced[1][b] = replaced

    def _pair_subtrees(self, new_pairs: Ints, *, moved: bool = False) -> None:
        """Pair nodes, and match everything below them."""
        self._pair_nodes(new_pairs)
        if moved:
            self.moved[0][new_pairs[:, 0]] = self.moved[1][new_pairs[:, 1]] = True
        goes_on = self.trees[0].kind[new_pairs[:, 0]] == OPERATOR
        self._match_below(*new_pairs[goes_on].T, moved=moved)

    def _match_at_edges(self) -> None:
        """Pair calls at the edges of operators that enclose them on one side only."""
        # Times are rounded, so it is arbitrary which of two touching calls encloses the other, and
        # which of them is the parent of a third call.
        for _ in range(_ROUNDS):
            both = np.concatenate([self._edge_candidates(0)[:, ::-1], self._edge_candidates(1)])
            if not len(both):
                return
            # A call that is found from both sides keeps its earliest pair, by the sum of positions
            # on both sides. Pairs that share a call differ in this sum.
            early = sum(tree.order[both[:, k]] for k, tree in enumerate(self.trees))
            taken: tuple[set[int], set[int]] = (set(), set())
            pairs = []
            for a, b in both[np.argsort(early, kind="stable")].tolist():
                if a not in taken[0] and b not in taken[1]:
                    taken[0].add(a)
                    taken[1].add(b)
                    pairs.append((a, b))
            self._pair_subtrees(np.array(pairs, dtype=np.int64))

    def _edge_candidates(self, side: int) -> Ints:
        """Return pairs of unmatched calls: one of the other side, one below an operator here."""
        # The operator has a partner, and the call of the other side is within the partner's times,
        # or exceeds them by no more than rounding does.
        tree, other = self.trees[side], self.trees[1 - side]
        partner = self.partner[side]
        inner = np.flatnonzero((partner < 0) & (tree.parent >= 0))
        inner = inner[partner[tree.parent[inner]] >= 0]
        loose = np.flatnonzero(self.partner[1 - side] < 0)
        if not len(inner) or not len(loose):
            return np.empty((0, 2), dtype=np.int64)
        above = partner[tree.parent[inner]]
        low, high = (
            other.begin_ns[above] - _EDGE_TOLERANCE_NS,
            other.end_ns[above] + _EDGE_TOLERANCE_NS,
        )
        first = min(int(low.min()), int(other.begin_ns[loose].min()))
        width = max(int(high.max()), int(other.begin_ns[loose].max())) - first + 1
        key = (other.name[loose] * 3 + other.kind[loose]) * width + other.begin_ns[loose] - first
        order = np.argsort(key, kind="stable")
        loose, key = loose[order], key[order]
        base = (tree.name[inner] * 3 + tree.kind[inner]) * width - first
        begin = np.searchsorted(key, base + low, side="left")
        end = np.searchsorted(key, base + high, side="right")
        asked = np.flatnonzero(end > begin)
        asked = asked[np.argsort(tree.order[inner[asked]], kind="stable")]
        taken: set[int] = set()
        found = []
        for place in asked.tolist():
            for node in loose[begin[place] : end[place]].tolist():
                fits = other.end_ns[node] <= high[place] and node not in taken
                same_lane = other.kind[node] == WORK or other.lane[node] == other.lane[above[place]]
                if fits and same_lane:
                    taken.add(node)
                    found.append((node, int(inner[place])))
                    break
        return np.array(found, dtype=np.int64).reshape(-1, 2)

    def _match_frames(self) -> None:
        """Pair callees of Python functions without a partner as if their callers called them."""
        # Versions of a library may differ by a Python function between a caller and its callees.
        for _ in range(_ROUNDS):
            alone = [tree.frame & (self.partner[k] < 0) for k, tree in enumerate(self.trees)]
            if not any(one.any() for one in alone):
                return
            lists = [self._unmatched_by_caller(k, alone[k]) for k in (0, 1)]
            pairs = [
                pair
                for key in lists[0].keys() & lists[1].keys()
                for pair in self._pair_nested(lists[0][key], lists[1][key])
            ]
            if not pairs:
                return
            self._pair_subtrees(np.array(pairs, dtype=np.int64))

    def _unmatched_by_caller(self, side: int, alone: Bools) -> dict[tuple[int, int], Ints]:
        """Return nodes without a partner by class and nearest caller with a partner, in order."""
        # Callers are given as nodes of the first side; outermost nodes have their root instead.
        # Between a node and its caller are only Python functions without a partner.
        tree = self.trees[side]
        nodes = np.flatnonzero(self.partner[side] < 0)
        up = nearest_ancestor(tree.parent, ~alone)[tree.parent[nodes]]
        top = nearest_ancestor(tree.parent, tree.parent < 0)[nodes]
        known = (up < 0) | (self.partner[side][up] >= 0)
        nodes, up, top = nodes[known], up[known], top[known]
        caller = up if side == 0 else self.partner[1][up]
        caller = np.where(up < 0, -1 - self.roots[side][top], caller)
        key = caller * 3 + tree.kind[nodes]
        order = np.lexsort((tree.order[nodes], key))
        nodes, key = nodes[order], key[order]
        keys, first = np.unique(key, return_index=True)
        return {
            divmod(k, 3): some
            for k, some in zip(keys.tolist(), np.split(nodes, first)[1:], strict=True)
        }

    def _pair_nested(self, mine: Ints, theirs: Ints) -> list[tuple[int, int]]:
        """Pair two lists of nodes, callers first, so that callers of pairs are pairs as well."""
        taken: tuple[dict[int, int], dict[int, int]] = ({}, {})
        for i, j in self._aligned_nodes(mine, theirs).tolist():
            a, b = int(mine[i]), int(theirs[j])
            if taken[0].get(
                self._nearest_paired_caller(0, a, taken[0]), -1
            ) == self._nearest_paired_caller(1, b, taken[1]):
                taken[0][a], taken[1][b] = b, a
        return list(taken[0].items())

    def _nearest_paired_caller(self, side: int, node: int, taken: dict[int, int]) -> int:
        """Return the nearest caller with a partner; -1 if it is not one of `taken`."""
        above = int(self.trees[side].parent[node])
        while above >= 0 and above not in taken and self.partner[side][above] < 0:
            above = int(self.trees[side].parent[above])
        return above if above in taken else -1

    def _match_moved(self) -> None:
        """Pair the operators of a step that are still unpaired on both sides."""
        # Pair by equal subtrees first, then by names that occur equally often on both sides.
        for by_content in (True, False):
            keys = []
            for k, tree in enumerate(self.trees):
                alone = self.partner[k] < 0
                outermost = alone & (tree.kind == OPERATOR)
                outermost &= (tree.parent < 0) | ~alone[tree.parent]
                # A lone call such as aten::empty is too common to identify.
                outermost &= tree.forest.subtree_sums((tree.kind != CALL).astype(np.int64)) > 1
                nodes = np.flatnonzero(outermost)
                nodes = nodes[np.argsort(tree.order[nodes], kind="stable")]
                key_of_node = (
                    self.hashes[k][nodes] if by_content else tree.name[nodes].astype(np.uint64)
                )
                keys.append(
                    (nodes, mix_hash(key_of_node + mix_hash(tree.slot[nodes].astype(np.uint64))))
                )
            (a, a_key), (b, b_key) = keys
            if not len(a) or not len(b):
                return
            places = _pair_equal_keys(a_key, b_key, as_many=not by_content)
            new_pairs = np.stack([a[places[:, 0]], b[places[:, 1]]], axis=1)
            self._pair_subtrees(new_pairs, moved=True)


class _ChildLists:
    """Children of each node, then those of each root, by class and in order."""

    def __init__(self, tree: RankTree, root: Ints) -> None:
        count = len(tree)
        above = np.where(tree.parent >= 0, tree.parent, count + root)
        key = above * 3 + tree.kind
        self.nodes = np.lexsort((tree.order, key))
        buckets = (count + int(root.max(initial=-1)) + 1) * 3
        self.count = np.bincount(key, minlength=buckets)
        self.first = np.cumsum(self.count) - self.count


def _root_numbers(trees: tuple[RankTree, RankTree]) -> tuple[Ints, Ints]:
    """Return a number per outermost node: that of its step and track, equal on both sides."""
    lanes = _shared_track_numbers(trees)
    size = max((int(lane.max(initial=-1)) for lane in lanes), default=-1) + 1
    first, second = (
        np.where(tree.parent < 0, tree.slot * size + lane[tree.lane], 0)
        for tree, lane in zip(trees, lanes, strict=True)
    )
    return first, second


def _shared_track_numbers(trees: tuple[RankTree, RankTree]) -> tuple[Ints, Ints]:
    """Return numbers of tracks, shared by the tracks of both sides that run the same work."""
    profiles: list[dict[int, Counter[tuple[int, int]]]] = []
    for tree in trees:
        outermost = np.flatnonzero(tree.parent < 0)
        keys = np.stack([tree.lane, tree.name, tree.kind == WORK], axis=1)[outermost]
        distinct, counts = np.unique(keys, axis=0, return_counts=True)
        profiles.append({lane: Counter() for lane in distinct[:, 0].tolist()})
        for (lane, name, work), count in zip(distinct.tolist(), counts.tolist(), strict=True):
            profiles[-1][lane][name, work] = count
    shared = [
        ((mine & theirs).total(), -a - b, a, b)
        for a, mine in profiles[0].items()
        for b, theirs in profiles[1].items()
    ]
    number = [np.full(len(tree.part.table.tracks) + 1, -1, dtype=np.int64) for tree in trees]
    following = 0
    # Most shared work first; ties do not depend on the order of the sides.
    for score, _, a, b in sorted(shared, reverse=True):
        if score > 0 and number[0][a] < 0 and number[1][b] < 0:
            number[0][a] = number[1][b] = following
            following += 1
    for k, profile in enumerate(profiles):
        for lane in profile:
            if number[k][lane] < 0:
                number[k][lane] = following
                following += 1
    return number[0], number[1]


def _pair_equal_keys(a: Hashes, b: Hashes, *, as_many: bool) -> Ints:
    """Pair the n-th elements of each key; return their positions, (pairs, 2)."""
    # `as_many` leaves out keys that do not occur equally often on both sides.
    keys, codes = np.unique(np.concatenate([a, b]), return_inverse=True)
    mine, theirs = codes[: len(a)].astype(np.int64), codes[len(a) :].astype(np.int64)
    kept = np.arange(len(a)), np.arange(len(b))
    if as_many:
        counts = [np.bincount(one, minlength=len(keys)) for one in (mine, theirs)]
        equal = counts[0] == counts[1]
        kept = np.flatnonzero(equal[mine]), np.flatnonzero(equal[theirs])
    places = number_occurrences(mine[kept[0]]), number_occurrences(theirs[kept[1]])
    _, in_a, in_b = np.intersect1d(*places, assume_unique=True, return_indices=True)
    return np.stack([kept[0][in_a], kept[1][in_b]], axis=1)


def number_occurrences(codes: Ints) -> Ints:
    """Return each code, and in the low 32 bits how often it occurred before."""
    order = np.argsort(codes, kind="stable")
    first = np.flatnonzero(np.diff(codes[order], prepend=-1)) if len(codes) else order
    number = np.empty(len(codes), dtype=np.int64)
    number[order] = concatenate_ranges(np.zeros_like(first), np.diff(np.append(first, len(codes))))
    return (codes << 32) | number
