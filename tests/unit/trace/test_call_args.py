"""Operator arguments kept by readers, compared with those in the records."""

import json
import math

import numpy as np
import pytest

import hta_widgets as hw
from hta_widgets.trace.call_args import call_args, decode_arg, launch_args

DIMS = {"Input Dims": [[2, 3], []], "Input type": ["float", "Scalar"], "Sequence number": 7}


def operator(at, **args):
    return {"ph": "X", "cat": "CPU_op", "name": "aten::mm", "pid": 1, "tid": 1, "ts": at, "dur": 1,
            "args": args}  # fmt: skip


@pytest.mark.parametrize("odd", ["NaN", "1"])  # a strict decoder rejects NaN
def test_kept_arguments_are_those_of_the_records(odd, tmp_path):
    args = [DIMS, {}, {"Input dims": [[5]], "Fwd thread id": 3}, {**DIMS, "x": "ODD"}]
    events = [operator(10 * at, **row) for at, row in enumerate(args)]
    text = json.dumps({"traceEvents": events}).replace('"ODD"', odd)
    (tmp_path / "rank0.json").write_text(text)
    trace = hw.load(tmp_path, cache=False)[0]
    rows = np.arange(4)
    kept = call_args(trace, rows)
    trace.source.call_args = None
    read = call_args(trace, rows)
    texts = [[args.texts[code] for code in args.code.tolist()] for args in (kept, read)]
    decoded = [[[json.loads(arg or b"0") for arg in row] for row in rows] for rows in texts]
    assert decoded[0] == decoded[1]
    assert decoded[0][2][0] == [[5]]
    assert kept.sequence.tolist() == read.sequence.tolist() == [7, -1, -1, 7]
    assert kept.thread.tolist() == read.thread.tolist() == [-1, -1, 3, -1]


@pytest.mark.parametrize("cache", [False, True])
def test_kept_launches_are_those_of_the_records(cache, tmp_path):
    grids = [[4, 1, 1], [8, 1, 1], None, [4, 1, 1]]
    events = []
    for at, grid in enumerate(grids):
        call_grid = {} if grid else {"grid": [4, 1, 1], "block": [64, 1, 1]}
        launch = operator(10 * at, correlation=at + 1, **call_grid) | {"cat": "cuda_runtime"}
        own = {"grid": grid, "block": [64, 1, 1]} if grid else {}
        kernel = operator(10 * at + 5, stream=7, correlation=at + 1, **own) | {"cat": "kernel"}
        events += [launch | {"name": "cudaLaunchKernel"}, kernel | {"tid": 7}]
    (tmp_path / "rank0.json").write_text(json.dumps({"traceEvents": events}))
    for _ in range(1 + cache):
        trace = hw.load(tmp_path, cache=cache)[0]
    rows = np.flatnonzero(trace.table.stream >= 0)
    kept = launch_args(trace, rows)
    shown = [json.loads(kept.texts[code][0])[0] for code in kept.code]
    assert shown == [4, 8, 4, 4]
    assert len(kept.texts) == 2
    if not cache:
        trace.source.launch_args = None
        read = launch_args(trace, rows)
        assert [read.texts[code] for code in read.code] == [kept.texts[code] for code in kept.code]


@pytest.mark.parametrize("number", ["9223372036854775808", "1" + "0" * 30, "-3", '"7"', "1.5"])
def test_numbers_of_nodes_that_do_not_fit(number, tmp_path):
    events = [operator(0, **DIMS), operator(10, **{**DIMS, "Sequence number": "ODD"})]
    text = json.dumps({"traceEvents": events}).replace('"ODD"', number)
    (tmp_path / "rank0.json").write_text(text)
    trace = hw.load(tmp_path, cache=False)[0]
    assert call_args(trace, np.arange(2)).sequence.tolist() == [7, -1]
    trace.source.call_args = None
    assert call_args(trace, np.arange(2)).sequence.tolist() == [7, -1]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        (b"", []),
        (b"[[2, 3], []]", [[2, 3], []]),
        (b"[1.5, Infinity, -Infinity, 1e400]", [1.5, math.inf, -math.inf, math.inf]),
        (b'["\\ud800", 36893488147419103232]', ["\ud800", 2**65]),
        (b'"[[6], [7]]"', [[6], [7]]),
        (b"[1, 2", []),
        (b'["a\x01"]', []),
        (b'["\xff"]', []),
        (b"[" * 100_000, []),
        (b"7", []),
    ],
)
def test_lists_of_all_numbers_and_texts_that_python_reads(text, value):
    assert decode_arg(text) == value
