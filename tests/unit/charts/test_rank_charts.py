"""Charts of ranks, groups, formats and two runs, from small frames."""

import re

import numpy as np
import pandas as pd
import pytest
from bokeh.models import Image, Quad, Segment
from support import chart_frames as frames
from support.chart_reading import data_of, right_of, words_of

from hta_widgets import charts
from hta_widgets.charts.data import (
    groups_of_ranks,
    median_of,
    most_often_last,
    thin_points,
)
from hta_widgets.text import rank_list

pytestmark = pytest.mark.slow

LIGHT = charts.LIGHT


def matched(arrivals, **columns) -> pd.DataFrame:
    """Return rows of `analysis.collectives`; `arrivals` has one list of ranks per collective."""
    rows = [
        {
            "collective": number, "name": "AllReduce", "group": "0", "size_bytes": -1, "rank": rank,
            "id": number, "arrival_ns": at, "wait_ns": last - at, "transfer_ns": 5,
            "end_ns": last + 5, "busbw_gb_s": np.nan, "last_rank": last_rank,
        }
        for number, each in enumerate(arrivals)
        for last in [max(each)]
        for last_rank in [each.index(last) if each.count(last) == 1 else -1]
        for rank, at in enumerate(each)
    ]  # fmt: skip
    return pd.DataFrame(rows).assign(**columns)


#: Rank 2 is last in four of five collectives, by 3, 30, 300 and 3000 after the median.
LATE = [[0, 1, 4], [100, 101, 131], [1000, 1001, 1301], [9000, 9001, 12_001], [20_000, 20_002, 5]]


def outlined_rows(figure) -> list[float]:
    result = [each for each in figure.renderers if isinstance(each.glyph, Quad)]
    return sorted({float(top) for each in result for top in each.data_source.data["top"]})


def row_names(figure) -> list[str]:
    return [text for text in figure.yaxis[0].major_label_overrides.values() if text.strip()]


@pytest.mark.parametrize(
    ("draw", "frame", "words"),
    [
        (charts.collectives, matched(LATE), "'wait' or 'lateness'"),
        (charts.step_times, frames.step_times(), "'own' or 'dur'"),
        (charts.stragglers_by_step, frames.stragglers_by_step(), "'lost_share' or 'imposed_wait'"),
        (charts.mpi_message_sizes, frames.mpi_message_sizes(), "'calls', 'time' or 'bytes'"),
    ],
)
def test_an_unknown_measure_is_an_error(draw, frame, words):
    with pytest.raises(ValueError, match=f"{words}, not 'else'"):
        draw(frame, measure="else")


# --- arrivals ---
def test_lateness_is_against_the_median_of_the_collective():
    data = data_of(charts.arrivals(matched(LATE)), "rank", "arrival_ns", "late_ns")
    by_rank = data.set_index(["collective", "rank"])["late_ns"].sort_index()
    assert by_rank[:, 2].tolist() == [3, 30, 300, 3000, -19_995]
    assert by_rank[:, 1].tolist() == [0, 0, 0, 0, 2]
    # For an even number of ranks, the median is the mean of two.
    assert median_of([4, 0, 2, 10, 7], [1, 1, 1, 1, 0]).tolist() == [3, 3, 3, 3, 7]


def test_who_is_last_most_of_the_time_is_colored_and_named():
    figure = charts.arrivals(matched(LATE[:4]))
    data = data_of(figure, "rank", "fill")
    assert (data["fill"] == LIGHT.ink).tolist() == (data["rank"] == 2).tolist()
    judged = data_of(charts.arrivals(matched(LATE[:4]), late=[2]), "rank", "fill")
    assert (judged["fill"] == LIGHT.late).tolist() == (judged["rank"] == 2).tolist()
    legend = next(each for each in figure.above if each.__class__.__name__ == "Legend")
    assert [item.label.value for item in legend.items] == ["rank 2, last in 4 of 4", "other ranks"]


def test_nobody_is_marked_without_a_reason():
    assert most_often_last(matched(LATE[:3])) == [], "three collectives tell nothing"
    turns = [[0, 0, 9], [0, 9, 0], [9, 0, 0], [0, 0, 9]]
    assert most_often_last(matched(turns)) == []
    cheap = [[0, 1, 2], [0, 1, 2], [0, 1, 2], [0, 9000, 1]]
    assert most_often_last(matched(cheap)) == [], "last most often, but little is waited for it"
    assert most_often_last(matched(LATE)) == [], "most is waited for rank 1, which is last once"
    assert most_often_last(matched(LATE[:4])) == [2]
    assert most_often_last(matched(LATE[:4]), late=[0, 77]) == [0]
    # The last of a few ranks need not be the last of all.
    frame = matched(LATE[:4], ranks=3, group_size=128)
    assert most_often_last(frame) == []
    assert not data_of(charts.collectives(frame), "rank", "is_last")["is_last"].any()
    assert most_often_last(matched(LATE[:4], ranks=3, group_size=3)) == [2]
    assert most_often_last(matched(LATE[:4], ranks=3, group_size=-1)) == [2]


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
    remaining, stands_for = thin_points(x, y, [0, 0, 0, 0, 0, 1], columns=2, rows=2)
    assert dict(zip(remaining.tolist(), stands_for.tolist(), strict=True)) == {
        1: 3,
        3: 1,
        4: 1,
        5: 1,
    }


# --- heatmap ---
def test_cells_are_waits_and_who_comes_last_is_outlined():
    figure = charts.collectives(frames.collectives())
    data = data_of(figure, "rank", "collective", "wait_ns").sort_values(["collective", "rank"])
    assert data[["wait_ns", "row", "left", "is_last"]].to_numpy().tolist() == [
        [10 * (1 - rank), rank, number, rank == 1] for number in range(3) for rank in (0, 1)
    ]
    assert (data["line"] == LIGHT.late).tolist() == [False, True] * 3
    assert right_of(figure) == ["total", "30 ns", "0 ns"]


def test_lateness_counts_who_is_early_as_nothing():
    figure = charts.collectives(matched(LATE), measure="lateness")
    data = data_of(figure, "rank", "shown_ns").set_index(["collective", "rank"])["shown_ns"]
    assert data.sort_index()[:, 2].tolist() == [3, 30, 300, 3000, 0]
    assert "after the median" in words_of(figure)


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
    # The sum of all waits stays the same.
    assert right_of(figure)[1] == "7.00 µs"
    # If cells are narrow, the whole row of a late rank is outlined.
    assert outlined_rows(charts.collectives(matched([[0, 1, 400]] * 200))) == [1.6]


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


# --- steps ---
def test_who_takes_longer_than_the_median_rank_stands_out():
    figure = charts.step_times(frames.step_times())
    data = data_of(figure, "rank", "step", "own_ns", "apart")
    assert data["is_outlier"].sum() == 1
    single = data[data["is_outlier"]].iloc[0]
    assert (single["rank"], single["step"], single["fill"]) == (4, 1, LIGHT.ink)
    marked = data_of(charts.step_times(frames.step_times(), late=[2]), "rank", "fill")
    assert set(marked.loc[marked["fill"] == LIGHT.late, "rank"]) == {2}
    assert right_of(figure, 0) == ["stands out", "\u200b", "rank 4 +25 %"]
    assert right_of(figure, 1) == ["median rank", "1.00 µs", "1.00 µs"]
    assert "rank 4 in individual steps" in words_of(figure)


def test_no_outlier_of_many_dots_is_lost():
    frame = pd.concat([frames.step_times()] * 3000, ignore_index=True)
    frame["rank"] = np.arange(len(frame)) // 2
    figure = charts.step_times(frame)
    data = data_of(figure, "rank", "apart")
    assert data["is_outlier"].sum() == 3000
    assert len(data) < 20_000
    assert "with all outliers" in words_of(figure)


# --- stragglers ---
def test_many_ranks_share_a_row_but_no_straggler_does():
    rank = np.arange(1024)
    late = {"score": 0.0, "late_ns_mean": 0.0, "imposed_wait_ns": rank, "lost_ns": 0}
    frame = pd.DataFrame({"rank": rank, **late, "lost_share": 0.0, "is_straggler": rank == 3})
    frame["pattern"] = np.where(rank == 3, "occasional", "")
    frame["cause"] = np.where(rank == 3, "data loading", "")
    figure = charts.stragglers(frame)
    data = data_of(figure, "rank", "imposed_wait_ns")
    assert data["rank"].tolist() == [*range(1023, 1007, -1), 3, -1]
    assert data["imposed_wait_ns"].sum() == frame["imposed_wait_ns"].sum()
    assert right_of(figure, 0)[17] == "data loading, at times"
    assert figure.yaxis[0].major_label_overrides[17] == "1\u202f007 other ranks"


# --- clusters ---
def test_what_differs_is_drawn_below_the_bar():
    figure = charts.rank_clusters(frames.rank_clusters(), width=2000)
    texts = data_of(figure, "full", "text")
    assert texts["row"].tolist() == [1, 2]
    assert texts["full"][1] == "waits for 9 % less of a step"
    assert "$$" not in "".join(texts["text"])
    assert row_names(figure) == ["rank 2", "ranks 0, 1, 3"]


def test_a_thousand_ranks_are_few_rows():
    frame = frames.rank_clusters().iloc[[0] * 1024].reset_index(drop=True)
    frame["rank"] = np.arange(1024)
    frame["cluster"] = frame["representative"] = frame["rank"] % 2
    figure = charts.rank_clusters(frame)
    assert len(data_of(figure, "cluster", "ranks")) == 2
    assert "512 like rank 1" in figure.yaxis[0].major_label_overrides.values()
    assert "no outliers" in words_of(figure)


def test_ranks_are_listed_as_runs():
    assert rank_list([5]) == "rank 5"
    assert rank_list([1, 0]) == "ranks 0, 1"
    assert rank_list([0, 1, 2, 4]) == "ranks 0–2, 4"
    assert rank_list([0, 2, 4, 6, 7, 8]) == "ranks 0, 2, 4 and 3 more"


# --- the path across ranks ---
def test_the_path_has_a_lane_a_rank_and_lines_where_it_changes():
    figure = charts.job_critical_path(frames.job_path())
    data = data_of(figure, "rank", "start_ns", "end_ns", "bound_by")
    assert data["row"].tolist() == [1, 0, 0, 1]
    assert data["dur_ns"].sum() == 1000
    assert right_of(figure) == ["of the path", "10 % · 100 ns", "90 % · 900 ns"]
    lines = [each for each in figure.renderers if isinstance(each.glyph, Segment)]
    result = next(each.data_source.data for each in lines if "y0" in each.data_source.data)
    changes = np.stack([result["x"], result["y0"], result["y1"]]).T.tolist()
    assert changes == [[1600, 1, 0], [1700, 0, 1]]
    assert "90\u202f% of it is on rank 3, compute is 60\u202f% of it" in words_of(figure)
    assert "the path changes ranks 2 times" in words_of(figure)


def test_paths_over_many_ranks_share_a_lane_and_lose_no_time(monkeypatch):
    monkeypatch.setattr("hta_widgets.charts.paths._MAX_SEGMENTS", 50)
    count = 100
    causes = ["cpu_bound", "cpu_bound", "gpu_compute_bound", "gpu_compute_bound"]
    frame = pd.DataFrame(
        {"rank": np.repeat(np.arange(count), 4), "start_ns": np.arange(4 * count) * 10,
         "dur_ns": 10, "id": 1, "name": "k", "bound_by": causes * count}
    )  # fmt: skip
    figure = charts.job_critical_path(frame)
    data = data_of(figure, "rank", "start_ns", "dur_ns", "bound_by")
    assert len(data) == 2 * count
    assert data["dur_ns"].sum() == 4000
    assert set(data["row"]) == set(range(25))
    assert right_of(figure)[-1] == "76 % · 3.04 µs"
    assert re.search("400 segments; adjacent ones of one rank and cause", words_of(figure))


def many_groups(ranks: int, wide: int) -> pd.DataFrame:
    """Return tensor groups of `wide` neighboring ranks; ranks take their group number in ns."""
    rank = np.arange(ranks)
    return pd.DataFrame(
        {"group": (rank // wide).astype(str), "rank": rank, "ranks": "", "position": rank % wide,
         "size": wide, "kind": "tensor", "guessed": False, "time_ns": rank // wide, "bytes": 100}
    )  # fmt: skip


# --- groups ---
def test_a_rank_has_a_cell_in_the_column_of_each_kind():
    figure = charts.parallel_groups(frames.parallel_groups())
    data = data_of(figure, "rank", "group", "text").set_index(["x", "row"])["text"].sort_index()
    assert data[0].tolist() == ["0 · 0", "0 · 1", "1 · 0", "1 · 1"], "tensor"
    assert data[1].tolist() == ["0 · 0 ?", "1 · 0 ?", "0 · 1 ?", "1 · 1 ?"], "data"
    assert data[2].tolist() == ["0 · 0", "0 · 1", "0 · 2", "0 · 3"], "all"
    heads = figure.xaxis[0].major_label_overrides
    assert list(heads.values()) == ["tensor", "data ?", "all"]
    # The time of a group's ranks is shown at the right.
    assert right_of(figure)[:3] == ["tensor", "1.00 µs · 2.00 kB", "2.00 µs · 2.00 kB"]
    assert right_of(figure, 1)[:2] == ["data ?", "1.00 µs · –"]
    text = words_of(figure)
    assert "5 groups: 2 tensor groups of 2, 2 data groups of 2, one of all ranks" in text
    assert "?: kind guessed" in text


def test_cells_of_one_color_are_one_group():
    data = data_of(charts.parallel_groups(frames.parallel_groups()), "rank", "group", "fill")
    for _, column in data.groupby("x"):
        assert len(column[["group", "fill"]].drop_duplicates()) == column["group"].nunique()
        assert column["fill"].nunique() == column["group"].nunique()


def test_other_kinds_of_groups():
    frame = frames.parallel_groups()
    kind = frame["kind"].astype(str)
    # Two groups of one kind have two columns.
    heads = charts.parallel_groups(frame.assign(kind=kind.replace("all", "data"))).xaxis[0]
    assert list(heads.major_label_overrides.values()) == ["tensor", "data ?", "data 2"]
    # Unknown kinds are not marked as guesses.
    figure = charts.parallel_groups(frame.assign(kind=kind.replace("data", "unknown")))
    assert "unknown" in figure.xaxis[0].major_label_overrides.values()
    assert "?" not in words_of(figure)
    # If there are several groups of all ranks, their number is shown.
    both = pd.concat([frame, frame[kind == "all"].assign(group="5")], ignore_index=True)
    assert "2 of all ranks" in words_of(charts.parallel_groups(both))


def test_groups_have_rows_where_ranks_are_too_many():
    figure = charts.parallel_groups(many_groups(128, 4))
    data = data_of(figure, "group", "run").sort_values("row")
    places = [[row, 4 * row, 4 * row + 4] for row in range(32)]
    assert data[["row", "left", "right"]].to_numpy().tolist() == places
    assert data["run"].iloc[1] == "ranks 4–7"
    assert right_of(figure)[:4] == ["time", "0 ns", "1 ns", "2 ns"]


def test_of_many_groups_those_with_most_time_have_a_row():
    figure = charts.parallel_groups(many_groups(1024, 2))
    names = row_names(figure)
    assert names[0] == "tensor group 473"
    assert names[-2:] == ["tensor group 511", "tensor: 473 more"]
    data = data_of(figure, "group", "run")
    assert (data["right"] - data["left"]).sum() == 1024, "no rank is lost"
    assert "of 512 groups, those with the most time have a row" in words_of(figure)


def test_scattered_groups_are_a_bar_a_rank():
    frame = many_groups(128, 2).assign(group=[str(rank % 64) for rank in range(128)])
    data = data_of(charts.parallel_groups(frame), "group", "run")
    own = data.loc[data["group"] == "5", ["left", "run"]]
    assert own.to_numpy().tolist() == [[5, "rank 5"], [69, "rank 69"]]


# --- steps by group ---
def test_the_first_kind_of_several_groups_is_taken():
    names, numbers = groups_of_ranks(frames.parallel_groups(), [3, 0, 2, 9])
    assert names == ["tensor 0", "tensor 1"]
    assert numbers.tolist() == [1, 0, 1, -1]
    frame = frames.parallel_groups()
    names, numbers = groups_of_ranks(frame[frame["kind"] == "data"], [0, 1, 2, 3])
    assert names == ["data 0", "data 1"]
    assert numbers.tolist() == [0, 1, 0, 1]


def test_steps_are_ordered_by_group():
    figure = charts.step_times(frames.step_times(), groups=frames.parallel_groups())
    assert row_names(figure) == [
        f"{each} · step {step}" for each in ("tensor 0", "tensor 1", "no group") for step in (0, 1)
    ]
    data = data_of(figure, "rank", "step", "of_group")
    assert dict(zip(data["rank"], data["row"] // 2, strict=True)) == {0: 0, 1: 0, 2: 1, 3: 1, 4: 2}
    assert (data["row"] % 2 == data["step"]).all()
    plain = data_of(charts.step_times(frames.step_times()), "rank", "step", "is_outlier")
    judged = [each.sort_values(["rank", "step"])["is_outlier"].tolist() for each in (data, plain)]
    assert judged[0] == judged[1], "who stands out is judged among all ranks of a step"
    # With too many steps, each group has a single row.
    frame = frames.step_times()
    many = [frame.assign(step=frame["step"] + 2 * at) for at in range(20)]
    many = pd.concat(many, ignore_index=True)
    figure = charts.step_times(many, groups=frames.parallel_groups())
    assert row_names(figure) == ["tensor 0", "tensor 1", "no group"]
    figure = charts.step_times(frame, groups=frames.parallel_groups().iloc[:0])
    assert "no group · step 0" in row_names(figure)


# --- stragglers by step ---
def test_cells_tell_always_from_once():
    figure = charts.stragglers_by_step(frames.stragglers_by_step())
    data = data_of(figure, "rank", "step", "lost_share").set_index(["rank", "left"]).sort_index()
    assert data["is_costly"].tolist() == [False] * 3 + [True] * 3 + [False, False, True]
    assert right_of(figure)[-2:] == ["3 of 3", "1 of 3"]
    assert data.loc[(2, 2), "fill"] == charts.LIGHT.late
    assert data.loc[(1, 0), "fill"] != data.loc[(0, 0), "fill"]
    assert "rank 1 costs 5\u202f% or more in most, rank 2 at times" in words_of(figure)
    assert list(figure.xaxis[0].major_label_overrides.values()) == ["5", "6", "7"]


@pytest.mark.parametrize(
    ("ranks", "words"),
    [
        ([0, 2], "rank 2 costs 5 % or more only in step 7"),
        ([0, 1], "rank 1 costs 5 % or more in each of 3 steps"),
        ([0], "none costs 5 % of a step or more"),
    ],
)
def test_who_costs_what_is_named(ranks, words):
    frame = frames.stragglers_by_step()
    frame = frame[frame["rank"].isin(ranks)]
    assert words in words_of(charts.stragglers_by_step(frame)).replace("\u202f", " ")
    frame.attrs["steps"] = "none"
    text = words_of(charts.stragglers_by_step(frame))
    assert "3 stretches from left to right" in text
    assert "steps" not in text


def test_the_setup_is_in_no_step():
    """Collectives before the first step have step -1, and may cost more than any step."""
    frame = frames.stragglers_by_step()
    setup = frame[frame["step"] == 5].assign(step=-1, lost_share=0.9, lost_ns=10**9)
    both = pd.concat([setup, frame], ignore_index=True)
    both.attrs = {**frame.attrs, "steps": "stretches"}
    figure = charts.stragglers_by_step(both)
    assert sorted(set(data_of(figure, "rank", "step", "lost_share")["step"])) == [5, 6, 7]
    assert list(figure.xaxis[0].major_label_overrides.values()) == ["5", "6", "7"]
    text = words_of(figure)
    assert "3 stretches from left to right" in text
    assert "collectives outside the steps are left out" in text
    only_setup = words_of(charts.stragglers_by_step(both[both["step"] < 0]))
    assert "Collectives outside the steps are left out" in only_setup


def test_of_many_ranks_the_costliest_have_a_row_and_cells_are_the_costliest_step():
    rank, step = np.divmod(np.arange(100 * 700), 700)
    frame = pd.DataFrame({"rank": rank, "step": step, "lost_share": 0.0})
    frame.loc[(rank == 77) & (step == 301), "lost_share"] = 0.4
    frame["lost_ns"] = frame["imposed_wait_ns"] = (frame["lost_share"] * 1000).astype(int)
    figure = charts.stragglers_by_step(frame)
    data = data_of(figure, "rank", "step", "lost_share")
    assert len(data) == 17 * 234
    costly = data.loc[data["lost_share"] > 0, ["rank", "step", "left", "right"]]
    assert costly.to_numpy().tolist() == [[77, 301, 300, 303]]
    names = row_names(figure)
    assert "rank 77" in names
    assert names[-1] == "84 other ranks"
    assert "each cell the costliest of 3" in words_of(figure)


def test_one_step_a_side_has_no_mean():
    alone = frames.run_steps()[:1]
    alone.attrs["p_value"] = None
    figure = charts.diff_steps(alone)
    assert len(data_of(figure, "before_ns", "label")) == 1
    assert "with one step per side, no p-value can be computed" in words_of(figure)


def test_who_is_last_has_the_color_of_who_is_late():
    figure = charts.byteps_arrivals(frames.byteps_arrivals())
    data = data_of(figure, "label", "fill")
    assert data["fill"].iloc[-1] == charts.LIGHT.late
    assert data["fill"].iloc[0] == charts.LIGHT.lane
    assert "node 11 (ps rank 1) is last 2 of 2 times" in words_of(figure)


@pytest.mark.parametrize(("measure", "darkest"), [("calls", 8), ("time", 8), ("bytes", 131_072)])
def test_sizes_are_shaded_by_the_measure(measure, darkest):
    figure = charts.mpi_message_sizes(frames.mpi_message_sizes(), measure=measure)
    data = data_of(figure, "size_hi", "fill")
    dark = data[data["fill"] == charts.LIGHT.busy[-1]]
    assert dark["size_hi"].tolist() == [darkest]
