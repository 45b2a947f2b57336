"""Files of ROCm's profilers."""

import json
import sqlite3
from contextlib import closing

import pytest
from support.databases import change
from support.rocm_files import BOOT_NS, MODEL, rocprof_json, write_rocpd, write_rpd

import hta_widgets as hw
from hta_widgets import TraceError
from hta_widgets.analysis import operators, step_times, temporal_breakdown


def load(path, **options):
    return hw.load(path, cache=False, progress=False, **options)


def record_of(trace, name):
    row = trace.events.index[trace.events.name == name][0]
    return json.loads(trace.source.record(int(trace.table.record[row])))


def test_calls_and_kernels_are_linked_by_their_stack(tmp_path):
    traces = load(write_rocpd(tmp_path / "900_results.db", rank=3))
    assert traces.ranks == [3]
    trace = traces[3]
    assert (trace.format, trace.host, trace.zero_ns) == ("rocpd", "node0", BOOT_NS)
    assert trace.metadata["deviceProperties"] == [
        {"id": 0, "name": MODEL, "warpSize": 64, "numSms": 256}
    ]
    row = temporal_breakdown(traces).iloc[0]
    assert (row.compute_ns, row.memory_ns, row.communication_ns) == (30_000, 5_000, 40_000)
    work = trace.events[trace.events.stream >= 0]
    calls = trace.events.loc[trace.launch_of[work.index]]
    assert calls.name.tolist() == ["hipLaunchKernel", "hipMemcpyAsync", "ncclAllReduce"]
    assert operators(traces).set_index("name").device_total_ns["ncclAllReduce"] == 40_000
    assert step_times(traces)[["step", "dur_ns"]].to_numpy().tolist() == [[7, 90_000]]
    args = record_of(trace, "Cijk_gemm")["args"]
    assert (args["grid"], args["block"], args["queue"]) == ([3, 16, 1], [64, 2, 1], 18)
    assert record_of(trace, "Memcpy HtoD")["args"]["memory bandwidth (GB/s)"] == 10.0


def test_processes_of_a_merged_database_are_ranks(tmp_path):
    traces = load(write_rocpd(tmp_path / "merged.db", (900, 950)))
    assert traces.ranks == [0, 1]
    assert [trace.tracks[0].pid for trace in traces.values()] == ["900", "950"]
    assert {trace.zero_ns - BOOT_NS for trace in traces.values()} == {0, 1_000_000}
    assert [(trace.launch_of >= 0).sum() for trace in traces.values()] == [3, 3]


def test_devices_of_the_older_database_are_ranks(tmp_path):
    traces = load(write_rpd(tmp_path / "matmul.rpd"))
    assert [trace.local_rank for trace in traces.values()] == [0, 1]
    for trace in traces.values():
        kernel = trace.events.query("category == 'kernel'")
        assert (kernel.name.tolist(), kernel.dur_ns.tolist()) == (["gemm"], [20_000])
        assert trace.events.loc[trace.launch_of[kernel.index]].name.tolist() == ["hipLaunchKernel"]
    assert step_times(traces)[["rank", "step"]].to_numpy().tolist() == [[0, 3], [1, 3]]


def test_json_of_rocprofv3(write):
    traces = load(write(json.dumps(rocprof_json(3)).encode(), "70_results.json"))
    trace = traces[0]
    assert (trace.format, trace.host) == ("rocprof-json", "node0")
    assert temporal_breakdown(traces).compute_ns.tolist() == [20_000]
    kernels = trace.events.query("category == 'kernel'").index
    assert trace.events.loc[trace.launch_of[kernels]].name.tolist() == ["hipLaunchKernel"] * 3
    assert record_of(trace, "gemm")["args"]["grid"] == [10, 1, 1]


def test_rare_streams_share_rows_in_which_no_events_overlap(write):
    contents = rocprof_json(40, streams=40)
    kernels = contents["rocprofiler-sdk-tool"][0]["buffer_records"]["kernel_dispatch"]
    kernels[0]["end_timestamp"] = BOOT_NS + 1_000_000_000
    traces = load(write(json.dumps(contents).encode(), "70_results.json"))
    kernels = traces[0].events.query("category == 'kernel'")
    assert (len(kernels), kernels.stream.nunique()) == (40, 3)
    assert "overlap" not in traces.problems.kind.tolist()
    assert temporal_breakdown(traces).busy_ns.tolist() == [1_000_000_000 - 10_000]


def test_the_json_of_the_same_run_is_left_out(tmp_path):
    write_rocpd(tmp_path / "900_results.db")
    (tmp_path / "900_results.json").write_text(json.dumps(rocprof_json()))
    traces = load(tmp_path)
    assert [trace.format for trace in traces.values()] == ["rocpd"]
    assert "900_results.db holds the same run" in " ".join(traces.problems.detail)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"rocprofiler-sdk-tool": []}', "no device or host events"),
        (
            '{"rocprofiler-sdk-tool": [{"buffer_records": {"hip_api": [7]}}]}',
            "no device or host events",
        ),
        ('{"rocprofiler-sdk-tool": [{"buffer_records": {"hip_api": 7}}]}', "not rocprofv3 JSON"),
        ('{"rocprofiler-sdk-tool": [{"buffer_records": {"hip_api": [{"start', "not rocprofv3 JSON"),
        ('{"rocprofiler-sdk-tool": ' + "[" * 2000, "not rocprofv3 JSON"),
    ],
)
def test_damaged_json_is_refused(write, text, message):
    with pytest.raises(TraceError, match=message):
        load(write(text.encode(), "70_results.json"))


def test_launches_that_nothing_links_are_said_to_be_unknown(tmp_path):
    traces = load(change(write_rpd(tmp_path / "a.rpd"), "drop table rocpd_api_ops"))
    counts = traces.problems[traces.problems.detail.str.contains("not recorded")]["count"]
    assert counts.tolist() == [2]


@pytest.mark.parametrize("start", [None, int("9" * 30), 1 << 63, -5])
def test_a_record_without_times_leaves_the_others_alone(write, start):
    contents = rocprof_json(kernels=3)
    groups = contents["rocprofiler-sdk-tool"][0]["buffer_records"]
    groups["kernel_dispatch"][1]["start_timestamp"] = start
    groups["scratch_memory"] = [{"operation": 1}]
    traces = load(write(json.dumps(contents).encode(), "70_results.json"))
    assert temporal_breakdown(traces).compute_ns.tolist() == [20_000]
    counts = dict(traces.problems[["detail", "count"]].to_numpy().tolist())
    assert counts["records without times"] == 1
    assert counts["records that are not read: scratch_memory"] == 1


def test_dispatches_may_be_those_of_counters_and_ids_may_have_64_bits(write):
    contents = rocprof_json(kernels=2, streams=2)
    process = contents["rocprofiler-sdk-tool"][0]
    dispatches = process["buffer_records"].pop("kernel_dispatch")
    for record in (*dispatches, *process["buffer_records"]["hip_api"]):
        record["correlation_id"]["internal"] += 1 << 63
    dispatches[1]["stream_id"]["handle"] = (1 << 63) + 7
    counted = [{"dispatch_data": record, "records": []} for record in dispatches]
    process["callback_records"] = {"counter_collection": counted}
    trace = load(write(json.dumps(contents).encode(), "70_results.json"))[0]
    kernels = trace.events.query("category == 'kernel'")
    assert kernels.stream.tolist() == [0, 7]
    assert (trace.launch_of[kernels.index] >= 0).all()


def test_a_copy_within_the_host_is_no_device(tmp_path, write):
    database = change(
        write_rocpd(tmp_path / "900_results.db"),
        "insert into rocpd_info_agent_0000aaa values (1, 'CPU', 1, 1, 'EPYC', '', '{}')",
        "insert into rocpd_info_agent_0000aaa values (3, 'GPU', 3, 0, '', '', '{}')",
        "update rocpd_info_agent_0000aaa set type_index = 4 where id = 2",
        "update rocpd_memory_copy_0000aaa set dst_agent_id = 1, src_agent_id = 1",
    )
    contents = rocprof_json()
    process = contents["rocprofiler-sdk-tool"][0]
    process["agents"][0]["logical_node_type_id"] = 4
    process["agents"].append({"id": {"handle": 5}, "type": 1})
    copy = {**process["buffer_records"]["hip_api"][0], "bytes": 8}
    copy |= {"dst_agent_id": {"handle": 5}, "src_agent_id": {"handle": 5}}
    process["buffer_records"] = {"memory_copy": [copy], **process["buffer_records"]}
    text = json.dumps(contents).encode()
    for path in (database, write(text, "70_results.json")):
        traces = load(path)
        assert [trace.local_rank for trace in traces.values()] == [4]
        assert traces[0].events.category.eq("gpu_memcpy").sum() == 1


def test_names_and_streams_of_other_versions(tmp_path, write):
    path = write_rocpd(tmp_path / "900_results.db")
    symbols, kernels = (
        f"rocpd_{name}_0000aaa" for name in ("info_kernel_symbol", "kernel_dispatch")
    )
    with closing(sqlite3.connect(path)) as database:
        database.execute(f"alter table {symbols} rename column display_name to kernel_name")
        database.execute(f"update {kernels} set stream_id = null")
        database.commit()
    traces = load(path)
    assert temporal_breakdown(traces).communication_ns.tolist() == [40_000]
    kernel = traces[0].events.query("category == 'kernel'")
    assert kernel.stream.tolist() == [18, 19]  # queues
    contents = rocprof_json(2)
    process = contents["rocprofiler-sdk-tool"][0]
    process["metadata"]["node"] = process["agents"][0]["product_name"] = None
    for place, dispatch in enumerate(process["buffer_records"]["kernel_dispatch"]):
        del dispatch["stream_id"]
        dispatch["dispatch_info"] = {**dispatch["dispatch_info"], "queue_id": {"handle": place}}
    trace = load(write(json.dumps(contents).encode(), "70_results.json"))[0]
    assert trace.events.query("category == 'kernel'").stream.tolist() == [0, 1]


def test_work_without_an_agent_is_that_of_the_only_device(tmp_path):
    path = write_rocpd(tmp_path / "900_results.db")
    with closing(sqlite3.connect(path)) as database:
        database.execute("update rocpd_info_agent_0000aaa set type_index = null")
        database.execute(
            "update rocpd_kernel_dispatch_0000aaa set agent_id = null where kernel_id = 11"
        )
        database.execute("update rocpd_region_0000aaa set name_id = null where event_id = 1")
        database.commit()
    traces = load(path)
    assert temporal_breakdown(traces)[["compute_ns", "communication_ns"]].to_numpy().tolist() == [
        [30_000, 40_000]
    ]
    assert "event without a name" in traces[0].events.name.tolist()


def test_kinds_of_calls_of_rocprof_sys(tmp_path):
    path = write_rocpd(tmp_path / "a.db")
    strings, events, regions = (f"rocpd_{name}_0000aaa" for name in ("string", "event", "region"))
    renamed = {"HIP_RUNTIME_API": "rocm_hip_api", "MARKER_CORE_API": "rocm_marker_api"}
    change(
        path,
        *(f"update {strings} set string = '{b}' where string = '{a}'" for a, b in renamed.items()),
        f"insert into {strings} values (50, 'mpi'), (51, 'MPI_Send'), (52, 'python')",
        f"insert into {events} values (20, 50, 0, 0), (21, 52, 0, 0)",
        f"insert into {regions} values (1, 5, {BOOT_NS + 7000}, {BOOT_NS + 8000}, 51, 20),"
        f" (1, null, {BOOT_NS + 8000}, {BOOT_NS + 9000}, 52, 21)",
    )
    traces = load(path)
    of_name = traces[0].events.drop_duplicates("name").set_index("name").category
    assert of_name[["hipLaunchKernel", "iteration 7", "ncclAllReduce", "MPI_Send"]].tolist() == [
        "cuda_runtime", "user_annotation", "cpu_op", "cpu_op"
    ]  # fmt: skip
    assert of_name["python"] == "python_function"
    assert "process · thread unknown" in [track.key for track in traces[0].tracks]
    assert step_times(traces).step.tolist() == [7]


def test_copies_and_barriers_of_the_older_database(tmp_path):
    path = write_rpd(tmp_path / "a.rpd")
    change(
        path,
        "insert into rocpd_string values (20, 'CopyHostToDevice'), (21, 'BarrierPacket')",
        f"insert into rocpd_op values (9, 0, 0, {BOOT_NS + 40_000}, {BOOT_NS + 45_000}, 6, 20),"
        f" (10, 0, 0, {BOOT_NS + 50_000}, {BOOT_NS + 51_000}, 6, 21)",
        f"insert into rocpd_api values (30, 70, 71, {BOOT_NS + 5000}, {BOOT_NS + 6000}, 3, 6)",
        "insert into rocpd_api_ops values (30, 9)",
        "create table rocpd_copyapi (api_ptr_id, size)",
        "insert into rocpd_copyapi values (30, 4096)",
    )
    traces = load(path)
    assert record_of(traces[0], "Memcpy HtoD")["args"]["bytes"] == 4096
    row = temporal_breakdown(traces).iloc[0]
    assert (row.compute_ns, row.memory_ns, row.busy_ns) == (20_000, 5_000, 25_000)


def test_a_process_that_uses_one_of_several_devices_has_the_rank_of_its_environment(tmp_path):
    path = write_rocpd(tmp_path / "a.db", rank=3)
    other = f"insert into rocpd_info_agent_0000aaa values (7, 'GPU', 7, 5, '{MODEL}', '', '')"
    assert load(change(path, other)).ranks == [3]
    change(path, "update rocpd_kernel_dispatch_0000aaa set agent_id = 7 where kernel_id = 11")
    assert load(path).ranks == [0, 1]


def test_the_largest_stream_stands_for_none(write):
    trace = rocprof_json(kernels=3)
    streams = ({"handle": (1 << 64) - 1}, {"handle": (1 << 64) - 2}, None)
    records = trace["rocprofiler-sdk-tool"][0]["buffer_records"]["kernel_dispatch"]
    for record, stream in zip(records, streams, strict=True):
        record["stream_id"] = stream
    events = load(write(json.dumps(trace), "r.json"))[0].events
    # Without a stream, the queue is the track.
    assert events.query("category == 'kernel'").stream.tolist() == [1, (1 << 63) - 2, 1]


LAUNCH_SIZES = ", ".join(f"{size}_size_{axis}" for size in ("workgroup", "grid") for axis in "xyz")
#: For each table of events: columns that schema 4 keeps, and columns moved to its table of tracks.
SCHEMA_4 = {
    "region": ("name_id, event_id", ("pid", "tid")),
    "kernel_dispatch": (
        f"kernel_id, {LAUNCH_SIZES}, group_segment_size, event_id",
        ("pid", "agent_id", "queue_id", "stream_id"),
    ),
    "memory_copy": ("name_id, dst_agent_id, src_agent_id, size, event_id", ("pid", "stream_id")),
}


def to_schema_4(path, suffix="_0000aaa"):
    """Move times, tracks and categories of a database into separate tables."""
    times, tracks = f"rocpd_timestamp{suffix}", f"rocpd_track{suffix}"
    statements = [
        f"create table {times} (id integer primary key, value)",
        f"create table {tracks} (id integer primary key, pid, tid, agent_id, queue_id, stream_id)",
        f"create table rocpd_info_category{suffix} (id, name)",
        f"insert into rocpd_info_category{suffix} select * from rocpd_string{suffix} where id < 5",
        f"update rocpd_string{suffix} set string = 'other' where id < 5",
        f"insert into {times} values (90, 0)",  # makes ids differ from positions
    ]
    for name, (kept, moved) in SCHEMA_4.items():
        table, columns = f"rocpd_{name}{suffix}", ", ".join(moved)
        is_track = " and ".join(f"{tracks}.{column} is {table}.{column}" for column in moved)
        references = (
            f"(select min(id) from {times} where value = start) as start_id",
            f"(select min(id) from {times} where value = end) as end_id",
            f"(select min(id) from {tracks} where {is_track}) as track_id",
        )
        statements += [
            f"insert into {times} (value) select distinct end from {table} order by 1 desc",
            f"insert into {times} (value) select distinct start from {table}",
            f"insert into {tracks} ({columns}) select distinct {columns} from {table}",
            f"create table later as select {kept}, {', '.join(references)} from {table}",
            f"drop table {table}",
            f"alter table later rename to {table}",
        ]
    return change(path, "drop view kernels", *statements)


def test_schema_4_has_times_and_tracks_in_tables_of_their_own(tmp_path):
    before = load(write_rocpd(tmp_path / "old.db"))
    after = load(to_schema_4(write_rocpd(tmp_path / "new.db")))
    columns = ["name", "category", "start_ns", "dur_ns", "stream", "kind", "step"]
    assert len(after[0].events) == 8
    assert after[0].events[columns].equals(before[0].events[columns])
    assert after[0].tracks == before[0].tracks
    assert temporal_breakdown(after).equals(temporal_breakdown(before))
    assert after[0].launch_of.tolist() == before[0].launch_of.tolist()
    assert not after.problems.detail.str.contains("not read").any()


def test_a_database_without_its_metadata_is_recognized(tmp_path):
    path = change(write_rocpd(tmp_path / "a.db"), "drop table rocpd_metadata_0000aaa")
    assert load(path).formats == ["rocpd"]


def test_counters_of_kernels_are_said_to_be_unread(tmp_path):
    path = change(
        write_rocpd(tmp_path / "a.db"),
        "create table rocpd_pmc_event_0000aaa (id, guid, event_id, pmc_id, value, extdata)",
        "insert into rocpd_pmc_event_0000aaa values (1, '', 2, 1, 5.5, '{}')",
        "create table rocpd_info_pmc_0000aaa (id, name)",
        "insert into rocpd_info_pmc_0000aaa values (1, 'SQ_WAVES')",
    )
    details = load(path).problems.detail
    assert details[details.str.contains("not read")].tolist() == [
        "event tables that are not read: rocpd_pmc_event_0000aaa"
    ]


def test_times_that_schema_4_lacks_are_said(tmp_path):
    path = to_schema_4(write_rocpd(tmp_path / "new.db"))
    change(path, f"delete from rocpd_timestamp_0000aaa where value = {BOOT_NS + 10_000}")
    traces = load(path)
    assert len(traces[0].events) == 7
    assert traces.problems.query("kind == 'skipped'")["count"].tolist() == [1]


def test_processes_of_the_older_database_that_call_their_gpu_by_one_number_are_ranks(tmp_path):
    path = change(
        write_rpd(tmp_path / "job.rpd"),
        "update rocpd_api set pid = 80 where tid = 72",  # the call for device 1
        "update rocpd_op set gpuId = 0",
        "insert into rocpd_op select 9, gpuId, queueId, start + 50000, end + 50000,"
        " description_id, opType_id from rocpd_op where id = 1",  # without a call
    )
    traces = load(path)
    assert [trace.tracks[0].pid for trace in traces.values()] == ["70", "80"]
    kernels = [trace.events.query("category == 'kernel'") for trace in traces.values()]
    assert [events.start_ns.tolist() for events in kernels] == [[10_000, 60_000], [11_000]]
    assert [len(trace.events) for trace in traces.values()] == [5, 2]  # a step around the marker


@pytest.mark.parametrize("lost", ["op_id = 2", "1"])
def test_work_of_the_older_database_without_calls_is_of_the_process_of_others(tmp_path, lost):
    path = change(write_rpd(tmp_path / "job.rpd"), f"delete from rocpd_api_ops where {lost}")
    traces = load(path)
    assert [trace.local_rank for trace in traces.values()] == [0, 1]
    starts = [trace.events.query("category == 'kernel'").start_ns for trace in traces.values()]
    assert [start.tolist() for start in starts] == [[10_000], [11_000]]
    assert [len(trace.events) for trace in traces.values()] == [5, 2]  # both with the step


def test_a_gpu_that_json_does_not_describe_is_a_device_of_its_own(write):
    """Otherwise its kernels and copies would hide the idle time of another GPU."""
    contents = rocprof_json(2)
    process = contents["rocprofiler-sdk-tool"][0]
    kernel = process["buffer_records"]["kernel_dispatch"][1]
    kernel["dispatch_info"] |= {"agent_id": {"handle": 4321}, "kernel_id": 9}
    copy = {
        "kind": 0, "operation": 0, "start_timestamp": BOOT_NS, "end_timestamp": BOOT_NS + 7,
        "src_agent_id": {"handle": 1}, "dst_agent_id": {"handle": 77}, "bytes": 64,
    }  # fmt: skip
    process["buffer_records"]["memory_copy"] = [copy]
    traces = load(write(json.dumps(contents).encode(), "70_results.json"))
    row = temporal_breakdown(traces)
    assert [trace.local_rank for trace in traces.values()] == [0, 4321]
    assert (row.compute_ns.tolist(), row.memory_ns.tolist()) == ([10_000, 10_000], [7, 0])
    assert traces[1].events.query("stream >= 0").name.tolist() == ["kernel 9"]
    assert traces.problems.query("kind == 'part'").detail.tolist() == [
        "names missing from kernel_symbols; their events are named by id",
        "kernels of GPUs that the file does not describe",
    ]


@pytest.mark.parametrize(("agent", "device"), [("9", 9), ("null", 0)])
def test_kernels_without_a_described_gpu_are_said_in_databases(tmp_path, agent, device):
    path = write_rocpd(tmp_path / "a.db")
    change(path, f"update rocpd_kernel_dispatch_0000aaa set agent_id = {agent}")
    traces = load(path)
    kernels = [t.local_rank for t in traces.values() if "Cijk_gemm" in t.events.name.tolist()]
    assert kernels == [device]
    problems = traces.problems.query("kind == 'part'")
    assert problems[["count", "detail"]].to_numpy().tolist() == [
        [2, "kernels of GPUs that the file does not describe"]
    ]
