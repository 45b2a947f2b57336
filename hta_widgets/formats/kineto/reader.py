"""Reads Chrome trace JSON of Kineto and other tools, slice by slice, into columns.

A slice is a part of the list ``traceEvents``. Its records are decoded in one call, and their fields
go to columns. Args are read later, from the positions of the records in the file. A slice that is
not valid JSON is read by `tolerant`, record by record. This module also recognizes BytePS's JSON,
which differs only in its records.
"""

from __future__ import annotations

import gc
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal, NamedTuple

import msgspec
import numpy as np
from msgspec import Raw

from hta_widgets.errors import TraceError
from hta_widgets.formats.byteps.reader import build_server, build_worker, is_server, is_worker
from hta_widgets.formats.kineto.columns import Columns
from hta_widgets.formats.kineto.merged import RankContents, split_merged
from hta_widgets.formats.kineto.other_tools import is_horovod, mark_rows, track_names
from hta_widgets.formats.kineto.record_source import FileRecords, FileState, RecordMove, RecordSlice
from hta_widgets.formats.kineto.records import (
    NO_INTEGER,
    Record,
    decode_bodies,
    decode_records,
    end_of_value,
    timed_decoder,
)
from hta_widgets.formats.kineto.split_ranks import Document, split_documents, split_ranks
from hta_widgets.formats.kineto.times import (
    LARGEST_DOUBLE,
    Times,
    nanoseconds,
    nanoseconds_of_doubles,
    nanoseconds_of_integers,
)
from hta_widgets.formats.kineto.tolerant import ReadResult, is_utf8, read_records, starts_record
from hta_widgets.formats.kineto.top_level import (
    decode_values,
    find_events,
    find_further_events,
    read_tail,
)
from hta_widgets.readers.formats import FileStart, Outcome
from hta_widgets.readers.ranks import stated_rank
from hta_widgets.readers.streams import (
    Checkpoints,
    StreamBuffer,
    decompressed_size,
    open_stream,
    separators_before,
)
from hta_widgets.trace.columns import RankColumns
from hta_widgets.trace.problems import NoteCounts, Problems
from hta_widgets.trace.record_times import BASE_KEY, parse_base_time
from hta_widgets.trace.trace import Trace

#: Text around damage is decoded in pieces of this size before records are tried individually.
_PIECE_BYTES = 1 << 16
_LONGEST_RECORD = 1 << 26
_PEEKED_BYTES = 1 << 10
_LIST_BLANKS = b" \t\r\n"
#: A list is not a trace if its first entries, this many, contain no trace record.
_ENOUGH_ENTRIES = 1000
#: Reading stops if, among this many successive entries, fewer than one in a thousand is a trace
#: record.
_CHECKED_ENTRIES = 1 << 18
#: If times cannot be decoded as numbers in more slices than this, all times are read as text.
_ENOUGH_FAILURES = 3

#: Result of decoding a piece of text: the list continues after the piece, the list ends in it, the
#: text ends within a record, or the text is not valid JSON.
SliceOutcome = Literal["open", "closed", "unbalanced", "broken"]


class RecordList:
    """Reads lists of records into columns."""

    def __init__(self, window: StreamBuffer, notes: NoteCounts) -> None:
        self.window = window
        self.notes = notes
        self.columns = Columns(notes)
        self.slices: list[RecordSlice] = []
        self.entries = 0
        self.enclosed = False
        self._timed_decoder: Callable[[bytes], list[Any]] | Literal["unknown"] | None = "unknown"
        self._timed_failures = 0
        self._checked = (0, 0)
        self._size_bytes = decompressed_size(window.stream.path)

    def read(self, *, enclosed: bool) -> bool:
        """Read until the list ends; return whether its end was found."""
        self.enclosed = enclosed
        wanted = 0
        while True:
            self.window.fill(wanted)
            wanted = 0
            outcome = self._take_slice()
            closed = outcome == "closed"
            if outcome in {"unbalanced", "broken"}:
                before = self.window.offset
                closed = self._take_tolerantly()
                if self.window.offset == before:
                    wanted = 2 * self.window.unread_size + self.window.block_bytes
            self._refuse_other_lists()
            if closed and self._drop_stray_bracket():
                continue
            if closed or (self.window.ended and self.window.at >= len(self.window.text)):
                return closed

    def _drop_stray_bracket(self) -> bool:
        """Return whether the bracket just read does not end the list; skip a comma after it."""
        self.window.fill(_PEEKED_BYTES)
        start = self.window.at
        rest = self.window.text[start : start + _PEEKED_BYTES].lstrip(_LIST_BLANKS)
        following = rest.removeprefix(b",").lstrip(_LIST_BLANKS)
        if self.enclosed:
            ends = following[:1] in (b"", b"}") or (rest != following and following[:1] == b'"')
        else:
            ends = not starts_record(following) and following[:1] != b'"'
        if ends or not following:
            return False
        self.notes.add("repaired", "brackets between records", self.window.offset - 1)
        text = self.window.unread()
        self.window.at += len(text) - len(text.lstrip(_LIST_BLANKS).removeprefix(b","))
        return True

    def _refuse_other_lists(self) -> None:
        if not self.enclosed and self.entries >= _ENOUGH_ENTRIES and not self.columns.has_records:
            raise TraceError(
                f"none of its first {self.entries:,} entries is a trace event",
                path=self.window.stream.path,
                remedy="Check that the file is a trace.",
            )
        entries, rows = self._checked
        if self.entries < entries + _CHECKED_ENTRIES:
            return
        self._checked = self.entries, self.columns.rows
        if self._checked[1] - rows < (self.entries - entries) / 1000:
            raise TraceError(
                f"in {self.entries - entries:,} successive entries of its list, fewer than one in a"
                " thousand is a trace event",
                path=self.window.stream.path,
                place=f"byte {self.window.offset:,}",
                remedy="Check that the file is a trace.",
            )

    def _take_slice(self) -> SliceOutcome:
        if self.window.ended:
            return self._take_strictly(len(self.window.text), open_ended=True)
        # Text that is unbalanced up to a comma ends in an incomplete record, so the previous comma
        # is tried.
        for cut in separators_before(self.window.text, self.window.at, len(self.window.text)):
            outcome = self._take_strictly(cut)
            if outcome != "unbalanced":
                return outcome
        return "unbalanced"

    def _take_strictly(self, cut: int, *, open_ended: bool = False) -> SliceOutcome:
        """Read the records up to the comma at `cut`, either all or none."""
        body = memoryview(self.window.text)[self.window.at : cut]
        text = b"".join((b"[", body, b"" if open_ended else b"]"))
        if not is_utf8(text):
            return "broken"
        closed = open_ended
        if not open_ended and self._take_timed(text):
            self.window.at += len(body) + 1
            return "open"
        try:
            records = decode_records(text)
        except msgspec.DecodeError as error:
            end = end_of_value(error)
            if end is None:
                return "unbalanced" if "truncated" in str(error) else "broken"
            text = text[:end]
            closed = True
            records = decode_records(text)
        except RecursionError:
            return "broken"
        if self._timed_decoder == "unknown" and records:
            self._timed_decoder = _timed_decoder_for(records)
        self._append(records, text)
        self.window.at += len(text) - 1 if closed else len(body) + 1
        return "closed" if closed else "open"

    def _take_timed(self, text: bytes) -> bool:
        """Read a slice's records with times decoded as numbers, if these are exact."""
        if self._timed_decoder is None or self._timed_decoder == "unknown":
            return False
        try:
            records = self._timed_decoder(text)
            times = _times_if_exact(records)
        except (msgspec.DecodeError, RecursionError):
            times = None
        if times is None:
            self._timed_failures += 1
            if self._timed_failures > _ENOUGH_FAILURES:
                self._timed_decoder = None
            return False
        self._append(records, text, times)
        return True

    def _append(
        self, records: list[Record], text: bytes, times: tuple[Times, Times] | None = None
    ) -> None:
        count = len(records)
        start = self.window.offset
        if not self.columns.has_records:
            expected = count if self.window.ended else 1.05 * count * self._size_bytes / len(text)
            self.columns = Columns(self.notes, int(expected))
        self.slices.append(RecordSlice(start, start + len(text.rstrip()) - 2, self.entries))
        self.columns.append(
            records,
            np.arange(self.entries, self.entries + count),
            lambda: decode_bodies(text),
            lambda row: start - 1 + _position(text, row),
            times,
        )
        self.entries += count

    def _take_tolerantly(self) -> bool:
        """Read the window piece by piece; return whether the list ended in it."""
        extent = 2 * _PIECE_BYTES
        while (size := self.window.unread_size) > 0:
            target = self.window.at + min(_PIECE_BYTES, size)
            cut = next(separators_before(self.window.text, self.window.at, target), -1)
            if cut > self.window.at and size > _PIECE_BYTES:
                outcome = self._take_strictly(cut)
                if outcome == "closed":
                    return True
                if outcome == "open":
                    continue
            text = self.window.text[self.window.at : self.window.at + extent]
            last = (self.window.ended and extent >= size) or size > _LONGEST_RECORD
            reading = read_records(
                text, 0, target - self.window.at, self.notes, self.window.offset, last=last
            )
            self._append_reading(reading, text)
            self.window.at += reading.end
            if reading.outcome == "closed":
                return True
            if reading.outcome == "starved" and not reading.end:
                if extent >= size:
                    return False
                extent *= 2
                continue
            extent = 2 * _PIECE_BYTES
        return False

    def _append_reading(self, reading: ReadResult, text: bytes) -> None:
        if not reading.entries:
            return
        start = self.window.offset
        spans = np.zeros((reading.entries, 2), np.int64)
        if reading.places:
            spans[reading.places] = reading.spans
        self.slices.append(RecordSlice(start, start + reading.end, self.entries, spans))
        self.columns.append(
            reading.records,
            np.array(reading.places, np.int64) + self.entries,
            lambda: [text[begin:end] for begin, end in reading.spans],
            lambda row: start + reading.spans[row][0],
        )
        self.entries += reading.entries


def _timed_decoder_for(records: list[Record]) -> Callable[[bytes], list[Any]] | None:
    """Return a decoder for starts of the type in `records`; None if a start is not a number."""
    texts = [bytes(record.ts) for record in records if record.ts]
    if texts and all(text.isdigit() and len(text) <= 18 for text in texts):
        return timed_decoder(int)
    try:
        largest = max((abs(float(text)) for text in texts), default=0.0)
    except ValueError:
        return None
    return timed_decoder(float if largest < LARGEST_DOUBLE / 2 else Raw)


def _times_if_exact(records: list[Any]) -> tuple[Times, Times] | None:
    """Return starts and durations of timed records; None if these may be inexact."""
    if not records:
        return None
    durations = nanoseconds_of_doubles(np.array([record.dur for record in records], np.float64))
    starts = [record.ts for record in records]
    start_times: Times | None
    if isinstance(starts[0], int):
        start_times = nanoseconds_of_integers(starts, missing=NO_INTEGER)
    elif isinstance(starts[0], float):
        start_times = nanoseconds_of_doubles(np.array(starts, np.float64))
    else:
        start_times = nanoseconds(starts)
    return None if durations is None or start_times is None else (start_times, durations)


def _position(text: bytes, row: int) -> int:
    """Return the position of a record in the text of a list."""
    start = end = 0
    for body in map(bytes, decode_bodies(text)[: row + 1]):
        start = text.index(body, end)
        end = start + len(body)
    return start


class FileContents(NamedTuple):
    """Contents of a trace file."""

    columns: RankColumns
    metadata: dict[str, Any]
    source: FileRecords
    problems: Problems
    #: for each document, its first record and metadata
    documents: list[Document]


def read_file(
    path: str | Path, *, advance: Callable[[int], object] | None = None, keepalive: Any = None
) -> FileContents:
    """Read the columns of a trace file."""
    path = str(path)
    notes = NoteCounts()
    checkpoints = Checkpoints()
    with _collector_paused(), open_stream(path, 0, checkpoints) as stream:
        state = FileState.of(path)
        documents = _Documents(StreamBuffer(stream, advance), notes)
        values, moves = documents.read()
        records = documents.records
        if stream.fault is not None:
            notes.add("truncated" if stream.fault.cut else "repaired", stream.fault.message, None)
        if not records.columns.rows:
            _refuse_if_no_trace(path, records.entries, enclosed=documents.enclosed, notes=notes)
        columns = records.columns.finish()
        source = FileRecords(
            path, records.slices, records.entries, values, state,
            records.columns.communication.finish(), records.columns.calls.finish(),
            records.columns.kernels.finish(), checkpoints, keepalive, moves,
        )  # fmt: skip
    problems = Problems()
    notes.add_to(problems, path)
    metadata = decode_values(source.metadata_text)
    return FileContents(columns, metadata, source, problems, documents.documents)


@contextmanager
def _collector_paused() -> Iterator[None]:
    """Pause garbage collection: it would double the time, and decoded objects form no cycles."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def _refuse_if_no_trace(path: str, entries: int, *, enclosed: bool, notes: NoteCounts) -> None:
    if enclosed and not entries and not notes.count("truncated"):
        notes.add("empty", "its list of events is empty", None)
        return
    if entries and notes.count("overflow") == entries:
        raise TraceError(
            f"the times of all its {entries:,} records do not fit in 64 bits",
            path=path,
            remedy="Times are in microseconds: divide times in nanoseconds by 1000.",
        )
    raise TraceError(
        f"none of its {entries:,} entries is a trace event" if entries else "holds no trace events",
        path=path,
        remedy="Check that the file is a complete trace.",
    )


#: Maximum number of traces in a file. Text after them is skipped, because each further trace
#: requires a search.
_MAX_DOCUMENTS = 1000
_MAX_LISTS = 100
#: Keys of the outermost object that hold samples or the text of other tracers.
_UNREAD_KEYS = ("samples", "systemTraceEvents", "powerTraceAsString")
_EMPTY_VALUES = (b"", b"null", b'""', b"[]", b"{}")


class _Documents:
    """The JSON documents of a file: one, or several that were concatenated by mistake."""

    def __init__(self, window: StreamBuffer, notes: NoteCounts) -> None:
        self.window = window
        self.notes = notes
        self.records = RecordList(window, notes)
        self.enclosed = False  # whether the last list of records is the value of a key
        self.documents: list[Document] = []

    def read(self) -> tuple[dict[str, bytes], list[RecordMove]]:
        """Read all documents into one list of records.

        Return the documents' top-level values, and the shifts for records whose base time differs
        from the one in these values.
        """
        values = self._read_document()
        documents = 1
        while self.window.skip(b" \t\r\n\0,"):
            start, first_record = self.window.offset, self.records.entries
            try:
                further = self._read_document() if documents < _MAX_DOCUMENTS else None
            except TraceError:
                further = None
                if self.records.entries > first_record:
                    self._add_base({}, first_record, start, is_cut=True)
            if further is None:
                self.notes.add("skipped", "text after the end of the trace", start)
                break
            documents += 1
            self.notes.add("repaired", "traces one after another in one file", start)
            values = {**further, **values}
        stated_ns = (part.base_ns for part in self.documents if BASE_KEY in part.values)
        first_ns = next(stated_ns, 0)
        moves = [RecordMove(part.first_record, part.base_ns - first_ns) for part in self.documents]
        return values, moves if any(move.ns for move in moves) else []

    def _read_document(self) -> dict[str, bytes]:
        window, notes = self.window, self.notes
        first_record, start = self.records.entries, window.offset
        head, text = find_events(window.unread(), window.read_block, window.stream.path, notes)
        window.replace_unread(text, head.start)
        self.enclosed = head.enclosed
        values = head.values
        next_part, lists = "list", 0
        while next_part == "list":
            closed = self.records.read(enclosed=head.enclosed)
            next_part = "end" if closed else "cut"
            lists += 1
            if closed and head.enclosed:
                tail, next_part = self._read_tail(has_read_all=lists == _MAX_LISTS)
                values = {**values, **tail}
        # Horovod leaves the list open, which the format allows.
        if (
            not closed
            and not is_horovod(self.records.columns.names)
            and not notes.count("truncated")
        ):
            notes.add("truncated", "the list of events does not end", None)
        self._add_base(values, first_record, start, is_cut=next_part == "cut")
        for key in _UNREAD_KEYS:
            if values.get(key, b"") not in _EMPTY_VALUES:
                notes.add("skipped", f"data under {key!r}, which are not read", None)
        return values

    def _read_tail(
        self, *, has_read_all: bool
    ) -> tuple[dict[str, bytes], Literal["list", "end", "cut"]]:
        """Read the keys after a list of events in an object.

        Also return whether another list, the object's end or the end of truncated text follows.
        With `has_read_all`, no further list is read.
        """
        window, notes = self.window, self.notes
        tail, text, end = read_tail(window.unread(), window.read_block, notes, window.offset)
        if tail.pop("traceEvents", None) is not None:
            further = None if has_read_all else find_further_events(text)
            if further is not None:
                notes.add("repaired", "several traceEvents lists in one object", window.offset)
                window.replace_unread(text, further)
                return tail, "list"
            notes.add("skipped", "a second traceEvents list, which is not read", window.offset)
        if end is None:
            notes.add("truncated", "the file is cut off after the list of events", None)
        window.replace_unread(text, len(text) if end is None else end)
        return tail, "cut" if end is None else "end"

    def _add_base(
        self, values: dict[str, bytes], first_record: int, start: int, *, is_cut: bool
    ) -> None:
        """Add a document's base time to its records; `start` is the document's first byte."""
        base_ns = self._base_ns(values)
        earlier_ns = self.documents[-1].base_ns if self.documents else 0
        if is_cut and BASE_KEY not in values and earlier_ns:
            base_ns = earlier_ns
            note = f"a truncated trace without {BASE_KEY}; the previous trace's base time is used"
            self.notes.add("repaired", note, start)
        self.documents.append(Document(first_record, values, base_ns))
        self.records.columns.add_base(base_ns)

    def _base_ns(self, values: dict[str, bytes]) -> int:
        text = values.get(BASE_KEY, b"null")
        if text == b"null":
            return 0
        try:
            return parse_base_time(text.decode())
        except OverflowError:
            self.notes.add("overflow", f"{BASE_KEY} is too large and was left out", None)
        except ValueError:
            self.notes.add("repaired", f"{BASE_KEY} is not a number and was left out", None)
        return 0


_RANK_PEEK_BYTES = 1 << 18


def peek_rank(path: str) -> int | None:
    """Return the rank stated in the first bytes of a file; None if they state none."""
    try:
        with open_stream(path) as stream:
            text = stream.read(_RANK_PEEK_BYTES)
        head, _ = find_events(text, lambda _: b"", path, NoteCounts())
    except TraceError:
        return None
    return stated_rank(decode_values(head.values))


_WORKER = re.compile(rb'"pid"\s*:\s*"Comm\.')
_SERVER = re.compile(rb'"name"\s*:\s*"(push|pull)-\d+"\s*,\s*"ph"\s*:\s*"[BE]"')

#: Builds a trace from a rank's records, the file's path, and the problems, to which it adds.
_Build = Callable[[RankContents, str, Problems], Trace]


def is_worker_json(start: FileStart) -> bool:
    """Return whether a file is the trace of a BytePS worker."""
    return start.is_json and _WORKER.search(start.text) is not None


def is_server_json(start: FileStart) -> bool:
    """Return whether a file is the profile of a BytePS server."""
    return start.is_json and _SERVER.search(start.text) is not None


def read_kineto(
    path: str, *, advance: Callable[[int], object] | None = None, keepalive: Any = None
) -> Outcome:
    """Read a Kineto file, or any other trace-event JSON."""
    return _build_traces(read_file(path, advance=advance, keepalive=keepalive), path, build_plain)


def read_byteps(
    path: str, *, advance: Callable[[int], object] | None = None, keepalive: Any = None
) -> Outcome:
    """Read the file of a BytePS worker or server; its records show which."""
    contents = read_file(path, advance=advance, keepalive=keepalive)
    return _build_traces(contents, path, _builder(contents.columns))


def _build_traces(contents: FileContents, path: str, build: _Build) -> Outcome:
    """Build the traces of a file: a single one, or one for each rank merged into it."""
    problems = Problems(contents.problems)
    parts = split_merged(contents.columns, contents.metadata, contents.source, path, problems)
    if parts is not None:
        traces = []
        for part in parts:
            build_part = _BUILDERS.get(part.format) or _builder(part.columns)
            columns = mark_rows(part.columns) if build_part is build_plain else part.columns
            traces.append(build_part(part._replace(columns=columns), path, problems))
        return Outcome(tuple(traces), problems)
    if build is build_plain:
        contents = contents._replace(columns=mark_rows(contents.columns))
        split = split_documents(contents.columns, contents.documents, contents.source)
        split = split or split_ranks(contents.columns, contents.metadata, contents.source, problems)
        if split:
            traces = [build(part, path, problems).replace(local_rank=part.device) for part in split]
            return Outcome(tuple(traces), problems)
    stated, notes = stated_rank(contents.metadata, problems, path), Problems()
    rank_contents = RankContents(stated, contents.columns, contents.metadata, contents.source)
    trace = build(rank_contents, path, notes)
    for problem in notes:  # omits the rank, which may change later
        problems.add(problem.kind, problem.count, problem.detail, file=path)
    return Outcome((trace,), problems)


def _builder(columns: RankColumns) -> _Build:
    if is_worker(columns):
        return build_worker
    return build_server if is_server(columns) else build_plain


def build_plain(contents: RankContents, path: str, problems: Problems) -> Trace:
    """Build a trace from records of Kineto, or from other Chrome records."""
    host = contents.metadata.get("host_name")
    return contents.build(
        path,
        problems,
        consume=True,
        names=track_names(contents.columns),
        format="kineto",
        host=host if isinstance(host, str) and host else None,
    )


#: Build function for each format that a merged file may state for a rank.
_BUILDERS: dict[str, _Build] = {
    "kineto": build_plain,
    "byteps": build_worker,
    "byteps-server": build_server,
}
