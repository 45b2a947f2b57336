"""Gaps on streams and on whole devices, in cases that can be checked by hand."""

import numpy as np
import pytest
from support.small import call, copy, event, kernel, load, nccl

from hta_widgets.analysis import (
    device_idle_breakdown,
    device_idle_gaps,
    idle_interval_stats,
    idle_time_breakdown,
    temporal_breakdown,
)


def cells(frame, value):
    """Return the nonzero values as {(stream, category): value}."""
    rows = zip(frame["stream"], frame["idle_category"], frame[value], strict=True)
    return {(stream, category): number for stream, category, number in rows if number}


@pytest.fixture
def streams(tmp_path):
    rank = [
        # Launched at 950, after the gap began at 900: the host was late.
        kernel(100, 900, launch=1), call(50, 60, 1),
        kernel(2000, 2100, launch=2), call(950, 960, 2),
        # Launched before the gap began. The gap is short: 29,999 ns.
        kernel(32_099, 32_200, launch=3), call(970, 980, 3),
        # As before, but 30,000 ns is not short.
        kernel(62_200, 62_300, launch=4), call(990, 1000, 4),
        # Launched just when the previous kernel ended: not late.
        kernel(62_400, 62_500, launch=5), call(62_300, 62_350, 5),
        # Without launches in the file, only the length counts.
        kernel(62_501, 62_600), copy(200_000, 200_100),
        # Another stream with overlapping kernels: a short one ends inside a long one.
        nccl(0, 1000, launch=6), call(1, 2, 6), nccl(500, 600, launch=7), call(3, 4, 7),
        nccl(1100, 1200, launch=8), call(700, 705, 8),
        event("cuda_sync", "Stream Wait Event", 63_000, 199_000, tid=7, stream=7),
    ]  # fmt: skip
    return load(tmp_path, rank)


def test_each_gap_goes_to_one_category(streams):
    frame = idle_time_breakdown(streams)
    assert cells(frame, "idle_ns") == {
        (7, "host_wait"): 1100,
        (7, "kernel_wait"): 29_999 + 100 + 1,
        (7, "other"): 30_000 + 137_400,
        (20, "kernel_wait"): 0 + 100,
    }
    # The overlapping pair counts, without a gap in between; 1100 follows 1000, not 600.
    assert cells(frame, "gaps") == {
        (7, "host_wait"): 1, (7, "kernel_wait"): 3, (7, "other"): 2, (20, "kernel_wait"): 2,
    }  # fmt: skip
    share = frame.set_index(["stream", "idle_category"])["idle_share"]
    assert share[7, "host_wait"] == pytest.approx(1100 / 198_600)
    assert share[20, "kernel_wait"] == 1


def test_thresholds_and_streams(streams):
    frame = idle_time_breakdown(streams, consecutive_kernel_delay_ns=30_001, streams=[7])
    assert cells(frame, "idle_ns")[7, "kernel_wait"] == 29_999 + 100 + 1 + 30_000
    frame = idle_time_breakdown(streams, consecutive_kernel_delay_ns=1, streams=[7])
    assert (7, "kernel_wait") not in cells(frame, "idle_ns")
    assert set(idle_interval_stats(streams, streams=[20, 7])["stream"]) == {7, 20}
    assert idle_time_breakdown(streams, streams=[99]).empty


def test_a_stream_that_never_idles_has_no_shares_and_statistics(tmp_path):
    traces = load(tmp_path, [kernel(0, 5, stream=0), kernel(5, 9, stream=0)])
    frame = idle_time_breakdown(traces)
    assert frame[["stream", "idle_ns", "gaps"]].to_numpy().tolist() == [
        [0, 0, gaps] for gaps in (0, 1, 0)
    ]
    assert np.isnan(frame["idle_share"]).all()
    frame = idle_interval_stats(traces)
    assert frame["count"].tolist() == [0, 1, 0]
    assert np.isnan(frame[["mean_ns", "min_ns", "p50_ns", "max_ns"]].iloc[0]).all()


def test_statistics_of_gaps(streams):
    frame = idle_interval_stats(streams, streams=[7])
    frame = frame.set_index("idle_category").drop(columns=["rank", "stream"])
    assert frame.loc["kernel_wait"].tolist() == pytest.approx(
        # 1, 100 and 29,999
        [3, 30_100 / 3, np.std([1, 100, 29_999], ddof=1), 1, 50.5, 100, 15_049.5, 29_999]
    )
    single = frame.loc["host_wait"]
    assert single.drop("std_ns").tolist() == [1, 1100, 1100, 1100, 1100, 1100, 1100]
    assert np.isnan(single["std_ns"])


def causes(traces, **options):
    """Return the nonzero times as {category: ns}."""
    idle = device_idle_breakdown(traces, **options).set_index("idle_category")["idle_ns"]
    return idle[idle > 0].to_dict()


@pytest.fixture
def device(tmp_path):
    rank = [
        kernel(1000, 2000, launch=1), call(900, 950, 1),
        # 2000 - 10,000: the host waits for the device until 2300, loads data until 3500, is in an
        # operator until 4300, in a Python function until 4800, unrecorded until 5000, and in the
        # launch until 6000. The kernel starts at 10,000.
        call(1200, 2300, name="cudaStreamSynchronize"),
        event("user_annotation", "enumerate(DataLoader)#_Iter.__next__", 1100, 3500, pid=10),
        event("cpu_op", "aten::stack", 2500, 4300, pid=10),
        event("python_function", "dataloader_test/train.py(3): step", 1000, 4800, pid=10),
        kernel(10_000, 11_000, launch=2), call(5000, 6000, 2),
        # 11,000 - 11,500: launched long before.
        kernel(11_500, 20_000, launch=3, stream=8), call(6100, 6200, 3),
        # While stream 8 works, the gap on stream 7 is not a gap of the device.
        kernel(15_000, 15_100, launch=4), call(14_000, 14_010, 4),
        # 20,000 - 60,000: launched long before but not started.
        copy(60_000, 60_100, launch=5), call(6300, 6400, 5),
        # 60,100 - 60,150: the call began before the gap and ended in it.
        kernel(60_150, 60_200, launch=6), call(60_000, 60_130, 6),
        # 60,200 - 60,900: no launch. Another thread waits all the time but launches nothing.
        kernel(60_900, 61_000),
        call(0, 61_000, name="cudaDeviceSynchronize", tid=2),
        # 61,000 - 62,000: two kernels start together; the one on stream 8 was launched first.
        kernel(62_000, 62_100, launch=7), call(61_900, 61_910, 7),
        kernel(62_000, 62_050, launch=8, stream=8), call(61_400, 61_450, 8),
        event("cuda_sync", "Event Sync", 20_000, 60_000, tid=7, stream=7),
    ]  # fmt: skip
    return load(tmp_path, rank)


def test_each_nanosecond_without_work_has_one_cause(device):
    frame = device_idle_breakdown(device).set_index("idle_category")
    assert frame["idle_ns"].to_dict() == {
        "sync_wait": 300,
        "host_allocation": 0,
        "host_data_loading": 1200,
        "host_operator": 800,
        "host_python": 500,
        "host_nothing": 200 + 400,
        "launch_call": 1000 + 30 + 50,
        "launch_latency": 4000 + 20 + 550,
        "kernel_wait": 500,
        "stream_wait": 0,
        "blocked": 40_000,
        "unrecorded": 0,
        "unknown": 700,
    }
    assert frame["gaps"].tolist() == [1, 0, 1, 1, 1, 2, 3, 3, 1, 0, 1, 0, 1]
    assert frame["max_ns"].tolist() == [
        300, 0, 1200, 800, 500, 400, 1000, 4000, 500, 0, 40_000, 0, 700,
    ]  # fmt: skip
    assert frame["idle_share"].sum() == pytest.approx(1)
    assert frame["idle_ns"].sum() == temporal_breakdown(device)["idle_ns"].sum()


def test_gaps_one_by_one(device):
    frame = device_idle_gaps(device)
    assert frame["start_ns"].tolist() == [2000, 11_000, 20_000, 60_100, 60_200, 61_000]
    assert frame["dur_ns"].tolist() == [8000, 500, 40_000, 50, 700, 1000]
    assert frame["idle_category"].tolist() == [
        "launch_latency", "kernel_wait", "blocked", "launch_call", "unknown", "launch_latency",
    ]  # fmt: skip
    assert frame["next_name"].tolist() == ["gemm", "gemm", "Memcpy HtoD", "gemm", "gemm", "gemm"]
    *parts, host = [column for column in frame.columns if column.endswith("_ns")][2:]
    assert (frame[parts].sum(axis=1) == frame["dur_ns"]).all()
    assert frame[host].tolist() == [2700, 0, 0, 0, 0, 400]
    assert (frame.filter(regex="^host_(?!wait)").sum(axis=1) == frame[host]).all()
    events = device.events()
    launch = events.iloc[frame["launch_id"].iloc[-1]]
    assert (launch["start_ns"], launch["name"]) == (61_400, "cudaLaunchKernel")
    assert frame["launch_id"].iloc[4] == -1
    assert events.iloc[frame["next_id"].iloc[-1]]["stream"] == 8


def test_thresholds_of_device_gaps_and_the_longest_of_them(device):
    assert device_idle_gaps(device, top=2)["dur_ns"].tolist() == [40_000, 8000]
    idle = causes(device, consecutive_kernel_delay_ns=500)
    assert ("kernel_wait" in idle, idle["blocked"]) == (False, 40_500)


def test_causes_need_no_selected_launches(device):
    # 20,000 to 62,000, launched at 61,400; from 60,000 on, a call of 130 ns launches other work.
    assert causes(device, selection=device.select("stream == 8")) == {
        "host_operator": 130, "host_nothing": 41_270, "launch_call": 50, "launch_latency": 550,
    }  # fmt: skip


def test_work_behind_a_stream_wait_is_told_from_what_does_not_start(tmp_path):
    rank = [
        kernel(0, 1000, launch=1), call(-200, -190, 1),
        # Both kernels are queued before their gaps; only the first comes after the wait.
        call(100, 110, name="cudaStreamWaitEvent"),
        kernel(50_000, 51_000, launch=2, stream=20), call(200, 210, 2),
        kernel(151_000, 152_000, launch=3), call(220, 230, 3),
        # A wait on another thread has no effect.
        call(240, 250, name="cudaStreamWaitEvent", tid=3),
        kernel(192_000, 193_000, launch=4), call(260, 270, 4),
    ]  # fmt: skip
    assert causes(load(tmp_path, rank)) == {"stream_wait": 49_000, "blocked": 100_000 + 40_000}


@pytest.mark.parametrize(
    "name", ["hipStreamWaitEvent", "musaStreamWaitEvent", "cuStreamWaitValue32"]
)
def test_a_stream_wait_counts_however_late_the_launch_comes(tmp_path, name):
    rank = [
        kernel(0, 1000, launch=1), call(-200, -190, 1),
        call(1100, 1200, name=name), call(2000, 2100, 2),
        kernel(5_002_100, 5_003_000, launch=2),
        # Within the device latency, a launch after a wait is an ordinary launch.
        call(5_003_100, 5_003_200, name=name), call(5_004_000, 5_004_100, 3),
        kernel(5_010_000, 5_011_000, launch=3),
    ]  # fmt: skip
    assert causes(load(tmp_path, rank)) == {
        "host_operator": 200, "host_nothing": 900 + 900, "launch_call": 200,
        "stream_wait": 5_000_000, "launch_latency": 5_900,
    }  # fmt: skip


ALLOCATOR = ["cudaMalloc", "hipFree", "cudaHostAlloc", "cudaMallocAsync", "hipHostMalloc"]
ALLOCATOR += ["cuMemCreate", "cuMemAlloc_v2", "hipExtMallocWithFlags", "cudaFreeHost"]
ALLOCATOR += ["urUSMDeviceAlloc", "zeMemFree", "cudaMemPoolTrimTo"]
ALLOCATOR += ["aclrtMalloc", "aclrtUnmapMem", "hipMallocAsync", "hsa_amd_memory_pool_free"]
OTHER_CALLS = ["cudaEventCreate", "cudaGetDevice", "cuModuleLoad", "aclrtCreateStream"]


@pytest.mark.parametrize("name", [*ALLOCATOR, *OTHER_CALLS])
def test_the_innermost_call_names_the_cause(tmp_path, name):
    rank = [
        kernel(0, 1000, launch=1), call(-200, -190, 1),
        event("cpu_op", "aten::empty", 1000, 9000, pid=10, tid=1), call(2000, 8000, name=name),
        call(9000, 9100, 2), kernel(9100, 9200, launch=2),
    ]  # fmt: skip
    in_call = 6000 if name in ALLOCATOR else 0
    expected = {"host_allocation": in_call, "host_operator": 8000 - in_call, "launch_call": 100}
    assert causes(load(tmp_path, rank)) == {cause: ns for cause, ns in expected.items() if ns}


@pytest.mark.parametrize("category", ["Operator", "cpu_op", "user_annotation"])
def test_a_step_is_no_operator(tmp_path, category):
    rank = [
        kernel(0, 1000, launch=1), call(-200, -190, 1),
        event(category, "ProfilerStep#3", -300, 9500, pid=10, tid=1),
        event("Operator", "aten::mm", 7000, 9150, pid=10, tid=1),
        call(9000, 9100, 2), kernel(9100, 9200, launch=2),
    ]  # fmt: skip
    expected = {"host_nothing": 6000, "host_operator": 2000, "launch_call": 100}
    assert causes(load(tmp_path, rank)) == expected


def test_memory_calls_of_another_thread_precede_python(tmp_path):
    rank = [
        kernel(0, 1000, launch=1), call(-200, -190, 1),
        event("python_function", "train.py(3): step", 0, 9000, pid=10, tid=1),
        call(2000, 8000, name="cudaFree", tid=2), call(8000, 8100, 3, tid=2),
        call(9000, 9100, 2), kernel(9100, 9200, launch=2), kernel(9150, 9200, launch=3),
    ]  # fmt: skip
    assert causes(load(tmp_path, rank)) == {
        "host_allocation": 6000, "host_python": 2000, "launch_call": 100,
    }  # fmt: skip


@pytest.mark.parametrize("name", ["cudaStreamSynchronize", "cudaMemcpyAsync"])
def test_a_host_that_waits_while_nothing_runs_waits_for_work_outside_of_the_file(tmp_path, name):
    """Copies to pageable memory return when they are done, despite their name."""

    def rank(end, *more):
        return [
            kernel(0, 1000, launch=1), call(-200, -190, 1), *more, call(1000, 1100, 2),
            call(1100, end, name=name), kernel(end - 50, end, launch=2),
        ]  # fmt: skip

    traces = causes(load(tmp_path, rank(9_000_000)))
    assert traces == {"launch_call": 100, "unrecorded": 8_998_850}
    split = temporal_breakdown(load(tmp_path, rank(9_000_000))).iloc[0]
    assert split[["idle_ns", "unrecorded_ns"]].tolist() == [8_998_950, 8_998_850]
    cut = temporal_breakdown(load(tmp_path, rank(9_000_000)), window=(5_000_000, 6_000_000))
    assert cut["unrecorded_ns"].tolist() == [1_000_000]
    traces = causes(load(tmp_path, rank(900_000)))
    assert traces == {"launch_call": 100, "launch_latency": 898_850}
    behind = load(tmp_path, rank(9_000_000, call(990, 1000, name="cudaStreamWaitEvent")))
    assert causes(behind) == {"launch_call": 100, "unrecorded": 8_998_850}


@pytest.mark.parametrize(
    "name", ["cudaStreamSynchronize", "hipDeviceSynchronize", "hipMemcpyWithStream", "cudaMemcpy"]
)
def test_a_wait_before_the_next_launch_is_for_work_outside_of_the_file(tmp_path, name):
    def rank(end, *more):
        return [
            kernel(0, 1000, launch=1), call(-200, -190, 1), *more, call(500, end, name=name),
            call(end + 50, end + 60, 2), kernel(end + 100, end + 200, launch=2),
        ]  # fmt: skip

    # 500 ms; the device works for 0.5 us.
    blocked = load(tmp_path, rank(500_000_000))
    after = {"host_nothing": 50, "launch_call": 10, "launch_latency": 40}
    assert causes(blocked) == {"unrecorded": 499_999_000, **after}
    assert temporal_breakdown(blocked)["unrecorded_ns"].tolist() == [499_999_000]
    cut = temporal_breakdown(blocked, window=(100_000_000, 101_000_000))
    assert cut["unrecorded_ns"].tolist() == [1_000_000]
    # Hosts that wake up late, or whose calls all return quickly, wait for recorded work.
    assert causes(load(tmp_path, rank(1_001_000))) == {"sync_wait": 1_000_000, **after}
    many = [call(k, k + 900_000, name=name) for k in range(2_000_000, 9_000_000, 1_000_000)]
    assert causes(load(tmp_path, rank(10_000_000)[:2] + many + rank(10_000_000)[3:])) == {
        "sync_wait": 7 * 900_000, "host_nothing": 9_999_050 - 7 * 900_000,
        "launch_call": 10, "launch_latency": 40,
    }  # fmt: skip


def test_a_copy_that_blocks_before_it_starts_waits_for_work_outside_of_the_file(tmp_path):
    rank = [
        kernel(0, 1000, launch=1), call(-200, -190, 1),
        call(1500, 90_001_500, 2, name="cudaMemcpy"), copy(90_001_000, 90_001_400, launch=2),
    ]  # fmt: skip
    traces = load(tmp_path, rank)
    assert causes(traces) == {"host_nothing": 500, "unrecorded": 89_999_500}
    assert temporal_breakdown(traces)["unrecorded_ns"].tolist() == [89_999_500]
    rank[2:] = [
        call(1500, 90_001_500, 2, name="cudaMemcpy"), copy(900_000, 90_001_400, launch=2),
    ]  # fmt: skip
    assert causes(load(tmp_path, rank)) == {"host_nothing": 500, "launch_call": 898_500}


def test_a_host_of_several_devices_may_wait_for_another_one(tmp_path):
    second = {"device": 1, "correlation": 3, "stream": 9}
    rank = [
        kernel(0, 1000, launch=1), call(-200, -190, 1), call(-180, -170, 3),
        event("kernel", "gemm", 0, 9_000_000, pid=1, tid=9, **second),
        call(500, 9_000_000, name="cudaDeviceSynchronize"),
        call(9_000_050, 9_000_060, 2), kernel(9_000_100, 9_000_200, launch=2),
    ]  # fmt: skip
    traces = load(tmp_path, rank)
    assert len(traces) == 2
    assert causes(traces, ranks=[0])["sync_wait"] == 8_999_000
    # If each device has its own thread, the waiting thread has no work on the other device.
    rank[2]["tid"] = 2
    assert causes(load(tmp_path, rank), ranks=[0])["unrecorded"] == 8_999_000


def test_a_gap_within_a_graph_is_not_in_the_file(tmp_path):
    rank = [
        call(-200, -100, 1, name="cudaGraphLaunch"), kernel(0, 1000, launch=1),
        kernel(30_999, 32_000, launch=1), kernel(62_000, 63_000, launch=1),
    ]  # fmt: skip
    assert causes(load(tmp_path, rank)) == {"kernel_wait": 29_999, "unrecorded": 30_000}


@pytest.mark.parametrize("name", ["cudaGraphLaunch", "hipGraphLaunch"])
@pytest.mark.parametrize(
    ("blocked_ms", "nodes", "cause"),
    [(20, 1, "unrecorded"), (5, 3, "unrecorded"), (2, 120, "launch_call"), (0.9, 1, "launch_call")],
)
def test_a_graph_launch_that_blocks_waits_for_an_earlier_graph(
    tmp_path, name, blocked_ms, nodes, cause
):
    """Only the first nodes of each graph are in the file; it launches 120 nodes in 2 ms."""
    blocked_ns = round(blocked_ms * 1_000_000)
    starts = 1_000, 2_000_000 + blocked_ns
    rank = [call(0, 500, 1, name=name), call(2_000_000, starts[1] - 100, 2, name=name)]
    rank += [
        kernel(start + 10 * node, start + 10 * node + 5, launch=launch)
        for launch, start in enumerate(starts, 1)
        for node in range(nodes)
    ]
    by_cause = causes(load(tmp_path, rank))
    in_call = {word: by_cause.get(word, 0) for word in ("unrecorded", "launch_call")}
    assert in_call == dict.fromkeys(in_call, 0) | {cause: blocked_ns - 100}


def test_the_first_launch_of_a_graph_may_load_it(tmp_path):
    rank = [
        kernel(0, 1_000, launch=1), call(-200, -190, 1),
        call(1_000, 9_001_000, 2, name="cudaGraphLaunch"), kernel(9_001_000, 9_002_000, launch=2),
    ]  # fmt: skip
    assert causes(load(tmp_path, rank)) == {"launch_call": 9_000_000}


def test_what_another_thread_does_counts_while_that_of_the_launch_does_nothing(tmp_path):
    # A backward pass begins on another thread while the main thread loads data.
    rank = [
        kernel(0, 1000, launch=1), call(-200, -190, 1),
        event("user_annotation", "enumerate(DataLoader)", 2000, 5000, pid=10, tid=1),
        event("cpu_op", "autograd::engine", 4000, 7000, pid=10, tid=2),
        # This thread does not launch work.
        event("cpu_op", "pin_memory", 0, 9000, pid=10, tid=3),
        kernel(8000, 9000, launch=2), call(7500, 7600, 2, tid=2),
    ]  # fmt: skip
    assert causes(load(tmp_path, rank)) == {
        "host_data_loading": 2000, "host_operator": 3000, "host_nothing": 1500,
        "launch_call": 100, "launch_latency": 400,
    }  # fmt: skip


WAITING = ["cudaDeviceSynchronize", "hipStreamSynchronize", "cuCtxSynchronize", "cudaMemcpy"]
WAITING += ["hipMemcpyWithStream", "cuMemcpyDtoH_v2", "urQueueFinish"]
NOT_WAITING = ["cudaMemcpyAsync", "cuMemcpyDtoHAsync_v2", "cudaEventRecord"]


@pytest.mark.parametrize("name", WAITING + NOT_WAITING)
def test_calls_that_wait_for_the_device(tmp_path, name):
    rank = [kernel(0, 100), call(50, 180, name=name), kernel(300, 400, launch=1), call(200, 210, 1)]
    traces = load(tmp_path, rank)
    row = device_idle_gaps(traces).iloc[0]
    assert (row["sync_wait_ns"], row["host_wait_ns"]) == ((80, 20) if name in WAITING else (0, 100))
