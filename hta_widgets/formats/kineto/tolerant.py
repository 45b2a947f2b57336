"""Reads records that the strict decoder rejects, one by one, and drops only broken ones.

All positions are in bytes. Text is scanned as Latin-1, so that each byte is a character. Only a
record's own span is then decoded as UTF-8.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

import msgspec
from msgspec import Raw

from hta_widgets.formats.kineto.lenient import (
    BACKSLASHES_KEPT,
    decode_leniently,
    encodable,
    encode_json,
    has_windows_path,
    record_of,
    with_backslashes_escaped,
    with_words_quoted,
)
from hta_widgets.formats.kineto.records import Record
from hta_widgets.trace.problems import NoteCounts

_scan = json.JSONDecoder(
    strict=False, parse_int=len, parse_float=len, parse_constant=len
).raw_decode
_decode_record = msgspec.json.Decoder(Record).decode
_decode_raw = msgspec.json.Decoder(Raw).decode

_BLANKS = re.compile(r"[ \t\r\n]*")
_COMMAS = re.compile(r"[, \t\r\n]+")
_START = r'\{\s*"(?:ph|name|cat|pid|tid|ts|dur|id|args|s|bp|tts|sf|cname)"\s*:'
_RECORD = re.compile(_START)
#: The end of a record and any empty records and commas that follow it.
_RECORD_END = re.compile(r"\}[\s,]*+(?:\{\s*+\}[\s,]*+)*+")
_UNREADABLE = (ValueError, RecursionError, StopIteration)

_STRETCH = 1 << 12
#: Limit for the text scanned by failed attempts, as a multiple of the text's size. It bounds the
#: time for malicious input.
_SCAN_FACTOR = 32
_COST_OF_FAILURE, _COST_OF_DEPTH = 64, 1 << 15
_MOST_LIST_ENDS = 64
#: Maximum length of a separator between records.
_SEPARATOR = 256
#: No escape or literal can be cut off at this distance from the end of the text.
_ESCAPE = 12


@dataclass(slots=True)
class ReadResult:
    """The records in a piece of text, and the position where reading stopped."""

    records: list[Record] = field(default_factory=list)
    #: positions of the records in the text, and in the list
    spans: list[tuple[int, int]] = field(default_factory=list)
    places: list[int] = field(default_factory=list)
    #: number of list entries in this piece, whether or not they are records
    entries: int = 0
    end: int = 0
    #: "more": records follow; "closed": `end` is after the bracket; "starved": the text ended
    outcome: Literal["more", "closed", "starved"] = "more"


class TopLevel(NamedTuple):
    """Keys of the outermost object, with the JSON text of their values."""

    values: dict[str, bytes]
    end: int
    complete: bool


def read_records(
    text: bytes, start: int, stop: int, notes: NoteCounts, base: int, *, last: bool
) -> ReadResult:
    """Read records from `start` until one ends at or after `stop`."""
    return _TolerantReader(text, notes, base, last).read(start, stop)


class _UnreadableError(Exception):
    """A value cannot be decoded, possibly because the text ends within it."""

    def __init__(self, cost: int, *, ran_out: bool = False, unended: bool = False) -> None:
        super().__init__()
        self.cost = cost  # approximate length of the scanned text
        self.ran_out = ran_out  # whether the text ends within the value
        self.unended = unended  # whether the text ends in a string, perhaps begun by a stray quote


class _TolerantReader:
    def __init__(self, text: bytes, notes: NoteCounts, base: int, last: bool) -> None:  # noqa: FBT001
        self.text = text
        self.chars = text.decode("latin-1")
        self.notes = notes
        self.base = base
        self.last = last
        self.reading = ReadResult()
        self.budget = _SCAN_FACTOR * len(text) + 4096

    def read(self, begin: int, stop: int) -> ReadResult:
        chars, reading = self.chars, self.reading
        reading.outcome = "starved"
        position = begin
        while True:
            position = reading.end = _after_blanks(chars, position)
            if position >= len(chars):
                return reading
            if chars[position] == "]":
                reading.end, reading.outcome = position + 1, "closed"
                return reading
            if chars[position] == ",":
                self._note("repaired", "commas without a record", position)
                position = _COMMAS.match(chars, position).end()  # type: ignore[union-attr]
                continue
            if chars[position] == "[" and _RECORD.match(chars, _after_blanks(chars, position + 1)):
                self._note("repaired", "brackets between records", position)
                position += 1
                continue
            end, is_complete = self._end_of_entry(position)
            if end < 0:
                return reading
            after = _after_blanks(chars, end)
            if after >= len(chars) and not self.last:
                return reading  # the separator after the record is not yet in the text
            self._take(position, end, is_complete=is_complete)
            reading.end = after
            if after >= len(chars):
                return reading
            position = self._after_separator(after)
            if position < 0:
                reading.end = max(after + 1, len(chars) - _SEPARATOR)
                return reading
            if end >= stop and chars[position : position + 1] != "]":
                reading.end, reading.outcome = position, "more"
                return reading

    def _after_separator(self, position: int) -> int:
        """Return where the list continues after an entry; -1 if more text is needed."""
        chars = self.chars
        if chars[position] == ",":
            following = _after_blanks(chars, position + 1)
            if chars[following : following + 1] != "]":
                return position + 1
            self._note("repaired", "a comma after the last record", position)
            return following
        if chars[position] == "{":
            self._note("repaired", "commas missing between records", position)
        elif chars[position] != "]":
            self._note("skipped", "text between records", position)
            record = _RECORD.search(chars, position)
            if record is None:
                return len(chars) if self.last else -1
            return record.start()
        return position

    def _end_of_entry(self, position: int) -> tuple[int, bool]:
        """Return the end of the entry (-1 if not found) and whether the entry is complete."""
        if self.budget < 0:
            self._note("skipped", "a part too damaged to be parsed", position)
            self.reading.end = len(self.chars)
            return -1, False
        try:
            return self._value(position)[1], True
        except _UnreadableError as failure:
            ran_out, is_cut = failure.ran_out, failure.ran_out and not failure.unended
            self.budget -= failure.cost
        if ran_out and not self.last:
            return -1, False
        following = self._next_record(position, ran_out=ran_out)
        if following >= 0:
            return following, False
        if not self.last:
            return -1, False
        end = self._list_end(position)
        if end >= 0 and not (is_cut and decode_or_none(self.text[position:end]) is None):
            return end, False
        self._note("truncated", "the last record is cut off", position)
        self.reading.end = len(self.chars)
        return -1, False

    def _value(self, position: int) -> tuple[Any, int]:
        """Decode the value at `position`; return it and its end.

        A short stretch is tried first. For each error, the decoder counts lines, which would take
        quadratic time in a long text with many errors.
        """
        stretch = _STRETCH
        while True:
            chars = self.chars[position : position + stretch]
            try:
                value, size = _scan(chars, 0)
            except json.JSONDecodeError as failure:
                unended = failure.msg.startswith("Unterminated")
                ran_out = unended or failure.pos > len(chars) - _ESCAPE
                if not ran_out or len(chars) < stretch:
                    looked_at = len(chars) if unended else failure.pos
                    cost = looked_at + _COST_OF_FAILURE
                    raise _UnreadableError(cost, ran_out=ran_out, unended=unended) from None
            except _UNREADABLE:
                raise _UnreadableError(_COST_OF_DEPTH) from None
            else:
                if size < len(chars) or len(chars) < stretch:
                    return value, position + size
            stretch *= 16

    def _next_record(self, position: int, *, ran_out: bool) -> int:
        """Return the end of an unreadable entry, before the next record; -1 if none follows."""
        for match in _RECORD.finditer(self.chars, position + 1):
            start = match.start()
            separator = max(position, start - _SEPARATOR)
            end = separator + len(self.chars[separator:start].rstrip(" \t\r\n,"))
            try:
                value, end_of_value = self._value(start)
            except _UnreadableError as failure:
                # The next record is also broken, unless it is inside a truncated entry.
                self.budget -= failure.cost
                if not ran_out and self.chars[end - 1] == "}":
                    return end
            else:
                self.budget -= end_of_value - start
                if isinstance(value, dict) and "ph" in value:
                    return end
            if self.budget < 0:
                break
        return -1

    def _list_end(self, position: int) -> int:
        """Return the end of the last entry: a bracket followed by valid top-level text; else -1."""
        brackets = 0
        for match in _RECORD_END.finditer(self.chars, position):
            following = self.chars[match.end() : match.end() + 1]
            if following not in ("", "]"):
                continue
            rest = self.text[match.end() + 1 :]
            if not rest.strip() or read_top_level(rest, 0).complete:
                return match.start() + 1
            brackets += 1
            if brackets > _MOST_LIST_ENDS:
                break
        return -1

    def _take(self, start: int, end: int, *, is_complete: bool) -> None:
        record = self._record(start, end, is_complete=is_complete)
        if record is not None:
            self.reading.records.append(record)
            self.reading.spans.append((start, end))
            self.reading.places.append(self.reading.entries)
        self.reading.entries += 1

    def _record(self, start: int, end: int, *, is_complete: bool) -> Record | None:
        """Decode an entry and report any repair; return None if it is not a record."""
        body = self.text[start:end]
        if is_complete and is_utf8(body) and not has_windows_path(body):
            try:
                return _decode_record(body)
            except (msgspec.DecodeError, RecursionError):
                pass  # repaired below
        value, reason = _decode_repaired(body)
        if not isinstance(value, dict):
            damage = (
                "entries that are not records" if is_complete else "records too damaged to be read"
            )
            self._note("skipped", damage, start)
            return None
        if reason != _REPAIRS[0][0] or not is_clean(body):
            self._note("repaired", reason, start)
        try:
            return record_of(value)
        except RecursionError:
            self._note("skipped", "records nested too deeply to be read", start)
            return None

    def _note(self, kind: Any, reason: str, position: int) -> None:
        self.notes.add(kind, reason, self.base + position)


def _after_blanks(chars: str, position: int) -> int:
    return _BLANKS.match(chars, position).end()  # type: ignore[union-attr]


def read_top_level(text: bytes, begin: int) -> TopLevel:
    """Read ``"key": value`` pairs of the outermost object from `begin` to its closing brace.

    A value that is not JSON is kept as a string. Kineto, for example, does not escape quotes.
    """
    chars = text.decode("latin-1")
    values: dict[str, bytes] = {}
    position = good = _after_blanks(chars, begin)
    broken = 0
    try:
        while chars[position] != "}" and broken <= _MOST_BROKEN_VALUES:
            if chars[position] == ",":
                position = _after_blanks(chars, position + 1)
                continue
            _, end = _scan(chars, position)
            key = decode_leniently(text[position:end])
            start = _after_blanks(chars, end)
            if chars[start] != ":" or not isinstance(key, str):
                return TopLevel(values, good, complete=False)
            start = _after_blanks(chars, start + 1)
            end, is_json = _end_of_top_value(chars, start)
            value = text[start:end]
            if not is_json:
                value = encode_json(value.decode("utf-8", "replace"))
                broken += 1
            position = good = _after_blanks(chars, end)
            values[encodable(key)] = value
    except (*_UNREADABLE, IndexError):
        return TopLevel(values, good, complete=False)
    return TopLevel(values, position + 1, complete=broken <= _MOST_BROKEN_VALUES)


_AFTER_VALUE = re.compile(r"\s*+(?:[,}\"]|\Z)")
#: What follows a value of the outermost object on the next line: a key, or the closing brace.
_NEXT_LINE = re.compile(r',[ \t]*+\r?\n[ \t]*+(?="[^"\n]*+"\s*+:)|,?\r?\n[ \t]*+(?=\}\s*+\Z)')
_MOST_BROKEN_VALUES = 16


def _end_of_top_value(chars: str, start: int) -> tuple[int, bool]:
    """Return the end of a value of the outermost object, and whether the value is JSON.

    A value that is not JSON ends before a line that begins with a key or with the closing brace of
    the object. It is not an object or list of several lines: these may have such lines too.
    """
    try:
        end = _scan(chars, start)[1]
        if _AFTER_VALUE.match(chars, end):
            return end, True
    except json.JSONDecodeError as failure:
        if failure.pos > len(chars) - _ESCAPE or failure.msg.startswith("Unterminated"):
            raise  # the text ends within the value
    following = _NEXT_LINE.search(chars, start)
    last = {"{": "}", "[": "]"}.get(chars[start], "")
    if following is None or not chars.endswith(last, start, following.start()):
        raise ValueError("the value does not end")
    return following.start(), False


def starts_record(text: bytes) -> bool:
    """Return whether the text begins like a trace record."""
    return _RECORD.match(text.decode("latin-1")) is not None


def is_utf8(body: bytes) -> bool:
    """Return whether bytes are UTF-8. The strict decoder does not check values that it skips."""
    if body.isascii():
        return True
    try:
        body.decode()
    except UnicodeDecodeError:
        return False
    return True


def is_clean(body: bytes) -> bool:
    """Return whether other programs accept the JSON text as it is."""
    try:
        _decode_raw(body)
    except (msgspec.DecodeError, RecursionError):
        return False
    return is_utf8(body)


def repair_json(body: bytes) -> bytes:
    """Return valid JSON unchanged, and other JSON repaired."""
    if is_clean(body) and not has_windows_path(body):
        return body
    try:
        return encode_json(decode_or_none(body))
    except RecursionError:
        return b"null"


def decode_or_none(body: bytes) -> Any:
    """Decode JSON that may be slightly invalid; return None for other text."""
    return _decode_repaired(body)[0]


_REPAIRS: tuple[tuple[str, Callable[[bytes], bytes]], ...] = (
    ("records that are not valid JSON", bytes),
    (BACKSLASHES_KEPT, with_backslashes_escaped),
    (
        "records with stray commas or unquoted values; the values are kept as text",
        with_words_quoted,
    ),
    (
        "records with invalid escapes and unquoted values; both are kept as text",
        lambda body: with_words_quoted(with_backslashes_escaped(body)),
    ),
)


def _decode_repaired(body: bytes) -> tuple[Any, str]:
    """Decode JSON with the first repair that suffices; return the value and that repair."""
    for reason, repair in _REPAIRS[has_windows_path(body) :]:
        try:
            return decode_leniently(repair(body)), reason
        except _UNREADABLE:
            continue
    return None, ""
