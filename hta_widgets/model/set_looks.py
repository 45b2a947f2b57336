"""What a set says of itself: in a line, in a notebook, and a row for each rank."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

if TYPE_CHECKING:
    from .problems import Problems
    from .traceset import TraceSet

__all__ = ["facts_of", "html_of", "part_of_job", "part_text", "summary_of"]


def summary_of(traces: TraceSet) -> pd.DataFrame:
    """Return one row per rank: where it comes from and what it holds."""
    ranks = list(traces.values())

    def text(values: Iterable[str | None]) -> pd.Series[Any]:
        return pd.Series(list(values), dtype=object)

    def numbers(values: Iterable[int]) -> Any:
        return np.array(list(values), dtype=np.int64)

    return pd.DataFrame(
        {
            "rank": numbers(t.rank for t in ranks),
            "job": text(t.job for t in ranks),
            "worker": numbers(t.worker for t in ranks),
            "local_rank": numbers(t.local_rank for t in ranks),
            "server": numbers(t.server for t in ranks),
            "host": text(t.host for t in ranks),
            "file": text(t.path for t in ranks),
            "format": text(t.format for t in ranks),
            "events": numbers(len(t) for t in ranks),
            "start_ns": numbers(t.start_ns for t in ranks),
            "end_ns": numbers(t.end_ns for t in ranks),
            "stated_rank": numbers(-1 if t.stated_rank is None else t.stated_rank for t in ranks),
        }
    )


def part_of_job(traces: TraceSet) -> dict[str, Any] | None:
    """Return what the files of an export say of the job; None where one of them is no export."""
    if traces.window_ns is None:
        return None
    parts = [part for trace in traces.values() if (part := trace.export_part) is not None]
    return {
        "job_ranks": max(part.job_ranks for part in parts),
        "all_time": all(part.all_time for part in parts),
        "all_events": all(part.all_events for part in parts),
        "cut_events": sum(part.cut_events for part in parts),
    }


def part_text(traces: TraceSet) -> str:
    """Say of what part of their ranks the files are exports; empty where they hold all of them."""
    window_ns, part = traces.window_ns, part_of_job(traces)
    if window_ns is None or part is None or (part["all_time"] and part["all_events"]):
        return ""
    text, cut = "" if part["all_events"] else "chosen events of ", int(part["cut_events"])
    text += (
        "a job" if part["all_time"] else f"{(window_ns[1] - window_ns[0]) / 1e6:,.3f} ms of a job"
    )
    return f"{text}; {cut:,} events cross the window's edges" if cut else text


def facts_of(traces: TraceSet, problems: Problems) -> str:
    """Return a line: how many ranks and events of which format, how long, what was amiss."""
    events = sum(len(trace) for trace in traces.values())
    notes = len(problems)
    missing = sum(not problem.is_harmless for problem in problems)
    amiss = f"{missing} problem{'' if missing == 1 else 's'}" if missing else "complete"
    if notes > missing:
        amiss += f", {notes - missing} notes in .problems"
    start_ns, end_ns = traces.span_ns
    facts = [
        f"{traces.format}",
        ranks_of_job(traces) or f"{len(traces)} rank{'' if len(traces) == 1 else 's'}",
        f"{events:,} events",
        f"{(end_ns - start_ns) / 1e6:,.3f} ms",
        amiss,
    ]
    return " · ".join(facts)


def ranks_of_job(traces: TraceSet) -> str:
    """Return ``5 of 8 ranks`` where files say that there are more ranks; else nothing."""
    stated = int((part_of_job(traces) or {}).get("job_ranks", 0))
    of = max([stated, *(trace.world_size for trace in traces.values())])
    loaded = len(
        {one.rank if one.stated_rank is None else one.stated_rank for one in traces.values()}
    )
    return f"{loaded} of {of} ranks" if loaded < of else ""


def html_of(traces: TraceSet, problems: Problems) -> str:
    """Return the same for a notebook, with tables of the first ranks and problems."""
    summary = summary_of(traces)
    shown = summary[["rank", "file", "format", "events", "start_ns", "end_ns"]].head(16)
    parts = [f"<p><b>TraceSet</b> {escape(facts_of(traces, problems))}</p>", _table(shown)]
    if len(summary) > len(shown):
        parts.append(f"<p>and {len(summary) - len(shown)} ranks more: .summary()</p>")
    if len(problems):
        parts.append("<p>Problems found: .problems</p>" + _table(problems.frame().head(8)))
    return "".join(parts)


def _table(frame: pd.DataFrame) -> str:
    def row(cells: Iterable[object], tag: str) -> str:
        return "<tr>" + "".join(f"<{tag}>{escape(str(cell))}</{tag}>" for cell in cells) + "</tr>"

    body = "".join(row(values, "td") for values in frame.itertuples(index=False, name=None))
    return f"<table><thead>{row(frame.columns, 'th')}</thead><tbody>{body}</tbody></table>"
