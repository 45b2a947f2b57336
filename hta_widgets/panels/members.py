"""What a selection holds, in a few numbers."""

from __future__ import annotations

import numpy as np
import pandas as pd

from hta_widgets.analysis.matching import counted
from hta_widgets.analysis.matching import matching
from hta_widgets.analysis.scope import narrowed
from hta_widgets.analysis.scope import parts
from hta_widgets.trace.selection import Selection
from hta_widgets.trace.traceset import TraceSet
from hta_widgets.trace.turns import rest

from hta_widgets.panels.columns import or_null

__all__ = ["summary"]


def summary(traces: TraceSet, selection: Selection) -> pd.DataFrame:
    """Return how many events a selection holds, and from when to when.

    Parameters
    ----------
    traces : TraceSet
    selection : Selection

    Returns
    -------
    DataFrame
        One row: ``events``; ``device_events``, kernels, copies and fills of them; ``collectives``,
        those that are matched over ranks and of which any event is selected; ``ranks``, those
        that have any event; ``start_ns, end_ns``, first start and last end, within the window
        (null where nothing is selected).
    """
    chosen = parts(traces, selection)
    with_events = [part for part in chosen if len(part.rows)]
    starts, ends = [], []
    for part in with_events:
        start, end = part.clipped(part.rows)
        starts.append(int(start.min()) + part.trace.shift_ns)
        ends.append(int(end.max()) + part.trace.shift_ns)
    match = matching(traces)
    rest()
    kept, _ = counted(match, narrowed(traces, selection))
    rest()
    found = pd.DataFrame(
        {
            "events": [sum(len(part.rows) for part in chosen)],
            "device_events": [sum(len(part.busy_rows()) for part in chosen)],
            "collectives": [len(np.unique(match.collective[kept]))],
            "ranks": [len(with_events)],
            "start_ns": or_null([min(starts, default=-1)]),
            "end_ns": or_null([max(ends, default=-1)]),
        }
    )
    if not with_events:
        found.attrs["note"] = "no events are selected"
    return found
