"""Properties that every critical path of a real trace must have."""

import functools

import numpy as np
import pytest
from support import golden, recorded

from hta_widgets.analysis import critical_path, job_critical_path

TRACES = [
    f"{group}/{folder.name}"
    for group in ("hta_tests", "kineto", "tracelens")
    for folder in sorted((golden.SHARED / "traces" / group).glob("*"))
    if folder.name != "memory_analysis"  # contains no trace
]
pytestmark = pytest.mark.skipif(not TRACES, reason=golden.MISSING)
every_trace = pytest.mark.parametrize("name", TRACES)


@functools.cache
def paths(name):
    """Return the first rank's trace, its critical path, and the job path of this rank alone."""
    traces = recorded.load(golden.SHARED / "traces" / name)
    alone = traces.subset(ranks=traces.ranks[:1])
    return alone, critical_path(alone, alone.ranks[0]), job_critical_path(alone)


def shares(frame):
    times = frame.groupby(frame["bound_by"].astype(str))["dur_ns"].sum()
    return times / max(times.sum(), 1)


@every_trace
def test_the_paths_of_a_rank_and_of_its_job_agree(name):
    _, frame, job = paths(name)
    difference = shares(frame).subtract(shares(job), fill_value=0)
    assert difference.abs().max() < 0.05
    assert frame.attrs["span_ns"] == job.attrs["span_ns"]


@every_trace
def test_no_chain_of_a_stream_is_longer(name):
    traces, frame, _ = paths(name)
    low, high = frame.attrs["span_ns"]
    trace = traces[traces.ranks[0]]
    work = trace.events
    work = work[work["kind"].isin(["compute", "communication", "memory"]) & (work["stream"] >= 0)]
    end = work["start_ns"] + work["dur_ns"]
    work = work.assign(end=end)[(work["start_ns"] >= low) & (end <= high)]
    call = trace.launch_of[work.index]
    returned = np.where(call >= 0, trace.table.end_ns[call] + trace.shift_ns, low)
    longest = 0
    for _, stream in work.assign(returned=returned).groupby("stream"):
        # Work that was queued before the previous work ended continues the chain.
        queued = stream["returned"] <= stream["end"].shift()
        longest = max(longest, stream["dur_ns"].groupby((~queued).cumsum()).sum().max())
    assert longest <= frame.attrs["length_ns"] <= high - low


@every_trace
def test_time_is_outside_of_a_path_only_where_nothing_is_recorded(name):
    traces, frame, _ = paths(name)
    events = traces.events()
    events = events[(events["dur_ns"] > 0) & ~events["kind"].isin(["annotation", "sync"])]
    for gap in frame[frame["bound_by"] == "outside_path"].itertuples():
        end = gap.start_ns + gap.dur_ns
        inside = (events["start_ns"] < end) & (events["start_ns"] + events["dur_ns"] > gap.start_ns)
        assert not inside.any()
