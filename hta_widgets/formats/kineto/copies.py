"""What records of copies and fills state of themselves: how fast, how much."""

from __future__ import annotations

import math

import numpy as np
from msgspec import Raw

from hta_widgets.trace.table import CopyTable

from hta_widgets.formats.kineto.records import Args

__all__ = ["Copies"]

_INT64 = 1 << 63


class Copies:
    """Collects the bandwidth and the size of the few device records that state them."""

    def __init__(self) -> None:
        self._record: list[int] = []
        self._gb_per_s: list[float] = []
        self._size_bytes: list[int] = []

    def add(self, record: int, said: Args) -> None:
        """Take what a record states."""
        self._record.append(record)
        self._gb_per_s.append(_rate(said.bandwidth))
        self._size_bytes.append(_size(said.bytes))

    def finish(self) -> CopyTable:
        """Return the columns."""
        return CopyTable(
            np.array(self._record, np.int64),
            np.array(self._gb_per_s, np.float64),
            np.array(self._size_bytes, np.int64),
        )


def _rate(raw: Raw) -> float:
    """Return a rate; NaN where none is stated, or none that can be."""
    try:
        rate = float(bytes(raw).strip(b'"'))
    except ValueError:
        return math.nan
    return rate if math.isfinite(rate) and rate >= 0 else math.nan


def _size(raw: Raw) -> int:
    """Return a size; -1 where none is stated, or none that can be."""
    text = bytes(raw).strip(b'"')
    try:
        size = int(text)
    except ValueError:
        rate = _rate(raw)
        size = int(rate) if rate.is_integer() else -1
    return size if 0 <= size < _INT64 else -1
