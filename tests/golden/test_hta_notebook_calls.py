"""Calls from HTA's published notebooks, with only the import changed; they run on every trace.

Calls from trace_diff_demo are in `test_hta_trace_diff`, filters in `unit/compat/test_filters`.
"""

import os
import shutil
from pathlib import Path

import pandas as pd
import pytest
from support import golden, recorded
from support.examples import ALL

import hta_widgets as hw
from hta_widgets.compat.analyzers.timeline import plot_timeline_gpu_kernels
from hta_widgets.compat.common.timeline import PlotFormat, Timeline, align_module_with_kernels
from hta_widgets.compat.common.trace import Trace, TraceSymbolTable
from hta_widgets.compat.common.trace_call_graph import CallGraph
from hta_widgets.compat.common.trace_filter import (
    Filter,
    GPUKernelFilter,
    IterationIndexFilter,
    NameFilter,
)
from hta_widgets.compat.configs.config import logger
from hta_widgets.compat.configs.parser_config import AVAILABLE_ARGS, ParserConfig
from hta_widgets.compat.trace_analysis import TimeSeriesTypes, TraceAnalysis
from hta_widgets.demo.job import write_demo

STEPS = 3


@pytest.fixture(scope="module")
def demo(tmp_path_factory):
    folder = tmp_path_factory.mktemp("demo") / "job"
    write_demo(folder, ranks=3, steps=STEPS, seed=1)
    return folder


@pytest.fixture(scope="module")
def analyzer(demo):
    return TraceAnalysis(trace_dir=str(demo))


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path, monkeypatch):
    """Use a temporary working folder, for files that are written without a path."""
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def _own_config():
    """Restore the parser configuration after each test."""
    before = ParserConfig.get_default_cfg()
    yield
    ParserConfig.set_default_cfg(before)


# --- trace_analysis_demo, kernel_breakdown_demo ---------------------------------------------------


def test_breakdowns(analyzer):
    time_spent = analyzer.get_temporal_breakdown(visualize=False)
    assert time_spent["rank"].tolist() == [0, 1, 2]
    types, kernels = analyzer.get_gpu_kernel_breakdown(
        visualize=False, duration_ratio=0.8, num_kernels=5, include_memory_kernels=True
    )
    assert types["percentage"].sum() == pytest.approx(100, abs=0.3)
    assert set(kernels["kernel_type"]) == {"COMMUNICATION", "COMPUTATION", "MEMORY"}
    types, _ = analyzer.get_gpu_kernel_breakdown(num_kernels=5, image_renderer="jupyterlab")
    assert len(types)
    idle, stats = analyzer.get_idle_time_breakdown(
        ranks=[0, 1], visualize=True, visualize_pctg=False, show_idle_interval_stats=True
    )
    assert set(idle["rank"]) == set(stats["rank"]) == {0, 1}
    assert analyzer.get_idle_time_breakdown(ranks=[0])[1] is None


def test_overlap_and_launches(analyzer):
    overlap = analyzer.get_comm_comp_overlap(visualize=False)
    assert overlap["comp_comm_overlap_pctg"].between(0, 100).all()
    stats = analyzer.get_cuda_kernel_launch_stats(
        ranks=[1, 2], runtime_cutoff=100, launch_delay_cutoff=50, visualize=True
    )
    assert list(stats) == [1, 2]
    assert len(stats[1]) > len(analyzer.get_cuda_kernel_launch_stats(
        ranks=[1], include_memory_events=False)[1])  # fmt: skip


def test_counters(analyzer, demo, tmp_path):
    bandwidth = analyzer.get_memory_bw_time_series()
    assert list(bandwidth) == [0]
    assert len(analyzer.get_memory_bw_summary(ranks=[0, 2]))
    queue = analyzer.get_queue_length_time_series(ranks=[0, 1])
    summary = analyzer.get_queue_length_summary(ranks=[0, 1])
    pd.testing.assert_frame_equal(
        summary, analyzer.get_queue_length_summary_from_time_series(queue)
    )
    blocked = analyzer.get_time_spent_blocked_on_full_queue(queue, max_queue_length=1)
    assert set(blocked["rank"]) == {0, 1}
    before = sorted(demo.iterdir())
    written = analyzer.generate_trace_with_counters(
        time_series=TimeSeriesTypes.QUEUE_LENGTH | TimeSeriesTypes.MEMCPY_BANDWIDTH, ranks=[1]
    )
    assert [path.resolve().parent for path in written] == [tmp_path.resolve()]
    assert sorted(demo.iterdir()) == before
    names = set(hw.load(written[0], cache=False, progress=False)[1].counters["name"])
    assert any(name.startswith("Queue Length") for name in names)
    assert any(name.startswith("Memcpy") for name in names)


def test_counters_are_never_written_beside_the_traces(analyzer, demo, monkeypatch):
    monkeypatch.chdir(demo)
    before = sorted(demo.iterdir())
    written = analyzer.generate_trace_with_counters()
    assert sorted(demo.iterdir()) == before
    shutil.rmtree(written[0].parent)


def test_sequences_and_operators(analyzer, tmp_path):
    patterns = analyzer.get_frequent_cuda_kernel_sequences(
        operator_name="aten::linear", output_dir=str(tmp_path), min_pattern_len=1, visualize=True
    )
    assert patterns["count"].is_monotonic_decreasing
    assert [path.name for path in tmp_path.iterdir()] == ["overlaid_rank-0.trace.json.gz"]
    delays = analyzer.get_aten_op_kernels_and_delay(ranks=[0, 1], sort_by=["avg_runtime_delay"])
    assert delays[1]["avg_runtime_delay"].is_monotonic_decreasing


def test_annotations(analyzer):
    on_host = analyzer.get_gpu_user_annotation_breakdown(
        use_gpu_annotation=False, visualize=False, num_kernels=1, allowlist_patterns=["^Profiler"]
    )
    names = set(on_host["name"])
    assert {f"ProfilerStep#{step}" for step in analyzer.get_profiler_steps()} <= names
    for options in ({"shorten_names": False}, {"shortern_names": True}, {"expand_names": False}):
        kernels = analyzer.get_gpu_kernels_with_user_annotations(1, **options)
        assert (kernels["stream"] >= 0).all()


# --- identify_stragglers, critical_path_analysis --------------------------------------------------


def test_stragglers(analyzer):
    steps = analyzer.get_profiler_steps()
    assert len(steps) == STEPS - 1
    for options in (
        {"profiler_steps": [steps[0]], "num_candidates": 1, "visualize": True},
        {"num_candidates": 2},
        {"num_candidates": 99},
    ):
        result = analyzer.get_potential_stragglers(**options)
        assert result
        assert set(result) <= {0, 1, 2}
    with pytest.raises(ValueError, match="no steps"):
        analyzer.get_potential_stragglers(profiler_steps=[-5])


def test_own_rule_for_stragglers(analyzer):
    def the_first(df, symbol_table, num_candidates, visualize):
        assert set(df["rank"]) == {0, 1, 2}
        return pd.Series({0: 7, 1: 0, 2: 1})

    result = analyzer.get_potential_stragglers(straggler_identification_impl=the_first)
    assert result == [0, 2]


def test_critical_path(analyzer, tmp_path):
    graph, success = analyzer.critical_path_analysis(
        rank=0, annotation="ProfilerStep", instance_id=0
    )
    assert success
    assert graph.summary().sum() == pytest.approx(100)
    assert len(graph.get_critical_path_breakdown())
    for options in ({}, {"only_show_critical_events": False, "show_all_edges": True}):
        path = analyzer.overlay_critical_path_analysis(
            0, graph, output_dir=str(tmp_path / "overlaid"), **options
        )
        assert Path(path).name == "overlaid_critical_path_rank-0.trace.json.gz"
    graph, success = analyzer.critical_path_analysis(
        rank=1, annotation="ProfilerStep", instance_id=(0, 1), data_load_events=["dataloader"]
    )
    assert success
    assert analyzer.critical_path_analysis(0, "no such range", 0) is None


# --- timeline_demo, plot_timeline, customize_trace_parser -----------------------------------------


class MyKernelFilter(Filter):
    """A filter as a user would write it."""

    def __init__(self, name_pattern: str, iteration_index: int) -> None:
        self.name_pattern = name_pattern
        self.iteration_index = iteration_index

    def __call__(self, df: pd.DataFrame, symbol_table: TraceSymbolTable) -> pd.DataFrame:
        df = IterationIndexFilter(self.iteration_index)(df, symbol_table)
        df = GPUKernelFilter()(df, symbol_table)
        return NameFilter(self.name_pattern)(df, symbol_table)


@pytest.fixture(scope="module")
def parsed(demo):
    t = Trace(trace_dir=os.fspath(demo))
    t.parse_traces(use_multiprocessing=False)
    t.decode_symbol_ids()
    return t


def test_timelines(parsed, tmp_path):
    assert PlotFormat.Inline
    CallGraph(parsed, ranks=[0, 1])
    df, symbol_table = parsed.get_trace(0), parsed.symbol_table
    assert Timeline(df, symbol_table).plot("all") is not None
    only = Timeline(df, symbol_table, filter_func=GPUKernelFilter())
    widget = only.plot("GPU events")
    assert len(widget.selected_events()) == len(only.timeline_events)
    ours = MyKernelFilter(r"(.*gemm)|(.*nccl)|(Memcpy)", iteration_index=1)
    widget = Timeline(df, symbol_table, filter_func=ours).plot("mine")
    assert set(widget.selected_events()["step"]) == {sorted(set(df["iteration"]) - {-1})[1]}
    aligned = align_module_with_kernels(df, ["ProfilerStep"], symbol_table)
    ranges = aligned[aligned["stream"] == -2]
    assert len(ranges) == STEPS
    Timeline(aligned, symbol_table).plot("aligned", str(tmp_path / "aligned.html"))
    assert (tmp_path / "aligned.html").stat().st_size > 0


def test_plots_of_device_events(parsed):
    logger.info("Using traces from folder %s", parsed.trace_path)
    ranks = list(parsed.get_all_traces().keys())
    df = pd.concat(
        [parsed.get_trace(rank) for rank in ranks], axis=0, keys=ranks, names=["rank", "idx"]
    ).reset_index()
    symbols = pd.Series(parsed.symbol_table.get_sym_id_map())
    copies = symbols[symbols.index.str.startswith("Memcpy")].values
    compute = df.loc[~df["name"].isin(copies)]
    step = parsed.get_iterations()[0]
    for options in ({"iterations": [step]}, {"streams": [7]}, {"ranks": [0, 1]}, {}):
        widget = plot_timeline_gpu_kernels(
            "a title", compute, parsed.symbol_table, duration_threshold=2000, **options
        )
        chosen = widget.selected_events()
        assert len(chosen)
        if "ranks" in options:
            assert set(chosen["rank"]) == {0, 1}


@pytest.mark.usefixtures("_own_config")
def test_own_columns(demo):
    cfg = ParserConfig.get_default_cfg()
    cfg.add_args([*ParserConfig.ARGS_INPUT_SHAPE, AVAILABLE_ARGS["threads::grid"]])
    ParserConfig.set_default_cfg(cfg)
    t = Trace(trace_dir=os.fspath(demo))
    t.parse_traces(use_multiprocessing=False)
    assert {"input_dims", "input_type", "input_strides", "grid"} <= set(t.get_trace(0).columns)


# --- on every trace, nothing raises ---------------------------------------------------------------

SHARED = (
    str(path.relative_to(recorded.SHARED))
    for folder in ("hta_tests", "kineto")
    for path in sorted((recorded.SHARED / folder).glob("*"))
    if path.name != "memory_analysis"
)


@pytest.mark.parametrize("include_last", [False, True] if ALL else [False])
@pytest.mark.parametrize("path", recorded.paths(*SHARED))
def test_no_call_fails(path, include_last, tmp_path):
    where = {"trace_dir": path} if path.is_dir() else {"trace_files": [str(path)]}
    analyzer = TraceAnalysis(**where, include_last_profiler_step=include_last)
    t = analyzer.t
    rank = t.ranks[0]
    series = analyzer.get_queue_length_time_series(t.ranks)
    frames = [
        analyzer.get_temporal_breakdown(),
        *analyzer.get_idle_time_breakdown(t.ranks, show_idle_interval_stats=True),
        *analyzer.get_gpu_kernel_breakdown(),
        analyzer.get_comm_comp_overlap(),
        *analyzer.get_cuda_kernel_launch_stats().values(),
        *analyzer.get_aten_op_kernels_and_delay().values(),
        *series.values(),
        analyzer.get_queue_length_summary(),
        analyzer.get_queue_length_summary_from_time_series(series),
        analyzer.get_time_spent_blocked_on_full_queue(series, 1),
        *analyzer.get_memory_bw_time_series().values(),
        analyzer.get_memory_bw_summary(),
        analyzer.get_gpu_user_annotation_breakdown(),
        analyzer.get_gpu_user_annotation_breakdown(use_gpu_annotation=False),
        analyzer.get_frequent_cuda_kernel_sequences("aten::", str(tmp_path), rank=rank),
        *analyzer.get_cupti_counter_data_with_operators(),
        analyzer.get_memory_timeline(),
    ]
    kernels = analyzer.get_gpu_kernels_with_user_annotations(rank)
    on_device = "gpu_user_annotation" in t.symbol_table.sym_index
    assert (kernels is not None) == on_device
    frames += [kernels] if on_device else []
    for frame in frames:
        assert len(frame.columns)
        assert len(frame) or frame.attrs["note"]
    assert isinstance(analyzer.get_profiler_steps(), list)
    assert isinstance(analyzer.get_potential_stragglers(), list)
    analyzer.critical_path_analysis(rank, "", None)
    assert len(analyzer.generate_trace_with_counters(output_dir=tmp_path)) == 1
    if f"{path.parent.name}__{path.name}" in golden.names("call_graph.json"):
        return  # see `test_hta_call_graph`
    CallGraph(t)
    assert {"parent", "depth"} <= set(t.get_trace(rank).columns)
