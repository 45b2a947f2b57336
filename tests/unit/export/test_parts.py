"""Loaded exports record which part of a job they contain."""

from pathlib import Path

import pandas as pd
import pytest
from support.small import call, event, kernel, load

import hta_widgets as hw
from hta_widgets import analysis
from hta_widgets.live.job import TileEngine

#: A step around all, and device work with gaps that the window's edges lie in, or cut.
EVENTS = [
    event("user_annotation", "ProfilerStep#1", 0, 100_000, pid=10, tid=1),
    call(1_000, 2_000, 1),
    kernel(5_000, 20_000, launch=1),
    call(30_000, 31_000, 2),
    kernel(40_000, 50_000, launch=2),
    call(55_000, 56_000, 3),
    kernel(60_000, 75_000, launch=3),
    call(80_000, 81_000, 4),
    kernel(90_000, 95_000, launch=4),
]


def reopened(traces, folder, *, clip=False, **selection):
    path = folder / "part.json"
    hw.export_trace(traces, path, hw.Selection(**selection), clip=clip)
    return hw.load(path, cache=False, progress=False)


@pytest.mark.parametrize("clip", [False, True])
@pytest.mark.parametrize(
    "window", [(25_000, 70_000), (0, 45_000), (92_000, 99_000), (51_000, 58_000)]
)
def test_figures_of_a_reopened_window_are_those_of_the_job_in_it(tmp_path, window, clip):
    traces = load(tmp_path, EVENTS, EVENTS)
    back = reopened(traces, tmp_path, start_ns=window[0], end_ns=window[1], clip=clip)
    length = window[1] - window[0]
    assert back.span_ns[1] - back.span_ns[0] == length
    pd.testing.assert_frame_equal(
        analysis.temporal_breakdown(back), analysis.temporal_breakdown(traces, window=window)
    )
    scene = TileEngine(back).scene()
    assert scene["range"][1] - scene["range"][0] == length
    start, end = scene["range"]
    stats, _ = TileEngine(back).answer({"op": "stats", "start": start, "end": end})
    parts = analysis.temporal_breakdown(back)
    assert (stats["span"], stats["idle"]) == (parts.span_ns.tolist(), parts.idle_ns.tolist())
    causes = analysis.device_idle_breakdown(back).groupby("rank")["idle_ns"].sum()
    assert causes.tolist() == parts.idle_ns.tolist()
    assert scene["truth"]["level"] == "warn"
    assert f"{length / 1e6:.3f} ms of a job" in scene["truth"]["text"]
    # The step around the window is cut on both ranks.
    assert back.problems.query("kind == 'part'").detail.str.contains("cross").all()


@pytest.mark.parametrize("clip", [False, True])
def test_steps_that_an_export_cut_are_not_compared(tmp_path, clip):
    steps = [
        event("user_annotation", f"ProfilerStep#{n}", at, at + 90_000, pid=10, tid=1)
        for n, at in enumerate((0, 100_000, 200_000))
    ]
    slow = [{**one, "dur": 95} for one in steps]
    ranks = ([*EVENTS[1:], *own] for own in (steps, steps, slow))
    traces = load(tmp_path, *ranks)
    back = reopened(traces, tmp_path, start_ns=50_000, end_ns=285_000, clip=clip)
    frame = analysis.step_times(back)
    compared = frame[frame["dur_deviation_ns"].notna()]
    assert compared["step"].unique().tolist() == [1]
    assert compared["dur_deviation_ns"].tolist() == [0, 0, 5_000]
    assert frame[frame["step"] == 0]["dur_ns"].tolist() == [40_000, 40_000, 45_000]
    assert "steps that the window cuts are not compared" in frame.attrs["note"]


def test_an_export_is_not_called_the_whole_job(tmp_path):
    back = reopened(load(tmp_path, EVENTS), tmp_path, start_ns=25_000, end_ns=70_000)
    picture = Path(hw.Timeline(back).to_svg(tmp_path / "part.svg")).read_text("utf-8")
    assert picture.count("whole export") == 3  # description, heading and minimap
    assert "whole job" not in picture


def test_a_window_inside_a_gap_is_idle_but_time_before_all_work_is_not(tmp_path):
    traces = load(tmp_path, EVENTS)
    gap = analysis.temporal_breakdown(reopened(traces, tmp_path, start_ns=51_000, end_ns=58_000))
    assert gap[["idle_ns", "span_ns"]].to_numpy().tolist() == [[7_000, 7_000]]
    early = analysis.temporal_breakdown(reopened(traces, tmp_path, start_ns=0, end_ns=10_000))
    assert early[["idle_ns", "span_ns"]].to_numpy().tolist() == [[0, 5_000]]


def test_a_part_knows_its_ranks_and_a_part_of_a_part_its_job(tmp_path):
    traces = load(tmp_path, EVENTS, EVENTS, EVENTS)
    two = reopened(traces, tmp_path, ranks=(0, 2))
    assert "2 of 3 ranks" in TileEngine(two).scene()["truth"]["text"]
    low = two.span_ns[0]
    one = reopened(two, tmp_path, start_ns=low + 25_000, end_ns=low + 70_000, ranks=(0,))
    assert "0.045 ms of a job" in one.problems.detail.tolist()[0]
    work = analysis.temporal_breakdown(one)
    pd.testing.assert_frame_equal(
        work, analysis.temporal_breakdown(traces, window=(25_000, 70_000), ranks=[0])
    )
    chosen = reopened(traces, tmp_path, query="name == 'gemm'")
    assert "chosen events" in chosen.problems.detail.tolist()[0]


def test_an_export_of_all_is_no_part(tmp_path):
    traces = load(tmp_path, EVENTS, EVENTS)
    for ranks in (None, (0, 1)):
        back = reopened(traces, tmp_path, ranks=ranks)
        assert back.window_ns is None
        assert TileEngine(back).scene()["truth"]["level"] == "ok"
