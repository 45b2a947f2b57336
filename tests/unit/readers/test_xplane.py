"""JAX's XPlane profiles."""

import contextlib
import json
from collections import Counter

import numpy as np
import pytest
from support.xplane_profile import (
    START_NS,
    gpu_profile,
    message,
    number,
    plane,
    profile,
    tpu_profile,
    write_profile,
)

import hta_widgets as hw
from hta_widgets import TraceError
from hta_widgets.analysis import (
    collectives,
    operator_efficiency,
    operators,
    step_efficiency,
    step_times,
    stragglers,
    temporal_breakdown,
    user_annotation_breakdown,
)


def load(path, **options):
    return hw.load(path, cache=False, progress=False, **options)


@pytest.fixture
def opened(tmp_path):
    return lambda data, **options: load(
        write_profile(tmp_path / "node0.xplane.pb", data), **options
    )


def test_a_device_with_work_is_a_rank(opened):
    traces = opened(gpu_profile())
    assert traces.ranks == [0, 1]
    trace = traces[1]
    assert (trace.format, trace.host, trace.local_rank) == ("xplane", "node0", 1)
    assert trace.zero_ns == START_NS + 1_000
    assert trace.metadata["deviceProperties"] == [
        {"id": 1, "totalGlobalMem": 80 << 30, "computeMajor": 9, "computeMinor": 0,
         "numSms": 132, "warpSize": 32}
    ]  # fmt: skip
    work = trace.events[trace.events.category == "kernel"]
    assert work.dur_ns.tolist() == [20_000, 30_000] * 3
    calls = trace.events.loc[trace.launch_of[work.index]]
    assert calls.name.unique().tolist() == ["cuLaunchKernel"]
    assert work.step.tolist() == [0, 0, 1, 1, 2, 2]
    assert trace.counter_table.value.tolist() == [4096]
    derived = traces.problems.query("detail.str.contains('repeat')")
    assert derived["count"].tolist() == [2]


def test_operations_of_xla_are_operators_around_launches(opened):
    traces = opened(gpu_profile())
    frame = operators(traces).query("rank == 0").set_index("name")
    assert frame.device_total_ns[["dot.1", "all-reduce.3"]].tolist() == [60_000, 90_000]
    ranges = user_annotation_breakdown(traces)
    assert ranges.name.unique().tolist() == ["jit_step(1)"]


def test_collectives_of_an_operation_match_and_name_the_late_device(opened):
    traces = opened(gpu_profile(late_ps=5_000_000))
    frame = collectives(traces)
    assert frame.groupby("collective")["rank"].apply(list).tolist() == [[0, 1]] * 3
    assert frame.last_rank.unique().tolist() == [1]
    assert set(frame.wait_ns) == {0, 5_000}
    blamed = stragglers(traces)
    assert blamed.imposed_wait_ns.tolist() == [0, 15_000]


def test_a_tpu_has_operations_for_work_and_its_own_steps(opened):
    traces = opened(tpu_profile())
    row = temporal_breakdown(traces).iloc[0]
    # 40.0005 µs is rounded half to even, so the operations remain adjacent.
    assert (row.busy_ns, row.compute_ns, row.communication_ns) == (120_000, 80_000, 40_000)
    assert step_times(traces)[["step", "dur_ns"]].to_numpy().tolist() == [[7, 80_000], [8, 80_000]]
    work = traces[0].events.query("category == 'kernel'")
    assert work.step.tolist() == [7, 7, 8, 8]


@pytest.mark.parametrize(
    ("data", "name", "figures"),
    [
        (gpu_profile(1), "dot.1", (3, 2e9, float(1 << 20), 60_000, 100.0)),
        (tpu_profile(), "fusion.1", (2, 4e6, 2e6, 80_000, 0.1)),
    ],
)
def test_figures_of_xla_are_the_work_of_its_operations(opened, data, name, figures):
    frame = operator_efficiency(opened(data)).set_index("name")
    row = frame.loc[name]
    columns = ["count", "flops", "least_bytes", "device_ns", "tflop_per_s"]
    assert row[columns].tolist() == list(figures)
    assert row.certainty == "stated"


def test_steps_count_the_flops_that_xla_states(opened):
    frame = step_efficiency(opened(tpu_profile()), peaks={"bf16": 1.0}, precision="bf16")
    assert frame[["step", "flops"]].to_numpy().tolist() == [[7, 4e6], [8, 4e6]]
    assert frame["mfu"].tolist() == [0.05, 0.05]  # 4 MFLOP in 80 µs


def test_ranges_of_the_program_can_be_steps(opened):
    traces = opened(gpu_profile(), steps=r"^train\.py|\$train")
    assert step_times(traces)["step"].unique().tolist() == [12]


def test_the_json_of_the_same_run_is_left_out(opened, tmp_path):
    text = json.dumps({"traceEvents": [{"ph": "X", "ts": 0, "dur": 1, "pid": 1, "tid": 1}]})
    for name in ("node0.trace.json", "perfetto_trace.json"):
        (tmp_path / name).write_text(text)
    write_profile(tmp_path / "node0.xplane.pb", gpu_profile())
    traces = load(tmp_path)
    assert {trace.format for trace in traces.values()} == {"xplane"}
    assert "node0.xplane.pb holds the same run" in " ".join(traces.problems.detail)


def test_a_record_is_written_with_its_args_and_exact_times(opened):
    trace = opened(tpu_profile())[0]
    row = trace.events.index[trace.events.name == "fusion.1"][0]
    record = json.loads(trace.source.record(int(trace.table.record[row])))
    assert (record["ts"], record["dur"]) == (1, 40)
    assert record["args"]["hlo_category"] == "convolution fusion"
    assert (record["args"]["flops"], record["args"]["bytes accessed"]) == (4_000_000, 2_000_000)


def test_a_profile_without_its_start_is_reported(opened):
    busy = {"Stream #1": [("k", 0, 5_000, {})]}
    utc = opened(profile(plane("/device:GPU:0", busy, START_NS), start_ns=None))
    assert utc[0].zero_ns == START_NS
    assert "clock" not in utc.problems.kind.tolist()
    unknown = opened(profile(plane("/device:GPU:0", busy), start_ns=None))
    assert "clock" in unknown.problems.kind.tolist()


def test_a_cut_profile_keeps_what_came_before(opened):
    data = gpu_profile()
    traces = opened(data[: len(data) - 200])
    assert "truncated" in traces.problems.kind.tolist()
    assert traces.ranks == [0, 1]


@pytest.mark.parametrize(
    ("last", "names"),
    [
        (number(2, 20_000), ["event 1", "event 2"]),
        (b"Stream #2", ["event 1", "event 2", "event 1"]),
        (b"relu", ["gemm", "event 2", "gemm"]),
        (b"/host:CPU", ["gemm", "relu", "gemm"]),
    ],
)
def test_events_before_the_cut_of_a_plane_are_kept(opened, last, names):
    work = [(name, at, at + 9_000, {})
            for name, at in (("gemm", 0), ("relu", 10_000), ("gemm", 20_000))]  # fmt: skip
    device = plane("/device:GPU:0", {"Stream #1": work, "Stream #2": work[:1]})
    device = device.replace(message(3, message(2, "Stream #2")), b"")
    data = message(1, device) + message(1, plane("/host:CPU", {"main": work}))
    traces = opened(data[: data.index(last) + 2])
    events = traces[0].events.query("stream == 1")
    assert events.name.tolist() == names
    assert events.start_ns.tolist() == [0, 10, 20][: len(names)]
    assert events.dur_ns.tolist() == [9] * len(names)
    cut = traces.problems.query("kind == 'truncated'")
    assert cut["count"].tolist() == [1]
    assert "may lack names" in cut.detail.iloc[0]


@pytest.mark.parametrize("missing", [1, 30])
def test_a_plane_without_its_end_in_a_complete_file_is_reported(opened, missing):
    lines = {"Stream #1": [("gemm", 0, 9_000, {}), ("relu", 10_000, 19_000, {})]}
    cut = plane("/device:GPU:1", lines)[:-missing]
    traces = opened(message(1, plane("/device:GPU:0", lines)) + message(1, cut))
    assert len(traces[0].events.query("stream == 1")) == 2
    assert "truncated" in traces.problems.kind.tolist()


def test_a_profile_that_is_cut_anywhere_has_only_work_of_the_whole_one(opened):
    data = gpu_profile()
    whole = opened(data)
    for size in range(40, len(data), 61):
        with contextlib.suppress(TraceError):  # from files that end before the first event
            for rank, trace in opened(data[:size]).items():
                kept, stated = (
                    Counter(t.events.query("stream >= 0").dur_ns) for t in (trace, whole[rank])
                )
                assert kept <= stated


@pytest.mark.parametrize(
    ("data", "message_part"),
    [
        (message(1, message(2, "/host:CPU") + b"\x1b"), "damaged"),
        (message(1, message(2, "/host:CPU") + b"\x18" + b"\xff" * 11), "10 bytes"),
        (message(1, message(2, "/host:CPU") + number(3, 1)), "type of a field"),
        (message(1, message(2, "/host:CPU")), "no device or host events"),
        (
            message(1, message(2, "/device:GPU:0") + b"\xef\xbf\xbd" * 9 + b"\x1b"),
            "text conversion",
        ),
        (profile(plane("/device:GPU:0", {"Stream #1": [("k", 0, 1 << 63, {})]})), "50 days"),
        (
            profile(plane("/device:GPU:0", {"Stream #1": [("k", 9000, 1, {})] * 20})),
            "plausible times",
        ),
    ],
)
def test_a_damaged_profile_is_refused(opened, data, message_part):
    with pytest.raises(TraceError, match=message_part):
        opened(data)


def test_many_events_keep_their_times_args_and_launches(opened):
    kernels = [
        (f"k{n % 3}", n * 9_000_000, n * 9_000_000 + 5_000_000,
         {"correlation_id": str(n) if n % 5 == 0 else n, "grid": n % 4} | {"_shared_flops": n % 3})
        for n in range(1, 200)
    ]  # fmt: skip
    calls = [("cuLaunch", n * 9_000_000 - 1_000_000, n * 9_000_000, {"correlation_id": n})
             for n in range(1, 200)]  # fmt: skip
    trace = opened(
        profile(plane("/device:GPU:0", {"Stream #1": kernels}), plane("/host:CPU", {"main": calls}))
    )[0]
    work = trace.events.query("category == 'kernel'")
    assert work.start_ns.tolist() == [1_000 + 9_000 * n for n in range(199)]
    assert set(work.dur_ns) == {5_000}
    assert work.name.tolist() == [f"k{n % 3}" for n in range(1, 200)]
    assert trace.launch_of[work.index].tolist() == [row - 1 for row in work.index]
    records = trace.table.record[work.index].tolist()
    args = [json.loads(trace.source.record(record))["args"] for record in records]
    assert [(a["grid"], a["flops"]) for a in args] == [(n % 4, n % 3) for n in range(1, 200)]


def test_changed_bytes_raise_nothing_but_trace_errors(tmp_path):
    data, random = gpu_profile(), np.random.default_rng(7)
    for _ in range(60):
        text = bytearray(data)
        for at in random.integers(8, len(text), 3).tolist():
            text[at] = int(random.integers(256))
        path = write_profile(tmp_path / "node0.xplane.pb", bytes(text))
        with contextlib.suppress(TraceError):
            traces = load(path)
            assert (traces.problems["count"] >= 0).all()
            temporal_breakdown(traces)


def test_ids_of_63_bits_link_and_streams_have_any_spelling(opened):
    first = (1 << 63) - 3
    work = [(name, at, at + 9_000, {"correlation_id": first + n})
            for n, (name, at) in enumerate((("gemm", 5_000), ("relu", 20_000)))]  # fmt: skip
    calls = [("cuLaunchKernel", at - 2_000, at, args) for _, at, _, args in work]
    derived = [("fusion.1", 5_000, 90_000, {})]
    lines = {"stream 13(Kernel)": work, "XLA Ops": derived}
    trace = opened(profile(plane("/device:GPU:0", lines), plane("/host:CPU", {"py/1": calls})))[0]
    kernels = trace.events.query("category == 'kernel'")
    assert (kernels.name.tolist(), kernels.stream.tolist()) == (["gemm", "relu"], [13, 13])
    assert trace.launch_of[kernels.index].min() >= 0


@pytest.mark.parametrize("host", ["CUPTI", "ROCTRACER"])
def test_calls_of_older_profiles_have_a_plane_of_their_own(opened, host):
    kernel = ("gemm", 9_000_000, 19_000_000, {"correlation_id": 3})
    call = ("cuLaunchKernel", 1_000_000, 2_000_000, {"correlation_id": 3})
    device = plane("/device:GPU:0", {"Compute": [kernel], "Framework Ops": [kernel]})
    traces = opened(profile(device, plane(f"/host:{host}", {"1": [call]})))
    assert (traces[0].launch_of >= 0).sum() == 1
    assert temporal_breakdown(traces).compute_ns.tolist() == [10_000]


def test_sizes_of_launches_and_copies(opened):
    launch = "regs:32 static_shared:512 dynamic_shared:1024 grid:8,4,1 block:256,1,1 occ_pct:50.5"
    copy = "kind_src:pageable kind_dst:device size:4096 dest:0 async:1"
    work = [("gemm", 0, 9_000_000, {"kernel_details": launch}),
            ("MemcpyH2D", 9_000_000, 11_000_000, {"memcpy_details": copy}),
            ("Memset", 12_000_000, 13_000_000, {"memset_details": "num_bytes:64"})]  # fmt: skip
    trace = opened(profile(plane("/device:GPU:0", {"Stream #1(Kernel)": work})))[0]
    args = trace.args(0)
    assert (args["grid"], args["block"]) == ([8, 4, 1], [256, 1, 1])
    assert (args["registers per thread"], args["shared memory"]) == (32, 1536)
    assert trace.copy_table.size_bytes.tolist() == [4096, 64]
    assert trace.copy_table.gb_per_s.tolist() == [4096 / 2000, 64 / 1000]


US = 1_000_000


def test_cores_of_a_tpu_and_operations_that_contain_others(opened):
    ops = [("while.1", 0, 60 * US, {}), ("fusion.1", 0, 30 * US, {}),
           ("fusion.2", 30 * US, 55 * US, {}), ("fusion.3", 70 * US, 80 * US, {})]  # fmt: skip
    sparse = {"Sparse Core Steps": [("7", 0, US, {})], "Sparse Core Ops": [("gather", 0, US, {})]}
    core = {"XLA Ops": [("fusion.4", 80 * US, 90 * US, {})], "Steps": [("7", 0, US, {})]}
    traces = opened(
        profile(
            plane("/device:TPU:0", {"Steps": [("7", 0, US, {})], "XLA Ops": ops}),
            plane("/device:TPU:0 SparseCore 1", sparse),
            plane("/device:TPU:0 TensorCore 1", core),
            plane("/device:CUSTOM:Megascale Trace", {"send": [("dcn", 0, US, {})]}),
        )
    )
    (trace,) = traces.values()
    work = trace.events.query("category == 'kernel'")
    assert sorted(work.name) == ["fusion.1", "fusion.2", "fusion.3", "fusion.4", "gather"]
    assert trace.events.name[trace.events.category == "gpu_user_annotation"].tolist() == ["while.1"]
    assert temporal_breakdown(traces).busy_ns.tolist() == [75_000]
    assert step_times(traces).step.tolist() == [7]
    details = " ".join(traces.problems.detail)
    assert "overflow" not in set(traces.problems.kind)
    assert "Megascale Trace" in details


def test_two_captures_of_a_host_are_said_to_be_two_runs(tmp_path):
    for run, host in (("10_00", "a"), ("11_00", "a"), ("11_00", "b")):
        path = tmp_path / f"plugins/profile/2026_01_01_{run}_00/{host}.xplane.pb"
        path.parent.mkdir(parents=True, exist_ok=True)
        write_profile(path, gpu_profile(1).replace(b"node0", f"node{host}".encode()))
    traces = hw.load(tmp_path, cache=False, progress=False)
    said = traces.problems.query("kind == 'duplicate_rank'")
    assert [path.rpartition("profile/")[2] for path in said.file] == [
        "2026_01_01_11_00_00/a.xplane.pb"
    ]


def test_lines_since_the_start_and_since_1970_are_on_one_clock(opened):
    work = {"Stream #1(Kernel)": [("gemm", 0, US, {})]}
    calls = {"python": [("step", 0, US, {})]}
    traces = opened(
        profile(
            plane("/device:GPU:0", work, first_ns=2_000),
            plane("/host:CPU", calls, first_ns=START_NS + 500),
        )
    )
    assert (traces.origin_ns, traces[0].events.start_ns.tolist()) == (START_NS + 500, [0, 1_500])


@pytest.mark.parametrize("folders", ["{}/plugins/profile/2026", "logs/plugins/profile/{}"])
def test_two_captures_of_a_host_are_two_jobs(tmp_path, folders):
    for run in ("first", "second"):
        path = tmp_path / folders.format(run) / "a.xplane.pb"
        path.parent.mkdir(parents=True)
        write_profile(path, gpu_profile(2))
    traces = hw.load(tmp_path, cache=False, progress=False)
    jobs = [trace.job for trace in traces.values()]
    assert len(set(jobs)) == 2
    assert [job.count("second") for job in jobs] == [0, 0, 1, 1]
    # Each of three steps in both captures has a collective of two devices.
    frame = collectives(traces)
    assert frame.groupby("collective")["rank"].apply(list).tolist() == [[0, 1], [2, 3]] * 3


def test_a_capture_in_the_current_folder_is_a_job_with_the_name_of_the_folder(
    tmp_path, monkeypatch
):
    for folder in (tmp_path / "first", tmp_path / "first/second"):
        folder.mkdir()
        write_profile(folder / "a.xplane.pb", gpu_profile(1))
    monkeypatch.chdir(tmp_path / "first")
    traces = load(["a.xplane.pb", "second/a.xplane.pb"])
    assert [trace.job for trace in traces.values()] == ["first", "second"]


def test_captures_of_different_hosts_are_one_job(tmp_path):
    for host in ("a", "b"):
        path = tmp_path / f"{host}/{host}.xplane.pb"
        path.parent.mkdir()
        write_profile(path, gpu_profile(1).replace(b"node0", f"node{host}".encode()))
    traces = hw.load(tmp_path, cache=False, progress=False)
    assert [trace.job for trace in traces.values()] == [None, None]
    assert collectives(traces).collective.nunique() == 3


def test_operations_that_the_host_runs_count_once(opened):
    dot = ("dot.4", 0, 40_000_000, {"hlo_op": "dot.4", "hlo_module": "jit_f"})
    data = profile(plane("/host:CPU", {"tf_XLAEigen/7": [dot]}))
    frame = operators(opened(data))
    assert frame[["name", "count", "cpu_total_ns"]].to_numpy().tolist() == [["dot.4", 1, 40_000]]


def test_planes_of_hosts_have_any_name_and_counters_are_no_work(opened):
    sample = ("SM active", 5_000_000, 5_000_000, {"counter_value": 7})
    lines = {"Stream #13": [("gemm", 0, 40_000_000, {})], "_counters_": [sample]}
    call = ("$train.py:1 main", 0, 9_000_000, {})
    for counted in (lines, {"Kernels": lines["Stream #13"], "_counters_": [sample]}):
        trace_set = opened(
            profile(plane("/device:GPU:0", counted), plane("/host:python-tracer", {"p": [call]}))
        )
        assert sorted(trace_set[0].events.name) == ["$train.py:1 main", "gemm"]
        counts = dict(trace_set.problems[["detail", "count"]].to_numpy().tolist())
        assert counts["counter samples are left out"] == 1
        assert not any("repeat" in detail for detail in counts)


@pytest.mark.parametrize("entry", [b"", message(2, "")])
def test_events_whose_names_the_profile_lacks_are_named_by_their_ids(tmp_path, entry):
    """Two hosts; one id has an empty entry, another has none."""

    def device(number_of_device, first):
        events = b"".join(
            message(4, number(1, code) + number(2, first + 1_000 * at) + number(3, 1_000))
            for at, code in enumerate((1, 2, 99))
        )
        names = [(1, message(2, "gemm")), (2, entry)]
        known = b"".join(
            message(4, number(1, code) + message(2, number(1, code) + name)) for code, name in names
        )
        line = message(3, number(1, 1) + message(2, "Stream #4(Compute)") + number(3, 7) + events)
        idle_line = message(3, number(1, 2) + message(2, "Stream #5(MemcpyH2D)"))
        return message(2, f"/device:GPU:{number_of_device}") + line + idle_line + known

    for host in (0, 1):
        planes = [device(number, host * 1_000) for number in (0, 1)]
        planes.append(message(2, "/device:GPU:2"))  # without lines
        write_profile(tmp_path / f"{host}.xplane.pb", profile(*planes, host=f"node{host}"))
    traces = load(tmp_path)
    assert [trace.host for trace in traces.values()] == ["node0", "node0", "node1", "node1"]
    for trace in traces.values():
        assert trace.events.name.tolist() == ["gemm", "event 2", "event 99"]
        assert trace.events.dur_ns.tolist() == [1, 1, 1]
    problems = traces.problems.query("kind == 'part'")
    assert problems["count"].tolist() == [4, 4]
    assert problems.detail.str.startswith("names missing from the profile").all()
