"""Contents of the dashboard charts before layout."""

import json

import numpy as np
import pandas as pd
import pytest
from pandas.testing import assert_frame_equal
from support import chart_frames as frames, chart_vectors, panel_frames
from support.chart_reading import data_of

from hta_widgets import charts

WRITTEN = json.loads(chart_vectors.PATH.read_text("utf-8"))["cases"]


@pytest.mark.parametrize("case", WRITTEN, ids=[each["name"] for each in WRITTEN])
def test_the_vectors_are_what_the_charts_make(case):
    frame = pd.DataFrame(case["frame"]["columns"])
    frame = frame.apply(lambda values: values.infer_objects())
    frame.attrs = case["frame"]["attrs"]
    result = chart_vectors.content_of(case["panel"], frame)
    assert_alike(case["content"], json.loads(json.dumps(chart_vectors.plain(result))), "")


def assert_alike(one, other, where):
    assert type(one) is type(other) or isinstance(one, float | int), where
    if isinstance(one, dict | list):
        assert len(one) == len(other), where
        for key in one if isinstance(one, dict) else range(len(one)):
            assert_alike(one[key], other[key], f"{where} {key}")
    elif isinstance(one, float):
        assert one == pytest.approx(other, rel=1e-9, abs=1e-9), where
    else:
        assert one == other, where


def test_waits_are_told_from_transfers():
    frame = frames.temporal().assign(exposed_wait_ns=[200_000_000, 0])
    data = chart_vectors.content_of("breakdown", frame)["data"]
    # compute to 0.5, transfer of 50 ms to 0.55, wait of 200 ms to 0.75, copies of 50 ms to 0.8.
    assert [data[f"right_{k}"][0] for k in (0, 2, 4, 8)] == pytest.approx([0.5, 0.55, 0.75, 0.8])
    assert np.isnan(data["right_4"][1])
    assert data["right_2"][1] == pytest.approx(0.75)
    # Of 250 ms of communication, 200 are waits, so at most 50 ms can be without partners.
    part = frame.assign(unmatched_exposed_ns=[80_000_000, 100_000_000])
    data = chart_vectors.content_of("breakdown", part)["data"]
    assert data["right_2"] == pytest.approx([0.5, 0.65])
    assert data["right_6"] == pytest.approx([0.75, 0.75])


def test_the_rank_of_the_headline_is_red_and_others_stand_out_by_time():
    """Rank 2 is 20 % slower in the long phase; rank 3 is 75 % slower in a short one."""
    frame = frames.phases()
    short = frame[frame["phase"] == "forward"].assign(phase="data loading", dur_ns=10)
    short.loc[short["rank"] == 3, "dur_ns"] = 17
    frame = pd.concat([frame, short], ignore_index=True)

    def drawn(frame):
        content = chart_vectors.content_of("steps", frame)
        color = np.array(content["data"]["color"])
        return content, [
            int((color == item).sum()) for item in (charts.LIGHT.late, charts.LIGHT.ink)
        ]

    content, marks = drawn(frame)
    assert content["names"] == ["step", "forward", "data loading"]
    far = [*zip(*(column["texts"] for column in content["columns"][:2]), strict=True)]
    assert far[1:] == [("rank 2 +79.5\u202fns", "+20\u202f%"), ("rank 3 +7\u202fns", "+70\u202f%")]
    assert marks == [0, 2], "no rank is named, and only rank 2 stands out: in two steps of a phase"
    assert content["x_end"] == pytest.approx(79.5 * 1.08 * 1.04), "the farthest dot is on the scale"
    frame.attrs["late_ranks"] = [2]
    _, marks = drawn(frame)
    assert marks == [6, 0], "in two steps of all three phases"
    frame.attrs |= {"late_ranks": [], "fact_ranks": [1]}
    _, marks = drawn(frame)
    assert marks == [0, 8], "a rank stated as a fact is in ink, next to the dots that stand out"
    short["dur_ns"] *= 10
    _, marks = drawn(pd.concat([frames.phases(), short], ignore_index=True))
    assert marks == [0, 4], "if it costs 7 % of a step, rank 3 stands out as well"


def test_one_rank_is_compared_with_its_own_steps():
    content = chart_vectors.content_of("steps", frames.phases(ranks=[1]))
    assert content["subtitle"].startswith("one dot per step, against the median step")
    assert "rank" not in content["title"] + content["subtitle"]


def test_kernels_that_wait_do_not_set_the_scale():
    frame = frames.kernel_spread()
    content = chart_vectors.content_of("kernel_durations", frame)
    assert content["x_end"] == pytest.approx(0.2 * 1.04)
    texts = ["rank 2 −90\u202f%", "rank 2 +20\u202f%", "within ±5\u202f%"]
    assert content["columns"][0]["texts"] == texts
    assert "arrow: beyond the scale" in content["subtitle"]
    data = pd.DataFrame(content["data"])
    beyond = data[data["marker"] == "triangle"]
    assert beyond[["row", "at"]].to_numpy().tolist() == [[0, pytest.approx(-0.2)]]
    assert beyond["angle"].iloc[0] == pytest.approx(np.pi / 2), "its head points to the left"
    assert (data["color"] == charts.LIGHT.ink).tolist().count(True) == 1
    frame.attrs["late_ranks"] = [2]
    marked = list(chart_vectors.content_of("kernel_durations", frame)["data"]["color"])
    assert marked.count(charts.LIGHT.late) == 3
    frame.attrs |= {"late_ranks": [], "fact_ranks": [2]}
    marked = list(chart_vectors.content_of("kernel_durations", frame)["data"]["color"])
    assert marked.count(charts.LIGHT.late) == 0
    assert marked.count(charts.LIGHT.ink) >= 3


@pytest.mark.parametrize(("metric", "said"), [("busy", False), ("waiting", True)])
def test_heatmap_names_only_unmatched_kinds_of_its_metric(metric, said):
    frame = panel_frames.made(2, bins=6)["heatmap"]
    frame.attrs |= {"metric": metric, "matched": {"compute": 3, "communication": 0, "memory": 0}}
    subtitle = chart_vectors.content_of("heatmap", frame)["subtitle"]
    assert ("no communication" in subtitle) == said
    assert "memory" not in subtitle


def test_the_dashboard_draws_kernels_as_the_chart_of_the_analysis_does():
    frame = frames.kernel_spread()
    sheet = chart_vectors.content_of("kernel_durations", frame)
    alone = charts.kernel_duration_by_rank(frame.drop(columns="short"))
    assert sheet["title"] == alone.title.text
    columns = ["row", "at", "color", "marker"]
    drawn = (pd.DataFrame(sheet["data"]), data_of(alone, *columns))
    assert_frame_equal(*(each[columns].sort_values(columns, ignore_index=True) for each in drawn))
