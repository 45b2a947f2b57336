"""Parts of BytePS traces, written and loaded again."""

import json
from pathlib import Path

import pytest

import hta_widgets as hw
from hta_widgets.demo.byteps import write_byteps_job


@pytest.fixture(scope="module")
def traces(tmp_path_factory):
    folder = tmp_path_factory.mktemp("byteps") / "job"
    write_byteps_job(folder, steps=3)
    return hw.load(folder, cache=False, progress=False)


def load(path):
    return hw.load(path, cache=False, progress=False)


@pytest.mark.parametrize("rank", [1, 5])
def test_a_window_of_a_rank_has_the_files_own_records(traces, tmp_path, rank):
    start = traces[rank].start_ns + 20_000_000
    window = traces.select(start_ns=start, end_ns=start + 20_000_000, ranks=[rank])
    report = hw.export_trace(traces, tmp_path / "part.json", window, keep_parents=False)
    assert report.events == len(window.events()) > 5
    own = {json.dumps(r) for r in _records(traces[rank].path)}
    part = [json.dumps(r) for r in _records(tmp_path / "part.json")]
    assert len(part) >= report.events
    assert set(part) <= own
    again = load(tmp_path / "part.json")
    row, before = again.summary().iloc[0], traces.summary().iloc[rank]
    same = ["job", "worker", "local_rank", "server", "format"]
    assert row[same].tolist() == before[same].tolist()
    events = again[0].events
    assert events["name"].tolist() == window.events()["name"].tolist()
    assert events["dur_ns"].tolist() == window.events()["dur_ns"].tolist()


def _records(path):
    text = Path(path).read_text("utf-8")
    return json.loads(text if "]" in text else text + "]}")["traceEvents"]


@pytest.mark.parametrize("name", ["merged.json.gz", "folder"])
def test_several_ranks_keep_workers_and_servers(traces, tmp_path, name):
    hw.export_trace(traces, tmp_path / name, traces.select(ranks=[0, 3, 4]), counters=True)
    again = load(tmp_path / name)
    assert again.ranks == [0, 3, 4]
    columns = ["worker", "local_rank", "server", "format", "events"]
    assert (
        again.summary()[columns].to_numpy().tolist()
        == traces.subset(ranks=[0, 3, 4]).summary()[columns].to_numpy().tolist()
    )
    assert again[0].counters["value"].tolist() == traces[0].counters["value"].tolist()
    columns = ["dur_ns", "name", "id", "pid"]  # starts are since another first event
    assert again[4].asyncs[columns].astype(str).equals(traces[4].asyncs[columns].astype(str))


def test_scrubbed_files_do_not_name_the_job(traces, tmp_path):
    hw.export_trace(traces, tmp_path / "x.json", traces.select(ranks=[1]), scrub=True)
    again = load(tmp_path / "x.json")
    assert again.summary()[["worker", "local_rank"]].to_numpy().tolist() == [[0, 1]]
    assert again.summary()["job"].tolist() == [None]
