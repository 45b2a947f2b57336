"""Where early versions of HTA had the weights of counted instructions."""

from hta_widgets.compat.analyzers.cupti_counter_analysis import (
    CUDA_SASS_INSTRUCTION_COUNTER_FLOPS,
    CuptiCounterAnalysis,
)

__all__ = ["CUDA_SASS_INSTRUCTION_COUNTER_FLOPS", "CuptiCounterAnalysis"]
