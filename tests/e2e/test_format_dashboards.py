"""Saved dashboards of BytePS and MPI files, used without a kernel."""

import pytest
from playwright.sync_api import expect
from support.browser import click
from support.dashboard import Dash
from support.nsight_export import write_export

import hta_widgets as hw
from hta_widgets.demo.byteps import write_byteps_job
from hta_widgets.demo.mpi import write_mpi_job

#: Height of a chart's title.
TITLE_PX = 18


@pytest.fixture
def opened(context, tmp_path, built):
    """`opened(traces)` saves a dashboard and opens the page without a kernel."""

    def show(traces):
        path = hw.Dashboard(traces).save_html(tmp_path / "report.html")
        context.set_offline(True)
        page = context.new_page()
        page.set_viewport_size({"width": 1440, "height": 1000})
        page.goto(f"file://{path}")
        return Dash(page, traces)

    return show


def test_an_iteration_of_a_byteps_job(opened, tmp_path, screenshot):
    write_byteps_job(tmp_path / "job", workers=2, local_ranks=2, servers=2, steps=4, slow_worker=1)
    traces = hw.load(tmp_path / "job", cache=False, progress=False)
    dash = opened(traces)
    expect(dash.root.locator("h2")).to_contain_text("Worker 1 is last in 88 of 88")
    assert dash.root.locator("[data-panel=kernels]").count() == 0
    panels = ("byteps_gradients", "byteps_stages", "byteps_blame", "byteps_servers")
    dash.has_numbers_of(traces.select(), panels)

    dash.ready("byteps_stragglers")
    chart = dash.chart("byteps_stragglers")
    box = chart.bounding_box()
    # The lower row is the late worker. Click between its edges.
    click(chart, (box["width"] * 0.5, -24))
    expect(dash.panel("selection")).to_contain_text("start_ns=")
    chosen = dash.selection
    late = dash.engine.frame("byteps_stragglers")
    windows = set(zip(late["start_ns"], late["end_ns"], strict=True))
    assert (chosen.start_ns, chosen.end_ns) in windows
    dash.has_numbers_of(chosen, (*panels, "byteps_stragglers"))
    screenshot(dash.page, "dashboard_byteps")

    dash.root.get_by_role("button", name="Worker 1").first.click()
    expect(dash.panel("selection")).to_contain_text("ranks=")
    dash.has_numbers_of(dash.selection, ("byteps_gradients", "byteps_requests"))
    keys = dash.numbers("byteps_requests")["name"]
    assert keys.map(int).max() > 2**63
    dash.undo()
    dash.selects(chosen)


def test_ranks_and_sizes_of_an_mpi_job(opened, tmp_path, screenshot):
    write_mpi_job(tmp_path / "job", ranks=8, slow_rank=3, hosts=2, traces=False)
    traces = hw.load(tmp_path / "job", cache=False, progress=False)
    dash = opened(traces)
    expect(dash.root.locator("h2")).to_contain_text("Rank 3 spends the least time in MPI")
    expect(dash.root.locator("[data-panel=timeline]")).to_have_count(0)
    panels = ("mpi_ranks", "mpi_sizes", "mpi_routine_table", "mpi_messages", "mpi_hosts")
    dash.has_numbers_of(traces.select(), panels)
    dash.page.get_by_label("Colour by").select_option("bytes")
    dash.chart("mpi_sizes")
    measure = dash.page.get_by_label("Colour by").bounding_box()
    plot = dash.panel("mpi_sizes").locator(".hta-chart-plot").bounding_box()
    assert measure["y"] + measure["height"] <= plot["y"] + TITLE_PX
    screenshot(dash.page, "dashboard_mpi")

    dash.root.get_by_role("button", name="Rank 3").first.click()
    dash.has_numbers_of(traces.select(ranks=[3]), ("mpi_routine_table", "mpi_messages"))
    dash.panel("mpi_routine_table").get_by_role("button", name="MPI_Bcast").click()
    expect(dash.panel("selection")).to_contain_text("name in ['MPI_Bcast']")
    dash.has_numbers_of(dash.selection, ("mpi_messages", "mpi_routine_table"))
    dash.undo()
    dash.undo()
    dash.has_numbers_of(traces.select(), ("mpi_messages",))


def test_ranks_of_two_exports_of_nsight_systems(opened, tmp_path, screenshot):
    write_export(tmp_path / "node0.sqlite", steps=6, late_ns=2_000_000)
    write_export(tmp_path / "node1.sqlite", steps=6, first_rank=2, shift_ns=250_000_000)
    traces = hw.load(tmp_path, cache=False, progress=False)
    dash = opened(traces)
    expect(dash.root.locator("h2")).to_contain_text("for rank 1")
    panels = ("kernels", "breakdown", "idle", "operators", "steps")
    dash.has_numbers_of(traces.select(), panels)
    screenshot(dash.page, "dashboard_nsight")
    dash.root.get_by_role("button", name="Select rank 1").first.click()
    dash.has_numbers_of(dash.selection, panels)
