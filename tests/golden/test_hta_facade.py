"""`TraceAnalysis` against HTA's own numbers, on every trace that it returned numbers for.

As HTA sees the events: with its rounding of times, where a file has fractions of a microsecond.
What still differs stands in `DIFFERENCES`, with the reason.
"""

import functools
import json

import numpy as np
import pandas as pd
import pytest
from support import golden
from support.hta_rounding import rounded

import hta_widgets as hw

pytestmark = pytest.mark.skipif(not golden.names(), reason=golden.MISSING)

#: The calls whose launches HTA 0.5.0 counts.
LAUNCHES = {
    "cudaLaunchKernel",
    "cudaLaunchKernelExC",
    "runFunction - job_prep_and_submit_for_execution",
    "cudaMemcpyAsync",
    "cudaMemsetAsync",
}
STATISTICS = ("count", "mean", "std", "min", "25%", "50%", "75%", "max")


@functools.cache
def analyzer(name):
    return hw.TraceAnalysis(trace_dir=golden.trace_path(name))


@functools.cache
def seen_by_hta(name):
    """The facade over the events as HTA rounds them."""
    facade = hw.TraceAnalysis(trace_dir=golden.trace_path(name))
    facade.t._base = rounded(facade.t.kept)
    whole = rounded(facade.t)
    facade.t._traces = dict(whole.items())
    return facade


def cells(frame, keys, columns=None):
    """{(key, …, column): value} of a frame."""
    columns = (
        [column for column in frame.columns if column not in keys] if columns is None else (columns)
    )
    rows = frame[[*keys, *columns]].to_dict("records")
    return {
        (*(row[key] for key in keys), column): row[column] for row in rows for column in columns
    }


def differing(expected, got, close):
    """Return rows of one side only, or that differ by more than `close`, with both values."""
    found = {}
    for key in {**expected, **got}:
        a, b = expected.get(key, np.nan), got.get(key, np.nan)
        if isinstance(a, str) or isinstance(b, str):
            same = a == b
        else:
            same = np.isclose(a, b, rtol=1e-9, atol=close) or (pd.isna(a) and pd.isna(b))
        if not same:
            found[key] = (a, b)
    return found


# --- both readings of each file -------------------------------------------------------------------


def by(*keys, columns=None):
    return lambda frame: cells(frame, list(keys), columns)


def ranks_of(facade):
    return facade.t.ranks


def temporal(facade):
    return facade.get_temporal_breakdown(visualize=False)


def overlap(facade):
    return facade.get_comm_comp_overlap(visualize=False)


def idle(facade):
    return facade.get_idle_time_breakdown(ranks_of(facade), visualize=False)[0]


def idle_stats(facade):
    return (
        facade.get_idle_time_breakdown(
            ranks_of(facade), visualize=False, show_idle_interval_stats=True
        )[1]
        .rename_axis("idle_category")
        .reset_index()
    )


def kernels(which, **options):
    return lambda facade: facade.get_gpu_kernel_breakdown(visualize=False, **options)[which]


def launch_stats(include_memory_events):
    def read(facade):
        found = facade.get_cuda_kernel_launch_stats(
            ranks_of(facade), include_memory_events=include_memory_events, visualize=False
        )
        frame = below(found)
        columns = ["rank", "correlation", "cpu_duration", "gpu_duration", "launch_delay"]
        return frame.loc[frame["launch"].isin(LAUNCHES), columns]

    return read


def below(found):
    """The frames of all ranks as one; what their index holds becomes a column."""
    frames = [frame.reset_index().assign(rank=rank) for rank, frame in found.items()]
    return pd.concat(frames, ignore_index=True)


def flat(summary, *keys):
    frame = summary.copy()
    frame.columns = frame.columns.get_level_values(1)
    return frame.rename_axis(list(keys)).reset_index()


def untied(frame):
    """A queue's length where several events change it at an instant is one of several."""
    frame = frame.copy()
    tied = frame.duplicated(["rank", "stream", "ts"], keep=False)
    frame["queue_length"] = frame["queue_length"].astype(float).mask(tied)
    return frame


def queue_series(facade):
    return untied(below(facade.get_queue_length_time_series(ranks_of(facade))))


def queue_summary(facade):
    return flat(facade.get_queue_length_summary(ranks_of(facade)), "rank", "stream")


def blocked(limit):
    def read(facade):
        series = facade.get_queue_length_time_series(ranks_of(facade))
        return facade.get_time_spent_blocked_on_full_queue(series, max_queue_length=limit)

    return read


def bandwidth_series(facade):
    return below(facade.get_memory_bw_time_series(ranks_of(facade)))


def bandwidth_summary(facade):
    return flat(facade.get_memory_bw_summary(ranks_of(facade)), "rank", "name")


def annotations(use_gpu_annotation):
    return lambda facade: facade.get_gpu_user_annotation_breakdown(
        use_gpu_annotation, visualize=False
    )


def annotated(facade):
    rank = ranks_of(facade)[0]
    frame = facade.get_gpu_kernels_with_user_annotations(rank).assign(rank=rank)
    frame.loc[frame["s_user_annotation"] == "", "s_user_annotation"] = np.nan
    return frame


def operator_delays(facade):
    rank = ranks_of(facade)[0]
    return facade.get_aten_op_kernels_and_delay([rank])[rank].assign(rank=rank)


KERNEL_KEYS = ("rank", "kernel_type", "name")
LAUNCH_KEYS = ("rank", "correlation")

#: The call, the key of a row in both frames, and half a unit of HTA's last digit.
FILES = {
    "temporal_breakdown.csv": (temporal, by("rank"), 0.00501),
    "comm_comp_overlap.csv": (overlap, by("rank"), 0.00501),
    "idle_time_breakdown.time.csv": (idle, by("rank", "stream", "idle_category"), 0.00501),
    "idle_time_breakdown.interval_stats.csv": (
        idle_stats,
        by("rank", "stream", "idle_category"),
        0.00501,
    ),
    "gpu_kernel_breakdown.types.csv": (kernels(0), by("kernel_type"), 0.0501),
    "gpu_kernel_breakdown.kernels.csv": (kernels(1), by(*KERNEL_KEYS, columns=["sum (us)"]), 0),
    "gpu_kernel_breakdown_all.types.csv": (
        kernels(0, num_kernels=10**6, duration_ratio=1.0),
        by("kernel_type"),
        0.0501,
    ),
    "gpu_kernel_breakdown_all.kernels.csv": (
        kernels(1, num_kernels=10**6, duration_ratio=1.0),
        by(*KERNEL_KEYS),
        1e-6,
    ),
    "gpu_kernel_breakdown_nomem.types.csv": (
        kernels(0, include_memory_kernels=False),
        by("kernel_type"),
        0.0501,
    ),
    "gpu_kernel_breakdown_nomem.kernels.csv": (
        kernels(1, include_memory_kernels=False),
        by(*KERNEL_KEYS, columns=["sum (us)"]),
        0,
    ),
    "cuda_kernel_launch_stats.csv": (launch_stats(True), by(*LAUNCH_KEYS), 0),
    "cuda_kernel_launch_stats_nomem.csv": (launch_stats(False), by(*LAUNCH_KEYS), 0),
    "queue_length_time_series.csv": (queue_series, by("rank", "index"), 0),
    "queue_length_summary.csv": (queue_summary, by("rank", "stream"), 1e-9),
    "blocked_on_full_queue_1024.csv": (blocked(1024), by("rank", "stream"), 1e-9),
    "blocked_on_full_queue_1.csv": (blocked(1), by("rank", "stream"), 1e-9),
    "memory_bw_time_series.csv": (
        bandwidth_series,
        by("rank", "name", "ts", columns=["pid", "memory_bw_gbps"]),
        1e-9,
    ),
    "memory_bw_summary.csv": (bandwidth_summary, by("rank", "name"), 1e-9),
    "gpu_user_annotation_breakdown_gpu.csv": (annotations(True), by("rank", "name"), 1e-6),
    "gpu_user_annotation_breakdown_cpu.csv": (annotations(False), by("rank", "name"), 1e-6),
    "gpu_kernels_with_user_annotations.csv": (
        annotated,
        by(
            "rank",
            "index",
            columns=[
                "s_name", "s_user_annotation", "stream", "ts", "dur", "correlation",
                "index_correlation", "iteration",
            ],
        ),
        0,
    ),
    "aten_op_kernels_and_delay.csv": (
        operator_delays,
        by("rank", "aten_op_name", "kernel_sequence"),
        0.000501,
    ),
}  # fmt: skip

CASES = [(name, file) for file in FILES for name in golden.names(file)]


def expected_of(name, file):
    if "summary" in file:
        frame = golden.frame(name, file, header=[0, 1], index_col=[0, 1])
        return flat(frame, "rank", "stream" if file.startswith("queue") else "name")
    frame = golden.frame(name, file)
    if file == "queue_length_time_series.csv":
        return untied(frame)
    # HTA also lists what took no time.
    return frame[frame["sum"] != 0] if file.endswith("types.csv") else frame


# --- what differs on purpose ----------------------------------------------------------------------

ALEXNET = "hta_tests__critical_path__alexnet"
EVENT_SYNC = "hta_tests__critical_path__cuda_event_sync"
MULTI_STREAM = "hta_tests__critical_path__cuda_event_sync_multi_stream"
SIMPLE_ADD = "hta_tests__critical_path__simple_add"
MTIA = "hta_tests__mtia_inference_trace"
TRITON = "hta_tests__triton_example"
NCCL = "hta_tests__nccl_parser_config"
NS = "hta_tests__ns_resolution_trace"
AMD = "hta_tests__amd_trace"
CONTROL = "hta_tests__trace_diff__control"
TEST = "hta_tests__trace_diff__test"
FILTER = "hta_tests__trace_filter"
RESNET = "kineto__resnet50_num_workers_0_a"

#: Which events are device work is the question of `test_hta_breakdowns`, where each of these
#: stands with both numbers.
OTHER_WORK = {
    ALEXNET: "waits on a stream (cuda_sync) do no work, and Stream Wait Event is not a kernel",
    EVENT_SYNC: "waits on a stream (cuda_sync) do no work",
    MULTI_STREAM: "Stream Wait Event is a wait, not a kernel",
    SIMPLE_ADD: "waits on a stream (cuda_sync) do no work, and Stream Wait Event is not a kernel",
    MTIA: "event_wait and event_record are waits; and HTA adds lengths of -1",
    TRITON: "Triton's operator is a host event, though it has a stream",
    TEST: "kernels of a stream overlap: gaps are not negative",
}
WORK = {
    "temporal_breakdown.csv": {ALEXNET, EVENT_SYNC, MULTI_STREAM, SIMPLE_ADD, MTIA, TRITON},
    "idle_time_breakdown.time.csv": {MTIA, TEST},
    "idle_time_breakdown.interval_stats.csv": {MTIA, TEST},
    "gpu_kernel_breakdown.types.csv": {ALEXNET, MULTI_STREAM, SIMPLE_ADD, MTIA, TRITON},
    "gpu_kernel_breakdown.kernels.csv": {ALEXNET, MULTI_STREAM, SIMPLE_ADD, MTIA, TRITON},
    "gpu_kernel_breakdown_all.types.csv": {ALEXNET, MULTI_STREAM, SIMPLE_ADD, MTIA, TRITON},
    "gpu_kernel_breakdown_all.kernels.csv": {ALEXNET, MULTI_STREAM, SIMPLE_ADD, MTIA, TRITON},
    "gpu_kernel_breakdown_nomem.types.csv": {ALEXNET, MULTI_STREAM, SIMPLE_ADD, MTIA, TRITON},
    "gpu_kernel_breakdown_nomem.kernels.csv": {ALEXNET, MULTI_STREAM, SIMPLE_ADD, MTIA, TRITON},
}

TIES = "if a launch and a start coincide, the launch comes first; HTA: in any order"
GRAPHS = "graph launches enter queues; HTA leaves them out"
CALLS = "device work that other calls than HTA's dozen launch enters queues; HTA leaves it out"
ROUNDED = "copies that its rounding leaves without length, or -1 long, take 1 us in HTA, or less"
UNSTATED = "copies whose rate the file does not state are left out, and counted; HTA takes 0"
WAYS = "MTIA's copies say in their args which way and how much; HTA calls them unknown, at 0 GB/s"
RESIDUE = "HTA also counts residues of its sums when nothing is copied, such as 1e-15 GB/s"
STREAM_0 = "stream 0 is a stream: its events are of a step"
THREADS = "HTA takes the operator that began last on any thread"

_GEMM = "cutlass_80_tensorop_s1688gemm_256x64_16x4_nn_align1"
MM = f"void cutlass::Kernel<{_GEMM}>({_GEMM}::Params)"

#: Every other difference: one of the cells, HTA's value and ours, and why.
DIFFERENCES = {
    (MTIA, "queue_length_time_series.csv"): ((0, 14506, "queue_length"), 2, 3, CALLS),
    (TEST, "queue_length_time_series.csv"): ((1, 36088, "queue_length"), 382, 383, GRAPHS),
    (SIMPLE_ADD, "queue_length_summary.csv"): ((0, 7, "mean"), 167 / 182, 169 / 182, TIES),
    (MTIA, "queue_length_summary.csv"): ((0, 101, "count"), 16, 32, CALLS),
    (NCCL, "queue_length_summary.csv"): ((0, 7, "mean"), 0.81454836, 0.82294165, TIES),
    (NS, "queue_length_summary.csv"): ((0, 7, "75%"), 1020, 1021, TIES),
    (CONTROL, "queue_length_summary.csv"): ((3, 7, "mean"), 35.4323963, 35.4528782, TIES),
    (TEST, "queue_length_summary.csv"): ((1, 7, "count"), 15800, 15820, GRAPHS),
    (RESNET, "queue_length_summary.csv"): ((0, 7, "mean"), 153.629947, 153.634828, TIES),
    (MTIA, "blocked_on_full_queue_1.csv"): (
        (0, 112, "duration_at_max_queue_length"), 43880, 73832, CALLS),
    (AMD, "memory_bw_time_series.csv"): (
        (0, "Memcpy HtoD", 267, "memory_bw_gbps"), 0, None, UNSTATED),
    (MTIA, "memory_bw_time_series.csv"): (
        (0, "Memcpy Unknown", 632, "memory_bw_gbps"), 0, None, WAYS),
    (NCCL, "memory_bw_time_series.csv"): (
        (0, "Memcpy DtoD", 24878, "memory_bw_gbps"), 0, None, ROUNDED),
    (NS, "memory_bw_time_series.csv"): (
        (0, "Memcpy DtoD", 4068, "memory_bw_gbps"), 0, None, ROUNDED),
    (MTIA, "memory_bw_summary.csv"): ((0, "Memcpy DtoH", "count"), None, 450, WAYS),
    (NS, "memory_bw_summary.csv"): ((0, "Memcpy DtoD", "count"), 1285, 1280, ROUNDED),
    (TEST, "memory_bw_summary.csv"): ((1, "Memcpy DtoD", "count"), 7674, 3840, RESIDUE),
    (AMD, "gpu_kernels_with_user_annotations.csv"): ((0, 123, "iteration"), None, 1, STREAM_0),
    (MTIA, "aten_op_kernels_and_delay.csv"): (
        (0, "aten::split_with_sizes", "merge", "occurrence_count"), 1, None, THREADS),
    (FILTER, "aten_op_kernels_and_delay.csv"): (
        (0, "aten::mm", MM, "occurrence_count"), 3, 4, THREADS),
}  # fmt: skip


@pytest.mark.parametrize(("name", "file"), CASES)
def test_numbers_are_htas_or_the_difference_is_told(name, file):
    call, keyed, close = FILES[file]
    expected, got = keyed(expected_of(name, file)), keyed(call(seen_by_hta(name)))
    if file.startswith("blocked"):
        # HTA keeps one of a rank's streams.
        assert expected.keys() <= got.keys()
        got = {key: got[key] for key in expected}
    found = differing(expected, got, close)
    if name in WORK.get(file, ()):
        assert found
        assert OTHER_WORK[name]
    elif (name, file) in DIFFERENCES:
        what, theirs, ours, _ = DIFFERENCES[name, file]
        assert found
        assert _known(expected.get(what)) == (None if theirs is None else pytest.approx(theirs))
        assert _known(got.get(what)) == (None if ours is None else pytest.approx(ours))
    else:
        assert found == {}


def _known(value):
    return None if value is None or pd.isna(value) else value


def test_the_tables_of_differences_have_no_stale_lines():
    documented = set(DIFFERENCES) | {(name, file) for file, names in WORK.items() for name in names}
    assert documented <= set(CASES)


# --- results that are not tables ------------------------------------------------------------------


@pytest.mark.parametrize("name", golden.names("profiler_steps.json"))
def test_steps_are_htas(name):
    assert analyzer(name).get_profiler_steps() == golden.record(name, "profiler_steps.json")


@pytest.mark.parametrize("name", golden.names("potential_stragglers.json"))
def test_stragglers_are_htas(name):
    facade = analyzer(name)
    assert facade.get_potential_stragglers() == golden.record(name, "potential_stragglers.json")
    per_step = golden.record(name, "potential_stragglers_per_step.json")["per_step"]
    for step, ranks in per_step.items():
        assert facade.get_potential_stragglers(profiler_steps=[int(step)]) == ranks


SEQUENCES = [
    (name, path.name)
    for name in golden.names()
    for path in sorted((golden.GOLDEN / name).glob("frequent_sequences.*.csv"))
]


@pytest.mark.parametrize(("name", "file"), SEQUENCES)
def test_sequences_are_htas(name, file, tmp_path):
    _, operator, least = file.removesuffix(".csv").split(".")
    facade = seen_by_hta(name)
    for text in (operator.replace("_", "::", 1), operator.replace("_", ".", 1), operator):
        got = facade.get_frequent_cuda_kernel_sequences(
            text,
            str(tmp_path),
            min_pattern_len=int(least.removeprefix("min")),
            rank=ranks_of(facade)[0],
            visualize=False,
        )
        if len(got):
            break
    expected = golden.frame(name, file)
    assert list(got.columns) == list(expected.columns)
    pd.testing.assert_frame_equal(got, expected, check_dtype=False)


@pytest.mark.parametrize("name", golden.names("load_include_last_step.json"))
def test_all_steps_are_htas_if_asked_for(name):
    expected = golden.record(name, "load_include_last_step.json")
    facade = hw.TraceAnalysis(trace_dir=golden.trace_path(name), include_last_profiler_step=True)
    assert facade.get_profiler_steps() == expected["steps"]
    rows = {}
    for rank in facade.t.get_ranks():
        frame = facade.t.get_trace(rank)
        rows[str(rank)] = len(frame)
    assert rows == expected["rows"]


def test_the_slow_rank_of_a_job_of_known_truth_is_named(shared):
    # HTA's rule skips the last rank, whose kernel is short: it names ranks 0 and 2.
    truth = json.loads((shared / "traces/made/ddp_8rank_truth.json").read_text("utf-8"))
    facade = hw.TraceAnalysis(trace_dir=shared / "traces/made/ddp_8rank")
    assert facade.get_potential_stragglers(num_candidates=1) == [truth["slow"]]
    for step in facade.get_profiler_steps():
        assert facade.get_potential_stragglers([step], num_candidates=1) == [truth["slow"]]
