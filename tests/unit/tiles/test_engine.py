"""Every operation of the protocol, for a job whose figures can be checked by hand."""

from __future__ import annotations

import gzip

import numpy as np
import pytest
from support import small
from support.background import held_up

from hta_widgets.live.job import TileEngine
from hta_widgets.tiles.cells import event_tiles
from hta_widgets.tiles.lanes import index_lane
from hta_widgets.tiles.packing import unpack

KERNEL = "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>>()"
REDUCE = "ncclKernel_AllReduce_RING_LL_Sum_float(ncclDevComm*, unsigned long)"


LONG = {"query": "dur_ns > 9_000"}


@pytest.fixture
def lane(scene):
    """Return a function that finds the lane of a rank by its label."""

    def find(label, rank=0, depth=0, *, folded=False):
        single = scene["ranks"][rank]
        if folded:
            return next(row["lane"] for row in single["summary"] if row["label"] == label)
        return next(t["lane0"] for t in single["tracks"] if t["label"] == label) + depth

    return find


def the(traces, name, rank=0, nth=0):
    events = traces[rank].events
    return int(events.index[events["name"] == name][nth])


# --- tiles ------------------------------------------------------------------------------------


def one_tile(ask, lane, level, index=0):
    parts = [{"lanes": [lane], "first": index, "last": index + 1}]
    return ask("tiles", level=level, parts=parts)


def test_cells_of_a_stream(ask, lane):
    # Cells of 1024 ns: kernels at 30-50 and 60-70 µs, a copy at 75-85 µs.
    _, columns = one_tile(ask, lane("stream 7"), 10)
    assert columns["tile_lane"].tolist() == [lane("stream 7")]
    assert columns["count"][29] == 1
    first = round(65535 * (30 * 1024 - 30_000) / 1024)
    assert columns["busy"][28:31].tolist() == [0, first, 65535]
    assert columns["kind"][[30, 55, 75]].tolist() == [0, 255, 2]


def test_slices_carry_names_and_ids(ask, lane, traces):
    reply, columns = one_tile(ask, lane("stream 7"), 10)
    names = [reply["names"][str(key)] for key in columns["slice_name"].tolist()]
    assert names == ["add", "add", "Memcpy DtoH"]
    copy = the(traces, "Memcpy DtoH (Device -> Pageable)")
    expected = {
        "slice_first": [0, 3],
        "slice_start": [30_000, 60_000, 75_000],
        "slice_dur": [20_000, 10_000, 10_000],
        "slice_id": [the(traces, KERNEL), the(traces, KERNEL, nth=1), copy],
        "slice_kind": [0, 0, 2],
        "slice_flags": [0, 0, 0],
    }
    assert {name: columns[name].tolist() for name in expected} == expected


def test_the_other_rank_is_shifted(ask, lane):
    _, columns = one_tile(ask, lane("stream 7", rank=1), 10)
    assert columns["slice_start"].tolist() == [33_000, 63_000, 78_000]


def test_folded_lanes(ask, lane):
    _, columns = one_tile(ask, lane("communication", folded=True), 10)
    assert columns["slice_start"].tolist() == [40_000]
    _, columns = one_tile(ask, lane("main thread", folded=True), 10)
    assert len(columns["slice_id"]) == 0
    # aten::add at 10-30 µs around two launches, then the synchronizing call at 60-95 µs.
    assert columns["count"][15] == 2
    assert columns["busy"][15] == 65535
    assert columns["count"].astype(bool).sum() == len({*range(9, 30), *range(58, 93)})


def test_empty_tiles_are_left_out(ask, lane):
    part = {"lanes": [lane("stream 7"), lane("stream 40")], "first": 0, "last": 100}
    reply, columns = ask("tiles", level=0, parts=[part])
    assert reply["level"] == 0
    assert len(columns["tile_lane"]) == 0
    assert columns["slice_first"].tolist() == [0]


def test_asyncs_overlap_on_two_lanes(ask, lane):
    _, first = one_tile(ask, lane("io"), 10)
    _, second = one_tile(ask, lane("io", depth=1), 10)
    assert (first["slice_start"].tolist(), first["slice_dur"].tolist()) == ([20_000], [20_000])
    assert (second["slice_start"].tolist(), second["slice_dur"].tolist()) == ([25_000], [20_000])


def test_instants_are_events_without_length(ask, lane):
    _, columns = one_tile(ask, lane("instants"), 10)
    assert np.flatnonzero(columns["count"]).tolist() == [33_000 // 1024]
    assert columns["busy"].sum() == 0
    assert len(columns["slice_id"]) == 0


def test_counters(ask, lane):
    _, columns = one_tile(ask, lane("memory (MB) used"), 10)
    assert columns["counter_lane"].tolist() == [lane("memory (MB) used")]
    low, high = columns["counter_min"], columns["counter_max"]
    assert np.isnan(low[8])
    assert (low[9], high[9]) == (5, 5)
    assert (low[48], high[48]) == (5, 9)
    assert (low[97], high[97]) == (9, 9)
    assert np.isnan(low[98])  # the rank's data ends at 100 µs


def test_too_much_at_once(ask, scene):
    # 100 µs takes a few tiles; a job of a day at level 0 would take billions.
    ends = np.array([0, 10**14])
    lane = index_lane(ends, np.array([5, 5]), np.zeros(2, np.uint8), np.arange(2))
    with pytest.raises(ValueError, match="request at most 65536"):
        event_tiles(lane, 0, 0, 10**12)


def test_what_is_not_answered_in_time_or_size_is_named(ask, lane):
    lanes = [lane("stream 7"), lane("io"), lane("stream 40")]
    other = {"lanes": [lane("stream 7", rank=1)], "first": 0, "last": 9}
    request = [{"lanes": lanes, "first": 0, "last": 1}, other]
    _, full = ask("tiles", level=10, parts=request)
    for limit in ({"within_ms": 0}, {"most_bytes": 0}):
        left, answered = request, []
        for _ in range(4):
            reply, columns = ask("tiles", level=10, parts=left, **limit)
            answered += columns["tile_lane"].tolist()
            left = reply.get("left", [])
        assert answered == full["tile_lane"].tolist()
        assert left == []
    reply, _ = ask("tiles", level=10, parts=request, most_bytes=0)
    assert reply["left"] == [{"lanes": lanes[1:], "first": 0, "last": 1}, other]


def test_a_large_buffer_may_be_zipped(engine, lane):
    parts = [{"lanes": [lane("stream 7"), lane("stream 40")], "first": 0, "last": 50}]
    request = {"op": "tiles", "level": 3, "parts": parts}
    plain, buffer = engine.answer(request)
    zipped, packed = engine.answer({**request, "gzip": True})
    assert zipped == {**plain, "gzip": True}
    assert gzip.decompress(packed) == buffer
    assert len(packed) < len(buffer) / 3
    short = {**request, "parts": [{**parts[0], "last": 1}], "level": 12}
    assert "gzip" not in engine.answer({**short, "gzip": True})[0]


@pytest.mark.parametrize(
    ("op", "request_"),
    [
        ("stats", {"start": 0, "end": 103_000}),
        ("minimap", {"bins": 10}),
        ("lateness", {"start": 0, "end": 103_000}),
        ("ribbon", {"start": 0, "end": 103_000, "bins": 10}),
        ("clusters", {}),
        ("collective", {"rank": 0, "id": 0}),
        ("search", {"text": "a"}),
        ("find", {"text": "a"}),
        ("totals", {"selection": LONG}),
        ("marks", {"start": 0, "end": 103_000, "bins": 10, "lanes": [0], "selection": LONG}),
    ],
)
def test_a_page_asks_again_for_what_takes_long(traces, op, request_):
    traces.memo.clear()
    patient, hasty = TileEngine(traces), TileEngine(traces)
    with held_up():
        for _ in range(2):
            assert hasty.answer({"op": op, "within_ms": 0, **request_}) == ({"pending": True}, None)
    while (answer := hasty.answer({"op": op, "within_ms": 0, **request_}))[0].get("pending"):
        pass
    assert answer == patient.answer({"op": op, **request_})


def test_a_closed_page_is_worked_for_no_longer(traces):
    engine = TileEngine(traces)
    with held_up():
        for op in ("clusters", "totals", "search", "ribbon"):
            request_ = {"op": op, "text": "a", "start": 0, "end": 9, "bins": 3}
            assert engine.answer({**request_, "within_ms": 0})[0] == {"pending": True}
        engine.stop()
    assert not engine._ribbons._future.done()
    assert engine.answer({"op": "totals"}) == TileEngine(traces).answer({"op": "totals"})


# --- figures ----------------------------------------------------------------------------------


def test_stats_outside_the_data(ask):
    reply = ask("stats", start=-50, end=-10)
    assert (reply["ranks"], reply["data"], reply["idle"]) == ([0, 1], [0, 0], [0, 0])
    assert reply["kinds"] == {}
    with pytest.raises(ValueError, match="after it starts"):
        ask("stats", start=5, end=5)


def test_a_minimap_has_bins(ask):
    with pytest.raises(ValueError, match="bins"):
        ask("minimap", bins=0)


def test_minimap_without_devices(tmp_path):
    events = [small.event("cpu_op", "f", start, start + 25_000) for start in (0, 75_000)]
    engine = TileEngine(small.read(small.write(tmp_path, events)))
    reply, buffer = engine.answer({"op": "minimap", "bins": 4})
    assert unpack(reply["columns"], buffer)["cpu"].tolist() == [1, 0, 0, 1]
    sync = small.event("horovod", "QUEUE", 25_000, 50_000)
    moment = small.event("cpu_op", "instant", 50_000, 50_000)
    engine = TileEngine(small.read(small.write(tmp_path, [*events, sync, moment])))
    reply, buffer = engine.answer({"op": "minimap", "bins": 4})
    shares = {name: part.tolist() for name, part in unpack(reply["columns"], buffer).items()}
    of_instant = float(np.float32(1 / 25_000))
    assert shares == {"sync": [0, 1, 0, 0], "cpu": [1, 0, of_instant, 1]}
    assert engine.answer({"op": "stats", "start": 0, "end": 100})[0]["kinds"] == {}


def test_cell(ask, lane, traces):
    def cell(where, start, end):
        return ask("cell", lane=where, start=start, end=end)

    stream, counter = lane("stream 7"), lane("memory (MB) used")
    result = cell(stream, 45_000, 80_000)
    assert (result["count"], result["busy"]) == (3, 20_000)
    assert result["kinds"] == {"compute": 15_000, "memory": 5_000}
    assert (result["longest"]["id"], result["longest"]["short"]) == (the(traces, KERNEL), "add")
    folded = cell(lane("main thread", folded=True), 14_000, 23_000)
    assert (folded["count"], folded["busy"]) == (3, 9_000)
    assert folded["longest"]["name"] == "aten::add"
    nothing = {"count": 0, "busy": 0, "longest": None, "kinds": {}}
    assert cell(stream, 50_000, 60_000) == nothing
    instant = cell(lane("instants"), 33_000, 33_001)
    assert (instant["count"], instant["longest"]["name"]) == (1, "marker")
    result = cell(counter, 20_000, 60_000)
    assert (result["count"], result["min"], result["max"]) == (1, 5.0, 9.0)
    before = cell(counter, 0, 10)
    assert (before["min"], before["max"]) == (None, None)


def test_totals(ask):
    window = {"start_ns": 0, "end_ns": 55_000, "ranks": [0], "tracks": ["GPU 0 · stream 7"]}
    reply = ask("totals", selection={**window, "query": None, "ids": None})
    assert reply["events"] == 1
    assert reply["names"][0]["short"] == "add"
    assert reply["kinds"][0]["sum"] == 20_000


# --- one event --------------------------------------------------------------------------------


def test_event(ask, traces):
    reply = ask("event", rank=0, table="events", id=the(traces, REDUCE))
    expected = {
        "start": 40_000, "dur": 25_000, "kind": "communication",
        "short": "AllReduce ring LL sum f32", "stream": 40, "correlation": 2, "step": 1,
        "process": "GPU 0", "track": "GPU 0 · stream 40",
    }  # fmt: skip
    assert {name: reply["event"][name] for name in expected} == expected
    assert (reply["parents"], reply["args_error"]) == ([], None)
    assert reply["args"] == [
        ["stream", "40"],
        ["correlation", "2"],
        ["In msg nelems", "12345678901234567890"],
        ["ratio", "1.5"],
        ["note", 'say "a"'],
    ]


def test_flows_both_ways(ask, traces):
    launch = ask("event", rank=0, table="events", id=the(traces, "cudaLaunchKernel", nth=1))
    (out,) = [flow for flow in launch["flows"] if flow["direction"] == "out"]
    assert (out["kind"], out["brief"]["name"], out["delay"]) == ("launch", REDUCE, 14_000)
    assert [item["name"] for item in launch["parents"]] == [
        "aten::add",
        "## forward ##",
        "ProfilerStep#1",
    ]
    kernel = ask("event", rank=0, table="events", id=the(traces, REDUCE))
    (back,) = kernel["flows"]
    assert (back["direction"], back["delay"]) == ("in", 14_000)
    assert back["brief"]["id"] == launch["event"]["id"]


def test_a_kernel_names_the_operator_that_launched_it(ask, traces):
    kernel = ask("event", rank=0, table="events", id=the(traces, REDUCE))["launched_by"]
    assert [item["name"] for item in kernel["operators"]] == ["aten::add"]
    assert (kernel["modules"], kernel["frames"], kernel["forward"]) == ([], [], None)
    operator = ask("event", rank=0, table="events", id=kernel["operators"][0]["id"])
    assert operator["launched_by"] is None
    ids = [the(traces, KERNEL), the(traces, REDUCE)]
    figures = {"count": 2, "dur": 45_000, "delay": 16_500, "ids": ids}
    assert operator["kernels"] == figures


def test_arrows_of_a_launch_from_both_of_its_ends(ask, traces):
    kernel, operator = the(traces, REDUCE), the(traces, "aten::add")
    from_kernel = ask("launches", rank=0, id=kernel)
    assert (from_kernel["call"]["name"], from_kernel["kernels"]) == ("cudaLaunchKernel", [])
    (only,) = ask("launches", rank=0, id=from_kernel["call"]["id"])["kernels"]
    assert only["id"] == kernel
    from_operator = ask("launches", rank=0, id=operator)
    assert (from_operator["call"], from_operator["count"]) == (None, 2)
    assert [item["name"] for item in from_operator["kernels"]] == [KERNEL, REDUCE]


def test_events_of_the_same_name(ask, traces):
    same = ask("event", rank=0, table="events", id=the(traces, KERNEL))["same"]
    assert (same["count"], same["sum"], same["mean"], same["median"]) == (2, 30_000, 15e3, 15e3)
    assert (same["min"], same["max"]) == (10_000, 20_000)
    assert sum(same["counts"]) == 2
    assert len(same["edges"]) == len(same["counts"]) + 1
    # The annotation on the stream has the same name as on the thread, but another category.
    forward = ask("event", rank=0, table="events", id=the(traces, "## forward ##"))["same"]
    assert (forward["count"], forward["sum"]) == (1, 40_000)
    assert (forward["edges"], forward["counts"]) == ([40_000, 40_001], [1])


def test_event_of_the_small_tables(ask, lane):
    instant = ask("event", rank=0, table="instants", id=0)["event"]
    expected = {
        "name": "marker",
        "lane": lane("instants"),
        "track": "python · instants",
        "category": "note",
    }
    assert {name: instant[name] for name in expected} == expected
    reply = ask("event", rank=1, table="asyncs", id=1)
    assert [reply["event"][name] for name in ("start", "depth", "stream")] == [28_000, 1, None]
    assert reply["same"]["count"] == 2


def test_args_that_cannot_be_read(tmp_path, write_job):
    traces = write_job(tmp_path, lates=(0,))
    engine = TileEngine(traces)
    (tmp_path / "rank-0.json").unlink()
    reply, _ = engine.answer({"op": "event", "rank": 0, "id": 0})
    assert reply["args"] == []
    assert "rank-0.json" in reply["args_error"]
    assert reply["event"]["name"] == "ProfilerStep#1"


def test_neighbor(ask, traces):
    def neighbor(row, direction):
        reply = ask("neighbor", rank=0, table="events", id=row, direction=direction)["brief"]
        return reply and (reply["id"], reply["name"])

    first, second = the(traces, KERNEL), the(traces, KERNEL, nth=1)
    assert neighbor(first, 1) == (second, KERNEL)
    assert neighbor(second, -1) == (first, KERNEL)
    assert neighbor(first, -1) is None
    # Another depth of the same thread is another lane.
    assert neighbor(the(traces, "## forward ##"), 1)[1] == "tiny"


def test_snap(ask, lane):
    stream, folded = lane("stream 7"), lane("main thread", folded=True)
    for place, time, tolerance, expected in (
        (stream, 49_600, 500, 50_000),
        (stream, 30_300, 500, 30_000),
        (stream, 55_000, 5_000, 50_000),
        (stream, 55_000, 4_999, None),
        (lane("instants"), 33_010, 10, 33_000),
        (folded, 20_100, 500, 20_000),
        (lane("memory (MB) used"), 50_001, 5, 50_000),
    ):
        assert ask("snap", lane=place, time=time, tolerance=tolerance)["time"] == expected


# --- names ------------------------------------------------------------------------------------


def test_search(ask):
    reply = ask("search", text="cudalaunch")
    assert reply == {"total": 4, "names": 1, "ranks": [[0, 2], [1, 2]], "error": None}
    assert ask("search", text="marker")["total"] == 2
    assert ask("search", text="request")["total"] == 4
    assert ask("search", text="/^cuda[LD]/")["names"] == 2
    assert ask("search", text="process_name")["names"] == 0
    assert ask("search", text="")["total"] == 0


def test_a_bad_expression_is_an_answer(ask):
    for text in ("/(/", "/*/i"):
        reply = ask("search", text=text)
        assert (reply["total"], reply["ranks"]) == (0, [])
        assert "regular expression" in reply["error"]
        assert ask("find", text=text, **{"from": None}, direction=1)["error"] == reply["error"]


def test_find_walks_through_all_ranks(ask):
    seen, origin = [], None
    for position in range(1, 7):
        step = ask("find", text="/^(cuda|marker)/", **{"from": origin}, direction=1)
        assert (step["index"], step["total"], step["wrapped"]) == (position, 8, False)
        origin = step["brief"]
        seen.append((origin["rank"], origin["name"], origin["start"]))
    assert seen == [
        (0, "cudaLaunchKernel", 15_000),
        (0, "cudaLaunchKernel", 22_000),
        (0, "marker", 33_000),
        (0, "cudaDeviceSynchronize", 60_000),
        (1, "cudaLaunchKernel", 18_000),
        (1, "cudaLaunchKernel", 25_000),
    ]
    back = ask("find", text="/^(cuda|marker)/", **{"from": origin}, direction=-1)
    assert back["brief"]["start"] == 18_000


def test_find_goes_around(ask):
    def found(place, direction):
        return ask("find", text="/^cuda/", **{"from": place}, direction=direction)

    last = found(None, -1)
    around = found(last["brief"], 1)
    again = found(around["brief"], -1)
    steps = [(step["index"], step["wrapped"]) for step in (last, around, again)]
    assert steps == [(6, False), (1, True), (6, True)]
    nothing = ask("find", text="zzz", **{"from": None}, direction=1)
    assert (nothing["brief"], nothing["total"]) == (None, 0)


def test_find_from_a_place(ask):
    place = {"rank": 0, "start": 20_000}
    assert ask("find", text="/^cuda/", **{"from": place}, direction=1)["brief"]["start"] == 22_000
    assert ask("find", text="/^cuda/", **{"from": place}, direction=-1)["brief"]["start"] == 15_000


def marks(ask, lanes, start, end, bins, **what):
    reply, columns = ask("marks", start=start, end=end, bins=bins, lanes=lanes, **what)
    runs = (columns[name].tolist() for name in ("lane", "bin", "end"))
    return reply, list(zip(*runs, strict=True))


def test_marks_of_a_text(ask, lane):
    launches, folded = lane("main thread", depth=3), lane("main thread", folded=True)
    reply, places = marks(ask, [launches, folded], 0, 100_000, 10, text="cudaLaunch")
    assert (reply["total"], reply["in_view"], reply["error"]) == (4, 4, None)
    assert places == [(folded, 1, 3), (launches, 1, 3)]


def test_marks_of_what_began_before_the_view(ask, lane):
    stream = lane("stream 7")
    reply, places = marks(ask, [stream], 40_000, 65_000, 5, text="elementwise")
    # On both ranks, 30-50 overlaps the start and 60-70 begins inside.
    assert (reply["total"], reply["in_view"]) == (4, 4)
    assert places == [(stream, 0, 2), (stream, 4, 5)]
    reply, places = marks(ask, [stream], 50_000, 60_000, 5, text="elementwise")
    assert (reply["in_view"], places) == (1, [])  # until 53 µs on rank 1, but on another lane


def test_marks_of_a_selection(ask, lane, scene):
    selection = {"query": "kind == 'communication'", "ranks": [1]}
    reply, places = marks(ask, list(range(scene["lanes"])), 0, 103_000, 103, selection=selection)
    assert (reply["total"], reply["in_view"]) == (1, 1)
    runs = [(lane("communication", rank=1, folded=True), 43), (lane("stream 40", rank=1), 43)]
    assert [place[:2] for place in places] == runs


def test_marks_of_instants_and_asyncs(ask, lane):
    lanes = [lane("instants"), lane("io"), lane("io", depth=1)]
    _, places = marks(ask, lanes, 0, 100_000, 10, text="/marker|request/")
    # Requests at 20-40 and 25-45 µs, and a marker at 33 µs.
    assert places == [(lanes[1], 2, 4), (lanes[2], 2, 5), (lanes[0], 3, 4)]


# --- requests that make no sense ----------------------------------------------------------------


@pytest.mark.parametrize(
    ("request_", "words"),
    [
        ({"op": "tiles", "level": -1, "parts": []}, "level"),
        ({"op": "event", "rank": 9, "id": 0}, "no rank 9"),
        ({"op": "event", "rank": 0, "id": 99}, "rank 0 has no event 99: it has 14"),
        ({"op": "cell", "lane": 999, "start": 0, "end": 1}, "no lane 999"),
        ({"op": "cell", "lane": 0, "start": 1, "end": 1}, "after it starts"),
    ],
)
def test_requests_that_make_no_sense(engine, request_, words):
    with pytest.raises(ValueError, match=words):
        engine.answer(request_)


# --- classes ----------------------------------------------------------------------------------


def test_tiles_carry_a_class_for_every_event_and_the_one_with_most_time_for_cells(traces, lane):
    engine, first = TileEngine(traces), the(traces, KERNEL)

    def asked(number, level):
        part = {"lanes": [number], "first": 0, "last": 1}
        request = {"op": "tiles", "level": level, "parts": [part], "classed": True}
        reply, buffer = engine.answer(request)
        return unpack(reply["columns"], buffer)

    assert set(asked(lane("stream 7"), 15)["class"].tolist()) == {255}  # no shapes
    # Cells of 32 768 ns: the first kernel (30-50 µs), another one (60-70 µs), a copy (75-85 µs).
    classes = np.full(len(traces[0].table), 9, np.uint8)
    classes[first] = 3
    engine.classes_of = lambda rank: classes if rank == 0 else None
    cells = asked(lane("stream 7"), 15)
    assert cells["class"][:4].tolist() == [3, 3, 9, 255]
    assert cells["kind"][:3].tolist() == [0, 0, 2]
    slices = asked(lane("stream 7"), 10)
    of = dict(zip(slices["slice_id"].tolist(), slices["slice_class"].tolist(), strict=True))
    assert of.pop(first) == 3
    assert set(of.values()) == {9}
    # Ranks without any data.
    assert set(asked(lane("stream 7", 1), 15)["class"].tolist()) == {255}


def test_a_gap_has_its_causes_what_the_host_did_and_what_ended_it(tmp_path):
    loader = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"
    engine = TileEngine(
        small.load(
            tmp_path,
            [
                small.kernel(0, 100, launch=1), small.call(0, 10, 1),
                small.event("user_annotation", loader, 150, 700, pid=10, tid=1),
                small.event("cpu_op", "aten::copy_", 200, 260, pid=10, tid=1),
                small.event("cpu_op", "aten::copy_", 300, 340, pid=10, tid=1),
                small.event("cpu_op", "aten::elsewhere", 100, 990, pid=10, tid=2),
                small.call(750, 760, 2), small.kernel(1000, 1100, launch=2, name="next"),
            ],
        )
    )  # fmt: skip
    gap = engine.answer({"op": "gap", "rank": 0, "time": 100})[0]["gap"]
    assert (gap["start"], gap["end"]) == (100, 1000)
    assert {item["cause"]: item["time"] for item in gap["causes"]} == {
        "host_data_loading": 550, "launch_latency": 240, "host_nothing": 100, "launch_call": 10,
    }  # fmt: skip
    assert gap["causes"][0]["cause"] == "host_data_loading"
    assert (gap["ends"]["name"], gap["launch"]["start"]) == ("next", 750)
    host = [(item["longest"]["name"], item["count"], item["time"]) for item in gap["host"]]
    assert host == [(loader, 1, 450), ("aten::copy_", 2, 100), ("cudaLaunchKernel", 1, 10)]
    assert gap["host"][1]["longest"]["start"] == 200
    assert gap["host_time"] == 560
    for time in (99, 1000, 5000, -5):
        assert engine.answer({"op": "gap", "rank": 0, "time": time})[0] == {
            "gap": None,
            "lane_gap": None,
        }


def test_a_gap_of_one_stream_names_what_other_streams_do(tmp_path):
    combine = [small.kernel(at, at + 80, name="combine", stream=27) for at in range(100, 500, 100)]
    first, last = small.kernel(0, 150), small.kernel(450, 600)
    engine = TileEngine(small.load(tmp_path, [first, last, *combine, small.nccl(0, 600)]))
    rank = engine.scene()["ranks"][0]
    streams = {track["label"]: track["lane0"] for track in rank["tracks"]}
    summary = {row["role"]: row["lane"] for row in rank["summary"]}

    def ask(lane, time):
        reply = engine.answer({"op": "gap", "rank": 0, "lane": lane, "time": time})[0]
        assert reply["gap"] is None
        return reply["lane_gap"]

    gap = ask(streams["stream 7"], 300)
    assert (gap["start"], gap["end"]) == (150, 450)
    # The four events have 30, 80, 80 and 50 ns inside the gap.
    running = [(item["longest"]["name"], item["count"], item["time"]) for item in gap["running"]]
    assert running == [(small.NCCL, 1, 300), ("combine", 4, 240)]
    # Compute on all streams, here between two kernels on stream 27.
    gap = ask(summary["gpu"], 190)
    assert (gap["start"], gap["end"], len(gap["running"])) == (180, 200, 1)
    for lane, time in ((streams["stream 7"], 100), (streams["stream 7"], 599)):
        assert ask(lane, time) is None
