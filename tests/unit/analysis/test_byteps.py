"""BytePS analyses of cases small enough to check by hand, and of empty jobs."""

import json

import numpy as np
import pytest

import hta_widgets as hw
from hta_widgets import analysis
from hta_widgets.demo.byteps import write_byteps_job

FUNCTIONS = sorted(name for name in analysis.__all__ if name.startswith("byteps_"))
NOW = 1700000000000000
KEY = 5 << 16


def stage(name, start, dur, key=KEY, tensor="byteps.w"):
    pid = f"Comm.{tensor}"
    full, tid = (pid, "total") if name is None else (f"{pid}.{name}", str(key))
    times = {"ts": NOW + start, "dur": dur}
    return {"ph": "X", "pid": pid, "name": full, **times, "tid": tid, "cat": "Comm"}


def request(name, phase, time, key=KEY):
    return {"name": name, "ph": phase, "pid": key, "tid": key, "ts": NOW + time}


@pytest.fixture
def load(tmp_path):
    """Return a function that loads files, each given by its path and its records."""

    def _load(**files):
        for name, records in files.items():
            file = "server_profile.json" if name.startswith("server") else "0/comm.json"
            path = tmp_path / name / file
            path.parent.mkdir(parents=True)
            path.write_text(json.dumps({"traceEvents": records}))
        return hw.load(tmp_path, cache=False, progress=False)

    return _load


@pytest.fixture(scope="module")
def job(tmp_path_factory):
    folder = tmp_path_factory.mktemp("job")
    write_byteps_job(folder, truth_path=folder.with_suffix(".truth"))
    return hw.load(folder, cache=False, progress=False)


def test_one_gradient_by_hand(load):
    traces = load(
        worker0=[
            stage(None, 0, 100),
            stage("PUSH", 10, 20),  # queued for 10
            stage("PULL", 35, 40),  # queued for 5
            stage("BROADCAST", 75, 10),  # not queued, so it ends at 85
            stage("PUSH", 12, 30, KEY + 1),
            stage("PULL", 42, 50, KEY + 1),  # ends at 92, so it is the critical one
            stage("BROADCAST", 94, 3, KEY + 1),  # ends at 97
        ]
    )
    row = analysis.byteps_gradients(traces).iloc[0]
    assert (row["tensor"], row["step"], row["critical_partition"]) == ("byteps.w", 0, 1)
    figures = row[["total_ns", "busy_ns", "queue_ns", "tail_ns"]].tolist()
    assert figures == [100_000, 83_000, 14_000, 3_000]
    stages = analysis.byteps_stages(traces).set_index("stage")
    push = stages.loc["PUSH", ["count", "sum_ns", "union_ns", "max_ns", "queue_ns"]].tolist()
    assert push == [2, 50_000, 32_000, 30_000, 22_000]
    cut = analysis.byteps_stages(traces, window=(0, 20_000)).set_index("stage")
    assert cut.loc["PUSH", ["count", "sum_ns", "union_ns"]].tolist() == [2, 18_000, 10_000]
    assert "PULL" not in cut.index


def test_blame_by_hand(load):
    traces = load(
        worker0=[stage("PULL", 0, 30), stage("PULL", 100, 10), stage("PULL", 200, 7)],
        worker1=[stage("PULL", 0, 10), stage("PULL", 100, 10)],  # a tie, then a missing worker
    )
    blame = analysis.byteps_pull_blame(traces)
    assert blame["worker"].tolist() == [0, 1]
    assert blame["blame"].tolist() == [0.0, 0.5]
    assert blame["slack_ns"].tolist() == [20_000, 0]
    assert blame["pulls"].tolist() == [2, 2]
    assert blame.attrs["dropped"] == 1
    alone = analysis.byteps_pull_blame(traces, ranks=[0])
    assert not len(alone)
    assert "two workers" in alone.attrs["note"]


def test_both_sides_call_four_of_five_consistent(load):
    # In exactly 4 of 5 steps worker 1's PULL is the shortest and node 11's push the last.
    late = [True, True, True, True, False]
    records = []
    for step, is_late in enumerate(late):
        for node, at in [(9, 0), (11, 5 if is_late else 0)]:
            for phase, time in [("B", 100 * step + at), ("E", 100 * step + at + 1)]:
                records.append(request(f"push-{node}", phase, time))
    traces = load(
        worker0=[stage("PULL", 100 * step, 30) for step in range(5)],
        worker1=[stage("PULL", 100 * step, 10 if item else 30) for step, item in enumerate(late)],
        server0=sorted(records, key=lambda record: record["ts"]),
    )
    blame, lag = analysis.byteps_pull_blame(traces), analysis.byteps_worker_lag(traces)
    assert blame["blame"].tolist() == lag["score"].tolist() == [0.0, 0.8]
    assert blame["straggler"].tolist() == lag["straggler"].tolist() == [False, True]


def test_waits_and_lags_by_hand(load):
    spans = [("push-9", 0, 5), ("pull-9", 10, 46), ("push-11", 30, 40), ("pull-11", 50, 53)]
    spans += [("push-9", 60, 61)]
    records = [
        request(name, phase, time)
        for name, *times in spans
        for phase, time in zip("BE", times, strict=True)
    ]
    traces = load(server0=sorted(records, key=lambda record: record["ts"]))
    requests = analysis.byteps_requests(traces)
    assert requests["key"].dtype == np.uint64
    columns = ["node", "op", "iteration", "dur_ns", "wait_ns", "service_ns"]
    assert requests[columns].to_numpy().tolist() == [
        [9, "push", 0, 5000, 0, 5000],
        [9, "pull", 0, 36000, 30000, 6000],
        [11, "push", 0, 10000, 0, 10000],
        [11, "pull", 0, 3000, 0, 3000],
        [9, "push", 1, 1000, 0, 1000],
    ]
    lag = analysis.byteps_worker_lag(traces)
    assert lag["score"].tolist() == [0.0, 1.0]
    assert lag["max_lag_ns"].tolist() == [0, 30000]
    assert lag["imposed_wait_ns"].tolist() == [0, 30000]
    assert lag["iterations"].tolist() == [1, 1]
    assert lag["straggler"].tolist() == [False, True]
    assert lag.attrs["dropped"] == 1
    servers = analysis.byteps_servers(traces).iloc[0]
    assert servers[["requests", "keys", "iterations", "wait_ns"]].tolist() == [5, 1, 1, 30000]


def call(name, traces, **narrowed):
    # Mixed BytePS keys are unsigned 64-bit numbers.
    sizes = ({KEY: 1, (1 << 64) - 1: 1},) if name == "byteps_bandwidth" else ()
    return getattr(analysis, name)(traces, *sizes, **narrowed)


@pytest.mark.parametrize("name", sorted(set(FUNCTIONS) - {"byteps_clock"}))
def test_parts_add_up(name, job):
    """If each row belongs to one rank, single ranks add up to the frame of all ranks."""
    full = call(name, job)
    if "rank" not in full or name == "byteps_pulls":  # depends on other workers' pulls
        return
    rows = sum(len(call(name, job, ranks=[rank])) for rank in job.ranks)
    assert rows == len(full)
    assert set(full["rank"]) <= set(job.ranks)


def test_selections_choose_requests_and_stages(job):
    chosen = job.select("name == 'push-9'")
    requests = analysis.byteps_requests(job, selection=chosen)
    assert set(requests["node"]) == {9}
    assert set(requests["op"]) == {"push"}
    stages = analysis.byteps_stages(job, selection=job.select("kind == 'memory'"))
    assert set(stages["stage"].astype(str)) == {"COPYD2H", "COPYH2D"}
