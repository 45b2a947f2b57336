"""Aligns two sequences of names with each other.

Only elements with equal names are paired, in order. Each element also has a hash of its subtree, so
that among elements with the same name, those with equal subtrees are paired:

>>> names = np.array([1, 2, 2, 3]), np.array([1, 2, 3])
>>> contents = np.array([10, 20, 21, 30], "u8"), np.array([10, 21, 30], "u8")
>>> align_positions(*names, *contents).tolist()
[[0, 0], [2, 1], [3, 2]]

The second ``2`` of the first sequence pairs with the ``2`` of the other, because both contain 21.
For short sequences, the alignment with the highest score is used (Needleman and Wunsch). Long
sequences are first split at landmarks, which are elements or runs of elements that occur once on
each side.
"""

from __future__ import annotations

import bisect

import numpy as np
import numpy.typing as npt

from hta_widgets.trace.arrays import Ints, concatenate_ranges, number_in_group

Hashes = npt.NDArray[np.uint64]

_RUNS = (1, 4, 16, 64)
_FACTOR = np.uint64(0x9E3779B97F4A7C15)
_MAX_CELLS = 4_000_000  # maximum size of the table for one exact alignment
#: Scores of a pair with equal names and subtrees, and of a pair with only equal names; and the
#: penalty for different full names, whose sum over a whole table is less than either score.
_SAME, _NAMESAKE, _OTHER_FULL = 3 << 13, 2 << 13, 1


def align_positions(
    a: Ints,
    b: Ints,
    a_hash: Hashes,
    b_hash: Hashes,
    a_full: Ints | None = None,
    b_full: Ints | None = None,
) -> Ints:
    """Align two sequences; return positions of pairs, (pairs, 2), ascending on both sides.

    The full names default to the names. If they differ, the score of a pair is slightly lower.
    """
    # The result does not depend on which side is `a`.
    if (len(b), b_hash.tobytes()) < (len(a), a_hash.tobytes()):
        return align_positions(b, a, b_hash, a_hash, b_full, a_full)[:, ::-1]
    # Rows are names, hashes and full names.
    a_columns, b_columns = (
        np.stack([names.astype(np.uint64), hashes, (names if full is None else full).astype("u8")])
        for names, hashes, full in ((a, a_hash, a_full), (b, b_hash, b_full))
    )
    runs: list[tuple[int, int, int]] = []  # positions in a and b, length of the run
    _align(a_columns, b_columns, 0, 0, runs)
    first_a, first_b, length = np.array(runs, dtype=np.int64).reshape(-1, 3).T
    positions = [concatenate_ranges(first, length) for first in (first_a, first_b)]
    pairs = np.stack(positions, axis=1)
    return pairs[np.argsort(pairs[:, 0], kind="stable")]


def _align(a: Hashes, b: Hashes, at_a: int, at_b: int, runs: list[tuple[int, int, int]]) -> None:
    """Align two sequences that begin at `at_a` and `at_b`; add their pairs to `runs`."""
    short = min(a.shape[1], b.shape[1])
    is_small = a.shape[1] * b.shape[1] <= _MAX_CELLS
    # An optimal alignment pairs the equal elements at both ends. Full names matter only to an exact
    # alignment in which some subtrees differ.
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
        pairs = pair_equal_keys(a[0], b[0], as_many=False)
        runs += [(at_a + i, at_b + j, 1) for i, j in _longest_increasing_run(pairs).tolist()]
        return
    from_a = from_b = 0
    for i, j in [*anchors.tolist(), [size_a, size_b]]:
        _align(a[:, from_a:i], b[:, from_b:j], at_a + from_a, at_b + from_b, runs)
        if i < size_a:
            runs.append((at_a + i, at_b + j, 1))
        from_a, from_b = i + 1, j + 1


def _equal_ahead(a: Hashes, b: Hashes) -> int:
    differs = (a != b).any(axis=0)
    return int(differs.argmax()) if differs.any() else len(differs)


def _best_alignment(a: Hashes, b: Hashes) -> list[tuple[int, int]]:
    """Return the pairing with the highest score, using a table of all prefixes."""
    table = _score_table(a, b) if a.shape[1] <= b.shape[1] else _score_table(b, a).T
    pairs = []
    i, j = a.shape[1], b.shape[1]
    while i and j:
        score = table[i, j]
        if score == table[i - 1, j]:
            i -= 1
        elif score == table[i, j - 1]:
            j -= 1
        else:
            pairs.append((i - 1, j - 1))
            i, j = i - 1, j - 1
    return pairs[::-1]


def _score_table(first: Hashes, second: Hashes) -> npt.NDArray[np.int32]:
    """Return the highest score of each pair of prefixes; rows follow the shorter sequence."""
    same_name, same_hash, same_full = (a[:, None] == b for a, b in zip(first, second, strict=True))
    gain = np.where(same_hash, np.int32(_SAME), same_name * np.int32(_NAMESAKE))
    gain -= ((gain > 0) & ~same_full) * np.int32(_OTHER_FULL)
    table = np.zeros((first.shape[1] + 1, second.shape[1] + 1), dtype=np.int32)
    score = np.empty(second.shape[1], dtype=np.int32)
    rows = list(table)
    above = rows[0]
    for scores, a in zip(rows[1:], gain, strict=True):
        # Without a match, the score cannot exceed the row above.
        np.add(above[:-1], a, out=score)
        np.maximum(score, above[1:], out=score)
        np.maximum.accumulate(score, out=scores[1:])
        above = scores
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
    """Return a hash of each run of `length` elements, indexed by its first element's position."""
    runs = values
    width = 1
    with np.errstate(over="ignore"):
        while width < length:
            runs = runs[:-width] * _FACTOR + (runs[width:] ^ (runs[width:] >> np.uint64(29)))
            width *= 2
    return runs


def _anchors(a: Hashes, b: Hashes) -> Ints:
    """Return the positions of values that occur once on each side and in the same order."""
    values_a, at_a, count_a = np.unique(a, return_index=True, return_counts=True)
    values_b, at_b, count_b = np.unique(b, return_index=True, return_counts=True)
    is_once_a, is_once_b = count_a == 1, count_b == 1
    once_a, once_b = values_a[is_once_a], values_b[is_once_b]
    _, in_a, in_b = np.intersect1d(once_a, once_b, assume_unique=True, return_indices=True)
    positions = at_a[is_once_a][in_a], at_b[is_once_b][in_b]
    return _longest_increasing_run(np.stack(positions, axis=1))


def _longest_increasing_run(pairs: Ints) -> Ints:
    """Return the longest series of pairs that ascends on both sides (patience sorting)."""
    pairs = pairs[np.argsort(pairs[:, 0])]
    tops: list[int] = []
    holders: list[int] = []
    before = [-1] * len(pairs)
    for place, value in enumerate(pairs[:, 1].tolist()):
        index = bisect.bisect_left(tops, value)
        before[place] = holders[index - 1] if index else -1
        if index == len(tops):
            tops.append(value)
            holders.append(place)
        else:
            tops[index], holders[index] = value, place
    chain = []
    index = holders[-1] if holders else -1
    while index >= 0:
        chain.append(index)
        index = before[index]
    return pairs[chain[::-1]]


def pair_equal_keys(a: Hashes, b: Hashes, *, as_many: bool) -> Ints:
    """Pair the n-th elements of each key; return their positions, (pairs, 2).

    With `as_many`, keys whose counts differ between the sequences are skipped.
    """
    keys, codes = np.unique(np.concatenate([a, b]), return_inverse=True)
    a_codes, b_codes = codes[: len(a)].astype(np.int64), codes[len(a) :].astype(np.int64)
    rows = np.arange(len(a)), np.arange(len(b))
    if as_many:
        counts = [np.bincount(values, minlength=len(keys)) for values in (a_codes, b_codes)]
        equal = counts[0] == counts[1]
        rows = np.flatnonzero(equal[a_codes]), np.flatnonzero(equal[b_codes])
    # The low 32 bits number the occurrences of a code.
    a_codes, b_codes = a_codes[rows[0]], b_codes[rows[1]]
    a_keys, b_keys = ((codes << 32) | number_in_group(codes) for codes in (a_codes, b_codes))
    _, in_a, in_b = np.intersect1d(a_keys, b_keys, assume_unique=True, return_indices=True)
    return np.stack([rows[0][in_a], rows[1][in_b]], axis=1)
