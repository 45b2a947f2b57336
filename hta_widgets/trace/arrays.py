"""Types of numpy arrays; stable order, codes and sums by group."""

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
    """Return whether all of `values` fit 32 bits with a sign."""
    return all(-(1 << 31) <= value < 1 << 31 for value in values)


@dataclass(frozen=True, slots=True)
class GroupStatistics:
    """Statistics of the values of each group; `std` is that of a sample, 0 for one value."""

    count: Ints
    sum: Ints
    min: Ints
    max: Ints
    std: Floats


def group_statistics(code: Array, groups: int, values: Ints) -> GroupStatistics:
    """Return statistics of the values by group ``0 .. groups-1``; no group is empty."""
    if not groups:
        none = np.empty(0, dtype=np.int64)
        return GroupStatistics(none, none, none, none, np.empty(0))
    values = values[group_order(code, groups)]
    count = np.bincount(code, minlength=groups)
    first = np.cumsum(count) - count
    total = np.add.reduceat(values, first)
    # Two passes: in sums of squares, rounding would hide small deviations of large values.
    deviations = values - np.repeat(total / count, count)
    return GroupStatistics(
        count,
        total,
        np.minimum.reduceat(values, first),
        np.maximum.reduceat(values, first),
        np.sqrt(np.add.reduceat(deviations * deviations, first) / np.maximum(count - 1, 1)),
    )


def sum_by_group(group: Array, values: Array, groups: int) -> Ints:
    """Return the sum of whole numbers in each group, exactly."""
    sums = np.zeros(groups, dtype=np.int64)
    np.add.at(sums, group, values)
    return sums


def group_by_columns(columns: Sequence[Array]) -> tuple[Rows, Rows]:
    """Return the place of each distinct row of columns of whole numbers, and the group of each row.

    Groups are in the order of their first rows. The columns' ranges together must fit into int64.
    """
    key = np.zeros(len(columns[0]), dtype=np.int64)
    for column in columns if len(key) else ():
        values = column.astype(np.int64)
        low = int(values.min())
        key = key * (int(values.max()) - low + 1) + values - low
    _, first, group = np.unique(key, return_index=True, return_inverse=True)
    order = np.argsort(first)
    number = np.empty(len(order), dtype=np.intp)
    number[order] = np.arange(len(order))
    return first[order], number[group]


def occurring_codes(codes: Array) -> Ints:
    """Return the codes that occur, ascending, as `distinct_codes` does."""
    occurs = np.zeros(int(codes.max(initial=-1)) + 1, dtype=bool)
    occurs[codes] = True
    return np.flatnonzero(occurs)


def distinct_codes(codes: Array) -> tuple[Ints, Ints]:
    """Return the codes that occur, ascending, and the place of each code among them.

    Unlike `numpy.unique`, it neither sorts nor hashes, but takes memory up to the highest code.
    """
    occurs = np.zeros(int(codes.max(initial=-1)) + 1, dtype=bool)
    occurs[codes] = True
    return np.flatnonzero(occurs), (np.cumsum(occurs) - 1)[codes]


def number_in_group(group: Ints) -> Ints:
    """Return the number of earlier entries of the same group for each entry."""
    return np.asarray(pd.Series(group).groupby(group).cumcount(), np.int64)


def stable_order(key: Ints) -> Rows:
    """Return the stable order of non-negative keys."""
    # Key and position are packed into one integer if they fit: sorting values is several times
    # faster than sorting positions, and the position makes the order stable.
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
    """Return the order by start, longest first, then position; starts must not be negative."""
    order = stable_order(start)
    sorted_start, sorted_dur = start[order], dur[order]
    tied = sorted_start[1:] == sorted_start[:-1]
    wrong = np.flatnonzero(tied & (sorted_dur[1:] > sorted_dur[:-1]))
    if not len(wrong):
        return order
    # Reorder only the groups of equal starts in which a longer event follows a shorter one.
    group = np.concatenate(([0], np.cumsum(~tied)))
    rows = np.flatnonzero(mask_of_rows(group[wrong], int(group[-1]) + 1)[group])
    order[rows] = order[rows][np.lexsort((-sorted_dur[rows], sorted_start[rows]))]
    return order


def group_order(group: Array, groups: int) -> Rows:
    """Return the stable order by small group numbers ``0 .. groups-1``."""
    if groups <= 1:
        return np.arange(len(group))
    small = np.uint8 if groups <= 1 << 8 else np.uint16 if groups <= 1 << 16 else None
    # For 8 and 16 bits, numpy's stable sort is a radix sort, which is faster.
    return np.argsort(group.astype(small) if small else group, kind="stable")


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
    """Return the position in `rows` of each number below `size`, or -1; the entry at -1 is -1."""
    positions = np.full(size + 1, -1, dtype=np.int64)
    positions[rows] = np.arange(len(rows))
    return positions


def positions_in(keys: Array, values: Array) -> Ints:
    """Return the first position of each value in ascending keys, -1 for absent values."""
    positions = np.searchsorted(keys, values)
    is_key = positions < len(keys)
    is_key[is_key] = keys[positions[is_key]] == values[is_key]
    return np.where(is_key, positions, -1)


def first_positions(keys: Array, values: Array) -> Ints:
    """Return the first position of each value in keys of any order, -1 for absent values."""
    order = np.argsort(keys, kind="stable")
    return np.append(order, -1)[positions_in(keys[order], values)]


def sorted_unique(values: Ints) -> Ints:
    """Return the distinct values, ascending, by sorting, which is faster here than hashing."""
    ordered = np.sort(values)
    first = np.ones(len(ordered), dtype=bool)
    first[1:] = ordered[1:] != ordered[:-1]
    return ordered[first]


def compact_codes(codes: Ints, size: int) -> tuple[npt.NDArray[np.int32], Ints]:
    """Return new codes without gaps, and the old code of each; old codes are below `size`."""
    if size > 1 << 24:
        unique, inverse = np.unique(codes, return_inverse=True)
        return inverse.astype(np.int32), unique
    unique = np.flatnonzero(mask_of_rows(codes, size))
    lookup = np.zeros(size, dtype=np.int32)
    lookup[unique] = np.arange(len(unique), dtype=np.int32)
    return lookup[codes], unique


def concatenate_ranges(first: Ints, count: Ints) -> Ints:
    """Return the concatenated ranges of integers with these first numbers and lengths."""
    within = np.arange(int(count.sum())) - np.repeat(np.cumsum(count) - count, count)
    return np.repeat(first, count) + within


def match_brackets(group: Array, time: Ints, opens: Bools) -> tuple[Rows, Rows, Rows]:
    """Pair each closing record with the latest open one of its group."""
    count = len(group)
    order = np.lexsort((time, group))
    opening = opens[order]
    balance = np.cumsum(np.where(opening, 1, -1))
    new_group = np.diff(group[order], prepend=-1) != 0
    before = np.concatenate(([0], balance[:-1]))
    base = np.maximum.accumulate(np.where(new_group, np.arange(count), 0)) if count else order
    level = np.where(opening, balance, balance + 1) - before[base]
    # At each level of a group, opening and closing brackets alternate.
    by_level = np.lexsort((np.arange(count), level, group[order]))
    sorted_level, sorted_group = level[by_level], group[order][by_level]
    sorted_open = opening[by_level]
    pair = (
        (sorted_level[1:] == sorted_level[:-1])
        & (sorted_group[1:] == sorted_group[:-1])
        & sorted_open[:-1]
        & ~sorted_open[1:]
    )
    positions = np.flatnonzero(pair)
    begins, ends = order[by_level[positions]], order[by_level[positions + 1]]
    alone = np.ones(count, dtype=bool)
    alone[begins] = alone[ends] = False
    return begins, ends, np.flatnonzero(alone)
