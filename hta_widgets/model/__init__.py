"""The event model: ranks as columns, their places, kinds, steps and links."""

from .build import build_trace
from .frames import EVENT_COLUMNS
from .problems import PROBLEM_KINDS, Problem, Problems
from .selection import Selection
from .table import (
    KINDS,
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
from .trace import Trace
from .traceset import TraceSet

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
