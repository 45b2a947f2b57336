"""The args of events as an Arrow stream."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa

from hta_widgets.text import valid_text
from hta_widgets.trace.columns import decode_args
from hta_widgets.trace.memo import iter_ranks
from hta_widgets.trace.trace import Trace

#: Number of events whose args are in memory at the same time.
_EVENTS_PER_BATCH = 1 << 14


class _ArgsRecord(msgspec.Struct):
    args: dict[str, msgspec.Raw] | None = None


_decoder = msgspec.json.Decoder(_ArgsRecord)


@dataclass(frozen=True)
class ArgsStream:
    """The args of all events of the given ranks as an Arrow stream: ``rank, id, key, value``.

    Strings are stored unchanged, other values as JSON, as in the file.
    """

    traces: Sequence[Trace]

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        integer: Any = pa.int64()
        text: Any = pa.string()
        schema = pa.schema({"rank": integer, "id": integer, "key": text, "value": text})
        batches = (
            pa.RecordBatch.from_arrays(
                _args_columns(trace, range(low, min(low + _EVENTS_PER_BATCH, len(trace)))),
                schema=schema,
            )
            for trace in iter_ranks(self.traces)
            for low in range(0, len(trace), _EVENTS_PER_BATCH)
        )
        reader: Any = pa.RecordBatchReader.from_batches(schema, batches)
        return reader.__arrow_c_stream__(requested_schema)


def _args_columns(trace: Trace, rows: range) -> list[Any]:
    """Return rank, id, key and value of each arg of the given events."""
    table = trace.table
    args: dict[int, dict[str, str]] = {row: {} for row in rows}
    begins = zip(table.record[rows.start : rows.stop].tolist(), rows, strict=True)
    ends = ((table.end_record[row], row) for row in rows if row in table.end_record)
    _add_args(trace, begins, args)
    _add_args(trace, ends, args)  # events with two records have the args of both
    counts = np.fromiter(map(len, args.values()), np.int64, len(args))
    return [
        pa.array(np.full(counts.sum(), trace.rank, np.int64)),
        pa.array(np.repeat(np.arange(rows.start, rows.stop), counts)),
        pa.array([key for pairs in args.values() for key in pairs], pa.string()),
        pa.array([value for pairs in args.values() for value in pairs.values()], pa.string()),
    ]


def _add_args(
    trace: Trace, rows_by_record: Iterable[tuple[int, int]], args: dict[int, dict[str, str]]
) -> None:
    """Add the args of records to `args`, which has the args of each row."""
    rows_of: dict[int, list[int]] = defaultdict(list)
    for record, row in rows_by_record:
        rows_of[record].append(row)
    if trace.source is None or not rows_of:
        return
    for record, body in trace.source.records(np.array(sorted(rows_of), np.int64)):
        texts = _arg_texts(body)
        for row in rows_of[record]:
            args[row] |= texts


def _arg_texts(body: bytes) -> dict[str, str]:
    """Return the args of a record as in `ArgsStream`; empty for an unreadable record."""
    try:
        values: Any = _decoder.decode(body).args or {}
        return {key: _text_of(bytes(value)) for key, value in values.items()}
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        pass
    # The strict decoder rejects control characters, and args that are not an object.
    try:
        args = decode_args(body)
    except (ValueError, RecursionError):
        return {}
    return {
        key: valid_text(value if isinstance(value, str) else json.dumps(value))
        for key, value in args.items()
    }


def _text_of(value: bytes) -> str:
    """Return the string that a JSON text encodes; other JSON is returned unchanged."""
    return valid_text(msgspec.json.decode(value)) if value[:1] == b'"' else value.decode()
