"""Describe the columns of a table: dtype, unit, and a meaning in one line.

Units follow from the ends of names (``dur_ns``). Meanings come from the section *Returns* of the
docstring of the analysis, else from ``facts/columns.json``, which has the columns that mean the
same everywhere. In a docstring, code spans name columns and their explanation follows::

    - ``rank, stream`` (int64); ``gaps`` (int64): number of gaps with such time
    - ``idle_share`` (float): of the rank's idle time, 0..1; NaN without idle time

Here ``gaps`` means "number of gaps with such time", ``rank`` and ``stream`` have no explanation of
their own, and ``idle_share`` is explained up to the semicolon. In the file, ``same`` has columns
that mean the same in all tables, ``default`` those that docstrings may explain better. ``*`` of a
table explains the columns whose names come from the trace.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable
from functools import cache
from typing import TypedDict

import pandas as pd

from hta_widgets import analysis
from hta_widgets.facts import facts


class ColumnFacts(TypedDict):
    """A column's description for programs; `unit` is empty for counts and texts."""

    name: str
    dtype: str
    unit: str
    meaning: str


_SHARE = "share 0..1"
#: By the end of a name, or of a part of it; the first that fits counts.
_UNITS = {
    "tflop_per_s": "TFLOP/s",
    "gb_per_s": "GB/s",
    "_gb_s": "GB/s",
    "_per_s": "1/s",
    "_ns": "ns",
    "_us": "us",
    "_ms": "ms",
    "_s": "s",
    "_bytes": "bytes",
    "_mib": "MiB",
    "_pct": "%",
    "_ppm": "ppm",
    "_share": _SHARE,
    "share_of": _SHARE,
    "_flops": "FLOP",
}
_OTHER_UNITS = {
    **dict.fromkeys(("bytes", "size_lo", "size_hi", "shared_memory"), "bytes"),
    **dict.fromkeys(("share", "mfu", "hfu", "matrix_efficiency", "score", "blame"), _SHARE),
    "flops": "FLOP",
}
#: Statistics of rates, named as in `DataFrame.describe`.
_STATISTICS = frozenset(("mean", "time_weighted_mean", "std", "min", "25%", "50%", "75%", "max"))
_RATES = "memory_bandwidth_summary"
_MAX_MEANING = 200
_DTYPE = re.compile(
    r"^(?:all |are |the latter two |list of )?"
    r"(?:u?int\d+|float(?:64)?|bool|object|str|text|categor(?:y|ical))\b"
)
_PARENTHESES = re.compile(r"\s*\(((?:[^()]|\([^()]*\))*)\)")
_LIST_END = re.compile(r"(?:,|\band)\s*$")
_SPAN = re.compile(r"``([^`]+)``")
_SAME_AS = re.compile(r"\bas in\s+`(\w+)`")


def describe_columns(frame: pd.DataFrame, table: str) -> list[ColumnFacts]:
    """Return the facts of each column of `frame`, which the analysis called `table` returned."""
    names = tuple(map(str, frame.columns))
    meanings = column_meanings(table, names)
    return [
        {
            "name": name,
            "dtype": dtype_name(frame.dtypes.iloc[place]),
            "unit": "GB/s" if table == _RATES and name in _STATISTICS else unit_of(name),
            "meaning": meanings.get(name, ""),
        }
        for place, name in enumerate(names)
    ]


def unit_of(name: str) -> str:
    """Return the unit of a column by its name; empty for counts, codes and texts."""
    parts = (unit for part, unit in _UNITS.items() if f"{part}_" in f"{name}_")
    return _OTHER_UNITS.get(name) or next(parts, "")


def dtype_name(dtype: object) -> str:
    """Return the name of a dtype in the envelope; texts and categories are ``str``."""
    name = str(dtype).lower()
    if name.startswith(("str", "category", "object")):
        return "str"
    return name.replace("boolean", "bool")


@cache
def column_meanings(table: str, names: tuple[str, ...]) -> dict[str, str]:
    """Return the meaning of each column that has one."""
    shared = facts("columns")
    function = getattr(analysis, table, None)
    explained = {} if function is None else _meanings_in(returns_section(function), names)
    of_table = shared.get(table, {})
    meanings = shared["default"] | explained | shared["same"] | of_table
    # Names that the trace chose, such as those of counters, are explained together.
    of_others = of_table.get("*", "")
    pairs = [(name, meanings.get(name) or of_others) for name in names]
    return {name: meaning for name, meaning in pairs if meaning}


def returns_section(function: Callable[..., object]) -> str:
    """Return the section *Returns* of a docstring, without its heading."""
    lines = (inspect.getdoc(function) or "").split("\n")
    starts = [at for at, line in enumerate(lines) if set(line) == {"-"} and at]
    for number, at in enumerate(starts):
        if lines[at - 1] == "Returns":
            end = starts[number + 1] - 1 if number + 1 < len(starts) else len(lines)
            return "\n".join(lines[at + 1 : end])
    return ""


def _meanings_in(section: str, names: Iterable[str]) -> dict[str, str]:
    meanings: dict[str, str] = {}
    columns = set(names)
    for item in _items_of(section):
        spans = [
            (span, mentioned)
            for span in _SPAN.finditer(item)
            if (mentioned := [part.strip() for part in span[1].split(",")])
            and columns.issuperset(mentioned)
        ]
        stop = 0
        for place, (span, mentioned) in enumerate(spans):
            if span.start() < stop:  # a column that the explanation of another one names
                continue
            later = [following.start() for following, _ in spans[place + 1 :]]
            clause = _clause_after(item, span.end(), later)
            stop = span.end() + len(clause)
            aside, explanation = _parts_of_clause(clause)
            for name in mentioned:
                # Parentheses explain the last of several names.
                texts = [aside, explanation] if name == mentioned[-1] else [explanation]
                if name not in meanings and (text := _meaning_of(texts, name)):
                    meanings[name] = text
    return meanings


def _items_of(section: str) -> list[str]:
    """Return the bullets and paragraphs of a section, each on one line."""
    # Terms of a definition list stand on a line of their own.
    section = re.sub(r"(?m)^( *``[^\n]+``)\n {5,}", r"\n\1: ", section)
    section = re.sub(r"\)``,\s", "), ``", section)
    section = re.sub(r"\)``\s+and\s+``", ") and ``", section)
    section = re.sub(r"``\s*and\s+``(?=\w+``)", "``, ``", section)
    items = re.split(r"\n\s*\n|\n\s*- ", section)
    return [" ".join(item.split()) for item in items]


def _clause_after(item: str, start: int, spans: list[int]) -> str:
    """Return the text from `start` to the end of its clause, or to the next column of a list."""
    depth, has_colon = 0, False
    for at in range(start, len(item)):
        character = item[at]
        depth += (character == "(") - (character == ")")
        if depth > 0:
            continue
        has_colon |= character == ":"
        if character == ";" or (character == "." and item[at + 1 : at + 2] in {"", " "}):
            return item[start:at]
        if at in spans and not has_colon and (end := _LIST_END.search(item[start:at])):
            return item[start : start + end.start()]
    return item[start:]


def _parts_of_clause(clause: str) -> tuple[str, str]:
    """Return the text in parentheses and the one after them, both without the dtype."""
    inner = _PARENTHESES.match(clause)
    parts = (inner[1], clause[inner.end() :]) if inner else ("", clause)
    aside, explanation = (_DTYPE.sub("", part.strip(" :,")).strip(" :,;") for part in parts)
    return aside, explanation


def _meaning_of(texts: Iterable[str], name: str) -> str:
    text = "; ".join(filter(None, texts))
    if same := _SAME_AS.search(text):
        other = getattr(analysis, same[1], None)
        section = "" if other is None else returns_section(other)
        meaning = _meanings_in(section, re.findall(r"[\w%]+", section)).get(name)
        return meaning or facts("columns")["default"].get(name, "")
    text = text.replace("``", "").replace("`", "")
    return text if len(text) <= _MAX_MEANING else f"{text[: _MAX_MEANING - 1].rstrip()}…"
