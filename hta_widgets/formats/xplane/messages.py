"""Decoder for the protobuf messages of an XPlane profile, without a protobuf package.

A message is a list of fields, and each field has a key (number × 8 + wire type) and a value. For
example, this event has metadata 5 and begins 1,000 ps after its line's start::

    08 05     field 1, a varint: 5
    10 e8 07  field 2, a varint: 1,000

The schema determines how messages nest, so the depth is bounded. A length beyond the enclosing
message means that the file is truncated. All messages before that point are kept, including
messages in a truncated plane or line. Messages with names are few and are read one by one. Events
are many, so `hta_widgets.formats.xplane.events` reads them in columns.
"""

from __future__ import annotations

import struct
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache, partial
from math import isfinite, nan
from types import MappingProxyType
from typing import Any, NamedTuple, TypeVar

_MASK = (1 << 64) - 1
_MAX_SHIFT = 63
#: Largest value of a number's last byte.
_LAST_BYTE = 127
#: Maximum number of decoded statistics that a plane caches.
_MAX_KEPT = 1 << 16
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5

_T = TypeVar("_T")
#: Bounds of a message: the position of its first byte, and the position after its last byte.
Span = tuple[int, int]
Stats = dict[str, Any]


class ProtobufError(Exception):
    """The bytes are not a message. `is_cut` is set if they end too early.

    If a field extends beyond its message, `cut_field` has its number and its remaining bytes.
    """

    def __init__(
        self, text: str, *, is_cut: bool = False, cut_field: tuple[int, Span] | None = None
    ) -> None:
        super().__init__(text)
        self.is_cut, self.cut_field = is_cut, cut_field


def read_fields(data: bytes, span: Span) -> Iterator[tuple[int, Any]]:
    """Yield each field's number and value: an int, a span of bytes, or bytes of fixed size."""
    at, end = span
    while at < end:
        # One-byte numbers are decoded inline, because calls would take most of the time.
        key = data[at]
        at += 1
        if key > _LAST_BYTE:
            key, at = _read_varint(data, at - 1, end)
        wire = key & 7
        if wire in (_VARINT, _BYTES):
            if at < end and data[at] <= _LAST_BYTE:
                size = data[at]
                at += 1
            else:
                size, at = _read_varint(data, at, end)
            if wire == _VARINT:
                yield key >> 3, size
                continue
        elif wire in (_FIXED64, _FIXED32):
            size = 8 if wire == _FIXED64 else 4
        else:
            raise ProtobufError(f"a field of unknown wire type {wire} at byte {at:,}")
        if size > end - at:
            raise ProtobufError(
                f"a field ends after its message at byte {at:,}",
                is_cut=True,
                cut_field=(key >> 3, (at, end)) if wire == _BYTES else None,
            )
        yield key >> 3, (at, at + size) if wire == _BYTES else data[at : at + size]
        at += size


def _read_varint(data: bytes, at: int, end: int) -> tuple[int, int]:
    """Return the number that begins at a position, and the position after it."""
    value = shift = 0
    while at < end:
        byte = data[at]
        at += 1
        value |= (byte & _LAST_BYTE) << shift
        if byte <= _LAST_BYTE:
            return value & _MASK, at
        shift += 7
        if shift > _MAX_SHIFT:
            raise ProtobufError(f"a number of more than 10 bytes at byte {at:,}")
    raise ProtobufError(f"a number is cut at byte {at:,}", is_cut=True)


class _Fields(defaultdict[int, list[Any]]):
    """The values of each field of a message, and the reason if it could not be read to its end."""

    fault: ProtobufError | None = None


def _fields_of(data: bytes, span: Span, *, cut_at: int = -1, nested_field: int = 0) -> _Fields:
    """Return the values of each field of a message.

    A message that ends at `cut_at`, where the file is truncated, may be incomplete. The remaining
    bytes of its last field are then also a value if the field has the number `nested_field`.
    """
    fields = _Fields(list)
    try:
        for number, value in read_fields(data, span):
            fields[number].append(value)
    except ProtobufError as fault:
        if span[1] != cut_at:
            raise
        fields.fault = fault
        if fault.cut_field is not None and fault.cut_field[0] == nested_field:
            fields[nested_field].append(fault.cut_field[1])
    return fields


def _require(kind: type[_T], value: Any) -> _T:
    if not isinstance(value, kind):
        raise ProtobufError("the type of a field differs from the schema")
    return value


_integer, _span = partial(_require, int), partial(_require, tuple)


def _signed_integer(value: Any) -> int:
    number = _integer(value)
    return number - (1 << 64) if number >> 63 else number


def _text(data: bytes, values: Sequence[Any]) -> str:
    """Return the string in the last value of a field; "" if the field is missing."""
    return str(data[slice(*_span(values[-1]))], "utf-8", "replace") if values else ""


def _finite(value: Any) -> float | None:
    number = struct.unpack("<d", value)[0] if isinstance(value, bytes) and len(value) == 8 else nan
    return number if isfinite(number) else None


#: Converter for each field that is a number.
_STAT_NUMBERS: dict[int, Callable[[Any], Any]] = {2: _finite, 3: _integer, 4: _signed_integer}


@dataclass(slots=True)
class Line:
    """A thread or stream. Its events' offsets count from `first_ns`."""

    number: int = 0
    name: str = ""
    first_ns: int = 0
    events: list[Span] = field(default_factory=list)


class EventName(NamedTuple):
    """A name shared by events, with their common statistics."""

    name: str
    stats: Mapping[str, Any] = MappingProxyType({})


@dataclass(slots=True)
class Plane:
    """A device, a host's threads, or facts about the profile."""

    name: str = ""
    lines: list[Line] = field(default_factory=list)
    names: dict[int, EventName] = field(default_factory=dict)
    #: ids of events that lack a name
    unnamed: set[int] = field(default_factory=set)
    stat_names: dict[int, str] = field(default_factory=dict)
    stats: Stats = field(default_factory=dict)
    _decode_stat: Callable[[bytes], tuple[str, Any]] = field(init=False)

    def __post_init__(self) -> None:
        self._decode_stat = lru_cache(_MAX_KEPT)(self._read_stat)

    def decode_stats(self, data: bytes, spans: Iterable[Span]) -> Stats:
        """Return statistics by name."""
        result: Stats = {}
        for start, stop in spans:
            name, content = self._decode_stat(data[start:stop])
            if content is not None:
                result[name] = content
        return result

    def _read_stat(self, data: bytes) -> tuple[str, Any]:
        name = ""
        content: Any = None
        for number, value in read_fields(data, (0, len(data))):
            if number == 1:
                name = self.stat_names.get(_integer(value), f"stat {value}")
            elif number == 5:
                content = _text(data, [value])
            elif number == 7:
                content = self.stat_names.get(_integer(value))
            elif number in _STAT_NUMBERS:
                content = _STAT_NUMBERS[number](value)
        return name, content


@dataclass(slots=True)
class Profile:
    """A profile: its planes and hosts, and the reason if it could not be read to its end."""

    planes: list[Plane] = field(default_factory=list)
    hosts: list[str] = field(default_factory=list)
    messages: list[str] = field(default_factory=list)
    fault: ProtobufError | None = None


def read_profile_messages(data: bytes) -> Profile:
    """Decode a profile, but not its events."""
    profile = Profile()
    try:
        fields = _fields_of(data, (0, len(data)), cut_at=len(data), nested_field=1)
        profile.fault = fields.fault
        profile.messages = [_text(data, [value]) for value in (*fields[2], *fields[3])]
        profile.hosts = [_text(data, [value]) for value in fields[4]]
        cut_at = -1 if profile.fault is None else len(data)
        for span in map(_span, fields[1]):
            profile.planes.append(_read_plane(data, span, cut_at))
    except ProtobufError as fault:
        profile.fault = fault
    return profile


def _read_plane(data: bytes, span: Span, cut_at: int) -> Plane:
    """Return a plane, or the part of it that the file contains."""
    fields = _fields_of(data, span, cut_at=cut_at, nested_field=3)
    lines = [_read_line(data, _span(line), cut_at) for line in fields[3]]
    plane = Plane(_text(data, fields[2]), lines)
    for entry in fields[5]:
        number, name, _ = _read_metadata(data, _span(entry))
        plane.stat_names[number] = name
    plane.stats = plane.decode_stats(data, map(_span, fields[6]))
    for entry in fields[4]:
        number, name, stats = _read_metadata(data, _span(entry))
        plane.names[number] = EventName(name, plane.decode_stats(data, stats))
    return plane


def _read_line(data: bytes, span: Span, cut_at: int) -> Line:
    fields = _fields_of(data, span, cut_at=cut_at)
    number, first_ns = (
        _signed_integer(values[-1]) if values else 0 for values in (fields[1], fields[3])
    )
    name = _text(data, fields[11]) or _text(data, fields[2])
    return Line(number, name, first_ns, list(map(_span, fields[4])))


def _read_metadata(data: bytes, entry: Span) -> tuple[int, str, list[Span]]:
    """Return id, displayed name and statistics of an entry in a metadata map."""
    key_and_value = _fields_of(data, entry)
    value = key_and_value[2][-1] if key_and_value[2] else (0, 0)
    fields = _fields_of(data, _span(value))
    number = fields[1] or key_and_value[1]
    name = _text(data, fields[4]) or _text(data, fields[2])
    return _integer(number[-1]) if number else 0, name, list(map(_span, fields[5]))
