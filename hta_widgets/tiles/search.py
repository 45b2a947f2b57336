"""Events by name: counted, stepped through, marked above the lanes."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from hta_widgets.trace.spans import Ints
from hta_widgets.trace import turns
from hta_widgets.trace.table import Pool
from hta_widgets.tiles.briefs import brief
from hta_widgets.tiles.matching import match_names
from hta_widgets.tiles.rank_index import RankIndex

__all__ = ["Hits", "RankHits", "Search"]

_KEPT_TEXTS = 4
TABLES = ("events", "asyncs", "instants")

Bools = npt.NDArray[np.bool_]


class RankHits:
    """The matches of one rank.

    Parameters
    ----------
    index : RankIndex
    named : array of bool
        Which name codes of the rank match.
    """

    def __init__(self, index: RankIndex, named: Bools) -> None:
        self.index = index
        self.named = named
        self._rows: dict[str, npt.NDArray[np.int32]] = {}

    @cached_property
    def count(self) -> int:
        """How many events, asyncs and instants match."""
        if not self.named.any():
            return 0
        return sum(int(per_name[self.named].sum()) for per_name in self.index.name_counts)

    def rows(self, table: str) -> npt.NDArray[np.int32]:
        """Return the matching rows of a table, ascending."""
        found = self._rows.get(table)
        if found is None:
            matching = self.named[self.index.rows(table).name] if self.count else self.named[:0]
            found = self._rows[table] = np.flatnonzero(matching).astype(np.int32)
        return found

    @cached_property
    def ordered(self) -> tuple[Ints, npt.NDArray[np.uint8], Ints]:
        """Start, position in `TABLES` and row of all matches, in the order of stepping."""
        parts = [self.rows(table) for table in TABLES]
        start = np.concatenate(
            [self.index.rows(t).start_ns[rows] for t, rows in zip(TABLES, parts, strict=True)]
        )
        table = np.repeat(np.arange(len(TABLES), dtype=np.uint8), [len(rows) for rows in parts])
        rows = np.concatenate(parts).astype(np.int64)
        if len(parts[1]) or len(parts[2]):
            order = np.lexsort((rows, table, start))
            start, table, rows = start[order], table[order], rows[order]
        return start, table, rows

    def brief(self, position: int) -> dict[str, Any]:
        """Return the brief of a match by its position in `ordered`."""
        _, table, rows = self.ordered
        of_table = self.index.rows(TABLES[table[position]])
        return brief(self.index, of_table, int(rows[position]))

    def before(self, start_ns: int, table: int, row: int, *, inclusive: bool) -> int:
        """Return how many matches come before a place, or also the one that is there."""
        starts, tables, rows = self.ordered
        low = int(starts.searchsorted(start_ns - self.index.rank.shift_ns, "left"))
        high = int(starts.searchsorted(start_ns - self.index.rank.shift_ns, "right"))
        same = list(zip(tables[low:high].tolist(), rows[low:high].tolist(), strict=True))
        here = (table, row)
        return low + sum(place < here or (inclusive and place == here) for place in same)


@dataclass(slots=True, frozen=True)
class Hits:
    """The matches of a text on all ranks."""

    ranks: list[RankHits]
    names: int
    error: str | None

    @property
    def total(self) -> int:
        """How many events, asyncs and instants match."""
        return sum(rank.count for rank in self.ranks)


class Search:
    """Finds events by name; texts are matched against every distinct name once.

    Parameters
    ----------
    indices : sequence of RankIndex
        All ranks, in order.
    """

    def __init__(self, indices: Sequence[RankIndex]) -> None:
        self._indices = indices
        self._kept: OrderedDict[str, Hits] = OrderedDict()
        self._used: Bools | None = None

    def prepare(self) -> None:
        """Find out which names there are; searching is quick then. It may be work in turns."""
        self._names_used()

    def hits(self, text: str) -> Hits:
        """Return the matches of a text; those of the last few texts are remembered."""
        found = self._kept.get(text)
        if found is None:
            found = self._kept[text] = self._match(text)
            if len(self._kept) > _KEPT_TEXTS:
                self._kept.popitem(last=False)
        self._kept.move_to_end(text)
        return found

    def _match(self, text: str) -> Hits:
        names, codes = self._names
        matching, error = match_names(text, names)
        lookup = np.array(matching, np.bool_)
        ranks = [
            RankHits(index, lookup[codes[id(index.rank.table.names)]]) for index in self._indices
        ]
        return Hits(ranks, int((lookup & self._names_used()).sum()), error)

    @cached_property
    def _names(self) -> tuple[list[str], dict[int, npt.NDArray[np.int64]]]:
        """All distinct names, and by pool the position of each of its codes among them."""
        pool, codes = Pool(), {}
        for index in self._indices:
            own = index.rank.table.names
            if id(own) not in codes:
                codes[id(own)] = np.array([pool.add(name) for name in own.values], np.int64)
        return pool.values, codes

    def _names_used(self) -> Bools:
        """Return which names an event, async or instant has: pools have those of other records."""
        # No `cached_property`: up to Python 3.11 these hold a lock, also while work in turns rests.
        if self._used is None:
            self._used = self._find_used()
        return self._used

    def _find_used(self) -> Bools:
        names, codes = self._names
        used = np.zeros(len(names), np.bool_)
        for index in self._indices:
            at = codes[id(index.rank.table.names)]
            for per_name in index.name_counts:
                used[at[per_name > 0]] = True
            turns.rest()
        return used

    # --- answers ----------------------------------------------------------------------------------

    def summary(self, text: str) -> dict[str, Any]:
        """Answer ``search``."""
        hits = self.hits(text)
        return {
            "total": hits.total,
            "names": hits.names,
            "ranks": [[one.index.rank.rank, one.count] for one in hits.ranks if one.count],
            "error": hits.error,
        }

    def step(self, text: str, origin: Mapping[str, Any] | None, direction: int) -> dict[str, Any]:
        """Answer ``find``: the next or previous match after a place, around the end if need be."""
        hits = self.hits(text)
        total = hits.total
        if not total:
            none = {"brief": None, "index": 0, "total": 0, "wrapped": False}
            return {**none, "error": hits.error}
        forward = direction > 0
        if origin is None:
            position = 0 if forward else total - 1
        else:
            position = _next(hits, origin, forward=forward)
        wrapped = not 0 <= position < total
        position %= total
        rest = position
        for one in hits.ranks:
            if rest < one.count:
                found = one.brief(rest)
                break
            rest -= one.count
        else:
            raise RuntimeError("matches were counted wrongly")
        return {
            "brief": found,
            "index": position + 1,
            "total": total,
            "wrapped": wrapped,
            "error": hits.error,
        }


def _next(hits: Hits, origin: Mapping[str, Any], *, forward: bool) -> int:
    """Return the position after (or before) a place among the matches of all ranks."""
    number, start = int(origin["rank"]), int(origin["start"])
    # A place without a row lies before all that start with it.
    table = TABLES.index(origin.get("table") or "events")
    row = int(origin.get("id", -1))
    before = sum(one.count for one in hits.ranks if one.index.rank.rank < number)
    for one in hits.ranks:
        if one.index.rank.rank == number and one.count:
            before += one.before(start, table, row, inclusive=forward)
    return before if forward else before - 1
