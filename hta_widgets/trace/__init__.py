"""The event model: ranks as columns, their places, kinds, steps and links."""

from hta_widgets.trace.build import build_trace
from hta_widgets.trace.frames import EVENT_COLUMNS
from hta_widgets.trace.problems import PROBLEM_KINDS
from hta_widgets.trace.problems import Problem
from hta_widgets.trace.problems import Problems
from hta_widgets.trace.selection import Selection
from hta_widgets.trace.table import KINDS
from hta_widgets.trace.table import AsyncTable
from hta_widgets.trace.table import CopyTable
from hta_widgets.trace.table import CounterTable
from hta_widgets.trace.table import EventTable
from hta_widgets.trace.table import FlowTable
from hta_widgets.trace.table import InstantTable
from hta_widgets.trace.table import Pool
from hta_widgets.trace.table import RankColumns
from hta_widgets.trace.table import RecordSource
from hta_widgets.trace.table import Track
from hta_widgets.trace.table import TrackRole
from hta_widgets.trace.trace import Trace
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
