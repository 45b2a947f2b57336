"""Bokeh figures: one function per analysis, frame in, figure out."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from hta_widgets.charts.arrivals import arrivals
from hta_widgets.charts.arrivals import clock_offsets
from hta_widgets.charts.beside import column
from hta_widgets.charts.beside import row
from hta_widgets.charts.busy import comm_comp_overlap
from hta_widgets.charts.busy import kernel_type_breakdown
from hta_widgets.charts.busy import temporal_breakdown
from hta_widgets.charts.counters import memory_bandwidth
from hta_widgets.charts.counters import memory_timeline
from hta_widgets.charts.counters import queue_length
from hta_widgets.charts.critical import critical_path
from hta_widgets.charts.diff_tree import diff_icicle
from hta_widgets.charts.diffs import diff_ops
from hta_widgets.charts.group_grid import parallel_groups
from hta_widgets.charts.idle import device_idle_breakdown
from hta_widgets.charts.idle import idle_time_breakdown
from hta_widgets.charts.job_path import job_critical_path
from hta_widgets.charts.job_path import job_path_summary
from hta_widgets.charts.kernels import kernel_breakdown
from hta_widgets.charts.kernels import kernel_duration_by_rank
from hta_widgets.charts.launches import launch_stats
from hta_widgets.charts.operators import frequent_kernel_sequences
from hta_widgets.charts.operators import operators
from hta_widgets.charts.operators import user_annotation_breakdown
from hta_widgets.charts.pages import to_html
from hta_widgets.charts.queues import queue_length_summary
from hta_widgets.charts.rank_clusters import rank_clusters
from hta_widgets.charts.rank_heatmaps import collectives
from hta_widgets.charts.rank_time import rank_time_heatmap
from hta_widgets.charts.ranks import communication_by_group
from hta_widgets.charts.ranks import communication_by_stream
from hta_widgets.charts.run_changes import diff_changes
from hta_widgets.charts.run_changes import diff_names
from hta_widgets.charts.run_diffs import diff_steps
from hta_widgets.charts.run_diffs import diff_waterfall
from hta_widgets.charts.step_phases import step_phases
from hta_widgets.charts.step_times import step_times
from hta_widgets.charts.straggler_ranking import stragglers
from hta_widgets.charts.straggler_steps import stragglers_by_step
from hta_widgets.charts.theme import DARK
from hta_widgets.charts.theme import LIGHT
from hta_widgets.charts.theme import Theme

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

if TYPE_CHECKING:
    from hta_widgets.formats.byteps.byteps_servers import byteps_arrivals
    from hta_widgets.formats.byteps.byteps_servers import byteps_clock
    from hta_widgets.formats.byteps.byteps_servers import byteps_servers
    from hta_widgets.formats.byteps.byteps_workers import byteps_gradients
    from hta_widgets.formats.byteps.byteps_workers import byteps_pull_blame
    from hta_widgets.formats.byteps.byteps_workers import byteps_stages
    from hta_widgets.formats.mpi.mpi_messages import mpi_compare
    from hta_widgets.formats.mpi.mpi_messages import mpi_message_sizes
    from hta_widgets.formats.mpi.mpi_messages import mpi_routines
    from hta_widgets.formats.mpi.mpi_times import mpi_ranks
    from hta_widgets.live.panels import panel_figure
    from hta_widgets.live.panels import panel_items

_OF_FORMATS = {
    "byteps_arrivals": "hta_widgets.formats.byteps.byteps_servers",
    "byteps_clock": "hta_widgets.formats.byteps.byteps_servers",
    "byteps_servers": "hta_widgets.formats.byteps.byteps_servers",
    "byteps_gradients": "hta_widgets.formats.byteps.byteps_workers",
    "byteps_pull_blame": "hta_widgets.formats.byteps.byteps_workers",
    "byteps_stages": "hta_widgets.formats.byteps.byteps_workers",
    "mpi_compare": "hta_widgets.formats.mpi.mpi_messages",
    "mpi_message_sizes": "hta_widgets.formats.mpi.mpi_messages",
    "mpi_routines": "hta_widgets.formats.mpi.mpi_messages",
    "mpi_ranks": "hta_widgets.formats.mpi.mpi_times",
    "panel_figure": "hta_widgets.live.panels",
    "panel_items": "hta_widgets.live.panels"
}


if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        if name in _OF_FORMATS:
            return getattr(import_module(_OF_FORMATS[name]), name)
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
