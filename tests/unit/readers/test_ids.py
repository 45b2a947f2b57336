"""Ids of streams, threads, processes and correlations, of any size that files contain."""

import numpy as np
import pytest

import hta_widgets as hw
from hta_widgets import analysis

from .conftest import event

WIDE = [(1 << 31) - 1, 1 << 31, 139718037617728, (1 << 47) + 5, (1 << 62) + 1, (1 << 63) - 1]


def launched(stream, correlation, thread=7):
    """Return the records of a call and the kernel it launches on a stream."""
    call = event("hipLaunchKernel", 0, 5, cat="cuda_runtime", pid=thread, tid=thread)
    kernel = event("gemm", 10, 100, cat="kernel", pid=0, tid=stream)
    call["args"] = {"correlation": correlation, "External id": correlation}
    kernel["args"] = {"device": 0, "context": stream, "stream": stream, "correlation": correlation}
    return [event("aten::mm", 0, 8, pid=thread, tid=thread), call, kernel]


@pytest.mark.parametrize("number", WIDE)
def test_ids_are_those_of_the_file(write, tmp_path, number):
    read = hw.load(write(launched(number, number, thread=number)))
    for traces in (read, hw.load(read.save(tmp_path / "kept.store"))):
        events = traces[0].events
        assert events["stream"].tolist() == [-1, -1, number]
        assert events["correlation"].tolist() == [-1, number, number]
        assert events["tid"].astype(str).tolist() == [str(number)] * 3
        assert events["pid"].astype(str).tolist() == [str(number), str(number), "0"]
        args = traces[0].args(int(events.index[2]))
        assert (args["context"], args["stream"]) == (number, number)
        work = analysis.operators(traces).set_index("name")
        assert work.loc["aten::mm", "device_total_ns"] == 100_000
        assert len(analysis.idle_time_breakdown(traces))
        hw.Dashboard(traces).save_html(tmp_path / "page.html")


@pytest.mark.parametrize(
    ("stated", "stream"),
    [
        (-1811939328, 2483027968),
        (-5, (1 << 32) - 5),
        (-(1 << 40), (1 << 63) - (1 << 40)),
        ((1 << 63) + 9, 9),
        ((1 << 64) - (1 << 40), (1 << 63) - (1 << 40)),
    ],
)
def test_streams_that_need_a_sign_or_64_bits_count_as_device_work(load_one, stated, stream):
    trace, problems = load_one(launched(stated, 3))
    assert trace.events["stream"].tolist() == [-1, -1, stream]
    assert problems[["kind", "count"]].to_numpy().tolist() == [["repaired", 1]]


@pytest.mark.parametrize("stated", [-1, (1 << 32) - 1, (1 << 64) - 1])
def test_minus_one_of_any_width_is_no_stream(load_one, stated):
    wait = event("Stream Wait Event", 0, 5, cat="cuda_sync", pid=0, tid=stated)
    trace, _ = load_one([{**wait, "args": {"stream": stated}}, *launched(7, 3)])
    assert trace.events["stream"].tolist()[0] == -1


@pytest.mark.parametrize("correlation", [-2, -(1 << 31), -(1 << 63), (1 << 63) + 5])
def test_any_correlation_but_none_links(load_one, correlation):
    trace, _ = load_one(launched(7, correlation))
    assert trace.launch_of.tolist() == [-1, -1, 1]


@pytest.mark.parametrize("thread", ["compute", "0x7f1234567890", "Queue A"])
def test_work_without_a_number_of_its_stream_is_on_a_stream(load_one, thread):
    *host, first = launched(7, 3)
    first |= {"tid": thread, "args": {"stream": thread, "correlation": 3}}
    other = event("relu", 120, 9, cat="kernel", pid=0, tid="another")
    trace, _ = load_one([*host, first, other])
    streams = trace.events["stream"].tolist()[2:]
    assert min(streams) >= 0
    assert streams[0] != streams[1]
    assert analysis.operators(hw.TraceSet([trace]))["device_total_ns"].tolist() == [100_000]
    tracks = {track.label for track in trace.table.tracks if track.role == "stream"}
    assert tracks == {"another", "stream 139716164221072" if "0x" in thread else thread}


def test_streams_take_8_bytes_only_where_an_id_needs_them(load_one):
    host = event("hipLaunchKernel", cat="cuda_runtime", args={"stream": 1 << 47})
    assert load_one([host, *launched(70_000, 1)])[0].table.stream.dtype == np.int32
    assert load_one([host, *launched(1 << 31, 1)])[0].table.stream.dtype == np.int64


@pytest.mark.parametrize("folder", ["narrow", "wide"])
def test_work_on_streams_of_hip_handles_counts_everywhere(shared, folder):
    traces = hw.load(shared / "cases" / "rocm-corr" / folder, cache=False)
    work = analysis.operators(traces, ranks=[0]).set_index("name")
    assert work.loc["aten::mm", "device_total_ns"] == 100_000
    assert len(analysis.collectives(traces)) == 4
    assert analysis.temporal_breakdown(traces)["busy_ns"].tolist()[0] == 310_000


def test_correlation_0_is_no_launch(shared):
    traces = hw.load(shared / "cases" / "rocm-zero", cache=False)
    work = analysis.operators(traces).groupby("name", observed=True)["device_total_ns"].sum()
    assert work["aten::item"] == 0
    assert work["aten::mm"] == 2_500_000


def test_neither_ids_nor_flow_records_of_0_link(load_one):
    call, kernel = launched(7, 0)[1:]
    flow = {"name": "ac2g", "cat": "ac2g", "id": 0, "bp": "e"}
    start = flow | {"ph": "s", "pid": 7, "tid": 7, "ts": 0}
    end = flow | {"ph": "f", "pid": 0, "tid": 7, "ts": 10}
    trace, problems = load_one([call, kernel, start, end])
    assert trace.launch_of.tolist() == [-1, -1]
    assert problems[["kind", "count"]].to_numpy().tolist() == [["unpaired", 1]]
