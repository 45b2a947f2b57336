"""The original bytes of any record can be read later."""

import gzip
import json
import pickle

import numpy as np
import pytest

import hta_widgets as hw
from hta_widgets.readers import streams

from .conftest import event

pytestmark = pytest.mark.slow

COUNT = 20_000


@pytest.fixture(params=["plain", "gzip", "members"])
def big(request, write, monkeypatch):
    """A file of many slices, its records, and its trace."""
    monkeypatch.setattr(streams, "BLOCK_BYTES", 1 << 16)
    monkeypatch.setattr(streams, "_MAX_CHECKPOINTS", 8)
    records = [
        event(f"é {i}", i, args={"i": i, "text": "}, {" * (i % 5), "float": i / 7})
        for i in range(COUNT)
    ]
    data = json.dumps({"traceEvents": records, "z": 1}, ensure_ascii=False).encode()
    if request.param == "gzip":
        data = gzip.compress(data, 1)
    elif request.param == "members":
        third = len(data) // 3
        parts = (data[:third], data[third : 2 * third], data[2 * third :])
        data = b"".join(gzip.compress(part, 1) for part in parts)
    path = write(data, "trace.json" if request.param == "plain" else "trace.json.gz")
    return path, records, hw.load(path, progress=False)[0]


def test_every_record_in_file_order(big):
    _, records, trace = big
    assert [json.loads(body) for _, body in trace.source.records(np.arange(COUNT))] == records


def test_single_records_in_any_order(big):
    _, records, trace = big
    for place in (COUNT - 1, 0, COUNT // 2, 17, COUNT // 3, COUNT - 2):
        assert json.loads(trace.source.record(place)) == records[place]
        assert trace.args(place) == records[place]["args"]


def test_asked_for_in_any_order_they_come_in_file_order_once(big):
    _, records, trace = big
    wanted = np.array([15_000, 3, 3, 9_999, 4])
    result = list(trace.source.records(wanted))
    assert [place for place, _ in result] == [3, 4, 9_999, 15_000]
    assert [json.loads(body) for _, body in result] == [records[place] for place, _ in result]


def test_pickled_source_reads_the_file_again(big):
    _, records, trace = big
    copy = pickle.loads(pickle.dumps(trace))
    assert json.loads(copy.source.record(12_345)) == records[12_345]
    assert copy.args(7) == records[7]["args"]
    assert copy.source.metadata_text == {"z": b"1"}


def test_checkpoints_stay_few(big):
    path, _, trace = big
    remaining = trace.source._checkpoints.points
    assert len(remaining) <= 8
    assert (len(remaining) > 2) == path.name.endswith("gz")


def test_a_file_that_changed_is_told(big):
    path, _, trace = big
    path.write_bytes(path.read_bytes() + b" ")
    with pytest.raises(hw.TraceError, match="changed after it was loaded"):
        trace.source.record(3)


def test_a_file_that_vanished_is_told(big):
    path, _, trace = big
    path.unlink()
    with pytest.raises(hw.TraceError, match="was removed"):
        trace.args(3)


def test_no_such_record(big):
    for place in (-1, COUNT):
        with pytest.raises(IndexError):
            big[2].source.record(place)


def test_bytes_are_verbatim(write):
    odd = '{ "ph":"X" ,\t"ts": 1.50, "dur":2e0,"name":"\\u0041\\/b", "ts":  1.50 }'
    path = write(
        f'{{"traceEvents":[{odd}\n,{odd}], "displayTimeUnit" : "ms", "x": [1.10, {{"a":  2}}]}}'
    )
    trace = hw.load(path)[0]
    assert trace.source.record(1) == odd.encode()
    assert trace.source.metadata_text == {"displayTimeUnit": b'"ms"', "x": b'[1.10, {"a":  2}]'}


def test_repaired_records_come_back_as_valid_json(write):
    big = "123456789012345678901234567890"
    broken = f'{{"ph":"X","ts":1.50,"dur":2,"name":"a\tb","args":{{"x":NaN,"big":{big},"f":1.10}}}}'
    trace = hw.load(write(f'{{"traceEvents":[{json.dumps(event())},{broken}]}}'))[0]
    body = trace.source.record(1)
    assert b"1.10" in body
    assert big.encode() in body
    assert json.loads(body)["name"] == "a\tb"
    assert json.loads(body, parse_constant=pytest.fail)["args"]["x"] == "NaN"
