"""Methods of `TraceAnalysis` about launches, and about counters over time."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import pandas as pd

from hta_widgets.compat.analyzers.cuda_kernel_analysis import CudaKernelAnalysis
from hta_widgets.compat.analyzers.trace_counters import TraceCounters
from hta_widgets.compat.analyzers.trace_with_counters import (
    TimeSeriesTypes,
    write_traces_with_counters,
)
from hta_widgets.compat.common.constants import CUDA_MAX_LAUNCH_QUEUE_PER_STREAM
from hta_widgets.compat.common.trace import Trace
from hta_widgets.compat.scope import asked_ranks

__all__ = ["LaunchMethods"]


class LaunchMethods:
    """What the host launches, and how much of it waits."""

    t: Trace

    # --- launches ---------------------------------------------------------------------------------

    def get_cuda_kernel_launch_stats(
        self,
        ranks: Iterable[int] | None = None,
        runtime_cutoff: int = 50,
        launch_delay_cutoff: int = 100,
        include_memory_events: bool = True,
        visualize: bool = True,
    ) -> dict[int, pd.DataFrame]:
        """Return what each launch took; the cutoffs, in µs, are for the figure.

        Returns
        -------
        dict of int to DataFrame
            By rank: ``correlation, cpu_duration, gpu_duration, launch_delay``, and the names of
            ``kernel`` and ``launch``. See `hta_widgets.analysis.launch_stats`.
        """
        return CudaKernelAnalysis.cuda_kernel_launch_stats(
            self.t, ranks, runtime_cutoff, launch_delay_cutoff, include_memory_events, visualize
        )

    def get_aten_op_kernels_and_delay(
        self, ranks: Iterable[int] | None = None, sort_by: Sequence[str] | None = None
    ) -> dict[int, pd.DataFrame]:
        """Return which kernels operators launch, and after which delays, in µs.

        Returns
        -------
        dict of int to DataFrame
            By rank: ``aten_op_name, kernel_sequence, occurrence_count, avg_aten_op_launch_delay,
            avg_runtime_delay``, sorted by `sort_by`, ``["occurrence_count"]`` by default. See
            `hta_widgets.analysis.operator_launch_delays`.
        """
        return CudaKernelAnalysis.get_aten_op_kernels_and_delay(self.t, ranks, sort_by)

    def get_frequent_cuda_kernel_sequences(
        self,
        operator_name: str,
        output_dir: str,
        min_pattern_len: int = 3,
        rank: int = 0,
        top_k: int = 5,
        visualize: bool = True,
        compress_other_kernels: bool = True,
    ) -> pd.DataFrame:
        """Return the sequences of kernels that an operator launches, by frequency.

        The `top_k` most frequent are marked in ``overlaid_<file>`` in `output_dir`, which holds the
        events that are looked at: search for ``Patterns`` in the viewer. With
        `compress_other_kernels` it leaves out the args and names of all others.

        Returns
        -------
        DataFrame
            ``pattern, count, GPU kernel duration (us), CPU op duration (us)``. See
            `hta_widgets.analysis.frequent_kernel_sequences`.
        """
        return CudaKernelAnalysis.get_frequent_cuda_kernel_sequences(
            self.t,
            operator_name,
            output_dir,
            min_pattern_len,
            rank,
            top_k,
            visualize,
            compress_other_kernels,
        )

    # --- counters ---------------------------------------------------------------------------------

    def get_queue_length_time_series(
        self, ranks: Iterable[int] | None = None
    ) -> dict[int, pd.DataFrame]:
        """Return how many launches wait on each stream, after each launch and each start.

        The launch of a graph waits until the first that it launched on the stream starts. HTA
        leaves graphs out.

        Returns
        -------
        dict of int to DataFrame
            By rank: ``ts, pid, tid, stream, queue_length``; the index is the ``index`` of the
            event. See `hta_widgets.analysis.queue_length`, where each event of a graph counts.
        """
        return TraceCounters.get_queue_length_time_series(self.t, ranks)

    def get_queue_length_summary(self, ranks: Iterable[int] | None = None) -> pd.DataFrame:
        """Return statistics of the changes of each stream's queue.

        Returns
        -------
        DataFrame
            By ``rank, stream``: ``count, mean, std, min, 25%, 50%, 75%, max`` below
            ``queue_length``. See `hta_widgets.analysis.queue_length_summary`.
        """
        return TraceCounters.get_queue_length_summary(self.t, ranks)

    def get_queue_length_summary_from_time_series(
        self, queue_length_dict: Mapping[int, pd.DataFrame]
    ) -> pd.DataFrame:
        """Return the statistics of `get_queue_length_summary` for series that are there."""
        return TraceCounters.get_queue_length_summary_from_time_series(queue_length_dict)

    def get_time_spent_blocked_on_full_queue(
        self,
        queue_length_dict: Mapping[int, pd.DataFrame],
        max_queue_length: int = CUDA_MAX_LAUNCH_QUEUE_PER_STREAM,
    ) -> pd.DataFrame:
        """Return how long the queues of given series hold `max_queue_length` launches or more.

        Returns
        -------
        DataFrame
            One row per rank and stream whose queue is full at some time (HTA keeps one stream per
            rank): ``rank, stream, duration_at_max_queue_length`` in µs,
            ``relative_duration_at_max_queue_length`` to the time from the rank's first to its last
            start of an event.
        """
        return TraceCounters.get_time_spent_blocked_on_full_queue(
            self.t, queue_length_dict, max_queue_length
        )

    def get_memory_bw_time_series(
        self, ranks: Iterable[int] | None = None
    ) -> dict[int, pd.DataFrame]:
        """Return how fast memory is copied, after each start and end of a copy.

        Returns
        -------
        dict of int to DataFrame
            By rank: ``ts, pid, name`` (kind of copy)``, memory_bw_gbps``. See
            `hta_widgets.analysis.memory_bandwidth`.
        """
        return TraceCounters.get_memory_bw_time_series(self.t, ranks)

    def get_memory_bw_summary(self, ranks: Iterable[int] | None = None) -> pd.DataFrame:
        """Return statistics of the rates at which memory is copied.

        Returns
        -------
        DataFrame
            By ``rank, name``: ``count, mean, std, min, 25%, 50%, 75%, max`` below
            ``memory_bw_gbps``. See `hta_widgets.analysis.memory_bandwidth_summary`.
        """
        return TraceCounters.get_memory_bw_summary(self.t, ranks)

    def generate_trace_with_counters(
        self,
        time_series: TimeSeriesTypes | None = None,
        ranks: Iterable[int] | None = None,
        output_suffix: str = "_with_counters",
        output_dir: str | Path | None = None,
    ) -> list[Path]:
        """Write traces that also hold queue lengths and memory bandwidth as counters.

        Parameters
        ----------
        time_series : TimeSeriesTypes, optional
            Both by default.
        ranks : iterable of int, optional
        output_suffix : str
            Put before ``.json`` in the file's name.
        output_dir : path-like, optional
            The current folder by default; a new temporary one where that holds the trace.

        Returns
        -------
        list of Path
            The files, which are printed too. HTA writes beside the traces, where its next run
            takes the file for one more trace of the rank.
        """
        return write_traces_with_counters(
            self.t, time_series, asked_ranks(self.t, ranks), output_suffix, output_dir
        )
