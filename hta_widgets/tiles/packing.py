"""Pack numeric columns into bytes for transfer to the page.

`pack` concatenates columns, each aligned to 8 bytes, and describes them in a header. `unpack` reads
them back::

    pack({"busy": ("u16", [1, 2, 3]), "index": ("f64", [7])})
    # header {"busy": ["u16", 0, 3], "index": ["f64", 8, 1]}, 16 bytes: 3 · 2, 2 of padding, 8

`compact_columns` first shrinks the columns of tiles: it stores two kinds per byte, slice starts as
offsets from the tile, and other integers in the narrowest type that holds the column's maximum.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from hta_widgets.tiles.cells import CELLS, NO_KIND
from hta_widgets.trace.arrays import Array, Codes, Ints

Columns = Mapping[str, tuple[str, npt.ArrayLike]]
NO_KIND_NIBBLE = 15
#: Narrower types to try for columns of mostly small integers, narrowest first.
_NARROW = {
    "count": ("u8",),
    "slice_id": ("u16",),
    "slice_name": ("u8", "u16"),
    "slice_dur": ("u16", "u32"),
}
_MAX_VALUES = {"u8": 0xFF, "u16": 0xFFFF, "u32": 0xFFFF_FFFF}


def compact_columns(columns: Columns, level: int) -> dict[str, tuple[str, npt.ArrayLike]]:
    """Convert the columns of a ``tiles`` reply to the form for ``compact`` requests."""
    compact: dict[str, tuple[str, npt.ArrayLike]] = {}
    for name, (dtype, values) in columns.items():
        array = np.asarray(values)
        if name == "kind":
            compact["kinds"] = "u8", _nibbles(array)
        elif name == "slice_start":
            offset = _offsets(columns, level)
            if offset is None:
                compact[name] = dtype, array
            else:
                compact["slice_offset"] = "i32", offset
        elif name == "mask" or (name == "slice_flags" and not array.any()):
            continue  # not needed by the page
        else:
            compact[name] = _narrowest_dtype(name, dtype, array), array
    return compact


def _nibbles(kind: Codes) -> Codes:
    """Pack the kinds of two cells into a byte, low half first; 15 means no kind."""
    codes = np.where(kind.ravel() == NO_KIND, NO_KIND_NIBBLE, kind.ravel()).astype(np.uint8)
    return codes[0::2] | (codes[1::2] << np.uint8(4))


def _offsets(columns: Columns, level: int) -> Ints | None:
    """Return slice starts relative to their tiles, or None if an offset exceeds int32."""
    first = np.asarray(columns["slice_first"][1]).astype(np.int64)
    index = np.asarray(columns["tile_index"][1]).astype(np.int64)
    start = np.asarray(columns["slice_start"][1]).astype(np.int64)
    offset: Ints = start - np.repeat(index * CELLS << level, np.diff(first))
    limits = np.iinfo(np.int32)
    fits = not len(offset) or (offset.min() >= limits.min and offset.max() <= limits.max)
    return offset if fits else None


def _narrowest_dtype(name: str, dtype: str, values: npt.NDArray[np.generic]) -> str:
    largest = int(values.max()) if name in _NARROW and values.size else 0
    fitting = (narrow for narrow in _NARROW.get(name, ()) if largest <= _MAX_VALUES[narrow])
    return next(fitting, dtype)


DTYPES: dict[str, np.dtype[Any]] = {
    "u8": np.dtype("u1"), "u16": np.dtype("<u2"), "u32": np.dtype("<u4"), "i32": np.dtype("<i4"),
    "f32": np.dtype("<f4"), "f64": np.dtype("<f8"),
}  # fmt: skip
ALIGNMENT = 8
#: Maps a column name to dtype, byte offset and length.
Header = dict[str, list[Any]]


def pack(columns: Mapping[str, tuple[str, npt.ArrayLike]]) -> tuple[Header, bytes]:
    """Concatenate columns, each aligned to 8 bytes; return the header and the bytes."""
    header: Header = {}
    blocks: list[bytes] = []
    size = 0
    for name, (dtype, values) in columns.items():
        padding = -size % ALIGNMENT
        array = np.ascontiguousarray(values, DTYPES[dtype]).ravel()
        header[name] = [dtype, size + padding, len(array)]
        blocks += [bytes(padding), array.tobytes()]
        size += padding + array.nbytes
    return header, b"".join(blocks)


def unpack(header: Mapping[str, list[Any]], buffer: bytes) -> dict[str, Array]:
    """Return the columns written by `pack`, as views of the buffer."""
    return {
        name: np.frombuffer(buffer, DTYPES[dtype], length, offset)
        for name, (dtype, offset, length) in header.items()
    }


#: Smallest buffer to compress. For smaller ones, compression does not save time.
MIN_ZIPPED_BYTES = 16_384
_FASTEST, _GZIP_FORMAT = 1, 31


def gzip_buffer(buffer: bytes) -> bytes:
    """Compress a buffer. This takes about a tenth of the time needed to compute the buffer."""
    return zlib.compress(buffer, _FASTEST, _GZIP_FORMAT)
