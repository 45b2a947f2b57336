"""The args of metadata and of counters: kept as text, decoded one by one when asked for."""

from __future__ import annotations

import json
from array import array
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Raw, Struct

from hta_widgets.formats.kineto.records import loads_loosely

__all__ = ["SmallArgs"]


class _WithArgs(Struct, gc=False):
    args: Raw = Raw(b"")


_args_text = msgspec.json.Decoder(_WithArgs).decode
_decode = json.JSONDecoder().decode


class SmallArgs(Mapping[int, dict[str, Any]]):
    """Args by the number of their record; of a million counters, dictionaries would fill memory."""

    def __init__(self) -> None:
        self._numbers = array("q")
        self._ends = array("q", [0])
        self._text = bytearray()
        self._odd: dict[int, dict[str, Any]] = {}

    def add(self, number: int, body: Any) -> None:
        """Take the args of a record, given its JSON text; numbers come in ascending order."""
        try:
            text: Any = _args_text(body).args
        except msgspec.DecodeError:
            text = b""
            self._odd[number] = _of_value(_understood(bytes(body)))
        self._text += text
        self._numbers.append(number)
        self._ends.append(len(self._text))

    def get(self, number: int, default: Any = None) -> Any:
        """Return the args of a record, `default` where it has none."""
        at = bisect_left(self._numbers, number)
        if at == len(self._numbers) or self._numbers[at] != number:
            return default
        text = self._text[self._ends[at] : self._ends[at + 1]]
        if not text:
            return self._odd.get(number) or default
        try:
            value = _decode(text.decode())
        except (ValueError, RecursionError):
            value = _understood(bytes(text))
        return (value if isinstance(value, dict) else {}) or default

    def many(self, numbers: Sequence[int]) -> list[dict[str, Any]]:
        """Return the args of records, empty where there are none: all decoded at once."""
        ends, text = self._ends, self._text
        spans = []
        for number in numbers:
            at = bisect_left(self._numbers, number)
            known = at < len(self._numbers) and self._numbers[at] == number
            spans.append(text[ends[at] : ends[at + 1]] if known else b"")
        if all(spans):
            try:
                values = _decode(f"[{b','.join(spans).decode()}]")
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


def _of_value(value: Any) -> dict[str, Any]:
    args = value.get("args") if isinstance(value, dict) else None
    return args if isinstance(args, dict) else {}


def _understood(text: bytes) -> Any:
    """Decode JSON of any kind, or what comes near to it."""
    try:
        return json.loads(text)
    except ValueError:
        try:
            return json.loads(text.decode("utf-8", "replace"), strict=False)
        except ValueError:
            return loads_loosely(text)
