"""The dashboard in JupyterLab and Notebook 7: page and Python agree, with and without a kernel."""

import io

import pandas as pd
import pytest
from playwright.sync_api import expect
from support.dashboard import Dash

import hta_widgets as hw
from hta_widgets.demo.job import write_demo

SOME = ("breakdown", "kernels", "kernel_types")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("job") / "demo"
    write_demo(path, ranks=8, steps=2, seed=0)
    return path


@pytest.fixture(scope="module")
def traces(folder):
    return hw.load(folder, progress=False, cache=False)


def cells(folder):
    return (
        "import hta_widgets as hw",
        f"ts = hw.load({str(folder)!r}, progress=False); dash = hw.Dashboard(ts); dash",
    )


def test_page_and_python_follow_each_other_and_the_page_outlives_the_kernel(
    notebook, kernel, folder, traces, page, lab, tmp_path, screenshot
):
    notebook(*cells(folder))
    dash = Dash(page, traces)
    dash.click_bar("breakdown", 5)
    kernel.wait_for("dash.selection.ranks == (5,)")
    dash.shows_ranks(1)
    frame = kernel.value("dash.frames['kernel_breakdown'].sum_ns.astype(int).tolist()")
    assert frame == hw.analysis.kernel_breakdown(traces, ranks=[5]).sum_ns.astype(int).tolist()
    dash.has_numbers_of(dash.selection, ("kernels",))
    table = pd.read_parquet(io.BytesIO(dash.saved("Top kernels: Parquet")))
    assert table["sum_ns"].tolist() == frame
    page.get_by_role("button", name="Save all this as one page").click()
    form = dash.root.locator(".hta-save-form")
    form.locator("input").fill(str(tmp_path / "saved.html"))
    form.get_by_role("button", name="Write file").click()
    expect(form).to_contain_text("Wrote", timeout=60_000)
    assert "hta-dashboard.js" in (tmp_path / "saved.html").read_text("utf-8")
    page.keyboard.press("Escape")

    # From Python to the page, and back again.
    middle = (traces.start_ns + traces.end_ns) // 2
    kernel(f"dash.select(ts.select(start_ns={middle}, end_ns={middle + 10_000_000}))")
    expect(dash.panel("selection")).to_contain_text("start_ns=")
    dash.has_numbers_of(traces.select(start_ns=middle, end_ns=middle + 10_000_000))
    screenshot(page, "dashboard_jupyterlab")
    dash.undo()
    dash.undo()
    kernel.wait_for("dash.selection.is_everything")

    # The status line shows it while the data for a dead kernel is on its way.
    expect(dash.root).not_to_contain_text("page data", timeout=60_000)
    lab.end_sessions()
    dash.click_bar("breakdown", 3)
    expect(dash.panel("selection")).to_contain_text("ranks=[3]")
    dash.shows_ranks(1)
    dash.has_numbers_of(traces.select(ranks=[3]), SOME)
    screenshot(page, "dashboard_without_kernel")


def test_notebook_7_shows_and_brushes_it(notebook7, kernel, folder, traces, page, screenshot):
    notebook7(*cells(folder))
    dash = Dash(page, traces)
    dash.click_bar("breakdown", 5)
    kernel.wait_for("dash.selection.ranks == (5,)")
    dash.shows_ranks(1)
    dash.has_numbers_of(dash.selection, ("kernels",))
    dash.undo()
    kernel.wait_for("dash.selection.is_everything")
    dash.shows_ranks(8)
    screenshot(page, "dashboard_notebook7")
