"""Consecutive files of one rank are its windows, and verdicts stay the same."""

import importlib

import pandas as pd
import pytest

import hta_widgets as hw
from hta_widgets import analysis
from hta_widgets.live.job import TileEngine
from hta_widgets.panels.headline import headline

from .conftest import event

VERDICT = ["rank", "lost_share", "is_straggler", "cause"]
CYCLES = [f"steps{steps}-info{info}" for steps in (0, 1) for info in (0, 1)]


def verdict(traces):
    return analysis.stragglers(traces)[VERDICT]


def load(path):
    return hw.load(path, cache=False)


@pytest.mark.parametrize("case", CYCLES)
def test_two_windows_of_a_profiler_are_two_windows_of_its_ranks(shared, case):
    alone = load(shared / f"cases/cycles/{case}-cycles1")
    both = load(shared / f"cases/cycles/{case}-cycles2")
    assert both.ranks == [0, 1]
    assert verdict(both)["lost_share"].tolist() == [0, pytest.approx(0.2)]
    pd.testing.assert_frame_equal(verdict(both), verdict(alone))
    first, second = both.windows
    assert second[0] - first[0] == 500_000_000
    for window in both.windows:
        assert verdict(both.subset(None, *window))["is_straggler"].tolist() == [False, True]


def test_stages_of_sglang_are_windows_of_its_ranks(shared):
    traces = load(shared / "cases/sglang-stages")
    assert verdict(traces)["is_straggler"].tolist() == [False, True]
    assert verdict(traces)["lost_share"].tolist() == [0, pytest.approx(0.1)]
    assert len(traces.windows) == 2


@pytest.mark.parametrize("case", CYCLES)
def test_the_time_between_windows_is_not_counted(shared, case):
    alone = load(shared / f"cases/cycles/{case}-cycles1")
    both = load(shared / f"cases/cycles/{case}-cycles2")
    for function, columns in (
        (analysis.temporal_breakdown, ["idle_ns", "span_ns", "busy_ns", "compute_ns"]),
        (analysis.device_idle_breakdown, ["idle_ns", "gaps"]),
        (analysis.idle_time_breakdown, ["idle_ns", "gaps"]),
        (analysis.queue_length_summary, ["count", "span_ns"]),
    ):
        pd.testing.assert_frame_equal(function(both)[columns], 2 * function(alone)[columns])
        parts = [function(both, window=window)[columns] for window in both.windows]
        pd.testing.assert_frame_equal(sum(parts[1:], parts[0]), function(both)[columns])
    assert len(analysis.device_idle_gaps(both)) == 2 * len(analysis.device_idle_gaps(alone))
    text = str(headline(both)).replace("\u202f", " ")
    # 2 ms on rank 0, in two spans of 9.5 ms.
    assert text.startswith("Rank 0 waits for rank 1: exposed waiting takes 10 %")
    engine = TileEngine(both)
    start, end = engine.scene()["range"]
    stats, _ = engine.answer({"op": "stats", "start": start, "end": end})
    assert stats["span"] == analysis.temporal_breakdown(both)["span_ns"].tolist()


def step(number, start, *, base=0, pid=7, rank=None, call=1, **top):
    """Return a window of one step: a range on the host, a call, and the kernel it launches."""
    records = [
        event(f"ProfilerStep#{number}", start, 90, cat="user_annotation", pid=pid),
        event("cudaLaunchKernel", start, 5, cat="cuda_runtime", pid=pid)
        | {"args": {"correlation": call}},
        event(f"gemm{number}", start + 10, 20, cat="kernel", pid=0, tid=7)
        | {"args": {"stream": 7, "correlation": call}},
    ]
    about = {} if rank is None else {"distributedInfo": {"rank": rank, "world_size": 2}}
    return records, {"baseTimeNanoseconds": base, **about, **top}


@pytest.fixture
def folder(write):
    def _folder(*files):
        for name, (records, top) in files:
            path = write(records, f"job/{name}", **top)
        return path.parent

    return _folder


@pytest.mark.parametrize("base", [900_000, "9e5"])
def test_ids_links_and_records_are_those_of_each_file(folder, tmp_path, base):
    """Both files use correlation 1, and their base times differ."""
    path = folder(("worker3.json", step(1, 100)), ("again-worker3.json", step(2, 0, base=base)))
    traces = load(path)
    assert traces.windows == [(0, 90_000), (800_000, 890_000)]
    trace = traces[3]
    events = trace.events
    for number in (1, 2):
        (kernel,) = events.index[events["name"] == f"gemm{number}"]
        assert events["step"][trace.launch_of[kernel]] == number
    exported = tmp_path / "out.json"
    hw.export_trace(traces, exported)
    again = load(exported)
    assert again.windows == traces.windows
    pd.testing.assert_frame_equal(
        next(iter(again.values())).events[["start_ns", "name", "step"]],
        events[["start_ns", "name", "step"]],
    )


def test_a_window_that_repeats_the_last_number_is_numbered_on(folder):
    path = folder(("worker3.json", step(6, 100)), ("again-worker3.json", step(6, 900)))
    traces = load(path)
    events = traces[3].events
    assert events.loc[events["name"] == "gemm6", "step"].tolist() == [6, 7]
    assert analysis.step_times(traces)["step"].tolist() == [6, 7]


@pytest.mark.parametrize("later", [1, 2])
def test_a_job_has_what_any_of_its_windows_states(folder, tmp_path, later):
    """As if the first window was recorded without shapes, or before the devices were known."""
    tops = [{"deviceProperties": [{"id": 0, "name": f"gpu of {number}", "numSms": 132}],
             "with_stack": number} if number >= later else {} for number in range(3)]  # fmt: skip
    files = [
        (f"{number}-worker3.json", step(number, 100 + 200 * number, call=number + 1, **top))
        for number, top in enumerate(tops)
    ]
    traces = load(folder(*files))
    hw.export_trace(traces, tmp_path / "out.json")
    for job in (traces, load(tmp_path / "out.json")):
        metadata = next(iter(job.values())).metadata
        assert metadata["deviceProperties"] == tops[later]["deviceProperties"]
        assert metadata["with_stack"] == later
        assert len(job.windows) == 3


WINDOWS = {
    "folders of iterations": ("iteration_10/rank3.json", "iteration_20/rank3.json", step(8, 5e6)),
    "a folder of the rank": ("rank_3/step_7.json", "rank_3/step_8.json", step(8, 5e6)),
    "a profiler of its own for each": ("worker3.json", "b-worker3.json", step(6, 1e5)),
    "launches that go on": ("worker3.json", "b-worker3.json", step(6, 5e6, call=9)),
}


@pytest.mark.parametrize("case", WINDOWS)
def test_later_files_of_a_process_are_windows(write, case):
    first, second, (records, top) = WINDOWS[case]
    write(step(7, 100)[0], f"job/{first}")
    write(records, f"job/{second}", **top)
    traces = load(write("", "job/notes.txt").parent)
    assert traces.ranks == [3]
    assert [high - low for low, high in traces.windows] == [90_000, 90_000]


OTHERS = {
    "at the same time": (step(1, 100), step(2, 150)),
    "of another process": (step(1, 100), step(2, 900, pid=8)),
    "of another run, whose steps begin again": (step(1, 100), step(0, 5e6)),
    "of another world": (
        step(1, 100, rank=0),
        step(2, 900, distributedInfo={"rank": 0, "world_size": 9}),
    ),
    "of another host": (step(1, 100, host_name="a"), step(2, 900, host_name="b")),
}


@pytest.mark.parametrize("case", OTHERS)
def test_other_files_of_one_name_stay_apart(folder, case):
    first, second = OTHERS[case]
    traces = load(folder(("rank0.json", first), ("rank0-b.json", second)))
    assert len(traces) == 2
    assert len(traces.windows) == 1


def test_a_mapping_of_ranks_is_obeyed(folder):
    path = folder(("worker0.a.json", step(1, 100)), ("worker0.b.json", step(2, 900)))
    files = {4: path / "worker0.a.json", 9: path / "worker0.b.json"}
    assert load(files).ranks == [4, 9]


def test_three_windows_with_counters_instants_and_problems(folder):
    def window(number):
        records, top = step(number, 1000 * number)
        counter = {"ph": "C", "name": "queue", "pid": 7, "ts": 1000 * number, "args": {"n": number}}
        instant = {"ph": "i", "name": "mark", "pid": 7, "tid": 2, "ts": 1000 * number, "s": "t"}
        return [*records, counter, instant, {"ph": "Q"}], top

    traces = load(folder(*((f"dp0_tp0.{k}.json", window(k)) for k in (2, 0, 1))))
    assert len(traces.windows) == 3
    assert traces[0].counters["value"].tolist() == [0, 1, 2]
    assert traces[0].instants["time_ns"].tolist() == [0, 1_000_000, 2_000_000]
    problems = traces.problems.query("kind == 'skipped'")
    assert problems["rank"].tolist() == [0, 0, 0]


def test_windows_in_the_cache_are_joined_too(folder, tmp_path, monkeypatch):
    """Cached columns are mapped on the second load."""
    monkeypatch.setenv("HTA_WIDGETS_CACHE", str(tmp_path / "the cache"))
    module = importlib.import_module("hta_widgets.readers.load")
    monkeypatch.setattr(module, "_MIN_CACHED_BYTES", 0)
    path = folder(("worker3.json", step(1, 100)), ("again-worker3.json", step(2, 900)))
    for _ in range(2):
        traces = hw.load(path)
        assert traces.windows == [(0, 90_000), (800_000, 890_000)]
        trace = traces[3]
        (kernel,) = trace.events.index[trace.events["name"] == "gemm2"]
        assert trace.events["step"][trace.launch_of[kernel]] == 2
        assert trace.args(kernel) == {"stream": 7, "correlation": 1}
        trace.release()
        assert trace.metadata["baseTimeNanoseconds"] == 0


def job_window(number, *, slow=1.0, base=0):
    """Return a window of two steps of a rank: four products of 100 µs, each before an all-reduce.

    A rank with `slow` > 1 makes the others wait in the all-reduces, which end together.
    """
    records, start = [], base
    for step_number in (2 * number, 2 * number + 1):
        begin = start
        for call in range(4):
            work = 100 * slow
            records += [
                event("gemm", start, work, cat="kernel", pid=0, tid=7) | {"args": {"stream": 7}},
                event("ncclDevKernel_AllReduce_Sum_f32_RING_LL()", start + work, 150 - work,
                      cat="kernel", pid=0, tid=20) | {"args": {"stream": 20}},
                event("cudaLaunchKernel", start, 1, cat="cuda_runtime", pid=7)
                | {"args": {"correlation": 100 * number + 10 * step_number + call}},
            ]  # fmt: skip
            start += 150
        name = f"ProfilerStep#{step_number}"
        records.append(event(name, begin, 600, cat="user_annotation", pid=7))
    return records


def test_ranks_that_each_lack_another_window(folder):
    """Rank 0 has windows 1 and 2, rank 1 has windows 0 and 1: they share one."""
    files = [
        (
            f"worker{rank}.{1700000000000 + number}.pt.trace.json",
            (
                job_window(number, base=1_000_000 * number),
                {"distributedInfo": {"rank": rank, "world_size": 2}},
            ),
        )
        for rank, numbers in enumerate(((1, 2), (0, 1)))
        for number in numbers
    ]
    rows = analysis.collectives(load(folder(*files)))
    assert rows.groupby("rank").size().tolist() == [8, 8]
    assert set(rows.groupby("collective")["end_ns"].nunique()) == {1}


@pytest.mark.parametrize("skew_ns", [5_000_000, 200_000_000])
def test_windows_on_clocks_that_differ_are_matched_in_order(folder, skew_ns):
    """Clocks differ by more than the length of a window; rank 1 is slow."""
    files = [
        (
            f"worker{rank}.{1700000000000 + number}.pt.trace.json",
            (
                job_window(number, slow=1.3 if rank == 1 else 1.0, base=1_000_000 * number),
                {
                    "distributedInfo": {"rank": rank, "world_size": 3},
                    "baseTimeNanoseconds": skew_ns * rank,
                },
            ),
        )
        for rank in range(3)
        for number in range(3)
    ]
    traces = load(folder(*files))
    assert len(traces.windows) == 9
    frame = analysis.stragglers(traces)
    assert frame["collectives"].tolist() == [24] * 3
    assert frame["is_straggler"].tolist() == [False, True, False]


@pytest.mark.parametrize("skew_ns", [3_600_000_000_000, -20_000_000])
@pytest.mark.parametrize("lacking", [(2, 0), (2, 1), (2, 3)])
def test_a_rank_that_lacks_a_window_on_a_clock_that_differs(folder, lacking, skew_ns):
    """Windows start 1 ms apart and clocks differ by more; steps reveal the missing window."""
    files = [
        (
            f"worker{rank}.{1700000000000 + number}.pt.trace.json",
            (
                job_window(number, slow=1.3 if rank == 1 else 1.0, base=1_000_000 * number),
                {
                    "distributedInfo": {"rank": rank, "world_size": 3},
                    "baseTimeNanoseconds": 10**15 + skew_ns * rank,
                },
            ),
        )
        for rank in range(3)
        for number in range(4)
        if (rank, number) != lacking
    ]
    traces = load(folder(*files))
    rows = analysis.collectives(traces)
    assert rows.groupby("collective")["rank"].count().value_counts().to_dict() == {3: 24, 2: 8}
    step_of = {rank: trace.events["step"] for rank, trace in traces.items()}
    steps = pd.Series(
        [step_of[rank][row] for rank, row in zip(rows["rank"], rows["id"], strict=True)]
    )
    assert set(steps.groupby(rows["collective"].to_numpy()).nunique()) == {1}
    frame = analysis.stragglers(traces)
    assert frame["is_straggler"].tolist() == [False, True, False]


@pytest.mark.parametrize("lacking", [(2, 1), (2, 3), (0, 1), (3, 0), (1, 2)])
def test_a_rank_that_lacks_a_window_is_compared_in_the_others(folder, lacking):
    """Rank 1 is slow; one rank lacks the file of one of four windows."""
    files = [
        (
            f"worker{rank}.{1700000000000 + number}.pt.trace.json",
            (
                job_window(number, slow=1.3 if rank == 1 else 1.0, base=1_000_000 * number),
                {"distributedInfo": {"rank": rank, "world_size": 4}},
            ),
        )
        for number in range(4)
        for rank in range(4)
        if (rank, number) != lacking
    ]
    traces = load(folder(*files))
    assert len(traces.windows) == 4
    rows = analysis.collectives(traces)
    spread = rows.groupby("collective")["end_ns"].agg(lambda ends: ends.max() - ends.min())
    assert spread.max() == 0  # all ranks leave each all-reduce together
    sizes = rows.groupby("collective")["rank"].count().value_counts()
    assert sizes.to_dict() == {4: 24, 3: 8}
    frame = analysis.stragglers(traces).set_index("rank")
    assert frame.index[frame["is_straggler"]].tolist() == [1]
    assert frame["cause"][1] == "slower kernels"
    assert "before the first work" not in str(headline(traces))
