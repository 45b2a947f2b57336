"""A chart that is the value of a notebook's cell is drawn there."""

import pytest
from support import chart_frames as frames

from hta_widgets import charts
from hta_widgets.charts import figure as in_notebooks


@pytest.mark.parametrize("name", frames.ALL)
def test_a_chart_is_drawn_where_it_is_a_cells_value(name, monkeypatch):
    formatter = pytest.importorskip("IPython.core.formatters").DisplayFormatter()
    monkeypatch.setattr(in_notebooks, "_brought_by", {})
    draw, make = frames.ALL[name]
    chart = draw(make())
    for expected in (True, False):
        html = formatter.format(chart)[0]["text/html"]
        assert "embed_item(item)" in html
        assert (len(html) > 300_000) is expected, "BokehJS comes once"


@pytest.mark.parametrize("layout", [charts.row, charts.column])
def test_charts_beside_each_other_are_drawn_as_one(layout, tmp_path, monkeypatch):
    formatter = pytest.importorskip("IPython.core.formatters").DisplayFormatter()
    monkeypatch.setattr(in_notebooks, "_brought_by", {})
    both = layout(
        charts.temporal_breakdown(frames.temporal()),
        layout(charts.comm_comp_overlap(frames.overlap())),
    )
    html = formatter.format(both)[0]["text/html"]
    page = charts.to_html(both, tmp_path / "a.html").read_text("utf-8")
    for text in (html, page):
        assert "Where GPU time goes" in text
        assert "Communication, and how much compute hides" in text


def test_a_chart_can_still_be_written(tmp_path, monkeypatch):
    monkeypatch.setattr(in_notebooks, "_brought_by", {})
    chart = charts.temporal_breakdown(frames.temporal())
    chart._repr_mimebundle_()
    page = charts.to_html(chart, tmp_path / "a.html").read_text("utf-8")
    assert "Where GPU time goes" in page
