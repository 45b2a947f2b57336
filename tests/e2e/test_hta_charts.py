"""`TraceAnalysis` with figures, in JupyterLab and Notebook 7, without any call for Bokeh."""

import pytest
from playwright.sync_api import expect

from hta_widgets.demo.job import write_demo


@pytest.fixture(scope="module")
def job(tmp_path_factory):
    folder = tmp_path_factory.mktemp("demo") / "job"
    write_demo(folder, ranks=2, steps=3, seed=1)
    return folder


def cells(job):
    return (
        "from hta_widgets.compat.trace_analysis import TraceAnalysis",
        f"analyzer = TraceAnalysis(trace_dir={str(job)!r})",
        "analyzer.get_temporal_breakdown()",
        "_ = analyzer.get_gpu_kernel_breakdown(image_renderer='jupyterlab')",
        "_ = analyzer.get_cuda_kernel_launch_stats()",
    )


@pytest.mark.parametrize("app", ["notebook", "notebook7"])
def test_figures_are_drawn_below_their_cells(app, job, request, page):
    request.getfixturevalue(app)(*cells(job))
    charts = page.locator("[id^='hta-chart-']")
    # One of the temporal breakdown; types, kernels, and kernels across ranks; one of launches.
    expect(charts).to_have_count(5)
    for place in range(5):
        expect(charts.nth(place).locator("canvas").first).to_be_visible(timeout=20_000)
