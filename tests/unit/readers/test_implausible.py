"""Impossible times are left out of the figures and reported with number, name and place."""

from contextlib import suppress

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from support import small
from support.examples import examples

import hta_widgets as hw
from hta_widgets import TraceError, analysis
from hta_widgets.panels.headline import headline
from hta_widgets.trace.record_times import micros

from .conftest import event

EPOCH_US = 1_700_000_000_000_000


def kernel(ts, dur, name="gemm", stream=7, **more):
    return event(name, ts, dur, cat="kernel", pid=0, tid=stream, args={"stream": stream}) | more


def busy(traces):
    return analysis.temporal_breakdown(traces).iloc[0]


def overflows(traces):
    problems = traces.problems
    return problems[problems["kind"] == "overflow"]


@pytest.mark.parametrize("stated", [3_150_000, 40_000, 500, 1.8e13])
@pytest.mark.parametrize("at", [0, 37, 97])
def test_a_copy_that_outlasts_later_work_of_its_stream_ends_where_that_begins(write, stated, at):
    records = [kernel(100 * k, 80) for k in range(100)]
    records[at] = kernel(100 * at, stated, "Memcpy DtoH", cat="gpu_memcpy")
    traces = hw.load(write(records))
    clipped = min(stated, 100) if at == 97 else 100
    assert busy(traces)["memory_ns"] == clipped * 1000
    assert busy(traces)["compute_ns"] == 99 * 80_000
    result = overflows(traces)
    assert result["count"].tolist() == [1]
    assert f"'Memcpy DtoH' (record {at})" in result["detail"].iloc[0]


def test_an_event_of_no_length_shows_nothing_about_the_event_around_it(write):
    records = [*(kernel(100 * k, 80) for k in range(20)), kernel(530, -3, "broken")]
    traces = hw.load(write(records))
    assert busy(traces)["compute_ns"] == 20 * 80_000
    assert not len(overflows(traces))


@pytest.mark.parametrize(
    ("wrong", "compute_us"),
    [([5, 9], 820), ([8, 9], 820), ([1, 2, 5, 6], 940), ([0, 1, 2, 4, 6, 9], 860)],
)
def test_many_or_the_last_durations_of_a_stream_are_wrong(write, wrong, compute_us):
    """Ten kernels of 90 µs, one per 100 µs; no later work limits the last one."""
    records = [kernel(EPOCH_US + 100 * k, 5e6 if k in wrong else 90) for k in range(10)]
    traces = hw.load(write(records))
    assert busy(traces)["compute_ns"] == compute_us * 1000
    assert overflows(traces)["count"].tolist() == [len(wrong)]


@pytest.mark.parametrize(
    "records",
    [
        # programmatic dependent launch: each kernel begins 4 µs before the previous one ends
        [kernel(100 * k, 104) for k in range(50)],
        # copies that end a few µs before the kernel around them
        [kernel(0, 100), kernel(91, 2, cat="gpu_memcpy"), kernel(120, 5)],
        # a queue shared by several streams, which does not execute in order
        [kernel(100 * k, 5000 if k % 2 else 80) for k in range(50)],
        # other streams, and rows that are not work
        [kernel(0, 9000), kernel(10, 5, stream=8)],
        [kernel(0, 9000, cat="gpu_user_annotation"), kernel(10, 50), kernel(90, 50)],
    ],
)
def test_durations_that_can_be_right_stay(load_one, records):
    trace, problems = load_one(records)
    assert sorted(trace.events["dur_ns"]) == sorted(record["dur"] * 1000 for record in records)
    assert "overflow" not in set(problems["kind"])


@pytest.mark.parametrize("base", [0, EPOCH_US])
@pytest.mark.parametrize("share", [2, 50])
def test_events_at_time_0_of_a_job_at_another_time_are_left_out(write, tmp_path, base, share):
    start = EPOCH_US - base
    records = [kernel(start + 100 * k, 60) for k in range(100)]
    for k in range(0, 2 * share, 2):
        records[k] = kernel(-base, 0, "lost")
    traces = hw.load(write(records, baseTimeNanoseconds=base * 1000))
    assert len(traces[0]) == 100 - share
    assert busy(traces)["compute_ns"] == (100 - share) * 60_000
    assert 0 < busy(traces)["idle_pct"] < 100
    assert overflows(traces)["count"].tolist() == [share]
    assert "'lost' (record 0)" in overflows(traces)["detail"].iloc[0]
    hw.Dashboard(traces).save_html(tmp_path / "page.html")


def test_an_end_far_from_all_others_leaves_the_span_as_it_is(write):
    records = [*(event(f"op{k}", 10 * k, 5) for k in range(20)), event("endless", 50, 1.8e13)]
    traces = hw.load(write(records))
    assert traces.span_ns == (0, 195_000)
    assert overflows(traces)["count"].tolist() == [1]


@pytest.mark.parametrize("pause", [60e6, 7 * 86_400e6])
def test_two_windows_of_a_job_stay(load_one, pause):
    records = [event("op", first + 1000 * k, 500) for first in (0, pause) for k in range(50)]
    trace, problems = load_one(records)
    assert len(trace) == 100
    assert not len(problems)


def test_work_that_outlasts_its_stream_and_times_of_0_in_reports(shared):
    folder = shared / "cases"
    loaded = busy(hw.load(folder / "rocm-overflow", cache=False))
    assert (loaded["compute_ns"], loaded["idle_ns"], loaded["span_ns"]) == (
        920_000,
        70_000,
        990_000,
    )
    traces = hw.load(folder / "ts0", cache=False)
    assert busy(traces)["idle_pct"] == pytest.approx(34.7, abs=0.1)
    assert "no problems" not in repr(traces)


NS = st.integers(-(1 << 62), 1 << 62) | st.integers(-(1 << 40), 1 << 40) | st.just(0)


@settings(max_examples=examples(60), deadline=None)
@given(st.lists(st.tuples(NS, NS.map(abs), st.booleans()), min_size=1, max_size=8))
def test_no_times_overflow(tmp_path_factory, times):
    path = tmp_path_factory.mktemp("times") / "trace.json"
    rows = [
        b'{"ph": "X", "name": "e", "cat": "%s", "pid": %d, "tid": 7, "ts": %s, "dur": %s,'
        b' "args": {"stream": 7}}'
        % (b"kernel" if device else b"cpu_op", device, micros(start), micros(dur))
        for start, dur, device in times
    ]
    path.write_bytes(b"[%s]" % b",".join(rows))
    traces = hw.load(path, cache=False)
    start_ns, end_ns = traces.span_ns
    assert 0 <= start_ns <= end_ns <= 1 << 62
    assert len(traces[0]) + int(overflows(traces)["count"].sum()) >= len(times)
    result = analysis.temporal_breakdown(traces)
    shares = result.filter(like="_pct").to_numpy(float)
    assert ((shares >= 0) & (shares <= 100) | np.isnan(shares)).all()
    for name in ("idle_time_breakdown", "operators", "launch_stats", "queue_length", "step_times"):
        frame = getattr(analysis, name)(traces)
        sizes = frame.filter(regex="_ns$|share$|_pct$").to_numpy(float)
        assert not (sizes < -1).any(), name
    with suppress(TraceError):
        hw.Dashboard(traces).save_html(path.with_name("page.html"))


def launch(ts, dur, correlation, name="cudaLaunchKernel"):
    args = {"correlation": correlation}
    return event(name, ts, dur, cat="cuda_runtime", pid=1, tid=1, args=args)


def launched(ts, dur, correlation, name="gemm", stream=7, **more):
    args = {"stream": stream, "correlation": correlation}
    return kernel(ts, dur, name, stream, args=args) | more


def waited_job(stated, sync="cudaDeviceSynchronize", **more):
    """Return ten kernels, a collective that ends its stream, and a call that waits."""
    records = [launch(10 * k, 5, k + 1) for k in range(10)]
    records += [launched(100 * k, 80, k + 1) for k in range(10)]
    records += [launch(200, 5, 50), launched(1000, stated, 50, "ncclAllReduce", 20, **more)]
    return [*records, event(sync, 210, 1000, cat="cuda_runtime", pid=1, tid=1)]


@pytest.mark.parametrize("stated", [3_000_000, 20_000])
@pytest.mark.parametrize(
    "sync", ["cudaDeviceSynchronize", "hipDeviceSynchronize", "cuCtxSynchronize"]
)
def test_the_last_work_of_a_stream_ends_before_the_host_stops_waiting_for_it(write, stated, sync):
    """The call returns at 1 210 µs, so a collective from 1 000 µs takes at most 210 µs."""
    traces = hw.load(write(waited_job(stated, sync)))
    assert busy(traces)["communication_ns"] == 210_000
    assert busy(traces)["span_ns"] == 1_210_000
    result = overflows(traces)
    assert result["count"].tolist() == [1]
    assert "outlast a call that waited for their device" in result["detail"].iloc[0]
    assert "'ncclAllReduce' (record 21)" in result["detail"].iloc[0]


@pytest.mark.parametrize("stated", [1_800_000, 40_000])
@pytest.mark.parametrize("sync", ["cudaStreamSynchronize", "aten::item"])
def test_the_last_work_of_a_stream_ends_before_the_profiler_stopped(write, stated, sync):
    """The profiler stopped at 1 400 µs, so a collective from 1 000 µs takes at most 400 µs."""
    stop = {"ph": "i", "name": "Record Window End", "ts": 1_400, "pid": "", "tid": "", "s": "g"}
    traces = hw.load(write([*waited_job(stated, sync), stop]))
    assert (busy(traces)["communication_ns"], busy(traces)["span_ns"]) == (400_000, 1_400_000)
    (detail,) = overflows(traces)["detail"]
    assert "end after the profiler stopped; cut there: 'ncclAllReduce' (record 21)" in detail
    unchanged = hw.load(write([*waited_job(400, sync), stop]))
    assert not len(overflows(unchanged))


@pytest.mark.parametrize(
    "records",
    [
        waited_job(3000),  # the files may end before the work does
        waited_job(3_000_000, "cudaStreamSynchronize"),  # waits for a single stream
        # launched after the call
        [*waited_job(210), launch(1215, 5, 60), launched(1230, 3_000_000, 60, stream=9)],
    ],
)
def test_work_that_no_call_waited_for_keeps_its_length(write, records):
    traces = hw.load(write(records))
    assert not len(overflows(traces))
    assert busy(traces)["busy_ns"] == 800_000 + max(
        record["dur"] for record in records if record["cat"] == "kernel"
    ) * 1000 + 210_000 * (len(records) > 23)


def test_work_is_cut_at_the_first_call_that_waited_for_it(write):
    """The second collective is launched after the first call; another call waits for it."""
    records = [
        *waited_job(3_000_000),
        launch(1215, 5, 60),
        launched(1230, 3_000_000, 60, stream=9),
        event("cudaDeviceSynchronize", 1300, 200, cat="cuda_runtime", pid=1, tid=1),
    ]
    traces = hw.load(write(records))
    assert busy(traces)["busy_ns"] == 800_000 + 210_000 + 270_000
    assert overflows(traces)["count"].tolist() == [2]


@pytest.mark.parametrize("dur", [10**40, 1e30, "1" + "0" * 30, 10**16])
def test_a_duration_beyond_64_bits_is_an_impossible_time(tmp_path, dur):
    kernels = [small.kernel(at, at + 800) for at in range(0, 10_000, 1_000)]
    traces = small.load(tmp_path, [*kernels, small.kernel(20_000, 20_800) | {"dur": dur}])
    problems = traces.problems.set_index("kind")
    assert problems.loc["overflow", "count"] == 1
    assert "durations that do not fit in 64 bits" in problems.loc["overflow", "detail"]
    assert "1 time in the files cannot be right" in str(headline(traces))


def details(traces, kind):
    problems = traces.problems
    rows = problems[problems["kind"] == kind]
    return dict(zip(rows["count"].tolist(), rows["detail"].tolist(), strict=True))


@pytest.mark.parametrize(("early_ns", "is_said"), [(0, False), (5_000, False), (50_000, True)])
def test_work_that_starts_before_its_launch_shows_clocks_that_differ(tmp_path, early_ns, is_said):
    events = []
    for at in range(100_000, 1_000_000, 100_000):
        events += [
            small.call(at, at + 5_000, at),
            small.kernel(at - early_ns, at - early_ns + 60_000, launch=at),
        ]
    found = details(small.load(tmp_path, events), "clock")
    assert list(found) == [9] * is_said
    if is_said:
        assert "start before the call that launches them, by up to 50.0\u202fµs" in found[9]


@pytest.mark.parametrize("streams", [(7,), (7, 20)])
def test_records_that_a_file_holds_twice_are_counted(tmp_path, streams):
    events = [
        event
        for at in range(1_000, 11_000, 1_000)
        for stream in streams
        for event in (
            small.call(at - 500, at - 400, at + stream),
            small.kernel(at, at + 500, launch=at + stream, stream=stream),
        )
    ]
    assert not details(small.load(tmp_path, events), "overlap")
    found = details(small.load(tmp_path, events + events), "overlap")
    assert "another event; if the file holds records twice" in found[10 * len(streams)]


def test_two_processes_on_one_stream_are_said(tmp_path):
    """Two ranks in one list: kernels of 800 and 900 µs start at the same times."""
    first, second = (
        [small.kernel(at, at + length) for at in range(1_000_000, 21_000_000, 1_000_000)]
        for length in (800_000, 900_000)
    )
    assert not details(small.load(tmp_path, first), "overlap")
    found = details(small.load(tmp_path, first + second), "overlap")
    assert "may mix the work of several processes" in found[20]
