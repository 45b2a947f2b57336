"""The interval algebra, compared with sets of instants."""

import numpy as np
from hypothesis import given, strategies as st

from hta_widgets.trace.arrays import match_brackets
from hta_widgets.trace.intervals import (
    CumulativeCoverage,
    Intervals,
    clip,
    covered_by_group,
    intersect,
    subtract,
    total_length,
    union,
    union_by_group,
)

PIECES = st.lists(st.tuples(st.integers(-20, 40), st.integers(0, 12)), max_size=25)


def made(pieces):
    start = np.array([start for start, _ in pieces], np.int64)
    return union(start, start + np.array([length for _, length in pieces], np.int64))


def instants(pieces):
    return {t for start, length in pieces for t in range(start, start + length)}


def members(found):
    """Return the instants in a set of intervals; check that it is in canonical form."""
    assert (found.end > found.start).all()
    assert (found.start[1:] > found.end[:-1]).all()
    return {
        t
        for a, b in zip(found.start.tolist(), found.end.tolist(), strict=True)
        for t in range(a, b)
    }


@given(PIECES, PIECES)
def test_algebra(a, b):
    left, right = made(a), made(b)
    assert members(left) == instants(a)
    assert members(intersect(left, right)) == instants(a) & instants(b)
    assert members(subtract(left, right)) == instants(a) - instants(b)
    assert total_length(left) == len(instants(a))


@given(PIECES, st.integers(-25, 60), st.integers(-25, 60))
def test_clip(pieces, low, high):
    window = set(range(low, high))
    assert members(clip(made(pieces), low, high)) == instants(pieces) & window
    assert members(clip(made(pieces), None, high)) == {t for t in instants(pieces) if t < high}
    assert members(clip(made(pieces), low, None)) == {t for t in instants(pieces) if t >= low}


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(-20, 40), st.integers(0, 9)), max_size=20))
def test_union_and_covered_time_of_each_group(rows):
    group, start, length = np.array(rows, np.int64).reshape(-1, 3).T
    pieces = union_by_group(group, start, start + length, 4)
    expected = [instants((low, size) for of, low, size in rows if of == key) for key in range(4)]
    for key in range(4):
        _, piece_start, piece_end = (column[pieces[0] == key] for column in pieces)
        assert members(Intervals(piece_start, piece_end)) == expected[key]
    covered = covered_by_group(group, start, start + length, 4)
    assert covered.tolist() == [len(times) for times in expected]


@given(PIECES, st.lists(st.integers(-25, 60), max_size=20))
def test_covered_time_before_any_instant(pieces, times):
    result = made(pieces)
    covered = CumulativeCoverage(result.start, result.end)(np.array(times, np.int64))
    assert covered.tolist() == [sum(t < time for t in instants(pieces)) for time in times]


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 6)), max_size=20))
def test_covered_takes_events_of_a_lane_as_they_are(gaps_and_lengths):
    at, start, end = 0, [], []
    for gap, length in gaps_and_lengths:  # including touching and empty ones
        start.append(at + gap)
        at += gap + length
        end.append(at)
    covered = CumulativeCoverage(np.array(start, np.int64), np.array(end, np.int64))
    busy = instants(list(zip(start, [b - a for a, b in zip(start, end, strict=True)], strict=True)))
    for time in range(-1, at + 2):
        assert int(covered(time)) == sum(t < time for t in busy)


@given(
    st.lists(
        st.tuples(st.integers(0, 2), st.integers(0, 8), st.booleans()), min_size=1, max_size=40
    )
)
def test_brackets_pair_as_a_stack_of_each_group(records):
    group, time, opens = (np.array(column) for column in zip(*records, strict=True))
    begins, ends, alone = match_brackets(group, time.astype(np.int64), opens)
    stacks, expected, lost = {}, {}, set()
    for row in np.lexsort((np.arange(len(records)), time)).tolist():
        stack = stacks.setdefault(group[row], [])
        if opens[row]:
            stack.append(row)
        elif stack:
            expected[stack.pop()] = row
        else:
            lost.add(row)
    lost.update(row for stack in stacks.values() for row in stack)
    assert dict(zip(begins.tolist(), ends.tolist(), strict=True)) == expected
    assert set(alone.tolist()) == lost
