"""Times of records, as text and as numbers."""

from __future__ import annotations

from decimal import ROUND_HALF_EVEN, Decimal, InvalidOperation

__all__ = ["micros", "nanoseconds"]

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
