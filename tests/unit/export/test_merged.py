"""Several ranks in one file, as specified in docs/merged-format.md, and loading them again."""

import json

import numpy as np
import pandas as pd
import pytest

import hta_widgets as hw
from hta_widgets.demo.byteps import write_byteps_job
from hta_widgets.demo.job import write_demo
from hta_widgets.diff.compare import compare
from hta_widgets.diff.pairs import pairs
from hta_widgets.diff.waterfall import waterfall
from hta_widgets.errors import TraceError
from hta_widgets.export.traces.files import export_pair, export_trace
from hta_widgets.trace.merged_format import original_id, scoped_id

pytestmark = pytest.mark.slow

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
    """Two ranks with the same processes, correlations and flow ids."""
    for rank in (0, 3):
        of_host = {"ph": "M", "pid": 40, "tid": 0}
        records = [
            {"name": "process_name", **of_host, "args": {"name": "python"}},
            {"name": "process_sort_index", **of_host, "args": {"sort_index": 9}},
            {"name": "process_labels", "ph": "M", "pid": 0, "tid": 0, "args": {"labels": "GPU 0"}},
            launch(10 + rank, 5),
            kernel(20 + rank, 5),
            *arrow(10 + rank, 20 + rank, 5),
            {"ph": "i", "s": "g", "name": "end", "pid": "", "tid": "", "ts": 90},
            {"ph": "X", "name": "unowned", "ts": 50, "dur": 1},
        ]
        about = {"distributedInfo": {"rank": rank}, "host_name": f"node-{rank}"}
        base = 1_000_000_000 * (rank + 1)
        trace_file(records, name=f"rank-{rank}.json", baseTimeNanoseconds=base, **about)
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
        pd.testing.assert_frame_equal(back[rank].events, two[rank].events, check_exact=True)
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


def test_ranks_of_a_merged_file_keep_the_format_they_were_read_as(tmp_path):
    write_byteps_job(tmp_path / "job", workers=2, steps=2)
    for name in ("byteps", "byteps-server", "kineto"):
        traces = hw.load(tmp_path / "job", format=name)
        export_trace(traces, tmp_path / f"{name}.json")
        assert hw.load(tmp_path / f"{name}.json").formats == [name]


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
        pd.testing.assert_frame_equal(back[rank].events, traces[rank].events, check_exact=True)
        pd.testing.assert_frame_equal(back[rank].flows, traces[rank].flows)
        pd.testing.assert_frame_equal(back[rank].counters, traces[rank].counters)
        row = int(traces[rank].events["name"].str.startswith("ncclDevKernel").idxmax())
        assert back[rank].args(row) == traces[rank].args(row)


@pytest.mark.parametrize("rank", [0, 3, 1023, 9_007, 100_000])
@pytest.mark.parametrize(
    "raw", ["0", "7", "-1", "null", '"7"', '"0x1f"', '"3:7"', '"é\\n"', str(2**63), "1.5", '""']
)
def test_ids_come_back_whatever_they_are(rank, raw):
    present = scoped_id(raw.encode(), rank)
    json.loads(present)
    assert original_id(present, rank) == raw.encode()


def test_scoped_ids_differ():
    raws = ["0", "7", '"7"', '"0:7"', '"1:7"', str(10**12), str(10**12 + 7), "1.5"]
    scoped = [scoped_id(raw.encode(), rank) for raw in raws for rank in (0, 1, 2)]
    assert len(set(scoped)) == len(scoped)


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pair")
    result = []
    for name, seed, changes in (("old", 0, ()), ("new", 1, ["extra_copy"])):
        options = {"ranks": 2, "steps": 2, "events_per_step": 700}
        write_demo(folder / name, seed=seed, changes=changes, **options)
        result.append(hw.load(folder / name, cache=False, progress=False))
    return result


def first_step(trace):
    events = trace.events
    return events.loc[events["name"].astype(str).str.startswith("ProfilerStep"), "start_ns"].min()


def test_it_loads_again_with_both_sides_apart(runs, tmp_path):
    before, after = runs
    report = export_pair(before, after, tmp_path / "pair.json.gz")
    assert report.ranks == (0, 1, 1000, 1001)
    assert report.events == sum(len(trace) for side in runs for trace in side.values())
    back = hw.load(report.path, cache=False, progress=False)
    assert back.ranks == [0, 1, 1000, 1001]
    for side, offset in ((before, 0), (after, 1000)):
        for rank, trace in side.items():
            again = back[rank + offset]
            # The events are the same; only "after" has different times.
            assert (again.table.dur_ns == trace.table.dur_ns).all()
            assert (np.diff(again.table.start_ns) == np.diff(trace.table.start_ns)).all()
            assert again.args(5) == trace.args(5)
            assert len(again.flows) == len(trace.flows)
    noted = back[1001].metadata["hta_widgets"]
    assert (noted["side"], noted["label"], noted["rank"]) == ("after", "new", 1)
    starts = [min(first_step(back[rank]) for rank in ranks) for ranks in ((0, 1), (1000, 1001))]
    assert starts[0] == starts[1]


def test_a_scrubbed_pair_has_no_names_of_folders(runs, tmp_path):
    plain = export_pair(*runs, tmp_path / "plain.json").path.read_text()
    scrubbed = export_pair(*runs, tmp_path / "pair.json", scrub=True).path.read_text()
    names = compare(*runs)
    for name in (names.before.label, names.after.label):
        assert f'"label": "{name}"' in plain
        assert f'"label": "{name}"' not in scrubbed


def test_the_comparison_is_that_of_the_runs(runs, tmp_path):
    report = export_pair(*runs, tmp_path / "pair.json")
    back = hw.load(report.path, cache=False, progress=False)
    expected = compare(*runs)
    result = compare(back.select(ranks=[0, 1]), back.select(ranks=[1000, 1001]))
    assert result.rank_pairs == [(0, 1000), (1, 1001)]
    assert pairs(result).attrs["matched"] == pairs(expected).attrs["matched"]
    columns = ["cause", "before_ns", "after_ns"]
    assert waterfall(result)[columns].equals(waterfall(expected)[columns])
    # A second export gives the same file.
    again = hw.load(export_trace(back, tmp_path / "again.json").path, cache=False, progress=False)
    for rank in back:
        assert again[rank].start_ns == back[rank].start_ns
        assert again[rank].metadata == back[rank].metadata


def test_processes_are_called_by_their_side(runs, tmp_path):
    report = export_pair(*runs, tmp_path / "pair.json")
    records = json.loads(report.path.read_text())["traceEvents"]
    names = {r["args"]["name"] for r in records if r["name"] == "process_name"}
    assert "before old · rank 0 · python3.11 [GPU 0]" in names
    assert "after new · rank 1 · python3.11 [GPU 1]" in names
    assert min(record["ts"] for record in records if "ts" in record) >= 0
    export_pair(*runs, tmp_path / "named.json", labels=("before", "after"))
    assert '"before · rank 0 · python3.11 [GPU 0]"' in (tmp_path / "named.json").read_text()


def test_two_ranks_of_one_job_and_a_window(runs, tmp_path):
    traces = runs[0]
    report = export_pair(traces[0], traces[1], tmp_path / "ranks.json", base="absolute")
    assert report.ranks == (0, 1001)
    back = hw.load(report.path, cache=False, progress=False)
    assert back[1001].start_ns - back[0].start_ns == traces[1].start_ns - traces[0].start_ns
    middle = (traces.start_ns + traces.end_ns) // 2
    halves = traces.select(end_ns=middle), traces.select(start_ns=middle)
    report = export_pair(*halves, tmp_path / "halves.json")
    assert 0 < report.events < 2 * sum(len(trace) for trace in traces.values())


def test_files_without_a_base_time_stay_above_zero(tmp_path):
    def run(name, offset_us):
        path = tmp_path / f"{name}.json"
        event = {"ph": "X", "cat": "user_annotation", "pid": 1, "tid": 1, "ts": offset_us}
        early = {"ph": "X", "cat": "cpu_op", "name": "early", "pid": 1, "tid": 1, "ts": 2, "dur": 1}
        records = [early, event | {"name": "ProfilerStep#1", "dur": 50}]
        path.write_text(json.dumps({"traceEvents": records}))
        return hw.load(path, cache=False, progress=False)

    report = export_pair(run("a", 10), run("b", 900), tmp_path / "pair.json")
    records = json.loads(report.path.read_text())["traceEvents"]
    starts = [r["ts"] for r in records if r["name"] == "ProfilerStep#1"]
    assert starts == [898, 898]
    assert [r["ts"] for r in records if r["name"] == "early"] == [890, 0]
    assert len(hw.load(report.path, cache=False, progress=False)) == 2


def test_what_cannot_be_is_refused(runs, tmp_path):
    with pytest.raises(hw.TraceError, match="is not a file name"):
        export_pair(*runs, tmp_path / "folder")
    with pytest.raises(hw.TraceError, match="base= takes 'first_step' or 'absolute', not 'steps'"):
        export_pair(*runs, tmp_path / "pair.json", base="steps")
    with pytest.raises(hw.TraceError, match="no event is selected in the 'after' run"):
        export_pair(runs[0], runs[1].select("name == 'none'"), tmp_path / "pair.json")
    assert not (tmp_path / "pair.json").exists()
