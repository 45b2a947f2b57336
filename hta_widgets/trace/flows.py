"""Arrows between events: launches, and the file's own flow records (phases s, t, f)."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from hta_widgets.trace.columns import EventTable, FlowTable, RankColumns
from hta_widgets.trace.grouping import dense, group_order, stable_order
from hta_widgets.trace.problems import Problems

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
    tail, head = finder.find(columns, start_at), finder.find(columns, end_at)
    launch = _Arrows(source, target, len(table))
    known = launch.place(tail, head)
    unsure = np.flatnonzero((flow_kind == 0) & (known < 0))
    if len(unsure) and len(table):
        tail[unsure] = finder.by_correlation(columns, start_at[unsure], tail[unsure])
        head[unsure] = finder.by_correlation(columns, end_at[unsure], head[unsure])
        known[unsure] = launch.place(tail[unsure], head[unsure])
    lost = (tail < 0) | (head < 0)
    problems.add("unpaired", int(lost.sum()), "flows whose ends meet no event; no arrow is drawn")

    new = ~lost & ((known < 0) | (flow_kind != 0))
    same = ~lost & ~new
    said_at, said_to = columns.record[start_at], columns.record[end_at]
    source_record = np.full(len(source), -1, dtype=np.int64)
    target_record = np.full(len(source), -1, dtype=np.int64)
    source_record[known[same]] = said_at[same]
    target_record[known[same]] = said_to[same]
    return FlowTable(
        kind=np.concatenate((np.zeros(len(source), np.uint8), flow_kind[new].astype(np.uint8))),
        source=np.concatenate((source, tail[new])),
        target=np.concatenate((target, head[new])),
        kinds=kinds,
        source_record=np.concatenate((source_record, said_at[new])),
        target_record=np.concatenate((target_record, said_to[new])),
    )


class _Arrows:
    """Finds an arrow by its two ends."""

    def __init__(self, source: Ints, target: Ints, events: int) -> None:
        self._size = events + 1
        ends = source * self._size + target
        self._order = stable_order(ends)
        self._ends = ends[self._order]

    def place(self, source: Ints, target: Ints) -> Ints:
        """Return the position of each arrow, -1 for one that is not there."""
        if not len(self._ends):
            return np.full(len(source), -1, dtype=np.int64)
        asked = source * self._size + target
        at = np.minimum(np.searchsorted(self._ends, asked), len(self._ends) - 1)
        found = (self._ends[at] == asked) & (source >= 0) & (target >= 0)
        return np.where(found, self._order[at], -1)


def _pairs(
    columns: RankColumns, rows: Rows, kinds: list[str]
) -> tuple[Ints, npt.NDArray[np.int64]]:
    """Return a code of (category, name) for each record, and the kind of each code."""
    both = columns.category[rows].astype(np.int64) * len(columns.names) + columns.name[rows]
    code, unique = dense(both, len(columns.categories) * len(columns.names))
    kind_of_pair = []
    for value in unique.tolist():
        category, name = divmod(value, len(columns.names))
        kind = _kind_of(columns.categories[category], columns.names[name])
        if kind not in kinds:
            kinds.append(kind)
        kind_of_pair.append(kinds.index(kind))
    return code.astype(np.int64), np.array(kind_of_pair, dtype=np.int64)


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
    # Ids may be sparse, so that these are the largest arrays of a load: as narrow as can be.
    start_of = np.full(size, -1, dtype=np.int32)
    start_of[key[starts]] = starts
    simple = start_of >= 0
    simple[key[starts[start_of[key[starts]] != starts]]] = False  # more than one start
    simple[key[phase == ord("t")]] = False
    simple[::ids] = False  # records without an id

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


class Finder:
    """Finds the events that flow records mean by a thread and a time.

    Parameters
    ----------
    table : EventTable
    of_thread : dict
        (pid code, tid code) → track.
    zero_ns : int
        To be subtracted from the times of records.
    """

    def __init__(
        self, table: EventTable, of_thread: dict[tuple[int, int], int], zero_ns: int
    ) -> None:
        self.table, self.of_thread, self.zero_ns = table, of_thread, zero_ns
        self._by_track: tuple[Rows, Ints] | None = None

    def find(self, columns: RankColumns, rows: Rows) -> Ints:
        """Return the row of the event for each flow record, -1 for none.

        The innermost event that runs at that time; where the file asks for it, the next one.
        """
        table = self.table
        track = self._tracks(columns, rows)
        time = columns.start_ns[rows] - self.zero_ns
        order, first = self._events_by_track()
        result = np.full(len(rows), -1, dtype=np.int64)
        to_next = np.zeros(len(rows), dtype=bool)
        if len(columns.ends_at_next):
            to_next = np.isin(rows, columns.ends_at_next)
        asked_by_track = group_order(track + 1, len(table.tracks) + 1)
        bounds = np.searchsorted(track[asked_by_track], np.arange(len(table.tracks) + 1))
        for number in range(len(table.tracks)):
            asked = asked_by_track[bounds[number] : bounds[number + 1]]
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
        return result

    def by_correlation(self, columns: RankColumns, rows: Rows, found: Ints) -> Ints:
        """Return `found`, corrected where the flow's id is the correlation of another event.

        Times alone do not tell apart events that start at once.
        """
        table = self.table
        ids = np.array([_number(columns.flow_ids[code]) for code in columns.flow[rows]], np.int64)
        wrong = np.flatnonzero((ids >= 0) & ((found < 0) | (table.correlation[found] != ids)))
        result = found.copy()
        if not len(wrong):
            return result
        track = self._tracks(columns, rows)
        time = columns.start_ns[rows] - self.zero_ns
        candidates = np.flatnonzero(np.isin(table.correlation, ids[wrong]))
        candidates = candidates[np.argsort(table.correlation[candidates], kind="stable")]
        sorted_ids = table.correlation[candidates]
        low = np.searchsorted(sorted_ids, ids[wrong])
        high = np.searchsorted(sorted_ids, ids[wrong], "right")
        for at, a, b in zip(wrong.tolist(), low.tolist(), high.tolist(), strict=True):
            rows_at = candidates[a:b]
            fits = (table.track[rows_at] == track[at]) & (table.start_ns[rows_at] == time[at])
            if fits.any():
                result[at] = rows_at[fits][0]
        return result

    def _events_by_track(self) -> tuple[Rows, Ints]:
        if self._by_track is None:
            count = len(self.table.tracks)
            order = group_order(self.table.track, count)
            sizes = np.bincount(self.table.track, minlength=count)
            self._by_track = order, np.concatenate(([0], np.cumsum(sizes)))
        return self._by_track

    def _tracks(self, columns: RankColumns, rows: Rows) -> Ints:
        threads = len(columns.tids)
        slot = columns.pid[rows].astype(np.int64) * threads + columns.tid[rows]
        position, slots = dense(slot, len(columns.pids) * threads)
        of_slot = [self.of_thread.get(divmod(int(value), threads), -1) for value in slots]
        return np.array(of_slot, dtype=np.int64)[position]

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


def _number(text: str) -> int:
    digits = text.strip('"')
    return int(digits) if digits.isascii() and digits.isdigit() and len(digits) < 19 else -1
