"""Generated jobs with known clocks, arrivals, stragglers and straggler costs."""

import json

import numpy as np
import pytest
from support import golden, recorded

import hta_widgets as hw
from hta_widgets.analysis import (
    clock_offsets,
    collectives,
    exposed_waits,
    job_critical_path,
    job_path_summary,
    rank_clusters,
    step_times,
    stragglers,
    temporal_breakdown,
)
from hta_widgets.panels.headline import headline

THIN = "\u202f"


@pytest.fixture(scope="module")
def made(shared):
    folder = shared / "traces/made/ddp_8rank"
    if not folder.is_dir():
        pytest.skip(f"no made job at {folder}")
    truth = json.loads(folder.with_name("ddp_8rank_truth.json").read_text("utf-8"))
    return recorded.load(folder), truth


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


def test_the_straggler_is_a_group_of_its_own(made):
    traces, truth = made
    frame = rank_clusters(traces).set_index("rank")
    assert frame.index[frame["is_outlier"]].tolist() == [truth["slow"]]
    assert frame["representative"].nunique() == 2
    # The rank's host and its kernels were slowed down, so its device waits for launches.
    assert "its device is idle for 15 % more of a step" in frame["why"][5]
    assert "costs the others 17 % more of their time" in frame["why"][5]


def test_the_straggler_is_on_the_path(made):
    traces, truth = made
    for instance in range(3):
        frame = job_critical_path(traces, instance=instance)
        share = job_path_summary(frame).groupby("rank")["share"].sum()
        assert share[truth["slow"]] > 0.9


def test_step_time_hides_the_straggler(made):
    traces, truth = made
    frame = step_times(traces)
    # All steps are equally long on all ranks; the slow rank has 20 % more work.
    assert np.abs(frame["dur_deviation_share"]).max() < 0.01
    own = frame.groupby("rank")["own_deviation_share"].mean()
    assert own.idxmax() == truth["slow"]
    assert own[5] > 0.15
    assert own.drop(5).max() < 0.02


def test_the_headline_names_the_straggler(made):
    traces, truth = made
    result = headline(traces)
    # The average rank waits 149 ms, a tenth of it hidden by compute; rank 5 does not wait.
    waits = [wait for wait in truth["wait_us_total"] if wait > 0]
    exposed_ms = exposed_waits(traces, clock="fitted")["exposed_wait_ns"].sum() / 8e6
    assert 0.85 < 8 * exposed_ms / (sum(waits) / 1000) < 1
    part = 100 * exposed_ms * 1e6 / temporal_breakdown(traces)["span_ns"].mean()
    assert result.text_parts[-2] == {"rank": truth["slow"], "text": "rank 5"}
    text = str(result).replace(THIN, " ")
    assert text.startswith(
        f"7 of {truth['ranks']} ranks wait for rank 5: exposed waiting takes {part:.0f} % of each"
        f" rank's GPU span, {exposed_ms:.0f} ms a rank. "
        "Rank 5 arrives last at 21 of 21 collectives; its forward pass takes 128 ms, 13 % over the"
        " median rank. GPUs are idle 66 % of each rank's GPU span"
    )
    assert result.findings[0].label == "Select rank 5"
    assert result.findings[0].selection == hw.Selection(ranks=(5,))
    assert [finding.kind for finding in result.findings] == [
        "waiting",
        "idle",
        "exposed_communication",
    ]
    json.dumps(result.to_json(), allow_nan=False)


def test_two_sampled_ranks_of_many(shared):
    """In this sampled trace, only times show which kernels belong together."""
    traces = recorded.load(shared / "traces/hta_tests/trace_filter")
    frame = collectives(traces)
    ends = frame.pivot(index="collective", columns="rank", values="end_ns")
    # Found by hand: ends within 0.5 ms of each other, in µs.
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


@pytest.mark.parametrize(
    "name", [name for name in golden.names() if name != "hta_tests__trace_filter"]
)
def test_single_ranks_give_empty_frames_and_reasons(name):
    traces = golden.whole(name)
    for analysis in (collectives, stragglers):
        frame = analysis(traces)
        assert len(frame) == 0
        assert frame.attrs["note"]
        assert {"rank", "wait_ns"} <= set(frame.columns)
    offsets = clock_offsets(traces)
    assert offsets.offset_ns.tolist() == [0] * len(traces)
    assert offsets.attrs["note"]
