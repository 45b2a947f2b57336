"""BytePS jobs of our generator: analyses must find what the generator wrote."""

import json

import pytest
from hypothesis import given, settings, strategies as st
from support.examples import examples

import hta_widgets as hw
from hta_widgets import analysis
from hta_widgets.demo.byteps import write_byteps_job

#: A job takes a few tenths of a second.
FEW = settings(max_examples=examples(12))

jobs = st.fixed_dictionaries(
    {
        "workers": st.integers(1, 3),
        "local_ranks": st.integers(1, 3),
        "servers": st.integers(1, 3),
        "steps": st.integers(1, 4),
        "slow_worker": st.none() | st.integers(0, 2),
        "seed": st.integers(0, 1000),
        "gradients": st.integers(1, 5),
        "first_step": st.integers(1, 4),
        "category": st.booleans(),
    }
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("byteps")


def written(folder, job):
    path = folder / "-".join(str(value) for value in job.values())
    truth = write_byteps_job(path, **job)
    return truth, hw.load(path, cache=False, progress=False)


@FEW
@given(job=jobs)
def test_workers_files_tell_what_happened(folder, job):
    truth, traces = written(folder, job)
    stages = analysis.byteps_stages(traces)
    result = {}
    for row in stages.to_dict("records"):
        result.setdefault(f"w{row['worker']}g{row['local_rank']}", {})[row["stage"]] = {
            "count": row["count"],
            "sum_us": row["sum_ns"] // 1000,
            "queue_us": row["queue_ns"] // 1000,
        }
    assert result == truth["stages"]
    roots = stages[stages["root"]]
    assert set(roots["local_rank"]) == {truth["root_local_rank"]}
    gradients = analysis.byteps_gradients(traces)
    by_gpu = gradients.groupby(["worker", "local_rank"])["total_ns"].sum() // 1000
    assert {f"w{w}g{g}": total for (w, g), total in by_gpu.items()} == truth["total_us"]
    sums = gradients[["busy_ns", "queue_ns", "tail_ns"]]
    assert (sums >= 0).all(axis=None)
    assert (sums.sum(axis=1) == gradients["total_ns"]).all()
    assert len(gradients) == (job["workers"] * job["local_ranks"] * job["steps"] * job["gradients"])


@FEW
@given(job=jobs)
def test_servers_files_tell_who_came_last(folder, job):
    truth, traces = written(folder, job)
    requests = analysis.byteps_requests(traces)
    sizes = requests.groupby("server").size().to_dict()
    assert [sizes.get(server, 0) for server in range(job["servers"])] == truth["requests"]
    by_name = {int(key["wire_key"]): key for key in truth["keys"]}
    assert set(requests["key"].tolist()) == set(by_name)
    assert {by_name[key]["server"] for key in requests["key"].tolist()} <= set(
        range(job["servers"])
    )
    waits = (requests.groupby("node")["wait_ns"].sum() // 1000).to_dict()
    assert {str(node): wait for node, wait in waits.items()} == truth["pull_waits_us"]
    lag = analysis.byteps_worker_lag(traces)
    if job["workers"] == 1:
        assert not len(lag)
        return
    assert set(lag["iterations"]) == {truth["iterations"]}
    for row in lag.to_dict("records"):
        node = str(row["node"])
        assert row["mean_lag_ns"] * row["iterations"] == pytest.approx(1000 * truth["lag_us"][node])
        assert round(row["score"] * row["iterations"]) == truth["last"][node]


@FEW
@given(job=jobs)
def test_clocks_lie_within_the_stated_error(folder, job):
    truth, traces = written(folder, job)
    clocks = truth["clock_us"]
    for row in analysis.byteps_clock(traces).to_dict("records"):
        if row["alternatives"]:
            continue
        true = 1000 * (clocks["server"][row["server"]] - clocks["worker"][row["worker"]])
        assert row["low_ns"] <= true <= row["high_ns"]
        assert abs(true - row["offset_ns"]) <= row["error_ns"]
        assert row["node"] == truth["nodes"][row["worker"]]
        assert row["skipped_iterations"] == job["first_step"] - 1


def test_the_fitted_clock_brings_all_files_onto_one(tmp_path):
    truth = write_byteps_job(tmp_path / "job", workers=3, skew_us=50_000, seed=3)
    traces = hw.load(tmp_path / "job", cache=False, progress=False)
    fitted = traces.with_clock("fitted")
    moved = {rank: trace.start_ns - traces[rank].start_ns for rank, trace in fitted.items()}
    clocks = truth["clock_us"]
    for rank, trace in traces.items():
        kind = "server" if trace.server >= 0 else "worker"
        ahead = clocks[kind][trace.server if kind == "server" else trace.worker]
        assert moved[rank] - moved[0] == pytest.approx(-1000 * ahead, abs=25_000)
    assert min(trace.start_ns for trace in fitted.values()) >= 0
    back = fitted.with_clock("host")
    assert [t.start_ns for t in back.values()] == [t.start_ns for t in traces.values()]
    hw.export_trace(fitted, tmp_path / "one-clock.json", clock="set")
    again = hw.load(tmp_path / "one-clock.json", cache=False, progress=False)
    assert [t.start_ns for t in again.values()] == [
        t.start_ns - fitted.start_ns for t in fitted.values()
    ]


@FEW
@given(job=jobs)
def test_an_export_loads_as_the_same(folder, job):
    _, traces = written(folder, job)
    path = folder / "export.json"
    hw.export_trace(traces, path)
    again = hw.load(path, cache=False, progress=False)
    assert again.formats == traces.formats
    columns = ["worker", "local_rank", "server", "format", "events", "start_ns", "end_ns"]
    assert again.summary()[columns].equals(traces.summary()[columns])
    for rank, trace in traces.items():
        assert again[rank].events.astype(str).equals(trace.events.astype(str))
    for ask in (analysis.byteps_stages, analysis.byteps_requests, analysis.byteps_pull_blame):
        before, after = ask(traces), ask(again)
        assert after.drop(columns="job").equals(before.drop(columns="job"))


def test_the_same_arguments_give_the_same_bytes(tmp_path):
    for name in ("one", "two"):
        write_byteps_job(tmp_path / name, steps=2, gradients=3, seed=4)
    files = {p.relative_to(tmp_path / "one") for p in (tmp_path / "one").rglob("*.json")}
    assert len(files) == 6
    for file in files:
        assert (tmp_path / "one" / file).read_bytes() == (tmp_path / "two" / file).read_bytes()
    truths = [json.loads((tmp_path / f"{name}.truth.json").read_text()) for name in ("one", "two")]
    assert truths[0] == truths[1]


def test_the_slow_worker_is_found_from_either_side(tmp_path):
    truth = write_byteps_job(tmp_path / "job", workers=3, slow_worker=2, steps=3)
    traces = hw.load(tmp_path / "job", cache=False, progress=False)
    blame = analysis.byteps_pull_blame(traces)
    assert blame.loc[blame["straggler"], "worker"].tolist() == [2]
    lag = analysis.byteps_worker_lag(traces)
    assert lag.loc[lag["straggler"], "node"].tolist() == [truth["nodes"][2]]


def test_files_have_the_form_that_byteps_gives_them(tmp_path):
    write_byteps_job(tmp_path / "job", steps=1, gradients=1, servers=2, workers=1)
    comm = (tmp_path / "job/worker0/traces/1/comm.json").read_text()
    first = comm.split('"ts": ')[0]
    assert first == (
        '{\n    "traceEvents": [\n        {\n            "ph": "X",\n            "args": {\n'
        '                "name": "Comm.byteps.gradient_0"\n            },\n'
        '            "pid": "Comm.byteps.gradient_0",\n'
        '            "name": "Comm.byteps.gradient_0",\n            '
    )
    assert comm.endswith(
        '            "cat": "Comm"\n        }\n\n    ],\n    "displayTimeUnit": "ms"\n}\n'
    )
    profiles = [
        (tmp_path / f"job/server{server}/server_profile.json").read_text() for server in (0, 1)
    ]
    (profile,) = (text for text in profiles if "push-9" in text)
    assert profile.startswith('{\n\t"traceEvents": [\n\t\t{"name": "push-9", "ph": "B", "pid": ')
    assert profile.endswith("}")
    assert "]" not in profile
