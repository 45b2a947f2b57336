"""Reads records of a trace file again on demand, exactly as they are in the file."""

from __future__ import annotations

import json
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import numpy as np

from hta_widgets.errors import TraceError
from hta_widgets.formats.kineto.records import decode_bodies
from hta_widgets.formats.kineto.tolerant import repair_json
from hta_widgets.readers.streams import Checkpoints, Stream, open_stream
from hta_widgets.store.rank_file import StoredSource
from hta_widgets.trace.arrays import Ints
from hta_widgets.trace.call_args import CallArgs, LaunchArgs, Texts
from hta_widgets.trace.columns import COMMUNICATION_KEYS, ArgTable, RecordSource
from hta_widgets.trace.record_times import move_record


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
        """Raise `TraceError` if a file has changed."""
        try:
            is_same = FileState.of(path) == self
        except OSError:
            raise TraceError(
                "was removed, so the details of its events cannot be read",
                path=path,
                remedy="Put the file back, or load it from its new path.",
            ) from None
        if not is_same:
            raise changed_file_error(path)


def changed_file_error(path: str) -> TraceError:
    """Return the error for a file whose records have moved since it was loaded."""
    return TraceError(
        "was changed after it was loaded, so the details of its events cannot be read",
        path=path,
        remedy="Load it again.",
    )


class RecordSlice(NamedTuple):
    """Records that were decoded together, in bytes `start` to `end` of the decompressed text."""

    start: int
    end: int
    first_record: int
    #: start and end of each record in the slice's text, if the strict decoder rejects this text
    spans: Ints | None = None

    def decode_records(self, text: bytes, numbers: Ints) -> Iterator[tuple[int, bytes]]:
        """Yield ``(number, JSON object)`` for records in the slice's text.

        Unreadable records are skipped. If the text does not match the slice, an error is raised.
        """
        places = (numbers - self.first_record).tolist()
        if self.spans is None:
            bodies = decode_bodies(b"[" + text + b"]")
            yield from ((self.first_record + place, bytes(bodies[place])) for place in places)
            return
        for place in places:
            start, end = self.spans[place].tolist()
            if end > start:
                yield self.first_record + place, repair_json(text[start:end])


#: A stream skips at most this much to reach the next slice. Beyond that, the file is opened again.
_MAX_SKIPPED_BYTES = 1 << 22


class RecordMove(NamedTuple):
    """A shift of the times of all records from `first_record` up to the next shift."""

    first_record: int
    ns: int


class FileRecords(RecordSource):
    """The JSON text of a file's records. The file is reopened when needed. Can be pickled."""

    def __init__(
        self,
        path: str,
        slices: Sequence[RecordSlice],
        count: int,
        values: dict[str, bytes],
        state: FileState,
        comm_args: ArgTable | None = None,
        call_args: CallArgs | None = None,
        launch_args: LaunchArgs | None = None,
        checkpoints: Checkpoints | None = None,
        keepalive: Any = None,
        moves: Sequence[RecordMove] = (),
    ) -> None:
        self.path = path
        self.metadata_text = {key: _plain(repair_json(text)) for key, text in values.items()}
        self.keepalive = keepalive
        self.comm_args = comm_args
        self.call_args = call_args
        self.launch_args = launch_args
        self._slices = slices
        self._count = count
        self._state = state
        self._checkpoints = checkpoints
        self._moves = list(moves)

    #: whether a restored source can take over this source's checkpoints
    keeps_places = True

    def to_stored(self) -> StoredSource:
        """Return the facts and columns for `restore`."""
        slices = enumerate(self._slices)
        odd_spans = {
            number: np.asarray(part.spans, np.int64)
            for number, part in slices
            if part.spans is not None
        }
        facts = {
            "kind": "file",
            "path": self.path,
            "count": self._count,
            "state": [self._state.size, self._state.mtime_ns],
            "metadata_text": as_text(self.metadata_text),
            "moves": self._moves,
        }
        columns: dict[str, Any] = {
            "starts": np.array([part.start for part in self._slices], np.int64),
            "ends": np.array([part.end for part in self._slices], np.int64),
            "first_records": np.array([part.first_record for part in self._slices], np.int64),
            "odd_slices": np.array(list(odd_spans), np.int64),
            "odd_counts": np.array(list(map(len, odd_spans.values())), np.int64),
            "odd_spans": np.concatenate([np.empty((0, 2), np.int64), *odd_spans.values()]).ravel(),
        }
        if self.comm_args is not None:
            facts["comm_texts"] = [text.decode("latin-1") for text in self.comm_args.texts]
            columns["comm_record"] = self.comm_args.record
            columns["comm_code"] = self.comm_args.code.ravel()
        if self.call_args is not None:
            facts["call_texts"] = _decode_rows(self.call_args.texts)
            columns |= self.call_args.to_columns()
        if self.launch_args is not None:
            facts["launch_texts"] = _decode_rows(self.launch_args.texts)
            columns["launch_record"] = self.launch_args.record
            columns["launch_code"] = self.launch_args.code
        return StoredSource(facts, columns)

    @classmethod
    def restore(cls, facts: dict[str, Any], column: Callable[[str], Any]) -> FileRecords:
        """Return a source from the result of `to_stored`; raise `ValueError` if it is forged."""
        slices = _restore_slices(facts["count"], column)
        state = FileState(*facts["state"])
        comm_args = None
        if "comm_texts" in facts:
            texts = [text.encode("latin-1") for text in facts["comm_texts"]]
            code = column("comm_code").reshape(-1, len(COMMUNICATION_KEYS))
            comm_args = ArgTable(column("comm_record"), code, texts).validate(facts["count"])
        call_args = None
        if "call_texts" in facts:
            call_args = CallArgs.of_columns(column, facts["call_texts"], facts["count"])
        launch_args = None
        if "launch_texts" in facts:
            rows = [tuple(text.encode("latin-1") for text in row) for row in facts["launch_texts"]]
            launches = LaunchArgs(column("launch_record"), column("launch_code"), rows)
            launch_args = launches.validate(facts["count"])
        values = as_bytes(facts["metadata_text"])
        moves = [RecordMove(int(first), int(ns)) for first, ns in facts.get("moves", ())]
        return cls(
            facts["path"], slices, facts["count"], values, state, comm_args, call_args, launch_args,
            moves=moves,
        )  # fmt: skip

    def __len__(self) -> int:
        return self._count

    def _ascending(self, wanted: Ints) -> Iterator[tuple[int, bytes]]:
        self._state.require_unchanged(self.path)
        firsts = np.array([part.first_record for part in self._slices], np.int64)
        slice_of_record = np.searchsorted(firsts, wanted, side="right") - 1
        stream: Stream | None = None
        try:
            for number in np.unique(slice_of_record).tolist():
                part = self._slices[number]
                if stream is None or not 0 <= part.start - stream.offset <= _MAX_SKIPPED_BYTES:
                    if stream is not None:
                        stream.close()
                    stream = self._open(part.start)
                while stream.offset < part.start:
                    if not stream.read(min(part.start - stream.offset, 1 << 20)):
                        break
                text = stream.read_exactly(part.end - part.start)
                records = wanted[slice_of_record == number]
                try:
                    for record, body in part.decode_records(text, records):
                        yield record, self._move(record, body)
                except (msgspec.DecodeError, IndexError):
                    raise changed_file_error(self.path) from None
        finally:
            if stream is not None:
                stream.close()

    def _move(self, record: int, text: bytes) -> bytes:
        if not self._moves:
            return text
        last = bisect_right(self._moves, record, key=lambda move: move.first_record) - 1
        return move_record(text, self._moves[last].ns) if self._moves[last].ns else text

    def _open(self, offset: int) -> Stream:
        if self._checkpoints is None:
            self._checkpoints = Checkpoints()
        return open_stream(self.path, offset, self._checkpoints)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_checkpoints": None, "keepalive": None}


def _restore_slices(count: int, column: Callable[[str], Any]) -> list[RecordSlice]:
    """Return the slices of a file of `count` records; raise `ValueError` if they are forged."""
    starts, ends, firsts = column("starts"), column("ends"), column("first_records")
    odd_slices, counts = column("odd_slices"), column("odd_counts")
    records = np.diff(firsts, append=count)
    is_consistent = len(starts) == len(ends) == len(firsts) and len(odd_slices) == len(counts)
    in_order = is_consistent and np.all(np.diff(starts, prepend=0) >= 0) and np.all(starts <= ends)
    if not (in_order and firsts[:1].tolist() in ([], [0]) and np.all(records >= 0)):
        raise ValueError("the positions of records are not in order")
    if not np.array_equal(records[odd_slices], counts):
        raise ValueError(
            "the number of records in a slice differs from the number of their positions"
        )
    spans = column("odd_spans").reshape(-1, 2)
    span_starts, span_ends = spans.T
    slice_sizes = np.repeat((ends - starts)[odd_slices], counts)
    is_within = (span_starts >= 0) & (span_starts <= span_ends) & (span_ends <= slice_sizes)
    if not np.all(is_within):
        raise ValueError("the positions of records are not within their slices")
    parts = np.split(spans, np.cumsum(counts)[:-1])
    spans_of_slice = dict(zip(odd_slices.tolist(), parts, strict=False))
    triples = zip(starts.tolist(), ends.tolist(), firsts.tolist(), strict=True)
    return [
        RecordSlice(*triple, spans_of_slice.get(number)) for number, triple in enumerate(triples)
    ]


def _decode_rows(rows: Sequence[Texts]) -> list[list[str]]:
    return [[text.decode("latin-1") for text in row] for row in rows]


def as_text(texts: Mapping[str, bytes]) -> dict[str, str]:
    """Decode bytes as Latin-1, one character per byte, so that JSON can hold them."""
    return {key: bytes(text).decode("latin-1") for key, text in texts.items()}


def as_bytes(texts: Mapping[str, str]) -> dict[str, bytes]:
    """Return the bytes that `as_text` converted."""
    return {key: text.encode("latin-1") for key, text in texts.items()}


def _plain(text: bytes) -> bytes:
    """Return JSON that Python can decode; other values, such as huge numbers, become strings."""
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return json.dumps(text.decode("utf-8", "replace")).encode()
    return text
