"""Methods of `TraceAnalysis` about where time goes: on devices, and in the program's ranges."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import pandas as pd

from hta_widgets.compat.analyzers.breakdown_analysis import BreakdownAnalysis
from hta_widgets.compat.analyzers.communication_analysis import CommunicationAnalysis
from hta_widgets.compat.common.trace import Trace
from hta_widgets.compat.scope import asked_ranks

__all__ = ["BreakdownMethods"]


class BreakdownMethods:
    """Where time goes."""

    t: Trace

    # --- where device time goes -------------------------------------------------------------------

    def get_temporal_breakdown(self, visualize: bool = True) -> pd.DataFrame:
        """Return how long each rank's devices idle, compute, or do other work.

        Returns
        -------
        DataFrame
            ``rank, idle_time(us), compute_time(us), non_compute_time(us), kernel_time(us),
            idle_time_pctg, compute_time_pctg, non_compute_time_pctg``; see
            `hta_widgets.analysis.temporal_breakdown`. Waits on a stream are not work, as they are
            in HTA.
        """
        return BreakdownAnalysis.get_temporal_breakdown(self.t, visualize)

    def get_idle_time_breakdown(
        self,
        ranks: Iterable[int] | None = None,
        streams: Iterable[int] | None = None,
        visualize: bool = True,
        visualize_pctg: bool = True,
        show_idle_interval_stats: bool = False,
        consecutive_kernel_delay: float = 30,
    ) -> tuple[pd.DataFrame, pd.DataFrame | None]:
        """Return how long each stream idles, and why; `consecutive_kernel_delay` is in µs.

        Returns
        -------
        (DataFrame, DataFrame or None)
            ``rank, stream, idle_category, idle_time, idle_time_ratio``; and, if asked for,
            ``rank, stream, count, mean, std, min, 25%, 50%, 75%, max`` of the gaps by category.
            See `hta_widgets.analysis.idle_time_breakdown`. Gaps are never negative, as they are in
            HTA where kernels of a stream overlap, and streams stay numbers.
        """
        asked = None if streams is None else list(streams)
        found = [
            BreakdownAnalysis.get_idle_time_breakdown(
                self.t,
                consecutive_kernel_delay,
                rank,
                asked,
                visualize,
                visualize_pctg,
                show_idle_interval_stats,
            )
            for rank in asked_ranks(self.t, ranks)
        ]
        idle, stats = _one_below([idle for idle, _ in found]), [one for _, one in found]
        return idle, _one_below([one for one in stats if one is not None], keep_index=True)

    def get_gpu_kernel_breakdown(
        self,
        visualize: bool = True,
        duration_ratio: float = 0.8,
        num_kernels: int = 10,
        include_memory_kernels: bool = True,
        image_renderer: str = "",
    ) -> tuple[pd.DataFrame, pd.DataFrame]:
        """Return how long kinds of kernels run, alone and at once, and what each kernel costs.

        Kernels are shown by name up to `num_kernels` per rank and type, and while the running sum
        of their time stays within its `duration_ratio` quantile; the others are put together.

        Returns
        -------
        (DataFrame, DataFrame)
            ``kernel_type, sum, percentage``; and ``name, sum (us), max (us), min (us), stddev,
            mean (us), kernel_type, rank``. See `hta_widgets.analysis.kernel_type_breakdown` and
            `kernel_breakdown`. All statistics are those of single kernels; HTA's are those of
            sums where there are more than `num_kernels` names.
        """
        return BreakdownAnalysis.get_gpu_kernel_breakdown(
            self.t, visualize, duration_ratio, num_kernels, include_memory_kernels, image_renderer
        )

    def get_comm_comp_overlap(self, visualize: bool = True) -> pd.DataFrame:
        """Return which share of each rank's communication runs while it computes.

        Returns
        -------
        DataFrame
            ``rank, comp_comm_overlap_pctg``; NaN where nothing communicates. See
            `hta_widgets.analysis.comm_comp_overlap`.
        """
        return CommunicationAnalysis.get_comm_comp_overlap(self.t, visualize)

    # --- what the program names -------------------------------------------------------------------

    def get_gpu_user_annotation_breakdown(
        self,
        use_gpu_annotation: bool = True,
        visualize: bool = True,
        duration_ratio: float = 0.8,
        num_kernels: int = 1000,
        allowlist_patterns: Sequence[str] | None = None,
        image_renderer: str | None = None,
    ) -> pd.DataFrame:
        """Return how long the ranges that the program names last, on the device or on the host.

        Names in which any of `allowlist_patterns`, regular expressions, is found are never put
        together as ``others``.

        Returns
        -------
        DataFrame
            ``name, sum (us), max (us), min (us), stddev, mean (us), rank``. See
            `hta_widgets.analysis.user_annotation_breakdown`.
        """
        return BreakdownAnalysis.get_gpu_user_annotation_breakdown(
            self.t,
            use_gpu_annotation,
            visualize,
            duration_ratio,
            num_kernels,
            allowlist_patterns,
            image_renderer,
        )

    def get_gpu_kernels_with_user_annotations(
        self,
        rank: int,
        expand_names: bool = True,
        shorten_names: bool = True,
        *,
        shortern_names: bool | None = None,
    ) -> pd.DataFrame | None:
        """Return the device events of a rank with the range that each falls into.

        `shortern_names` is how HTA 0.5 spells `shorten_names`.

        Returns
        -------
        DataFrame or None
            The columns of ``t.get_trace(rank)``, and ``user_annotation`` (-1: none), ``s_name,
            s_cat, s_user_annotation``. None where no trace has ranges on a device, as in HTA;
            `hta_widgets.analysis.kernels_by_annotation` takes the host's around the launch there.
        """
        shorten = shorten_names if shortern_names is None else shortern_names
        return BreakdownAnalysis.get_gpu_kernels_with_user_annotations(
            self.t, rank, expand_names, shorten
        )


def _one_below(frames: Sequence[pd.DataFrame], *, keep_index: bool = False) -> Any:
    """Put the ranks' frames below each other; None where there are none."""
    if not frames:
        return None
    whole = pd.concat(frames, ignore_index=not keep_index)
    whole.attrs = dict(frames[0].attrs) if len(frames) == 1 or not len(whole) else {}
    return whole
