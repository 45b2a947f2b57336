"""Communication by stream and by process group, by hand."""

import numpy as np
import pytest
from support.small import call, kernel, load, nccl

from hta_widgets.analysis import communication_by_group, communication_by_stream


def collective(name, elements, dtype, group, out=None, ranks="[0, 1]", what="fsdp"):
    return {
        "Collective name": name,
        "In msg nelems": elements,
        "Out msg nelems": elements if out is None else out,
        "dtype": dtype,
        "Process Group Name": group,
        "Process Group Description": what,
        "Process Group Ranks": ranks,
    }


@pytest.fixture
def job(tmp_path):
    rank = [
        kernel(0, 100), kernel(150, 250),
        nccl(50, 120, stream=20, **collective("allreduce", 10, "Float", "0")),
        nccl(110, 160, stream=21, **collective("all_gather", 8, "BFloat16", "0", out=16)),
        nccl(200, 300, stream=20, **collective("allreduce", 3, "Long", "1", ranks="[0, 2]")),
        nccl(400, 410, stream=20),
    ]  # fmt: skip
    return load(tmp_path, rank, [kernel(0, 5), nccl(10, 20, stream=0)])


def test_time_of_each_stream(job):
    frame = communication_by_stream(job)
    columns = ["rank", "stream", "count", "communication_ns", "overlapped_ns", "exposed_ns"]
    assert frame[columns].to_numpy().tolist() == [
        [0, 20, 3, 70 + 100 + 10, 50 + 50, 80],
        [0, 21, 1, 50, 10, 40],
        [1, 0, 1, 10, 0, 10],
    ]
    assert frame["overlap_share"].tolist() == pytest.approx([100 / 180, 0.2, 0])
    assert frame["max_ns"].tolist() == [100, 50, 10]
    assert frame.attrs["matched"] == {"compute": 3, "communication": 5}


def test_time_and_bytes_of_each_group(job):
    frame = communication_by_group(job)
    columns = [
        "rank", "group", "group_ranks", "count", "communication_ns", "overlapped_ns", "sum_ns",
        "in_bytes", "out_bytes",
    ]  # fmt: skip
    assert frame[columns].to_numpy().tolist() == [
        # 50 to 160 on both streams; 40 bytes and 16, 40 and 32
        [0, "0", "[0, 1]", 2, 110, 60, 120, 56, 72],
        [0, "1", "[0, 2]", 1, 100, 50, 100, 24, 24],
        [0, "", "", 1, 10, 0, 10, -1, -1],
        [1, "", "", 1, 10, 0, 10, -1, -1],
    ]
    assert frame["description"].tolist() == ["fsdp", "fsdp", "", ""]
    assert "note" not in frame.attrs


def test_collectives_of_each_group(job):
    frame = communication_by_group(job, by_collective=True, ranks=[0])
    assert frame[["group", "collective", "sum_ns", "out_bytes"]].to_numpy().tolist() == [
        ["1", "allreduce", 100, 24],
        ["0", "allreduce", 70, 40],
        ["0", "all_gather", 50, 32],
        ["", "", 10, -1],
    ]


def test_times_are_clipped_and_bytes_are_not(job):
    frame = communication_by_group(job, window=(60, 110), ranks=[0])
    assert frame[
        ["count", "communication_ns", "overlapped_ns", "in_bytes"]
    ].to_numpy().tolist() == [[1, 50, 40, 40]]


@pytest.mark.parametrize(
    ("elements", "dtype", "size"),
    [
        (7, "Half", 14),
        (7, "Float8_e4m3fn", 7),
        (7, "ComplexDouble", 112),
        (0, "Float", 0),
        ("9", "Double", 72),
        (7, "Unheard", -1),
        (7, None, -1),
        (-1, "Float", -1),
        (1 << 62, "Double", -1),
        ([1, 2], "Float", -1),
    ],
)
def test_sizes_by_type(tmp_path, elements, dtype, size):
    args = {**collective("x", elements, dtype, "0")}
    frame = communication_by_group(load(tmp_path, [nccl(0, 10, **args)]))
    assert frame["in_bytes"].tolist() == [size]


def test_files_that_do_not_say_groups_give_a_note(tmp_path):
    frame = communication_by_group(load(tmp_path, [nccl(0, 10)]))
    assert frame["group"].tolist() == [""]
    assert frame.attrs["note"] == "the files do not say which process group a kernel belongs to"


def test_no_communication_is_an_empty_frame_with_a_reason(tmp_path, job):
    traces = load(tmp_path, [kernel(0, 10), call(1, 2)])
    for function in (communication_by_group, communication_by_stream):
        frame = function(traces)
        assert frame.empty
        assert frame.dtypes.to_dict() == function(job).dtypes.to_dict()
        assert frame.attrs["note"] == "no communication kernels matched"
        assert frame.attrs["matched"] == {"compute": 1, "communication": 0}


def test_a_kernel_without_length_has_no_share(tmp_path):
    frame = communication_by_stream(load(tmp_path, [nccl(5, 5)]))
    assert frame[["count", "communication_ns"]].to_numpy().tolist() == [[1, 0]]
    assert np.isnan(frame["overlap_share"][0])
