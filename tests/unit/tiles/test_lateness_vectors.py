"""Waits as lanes and figures of a window against brute force."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from hta_widgets.tiles.lateness import Lateness
from hta_widgets.trace.intervals import union

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
def lateness(case, shift):
    traces, rows, compute = {}, [], {}
    for rank in case["ranks"]:
        number, entries = rank["rank"], rank["entries"]
        start, dur = (np.array([one[name] for one in entries]) for name in ("start", "dur"))
        table = SimpleNamespace(start_ns=start - shift, dur_ns=dur)
        traces[number] = SimpleNamespace(table=table, shift_ns=shift)
        compute[number] = union(*np.array(rank["compute"], np.int64).reshape(-1, 2).T)
        rows += [
            {
                "collective": 3 * one["call"],
                "rank": number,
                "id": one["id"],
                "arrival_ns": one["start"] + rank["clock"],
            }
            for one in entries
        ]
    frame = pd.DataFrame(rows).sort_values(["collective", "rank"]).reset_index(drop=True)
    # As in `collectives`: to the last arrival, also if the event ends before.
    last = frame.groupby("collective")["arrival_ns"].transform("max")
    frame["wait_ns"] = last - frame["arrival_ns"]
    return Lateness(traces, frame, compute, case["late"])


def test_who_is_late_and_what_it_costs(case, lateness):
    for rank in case["ranks"]:
        found = lateness.rank(rank["rank"])
        assert found.row.tolist() == [one["id"] for one in rank["entries"]]
        assert found.late_ns.tolist() == [one["late"] for one in rank["entries"]]
        assert found.last_alone.tolist() == [one["last_alone"] for one in rank["entries"]]
        assert found.imposed_ns.tolist() == [one["imposed"] for one in rank["entries"]]


@pytest.mark.parametrize(
    ("lane", "role", "folded"),
    [("waits", "wait", False), ("folded", "wait", True), ("lates", "late", True)],
)
def test_lanes(case, lateness, shift, lane, role, folded):
    for rank in case["ranks"]:
        found = lateness.pieces(rank["rank"], role, folded=folded)
        seen = zip(
            (found.start + shift).tolist(), found.dur.tolist(), found.row.tolist(), strict=True
        )
        assert [list(piece) for piece in seen] == rank[lane], rank["rank"]


def test_windows(case, lateness):
    for window in case["windows"]:
        found = lateness.within(window["start"], window["end"])
        assert found.pop("ranks") == [rank["rank"] for rank in case["ranks"]]
        assert found.pop("note") == ""
        for name, values in found.items():
            assert values == window[name], (name, window["start"], window["end"])
