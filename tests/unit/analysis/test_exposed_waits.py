"""How long ranks wait for each other, and what devices do when: small jobs, counted by hand."""

import pytest
from support import small

import hta_widgets as hw
from hta_widgets import analysis


@pytest.fixture
def pair(tmp_path):
    """Rank 0 waits from 1 000 to 2 000 and computes from 1 200 to 1 500; both leave at 3 000."""
    return small.load(
        tmp_path,
        [small.kernel(200, 700), small.nccl(1000, 3000), small.kernel(1200, 1500)],
        [small.kernel(200, 1900), small.nccl(2000, 3000)],
    )


def test_what_compute_hides_is_not_exposed(pair):
    found = analysis.exposed_waits(pair)
    columns = ["rank", "collectives", "wait_ns", "exposed_wait_ns", "exposed_communication_ns"]
    assert found[columns].to_numpy().tolist() == [[0, 1, 1000, 700, 1700], [1, 1, 0, 0, 1000]]
    assert found.attrs["matched"] == {"compute": 3, "communication": 2, "matched": 2}


def test_windows_cut_waits_and_ranks_do_not_change_who_is_last(pair):
    found = analysis.exposed_waits(pair, window=(1400, 2500), ranks=[0])
    assert found["wait_ns"].tolist() == [600]
    assert found["exposed_wait_ns"].tolist() == [500]
    without = analysis.exposed_waits(pair, selection="kind == 'communication'")
    assert without["exposed_wait_ns"].tolist() == [1000, 0]


def test_who_leaves_before_the_last_comes_waits_until_then(tmp_path):
    traces = small.load(
        tmp_path, [small.nccl(1000, 1400)], [small.nccl(2000, 3000)], [small.nccl(1000, 3000)]
    )
    assert analysis.exposed_waits(traces, clock="host")["wait_ns"].tolist() == [400, 0, 1000]


def test_unknown_is_not_none(tmp_path):
    found = analysis.exposed_waits(small.load(tmp_path, [small.nccl(10, 20)]))
    assert found["wait_ns"].tolist() == [-1]
    assert found["exposed_wait_ns"].tolist() == [-1]
    assert found["exposed_communication_ns"].tolist() == [10]
    assert "not known" in found.attrs["note"]


@pytest.mark.parametrize(
    ("metric", "rank_0", "rank_1"),
    [
        ("busy", [500, 1000, 1000], [800, 900, 1000]),
        ("compute", [500, 300, 0], [800, 900, 0]),
        ("communication", [0, 1000, 1000], [0, 0, 1000]),
        ("exposed_communication", [0, 700, 1000], [0, 0, 1000]),
        ("waiting", [0, 1000, 0], [0, 0, 0]),
        ("idle", [300, 0, 0], [0, 100, 0]),
    ],
)
def test_bins(pair, metric, rank_0, rank_1):
    found = analysis.rank_time_heatmap(pair, metric=metric, bins=3, window=(0, 3000))
    edges = [(0, 1000), (1000, 2000), (2000, 3000)]
    assert list(zip(found["start_ns"], found["end_ns"], strict=True)) == edges * 2
    assert found["value_ns"].tolist() == rank_0 + rank_1
    assert found["share"].tolist() == pytest.approx([x / 1000 for x in rank_0 + rank_1])


def test_edges_are_rounded_down_and_lose_nothing(pair):
    found = analysis.rank_time_heatmap(pair, bins=7, window=(5, 3001), ranks=[0])
    assert found["start_ns"].tolist() == [5 + 2996 * k // 7 for k in range(7)]
    assert found["end_ns"].iloc[-1] == 3001
    assert found["value_ns"].sum() == 2500
    whole = analysis.rank_time_heatmap(pair, bins=2)
    assert (whole["start_ns"].min(), whole["end_ns"].max()) == (0, 3000)


def test_bins_of_no_length_and_what_cannot_be_asked(pair):
    assert analysis.rank_time_heatmap(pair, bins=3, window=(7, 7))["share"].isna().all()
    with pytest.raises(hw.TraceError, match="no metric 'joy'"):
        analysis.rank_time_heatmap(pair, metric="joy")
    with pytest.raises(hw.TraceError, match="0 bins"):
        analysis.rank_time_heatmap(pair, bins=0)
