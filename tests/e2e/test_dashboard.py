"""The dashboard in notebooks: panels and Python stay in sync, with and without a kernel."""

import io
import re

import pandas as pd
import pytest
from playwright.sync_api import Page, expect
from support.browser import drag
from support.dashboard import Dash
from support.notebooks import Kernel, run_cells

import hta_widgets as hw
from hta_widgets import analysis

#: For each panel: its analysis, and columns equal to the analysis row by row.
SAME = {
    "breakdown": (analysis.temporal_breakdown, ["rank", "compute_ns", "idle_ns", "span_ns"]),
    "overlap": (analysis.comm_comp_overlap, ["rank", "communication_ns", "overlapped_ns"]),
    "kernel_types": (analysis.kernel_type_breakdown, ["kernel_type", "sum_ns"]),
    "queue": (analysis.queue_length_summary, ["rank", "stream", "count", "max"]),
}


def cells(folder) -> tuple[str, ...]:
    """Return cells that show the dashboard of a job."""
    return (
        "import hta_widgets as hw",
        f"ts = hw.load({str(folder)!r}, progress=False); dash = hw.Dashboard(ts); dash",
    )


@pytest.fixture(scope="module")
def opened(kept_notebook, folder) -> Page:
    """A notebook with the dashboard."""
    return kept_notebook(*cells(folder))


@pytest.fixture
def dash(opened, job) -> Dash:
    """An untouched dashboard in the kernel shared by all tests."""
    opened.set_viewport_size({"width": 1440, "height": 1000})
    run_cells(opened)
    return Dash(opened, job)


@pytest.fixture
def kernel(dash) -> Kernel:
    return Kernel(dash.page)


def test_a_rank_then_a_window_then_back(dash, kernel, screenshot):
    before = {name: dash.numbers(name) for name in ("kernels", "kernel_types")}
    expect(dash.root.locator(".hta-headline h2")).to_contain_text("rank 5")

    dash.click_bar("breakdown", 5)
    kernel.wait_for("dash.selection.ranks == (5,) and dash.state.ranks_from == 'breakdown'")
    dash.shows_ranks(1)
    kernels = analysis.kernel_breakdown(dash.traces, ranks=[5])
    shown = dash.numbers("kernels")
    assert shown["sum_ns"].sum() == kernels["sum_ns"].sum()
    assert (shown["ranks"] == 1).all()

    start = (dash.traces.start_ns + dash.traces.end_ns) // 2
    dash.drag_window(start, start + 10_000_000)
    kernel.wait_for("dash.selection.start_ns is not None")
    window = tuple(kernel.value("[dash.selection.start_ns, dash.selection.end_ns]"))
    assert abs(window[1] - window[0] - 10_000_000) < 500_000
    # The rank selected elsewhere stays selected; charts by rank show all ranks.
    assert kernel.value("list(dash.selection.ranks)") == [5]
    for name, (function, columns) in SAME.items():
        ranks = [5] if name == "kernel_types" else None
        wanted = function(dash.traces, window=window, ranks=ranks)[columns]
        result = dash.numbers(name)[columns].astype(wanted.dtypes.to_dict())
        pd.testing.assert_frame_equal(result, wanted, check_categorical=False, obj=name)
    screenshot(dash.root, "dashboard_window")

    dash.panel("kernels").get_by_role("heading").click()
    dash.page.keyboard.press("Control+z")
    dash.page.keyboard.press("Control+z")
    kernel.wait_for("dash.selection.is_everything")
    dash.shows_ranks(8)
    for name, frame in before.items():
        pd.testing.assert_frame_equal(dash.numbers(name), frame, obj=name)


def test_a_rectangle_of_the_heatmap_is_a_window_on_its_ranks(dash, kernel):
    # Charts above it take up space once they are drawn.
    for name in ("breakdown", "overlap", "heatmap"):
        dash.ready(name)
        dash.chart(name)
    plot = dash.panel("heatmap").locator(".hta-chart-plot")
    plot.scroll_into_view_if_needed()
    height = plot.bounding_box()["height"]
    # Ranks 2 to 4: rows of 16 px above an axis of 22 px.
    top = height - 22 - 8 * 16
    drag(plot, (400, top + 2 * 16 + 4), (520, top + 4 * 16 + 8))
    kernel.wait_for("dash.selection.ranks == (2, 3, 4)")
    assert kernel.value("dash.selection.end_ns - dash.selection.start_ns") > 0
    dash.shows_ranks(3)
    dash.has_numbers_of(dash.selection, ("kernels", "steps"))


def test_folding_and_the_clock_are_one_in_page_and_python(dash, kernel):
    dash.chart("breakdown")
    pane = dash.panel("breakdown")
    pane.get_by_role("button", name="Show table").click()
    names = pane.locator(".hta-chart-table tbody tr td:first-child")
    expect(names).to_have_count(8)
    dash.root.get_by_role("button", name="Fold similar ranks").first.click()
    expect(names).to_have_text(["rank 5", "7 ranks: 0–4, 6, 7"])
    kernel.wait_for("dash.folded is True")
    kernel("dash.folded = False")
    expect(names).to_have_count(8)

    badge = dash.root.locator(".hta-clock .hta-if-wide")
    expect(badge).to_have_text(re.compile("^clock: fitted ±"))
    badge.click()
    kernel.wait_for("dash.clock == 'recorded'")
    expect(badge).to_have_text(re.compile("^clock: recorded, "))
    kernel("dash.clock = 'fitted'")
    expect(badge).to_have_text(re.compile("^clock: fitted ±"))


def test_page_and_python_follow_each_other_and_the_page_outlives_the_kernel(
    dash, kernel, job, lab, tmp_path, screenshot
):
    dash.click_bar("breakdown", 5)
    kernel.wait_for("dash.selection.ranks == (5,)")
    dash.shows_ranks(1)
    frame = kernel.value("dash.frames['kernel_breakdown'].sum_ns.astype(int).tolist()")
    assert frame == hw.analysis.kernel_breakdown(job, ranks=[5]).sum_ns.astype(int).tolist()
    dash.has_numbers_of(dash.selection, ("kernels",))
    table = pd.read_parquet(io.BytesIO(dash.saved("kernels", "Save as Parquet")))
    assert table["sum_ns"].tolist() == frame
    dash.share("Page…")
    form = dash.root.locator(".hta-share-form")
    form.locator("input").fill(str(tmp_path / "saved.html"))
    form.get_by_role("button", name="Write file").click()
    expect(form).to_contain_text("Wrote", timeout=60_000)
    assert "hta-dashboard.js" in (tmp_path / "saved.html").read_text("utf-8")
    dash.page.keyboard.press("Escape")

    # From Python to the page and back.
    middle = (job.start_ns + job.end_ns) // 2
    kernel(f"dash.select(ts.select(start_ns={middle}, end_ns={middle + 10_000_000}))")
    expect(dash.panel("selection")).to_contain_text("start_ns=")
    dash.has_numbers_of(job.select(start_ns=middle, end_ns=middle + 10_000_000))
    screenshot(dash.page, "dashboard_jupyterlab")
    dash.undo()
    dash.undo()
    kernel.wait_for("dash.selection.is_everything")

    expect(dash.root).to_have_attribute("data-page-data", "ready", timeout=60_000)
    lab.end_sessions(kept=True)
    dash.click_bar("breakdown", 3)
    expect(dash.panel("selection")).to_contain_text("ranks=[3]")
    dash.shows_ranks(1)
    dash.has_numbers_of(job.select(ranks=[3]), ("breakdown", "kernels", "kernel_types"))
    screenshot(dash.page, "dashboard_without_kernel")


def test_notebook_7_shows_and_brushes_it(notebook7, folder, job, page, screenshot):
    notebook7(*cells(folder))
    dash, kernel = Dash(page, job), Kernel(page)
    dash.click_bar("breakdown", 5)
    kernel.wait_for("dash.selection.ranks == (5,)")
    dash.shows_ranks(1)
    dash.has_numbers_of(dash.selection, ("kernels",))
    dash.undo()
    kernel.wait_for("dash.selection.is_everything")
    dash.shows_ranks(8)
    screenshot(page, "dashboard_notebook7")
