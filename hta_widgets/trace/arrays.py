"""NumPy array types, and helpers for ordering, grouping and positions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

Array = npt.NDArray[Any]
Bools = npt.NDArray[np.bool_]
Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

#: Codes of kinds and other small tables.
Codes = npt.NDArray[np.uint8]

#: Positions in a table.
Rows = npt.NDArray[np.intp]


def fit_int32(*values: int) -> bool:
    """Return whether all of `values` fit in signed 32-bit integers."""
    return all(-(1 << 31) <= value < 1 << 31 for value in values)


def narrow(values: Array) -> Array:
    """Return integers as int32 if all of them fit."""
    fits = values.dtype != np.int32 and fit_int32(values.min(initial=0), values.max(initial=0))
    return values.astype(np.int32) if fits else values


@dataclass(frozen=True, slots=True)
class GroupStatistics:
    """Statistics of each group's values; `std` has ddof 1 and is 0 for a single value."""

    count: Ints
    sum: Ints
    min: Ints
    max: Ints
    std: Floats


def group_statistics(code: Array, groups: int, values: Ints) -> GroupStatistics:
    """Return statistics of the values by group ``0 .. groups-1``; no group may be empty."""
    if not groups:
        none = np.empty(0, dtype=np.int64)
        return GroupStatistics(none, none, none, none, np.empty(0))
    values = values[group_order(code, groups)]
    count = np.bincount(code, minlength=groups)
    first = np.cumsum(count) - count  # position of each group's first value
    total = np.add.reduceat(values, first)
    # Two passes are used, because rounding in sums of squares would hide small deviations of large
    # values.
    deviations = values - np.repeat(total / count, count)
    return GroupStatistics(
        count,
        total,
        np.minimum.reduceat(values, first),
        np.maximum.reduceat(values, first),
        np.sqrt(np.add.reduceat(deviations * deviations, first) / np.maximum(count - 1, 1)),
    )


def sum_by_group(group: Array, values: Array, groups: int) -> Ints:
    """Return the exact sum of integers in each group."""
    sums = np.zeros(groups, dtype=np.int64)
    np.add.at(sums, group, values)
    return sums


def edges_by_group(group: Ints, start: Ints, end: Ints) -> tuple[Ints, Ints, Ints]:
    """Return the groups that occur, in ascending order, with their first start and last end."""
    groups, code = np.unique(group, return_inverse=True)
    first = np.full(len(groups), np.iinfo(np.int64).max)
    last = np.full(len(groups), np.iinfo(np.int64).min)
    np.minimum.at(first, code, start)
    np.maximum.at(last, code, end)
    return groups.astype(np.int64), first, last


def group_by_columns(columns: Sequence[Array]) -> tuple[Rows, Rows]:
    """Group rows with equal values in integer columns.

    Returns the first row of each group, in ascending order, and the group of each row. The product
    of the columns' ranges must fit in int64.
    """
    key = np.zeros(len(columns[0]), dtype=np.int64)
    if not len(key):
        return key, key
    # The values of a row are digits of its key; the base of each digit is the range of its column.
    for column in columns:
        values = column.astype(np.int64)
        low = int(values.min())
        key = key * (int(values.max()) - low + 1) + values - low
    _, first, sorted_group = np.unique(key, return_index=True, return_inverse=True)
    order = np.argsort(first)
    return first[order], np.argsort(order)[sorted_group]


def occurring_codes(codes: Array) -> Ints:
    """Return the codes that occur, in ascending order."""
    return np.flatnonzero(mask_of_rows(codes, int(codes.max(initial=-1)) + 1))


def distinct_codes(codes: Array) -> tuple[Ints, Ints]:
    """Return the codes that occur, in ascending order, and each code's position among them.

    Unlike `numpy.unique`, this sorts the codes only if they are too large for a lookup table.
    """
    size = int(codes.max(initial=-1)) + 1
    if size > 1 << 24:
        return np.unique(codes, return_inverse=True)
    occurs = mask_of_rows(codes, size)
    return np.flatnonzero(occurs), (np.cumsum(occurs) - 1)[codes]


def number_in_group(group: Ints) -> Ints:
    """Return, for each entry, the number of earlier entries of the same group."""
    return np.asarray(pd.Series(group).groupby(group).cumcount(), np.int64)


def stable_order(key: Ints) -> Rows:
    """Return the stable order of non-negative keys."""
    # Key and position are packed into one integer if they fit. Sorting values is several times
    # faster than sorting positions, and including the position makes the order stable.
    count = len(key)
    if count < 2:
        return np.arange(count)
    position_bits = int(count - 1).bit_length()
    if int(key.max()).bit_length() + position_bits > 63:
        return np.argsort(key, kind="stable")
    packed = key << position_bits
    packed |= np.arange(count)
    packed.sort()
    packed &= (1 << position_bits) - 1
    return packed


def event_order(start: Ints, dur: Ints) -> Rows:
    """Return the order by start, then longest first, then position; starts are not negative."""
    order = stable_order(start)
    sorted_start, sorted_dur = start[order], dur[order]
    has_same_start = sorted_start[1:] == sorted_start[:-1]
    wrong = np.flatnonzero(has_same_start & (sorted_dur[1:] > sorted_dur[:-1]))
    if not len(wrong):
        return order
    # Only groups of equal starts in which a longer event follows a shorter one are reordered.
    group = np.concatenate(([0], np.cumsum(~has_same_start)))
    unsorted = np.flatnonzero(mask_of_rows(group[wrong], int(group[-1]) + 1)[group])
    by_length = np.lexsort((-sorted_dur[unsorted], sorted_start[unsorted]))
    order[unsorted] = order[unsorted][by_length]
    return order


def group_order(group: Array, groups: int) -> Rows:
    """Return the stable order by small group numbers ``0 .. groups-1``."""
    if groups <= 1:
        return np.arange(len(group))
    # For 8 and 16 bits, numpy's stable sort is a radix sort, which is faster.
    if groups <= 1 << 16:
        group = group.astype(np.uint8 if groups <= 1 << 8 else np.uint16)
    return np.argsort(group, kind="stable")


def order_and_bounds(group: Array, groups: int) -> tuple[Rows, Ints]:
    """Return the stable order by group, and the bounds of each group in it."""
    sizes = np.bincount(group, minlength=groups)
    return group_order(group, groups), np.concatenate(([0], np.cumsum(sizes)))


def mask_of_rows(rows: Array | list[int], size: int) -> Bools:
    """Return a mask of `size` entries that is True at `rows`."""
    mask = np.zeros(size, dtype=bool)
    mask[rows] = True
    return mask


def positions_of_rows(rows: Array, size: int) -> Ints:
    """Return the position in `rows` of each number below `size`; -1 if it is missing.

    The result has an additional last entry, -1, so that index -1 selects -1.
    """
    positions = np.full(size + 1, -1, dtype=np.int64)
    positions[rows] = np.arange(len(rows))
    return positions


def last_true_positions(mask: Bools) -> Ints:
    """Return, for each position, the last True position up to it; -1 before the first."""
    return np.maximum.accumulate(np.where(mask, np.arange(len(mask)), -1))


def positions_in(keys: Array, values: Array) -> Ints:
    """Return the first position of each value in ascending keys; -1 for missing values."""
    positions = np.searchsorted(keys, values)
    is_key = positions < len(keys)
    is_key[is_key] = keys[positions[is_key]] == values[is_key]
    return np.where(is_key, positions, -1)


def first_positions(keys: Array, values: Array) -> Ints:
    """Return the first position of each value in unordered keys; -1 for missing values."""
    order = np.argsort(keys, kind="stable")
    return np.append(order, -1)[positions_in(keys[order], values)]


def sorted_unique(values: Ints) -> Ints:
    """Return the distinct values in ascending order. Here, sorting beats numpy's hashing."""
    ordered = np.sort(values)
    first = np.ones(len(ordered), dtype=bool)
    first[1:] = ordered[1:] != ordered[:-1]
    return ordered[first]


def positions_by_code(codes: Ints, count: int) -> list[Ints]:
    """Return the positions of each of the codes ``0 .. count-1``, in ascending order."""
    if not count:
        return []
    order, bounds = order_and_bounds(codes, count)
    return np.split(order, bounds[1:-1])


def concatenate_ranges(first: Ints, count: Ints) -> Ints:
    """Return concatenated integer ranges, given the first number and the length of each."""
    within = np.arange(int(count.sum())) - np.repeat(np.cumsum(count) - count, count)
    return np.repeat(first, count) + within


def match_brackets(group: Array, time: Ints, opens: Bools) -> tuple[Rows, Rows, Rows]:
    """Pair each closing record with the latest open record of its group, like brackets.

    Returns the rows of the opening and closing records of the pairs, and the rows without a
    partner. Groups are numbered from 0.

    Examples
    --------
    The records ``( ( ) ) )`` have the levels 1, 2, 2, 1, 0:

    >>> opens = np.array([True, True, False, False, False])
    >>> match_brackets(np.zeros(5, int), np.arange(5), opens)
    (array([0, 1]), array([3, 2]), array([4]))
    """
    order = np.lexsort((time, group))
    is_open, group = opens[order], group[order]
    open_count = np.cumsum(np.where(is_open, 1, -1))
    level = np.where(is_open, open_count, open_count + 1)
    first_of_group = np.searchsorted(group, group)
    level -= np.concatenate(([0], open_count))[first_of_group]
    # At each level of a group, opening and closing brackets alternate.
    by_level = np.lexsort((level, group))
    order, level = order[by_level], level[by_level]
    group, is_open = group[by_level], is_open[by_level]
    has_same_level = (level[1:] == level[:-1]) & (group[1:] == group[:-1])
    pairs = np.flatnonzero(has_same_level & is_open[:-1] & ~is_open[1:])
    begins, ends = order[pairs], order[pairs + 1]
    is_alone = np.ones(len(order), dtype=bool)
    is_alone[begins] = is_alone[ends] = False
    return begins, ends, np.flatnonzero(is_alone)
