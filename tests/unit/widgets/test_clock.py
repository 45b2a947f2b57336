"""The clock of views: recorded or fitted, shared by linked views, not part of the history."""

import numpy as np
import pandas as pd
import pytest
from support.collective_job import collective
from support.small import kernel, load

import hta_widgets as hw
from hta_widgets import TraceError, analysis

#: Lead of rank 1's clock in ns.
AHEAD = 300_000


def job_of(folder, ahead):
    """Load five collectives of two ranks that end together in true time."""
    ranks = []
    for rank in (0, 1):
        own = ahead * rank
        records = [kernel(own + 100_000, own + 900_000)]
        for turn in range(1, 6):
            begin = own + 2_000_000 * turn + 400_000 * rank
            records.append(collective(begin, own + 2_000_000 * turn + 1_000_000, seq=turn))
        ranks.append(records)
    return load(folder, *ranks)


@pytest.fixture
def job(tmp_path):
    return job_of(tmp_path, AHEAD)


def facts(view):
    reply, _ = view.answer({"op": "lateness", "start": 0, "end": 10**9})
    return reply["clock"]


def test_pages_are_told_how_far_recorded_clocks_are_apart(job, tmp_path):
    wanted = {"apart_ns": 300_000, "residual_ns": 0, "is_off": True}
    assert facts(hw.Timeline(job, clock="recorded")) == {"is_fitted": False, **wanted}
    assert facts(hw.Timeline(job)) == {"is_fitted": True, **wanted}
    agreeing = hw.Timeline(job_of(tmp_path, 0))
    assert agreeing.clock == "recorded"
    assert facts(agreeing) == {"is_fitted": False, **dict.fromkeys(wanted, 0)}


def test_pages_state_how_far_drift_parts_ranks_on_the_fitted_clock(tmp_path):
    ends = np.arange(1, 101) * 100_000_000  # over ten seconds
    ranks = [
        [collective(end - 50_000, end, seq=k) for k, end in enumerate((ends + late).tolist())]
        for late in (0, ends // 5_000)  # 200 ppm
    ]
    fitted = load(tmp_path, *ranks).with_clock("fitted")
    # The offset is right at 5.05 s, the middle; 200 ppm of the time from 0 to there remains.
    assert facts(hw.Timeline(fitted))["drift_ns"] == pytest.approx(1_010_000, rel=0.01)


def test_the_clock_is_the_better_one_unless_chosen(job, tmp_path):
    agreeing = job_of(tmp_path, 0)
    assert hw.Timeline(job).clock == "fitted"
    assert hw.Dashboard(job).scene["clock"] == "fitted"
    assert "clock" not in hw.Dashboard(agreeing).scene
    assert hw.Timeline(agreeing, clock="fitted").clock == "fitted"
    assert hw.Timeline(job, clock=None).clock == "recorded"
    assert hw.Dashboard(job, clock="recorded").timeline.clock == "recorded"
    assert hw.Dashboard(job.with_clock("fitted"), clock="recorded").traces.clock == "host"
    with pytest.raises(TraceError, match="clock= takes 'auto'"):
        hw.Timeline(job, clock="atomic")


def test_two_jobs_are_compared_on_the_clock_that_is_better_for_one(job, tmp_path):
    agreeing = job_of(tmp_path, 0)
    both = hw.TraceDiff(job, agreeing)
    assert [side.clock for side in both.sides] == ["fitted", "fitted"]
    chosen = hw.TraceDiff(job, agreeing, clock="recorded")
    assert [side.clock for side in chosen.sides] == ["recorded", "recorded"]
    remaining = hw.TraceDiff(job.with_clock("fitted"), agreeing, clock=None)
    assert [side.clock for side in remaining.sides] == ["fitted", "recorded"]


def test_two_ranks_of_a_job_are_compared_on_the_better_clock(job):
    both = hw.TraceDiff(job.select(ranks=[0]), job.select(ranks=[1], start_ns=2_300_000))
    assert [side.clock for side in both.sides] == ["fitted", "fitted"]
    # Rank 1's window starts 600 µs after the job's start on its own clock, 300 µs on rank 0's.
    assert both.sources[1].start_ns == 2_600_000
    assert both.right.view[0] == 2_600_000


def test_a_selection_of_a_view_keeps_its_clock_with_the_set_that_was_loaded(job):
    dash = hw.Dashboard(job)
    # Rank 1 would begin before 0, so all times are 300 µs later.
    dash.select(start_ns=2_300_000, end_ns=2_800_000)
    for traces in (job, dash.traces):
        frame = analysis.temporal_breakdown(traces, selection=dash.selection)
        assert frame["communication_ns"].tolist() == [500_000, 100_000]
        assert traces.select(dash.selection).owner.clock == "fitted"
        assert len(traces.select(dash.selection).events()) == len(dash.selected_events())


def test_a_window_of_the_loaded_set_stays_on_the_lowest_rank_in_a_view(job):
    dash = hw.Dashboard(job)
    for what in (job.select(start_ns=2_000_000), dash.traces.select(start_ns=2_300_000)):
        assert dash.select(what, end_ns=3_000_000).start_ns == 2_300_000
        dash.selection = what
        assert dash.selection.start_ns == 2_300_000
        assert dash.selection.owner is dash.traces


def test_frames_selection_and_scene_follow_the_clock_and_windows_stay_on_the_lowest_rank(job):
    dash = hw.Dashboard(job, clock="recorded")
    dash.select(start_ns=2_000_000, end_ns=2_500_000)
    past = len(dash.state._history["past"])
    # Rank 1 arrives 400 µs after rank 0: at 2.7 ms on the recorded clock, 2.4 ms on the fitted one.
    assert dash.frames["breakdown"]["communication_ns"].tolist() == [500_000, 0]
    dash.clock = "fitted"
    fitted = job.with_clock("fitted")
    # Rank 1 would begin before 0, so all times are 300 µs later.
    wanted = analysis.temporal_breakdown(fitted, window=(2_300_000, 2_800_000))
    pd.testing.assert_frame_equal(dash.frames["breakdown"], wanted)
    assert wanted["communication_ns"].tolist() == [500_000, 100_000]
    assert (dash.selection.start_ns, dash.selection.end_ns) == (2_300_000, 2_800_000)
    assert dash.selection.owner.clock == dash.traces.clock == "fitted"
    assert dash.scene["range"] == [int(fitted.start_ns), int(fitted.end_ns)]
    assert len(dash.state._history["past"]) == past
    dash.undo()
    assert dash.clock == "fitted"
    dash.redo()
    dash.clock = "recorded"
    assert dash.traces is job
    assert (dash.selection.start_ns, dash.selection.end_ns) == (2_000_000, 2_500_000)
    dash.undo()
    dash.redo()
    assert (dash.selection.start_ns, dash.selection.end_ns) == (2_000_000, 2_500_000)


def test_linked_views_share_the_clock(job):
    dash = hw.Dashboard(job, clock="recorded")
    timeline, other = dash.timeline, hw.Timeline(job, tracks="device 0", clock="recorded")
    dash.link(other)
    tracks = [len(rank["tracks"]) for rank in other.scene["ranks"]]
    timeline.clock = "fitted"
    assert {view.traces.clock for view in (dash, timeline, other)} == {"fitted"}
    assert [len(rank["tracks"]) for rank in other.scene["ranks"]] == tracks
    assert facts(dash)["is_fitted"]


def test_a_view_of_the_whole_job_still_shows_it(job):
    view = hw.Timeline(job, clock="recorded")
    view.clock = "fitted"
    assert view.view == view.whole == tuple(view.scene["range"])


def test_the_events_that_a_view_shows_are_exported_with_recorded_times(job, tmp_path):
    view = hw.Timeline(job, clock="fitted")
    # The first collective of both ranks on the fitted clock; the recorded one has none of rank 1.
    ends = view.traces.events().query("kind == 'communication'").eval("start_ns + dur_ns")
    end = int(ends.min())
    view.select(start_ns=end - 100, end_ns=end)
    report = hw.export_trace(job, tmp_path / "window.json.gz", view.selection)
    assert report.events == len(view.selected_events()) == 2
    back = hw.load(report.path, cache=False, progress=False).events()
    ends = (back["start_ns"] + back["dur_ns"]).tolist()
    assert abs(ends[1] - ends[0]) == AHEAD
