"""The model on real traces, compared with plain counts of the same files."""

import gzip
import json
from collections import Counter, defaultdict

import numpy as np
import pytest
from support import recorded

import hta_widgets as hw
from hta_widgets.trace.columns import COMMUNICATION_KEYS, event_args

pytestmark = pytest.mark.slow

FILES = [
    "hta_tests/amd_trace/mi250_minitoy_train_ROCm6_2_kineto.json.gz",
    "hta_tests/call_stack/backward_thread.json",
    "hta_tests/cpu_only/rank-34.Jul_15_10_52_41.1074.pt.trace.json.gz",
    "hta_tests/critical_path__alexnet/benchmark_result_2869224_1695835535_trace.json.gz",
    "hta_tests/critical_path__cuda_event_sync_multi_stream/event_sync_trace.json.gz",
    "hta_tests/cupti_profiler/benchmark_result_924719_1679055439_trace.json.gz",
    "hta_tests/mtia_inference_trace/mtia_inference_rank_0.json.gz",
    "hta_tests/nccl_parser_config/nccl_data.json.gz",
    "hta_tests/ns_resolution_trace/rank-0.Apr_03_18_51_38.1102.pt.trace.json.gz",
    "hta_tests/trace_diff__control/control.json.gz",
    "hta_tests/trace_diff__test/test.json.gz",
    "hta_tests/trace_filter/sampled_rank-0.json.gz",
    "hta_tests/triton_example/triton_example.json.gz",
    "hta_tests/with_gpu_user_annotation/step_based_trace_2543932.json.gz",
    "kineto/resnet50_num_workers_0_a/worker0.1623143089861.pt.trace.json.gz",
    "made/ddp_8rank/rank-5.json.gz",
]


@pytest.fixture(scope="module", params=recorded.paths(*FILES, files=True))
def loaded(request):
    """Return a file as a trace and as its plain records."""
    path = request.param
    text = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    document = json.loads(text)
    records = document if isinstance(document, list) else document["traceEvents"]
    [trace] = hw.load(path, progress=False, cache=False).values()
    return trace, records


def test_args_of_communication_are_those_of_the_file(loaded):
    trace, records = loaded
    rows = np.arange(len(trace))
    result = event_args(trace, rows, COMMUNICATION_KEYS)
    only_one = np.setdiff1d(rows, list(trace.table.end_record))
    args = [records[trace.table.record[row]].get("args") or {} for row in only_one]
    for key in COMMUNICATION_KEYS:
        assert [result[key][row] for row in only_one] == [item.get(key) for item in args]


def test_lanes_hold_what_they_promise(loaded):
    trace, _ = loaded
    table, unit = trace.table, trace.resolution_ns
    start, end, parent = table.start_ns, table.end_ns, table.parent
    child = np.flatnonzero(parent >= 0)
    assert (parent[child] < child).all()
    assert (table.track[parent[child]] == table.track[child]).all()
    assert (start[parent[child]] <= start[child]).all()
    assert (end[parent[child]] + unit >= end[child]).all()
    for number, track in enumerate(table.tracks):
        rows = np.flatnonzero(table.track == number)
        assert len(rows)
        assert table.depth[rows].max() + 1 == track.lanes
        for lane in range(track.lanes):
            ours = rows[table.depth[rows] == lane]
            assert (start[ours][1:] >= np.maximum.accumulate(end[ours])[:-1] - unit).all()
        inner = rows[(table.depth[rows] > 0) & (table.depth[rows] < track.nested)]
        assert (parent[inner] >= 0).all()
    spilled = sum(
        int((table.depth[table.track == k] >= track.nested).sum())
        for k, track in enumerate(table.tracks)
    )
    reported = trace_problem(trace, "overlap")
    assert spilled == reported


def trace_problem(trace, kind):
    frame = hw.load(trace.path, progress=False, cache=False).problems
    return int(frame.loc[frame["kind"] == kind, "count"].sum())


def test_arrows_are_those_of_a_plain_join(loaded):
    trace, records = loaded
    calls, work = defaultdict(list), []
    for number, event in enumerate(records):
        args = event.get("args") or {}
        if event.get("ph") != "X" or "dur" not in event or args.get("correlation", -1) < 0:
            continue
        if hw.taxonomy.is_device_category(event.get("cat", "")):
            work.append((number, args["correlation"]))
        else:
            calls[args["correlation"]].append(number)
    assert all(len(calls.get(ident, ())) <= 1 for _, ident in work), "there is a choice to make"
    expected = {(calls[ident][0], number) for number, ident in work if ident in calls}
    record, flows = trace.table.record, trace.flow_table
    launch = flows.kind == flows.kinds.index("launch")
    sources, targets = record[flows.source[launch]], record[flows.target[launch]]
    pairs = list(zip(sources.tolist(), targets.tolist(), strict=True))
    assert len(pairs) == len(set(pairs))
    assert expected <= set(pairs)
    # Additional flows come only from flow records in the file.
    text = set(targets[flows.target_record[launch] >= 0].tolist())
    assert {target for _, target in set(pairs) - expected} <= text


def test_flow_records_are_all_drawn_or_counted(loaded):
    trace, records = loaded
    flows = [event for event in records if event.get("ph") in ("s", "t", "f")]
    starts = Counter((e.get("cat"), str(e.get("id"))) for e in flows if e["ph"] == "s")
    ends = Counter((e.get("cat"), str(e.get("id"))) for e in flows if e["ph"] == "f")
    if any(count > 1 for count in starts.values()):
        pytest.skip("ids start more than once")
    paired = sum(count for key, count in ends.items() if key in starts)
    lost = sum(count for key, count in ends.items() if key not in starts)
    alone = sum(1 for key in starts if key not in ends)
    drawn = int((trace.flow_table.source_record >= 0).sum())
    unbound = trace_problem(trace, "unpaired") - lost - alone
    assert drawn + unbound == paired


def test_steps_are_those_of_a_plain_search(loaded):
    trace, _ = loaded
    frame = trace.events
    is_mark = frame["name"].astype(str).str.startswith("ProfilerStep#") & (frame["stream"] < 0)
    expected = np.full(len(frame), -1)
    for mark in frame[is_mark & (frame["category"] != "gpu_user_annotation")].itertuples():
        since = frame["start_ns"] - mark.start_ns
        expected[(since >= 0) & (since < mark.dur_ns)] = int(mark.name.split("#")[1])
    got = frame["step"].to_numpy()
    on_device = frame["category"].map(hw.taxonomy.is_device_category).to_numpy(bool)
    assert got[~on_device].tolist() == expected[~on_device].tolist()
    launched = trace.flows[trace.flows["kind"] == "launch"]
    by_launch = np.full(len(frame), -1)
    by_launch[launched["target"]] = expected[launched["source"]]
    linked = on_device & (frame["correlation"] >= 0).to_numpy()
    assert got[linked].tolist() == by_launch[linked].tolist()
    assert (got[on_device & ~linked] == -1).all()


def test_args_are_the_files_own(loaded):
    trace, records = loaded
    rng = np.random.default_rng(1)
    for row in rng.integers(0, len(trace), 20).tolist():
        record = records[int(trace.table.record[row])]
        assert trace.args(row) == record.get("args", {})
        assert trace.events["name"].iloc[row] == record["name"]


def test_the_made_jobs_problems_are_those_of_its_files(shared):
    traces = hw.load(shared / "traces/made/ddp_8rank", progress=False, cache=False)
    counts = traces.problems.groupby(["kind", "detail"])["count"].sum().to_dict()
    assert counts == {
        ("unpaired", "flow ends without a start; kept, no arrow is drawn"): 39_024,
        ("unpaired", "flow starts without an end; kept, no arrow is drawn"): 704,
    }
    assert traces.origin_ns == 1_716_423_322_387_879_774
    assert sum(len(trace) for trace in traces.values()) == 215_464
