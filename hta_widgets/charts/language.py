"""Evaluates the expressions in chart definitions and fills in their text templates.

Expressions have Python syntax. Their value is a scalar, or an array with one element per item of
the frame or per row of the chart. Templates contain expressions in ``{placeholders}``.
``js/src/charts/language.ts`` is the counterpart in the page.
"""

from __future__ import annotations

import ast
import math
import operator
import re
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from itertools import chain
from typing import Any

import numpy as np
import pandas as pd

from hta_widgets import text
from hta_widgets.errors import TraceError
from hta_widgets.facts import facts
from hta_widgets.trace.names import disambiguate

Scope = dict[str, Any]
#: Largest number of rows for which the minimum and maximum are obvious from the chart.
_FEW_ROWS = 16


def length_text(mean: float) -> str:
    """Format a mean queue length with two significant digits, enough to compare short queues."""
    if not np.isfinite(mean):
        return text.value(None)
    if 0 < mean < 0.01:
        return "<0.01"
    digits = max(0, 1 - math.floor(math.log10(mean))) if mean > 0 else 0
    return text.value(float(text.fixed_decimals(mean, digits)))


def extremes_text(
    names: Sequence[str], values: object, format_value: Callable[[float], str]
) -> str:
    """Return the minimum and the maximum with their names as text; "" for up to 16 rows."""
    numbers = np.asarray(values, dtype=float)
    if len(numbers) <= _FEW_ROWS or not np.isfinite(numbers).any():
        return ""
    low, high = int(np.nanargmin(numbers)), int(np.nanargmax(numbers))
    low_text, high_text = format_value(numbers[low]), format_value(numbers[high])
    if low_text == high_text:
        return f"{low_text} on each"
    return f"{low_text} ({names[low]}) to {high_text} ({names[high]})"


#: Nouns that can follow a number: ``{steps:step}`` gives "1 step" or "2 steps".
NOUNS = (
    *("iteration", "key", "other", "rank", "routine", "step"),
    *("faster tensor", "other GPU", "root GPU"),
)
FORMATS: dict[str, Callable[[Any], str]] = {
    "duration": text.duration,
    "duration_delta": text.duration_delta,
    "time": text.time_point,
    "share": text.share,
    "delta": text.share_delta,
    "count": text.count,
    "value": text.value,
    "size": text.size,
    "binary_size": lambda high: text.binary_size(int(high)),
    "length": length_text,
    "tenths": lambda number: text.fixed_decimals(number, 1),
    "hundredths": lambda number: text.fixed_decimals(number, 2),
}
_PLACEHOLDER = re.compile(r"\{((?:'[^']*'|[^{}'])*)\}")
_FORMAT = re.compile(r"^(.*?)(?::([\w ]+))?$", re.DOTALL)


def is_rows(value: object) -> bool:
    """Return whether a value is an array with one element per item or row."""
    return isinstance(value, np.ndarray) and value.ndim > 0


def column(values: pd.Series) -> np.ndarray:
    """Convert a column to numbers, booleans or strings; missing numbers become NaN."""
    if pd.api.types.is_numeric_dtype(values.dtype):
        is_integer = values.dtype.kind in "iub"
        return values.to_numpy(
            values.dtype.name.lower() if is_integer and not values.hasnans else float
        )
    present = values[values.notna()]
    if len(present) and all(isinstance(value, bool | np.bool_) for value in present):
        return values.fillna(value=False).to_numpy(bool)
    if all(isinstance(value, float | int | np.number) for value in present):
        return values.to_numpy(float, na_value=np.nan)
    return np.array(["" if pd.isna(value) else str(value) for value in values], object)


def combination_codes(columns: list[Any]) -> np.ndarray:
    """Return a number for each item's combination of values, in order of first occurrence."""
    frame = pd.DataFrame(dict(enumerate(columns)))
    return frame.groupby(list(frame), sort=False, dropna=False).ngroup().to_numpy()


def _is_known(value: Any) -> Any:
    return value != "" if np.asarray(value).dtype.kind in "OU" else np.isfinite(value)


def _ratio(part: Any, whole: Any) -> Any:
    """Return ``part / whole`` element by element, or 0 where `whole` is not positive."""
    parts, wholes = np.broadcast_arrays(np.asarray(part, float), np.asarray(whole, float))
    return np.divide(parts, wholes, out=np.zeros(parts.shape), where=wholes > 0)


def _elementwise(function: Callable[..., Any]) -> Callable[..., Any]:
    """Extend a function of a scalar to columns, applying it to each value."""

    def apply(values: Any, *arguments: Any) -> Any:
        if not is_rows(values):
            return function(values, *arguments)
        results = np.empty(len(values), object)
        results[:] = [function(value, *arguments) for value in values]
        return results

    return apply


def _part(value: str, separator: str, index: int) -> str:
    parts = value.split(separator)
    return parts[index] if index < len(parts) else ""


_KINDS = {"COMPUTATION": "compute", "COMMUNICATION": "communication", "MEMORY": "memory"}


def _kinds(kernel_type: str) -> str:
    """Convert ``COMPUTATION overlapping COMMUNICATION`` to ``compute + communication``."""
    names = kernel_type.split(" overlapping ")
    return " + ".join(_KINDS.get(name.strip().upper(), "other") for name in names)


def _kind_names(kinds: str) -> str:
    """Convert ``communication + memory`` to ``communication + copies``."""
    return " + ".join(facts("kind_names").get(kind, kind) for kind in kinds.split(" + "))


#: Functions that take values. This includes `max` and `min` with several arguments.
CELLS: dict[str, Callable[..., Any]] = {
    "abs": np.abs,
    "ceil": np.ceil,
    "floor": np.floor,
    "known": _is_known,
    "default": lambda value, other: np.where(np.isfinite(value), value, other),
    "clip": lambda value, low, high: np.minimum(np.maximum(value, low), high),
    "ratio": _ratio,
    "order": lambda values: np.unique(values, return_inverse=True)[1],
    "codes": lambda *columns: combination_codes(list(columns)),
    "once": lambda keys: ~pd.Series(keys).duplicated().to_numpy(),
    "disambiguate": lambda short, name: np.array(disambiguate(list(short), list(name)), object),
    "extremes": lambda names, values, how: extremes_text(list(names), values, FORMATS[how]),
    "listed": lambda texts, separator=", ": separator.join(filter(None, texts)),
    "part": _elementwise(_part),
    "split": _elementwise(lambda value, separator: value.split(separator) if value else []),
    "kinds_of": _elementwise(_kinds),
    "kind_names": _elementwise(_kind_names),
    "removeprefix": _elementwise(lambda value, prefix: value.removeprefix(prefix)),
    "numbers": _elementwise(lambda values: list(map(int, values))),
    "size_range": lambda lows, highs: np.array(
        [text.size_range(int(low), int(high)) for low, high in zip(lows, highs, strict=True)],
        object,
    ),
}
#: Functions that reduce a column to one value, or to one per group: `by` returns a value per group,
#: `each` repeats it for every item of the group. `where` restricts the items.
COLUMNS = ("sum", "mean", "median", "max", "min", "any", "all", "count", "distinct", "first",
           "lists", "pick", "is_most")  # fmt: skip
#: The pandas names of aggregations that are named differently here, and results for empty groups.
_AGGREGATIONS: dict[str, Any] = {"count": "size", "distinct": "nunique", "lists": list}
_EMPTY_RESULTS = {"sum": 0, "count": 0, "distinct": 0, "any": False, "all": True}


def aggregate(name: str, columns: Sequence[Any], options: Mapping[str, Any]) -> Any:
    """Evaluate one of the functions in `COLUMNS`.

    For `pick` and `is_most`, the last column holds scores: `pick` returns the value with the
    highest score, and `is_most` whether an item has the highest score in its group.
    """
    values = np.asarray(columns[0])
    length = len(values)
    is_included = np.broadcast_to(options.get("where", True), length).astype(bool)
    keys = np.asarray(options.get("each", options.get("by", np.zeros(length))), int)
    groups = range(int(keys.max(initial=0)) + 1)
    unknown = "" if values.dtype.kind in "OU" else np.nan
    if name in ("pick", "is_most"):
        scores = pd.Series(np.asarray(columns[-1], float))[is_included].dropna()
        best = scores.groupby(keys[scores.index]).idxmax()
        if name == "is_most":
            return np.isin(np.arange(length), best)
        # Groups without scores get position -1; their results are replaced below.
        positions = best.reindex(groups, fill_value=-1).to_numpy()
        results = values[positions]
        if (positions < 0).any():
            results = np.where(positions < 0, unknown, results)
    else:
        grouped = pd.Series(values)[is_included].groupby(keys[is_included])
        aggregated = grouped.agg(_AGGREGATIONS.get(name, name))
        empty: Any = _EMPTY_RESULTS.get(name, unknown)
        results = aggregated.reindex(groups, fill_value=empty).to_numpy()
    if "each" in options:
        return results[keys]
    return results if "by" in options else results[0]


@cache
def parse_expression(code: str) -> ast.expr:
    """Parse an expression and return its syntax tree."""
    try:
        return ast.parse(code.strip(), mode="eval").body
    except SyntaxError as error:
        raise TraceError(
            f"{code!r} in a chart definition is not an expression: {error.msg}",
            remedy="Expressions have Python syntax; strings in them need quotes.",
        ) from None


def evaluate(code: str | float, scope: Mapping[str, Any]) -> Any:
    """Evaluate an expression with the names in `scope`."""
    return _evaluate_node(parse_expression(code), scope) if isinstance(code, str) else code


_OPERATORS: dict[type, Callable[[Any, Any], Any]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul,
    ast.Div: np.divide, ast.Mod: operator.mod,
    ast.Lt: operator.lt, ast.LtE: operator.le, ast.Gt: operator.gt, ast.GtE: operator.ge,
    ast.Eq: operator.eq, ast.NotEq: operator.ne,
    ast.In: np.isin,
}  # fmt: skip


def _evaluate_node(node: ast.expr, scope: Mapping[str, Any]) -> Any:
    match node:
        case ast.Constant(value=value):
            return value
        case ast.Name(id=name) if name in scope:
            return scope[name]
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            return np.logical_not(_evaluate_node(operand, scope))
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return np.negative(_evaluate_node(operand, scope))
        case ast.BoolOp(op=op, values=parts):
            combine = np.logical_and if isinstance(op, ast.And) else np.logical_or
            return combine.reduce(
                np.broadcast_arrays(*(_evaluate_node(part, scope) for part in parts))
            )
        case (
            ast.Compare(left=left, ops=[op], comparators=[right])
            | ast.BinOp(left=left, op=op, right=right)
        ) if type(op) in _OPERATORS:
            with np.errstate(divide="ignore", invalid="ignore"):
                operate = _OPERATORS[type(op)]
                return operate(_evaluate_node(left, scope), _evaluate_node(right, scope))
        case ast.Subscript(value=container, slice=key):
            return _evaluate_node(container, scope)[_evaluate_node(key, scope)]
        case ast.IfExp(test=test, body=body, orelse=orelse):
            condition = _evaluate_node(test, scope)
            if not is_rows(condition):
                return _evaluate_node(body if condition else orelse, scope)
            return np.where(condition, _evaluate_node(body, scope), _evaluate_node(orelse, scope))
        case ast.Call(func=ast.Name(id="text"), args=[ast.Constant(value=value)]):
            return fill_template(str(value), scope)
        case ast.Call(func=ast.Name(id=name), args=args, keywords=keywords):
            values = [_evaluate_node(arg, scope) for arg in args]
            if name in ("max", "min") and len(values) > 1:
                return (np.maximum if name == "max" else np.minimum)(*values)
            if name in CELLS:
                return CELLS[name](*values)
            if name in COLUMNS:
                options = {str(key.arg): _evaluate_node(key.value, scope) for key in keywords}
                return aggregate(name, values, options)
    raise TraceError(
        f"{ast.unparse(node)} cannot be evaluated in a chart definition",
        remedy=(
            f"Use a value ({', '.join(scope)}) or a function"
            f" ({', '.join(dict.fromkeys([*CELLS, *COLUMNS, 'text']))})."
        ),
    )


def format_value(value: Any, spec: str = "") -> str:
    """Format a value as text. Without `spec`, NaN and infinity give ""."""
    if spec in FORMATS:
        return FORMATS[spec](value)
    if spec and spec not in NOUNS:
        raise TraceError(
            f"unknown format {spec!r} in a chart definition",
            remedy=f"The formats are {', '.join(FORMATS)}; the nouns {', '.join(sorted(NOUNS))}.",
        )
    if isinstance(value, float) and not np.isfinite(value):
        return ""
    if spec:
        return text.plural(int(value), spec)
    is_whole = isinstance(value, float) and value == int(value)
    return str(int(value) if is_whole else value)


def split_template(template: str) -> tuple[list[str], list[tuple[str, str]]]:
    """Split a template into its literal texts and, for each placeholder, the code and format."""
    texts, placeholders, end = [], [], 0
    for placeholder in _PLACEHOLDER.finditer(template):
        texts.append(template[end : placeholder.start()])
        code, format_ = _FORMAT.match(placeholder[1]).groups(default="")  # type: ignore[union-attr]
        placeholders.append((code, format_))
        end = placeholder.end()
    return [*texts, template[end:]], placeholders


def fill_template(template: str, scope: Mapping[str, Any]) -> Any:
    """Fill in a template. Return one text per row if any expression has a value per row.

    If a placeholder is empty, the whole text is empty.
    """
    texts, placeholders = split_template(template)
    if not placeholders:
        return template
    values = [evaluate(code, scope) for code, _ in placeholders]
    length = next((len(value) for value in values if is_rows(value)), None)
    columns = []
    for value, (_, format_) in zip(values, placeholders, strict=True):
        if is_rows(value):
            columns.append([format_value(item, format_) for item in value.tolist()])
        else:
            scalar = value.item() if isinstance(value, np.generic) else value
            columns.append([format_value(scalar, format_)] * (length or 1))
    rows = [
        "" if "" in row else "".join(chain(*zip(texts, (*row, ""), strict=True)))
        for row in zip(*columns, strict=True)
    ]
    return rows[0] if length is None else np.array(rows, object)
