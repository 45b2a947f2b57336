"""Charts in JupyterLab and Notebook 7 appear below their cells, without any Bokeh call."""

import pytest
from playwright.sync_api import expect
from support.examples import only_in_all

from hta_widgets.demo.job import write_demo

#: Cells, and the number of charts they draw.
CELLS = {
    "values of cells": (
        "import hta_widgets as hw; from hta_widgets import analysis, charts",
        "traces = hw.load({job!r}, progress=False)",
        "charts.temporal_breakdown(analysis.temporal_breakdown(traces))",
        "charts.launch_stats(analysis.launch_stats(traces))",
    ),
    "TraceAnalysis": (
        "from hta_widgets.compat.trace_analysis import TraceAnalysis",
        "analyzer = TraceAnalysis(trace_dir={job!r})",
        "analyzer.get_temporal_breakdown()",
        "_ = analyzer.get_gpu_kernel_breakdown(image_renderer='jupyterlab')",
        "_ = analyzer.get_cuda_kernel_launch_stats()",
    ),
}


@pytest.mark.usefixtures("lab")
# Charts: temporal breakdown; kernel types, kernels, kernels across ranks; launches.
@pytest.mark.parametrize(
    ("app", "cells", "count"),
    [
        ("notebook", "values of cells", 2),
        ("notebook7", "TraceAnalysis", 5),
        pytest.param("notebook", "TraceAnalysis", 5, marks=only_in_all),
        pytest.param("notebook7", "values of cells", 2, marks=only_in_all),
    ],
)
def test_charts_are_drawn_below_their_cells(app, cells, count, tmp_path, request, page):
    write_demo(tmp_path / "job", ranks=2, steps=3, seed=1)
    job = str(tmp_path / "job")
    request.getfixturevalue(app)(*(cell.format(job=job) for cell in CELLS[cells]))
    charts = page.locator("[id^='hta-chart-']")
    expect(charts).to_have_count(count)
    for place in range(count):
        expect(charts.nth(place).locator("canvas").first).to_be_visible(timeout=20_000)
