"""Plain functions from traces to DataFrames, one module per question."""

from .annotations import kernels_by_annotation, user_annotation_breakdown
from .busy import comm_comp_overlap, kernel_type_breakdown, temporal_breakdown
from .byteps_clock import byteps_clock
from .byteps_gradients import byteps_gradient_stages, byteps_gradients
from .byteps_pull_blame import byteps_pull_blame, byteps_pulls
from .byteps_requests import byteps_requests, byteps_servers
from .byteps_stages import byteps_bandwidth, byteps_stages, byteps_steps
from .byteps_worker_lag import byteps_arrivals, byteps_worker_lag
from .clock_offsets import clock_offsets
from .collectives import collectives
from .communication import communication_by_group, communication_by_stream
from .copies import memory_bandwidth, memory_bandwidth_summary
from .critical import (
    critical_path,
    critical_path_summary,
    path_selection,
    with_critical_path,
)
from .cupti import cupti_counters
from .derived_counters import with_counters
from .device_idle import device_idle_breakdown, device_idle_gaps
from .diff_ops import diff_ops
from .exposed_waits import exposed_waits
from .full_queue import time_blocked_on_full_queue
from .idle import idle_interval_stats, idle_time_breakdown
from .job_path import job_critical_path, job_path_summary
from .kernels import kernel_breakdown, kernel_duration_by_rank
from .launches import launch_outliers, launch_stats
from .memory_events import memory_events
from .memory_timeline import memory_timeline
from .mpi_compare import mpi_compare
from .mpi_imbalance import mpi_imbalance
from .mpi_message_sizes import mpi_message_sizes, mpi_negotiation
from .mpi_ranks import mpi_hosts, mpi_ranks
from .mpi_routines import mpi_call_stacks, mpi_routines
from .operator_kernels import operator_kernels, operator_launch_delays
from .operators import operators
from .parallel_groups import parallel_groups
from .phase_times import phase_times
from .queue import queue_length, queue_length_summary
from .rank_clusters import rank_clusters
from .rank_time_heatmap import rank_time_heatmap
from .sequences import frequent_kernel_sequences
from .step_times import step_times
from .stragglers import stragglers, stragglers_by_step

__all__ = [
    "byteps_arrivals",
    "byteps_bandwidth",
    "byteps_clock",
    "byteps_gradient_stages",
    "byteps_gradients",
    "byteps_pull_blame",
    "byteps_pulls",
    "byteps_requests",
    "byteps_servers",
    "byteps_stages",
    "byteps_steps",
    "byteps_worker_lag",
    "clock_offsets",
    "collectives",
    "comm_comp_overlap",
    "communication_by_group",
    "communication_by_stream",
    "critical_path",
    "critical_path_summary",
    "cupti_counters",
    "device_idle_breakdown",
    "device_idle_gaps",
    "diff_ops",
    "exposed_waits",
    "frequent_kernel_sequences",
    "idle_interval_stats",
    "idle_time_breakdown",
    "job_critical_path",
    "job_path_summary",
    "kernel_breakdown",
    "kernel_duration_by_rank",
    "kernel_type_breakdown",
    "kernels_by_annotation",
    "launch_outliers",
    "launch_stats",
    "memory_bandwidth",
    "memory_bandwidth_summary",
    "memory_events",
    "memory_timeline",
    "mpi_call_stacks",
    "mpi_compare",
    "mpi_hosts",
    "mpi_imbalance",
    "mpi_message_sizes",
    "mpi_negotiation",
    "mpi_ranks",
    "mpi_routines",
    "operator_kernels",
    "operator_launch_delays",
    "operators",
    "parallel_groups",
    "path_selection",
    "phase_times",
    "queue_length",
    "queue_length_summary",
    "rank_clusters",
    "rank_time_heatmap",
    "step_times",
    "stragglers",
    "stragglers_by_step",
    "temporal_breakdown",
    "time_blocked_on_full_queue",
    "user_annotation_breakdown",
    "with_counters",
    "with_critical_path",
]
