"""Assign a rank to each file: from its metadata, else its name, else the order of names."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from pathlib import PurePath
from typing import Any

from hta_widgets.trace.problems import PERHAPS_A_COPY, ProblemKind, Problems


class Notes:
    """Counts by kind and reason; the byte offset of the first example is kept."""

    __slots__ = ("_counts", "_first")

    def __init__(self) -> None:
        self._counts: dict[tuple[ProblemKind, str], int] = {}
        self._first: dict[tuple[ProblemKind, str], int | None] = {}

    def add(self, kind: ProblemKind, reason: str, offset: int | None, count: int = 1) -> None:
        """Add `count` notes; `offset` is the position of the first."""
        key = (kind, reason)
        self._counts[key] = self._counts.get(key, 0) + count
        self._first.setdefault(key, offset)

    def knows(self, kind: ProblemKind, reason: str) -> bool:
        """Whether there is a note of this kind and reason."""
        return (kind, reason) in self._counts

    def count(self, kind: ProblemKind) -> int:
        """Return the number of notes of a kind."""
        return sum(count for (known, _), count in self._counts.items() if known == kind)

    def into(self, problems: Problems, file: str) -> None:
        """Add all notes to the problems of `file`."""
        for (kind, reason), count in self._counts.items():
            first = self._first[kind, reason]
            at = (
                ""
                if first is None
                else f" (first at byte {first:,})"
                if count > 1
                else f" (at byte {first:,})"
            )
            problems.add(kind, count, reason + at, file=file)


_RANK = re.compile(r"(?i)(?<![a-z])rank[-_ ]?\[?(\d+)\]?")
_WORKER = re.compile(r"(?i)(?<![a-z])worker[-_ ]?(\d+)")
#: -TP-0-DP-1-PP-0-EP-0, dp0_tp1 …: a coordinate per kind of parallelism
_DIMENSIONS = re.compile(r"(?i)(?<![a-z])(dp|pp|tp|ep|cp|sp)[-_]?(\d+)(?!\d)")
_ORDER = ("pp", "dp", "cp", "sp", "ep", "tp")


#: The largest rank.
LAST_RANK = (1 << 31) - 1


def is_rank(value: Any) -> bool:
    """Whether a value is a whole number that can be a rank."""
    return (
        hasattr(value, "__index__")
        and not isinstance(value, bool)
        and 0 <= value.__index__() <= LAST_RANK
    )


def stated_rank(
    metadata: Mapping[str, Any], problems: Problems | None = None, file: str | None = None
) -> int | None:
    """Return the rank that a file's metadata state; report one that is too large."""
    for holder in (metadata.get("distributedInfo"), metadata):
        rank = holder.get("rank") if isinstance(holder, Mapping) else None
        if isinstance(rank, str) and rank.isdecimal():
            rank = int(rank[:20])
        if is_rank(rank):
            return rank
        if problems is not None and isinstance(rank, int) and rank > LAST_RANK:
            problems.add("repaired", 1, f"a rank beyond {LAST_RANK:,}, taken as none", file=file)
    return None


def assign_ranks(
    paths: Sequence[str],
    given: Sequence[int | None],
    stated: Sequence[int | None],
    problems: Problems,
    by_order: Sequence[bool] = (),
    cut: Collection[str | None] = (),
    contents: Sequence[object] = (),
) -> list[int]:
    """Assign a unique rank to every file.

    Parameters
    ----------
    paths : sequence of str
        In order.
    given, stated : sequence of int or None
        Ranks from the caller and from the files' metadata.
    problems : Problems
        Takes guesses and duplicates.
    by_order : sequence of bool, optional
        Files that are numbered after all others if they state no rank.
    cut : collection of str, optional
        Paths of files that end early: of two that state one rank the whole one has it.
    contents : sequence, optional
        Of two files of one rank with equal contents one may be a copy; a profile and a time line
        of one rank are both needed.
    """
    ordered = [place for place, counted in enumerate(by_order) if counted and stated[place] is None]
    keys: list[int | None] = list(given)
    taken = {key for key in given if key is not None}
    duplicates = []
    for place in sorted(range(len(stated)), key=lambda place: paths[place] in cut):
        rank = stated[place]
        if keys[place] is not None or rank is None:
            continue
        if rank in taken:
            duplicates.append(place)
        else:
            keys[place] = rank
            taken.add(rank)

    unknown = [place for place, rank in enumerate(stated) if keys[place] is None and rank is None]
    unknown = [place for place in unknown if place not in ordered]
    guesses, how = _guessed([paths[place] for place in unknown], taken)
    for place, guess in zip(unknown, guesses, strict=True):
        keys[place] = guess
        taken.add(guess)
        problems.add(
            "guessed_rank", 1, f"states no rank; taken as {guess} {how}", guess, paths[place]
        )
    for place in duplicates:
        key = _free(taken)
        keys[place] = key
        taken.add(key)
        first = keys.index(stated[place])
        early = ", and ends early" if paths[place] in cut else ""
        copy = f": {PERHAPS_A_COPY}" if contents and contents[place] == contents[first] else ""
        detail = f"states rank {stated[place]}, as {PurePath(paths[first]).name} does{early}{copy}"
        problems.add("duplicate_rank", 1, f"{detail}; kept as rank {key}", key, paths[place])
    following = max(taken, default=-1) + 1
    for place in ordered:
        if keys[place] is None:
            keys[place] = following
            following += 1
    return [key for key in keys if key is not None]


def _guessed(paths: Sequence[str], taken: set[int]) -> tuple[list[int], str]:
    """Return a rank for each path, and how it was found."""
    for pattern, how in ((_RANK, "from its name"), (_WORKER, "from its name")):
        ranks = [_last_number(pattern, path) for path in paths]
        if _usable(ranks, taken):
            return [rank for rank in ranks if rank is not None], how
    tuples = [_coordinates(path) for path in paths]
    if paths and all(tuples) and len({frozenset(t) for t in tuples}) == 1:
        keys = [tuple(t[name] for name in _ORDER if name in t) for t in tuples]
        if len(set(keys)) == len(keys):
            order = {key: place for place, key in enumerate(sorted(keys))}
            ranks = [order[key] for key in keys]
            if _usable(ranks, taken):
                return [order[key] for key in keys], "from the coordinates in its name"
    guesses: list[int] = []
    used = set(taken)
    for _ in paths:
        guesses.append(_free(used))
        used.add(guesses[-1])
    return guesses, "from its place in the order of names"


def _usable(ranks: Sequence[int | None], taken: set[int]) -> bool:
    counts = Counter(ranks)
    return (
        bool(ranks) and None not in counts and max(counts.values()) == 1 and not taken & set(counts)
    )


def _last_number(pattern: re.Pattern[str], path: str) -> int | None:
    for part in reversed(PurePath(path).parts):
        matches = pattern.findall(part)
        if matches:
            return int(matches[-1]) if int(matches[-1]) <= LAST_RANK else None
    return None


def _coordinates(path: str) -> dict[str, int]:
    name = PurePath(path).name
    return {kind.lower(): int(number) for kind, number in _DIMENSIONS.findall(name)}


def _free(taken: set[int]) -> int:
    key = 0
    while key in taken:
        key += 1
    return key
