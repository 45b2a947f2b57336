"""Names that notebooks import from HTA are importable under the same paths."""

from importlib import import_module
from inspect import signature

import pytest
from pandas.testing import assert_frame_equal

import hta_widgets as hw
from hta_widgets.demo.job import write_demo

PATHS = {
    "trace_analysis": "TraceAnalysis TimeSeriesTypes",
    "trace_diff": "LabeledTrace TraceDiff DeviceType",
    "memory_analysis": "MemoryAnalysis",
    "trace": "Trace",
    "common.trace": "Trace TraceSymbolTable get_cpu_gpu_correlation",
    "common.trace_file": "create_rank_to_trace_dict get_trace_files read_trace write_trace "
    "update_trace_rank create_rank_to_trace_dict_from_dir",
    "common.trace_filter": "Filter IterationFilter IterationIndexFilter FirstIterationFilter "
    "RankFilter TimeRangeFilter NameFilter NameStringColumnFilter NameIdColumnFilter QueryFilter "
    "ZeroDurationFilter GPUKernelFilter CPUOperatorFilter MemCopyEventFilter CompositeFilter",
    "common.trace_stack_filter": "OperatorFilter OperatorFilterMethod UnderOperatorFilter "
    "AfterOperatorFilter BeforeOperatorFilter CombinedOperatorFilter get_matching_kernels",
    "common.trace_symbol_table": "TraceSymbolTable decode_symbol_id_to_symbol_name",
    "common.trace_df": "get_iterations find_op_occurrence",
    "common.trace_call_graph": "CallGraph",
    "common.trace_call_stack": "CallStackGraph CallStackIdentity CallStackNode",
    "common.timeline": "Timeline TimelinePlotSetting PlotFormat EventType "
    "align_module_with_kernels",
    "common.types": "DeviceType MemcpyType GroupingPattern infer_device_type",
    "common.constants": "CUDA_MAX_LAUNCH_QUEUE_PER_STREAM",
    "configs.config": "HtaConfig logger",
    "configs.parser_config": "ParserConfig ParserBackend TraceType AVAILABLE_ARGS AttributeSpec "
    "ValueType",
    "configs.default_values": "DEFAULT_TRACE_DIR AttributeSpec ValueType YamlVersion",
    "utils.utils": "shorten_name flatten_column_names get_kernel_type get_memory_kernel_type "
    "merge_kernel_intervals normalize_path KernelType IdleTimeType get_symbol_column_names "
    "is_comm_kernel is_compute_kernel is_memory_kernel",
    "utils.checker": "is_valid_directory",
    "analyzers.breakdown_analysis": "BreakdownAnalysis",
    "analyzers.communication_analysis": "CommunicationAnalysis",
    "analyzers.counters_analysis": "CUDA_SASS_INSTRUCTION_COUNTER_FLOPS",
    "analyzers.critical_path_analysis": "CPGraph CPNode CPEdge CPEdgeType CriticalPathAnalysis "
    "restore_cpgraph",
    "analyzers.cuda_kernel_analysis": "CudaKernelAnalysis",
    "analyzers.cupti_counter_analysis": "CuptiCounterAnalysis CUDA_SASS_INSTRUCTION_COUNTER_FLOPS",
    "analyzers.straggler": "find_stragglers_with_late_start_comm_kernels extract_iteration_info",
    "analyzers.straggler_analysis": "StragglerAnalysis",
    "analyzers.timeline": "plot_timeline_gpu_kernels plot_timeline_gpu_kernels_from_trace",
    "analyzers.trace_counters": "TraceCounters",
}


@pytest.mark.parametrize("path", PATHS)
def test_names_are_there(path):
    module = import_module(f"hta_widgets.compat.{path}")
    for name in PATHS[path].split():
        assert hasattr(module, name), name


def test_the_package_offers_the_facade():
    assert hw.TraceAnalysis is hw.compat.TraceAnalysis
    assert {"LabeledTrace", "TraceDiff", "MemoryAnalysis", "Trace"} <= set(hw.compat.__all__)


def test_analyzers_take_the_trace_first(tmp_path):
    write_demo(tmp_path / "job", ranks=2, steps=2, seed=1)
    analyzer = hw.TraceAnalysis(trace_dir=tmp_path / "job")
    breakdown = import_module("hta_widgets.compat.analyzers.breakdown_analysis").BreakdownAnalysis
    launches = import_module("hta_widgets.compat.analyzers.cuda_kernel_analysis").CudaKernelAnalysis
    counters = import_module("hta_widgets.compat.analyzers.trace_counters").TraceCounters
    series = analyzer.get_queue_length_time_series()
    for result, expected in (
        (breakdown.get_temporal_breakdown(t=analyzer.t), analyzer.get_temporal_breakdown()),
        (
            breakdown.get_idle_time_breakdown(analyzer.t, 30, 1)[0],
            analyzer.get_idle_time_breakdown([1])[0],
        ),
        (
            launches.get_aten_op_kernels_and_delay(trace=analyzer.t, ranks=[1])[1],
            analyzer.get_aten_op_kernels_and_delay([1])[1],
        ),
        (
            counters.get_queue_length_summary_from_time_series(series),
            analyzer.get_queue_length_summary(),
        ),
    ):
        assert_frame_equal(result, expected)
    assert str(signature(breakdown.get_temporal_breakdown)).startswith("(t: ")


def test_modules_that_hta_lacks_are_missing():
    with pytest.raises(ModuleNotFoundError):
        import_module("hta_widgets.compat.common.nothing")
    with pytest.raises(ModuleNotFoundError):
        import_module("configs.config")
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = hw.compat.common.nothing
    assert hw.compat.common.types.MemcpyType.DTOH
