"""By what operators are grouped: their names, the shapes of their inputs, their call stacks."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from hta_widgets.trace.trace import Trace
from hta_widgets.trace.event_args import event_args
from hta_widgets.trace.ordering import dense

from hta_widgets.analysis.host_stack import forest_of
from hta_widgets.analysis.host_stack import nearest
from hta_widgets.analysis.host_stack import of_category

__all__ = ["Column", "Groups", "call_stacks", "input_shapes", "names_of"]

Ints = npt.NDArray[np.int64]
Rows = npt.NDArray[np.intp]


@dataclass(frozen=True, slots=True)
class Column:
    """Strings as codes into `values`."""

    code: Ints
    values: Sequence[str]


@dataclass(frozen=True, slots=True)
class Groups:
    """Events that agree in some columns; all groups occur.

    Attributes
    ----------
    code : array of int64
        The group of each event.
    columns : list of Column
        The strings of each group.
    """

    code: Ints
    columns: list[Column]

    @classmethod
    def of(cls, columns: Sequence[Column]) -> Groups:
        """Return the groups of events with these columns."""
        code, known = dense(columns[0].code, len(columns[0].values))
        chosen = [known]
        for column in columns[1:]:
            key = code.astype(np.int64) * max(len(column.values), 1) + column.code
            pairs, code = np.unique(key, return_inverse=True)
            before, value = np.divmod(pairs, max(len(column.values), 1))
            chosen = [values[before] for values in chosen] + [value]
        return cls(
            code.astype(np.int64),
            [Column(codes, column.values) for codes, column in zip(chosen, columns, strict=True)],
        )

    def sums(self, values: Ints) -> Ints:
        """Add up the events' values by group, in integers."""
        total = np.zeros(len(self.columns[0].code), dtype=np.int64)
        np.add.at(total, self.code, values)
        return total

    def texts(self, groups: Rows) -> list[list[str]]:
        """Return the strings of some groups, column by column."""
        return [
            [column.values[code] for code in column.code[groups].tolist()]
            for column in self.columns
        ]


def names_of(trace: Trace, rows: Rows) -> Column:
    """Return the events' names."""
    table = trace.table
    return Column(table.name[rows].astype(np.int64), table.names.values)


def input_shapes(trace: Trace, rows: Rows) -> Column:
    """Return the shapes of the inputs as JSON text, empty where the file has none."""
    args = event_args(trace, rows, ("Input Dims", "Input dims"))
    texts = [
        _text(new if old is None else old)
        for new, old in zip(args["Input Dims"], args["Input dims"], strict=True)
    ]
    return _coded(texts)


def call_stacks(trace: Trace, rows: Rows) -> Column:
    """Return the call stacks, the innermost call first, empty where the file has none."""
    stated = event_args(trace, rows, ("Call stack",))["Call stack"]
    if any(stated):
        return _coded([_text(stack) for stack in stated])
    return _python_stacks(trace, rows)


def _python_stacks(trace: Trace, rows: Rows) -> Column:
    """Return the names of the Python functions that enclose the events."""
    table = trace.table
    python = of_category(trace, "python_function")
    functions = np.flatnonzero(python)
    position = np.full(len(table) + 1, -1, dtype=np.int64)
    position[functions] = np.arange(len(functions))
    above = position[nearest(table.parent, python)]
    forest = forest_of(above[table.parent[functions]])
    stack = np.zeros(len(functions) + 1, dtype=np.int64)  # the last is that of no function
    texts = [""]
    # Functions with one name under one stack share a stack; from the outermost inwards.
    for members in forest.levels:
        key = stack[forest.parent[members]] * len(table.names) + table.name[functions[members]]
        pairs, code = np.unique(key, return_inverse=True)
        stack[members] = len(texts) + code
        outer_stacks, names = np.divmod(pairs, len(table.names))
        for outer, name in zip(outer_stacks.tolist(), names.tolist(), strict=True):
            texts.append(f"{table.names[name]};{texts[outer]}" if outer else table.names[name])
    return Column(stack[above[table.parent[rows]]], texts)


def _text(value: Any) -> str:
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value, separators=(", ", ": "))


def _coded(texts: Sequence[str]) -> Column:
    codes: dict[str, int] = {}
    code = np.array([codes.setdefault(text, len(codes)) for text in texts], dtype=np.int64)
    return Column(code, list(codes))
