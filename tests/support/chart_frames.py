"""Small hand-written frames with the columns of each analysis."""

from collections.abc import Callable
from typing import Any

import pandas as pd

from hta_widgets import charts

MS = 1_000_000
HOSTILE = "<img src=x onerror=alert(1)>$$\\frac{1}{2}$$ \\(x\\) {{7*7}} @{rank} void k<int>(float*)"


def table(columns: str, *rows: tuple[Any, ...]) -> pd.DataFrame:
    """Build a frame from rows; `columns` holds the column names, separated by spaces."""
    return pd.DataFrame(rows, columns=columns.split())


def temporal(ranks=(0, 1)) -> pd.DataFrame:
    return table(
        "rank idle_ns compute_ns non_compute_ns span_ns idle_pct compute_pct non_compute_pct "
        "exposed_communication_ns exposed_memory_ns",
        *(
            (rank, 200 * MS, 500 * MS, 300 * MS, 1000 * MS, 20.0, 50.0, 30.0, 250 * MS, 50 * MS)
            for rank in ranks
        ),
    )


def kernel_types() -> pd.DataFrame:
    return table(
        "kernel_type sum_ns share",
        ("COMPUTATION", 600, 0.6),
        ("COMPUTATION overlapping COMMUNICATION", 300, 0.3),
        ("MEMORY", 100, 0.1),
    )


def efficiency() -> pd.DataFrame:
    peaks = (312.0, 2039.0, "data sheet", "certain")
    return table(
        "rank name input_shapes flops_kind precision count device_ns intensity tflop_per_s "
        "gb_per_s roofline_share bound device peak_tflop_per_s memory_gb_s peak_source "
        "peak_certainty",
        (0, HOSTILE, "[[64, 64], [64, 64]]", "matrix", "bf16", 4, 9 * MS, 500.0, 156.0, 312.0,
         0.5, "compute", "A100", *peaks),
        (0, "aten::add", "[[64, 64]]", "vector", "fp32", 2, 1 * MS, 0.1, 0.1, 1000.0,
         0.49, "memory", "A100", 19.5, *peaks[1:]),
        (0, "aten::copy_", "[[64, 64]]", "vector", "fp32", 2, 1 * MS, 0.0, 0.0, 1000.0,
         0.49, "memory", "A100", 19.5, *peaks[1:]),
    )  # fmt: skip


def modules() -> pd.DataFrame:
    return table(
        "rank path module class_name depth parent instances calls host_ns device_ns "
        "device_self_ns forward_device_ns backward_device_ns recompute_device_ns forward_flops "
        "backward_flops recompute_flops source events",
        (0, "Net_0", "Net_0", "Net", 0, -1, 1, 2, 9 * MS, 5 * MS, MS, 2 * MS, 3 * MS, 0,
         1e9, 2e9, 0.0, "nn.Module", "nn.Module: Net_0"),
        (0, f"Net_0.{HOSTILE}", HOSTILE, HOSTILE, 1, 0, 3, 6, 8 * MS, 4 * MS, 4 * MS, MS, 3 * MS,
         0, 1e9, 2e9, 0.0, "nn.Module", f"nn.Module: {HOSTILE}"),
    )  # fmt: skip


def overlap() -> pd.DataFrame:
    return table(
        "rank communication_ns overlapped_ns overlap_share exposed_ns compute_ns",
        (0, 1_000_000, 250_000, 0.25, 750_000, 5),
        (1, 2_000_000, 1_000_000, 0.5, 1_000_000, 5),
    )


def idle(ranks=(0,)) -> pd.DataFrame:
    parts = (("host_wait", 700, 0.7), ("kernel_wait", 200, 0.2), ("other", 100, 0.1))
    rows = [(rank, stream, *part, 3) for rank in ranks for stream in (7, 20) for part in parts]
    frame = table("rank stream idle_category idle_ns idle_share gaps", *rows)
    return frame.astype({"idle_category": "category"})


def device_idle() -> pd.DataFrame:
    return table(
        "rank idle_category idle_ns gaps idle_share max_ns",
        (0, "sync_wait", 10, 1, 0.1, 10),
        (0, "unknown", 90, 2, 0.9, 60),
    )


def kernels(name="void k<int>(float*)", ranks=(0, 1), names=3) -> pd.DataFrame:
    rows = [
        (rank, "compute", f"{name}{number}", 10, 1000 * (number + 1) + rank, 100.0, 50, 200, 3.0)
        for rank in ranks
        for number in range(names)
    ]
    return table("rank kind name count sum_ns mean_ns min_ns max_ns std_ns", *rows)


def launches() -> pd.DataFrame:
    return table(
        "rank correlation kernel cpu_dur_ns gpu_dur_ns launch_delay_ns",
        (0, 1, HOSTILE, 5_000, 2_000, 0),
        (0, 2, "b", 60_000, 1_000_000, 150_000),
        (0, 3, "c", 7_000, 9_000, 10_000),
    )


def queue() -> pd.DataFrame:
    rows = ((7, 100, 1), (7, 200, 2), (7, 300, 0), (20, 150, 1), (20, 250, 0))
    return table("rank stream time_ns queue_length", *((0, *row) for row in rows))


def bandwidth() -> pd.DataFrame:
    rows = ((0, "Memcpy HtoD", 100, 11.7), (0, "Memcpy HtoD", 200, 0.0))
    return table("rank copy_kind time_ns gb_per_s", *rows).astype({"copy_kind": "category"})


def operators() -> pd.DataFrame:
    return table(
        "rank name count cpu_total_ns cpu_self_ns device_total_ns device_self_ns",
        (0, "aten::mm", 4, 100, 60, 1000, 1000),
        (0, HOSTILE, 1, 50, 50, 0, 0),
        (1, "aten::mm", 4, 200, 100, 3000, 3000),
    )


def annotations() -> pd.DataFrame:
    return table(
        "rank name count sum_ns mean_ns min_ns max_ns std_ns",
        (0, "forward", 1, 100, 100.0, 100, 100, 0.0),
        (1, "forward", 1, 300, 300.0, 300, 300, 0.0),
    )


def sequences() -> pd.DataFrame:
    return table(
        "rank pattern count kernel_ns operator_ns",
        (0, "aten::mm|gemm|add", 5, 500, 100),
        (0, "aten::mm|gemm|mul", 2, 200, 40),
    )


def stragglers() -> pd.DataFrame:
    return table(
        "rank score late_ns_mean imposed_wait_ns is_straggler cause",
        (0, 0.1, -5_000.0, 10, False, ""),
        (1, 0.8, 5_000.0, 90_000, True, "slower kernels"),
    )


def collectives(ranks=2) -> pd.DataFrame:
    rows = [
        (number, HOSTILE, "0", 1024, rank, rank, 1000 * number + 10 * rank, 10 * (ranks - 1 - rank),
         100, 1000 * number + 500, ranks - 1, 90, 1.0, 2.0)
        for number in range(3)
        for rank in range(ranks)
    ]  # fmt: skip
    return table(
        "collective name group size_bytes rank id arrival_ns wait_ns transfer_ns end_ns last_rank "
        "exposed_ns algbw_gb_s busbw_gb_s",
        *rows,
    )


def groups() -> pd.DataFrame:
    return table(
        "rank group description group_ranks count communication_ns overlapped_ns exposed_ns "
        "overlap_share in_bytes out_bytes",
        (0, "0", "default_pg", "[0, 1]", 3, 100, 50, 50, 0.5, 10, 10),
        (1, "0", "default_pg", "[0, 1]", 3, 200, 50, 150, 0.25, 20, 20),
        (0, HOSTILE, "", "", 1, 10, 0, 10, 0.0, -1, -1),
    )


def streams() -> pd.DataFrame:
    return groups().drop(columns=["group", "description", "group_ranks"]).assign(stream=[7, 7, 8])


def path() -> pd.DataFrame:
    return table(
        "rank start_ns dur_ns id name bound_by",
        (0, 0, 100, 1, "aten::mm", "cpu_bound"),
        (0, 100, 50, -1, "", "gpu_kernel_launch_overhead"),
        (0, 150, 850, 2, HOSTILE, "gpu_compute_bound"),
    ).astype({"bound_by": "category"})


def memory() -> pd.DataFrame:
    rows = ((0, 100, 0, 0), (10, 100, 50, 0), (20, 100, 0, 0))
    return table("time_ns Parameter Activation Input", *rows)


def diff() -> pd.DataFrame:
    return table(
        "name kind before_count after_count before_ns after_ns diff_count diff_ns change",
        ("gone", "compute", 6, 0, 900, 0, -6, -900, "removed"),
        (HOSTILE, "compute", 0, 2, 0, 600, 2, 600, "added"),
        ("slower", "compute", 5, 5, 1000, 1500, 0, 500, "same"),
        ("even", "compute", 5, 5, 70, 70, 0, 0, "same"),
    )


def run_waterfall() -> pd.DataFrame:
    frame = table(
        "kind cause name before_ns after_ns diff_ns",
        ("compute", "compute", "", 500, 900, 400),
        ("idle", "sync_wait", "", 300, 100, -200),
        ("memory", "copies", HOSTILE, 50, 100, 50),
        ("communication", "communication_wait", "", 100, 100, 0),
    )
    frame.attrs |= {"steps": 3, "before_ranks": 2, "after_ranks": 2}
    return frame


def run_steps() -> pd.DataFrame:
    frame = table(
        "before_step after_step before_ns after_ns diff_ns",
        (4, 4, 1_000_000, 2_000_000, 1_000_000),
        (5, 6, 1_100_000, 1_000_000, -100_000),
    )
    frame.attrs |= {"p_value": 0.52, "before_std_ns": 70_710.7, "after_std_ns": 707_106.8}
    return frame


def run_changes() -> pd.DataFrame:
    return table(
        "change measure name path before_count after_count before_ns after_ns diff_ns",
        ("slower", "device and host", HOSTILE, "ProfilerStep > a", 12.0, 12.0, 1e6, 2e6, 1e6),
        ("removed", "operator", "aten::contiguous", "", 1.0, 0.0, 2e5, 0.0, -2e5),
        ("moved", "operator", "c10d::allreduce_", "", 1.0, 1.0, 5e5, 5e5, 0.0),
    ).astype({"change": "category"})


def run_names() -> pd.DataFrame:
    frame = diff().drop(columns="diff_count")
    for name in ("before_count", "after_count", "before_ns", "after_ns", "diff_ns"):
        frame[f"{name}_per_step"] = frame[name] / 2
    return frame


def run_tree() -> pd.DataFrame:
    frame = table(
        "node parent depth name path kind before_count after_count before_ns after_ns diff_ns "
        "diff_self_ns",
        (0, -1, 0, "forward", "", "cpu", 1.0, 1.0, 300.0, 500.0, 200.0, 0.0),
        (1, 0, 1, HOSTILE, "forward", "cpu", 1.0, 1.0, 200.0, 200.0, 0.0, 0.0),
        (2, 0, 1, "aten::mm", "forward", "cpu", 0.0, 1.0, 0.0, 200.0, 200.0, 200.0),
        (3, -1, 0, "backward", "", "cpu", 1.0, 1.0, 100.0, 100.0, 0.0, 0.0),
    )
    frame.attrs["measure"] = "device"
    return frame


def clock_offsets() -> pd.DataFrame:
    return table(
        "rank offset_ns residual_ns recorded_residual_ns collectives part drift_ppm",
        (0, 0, 10, 2_000, 9, 0, float("nan")),
        (1, -2_000, 40, 3_000, 9, 0, 1.25),
        (2, 50_000, -1, -1, 0, 1, float("nan")),
    )


def step_times() -> pd.DataFrame:
    """In step 1, rank 4 has 25 % more work of its own. All steps are equally long on all ranks."""
    frame = table("rank step", *((rank, step) for rank in range(5) for step in (0, 1)))
    slow = (frame["rank"] == 4) & (frame["step"] == 1)
    own_ns = 1_000 + frame["rank"] + 246 * slow
    times = {"start_ns": frame["step"] * 2_000, "dur_ns": 1_500, "own_ns": own_ns}
    parts = {"compute_ns": 900, "idle_ns": 10, "exposed_wait_ns": 1_500 - own_ns}
    even = {"dur_deviation_ns": 0.0, "dur_deviation_share": 0.0}
    own = {"own_deviation_ns": own_ns - 1_002.0, "own_deviation_share": (own_ns - 1_002.0) / 1_002}
    return frame.assign(**times, **parts, **even, **own)


def parallel_groups() -> pd.DataFrame:
    """Groups of four ranks: neighbors, guessed pairs of distant ranks, and all four."""
    rows = [
        (group, rank, place, kind, guessed, ", ".join(map(str, members)), len(members),
         "" if guessed else HOSTILE, "all_reduce 3", 3, 1000 * (1 + rank), -1 if guessed else 2000)
        for group, members, kind, guessed in (
            ("0", (0, 1, 2, 3), "all", False),
            ("1", (0, 1), "tensor", False),
            ("2", (2, 3), "tensor", False),
            (HOSTILE, (0, 2), "data", True),
            ("4", (1, 3), "data", True),
        )
        for place, rank in enumerate(members)
    ]  # fmt: skip
    return table(
        "group rank position kind guessed ranks size description operations collectives time_ns "
        "bytes",
        *rows,
    ).astype({"kind": "category"})


def stragglers_by_step() -> pd.DataFrame:
    """Rank 1 costs the others 10 % of every step; rank 2 stalls them once, in step 7."""
    frame = table("rank step", *((rank, step) for rank in range(3) for step in (5, 6, 7)))
    share = [0.0, 0.001, 0.0, 0.1, 0.1, 0.1, 0.0, 0.0, 0.5]
    lost = [round(each * 1_000) for each in share]
    frame = frame.assign(collectives=4, score=0.25, lost_share=share, lost_ns=lost)
    return frame.assign(imposed_wait_ns=2 * frame["lost_ns"])


def rank_clusters() -> pd.DataFrame:
    """Ranks 0, 1 and 3 are similar; rank 2 is an outlier."""
    why = f"runs other kernels: {HOSTILE}; waits for 9 % less of a step"
    return table(
        "rank cluster representative is_outlier why steps step_ns own_ns compute_ns idle_ns "
        "exposed_communication_ns exposed_wait_ns lost_share",
        (0, 0, 1, False, "", 3, 1_000.0, 900.0, 600.0, 100.0, 200.0, 150.0, 0.0),
        (1, 0, 1, False, "", 3, 1_000.0, 900.0, 630.0, 100.0, 200.0, 150.0, 0.0),
        (2, 1, 2, True, why, 3, 1_000.0, 1_000.0, 900.0, 100.0, 0.0, 0.0, 0.09),
        (3, 0, 1, False, "", 3, 1_000.0, 900.0, 660.0, 100.0, 200.0, 150.0, 0.0),
    )


def job_path() -> pd.DataFrame:
    """The critical path is on rank 3, then on rank 0, then on rank 3 again."""
    return table(
        "rank start_ns dur_ns id name bound_by via",
        (3, 1_000, 600, 1, HOSTILE, "gpu_compute_bound", "unknown"),
        (0, 1_600, 50, 2, "ncclKernel", "gpu_communication_bound", "collective"),
        (0, 1_650, 50, -1, "", "gpu_kernel_launch_overhead", "launch"),
        (3, 1_700, 300, 3, "aten::mm", "cpu_bound", "collective"),
    ).astype({"bound_by": "category"})


def job_path_parts() -> pd.DataFrame:
    return table(
        "rank bound_by count dur_ns share",
        (3, "gpu_compute_bound", 1, 600, 0.6),
        (3, "cpu_bound", 1, 300, 0.3),
        (0, "gpu_communication_bound", 1, 50, 0.05),
        (0, "gpu_kernel_launch_overhead", 1, 50, 0.05),
    )


def queues(ranks=(0, 1)) -> pd.DataFrame:
    rows = [(rank, stream, 20, 0.25 * (1 + rank), 4.0) for rank in ranks for stream in (7, 20)]
    return table("rank stream count time_weighted_mean max", *rows)


def kernel_spread() -> pd.DataFrame:
    """Rank 2 waits least and takes 20 % longer for one kernel."""
    rows = [
        (name, short, kind, rank, count, mean, round(mean), round(mean))
        for name, short, kind, count, means in (
            (HOSTILE, "allreduce", "communication", 4, (1000.0, 1100.0, 100.0)),
            ("gemm", "gemm", "compute", 9, (90.0, 100.0, 120.0)),
            ("copy", "copy", "memory", 9, (99.0, 101.0, 100.0)),
        )
        for rank, mean in enumerate(means)
    ]
    return table("name short kind rank count mean_ns min_ns max_ns", *rows)


def phases(ranks=range(4)) -> pd.DataFrame:
    """Rank 2 takes 20 % longer for the forward phase, but its steps are as long as all others."""
    rows = [
        (phase, step, rank, step * 1000, round(usual * (1 + by)), by)
        for phase, usual in (("step", 1000), ("forward", 400))
        for step in (0, 1)
        for rank in ranks
        for by in [0.2 if (phase, rank) == ("forward", 2) else 0.001 * (rank - 1)]
    ]
    return table("phase step rank start_ns dur_ns deviation_share", *rows)


def rank_time(ranks=(0, 3), bins=4) -> pd.DataFrame:
    rows = [
        (rank, place, place * 100, place * 100 + 100, 25 * number, 25 * number / 100)
        for number, rank in enumerate(ranks, 1)
        for place in range(bins)
    ]
    frame = table("rank bin start_ns end_ns value_ns share", *rows)
    frame.attrs["metric"] = "busy"
    return frame


def byteps_gradients() -> pd.DataFrame:
    """Two tensors on two workers; the second worker waits less."""
    rows = [
        (worker, worker, 0, tensor, 0, 1_000 * total, 1_000 * (total - queue - 1), 1_000 * queue,
         1_000, tensor != "<b>", True, "job")
        for worker, tensor, total, queue in (
            (0, "byteps.a", 40, 30), (0, "<b>", 20, 10), (1, "byteps.a", 25, 5), (1, "<b>", 12, 2),
        )
    ]  # fmt: skip
    return table(
        "rank worker local_rank tensor step total_ns busy_ns queue_ns tail_ns critical root job",
        *rows,
    )


def byteps_stages() -> pd.DataFrame:
    return table(
        "rank worker local_rank stage count sum_ns union_ns queue_ns root waits_for_root",
        (0, 0, 0, "REDUCE", 2, 200, 200, 50, False, False),
        (0, 0, 0, "COPYH2D", 2, 100, 100, 5_000, False, True),
        (1, 0, 1, "PULL", 2, 4_000, 2_000, 10, True, False),
    )


def byteps_arrivals() -> pd.DataFrame:
    """Two nodes and two iterations of one key; the second node arrives last in both."""
    rows = ((0, 9, 0, 0), (0, 11, 500, 500), (1, 9, 1_000, 0), (1, 11, 1_700, 700))
    frame = table("iteration node start_ns lag_ns", *rows)
    frame = frame.assign(job="job", server=0, key=2**63 + 1, last=frame["node"] == 11)
    return frame.astype({"key": "uint64"})


def byteps_pull_blame() -> pd.DataFrame:
    return table(
        "worker blame slack_ns pulls pull_ns straggler",
        (0, 0.0, 9_000, 3, 10_000, False),
        (1, 1.0, 0, 3, 1_000, True),
    )


def byteps_servers() -> pd.DataFrame:
    return table(
        "server requests keys busy_ns push_ns wait_ns service_ns",
        (0, 8, 2, 3_000, 3_000, 9_000, 500),
        (1, 4, 1, 1_000, 1_000, 2_000, 400),
    )


def byteps_clock() -> pd.DataFrame:
    return table(
        "worker server node offset_ns error_ns low_ns high_ns requests",
        (0, 0, 9, -96_000, 20_000, -116_000, -76_000, 90),
        (1, 0, 11, 4_000, 25_000, -21_000, 29_000, 91),
    )


def mpi_ranks() -> pd.DataFrame:
    """Four ranks on two hosts. The third rank hardly waits, so all others wait for it."""
    rows = [
        ("job", rank, host, comm, 3.0, 3.0 - comm, comm / 3.0, rank == 2)
        for rank, host, comm in (
            (0, "<b>one", 2.0),
            (1, "<b>one", 2.1),
            (2, "two", 0.4),
            (3, "two", 2.0),
        )
    ]
    return table("job rank host comm_s elapsed_s noncomm_s comm_share is_straggler", *rows)


def mpi_message_sizes() -> pd.DataFrame:
    return table(
        "job rank routine size_lo size_hi calls time_s bytes",
        ("job", 0, "MPI_Allreduce", 5, 8, 900, 0.6, 7_200.0),
        ("job", 0, "MPI_Allreduce", 65_537, 131_072, 100, 0.4, 1e7),
        ("job", 0, "<b>", 1, 4, 10, 0.0, 40.0),
    )


def mpi_routines() -> pd.DataFrame:
    return table(
        "job rank routine calls time_s bytes is_io",
        ("job", 0, "MPI_Allreduce", 10, 1.0, 80.0, False),
        ("job", 1, "MPI_Allreduce", 10, 0.5, 80.0, False),
        ("job", 0, "<b>", 2, 0.1, 0.0, False),
    )


def mpi_compare() -> pd.DataFrame:
    return table(
        "routine size_lo size_hi before_calls after_calls before_time_s after_time_s diff_time_s",
        ("MPI_Allreduce", 5, 8, 10.0, 4.0, 2.0, 0.5, -1.5),
        ("<b>", -1, -1, 0.0, 1.0, 0.0, 0.25, 0.25),
    )


_FRAMES: dict[str, Callable[..., pd.DataFrame]] = {
    "temporal_breakdown": temporal, "kernel_type_breakdown": kernel_types,
    "comm_comp_overlap": overlap, "idle_time_breakdown": idle,
    "device_idle_breakdown": device_idle, "kernel_breakdown": kernels,
    "kernel_duration_by_rank": kernels, "launch_stats": launches, "queue_length": queue,
    "queue_length_summary": queues, "step_phases": phases, "rank_time_heatmap": rank_time,
    "memory_bandwidth": bandwidth, "operators": operators, "operator_efficiency": efficiency,
    "modules": modules,
    "user_annotation_breakdown": annotations, "frequent_kernel_sequences": sequences,
    "stragglers": stragglers, "collectives": collectives, "arrivals": collectives,
    "clock_offsets": clock_offsets, "step_times": step_times, "parallel_groups": parallel_groups,
    "stragglers_by_step": stragglers_by_step, "rank_clusters": rank_clusters,
    "job_critical_path": job_path, "job_path_summary": job_path_parts,
    "communication_by_group": groups, "communication_by_stream": streams, "critical_path": path,
    "memory_timeline": memory, "diff_ops": diff, "diff_changes": run_changes,
    "diff_icicle": run_tree, "diff_names": run_names, "diff_steps": run_steps,
    "diff_waterfall": run_waterfall, "byteps_arrivals": byteps_arrivals,
    "byteps_clock": byteps_clock, "byteps_gradients": byteps_gradients,
    "byteps_pull_blame": byteps_pull_blame, "byteps_servers": byteps_servers,
    "byteps_stages": byteps_stages, "mpi_compare": mpi_compare,
    "mpi_message_sizes": mpi_message_sizes, "mpi_ranks": mpi_ranks, "mpi_routines": mpi_routines,
}  # fmt: skip
#: Every chart, with a frame that it can draw.
ALL = {name: (getattr(charts, name), frame) for name, frame in _FRAMES.items()}
