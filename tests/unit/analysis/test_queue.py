"""Queues of device streams, on cases that can be checked by hand."""

import numpy as np
import pytest
from support.small import call, copy, event, kernel, load

from hta_widgets.analysis import queue_length, queue_length_summary, time_blocked_on_full_queue
from hta_widgets.analysis.launches import queue_steps
from hta_widgets.analysis.scope import parts


@pytest.fixture
def job(tmp_path):
    # stream 7:  +100 +120 -130 -200       +300 (two of a graph) -320 -340
    # stream 0:       +150 -150 (starts as it is launched)
    # stream 9:  a kernel before its call, by its clock: never waits
    rank = [
        call(100, 110, 1), kernel(130, 190, launch=1),
        call(120, 125, 2, name="cudaMemcpyAsync"), copy(200, 210, launch=2),
        call(300, 310, 3, name="cudaGraphLaunch"),
        kernel(320, 330, launch=3), kernel(340, 345, launch=3),
        call(150, 160, 4, name="hipLaunchKernel"), kernel(150, 170, launch=4, stream=0),
        call(400, 410, 5), kernel(395, 405, launch=5, stream=9),
        call(500, 510, 6, name="cudaEventSynchronize"),
        event("cuda_sync", "Event Sync", 505, 506, tid=7, stream=7, correlation=6),
        kernel(600, 610, name="orphan"),
    ]  # fmt: skip
    return load(tmp_path, rank)


def rows(frame):
    return [tuple(row) for row in frame[["stream", "time_ns", "queue_length"]].to_numpy().tolist()]


def test_one_row_per_stream_and_instant_of_change(job):
    frame = queue_length(job)
    assert rows(frame) == [
        (0, 150, 0),
        (7, 100, 1), (7, 120, 2), (7, 130, 1), (7, 200, 0), (7, 300, 2), (7, 320, 1), (7, 340, 0),
        (9, 400, 0),
    ]  # fmt: skip
    assert list(frame.columns) == ["rank", "stream", "time_ns", "queue_length"]
    assert set(frame.dtypes.astype(str)) == {"int64"}
    assert frame.attrs["matched"] == {
        "compute": 6, "communication": 0, "memory": 1, "launched": 6,
    }  # fmt: skip
    assert (frame.attrs["unlaunched"], frame.attrs["early"]) == (1, 1)


def test_a_window_begins_with_what_waits(job):
    # Neither the first copy nor its call is in the window: it waits through all of it.
    assert rows(queue_length(job, window=(170, 180))) == [(0, 170, 0), (7, 170, 1)]
    assert rows(queue_length(job, window=(125, 321)))[1:] == [
        (7, 125, 2), (7, 130, 1), (7, 200, 0), (7, 300, 2), (7, 320, 1),
    ]  # fmt: skip
    assert rows(queue_length(job, selection=job.select("kind == 'memory'"))) == [
        (7, 120, 1), (7, 200, 0),
    ]  # fmt: skip
    assert queue_length(job, window=(50, 50)).empty


def test_every_change_has_its_event(job):
    (part,) = parts(job)
    steps = queue_steps(part)
    names = job[0].events["name"].astype(str)
    assert len(steps.row) == 2 * 6
    first = steps.streams.tolist().index(7)
    of_seven = steps.code == first
    assert names[steps.row[of_seven]].tolist() == [
        "cudaLaunchKernel", "cudaMemcpyAsync", "gemm", "Memcpy HtoD",
        "cudaGraphLaunch", "cudaGraphLaunch", "gemm", "gemm",
    ]  # fmt: skip
    assert steps.queue_length[of_seven].tolist() == [1, 2, 1, 0, 1, 2, 1, 0]
    assert set(steps.streams[steps.code]) == set(job[0].table.stream[steps.device_row])


def test_statistics_by_change_and_by_time(job):
    frame = queue_length_summary(job).set_index("stream")
    seven = frame.loc[7]
    values = [1, 2, 1, 0, 1, 2, 1, 0]
    assert seven["count"] == 8
    assert seven["mean"] == pytest.approx(np.mean(values))
    assert seven["std"] == pytest.approx(np.std(values, ddof=1))
    assert [seven[q] for q in ("min", "25%", "50%", "75%", "max")] == [0, 0.75, 1, 1.25, 2]
    # 1 for 20, 2 for 10, 1 for 70, 0 for 100, 2 for 20, 1 for 20: of 240
    assert seven["span_ns"] == 240
    assert seven["time_weighted_mean"] == pytest.approx((20 + 20 + 70 + 40 + 20) / 240)
    assert np.isnan(frame.loc[9, "time_weighted_mean"]), "no time passes between its changes"
    inside = queue_length_summary(job, window=(125, 250)).set_index("stream").loc[7]
    assert (inside["count"], inside["span_ns"]) == (2, 125)
    assert inside["time_weighted_mean"] == pytest.approx((2 * 5 + 70) / 125)


def test_blocked_time_counts_launches_of_a_full_queue(job):
    frame = time_blocked_on_full_queue(job, max_queue_length=1)
    # The graph is one launch, which waits from 300 to 320.
    assert frame.set_index("stream")["duration_ns"].to_dict() == {0: 0, 7: 100 + 20, 9: 0}
    assert frame["trace_ns"].tolist() == [600] * 3, "first start 0, last start 600"
    assert frame["share"].tolist() == [0, pytest.approx(0.2), 0]
    two = time_blocked_on_full_queue(job, max_queue_length=2).set_index("stream")
    assert two["duration_ns"].to_dict() == {0: 0, 7: 10, 9: 0}
    cut = time_blocked_on_full_queue(job, max_queue_length=1, window=(110, 310))
    assert cut.set_index("stream").loc[7][["duration_ns", "trace_ns"]].tolist() == [90 + 10, 200]


def test_1024_launches_fill_a_queue(tmp_path):
    many = 1030
    calls = [call(10 * n, 10 * n + 5, n + 1) for n in range(many)]
    first = 10 * many
    kernels = [kernel(first + 3 * n, first + 3 * n + 2, launch=n + 1) for n in range(many)]
    job = load(tmp_path, calls + kernels)
    assert queue_length(job)["queue_length"].max() == many
    frame = time_blocked_on_full_queue(job)
    # 1024 are there from the 1024th call on, until the 7th kernel starts.
    assert frame["duration_ns"].tolist() == [first + 3 * 6 - 10 * 1023]
    assert time_blocked_on_full_queue(job, max_queue_length=1031)["duration_ns"].tolist() == [0]


def test_a_queue_that_stays_just_below_the_limit_is_told(tmp_path):
    many = 1022
    calls = [call(10 * n, 10 * n + 5, n + 1) for n in range(many)]
    kernels = [kernel(50_000 + 3 * n, 50_000 + 3 * n + 2, launch=n + 1) for n in range(many)]
    job = load(tmp_path, calls + kernels)
    (row,) = time_blocked_on_full_queue(job).itertuples()
    # All 1022 wait from the last call at 10,210 to the first start at 50,000.
    assert (row.duration_ns, row.peak, row.at_peak_ns) == (0, 1022, 50_000 - 10_210)
    note = time_blocked_on_full_queue(job).attrs["note"]
    assert "of rank 0 stream 7" in note
    assert "1,022" in note
    assert "max_queue_length" in note
    assert "note" not in time_blocked_on_full_queue(job, max_queue_length=1022).attrs
    assert "note" not in time_blocked_on_full_queue(job, max_queue_length=1050).attrs
    (cut,) = time_blocked_on_full_queue(job, window=(0, 101)).itertuples()
    assert (cut.peak, cut.at_peak_ns) == (11, 1)


def test_the_mean_over_time_begins_with_the_first_change(job):
    # Stream 7 first changes at 100, and last at 340.
    frame = queue_length_summary(job, window=(50, 125)).set_index("stream")
    assert frame.loc[7, "span_ns"] == 25
    assert "note" not in frame.attrs


@pytest.mark.parametrize("window", [(5, 5), (2_000, 3_000)])
def test_a_window_that_holds_nothing_is_told(job, window):
    frame = queue_length_summary(job, window=window)
    assert frame["count"].tolist() == frame["span_ns"].tolist() == [0, 0, 0]
    assert "window holds nothing" in frame.attrs["note"]


def test_nothing_launched_is_an_empty_frame_with_a_reason(tmp_path):
    host = load(tmp_path, [call(0, 10)])
    for function in (queue_length, queue_length_summary, time_blocked_on_full_queue):
        frame = function(host)
        assert frame.empty
        assert "launch" in frame.attrs["note"]
        assert frame.attrs["matched"] == {
            "compute": 0, "communication": 0, "memory": 0, "launched": 0,
        }  # fmt: skip
        assert frame["stream"].dtype == np.int64
