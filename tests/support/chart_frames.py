"""Small frames with the columns of each analysis, written out by hand."""

from collections.abc import Callable
from typing import Any

import pandas as pd

from hta_widgets import charts

HOSTILE = "<img src=x onerror=alert(1)>$$\\frac{1}{2}$$ \\(x\\) {{7*7}} @{rank} void k<int>(float*)"


def temporal(ranks=(0, 1)) -> pd.DataFrame:
    count = len(ranks)
    return pd.DataFrame(
        {
            "rank": list(ranks),
            "idle_ns": [200_000_000] * count,
            "compute_ns": [500_000_000] * count,
            "non_compute_ns": [300_000_000] * count,
            "span_ns": [1_000_000_000] * count,
            "idle_pct": [20.0] * count,
            "compute_pct": [50.0] * count,
            "non_compute_pct": [30.0] * count,
            "exposed_communication_ns": [250_000_000] * count,
            "exposed_memory_ns": [50_000_000] * count,
        }
    )


def kernel_types() -> pd.DataFrame:
    return pd.DataFrame(
        {
            "kernel_type": ["COMPUTATION", "COMPUTATION overlapping COMMUNICATION", "MEMORY"],
            "sum_ns": [600, 300, 100],
            "share": [0.6, 0.3, 0.1],
        }
    )


def overlap() -> pd.DataFrame:
    return pd.DataFrame(
        {
            "rank": [0, 1],
            "communication_ns": [1_000_000, 2_000_000],
            "overlapped_ns": [250_000, 1_000_000],
            "overlap_share": [0.25, 0.5],
            "exposed_ns": [750_000, 1_000_000],
            "compute_ns": [5, 5],
        }
    )


def idle(ranks=(0,), streams=(7, 20)) -> pd.DataFrame:
    rows = [
        (rank, stream, category, size, share, 3)
        for rank in ranks
        for stream in streams
        for category, size, share in (
            ("host_wait", 700, 0.7),
            ("kernel_wait", 200, 0.2),
            ("other", 100, 0.1),
        )
    ]
    names = ["rank", "stream", "idle_category", "idle_ns", "idle_share", "gaps"]
    frame = pd.DataFrame(rows, columns=names)
    return frame.astype({"idle_category": "category"})


def device_idle() -> pd.DataFrame:
    names = ["rank", "idle_category", "idle_ns", "gaps", "idle_share", "max_ns"]
    rows = [(0, "sync_wait", 10, 1, 0.1, 10), (0, "unknown", 90, 2, 0.9, 60)]
    return pd.DataFrame(rows, columns=names)


def kernels(name="void k<int>(float*)", ranks=(0, 1), names=3) -> pd.DataFrame:
    rows = [
        (rank, "compute", f"{name}{number}", 10, 1000 * (number + 1) + rank, 100.0, 50, 200, 3.0)
        for rank in ranks
        for number in range(names)
    ]
    columns = ["rank", "kind", "name", "count", "sum_ns", "mean_ns", "min_ns", "max_ns", "std_ns"]
    return pd.DataFrame(rows, columns=columns)


def launches() -> pd.DataFrame:
    return pd.DataFrame(
        {
            "rank": 0,
            "correlation": [1, 2, 3],
            "kernel": [HOSTILE, "b", "c"],
            "cpu_dur_ns": [5_000, 60_000, 7_000],
            "gpu_dur_ns": [2_000, 1_000_000, 9_000],
            "launch_delay_ns": [0, 150_000, 10_000],
        }
    )


def queue() -> pd.DataFrame:
    return pd.DataFrame(
        {
            "rank": 0,
            "stream": [7, 7, 7, 20, 20],
            "time_ns": [100, 200, 300, 150, 250],
            "queue_length": [1, 2, 0, 1, 0],
        }
    )


def bandwidth() -> pd.DataFrame:
    return pd.DataFrame(
        {
            "rank": 0,
            "copy_kind": pd.Categorical(["Memcpy HtoD", "Memcpy HtoD"]),
            "time_ns": [100, 200],
            "gb_per_s": [11.7, 0.0],
        }
    )


def operators() -> pd.DataFrame:
    return pd.DataFrame(
        {
            "rank": [0, 0, 1],
            "name": ["aten::mm", HOSTILE, "aten::mm"],
            "count": [4, 1, 4],
            "cpu_total_ns": [100, 50, 200],
            "cpu_self_ns": [60, 50, 100],
            "device_total_ns": [1000, 0, 3000],
            "device_self_ns": [1000, 0, 3000],
        }
    )


def annotations() -> pd.DataFrame:
    return pd.DataFrame(
        {
            "rank": [0, 1],
            "name": ["forward", "forward"],
            "count": [1, 1],
            "sum_ns": [100, 300],
            "mean_ns": [100.0, 300.0],
            "min_ns": [100, 300],
            "max_ns": [100, 300],
            "std_ns": [0.0, 0.0],
        }
    )


def sequences() -> pd.DataFrame:
    return pd.DataFrame(
        {
            "rank": 0,
            "pattern": ["aten::mm|gemm|add", "aten::mm|gemm|mul"],
            "count": [5, 2],
            "kernel_ns": [500, 200],
            "operator_ns": [100, 40],
        }
    )


def stragglers() -> pd.DataFrame:
    return pd.DataFrame(
        {
            "rank": [0, 1],
            "score": [0.1, 0.8],
            "late_ns_mean": [-5_000.0, 5_000.0],
            "imposed_wait_ns": [10, 90_000],
            "is_straggler": [False, True],
            "cause": ["", "slower kernels"],
        }
    )


def collectives(ranks=2, count=3) -> pd.DataFrame:
    rows = [
        {
            "collective": number,
            "name": HOSTILE,
            "group": "0",
            "size_bytes": 1024,
            "rank": rank,
            "id": rank,
            "arrival_ns": 1000 * number + 10 * rank,
            "wait_ns": 10 * (ranks - 1 - rank),
            "transfer_ns": 100,
            "end_ns": 1000 * number + 500,
            "last_rank": ranks - 1,
            "exposed_ns": 90,
            "algbw_gb_s": 1.0,
            "busbw_gb_s": 2.0,
        }
        for number in range(count)
        for rank in range(ranks)
    ]
    return pd.DataFrame(rows)


def groups() -> pd.DataFrame:
    return pd.DataFrame(
        {
            "rank": [0, 1, 0],
            "group": ["0", "0", HOSTILE],
            "description": ["default_pg", "default_pg", ""],
            "group_ranks": ["[0, 1]", "[0, 1]", ""],
            "count": [3, 3, 1],
            "communication_ns": [100, 200, 10],
            "overlapped_ns": [50, 50, 0],
            "exposed_ns": [50, 150, 10],
            "overlap_share": [0.5, 0.25, 0.0],
            "in_bytes": [10, 20, -1],
            "out_bytes": [10, 20, -1],
        }
    )


def streams() -> pd.DataFrame:
    return groups().drop(columns=["group", "description", "group_ranks"]).assign(stream=[7, 7, 8])


def path() -> pd.DataFrame:
    return pd.DataFrame(
        {
            "rank": 0,
            "start_ns": [0, 100, 150],
            "dur_ns": [100, 50, 850],
            "id": [1, -1, 2],
            "name": ["aten::mm", "", HOSTILE],
            "bound_by": pd.Categorical(
                ["cpu_bound", "gpu_kernel_launch_overhead", "gpu_compute_bound"]
            ),
        }
    )


def memory() -> pd.DataFrame:
    return pd.DataFrame(
        {"time_ns": [0, 10, 20], "Parameter": [100, 100, 100], "Activation": [0, 50, 0], "Input": 0}
    )


def diff() -> pd.DataFrame:
    return pd.DataFrame(
        {
            "name": ["gone", HOSTILE, "slower", "even"],
            "kind": "compute",
            "before_count": [6, 0, 5, 5],
            "after_count": [0, 2, 5, 5],
            "before_ns": [900, 0, 1000, 70],
            "after_ns": [0, 600, 1500, 70],
            "diff_count": [-6, 2, 0, 0],
            "diff_ns": [-900, 600, 500, 0],
            "change": ["removed", "added", "same", "same"],
        }
    )


def run_waterfall() -> pd.DataFrame:
    frame = pd.DataFrame(
        {
            "kind": ["compute", "idle", "memory", "communication"],
            "cause": ["compute", "sync_wait", "copies", "communication_wait"],
            "name": ["", "", HOSTILE, ""],
            "before_ns": [500, 300, 50, 100],
            "after_ns": [900, 100, 100, 100],
            "diff_ns": [400, -200, 50, 0],
        }
    )
    frame.attrs |= {"steps": 3, "before_ranks": 2, "after_ranks": 2}
    return frame


def run_steps() -> pd.DataFrame:
    frame = pd.DataFrame(
        {
            "before_step": [4, 5],
            "after_step": [4, 6],
            "before_ns": [1_000_000, 1_100_000],
            "after_ns": [2_000_000, 1_000_000],
            "diff_ns": [1_000_000, -100_000],
        }
    )
    frame.attrs |= {"p_value": 0.52, "before_std_ns": 70_710.7, "after_std_ns": 707_106.8}
    return frame


def run_changes() -> pd.DataFrame:
    return pd.DataFrame(
        {
            "change": pd.Categorical(["slower", "removed", "moved"]),
            "measure": ["device and host", "operator", "operator"],
            "name": [HOSTILE, "aten::contiguous", "c10d::allreduce_"],
            "path": ["ProfilerStep > a", "", ""],
            "before_count": [12.0, 1.0, 1.0],
            "after_count": [12.0, 0.0, 1.0],
            "before_ns": [1e6, 2e5, 5e5],
            "after_ns": [2e6, 0.0, 5e5],
            "diff_ns": [1e6, -2e5, 0.0],
        }
    )


def run_names() -> pd.DataFrame:
    frame = diff().drop(columns="diff_count")
    for name in ("before_count", "after_count", "before_ns", "after_ns", "diff_ns"):
        frame[f"{name}_per_step"] = frame[name] / 2
    return frame


def run_tree() -> pd.DataFrame:
    frame = pd.DataFrame(
        {
            "node": [0, 1, 2, 3],
            "parent": [-1, 0, 0, -1],
            "depth": [0, 1, 1, 0],
            "name": ["forward", HOSTILE, "aten::mm", "backward"],
            "path": ["", "forward", "forward", ""],
            "kind": "cpu",
            "before_count": [1.0, 1.0, 0.0, 1.0],
            "after_count": [1.0, 1.0, 1.0, 1.0],
            "before_ns": [300.0, 200.0, 0.0, 100.0],
            "after_ns": [500.0, 200.0, 200.0, 100.0],
            "diff_ns": [200.0, 0.0, 200.0, 0.0],
            "diff_self_ns": [0.0, 0.0, 200.0, 0.0],
        }
    )
    frame.attrs["measure"] = "device"
    return frame


def clock_offsets() -> pd.DataFrame:
    return pd.DataFrame(
        {
            "rank": [0, 1, 2],
            "offset_ns": [0, -2_000, 50_000],
            "residual_ns": [10, 40, -1],
            "recorded_residual_ns": [2_000, 3_000, -1],
            "collectives": [9, 9, 0],
            "part": [0, 0, 1],
            "drift_ppm": [float("nan"), 1.25, float("nan")],
        }
    )


def step_times() -> pd.DataFrame:
    """Own work of rank 4 is a quarter longer in step 1; all ranks' steps are equally long."""
    rows = [(rank, step) for rank in range(5) for step in (0, 1)]
    frame = pd.DataFrame(rows, columns=["rank", "step"])
    slow = (frame["rank"] == 4) & (frame["step"] == 1)
    frame["start_ns"], frame["dur_ns"] = frame["step"] * 2_000, 1_500
    frame["own_ns"] = 1_000 + frame["rank"] + 246 * slow
    frame["compute_ns"], frame["idle_ns"] = 900, 10
    frame["exposed_wait_ns"] = frame["dur_ns"] - frame["own_ns"]
    frame["dur_deviation_ns"] = frame["dur_deviation_share"] = 0.0
    frame["own_deviation_ns"] = frame["own_ns"] - 1_002.0
    frame["own_deviation_share"] = frame["own_deviation_ns"] / 1_002
    return frame


def parallel_groups() -> pd.DataFrame:
    """Pairs of neighbours, pairs across (guessed), and all of four ranks."""
    rows = [
        (group, rank, members, place, kind, guessed)
        for group, members, kind, guessed in (
            ("0", (0, 1, 2, 3), "all", False),
            ("1", (0, 1), "tensor", False),
            ("2", (2, 3), "tensor", False),
            (HOSTILE, (0, 2), "data", True),
            ("4", (1, 3), "data", True),
        )
        for place, rank in enumerate(members)
    ]
    frame = pd.DataFrame(rows, columns=["group", "rank", "members", "position", "kind", "guessed"])
    members = frame.pop("members")
    frame["ranks"] = [", ".join(map(str, each)) for each in members]
    frame["size"] = [len(each) for each in members]
    frame["kind"] = frame["kind"].astype("category")
    frame["description"] = ["" if each else HOSTILE for each in frame["guessed"]]
    frame["operations"], frame["collectives"] = "all_reduce 3", 3
    frame["time_ns"] = 1_000 * (1 + frame["rank"])
    frame["bytes"] = [-1 if each else 2_000 for each in frame["guessed"]]
    return frame


def stragglers_by_step() -> pd.DataFrame:
    """Rank 1 costs the others 10 % of each step; rank 2 stalls them once, in step 7."""
    rows = [(rank, step) for rank in range(3) for step in (5, 6, 7)]
    frame = pd.DataFrame(rows, columns=["rank", "step"])
    frame["collectives"], frame["score"] = 4, 0.25
    share = [0.0, 0.001, 0.0, 0.1, 0.1, 0.1, 0.0, 0.0, 0.5]
    frame["lost_share"] = share
    frame["lost_ns"] = [round(each * 1_000) for each in share]
    frame["imposed_wait_ns"] = 2 * frame["lost_ns"]
    return frame


def rank_clusters() -> pd.DataFrame:
    """Ranks 0, 1 and 3 are similar; rank 2 is an outlier."""
    return pd.DataFrame(
        {
            "rank": [0, 1, 2, 3],
            "cluster": [0, 0, 1, 0],
            "representative": [1, 1, 2, 1],
            "is_outlier": [False, False, True, False],
            "why": ["", "", f"runs other kernels: {HOSTILE}; waits 9 % of a step less", ""],
            "steps": 3,
            "step_ns": [1_000.0] * 4,
            "own_ns": [900.0, 900.0, 1_000.0, 900.0],
            "compute_ns": [600.0, 630.0, 900.0, 660.0],
            "idle_ns": [100.0] * 4,
            "exposed_communication_ns": [200.0, 200.0, 0.0, 200.0],
            "exposed_wait_ns": [150.0, 150.0, 0.0, 150.0],
            "lost_share": [0.0, 0.0, 0.09, 0.0],
        }
    )


def job_path() -> pd.DataFrame:
    """The path is on rank 3, then 0, then 3 again."""
    return pd.DataFrame(
        {
            "rank": [3, 0, 0, 3],
            "start_ns": [1_000, 1_600, 1_650, 1_700],
            "dur_ns": [600, 50, 50, 300],
            "id": [1, 2, -1, 3],
            "name": [HOSTILE, "ncclKernel", "", "aten::mm"],
            "bound_by": pd.Categorical(
                [
                    "gpu_compute_bound",
                    "gpu_communication_bound",
                    "gpu_kernel_launch_overhead",
                    "cpu_bound",
                ]
            ),
            "via": ["unknown", "collective", "launch", "collective"],
        }
    )


def job_path_parts() -> pd.DataFrame:
    return pd.DataFrame(
        {
            "rank": [3, 3, 0, 0],
            "bound_by": [
                "gpu_compute_bound",
                "cpu_bound",
                "gpu_communication_bound",
                "gpu_kernel_launch_overhead",
            ],
            "count": [1, 1, 1, 1],
            "dur_ns": [600, 300, 50, 50],
            "share": [0.6, 0.3, 0.05, 0.05],
        }
    )


#: Every chart with a frame for it.
def queues(ranks=(0, 1)) -> pd.DataFrame:
    rows = [(rank, stream, 20, 0.25 * (1 + rank), 4.0) for rank in ranks for stream in (7, 20)]
    return pd.DataFrame(rows, columns=["rank", "stream", "count", "time_weighted_mean", "max"])


def kernel_spread() -> pd.DataFrame:
    """Rank 2 waits least, and takes a fifth longer for one kernel."""
    rows = [
        (name, short, kind, rank, count, mean, round(mean), round(mean))
        for name, short, kind, count, means in (
            (HOSTILE, "allreduce", "communication", 4, (1000.0, 1100.0, 100.0)),
            ("gemm", "gemm", "compute", 9, (90.0, 100.0, 120.0)),
            ("copy", "copy", "memory", 9, (99.0, 101.0, 100.0)),
        )
        for rank, mean in enumerate(means)
    ]
    names = ["name", "short", "kind", "rank", "count", "mean_ns", "min_ns", "max_ns"]
    return pd.DataFrame(rows, columns=names)


def phases(ranks=range(4)) -> pd.DataFrame:
    """Rank 2 takes a fifth longer for the forward phase, and as long as all for the step."""
    rows = [
        (phase, step, rank, step * 1000, round(usual * (1 + by)), by)
        for phase, usual in (("step", 1000), ("forward", 400))
        for step in (0, 1)
        for rank in ranks
        for by in [0.2 if (phase, rank) == ("forward", 2) else 0.001 * (rank - 1)]
    ]
    names = ["phase", "step", "rank", "start_ns", "dur_ns", "deviation_share"]
    return pd.DataFrame(rows, columns=names)


def rank_time(ranks=(0, 3), bins=4) -> pd.DataFrame:
    rows = [
        (rank, bin_, bin_ * 100, bin_ * 100 + 100, 25 * (place + 1))
        for place, rank in enumerate(ranks)
        for bin_ in range(bins)
    ]
    frame = pd.DataFrame(rows, columns=["rank", "bin", "start_ns", "end_ns", "value_ns"])
    frame["share"] = frame["value_ns"] / 100
    frame.attrs["metric"] = "busy"
    return frame


def byteps_gradients() -> pd.DataFrame:
    """Two tensors of two workers; the second worker waits less."""
    rows = [(0, "byteps.a", 40, 30), (0, "<b>", 20, 10), (1, "byteps.a", 25, 5), (1, "<b>", 12, 2)]
    return pd.DataFrame(
        {
            "rank": [worker for worker, *_ in rows],
            "worker": [worker for worker, *_ in rows],
            "local_rank": 0,
            "tensor": [tensor for _, tensor, *_ in rows],
            "step": 0,
            "total_ns": [total * 1_000 for *_, total, _ in rows],
            "busy_ns": [(total - queue - 1) * 1_000 for *_, total, queue in rows],
            "queue_ns": [queue * 1_000 for *_, queue in rows],
            "tail_ns": 1_000,
            "critical": [True, False, True, False],
            "root": True,
            "job": "job",
        }
    )


def byteps_stages() -> pd.DataFrame:
    return pd.DataFrame(
        {
            "rank": [0, 0, 1],
            "worker": 0,
            "local_rank": [0, 0, 1],
            "stage": ["REDUCE", "COPYH2D", "PULL"],
            "count": [2, 2, 2],
            "sum_ns": [200, 100, 4_000],
            "union_ns": [200, 100, 2_000],
            "queue_ns": [50, 5_000, 10],
            "root": [False, False, True],
            "waits_for_root": [False, True, False],
        }
    )


def byteps_arrivals() -> pd.DataFrame:
    """Two nodes and two iterations of one key; the second node is last in both."""
    return pd.DataFrame(
        {
            "job": "job",
            "server": 0,
            "key": pd.Series([2**63 + 1] * 4, dtype="uint64"),
            "iteration": [0, 0, 1, 1],
            "node": [9, 11, 9, 11],
            "start_ns": [0, 500, 1_000, 1_700],
            "lag_ns": [0, 500, 0, 700],
            "last": [False, True, False, True],
        }
    )


def byteps_pull_blame() -> pd.DataFrame:
    return pd.DataFrame(
        {
            "worker": [0, 1],
            "blame": [0.0, 1.0],
            "slack_ns": [9_000, 0],
            "pulls": [3, 3],
            "pull_ns": [10_000, 1_000],
        }
    )


def byteps_servers() -> pd.DataFrame:
    return pd.DataFrame(
        {
            "server": [0, 1],
            "requests": [8, 4],
            "keys": [2, 1],
            "busy_ns": [3_000, 1_000],
            "push_ns": [3_000, 1_000],
            "wait_ns": [9_000, 2_000],
            "service_ns": [500, 400],
        }
    )


def byteps_clock() -> pd.DataFrame:
    return pd.DataFrame(
        {
            "worker": [0, 1],
            "server": [0, 0],
            "node": [9, 11],
            "offset_ns": [-96_000, 4_000],
            "error_ns": [20_000, 25_000],
            "low_ns": [-116_000, -21_000],
            "high_ns": [-76_000, 29_000],
            "requests": [90, 91],
        }
    )


def mpi_ranks() -> pd.DataFrame:
    """Four ranks on two hosts; the third hardly waits, so the others wait for it."""
    comm = [2.0, 2.1, 0.4, 2.0]
    return pd.DataFrame(
        {
            "job": "job",
            "rank": [0, 1, 2, 3],
            "host": ["<b>one", "<b>one", "two", "two"],
            "comm_s": comm,
            "elapsed_s": 3.0,
            "noncomm_s": [3.0 - each for each in comm],
            "comm_share": [each / 3.0 for each in comm],
            "is_straggler": [False, False, True, False],
        }
    )


def mpi_message_sizes() -> pd.DataFrame:
    """Many small messages, few large ones."""
    return pd.DataFrame(
        {
            "job": "job",
            "rank": 0,
            "routine": ["MPI_Allreduce", "MPI_Allreduce", "<b>"],
            "size_lo": [5, 65_537, 1],
            "size_hi": [8, 131_072, 4],
            "calls": [900, 100, 10],
            "time_s": [0.6, 0.4, 0.0],
            "bytes": [7_200.0, 1e7, 40.0],
        }
    )


def mpi_routines() -> pd.DataFrame:
    return pd.DataFrame(
        {
            "job": "job",
            "rank": [0, 1, 0],
            "routine": ["MPI_Allreduce", "MPI_Allreduce", "<b>"],
            "calls": [10, 10, 2],
            "time_s": [1.0, 0.5, 0.1],
            "bytes": [80.0, 80.0, 0.0],
            "is_io": False,
        }
    )


def mpi_compare() -> pd.DataFrame:
    return pd.DataFrame(
        {
            "routine": ["MPI_Allreduce", "<b>"],
            "size_lo": [5, -1],
            "size_hi": [8, -1],
            "before_calls": [10.0, 0.0],
            "after_calls": [4.0, 1.0],
            "before_time_s": [2.0, 0.0],
            "after_time_s": [0.5, 0.25],
            "diff_time_s": [-1.5, 0.25],
        }
    )


ALL: dict[str, tuple[Callable[..., Any], Callable[..., pd.DataFrame]]] = {
    "temporal_breakdown": (charts.temporal_breakdown, temporal),
    "kernel_type_breakdown": (charts.kernel_type_breakdown, kernel_types),
    "comm_comp_overlap": (charts.comm_comp_overlap, overlap),
    "idle_time_breakdown": (charts.idle_time_breakdown, idle),
    "device_idle_breakdown": (charts.device_idle_breakdown, device_idle),
    "kernel_breakdown": (charts.kernel_breakdown, kernels),
    "kernel_duration_by_rank": (charts.kernel_duration_by_rank, kernels),
    "launch_stats": (charts.launch_stats, launches),
    "queue_length": (charts.queue_length, queue),
    "queue_length_summary": (charts.queue_length_summary, queues),
    "step_phases": (charts.step_phases, phases),
    "rank_time_heatmap": (charts.rank_time_heatmap, rank_time),
    "memory_bandwidth": (charts.memory_bandwidth, bandwidth),
    "operators": (charts.operators, operators),
    "user_annotation_breakdown": (charts.user_annotation_breakdown, annotations),
    "frequent_kernel_sequences": (charts.frequent_kernel_sequences, sequences),
    "stragglers": (charts.stragglers, stragglers),
    "collectives": (charts.collectives, collectives),
    "arrivals": (charts.arrivals, collectives),
    "clock_offsets": (charts.clock_offsets, clock_offsets),
    "step_times": (charts.step_times, step_times),
    "parallel_groups": (charts.parallel_groups, parallel_groups),
    "stragglers_by_step": (charts.stragglers_by_step, stragglers_by_step),
    "rank_clusters": (charts.rank_clusters, rank_clusters),
    "job_critical_path": (charts.job_critical_path, job_path),
    "job_path_summary": (charts.job_path_summary, job_path_parts),
    "communication_by_group": (charts.communication_by_group, groups),
    "communication_by_stream": (charts.communication_by_stream, streams),
    "critical_path": (charts.critical_path, path),
    "memory_timeline": (charts.memory_timeline, memory),
    "diff_ops": (charts.diff_ops, diff),
    "diff_changes": (charts.diff_changes, run_changes),
    "diff_icicle": (charts.diff_icicle, run_tree),
    "diff_names": (charts.diff_names, run_names),
    "diff_steps": (charts.diff_steps, run_steps),
    "diff_waterfall": (charts.diff_waterfall, run_waterfall),
    "byteps_arrivals": (charts.byteps_arrivals, byteps_arrivals),
    "byteps_clock": (charts.byteps_clock, byteps_clock),
    "byteps_gradients": (charts.byteps_gradients, byteps_gradients),
    "byteps_pull_blame": (charts.byteps_pull_blame, byteps_pull_blame),
    "byteps_servers": (charts.byteps_servers, byteps_servers),
    "byteps_stages": (charts.byteps_stages, byteps_stages),
    "mpi_compare": (charts.mpi_compare, mpi_compare),
    "mpi_message_sizes": (charts.mpi_message_sizes, mpi_message_sizes),
    "mpi_ranks": (charts.mpi_ranks, mpi_ranks),
    "mpi_routines": (charts.mpi_routines, mpi_routines),
}
