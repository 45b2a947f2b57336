"""Everything about one event: where it is, what it says of itself, what it hangs together with."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from hta_widgets.tiles.args_text import args_of_record
from hta_widgets.tiles.briefs import brief
from hta_widgets.tiles.rank_index import RankIndex
from hta_widgets.tiles.rank_index import Rows
from hta_widgets.tiles.same_name import duration_figures

__all__ = ["details"]


def details(index: RankIndex, table: Rows, row: int) -> dict[str, Any]:
    """Answer ``event``."""
    args, error = _args(index, table, row)
    is_event = table.table == "events"
    same = (table.name == table.name[row]) & (table.category == table.category[row])
    return {
        "event": {**brief(index, table, row), **_place(index, table, row)},
        "parents": list(_parents(index, table, row)) if is_event else [],
        "args": [list(pair) for pair in args],
        "args_error": error,
        "flows": list(_flows(index, row)) if is_event else [],
        "same": duration_figures(table.dur_ns[same]),
    }


def _place(index: RankIndex, table: Rows, row: int) -> dict[str, Any]:
    rank, category = index.rank, table.categories[int(table.category[row])]
    if table.table == "events":
        t = rank.table
        track = t.tracks[t.track[row]]
        return {
            "category": category,
            "process": track.process,
            "track": track.key,
            "depth": int(t.depth[row]),
            "stream": int(t.stream[row]),
            "step": int(t.step[row]),
            "correlation": int(t.correlation[row]),
        }
    lane = index.side_lanes(table.table)[row]
    track_row = next(one for one in rank.tracks if one.lane0 <= lane < one.lane0 + one.lanes)
    return {
        "category": category,
        "process": track_row.process,
        "track": track_row.key,
        "depth": int(lane - track_row.lane0),
        "stream": None,
        "step": None,
        "correlation": None,
    }


def _parents(index: RankIndex, table: Rows, row: int) -> Iterator[dict[str, Any]]:
    parent = index.rank.table.parent
    above = int(parent[row])
    while above >= 0:
        yield brief(index, table, above)
        above = int(parent[above])


def _args(index: RankIndex, table: Rows, row: int) -> tuple[list[tuple[str, str]], str | None]:
    """Return the args of an event's records, and why they cannot be had."""
    source = index.rank.trace.source
    if source is None:
        return [], None
    records = [int(table.record[row])]
    if records[0] < 0:  # derived, so no record says anything of it
        return [], None
    if table.table == "events" and row in index.rank.table.end_record:
        records.append(index.rank.table.end_record[row])
    pairs: list[tuple[str, str]] = []
    try:
        for record in records:
            pairs += args_of_record(source.record(record))
    except (OSError, ValueError, LookupError, RecursionError) as error:
        return pairs, str(error) or type(error).__name__
    return pairs, None


def _flows(index: RankIndex, row: int) -> Iterator[dict[str, Any]]:
    flows, table = index.rank.trace.flow_table, index.events
    found: list[dict[str, Any]] = []
    for direction, here, there in (
        ("out", flows.source, flows.target),
        ("in", flows.target, flows.source),
    ):
        for at in np.flatnonzero(here == row).tolist():
            source, target = int(flows.source[at]), int(flows.target[at])
            end = int(table.start_ns[source] + table.dur_ns[source])
            found.append(
                {
                    "kind": flows.kinds[int(flows.kind[at])],
                    "direction": direction,
                    "brief": brief(index, table, int(there[at])),
                    "delay": int(table.start_ns[target]) - end,
                }
            )
    yield from sorted(found, key=lambda flow: (flow["delay"], flow["brief"]["id"]))
