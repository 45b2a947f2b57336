"""Several ranks in one file, as docs/merged-format.md describes it, and loading them again."""

import json

import pandas as pd
import pytest

import hta_widgets as hw
from hta_widgets.demo.job import write_demo
from hta_widgets.errors import TraceError
from hta_widgets.export.trace import export_trace
from hta_widgets.trace.names import original_id, scoped_id

PID = 100_000
ID = 10**12


def kernel(ts, correlation, **more):
    args = {"stream": 7, "correlation": correlation, "External id": correlation + 1}
    return {"ph": "X", "cat": "kernel", "name": "k", "pid": 0, "tid": 7, "ts": ts, "dur": 2,
            "args": args | more}  # fmt: skip


def launch(ts, correlation, pid=40):
    return {"ph": "X", "cat": "cuda_runtime", "name": "l", "pid": pid, "tid": pid, "ts": ts,
            "dur": 1, "args": {"correlation": correlation}}  # fmt: skip


def arrow(ts_from, ts_to, number, pid=40):
    both = {"id": number, "cat": "ac2g", "name": "a"}
    return [
        {"ph": "s", **both, "pid": pid, "tid": pid, "ts": ts_from},
        {"ph": "f", **both, "pid": 0, "tid": 7, "ts": ts_to, "bp": "e"},
    ]


@pytest.fixture
def two(trace_file, load):
    """Two ranks whose processes, correlations and flow ids are the same."""
    for rank in (0, 3):
        records = [
            {"name": "process_name", "ph": "M", "pid": 40, "tid": 0, "args": {"name": "python"}},
            {
                "name": "process_sort_index",
                "ph": "M",
                "pid": 40,
                "tid": 0,
                "args": {"sort_index": 9},
            },
            {"name": "process_labels", "ph": "M", "pid": 0, "tid": 0, "args": {"labels": "GPU 0"}},
            launch(10 + rank, 5),
            kernel(20 + rank, 5),
            *arrow(10 + rank, 20 + rank, 5),
            {"ph": "i", "s": "g", "name": "end", "pid": "", "tid": "", "ts": 90},
            {"ph": "X", "name": "unowned", "ts": 50, "dur": 1},
        ]
        trace_file(
            records,
            name=f"rank-{rank}.json",
            distributedInfo={"rank": rank},
            baseTimeNanoseconds=1_000_000_000 * (rank + 1),
            host_name=f"node-{rank}",
        )
    return load(trace_file([], name="x.json").parent.glob("rank-*.json"))


def test_ids_and_processes_are_scoped_by_rank(two, tmp_path, document):
    written = document(export_trace(two, tmp_path / "all.json").path)
    records = written["traceEvents"]
    kernels = [r for r in records if r["name"] == "k"]
    assert [r["args"]["correlation"] for r in kernels] == [5, 3 * ID + 5]
    assert [r["args"]["External id"] for r in kernels] == [6, 3 * ID + 6]
    flows = [(r["ph"], r["id"]) for r in records if r["ph"] in "sf"]
    assert flows == [("s", 5), ("f", 5), ("s", 3 * ID + 5), ("f", 3 * ID + 5)]
    pids = {0: set(), 3: set()}
    for record in records:
        pids[record["pid"] // PID].add(record["pid"])
    assert all(len(own) == 4 for own in pids.values())
    head = written["hta_widgets"]
    assert head["merged"] == 1
    assert [entry["rank"] for entry in head["ranks"]] == [0, 3]
    assert [entry["file"] for entry in head["ranks"]] == ["rank-0.json", "rank-3.json"]
    assert head["ranks"][1]["metadata"]["host_name"] == "node-3"


def test_processes_are_named_by_rank(two, tmp_path, document):
    records = document(export_trace(two, tmp_path / "all.json").path)["traceEvents"]
    names = {r["args"]["name"] for r in records if r["name"] == "process_name"}
    assert {"rank 0 · python", "rank 3 · python", "rank 3 · 0 [GPU 0]"} <= names
    order = {}
    for record in records:
        if record["name"] == "process_sort_index":
            order.setdefault(record["pid"] // PID, []).append(record["args"]["sort_index"])
    assert max(order[0]) < min(order[3])
    titled = {r["pid"] for r in records if r["name"] == "process_name"}
    assert titled == {r["pid"] for r in records}


def test_ranks_come_back_as_they_were(two, tmp_path, load):
    back = load(export_trace(two, tmp_path / "all.json.gz").path)
    assert back.ranks == [0, 3]
    assert back.origin_ns == two.origin_ns
    for rank in (0, 3):
        pd.testing.assert_frame_equal(back[rank].events, two[rank].events)
        pd.testing.assert_frame_equal(back[rank].flows, two[rank].flows)
        pd.testing.assert_frame_equal(back[rank].instants, two[rank].instants)
        assert back[rank].metadata == two[rank].metadata
        assert [t.key for t in back[rank].tracks] == [t.key for t in two[rank].tracks]
        for row in range(len(back[rank])):
            assert back[rank].args(row) == two[rank].args(row)
    assert back.problems["count"].sum() == two.problems["count"].sum()


def test_one_rank_of_a_merged_file_is_its_own_file_again(two, tmp_path, load, document):
    back = load(export_trace(two, tmp_path / "all.json").path)
    again = export_trace(back, tmp_path / "three.json", back.select(ranks=[3]))
    own = document(tmp_path / "rank-3.json")
    written = document(again.path)
    assert written["traceEvents"] == own["traceEvents"]
    assert written.pop("hta_widgets")["part"]["job_ranks"] == 2
    assert {k: v for k, v in written.items() if k != "traceEvents"} == {
        k: v for k, v in own.items() if k != "traceEvents"
    }


def test_ranks_can_be_chosen_from_a_merged_file(two, tmp_path, load):
    path = export_trace(two, tmp_path / "all.json").path
    assert hw.load(path, ranks=[3], progress=False).ranks == [3]
    assert load([path]).ranks == [0, 3]


def test_base_times_are_brought_together_exactly(trace_file, load, tmp_path, document):
    for rank, base in ((0, 1_000_000_000), (1, 1_000_000_123)):
        record = f'{{"ph":"X","name":"e","pid":1,"tid":1,"ts":{7 + rank}.10,"dur":1.0}}'
        keys = {"distributedInfo": {"rank": rank}, "baseTimeNanoseconds": base}
        trace_file([record], f"rank-{rank}.json", **keys)
    traces = load(tmp_path.glob("rank-*.json"))
    path = export_trace(traces, tmp_path / "all.json").path
    assert document(path)["baseTimeNanoseconds"] == 1_000_000_000
    assert [str(r["ts"]) for r in document(path)["traceEvents"] if r["ph"] == "X"] == [
        "7.10",
        "8.223",
    ]
    back = load(path)
    assert [back[r].events["start_ns"].tolist() for r in (0, 1)] == [[0], [1123]]
    assert back[1].metadata["baseTimeNanoseconds"] == 1_000_000_123
    again = export_trace(back, tmp_path / "one.json", back.select(ranks=[1]))
    assert str(document(again.path)["traceEvents"][0]["ts"]) == "8.1"


def test_a_later_version_is_refused(two, tmp_path, load):
    path = export_trace(two, tmp_path / "all.json").path
    path.write_text(path.read_text().replace('"merged": 1', '"merged": 2'))
    with pytest.raises(TraceError, match="version 2"):
        load(path)


def test_a_demo_job_comes_back(tmp_path, load):
    write_demo(tmp_path / "job", ranks=3, steps=1, tensor_ranks=1)
    traces = load(tmp_path / "job")
    back = load(export_trace(traces, tmp_path / "all.json.gz", counters="own").path)
    assert not len(back.problems)
    for rank in traces:
        pd.testing.assert_frame_equal(back[rank].events, traces[rank].events)
        pd.testing.assert_frame_equal(back[rank].flows, traces[rank].flows)
        pd.testing.assert_frame_equal(back[rank].counters, traces[rank].counters)
        row = int(traces[rank].events["name"].str.startswith("ncclDevKernel").idxmax())
        assert back[rank].args(row) == traces[rank].args(row)


@pytest.mark.parametrize("rank", [0, 3, 1023, 9_007, 100_000])
@pytest.mark.parametrize(
    "raw", ["0", "7", "-1", "null", '"7"', '"0x1f"', '"3:7"', '"é\\n"', str(2**63), "1.5", '""']
)
def test_ids_come_back_whatever_they_are(rank, raw):
    there = scoped_id(raw.encode(), rank)
    json.loads(there)
    assert original_id(there, rank) == raw.encode()


def test_scoped_ids_differ():
    raws = ["0", "7", '"7"', '"0:7"', '"1:7"', str(10**12), str(10**12 + 7), "1.5"]
    scoped = [scoped_id(raw.encode(), rank) for raw in raws for rank in (0, 1, 2)]
    assert len(set(scoped)) == len(scoped)
