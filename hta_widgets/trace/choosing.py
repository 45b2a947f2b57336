"""Which ranks and events of a set its user means."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from hta_widgets.errors import TraceError
from hta_widgets.text import Time
from hta_widgets.trace.selection import Selection, as_ranks
from hta_widgets.trace.trace import (
    EVENT_COLUMNS,
    columns_in,
    event_frame,
    events_of,
    run_query,
)

if TYPE_CHECKING:
    from hta_widgets.trace.traceset import TraceSet

__all__ = ["chosen_events", "chosen_ranks", "listed"]

_FIELDS = ("start_ns", "end_ns", "ranks", "tracks", "query", "ids")


def chosen_ranks(traces: TraceSet, ranks: Iterable[int] | int | None) -> list[int]:
    """Return `ranks`, ascending and each once; None for all."""
    if ranks is None:
        return traces.ranks
    asked = as_ranks(ranks)
    missing = [rank for rank in asked if rank not in traces]
    if missing:
        raise TraceError(
            f"no rank {listed(missing)}", remedy=f"The ranks are {listed(traces.ranks)}."
        )
    return asked


def chosen_events(
    traces: TraceSet,
    query: str | pd.DataFrame | Selection | None,
    *,
    start_ns: Time | None,
    end_ns: Time | None,
    ranks: Iterable[int] | int | None,
    tracks: Iterable[str | tuple[int, str]] | None,
    ids: Iterable[tuple[int, int]] | None,
) -> Selection:
    """Return the selection of what satisfies all that is given; see `TraceSet.select`."""
    if isinstance(query, Selection):
        new = {
            "start_ns": start_ns,
            "end_ns": end_ns,
            "ranks": ranks,
            "tracks": tracks,
            "ids": ids,
        }
        return Selection(
            **{name: getattr(query, name) for name in _FIELDS}
            | {name: value for name, value in new.items() if value is not None},
            traces=traces,
        )
    if isinstance(query, pd.DataFrame):
        ids = _ids_of(query, traces.ranks) if ids is None else ids
        query = None
    if query is not None:
        nothing = events_of([])
        for trace in list(traces.values())[:1]:
            columns = dict.fromkeys((*EVENT_COLUMNS, *columns_in(query)))
            nothing = event_frame(trace, slice(0, 0), columns)
            nothing.insert(0, "rank", trace.rank)
        run_query(nothing, query)
    return Selection(
        start_ns,  # type: ignore[arg-type]
        end_ns,  # type: ignore[arg-type]
        None if ranks is None else tuple(chosen_ranks(traces, ranks)),
        tracks,  # type: ignore[arg-type]
        query,
        ids,  # type: ignore[arg-type]
        traces,
    )


def _ids_of(frame: pd.DataFrame, ranks: list[int]) -> frozenset[tuple[int, int]]:
    if "rank" in frame.columns:
        rank = frame["rank"].to_numpy(dtype=np.int64)
    elif len(ranks) == 1:
        rank = np.full(len(frame), ranks[0], dtype=np.int64)
    else:
        raise TraceError(
            "the frame does not say which rank its events are of",
            remedy='Keep the column "rank".',
        )
    ids = frame["id"] if "id" in frame.columns else frame.index.to_series()
    return frozenset(zip(rank.tolist(), ids.to_numpy(dtype=np.int64).tolist(), strict=True))


def listed(ranks: list[int]) -> str:
    """Return ranks as words; of many the first and the last."""
    if len(ranks) <= 16:
        return ", ".join(map(str, ranks)) or "none"
    return f"{', '.join(map(str, ranks[:12]))}, … {ranks[-1]} ({len(ranks)} in all)"
