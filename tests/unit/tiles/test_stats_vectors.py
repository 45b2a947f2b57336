"""Figures of a window and the minimap against brute force."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from hta_widgets.live.job import TileEngine
from hta_widgets.readers.load import load
from hta_widgets.taxonomy import KINDS
from hta_widgets.tiles.cells import unpack

CASES = json.loads((Path(__file__).parents[2] / "vectors/stats.json").read_text("utf-8"))["cases"]

#: A category and a name that the taxonomy takes for each kind.
EXAMPLES = {
    "compute": ("kernel", "gemm"),
    "communication": ("kernel", "ncclKernel_AllReduce"),
    "memory": ("gpu_memcpy", "Memcpy HtoD"),
    "other": ("cuda_sync", "Stream Sync"),  # any kind that no figure counts
}
STREAMS = 40


@pytest.fixture(params=CASES, ids=lambda case: case["name"])
def case(request):
    return request.param


@pytest.fixture
def engine(case, tmp_path):
    """The case's ranks as files: host events state their ranges, times are whole ns."""
    for one in case["ranks"]:
        low, high = one["range"]
        events = [record("range", "cpu_op", 1, 1, low, high - low)]
        for at, (start, dur, code) in enumerate(one["device"]):
            category, name = EXAMPLES[KINDS[code]]
            stream = at % STREAMS
            events.append(record(name, category, 0, stream, start, dur, stream=stream))
        document = {"distributedInfo": {"rank": one["rank"]}, "traceEvents": events}
        (tmp_path / f"{one['rank']}.json").write_text(json.dumps(document))
    return TileEngine(load(tmp_path, cache=False, progress=False))


def record(name, category, pid, tid, start, dur, **args):
    times = {"ts": start / 1000, "dur": dur / 1000}
    return {"ph": "X", "name": name, "cat": category, "pid": pid, "tid": tid, **times, "args": args}


def test_windows(case, engine):
    assert [one.range_ns for one in engine.job.ranks] == [tuple(r["range"]) for r in case["ranks"]]
    for window in case["windows"]:
        found, _ = engine.answer({"op": "stats", "start": window["start"], "end": window["end"]})
        for field in ("compute", "communication", "exposed", "memory", "idle", "data", "span"):
            assert found[field] == window[field], field
        assert found["kinds"] == pytest.approx(window["kinds"], rel=1e-12)


def test_shares_of_one_rank(case, engine):
    window = {name: case["windows"][0][name] for name in ("start", "end")}
    for at, one in enumerate(case["ranks"]):
        found, _ = engine.answer({"op": "stats", **window, "ranks": [one["rank"]]})
        share = found["compute"][at] / max(found["span"][at], 1)
        assert found["kinds"].get("compute", 0) == pytest.approx(share, rel=1e-12)


def test_minimap(case, engine):
    want = case["minimap"]
    reply, buffer = engine.answer({"op": "minimap", "bins": want["bins"]})
    assert (reply["start"], reply["end"]) == (want["start"], want["end"])
    columns = unpack(reply["columns"], buffer)
    if not any(rank["device"] for rank in case["ranks"]):
        assert list(columns) == ["cpu"]
        return
    for name in ("compute", "exposed", "memory"):
        np.testing.assert_allclose(columns[name], want[name], rtol=1e-6, atol=1e-9)
