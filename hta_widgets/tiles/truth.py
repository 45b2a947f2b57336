"""The badge that says whether the picture is complete, and what is missing where it is not."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

from hta_widgets.model import Problem

__all__ = ["COMPLETE", "grouped", "is_harmless", "thin", "truth"]

#: Problems that leave the picture complete: they were repaired, guessed or placed, and counted.
COMPLETE = frozenset({"repaired", "rounding", "overlap", "guessed_rank", "duplicate_rank"})

#: What is missing, in words, by kind of problem; for one and for several.
_WORDS = {
    "skipped": ("record skipped", "records skipped"),
    "truncated": ("file ends early", "files end early"),
    "empty": ("file is empty", "files are empty"),
    "foreign": ("file not read", "files not read"),
    "unpaired": ("record unpaired", "records unpaired"),
    "overflow": ("value out of range", "values out of range"),
    "stale": ("file changed", "files changed"),
}

MAX_LISTED = 200
THIN = "\u202f"


def truth(events: int, problems: Iterable[Problem]) -> dict[str, Any]:
    """Return the scene's ``truth``."""
    found = list(problems)
    missing: Counter[str] = Counter()
    for problem in found:
        if not is_harmless(problem):
            missing[problem.kind] += problem.count
    shown = f"{thin(events)} event{'' if events == 1 else 's'}"
    if missing:
        parts = [_phrase(kind, count) for kind, count in missing.items()]
        level, text = "warn", " · ".join([shown, *parts])
    else:
        level, text = "ok", f"exact: {shown}, 0 dropped"
    return {"level": level, "text": text, "problems": grouped(found)}


def is_harmless(problem: Problem) -> bool:
    """Whether no event is missing for it; of arrows without an end only the arrow is."""
    return problem.kind in COMPLETE or (
        problem.kind == "unpaired" and problem.detail.startswith("flow")
    )


def grouped(problems: list[Problem]) -> list[dict[str, Any]]:
    """Return problems as JSON; where there are very many, equal ones of several ranks as one."""
    if len(problems) <= MAX_LISTED:
        return [
            {
                "kind": problem.kind,
                "count": problem.count,
                "detail": problem.detail,
                "rank": problem.rank,
                "file": problem.file,
            }
            for problem in problems
        ]
    counts: Counter[tuple[str, str]] = Counter()
    places: Counter[tuple[str, str]] = Counter()
    for problem in problems:
        counts[problem.kind, problem.detail] += problem.count
        places[problem.kind, problem.detail] += 1
    return [
        {
            "kind": kind,
            "count": count,
            "detail": f"{detail} ({places[kind, detail]} ranks)"
            if places[kind, detail] > 1
            else detail,
            "rank": None,
            "file": None,
        }
        for (kind, detail), count in counts.most_common()
    ]


def thin(number: int) -> str:
    """Return a number with narrow spaces between its thousands."""
    return f"{number:,}".replace(",", THIN)


def _phrase(kind: str, count: int) -> str:
    if kind == "clock":
        return "clocks not aligned"
    one, several = _WORDS.get(kind, (kind, kind))
    return f"{thin(count)} {one if count == 1 else several}"
