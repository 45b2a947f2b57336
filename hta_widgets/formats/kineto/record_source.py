"""Verbatim records of a trace file, read again on demand."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from hta_widgets.errors import TraceError
from hta_widgets.formats.kineto.records import as_bytes, as_text, decode_bodies
from hta_widgets.formats.kineto.tolerant import repair_json
from hta_widgets.readers.streams import Checkpoints, Stream, open_stream
from hta_widgets.store.rank_file import StoredSource
from hta_widgets.trace.arrays import Ints
from hta_widgets.trace.columns import COMMUNICATION_KEYS, ArgTable, NumberedRecords


@dataclass(frozen=True, slots=True)
class FileState:
    """Size and modification time of a file, to detect changes."""

    size: int
    mtime_ns: int

    @classmethod
    def of(cls, path: str | Path) -> FileState:
        """Return the current state of a file."""
        stat = Path(path).stat()
        return cls(stat.st_size, stat.st_mtime_ns)

    def require_unchanged(self, path: str) -> None:
        """Raise `TraceError` if a file has another state now."""
        try:
            is_same = FileState.of(path) == self
        except OSError:
            is_same = False
        if not is_same:
            raise TraceError(
                "was changed or removed after it was loaded, so the details of its events cannot"
                " be read",
                path=path,
                remedy="Put the file back, or load it again.",
            )


@dataclass(slots=True)
class SliceIndex:
    """Positions of slices of records in the decompressed bytes."""

    starts: list[int] = field(default_factory=list)
    ends: list[int] = field(default_factory=list)
    first_records: list[int] = field(default_factory=list)
    #: by slice that the strict decoder rejects, the start and end of each entry
    spans: dict[int, Ints] = field(default_factory=dict)

    def add(self, start: int, end: int, first_record: int, spans: Ints | None = None) -> None:
        """Append a slice of bytes `start` to `end`."""
        if spans is not None:
            self.spans[len(self.starts)] = spans
        self.starts.append(start)
        self.ends.append(end)
        self.first_records.append(first_record)


class FileRecords(NumberedRecords):
    """The JSON text of records of one file, which is reopened when needed; can be pickled."""

    def __init__(
        self,
        path: str,
        index: SliceIndex,
        count: int,
        values: dict[str, bytes],
        state: FileState,
        comm_args: ArgTable | None = None,
        checkpoints: Checkpoints | None = None,
        keepalive: Any = None,
    ) -> None:
        self.path = path
        self.metadata_text = {key: _plain(repair_json(text)) for key, text in values.items()}
        self.keepalive = keepalive
        self.comm_args = comm_args
        self._index = index
        self._count = count
        self._state = state
        self._checkpoints = checkpoints

    #: whether a restored source can take over this one's checkpoints
    keeps_places = True

    def to_stored(self) -> StoredSource:
        """Return the facts and columns for `restore`."""
        index = self._index
        spans = [*index.spans.items()]
        facts = {
            "kind": "file",
            "path": self.path,
            "count": self._count,
            "state": [self._state.size, self._state.mtime_ns],
            "metadata_text": as_text(self.metadata_text),
        }
        columns: dict[str, Any] = {
            "starts": np.array(index.starts, np.int64),
            "ends": np.array(index.ends, np.int64),
            "first_records": np.array(index.first_records, np.int64),
            "odd_slices": np.array([number for number, _ in spans], np.int64),
            "odd_counts": np.array([len(span) for _, span in spans], np.int64),
            "odd_spans": np.concatenate(
                [np.empty(0, np.int64), *(np.asarray(span, np.int64).ravel() for _, span in spans)]
            ),
        }
        if self.comm_args is not None:
            facts["comm_texts"] = [text.decode("latin-1") for text in self.comm_args.texts]
            columns["comm_record"] = self.comm_args.record
            columns["comm_code"] = self.comm_args.code.ravel()
        return StoredSource(facts, columns)

    @classmethod
    def restore(cls, facts: dict[str, Any], column: Callable[[str], Any]) -> FileRecords:
        """Return a source from the result of `to_stored`; raise `ValueError` if it is forged."""
        starts, ends, firsts = column("starts"), column("ends"), column("first_records")
        odd, counts = column("odd_slices"), column("odd_counts")
        records = np.diff(firsts, append=facts["count"])
        same = len(starts) == len(ends) == len(firsts) and len(odd) == len(counts)
        in_order = same and np.all(np.diff(starts, prepend=0) >= 0) and np.all(starts <= ends)
        if not (in_order and firsts[:1].tolist() in ([], [0]) and np.all(records >= 0)):
            raise ValueError("the positions of records are not in order")
        if not np.array_equal(records[odd], counts):
            raise ValueError("the records of a slice are not as many as their positions")
        spans = np.split(column("odd_spans").reshape(-1, 2), np.cumsum(counts)[:-1])
        index = SliceIndex(
            starts.tolist(),
            ends.tolist(),
            firsts.tolist(),
            dict(zip(odd.tolist(), spans, strict=False)),
        )
        state = FileState(*facts["state"])
        comm_args = None
        if "comm_texts" in facts:
            texts = [text.encode("latin-1") for text in facts["comm_texts"]]
            code = column("comm_code").reshape(-1, len(COMMUNICATION_KEYS))
            comm_args = ArgTable(column("comm_record"), code, texts).validate(facts["count"])
        text = as_bytes(facts["metadata_text"])
        return cls(facts["path"], index, facts["count"], text, state, comm_args)

    def __len__(self) -> int:
        return self._count

    def _ascending(self, wanted: Ints) -> Iterator[tuple[int, bytes]]:
        self._check_file()
        firsts = np.array(self._index.first_records, np.int64)
        slices = np.searchsorted(firsts, wanted, side="right") - 1
        stream: Stream | None = None
        try:
            for number in np.unique(slices).tolist():
                start, end = self._index.starts[number], self._index.ends[number]
                if stream is None or not stream.offset <= start <= stream.offset + (1 << 22):
                    if stream is not None:
                        stream.close()
                    stream = self._open(start)
                _skip(stream, start)
                text = stream.read_exactly(end - start)
                first = self._index.first_records[number]
                for place, body in self._bodies(text, number, wanted[slices == number] - first):
                    yield first + place, body
        finally:
            if stream is not None:
                stream.close()

    def _bodies(self, text: bytes, number: int, places: Ints) -> Iterator[tuple[int, bytes]]:
        """Yield records of slice `number`, which holds `text`, with their places in the slice."""
        spans = self._index.spans.get(number)
        if spans is not None:
            for place in places.tolist():
                start, end = spans[place].tolist()
                if end > start:  # else it could not be read
                    yield place, repair_json(text[start:end])
            return
        try:
            bodies = decode_bodies(b"[" + text + b"]")
            for place in places.tolist():
                yield place, bytes(bodies[place])
        except (msgspec.DecodeError, IndexError):
            raise self._changed_file_error() from None

    def _open(self, offset: int) -> Stream:
        if self._checkpoints is None:
            self._checkpoints = Checkpoints()
        return open_stream(self.path, offset, self._checkpoints)

    def _check_file(self) -> None:
        try:
            state = FileState.of(self.path)
        except OSError:
            raise TraceError(
                "was removed, so the details of its events cannot be read",
                path=self.path,
                remedy="Put the file back, or load it from its new path.",
            ) from None
        if state != self._state:
            raise self._changed_file_error()

    def _changed_file_error(self) -> TraceError:
        return TraceError(
            "was changed after it was loaded, so the details of its events cannot be read",
            path=self.path,
            remedy="Load it again.",
        )

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_checkpoints": None, "keepalive": None}


def _plain(text: bytes) -> bytes:
    """Return JSON that Python can decode; other values, such as huge numbers, become strings."""
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return json.dumps(text.decode("utf-8", "replace")).encode()
    return text


def _skip(stream: Stream, offset: int) -> None:
    while stream.offset < offset and stream.read(min(offset - stream.offset, 1 << 20)):
        pass
