"""Readers and analyses of generated MPI jobs, compared with the generator's truth."""

import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from support.examples import examples

import hta_widgets as hw
from hta_widgets.analysis import (
    clock_offsets,
    collectives,
    mpi_imbalance,
    mpi_message_sizes,
    mpi_ranks,
    mpi_routines,
)
from hta_widgets.demo.mpi import write_mpi_job
from hta_widgets.formats.mpi.profiles import parse_profiles

jobs = st.fixed_dictionaries(
    {
        "ranks": st.integers(1, 7),
        "steps": st.integers(1, 6),
        "slow_rank": st.sampled_from([None, 0, 3]),
        "factor": st.sampled_from([1.5, 4.0]),
        "seed": st.integers(0, 10_000),
        "files": st.sampled_from(["all", "default"]),
        "gpu": st.booleans(),
        "swapped": st.booleans(),
    }
)


def load(path):
    return hw.load(path, cache=False, progress=False)


@settings(max_examples=examples(25))
@given(jobs)
def test_profiles_and_time_lines_tell_the_truth(job):
    with tempfile.TemporaryDirectory() as folder:
        truth = write_mpi_job(Path(folder) / "job", hosts=1, **job)
        texts = load([Path(folder) / "job" / name for name in truth["files"][:-1]])
        lines = load(Path(folder) / "job/90001.trc")
        assert texts.problems.empty
        assert not set(lines.problems.kind) - {"overflow"}
        table = mpi_ranks(texts)
        assert table.comm_s.tolist() == pytest.approx(truth["comm_s"], abs=0.00501)
        assert table.elapsed_s.tolist() == pytest.approx(truth["elapsed_s"], abs=0.00501)
        for rank, part in mpi_routines(texts).groupby("rank"):
            assert dict(zip(part.routine, part.calls, strict=True)) == truth["calls"]
            ours = mpi_routines(lines, ranks=[rank])
            assert ours.routine.tolist() == part.routine.tolist()
            assert ours.calls.tolist() == part.calls.tolist()
            assert np.abs(ours.time_s.to_numpy() - part.time_s.to_numpy()).max() < 0.000502
        for frame in (mpi_message_sizes(texts), mpi_message_sizes(lines)):
            shares = frame.groupby(["rank", "routine"])[["share_of_calls", "share_of_bytes"]].sum()
            assert shares.to_numpy() == pytest.approx(1.0)
            assert (frame.size_lo <= frame.avg_bytes + 0.05).all()
            assert (frame.avg_bytes <= frame.size_hi + 0.05).all()
        slow = truth["slow_rank"]
        if slow is not None and truth["ranks"] > 2 and truth["factor"] > 2:
            assert mpi_imbalance(lines).straggler_rank.tolist() == [slow]


@settings(max_examples=examples(15))
@given(jobs)
def test_clocks_and_waits_are_those_of_the_truth(job):
    job = {**job, "ranks": max(job["ranks"], 2)}
    with tempfile.TemporaryDirectory() as folder:
        truth = write_mpi_job(Path(folder) / "job", hosts=1, **job)
        lines = load(Path(folder) / "job/90001.trc")
        offsets = clock_offsets(lines).offset_ns.to_numpy()
        assert offsets == pytest.approx(-np.array(truth["zero_ns"]), abs=4_000)
        frame = collectives(lines, clock="fitted")
        assert frame.attrs["matched"]["unmatched"] == 0
        meeting = frame[frame.group == "MPI"]
        count = meeting.collective.nunique()
        assert sum(truth["waits"]["last"]) == count
        waits = meeting.groupby("rank").wait_ns.sum().to_numpy()
        assert waits == pytest.approx(truth["waits"]["wait_ns"], rel=0.02, abs=6_000 * count)


@settings(max_examples=examples(30))
@given(jobs, st.floats(0, 1), st.integers(0, 3))
def test_a_profile_cut_anywhere_is_read_as_far_as_it_goes(job, share, rank):
    with tempfile.TemporaryDirectory() as folder:
        truth = write_mpi_job(Path(folder) / "job", hosts=1, traces=False, **job)
        name = truth["files"][min(rank, len(truth["files"]) - 1)]
        text = (Path(folder) / "job" / name).read_text()
    first = text.index("\n") + 1
    end = len(text.rstrip("\n"))
    ((full, nothing),) = parse_profiles(text, "")
    assert len(nothing) == 0
    at = first + int(share * (end - 1 - first))
    ((part, problems),) = parse_profiles(text[:at], "")
    assert "truncated" in {problem.kind for problem in problems}
    # A cut may also be within a number; all lines before the last are complete.
    seen = len(part.routine_rows) - 1
    assert part.routine_rows[:seen] == full.routine_rows[: max(seen, 0)]
    seen = len(part.size_rows) - 1
    assert part.size_rows[:seen] == full.size_rows[: max(seen, 0)]
