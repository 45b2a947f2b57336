"""How BytePS's files look on the timeline: names of tracks, and counters of what is under way."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from hta_widgets.trace.table import CounterTable
from hta_widgets.trace.table import Track

__all__ = ["BYTEPS_WAIT", "in_flight", "named_tracks"]

Ints = npt.NDArray[np.int64]

#: Category of the waits that no record states, but that follow from those around them.
BYTEPS_WAIT = "waiting"


def named_tracks(tracks: Sequence[Track]) -> list[Track]:
    """Return tracks that are called what they are, not taken for threads of a program."""
    return [replace(track, role="other") for track in tracks]


def in_flight(
    name: str, spans: Sequence[tuple[str, Ints, Ints]], others: CounterTable
) -> CounterTable:
    """Return counters of how many spans of each kind are open at a time.

    Parameters
    ----------
    name : str
        Of the counter, and of the process that it is shown in.
    spans : sequence of (str, starts, ends)
        Of each series.
    others : CounterTable
        The file's own, if it has any; they come first.
    """
    times, series, values = [others.time_ns], [others.series_id], [others.value]
    known = list(others.series)
    for label, start, end in spans:
        if not len(start) or (name, label, "value") in others.series:
            continue
        change = np.concatenate([np.ones(len(start)), -np.ones(len(end))])
        at, where = np.unique(np.concatenate([start, end]), return_inverse=True)
        times.append(at)
        values.append(np.cumsum(np.bincount(where.reshape(-1), change)))
        series.append(np.full(len(at), len(known), np.int32))
        known.append((name, label, "value"))
    time_ns = np.concatenate(times)
    return CounterTable(
        time_ns=time_ns.astype(np.int64),
        series_id=np.concatenate(series).astype(np.int32),
        value=np.concatenate(values).astype(np.float64),
        series=known,
        record=np.concatenate(
            [others.record, np.full(len(time_ns) - len(others.record), -1, np.int64)]
        ),
    )
