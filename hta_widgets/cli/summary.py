"""Values and text lines of `hta-widgets summary`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pandas as pd

from hta_widgets import analysis
from hta_widgets.analysis.stragglers import judgement
from hta_widgets.live.job import PanelEngine
from hta_widgets.panels.catalog import offered_panels
from hta_widgets.panels.headline import headline, text_of
from hta_widgets.text import UNKNOWN, count, duration, share
from hta_widgets.trace.traceset import TraceSet

_MOST_PROBLEMS = 12
#: Columns of `TraceSet.summary`, of the dashboard's breakdown, and of `analysis.stragglers`.
_FILE = ("rank", "host", "format", "file", "events", "start_ns", "end_ns")
_SPENT = ("span_ns", "compute_ns", "exposed_communication_ns", "exposed_wait_ns", "idle_ns")
_LATE = ("collectives", "score", "imposed_wait_ns", "lost_share")
#: Optional columns of the rank table: name, title and format. Shown if any rank has a value.
_COLUMNS = (
    ("compute_ns", "compute", duration),
    ("exposed_communication_ns", "exposed comm", duration),
    ("exposed_wait_ns", "of it waiting", duration),
    ("idle_ns", "idle", duration),
)


def job_summary(traces: TraceSet) -> dict[str, Any]:
    """Return a job's contents and main findings as JSON values."""
    main, late = headline(traces), judgement(traces)
    stragglers = analysis.stragglers(traces)
    ranks = traces.summary()[list(_FILE)].to_dict("records")
    parts: list[tuple[pd.DataFrame, tuple[str, ...]]] = [
        (stragglers[stragglers["collectives"] > 0], _LATE)
    ]
    if "breakdown" in offered_panels(traces.formats):
        parts.insert(0, (PanelEngine(traces).frame("breakdown"), _SPENT))
    for frame, names in parts:
        known = frame.set_index("rank").to_dict("index")
        for rank in ranks:
            found = known.get(rank["rank"], {})
            rank.update({name: found[name] for name in names if name in found})
    return {
        "format": traces.format,
        "events": sum(len(trace) for trace in traces.values()),
        "start_ns": int(traces.start_ns),
        "end_ns": int(traces.end_ns),
        "headline": [text_of(parts) for parts in (main.text_parts, *main.sentences) if parts],
        "ranks": [_plain(rank) for rank in ranks],
        "stragglers": [
            {"rank": rank, "cause": late.causes.get(rank, "")} for rank in late.stragglers
        ],
        "note": str(stragglers.attrs.get("note", "")),
        "problems": [_plain(problem) for problem in traces.problems.to_dict("records")],
    }


def summary_lines(found: Mapping[str, Any]) -> Iterator[str]:
    """Format a `job_summary` as lines: headline, ranks, stragglers, problems."""
    ranks = {rank["rank"]: rank for rank in found["ranks"]}
    if found["headline"]:
        yield ""
        yield from found["headline"]
    yield ""
    yield from _table(list(_rank_rows(found["ranks"])))
    late = [_straggler(ranks[one["rank"]], one["cause"]) for one in found["stragglers"]]
    if not late and any("score" in rank for rank in ranks.values()):
        late = ["no straggler is named"]
    if late:
        yield ""
        yield from late
        if found["note"]:
            yield f"({found['note']})"
    yield from _problems(found["problems"])


def _plain(row: Mapping[Any, Any]) -> dict[str, Any]:
    """Return a row as JSON values, with None for unknown ones."""
    return {
        str(name): None if pd.isna(value) else value.item() if hasattr(value, "item") else value
        for name, value in row.items()
    }


def _rank_rows(ranks: Sequence[Mapping[str, Any]]) -> Iterator[list[str]]:
    columns = [
        column for column in _COLUMNS if any(rank.get(column[0]) is not None for rank in ranks)
    ]
    titles = [title for _, title, _ in columns]
    last = ["last at"] if any("score" in rank for rank in ranks) else []
    yield ["rank", "events", "start", "duration", *titles, *last, "file"]
    for rank in ranks:
        yield [
            str(rank["rank"]),
            f"{rank['events']:,}",
            f"{rank['start_ns'] / 1e6:,.3f} ms",
            f"{(rank['end_ns'] - rank['start_ns']) / 1e6:,.3f} ms",
            *(words(rank.get(name)) for name, _, words in columns),
            *[_last_at(rank, "/") for _ in last],
            rank["file"],
        ]


def _last_at(rank: Mapping[str, Any], of: str) -> str:
    """Format the number of collectives at which a rank is last, and of all of them."""
    if "score" not in rank:
        return UNKNOWN
    number = round(rank["score"] * rank["collectives"])
    return f"{count(number)}{of}{count(rank['collectives'])}"


def _table(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for *numbers, last in rows:
        cells = [cell.rjust(width) for cell, width in zip(numbers, widths, strict=False)]
        yield "  ".join([*cells, last])


def _straggler(rank: Mapping[str, Any], cause: str) -> str:
    who = f"rank {rank['rank']} is a straggler"
    if "score" not in rank:
        return f"{who}: it spends least time in MPI"
    return (
        f"{who}{f' ({cause})' if cause else ''}: last at {_last_at(rank, ' of ')}"
        f" collectives; the others lose {share(rank['lost_share'])} of their time"
    )


def _problems(problems: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    found: Counter[tuple[str, str]] = Counter()
    files: dict[tuple[str, str], set[str]] = {}
    for problem in problems:
        what = str(problem["kind"]), str(problem["detail"])
        found[what] += problem["count"]
        files.setdefault(what, set()).add(problem["file"] or "")
    if found:
        yield from ("", "problems")
    for (kind, detail), number in list(found.items())[:_MOST_PROBLEMS]:
        named = files[kind, detail]
        where = f"{len(named)} files" if len(named) > 1 else min(named)
        yield f"  {kind}: {number:,} × {detail}" + (f" ({where})" if where else "")
    if len(found) > _MOST_PROBLEMS:
        yield f"  and {len(found) - _MOST_PROBLEMS} more: hw.load(…).problems lists them"
