"""Exported records equal those in the file; parts, scrubbed times and BytePS jobs load again."""

import json
from decimal import Decimal
from pathlib import Path

import pandas as pd
import pytest
from support.small import call, event, kernel, load, read

import hta_widgets as hw
from hta_widgets import analysis
from hta_widgets.demo.byteps import write_byteps_job
from hta_widgets.errors import TraceError
from hta_widgets.export.traces.files import export_pair, export_trace
from hta_widgets.live.job import TileEngine

HOST = {"pid": 1, "tid": 1}

GPU = {"pid": 0, "tid": 7}


def x(name, ts, dur, at=HOST, **more):
    return {"ph": "X", "cat": "cpu_op", "name": name, **at, "ts": ts, "dur": dur, **more}


def names(document, phases="XMiCbesfBE"):
    return [record["name"] for record in document["traceEvents"] if record["ph"] in phases]


@pytest.fixture
def small(trace_file, load):
    """Two nested host events, a later kernel, and records that refer to them."""
    path = trace_file(
        [
            {"name": "process_name", "ph": "M", **HOST, "ts": 0, "args": {"name": "python"}},
            {"name": "thread_name", "ph": "M", **GPU, "ts": 0, "args": {"name": "stream 7 "}},
            x("outer", 10, 100),
            x("inner", 20, 30, args={"External id": 3}),
            x("launch", 30, 5, cat="cuda_runtime", args={"correlation": 9}),
            {"ph": "s", "id": 9, "cat": "ac2g", "name": "ac2g", **HOST, "ts": 30},
            x("kernel", 200, 50, GPU, cat="kernel", args={"stream": 7, "correlation": 9}),
            {"ph": "f", "id": 9, "cat": "ac2g", "name": "ac2g", **GPU, "ts": 200, "bp": "e"},
            {"ph": "i", "s": "t", "name": "early", **HOST, "ts": 15},
            {"ph": "i", "s": "t", "name": "late", **HOST, "ts": 230},
            {"ph": "C", "name": "memory", "pid": 0, "ts": 40, "args": {"allocated": 5}},
            {"ph": "C", "name": "memory", "pid": 0, "ts": 220, "args": {"allocated": 6}},
            {"ph": "b", "id": "0x1", "cat": "io", "name": "read", **HOST, "ts": 210},
            {"ph": "e", "id": "0x1", "cat": "io", "name": "read", **HOST, "ts": 300},
            {"ph": "f", "id": 77, "cat": "ac2g", "name": "ac2g", **HOST, "ts": 25, "bp": "e"},
        ],
        schemaVersion=1,
        distributedInfo={"rank": 3},
    )
    return load(path), path


def test_everything_is_everything(small, tmp_path, document):
    traces, path = small
    report = export_trace(traces, tmp_path / "out.json", counters="own")
    assert document(report.path) == document(path)
    assert (report.events, report.flows, report.dropped) == (4, 1, 0)
    assert report.bytes == report.path.stat().st_size
    assert report.ranks == (3,)


def test_counters_are_left_out_unless_asked_for(small, tmp_path, document):
    traces, _ = small
    report = export_trace(traces, tmp_path / "out.json")
    assert "memory" not in names(document(report.path))
    assert report.dropped == 2
    assert report.left_out == {"counters": 2}


def test_a_window_takes_what_overlaps_it(small, tmp_path, document):
    traces, _ = small
    # Times count from the first event, which starts at 10 µs.
    window = traces.select(start_ns=195_000, end_ns=225_000)
    report = export_trace(traces, tmp_path / "out.json", window, counters="own")
    expected = "process_name thread_name kernel late memory read read"
    assert names(document(report.path)) == expected.split()
    assert report.events == 1


@pytest.mark.parametrize("phase", ["", "ef", "st", "XB", "q"])
def test_a_record_of_an_unknown_phase_is_kept_in_its_window(trace_file, load, tmp_path, phase):
    unknown = {"ph": phase, "name": "unknown", **HOST, "ts": 30}
    traces = load(trace_file([x("op", 10, 90), unknown]))
    for start_ns, kept in ((15_000, ["unknown"]), (25_000, [])):
        window = traces.select(start_ns=start_ns, end_ns=80_000)
        report = export_trace(traces, tmp_path / "out.json", window)
        records = json.loads(report.path.read_text())["traceEvents"]
        assert [record["name"] for record in records if record["ph"] == phase] == kept


def test_flows_need_both_ends(small, tmp_path, document):
    traces, _ = small
    query = "name in ['launch', 'kernel']"
    both = export_trace(traces, tmp_path / "both.json", query, keep_parents=False)
    assert both.flows == 1
    for phase in "sf":
        assert names(document(both.path), phase) == ["ac2g"]
    single = export_trace(traces, tmp_path / "one.json", "name == 'kernel'", keep_parents=False)
    assert names(document(single.path), "stf") == []
    assert (single.flows, single.left_out["flows"]) == (0, 1)


@pytest.mark.parametrize(
    ("keep_parents", "kept"), [(True, ["outer", "inner", "launch"]), (False, ["launch"])]
)
def test_parents_go_along(small, tmp_path, document, keep_parents, kept):
    traces, _ = small
    query = "name == 'launch'"
    report = export_trace(traces, tmp_path / "a.json", query, keep_parents=keep_parents)
    assert names(document(report.path), "X") == kept


@pytest.mark.parametrize(
    ("options", "names_written", "flows"),
    [
        ({}, ["outer", "inner", "launch", "kernel"], 1),
        ({"keep_parents": False}, ["launch", "kernel"], 1),
        ({"clip": True}, ["kernel"], 0),
    ],
)
def test_launches_go_along_with_their_operators(
    small, tmp_path, document, options, names_written, flows
):
    traces, _ = small
    window = traces.select("name == 'kernel'", start_ns=100_000)
    assert export_trace(traces, tmp_path / "kernel.json", window).events == 1
    report = export_trace(traces, tmp_path / "a.json", window, keep_launches=True, **options)
    assert names(document(report.path), "X") == names_written
    assert report.flows == flows


def test_only_the_chosen_tracks_keep_their_instants(small, tmp_path, document):
    traces, _ = small
    events = traces[3].events
    track = events["track"][events["name"] == "kernel"].iloc[0]
    report = export_trace(traces, tmp_path / "a.json", traces.select(tracks=[track]))
    assert names(document(report.path), "iX") == ["kernel"]


def test_a_subset_exports_only_what_it_holds(small, tmp_path, document):
    traces, _ = small
    part = traces.subset(start_ns=195_000, end_ns=225_000)
    report = export_trace(part, tmp_path / "a.json")
    assert names(document(report.path), "X") == ["kernel"]
    assert report.events == 1


def test_metadata_and_top_level_keys_survive(small, tmp_path, document):
    traces, _ = small
    written = document(export_trace(traces, tmp_path / "a.json.gz", "name == 'kernel'").path)
    assert written["schemaVersion"] == 1
    assert written["distributedInfo"] == {"rank": 3}
    assert names(written, "M") == ["process_name", "thread_name"]


def test_records_are_copied_byte_for_byte(trace_file, load, tmp_path):
    first = (
        '{"ph":"X","name":"é\\u00e9\\/\\"","pid":1,"tid":"1","ts":1.50,"dur":2.000,'
        '"args":{"big":123456789012345678901234567890,"f":1e400,"z":-0.0,"a": [ 1,  2 ]}}'
    )
    second = '{"ts": 4.0001, "dur": 1E1, "ph": "X", "name": "odd", "pid": 1, "tid": "1"}'
    text = export_trace(load(trace_file([first, second])), tmp_path / "out.json").path.read_text()
    assert first in text
    assert second in text


def test_begin_and_end_both_go(trace_file, load, tmp_path, document):
    records = [
        {"ph": phase, "name": name, **HOST, "ts": ts}
        for phase, name, ts in [("B", "a", 0), ("E", "a", 10), ("B", "b", 20), ("E", "b", 30)]
    ]
    traces = load(trace_file(records))
    report = export_trace(traces, tmp_path / "out.json", "name == 'b'")
    assert document(report.path)["traceEvents"] == records[2:]
    assert report.events == 1


# --- clip -----------------------------------------------------------------------------------------
def test_clip_cuts_at_the_edge_and_says_so(trace_file, load, tmp_path, document):
    path = trace_file(
        [
            x("before", "0.5", 10),
            '{"ph":"X","name":"across","pid":1,"tid":2,"ts":5.250,"dur":20.500,"args":{"k":1.0}}',
            x("within", 9, 1, {"pid": 1, "tid": 3}),
            {"ph": "B", "name": "pair", "pid": 1, "tid": 4, "ts": 1},
            {"ph": "E", "name": "pair", "pid": 1, "tid": 4, "ts": 100},
        ]
    )
    traces = load(path)
    # The first event starts at 0.5 µs, so the window is 8.5 to 12.625 µs in the file.
    window = traces.select(start_ns=8_000, end_ns=12_125)
    report = export_trace(traces, tmp_path / "out.json", window, clip=True)
    written = {(r["name"], r["ph"]): r for r in document(report.path)["traceEvents"]}
    across = written["across", "X"]
    assert (across["ts"], across["dur"]) == (Decimal("8.5"), Decimal("4.125"))
    assert across["args"]["k"] == Decimal("1.0")
    assert across["args"]["hta_clipped"] == {"ts": Decimal("5.25"), "dur": Decimal("20.5")}
    before = written["before", "X"]
    assert (before["ts"], before["dur"]) == (Decimal("8.5"), 2)
    within = written["within", "X"]
    assert (within["ts"], within["dur"]) == (9, 1)
    assert "args" not in within
    assert written["pair", "B"]["ts"] == Decimal("8.5")
    assert written["pair", "E"]["ts"] == Decimal("12.625")
    assert written["pair", "E"]["args"]["hta_clipped"] == {"ts": 100}
    again = load(report.path)[0].events
    assert again["start_ns"].min() == 0
    assert again["dur_ns"].sum() == 2_000 + 4_125 + 1_000 + 4_125


def test_clip_keeps_arrows_on_their_events(small, tmp_path, load):
    traces, _ = small
    window = traces.select(start_ns=22_000, end_ns=200_000)
    report = export_trace(traces, tmp_path / "out.json", window, clip=True)
    back = load(report.path)[3]
    ends = back.flows.iloc[0][["source", "target"]]
    assert back.events["name"].loc[ends].tolist() == ["launch", "kernel"]
    assert report.flows == 1


def test_without_clip_times_are_the_files_own(small, tmp_path, document):
    traces, path = small
    window = traces.select(start_ns=22_000, end_ns=200_000)
    report = export_trace(traces, tmp_path / "out.json", window)
    own = [json.dumps(r, default=str) for r in document(path)["traceEvents"]]
    for record in document(report.path)["traceEvents"]:
        assert json.dumps(record, default=str) in own


# --- places ---------------------------------------------------------------------------------------
def test_a_name_without_suffix_is_a_directory(small, tmp_path, load):
    traces, _ = small
    report = export_trace(traces, tmp_path / "out")
    assert [p.name for p in report.path.iterdir()] == ["rank-3.trace.json.gz"]
    assert load(report.path).ranks == [3]


def test_a_directory_takes_the_same_ranks_again_and_refuses_others(small, tmp_path):
    traces, _ = small
    for query in (None, "name == 'kernel'"):
        export_trace(traces, tmp_path / "out", query)
    (tmp_path / "out/rank-8.json").write_text("{}")
    with pytest.raises(TraceError, match=r"rank-8\.json"):
        export_trace(traces, tmp_path / "out")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("no/such/folder.json", "does not exist"),
        ("trace.parquet", r"\.json or \.json\.gz"),
    ],
)
def test_places_that_cannot_be_written_are_named(small, tmp_path, name, message):
    traces, _ = small
    with pytest.raises(TraceError, match=message):
        export_trace(traces, tmp_path / name)


def test_a_file_in_the_way_of_a_directory(small, tmp_path):
    traces, _ = small
    (tmp_path / "out").write_text("mine")
    with pytest.raises(TraceError, match="is a file"):
        export_trace(traces, tmp_path / "out")
    assert (tmp_path / "out").read_text() == "mine"


def test_nothing_selected_is_an_error_and_writes_nothing(small, tmp_path):
    traces, _ = small
    with pytest.raises(TraceError, match="contains no events"):
        export_trace(traces, tmp_path / "out.json", "name == 'absent'")
    assert not (tmp_path / "out.json").exists()


def test_no_input_is_replaced_by_an_export_or_a_page(tmp_path):
    job = hw.export_trace(load(tmp_path, [kernel(0, 9)], [kernel(0, 9)]), tmp_path / "job").path
    traces = read(job)
    first, second = sorted(job.iterdir())
    before = first.read_bytes(), second.read_bytes()
    for write in (
        lambda: export_trace(traces, second, traces.select(ranks=[0])),
        lambda: export_trace(traces, job),
        lambda: export_trace(traces[0], job / ".." / "job" / first.name),
        lambda: export_pair(traces[0], traces[1], second),
        lambda: hw.Timeline(traces).save_html(first),
    ):
        with pytest.raises(TraceError, match="is a file that the traces were read from"):
            write()
    assert (first.read_bytes(), second.read_bytes()) == before


def test_a_failure_leaves_the_old_file_and_no_rests(small, tmp_path):
    traces, path = small
    target = tmp_path / "sub" / "out.json"
    target.parent.mkdir()
    target.write_text("old")
    path.write_text(path.read_text() + " ")  # the source detects the changed file
    with pytest.raises(TraceError, match="changed"):
        export_trace(traces, target)
    assert target.read_text() == "old"
    assert [p.name for p in target.parent.iterdir()] == ["out.json"]


def test_a_trace_and_a_bound_selection_export_themselves(small, tmp_path, document):
    traces, _ = small
    assert export_trace(traces[3], tmp_path / "a.json").events == 4
    report = traces.select("name == 'kernel'").export(tmp_path / "b.json")
    assert names(document(report.path), "X") == ["kernel"]


def test_the_same_selection_gives_the_same_bytes(small, tmp_path):
    traces, _ = small
    a = export_trace(traces, tmp_path / "a.json.gz").path.read_bytes()
    b = export_trace(traces, tmp_path / "b.json.gz").path.read_bytes()
    assert a == b


# --- threads of flows -----------------------------------------------------------------------------
def test_flows_write_their_thread_as_their_events_do(trace_file, load, tmp_path, document):
    at = {"pid": 1, "tid": "1"}
    path = trace_file(
        [
            x("outside", 0, 1, at),
            x("launch", 30, 5, at, cat="cuda_runtime", args={"correlation": 9}),
            {"ph": "s", "id": 9, "cat": "ac2g", "name": "ac2g", "pid": 1, "tid": 1, "ts": 30},
            x("kernel", 40, 5, GPU, cat="kernel", args={"stream": 7, "correlation": 9}),
            {"ph": "f", "id": 9, "cat": "ac2g", "name": "ac2g", **GPU, "ts": 40, "bp": "e"},
        ]
    )
    traces = load(path)
    part = export_trace(traces, tmp_path / "part.json", traces.select(start_ns=25_000))
    threads = [r["tid"] for r in document(part.path)["traceEvents"]]
    assert threads == ["1", "1", 7, 7]
    full = export_trace(traces, tmp_path / "whole.json")
    assert document(full.path)["traceEvents"] == document(path)["traceEvents"]


def test_a_trace_without_a_file_of_records_is_written_from_its_columns(small, tmp_path, load):
    traces, _ = small
    bare = traces[3].replace(source=None)
    report = export_trace(bare, tmp_path / "out.json")
    back = load(report.path)[3].events
    own = traces[3].events
    for column in ("start_ns", "dur_ns", "name", "category", "pid", "tid", "stream", "correlation"):
        assert back[column].astype(str).tolist() == own[column].astype(str).tolist(), column
    assert report.events == 4


#: A step around all events, and device work. Window edges lie in gaps or cut the work.
EVENTS = [
    event("user_annotation", "ProfilerStep#1", 0, 100_000, pid=10, tid=1),
    call(1_000, 2_000, 1),
    kernel(5_000, 20_000, launch=1),
    call(30_000, 31_000, 2),
    kernel(40_000, 50_000, launch=2),
    call(55_000, 56_000, 3),
    kernel(60_000, 75_000, launch=3),
    call(80_000, 81_000, 4),
    kernel(90_000, 95_000, launch=4),
]


def reopened(traces, folder, *, clip=False, **selection):
    path = folder / f"part-{len(list(folder.iterdir()))}.json"
    hw.export_trace(traces, path, hw.Selection(**selection), clip=clip)
    return read(path)


@pytest.mark.parametrize("clip", [False, True])
@pytest.mark.parametrize(
    "window", [(25_000, 70_000), (0, 45_000), (92_000, 99_000), (51_000, 58_000)]
)
def test_figures_of_a_reopened_window_are_those_of_the_job_in_it(tmp_path, window, clip):
    traces = load(tmp_path, EVENTS, EVENTS)
    back = reopened(traces, tmp_path, start_ns=window[0], end_ns=window[1], clip=clip)
    length = window[1] - window[0]
    assert back.span_ns[1] - back.span_ns[0] == length
    pd.testing.assert_frame_equal(
        analysis.temporal_breakdown(back), analysis.temporal_breakdown(traces, window=window)
    )
    scene = TileEngine(back).scene()
    assert scene["range"][1] - scene["range"][0] == length
    start, end = scene["range"]
    stats, _ = TileEngine(back).answer({"op": "stats", "start": start, "end": end})
    parts = analysis.temporal_breakdown(back)
    assert (stats["span"], stats["idle"]) == (parts.span_ns.tolist(), parts.idle_ns.tolist())
    causes = analysis.device_idle_breakdown(back).groupby("rank")["idle_ns"].sum()
    assert causes.tolist() == parts.idle_ns.tolist()
    assert scene["truth"]["level"] == "warn"
    assert f"{length / 1e6:.3f}\u202fms of a job" in scene["truth"]["text"]
    # The step around the window is clipped on both ranks.
    assert back.problems.query("kind == 'part'").detail.str.contains("cross").all()


@pytest.mark.parametrize("clip", [False, True])
def test_steps_that_an_export_cut_are_not_compared(tmp_path, clip):
    steps = [
        event("user_annotation", f"ProfilerStep#{n}", at, at + 90_000, pid=10, tid=1)
        for n, at in enumerate((0, 100_000, 200_000))
    ]
    slow = [{**step, "dur": 95} for step in steps]
    ranks = ([*EVENTS[1:], *own] for own in (steps, steps, slow))
    traces = load(tmp_path, *ranks)
    back = reopened(traces, tmp_path, start_ns=50_000, end_ns=285_000, clip=clip)
    frame = analysis.step_times(back)
    compared = frame[frame["dur_deviation_ns"].notna()]
    assert compared["step"].unique().tolist() == [1]
    assert compared["dur_deviation_ns"].tolist() == [0, 0, 5_000]
    assert frame[frame["step"] == 0]["dur_ns"].tolist() == [40_000, 40_000, 45_000]
    assert "steps that the window cuts are not compared" in frame.attrs["note"]


def test_an_export_is_not_called_the_whole_job(tmp_path):
    back = reopened(load(tmp_path, EVENTS), tmp_path, start_ns=25_000, end_ns=70_000)
    picture = Path(hw.Timeline(back).to_svg(tmp_path / "part.svg")).read_text("utf-8")
    assert picture.count("whole export") == 3  # description, heading and overview
    assert "whole job" not in picture


def test_a_window_inside_a_gap_is_idle_but_time_before_all_work_is_not(tmp_path):
    traces = load(tmp_path, EVENTS)
    gap = analysis.temporal_breakdown(reopened(traces, tmp_path, start_ns=51_000, end_ns=58_000))
    assert gap[["idle_ns", "span_ns"]].to_numpy().tolist() == [[7_000, 7_000]]
    early = analysis.temporal_breakdown(reopened(traces, tmp_path, start_ns=0, end_ns=10_000))
    assert early[["idle_ns", "span_ns"]].to_numpy().tolist() == [[0, 5_000]]


def test_a_part_knows_its_ranks_and_a_part_of_a_part_its_job(tmp_path):
    traces = load(tmp_path, EVENTS, EVENTS, EVENTS)
    two = reopened(traces, tmp_path, ranks=(0, 2))
    assert "2 of 3 ranks" in TileEngine(two).scene()["truth"]["text"]
    low = two.span_ns[0]
    single = reopened(two, tmp_path, start_ns=low + 25_000, end_ns=low + 70_000, ranks=(0,))
    assert "0.045\u202fms of a job" in single.problems.detail.tolist()[0]
    work = analysis.temporal_breakdown(single)
    pd.testing.assert_frame_equal(
        work, analysis.temporal_breakdown(traces, window=(25_000, 70_000), ranks=[0])
    )
    chosen = reopened(traces, tmp_path, query="name == 'gemm'")
    assert "chosen events" in chosen.problems.detail.tolist()[0]


def test_an_export_of_all_is_no_part(tmp_path):
    traces = load(tmp_path, EVENTS, EVENTS)
    for ranks in (None, (0, 1)):
        back = reopened(traces, tmp_path, ranks=ranks)
        assert back.window_ns is None
        assert TileEngine(back).scene()["truth"]["level"] == "ok"


@pytest.fixture(scope="module")
def traces(tmp_path_factory):
    folder = tmp_path_factory.mktemp("byteps") / "job"
    write_byteps_job(folder, steps=3)
    return hw.load(folder, cache=False, progress=False)


@pytest.mark.parametrize("rank", [1, 5])
def test_a_window_of_a_rank_has_the_files_own_records(traces, tmp_path, rank):
    start = traces[rank].start_ns + 20_000_000
    window = traces.select(start_ns=start, end_ns=start + 20_000_000, ranks=[rank])
    report = hw.export_trace(traces, tmp_path / "part.json", window, keep_parents=False)
    assert report.events == len(window.events()) > 5
    own = {json.dumps(r) for r in _records(traces[rank].path)}
    part = [json.dumps(r) for r in _records(tmp_path / "part.json")]
    assert len(part) >= report.events
    assert set(part) <= own
    again = read(tmp_path / "part.json")
    row, before = again.summary().iloc[0], traces.summary().iloc[rank]
    same = ["job", "worker", "local_rank", "server", "format"]
    assert row[same].tolist() == before[same].tolist()
    events = again[0].events
    assert events["name"].tolist() == window.events()["name"].tolist()
    assert events["dur_ns"].tolist() == window.events()["dur_ns"].tolist()


def _records(path):
    text = Path(path).read_text("utf-8")
    return json.loads(text if "]" in text else text + "]}")["traceEvents"]


@pytest.mark.parametrize("name", ["merged.json.gz", "folder"])
def test_several_ranks_keep_workers_and_servers(traces, tmp_path, name):
    hw.export_trace(traces, tmp_path / name, traces.select(ranks=[0, 3, 4]), counters=True)
    again = read(tmp_path / name)
    assert again.ranks == [0, 3, 4]
    columns = ["worker", "local_rank", "server", "format", "events"]
    assert (
        again.summary()[columns].to_numpy().tolist()
        == traces.subset(ranks=[0, 3, 4]).summary()[columns].to_numpy().tolist()
    )
    assert again[0].counters["value"].tolist() == traces[0].counters["value"].tolist()
    columns = ["dur_ns", "name", "id", "pid"]  # starts count from a different first event
    assert again[4].asyncs[columns].astype(str).equals(traces[4].asyncs[columns].astype(str))


def test_scrubbed_files_do_not_name_the_job(traces, tmp_path):
    hw.export_trace(traces, tmp_path / "x.json", traces.select(ranks=[1]), scrub=True)
    again = read(tmp_path / "x.json")
    assert again.summary()[["worker", "local_rank"]].to_numpy().tolist() == [[0, 1]]
    assert again.summary()["job"].tolist() == [None]
