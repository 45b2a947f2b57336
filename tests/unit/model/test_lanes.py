"""Lanes by hand: overlap, rounding, and events without duration."""

import numpy as np
import pytest

from hta_widgets.trace.grouping import event_order
from hta_widgets.trace.tracks import assign_lanes


def lanes(events, unit=1, tracks=None):
    start = np.array([event[0] for event in events], np.int64)
    dur = np.array([event[1] - event[0] for event in events], np.int64)
    track = np.array(tracks or [0] * len(events), np.int32)
    order = event_order(start, dur)
    assert order.tolist() == list(range(len(events))), "write the events in order"
    return assign_lanes(start, dur, track, int(track.max()) + 1, unit)


def test_kernels_that_overlap_by_programmatic_dependent_launch():
    found = lanes([(0, 10), (5, 15), (12, 14)])
    assert found.depth.tolist() == [0, 1, 0]
    assert found.parent.tolist() == [-1, -1, 1]
    assert (found.nested[0], found.lanes[0], found.overlaps) == (1, 2, 1)


def test_a_chain_of_overlaps_needs_one_spill_lane():
    found = lanes([(0, 10), (8, 18), (16, 26), (24, 34)])
    assert found.depth.tolist() == [0, 1, 0, 1]
    assert (found.nested[0], found.lanes[0], found.overlaps) == (1, 2, 2)


def test_spill_lanes_lie_below_the_deepest_nested_event():
    found = lanes([(0, 200), (10, 90), (20, 80), (30, 70), (85, 150), (300, 400)])
    assert found.depth.tolist() == [0, 1, 2, 3, 4, 0]
    assert found.parent.tolist() == [-1, 0, 1, 2, 0, -1]
    assert (found.nested[0], found.lanes[0], found.overlaps) == (4, 5, 1)


def test_events_that_cross_at_once_take_a_spill_lane_each():
    found = lanes([(0, 10), (2, 12), (4, 14), (6, 16)])
    assert found.depth.tolist() == [0, 1, 2, 3]
    assert (found.nested[0], found.lanes[0], found.overlaps) == (1, 4, 3)


def test_a_crossing_disturbs_nothing_outside_of_its_parent():
    inside = [(1, 5), (3, 8)]
    found = lanes([(0, 10), *inside, (20, 30), (21, 25), (22, 24)])
    assert found.depth.tolist() == [0, 1, 3, 0, 1, 2]
    assert found.parent.tolist() == [-1, 0, 0, -1, 3, 4]


def test_what_spilled_events_enclose_has_the_innermost_of_them_as_parent():
    found = lanes([(0, 10), (2, 40), (3, 30), (11, 20), (30, 30), (31, 35), (40, 41)])
    assert found.depth.tolist() == [0, 1, 2, 0, 0, 0, 0]
    assert found.parent.tolist() == [-1, -1, 1, 2, 1, 1, -1]
    assert found.overlaps == 2


def test_crossings_at_several_depths_count_once_each():
    found = lanes([(0, 1000), (10, 500), (20, 100), (50, 200), (550, 700), (600, 800)])
    assert found.depth.tolist() == [0, 1, 2, 3, 1, 3]
    assert found.parent.tolist() == [-1, 0, 1, 1, 0, 0]
    assert (found.nested[0], found.lanes[0], found.overlaps) == (3, 4, 2)


@pytest.mark.parametrize("unit", [1, 1000])
def test_a_sibling_may_start_one_unit_early(unit):
    found = lanes([(0, 10 * unit), (9 * unit, 20 * unit)], unit)
    assert found.depth.tolist() == [0, 0]
    assert (found.overlaps, found.rounded) == (0, 1)
    two_early = lanes([(0, 10 * unit), (8 * unit, 20 * unit)], unit)
    assert two_early.depth.tolist() == [0, 1]
    assert (two_early.overlaps, two_early.rounded) == (1, 0)


def test_a_child_may_end_one_unit_late():
    found = lanes([(0, 10_000), (2_000, 11_000), (4_000, 12_000)], 1000)
    assert found.depth.tolist() == [0, 1, 2]
    assert found.parent.tolist() == [-1, 0, 1]
    assert (found.overlaps, found.rounded) == (0, 2)


def test_an_event_inside_the_last_unit_is_a_child_not_a_sibling():
    found = lanes([(0, 10), (9, 10)])
    assert found.depth.tolist() == [0, 1]
    assert found.rounded == 0


def test_a_late_child_keeps_what_it_encloses_in_its_last_unit():
    found = lanes([(0, 10), (2, 11), (10, 11), (12, 13)])
    assert found.depth.tolist() == [0, 1, 2, 0]
    assert found.parent.tolist() == [-1, 0, 1, -1]
    assert (found.overlaps, found.rounded) == (0, 1)


def test_siblings_end_the_events_around_them_as_well():
    found = lanes([(0, 10), (1, 10), (5, 10), (9, 20)])
    assert found.depth.tolist() == [0, 1, 2, 0]
    assert found.rounded == 3


def test_events_without_duration():
    found = lanes([(0, 5), (0, 0), (3, 3), (5, 9), (5, 5), (9, 9), (9, 9)])
    assert found.depth.tolist() == [0, 1, 1, 0, 1, 0, 0]
    assert found.parent.tolist() == [-1, 0, 0, -1, 3, -1, -1]
    assert found.overlaps == found.rounded == 0


def test_equal_events_nest_in_file_order():
    found = lanes([(3, 8), (3, 8), (3, 8)])
    assert found.depth.tolist() == [0, 1, 2]
    assert found.parent.tolist() == [-1, 0, 1]


def test_tracks_do_not_see_each_other():
    found = lanes([(0, 10), (5, 15), (6, 9), (7, 20)], tracks=[0, 1, 0, 2])
    assert found.depth.tolist() == [0, 0, 1, 0]
    assert found.parent.tolist() == [-1, -1, 0, -1]
    assert found.nested.tolist() == [2, 1, 1]


def test_times_too_far_apart_to_lay_tracks_end_to_end():
    far = 1 << 61
    count = 300  # tracks, so many that they are searched at once where that fits
    events = [(0, 10)] * count + [(far, far + 5)] * count
    found = lanes(events, tracks=[*range(count)] * 2)
    assert not found.depth.any()
    assert (found.parent == -1).all()


def test_a_track_deeper_than_can_be_told_is_counted():
    count = 40_000
    found = lanes([(k, 2 * count - k) for k in range(count)])
    assert found.too_deep == count - (1 << 15)
    assert found.depth.max() == np.iinfo(np.int16).max
    assert found.parent.tolist() == list(range(-1, count - 1))


def test_build_reports_overlaps_and_rounding(make, records):
    trace = make(
        [
            records.kernel("a", 0, 10),
            records.kernel("b", 5, 10),
            records.op("c", 0, 4),
            records.op("d", 3, 4),
        ],
        resolution_ns=1000,
    )
    assert [(kind, count) for kind, count, _ in trace.found] == [("overlap", 1), ("rounding", 1)]
    stream = next(track for track in trace.tracks if track.role == "stream")
    assert (stream.nested, stream.lanes) == (1, 2)
