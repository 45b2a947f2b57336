"""Exports with derived counters: their series, their position, and loading them again."""

import pytest

from hta_widgets.analysis import memory_bandwidth, queue_length, with_counters
from hta_widgets.errors import TraceError
from hta_widgets.export.traces.files import export_trace
from hta_widgets.export.traces.overlays import add_counters

RATE = "memory bandwidth (GB/s)"
OWN = {"ph": "C", "name": "memory", "pid": 10, "ts": 12, "args": {"used": 5}}


def records(shift=0, correlation=4):
    launch = {"correlation": correlation}
    return [
        {"ph": "M", "name": "process_labels", "pid": 0, "tid": 0, "args": {"labels": "GPU 0"}},
        {"ph": "X", "cat": "cpu_op", "name": "op", "pid": 10, "tid": 1, "ts": 10, "dur": 90},
        {"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 10, "tid": 1,
         "ts": 20 + shift, "dur": 2, "args": launch},
        {"ph": "X", "cat": "kernel", "name": "k", "pid": 0, "tid": 7, "ts": 30 + shift, "dur": 5,
         "args": {"stream": 7, **launch}},
        {"ph": "X", "cat": "gpu_memcpy", "name": "Memcpy HtoD (Host -> Device)", "pid": 0, "tid": 9,
         "ts": 40.125, "dur": 10, "args": {"stream": 9, RATE: 1.25, "bytes": 12500}},
        OWN,
    ]  # fmt: skip


@pytest.fixture
def traces(trace_file, load):
    return load(trace_file(records(), distributedInfo={"rank": 3}, baseTimeNanoseconds=10**18))


def added(document):
    return [r for r in document["traceEvents"] if r["ph"] == "C" and r["name"] != "memory"]


def counters(trace):
    frame = trace.counters.astype({"name": str, "series": str, "pid": str})
    return frame.sort_values(["name", "series", "time_ns"]).to_numpy().tolist()


def test_the_files_records_and_after_them_the_counters(traces, tmp_path, document):
    before = (tmp_path / "trace.json").read_text()
    report = add_counters(traces, tmp_path / "out.json")
    written = document(report.path)
    own = document(tmp_path / "trace.json")["traceEvents"]
    assert written["traceEvents"][: len(own)] == own
    queue = {"ph": "C", "name": "Queue Length", "id": 7, "pid": 0}
    rate = {"ph": "C", "name": "Memcpy HtoD", "pid": 0}
    assert [dict(r, ts=float(r["ts"])) for r in added(written)] == [
        {**queue, "ts": 20, "args": {"Queue Length": 1}},
        {**queue, "ts": 30, "args": {"Queue Length": 0}},
        {**rate, "ts": 40.125, "args": {"Memcpy BW": 1.25}},
        {**rate, "ts": 50.125, "args": {"Memcpy BW": 0}},
    ]
    assert (report.samples, report.events, report.dropped) == (4, 4, 0)
    assert written["baseTimeNanoseconds"] == 10**18
    assert (tmp_path / "trace.json").read_text() == before


def test_what_was_added_loads_again(traces, tmp_path, load):
    back = load(add_counters(traces, tmp_path / "out.json.gz").path)
    assert counters(back[3]) == counters(with_counters(traces)[3])
    assert len(back[3].counters) == 5
    assert load(tmp_path / "out.json.gz").problems.equals(back.problems)
    again = add_counters(back, tmp_path / "again.json.gz")
    assert again.samples == 0, "what the file has already is not added again"
    assert counters(load(again.path)[3]) == counters(back[3])


def test_counters_of_the_set_are_those_of_the_analyses(traces):
    table = with_counters(traces)[3].counter_table
    assert (table.record < 0).sum() == 4
    frame = with_counters(traces)[3].counters
    queue = frame[frame["name"] == "Queue Length[7]"]
    expected = queue_length(traces)
    assert queue["time_ns"].tolist() == expected["time_ns"].tolist()
    assert queue["value"].tolist() == expected["queue_length"].tolist()
    rate = frame[frame["series"] == "Memcpy BW"]
    assert rate["time_ns"].tolist() == memory_bandwidth(traces)["time_ns"].tolist()
    only = with_counters(traces, "memory_bandwidth")[3].counters
    assert set(only["name"]) == {"memory", "Memcpy HtoD"}
    assert with_counters(traces, ranks=[])[3].counter_table is traces[3].counter_table
    part = with_counters(traces).subset(start_ns=11_000, end_ns=30_000)
    assert len(part[3].counters) == 1
    with pytest.raises(TraceError, match="kinds= takes a list of 'queue_length', "):
        with_counters(traces, ["flops"])


def test_counters_are_all_the_sets_or_none(traces, tmp_path, document):
    everything = export_trace(traces, tmp_path / "all.json", counters=True)
    assert (everything.samples, everything.dropped) == (4, 0)
    own = export_trace(traces, tmp_path / "own.json", counters="own")
    assert (own.samples, len(added(document(own.path)))) == (0, 0)
    assert OWN in document(own.path)["traceEvents"]
    none = export_trace(with_counters(traces), tmp_path / "none.json")
    assert none.left_out == {"counters": 5}
    derived = export_trace(with_counters(traces), tmp_path / "derived.json", counters="own")
    assert derived.samples == 4
    with pytest.raises(TraceError, match="'own'"):
        export_trace(traces, tmp_path / "odd.json", counters="all")


def test_a_window_begins_with_the_value_it_finds(traces, tmp_path, document):
    # Times count from 10 µs: the kernel waits from 10 to 20, the copy runs from 30.125.
    window = traces.select(start_ns=15_000, end_ns=33_000)
    report = export_trace(traces, tmp_path / "out.json", window, counters=True)
    result = added(document(report.path))
    assert [(item["name"], float(item["ts"]), *item["args"].values()) for item in result] == [
        ("Queue Length", 25, 1),
        ("Queue Length", 30, 0),
        ("Memcpy HtoD", 40.125, 1.25),
    ]


def test_merged_ranks_keep_their_counters_apart(trace_file, load, tmp_path):
    bases = {0: 10**18, 1: 10**18 + 5_000}
    for rank, base in bases.items():
        trace_file(
            records(shift=rank, correlation=8 + rank), f"r{rank}.json",
            distributedInfo={"rank": rank}, baseTimeNanoseconds=base,
        )  # fmt: skip
    traces = load([str(tmp_path / f"r{rank}.json") for rank in bases])
    report = add_counters(traces, tmp_path / "all.json.gz")
    back = load(report.path)
    expected = with_counters(traces)
    assert report.samples == 8
    for rank in bases:
        assert counters(back[rank]) == counters(expected[rank])
    folder = add_counters(traces, tmp_path / "folder", ranks=[1], kinds=["queue_length"])
    assert [path.name for path in folder.path.iterdir()] == ["rank-1.trace.json.gz"]
    assert folder.samples == 2


def test_no_input_is_written_over(traces, load, tmp_path):
    inputs = load(add_counters(traces, tmp_path / "job").path)
    for source, target in (
        (traces, tmp_path / "trace.json"),
        (traces[3], tmp_path / "." / "trace.json"),
        (inputs, tmp_path / "job"),
    ):
        with pytest.raises(TraceError, match="read from"):
            add_counters(source, target)


def test_a_trace_without_a_file_has_its_counters_written(traces, tmp_path, load):
    result = with_counters(traces).subset()
    result._traces[3] = result[3].replace(source=None)
    back = load(export_trace(result, tmp_path / "made.json", counters="own").path)
    names = set(back[next(iter(back))].counters["name"])
    assert names == {"memory", "Queue Length[7]", "Memcpy HtoD"}


def test_odd_values_and_names_survive(traces, tmp_path, load):
    table = with_counters(traces)[3].counter_table
    table.series[-1] = ("GPU %s", '100% "quoted" [x]y', "é%d")
    table.value[-2:] = 1 / 3, 1e300
    odd = with_counters(traces, ranks=[])
    odd._traces[3] = odd[3].replace(counter_table=table)
    back = load(export_trace(odd, tmp_path / "odd.json", counters="own").path)[3].counters
    assert back["value"].tolist()[-2:] == [1 / 3, 1e300]
    assert back.iloc[-1][["pid", "name", "series"]].tolist() == list(table.series[-1])
