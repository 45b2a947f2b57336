"""HTA's classes over our analyses: ``from hta.X import Y`` becomes ``from hta_widgets.compat.X``.

HTA's modules do not exist as files: `_MODULES` lists their names and where each is defined here.
docs/moving-from-hta.md lists what is not offered.
"""

import sys
from collections.abc import Sequence
from functools import partial
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType

from hta_widgets.compat.trace import Trace
from hta_widgets.compat.trace_analysis import MemoryAnalysis, TimeSeriesTypes, TraceAnalysis
from hta_widgets.compat.trace_diff import DeviceType, LabeledTrace, TraceDiff

__all__ = [
    "DeviceType",
    "LabeledTrace",
    "MemoryAnalysis",
    "TimeSeriesTypes",
    "Trace",
    "TraceAnalysis",
    "TraceDiff",
]

_PACKAGES = ("analyzers", "common", "configs", "utils")

#: HTA's module: our modules and the names from each.
_MODULES = {
    "memory_analysis": {"trace_analysis": "MemoryAnalysis"},
    "analyzers.breakdown_analysis": {"trace_analysis": "BreakdownAnalysis"},
    "analyzers.communication_analysis": {"trace_analysis": "CommunicationAnalysis"},
    "analyzers.counters_analysis": {
        "trace_analysis": "CUDA_SASS_INSTRUCTION_COUNTER_FLOPS CuptiCounterAnalysis"
    },
    "analyzers.critical_path_analysis": {
        "critical_path": "BoundType CPEdge CPEdgeType CPGraph CPNode restore_cpgraph",
        "trace_analysis": "CriticalPathAnalysis",
    },
    "analyzers.cuda_kernel_analysis": {"trace_analysis": "CudaKernelAnalysis"},
    "analyzers.cupti_counter_analysis": {
        "trace_analysis": "CUDA_SASS_INSTRUCTION_COUNTER_FLOPS CuptiCounterAnalysis"
    },
    "analyzers.straggler": {
        "results": """extract_iteration_info find_stragglers_with_late_start_comm_kernels
            step_number"""
    },
    "analyzers.straggler_analysis": {"trace_analysis": "StragglerAnalysis"},
    "analyzers.timeline": {
        "figures": "plot_timeline_gpu_kernels plot_timeline_gpu_kernels_from_trace"
    },
    "analyzers.trace_counters": {"trace_analysis": "TraceCounters"},
    "common.constants": {"config": "CUDA_MAX_LAUNCH_QUEUE_PER_STREAM"},
    "common.timeline": {
        "figures": "EventType PlotFormat Timeline TimelinePlotSetting align_module_with_kernels"
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


def _submodule(package: str, name: str) -> ModuleType:
    """Return a module of HTA as an attribute of its package."""
    if (full := f"{package}.{name}".removeprefix(f"{__name__}.")) in {*_PACKAGES, *_MODULES}:
        return import_module(f"{__name__}.{full}")
    raise AttributeError(f"module {package!r} has no attribute {name!r}")


__getattr__ = partial(_submodule, __name__)


class _HtaModules(MetaPathFinder, Loader):
    """Makes HTA's modules when they are imported."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        package, _, name = fullname.partition(f"{__name__}.")
        if package or name not in {*_PACKAGES, *_MODULES}:
            return None
        return ModuleSpec(fullname, self, is_package=name in _PACKAGES)

    def exec_module(self, module: ModuleType) -> None:
        name, content = module.__name__.removeprefix(f"{__name__}."), vars(module)
        if name in _PACKAGES:
            content["__getattr__"] = partial(_submodule, module.__name__)
            return
        for source, names in _MODULES[name].items():
            defined = import_module(f"{__name__}.{source}")
            content.update({each: getattr(defined, each) for each in names.split()})
        content["__all__"] = sorted(" ".join(_MODULES[name].values()).split())


sys.meta_path.append(_HtaModules())


def __dir__() -> list[str]:
    return __all__
