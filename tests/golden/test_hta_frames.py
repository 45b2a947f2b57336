"""Event frames, compared with the installed HTA's cell by cell."""

import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
from support import golden

from hta_widgets.compat.common.trace import Trace

pytestmark = pytest.mark.skipif(not golden.names(), reason=golden.MISSING)

PROGRAM = """
import logging, sys
logging.disable(logging.CRITICAL)
from hta.common.trace import Trace
for name, folder in zip(sys.argv[2::2], sys.argv[3::2]):
    trace = Trace(trace_dir=folder)
    trace.load_traces(use_multiprocessing=False)
    trace.decode_symbol_ids(False)
    for rank in trace.get_ranks():
        trace.get_trace(rank).to_csv(f"{sys.argv[1]}/{name}.{rank}.csv", index=False)
"""

#: The column and number of the cells that differ, and the reason.
DIFFERENCES = {
    "hta_tests__critical_path__alexnet": ("stream", 5, "4294967295 is the device as a whole"),
    "hta_tests__amd_trace": ("iteration", 18, "stream 0 is a stream: its events are of a step"),
}
NAMES = [
    "hta_tests__trace_filter",
    "hta_tests__call_stack",
    "hta_tests__with_gpu_user_annotation",
    *DIFFERENCES,
]
#: HTA's `end` and `ts` have different origins, and its symbol numbers change from run to run.
APART = {"end", "name", "cat"}


@pytest.fixture(scope="module")
def theirs(hta_python, tmp_path_factory):
    folder = tmp_path_factory.mktemp("frames")
    pairs = [text for name in NAMES for text in (name, str(golden.trace_path(name)))]
    subprocess.run([hta_python, "-c", PROGRAM, folder, *pairs], check=True, capture_output=True)
    return folder


@pytest.mark.parametrize("name", NAMES)
def test_frames_are_htas(name, theirs):
    trace = Trace(trace_dir=str(golden.trace_path(name)))
    trace.load_traces()
    trace.decode_symbol_ids(use_shorten_name=False)
    fine = golden.resolution_ns(name) < 1000
    for rank in trace.get_ranks():
        expected = pd.read_csv(theirs / f"{name}.{rank}.csv", keep_default_na=False)
        expected = expected.set_index("index", drop=False).sort_index()
        got = trace.get_trace(rank).sort_index()
        assert set(got.columns) == set(expected.columns)
        assert got.index.tolist() == expected.index.tolist()
        for column in set(expected.columns) - APART:
            # HTA rounds starts up and ends down.
            close = 2 if fine and column in ("ts", "dur") else 1e-6
            differing = ~_same(got[column], expected[column], close)
            differs, count, _ = DIFFERENCES.get(name, ("", 0, ""))
            assert differing.sum() == (count if column == differs else 0), column


EDIT = """
import logging, sys
logging.disable(logging.CRITICAL)
from {package}.trace_analysis import TraceAnalysis
analyzer = TraceAnalysis(trace_dir=sys.argv[1])
for rank in analyzer.t.get_ranks():
    analyzer.t.traces[rank] = analyzer.t.traces[rank].query("stream < 0 or dur > 20")
analyzer.get_temporal_breakdown(visualize=False).to_csv(sys.argv[2], index=False)
"""


def test_frames_without_some_rows_give_htas_numbers(hta_python, tmp_path):
    folder, result = golden.trace_path("hta_tests__trace_diff__control"), []
    for python, package in ((hta_python, "hta"), (sys.executable, "hta_widgets.compat")):
        path = tmp_path / f"{package}.csv"
        program = [python, "-c", EDIT.format(package=package), folder, path]
        subprocess.run(program, check=True, capture_output=True)
        result.append(pd.read_csv(path))
    pd.testing.assert_frame_equal(*result, check_dtype=False)
    assert result[0]["compute_time(us)"].tolist() == [191_484]


def _same(got, expected, close):
    numbers = pd.to_numeric(got, errors="coerce") - pd.to_numeric(expected, errors="coerce")
    return (got.astype(str) == expected.astype(str)) | (np.abs(numbers) < close)
