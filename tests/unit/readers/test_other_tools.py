"""Devices of tools other than Kineto count separately, and so do ranks merged into a file."""

import json
from collections import Counter

import pytest

import hta_widgets as hw
from hta_widgets import analysis
from hta_widgets.panels.headline import headline

from .conftest import event

#: Sums over ranks in ns: compute, communication, copies, exposed communication.
CASES = {
    "npu": (300_125, 300_000, 0, 149_875),
    "jax": (1_998_000, 798_000, 122_000, 798_000),
    "nsys-json": (301_500, 180_000, 0, 180_000),
    "legacy": (900_750, 0, 0, 0),
    "sglang-merged": (7_250_000, 1_750_000, 0, 1_750_000),
}


def times(traces):
    names = ["compute_ns", "communication_ns", "memory_ns", "exposed_communication_ns"]
    return analysis.temporal_breakdown(traces)[names]


def row(process, thread, name, start, dur, **more):
    """Return an event without a category, in a process and thread given by name only."""
    return event(name, start, dur, pid=process, tid=thread, **more) | {"cat": ""}


def named(pid, name, *threads, label=None):
    """Return the metadata of a process and its threads, which are numbered from 1."""
    records = [{"ph": "M", "pid": pid, "name": "process_name", "args": {"name": name}}]
    if label is not None:
        args = {"labels": label}
        records.append({"ph": "M", "pid": pid, "name": "process_labels", "args": args})
    return records + [
        {"ph": "M", "pid": pid, "tid": tid, "name": "thread_name", "args": {"name": thread}}
        for tid, thread in enumerate(threads, 1)
    ]


@pytest.mark.parametrize("case", CASES)
def test_device_time_of_the_public_cases(shared, case):
    traces = hw.load(shared / "cases" / case, cache=False)
    assert tuple(times(traces).sum()) == CASES[case]
    assert "No GPU work" not in str(headline(traces))


DEVICES = {
    "TPU without streams": (
        named(7, "/device:TPU:3", "Steps", "XLA Modules", "XLA Ops"),
        [row(7, 1, "3", 0, 90), row(7, 3, "fusion.4", 0, 30), row(7, 3, "all-gather.1", 40, 10)],
        (30_000, 10_000, 0, 10_000),
    ),
    "TPU copies": (
        named(7, "/device:TPU:0", "XLA Ops"),
        [row(7, 1, "copy-start.12", 0, 5), row(7, 1, "dot.1", 5, 20)],
        (20_000, 0, 5_000, 0),
    ),
    "processes in place of metadata": (
        [],
        [row("GPU 12", "Stream 3", "gemm", 0, 50), row("GPU 12", "CUDA API", "launch", 0, 99)],
        (50_000, 0, 0, 0),
    ),
    "old PyTorch on ROCm": (
        [],
        [row("HIP functions", 2, "gemm", 0, 8), row("CPU functions", 2, "aten::mm", 0, 9)],
        (8_000, 0, 0, 0),
    ),
    "HCCL": (
        [*named(8, "Ascend Hardware", "Stream 40", label="NPU"),
         *named(9, "Communication", "Group 7 Communication", "Plane 0", label="NPU")],
        [row(8, 1, "MatMul", 0, 10), row(8, 1, "EVENT_WAIT", 10, 9),
         row(9, 1, "hcom_allGather__1", 5, 10), row(9, 2, "Memcpy", 6, 3)],
        (10_000, 10_000, 0, 5_000),
    ),
    "names of nvprof": (
        named("CUDA Device 1", "CUDA Device 1", "Stream 13"),
        [row("CUDA Device 1", 1, "[CUDA memcpy HtoD]", 0, 9),
         row("CUDA Device 1", 1, "[CUDA memset]", 9, 2), row("CUDA Device 1", 1, "gemm", 11, 5)],
        (5_000, 0, 11_000, 0),
    ),
    "TensorFlow 1": (  # one process has all device work, others have parts of it
        [
            *named(1, "/job:localhost/replica:0/task:0/device:GPU:0 Compute"),
            *named(2, "/device:GPU:0/stream:all Compute"),
            *named(4, "/device:GPU:0/memcpy Compute"),
            *named(3, "/device:GPU:0/stream:15 Compute"),
        ],
        [
            *(row(1, 0, "MatMul", 0, 12), row(2, 0, "MatMul:sgemm", 5, 30)),
            row(3, 0, "sgemm", 5, 30),
            *(row(2, 0, "MEMCPYHtoD", 40, 10), row(4, 0, "MEMCPYHtoD", 40, 10)),
        ],
        (30_000, 0, 10_000, 0),
    ),
    "TensorFlow 1 by stream": (
        [
            *named(1, "/job:worker/replica:0/task:3/device:GPU:1 Compute"),
            *named(2, "/device:GPU:1/stream:13 Compute"),
            *named(3, "/device:GPU:1/stream:7 Compute"),
            *named(4, "/device:GPU:1/memcpy Compute"),
        ],
        [
            *(row(1, 0, "MatMul", 0, 12), row(2, 0, "sgemm", 0, 10), row(3, 0, "sgemm", 5, 10)),
            row(4, 0, "MEMCPYDtoH", 30, 10),
        ],
        (15_000, 0, 10_000, 0),
    ),
    "TensorFlow 1 without streams": (
        named(2, "/job:localhost/replica:0/task:0/device:GPU:0 Compute"),
        [row(2, 0, "MatMul", 5, 10)],
        (10_000, 0, 0, 0),
    ),
    "MXNet": (
        [*named(0, "cpu/0"), *named(3, "gpu/0")],
        [
            row(0, 1, "Embedding", 0, 50) | {"cat": "operator"},
            row(3, 5, "Convolution", 10, 20) | {"cat": "operator"},
            row(3, 5, "CopyGPU2CPU", 40, 5) | {"cat": "operator"},
        ],
        (20_000, 0, 5_000, 0),
    ),
    "hosts alone": (
        named(7, "/host:CPU", "Stream of thoughts"),
        [row(7, 1, "gemm", 0, 10), row("/device:CPU:0", 1, "dot", 0, 10)],
        (0, 0, 0, 0),
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", DEVICES)
def test_devices_by_the_names_of_processes_and_threads(write, case):
    metadata, records, expected = DEVICES[case]
    assert tuple(times(hw.load(write([*metadata, *records]))).sum()) == expected


@pytest.mark.parametrize(
    ("process", "word"),
    [
        ("Nvidia GPU 0", "GPU"),
        ("AMD GPU 3", "GPU"),
        ("cuda:1", "GPU"),
        ("CUDA HW (0000:1b:00.0 - NVIDIA A100)", "GPU"),
        ("MTIA 0", "MTIA"),
        ("NeuronCore 2", "NeuronCore"),
        ("neuron_core 0", "NeuronCore"),
        ("Tesla V100-SXM2-16GB (0)", "GPU"),
        ("AMD Instinct MI300X", "GPU"),
        ("GPU [4] Kernel Dispatch", "GPU"),
        ("DEVICE<node1>0:29:0:0 #0", "GPU"),  # Intel's unitrace
        ("Gaudi2 HPU 0", "HPU"),
        ("NVIDIA driver", ""),
        ("AMD EPYC 9654", ""),
        ("nvidia-smi", ""),
        ("GPU Process", ""),  # a browser's process
        ("Device Manager 2", ""),
    ],
)
def test_further_names_of_devices(write, process, word):
    records = [*named(1, process, "Stream 7"), row(1, 1, "gemm", 0, 30), row(1, 1, "gemm", 40, 10)]
    traces = hw.load(write(records))
    text = str(headline(traces))
    if word:
        assert tuple(times(traces).sum()) == (40_000, 0, 0, 0)
        assert text.startswith(f"The {word} is idle 20")
    else:
        assert text.startswith("No GPU work in these files")


def test_each_device_of_a_process_has_its_own_figures(write):
    """Two devices work alternately; neither hides the idle time of the other."""

    def kernel(device, start, call):
        launch = event("cudaLaunchKernel", start, 1, cat="cuda_runtime", pid=1, tid=10 + device)
        work = event("gemm", start + 2, 5, cat="kernel", pid=device, tid=7)
        work["args"] = {"stream": 7, "device": device, "correlation": call}
        return [launch | {"args": {"correlation": call}}, work]

    devices = [10, 3, 10, 3, 10, 3]
    records = [
        record for k, device in enumerate(devices) for record in kernel(device, 10 * k, k + 1)
    ]
    traces = hw.load(write(records))
    assert analysis.temporal_breakdown(traces)["idle_ns"].tolist() == [30_000, 30_000]
    assert traces.summary()["local_rank"].tolist() == [3, 10]
    assert traces.problems["detail"].str.startswith("is one of 2 ranks or devices").all()
    assert [(trace.launch_of >= 0).sum() for trace in traces.values()] == [3, 3]
    assert [len(trace) for trace in traces.values()] == [6, 6]
    assert "rank 1 · device 10" in json.dumps(hw.Timeline(traces).scene, ensure_ascii=False)


def test_a_kernel_without_a_process_is_of_no_device_of_its_own(write):
    work = [event("gemm", 10 * k, 5, cat="kernel", pid=0, tid=7) for k in range(2)]
    del work[1]["pid"], work[1]["tid"]
    assert times(hw.load(write(work)))["compute_ns"].tolist() == [10_000]


def test_devices_share_the_threads_that_launch_on_all_or_on_none(write):
    """One thread launches on three GPUs in turn; another one marks the step."""
    host = {"pid": 1, "tid": 10}
    records = [
        event("ProfilerStep#4", 0, 80, cat="user_annotation", pid=1, tid=9),
        event("aten::mm", 9, 60, cat="cpu_op", **host),
        event("cudaDeviceSynchronize", 62, 7, cat="cuda_runtime", **host),
        {"ph": "C", "name": "level", "ts": 1, "args": {"value": 1}, **host},
    ]
    for call, device in enumerate([5, 0, 2, 5, 0, 2], 1):
        args, at = {"correlation": call}, 10 * call
        flow = {"name": "ac2g", "cat": "ac2g", "id": call}
        records += [
            event("cudaLaunchKernel", at, 1, cat="cuda_runtime", **host) | {"args": args},
            event("gemm", at + 4, 5, cat="kernel", pid=device, tid=7)
            | {"args": args | {"stream": 7, "device": device}},
            flow | {"ph": "s", "ts": at, **host},
            flow | {"ph": "f", "bp": "e", "ts": at + 4, "pid": device, "tid": 7},
        ]
    traces = hw.load(write(records))
    problems = traces.problems.query("kind != 'guessed_rank'")
    assert problems[["kind", "count"]].to_numpy().tolist() == [["merged", 9]]
    assert [(trace.launch_of >= 0).sum() for trace in traces.values()] == [2, 2, 2]
    assert sorted(len(trace.counters) for trace in traces.values()) == [0, 0, 1]
    operators = analysis.operators(traces).query("name == 'aten::mm'")
    assert operators["device_total_ns"].tolist() == [10_000, 10_000, 10_000]
    # The synchronizing call waits for the last kernel on this device.
    path = analysis.critical_path(traces, rank=1)
    assert path["dur_ns"].sum() == 80_000
    assert path.query("name == 'gemm'")["dur_ns"].tolist() == [4_000, 5_000]  # launch, work
    idle = analysis.device_idle_breakdown(traces)
    assert idle.groupby("rank")["idle_ns"].sum().tolist() == [25_000, 25_000, 25_000]


LABELS = [
    *("[TP0{}] ", "[DP00-TP0{}] ", "[rank {}] ", "[rank {}/4] ", "Rank {}: ", "rank{}/", "tp_{} "),
    *("VLLM::Worker_TP{} ", "trainer (rank: {}) ", "worker rank={} "),
]


@pytest.mark.parametrize("in_metadata", [False, True])
@pytest.mark.parametrize("label", LABELS)
def test_ids_of_merged_ranks_are_their_own(write, label, in_metadata):
    records = []
    for rank in (3, 1):
        pids = [f"{label.format(rank)}{process}" for process in (7, 0)]
        if in_metadata:
            names, pids = pids, [100 * rank, 100 * rank + 1]
            records += [record for pair in zip(pids, names, strict=True) for record in named(*pair)]
        call = event("cudaLaunchKernel", 0, 1, cat="cuda_runtime", pid=pids[0])
        work = event("gemm", 5 * rank, 2, cat="kernel", pid=pids[1], tid=7)
        call["args"], work["args"] = {"correlation": 1}, {"correlation": 1, "stream": 7}
        records += [call, work]
    traces = hw.load(write(records))
    assert len(traces) == 2
    assert [(trace.launch_of >= 0).sum() for trace in traces.values()] == [1, 1]
    starts = [trace.events.query("name == 'gemm'")["start_ns"].item() for trace in traces.values()]
    assert starts == [5_000, 15_000]


def test_processes_that_use_the_same_ids_launch_on_a_device_each(write):
    """A script merged the files of two ranks; the second process is slower to launch."""
    records = []
    for device, pid in enumerate([900, 1000]):
        call = event("cudaLaunchKernel", device, 1, cat="cuda_runtime", pid=pid)
        work = event("gemm", 10 + 10 * device, 5, cat="kernel", pid=device, tid=7)
        call["args"], work["args"] = {"correlation": 1}, {"correlation": 1, "stream": 7}
        records += [call, work]
    traces = hw.load(write(records))
    assert [trace.events["start_ns"].tolist() for trace in traces.values()] == [
        [0, 10_000], [1_000, 20_000],
    ]  # fmt: skip
    assert [trace.launch_of.tolist() for trace in traces.values()] == [[-1, 0], [-1, 0]]
    assert "same ids on different devices" in str(traces.problems["detail"].tolist())


def test_merged_ranks_are_all_there(shared):
    frame = analysis.stragglers(hw.load(shared / "cases/sglang-merged", cache=False))
    assert frame["is_straggler"].tolist() == [False, True]
    assert "missing" not in frame.attrs.get("note", "")


def test_the_last_rank_may_be_ready_at_the_end_of_the_negotiation(write):
    """Horovod ends the phase when the last rank is ready, often in the same microsecond."""
    phase = [
        row(0, 0, "NEGOTIATE_ALLGATHER", 100, 800),
        *(row(0, 0, name, at, 0) for name, at in (("0", 150), ("3", 900), ("1", 400))),
        row(0, 0, "ALLGATHER", 900, 70),
    ]
    ready = analysis.horovod_readiness(hw.load(write(phase))).set_index("rank")
    assert ready["score"].to_dict() == {0: 0, 1: 0, 3: 1}
    assert ready.loc[3, "imposed_wait_ns"] == 750_000 + 500_000


def test_phases_of_horovod(shared):
    traces = hw.load(shared / "cases/horovod/timeline.json", cache=False)
    events = traces.events()
    phases = events.groupby("name", observed=True)
    kinds = phases["kind"].first().astype(str)
    assert kinds["NEGOTIATE_ALLREDUCE"] == kinds["NCCL_ALLREDUCE"] == "communication"
    assert (kinds["ALLREDUCE"], kinds["MEMCPY_IN_FUSION_BUFFER"]) == ("annotation", "memory")
    assert phases["dur_ns"].max()[["NEGOTIATE_ALLREDUCE", "ALLREDUCE"]].tolist() == [
        3_050_000,
        600_000,
    ]
    assert set(traces.problems["kind"]) == {"guessed_rank"}


def test_an_export_of_a_horovod_timeline_is_a_rank_of_its_set(write, tmp_path):
    phase = event("NEGOTIATE_ALLGATHER", 0, 5)
    files = [write([event(), event()], "a.json"), write([phase], "b.json")]
    copy = hw.export_trace(hw.load(files), tmp_path / "copy").path
    assert hw.load(copy).summary()["events"].tolist() == [2, 1]


def test_a_list_that_ends_in_a_record_is_still_cut_off(shared):
    problems = hw.load(shared / "cases/horovod/timeline-cut.json", cache=False).problems
    assert "truncated" in set(problems["kind"])


def test_an_empty_object_at_the_start_or_the_end_is_no_problem(write):
    """JAX ends its list with an empty object, and rocprof begins its list with one."""
    counts = []
    for records in ([event(), {}], [{}, event()], [event(), {}, event()], [event(), {"name": "x"}]):
        problems = hw.load(write(records)).problems
        counts.append(problems[problems["kind"] == "skipped"]["count"].sum())
    assert counts == [0, 0, 1, 1]


def test_the_copy_for_perfetto_is_the_same_run(write):
    for name in ("b.trace.json.gz", "perfetto_trace.json.gz"):
        folder = write([event()], f"run/{name}").parent
    assert len(hw.load(folder)) == 1
    write([event()], "alone/perfetto_trace.json.gz")
    assert len(hw.load(folder.parent / "alone")) == 1


@pytest.mark.parametrize(
    ("names", "ranks"), [(("a.json", "b.json.gz"), 1), (("a.json", "b.json"), 2)]
)
def test_a_compressed_copy_is_the_same_run(write, names, ranks):
    paths = [write([event()], f"run/{name}") for name in names]
    assert len(hw.load(paths[0].parent)) == ranks
    assert len(hw.load(paths)) == 2  # the caller named both files


def test_mpi_on_hosts_is_no_communication_of_devices(write):
    """Rank 1 is late at every NCCL all-reduce; the host of each rank waits 5 ms in MPI."""
    for rank in (0, 1):
        records = [event("MPI_Barrier", 0, 5000, cat="mpi", pid=5, tid=5)]
        for k in range(5):
            late = 200 * rank
            work = event("gemm", 1000 * k, 500 + late, tid=7)
            reduce = event("ncclDevKernel_AllReduce", 1000 * k + 500 + late, 300 - late, tid=9)
            for kernel in (work, reduce):
                stream = {"stream": kernel["tid"]}
                records.append(kernel | {"cat": "kernel", "pid": 0, "args": stream})
        folder = write(records, f"job/rank{rank}.json").parent
    traces = hw.load(folder)
    assert times(traces)["exposed_communication_ns"].tolist() == [1_500_000, 500_000]
    assert analysis.stragglers(traces)["is_straggler"].tolist() == [False, True]


def test_equal_devices_of_two_workers_of_tensorflow_1(write):
    device = "/job:worker/replica:0/task:{}/device:GPU:0 Compute"
    records = [*named(1, device.format(0)), *named(2, device.format(1))]
    records += [row(1, 0, "MatMul", 0, 10), row(2, 0, "MatMul", 5, 20)]
    assert times(hw.load(write(records)))["compute_ns"].tolist() == [10_000, 20_000]


@pytest.mark.parametrize("device", ["/device:GPU:{}", "/gpu:{}"])
@pytest.mark.parametrize("prefix", ["", "/job:localhost/replica:0/task:0"])
def test_each_rank_of_tensorflow_1_has_the_operators_and_streams_of_its_device(
    write, device, prefix
):
    """Before TensorFlow 1.4, devices were named ``/gpu:0``."""
    records = [
        *named(9, "/job:localhost/replica:0/task:0/cpu:0 Compute"),
        row(9, 0, "Concat", 0, 2),
    ]
    for number in (0, 1):
        name, pid, start = device.format(number), 10 * (number + 1), 100 * number
        records += [
            *named(pid, f"/job:localhost/replica:0/task:0{name} Compute"),
            row(pid, 0, "MatMul", start, 3),
            *named(pid + 1, f"{prefix}{name}/stream:all Compute"),
            row(pid + 1, 0, "MatMul", start + 5, 30),
            row(pid + 1, 1, "MEMCPYHtoD", start + 6, 4),
            *named(pid + 2, f"{prefix}{name}/stream:11 Compute"),
            row(pid + 2, 0, "MatMul", start + 5, 30),
            *named(pid + 3, f"{prefix}{name}/memcpy Compute"),
            row(pid + 3, 0, "MEMCPYHtoD", start + 6, 4),
        ]
    traces = hw.load(write(records), cache=False)
    assert times(traces)[["compute_ns", "memory_ns"]].to_numpy().tolist() == [[30_000, 4_000]] * 2
    assert [len(trace) for trace in traces.values()] == [6, 5]
    starts_ns = [sorted(trace.events.start_ns)[-5:] for trace in traces.values()]
    assert starts_ns[1] == [start_ns + 100_000 for start_ns in starts_ns[0]]


def test_rows_that_repeat_the_work_of_an_ascend_device_are_in_its_rank(write):
    records = []
    for number in (0, 1):
        label = f"NPU {number}"
        records += [
            *named(number + 1, "Ascend Hardware", "Stream 2", label=label),
            row(number + 1, 1, "MatMul", 5, 10 + number),
            *named(number + 5, "Overlap Analysis", "Computing", label=label),
            row(number + 5, 1, "Computing", 5, 10 + number),
        ]
    traces = hw.load(write(records), cache=False)
    durations_ns = [trace.events.dur_ns.tolist() for trace in traces.values()]
    assert durations_ns == [[10_000] * 2, [11_000] * 2]


@pytest.mark.parametrize("has_flows", [True, False])
@pytest.mark.parametrize("process", ["Deivce 0 (GPU)", "Device 0 (GPU)"])
def test_names_steps_and_links_of_paddle(write, has_flows, process):
    """Names end in the duration, and ids have an arg whose name contains a space."""

    def timed(name, start, dur, category, pid=4242, tid="7(C++)", **args):
        text = f"{dur:.3f} us" if dur <= 1000 else f"{dur / 1000:.3f} ms"
        return event(f"{name}[{text}]", start, dur, cat=category, pid=pid, tid=tid) | {"args": args}

    records = [
        *named(4242, "Process 4242 (CPU)"),
        *named(0, process),
        timed("ProfileStep#3", 0, 2000, "ProfileStep"),
        timed("matmul dygraph", 10, 90, "Operator"),
    ]
    calls = [("cudaLaunchKernel", "gemm<float>", "Kernel", 30.5), ("cudaMemcpyAsync", "MEMCPY_HtoD",
             "Memcpy", 10), ("cudaLaunchKernel", "gemm<float>", "Kernel", 1500.25)]  # fmt: skip
    for number, (call, work, category, dur) in enumerate(calls, 1):
        ids, start = {"correlation id": number}, 100 + 50 * number
        records += [
            timed(call, 20 * number, 5, "CudaRuntime", **ids),
            timed(work, start, dur, category, pid=0, tid=7, stream=7, **ids),
        ]
        flow = {"name": "launch", "cat": "async", "id": number}
        if has_flows:
            records += [
                {"ph": "s", "pid": 4242, "tid": "7(C++)", "ts": 20 * number + 2, **flow},
                {"ph": "f", "bp": "e", "pid": 0, "tid": 7, "ts": start + 5, **flow},
            ]
    traces = hw.load(write(records), cache=False)
    kernels = analysis.kernel_breakdown(traces).set_index("name")
    assert kernels["sum_ns"].to_dict() == {"gemm<float>": 1_530_750, "MEMCPY_HtoD": 10_000}
    launches = analysis.launch_stats(traces).sort_values("correlation")
    assert launches["correlation"].tolist() == [1, 2, 3]
    assert launches["launch"].tolist() == [call for call, *_ in calls]
    assert launches["gpu_dur_ns"].tolist() == [30_500, 10_000, 1_500_250]
    assert analysis.step_times(traces)[["step", "dur_ns"]].to_numpy().tolist() == [[3, 2_000_000]]
    operators = analysis.operators(traces)
    assert operators["name"].tolist() == ["matmul dygraph"]
    assert operators["device_total_ns"].tolist() == [1_540_750]


@pytest.mark.parametrize("word", ["AI Core Op", "AICORE OP", "Ascend Op"])
@pytest.mark.parametrize("device", [0, 3])
def test_processes_of_mindspore_have_labels_and_are_one_device(write, word, device):
    def label(pid, text):
        return {"ph": "M", "pid": pid, "name": "process_labels", "args": {"labels": text}}

    def thread(pid, tid, name):
        return {"ph": "M", "pid": pid, "tid": tid, "name": "thread_name", "args": {"name": name}}

    records = [
        *(label(*pair) for pair in ((device, word), (9000, "AICPU OP"), (10000, "Communication Op"),
                                    (11000, "Host CPU OP"), (12000, "Op Overlap Analyse"))),
        *(thread(*names) for names in ((device, 100000, "Steps"), (device, 5, "Stream #5"),
                                       (10000, 9, "Stream #9"), (12000, 8002, "Free Time"))),
        row(device, 100000, "1", 0, 300),
        row(device, 5, "Default/MatMul-op1", 10, 50),
        row(9000, 8, "Default/GetNext-op4", 70, 10),
        row(10000, 9, "Default/AllReduce-op5", 75, 25),
        row(11000, 1, "HostOp", 0, 5),
        row(12000, 8002, "Free Time", 60, 10),
    ]  # fmt: skip
    traces = hw.load(write(records), cache=False)
    assert times(traces).to_numpy().tolist() == [[60_000, 25_000, 0, 20_000]]
    assert len(traces[0]) == 6


def test_arrows_of_unitrace_are_launches_and_returns(write):
    """Intel's unitrace writes the id of a flow into its category, and no end records."""
    records = [*named(7, "HOST<node1>"), *named(99, "DEVICE<node1>0:29:0:0 #0")]
    count = 300
    for k in range(count):
        start = 100 * k
        for name, after in [("zeCommandListAppendLaunchKernel", 0), ("zeEventHostSynchronize", 70)]:
            records.append(row(7, 7, name, start + after, 9) | {"cat": "cpu_op"})
        records.append(row(99, 5, "gemm[SIMD32]", start + 20, 50) | {"cat": "gpu_op"})
        for way, ends in [("H2D", [(7, 7, 0), (99, 5, 20)]), ("D2H", [(99, 5, 20), (7, 7, 75)])]:
            flow = {"cat": f"Flow_{way}_{k}_0", "id": k}
            for phase, (pid, tid, after) in zip("st", ends, strict=True):
                records.append(flow | {"ph": phase, "pid": pid, "tid": tid, "ts": start + after})
    traces = hw.load(write(records))
    assert Counter(traces[0].flows["kind"]) == {"launch": count, "Flow_D2H": count}
    assert len(analysis.launch_stats(traces)) == count
    assert tuple(times(traces).sum()) == (50_000 * count, 0, 0, 0)
    assert set(traces.problems["kind"]) == {"guessed_rank"}
