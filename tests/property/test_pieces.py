"""A file yields the same events however it is split into pieces while it is read."""

import gzip
import json
import tempfile
from pathlib import Path

import pytest
from hypothesis import example, given, settings, strategies as st
from support.examples import examples
from support.same_sets import assert_same

import hta_widgets as hw
from hta_widgets.readers import streams, streams as window

TRICKY = 'a "q" \\ }, {"ph": [ ] é \u2028 😀 \\u007b'


def operator(i):
    args = {"i": i, TRICKY: [{"a": [i]}]}
    where = {"cat": "cpu_op", "pid": 1, "tid": i % 2, "args": args}
    return {"ph": "X", "name": f"{TRICKY}{i % 3}", "ts": i * 10.5, "dur": 4, **where}


RECORDS = [
    {"ph": "M", "name": "process_name", "pid": 1, "tid": 0, "args": {"name": TRICKY}},
    *(operator(i) for i in range(8)),
    {"ph": "B", "name": "b", "pid": 1, "tid": 5, "ts": 1},
    {"ph": "C", "name": "c", "pid": 1, "ts": 2.5, "args": {"x": 1.5}},
    {"ph": "s", "id": 7, "name": "f", "cat": "fwdbwd", "pid": 1, "tid": 0, "ts": 1},
    {"ph": "f", "id": 7, "name": "f", "cat": "fwdbwd", "pid": 1, "tid": 1, "ts": 12, "bp": "e"},
    {"ph": "E", "name": "b", "pid": 1, "tid": 5, "ts": 3.25},
    {"ph": "i", "name": "now", "pid": 1, "tid": 0, "ts": 4, "s": "g"},
]

TOP = {"schemaVersion": 1, "deviceProperties": [{"name": "traceEvents", "x": [{}]}]}
TAIL = {"traceName": '], "traceEvents": [', "distributedInfo": {"rank": 3}, "n": [1, [2]]}


def text(records=None, indent=None, ascii_only=False):
    full = {**TOP, "traceEvents": RECORDS if records is None else records, **TAIL}
    return json.dumps(full, indent=indent, ensure_ascii=ascii_only)


WHOLE = text()
NOT_A_NUMBER = {"ph": "X", "name": "n", "ts": float("nan"), "dur": 1}
BASE = '"baseTimeNanoseconds": 1700000000000000000, "traceName"'
FILES = {
    "whole": WHOLE,
    "indented": text(indent=1, ascii_only=True),
    "bare list": json.dumps(RECORDS),
    "not a number": text([*RECORDS, NOT_A_NUMBER, *RECORDS]),
    "infinite": text([*RECORDS, {"ph": "C", "name": "n", "ts": 1, "args": {"x": float("inf")}}]),
    "duplicate keys": WHOLE.replace('"dur": 4,', '"dur": 3, "dur": 4, "args": {"i": "first"},'),
    "a comma too many": WHOLE.replace('"s": "g"}]', '"s": "g"},]'),
    "no list": text([]),
    "two in a row": WHOLE + "\n" + WHOLE,
    "a base": WHOLE.replace('"traceName"', BASE),
}


@pytest.fixture(scope="module")
def folder():
    with tempfile.TemporaryDirectory() as name:
        yield Path(name)


def loaded(path, block_bytes):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(window, "BLOCK_BYTES", block_bytes)
        patch.setattr(streams, "_INPUT_BYTES", max(2, block_bytes // 4))
        try:
            return hw.load(path, cache=False, progress=False)
        except hw.TraceError as error:
            return str(error)


def assert_alike(path, block_bytes):
    full, pieces = loaded(path, 1 << 20), loaded(path, block_bytes)
    if isinstance(full, str):
        assert pieces == full
        return
    assert_same(full, pieces)
    for single, other in zip(full.values(), pieces.values(), strict=True):
        count = len(single.source)
        assert len(other.source) == count
        assert [single.source.record(i) for i in range(count)] == [
            other.source.record(i) for i in range(count)
        ]


@pytest.mark.parametrize("name", FILES)
@settings(max_examples=examples(10))
@given(block_bytes=st.integers(1, 1500), compressed=st.booleans())
@example(block_bytes=1, compressed=False)
@example(block_bytes=2, compressed=True)
def test_cut_into_any_pieces(folder, name, block_bytes, compressed):
    data = FILES[name].encode()
    path = folder / f"{name}.json"
    path.write_bytes(gzip.compress(data, mtime=0) if compressed else data)
    assert_alike(path, block_bytes)


@settings(max_examples=examples(30))
@given(st.integers(1, 1500), st.floats(0, 1), st.booleans(), st.sampled_from(["whole", "indented"]))
def test_cut_off_files_in_any_pieces(folder, block_bytes, share, compressed, name):
    data = FILES[name].encode()
    data = gzip.compress(data, mtime=0) if compressed else data
    path = folder / "cut.json"
    path.write_bytes(data[: int(share * len(data))])
    assert_alike(path, block_bytes)
