"""The timeline as a Python object; drawing is tested in a browser."""

import io
import re
from pathlib import Path

import pandas as pd
import pytest
import traitlets
from support.random_job import write_job

import hta_widgets as hw
from hta_widgets.widgets.timeline import MAX_UNFOLDED


def test_no_view_is_the_whole_job(traces):
    timeline = hw.Timeline(traces, clock="recorded")
    full = timeline.view
    timeline.zoom_to(full[0] + 10, full[1] - 10)
    assert timeline.view == (full[0] + 10, full[1] - 10)
    timeline.view = None
    assert timeline.view == full == (traces.start_ns, traces.end_ns)
    assert timeline.undo()
    assert timeline.view == (full[0] + 10, full[1] - 10)
    assert timeline.redo()
    assert timeline.view == full
    with pytest.raises(traitlets.TraitError, match="end after it starts"):
        timeline.view = (5, 5)


def test_windows_may_be_text(traces, tmp_path):
    timeline = hw.Timeline(traces)
    timeline.zoom_to("1us", "0.002 ms")
    assert timeline.view == (1_000, 2_000)
    timeline.view = ("1.5us", 2_000)
    assert timeline.view == (1_500, 2_000)
    first, other = (
        Path(timeline.to_svg(tmp_path / "window.svg", view=view)).read_text("utf-8")
        for view in [("1us", "2us"), (1_000, 2_000)]
    )
    assert first == other
    with pytest.raises(hw.TraceError, match=r"end after it starts, not 2us to 1us.*12\.3ms"):
        timeline.zoom_to("2us", "1us")
    with pytest.raises(hw.TraceError, match="'a' is not a time"):
        timeline.zoom_to("a", 5)


def test_a_clicked_event_is_selected_unless_more_is(traces):
    timeline = hw.Timeline(traces)
    timeline.state.selected_event = (1, 3)
    result = timeline.selected_events()
    assert result[["rank"]].reset_index().values.tolist() == [[3, 1]]
    assert timeline.selection == traces.select(ids={(1, 3)})
    assert timeline.state.selection is None
    timeline.clock = "fitted"
    assert timeline.selection.traces is timeline.traces
    timeline.select("dur_ns > 0")
    assert len(timeline.selected_events()) == len(traces.select("dur_ns > 0").events()) > 1
    timeline.select()
    assert timeline.selection.is_everything
    assert timeline.selected_event is None


def test_views_load_what_load_takes(tmp_path):
    folder = write_job(tmp_path, 3)
    assert hw.Timeline(folder).traces.ranks == hw.Dashboard(str(folder)).traces.ranks
    files = sorted(folder.iterdir())
    both = hw.TraceDiff([files[0]], str(files[1]))
    assert [len(view.traces) for view in both.sides] == [1, 1]
    with pytest.raises(hw.TraceError, match="no-job: does not exist"):
        hw.Dashboard("no-job")


@pytest.mark.parametrize("viewer", [hw.Timeline, hw.Dashboard, lambda one: hw.TraceDiff(one, one)])
def test_a_view_of_what_cannot_be_loaded_says_what_it_takes(viewer):
    with pytest.raises(hw.TraceError, match=r"what hw\.load takes, such as a path; not a int"):
        viewer(5)
    with pytest.raises(hw.TraceError, match="is not bound to traces"):
        viewer(hw.Selection())


def ranks_in(path):
    return re.findall(r"font-weight=\"600\">(rank \d)<", path.read_text("utf-8"))


def test_a_picture_is_of_the_view_and_of_the_ranks_shown(traces, tmp_path):
    timeline = hw.Timeline(traces)
    path = tmp_path / "view.svg"
    assert timeline.to_svg(path) == str(path)
    assert ranks_in(path) == ["rank 0", "rank 1"]
    assert "whole job" in path.read_text("utf-8").partition("</title>")[0]
    timeline.pinned = ["1"]
    timeline.zoom_to(100, 900)
    timeline.to_svg(path, theme="dark", width=700)
    assert ranks_in(path) == ["rank 1", "rank 0"]
    assert "800\u202fns" in path.read_text("utf-8").partition("</title>")[0]
    with pytest.raises(hw.TraceError, match=r"nowhere.*cannot be written"):
        timeline.to_svg(tmp_path / "nowhere" / "view.svg")


def test_a_timeline_alone_never_hides_ranks_and_in_a_dashboard_shows_those_chosen(traces, tmp_path):
    dash = hw.Dashboard(traces)
    path = tmp_path / "view.svg"
    dash.select(traces.select(ranks=[1]))
    dash.timeline.to_svg(path)
    chosen_in_python = ranks_in(path)
    dash.state.ranks_from = "breakdown"
    dash.timeline.to_svg(path)
    assert ranks_in(path) == ["rank 1"]
    dash.state.ranks_from = "timeline"
    dash.timeline.to_svg(path)
    assert ranks_in(path) == ["rank 0", "rank 1"]
    assert chosen_in_python == ranks_in(path)


def test_the_page_gets_what_a_panel_shows_as_files(traces):
    dash = hw.Dashboard(traces)
    dash.select(traces.select(ranks=[1]))
    expected = dash.panel_frame("kernels")
    assert expected["ranks"].tolist() == [1] * len(expected)
    _, data = dash.answer({"op": "table", "panel": "kernels", "format": "parquet"})
    result = pd.read_parquet(io.BytesIO(data))
    assert result["sum_ns"].tolist() == expected["sum_ns"].tolist()
    assert list(result) == list(expected)
    assert result["name"].astype(str).tolist() == expected["name"].astype(str).tolist()
    _, text = dash.answer({"op": "table", "panel": "kernels", "format": "csv"})
    assert pd.read_csv(io.BytesIO(text))["count"].tolist() == expected["count"].tolist()
    with pytest.raises(ValueError, match="Invalid enum value 'xls'"):
        dash.answer({"op": "table", "panel": "kernels", "format": "xls"})


# --- folding similar ranks ------------------------------------------------------------------------


@pytest.mark.parametrize("more", [0, 1])
def test_only_many_ranks_are_folded_unless_chosen(traces, monkeypatch, more):
    monkeypatch.setattr(type(traces), "__len__", lambda _: MAX_UNFOLDED + more)
    assert hw.Timeline(traces).folded is bool(more)
    assert hw.Timeline(traces, folded=not more).folded is (not more)


def test_the_page_hears_of_it_and_linked_timelines_keep_their_own(traces):
    timeline = hw.Timeline(traces)
    assert "folded" in timeline.keys
    other = hw.Timeline(traces)
    timeline.link(other)
    timeline.folded = True
    assert other.folded is False
    timeline.undo()
    assert timeline.folded is True


@pytest.mark.parametrize("tracks", ["[", "(?P<a", "*", 5, [[]]])
def test_tracks_that_cannot_be_chosen_are_refused(tracks, traces):
    with pytest.raises(hw.TraceError, match="tracks="):
        hw.Timeline(traces, tracks=tracks)


@pytest.mark.parametrize("path", [None, 5, "\ud800", "a\0b"])
def test_targets_that_are_no_paths_are_refused(path, traces):
    for write in (hw.Timeline(traces).save_html, hw.Timeline(traces).export):
        with pytest.raises(hw.TraceError, match=r"path"):
            write(path)
