"""Exact values in the fast scanner: times, args of counters and metadata, and copies."""

import math
import pickle
from decimal import ROUND_HALF_EVEN, Decimal

import numpy as np
import pytest
from hypothesis import example, given, strategies as st

import hta_widgets as hw
from hta_widgets.formats.kineto.growing import SmallArgs
from hta_widgets.formats.kineto.times import (
    BAD,
    MISSING,
    OK,
    TOO_LARGE,
    nanoseconds,
    nanoseconds_of_doubles,
    nanoseconds_of_integers,
    plain_integers,
    resolution,
)

from .conftest import event


def parsed(texts):
    return nanoseconds(texts)


def expected(text):
    if text in {"", "null"}:
        return 0, MISSING
    value = Decimal(text.strip('"'))
    ns = int((value * 1000).quantize(Decimal(1), ROUND_HALF_EVEN)) if value.adjusted() < 25 else 0
    inside = value.adjusted() < 25 and abs(ns) < 1 << 63
    return (ns, OK) if inside else (0, TOO_LARGE)


def check(texts):
    ns, state = parsed([text.encode() for text in texts])
    wanted = [expected(text) for text in texts]
    assert ns.tolist() == [value for value, _ in wanted]
    states = np.zeros(len(texts), int) if state is None else state
    assert list(states) == [code for _, code in wanted]


digits = st.integers(0, 10**18 - 1).map(str)

fractions = st.text("0123456789", min_size=1, max_size=20)

plain = st.one_of(digits, st.builds("{}.{}".format, st.integers(0, 10**16 - 1), fractions))

kineto = st.builds("{}.{:03d}".format, st.integers(10**12, 9 * 10**12), st.integers(0, 999))

odd = st.one_of(
    plain.map("-{}".format),
    plain.map('"{}"'.format),
    st.builds("{}e{}".format, plain, st.integers(-30, 30)),
    st.just(""),
    st.just("null"),
)


@given(st.lists(st.one_of(plain, odd), min_size=1, max_size=40))
@example(["0.0005"])
@example(["0.0015"])
@example(["1.0005", "1.0015", "2.00050000000000000001"])
@example(["9223372036854775.807", "9223372036854775.808", "9223372036854776"])
@example(["1712195495997093.2"])
@example(["-0.5", "", "null", '"12.5"', "1e3"])
@example(["5"])
def test_any_mixture(texts):
    check(texts)


plain_lists = st.lists(plain, min_size=1, max_size=20)
epochs = st.lists(st.integers(10**15, 10**16 - 1).map(str), min_size=1, max_size=20)
uniform = st.lists(kineto, min_size=1, max_size=40)
with_gaps = st.lists(st.one_of(kineto, st.just("")), min_size=1, max_size=40)


@pytest.mark.parametrize(
    "texts", [uniform, with_gaps, epochs, plain_lists], ids=["uniform", "gaps", "epoch µs", "plain"]
)
@given(data=st.data())
def test_texts_of_one_form(texts, data):
    check(data.draw(texts))


def test_a_double_would_lose_these_digits():
    ns, _ = parsed([b"1712195495997093.257", b"4458677228800.304"])
    assert ns.tolist() == [1712195495997093257, 4458677228800304]


@pytest.mark.parametrize(
    "text", ['"abc"', '"1.2.3"', '"1,2"', "[1,2]", "true", "NaN", '"12,"', "{}", '"."']
)
def test_what_is_no_number_is_told(text):
    ns, state = parsed([b"1.5", text.encode(), b"2"])
    assert ns.tolist() == [1500, 0, 2000]
    assert list(state) == [OK, BAD, OK]


def test_huge_exponents_end_quickly():
    _, state = parsed([b"1e999999999", b"1e-999999999"])
    assert list(state) == [TOO_LARGE, OK]


def test_nothing():
    ns, state = parsed([])
    assert len(ns) == 0
    assert state is None


@given(st.lists(st.one_of(st.just(""), digits), min_size=1, max_size=30))
def test_plain_integers(texts):
    values = plain_integers([text.encode() for text in texts], -1)
    assert values.tolist() == [int(text) if text else -1 for text in texts]


@pytest.mark.parametrize("text", [b'"7"', b"-1", b"1.5", b"1234567890123456789", b"[1,2]"])
def test_other_ids_are_not_taken_for_integers(text):
    assert plain_integers([b"7", text], -1) is None


@pytest.mark.parametrize(
    ("values", "step"),
    [([5000, 2000], 1000), ([5100, 200], 100), ([5110], 10), ([5111], 1), ([], 1000), ([0], 1000)],
)
def test_resolution(values, step):
    assert resolution(np.array(values, np.int64)) == step


exact = st.builds("{}.{:03d}".format, st.integers(0, 10**12), st.integers(0, 999))

rounded = st.builds("{}.{}".format, st.integers(0, 10**12), fractions)


@given(st.lists(st.one_of(exact, rounded, digits), min_size=1, max_size=30))
@example(["4398046511104.0"])  # 2**42
@example(["0.0005"])
def test_doubles_are_exact_or_refused(texts):
    result = nanoseconds_of_doubles(np.array([float(text) for text in texts]))
    if result is not None:
        assert result.ns.tolist() == [expected(text)[0] for text in texts]


@given(st.lists(exact, min_size=1, max_size=30))
def test_doubles_of_three_decimals_are_not_refused(texts):
    assert nanoseconds_of_doubles(np.array([float(text) for text in texts])) is not None


def test_missing_numbers_are_said():
    result = nanoseconds_of_doubles(np.array([1.5, np.nan]))
    assert result is not None
    assert (result.ns.tolist(), list(result.state)) == ([1500, 0], [OK, MISSING])
    result = nanoseconds_of_integers([3, -1], missing=-1)
    assert result is not None
    assert (result.ns.tolist(), list(result.state)) == ([3000, 0], [OK, MISSING])


@pytest.mark.parametrize("micros", [10**18, 1 << 70, -(10**18)])
def test_integers_whose_nanoseconds_do_not_fit_are_refused(micros):
    assert nanoseconds_of_integers([1, micros], missing=-1) is None


BODIES = {
    3: b'{"ph": "C", "args": {"Total": 1.5, "n": 7}}',
    5: b'{"ph": "C"}',
    6: b'{"ph": "C", "args": {}}',
    8: b'{"ph": "C", "args": [1, 2]}',
    9: b'{"ph": "C", "args": {"a": 1}, "args": {"b": 123456789012345678901234567890}}',
    11: b'{"ph": "M", "args": {"name": "caf\\u00e9 \\ud800"}}',
    12: b'{"ph": "C", "args": {"bad": NaN}}',
    20: b'{"ph": "M", "args": {"name": "a\tb"}}',
}
#: As read by `json`; missing values and values of other types give an empty result.
SAID = {
    3: {"Total": 1.5, "n": 7},
    9: {"b": 123456789012345678901234567890},
    11: {"name": "café \ufffd"},
    20: {"name": "a\tb"},
}


@pytest.fixture
def args():
    result = SmallArgs()
    for number, body in BODIES.items():
        result.add(number, body)
    return result


def test_each_by_its_number(args):
    all_args = {number: args.get(number) for number in range(22)}
    said = {number: value for number, value in all_args.items() if value is not None}
    assert said == {**SAID, 12: {"bad": "NaN"}}


@pytest.mark.parametrize("numbers", [[3], [3, 9], [3, 8, 9], [9, 11, 20], [0, 3, 5, 12, 20], []])
def test_many_at_once_are_as_one_by_one(args, numbers):
    assert repr(args.get_many(numbers)) == repr([args.get(number, {}) for number in numbers])


def test_more_counters_than_are_decoded_at_once(load_one, monkeypatch):
    monkeypatch.setattr("hta_widgets.trace.flows._RECORDS_AT_ONCE", 7)
    samples = [
        {"ph": "C", "name": f"c{i % 2}", "pid": i % 3, "ts": i, "args": {"x": i, "bad": "no"}}
        for i in range(40)
    ]
    trace, problems = load_one([event(), *samples])
    counters = trace.counters.sort_values("time_ns")
    assert counters["value"].tolist() == list(range(40))
    assert counters["name"].astype(str).tolist() == [f"c{i % 2}" for i in range(40)]
    assert counters["pid"].astype(str).tolist() == [str(i % 3) for i in range(40)]
    assert problems.loc[problems["kind"] == "skipped", "count"].tolist() == [40]


RATE = "memory bandwidth (GB/s)"


def copy(ts, **args):
    name, args = "Memcpy HtoD (Pinned -> Device)", {"stream": 7, **args}
    return event(name, ts, 2, cat="gpu_memcpy", pid=0, tid=7, args=args)


HOST = event()


def stated(trace):
    rates, sizes = trace.copy_table.lookup(trace.table.record)
    device = trace.table.stream >= 0
    return rates[device].tolist(), sizes[device].tolist()


def test_rate_and_size_are_kept_by_record(load_one):
    trace, _ = load_one([HOST, copy(1, **{RATE: 1.5, "bytes": 3000}), copy(5), copy(9, bytes=7)])
    rates, sizes = stated(trace)
    assert rates[0] == 1.5
    assert np.isnan(rates[1:]).all()
    assert sizes == [3000, -1, 7]
    assert trace.copy_table.record.tolist() == [1, 3]
    assert np.isnan(trace.copy_table.lookup(np.array([0, 99]))[0]).all()


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
    hw.load(tmp_path / "rank-1.json", progress=False)  # creates a copy in the cache
    remaining = hw.load(tmp_path / "rank-1.json", progress=False)
    for trace in (
        traces[1],
        traces.subset(start_ns=1000)[1],
        merged[1],
        remaining[1],
        pickle.loads(pickle.dumps(traces[1])),
    ):
        rates, sizes = stated(trace)
        assert (rates[0], sizes) == (2.5, [11, -1])
        assert math.isnan(rates[1])
