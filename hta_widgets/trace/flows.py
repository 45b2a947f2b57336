"""Tables of records that are not complete events: flows, counters, instants and async intervals.

Flows join launches, found by correlation, with the file's own flow records (phases s, t, f).
"""

from __future__ import annotations

import math
from array import array
from itertools import chain
from typing import Any

import numpy as np

from hta_widgets.trace.arrays import (
    Bools,
    Codes,
    Ints,
    Rows,
    compact_codes,
    mask_of_rows,
    match_brackets,
    order_and_bounds,
    stable_order,
)
from hta_widgets.trace.columns import (
    AsyncTable,
    CategoryCodes,
    CounterTable,
    EventTable,
    FlowTable,
    InstantTable,
    RankColumns,
)
from hta_widgets.trace.problems import Problems

#: Categories of arrows from launch to device work, in different versions of the profiler.
_LAUNCH = {"ac2g", "async_cpu_to_gpu", "async_gpu"}
#: Number of records whose args are decoded together.
_AT_ONCE = 4096


def flow_table(
    columns: RankColumns,
    rows: Rows,
    table: EventTable,
    finder: FlowEndpointFinder,
    launches: tuple[Ints, Ints],
    problems: Problems,
) -> FlowTable:
    """Join the flow records `rows` to arrows between events, and add them to `launches`.

    Launches are the source and target rows found by correlation; a flow record of the same two
    events only adds its record numbers.
    """
    source, target = launches
    kinds = ["launch"]
    if not len(rows):
        none = np.full(len(source), -1, dtype=np.int64)
        kind = np.zeros(len(source), dtype=np.uint8)
        return FlowTable(kind, source, target, kinds, none, none.copy())

    pair_code, kind_of_pair = _flow_kinds(columns, rows, kinds)
    start_rows, end_rows = _pair_records(columns, rows, pair_code, problems)
    flow_kind = kind_of_pair[pair_code[start_rows]]
    start_at, end_at = rows[start_rows], rows[end_rows]
    tail, head = finder.rows_at(columns, start_at), finder.rows_at(columns, end_at)
    launch = _FlowIndex(source, target, len(table))
    is_launch = launch.position_of(tail, head)
    unsure = np.flatnonzero((flow_kind == 0) & (is_launch < 0))
    if len(unsure) and len(table):
        tail[unsure] = finder.by_correlation(columns, start_at[unsure], tail[unsure])
        head[unsure] = finder.by_correlation(columns, end_at[unsure], head[unsure])
        is_launch[unsure] = launch.position_of(tail[unsure], head[unsure])
    lost = (tail < 0) | (head < 0)
    problems.add("unpaired", int(lost.sum()), "flows whose ends meet no event; no arrow is drawn")
    # Tools write 0 for device events without an id, also in the flow records of their launches.
    launches_at = np.flatnonzero(~lost & (flow_kind == 0))
    without_id = launches_at[table.correlation[head[launches_at]] == 0]
    ids = [columns.flow_ids[code] for code in columns.flow[end_at[without_id]].tolist()]
    without_id = without_id[[text.strip('"') == "0" for text in ids]]
    problems.add("unpaired", len(without_id), "flows of launches with id 0; no arrow is drawn")
    lost[without_id] = True

    new = ~lost & ((is_launch < 0) | (flow_kind != 0))
    is_unchanged = ~lost & ~new
    start_record, end_record = columns.record[start_at], columns.record[end_at]
    source_record = np.full(len(source), -1, dtype=np.int64)
    target_record = np.full(len(source), -1, dtype=np.int64)
    source_record[is_launch[is_unchanged]] = start_record[is_unchanged]
    target_record[is_launch[is_unchanged]] = end_record[is_unchanged]
    return FlowTable(
        kind=np.concatenate((np.zeros(len(source), np.uint8), flow_kind[new].astype(np.uint8))),
        source=np.concatenate((source, tail[new])),
        target=np.concatenate((target, head[new])),
        kinds=kinds,
        source_record=np.concatenate((source_record, start_record[new])),
        target_record=np.concatenate((target_record, end_record[new])),
    )


def counter_table(
    columns: RankColumns, rows: Rows, zero_ns: int, problems: Problems
) -> CounterTable:
    """Return the samples of counters: one per series in a record's args."""
    series: dict[tuple[str, str, str], int] = {}
    # Code of the series by combination of codes, so that its names are made only once.
    code_of_series: dict[tuple[int, int, int, str], int] = {}
    series_id, value, place = array("i"), array("d"), array("q")
    bad = 0
    codes = zip(
        *(getattr(columns, name)[rows].tolist() for name in ("pid", "name", "flow")), strict=True
    )
    numbers = columns.record[rows].tolist()
    args = chain.from_iterable(
        _args_of(columns, numbers[first : first + _AT_ONCE])
        for first in range(0, len(numbers), _AT_ONCE)
    )
    for index, (values, (pid, name, flow)) in enumerate(zip(args, codes, strict=True)):
        for label, raw in values.items():
            sample = _parse_number(raw)
            if sample is None:
                bad += 1
                continue
            code = code_of_series.get((pid, name, flow, label))
            if code is None:
                key = (columns.pids[pid], _counter_name(columns, name, flow), str(label))
                code = code_of_series[pid, name, flow, label] = series.setdefault(key, len(series))
            series_id.append(code)
            value.append(sample)
            place.append(index)
    problems.add("skipped", bad, "counter samples that are not numbers")
    ids, places = np.array(series_id, np.int32), np.array(place, np.int64)
    times = columns.start_ns[rows][places] - zero_ns
    order = np.lexsort((times, ids))
    return CounterTable(
        time_ns=times[order],
        series_id=ids[order],
        value=np.array(value, np.float64)[order],
        series=list(series),
        record=columns.record[rows][places][order],
    )


def instant_table(columns: RankColumns, rows: Rows, zero_ns: int) -> InstantTable:
    """Return the instants among `rows`, sorted by time."""
    rows = rows[np.argsort(columns.start_ns[rows], kind="stable")]
    return InstantTable(
        time_ns=columns.start_ns[rows] - zero_ns,
        name=columns.name[rows],
        category=category_codes(columns, rows),
        pid=[columns.pids[code] for code in columns.pid[rows]],
        tid=[columns.tids[code] for code in columns.tid[rows]],
        scope=[columns.scope.get(row, "t") for row in rows.tolist()],
        record=columns.record[rows],
    )


def async_table(columns: RankColumns, rows: Rows, zero_ns: int, problems: Problems) -> AsyncTable:
    """Return async intervals: begins and ends paired by category, id and name."""
    # A begin without an end is kept, with a duration of -1; an end without a begin is only counted.
    phase = columns.phase[rows]
    opens = (phase == ord("b")) | (phase == ord("S"))
    closes = (phase == ord("e")) | (phase == ord("F"))
    ends_matter = np.flatnonzero(opens | closes)
    rows, opens = rows[ends_matter], opens[ends_matter]
    name = _names_of_asyncs(columns, rows, opens)
    keys = np.stack([columns.category[rows], columns.flow[rows], name], axis=1).astype(np.int64)
    group = np.unique(keys, axis=0, return_inverse=True)[1].reshape(-1) if len(rows) else keys[:, 0]
    begins, ends, alone = match_brackets(group, columns.start_ns[rows], opens)
    open_alone = alone[opens[alone]]
    problems.add("unpaired", len(open_alone), "async begins without an end; kept without duration")
    problems.add("unpaired", len(alone) - len(open_alone), "async ends without a begin")
    first = np.concatenate((rows[begins], rows[open_alone]))
    dur = np.concatenate(
        (
            columns.start_ns[rows[ends]] - columns.start_ns[rows[begins]],
            np.full(len(open_alone), -1, dtype=np.int64),
        )
    )
    order = np.argsort(columns.start_ns[first], kind="stable")
    first, dur = first[order], dur[order]
    return AsyncTable(
        start_ns=columns.start_ns[first] - zero_ns,
        dur_ns=dur,
        name=columns.name[first],
        category=category_codes(columns, first),
        async_id=[columns.flow_ids[code] if code >= 0 else "" for code in columns.flow[first]],
        pid=[columns.pids[code] for code in columns.pid[first]],
        record=columns.record[first],
    )


def _names_of_asyncs(columns: RankColumns, rows: Rows, opens: Bools) -> Ints:
    """Return the names by which begins and ends are paired; -1 for ids whose ends have no name."""
    name = columns.name[rows].astype(np.int64)
    unnamed = np.array([not text for text in columns.names.values], dtype=bool)
    is_bare = ~opens & unnamed[name]
    if is_bare.any():
        ids = columns.category[rows].astype(np.int64) * (len(columns.flow_ids) + 1)
        ids += columns.flow[rows]
        name[np.isin(ids, ids[is_bare])] = -1
    return name


def category_codes(columns: RankColumns, rows: Rows) -> CategoryCodes:
    """Return the categories of `rows`, in two bytes each if they fit."""
    codes = columns.category[rows]
    fits = len(columns.categories) <= np.iinfo(np.int16).max
    return codes.astype(np.int16) if fits else codes


class FlowEndpointFinder:
    """Finds the events that flow records refer to by thread and time.

    `of_thread` maps (pid code, tid code) to a track; `zero_ns` is subtracted from record times.
    """

    def __init__(
        self, table: EventTable, of_thread: dict[tuple[int, int], int], zero_ns: int
    ) -> None:
        self.table, self.of_thread, self.zero_ns = table, of_thread, zero_ns
        self._by_track: tuple[Rows, Ints] | None = None

    def rows_at(self, columns: RankColumns, rows: Rows) -> Ints:
        """Return the row of the innermost event at each flow record's time, -1 for none.

        Records with binding point "next" refer to the next event instead.
        """
        table = self.table
        track = self._tracks(columns, rows)
        time = columns.start_ns[rows] - self.zero_ns
        order, first = self._events_by_track()
        result = np.full(len(rows), -1, dtype=np.int64)
        to_next = np.isin(rows, columns.ends_at_next)
        # The first group is for records on no track.
        asked_by_track, bounds = order_and_bounds(track + 1, len(table.tracks) + 1)
        for number in range(len(table.tracks)):
            times = asked_by_track[bounds[number + 1] : bounds[number + 2]]
            if not len(times):
                continue
            events = order[first[number] : first[number + 1]]
            begin = table.start_ns[events]
            after = np.searchsorted(begin, time[times], side="right")
            result[times] = np.where(after > 0, events[after - 1], -1)
            following = times[to_next[times]]
            if len(following):
                positions = np.searchsorted(begin, time[following], side="left")
                last = len(events) - 1
                result[following] = np.where(
                    positions <= last, events[np.minimum(positions, last)], -1
                )
        self._innermost_running(result, time, np.flatnonzero(~to_next))
        return result

    def by_correlation(self, columns: RankColumns, rows: Rows, event_rows: Ints) -> Ints:
        """Return `event_rows`, corrected if the flow's id is the correlation of another event."""
        # Times cannot distinguish events that start at the same instant.
        table = self.table
        flow_ids = map(columns.flow_ids.__getitem__, columns.flow[rows].tolist())
        ids = np.fromiter(map(_correlation, flow_ids), np.int64, len(rows))
        wrong = np.flatnonzero(
            (ids >= 0) & ((event_rows < 0) | (table.correlation[event_rows] != ids))
        )
        result = event_rows.copy()
        if not len(wrong):
            return result
        track = self._tracks(columns, rows)
        time = columns.start_ns[rows] - self.zero_ns
        candidates = np.flatnonzero(np.isin(table.correlation, ids[wrong]))
        candidates = candidates[np.argsort(table.correlation[candidates], kind="stable")]
        sorted_ids = table.correlation[candidates]
        low = np.searchsorted(sorted_ids, ids[wrong])
        high = np.searchsorted(sorted_ids, ids[wrong], "right")
        for index, a, b in zip(wrong.tolist(), low.tolist(), high.tolist(), strict=True):
            rows_at = candidates[a:b]
            fits = (table.track[rows_at] == track[index]) & (table.start_ns[rows_at] == time[index])
            if fits.any():
                result[index] = rows_at[fits][0]
        return result

    def _events_by_track(self) -> tuple[Rows, Ints]:
        if self._by_track is None:
            self._by_track = order_and_bounds(self.table.track, len(self.table.tracks))
        return self._by_track

    def _tracks(self, columns: RankColumns, rows: Rows) -> Ints:
        threads = len(columns.tids)
        slot = columns.pid[rows].astype(np.int64) * threads + columns.tid[rows]
        position, slots = compact_codes(slot, len(columns.pids) * threads)
        of_slot = [self.of_thread.get(divmod(int(value), threads), -1) for value in slots]
        return np.array(of_slot, dtype=np.int64)[position]

    def _innermost_running(self, result: Ints, time: Ints, which: Rows) -> None:
        """Replace each event in `result` that has ended by the innermost running event above it."""
        table = self.table
        open_at = which[result[which] >= 0]
        while len(open_at):
            row = result[open_at]
            begin, dur, time_ns = table.start_ns[row], table.dur_ns[row], time[open_at]
            outside = (time_ns >= begin + dur) & ~((dur == 0) & (time_ns == begin))
            open_at = open_at[outside]
            result[open_at] = table.parent[result[open_at]]
            open_at = open_at[result[open_at] >= 0]


class _FlowIndex:
    """Finds an arrow by its two ends."""

    def __init__(self, source: Ints, target: Ints, events: int) -> None:
        self._size = events + 1
        ends = source * self._size + target
        self._order = stable_order(ends)
        self._ends = ends[self._order]

    def position_of(self, source: Ints, target: Ints) -> Ints:
        """Return the position of each arrow, -1 for none."""
        if not len(self._ends):
            return np.full(len(source), -1, dtype=np.int64)
        key = source * self._size + target
        positions = np.minimum(np.searchsorted(self._ends, key), len(self._ends) - 1)
        is_link = (self._ends[positions] == key) & (source >= 0) & (target >= 0)
        return np.where(is_link, self._order[positions], -1)


def _flow_kinds(columns: RankColumns, rows: Rows, kinds: list[str]) -> tuple[Ints, Ints]:
    """Return a code of (category, name) for each record, and the kind of each code."""
    both = columns.category[rows].astype(np.int64) * len(columns.names) + columns.name[rows]
    code, unique = compact_codes(both, len(columns.categories) * len(columns.names))
    kind_of_pair = []
    for value in unique.tolist():
        category, name = divmod(value, len(columns.names))
        kind = columns.categories[category] or columns.names[name] or "flow"
        if kind in _LAUNCH or (kind == "async" and columns.names[name] == "launch"):
            kind = "launch"
        if kind not in kinds:
            kinds.append(kind)
        kind_of_pair.append(kinds.index(kind))
    return code.astype(np.int64), np.array(kind_of_pair, dtype=np.int64)


def _pair_records(
    columns: RankColumns, rows: Rows, pair_code: Ints, problems: Problems
) -> tuple[Rows, Rows]:
    """Pair the records of each flow; return the positions in `rows` of arrows' tails and heads."""
    phase = columns.phase[rows]
    ids = len(columns.flow_ids) + 1
    key = pair_code * ids + columns.flow[rows] + 1
    size = (int(pair_code.max()) + 1) * ids
    starts = np.flatnonzero(phase == ord("s"))
    ends = np.flatnonzero(phase != ord("s"))
    # Ids may be sparse, so these are the largest arrays of a load: keep them narrow.
    start_of = np.full(size, -1, dtype=np.int32)
    start_of[key[starts]] = starts
    simple = start_of >= 0
    simple[key[starts[start_of[key[starts]] != starts]]] = False  # more than one start
    simple[key[phase == ord("t")]] = False
    simple[::ids] = False  # records without an id

    easy_ends = ends[simple[key[ends]]]
    tails, heads = [start_of[key[easy_ends]]], [easy_ends]
    rest = np.flatnonzero(~simple[key] & (columns.flow[rows] >= 0))
    chain_tails, chain_heads, lost_ends = _pair_by_time(columns, rows, key, phase, rest)
    tails.append(chain_tails)
    heads.append(chain_heads)

    tail, head = np.concatenate(tails), np.concatenate(heads)
    led = mask_of_rows(tail, len(rows))
    without_id = int((columns.flow[rows] < 0).sum())
    problems.add("unpaired", without_id, "flow records without an id")
    problems.add("unpaired", lost_ends, "flow ends without a start; kept, no arrow is drawn")
    problems.add(
        "unpaired",
        int((~led[starts] & (columns.flow[rows[starts]] >= 0)).sum()),
        "flow starts without an end; kept, no arrow is drawn",
    )
    return tail, head


def _pair_by_time(
    columns: RankColumns, rows: Rows, key: Ints, phase: Codes, rest: Rows
) -> tuple[Rows, Rows, int]:
    """Pair records by time, for ids with several starts, without a start, or with steps."""
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
    # An arrow starts at the latest start or step before it, never at an end.
    gives = np.maximum.accumulate(np.where(begins | passes, position, -1))
    before = np.concatenate(([-1], gives[:-1]))
    within = before >= group_at
    started = np.maximum.accumulate(np.where(begins, position, -1)) >= group_at
    # With skewed clocks an end may precede its start: it takes the first start of the group.
    next_start = np.where(begins, position, count)
    next_start = np.minimum.accumulate(next_start[::-1])[::-1]
    group_end = np.searchsorted(group, group, side="right")
    early = ~begins & ~started & (next_start < group_end)
    tail_at = np.where(early, np.minimum(next_start, count - 1), before)
    paired = (~begins & within & started) | early
    lost = int((~begins & ~paired).sum())
    return ordered[tail_at[paired]], ordered[position[paired]], lost


def _correlation(text: str) -> int:
    digits = text.strip('"')
    is_number = digits.isascii() and digits.isdigit() and len(digits) <= 19
    return int(digits) if is_number and int(digits) < 1 << 63 else -1


def _args_of(columns: RankColumns, numbers: list[int]) -> list[dict[str, Any]]:
    many = getattr(columns.small_args, "get_many", None)
    if many is None:
        return [columns.small_args.get(number) or {} for number in numbers]
    args: list[dict[str, Any]] = many(numbers)
    return args


def _counter_name(columns: RankColumns, name: int, flow: int) -> str:
    text = columns.names[name]
    return text if flow < 0 else f"{text}[{columns.flow_ids[flow].strip(chr(34))}]"


def _parse_number(raw: Any) -> float | None:
    try:
        sample = float(raw)
    except (TypeError, ValueError, OverflowError):
        return None
    return sample if math.isfinite(sample) else None
