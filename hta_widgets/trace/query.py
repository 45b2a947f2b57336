"""Queries: parsed and checked."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

# Only strings as `repr` writes them make a clause; others stay in the rest.
_TEXT = (
    r"'(?:[^'\\\n]|\\(?:[\\'\"nrt]|x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}))*'"
    r'|"(?:[^"\\\n]|\\(?:[\\\'"nrt]|x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}))*"'
)
_CLAUSE = re.compile(rf"(name|kind) in \[((?:(?:{_TEXT})(?:, (?:{_TEXT}))*)?)\]")
_TEXTS = re.compile(_TEXT)
_ESCAPE = re.compile(r"\\(x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|.)")
_PLAIN = {"n": "\n", "r": "\r", "t": "\t"}

#: Tokens that matter for splitting a query at ``and``.
_TOKEN = re.compile(
    r"""(?P<text>'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|`[^`]*`)"""
    r"|(?P<word>\w+)|(?P<open>[(\[{])|(?P<close>[)\]}])|(?P<other>.)",
    re.DOTALL,
)


@dataclass(frozen=True, slots=True)
class Clauses:
    """A query split into names, kinds and the rest."""

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

    def with_names(self, names: Sequence[str] | None) -> Clauses:
        """Return the same query for other names; None for any."""
        return replace(self, names=None if names is None else tuple(names))

    def with_kinds(self, kinds: Sequence[str] | None) -> Clauses:
        """Return the same query for other kinds; None for any."""
        return replace(self, kinds=None if kinds is None else tuple(kinds))


def read_clauses(query: str | None) -> Clauses:
    """Split a query into clauses.

    Queries of another form, or with ``or`` outside of parentheses, become `Clauses.rest`.
    """
    if query is None or not query.strip():
        return Clauses()
    found: dict[str, tuple[str, ...]] = {}
    rest: list[str] = []
    for part in conjuncts(query.strip()):
        clause = _CLAUSE.fullmatch(part)
        if clause is None:
            rest.append(part)
            continue
        values = tuple(_value(text) for text in _TEXTS.findall(clause[2]))
        before = found.get(clause[1])
        found[clause[1]] = (
            values if before is None else tuple(value for value in before if value in values)
        )
    whole = " and ".join(rest) or None
    if found and len(rest) == 1 and _is_wrapped(rest[0]):
        whole = rest[0][1:-1].strip()
    return Clauses(whole, found.get("name"), found.get("kind"))


def _value(text: str) -> str:
    def plain(escape: re.Match[str]) -> str:
        code = escape[1]
        if len(code) > 1:
            return chr(int(code[1:], 16))
        return _PLAIN.get(code, code)

    return _ESCAPE.sub(plain, text[1:-1])


def read_text(literal: str) -> str | None:
    """Return the value of a string literal; None if it is not as `repr` writes it."""
    return _value(literal) if re.fullmatch(_TEXT, literal) else None


def conjuncts(query: str) -> list[str]:
    """Return the operands of ``and``; the whole query if it is not a conjunction."""
    parts, begin, depth = [], 0, 0
    for token in _TOKEN.finditer(query):
        depth += (token.lastgroup == "open") - (token.lastgroup == "close")
        if depth < 0 or (token.lastgroup == "other" and token[0] in "'\"`#"):
            return [query]
        # pandas gives the bar the same precedence as the word.
        if depth == 0 and (token[0] == "|" or token[0] == "or"):
            return [query]
        if depth == 0 and token[0] == "and":
            parts.append(query[begin : token.start()].strip())
            begin = token.end()
    parts.append(query[begin:].strip())
    return parts if depth == 0 and all(parts) else [query]


def _is_wrapped(text: str) -> bool:
    """Whether one pair of parentheses encloses all of a text."""
    if not (text.startswith("(") and text.endswith(")")):
        return False
    return all(depth > 0 for at, depth in _depths(text) if at < len(text) - 1)


def _depths(text: str) -> Iterator[tuple[int, int]]:
    depth = 0
    for token in _TOKEN.finditer(text):
        depth += (token.lastgroup == "open") - (token.lastgroup == "close")
        yield token.start(), depth
