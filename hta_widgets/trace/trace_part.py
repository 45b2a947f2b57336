"""The part of a trace in a window: its events, and the records that belong to them."""

from __future__ import annotations

import numpy as np

from hta_widgets.trace.arrays import Bools, Ints, Rows, positions_of_rows
from hta_widgets.trace.columns import take_rows
from hta_widgets.trace.conditions import Conditions, overlaps_window, window_in_table_time
from hta_widgets.trace.trace import Trace


def trace_within(trace: Trace, is_member: Bools, window: Conditions) -> Trace:
    """Return a trace of the member events, with new ids, and the other records in the window."""
    edges = window_in_table_time(window, trace)

    def inside(start: Ints, end: Ints) -> Rows:
        return np.flatnonzero(overlaps_window(start, end, *edges))

    rows = np.flatnonzero(is_member)
    new_row = positions_of_rows(rows, len(is_member))
    table, flows = trace.table, trace.flow_table
    counters, instants, asyncs = trace.counter_table, trace.instant_table, trace.async_table
    # An async interval without an end counts as an instant at its start.
    ends = asyncs.start_ns + np.maximum(asyncs.dur_ns, 0)
    source, target = new_row[flows.source], new_row[flows.target]
    arrows = np.flatnonzero((source >= 0) & (target >= 0))
    return trace.replace(
        _table=take_rows(
            table,
            rows,
            parent=new_row[table.parent[rows]].astype(np.int32),
            end_record={
                int(new_row[row]): record
                for row, record in table.end_record.items()
                if new_row[row] >= 0
            },
        ),
        flow_table=take_rows(flows, arrows, source=source[arrows], target=target[arrows]),
        counter_table=take_rows(counters, inside(counters.time_ns, counters.time_ns)),
        instant_table=take_rows(instants, inside(instants.time_ns, instants.time_ns)),
        async_table=take_rows(asyncs, inside(asyncs.start_ns, ends)),
        part=True,
    )
