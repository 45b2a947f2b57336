"""Problems of loaded files, such as skipped records, and frames that hide some columns."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, get_args

import pandas as pd

ProblemKind = Literal[
    "skipped", "repaired", "rounding", "truncated", "empty", "foreign", "duplicate_rank",
    "guessed_rank", "overlap", "unpaired", "overflow", "stale", "clock", "part", "merged",
    "capture",
]  # fmt: skip

PROBLEM_KINDS: tuple[ProblemKind, ...] = get_args(ProblemKind)

#: Kinds of problems that do not lose events.
LOSSLESS_KINDS = frozenset(
    {"repaired", "rounding", "overlap", "guessed_rank", "duplicate_rank", "merged", "capture"}
)

POSSIBLE_DUPLICATE = "perhaps a copy"
ANOTHER_RUN = "from another run or window"


class CompactFrame(pd.DataFrame):
    """A frame that displays fewer columns than it has.

    It omits `hidden` columns, and `optional` columns whose values are all unknown (None or -1). A
    frame without rows is displayed as the string `if_empty`.
    """

    def __init__(
        self,
        columns: object,
        *,
        optional: Sequence[str] = (),
        hidden: Sequence[str] = (),
        if_empty: str = "",
    ) -> None:
        super().__init__(columns)  # type: ignore[call-arg] # pandas has no types
        self.attrs = {"optional": list(optional), "if_empty": if_empty}
        if hidden:
            self.attrs["hidden"] = list(hidden)

    @property
    def _sentence(self) -> str:
        return self.attrs.get("if_empty", "") if self.empty else ""

    def displayed_columns(self) -> Any:
        """Return the columns that are displayed."""
        has_value = self.notna() & (self != -1)
        unknown = [name for name in self.attrs.get("optional", ()) if not has_value[name].any()]
        return pd.DataFrame(self).drop(columns=[*unknown, *self.attrs.get("hidden", ())])

    def __repr__(self) -> str:
        return self._sentence or repr(self.displayed_columns())

    def _repr_html_(self) -> Any:
        from html import escape

        sentence = self._sentence
        return f"<p>{escape(sentence)}</p>" if sentence else self.displayed_columns()._repr_html_()


@dataclass(frozen=True, slots=True)
class Problem:
    """Problems of the same kind in a file."""

    kind: ProblemKind
    count: int
    detail: str
    rank: int | None = None
    file: str | None = None

    @property
    def is_harmless(self) -> bool:
        """Whether no event is lost; a flow without an end loses only its arrow."""
        return self.kind in LOSSLESS_KINDS or (
            self.kind == "unpaired" and self.detail.startswith("flow")
        )

    @property
    def is_note(self) -> bool:
        """Whether figures are unaffected: nothing is lost, combined or possibly loaded twice."""
        is_in_doubt = POSSIBLE_DUPLICATE in self.detail or ANOTHER_RUN in self.detail
        return self.is_harmless and not is_in_doubt and self.kind != "merged"


class Problems:
    """Collects problems, adding up the counts of equal problems in the same file."""

    __slots__ = ("_counts",)

    def __init__(self, problems: Iterable[Problem] = ()) -> None:
        self._counts: dict[Problem, int] = {}
        self.merge(problems)

    def add(
        self,
        kind: ProblemKind,
        count: int,
        detail: str,
        rank: int | None = None,
        file: str | None = None,
    ) -> None:
        """Count `count` problems of `kind`; a count of zero adds nothing."""
        if kind not in PROBLEM_KINDS:
            raise ValueError(
                f"unknown problem kind {kind!r}; the kinds are {', '.join(PROBLEM_KINDS)}"
            )
        if count:
            key = Problem(kind, 0, detail, rank, file)
            self._counts[key] = self._counts.get(key, 0) + int(count)

    def merge(
        self, other: Iterable[Problem], rank: int | None = None, file: str | None = None
    ) -> None:
        """Add all problems of `other`; `rank` and `file` are defaults for problems without them."""
        for problem in other:
            new_rank = rank if problem.rank is None else problem.rank
            new_file = file if problem.file is None else problem.file
            self.add(problem.kind, problem.count, problem.detail, new_rank, new_file)

    def __iter__(self) -> Iterator[Problem]:
        return (replace(key, count=count) for key, count in self._counts.items())

    def __len__(self) -> int:
        return len(self._counts)

    def __repr__(self) -> str:
        return f"Problems({list(self)!r})"

    def frame(self) -> pd.DataFrame:
        """Return one row per problem: ``rank`` (-1 if none), ``file, kind, count, detail``."""
        rows = [(-1 if p.rank is None else p.rank, p.file, p.kind, p.count, p.detail) for p in self]
        columns = ["rank", "file", "kind", "count", "detail"]
        frame = pd.DataFrame(rows, columns=columns, dtype=object)
        return CompactFrame(
            frame.astype({"rank": "int64", "count": "int64"}),
            if_empty="No problems: nothing was skipped, repaired or guessed.",
        )


class NoteCounts:
    """Counts of problems by kind and reason, with the byte offset of each first occurrence."""

    __slots__ = ("_notes",)

    def __init__(self) -> None:
        #: number of notes and offset of the first, by kind and reason
        self._notes: dict[tuple[ProblemKind, str], tuple[int, int | None]] = {}

    def add(self, kind: ProblemKind, reason: str, offset: int | None, count: int = 1) -> None:
        """Add `count` notes; `offset` is the position of the first."""
        earlier, first = self._notes.get((kind, reason), (0, offset))
        self._notes[kind, reason] = earlier + count, first

    def has(self, kind: ProblemKind, reason: str) -> bool:
        """Return whether there is a note of this kind and reason."""
        return (kind, reason) in self._notes

    def count(self, kind: ProblemKind) -> int:
        """Return the number of notes of a kind."""
        return sum(notes for (note_kind, _), (notes, _) in self._notes.items() if note_kind == kind)

    def add_to(self, problems: Problems, file: str) -> None:
        """Add all notes to the problems of `file`."""
        for (kind, reason), (notes, first) in self._notes.items():
            place = ""
            if first is not None:
                place = f" ({'first ' if notes > 1 else ''}at byte {first:,})"
            problems.add(kind, notes, reason + place, file=file)
