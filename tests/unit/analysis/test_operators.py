"""Operator costs, calculated by hand."""

import pytest
from support.small import call, copy, event, kernel, load

from hta_widgets.analysis import kernels_by_annotation, operator_kernels, operators


def op(name, start, end, *, tid=1, cat="cpu_op", **args):
    return event(cat, name, start, end, pid=10, tid=tid, **args)


def rows_of(frame, *columns):
    """Return columns by name, without the event that starts every small job."""
    columns = columns or (
        "count", "cpu_total_ns", "cpu_self_ns", "device_total_ns", "device_self_ns",
    )  # fmt: skip
    shown = frame[frame["name"] != "aten::origin"]
    return {
        name: tuple(values)
        for name, *values in shown[["name", *columns]].itertuples(index=False, name=None)
    }


#: aten::linear encloses addmm, which launches two kernels, and t, which launches none.
LINEAR = [
    op("aten::linear", 100, 200),
    op("aten::t", 110, 120),
    op("aten::addmm", 130, 190),
    call(140, 145, 1),
    call(150, 155, 2),
    kernel(300, 340, launch=1),
    kernel(340, 350, launch=2, stream=8),
]


def test_self_and_total_of_nested_operators(tmp_path):
    frame = operators(load(tmp_path, LINEAR))
    assert rows_of(frame) == {
        "aten::linear": (1, 100, 100 - 10 - 60, 50, 0),
        "aten::addmm": (1, 60, 60, 50, 50),
        "aten::t": (1, 10, 10, 0, 0),
    }
    assert frame["name"].tolist()[:2] == ["aten::linear", "aten::addmm"]
    assert frame.attrs["matched"] == {"operators": 4, "device_work": 2, "linked": 2}


CROSSED = [
    op("Region", 100_000, 1_100_000),
    event("python_function", "<built-in function next>", 200_000, 1_700_000, pid=10, tid=1),
    op("aten::mm", 300_000, 400_000),
    call(310_000, 320_000, 1),
    call(500_000, 510_000, 2),
    call(1_200_000, 1_210_000, 3),
    kernel(2_000_000, 2_150_000, launch=1),
    kernel(2_150_000, 2_200_000, launch=2),
    kernel(2_200_000, 2_300_000, launch=3),
]


def test_a_python_frame_that_crosses_an_operators_end_takes_nothing_away(tmp_path):
    traces = load(tmp_path, CROSSED)
    assert rows_of(operators(traces)) == {
        "Region": (1, 1_000_000, 900_000, 200_000, 50_000),
        "aten::mm": (1, 100_000, 100_000, 150_000, 150_000),
    }
    launched = operator_kernels(traces)
    assert launched.operator.tolist() == ["aten::mm", "Region"]
    assert operator_kernels(traces, "Region").dur_ns.tolist() == [150_000, 50_000]
    # A name that is also a column of the frame refers to the column.
    assert operator_kernels(traces, "next").dur_ns.tolist() == [150_000, 50_000, 100_000]
    # Ranges keep their kernels, too.
    named = [CROSSED[0] | {"cat": "user_annotation"}, *CROSSED[1:]]
    frame = kernels_by_annotation(load(tmp_path, named), source="host")
    assert frame.annotation.tolist() == ["Region", "Region", ""]


def test_work_of_the_backward_thread_belongs_to_its_operators(tmp_path):
    events = [
        op("loss.backward", 100, 400),
        op("autograd::engine::evaluate_function: AddmmBackward0", 150, 250, tid=2),
        op("aten::mm", 160, 240, tid=2),
        call(170, 175, 1, tid=2),
        kernel(500, 530, launch=1),
    ]
    traces = rows_of(operators(load(tmp_path, events)), "device_total_ns", "device_self_ns")
    assert traces == {
        "autograd::engine::evaluate_function: AddmmBackward0": (30, 0),
        "aten::mm": (30, 30),
        "loss.backward": (0, 0),
    }


@pytest.mark.parametrize(
    ("alone_ns", "outside_ns", "share"), [(30, 0, 38), (0, 30, 38), (20, 30, 50), (3, 2, 0)]
)
def test_a_large_share_of_device_time_without_an_operator_is_noted(
    tmp_path, alone_ns, outside_ns, share
):
    """Besides the 50 ns of `LINEAR`: work without a launch, and work outside of operators."""
    work = [
        kernel(400, 400 + alone_ns),
        call(210, 215, 9),
        kernel(500, 500 + outside_ns, launch=9),
    ]
    text = f"no operator launched {share} % of the device time; kernels_by_annotation lists it by"
    note = operators(load(tmp_path, [*LINEAR, *work])).attrs.get("note", "")
    assert note.startswith(text) if share else note == ""


def test_device_time_is_told_apart_to_the_nanosecond(tmp_path):
    events = [
        *LINEAR,
        kernel(400, 403),  # without a launch
        call(210, 215, 9),  # outside of operators
        copy(420, 431, launch=None),
        kernel(440, 460, launch=9),
        event("cuda_sync", "Stream Sync", 300, 500, pid=0, tid=7, stream=7),
        event("gpu_user_annotation", "range", 300, 500, pid=0, tid=7, stream=7),
    ]
    frame = operators(load(tmp_path, events))
    assert frame.attrs["device_ns"] == 40 + 10 + 3 + 11 + 20
    assert frame.attrs["unattributed"] == {
        "unlinked_ns": 14,
        "outside_operators_ns": 20,
        "not_selected_ns": 0,
    }
    assert frame["device_self_ns"].sum() == 50


def test_steps_are_no_operators_and_ranges_are_on_request(tmp_path):
    ranges = [op("ProfilerStep#1", 50, 1000), op("forward", 90, 300, cat="user_annotation")]
    # Category names are case-insensitive.
    traces = load(tmp_path, [*ranges, *LINEAR, op("mm", 10, 20, cat="Operator")])
    assert set(rows_of(operators(traces))) == {"aten::linear", "aten::addmm", "aten::t", "mm"}
    result = rows_of(operators(traces, annotations=True))
    assert result["forward"] == (1, 210, 110, 50, 0)
    assert result["ProfilerStep#1"] == (1, 950, 740, 50, 0)


def test_the_window_keeps_what_still_runs(tmp_path):
    later = operators(load(tmp_path, LINEAR), window=(330, 345))
    assert rows_of(later) == {"aten::linear": (0, 0, 0, 15, 0), "aten::addmm": (0, 0, 0, 15, 15)}
    assert later.attrs["device_ns"] == 15
    assert operators(load(tmp_path, LINEAR), window=(330, 330)).empty


def test_a_selection_chooses_operators_and_leaves_them_their_work(tmp_path):
    traces = load(tmp_path, LINEAR, [op("aten::relu", 5, 9)])
    only = traces.select("name == 'aten::linear'")
    frame = operators(traces, selection=only)
    assert rows_of(frame) == {"aten::linear": (1, 100, 30, 50, 0)}
    assert frame.attrs["unattributed"]["not_selected_ns"] == 50
    assert rows_of(operators(traces, ranks=[1])) == {"aten::relu": (1, 4, 4, 0, 0)}
    assert set(operators(traces)["rank"]) == {0, 1}


def test_by_shape_and_call_stack_from_args(tmp_path):
    shapes, f, g = {"Input Dims": [[2, 3], [3, 4]]}, "a.py(1): f", "b.py(2): g;a.py(1): f"
    events = [
        op("mm", 10, 20, **shapes, **{"Call stack": g}),
        op("mm", 30, 35, **shapes, **{"Call stack": f}),
        op("mm", 40, 47, **{"Input Dims": [[8, 3], []], "Call stack": f}),
        op("mm", 50, 51),
    ]
    for options, column, times in (
        ({"group_by_shape": True}, "input_shapes", {"[[2, 3], [3, 4]]": 15, "[[8, 3], []]": 7}),
        ({"group_by_stack": True}, "call_stack", {g: 10, f: 12}),
    ):
        frame = operators(load(tmp_path, events), **options)
        frame = frame[frame["name"] == "mm"]
        assert dict(zip(frame[column], frame["cpu_total_ns"], strict=True)) == times | {"": 1}


def test_by_call_stack_from_python_functions(tmp_path):
    def function(name, start, end):
        return event("python_function", name, start, end, pid=10, tid=1)

    events = [
        function("f", 100, 300), function("g", 110, 190), op("mm", 120, 130),
        function("g", 200, 290), op("mm", 210, 215), op("add", 292, 299),
    ]  # fmt: skip
    frame = operators(load(tmp_path, events), group_by_stack=True, group_by_shape=True)
    frame = frame[frame["name"] != "aten::origin"]
    result = frame[["name", "call_stack", "count", "cpu_total_ns"]].to_numpy().tolist()
    assert sorted(result) == [["add", "f", 1, 7], ["mm", "g;f", 2, 15]]


def test_no_operators(tmp_path):
    traces = load(tmp_path, [kernel(10, 20)])
    frame = operators(
        traces, selection=traces.select("name == 'gemm'"), group_by_shape=True, group_by_stack=True
    )
    assert frame.empty
    assert frame.attrs["note"] == "no operators are selected"
    assert frame.attrs["unattributed"]["unlinked_ns"] == 10
    assert list(frame.columns[:4]) == ["rank", "name", "input_shapes", "call_stack"]
    assert str(frame["device_self_ns"].dtype) == "int64"
    for options in ({}, {"group_by_shape": True}, {"group_by_stack": True}):
        frame = operators(traces, ranks=[], **options)
        assert frame.empty
        assert frame.attrs["note"]
