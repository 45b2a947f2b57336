"""Format tables as a JSON envelope, as CSV, as Markdown, or as text for a terminal.

The envelope describes the rows and contains the code that computes them::

    {"schema": "hta-widgets/table", "version": 1, "job": {…}, "table": "kernel_breakdown",
     "columns": [{"name": "sum_ns", "dtype": "int64", "unit": "ns", "meaning": "…"}, …],
     "rows": [[0, "compute", "gemm", …], …], "total_rows": 232, "note": "", "problems": [],
     "code": "traces = hw.load('job'); frame = hw.analysis.kernel_breakdown(traces)"}

Each row lists its values in the order of the columns. Unknown values are null. The JSON Schema is
in docs/answers.md.
"""

from __future__ import annotations

import json
import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from itertools import accumulate
from textwrap import wrap
from typing import Any, Literal

import numpy as np
import pandas as pd

from hta_widgets.answers.columns import ColumnFacts, describe_columns, dtype_name
from hta_widgets.errors import TraceError, redact_urls
from hta_widgets.files import table_bytes
from hta_widgets.text import count, cut_text, escape_controls, shorten_words
from hta_widgets.trace.problems import Problem
from hta_widgets.trace.traceset import TraceSet

Form = Literal["json", "csv", "markdown", "text"]

VERSION = 1
TABLE_SCHEMA, ERROR_SCHEMA = "hta-widgets/table", "hta-widgets/error"
MAX_PROBLEMS = 12
#: Maximum number of characters in a cell, and the width to which text columns may shrink.
_MAX_CELL, _MIN_TEXT = 100, 24
_GAP = "  "  # between text columns


@dataclass(frozen=True)
class TableReply:
    """A table with everything needed to read it."""

    frame: pd.DataFrame  # the rows shown
    table: str  # name of an analysis, whose docstring explains the columns
    job: Mapping[str, Any]
    total_rows: int  # before the limit
    note: str = ""
    problems: Sequence[Mapping[str, Any]] = ()
    code: str = ""
    more: Mapping[str, Any] = field(default_factory=dict)  # further keys of the envelope

    @property
    def columns(self) -> list[ColumnFacts]:
        """The descriptions of the columns, in order."""
        return describe_columns(self.frame, self.table)

    def rows(self) -> list[list[Any]]:
        """Return the rows as JSON values."""
        columns = [list(map(json_value, column)) for _, column in self.frame.items()]
        return list(map(list, zip(*columns, strict=True)))

    def envelope(self) -> dict[str, Any]:
        """Return the reply as JSON values."""
        return {
            "schema": TABLE_SCHEMA,
            "version": VERSION,
            "job": dict(self.job),
            "table": self.table,
            "columns": self.columns,
            "rows": self.rows(),
            "total_rows": self.total_rows,
            "note": self.note,
            "problems": list(self.problems),
            "code": self.code,
            **self.more,
        }

    def remark(self) -> str:
        """Return the note. If the table was cut, the number of rows shown precedes it."""
        shown = len(self.frame)
        is_cut = shown < self.total_rows
        rows = f"{count(shown)} of {count(self.total_rows)} rows" if is_cut else ""
        remark = "; ".join(filter(None, (rows, self.note)))
        return "no rows" if not remark and not shown else remark

    def format(self, form: Form, max_width: int = 0) -> str:
        """Format the reply. Lines of text have at most `max_width` characters (0: no limit)."""
        if form == "json":
            return json_text(self.envelope())
        if form == "csv":
            return table_bytes(self.frame, "csv").decode("utf-8").replace("\r\n", "\n").rstrip("\n")
        cells = [[escape_controls(str(name)) for name in self.frame.columns]]
        cells += [[_cell_text(value) for value in row] for row in self.rows()]
        is_number = [dtype_name(dtype) not in {"str", "bool"} for dtype in self.frame.dtypes]
        remarks = [remark] if (remark := self.remark()) else []
        if form == "markdown":
            lines = list(markdown_lines(cells, is_number))
        else:
            lines = list(text_lines(cells, is_number))
            if max_width and max(map(len, lines)) > max_width:
                lines, left_out = _narrow_lines(cells, is_number, max_width)
                remarks = [*left_out, *remarks]
        return "\n".join([*lines, *([""] if remarks else []), *remarks])


def json_value(value: Any) -> Any:
    """Convert a cell to a JSON value. NaN, infinity and NA become None."""
    if isinstance(value, (str, bool, int)) or value is None:
        return value
    if isinstance(value, Mapping):
        return {str(key): json_value(item) for key, item in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [json_value(item) for item in value]
    if isinstance(value, (np.ndarray, np.generic)):
        return json_value(value.tolist())
    if isinstance(value, float):
        return value if np.isfinite(value) else None
    return None if value is pd.NA or value is pd.NaT else str(value)


def json_text(envelope: Mapping[str, Any]) -> str:
    """Return JSON text with a line per key and list item, and with control characters escaped."""

    def encode(value: Any) -> str:
        return json.dumps(value, ensure_ascii=False, allow_nan=False)

    lines = []
    for key, value in envelope.items():
        text = encode(value)
        if isinstance(value, list) and value:
            text = "[\n    " + ",\n    ".join(map(encode, value)) + "\n  ]"
        lines.append(f"  {encode(key)}: {text}")
    text = "{\n" + ",\n".join(lines) + "\n}"
    return "\n".join(map(escape_controls, text.split("\n")))


def error_envelope(error: TraceError) -> dict[str, Any]:
    """Return an error as JSON values."""
    parts = {name: getattr(error, name) for name in ("message", "path", "place", "remedy")}
    return {"schema": ERROR_SCHEMA, "version": VERSION, "error": parts}


def _cell_text(value: Any) -> str:
    """Return the text of a cell. Integers are written in full, other numbers with four digits."""
    if value is None:
        return ""
    if isinstance(value, float):
        return f"{value:.4g}" if abs(value) < 1e4 else f"{value:.0f}"
    return cut_text(escape_controls(shorten_words(str(value))), _MAX_CELL)


def _narrow_lines(
    rows: Sequence[Sequence[str]], is_number: Sequence[bool], max_width: int
) -> tuple[list[str], list[str]]:
    """Return the lines of a table wider than `max_width`, and lines naming the omitted columns.

    A single row is shown in full, as a list of names and values.
    """
    if len(rows) == 2:
        return list(text_lines(list(zip(*rows, strict=True)), [False, False])), []
    fitted = _fit_width(rows, is_number, max_width)
    shown, total = len(fitted[0]), len(rows[0])
    lines = list(text_lines(fitted, is_number[:shown]))
    if shown == total:
        return lines, []
    remark = (
        f"{shown} of {total} columns fit. `table` --columns chooses others; --json, --csv and"
        f" --markdown have all. Left out: {', '.join(rows[0][shown:])}"
    )
    return lines, wrap(remark, max_width)


def _fit_width(
    rows: Sequence[Sequence[str]], is_number: Sequence[bool], max_width: int
) -> list[list[str]]:
    """Return the leading columns that fit in `max_width`, cutting long texts.

    Numbers and column names are never cut.
    """
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    min_widths = [
        width if is_uncut else max(len(name), min(width, _MIN_TEXT))
        for width, is_uncut, name in zip(widths, is_number, rows[0], strict=True)
    ]
    line_widths = list(accumulate(min_widths, lambda line, width: line + len(_GAP) + width))
    shown = max(1, bisect_right(line_widths, max_width))
    spare = max(0, max_width - line_widths[shown - 1])
    limits = []
    for width, min_width in zip(widths[:shown], min_widths[:shown], strict=True):
        limits.append(min(width, min_width + spare))
        spare -= limits[-1] - min_width
    return [list(map(cut_text, row[:shown], limits)) for row in rows]


def text_lines(
    rows: Sequence[Sequence[str]], is_number: Sequence[bool] | None = None
) -> Iterator[str]:
    """Yield rows of strings as aligned lines.

    Columns of numbers are right-aligned. By default, all columns but the last are.
    """
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    is_right = is_number or [True] * (len(widths) - 1) + [False]
    for row in rows:
        cells = zip(row, widths, is_right, strict=True)
        yield _GAP.join(
            cell.rjust(width) if right else cell.ljust(width) for cell, width, right in cells
        ).rstrip()


def markdown_lines(rows: Sequence[Sequence[str]], is_number: Sequence[bool]) -> Iterator[str]:
    """Yield rows of strings as a Markdown table, escaping markup in the strings."""
    head, *body = ([escape_markdown(cell) for cell in row] for row in rows)
    yield f"| {' | '.join(head)} |"
    yield f"|{'|'.join('---:' if number else '---' for number in is_number)}|"
    yield from (f"| {' | '.join(row)} |" for row in body)


_MARKUP = re.compile(r"[\\`*\[\]|#!~]|(?<!\w)_|_(?!\w)")


def escape_markdown(text: str) -> str:
    """Escape the markup of Markdown and HTML in text, and disable mentions."""
    return escape(_MARKUP.sub(r"\\\g<0>", text), quote=False).replace("@", "&#64;")


def job_facts(traces: TraceSet, paths: Iterable[str]) -> dict[str, Any]:
    """Describe a job for the envelope."""
    start_ns, end_ns = traces.span_ns
    return {
        "paths": list(map(redact_urls, paths)),
        "format": traces.format,
        "ranks": len(traces),
        "events": sum(map(len, traces.values())),
        "clock": traces.clock,
        "start_ns": int(start_ns),
        "end_ns": int(end_ns),
    }


def grouped_problems(traces: TraceSet) -> list[dict[str, Any]]:
    """Return one problem per kind and detail, sorted by the number of records."""
    groups: dict[tuple[str, str], list[Problem]] = {}
    for problem in traces.problem_list:
        groups.setdefault((problem.kind, problem.detail), []).append(problem)
    problems: list[dict[str, Any]] = [
        {
            "rank": _only(problem.rank for problem in group),
            "file": _only(problem.file for problem in group),
            "files": len({problem.file for problem in group}),
            "kind": kind,
            "count": sum(problem.count for problem in group),
            "detail": detail,
        }
        for (kind, detail), group in groups.items()
    ]
    problems.sort(key=lambda problem: -problem["count"])
    if len(problems) <= MAX_PROBLEMS:
        return problems
    shown, others = problems[: MAX_PROBLEMS - 1], problems[MAX_PROBLEMS - 1 :]
    records = sum(problem["count"] for problem in others)
    detail = f"{len(others)} more kinds: hw.load(…).problems lists them"
    last = {"rank": None, "file": None, "files": 0, "kind": "others", "count": records}
    return [*shown, last | {"detail": detail}]


def _only(values: Iterable[Any]) -> Any:
    distinct = set(values)
    return distinct.pop() if len(distinct) == 1 else None
