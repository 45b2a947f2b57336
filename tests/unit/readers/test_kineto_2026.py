"""New in Kineto since 2026: rows of waits, sampled counters, ids of graphs and collectives."""

import pytest

import hta_widgets as hw
from hta_widgets import analysis
from hta_widgets.tiles.layout import track_label

from .conftest import event


def named_row(tid, name):
    return {"ph": "M", "name": "thread_name", "pid": 0, "tid": tid, "args": {"name": name}}


def work(name, ts, dur, stream=7, cat="kernel", tid=None, **args):
    args = {"device": 0, "stream": stream, "correlation": ts, **args}
    return event(name, ts, dur, cat=cat, pid=0, tid=stream if tid is None else tid, args=args)


WAIT = "Stream Sync"
SYNC_ROW = [
    {"ph": "M", "name": "process_labels", "pid": 0, "tid": 0, "args": {"labels": "GPU 0"}},
    *(named_row(7, "stream 7"), named_row(1_000_007, "stream 7 (sync)")),
    *(work("gemm", 10, 100), work("gemm", 120, 30)),
    work(WAIT, 5, 150, cat="cuda_sync", tid=1_000_007),
]


def test_waits_on_a_row_of_their_own_are_no_work(load_one):
    trace, problems = load_one(SYNC_ROW)
    assert [track_label(track) for track in trace.table.tracks] == ["stream 7", "stream 7 (sync)"]
    kinds = dict(zip(trace.events["name"], trace.events["kind"], strict=True))
    assert kinds == {WAIT: "sync", "gemm": "compute"}
    frame = analysis.temporal_breakdown(hw.TraceSet([trace])).iloc[0]
    assert (frame["compute_ns"], frame["idle_ns"], frame["span_ns"]) == (130_000, 10_000, 140_000)
    assert not len(problems)


@pytest.mark.parametrize("tid", [7, 1_000_007])
def test_a_wait_on_any_row_of_a_stream_is_a_wait_for_its_work(load_one, tid):
    """The path follows the kernels, not the call that waits for them."""
    calls = [
        event("cudaLaunchKernel", 0, 2, cat="cuda_runtime", pid=1, args={"correlation": 10}),
        event("cudaLaunchKernel", 3, 2, cat="cuda_runtime", pid=1, args={"correlation": 120}),
        event("cudaStreamSynchronize", 6, 150, cat="cuda_runtime", pid=1, args={"correlation": 5}),
    ]
    trace, _ = load_one([*SYNC_ROW[:-1], *calls, work(WAIT, 5, 150, cat="cuda_sync", tid=tid)])
    path = analysis.critical_path(hw.TraceSet([trace]), rank=trace.rank, annotation="")
    spent = path[path["type"] == "operator"].groupby("name", observed=True)["dur_ns"].sum()
    assert spent.to_dict() == {"gemm": 130_000}


def test_counters_without_a_series_and_with_a_process_by_name(load_one, tmp_path):
    counter = {"ph": "C", "name": "sm__cycles_active.avg", "pid": "GPU 0 PM sampling", "tid": 0}
    samples = [counter | {"ts": 10 + k, "args": {"": k / 4}} for k in range(4)]
    trace, problems = load_one([*SYNC_ROW, *samples])
    assert trace.counters["value"].tolist() == [0, 0.25, 0.5, 0.75]
    assert set(trace.counters["pid"]) == {"GPU 0 PM sampling"}
    assert not len(problems)
    hw.Dashboard(hw.TraceSet([trace])).save_html(tmp_path / "page.html")


def test_ids_of_graphs_and_collectives_stay_exact(load_one):
    graph = {"graph id": 3, "graph node id": 17_179_869_185, "annotation": {"fqn": "layers.0.wq"}}
    trace, _ = load_one([work("gemm", 10, 5, **graph), work("relu", 20, 5, **graph)])
    assert graph.items() <= trace.args(0).items()
    allreduce = {"Collective name": "allreduce", "Process Group Name": "0", "Seq": 5}
    allreduce |= {"Comms Id": 17_446_744_073_709_551_615, "dtype": "Float", "Group size": 1}
    trace, _ = load_one([work("ncclDevKernel_AllReduce", 10, 5, 20, **allreduce)])
    assert allreduce.items() <= trace.args(0).items()


@pytest.mark.parametrize(
    ("name", "category", "kind"),
    [
        ("xccl_allreduce_kernel", "kernel", "communication"),
        ("oneccl_allgather", "kernel", "communication"),
        ("xccl:all_reduce", "cpu_op", "annotation"),
        ("gemm", "kernel", "compute"),
        ("Stream Synchronize", "xpu_sync", "sync"),
    ],
)
def test_kinds_on_xpu(load_one, name, category, kind):
    trace, _ = load_one([work(name, 10, 5, cat=category), work("gemm", 30, 5)])
    assert trace.events["kind"].astype(str).tolist() == [kind, "compute"]


def test_the_host_is_that_of_the_file(load_one):
    trace, _ = load_one([event()], host_name="node17")
    assert hw.TraceSet([trace]).summary()["host"].tolist() == ["node17"]


def test_logical_streams_of_rocm_are_streams(load_one):
    trace, _ = load_one([work("Cijk", 10, 5, 0), work("Cijk", 12, 5, 1)])
    assert [track_label(track) for track in trace.table.tracks] == ["stream 0", "stream 1"]
