"""Bokeh figures: one function per analysis, frame in, figure out."""

from .busy import comm_comp_overlap, kernel_type_breakdown, temporal_breakdown
from .counters import memory_bandwidth, memory_timeline, queue_length
from .critical import critical_path
from .diffs import diff_ops
from .idle import device_idle_breakdown, idle_time_breakdown
from .kernels import kernel_breakdown, kernel_duration_by_rank
from .launches import launch_stats
from .operators import frequent_kernel_sequences, operators, user_annotation_breakdown
from .pages import to_html
from .ranks import collectives, communication_by_group, communication_by_stream, stragglers
from .theme import DARK, LIGHT, Theme

__all__ = [
    "DARK",
    "LIGHT",
    "Theme",
    "collectives",
    "comm_comp_overlap",
    "communication_by_group",
    "communication_by_stream",
    "critical_path",
    "device_idle_breakdown",
    "diff_ops",
    "frequent_kernel_sequences",
    "idle_time_breakdown",
    "kernel_breakdown",
    "kernel_duration_by_rank",
    "kernel_type_breakdown",
    "launch_stats",
    "memory_bandwidth",
    "memory_timeline",
    "operators",
    "queue_length",
    "stragglers",
    "temporal_breakdown",
    "to_html",
    "user_annotation_breakdown",
]
