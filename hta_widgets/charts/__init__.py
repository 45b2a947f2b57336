"""Bokeh figures. The functions take the result of an analysis and return a chart of it."""

from typing import TYPE_CHECKING

from hta_widgets.charts.collectives import arrivals, clock_offsets, collectives
from hta_widgets.charts.device import (
    comm_comp_overlap,
    device_idle_breakdown,
    idle_time_breakdown,
    kernel_breakdown,
    kernel_duration_by_rank,
    kernel_type_breakdown,
    queue_length_summary,
    temporal_breakdown,
)
from hta_widgets.charts.diffs import (
    diff_changes,
    diff_icicle,
    diff_names,
    diff_ops,
    diff_steps,
    diff_waterfall,
)
from hta_widgets.charts.efficiency import modules, operator_efficiency
from hta_widgets.charts.figure import column, row, to_html
from hta_widgets.charts.groups import (
    communication_by_group,
    communication_by_stream,
    parallel_groups,
)
from hta_widgets.charts.lanes import memory_bandwidth, memory_timeline, queue_length
from hta_widgets.charts.launches import launch_stats
from hta_widgets.charts.operators import (
    frequent_kernel_sequences,
    operators,
    user_annotation_breakdown,
)
from hta_widgets.charts.paths import critical_path, job_critical_path, job_path_summary
from hta_widgets.charts.ranks import rank_clusters, rank_time_heatmap
from hta_widgets.charts.steps import step_phases, step_times
from hta_widgets.charts.stragglers import stragglers, stragglers_by_step
from hta_widgets.charts.theme import DARK, LIGHT, Theme
from hta_widgets.readers.formats import module_getattr

__all__ = [
    "DARK", "LIGHT", "Theme", "arrivals", "byteps_arrivals", "byteps_clock", "byteps_gradients",
    "byteps_pull_blame", "byteps_servers", "byteps_stages", "clock_offsets", "collectives",
    "column", "comm_comp_overlap", "communication_by_group", "communication_by_stream",
    "critical_path", "device_idle_breakdown", "diff_changes", "diff_icicle", "diff_names",
    "diff_ops", "diff_steps", "diff_waterfall", "frequent_kernel_sequences", "idle_time_breakdown",
    "job_critical_path", "job_path_summary", "kernel_breakdown", "kernel_duration_by_rank",
    "kernel_type_breakdown", "launch_stats", "memory_bandwidth", "memory_timeline", "modules",
    "mpi_compare", "mpi_message_sizes", "mpi_ranks", "mpi_routines", "operator_efficiency",
    "operators", "parallel_groups", "queue_length", "queue_length_summary", "rank_clusters",
    "rank_time_heatmap", "row", "step_phases", "step_times", "stragglers", "stragglers_by_step",
    "temporal_breakdown", "to_html", "user_annotation_breakdown",
]  # fmt: skip

if TYPE_CHECKING:
    from hta_widgets.formats.byteps.views import (
        byteps_arrivals,
        byteps_clock,
        byteps_gradients,
        byteps_pull_blame,
        byteps_servers,
        byteps_stages,
    )
    from hta_widgets.formats.mpi.views import (
        mpi_compare,
        mpi_message_sizes,
        mpi_ranks,
        mpi_routines,
    )

if not TYPE_CHECKING:
    __getattr__ = module_getattr(__name__, lambda format_: format_.views.charts)


def __dir__() -> list[str]:
    return __all__
