"""HTA's answers about the ranges that a program names."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from hta_widgets import analysis
from hta_widgets.compat.analyzers.top_names import statistics_us, top_names
from hta_widgets.compat.common.trace import Trace
from hta_widgets.compat.common.trace_symbol_table import decode_symbol_id_to_symbol_name
from hta_widgets.compat.configs.config import logger
from hta_widgets.compat.hta_frame import hta_frame
from hta_widgets.compat.scope import kept_of, with_attrs_of, zero_ns_of
from hta_widgets.compat.show import show

__all__ = ["AnnotationAnalysis"]

_BY_LAUNCH = "hta_widgets.analysis.kernels_by_annotation takes those of the host by the launch"


class AnnotationAnalysis:
    """How long ranges last, and which kernels fall into them."""

    @classmethod
    def get_gpu_user_annotation_breakdown(
        cls,
        t: Trace,
        use_gpu_annotation: bool = True,
        visualize: bool = True,
        duration_ratio: float = 0.8,
        num_kernels: int = 1000,
        allowlist_patterns: Sequence[str] | None = None,
        image_renderer: str | None = None,
    ) -> pd.DataFrame:
        """Return time by range; see `TraceAnalysis.get_gpu_user_annotation_breakdown`."""
        del image_renderer
        ranges = analysis.user_annotation_breakdown(kept_of(t), use_device=use_gpu_annotation)
        if visualize:
            show("user_annotation_breakdown", ranges)
        always = t.symbol_table.find_matched_symbols(allowlist_patterns or ())
        _, names = np.unique(ranges["rank"].to_numpy(np.int64), return_counts=True)
        every = ranges
        # Hardly any job names a thousand ranges: nothing to choose then.
        if (names > num_kernels).any():
            shown = [
                top_names(group, num_kernels, duration_ratio, always).assign(rank=rank)
                for rank, group in ranges.groupby("rank")
            ]
            every = pd.concat(shown, ignore_index=True)
        every = every.sort_values(["rank", "name"], ignore_index=True)
        frame = pd.DataFrame(
            {
                "name": every["name"],
                **statistics_us(every),
                "rank": every["rank"].astype(np.int64),
            }
        )
        return with_attrs_of(frame, ranges)

    @classmethod
    def get_gpu_kernels_with_user_annotations(
        cls, t: Trace, rank: int, expand_names: bool = True, shorten_names: bool = True
    ) -> pd.DataFrame | None:
        """Return device events; see `TraceAnalysis.get_gpu_kernels_with_user_annotations`."""
        kept, symbols = kept_of(t), t.symbol_table
        if "gpu_user_annotation" not in symbols.sym_index:
            logger.warning("the traces have no annotations on devices; %s", _BY_LAUNCH)
            return None
        found = analysis.kernels_by_annotation(kept, ranks=[rank], source="device")
        frame = hta_frame(
            kept[rank],
            found["id"].to_numpy(),
            symbols,
            zero_ns=zero_ns_of(t),
            columns=t.parser_config.get_args(),
        ).reset_index(drop=True)
        ranges = found["annotation"].cat
        numbers = [symbols.sym_index.get(name, -1) for name in ranges.categories]
        frame["user_annotation"] = np.array(numbers, dtype=np.int64)[ranges.codes]
        if expand_names:
            decode_symbol_id_to_symbol_name(frame, symbols, shorten_names)
        return with_attrs_of(frame, found)
