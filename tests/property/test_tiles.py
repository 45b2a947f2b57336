"""Cells compared with brute force, at random zoom levels of random lanes."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from support.examples import examples

from hta_widgets.tiles.cells import (
    CELLS,
    NO_KIND,
    event_tiles,
    kind_times,
    measure_cells,
    quantize_shares,
)
from hta_widgets.tiles.lanes import index_counter, index_lane

KIND_COUNT = 7

instants = st.one_of(st.integers(0, 60), st.integers(0, 3_000), st.integers(0, 2**41))
durations = st.one_of(st.just(0), st.integers(0, 12), st.integers(0, 2_000), st.integers(0, 2**38))
events = st.lists(
    st.tuples(instants, durations, st.integers(0, KIND_COUNT - 1)), min_size=1, max_size=60
)
# Like a device stream: events in sequence, some touching, some overlapping by a rounding error.
steps = st.lists(
    st.tuples(st.integers(-1, 9), st.integers(0, 40), st.integers(0, 2)), min_size=1, max_size=150
)
levels = st.one_of(st.integers(0, 12), st.integers(0, 45))


@st.composite
def streams(draw):
    chosen, now = [], 0
    for gap, dur, kind in draw(steps):
        start = max(now + gap, chosen[-1][0] if chosen else 0, 0)
        chosen.append((start, dur, kind))
        now = max(now, start + dur)
    return chosen


any_lane = st.one_of(events, streams())


def ordered(lane):
    return sorted(lane, key=lambda event: (event[0], -event[1]))


def index(lane):
    starts, durs, kinds = np.array(ordered(lane), np.int64).reshape(-1, 3).T.copy()
    return index_lane(starts, durs, kinds.astype(np.uint8), np.arange(len(lane)))


def overlaps(event, a, b):
    start, dur, _ = event
    return start < b and start + dur > a if dur else a <= start < b


def covered(lane, a, b):
    total, reached = 0, a
    for start, dur, _ in sorted(lane):
        low, high = max(start, reached), min(start + dur, b)
        if high > low:
            total += high - low
            reached = high
    return total


def check(found, position, lane, a, b):
    inside = [event for event in ordered(lane) if overlaps(event, a, b)]
    assert found.covered[position] == covered(inside, a, b)
    assert found.count[position] == len(inside)
    assert found.mask[position] == sum({1 << kind for _, _, kind in inside})
    times = {k: covered([e for e in inside if e[2] == k], a, b) for _, _, k in inside}
    if not inside:
        assert found.kind[position] == NO_KIND
    elif max(times.values()):
        assert found.kind[position] == min(k for k in times if times[k] == max(times.values()))
    else:
        assert found.kind[position] == min((start, kind) for start, _, kind in inside)[1]


@settings(max_examples=examples(300), deadline=None)
@given(any_lane, st.lists(instants, min_size=2, max_size=40, unique=True))
def test_any_cells_equal_brute_force(lane, edges):
    edges = sorted(edges)
    result = measure_cells(index(lane), np.array(edges, np.int64))
    for position, (a, b) in enumerate(pairwise(edges)):
        check(result, position, lane, a, b)


@settings(max_examples=examples(200), deadline=None)
@given(any_lane, instants, durations)
def test_kind_times_equal_brute_force(lane, a, width):
    b = a + width + 1
    inside = [event for event in ordered(lane) if overlaps(event, a, b)]
    indexed = index(lane)
    kinds = {k: covered([e for e in inside if e[2] == k], a, b) for _, _, k in inside}
    assert kind_times(indexed, a, b) == kinds


@settings(max_examples=examples(200), deadline=None)
@given(any_lane, levels, st.integers(-(2**40), 2**40), st.data())
def test_a_tile_says_what_its_cells_hold(lane, level, shift, data):
    anchor = data.draw(st.sampled_from(lane))
    tile = (anchor[0] + shift) >> (level + 8)
    result = event_tiles(index(lane), level, tile, tile + 1, shift)
    assert result.index.tolist() == [tile]
    moved = [(start + shift, dur, kind) for start, dur, kind in ordered(lane)]
    cell = 1 << level
    own = (anchor[0] + shift >> level) % CELLS  # no event disappears at any level
    for c in [own, *data.draw(st.lists(st.integers(0, CELLS - 1), max_size=12))]:
        a = (tile * CELLS + c) * cell
        inside = [event for event in moved if overlaps(event, a, a + cell)]
        time = covered(moved, a, a + cell)
        assert result.count[0, c] == len(inside)
        assert result.mask[0, c] == sum({1 << kind for _, _, kind in inside})
        assert (result.kind[0, c] == NO_KIND) == (not inside)
        assert (result.busy[0, c] == 0) == (time == 0)
        assert (result.busy[0, c] == 65535) == (time == cell)
        assert abs(int(result.busy[0, c]) * cell - time * 65535) <= cell
    a, b = tile * CELLS * cell, (tile + 1) * CELLS * cell
    long = [e for e in moved if overlaps(e, a, b) and e[1] >= 2 * cell]
    rows = index(lane).rows[result.slices.positions].tolist()
    assert [moved[row] for row in rows] == long


@given(st.integers(0, 52), st.data())
def test_shares_round_exactly(level, data):
    cell = 1 << level
    time = data.draw(st.integers(0, cell))
    share = int(quantize_shares(np.array([time], np.int64), level)[0])
    nearest = (2 * time * 65535 + cell) // (2 * cell)
    assert share == (0 if time == 0 else 65535 if time == cell else min(max(nearest, 1), 65534))


@settings(max_examples=examples(200), deadline=None)
@given(
    st.lists(st.tuples(instants, st.floats(-1e6, 1e6)), min_size=1, max_size=40),
    st.lists(instants, min_size=2, max_size=30, unique=True),
    instants,
)
def test_counters_hold_their_value(samples, edges, end):
    samples, edges = sorted(samples, key=lambda sample: sample[0]), sorted(edges)
    times = np.array([time for time, _ in samples], np.int64)
    lane = index_counter(times, np.array([value for _, value in samples]), end)
    end = max(end, int(times[-1]) + 1)
    smallest, largest = lane.measure(np.array(edges, np.int64))
    for position, (a, b) in enumerate(pairwise(edges)):
        held = [value for time, value in samples if a <= time < b]
        if not any(time == a for time, _ in samples):
            held += [value for time, value in samples if time < a][-1:]
        if held and a < end:
            assert (smallest[position], largest[position]) == (min(held), max(held))
        else:
            assert np.isnan(smallest[position])
            assert np.isnan(largest[position])


def test_the_counting_sees_a_wrong_cell():
    """A test of the check: a cell that is off by one nanosecond must fail."""
    lane = [(3, 10, 1), (12, 4, 2)]
    result = measure_cells(index(lane), np.array([0, 8, 16]))
    result.covered[0] += 1
    with pytest.raises(AssertionError):
        check(result, 0, lane, 0, 8)
