"""Critical paths across ranks, in cases that can be followed by hand."""

import numpy as np
import pytest
from support.small import call, event, kernel, load, nccl

import hta_widgets as hw
from hta_widgets.analysis import collectives, job_critical_path, job_path_summary
from hta_widgets.analysis.critical.path import path_selection
from hta_widgets.demo.job import write_demo


def shared_group(count, **args):
    return {
        "Collective name": "allreduce", "Process Group Name": "0", "Group size": count,
        "Process Group Ranks": str(list(range(count))), "In msg nelems": 10,
        "Out msg nelems": 10, "dtype": "Float", **args,
    }  # fmt: skip


def step(start, end, number=0):
    return event("user_annotation", f"ProfilerStep#{number}", start, end, pid=10)


def path_rows(frame):
    named = frame.astype({"bound_by": str, "via": str})
    columns = ["rank", "start_ns", "dur_ns", "bound_by", "via"]
    return list(named[columns].itertuples(index=False, name=None))


def adds_up(frame):
    start, end = frame.attrs["span_ns"]
    ends = (frame["start_ns"] + frame["dur_ns"]).tolist()
    assert frame["start_ns"].tolist() == [start, *ends[:-1]]
    assert ends[-1] == end
    assert (frame["dur_ns"] > 0).all()
    return True


@pytest.fixture
def job(tmp_path):
    group = shared_group(2)
    both = [step(100, 1000), call(100, 120, 1), call(130, 140, 2), call(150, 160, 3)]
    first = [
        *both, kernel(200, 300, launch=1), nccl(300, 700, stream=7, launch=2, **group),
        # The rank that ends last, because its last kernel is longer.
        kernel(700, 1100, name="softmax", launch=3),
    ]  # fmt: skip
    second = [
        *both, kernel(220, 620, name="slow", launch=1), nccl(620, 700, stream=7, launch=2, **group),
        kernel(700, 900, launch=3),
    ]  # fmt: skip
    return load(tmp_path, first, second)


def test_the_path_changes_over_where_the_last_rank_arrives(job):
    frame = job_critical_path(job)
    assert path_rows(frame) == [
        # The delay of the kernel begins at the start of the call.
        (1, 100, 120, "gpu_kernel_launch_overhead", "launch"),
        (1, 220, 400, "gpu_compute_bound", "event"),
        (0, 620, 80, "gpu_communication_bound", "collective"),
        (0, 700, 400, "gpu_compute_bound", "event"),
    ]
    assert adds_up(frame)
    assert frame.attrs["span_ns"] == (100, 1100)
    assert (frame.attrs["jumps"], frame.attrs["clock_overlap_ns"]) == (1, 0)
    table = job_path_summary(frame).astype({"bound_by": str})
    assert sorted(table[["rank", "bound_by", "count", "dur_ns"]].to_numpy().tolist()) == [
        [0, "gpu_communication_bound", 1, 80],
        [0, "gpu_compute_bound", 1, 400],
        [1, "gpu_compute_bound", 1, 400],
        [1, "gpu_kernel_launch_overhead", 1, 120],
    ]
    assert table["share"].sum() == pytest.approx(1)
    chosen = path_selection(frame, job).events()
    names = set(zip(chosen["rank"], chosen["name"], strict=True))
    assert {(1, "slow"), (1, "cudaLaunchKernel"), (0, "softmax")} <= names
    assert (0, "gemm") not in names


def test_a_window_starts_in_what_runs_at_its_end(job):
    frame = job_critical_path(job, window=(300, 650))
    # Rank 0 ended the last event and is waiting in a collective.
    assert adds_up(frame)
    assert frame.attrs["span_ns"] == (300, 650)
    later = job_critical_path(job, window=(400, 800))
    assert path_rows(later)[-1] == (0, 700, 100, "gpu_compute_bound", "unknown")
    assert path_rows(later)[0] == (1, 400, 220, "gpu_compute_bound", "event")


def rank_of(pieces, last):
    """Return a rank with collectives (begin, arrival, end) that computes until `last`."""
    events = [step(1000, 1300)]
    for k, (begin, arrival, end) in enumerate(pieces):
        events += [
            call(1010 + 20 * k, 1012 + 20 * k, 10 + 2 * k),
            call(1015 + 20 * k, 1017 + 20 * k, 11 + 2 * k),
            kernel(begin, arrival, launch=10 + 2 * k),
            nccl(arrival, end, stream=7, launch=11 + 2 * k, **shared_group(2)),
        ]
    return [*events, call(1200, 1210, 99), kernel(end, last, launch=99)]


def test_clocks_that_are_off_are_fitted(tmp_path):
    def pieces(*arrivals):
        return zip((1500, 2000, 4000), arrivals, (2000, 4000, 6000), strict=True)

    late = rank_of(pieces(1900, 2500, 5900), 8000)
    late = [{**item, "ts": item["ts"] + 0.7} for item in late]
    traces = load(tmp_path, rank_of(pieces(1600, 3900, 5000), 8500), late)
    frame = job_critical_path(traces)
    assert adds_up(frame)
    assert frame.attrs["clock"] == "fitted"
    assert frame.attrs["residual_ns"] == 0
    compute = frame[frame["bound_by"] == "gpu_compute_bound"]
    expected = [[1, 400], [0, 1900], [1, 1900], [0, 2500]]
    assert compute[["rank", "dur_ns"]].to_numpy().tolist() == expected


def test_ranges_are_told_by_name_where_recording_began_unevenly(tmp_path):
    early = [step(100, 500, 3), kernel(110, 490), step(500, 900, 4), kernel(510, 890)]
    late = [step(520, 950, 4), kernel(530, 940)]
    traces = load(tmp_path, early, late)
    assert job_critical_path(traces).attrs["span_ns"] == (100, 500)
    frame = job_critical_path(traces, instance=1)
    assert frame.attrs["span_ns"] == (500, 950)
    assert frame["rank"].iloc[-1] == 1
    assert job_critical_path(traces, instance=(0, 1)).attrs["span_ns"] == (100, 950)
    for wrong, words in ((2, "an instance 2"), ((1, 0), "is not an instance")):
        with pytest.raises(hw.TraceError, match=words):
            job_critical_path(traces, instance=wrong)


@pytest.mark.parametrize(
    "events", [[], [event("cpu_op", "a", 5, 9)], [kernel(5, 9)], [call(1, 2, 3), nccl(4, 9)]]
)
def test_what_has_no_steps_collectives_or_device(tmp_path, events):
    traces = load(tmp_path, events)
    frame = job_critical_path(traces, annotation="forward")
    assert frame.empty
    assert "'forward'" in frame.attrs["note"]
    full = job_critical_path(traces, annotation="")
    assert adds_up(full)
    assert "on two ranks" in full.attrs["note"]
    for item in (frame, full):
        assert job_path_summary(item)["dur_ns"].sum() == item["dur_ns"].sum()
    usual = job_critical_path(traces)
    assert path_rows(usual) == path_rows(full)
    assert "no event has 'ProfilerStep' in its name" in usual.attrs["note"]
    nothing = job_critical_path(traces, window=(10**9, 10**9 + 1))
    assert nothing.empty
    assert nothing.attrs["note"]


def test_every_jump_is_to_the_rank_that_came_last(tmp_path):
    write_demo(
        tmp_path / "job", ranks=8, steps=2, straggler=None, strided=True, missing=[3],
        uneven_us=3000, events_per_step=1500,
    )  # fmt: skip
    traces = hw.load(tmp_path / "job", cache=False, progress=False)
    frame = job_critical_path(traces, annotation="")
    assert adds_up(frame)
    expected = collectives(traces, clock="fitted").set_index(["rank", "id"])
    changes = np.flatnonzero(np.diff(frame["rank"])) + 1
    assert len(changes) > 10
    assert changes.tolist() == np.flatnonzero(frame["via"] == "collective").tolist()
    for row in changes.tolist():
        single = expected.loc[(frame["rank"][row], frame["id"][row])]
        assert single["last_rank"] == frame["rank"][row - 1]
        assert single["arrival_ns"] + single["wait_ns"] == frame["start_ns"][row]


def test_clocks_that_contradict_each_other_are_told(tmp_path):
    usual = [(2000, 2100, 2500), (2500, 2900, 3000), (3000, 3900, 4000)]
    traces = load(
        tmp_path,
        # The last collective begins on rank 0 long after rank 1 left it.
        rank_of([*usual, (4000, 5000, 5100)], 5200),
        rank_of([*usual, (4000, 4500, 4900)], 6000),
    )
    frame = job_critical_path(traces)
    assert adds_up(frame)
    assert frame.attrs["clock_overlap_ns"] == 100
    assert frame.attrs["jumps"] == 1
    assert path_rows(frame)[-2:] == [
        # Otherwise, 100 of the 1000 ns that rank 0 computed would count twice.
        (0, 4000, 900, "gpu_compute_bound", "event"),
        (1, 4900, 1100, "gpu_compute_bound", "collective"),
    ]
