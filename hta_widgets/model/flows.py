"""Arrows between events: launches, and the file's own flow records (phases s, t, f)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from .problems import Problems
from .table import EventTable, FlowTable, RankColumns

__all__ = ["Finder", "flow_table"]

Ints = npt.NDArray[np.int64]
Rows = npt.NDArray[np.intp]

#: Categories under which profilers of different years draw launch → device work.
_LAUNCH = {"ac2g", "async_cpu_to_gpu", "async_gpu"}


def _kind_of(category: str, name: str) -> str:
    if category in _LAUNCH or (category == "async" and name == "launch"):
        return "launch"
    return category or name or "flow"


def flow_table(
    columns: RankColumns,
    rows: Rows,
    table: EventTable,
    finder: Finder,
    launches: tuple[Ints, Ints],
    problems: Problems,
) -> FlowTable:
    """Join flow records to arrows between events, together with launches by correlation.

    Parameters
    ----------
    rows : array of int
        The flow records among the rows of `columns`.
    launches : (sources, targets)
        Rows of events joined by correlation; a flow record that says the same only adds its
        record numbers to them.
    """
    source, target = launches
    kinds = ["launch"]
    if not len(rows):
        none = np.full(len(source), -1, dtype=np.int64)
        kind = np.zeros(len(source), dtype=np.uint8)
        return FlowTable(kind, source, target, kinds, none, none.copy())

    pair_code, kind_of_pair = _pairs(columns, rows, kinds)
    start_rows, end_rows = _join(columns, rows, pair_code, problems)
    flow_kind = kind_of_pair[pair_code[start_rows]]
    start_at, end_at = rows[start_rows], rows[end_rows]
    by_id = _numbers(columns)
    is_launch = flow_kind == 0
    tail = finder.find(columns, start_at, by_id, is_launch)
    head = finder.find(columns, end_at, by_id, is_launch)
    bound = (tail >= 0) & (head >= 0)
    problems.add(
        "unpaired", int((~bound).sum()), "flows whose ends meet no event; no arrow is drawn"
    )
    tail, head, flow_kind = tail[bound], head[bound], flow_kind[bound]
    records = columns.record[start_at[bound]], columns.record[end_at[bound]]

    size = len(table) + 1
    own = source * size + target
    said = tail * size + head
    order = np.argsort(own, kind="stable")
    place = np.searchsorted(own[order], said)
    place = np.minimum(place, max(len(own) - 1, 0))
    same = (flow_kind == 0) & (own[order][place] == said if len(own) else False)
    known = order[place[same]] if len(own) else place[:0]
    source_record = np.full(len(source), -1, dtype=np.int64)
    target_record = np.full(len(source), -1, dtype=np.int64)
    source_record[known], target_record[known] = records[0][same], records[1][same]
    new = ~same
    return FlowTable(
        kind=np.concatenate((np.zeros(len(source), np.uint8), flow_kind[new].astype(np.uint8))),
        source=np.concatenate((source, tail[new])),
        target=np.concatenate((target, head[new])),
        kinds=kinds,
        source_record=np.concatenate((source_record, records[0][new])),
        target_record=np.concatenate((target_record, records[1][new])),
    )


def _pairs(
    columns: RankColumns, rows: Rows, kinds: list[str]
) -> tuple[Ints, npt.NDArray[np.int64]]:
    """Return a code of (category, name) for each record, and the kind of each code."""
    both = columns.category[rows].astype(np.int64) * len(columns.names) + columns.name[rows]
    unique, code = np.unique(both, return_inverse=True)
    kind_of_pair = []
    for value in unique.tolist():
        category, name = divmod(value, len(columns.names))
        kind = _kind_of(columns.categories[category], columns.names[name])
        if kind not in kinds:
            kinds.append(kind)
        kind_of_pair.append(kinds.index(kind))
    return code.reshape(-1), np.array(kind_of_pair, dtype=np.int64)


def _join(
    columns: RankColumns, rows: Rows, pair_code: Ints, problems: Problems
) -> tuple[Rows, Rows]:
    """Pair the records of each flow: positions in `rows` of tails and heads of arrows."""
    phase = columns.phase[rows]
    ids = len(columns.flow_ids) + 1
    key = pair_code * ids + columns.flow[rows] + 1
    size = (int(pair_code.max()) + 1) * ids
    starts = np.flatnonzero(phase == ord("s"))
    ends = np.flatnonzero(phase != ord("s"))
    has_step = np.zeros(size, dtype=bool)
    has_step[key[phase == ord("t")]] = True
    start_count = np.bincount(key[starts], minlength=size)
    simple = (start_count == 1) & ~has_step
    simple[np.arange(0, size, ids)] = False  # records without an id

    start_of = np.full(size, -1, dtype=np.int64)
    start_of[key[starts]] = starts
    easy_ends = ends[simple[key[ends]]]
    tails, heads = [start_of[key[easy_ends]]], [easy_ends]
    rest = np.flatnonzero(~simple[key] & (columns.flow[rows] >= 0))
    chain_tails, chain_heads, lost_ends = _chains(columns, rows, key, phase, rest)
    tails.append(chain_tails)
    heads.append(chain_heads)

    tail, head = np.concatenate(tails), np.concatenate(heads)
    led = np.zeros(len(rows), dtype=bool)
    led[tail] = True
    without_id = int((columns.flow[rows] < 0).sum())
    problems.add("unpaired", without_id, "flow records without an id")
    problems.add("unpaired", lost_ends, "flow ends without a start; kept, no arrow is drawn")
    problems.add(
        "unpaired",
        int((~led[starts] & (columns.flow[rows[starts]] >= 0)).sum()),
        "flow starts without an end; kept, no arrow is drawn",
    )
    return tail, head


def _chains(
    columns: RankColumns,
    rows: Rows,
    key: Ints,
    phase: npt.NDArray[np.uint8],
    rest: Rows,
) -> tuple[Rows, Rows, int]:
    """Join ids that start more than once, never, or pass through steps: by time."""
    if not len(rest):
        return rest, rest, 0
    is_start = phase[rest] == ord("s")
    order = np.lexsort((~is_start, columns.start_ns[rows[rest]], key[rest]))
    ordered = rest[order]
    group = key[ordered]
    new = np.diff(group, prepend=-1) != 0
    count = len(ordered)
    position = np.arange(count)
    begins = phase[ordered] == ord("s")
    passes = phase[ordered] == ord("t")
    group_at = np.maximum.accumulate(np.where(new, position, 0))
    # An arrow comes from the last start or step before; steps hand on, ends do not.
    gives = np.maximum.accumulate(np.where(begins | passes, position, -1))
    before = np.concatenate(([-1], gives[:-1]))
    within = before >= group_at
    started = np.maximum.accumulate(np.where(begins, position, -1)) >= group_at
    # On another clock an end can come before its start: the first start of the group is its.
    next_start = np.where(begins, position, count)
    next_start = np.minimum.accumulate(next_start[::-1])[::-1]
    group_end = np.searchsorted(group, group, side="right")
    early = ~begins & ~started & (next_start < group_end)
    tail_at = np.where(early, np.minimum(next_start, count - 1), before)
    paired = (~begins & within & started) | early
    lost = int((~begins & ~paired).sum())
    return ordered[tail_at[paired]], ordered[position[paired]], lost


def _numbers(columns: RankColumns) -> Ints:
    """Return the flow ids as numbers, -1 for those that are none."""
    values = np.full(len(columns.flow_ids), -1, dtype=np.int64)
    for code, text in enumerate(columns.flow_ids.values):
        digits = text.strip('"')
        if digits.isascii() and digits.isdigit() and len(digits) < 19:
            values[code] = int(digits)
    return values


@dataclass(slots=True)
class Finder:
    """Finds the event that a flow record at a (thread, time) means."""

    table: EventTable
    of_thread: dict[tuple[int, int], int]  # (pid code, tid code) → track
    zero_ns: int

    def find(
        self,
        columns: RankColumns,
        rows: Rows,
        number_of_id: Ints,
        is_launch: npt.NDArray[np.bool_],
    ) -> Ints:
        """Return the row of the event for each flow record, -1 for none."""
        table = self.table
        track = self._tracks(columns, rows)
        time = columns.start_ns[rows] - self.zero_ns
        order = np.argsort(table.track, kind="stable")
        result = np.full(len(rows), -1, dtype=np.int64)
        first = np.searchsorted(table.track[order], np.arange(len(table.tracks) + 1))
        to_next = np.zeros(len(rows), dtype=bool)
        if len(columns.ends_at_next):
            to_next = np.isin(rows, columns.ends_at_next)
        by_track = np.argsort(track, kind="stable")
        bounds = np.searchsorted(track[by_track], np.arange(len(table.tracks) + 1))
        for number in range(len(table.tracks)):
            asked = by_track[bounds[number] : bounds[number + 1]]
            if not len(asked):
                continue
            events = order[first[number] : first[number + 1]]
            begin = table.start_ns[events]
            after = np.searchsorted(begin, time[asked], side="right")
            result[asked] = np.where(after > 0, events[after - 1], -1)
            following = asked[to_next[asked]]
            if len(following):
                at = np.searchsorted(begin, time[following], side="left")
                last = len(events) - 1
                result[following] = np.where(at <= last, events[np.minimum(at, last)], -1)
        self._climb(result, time, np.flatnonzero(~to_next))
        self._prefer_correlated(result, time, track, number_of_id[columns.flow[rows]], is_launch)
        return result

    def _tracks(self, columns: RankColumns, rows: Rows) -> npt.NDArray[np.int64]:
        threads = len(columns.tids)
        slot = columns.pid[rows].astype(np.int64) * threads + columns.tid[rows]
        unique, inverse = np.unique(slot, return_inverse=True)
        of_slot = [self.of_thread.get(divmod(int(s), threads), -1) for s in unique]
        return np.array(of_slot, dtype=np.int64)[inverse.reshape(-1)]

    def _climb(self, result: Ints, time: Ints, which: Rows) -> None:
        """Go from the last event that started to the innermost that still runs."""
        table = self.table
        open_at = which[result[which] >= 0]
        while len(open_at):
            row = result[open_at]
            begin, dur, at = table.start_ns[row], table.dur_ns[row], time[open_at]
            outside = (at >= begin + dur) & ~((dur == 0) & (at == begin))
            open_at = open_at[outside]
            result[open_at] = table.parent[result[open_at]]
            open_at = open_at[result[open_at] >= 0]

    def _prefer_correlated(
        self,
        result: Ints,
        time: Ints,
        track: Ints,
        number: Ints,
        is_launch: npt.NDArray[np.bool_],
    ) -> None:
        """Among events that start at once, take the one whose correlation is the flow's id."""
        table = self.table
        found = np.maximum(result, 0)
        wrong = np.flatnonzero(is_launch & (number >= 0) & (table.correlation[found] != number))
        if not len(wrong):
            return
        ids = number[wrong]
        candidates = np.flatnonzero(np.isin(table.correlation, ids))
        order = np.lexsort((candidates, table.correlation[candidates]))
        candidates = candidates[order]
        sorted_ids = table.correlation[candidates]
        low, high = np.searchsorted(sorted_ids, ids), np.searchsorted(sorted_ids, ids, "right")
        for at, a, b in zip(wrong.tolist(), low.tolist(), high.tolist(), strict=True):
            for row in candidates[a:b].tolist():
                if table.track[row] == track[at] and table.start_ns[row] == time[at]:
                    result[at] = row
                    break
