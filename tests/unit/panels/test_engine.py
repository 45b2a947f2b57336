"""Each panel equals its analysis for the same selection."""

import json
import math
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from support import random_job, small
from support.background import held_up

import hta_widgets as hw
from hta_widgets import analysis
from hta_widgets.live.job import PanelEngine
from hta_widgets.panels.frames import MAKERS, frame_to_json, panels as known_panels
from hta_widgets.panels.groupings import GROUPED_FRAMES
from hta_widgets.trace.traceset import Selection

pytestmark = pytest.mark.slow

COMPARED = {
    "breakdown": "temporal_breakdown",
    "overlap": "comm_comp_overlap",
    "idle": "device_idle_breakdown",
    "queue": "queue_length_summary",
    "kernel_types": "kernel_type_breakdown",
}
SELECTIONS = [
    Selection(),
    Selection(2_000, 9_000),
    Selection(1_000, 30_000, ranks=[0]),
    Selection(ranks=[1], query="name in ['void gemm_kernel<float, 128>(float*)']"),
    Selection(0, 20_000, query="(dur_ns > 300) and kind in ['compute', 'communication']"),
    Selection(5_000, 5_000),
]


@pytest.fixture(scope="module")
def job(tmp_path_factory):
    folder = random_job.write_job(tmp_path_factory.mktemp("job"), 7, ranks=3)
    return hw.load(folder, cache=False, progress=False)


@pytest.fixture(scope="module")
def engine(job):
    return PanelEngine(job)


@pytest.mark.parametrize("panel", list(COMPARED))
@pytest.mark.parametrize("selection", SELECTIONS, ids=repr)
def test_a_panel_shows_its_analysis(job, engine, panel, selection):
    name, query = COMPARED[panel], selection.query
    if panel in {"breakdown", "idle"}:
        query = None
    if panel == "kernel_types" and query is not None and "kind in" in query:
        query = "dur_ns > 300"
    ranks = selection.ranks if panel == "kernel_types" else None
    full = replace(selection, ranks=ranks, query=query)
    expected = getattr(analysis, name)(job, selection=full)
    result = engine.frame(panel, selection)
    for column in result:
        if column in expected:
            assert result[column].tolist() == pytest.approx(
                expected[column].tolist(), nan_ok=True
            ) or (result[column].tolist() == expected[column].tolist())
    assert result.attrs["matched"] == expected.attrs["matched"]
    if panel == "breakdown":  # bars show all events; the analysis only selected ones
        expected = getattr(analysis, name)(job, selection=replace(selection, ranks=None))
    assert engine.analysis(panel, selection).equals(expected)
    assert engine.analysis(name, selection).equals(expected)


@pytest.mark.parametrize(
    ("selection", "selected_ns"),
    [
        # The copy runs from 100 to 900, communication starts at 300, and compute ends at 200.
        (Selection(query="kind in ['memory']"), [0, 0, 0, 300]),
        (Selection(query="name in ['gemm']"), [200, 0, 0, 0]),
        (Selection(query="kind in ['communication', 'compute']"), [300, 400, 0, 0]),
        (Selection(ids=[(0, 2)]), [0, 0, 0, 300]),
        (Selection(end_ns=600, query="stream == 20"), [0, 300, 0, 0]),
        (Selection(), [None] * 4),
    ],
)
def test_bars_stay_whole_and_show_which_part_is_selected(tmp_path, selection, selected_ns):
    work = [
        small.kernel(0, 200, name="gemm"),
        small.kernel(100, 900, name="Memcpy HtoD", stream=9, cat="gpu_memcpy"),
        small.kernel(300, 700, name="ncclDevKernel_AllReduce", stream=20),
        small.kernel(1_400, 1_500, name="add"),
    ]
    engine = PanelEngine(small.load(tmp_path, work))
    row = engine.frame("breakdown", selection).loc[0]
    selected = [
        row[f"selected_{part}_ns"] for part in ("compute", "communication", "wait", "memory")
    ]
    assert [None if value is pd.NA else value for value in selected] == selected_ns
    if selection.end_ns is None:
        assert row[["span_ns", "idle_ns", "compute_ns"]].tolist() == [1_500, 500, 300]
        assert engine.frame("idle", selection)["idle_ns"].sum() == 500


@pytest.mark.parametrize("selection", SELECTIONS, ids=repr)
def test_waits_are_part_of_exposed_communication(job, engine, selection):
    result = engine.frame("breakdown", selection)
    known_rows = result[result["exposed_wait_ns"].notna()]
    assert (known_rows["exposed_wait_ns"] >= 0).all()
    assert (known_rows["exposed_wait_ns"] <= known_rows["exposed_communication_ns"]).all()


@pytest.mark.parametrize("selection", SELECTIONS, ids=repr)
def test_kernels_add_up_over_ranks(job, engine, selection):
    query = None if "name in" in (selection.query or "") else selection.query
    by_rank = analysis.kernel_breakdown(job, selection=replace(selection, query=query))
    result = engine.frame("kernels", selection, top=3)
    groups = {
        key: rows for key, rows in by_rank.groupby(["kind", "name"], observed=True) if len(rows)
    }
    assert result.attrs["total"] == len(groups)
    assert result.attrs["rest_ns"] == by_rank["sum_ns"].sum() - result["sum_ns"].sum()
    assert result["sum_ns"].is_monotonic_decreasing
    for row in result.to_dict("records"):
        rows = groups[row["kind"], row["name"]]
        assert row["count"] == rows["count"].sum()
        assert row["sum_ns"] == rows["sum_ns"].sum()
        assert row["mean_ns"] == pytest.approx(rows["sum_ns"].sum() / rows["count"].sum())
        assert (row["min_ns"], row["max_ns"]) == (rows["min_ns"].min(), rows["max_ns"].max())
        assert row["ranks"] == len(rows)


def test_a_brush_of_kernels_leaves_steps_and_operators_as_they_are(tmp_path):
    rank = [
        small.event("user_annotation", "ProfilerStep#3", 0, 9_000, pid=1),
        small.event("cpu_op", "aten::mm", 100, 900, pid=1),
        small.call(200, 300, 1),
        small.kernel(400, 1_400, launch=1),
    ]
    engine = PanelEngine(small.load(tmp_path, rank))
    for query in ("name in ['gemm']", "kind in ['compute']"):
        assert engine.frame("steps", Selection(query=query))["step"].tolist() == [3]
        assert "aten::mm" in engine.frame("operators", Selection(query=query))["name"].tolist()
    assert not len(engine.frame("steps", Selection(query="dur_ns < 1")))


def test_operators_state_how_much_of_their_device_time_communicates(tmp_path):
    rank = [
        # A DDP hook: the all-reduce is launched below the operator that accumulates a gradient.
        small.event("cpu_op", "AccumulateGrad", 100, 900, pid=10),
        small.call(110, 120, 1),
        small.event("cpu_op", "c10d::allreduce_", 200, 800, pid=10),
        small.call(300, 310, 2),
        small.kernel(1_000, 1_050, launch=1),
        small.nccl(1_050, 2_050, launch=2),
        # A copy inside a c10d operator is not communication.
        small.event("cpu_op", "c10d::broadcast_", 910, 990, pid=10),
        small.call(920, 930, 3),
        small.copy(2_100, 2_200, launch=3),
    ]
    engine = PanelEngine(small.load(tmp_path, rank))

    def times(selection=None):
        frame = engine.frame("operators", selection).set_index("name")
        columns = frame[["device_total_ns", "communication_ns", "memory_ns"]]
        return {name: tuple(row) for name, *row in columns.itertuples() if any(row)}

    assert times() == {
        "AccumulateGrad": (1_050, 1_000, 0),
        "c10d::allreduce_": (1_000, 1_000, 0),
        "c10d::broadcast_": (100, 0, 100),
    }
    assert times(Selection(start_ns=0, end_ns=1_250)) == {
        "AccumulateGrad": (250, 200, 0),
        "c10d::allreduce_": (200, 200, 0),
    }


def test_a_step_that_the_host_leaves_early_is_as_long_as_on_the_device(tmp_path):
    rank = [
        small.event("user_annotation", "ProfilerStep#1", 100, 190, pid=1),
        small.event("user_annotation", "ProfilerStep#2", 200, 290, pid=1),
        *(small.call(100 * n + 10, 100 * n + 20, n) for n in (1, 2)),
        small.kernel(300, 700, launch=1), small.kernel(720, 1_200, launch=2),
    ]  # fmt: skip
    frame = PanelEngine(small.load(tmp_path, rank, rank)).frame("steps")
    assert frame["phase"].tolist() == ["step on device"] * 4
    assert frame["start_ns"].tolist() == [300, 720] * 2
    assert frame["dur_ns"].tolist() == [400, 480] * 2
    assert frame["deviation_share"].tolist() == [0] * 4


def test_the_odd_rank_is_the_one_farthest_from_the_median(tmp_path):
    durs = [100, 110, 90, 260, 105]
    engine = PanelEngine(small.load(tmp_path, *[[small.kernel(1000, 1000 + dur)] for dur in durs]))
    row = engine.frame("kernels").iloc[0]
    assert (row["odd_rank"], row["odd_ratio"]) == (3, pytest.approx(260 / 105))
    two = engine.frame("kernels", Selection(ranks=[0, 3])).iloc[0]
    assert two["ranks"] == 2
    assert math.isnan(two["odd_ratio"])
    durations = engine.frame("kernel_durations")
    assert durations[["rank", "mean_ns"]].values.tolist() == [*map(list, enumerate(durs))]


def test_who_waits_for_whom(tmp_path):
    first = [small.nccl(1000, 3000), small.kernel(1200, 1500)]
    engine = PanelEngine(small.load(tmp_path, first, [small.nccl(2000, 3000)]))
    assert engine.frame("breakdown")["exposed_wait_ns"].tolist() == [700, 0]
    part = engine.frame("breakdown", Selection(1400, 1800))
    assert part[["exposed_wait_ns", "unmatched_exposed_ns"]].values.tolist() == [[300, 0]]
    kernels = engine.frame("kernels")
    assert kernels.set_index("kind")["wait_ns"].to_dict()["communication"] == 1000


def test_nothing_is_known_of_waits_without_partners(tmp_path):
    traces = small.load(tmp_path, [small.nccl(1000, 3000)])
    engine = PanelEngine(traces)
    unknown = engine.frame("breakdown")[["exposed_wait_ns", "unmatched_exposed_ns"]]
    assert unknown.isna().to_numpy().all()
    assert engine.frame("kernels")["wait_ns"].isna().all()


@pytest.mark.parametrize("metric", ["busy", "compute", "communication", "exposed_communication"])
def test_heatmaps_add_up_to_the_window(job, engine, metric):
    selection = {"start_ns": 1, "ranks": [0], "query": "dur_ns > 100"}
    reply, buffer = engine.answer(
        {"op": "heatmap", "metric": metric, "start": 777, "end": 8_780, "bins": 37,
         "selection": selection}
    )  # fmt: skip
    values = np.frombuffer(buffer, "<f8").reshape(len(reply["ranks"]), reply["bins"])
    frame = analysis.temporal_breakdown(job, selection="dur_ns > 100", window=(777, 8_780))
    expected = dict(zip(frame["rank"], frame[f"{metric}_ns"], strict=True))
    assert reply["ranks"] == list(job.ranks)
    for rank, row in zip(reply["ranks"], values, strict=True):
        assert row.sum() == expected.get(rank, 0)


def test_replies_are_plain_json(engine):
    panels = [panel for panel in known_panels() if panel != "heatmap"]
    for selection in (None, {"start_ns": 5, "end_ns": 5}, {"ranks": [1], "query": "depth == 0"}):
        reply, buffer = engine.answer({"op": "panels", "panels": panels, "selection": selection})
        assert buffer is None
        again = json.loads(json.dumps(reply, allow_nan=False))
        assert again == reply
        for panel in panels:
            columns = reply["panels"][panel]["columns"]
            assert {len(values) for values in columns.values()} == {reply["panels"][panel]["rows"]}


@pytest.mark.parametrize("selection", [None, {"start_ns": 2_000, "query": "dur_ns > 300"}])
def test_a_page_that_asks_again_gets_the_same(job, selection):
    job.memo.clear()
    patient, hasty = PanelEngine(job), PanelEngine(job)
    panels = [panel for panel in known_panels() if panel != "heatmap" and "_" not in panel]
    request = {"op": "panels", "selection": selection, "within_ms": 0}
    result, left = {}, panels
    with held_up():
        assert hasty.answer({**request, "panels": left})[0] == {"panels": {}, "left": left}
    while left:
        reply, _ = hasty.answer({**request, "panels": left})
        assert [*reply["panels"], *reply.get("left", [])] == left
        result |= reply["panels"]
        left = reply.get("left", [])
    full, _ = patient.answer({**request, "panels": panels, "within_ms": None})
    assert result == full["panels"]
    binned = {"op": "heatmap", "metric": "waiting", "start": 0, "end": 9_000, "bins": 9}
    with held_up():
        assert hasty.answer({**binned, "within_ms": 0}) == ({"pending": True}, None)
    while (answer := hasty.answer({**binned, "within_ms": 0}))[1] is None:
        pass
    assert answer == patient.answer(binned)


def test_the_headline_in_the_background(job):
    engine = PanelEngine(job)
    with held_up():
        assert engine.headline_until(0) is None
    while (result := engine.headline_until(0)) is None:
        pass
    assert result == PanelEngine(job).headline()


def test_a_closed_page_is_worked_for_no_longer(job):
    engine = PanelEngine(job)
    request = {"op": "panels", "panels": ["kernels"], "selection": None, "within_ms": 0}
    with held_up():
        assert engine.answer(request)[0]["left"] == ["kernels"]
        engine.stop()
    full = {**request, "within_ms": None}
    assert engine.answer(full) == PanelEngine(job).answer(full)


def test_a_failure_in_the_background_is_told(job):
    engine = PanelEngine(job)
    request = {"op": "panels", "panels": ["kernels"], "selection": {"query": "no_such > 3"}}

    while "left" in (reply := engine.answer({**request, "within_ms": 0})[0]):
        pass
    assert "no_such" in reply["errors"]["kernels"]["message"]


@pytest.mark.parametrize("panel", list(known_panels()))
@pytest.mark.parametrize(
    "events",
    [
        [],
        [small.event("cpu_op", "aten::add", 10, 20)],
        [small.kernel(10, 20, launch=3), small.call(1, 2, 3)],
    ],
    ids=["nothing", "cpu only", "one kernel"],
)
def test_there_is_a_frame_for_every_job(tmp_path, panel, events):
    engine = PanelEngine(small.load(tmp_path, events))
    for selection in (None, Selection(3, 15), Selection(ranks=[])):
        frame = engine.frame(panel, selection)
        assert len(frame) or frame.attrs.get("note")
        json.dumps(frame_to_json(frame), allow_nan=False)


@pytest.mark.parametrize("panel", GROUPED_FRAMES)
def test_a_set_without_ranks_has_no_groups(panel):
    frame = PanelEngine(hw.TraceSet([])).frame(panel, Selection())
    assert frame.empty
    assert frame.attrs["note"].startswith("no device work")


@pytest.mark.parametrize("within_ms", [None, 60_000])
def test_a_panel_without_an_answer_leaves_the_others_their_frames(job, monkeypatch, within_ms):
    def fail(*_arguments):
        raise ZeroDivisionError("division by zero")

    monkeypatch.setitem(MAKERS, "idle", fail)
    asked = ["pie", "breakdown", "idle", "queue"]
    request = {"op": "panels", "panels": asked, "selection": None, "within_ms": within_ms}
    reply, _ = PanelEngine(job).answer(request)
    assert list(reply["panels"]) == ["breakdown", "queue"]
    assert reply["errors"]["pie"]["code"] == "no_answer"
    assert reply["errors"]["pie"]["message"].startswith("no panel 'pie'")
    assert reply["errors"]["idle"]["code"] == "internal_error"
    assert "ZeroDivisionError: division by zero" in reply["errors"]["idle"]["message"]


def test_requests_that_cannot_be_answered(engine):
    with pytest.raises(ValueError, match="unknown op"):
        engine.answer({"op": "dance"})
    with pytest.raises(ValueError, match="unknown metric"):
        engine.answer({"op": "heatmap", "metric": "joy", "start": 0, "end": 9, "bins": 2})
