"""The ids that join records: numbers as numbers while reading, as text only when asked for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from hta_widgets.trace.table import Ints
from hta_widgets.trace.table import Pool

from hta_widgets.formats.kineto.exact_time import plain_integers

__all__ = ["FlowIds"]

_ABSENT = -1


class FlowIds:
    """Codes for the JSON text of ids: a number for a number, below -1 for any other text."""

    def __init__(self) -> None:
        self._others = Pool()

    def codes(self, texts: Sequence[Any]) -> Ints:
        """Return a code for each JSON text; -1 where it is empty."""
        numbers = plain_integers(texts, _ABSENT)
        if numbers is not None:
            return numbers
        return np.fromiter((self._code(bytes(text)) for text in texts), np.int64, len(texts))

    def finish(self, codes: Ints) -> tuple[npt.NDArray[np.int32], Pool]:
        """Return codes from 0 up, and the texts that they stand for."""
        low, high = (int(codes.min()), int(codes.max())) if len(codes) else (_ABSENT, _ABSENT)
        if low >= _ABSENT and high < 4 * len(codes):
            # The profiler counts its ids: they are codes as they are, and need not be sorted.
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


class _IdPool(Pool):
    """A pool of ids whose texts are made when they are asked for."""

    __slots__ = ("_count", "_numbers", "_others")

    def __init__(self, numbers: Ints | None, others: list[str], count: int) -> None:
        self._numbers = numbers  # None: every code stands for itself
        self._others = others
        self._count = count

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, code: int) -> str:
        if not 0 <= code < self._count:
            raise IndexError(code)
        number = code if self._numbers is None else int(self._numbers[code])
        return str(number) if number >= 0 else self._others[-2 - number]

    @property
    def values(self) -> list[str]:  # type: ignore[override]
        return [self[code] for code in range(len(self))]

    def add(self, value: str) -> int:
        raise TypeError(f"ids are read-only; cannot add {value!r}")

    def __reduce__(self) -> tuple[Any, ...]:
        return (_IdPool, (self._numbers, self._others, self._count))
