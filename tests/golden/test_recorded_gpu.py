"""Collectives recorded on a GPU, compared with what the recorded programs did."""

import pandas as pd
from support.recorded import DATA

import hta_widgets as hw
from hta_widgets import analysis


def test_collectives_of_a_named_group_match_in_order_although_their_ends_differ():
    """Two processes take turns on one GPU, so the ends of a collective differ by up to 4 ms."""
    frame = analysis.collectives(hw.load(DATA / "nccl"))
    assert frame.attrs["matched"]["matched"] == 27
    frame = frame.sort_values("arrival_ns")[["rank", "collective", "name", "size_bytes"]]
    first, other = (frame[frame["rank"] == rank].drop(columns="rank") for rank in (0, 1))
    pd.testing.assert_frame_equal(first.reset_index(drop=True), other.reset_index(drop=True))


def test_the_rank_that_slept_is_the_straggler():
    late = analysis.stragglers(hw.load(DATA / "nccl")).set_index("rank")
    assert late["is_straggler"].tolist() == [False, True]
    assert late["cause"][1] == "idle host"


def test_coalesced_sends_match_nothing():
    """The kernels of all other collectives record a group or peers, but these do not."""
    frame = analysis.collectives(hw.load(DATA / "p2p"))
    assert frame.attrs["matched"] == {
        "communication": 42,
        "matched": 9,  # all_to_all, send and broadcast, in three steps
        "partly_matched": 0,
        "unmatched": 12,  # one batch per rank, in three steps
        "alone": 0,
    }
    assert frame.groupby("name")["rank"].unique().map(sorted).to_dict() == {
        "all_to_allv": [0, 1, 2, 3],
        "broadcast": [0, 1, 2, 3],
        "recv": [1],
        "send": [0],
    }


def test_messages_include_the_sends_of_batches():
    """In each step, a rank sends 1 MiB to the next in a batch, and 256 KiB to all others."""
    dash = hw.Dashboard(hw.load(DATA / "p2p"), panels=["messages"])
    frame = dash.panel_frame("messages")
    kib = frame.pivot_table("bytes", "rank", "peer", "sum", fill_value=0) / 1024
    assert kib.to_numpy().tolist() == [
        [0, 4608, 768, 768],  # and in each step 256 KiB in a separate send
        [768, 0, 3840, 768],
        [768, 768, 0, 3840],
        [3840, 768, 768, 0],
    ]
    assert frame["count"].sum() == 3 * (4 + 12 + 1)


def test_a_rank_held_up_by_unmatched_communication_is_no_straggler():
    """Rank 0 comes late to each all_to_all, because the batch of sends before it takes 16 ms."""
    late = analysis.stragglers(hw.load(DATA / "p2p")).set_index("rank")
    assert not late["is_straggler"].any()
    assert late["cause"].tolist() == ["waiting elsewhere", "", "", ""]


def test_kernels_of_a_cuda_graph_have_its_launch():
    events = hw.load(DATA / "cuda_graphs.json.gz").events()
    launches = events[events["name"] == "cudaGraphLaunch"]
    kernels = events[(events["category"] == "kernel")]
    of_graphs = kernels[kernels["correlation"].isin(launches["correlation"])]
    assert len(launches) > 0
    assert len(of_graphs) > 10 * len(launches)
