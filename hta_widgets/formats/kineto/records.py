"""What is decoded of a record, and how one that the strict decoder refuses is understood."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable
from typing import Any

import msgspec
from msgspec import Raw, Struct

__all__ = [
    "Args",
    "Record",
    "decode_bodies",
    "decode_records",
    "end_of_value",
    "loads_loosely",
    "plain_json",
    "record_of",
    "with_backslashes_escaped",
]

_INT64 = 1 << 63
_BANDWIDTH = "memory bandwidth (GB/s)"


class Args(Struct, gc=False, rename={"bandwidth": _BANDWIDTH}):
    """The args that become columns; what copies state is kept as text, whatever it is."""

    stream: int | str | None = -1
    correlation: int | str | None = -1
    bandwidth: Raw = Raw(b"")
    bytes: Raw = Raw(b"")


class Record(Struct, gc=False):
    """The fields that become columns, in Kineto's order; numbers that must stay exact are text."""

    ph: str = ""
    cat: str | None = ""
    name: str | None = ""
    pid: int | str | None = None
    tid: int | str | None = None
    ts: Raw = Raw(b"")
    dur: Raw = Raw(b"")
    args: Args | None = None
    id: Raw = Raw(b"")
    bp: str | None = None
    s: str | None = None


#: What stands for a missing time where starts are decoded as integers.
NO_INTEGER = -(1 << 63)


def _timed_decoder(ts: type) -> Callable[[bytes], list[Any]]:
    """Return a decoder of records that gives starts as `ts` and durations as doubles."""
    missing = {int: NO_INTEGER, float: math.nan, Raw: Raw(b"")}[ts]
    changed = {"ts": ("ts", ts, missing), "dur": ("dur", float, math.nan)}
    fields = [
        changed.get(field.name, (field.name, field.type, field.default))
        for field in msgspec.structs.fields(Record)
    ]
    record = msgspec.defstruct("TimedRecord", fields, gc=False)
    return msgspec.json.Decoder(list[record]).decode  # type: ignore[valid-type]


_TRAILING = re.compile(r"trailing characters \(byte (\d+)\)")

decode_records = msgspec.json.Decoder(list[Record]).decode
#: Decoders for files whose durations a double holds exactly, by the type that holds their starts.
decode_timed = {kind: _timed_decoder(kind) for kind in (int, float, Raw)}
decode_bodies = msgspec.json.Decoder(list[Raw]).decode


def end_of_value(error: msgspec.DecodeError) -> int | None:
    """Where the JSON value ended, for an error that says that more followed it."""
    trailing = _TRAILING.search(str(error))
    return int(trailing.group(1)) - _TRAILING_SHIFT if trailing else None


def _trailing_shift() -> int:
    """How far behind the value msgspec, depending on its version, reports what follows it."""
    try:
        decode_bodies(b"[]x")
    except msgspec.DecodeError as error:
        trailing = _TRAILING.search(str(error))
        if trailing:
            return int(trailing.group(1)) - 2
    return 0


_TRAILING_SHIFT = _trailing_shift()


class _Number(str):
    """The text of a number, apart from strings of the same text."""

    __slots__ = ()


def loads_loosely(body: bytes) -> Any:
    """Decode JSON that may hold control characters, bad UTF-8, NaN or any number, exactly."""
    return json.loads(
        body.decode("utf-8", "replace"),
        strict=False,
        parse_int=_Number,
        parse_float=_Number,
        parse_constant=_Number,
    )


def record_of(value: dict[str, Any]) -> Record:
    """Turn what `loads_loosely` gave into a record, whatever the types of its fields."""
    args = value.get("args")
    phase = value.get("ph")
    return Record(
        ph=phase if isinstance(phase, str) and not isinstance(phase, _Number) else "",
        ts=_json_text(value.get("ts")),
        dur=_json_text(value.get("dur")),
        name=_text(value.get("name")),
        cat=_text(value.get("cat")),
        pid=_text(value.get("pid")),
        tid=_text(value.get("tid")),
        id=_json_text(value.get("id")),
        bp=_text(value.get("bp")),
        s=_text(value.get("s")),
        args=Args(
            _integer(args.get("stream")),
            _integer(args.get("correlation")),
            _json_text(args.get(_BANDWIDTH)),
            _json_text(args.get("bytes")),
        )
        if isinstance(args, dict)
        else None,
    )


def _text(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, str):
        return _encodable(str(value))
    return bytes(_json_text(value)).decode()


def _json_text(value: Any) -> Raw:
    return Raw(b"") if value is None else Raw(plain_json(value))


def plain_json(value: Any) -> bytes:
    """Encode what `loads_loosely` gave; numbers keep their text, NaN and its like get quotes."""
    return msgspec.json.encode(_encodable_value(value))


def _encodable_value(value: Any) -> Any:
    if isinstance(value, _Number):
        return str(value) if value.lstrip("-") in {"NaN", "Infinity"} else Raw(value.encode())
    if isinstance(value, str):
        return _encodable(value)
    if isinstance(value, dict):
        return {_encodable(key): _encodable_value(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_encodable_value(item) for item in value]
    return value


def _integer(value: Any) -> int:
    try:
        number = int(float(value)) if "." in str(value) or "e" in str(value) else int(value)
    except (TypeError, ValueError, OverflowError):
        return -1
    return number if -_INT64 <= number < 2 * _INT64 else -1


def _encodable(text: str) -> str:
    """Replace halves of surrogate pairs, which no other program would accept."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


_BAD_ESCAPE = re.compile(rb'\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})|(\\)')


def with_backslashes_escaped(body: bytes) -> bytes:
    r"""Double backslashes that begin no escape, as in ``"C:\Windows"``."""
    return _BAD_ESCAPE.sub(lambda match: b"\\\\" if match.group(1) else match.group(0), body)
