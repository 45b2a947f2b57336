"""The demo job: reproducible bytes, plausible times, and a truth that matches the files."""

from __future__ import annotations

import gzip
import json
from collections import defaultdict
from decimal import Decimal
from itertools import pairwise

import pytest

import hta_widgets as hw
from hta_widgets.analysis import step_efficiency
from hta_widgets.demo import job
from hta_widgets.demo.job import write_demo
from hta_widgets.errors import TraceError
from hta_widgets.panels.headline import headline

pytestmark = pytest.mark.slow

RANKS, STEPS = 4, 2
DEVICE = {"kernel", "gpu_memcpy", "gpu_memset"}


def _ns(text):
    full = Decimal(str(text)) * 1000
    assert full == int(full)
    return int(full)


def _document(path):
    data = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    return json.loads(data, parse_float=Decimal)


def _events(document):
    for event in document["traceEvents"]:
        if event["ph"] == "X":
            yield event, _ns(event["ts"]), _ns(event["ts"]) + _ns(event["dur"])


@pytest.fixture(scope="module")
def demo(tmp_path_factory):
    folder = tmp_path_factory.mktemp("demo") / "job"
    truth = write_demo(folder, ranks=RANKS, steps=STEPS, seed=3)
    documents = {rank: _document(folder / f"rank-{rank}.trace.json.gz") for rank in range(RANKS)}
    return truth, documents, folder


@pytest.fixture(params=range(RANKS))
def document(request, demo):
    return demo[1][request.param]


def _job_ns(truth, document):
    """Return the offset between a file's times and ns since the job's start on that clock."""
    return truth["zero_ns"] - document["baseTimeNanoseconds"]


def _same(name, one, other):
    return (one / name).read_bytes() == (other / name).read_bytes()


def test_the_same_arguments_give_the_same_bytes_and_another_seed_others(demo, tmp_path):
    _, _, folder = demo
    write_demo(tmp_path / "job", ranks=RANKS, steps=STEPS, seed=3)
    assert all(_same(path.name, tmp_path / "job", folder) for path in folder.iterdir())
    assert _same("job_truth.json", tmp_path, folder.parent)
    write_demo(tmp_path / "job", ranks=RANKS, steps=STEPS, seed=4)
    assert not _same("rank-1.trace.json.gz", tmp_path / "job", folder)


def test_plain_files_hold_the_same_text(demo, tmp_path):
    _, _, folder = demo
    write_demo(tmp_path / "job", ranks=RANKS, steps=STEPS, seed=3, format="json")
    packed = gzip.decompress((folder / "rank-2.trace.json.gz").read_bytes())
    assert (tmp_path / "job/rank-2.trace.json").read_bytes() == packed


def test_many_ranks_are_written_in_batches(demo, tmp_path, monkeypatch):
    truth, _, folder = demo
    monkeypatch.setattr(job, "_FILES_AT_ONCE", 3)
    again = write_demo(tmp_path / "job", ranks=RANKS, steps=STEPS, seed=3)
    assert again == truth | {"truth_path": again["truth_path"]}
    assert _same("rank-3.trace.json.gz", tmp_path / "job", folder)


def test_the_truth_counts_what_is_in_the_files(demo):
    truth, documents, folder = demo
    path = folder.with_name("job_truth.json")
    assert json.loads(path.read_text()) | {"truth_path": str(path)} == truth
    for rank, document in documents.items():
        assert document["distributedInfo"]["rank"] == rank
        assert len(document["traceEvents"]) == truth["records"][rank]
        assert sum(e["ph"] == "X" for e in document["traceEvents"]) == truth["events"][rank]


def test_the_default_job_has_the_documented_size(tmp_path):
    truth = write_demo(tmp_path / "job")
    assert len(truth["files"]) == 8
    assert all(15_000 <= count <= 30_000 for count in truth["records"])


def test_work_on_a_stream_never_overlaps(document):
    streams = defaultdict(list)
    for event, start, end in _events(document):
        if event.get("cat") in DEVICE:
            assert end > start
            streams[event["tid"]].append((start, end))
    assert set(streams) == {7, 20, 24, 28}
    for spans in streams.values():
        for (_, end), (start, _) in pairwise(sorted(spans)):
            assert end <= start


def test_host_events_nest(document):
    threads = defaultdict(list)
    for event, start, end in _events(document):
        if event.get("cat") in {"cpu_op", "cuda_runtime", "user_annotation"}:
            threads[event["tid"]].append((start, -end))
    assert len(threads) == 3
    for spans in threads.values():
        ends: list[int] = []
        for start, minus_end in sorted(spans):
            while ends and ends[-1] <= start:
                ends.pop()
            assert not ends or -minus_end <= ends[-1]
            ends.append(-minus_end)


def test_every_launch_precedes_its_kernels(document):
    calls = {}
    works = defaultdict(list)
    for event, start, end in _events(document):
        if event.get("cat") == "cuda_runtime":
            assert event["args"]["correlation"] not in calls
            calls[event["args"]["correlation"]] = (event, start, end)
        elif event.get("cat") in DEVICE:
            works[event["args"]["correlation"]].append((event, start))
    for correlation, kernels in works.items():
        call, start, _ = calls[correlation]
        assert all(begin > start for _, begin in kernels)
        assert all(k["args"]["External id"] == call["args"]["External id"] for k, _ in kernels)
    graphs = [c for c, (event, *_) in calls.items() if event["name"] == "cudaGraphLaunch"]
    assert len(graphs) == STEPS
    assert all(len(works[correlation]) > 2 for correlation in graphs)


def test_the_host_waits_for_the_device_once_a_step(document):
    name = "cudaDeviceSynchronize"
    waits = [(s, e) for event, s, e in _events(document) if event["name"] == name]
    works = [(s, e) for event, s, e in _events(document) if event.get("cat") in DEVICE]
    assert len(waits) == STEPS
    for begin, end in waits:
        # When the call returns, all previously launched work is done.
        assert max(e for _, e in works if e <= end) > begin
        assert not any(s < end < e for s, e in works)


def test_flows_have_both_ends(document):
    ends = defaultdict(lambda: defaultdict(list))
    for event in document["traceEvents"]:
        if event["ph"] in "sf":
            ends[event["cat"], event["id"]][event["ph"]].append(event)
    assert {cat for cat, _ in ends} == {"ac2g", "fwdbwd"}
    for (cat, _), both in ends.items():
        assert len(both["s"]) == 1
        assert both["f"]
        if cat == "fwdbwd":
            assert both["s"][0]["tid"] != both["f"][0]["tid"]
            assert both["s"][0]["ts"] < both["f"][0]["ts"]


def test_gradients_are_reduced_during_the_backward_pass(document):
    spans = {7: [], 20: []}
    for event, start, end in _events(document):
        if event.get("cat") == "kernel" and event["tid"] in spans:
            spans[event["tid"]].append((start, end))
    overlap = sum(
        max(0, min(e, end) - max(s, start)) for s, e in spans[20] for start, end in spans[7]
    )
    assert overlap > 0.3 * sum(e - s for s, e in spans[20])


def _collectives(documents, truth):
    """Return {rank: {(group, number): (start, end)}} in true time since the job's start."""
    result = defaultdict(dict)
    for rank, document in documents.items():
        skew_ns = _ns(truth["skew_us"][rank])
        for event, start, end in _events(document):
            if "ncclDevKernel" in event["name"]:
                args = event["args"]
                key = (args["Process Group Name"], args["Seq"])
                off = _job_ns(truth, document) + skew_ns
                assert key not in result[rank]
                result[rank][key] = (start - off, end - off, args)
    return result


def test_the_truth_gives_every_arrival_and_end(demo):
    truth, documents, _ = demo
    result = _collectives(documents, truth)
    waits = [0] * RANKS
    for collective in truth["collective_list"]:
        last = max(collective["arrival_ns"])
        for rank, arrival in zip(collective["ranks"], collective["arrival_ns"], strict=True):
            start, end, args = result[rank].pop((collective["group"], collective["seq"]))
            assert start == arrival
            assert end == collective["end_ns"] > last
            assert json.loads(args["Process Group Ranks"]) == collective["ranks"]
            assert args["Group size"] == len(collective["ranks"])
            assert args["Collective name"] == collective["name"]
            waits[rank] += last - arrival
    assert not any(result.values())
    assert [wait / 1000 for wait in waits] == pytest.approx(truth["wait_us_total"])
    assert truth["observed"]["wait_us_total"] == truth["wait_us_total"]
    assert sum(truth["last_arrivals"]) == truth["collectives"] == len(truth["collective_list"])
    assert sum(truth["imposed_wait_us"]) == pytest.approx(sum(truth["wait_us_total"]))


def test_groups_are_those_that_the_header_names(demo):
    truth, documents, _ = demo
    for rank, document in documents.items():
        groups = {g["pg_name"]: g for g in document["distributedInfo"]["pg_config"]}
        assert set(groups) == {"0", str(1 + rank // 2)}
        assert groups[str(1 + rank // 2)]["ranks"] == [rank // 2 * 2, rank // 2 * 2 + 1]
    assert truth["groups"]["0"]["ranks"] == list(range(RANKS))


def test_the_straggler_imposes_the_waits(demo):
    truth, _, _ = demo
    assert truth["straggler"] == 3
    imposed = truth["imposed_wait_us"]
    assert imposed[3] > 5 * max(imposed[:3])


def test_a_healthy_job_has_no_straggler(tmp_path):
    truth = write_demo(tmp_path / "job", ranks=4, steps=2, straggler=None, tensor_ranks=1)
    assert truth["straggler"] is None
    assert truth["speed"] == [1.0] * 4
    assert sum(truth["wait_us_total"]) < 200_000


def test_strided_groups_reduce_gradients_among_peers(tmp_path):
    truth = write_demo(tmp_path / "job", ranks=4, steps=1, strided=True)
    reduced = {tuple(c["ranks"]) for c in truth["collective_list"] if c["name"] == "allreduce"}
    assert reduced == {(0, 2), (1, 3)}
    assert {g["description"] for g in truth["groups"].values()} == {"mesh_tp", "mesh_dp"}


def test_missing_ranks_have_no_file_and_no_observation(tmp_path):
    truth = write_demo(tmp_path / "job", ranks=4, steps=1, missing=[3, 1], tensor_ranks=1)
    assert sorted(p.name for p in (tmp_path / "job").iterdir()) == [
        "rank-0.trace.json.gz",
        "rank-2.trace.json.gz",
    ]
    assert truth["missing"] == [1, 3]
    assert truth["last_arrivals"][3] > 0
    assert truth["observed"]["last_arrivals"][3] == 0
    assert {tuple(c["in_files"]) for c in truth["collective_list"]} == {(0, 2)}


def test_uneven_starts_cut_the_beginning_off(tmp_path):
    truth = write_demo(tmp_path / "job", ranks=4, steps=2, uneven_us=20_000)
    full = write_demo(tmp_path / "whole", ranks=4, steps=2)
    documents = {rank: _document(tmp_path / f"job/rank-{rank}.trace.json.gz") for rank in range(4)}
    result = _collectives(documents, truth)
    for rank, document in documents.items():
        begin = truth["record_from_ns"][rank]
        off = _job_ns(truth, document) + _ns(truth["skew_us"][rank])
        times = [
            _ns(e["ts"]) - off
            for e in document["traceEvents"]
            if e["ph"] in "XsfiC" and "Spans" not in str(e) and e.get("s") != "g"
        ]
        assert begin <= min(times) < begin + 1_000_000
        assert truth["records"][rank] == len(document["traceEvents"])
        if begin > 1_000_000:
            assert truth["records"][rank] < full["records"][rank]
    for collective in truth["collective_list"]:
        key = (collective["group"], collective["seq"])
        assert collective["in_files"] == [
            rank for rank in collective["ranks"] if key in result[rank]
        ]
    assert truth["observed"]["collectives"] < truth["collectives"]


def test_the_number_of_records_can_be_chosen(tmp_path):
    truth = write_demo(tmp_path / "job", ranks=2, steps=3, events_per_step=9_000)
    assert all(abs(count / 3 - 9_000) < 300 for count in truth["records"])


def test_memory_is_counted_and_comes_back(demo):
    _, documents, _ = demo
    for rank, document in documents.items():
        samples = [e["args"] for e in document["traceEvents"] if e["ph"] == "C"]
        assert all(0 < s["allocated"] <= s["reserved"] for s in samples)
        instants = [e for e in document["traceEvents"] if e["name"] == "[memory]"]
        assert sum(e["args"]["Bytes"] for e in instants) == 0
        assert {e["args"]["Device Id"] for e in instants} == {rank}


def test_one_rank_trains_alone(tmp_path):
    truth = write_demo(tmp_path / "job", ranks=1, steps=1)
    assert truth["collectives"] == 0
    assert truth["straggler"] is None
    assert "nccl:" not in (tmp_path / "job_truth.json").read_text()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"ranks": 0}, "from 1 to 65,535, not 0"),
        ({"steps": 0}, "from 1 to 65,535, not 0"),
        ({"ranks": 6, "tensor_ranks": 4}, "groups of 4"),
        ({"ranks": 2, "missing": [0, 1]}, "every rank is missing"),
        ({"factor": 0}, "above 0"),
        ({"missing": [8]}, "unknown rank 8"),
        ({"straggler": -1}, "unknown rank -1"),
        ({"format": "parquet"}, "json.gz"),
    ],
)
def test_impossible_jobs_are_refused(tmp_path, arguments, message):
    with pytest.raises(TraceError, match=message):
        write_demo(tmp_path / "job", **arguments)


def test_the_flops_of_a_step_follow_from_the_shapes(demo):
    truth, _, folder = demo
    steps = step_efficiency(hw.load(folder, cache=False, progress=False))
    assert len(steps) == RANKS * STEPS
    for name, flops in truth["step_flops"].items():
        assert set(steps[name]) == {flops}
    assert (steps["known_share"] > 0.95).all()
    assert steps["mfu"].between(0.1, 0.5).all()


@pytest.mark.parametrize(
    ("kind", "finding"),
    [
        ("data_loading", "the host loads data"),
        ("launch_bound", "the host is inside operators and has not launched the next work"),
        ("memory_bound", "of what memory allows"),
    ],
)
def test_the_headline_finds_what_takes_the_time_of_a_kind_of_job(tmp_path, kind, finding):
    write_demo(tmp_path / "job", ranks=1, steps=2, kind=kind, straggler=None)
    traces = hw.load(tmp_path / "job", cache=False, progress=False)
    assert finding in str(headline(traces))
