"""Parses decimal microseconds into exact nanoseconds, many at once.

``1700000000000000.123`` has more digits than a double can hold. Decimal strings are therefore
parsed as integers, digit by digit, for all values of a slice at once. Fractions of a nanosecond are
rounded half to even.
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import ROUND_HALF_EVEN, Context, Decimal
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from hta_widgets.trace.arrays import Ints

OK, MISSING, BAD, TOO_LARGE = 0, 1, 2, 3

Bytes = npt.NDArray[np.uint8]

_DIGITS = b"0123456789"
_COMMA, _DOT = ord(","), ord(".")
_ZERO = ord("0")
#: padding for words that begin before the first value or end after the last
_LEAD, _TRAIL = 24, 8
#: number of digits that always fit in an int64
_MAX_DIGITS = 18
_POWERS = 10 ** np.arange(_MAX_DIGITS + 1, dtype=np.int64)
_LARGEST = (1 << 63) - 1
_DECIMALS = Context(prec=400, rounding=ROUND_HALF_EVEN)

#: masks for the first and the last n bytes of a little-endian word
_FIRST_BYTES = np.array([(1 << (8 * n)) - 1 for n in range(9)], np.uint64)
_LAST_BYTES = ~_FIRST_BYTES[::-1].copy()

_IS_ODD = np.ones(256, np.bool_)
_IS_ODD[np.frombuffer(_DIGITS + b".,", np.uint8)] = False


class Times(NamedTuple):
    """Nanoseconds, and the state of each value."""

    ns: Ints
    #: OK, MISSING, BAD or TOO_LARGE for each value; None if all are OK
    state: Bytes | None


def nanoseconds(texts: Sequence[Any]) -> Times:
    """Parse JSON numbers of microseconds into nanoseconds, rounding half to even."""
    count = len(texts)
    if not count:
        return Times(np.empty(0, np.int64), None)
    joined = b",".join(texts)
    if joined.count(b",") != count - 1:
        # Commas within a text are replaced. Such a text is not a number in either case.
        joined = b",".join([bytes(text).replace(b",", b";") for text in texts])
    original = joined
    # After the digits are removed, only separators and signs should remain.
    skeleton = joined.translate(None, _DIGITS)
    other_bytes = skeleton.translate(None, b".,")
    if other_bytes and not other_bytes.strip(b'"'):
        joined = joined.translate(None, b'"')
        other_bytes = b""
    text = _pad(joined)
    uniform = None if other_bytes else _parse_uniform(text, skeleton, count)
    if uniform is not None:
        return Times(uniform, None)
    return _parse_varied(text, original, count, has_odd=bool(other_bytes))


#: Below this, a time in microseconds stored as a double is exact to a quarter of a nanosecond.
LARGEST_DOUBLE = float(1 << 42)


def nanoseconds_of_doubles(values: npt.NDArray[np.float64]) -> Times | None:
    """Convert µs to ns, with NaN for missing values; return None if the result may be inexact."""
    missing = np.isnan(values)
    some_missing = bool(missing.any())
    if some_missing:
        values = np.where(missing, 0.0, values)
    if np.abs(values).max() >= LARGEST_DOUBLE:
        return None
    floors = np.floor(values)
    thousandths = (values - floors) * 1000
    rounded = np.rint(thousandths)
    if np.abs(thousandths - rounded).max() > 0.25:
        return None  # more than three decimals, or close to a tie
    ns = floors.astype(np.int64) * 1000 + rounded.astype(np.int64)
    return Times(ns, missing.view(np.uint8) if some_missing else None)


def nanoseconds_of_integers(values: Sequence[int], missing: int) -> Times | None:
    """Convert whole microseconds to nanoseconds; return None if a value exceeds 64 bits."""
    try:
        micros = np.fromiter(values, np.int64, len(values))
    except OverflowError:
        return None
    absent = micros == missing
    some_missing = bool(absent.any())
    micros[absent] = 0
    if np.abs(micros).max() > _LARGEST // 1000:
        return None
    return Times(micros * 1000, absent.view(np.uint8) if some_missing else None)


def plain_integers(texts: Sequence[Any], absent: int) -> Ints | None:
    """Parse unsigned integers of up to 18 digits (empty: `absent`); None if a value differs."""
    joined = b",".join(texts)
    if len(joined) <= len(texts) - 1:
        return np.full(len(texts), absent, np.int64)
    skeleton = joined.translate(None, _DIGITS)
    if len(skeleton) != len(texts) - 1 or skeleton.strip(b","):
        return None
    text = _pad(joined)
    ends = np.flatnonzero(text == _COMMA)
    digits = np.diff(ends, prepend=_LEAD - 1) - 1
    if digits.max() > _MAX_DIGITS:
        return None
    value = np.full(len(texts), absent, np.int64)
    rows = np.flatnonzero(digits)
    value[rows] = _integers(text, ends[rows], digits[rows])
    return value


def resolution(*times: Ints) -> int:
    """Return the largest power of ten up to 1000 that divides all of `times`."""
    step = 1000
    for values in times:
        while step > 1 and (values % step).any():
            step //= 10
    return step


def _pad(joined: bytes) -> Bytes:
    return np.frombuffer(b"".join((b"0" * _LEAD, joined, b",", b"0" * _TRAIL)), np.uint8)


def _parse_uniform(text: Bytes, skeleton: bytes, count: int) -> Ints | None:
    """Parse values of equal width with 0 or 3 decimals, the usual case; return None for others."""
    pitch, rest = divmod(len(text) - _LEAD - _TRAIL, count)
    width = pitch - 1
    integer_width = width
    if rest or width < 1:
        return None
    if len(skeleton) == 2 * count - 1:
        integer_width = width - 4
        if integer_width < 1 or skeleton != (b".," * count)[:-1]:
            return None
        if not (text[_LEAD + integer_width : -_TRAIL : pitch] == _DOT).all():
            return None
    elif len(skeleton) != count - 1:
        return None
    if integer_width > _MAX_DIGITS or not (text[_LEAD + width : -_TRAIL : pitch] == _COMMA).all():
        return None

    def column(end: int, digits: int) -> Ints:
        """Return the last `digits` digits (at most 8) of each value before position `end`."""
        words = np.ndarray((count,), "<u8", text, _LEAD + end - 8, (pitch,))
        return _eight_digits(words & _LAST_BYTES[min(digits, 8)])

    value = column(integer_width, integer_width)
    for done in range(8, integer_width, 8):
        value += column(integer_width - done, integer_width - done) * 10**done
    if integer_width > _MAX_DIGITS - 3 and value.max() >= _LARGEST // 1000:
        return None  # the nanoseconds do not fit in 64 bits
    value *= 1000
    if integer_width < width:
        value += column(width, 3)
    return value


def _parse_varied(text: Bytes, joined: bytes, count: int, *, has_odd: bool) -> Times:
    marks = np.flatnonzero(text < _ZERO)
    commas = np.flatnonzero(text[marks] == _COMMA)
    ends = marks[commas]
    starts = np.append(_LEAD, ends[:-1] + 1)
    state = (starts == ends).view(np.uint8)  # an empty value is MISSING, which is 1

    # A value's point is the mark before its comma, unless that mark is the previous comma.
    before = marks[commas - 1]
    dotted = text[before] == _DOT
    points = np.where(dotted, before, ends)
    has_points = bool(dotted.any())
    wholes = points - starts
    value = _integers(text, points, wholes)
    longest = int(wholes.max())
    if longest + 3 > _MAX_DIGITS:
        state[(value >= _LARGEST // 1000) | (wholes > _MAX_DIGITS)] = TOO_LARGE
    value *= 1000
    if has_points:
        decimals = ends - points - dotted
        most_decimals = int(decimals.max())
        if most_decimals > _MAX_DIGITS:
            state[decimals > _MAX_DIGITS] = TOO_LARGE
        value += _thousandths(text, points, ends, decimals, most_decimals)
        if len(marks) != count + np.count_nonzero(dotted):
            state[np.diff(commas, prepend=-1) > 2] = BAD
        state[(wholes + decimals == 0) & dotted] = BAD

    if has_odd:
        odd_rows = np.searchsorted(ends, np.flatnonzero(_IS_ODD[text]))
        state[odd_rows] = TOO_LARGE
    awkward = np.flatnonzero(state)
    if not len(awkward):
        return Times(value, None)
    value[awkward] = 0
    unclear = awkward[state[awkward] == TOO_LARGE].tolist()
    texts = joined.split(b",") if unclear else []
    for row in unclear:
        value[row], state[row] = _parse_exactly(texts[row])
    return Times(value, state if state.any() else None)


def _thousandths(text: Bytes, points: Ints, ends: Ints, decimals: Ints, most_decimals: int) -> Ints:
    """Return decimals as thousandths, rounding ties to even; whole units are multiples of 1000."""
    if most_decimals <= 8:
        # Words are left-aligned, so missing digits count as trailing zeros.
        words = _words(text)[points + 1] & _FIRST_BYTES[decimals]
        if most_decimals <= 3:
            return _eight_digits(words << np.uint64(40))
        return _divide_half_even(_eight_digits(words), np.int64(100_000))
    fraction = _integers(text, ends, decimals)
    fraction *= _POWERS[np.maximum(3 - decimals, 0)]
    return _divide_half_even(fraction, _POWERS[np.clip(decimals - 3, 0, _MAX_DIGITS)])


def _divide_half_even(value: Ints, unit: Ints | np.int64) -> Ints:
    quotient, rest = np.divmod(value, unit)
    half = unit // 2
    rounds_up = (rest > half) | ((rest == half) & (unit > 1) & (quotient & 1 == 1))
    rounded: Ints = quotient + rounds_up
    return rounded


def _integers(text: Bytes, ends: Ints, digits: Ints) -> Ints:
    """Return the values of runs of at most 18 digits, read eight at a time from the end."""
    min_digits, max_digits = int(digits.min()), min(int(digits.max()), _MAX_DIGITS)
    value: Ints = np.zeros(len(ends), np.int64)
    for place in range(0, max_digits, 8):
        word = _words(text)[ends - (8 + place)]
        if min_digits < place + 8:
            word &= _LAST_BYTES[np.clip(digits - place, 0, 8)]
        part = _eight_digits(word)
        part *= 10**place
        value += part
    return value


def _words(text: Bytes) -> npt.NDArray[np.uint64]:
    """View the eight bytes at each position as a word, so that one load reads a value's digits."""
    return np.ndarray((len(text) - 7,), "<u8", text, 0, (1,))


def _eight_digits(words: npt.NDArray[np.uint64]) -> Ints:
    """Read little-endian words of eight digits, given as ASCII or zero bytes."""
    words = words & np.uint64(0x0F0F0F0F0F0F0F0F)
    words *= np.uint64(2561)
    words >>= np.uint64(8)
    words &= np.uint64(0x00FF00FF00FF00FF)
    words *= np.uint64(6553601)
    words >>= np.uint64(16)
    words &= np.uint64(0x0000FFFF0000FFFF)
    words *= np.uint64(42949672960001)
    words >>= np.uint64(32)
    return words.view(np.int64)


def _parse_exactly(text: bytes) -> tuple[int, int]:
    if not text or text == b"null":
        return 0, MISSING
    try:
        value = Decimal(text.decode().strip('" \t\n\r'), _DECIMALS)
        if not value.is_finite():
            return 0, BAD
        if value and value.adjusted() > 18:  # also avoids writing out 1e999999
            return 0, TOO_LARGE
        ns = int((value * 1000).quantize(Decimal(1), context=_DECIMALS))
    except (ArithmeticError, ValueError):
        return 0, BAD
    return (ns, OK) if abs(ns) <= _LARGEST else (0, TOO_LARGE)
