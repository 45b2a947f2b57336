"""The scene: tracks and lanes in order, and the texts of strip and badge."""

import json

import pandas as pd
import pytest
from support import recorded, small

import hta_widgets as hw
import hta_widgets.analysis
from hta_widgets.demo.byteps import write_byteps_job
from hta_widgets.demo.job import write_demo
from hta_widgets.demo.mpi import write_mpi_job
from hta_widgets.export.traces.files import export_trace
from hta_widgets.live.job import PanelEngine, TileEngine
from hta_widgets.panels.headline import headline
from hta_widgets.readers.load import load
from hta_widgets.tiles.lateness import clusters_reply
from hta_widgets.tiles.layout import counter_label, counter_unit, job_title, number_repeated
from hta_widgets.tiles.packing import unpack
from hta_widgets.tiles.scene import data_quality, phase_name
from hta_widgets.trace.problems import Problem, Problems
from hta_widgets.trace.traceset import Selection, TraceSet


def tracks(scene, rank=0):
    return {track["label"]: track for track in scene["ranks"][rank]["tracks"]}


def test_it_is_json(scene):
    assert json.loads(json.dumps(scene)) == scene


def test_order_of_tracks_and_of_folded_lanes(scene):
    assert " | ".join(tracks(scene)) == (
        "stream 7 | stream 40 | stream 7 annotations | main thread | autograd thread | thread 300"
        " | memory (MB) used | io | instants"
    )
    summary = [f"{row['role']}: {row['label']}" for row in scene["ranks"][0]["summary"]]
    assert " | ".join(summary) == (
        "gpu: compute | comm: communication"
        " | cpu: main thread | cpu: autograd thread | cpu: thread 300"
    )


def test_lanes_are_numbered_without_gaps(scene):
    seen = []
    for rank in scene["ranks"]:
        seen += [row["lane"] for row in rank["summary"]]
        for track in rank["tracks"]:
            seen += range(track["lane0"], track["lane0"] + track["lanes"])
        for row in (*rank["summary"], *rank["tracks"]):
            seen += [row[role] for role in ("wait", "late") if role in row]
    assert seen == list(range(scene["lanes"]))


def test_keys_are_those_of_the_track_column(scene, traces):
    keys = [track["key"] for track in scene["ranks"][0]["tracks"]]
    assert len(set(keys)) == len(keys)
    assert set(traces[0].events["track"].unique()) <= set(keys)


def test_what_a_track_says(scene):
    by_label = tracks(scene)
    assert by_label["stream 40"]["communication"]
    assert not by_label["stream 7"]["communication"]
    assert by_label["stream 7"]["process"] == "GPU 0"
    assert by_label["main thread"]["lanes"] == 4
    assert by_label["stream 7"]["events"] == 3
    counter = by_label["memory (MB) used"]
    assert (counter["range"], counter["unit"]) == ([5.0, 9.0], "MB")
    assert by_label["io"]["lanes"] == 2


def test_range_and_steps(scene):
    assert scene["range"] == [0, 103_000]
    assert [rank["range"] for rank in scene["ranks"]] == [[0, 100_000], [3_000, 103_000]]
    assert scene["steps_rank"] == 0
    assert scene["steps"] == [{"name": "ProfilerStep#1", "start": 0, "dur": 100_000}]
    # "tiny" is shorter than 0.5 % of the step.
    assert scene["phases"] == [{"name": "forward", "start": 5_000, "dur": 40_000}]


def test_the_median_rank_shows_its_steps(tmp_path):
    ranks = (
        [
            small.event("user_annotation", f"ProfilerStep#{n}", 10**6 * n, 10**6 * n + dur)
            for n, dur in enumerate(durs)
        ]
        for durs in ((90_000, 10_000), (30_000, 31_000), (20_000, 20_000))
    )
    scene = TileEngine(small.read(small.write(tmp_path, *ranks))).scene()
    assert scene["steps_rank"] == 1
    assert [step["dur"] for step in scene["steps"]] == [30_000, 31_000]


def scene_of(tmp_path, name, events):
    """Return the engine and the scene for a single file."""
    (tmp_path / name).write_text(json.dumps(events))
    engine = TileEngine(load(tmp_path / name, cache=False, progress=False))
    return engine, engine.scene()


def test_without_steps_the_outermost_annotations_are_the_phases(tmp_path):
    named = [("load#1", 0, 50), ("inner", 10, 30), ("Optimizer.step#SGD", 60, 90)]
    events = [small.event("user_annotation", *item) for item in named]
    _, scene = scene_of(tmp_path, "one.pt.trace.json", events)
    assert (scene["title"], scene["steps"]) == ("one", [])
    assert [phase["name"] for phase in scene["phases"]] == ["load", "Optimizer.step"]


def test_many_host_threads_share_the_last_lane(tmp_path):
    events = [small.event("cpu_op", "work", tid, tid + 5, tid=tid) for tid in range(1, 9)]
    engine, scene = scene_of(tmp_path, "threads.json", events)
    summary = scene["ranks"][0]["summary"]
    assert [row["label"] for row in summary] == ["main thread", "thread 2", "6 other threads"]
    cell, _ = engine.answer({"op": "cell", "lane": summary[2]["lane"], "start": 0, "end": 10**6})
    # Threads 3 to 8 run from 3 to 13 ns, counted from thread 1's 1 ns.
    assert (cell["count"], cell["busy"]) == (6, 10)


@pytest.mark.parametrize(
    ("category", "name"), [("cuda_sync", "Stream Wait Event"), ("kernel", "EVENT_WAIT")]
)
def test_waits_on_a_stream_are_not_drawn_as_compute(tmp_path, category, name):
    on_stream = {"pid": 0, "tid": 7, "stream": 7}
    events = [
        small.event("kernel", "gemm", 0, 10, **on_stream),
        small.event(category, name, 10, 90, **on_stream),
        small.event("kernel", "ncclDevKernel_AllReduce", 100, 120, **on_stream),
    ]
    engine, scene = scene_of(tmp_path, "waits.json", events)
    work, communication = scene["ranks"][0]["summary"]
    assert (work["role"], communication["role"]) == ("gpu", "comm")
    cell, _ = engine.answer({"op": "cell", "lane": work["lane"], "start": 0, "end": 10**6})
    assert (cell["count"], cell["busy"]) == (1, 10)
    [track] = scene["ranks"][0]["tracks"]
    cell, _ = engine.answer({"op": "cell", "lane": track["lane0"], "start": 0, "end": 10**6})
    assert (cell["count"], cell["busy"]) == (3, 110)
    _, scene = scene_of(tmp_path, "only_waits.json", events[1:])
    assert [row["role"] for row in scene["ranks"][0]["summary"]] == ["comm"]


def test_a_file_that_is_no_programs_still_has_a_folded_row(tmp_path):
    event = small.event("user_annotation", "job", 5, 10, pid="ci", tid="a")
    _, scene = scene_of(tmp_path, "other.json", [event])
    [rank] = scene["ranks"]
    assert [(row["role"], row["label"]) for row in rank["summary"]] == [("cpu", "all events")]
    assert [track["label"] for track in rank["tracks"]] == ["a"]


def test_the_folded_row_of_a_byteps_worker_shows_its_work_without_the_ranges_over_it(tmp_path):
    write_byteps_job(tmp_path / "job", steps=2)
    traces = load(tmp_path / "job", cache=False, progress=False)
    engine = TileEngine(traces)
    scene = engine.scene()
    for number in traces:
        [row] = next(rank for rank in scene["ranks"] if rank["rank"] == number)["summary"]
        request = {"op": "cell", "lane": row["lane"], "start": 0, "end": scene["range"][1]}
        cell, _ = engine.answer(request)
        work = traces[number].events.query("kind != 'annotation'")
        assert (row["label"], cell["count"]) == ("work", len(work))


@pytest.mark.parametrize(
    ("labels", "unique"),
    [
        (["a", "a", "b", "a"], ["a", "a 2", "b", "a 3"]),
        (["a", "a", "a 2"], ["a", "a 3", "a 2"]),
        (["a 2", "a", "a", "a 2"], ["a 2", "a", "a 3", "a 2 2"]),
    ],
)
def test_repeated_labels_become_unique(labels, unique):
    assert number_repeated(labels) == unique


def test_an_empty_set():
    scene = TileEngine(TraceSet([])).scene()
    assert (scene["ranks"], scene["lanes"], scene["range"]) == ([], 0, [0, 1])
    assert scene["truth"]["text"] == "exact: 0 events, 0 dropped"


def test_the_badge_is_green_where_every_event_is_there():
    problems = [
        Problem("rounding", 70, "events that nest only within 1000 ns"),
        Problem("unpaired", 4878, "flow ends without a start; kept, no arrow is drawn"),
    ]
    badge = data_quality(215_456, problems)
    assert badge["level"] == "ok"
    assert badge["text"] == "exact: 215\u202f456 events, 0 dropped"
    assert [problem["count"] for problem in badge["problems"]] == [70, 4878]


@pytest.mark.parametrize(
    ("problems", "words"),
    [
        ([("skipped", 1200, "numbers")], "1\u202f200 records skipped"),
        ([("truncated", 1, "cut at byte 7")], "1 file ends early"),
        ([("unpaired", 2, "begin records (B) without an end")], "2 records unpaired"),
        ([("clock", 3, "apart")], "clocks not aligned"),
    ],
)
def test_the_badge_says_what_is_missing(problems, words):
    badge = data_quality(10, [Problem(*problem) for problem in problems])
    assert badge["level"] == "warn"
    assert badge["text"] == f"10 events · {words}"


def test_the_badge_says_of_how_many_ranks_files_are_missing(tmp_path):
    write_demo(tmp_path / "job", ranks=4, steps=1, events_per_step=300, missing=[1, 3])
    traces = load(tmp_path / "job", cache=False, progress=False)
    scene = TileEngine(traces).scene()
    assert scene["ranks_of_job"] == "2 of 4 ranks"
    assert scene["truth"]["level"] == "warn"
    assert scene["truth"]["text"].startswith("2 of 4 ranks · ")
    assert "only 2 of 4 ranks loaded" in scene["truth"]["problems"][0]["detail"]
    assert " · 2 of 4 ranks · " in repr(traces)
    export_trace(traces, tmp_path / "part.json.gz", traces.select(ranks=[0]))
    again = load(tmp_path / "part.json.gz", cache=False, progress=False)
    assert TileEngine(again).scene()["ranks_of_job"] == "1 of 4 ranks"


def test_very_many_problems_are_added_up():
    listed = data_quality(1, [Problem("skipped", 2, "bad", rank) for rank in range(300)])[
        "problems"
    ]
    assert listed == [
        {"kind": "skipped", "count": 600, "detail": "bad (300 ranks)", "rank": None, "file": None}
    ]


def test_a_truncated_rank_says_so(traces):
    problems = Problems()
    problems.add("truncated", 1, "the list of events does not end", None, traces[1].path)
    ranks = TileEngine(TraceSet(traces.values(), problems=problems)).scene()["ranks"]
    text = [(rank["truncated"], rank["problems"]) for rank in ranks]
    assert text == [(None, 0), ("the list of events does not end", 1)]


def test_derived_queues_and_copies_are_tracks():
    traces = hta_widgets.analysis.with_counters(recorded.load(recorded.DATA / "gpu"), ranks=[0])
    ranks = TileEngine(traces).scene()["ranks"]
    labels = [track["label"] for track in ranks[0]["tracks"] if track["role"] == "counter"]
    assert labels == [
        *(f"GPU 0 memory (bytes) {what}" for what in ("allocated", "reserved")),
        *(f"Queue Length[{stream}]" for stream in (7, 20, 24, 28)),
        *("Memcpy DtoH", "Memcpy HtoD", "Memset"),
    ]


def test_small_words():
    assert phase_name("## backward ##") == "backward"
    assert counter_label("GPU memory", "value") == "GPU memory"
    assert counter_label("memory", "used") == "memory used"
    assert counter_label("Queue Length[7]", "Queue Length") == "Queue Length[7]"
    assert counter_label("Memcpy HtoD", "Memcpy BW") == "Memcpy HtoD"
    assert counter_unit("Memcpy HtoD", "Memcpy BW") == "GB/s"
    assert counter_unit("clock", "sm (MHz)") == "MHz"
    assert counter_unit("plain", "series") == ""
    assert job_title(["/runs/llama/rank-0.json.gz", "/runs/llama/rank-1.json.gz"]) == "llama"
    assert job_title(["worker0.1623.pt.trace.json.gz"]) == "worker0.1623"
    assert job_title(["/runs/llama/81004.trc"] * 2) == "llama"
    assert job_title([]) == "empty"


def test_calls_are_communication_and_profiles_beside_them_have_no_rows(tmp_path):
    truth = write_mpi_job(tmp_path / "job", ranks=4, steps=3, slow_rank=2)
    traces = hw.load(tmp_path / "job", cache=False, progress=False)
    assert len(traces) == 4
    engine = TileEngine(traces)
    scene = engine.scene()
    assert [rank["rank"] for rank in scene["ranks"]] == [0, 1, 2, 3]
    (row,) = scene["ranks"][0]["summary"]
    assert (row["role"], row["label"]) == ("comm", "MPI")
    (track,) = scene["ranks"][0]["tracks"]
    assert track["key"] == "MPI · calls"
    assert row["wait"] != track["wait"] >= 0
    start, end = scene["range"]
    result, _ = engine.answer({"op": "lateness", "start": start, "end": end})
    imposed = dict(zip(result["ranks"], result["imposed"], strict=True))
    assert max(imposed, key=imposed.get) == truth["slow_rank"]
    # The headline, the red row, the table and the strip all point to the same rank.
    assert result["late"] == [truth["slow_rank"]]
    assert str(headline(traces)).startswith("Rank 2 spends the least time in MPI")
    table = PanelEngine(traces).frame("mpi_ranks", Selection())
    assert table["rank"][table["is_straggler"]].tolist() == [2]
    reply, buffer = engine.answer({"op": "ribbon", "start": start, "end": end, "bins": 1})
    columns = unpack(reply["columns"], buffer)
    assert columns["job_rank"].tolist() == [2]
    texts = hw.load(sorted((tmp_path / "job").glob("mpi_profile*")), cache=False, progress=False)
    alone = TileEngine(texts).scene()
    assert len(alone["ranks"]) == 4
    assert alone["events"] == 0
    # Profiles of another job are separate ranks.
    write_mpi_job(tmp_path / "job", ranks=4, steps=3, traces=False, job=90002)
    traces = hw.load(tmp_path / "job", cache=False, progress=False)
    assert len(traces) == 8
    assert [rank["rank"] for rank in TileEngine(traces).scene()["ranks"]] == [0, 1, 2, 3]


def frame(rows, note=""):
    names = ["rank", "cluster", "representative", "distance", "is_outlier", "why"]
    result = pd.DataFrame(rows, columns=names)
    result.attrs["note"] = note
    return result


def test_groups_have_their_ranks_and_say_what_the_representative_says():
    rows = [
        (0, 0, 3, 0.1, False, "like rank 3"),
        (1, 1, 1, 0.0, False, "stage 1"),
        (2, 2, 2, 9.0, True, "computes 25 % longer"),
        (3, 0, 3, 0.0, False, "stage 0"),
        (4, 1, 1, 0.2, False, "like rank 1"),
    ]
    assert clusters_reply(frame(rows, "of 2 steps")) == {
        "clusters": [
            {"representative": 1, "ranks": [1, 4], "why": "stage 1"},
            {"representative": 3, "ranks": [0, 3], "why": "stage 0"},
        ],
        "outliers": [{"rank": 2, "why": "computes 25 % longer"}],
        "note": "of 2 steps",
    }


def test_a_representative_that_is_an_outlier_itself_does_not_stand_for_others():
    reply = clusters_reply(frame([(0, 0, 0, 1.0, True, "odd"), (1, 0, 0, 0.1, False, "like 0")]))
    assert reply["clusters"] == [{"representative": 1, "ranks": [1], "why": "like 0"}]


def test_nothing_to_group_says_why():
    assert clusters_reply(frame([], "one rank")) == {
        "clusters": [],
        "outliers": [],
        "note": "one rank",
    }


def test_the_engine_asks_the_analysis_once(ask, monkeypatch):
    requests = []

    def rank_clusters(traces):
        requests.append(list(traces))
        return frame([(0, 0, 0, 0.0, False, ""), (1, 0, 0, 0.0, False, "")])

    monkeypatch.setattr(hta_widgets.analysis, "rank_clusters", rank_clusters, raising=False)
    first, again = ask("clusters"), ask("clusters")
    assert first == again
    assert first["clusters"] == [{"representative": 0, "ranks": [0, 1], "why": ""}]
    assert requests == [[0, 1]]


def _frame(name, start, end):
    return small.event("python_function", f"a.py(1): {name}", start, end, pid=10)


def test_python_frames_without_branches_are_stacks(tmp_path):
    outer = [_frame(name, at, 900 - at) for at, name in enumerate(["main", "run", "train"])]
    steps = [_frame("step", 100, 300), _frame("step", 400, 600)]
    calls = [_frame("call", 110 + at, 210 + at) for at in (0, 300)]
    modules = [_frame("forward", 120 + at, 130 + at) for at in (0, 300)]
    ends = [_frame("impl", 122 + at, 128 + at) for at in (0, 300)]
    operator = small.event("cpu_op", "aten::mm", 123, 124, pid=10)

    def stacks(*events):
        scene = TileEngine(small.load(tmp_path, list(events))).scene()
        return tracks(scene)["main thread"].get("stacks")

    # "train" has two children, so it ends the first stack; the last depth also has the operator.
    assert stacks(*outer, *steps, *calls, *modules, operator) == [[0, 3], [3, 3]]
    assert stacks(*outer, *steps, *calls, *modules, *ends) == [[0, 3], [3, 4]]
    # Two lanes are not a stack, nor are lanes with other events.
    assert stacks(*outer[:2], operator) is None
    assert stacks(*outer[:2], small.event("cpu_op", "aten::add", 3, 800, pid=10), operator) is None
