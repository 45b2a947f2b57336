"""The scene: all that the page needs to know before it asks for the first tile."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

from hta_widgets.lanes.labels import job_title, place_label
from hta_widgets.lanes.layout import Job, Rank, SummaryRow, TrackRow
from hta_widgets.model import Problem, TraceSet
from hta_widgets.model.set_looks import part_of_job, ranks_of_job
from hta_widgets.model.table import KINDS
from hta_widgets.tiles.strip import strip
from hta_widgets.tiles.truth import truth

__all__ = ["describe", "whole_range"]

VERSION = 1


def describe(job: Job, traces: TraceSet) -> dict[str, Any]:
    """Return the scene of a job as JSON values; see ``Scene`` in ``js/src/contract.ts``."""
    problems = _problems(traces)
    events = sum(len(rank.table) for rank in job.ranks)
    ranks = ranks_of_job(traces)
    counts: Counter[int | None] = Counter()
    cut: dict[int | None, str] = {}
    for problem in problems:
        if not problem.is_harmless:
            counts[problem.rank] += problem.count
        if problem.kind == "truncated":
            cut.setdefault(problem.rank, problem.detail)
    return {
        "version": VERSION,
        "title": job_title([rank.trace.path for rank in job.ranks]),
        "events": events,
        "range": list(whole_range(job, traces)),
        "kinds": list(KINDS),
        "host_communication": any(map(_communicates_on_host, job.ranks)),
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


def _communicates_on_host(rank: Rank) -> bool:
    """Whether a rank without device work has collectives on its host."""
    if any(row.role in {"gpu", "comm"} for row in rank.summary):
        return False
    return bool((rank.table.kind == KINDS.index("communication")).any())


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
