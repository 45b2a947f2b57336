"""Statistics of kernels, by hand."""

import numpy as np
import pytest
from support.small import NCCL, call, copy, kernel, load, nccl

from hta_widgets.analysis import kernel_breakdown, kernel_duration_by_rank


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
    assert list(frame.columns) == [
        "rank", "kind", "name", "count", "sum_ns", "mean_ns", "min_ns", "max_ns", "std_ns",
    ]  # fmt: skip
    assert frame.attrs["matched"] == {"compute": 5, "communication": 2, "memory": 1}


def test_deviation_is_exact_where_durations_are_long(tmp_path):
    hour = 3_600_000_000_000
    frame = kernel_breakdown(load(tmp_path, [kernel(0, hour), kernel(2 * hour, 3 * hour + 2)]))
    assert frame["std_ns"].tolist() == pytest.approx([np.sqrt(2)])


def test_copies_can_be_left_out(job):
    frame = kernel_breakdown(job, include_memory=False)
    assert set(frame["kind"]) == {"compute", "communication"}
    assert frame.attrs["matched"] == {"compute": 5, "communication": 2}
    assert "Memcpy HtoD" not in set(kernel_duration_by_rank(job, include_memory=False)["name"])


def test_durations_are_clipped_and_members_counted(job):
    frame = kernel_breakdown(job, window=(5, 40), ranks=[0]).set_index("name")
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


def test_nothing_on_devices_is_an_empty_frame_with_a_reason(tmp_path, job):
    traces = load(tmp_path, [call(1, 2)])
    for function in (kernel_breakdown, kernel_duration_by_rank):
        frame = function(traces)
        assert frame.empty
        assert frame.dtypes.to_dict() == function(job).dtypes.to_dict()
        assert frame.attrs["note"] == "no device work is selected: no kernels and no copies"
