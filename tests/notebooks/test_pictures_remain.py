"""After nbconvert, an executed notebook has pictures of its widgets in the page."""

import subprocess
import sys

import pytest
from support.notebook_files import write_notebook

from hta_widgets.demo.job import write_demo

CELLS = """
import hta_widgets as hw
from hta_widgets.widgets import dashboard
dashboard._HEADLINE_MS = 60_000
traces = hw.load("job", cache=False)
hw.Dashboard(traces)
""", "hw.Timeline(traces)", "hw.TraceDiff(traces, traces)"  # fmt: skip


@pytest.fixture
def page(tmp_path):
    write_demo(tmp_path / "job", ranks=4, steps=2, straggler=1)
    write_notebook(tmp_path / "run.ipynb", CELLS)
    # As JupyterLab saves notebooks, without the widget state.
    options = ["--execute", "--ExecutePreprocessor.store_widget_state=False"]
    command = [sys.executable, "-m", "nbconvert", "--to", "html", *options, "run.ipynb"]
    subprocess.run(command, cwd=tmp_path, check=True, capture_output=True)
    return (tmp_path / "run.html").read_text("utf-8")


def test_each_widget_leaves_a_picture(page):
    assert page.count('src="data:image/svg+xml;base64,') == len(CELLS)
    assert "for rank 1" in page
    assert "object at 0x" not in page
    assert "Loading 4 traces" not in page
