"""Lanes of random tracks, compared with a simple stack and with properties of lanes."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from support.examples import examples

from hta_widgets.trace.arrays import event_order
from hta_widgets.trace.tracks import assign_lanes

TIMES = st.tuples(st.integers(0, 40), st.integers(0, 15))


def arranged(events, tracks=1, unit=1):
    """Sort (start, dur, track) triples as the model does, then assign lanes."""
    rows = [(*event, 0) if len(event) == 2 else event for event in events]
    start = np.array([row[0] for row in rows], dtype=np.int64)
    dur = np.array([row[1] for row in rows], dtype=np.int64)
    track = np.array([row[2] for row in rows], dtype=np.int32)
    order = event_order(start, dur)
    start, dur, track = start[order], dur[order], track[order]
    return start, start + dur, track, assign_lanes(start, dur, track, tracks, unit)


def stack_with_rounding(start, end, unit):
    """Apply the rules in the module's docstring to one event at a time."""
    depth, parent, spilled, rounded, open_rows = {}, [], [], set(), []
    for row, (begin, stop) in enumerate(zip(start, end, strict=True)):
        while open_rows:
            top = open_rows[-1]
            if (over := end[top] - begin) > 0:
                if over > unit or stop <= end[top] or begin <= start[top]:
                    break
                rounded.add(top)
            open_rows.pop()
        # A spilled event may be a tighter enclosure than the nested ones.
        around = next((out for out in reversed(spilled) if end[out] >= max(stop, begin + 1)), -1)
        if open_rows and stop > end[open_rows[-1]] + unit:
            spilled.append(row)
            above = next((nest for nest in reversed(open_rows) if end[nest] >= stop), -1)
        else:
            above, depth[row] = open_rows[-1] if open_rows else -1, len(open_rows)
            if open_rows and stop > end[above]:
                rounded.add(row)
            open_rows.append(row)
        parent.append(max(above, around))
    return depth, parent, spilled, len(rounded)


@st.composite
def nested(draw):
    """Draw properly nested events by splitting intervals repeatedly."""
    events = []

    def fill(low, high, level):
        at = low
        while at < high and len(events) < 60:
            begin = draw(st.integers(at, high))
            end = draw(st.integers(begin, high))
            events.append((begin, end - begin))
            if level < 4 and end > begin:
                fill(begin, end, level + 1)
            at = max(end, at + 1)

    fill(0, draw(st.integers(1, 60)), 0)
    return events


@st.composite
def nearly_nested(draw):
    """Draw nested events with some edges off by one unit, and a few events that fit nowhere."""
    moved = [
        (start + draw(st.sampled_from([0, 0, 0, 1])), dur + draw(st.sampled_from([0, 0, 0, 1])))
        for start, dur in draw(nested())
    ]
    return moved + draw(st.lists(TIMES, max_size=4))


@pytest.mark.parametrize("unit", [1, 10])
@given(st.lists(TIMES, min_size=1, max_size=40) | nested() | nearly_nested())
@settings(max_examples=examples(300))
def test_any_track_follows_the_rules(unit, events):
    start, end, _, lanes = arranged([(s * unit, d * unit) for s, d in events], unit=unit)
    depth, parent, spilled, rounded = stack_with_rounding(start.tolist(), end.tolist(), unit)
    assert np.flatnonzero(lanes.depth >= lanes.nested[0]).tolist() == spilled
    assert {row: int(lanes.depth[row]) for row in depth} == depth
    assert lanes.nested[0] == max(depth.values()) + 1
    assert lanes.parent.tolist() == parent
    assert lanes.overlaps == len(spilled)
    assert lanes.rounded == rounded


@pytest.mark.parametrize("unit", [1, 10])
@given(
    st.lists(
        st.tuples(st.integers(0, 30), st.integers(0, 12), st.integers(0, 2)),
        min_size=1,
        max_size=60,
    )
)
@settings(max_examples=examples(200))
def test_lanes_keep_their_promises(unit, events):
    start, end, track, lanes = arranged([(s * unit, d * unit, t) for s, d, t in events], 3, unit)
    for number in range(3):
        on_track = np.flatnonzero(track == number)
        for lane in range(int(lanes.lanes[number])):
            in_lane = on_track[lanes.depth[on_track] == lane]
            assert len(in_lane)
            ends = np.maximum.accumulate(end[in_lane])
            assert (start[in_lane][1:] >= ends[:-1] - unit).all()
        assert (lanes.depth[on_track] < lanes.lanes[number]).all()
    for row, above in enumerate(lanes.parent.tolist()):
        if above >= 0:
            assert above < row
            assert track[above] == track[row]
            assert start[above] <= start[row]
            assert end[above] + unit >= end[row]
    for row in range(len(start)):
        encloses = (
            (np.arange(len(start)) < row)
            & (track == track[row])
            & (start <= start[row])
            & (end > start[row])
            & (end >= end[row])
        )
        if encloses.any():
            assert lanes.parent[row] >= 0
    assert lanes.overlaps == (lanes.depth >= lanes.nested[track]).sum()


@given(st.lists(st.tuples(st.integers(0, 1 << 40), st.integers(0, 1 << 35)), max_size=50))
def test_order_is_by_start_then_longest_then_position(events):
    start = np.array([event[0] >> 36 for event in events], dtype=np.int64)
    dur = np.array([event[1] >> 33 for event in events], dtype=np.int64)
    expected = sorted(range(len(events)), key=lambda k: (start[k], -dur[k], k))
    assert event_order(start, dur).tolist() == expected
    big = start + (1 << 61)
    assert event_order(big, dur).tolist() == expected
