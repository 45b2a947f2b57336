"""The charts of BytePS and MPI, from small frames."""

import pytest
from support import chart_frames as frames
from support.chart_reading import data_of, words_of

from hta_widgets import charts


def test_queue_work_and_tail_add_up_to_the_gradient():
    figure = charts.byteps_gradients(frames.byteps_gradients())
    data = data_of(figure, "tensor", "total_ns", "right_other")
    assert data["tensor"].tolist() == ["byteps.a", "byteps.a", "<b>", "<b>"]
    assert data["right_other"].tolist() == [40_000, 25_000, 20_000, 12_000]
    assert "byteps.a takes longest" in words_of(figure)


def test_waiting_for_the_root_is_no_queue():
    data = data_of(charts.byteps_stages(frames.byteps_stages()), "left_wait", "right_queue")
    assert data["right_wait"].tolist()[1] == 2_500
    assert data["right_queue"].isna().tolist() == [False, True, False]


def test_who_is_last_has_the_colour_of_who_is_late():
    figure = charts.byteps_arrivals(frames.byteps_arrivals())
    data = data_of(figure, "is_late", "fill")
    assert data["is_late"].tolist() == [False, False, True, True]
    assert data["fill"].iloc[-1] == charts.LIGHT.late
    assert data["fill"].iloc[0] == charts.LIGHT.lane
    assert "node 11 (ps rank 1) is last 2 of 2 times" in words_of(figure)


def test_the_rank_that_waits_least_is_marked_and_named():
    figure = charts.mpi_ranks(frames.mpi_ranks())
    data = data_of(figure, "rank", "right_late")
    assert data["rank"].tolist() == [1, 0, 3, 2]
    assert data["right_late"].notna().tolist() == [False, False, False, True]
    assert "rank 2 has the least time in MPI: the other 3 wait for it" in words_of(figure)


@pytest.mark.parametrize(
    ("measure", "darkest"), [("calls", "5–8"), ("time", "5–8"), ("bytes", "64")]
)
def test_sizes_are_shaded_by_the_measure(measure, darkest):
    figure = charts.mpi_message_sizes(frames.mpi_message_sizes(), measure=measure)
    data = data_of(figure, "size_text", "fill")
    dark = data[data["fill"] == charts.LIGHT.busy[-1]]
    assert [text.split("\u2009")[0].split(" ")[0] for text in dark["size_text"]] in (
        [darkest],
        [f"{darkest}–128"],
    )


def test_an_unknown_measure_is_an_error():
    with pytest.raises(ValueError, match="calls, time, bytes"):
        charts.mpi_message_sizes(frames.mpi_message_sizes(), measure="joules")
