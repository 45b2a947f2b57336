"""Functions that take traces and return DataFrames, one module per topic.

Most take `selection`, `window` and `ranks`, whose intersection is analysed. Times are on the clock
of the selection's traces, which a view may have fitted, else on that of the traces.
"""

from typing import TYPE_CHECKING

from hta_widgets.readers.formats import module_getattr, references

__all__ = [
    "all_to_all_matrix",
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
    "collective_hangs",
    "collective_states",
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
    "fusion_candidates",
    "graph_replays",
    "horovod_readiness",
    "idle_interval_stats",
    "idle_time_breakdown",
    "job_critical_path",
    "job_path_summary",
    "kernel_breakdown",
    "kernel_details",
    "kernel_duration_by_rank",
    "kernel_type_breakdown",
    "kernels_by_annotation",
    "launch_outliers",
    "launch_stats",
    "memory_bandwidth",
    "memory_bandwidth_summary",
    "memory_events",
    "memory_timeline",
    "modules",
    "mpi_call_stacks",
    "mpi_compare",
    "mpi_hosts",
    "mpi_imbalance",
    "mpi_message_sizes",
    "mpi_negotiation",
    "mpi_ranks",
    "mpi_routines",
    "operator_efficiency",
    "operator_kernels",
    "operator_launch_delays",
    "operators",
    "parallel_groups",
    "path_selection",
    "phase_times",
    "pipeline_bubbles",
    "pipeline_passes",
    "queue_length",
    "queue_length_summary",
    "rank_clusters",
    "rank_time_heatmap",
    "serving_steps",
    "snapshot_peak",
    "snapshot_segments",
    "snapshot_timeline",
    "step_efficiency",
    "step_times",
    "stragglers",
    "stragglers_by_step",
    "temporal_breakdown",
    "time_blocked_on_full_queue",
    "traffic",
    "user_annotation_breakdown",
    "with_counters",
    "with_critical_path",
]

if TYPE_CHECKING:
    from hta_widgets.analysis.bandwidth import memory_bandwidth, memory_bandwidth_summary
    from hta_widgets.analysis.clusters import rank_clusters, rank_time_heatmap
    from hta_widgets.analysis.counters import with_counters
    from hta_widgets.analysis.critical.path import (
        critical_path,
        critical_path_summary,
        path_selection,
        with_critical_path,
    )
    from hta_widgets.analysis.cross_rank.all_to_all import all_to_all_matrix
    from hta_widgets.analysis.cross_rank.clock_fit import clock_offsets
    from hta_widgets.analysis.cross_rank.collectives import collectives
    from hta_widgets.analysis.cross_rank.parallel_groups import parallel_groups
    from hta_widgets.analysis.cross_rank.stragglers import stragglers, stragglers_by_step
    from hta_widgets.analysis.cross_rank.traffic import traffic
    from hta_widgets.analysis.cross_rank.waits import exposed_waits
    from hta_widgets.analysis.device_time import (
        comm_comp_overlap,
        communication_by_group,
        communication_by_stream,
        kernel_type_breakdown,
        temporal_breakdown,
    )
    from hta_widgets.analysis.efficiency.fusion_candidates import fusion_candidates
    from hta_widgets.analysis.efficiency.graph_replays import graph_replays
    from hta_widgets.analysis.efficiency.kernel_details import kernel_details
    from hta_widgets.analysis.efficiency.modules import modules
    from hta_widgets.analysis.efficiency.operator_efficiency import operator_efficiency
    from hta_widgets.analysis.efficiency.serving_steps import serving_steps
    from hta_widgets.analysis.efficiency.step_efficiency import step_efficiency
    from hta_widgets.analysis.horovod import horovod_readiness
    from hta_widgets.analysis.idle import (
        device_idle_breakdown,
        device_idle_gaps,
        idle_interval_stats,
        idle_time_breakdown,
    )
    from hta_widgets.analysis.job_path import job_critical_path, job_path_summary
    from hta_widgets.analysis.kernels import (
        cupti_counters,
        kernel_breakdown,
        kernel_duration_by_rank,
        kernels_by_annotation,
        user_annotation_breakdown,
    )
    from hta_widgets.analysis.kernels_by_operator import (
        frequent_kernel_sequences,
        operator_kernels,
        operator_launch_delays,
    )
    from hta_widgets.analysis.launches import launch_outliers, launch_stats
    from hta_widgets.analysis.memory import memory_events, memory_timeline
    from hta_widgets.analysis.operator_diff import diff_ops
    from hta_widgets.analysis.operator_times import operators
    from hta_widgets.analysis.pipeline import pipeline_bubbles, pipeline_passes
    from hta_widgets.analysis.queues import (
        queue_length,
        queue_length_summary,
        time_blocked_on_full_queue,
    )
    from hta_widgets.analysis.steps import phase_times, step_times
    from hta_widgets.formats.byteps.servers import (
        byteps_arrivals,
        byteps_clock,
        byteps_requests,
        byteps_servers,
        byteps_worker_lag,
    )
    from hta_widgets.formats.byteps.workers import (
        byteps_bandwidth,
        byteps_gradient_stages,
        byteps_gradients,
        byteps_pull_blame,
        byteps_pulls,
        byteps_stages,
        byteps_steps,
    )
    from hta_widgets.formats.flight_recorder.states import collective_hangs, collective_states
    from hta_widgets.formats.memory_snapshot.usage import (
        snapshot_peak,
        snapshot_segments,
        snapshot_timeline,
    )
    from hta_widgets.formats.mpi.ranks import mpi_hosts, mpi_imbalance, mpi_ranks
    from hta_widgets.formats.mpi.routines import (
        mpi_call_stacks,
        mpi_compare,
        mpi_message_sizes,
        mpi_negotiation,
        mpi_routines,
    )

# By module. They are imported when they are first used, as a command needs one or two of them.
_FUNCTIONS = {
    "bandwidth": "memory_bandwidth memory_bandwidth_summary",
    "clusters": "rank_clusters rank_time_heatmap",
    "counters": "with_counters",
    "critical.path": "critical_path critical_path_summary path_selection with_critical_path",
    "cross_rank.all_to_all": "all_to_all_matrix",
    "cross_rank.clock_fit": "clock_offsets",
    "cross_rank.collectives": "collectives",
    "cross_rank.parallel_groups": "parallel_groups",
    "cross_rank.stragglers": "stragglers stragglers_by_step",
    "cross_rank.traffic": "traffic",
    "cross_rank.waits": "exposed_waits",
    "device_time": "comm_comp_overlap communication_by_group communication_by_stream"
    " kernel_type_breakdown temporal_breakdown",
    "operator_diff": "diff_ops",
    "efficiency.fusion_candidates": "fusion_candidates",
    "efficiency.graph_replays": "graph_replays",
    "efficiency.kernel_details": "kernel_details",
    "efficiency.modules": "modules",
    "efficiency.operator_efficiency": "operator_efficiency",
    "efficiency.serving_steps": "serving_steps",
    "efficiency.step_efficiency": "step_efficiency",
    "horovod": "horovod_readiness",
    "idle": "device_idle_breakdown device_idle_gaps idle_interval_stats idle_time_breakdown",
    "job_path": "job_critical_path job_path_summary",
    "kernels": "cupti_counters kernel_breakdown kernel_duration_by_rank kernels_by_annotation"
    " user_annotation_breakdown",
    "launches": "launch_outliers launch_stats",
    "memory": "memory_events memory_timeline",
    "kernels_by_operator": "frequent_kernel_sequences operator_kernels operator_launch_delays",
    "operator_times": "operators",
    "pipeline": "pipeline_bubbles pipeline_passes",
    "queues": "queue_length queue_length_summary time_blocked_on_full_queue",
    "steps": "phase_times step_times",
}

if not TYPE_CHECKING:
    __getattr__ = module_getattr(
        __name__,
        lambda format_: format_.analyses.functions,
        [
            reference
            for module, names in _FUNCTIONS.items()
            for reference in references(f"{__name__}.{module}", names)
        ],
    )


def __dir__() -> list[str]:
    return __all__
