"""Durations of steps and phases, and deviations between ranks, calculated by hand."""

import pytest
from support.small import call, event, kernel, load, nccl

from hta_widgets import analysis, diff
from hta_widgets.analysis import step_times
from hta_widgets.analysis.steps import phase_label

GROUP = {"Process Group Name": "0", "Process Group Ranks": "[0, 1]", "Group size": 2}
GROUP |= {"Collective name": "allreduce", "In msg nelems": 10, "dtype": "Float"}


def mark(name, start, end, *, tid=1):
    return event("user_annotation", name, start, end, pid=10, tid=tid)


def step(number, start, end):
    return mark(f"ProfilerStep#{number}", start, end)


@pytest.fixture
def job(tmp_path):
    fast = [
        step(4, 1000, 2000), call(1010, 1020, 1), call(1030, 1040, 2),
        kernel(1100, 1300, launch=1), nccl(1300, 1800, launch=2, **GROUP),
        # Computes during part of the collective, in which it waits from 1300 to 1600.
        call(1050, 1060, 3), kernel(1350, 1450, launch=3, stream=9),
        step(5, 2000, 3000), call(2010, 2020, 4), kernel(2100, 2200, launch=4),
    ]  # fmt: skip
    slow = [
        step(4, 1000, 2100), call(1010, 1020, 1), call(1030, 1040, 2),
        kernel(1100, 1600, launch=1), nccl(1600, 1800, launch=2, **GROUP),
        # Continues after its step has ended, on the device and on the host.
        call(2050, 2060, 3), kernel(2150, 2400, launch=3),
        step(5, 2100, 3000), call(2110, 2120, 4), kernel(2300, 2700, launch=4, stream=9),
    ]  # fmt: skip
    return load(tmp_path, fast, slow)


def cells(frame, *names):
    rows = zip(frame["rank"], frame["step"], *(frame[name] for name in names), strict=True)
    return {(rank, number): tuple(values) for rank, number, *values in rows}


def test_times_are_of_what_the_step_launched(job):
    frame = step_times(job)
    columns = ["start_ns", "dur_ns", "device_start_ns", "device_span_ns", "busy_ns", "idle_ns"]
    columns += ["compute_ns", "communication_ns", "exposed_communication_ns"]
    assert cells(frame, *columns) == {
        (0, 4): (1000, 1000, 1100, 700, 700, 0, 300, 500, 400),
        (0, 5): (2000, 1000, 2100, 100, 100, 0, 100, 0, 0),
        (1, 4): (1000, 1100, 1100, 1300, 950, 350, 750, 200, 200),
        (1, 5): (2100, 900, 2300, 400, 400, 0, 400, 0, 0),
    }
    assert frame.attrs["matched"]["steps"] == 4
    assert "note" not in frame.attrs


def test_steps_of_a_repeated_number_are_rows_of_their_own(tmp_path):
    def part(start, ns):
        return [
            step(5, start, start + 1_000),
            mark("forward", start + 100, start + 100 + ns),
            call(start + 10, start + 20, launch := start + 1),
            kernel(start + 200, start + 200 + ns, launch=launch),
        ]

    traces = load(tmp_path, [*part(0, 300), *part(5_000, 400)])
    times = cells(step_times(traces), "start_ns", "busy_ns")
    assert times == {(0, 5): (0, 300), (0, 6): (5_000, 400)}
    assert cells(analysis.phase_times(traces), "dur_ns") == {(0, 5): (300,), (0, 6): (400,)}
    assert diff.compare(traces, traces, steps={5: 6}).after.steps.tolist() == [6]


def test_own_time_shows_whom_the_others_wait_for(job):
    frame = step_times(job)
    columns = ["wait_ns", "exposed_wait_ns", "own_ns", "dur_deviation_ns", "own_deviation_ns"]
    assert cells(frame, *columns) == {
        (0, 4): (300, 200, 800, -50, -150),
        (0, 5): (0, 0, 1000, 50, 50),
        (1, 4): (0, 0, 1100, 50, 150),
        (1, 5): (0, 0, 900, -50, -50),
    }
    share = cells(frame, "own_deviation_share")
    assert share[0, 4][0] == pytest.approx(-150 / 950)
    assert share[1, 5][0] == pytest.approx(-50 / 950)


def test_own_time_is_the_devices_if_the_host_is_ahead_of_it(tmp_path):
    def rank(computed):
        return [
            # The device works on step 0 from 1200 to 3000 and on step 1 from 3000 to 4500.
            step(0, 1000, 1100), call(1010, 1020, 1), kernel(1200, computed, launch=1),
            call(1030, 1040, 2), nccl(computed, 3000, launch=2, **GROUP),
            step(1, 1100, 1200), call(1110, 1120, 3), kernel(3000, 4000, launch=3),
            call(1130, 1140, 4), nccl(4000, 4500, launch=4, **GROUP),
            # In step 2, the host waits for the device.
            step(2, 1200, 5500), call(1210, 1220, 5), kernel(5000, 5400, launch=5),
            # The device starts step 3 late but takes less time than the host.
            step(3, 5500, 6000), call(5510, 5520, 6), kernel(6100, 6110, launch=6),
        ]  # fmt: skip

    job = load(tmp_path, rank(2200), rank(2800))
    frame = step_times(job)
    columns = ["dur_ns", "device_span_ns", "exposed_wait_ns", "own_ns", "own_deviation_share"]
    assert cells(frame, *columns) == {
        (0, 0): (100, 1800, 600, 1200, -0.2),
        (0, 1): (100, 1500, 0, 1500, 0),
        (0, 2): (4300, 400, 0, 4300, 0),
        (0, 3): (500, 10, 0, 500, 0),
        (1, 0): (100, 1800, 0, 1800, 0.2),
        (1, 1): (100, 1500, 0, 1500, 0),
        (1, 2): (4300, 400, 0, 4300, 0),
        (1, 3): (500, 10, 0, 500, 0),
    }
    assert frame.attrs["ahead"] == [0, 1]
    # The mean of 1800, 1500, 4300 and 500, with and without 600 of waiting in four steps.
    clusters = analysis.rank_clusters(job)
    assert clusters["step_ns"].tolist() == pytest.approx([8100 / 4, 8100 / 4])
    assert clusters["own_ns"].tolist() == pytest.approx([7500 / 4, 8100 / 4])
    # Both analyses use the whole job, not only the selected ranks or window.
    alone = step_times(job, ranks=[1], window=(1000, 2000))
    assert cells(alone, "own_ns") == {(1, 0): (800,), (1, 1): (0,), (1, 2): (800,)}


def test_a_window_cuts_steps_and_what_they_do(job):
    frame = step_times(job, window=(1200, 1700))
    assert cells(frame, "start_ns", "dur_ns", "busy_ns", "exposed_wait_ns") == {
        (0, 4): (1200, 500, 500, 200), (1, 4): (1200, 500, 500, 0),
    }  # fmt: skip
    # Medians are over the selected ranks.
    frame = step_times(job, ranks=[1])
    assert set(frame["rank"]) == {1}
    assert (frame["own_deviation_ns"] == 0).all()


def test_collectives_without_all_ranks_are_set_aside(tmp_path):
    rank = [step(0, 0, 1000), call(1, 2, 1), nccl(100, 400, launch=1, **GROUP)]
    frame = step_times(load(tmp_path, rank))
    assert frame["unmatched_exposed_ns"].tolist() == [300]
    assert frame["wait_ns"].tolist() == [0]


def test_ranks_without_steps_are_named(tmp_path, job):
    frame = step_times(load(tmp_path, [step(1, 10, 20)], [kernel(1, 5)]))
    assert frame["rank"].tolist() == [0]
    assert frame.attrs["note"] == "no ProfilerStep on ranks 1"
    assert step_times(job, ranks=[]).attrs["note"] == "no ranks are selected"


def test_a_selection_without_steps_is_told_from_a_trace_without(job):
    none = step_times(job, selection=job.select("kind == 'compute'"))
    assert none.empty
    note = none.attrs["note"]
    assert "selection or window contains none of the 4" in note
    for window in ((5, 5), (0, 50)):
        note += step_times(job, window=window).attrs["note"]
    assert note.count("selection or window") == 3
    assert "step()" not in note


def steps(*, slow: int = 0):
    """Return two steps of 1000 ns: a data loader, a forward pass in a frame, other events."""
    for number, at in ((0, 100), (1, 1100)):
        yield mark(f"ProfilerStep#{number}", at, at + 990)
        yield mark("enumerate(DataLoader)#_Iter.__next__", at + 5, at + 50)
        yield mark("## forward ##", at + 100, at + 300 + slow)
        yield mark("DistributedDataParallel.forward", at + 110, at + 290 + slow)
        yield mark("nccl:all_reduce", at + 700, at + 710)
        yield mark("Optimizer.step#SGD.step", at + 800, at + 900)
        yield mark("elsewhere", at + 100, at + 200, tid=2)
        yield from (mark("twice", at + 910, at + 920), mark("twice", at + 930, at + 940))


def test_phases_are_the_outermost_ranges_that_occur_once_a_step(tmp_path):
    traces = load(tmp_path, steps(), steps(slow=20), steps())
    frame = analysis.phase_times(traces)
    assert frame.groupby(["phase", "name"], sort=False).size().to_dict() == {
        ("data loading", "enumerate(DataLoader)#_Iter.__next__"): 6,
        ("forward", "## forward ##"): 6,
        ("optimizer", "Optimizer.step#SGD.step"): 6,
    }
    forward = frame[frame["phase"] == "forward"]
    columns = ["rank", "step", "start_ns", "dur_ns", "deviation_ns"]
    assert forward[columns].to_numpy().tolist() == [
        [rank, step, 200 + 1000 * step, 200 + late, late]
        for rank, late in enumerate((0, 20, 0))
        for step in (0, 1)
    ]
    assert forward["deviation_share"].tolist() == pytest.approx([0, 0, 0.1, 0.1, 0, 0])
    frame = analysis.phase_times(traces, window=(250, 1150), ranks=[2])
    assert frame[["phase", "rank", "step", "start_ns", "dur_ns"]].to_numpy().tolist() == [
        ["data loading", 2, 1, 1105, 45],
        ["forward", 2, 0, 250, 150],
        ["optimizer", 2, 0, 900, 100],
    ]


def test_what_occurs_in_one_step_of_three_is_no_phase(tmp_path):
    events = [mark(f"ProfilerStep#{n}", 100 * n + 1, 100 * n + 99) for n in range(3)]
    events.append(mark("evaluation", 110, 120))
    frame = analysis.phase_times(load(tmp_path, events))
    assert not len(frame)
    assert "record_function" in frame.attrs["note"]
    traces = load(tmp_path, steps())
    assert "no phase of a step is in" in analysis.phase_times(traces, window=(5, 6)).attrs["note"]
    assert analysis.phase_times(traces, ranks=[]).attrs["note"] == "no ranks are selected"


@pytest.mark.parametrize(
    ("name", "label"),
    [
        ("## forward ##", "forward"),
        ("DistributedDataParallel.forward", "forward"),
        ("## backward ##", "backward"),
        ("Optimizer.step#AdamW.step", "optimizer"),
        ("Optimizer.zero_grad#AdamW.zero_grad", "zero grad"),
        ("enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__", "data loading"),
        ("## sparse_data_dist ##", "sparse_data_dist"),
        ("## optimizer ##", "optimizer"),
        ("feed-forward block", "feed-forward block"),
    ],
)
def test_what_a_phase_is_called(name, label):
    assert phase_label(name) == label
