"""Launches and the queues they wait in, checked by hand."""

import numpy as np
import pytest
from support.small import NCCL, call, copy, event, kernel, load, nccl

from hta_widgets import analysis
from hta_widgets.analysis import (
    launch_outliers,
    launch_stats,
    queue_length,
    queue_length_summary,
    time_blocked_on_full_queue,
)
from hta_widgets.analysis.queues import queue_steps
from hta_widgets.analysis.scope import rank_parts


@pytest.fixture
def job(tmp_path):
    rank = [
        call(100, 110, 1), kernel(150, 200, launch=1),
        # starts while the call still runs: no delay
        call(120, 160, 2), kernel(130, 140, launch=2, name="relu", stream=8),
        # a graph launches three at once
        call(200, 230, 3, name="cudaGraphLaunch"),
        kernel(260, 270, launch=3), kernel(250, 260, launch=3, name="relu"),
        copy(270, 300, launch=3),
        call(300, 310, 4, name="hipMemcpyWithStream"), copy(330, 340, launch=4, stream=0),
        # the driver call inside the runtime call launches; the kernel counts once
        call(400, 480, 5), call(410, 440, 5, name="cuLaunchKernelEx"),
        nccl(500, 900, correlation=5),
        # a wait is not work; a kernel without a call is counted
        call(600, 610, 6, name="cudaStreamWaitEvent"),
        event("cuda_sync", "Stream Wait Event", 620, 630, tid=7, stream=7, correlation=6),
        kernel(950, 960, name="orphan"),
    ]  # fmt: skip
    return load(tmp_path, rank, [call(700, 750, 9), kernel(800, 801, launch=9, name="other")])


def test_each_launch_with_each_kernel(job):
    frame = launch_stats(job)
    columns = [
        "rank", "correlation", "kernel", "launch", "stream", "cpu_dur_ns", "gpu_dur_ns",
        "launch_delay_ns",
    ]  # fmt: skip
    assert frame[columns].to_numpy().tolist() == [
        [0, 1, "gemm", "cudaLaunchKernel", 7, 10, 50, 40],
        [0, 2, "relu", "cudaLaunchKernel", 8, 40, 10, 0],
        [0, 3, "relu", "cudaGraphLaunch", 7, 30, 10, 20],
        [0, 3, "gemm", "cudaGraphLaunch", 7, 30, 10, 30],
        [0, 3, "Memcpy HtoD", "cudaGraphLaunch", 7, 30, 30, 40],
        [0, 4, "Memcpy HtoD", "hipMemcpyWithStream", 0, 10, 10, 20],
        [0, 5, NCCL, "cuLaunchKernelEx", 20, 30, 400, 60],
        [1, 9, "other", "cudaLaunchKernel", 7, 50, 1, 50],
    ]
    assert frame["kind"].tolist() == ["compute"] * 4 + ["memory"] * 2 + ["communication", "compute"]
    assert frame.attrs["matched"] == {
        "compute": 6, "communication": 1, "memory": 2, "launched": 8,
    }  # fmt: skip
    assert frame.attrs["unlaunched"] == 1
    for row in frame.itertuples():
        events = job[row.rank].events
        assert events["dur_ns"][row.launch_id] == row.cpu_dur_ns
        assert events["name"][row.kernel_id] == row.kernel


def test_copies_can_be_left_out_and_a_window_selects_and_cuts_nothing(job):
    frame = launch_stats(job, include_memory=False)
    assert frame["correlation"].tolist() == [1, 2, 3, 3, 5, 9]
    assert frame.attrs["matched"] == {"compute": 6, "communication": 1, "launched": 6}
    frame = launch_stats(job, window=(160, 255), ranks=[0])
    columns = ["correlation", "cpu_dur_ns", "gpu_dur_ns"]
    assert frame[columns].to_numpy().tolist() == [[1, 10, 50], [3, 30, 10]]
    assert launch_stats(job, selection=job.select("stream == 8"))["correlation"].tolist() == [2]


def test_outliers_by_kernel(job, tmp_path):
    frame = launch_outliers(job, runtime_cutoff_ns=30, launch_delay_cutoff_ns=40)
    # calls of at most 30: 1, 3, 4, 5, none with less device time (graph: 50, copy: 10)
    columns = ["outlier", "rank", "kernel", "count", "launches"]
    assert sorted(frame[columns].to_numpy().tolist()) == [
        ["late start", 0, NCCL, 1, 1],
        ["late start", 1, "other", 1, 1],
        ["long call", 0, "relu", 1, 2],
        ["long call", 1, "other", 1, 1],
    ]
    assert frame["share"].tolist() == (frame["count"] / frame["launches"]).tolist()
    long = frame[(frame["outlier"] == "long call") & (frame["rank"] == 0)].iloc[0]
    assert long[["cpu_sum_ns", "gpu_sum_ns", "launch_delay_sum_ns"]].tolist() == [40, 10, 0]
    assert frame.attrs["matched"]["short kernel"] == 0
    none = launch_outliers(job, runtime_cutoff_ns=10**6, launch_delay_cutoff_ns=10**6, ranks=[1])
    assert none["outlier"].tolist() == ["short kernel"], "1 ns of kernel for 50 ns of call"
    quiet = load(tmp_path, [call(0, 10, 1), kernel(20, 90, launch=1)])
    assert launch_outliers(quiet).attrs["note"] == "no launch stands out"


def test_a_graph_s_call_counts_once_for_its_first_kernel(tmp_path):
    kernels = [kernel(at, at + 9, launch=1, name=f"node {at}") for at in (230, 210, 220)]
    frame = launch_outliers(load(tmp_path, [call(0, 100, 1, name="hipGraphLaunch"), *kernels]))
    columns = ["outlier", "kernel", "count", "launches", "cpu_sum_ns", "gpu_sum_ns"]
    assert frame[columns].to_numpy().tolist() == [["short kernel", "node 210", 1, 1, 100, 27]]


#: Two kernels launched before the file starts, and a later one without a launch.
PRELAUNCHED = [
    kernel(0, 200), kernel(200, 300), kernel(250, 350, stream=9),
    call(10, 20, 1), kernel(400, 900, launch=1), kernel(950, 1050),
]  # fmt: skip
SAYS = (
    "3 of the device events, 40 % of their time, were launched before recording began;"
    ' the query "prelaunched == False" leaves them out'
)


def test_work_launched_before_recording_began_is_said_and_can_be_left_out(tmp_path):
    traces = load(tmp_path, PRELAUNCHED)
    assert traces[0].events[traces[0].prelaunched].dur_ns.tolist() == [200, 100, 100]
    for name in ("temporal_breakdown", "kernel_breakdown", "operators", "launch_stats"):
        analyse = getattr(analysis, name)
        assert analyse(traces).attrs["note"].startswith(SAYS)
        rest = analyse(traces, selection="prelaunched == False")
        assert "launched before" not in rest.attrs.get("note", "")
    rest = analysis.kernel_breakdown(traces, selection="prelaunched == False")
    assert rest.sum_ns.tolist() == [600]
    assert analysis.temporal_breakdown(traces, window=(300, 400)).attrs["note"].startswith("1 of")
    # Files without launches lack these figures.
    traces = load(tmp_path, [kernel(0, 200), kernel(300, 400)])
    assert not traces[0].prelaunched.any()
    assert "note" not in analysis.temporal_breakdown(traces).attrs


@pytest.fixture
def queues(tmp_path):
    # stream 7:  +100 +120 -130 -200       +300 (two of a graph) -320 -340
    # stream 0:       +150 -150 (starts as it is launched)
    # stream 9: a kernel that seems to start before its call never waits
    rank = [
        call(100, 110, 1), kernel(130, 190, launch=1),
        call(120, 125, 2, name="cudaMemcpyAsync"), copy(200, 210, launch=2),
        call(300, 310, 3, name="cudaGraphLaunch"),
        kernel(320, 330, launch=3), kernel(340, 345, launch=3),
        call(150, 160, 4, name="hipLaunchKernel"), kernel(150, 170, launch=4, stream=0),
        call(400, 410, 5), kernel(395, 405, launch=5, stream=9),
        call(500, 510, 6, name="cudaEventSynchronize"),
        event("cuda_sync", "Event Sync", 505, 506, tid=7, stream=7, correlation=6),
        kernel(600, 610, name="orphan"),
    ]  # fmt: skip
    return load(tmp_path, rank)


def lengths(frame):
    return [tuple(row) for row in frame[["stream", "time_ns", "queue_length"]].to_numpy().tolist()]


def test_one_row_per_stream_and_instant_of_change(queues):
    frame = queue_length(queues)
    assert lengths(frame) == [
        (0, 150, 0),
        (7, 100, 1), (7, 120, 2), (7, 130, 1), (7, 200, 0), (7, 300, 2), (7, 320, 1), (7, 340, 0),
        (9, 400, 0),
    ]  # fmt: skip
    assert frame.attrs["matched"] == {
        "compute": 6, "communication": 0, "memory": 1, "launched": 6,
    }  # fmt: skip
    assert (frame.attrs["unlaunched"], frame.attrs["early"]) == (1, 1)
    selected = queue_length(queues, selection=queues.select("kind == 'memory'"))
    assert lengths(selected) == [(7, 120, 1), (7, 200, 0)]
    assert queue_length(queues, window=(50, 50)).empty


def test_every_change_has_its_event(queues):
    (part,) = rank_parts(queues)
    steps = queue_steps(part)
    names = queues[0].events["name"].astype(str)
    assert len(steps.row) == 2 * 6
    first = steps.streams.tolist().index(7)
    of_seven = steps.code == first
    assert names[steps.row[of_seven]].tolist() == [
        "cudaLaunchKernel", "cudaMemcpyAsync", "gemm", "Memcpy HtoD",
        "cudaGraphLaunch", "cudaGraphLaunch", "gemm", "gemm",
    ]  # fmt: skip
    assert steps.queue_length[of_seven].tolist() == [1, 2, 1, 0, 1, 2, 1, 0]
    assert set(steps.streams[steps.code]) == set(queues[0].table.stream[steps.device_row])


def test_statistics_by_change_and_by_time(queues):
    frame = queue_length_summary(queues).set_index("stream")
    seven = frame.loc[7]
    values = [1, 2, 1, 0, 1, 2, 1, 0]
    assert seven["count"] == 8
    assert seven["mean"] == pytest.approx(np.mean(values))
    assert seven["std"] == pytest.approx(np.std(values, ddof=1))
    assert [seven[q] for q in ("min", "25%", "50%", "75%", "max")] == [0, 0.75, 1, 1.25, 2]
    # 1 for 20, 2 for 10, 1 for 70, 0 for 100, 2 for 20 and 1 for 20, of 240 in total
    assert seven["span_ns"] == 240
    assert seven["time_weighted_mean"] == pytest.approx((20 + 20 + 70 + 40 + 20) / 240)
    assert np.isnan(frame.loc[9, "time_weighted_mean"]), "no time passes between its changes"
    inside = queue_length_summary(queues, window=(125, 250)).set_index("stream").loc[7]
    assert (inside["count"], inside["span_ns"]) == (2, 125)


def test_blocked_time_counts_launches_of_a_full_queue(queues):
    frame = time_blocked_on_full_queue(queues, max_queue_length=1)
    # The graph counts as one launch, which waits from 300 to 320.
    assert frame.set_index("stream")["duration_ns"].to_dict() == {0: 0, 7: 100 + 20, 9: 0}
    assert frame["trace_ns"].tolist() == [600] * 3, "first start 0, last start 600"
    assert frame["share"].tolist() == [0, pytest.approx(0.2), 0]
    cut = time_blocked_on_full_queue(queues, max_queue_length=1, window=(110, 310))
    assert cut.set_index("stream").loc[7][["duration_ns", "trace_ns"]].tolist() == [90 + 10, 200]


def test_a_launch_on_streams_with_wide_ids_counts_once_a_stream(tmp_path):
    """The product of such ids and the number of calls exceeds 64 bits."""
    streams = (1 << 62) + 1, (1 << 62) + 3
    rank = [call(100 * n, 100 * n + 10, n + 1, name="hipGraphLaunch") for n in range(5)]
    for stream in streams:
        for n in range(5):
            rank += [
                kernel(100 * n + 50 + k, 100 * n + 51 + k, launch=n + 1, stream=stream)
                for k in (0, 20)
            ]
    frame = time_blocked_on_full_queue(load(tmp_path, rank), max_queue_length=1)
    # From each call to the first of its two kernels on the stream.
    assert frame.set_index("stream")["duration_ns"].to_dict() == dict.fromkeys(streams, 5 * 50)


def many(tmp_path, count, first):
    calls = [call(10 * n, 10 * n + 5, n + 1) for n in range(count)]
    kernels = [kernel(first + 3 * n, first + 3 * n + 2, launch=n + 1) for n in range(count)]
    return load(tmp_path, calls + kernels)


def test_1024_launches_fill_a_queue(tmp_path):
    queues = many(tmp_path, 1030, 10_300)
    assert queue_length(queues)["queue_length"].max() == 1030
    # The queue holds 1024 from the 1024th call until the 7th kernel starts.
    blocked = time_blocked_on_full_queue(queues)["duration_ns"].tolist()
    assert blocked == [10_300 + 3 * 6 - 10 * 1023]
    assert time_blocked_on_full_queue(queues, max_queue_length=1031)["duration_ns"].tolist() == [0]


def test_a_queue_that_stays_just_below_the_limit_is_told(tmp_path):
    queues = many(tmp_path, 1022, 50_000)
    frame = time_blocked_on_full_queue(queues)
    # All 1022 wait from the last call at 10,210 until the first start at 50,000.
    columns = ["duration_ns", "peak", "at_peak_ns"]
    assert frame[columns].to_numpy().tolist() == [[0, 1022, 50_000 - 10_210]]
    for words in ("rank 0, stream 7", "1,022", "max_queue_length"):
        assert words in frame.attrs["note"]
    for limit in (1022, 1050):
        frame = time_blocked_on_full_queue(queues, max_queue_length=limit)
        assert "note" not in frame.attrs
    cut = time_blocked_on_full_queue(queues, window=(0, 101))
    assert cut[["peak", "at_peak_ns"]].to_numpy().tolist() == [[11, 1]]


def test_the_mean_over_time_begins_with_the_first_change(queues):
    # Stream 7 changes first at 100 and last at 340.
    frame = queue_length_summary(queues, window=(50, 125)).set_index("stream")
    assert frame.loc[7, "span_ns"] == 25
    assert "note" not in frame.attrs
    for window in ((5, 5), (2_000, 3_000)):
        frame = queue_length_summary(queues, window=window)
        assert frame["count"].tolist() == frame["span_ns"].tolist() == [0, 0, 0]
        assert "has work or changes in the window" in frame.attrs["note"]
