"""Charts that are the value of a cell are drawn below it, without any call for Bokeh."""

import pytest
from playwright.sync_api import expect

from hta_widgets.demo.job import write_demo


@pytest.mark.parametrize("app", ["notebook", "notebook7"])
def test_a_chart_is_drawn_below_its_cell(app, tmp_path, request, page):
    write_demo(tmp_path / "job", ranks=2, steps=3, seed=1)
    request.getfixturevalue(app)(
        "import hta_widgets as hw; from hta_widgets import analysis, charts\n"
        f"traces = hw.load({str(tmp_path / 'job')!r}, progress=False)",
        "charts.temporal_breakdown(analysis.temporal_breakdown(traces))",
        "charts.launch_stats(analysis.launch_stats(traces))",
    )
    drawn = page.locator("[id^='hta-chart-']")
    expect(drawn).to_have_count(2)
    for place in range(2):
        expect(drawn.nth(place).locator("canvas").first).to_be_visible(timeout=20_000)
