"""Columns that grow while the records of a file are decoded.

No Python object remains per record: numbers go into a `GrowingColumn`, strings become codes in a
`CodeTable`, and args stay JSON text (`SmallArgs`). For example, the names ``gemm, relu, gemm``
become the codes ``0, 1, 0`` and the strings ``["gemm", "relu"]``.
"""

from __future__ import annotations

import json
import math
from array import array
from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from operator import attrgetter
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt
from msgspec import Raw, Struct

from hta_widgets.formats.kineto.records import COMMUNICATION_FIELDS, LAUNCH_FIELDS, Args
from hta_widgets.formats.kineto.times import plain_integers
from hta_widgets.formats.kineto.tolerant import decode_or_none, repair_json
from hta_widgets.trace.arrays import Ints, fit_int32
from hta_widgets.trace.call_args import CallArgs, LaunchArgs, Texts, non_negative_integers
from hta_widgets.trace.columns import ArgTable, CopyTable, StringPool, arg_table

_INT64 = 1 << 63
#: Maximum total size of distinct call args. Beyond it, args are read from the file when needed.
_MAX_TEXT_BYTES = 1 << 24

_decode_floats = msgspec.json.Decoder(list[float]).decode
_decode_integers = msgspec.json.Decoder(list[int]).decode
_communication = attrgetter(*COMMUNICATION_FIELDS)
_launch = attrgetter(*LAUNCH_FIELDS)


class CommunicationColumns:
    """The values of `COMMUNICATION_KEYS` for communication events, as text."""

    def __init__(self) -> None:
        self._record: list[int] = []
        self._text: list[bytes] = []

    def add(self, records: Ints, args: Sequence[Args]) -> None:
        """Add the args of records."""
        self._record += records.tolist()
        self._text += map(b"\0".join, map(_communication, args))

    def finish(self) -> ArgTable | None:
        """Return the columns; None without records."""
        return arg_table(self._record, self._text)


class CopyColumns:
    """Bandwidth and size of the few device records that give them."""

    def __init__(self) -> None:
        self._record: list[int] = []
        self._gb_per_s: list[float] = []
        self._size_bytes: list[int] = []

    def add(self, records: Ints, args: Sequence[Args]) -> None:
        """Add the args of records."""
        rates = _decode_numbers(_decode_floats, [arg.bandwidth for arg in args], _rate)
        sizes = _decode_numbers(_decode_integers, [arg.bytes for arg in args], _size)
        self._record += records.tolist()
        self._gb_per_s += [rate if 0 <= rate < math.inf else math.nan for rate in rates]
        self._size_bytes += [size if 0 <= size < _INT64 else -1 for size in sizes]

    def finish(self) -> CopyTable:
        """Return the columns."""
        return CopyTable(
            np.array(self._record, np.int64),
            np.array(self._gb_per_s, np.float64),
            np.array(self._size_bytes, np.int64),
        )


def _decode_numbers(
    decode: Callable[[bytes], list[Any]], texts: list[Any], convert: Callable[[Any], Any]
) -> list[Any]:
    """Return the numbers in JSON texts; if one call cannot decode them, convert each separately."""
    try:
        numbers = decode(b"[%b]" % b",".join(texts))
    except msgspec.DecodeError:
        numbers = []
    # A single empty string decodes to an empty list.
    return numbers if len(numbers) == len(texts) else [convert(text) for text in texts]


def _rate(raw: Raw) -> float:
    try:
        return float(bytes(raw).strip(b'"'))
    except ValueError:
        return math.nan


def _size(raw: Raw) -> int:
    try:
        return int(bytes(raw).strip(b'"'))
    except ValueError:
        number = _rate(raw)
        return int(number) if number.is_integer() else -1


_ABSENT = -1
#: Separates an id that is unique only within a process from that process.
ID_SEPARATOR = b"\0"


class FlowIds:
    """Codes of ids given as JSON. A number is its own code; other values get codes below -1."""

    def __init__(self) -> None:
        self._others = StringPool()

    def codes(self, texts: Sequence[Any]) -> Ints:
        """Return a code for each JSON text; -1 if the text is empty."""
        numbers = plain_integers(texts, _ABSENT)
        if numbers is not None:
            return numbers
        return np.fromiter((self._code(bytes(text)) for text in texts), np.int64, len(texts))

    def finish(self, codes: Ints) -> tuple[npt.NDArray[np.int32], StringPool]:
        """Return codes renumbered from 0 without gaps, and the text of each code."""
        low, high = (int(codes.min()), int(codes.max())) if len(codes) else (_ABSENT, _ABSENT)
        if low >= _ABSENT and high < 4 * len(codes):
            # Profilers number ids consecutively, so these can serve as codes without sorting.
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
    """A pool of ids whose texts are computed on access."""

    __slots__ = ()

    @property
    def values(self) -> list[str]:  # type: ignore[override]
        """The texts of all codes."""
        return [self[code] for code in range(len(self))]

    def add(self, value: str) -> int:
        """Raise an error, because the texts are computed."""
        raise TypeError(f"ids are read-only; cannot add {value!r}")


class _IdPool(ReadOnlyIds):
    """Ids whose texts are the numbers themselves. Negative ids have other texts."""

    __slots__ = ("_count", "_numbers", "_others")

    def __init__(self, numbers: Ints | None, others: list[str], count: int) -> None:
        self._numbers = numbers  # None if each code equals its number
        self._others = others
        self._count = count

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, code: int) -> str:
        if not 0 <= code < self._count:
            raise IndexError(code)
        number = code if self._numbers is None else int(self._numbers[code])
        other = "" if number >= 0 else self._others[-2 - number]
        return str(number) if number >= 0 else other.partition(ID_SEPARATOR.decode())[0]

    def __reduce__(self) -> tuple[Any, ...]:
        return (_IdPool, (self._numbers, self._others, self._count))


class GrowingColumn:
    """A column with spare capacity. Memory that was never written to costs nothing.

    Integers that do not fit in the column's type widen it.
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
        dtype = self._values.dtype
        if values.dtype.itemsize > dtype.itemsize:
            low, high = values.min(), values.max()
            if not self._bounds.min <= low <= high <= self._bounds.max:
                dtype = np.dtype(np.int32) if fit_int32(low, high) else values.dtype
        capacity = len(self._values)
        if end > capacity:
            capacity = end + end // 2
        if dtype != self._values.dtype or capacity != len(self._values):
            larger = np.empty(capacity, dtype)
            larger[: self.size] = self.filled_part()
            self._values, self._bounds = larger, np.iinfo(dtype)
        self._values[self.size : end] = values
        self.size = end

    def filled_part(self, start: int = 0) -> npt.NDArray[Any]:
        """Return a view of the filled part, beginning at `start`."""
        return self._values[start : self.size]


class CodeTable(dict[Any, int]):
    """Codes of distinct values, and the text of each code."""

    def __init__(self) -> None:
        self.pool = StringPool()

    def __missing__(self, value: Any) -> int:
        code = self[value] = self.pool.add("" if value is None else str(value))
        return code

    def codes_of(self, values: Sequence[Any]) -> npt.NDArray[np.int32]:
        """Return the codes of values, which are strings, integers, or None for the empty string."""
        return np.fromiter(map(self.__getitem__, values), np.int32, len(values))


class _TextCodes(dict[bytes, int]):
    def __init__(self) -> None:
        self.size_bytes = 0

    def codes_of(self, rows: Iterable[tuple[Any, ...]]) -> Ints:
        """Return the codes of combinations. A new combination gets the next code."""
        # JSON does not contain byte 0. Joined texts are faster to look up than tuples of texts.
        texts = map(b"\0".join, rows)
        return np.fromiter(map(self.__getitem__, texts), np.int64)

    def __missing__(self, text: bytes) -> int:
        code = self[text] = len(self)
        self.size_bytes += len(text)
        return code

    def texts(self) -> list[Texts]:
        return [tuple(text.split(b"\0")) for text in self]


class CallArgColumns:
    """Args of operator calls: codes of their texts, and autograd node numbers."""

    def __init__(self) -> None:
        self._codes = _TextCodes()
        self._blocks = [(np.empty(0, np.int64),) * 4]

    def add(self, records: Ints, calls: Sequence[Args]) -> None:
        """Add the args of records; record numbers must ascend."""
        if self._codes.size_bytes > _MAX_TEXT_BYTES:
            return
        code = self._codes.codes_of(
            (arg.dims or arg.old_dims, arg.types, arg.strides, arg.values) for arg in calls
        )
        sequence = _non_negative([arg.node for arg in calls])
        thread = _non_negative([arg.forward for arg in calls])
        self._blocks.append((records, code, sequence, thread))

    def finish(self) -> CallArgs | None:
        """Return the columns; None if their texts are too large."""
        if self._codes.size_bytes > _MAX_TEXT_BYTES:
            return None
        record, code, sequence, thread = map(np.concatenate, zip(*self._blocks, strict=True))
        return CallArgs(record, code.astype(np.int32), self._codes.texts(), sequence, thread)


def _non_negative(texts: Sequence[Any]) -> Ints:
    numbers = plain_integers(texts, -1)
    return non_negative_integers(texts) if numbers is None else numbers


class LaunchArgColumns:
    """Args of kernels: codes of their texts."""

    def __init__(self) -> None:
        self._codes = _TextCodes()
        self._blocks = [(np.empty(0, np.int64),) * 2]

    def add(self, records: Ints, kernels: Sequence[Args]) -> None:
        """Add the args of records; record numbers must ascend."""
        self._blocks.append((records, self._codes.codes_of(map(_launch, kernels))))

    def finish(self) -> LaunchArgs:
        """Return the columns."""
        record, code = map(np.concatenate, zip(*self._blocks, strict=True))
        return LaunchArgs(record, code, self._codes.texts())


class _WithArgs(Struct, gc=False):
    args: Raw = Raw(b"")


_args_text = msgspec.json.Decoder(_WithArgs).decode


class SmallArgs:
    """Args by record number, kept as text because a million dicts would take too much memory."""

    def __init__(self) -> None:
        self._numbers = array("q")
        self._ends = array("q", [0])  # end of each record's args in the text
        self._text = bytearray()
        #: args of records that are not valid JSON
        self._repaired: dict[int, dict[str, Any]] = {}

    def add(self, number: int, body: Any) -> None:
        """Add the args of a record as JSON text; record numbers must ascend."""
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
        text = self._text_of(number)
        if not text:
            return self._repaired.get(number) or default
        try:
            value = json.loads(text)
        except (ValueError, RecursionError):
            value = _decode_leniently(bytes(text))
        return (value if isinstance(value, dict) else {}) or default

    def get_many(self, numbers: Sequence[int]) -> list[dict[str, Any]]:
        """Return the args of records, decoded in one call if possible; {} if a record has none."""
        texts = [self._text_of(number) for number in numbers]
        if all(texts):
            try:
                values = json.loads(b"[%s]" % b",".join(texts))
            except (ValueError, RecursionError):
                values = []
            if len(values) == len(texts):
                return [value if isinstance(value, dict) else {} for value in values]
        return [self.get(number, {}) for number in numbers]

    def _text_of(self, number: int) -> bytes | bytearray:
        """Return the JSON of a record's args; empty if they are missing or were repaired."""
        index = bisect_left(self._numbers, number)
        if index == len(self._numbers) or self._numbers[index] != number:
            return b""
        return self._text[self._ends[index] : self._ends[index + 1]]


def _args_of(value: Any) -> dict[str, Any]:
    args = value.get("args") if isinstance(value, dict) else None
    return args if isinstance(args, dict) else {}


def _decode_leniently(text: bytes) -> Any:
    try:
        return json.loads(repair_json(text))
    except (ValueError, RecursionError):
        return decode_or_none(text)
