"""Columns that grow, and the codes of the strings in them."""

from __future__ import annotations

from operator import itemgetter
from typing import Any

import numpy as np
import numpy.typing as npt

from hta_widgets.trace.table import Pool

__all__ = ["Codes", "Column"]


class Column:
    """A column that is filled from the front; memory that was not written yet costs nothing.

    Integers that do not fit its type widen it.
    """

    __slots__ = ("_bounds", "_values", "size")

    def __init__(self, dtype: type[np.generic], capacity: int) -> None:
        self._values: npt.NDArray[Any] = np.empty(capacity, dtype)
        self._bounds = np.iinfo(self._values.dtype)
        self.size = 0

    def extend(self, values: npt.NDArray[Any]) -> None:
        """Append values."""
        if not len(values):
            return
        end = self.size + len(values)
        dtype = self._dtype_for(values)
        capacity = len(self._values) if end <= len(self._values) else end + end // 2
        if dtype != self._values.dtype or capacity != len(self._values):
            larger = np.empty(capacity, dtype)
            larger[: self.size] = self.filled()
            self._values, self._bounds = larger, np.iinfo(dtype)
        self._values[self.size : end] = values
        self.size = end

    def _dtype_for(self, values: npt.NDArray[Any]) -> np.dtype[Any]:
        if values.dtype.itemsize <= self._values.dtype.itemsize:
            return self._values.dtype
        fits = values.min() >= self._bounds.min and values.max() <= self._bounds.max
        return self._values.dtype if fits else values.dtype

    def filled(self, start: int = 0) -> npt.NDArray[Any]:
        """View what was filled, from `start` on."""
        return self._values[start : self.size]


class Codes:
    """Codes of values by their text."""

    __slots__ = ("_codes", "pool")

    def __init__(self) -> None:
        self._codes: dict[Any, int] = {}
        self.pool = Pool()

    def of(self, values: list[Any]) -> npt.NDArray[np.int32]:
        """Return the codes of values: strings, integers, or None for the empty string."""
        if len(values) < 2:
            return np.array([self._code(value) for value in values], np.int32)
        find = itemgetter(*values)
        try:
            found = find(self._codes)
        except KeyError:
            for value in dict.fromkeys(values):
                self._code(value)
            found = find(self._codes)
        return np.fromiter(found, np.int32, len(found))

    def _code(self, value: Any) -> int:
        code = self._codes.get(value)
        if code is None:
            code = self._codes[value] = self.pool.add("" if value is None else str(value))
        return code
