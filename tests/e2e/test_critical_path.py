"""The critical path on the timeline in JupyterLab and in Perfetto."""

import pytest
from playwright.sync_api import expect
from support import recorded

import hta_widgets as hw
from hta_widgets.analysis.critical.graph import critical_path_of
from hta_widgets.export.traces.overlays import export_critical_path

JOB = recorded.DATA / "gpu"


def test_the_path_is_marked_and_its_arrows_lead_on(notebook, kernel, page, screenshot):
    notebook(
        "import hta_widgets as hw",
        f"ts = hw.load({str(JOB)!r}); rank = ts.ranks[0]",
        "path = hw.analysis.critical_path(ts, rank)",
        "tl = hw.Timeline(hw.analysis.with_critical_path(ts, rank), height=560); tl",
    )
    root = page.locator(".hta-root")
    expect(root.locator(".hta-words")).to_contain_text("Whole job")
    root.focus()
    page.keyboard.press("o")
    kernel("tl.select(hw.analysis.path_selection(path, ts))")
    kernel("k = path[path.bound_by == 'gpu_kernel_launch_overhead'].iloc[0]")
    kernel("s = int(k.start_ns); tl.zoom_to(s - 600_000, s + 1_200_000)")
    kernel("tl.selected_event = (int(k['rank']), int(k['id']))")
    expect(root).to_contain_text("critical_path")
    screenshot(page, "critical_path_lab")


@pytest.mark.parametrize("only_path", [True, False])
def test_an_overlay_opens_in_perfetto_as_its_file_does(perfetto, tmp_path, only_path):
    traces = hw.load(JOB, progress=False)
    rank = traces.ranks[0]
    report = export_critical_path(traces, tmp_path / "path.json.gz", rank, only_path=only_path)
    # The whole file contains overlapping events, which Perfetto leaves out.
    expected = {} if only_path else perfetto(traces[rank].path)
    assert perfetto(report.path) == expected
    drawn = perfetto.query(
        "SELECT count(*) FROM flow JOIN args USING (arg_set_id)"
        " WHERE flat_key = 'cat' AND string_value = 'critical_path'"
    )
    assert int(drawn[0][0]) == report.flows > 0
    marked = perfetto.query(
        "SELECT count(*) FROM slice JOIN args USING (arg_set_id) WHERE flat_key = 'args.critical'"
    )
    assert int(marked[0][0]) == len(critical_path_of(traces[rank]).path_events)
