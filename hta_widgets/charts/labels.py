"""Short names of rows, told apart where several are the same."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

__all__ = ["told_apart"]

#: Longer parts of names say nothing at a glance; such rows are numbered.
_LONGEST = 28
_WORDS = re.compile(r"(?:\w+::)*(\w+)")


def told_apart(
    labels: Sequence[str], names: Sequence[str], kinds: Sequence[str] | None = None
) -> list[str]:
    """Return the labels, with what tells rows apart appended to those that are the same.

    That is their kind; of one kind the first word in which their full names differ, such as a
    template's type; else a number.

    Parameters
    ----------
    labels, names : sequence of str
        The short and the full name of each row.
    kinds : sequence of str, optional
        Kinds of the rows; an empty one says nothing.

    Examples
    --------
    >>> told_apart(["add", "add", "mul"], ["k<Add<float>>", "k<Add<Half>>", "mul"])
    ['add (float)', 'add (Half)', 'mul']
    """
    told, tags = list(labels), [""] * len(labels)
    if kinds is not None:
        for rows in _same(told):
            if len({kinds[row] for row in rows}) > 1:
                for row in rows:
                    tags[row] = kinds[row]
                    told[row] = _with(labels[row], tags[row])
    for rows in _same(told):
        for row, word in zip(rows, _differences([names[row] for row in rows]), strict=True):
            tags[row] = ", ".join(filter(None, (tags[row], word)))
            told[row] = _with(labels[row], tags[row])
    taken = set(told)
    for rows in _same(told):
        number = 1
        for row in rows[1:]:
            plain = told[row]
            while told[row] in taken:
                number += 1
                told[row] = f"{plain} ({number})"
            taken.add(told[row])
    return told


def _same(labels: Sequence[str]) -> Iterable[list[int]]:
    rows: dict[str, list[int]] = {}
    for row, label in enumerate(labels):
        rows.setdefault(label, []).append(row)
    return [each for each in rows.values() if len(each) > 1]


def _with(label: str, word: str) -> str:
    return f"{label} ({word})" if word else label


def _differences(names: Sequence[str]) -> list[str]:
    """Return of each name the words in which it differs from the others, as few as needed."""
    words = [_WORDS.findall(name) for name in names]
    chosen = [""] * len(names)
    for place in range(max(map(len, words))):
        groups: dict[str, list[int]] = {}
        for row, text in enumerate(chosen):
            groups.setdefault(text, []).append(row)
        open_groups = [rows for rows in groups.values() if len(rows) > 1]
        if not open_groups:
            break
        for rows in open_groups:
            here = {row: (words[row][place : place + 1] or [""])[0] for row in rows}
            if len(set(here.values())) > 1:
                for row, word in here.items():
                    more = ", ".join(filter(None, (chosen[row], word)))
                    chosen[row] = more if len(more) <= _LONGEST else chosen[row]
    return chosen
