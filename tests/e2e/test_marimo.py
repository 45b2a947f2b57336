"""The dashboard in marimo, with its own kernel and page, and views inside a shadow root."""

import pytest
from playwright.sync_api import expect
from support.dashboard import Dash
from support.servers import marimo_app

APP = """
import marimo

app = marimo.App(width="full")


@app.cell
def _():
    import marimo as mo
    import hta_widgets as hw

    traces = hw.load({folder!r}, progress=False, cache=False)
    view = mo.ui.anywidget(hw.Dashboard(traces))
    again = mo.ui.run_button(label="tell")
    mo.vstack([again, view])
    return again, mo, view


@app.cell
def _(again, mo, view):
    again.value
    dash = view.widget
    mo.md(f"Python has ranks {{dash.selection.ranks}}, busiest for "
          f"{{dash.frames['temporal_breakdown'].compute_ns.max()}} ns, "
          f"{{len(dash.selected_events())}} events.")
    return


if __name__ == "__main__":
    app.run()
"""


def test_a_dashboard_renders_brushes_and_tells_python(
    page, folder, job, tmp_path_factory, screenshot
):
    pytest.importorskip("marimo", reason="marimo is not installed (the test extra has it)")
    root = tmp_path_factory.mktemp("marimo")
    with marimo_app(root, APP.format(folder=str(folder))) as url:
        page.goto(url)
        dash = Dash(page, job)
        dash.has_numbers_of(job.select(), ("kernels",))
        dash.click_bar("breakdown", 5)
        dash.shows_ranks(1)
        dash.selects(job.select(ranks=[5]))
        dash.has_numbers_of(dash.selection, ("kernels",))
        screenshot(page, "dashboard_marimo")
        page.get_by_role("button", name="tell").click()
        events = len(job.select(ranks=[5]).events())
        text = page.get_by_text("Python has ranks")
        expect(text).to_contain_text("ranks (5,)")
        expect(text).to_contain_text(f"{events} events")
        # The page shows the selection made in Python.
        dash.undo()
        dash.shows_ranks(8)
