"""The records of a list, slice by slice: strictly as long as it goes, tolerantly around damage."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import msgspec
import numpy as np
from msgspec import Raw

from hta_widgets.errors import TraceError

from hta_widgets.formats.kineto.columns import Columns
from hta_widgets.formats.kineto.columns import SliceTimes
from hta_widgets.formats.kineto.exact_time import LARGEST_DOUBLE
from hta_widgets.formats.kineto.exact_time import joined_texts
from hta_widgets.formats.kineto.exact_time import nanoseconds_of_doubles
from hta_widgets.formats.kineto.exact_time import nanoseconds_of_integers
from hta_widgets.readers.notes import Notes
from hta_widgets.formats.kineto.record_source import SliceIndex
from hta_widgets.formats.kineto.records import NO_INTEGER
from hta_widgets.formats.kineto.records import Record
from hta_widgets.formats.kineto.records import decode_bodies
from hta_widgets.formats.kineto.records import decode_records
from hta_widgets.formats.kineto.records import decode_timed
from hta_widgets.formats.kineto.records import end_of_value
from hta_widgets.readers.slices import separators_before
from hta_widgets.readers.stages import stage
from hta_widgets.readers.streams import decompressed_size
from hta_widgets.formats.kineto.tolerant import Reading
from hta_widgets.formats.kineto.tolerant import is_utf8
from hta_widgets.formats.kineto.tolerant import read_records
from hta_widgets.formats.kineto.tolerant import starts_record
from hta_widgets.readers.window import Window

__all__ = ["RecordList"]

#: Around damage, stretches of this size are tried before single records.
_PIECE_BYTES = 1 << 16
_LONGEST_RECORD = 1 << 26
_PEEKED_BYTES = 1 << 10
_BLANKS = b" \t\r\n"
#: A bare list of so many entries without one trace record is something else.
_ENOUGH_ENTRIES = 1000
#: After so many slices with times unlike those of the first one, times are decoded as text.
_ENOUGH_FAILURES = 3

#: What came of a stretch of text: its records and maybe the list's end, or why not.
Taken = Literal["open", "closed", "unbalanced", "broken"]


class RecordList:
    """Reads lists of records into columns.

    Attributes
    ----------
    columns : Columns
    index : SliceIndex
        Where the records lie.
    entries : int
        How many there were, events or not.
    """

    def __init__(self, window: Window, notes: Notes) -> None:
        self.window = window
        self.notes = notes
        self.columns = Columns(notes)
        self.index = SliceIndex()
        self.entries = 0
        self.enclosed = False
        self._timed_decoder: Callable[[bytes], list[Any]] | Literal["unknown"] | None = "unknown"
        self._timed_failures = 0
        self._size_bytes = decompressed_size(window.stream.path)

    def read(self, *, enclosed: bool) -> bool:
        """Read until the list ends, which stands in an object or not; return whether it did."""
        self.enclosed = enclosed
        wanted = 0
        while True:
            self.window.fill(wanted)
            wanted = 0
            taken = self._take_slice()
            closed = taken == "closed"
            if taken in {"unbalanced", "broken"}:
                before = self.window.offset
                closed = self._take_tolerantly()
                if self.window.offset == before:
                    wanted = 2 * self.window.left + self.window.block_bytes
                self._refuse_other_lists()
            if closed and self._drop_stray_bracket():
                continue
            if closed or (self.window.ended and self.window.at >= len(self.window.text)):
                return closed

    def _drop_stray_bracket(self) -> bool:
        """Whether the list only seems to end, because a bracket got between its records."""
        self.window.fill(_PEEKED_BYTES)
        at = self.window.at
        rest = self.window.text[at : at + _PEEKED_BYTES].lstrip(_BLANKS)
        following = rest.removeprefix(b",").lstrip(_BLANKS)
        if self.enclosed:
            ends = (
                not rest or rest.startswith(b"}") or (rest != following and following[:1] == b'"')
            )
        else:
            ends = not starts_record(following) and following[:1] != b'"'
        if ends or not following:
            return False
        self.notes.add("repaired", "brackets between records", self.window.offset - 1)
        text = self.window.rest()
        self.window.at += len(text) - len(text.lstrip(_BLANKS).removeprefix(b","))
        return True

    def _refuse_other_lists(self) -> None:
        if not self.enclosed and self.entries >= _ENOUGH_ENTRIES and not self.columns.rows:
            raise TraceError(
                f"none of its first {self.entries:,} entries is a trace event",
                path=self.window.stream.path,
                remedy="Is the file a trace?",
            )

    def _take_slice(self) -> Taken:
        """Take all whole records of the window."""
        if self.window.ended:
            return self._take_strictly(len(self.window.text), open_ended=True)
        taken: Taken = "unbalanced"
        for cut in separators_before(self.window.text, self.window.at, len(self.window.text)):
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
        body = self.window.text[self.window.at : cut]
        text = b"".join((b"[", body, b"" if open_ended else b"]"))
        if not is_utf8(text):
            return "broken"
        closed = open_ended
        if not open_ended and self._take_timed(text):
            self.window.at += len(body) + 1
            return "open"
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
        if self._timed_decoder == "unknown" and records:
            self._timed_decoder = _timed_decoder_for(records)
        self._append(records, text)
        self.window.at += len(text) - 1 if closed else len(body) + 1
        return "closed" if closed else "open"

    def _take_timed(self, text: bytes) -> bool:
        """Take a slice's records with times decoded as numbers, if these are exact."""
        if self._timed_decoder is None or self._timed_decoder == "unknown":
            return False
        try:
            with stage("decode"):
                records = self._timed_decoder(text)
            with stage("columns"):
                times = _exact_times(records)
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
        self,
        records: list[Record],
        text: bytes,
        times: tuple[SliceTimes, SliceTimes] | None = None,
    ) -> None:
        """Take over the records of a list's text."""
        count = len(records)
        start = self.window.offset
        if not self.columns.started:
            self.columns = Columns(self.notes, self._expected(count, len(text)))
        self.index.add(start, start + len(text.rstrip()) - 2, self.entries)
        with stage("columns"):
            self.columns.append(
                records,
                np.arange(self.entries, self.entries + count),
                lambda: decode_bodies(text),
                lambda row: start - 1 + _position(text, row),
                times,
            )
        self.entries += count

    def _expected(self, count: int, size: int) -> int:
        """How many records there will be, from how many the first slice held."""
        return count if self.window.ended else int(1.05 * count * self._size_bytes / size)

    def _take_tolerantly(self) -> bool:
        """Take the window piece by piece; return whether the list ended in it."""
        extent = 2 * _PIECE_BYTES
        while (size := self.window.left) > 0:
            near = self.window.at + min(_PIECE_BYTES, size)
            cut = next(separators_before(self.window.text, self.window.at, near), -1)
            if cut > self.window.at and size > _PIECE_BYTES:
                taken = self._take_strictly(cut)
                if taken == "closed":
                    return True
                if taken == "open":
                    continue
            text = self.window.text[self.window.at : self.window.at + extent]
            last = (self.window.ended and extent >= size) or size > _LONGEST_RECORD
            with stage("repair"):
                reading = read_records(
                    text, 0, near - self.window.at, self.notes, self.window.offset, last=last
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

    def _append_reading(self, reading: Reading, text: bytes) -> None:
        if not reading.entries:
            return
        start = self.window.offset
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


def _timed_decoder_for(records: list[Record]) -> Callable[[bytes], list[Any]] | None:
    """Return the decoder for files with starts like those of `records`; None for none."""
    texts = [bytes(record.ts) for record in records if record.ts]
    if texts and all(text.isdigit() and len(text) <= 18 for text in texts):
        return decode_timed[int]
    try:
        largest = max((abs(float(text)) for text in texts), default=0.0)
    except ValueError:
        return None
    return decode_timed[float if largest < LARGEST_DOUBLE / 2 else Raw]


def _exact_times(records: list[Any]) -> tuple[SliceTimes, SliceTimes] | None:
    """Return starts and durations of timed records; None where they may be inexact."""
    count = len(records)
    if not count:
        return None
    durations = np.fromiter([record.dur for record in records], np.float64, count)
    dur = nanoseconds_of_doubles(durations)
    if dur is None:
        return None
    starts = [record.ts for record in records]
    start: SliceTimes | None
    if isinstance(starts[0], int):
        start = nanoseconds_of_integers(starts, missing=NO_INTEGER)
    elif isinstance(starts[0], float):
        start = nanoseconds_of_doubles(np.fromiter(starts, np.float64, count))
    else:
        start = joined_texts(starts), count
    return None if start is None else (start, dur)


def _position(text: bytes, row: int) -> int:
    position = 0
    for body in decode_bodies(text)[: row + 1]:
        found = bytes(body)
        position = text.index(found, position)
        start, position = position, position + len(found)
    return start
