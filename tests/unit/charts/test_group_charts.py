"""Charts of groups of ranks, and of what ranks cost in each step, from hand-written frames."""

import numpy as np
import pandas as pd
import pytest
from support import chart_frames as frames
from support.chart_reading import data_of, right_of, words_of

from hta_widgets import charts
from hta_widgets.charts.data import groups_of_ranks


def many_groups(ranks: int, wide: int) -> pd.DataFrame:
    """Tensor groups of `wide` neighbours; the time of a group's ranks is its number, in ns."""
    rank = np.arange(ranks)
    return pd.DataFrame(
        {
            "group": (rank // wide).astype(str),
            "rank": rank,
            "ranks": "",
            "position": rank % wide,
            "size": wide,
            "kind": "tensor",
            "guessed": False,
            "time_ns": rank // wide,
            "bytes": 100,
        }
    )


# --- groups ---


def test_a_rank_has_a_cell_in_the_column_of_each_kind():
    figure = charts.parallel_groups(frames.parallel_groups())
    data = data_of(figure, "rank", "group", "text").set_index(["x", "row"])["text"].sort_index()
    assert data[0].tolist() == ["0 · 0", "0 · 1", "1 · 0", "1 · 1"], "tensor"
    assert data[1].tolist() == ["0 · 0 ?", "1 · 0 ?", "0 · 1 ?", "1 · 1 ?"], "data"
    assert data[2].tolist() == ["0 · 0", "0 · 1", "0 · 2", "0 · 3"], "all"
    heads = figure.xaxis[0].major_label_overrides
    assert list(heads.values()) == ["tensor", "data ?", "all"]


def test_what_ranks_spend_in_a_group_is_at_the_right():
    figure = charts.parallel_groups(frames.parallel_groups())
    assert right_of(figure)[:3] == ["tensor", "1.00 µs · 2.00 kB", "2.00 µs · 2.00 kB"]
    assert right_of(figure, 1)[:2] == ["data ?", "1.00 µs · –"]
    said = words_of(figure)
    assert "5 groups: 2 tensor groups of 2, 2 data groups of 2, one of all ranks" in said
    assert "? is a guess" in said


def test_cells_of_one_colour_are_one_group():
    data = data_of(charts.parallel_groups(frames.parallel_groups()), "rank", "group", "fill")
    for _, column in data.groupby("x"):
        assert len(column[["group", "fill"]].drop_duplicates()) == column["group"].nunique()
        assert column["fill"].nunique() == column["group"].nunique()


def test_two_groups_of_one_kind_have_two_columns():
    frame = frames.parallel_groups()
    frame["kind"] = frame["kind"].astype(str).replace("all", "data")
    heads = charts.parallel_groups(frame).xaxis[0].major_label_overrides
    assert list(heads.values()) == ["tensor", "data ?", "data 2"]


def test_what_is_unknown_is_no_guess():
    frame = frames.parallel_groups()
    frame["kind"] = frame["kind"].astype(str).replace("data", "unknown")
    figure = charts.parallel_groups(frame)
    assert "unknown" in figure.xaxis[0].major_label_overrides.values()
    assert "?" not in words_of(figure)


def test_several_groups_of_all_ranks_are_counted():
    frame = frames.parallel_groups()
    again = frame[frame["kind"] == "all"].assign(group="5")
    said = words_of(charts.parallel_groups(pd.concat([frame, again], ignore_index=True)))
    assert "2 of all ranks" in said


def test_groups_have_rows_where_ranks_are_too_many():
    figure = charts.parallel_groups(many_groups(128, 4))
    data = data_of(figure, "group", "run").sort_values("row")
    assert data["row"].tolist() == list(range(32))
    assert data["left"].tolist() == list(range(0, 128, 4))
    assert data["right"].tolist() == list(range(4, 129, 4))
    assert data["run"].iloc[1] == "ranks 4–7"
    assert right_of(figure)[:4] == ["time", "0 ns", "1 ns", "2 ns"]


def test_of_many_groups_those_with_most_time_have_a_row():
    figure = charts.parallel_groups(many_groups(1024, 2))
    names = [text for text in figure.yaxis[0].major_label_overrides.values() if text.strip()]
    assert names[0] == "tensor group 473"
    assert names[-2:] == ["tensor group 511", "tensor: 473 more"]
    data = data_of(figure, "group", "run")
    assert (data["right"] - data["left"]).sum() == 1024, "no rank is lost"
    assert "those of 512 groups in which most is spent have a row" in words_of(figure)


def test_scattered_groups_are_a_bar_a_rank():
    frame = many_groups(128, 2).assign(group=[str(rank % 64) for rank in range(128)])
    data = data_of(charts.parallel_groups(frame), "group", "run")
    own = data[data["group"] == "5"]
    assert own["left"].tolist() == [5, 69]
    assert own["run"].tolist() == ["rank 5", "rank 69"]


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
    names = [text for text in figure.yaxis[0].major_label_overrides.values() if text.strip()]
    assert names == [
        f"{each} · step {step}" for each in ("tensor 0", "tensor 1", "no group") for step in (0, 1)
    ]
    data = data_of(figure, "rank", "step", "of_group")
    assert dict(zip(data["rank"], data["row"] // 2, strict=True)) == {0: 0, 1: 0, 2: 1, 3: 1, 4: 2}
    assert (data["row"] % 2 == data["step"]).all()
    plain = data_of(charts.step_times(frames.step_times()), "rank", "step", "is_outlier")
    key = ["rank", "step"]
    assert (
        data.sort_values(key)["is_outlier"].tolist()
        == plain.sort_values(key)["is_outlier"].tolist()
    ), "who stands out is judged among all ranks of a step"


def test_groups_of_too_many_steps_have_one_row():
    frame = frames.step_times()
    frame = pd.concat(
        [frame.assign(step=frame["step"] + 2 * at) for at in range(20)], ignore_index=True
    )
    figure = charts.step_times(frame, groups=frames.parallel_groups())
    names = [text for text in figure.yaxis[0].major_label_overrides.values() if text.strip()]
    assert names == ["tensor 0", "tensor 1", "no group"]


def test_no_groups_at_all_are_said():
    figure = charts.step_times(frames.step_times(), groups=frames.parallel_groups().iloc[:0])
    assert "no group · step 0" in figure.yaxis[0].major_label_overrides.values()


# --- stragglers by step ---


def test_cells_tell_always_from_once():
    figure = charts.stragglers_by_step(frames.stragglers_by_step())
    data = data_of(figure, "rank", "step", "lost_share").set_index(["rank", "left"]).sort_index()
    assert data["is_costly"].tolist() == [False] * 3 + [True] * 3 + [False, False, True]
    assert right_of(figure)[-2:] == ["3 of 3", "1 of 3"]
    assert data.loc[(2, 2), "fill"] == charts.LIGHT.late
    assert data.loc[(1, 0), "fill"] != data.loc[(0, 0), "fill"]
    assert "rank 1 costs 5\u2009% or more in most, rank 2 at times" in words_of(figure)
    assert list(figure.xaxis[0].major_label_overrides.values()) == ["5", "6", "7"]


def test_a_single_stall_is_named():
    frame = frames.stragglers_by_step()
    said = words_of(charts.stragglers_by_step(frame[frame["rank"] != 1]))
    assert "rank 2 costs 5\u2009% or more in step 7 alone" in said
    said = words_of(charts.stragglers_by_step(frame[frame["rank"] != 2]))
    assert "rank 1 costs 5\u2009% or more in each of 3 steps" in said
    said = words_of(charts.stragglers_by_step(frame[frame["rank"] == 0]))
    assert "none costs 5\u2009% of a step or more" in said


def test_stretches_are_no_steps():
    frame = frames.stragglers_by_step()
    frame.attrs["steps"] = "none"
    said = words_of(charts.stragglers_by_step(frame))
    assert "3 stretches from left to right" in said
    assert "steps" not in said


def test_waits_may_be_drawn_instead():
    figure = charts.stragglers_by_step(frames.stragglers_by_step(), measure="imposed_wait")
    data = data_of(figure, "rank", "step", "shown").set_index(["rank", "step"])["shown"]
    assert data[2, 7] == 1000
    assert "wait in collectives" in words_of(figure)
    with pytest.raises(ValueError, match="lost_share, imposed_wait"):
        charts.stragglers_by_step(frames.stragglers_by_step(), measure="else")


def test_of_many_ranks_the_costliest_have_a_row_and_cells_are_the_costliest_step():
    steps, ranks = 700, 100
    frame = pd.DataFrame(
        {"rank": np.repeat(np.arange(ranks), steps), "step": np.tile(np.arange(steps), ranks)}
    )
    frame["lost_share"] = 0.0
    frame.loc[(frame["rank"] == 77) & (frame["step"] == 301), "lost_share"] = 0.4
    frame["lost_ns"] = frame["imposed_wait_ns"] = (frame["lost_share"] * 1000).astype(int)
    figure = charts.stragglers_by_step(frame)
    data = data_of(figure, "rank", "step", "lost_share")
    assert len(data) == 17 * 234
    assert data[data["lost_share"] > 0][["rank", "step", "left", "right"]].to_numpy().tolist() == [
        [77, 301, 300, 303]
    ]
    names = [text for text in figure.yaxis[0].major_label_overrides.values() if text.strip()]
    assert "rank 77" in names
    assert names[-1] == "84 other ranks"
    assert "each cell the costliest of 3" in words_of(figure)
