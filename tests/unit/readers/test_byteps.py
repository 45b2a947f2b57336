"""Traces of BytePS workers and profiles of servers: complete, old, foreign and damaged ones."""

import json

import numpy as np
import pytest

import hta_widgets as hw
from hta_widgets import analysis, taxonomy
from hta_widgets.demo.byteps import write_byteps_job
from hta_widgets.formats.byteps.reader import pair_first_in_first_out
from hta_widgets.formats.byteps.rows import servers_of_keys, worker_rows
from hta_widgets.live.job import TileEngine
from hta_widgets.panels.headline import headline

from .conftest import event

NOW = 1574685985000000


def load(path, **more):
    return hw.load(path, cache=False, progress=False, **more)


def stage(name, start, dur, key=None, tensor="byteps.gradient_0"):
    pid = f"Comm.{tensor}"
    return {
        "ph": "X", "args": {"name": pid}, "pid": pid, "name": f"{pid}.{name}" if name else pid,
        "ts": NOW + start, "dur": dur, "tid": str(key) if name else "total",
    }  # fmt: skip


def request(name, phase, key, time):
    return {"name": name, "ph": phase, "pid": key, "tid": key, "ts": NOW + time}


def problems_of(traces):
    return {(p["kind"], p["count"]) for p in traces.problems.to_dict("records")}


# --- workers --------------------------------------------------------------------------------------

#: The example in the documentation, from November 2019, without "cat".
EXAMPLE = [stage(None, 4_504_865, 24_026), stage("BROADCAST", 4_527_000, 1_074, 26148864)]
DOCUMENTED = json.dumps({"traceEvents": EXAMPLE}, indent=4)


def test_files_of_2019_state_no_category(write):
    traces = load(write(DOCUMENTED, "traces/3/comm.json"))
    assert traces.format == "byteps"
    assert traces.summary()[["worker", "local_rank"]].to_numpy().tolist() == [[0, 3]]
    columns = ["category", "kind", "tid", "track", "dur_ns"]
    assert traces[0].events[columns].to_numpy().tolist() == [
        ["Comm", "annotation", "total", "gradient_0 · whole", 24026000],
        ["Comm", "communication", "26148864", "gradient_0 · partition 0", 1074000],
    ]
    assert traces.origin_ns == 1574685989504865000
    assert traces[0].args(1) == {"name": "Comm.byteps.gradient_0"}


STAGES = {
    "sync": ["COORDINATE_REDUCE", "COORDINATE_PUSH", "COORDINATE_BROADCAST",
             "COORDINATE_ALLGATHER"],
    "communication": ["REDUCE", "PUSH", "PULL", "BROADCAST", "ALLGATHER", "SEND",
                      "GDR_V1_PUSH_PULL"],
    "memory": ["COPYD2H", "COPYH2D", "CPU_COPY_PULL"],
    "cpu": ["PCIE_REDUCE", "COMPRESS", "DECOMPRESS"],
    "other": ["SOMETHING_NEW"],
}  # fmt: skip


@pytest.mark.parametrize(
    ("name", "kind"), [(name, kind) for kind, names in STAGES.items() for name in names]
)
def test_kinds_of_stages(name, kind):
    assert taxonomy.kind_of("Comm", f"Comm.byteps.gradient_0.{name}") == kind


def test_unknown_stages_are_placed_by_time(write):
    key = 7 << 16
    records = [
        stage(None, 0, 100),
        stage("BROADCAST", 90, 10, key),
        stage("ROTATE", 50, 5, key),
        stage("PUSH", 40, 10, key),
        stage("PULL", 60, 20, key),
    ]
    rows = worker_rows(load(write(records))[0])
    names = [name for name in rows.stages if name in {"PUSH", "ROTATE", "PULL", "BROADCAST"}]
    assert names == ["PUSH", "ROTATE", "PULL", "BROADCAST"]
    assert [rows.stages[code] for code in rows.parts.stage] == names
    assert rows.parts.queue_ns.tolist() == [40000, 0, 5000, 10000]


def test_odd_tensor_names_and_numbers(write):
    tensor = "byteps.Gradient.layer1.0.PUSH"
    records = [
        stage(None, 0, 100, tensor=tensor),
        stage("PUSH", 10, 20, -1, tensor),  # a wrapped key
        stage("PULL", 30, 0, 5, tensor),
        stage("PULL", 40, -3, 5, tensor),  # after a clock step
        stage(None, 50, 0, tensor="unfinished"),
    ]
    traces = load(write(records))
    rows = worker_rows(traces[0])
    assert rows.tensors == [tensor, "unfinished"]
    assert rows.parts.key.tolist() == [-1, 5, 5]
    assert traces[0].events["step"].tolist() == [0, 0, 0, 1, 0]
    assert {("repaired", 1), ("unpaired", 1)} <= problems_of(traces)


def test_waiting_for_the_root_is_told_apart(write, tmp_path):
    key = 3 << 16
    others = [
        stage(None, 0, 200),
        stage("COORDINATE_PUSH", 20, 1, key),
        stage("COPYH2D", 150, 10, key),
    ]
    root = [stage(None, 0, 200), stage("PUSH", 20, 60, key), stage("COPYH2D", 150, 10, key)]
    write(others, "worker0/traces/0/comm.json")
    write(root, "worker0/traces/1/comm.json")
    traces = load(tmp_path)
    waits = traces[0].asyncs
    assert waits["name"].tolist() == ["waiting for root"]
    assert waits[["start_ns", "dur_ns"]].to_numpy().tolist() == [[21000, 129000]]
    assert not len(traces[1].asyncs)
    assert len(traces[0]) == 3  # only the events of the file itself
    pushing = traces[1].counters.query("name == 'PUSH'")
    assert pushing[["time_ns", "value"]].to_numpy().tolist() == [[20000, 1], [80000, 0]]


# --- servers --------------------------------------------------------------------------------------

EXCERPT = """{"traceEvents": [
{"name": "push-9", "ph": "B", "pid": 27000832, "tid": 27000832, "ts": 1569331999234742},
{"name": "push-9", "ph": "E", "pid": 27000832, "tid": 27000832, "ts": 1569331999234778},
{"name": "pull-9", "ph": "B", "pid": 27000832, "tid": 27000832, "ts": 1569331999234878},
{"name": "push-11", "ph": "B", "pid": 27000832, "tid": 27000832, "ts": 1569331999234898},
{"name": "push-11", "ph": "E", "pid": 27000832, "tid": 27000832, "ts": 1569331999234931},
"""


def test_the_documented_excerpt(write):
    traces = load(write(EXCERPT))
    assert traces.format == "byteps-server"
    [server] = traces.values()
    assert server.events[["name", "dur_ns"]].to_numpy().tolist() == [
        ["push-9", 36000],
        ["push-11", 33000],
    ]
    assert server.asyncs[["name", "dur_ns"]].to_numpy().tolist() == [["pull-9", -1]]
    assert analysis.byteps_worker_lag(traces)["mean_lag_ns"].tolist() == [0, 156000]


def test_interleaved_requests_are_paired_first_in_first_out(write):
    key = 2**63 + 5
    steps = "pull-9 E 0, push-9 B 1, push-11 B 2, push-9 B 3, push-9 E 4, push-11 E 6, push-9 E 9"
    records = [
        request(name, phase, key, int(time))
        for name, phase, time in map(str.split, f"{steps}, push-9 B 10".split(", "))
    ]
    traces = load(write(records))
    events = traces[0].events
    assert list(zip(events["name"], events["dur_ns"] // 1000, events["step"], strict=True)) == [
        ("push-9", 3, 0),
        ("push-11", 4, 0),
        ("push-9", 6, 1),
    ]
    for column in ("pid", "tid"):
        assert events[column].unique().tolist() == [str(key)]
    # The excerpt lacks the start of the first request and the end of the last.
    result = traces.problems
    assert result["count"][result["kind"] == "unpaired"].tolist() == [1, 1]


def test_a_request_that_ends_before_it_begins_is_repaired(write):
    """Records are in the order of writing; a clock may step back between them."""
    records = [
        request("push-9", "B", 7, 5),
        request("push-9", "E", 7, 3),
        request("pull-9", "B", 7, 6),
        request("pull-9", "E", 7, 8),
    ]
    traces = load(write(records))
    assert (traces[0].events["dur_ns"] // 1000).tolist() == [0, 2]
    assert (analysis.byteps_requests(traces)["dur_ns"] >= 0).all()
    (repaired,) = [p for p in traces.problems.to_dict("records") if p["kind"] == "repaired"]
    assert (repaired["count"], repaired["detail"]) == (1, "negative durations; taken as zero")


def test_pairing_against_queues():
    rng = np.random.default_rng(0)
    for _ in range(200):
        size = int(rng.integers(0, 30))
        group, opens = rng.integers(0, 3, size), rng.random(size) < 0.5
        queues, pairs, alone = {}, [], []
        for at in range(size):
            waiting = queues.setdefault(int(group[at]), [])
            if opens[at]:
                waiting.append(at)
            elif waiting:
                pairs.append((waiting.pop(0), at))
            else:
                alone.append(at)
        alone += [at for waiting in queues.values() for at in waiting]
        begins, ends, lost = pair_first_in_first_out(group, opens)
        assert sorted(zip(begins.tolist(), ends.tolist(), strict=True)) == sorted(pairs)
        assert lost.tolist() == sorted(alone)


@pytest.mark.parametrize("servers", [1, 2, 3, 4, 7])
def test_what_keys_mean_follows_from_all_of_them(servers):
    stride = (2**64 - 1) // servers
    raw = [(30 + tensor) << 16 | part for tensor in range(40) for part in range(tensor % 4 + 1)]
    files = [
        np.array([key + at * stride for key in raw if key * 7 % servers == at], np.uint64)
        for at in range(servers)
    ]
    result, meaning = servers_of_keys(files)
    assert result == servers
    for at, file in enumerate(files):
        assert {meaning[at][int(key)] for key in file} == {
            (at, key) for key in raw if key * 7 % servers == at
        }


def numbers_in(value):
    if isinstance(value, dict):
        yield from (n for item in value.values() for n in numbers_in(item))
    elif isinstance(value, (list, tuple)):
        yield from (n for item in value for n in numbers_in(item))
    elif isinstance(value, (int, float)) and not isinstance(value, bool):
        yield value


def test_no_key_reaches_the_page_as_a_number(tmp_path):
    write_byteps_job(tmp_path / "job", steps=2, gradients=3)
    traces = load(tmp_path / "job")
    engine = TileEngine(traces)
    scene = engine.scene()
    assert max(numbers_in(scene)) < 2**53
    server = traces[5]
    keys = {track.pid for track in server.tracks}
    assert min(map(int, keys)) > 2**63 - 1
    shown = {track["process"] for rank in scene["ranks"] for track in rank["tracks"]}
    assert {f"key {key}" for key in keys} <= shown
    for at in range(len(server)):
        reply, _ = engine.answer({"op": "event", "rank": 5, "id": at})
        assert max(numbers_in(reply)) < 2**53
        assert reply["event"]["process"] == f"key {server.events['pid'][at]}"


# --- which files, and what is wrong with them -----------------------------------------------------

HOROVOD = """[
{"name": "process_name", "ph": "M", "pid": 0, "args": {"name": "horovod_allreduce.weight"}},
{"ph": "B", "name": "NEGOTIATE_ALLREDUCE", "ts": 12, "pid": 0, "tid": 1},
{"ph": "E", "ts": 20, "pid": 0, "tid": 1},
"""


def test_a_mixed_directory_loads_the_right_files_and_names_the_others(write, tmp_path):
    write_byteps_job(tmp_path / "job", steps=1, servers=1, gradients=2)
    write([event()], "job/rank-0.json", distributedInfo={"rank": 0})
    write(HOROVOD, "job/horovod/comm.json")
    write('{"lr": 0.1}', "job/config.json")
    write("", "job/worker2/traces/0/comm.json")
    traces = load(tmp_path / "job")
    summary = traces.summary()
    assert traces.format == "mixed"
    assert summary["format"].tolist() == ["kineto", *["byteps"] * 4, "byteps-server"]
    assert summary["rank"].tolist() == [0, 1, 2, 3, 4, 5]
    assert summary["worker"].tolist() == [-1, 0, 0, 1, 1, -1]
    text = {
        path.rsplit("job/", 1)[1]: (kind, detail)
        for path, kind, detail in traces.problems[["file", "kind", "detail"]].to_numpy().tolist()
    }
    assert text["horovod/comm.json"][0] == "foreign"
    assert "Horovod" in text["horovod/comm.json"][1]
    assert text["config.json"][0] == "foreign"
    assert text["worker2/traces/0/comm.json"][0] == "empty"
    only = load(tmp_path / "job", format="byteps")
    assert only.formats == ["byteps"]
    assert load(tmp_path / "job/horovod/comm.json").format == "kineto"
    plain = load(tmp_path / "job/worker0/traces/0/comm.json", format="kineto")
    assert plain.format == "kineto"


def test_workers_count_in_natural_order_and_by_local_rank(write, tmp_path):
    for worker, gpu in ((10, 1), (2, 0), (10, 0), (2, 11), (2, 2)):
        write(DOCUMENTED, f"host{worker}/{gpu}/comm.json")
    write(DOCUMENTED, "host3/comm.json")
    summary = load(tmp_path).summary()
    assert summary["worker"].tolist() == [0, 0, 0, 1, 2, 2]
    assert summary["local_rank"].tolist() == [0, 2, 11, 0, 0, 1]
    files = [path.rsplit("host", 1)[1].removesuffix("/comm.json") for path in summary["file"]]
    assert files == ["2/0", "2/2", "2/11", "3", "10/0", "10/1"]


def test_two_files_of_one_gpu_are_both_kept(write, tmp_path):
    write(DOCUMENTED, "worker0/0/comm.json")
    write(DOCUMENTED, "worker0/0/comm-copy.json")
    traces = load(tmp_path)
    assert traces.summary()["local_rank"].tolist() == [0, 1]
    assert ("duplicate_rank", 1) in problems_of(traces)


@pytest.mark.parametrize("file", ["worker0/traces/1/comm.json", "server0/server_profile.json"])
def test_cut_anywhere_a_file_gives_what_is_whole(tmp_path, file):
    write_byteps_job(tmp_path / "job", steps=2, gradients=2)
    full = (tmp_path / "job" / file).read_bytes()
    most = len(load(tmp_path / "job" / file)[0])
    path = tmp_path / "cut" / file
    path.parent.mkdir(parents=True)
    counts = []
    for size in range(0, len(full), max(len(full) // 60, 1)):
        path.write_bytes(full[:size])
        try:
            traces = load(path)
        except hw.TraceError:
            counts.append(0)
            continue
        counts.append(len(traces[0]))
        assert "truncated" in set(traces.problems["kind"])
    assert counts == sorted(counts)
    assert counts[0] == 0 < counts[len(counts) // 2] < most


def test_bytes_that_are_wrong_are_skipped(tmp_path):
    write_byteps_job(tmp_path / "job", steps=2, gradients=2)
    path = tmp_path / "job/worker0/traces/1/comm.json"
    full = path.read_bytes()
    most = len(load(path)[0])
    middle = len(full) // 2
    path.write_bytes(full[:middle] + b"\xff\xfe\x00" + full[middle + 3 :])
    traces = load(path)
    assert most - 2 <= len(traces[0]) <= most
    assert traces.format == "byteps"


@pytest.mark.parametrize(
    ("file", "old", "new"),
    [
        ("server0/server_profile.json", b'"pull-', b'"pUll-'),
        ("server0/server_profile.json", b'"pid": ', b'"pid": 99999999999999999999'),
        ("server0/server_profile.json", b'"ph": "E"', b'"ph": "X"'),
        ("worker0/traces/1/comm.json", b'"pid": "Comm.', b'"pid": "Cxmm.'),
        ("worker0/traces/1/comm.json", b'"tid": "', b'"tid": "\xd9\xa3x'),
        ("worker0/traces/1/comm.json", b'"dur": ', b'"dur": -'),
    ],
)
def test_a_broken_record_does_not_make_a_file_another_one(tmp_path, file, old, new):
    write_byteps_job(tmp_path / "job", steps=2, gradients=2, workers=1, servers=1)
    path = tmp_path / "job" / file
    name = "byteps" if "comm" in file else "byteps-server"
    most = len(load(path)[0])
    before, result, after = path.read_bytes().rpartition(old)
    assert result
    path.write_bytes(before + new + after)
    traces = load(path)
    assert traces.format == name
    assert most - 2 <= len(traces[0]) <= most + 1
    for ask in (hw.analysis.byteps_gradients, hw.analysis.byteps_requests):
        ask(traces)


def test_servers_are_recognized_behind_long_keys(tmp_path):
    write_byteps_job(tmp_path / "job", steps=2, gradients=2)
    path = next((tmp_path / "job").rglob("server_profile.json"))
    text = path.read_text()
    expected = load(path)[0]
    path.write_text('{"log": "' + "x" * 200_000 + '", ' + text.lstrip().removeprefix("{"))
    trace = load(path)[0]
    assert trace.format == "byteps-server"
    assert trace.events.equals(expected.events)


@pytest.mark.parametrize("gpus", [1, 2])
@pytest.mark.parametrize("runs", [("first", "second"), ("20241130", "20241201")])
def test_two_runs_below_the_folder_of_a_worker_are_two_jobs(tmp_path, gpus, runs):
    for run in runs:
        write_byteps_job(tmp_path / run, local_ranks=gpus, servers=1, steps=1, gradients=2)
        for file in (tmp_path / run).rglob("*/*.json"):
            machine, *rest = file.relative_to(tmp_path / run).parts
            target = tmp_path.joinpath("job", machine, run, *rest)
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(file.read_bytes())
    traces = load(tmp_path / "job")
    places = [(trace.job, trace.worker) for trace in traces.values() if trace.format == "byteps"]
    expected = [(f"job/{run}", worker) for run in runs for worker in (0, 1)]
    assert sorted(set(places)) == expected
    assert len(places) == 4 * gpus
    servers = [trace for trace in traces.values() if trace.format == "byteps-server"]
    assert [(trace.job, trace.server) for trace in servers] == [(f"job/{run}", 0) for run in runs]
    only = load(tmp_path / runs[0])
    expected_text = str(headline(only)).partition(" is last")[2].partition(", ")[0]
    texts = str(headline(traces))
    for run in runs:
        assert f"Worker 1 of job/{run} is last{expected_text}, " in texts


@pytest.mark.parametrize("runs", [("7", "8"), ("20241", "20242"), ("202411", "202412")])
def test_folders_with_numbers_below_that_of_a_server_are_runs(tmp_path, runs):
    write_byteps_job(tmp_path / "run", local_ranks=2, servers=2, steps=1, gradients=2)
    for file in (tmp_path / "run").rglob("server_profile.json"):
        for run in runs:
            target = tmp_path / "job" / file.parent.name / run / file.name
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(file.read_bytes())
    places = [(trace.job, trace.server) for trace in load(tmp_path / "job").values()]
    assert places == [(f"job/{run}", server) for run in runs for server in (0, 1)]


def test_a_folder_per_gpu_below_that_of_a_worker_is_no_run(tmp_path):
    write_byteps_job(tmp_path / "made", workers=1, servers=1, steps=1, gradients=2)
    for gpu in (0, 1):
        file = tmp_path / f"made/worker0/traces/{gpu}/comm.json"
        target = tmp_path / f"job/worker0/gpu{gpu}/{gpu}/comm.json"
        target.parent.mkdir(parents=True)
        target.write_bytes(file.read_bytes())
    assert {trace.job for trace in load(tmp_path / "job").values()} == {"job"}


def test_asyncs_of_a_file_stay_beside_the_derived_ones(write):
    own = [
        {"ph": phase, "cat": "note", "name": "push-9", "id": "x", "pid": 7, "ts": NOW + ts}
        for phase, ts in [("b", 1), ("e", 4)]
    ]
    requests = [request("push-9", "B", 1, 0), request("push-9", "E", 1, 9), *own]
    requests += [request("pull-9", "B", 1, 10)]
    server = load(write(requests, "server_profile.json"))[0]
    assert server.asyncs[["category", "dur_ns"]].to_numpy().tolist() == [
        ["note", 3000],
        ["open request", -1],
    ]
    worker = load(write([*EXAMPLE, *own], "1/comm.json"))[0]
    assert worker.asyncs["category"].tolist() == ["note"]


def test_partitions_that_wait_for_the_root_are_counted_without_other_asyncs(write, tmp_path):
    key = 3 << 16
    stages = [("COORDINATE_PUSH", 20, 1), ("COPYH2D", 150, 10)]
    own = [
        {"ph": phase, "cat": "note", "name": "note", "id": "x", "pid": 7, "ts": NOW + ts}
        for phase, ts in [("b", 1), ("e", 4)]
    ]
    records = [stage(None, 0, 200), *(stage(*times, key) for times in stages)]
    write([*records, *own], "worker0/traces/0/comm.json")
    write([*records, stage("PUSH", 20, 60, key)], "worker0/traces/1/comm.json")
    counters = load(tmp_path)[0].counters
    assert counters["name"].unique().tolist() == ["waiting for root"]
    assert counters[["time_ns", "value"]].to_numpy().tolist() == [[21_000, 1], [150_000, 0]]
