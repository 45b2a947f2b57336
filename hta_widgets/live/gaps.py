"""Answer ``gap``: why a rank's device is idle at an instant, and what its host did meanwhile."""

from __future__ import annotations

import numpy as np

from hta_widgets.analysis.idle import GapAt, gap_at
from hta_widgets.taxonomy import KINDS
from hta_widgets.tiles.details import brief
from hta_widgets.tiles.lanes import RankIndex
from hta_widgets.tiles.replies import Gap, HostTime
from hta_widgets.trace.arrays import Ints, Rows

MOST_NAMES = 8
_HOST_KINDS = [KINDS.index(kind) for kind in ("cpu", "annotation", "sync")]


def gap_of(index: RankIndex, time: int) -> Gap | None:
    """Return the gap of a rank's device at an instant; None if there is none."""
    rank = index.rank
    found = gap_at(rank.trace, time - rank.shift_ns)
    if found is None:
        return None
    events = index.events
    rows, spent = _host_times(index, found)
    names = rank.table.name[rows]
    host: list[HostTime] = []
    for name in np.unique(names):
        of_name = names == name
        own = rows[of_name]
        longest = int(own[np.argmax(spent[of_name])])
        host.append(
            {
                "longest": brief(index, events, longest),
                "count": len(own),
                "time": int(spent[of_name].sum()),
            }
        )
    host.sort(key=lambda one: (-one["time"], one["longest"]["id"]))
    causes = sorted(found.pieces.items(), key=lambda one: -one[1])
    return {
        "rank": rank.rank,
        "start": found.start + rank.shift_ns,
        "end": found.end + rank.shift_ns,
        "causes": [{"cause": cause, "time": ns} for cause, ns in causes if ns > 0],
        "ends": brief(index, events, found.next),
        "launch": None if found.call < 0 else brief(index, events, found.call),
        "host": host[:MOST_NAMES],
        "host_time": int(spent.sum()),
    }


def _host_times(index: RankIndex, gap: GapAt) -> tuple[Rows, Ints]:
    """Return the events of one thread during a gap, and the time of each outside of those below."""
    rank = index.rank
    table = rank.table
    end = table.start_ns + table.dur_ns
    is_host = np.isin(index.events.kind, _HOST_KINDS) & (table.stream < 0)
    rows = np.flatnonzero(
        is_host & (table.start_ns < gap.end) & (end > gap.start) & (table.dur_ns > 0)
    )
    inside = np.minimum(end[rows], gap.end) - np.maximum(table.start_ns[rows], gap.start)
    spent = np.zeros(len(table), dtype=np.int64)
    spent[rows] = inside
    above = table.parent[rows]
    nested = (above >= 0) & (spent[above] > 0)
    np.subtract.at(spent, above[nested], inside[nested])
    spent = np.maximum(spent[rows], 0)
    if not len(rows):
        return rows, spent
    track = table.track[rows]
    by_track = np.bincount(track, spent, minlength=len(rank.track_lane0))
    chosen = table.track[gap.call]
    if gap.call < 0 or by_track[chosen] == 0:
        chosen = min(np.unique(track), key=lambda one: (-by_track[one], rank.track_lane0[one]))
    here = (track == chosen) & (spent > 0)
    return rows[here], spent[here]
