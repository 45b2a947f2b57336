"""The scene: all that a page needs before the first tile."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from hta_widgets.taxonomy import KINDS
from hta_widgets.tiles.layout import Job, Rank, SummaryRow, TrackRow, job_title, place_label
from hta_widgets.trace.arrays import Rows
from hta_widgets.trace.problems import Problem
from hta_widgets.trace.traceset import TraceSet, part_of_job, ranks_of_job

_ANNOTATION = KINDS.index("annotation")

#: Shorter phases, as a share of their step, are not worth a label.
MIN_SHARE = 0.005


def strip(job: Job) -> dict[str, Any]:
    """Return ``steps_rank, steps, phases`` of the scene."""
    rank = _median_rank(job)
    if rank is None:
        return {"steps_rank": None, "steps": [], "phases": []}
    return {
        "steps_rank": rank.rank,
        "steps": [_span(rank, row) for row in rank.steps.tolist()],
        "phases": [
            {**_span(rank, row), "name": name}
            for row in _phases(rank).tolist()
            if (name := phase_name(rank.table.names[int(rank.table.name[row])]))
        ],
    }


def phase_name(name: str) -> str:
    """Return an annotation's name without hash signs: ``## forward ##`` is ``forward``."""
    return name.strip("# \t").partition("#")[0].strip()


def _median_rank(job: Job) -> Rank | None:
    """Return the rank whose steps take the median time, or the first that has events."""
    timed = sorted(
        (int(rank.table.dur_ns[rank.steps].sum()), rank.rank)
        for rank in job.ranks
        if len(rank.steps)
    )
    if timed:
        return job.of_rank(timed[(len(timed) - 1) // 2][1])
    return next((rank for rank in job.ranks if len(rank.table)), None)


def _phases(rank: Rank) -> Rows:
    """Return annotations directly inside a step, or the outermost ones without steps."""
    table = rank.table
    on_host = np.array([track.role == "thread" for track in table.tracks], np.bool_)
    rows = np.flatnonzero((table.kind == _ANNOTATION) & on_host[table.track])
    rows = rows[~np.isin(rows, rank.steps)]
    above = _annotation_above(rank, rows)
    if len(rank.steps):
        inside = np.isin(above, rank.steps)
        whole = table.dur_ns[above]
    else:
        inside = above < 0
        whole = np.full(len(rows), rank.range_ns[1] - rank.range_ns[0])
    kept: Rows = rows[inside & (table.dur_ns[rows] >= MIN_SHARE * whole) & (table.dur_ns[rows] > 0)]
    return kept


def _annotation_above(rank: Rank, rows: Rows) -> Rows:
    """Return the innermost annotation around each row, -1 for none."""
    table = rank.table
    above = table.parent[rows].astype(np.intp)
    while True:
        climbing = np.flatnonzero((above >= 0) & (table.kind[above] != _ANNOTATION))
        if not len(climbing):
            return above
        above[climbing] = table.parent[above[climbing]]


def _span(rank: Rank, row: int) -> dict[str, Any]:
    table = rank.table
    return {
        "name": table.names[int(table.name[row])],
        "start": int(table.start_ns[row]) + rank.shift_ns,
        "dur": int(table.dur_ns[row]),
    }


#: Texts about missing or doubtful records by kind of problem, singular and plural.
_WORDS = {
    "skipped": ("record skipped", "records skipped"),
    "truncated": ("file ends early", "files end early"),
    "empty": ("file is empty", "files are empty"),
    "foreign": ("file not read", "files not read"),
    "unpaired": ("record unpaired", "records unpaired"),
    "overflow": ("value out of range", "values out of range"),
    "stale": ("file changed", "files changed"),
    "duplicate_rank": ("rank stated twice", "ranks stated twice"),
}

#: Problems of a whole file, counted once per file.
_OF_FILES = frozenset({"truncated", "empty", "foreign", "stale"})

MAX_LISTED = 200
THIN = "\u202f"


def truth(events: int, problems: Iterable[Problem], ranks: str = "") -> dict[str, Any]:
    """Return the scene's ``truth``; `ranks` is a text on ranks without files, or empty."""
    found = list(problems)
    missing: Counter[str] = Counter()
    files: dict[str, set[str | None]] = {}
    for problem in found:
        if not problem.is_note:
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
        detail = f"only {ranks} loaded; a rank that others wait for may be missing"
        listed.insert(
            0, {"kind": "ranks", "count": 1, "detail": detail, "rank": None, "file": None}
        )
    return {"level": level, "text": text, "problems": listed}


def grouped(problems: list[Problem]) -> list[dict[str, Any]]:
    """Return problems as JSON; many problems are grouped by equal text over ranks."""
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


VERSION = 1


def describe(job: Job, traces: TraceSet) -> dict[str, Any]:
    """Return the scene of a job as JSON values; see ``Scene`` in ``js/src/protocol/source.ts``."""
    problems = _problems(traces)
    events = sum(len(rank.table) for rank in job.ranks)
    ranks = ranks_of_job(traces)
    counts: Counter[int | None] = Counter()
    cut: dict[int | None, str] = {}
    for problem in problems:
        if not problem.is_note:
            counts[problem.rank] += problem.count
        if problem.kind == "truncated":
            cut.setdefault(problem.rank, problem.detail)
    return {
        "version": VERSION,
        "title": job_title([rank.trace.path for rank in job.ranks]),
        "events": events,
        "range": list(whole_range(job, traces)),
        "kinds": list(KINDS),
        "host_kinds": _host_kinds(job.ranks),
        "ranks_of_job": ranks,
        "ranks": [
            _rank(
                rank,
                problems=counts[rank.rank],
                truncated=cut.get(rank.rank),
                window_ns=traces.window_ns,
            )
            for rank in job.ranks
        ],
        "lanes": job.lanes,
        "part": part_of_job(traces),
        **strip(job),
        "truth": truth(events, problems, ranks),
    }


def _host_kinds(ranks: Iterable[Rank]) -> list[str]:
    """Return the kinds of events of ranks without device work."""
    found = np.zeros(len(KINDS), np.bool_)
    for rank in ranks:
        if not any(row.role in {"gpu", "comm"} for row in rank.summary):
            found |= np.bincount(rank.table.kind, minlength=len(KINDS)) > 0
    return [kind for kind, is_there in zip(KINDS, found, strict=True) if is_there]


def whole_range(job: Job, traces: TraceSet) -> tuple[int, int]:
    """Return the first start and the last end of all ranks, or the window of an export."""
    if traces.window_ns is not None:
        return traces.window_ns
    filled = [rank.range_ns for rank in job.ranks if rank.tracks]
    start = min((low for low, _ in filled), default=0)
    return start, max(max((high for _, high in filled), default=0), start + 1)


def _rank(
    rank: Rank, *, problems: int, truncated: str | None, window_ns: tuple[int, int] | None
) -> dict[str, Any]:
    place = place_label(rank.trace)
    start_ns, end_ns = rank.range_ns
    if window_ns is not None:
        start_ns, end_ns = max(start_ns, window_ns[0]), min(end_ns, window_ns[1])
    return {
        "rank": rank.rank,
        "label": place or f"rank {rank.rank}",
        "host": f"rank {rank.rank}" if place and not rank.trace.host else rank.trace.host,
        "file": Path(rank.trace.path).name,
        "events": len(rank.table),
        "range": [start_ns, end_ns],
        "truncated": truncated,
        "problems": problems,
        "summary": [_summary(row) for row in rank.summary],
        "tracks": [_track(row) for row in rank.tracks],
    }


def _summary(row: SummaryRow) -> dict[str, Any]:
    lanes = {"wait": row.wait, "late": row.late} if row.wait >= 0 else {}
    return {"lane": row.lane, "role": row.role, "label": row.label, **lanes}


def _track(row: TrackRow) -> dict[str, Any]:
    track: dict[str, Any] = {
        "key": row.key,
        "process": row.process,
        "label": row.label,
        "role": row.role,
        "stream": row.stream,
        "lane0": row.lane0,
        "lanes": row.lanes,
        "nested": row.nested,
        "events": row.events,
        "communication": row.communication,
    }
    if row.range is not None:
        track["range"] = list(row.range)
    if row.unit:
        track["unit"] = row.unit
    if row.wait >= 0:
        track |= {"wait": row.wait, "late": row.late}
    return track


def _problems(traces: TraceSet) -> list[Problem]:
    columns = traces.problems.to_dict("list")
    return [
        Problem(kind, int(count), str(detail), None if rank < 0 else int(rank), file)
        for kind, count, detail, rank, file in zip(
            *(columns[name] for name in ("kind", "count", "detail", "rank", "file")), strict=True
        )
    ]
