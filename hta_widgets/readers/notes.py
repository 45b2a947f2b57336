"""Counts what is wrong with a file's records while it is read: a kind, a reason, a first place."""

from __future__ import annotations

from hta_widgets.trace.problems import ProblemKind, Problems


class Notes:
    """Counts by kind and reason; the byte offset of the first example is kept."""

    __slots__ = ("_counts", "_first")

    def __init__(self) -> None:
        self._counts: dict[tuple[ProblemKind, str], int] = {}
        self._first: dict[tuple[ProblemKind, str], int | None] = {}

    def add(self, kind: ProblemKind, reason: str, offset: int | None, count: int = 1) -> None:
        """Count `count` more; `offset` is where the first of them is."""
        key = (kind, reason)
        self._counts[key] = self._counts.get(key, 0) + count
        self._first.setdefault(key, offset)

    def knows(self, kind: ProblemKind, reason: str) -> bool:
        """Whether an example is there already, so that none need be looked for."""
        return (kind, reason) in self._counts

    def count(self, kind: ProblemKind) -> int:
        """Return how many there are of a kind."""
        return sum(count for (known, _), count in self._counts.items() if known == kind)

    def into(self, problems: Problems, file: str) -> None:
        """Hand everything over as problems of `file`."""
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
