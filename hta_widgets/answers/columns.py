"""Describe the columns of a table: dtype, unit, and meaning in one line.

The unit follows from the end of the name (``dur_ns``). The meaning comes from the section *Returns*
of the analysis docstring or from ``facts/columns.json``, which describes columns with the same
meaning in all tables. In a docstring, an explanation follows the names in a code span::

    - ``rank, stream`` (int64); ``gaps`` (int64): number of gaps with such time
    - ``idle_share`` (float): of the rank's idle time, 0..1; NaN without idle time

Here ``gaps`` means "number of gaps with such time", ``rank`` and ``stream`` have no explanation,
and the explanation of ``idle_share`` ends at the semicolon. In the file, meanings under ``same``
override docstrings, and meanings under ``default`` apply without a docstring. The key ``*`` of a
table explains columns that are named by the trace.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable
from functools import cache
from itertools import pairwise
from typing import TypedDict

import pandas as pd

from hta_widgets import analysis
from hta_widgets.facts import facts
from hta_widgets.trace.event_columns import EVENT_COLUMNS


class ColumnFacts(TypedDict):
    """The description of a column. `unit` is empty for counts and strings."""

    name: str
    dtype: str
    unit: str
    meaning: str


_SHARE = "share 0..1"
#: Units, keyed by the end of a column name or of a part of it. The first match applies.
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
#: SQL aggregates that keep the unit of their column, such as ``max(dur_ns)``.
_SAME_UNIT = re.compile(r"(?:any_value|avg|max|median|min|mode|stddev|sum)\((?:\w+\.)?(\w+)\)")
_PARENTHESES = re.compile(r"\s*\(((?:[^()]|\([^()]*\))*)\)")
_LIST_END = re.compile(r"(?:,|\band)\s*$")
_SPAN = re.compile(r"``([^`]+)``")
_SAME_AS = re.compile(r"\bas in\s+`(\w+)`")


def describe_columns(frame: pd.DataFrame, table: str) -> list[ColumnFacts]:
    """Describe each column of `frame`, the result of the analysis `table`."""
    names = tuple(map(str, frame.columns))
    meanings = column_meanings(table, names)
    return [
        {
            "name": name,
            "dtype": dtype_name(dtype),
            "unit": _unit_in(table, name),
            "meaning": meanings.get(name, ""),
        }
        for name, dtype in zip(names, frame.dtypes, strict=True)
    ]


def _unit_in(table: str, name: str) -> str:
    if table == _RATES and name in _STATISTICS:
        return "GB/s"
    unit = unit_of(name)
    # In a query, any number may be named ``score`` or ``share``.
    is_any_number = table == "sql" and unit == _SHARE and "_share" not in name
    return "" if is_any_number else unit


def unit_of(name: str) -> str:
    """Return the unit of a column, or "" for counts, codes and strings."""
    if of_column := _SAME_UNIT.fullmatch(name):
        name = of_column[1]
    units = (unit for end, unit in _UNITS.items() if f"{end}_" in f"{name}_")
    return _OTHER_UNITS.get(name) or next(units, "")


def dtype_name(dtype: object) -> str:
    """Return the name of a dtype in the envelope. Strings and categories are ``str``."""
    name = str(dtype).lower()
    if name.startswith(("str", "category", "object")):
        return "str"
    return name.replace("boolean", "bool")


@cache
def column_meanings(table: str, names: tuple[str, ...]) -> dict[str, str]:
    """Return the meanings of those columns that have one."""
    shared = facts("columns")
    if table == "sql":
        # A query can give a column any name, so other meanings may not apply.
        of_events = column_meanings("events", ("rank", "id", *EVENT_COLUMNS))
        return {name: of_events.get(name, shared["sql"]["*"]) for name in names}
    function = getattr(analysis, table, None)
    explained = {} if function is None else _meanings_in(returns_section(function), names)
    of_table = shared.get(table, {})
    meanings = shared["default"] | explained | shared["same"] | of_table
    # Columns that are named by the trace, such as counters, share one explanation.
    of_others = of_table.get("*", "")
    pairs = [(name, meanings.get(name) or of_others) for name in names]
    return {name: meaning for name, meaning in pairs if meaning}


def returns_section(function: Callable[..., object]) -> str:
    """Return the section *Returns* of a docstring, without its heading."""
    lines = (inspect.getdoc(function) or "").split("\n")
    underlines = [index for index, line in enumerate(lines) if set(line) == {"-"} and index]
    for underline, following in pairwise([*underlines, len(lines) + 1]):
        if lines[underline - 1] == "Returns":
            return "\n".join(lines[underline + 1 : following - 1])
    return ""


def _meanings_in(section: str, names: Iterable[str]) -> dict[str, str]:
    meanings: dict[str, str] = {}
    columns = set(names)
    for item in _items_of(section):
        spans = [span for span in _SPAN.finditer(item) if columns.issuperset(_names_of(span))]
        explained_until = 0
        for place, span in enumerate(spans):
            if span.start() < explained_until:
                # The explanation of another column only mentions this one.
                continue
            later = [following.start() for following in spans[place + 1 :]]
            clause = _clause_after(item, span.end(), later)
            explained_until = span.end() + len(clause)
            aside, explanation = _parts_of_clause(clause)
            mentioned = _names_of(span)
            for name in mentioned:
                # Parentheses after several names explain only the last name.
                texts = [aside, explanation] if name == mentioned[-1] else [explanation]
                if name not in meanings and (text := _meaning_of(texts, name)):
                    meanings[name] = text
    return meanings


def _names_of(span: re.Match[str]) -> list[str]:
    """Return the names in a code span, which may contain several: ``rank, stream``."""
    return [name.strip() for name in span[1].split(",")]


def _items_of(section: str) -> list[str]:
    """Return the bullets and paragraphs of a section, each on one line."""
    # Join the terms of definition lists with their definitions.
    section = re.sub(r"(?m)^( *``[^\n]+``)\n {5,}", r"\n\1: ", section)
    section = re.sub(r"\)``\s+and\s+``", ") and ``", section)
    section = re.sub(r"``\s*and\s+``(?=\w+``)", "``, ``", section)
    return [" ".join(item.split()) for item in re.split(r"\n\s*\n|\n\s*- ", section)]


def _clause_after(item: str, start: int, later_columns: list[int]) -> str:
    """Return the text from `start` to the end of its clause, or to the next column in a list."""
    depth, has_colon = 0, False
    for index in range(start, len(item)):
        character = item[index]
        depth += (character == "(") - (character == ")")
        if depth > 0:
            continue
        has_colon |= character == ":"
        if character == ";" or (character == "." and item[index + 1 : index + 2] in {"", " "}):
            return item[start:index]
        # After a colon, a column name is part of the explanation.
        is_next = index in later_columns and not has_colon
        if is_next and (end := _LIST_END.search(item[start:index])):
            return item[start : start + end.start()]
    return item[start:]


def _parts_of_clause(clause: str) -> tuple[str, str]:
    """Return the text in parentheses and the text after them, without the dtype."""
    parentheses = _PARENTHESES.match(clause)
    parts = (parentheses[1], clause[parentheses.end() :]) if parentheses else ("", clause)
    aside, explanation = (_DTYPE.sub("", part.strip(" :,")).strip(" :,;") for part in parts)
    return aside, explanation


def _meaning_of(texts: Iterable[str], name: str) -> str:
    """Return the explanation of a column. "as in `other`" refers to the analysis `other`."""
    text = "; ".join(filter(None, texts))
    if same := _SAME_AS.search(text):
        other = getattr(analysis, same[1], None)
        section = "" if other is None else returns_section(other)
        meaning = _meanings_in(section, re.findall(r"[\w%]+", section)).get(name)
        return meaning or facts("columns")["default"].get(name, "")
    text = text.replace("``", "").replace("`", "")
    return text if len(text) <= _MAX_MEANING else f"{text[: _MAX_MEANING - 1].rstrip()}…"
