"""Generated jobs with a known truth: clocks, arrivals, the straggler and its cost."""

import json

import numpy as np
import pytest

import hta_widgets as hw
from hta_widgets.analysis import clock_offsets, collectives, stragglers


@pytest.fixture(scope="module")
def made(shared):
    folder = shared / "traces/made/ddp_8rank"
    if not folder.is_dir():
        pytest.skip(f"no made job at {folder}")
    truth = json.loads(folder.with_name("ddp_8rank_truth.json").read_text("utf-8"))
    return hw.load(folder, cache=False, progress=False), truth


def test_every_collective_is_matched(made):
    traces, truth = made
    frame = collectives(traces)
    assert frame.collective.nunique() == truth["collectives"]
    assert frame.groupby("collective")["rank"].nunique().tolist() == [8] * truth["collectives"]
    assert frame.groupby("collective").size_bytes.nunique().tolist() == [1] * truth["collectives"]
    assert frame.attrs["matched"]["unmatched"] == 0
    assert frame.attrs["matched"]["partly_matched"] == 0
    assert frame.attrs["matched"]["communication"] == 8 * truth["collectives"]


def test_clocks_are_recovered(made):
    traces, truth = made
    frame = clock_offsets(traces)
    off_us = frame.offset_ns.to_numpy() / 1000 - np.array(truth["skew_us"])
    assert np.abs(off_us).max() < 25
    assert frame.residual_ns.between(0, 25_000).all()


def test_waits_are_those_of_the_truth(made):
    traces, truth = made
    waits = collectives(traces, clock="fitted").groupby("rank").wait_ns.sum() / 1000
    assert waits.tolist() == pytest.approx(truth["wait_us_total"], rel=0.02, abs=50)


def test_the_straggler_is_named(made):
    traces, truth = made
    frame = stragglers(traces).set_index("rank")
    assert frame.attrs["clock"] == "fitted"
    assert frame.index[frame.is_straggler].tolist() == [truth["slow"]]
    assert (frame.score * frame.collectives).round().tolist() == truth["last_arrivals"]
    imposed = sum(truth["wait_us_total"]) * 1000
    assert frame.imposed_wait_ns[truth["slow"]] == pytest.approx(imposed, rel=0.02)
    assert frame.pattern[truth["slow"]] == "consistent"


def test_two_sampled_ranks_of_many(shared):
    """Only times show which kernels of this sampled trace belong together."""
    folder = shared / "traces/hta_tests/trace_filter"
    if not folder.is_dir():
        pytest.skip(f"no trace at {folder}")
    traces = hw.load(folder, cache=False, progress=False)
    frame = collectives(traces)
    ends = frame.pivot(index="collective", columns="rank", values="end_ns")
    # Found by hand: the ends within half a millisecond of each other, in µs.
    assert (ends // 1000).to_numpy().tolist() == [
        [961088, 961088],
        [1080642, 1080587],
        [1401070, 1401402],
        [1955738, 1955746],
        [2022787, 2022598],
    ]
    assert frame.attrs["matched"]["unmatched"] == 10
    assert frame.attrs["matched"]["partly_matched"] == 5
    assert "files of 126 of 128 ranks are missing" in frame.attrs["note"]
    assert not stragglers(traces).is_straggler.any()
    assert "files of 126 ranks are missing" in stragglers(traces).attrs["note"]


def test_single_ranks_give_empty_frames_and_reasons(shared):
    folders = sorted((shared / "traces/hta_tests").iterdir())
    folders += sorted((shared / "traces/kineto").iterdir())
    seen = 0
    for folder in folders:
        if folder.name in {"memory_analysis", "trace_filter"}:
            continue
        traces = hw.load(folder, cache=False, progress=False)
        seen += 1
        for analysis in (collectives, stragglers):
            frame = analysis(traces)
            assert len(frame) == 0, folder
            assert frame.attrs["note"], folder
            assert {"rank", "wait_ns"} <= set(frame.columns)
        offsets = clock_offsets(traces)
        assert offsets.offset_ns.tolist() == [0] * len(traces)
        assert offsets.attrs["note"]
    assert seen > 10
