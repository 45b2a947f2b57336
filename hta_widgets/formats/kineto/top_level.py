"""Finds the list of events in the outermost object of a trace file, and reads the other keys.

A program may write keys before and after the list. Keys that are not valid JSON are decoded
leniently and reported as a problem::

    {"schemaVersion": 1, "traceEvents": [ … ], "distributedInfo": {"rank": 3}}
    └─ find_events ────────────────────┘    └─ read_tail ──────────────────────┘
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from itertools import islice
from typing import Any

import msgspec
from msgspec import Raw

from hta_widgets.errors import TraceError
from hta_widgets.formats.kineto.records import end_of_value
from hta_widgets.formats.kineto.tolerant import is_utf8, read_top_level
from hta_widgets.trace.problems import NoteCounts

_decode = msgspec.json.Decoder(dict[str, Raw]).decode
#: The key of the list. In JSON, each of its letters may be escaped.
_KEY = b"".join(b"(?:%c|\\\\u00(?i:%02x))" % (letter, letter) for letter in b"traceEvents")
_EVENTS = re.compile(rb'"' + _KEY + rb'"\s*:\s*\[')
#: Limit for the places tried as a list, because each try decodes the text before it.
_MAX_TRIED = 10
_INVALID_KEYS = "top-level keys that are not valid JSON"
_BLANKS = re.compile(rb"[ \t\r\n]*")
_LONGEST_HEAD = 1 << 28
_BOM = b"\xef\xbb\xbf"


@dataclass(slots=True)
class EventsStart:
    """Position of the first event, and the top-level values before it."""

    #: position after the opening bracket of the list
    start: int
    #: whether the list is in an object
    enclosed: bool
    values: dict[str, bytes]


def find_events(
    text: bytes, more: Callable[[int], bytes], path: str, notes: NoteCounts
) -> tuple[EventsStart, bytes]:
    """Find the list of events at the top level of a JSON text; also return the text read so far."""
    text = text or more(0)
    start = len(_BOM) if text.startswith(_BOM) else 0
    start = _BLANKS.match(text, start).end()  # type: ignore[union-attr]
    while start == len(text) and (block := more(start + 1)):
        text += block
        start = _BLANKS.match(text, start).end()  # type: ignore[union-attr]
    opener = text[start : start + 1]
    if opener == b"[":
        return EventsStart(start + 1, enclosed=False, values={}), text
    if opener != b"{":
        raise TraceError(
            "is not a JSON trace",
            path=path,
            place=f"byte {start:,}",
            remedy="A trace begins with { or [.",
        )
    searched, tried = start, 0
    while tried < _MAX_TRIED:
        for match in islice(_EVENTS.finditer(text, searched), _MAX_TRIED - tried):
            tried += 1
            values = _values_before(text[start : match.start()], notes, start)
            if values is not None:
                return EventsStart(match.end(), enclosed=True, values=values), text
        searched = max(start, len(text) - 256)
        block = more(len(text)) if len(text) < _LONGEST_HEAD else b""
        if not block:
            break
        text += block
    unproven = _EVENTS.search(text, start)
    if unproven is not None:
        notes.add("skipped", "top-level keys before traceEvents that cannot be read", start)
        return EventsStart(unproven.end(), enclosed=True, values={}), text
    raise TraceError(
        "holds no trace events",
        path=path,
        remedy='A trace is a JSON object with "traceEvents", or a list of events.',
    )


def _values_before(text: bytes, notes: NoteCounts, offset: int) -> dict[str, bytes] | None:
    """Return the values of ``{"key": value, …,``; None if the text has another form."""
    strict = _decode_strictly(text + b'"":0}')
    if strict is not None:
        strict.pop("", None)
        return strict
    loose = read_top_level(text + b"}", 1)
    if not loose.complete or loose.end != len(text) + 1:
        return None
    notes.add("repaired", _INVALID_KEYS, offset)
    return loose.values


def _decode_strictly(text: bytes) -> dict[str, bytes] | None:
    if not is_utf8(text):
        return None
    try:
        return {key: bytes(raw) for key, raw in _decode(text).items()}
    except (msgspec.DecodeError, RecursionError):
        return None


def read_tail(
    text: bytes, more: Callable[[int], bytes], notes: NoteCounts, offset: int
) -> tuple[dict[str, bytes], bytes, int | None]:
    """Read the keys after the list of events, which ends at byte `offset` of the file.

    Also return the text read so far, and where the object ends in it (None if it does not).
    """
    while True:
        trimmed = text.lstrip(b" \t\r\n,")
        trimmed_size = len(text) - len(trimmed)
        values, end = _strict_object(b"{" + trimmed)
        if values is not None:
            return values, text, trimmed_size + end - 1
        block = more(len(text)) if len(text) < _LONGEST_HEAD else b""
        if not block:
            loose = read_top_level(text, trimmed_size)
            if loose.complete:
                notes.add("repaired", _INVALID_KEYS, offset)
            return loose.values, text, loose.end if loose.complete else None
        text += block


def find_further_events(text: bytes) -> int | None:
    """Return the position after the bracket of a second list of events; None if none follows."""
    for match in islice(_EVENTS.finditer(text), _MAX_TRIED):
        before = b"{" + text[: match.start()].lstrip(b" \t\r\n,")
        if _values_before(before, NoteCounts(), 0) is not None:
            return match.end()
    return None


def _strict_object(text: bytes) -> tuple[dict[str, bytes] | None, int]:
    """Read the object at the start of `text`; return its values and length."""
    try:
        _decode(text)
    except msgspec.DecodeError as error:
        end = end_of_value(error)
        if end is None:
            return None, 0
        text = text[:end]
    except (RecursionError, UnicodeDecodeError):
        return None, 0
    return _decode_strictly(text), len(text)


def decode_values(values: dict[str, bytes]) -> dict[str, Any]:
    """Decode top-level values for users to read."""
    decoded: dict[str, Any] = {}
    for key, raw in values.items():
        text = raw.decode("utf-8", "replace")
        try:
            decoded[key] = json.loads(text, strict=False)
        except (ValueError, RecursionError):
            decoded[key] = text
    return decoded
