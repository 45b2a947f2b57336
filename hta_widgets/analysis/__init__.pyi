# The names of the package, and where they are from; `hta_widgets.lazy` says how they are imported.

from hta_widgets.analysis.bandwidth import (
    memory_bandwidth as memory_bandwidth,
    memory_bandwidth_summary as memory_bandwidth_summary,
)
from hta_widgets.analysis.clusters import (
    rank_clusters as rank_clusters,
    rank_time_heatmap as rank_time_heatmap,
)
from hta_widgets.analysis.counters import with_counters as with_counters
from hta_widgets.analysis.critical.path import (
    critical_path as critical_path,
    critical_path_summary as critical_path_summary,
    path_selection as path_selection,
    with_critical_path as with_critical_path,
)
from hta_widgets.analysis.cross_rank.all_to_all import all_to_all_matrix as all_to_all_matrix
from hta_widgets.analysis.cross_rank.clock_fit import clock_offsets as clock_offsets
from hta_widgets.analysis.cross_rank.collectives import collectives as collectives
from hta_widgets.analysis.cross_rank.parallel_groups import parallel_groups as parallel_groups
from hta_widgets.analysis.cross_rank.stragglers import (
    stragglers as stragglers,
    stragglers_by_step as stragglers_by_step,
)
from hta_widgets.analysis.cross_rank.traffic import traffic as traffic
from hta_widgets.analysis.cross_rank.waits import exposed_waits as exposed_waits
from hta_widgets.analysis.device_time import (
    comm_comp_overlap as comm_comp_overlap,
    communication_by_group as communication_by_group,
    communication_by_stream as communication_by_stream,
    kernel_type_breakdown as kernel_type_breakdown,
    temporal_breakdown as temporal_breakdown,
)
from hta_widgets.analysis.efficiency.fusion_candidates import fusion_candidates as fusion_candidates
from hta_widgets.analysis.efficiency.kernel_details import kernel_details as kernel_details
from hta_widgets.analysis.efficiency.modules import modules as modules
from hta_widgets.analysis.efficiency.operator_efficiency import (
    operator_efficiency as operator_efficiency,
)
from hta_widgets.analysis.efficiency.serving_steps import serving_steps as serving_steps
from hta_widgets.analysis.efficiency.step_efficiency import step_efficiency as step_efficiency
from hta_widgets.analysis.horovod import horovod_readiness as horovod_readiness
from hta_widgets.analysis.idle import (
    device_idle_breakdown as device_idle_breakdown,
    device_idle_gaps as device_idle_gaps,
    idle_interval_stats as idle_interval_stats,
    idle_time_breakdown as idle_time_breakdown,
)
from hta_widgets.analysis.job_path import (
    job_critical_path as job_critical_path,
    job_path_summary as job_path_summary,
)
from hta_widgets.analysis.kernels import (
    cupti_counters as cupti_counters,
    kernel_breakdown as kernel_breakdown,
    kernel_duration_by_rank as kernel_duration_by_rank,
    kernels_by_annotation as kernels_by_annotation,
    user_annotation_breakdown as user_annotation_breakdown,
)
from hta_widgets.analysis.kernels_by_operator import (
    frequent_kernel_sequences as frequent_kernel_sequences,
    operator_kernels as operator_kernels,
    operator_launch_delays as operator_launch_delays,
)
from hta_widgets.analysis.launches import (
    graph_replays as graph_replays,
    launch_outliers as launch_outliers,
    launch_stats as launch_stats,
)
from hta_widgets.analysis.memory import (
    memory_events as memory_events,
    memory_timeline as memory_timeline,
)
from hta_widgets.analysis.operator_diff import diff_ops as diff_ops
from hta_widgets.analysis.operator_times import operators as operators
from hta_widgets.analysis.pipeline import (
    pipeline_bubbles as pipeline_bubbles,
    pipeline_passes as pipeline_passes,
)
from hta_widgets.analysis.queues import (
    queue_length as queue_length,
    queue_length_summary as queue_length_summary,
    time_blocked_on_full_queue as time_blocked_on_full_queue,
)
from hta_widgets.analysis.steps import phase_times as phase_times, step_times as step_times
from hta_widgets.formats.byteps.servers import (
    byteps_arrivals as byteps_arrivals,
    byteps_clock as byteps_clock,
    byteps_requests as byteps_requests,
    byteps_servers as byteps_servers,
    byteps_worker_lag as byteps_worker_lag,
)
from hta_widgets.formats.byteps.workers import (
    byteps_bandwidth as byteps_bandwidth,
    byteps_gradient_stages as byteps_gradient_stages,
    byteps_gradients as byteps_gradients,
    byteps_pull_blame as byteps_pull_blame,
    byteps_pulls as byteps_pulls,
    byteps_stages as byteps_stages,
    byteps_steps as byteps_steps,
)
from hta_widgets.formats.flight_recorder.states import (
    collective_hangs as collective_hangs,
    collective_states as collective_states,
)
from hta_widgets.formats.memory_snapshot.usage import (
    snapshot_peak as snapshot_peak,
    snapshot_segments as snapshot_segments,
    snapshot_timeline as snapshot_timeline,
)
from hta_widgets.formats.mpi.ranks import (
    mpi_hosts as mpi_hosts,
    mpi_imbalance as mpi_imbalance,
    mpi_ranks as mpi_ranks,
)
from hta_widgets.formats.mpi.routines import (
    mpi_call_stacks as mpi_call_stacks,
    mpi_compare as mpi_compare,
    mpi_message_sizes as mpi_message_sizes,
    mpi_negotiation as mpi_negotiation,
    mpi_routines as mpi_routines,
)
