"""Records and files that few programs write: nothing is left out without a problem."""

import gzip
import json
import os

import pytest

import hta_widgets as hw
from hta_widgets import TraceError, analysis

from .conftest import event


def interval(start, end, **more):
    record = {"cat": "rpc", "name": "call", "pid": 1, "tid": 1, **more}
    return [record | {"ph": "b", "ts": start}, record | {"ph": "e", "ts": end}]


def found(problems):
    return problems[["kind", "count"]].to_numpy().tolist()


def test_instants_and_steps_of_async_intervals(load_one, tmp_path):
    """Node.js and Chrome write phase ``n``; older programs write phase ``T``."""
    old = {"cat": "rpc", "name": "load", "pid": 1, "tid": 1, "id": 5}
    records = [
        *(event(), event("inside", 4.5), *interval(1, 9, id=4)),
        *(old | {"ph": phase, "ts": ts} for phase, ts in [("S", 2), ("T", 3), ("F", 6)]),
        {"ph": "n", "cat": "rpc", "name": "sent", "pid": 1, "tid": 1, "id": 4, "ts": 5},
    ]
    trace, problems = load_one(records)
    assert trace.asyncs["dur_ns"].tolist() == [8000, 4000]
    assert trace.instants["time_ns"].tolist() == [3000, 5000]
    assert trace.instants["name"].tolist() == ["load", "sent"]
    assert not len(problems)
    traces = hw.TraceSet([trace])
    window = traces.select(start_ns=4000, end_ns=6000)
    hw.export_trace(traces, tmp_path / "part.json", window)
    part = json.loads((tmp_path / "part.json").read_text())["traceEvents"]
    assert {record["ph"] for record in part} == {"X", "F", "S", "b", "e", "n"}


@pytest.mark.parametrize("scopes", [("a", "b"), ("a", ""), (1, 2)])
@pytest.mark.parametrize(
    "stated", [{"id": "0x1"}, {"id2": {"local": "0x1"}}, {"id2": {"global": "0x1"}}]
)
def test_ids_are_unique_within_their_scope(load_one, scopes, stated):
    (first, first_end), (second, second_end) = (
        interval(start, end, **stated, scope=scope)
        for (start, end), scope in zip([(1, 3), (2, 9)], scopes, strict=True)
    )
    trace, problems = load_one([first, second, first_end, second_end])
    assert trace.asyncs["dur_ns"].tolist() == [2000, 7000]
    assert trace.asyncs["id"].tolist() == ['"0x1"', '"0x1"']
    assert not len(problems)


def test_scopes_of_flows(load_one):
    records = [event("send", 0, 5), event("one", 10, 2, tid=3), event("two", 11, 3, tid=4)]
    for scope, tid, ts in [("a", 3, 10), ("b", 4, 11)]:
        flow = {"cat": "c", "name": "n", "pid": 1, "id": 5, "scope": scope}
        records += [
            flow | {"ph": "s", "tid": 2, "ts": ts - 10},
            flow | {"ph": "f", "tid": tid, "ts": ts, "bp": "e"},
        ]
    trace, problems = load_one(records)
    assert trace.flows[["source", "target"]].to_numpy().tolist() == [[0, 1], [0, 2]]
    assert not len(problems)


def test_intervals_without_an_id_are_of_one_process(load_one):
    records = [*interval(1, 2), *interval(1.5, 4, pid=2)]
    trace, problems = load_one(records)
    assert trace.asyncs[["pid", "dur_ns"]].to_numpy().tolist() == [["1", 1000], ["2", 2500]]
    assert not len(problems)


@pytest.mark.parametrize("args", [{}, {"args": {}}, {"args": None}, {"args": [1]}, {"args": 5}])
def test_counters_without_a_sample(load_one, args):
    record = {"ph": "C", "name": "memory", "pid": 1, "ts": 1}
    trace, problems = load_one([event(), record | args, record | {"args": {"used": 3}}])
    assert trace.counters["value"].tolist() == [3.0]
    assert found(problems) == [["skipped", 1]]


def bound(name, ts, bind_id="0x1", **flags):
    return event(name, ts, 3, bind_id=bind_id, **flags)


@pytest.mark.parametrize("true", [True, 1, "true"])
def test_arrows_between_events_that_state_a_bind_id(load_one, tmp_path, true):
    records = [bound("c", 20, flow_in=true), bound("a", 0, flow_out=true)]
    records += [bound("b", 10, flow_in=true, flow_out=true), event("other", 5, 1)]
    records += [bound("d", 25, bind_id=7, flow_out=true), bound("e", 30, bind_id=7, flow_in=true)]
    records += [bound("lost", 40, bind_id="7", flow_in=true, flow_out=False)]
    trace, problems = load_one(records)
    arrows = trace.flows[["source", "target"]].to_numpy().tolist()
    names = trace.events["name"].to_list()
    expected = [("flow", "a", "b"), ("flow", "b", "c"), ("flow", "d", "e")]
    assert [("flow", names[source], names[target]) for source, target in arrows] == expected
    assert set(trace.flows["kind"]) == {"flow"}
    assert found(problems) == [["unpaired", 1]]
    hw.export_trace(hw.load(trace.path, cache=False), tmp_path / "copy.json")
    copy = hw.load(tmp_path / "copy.json", cache=False)[0]
    assert copy.flows[["source", "target"]].to_numpy().tolist() == arrows


def test_arrows_by_bind_id_stay_within_their_rank(write, tmp_path):
    for rank in range(2):
        records = [bound("a", rank, flow_out=True), bound("b", 10, flow_in=True)]
        write(records, f"{rank}.json", distributedInfo={"rank": rank})
    hw.export_trace(hw.load(tmp_path, cache=False), tmp_path / "merged.json")
    for trace in hw.load(tmp_path / "merged.json", cache=False).values():
        assert trace.flows[["source", "target"]].to_numpy().tolist() == [[0, 1]]


@pytest.mark.parametrize("key", ["samples", "systemTraceEvents", "powerTraceAsString"])
@pytest.mark.parametrize("place", ["before", "after"])
@pytest.mark.parametrize("value", [["a"], "# tracer: nop", {"a": 1}, "", [], {}, None])
def test_data_of_other_tracers(write, key, place, value):
    """Hermes, the engine of React Native, writes ``samples`` but no events."""
    events = {"traceEvents": [event()]}
    text = json.dumps({key: value, **events} if place == "before" else {**events, key: value})
    problems = hw.load(write(text)).problems
    assert list(problems["kind"]).count("skipped") == bool(value)


@pytest.mark.parametrize("buffers", [1, 3])
def test_buffers_that_overflowed(load_one, buffers):
    record = {"ph": "M", "name": "trace_buffer_overflowed", "pid": 1, "ts": 0}
    records = [record | {"tid": tid, "args": {"overflowed_at_ts": 7}} for tid in range(buffers)]
    assert found(load_one([event(), *records])[1]) == [["skipped", buffers]]


def test_files_of_metadata_alone(load_one):
    name = {"ph": "M", "name": "process_name", "pid": 1, "args": {"name": "python"}}
    assert found(load_one([name])[1]) == [["empty", 1]]


@pytest.mark.parametrize("digits", ["1700000000000000000", "1.7e18", '"99999999999999999999"'])
def test_times_that_are_all_too_large(write, digits):
    """Times in nanoseconds since 1970."""
    record = f'{{"ph": "X", "name": "a", "pid": 1, "tid": 1, "ts": {digits}, "dur": 5}}'
    with pytest.raises(TraceError, match=r"all its 2 records .* divide .* nanoseconds by 1000"):
        hw.load(write(f'{{"displayTimeUnit": "ns", "traceEvents": [{record}, {record}]}}'))


def test_ranks_that_are_stated_as_floats(write):
    for name, rank in [("a", 1.0), ("b", 0.0)]:
        path = write([event(name)], f"job/{name}.json", distributedInfo={"rank": rank})
    traces = hw.load(path.parent)
    assert [trace.events["name"][0] for trace in traces.values()] == ["b", "a"]
    assert not len(traces.problems)


@pytest.mark.parametrize("kind", ["missing file", "missing folder", "loop", "pipe"])
def test_entries_of_a_folder_that_cannot_be_opened(write, kind):
    folder = write([event()], "job/rank-0.json").parent
    entry = folder / "rank-1.json"
    if kind == "pipe":
        os.mkfifo(entry)
    else:
        entry.symlink_to({"loop": entry, "missing file": "gone.json"}.get(kind, "/gone/"))
    problems = hw.load(folder).problems
    assert found(problems[problems["file"] == str(entry)]) == [["skipped", 1]]


def rank_text(rank, *names, **more):
    info = {} if rank is None else {"distributedInfo": {"rank": rank, "world_size": 3}}
    records = [event(name, 10 * place) for place, name in enumerate(names)]
    return json.dumps({**info, "traceEvents": records, **more})


def names_of(traces):
    return {rank: trace.events["name"].tolist() for rank, trace in traces.items()}


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("memory_limit", [None, "2 GB"])
def test_ranks_that_were_written_into_one_file(write, tmp_path, packed, memory_limit):
    """Files as joined by ``cat rank-*.json`` or ``cat rank-*.json.gz``."""
    texts = [rank_text(2, "a", "b"), rank_text(0, "c"), rank_text(2, "d")]
    parts = [gzip.compress(text.encode()) if packed else text.encode() for text in texts]
    path = write((b"" if packed else b"\n").join(parts), "all.json.gz" if packed else "all.json")
    # With a memory limit, columns are written to a file and mapped.
    traces = hw.load(path, memory_limit=memory_limit)
    assert names_of(traces) == {0: ["c"], 2: ["a", "d", "b"]}
    assert [trace.world_size for trace in traces.values()] == [3, 3]
    assert [trace.in_file for trace in traces.values()] == [memory_limit is not None] * 2
    assert found(traces.problems) == [["repaired", 2]]
    hw.export_trace(traces, tmp_path / "copy.json")
    assert names_of(hw.load(tmp_path / "copy.json")) == {0: ["c"], 2: ["a", "d", "b"]}


def test_ranks_in_one_file_have_one_clock(write):
    texts = [rank_text(rank, "a", baseTimeNanoseconds=5000 + 1000 * rank) for rank in range(3)]
    traces = hw.load(write("".join(texts)))
    assert [trace.zero_ns for trace in traces.values()] == [5000, 6000, 7000]
    assert json.loads(traces[2].source.record(0))["ts"] == 2


def test_traces_of_no_or_one_rank_in_one_file_are_one_rank(write):
    plain = json.dumps([event("b")])
    for text in (rank_text(None, "a") + rank_text(None, "b"), rank_text(1, "a") + plain):
        traces = hw.load(write(text))
        assert list(names_of(traces).values()) == [["a", "b"]]


def test_processes_without_a_rank_in_a_merged_file(write):
    labels = {"[TP00] 70": "a", "[TP01] 70": "b", "Spans": "span"}
    records = [event(name, pid=pid) for pid, name in labels.items()]
    name = {"ph": "M", "name": "process_name", "pid": 9, "args": {"name": "unused"}}
    traces = hw.load(write([*records, name]))
    assert names_of(traces) == {0: ["a", "span"], 1: ["b"]}
    details = traces.problems.set_index("detail")["count"]
    assert details[details.index.str.startswith("records of processes")].tolist() == [1]


@pytest.mark.parametrize("category", ["kernel", "musa_kernel", "privateuse1_kernel", "HIP_Kernel"])
@pytest.mark.parametrize("name", ["gemm", "ncclDevKernel_AllReduce"])
def test_categories_of_kernels(load_one, category, name):
    trace, _ = load_one([event(), event(name, 5, 9, cat=category, pid=0, args={"stream": 4})])
    times = analysis.temporal_breakdown(hw.TraceSet([trace])).iloc[0]
    kind = "compute_ns" if name == "gemm" else "communication_ns"
    assert (times[kind], trace.events["stream"][1]) == (9000, 4)


@pytest.mark.parametrize("category", ["CudaRuntime", "hipRuntime", "privateuse1_runtime"])
def test_categories_of_runtimes(load_one, category):
    assert load_one([event("cudaLaunchKernel", cat=category)])[0].events["kind"][0] == "cpu"


@pytest.mark.parametrize("size", [4, "4", 4.0])
def test_world_sizes_of_any_type(load_one, size):
    trace, problems = load_one([event()], distributedInfo={"rank": 1, "world_size": size})
    assert (trace.world_size, len(problems)) == (4, 0)


@pytest.mark.parametrize("end", [",],}", "],}", "] , }", "],\n}"])
def test_commas_after_the_last_key(write, end):
    problems = hw.load(write('{"traceEvents": [' + json.dumps(event()) + end)).problems
    assert "truncated" not in set(problems["kind"])


@pytest.mark.parametrize("ranks", [(0, 1), (8, 9), (9, 8)])
def test_ranks_that_only_the_processes_of_hosts_name(write, ranks):
    """Both ranks use the same launch ids, as left by a script that joins files."""
    records = []
    for place, rank in enumerate(ranks):
        pid, args = 100 + place, {"correlation": 1, "stream": 7}
        records += [
            {
                "ph": "M",
                "name": "process_name",
                "pid": pid,
                "args": {"name": f"rank {rank}: python"},
            },
            event("hipLaunchKernel", 0, 2, cat="cuda_runtime", pid=pid, args={"correlation": 1}),
            event("gemm", 10, 5 + place, cat="kernel", pid=place, tid=7, args=args),
        ]
    traces = hw.load(write(records))
    work = analysis.temporal_breakdown(traces).set_index("rank")["compute_ns"].to_dict()
    assert work == {ranks[0]: 5000, ranks[1]: 6000}
    assert [trace.launch_of.tolist() for trace in traces.values()] == [[-1, 0]] * 2
