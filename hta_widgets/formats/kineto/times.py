"""Times of records, as text and as numbers."""

from __future__ import annotations

from decimal import ROUND_HALF_EVEN, Decimal, InvalidOperation

from hta_widgets.trace.record_fields import shifted

__all__ = ["later", "micros", "nanoseconds"]

_NANOSECOND = Decimal(1)


def micros(time_ns: int) -> bytes:
    """Write a time in µs, exactly."""
    sign, time_ns = ("-", -time_ns) if time_ns < 0 else ("", time_ns)
    whole, rest = divmod(time_ns, 1000)
    return f"{sign}{whole}.{rest:03d}".encode() if rest else f"{sign}{whole}".encode()


def nanoseconds(raw: bytes) -> int | None:
    """Return a JSON time in µs as ns, half-even below one; None if it is none."""
    try:
        exact = Decimal(raw.strip(b'"').decode()) * 1000
        return int(exact.quantize(_NANOSECOND, ROUND_HALF_EVEN))
    except (InvalidOperation, UnicodeDecodeError, ValueError, OverflowError):
        return None


def later(raw: bytes, move_ns: int) -> bytes:
    """Return a JSON time in µs, later by some ns to whoever reads both in whole ns."""
    whole, _, part = raw.partition(b".")
    if raw.replace(b".", b"", 1).isdigit() and whole and len(part) <= 3:
        return micros(int(whole) * 1000 + int(part.ljust(3, b"0")) + move_ns)
    time_ns = nanoseconds(raw)
    if time_ns is None:
        return raw
    # Digits below a nanosecond stay, unless they would now be rounded the other way.
    text = shifted(raw, move_ns)
    return text if nanoseconds(text) == time_ns + move_ns else micros(time_ns + move_ns)
