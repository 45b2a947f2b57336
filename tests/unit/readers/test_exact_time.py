"""Times are the exact decimal of the file, half-even below a nanosecond."""

from decimal import ROUND_HALF_EVEN, Decimal

import numpy as np
import pytest
from hypothesis import example, given, strategies as st

from hta_widgets.formats.kineto.times import (
    BAD,
    MISSING,
    OK,
    TOO_LARGE,
    joined_texts,
    nanoseconds,
    nanoseconds_of_doubles,
    nanoseconds_of_integers,
    plain_integers,
    resolution,
)


def parsed(texts):
    return nanoseconds(joined_texts(texts), len(texts))


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


@given(st.lists(kineto, min_size=1, max_size=40))
def test_alike(texts):
    check(texts)


@given(st.lists(st.one_of(kineto, st.just("")), min_size=1, max_size=40))
def test_alike_with_gaps(texts):
    check(texts)


@given(st.lists(st.integers(10**15, 10**16 - 1).map(str), min_size=1, max_size=20))
def test_epoch_microseconds(texts):
    check(texts)


@given(st.lists(plain, min_size=1, max_size=20))
def test_plain(texts):
    check(texts)


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
    found = nanoseconds_of_doubles(np.array([float(text) for text in texts]))
    if found is not None:
        assert found.ns.tolist() == [expected(text)[0] for text in texts]


@given(st.lists(exact, min_size=1, max_size=30))
def test_doubles_of_three_decimals_are_not_refused(texts):
    assert nanoseconds_of_doubles(np.array([float(text) for text in texts])) is not None


def test_missing_numbers_are_said():
    found = nanoseconds_of_doubles(np.array([1.5, np.nan]))
    assert found is not None
    assert (found.ns.tolist(), list(found.state)) == ([1500, 0], [OK, MISSING])
    found = nanoseconds_of_integers([3, -1], missing=-1)
    assert found is not None
    assert (found.ns.tolist(), list(found.state)) == ([3000, 0], [OK, MISSING])


@pytest.mark.parametrize("micros", [10**18, 1 << 70, -(10**18)])
def test_integers_whose_nanoseconds_do_not_fit_are_refused(micros):
    assert nanoseconds_of_integers([1, micros], missing=-1) is None
