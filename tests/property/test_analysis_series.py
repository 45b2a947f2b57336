"""Queues and bandwidth of random jobs, compared with counts at single instants."""

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from support.examples import examples
from support.small import call, copy, kernel, load

from hta_widgets.analysis import (
    launch_stats,
    memory_bandwidth,
    memory_bandwidth_summary,
    queue_length,
    queue_length_summary,
    time_blocked_on_full_queue,
)

RATE = "memory bandwidth (GB/s)"
TIMES = st.integers(0, 60)
LAUNCHES = st.lists(
    st.tuples(TIMES, st.integers(0, 5), st.lists(st.tuples(TIMES, st.integers(0, 2)), max_size=3)),
    max_size=12,
)
COPIES = st.lists(
    st.tuples(TIMES, st.integers(0, 20), st.sampled_from([0.1, 0.2, 1 / 3, 1e-9, 700.0])),
    max_size=12,
)
WINDOWS = st.none() | st.tuples(TIMES, TIMES).map(lambda pair: (min(pair), max(pair)))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("jobs")


def job_of(folder, launches):
    """Load a job; each launch has a start, a duration and (start, stream) of its work."""
    records = []
    for number, (start, dur, kernels) in enumerate(launches):
        at = 100 + start
        records.append(call(at, at + dur, number + 1, tid=number))
        for begin, stream in kernels:
            records.append(kernel(100 + begin, 103 + begin, launch=number + 1, stream=stream))
    return load(folder, records)


def waiting(launches, stream, time, *, once=False):
    """Count the items that wait at an instant, by event or by launch."""
    count = 0
    for start, _, kernels in launches:
        begins = [begin for begin, on in kernels if on == stream]
        begins = [min(begins)] if begins and once else begins
        count += sum(start <= time < begin for begin in begins)
    return count


@given(LAUNCHES, WINDOWS)
@settings(max_examples=examples(60))
def test_queues_are_those_that_counting_finds(folder, launches, window):
    job = job_of(folder, launches)
    requested = None if window is None else (100 + window[0], 100 + window[1])
    frame = queue_length(job, window=requested)
    streams = sorted({stream for _, _, kernels in launches for _, stream in kernels})
    low, high = (-1, 70) if window is None else window
    assert not frame.duplicated(["rank", "stream", "time_ns"]).any()
    assert (frame["queue_length"] >= 0).all()
    for stream in streams:
        own = frame[frame["stream"] == stream]
        value_at = dict(zip(own["time_ns"] - 100, own["queue_length"], strict=True))
        value = 0
        for time in range(low, high):
            value = value_at.pop(time, value)
            assert value == waiting(launches, stream, time)
        assert not value_at, "rows outside of the window"


@given(LAUNCHES, WINDOWS, st.integers(1, 3))
@settings(max_examples=examples(60))
def test_full_queues_and_means_are_those_that_counting_finds(folder, launches, window, limit):
    job = job_of(folder, launches)
    requested = None if window is None else (100 + window[0], 100 + window[1])
    low, high = (0, 70) if window is None else window
    blocked = time_blocked_on_full_queue(job, max_queue_length=limit, window=requested)
    for row in blocked.itertuples():
        full = [waiting(launches, row.stream, t, once=True) >= limit for t in range(low, high)]
        assert row.duration_ns == sum(full)
    for row in queue_length_summary(job, window=requested).itertuples():
        total = sum(waiting(launches, row.stream, t) for t in range(low, high))
        area = 0 if row.span_ns == 0 else row.time_weighted_mean * row.span_ns
        assert area == pytest.approx(total)


@given(LAUNCHES)
@settings(max_examples=examples(40))
def test_every_launched_kernel_has_one_row(folder, launches):
    frame = launch_stats(job_of(folder, launches))
    expected = sorted(
        (number + 1, stream, dur, 3, max(0, begin - start - dur))
        for number, (start, dur, kernels) in enumerate(launches)
        for begin, stream in kernels
    )
    columns = ["correlation", "stream", "cpu_dur_ns", "gpu_dur_ns", "launch_delay_ns"]
    assert sorted(map(tuple, frame[columns].to_numpy().tolist())) == expected


@given(COPIES, WINDOWS)
@settings(max_examples=examples(80))
def test_bandwidth_is_the_sum_of_what_runs(folder, copies, window):
    job = load(folder, [copy(100 + a, 100 + a + dur, **{RATE: rate}) for a, dur, rate in copies])
    requested = None if window is None else (100 + window[0], 100 + window[1])
    low, high = (0, 90) if window is None else window
    frame = memory_bandwidth(job, window=requested)
    assert not frame.duplicated(["rank", "copy_kind", "time_ns"]).any()
    value_at = dict(zip(frame["time_ns"] - 100, frame["gb_per_s"], strict=True))
    value = area = 0.0
    busy = 0
    for time in range(low, high):
        # A copy without duration counts as 1 ns, the resolution of these times.
        running = [rate for a, dur, rate in copies if a <= time < a + max(dur, 1)]
        value = value_at.get(time, value)
        if len(running) < 2:
            assert value == sum(running), "exact, not nearly"
        assert value == pytest.approx(sum(running), rel=1e-12)
        area += sum(running)
        busy += bool(running)
    if len(frame):
        row = memory_bandwidth_summary(job, window=requested).iloc[0]
        assert row["busy_ns"] == busy
        assert row["time_weighted_mean"] * busy == pytest.approx(area)
        assert frame["gb_per_s"].iloc[-1] == 0
        steps = np.diff(frame["time_ns"])
        integral = float((frame["gb_per_s"].to_numpy()[:-1] * steps).sum())
        assert integral == pytest.approx(area)
