"""Kineto and any other Chrome trace-event JSON, plain or gzip."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Any, Literal, NamedTuple

import msgspec
import numpy as np

from hta_widgets.errors import TraceError
from hta_widgets.model.problems import Problems
from hta_widgets.model.table import RankColumns

from .columns import Columns
from .envelope import decode_values, find_events, read_tail
from .notes import Notes
from .record_source import FileRecords, FileState, SliceIndex
from .records import Record, decode_bodies, decode_records, end_of_value
from .slices import separators_before
from .stages import stage
from .streams import Checkpoints, Stream, decompressed_size, open_stream
from .tolerant import Reading, is_utf8, read_records, starts_record

__all__ = ["FileContents", "read_file"]

#: Small enough that a slice's objects stay in the processor's cache: half again as fast as 16 MB.
_SLICE_BYTES = 1 << 19
#: Around damage, stretches of this size are tried before single records.
_PIECE_BYTES = 1 << 16
_LONGEST_RECORD = 1 << 26
_PEEKED_BYTES = 1 << 10
_BLANKS = b" \t\r\n"
#: A bare list of so many entries without one trace record is something else.
_ENOUGH_ENTRIES = 1000


#: What came of a stretch of text: its records and maybe the list's end, or why not.
Taken = Literal["open", "closed", "unbalanced", "broken"]


class FileContents(NamedTuple):
    """All that a file says."""

    columns: RankColumns
    metadata: dict[str, Any]
    source: FileRecords
    problems: Problems


def read_file(
    path: str | Path, *, advance: Callable[[int], object] | None = None, keepalive: Any = None
) -> FileContents:
    """Read the columns of one trace file.

    Parameters
    ----------
    path : path-like
    advance : callable, optional
        Told now and then how many more bytes of the file were read.
    keepalive : object, optional
        Kept as long as the trace, for example the temporary directory that holds the file.

    Raises
    ------
    TraceError
        Where the file holds no trace events that can be read.
    """
    path = str(path)
    notes = Notes()
    checkpoints = Checkpoints()
    with _collector_paused(), open_stream(path, 0, checkpoints) as stream:
        state = FileState.of(path)
        reader = _Reader(stream, notes, advance)
        values = reader.read()
        columns, index, entries = reader.columns, reader.index, reader.entries
        if stream.fault is not None:
            notes.add("truncated" if stream.fault.cut else "repaired", stream.fault.message, None)
        if not columns.rows:
            _refuse_if_no_trace(path, entries, enclosed=reader.enclosed, notes=notes)
        with stage("columns"):
            finished = columns.finish()
    problems = Problems()
    notes.into(problems, path)
    source = FileRecords(path, index, entries, values, state, checkpoints, keepalive)
    return FileContents(finished, decode_values(values), source, problems)


@contextmanager
def _collector_paused() -> Iterator[None]:
    """Nothing that is decoded can form cycles; looking for them doubles the time."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def _refuse_if_no_trace(path: str, entries: int, *, enclosed: bool, notes: Notes) -> None:
    if enclosed and not entries and not notes.count("truncated"):
        notes.add("empty", "its list of events is empty", None)
        return
    raise TraceError(
        f"none of its {entries:,} entries is a trace event" if entries else "holds no trace events",
        path=path,
        remedy="Was the file cut off, or is it not a trace?",
    )


class _Reader:
    """One pass over a file."""

    def __init__(
        self, stream: Stream, notes: Notes, advance: Callable[[int], object] | None
    ) -> None:
        self.stream = stream
        self.notes = notes
        self.columns = Columns(notes)
        self._size_bytes = decompressed_size(stream.path)
        self.index = SliceIndex()
        self.entries = 0
        self.enclosed = False
        self._advance = advance
        self._advanced = 0
        self._window = b""
        self._at = 0  # position in the window from where to read on
        self._window_offset = 0  # of the window in the stream
        self._ended = False

    def read(self) -> dict[str, bytes]:
        """Read all documents of the file, which is mostly one; return the top-level values."""
        values = self._read_document()
        while self._skip_blanks(b" \t\r\n\0,"):
            start = self._offset
            try:
                further = self._read_document()
            except TraceError:
                self.notes.add("skipped", "text after the end of the trace", start)
                break
            self.notes.add("repaired", "traces one after another in one file", start)
            values = {**further, **values}
        return values

    # --- one document -----------------------------------------------------------------------------

    def _read_document(self) -> dict[str, bytes]:
        head, text = find_events(self._rest(), self._more, self.stream.path, self.notes)
        self._set_rest(text, head.start)
        self.enclosed = head.enclosed
        closed = self._read_list()
        values = head.values
        if not closed:
            if not self.notes.count("truncated"):
                self.notes.add("truncated", "the list of events does not end", None)
        elif head.enclosed:
            tail, text, end = read_tail(self._rest(), self._more)
            values = {**values, **tail}
            if end is None:
                self.notes.add("truncated", "what follows the list of events is cut off", None)
            self._set_rest(text, len(text) if end is None else end)
        self.columns.add_base(_base_ns(values))
        return values

    def _read_list(self) -> bool:
        """Read slices until the list ends; return whether it was closed."""
        wanted = _SLICE_BYTES
        while True:
            self._fill(wanted)
            wanted = _SLICE_BYTES
            taken = self._take_slice()
            closed = taken == "closed"
            if taken in {"unbalanced", "broken"}:
                before = self._offset
                closed = self._take_tolerantly()
                if self._offset == before:
                    wanted = 2 * len(self._window) + _SLICE_BYTES
                self._refuse_other_lists()
            if closed and self._drop_stray_bracket():
                continue
            if closed or (self._ended and self._at >= len(self._window)):
                return closed

    def _drop_stray_bracket(self) -> bool:
        """Whether the list only seems to end, because a bracket got between its records."""
        self._fill(_PEEKED_BYTES)
        rest = self._window[self._at : self._at + _PEEKED_BYTES].lstrip(_BLANKS)
        following = rest.removeprefix(b",").lstrip(_BLANKS)
        if self.enclosed:
            ends = (
                not rest or rest.startswith(b"}") or (rest != following and following[:1] == b'"')
            )
        else:
            ends = not starts_record(following) and following[:1] != b'"'
        if ends or not following:
            return False
        self.notes.add("repaired", "brackets between records", self._offset - 1)
        text = self._window[self._at :]
        self._at += len(text) - len(text.lstrip(_BLANKS).removeprefix(b","))
        return True

    def _refuse_other_lists(self) -> None:
        if not self.enclosed and self.entries >= _ENOUGH_ENTRIES and not self.columns.rows:
            raise TraceError(
                f"none of its first {self.entries:,} entries is a trace event",
                path=self.stream.path,
                remedy="Is the file a trace?",
            )

    # --- slices -----------------------------------------------------------------------------------

    def _take_slice(self) -> Taken:
        """Take all whole records of the window."""
        if self._ended:
            return self._take_strictly(len(self._window), open_ended=True)
        taken: Taken = "unbalanced"
        for cut in separators_before(self._window, self._at, len(self._window)):
            taken = self._take_strictly(cut)
            if taken != "unbalanced":
                break
        return taken

    def _take_strictly(self, cut: int, *, open_ended: bool = False) -> Taken:
        """Take the records up to the comma at `cut`, or none.

        Parameters
        ----------
        cut : int
        open_ended : bool
            Whether the end of the list, not a comma, is expected before `cut`.
        """
        body = self._window[self._at : cut]
        text = b"".join((b"[", body, b"" if open_ended else b"]"))
        if not is_utf8(text):
            return "broken"
        closed = open_ended
        try:
            with stage("decode"):
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
        self._append(records, text)
        self._at += len(text) - 1 if closed else len(body) + 1
        return "closed" if closed else "open"

    def _append(self, records: list[Record], text: bytes) -> None:
        """Take over the records of a list's text."""
        count = len(records)
        start = self._offset
        if not self.columns.rows:
            self.columns = Columns(self.notes, self._expected(count, len(text)))
        self.index.add(start, start + len(text.rstrip()) - 2, self.entries)
        with stage("columns"):
            self.columns.append(
                records,
                np.arange(self.entries, self.entries + count),
                lambda: decode_bodies(text),
                lambda row: start - 1 + _position(text, row),
            )
        self.entries += count

    def _expected(self, count: int, size: int) -> int:
        """How many records there will be, from how many the first slice held."""
        return count if self._ended else int(1.05 * count * self._size_bytes / size)

    def _take_tolerantly(self) -> bool:
        """Take the window piece by piece; return whether the list ended in it."""
        extent = 2 * _PIECE_BYTES
        while (size := len(self._window) - self._at) > 0:
            near = self._at + min(_PIECE_BYTES, size)
            cut = next(separators_before(self._window, self._at, near), -1)
            if cut > self._at and size > _PIECE_BYTES:
                taken = self._take_strictly(cut)
                if taken == "closed":
                    return True
                if taken == "open":
                    continue
            text = self._window[self._at : self._at + extent]
            last = (self._ended and extent >= size) or size > _LONGEST_RECORD
            with stage("repair"):
                reading = read_records(
                    text, 0, near - self._at, self.notes, self._offset, last=last
                )
            self._append_reading(reading, text)
            self._at += reading.end
            if reading.outcome == "closed":
                return True
            if reading.outcome == "starved" and not reading.end:
                if extent >= size:
                    return False
                extent *= 2
                continue
            extent = 2 * _PIECE_BYTES
        return False

    def _append_reading(self, reading: Reading, text: bytes) -> None:
        if not reading.entries:
            return
        start = self._offset
        spans = np.zeros((reading.entries, 2), np.int64)
        if reading.places:
            spans[reading.places] = reading.spans
        self.index.add(start, start + reading.end, self.entries, spans)
        self.columns.append(
            reading.records,
            np.array(reading.places, np.int64) + self.entries,
            lambda: [text[begin:end] for begin, end in reading.spans],
            lambda row: start + reading.spans[row][0],
        )
        self.entries += reading.entries

    # --- window -----------------------------------------------------------------------------------

    @property
    def _offset(self) -> int:
        """Offset in the (decompressed) bytes from where to read on."""
        return self._window_offset + self._at

    def _rest(self) -> bytes:
        return self._window[self._at :]

    def _set_rest(self, text: bytes, at: int) -> None:
        """Replace the window by `text`, which begins where `_rest` began."""
        self._window_offset, self._window, self._at = self._offset, text, at

    def _more(self, size: int = _SLICE_BYTES) -> bytes:
        with stage("read"):
            blocks = []
            while size > 0 and (block := self.stream.read(size)):
                blocks.append(block)
                size -= len(block)
        self._ended = size > 0
        if self._advance is not None:
            self._advance(self.stream.read_bytes - self._advanced)
            self._advanced = self.stream.read_bytes
        return b"".join(blocks)

    def _fill(self, size: int) -> None:
        missing = size - (len(self._window) - self._at)
        if missing > 0 and not self._ended:
            self._set_rest(b"".join((self._rest(), self._more(missing))), 0)

    def _skip_blanks(self, blanks: bytes) -> bool:
        """Whether anything else follows; reads on from there."""
        while True:
            rest = self._rest()
            following = rest.lstrip(blanks)
            self._at += len(rest) - len(following)
            if following or self._ended:
                return bool(following)
            self._fill(_SLICE_BYTES)


def _position(text: bytes, row: int) -> int:
    position = 0
    for body in decode_bodies(text)[: row + 1]:
        found = bytes(body)
        position = text.index(found, position)
        start, position = position, position + len(found)
    return start


def _base_ns(values: dict[str, bytes]) -> int:
    text = values.get("baseTimeNanoseconds")
    try:
        return int(Decimal(text.decode().strip('"'))) if text else 0
    except (InvalidOperation, ValueError, OverflowError):
        return 0
