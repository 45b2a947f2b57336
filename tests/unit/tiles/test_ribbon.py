"""Arrivals in bins, against the definition written out as loops, and by hand."""

import json
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from support import small

from hta_widgets.tiles.cells import unpack
from hta_widgets.tiles.lateness import Lateness, Ribbon

# Four ranks, in ns. Call 0: rank 2 comes at 50, after the median rank 1 (10). Call 1: ranks 1
# and 2 come together. Call 2 is among ranks 0 and 3 only.
CALLS = [
    ("AllReduce", {0: 0, 1: 10, 2: 50, 3: 20}),
    ("AllReduce", {0: 1000, 1: 1030, 2: 1030, 3: 1000}),
    ("Broadcast", {0: 1500, 3: 1580}),
]


@pytest.fixture(scope="module")
def lateness(tmp_path_factory):
    rows = []
    ids = dict.fromkeys(range(4), 0)
    events = {rank: [] for rank in ids}
    for call, (name, arrivals) in enumerate(CALLS):
        last = max(arrivals.values())
        for rank, arrival in arrivals.items():
            events[rank].append(small.nccl(arrival, last + 10))
            rows.append(
                {
                    "collective": call, "name": name, "group": "all", "size_bytes": 4096,
                    "rank": rank, "id": ids[rank], "arrival_ns": arrival,
                    "wait_ns": last - arrival, "transfer_ns": 10, "end_ns": last + 10,
                    "last_rank": -1, "algbw_gb_s": np.nan, "busbw_gb_s": np.nan,
                }
            )  # fmt: skip
            ids[rank] += 1
    traces = small.read(small.write(tmp_path_factory.mktemp("ribbon"), *events.values()))
    return Lateness(traces, pd.DataFrame(rows), {})


@pytest.fixture(scope="module")
def within(lateness):
    ribbon = Ribbon(lateness)

    def within(*asked):
        reply, buffer = ribbon.within(*asked)
        columns = {k: v.tolist() for k, v in unpack(reply["columns"], buffer).items()}
        return reply, columns

    return within


def test_each_arrival_is_a_mark_at_its_bin(within):
    reply, found = within(0, 2000, 200)
    marks = list(zip(found["rank"], found["bin"], found["late"], found["call"], strict=True))
    assert marks == [
        (0, 0, 0, 1), (0, 100, 0, 2), (0, 150, 0, 3),
        (1, 1, 0, 1), (1, 103, 30, 2),
        (2, 5, 40, 1), (2, 103, 30, 2),
        (3, 2, 10, 1), (3, 100, 0, 2), (3, 158, 80, 3),
    ]  # fmt: skip
    assert reply["names"] == ["AllReduce", "Broadcast"]
    assert found["name"][2] == 1
    assert found["id"] == [0, 1, 2, 0, 1, 0, 1, 0, 1, 2]
    assert (reply["of"], reply["most"], reply["job_most"]) == (3, 80, 80)


def test_of_several_in_a_bin_the_latest_is_kept(within):
    _, found = within(0, 2000, 1)
    assert found["rank"] == [0, 1, 2, 3]
    assert found["late"] == [0, 30, 40, 80]
    assert found["call"] == [1, 2, 1, 3]
    assert (found["job_wait"], found["job_call"], found["job_rank"]) == ([80], [3], [3])


def test_the_job_has_a_mark_where_the_last_rank_of_a_collective_comes(within):
    _, found = within(0, 2000, 200)
    assert found["job_time"] == [50, 1030, 1580]
    assert found["job_bin"] == [5, 103, 158]
    # Call 0: 50 + 40 + 30 by three others. Call 1: 30 + 30, and no single rank was last.
    assert found["job_wait"] == [40, 20, 80]
    assert found["job_rank"] == [2, -1, 3]
    assert found["job_id"] == [0, 1, 2]


def test_only_what_is_in_the_window_and_of_the_ranks_asked_for(within):
    _, found = within(5, 1030, 41, [1, 3])
    assert list(zip(found["rank"], found["call"], strict=True)) == [(1, 1), (3, 1), (3, 2)]
    assert found["job_call"] == [1]
    _, none = within(0, 2000, 200, [])
    assert none["rank"] == []
    assert none["job_call"] == [1, 2, 3]


def test_bins_are_those_of_marks(within):
    rng = np.random.default_rng(7)
    for _ in range(20):
        start, length = int(rng.integers(-50, 1500)), int(rng.integers(1, 700))
        bins = int(rng.integers(1, 90))
        _, found = within(start, start + length, bins)
        expected = {}
        for _, arrivals in CALLS:
            median = sorted(arrivals.values())[(len(arrivals) - 1) // 2]
            for rank, time in arrivals.items():
                if start <= time < start + length:
                    key = (rank, (time - start) * bins // length)
                    expected[key] = max(expected.get(key, 0), time - median, 0)
        assert dict(zip(zip(found["rank"], found["bin"]), found["late"])) == expected  # noqa: B905


def test_a_job_without_collectives_has_nothing():
    reply, _ = Ribbon(Lateness.nothing({}, "one rank")).within(0, 10, 5)
    assert (reply["of"], reply["most"], reply["names"]) == (0, 0, [])


@pytest.mark.parametrize("asked", [(5, 5, 1), (0, 5, 0), (0, 5, 1 << 17)])
def test_windows_and_bins_that_make_no_sense_are_refused(within, asked):
    with pytest.raises(ValueError, match=r"must end after|a window has"):
        within(*asked)


CASES = json.loads((Path(__file__).parents[2] / "vectors/ribbon.json").read_text("utf-8"))["cases"]


def lateness_of(case, shift):
    traces, rows = {}, []
    for rank in case["ranks"]:
        number, entries = rank["rank"], rank["entries"]
        start = np.array([one["start"] for one in entries])
        table = SimpleNamespace(start_ns=start - shift, dur_ns=np.full(len(start), 1 << 40))
        traces[number] = SimpleNamespace(table=table, shift_ns=shift)
        rows += [
            {
                "collective": 3 * one["call"],
                "name": one["name"],
                "rank": number,
                "id": one["id"],
                "arrival_ns": one["start"] + rank["clock"],
                "wait_ns": one["wait"],
            }
            for one in entries
        ]
    if not rows:
        return Lateness.nothing(traces, "nothing")
    frame = pd.DataFrame(rows).sort_values(["collective", "rank"]).reset_index(drop=True)
    return Lateness(traces, frame, {})


@pytest.mark.parametrize("shift", [0, 12_345])
@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_windows(case, shift):
    ribbon = Ribbon(lateness_of(case, shift))
    for window in case["windows"]:
        asked = [window[name] for name in ("start", "end", "bins", "ranks")]
        reply, buffer = ribbon.within(*asked)
        columns = unpack(reply.pop("columns"), buffer)
        assert reply == case["reply"]
        assert {name: values.tolist() for name, values in columns.items()} == window["columns"]
