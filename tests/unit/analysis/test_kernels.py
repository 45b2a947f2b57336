"""Statistics and hardware counters of kernels, checked by hand."""

from functools import partial

import numpy as np
import pytest
from support.small import NCCL, copy, event, kernel, load, nccl

from hta_widgets.analysis import device_idle_gaps, kernel_breakdown, kernel_duration_by_rank
from hta_widgets.analysis.kernels import cupti_counters
from hta_widgets.errors import TraceError


@pytest.fixture
def job(tmp_path):
    return load(
        tmp_path,
        [kernel(0, 10), kernel(20, 50), kernel(30, 50, stream=8), nccl(0, 100), copy(200, 205)],
        [kernel(0, 300), kernel(400, 401, name="relu"), nccl(500, 550)],
    )


def test_counts_and_durations_by_rank_and_name(job):
    frame = kernel_breakdown(job)
    assert frame.drop(columns="std_ns").to_numpy().tolist() == [
        [0, "communication", NCCL, 1, 100, 100.0, 100, 100],
        [0, "compute", "gemm", 3, 60, 20.0, 10, 30],
        [0, "memory", "Memcpy HtoD", 1, 5, 5.0, 5, 5],
        [1, "compute", "gemm", 1, 300, 300.0, 300, 300],
        [1, "communication", NCCL, 1, 50, 50.0, 50, 50],
        [1, "compute", "relu", 1, 1, 1.0, 1, 1],
    ]
    assert frame["std_ns"].tolist() == pytest.approx([0, 10, 0, 0, 0, 0])
    assert frame.attrs["matched"] == {"compute": 5, "communication": 2, "memory": 1}


def test_deviation_is_exact_where_durations_are_long(tmp_path):
    hour = 3_600_000_000_000
    frame = kernel_breakdown(load(tmp_path, [kernel(0, hour), kernel(2 * hour, 3 * hour + 2)]))
    assert frame["std_ns"].tolist() == pytest.approx([np.sqrt(2)])


def test_copies_can_be_left_out_and_durations_clipped(job):
    frame = kernel_breakdown(job, include_memory=False)
    assert set(frame["kind"]) == {"compute", "communication"}
    assert frame.attrs["matched"] == {"compute": 5, "communication": 2}
    assert "Memcpy HtoD" not in set(kernel_duration_by_rank(job, include_memory=False)["name"])
    frame = kernel_breakdown(job, window=(5, 40), ranks=[0]).set_index("name")
    # Each member counts.
    assert frame.loc["gemm", ["count", "sum_ns", "min_ns"]].tolist() == [3, 5 + 20 + 10, 5]
    assert frame.loc[NCCL, "sum_ns"] == 35


def test_one_name_may_be_of_two_kinds(tmp_path):
    traces = load(tmp_path, [kernel(0, 10, name="x"), kernel(20, 25, name="x", cat="gpu_memcpy")])
    frame = kernel_breakdown(traces)
    assert frame[["kind", "sum_ns"]].to_numpy().tolist() == [["compute", 10], ["memory", 5]]


def test_durations_by_rank_put_the_dearest_kernels_first(job):
    frame = kernel_duration_by_rank(job)
    assert frame[["name", "rank", "count", "mean_ns", "min_ns", "max_ns"]].to_numpy().tolist() == [
        ["gemm", 0, 3, 20.0, 10, 30],
        ["gemm", 1, 1, 300.0, 300, 300],
        [NCCL, 0, 1, 100.0, 100, 100],
        [NCCL, 1, 1, 50.0, 50, 50],
        ["Memcpy HtoD", 0, 1, 5.0, 5, 5],
        ["relu", 1, 1, 1.0, 1, 1],
    ]
    assert kernel_duration_by_rank(job, top=2).equals(frame.iloc[:4])
    assert kernel_duration_by_rank(job, top=0).empty
    for negative in (partial(kernel_duration_by_rank, top=-1), partial(device_idle_gaps, top=-1)):
        with pytest.raises(TraceError, match="a whole number from 0"):
            negative(job)


def host_event(name, ts, dur, category="cpu_op", tid=1, **args):
    """Return an event on a host thread, with times in microseconds."""
    return event(category, name, 1000 * ts, 1000 * (ts + dur), pid=7, tid=tid, **args)


def launch(ts, name="cudaLaunchKernel", category="cuda_runtime", tid=1):
    return host_event(name, ts, 1, category, tid)


def counted(name, ts, **counters):
    return host_event(name, ts, 10, "cuda_profiler_range", tid=0, **counters)


OPERATORS = [
    host_event("step", 0, 100, "user_annotation"),
    host_event("aten::linear", 1, 20),
    host_event("aten::addmm", 2, 15),
    launch(5),
    host_event("aten::relu", 30, 10, tid=2),
    launch(32, "cudaLaunchKernelExC", tid=2),
    host_event("cudaMemcpyAsync", 60, 5, "cuda_runtime"),
]


def test_kernels_and_launches_are_paired_by_position(tmp_path):
    relu = counted("relu", 1010, **{"a.sum": 3, "b.avg": 0.5})
    gemm = counted("gemm", 1000, **{"a.sum": 7, "unit": "byte"})
    traces = load(tmp_path, [*OPERATORS, relu, gemm])
    frame = cupti_counters(traces)
    events = traces.events()
    assert list(frame["name"]) == ["gemm", "relu"]
    names = events.loc[frame["launch_id"], "name"].tolist()
    assert names == ["cudaLaunchKernel", "cudaLaunchKernelExC"]
    assert frame["op_stack"].tolist() == [["aten::linear", "aten::addmm"], ["aten::relu"]]
    assert frame["top_level_op"].tolist() == ["aten::linear", "aten::relu"]
    assert frame["bottom_level_op"].tolist() == ["aten::addmm", "aten::relu"]
    assert frame["a.sum"].tolist() == [7, 3]
    assert frame["a.sum"].dtype == "int64"
    assert frame["b.avg"].isna().tolist() == [True, False]
    assert frame["b.avg"].dtype == "float64"
    assert {"unit", "flops"}.isdisjoint(frame.columns)
    assert frame["start_ns"].tolist() == [1_000_000, 1_010_000]
    assert frame["dur_ns"].tolist() == [10_000, 10_000]
    later = cupti_counters(traces, window=(1_010_000, 2_000_000))
    assert later["name"].tolist() == ["relu"]
    assert later["top_level_op"].tolist() == ["aten::relu"]


def test_flops_count_a_fused_multiply_add_twice(tmp_path):
    sass = "smsp__sass_thread_inst_executed_op_{}_pred_on.sum"
    counters = {sass.format("ffma"): 10, sass.format("hadd"): 3, sass.format("dmul"): 4}
    frame = cupti_counters(load(tmp_path, [launch(1), counted("k", 100, **counters)]))
    assert frame["flops"].tolist() == [2 * 10 + 3 + 4]
    assert frame["op_stack"].tolist() == [[]]
    assert frame["top_level_op"].tolist() == [""]


def test_calls_of_the_driver_count_where_that_makes_the_numbers_equal(tmp_path):
    triton = launch(50, "cuLaunchKernelEx", "cuda_driver")
    kernels = [counted(name, 1000 + 10 * k, a=k) for k, name in enumerate("xyz")]
    frame = cupti_counters(load(tmp_path, [*OPERATORS, triton, *kernels]))
    assert (frame["launch_id"] >= 0).all()
    assert "note" not in frame.attrs
    two = cupti_counters(load(tmp_path, [*OPERATORS, triton, *kernels[:2]]))
    assert two["bottom_level_op"].tolist() == ["aten::addmm", "aten::relu"]
    # If the numbers of launches differ, as many as possible are paired.
    frame = cupti_counters(load(tmp_path, [*OPERATORS, *kernels]))
    assert frame["launch_id"].tolist()[2] == -1
    assert frame["bottom_level_op"].tolist() == ["aten::addmm", "aten::relu", ""]
    assert frame.attrs["matched"] == {"kernels": 3, "launches": 2}
    assert "3 kernels but 2 launches" in frame.attrs["note"]
