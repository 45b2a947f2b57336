"""Events as Arrow: a stream with a record batch for each rank.

Objects that offer ``__arrow_c_stream__`` are read by polars, pyarrow, DuckDB and others without a
frame between them. Strings are dictionaries: codes of the events, and the distinct strings of the
rank. Of whole ranks, durations, streams, correlations, steps and the codes of names share the
memory of the trace; the other columns are made for the batch.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any

import numpy as np

from hta_widgets.files import new_folder, write_atomically
from hta_widgets.trace.arrays import Rows
from hta_widgets.trace.memo import iter_ranks
from hta_widgets.trace.trace import EVENT_COLUMNS, STRING_COLUMNS, Trace, event_column

_PLAIN_TYPES = {"depth": "int16", "stream": "int32"}


def _pyarrow() -> Any:
    """Import pyarrow, which takes a tenth of a second and has no complete types."""
    return import_module("pyarrow")


def event_schema() -> Any:
    """Return the schema of all batches; fields of times state their unit."""
    pa = _pyarrow()
    strings = pa.dictionary(pa.int32(), pa.string())
    fields = [pa.field("rank", pa.int64()), pa.field("id", pa.int64())]
    for name in EVENT_COLUMNS:
        plain = pa.type_for_alias(_PLAIN_TYPES.get(name, "int64"))
        metadata = {"unit": "ns"} if name.endswith("_ns") else None
        fields.append(
            pa.field(name, strings if name in STRING_COLUMNS else plain, metadata=metadata)
        )
    return pa.schema(fields)


def event_stream(
    traces: Sequence[Trace], rows_of: Callable[[Trace], Rows | None] = lambda _: None
) -> Any:
    """Return a reader with a batch for each rank, made when it is read."""
    pa = _pyarrow()
    schema = event_schema()
    batches = (_event_batch(trace, rows_of(trace), schema) for trace in iter_ranks(traces))
    return pa.RecordBatchReader.from_batches(schema, batches)


def write_parquet(traces: Sequence[Trace], folder: str | os.PathLike[str]) -> str:
    """Write a file of events for each rank; see `TraceSet.to_parquet`."""
    pa = _pyarrow()
    target = new_folder(folder)
    schema = event_schema()
    for trace in iter_ranks(traces):
        batch = _event_batch(trace, None, schema)
        with write_atomically(target / f"rank-{trace.rank}.parquet") as file:
            import_module("pyarrow.parquet").write_table(
                pa.Table.from_batches([batch]), file, compression="zstd"
            )
    return str(target)


def _event_batch(trace: Trace, rows: Rows | None, schema: Any) -> Any:
    pa = _pyarrow()
    chosen = slice(None) if rows is None else rows
    ids = np.arange(len(trace), dtype=np.int64)[chosen]
    arrays: list[Any] = [pa.array(np.full(len(ids), trace.rank, np.int64)), pa.array(ids)]
    for name in EVENT_COLUMNS:
        values, texts = event_column(trace, name, chosen)
        if texts is None:
            arrays.append(pa.array(values, type=schema.field(name).type))
        else:
            codes = pa.array(values.astype(np.int32, copy=False))
            # Files may hold invalid Unicode, which Arrow refuses.
            valid = [text.encode("utf-8", "replace").decode("utf-8") for text in texts]
            arrays.append(pa.DictionaryArray.from_arrays(codes, pa.array(valid, pa.string())))
    return pa.RecordBatch.from_arrays(arrays, schema=schema)
