"""Times in the text of records: JSON microseconds, exact to the nanosecond.

>>> move_record(b'{"ts": 1.5, "name": "a"}', 250)
b'{"ts":1.75,"name":"a"}'
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from decimal import ROUND_HALF_EVEN, Decimal
from typing import Any

from hta_widgets.trace.columns import decode_fields, encode_fields

#: Key of a file's base time in ns, to which the file's times are relative.
BASE_KEY = "baseTimeNanoseconds"
#: Range of event times: 36 years before 0 to 109 years after it, so that differences do not
#: overflow.
FIRST_NS, LAST_NS = -(1 << 60), 3 << 60
#: Times since the start of a recording are below this, and times since 1970 are above it.
MIN_UTC_NS = 100_000_000_000_000_000

_NANOSECOND = Decimal(1)


def parse_base_time(text: str) -> int:
    """Return a base time in ns; raise `ValueError` or `OverflowError` if it is invalid."""
    try:
        base = Decimal(text.strip('"'))
        is_possible = FIRST_NS <= base <= LAST_NS
    except ArithmeticError:
        raise ValueError(f"expected a number of ns, got {text!r}") from None
    if not is_possible:
        raise OverflowError(f"expected {FIRST_NS} to {LAST_NS} ns, got {text}")
    return int(base)


def base_time_ns(metadata: Mapping[str, Any]) -> int:
    """Return the time to which a file's times are relative; 0 if it is missing or invalid."""
    with suppress(ValueError, OverflowError):
        return parse_base_time(str(metadata.get(BASE_KEY, 0)))
    return 0


def micros(time_ns: int) -> bytes:
    """Return a time in ns as JSON in µs, exactly."""
    sign, time_ns = ("-", -time_ns) if time_ns < 0 else ("", time_ns)
    whole, rest = divmod(time_ns, 1000)
    return f"{sign}{whole}.{rest:03d}".encode() if rest else f"{sign}{whole}".encode()


def nanoseconds_of_text(raw: bytes) -> int | None:
    """Return a JSON time in µs as ns, rounded half to even; None if it is not a number."""
    try:
        exact = Decimal(raw.strip(b'"').decode()) * 1000
        return int(exact.quantize(_NANOSECOND, ROUND_HALF_EVEN))
    except (ArithmeticError, ValueError):
        return None


def add_ns(raw: bytes, move_ns: int) -> bytes:
    """Return a JSON time in µs plus `move_ns`, exact in whole ns; other values unchanged."""
    whole, _, decimals = raw.partition(b".")
    if raw.replace(b".", b"", 1).isdigit() and whole and len(decimals) <= 3:
        return micros(int(whole) * 1000 + int(decimals.ljust(3, b"0")) + move_ns)
    time_ns = nanoseconds_of_text(raw)
    if time_ns is None:
        return raw
    # Digits below a nanosecond are kept unless they would now round in the other direction.
    moved_ns, all_digits = time_ns + move_ns, shift_time(raw, move_ns)
    return all_digits if nanoseconds_of_text(all_digits) == moved_ns else micros(moved_ns)


def shift_time(raw: bytes, shift_ns: int) -> bytes:
    """Return a JSON time in µs plus `shift_ns`, with all its digits; other values unchanged."""
    try:
        time = Decimal(raw.strip(b'"').decode()) + Decimal(shift_ns).scaleb(-3)
    except (ArithmeticError, UnicodeDecodeError):
        return raw
    text = f"{time:f}"
    return (text.rstrip("0").rstrip(".") if "." in text else text).encode()


def move_record(text: bytes, move_ns: int) -> bytes:
    """Return the record with its time shifted, except for metadata, whose time is meaningless."""
    fields = decode_fields(text)
    if fields is None or "ts" not in fields or fields.get("ph") == b'"M"':
        return text
    fields["ts"] = add_ns(fields["ts"], move_ns)
    return encode_fields(fields)
