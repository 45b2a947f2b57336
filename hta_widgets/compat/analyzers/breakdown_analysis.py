"""HTA's breakdowns: device time by what it is spent on, kernels by name, idle time by cause."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import pandas as pd

from hta_widgets import analysis
from hta_widgets.compat.analyzers.annotation_analysis import AnnotationAnalysis
from hta_widgets.compat.analyzers.top_names import statistics_us, top_names
from hta_widgets.compat.hta_frame import in_us
from hta_widgets.compat.scope import kept_of, with_attrs_of
from hta_widgets.compat.show import in_notebook, show
from hta_widgets.compat.utils.utils import KERNEL_TYPE_OF_KIND
from hta_widgets.trace.traceset import TraceSet

__all__ = ["BreakdownAnalysis"]

_IDLE_STATS = {
    "mean_ns": "mean",
    "std_ns": "std",
    "min_ns": "min",
    "p25_ns": "25%",
    "p50_ns": "50%",
    "p75_ns": "75%",
    "max_ns": "max",
}


class BreakdownAnalysis(AnnotationAnalysis):
    """Where device time goes."""

    @classmethod
    def get_temporal_breakdown(cls, t: TraceSet, visualize: bool = True) -> pd.DataFrame:
        """Return idle, compute and other time; see `TraceAnalysis.get_temporal_breakdown`."""
        split = analysis.temporal_breakdown(kept_of(t))
        if visualize:
            show("temporal_breakdown", split)
        times = {"idle": "idle", "compute": "compute", "non_compute": "non_compute"}
        frame = pd.DataFrame(
            {
                "rank": split["rank"],
                **{f"{name}_time(us)": in_us(split[f"{name}_ns"]) for name in times},
                "kernel_time(us)": in_us(split["span_ns"]),
                **{f"{name}_time_pctg": split[f"{name}_pct"].round(2) for name in times},
            }
        )
        return with_attrs_of(frame, split)

    @classmethod
    def get_gpu_kernel_breakdown(
        cls,
        t: TraceSet,
        visualize: bool = True,
        duration_ratio: float = 0.8,
        num_kernels: int = 10,
        include_memory_kernels: bool = True,
        image_renderer: str = "",
    ) -> tuple[pd.DataFrame, pd.DataFrame]:
        """Return time by type and by kernel; see `TraceAnalysis.get_gpu_kernel_breakdown`."""
        del image_renderer
        kept = kept_of(t)
        types = analysis.kernel_type_breakdown(kept, include_memory=include_memory_kernels)
        kernels = analysis.kernel_breakdown(kept, include_memory=include_memory_kernels)
        if visualize:
            show("kernel_type_breakdown", types)
            show("kernel_breakdown", kernels, top=num_kernels)
        if visualize and in_notebook():
            lasts = analysis.kernel_duration_by_rank(
                kept, include_memory=include_memory_kernels, top=num_kernels
            )
            show("kernel_duration_by_rank", lasts)
        type_frame = pd.DataFrame(
            {
                "kernel_type": types["kernel_type"],
                "sum": in_us(types["sum_ns"]),
                "percentage": (100 * types["share"]).round(1),
            }
        )
        shown = [
            top_names(group, num_kernels, duration_ratio).assign(
                kernel_type=KERNEL_TYPE_OF_KIND[str(group["kind"].iloc[0])],
                rank=group["rank"].iloc[0],
            )
            for _, group in kernels.groupby(["rank", "kind"], observed=True)
        ]
        every = (
            pd.concat(shown, ignore_index=True)
            if shown
            else kernels.assign(kernel_type=pd.Series(dtype="str"))
        )
        every = every.sort_values(["kernel_type", "name", "rank"], ignore_index=True)
        kernel_frame = pd.DataFrame(
            {
                "name": every["name"],
                **statistics_us(every),
                "kernel_type": every["kernel_type"],
                "rank": every["rank"].astype(np.int64),
            }
        )
        return with_attrs_of(type_frame, types), with_attrs_of(kernel_frame, kernels)

    @classmethod
    def get_idle_time_breakdown(
        cls,
        t: TraceSet,
        consecutive_kernel_delay: float,
        rank: int = 0,
        streams: Iterable[int] | None = None,
        visualize: bool = True,
        visualize_pctg: bool = True,
        show_idle_interval_stats: bool = False,
    ) -> tuple[pd.DataFrame, pd.DataFrame | None]:
        """Return one rank's idle time by cause; see `TraceAnalysis.get_idle_time_breakdown`."""
        del visualize_pctg
        kept = kept_of(t)
        chosen: dict[str, Any] = {
            "consecutive_kernel_delay_ns": round(consecutive_kernel_delay * 1000),
            "streams": list(streams) if streams is not None and list(streams) else None,
            "ranks": [rank],
        }
        idle = analysis.idle_time_breakdown(kept, **chosen)
        if visualize:
            show("idle_time_breakdown", idle)
        # As HTA has it, what did not occur has no row, and `other` always has one.
        there = (idle["gaps"] > 0) | (idle["idle_category"] == "other")
        frame = pd.DataFrame(
            {
                "rank": idle["rank"],
                "stream": idle["stream"],
                "idle_category": idle["idle_category"].astype("str"),
                "idle_time": in_us(idle["idle_ns"]),
                "idle_time_ratio": idle["idle_share"].round(2),
            }
        )[there]
        frame = with_attrs_of(frame.reset_index(drop=True), idle)
        if not show_idle_interval_stats:
            return frame, None
        stats = analysis.idle_interval_stats(kept, **chosen)
        described = pd.DataFrame(
            {
                "rank": stats["rank"],
                "stream": stats["stream"],
                "count": stats["count"].astype(np.float64),
                **{shown: (stats[name] / 1000).round(2) for name, shown in _IDLE_STATS.items()},
            }
        )
        described.index = pd.Index(stats["idle_category"].astype("str"), name="idle_category")
        there = (stats["count"] > 0) | (stats["idle_category"] == "other")
        return frame, with_attrs_of(described[there.to_numpy()], stats)
