"""Charts of many ranks, from frames that are written out by hand."""

import re

import numpy as np
import pandas as pd
import pytest
from bokeh.models import Image, Quad, Segment
from support import chart_frames as frames
from support.chart_reading import data_of, right_of, words_of

from hta_widgets import charts
from hta_widgets.charts.data import last_often, listed, median_of, thinned

LIGHT = charts.LIGHT


def matched(arrivals, **columns) -> pd.DataFrame:
    """Rows of `analysis.collectives` from arrivals, one list a collective and one number a rank."""
    rows = []
    for number, each in enumerate(arrivals):
        last = max(each)
        who = each.index(last) if each.count(last) == 1 else -1
        rows += [
            {
                "collective": number,
                "name": "AllReduce",
                "group": "0",
                "size_bytes": -1,
                "rank": rank,
                "id": number,
                "arrival_ns": at,
                "wait_ns": last - at,
                "transfer_ns": 5,
                "end_ns": last + 5,
                "last_rank": who,
                "busbw_gb_s": np.nan,
            }
            for rank, at in enumerate(each)
        ]
    return pd.DataFrame(rows).assign(**columns)


#: Rank 2 is last in four of five; by 3, 30, 300 and 3000 after the median of the three.
LATE = [[0, 1, 4], [100, 101, 131], [1000, 1001, 1301], [9000, 9001, 12_001], [20_000, 20_002, 5]]


def outlined_rows(figure) -> list[float]:
    found = [each for each in figure.renderers if isinstance(each.glyph, Quad)]
    return sorted({float(top) for each in found for top in each.data_source.data["top"]})


# --- arrivals ---


def test_lateness_is_against_the_median_of_the_collective():
    data = data_of(charts.arrivals(matched(LATE)), "rank", "arrival_ns", "late_ns")
    by_rank = data.set_index(["collective", "rank"])["late_ns"].sort_index()
    assert by_rank[:, 2].tolist() == [3, 30, 300, 3000, -19_995]
    assert by_rank[:, 1].tolist() == [0, 0, 0, 0, 2]


def test_of_an_even_number_the_median_lies_between():
    assert median_of([4, 0, 2, 10, 7], [1, 1, 1, 1, 0]).tolist() == [3, 3, 3, 3, 7]


def test_who_is_last_most_of_the_time_is_coloured_and_named():
    figure = charts.arrivals(matched(LATE[:4]))
    data = data_of(figure, "rank", "fill")
    assert (data["fill"] == LIGHT.ink).tolist() == (data["rank"] == 2).tolist()
    judged = data_of(charts.arrivals(matched(LATE[:4]), late=[2]), "rank", "fill")
    assert (judged["fill"] == LIGHT.late).tolist() == (judged["rank"] == 2).tolist()
    legend = next(each for each in figure.above if each.__class__.__name__ == "Legend")
    assert [item.label.value for item in legend.items] == ["rank 2, last in 4 of 4", "other ranks"]


def test_nobody_is_marked_without_a_reason():
    assert last_often(matched(LATE[:3])) == [], "three collectives tell nothing"
    turns = [[0, 0, 9], [0, 9, 0], [9, 0, 0], [0, 0, 9]]
    assert last_often(matched(turns)) == []
    cheap = [[0, 1, 2], [0, 1, 2], [0, 1, 2], [0, 9000, 1]]
    assert last_often(matched(cheap)) == [], "last most often, but little is waited for it"
    assert last_often(matched(LATE)) == [], "most is waited for rank 1, which is last once"
    assert last_often(matched(LATE[:4])) == [2]
    assert last_often(matched(LATE[:4]), late=[0, 77]) == [0]


def test_who_is_last_of_some_ranks_need_not_be_the_last():
    frame = matched(LATE[:4], ranks=3, group_size=128)
    assert last_often(frame) == []
    assert not data_of(charts.collectives(frame), "rank", "is_last")["is_last"].any()
    assert last_often(matched(LATE[:4], ranks=3, group_size=3)) == [2]
    assert last_often(matched(LATE[:4], ranks=3, group_size=-1)) == [2]


def test_many_arrivals_keep_the_latest_and_say_so():
    rng = np.random.default_rng(3)
    arrivals = (np.arange(5000)[:, None] * 1000 + rng.integers(0, 300, (5000, 5))).tolist()
    arrivals[1234][3] += 50_000
    figure = charts.arrivals(matched(arrivals))
    data = data_of(figure, "rank", "late_ns", "arrivals")
    assert len(data) < 20_000
    assert data["arrivals"].sum() == 25_000
    latest = data.iloc[int(data["late_ns"].argmax())]
    assert (latest["collective"], latest["rank"]) == (1234, 3)
    assert "25 000 arrivals, drawn as" in words_of(figure).replace("\u202f", " ")


def test_thinning_keeps_what_is_apart_and_the_highest_of_each_column():
    x = [0, 0.1, 0.2, 10, 10, 0]
    y = [1.0, 1.2, 1.1, 5.0, 0.0, 1.2]
    kept, stands_for = thinned(x, y, [0, 0, 0, 0, 0, 1], columns=2, rows=2)
    assert dict(zip(kept.tolist(), stands_for.tolist(), strict=True)) == {1: 3, 3: 1, 4: 1, 5: 1}


# --- heatmap ---


def test_cells_are_waits_and_who_comes_last_is_outlined():
    figure = charts.collectives(frames.collectives())
    data = data_of(figure, "rank", "collective", "wait_ns")
    data = data.sort_values(["collective", "rank"])
    assert data["wait_ns"].tolist() == [10, 0] * 3
    assert data["row"].tolist() == [0, 1] * 3
    assert data["left"].tolist() == [0, 0, 1, 1, 2, 2]
    assert data["is_last"].tolist() == [False, True] * 3
    assert (data["line"] == LIGHT.late).tolist() == [False, True] * 3
    assert right_of(figure) == ["in all", "30 ns", "0 ns"]


def test_lateness_counts_who_is_early_as_nothing():
    figure = charts.collectives(matched(LATE), measure="lateness")
    data = data_of(figure, "rank", "shown_ns").set_index(["collective", "rank"])
    data = data["shown_ns"].sort_index()
    assert data[:, 2].tolist() == [3, 30, 300, 3000, 0]
    assert "after the median" in words_of(figure)
    with pytest.raises(ValueError, match="wait, lateness"):
        charts.collectives(matched(LATE), measure="else")


def test_many_collectives_share_cells_and_keep_the_longest_wait():
    arrivals = [[0, 1, 2]] * 1001
    arrivals[700] = [0, 5000, 1]
    figure = charts.collectives(matched(arrivals))
    data = data_of(figure, "rank", "collective", "wait_ns")
    assert len(data) == 3 * 334
    assert "each cell the longest of 3" in words_of(figure)
    longest = data.nlargest(1, "wait_ns").iloc[0]
    assert (longest["collective"], longest["rank"], longest["wait_ns"]) == (700, 0, 5000)
    assert longest["left"] == 699
    assert data["right"].max() == 1002
    # The sum of all waits does not change.
    assert right_of(figure)[1] == "7.00 µs"


def test_late_ranks_are_outlined_as_a_whole_where_cells_are_narrow():
    arrivals = [[0, 1, 400]] * 200
    assert outlined_rows(charts.collectives(matched(arrivals))) == [1.6]


@pytest.mark.parametrize("ranks", [64, 1024])
def test_many_ranks_are_one_image_with_a_row_each(ranks):
    slow = ranks - 3
    arrivals = [[5000 if rank == slow else rank % 7 for rank in range(ranks)]] * 200
    figure = charts.collectives(matched(arrivals))
    (image,) = [each for each in figure.renderers if isinstance(each.glyph, Image)]
    shown = image.data_source.data["shown_us"][0]
    assert shown.shape == (ranks, 200)
    assert shown[slow].max() == 0
    assert shown[8].tolist() == [np.float32(4.999)] * 200
    per_rank = data_of(figure, "rank", "wait_ns", "collectives")
    assert per_rank["wait_ns"][8] == 4999 * 200
    assert per_rank["last"].tolist() == [200 if rank == slow else 0 for rank in range(ranks)]
    assert f"rank {slow}" in figure.yaxis[0].major_label_overrides.values()
    assert outlined_rows(figure)
    assert figure.frame_height <= 1100


# --- clocks ---


def test_offsets_carry_their_residuals():
    figure = charts.clock_offsets(frames.clock_offsets())
    data = data_of(figure, "rank", "offset_ns", "residual_ns")
    assert data["offset_us"].tolist() == [0, -2, 50]
    assert data["residual_from_us"].tolist() == [-0.01, -2.04, 50]
    assert data["recorded_residual_to_us"].tolist() == [2, 1, 50]
    assert right_of(figure, 0) == ["offset", "±0 ns", "−2.00 µs", "–"]
    assert right_of(figure, 1) == ["fitted", "±10 ns", "±40 ns", "–"]
    said = words_of(figure)
    assert "nothing is known of 1 rank" in said
    assert "2 parts, between which nothing is known" in said


# --- steps ---


def test_who_takes_longer_than_the_median_rank_stands_out():
    figure = charts.step_times(frames.step_times())
    data = data_of(figure, "rank", "step", "own_ns", "apart")
    assert data["is_outlier"].sum() == 1
    one = data[data["is_outlier"]].iloc[0]
    assert (one["rank"], one["step"], one["fill"]) == (4, 1, LIGHT.ink)
    marked = data_of(charts.step_times(frames.step_times(), late=[2]), "rank", "fill")
    assert set(marked.loc[marked["fill"] == LIGHT.late, "rank"]) == {2}
    assert right_of(figure, 0) == ["stands out", "\u200b", "rank 4 +25 %"]
    assert right_of(figure, 1) == ["median rank", "1.00 µs", "1.00 µs"]
    assert "rank 4 in single steps" in words_of(figure)


def test_whole_steps_hide_who_is_slow_and_the_chart_says_that_waits_count():
    figure = charts.step_times(frames.step_times(), measure="dur")
    assert "no rank stands out" in words_of(figure)
    assert "waits included" in words_of(figure)
    with pytest.raises(ValueError, match="own, dur"):
        charts.step_times(frames.step_times(), measure="else")


def test_no_outlier_of_many_dots_is_lost():
    frame = pd.concat([frames.step_times()] * 3000, ignore_index=True)
    frame["rank"] = np.arange(len(frame)) // 2
    figure = charts.step_times(frame)
    data = data_of(figure, "rank", "apart")
    assert data["is_outlier"].sum() == 3000
    assert len(data) < 20_000
    assert "outliers all" in words_of(figure)


# --- stragglers ---


def test_the_straggler_comes_first_with_its_cause():
    figure = charts.stragglers(frames.stragglers())
    data = data_of(figure, "rank", "score", "imposed_wait_ns")
    assert data["rank"].tolist() == [1, 0]
    assert data["line"].tolist() == [LIGHT.late, LIGHT.idle_line]
    assert right_of(figure, 0)[:2] == ["because of", "slower kernels"]
    said = words_of(figure)
    assert "rank 1 is late" in said
    assert "the others wait 90.0\u2009µs together" in said
    without = frames.stragglers().assign(is_straggler=False)
    assert "none of 2 ranks is a straggler" in words_of(charts.stragglers(without))


def test_many_ranks_share_a_row_but_no_straggler_does():
    count = 1024
    frame = pd.DataFrame(
        {
            "rank": np.arange(count),
            "score": 0.0,
            "late_ns_mean": 0.0,
            "imposed_wait_ns": np.arange(count),
            "lost_ns": 0,
            "lost_share": 0.0,
            "is_straggler": np.arange(count) == 3,
            "pattern": np.where(np.arange(count) == 3, "occasional", ""),
            "cause": np.where(np.arange(count) == 3, "data loading", ""),
        }
    )
    figure = charts.stragglers(frame)
    data = data_of(figure, "rank", "imposed_wait_ns")
    assert data["rank"].tolist() == [*range(1023, 1007, -1), 3, -1]
    assert data["imposed_wait_ns"].sum() == frame["imposed_wait_ns"].sum()
    assert right_of(figure, 0)[17] == "data loading, at times"
    assert figure.yaxis[0].major_label_overrides[17] == "1\u202f007 other ranks"


# --- clusters ---


def test_clusters_are_rows_with_outliers_on_top():
    figure = charts.rank_clusters(frames.rank_clusters())
    data = data_of(figure, "cluster", "representative", "compute_ns")
    assert data["cluster"].tolist() == [1, 0]
    assert data["ranks"].tolist() == [1, 3]
    assert data["compute_ns"].tolist() == [900, 630]
    assert data["row"].tolist() == [0, 3], "two rows say what differs"
    assert figure.yaxis[0].major_label_overrides[3] == "ranks 0, 1, 3"
    # compute, transfer, waits, idle, and what of the step is none of them
    parts = data[["compute", "transfer", "waits", "idle", "rest of the step"]].to_numpy()
    assert parts.tolist() == [[900, 900, 900, 1000, 1000], [630, 680, 830, 930, 1000]]
    assert right_of(figure, 0)[1:] == ["1", "\u200b", "\u200b", "3"]
    assert "rank 2 is an outlier" in words_of(figure)


def test_what_differs_is_drawn_below_the_bar():
    figure = charts.rank_clusters(frames.rank_clusters(), width=2000)
    texts = data_of(figure, "full", "text")
    assert texts["row"].tolist() == [1, 2]
    assert texts["full"][1] == "waits 9 % of a step less"
    assert "$$" not in "".join(texts["text"])


def test_a_thousand_ranks_are_few_rows():
    count = 1024
    frame = frames.rank_clusters().iloc[[0] * count].reset_index(drop=True)
    frame["rank"] = frame["cluster"] = frame["representative"] = np.arange(count)
    frame["cluster"] = frame["rank"] % 2
    frame["representative"] = frame["rank"] % 2
    figure = charts.rank_clusters(frame)
    assert len(data_of(figure, "cluster", "ranks")) == 2
    assert "512 like rank 1" in figure.yaxis[0].major_label_overrides.values()
    assert "no outliers" in words_of(figure)


@pytest.mark.parametrize(
    ("ranks", "words"),
    [
        ([5], "rank 5"),
        ([1, 0], "ranks 0, 1"),
        ([0, 1, 2, 4], "ranks 0–2, 4"),
        ([0, 2, 4, 6, 7, 8], "ranks 0, 2, 4 and 3 more"),
    ],
)
def test_ranks_are_listed_as_runs(ranks, words):
    assert listed(ranks) == words


# --- the path across ranks ---


def test_the_path_has_a_lane_a_rank_and_lines_where_it_changes():
    figure = charts.job_critical_path(frames.job_path())
    data = data_of(figure, "rank", "start_ns", "end_ns", "bound_by")
    assert data["row"].tolist() == [1, 0, 0, 1]
    assert data["dur_ns"].sum() == 1000
    assert right_of(figure) == ["of the path", "10 % · 100 ns", "90 % · 900 ns"]
    lines = [each for each in figure.renderers if isinstance(each.glyph, Segment)]
    found = next(each.data_source.data for each in lines if "y0" in each.data_source.data)
    assert np.stack([found["x"], found["y0"], found["y1"]]).T.tolist() == [
        [1600, 1, 0],
        [1700, 0, 1],
    ]
    assert "90\u2009% of it is on rank 3, compute is 60\u2009% of it" in words_of(figure)
    assert "it changes ranks 2 times" in words_of(figure)


def test_paths_over_many_ranks_share_a_lane_and_lose_no_time(monkeypatch):
    monkeypatch.setattr("hta_widgets.charts.paths._MOST_SEGMENTS", 50)
    count = 100
    frame = pd.DataFrame(
        {
            "rank": np.repeat(np.arange(count), 4),
            "start_ns": np.arange(4 * count) * 10,
            "dur_ns": 10,
            "id": 1,
            "name": "k",
            "bound_by": ["cpu_bound", "cpu_bound", "gpu_compute_bound", "gpu_compute_bound"]
            * count,
        }
    )
    figure = charts.job_critical_path(frame)
    data = data_of(figure, "rank", "start_ns", "dur_ns", "bound_by")
    assert len(data) == 2 * count
    assert data["dur_ns"].sum() == 4000
    assert set(data["row"]) == set(range(25))
    assert right_of(figure)[-1] == "76 % · 3.04 µs"
    assert re.search("400 segments, those of one rank and cause", words_of(figure))


def test_shares_of_the_path_are_stacked_by_rank():
    figure = charts.job_path_summary(frames.job_path_parts())
    data = data_of(figure, "rank", "bound_by", "dur_ns")
    assert data["rank"].tolist() == [3, 3, 0, 0]
    assert data[["from", "to"]].to_numpy().tolist() == [[0, 600], [600, 900], [0, 50], [50, 100]]
    assert right_of(figure) == ["of the path", "90 %", "10 %"]
    assert "more than half of it is on rank 3" in words_of(figure)
