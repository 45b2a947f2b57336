"""Which elements of two sequences belong together: the best pairing that keeps the order."""

from __future__ import annotations

import bisect

import numpy as np
import numpy.typing as npt

__all__ = ["aligned_places"]

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

    Parameters
    ----------
    a, b : array of int
        Names as codes.
    a_hash, b_hash : array of uint64
        What an element is with all below it.
    a_full, b_full : array of int, optional
        Full names as codes; by default the names.
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
