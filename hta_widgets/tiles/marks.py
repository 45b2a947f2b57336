"""Where matches lie in the view: one mark per lane and bin, however many there are."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from hta_widgets.trace.spans import Ints
from hta_widgets.trace.table import KINDS
from hta_widgets.tiles.protocol import pack
from hta_widgets.tiles.rank_index import RankIndex
from hta_widgets.tiles.rank_index import RowIds
from hta_widgets.tiles.rank_index import Rows

__all__ = ["Members", "View", "marks"]

_COMMUNICATION = KINDS.index("communication")
_ANNOTATION = KINDS.index("annotation")
MAX_BINS = 1 << 16

Positions = npt.NDArray[np.intp]


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
    lanes: Ints  # sorted

    @classmethod
    def of(cls, start: int, end: int, bins: int, lanes: Iterable[int]) -> View:
        """Check and return a view as a request states it."""
        if end <= start:
            raise ValueError(f"a window must end after it starts, not {start} to {end}")
        if not 1 <= bins <= MAX_BINS:
            raise ValueError(f"bins must be within 1 … {MAX_BINS}, not {bins}")
        return cls(start, end, bins, np.unique(np.fromiter(lanes, np.int64)))

    @property
    def edges(self) -> Ints:
        """First instant of each bin."""
        whole, rest = divmod(self.end - self.start, self.bins)
        steps = np.arange(self.bins, dtype=np.int64)
        # Rounded up, in two parts: products of times and bins could leave int64.
        return self.start + whole * steps - (-rest * steps // self.bins)

    def position_of(self, index: RankIndex) -> Positions | None:
        """Return the position in `lanes` of each lane of a rank, -1 if unseen; None if all are."""
        rank = index.rank
        first, last = self.lanes.searchsorted((rank.lane0, rank.lane0 + rank.lanes))
        if first == last:
            return None
        # One more, for rows that are on no lane: -1 looks there.
        position = np.full(rank.lanes + 1, -1, np.intp)
        position[self.lanes[first:last] - rank.lane0] = np.arange(first, last)
        return position


def marks(
    view: View, members: Iterable[Members]
) -> Generator[None, None, tuple[dict[str, Any], bytes]]:
    """Answer ``marks`` without its ``error``; yield after each of `members`."""
    grid = np.zeros((len(view.lanes), view.bins), np.bool_)
    total = in_view = 0
    for one in members:
        total += len(one.rows)
        earlier, begun = _in_window(one, view)
        in_view += len(earlier) + len(begun)
        position = view.position_of(one.index)
        if position is not None:
            rows = np.concatenate((earlier, begun))
            bins = _bins(one, view, len(earlier), begun)
            for lanes in _lanes_of(one, rows):
                at = position[lanes]
                seen = at >= 0
                grid[at[seen], bins[seen]] = True
        yield
    lane, bin_ = np.nonzero(grid)
    header, buffer = pack({"lane": ("u32", view.lanes[lane]), "bin": ("u32", bin_)})
    return {"columns": header, "in_view": in_view, "total": total}, buffer


def _in_window(one: Members, view: View) -> tuple[RowIds, RowIds]:
    """Return rows that began before the window and reach into it, and those that begin in it."""
    shift, table = one.index.rank.shift_ns, one.table
    low, high = table.start_ns.searchsorted((view.start - shift, view.end - shift)).tolist()
    first, last = np.searchsorted(one.rows, low), np.searchsorted(one.rows, high)
    if table.table == "events":
        still = one.index.open_at(view.start - shift).astype(one.rows.dtype)
        at = np.minimum(np.searchsorted(one.rows, still), max(len(one.rows) - 1, 0))
        earlier = still[one.rows[at] == still] if len(one.rows) else still[:0]
    else:
        earlier = one.rows[:first]
        ends = table.start_ns[earlier] + table.dur_ns[earlier]
        earlier = earlier[ends > view.start - shift]
    return earlier, one.rows[first:last]


def _bins(one: Members, view: View, earlier: int, begun: RowIds) -> Positions:
    """Return the bin of each row; those that began earlier come first."""
    # Rows are in order of their start, so it takes a search per bin, not one per row.
    starts = one.table.start_ns[begun]
    first = starts.searchsorted(view.edges - one.index.rank.shift_ns)
    counts = np.diff(np.append(first, len(begun)))
    counts[0] += earlier
    return np.repeat(np.arange(view.bins), counts)


def _lanes_of(one: Members, rows: RowIds) -> Iterator[Ints]:
    """Yield the lane of each row within its rank; for events also their summary lane, or -1."""
    rank = one.index.rank
    if one.table.table != "events":
        yield one.index.side_lanes(one.table.table)[rows] - rank.lane0
        return
    table = rank.table
    track, kind = table.track[rows], table.kind[rows]
    yield (rank.track_lane0 - rank.lane0)[track] + table.depth[rows]
    yield _folded_lanes(one.index)[track, kind]


def _folded_lanes(index: RankIndex) -> Ints:
    """Return the summary lane of events by track and kind, within the rank; -1 for none."""
    rank = index.rank
    tracks = rank.table.tracks
    folded = np.full((len(tracks), len(KINDS)), -1, np.int64)
    streams = [at for at, track in enumerate(tracks) if track.role == "stream"]
    for row in rank.summary:
        lane = row.lane - rank.lane0
        if row.role == "comm":
            folded[streams, _COMMUNICATION] = lane
        else:
            members = streams if row.role == "gpu" else list(row.tracks)
            skipped = _COMMUNICATION if row.role == "gpu" else _ANNOTATION
            kinds = [k for k in range(len(KINDS)) if k != skipped or row.annotations]
            folded[np.ix_(members, kinds)] = lane
    return folded
