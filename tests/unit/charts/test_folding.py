"""Similar ranks share a row of a chart: cases calculated by hand, shared with the page's tests."""

import json
from pathlib import Path

import pandas as pd
import pytest
from support import chart_vectors

from hta_widgets import charts

VECTORS = json.loads(
    (Path(__file__).parents[2] / "vectors/folding.json").read_text(encoding="utf-8")
)


def frame_of(given):
    frame = pd.DataFrame(given["columns"])
    frame.attrs = given["attrs"]
    return frame


def near(found, wanted):
    assert [None if pd.isna(each) else pytest.approx(each) for each in found] == wanted


@pytest.mark.parametrize("case", VECTORS["cases"], ids=lambda case: case["name"])
def test_rows_of_several_ranks_have_their_means(case):
    content = chart_vectors.content_of(case["panel"], frame_of(case["frame"]))
    assert content["names"] == case["names"]
    for name, values in case["data"].items():
        if name in content["data"]:
            near(content["data"][name], values)
    for head, texts in case["columns"].items():
        assert [each["texts"] for each in content["columns"] if each["head"] == head] == [texts]
    assert content["subtitle"].endswith(f"similar ranks share a row: mean, line: {case['said']}")


def test_the_strip_above_the_heatmap_is_the_mean_of_all_ranks():
    wanted, values = VECTORS["heatmap"], VECTORS["heatmap"]["frame"]["columns"]["value_ns"]
    frame = pd.DataFrame({"rank": [0, 0, 1, 1, 2, 2], "bin": [0, 1] * 3, "value_ns": values})
    frame = frame.assign(start_ns=frame["bin"] * 10, end_ns=frame["bin"] * 10 + 10)
    frame.attrs = wanted["frame"]["attrs"]
    content = chart_vectors.content_of("heatmap", frame)
    assert content["names"] == wanted["names"]
    near(content["share"].ravel(), wanted["share"])
    near(content["mean"], wanted["mean"])


def clusters(*of):
    return pd.DataFrame({"rank": range(len(of)), "cluster": of})


def test_charts_fold_where_clusters_are_given_and_not_otherwise():
    frame = frame_of({**VECTORS["cases"][0]["frame"], "attrs": {}})

    def rows(figure):
        return len(figure.renderers[0].data_source.data["row"])

    assert rows(charts.temporal_breakdown(frame)) == 4
    figure = charts.temporal_breakdown(frame, clusters=clusters(0, 0, 1, 0))
    assert rows(figure) == 2
    source = figure.renderers[0].data_source.data
    assert list(source["ranks"]) == ["rank 2", "3 ranks: 0, 1, 3"]
    assert "clusters : DataFrame, optional" in charts.temporal_breakdown.__doc__
    assert "clusters" not in charts.operators.__doc__


def test_rounding_errors_of_means_are_no_part_of_a_bar():
    copies = pd.Series([1, 2, 2])
    frame = pd.DataFrame({"rank": range(3), "span_ns": 1000, "idle_ns": 0})
    frame["compute_ns"] = 1000 - 100 - copies
    frame["non_compute_ns"] = 100 + copies
    frame["exposed_communication_ns"] = 100
    frame["exposed_memory_ns"] = copies
    figure = charts.temporal_breakdown(frame, clusters=clusters(0, 0, 0))
    labels = [item.label.value for legend in figure.legend for item in legend.items]
    assert labels == ["compute", "communication", "copies"]
