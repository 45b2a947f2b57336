"""What HTA's analyses work on: the kept events, and rank 0 where no ranks are named."""

from __future__ import annotations

from collections.abc import Iterable

import pandas as pd

from hta_widgets.compat.common.trace import Trace
from hta_widgets.compat.hta_frame import first_event_ns
from hta_widgets.trace.traceset import TraceSet

__all__ = ["asked_ranks", "kept_of", "with_attrs_of", "zero_ns_of"]


def kept_of(t: TraceSet) -> TraceSet:
    """Return the events that HTA's analyses look at; all, of a set that is not HTA's `Trace`."""
    return t.kept if isinstance(t, Trace) else t


def zero_ns_of(t: TraceSet) -> int:
    """Return what time 0 of HTA's frames is on the set's clock."""
    return first_event_ns(t.values())


def asked_ranks(t: TraceSet, ranks: Iterable[int] | None) -> list[int]:
    """Return the ranks; HTA's default, rank 0, where none are named, or the first there is."""
    named = [] if ranks is None else [int(rank) for rank in ranks]
    kept = kept_of(t)
    return named or ([0] if 0 in kept else kept.ranks[:1])


def with_attrs_of(frame: pd.DataFrame, source: pd.DataFrame) -> pd.DataFrame:
    """Return `frame` with what `source` says of its events in ``.attrs``."""
    frame.attrs.update(source.attrs)
    if not len(frame):
        frame.attrs.setdefault("note", "no events match")
    return frame
