"""Pictures and tables that views hand out."""

import io
import re

import pandas as pd
import pytest
from support.random_job import write_job

import hta_widgets as hw


@pytest.fixture(scope="module")
def traces(tmp_path_factory):
    return hw.load(write_job(tmp_path_factory.mktemp("job"), 3), cache=False, progress=False)


def ranks_in(path):
    return re.findall(r"font-weight=\"600\">(rank \d)<", path.read_text("utf-8"))


def test_a_picture_is_of_the_view_and_of_the_ranks_shown(traces, tmp_path):
    timeline = hw.Timeline(traces)
    path = tmp_path / "view.svg"
    assert timeline.to_svg(path) == str(path)
    assert ranks_in(path) == ["rank 0", "rank 1"]
    assert "whole job" in path.read_text("utf-8").partition("</title>")[0]
    timeline.pinned = ["1"]
    timeline.zoom_to(100, 900)
    timeline.to_svg(path, theme="dark", width=700)
    assert ranks_in(path) == ["rank 1", "rank 0"]
    assert "800\u2009ns" in path.read_text("utf-8").partition("</title>")[0]
    with pytest.raises(hw.TraceError, match=r"nowhere.*cannot be written"):
        timeline.to_svg(tmp_path / "nowhere" / "view.svg")


def test_a_timeline_alone_never_hides_ranks_and_in_a_dashboard_shows_those_chosen(traces, tmp_path):
    dash = hw.Dashboard(traces)
    path = tmp_path / "view.svg"
    dash.select(traces.select(ranks=[1]))
    dash.timeline.to_svg(path)
    chosen_in_python = ranks_in(path)
    dash.state.ranks_from = "breakdown"
    dash.timeline.to_svg(path)
    assert ranks_in(path) == ["rank 1"]
    dash.state.ranks_from = "timeline"
    dash.timeline.to_svg(path)
    assert ranks_in(path) == ["rank 0", "rank 1"]
    assert chosen_in_python == ranks_in(path)


def test_the_page_gets_what_a_panel_shows_as_files(traces):
    dash = hw.Dashboard(traces)
    dash.select(traces.select(ranks=[1]))
    expected = dash.panel_frame("kernels")
    assert expected["ranks"].tolist() == [1] * len(expected)
    _, data = dash.answer({"op": "table", "panel": "kernels", "format": "parquet"})
    found = pd.read_parquet(io.BytesIO(data))
    assert found["sum_ns"].tolist() == expected["sum_ns"].tolist()
    assert list(found) == list(expected)
    assert found["name"].astype(str).tolist() == expected["name"].astype(str).tolist()
    _, text = dash.answer({"op": "table", "panel": "kernels", "format": "csv"})
    assert pd.read_csv(io.BytesIO(text))["count"].tolist() == expected["count"].tolist()
    with pytest.raises(ValueError, match="Invalid enum value 'xls'"):
        dash.answer({"op": "table", "panel": "kernels", "format": "xls"})
