"""The dashboard as a Python object; drawing is tested in a browser."""

from unittest.mock import Mock

import pandas as pd
import pytest
import traitlets
from bokeh.model import Model
from support import small
from support.background import held_up

import hta_widgets as hw
from hta_widgets import analysis
from hta_widgets.panels.headline import text_of


@pytest.fixture
def dash(traces):
    return hw.Dashboard(traces)


def window(traces):
    length = traces.end_ns - traces.start_ns
    return traces.start_ns + length // 4, traces.start_ns + length // 2


def ask(dash, **request):
    """Return the reply to a request, and its buffer."""
    sent = []
    dash.send = lambda content, buffers=None: sent.append((content, buffers))
    dash._handle_custom_msg({"rpc": "1", **request}, [])
    ((content, buffers),) = sent
    return content, buffers


# --- frames that follow ---------------------------------------------------------------------------
def test_frames_are_those_of_the_analyses_with_the_window(dash, traces):
    start, end = window(traces)
    dash.select(traces.select(start_ns=start, end_ns=end))
    start, end = dash.selection.start_ns, dash.selection.end_ns
    expected = analysis.kernel_breakdown(dash.traces, window=(start, end))
    pd.testing.assert_frame_equal(dash.frames["kernel_breakdown"], expected)
    pd.testing.assert_frame_equal(dash.frames["kernels"], expected)
    expected = analysis.temporal_breakdown(dash.traces, window=(start, end))
    pd.testing.assert_frame_equal(dash.frames["temporal_breakdown"], expected)


def test_a_panel_is_not_filtered_by_what_it_selects_itself(dash, traces):
    dash.select(traces.select(ranks=[1]))
    assert dash.frames["breakdown"]["rank"].tolist() == [0, 1]
    expected = analysis.kernel_breakdown(traces, ranks=[1])
    pd.testing.assert_frame_equal(dash.frames["kernels"], expected)
    names = dash.frames["kernels"]["name"].unique().tolist()[:1]
    dash.select(f"name in {names!r}")
    assert set(dash.frames["kernels"]["name"]) > set(names)
    assert dash.panel_frame("summary")["events"].item() == len(dash.selected_events())


def test_frames_are_kept_until_the_selection_changes(dash, traces):
    first = dash.frames["overlap"]
    assert dash.frames["comm_comp_overlap"] is first
    dash.select(traces.select(ranks=[1]))
    assert dash.frames["overlap"] is not first


def test_with_scope_view_frames_are_of_the_window_in_view(dash, traces):
    start, end = window(traces)
    dash.zoom_to(start, end)
    full = analysis.kernel_breakdown(traces)
    pd.testing.assert_frame_equal(dash.frames["kernels"], full)
    dash.scope = "view"
    pd.testing.assert_frame_equal(
        dash.frames["kernels"], analysis.kernel_breakdown(dash.traces, window=(start, end))
    )
    dash.undo()
    assert dash.scope == "selection"
    pd.testing.assert_frame_equal(dash.frames["kernels"], full)
    dash.select(traces.select(ranks=[1], start_ns=start, end_ns=end))
    assert dash.frames["kernels"]["sum_ns"].sum() < full["sum_ns"].sum()
    dash.scope = "job"
    pd.testing.assert_frame_equal(dash.frames["kernels"], full)


def test_an_unknown_frame_says_which_there_are(dash):
    with pytest.raises(KeyError, match="breakdown"):
        dash.frames["brekdown"]
    assert "brekdown" not in dash.frames
    assert "kernel_breakdown" in dash.frames
    with pytest.raises(KeyError, match="no chart"):
        dash.charts["kernels"]
    only_its_own = r"^no panel 'nope'\. The panels of(?!.*mpi).*breakdown"
    with pytest.raises(hw.TraceError, match=only_its_own):
        dash.frames["nope"]
    with pytest.raises(hw.TraceError, match="no panel 'nope'"):
        dash.export_table("nope", "nope.csv")


def test_a_selection_is_assigned_as_it_is_selected(dash):
    dash.selection = "kind == 'compute'"
    assert dash.selection.query == "kind == 'compute'"
    assert set(dash.selection.events()["kind"]) == {"compute"}
    dash.selection = None
    assert dash.selection.is_everything


def test_the_heatmap_has_the_metrics_that_it_has(dash):
    before = dash.metric
    with pytest.raises(hw.TraceError, match=r"no metric 'nope'\. The metrics are waiting, busy"):
        dash.metric = "nope"
    dash.metric = "waiting"
    dash.metric = before


def test_charts_are_figures_of_the_selection(dash):
    assert set(dash.charts) >= {"breakdown", "overlap", "steps", "heatmap", "queue", "idle"}
    for panel in dash.charts:
        assert isinstance(dash.charts[panel], Model), panel
    assert dash.charts["breakdown"] is dash.charts["temporal_breakdown"]


# --- one state ------------------------------------------------------------------------------------
def test_its_timeline_is_a_view_of_the_same_state(dash, traces):
    start, end = window(traces)
    dash.timeline.zoom_to(start, end)
    assert dash.view == (start, end)
    dash.select(traces.select(ranks=[1]))
    assert dash.timeline.selection.ranks == (1,)
    assert dash.timeline is dash.timeline
    assert dash.timeline.engine is dash.engine
    dash.undo()
    assert dash.selection.is_everything
    assert dash.timeline.selection.is_everything


def test_observers_hear_of_selections_made_in_the_page(dash):
    heard = []
    dash.observe(lambda change: heard.append(change.new), names="selection")
    dash.state.set_state({"selection": {"ranks": [1]}, "ranks_from": "breakdown"})
    assert [selection.ranks for selection in heard] == [(1,)]
    assert dash.state.ranks_from == "breakdown"
    dash.select("dur_ns > 5")
    assert dash.state.ranks_from == ""


def test_linked_views_share_what_is_selected(dash, traces):
    other = hw.Timeline(traces)
    dash.link(other)
    other.select(traces.select(ranks=[0]))
    assert dash.selection.ranks == (0,)


# --- panels ---------------------------------------------------------------------------------------
def test_panels_that_would_stay_empty_are_left_out(tmp_path):
    host = [small.event("user_annotation", "gloo:all_reduce", 0, 9_000, pid=10)]
    view = hw.Dashboard(small.load(tmp_path, host))
    assert view.panels == ["timeline", "operators", "selection", "problems"]
    no_device = view._about["left_out"]["no GPU work"]
    assert {"breakdown", "overlap", "heatmap", "idle", "kernels"} < set(no_device)
    assert view._about["left_out"]["no ProfilerStep"] == ["steps"]
    assert view.frames["idle"].empty
    chosen = hw.Dashboard(small.load(tmp_path, host), panels=["idle", "timeline"])
    assert chosen.panels == ["idle", "timeline"]
    alone = hw.Dashboard(small.load(tmp_path, [small.kernel(0, 9_000)]))
    assert alone._about["left_out"]["no communication kernels"] == ["overlap"]
    assert {"idle", "operators"} < set(alone.panels)
    folder = tmp_path / "device"
    folder.mkdir()
    on_device = hw.Dashboard(small.read(small.write(folder, [small.kernel(0, 9_000)])))
    assert on_device._about["left_out"]["no CPU events"] == ["operators"]
    assert "operators" not in on_device.panels
    on_hosts = hw.Dashboard(small.load(tmp_path, host, host))
    assert not any("arrivals" in panels for panels in on_hosts._about["left_out"].values())


def test_panels_are_names_or_rows_of_names(traces):
    named = hw.Dashboard(traces, panels=["timeline", "device_idle_breakdown"])
    assert named.panels == ["timeline", "idle"], "by the panel's id or by its analysis"
    rows = [["breakdown", "idle"], ["timeline"]]
    assert hw.Dashboard(traces, panels=rows).panels == rows


@pytest.mark.parametrize(
    ("panels", "said"),
    [
        (["brekdown"], "Did you mean 'breakdown'"),
        (["temporal_breakdown", "breakdown"], "twice"),
        (["idle", "idle"], "twice"),
        (["idle", ["queue"]], "mixes"),
        (["x"], r"The panels of this job are timeline,(?!.*(?:byteps|mpi)).*breakdown"),
    ],
)
def test_panels_that_are_none_are_refused_in_words(traces, panels, said):
    with pytest.raises(hw.TraceError, match=said):
        hw.Dashboard(traces, panels=panels)


def test_panels_assigned_later_are_checked_too(dash):
    dash.panels = ["timeline"]
    with pytest.raises((hw.TraceError, traitlets.TraitError), match="no panel"):
        dash.panels = ["time line"]


# --- what the page asks ---------------------------------------------------------------------------
def test_headline_and_findings_are_those_of_the_page(dash):
    shown = dash.panel_engine.headline()
    assert dash.headline.startswith(text_of(shown["headline"]))
    assert [finding.text for finding in dash.findings] == [
        each_finding["text"] for each_finding in shown["findings"]
    ]
    assert all(isinstance(finding.selection, hw.Selection) for finding in dash.findings)


def test_the_page_gets_panels_and_the_headline(dash):
    reply, _ = ask(dash, op="panels", panels=["breakdown"], selection=None)
    assert reply["ok"]
    assert reply["reply"]["panels"]["breakdown"]["columns"]["rank"] == [0, 1]
    ask(dash, op="headline")
    assert dash._headline["headline"]
    reply, _ = ask(dash, op="minimap", bins=4)
    assert reply["ok"]


def test_the_page_asks_again_for_what_takes_long(dash):
    pending = {"rpc": "1", "ok": True, "reply": {"pending": True}}
    for op in ({"op": "headline"}, {"op": "table", "panel": "kernels", "format": "csv"}):
        request = {**op, "within_ms": 0}
        with held_up():
            reply, buffers = ask(dash, **request)
        assert reply == pending
        while reply == pending:
            reply, buffers = ask(dash, **request)
        assert reply["reply"] == {}
    assert bytes(buffers[0]) == ask(hw.Dashboard(dash.traces), **op)[1][0]
    assert dash._headline == hw.Dashboard(dash.traces).panel_engine.headline()


def test_a_closed_dashboard_works_no_longer(dash):
    with held_up():
        for request in ({"op": "clusters"}, {"op": "headline"}):
            reply, _ = ask(dash, **request, within_ms=0)
            assert reply["reply"] == {"pending": True}
        dash.close()
    assert not dash.panel_engine._headline._future.done()


def test_what_cannot_be_answered_is_an_error_for_the_page(dash):
    reply, _ = ask(dash, op="panels", panels=["nothing"], selection=None)
    assert reply["reply"]["panels"] == {}
    assert "'nothing'" in reply["reply"]["errors"]["nothing"]["message"]


def test_an_interrupted_answer_is_an_error_for_the_page(dash, monkeypatch):
    monkeypatch.setattr(dash.panel_engine, "_on_panels", Mock(side_effect=KeyboardInterrupt))
    reply, _ = ask(dash, op="panels", panels=["breakdown"], selection=None)
    assert (reply["rpc"], reply["ok"], reply["error"]["code"]) == ("1", False, "interrupted")


@pytest.mark.parametrize("suffix", [".csv", ".csv.gz", ".parquet"])
def test_tables_are_written_by_suffix(dash, tmp_path, suffix):
    path = dash.export_table("kernels", tmp_path / f"kernels{suffix}")
    read = pd.read_parquet if suffix == ".parquet" else pd.read_csv
    frame = read(path)
    assert frame["sum_ns"].tolist() == dash.frames["kernels"]["sum_ns"].tolist()
    with pytest.raises(hw.TraceError, match=r"xlsx.*parquet"):
        dash.export_table("kernels", tmp_path / "kernels.xlsx")


def test_the_selection_is_exported_as_a_trace(dash, traces, tmp_path):
    dash.select(traces.select(ranks=[1]))
    report = dash.export(tmp_path / "part.json")
    assert report.events > 0
    assert list(hw.load(tmp_path / "part.json", cache=False, progress=False)) == [1]


def test_a_dashboard_of_a_selection_shows_its_ranks(traces):
    assert hw.Dashboard(traces.select(ranks=[1])).traces.ranks == [1]
