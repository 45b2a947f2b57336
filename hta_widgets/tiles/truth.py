"""The badge that says whether the picture is complete, and what is missing where it is not."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

from hta_widgets.trace.problems import Problem

__all__ = ["grouped", "thin", "truth"]

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

#: What befalls a whole file, however many records of it tell.
_OF_FILES = frozenset({"truncated", "empty", "foreign", "stale"})

MAX_LISTED = 200
THIN = "\u202f"


def truth(events: int, problems: Iterable[Problem], ranks: str = "") -> dict[str, Any]:
    """Return the scene's ``truth``; `ranks`: of how many there are files, where some lack."""
    found = list(problems)
    missing: Counter[str] = Counter()
    files: dict[str, set[str | None]] = {}
    for problem in found:
        if not problem.is_harmless:
            missing[problem.kind] += problem.count
            files.setdefault(problem.kind, set()).add(problem.file)
    for kind in _OF_FILES & missing.keys():
        missing[kind] = len(files[kind])
    shown = f"{thin(events)} event{'' if events == 1 else 's'}"
    if missing or ranks:
        of_job = [one.detail.partition(";")[0] for one in found if one.kind == "part"]
        parts = of_job + [_phrase(kind, n) for kind, n in missing.items() if kind != "part"]
        level, text = "warn", " · ".join([*([ranks] if ranks else []), shown, *parts])
    else:
        level, text = "ok", f"exact: {shown}, 0 dropped"
    listed = grouped(found)
    if ranks:
        detail = f"only {ranks} loaded; whom the others wait for may be missing"
        listed.insert(
            0, {"kind": "ranks", "count": 1, "detail": detail, "rank": None, "file": None}
        )
    return {"level": level, "text": text, "problems": listed}


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
