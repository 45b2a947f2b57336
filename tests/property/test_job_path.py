"""Job paths of random jobs, compared with a plain list of the ranks waited for."""

import tempfile
from pathlib import Path

import numpy as np
from hypothesis import assume, given, settings, strategies as st
from support.examples import examples
from support.random_job import write_job
from support.small import call, event, kernel, load, nccl

import hta_widgets as hw
from hta_widgets.analysis import collectives, job_critical_path, job_path_summary

RANKS = st.integers(2, 4)


def adds_up(frame):
    start, end = frame.attrs["span_ns"]
    assert frame["dur_ns"].sum() == end - start
    ends = (frame["start_ns"] + frame["dur_ns"]).tolist()
    assert frame["start_ns"].tolist() == [start, *ends[:-1]]
    assert (frame["dur_ns"] > 0).all()


def jumps_only_to_the_last(frame, traces):
    expected = collectives(traces, clock="fitted").set_index(["rank", "id"])
    changes = np.flatnonzero(np.diff(frame["rank"])) + 1
    jumps = np.flatnonzero(frame["via"] == "collective")
    assert set(changes.tolist()) <= set(jumps.tolist())
    for row in jumps[jumps > 0].tolist():
        single = expected.loc[(frame["rank"][row], frame["id"][row])]
        # -1: several ranks came last at the same instant.
        assert single["last_rank"] in {frame["rank"][row - 1], -1}
        assert single["arrival_ns"] + single["wait_ns"] == frame["start_ns"][row]


@st.composite
def jobs(draw):
    """Draw ranks that alternate between compute and collectives: compute times by phase."""
    ranks = draw(RANKS)
    phases = draw(st.lists(st.tuples(*[st.integers(1, 2000)] * ranks), min_size=1, max_size=6))
    transfers = [draw(st.integers(1, 200)) for _ in phases[1:]]
    skews = [0, *(draw(st.integers(0, 5000)) for _ in range(ranks - 1))]
    return phases, transfers, skews


def simulated(phases, transfers, skews):
    """Return each rank's events: all launches, then the phases with collectives between them."""
    count = len(skews)
    group = {
        "Collective name": "allreduce", "Process Group Name": "0", "Group size": count,
        "Process Group Ranks": str(list(range(count))), "In msg nelems": 8, "Out msg nelems": 8,
        "dtype": "Float",
    }  # fmt: skip
    ranks = [[] for _ in skews]
    now = 5000
    for number, phase in enumerate(phases):
        arrivals = [now + dur for dur in phase]
        end = max(arrivals) + (transfers[number] if number < len(transfers) else 0)
        for rank, arrival in enumerate(arrivals):
            ranks[rank] += [
                call(1000 + 20 * number, 1005 + 20 * number, 2 * number + 1),
                kernel(now, arrival, launch=2 * number + 1),
            ]
            if number < len(transfers):
                ranks[rank] += [
                    call(1010 + 20 * number, 1015 + 20 * number, 2 * number + 2),
                    nccl(arrival, end, stream=7, launch=2 * number + 2, **group),
                ]
        now = end
    for rank, skew in enumerate(skews):
        ranks[rank].append(event("user_annotation", "ProfilerStep#0", 900, 2000, pid=10))
        ranks[rank] = [
            {**rank_entry, "ts": rank_entry["ts"] + skew / 1000} for rank_entry in ranks[rank]
        ]
    return ranks, max(arrivals)


@given(jobs())
@settings(max_examples=examples(60))
def test_the_path_is_the_longest_phase_of_each(job):
    phases, transfers, skews = job
    ranks, end = simulated(phases, transfers, skews)
    # Without collectives, clock offsets cannot be distinguished from late ranks.
    assume(transfers or not any(skews))
    with tempfile.TemporaryDirectory() as folder:
        traces = load(Path(folder), *ranks)
        frame = job_critical_path(traces)
        adds_up(frame)
        jumps_only_to_the_last(frame, traces)
    # Each rank has an event at 0 on its own clock. The fitted clock starts at the earliest.
    assert frame.attrs["span_ns"] == (900 + max(skews), end + max(skews))
    assert frame.attrs["clock_overlap_ns"] == 0
    summary = job_path_summary(frame).groupby("bound_by", observed=True)["dur_ns"].sum()
    assert summary["gpu_compute_bound"] == sum(max(phase) for phase in phases)
    assert summary.get("gpu_communication_bound", 0) == sum(transfers)
    # In each phase, the path is on one of the slowest ranks, and so is its end.
    compute = frame[frame["bound_by"] == "gpu_compute_bound"]
    for phase, rank, dur in zip(phases, compute["rank"], compute["dur_ns"], strict=True):
        assert phase[rank] == max(phase) == dur


@given(
    st.integers(0, 10**6), st.integers(1, 3), st.sampled_from(["", "ProfilerStep", "pair"]),
    st.tuples(st.integers(0, 12_000_000), st.integers(0, 3_000_000)),
)  # fmt: skip
@settings(max_examples=examples(12))
def test_paths_of_anything_add_up(seed, ranks, annotation, window):
    with tempfile.TemporaryDirectory() as folder:
        path = write_job(Path(folder), seed, ranks=ranks, events=40)
        traces = hw.load(path, cache=False, progress=False)
        frame = job_critical_path(traces, annotation=annotation)
        cut = job_critical_path(traces, window=(window[0], window[0] + window[1]))
        for item in (frame, cut):
            if not len(item):
                low, high = item.attrs["span_ns"]
                assert item.attrs["note"] or low == high
                continue
            adds_up(item)
            assert job_path_summary(item)["dur_ns"].sum() == item["dur_ns"].sum()
            if not item.attrs["clock_overlap_ns"]:
                jumps_only_to_the_last(item, traces)
