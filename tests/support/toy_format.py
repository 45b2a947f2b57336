"""A minimal format: text with one line ``rank start_us dur_us name`` per event.

The format is the example in docs/formats.md, and tests register it.
"""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from hta_widgets.diff.records import time_change
from hta_widgets.diff.sentences import times_text
from hta_widgets.diff.tables import join_sides
from hta_widgets.panels.frames import Panel, take_columns
from hta_widgets.panels.headline import HeadlineFinding
from hta_widgets.readers.formats import (
    FileReading,
    FileStart,
    Format,
    FormatAnalyses,
    FormatComparison,
    FormatViews,
    Outcome,
)
from hta_widgets.trace.build import build_trace
from hta_widgets.trace.columns import RankColumns, StringPool
from hta_widgets.trace.problems import Problems
from hta_widgets.trace.traceset import Selection


def sniff(start: FileStart) -> bool:
    return start.text.startswith(b"# toy")


def read(path: str, *, advance: Any = None, keepalive: Any = None) -> Outcome:
    lines = Path(path).read_text("utf-8").splitlines()
    rows = [line.split() for line in lines if not line.startswith("#")]
    rank, start, dur = np.array([row[:3] for row in rows], np.int64).T
    names, name = np.unique([row[3] for row in rows], return_inverse=True)
    zeros, none = np.zeros(len(rows), np.int32), np.full(len(rows), -1, np.int64)
    columns = RankColumns(
        phase=np.full(len(rows), ord("X"), np.uint8),
        start_ns=start * 1000,
        dur_ns=dur * 1000,
        timed=np.ones(len(rows), np.bool_),
        name=name.astype(np.int32),
        **dict.fromkeys(("category", "pid", "tid"), zeros),
        **dict.fromkeys(("stream", "flow"), none.astype(np.int32)),
        correlation=none,
        record=np.arange(len(rows)),
        names=StringPool(names.tolist()),
        categories=StringPool(["toy"]),
        **{pool: StringPool(["0"]) for pool in ("pids", "tids", "flow_ids")},
    )
    problems, about = Problems(), {"format": "toy", "stated_rank": int(rank[0])}
    result = {"rank": int(rank[0]), "path": path, "metadata": {}, "source": None}
    return Outcome((build_trace(columns, problems=problems, **result, **about),), problems)


def toy_totals(traces: Any) -> pd.DataFrame:
    """Sum the time per rank and name."""
    frames = [trace.frame().assign(rank=rank) for rank, trace in traces.items()]
    events = pd.concat(frames).astype({"name": str})
    return events.groupby(["rank", "name"])["dur_ns"].sum().reset_index()


def headline(traces: Any) -> Any:
    longest = toy_totals(traces).nlargest(1, "dur_ns").iloc[0]
    text = f"{longest['name']} takes most time."
    return [HeadlineFinding("kernel", 1.0, [text], "Select it", Selection())], [], []


def diff_totals(diff: Any) -> pd.DataFrame:
    sides = [toy_totals(side.traces).groupby("name")["dur_ns"].sum() for side in diff.sides]
    return join_sides([side.reset_index() for side in sides], ["name"], ["dur_ns"], by="dur_ns")


def frame(traces: Any, _selection: Selection, _top: int | None) -> pd.DataFrame:
    return take_columns(toy_totals(traces), ["rank", "name", "dur_ns"])


PANELS = (Panel("toy_totals", "toy_totals", ("names",), frame=frame),)
DIFF = {"toy_totals": diff_totals}


def findings(diff: Any) -> Any:
    row = diff_totals(diff).iloc[0]
    times = row["before_dur_ns"], row["after_dur_ns"]
    yield time_change("total", *times, name=row["name"], measure="total")


def total_text(finding: Any, _diff: Any) -> str:
    return f"{finding.name} differs most in total: {times_text(finding)}."


FINDING_WORDS = {"total": total_text}
_HERE = __name__
FORMAT = Format(
    name="toy",
    label="Toy",
    plural="toy traces",
    reading=FileReading(sniff=f"{_HERE}:sniff", read=f"{_HERE}:read"),
    analyses=FormatAnalyses(functions=(f"{_HERE}:toy_totals",)),
    views=FormatViews(
        panels=f"{_HERE}:PANELS", shared_panels=("timeline",), headline=f"{_HERE}:headline"
    ),
    comparison=FormatComparison(
        tables=f"{_HERE}:DIFF",
        findings=f"{_HERE}:findings",
        finding_words=f"{_HERE}:FINDING_WORDS",
    ),
)
