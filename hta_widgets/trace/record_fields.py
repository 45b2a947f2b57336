"""The members of a record's JSON object, each still in its own text."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal, InvalidOperation

import msgspec
from msgspec import Raw

__all__ = ["Fields", "decode_fields", "encode_fields", "shifted"]

#: A JSON object whose values are still text.
Fields = dict[str, bytes]

_decode = msgspec.json.Decoder(dict[str, Raw]).decode
_encode = msgspec.json.Encoder().encode


def decode_fields(text: bytes) -> Fields | None:
    """Return the members of a JSON object; None for anything else."""
    try:
        return {key: bytes(raw) for key, raw in _decode(text).items()}
    except msgspec.DecodeError:
        return None


def encode_fields(fields: Mapping[str, bytes]) -> bytes:
    """Write members back as a JSON object."""
    return _encode({key: Raw(value) for key, value in fields.items()})


def shifted(raw: bytes, shift_ns: int) -> bytes:
    """Return a JSON time in µs, later by some ns; every digit that it had stays."""
    try:
        time = Decimal(raw.strip(b'"').decode()) + Decimal(shift_ns).scaleb(-3)
    except (InvalidOperation, UnicodeDecodeError):
        return raw
    text = f"{time:f}"
    return (text.rstrip("0").rstrip(".") if "." in text else text).encode()
