"""Call trees and their matching."""

from __future__ import annotations

import bisect
import itertools
import re
from collections import Counter
from dataclasses import dataclass, field
from hashlib import blake2b

import numpy as np
import numpy.typing as npt

from hta_widgets.analysis.comm_events import comm_events
from hta_widgets.analysis.host_stack import (
    Forest,
    below_backward,
    forest_of,
    nearest,
    nested_parents,
)
from hta_widgets.analysis.scope import BUSY, Part
from hta_widgets.diff.compare import RunSide
from hta_widgets.taxonomy import KINDS

Ints = npt.NDArray[np.int64]
Hashes = npt.NDArray[np.uint64]

_RUNS = (1, 4, 16, 64)
_FACTOR = np.uint64(0x9E3779B97F4A7C15)
_MOST_CELLS = 4_000_000  # of the table of one exact alignment

#: What a pair is worth: the same name and the same below it, or the same name alone; and what other
#: full names take away, which of all pairs that a table can hold is less than a step between them.
_SAME, _NAMESAKE, _OTHER_FULL = 3 << 13, 2 << 13, 1

#: Names, hashes and full names of a sequence; and of two.
_Side = tuple[Ints, Hashes, Ints]
_Sides = tuple[_Side, _Side]


def aligned_places(
    a: Ints,
    b: Ints,
    a_hash: Hashes,
    b_hash: Hashes,
    a_full: Ints | None = None,
    b_full: Ints | None = None,
) -> Ints:
    """Return places of elements that belong together, (pairs, 2), ascending on both sides.

    Only elements of one name pair. Among all pairings that keep the order, the one is taken that
    pairs most, where elements that are alike in all below them count half as much again; of
    pairings that are worth as much the one with most full names that agree. Long sequences are
    first parted at elements, or runs of them, that occur once on each side. Turned round, with `b`
    first, the same elements pair.
    """
    a_full, b_full = (a if a_full is None else a_full), (b if b_full is None else b_full)
    # Of pairings that are worth as much, what the sequences hold decides, not which is given first.
    if (len(b), b_hash.tobytes()) < (len(a), a_hash.tobytes()):
        return aligned_places(b, a, b_hash, a_hash, b_full, a_full)[:, ::-1]
    found: list[tuple[int, int, int]] = []  # place in a, place in b, length of the run
    _align(((a, a_hash, a_full), (b, b_hash, b_full)), 0, 0, found)
    if not found:
        return np.empty((0, 2), dtype=np.int64)
    first_a, first_b, length = (
        np.array(column, dtype=np.int64) for column in zip(*found, strict=True)
    )
    within = np.arange(int(length.sum())) - np.repeat(np.cumsum(length) - length, length)
    pairs = np.stack([np.repeat(first_a, length), np.repeat(first_b, length)], axis=1)
    pairs += within[:, None]
    return pairs[np.argsort(pairs[:, 0], kind="stable")]


def _align(sides: _Sides, at_a: int, at_b: int, found: list[tuple[int, int, int]]) -> None:
    """Add runs of pairs of two sequences that begin at these places."""
    (a, a_hash, a_full), (b, b_hash, b_full) = sides
    short = min(len(a), len(b))
    if len(a) * len(b) <= _MOST_CELLS and not np.array_equal(a_hash, b_hash):
        # Which of several that are alike, their full names say.
        equal = (a_hash[:short] == b_hash[:short]) & (a_full[:short] == b_full[:short])
        from_end = (a_hash[::-1][:short] == b_hash[::-1][:short]) & (
            a_full[::-1][:short] == b_full[::-1][:short]
        )
    else:
        equal = a_hash[:short] == b_hash[:short]
        from_end = a_hash[::-1][:short] == b_hash[::-1][:short]
    # What is alike at both ends belongs together in a best pairing.
    head = int(np.argmin(equal)) if not equal.all() else short
    from_end = from_end[: short - head]
    tail = int(np.argmin(from_end)) if not from_end.all() else short - head
    if head:
        found.append((at_a, at_b, head))
    if tail:
        found.append((at_a + len(a) - tail, at_b + len(b) - tail, tail))
    left_a, left_b = slice(head, len(a) - tail), slice(head, len(b) - tail)
    a, a_hash, a_full = a[left_a], a_hash[left_a], a_full[left_a]
    b, b_hash, b_full = b[left_b], b_hash[left_b], b_full[left_b]
    at_a, at_b = at_a + head, at_b + head
    if not len(a) or not len(b):
        return
    if len(a) * len(b) <= _MOST_CELLS:
        best = _best((a, a_hash, a_full), (b, b_hash, b_full))
        found += [(at_a + i, at_b + j, 1) for i, j in best]
        return
    anchors = _landmarks(a_hash, b_hash)
    if not len(anchors):
        anchors = _landmarks(a.astype(np.uint64), b.astype(np.uint64))
    if not len(anchors):
        found += [(at_a + i, at_b + j, 1) for i, j in _by_count(a, b)]
        return
    from_a = from_b = 0
    for i, j in [*anchors.tolist(), [len(a), len(b)]]:
        part = (
            (a[from_a:i], a_hash[from_a:i], a_full[from_a:i]),
            (b[from_b:j], b_hash[from_b:j], b_full[from_b:j]),
        )
        _align(part, at_a + from_a, at_b + from_b, found)
        if i < len(a):
            found.append((at_a + i, at_b + j, 1))
        from_a, from_b = i + 1, j + 1


def _best(one: _Side, other: _Side) -> list[tuple[int, int]]:
    """Return the pairing worth most, by the table of all beginnings."""
    table = _table(one, other) if len(one[0]) <= len(other[0]) else _table(other, one).T
    pairs = []
    i, j = len(one[0]), len(other[0])
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


def _table(one: _Side, other: _Side) -> npt.NDArray[np.int32]:
    """Return what the best pairing of each two beginnings is worth, row by row of the shorter."""
    (a, a_hash, a_full), (b, b_hash, b_full) = one, other
    gain = np.where(
        a_hash[:, None] == b_hash, np.int32(_SAME), (a[:, None] == b) * np.int32(_NAMESAKE)
    )
    gain -= ((gain > 0) & (a_full[:, None] != b_full)) * np.int32(_OTHER_FULL)
    table = np.zeros((len(a) + 1, len(b) + 1), dtype=np.int32)
    worth = np.empty(len(b), dtype=np.int32)
    rows = list(table)
    above = rows[0]
    for here, mine in zip(rows[1:], gain, strict=True):
        # Without a gain it is worth no more than what stands above.
        np.add(above[:-1], mine, out=worth)
        np.maximum(worth, above[1:], out=worth)
        np.maximum.accumulate(worth, out=here[1:])
        above = here
    return table


def _landmarks(a: Hashes, b: Hashes) -> Ints:
    """Return places of runs of elements that occur once on each side, the shortest runs first."""
    for length in _RUNS:
        if length <= min(len(a), len(b)):
            found = _anchors(_runs(a, length), _runs(b, length))
            if len(found):
                return found
    return np.empty((0, 2), dtype=np.int64)


def _runs(values: Hashes, length: int) -> Hashes:
    """Return a hash of each run of `length` elements, by its first."""
    found = values
    width = 1
    with np.errstate(over="ignore"):
        while width < length:
            found = found[:-width] * _FACTOR + (found[width:] ^ (found[width:] >> np.uint64(29)))
            width *= 2
    return found


def _anchors(a: npt.NDArray[np.integer], b: npt.NDArray[np.integer]) -> Ints:
    """Return places of what occurs once on each side, as many as keep the order (patience)."""
    one_a, at_a, count_a = np.unique(a, return_index=True, return_counts=True)
    one_b, at_b, count_b = np.unique(b, return_index=True, return_counts=True)
    _, in_a, in_b = np.intersect1d(
        one_a[count_a == 1], one_b[count_b == 1], assume_unique=True, return_indices=True
    )
    pairs = np.stack([at_a[count_a == 1][in_a], at_b[count_b == 1][in_b]], axis=1)
    pairs = pairs[np.argsort(pairs[:, 0])]
    return pairs[_longest_rise(pairs[:, 1].tolist())]


def _longest_rise(values: list[int]) -> list[int]:
    """Return the places of a longest ascending part."""
    tops: list[int] = []
    holders: list[int] = []
    before = [-1] * len(values)
    for place, value in enumerate(values):
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
    return chain[::-1]


def _by_count(a: Ints, b: Ints) -> list[tuple[int, int]]:
    """Pair the n-th of a name with the n-th, as far as that keeps the order."""
    places: dict[int, list[int]] = {}
    for place, name in enumerate(b.tolist()):
        places.setdefault(name, []).append(place)
    seen: dict[int, int] = {}
    pairs = []
    for place, name in enumerate(a.tolist()):
        number = seen.get(name, 0)
        seen[name] = number + 1
        if number < len(places.get(name, ())):
            pairs.append((place, places[name][number]))
    return [pairs[k] for k in _longest_rise([j for _, j in pairs])]


Flags = npt.NDArray[np.bool_]

#: Classes of nodes. Those of one class and parent form a sequence: work runs when its stream gets
#: to it, so its times say nothing of its place among the operators.
OPERATOR, CALL, WORK = 0, 1, 2

_CALL_CATEGORY = re.compile(r"(.+_)?(runtime|driver)", re.IGNORECASE)
_ADDRESS = re.compile(r"0x[0-9a-fA-F]{4,}")
#: The category of Python functions.
FRAME = "python_function"
_LINE = re.compile(r"(?:.*[/\\])?([^/\\]+)\(\d+\): (.+)", re.DOTALL)
_MODULE = re.compile(r"(nn\.Module: .+)_\d+", re.DOTALL)
_MIX = tuple(
    np.uint64(value) for value in (0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB)
)


def compared_name(name: str, *, frame: bool) -> str:
    """Return a name without what differs between two runs of the same program.

    Addresses count as one. Of a Python function the file's name and the function's count, not the
    folder or the line; of an ``nn.Module`` its class, not its number.
    """
    text = _ADDRESS.sub("0x…", name) if "0x" in name else name
    if not frame:
        return text
    if found := _LINE.fullmatch(text):
        return f"{found[1]}: {found[2]}"
    found = _MODULE.fullmatch(text)
    return found[1] if found else text


class NamePool:
    """Codes of names that both sides share, and how each is shown."""

    def __init__(self) -> None:
        self._codes: dict[str, int] = {}
        self._shown: list[str] = []
        self._full: dict[str, int] = {}
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
        """The names as they are shown, by code; no two are alike."""
        often = Counter(self._shown)
        return [
            shown if often[shown] == 1 else name
            for name, shown in zip(self._codes, self._shown, strict=True)
        ]

    def full_codes(self, names: list[str]) -> Ints:
        """Return the code of each full name."""
        codes = [self._full.setdefault(name, len(self._full)) for name in names]
        return np.array(codes, dtype=np.int64)

    def hashes(self) -> Hashes:
        """Return a number for each name that tells the name, by code.

        Codes depend on which side was read first; what is made of these does not.
        """
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
    """Nodes of one rank, sorted by class, then time; device work hangs below its operator."""

    part: Part
    rows: Ints
    kind: npt.NDArray[np.int8]
    name: Ints
    full_name: Ints
    frame: Flags
    parent: Ints
    slot: Ints
    lane: Ints
    order: Ints
    outside: int
    #: when the host did it, or launched it
    begin_ns: Ints
    end_ns: Ints
    #: what a collective moves, as a code of the pool; -1 for the rest
    content: Ints
    forest: Forest

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def durations(self) -> Ints:
        """How long each lasts within the window."""
        return self.part.durations(self.rows)

    def hashes(self, name_hashes: Hashes) -> Hashes:
        """Return for each node what it is with all operators and work below it, in order.

        Collectives of one name are told apart by what they move.
        """
        own = name_hashes[self.name].copy()
        stated = self.content >= 0
        own[stated] += mixed(name_hashes[self.content[stated]])
        counted = self.kind != CALL
        # Places among siblings: their order decides, not their distance.
        for members in reversed(self.forest.levels[1:]):
            kids = members[counted[members]]
            if not len(kids):
                continue
            order = np.lexsort((self.order[kids], self.kind[kids], self.parent[kids]))
            kids = kids[order]
            above = self.parent[kids]
            first = np.flatnonzero(np.diff(above, prepend=-2))
            place = np.arange(len(kids)) - np.repeat(first, np.diff(np.append(first, len(kids))))
            np.add.at(own, above, mixed(own[kids] + mixed(place.astype(np.uint64) + _MIX[0])))
        return own


def mixed(values: Hashes) -> Hashes:
    """Scramble numbers, so that sums of them tell what was summed."""
    one, two, three = _MIX
    with np.errstate(over="ignore"):
        value = values + one
        value = (value ^ (value >> np.uint64(30))) * two
        value = (value ^ (value >> np.uint64(27))) * three
        found: Hashes = value ^ (value >> np.uint64(31))
    return found


def steps_of_rows(side: RunSide, part: Part, rows: Ints) -> Ints:
    """Return which of the compared steps each event belongs to.

    -1 stands for steps that are not compared; the number of steps for outside of all steps. Device
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
    windows = side.windows[part.rank] - part.trace.shift_ns
    start = table.start_ns[rows[lost]]
    within = np.searchsorted(windows[:, 0], start, side="right") - 1
    inside = (within >= 0) & (start < windows[np.maximum(within, 0), 1])
    found[lost[inside]] = within[inside]
    return found


def rank_tree(side: RunSide, rank: int, pool: NamePool, *, stacks: bool) -> RankTree:
    """Return the call tree of one rank."""
    part = side.parts[rank]
    trace, table = part.trace, part.table
    left_out, call_category = _categories(part, stacks=stacks)
    on_device = table.stream >= 0
    busy = np.zeros(len(KINDS), dtype=bool)
    busy[[KINDS.index(kind) for kind in BUSY]] = True
    work = on_device & busy[table.kind]
    kept = np.zeros(len(table), dtype=bool)
    kept[part.rows] = True
    # Waits on the device repeat what the calls of the runtime say.
    kept &= ~left_out[table.category] & (table.kind != KINDS.index("sync"))
    kept &= (~on_device | work) & ~_is_step(part)
    slot = np.full(len(table), -1, dtype=np.int64)
    slot[part.rows] = steps_of_rows(side, part, part.rows)
    kept &= slot >= 0
    call = kept & call_category[table.category] & ~on_device
    operator = kept & ~call & ~work

    above = below_backward(trace, nested_parents(trace, operator))
    up = nearest(above, operator)
    parent = np.where(work, up[trace.launch_of], up[above])
    # What another step encloses is the outermost of its own.
    parent[(parent >= 0) & (slot[parent] != slot)] = -1

    rows = np.flatnonzero(kept)
    position = np.full(len(table) + 1, -1, dtype=np.int64)
    position[rows] = np.arange(len(rows))
    at = position[parent[rows]]
    kind = np.select([call[rows], work[rows]], [CALL, WORK], OPERATOR).astype(np.int8)
    launched = np.where(work[rows], trace.launch_of[rows], rows)
    # Of one launch, or of none that is known, by time, which is by row.
    when = np.where(launched >= 0, launched, rows)
    order = np.empty(len(rows), dtype=np.int64)
    order[np.lexsort((rows, when))] = np.arange(len(rows))
    of_frames = np.array([text == FRAME for text in table.categories.values] + [False])
    frame = of_frames[table.category[rows]]
    # Names of Python functions behind all others.
    key, at_key = np.unique(table.name[rows] + frame * len(table.names), return_inverse=True)
    texts = [table.names[code % len(table.names)] for code in key.tolist()]
    full, name = [], []
    for text, is_frame in zip(texts, key >= len(table.names), strict=True):
        full.append(compared_name(text, frame=False))
        name.append(pool.code(compared_name(text, frame=bool(is_frame)), full[-1]))
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
        len(side.steps),
        table.start_ns[when],
        table.start_ns[when] + table.dur_ns[when],
        _contents(part, rows, pool),
        forest_of(at),
    )


def _contents(part: Part, rows: Ints, pool: NamePool) -> Ints:
    found = np.full(len(part.table), -1, dtype=np.int64)
    events = comm_events(part.trace)
    if len(events.rows):
        codes = pool.codes([f"content {item!r}" for item in events.content])
        found[events.rows] = codes[events.content_code]
    return found[rows]


def _categories(part: Part, *, stacks: bool) -> tuple[Flags, Flags]:
    """Return which categories are left out, and which are calls of the runtime, by code."""
    texts = part.table.categories.values
    # The last entry stands for none.
    left_out = [text.lower() == "trace" or (text == FRAME and not stacks) for text in texts]
    calls = [_CALL_CATEGORY.fullmatch(text) is not None for text in texts]
    return np.array([*left_out, False]), np.array([*calls, False])


def _is_step(part: Part) -> Flags:
    table = part.table
    named = np.array([text.startswith("ProfilerStep") for text in table.names.values] + [False])
    found: Flags = named[table.name]
    return found


#: What can become of an event, in the order of the categories of ``status``.
STATUSES: tuple[str, ...] = ("same", "changed", "added", "removed", "moved", "replaced")

_SAME_NODE, _ADDED, _REMOVED, _MOVED, _REPLACED = (
    STATUSES.index(word) for word in ("same", "added", "removed", "moved", "replaced")
)

#: How far a call may reach beyond the operator that it is in: files write ts and dur with few
#: digits, and round each by itself.
_TOUCH_NS = 2_000
_ROUNDS = 4


@dataclass(eq=False)
class Matched:
    """Two ranks' call trees, and which nodes belong together."""

    trees: tuple[RankTree, RankTree]
    partner: tuple[Ints, Ints]
    status: tuple[npt.NDArray[np.int8], npt.NDArray[np.int8]]
    path: tuple[Ints, Ints] = field(default=(np.empty(0, np.int64), np.empty(0, np.int64)))

    def shared_path(self, side: int, rank_of_path: Ints) -> Ints:
        """Return for each node a path that its partner has, too: the first of theirs."""
        own = self.path[side]
        nodes = np.flatnonzero(self.partner[side] >= 0)
        theirs = self.path[1 - side][self.partner[side][nodes]]
        first = rank_of_path[theirs] < rank_of_path[own[nodes]]
        if not first.any():
            return own
        found = own.copy()
        found[nodes[first]] = theirs[first]
        return found


class TreeMatcher:
    """Matches two trees from the outermost operators down.

    Neither side is preferred: the other way round the same nodes find each other.
    """

    def __init__(self, trees: tuple[RankTree, RankTree], name_hashes: Hashes) -> None:
        self.trees = trees
        self.hashes = tuple(tree.hashes(name_hashes) for tree in trees)
        self.partner = tuple(np.full(len(tree), -1, dtype=np.int64) for tree in trees)
        self.replaced = tuple(np.zeros(len(tree), dtype=bool) for tree in trees)
        self.moved = tuple(np.zeros(len(tree), dtype=bool) for tree in trees)
        self.known: dict[tuple[bytes, ...], Ints] = {}
        self.roots = _roots(trees)
        self.listed = [_Listed(tree, root) for tree, root in zip(trees, self.roots, strict=True)]

    def run(self) -> Matched:
        """Return which nodes belong together."""
        before, after = self.trees
        count = [int(root.max(initial=-1)) + 1 for root in self.roots]
        shared = np.arange(max(0, min(count)), dtype=np.int64)
        self._down(shared + len(before), shared + len(after), moved=False)
        self._edges()
        self._frames()
        self._moves()
        self._edges()
        status = []
        for k, alone in ((0, _REMOVED), (1, _ADDED)):
            found = np.where(self.partner[k] >= 0, _SAME_NODE, alone).astype(np.int8)
            found[self.moved[k]] = _MOVED
            found[self.replaced[k]] = _REPLACED
            status.append(found)
        return Matched(self.trees, (self.partner[0], self.partner[1]), (status[0], status[1]))

    def _down(self, a: Ints, b: Ints, *, moved: bool) -> None:
        """Match all below pairs of nodes, level by level."""
        while len(a):
            found = self._level(a, b)
            if moved:
                self.moved[0][found[:, 0]] = True
                self.moved[1][found[:, 1]] = True
            goes_on = self.trees[0].kind[found[:, 0]] == OPERATOR
            a, b = found[goes_on, 0], found[goes_on, 1]

    def _level(self, a: Ints, b: Ints) -> Ints:
        """Match what lies directly below pairs of nodes; return the pairs found."""
        kinds = np.arange(3)
        buckets = (a[:, None] * 3 + kinds).ravel(), (b[:, None] * 3 + kinds).ravel()
        counts = [one.count[bucket] for one, bucket in zip(self.listed, buckets, strict=True)]
        there = (counts[0] > 0) & (counts[1] > 0)
        first = [one.first[bucket][there] for one, bucket in zip(self.listed, buckets, strict=True)]
        sizes = [count[there] for count in counts]
        even = np.flatnonzero(sizes[0] == sizes[1])
        nodes = [
            one.nodes[_ranges(begin[even], sizes[0][even])]
            for one, begin in zip(self.listed, first, strict=True)
        ]
        group = np.repeat(even, sizes[0][even])
        differs = self.trees[0].name[nodes[0]] != self.trees[1].name[nodes[1]]
        # Below calls that were paired by their edges, or as moved, some may have a partner already.
        for k in (0, 1):
            differs |= self.partner[k][nodes[k]] >= 0
        uneven = sizes[0] != sizes[1]
        uneven[group[differs]] = True
        direct = ~uneven[group]
        pairs = ([nodes[0][direct]], [nodes[1][direct]])
        replaced: tuple[list[Ints], list[Ints]] = ([], [])
        for place in np.flatnonzero(uneven).tolist():
            mine, theirs = (
                one.nodes[begin[place] : begin[place] + size[place]]
                for one, begin, size in zip(self.listed, first, sizes, strict=True)
            )
            self._sequence(mine, theirs, pairs, replaced)
        found = np.stack([np.concatenate(side) for side in pairs], axis=1)
        self._join(found)
        self._keep(found)
        if replaced[0]:
            self._join(np.stack([np.concatenate(side) for side in replaced], axis=1))
        return found

    def _sequence(
        self,
        mine: Ints,
        theirs: Ints,
        pairs: tuple[list[Ints], list[Ints]],
        replaced: tuple[list[Ints], list[Ints]],
    ) -> None:
        """Lay two sequences of siblings upon each other; add what belongs together."""
        mine, theirs = mine[self.partner[0][mine] < 0], theirs[self.partner[1][theirs] < 0]
        if not len(mine) or not len(theirs):
            return
        places = self._places(mine, theirs)
        in_mine, in_theirs = places[:, 0], places[:, 1]
        pairs[0].append(mine[in_mine])
        pairs[1].append(theirs[in_theirs])
        both = min(len(mine), len(theirs)) - len(places)
        one = mine[0]
        if not both or self.trees[0].kind[one] != WORK or self.trees[0].parent[one] < 0:
            return
        left = []
        for k, (every, at) in enumerate(((mine, in_mine), (theirs, in_theirs))):
            alone = np.ones(len(every), dtype=bool)
            alone[at] = False
            left.append(every[alone])
            self.replaced[k][left[k]] = True
        replaced[0].append(left[0][:both])
        replaced[1].append(left[1][:both])

    def _places(self, mine: Ints, theirs: Ints) -> Ints:
        """Return places of what belongs together of two sequences, (pairs, 2)."""
        one, other = self.trees
        hashes = self.hashes[0][mine], self.hashes[1][theirs]
        full = one.full_name[mine], other.full_name[theirs]
        # A hash tells the name, too.
        key = tuple(values.tobytes() for values in (*hashes, *full))
        if key not in self.known:
            self.known[key] = aligned_places(one.name[mine], other.name[theirs], *hashes, *full)
        return self.known[key]

    def _join(self, found: Ints) -> None:
        self.partner[0][found[:, 0]] = found[:, 1]
        self.partner[1][found[:, 1]] = found[:, 0]

    def _keep(self, found: Ints) -> None:
        """Take back that work was replaced which now has its own partner."""
        for k in (0, 1):
            self.replaced[k][found[:, k]] = False

    def _edges(self) -> None:
        """Pair calls at the edge of an operator, which times put inside on one side alone.

        Times are written with few digits, so that of two calls that touch it is chance which one
        encloses the other, and with it whose call a third is.
        """
        for _ in range(_ROUNDS):
            ways = np.concatenate([self._touching(0)[:, ::-1], self._touching(1)])
            if not len(ways):
                return
            # Where both ways found something for one call, that stays which comes first on both
            # sides: pairs that share a call cannot come equally early.
            early = sum(tree.order[ways[:, k]] for k, tree in enumerate(self.trees))
            taken: tuple[set[int], set[int]] = (set(), set())
            kept = []
            for a, b in ways[np.argsort(early, kind="stable")].tolist():
                if a not in taken[0] and b not in taken[1]:
                    taken[0].add(a)
                    taken[1].add(b)
                    kept.append((a, b))
            pairs = np.array(kept, dtype=np.int64)
            self._join(pairs)
            self._keep(pairs)
            goes_on = self.trees[0].kind[pairs[:, 0]] == OPERATOR
            self._down(pairs[goes_on, 0], pairs[goes_on, 1], moved=False)

    def _touching(self, side: int) -> Ints:
        """Return calls of the other side and of this one, of which only this one has a parent.

        Its parent has a partner; the call of the other side lies within that one's times, or so
        little beyond that digits may be to blame.
        """
        tree, other = self.trees[side], self.trees[1 - side]
        partner = self.partner[side]
        inner = np.flatnonzero((partner < 0) & (tree.parent >= 0))
        inner = inner[partner[tree.parent[inner]] >= 0]
        loose = np.flatnonzero(self.partner[1 - side] < 0)
        if not len(inner) or not len(loose):
            return np.empty((0, 2), dtype=np.int64)
        above = partner[tree.parent[inner]]
        low, high = other.begin_ns[above] - _TOUCH_NS, other.end_ns[above] + _TOUCH_NS
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

    def _frames(self) -> None:
        """Pair what Python functions without a partner call as if their callers had called it.

        Another version of a library has a function more between two that both have.
        """
        for _ in range(_ROUNDS):
            alone = [
                tree.frame & (mine < 0) for tree, mine in zip(self.trees, self.partner, strict=True)
            ]
            if not any(one.any() for one in alone):
                return
            lists = [self._lifted(k, alone[k]) for k in (0, 1)]
            pairs = [
                self._nested(lists[0][key], lists[1][key])
                for key in lists[0].keys() & lists[1].keys()
            ]
            found = np.array([pair for some in pairs for pair in some], dtype=np.int64).reshape(
                -1, 2
            )
            if not len(found):
                return
            self._join(found)
            self._keep(found)
            goes_on = self.trees[0].kind[found[:, 0]] == OPERATOR
            # What these call is listed, too, and has its partner where both call it.
            self._down(found[goes_on, 0], found[goes_on, 1], moved=False)

    def _lifted(self, side: int, alone: npt.NDArray[np.bool_]) -> dict[tuple[int, int], Ints]:
        """Return nodes without a partner by class and by the nearest caller that has one, in order.

        Callers are named by the node of the first side; outermost nodes by their root. Only those
        with nothing but Python functions without a partner in between.
        """
        tree = self.trees[side]
        nodes = np.flatnonzero(self.partner[side] < 0)
        up = nearest(tree.parent, ~alone)[tree.parent[nodes]]
        top = nearest(tree.parent, tree.parent < 0)[nodes]
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

    def _nested(self, mine: Ints, theirs: Ints) -> list[tuple[int, int]]:
        """Pair two lists of nodes, callers before what they call, such that callers pair, too."""
        taken: tuple[dict[int, int], dict[int, int]] = ({}, {})
        for i, j in self._places(mine, theirs).tolist():
            a, b = int(mine[i]), int(theirs[j])
            if taken[0].get(self._caller(0, a, taken[0]), -1) == self._caller(1, b, taken[1]):
                taken[0][a], taken[1][b] = b, a
        return list(taken[0].items())

    def _caller(self, side: int, node: int, taken: dict[int, int]) -> int:
        """Return the nearest caller that is paired by now, -1 for one outside of the list."""
        above = int(self.trees[side].parent[node])
        while above >= 0 and above not in taken and self.partner[side][above] < 0:
            above = int(self.trees[side].parent[above])
        return above if above in taken else -1

    def _moves(self) -> None:
        """Pair operators that are left over on both sides of a step.

        First those alike in all below them, then those of one name of which both sides have as
        many.
        """
        for by_content in (True, False):
            keys = []
            for k, tree in enumerate(self.trees):
                alone = self.partner[k] < 0
                outermost = alone & (tree.kind == OPERATOR)
                outermost &= (tree.parent < 0) | ~alone[tree.parent]
                # A lone call such as aten::empty has no identity of its own.
                outermost &= tree.forest.sums((tree.kind != CALL).astype(np.int64)) > 1
                nodes = np.flatnonzero(outermost)
                nodes = nodes[np.argsort(tree.order[nodes], kind="stable")]
                told = self.hashes[k][nodes] if by_content else tree.name[nodes].astype(np.uint64)
                keys.append((nodes, mixed(told + mixed(tree.slot[nodes].astype(np.uint64)))))
            (a, told_a), (b, told_b) = keys
            if not len(a) or not len(b):
                return
            places = _namesakes(told_a, told_b, as_many=not by_content)
            found = np.stack([a[places[:, 0]], b[places[:, 1]]], axis=1)
            self._join(found)
            self.moved[0][found[:, 0]] = True
            self.moved[1][found[:, 1]] = True
            self._down(found[:, 0], found[:, 1], moved=True)


class _Listed:
    """Children of each node, and of the roots behind them, by class and in order."""

    def __init__(self, tree: RankTree, root: Ints) -> None:
        count = len(tree)
        above = np.where(tree.parent >= 0, tree.parent, count + root)
        key = above * 3 + tree.kind
        self.nodes = np.lexsort((tree.order, key))
        buckets = (count + int(root.max(initial=-1)) + 1) * 3
        self.count = np.bincount(key, minlength=buckets)
        self.first = np.cumsum(self.count) - self.count


def _roots(trees: tuple[RankTree, RankTree]) -> tuple[Ints, Ints]:
    """Return for each outermost node the number of its step and track, which both sides share."""
    lanes = _lanes(trees)
    size = max((int(lane.max(initial=-1)) for lane in lanes), default=-1) + 1
    found = []
    slots = max(tree.outside for tree in trees) + 1
    for tree, lane in zip(trees, lanes, strict=True):
        root = np.where(tree.parent < 0, tree.slot * size + lane[tree.lane], 0)
        # The last one is there on both sides, so that both have as many.
        found.append(np.append(root, slots * size))
    return found[0][:-1], found[1][:-1]


def _lanes(trees: tuple[RankTree, RankTree]) -> tuple[Ints, Ints]:
    """Return numbers of tracks: those that run the same have the same on both sides."""
    profiles: list[dict[int, dict[tuple[int, int], int]]] = []
    for tree in trees:
        outermost = np.flatnonzero(tree.parent < 0)
        keys = np.stack([tree.lane, tree.name, tree.kind == WORK], axis=1)[outermost]
        distinct, counts = np.unique(keys, axis=0, return_counts=True)
        profile: dict[int, dict[tuple[int, int], int]] = {}
        for (lane, name, work), count in zip(distinct.tolist(), counts.tolist(), strict=True):
            profile.setdefault(lane, {})[name, work] = count
        profiles.append(profile)
    alike = [
        (sum(min(count, theirs.get(key, 0)) for key, count in mine.items()), -a - b, a, b)
        for a, mine in profiles[0].items()
        for b, theirs in profiles[1].items()
    ]
    number = [np.full(len(tree.part.table.tracks) + 1, -1, dtype=np.int64) for tree in trees]
    following = 0
    # Of those that run as much of the same the first on both sides, whichever side is which.
    for score, _, a, b in sorted(alike, reverse=True):
        if score > 0 and number[0][a] < 0 and number[1][b] < 0:
            number[0][a] = number[1][b] = following
            following += 1
    for k, profile in enumerate(profiles):
        for lane in profile:
            if number[k][lane] < 0:
                number[k][lane] = following
                following += 1
    return number[0], number[1]


def _namesakes(a: Hashes, b: Hashes, *, as_many: bool) -> Ints:
    """Return places of the n-th of a key and the n-th, (pairs, 2)."""
    keys, codes = np.unique(np.concatenate([a, b]), return_inverse=True)
    mine, theirs = codes[: len(a)].astype(np.int64), codes[len(a) :].astype(np.int64)
    if as_many:
        counts = [np.bincount(one, minlength=len(keys)) for one in (mine, theirs)]
        alike = counts[0] == counts[1]
        kept = np.flatnonzero(alike[mine]), np.flatnonzero(alike[theirs])
    else:
        kept = np.arange(len(a)), np.arange(len(b))
    places = numbered(mine[kept[0]]), numbered(theirs[kept[1]])
    _, in_a, in_b = np.intersect1d(*places, assume_unique=True, return_indices=True)
    return np.stack([kept[0][in_a], kept[1][in_b]], axis=1)


def numbered(codes: Ints) -> Ints:
    """Return codes that also count how often each was there before."""
    order = np.argsort(codes, kind="stable")
    first = np.flatnonzero(np.diff(codes[order], prepend=-1)) if len(codes) else order
    sizes = np.diff(np.append(first, len(codes)))
    number = np.empty(len(codes), dtype=np.int64)
    number[order] = np.arange(len(codes)) - np.repeat(first, sizes)
    return (codes << 32) | number


def _ranges(first: Ints, count: Ints) -> Ints:
    """Return all places of runs, given where they begin and how long they are."""
    within = np.arange(int(count.sum())) - np.repeat(np.cumsum(count) - count, count)
    return np.repeat(first, count) + within
