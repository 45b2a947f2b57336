"""Files from Ascend's profiler."""

import json
import sqlite3
from collections import Counter
from contextlib import closing

import pytest
from support.ascend_database import EPOCH_NS, SECRET, write_ascend_database
from support.databases import change
from support.outputs import unpacked_outputs

import hta_widgets as hw
from hta_widgets import TraceError
from hta_widgets.analysis import collectives, operators, step_times, temporal_breakdown
from hta_widgets.formats.kineto import other_tools
from hta_widgets.readers.discovery import natural_key

PROCESSES = {1: "Python", 2: "Ascend Hardware", 3: "Communication", 4: "CANN"}
STREAM, GROUP = {"pid": 2, "tid": 2}, {"pid": 3, "tid": 0}


def load(path, **options):
    return hw.load(path, cache=False, progress=False, **options)


def write_trace_view(folder, *, rank, info="profiler_info_{}.json", stated=True):
    """Write a rank's folder: one operator, its kernel, and a collective recorded three times."""
    output = folder / f"host_{rank}_ascend_pt" / "ASCEND_PROFILER_OUTPUT"
    output.mkdir(parents=True)
    events = [
        *({"ph": "M", "name": "process_name", "pid": pid, "tid": 0, "args": {"name": name}}
          for pid, name in PROCESSES.items()),
        {"ph": "M", "name": "process_labels", "pid": 2, "tid": 0, "args": {"labels": "NPU"}},
        {"ph": "M", "name": "process_labels", "pid": 3, "tid": 0, "args": {"labels": "NPU"}},
        {"ph": "M", "name": "thread_name", **STREAM, "args": {"name": "Stream 2"}},
        {"ph": "M", "name": "thread_name", **GROUP, "args": {"name": "Group 0 Communication"}},
        {"ph": "M", "name": "thread_name", "pid": 3, "tid": 1, "args": {"name": "Plane 0"}},
        {"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 1, "tid": 9, "ts": "1000.250",
         "dur": 20},
        {"ph": "s", "bp": "e", "cat": "async_npu", "name": "a", "id": 5, "pid": 1, "tid": 9,
         "ts": "1000.250"},
        {"ph": "X", "name": "MatMul", **STREAM, "ts": "1030.500", "dur": 40.25,
         "args": {"Task Type": "AI_CORE"}},
        {"ph": "f", "bp": "e", "cat": "async_npu", "name": "a", "id": 5, **STREAM,
         "ts": "1030.500"},
        *({"ph": "X", "name": name, **STREAM, "ts": "1080.000", "dur": 90,
           "args": {"Task Type": name}} for name in ("SDMA", "Notify Wait", "EVENT_WAIT")),
        {"ph": "X", "name": "hcom_allReduce__586_0_1", **GROUP, "ts": "1080.000", "dur": 100},
        {"ph": "X", "name": "Memcpy", "pid": 3, "tid": 1, "ts": "1085.000", "dur": 50},
    ]  # fmt: skip
    (output / "trace_view.json").write_text(json.dumps(events))
    (output / "step_trace_time.csv").write_text("Step,Computing")
    (output / "communication.json").write_text("{}")
    facts = {"rank_id": rank if stated else -1, "end_info": SECRET}
    (output.parent / info.format(rank)).write_text(json.dumps(facts))
    return output


def test_folders_of_two_ranks(tmp_path):
    for rank in (3, 10):
        write_trace_view(tmp_path, rank=rank)
    traces = load(tmp_path)
    assert traces.ranks == [3, 10]
    assert traces.problems.query("kind != 'overlap'").empty
    trace = traces[10]
    assert trace.format == "ascend"
    row = temporal_breakdown(traces).iloc[0]
    assert (row.compute_ns, row.communication_ns) == (40_250, 100_000)
    assert operators(traces).device_total_ns.tolist() == [40_250] * 2


@pytest.mark.parametrize(
    ("stated", "info"), [(True, "profiler_info.json"), (False, "profiler_info_{}.json")]
)
def test_the_rank_is_stated_in_the_file_or_by_its_name(tmp_path, stated, info):
    write_trace_view(tmp_path, rank=5, info=info, stated=stated)
    assert load(tmp_path).ranks == [5]


@pytest.mark.parametrize("before", [b"\xef\xbb\xbf{", b'{"clock_drift": NaN, '])
def test_the_rank_is_read_from_json_of_other_writers(tmp_path, before):
    """A byte order mark, and numbers that are not valid JSON."""
    folder = write_trace_view(tmp_path, rank=5, info="profiler_info.json")
    for info in tmp_path.rglob("profiler_info.json"):
        info.write_bytes(before + info.read_bytes().removeprefix(b"{"))
    assert folder.exists()
    assert load(tmp_path).ranks == [5]


@pytest.mark.parametrize("label", [None, "NPU 0"])
def test_collectives_count_whatever_the_labels_of_processes(tmp_path, label):
    path = write_trace_view(tmp_path, rank=0) / "trace_view.json"
    events = json.loads(path.read_text())
    labels = [event for event in events if event["name"] == "process_labels"]
    for event in labels:
        event["args"] = {"labels": label}
    path.write_text(json.dumps(events if label else [e for e in events if e not in labels]))
    traces = load(tmp_path)
    row = temporal_breakdown(traces).loc[0]
    assert traces.ranks == [0]
    assert (row.compute_ns, row.communication_ns) == (40_250, 100_000)


def test_a_time_line_may_be_an_object(tmp_path):
    path = write_trace_view(tmp_path, rank=5) / "trace_view.json"
    path.write_text(json.dumps({"traceEvents": json.loads(path.read_text())}))
    traces = load(tmp_path)
    assert (traces.ranks, traces[5].format) == ([5], "ascend")
    assert traces.problems.query("kind != 'overlap'").empty


def test_an_export_has_the_same_figures(tmp_path):
    write_trace_view(tmp_path / "job", rank=0)
    traces = load(tmp_path / "job")
    hw.export_trace(traces, tmp_path / "out.json")
    again = load(tmp_path / "out.json")
    assert temporal_breakdown(again).compute_ns.tolist() == [40_250]
    assert operators(again).device_total_ns.tolist() == [40_250]


def test_tables_and_database_of_a_run_are_not_loaded_beside_its_time_line(tmp_path):
    output = write_trace_view(tmp_path, rank=0)
    write_ascend_database(output / "ascend_pytorch_profiler_0.db")
    traces = load(tmp_path)
    assert traces.ranks == [0]
    assert traces[0].format == "ascend"
    assert "trace_view.json holds the same run" in " ".join(traces.problems.detail)


@pytest.fixture
def database(tmp_path):
    return write_ascend_database(tmp_path / "ascend_pytorch_profiler_0.db")


def test_tasks_of_a_database(database):
    traces = load(database)
    trace = traces[0]
    assert (trace.host, trace.metadata["deviceProperties"][0]["name"]) == ("host7", "Ascend910B")
    assert trace.zero_ns == EPOCH_NS
    row = temporal_breakdown(traces).iloc[0]
    assert (row.compute_ns, row.memory_ns, row.communication_ns) == (50_000, 10_000, 240_000)
    assert operators(traces).set_index("name").device_total_ns["aten::mm"] == 50_000
    assert step_times(traces).step.tolist() == [50]
    operator = trace.events.index[trace.events.name == "aten::mm"][0]
    args = json.loads(trace.source.record(int(trace.table.record[operator])))["args"]
    assert args["Input Dims"] == [[8, 3], [3, 4]]


def test_collectives_of_databases_have_groups_and_sizes(tmp_path):
    for rank in (0, 1):
        name = f"ascend_pytorch_profiler_{rank}.db"
        write_ascend_database(tmp_path / name, rank=rank, late_ns=30_000 * rank)
    traces = load(tmp_path)
    frame = collectives(traces)
    assert frame.size_bytes.tolist() == [4096, 4096]
    assert (frame.group.unique().tolist(), frame.wait_ns.tolist()) == (["group 586"], [30_000, 0])


def test_steps_of_a_database_without_ranges(tmp_path):
    path = write_ascend_database(tmp_path / "a.db", marks=False)
    assert step_times(load(path)).step.tolist() == [50]


def test_call_stacks_reach_outputs_and_the_environment_does_not(tmp_path):
    output = write_trace_view(tmp_path, rank=0)
    environment = {"ENV_VARIABLES": {"TOKEN": SECRET}}
    (output.parent / "profiler_metadata.json").write_text(json.dumps(environment))
    (output / "operator_memory.csv").write_text(f"Name,Size\n{SECRET},1\n")
    path = output / "trace_view.json"
    stack = {"Call stack": "train.py(31): step;\r\nloop.py(3): run"}
    events = [event | {"args": event.get("args", stack)} for event in json.loads(path.read_text())]
    path.write_text(json.dumps(events))
    outputs = unpacked_outputs(load(tmp_path), tmp_path)
    assert [name for name, text in outputs.items() if SECRET.encode() in text] == []
    with_stack = {name for name, text in outputs.items() if b"train.py(31)" in text}
    assert with_stack == {"store", "export", "page"}


def test_a_database_without_events_is_refused(tmp_path, database):
    with closing(sqlite3.connect(database)) as connection:
        for table in ("TASK", "COMMUNICATION_OP", "CANN_API", "PYTORCH_API", "STEP_TIME"):
            connection.execute(f"delete from {table}")
        connection.commit()
    with pytest.raises(TraceError, match="no device or host events"):
        load(database)


def test_ranges_of_mstx_are_annotations(database):
    with closing(sqlite3.connect(database)) as connection:
        connection.execute("create table MSTX_EVENTS (startNs, endNs, globalTid, message)")
        values = (EPOCH_NS + 1_000, EPOCH_NS + 450_000, (77 << 32) + 78)
        connection.execute("insert into STRING_IDS values (900, 'forward')")
        connection.execute("insert into MSTX_EVENTS values (?, ?, ?, 900)", values)
        connection.commit()
    events = load(database)[0].events
    marks = events[events.name == "forward"]
    assert marks[["category", "dur_ns"]].to_numpy().tolist() == [["user_annotation", 449_000]]


@pytest.mark.parametrize("folder", ["rank-0_9_ascend_ms/ASCEND_PROFILER_OUTPUT",
                                    "PROF_000001_9/mindstudio_profiler_output"])  # fmt: skip
def test_raw_data_of_a_recording_is_no_foreign_file(tmp_path, folder):
    source = write_trace_view(tmp_path / "source", rank=0) / "trace_view.json"
    view = tmp_path / "job" / folder / "trace_view.json"
    view.parent.mkdir(parents=True)
    source.rename(view)
    (view.parent / "op_summary.csv").write_text("a")
    raw = view.parent.parent / "PROF_2/device_0/data/ts_track.slice_0"
    raw.parent.mkdir(parents=True)
    raw.write_bytes(b"\0\1" * 20)
    (tmp_path / "job/photo.png").write_bytes(b"\x89PNG")
    traces = load(tmp_path / "job")
    (foreign,) = traces.problems.query("kind == 'foreign'").file
    assert (len(traces), foreign.endswith("photo.png")) == (1, True)


def test_tasks_that_control_streams_are_no_work(tmp_path):
    view = write_trace_view(tmp_path, rank=0) / "trace_view.json"
    events = json.loads(view.read_text())
    names = ("MODEL_EXECUTE", "STREAM_SWITCH", "WRITE_VALUE_SQE", "NOTIFY_WAIT_SQE")
    events += [{"ph": "X", "name": name, **STREAM, "ts": "1200.000", "dur": 50} for name in names]
    view.write_text(json.dumps(events))
    assert temporal_breakdown(load(view)).compute_ns.tolist() == [40_250]


@pytest.mark.parametrize("key", ["opId", "connectionId", None])
def test_collectives_of_two_devices_in_a_database_are_those_of_their_tasks(database, key):
    change(
        database,
        "insert into TASK select startNs + 1000, endNs + 1000, 5, connectionId + 50,"
        " globalTaskId + 100, globalPid, taskType, streamId from TASK",
        "insert into COMMUNICATION_OP select opName, startNs + 1000, endNs + 1000, 63, groupName,"
        " 2, dataType, count from COMMUNICATION_OP",
        "drop table COMMUNICATION_TASK_INFO",
        "create table COMMUNICATION_TASK_INFO (globalTaskId, opId)",
    )
    if key == "opId":
        change(database, "insert into COMMUNICATION_TASK_INFO values (3, 1), (103, 2), (104, 2)")
    if key == "connectionId":
        change(database, "update TASK set connectionId = 63 where globalTaskId = 103")
    traces = load(database)
    assert [trace.local_rank for trace in traces.values()] == [0, 5]
    starts = [t.events.query("kind == 'communication'").start_ns.tolist() for t in traces.values()]
    assert starts == ([[160_000, 161_000], []] if key is None else [[160_000], [161_000]])
    notes = traces.problems[traces.problems.detail.str.contains("collectives without a device")]
    assert notes["count"].tolist() == {None: [2], "connectionId": [1]}.get(key, [])


@pytest.mark.parametrize(
    ("none", "starts_ns", "unknown"),
    [("opId", [[160_000], [161_000]], [1]), ("connectionId", [[160_000, 161_000], []], [2])],
)
def test_ids_that_stand_for_none_name_no_device_of_a_collective(database, none, starts_ns, unknown):
    change(
        database,
        "insert into TASK select startNs + 1000, endNs + 1000, 5, connectionId + 50,"
        " globalTaskId + 100, globalPid, taskType, streamId from TASK",
        "insert into COMMUNICATION_OP select opName, startNs + 1000, endNs + 1000, 63, groupName,"
        " 2, dataType, count from COMMUNICATION_OP",
        "drop table COMMUNICATION_TASK_INFO",
        "create table COMMUNICATION_TASK_INFO (globalTaskId, opId)",
        "insert into COMMUNICATION_TASK_INFO values (3, null), (103, null)",
        "update COMMUNICATION_OP set opId = null",
        "update TASK set connectionId = 63 where globalTaskId = 103",
    )
    if none == "connectionId":
        change(database, *(f"update {table} set connectionId = {(1 << 32) - 1}"
                           for table in ("TASK", "COMMUNICATION_OP")))  # fmt: skip
    traces = load(database)
    work = [t.events.query("kind == 'communication'").start_ns.tolist() for t in traces.values()]
    assert work == starts_ns
    notes = traces.problems[traces.problems.detail.str.contains("collectives without a device")]
    assert notes["count"].tolist() == unknown


def test_tasks_without_a_device_are_of_the_first(database):
    change(database, "update TASK set deviceId = null")
    trace = load(database)[0]
    assert (trace.local_rank, trace.stated_rank) == (0, 0)
    assert trace.events.query("kind == 'compute'").dur_ns.tolist() == [50_000]


@pytest.mark.parametrize("devices", [1, 2, 11])
def test_processes_of_hardware_without_labels_are_devices(tmp_path, devices):
    events = []
    for number in range(devices):
        for pid, process, thread, name, us in (
            (8 + number, "Ascend Hardware", "Stream 2", f"MatMul{number}", 1000),
            (90 + number, "HCCL", "Group 0 Communication", "hcom_allReduce__586_0_1", 1050),
        ):
            track = {"pid": pid, "tid": 2}
            events += [
                {"ph": "M", "name": "process_name", **track, "args": {"name": process}},
                {"ph": "M", "name": "thread_name", **track, "args": {"name": thread}},
                {"ph": "X", "name": name, **track, "ts": f"{us + number}.500", "dur": 10 + number},
            ]
    (tmp_path / "trace_view.json").write_text(json.dumps(events))
    traces = load(tmp_path)
    assert [trace.events.name.tolist() for trace in traces.values()] == [
        [f"MatMul{number}", "hcom_allReduce__586_0_1"] for number in range(devices)
    ]
    assert "merged" not in traces.problems.kind.tolist()
    expected = [[1000 * (10 + number)] * 2 for number in range(devices)]
    assert [trace.events.dur_ns.tolist() for trace in traces.values()] == expected


def test_tasks_without_a_stream_are_on_the_default_stream(database):
    change(database, "update TASK set streamId = null")
    trace = load(database)[0]
    assert trace.events.query("kind == 'compute'").stream.tolist() == [0]
    labels = [track.label for track in trace.tracks if track.stream >= 0]
    assert labels == ["stream 0", "group 586 communication"]


def test_processes_without_labels_are_sorted_once_for_all(tmp_path, monkeypatch):
    events = [
        {"ph": phase, "name": name, "pid": pid, "tid": 2, "ts": f"{us}.500", "dur": 9, "args": args}
        for us in range(50)
        for pid, process in ((us, "Ascend Hardware"), (90 + us, "HCCL"))
        for phase, name, args in (("M", "process_name", {"name": process}), ("X", "MatMul", {}))
    ]
    (tmp_path / "trace_view.json").write_text(json.dumps(events))
    keys = []
    monkeypatch.setattr(
        other_tools, "natural_key", lambda pid: keys.append(pid) or natural_key(pid)
    )
    assert len(load(tmp_path)) == 50
    assert len(keys) < 5 * 100


@pytest.mark.parametrize("task_type", ["AI_CPU", "KERNEL_AICPU"])
def test_tasks_that_schedule_a_collective_are_no_compute(database, task_type):
    before = temporal_breakdown(load(database))
    change(
        database,
        "create table COMMUNICATION_SCHEDULE_TASK_INFO (name, globalTaskId, taskType, opType)",
        f"insert into STRING_IDS values (900, 'hcom_allReduce_AicpuKernel'), (901, '{task_type}')",
        "insert into COMMUNICATION_SCHEDULE_TASK_INFO values (900, 77, 901, 900)",
        "insert into TASK select startNs, endNs, deviceId, 13, 77, 0, 901, 9 from TASK"
        " where globalTaskId = 3",
    )
    traces = load(database)
    assert temporal_breakdown(traces).equals(before)
    assert "hcom_allReduce_AicpuKernel" in traces[0].events.name.tolist()
    assert (traces[0].events.kind == "communication").sum() == 1


@pytest.mark.parametrize(("name", "size"), [("FP8E4M3", 1024), ("BFP16", 2048), ("x y", -1)])
def test_types_of_collectives_have_any_name(tmp_path, name, size):
    for rank in (0, 1):
        path = write_ascend_database(tmp_path / f"ascend_pytorch_profiler_{rank}.db", rank=rank)
        change(path, f"update ENUM_HCCL_DATA_TYPE set name = '{name}'")
    assert collectives(load(tmp_path)).size_bytes.tolist() == [size, size]


def test_tables_of_memory_and_of_the_host_are_said_to_be_unread(tmp_path):
    path = change(
        write_ascend_database(tmp_path / "ascend_pytorch_profiler_0.db"),
        "create table OP_MEMORY (name, size, allocationTime, releaseTime, deviceId)",
        "insert into OP_MEMORY values ('aten::mm', 4096, 5, 9, 0)",
        "create table HOST_MEM_USAGE (timestampNs, usage)",
        "insert into HOST_MEM_USAGE values (5, 5.5)",
        "create table NPU_MEM (type, ddr, hbm, timestampNs, deviceId)",
    )
    details = load(path).problems.detail
    assert details[details.str.contains("not read")].tolist() == [
        "event tables that are not read: HOST_MEM_USAGE, OP_MEMORY"
    ]


@pytest.mark.parametrize("has_operators", [True, False])
def test_calls_of_cann_launch_what_no_operator_launches(tmp_path, has_operators):
    """As in the database, a call inside an operator has no link."""
    path = write_trace_view(tmp_path, rank=0) / "trace_view.json"
    events = json.loads(path.read_text())
    if not has_operators:
        events = [event for event in events if event.get("cat") != "async_npu"]
    for number, (ts, place) in enumerate([("1030.500", STREAM), ("1080.000", GROUP)]):
        call = {"pid": 4, "tid": 8, "ts": f"100{number}.500"}
        flow = {"cat": "HostToDevice", "name": "HostToDevice", "id": number}
        events += [
            {"ph": "X", "name": f"Node@launch{number}", "dur": 0.25, **call},
            {"ph": "s", **flow, **call},
            {"ph": "f", "bp": "e", **flow, **place, "ts": ts},
        ]
    path.write_text(json.dumps(events))
    trace = load(tmp_path)[0]
    rows = trace.events
    calls = rows[rows.name.str.startswith("Node@")]
    assert calls[["kind", "category"]].to_numpy().tolist() == [["cpu", "cuda_runtime"]] * 2
    work = [rows.index[rows.name == name][0] for name in ("MatMul", "hcom_allReduce__586_0_1")]
    launches = ["aten::mm" if has_operators else "Node@launch0", "Node@launch1"]
    assert rows.name[trace.launch_of[work]].tolist() == launches


@pytest.mark.parametrize(
    ("lost", "count", "detail"),
    [
        ("COMPUTE_TASK_INFO", 1, "tasks without a name in the database; named by type"),
        ("COMMUNICATION_OP", 1, "collective tasks whose collectives are missing"),
        ("TASK", 1, "the database has no table TASK"),
    ],
)
def test_what_a_database_without_a_table_cannot_tell_is_said(database, lost, count, detail):
    change(database, f"drop table {lost}")
    traces = load(database)
    assert traces.problems["count"].tolist() == [count]
    assert traces.problems["detail"][0].startswith(detail)
    kinds = Counter(traces[0].events.query("stream >= 0").kind)
    all_kinds = {"compute": 1, "memory": 1, "communication": 1, "sync": 3}
    lost_kinds = {"COMMUNICATION_OP": {"communication"}, "TASK": {"compute", "memory", "sync"}}
    assert kinds == {k: n for k, n in all_kinds.items() if k not in lost_kinds.get(lost, ())}
