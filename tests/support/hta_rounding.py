"""Round traces as HTA does, so that its numbers can be compared exactly."""

from dataclasses import fields, replace

import numpy as np

from hta_widgets.trace.columns import EventTable
from hta_widgets.trace.trace import Trace
from hta_widgets.trace.traceset import TraceSet


def rounded(traces: TraceSet) -> TraceSet:
    """Return the events with starts rounded up and ends rounded down to microseconds, as floats.

    HTA rounds times in files that contain fractions of a microsecond, and no others.
    """
    if min((trace.resolution_ns for trace in traces.values()), default=1000) >= 1000:
        return traces
    return TraceSet([_rounded(trace) for trace in traces.values()], like=traces)


def _rounded(trace: Trace) -> Trace:
    table = trace.table
    base = trace.zero_ns - trace.metadata.get("baseTimeNanoseconds", 0)
    ts = np.array([_decimal(time) for time in (table.start_ns + base).tolist()])
    dur = np.array([_decimal(time) for time in table.dur_ns.tolist()])
    start = np.ceil(ts).astype(np.int64) * 1000 - base
    end = np.floor(ts + dur).astype(np.int64) * 1000 - base
    # Some columns are only read on first access.
    columns = {field.name: getattr(table, field.name) for field in fields(EventTable)}
    columns |= {"start_ns": start, "dur_ns": end - start}
    return replace(trace, _table=EventTable(**columns))


def _decimal(time_ns: int) -> float:
    """Return the float that a JSON reader gets for these nanoseconds, written as microseconds."""
    return float(f"{time_ns // 1000}.{time_ns % 1000:03d}")
