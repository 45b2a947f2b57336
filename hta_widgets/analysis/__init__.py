"""Plain functions from traces to DataFrames, one module per question."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from hta_widgets.analysis.annotations import kernels_by_annotation
from hta_widgets.analysis.annotations import user_annotation_breakdown
from hta_widgets.analysis.busy import comm_comp_overlap
from hta_widgets.analysis.busy import kernel_type_breakdown
from hta_widgets.analysis.busy import temporal_breakdown
from hta_widgets.analysis.clock_offsets import clock_offsets
from hta_widgets.analysis.collectives import collectives
from hta_widgets.analysis.communication import communication_by_group
from hta_widgets.analysis.communication import communication_by_stream
from hta_widgets.analysis.copies import memory_bandwidth
from hta_widgets.analysis.copies import memory_bandwidth_summary
from hta_widgets.analysis.critical.path import critical_path
from hta_widgets.analysis.critical.path import critical_path_summary
from hta_widgets.analysis.critical.path import path_selection
from hta_widgets.analysis.critical.arrows import with_critical_path
from hta_widgets.analysis.cupti import cupti_counters
from hta_widgets.analysis.derived_counters import with_counters
from hta_widgets.analysis.device_idle import device_idle_breakdown
from hta_widgets.analysis.device_idle import device_idle_gaps
from hta_widgets.analysis.diff_ops import diff_ops
from hta_widgets.analysis.exposed_waits import exposed_waits
from hta_widgets.analysis.full_queue import time_blocked_on_full_queue
from hta_widgets.analysis.idle import idle_interval_stats
from hta_widgets.analysis.idle import idle_time_breakdown
from hta_widgets.analysis.job_path import job_critical_path
from hta_widgets.analysis.job_path import job_path_summary
from hta_widgets.analysis.kernels import kernel_breakdown
from hta_widgets.analysis.kernels import kernel_duration_by_rank
from hta_widgets.analysis.launches import launch_outliers
from hta_widgets.analysis.launches import launch_stats
from hta_widgets.analysis.memory_events import memory_events
from hta_widgets.analysis.memory_timeline import memory_timeline
from hta_widgets.analysis.operator_kernels import operator_kernels
from hta_widgets.analysis.operator_kernels import operator_launch_delays
from hta_widgets.analysis.operators import operators
from hta_widgets.analysis.parallel_groups import parallel_groups
from hta_widgets.analysis.phase_times import phase_times
from hta_widgets.analysis.queue import queue_length
from hta_widgets.analysis.queue import queue_length_summary
from hta_widgets.analysis.rank_clusters import rank_clusters
from hta_widgets.analysis.rank_time_heatmap import rank_time_heatmap
from hta_widgets.analysis.sequences import frequent_kernel_sequences
from hta_widgets.analysis.step_times import step_times
from hta_widgets.analysis.stragglers import stragglers
from hta_widgets.analysis.stragglers import stragglers_by_step

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

if TYPE_CHECKING:
    from hta_widgets.formats.byteps.byteps_clock import byteps_clock
    from hta_widgets.formats.byteps.byteps_gradients import byteps_gradient_stages
    from hta_widgets.formats.byteps.byteps_gradients import byteps_gradients
    from hta_widgets.formats.byteps.byteps_pull_blame import byteps_pull_blame
    from hta_widgets.formats.byteps.byteps_pull_blame import byteps_pulls
    from hta_widgets.formats.byteps.requests import byteps_requests
    from hta_widgets.formats.byteps.requests import byteps_servers
    from hta_widgets.formats.byteps.byteps_stages import byteps_bandwidth
    from hta_widgets.formats.byteps.byteps_stages import byteps_stages
    from hta_widgets.formats.byteps.byteps_stages import byteps_steps
    from hta_widgets.formats.byteps.byteps_worker_lag import byteps_arrivals
    from hta_widgets.formats.byteps.byteps_worker_lag import byteps_worker_lag
    from hta_widgets.formats.mpi.mpi_compare import mpi_compare
    from hta_widgets.formats.mpi.mpi_imbalance import mpi_imbalance
    from hta_widgets.formats.mpi.mpi_message_sizes import mpi_message_sizes
    from hta_widgets.formats.mpi.mpi_message_sizes import mpi_negotiation
    from hta_widgets.formats.mpi.mpi_ranks import mpi_hosts
    from hta_widgets.formats.mpi.mpi_ranks import mpi_ranks
    from hta_widgets.formats.mpi.mpi_routines import mpi_call_stacks
    from hta_widgets.formats.mpi.mpi_routines import mpi_routines

_OF_FORMATS = {
    "byteps_clock": "hta_widgets.formats.byteps.byteps_clock",
    "byteps_gradient_stages": "hta_widgets.formats.byteps.byteps_gradients",
    "byteps_gradients": "hta_widgets.formats.byteps.byteps_gradients",
    "byteps_pull_blame": "hta_widgets.formats.byteps.byteps_pull_blame",
    "byteps_pulls": "hta_widgets.formats.byteps.byteps_pull_blame",
    "byteps_requests": "hta_widgets.formats.byteps.requests",
    "byteps_servers": "hta_widgets.formats.byteps.requests",
    "byteps_bandwidth": "hta_widgets.formats.byteps.byteps_stages",
    "byteps_stages": "hta_widgets.formats.byteps.byteps_stages",
    "byteps_steps": "hta_widgets.formats.byteps.byteps_stages",
    "byteps_arrivals": "hta_widgets.formats.byteps.byteps_worker_lag",
    "byteps_worker_lag": "hta_widgets.formats.byteps.byteps_worker_lag",
    "mpi_compare": "hta_widgets.formats.mpi.mpi_compare",
    "mpi_imbalance": "hta_widgets.formats.mpi.mpi_imbalance",
    "mpi_message_sizes": "hta_widgets.formats.mpi.mpi_message_sizes",
    "mpi_negotiation": "hta_widgets.formats.mpi.mpi_message_sizes",
    "mpi_hosts": "hta_widgets.formats.mpi.mpi_ranks",
    "mpi_ranks": "hta_widgets.formats.mpi.mpi_ranks",
    "mpi_call_stacks": "hta_widgets.formats.mpi.mpi_routines",
    "mpi_routines": "hta_widgets.formats.mpi.mpi_routines"
}


if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        if name in _OF_FORMATS:
            return getattr(import_module(_OF_FORMATS[name]), name)
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
