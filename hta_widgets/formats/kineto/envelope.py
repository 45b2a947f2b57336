"""What stands around the list of events: the file's own top-level keys."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import msgspec
from msgspec import Raw

from hta_widgets.errors import TraceError

from hta_widgets.readers.notes import Notes
from hta_widgets.formats.kineto.records import end_of_value
from hta_widgets.formats.kineto.tolerant import is_utf8
from hta_widgets.formats.kineto.tolerant import read_top_level

__all__ = ["Head", "decode_values", "find_events", "read_tail"]

_decode = msgspec.json.Decoder(dict[str, Raw]).decode
_EVENTS = re.compile(rb'"traceEvents"\s*:\s*\[')
_BLANKS = re.compile(rb"[ \t\r\n]*")
_LONGEST_HEAD = 1 << 28
_BOM = b"\xef\xbb\xbf"


@dataclass(slots=True)
class Head:
    """Where the events begin."""

    #: position behind the list's opening bracket
    start: int
    #: whether the list stands in an object
    enclosed: bool
    values: dict[str, bytes]


def find_events(
    text: bytes, more: Callable[[int], bytes], path: str, notes: Notes
) -> tuple[Head, bytes]:
    """Find the list of events at the top level of a JSON text.

    Parameters
    ----------
    text : bytes
        The first bytes, or none yet.
    more : callable
        Gives the next so many bytes or more, fewer at the end.
    path : str
    notes : Notes

    Returns
    -------
    Head, bytes
        The head, and all bytes from the beginning that were taken so far.
    """
    text = text or more(0)
    start = len(_BOM) if text.startswith(_BOM) else 0
    start = _BLANKS.match(text, start).end()  # type: ignore[union-attr]
    opener = text[start : start + 1]
    if opener == b"[":
        return Head(start + 1, enclosed=False, values={}), text
    if opener != b"{":
        raise TraceError(
            "is not a JSON trace",
            path=path,
            place=f"byte {start:,}",
            remedy="A trace begins with { or [.",
        )
    searched = start
    while True:
        for match in _EVENTS.finditer(text, searched):
            values = _values_before(text[start : match.start()])
            if values is not None:
                return Head(match.end(), enclosed=True, values=values), text
        searched = max(start, len(text) - 256)
        block = more(len(text)) if len(text) < _LONGEST_HEAD else b""
        if not block:
            break
        text += block
    unproven = _EVENTS.search(text, start)
    if unproven is not None:
        notes.add("skipped", "top-level keys before traceEvents that cannot be read", start)
        return Head(unproven.end(), enclosed=True, values={}), text
    raise TraceError(
        "holds no trace events",
        path=path,
        remedy='A trace is a JSON object with "traceEvents", or a list of events.',
    )


def _values_before(text: bytes) -> dict[str, bytes] | None:
    """Values of the keys in ``{"key": value, …,``; None if that is not what `text` is."""
    strict = _strict(text + b'"":0}')
    if strict is not None:
        strict.pop("", None)
        return strict
    loose = read_top_level(text + b"}", 1)
    return loose.values if loose.complete and loose.end == len(text) + 1 else None


def _strict(text: bytes) -> dict[str, bytes] | None:
    if not is_utf8(text):
        return None
    try:
        return {key: bytes(raw) for key, raw in _decode(text).items()}
    except (msgspec.DecodeError, RecursionError):
        return None


def read_tail(
    text: bytes, more: Callable[[int], bytes]
) -> tuple[dict[str, bytes], bytes, int | None]:
    """Read the keys behind the list of events.

    Returns
    -------
    dict, bytes, int or None
        The keys; the text with what was taken to it; and the position behind the closing brace.
    """
    while True:
        trimmed = text.lstrip(b" \t\r\n,")
        trimmed_size = len(text) - len(trimmed)
        values, end = _strict_object(b"{" + trimmed)
        if values is not None:
            return values, text, trimmed_size + end - 1
        block = more(len(text))
        if not block:
            loose = read_top_level(text, trimmed_size)
            return loose.values, text, loose.end if loose.complete else None
        text += block


def _strict_object(text: bytes) -> tuple[dict[str, bytes] | None, int]:
    """Read the object that `text` begins with; return also where it ends."""
    try:
        _decode(text)
    except msgspec.DecodeError as error:
        end = end_of_value(error)
        if end is None:
            return None, 0
        text = text[:end]
    except (RecursionError, UnicodeDecodeError):
        return None, 0
    return _strict(text), len(text)


def decode_values(values: dict[str, bytes]) -> dict[str, Any]:
    """Decode top-level values for users to read."""
    decoded: dict[str, Any] = {}
    for key, text in values.items():
        try:
            decoded[key] = json.loads(text)
        except (ValueError, RecursionError):
            try:
                decoded[key] = json.loads(text.decode("utf-8", "replace"), strict=False)
            except (ValueError, RecursionError):
                decoded[key] = text.decode("utf-8", "replace")
    return decoded
