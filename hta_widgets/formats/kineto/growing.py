"""Columns that grow while the records of a file are decoded.

No object per record remains: numbers go to a `GrowingColumn`, texts become codes of a `CodeTable`,
and args stay JSON text (`SmallArgs`). For example, the names ``gemm, relu, gemm`` become the codes
``0, 1, 0`` and the texts ``["gemm", "relu"]``.
"""

from __future__ import annotations

import json
import math
from array import array
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from operator import itemgetter
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt
from msgspec import Raw, Struct

from hta_widgets.formats.kineto.records import Args
from hta_widgets.formats.kineto.times import plain_integers
from hta_widgets.formats.kineto.tolerant import decode_or_none, repair_json
from hta_widgets.trace.arrays import Ints, fit_int32
from hta_widgets.trace.columns import CopyTable, StringPool

_INT64 = 1 << 63


class CopyColumns:
    """Bandwidth and size of the device records that state them, which are few."""

    def __init__(self) -> None:
        self._record: list[int] = []
        self._gb_per_s: list[float] = []
        self._size_bytes: list[int] = []

    def add(self, record: int, args: Args) -> None:
        """Add a record's args."""
        self._record.append(record)
        self._gb_per_s.append(_rate(args.bandwidth))
        self._size_bytes.append(_size(args.bytes))

    def finish(self) -> CopyTable:
        """Return the columns."""
        return CopyTable(
            np.array(self._record, np.int64),
            np.array(self._gb_per_s, np.float64),
            np.array(self._size_bytes, np.int64),
        )


def _rate(raw: Raw) -> float:
    """Return a rate; NaN if it is missing or invalid."""
    try:
        rate = float(bytes(raw).strip(b'"'))
    except ValueError:
        return math.nan
    return rate if math.isfinite(rate) and rate >= 0 else math.nan


def _size(raw: Raw) -> int:
    """Return a size; -1 if it is missing or invalid."""
    try:
        size = int(bytes(raw).strip(b'"'))
    except ValueError:
        number = _rate(raw)
        size = int(number) if number.is_integer() else -1
    return size if 0 <= size < _INT64 else -1


_ABSENT = -1


class FlowIds:
    """Codes of ids by their JSON text: a number is its own code, other texts get codes below -1."""

    def __init__(self) -> None:
        self._others = StringPool()

    def codes(self, texts: Sequence[Any]) -> Ints:
        """Return a code for each JSON text; -1 for an empty one."""
        numbers = plain_integers(texts, _ABSENT)
        if numbers is not None:
            return numbers
        return np.fromiter((self._code(bytes(text)) for text in texts), np.int64, len(texts))

    def finish(self, codes: Ints) -> tuple[npt.NDArray[np.int32], StringPool]:
        """Return consecutive codes from 0, and the text of each code."""
        low, high = (int(codes.min()), int(codes.max())) if len(codes) else (_ABSENT, _ABSENT)
        if low >= _ABSENT and high < 4 * len(codes):
            # The profiler numbers its ids consecutively, so they serve as codes without sorting.
            return codes.astype(np.int32), _IdPool(None, [], high + 1)
        present = codes != _ABSENT
        flow = np.full(len(codes), -1, np.int32)
        numbers, inverse = np.unique(codes[present], return_inverse=True)
        flow[present] = inverse
        return flow, _IdPool(numbers, self._others.values, len(numbers))

    def _code(self, text: bytes) -> int:
        if not text or text == b"null":
            return _ABSENT
        if text.isdigit() and len(text) <= 18:
            return int(text)
        return -2 - self._others.add(text.decode("utf-8", "replace"))


class ReadOnlyIds(StringPool):
    """A pool of ids whose texts are derived on access."""

    __slots__ = ()

    @property
    def values(self) -> list[str]:  # type: ignore[override]
        """The texts of all codes."""
        return [self[code] for code in range(len(self))]

    def add(self, value: str) -> int:
        """Raise an error, as the texts are derived."""
        raise TypeError(f"ids are read-only; cannot add {value!r}")


class _IdPool(ReadOnlyIds):
    """Ids whose texts are numbers, or other texts for negative ones."""

    __slots__ = ("_count", "_numbers", "_others")

    def __init__(self, numbers: Ints | None, others: list[str], count: int) -> None:
        self._numbers = numbers  # None if each code is its own number
        self._others = others
        self._count = count

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, code: int) -> str:
        if not 0 <= code < self._count:
            raise IndexError(code)
        number = code if self._numbers is None else int(self._numbers[code])
        return str(number) if number >= 0 else self._others[-2 - number]

    def __reduce__(self) -> tuple[Any, ...]:
        return (_IdPool, (self._numbers, self._others, self._count))


class GrowingColumn:
    """A column with room for more values; unwritten memory costs nothing.

    Integers that do not fit the column's type widen it.
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
        capacity = len(self._values)
        if end > capacity:
            capacity = end + end // 2
        if dtype != self._values.dtype or capacity != len(self._values):
            larger = np.empty(capacity, dtype)
            larger[: self.size] = self.filled_part()
            self._values, self._bounds = larger, np.iinfo(dtype)
        self._values[self.size : end] = values
        self.size = end

    def _dtype_for(self, values: npt.NDArray[Any]) -> np.dtype[Any]:
        if values.dtype.itemsize <= self._values.dtype.itemsize:
            return self._values.dtype
        low, high = values.min(), values.max()
        if self._bounds.min <= low and high <= self._bounds.max:
            return self._values.dtype
        return np.dtype(np.int32) if fit_int32(low, high) else values.dtype

    def filled_part(self, start: int = 0) -> npt.NDArray[Any]:
        """Return a view of the filled part, from `start` on."""
        return self._values[start : self.size]


class CodeTable:
    """Codes of distinct values, and the text of each."""

    __slots__ = ("_codes", "pool")

    def __init__(self) -> None:
        self._codes: dict[Any, int] = {}
        self.pool = StringPool()

    def codes_of(self, values: list[Any]) -> npt.NDArray[np.int32]:
        """Return the codes of values: strings, integers, or None for the empty string."""
        if len(values) < 2:
            return np.array([self._code(value) for value in values], np.int32)
        codes_of_values = itemgetter(*values)  # faster than a loop in Python
        try:
            codes = codes_of_values(self._codes)
        except KeyError:
            for value in dict.fromkeys(values):
                self._code(value)
            codes = codes_of_values(self._codes)
        return np.fromiter(codes, np.int32, len(codes))

    def code(self, value: Any) -> int:
        """Return the code of a value; -1 if it has none yet."""
        return self._codes.get(value, -1)

    def _code(self, value: Any) -> int:
        code = self._codes.get(value)
        if code is None:
            code = self._codes[value] = self.pool.add("" if value is None else str(value))
        return code


class _WithArgs(Struct, gc=False):
    args: Raw = Raw(b"")


_args_text = msgspec.json.Decoder(_WithArgs).decode


class SmallArgs(Mapping[int, dict[str, Any]]):
    """Args by record number, kept as text: a million dictionaries would take too much memory."""

    def __init__(self) -> None:
        self._numbers = array("q")
        self._ends = array("q", [0])  # position in the text after the args of each record
        self._text = bytearray()
        #: args of records that are not valid JSON
        self._repaired: dict[int, dict[str, Any]] = {}

    def add(self, number: int, body: Any) -> None:
        """Add the args of a record, given their JSON text; numbers must ascend."""
        try:
            text: Any = _args_text(body).args
        except msgspec.DecodeError:
            text = b""
            self._repaired[number] = _args_of(_decode_leniently(bytes(body)))
        self._text += text
        self._numbers.append(number)
        self._ends.append(len(self._text))

    def get(self, number: int, default: Any = None) -> Any:
        """Return the args of a record, or `default`."""
        index = bisect_left(self._numbers, number)
        if index == len(self._numbers) or self._numbers[index] != number:
            return default
        text = self._text[self._ends[index] : self._ends[index + 1]]
        if not text:
            return self._repaired.get(number) or default
        try:
            value = json.loads(text)
        except (ValueError, RecursionError):
            value = _decode_leniently(bytes(text))
        return (value if isinstance(value, dict) else {}) or default

    def get_many(self, numbers: Sequence[int]) -> list[dict[str, Any]]:
        """Return the args of records, decoded in one call; an empty dict for none."""
        ends, text = self._ends, self._text
        spans = []
        for number in numbers:
            index = bisect_left(self._numbers, number)
            has_args = index < len(self._numbers) and self._numbers[index] == number
            spans.append(text[ends[index] : ends[index + 1]] if has_args else b"")
        if all(spans):
            try:
                values = json.loads(b"[%s]" % b",".join(spans))
            except (ValueError, RecursionError):
                values = []
            if len(values) == len(spans):
                return [value if isinstance(value, dict) else {} for value in values]
        return [self.get(number, {}) for number in numbers]

    def __getitem__(self, number: int) -> dict[str, Any]:
        args: dict[str, Any] | None = self.get(number)
        if args is None:
            raise KeyError(number)
        return args

    def __contains__(self, number: object) -> bool:
        return isinstance(number, int) and self.get(number) is not None

    def __iter__(self) -> Iterator[int]:
        return (number for number in self._numbers if number in self)

    def __len__(self) -> int:
        return sum(1 for _ in self)


def _args_of(value: Any) -> dict[str, Any]:
    args = value.get("args") if isinstance(value, dict) else None
    return args if isinstance(args, dict) else {}


def _decode_leniently(text: bytes) -> Any:
    """Decode JSON, also slightly invalid JSON."""
    try:
        return json.loads(repair_json(text))
    except (ValueError, RecursionError):
        return decode_or_none(text)
