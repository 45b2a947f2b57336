"""HTA's analyzer classes, whose methods take the trace as first argument.

HTA has each analysis twice: ``TraceAnalysis(...).get_comm_comp_overlap()`` calls the static method
``CommunicationAnalysis.get_comm_comp_overlap(t)``, where ``t`` is the loaded `Trace`. Here
`TraceAnalysis` contains the code, and the analyzer classes call it for a given trace.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import pandas as pd

from hta_widgets.analysis.kernels import CUDA_SASS_INSTRUCTION_COUNTER_FLOPS  # noqa: F401
from hta_widgets.compat.trace import Trace
from hta_widgets.compat.trace_analysis import TraceAnalysis


def _analysis_over(t: Any) -> TraceAnalysis:
    analyzer = object.__new__(TraceAnalysis)
    analyzer.t = t
    return analyzer


def _static_method_of(method: Callable[..., Any], trace: str = "t") -> Any:
    """Return a method of `TraceAnalysis` as a static method that takes the trace first."""
    signature = inspect.signature(method)
    first = inspect.Parameter(trace, inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation="Trace")
    signature = signature.replace(parameters=[first, *list(signature.parameters.values())[1:]])

    @functools.wraps(method)
    def call(*args: Any, **kwargs: Any) -> Any:
        values = signature.bind(*args, **kwargs).arguments
        return method(_analysis_over(values.pop(trace)), **values)

    call.__signature__ = signature  # type: ignore[attr-defined]
    return staticmethod(call)


def _static_methods_of(*names: str, trace: str = "t") -> dict[str, Any]:
    return {name: _static_method_of(getattr(TraceAnalysis, name), trace) for name in names}


def _idle_time_breakdown(
    t: Trace,
    consecutive_kernel_delay: float,
    rank: int = 0,
    streams: Iterable[int] | None = None,
    visualize: bool = True,
    visualize_pctg: bool = True,
    show_idle_interval_stats: bool = False,
) -> tuple[pd.DataFrame, pd.DataFrame | None]:
    """Return the idle time of one rank; see `TraceAnalysis.get_idle_time_breakdown`."""
    options = visualize, visualize_pctg, show_idle_interval_stats, consecutive_kernel_delay
    return _analysis_over(t).get_idle_time_breakdown([rank], streams, *options)


def _summary_from_time_series(queue_length_dict: Mapping[int, pd.DataFrame]) -> pd.DataFrame:
    """Return statistics of queue lengths; see `TraceAnalysis`."""
    return _analysis_over(None).get_queue_length_summary_from_time_series(queue_length_dict)


_ANALYZERS: dict[str, dict[str, Any]] = {
    "BreakdownAnalysis": {
        **_static_methods_of("get_temporal_breakdown", "get_gpu_kernel_breakdown"),
        **_static_methods_of(
            "get_gpu_user_annotation_breakdown", "get_gpu_kernels_with_user_annotations"
        ),
        "get_idle_time_breakdown": staticmethod(_idle_time_breakdown),
    },
    "CommunicationAnalysis": _static_methods_of("get_comm_comp_overlap"),
    "CriticalPathAnalysis": _static_methods_of(
        "critical_path_analysis", "overlay_critical_path_analysis"
    ),
    "CudaKernelAnalysis": {
        **_static_methods_of("get_frequent_cuda_kernel_sequences"),
        **_static_methods_of("get_aten_op_kernels_and_delay", trace="trace"),
        "cuda_kernel_launch_stats": _static_method_of(TraceAnalysis.get_cuda_kernel_launch_stats),
    },
    "CuptiCounterAnalysis": _static_methods_of("get_counter_data_with_operators"),
    "StragglerAnalysis": _static_methods_of("get_profiler_steps", "get_potential_stragglers"),
    "TraceCounters": {
        **_static_methods_of("get_queue_length_time_series", "get_queue_length_summary"),
        **_static_methods_of("get_time_spent_blocked_on_full_queue"),
        **_static_methods_of("get_memory_bw_time_series", "get_memory_bw_summary"),
        "get_queue_length_summary_from_time_series": staticmethod(_summary_from_time_series),
    },
}
for _name, _methods in _ANALYZERS.items():
    globals()[_name] = type(_name, (), {"__module__": __name__, **_methods})
