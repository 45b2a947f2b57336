"""Hardware counters with their operators, compared with HTA's."""

import ast

import pandas as pd
import pytest
from support import golden

from hta_widgets.analysis.kernels import cupti_counters
from hta_widgets.compat.analyzers.cupti_counter_analysis import (
    CUDA_SASS_INSTRUCTION_COUNTER_FLOPS,
    CuptiCounterAnalysis,
)

#: Further columns in HTA 0.6.1, which are empty for all kernels.
SINCE_0_6 = {
    **{key: [-1] for key in ("python_id", "python_parent_id", "process_rank")},
    **{key: [""] for key in ("collective_name", "msg_dtype")},
    **{key: [0] for key in ("in_msg_nelems", "out_msg_nelems", "group_size")},
    **{key: ["[]"] for key in ("in_split_size", "out_split_size")},
}
NAME = "hta_tests__cupti_profiler"

pytestmark = pytest.mark.skipif(not golden.names("cupti_counters.0.csv"), reason=golden.MISSING)


@pytest.fixture(scope="module")
def expected():
    return golden.frame(
        NAME, "cupti_counters.0.csv", converters={"op_stack": ast.literal_eval}
    ).sort_values("index", ignore_index=True)


def test_every_column_is_hta_s(expected):
    (got,) = CuptiCounterAnalysis.get_counter_data_with_operators(golden.kept(NAME))
    assert set(got.columns) - set(SINCE_0_6) == set(expected.columns)
    assert got[list(SINCE_0_6)].drop_duplicates().to_dict("list") == SINCE_0_6
    text = ["input_dims", "input_type", "input_strides"]
    expected = expected.astype(dict.fromkeys(text, str))
    got = got.sort_values("index", ignore_index=True)[list(expected.columns)]
    pd.testing.assert_frame_equal(got, expected, check_dtype=False)


def test_our_own_function_has_the_same_numbers(expected):
    traces = golden.whole(NAME)
    frame = cupti_counters(traces)
    record = traces[0].table.record
    assert record[frame["id"]].tolist() == expected["index"].tolist()
    assert record[frame["launch_id"]].tolist() == expected["index_runtime"].tolist()
    counters = [column for column in expected.columns if column.startswith("smsp__")]
    assert len(counters) == 9
    assert (frame[counters].dtypes == "int64").all()
    for column in ("name", "op_stack", "top_level_op", "bottom_level_op", *counters):
        assert frame[column].tolist() == expected[column].tolist()
    assert frame.attrs["matched"] == {"kernels": 77, "launches": 77}
    assert "note" not in frame.attrs
    assert (frame["dur_ns"] == expected["dur"] * 1000).all()
    # As summed in HTA's own notebook.
    flops = sum(
        expected[name] * weight for name, weight in CUDA_SASS_INSTRUCTION_COUNTER_FLOPS.items()
    )
    assert frame["flops"].tolist() == flops.tolist()
    assert (
        CUDA_SASS_INSTRUCTION_COUNTER_FLOPS["smsp__sass_thread_inst_executed_op_hfma_pred_on.sum"]
        == 2
    )


def test_traces_without_counters_give_no_frames():
    traces = golden.kept("hta_tests__amd_trace")
    assert CuptiCounterAnalysis.get_counter_data_with_operators(traces, [0]) == []
