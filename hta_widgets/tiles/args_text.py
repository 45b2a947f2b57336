"""The args of a record as text for display: numbers and nesting exactly as the file has them."""

from __future__ import annotations

import json
from typing import Any

__all__ = ["args_of_record", "display"]


class _Number(str):
    """A number as the file writes it: no digit is lost, whatever its size."""

    __slots__ = ()


class _Pairs(list[tuple[str, Any]]):
    """A JSON object in the file's order, repeated keys included."""

    __slots__ = ()


_DECODER = json.JSONDecoder(
    object_pairs_hook=_Pairs,
    parse_int=_Number,
    parse_float=_Number,
    parse_constant=_Number,
    strict=False,
)


def args_of_record(record: bytes) -> list[tuple[str, str]]:
    """Return key and display text of each of a record's args.

    Raises
    ------
    ValueError
        Where the record is no JSON.
    """
    event = _DECODER.decode(record.decode("utf-8", "replace").strip())
    fields = event if isinstance(event, _Pairs) else _Pairs()
    args = next((value for key, value in reversed(fields) if key == "args"), None)
    if args is None:
        return []
    if not isinstance(args, _Pairs):
        return [("args", display(args))]
    return [(key, display(value)) for key, value in args]


def display(value: Any) -> str:
    """Return a decoded value as text: strings bare, all else as compact JSON."""
    if isinstance(value, str):
        return str(value)
    return _compact(value)


def _compact(value: Any) -> str:
    match value:
        case _Number():
            return str(value)
        case _Pairs():
            inner = ",".join(f"{_quoted(key)}:{_compact(one)}" for key, one in value)
            return f"{{{inner}}}"
        case list():
            return f"[{','.join(map(_compact, value))}]"
        case str():
            return _quoted(value)
        case _:
            return json.dumps(value)


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)
