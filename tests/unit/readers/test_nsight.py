"""Nsight Systems exports."""

import json
import sqlite3
import struct
import tracemalloc
from contextlib import closing

import numpy as np
import pytest
from support.databases import change
from support.nsight_export import EPOCH_NS, FIRST_NS, GEMM, MESSAGE_BYTES, MS, NCCL, write_export
from support.outputs import records_of, unpacked_outputs

import hta_widgets as hw
from hta_widgets import TraceError, cli
from hta_widgets.analysis import (
    collectives,
    critical_path,
    phase_times,
    step_times,
    stragglers,
    temporal_breakdown,
)
from hta_widgets.diff import compare, names, operators_diff
from hta_widgets.panels.headline import headline
from hta_widgets.trace.columns import event_args
from hta_widgets.trace.graph_captures import captured_graphs

pytestmark = pytest.mark.slow

KERNELS = "CUPTI_ACTIVITY_KIND_KERNEL"


def load(path, **options):
    return hw.load(path, cache=False, progress=False, **options)


@pytest.fixture
def export(tmp_path):
    return write_export(tmp_path / "report.sqlite")


def test_a_process_with_a_device_is_a_rank(export):
    traces = load(export)
    assert traces.ranks == [0, 1]
    trace = traces[1]
    assert (trace.format, trace.host, trace.local_rank) == ("nsight", "node0", 0)
    assert trace.zero_ns == EPOCH_NS + FIRST_NS
    assert trace.metadata["deviceProperties"][0] == {
        "id": 1, "name": "NVIDIA H100", "numSms": 132, "totalGlobalMem": 80 << 30
    }  # fmt: skip
    assert [track.key for track in trace.tracks] == [
        "python3 · thread 4001 (python3)", "GPU 1 · stream 7", "GPU 1 · stream 21",
        "GPU 1 · unified memory",
    ]  # fmt: skip


def test_equal_correlation_ids_of_processes_do_not_link(export):
    for trace in load(export).values():
        work = trace.events[trace.events.category == "kernel"]
        calls = trace.events.loc[trace.launch_of[work.index]]
        assert (calls.start_ns.to_numpy() < work.start_ns.to_numpy()).all()
        assert calls.name.tolist() == ["cudaLaunchKernel", "cuLaunchKernelEx"] * 3


def test_operators_are_named_without_their_args(export):
    trace = load(export)[0]
    row = trace.events.index[trace.events.name == "aten::mm"]
    assert trace.events.loc[row].category.unique().tolist() == ["cpu_op"]
    record = json.loads(trace.source.record(int(trace.table.record[row[1]])))
    assert record["args"] == {"Sequence number": 1, "op id": 71, "Input Dims": [[8, 8]]}
    kernel = trace.events.index[trace.events.name == GEMM][0]
    args = json.loads(trace.source.record(int(trace.table.record[kernel])))["args"]
    assert args["grid"] == [128, 1, 1]
    assert (args["stream"], args["correlation"], args["short name"]) == (7, 1, "gemm")


def test_an_arg_of_another_type_leaves_other_args_and_rows_alone(export):
    change(export, "update CUPTI_ACTIVITY_KIND_KERNEL set gridX = 'wide' where rowid = 1")
    trace = load(export)[0]
    kernels = trace.events.index[trace.events.category == "kernel"]
    args = [trace.args(row) for row in kernels]
    assert "grid" not in args[0]
    assert args[0]["stream"] == 7
    assert all("grid" in row_args for row_args in args[1:])


def test_payloads_of_nccl_give_groups_and_sizes(tmp_path):
    late_ns = 2 * MS
    write_export(tmp_path / "node0.sqlite", steps=6, late_ns=late_ns)
    write_export(tmp_path / "node1.sqlite", steps=6, first_rank=2, shift_ns=250 * MS)
    traces = load(tmp_path)
    frame = collectives(traces)
    assert frame.collective.nunique() == 6
    assert frame.groupby("collective")["rank"].apply(list).tolist() == [[0, 1, 2, 3]] * 6
    assert frame.size_bytes.unique().tolist() == [MESSAGE_BYTES]
    assert set(frame.wait_ns) == {0, late_ns}
    assert stragglers(traces).query("is_straggler")["rank"].tolist() == [1]


def test_ranges_of_libraries_are_calls_and_others_annotations(export):
    trace = load(export)[0]
    category = trace.events.groupby("name", observed=True).category.first()
    assert category["ncclAllReduce"] == "cpu_op"
    assert category["iteration 6"] == "user_annotation"
    assert "iteration 6" not in phase_times(load(export)).name.tolist()
    assert category["MPI_Allreduce"] == "mpi"
    assert trace.events.query("name == 'MPI_Allreduce'").kind.unique().tolist() == ["cpu"]
    assert len(trace.async_table) == len(trace.instant_table) == 3


@pytest.mark.parametrize(
    ("name", "pattern", "numbers"),
    [
        ("iteration {}", None, [5, 6, 7]),
        ("train_step", None, [0, 1, 2]),
        ("epoch 1 batch={}", "batch", [5, 6, 7]),
        ("ProfilerStep#{}", None, [5, 6, 7]),
    ],
)
def test_steps(tmp_path, name, pattern, numbers):
    path = write_export(tmp_path / "one.sqlite", ranks=1, range_name=name)
    trace = load(path, steps=pattern)[0]
    steps = trace.events.query("category == 'kernel'").step
    assert np.unique(steps).tolist() == numbers
    assert len(trace.events[trace.events.name == name.format(5)]) in (1, 3)


def test_a_pattern_of_steps_is_checked(export, write):
    with pytest.raises(TraceError, match="regular expression"):
        load(export, steps="(")
    with pytest.raises(TraceError, match="Nsight"):
        load(write([{"ph": "X", "name": "a", "ts": 0, "dur": 1}]), steps="step")


def test_devices_of_one_process_are_ranks(tmp_path):
    path = write_export(tmp_path / "two.sqlite", devices_per_process=2, mpi=False)
    traces = load(path)
    assert traces.ranks == [0, 1]
    sole = load(write_export(tmp_path / "one.sqlite", ranks=1, mpi=False))[0]
    for trace in traces.values():
        assert trace.events.category.value_counts().equals(sole.events.category.value_counts())
        assert {track.process for track in trace.tracks if track.stream >= 0} == {
            f"GPU {trace.local_rank}"
        }


def test_steps_of_a_thread_are_those_of_all_devices_that_it_launches_on(tmp_path):
    path = write_export(tmp_path / "two.sqlite", devices_per_process=2, mpi=False)
    tables = ("NVTX_EVENTS", "CUPTI_ACTIVITY_KIND_RUNTIME")
    first = "(select min(globalTid) from CUPTI_ACTIVITY_KIND_RUNTIME)"
    traces = load(change(path, *(f"update {table} set globalTid = {first}" for table in tables)))
    frame = step_times(traces)
    assert frame[["rank", "step"]].to_numpy().tolist() == [
        [rank, step] for rank in (0, 1) for step in (5, 6, 7)
    ]
    args = [json.loads(text)["args"] for text in records_of(traces[1])]
    assert {"NVTX range": "iteration 6"} in args


@pytest.mark.parametrize(
    ("nvidia", "gnu"),
    [
        ("void k<(int)4, char *>(<unnamed>::F<(bool)1>)",
         "void k<4, char*>((anonymous namespace)::F<true>)"),
        ("f(const T *)::[lambda() (instance 1)]::operator ()() const [(unsigned long)3]",
         "f(T const*)::{lambda()#1}::operator()() const [3ul]"),
    ],
)  # fmt: skip
def test_names_of_other_demanglers_are_compared_as_equal(export, tmp_path, nvidia, gnu):
    with closing(sqlite3.connect(export)) as database:
        database.execute("update StringIds set value = ? where value = ?", (nvidia, GEMM))
        database.commit()
    traces = load(export)
    path = tmp_path / "kineto.json"
    hw.export_trace(traces, path)
    path.write_text(path.read_text().replace(nvidia, gnu))
    frame = names(compare(load(path), traces))
    kernels = frame[frame.name.str.contains(r"k<|lambda")]
    assert kernels[["before_count", "after_count"]].to_numpy().tolist() == [[3, 3]]


def test_ranges_of_steps_are_no_calls_of_a_comparison(export, tmp_path):
    other = write_export(tmp_path / "other.sqlite", range_name="step 1{}")
    frame = operators_diff(compare(load(export), load(other), steps="order"))
    assert set(frame.name) == {"aten::mm", "ncclAllReduce", "MPI_Allreduce"}


def test_problems_of_a_file_with_several_ranks_are_of_none(export):
    assert load(export).problems[["rank", "count"]].to_numpy().tolist() == [[-1, 6]]


def test_a_graph_recorded_as_a_whole_is_device_work(export):
    path = change(
        export,
        "insert into CUPTI_ACTIVITY_KIND_GRAPH_TRACE"
        " select start + 4000000, end + 4000000, deviceId, streamId, 77, globalPid, 9, 1"
        " from CUPTI_ACTIVITY_KIND_KERNEL where gridX = 128",
    )
    traces = load(path)
    graphs = traces[0].events.query("name == 'CUDA graph 9'")
    assert graphs.kind.tolist() == ["compute"] * 3
    assert temporal_breakdown(traces).compute_ns.tolist() == [3 * 3 * MS + 3 * 3 * MS] * 2
    assert traces.problems.query("kind == 'part'").detail.str.contains("as a whole").any()


def test_copies_have_their_size_and_managed_memory_a_track(export):
    trace = load(export)[0]
    assert trace.copy_table.size_bytes.tolist() == [65536] * 3
    assert trace.copy_table.gb_per_s.tolist() == pytest.approx([65536 / MS] * 3)
    copies = trace.events[trace.events.category == "gpu_memcpy"]
    assert copies.name.unique().tolist() == ["Memcpy HtoD (Managed -> Device)"]
    assert copies.track.unique().tolist() == ["GPU 0 · unified memory"]


def test_metrics_are_counters_of_their_device(export):
    for rank, trace in load(export).items():
        table = trace.counter_table
        assert table.series == [(f"GPU {rank}", "SMs Active [%]", "value")]
        assert table.value.tolist() == [50.5, 51.5, 52.5]
        assert table.time_ns.tolist() == [MS, 21 * MS, 41 * MS]


def test_rows_that_make_no_sense_are_counted(export):
    change(
        export,
        "update CUPTI_ACTIVITY_KIND_KERNEL set start = 'abc' where rowid = 1",
        "update CUPTI_ACTIVITY_KIND_KERNEL set end = 1.5 where rowid = 2",
        "update CUPTI_ACTIVITY_KIND_KERNEL set start = 0, end = 0 where rowid = 3",
        "update NVTX_EVENTS set end = null where text = 'iteration 5'",
        "update NVTX_EVENTS set globalTid = null where rowid = 9",
        "update CUPTI_ACTIVITY_KIND_RUNTIME set nameId = 999 where rowid = 1",
        "insert into DIAGNOSTIC_EVENT values (0, 3, 'Some events were dropped', null)",
    )
    traces = load(export)
    problems = traces.problems.groupby("kind")["count"].sum()
    assert (problems["skipped"], problems["unpaired"]) == (3, 2)
    assert traces.problems.detail.str.contains("dropped").any()
    assert "CUDA call 999" in traces[0].events.name.tolist()
    assert list(traces[0].source.records(np.arange(len(traces[0].source))))


@pytest.mark.parametrize("table", ["NVTX_EVENTS", "CUPTI_ACTIVITY_KIND_RUNTIME", "MPI_RANKS",
                                   "TARGET_INFO_SESSION_START_TIME", "PROCESSES"])  # fmt: skip
def test_any_table_may_be_missing(export, table):
    traces = load(change(export, f"drop table {table}"))
    assert traces.ranks == [0, 1]
    assert traces[0].events.category.eq("kernel").sum() == 6
    if "SESSION" in table:
        assert "clock" in traces.problems.kind.tolist()


def test_collectives_without_any_call_of_the_host_are_read(export):
    tables = ("CUPTI_ACTIVITY_KIND_RUNTIME", "MPI_COLLECTIVES_EVENTS")
    traces = load(change(export, *(f"drop table {table}" for table in tables)))
    assert traces[0].events.category.eq("kernel").sum() == 6
    assert collectives(traces)["rank"].nunique() == 2


def test_names_of_processes_are_those_of_their_programs(export):
    change(export, r"update PROCESSES set name = 'C:\Program Files\Ann Lee\python.exe'")
    assert {track.process for track in load(export)[0].tracks} >= {"python.exe"}


def test_processes_without_a_device_are_no_ranks_unless_none_has_one(export):
    change(export, "update CUPTI_ACTIVITY_KIND_KERNEL set globalPid = globalPid & ~(1 << 24)",
           "delete from CUPTI_ACTIVITY_KIND_MEMCPY")  # fmt: skip
    traces = load(export)
    assert len(traces) == 1
    assert traces.problems.detail.str.contains("the events of 1 of them").any()
    change(export, "delete from CUPTI_ACTIVITY_KIND_KERNEL")
    traces = load(export)
    assert traces.ranks == [0, 1]
    assert traces[0].events.query("name == 'MPI_Allreduce'").kind.unique() == ["communication"]
    assert "No GPU work" in (text := str(headline(traces)))
    assert "idle" not in text


SECRET = "hunter2"


def test_no_secret_reaches_any_output(export, tmp_path, capsys):
    with closing(sqlite3.connect(export)) as database:
        database.executemany(
            "insert into META_DATA_CAPTURE values (?, ?)",
            [("PROCESS_0:ENVIRONMENT_VARIABLE", f"TOKEN={SECRET}"),
             ("PROCESS_0:ENVIRONMENT_VARIABLE_1", f"RANK=1 {SECRET}"),
             ("PROCESS_0:ARGUMENT_1", f"--password={SECRET}"), ("PROCESS_0:COMMAND", SECRET)],
        )  # fmt: skip
        env = [("DeviceEnvironment", f"A={SECRET}"), ("CpuInfo", SECRET)]
        database.executemany("insert into TARGET_INFO_SYSTEM_ENV values (?, ?)", env)
        database.execute("insert into StringIds values (9000, ?)", (f"printed {SECRET}",))
        database.execute("insert into ProcessStreams values (1, 9000, 9000)")
        database.execute(f"update PROCESSES set name = '/home/{SECRET}/bin/python3'")
        database.commit()
    traces = load(export)
    outputs = unpacked_outputs(traces, tmp_path / "out")
    assert [name for name, text in outputs.items() if SECRET.encode() in text] == []
    records = traces[0].source.records(np.arange(len(traces[0].source)))
    assert SECRET.encode() not in b"".join(text for _, text in records)
    assert SECRET not in repr([trace.metadata for trace in traces.values()])
    assert cli.main(["summary", str(export)]) == 0
    text = "".join(capsys.readouterr())
    assert "2 ranks" in text
    assert SECRET not in text


def test_a_file_of_several_ranks_cannot_be_one(export, tmp_path):
    with pytest.raises(TraceError, match="holds 2 ranks, so it cannot be rank 5"):
        load({5: export})
    hw.export_trace(load(export), tmp_path / "merged.json")
    with pytest.raises(TraceError, match="holds 2 ranks, so it cannot be rank 5"):
        load({5: tmp_path / "merged.json"})
    assert load({5: write_export(tmp_path / "one.sqlite", ranks=1)}).ranks == [5]


def test_the_environment_states_the_rank_of_the_only_process(tmp_path):
    path = write_export(tmp_path / "a.sqlite", ranks=1, mpi=False)
    change(path, "insert into META_DATA_CAPTURE values ('ENVIRONMENT_VARIABLE', 'SLURM_PROCID=5')")
    assert load(path).ranks == [5]


@pytest.mark.parametrize("stated", ["true", "false"])
def test_old_exports_and_times_in_utc(export, stated):
    change(
        export,
        "alter table CUPTI_ACTIVITY_KIND_KERNEL rename to CUPTI_ACTIVITY_KIND_KERNEL_V2",
        "drop table TARGET_INFO_GPU",
        "drop table TARGET_INFO_CUDA_DEVICE",
        "create table TARGET_INFO_CUDA_GPU (name, deviceId, pid, numMultiprocessors)",
        "insert into TARGET_INFO_CUDA_GPU values ('Tesla V100', 0, 4001, 80)",
        "drop table META_DATA_EXPORT",
        "create table EXPORT_META_DATA (name, value)",
        f"insert into EXPORT_META_DATA values ('EXPORT_PARAM_TIME_NORMALIZE', '{stated}')",
        f"update CUPTI_ACTIVITY_KIND_KERNEL_V2 set start = start + {EPOCH_NS},"
        f" end = end + {EPOCH_NS}",
        *(f"delete from {table}" for table in ("NVTX_EVENTS", "CUPTI_ACTIVITY_KIND_RUNTIME",
                                               "MPI_COLLECTIVES_EVENTS",
                                               "CUPTI_ACTIVITY_KIND_MEMCPY")),
    )  # fmt: skip
    trace = load(export)[1]
    assert trace.zero_ns == EPOCH_NS + FIRST_NS + 3 * MS
    assert trace.metadata["deviceProperties"] == [{"id": 0, "name": "Tesla V100", "numSms": 80}]


def payload(schema, *values):
    body = b"".join(value.to_bytes(8, "little") for value in values)
    head = (1, schema, len(body), 32)
    return b"".join(value.to_bytes(8, "little") for value in head) + body


def test_calls_of_a_group_share_its_kernels(tmp_path):
    """One kernel for two all-gathers, then two kernels for two, then three for two."""
    path = write_export(tmp_path / "a.sqlite", ranks=1, steps=3)
    with closing(sqlite3.connect(path)) as database:
        names = ("NCCL communicator ID", "No. of ranks", "Rank")
        fields = [(1, 98, k, name, 18, 8 * k) for k, name in enumerate(names)]
        database.executemany(
            "insert into NVTX_PAYLOAD_SCHEMA_ENTRIES values (?, ?, ?, ?, ?, ?)", fields
        )
        tid, gpid = database.execute(
            "select globalTid, globalTid / 16777216 * 16777216 from MPI_RANKS"
        ).fetchone()
        database.execute("delete from NVTX_EVENTS where text = 'ncclAllReduce'")
        database.execute("delete from CUPTI_ACTIVITY_KIND_KERNEL where streamId = 21")
        database.execute("insert into StringIds values (700, 'ncclDevKernel_AllGather_RING_LL(A)')")
        insert = "insert into NVTX_EVENTS values (?, ?, 59, ?, null, ?, null, 1, ?)"
        init = payload(98, 0xAB, 4, 0)
        database.execute(insert, (1, 2, "ncclCommInitRank", tid, init))
        for step, kernels in enumerate((1, 2, 3)):
            at = FIRST_NS + step * 20 * MS
            for number, size in enumerate((100, 200)):
                began = at + number * 1000
                call = (began, began + 500, "ncclAllGather", tid, payload(99, 0xAB, size))
                database.execute(insert, call)
            database.execute(insert, (at + 2000, at + 9000, "ncclGroupEnd", tid, None))
            for number in range(kernels):
                correlation = 900 + 10 * step + number
                database.execute(
                    "insert into CUPTI_ACTIVITY_KIND_RUNTIME values (?, ?, 1, ?, ?, 1, 0)",
                    (at + 3000 + number, at + 3001 + number, tid, correlation),
                )
                start = at + MS + number * MS
                database.execute(
                    "insert into CUPTI_ACTIVITY_KIND_KERNEL values"
                    " (?, ?, 0, 21, ?, ?, 700, 700, 1, 1, 1, null)",
                    (start, start + MS, correlation, gpid),
                )
        database.commit()
    trace = load(path)[0]
    rows = np.flatnonzero(trace.table.stream == 21)
    keys = ("In msg nelems", "Out msg nelems", "Group size", "Process Group Name", "dtype")
    args = event_args(trace, rows, keys)
    assert args["In msg nelems"] == [300, 100, 200, None, None, None]
    assert args["Out msg nelems"] == [1200, 400, 800, None, None, None]
    assert args["Group size"][:3] == [4, 4, 4]
    assert args["Process Group Name"][:3] == ["NCCL 00000000000000ab"] * 3
    assert args["dtype"][0] == "uint8"
    assert trace.stated_rank == 0


def test_metrics_of_network_cards_are_counters_of_one_rank(export):
    columns = "start, end, globalId, portId, metricsListId, metricsIdx, value"
    change(
        export,
        f"create table NET_NIC_METRIC ({columns})",
        f"insert into NET_NIC_METRIC values ({FIRST_NS + 1000}, 0, 77, 1, 5, 0, 40),"
        f" ({FIRST_NS + 2000}, 0, 77, 1, 5, 0, 60), ({FIRST_NS + 1000}, 0, 88, 1, 5, 1, 9)",
        "create table TARGET_INFO_NETWORK_METRICS (metricsListId, metricsIdx, name)",
        "insert into TARGET_INFO_NETWORK_METRICS values (5, 0, 'IB: Bytes sent')",
        "create table TARGET_INFO_NIC_INFO (nicId, name)",
        "insert into TARGET_INFO_NIC_INFO values (3, 'mlx5_0')",
        "create table NIC_ID_MAP (nicId, globalId)",
        "insert into NIC_ID_MAP values (3, 77)",
    )
    tables = [trace.counter_table for trace in load(export).values()]
    values = {
        name: [table.value[k] for k in np.flatnonzero(table.series_id == number)]
        for table in tables
        for number, (_, name, _) in enumerate(table.series)
        if "port" in name
    }
    assert values == {"mlx5_0 port 1: IB: Bytes sent": [40, 60], "NIC 88 port 1: metric 1": [9]}
    assert sum("port" in series[1] for table in tables for series in table.series) == 2


def test_a_call_states_what_it_waits_for(export):
    trace = load(export)[0]
    call = trace.events.index[trace.events.name == "cudaLaunchKernel"][0]
    number = int(trace.table.correlation[call])
    change(
        export,
        "create table CUPTI_ACTIVITY_KIND_SYNCHRONIZATION"
        " (start, end, streamId, correlationId, globalPid, syncType, eventId)",
        "insert into CUPTI_ACTIVITY_KIND_SYNCHRONIZATION select 0, 1, 9,"
        f" {number}, min(globalTid), 3, 4294967295 from CUPTI_ACTIVITY_KIND_RUNTIME",
    )
    trace = load(export)[0]
    args = json.loads(trace.source.record(int(trace.table.record[call])))["args"]
    assert (args["synchronization"], args["waited stream"]) == ("stream", 9)
    assert "waited event" not in args


WAITS, EVENTS = "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION", "CUPTI_ACTIVITY_KIND_CUDA_EVENT"


@pytest.mark.parametrize("has_recordings", [True, False])
def test_the_critical_path_follows_recorded_events_of_streams(tmp_path, has_recordings):
    path = write_export(tmp_path / "a.sqlite", ranks=1, steps=1)
    gpid = "(select min(globalPid) from PROCESSES)"
    tid = "(select min(globalTid) from CUPTI_ACTIVITY_KIND_RUNTIME)"
    names = ("awaited", "decoy", "cudaEventRecord_v3020", "cudaStreamWaitEvent_v3020",
             "cudaLaunchKernel_v7000")  # fmt: skip
    texts = [f"insert into StringIds values ({900 + n}, '{name}')" for n, name in enumerate(names)]
    at = FIRST_NS  # step start; its all-reduce on stream 21 starts 8 ms later
    kernels = [
        f"insert into {KERNELS} select {at + 2 * MS}, {at + end}, 0, {33 + n}, {501 + n}, {gpid},"
        f" {900 + n}, {900 + n}, 1, 1, 1, null"
        for n, end in enumerate((79 * MS // 10, 795 * MS // 100))
    ]
    calls = [
        f"insert into CUPTI_ACTIVITY_KIND_RUNTIME select {at + us * 1000}, {at + us * 1000 + 500},"
        f" 0, {tid}, {correlation}, {name}, 0"
        for us, correlation, name in ((1100, 501, 904), (1200, 601, 902), (1300, 502, 904),
                                      (1400, 602, 902), (1500, 603, 903))
    ]  # fmt: skip
    # Both recordings belong to one event and differ in the id of the recording.
    ids = "eventId, eventSyncId" if has_recordings else "eventId"
    records = [
        f"create table {EVENTS} (timestamp, streamId, correlationId, globalPid, {ids})",
        f"create table {WAITS} (start, end, streamId, correlationId, globalPid, syncType, {ids})",
        *(f"insert into {EVENTS} select 0, {33 + n}, {601 + n}, {gpid}, 4"
          f"{f', {71 + n}' if has_recordings else ''}" for n in (0, 1)),
        f"insert into {WAITS} select 0, 1, 21, 603, {gpid}, 2, 4{', 71' if has_recordings else ''}",
    ]  # fmt: skip
    traces = load(change(path, *texts, *kernels, *calls, *records))
    hw.export_trace(traces, tmp_path / "out.json")
    for job in (traces, load(tmp_path / "out.json")):
        names_on_path = set(critical_path(job, 0)["name"])
        assert "ncclDevKernel_AllReduce_Sum_f32_RING_LL(Args)" in names_on_path
        assert names_on_path & {"awaited", "decoy"} == {"awaited" if has_recordings else "decoy"}


@pytest.mark.parametrize("change_names", ["alter table {} drop column demangledName",
                                          "update {} set demangledName = null",
                                          "update {} set demangledName = 99999"])  # fmt: skip
def test_kernels_without_a_full_name_have_their_short_one(export, change_names):
    traces = load(change(export, change_names.format(KERNELS)))
    assert (temporal_breakdown(traces).communication_ns > 0).all()
    assert traces[0].events.query("category == 'kernel'").name.unique().tolist() == ["gemm", "nccl"]


def test_what_older_or_damaged_exports_lack_is_said(export, tmp_path):
    change(export, "update StringIds set value = null where value like 'void gemm%'")
    change(
        export, "drop table CUPTI_ACTIVITY_KIND_RUNTIME", f"update {KERNELS} set globalPid = null"
    )
    traces = load(export)
    details = " ".join(traces.problems.detail)
    for text in (
        "missing from StringIds",
        "host calls were not recorded",
        "not state their process",
    ):
        assert text in details
    sole = write_export(tmp_path / "sole.sqlite", ranks=1)
    (trace,) = load(change(sole, f"update {KERNELS} set globalPid = null")).values()
    assert (trace.launch_of >= 0).sum() == 6


def test_the_rank_of_a_process_does_not_count_for_each_of_its_devices(tmp_path):
    traces = load(write_export(tmp_path / "two.sqlite", devices_per_process=2, first_rank=7))
    assert traces.ranks == [0, 1]
    assert set(traces.problems.kind) >= {"guessed_rank"}
    assert "duplicate_rank" not in set(traces.problems.kind)


def test_captured_calls_name_the_kernels_of_their_graph_nodes(tmp_path):
    path = write_export(tmp_path / "a.sqlite", ranks=1, steps=1)
    tid = "(select globalTid from MPI_RANKS)"
    names = ("cudaStreamBeginCapture", *["cudaLaunchKernel_v7000"] * 2, "cudaStreamEndCapture",
             "cudaGraphLaunch_v10000", "first", "second")  # fmt: skip
    texts = [f"insert into StringIds values ({900 + n}, '{name}')" for n, name in enumerate(names)]
    calls = [
        f"insert into CUPTI_ACTIVITY_KIND_RUNTIME select {FIRST_NS + n * 10},"
        f" {FIRST_NS + n * 10 + 9}, 0, {tid}, {801 + n}, {900 + n}, 0"
        for n in range(5)
    ]
    clone = 1 << 33
    nodes = [
        "create table CUDA_GRAPH_NODE_EVENTS (start, globalTid, graphNodeId, originalGraphNodeId)",
        *(f"insert into CUDA_GRAPH_NODE_EVENTS select {FIRST_NS + start}, {tid}, {node}, {original}"
          for start, node, original in ((15, 7, "null"), (25, 8, "null"), (35, clone + 1, 7),
                                        (36, clone + 2, 8), (99, 9, "null"))),
    ]  # fmt: skip
    kernels = [
        f"insert into {KERNELS} select {FIRST_NS + 500 * n}, {FIRST_NS + 500 * n + 400}, 0, 7, 805,"
        f" globalPid, {904 + n}, 905, 1, 1, 1, {clone + n} from PROCESSES"
        for n in (1, 2)
    ]
    trace = load(change(path, *texts, *calls, *nodes, *kernels))[0]
    (graph,) = captured_graphs(trace)
    assert graph.nodes == ("first", "second")
    assert [trace.args(row)["graph node id"] for row in graph.calls] == [7, 8]
    work = trace.events.index[trace.events.name.isin(graph.nodes)]
    assert trace.events.name[trace.launch_of[work]].tolist() == ["cudaGraphLaunch"] * 2
    assert [trace.args(row)["graph node id"] for row in work] == [clone + 1, clone + 2]


@pytest.mark.parametrize("name", ["ncclAllReduce", "AllReduce"])
def test_ranges_without_payloads_name_generic_kernels(export, name):
    change(
        export,
        "update StringIds set value = 'ncclDevKernel_Generic(Args)' where value like 'nccl%'",
        f"update NVTX_EVENTS set binaryData = null, text = '{name}' where text = 'ncclAllReduce'",
    )
    frame = collectives(load(export))
    assert frame.operation.tolist() == ["all_reduce"] * 6


def test_what_has_no_name_or_no_time_is_said(export):
    far = (1 << 62) - 5
    change(
        export,
        f"update {KERNELS} set demangledName = null, shortName = null where rowid = 1",
        f"insert into NVTX_EVENTS select {far}, {far}, 59, 'x', null, globalTid, 0, 0, 0"
        " from MPI_RANKS",
        "insert into NVTX_EVENTS select start, end, 500, 'y', null, globalTid, 0, 0, 0"
        " from NVTX_EVENTS where text = 'iteration 5'",
        "update TARGET_INFO_SESSION_START_TIME set utcEpochNs = 0",
    )
    traces = load(export)
    assert "kernel without a name" in traces[0].events.name.tolist()
    problems = traces.problems.set_index("detail")["count"]
    assert problems["NVTX ranges without times"] == 2
    assert problems["rows of NVTX_EVENTS of other types"] == 2
    assert "the export does not state when the recording began" in problems.index


JSON_PAYLOAD = json.dumps(
    {"NCCL communicator ID": str(0xABCD), "Message size [bytes]": MESSAGE_BYTES, "Root": "none"}
)


@pytest.mark.parametrize(
    ("column", "value"), [("jsonText text", f"'{JSON_PAYLOAD}'"), ("jsonTextId integer", "9000")]
)
def test_payloads_of_nccl_may_be_json(export, column, value):
    change(
        export,
        f"insert into StringIds values (9000, '{JSON_PAYLOAD}')",
        "alter table NVTX_EVENTS drop column binaryData",
        f"alter table NVTX_EVENTS add column {column}",
        f"update NVTX_EVENTS set {column.split()[0]} = {value} where text = 'ncclAllReduce'",
    )
    traces = load(export)
    rows = np.flatnonzero(traces[0].table.stream == 21)
    args = event_args(traces[0], rows, ("Process Group Name", "In msg nelems"))
    assert args["Process Group Name"] == ["NCCL 000000000000abcd"] * 3
    assert args["In msg nelems"] == [MESSAGE_BYTES // 4] * 3
    assert "part" not in set(traces.problems.kind)


def test_slices_of_a_device_have_their_own_size_and_hosts_their_processes(export):
    change(
        export,
        "alter table TARGET_INFO_CUDA_DEVICE add column numMultiprocessors",
        "update TARGET_INFO_CUDA_DEVICE set gpuId = 0, numMultiprocessors = 16 + 16 * (pid = 4001)",
        "alter table TARGET_INFO_SYSTEM_ENV add column globalVid",
        f"update TARGET_INFO_SYSTEM_ENV set globalVid = {1 << 48}",
        f"insert into TARGET_INFO_SYSTEM_ENV values ('Hostname', 'node1', {2 << 48})",
        *(f"update {table} set {column} = {column} + {1 << 48}"
          f" where {column} >> 24 & 16777215 = 4001"
          for table, column in (
              (KERNELS, "globalPid"), ("CUPTI_ACTIVITY_KIND_MEMCPY", "globalPid"),
              ("CUPTI_ACTIVITY_KIND_RUNTIME", "globalTid"), ("NVTX_EVENTS", "globalTid"),
              ("MPI_RANKS", "globalTid"),
          )),
    )  # fmt: skip
    traces = load(export)
    assert {rank: trace.host for rank, trace in traces.items()} == {0: "node0", 1: "node1"}
    sizes = [trace.metadata["deviceProperties"][0]["numSms"] for trace in traces.values()]
    assert sizes == [16, 32]


def test_names_may_be_blobs_and_an_empty_table_may_precede_its_next_version(export):
    before = temporal_breakdown(load(export))
    change(
        export,
        "update StringIds set value = cast(value as blob)",
        f"create table {KERNELS}_V2 as select * from {KERNELS}",
        f"delete from {KERNELS}",
    )
    assert temporal_breakdown(load(export)).equals(before)


def test_versions_of_a_table_are_read_together_and_unread_tables_are_said(export):
    before = temporal_breakdown(load(export))
    change(
        export,
        f"create table {KERNELS}_V2 as select * from {KERNELS} where rowid % 2 = 0",
        f"delete from {KERNELS} where rowid % 4 = 0",  # half of the rows of the other version
        "create table SCHED_EVENTS (start INTEGER, cpu INTEGER)",
        "insert into SCHED_EVENTS values (5, 1)",
        "create table EMPTY_EVENTS (start INTEGER)",
    )
    traces = load(export)
    assert temporal_breakdown(traces).equals(before)
    counts = dict(traces.problems[["detail", "count"]].to_numpy().tolist())
    assert counts[f"rows that occur in two versions of {KERNELS}"] == 3
    assert counts["event tables that are not read: SCHED_EVENTS"] == 1


def test_versions_of_a_table_are_read_in_the_order_of_their_names(export):
    versions = [f"{KERNELS}_V{number}" for number in range(2, 10)]
    copies = [
        f"create table {name} as select * from {KERNELS} where rowid = 1" for name in versions
    ]
    streams = [f"update {name} set streamId = {n}" for n, name in enumerate(versions, 70)]
    change(export, *copies, *streams)
    source = load(export)[0].source
    records = [json.loads(text) for _, text in source.records(np.arange(len(source)))]
    streams_in_file = [record.get("args", {}).get("stream", -1) for record in records]
    assert [stream for stream in streams_in_file if stream >= 70] == list(range(70, 78))


def test_the_highest_bit_of_an_id_is_no_sign(export):
    before = load(export)
    with closing(sqlite3.connect(export)) as database:
        tables = [name for (name,) in database.execute("select name from sqlite_master")]
        for table in tables:
            columns = [row[1] for row in database.execute(f"pragma table_info({table})")]
            for column in {"globalTid", "globalPid"} & set(columns):
                database.execute(f"update {table} set {column} = {column} | {-1 << 63}")
        database.commit()
    after = load(export)
    assert after.problems.equals(before.problems)
    pairs = zip(before.values(), after.values(), strict=True)
    assert all(one.events.equals(other.events) for one, other in pairs)


@pytest.mark.parametrize("pattern", [None, "iteration"])
def test_steps_of_a_domain_of_the_program(export, pattern):
    change(
        export,
        "update NVTX_EVENTS set domainId = 7 where text like 'iteration%'",
        "insert into NVTX_EVENTS select 0, null, 75, 'trainer', null, globalTid, 0, 7, null"
        " from MPI_RANKS",
    )
    assert step_times(load(export, steps=pattern)).step.tolist() == [5, 6, 7] * 2


def test_a_mark_states_the_rank_and_fills_name_their_memory(tmp_path):
    path = write_export(tmp_path / "a.sqlite", ranks=1, mpi=False)
    change(
        path,
        f"insert into NVTX_EVENTS select {FIRST_NS}, null, 34, 'rank=6; pp=0/2 dp=3/4', null,"
        " min(globalTid), 0, 0, null from CUPTI_ACTIVITY_KIND_RUNTIME",
        "create table CUPTI_ACTIVITY_KIND_MEMSET"
        " (start, end, deviceId, streamId, correlationId, globalPid, bytes, memKind)",
        f"insert into CUPTI_ACTIVITY_KIND_MEMSET select {FIRST_NS}, {FIRST_NS + 9}, 0, 7, 0,"
        " globalPid, 64, 1 from PROCESSES",
    )
    (trace,) = load(path).values()
    assert trace.stated_rank == 6
    assert trace.events.query("category == 'gpu_memset'").name.tolist() == ["Memset (Pinned)"]


def test_many_events_take_little_memory(export):
    numbers = f"with recursive n(i) as (select 1 union all select i + 1 from n limit {40_000})"
    change(
        export,
        f"{numbers} insert into {KERNELS} select {FIRST_NS} + i, {FIRST_NS} + i + 1, 0, 7,"
        " 1000 + i, globalPid, demangledName, shortName, 1, 1, 1, null"
        f" from n, (select * from {KERNELS} limit 1)",
    )
    load(write_export(export.with_name("small.sqlite")))  # imports are not counted
    tracemalloc.start()
    traces = load(export)
    peak_bytes = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak_bytes / sum(map(len, traces.values())) < 400


def test_steps_are_found_on_a_thread_that_launches_less(tmp_path):
    path = write_export(tmp_path / "a.sqlite", ranks=1)
    change(path, "update CUPTI_ACTIVITY_KIND_RUNTIME set globalTid = globalTid + 1 where rowid > 3")
    assert step_times(load(path)).step.tolist() == [5, 6, 7]


def test_ranges_with_a_payload_only_say_that_they_have_no_name(export):
    thread = "(select globalTid from NVTX_EVENTS limit 1)"
    change(
        export,
        "insert into NVTX_EVENTS (start, end, eventType, globalTid, domainId)"
        f" values (101000000, 101500000, 59, {thread}, 0)",
        "insert into NVTX_EVENTS (start, end, eventType, text, globalTid, domainId)"
        f" values (102000000, 102500000, 59, '', {thread}, 0)",
    )
    events = load(export)[0].events
    assert events.start_ns[events.name == "range without a name"].tolist() == [1_000_000, 2_000_000]
    assert "" not in events.name.tolist()


def test_samples_of_metrics_are_exact_and_those_without_a_value_are_no_samples(export):
    gpu = 1 << 48
    values = ("null", "9e999", "'high'", "0.1", "2.5e-300", "7")
    times = range(101_000_000, 107_000_000, 1_000_000)
    rows = ", ".join(f"({t}, {gpu}, 2, {v})" for t, v in zip(times, values, strict=True))
    change(
        export,
        "alter table GPU_METRICS rename to old",
        "create table GPU_METRICS (timestamp, typeId, metricId, value)",
        "insert into GPU_METRICS values " + rows,
        f"insert into GPU_METRICS values (101000000, {gpu | 6}, 1, 5)",
        f"insert into GPU_METRICS values (102000000, {gpu | 6}, 1, 5)",
    )
    traces = load(export)
    table = traces[0].counter_table
    assert table.series == [("GPU 0", "metric 2", "value")]
    assert table.time_ns.tolist() == [4_000_000, 5_000_000, 6_000_000]
    assert table.value.tolist() == [0.1, 2.5e-300, 7.0]
    unused = traces.problems[traces.problems.detail.str.contains("GPUs that no rank uses")]
    assert unused["count"].tolist() == [2]


def test_ids_and_streams_of_64_bits_link_and_kernels_may_take_no_time(export):
    largest = (1 << 63) - 1
    change(
        export,
        f"update CUPTI_ACTIVITY_KIND_KERNEL set correlationId = {largest} - correlationId,"
        f" streamId = streamId + {1 << 47}, end = start",
        f"update CUPTI_ACTIVITY_KIND_RUNTIME set correlationId = {largest} - correlationId",
        f"update CUPTI_ACTIVITY_KIND_KERNEL set demangledName = demangledName + {1 << 40}",
        f"insert into StringIds select id + {1 << 40}, 'ядро ' || value from StringIds",
    )
    trace = load(export)[0]
    kernels = trace.events.query("category == 'kernel'")
    assert kernels.name.tolist()[:2] == [f"ядро {GEMM}", f"ядро {NCCL}"]
    assert (kernels.stream - (1 << 47)).tolist() == [7, 21] * 3
    assert kernels.dur_ns.tolist() == [0] * 6
    launches = trace.events.loc[trace.launch_of[kernels.index]]
    assert launches.name.tolist() == ["cudaLaunchKernel", "cuLaunchKernelEx"] * 3


def test_events_without_a_thread_are_said_to_be_left_out(export):
    for table in ("KERNEL", "MEMCPY", "GRAPH_TRACE", "RUNTIME"):
        change(export, f"drop table CUPTI_ACTIVITY_KIND_{table}")
    change(export, "update MPI_COLLECTIVES_EVENTS set globalTid = null where rowid <= 2")
    traces = load(export)
    assert sum(trace.events.name.eq("MPI_Allreduce").sum() for trace in traces.values()) == 4
    notes = traces.problems[traces.problems.detail.str.contains("without a thread")]
    assert notes[["kind", "count"]].to_numpy().tolist() == [["skipped", 2]]


def test_numbers_of_small_tables_may_be_texts_and_texts_blobs(export):
    change(
        export,
        "alter table MPI_RANKS rename to old",
        "create table MPI_RANKS (globalTid TEXT, rank TEXT)",
        "insert into MPI_RANKS select globalTid, rank + 4 from old",
        "update TARGET_INFO_SYSTEM_ENV set value = cast('uzel-ž' as blob)",
        "alter table PROCESSES drop column name",
    )
    traces = load(export)
    assert traces.ranks == [4, 5]
    assert {trace.host for trace in traces.values()} == {"uzel-ž"}


def test_work_without_a_stream_is_on_the_default_stream(export):
    change(export, "update CUPTI_ACTIVITY_KIND_KERNEL set streamId = null where streamId = 7")
    trace = load(export)[0]
    kernels = trace.events.query("category == 'kernel'")
    assert kernels.stream.tolist() == [0, 21] * 3
    labels = [track.label for track in trace.tracks if track.stream >= 0]
    assert labels == ["stream 0", "stream 21", "unified memory"]


def two_machines(path):
    """Move the second process of an export to another machine with a different GPU 0."""
    second = 2 << 48
    columns = {
        KERNELS: "globalPid",
        "CUPTI_ACTIVITY_KIND_MEMCPY": "globalPid",
        "CUPTI_ACTIVITY_KIND_RUNTIME": "globalTid",
        "NVTX_EVENTS": "globalTid",
        "MPI_RANKS": "globalTid",
        "GPU_METRICS": "typeId",
        "TARGET_INFO_GPU_METRICS": "typeId",
    }
    moved = [
        f"update {table} set {column} = {column} + {1 << 48} where {column} >> 24 & 16777215 = 4001"
        for table, column in columns.items()
        if column != "typeId"
    ]
    moved += [
        f"update {table} set typeId = {second} where typeId & 1" for table in list(columns)[-2:]
    ]
    return change(
        path,
        *moved,
        "alter table TARGET_INFO_GPU add column vmId",
        f"update TARGET_INFO_GPU set vmId = {1 << 48} where id = 0",
        f"update TARGET_INFO_GPU set vmId = {second}, id = 0, name = 'NVIDIA A100', smCount = 108"
        " where id = 1",
        "update TARGET_INFO_CUDA_DEVICE set gpuId = 0",
    )


def test_gpus_of_two_machines_in_one_export_are_those_of_their_processes(tmp_path):
    export = two_machines(write_export(tmp_path / "merged.sqlite"))
    traces = load(export)
    models = [trace.metadata["deviceProperties"][0] for trace in traces.values()]
    assert [(model["name"], model["numSms"]) for model in models] == [
        ("NVIDIA H100", 132), ("NVIDIA A100", 108)
    ]  # fmt: skip
    counts = [len(trace.counter_table.time_ns) for trace in traces.values()]
    assert counts == [3, 3]
    assert not traces.problems.detail.str.contains("no rank uses").any()


def equal_ids_on_two_machines(path, uuids):
    """Give the processes of two machines the same id and ordinal, but GPUs with these UUIDs."""
    change(
        two_machines(path),
        *(f"update {table} set {column} = {column} - (1 << 24) where {column} >> 48 = 2"
          for table, column in ((KERNELS, "globalPid"), ("CUPTI_ACTIVITY_KIND_MEMCPY", "globalPid"),
                                ("CUPTI_ACTIVITY_KIND_RUNTIME", "globalTid"),
                                ("NVTX_EVENTS", "globalTid"), ("MPI_RANKS", "globalTid"))),
        "alter table TARGET_INFO_GPU add column uuid",
        "alter table TARGET_INFO_CUDA_DEVICE add column uuid",
        "update TARGET_INFO_GPU set id = 3, uuid = 'a' where vmId >> 48 = 1",
        "update TARGET_INFO_GPU set id = 5, uuid = 'b' where vmId >> 48 = 2",
        f"update TARGET_INFO_CUDA_DEVICE set gpuId = 3, uuid = {uuids[0]} where pid = 4000",
        f"update TARGET_INFO_CUDA_DEVICE set pid = 4000, gpuId = 5, uuid = {uuids[1]}"
        " where pid = 4001",
    )  # fmt: skip
    return path


def test_a_process_id_of_two_machines_has_the_gpu_of_its_machine(tmp_path):
    path = equal_ids_on_two_machines(write_export(tmp_path / "merged.sqlite"), ("'a'", "'b'"))
    traces = load(path)
    models = [trace.metadata["deviceProperties"][0] for trace in traces.values()]
    assert [(model["id"], model["name"], model["numSms"]) for model in models] == [
        (3, "NVIDIA H100", 132), (5, "NVIDIA A100", 108)
    ]  # fmt: skip
    assert not traces.problems.detail.str.contains("several machines").any()


def test_gpus_that_an_export_does_not_tell_apart_have_no_model_and_are_said(tmp_path):
    path = equal_ids_on_two_machines(write_export(tmp_path / "merged.sqlite"), ("null", "null"))
    traces = load(path)
    properties = [trace.metadata["deviceProperties"] for trace in traces.values()]
    assert properties == [[{"id": 0}], [{"id": 0}]]
    said = traces.problems[traces.problems.detail.str.contains("several machines")]
    assert said["count"].tolist() == [1]


@pytest.mark.parametrize("last_word", [32, 32 + 16])
@pytest.mark.parametrize("flags", [0, 7 << 32])
def test_payloads_of_nccl_end_their_header_in_an_offset_or_the_whole_size(export, last_word, flags):
    payload = struct.pack("<6Q", 1 + flags, 99 + flags, 16, last_word, 0xABCD, MESSAGE_BYTES)
    change(export, f"update NVTX_EVENTS set binaryData = x'{payload.hex()}'"
                   " where text = 'ncclAllReduce'")  # fmt: skip
    frame = collectives(load(export))
    assert frame.size_bytes.unique().tolist() == [MESSAGE_BYTES]


def test_tables_without_columns_of_times_are_no_tables_of_events(export):
    change(
        export,
        "create table ANALYSIS_DETAILS (\n  -- start of it\n  startTime INTEGER -- Trace start\n)",
        "insert into ANALYSIS_DETAILS values (5)",
        "create table NO_ROWS_BY_ID (start INTEGER PRIMARY KEY) without rowid",
        "insert into NO_ROWS_BY_ID values (5)",
    )
    details = load(export).problems.detail
    unread = details[details.str.contains("not read")].tolist()
    assert unread == ["event tables that are not read: NO_ROWS_BY_ID"]


@pytest.mark.parametrize("name", ["KernelTask", "ncclKernelTask"])
def test_ranges_of_kernels_do_not_add_to_the_calls_of_a_group(export, name):
    task = struct.pack("<7Q", 1, 98, 24, 32, 0xABCD, MESSAGE_BYTES, 8)
    change(
        export,
        *(f"insert into NVTX_PAYLOAD_SCHEMA_ENTRIES values (1, 98, {place}, '{field}', 18,"
          f" {8 * place})" for place, field in enumerate(
              ("NCCL communicator ID", "Message size [bytes]", "No. of channels"))),
        "update NVTX_EVENTS set end = start + 500 where text = 'ncclAllReduce'",
        *(f"insert into NVTX_EVENTS select start + {first}, start + {last}, 59, '{text}', null,"
          f" globalTid, null, 1, {payload} from NVTX_EVENTS where text = 'ncclAllReduce'"
          for text, first, last, payload in (("ncclGroupEnd", 600, 500_000, "null"),
                                             (name, 700, 400_000, f"x'{task.hex()}'"))),
    )  # fmt: skip
    frame = collectives(load(export))
    assert frame.size_bytes.unique().tolist() == [MESSAGE_BYTES]
    assert frame.operation.unique().tolist() == ["all_reduce"]
