"""A saved dashboard, opened from a disk: brushing without a kernel or a network."""

import pytest
from playwright.sync_api import expect
from support.dashboard import PANELS, Dash

import hta_widgets as hw
from hta_widgets.demo import write_demo


@pytest.fixture(scope="module")
def traces(tmp_path_factory):
    folder = tmp_path_factory.mktemp("job") / "demo"
    write_demo(folder, ranks=8, steps=2, seed=0)
    return hw.load(folder, progress=False, cache=False)


def test_brushes_in_a_page_have_the_numbers_of_the_analyses(
    context, traces, tmp_path, screenshot, repo
):
    if not (repo / "hta_widgets" / "static" / "dashboard.js").exists():
        pytest.skip("the front end is not built (`make build` does it)")
    path = hw.Dashboard(traces).save_html(tmp_path / "report.html")
    context.set_offline(True)
    page = context.new_page()
    page.set_viewport_size({"width": 1440, "height": 1000})
    asked, said = [], []
    page.on("request", lambda request: asked.append(request.url))
    page.on("console", lambda line: said.append(line.text))
    page.goto(f"file://{path}")
    dash = Dash(page, traces)
    expect(dash.root).to_contain_text("rank 5")
    whole = traces.select()
    dash.has_numbers_of(whole)

    dash.click_bar("breakdown", 5)
    expect(dash.panel("selection")).to_contain_text("rank 5")
    assert dash.selection == traces.select(ranks=[5])
    dash.shows_ranks(1)
    dash.has_numbers_of(dash.selection, ("kernels", "operators", "breakdown"))
    screenshot(page, "dashboard_saved_rank_5")

    middle = (traces.start_ns + traces.end_ns) // 2
    dash.drag_window(middle, middle + 10_000_000)
    expect(dash.panel("selection")).to_contain_text("start_ns=")
    chosen = dash.selection
    assert chosen.ranks == (5,)
    assert chosen.end_ns - chosen.start_ns == pytest.approx(10_000_000, rel=0.05)
    dash.has_numbers_of(chosen)

    dash.undo()
    dash.undo()
    assert dash.selection == whole
    dash.has_numbers_of(whole, ("breakdown", "kernels"))
    dash.shows_ranks(8)

    # Nothing but the file itself, and what it unpacks of itself.
    assert {url for url in asked if not url.startswith("blob:")} == {f"file://{path}"}
    assert [line for line in said if "[bokeh" not in line and "readback" not in line] == []
    assert set(PANELS) <= {
        one.get_attribute("data-panel") for one in page.locator("[data-panel]").all()
    }
