"""Charts of two runs, against places worked out by hand."""

from support import chart_frames as frames
from support.chart_reading import data_of, right_of, words_of

from hta_widgets import charts


def test_bars_of_a_waterfall_begin_where_the_one_above_ends():
    figure = charts.diff_waterfall(frames.run_waterfall(), width=1000)
    data = data_of(figure, "low", "high", "diff_ns", "label")
    assert data["diff_ns"].tolist() == [400, -200, 50, 250]
    assert data["low"].tolist() == [0, 200, 200, 0]
    assert data["high"].tolist() == [400, 400, 250, 250]
    # An unchanged name has no bar; the total has one.
    assert data["label"].tolist()[-1] == "in all"
    assert data["before_ns"].tolist()[-1] == 950
    assert right_of(figure)[1:] == ["+400 ns", "\u2212200 ns", "+50 ns", "+250 ns"]
    assert "in 3 steps, mean over ranks" in words_of(figure)
    # Parts that are not drawn by themselves are one, so that the bars still add up.
    few = data_of(charts.diff_waterfall(frames.run_waterfall(), top=1), "low", "high", "diff_ns")
    assert few["diff_ns"].tolist() == [400, -150, 250]
    same = frames.run_waterfall()[3:]
    assert "Every part takes as long" in words_of(charts.diff_waterfall(same))


def test_steps_have_both_sides_and_their_spread():
    figure = charts.diff_steps(frames.run_steps(), width=1000)
    data = data_of(figure, "before_ns", "after_ns", "low", "high", "label")
    assert data["label"].tolist() == ["step 4", "step 5 → 6", "mean before", "mean after"]
    assert data["low"].tolist()[:2] == [1_000_000, 1_000_000]
    assert data["before_ns"].tolist()[2] == 1_050_000
    assert data["high"].tolist()[2:] == [1_050_000 + 70_710.7, 1_500_000 + 707_106.8]
    assert "in 52\u2009% of such pairs" in words_of(figure)
    alone = frames.run_steps()[:1]
    alone.attrs["p_value"] = None
    figure = charts.diff_steps(alone)
    assert len(data_of(figure, "before_ns", "label")) == 1
    assert "one step a side tells nothing of chance" in words_of(figure)


def test_changes_are_on_their_side_of_zero_with_what_became_of_them():
    figure = charts.diff_changes(frames.run_changes(), width=1200)
    data = data_of(figure, "name", "diff_ns", "fill")
    light = charts.LIGHT
    assert data["diff_ns"].tolist() == [1e6, -2e5, 0]
    assert data["fill"].tolist() == [light.delta[5], light.delta[1], light.delta[3]]
    assert right_of(figure)[1:] == ["slower · device and host", "removed", "moved"]
    assert "2 smaller changes not drawn" in words_of(
        charts.diff_changes(frames.run_changes(), top=1)
    )


def test_names_are_of_one_step():
    data = data_of(charts.diff_names(frames.run_names()), "name", "diff_ns", "before_count")
    assert data["diff_ns"].tolist() == [-450, 300, 250]
    assert data["before_count"].tolist() == [3, 0, 2.5]


def test_tiles_lie_side_by_side_below_their_caller():
    figure = charts.diff_icicle(frames.run_tree(), width=1000)
    data = data_of(figure, "row", "low", "high", "fill", "ink")
    # As wide as the mean of both runs: 400 and 100; below the first 200 and 100.
    assert data[["row", "low", "high"]].to_numpy().tolist() == [
        [0, 0, 400], [1, 0, 200], [1, 200, 300], [0, 400, 500],
    ]  # fmt: skip
    ramp = charts.LIGHT.delta
    # Longer by 67 %, the same, new, the same.
    assert data["fill"].tolist() == [ramp[5], ramp[3], ramp[6], ramp[3]]
    cut = charts.diff_icicle(frames.run_tree(), depth=1)
    assert "2 tiles of deeper levels not drawn" in words_of(cut)
