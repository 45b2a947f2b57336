"""Columns as bytes that compress well, and the packed blocks of a page."""

from __future__ import annotations

import base64
import zlib
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from hta_widgets.errors import TraceError

__all__ = ["Block", "ColumnWriter", "Spec", "packed"]

_DELTA, _ZIGZAG, _FLOAT = 1, 2, 4
_GZIP = 31
_LEVEL = 6

#: ``[offset, length, bytes of an item, flags]``.
Spec = list[int]


@dataclass(slots=True, frozen=True)
class Block:
    """A named part of a page: a gzip stream, as base64 text."""

    name: str
    text: str

    @property
    def size_bytes(self) -> int:
        """What it adds to the page."""
        return len(self.text) + len(self.name) + 60


def packed(name: str, content: bytes) -> Block:
    """Return content as a block."""
    packer = zlib.compressobj(_LEVEL, zlib.DEFLATED, _GZIP)
    compressed = packer.compress(content) + packer.flush()
    return Block(name, base64.b64encode(compressed).decode("ascii"))


class ColumnWriter:
    """Lays columns one behind the other.

    Numbers are written as planes, all lowest bytes first, then the next higher ones: small
    numbers leave planes of zeros, which compress to nothing.
    """

    def __init__(self) -> None:
        self.specs: dict[str, Spec] = {}
        self._parts: list[bytes] = []
        self._size = 0

    def ints(self, name: str, values: npt.ArrayLike, *, delta: bool = False) -> None:
        """Add integers below 2^53; `delta` where neighbours are alike."""
        numbers = np.asarray(values, np.int64)
        flags = 0
        if delta and len(numbers):
            numbers = np.diff(numbers, prepend=0)
            flags |= _DELTA
        if len(numbers) and numbers.min() < 0:
            numbers = (numbers << 1) ^ (numbers >> 63)
            flags |= _ZIGZAG
        largest = int(numbers.max()) if len(numbers) else 0
        if largest >= 1 << 53:
            raise TraceError(
                f"a page cannot hold {name} exactly: it has numbers of {largest.bit_length()} bits",
                remedy="Save a part without the events that carry them: traces.subset(...).",
            )
        width = max(1, -(-largest.bit_length() // 8))
        self._add(name, numbers.astype("<u8").view(np.uint8).reshape(-1, 8)[:, :width], flags)

    def floats(self, name: str, values: npt.NDArray[Any], dtype: str = "<f8") -> None:
        """Add floating point numbers."""
        numbers = np.ascontiguousarray(values, dtype)
        planes = numbers.view(np.uint8).reshape(-1, numbers.itemsize)
        self._add(name, planes, _FLOAT)

    def _add(self, name: str, items: npt.NDArray[np.uint8], flags: int) -> None:
        length, width = items.shape
        self.specs[name] = [self._size, length, width, flags]
        self._parts.append(items.T.tobytes())
        self._size += length * width

    def block(self, name: str) -> Block:
        """Return all columns as one block."""
        return packed(name, b"".join(self._parts))
