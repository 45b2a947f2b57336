"""Parses queries, and checks them before pandas evaluates them."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from hta_widgets.text import valid_text

# Only lists of strings in `repr` form become a clause; others stay in `QueryClauses.rest`.
_TEXT = (
    r"'(?:[^'\\\n]|\\(?:[\\'\"nrt]|x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}))*'"
    r'|"(?:[^"\\\n]|\\(?:[\\\'"nrt]|x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}))*"'
)
_CLAUSE = re.compile(rf"(name|kind) in \[((?:(?:{_TEXT})(?:, (?:{_TEXT}))*)?)\]")

#: Tokens that are relevant to splitting a query at ``and``.
_TOKEN = re.compile(
    r"""(?P<text>'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|`[^`]*`)"""
    r"|(?P<word>\w+)|(?P<open>[(\[{])|(?P<close>[)\]}])|(?P<other>.)",
    re.DOTALL,
)


@dataclass(frozen=True, slots=True)
class QueryClauses:
    """A query, split into names, kinds and the rest."""

    rest: str | None = None
    names: tuple[str, ...] | None = None
    kinds: tuple[str, ...] | None = None

    @property
    def query(self) -> str | None:
        """The query as text; None if it is empty."""
        clauses = [
            f"{word} in {list(values)!r}"
            for word, values in (("name", self.names), ("kind", self.kinds))
            if values is not None
        ]
        if self.rest is None:
            return " and ".join(clauses) or None
        return " and ".join([f"({self.rest})", *clauses]) if clauses else self.rest


def parse_clauses(query: str | None) -> QueryClauses:
    """Split a query into clauses.

    Queries of another form, or with ``or`` outside of parentheses, become `QueryClauses.rest`.
    """
    if query is None or not query.strip():
        return QueryClauses()
    clauses: dict[str, tuple[str, ...]] = {}
    rest: list[str] = []
    for part in conjuncts(query.strip()):
        clause = _CLAUSE.fullmatch(part)
        values = None if clause is None else _parse_texts(clause[2])
        if clause is None or values is None:
            rest.append(part)
            continue
        before = clauses.get(clause[1], values)
        clauses[clause[1]] = tuple(text for text in before if text in values)
    query_text = " and ".join(rest) or None
    if clauses and len(rest) == 1 and _is_wrapped(rest[0]):
        query_text = rest[0][1:-1].strip()
    return QueryClauses(query_text, clauses.get("name"), clauses.get("kind"))


def _parse_texts(literals: str) -> tuple[str, ...] | None:
    """Return the values of comma-separated string literals; None if Python rejects one."""
    try:
        return tuple(ast.literal_eval(f"[{literals}]"))
    except (SyntaxError, ValueError):
        return None


def conjuncts(query: str) -> list[str]:
    """Return the operands of ``and``; the whole query if it is not a conjunction."""
    parts, begin, depth = [], 0, 0
    for token in _TOKEN.finditer(query):
        depth += (token.lastgroup == "open") - (token.lastgroup == "close")
        if depth < 0 or (token.lastgroup == "other" and token[0] in "'\"`#"):
            return [query]
        # pandas gives ``|`` the same precedence as ``or``.
        if depth == 0 and (token[0] == "|" or token[0] == "or"):
            return [query]
        if depth == 0 and token[0] == "and":
            parts.append(query[begin : token.start()].strip())
            begin = token.end()
    parts.append(query[begin:].strip())
    return parts if depth == 0 and all(parts) else [query]


def _is_wrapped(text: str) -> bool:
    """Return whether a single pair of parentheses encloses the whole string."""
    if not (text.startswith("(") and text.endswith(")")):
        return False
    depth = 0
    for token in _TOKEN.finditer(text[:-1]):
        depth += (token.lastgroup == "open") - (token.lastgroup == "close")
        if depth <= 0:
            return False
    return True


_NODES = (
    *(ast.Expression, ast.Load, ast.Constant, ast.Name, ast.List, ast.Tuple, ast.keyword),
    *(ast.BoolOp, ast.And, ast.Or, ast.UnaryOp, ast.Not, ast.USub, ast.UAdd, ast.Invert),
    *(ast.BinOp, ast.Add, ast.Sub, ast.Mult, ast.Div, ast.FloorDiv, ast.Mod),
    *(ast.Compare, ast.cmpop, ast.Call, ast.Attribute),
)
_METHODS = frozenset({
    "abs", "between", "isin", "isna", "isnull", "notna", "notnull", "round",
    "count", "max", "mean", "median", "min", "quantile", "std", "sum",
})  # fmt: skip
#: Methods of `.str` that return numbers or booleans, and those that return strings.
_TEXT_PREDICATES = frozenset({
    "contains", "match", "fullmatch", "startswith", "endswith", "find", "count", "len",
    "isdigit", "isnumeric", "isalpha", "isalnum", "islower", "isupper",
})  # fmt: skip
_CHANGES_OF_TEXT = frozenset({"lower", "upper", "strip", "lstrip", "rstrip", "slice"})
#: Methods that return numbers or booleans even for strings.
_PREDICATES = frozenset({"between", "isin", "isna", "isnull", "notna", "notnull", "count"})
#: Methods that return one of the column's values.
_CHOICES = frozenset({"max", "min"})
_COMPUTATIONS = _METHODS - _PREDICATES - _CHOICES
_LARGEST = 1 << 64
#: Maximum number of operators in a query; the time that pandas takes grows with its square.
_MAX_OPERATORS = 200
_MAX_VALUES = 20_000
_OPERATORS = (ast.BinOp, ast.UnaryOp, ast.Compare, ast.Call)


def validate_query(query: str, text_columns: Collection[str] = ()) -> str:
    """Return a query that is safe to evaluate; raise `ValueError` if it contains other code."""
    # pandas evaluates attributes and calls without restriction, so a query could run any code.
    # Queries also come from pages, files and saved selections. The returned query is generated from
    # the checked syntax tree, because pandas splits its input at more characters than Python does
    # and could evaluate hidden lines.
    try:
        tree = ast.parse("".join(map(_python_token, _TOKEN.finditer(query.strip()))), mode="eval")
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise ValueError(f"{type(error).__name__}: {error}") from None
    nodes = list(ast.walk(tree))
    _check_count("operators and calls", _MAX_OPERATORS, nodes, _OPERATORS)
    _check_count("values", _MAX_VALUES, nodes, (ast.Constant,))
    called: set[ast.AST] = set()
    for node in nodes:
        if not isinstance(node, _NODES):
            raise ValueError(f"a query cannot contain {type(node).__name__}")  # noqa: TRY004
        if isinstance(node, ast.Constant):
            is_number = isinstance(node.value, int | float) and abs(node.value) < _LARGEST
            if not (is_number or node.value is None or isinstance(node.value, str)):
                raise ValueError(
                    "the constants of a query must be strings or numbers below 2 ** 64"
                )
        elif isinstance(node, ast.BinOp):
            _require_numbers((node.left, node.right), text_columns)
        elif isinstance(node, ast.Call):
            called.update(_validate_call(node.func))
            if isinstance(node.func, ast.Attribute) and node.func.attr in _COMPUTATIONS:
                _require_numbers((node.func.value,), text_columns)
        elif isinstance(node, ast.Attribute) and node not in called:
            raise ValueError(f"the attribute {node.attr!r} of a query must be called")
    try:
        return ast.unparse(_Regexes().visit(tree))
    except RecursionError:
        raise ValueError("the query is nested too deeply") from None


class _Regexes(ast.NodeTransformer):
    """Turns methods of `.str` that take regular expressions into calls of `REGEXES`."""

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        method = node.func
        if (
            isinstance(method, ast.Attribute)
            and isinstance(method.value, ast.Attribute)
            and (method.attr in REGEXES and method.value.attr == "str")
        ):
            name = ast.Name(f"@{method.attr}")
            return ast.Call(name, [method.value.value, *node.args], node.keywords)
        return node


#: Python's flags, and their letters in RE2.
_FLAGS = {re.IGNORECASE: "i", re.MULTILINE: "m", re.DOTALL: "s"}


def _text_predicate(form: str) -> Callable[..., pd.Series]:
    """Return a method of `.str` that tests strings for a pattern; `form` may anchor the pattern."""

    # pandas has the same parameters.
    def test(
        texts: pd.Series,
        pat: str,
        case: bool = True,  # noqa: FBT001, FBT002
        flags: int = 0,
        na: object = None,
        regex: bool = True,  # noqa: FBT001, FBT002
    ) -> pd.Series:
        pattern = _re2_pattern(pat if regex else re.escape(str(pat)), flags)
        full_pattern = form.format(pattern)
        matches = _map_with_arrow(
            pc.match_substring_regex, texts, full_pattern, ignore_case=not case
        )
        return matches.fillna(bool(na)).astype(bool)

    return test


def _count(texts: pd.Series, pat: str, flags: int = 0) -> pd.Series:
    counts = _map_with_arrow(pc.count_substring_regex, texts, _re2_pattern(pat, flags))
    return counts.infer_objects()


#: The methods of `.str` that take regular expressions, evaluated by RE2 in linear time. Python's
#: engine would block the interpreter while a pattern backtracks.
REGEXES: dict[str, Callable[..., pd.Series]] = {
    "contains": _text_predicate("{}"),
    "match": _text_predicate(r"\A(?:{})"),
    "fullmatch": _text_predicate(r"\A(?:{})\z"),
    "count": _count,
}


def _re2_pattern(pattern: object, flags: int) -> str:
    """Return a valid RE2 pattern with Python's `flags`."""
    if not isinstance(pattern, str) or not isinstance(flags, int) or flags & ~sum(_FLAGS):
        raise ValueError(
            "expected a string as the pattern, and only the flags re.I, re.M and re.S,"
            f" not {pattern!r} and {flags!r}"
        )
    letters = "".join(letter for flag, letter in _FLAGS.items() if flags & flag)
    full_pattern = f"(?{letters}){pattern}" if letters else pattern
    _map_with_arrow(pc.match_substring_regex, pd.Series([""]), full_pattern)
    return full_pattern


def _map_with_arrow(
    function: Callable[..., Any], texts: pd.Series, pattern: str, *, ignore_case: bool = False
) -> pd.Series:
    """Return the results of an Arrow function; None for values that are not strings."""
    texts.str  # noqa: B018 - raises for columns of numbers
    if isinstance(texts.dtype, pd.CategoricalDtype):
        codes, values = texts.cat.codes.to_numpy(), texts.cat.categories
    else:
        codes, values = pd.factorize(texts)
    valid = [valid_text(value) if isinstance(value, str) else None for value in values]
    try:
        result = function(pa.array(valid, pa.large_string()), pattern, ignore_case=ignore_case)
    except (pa.ArrowException, UnicodeEncodeError) as error:
        raise ValueError(f"not an RE2 regular expression: {error}") from None
    results = np.array([*result.to_pylist(), None], object)
    return pd.Series(results[codes], texts.index)


def _python_token(token: re.Match[str]) -> str:
    """Return a token in Python syntax; in pandas, ``&`` and ``|`` mean ``and`` and ``or``."""
    if token[0].startswith("`"):
        return token[0].strip("`")
    return {"&": " and ", "|": " or "}.get(token[0], token[0])


def _validate_call(method: ast.expr) -> list[ast.expr]:
    """Check the name of a column method; return the attribute nodes of its call."""
    if not isinstance(method, ast.Attribute):
        raise ValueError("a query can call only column methods")  # noqa: TRY004 - invalid text
    receiver = method.value
    is_text = isinstance(receiver, ast.Attribute) and receiver.attr == "str"
    allowed = _TEXT_PREDICATES | _CHANGES_OF_TEXT if is_text else _METHODS
    if method.attr not in allowed:
        names = ", ".join(sorted(allowed))
        raise ValueError(f"a query has no method {method.attr!r}, only {names}")
    return [method, receiver] if is_text else [method]


def _check_count(
    subject: str, limit: int, nodes: list[ast.AST], kinds: tuple[type[ast.AST], ...]
) -> None:
    count = sum(isinstance(node, kinds) for node in nodes)
    if count > limit:
        raise ValueError(f"a query has at most {limit:,} {subject}, not {count:,}")


def _require_numbers(operands: Iterable[ast.expr], text_columns: Collection[str]) -> None:
    """Reject arithmetic on strings and lists, which could exhaust the memory."""
    if not all(_is_numeric(operand, text_columns) for operand in operands):
        raise ValueError("arithmetic in a query is limited to numbers")


def _is_numeric(node: ast.expr, text_columns: Collection[str]) -> bool:
    if isinstance(node, ast.Constant):
        return not isinstance(node.value, str)
    if isinstance(node, ast.Name):
        return node.id not in text_columns
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        method, receiver = node.func.attr, node.func.value
        if isinstance(receiver, ast.Attribute):  # a method of `.str`
            return method in _TEXT_PREDICATES
        return method not in _CHOICES or _is_numeric(receiver, text_columns)
    return isinstance(node, ast.BinOp | ast.UnaryOp | ast.Compare | ast.BoolOp)
