"""Columns of numbers in one buffer: what every binary answer is made of."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["DTYPES", "Header", "pack", "unpack"]

DTYPES: dict[str, np.dtype[Any]] = {
    "u8": np.dtype("u1"),
    "u16": np.dtype("<u2"),
    "u32": np.dtype("<u4"),
    "i32": np.dtype("<i4"),
    "f32": np.dtype("<f4"),
    "f64": np.dtype("<f8"),
}
ALIGNMENT = 8

#: Column → [dtype, byte offset, length].
Header = dict[str, list[Any]]


def pack(columns: Mapping[str, tuple[str, npt.ArrayLike]]) -> tuple[Header, bytes]:
    """Write columns one behind the other, each at a multiple of 8 bytes.

    Parameters
    ----------
    columns : mapping of str to (str, array)
        Name to the dtype's name in the protocol and the values, flattened row by row.

    Returns
    -------
    header : dict
        Name to ``[dtype, byte offset, length]``.
    buffer : bytes
    """
    header: Header = {}
    parts: list[bytes] = []
    size = 0
    for name, (dtype, values) in columns.items():
        padding = -size % ALIGNMENT
        array = np.ascontiguousarray(values, DTYPES[dtype]).ravel()
        header[name] = [dtype, size + padding, len(array)]
        parts += [bytes(padding), array.tobytes()]
        size += padding + array.nbytes
    return header, b"".join(parts)


def unpack(header: Mapping[str, list[Any]], buffer: bytes) -> dict[str, npt.NDArray[Any]]:
    """Return the columns that `pack` wrote, as views of the buffer."""
    return {
        name: np.frombuffer(buffer, DTYPES[dtype], length, offset)
        for name, (dtype, offset, length) in header.items()
    }
