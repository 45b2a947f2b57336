"""HTA's filters, on a small hand-written frame."""

import pandas as pd
import pytest

from hta_widgets.compat.common.timeline import align_module_with_kernels
from hta_widgets.compat.common.trace_df import (
    find_events_by_name_patterns_using_decoded_names,
    find_events_by_name_patterns_using_symbol_table,
    find_op_occurrence,
    get_iterations,
)
from hta_widgets.compat.common.trace_filter import (
    CompositeFilter,
    CPUOperatorFilter,
    FirstIterationFilter,
    GPUKernelFilter,
    IterationFilter,
    IterationIndexFilter,
    MemCopyEventFilter,
    NameFilter,
    QueryFilter,
    RankFilter,
    TimeRangeFilter,
    ZeroDurationFilter,
)
from hta_widgets.compat.common.trace_stack_filter import (
    AfterOperatorFilter,
    BeforeOperatorFilter,
    CombinedOperatorFilter,
    OperatorFilter,
    OperatorFilterMethod,
    UnderOperatorFilter,
)
from hta_widgets.compat.common.trace_symbol_table import TraceSymbolTable
from hta_widgets.errors import TraceError

# index, s_name, s_cat, ts, dur, stream, correlation, index_correlation, iteration
EVENTS = [
    (0, "## forward ##", "user_annotation", 0, 50, -1, -1, -1, 3),
    (1, "aten::a", "cpu_op", 5, 5, -1, -1, -1, 3),
    (2, "cudaLaunchKernel", "cuda_runtime", 20, 5, -1, 8, 6, 3),
    (3, "aten::b", "cpu_op", 40, 5, -1, -1, -1, 3),
    (4, "aten::a", "cpu_op", 60, 0, -1, -1, -1, 4),
    (5, "Context Sync", "cuda_sync", 70, 5, -1, -1, -1, 4),
    (6, "gemm", "kernel", 30, 5, 0, 8, 2, 3),
    (7, "Memcpy HtoD (Pinned -> Device)", "gpu_memcpy", 80, 5, 7, 9, 0, -1),
]
COLUMNS = ["index", "s_name", "s_cat", "ts", "dur", "stream", "correlation", "index_correlation",
           "iteration"]  # fmt: skip


@pytest.fixture
def symbols():
    return TraceSymbolTable(text for event in EVENTS for text in event[1:3])


@pytest.fixture
def df(symbols):
    frame = pd.DataFrame(EVENTS, columns=COLUMNS, index=[event[0] for event in EVENTS])
    frame["name"] = frame["s_name"].map(symbols.sym_index)
    frame["cat"] = frame["s_cat"].map(symbols.sym_index)
    frame["end"] = frame["ts"] + frame["dur"]
    return frame


@pytest.mark.parametrize(
    ("chosen", "expected"),
    [
        (IterationFilter(4), [4, 5]),
        (IterationFilter([3, 4]), [0, 1, 2, 3, 4, 5, 6]),
        (IterationIndexFilter(1), [4, 5]),
        (IterationIndexFilter([0, 9]), [0, 1, 2, 3, 6]),
        (FirstIterationFilter(), [0, 1, 2, 3, 6]),
        (TimeRangeFilter((5, 45)), [1, 2, 3, 6]),
        (NameFilter("aten::(a|x)"), [1, 4]),
        (QueryFilter("dur == 5 and stream < 0"), [1, 2, 3, 5]),
        (ZeroDurationFilter, [0, 1, 2, 3, 5, 6, 7]),
        (GPUKernelFilter(), [5, 6, 7]),
        (CPUOperatorFilter(), [0, 1, 2, 3, 4]),
        (MemCopyEventFilter("Memcpy HtoD (Pinned -> Device)"), [7]),
        (MemCopyEventFilter("Memcpy DtoH"), []),
        (CompositeFilter([IterationFilter(3), NameFilter("aten")]), [1, 3]),
    ],
)
def test_matching_rows(chosen, expected, df, symbols):
    assert chosen(df, symbols)["index"].tolist() == expected


def test_without_columns_and_tables_names_are_text_and_rows_are_kept(df):
    assert NameFilter("aten")(df)["index"].tolist() == [1, 3, 4]
    assert GPUKernelFilter()(df)["index"].tolist() == [6, 7]
    assert len(RankFilter(3)(df)) == len(df)
    assert RankFilter([1])(df.assign(rank=[0, 1] * 4))["index"].tolist() == [1, 3, 5, 7]


def test_an_empty_frame_is_unchanged():
    copies, times = MemCopyEventFilter("Memcpy HtoD"), TimeRangeFilter((0, 1))
    for chosen in (copies, times, ZeroDurationFilter, NameFilter("a")):
        assert chosen(pd.DataFrame()).empty


def test_wrong_arguments_raise():
    itself = CompositeFilter([])
    with pytest.raises(ValueError, match="hold itself"):
        itself.__init__([itself])
    with pytest.raises(TypeError):
        IterationFilter("3")
    with pytest.raises(ValueError, match="before it starts"):
        TimeRangeFilter((5, 1))
    with pytest.raises(TypeError):
        CompositeFilter(["no filter"])


@pytest.mark.parametrize("pattern", ["aten[", "(", "a{99999999999}", "(" * 5000 + ")" * 5000, "*"])
def test_a_pattern_that_is_no_expression_is_refused(pattern, df, symbols):
    for call in (
        lambda: NameFilter(pattern)(df),
        lambda: NameFilter(pattern, symbols)(df.assign(name=range(len(df)))),
        lambda: find_events_by_name_patterns_using_symbol_table(df, [pattern], symbols),
        lambda: find_events_by_name_patterns_using_decoded_names(df, [pattern]),
    ):
        with pytest.raises(TraceError, match="is not a regular expression"):
            call()


@pytest.mark.parametrize(
    ("chosen", "expected"),
    [
        (UnderOperatorFilter("## forward ##", 0), [0, 1, 2, 3]),
        (UnderOperatorFilter("## forward ##", 0, include_gpu_kernels=True), [0, 1, 2, 3, 6]),
        (AfterOperatorFilter("aten::a", 0), [2, 3, 4, 5]),
        (AfterOperatorFilter("aten::a", -1), [4, 5]),
        (BeforeOperatorFilter("aten::b", 0), [1, 2]),
        (UnderOperatorFilter("nowhere", 0), []),
        (UnderOperatorFilter("aten::a", 2), []),
        (CombinedOperatorFilter("## forward ##", "aten::a", "aten::b"), [2]),
        (CombinedOperatorFilter("## forward ##", "aten::a", "aten::b", True), [6, 2]),
    ],
)
def test_events_by_position_to_an_operator(chosen, expected, df):
    assert chosen(df)["index"].tolist() == expected


def test_methods_without_an_implementation_raise(df):
    with pytest.raises(ValueError, match="not offered"):
        OperatorFilter("aten::a", 0, OperatorFilterMethod.Stack)(df)


def test_helpers_for_frames(df, symbols):
    assert get_iterations(df) == [3, 4]
    assert find_op_occurrence(df, "aten::a", -1)[1]["index"] == 4
    assert find_op_occurrence(df, "aten::a", -3)[0] is False
    for result in (
        find_events_by_name_patterns_using_symbol_table(df, ["aten::a$", "gemm"], symbols),
        find_events_by_name_patterns_using_decoded_names(df, ["aten::a$", "gemm"]),
    ):
        assert result.tolist() == [1, 4, 6]


def test_ranges_take_the_span_of_their_device_events(df, symbols):
    df = df.assign(num_kernels=0, first_kernel_start=-1, kernel_span=0)
    df.loc[0, ["num_kernels", "first_kernel_start", "kernel_span"]] = [1, 30, 5]
    aligned = align_module_with_kernels(df, ["## forward ##", "aten"], symbols)
    assert aligned[["index", "ts", "dur", "stream"]].to_numpy().tolist() == [
        [6, 30, 5, 0], [7, 80, 5, 7], [0, 30, 5, -2],
    ]  # fmt: skip
    assert len(align_module_with_kernels(df, ["## f"], None, include_original_cpu_events=True)) == 9
    with pytest.raises(ValueError, match="CallGraph"):
        align_module_with_kernels(df.drop(columns="kernel_span"), [], symbols)
    with pytest.raises(ValueError, match="no names as text"):
        align_module_with_kernels(df.drop(columns="s_name", errors="ignore"), ["aten"])
