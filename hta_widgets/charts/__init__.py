"""Bokeh figures: one function per analysis, frame in, figure out."""

from .arrivals import arrivals, clock_offsets
from .beside import column, row
from .busy import comm_comp_overlap, kernel_type_breakdown, temporal_breakdown
from .byteps_servers import byteps_arrivals, byteps_clock, byteps_servers
from .byteps_workers import byteps_gradients, byteps_pull_blame, byteps_stages
from .counters import memory_bandwidth, memory_timeline, queue_length
from .critical import critical_path
from .diff_tree import diff_icicle
from .diffs import diff_ops
from .group_grid import parallel_groups
from .idle import device_idle_breakdown, idle_time_breakdown
from .job_path import job_critical_path, job_path_summary
from .kernels import kernel_breakdown, kernel_duration_by_rank
from .launches import launch_stats
from .mpi_messages import mpi_compare, mpi_message_sizes, mpi_routines
from .mpi_times import mpi_ranks
from .operators import frequent_kernel_sequences, operators, user_annotation_breakdown
from .pages import to_html
from .panels import panel_figure, panel_items
from .queues import queue_length_summary
from .rank_clusters import rank_clusters
from .rank_heatmaps import collectives
from .rank_time import rank_time_heatmap
from .ranks import communication_by_group, communication_by_stream
from .run_changes import diff_changes, diff_names
from .run_diffs import diff_steps, diff_waterfall
from .step_phases import step_phases
from .step_times import step_times
from .straggler_ranking import stragglers
from .straggler_steps import stragglers_by_step
from .theme import DARK, LIGHT, Theme

__all__ = [
    "DARK",
    "LIGHT",
    "Theme",
    "arrivals",
    "byteps_arrivals",
    "byteps_clock",
    "byteps_gradients",
    "byteps_pull_blame",
    "byteps_servers",
    "byteps_stages",
    "clock_offsets",
    "collectives",
    "column",
    "comm_comp_overlap",
    "communication_by_group",
    "communication_by_stream",
    "critical_path",
    "device_idle_breakdown",
    "diff_changes",
    "diff_icicle",
    "diff_names",
    "diff_ops",
    "diff_steps",
    "diff_waterfall",
    "frequent_kernel_sequences",
    "idle_time_breakdown",
    "job_critical_path",
    "job_path_summary",
    "kernel_breakdown",
    "kernel_duration_by_rank",
    "kernel_type_breakdown",
    "launch_stats",
    "memory_bandwidth",
    "memory_timeline",
    "mpi_compare",
    "mpi_message_sizes",
    "mpi_ranks",
    "mpi_routines",
    "operators",
    "panel_figure",
    "panel_items",
    "parallel_groups",
    "queue_length",
    "queue_length_summary",
    "rank_clusters",
    "rank_time_heatmap",
    "row",
    "step_phases",
    "step_times",
    "stragglers",
    "stragglers_by_step",
    "temporal_breakdown",
    "to_html",
    "user_annotation_breakdown",
]
