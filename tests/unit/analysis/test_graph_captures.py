"""Operators of replayed graphs, from a hand-written capture."""

import json
from pathlib import Path

import pytest
from pandas.testing import assert_frame_equal
from support.small import call, event, kernel, write

import hta_widgets as hw
from hta_widgets.analysis import graph_replays, modules, operator_efficiency, serving_steps
from hta_widgets.trace.graph_captures import match_nodes

BF16 = ["c10::BFloat16"] * 2
SHAPES = {"Input Dims": [[64, 64], [64, 64]], "Input type": BF16}
PEAKS = {"bf16": 1.0, "fp32": 0.5, "memory_gb_s": 100.0}


def launch(start, launch_id, name, **args):
    return call(start, start + 5, launch_id, name="hipLaunchKernel", kernel=name, **args)


def mm(start, end, name="aten::mm"):
    return event("cpu_op", name, start, end, pid=10, **SHAPES)


def module(name, start, end):
    return event("python_function", f"nn.Module: {name}", start, end, pid=10)


#: An eager mm, then the capture of a module with two mm, a copy, and a call without a launch.
CAPTURE = [
    mm(10, 40), launch(20, 1, "gemm"), kernel(50, 60, launch=1),
    call(90, 95, name="hipStreamBeginCapture"),
    event("user_annotation", "capture_32_FULL", 99, 400, pid=10),
    module("Net_0", 100, 390),
    module("Linear_0", 110, 200), mm(120, 190), launch(130, 2, "gemm"), launch(150, 3, "nothing"),
    module("Linear_1", 210, 300), mm(220, 290), launch(230, 4, "gemm"),
    call(310, 315, 5, name="hipMemcpyAsync"),
    call(500, 505, name="hipStreamEndCapture"),
]  # fmt: skip
#: Two launches of the graph, each on two streams.
REPLAY = [
    event("user_annotation", "step[DECODE bs=4]", 100, 200, pid=10),
    call(110, 120, 7, name="hipGraphLaunch"), call(300, 310, 8, name="hipGraphLaunch"),
    *(
        kernel(start, start + size, launch=number, name=name, stream=stream)
        for number, begin in ((7, 1_000), (8, 9_000))
        for start, size, name, stream in (
            (begin, 1_000, "gemm", 7), (begin + 1_000, 2_000, "gemm", 7),
            (begin + 3_000, 50, "Memcpy DtoD (Device -> Device)", 8),
        )
    ),
]  # fmt: skip


def folder(path, name, events):
    path = path / name
    path.mkdir()
    return write(path, events)


@pytest.fixture
def traces(tmp_path):
    capture = folder(tmp_path, "capture", CAPTURE)
    replay = folder(tmp_path, "replay", REPLAY)
    return hw.load(replay, capture=capture, cache=False, progress=False)


def test_replayed_kernels_have_the_operators_of_the_capture(traces):
    replays = graph_replays(traces)
    assert (
        replays[["kernels", "matched", "certainty", "replays"]].to_numpy().tolist()
        == [[3, 3, "partial", 2]] * 2
    )
    assert replays["capture"].tolist() == ["capture_32_FULL"] * 2
    frame = operator_efficiency(traces, peaks=PEAKS)
    row = frame.set_index("name").loc["aten::mm"]
    assert (row["count"], row["flops"], row["device_ns"]) == (4, 2 * 64**3, 6_000)
    assert (row["min_ns"], row["max_ns"]) == (1_000, 2_000)
    assert operator_efficiency(traces.select(ranks=[0]).owner).attrs["device_ns"] == 6_100
    assert serving_steps(traces)["flops"].tolist() == [4 * 64**3]


def test_replayed_attention_has_the_lengths_of_the_step_that_launched_the_graph(tmp_path):
    """SGLang's numbered operator: 8 pairs, then an unknown number, with 2 heads of 4."""
    dims = [[4, 2, 4], [64], [4, 2, 4], [9, 1, 1, 4], [9, 1, 1, 4]]
    name = "sglang_profiler::attention_paged_attention_ragged_100"
    attention = event("cpu_op", name, 120, 190, pid=10)
    attention["args"] = {"Input Dims": dims, "Input type": ["c10::BFloat16"] * 5}
    events = [attention, launch(130, 2, "paged")]
    lengths = "(sq4sk8sqsq4sqsk8)"
    replay = [
        event("user_annotation", f"execute_4_context_0(0)_generation_4{lengths}", 99, 200, pid=10),
        call(110, 120, 7, name="hipGraphLaunch"), call(300, 310, 8, name="hipGraphLaunch"),
        kernel(1_000, 1_010, launch=7, name="paged"), kernel(2_000, 2_010, launch=8, name="paged"),
    ]  # fmt: skip
    capture, replay = folder(tmp_path, "capture", events), folder(tmp_path, "replay", replay)
    traces = hw.load(replay, capture=capture, cache=False, progress=False)
    frame = operator_efficiency(traces, peaks=PEAKS)
    assert frame["total_flops"].dropna().tolist() == [2 * 2 * 8 * 8]
    assert frame.loc[frame["flops"].isna(), "reason"].tolist() == ["data-dependent"]


def test_replayed_kernels_have_the_modules_of_the_capture(traces):
    frame = modules(traces)
    assert frame.set_index("path")["device_ns"].to_dict() == {
        "Net_0": 6_100, "Net_0.Linear_0": 2_000, "Net_0.Linear_1": 4_000,
    }  # fmt: skip


def test_the_events_stay_those_of_the_file(traces):
    assert len(traces[0].events) == len(REPLAY)
    assert not traces.problems["kind"].eq("capture").any()


def test_a_capture_of_other_kernels_is_a_problem_and_changes_nothing(tmp_path):
    document = json.loads(json.dumps(CAPTURE).replace('"gemm"', '"other"'))
    capture = folder(tmp_path, "capture", document)
    replay = folder(tmp_path, "replay", REPLAY)
    traces = hw.load(replay, capture=capture, cache=False, progress=False)
    assert graph_replays(traces)["certainty"].tolist() == ["none", "none"]
    assert traces.problems["kind"].tolist() == ["capture"]
    assert operator_efficiency(traces).empty


@pytest.mark.parametrize(
    ("kernels", "nodes", "expected"),
    [
        ("ab", "ab", ("name", [0, 1])),
        ("ba", "ab", ("name-order", [1, 0])),
        ("aab", "axab", ("partial", [0, 2, 3])),
        ("ab", "cd", ("none", [])),
        ("ab", "a", ("none", [])),
    ],
)
def test_kernels_match_nodes_by_name(kernels, nodes, expected):
    assert match_nodes(list(kernels), list(nodes)) == expected


def test_nodes_without_names_match_by_order():
    assert match_nodes(["a", "Memcpy"], ["", "Memcpy"]) == ("order", [0, 1])


def test_a_store_keeps_the_capture(traces, tmp_path):
    work = operator_efficiency(traces, peaks=PEAKS)
    stored = hw.load(traces.save(tmp_path / "job.store"))
    assert_frame_equal(operator_efficiency(stored, peaks=PEAKS), work)
    assert_frame_equal(graph_replays(stored), graph_replays(traces))
    again = hw.load(stored.save(tmp_path / "again.store"))
    assert modules(again)["device_ns"].tolist() == modules(traces)["device_ns"].tolist()
    alone = hw.load(folder(tmp_path, "alone", REPLAY), cache=False, progress=False)
    plain = alone.save(tmp_path / "job.store")
    assert not graph_replays(hw.load(plain))["matched"].any()
    assert len(list((tmp_path / "job.store").glob("*.arrow"))) == 1


def test_a_cut_capture_in_a_store_is_refused(traces, tmp_path):
    store = Path(traces.save(tmp_path / "job.store"))
    (capture,) = store.glob("*-capture.*")
    capture.write_bytes(capture.read_bytes()[:-8])
    with pytest.raises(hw.TraceError, match="Copy the store again"):
        hw.load(store)
