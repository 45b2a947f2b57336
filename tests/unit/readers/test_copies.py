"""Arguments of memory copies, read at load: from sound, damaged and merged files."""

import math
import pickle

import numpy as np
import pytest

import hta_widgets as hw

RATE = "memory bandwidth (GB/s)"


def copy(ts, **args):
    return {
        "ph": "X", "cat": "gpu_memcpy", "name": "Memcpy HtoD (Pinned -> Device)", "pid": 0,
        "tid": 7, "ts": ts, "dur": 2, "args": {"stream": 7, **args},
    }  # fmt: skip


HOST = {"ph": "X", "cat": "cpu_op", "name": "op", "pid": 1, "tid": 1, "ts": 0, "dur": 1}


def stated(trace):
    rates, sizes = trace.copy_table.of(trace.table.record)
    device = trace.table.stream >= 0
    return rates[device].tolist(), sizes[device].tolist()


def test_rate_and_size_are_kept_by_record(load_one):
    trace, _ = load_one([HOST, copy(1, **{RATE: 1.5, "bytes": 3000}), copy(5), copy(9, bytes=7)])
    rates, sizes = stated(trace)
    assert rates[0] == 1.5
    assert np.isnan(rates[1:]).all()
    assert sizes == [3000, -1, 7]
    assert trace.copy_table.record.tolist() == [1, 3]
    assert np.isnan(trace.copy_table.of(np.array([0, 99]))[0]).all()


ODD = [
    ('"2.5"', 2.5), ("3", 3.0), ("null", None), ("[1]", None), ('{"a": 1}', None), ("true", None),
    ('"fast"', None), ("-1.0", None), ("1e999", None), ('""', None),
]  # fmt: skip


@pytest.mark.parametrize(("text", "rate"), ODD)
def test_odd_rates_stop_nothing(load_one, text, rate):
    record = (
        '{"ph":"X","cat":"gpu_memcpy","name":"Memcpy DtoH","pid":0,"tid":7,"ts":1,"dur":2,'
        f'"args":{{"stream":7,"{RATE}":{text},"bytes":[{text}]}}}}'
    )
    trace, problems = load_one('{"traceEvents": [' + record + "]}")
    rates, sizes = stated(trace)
    assert math.isnan(rates[0]) if rate is None else rates == [rate]
    assert sizes == [-1]
    assert problems.empty, "nothing had to be repaired: the record is valid JSON"


@pytest.mark.parametrize(
    ("text", "size"),
    [("12", 12), ('"12"', 12), ("12.0", 12), ("1.5", -1), ("-3", -1), (str(1 << 70), -1)],
)
def test_sizes_are_whole_bytes(load_one, text, size):
    record = (
        '{"ph":"X","cat":"gpu_memset","name":"Memset (Device)","pid":0,"tid":7,"ts":1,"dur":2,'
        f'"args":{{"stream":7,"bytes":{text}}}}}'
    )
    trace, _ = load_one('{"traceEvents": [' + record + "]}")
    assert stated(trace)[1] == [size]


def test_records_that_are_no_json_state_them_too(load_one):
    record = (
        '{"ph":"X","cat":"gpu_memcpy","name":"a\\q","pid":0,"tid":7,"ts":%d,"dur":2,'
        f'"args":{{"stream":7,"{RATE}":%s,"bytes":64}}}}'
    )
    broken = ",".join([record % (1, "4.5"), record % (5, "NaN")])
    trace, problems = load_one('{"traceEvents": [' + broken + "]}")
    assert "repaired" in set(problems["kind"])
    rates, sizes = stated(trace)
    assert rates[0] == 4.5
    assert math.isnan(rates[1])
    assert sizes == [64, 64]


def test_parts_merged_files_and_copies_keep_them(write, tmp_path):
    for rank in (0, 1):
        records = [HOST, copy(3 + rank, **{RATE: 1.5 + rank, "bytes": 10 + rank}), copy(20)]
        write(records, f"rank-{rank}.json", distributedInfo={"rank": rank})
    traces = hw.load(tmp_path, cache=False, progress=False)
    hw.export_trace(traces, tmp_path / "all.json.gz")
    merged = hw.load(tmp_path / "all.json.gz", cache=False, progress=False)
    hw.load(tmp_path / "rank-1.json", progress=False)  # keeps a copy in the cache
    kept = hw.load(tmp_path / "rank-1.json", progress=False)
    for trace in (
        traces[1],
        traces.subset(start_ns=1000)[1],
        merged[1],
        kept[1],
        pickle.loads(pickle.dumps(traces[1])),
    ):
        rates, sizes = stated(trace)
        assert (rates[0], sizes) == (2.5, [11, -1])
        assert math.isnan(rates[1])
