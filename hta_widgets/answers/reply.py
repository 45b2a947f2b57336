"""One reply for all tables: a JSON envelope, CSV, Markdown, or text for a terminal.

The envelope states what the rows are and how to get them again::

    {"schema": "hta-widgets/table", "version": 1, "job": {…}, "table": "kernel_breakdown",
     "columns": [{"name": "sum_ns", "dtype": "int64", "unit": "ns", "meaning": "…"}, …],
     "rows": [[0, "compute", "gemm", …], …], "total_rows": 232, "note": "", "problems": [],
     "code": "traces = hw.load('job'); frame = hw.analysis.kernel_breakdown(traces)"}

Rows are lists in the order of the columns; unknown values are null. docs/answers.md has the JSON
Schema.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import pandas as pd

from hta_widgets.answers.columns import ColumnFacts, describe_columns, dtype_name
from hta_widgets.errors import TraceError, redact_urls
from hta_widgets.files import table_bytes
from hta_widgets.text import escape_controls, shorten_words
from hta_widgets.trace.problems import Problem
from hta_widgets.trace.traceset import TraceSet

Form = Literal["json", "csv", "markdown", "text"]

VERSION = 1
TABLE_SCHEMA, ERROR_SCHEMA = "hta-widgets/table", "hta-widgets/error"
MAX_PROBLEMS = 12
_MAX_CELL = 100  # characters of a cell in a table that people read


@dataclass(frozen=True)
class TableReply:
    """A table with all that a program needs to read it."""

    frame: pd.DataFrame  # the rows that are shown
    table: str  # name of the analysis, whose docstring explains the columns
    job: Mapping[str, Any]
    total_rows: int  # number of rows before the limit
    note: str = ""
    problems: Sequence[Mapping[str, Any]] = ()
    code: str = ""
    more: Mapping[str, Any] = field(default_factory=dict)  # further keys of the envelope

    @property
    def columns(self) -> list[ColumnFacts]:
        """Facts of the columns, in order."""
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
        """Return how many rows are shown, unless all are, and the note."""
        shown = len(self.frame)
        rows = f"{shown:,} of {self.total_rows:,} rows" if shown < self.total_rows else ""
        remark = "; ".join(filter(None, (rows, self.note)))
        return "no rows" if not remark and not shown else remark

    def format(self, form: Form) -> str:
        """Return the reply in one of the forms."""
        if form == "json":
            return json_text(self.envelope())
        if form == "csv":
            return table_bytes(self.frame, "csv").decode("utf-8").replace("\r\n", "\n").rstrip("\n")
        cells = [list(map(str, self.frame.columns))]
        cells += [[_cell_text(value) for value in row] for row in self.rows()]
        is_number = [dtype_name(dtype) not in {"str", "bool"} for dtype in self.frame.dtypes]
        if form == "markdown":
            lines = markdown_lines(cells, is_number)
        else:
            lines = text_lines(cells, is_number)
        remark = self.remark()
        return "\n".join([*lines, *(["", remark] if remark else [])])


def json_value(value: Any) -> Any:
    """Return a cell as a JSON value; unknown numbers and infinities are None."""
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
    """Return JSON text with a line for each key and each item of a list; controls are escaped."""

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
    """Return the JSON values of an error."""
    parts = {name: getattr(error, name) for name in ("message", "path", "place", "remedy")}
    return {"schema": ERROR_SCHEMA, "version": VERSION, "error": parts}


def _cell_text(value: Any) -> str:
    """Return the text of a cell: integers in full, other numbers with four digits."""
    if value is None:
        return ""
    if isinstance(value, float):
        return f"{value:.4g}" if abs(value) < 1e4 else f"{value:.0f}"
    text = escape_controls(shorten_words(str(value)))
    return text if len(text) <= _MAX_CELL else f"{text[: _MAX_CELL - 1]}…"


def text_lines(
    rows: Sequence[Sequence[str]], is_number: Sequence[bool] | None = None
) -> Iterator[str]:
    """Yield rows of texts as aligned lines.

    Columns of numbers are aligned to the right; by default, all columns except the last one are.
    """
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    is_right = is_number or [True] * (len(widths) - 1) + [False]
    for row in rows:
        cells = zip(row, widths, is_right, strict=True)
        yield "  ".join(
            cell.rjust(width) if right else cell.ljust(width) for cell, width, right in cells
        ).rstrip()


def markdown_lines(rows: Sequence[Sequence[str]], is_number: Sequence[bool]) -> Iterator[str]:
    """Yield rows of texts as a Markdown table; markup in the texts is escaped."""
    head, *body = ([escape_markdown(cell) for cell in row] for row in rows)
    yield f"| {' | '.join(head)} |"
    yield f"|{'|'.join('---:' if number else '---' for number in is_number)}|"
    yield from (f"| {' | '.join(row)} |" for row in body)


_MARKUP = re.compile(r"[\\`*\[\]|#!~]|(?<!\w)_|_(?!\w)")
_ENTITIES = {"<": "&lt;", ">": "&gt;", "@": "&#64;", "&": "&amp;"}


def escape_markdown(text: str) -> str:
    """Return text with the markup of Markdown and HTML escaped."""
    text = "".join(_ENTITIES.get(character, character) for character in text)
    return _MARKUP.sub(r"\\\g<0>", text).replace("&\\#64;", "&#64;")


def job_facts(traces: TraceSet, paths: Iterable[str]) -> dict[str, Any]:
    """Return what an envelope states about a job."""
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
    """Return one problem per kind and detail, the most records first."""
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
    count = sum(problem["count"] for problem in others)
    detail = f"{len(others)} more kinds: hw.load(…).problems lists them"
    last = {"rank": None, "file": None, "files": 0, "kind": "others", "count": count}
    return [*shown, last | {"detail": detail}]


def _only(values: Iterable[Any]) -> Any:
    distinct = set(values)
    return distinct.pop() if len(distinct) == 1 else None
