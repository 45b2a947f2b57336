"""Search for events by name, and mark events on lanes."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from hta_widgets.arguments import match_pattern
from hta_widgets.taxonomy import KINDS
from hta_widgets.tiles.details import event_summary
from hta_widgets.tiles.packing import pack
from hta_widgets.tiles.rank_index import RankIndex, TableRows
from hta_widgets.tiles.replies import Brief, Match, MatchCount
from hta_widgets.tiles.stored_lanes import RowIds
from hta_widgets.tiles.windows import bin_starts, check_bins, check_window
from hta_widgets.trace.arrays import Bools, Codes, Ints, positions_in
from hta_widgets.trace.columns import StringPool
from hta_widgets.trace.conditions import trace_index
from hta_widgets.trace.memo import LRU, raise_if_cancelled

_COMMUNICATION = KINDS.index("communication")
_ANNOTATION = KINDS.index("annotation")
_SYNC = KINDS.index("sync")
Positions = npt.NDArray[np.intp]


@dataclass(slots=True, frozen=True)
class MarkedRows:
    """Rows to mark in a table of a rank, in ascending order."""

    index: RankIndex
    table: TableRows
    rows: RowIds


@dataclass(slots=True, frozen=True)
class MarksView:
    """A window divided into bins, and the visible lanes."""

    start: int
    end: int
    bins: int
    lanes: Ints  # sorted

    @classmethod
    def of(cls, start: int, end: int, bins: int, lanes: Iterable[int]) -> MarksView:
        """Validate the parameters of a request and return its view."""
        check_window(start, end)
        check_bins(bins)
        return cls(start, end, bins, np.unique(np.fromiter(lanes, np.int64)))

    def position_of(self, index: RankIndex) -> Positions | None:
        """Return positions in `lanes` of a rank's lanes (-1: hidden); None if all are hidden."""
        rank = index.rank
        first, last = self.lanes.searchsorted((rank.lane0, rank.lane0 + rank.lanes))
        if first == last:
            return None
        # The extra last entry stays -1, because rows without a lane have index -1.
        position = np.full(rank.lanes + 1, -1, np.intp)
        position[self.lanes[first:last] - rank.lane0] = np.arange(first, last)
        return position


def marks_reply(view: MarksView, members: Iterable[MarkedRows]) -> tuple[dict[str, Any], bytes]:
    """Answer ``marks`` with the runs of bins covered by matches; the caller adds ``error``."""
    # Each match adds 1 at its first bin and -1 after its last bin.
    changes = np.zeros((len(view.lanes), view.bins + 1), np.int32)
    total = in_view = 0
    for marked in members:
        total += len(marked.rows)
        earlier, open_rows = _rows_in_window(marked, view)
        in_view += len(earlier) + len(open_rows)
        position = view.position_of(marked.index)
        if position is not None:
            rows = np.concatenate((earlier, open_rows))
            first, end = _bins_of_rows(marked, view, rows, len(earlier))
            for lanes in _lanes_of(marked, rows):
                positions = position[lanes]
                is_visible = positions >= 0
                np.add.at(changes, (positions[is_visible], first[is_visible]), 1)
                np.add.at(changes, (positions[is_visible], end[is_visible]), -1)
        raise_if_cancelled()
    edges = np.diff((changes.cumsum(axis=1) > 0).astype(np.int8), axis=1, prepend=np.int8(0))
    lane, bin_ = np.nonzero(edges > 0)
    header, buffer = pack(
        {
            "lane": ("u32", view.lanes[lane]),
            "bin": ("u32", bin_),
            "end": ("u32", np.nonzero(edges < 0)[1]),
        }
    )
    return {"columns": header, "in_view": in_view, "total": total}, buffer


def _rows_in_window(marked: MarkedRows, view: MarksView) -> tuple[RowIds, RowIds]:
    """Return the rows that start before a window and extend into it, and rows starting in it."""
    shift, table = marked.index.rank.shift_ns, marked.table
    low, high = table.start_ns.searchsorted((view.start - shift, view.end - shift)).tolist()
    first, last = np.searchsorted(marked.rows, low), np.searchsorted(marked.rows, high)
    if table.table == "events":
        index = trace_index(marked.index.rank.trace)
        running = index.rows_running_at(view.start - shift).astype(marked.rows.dtype)
        earlier = running[positions_in(marked.rows, running) >= 0]
    else:
        earlier = marked.rows[:first]
        ends = table.start_ns[earlier] + table.dur_ns[earlier]
        earlier = earlier[ends > view.start - shift]
    return earlier, marked.rows[first:last]


def _bins_of_rows(
    marked: MarkedRows, view: MarksView, rows: RowIds, earlier: int
) -> tuple[Positions, Positions]:
    """Return each row's first bin, and the bin after its last. The `earlier` rows come first."""
    edges = bin_starts(view.start, view.end, view.bins) - marked.index.rank.shift_ns
    starts = marked.table.start_ns[rows]
    ends = starts + marked.table.dur_ns[rows]
    # Rows in the window are sorted by start, so one binary search per bin is enough.
    counts = np.diff(np.append(starts[earlier:].searchsorted(edges), len(rows) - earlier))
    counts[0] += earlier
    first = np.repeat(np.arange(view.bins), counts)
    # Ends are exclusive. An event that ends where a bin starts does not cover it.
    return first, np.maximum(edges.searchsorted(ends), first + 1)


def _lanes_of(marked: MarkedRows, rows: RowIds) -> Iterator[Ints]:
    """Yield the lane of each row within its rank and, for events, its folded lane or -1."""
    rank = marked.index.rank
    if marked.table.table != "events":
        yield marked.index.side_lanes(marked.table.table)[rows] - rank.lane0
        return
    table = rank.table
    track, kind = table.track[rows], table.kind[rows]
    yield (rank.track_lane0 - rank.lane0)[track] + table.depth[rows]
    yield _folded_lanes(marked.index)[track, kind]


def _folded_lanes(index: RankIndex) -> Ints:
    """Return the folded lane of each track and kind, numbered within the rank; -1 if missing."""
    rank = index.rank
    tracks = rank.table.tracks
    folded = np.full((len(tracks), len(KINDS)), -1, np.int64)
    streams = [stream for stream, track in enumerate(tracks) if track.role == "stream"]
    for row in rank.summary:
        lane = row.lane - rank.lane0
        if row.role == "comm":
            folded[streams, _COMMUNICATION] = lane
        else:
            members = streams if row.role == "gpu" else list(row.tracks)
            skipped = {_COMMUNICATION, _SYNC} if row.role == "gpu" else {_ANNOTATION}
            kinds = [k for k in range(len(KINDS)) if k not in skipped or row.annotations]
            folded[np.ix_(members, kinds)] = lane
    return folded


_EXPRESSION = re.compile(r"/(.*)/(i?)", re.DOTALL)

#: A mask of matching names, and the error message for an invalid pattern.
Matches = tuple[list[bool], str | None]


def match_names(text: str, names: Sequence[str]) -> Matches:
    """Match names against a search text; return a mask and, if the text is invalid, a message."""
    nothing = [False] * len(names)
    expression = _EXPRESSION.fullmatch(text)
    if expression is None or text == "/":
        needle = text.lower()
        return ([needle in name.lower() for name in names] if needle else nothing), None
    if not expression[1]:
        return nothing, None
    try:
        matches = match_pattern(expression[1], names, ignore_case=bool(expression[2]))
    except ValueError as error:
        return nothing, f"not a regular expression: {error}"
    return matches.tolist(), None


_MAX_CACHED_TEXTS = 4
TABLES = ("events", "asyncs", "instants")


class RankHits:
    """The matches on one rank; `named` is a mask over its name codes."""

    def __init__(self, index: RankIndex, named: Bools) -> None:
        self.index = index
        self.named = named
        self._rows: dict[str, npt.NDArray[np.int32]] = {}

    @cached_property
    def count(self) -> int:
        """Number of matching events, asyncs and instants."""
        if not self.named.any():
            return 0
        return sum(int(per_name[self.named].sum()) for per_name in self.index.name_counts)

    def rows(self, table: str) -> npt.NDArray[np.int32]:
        """Return the matching rows of a table in ascending order."""
        rows = self._rows.get(table)
        if rows is None:
            matching = self.named[self.index.rows(table).name] if self.count else self.named[:0]
            rows = self._rows[table] = np.flatnonzero(matching).astype(np.int32)
        return rows

    @cached_property
    def sorted_matches(self) -> tuple[Ints, Codes, Ints]:
        """Start, index in `TABLES` and row of each match, in the order used by ``find``."""
        rows_of_tables = [self.rows(table) for table in TABLES]
        starts = [self.index.rows(name).start_ns[self.rows(name)] for name in TABLES]
        start = np.concatenate(starts)
        table = np.repeat(np.arange(len(TABLES), dtype=np.uint8), list(map(len, rows_of_tables)))
        rows = np.concatenate(rows_of_tables).astype(np.int64)
        # If only events match, they are already sorted.
        if len(rows) > len(rows_of_tables[0]):
            order = np.lexsort((rows, table, start))
            start, table, rows = start[order], table[order], rows[order]
        return start, table, rows

    def summary_at(self, position: int) -> Brief:
        """Return the summary of a match, given its position in `sorted_matches`."""
        _, table, rows = self.sorted_matches
        table_rows = self.index.rows(TABLES[table[position]])
        return event_summary(self.index, table_rows, int(rows[position]))

    def count_before(self, start_ns: int, table: int, row: int, *, inclusive: bool) -> int:
        """Count the matches before a row of a table; `inclusive` counts the row itself."""
        starts, tables, rows = self.sorted_matches
        low = int(starts.searchsorted(start_ns - self.index.rank.shift_ns, "left"))
        high = int(starts.searchsorted(start_ns - self.index.rank.shift_ns, "right"))
        ties = list(zip(tables[low:high].tolist(), rows[low:high].tolist(), strict=True))
        target = (table, row)
        return low + sum(tie < target or (inclusive and tie == target) for tie in ties)


@dataclass(slots=True, frozen=True)
class SearchHits:
    """The matches of a search text on all ranks."""

    ranks: list[RankHits]
    names: int
    error: str | None

    @property
    def total(self) -> int:
        """Number of events, asyncs and instants that match."""
        return sum(rank.count for rank in self.ranks)

    def summary_at(self, position: int) -> Brief:
        """Return the summary of a match, given its position among the matches on all ranks."""
        for rank in self.ranks:
            if position < rank.count:
                return rank.summary_at(position)
            position -= rank.count
        raise IndexError("the position is beyond the last match")


class NameSearch:
    """Finds events by name. A search text is matched against each distinct name once."""

    def __init__(self, indices: Sequence[RankIndex]) -> None:
        self._indices = indices
        self._cache: LRU[str, SearchHits] = LRU(_MAX_CACHED_TEXTS)
        self._used: Bools | None = None

    def search(self, text: str) -> SearchHits:
        """Return the matches of a search text. The latest results are cached."""
        return self._cache.get_or_compute(text, lambda: self._match(text))

    def _match(self, text: str) -> SearchHits:
        names, codes = self._names
        matching, error = match_names(text, names)
        lookup = np.array(matching, np.bool_)
        ranks = [
            RankHits(index, lookup[codes[id(index.rank.table.names)]]) for index in self._indices
        ]
        return SearchHits(ranks, int((lookup & self.names_used()).sum()), error)

    @cached_property
    def _names(self) -> tuple[list[str], dict[int, Ints]]:
        """All distinct names and, keyed by pool id, the indices of each pool's names among them."""
        pool, codes = StringPool(), {}
        for index in self._indices:
            names = index.rank.table.names
            if id(names) not in codes:
                codes[id(names)] = np.array([pool.add(name) for name in names.values], np.int64)
        return pool.values, codes

    def names_used(self) -> Bools:
        """Return a mask of the names that occur in events, asyncs or instants. Cached."""
        # Python 3.11 would hold a lock on the class while computing a `cached_property`.
        if self._used is None:
            names, codes = self._names
            used = np.zeros(len(names), np.bool_)
            for index in self._indices:
                codes_of_names = codes[id(index.rank.table.names)]
                for per_name in index.name_counts:
                    used[codes_of_names[per_name > 0]] = True
                raise_if_cancelled()
            self._used = used
        return self._used

    def counts_reply(self, text: str) -> MatchCount:
        """Answer ``search``."""
        hits = self.search(text)
        return {
            "total": hits.total,
            "names": hits.names,
            "ranks": [[rank.index.rank.rank, rank.count] for rank in hits.ranks if rank.count],
            "error": hits.error,
        }

    def next_match(self, text: str, origin: Mapping[str, Any] | None, direction: int) -> Match:
        """Answer ``find``: the match after or before `origin`, wrapping around at the ends."""
        hits = self.search(text)
        total = hits.total
        if not total:
            error = hits.error
            return {"brief": None, "index": 0, "total": 0, "wrapped": False, "error": error}
        forward = direction > 0
        if origin is None:
            position = 0 if forward else total - 1
        else:
            position = _next_match(hits, origin, forward=forward)
        return {
            "brief": hits.summary_at(position % total),
            "index": position % total + 1,
            "total": total,
            "wrapped": not 0 <= position < total,
            "error": hits.error,
        }


def _next_match(hits: SearchHits, origin: Mapping[str, Any], *, forward: bool) -> int:
    number, start = int(origin["rank"]), int(origin["start"])
    # Without a row, the origin precedes all matches that start at the same time.
    table = TABLES.index(origin.get("table") or "events")
    row = int(origin.get("id", -1))
    before = sum(
        hits_of_rank.count for hits_of_rank in hits.ranks if hits_of_rank.index.rank.rank < number
    )
    for hits_of_rank in hits.ranks:
        if hits_of_rank.index.rank.rank == number and hits_of_rank.count:
            before += hits_of_rank.count_before(start, table, row, inclusive=forward)
    return before if forward else before - 1
