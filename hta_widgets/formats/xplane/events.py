"""Decodes the events of a line together, as columns.

All events advance by one field at a time. Each round uses NumPy to read the next key, and its
value, of every event that has another field. Events that agree in all but their times and
correlation ids are one kind of event. The name and statistics of a kind are decoded once::

    data[starts]  08 05 10 e8 07 …      round 1: key 08, values 5, 5, 9
                  08 05 10 d0 0f …      round 2: key 10, values 1000, 2000, 3000
                  08 09 10 b8 17 …
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from hta_widgets.formats.event_rows import distinct_rows
from hta_widgets.formats.xplane.messages import EventName, Line, Plane, ProtobufError, Span, Stats
from hta_widgets.trace.arrays import Array, Bools, Ints, Rows, mask_of_rows
from hta_widgets.trace.columns import as_integer

Bytes = npt.NDArray[np.uint8]
Unsigned = npt.NDArray[np.uint64]

CORRELATION = "correlation_id"
_MAX_FIELDS = 1 << 12
_MAX_SHIFT = 63
_VARINT, _BYTES = 0, 2
#: Size of a value for each wire type; 0 if the data states it, -1 for unknown types.
_FIXED_SIZES = np.array([0, 8, 0, -1, -1, 4, -1, -1])
_NUMBER, _OFFSET, _DURATION, _STATS, _COUNT = 1, 2, 3, 4, 5
#: Keys of two fields of a statistic: its number, and an integer value.
_STATISTIC_KEY, _INTEGER_KEYS = 0x08, (0x18, 0x20)


@dataclass(slots=True)
class LineEvents:
    """The events of a line, with times in ns; `kind` is an index in `names` and `stats`."""

    start_ns: Ints
    end_ns: Ints
    correlation: Ints  # -1 for none
    kind: Ints
    names: list[str]
    stats: list[Stats]

    @property
    def times_ns(self) -> dict[str, Any]:
        """The time columns, by name."""
        return {"start_ns": self.start_ns, "end_ns": self.end_ns}

    def take(self, rows: Rows) -> LineEvents:
        """Return some of the events."""
        columns = ("start_ns", "end_ns", "correlation", "kind")
        return replace(self, **{name: getattr(self, name)[rows] for name in columns})


def read_events(data: bytes, plane: Plane, line: Line) -> tuple[LineEvents, int]:
    """Return a line's events, and how many were skipped because they are sums without times.

    Raises
    ------
    ProtobufError
        If an event is truncated or damaged, or if a time is beyond 50 days.
    """
    octets = np.frombuffer(data, np.uint8)
    spans = np.array(line.events, np.int64).reshape(-1, 2)
    fields = _read_columns(octets, spans[:, 0], spans[:, 1])
    number, offset, duration = (
        fields.last_integers(field, len(spans)).view(np.int64)
        for field in (_NUMBER, _OFFSET, _DURATION)
    )
    is_sum = mask_of_rows(fields.row[fields.number == _COUNT], len(spans))
    rows = np.flatnonzero(~is_sum)
    end = offset + duration
    times = np.stack([offset, duration, end])[:, rows]
    if not np.isin(times >> 62, (0, -1)).all() or abs(line.first_ns) >> 62:
        raise ProtobufError(f"times on the line {line.name[:100]!r} are beyond 50 days")
    stats = fields.select(fields.number == _STATS)
    stats.require_wire(_BYTES)
    correlation, has_correlation, others = _split_correlation(octets, plane, stats, len(spans))
    stat_spans = others.spans()
    first_stat = np.searchsorted(others.row, np.arange(len(spans) + 1)).tolist()
    spans_of_event = [stat_spans[first:end] for first, end in pairwise(first_stat)]
    kinds = _kinds(data, spans_of_event, [number, has_correlation.astype(np.int64)])
    kind = pd.factorize(kinds[rows])[0]
    first_of_kind = np.unique(kind, return_index=True)[1]
    names, stats_of_kinds = [], []
    for row in rows[first_of_kind].tolist():
        metadata_id = int(number[row]) & ((1 << 64) - 1)
        shared = plane.names.get(metadata_id, EventName(""))
        if not shared.name:
            plane.unnamed.add(metadata_id)
        event_stats = {**shared.stats, **plane.decode_stats(data, spans_of_event[row])}
        if has_correlation[row]:
            event_stats[CORRELATION] = None
        names.append(shared.name or f"event {metadata_id}")
        stats_of_kinds.append(event_stats)
    stated = [as_integer(kind_stats.get(CORRELATION), 1 << 63) for kind_stats in stats_of_kinds]
    events = LineEvents(
        line.first_ns + round_ps(offset[rows]),
        line.first_ns + round_ps(end[rows]),
        np.where(has_correlation[rows], correlation[rows], np.array(stated, np.int64)[kind]),
        kind,
        names,
        stats_of_kinds,
    )
    return events, int(is_sum.sum())


def round_ps(time_ps: Ints) -> Ints:
    """Return times in ns, rounded half to even, so that adjacent events stay adjacent."""
    time_ns, rest_ps = np.divmod(time_ps, 1000)
    is_rounded_up = (rest_ps > 500) | ((rest_ps == 500) & (time_ns & 1 == 1))
    return np.asarray(time_ns + is_rounded_up)


@dataclass(slots=True)
class _FieldColumns:
    """Fields of messages, ordered by `row`, the index of the field's message."""

    row: Rows
    number: Ints
    wire: Ints
    value: Unsigned  # a number, or the position of its first byte
    size: Ints

    def select(self, mask: Bools) -> _FieldColumns:
        return _FieldColumns(*(getattr(self, name)[mask] for name in self.__slots__))

    def spans(self) -> list[Span]:
        """Return the bounds of each field's bytes."""
        first_byte = self.value.astype(np.int64)
        return list(zip(first_byte.tolist(), (first_byte + self.size).tolist(), strict=True))

    def require_wire(self, wire: int) -> None:
        if (self.wire != wire).any():
            raise ProtobufError("the type of a field differs from the schema")

    def last_integers(self, number: int, count: int) -> Unsigned:
        """Return each message's last value of a field; 0 if the message has none."""
        fields = self.select(self.number == number)
        fields.require_wire(_VARINT)
        values = np.zeros(count, np.uint64)
        values[fields.row] = fields.value
        return values


def _read_columns(octets: Bytes, start: Ints, end: Ints) -> _FieldColumns:
    """Return the fields of messages, given the bounds of each message."""
    nothing = np.empty(0, np.int64)
    # Each round appends the columns of `_FieldColumns`.
    rounds: list[tuple[Array, ...]] = [
        (nothing, nothing, nothing, nothing.view(np.uint64), nothing)
    ]
    at = start.copy()
    active = np.flatnonzero(at < end)
    while len(active):
        if len(rounds) > _MAX_FIELDS:
            raise ProtobufError(f"an event has more than {_MAX_FIELDS:,} fields")
        stop = end[active]
        key, after = _read_varints(octets, at[active], stop)
        wire = (key & np.uint64(7)).astype(np.int64)
        size = _FIXED_SIZES[wire]
        if (size < 0).any():
            unknown, at_byte = wire[size < 0][0], after[size < 0][0]
            raise ProtobufError(f"a field of unknown wire type {unknown} at byte {at_byte:,}")
        value = np.zeros(len(active), np.uint64)
        has_varint = np.flatnonzero(size == 0)
        value[has_varint], after[has_varint] = _read_varints(
            octets, after[has_varint], stop[has_varint]
        )
        is_bytes = wire == _BYTES
        size[is_bytes] = np.minimum(value[is_bytes], np.uint64(len(octets) + 1)).astype(np.int64)
        is_cut = size > stop - after
        if is_cut.any():
            message = f"a field ends after its message at byte {after[is_cut][0]:,}"
            raise ProtobufError(message, is_cut=True)
        value[wire != _VARINT] = after[wire != _VARINT].astype(np.uint64)
        rounds.append((active, (key >> np.uint64(3)).astype(np.int64), wire, value, size))
        at[active] = after + size
        active = active[at[active] < stop]
    columns = [np.concatenate(column) for column in zip(*rounds, strict=True)]
    order = np.argsort(columns[0], kind="stable")
    return _FieldColumns(*(column[order] for column in columns))


def _read_varints(octets: Bytes, at: Ints, end: Ints) -> tuple[Unsigned, Ints]:
    """Return the number at each position, and the position after that number."""
    value = np.zeros(len(at), np.uint64)
    after = at.copy()
    unfinished = np.arange(len(at))
    shift = 0
    while len(unfinished):
        if (after[unfinished] >= end[unfinished]).any():
            raise ProtobufError(f"a number is cut at byte {at[unfinished[0]]:,}", is_cut=True)
        octet = octets[after[unfinished]]
        value[unfinished] |= (octet & 127).astype(np.uint64) << np.uint64(shift)
        after[unfinished] += 1
        unfinished = unfinished[octet > 127]
        shift += 7
        if shift > _MAX_SHIFT and len(unfinished):
            raise ProtobufError(f"a number of more than 10 bytes at byte {at[unfinished[0]]:,}")
    return value, after


def _split_correlation(
    octets: Bytes, plane: Plane, stats: _FieldColumns, count: int
) -> tuple[Ints, Bools, _FieldColumns]:
    """Separate numeric correlation ids from the other statistics.

    Return the ids, a mask of the `count` events that have one, and all other statistics. Ids differ
    between events, so they would make each event a separate kind.
    """
    start = stats.value.astype(np.int64)
    end = start + stats.size
    correlation, has_correlation = np.full(count, -1, np.int64), np.zeros(count, bool)
    # Field 1 is the statistic, and field 3 or 4 is its value. Each field has at least two bytes.
    rows = np.flatnonzero(stats.size > 3)
    rows = rows[octets[start[rows]] == _STATISTIC_KEY]
    number, key = _read_varints(octets, start[rows] + 1, end[rows])
    ids = [number for number, name in plane.stat_names.items() if name == CORRELATION]
    is_correlation = np.isin(number, ids) & (end[rows] - key > 1)
    rows, key = rows[is_correlation], key[is_correlation]
    is_number = np.isin(octets[key], _INTEGER_KEYS) & (octets[end[rows] - 1] <= 127)
    rows, first_byte = rows[is_number], key[is_number] + 1
    value, after = _read_varints(octets, first_byte, end[rows])
    is_last_field = after == end[rows]
    rows, value = rows[is_last_field], value[is_last_field]
    events = stats.row[rows]
    correlation[events] = np.where(value < 1 << 63, value.view(np.int64), -1)
    has_correlation[events] = True
    return correlation, has_correlation, stats.select(~mask_of_rows(rows, len(start)))


def _kinds(data: bytes, spans_of_event: list[list[Span]], columns: list[Ints]) -> Ints:
    """Return the kind of each event, given the values of `columns` and the events' statistics."""
    code_of_stats: dict[tuple[bytes, ...], int] = {}
    codes = []
    for spans in spans_of_event:
        event_stats = tuple(data[start:end] for start, end in spans)
        codes.append(code_of_stats.setdefault(event_stats, len(code_of_stats)))
    return distinct_rows(*columns, np.array(codes, np.int64))[1]
