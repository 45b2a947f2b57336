"""Arrows: launches by correlation, and the file's flow records."""

import pytest
from support.made_ranks import call, kernel, op


def arrows(trace):
    """Return (kind, source name, target name) of every arrow."""
    names = trace.events["name"]
    return [(f.kind, names[f.source], names[f.target]) for f in trace.flows.itertuples()]


def flow(phase, ts, ident, tid=1, pid=7, category="ac2g", **more):
    bind = {"bp": "e"} if phase == "f" else {}
    record = {"ph": phase, "cat": category, "name": category, "id": ident, "pid": pid, "tid": tid}
    return record | {"ts": ts} | bind | more


def test_one_call_launches_many_kernels(make):
    trace = make(
        *([call("cudaGraphLaunch", 0, 5, 9)] + [kernel(f"k{k}", 10 + k, 1, 9) for k in range(3)])
    )
    assert arrows(trace) == [("launch", "cudaGraphLaunch", f"k{k}") for k in range(3)]


def test_of_calls_that_share_an_id_the_innermost_that_launches_is_the_source(make):
    trace = make(
        call("cudaLaunchKernel", 0, 9, 4),
        call("cuLaunchKernel", 1, 5, 4),
        call("cuCtxGetCurrent", 2, 1, 4),
        kernel("k", 20, 1, 4),
    )
    assert arrows(trace) == [("launch", "cuLaunchKernel", "k")]


def test_an_id_that_is_used_again_belongs_to_the_call_before(make):
    trace = make(
        call("cudaLaunchKernel", 0, 1, 4),
        kernel("first", 5, 1, 4),
        call("cudaMemcpyAsync", 10, 1, 4),
        kernel("second", 15, 1, 4),
    )
    assert arrows(trace) == [
        ("launch", "cudaLaunchKernel", "first"),
        ("launch", "cudaMemcpyAsync", "second"),
    ]


def test_a_zero_that_calls_share_is_no_id(make):
    calls = [call("cudaLaunchKernel", k, 1, 0) for k in range(2)]
    assert arrows(make(*calls, kernel("k", 5, 1, 0))) == []
    assert len(arrows(make(calls[0], kernel("k", 5, 1, 0)))) == 1


def test_device_events_without_a_call_have_no_arrow(make):
    trace = make(call("cudaLaunchKernel", 0, 1, 1), kernel("k", 5, 1, 2))
    assert arrows(trace) == []
    assert not trace.found


def test_a_wait_for_the_device_is_linked_to_its_call(make):
    wait = kernel("Context Sync", 2, 3, 8, cat="cuda_sync", tid=-1)
    del wait["args"]["stream"]
    trace = make(call("cudaDeviceSynchronize", 0, 6, 8), wait)
    assert arrows(trace) == [("launch", "cudaDeviceSynchronize", "Context Sync")]


def test_flow_records_that_say_what_correlation_says_add_no_second_arrow(make):
    trace = make(
        op("aten::add", 0, 20),
        call("cudaLaunchKernel", 2, 5, 4),
        flow("s", 2, 4),
        kernel("k", 9, 3, 4),
        flow("f", 9, 4, tid=7, pid=0),
    )
    assert arrows(trace) == [("launch", "cudaLaunchKernel", "k")]
    assert trace.flow_table.source_record.tolist() == [2]
    assert trace.flow_table.target_record.tolist() == [4]


def test_events_that_start_at_once_are_told_apart_by_the_id(make):
    trace = make(
        call("cudaLaunchKernel", 0, 9, 4),
        call("cudaStreamIsCapturing", 0, 3, 5),
        flow("s", 0, 4),
        kernel("k", 9, 3, 4),
        flow("f", 9, 4, tid=7, pid=0),
    )
    assert arrows(trace) == [("launch", "cudaLaunchKernel", "k")]


def test_arrows_between_operators_bind_to_the_innermost_running_event(make):
    trace = make(
        op("forward", 0, 10),
        op("mul", 2, 3),
        flow("s", 3, 1, category="fwdbwd"),
        op("backward", 20, 10, tid=2),
        op("inner", 21, 2, tid=2),
        flow("f", 25, 1, tid=2, category="fwdbwd"),
    )
    assert arrows(trace) == [("fwdbwd", "mul", "backward")]


def test_an_end_without_a_binding_point_goes_to_the_next_event(make):
    end = flow("f", 8, 1, category="x")
    del end["bp"]
    trace = make(op("a", 0, 5), flow("s", 1, 1, category="x"), op("b", 9, 1), end)
    assert arrows(trace) == [("x", "a", "b")]


def test_steps_hand_an_arrow_on(make):
    trace = make(
        *(
            [op(name, 10 * k, 5) for k, name in enumerate("abc")]
            + [flow("s", 1, 1, category="x"), flow("t", 11, 1, category="x")]
            + [flow("f", 21, 1, category="x")]
        )
    )
    assert arrows(trace) == [("x", "a", "b"), ("x", "b", "c")]
    assert not trace.found


def test_ids_that_start_again_pair_by_time(make):
    trace = make(
        *(
            [op(name, 10 * k, 5) for k, name in enumerate("abcd")]
            + [flow("s", 1, 1, category="x"), flow("f", 11, 1, category="x")]
            + [flow("s", 21, 1, category="x"), flow("f", 31, 1, category="x")]
        )
    )
    assert arrows(trace) == [("x", "a", "b"), ("x", "c", "d")]


def test_an_end_that_another_clock_puts_before_its_start_still_pairs(make):
    trace = make(
        op("late", 10, 5),
        op("early", 0, 5, tid=2),
        flow("s", 11, 1, category="x"),
        flow("f", 1, 1, tid=2, category="x"),
    )
    assert arrows(trace) == [("x", "late", "early")]


def test_ids_of_other_categories_and_other_types_stay_apart(make):
    trace = make(
        op("a", 0, 5),
        op("b", 10, 5),
        flow("s", 1, 1, category="x"),
        flow("f", 11, 1, category="y"),
        flow("s", 2, 7, category="z"),
        flow("f", 12, "7", category="z"),
    )
    assert arrows(trace) == []
    assert sorted((count, detail) for _, count, detail in trace.found) == [
        (2, "flow ends without a start; kept, no arrow is drawn"),
        (2, "flow starts without an end; kept, no arrow is drawn"),
    ]


def test_flows_that_meet_no_event_are_counted(make):
    trace = make(
        op("a", 0, 5),
        flow("s", 1, 1, category="x"),
        flow("f", 50, 1, category="x"),
        flow("s", 2, 2, tid=99, category="x"),
        flow("f", 3, 2, category="x"),
    )
    assert arrows(trace) == []
    assert trace.found == [("unpaired", 2, "flows whose ends meet no event; no arrow is drawn")]


def test_flows_in_a_file_without_events_are_counted(make):
    trace = make(flow("s", 1, 1), flow("f", 2, 1))
    assert len(trace.flows) == 0
    assert [(kind, count) for kind, count, _ in trace.found] == [("unpaired", 1)]


def test_a_flow_without_an_id_is_counted(make):
    bare = flow("s", 1, 1)
    del bare["id"]
    assert make(op("a", 0, 5), bare).found == [("unpaired", 1, "flow records without an id")]


@pytest.mark.parametrize(
    ("category", "name"), [("ac2g", "ac2g"), ("async_cpu_to_gpu", "async_gpu"), ("async", "launch")]
)
def test_launch_arrows_have_one_name_in_files_of_all_years(make, category, name):
    trace = make(
        op("a", 0, 5),
        kernel("k", 9, 2),
        flow("s", 1, 1, category=category, name=name),
        flow("f", 9, 1, tid=7, pid=0, category=category, name=name),
    )
    assert arrows(trace) == [("launch", "a", "k")]
