"""Columns of different lengths in one Arrow file, each with a checksum, mapped when read.

An Arrow file holds tables, and a rank is several, of different lengths. So the file is a table of
one row, each cell of which is the list of all values of a column.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

__all__ = ["ArrowFile", "Damaged", "Frame", "Texts", "write_columns"]

_HEADER = b"hta_widgets"


class Damaged(Exception):  # noqa: N818 - what is told to users is made of it
    """A file is not as it was written; the message says in what."""


class Frame(NamedTuple):
    """What of a file is not columns, but says where they lie; checked before it is believed."""

    size_bytes: int
    #: where the columns begin and end
    start: int
    end: int
    checksum: int


@dataclass(slots=True)
class Texts:
    """Byte strings, one behind the other."""

    data: bytearray = field(default_factory=bytearray)
    offsets: list[int] = field(default_factory=lambda: [0])
    #: whether all of them are proper UTF-8
    is_text: bool = False

    def add(self, text: bytes | memoryview) -> None:
        """Append one."""
        self.data += text
        self.offsets.append(len(self.data))

    @classmethod
    def of(cls, values: list[str]) -> Texts:
        """Encode strings; halves of surrogate pairs, which JSON can hold, are kept."""
        texts = cls(is_text=True)
        for value in values:
            try:
                texts.add(value.encode())
            except UnicodeEncodeError:
                texts.add(value.encode("utf-8", "surrogatepass"))
                texts.is_text = False
        return texts


Column = npt.NDArray[Any] | Texts


def write_columns(path: Path, columns: Mapping[str, Column], facts: Mapping[str, Any]) -> Frame:
    """Write a file of named columns, and what else is to be known of them.

    Parameters
    ----------
    path : Path
    columns : mapping of str to array or Texts
    facts : mapping
        Plain values, for JSON.
    """
    cells = {}
    specs: dict[str, list[Any]] = {}
    for name, values in columns.items():
        cell, checksum = _text_cell(values) if isinstance(values, Texts) else _cell(values)
        dtype = "text" if isinstance(values, Texts) else values.dtype.str
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


def _cell(values: npt.NDArray[Any]) -> tuple[Any, int]:
    values = np.ascontiguousarray(values)
    return pa.array(values), _checksum(values)


def _text_cell(texts: Texts) -> tuple[Any, int]:
    offsets: Any = np.array(texts.offsets, np.int64)
    kind = pa.large_utf8() if texts.is_text else pa.large_binary()
    buffers: list[Any] = [None, pa.py_buffer(offsets), pa.py_buffer(texts.data)]
    cell = pa.Array.from_buffers(kind, len(offsets) - 1, buffers)
    return cell, _text_checksum(offsets, texts.data)


def _text_checksum(offsets: npt.NDArray[np.int64], data: Any) -> int:
    return _checksum(data, _checksum(np.ascontiguousarray(offsets)))


def _checksum(data: Any, before: int = 0) -> int:
    return zlib.crc32(data, before)


def _frame_of(path: Path) -> Frame:
    whole = _mapped(path)
    reader = pa.ipc.open_file(whole)
    buffers = [
        buffer
        for column in reader.get_batch(0).columns
        for buffer in column.buffers()
        if buffer is not None and buffer.size
    ]
    start = min((buffer.address for buffer in buffers), default=whole.address) - whole.address
    end = max((buffer.address + buffer.size for buffer in buffers), default=0)
    end = max(end - whole.address, start)
    return Frame(whole.size, start, end, _frame_checksum(whole, start, end))


def _frame_checksum(whole: pa.Buffer, start: int, end: int) -> int:
    view = memoryview(whole)
    return _checksum(view[end:], _checksum(view[:start]))


def _mapped(path: Path) -> pa.Buffer:
    # The mapping outlives the file's handle: a thousand ranks need no thousand handles.
    with pa.memory_map(str(path)) as file:
        # Read as a whole, all of it would be fetched from the disk, records included.
        first = file.read_buffer(1)
        return pa.foreign_buffer(first.address, file.size(), first)


class ArrowFile:
    """The columns of a file; whatever is read of it was checked.

    Parameters
    ----------
    path : Path
    frame : Frame
        As `write_columns` returned it.

    Raises
    ------
    Damaged
        From here and from each method, where the file is not as it was written.
    """

    def __init__(self, path: Path, frame: Frame) -> None:
        try:
            size = path.stat().st_size
            if size != frame.size_bytes:
                raise Damaged(f"has {size:,} bytes instead of {frame.size_bytes:,}")
            whole = _mapped(path)
        except OSError as cause:
            raise Damaged(f"cannot be read ({cause.strerror or cause})") from None
        intact = 0 <= frame.start <= frame.end <= size
        if not intact or _frame_checksum(whole, frame.start, frame.end) != frame.checksum:
            raise Damaged("was changed: the checksum of its frame differs")
        try:
            reader = pa.ipc.open_file(whole)
            self._batch: Any = reader.get_batch(0)
            header = json.loads(reader.schema.metadata[_HEADER])
            self._specs: dict[str, list[Any]] = header["columns"]
            self.facts: dict[str, Any] = header["facts"]
        except (pa.ArrowException, ValueError, KeyError, TypeError) as cause:
            raise Damaged(f"is no file of a stored rank ({cause})") from None

    def __contains__(self, name: str) -> bool:
        return name in self._specs

    def numbers(self, name: str) -> npt.NDArray[Any]:
        """Return a column of numbers."""
        dtype, count, checksum = self._spec(name)
        data = self._cell_of(name, count).buffers()[-1]
        values: npt.NDArray[Any] = np.frombuffer(data or b"", np.dtype(dtype))[:count]
        if len(values) != count or _checksum(values) != checksum:
            raise Damaged(f"was changed: the checksum of its column {name} differs")
        return values

    def texts(self, name: str) -> list[bytes]:
        """Return the byte strings of a column."""
        offsets, data = self._text_buffers(name)
        if _text_checksum(offsets, data) != self._spec(name)[2]:
            raise Damaged(f"was changed: the checksum of its column {name} differs")
        ends = offsets.tolist()
        return [bytes(data[start:end]) for start, end in pairwise(ends)]

    def strings(self, name: str) -> list[str]:
        """Return a column of strings."""
        return [text.decode("utf-8", "surrogatepass") for text in self.texts(name)]

    def piece(self, name: str, start: int, end: int) -> memoryview:
        """Return bytes of a column of byte strings, which the caller has to check."""
        _, data = self._text_buffers(name)
        if not 0 <= start <= end <= len(data):
            raise Damaged(f"was changed: its column {name} is too short")
        return data[start:end]

    def _spec(self, name: str) -> list[Any]:
        if name not in self._specs:
            raise Damaged(f"has no column {name}")
        return self._specs[name]

    def _cell_of(self, name: str, count: int) -> Any:
        try:
            cell = self._batch.column(name).values
        except (pa.ArrowException, KeyError) as cause:
            raise Damaged(f"has no column {name} ({cause})") from None
        if len(cell) != count:
            raise Damaged(f"was changed: its column {name} has another length")
        return cell

    def _text_buffers(self, name: str) -> tuple[npt.NDArray[np.int64], memoryview]:
        _, count, _ = self._spec(name)
        _, offsets, data = self._cell_of(name, count).buffers()
        ends: Any = np.frombuffer(offsets, np.int64) if offsets else np.zeros(1, np.int64)
        return ends[: count + 1], memoryview(b"" if data is None else data)
