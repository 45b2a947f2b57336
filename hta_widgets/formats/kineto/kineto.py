"""Kineto and any other Chrome trace-event JSON, plain or gzip."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Any, NamedTuple

from hta_widgets.errors import TraceError
from hta_widgets.trace.problems import Problems
from hta_widgets.trace.table import RankColumns

from hta_widgets.formats.kineto.envelope import decode_values
from hta_widgets.formats.kineto.envelope import find_events
from hta_widgets.formats.kineto.envelope import read_tail
from hta_widgets.readers.notes import Notes
from hta_widgets.formats.kineto.record_list import RecordList
from hta_widgets.formats.kineto.record_source import FileRecords
from hta_widgets.formats.kineto.record_source import FileState
from hta_widgets.readers.stages import stage
from hta_widgets.readers.streams import Checkpoints
from hta_widgets.readers.streams import open_stream
from hta_widgets.readers.window import Window

__all__ = ["FileContents", "read_file"]


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
        documents = _Documents(Window(stream, advance), notes)
        values = documents.read()
        records = documents.list
        if stream.fault is not None:
            notes.add("truncated" if stream.fault.cut else "repaired", stream.fault.message, None)
        if not records.columns.rows:
            _refuse_if_no_trace(path, records.entries, enclosed=documents.enclosed, notes=notes)
        with stage("columns"):
            columns = records.columns.finish()
    problems = Problems()
    notes.into(problems, path)
    source = FileRecords(
        path, records.index, records.entries, values, state, checkpoints, keepalive
    )
    return FileContents(columns, decode_values(values), source, problems)


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


class _Documents:
    """The documents of a file: one, or by mistake several, one after another."""

    def __init__(self, window: Window, notes: Notes) -> None:
        self.window = window
        self.notes = notes
        self.list = RecordList(window, notes)
        self.enclosed = False

    def read(self) -> dict[str, bytes]:
        """Read all of them into one list; return the top-level values."""
        values = self._read_document()
        while self.window.skip(b" \t\r\n\0,"):
            start = self.window.offset
            try:
                further = self._read_document()
            except TraceError:
                self.notes.add("skipped", "text after the end of the trace", start)
                break
            self.notes.add("repaired", "traces one after another in one file", start)
            values = {**further, **values}
        return values

    def _read_document(self) -> dict[str, bytes]:
        window, notes = self.window, self.notes
        head, text = find_events(window.rest(), window.more, window.stream.path, notes)
        window.replace_rest(text, head.start)
        self.enclosed = head.enclosed
        closed = self.list.read(enclosed=head.enclosed)
        values = head.values
        if not closed:
            if not notes.count("truncated"):
                notes.add("truncated", "the list of events does not end", None)
        elif head.enclosed:
            tail, text, end = read_tail(window.rest(), window.more)
            values = {**values, **tail}
            if end is None:
                notes.add("truncated", "what follows the list of events is cut off", None)
            window.replace_rest(text, len(text) if end is None else end)
        self.list.columns.add_base(_base_ns(values))
        return values


def _base_ns(values: dict[str, bytes]) -> int:
    text = values.get("baseTimeNanoseconds")
    try:
        return int(Decimal(text.decode().strip('"'))) if text else 0
    except (InvalidOperation, ValueError, OverflowError):
        return 0
