"""A part of one rank, as a trace of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from hta_widgets.trace.table import AsyncTable
from hta_widgets.trace.table import CounterTable
from hta_widgets.trace.table import EventTable
from hta_widgets.trace.table import FlowTable
from hta_widgets.trace.table import InstantTable

if TYPE_CHECKING:
    from hta_widgets.trace.selection import Selection
    from hta_widgets.trace.trace import Trace

__all__ = ["trace_within"]


def trace_within(trace: Trace, member: npt.NDArray[np.bool_], window: Selection) -> Trace:
    """Return the member events, numbered anew, and what else lies in the window."""
    rows = np.flatnonzero(member)
    new_row = np.full(len(member) + 1, -1, dtype=np.int64)
    new_row[rows] = np.arange(len(rows))
    low = None if window.start_ns is None else window.start_ns - trace.shift_ns
    high = None if window.end_ns is None else window.end_ns - trace.shift_ns
    return trace.replace(
        _table=_events(trace.table, rows, new_row),
        flow_table=_flows(trace.flow_table, new_row),
        counter_table=_counters(trace.counter_table, low, high),
        instant_table=_instants(trace.instant_table, low, high),
        async_table=_asyncs(trace.async_table, low, high),
        part=True,
    )


def _events(
    table: EventTable, rows: npt.NDArray[np.intp], new_row: npt.NDArray[np.int64]
) -> EventTable:
    columns: dict[str, Any] = {
        name: getattr(table, name)[rows]
        for name in (
            "start_ns",
            "dur_ns",
            "name",
            "category",
            "kind",
            "track",
            "depth",
            "stream",
            "correlation",
            "step",
            "phase",
            "record",
        )
    }
    return EventTable(
        **columns,
        parent=new_row[table.parent[rows]].astype(np.int32),
        names=table.names,
        categories=table.categories,
        tracks=table.tracks,
        end_record={
            int(new_row[row]): record
            for row, record in table.end_record.items()
            if new_row[row] >= 0
        },
    )


def _flows(table: FlowTable, new_row: npt.NDArray[np.int64]) -> FlowTable:
    source, target = new_row[table.source], new_row[table.target]
    kept = (source >= 0) & (target >= 0)
    return FlowTable(
        table.kind[kept],
        source[kept],
        target[kept],
        table.kinds,
        table.source_record[kept],
        table.target_record[kept],
    )


def _between(
    start: npt.NDArray[np.int64], end: npt.NDArray[np.int64], low: int | None, high: int | None
) -> npt.NDArray[np.bool_]:
    kept = np.ones(len(start), dtype=bool)
    if low is not None:
        kept &= (end > low) | (start >= low)
    if high is not None:
        kept &= start < high
    return kept


def _counters(table: CounterTable, low: int | None, high: int | None) -> CounterTable:
    kept = _between(table.time_ns, table.time_ns, low, high)
    return CounterTable(
        table.time_ns[kept],
        table.series_id[kept],
        table.value[kept],
        table.series,
        table.record[kept],
    )


def _instants(table: InstantTable, low: int | None, high: int | None) -> InstantTable:
    kept = np.flatnonzero(_between(table.time_ns, table.time_ns, low, high))
    return InstantTable(
        table.time_ns[kept],
        table.name[kept],
        table.category[kept],
        [table.pid[row] for row in kept],
        [table.tid[row] for row in kept],
        [table.scope[row] for row in kept],
        table.record[kept],
    )


def _asyncs(table: AsyncTable, low: int | None, high: int | None) -> AsyncTable:
    # Without an end an interval is known to have started, not to have gone on.
    end = table.start_ns + np.maximum(table.dur_ns, 0)
    kept = np.flatnonzero(_between(table.start_ns, end, low, high))
    return AsyncTable(
        table.start_ns[kept],
        table.dur_ns[kept],
        table.name[kept],
        table.category[kept],
        [table.async_id[row] for row in kept],
        [table.pid[row] for row in kept],
        table.record[kept],
    )
