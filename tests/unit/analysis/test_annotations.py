"""Ranges named by programs, checked by hand."""

import numpy as np
import pytest
from support.small import call, event, kernel, load

import hta_widgets as hw
from hta_widgets.analysis import kernels_by_annotation, user_annotation_breakdown
from hta_widgets.analysis.kernels import shortest_overlapping


def on_host(name, start, end, *, tid=1):
    return event("user_annotation", name, start, end, pid=10, tid=tid)


def on_device(name, start, end, *, stream=7, pid=0):
    # Like Kineto's ranges, without a stream in the args.
    return event("gpu_user_annotation", name, start, end, pid=pid, tid=stream)


DEVICE = [
    on_device("step", 100, 400),
    on_device("forward", 100, 200),
    on_device("forward", 300, 340),
    kernel(100, 150, name="a"),
    kernel(190, 210, name="b"),
    kernel(250, 260, name="c"),
    kernel(320, 330, name="d"),
    kernel(400, 420, name="e"),
    kernel(120, 130, name="f", stream=8),
]


def test_statistics_of_ranges(tmp_path):
    traces = load(tmp_path, [*DEVICE, on_host("forward", 10, 70), on_host("z", 80, 85)])
    frame = user_annotation_breakdown(traces)
    assert frame.drop(columns="std_ns").to_numpy().tolist() == [
        [0, "forward", 2, 140, 70.0, 40, 100],
        [0, "step", 1, 300, 300.0, 300, 300],
    ]
    assert frame["std_ns"].tolist() == pytest.approx([np.sqrt(2 * 30**2), 0])
    host = user_annotation_breakdown(traces, use_device=False)
    assert host[["name", "sum_ns"]].to_numpy().tolist() == [["forward", 60], ["z", 5]]
    assert host.attrs["matched"] == {"device_annotations": 3, "host_annotations": 2}
    cut = user_annotation_breakdown(traces, window=(150, 320))
    columns = ["name", "count", "sum_ns"]
    assert cut[columns].to_numpy().tolist() == [["forward", 2, 50 + 20], ["step", 1, 170]]


def test_no_ranges(tmp_path):
    frame = user_annotation_breakdown(load(tmp_path, [on_host("forward", 10, 20)], [kernel(1, 2)]))
    assert frame.empty
    assert frame.attrs["note"] == "no ranges on the device; use_device=False has some"
    nothing = user_annotation_breakdown(load(tmp_path, []), use_device=False)
    assert nothing.attrs["note"] == "no ranges on the host"


def test_the_shortest_range_on_the_stream(tmp_path):
    frame = kernels_by_annotation(load(tmp_path, DEVICE))
    result = dict(zip(frame["name"], frame["annotation"], strict=True))
    assert result == {"a": "forward", "b": "forward", "c": "step", "d": "forward", "e": "", "f": ""}
    assert frame.attrs["source"] == {0: "device"}
    assert frame.attrs["matched"] == {"device_events": 6, "annotations": 3, "annotated": 4}
    cut = kernels_by_annotation(load(tmp_path, DEVICE), window=(205, 255))
    assert cut[["name", "start_ns", "dur_ns", "annotation"]].to_numpy().tolist() == [
        ["b", 205, 5, "forward"],
        ["c", 250, 5, "step"],
    ]


def test_added_up_by_range_and_name(tmp_path):
    traces = load(tmp_path, [*DEVICE, kernel(130, 180, name="a")])
    assert kernels_by_annotation(traces, by_name=True).to_numpy().tolist() == [
        [0, "forward", "a", 2, 100],
        [0, "forward", "b", 1, 20],
        [0, "", "e", 1, 20],
        [0, "step", "c", 1, 10],
        [0, "forward", "d", 1, 10],
        [0, "", "f", 1, 10],
    ]


HOST = [
    on_host("step", 10, 500),
    on_host("forward", 20, 100),
    call(30, 35, 1),
    kernel(600, 610, name="a", launch=1),
    call(200, 205, 2),
    kernel(620, 630, name="b", launch=2),
    call(510, 515, 3),
    kernel(640, 650, name="c", launch=3),
    kernel(660, 670, name="d"),
]


def test_ranges_of_the_host_by_the_launch(tmp_path):
    frame = kernels_by_annotation(load(tmp_path, HOST, DEVICE))
    assert frame.attrs["source"] == {0: "host", 1: "device"}
    frame = frame[frame["rank"] == 0]
    assert frame["annotation"].tolist() == ["forward", "step", "", ""]
    none = kernels_by_annotation(load(tmp_path, HOST), source="device")
    assert none["annotation"].tolist() == [""] * 4
    assert none.attrs["note"] == "no ranges"
    with pytest.raises(hw.TraceError, match="source= takes 'auto', 'device' or 'host', not 'gpu'"):
        kernels_by_annotation(load(tmp_path, HOST), source="gpu")


def test_launches_of_the_backward_thread(tmp_path):
    events = [
        on_host("ProfilerStep#3", 10, 500),
        event("cpu_op", "autograd::engine", 100, 200, pid=10, tid=2),
        call(110, 120, 1, tid=2),
        kernel(300, 310, launch=1),
    ]
    frame = kernels_by_annotation(load(tmp_path, events))
    assert frame["annotation"].tolist() == ["ProfilerStep#3"]


def test_streams_of_two_devices_stay_apart(tmp_path):
    other = kernel(120, 130, name="g") | {"pid": 1}
    other["args"]["device"] = 1
    frame = kernels_by_annotation(load(tmp_path, [*DEVICE, other]))
    assert frame.loc[frame["name"] == "g", "annotation"].tolist() == [""]


def plainly(start, end, low, high):
    """Return the last of the shortest enclosing ranges by trying all of them."""
    for first, last in zip(start, end, strict=True):
        meet = [place for place in range(len(low)) if low[place] < last and first < high[place]]
        yield min(meet, key=lambda place: (high[place] - low[place], -place), default=-1)


@pytest.mark.parametrize("seed", range(30))
def test_shortest_overlapping_against_trying_all(seed):
    random = np.random.default_rng(seed)
    start = np.sort(random.integers(0, 60, random.integers(0, 40)))
    end = start + random.integers(0, 12, len(start))
    low = random.integers(0, 60, random.integers(0, 12))
    high = low + random.integers(0, 40, len(low))
    result = shortest_overlapping(start, end, low, high).tolist()
    assert result == list(plainly(start, end, low, high))
