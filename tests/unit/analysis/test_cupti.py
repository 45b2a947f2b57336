"""Hardware counters: which launch is whose, and what is said where that is unknown."""

import json

import pytest

import hta_widgets as hw
from hta_widgets.analysis.kernels import cupti_counters


def event(name, ts, dur, category="cpu_op", tid=1, **args):
    record = {"ph": "X", "cat": category, "name": name, "pid": 7, "tid": tid, "ts": ts, "dur": dur}
    return record | {"args": args}


def launch(ts, name="cudaLaunchKernel", category="cuda_runtime", tid=1):
    return event(name, ts, 1, category, tid)


def counted(name, ts, **counters):
    return event(name, ts, 10, "cuda_profiler_range", tid=0, **counters)


@pytest.fixture
def load(tmp_path):
    def write(records, name="trace.json"):
        path = tmp_path / name
        path.write_text(json.dumps({"traceEvents": records}))
        return hw.load(path, cache=False, progress=False)

    return write


OPERATORS = [
    event("step", 0, 100, "user_annotation"),
    event("aten::linear", 1, 20),
    event("aten::addmm", 2, 15),
    launch(5),
    event("aten::relu", 30, 10, tid=2),
    launch(32, "cudaLaunchKernelExC", tid=2),
    event("cudaMemcpyAsync", 60, 5, "cuda_runtime"),
]


def test_kernels_and_launches_are_paired_by_position(load):
    traces = load(
        [
            *OPERATORS,
            counted("relu", 1010, **{"a.sum": 3, "b.avg": 0.5}),
            counted("gemm", 1000, **{"a.sum": 7, "unit": "byte"}),
        ]
    )
    frame = cupti_counters(traces)
    events = traces.events()
    assert list(frame["name"]) == ["gemm", "relu"]
    assert events.loc[frame["launch_id"], "name"].tolist() == [
        "cudaLaunchKernel",
        "cudaLaunchKernelExC",
    ]
    assert frame["op_stack"].tolist() == [["aten::linear", "aten::addmm"], ["aten::relu"]]
    assert frame["top_level_op"].tolist() == ["aten::linear", "aten::relu"]
    assert frame["bottom_level_op"].tolist() == ["aten::addmm", "aten::relu"]
    assert frame["a.sum"].tolist() == [7, 3]
    assert frame["a.sum"].dtype == "int64"
    assert frame["b.avg"].isna().tolist() == [True, False]
    assert frame["b.avg"].dtype == "float64"
    assert "unit" not in frame.columns
    assert "flops" not in frame.columns
    assert frame["start_ns"].tolist() == [1_000_000, 1_010_000]
    assert frame["dur_ns"].tolist() == [10_000, 10_000]
    later = cupti_counters(traces, window=(1_010_000, 2_000_000))
    assert later["name"].tolist() == ["relu"]
    assert later["top_level_op"].tolist() == ["aten::relu"]


def test_flops_count_a_fused_multiply_add_twice(load):
    sass = "smsp__sass_thread_inst_executed_op_{}_pred_on.sum"
    counters = {sass.format("ffma"): 10, sass.format("hadd"): 3, sass.format("dmul"): 4}
    frame = cupti_counters(load([launch(1), counted("k", 100, **counters)]))
    assert frame["flops"].tolist() == [2 * 10 + 3 + 4]
    assert frame["op_stack"].tolist() == [[]]
    assert frame["top_level_op"].tolist() == [""]


def test_calls_of_the_driver_count_where_that_makes_the_numbers_equal(load):
    triton = launch(50, "cuLaunchKernelEx", "cuda_driver")
    kernels = [counted(name, 1000 + 10 * k, a=k) for k, name in enumerate("xyz")]
    frame = cupti_counters(load([*OPERATORS, triton, *kernels]))
    assert (frame["launch_id"] >= 0).all()
    assert "note" not in frame.attrs
    two = cupti_counters(load([*OPERATORS, triton, *kernels[:2]]))
    assert two["bottom_level_op"].tolist() == ["aten::addmm", "aten::relu"]


def test_other_numbers_of_launches_are_paired_as_far_as_they_go(load):
    kernels = [counted(name, 1000 + 10 * k, a=k) for k, name in enumerate("xyz")]
    frame = cupti_counters(load([*OPERATORS, *kernels]))
    assert frame["launch_id"].tolist()[2] == -1
    assert frame["bottom_level_op"].tolist() == ["aten::addmm", "aten::relu", ""]
    assert frame.attrs["matched"] == {"kernels": 3, "launches": 2}
    assert "3 kernels but 2 launches" in frame.attrs["note"]


def test_traces_without_counters_give_an_empty_frame_with_a_reason(load):
    full = cupti_counters(load([*OPERATORS, counted("x", 1000), counted("y", 1010)]))
    frame = cupti_counters(load(OPERATORS))
    assert frame.empty
    assert "profiler_metrics" in frame.attrs["note"]
    assert frame.attrs["matched"] == {"kernels": 0, "launches": 0}
    assert (frame.dtypes == full.dtypes).all()
