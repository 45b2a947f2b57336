"""What operators launch, and after what delays, by hand."""

import pytest
from support.small import call, copy, event, kernel, load

from hta_widgets.analysis import operator_kernels, operator_launch_delays


def op(name, start, end, *, tid=1, cat="cpu_op", **args):
    return event(cat, name, start, end, pid=10, tid=tid, **args)


EVENTS = [
    op("aten::linear", 100, 200),
    op("aten::addmm", 110, 190),
    call(140, 145, 1),
    call(150, 155, 2),
    kernel(300, 340, launch=1, name="a"),
    kernel(340, 350, launch=2, name="b"),
    op("aten::linear", 400, 500),
    op("aten::addmm", 410, 490),
    call(420, 425, 3),
    call(450, 455, 4),
    kernel(600, 640, launch=3, name="a"),
    kernel(640, 650, launch=4, name="b"),
    op("aten::copy_", 700, 800),
    call(710, 720, 5, name="cudaMemcpyAsync"),
    copy(900, 920, correlation=5),
]


def test_each_event_with_its_innermost_operator(tmp_path):
    frame = operator_kernels(load(tmp_path, EVENTS))
    assert frame["name"].tolist() == ["a", "b", "a", "b", "Memcpy HtoD"]
    assert frame["operator"].tolist() == ["aten::addmm"] * 4 + ["aten::copy_"]
    assert frame["kind"].tolist() == ["compute"] * 4 + ["memory"]
    assert frame["operator_delay_ns"].tolist() == [30, 40, 10, 40, 10]
    assert frame["runtime_delay_ns"].tolist() == [160, 190, 180, 190, 190]
    assert frame["dur_ns"].tolist() == [40, 10, 40, 10, 20]
    assert list(frame.columns) == [
        "rank", "id", "name", "kind", "stream", "start_ns", "dur_ns", "operator", "operator_id",
        "launch_id", "operator_delay_ns", "runtime_delay_ns",
    ]  # fmt: skip
    assert frame.attrs["matched"]["below_operator"] == 5


def test_under_operators_of_a_name(tmp_path):
    traces = load(tmp_path, EVENTS)
    frame = operator_kernels(traces, "aten::linear")
    assert frame["operator"].tolist() == ["aten::linear"] * 4
    events = traces[0].events
    assert events.loc[frame["operator_id"], "start_ns"].tolist() == [100, 100, 400, 400]
    assert len(operator_kernels(traces, "linear")) == 4
    assert len(operator_kernels(traces, "linear", exact=True)) == 0
    assert len(operator_kernels(traces, "aten::copy_", exact=True)) == 1
    # Of two names that match, the inner one.
    assert set(operator_kernels(traces, "aten::")["operator"]) == {"aten::addmm", "aten::copy_"}
    nothing = operator_kernels(traces, "aten::nothing")
    assert "aten::nothing" in nothing.attrs["note"]
    assert nothing.dtypes.equals(frame.dtypes) or nothing.empty


def test_ranges_count_when_named(tmp_path):
    traces = load(tmp_path, [op("my range", 90, 600, cat="user_annotation"), *EVENTS])
    assert operator_kernels(traces, "my range")["name"].tolist() == ["a", "b", "a", "b"]


def test_times_are_cut_and_delays_are_not(tmp_path):
    frame = operator_kernels(load(tmp_path, EVENTS), window=(310, 345))
    assert frame["start_ns"].tolist() == [310, 340]
    assert frame["dur_ns"].tolist() == [30, 5]
    assert frame["runtime_delay_ns"].tolist() == [160, 190]


def test_delays_of_first_launches(tmp_path):
    frame = operator_launch_delays(load(tmp_path, EVENTS))
    # The copy's call is no kernel launch.
    assert frame.to_numpy().tolist() == [[0, "aten::addmm", "a -> b", 2, 20.0, 170.0]]
    assert list(frame.columns) == [
        "rank", "operator", "kernel_sequence", "occurrence_count",
        "avg_operator_launch_delay_ns", "avg_runtime_delay_ns",
    ]  # fmt: skip


def test_operators_of_other_threads_enclose_nothing(tmp_path):
    events = [
        op("aten::mine", 100, 200),
        op("aten::other", 120, 300, tid=2),
        call(150, 155, 1),
        kernel(400, 410, launch=1),
    ]
    frame = operator_launch_delays(load(tmp_path, events))
    assert frame["operator"].tolist() == ["aten::mine"]
    assert frame["avg_operator_launch_delay_ns"].tolist() == [50.0]


@pytest.mark.parametrize("name", ["hipLaunchKernel", "cudaGraphLaunch", "cuLaunchKernelEx"])
def test_launches_of_any_vendor_and_several_kernels_of_one(tmp_path, name):
    events = [
        op("aten::mm", 100, 200),
        call(150, 155, 1, name=name),
        kernel(400, 410, launch=1, name="x", stream=0),
        kernel(410, 420, launch=1, name="y", stream=0),
    ]
    frame = operator_launch_delays(load(tmp_path, events))
    assert frame["kernel_sequence"].tolist() == ["x -> y"]
    assert frame["avg_runtime_delay_ns"].tolist() == [250.0]


def test_most_frequent_first_within_a_rank(tmp_path):
    again = [op("aten::b", 1000, 1100), call(1010, 1020, 9), kernel(1200, 1210, launch=9)]
    traces = load(tmp_path, [*again, *EVENTS], EVENTS)
    frame = operator_launch_delays(traces)
    assert frame[["rank", "operator", "occurrence_count"]].to_numpy().tolist() == [
        [0, "aten::addmm", 2],
        [0, "aten::b", 1],
        [1, "aten::addmm", 2],
    ]
    early = operator_launch_delays(traces, window=(0, 300), ranks=[0])
    assert early["occurrence_count"].tolist() == [1]


def test_nothing_launched(tmp_path):
    traces = load(tmp_path, [op("aten::mm", 10, 20)])
    for function in (operator_kernels, operator_launch_delays):
        frame = function(traces)
        assert frame.empty
        assert frame.attrs["note"].startswith("no ")
        assert function(traces, ranks=[]).empty
