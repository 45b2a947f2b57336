"""Memory bandwidth in cases that can be checked by hand."""

import numpy as np
import pytest
from support.small import copy, kernel, load, read, write

from hta_widgets.analysis import memory_bandwidth, memory_bandwidth_summary
from hta_widgets.analysis.bandwidth import bandwidth_steps, copy_kind
from hta_widgets.analysis.scope import rank_parts

RATE = "memory bandwidth (GB/s)"


def rated(start, end, rate, **more):
    return copy(start, end, **{RATE: rate}, **more)


def series(frame, kind="Memcpy HtoD"):
    own = frame[frame["copy_kind"] == kind]
    return list(zip(own["time_ns"].tolist(), own["gb_per_s"].tolist(), strict=True))


@pytest.fixture
def job(tmp_path):
    rank = [
        rated(100, 200, 0.1), rated(150, 300, 0.2, stream=8), rated(300, 310, 0.7),
        # 50 bytes in 25 ns; no rate or size; no duration, so the resolution of 1 ns counts
        copy(400, 425, bytes=50), copy(500, 510), rated(600, 600, 3.0, bytes=12),
        kernel(700, 710, name="Memset (Device)", cat="gpu_memset", **{RATE: 5, "bytes": 50}),
        kernel(100, 900),
    ]  # fmt: skip
    return load(tmp_path, rank)


def test_rates_of_what_runs_at_once_add_up(job):
    frame = memory_bandwidth(job)
    assert series(frame) == [
        (100, 0.1), (150, pytest.approx(0.3)), (200, 0.2), (300, 0.7), (310, 0.0),
        (400, 2.0), (425, 0.0), (600, 3.0), (601, 0.0),
    ]  # fmt: skip
    assert series(frame, "Memset") == [(700, 5.0), (710, 0.0)]
    assert frame.attrs["matched"] == {"memory": 7}
    assert frame.attrs["unknown"] == {"Memcpy HtoD": 1}
    assert frame.attrs["computed"] == 1
    assert frame["copy_kind"].dtype == "category"
    selected = memory_bandwidth(job, selection=job.select("stream == 8"))
    assert series(selected) == [(150, 0.2), (300, 0.0)]


def test_statistics_by_change_and_by_time(job):
    frame = memory_bandwidth_summary(job).set_index("copy_kind")
    row = frame.loc["Memcpy HtoD"]
    rates = [0.1, 0.3, 0.2, 0.7, 2.0, 3.0]
    assert row["count"] == len(rates)
    assert row["mean"] == pytest.approx(np.mean(rates))
    assert row["std"] == pytest.approx(np.std(rates, ddof=1))
    assert row["25%"] == pytest.approx(np.percentile(rates, 25))
    assert row["max"] == 3.0
    assert row["busy_ns"] == 210 + 25 + 1
    area = 0.1 * 100 + 0.2 * 150 + 0.7 * 10 + 50 + 3
    assert row["time_weighted_mean"] == pytest.approx(area / 236)
    assert (row["copies"], row["size_bytes"]) == (6, 62)
    assert frame.loc["Memset", ["count", "copies", "size_bytes"]].tolist() == [1, 1, 50]
    assert np.isnan(frame.loc["Memset", "std"])


def test_whole_microseconds_take_0_for_1(tmp_path):
    copies = [rated(5000, 5000, 2.5), rated(9000, 11_000, 2.5)]
    full = [{**item, "ts": int(item["ts"]), "dur": int(item["dur"])} for item in copies]
    frame = memory_bandwidth(read(write(tmp_path, full)))
    assert series(frame) == [(0, 2.5), (1000, 0.0), (4000, 2.5), (6000, 0.0)]


def test_impossible_sizes_are_unknown(tmp_path):
    copies = [copy(start, start + 10, bytes=1 << 62) for start in (0, 20, 40)]
    traces = load(tmp_path, [*copies, copy(60, 70, bytes=50)])
    frame = memory_bandwidth_summary(traces)
    assert frame[["copies", "size_bytes", "max"]].to_numpy().tolist() == [[4, 50, 5.0]]
    assert frame.attrs["unknown"] == {"Memcpy HtoD": 3}


def test_changes_come_with_their_copies(job):
    (part,) = rank_parts(job)
    steps = bandwidth_steps(part)
    assert len(steps.row) == 2 * 6
    here = np.flatnonzero(steps.time_ns == 300)
    starts = job[0].table.start_ns[steps.row[here]]
    assert starts.tolist() == [150, 300], "what ends comes before what starts"
    assert steps.gb_per_s[here].tolist() == [0.0, 0.7]


KINDS = {
    "Memcpy HtoD (Pinned -> Device)": "Memcpy HtoD",
    "Memcpy DtoD (Device -> Device)": "Memcpy DtoD",
    "Memcpy PtoP (Device -> Device)": "Memcpy PtoP",
    "Memcpy HtoA (Host -> Array)": "Memcpy HtoA",
    "hipMemcpyDtoHAsync": "Memcpy DtoH",
    "CopyHostToDevice": "Memcpy HtoD",
    "CopyDeviceToHost": "Memcpy DtoH",
    "DEVICE_TO_HOST": "Memcpy DtoH",
    "Memset (Device)": "Memset",
    "hipMemsetAsync": "Memset",
    "__amd_rocclr_fillBufferAligned": "Memset",
    "__amd_rocclr_copyBuffer": "Memcpy Unknown",
    "dma_request": "Memcpy Unknown",
}


def test_kinds_are_named_alike_for_every_vendor():
    assert {name: copy_kind(name) for name in KINDS} == KINDS


def test_mtia_says_way_and_size_in_args(tmp_path):
    def dma(start, end, **args):
        return kernel(start, end, name="dma_request", cat="mtia_ccp_events", stream=105, **args)

    to_host = dma(100, 200, direction="DEVICE_TO_HOST", size=1000)
    to_device = dma(300, 400, direction="HOST_TO_DEVICE", size="2000")
    job = load(tmp_path, [to_host, to_device, dma(500, 600)])
    frame = memory_bandwidth(job)
    assert series(frame, "Memcpy DtoH") == [(100, 10.0), (200, 0.0)]
    assert series(frame, "Memcpy HtoD") == [(300, 20.0), (400, 0.0)]
    assert frame.attrs["unknown"] == {"Memcpy Unknown": 1}
    summary = memory_bandwidth_summary(job).set_index("copy_kind")
    assert summary.loc["Memcpy Unknown", ["count", "copies"]].tolist() == [0, 1]


def test_nothing_to_show_is_an_empty_frame_with_a_reason(tmp_path):
    silent = load(tmp_path, [copy(10, 20), copy(30, 40)])
    frame = memory_bandwidth(silent)
    assert frame.empty
    assert frame.attrs["note"] == "the files state neither rate nor size of the 2 copies and fills"
    assert frame.attrs["unknown"] == {"Memcpy HtoD": 2}
