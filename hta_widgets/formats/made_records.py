"""Traces of files that hold no trace events: records are made from what the files hold.

A record is one of Chrome's trace events, so that its args, search and exported files work as those
of any other trace. For example, an enqueued collective becomes ::

    {"ph": "X", "cat": "flight_recorder", "name": "nccl:all_reduce", "pid": 0, "tid": 1,
     "ts": 1770000000000000.0, "dur": 0, "args": {"state": "completed", …}}
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import msgspec
import numpy as np

from hta_widgets.formats.kineto.columns import Columns
from hta_widgets.formats.kineto.records import decode_bodies, decode_records
from hta_widgets.readers.ranks import NoteCounts
from hta_widgets.store.rank_file import StoredSource
from hta_widgets.trace.arrays import Ints
from hta_widgets.trace.build import build_trace
from hta_widgets.trace.columns import NumberedRecords
from hta_widgets.trace.problems import Problems
from hta_widgets.trace.record_times import micros
from hta_widgets.trace.short_paths import shorten_record
from hta_widgets.trace.trace import Trace

_RECORDS_PER_LIST = 1 << 14


class MadeRecords(NumberedRecords):
    """Records in memory, as JSON."""

    metadata_text: dict[str, bytes] = {}  # noqa: RUF012 - without top-level keys

    def __init__(self, path: str, text: bytes, ends: Ints) -> None:
        self.path, self._text, self._ends = path, text, ends

    def to_stored(self) -> StoredSource:
        """Return the facts and columns for `restore`."""
        columns: dict[str, Any] = {"text": np.frombuffer(self._text, np.uint8), "ends": self._ends}
        return StoredSource({"kind": "made", "path": self.path}, columns)

    @classmethod
    def restore(cls, facts: dict[str, Any], column: Callable[[str], Any]) -> MadeRecords:
        """Return the records that `to_stored` described."""
        return cls(facts["path"], column("text").tobytes(), column("ends"))

    def __len__(self) -> int:
        return len(self._ends)

    def _ascending(self, wanted: Ints) -> Iterator[tuple[int, bytes]]:
        starts = np.concatenate(([0], self._ends[:-1]))
        bounds = zip(wanted.tolist(), starts[wanted].tolist(), self._ends[wanted].tolist())  # noqa: B905
        yield from ((index, self._text[start:end]) for index, start, end in bounds)


def time_value(time_ns: int) -> msgspec.Raw:
    """Return a time of a record, in µs and exact to the nanosecond."""
    return msgspec.Raw(micros(time_ns))


def trace_of_records(
    records: Sequence[dict[str, Any]], path: str, problems: Problems, **about: Any
) -> Trace:
    """Return the trace of a file whose records are made; `about` are further fields of it."""
    texts = [shorten_record(msgspec.json.encode(record)) for record in records]
    notes, counts = Problems(), NoteCounts()
    columns = Columns(counts, len(texts))
    for first in range(0, len(texts), _RECORDS_PER_LIST):
        some = texts[first : first + _RECORDS_PER_LIST]
        joined = b"[" + b",".join(some) + b"]"
        numbers = np.arange(first, first + len(some))
        columns.append(decode_records(joined), numbers, partial(decode_bodies, joined), int)
    columns.add_base(0)
    ends = np.cumsum([len(text) for text in texts], dtype=np.int64)
    trace = build_trace(
        columns.finish(),
        path=path,
        metadata={},
        source=MadeRecords(path, b"".join(texts), ends),
        problems=notes,
        consume=True,
        **about,
    )
    counts.add_to(problems, path)
    for problem in notes:  # without the rank, which may change
        problems.add(problem.kind, problem.count, problem.detail, file=path)
    return trace
