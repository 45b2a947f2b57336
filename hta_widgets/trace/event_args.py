"""Read args of many events from the file."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from hta_widgets.trace.arrays import Ints, Rows
from hta_widgets.trace.memo import memo

if TYPE_CHECKING:
    from hta_widgets.trace.trace import Trace

#: Args of communication by PyTorch and NCCL; stores have them as columns.
COMMUNICATION_KEYS: tuple[str, ...] = (
    "Collective name",
    "dtype",
    "In msg nelems",
    "Out msg nelems",
    "Group size",
    "Process Group Name",
    "Process Group Description",
    "Process Group Ranks",
    "Src Rank",
    "Dst Rank",
    "Seq",
)


def event_args(trace: Trace, rows: Rows, keys: Sequence[str]) -> dict[str, list[Any]]:
    """Return values of some args of some events, by key as in the file, kept with the trace.

    A value is None if the event has no such arg or the trace has no file.
    """
    return memo(trace, (tuple(keys), rows.tobytes()), lambda: _read(trace, rows, keys))


def numbers_of(values: Sequence[Any], missing: int = -1) -> Ints:
    """Return args as int64; `missing` for values that are not whole numbers."""

    def number(value: Any) -> int:
        try:
            whole = int(value)
        except (TypeError, ValueError, OverflowError):
            return missing
        return whole if -(1 << 63) <= whole < 1 << 63 else missing

    if set(map(type, values)) <= {int, type(None)}:
        try:
            return np.array([missing if value is None else value for value in values], np.int64)
        except OverflowError:
            pass
    return np.array([number(value) for value in values], dtype=np.int64)


def _read(trace: Trace, rows: Rows, keys: Sequence[str]) -> dict[str, list[Any]]:
    found: dict[str, list[Any]] = {key: [None] * len(rows) for key in keys}
    if trace.source is None or not len(rows):
        return found
    table = trace.table
    records = table.record[rows]
    # Binary files have their args as columns, so no text is parsed.
    columns = getattr(trace.source, "arg_columns", None)
    known = columns(records, keys) if columns is not None else None
    if known is not None:
        return {key: list(known[key]) for key in keys}
    order = np.argsort(records, kind="stable")
    decode = _decoder(keys)
    ends = {table.end_record[row]: row for row in rows.tolist() if row in table.end_record}
    places = _Places(records[order], order)
    for record, body in trace.source.records(records):
        values = _args(body, keys, decode)
        for place in places.of(record):
            for key, value in zip(keys, values, strict=True):
                found[key][place] = value
    if ends:
        # An event that was begun and ended by two records has the args of both.
        place_of = {row: place for place, row in enumerate(rows.tolist())}
        for record, body in trace.source.records(np.array(sorted(ends), dtype=np.int64)):
            for key, value in zip(keys, _args(body, keys, decode), strict=True):
                if value is not None:
                    found[key][place_of[ends[record]]] = value
    return found


def record_args(keys: Sequence[str]) -> Callable[[bytes], list[Any]]:
    """Return a function from a record's JSON to the values of some of its args."""
    decoder = _decoder(keys)
    return lambda body: _args(body, keys, decoder)


class _Places:
    """Maps records, in file order, to their positions in the request."""

    def __init__(self, sorted_records: Ints, order: Rows) -> None:
        self._records: list[int] = sorted_records.tolist()
        self._order: list[int] = order.tolist()
        self._next = 0

    def of(self, record: int) -> list[int]:
        at = self._next
        while at < len(self._records) and self._records[at] < record:
            at += 1
        first = at
        while at < len(self._records) and self._records[at] == record:
            at += 1
        self._next = at
        return self._order[first:at]


def _decoder(keys: Sequence[str]) -> msgspec.json.Decoder[Any]:
    fields = [(f"a{number}", Any, None) for number in range(len(keys))]
    names = {f"a{number}": key for number, key in enumerate(keys)}
    args = msgspec.defstruct("Args", fields, rename=names, gc=False)
    record = msgspec.defstruct("Record", [("args", args | None, None)], gc=False)
    return msgspec.json.Decoder(record)


def _args(body: bytes, keys: Sequence[str], decoder: msgspec.json.Decoder[Any]) -> list[Any]:
    try:
        args = decoder.decode(body).args
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        # The strict decoder refuses control characters, and args that are not an object.
        try:
            event = json.loads(body.decode("utf-8", "replace"), strict=False)
        except (ValueError, RecursionError):
            return [None] * len(keys)
        loose = event.get("args") if isinstance(event, dict) else None
        return [loose.get(key) if isinstance(loose, dict) else None for key in keys]
    if args is None:
        return [None] * len(keys)
    return [getattr(args, f"a{number}") for number in range(len(keys))]
