"""Critical paths of small programs, found by hand; times are in ns."""

import pandas as pd
import pytest

import hta_widgets as hw
from hta_widgets.analysis import critical_path, critical_path_summary, path_selection
from tests.support.small import NCCL, call, copy, event, kernel, load

#: Causes of segments.
OUTSIDE, CPU, SYNC = "cpu_outside_operators", "cpu_bound", "sync_overhead"
LAUNCH, NEXT = "gpu_kernel_launch_overhead", "gpu_kernel_kernel_overhead"
UNKNOWN = "unknown_wait"
COMPUTE, MEMORY, COMM = "gpu_compute_bound", "gpu_memory_bound", "gpu_communication_bound"
STEP = "ProfilerStep#1"


def op(start, end, name="aten::op", *, tid=1, **args):
    return event("cpu_op", name, start, end, pid=10, tid=tid, **args)


def step(start, end, number=1):
    return event("user_annotation", f"ProfilerStep#{number}", start, end, pid=10, tid=1)


def adds_up(frame):
    start, end = frame.attrs["span_ns"]
    assert frame["dur_ns"].sum() == end - start
    assert (frame["dur_ns"] > 0).all()
    ends = frame["start_ns"] + frame["dur_ns"]
    assert frame["start_ns"].tolist() == [start, *ends.tolist()[:-1]]


def path(tmp_path, *events, **options):
    traces = critical_path(load(tmp_path, list(events)), 0, **options)
    if len(traces):
        adds_up(traces)
    return traces


def rows(frame):
    columns = ["start_ns", "dur_ns", "name", "bound_by"]
    frame = frame.assign(name=frame["name"].astype(str), bound_by=frame["bound_by"].astype(str))
    return [tuple(row) for row in frame[columns].itertuples(index=False)]


def by_cause(frame):
    return frame.groupby(frame["bound_by"].astype(str))["dur_ns"].sum().to_dict()


def test_threads_and_a_kernel_on_an_idle_stream(tmp_path):
    result = path(tmp_path, step(50, 400), op(100, 200, "A"), op(120, 150, "B"), op(250, 300, "C"))
    assert rows(result) == [
        (50, 50, STEP, OUTSIDE),
        (100, 20, "A", CPU),
        (120, 30, "B", CPU),
        (150, 50, "A", CPU),
        (200, 50, STEP, OUTSIDE),
        (250, 50, "C", CPU),
        (300, 100, STEP, OUTSIDE),
    ]
    assert result.attrs["length_ns"] == 150
    # A kernel on an idle stream waits for its launch.
    result = path(tmp_path, step(50, 150), call(100, 110, 1), kernel(130, 230, launch=1))
    assert rows(result) == [
        (50, 50, STEP, OUTSIDE),
        (100, 30, "gemm", LAUNCH),
        (130, 100, "gemm", COMPUTE),
    ]


def test_kernels_launched_ahead_are_bound_by_those_before_them(tmp_path):
    result = path(
        tmp_path, step(90, 150), call(100, 110, 1), call(110, 120, 2),
        kernel(130, 230, launch=1), kernel(235, 300, launch=2, name=NCCL),
    )  # fmt: skip
    assert rows(result)[1:] == [
        (100, 30, "gemm", LAUNCH),
        (130, 100, "gemm", COMPUTE),
        (230, 5, "gemm", NEXT),
        (235, 65, NCCL, COMM),
    ]
    assert result["stream"].tolist() == [-1, 7, 7, 7, 7]
    # Not if the call lasted until the stream was idle, like the first launch of a module.
    result = path(
        tmp_path, step(90, 150), call(100, 110, 1), call(110, 400, 2),
        kernel(130, 230, launch=1), kernel(410, 500, launch=2, name="relu"),
    )  # fmt: skip
    assert rows(result)[1:] == [
        (100, 10, "cudaLaunchKernel", CPU),
        (110, 300, "relu", LAUNCH),
        (410, 90, "relu", COMPUTE),
    ]


@pytest.mark.parametrize("lasting", [5, 95])
def test_a_host_that_never_waits_is_critical_however_busy_its_device_is(tmp_path, lasting):
    """Each of ten launches takes 100 ns, 95 of them while the previous kernel runs.

    The run takes as long, minus 90 ns at its end, if the device is mostly idle.
    """
    events = [op(0, 1_000, "forward")]
    for k in range(10):
        end = 100 * k + 100
        events += [call(end - 10, end, k), kernel(end + 2, end + 2 + lasting, launch=k)]
    result = path(tmp_path, step(0, 1_000), *events)
    assert by_cause(result) == {CPU: 990, LAUNCH: 12, COMPUTE: lasting}


def sync(name, start, end, correlation, *, stream=-1, **args):
    return event(
        "cuda_sync", name, start, end, pid=0, tid=stream, stream=stream, device=0,
        correlation=correlation, **args,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("name", "row"),
    [
        ("cudaDeviceSynchronize", sync("Context Sync", 120, 255, 9)),
        ("cudaStreamSynchronize", sync("Stream Sync", 120, 255, 9, stream=7)),
        ("cudaStreamSynchronize", None),  # nothing recorded, but the call blocked
        ("hipDeviceSynchronize", None),
    ],
)
def test_a_call_that_waits_hands_the_path_to_what_it_waits_for(tmp_path, name, row):
    result = path(
        tmp_path, step(90, 320), call(100, 110, 1), call(120, 260, 9, name=name),
        kernel(130, 250, launch=1), op(270, 300, "after"), *([row] if row else []),
    )  # fmt: skip
    assert rows(result)[1:] == [
        (100, 30, "gemm", LAUNCH),
        (130, 120, "gemm", COMPUTE),
        (250, 10, name, SYNC),
        (260, 10, STEP, OUTSIDE),
        (270, 30, "after", CPU),
        (300, 20, STEP, OUTSIDE),
    ]
    matched = result.attrs["matched"]
    assert (matched["recorded_waits"], matched["inferred_waits"]) == ((1, 0) if row else (0, 1))


def test_a_recorded_wait_for_a_stream_without_work_waited_for_nothing(tmp_path):
    result = path(
        tmp_path, step(90, 320), call(100, 110, 1), call(120, 260, 9, name="cudaStreamSynchronize"),
        kernel(130, 250, launch=1), sync("Stream Sync", 120, 260, 9, stream=31),
    )  # fmt: skip
    assert by_cause(result) == {OUTSIDE: 80, CPU: 150}


@pytest.mark.parametrize(
    ("end", "waits", "compute"),
    [(2_000_070, 1, 1_999_870), (1_999_990, 1, 1_999_860), (2_200_000, 0, 0)],
)
def test_a_host_that_polls_for_a_kernel_waits_for_it(tmp_path, end, waits, compute):
    result = path(
        tmp_path, step(90, 2_500_000), op(95, 2_000_000, "dispatch"), call(100, 110, 1),
        kernel(130, end, launch=1, name="notify"), op(2_000_010, 2_400_000, "after"),
    )  # fmt: skip
    assert result.attrs["matched"]["inferred_waits"] == waits
    assert by_cause(result).get(COMPUTE, 0) == compute


@pytest.mark.parametrize(
    ("end", "waits", "communication"),
    [(1_999_990, 1, 1_999_860), (2_200_000, 0, 0), (1_500_000, 0, 0)],
)
def test_a_host_waits_for_the_work_that_ends_last_not_only_for_the_last_launch(
    tmp_path, end, waits, communication
):
    """After the awaited collective, a short kernel is launched on another stream."""
    result = path(
        tmp_path, step(90, 2_500_000), op(95, 2_000_000, "wait"), call(100, 110, 1),
        call(200, 210, 2),
        kernel(130, end, launch=1, name=NCCL, stream=9), kernel(230, 260, launch=2),
        op(2_000_010, 2_400_000, "optimizer"),
    )  # fmt: skip
    assert result.attrs["matched"]["inferred_waits"] == waits
    assert by_cause(result).get(COMM, 0) == communication


@pytest.mark.parametrize(
    ("begin", "end", "waits"),
    [(300, 1_950_000, True), (300, 1_800_000, False), (1_500_000, 1_950_000, False)],
)
def test_a_thread_waits_for_the_thread_that_launches_for_it(tmp_path, begin, end, waits):
    # The first thread hands over its work. Other events end too early or fill too little time.
    result = path(
        tmp_path, step(90, 2_500_000), op(95, 2_000_000, "merge", tid=1),
        op(begin, end, "run", tid=2),
        event("mtia_runtime", "synchronizeStream", begin + 30, end - 10, pid=10, tid=2),
        event("cuda_runtime", "cudaLaunchKernel", begin + 10, begin + 20, pid=10, tid=2,
              correlation=1),
        kernel(begin + 40, end - 100, launch=1), op(2_000_010, 2_400_000, "after"),
    )  # fmt: skip
    assert by_cause(result).get(COMPUTE, 0) == (end - begin - 140 if waits else 0)
    busy = (end - begin - 140) / 2_499_910
    noted = f"{round(100 * busy)}\u202f% of the span the path is on the host while the device"
    assert (noted in result.attrs.get("note", "")) == (not waits)


def test_a_launch_does_not_poll_for_its_own_kernel(tmp_path):
    first = call(100, 2_000_000, 1)
    result = path(tmp_path, step(90, 2_500_000), first, kernel(130, 1_999_990, launch=1))
    assert result.attrs["matched"]["inferred_waits"] == 0


def test_a_copy_that_did_not_wait_is_work_of_the_host(tmp_path):
    result = path(
        tmp_path, step(90, 210), call(100, 200, 1, name="cudaMemcpyAsync"), copy(300, 310, launch=1)
    )
    assert by_cause(result) == {OUTSIDE: 10, LAUNCH: 200, MEMORY: 10}
    alone = path(tmp_path, step(90, 210), call(100, 200, name="cudaMemcpyAsync"))
    assert by_cause(alone) == {OUTSIDE: 20, CPU: 100}
    # This call does not wait for other work; the next one returns when its copy is done.
    result = path(
        tmp_path, step(90, 420), call(100, 110, 1), kernel(130, 250, launch=1),
        call(200, 300, 2, name="cudaMemcpyAsync"), copy(301, 306, launch=2, stream=9),
        call(310, 400, 3, name="cudaMemcpyAsync"), copy(350, 390, launch=3, stream=8),
    )  # fmt: skip
    assert result.attrs["matched"]["inferred_waits"] == 1
    assert by_cause(result) == {OUTSIDE: 130, CPU: 110, LAUNCH: 40, MEMORY: 40, SYNC: 10}


def test_a_kernel_waits_for_the_event_that_its_stream_waits_for(tmp_path):
    result = path(
        tmp_path, step(90, 200), call(100, 110, 1), call(110, 115, 2, name="cudaEventRecord"),
        call(120, 125, 3, name="cudaStreamWaitEvent"), call(130, 140, 4),
        kernel(130, 500, launch=1),
        sync(
            "Stream Wait Event", 126, 127, 3, stream=9, wait_on_stream=7,
            wait_on_cuda_event_record_corr_id=2,
        ),
        kernel(510, 600, launch=4, stream=9, name="second"),
    )  # fmt: skip
    assert rows(result)[1:] == [
        (100, 30, "gemm", LAUNCH),
        (130, 370, "gemm", COMPUTE),
        (500, 10, "second", SYNC),
        (510, 90, "second", COMPUTE),
    ]
    assert result.attrs["matched"]["waits_of_kernels"] == 1


def waiting_for_another_stream(*, asked=True, late=0):
    return [
        step(90, 50_000), call(100, 110, 1), call(110, 120, 2),
        *([call(130, 135, name="cudaStreamWaitEvent", tid=3)] if asked else []),
        call(140, 150, 3),
        kernel(200, 1_000, launch=1, stream=7, name="first"),
        kernel(300, 30_000, launch=2, stream=20, name=NCCL),
        kernel(31_000 + late, 40_000 + late, launch=3, stream=7, name="second"),
    ]  # fmt: skip


HELD_BACK = {OUTSIDE: 10_010, CPU: 10, LAUNCH: 190, COMM: 29_700, SYNC: 1_000, COMPUTE: 9_000}


@pytest.mark.parametrize(
    ("options", "waits", "causes"),
    [
        ({}, 1, HELD_BACK),
        # Nothing is inferred without a call, or long after one.
        ({"asked": False}, 0, {NEXT: 30_000}),
        ({"late": 30_000}, 0, {UNKNOWN: 60_000}),
    ],
)
def test_a_kernel_that_was_held_back_waited_for_the_other_stream(tmp_path, options, waits, causes):
    result = path(tmp_path, *waiting_for_another_stream(**options))
    assert result.attrs["matched"]["waits_of_kernels"] == waits
    assert by_cause(result) | causes == by_cause(result)


@pytest.mark.parametrize("copied", [20_000, 60_000])
def test_a_copy_that_ends_last_precedes_the_kernels_of_the_stream(tmp_path, copied):
    """The second kernel starts 1 us after the copy that its stream waits for."""
    result = path(
        tmp_path, step(90, 120_000), call(100, 110, 1),
        call(10_000, 10_010, 2, name="cudaMemcpyAsync"),
        call(30_000, 30_010, name="cudaStreamWaitEvent"), call(30_020, 30_030, 3),
        kernel(200, 50_000, launch=1, name="first"),
        copy(copied, 93_000, launch=2, stream=14),
        kernel(94_000, 120_000, launch=3, name="second"),
    )  # fmt: skip
    assert by_cause(result) == {
        OUTSIDE: 10 + 9_890, CPU: 10, LAUNCH: copied - 10_000, MEMORY: 93_000 - copied,
        SYNC: 1_000, COMPUTE: 26_000,
    }  # fmt: skip


def test_a_call_waits_for_an_event_of_another_stream(tmp_path):
    result = path(
        tmp_path, step(90, 700), call(100, 110, 1), call(110, 115, 2, name="cudaEventRecord"),
        call(116, 117, 5), call(130, 520, 3, name="cudaEventSynchronize"),
        kernel(130, 500, launch=1), kernel(600, 640, launch=5, name="later"),
        sync("Event Sync", 131, 515, 3, wait_on_stream=7, wait_on_cuda_event_record_corr_id=2),
        op(530, 690, "after"),
    )  # fmt: skip
    assert (SYNC, 20) in by_cause(result).items()
    assert rows(result)[-2][2] == "after"


def test_every_kernel_of_a_graph_launch_and_stream_0_take_part(tmp_path):
    result = path(
        tmp_path,
        step(90, 130),
        call(100, 120, 1, name="hipGraphLaunch"),
        *(kernel(200 + 100 * k, 290 + 100 * k, launch=1, stream=0, name=f"k{k}") for k in range(3)),
    )
    names = [row[2] for row in rows(result) if row[3] == COMPUTE]
    assert names == ["k0", "k1", "k2"]
    assert by_cause(result) == {OUTSIDE: 10, LAUNCH: 100, COMPUTE: 270, NEXT: 20}


def test_a_step_begins_with_the_work_of_earlier_steps_that_is_unfinished(tmp_path):
    result = path(
        tmp_path, step(10, 90, 1), call(20, 30, 1), kernel(40, 500, launch=1),
        step(90, 130, 2), call(100, 110, 2), kernel(510, 600, launch=2, name="second"), instance=1,
    )  # fmt: skip
    assert rows(result) == [
        (90, 410, "gemm", COMPUTE),
        (500, 10, "gemm", NEXT),
        (510, 90, "second", COMPUTE),
    ]


def test_the_backward_thread_goes_on_where_the_forward_thread_waits(tmp_path):
    result = path(
        tmp_path,
        step(90, 700),
        op(100, 200, "forward"),
        op(250, 400, "autograd::engine::evaluate_function: AddmmBackward0", tid=2),
        op(450, 650, "optimizer"),
    )
    assert by_cause(result) == {CPU: 450, OUTSIDE: 160}
    assert result["tid"].tolist()[1:-1] == ["1", "", "2", "", "1"]
    assert result.attrs["matched"]["hand_overs"] == 2


def test_loading_data_is_named(tmp_path):
    loader = op(100, 200, "enumerate(DataLoader)#_Iter.__next__")
    events = [step(90, 320), loader, op(120, 180, "aten::stack"), op(210, 300, "my_loader")]
    assert by_cause(path(tmp_path, *events)) == {"data_loading": 100, CPU: 90, OUTSIDE: 40}
    own = path(tmp_path, *events, data_load_events=["^my_"])
    assert by_cause(own)["data_loading"] == 90


def test_several_instances_and_the_whole_rank(tmp_path):
    events = [step(100, 200, 1), op(110, 190), step(200, 300, 2), op(210, 290), op(310, 350)]
    assert path(tmp_path, *events, instance=(0, 1)).attrs["span_ns"] == (100, 300)
    assert path(tmp_path, *events, instance=1).attrs["span_ns"] == (200, 300)
    full = path(tmp_path, *events, annotation="")
    assert full.attrs["span_ns"] == (0, 350)


def test_a_range_ends_where_the_next_begins(tmp_path):
    result = path(
        tmp_path, step(100, 200, 1), op(110, 190, "mine"), op(150, 900, "goes on", tid=2),
        step(200, 300, 2), op(200, 290, "next"),
    )  # fmt: skip
    assert result.attrs["span_ns"] == (100, 200)
    assert result["name"].astype(str).tolist() == [STEP, "mine", STEP]


def test_a_rank_without_events_has_no_path(tmp_path):
    traces = load(tmp_path, [step(100, 200), op(110, 190)]).subset(start_ns=5_000, end_ns=6_000)
    for annotation in ("ProfilerStep", ""):
        for rank in traces:
            result = critical_path(traces, rank, annotation)
            assert not len(result)
            assert result.attrs["note"]


def test_wrong_arguments_say_what_there_is(tmp_path):
    traces = load(tmp_path, [step(100, 200, 7), op(110, 190)])
    with pytest.raises(hw.TraceError, match=r"no instance 3.*It has 1.*ProfilerStep#7"):
        critical_path(traces, 0, instance=3)
    with pytest.raises(hw.TraceError, match="no rank 5"):
        critical_path(traces, 5)
    with pytest.raises(hw.TraceError, match="takes a TraceSet, not <Trace rank 0"):
        critical_path(traces[0], 0)
    for wrong in (-1, (1, 0), "first", (0, 1, 2), True):
        with pytest.raises(hw.TraceError, match=r"instance= takes|is not an instance"):
            critical_path(traces, 0, instance=wrong)
    with pytest.raises(
        hw.TraceError, match=r"'\(' in data_load_events is not a regular expression"
    ):
        critical_path(traces, 0, data_load_events=["("])


@pytest.mark.parametrize(
    ("name", "span"),
    [
        ("step[DECODE bs=16]", (100, 200)),
        ("execute_32_context_0", (100, 200)),
        ("decode[bs=16 tok=16]", (100, 200)),
        ("prefill[bs=2 tok=512]", (100, 200)),
        ("mine", (0, 350)),
    ],
)
def test_without_steps_of_the_profiler_those_of_an_engine_or_all_events_count(tmp_path, name, span):
    engine = event("user_annotation", name, 100, 200, pid=10, tid=1)
    result = path(tmp_path, engine, op(110, 190), op(300, 350))
    assert result.attrs["span_ns"] == span
    assert "no event has 'ProfilerStep' in its name" in result.attrs["note"]


def test_without_the_range_there_is_an_empty_table_and_a_reason(tmp_path):
    result = path(tmp_path, op(110, 190), annotation="forward")
    assert not len(result)
    assert "'forward'" in result.attrs["note"]
    assert isinstance(critical_path_summary(result), pd.DataFrame)
    full = path(tmp_path, step(100, 200))
    assert rows(full) == [(100, 100, STEP, OUTSIDE)]
    assert full.attrs["note"], "nothing is in the range"
    numbers = ["rank", "start_ns", "dur_ns", "id", "stream"]
    assert result[numbers].dtypes.equals(full[numbers].dtypes)
    assert list(result.columns) == list(full.columns)


def test_what_has_no_operators_or_no_launches_is_on_the_path(tmp_path):
    gloo = event("user_annotation", "gloo:all_reduce", 120, 180, pid=10, tid=2)
    assert by_cause(path(tmp_path, step(100, 200), gloo))[CPU] == 60
    device = path(tmp_path, kernel(100, 200), kernel(210, 300), annotation="")
    assert by_cause(device)[COMPUTE] == 190


@pytest.mark.parametrize(("begin", "end", "outside"), [(900, 1500, OUTSIDE), (300, 900, None)])
def test_what_another_thread_does_at_the_end_is_not_nothing(tmp_path, begin, end, outside):
    """A thread pool keeps working after the last kernel, which it did not launch."""
    pool = op(begin, end, "ThreadPool", tid=2)
    result = path(tmp_path, call(0, 10, 1), kernel(20, 1000, launch=1), pool, annotation="")
    assert by_cause(result) == {LAUNCH: 20, COMPUTE: 980} | ({outside: 500} if outside else {})


def test_the_path_adds_up_and_is_a_selection(tmp_path):
    events = [step(50, 150), call(100, 110, 1), kernel(130, 230, launch=1), op(10, 20)]
    traces = load(tmp_path, events)
    result = critical_path(traces, 0)
    names = traces[0].events.loc[[i for _, i in path_selection(result, traces).ids], "name"]
    assert sorted(names) == [STEP, "cudaLaunchKernel", "gemm"]
    summary = critical_path_summary(result)
    assert summary["share"].sum() == pytest.approx(1)
    summary["bound_by"] = summary["bound_by"].astype(str)
    assert summary[["bound_by", "dur_ns", "count"]].to_numpy().tolist() == [
        [COMPUTE, 100, 1],
        [OUTSIDE, 50, 1],
        [LAUNCH, 30, 1],
    ]


@pytest.mark.parametrize(
    "name", ["cudaStreamSynchronize", "hipMemcpyWithStream", "cudaMemcpyAsync"]
)
def test_a_wait_for_work_that_is_not_in_the_file_is_no_work_of_the_host(tmp_path, name):
    """The device has no recorded work for 5 ms before its first kernel, or after it."""
    ms = 1_000_000
    result = path(
        tmp_path,
        step(0, 13 * ms),
        call(0, 5 * ms, name=name),
        call(5 * ms, 5 * ms + 1000, 1),
        kernel(6 * ms, 7 * ms, launch=1),
        call(7 * ms, 12 * ms, name=name),
        call(12 * ms, 12 * ms + 1000, 2),
        kernel(12 * ms + 1000, 13 * ms, launch=2),
    )
    causes = by_cause(result)
    assert causes["cpu_blocked"] >= 9 * ms
    assert CPU not in causes
    # Short waits, and waits while the device mostly works, are unchanged.
    result = path(tmp_path, step(0, ms), call(0, 900_000, name=name))
    assert by_cause(result)[CPU] == 900_000
