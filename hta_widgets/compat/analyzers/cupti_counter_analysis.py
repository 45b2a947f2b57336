"""HTA's hardware counters of kernels."""

from __future__ import annotations

from collections.abc import Iterable

import pandas as pd

from hta_widgets.compat.cupti_counter_analysis import (
    CUDA_SASS_INSTRUCTION_COUNTER_FLOPS,
    cupti_counter_data_with_operators,
)
from hta_widgets.compat.scope import asked_ranks, kept_of
from hta_widgets.trace.traceset import TraceSet

__all__ = ["CUDA_SASS_INSTRUCTION_COUNTER_FLOPS", "CuptiCounterAnalysis"]


class CuptiCounterAnalysis:
    """What hardware counted while kernels ran."""

    @classmethod
    def get_counter_data_with_operators(
        cls, t: TraceSet, ranks: Iterable[int] | None = None
    ) -> list[pd.DataFrame]:
        """Return a frame per rank; see the method of `TraceAnalysis`."""
        kept = kept_of(t)
        return cupti_counter_data_with_operators(kept, asked_ranks(kept, ranks))
