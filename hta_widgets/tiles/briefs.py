"""One event in a few words: what every answer says of an event that it names."""

from __future__ import annotations

from typing import Any

from hta_widgets.trace.names import short_name
from hta_widgets.trace.table import KINDS
from hta_widgets.tiles.rank_index import RankIndex
from hta_widgets.tiles.rank_index import Rows

__all__ = ["brief", "checked_row", "lane_of_row"]


def brief(index: RankIndex, table: Rows, row: int) -> dict[str, Any]:
    """Return the brief of a row of one of the rank's tables."""
    name = table.names[int(table.name[row])]
    return {
        "rank": index.rank.rank,
        "table": table.table,
        "id": row,
        "lane": lane_of_row(index, table.table, row),
        "name": name,
        "short": short_name(name),
        "kind": KINDS[int(table.kind[row])],
        "start": int(table.start_ns[row]) + index.rank.shift_ns,
        "dur": int(table.dur_ns[row]),
    }


def lane_of_row(index: RankIndex, table: str, row: int) -> int:
    """Return the lane on which a row is drawn: of events the one of their depth."""
    rank = index.rank
    if table == "events":
        return int(rank.track_lane0[rank.table.track[row]]) + int(rank.table.depth[row])
    return int(index.side_lanes(table)[row])


def checked_row(index: RankIndex, table: Rows, row: Any) -> int:
    """Return `row` as a number, or say which rows there are."""
    number = int(row)
    if not 0 <= number < len(table.start_ns):
        raise ValueError(
            f"rank {index.rank.rank} has no {table.table[:-1]} {row}: "
            f"it has {len(table.start_ns)}, counted from 0"
        )
    return number
