"""The event model: ranks as columns, with tracks, kinds, steps and links."""

from hta_widgets.taxonomy import KINDS
from hta_widgets.trace.build import build_trace
from hta_widgets.trace.columns import (
    AsyncTable,
    CopyTable,
    CounterTable,
    EventTable,
    FlowTable,
    InstantTable,
    Pool,
    RankColumns,
    RecordSource,
    Track,
    TrackRole,
)
from hta_widgets.trace.problems import PROBLEM_KINDS, Problem, Problems
from hta_widgets.trace.selection import Selection
from hta_widgets.trace.trace import EVENT_COLUMNS, Trace
from hta_widgets.trace.traceset import TraceSet

__all__ = [
    "EVENT_COLUMNS",
    "KINDS",
    "PROBLEM_KINDS",
    "AsyncTable",
    "CopyTable",
    "CounterTable",
    "EventTable",
    "FlowTable",
    "InstantTable",
    "Pool",
    "Problem",
    "Problems",
    "RankColumns",
    "RecordSource",
    "Selection",
    "Trace",
    "TraceSet",
    "Track",
    "TrackRole",
    "build_trace",
]
