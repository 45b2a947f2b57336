"""Device rows, their tracks, and the names of tracks."""

import numpy as np
import pytest
from support.made_ranks import kernel, op

from hta_widgets.trace.arrays import event_order
from hta_widgets.trace.tracks import assign_lanes


def meta(what, pid, tid=0, **args):
    return {"ph": "M", "name": what, "pid": pid, "tid": tid, "args": args}


def test_a_stream_argument_counts_on_device_categories_only(make):
    trace = make(
        op("triton_poi_fused", 0, 5, args={"stream": 0}),
        kernel("k", 1, 1, stream=0),
        kernel("wait", 3, 1, stream=3, cat="cuda_sync"),
        kernel("event", 5, 1, stream=4, cat="mtia_ccp_events"),
        kernel("copy", 7, 1, stream=7, cat="Memcpy"),
        op("hipMemcpy", 8, 1, cat="cuda_runtime", args={"stream": 5}),
    )
    frame = trace.events.set_index("name")
    assert frame["stream"].to_dict() == {
        "triton_poi_fused": -1, "k": 0, "wait": 3, "event": 4, "copy": 7, "hipMemcpy": -1,
    }  # fmt: skip
    assert frame.loc["triton_poi_fused", "kind"] == "cpu"


def test_annotations_of_a_device_have_the_stream_of_their_thread_and_a_track_of_their_own(make):
    step = op("step", 0, 9, 7, cat="gpu_user_annotation", pid=0)
    trace = make(kernel("k", 1, 2, stream=7), step)
    columns = ["name", "stream", "depth", "parent"]
    assert trace.events[columns].values.tolist() == [["step", 7, 0, -1], ["k", 7, 0, -1]]
    assert [(t.role, t.stream, t.label, t.key) for t in trace.tracks] == [
        ("annotation", 7, "stream 7", "device 0 · stream 7 annotations"),
        ("stream", 7, "stream 7", "device 0 · stream 7"),
    ]


def test_device_rows_without_a_stream_argument_take_it_from_their_thread(make):
    def bare(tid, category="kernel"):
        return {"ph": "X", "cat": category, "name": "k", "pid": 0, "tid": tid, "ts": 0, "dur": 1}

    trace = make(
        bare("stream 12"),
        bare(9),
        bare(3774, "mtia_ccp_events"),
        bare(-1, "cuda_sync"),
        kernel("k", 2, 1, stream=108, cat="mtia_ccp_events", tid=3774),
    )
    by_thread = trace.events.groupby("tid", observed=True)["stream"].agg(set).to_dict()
    assert by_thread == {"stream 12": {12}, "9": {9}, "3774": {108}, "-1": {-1}}
    roles = {track.tid: track.role for track in trace.tracks}
    assert roles == {"stream 12": "stream", "9": "stream", "3774": "stream", "-1": "other"}


def test_tracks_are_named_and_ordered_by_metadata(make):
    trace = make(
        meta("process_name", 7, name="python"),
        meta("process_labels", 7, labels="CPU"),
        meta("process_name", 0, name="python"),
        meta("process_labels", 0, labels="GPU 0"),
        meta("process_sort_index", 7, sort_index=5),
        meta("process_sort_index", 0, sort_index=100),
        meta("thread_name", 7, 1, name="thread 1 (unnamed)"),
        meta("thread_name", 7, 1, name="thread 1 (main)"),
        meta("thread_name", 0, 7, name="stream 7 "),
        meta("thread_sort_index", 7, 1, sort_index=2),
        meta("thread_sort_index", 7, 2, sort_index=1),
        kernel("k", 0, 1),
        op("a", 1, 1, tid=1),
        op("b", 2, 1, tid=2),
        op("Profiler", 0, 9, pid="Spans", tid="PyTorch Profiler", cat="Trace"),
    )
    assert [(track.role, track.key) for track in trace.tracks] == [
        ("thread", "python · thread 2"),
        ("thread", "python · thread 1 (main)"),
        ("stream", "GPU 0 · stream 7"),
        ("other", "Spans · PyTorch Profiler"),
    ]
    assert trace.events["track"].tolist()[0] == "Spans · PyTorch Profiler"


def test_tracks_of_the_same_name_are_told_apart(make):
    names = [meta("process_name", pid, name="python") for pid in (7, 8)]
    threads = [meta("thread_name", pid, tid, name="worker") for pid in (7, 8) for tid in (1, 2)]
    events = [op("a", 0, 1, tid=tid, pid=pid) for pid in (7, 8) for tid in (1, 2)]
    keys = [track.key for track in make(*(names + threads + events)).tracks]
    assert len(set(keys)) == 4
    assert keys[0] == "python [7] · worker [1]"


def test_tids_that_are_text_and_numbers_are_one_thread(make):
    trace = make(op("a", 0, 9, tid="25"), op("b", 1, 1, tid=25))
    assert len(trace.tracks) == 1
    assert trace.events["depth"].tolist() == [0, 1]


def test_odd_sort_indices_do_not_matter(make):
    odd = [meta("process_sort_index", 7, sort_index="first"), meta("thread_sort_index", 7, 1)]
    assert [track.tid for track in make(*odd, op("a", 0, 1)).tracks] == ["1"]


def lanes(events, unit=1, tracks=None):
    start = np.array([event[0] for event in events], np.int64)
    dur = np.array([event[1] - event[0] for event in events], np.int64)
    track = np.array(tracks or [0] * len(events), np.int32)
    order = event_order(start, dur)
    assert order.tolist() == list(range(len(events))), "write the events in order"
    return assign_lanes(start, dur, track, int(track.max()) + 1, unit)


# Per case: events, unit, depths, parents, number of lanes of nested events, overlaps, rounded ends.
LANES = {
    "programmatic dependent launch": (
        [(0, 10), (5, 15), (12, 14)], 1, [0, 1, 0], [-1, -1, 1], 1, 1, 0),
    "a chain of overlaps needs one spill lane": (
        [(0, 10), (8, 18), (16, 26), (24, 34)], 1, [0, 1, 0, 1], [-1] * 4, 1, 2, 0),
    "spill lanes lie below the deepest nested event": (
        [(0, 200), (10, 90), (20, 80), (30, 70), (85, 150), (300, 400)], 1,
        [0, 1, 2, 3, 4, 0], [-1, 0, 1, 2, 0, -1], 4, 1, 0),
    "events that cross at once take a spill lane each": (
        [(0, 10), (2, 12), (4, 14), (6, 16)], 1, [0, 1, 2, 3], [-1] * 4, 1, 3, 0),
    "a crossing disturbs nothing outside of its parent": (
        [(0, 10), (1, 5), (3, 8), (20, 30), (21, 25), (22, 24)], 1,
        [0, 1, 3, 0, 1, 2], [-1, 0, 0, -1, 3, 4], 3, 1, 0),
    "what spilled events enclose has the innermost of them as parent": (
        [(0, 10), (2, 40), (3, 30), (11, 20), (30, 30), (31, 35), (40, 41)], 1,
        [0, 1, 2, 0, 0, 0, 0], [-1, -1, 1, 2, 1, 1, -1], 1, 2, 0),
    "crossings at several depths count once each": (
        [(0, 1000), (10, 500), (20, 100), (50, 200), (550, 700), (600, 800)], 1,
        [0, 1, 2, 3, 1, 3], [-1, 0, 1, 1, 0, 0], 3, 2, 0),
    "a sibling may start one unit early": ([(0, 10), (9, 20)], 1, [0, 0], [-1, -1], 1, 0, 1),
    "or a microsecond": ([(0, 10_000), (9_000, 20_000)], 1000, [0, 0], [-1, -1], 1, 0, 1),
    "but not two units": ([(0, 10), (8, 20)], 1, [0, 1], [-1, -1], 1, 1, 0),
    "nor two microseconds": ([(0, 10_000), (8_000, 20_000)], 1000, [0, 1], [-1, -1], 1, 1, 0),
    "a child may end one unit late": (
        [(0, 10_000), (2_000, 11_000), (4_000, 12_000)], 1000, [0, 1, 2], [-1, 0, 1], 3, 0, 2),
    "inside the last unit is a child, not a sibling": (
        [(0, 10), (9, 10)], 1, [0, 1], [-1, 0], 2, 0, 0),
    "a late child keeps what it encloses in its last unit": (
        [(0, 10), (2, 11), (10, 11), (12, 13)], 1, [0, 1, 2, 0], [-1, 0, 1, -1], 3, 0, 1),
    "siblings end the events around them as well": (
        [(0, 10), (1, 10), (5, 10), (9, 20)], 1, [0, 1, 2, 0], [-1, 0, 1, -1], 3, 0, 3),
    "events without duration": (
        [(0, 5), (0, 0), (3, 3), (5, 9), (5, 5), (9, 9), (9, 9)], 1,
        [0, 1, 1, 0, 1, 0, 0], [-1, 0, 0, -1, 3, -1, -1], 2, 0, 0),
    "equal events nest in file order": ([(3, 8)] * 3, 1, [0, 1, 2], [-1, 0, 1], 3, 0, 0),
}  # fmt: skip


@pytest.mark.parametrize("case", LANES)
def test_lanes_of_one_track(case):
    events, unit, depth, parent, nested, overlaps, rounded = LANES[case]
    result = lanes(events, unit)
    assert (result.depth.tolist(), result.parent.tolist()) == (depth, parent)
    assert (result.nested[0], result.lanes[0]) == (nested, max(depth) + 1)
    assert (result.overlaps, result.rounded) == (overlaps, rounded)


def test_tracks_do_not_see_each_other():
    result = lanes([(0, 10), (5, 15), (6, 9), (7, 20)], tracks=[0, 1, 0, 2])
    assert result.depth.tolist() == [0, 0, 1, 0]
    assert result.parent.tolist() == [-1, -1, 0, -1]
    assert result.nested.tolist() == [2, 1, 1]


def test_times_too_far_apart_to_lay_tracks_end_to_end():
    far = 1 << 61
    count = 300  # tracks; enough to search them all together if that fits
    events = [(0, 10)] * count + [(far, far + 5)] * count
    result = lanes(events, tracks=[*range(count)] * 2)
    assert not result.depth.any()
    assert (result.parent == -1).all()


def test_a_track_deeper_than_can_be_told_is_counted():
    count = 40_000
    result = lanes([(k, 2 * count - k) for k in range(count)])
    assert result.too_deep == count - (1 << 15)
    assert result.depth.max() == np.iinfo(np.int16).max
    assert result.parent.tolist() == list(range(-1, count - 1))
    assert result.nested.tolist() == result.lanes.tolist() == [1 << 15]


def test_a_track_has_no_more_lanes_than_depths():
    count = 40_000
    result = lanes([(k, 2 * count + 3 * k) for k in range(count)])
    assert result.overlaps == count - 1
    assert int(result.depth.max()) + 1 == result.lanes[0] == 1 << 15


def test_build_reports_overlaps_and_rounding(make):
    events = [kernel("a", 0, 10), kernel("b", 5, 10), op("c", 0, 4), op("d", 3, 4)]
    trace = make(*events, resolution_ns=1000)
    assert [(kind, count) for kind, count, _ in trace.found] == [("overlap", 1), ("rounding", 1)]
    [stream] = [track for track in trace.tracks if track.role == "stream"]
    assert (stream.nested, stream.lanes) == (1, 2)
