"""A selection in words: ``ranks 2–5, 12.3–18.9 ms, name contains nccl``.

The page says the same (``js/src/dash/words.ts``), tested with the same
``tests/vectors/words.json``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from hta_widgets.text import MINUS, THIN, count, plural
from hta_widgets.trace.names import short_name
from hta_widgets.trace.query import conjuncts, read_clauses, read_text
from hta_widgets.trace.selection import Selection

__all__ = ["EVERYTHING", "selection_words", "window_words"]

EVERYTHING = "whole job"

#: Runs of ranks, names: more are counted instead.
MOST_RUNS = 4
MOST_NAMES = 3
LONGEST = 40

_UNITS = ((9, "s"), (6, "ms"), (3, "µs"), (0, "ns"))
_CONTAINS = re.compile(
    r"name\.str\.contains\(('.*?'|\".*?\")(?:, *(?:case|regex)=(?:True|False))*\)"
)


def selection_words(selection: Selection | None, short: Callable[[str], str] = short_name) -> str:
    """Return what is selected, in words.

    Parameters
    ----------
    selection : Selection or None
    short : function, optional
        Makes short names of long ones.

    Examples
    --------
    >>> selection_words(Selection(ranks=[2, 3, 4, 5], query="name.str.contains('nccl')"))
    'ranks 2–5, name contains nccl'
    """
    if selection is None or selection.is_everything:
        return EVERYTHING
    clauses = read_clauses(selection.query)
    found = []
    if selection.ranks is not None:
        found.append(_ranks(selection.ranks))
    if selection.tracks is not None:
        found.append(_tracks(sorted(selection.tracks, key=str)))
    window = window_words(selection.start_ns, selection.end_ns)
    if window:
        found.append(window)
    if clauses.kinds is not None:
        found.append(_listed("kind", clauses.kinds))
    if clauses.names is not None:
        found.append(_names([short(name) for name in clauses.names]))
    if clauses.rest is not None:
        found += [_condition(part) for part in conjuncts(clauses.rest)]
    if selection.ids is not None:
        found.append(plural(len(selection.ids), "event"))
    return ", ".join(found)


def window_words(start_ns: int | None, end_ns: int | None) -> str:
    """Return a window with as many digits as its length needs; empty where it is open.

    Examples
    --------
    >>> window_words(0, 824_123_456).replace(THIN, " ")
    '0–824 ms'
    """
    if start_ns is None:
        return "" if end_ns is None else f"before {_instant(end_ns)}"
    if end_ns is None:
        return f"from {_instant(start_ns)} on"
    if start_ns == end_ns:
        return f"an empty window at {_instant(start_ns)}"
    return _times([start_ns, end_ns], len(str(end_ns - start_ns)) - 2)


def _instant(time_ns: int) -> str:
    return _times([time_ns], len(str(abs(time_ns))) - 3)


def _times(times: Sequence[int], last_digit: int) -> str:
    """Return times in one unit; `last_digit` is the power of ten that they are rounded to."""
    most = max(abs(time) for time in times)
    power, unit = next(entry for entry in _UNITS if most >= 10 ** entry[0] or entry[0] == 0)
    last = min(max(last_digit, 0), power)
    step = 10**last
    rounded = [(abs(time) + step // 2) // step for time in times]
    decimals = power - last
    if all(value % 10**decimals == 0 for value in rounded):
        rounded, decimals = [value // 10**decimals for value in rounded], 0
    texts = [
        (MINUS if time < 0 and value else "") + _decimal(value, decimals)
        for time, value in zip(times, rounded, strict=True)
    ]
    return f"{'–'.join(texts)}{THIN}{unit}"


def _decimal(value: int, decimals: int) -> str:
    if not decimals or not value:
        return count(value)
    whole, part = divmod(value, 10**decimals)
    return f"{count(whole)}.{part:0{decimals}d}"


def _ranks(ranks: Sequence[int]) -> str:
    if len(ranks) == 1:
        return f"rank {ranks[0]}"
    runs: list[list[int]] = []
    for rank in ranks:
        if runs and runs[-1][1] + 1 == rank:
            runs[-1][1] = rank
        else:
            runs.append([rank, rank])
    if not runs:
        return "no ranks"
    if len(runs) > MOST_RUNS:
        return plural(len(ranks), "rank")
    return "ranks " + _joined([str(a) if a == b else f"{a}–{b}" for a, b in runs])


def _tracks(tracks: Sequence[str | tuple[int, str]]) -> str:
    if len(tracks) != 1:
        return plural(len(tracks), "track") if tracks else "no tracks"
    track = tracks[0]
    if isinstance(track, str):
        return f"track {_cut(track)}"
    return f"track {_cut(track[1])} of rank {track[0]}"


def _names(names: Sequence[str]) -> str:
    if len(names) > MOST_NAMES:
        return plural(len(names), "name")
    return _listed("name", [_cut(name) for name in names])


def _listed(noun: str, values: Sequence[str]) -> str:
    if not values:
        return f"no {noun}s"
    return f"{noun}{'s' * (len(values) > 1)} {_joined(values)}"


def _joined(texts: Sequence[str]) -> str:
    return " and ".join([", ".join(texts[:-1]), texts[-1]] if len(texts) > 1 else texts)


def _condition(text: str) -> str:
    contains = _CONTAINS.fullmatch(text)
    value = read_text(contains[1]) if contains else None
    return text if value is None else f"name contains {_cut(value)}"


def _cut(text: str) -> str:
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…"
