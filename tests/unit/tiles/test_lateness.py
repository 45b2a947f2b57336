"""Waits in collectives: as lanes, by rank in a window, and in one call."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from support import small
from support.collective_job import collective

from hta_widgets import analysis
from hta_widgets.live.job import TileEngine
from hta_widgets.taxonomy import KINDS
from hta_widgets.tiles.lateness import LatenessIndex
from hta_widgets.tiles.packing import unpack


# Three ranks, two equal calls, in ns: rank 2 arrives at 50, 45 after the median of the others (5).
@pytest.fixture
def lateness():
    """Built from a hand-written frame, without any matching."""
    arrivals = {0: np.array([0, 1000]), 1: np.array([10, 1010]), 2: np.array([50, 1050])}
    rows = [
        {
            "collective": call, "name": "AllReduce", "group": "all", "size_bytes": 4096,
            "rank": rank, "id": call, "arrival_ns": times[call],
            "wait_ns": arrivals[2][call] - times[call], "transfer_ns": 10,
            "end_ns": arrivals[2][call] + 10, "last_rank": 2, "algbw_gb_s": 1.5,
            "busbw_gb_s": np.nan,
        }
        for call in (0, 1)
        for rank, times in arrivals.items()
    ]  # fmt: skip
    traces = {
        rank: SimpleNamespace(
            table=SimpleNamespace(start_ns=times, dur_ns=arrivals[2] + 10 - times), shift_ns=0
        )
        for rank, times in arrivals.items()
    }
    return LatenessIndex(traces, pd.DataFrame(rows), {})


def test_whoever_leaves_before_the_last_comes_waits_until_then(tmp_path):
    """The waits drawn and added up equal those of `exposed_waits` and the heatmap."""
    traces = small.load(
        tmp_path, [small.nccl(1000, 1400)], [small.nccl(2000, 3000)], [small.nccl(1000, 3000)]
    )
    frame = LatenessIndex(traces, analysis.collectives(traces, clock="host"), {})
    in_all = frame.sums_in_window(traces.start_ns, traces.end_ns)["wait"]
    assert in_all == [400, 0, 1000]
    assert in_all == analysis.exposed_waits(traces, clock="host")["wait_ns"].tolist()
    [first] = frame.pieces(0, "wait").dur.tolist()
    assert first == 400


def test_one_call_on_all_ranks(lateness):
    reply = lateness.collective_reply(1, 0)
    assert (reply["number"], reply["of"], reply["last_rank"], reply["late"]) == (1, 2, 2, 45)
    assert [(rank_entry["arrival"], rank_entry["wait"]) for rank_entry in reply["ranks"]] == [
        (0, 50),
        (10, 40),
        (50, 0),
    ]
    assert (reply["algbw"], reply["busbw"]) == (1.5, None)
    assert lateness.collective_reply(1, 7) is None


def test_an_empty_window_is_refused(lateness):
    with pytest.raises(ValueError, match="must end after it starts"):
        lateness.sums_in_window(5, 5)


# --- two collectives at once, through the engine, in ns -------------------------------------------

# Rank 0 arrives at A at 1000 and at B at 1200; rank 1 at A at 5000 and at B at 2000. So A waits
# 1000-5000 and transfers 5000-6000; B waits 1200-2000, inside A's wait, and transfers 2000-3500.
TWO = {0: {"A": (1000, 6000), "B": (1200, 3500)}, 1: {"A": (5000, 6000), "B": (2000, 3500)}}

STREAMS = {"A": 20, "B": 24}


@pytest.fixture(scope="module")
def engine(tmp_path_factory):
    ranks = (
        [
            small.event("cpu_op", "all", 0, 8000, pid=1),
            *(
                collective(
                    *times,
                    group=call,
                    elements=250,
                    stream=STREAMS[call],
                    kernel_name=f"ncclDevKernel_AllReduce_{call}",
                )
                for call, times in calls.items()
            ),
        ]
        for calls in TWO.values()
    )
    return TileEngine(small.read(small.write(tmp_path_factory.mktemp("two-at-once"), *ranks)))


def slices(engine, lane):
    parts = [{"lanes": [lane], "first": 0, "last": 64}]
    reply, buffer = engine.answer({"op": "tiles", "level": 0, "parts": parts})
    columns = unpack(reply["columns"], buffer)
    fields = (columns[f"slice_{name}"].tolist() for name in ("start", "dur", "name", "kind"))
    names = reply["names"]
    return sorted({(int(s), int(d), names[str(n)], k) for s, d, n, k in zip(*fields, strict=True)})


def lanes_of(engine, rank):
    """Return the lanes of waits and late arrivals, of all streams and by stream."""
    scene = engine.scene()["ranks"][rank]
    rows = {"all": next(row for row in scene["summary"] if row["role"] == "comm")}
    rows |= {row["stream"]: row for row in scene["tracks"] if "wait" in row}
    return {key: (row["wait"], row["late"]) for key, row in rows.items()}


def test_a_moment_of_transfer_is_no_wait_of_the_folded_rank(engine):
    waits = {key: slices(engine, wait) for key, (wait, _) in lanes_of(engine, 0).items()}
    # B's wait is inside A's; the part of A's wait during B's transfer is left out.
    assert [piece[:2] for piece in waits["all"]] == [(1000, 1000), (3500, 1500)]
    assert len({piece[2] for piece in waits["all"]}) == 1
    assert waits["all"][0][2] == waits[20][0][2] != waits[24][0][2]
    assert [piece[:2] for piece in waits[20]] == [(1000, 4000)]
    assert [piece[:2] for piece in waits[24]] == [(1200, 800)]
    assert {piece[3] for part in waits.values() for piece in part} == {KINDS.index("communication")}


def test_the_sum_of_waits_counts_what_is_transferred_meanwhile(engine):
    reply, _ = engine.answer({"op": "lateness", "start": 0, "end": 8000})
    assert reply["wait"] == [4000, 0]
    assert reply["last"] == [0, 2]
    assert reply["imposed"] == [0, 4800]


def test_late_arrivals_are_drawn_on_their_own_lanes(engine):
    lates = {key: slices(engine, late) for key, (_, late) in lanes_of(engine, 1).items()}
    assert [piece[:2] for piece in lates["all"]] == [(1000, 4000), (1200, 800)]
    assert [piece[:2] for piece in lates[24]] == [(1200, 800)]
    assert all(not slices(engine, late) for _, late in lanes_of(engine, 0).values())


def test_a_cell_of_a_wait_counts_and_names_nothing(engine):
    wait, late = lanes_of(engine, 0)["all"]
    reply, _ = engine.answer({"op": "cell", "lane": wait, "start": 1500, "end": 4000})
    assert reply == {"count": 2, "busy": 1000, "longest": None, "kinds": {"communication": 1000}}
    assert engine.answer({"op": "snap", "lane": wait, "time": 3499, "tolerance": 5})[0] == {
        "time": 3500
    }
    reply, _ = engine.answer({"op": "cell", "lane": late, "start": 0, "end": 8000})
    assert reply["count"] == 0


def test_one_rank_alone_waits_for_nobody(tmp_path):
    engine = TileEngine(small.load(tmp_path, [small.nccl(1000, 3000)]))
    reply, _ = engine.answer({"op": "lateness", "start": 0, "end": 8000})
    assert (reply["ranks"], reply["collectives"], reply["wait"]) == ([0], [0], [0])
    assert "no communication between ranks" in reply["note"]
    assert engine.answer({"op": "collective", "rank": 0, "id": 0})[0] == {"collective": None}


CASES = json.loads((Path(__file__).parents[2] / "vectors/lateness.json").read_text("utf-8"))[
    "cases"
]


@pytest.fixture(params=CASES, ids=lambda case: case["name"])
def case(request):
    return request.param


@pytest.fixture(params=[0, 12_345])
def shift(request):
    """Return the difference between a rank's own times and the displayed ones."""
    return request.param


@pytest.fixture
def lateness_of_case(case, shift, lateness_of):
    return lateness_of(case, shift)


def test_who_is_late_and_what_it_costs(case, lateness_of_case):
    for rank in case["ranks"]:
        result = lateness_of_case.rank(rank["rank"])
        assert result.row.tolist() == [entry["id"] for entry in rank["entries"]]
        assert result.late_ns.tolist() == [entry["late"] for entry in rank["entries"]]
        assert result.last_alone.tolist() == [entry["last_alone"] for entry in rank["entries"]]
        assert result.imposed_ns.tolist() == [entry["imposed"] for entry in rank["entries"]]


@pytest.mark.parametrize(
    ("lane", "role", "folded"),
    [("waits", "wait", False), ("folded", "wait", True), ("lates", "late", True)],
)
def test_lanes(case, lateness_of_case, shift, lane, role, folded):
    for rank in case["ranks"]:
        result = lateness_of_case.pieces(rank["rank"], role, folded=folded)
        seen = zip(
            (result.start + shift).tolist(), result.dur.tolist(), result.row.tolist(), strict=True
        )
        assert [list(piece) for piece in seen] == rank[lane], rank["rank"]


def test_windows(case, lateness_of_case):
    for window in case["windows"]:
        result = lateness_of_case.sums_in_window(window["start"], window["end"])
        assert result.pop("ranks") == [rank["rank"] for rank in case["ranks"]]
        assert result.pop("note") == ""
        assert result.pop("clock") is None
        for name, values in result.items():
            assert values == window[name], (name, window["start"], window["end"])
