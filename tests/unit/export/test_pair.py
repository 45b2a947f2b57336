"""Two runs in one file: both sides named, nothing mixed, first steps in line."""

import json

import numpy as np
import pytest

import hta_widgets as hw
from hta_widgets.demo.job import write_demo
from hta_widgets.diff.compare import compare
from hta_widgets.diff.pairs import pairs
from hta_widgets.diff.waterfall import waterfall
from hta_widgets.export.trace import export_pair, export_trace


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pair")
    found = []
    for name, seed, changes in (("old", 0, ()), ("new", 1, ["extra_copy"])):
        options = {"ranks": 2, "steps": 2, "events_per_step": 700}
        write_demo(folder / name, seed=seed, changes=changes, **options)
        found.append(hw.load(folder / name, cache=False, progress=False))
    return found


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
            # The same events; only the side after lies elsewhere on the clock.
            assert (again.table.dur_ns == trace.table.dur_ns).all()
            assert (np.diff(again.table.start_ns) == np.diff(trace.table.start_ns)).all()
            assert again.args(5) == trace.args(5)
            assert len(again.flows) == len(trace.flows)
    noted = back[1001].metadata["hta_widgets"]
    assert (noted["side"], noted["label"], noted["rank"]) == ("after", "new", 1)
    starts = [min(first_step(back[rank]) for rank in ranks) for ranks in ((0, 1), (1000, 1001))]
    assert starts[0] == starts[1]


def test_the_comparison_is_that_of_the_runs(runs, tmp_path):
    report = export_pair(*runs, tmp_path / "pair.json")
    back = hw.load(report.path, cache=False, progress=False)
    expected = compare(*runs)
    found = compare(back.select(ranks=[0, 1]), back.select(ranks=[1000, 1001]))
    assert found.rank_pairs == [(0, 1000), (1, 1001)]
    assert pairs(found).attrs["matched"] == pairs(expected).attrs["matched"]
    columns = ["cause", "before_ns", "after_ns"]
    assert waterfall(found)[columns].equals(waterfall(expected)[columns])
    # Written again, it is the same.
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
    with pytest.raises(hw.TraceError, match="a pair is one file"):
        export_pair(*runs, tmp_path / "folder")
    with pytest.raises(hw.TraceError, match="no base 'steps'"):
        export_pair(*runs, tmp_path / "pair.json", base="steps")
    with pytest.raises(hw.TraceError, match="no events after"):
        export_pair(runs[0], runs[1].select("name == 'none'"), tmp_path / "pair.json")
    assert not (tmp_path / "pair.json").exists()
