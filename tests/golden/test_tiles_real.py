"""Tiles of real traces, compared with counts over their event frames."""

from __future__ import annotations

import random

import numpy as np
import pytest
from support import recorded

from hta_widgets.live.job import TileEngine
from hta_widgets.tiles.packing import unpack

FILES = [
    "made/ddp_8rank/rank-5.json.gz", "kineto/resnet50_num_workers_0_a",
    "hta_tests/mtia_inference_trace", "hta_tests/amd_trace", "hta_tests/triton_example",
    "hta_tests/ns_resolution_trace", "hta_tests/cpu_only",
]  # fmt: skip


@pytest.fixture(scope="module", params=recorded.paths(*FILES))
def traces(request):
    return recorded.load(request.param)


def test_every_event_is_on_one_lane(traces):
    engine = TileEngine(traces)
    for rank in engine.scene()["ranks"]:
        by_key = {track["key"]: track for track in rank["tracks"]}
        events = traces[rank["rank"]].events
        counts = events["track"].value_counts()
        for key, count in counts[counts > 0].items():
            assert by_key[key]["events"] == count
        depths = events.groupby("track", observed=True)["depth"].max()
        for key, deepest in depths.items():
            assert deepest < by_key[key]["lanes"]


def test_cells_equal_counting(traces):
    rng = random.Random(7)
    engine = TileEngine(traces)
    for rank in engine.scene()["ranks"]:
        events = traces[rank["rank"]].events
        for track in rank["tracks"]:
            if track["role"] in {"counter", "async", "instant"}:
                continue
            on_track = events[events["track"] == track["key"]]
            for depth in range(track["lanes"]):
                on_lane = on_track[on_track["depth"] == depth]
                for _ in range(3):
                    check_tile(engine, rng, track["lane0"] + depth, on_lane, rank["range"])


def check_tile(engine, rng, lane, events, bounds):
    start, dur = events["start_ns"].to_numpy(), events["dur_ns"].to_numpy()
    level = rng.randrange(max(1, (bounds[1] - bounds[0]).bit_length() - 5))
    anchor = int(start[rng.randrange(len(start))])
    tile = anchor >> (level + 8)
    parts = [{"lanes": [lane], "first": tile, "last": tile + 1}]
    reply, buffer = engine.answer({"op": "tiles", "level": level, "parts": parts})
    columns = unpack(reply["columns"], buffer)
    assert columns["tile_index"].tolist() == [tile]
    edges = (np.arange(257) + tile * 256) << level
    for cell in {(anchor >> level) % 256, rng.randrange(256), rng.randrange(256)}:
        a, b = edges[cell], edges[cell + 1]
        inside = np.where(dur > 0, (start < b) & (start + dur > a), (start >= a) & (start < b))
        assert columns["count"][cell] == min(inside.sum(), 65_535)
        covered = union(start[inside], (start + dur)[inside], a, b)
        share = (2 * covered * 65_535 + (1 << level)) // (2 << level)  # rounded half up
        if 0 < covered < 1 << level:
            share = min(max(share, 1), 65_534)
        assert columns["busy"][cell] == share
    long = (dur >= 2 << level) & (start < edges[-1]) & (start + dur > edges[0])
    assert columns["slice_id"].tolist() == events.index[long].tolist()


def union(starts, ends, a, b):
    total, reached = 0, int(a)
    for start, end in sorted(zip(starts.tolist(), ends.tolist(), strict=True)):
        total += max(0, min(end, int(b)) - max(start, reached))
        reached = max(reached, end)
    return total
