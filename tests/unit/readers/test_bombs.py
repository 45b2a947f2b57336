"""Files with far more text than trace: reading stops at a stated amount of text."""

import gzip
import json
import zlib

import pytest

import hta_widgets as hw
from hta_widgets.formats.kineto import reader
from hta_widgets.readers import streams

from .conftest import event

pytestmark = pytest.mark.slow

START = b'{"traceEvents": ['
EVENTS = json.dumps({"traceEvents": [event(), event("b", 5)]}).encode()
LEAST = 1 << 20


@pytest.fixture
def read_bytes(monkeypatch):
    """Count decompressed bytes; compressed files may expand to 1 MiB plus 200 times their size."""
    monkeypatch.setattr(streams, "_MIN_LIMIT_BYTES", LEAST)
    monkeypatch.setattr(reader, "_CHECKED_ENTRIES", 10_000)
    read = [0]
    real = streams.Stream.read_exactly

    def counted(self, size):
        block = real(self, size)
        read[0] += len(block)
        return block

    monkeypatch.setattr(streams.Stream, "read_exactly", counted)
    return read


def bomb(unit: bytes, before: bytes = START, after: bytes = b"]}") -> bytes:
    """Return 4 MiB of repeated text, compressed 1000 to 1."""
    packer = zlib.compressobj(9, zlib.DEFLATED, 31)
    return packer.compress(before + unit * ((1 << 22) // len(unit)) + after) + packer.flush()


@pytest.mark.parametrize(
    ("unit", "before"),
    [
        (b",", START),
        (b" ", START),
        (b"[", START),
        (b"{},", START),
        (b"null,", START),
        (b'{"ph": "?"},', START),
        (b"x", START + b'{"ph": "X", "ts": 1, "dur": 1}'),
        (b"x", START + b'{"ph": "'),
        (b"a", b'{"a": "'),
        (b'"a": 1,', b"{"),
        (b" ", EVENTS),
        (b"\0", EVENTS),
        (b"a", EVENTS[:-1] + b', "a": "'),
        (b",0", EVENTS[:-1] + b', "a": [0'),
        (b'{"ph": "M"},', START),
        (b'{"ph": "X", "ts": 1, "dur": 1},', START),
    ],
)
def test_a_compressed_file_without_contents_is_given_up(write, read_bytes, unit, before):
    packed = bomb(unit, before)
    with pytest.raises(hw.TraceError, match=r"expands to more than 200 times|fewer than one in a"):
        hw.load(write(packed, "rank-0.json.gz"), cache=False)
    assert read_bytes[0] <= LEAST + streams._MAX_EXPANSION * len(packed) + streams.BLOCK_BYTES


def test_a_bomb_costs_no_other_file(write, read_bytes, tmp_path):
    write(bomb(b"null,"), "rank-0.json.gz")
    write(EVENTS, "rank-1.json")
    traces = hw.load(tmp_path, cache=False)
    assert traces.ranks == [1]
    assert "one in a thousand" in " ".join(traces.problems["detail"])


def test_a_size_that_is_a_lie_reserves_nothing(write):
    packed = bytearray(gzip.compress(EVENTS))
    packed[-4:] = b"\xff" * 4
    path = write(bytes(packed), "rank-0.json.gz")
    assert streams.decompressed_size(path) < 1 << 27
    assert len(hw.load(path, cache=False)[0]) == 2


@pytest.mark.parametrize("unit", [b"{},", b"null,", b'{"ph": "?"},'])
def test_a_plain_list_of_nothing_is_given_up(write, read_bytes, unit):
    with pytest.raises(hw.TraceError, match="fewer than one in a thousand is a trace event"):
        hw.load(write(START + unit * 300_000), cache=False)
    assert read_bytes[0] < 1 << 21


def test_a_file_of_many_documents_is_read_as_far_as_the_thousandth(write):
    single = json.dumps({"traceEvents": [event()]})
    traces = hw.load(write(single * 1500), cache=False)
    assert len(next(iter(traces.values()))) == 1000
    assert "skipped" in set(traces.problems["kind"])


def test_traces_may_repeat_themselves(write, read_bytes):
    records = ",".join(json.dumps(event("gemm", 10 * i)) for i in range(60_000))
    packed = gzip.compress(START + records.encode() + b"]}")
    assert len(hw.load(write(packed, "rank-0.json.gz"), cache=False)[0]) == 60_000


def test_a_long_text_without_an_end_costs_no_more_than_its_length(write):
    odd = '{"ph": "X", "name": "' + r"\"" * 100_000 + "}"
    records = ", ".join([json.dumps(event()), odd, json.dumps(event())])
    traces = hw.load(write(f"[{records}]"), cache=False)
    assert len(traces[0]) == 2
    assert "skipped" in set(traces.problems["kind"])
