"""The engine's cells and buffers, compared with independently computed vectors."""

from __future__ import annotations

import base64
import importlib.util
import json
from pathlib import Path

import numpy as np
import pytest

from hta_widgets.live.job import TileEngine
from hta_widgets.readers.load import load
from hta_widgets.taxonomy import KINDS
from hta_widgets.tiles.cells import CELLS, counter_tiles, event_tiles, measure_cells
from hta_widgets.tiles.lanes import index_counter, index_lane
from hta_widgets.tiles.packing import compact_columns, pack, unpack

VECTORS = Path(__file__).parents[2] / "vectors"


def read(name):
    return json.loads((VECTORS / name).read_text("utf-8"))


CASES = read("tiles.json")["cases"]

REPLIES = read("packed.json")["replies"]


def lane_of(events, slices=True):
    starts, durs, kinds = np.array(events, np.int64).reshape(-1, 3).T.copy()
    rows = np.arange(len(starts)) if slices else None
    return index_lane(starts, durs, kinds.astype(np.uint8), rows)


def test_the_files_are_what_the_script_writes():
    spec = importlib.util.spec_from_file_location("make_vectors", VECTORS / "make.py")
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    for name, document in script.documents().items():
        assert (VECTORS / name).read_text("utf-8") == script.text_of(document), name


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
@pytest.mark.parametrize("shift", [0, 12_345])
def test_tiles(case, shift):
    expected = {(tile["lane"], tile["index"]): tile for tile in case["tiles"]}
    result = set()
    for each_lane in case["lanes"]:
        moved = [[start - shift, dur, kind] for start, dur, kind in each_lane["events"]]
        lane = lane_of(moved, each_lane["slices"])
        actual = event_tiles(lane, case["level"], case["first"], case["last"], shift)
        for row, index in enumerate([] if actual is None else actual.index.tolist()):
            tile = expected[each_lane["lane"], index]
            result.add((each_lane["lane"], index))
            columns = {"busy": 0, "count": 0, "kind": 255, "mask": 0}
            for name, empty in columns.items():
                want = np.full(CELLS, empty)
                for cell in tile["cells"]:
                    want[cell["cell"]] = cell[name]
                np.testing.assert_array_equal(getattr(actual, name)[row], want, name)
            assert actual.slices.positions[actual.slices.tile == row].tolist() == positions(
                lane, each_lane, tile
            )
    assert result == set(expected)


def positions(lane, one, tile):
    """Rows of a lane exclude events of zero duration, which are never slices."""
    if not tile["slices"]:
        return []
    rows = lane.rows.tolist()
    return [rows.index(i) for i in tile["slices"]]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_exact_time(case):
    width = 1 << case["level"]
    for tile in case["tiles"]:
        each_lane = next(
            each_lane for each_lane in case["lanes"] if each_lane["lane"] == tile["lane"]
        )
        lane = lane_of(each_lane["events"])
        for cell in tile["cells"]:
            start = (tile["index"] * CELLS + cell["cell"]) * width
            edges = np.array([start, start + width])
            assert measure_cells(lane, edges).covered.tolist() == [cell["covered"]]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_counter_tiles(case):
    expected = {(tile["lane"], tile["index"]): tile for tile in case["counter_tiles"]}
    result = set()
    for counter in case["counters"]:
        times, values = np.array(counter["samples"]).T
        lane = index_counter(times.astype(np.int64), values, case["end"])
        actual = counter_tiles(lane, case["level"], case["first"], case["last"])
        for row, index in enumerate([] if actual is None else actual.index.tolist()):
            result.add((counter["lane"], index))
            for name, column in (("min", actual.smallest), ("max", actual.largest)):
                want = np.full(CELLS, np.nan, np.float32)
                for cell in expected[counter["lane"], index]["cells"]:
                    want[cell["cell"]] = cell[name]
                np.testing.assert_array_equal(column[row], want, name)
    assert result == set(expected)


@pytest.mark.parametrize("reply", REPLIES, ids=lambda reply: reply["name"])
def test_packed_bytes(reply):
    header, buffer = reply["reply"]["columns"], base64.b64decode(reply["buffer"])
    columns = unpack(header, buffer)
    assert list(columns) == list(reply["columns"])
    for name, values in reply["columns"].items():
        want = [np.nan if value is None else value for value in values]
        np.testing.assert_array_equal(columns[name], want, name)
    again = {name: (dtype, columns[name]) for name, (dtype, _, _) in header.items()}
    assert pack(again) == (header, buffer)


@pytest.mark.parametrize(
    "reply", [item for item in REPLIES if "plain" in item], ids=lambda reply: reply["name"]
)
def test_compact_bytes(reply):
    plain = next(item for item in REPLIES if item["name"] == reply["plain"])
    header = plain["reply"]["columns"]
    columns = unpack(header, base64.b64decode(plain["buffer"]))
    inputs = {name: (dtype, columns[name]) for name, (dtype, _, _) in header.items()}
    result, buffer = pack(compact_columns(inputs, plain["reply"]["level"]))
    assert result == reply["reply"]["columns"]
    assert buffer == base64.b64decode(reply["buffer"])


STATS = json.loads((Path(__file__).parents[2] / "vectors/stats.json").read_text("utf-8"))["cases"]

#: For each kind, a category and a name that the taxonomy assigns to it.
EXAMPLES = {
    "compute": ("kernel", "gemm"),
    "communication": ("kernel", "ncclKernel_AllReduce"),
    "memory": ("gpu_memcpy", "Memcpy HtoD"),
    "other": ("cuda_sync", "Stream Sync"),  # a kind that no figure counts
}

STREAMS = 40


@pytest.fixture(params=STATS, ids=lambda case: case["name"])
def case(request):
    return request.param


@pytest.fixture
def engine(case, tmp_path):
    """The ranks of a case as files: host events record their ranges; times are whole ns."""
    for rank_entry in case["ranks"]:
        low, high = rank_entry["range"]
        events = [record("range", "cpu_op", 1, 1, low, high - low)]
        for at, (start, dur, code) in enumerate(rank_entry["device"]):
            category, name = EXAMPLES[KINDS[code]]
            stream = at % STREAMS
            events.append(record(name, category, 0, stream, start, dur, stream=stream))
        document = {"distributedInfo": {"rank": rank_entry["rank"]}, "traceEvents": events}
        (tmp_path / f"{rank_entry['rank']}.json").write_text(json.dumps(document))
    return TileEngine(load(tmp_path, cache=False, progress=False))


def record(name, category, pid, tid, start, dur, **args):
    times = {"ts": start / 1000, "dur": dur / 1000}
    return {"ph": "X", "name": name, "cat": category, "pid": pid, "tid": tid, **times, "args": args}


def test_windows(case, engine):
    assert [rank_entry.range_ns for rank_entry in engine.job.ranks] == [
        tuple(r["range"]) for r in case["ranks"]
    ]
    for window in case["windows"]:
        reply, _ = engine.answer({"op": "stats", "start": window["start"], "end": window["end"]})
        for field in ("compute", "communication", "exposed", "memory", "idle", "data", "span"):
            assert reply[field] == window[field], field
        assert reply["kinds"] == pytest.approx(window["kinds"], rel=1e-12)


def test_shares_of_one_rank(case, engine):
    window = {name: case["windows"][0][name] for name in ("start", "end")}
    for at, item in enumerate(case["ranks"]):
        reply, _ = engine.answer({"op": "stats", **window, "ranks": [item["rank"]]})
        share = reply["compute"][at] / max(reply["span"][at], 1)
        assert reply["kinds"].get("compute", 0) == pytest.approx(share, rel=1e-12)


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
