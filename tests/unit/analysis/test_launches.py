"""Launches with what they launched, on cases that can be checked by hand."""

import pytest
from support.small import NCCL, call, copy, event, kernel, load, nccl

from hta_widgets import analysis
from hta_widgets.analysis import launch_outliers, launch_stats

COLUMNS = [
    "rank", "correlation", "kernel", "kind", "launch", "stream", "cpu_dur_ns", "gpu_dur_ns",
    "launch_delay_ns", "launch_id", "kernel_id",
]  # fmt: skip


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
        # a wait is no work; a kernel without a call is counted
        call(600, 610, 6, name="cudaStreamWaitEvent"),
        event("cuda_sync", "Stream Wait Event", 620, 630, tid=7, stream=7, correlation=6),
        kernel(950, 960, name="orphan"),
    ]  # fmt: skip
    return load(tmp_path, rank, [call(700, 750, 9), kernel(800, 801, launch=9, name="other")])


def test_each_launch_with_each_kernel(job):
    frame = launch_stats(job)
    assert list(frame.columns) == COLUMNS
    shown = frame[["rank", "correlation", "kernel", "launch", "stream"]].astype(
        {"kernel": str, "launch": str}
    )
    assert shown.to_numpy().tolist() == [
        [0, 1, "gemm", "cudaLaunchKernel", 7],
        [0, 2, "relu", "cudaLaunchKernel", 8],
        [0, 3, "relu", "cudaGraphLaunch", 7],
        [0, 3, "gemm", "cudaGraphLaunch", 7],
        [0, 3, "Memcpy HtoD", "cudaGraphLaunch", 7],
        [0, 4, "Memcpy HtoD", "hipMemcpyWithStream", 0],
        [0, 5, NCCL, "cuLaunchKernelEx", 20],
        [1, 9, "other", "cudaLaunchKernel", 7],
    ]  # fmt: skip
    assert frame["cpu_dur_ns"].tolist() == [10, 40, 30, 30, 30, 10, 30, 50]
    assert frame["gpu_dur_ns"].tolist() == [50, 10, 10, 10, 30, 10, 400, 1]
    assert frame["launch_delay_ns"].tolist() == [40, 0, 20, 30, 40, 20, 60, 50]
    assert frame["kind"].tolist() == ["compute"] * 4 + ["memory"] * 2 + ["communication", "compute"]
    assert frame.attrs["matched"] == {
        "compute": 6, "communication": 1, "memory": 2, "launched": 8,
    }  # fmt: skip
    assert frame.attrs["unlaunched"] == 1
    assert [str(dtype) for dtype in frame.dtypes] == [
        "int64", "int64", "category", "category", "category", *["int64"] * 6,
    ]  # fmt: skip
    for row in frame.itertuples():
        events = job[row.rank].events
        assert events["dur_ns"][row.launch_id] == row.cpu_dur_ns
        assert events["name"][row.kernel_id] == row.kernel


def test_copies_can_be_left_out(job):
    frame = launch_stats(job, include_memory=False)
    assert frame["correlation"].tolist() == [1, 2, 3, 3, 5, 9]
    assert frame.attrs["matched"] == {"compute": 6, "communication": 1, "launched": 6}


def test_a_window_selects_and_cuts_nothing(job):
    frame = launch_stats(job, window=(160, 255), ranks=[0])
    assert frame["correlation"].tolist() == [1, 3]
    assert frame["gpu_dur_ns"].tolist() == [50, 10]
    assert frame["cpu_dur_ns"].tolist() == [10, 30]
    assert launch_stats(job, selection=job.select("stream == 8"))["correlation"].tolist() == [2]


def test_outliers_by_kernel(job):
    frame = launch_outliers(job, runtime_cutoff_ns=30, launch_delay_cutoff_ns=40)
    counts = frame.astype({"outlier": str, "kernel": str})
    rows = counts[["rank", "outlier", "kernel", "count", "launches"]].to_numpy().tolist()
    # calls of at most 30: 1, 3, 3, 3, 4, 5; the kernel is shorter in two, equal in the copy's
    assert [row for row in rows if row[1] == "short kernel"] == [
        [0, "short kernel", "gemm", 1, 2],
        [0, "short kernel", "relu", 1, 2],
    ]
    assert [row for row in rows if row[1] == "long call"] == [
        [0, "long call", "relu", 1, 2],
        [1, "long call", "other", 1, 1],
    ]
    assert [row for row in rows if row[1] == "late start"] == [
        [0, "late start", NCCL, 1, 1],
        [1, "late start", "other", 1, 1],
    ]
    assert frame["share"].tolist() == (frame["count"] / frame["launches"]).tolist()
    long = frame[(frame["outlier"] == "long call") & (frame["rank"] == 0)].iloc[0]
    assert long[["cpu_sum_ns", "gpu_sum_ns", "launch_delay_sum_ns"]].tolist() == [40, 10, 0]
    assert frame.attrs["matched"]["short kernel"] == 2
    none = launch_outliers(job, runtime_cutoff_ns=10**6, launch_delay_cutoff_ns=10**6, ranks=[1])
    assert none["outlier"].tolist() == ["short kernel"], "1 ns of kernel for 50 ns of call"


def test_nothing_launched_is_an_empty_frame_with_a_reason(tmp_path):
    host = load(tmp_path, [call(0, 10)])
    for function in (launch_stats, launch_outliers):
        frame = function(host)
        assert frame.empty
        assert "launch" in frame.attrs["note"]
        assert frame.attrs["matched"]["launched"] == 0
    assert list(launch_stats(host).columns) == COLUMNS
    quiet = load(tmp_path, [call(0, 10, 1), kernel(20, 90, launch=1)])
    assert launch_outliers(quiet).attrs["note"] == "no launch stands out"


#: Two kernels whose calls lie before the file's start, and one without a launch later on.
PRELAUNCHED = [
    kernel(0, 200),
    kernel(200, 300),
    kernel(250, 350, stream=9),
    call(10, 20, 1),
    kernel(400, 900, launch=1),
    kernel(950, 1050),
]
SAYS = (
    "3 of the device events, 40 % of their time, were launched before recording began;"
    ' the query "prelaunched == False" leaves them out'
)


def test_work_launched_before_recording_began_is_said_and_can_be_left_out(tmp_path):
    traces = load(tmp_path, PRELAUNCHED)
    assert traces[0].events[traces[0].prelaunched].dur_ns.tolist() == [200, 100, 100]
    for analyse in (
        analysis.temporal_breakdown,
        analysis.kernel_breakdown,
        analysis.operators,
        analysis.launch_stats,
    ):
        assert analyse(traces).attrs["note"] == SAYS
        rest = analyse(traces, selection="prelaunched == False")
        assert "launched before" not in rest.attrs.get("note", "")
    rest = analysis.kernel_breakdown(traces, selection="prelaunched == False")
    assert rest.sum_ns.tolist() == [600]
    assert analysis.temporal_breakdown(traces, window=(300, 400)).attrs["note"].startswith("1 of")


def test_files_without_launches_tell_nothing_of_them(tmp_path):
    traces = load(tmp_path, [kernel(0, 200), kernel(300, 400)])
    assert not traces[0].prelaunched.any()
    assert "note" not in analysis.temporal_breakdown(traces).attrs
