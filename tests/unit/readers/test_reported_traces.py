"""Traces of tools, as in public reports and in the sources of the tools."""

import json
import struct

import pyarrow as pa
import pytest

import hta_widgets as hw
from hta_widgets import TraceError, analysis

from .conftest import event


def process(pid, name):
    return {"ph": "M", "name": "process_name", "pid": pid, "args": {"name": name}}


def thread(pid, tid, name):
    return {"ph": "M", "name": "thread_name", "pid": pid, "tid": tid, "args": {"name": name}}


def row(pid, tid, name, ts, dur, **more):
    return {"ph": "X", "name": name, "pid": pid, "tid": tid, "ts": ts, "dur": dur, **more}


def arrow(phase, pid, tid, ts, number=0, **more):
    return {"ph": phase, "name": "dep", "pid": pid, "tid": tid, "ts": ts, "id": number, **more}


def times_us(traces):
    names = ["compute_ns", "communication_ns", "memory_ns", "span_ns"]
    return (analysis.temporal_breakdown(traces)[names] // 1000).values.tolist()


def head(value):
    """Return a trace with a metadata value as Kineto writes it: without backslashes."""
    lines = [
        f'"config": {value}',
        '"distributedInfo": {"backend": "nccl", "rank": 3, "world_size": 8}',
        '"baseTimeNanoseconds": 5000',
        f'"traceEvents": {json.dumps([event("op", 1)])}',
        '"traceName": "t.json"',
    ]
    return "{\n  " + ",\n  ".join(lines) + "\n}"


@pytest.mark.parametrize("value", ['"{/"lr/": 0.1, /"warm/": [1]}"', '"5" disk"', "lr=0.1"])
@pytest.mark.parametrize("place", ["before", "after"])
def test_metadata_with_quotes_cost_no_other_metadata(load_one, value, place):
    """PyTorch's `add_metadata` (pytorch/kineto#1336): rank and base time follow the value."""
    text = head(value)
    if place == "after":
        text = head("1").replace('"traceName"', f'"INFO": {value},\n  "traceName"')
    trace, problems = load_one(text)
    assert (trace.rank, trace.zero_ns, trace.metadata["traceName"]) == (3, 6000, "t.json")
    assert trace.metadata["config" if place == "before" else "INFO"] == value
    assert problems["kind"].tolist() == ["repaired"]


def test_a_trace_cut_in_its_metadata_is_cut(load_one):
    trace, problems = load_one(head("1")[:-6])
    assert (trace.rank, problems["kind"].tolist()) == (3, ["truncated"])


def test_keys_within_a_broken_object_are_no_metadata_of_the_trace(load_one):
    text = head("1").replace(
        '"traceName"', '"INFO": {"a": "5" disk",\n  "rank": 9},\n  "traceName"'
    )
    trace, problems = load_one(text)
    assert (trace.rank, "rank" in trace.metadata) == (3, False)
    assert problems["kind"].tolist() == ["truncated"]


def test_a_broken_value_before_a_cut_list_of_events_ends_with_its_line(load_one):
    events = json.dumps([event("op", 1), event("op", 9)])
    trace, _ = load_one('{\n  "config": "5" disk",\n  "traceEvents": ' + events[:-20])
    assert trace.metadata == {"config": '"5" disk"'}


def test_local_ids_are_those_of_a_process_and_global_ones_of_all(load_one, tmp_path):
    """Perfetto's exports and Proton (triton-lang/triton#10956) write ``id2``."""

    def interval(pid, start, end, **id2):
        record = {"cat": "rpc", "name": "call", "pid": pid, "tid": 1, "id2": id2}
        return [record | {"ph": "b", "ts": start}, record | {"ph": "e", "ts": end}]

    records = [*interval(1, 1, 4, local="0x1"), *interval(2, 2, 9, local="0x1")]
    begin, end = interval(3, 5, 7, **{"global": "0x1"})
    trace, problems = load_one([*records, begin, end | {"pid": 4}])
    assert trace.asyncs[["start_ns", "dur_ns"]].values.tolist() == [
        *([0, 3000], [1000, 7000], [4000, 2000])
    ]
    assert not len(problems)
    hw.export_trace(hw.TraceSet([trace]), tmp_path / "copy.json")
    copy = hw.load(tmp_path / "copy.json")[0]
    assert copy.asyncs["dur_ns"].tolist() == [3000, 7000, 2000]


def test_flows_with_local_ids_are_launches(load_one):
    scoped = {"id2": {"local": 7}}
    records = [
        *(process(0, "Trace"), thread(0, 1, "CPU Thread 77"), thread(0, 9, "GPU Stream 5")),
        row(0, 1, "forward", 0, 10, cat="scope"),
        row(0, 9, "gemm", 20, 30, cat="kernel"),
        {**arrow("s", 0, 1, 0, cat="flow"), **scoped},
        {**arrow("f", 0, 9, 20, cat="flow", bp="e"), **scoped},
    ]
    for record in records[-2:]:
        del record["id"]
    trace, problems = load_one(records)
    assert trace.launch_of.tolist() == [-1, 0]
    assert not len(problems)


def hip_profiler(device, name):
    """Return a file of HIP's own profiler (ROCm/rocm-systems#5215)."""
    return [
        row(1024, 0, "hipLaunchKernel", 100, 5, args={"stream": "0x7f00aa10"}),
        *(arrow("s", 1024, 0, 100), row(device, 2, "gemm", 110, 50), arrow("t", device, 2, 110)),
        row(device, 1, "H2D", 170, 20, args={"copy_kind": "H2D", "bytes": 4096}),
        row(device, 0, "Barrier", 190, 5),
        row(device, 2, "Fill", 200, 4),
        *(process(1024, "CPU HIP"), process(device, name)),
        thread(device, 0, "Default Stream"),
        *(thread(device, 1, "SDMA 0"), thread(device, 2, "Compute 1")),
    ]


@pytest.mark.parametrize("name", ["gfx942:sramecc+:xnack-", "gfx90a", "GPU 0"])
def test_rows_of_hips_profiler(load_one, name):
    trace, problems = load_one({"GPU 0": hip_profiler(0, name)}.get(name, hip_profiler(1, name)))
    kinds = dict(zip(trace.events["name"], trace.events["kind"], strict=True))
    assert kinds == {
        "hipLaunchKernel": "cpu", "gemm": "compute", "H2D": "memory", "Barrier": "sync",
        "Fill": "memory",
    }  # fmt: skip
    assert times_us(hw.TraceSet([trace])) == [[50, 0, 24, 94]]
    assert trace.launch_of.tolist() == [-1, 0, -1, -1, -1]
    assert not len(problems)


def rocprof(*devices):
    """Return a ``results.json`` of rocprof: times as texts, one process for all copies."""
    records = [
        *({}, process(2, "CPU HIP API"), process(1, "COPY")),
        row(2, 4242, "hipLaunchKernel", "10", "5"),
        *(arrow("s", 2, 4242, 12, cat="DataFlow"), arrow("t", 6, 1, 30, cat="DataFlow")),
        row(1, 4242, "CopyHostToDevice", "200", "40", args={"BeginNs": "200000"}),
    ]
    for number in devices:
        records.append(process(6 + number, f"GPU{number}"))
        records.append(row(6 + number, 1, "k1(int*)", "30", "100"))
        records.append(row(6 + number, 2, "ncclKernel_AllReduce", "50", "100"))
    return records


def test_copies_of_rocprof_are_those_of_its_only_device(load_one, write):
    trace, problems = load_one(rocprof(0))
    assert times_us(hw.TraceSet([trace])) == [[100, 100, 40, 210]]
    assert trace.launch_of.tolist() == [-1, 0, -1, -1]
    assert not len(problems)
    traces = hw.load(write(rocprof(0, 1), "two.json"))
    assert times_us(traces) == [[100, 100, 0, 120]] * 2
    streams = [sorted(set(trace.events["stream"]) - {-1}) for trace in traces.values()]
    assert streams == [[1, 2], [1, 2]]


def unitrace(rank, pid):
    """Return a file of Intel's unitrace for one MPI process."""
    device = 4_294_967_295 - 8192 * rank
    down, up = {"cat": f"Flow_H2D_1_{rank}"}, {"cat": f"Flow_D2H_1_{rank}"}
    return [
        row(pid, pid, "zeCommandListAppendLaunchKernel", 1000.5, 3, cat="cpu_op"),
        row(device, device, "gemm[SIMD16]", 1010.5, 50, cat="gpu_op", args={"id": "1"}),
        *(arrow("s", pid, pid, 1000.5, 1, **down), arrow("t", device, device, 1010.5, 1, **down)),
        row(pid, pid, "zeEventHostSynchronize", 1020, 60, cat="cpu_op"),
        *(arrow("s", device, device, 1010.5, 1, **up), arrow("t", pid, pid, 1020, 1, **up)),
        row(device, device - 1, "zeCommandListAppendMemoryCopy(M2D)", 1070.5, 10, cat="gpu_op"),
        process(pid, f"RANK {rank} HOST<node7>"),
        process(device, f"RANK {rank} DEVICE<node7>0:3a:0:0 #0"),
    ]


def test_ranks_and_devices_of_unitrace(write):
    write(unitrace(0, 900), "job/app.900.json")
    traces = hw.load(write(unitrace(5, 700), "job/app.700.json").parent)
    assert traces.ranks == [0, 5]
    assert times_us(traces) == [[50, 0, 10, 70]] * 2
    assert [trace.launch_of.tolist() for trace in traces.values()] == [[-1, 0, -1, -1]] * 2
    assert not len(traces.problems)


def test_the_rank_that_a_file_states_comes_before_the_names_of_its_processes(load_one):
    names = [process(1, "trainer rank 3"), process(0, "trainer rank 3")]
    records = [*names, event("op"), event("gemm", 1, 5, cat="kernel", pid=0)]
    assert load_one(records)[0].rank == 3
    assert load_one(records, distributedInfo={"rank": 11})[0].rank == 11


def rank_trace(rank, *more):
    info = {"rank": rank, "world_size": 2}
    records = [event("op", 7 * rank), event("gemm", 10 + rank, 5, cat="kernel", pid=0), *more]
    return json.dumps({"distributedInfo": info, "traceEvents": records})


def test_a_rank_has_one_copy_in_a_merged_file(write):
    """Rank 1 of the merged file equals rank 0 and exists in no other file."""
    write(rank_trace(0), "job/rank-0.json")
    single = json.loads(rank_trace(0))["traceEvents"]
    merged = [
        record | {"pid": f"[TP0{rank}] {record['pid']}"} for rank in (0, 1) for record in single
    ]
    traces = hw.load(write(merged, "job/merged-17.json").parent)
    assert {rank: trace.path.rsplit("/", 1)[1] for rank, trace in traces.items()} == {
        0: "rank-0.json",
        1: "merged-17.json",
    }


def test_results_that_tools_write_beside_traces_are_no_ranks(write):
    """HTA adds counters or arrows to a trace; SGLang merges ranks (sgl-project/sglang#11413)."""
    counter = {"ph": "C", "name": "Queue Length", "pid": 0, "ts": 1, "args": {"7": 1}}
    flow = [arrow("s", 1, 2, 0), arrow("f", 0, 2, 10)]
    merged = [
        record | {"pid": f"[TP0{rank}] {record['pid']}"}
        for rank in (0, 1)
        for record in json.loads(rank_trace(rank))["traceEvents"]
    ]
    files = {
        "rank-0.json": rank_trace(0),
        "rank-1.json": rank_trace(1),
        "rank-0_with_counters.json": rank_trace(0, counter),
        "overlaid_critical_path_rank-1.json": rank_trace(1, *flow),
        "merged-17.json": merged,
    }
    for name, contents in files.items():
        folder = write(contents, f"job/{name}").parent
    traces = hw.load(folder)
    assert [trace.path.rsplit("/", 1)[1] for trace in traces.values()] == [
        *("rank-0.json", "rank-1.json")
    ]
    left_out = traces.problems[traces.problems["kind"] == "duplicate_rank"]
    assert left_out["count"].sum() == 4
    assert left_out["detail"].str.endswith("holds the same run").all()
    assert len(hw.load([folder / name for name in files])) == 6  # the caller named all files


@pytest.mark.parametrize(
    ("names", "ranks"),
    [
        ("global_rank_8_local_rank_0.json, global_rank_9_local_rank_1.json", [8, 9]),
        ("local-rank-0_rank-4.json, local-rank-1_rank-6.json", [4, 6]),
        ("local_rank_2.json, local_rank_5.json", [2, 5]),
    ],
)
def test_a_rank_of_the_node_is_not_that_of_the_job(write, names, ranks):
    for name in names.split(", "):
        folder = write([event(name)], f"job/{name}").parent
    assert hw.load(folder).ranks == ranks


def test_zstd_that_begins_with_a_frame_to_skip(tmp_path):
    """As pzstd writes it."""
    packed = pa.Codec("zstd").compress(rank_trace(1).encode(), asbytes=True)
    skipped = struct.pack("<II", 0x184D2A50, 4) + bytes(4)
    (tmp_path / "t.json.zst").write_bytes(skipped + packed + skipped)
    traces = hw.load(tmp_path / "t.json.zst")
    assert (traces.ranks, len(traces[1]), len(traces.problems)) == ([1], 2, 0)


def test_a_file_that_is_compressed_twice_is_named(write):
    packed = pa.Codec("gzip").compress(rank_trace(1).encode(), asbytes=True)
    path = write(pa.Codec("gzip").compress(packed, asbytes=True), "t.json.gz")
    with pytest.raises(TraceError, match=r"is compressed twice\. Decompress it once"):
        hw.load(path)
