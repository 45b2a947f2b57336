"""Where matches lie in the view: one mark per lane and bin, however many there are."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from hta_widgets.model.table import KINDS
from hta_widgets.tiles.protocol import pack
from hta_widgets.tiles.rank_index import RankIndex, Rows
from hta_widgets.tiles.spans import Ints

__all__ = ["Members", "View", "marks"]

_COMMUNICATION = KINDS.index("communication")
_ANNOTATION = KINDS.index("annotation")
MAX_BINS = 1 << 16

RowIds = npt.NDArray[np.intp]


@dataclass(slots=True, frozen=True)
class Members:
    """Rows of one of a rank's tables, ascending, that are to be marked."""

    index: RankIndex
    table: Rows
    rows: RowIds


@dataclass(slots=True, frozen=True)
class View:
    """The window, its bins, and the lanes that are in sight."""

    start: int
    end: int
    bins: int
    lanes: npt.NDArray[np.int64]  # sorted

    @classmethod
    def of(cls, start: int, end: int, bins: int, lanes: Iterable[int]) -> View:
        """Check and return a view as a request states it."""
        if end <= start:
            raise ValueError(f"a window must end after it starts, not {start} to {end}")
        if not 1 <= bins <= MAX_BINS:
            raise ValueError(f"bins must be within 1 … {MAX_BINS}, not {bins}")
        return cls(start, end, bins, np.unique(np.fromiter(lanes, np.int64)))

    def bin_of(self, times: Ints) -> Ints:
        """Return the bin of each time; what is before the window goes into the first."""
        whole, rest = divmod(self.end - self.start, self.bins)
        steps = np.arange(self.bins, dtype=np.int64)
        # First instant of each bin, rounded up; products of times and bins could leave int64.
        edges = whole * steps - (-rest * steps // self.bins)
        return edges.searchsorted(np.maximum(times - self.start, 0), "right") - 1


def marks(view: View, members: Iterable[Members]) -> tuple[dict[str, Any], bytes]:
    """Answer ``marks`` without its ``error``."""
    grid = np.zeros((len(view.lanes), view.bins), np.bool_)
    total = in_view = 0
    for one in members:
        total += len(one.rows)
        shown = _in_window(one, view)
        in_view += len(shown)
        if len(shown) and len(view.lanes):
            bins = view.bin_of(one.table.start_ns[shown] + one.index.rank.shift_ns)
            for lanes in _lanes_of(one, shown):
                at = np.searchsorted(view.lanes, lanes)
                at = np.minimum(at, len(view.lanes) - 1)
                seen = view.lanes[at] == lanes
                grid[at[seen], bins[seen]] = True
    lane, bin_ = np.nonzero(grid)
    header, buffer = pack({"lane": ("u32", view.lanes[lane]), "bin": ("u32", bin_)})
    return {"columns": header, "in_view": in_view, "total": total}, buffer


def _in_window(one: Members, view: View) -> RowIds:
    """Return the rows that overlap the window."""
    shift, table = one.index.rank.shift_ns, one.table
    start, end = view.start - shift, view.end - shift
    low, high = table.start_ns.searchsorted((start, end))
    begun = one.rows[np.searchsorted(one.rows, low) : np.searchsorted(one.rows, high)]
    if table.table == "events":
        earlier = one.index.open_at(start)
        earlier = earlier[np.isin(earlier, one.rows, assume_unique=True)]
    else:
        earlier = one.rows[: np.searchsorted(one.rows, low)]
        earlier = earlier[table.start_ns[earlier] + table.dur_ns[earlier] > start]
    return np.concatenate((earlier, begun))


def _lanes_of(one: Members, rows: RowIds) -> Sequence[Ints]:
    """Return the lane of each row; events are on a summary lane as well (-1 where on none)."""
    rank = one.index.rank
    if one.table.table != "events":
        return [one.index.side_lanes(one.table.table)[rows]]
    table = rank.table
    track, kind = table.track[rows], table.kind[rows]
    own = rank.track_lane0[track] + table.depth[rows]
    folded = np.full((len(table.tracks), len(KINDS)), -1, np.int64)
    streams = [at for at, one_track in enumerate(table.tracks) if one_track.role == "stream"]
    for row in rank.summary:
        if row.role == "comm":
            folded[streams, _COMMUNICATION] = row.lane
        else:
            members = streams if row.role == "gpu" else list(row.tracks)
            skipped = _COMMUNICATION if row.role == "gpu" else _ANNOTATION
            kinds = [k for k in range(len(KINDS)) if k != skipped or row.annotations]
            folded[np.ix_(members, kinds)] = row.lane
    return [own, folded[track, kind]]
