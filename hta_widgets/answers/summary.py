"""Summarize a job (headline, ranks, stragglers, problems) as JSON and as text lines."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pandas as pd

from hta_widgets import analysis
from hta_widgets.analysis.cross_rank.stragglers import straggler_report
from hta_widgets.answers.job import Job
from hta_widgets.answers.reply import (
    TableReply,
    grouped_problems,
    job_facts,
    json_value,
    text_lines,
)
from hta_widgets.live.job import PanelEngine
from hta_widgets.panels.frames import offered_panels
from hta_widgets.panels.headline import headline, text_of
from hta_widgets.panels.savings import job_efficiency
from hta_widgets.text import (
    UNKNOWN,
    count,
    duration,
    escape_controls,
    plural,
    share,
    time_point,
)
from hta_widgets.trace.traceset import TraceSet

#: Titles of optional columns in the rank table. A column is shown if any rank has a value.
_TITLES = {
    "comm_s": "in MPI",
    "elapsed_s": "elapsed",
    "compute_ns": "compute",
    "exposed_communication_ns": "exposed communication",
    "exposed_wait_ns": "waiting",
    "unrecorded_ns": "unrecorded work",
    "idle_ns": "idle",
}
#: Columns from `TraceSet.summary`, the dashboard's breakdown, and `analysis.stragglers`.
_FILE = (
    *("rank", "host", "format", "file", "events", "asyncs"),
    *("start_ns", "end_ns", "comm_s", "elapsed_s"),
)
_SPENT = (
    *("span_ns", "compute_ns", "exposed_communication_ns", "exposed_wait_ns", "unrecorded_ns"),
    "idle_ns",
)
_LATE = ("collectives", "score", "imposed_wait_ns", "lost_share")
#: Counts of collectives with events on all of their ranks, and on only some of them.
_MATCHED = ("matched", "partly_matched")


def job_summary(traces: TraceSet) -> dict[str, Any]:
    """Return the contents and main findings of a job as JSON values."""
    main, late, facts = headline(traces), straggler_report(traces), job_facts(traces, ())
    stragglers = analysis.stragglers(traces)
    # The note is about events. In jobs without events, stragglers are found from sums.
    has_waits = bool((stragglers["collectives"] > 0).any())
    note = str(stragglers.attrs.get("note", "")) if has_waits or not late.stragglers else ""
    return {
        **{key: facts[key] for key in ("format", "clock", "events", "start_ns", "end_ns")},
        "collectives": sum(stragglers.attrs["matched"][name] for name in _MATCHED),
        "headline": [text_of(parts) for parts in (main.text_parts, *main.sentences) if parts],
        "ranks": list(map(_json_row, _rank_records(traces, stragglers))),
        "stragglers": [
            {"rank": rank, "cause": late.causes.get(rank, "")} for rank in late.stragglers
        ],
        "note": note,
        "problems": grouped_problems(traces),
    }


def _rank_records(traces: TraceSet, stragglers: pd.DataFrame) -> list[dict[Any, Any]]:
    """Return each rank's values for the columns in `_FILE`, `_SPENT` and `_LATE`, if available."""
    ranks = traces.summary()[list(_FILE)].to_dict("records")
    for rank in ranks:  # profiles have no events
        rank |= {name: None for name in ("start_ns", "end_ns") if rank[name] < 0}
    parts: list[tuple[pd.DataFrame, tuple[str, ...]]] = []
    if "breakdown" in offered_panels(traces.formats):
        parts.append((PanelEngine(traces).frame("breakdown"), _SPENT))
    parts.append((stragglers[stragglers["collectives"] > 0], _LATE))
    for frame, names in parts:
        row_of_rank = frame.set_index("rank").to_dict("index")
        for rank in ranks:
            row = row_of_rank.get(rank["rank"], {})
            rank.update({name: row[name] for name in names if name in row})
    has_unrecorded = any(rank.get("unrecorded_ns") for rank in ranks)
    for rank in ranks:
        if "idle_ns" in rank:
            rank["idle_ns"] -= rank["unrecorded_ns"]
        if not has_unrecorded:
            rank.pop("unrecorded_ns", None)
    return ranks


def summarize_job(job: Job, *, efficiency: bool = False) -> TableReply:
    """Return a `job_summary` as a reply with a row for each rank."""
    summary = job_summary(job.traces)
    if efficiency:
        figures = job_efficiency(job.traces)
        operators = list(map(_json_row, figures.pop("operators")))
        summary["efficiency"] = _json_row(figures) | {"operators": operators}
    ranks = [rank | {"file": escape_controls(rank["file"] or "")} for rank in summary["ranks"]]
    frame = pd.DataFrame(ranks).dropna(axis=1, how="all").convert_dtypes()
    return job.reply(
        frame, "ranks", len(frame), code="traces.summary()", note=summary["note"], more=summary
    )


def summary_lines(summary_data: Mapping[str, Any]) -> Iterator[str]:
    """Yield a `job_summary` as text: headline, ranks, stragglers, problems."""
    ranks = {rank["rank"]: rank for rank in summary_data["ranks"]}
    has_scores = any("score" in rank for rank in ranks.values())
    if summary_data["headline"]:
        yield ""
        yield from summary_data["headline"]
    yield ""
    yield from text_lines(list(_rank_rows(summary_data["ranks"])))
    if has_scores:
        yield _last_at_note(summary_data)
    late = [
        _straggler_line(ranks[straggler["rank"]], straggler["cause"])
        for straggler in summary_data["stragglers"]
    ]
    if has_scores and not late:
        late = ["no straggler is named"]
    if late:
        yield ""
        yield from late
        if summary_data["note"]:
            yield f"({summary_data['note']})"
    yield from _problem_lines(summary_data["problems"])


def efficiency_lines(efficiency: Mapping[str, Any]) -> Iterator[str]:
    """Yield a `job_efficiency` as text: MFU, and operators far below the roofline."""
    if efficiency["mfu"] is not None:
        low = "at least " if efficiency["at_least"] else ""
        part = share(efficiency["known_share"])
        peaks = f"{efficiency['device']}, {efficiency['source']}"
        yield f"MFU {low}{share(efficiency['mfu'])} of {peaks}; FLOPs known for {part} of the time"
    for operator in efficiency["operators"]:
        yield (
            f"{operator['name']} {operator['shapes']}: {duration(operator['device_ns'])} at "
            f"{share(operator['roofline_share'])} of the roofline"
        )
    if efficiency["note"]:
        yield efficiency["note"]


def _json_row(row: Mapping[Any, Any]) -> dict[str, Any]:
    return {str(name): json_value(value) for name, value in row.items()}


def _rank_rows(ranks: Sequence[Mapping[str, Any]]) -> Iterator[list[str]]:
    """Yield the rows of the rank table: titles, ranks and, for several ranks, the mean."""
    columns = [name for name in _TITLES if any(rank.get(name) is not None for rank in ranks)]
    span_titles = ["events", "start", "duration"] if any(map(_is_timed, ranks)) else []
    last_titles = ["last at"] if any("score" in rank for rank in ranks) else []
    titles = [_TITLES[name] for name in columns]
    yield ["rank", *span_titles, *titles, *last_titles, "file"]
    for rank in ranks:
        yield [
            str(rank["rank"]),
            *(_span_texts(rank) if _is_timed(rank) else [UNKNOWN] * len(span_titles)),
            *(duration(_in_ns(rank, name)) for name in columns),
            *[_last_at_text(rank, "/") for _ in last_titles],
            rank["file"],
        ]
    if "compute_ns" in columns and len(ranks) > 1:
        spans, last = [""] * len(span_titles), [""] * len(last_titles)
        yield ["mean", *spans, *_mean_row(ranks, columns), *last, ""]


def _span_texts(rank: Mapping[str, Any]) -> list[str]:
    start_ns, end_ns = rank["start_ns"], rank["end_ns"]
    has_only_asyncs = rank["asyncs"] and not rank["events"]
    events = f"{count(rank['asyncs'])} async" if has_only_asyncs else count(rank["events"])
    return [events, time_point(start_ns), time_point(end_ns - start_ns)]


def _is_timed(rank: Mapping[str, Any]) -> bool:
    return rank["start_ns"] is not None


def _mean_row(ranks: Sequence[Mapping[str, Any]], columns: Sequence[str]) -> list[str]:
    """Return the mean of each column over the ranks that have a value, as text."""
    texts = []
    for name in columns:
        times_ns = [time for rank in ranks if (time := _in_ns(rank, name)) is not None]
        texts.append(duration(sum(times_ns) / len(times_ns)) if times_ns else UNKNOWN)
    return texts


def _last_at_note(summary_data: Mapping[str, Any]) -> str:
    """Explain the column "last at", and why its sum may be less than the number of collectives."""
    collectives = summary_data["collectives"]
    last = sum(_last_count(rank) for rank in summary_data["ranks"] if "score" in rank)
    ties = collectives - last
    together = f"; at {count(ties)} several ranks arrived together" if ties > 0 else ""
    return (
        "last at: collectives of a rank's process groups at which only this rank arrived last;"
        f" adds up to {count(last)} of the job's {plural(collectives, 'collective')}{together}"
    )


def _last_count(rank: Mapping[str, Any]) -> int:
    last: int = round(rank["score"] * rank["collectives"])
    return last


def _in_ns(rank: Mapping[str, Any], name: str) -> float | None:
    value = rank.get(name)
    return value * 1e9 if value is not None and name.endswith("_s") else value


def _last_at_text(rank: Mapping[str, Any], separator: str) -> str:
    """Return in how many of its collectives a rank was last, for example ``3/10``."""
    if "score" not in rank:
        return UNKNOWN
    return f"{count(_last_count(rank))}{separator}{count(rank['collectives'])}"


def _straggler_line(rank: Mapping[str, Any], cause: str) -> str:
    subject = f"rank {rank['rank']} is a straggler"
    if "score" not in rank:
        return f"{subject}: it spends the least time in MPI"
    cause_text = f" ({cause})" if cause else ""
    return f"{subject}{cause_text}: last at {_last_at_text(rank, ' of ')} collectives of its groups"


def _problem_lines(problems: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    if problems:
        yield from ("", "problems")
    for problem in problems:
        location = f"{problem['files']} files" if problem["files"] > 1 else problem["file"]
        line = f"  {problem['kind']}: {count(problem['count'])} × {problem['detail']}"
        yield f"{line} ({location})" if location else line
