"""Efficiency of two runs, calculated by hand."""

import json

import pytest
from support.small import call, event, kernel, read

import hta_widgets.diff as hd
from hta_widgets import devices

#: 2 · 64³ FLOPs take 524 ns at 1 TFLOP/s.
SHAPES = [[64, 64], [64, 64]]


def run(folder, dur_ns, shapes):
    args = {"Input Dims": shapes, "Input type": ["c10::BFloat16"] * 2}
    events = [
        event("cpu_op", "ProfilerStep#1", 0, 90_000, pid=10, tid=1),
        event("cpu_op", "aten::mm", 100, 200, pid=10, tid=1, **args),
        call(120, 130, 1),
        kernel(1_000, 1_000 + dur_ns, launch=1),
    ]
    properties = [{"id": 0, "name": "Toy"}]
    folder.mkdir()
    text = json.dumps({"traceEvents": events, "deviceProperties": properties})
    (folder / "rank-0.json").write_text(text)
    return read(folder)


@pytest.fixture
def toy():
    devices.add("Toy", pattern="Toy", bf16=1.0, memory_gb_s=100.0)
    yield
    devices.reset()


def test_operators_are_compared_by_their_shapes(tmp_path, toy):
    runs = [run(tmp_path / str(dur), dur, SHAPES) for dur in (1_000, 2_000)]
    frame = hd.efficiency_diff(hd.compare(*runs))
    row = frame[frame["name"] == "aten::mm"].iloc[0]
    assert (row["before_device_ns"], row["after_device_ns"], row["diff_device_ns"]) == (
        1_000, 2_000, 1_000,
    )  # fmt: skip
    assert row["before_tflop_per_s"] == pytest.approx(0.524288)
    assert row["after_roofline_share"] == pytest.approx(0.262)
    assert frame.attrs["text"].startswith("MFU ")


def test_other_shapes_are_rows_of_one_side(tmp_path, toy):
    runs = [run(tmp_path / str(n), 1_000, [[n, n], [n, n]]) for n in (64, 128)]
    frame = hd.efficiency_diff(hd.compare(*runs))
    rows = frame[frame["name"] == "aten::mm"]
    assert rows["before_count"].fillna(0).tolist() == [1, 0]
    assert rows["after_count"].fillna(0).tolist() == [0, 1]
    assert rows["diff_device_ns"].isna().all()
