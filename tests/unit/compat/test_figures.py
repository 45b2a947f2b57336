"""Figures are displayed in notebooks only."""

import json
import re
from functools import partial
from types import SimpleNamespace

import pandas as pd
import pytest

import hta_widgets as hw
from hta_widgets import analysis, charts
from hta_widgets.charts import figure as in_notebooks
from hta_widgets.compat import results
from hta_widgets.demo.job import write_demo

pytestmark = pytest.mark.slow


@pytest.fixture
def notebook(monkeypatch):
    """A notebook kernel that collects displayed outputs."""
    shown = []
    monkeypatch.setattr(results, "in_notebook", lambda: True)
    monkeypatch.setattr(in_notebooks, "_loaded_by", {})
    monkeypatch.setattr("IPython.display.display", lambda output, **_: shown.append(output))
    cell = SimpleNamespace(cell="a", run="1", outputs=shown)
    monkeypatch.setattr(in_notebooks, "_running_cell", lambda: (cell.cell, cell.run))
    return cell


FRAME = pd.DataFrame(
    {"rank": [0], "communication_ns": [10], "overlapped_ns": [4], "overlap_share": [0.4],
     "exposed_ns": [6], "compute_ns": [5]}
)  # fmt: skip


@pytest.fixture(scope="module")
def analyzer(tmp_path_factory):
    folder = tmp_path_factory.mktemp("demo") / "job"
    write_demo(folder, ranks=2, steps=3, seed=1)
    return hw.TraceAnalysis(trace_dir=folder)


def test_outside_notebooks_one_line_is_printed_and_nothing_drawn(capsys, monkeypatch):
    assert not results.in_notebook()
    monkeypatch.setattr(charts, "comm_comp_overlap", None)
    results.print_where_figures_show.cache_clear()
    results.show("comm_comp_overlap", FRAME.head(0))
    assert capsys.readouterr() == ("", "")
    for _ in range(2):
        results.show("comm_comp_overlap", FRAME)
    out, err = capsys.readouterr()
    assert out == ""
    assert err.count("\n") == 1
    assert "figures are shown in notebooks only" in err
    assert "to_html" in err


def test_stragglers_outside_notebooks_print_the_line(capsys, analyzer):
    results.print_where_figures_show.cache_clear()
    analyzer.get_potential_stragglers(visualize=True)
    assert "figures are shown in notebooks only" in capsys.readouterr().err


def test_nothing_to_draw_shows_nothing(notebook):
    results.show("comm_comp_overlap", FRAME.head(0))
    assert notebook.outputs == []


def test_a_figure_needs_no_network_and_no_earlier_call(notebook):
    results.show("comm_comp_overlap", FRAME)
    html = notebook.outputs[0]["text/html"]
    # Addresses from which the HTML loads. BokehJS' own text may contain others.
    assert not re.search(r"<(script|link|iframe)[^>]+(src|href)=", html)
    item = json.loads(re.search(r"const item = (\{.*?\}); let tries", html)[1])
    assert f'<div id="{item["target_id"]}">' in html
    assert item["doc"]["roots"]


def test_bokeh_comes_once_and_again_when_its_cell_runs_again(notebook):
    for cell, run in (("a", "1"), ("a", "1"), ("b", "2"), ("a", "3"), ("b", "4")):
        notebook.cell, notebook.run = cell, run
        results.show("comm_comp_overlap", FRAME)
    large = [len(output["text/html"]) > 300_000 for output in notebook.outputs]
    assert large == [True, False, False, True, False]


def test_text_of_a_trace_is_escaped(notebook):
    frame = FRAME.assign(note="</script><script>alert(1)</script>")
    results.show("comm_comp_overlap", frame, title="</script><b>")
    script = notebook.outputs[0]["text/html"].rpartition("const item = ")[2]
    assert script.count("</script>") == 1
    assert script.endswith("</script>")


def test_every_method_draws(notebook, tmp_path, analyzer):
    figures = {
        analyzer.get_temporal_breakdown: 1,
        analyzer.get_idle_time_breakdown: 1,
        analyzer.get_gpu_kernel_breakdown: 3,
        analyzer.get_comm_comp_overlap: 1,
        analyzer.get_cuda_kernel_launch_stats: 1,
        partial(analyzer.get_gpu_user_annotation_breakdown, use_gpu_annotation=False): 1,
        partial(analyzer.get_potential_stragglers, visualize=True): 1,
        partial(analyzer.get_frequent_cuda_kernel_sequences, "aten::linear", str(tmp_path), 1): 1,
        partial(analyzer.get_temporal_breakdown, visualize=False): 0,
    }
    for call, count in figures.items():
        notebook.outputs.clear()
        call()
        assert len(notebook.outputs) == count, call


def test_every_chart_that_the_facade_asks_for_exists(repo):
    requested = set()
    for path in (repo / "hta_widgets/compat").rglob("*.py"):
        calls = re.findall(r'\b(?:show|_made|_by_rank)\(\s*"(\w+)"', path.read_text("utf-8"))
        requested.update(calls)
    assert len(requested) > 8
    for name in requested - {"idle_interval_stats", "operator_launch_delays"}:  # without a figure
        assert callable(getattr(charts, name)), name
        assert name == "memory_timeline" or hasattr(analysis, name)
