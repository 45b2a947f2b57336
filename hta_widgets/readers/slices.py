"""Cuts the text of a list into slices of whole records.

A cut is guessed, by searching backwards for ``}, {``, and proven by the strict decoder: a stretch
that was cut within a record cannot be balanced by one closing bracket.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

__all__ = ["separators_before"]

_BLANK = b" \t\r\n"
_COMMA, _CLOSE = ord(","), ord("}")
_KEYS = re.compile(rb'\{\s*"(?:ph|name|cat|pid|tid|ts|dur|id|args|s|bp)"\s*:')
_MOST = 8
_LOOK_BACK = 1 << 20


def separators_before(text: bytes, low: int, high: int) -> Iterator[int]:
    """Yield positions of commas that seem to separate records, from the last on, a few at most.

    Commas before an object that begins with a key of trace records come first.
    """
    possible: list[int] = []
    likely = 0
    brace = high
    floor = max(low, high - _LOOK_BACK)
    while likely < _MOST and (brace := text.rfind(b"{", floor, brace)) >= 0:
        comma = _last_of(text, low, brace, _COMMA)
        if comma < 0 or _last_of(text, low, comma, _CLOSE) < 0:
            continue
        if _KEYS.match(text, brace):
            likely += 1
            yield comma
        elif len(possible) < _MOST:
            possible.append(comma)
    yield from possible


def _last_of(text: bytes, low: int, high: int, char: int) -> int:
    """Position of the last byte before `high` that is not blank, if it is `char`, else -1."""
    position = high - 1
    while position >= low and text[position] in _BLANK:
        position -= 1
    return position if position >= low and text[position] == char else -1
