# The names of the package, and where they are from; `hta_widgets.lazy` says how they are imported.

from hta_widgets.charts.collectives import (
    arrivals as arrivals,
    clock_offsets as clock_offsets,
    collectives as collectives,
)
from hta_widgets.charts.device import (
    comm_comp_overlap as comm_comp_overlap,
    device_idle_breakdown as device_idle_breakdown,
    idle_time_breakdown as idle_time_breakdown,
    kernel_breakdown as kernel_breakdown,
    kernel_duration_by_rank as kernel_duration_by_rank,
    kernel_type_breakdown as kernel_type_breakdown,
    queue_length_summary as queue_length_summary,
    temporal_breakdown as temporal_breakdown,
)
from hta_widgets.charts.diffs import (
    diff_changes as diff_changes,
    diff_icicle as diff_icicle,
    diff_names as diff_names,
    diff_ops as diff_ops,
    diff_steps as diff_steps,
    diff_waterfall as diff_waterfall,
)
from hta_widgets.charts.efficiency import (
    modules as modules,
    operator_efficiency as operator_efficiency,
)
from hta_widgets.charts.figure import column as column, row as row, to_html as to_html
from hta_widgets.charts.groups import (
    communication_by_group as communication_by_group,
    communication_by_stream as communication_by_stream,
    parallel_groups as parallel_groups,
)
from hta_widgets.charts.lanes import (
    memory_bandwidth as memory_bandwidth,
    memory_timeline as memory_timeline,
    queue_length as queue_length,
)
from hta_widgets.charts.launches import launch_stats as launch_stats
from hta_widgets.charts.operators import (
    frequent_kernel_sequences as frequent_kernel_sequences,
    operators as operators,
    user_annotation_breakdown as user_annotation_breakdown,
)
from hta_widgets.charts.paths import (
    critical_path as critical_path,
    job_critical_path as job_critical_path,
    job_path_summary as job_path_summary,
)
from hta_widgets.charts.ranks import (
    rank_clusters as rank_clusters,
    rank_time_heatmap as rank_time_heatmap,
)
from hta_widgets.charts.steps import step_phases as step_phases, step_times as step_times
from hta_widgets.charts.stragglers import (
    stragglers as stragglers,
    stragglers_by_step as stragglers_by_step,
)
from hta_widgets.charts.theme import DARK as DARK, LIGHT as LIGHT, Theme as Theme
from hta_widgets.formats.byteps.views import (
    byteps_arrivals as byteps_arrivals,
    byteps_clock as byteps_clock,
    byteps_gradients as byteps_gradients,
    byteps_pull_blame as byteps_pull_blame,
    byteps_servers as byteps_servers,
    byteps_stages as byteps_stages,
)
from hta_widgets.formats.mpi.views import (
    mpi_compare as mpi_compare,
    mpi_message_sizes as mpi_message_sizes,
    mpi_ranks as mpi_ranks,
    mpi_routines as mpi_routines,
)
