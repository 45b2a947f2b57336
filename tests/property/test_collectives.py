"""Analyses of generated jobs, compared with the truth that the generator writes."""

import tempfile
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st
from support.examples import examples

import hta_widgets as hw
from hta_widgets.analysis import clock_offsets, collectives, stragglers
from hta_widgets.analysis.cross_rank.alignment import MISSING, align_sequences
from hta_widgets.demo.job import write_demo

jobs = st.fixed_dictionaries(
    {
        "seed": st.integers(0, 10_000),
        "ranks": st.sampled_from([2, 4, 6, 8]),
        "steps": st.integers(1, 3),
        "straggler": st.sampled_from([None, 1]),
        "strided": st.booleans(),
        "skew_us": st.sampled_from([0.0, 200.0, 50_000.0]),
        "uneven_us": st.sampled_from([0.0, 15_000.0]),
        "gone": st.integers(0, 2),
    }
)


def write(folder, job):
    """Write the job; ranks that are gone have no file."""
    job = dict(job)
    gone = job.pop("gone")
    missing = np.random.default_rng(job["seed"]).permutation(job["ranks"]).tolist()
    missing = missing[: min(gone, job["ranks"] - 2)]
    truth = write_demo(folder / "job", events_per_step=500, format="json", missing=missing, **job)
    return hw.load(folder / "job", cache=False, progress=False), truth


def connected(truth):
    """Return the sets of ranks that collectives in the files connect."""
    part = {
        rank: {rank} for collective in truth["collective_list"] for rank in collective["in_files"]
    }
    for collective in truth["collective_list"]:
        full = set().union(*(part[rank] for rank in collective["in_files"]))
        for rank in full:
            part[rank] = full
    return part


@settings(max_examples=examples(12), suppress_health_check=[HealthCheck.too_slow])
@given(jobs)
def test_the_truth_is_found(job):
    with tempfile.TemporaryDirectory() as folder:
        traces, truth = write(Path(folder), job)
        observed = truth["observed"]
        frame = collectives(traces, clock="fitted")
        seen = [
            collective for collective in truth["collective_list"] if len(collective["in_files"]) > 1
        ]
        assert frame.collective.nunique() == len(seen)
        result = Counter(
            (str(part.name.iloc[0]), tuple(part["rank"])) for _, part in frame.groupby("collective")
        )
        assert result == Counter(
            (collective["name"], tuple(collective["in_files"])) for collective in seen
        )
        full = sum(len(collective["in_files"]) == len(collective["ranks"]) for collective in seen)
        assert frame.attrs["matched"]["matched"] == full
        single = sum(
            len(collective["in_files"]) == 1 and len(collective["ranks"]) > 1
            for collective in truth["collective_list"]
        )
        assert frame.attrs["matched"]["unmatched"] == single

        # Clocks are relative to the lowest rank of each part that collectives connect.
        part = connected(truth)
        offsets = clock_offsets(traces).set_index("rank").offset_ns
        for rank in traces.ranks:
            base = min(part.get(rank, {rank}))
            skew = truth["skew_us"][rank] - truth["skew_us"][base]
            assert offsets[rank] / 1000 == pytest.approx(skew, abs=25)

        # Waits, and the ranks that impose them.
        if len(frame):
            waits = frame.groupby("rank").wait_ns.sum() / 1000
            assert waits.tolist() == pytest.approx(
                [observed["wait_us_total"][rank] for rank in waits.index], rel=0.02, abs=5
            )
            late = stragglers(traces, clock="fitted").set_index("rank")
            for rank in late.index:
                assert late.imposed_wait_ns[rank] / 1000 == pytest.approx(
                    observed["imposed_wait_us"][rank], rel=0.02, abs=5
                )


# The verdict is statistical, so the seeds are fixed.
@settings(max_examples=examples(6), derandomize=True, suppress_health_check=[HealthCheck.too_slow])
@given(st.integers(0, 10_000), st.sampled_from([None, 1, 5]))
def test_only_the_straggler_is_called_one(seed, straggler):
    with tempfile.TemporaryDirectory() as folder:
        write_demo(
            Path(folder) / "job", ranks=8, steps=5, seed=seed, straggler=straggler,
            events_per_step=1_500, format="json",
        )  # fmt: skip
        traces = stragglers(hw.load(Path(folder) / "job", cache=False, progress=False))
        named = traces["rank"][traces.is_straggler].tolist()
        assert named == ([] if straggler is None else [straggler])


@settings(max_examples=examples(60))
@given(st.data())
def test_parts_of_one_sequence_are_laid_upon_each_other(data):
    """Two ranks that recorded different intervals, with clocks that are far apart."""
    count = data.draw(st.integers(6, 40))
    rng = np.random.default_rng(data.draw(st.integers(0, 10_000)))
    content = rng.integers(0, data.draw(st.integers(1, 4)), count)
    end_ns = np.cumsum(rng.integers(2_000_000, 30_000_000, count))
    cut = count // 3
    first = slice(data.draw(st.integers(0, cut)), count - data.draw(st.integers(0, cut)))
    second = slice(data.draw(st.integers(0, cut)), count - data.draw(st.integers(0, cut)))
    if min(first.stop, second.stop) - max(first.start, second.start) < 4:
        return
    off = data.draw(st.integers(-(10**7), 10**7))
    noise = rng.integers(-5_000, 5_000, count)
    result = align_sequences(
        content[first], end_ns[first], content[second], (end_ns + off + noise)[second], sure=True
    )
    assert (result != MISSING).all()
    assert (result + first.start == np.arange(second.start, second.stop)).all()
