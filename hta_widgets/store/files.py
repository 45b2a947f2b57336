"""Read and write Arrow files with checksummed columns, and the manifest of a store.

A file contains one record batch with one row; every cell is a list that holds a whole column.
Opening a file validates its size and the checksum of all bytes outside the columns (`FileFrame`). A
column is validated only when it is read, so damage to it is reported at that time.
"""

from __future__ import annotations

import json
import os
import time
import zlib
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from hta_widgets.errors import TraceError
from hta_widgets.files import is_remote
from hta_widgets.store.checks import DamagedFileError
from hta_widgets.trace.arrays import Array, Ints

_HEADER = b"hta_widgets"
#: Seconds between two checks of the size of a mapped file. A system call for every column access
#: would slow analyses of mapped ranks by up to 20 %.
CHECK_INTERVAL_S = 0.01


class FileFrame(NamedTuple):
    """File size, byte range of the columns, and checksum of all other bytes."""

    size_bytes: int
    #: byte range of the columns
    start: int
    end: int
    checksum: int


@dataclass(slots=True)
class TextColumn:
    """A column of byte strings, stored in one buffer."""

    data: bytearray = field(default_factory=bytearray)
    offsets: list[int] = field(default_factory=lambda: [0])
    #: whether all strings are valid UTF-8
    is_text: bool = False

    def add(self, text: bytes | memoryview) -> None:
        """Append a byte string."""
        self.data += text
        self.offsets.append(len(self.data))

    @classmethod
    def of(cls, values: list[str]) -> TextColumn:
        """Encode strings as UTF-8; keep lone surrogates, which JSON allows."""
        texts = cls(is_text=True)
        for value in values:
            try:
                texts.add(value.encode())
            except UnicodeEncodeError:
                texts.add(value.encode("utf-8", "surrogatepass"))
                texts.is_text = False
        return texts


Column = Array | TextColumn


def write_columns(path: Path, columns: Mapping[str, Column], facts: Mapping[str, Any]) -> FileFrame:
    """Write columns, and `facts` as JSON, to a file; return its frame."""
    cells = {}
    specs: dict[str, list[Any]] = {}
    for name, values in columns.items():
        cell: Any
        if isinstance(values, TextColumn):
            dtype = "text"
            cell, checksum = _text_cell(values)
        else:
            dtype, numbers = values.dtype.str, np.ascontiguousarray(values)
            cell, checksum = pa.array(numbers), zlib.crc32(numbers.data)
        specs[name] = [dtype, len(cell), checksum]
        ends = pa.array([0, len(cell)], pa.int64())
        cells[name] = pa.LargeListArray.from_arrays(ends, cell)
    header = json.dumps({"columns": specs, "facts": dict(facts)}).encode()
    schema = pa.schema(
        [(name, cell.type) for name, cell in cells.items()], metadata={_HEADER: header}
    )
    batch = pa.record_batch(list(cells.values()), schema=schema)
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, schema) as writer:
        writer.write_batch(batch)
    return _frame_of(path)


def _text_cell(texts: TextColumn) -> tuple[Any, int]:
    offsets: Any = np.array(texts.offsets, np.int64)
    kind = pa.large_utf8() if texts.is_text else pa.large_binary()
    buffers: list[Any] = [None, pa.py_buffer(offsets), pa.py_buffer(texts.data)]
    cell = pa.Array.from_buffers(kind, len(offsets) - 1, buffers)
    return cell, _text_checksum(offsets, texts.data)


def _text_checksum(offsets: Ints, data: bytearray | memoryview) -> int:
    return zlib.crc32(data, zlib.crc32(np.ascontiguousarray(offsets).data))


def _frame_of(path: Path) -> FileFrame:
    content = _read_file(path) if is_remote(path) else _map_file(path)
    positions_and_sizes = [
        (buffer.address - content.address, buffer.size)
        for column in pa.ipc.open_file(content).get_batch(0).columns
        for buffer in column.buffers()
        if buffer is not None and buffer.size
    ]
    start = min((position for position, _ in positions_and_sizes), default=0)
    end = max((position + size for position, size in positions_and_sizes), default=0)
    return FileFrame(content.size, start, end, _frame_checksum(content, start, end))


def _frame_checksum(content: pa.Buffer, start: int, end: int) -> int:
    view = memoryview(content)
    return zlib.crc32(view[end:], zlib.crc32(view[:start]))


def _read_file(path: Path) -> pa.Buffer:
    """Read a file from a network drive into memory.

    If a mapped file is truncated or becomes unreachable, accessing it kills the process.
    """
    with pa.OSFile(str(path), "rb") as file:
        return file.read_buffer()


def _map_file(path: Path) -> pa.Buffer:
    # The mapping outlives the file handle, so open ranks do not exhaust file handles.
    with pa.memory_map(str(path)) as file:
        # Reading the whole buffer would load all of the file from disk, including the records.
        first = file.read_buffer(1)
        return pa.foreign_buffer(first.address, file.size(), first)


class ArrowFile:
    """A file of columns. The checksum of a column is verified when the column is read."""

    def __init__(self, path: Path, frame: FileFrame) -> None:
        self._path = path
        try:
            state = path.stat()
            size = state.st_size
            if size != frame.size_bytes:
                raise DamagedFileError(f"has {size:,} bytes instead of {frame.size_bytes:,}")
            is_copied = is_remote(path)
            content = _read_file(path) if is_copied else _map_file(path)
            self._mapped_state = None if is_copied else state
            self._checked_s = time.monotonic()
        except OSError as cause:
            raise DamagedFileError(f"cannot be read ({cause.strerror or cause})") from None
        has_columns = 0 <= frame.start <= frame.end <= size
        if not has_columns or _frame_checksum(content, frame.start, frame.end) != frame.checksum:
            raise DamagedFileError("was changed: the checksum of its frame does not match")
        try:
            reader = pa.ipc.open_file(content)
            self._batch: Any = reader.get_batch(0)
            header = json.loads(reader.schema.metadata[_HEADER])
            self._specs: dict[str, list[Any]] = header["columns"]
            self.facts: dict[str, Any] = header["facts"]
        except (pa.ArrowException, ValueError, KeyError, TypeError) as cause:
            raise DamagedFileError(f"is not the file of a stored rank ({cause})") from None

    def __contains__(self, name: str) -> bool:
        return name in self._specs

    def require_whole(self, max_age_s: float = 0.0) -> None:
        """Raise `DamagedFileError` if the mapped file was truncated since it was opened.

        The check is skipped if the last one was at most `max_age_s` ago. It does not protect arrays
        that callers already hold: they are views of the mapping.
        """
        mapped, now_s = self._mapped_state, time.monotonic()
        if mapped is None or now_s - self._checked_s < max_age_s:
            return
        with suppress(OSError):  # a deleted or replaced file stays mapped
            state = self._path.stat()
            if os.path.samestat(state, mapped) and state.st_size < mapped.st_size:
                raise DamagedFileError("was cut off after it was loaded")
        self._checked_s = now_s

    def numbers(self, name: str) -> Array:
        """Return a numeric column."""
        dtype, count, checksum = self._spec(name)
        data = self._cell_of(name, count).buffers()[-1]
        values: Array = np.frombuffer(data or b"", np.dtype(dtype))[:count]
        if len(values) != count or zlib.crc32(values.data) != checksum:
            raise DamagedFileError(f"was changed: the checksum of column {name} does not match")
        return values

    def texts(self, name: str) -> list[bytes]:
        """Return a column of byte strings."""
        offsets, data = self._text_buffers(name)
        if _text_checksum(offsets, data) != self._spec(name)[2]:
            raise DamagedFileError(f"was changed: the checksum of column {name} does not match")
        if offsets[0] != 0 or offsets[-1] != len(data) or np.any(offsets[1:] < offsets[:-1]):
            raise DamagedFileError(f"was changed: strings in column {name} overlap")
        ends = offsets.tolist()
        return [bytes(data[start:end]) for start, end in pairwise(ends)]

    def strings(self, name: str) -> list[str]:
        """Return a column of strings."""
        return [text.decode("utf-8", "surrogatepass") for text in self.texts(name)]

    def slice_bytes(self, name: str, start: int, end: int) -> memoryview:
        """Return a slice of the buffer of a byte-string column, without verifying the checksum."""
        _, data = self._text_buffers(name)
        if not 0 <= start <= end <= len(data):
            raise DamagedFileError(f"was changed: column {name} is too short")
        return data[start:end]

    def count(self, name: str) -> int:
        """Return the length of a column."""
        return len(self._cell_of(name, self._spec(name)[1]))

    def _spec(self, name: str) -> list[Any]:
        if name not in self._specs:
            raise DamagedFileError(f"has no column {name}")
        return self._specs[name]

    def _cell_of(self, name: str, count: int) -> Any:
        self.require_whole(CHECK_INTERVAL_S)
        try:
            cell = self._batch.column(name).values
        except (pa.ArrowException, KeyError) as cause:
            raise DamagedFileError(f"has no column {name} ({cause})") from None
        if len(cell) != count:
            raise DamagedFileError(f"was changed: column {name} has the wrong length")
        return cell

    def _text_buffers(self, name: str) -> tuple[Ints, memoryview]:
        _, count, _ = self._spec(name)
        _, offsets, data = self._cell_of(name, count).buffers()
        ends: Any = np.frombuffer(offsets, np.int64) if offsets else np.zeros(1, np.int64)
        return ends[: count + 1], memoryview(b"" if data is None else data)


#: File name of the manifest.
MANIFEST = "store.json"
#: Format version; incremented with every change that older or newer code would misread.
VERSION = 1

_BEGINNING = b'{"hta_widgets_store":'
_RESAVE = "Load the trace files again, and save them again."


def begins_manifest(text: bytes) -> bool:
    """Return whether a file that begins with `text` is a manifest."""
    return text.startswith(_BEGINNING)


def dump_manifest(body: dict[str, Any]) -> bytes:
    """Serialize a manifest."""
    text = _canonical(body)
    return b'%s%d, "checksum": %d, "body": %s}\n' % (_BEGINNING, VERSION, zlib.crc32(text), text)


def read_manifest(path: Path) -> dict[str, Any]:
    """Return the body of a manifest."""
    try:
        text = path.read_bytes()
    except OSError as cause:
        raise DamagedFileError(f"cannot be read ({cause.strerror or cause})") from None
    try:
        manifest = json.loads(text)
        version, checksum, body = (
            manifest[key] for key in ("hta_widgets_store", "checksum", "body")
        )
    except (ValueError, KeyError, TypeError):
        raise DamagedFileError("is cut off or was changed") from None
    if version != VERSION:
        age = "an older" if isinstance(version, int) and version < VERSION else "a newer"
        raise TraceError(
            f"is a store of version {version}, by {age} hta_widgets; this one reads {VERSION}",
            path=path,
            remedy=_RESAVE if age == "an older" else "Update hta_widgets.",
        )
    if not isinstance(body, dict) or zlib.crc32(_canonical(body)) != checksum:
        raise DamagedFileError("was changed: its checksum does not match")
    return body


def _canonical(body: dict[str, Any]) -> bytes:
    return json.dumps(body, sort_keys=True, separators=(",", ":")).encode()
