"""The engine of saved pages, compared with the kernel's: same requests, same replies."""

import json
import random
import re
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from support import page_engine, small
from support.examples import ALL
from support.page_engine import NO_STATE as STATE
from support.random_job import NAMES, write_job

import hta_widgets as hw
from hta_widgets.analysis import device_idle_gaps
from hta_widgets.demo.job import write_demo
from hta_widgets.live.job import PanelEngine, TileEngine
from hta_widgets.tiles.packing import unpack
from hta_widgets.trace.traceset import Selection

JOBS = {"two ranks": 1, "many overlaps": 2, "three ranks": 3, "host only": 4, "no host": 5}


def load(folder):
    return TileEngine(hw.load(folder, progress=False, cache=False))


#: Histogram edges are powers of ten, whose last digit depends on the math library.
agree = partial(page_engine.agree, rel=1e-12)


class Pair:
    """Sends requests to both engines and compares the replies."""

    def __init__(self, kernel, page):
        self.kernel, self.page = kernel, page
        self.scene = kernel.scene()
        self.low, self.high = self.scene["range"]
        self.asked = 0

    def _ask_kernel(self, op, request):
        try:
            return *self.kernel.answer({"op": op, **request}), None
        except ValueError as error:
            return {}, None, str(error)

    def both(self, op, **request):
        """Return the replies of both engines, which may differ."""
        return self.kernel.answer({"op": op, **request})[0], self.page.answer(op, **request)[0]

    def same(self, op, **request):
        self.asked += 1
        theirs = self.page.ask(op, **request)
        reply, buffer, refusal = self._ask_kernel(op, request)
        error = theirs.get("error")
        if refusal is not None:
            assert error, (op, request)
            # The kernel's message has msgspec's wording and the name of the request.
            named = re.fullmatch(rf"the request {op} is invalid: .* `\$\.(\w+).*", refusal)
            if named is not None:
                assert named[1] in error, (request, refusal, error)
            else:
                assert refusal in (error, f"the request {op} cannot be answered: {error}"), request
            return None
        assert error is None, (op, request)
        reply = json.loads(json.dumps(reply))
        ours = {} if buffer is None else unpack(reply.pop("columns"), buffer)
        columns = theirs.get("columns", {})
        if op == "tiles":
            # Keys of names differ between engines, but the names must be equal.
            for answer, part in ((reply, ours), (theirs["reply"], columns)):
                names = answer.pop("names")
                answer["names"] = [names[str(key)] for key in part.pop("slice_name").tolist()]
        agree(reply, theirs["reply"], (op, request))
        assert list(ours) == list(columns)
        for name, values in ours.items():
            np.testing.assert_array_equal(columns[name], values, f"{op} {request} {name}")
        return reply


@pytest.fixture
def paired(tmp_path, saved):
    """`paired(seed, …)` writes a random job and returns the engines of the kernel and a page."""

    def make(seed, **options):
        kernel = load(write_job(tmp_path, seed, **options))
        return Pair(kernel, saved(kernel))

    return make


@pytest.mark.parametrize("seed", JOBS.values(), ids=JOBS.keys())
def test_both_engines_agree(paired, seed):
    rng = random.Random(seed)
    calls = 0 if seed == JOBS["host only"] else 24
    pair = paired(seed, ranks=3 if seed == 3 else 2, calls=calls)
    kernel, scene, low, high = pair.kernel, pair.scene, pair.low, pair.high
    lanes = list(range(scene["lanes"]))

    def instant():
        return rng.randrange(low - 500, high + 500)

    for level in [*range(25), 33, 52]:
        width = 256 << level
        first = instant() // width
        some = rng.sample(lanes, min(len(lanes), 24))
        parts = [
            {"lanes": some, "first": first - 1, "last": first + rng.randrange(3)},
            {"lanes": some[:5], "first": 0, "last": 2},
        ]
        pair.same("tiles", level=level, parts=parts)
    for _ in range(15):
        start = instant()
        pair.same("stats", start=start, end=start + rng.randrange(0, high))
    for bins in (1, 7, 333, 0):
        pair.same("minimap", bins=bins)
    for rank, trace in kernel.traces.items():
        tables = {"events": trace, "asyncs": trace.async_table, "instants": trace.instant_table}
        for table, rows in tables.items():
            for row in [*rng.sample(range(len(rows)), min(len(rows), 25)), len(rows)]:
                at = {"rank": rank, "table": table, "id": row}
                pair.same("event", **at)
                pair.same("neighbor", **at, direction=rng.choice((1, -1)))
                if table == "events":
                    pair.same("launches", rank=rank, id=row)
    idle = device_idle_gaps(kernel.traces)
    for rank, start, dur in idle[["rank", "start_ns", "dur_ns"]].sample(min(len(idle), 30)).values:
        time = int(start + rng.randrange(dur))
        gap = pair.same("gap", rank=int(rank), time=time)["gap"]
        assert (gap["start"], gap["end"]) == (start, start + dur)
    for _ in range(15):
        rank = rng.choice(scene["ranks"])
        device = [row["lane"] for row in rank["summary"]]
        device += [track["lane0"] for track in rank["tracks"]]
        pair.same("gap", rank=rank["rank"], time=instant(), lane=rng.choice(device))
    for lane in lanes:
        start = instant()
        pair.same("cell", lane=lane, start=start, end=start + rng.choice((1, 300, 10**5, high)))
        pair.same("snap", lane=lane, time=instant(), tolerance=rng.choice((0, 50, 10**6)))
    for _ in range(15):
        start = instant()
        pair.same("lateness", start=start, end=start + rng.choice((1, 10**5, high)))
    same_ribbons(pair, rng)
    full = pair.same("lateness", start=low, end=high)
    assert calls == 0 or sum(full["wait"]) > 0
    assert pair.same("lateness", start=low, end=low) is None
    assert pair.asked > 300


def test_details_name_operators_that_a_python_frame_crosses(tmp_path, saved):
    # Files from 2021 use the category `Operator`. The Python frame ends after the operator, and the
    # second launch is between the two ends.
    events = [
        small.event("Operator", "aten::linear", 0, 50_000, pid=10),
        small.event("python_function", "model.py(7): forward", 10_000, 60_000, pid=10),
        small.event("Operator", "aten::addmm", 12_000, 30_000, pid=10),
        small.call(20_000, 25_000, 1),
        small.call(52_000, 55_000, 2),
        small.kernel(40_000, 50_000, name="gemm1", launch=1),
        small.kernel(70_000, 80_000, name="gemm2", launch=2),
    ]
    kernel = TileEngine(small.load(tmp_path, events))
    pair = Pair(kernel, saved(kernel))

    def details(name):
        table = kernel.traces[0].events
        return pair.same(
            "event", rank=0, table="events", id=int(table.index[table.name == name][0])
        )

    launched = details("gemm1")["launched_by"]
    assert [operator["name"] for operator in launched["operators"]] == [
        "aten::addmm",
        "aten::linear",
    ]
    assert [operator["name"] for operator in launched["frames"]] == ["model.py(7): forward"]
    assert details("gemm2")["launched_by"]["operators"] == []
    assert details("aten::linear")["kernels"]["count"] == 1
    assert details("model.py(7): forward")["kernels"]["count"] == 2


def same_ribbons(pair, rng):
    """Compare arrivals of all and some ranks in windows of any length; return the job's."""
    low, high = pair.low, pair.high
    numbers = [rank["rank"] for rank in pair.scene["ranks"]]
    for _ in range(12):
        start = rng.randrange(low, high)
        window = {"start": start, "end": start + rng.choice((1, 10**5, rng.randrange(1, high)))}
        some = rng.sample(numbers, rng.randrange(len(numbers) + 1))
        pair.same("ribbon", **window, bins=rng.choice((1, 7, 1100, 65536)))
        pair.same("ribbon", **window, bins=rng.randrange(1, 500), ranks=some)
    for bins in (0, 1 << 17):
        assert pair.same("ribbon", start=low, end=high, bins=bins) is None
    assert pair.same("ribbon", start=low, end=low, bins=9) is None
    return pair.same("ribbon", start=low, end=high + 1, bins=1000, ranks=None)


def waits_of(scene):
    lanes = [row for rank in scene["ranks"] for row in (*rank["summary"], *rank["tracks"])]
    return [row[role] for row in lanes for role in ("wait", "late") if role in row]


def test_both_engines_name_whom_the_analysis_names(tmp_path, saved):
    write_demo(
        tmp_path, ranks=4, steps=3, straggler=2, factor=1.5, tensor_ranks=1, events_per_step=400
    )
    kernel = load(tmp_path)
    pair = Pair(kernel, saved(kernel))
    assert pair.same("lateness", start=pair.low, end=pair.high)["late"] == [2]
    assert pair.same("lateness", start=pair.low, end=pair.low + 1)["late"] == []


@pytest.mark.parametrize("seed", range(11, 17 if ALL else 13))
def test_both_engines_see_who_waits(paired, seed):
    rng = random.Random(seed)
    pair = paired(seed, ranks=2 + seed % 4, calls=60)
    low, high, lanes = pair.low, pair.high, waits_of(pair.scene)
    for level in range(24):
        first = rng.randrange(low, high) >> level + 8
        pair.same("tiles", level=level, parts=[{"lanes": lanes, "first": first, "last": first + 3}])
    full = [{"lanes": lanes, "first": 0, "last": (high >> 22) + 1}]
    pair.same("tiles", level=14, parts=full)
    for _ in range(40):
        start = rng.randrange(low, high)
        pair.same("lateness", start=start, end=start + rng.randrange(1, high))
    matched = 0
    for rank, trace in pair.kernel.traces.items():
        rows = np.flatnonzero(trace.events.kind == "communication").tolist()
        for row in [*rows, *rng.sample(range(len(trace)), 10), len(trace)]:
            reply = pair.same("collective", rank=rank, id=row)
            matched += reply is not None and reply["collective"] is not None
    assert matched > 30
    full = same_ribbons(pair, rng)
    assert full["of"] > 30
    assert full["names"] == sorted(full["names"])
    assert full["most"] > 0 < full["job_most"]


@pytest.mark.parametrize("ranks", [3, 5])
def test_both_engines_fold_the_same_ranks(paired, ranks):
    reply = paired(12, ranks=ranks, calls=40).same("clusters")
    groups = [group["ranks"] for group in reply["clusters"]]
    groups += [[outlier["rank"]] for outlier in reply["outliers"]]
    assert sorted(rank for group in groups for rank in group) == list(range(ranks))


def test_a_page_has_the_figures_of_calls(tmp_path, saved):
    shapes = {"Input Dims": [[64, 64], [64, 64]], "Input type": ["float", "float"]}
    events = [
        small.event("cpu_op", "aten::mm", 0, 90, pid=10, tid=1, **shapes),
        small.event("cpu_op", "custom::mix", 100, 190, pid=10, tid=1, **shapes),
        *(small.call(start + 20, start + 25, launch=1 + start) for start in (0, 100)),
        *(small.kernel(1_000 + start, 1_050 + start, launch=1 + start) for start in (0, 100)),
    ]
    kernel = TileEngine(small.load(tmp_path, events))
    pair = Pair(kernel, saved(kernel))
    replies = [pair.same("efficiency", rank=0, id=row) for row in range(len(kernel.traces[0]))]
    figures = [reply["figures"] for reply in replies if reply["figures"]]
    assert sorted(str(row["flops"]) for row in figures) == ["524288.0", "524288.0", "None", "None"]
    lanes = list(range(kernel.scene()["lanes"]))
    for level in (6, 14):
        pair.same(
            "tiles", level=level, parts=[{"lanes": lanes, "first": 0, "last": 99}], classed=True
        )
    for panel in ("kernels", "operators"):
        window = Selection(start_ns=0, end_ns=1_100_000).to_json()
        for selection in (None, window):
            request = {"panels": [panel], "selection": selection}
            ours = PanelEngine(kernel.traces).answer({"op": "panels", **request})[0]
            theirs = pair.page.answer("panels", **request)[0]
            agree(json.loads(json.dumps(ours)), theirs, (panel, selection))


def test_a_page_of_two_ranks_folds_none(paired):
    page = paired(12, ranks=2).page
    assert page.ask("document")["reply"]["alike"] is None
    assert "has no groups of similar ranks" in page.ask("clusters")["error"]


def test_a_page_of_one_rank_has_no_collectives(paired):
    pair = paired(1, ranks=1)
    reply = pair.same("lateness", start=0, end=10**6)
    assert (reply["collectives"], reply["late"]) == ([0], [])
    assert "no communication between ranks" in reply["note"]
    assert pair.same("collective", rank=0, id=3) == {"collective": None}
    assert pair.same("ribbon", start=0, end=10**6, bins=50)["of"] == 0
    assert 'id="hta-collectives"' not in pair.page.path.read_text()


def searched(pair, rng, text):
    low, high, scene = pair.low, pair.high, pair.scene
    pair.same("search", text=text)
    result = pair.same("find", text=text, direction=1)
    for _ in range(6):
        brief = (result or {}).get("brief")
        place = brief or {"rank": rng.choice(scene["ranks"])["rank"], "start": rng.randrange(high)}
        if rng.random() < 0.3:
            place = {"rank": place["rank"], "start": place["start"]}
        result = pair.same("find", text=text, direction=rng.choice((1, -1)), **{"from": place})
    start = rng.randrange(low, high)
    lanes = rng.sample(range(scene["lanes"]), min(scene["lanes"], 30))
    pair.same("marks", text=text, start=start, end=start + high // 3, bins=97, lanes=lanes)
    pair.same("marks", text=text, start=low, end=high + 1, bins=11, lanes=lanes)


@pytest.mark.parametrize("seed", [1, 3])
def test_both_engines_find_the_same(paired, seed):
    rng, pair = random.Random(seed), paired(seed)
    for text in ("aten", "/^aten/", "/ATEN/i", "", "zzz", "größe", *NAMES[7:11], "pair", "//"):
        searched(pair, rng, text)


QUERIES = [
    None,
    "kind == 'communication'",
    "dur_ns > 1_000 and name.str.contains('nccl|gemm')",
    "name.str.startswith('aten') or stream >= 7",
    "(kind == 'compute') & (dur_ns / 1000 >= 10.5) | ~(parent < 0)",
    "1000 < dur_ns <= 20000",
    "phase == 'B' or step == 1",
    "category.isin(['kernel', 'cpu_op']) and not depth == 0",
    "correlation > 20 and rank != 0",
    "name == ['aten::mm', '<!-- not a comment']",
    "tid in ['100', '7'] and pid != '3'",
    "name.str.contains('SCRIPT', case=False) and name.str.len() > 3",
]


@pytest.fixture(scope="module")
def selecting(tmp_path_factory, saved_for_all):
    kernel = load(write_job(tmp_path_factory.mktemp("job"), 1))
    return Pair(kernel, saved_for_all(kernel))


@pytest.mark.parametrize("query", QUERIES)
def test_both_engines_select_the_same(selecting, query):
    rng = random.Random(str(query))
    pair, low, high = selecting, selecting.low, selecting.high
    keys = [track["key"] for rank in pair.scene["ranks"] for track in rank["tracks"]]
    everything = dict.fromkeys(("start_ns", "end_ns", "ranks", "tracks", "query", "ids"))
    start = rng.randrange(low, high // 2)
    parts = [
        {},
        {"start_ns": start, "end_ns": start + high // 3},
        {"start_ns": start},
        {"end_ns": start, "ranks": [1]},
        {"tracks": rng.sample(keys, 3)},
        {"tracks": [[0, key] for key in keys[:2]]},
        {"ids": [[0, row] for row in range(0, 60, 7)] + [[1, 3]]},
    ]
    for part in parts:
        selection = {**everything, "query": query, **part}
        pair.same("totals", selection=selection)
        pair.same("marks", selection=selection, start=low, end=high, bins=50, lanes=list(range(30)))


def test_overviews_are_exact_on_their_grid(tmp_path, saved):
    rng = random.Random(9)
    kernel = load(write_job(tmp_path, 1, ranks=3, events=3000))
    state = {**STATE, "selected_event": [1, 0]}
    page = saved(kernel, state, max_mb=saved(kernel).room(0.75))
    document = page.ask("document")["reply"]
    scene = document["scene"]
    assert scene["embedded"]["level"] == "partial"
    low, high = scene["range"]
    pair = Pair(kernel, page)
    overviews = [rank for rank in scene["ranks"] if "overview_level" in rank]
    assert overviews
    for rank in overviews:
        level = rank["overview_level"]
        lanes = [row["lane"] for row in rank["summary"]]
        lanes += [t["lane0"] + k for t in rank["tracks"] for k in range(t["lanes"])]
        for at in range(level, level + 9):
            last = (high >> at + 8) + 1
            pair.same("tiles", level=at, parts=[{"lanes": lanes, "first": 0, "last": last}])
        for lane in lanes:
            start = rng.randrange(low, high) >> level << level
            exact, reply = pair.both("cell", lane=lane, start=start, end=start + (3 << level))
            agree(exact["kinds"], reply["kinds"], (lane, start))
            assert reply["busy"] == exact["busy"]
            assert reply["count"] in (None, exact["count"])
        # In whole grid cells, the figures are exact too.
        window = {"start": (low >> level) + 5 << level, "end": (high >> level) - 3 << level}
        exact, reply = pair.both("stats", **window)
        at = exact["ranks"].index(rank["rank"])
        for name in ("compute", "communication", "exposed", "memory", "data", "idle"):
            assert reply[name][at] == exact[name][at], name
        assert rank["rank"] in reply["approximate"]
        late, result = pair.both("lateness", **window)
        assert result["exposed_wait"][at] == late["exposed_wait"][at] > 0
        assert rank["rank"] in result["approximate"]
    # The page has the matched collectives of all ranks.
    waits = waits_of(kernel.scene())
    for level in range(20):
        first = rng.randrange(low, high) >> level + 8
        pair.same("tiles", level=level, parts=[{"lanes": waits, "first": first, "last": first + 3}])
    for lane in waits:
        start = rng.randrange(low, high)
        pair.same("cell", lane=lane, start=start, end=start + 10**5)
        pair.same("snap", lane=lane, time=start, tolerance=10**6)
    for _ in range(20):
        start = rng.randrange(low, high)
        window = {"start": start, "end": start + rng.randrange(1, high)}
        late, result = pair.both("lateness", **window)
        for name in ("ranks", "collectives", "last", "wait", "imposed", "late", "note"):
            assert result[name] == late[name], name
        coarsest = max(rank["overview_level"] for rank in overviews)
        for ours, theirs in zip(late["exposed_wait"], result["exposed_wait"], strict=True):
            assert theirs == pytest.approx(ours, abs=2 << coarsest)
    same_ribbons(pair, rng)
    pair.same("clusters")
    for rank, trace in kernel.traces.items():
        for row in np.flatnonzero(trace.events.kind == "communication")[:40].tolist():
            agree(*pair.both("collective", rank=rank, id=row), (rank, row))


def test_what_an_overview_lacks_is_said(tmp_path, saved):
    kernel = load(write_job(tmp_path, 1, ranks=2, events=3000))
    state = {**STATE, "selected_event": [1, 0]}
    page = saved(kernel, state, max_mb=saved(kernel).room(0.9))
    document = page.ask("document")["reply"]
    embedded = document["scene"]["embedded"]
    assert (embedded["ranks_full"], embedded["ranks_args"]) == ([1], [])
    assert embedded["text"] == "Rank 1: all events, no arguments. Others: overview only."
    text = "Rank 0 is embedded as an overview only"
    assert text in page.ask("neighbor", rank=0, id=3, direction=1)["error"]
    assert text in page.ask("totals", selection={"ranks": [0]})["error"]
    assert text in page.ask("export", path="x.json", selection={"ranks": [0]})["error"]
    everywhere, _ = page.answer("totals", selection={})
    assert everywhere["left_out"] == [0]
    assert everywhere["events"] == len(kernel.traces[1])
    exact, reply = Pair(kernel, page).both("search", text="aten")
    assert [*reply["left_out"], *reply["ranks"]] == exact["ranks"]
    snapped, _ = page.answer("snap", lane=kernel.job.ranks[0].lane0, time=0, tolerance=9)
    assert snapped == {"time": None}
    event, _ = page.answer("event", rank=1, id=5)
    assert event["args"] == []
    assert event["args_error"].startswith("Arguments are not embedded in this page")


def test_between_the_grid_long_events_stay_exact(tmp_path, saved):
    kernel = load(write_job(tmp_path, 1, ranks=1, events=3000))
    page = saved(kernel, max_mb=saved(kernel).room(0.8))
    scene = page.ask("document")["reply"]["scene"]
    rank = scene["ranks"][0]
    level = rank["overview_level"] - 3
    lane = next(row["lane"] for row in rank["summary"] if row["role"] == "gpu")
    parts = [{"lanes": [lane], "first": 0, "last": (scene["range"][1] >> level + 8) + 1}]
    _, result = page.answer("tiles", level=level, parts=parts)
    reply, buffer = kernel.answer({"op": "tiles", "level": level, "parts": parts})
    exact = unpack(reply["columns"], buffer)
    long = exact["slice_dur"] >= 2 << rank["overview_level"]
    remaining = sorted(set(zip(exact["slice_start"][long], exact["slice_id"][long], strict=True)))
    assert remaining
    assert sorted(set(zip(result["slice_start"], result["slice_id"], strict=True))) == remaining
    # An even spread preserves the sum.
    cells = 65535 * len(result["busy"])
    assert result["busy"].sum() / cells == pytest.approx(exact["busy"].sum() / cells, abs=0.01)


def test_an_export_from_a_page_loads_again(tmp_path, paired):
    pair = paired(1)
    kernel, page, low, high = pair.kernel, pair.page, pair.low, pair.high
    window = {"start_ns": low + high // 4, "end_ns": low + high // 2}
    reply, _ = page.answer("export", path="a/b/window.json.gz", selection=window, counters=True)
    assert list(page.files) == ["window.json.gz"]
    assert reply["path"] == "window.json.gz"
    assert reply["bytes"] == len(page.files["window.json.gz"])
    path = tmp_path / "window.json.gz"
    path.write_bytes(page.files["window.json.gz"])
    again = hw.load(path, progress=False, cache=False)
    assert again.origin_ns is not None
    shift = again.origin_ns - kernel.traces.origin_ns
    assert again.ranks == [0, 1]
    chosen = kernel.traces.select(**window)
    keys = ["start_ns", "dur_ns", "name", "tid"]
    inside = 0
    for rank, trace in kernel.traces.items():
        events = again[rank].events.assign(start_ns=lambda frame: frame["start_ns"] + shift)
        member = chosen.mask(trace)
        members = trace.events[keys][member].itertuples(index=False, name=None)
        assert set(members) <= set(events[keys].itertuples(index=False, name=None))
        row = events.index[len(events) // 2]
        same = (trace.events[keys].astype(object) == events.loc[row, keys]).all(axis=1)
        args = [trace.args(int(k)) for k in np.flatnonzero(same)]
        assert again[rank].args(int(row)) in args
        flows = trace.flow_table
        stated = flows.source_record >= 0
        inside += int((member[flows.source] & member[flows.target] & stated).sum())
    assert sum(map(len, again.values())) == reply["events"]
    # The file states that it is a part, and contains the arrows with both ends inside.
    assert again.span_ns[1] - again.span_ns[0] == window["end_ns"] - window["start_ns"]
    assert again[0].stated_work_ns is not None
    assert reply["flows"] >= inside > 0
    assert sum(len(again[rank].flows) for rank in again.ranks) >= inside
    assert sum(len(again[rank].counters) for rank in again.ranks) > 0


@pytest.mark.parametrize("clip", [False, True])
def test_an_export_from_a_page_has_the_launches_of_a_kernel_export(tmp_path, paired, clip):
    pair = paired(1)
    traces, page, low, high = pair.kernel.traces, pair.page, pair.low, pair.high
    window = {"start_ns": low + high // 4, "end_ns": low + high // 3, "query": "kind == 'compute'"}
    reply, _ = page.answer("export", path="x.json", selection=window, launches=True, clip=clip)
    options = {"keep_launches": True, "clip": clip}
    written = hw.export_trace(traces, tmp_path / "x.json", traces.select(**window), **options)
    assert (reply["events"], reply["flows"]) == (written.events, written.flows)


def test_a_clipped_export_of_one_rank(tmp_path, paired):
    pair = paired(2)
    page, low, high = pair.page, pair.low, pair.high
    window = {"start_ns": low + high // 4, "end_ns": low + high // 3, "ranks": [1]}
    reply, _ = page.answer("export", path="cut", selection=window, clip=True)
    text = page.files["cut.json"].decode()
    document = json.loads(text)
    assert document["distributedInfo"] == {"rank": 1}
    events = [item for item in document["traceEvents"] if item["ph"] == "X"]
    assert len(events) == reply["events"] > 0
    assert all(round(item["ts"] * 1000) >= window["start_ns"] for item in events)
    ends = [round((item["ts"] + item["dur"]) * 1000) for item in events]
    assert max(ends) <= window["end_ns"]
    assert any("hta_clipped" in item.get("args", {}) for item in events)
    assert "scrub" in page.ask("export", path="x", selection=window, scrub=True)["error"]
    nothing = {"start_ns": high + 10**9}
    assert "Nothing to export" in page.ask("export", path="x", selection=nothing)["error"]
    assert not Path(tmp_path / "cut.json").exists()
