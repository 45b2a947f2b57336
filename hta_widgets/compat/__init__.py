"""HTA's classes on top of our analyses. In imports, ``hta.X`` becomes ``hta_widgets.compat.X``.

The modules of HTA do not exist as files. `_MODULES` lists their names and where their contents are
defined here. docs/moving-from-hta.md lists what is missing.
"""

import sys
from functools import partial
from importlib import import_module
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

from hta_widgets.compat.results import MemoryAnalysis
from hta_widgets.compat.trace import Trace
from hta_widgets.compat.trace_analysis import TimeSeriesTypes, TraceAnalysis
from hta_widgets.compat.trace_diff import DeviceType, LabeledTrace, TraceDiff

__all__ = [
    "DeviceType", "LabeledTrace", "MemoryAnalysis", "TimeSeriesTypes", "Trace", "TraceAnalysis",
    "TraceDiff",
]  # fmt: skip

_PACKAGES = ("analyzers", "common", "configs", "utils")

#: For each module of HTA: our modules, and the names imported from them.
_MODULES = {
    "memory_analysis": {"results": "MemoryAnalysis"},
    "analyzers.breakdown_analysis": {"analyzer_classes": "BreakdownAnalysis"},
    "analyzers.communication_analysis": {"analyzer_classes": "CommunicationAnalysis"},
    "analyzers.counters_analysis": {
        "analyzer_classes": "CUDA_SASS_INSTRUCTION_COUNTER_FLOPS CuptiCounterAnalysis"
    },
    "analyzers.critical_path_analysis": {
        "critical_path": "BoundType CPEdge CPEdgeType CPGraph CPNode restore_cpgraph",
        "analyzer_classes": "CriticalPathAnalysis",
    },
    "analyzers.cuda_kernel_analysis": {"analyzer_classes": "CudaKernelAnalysis"},
    "analyzers.cupti_counter_analysis": {
        "analyzer_classes": "CUDA_SASS_INSTRUCTION_COUNTER_FLOPS CuptiCounterAnalysis"
    },
    "analyzers.straggler": {
        "results": """extract_iteration_info find_stragglers_with_late_start_comm_kernels
            step_number"""
    },
    "analyzers.straggler_analysis": {"analyzer_classes": "StragglerAnalysis"},
    "analyzers.timeline": {
        "results": "plot_timeline_gpu_kernels plot_timeline_gpu_kernels_from_trace"
    },
    "analyzers.trace_counters": {"analyzer_classes": "TraceCounters"},
    "common.constants": {"config": "CUDA_MAX_LAUNCH_QUEUE_PER_STREAM"},
    "common.timeline": {
        "results": "EventType PlotFormat Timeline TimelinePlotSetting align_module_with_kernels"
    },
    "common.trace": {"trace": "Trace get_cpu_gpu_correlation", "frames": "TraceSymbolTable"},
    "common.trace_call_graph": {
        "call_graph": "CallGraph CallStackGraph CallStackIdentity CallStackNode"
    },
    "common.trace_call_stack": {
        "call_graph": """CallStackGraph CallStackIdentity CallStackNode NON_EXISTENT_NODE_INDEX
            NULL_NODE_INDEX"""
    },
    "common.trace_df": {
        "frames": """find_events_by_name_patterns_using_decoded_names
            find_events_by_name_patterns_using_symbol_table find_op_occurrence get_iterations"""
    },
    "common.trace_file": {
        "trace": """create_rank_to_trace_dict create_rank_to_trace_dict_from_dir get_trace_files
            read_trace update_trace_rank write_trace"""
    },
    "common.trace_filter": {
        "filters": """CPUOperatorFilter CompositeFilter Filter FirstIterationFilter GPUKernelFilter
            IterationFilter IterationIndexFilter MemCopyEventFilter NameFilter NameIdColumnFilter
            NameStringColumnFilter QueryFilter RankFilter TimeRangeFilter ZeroDurationFilter"""
    },
    "common.trace_stack_filter": {
        "filters": """AfterOperatorFilter BeforeOperatorFilter CombinedOperatorFilter OperatorFilter
            OperatorFilterMethod UnderOperatorFilter get_matching_kernels"""
    },
    "common.trace_symbol_table": {"frames": "TraceSymbolTable decode_symbol_id_to_symbol_name"},
    "common.types": {
        "call_graph": """DeviceType GroupingPattern MemcpyType infer_device_type
            to_grouping_pattern"""
    },
    "configs.config": {"config": "HtaConfig logger"},
    "configs.default_values": {"config": "AttributeSpec DEFAULT_TRACE_DIR ValueType YamlVersion"},
    "configs.parser_config": {
        "config": """AVAILABLE_ARGS AttributeSpec DEFAULT_PARSE_VERSION ParserBackend ParserConfig
            TraceType ValueType YamlVersion"""
    },
    "utils.checker": {"config": "OperationOutcome is_valid_directory"},
    "utils.utils": {
        "config": "get_value_from_dict normalize_path",
        "frames": """IdleTimeType KernelType flatten_column_names get_kernel_type
            get_memory_kernel_type get_symbol_column_names is_comm_kernel is_compute_kernel
            is_computer_kernel is_memory_kernel merge_kernel_intervals normalize_gpu_stream_numbers
            shorten_name""",
    },
}


def _make_module(name: str) -> None:
    """Make a module of HTA, which imports its names on first access."""
    module = ModuleType(f"{__name__}.{name}")
    sources = _MODULES.get(name, {})
    source_of = {
        attribute: source for source, names in sources.items() for attribute in names.split()
    }

    def import_attribute(attribute: str) -> Any:
        if attribute not in source_of:
            raise AttributeError(f"module {module.__name__!r} has no attribute {attribute!r}")
        value = getattr(import_module(f"{__name__}.{source_of[attribute]}"), attribute)
        setattr(module, attribute, value)
        return value

    names = sorted(source_of)
    vars(module).update(__getattr__=import_attribute, __all__=names, __dir__=lambda: names)
    module.__spec__ = ModuleSpec(module.__name__, None, is_package=name in _PACKAGES)
    if name in _PACKAGES:
        vars(module).update(__path__=[], __dir__=partial(sorted, vars(module)))
    sys.modules[module.__name__] = module
    package, _, last = module.__name__.rpartition(".")
    setattr(sys.modules[package], last, module)


for _name in (*_PACKAGES, *_MODULES):
    _make_module(_name)


def __dir__() -> list[str]:
    return __all__
