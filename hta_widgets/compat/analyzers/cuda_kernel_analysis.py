"""HTA's analyses of launches: what they cost, which sequences recur, what operators launch."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

import pandas as pd

from hta_widgets import analysis
from hta_widgets.compat.common.trace import Trace
from hta_widgets.compat.hta_frame import in_us
from hta_widgets.compat.scope import asked_ranks, kept_of, with_attrs_of
from hta_widgets.compat.show import show
from hta_widgets.export.overlays import export_patterns
from hta_widgets.trace.traceset import TraceSet

__all__ = ["CudaKernelAnalysis"]

_NO_SEQUENCES = ["pattern", "count", "GPU kernel duration (us)", "CPU op duration (us)"]


class CudaKernelAnalysis:
    """What the host launches on devices."""

    @classmethod
    def cuda_kernel_launch_stats(
        cls,
        t: TraceSet,
        ranks: Iterable[int] | None = None,
        runtime_cutoff: int = 50,
        launch_delay_cutoff: int = 100,
        include_memory_events: bool = True,
        visualize: bool = True,
    ) -> dict[int, pd.DataFrame]:
        """Return frames by rank; see `TraceAnalysis.get_cuda_kernel_launch_stats`."""
        kept = kept_of(t)
        found = {}
        for rank in asked_ranks(kept, ranks):
            stats = analysis.launch_stats(kept, include_memory=include_memory_events, ranks=[rank])
            if visualize:
                show(
                    "launch_stats",
                    stats,
                    runtime_cutoff_ns=runtime_cutoff * 1000,
                    launch_delay_cutoff_ns=launch_delay_cutoff * 1000,
                )
            frame = pd.DataFrame(
                {
                    "correlation": stats["correlation"],
                    "cpu_duration": in_us(stats["cpu_dur_ns"]),
                    "gpu_duration": in_us(stats["gpu_dur_ns"]),
                    "launch_delay": in_us(stats["launch_delay_ns"]),
                    "kernel": stats["kernel"],
                    "launch": stats["launch"],
                }
            )
            found[rank] = with_attrs_of(frame, stats)
        return found

    @classmethod
    def get_aten_op_kernels_and_delay(
        cls,
        trace: TraceSet,
        ranks: Iterable[int] | None = None,
        sort_by: Sequence[str] | None = None,
    ) -> dict[int, pd.DataFrame]:
        """Return frames by rank; see `TraceAnalysis.get_aten_op_kernels_and_delay`."""
        kept = kept_of(trace)
        found = {}
        for rank in asked_ranks(kept, ranks):
            delays = analysis.operator_launch_delays(kept, ranks=[rank])
            frame = pd.DataFrame(
                {
                    "aten_op_name": delays["operator"],
                    "kernel_sequence": delays["kernel_sequence"],
                    "occurrence_count": delays["occurrence_count"],
                    "avg_aten_op_launch_delay": (
                        delays["avg_operator_launch_delay_ns"] / 1000
                    ).round(3),
                    "avg_runtime_delay": (delays["avg_runtime_delay_ns"] / 1000).round(3),
                }
            )
            order = list(sort_by or ["occurrence_count"])
            frame = frame.sort_values(order, ascending=False, kind="stable")
            found[rank] = with_attrs_of(frame, delays)
        return found

    @classmethod
    def get_frequent_cuda_kernel_sequences(
        cls,
        t: Trace,
        operator_name: str,
        output_dir: str,
        min_pattern_len: int = 3,
        rank: int = 0,
        top_k: int = 5,
        visualize: bool = True,
        compress_other_kernels: bool = True,
    ) -> pd.DataFrame:
        """Return sequences by frequency; see the method of `TraceAnalysis`."""
        kept = kept_of(t)
        patterns = analysis.frequent_kernel_sequences(
            kept, operator_name, min_pattern_len=min_pattern_len, ranks=[rank]
        )
        if not len(patterns):
            return with_attrs_of(pd.DataFrame(columns=_NO_SEQUENCES), patterns)
        if visualize:
            show("frequent_kernel_sequences", patterns.head(top_k))
        folder = Path(output_dir).expanduser()
        folder.mkdir(parents=True, exist_ok=True)
        export_patterns(
            kept,
            operator_name,
            folder,
            rank=rank,
            min_pattern_len=min_pattern_len,
            top_k=top_k,
            compress_other_kernels=compress_other_kernels,
            beside_input=True,  # the caller chose the folder, and here nothing takes it for a rank
        )
        frame = pd.DataFrame(
            {
                "pattern": patterns["pattern"],
                "count": patterns["count"],
                "GPU kernel duration (us)": in_us(patterns["kernel_ns"]),
                "CPU op duration (us)": in_us(patterns["operator_ns"]),
            }
        )
        return with_attrs_of(frame, patterns)
