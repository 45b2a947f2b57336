"""Waits within collectives: as lanes, by rank in a window, and of one call."""

import json

import numpy as np
import pandas as pd
import pytest

from hta_widgets.model.intervals import Intervals
from hta_widgets.readers import load
from hta_widgets.tiles.lateness import Lateness

# Three ranks, two calls, in ns. Call 0: rank 2 comes 40 after the median of the others (5), at 50.
# Call 1: ranks 1 and 2 come together, nobody is last alone.
ARRIVALS = {0: (0, 1000), 1: (10, 1030), 2: (50, 1030)}
ENDS = (60, 1100)


@pytest.fixture(scope="module")
def traces(tmp_path_factory):
    folder = tmp_path_factory.mktemp("collectives")
    for rank, arrivals in ARRIVALS.items():
        events = [
            {
                "ph": "X", "name": "ncclDevKernel_AllReduce_Sum_f32_RING_LL(x)", "cat": "kernel",
                "pid": 0, "tid": 20, "ts": arrival / 1000, "dur": (end - arrival) / 1000,
                "args": {"stream": 20},
            }
            for arrival, end in zip(arrivals, ENDS, strict=True)
        ]  # fmt: skip
        document = {
            "distributedInfo": {"rank": rank},
            "baseTimeNanoseconds": 1_700_000_000_000_000_000,
            "traceEvents": events,
        }
        (folder / f"rank-{rank}.json").write_text(json.dumps(document))
    return load(folder, cache=False, progress=False)


@pytest.fixture(scope="module")
def lateness(traces):
    """From a frame written by hand, so that matching has no part in it."""
    rows = [
        {
            "collective": call,
            "name": "AllReduce",
            "group": "all",
            "size_bytes": 4096,
            "rank": rank,
            "id": call,
            "arrival_ns": arrivals[call],
            "wait_ns": max(other[call] for other in ARRIVALS.values()) - arrivals[call],
            "transfer_ns": ENDS[call] - max(other[call] for other in ARRIVALS.values()),
            "end_ns": ENDS[call],
            "last_rank": 2,
            "algbw_gb_s": 1.5,
            "busbw_gb_s": np.nan,
        }
        for call in (0, 1)
        for rank, arrivals in ARRIVALS.items()
    ]
    compute = {0: Intervals(np.array([20]), np.array([30]))}
    return Lateness(traces, pd.DataFrame(rows), compute)


def pieces(lateness, rank, role):
    found = lateness.pieces(rank, role)
    return list(zip(found.start.tolist(), found.dur.tolist(), found.row.tolist(), strict=True))


def test_waits_are_from_the_own_arrival_to_the_last(lateness):
    assert pieces(lateness, 0, "wait") == [(0, 50, 0), (1000, 30, 1)]
    assert pieces(lateness, 1, "wait")[0][1] == 40
    assert pieces(lateness, 2, "wait") == []


def test_late_is_from_the_median_of_the_others_to_the_own_arrival(lateness, traces):
    # The table of rank 2 begins at its own first event, 50 ns after the job's.
    assert traces[2].shift_ns == 50
    assert pieces(lateness, 2, "late") == [(-45, 45, 0)]
    assert pieces(lateness, 1, "late") == []


def test_nobody_is_last_where_two_come_together(lateness):
    assert lateness.within(1000, 1100)["last"] == [0, 0, 0]


def test_a_window_adds_up_what_lies_in_it(lateness):
    found = lateness.within(0, 100)
    assert found["ranks"] == [0, 1, 2]
    assert found["collectives"] == [1, 1, 1]
    assert found["last"] == [0, 0, 1]
    assert found["wait"] == [50, 40, 0]
    assert found["exposed_wait"] == [40, 40, 0]
    assert found["imposed"] == [0, 0, 90]
    assert lateness.within(0, 25)["wait"] == [25, 15, 0]


def test_few_collectives_give_no_verdict(lateness):
    assert lateness.within(0, 2000)["late"] == []


def test_one_call_on_all_ranks(lateness):
    found = lateness.collective(1, 0)
    assert (found["number"], found["of"], found["last_rank"]) == (1, 2, 2)
    assert [one["arrival"] for one in found["ranks"]] == [0, 10, 50]
    assert [one["wait"] for one in found["ranks"]] == [50, 40, 0]
    assert found["late"] == 45
    assert found["algbw"] == 1.5
    assert found["busbw"] is None
    assert lateness.collective(1, 7) is None


def test_an_empty_window_is_refused(lateness):
    with pytest.raises(ValueError, match="must end after it starts"):
        lateness.within(5, 5)
