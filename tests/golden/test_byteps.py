"""Shared BytePS files, compared with figures from independent throwaway readers."""

import json

import numpy as np
import pandas as pd
import pytest
from support import recorded

import hta_widgets as hw
from hta_widgets import analysis

WORKERS = [
    f"{worker}/traces/{gpu}"
    for worker in (
        "emulated/worker0", "emulated/worker1", "real_core_killed/worker0",
        "real_core_single_worker",
    )
    for gpu in (0, 1)
]  # fmt: skip
SERVERS = [
    f"{job}/server{number}" for job in ("emulated", "real_pslite_server") for number in (0, 1)
]


@pytest.fixture(scope="module")
def folder(shared):
    path = shared / "traces/byteps"
    if not path.is_dir():
        pytest.skip(f"no BytePS files at {path}")
    return path


@pytest.fixture(scope="module")
def golden(shared):
    path = shared / "golden/formats/byteps.json"
    if not path.exists():
        pytest.skip(f"no reference figures at {path}")
    return json.loads(path.read_text())


@pytest.fixture(scope="module")
def job(folder):
    return lambda name: recorded.load(folder / name)


@pytest.fixture(scope="module")
def rank_of(job, folder):
    def find(file):
        traces = job(file.split("/")[0])
        result = [r for r, t in traces.items() if str(folder / file) in t.path]
        assert len(result) == 1
        return traces, result[0]

    return find


def us(values):
    values = np.asarray(values)
    assert (values % 1000 == 0).all()
    return (values // 1000).tolist()


def test_workers_and_servers_are_found_and_numbered(job):
    traces = job("emulated")
    summary = traces.summary()
    assert traces.format == "mixed"
    assert traces.formats == ["byteps", "byteps-server"]
    assert summary[["rank", "worker", "local_rank", "server"]].to_numpy().T.tolist() == [
        [0, 1, 2, 3, 4, 5], [0, 0, 1, 1, -1, -1], [0, 1, 0, 1, -1, -1], [-1, -1, -1, -1, 0, 1],
    ]  # fmt: skip
    assert set(summary["job"]) == {"emulated"}


def test_all_files_load_at_once_and_say_what_is_wrong(folder):
    traces = recorded.load(folder)
    assert len(traces) == 12
    problems = traces.problems
    empty = problems[problems["kind"] == "empty"]
    assert [path.split("byteps/")[1] for path in empty["file"]] == [
        "real_pslite_server_tiny/server0/server_profile.json"
    ]
    cut = problems[(problems["kind"] == "truncated")]
    assert {path.split("byteps/")[1].rsplit("/", 1)[0] for path in cut["file"]} == {
        "real_core_killed/worker0/traces/0",
        "real_core_killed/worker0/traces/1",
        *SERVERS,
    }


def test_a_folder_with_an_empty_profile_only_says_so(folder):
    with pytest.raises(hw.TraceError, match=r"server_profile.json is empty"):
        hw.load(folder / "real_pslite_server_tiny")
    with pytest.raises(hw.TraceError, match=r"BytePS was killed"):
        hw.load(folder / "real_pslite_server_tiny/server0/server_profile.json")


@pytest.mark.parametrize("file", WORKERS)
def test_events_and_stages_of_a_worker(rank_of, golden, file):
    traces, rank = rank_of(file)
    expected = golden[f"byteps/{file}/comm.json"]
    assert len(traces[rank]) == expected["events"]
    kinds = set(traces.problems.query("rank == @rank")["kind"])
    assert ("truncated" in kinds) == (expected["status"] == "truncated")
    stages = analysis.byteps_stages(traces, ranks=[rank])
    # In the reference, the root is the pusher or, without servers, a lone coordinator.
    alone = file == "real_core_single_worker/traces/1"
    assert stages["root"].unique().tolist() == [expected["root"] or alone]
    stages = stages.set_index("stage")
    reference = pd.DataFrame(expected["stage"]).T.loc[stages.index]
    assert len(reference) == len(expected["stage"])
    assert stages["count"].tolist() == reference["count"].tolist()
    for figure in ("sum", "union", "max"):
        assert us(stages[f"{figure}_ns"]) == reference[f"{figure}_us"].tolist()
    assert (stages["mean_ns"] / 1000).tolist() == pytest.approx(
        reference["mean_us"].tolist(), abs=5e-4
    )
    assert dict(zip(stages.index, us(stages["queue_ns"]), strict=True)) == expected["gap_us"]


@pytest.mark.parametrize("file", WORKERS)
def test_gradients_and_steps_of_a_worker(rank_of, golden, file):
    traces, rank = rank_of(file)
    expected = golden[f"byteps/{file}/comm.json"]
    gradients = analysis.byteps_gradients(traces, ranks=[rank])
    known_rows = gradients[gradients["critical_partition"] >= 0]
    assert gradients["tensor"].nunique() == expected["tensors"]
    assert us(gradients["total_ns"].sum()) == expected["total_sum_us"]
    assert us(known_rows["tail_ns"].max()) == expected["max_tail_us"]
    assert (known_rows["tail_ns"] >= 0).all()
    assert (known_rows["queue_ns"] >= 0).all()
    parts = known_rows[["busy_ns", "queue_ns", "tail_ns"]].sum(axis=1)
    assert (parts == known_rows["total_ns"]).all()
    share = known_rows["queue_ns"].sum() / known_rows["total_ns"].sum()
    assert share == pytest.approx(expected["crit_queue_share"], abs=5e-7)
    by_tensor = gradients.groupby("tensor", observed=True)["total_ns"].sum().nlargest(5)
    assert dict(zip(by_tensor.index, us(by_tensor), strict=True)) == {
        name: total for total, name in expected["top5_total"]
    }

    steps = analysis.byteps_steps(traces, ranks=[rank])
    assert len(steps) == expected["steps"]
    origin = traces[rank].zero_ns - traces[rank].shift_ns
    critical = gradients[gradients["critical"]].sort_values("step")
    for row, last, own in zip(
        steps.itertuples(), critical.itertuples(), expected["step_rows"], strict=True
    ):
        assert us(row.start_ns + origin) == own["begin"]
        assert us(row.span_ns) == own["span"]
        assert us(row.sum_ns) == own["sum_total"]
        assert us(row.union_ns) == own["union"]
        assert row.concurrency == pytest.approx(own["concurrency"], abs=5e-5)
        assert (row.tensor, last.tensor) == (own["critical"], own["critical"])
        assert (row.critical_key, last.critical_key) == (own["critical_key"], own["critical_key"])
        parts = [own[part] for part in ("crit_busy", "crit_queue", "tail")]
        assert us([last.busy_ns, last.queue_ns, last.tail_ns]) == parts
    counts = steps["tensor"].value_counts().to_dict()
    assert counts == expected["critical_counts"]


def test_stages_of_critical_partitions_add_up(job):
    traces = job("emulated")
    gradients = analysis.byteps_gradients(traces)
    stages = analysis.byteps_gradient_stages(traces)
    keys = ["rank", "tensor", "step"]
    total = stages.groupby(keys, observed=True)[["dur_ns", "queue_ns"]].sum().sum(axis=1)
    total += gradients.set_index(keys)["tail_ns"]
    assert total.to_dict() == gradients.set_index(keys)["total_ns"].to_dict()
    waits = stages[stages["waits_for_root"]]
    assert set(waits["local_rank"]) == {0}
    assert set(waits["stage"]) == {"COPYH2D"}


def test_the_slow_worker_is_blamed_by_pulls(job):
    blame = analysis.byteps_pull_blame(job("emulated"))
    assert blame[["worker", "blame", "slack_ns", "pulls", "straggler"]].to_numpy().tolist() == [
        [0, 0.0, 8_495_067_000, 510, False],
        [1, 1.0, 0, 510, True],
    ]


def test_rates_need_sizes(job, folder):
    keys = json.loads((folder / "emulated/keys.json").read_text())
    sizes = {key["raw_key"]: key["len"] for key in keys}
    per_step = {server: sum(k["len"] for k in keys if k["server"] == server) for server in (0, 1)}
    assert per_step == {0: 55761920, 1: 49589248}
    rates = analysis.byteps_bandwidth(job("emulated"), sizes)
    push = rates[rates["stage"] == "PUSH"]
    assert push["bytes"].tolist() == [1053511680, 1053511680]
    assert push["mb_per_s"].tolist() == pytest.approx([1245.907, 1244.566], abs=5e-4)


@pytest.mark.parametrize("file", SERVERS)
def test_requests_of_a_server(rank_of, golden, file):
    traces, rank = rank_of(file)
    expected = golden[f"byteps/{file}/server_profile.json"]
    requests = analysis.byteps_requests(traces, ranks=[rank])
    assert len(requests) == len(traces[rank]) == expected["requests"]
    assert requests.attrs["open"] == expected["open"]
    assert 2 * len(requests) + expected["open"] == expected["events"]
    assert requests["key"].dtype == np.uint64
    assert requests["key"].nunique() == expected["keys"]
    assert (requests["wait_ns"] + requests["service_ns"] == requests["dur_ns"]).all()
    lag = analysis.byteps_worker_lag(traces, ranks=[rank])
    assert lag["node"].tolist() == expected["workers"]
    assert set(lag["iterations"]) == {expected["iterations"]}
    for row in lag.itertuples():
        own = expected["per_worker"][str(row.node)]
        assert row.score == pytest.approx(own["straggler_score"], abs=5e-5)
        assert round(row.score * row.iterations) == own["last_count"]
        assert row.mean_lag_ns / 1000 == pytest.approx(own["lag_mean_us"], abs=5e-4)
        assert us(row.median_lag_ns) == own["lag_median_us"]
        assert us(row.max_lag_ns) == own["lag_max_us"]
        ours = requests[requests["node"] == row.node]
        push, pull = ours[ours["op"] == "push"], ours[ours["op"] == "pull"]
        assert (len(push), len(pull)) == (own["push_n"], own["pull_n"])
        longest = [own["push_max_us"], own["pull_max_us"]]
        assert us([push["dur_ns"].max(), pull["dur_ns"].max()]) == longest
        for frame, column, name in (
            (push, "dur_ns", "push_mean_us"),
            (pull, "dur_ns", "pull_mean_us"),
            (pull, "wait_ns", "pull_wait_mean_us"),
            (pull, "service_ns", "pull_service_mean_us"),
        ):
            assert frame[column].mean() / 1000 == pytest.approx(own[name], abs=5.1e-4)


def test_both_servers_together(job):
    lag = analysis.byteps_worker_lag(job("emulated"))
    assert lag["iterations"].tolist() == [969, 969]
    assert lag["score"].tolist() == [0.0, 1.0]
    assert lag["straggler"].tolist() == [False, True]
    assert lag["mean_lag_ns"].iloc[1] / 1000 == pytest.approx(16732.245, abs=1e-3)
    arrivals = analysis.byteps_arrivals(job("emulated"))
    assert us(arrivals["lag_ns"].sum()) == 16213546


def test_keys_stay_exact(job, folder):
    keys = json.loads((folder / "emulated/keys.json").read_text())
    requests = analysis.byteps_requests(job("emulated"))
    by_name = {key["ps_key"]: key for key in keys}
    assert set(requests["key"].tolist()) == set(by_name)
    assert requests.loc[requests["server"] == 1, "key"].min() > 2**63 - 1
    for row in requests.drop_duplicates("key").itertuples():
        for name in ("server", "declared_key", "partition", "tensor"):
            assert getattr(row, name) == by_name[int(row.key)][name]


def test_clocks_of_workers_and_servers(job):
    clocks = analysis.byteps_clock(job("emulated"))
    assert clocks[["worker", "server", "node"]].to_numpy().tolist() == [
        [0, 0, 9], [0, 1, 9], [1, 0, 11], [1, 1, 11],
    ]  # fmt: skip
    figures = ["low_ns", "high_ns", "offset_ns", "error_ns", "skipped_iterations", "alternatives"]
    rows = clocks[figures].drop_duplicates().to_numpy().tolist()
    assert rows == [[-25_000, 25_000, 0, 25_000, 9, 0]]
