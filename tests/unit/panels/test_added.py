"""Panels that users can add, for small jobs calculated by hand."""

import json

import pandas as pd
import pytest
from support.chart_reading import data_of
from support.chart_vectors import content_of
from support.collective_job import collective
from support.small import call, event, kernel, load, read, write

import hta_widgets as hw
from hta_widgets import charts
from hta_widgets.live.job import PanelEngine
from hta_widgets.panels.added import WHOLE_JOB_FRAMES, whole_job_frame
from hta_widgets.panels.frames import ADDED
from hta_widgets.trace.traceset import Selection


def op(name, start, end):
    return event("cpu_op", name, start, end, pid=10, tid=1)


#: linear encloses addmm, which launches 50 ns of kernels; a second linear launches none.
LINEAR = [
    op("aten::linear", 100, 200),
    op("aten::addmm", 130, 190),
    call(140, 145, 1),
    kernel(300, 350, launch=1),
    op("aten::linear", 400, 420),
]


def frame_of(traces, panel, **selection):
    return PanelEngine(traces).frame(panel, Selection(**selection))


def bars(frame):
    columns = ["depth", "name", "left_ns", "right_ns", "own_ns", "count", "host_ns", "device_ns"]
    return [*frame[columns].itertuples(index=False, name=None)]


def test_calls_lie_below_their_callers_the_longest_first(tmp_path):
    traces = load(tmp_path, LINEAR, LINEAR)
    assert bars(frame_of(traces, "call_tree")) == [
        (0, "aten::linear", 0, 240, 120, 4, 240, 100),
        (0, "aten::origin", 240, 242, 2, 2, 2, 0),
        (1, "aten::addmm", 0, 120, 120, 2, 120, 100),
    ]
    assert bars(frame_of(traces, "call_tree_device", ranks=[1])) == [
        (0, "aten::linear", 0, 50, 0, 2, 120, 50),
        (1, "aten::addmm", 0, 50, 50, 1, 60, 50),
    ]


def test_a_call_tree_of_the_device_states_the_work_of_no_operator(tmp_path):
    """Besides the 50 ns of `LINEAR`, one of two ranks has 30 ns of work without a launch."""
    traces = load(tmp_path, LINEAR, [*LINEAR, kernel(400, 430)])
    assert frame_of(traces, "call_tree_device").attrs["outside"] == 30 / 130
    assert frame_of(traces, "call_tree_device", ranks=[1]).attrs["outside"] == 30 / 80
    assert "outside" not in frame_of(traces, "call_tree").attrs


def test_work_in_a_window_counts_for_the_operator_that_launched_it_before(tmp_path):
    traces = load(tmp_path, LINEAR)
    named = {"start_ns": 310, "end_ns": 410, "query": "name == 'gemm'"}
    assert bars(frame_of(traces, "call_tree_device", **named)) == [
        (0, "aten::linear", 0, 40, 0, 1, 10, 40),
        (1, "aten::addmm", 0, 40, 40, 0, 0, 40),
    ]
    assert frame_of(traces, "call_tree", start_ns=500).attrs["note"] == "no operators are selected"


def comm(name, start, end, **args):
    more = {"dtype": "Float", "Process Group Name": "0", "Process Group Ranks": "[0, 1]", **args}
    return kernel(
        start, end, name="ncclDevKernel_SendRecv()", stream=20, **{"Group size": 2, **more},
        **{"Collective name": name},
    )  # fmt: skip


def test_the_critical_path_names_causes_as_its_chart_does(two):
    causes = frame_of(two, "critical_path")["cause"]
    drawn = data_of(charts.job_path_summary(two), "bound_text")["bound_text"]
    assert set(causes) == set(drawn) - {"nothing recorded"}
    assert not causes.str.contains("bound|overhead|_").any()


def test_messages_are_by_sender_and_receiver(tmp_path):
    """Rank 0 sends 25 floats to rank 1; in an all-to-all each rank sends half of its 100."""
    size = {"In msg nelems": 25, "Out msg nelems": 25}
    full = {"In msg nelems": 100, "Out msg nelems": 100}
    traces = load(
        tmp_path,
        [comm("send", 10, 20, **size, **{"Dst Rank": 1}), comm("all_to_allv", 30, 50, **full)],
        [comm("recv", 12, 20, **size, **{"Src Rank": 0}), comm("all_to_allv", 40, 50, **full)],
    )
    frame = frame_of(traces, "messages")
    assert [*frame.itertuples(index=False, name=None)] == [(0, 1, 2, 300), (1, 0, 1, 200)]


@pytest.fixture
def two(tmp_path):
    size = {"In msg nelems": 25, "Out msg nelems": 25}
    return load(
        tmp_path,
        [comm("allreduce", 10, 60, **size), comm("allreduce", 110, 160, **size)],
        [comm("allreduce", 50, 60, **size), comm("allreduce", 150, 160, **size)],
    )


def test_arrivals_follow_the_window(two):
    frame = frame_of(two, "arrivals", start_ns=100)
    assert frame[["rank", "lag_ns", "last"]].to_numpy().tolist() == [[0, 0, 0], [1, 40, 1]]


def test_arrivals_state_how_well_the_clocks_fit(two):
    frame = frame_of(two, "arrivals")
    assert frame.attrs["residual_ns"] == 0
    assert "clocks agree" not in content_of("arrivals", frame)["subtitle"]
    frame.attrs["residual_ns"] = 30
    words = "clocks agree within 30\u202fns: smaller differences are not significant"
    assert words in content_of("arrivals", frame)["subtitle"]


def test_collectives_that_ranks_reach_together_have_a_bandwidth(tmp_path):
    """4 000 bytes in 100 and 50 ns; ``2 · (n - 1) / n`` is 1 for two ranks."""
    together = [collective(100, 200, seq=1)]
    job = load(tmp_path, [*together, collective(300, 400, seq=2)],
               [*together, collective(350, 400, seq=2)])  # fmt: skip
    frame = frame_of(job, "bandwidth").sort_values("start_ns")
    assert frame["start_ns"].tolist() == [100, 350]
    assert frame["busbw_gb_s"].tolist() == [40, 80]


def test_outliers_of_kernels_with_one_short_name_are_told_apart():
    kernels = {"kernel": ["gemm<float>", "gemm<int>"], "short": ["gemm", "gemm"]}
    frame = pd.DataFrame({"outlier": "late start", **kernels, "count": [2, 1], "launches": [4, 4]})
    names = content_of("launch_outliers", frame)["names"]
    assert names == ["late start · gemm (float)", "late start · gemm (int)"]


def test_frames_of_arrivals_follow_the_window_like_their_panel(two):
    dash = hw.Dashboard(two)
    assert len(dash.frames["arrivals"]) == 4
    dash.select(start_ns=100)
    assert dash.frames["arrivals"]["arrival_ns"].tolist() == [110, 150]


def test_added_panels_are_offered_if_the_job_has_data_and_are_not_shown_at_first(two, tmp_path):
    dash = hw.Dashboard(two)
    assert not set(ADDED) & set(dash.panels)
    offered = set(ADDED) & set(dash._about["panels"])
    without = {"memory", "roofline", "layers", "serving", "pipeline", "fusion_candidates"}
    assert offered == set(ADDED) - without
    reason = "no memory events: profile_memory=True records them"
    assert dash._about["left_out"][reason] == ["memory"]
    alone = hw.Dashboard(load(tmp_path, LINEAR))
    assert set(ADDED) & set(alone._about["panels"]) == {
        "call_tree", "call_tree_device", "critical_path", "launch_outliers", "kernel_details",
    }  # fmt: skip


@pytest.mark.parametrize(
    "panel",
    [
        item
        for item in ADDED
        if item not in {"memory", "layers", "serving", "pipeline", "fusion_candidates"}
    ],
)
def test_every_added_panel_has_a_chart(two, panel):
    assert hw.Dashboard(two).charts[panel] is not None


def test_operators_with_the_most_to_gain_come_first_with_their_shapes(tmp_path):
    """At 1555 GB/s, reading and writing 2 · 3.2 MB takes 4.1 of 100 µs; mm needs 0.016."""
    device = {"id": 0, "name": "A100-SXM4-40GB", "totalGlobalMem": 42 << 30, "numSms": 108}
    shapes = {"Input Dims": [[64, 64], [64, 64]], "Input type": ["c10::BFloat16"] * 2}
    rows = {"Input Dims": [[800, 1000]], "Input type": ["float"]}
    events = [
        op("aten::mm", 100, 200) | {"args": shapes}, call(110, 120, 1),
        op("aten::exp", 400, 500) | {"args": rows}, call(410, 420, 2),
        kernel(300, 20_300, launch=1), kernel(30_000, 130_000, launch=2),
    ]  # fmt: skip
    path = write(tmp_path, events)
    document = json.loads((path / "rank-0.json").read_text()) | {"deviceProperties": [device]}
    (path / "rank-0.json").write_text(json.dumps(document))
    frame = frame_of(read(path), "roofline")
    assert frame[["short", "shapes", "bound"]].to_numpy().tolist() == [
        ["exp", "800×1000", "memory"],
        ["mm", "64×64", "memory"],
    ]
    assert frame["roofline_ns"].tolist() == [4116, 16]
    assert frame["saving_ns"].tolist() == [94_120, 19_977]
    assert frame.attrs["device"] == "A100 40 GB"


def test_a_panel_of_the_whole_job_follows_the_clock(tmp_path, monkeypatch):
    def clock_frame(traces):
        return pd.DataFrame({"clock": [traces.clock]})

    monkeypatch.setitem(WHOLE_JOB_FRAMES, "memory", clock_frame)
    traces = load(tmp_path, LINEAR, LINEAR)
    for clock in ("host", "fitted", "host"):
        assert whole_job_frame(traces.with_clock(clock), "memory")["clock"].tolist() == [clock]
