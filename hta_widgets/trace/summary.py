"""Facts that the files of a job state together, and the display of trace sets."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from html import escape
from typing import Any

import numpy as np
import pandas as pd

from hta_widgets.text import count, plural, time_point
from hta_widgets.trace.memo import iter_ranks
from hta_widgets.trace.problems import CompactFrame, Problems
from hta_widgets.trace.trace import Trace, contents_text, profile_value, totals_text


def exported_window(traces: Mapping[int, Trace]) -> tuple[int, int] | None:
    """Return the window of the job that all files export; None if a file has no window."""
    windows = [trace.window_ns for trace in traces.values() if len(trace)]
    stated = [window for window in windows if window is not None]
    if not stated or len(stated) < len(windows):
        return None
    return min(low for low, _ in stated), max(high for _, high in stated)


def part_of_job(traces: Mapping[int, Trace]) -> dict[str, Any] | None:
    """Return what exported files state about the job; None if a file is not an export."""
    if exported_window(traces) is None:
        return None
    parts = [part for trace in traces.values() if (part := trace.export_part) is not None]
    return {
        "job_ranks": max(part.job_ranks for part in parts),
        "all_time": all(part.all_time for part in parts),
        "all_events": all(part.all_events for part in parts),
        "cut_events": sum(part.cut_events for part in parts),
    }


_DEVICE_WORD = re.compile(
    r"\b(ascend|dcu|gcu|hpu|ipu|mlu|mtia|npu|tpu|xpu)\b|\bneuron(?=[ _-]?core)", re.IGNORECASE
)
#: Categories of device work that only one kind of device has.
_CATEGORY_WORDS = {"hpu_op": "HPU", "mtia_ccp_events": "MTIA"}


def device_word(traces: Iterable[Trace]) -> str:
    """Return the word for the devices of a job, such as ``NPU``. Default: ``GPU``.

    It is derived from names of device tracks and categories of events on the first rank with device
    work.
    """
    for trace in iter_ranks(traces):
        devices = [track.process for track in trace.tracks if track.stream >= 0]
        if devices:
            words = [match[0].upper() for match in map(_DEVICE_WORD.search, devices) if match]
            words += [_CATEGORY_WORDS.get(name, "") for name in trace.table.categories.values]
            word = next(filter(None, words), "GPU")
            return {"ASCEND": "NPU", "NEURON": "NeuronCore"}.get(word, word)
    return "GPU"


def device_word_attrs(traces: Mapping[int, Trace]) -> dict[str, Any]:
    """Return the frame attribute with the word for charts; empty if the word is ``GPU``."""
    word = device_word(traces.values())
    return {} if word == "GPU" else {"device_word": word}


def most_frequent_size(sizes: Iterable[int]) -> int:
    """Return the most frequent positive size (in a tie, the largest); 0 if none is positive."""
    counts = Counter(size for size in sizes if size > 0)
    return max(counts, key=lambda size: (counts[size], size), default=0)


def rank_coverage_text(traces: Mapping[int, Trace]) -> str:
    """Return, for example, ``5 of 8 ranks``; empty if all ranks of the job are loaded."""
    exported = int((part_of_job(traces) or {}).get("job_ranks", 0))
    rank_count = max(exported, most_frequent_size(trace.world_size for trace in traces.values()))
    stated_ranks = (trace.stated_rank for trace in traces.values())
    loaded = {
        rank if stated_rank is None else stated_rank
        for rank, stated_rank in zip(traces, stated_ranks, strict=True)
    }
    return f"{len(loaded)} of {rank_count} ranks" if len(loaded) < rank_count else ""


def part_text(traces: Mapping[int, Trace]) -> str:
    """Describe which part of a job exported files contain; empty for the whole job."""
    window_ns, part = exported_window(traces), part_of_job(traces)
    if window_ns is None or part is None or (part["all_time"] and part["all_events"]):
        return ""
    limits = []
    if not part["all_events"]:
        limits.append("chosen events")
    if not part["all_time"]:
        limits.append(time_point(window_ns[1] - window_ns[0]))
    cut = int(part["cut_events"])
    cut_text = f"; {count(cut)} events cross the window's edges" if cut else ""
    return " of ".join([*limits, "a job"]) + cut_text


def facts_line(
    traces: Mapping[int, Trace], format_name: str, span_ns: tuple[int, int], problems: Problems
) -> str:
    """Return the facts that the ``repr`` of a trace set states."""
    start_ns, end_ns = span_ns
    contents = [contents_text(traces.values()), time_point(end_ns - start_ns)]
    note_count = sum(problem.is_note for problem in problems)
    problem_count = len(problems) - note_count
    problems_text = plural(problem_count, "problem") if problem_count else "complete"
    if note_count:
        problems_text += f", {plural(note_count, 'note')} in .problems"
    facts = [
        format_name,
        rank_coverage_text(traces) or f"{len(traces)} rank{'' if len(traces) == 1 else 's'}",
        *([totals_text(traces.values())] if _has_only_totals(traces) else contents),
        problems_text,
    ]
    return " · ".join(facts)


def summary_frame(traces: Mapping[int, Trace], span_ns: tuple[int, int]) -> CompactFrame:
    """Return the frame of `TraceSet.summary`."""
    ranks = list(traces.values())

    def text(values: Iterable[str | None]) -> pd.Series[Any]:
        return pd.Series(list(values), dtype=object)

    def numbers(values: Iterable[int]) -> Any:
        return np.array(list(values), dtype=np.int64)

    def times(values: Iterable[int]) -> Any:
        is_totals = np.array([t.is_totals for t in ranks], dtype=bool)
        return np.where(is_totals, -1, np.clip(numbers(values), *span_ns))

    return CompactFrame(
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
            "start_ns": times(t.start_ns for t in ranks),
            "end_ns": times(t.end_ns for t in ranks),
            "stated_rank": numbers(-1 if t.stated_rank is None else t.stated_rank for t in ranks),
            "comm_s": np.array([profile_value(t, "comm_s") for t in ranks], np.float64),
            "elapsed_s": np.array([profile_value(t, "elapsed_s") for t in ranks], np.float64),
            "profile": text(t.profile_path for t in ranks),
            "asyncs": numbers(len(t.async_table) for t in ranks),
        },
        optional=(
            *("job", "worker", "local_rank", "server", "host", "start_ns", "end_ns"),
            *("stated_rank", "comm_s", "elapsed_s", "profile"),
        ),
        hidden=(
            *(["events"] if _has_only_totals(traces) else []),
            *([] if any(len(t.async_table) for t in ranks) else ["asyncs"]),
        ),
    )


def _has_only_totals(traces: Mapping[int, Trace]) -> bool:
    return bool(traces) and all(trace.is_totals for trace in traces.values())


def html(facts: str, summary: CompactFrame, problems: Problems) -> str:
    """Return HTML for a notebook: one line, and tables of the first ranks and problems."""
    displayed: Any = summary.displayed_columns()
    names = ["rank", "file", "format", "events", "start_ns", "end_ns", "comm_s", "elapsed_s"]
    shown = displayed.filter(names).head(16)
    parts = [f"<p><b>TraceSet</b> {escape(facts)}</p>", _table(shown)]
    if len(displayed) > len(shown):
        parts.append(f"<p>and {len(displayed) - len(shown)} more ranks: .summary()</p>")
    if len(problems):
        parts.append("<p>Problems found: .problems</p>" + _table(problems.frame().head(8)))
    return "".join(parts)


def _table(frame: pd.DataFrame) -> str:
    def row(cells: Iterable[object], tag: str) -> str:
        return "<tr>" + "".join(f"<{tag}>{escape(str(cell))}</{tag}>" for cell in cells) + "</tr>"

    body = "".join(row(values, "td") for values in frame.itertuples(index=False, name=None))
    return f"<table><thead>{row(frame.columns, 'th')}</thead><tbody>{body}</tbody></table>"
