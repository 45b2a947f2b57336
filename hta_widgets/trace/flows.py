"""Tables of records other than complete events: flows, counters, instants, async intervals.

A flow is an arrow between two events. Flows are the launches, found by correlation id, and the
arrows recorded in the file: a start (phase s), any number of steps (t) and an end (f) with a common
id. Each of these records refers to an event by thread and time.
"""

from __future__ import annotations

import math
import re
from array import array
from functools import cached_property
from itertools import chain
from typing import Any

import numpy as np

from hta_widgets.trace.arrays import (
    Bools,
    Codes,
    Ints,
    Rows,
    distinct_codes,
    last_true_positions,
    mask_of_rows,
    match_brackets,
    order_and_bounds,
    positions_in,
    stable_order,
)
from hta_widgets.trace.columns import (
    AsyncTable,
    Binding,
    CategoryCodes,
    CounterTable,
    EventTable,
    FlowTable,
    InstantTable,
    RankColumns,
    concatenate_tables,
)
from hta_widgets.trace.problems import Problems

#: Categories of arrows from launches to device work, in different versions of the profiler.
_LAUNCH = {"ac2g", "async_cpu_to_gpu", "async_gpu"}
#: Id at the end of a flow's category, as Intel's unitrace writes it: ``Flow_D2H_17_0``.
_ID_OF_FLOW = re.compile(r"(?<=[a-z])(_\d+)+$", re.IGNORECASE)
_RECORDS_AT_ONCE = 4096


def flow_table(
    columns: RankColumns,
    rows: Rows,
    finder: FlowEndpointFinder,
    launches: tuple[Ints, Ints],
    problems: Problems,
) -> FlowTable:
    """Join the flow records `rows` into arrows between events; add the arrows to `launches`.

    Launches are source and target rows found by correlation. A flow between the two events of a
    launch only adds its record numbers to the launch.
    """
    table = finder.table
    source, target = launches
    kinds = {"launch": 0}
    source_record, target_record = np.full((2, len(source)), -1, dtype=np.int64)
    launch_kind = np.zeros(len(source), dtype=np.uint8)
    if not len(rows):
        return FlowTable(launch_kind, source, target, list(kinds), source_record, target_record)

    code, kind_of_code = _flow_kinds(columns, rows, kinds)
    tail_at, head_at = _pair_records(columns, rows, code, problems)
    flow_kind = kind_of_code[code[tail_at]]
    # The records at both ends of each flow, and the events to which they refer.
    tail_rows, head_rows = rows[tail_at], rows[head_at]
    tail, head = finder.rows_at(columns, tail_rows), finder.rows_at(columns, head_rows)
    launch = _positions_in_launches(launches, tail, head)
    unmatched = np.flatnonzero((flow_kind == 0) & (launch < 0))
    if len(unmatched) and len(table):
        tail[unmatched] = finder.by_correlation(columns, tail_rows[unmatched], tail[unmatched])
        head[unmatched] = finder.by_correlation(columns, head_rows[unmatched], head[unmatched])
        launch[unmatched] = _positions_in_launches(launches, tail[unmatched], head[unmatched])
    is_lost = (tail < 0) | (head < 0)
    problems.add(
        "unpaired", int(is_lost.sum()), "flows that end outside any event; no arrow is drawn"
    )
    if not len(source) and len(table):
        # Without ids, arrows from the host to a device are launches, whatever the tool names them.
        to_device = (table.stream[tail] < 0) & (table.stream[head] >= 0)
        flow_kind[~is_lost & to_device] = 0
    launching = np.flatnonzero(~is_lost & (flow_kind == 0))
    without_id = launching[_mask_without_id(columns, head_rows[launching], table, head[launching])]
    problems.add("unpaired", len(without_id), "flows of launches with id 0; no arrow is drawn")
    is_lost[without_id] = True

    is_launch = ~is_lost & (launch >= 0) & (flow_kind == 0)
    is_new = ~is_lost & ~is_launch
    tail_record, head_record = columns.record[tail_rows], columns.record[head_rows]
    source_record[launch[is_launch]] = tail_record[is_launch]
    target_record[launch[is_launch]] = head_record[is_launch]
    return FlowTable(
        kind=np.concatenate(
            (launch_kind, flow_kind[is_new].astype(np.min_scalar_type(len(kinds))))
        ),
        source=np.concatenate((source, tail[is_new])),
        target=np.concatenate((target, head[is_new])),
        kinds=list(kinds),
        source_record=np.concatenate((source_record, tail_record[is_new])),
        target_record=np.concatenate((target_record, head_record[is_new])),
    )


def _positions_in_launches(launches: tuple[Ints, Ints], tail: Ints, head: Ints) -> Ints:
    """Return the position of the launch between the same events as each arrow; -1 if missing."""
    source, target = launches
    size = max(int(target.max(initial=-1)), int(head.max(initial=-1))) + 1
    launch_keys = source * size + target
    order = stable_order(launch_keys)
    keys = np.where((tail >= 0) & (head >= 0), tail * size + head, -1)
    return np.append(order, -1)[positions_in(launch_keys[order], keys)]


def add_bound_arrows(
    flows: FlowTable, table: EventTable, bindings: dict[int, Binding], problems: Problems
) -> FlowTable:
    """Return `flows` with added arrows between events that state the same ``bind_id``.

    Each arrow begins at the latest event with ``flow_out``, and ends at an event with ``flow_in``.
    """
    arrows: list[tuple[int, int]] = []
    latest_row: dict[bytes, int] = {}
    for row in np.flatnonzero(np.isin(table.record, list(bindings))).tolist():  # by start
        binding = bindings[int(table.record[row])]
        if binding.ends and binding.bind_id in latest_row:
            arrows.append((latest_row[binding.bind_id], row))
        if binding.begins:
            latest_row[binding.bind_id] = row
    unpaired = len(bindings) - len(set(chain(*arrows)))
    problems.add("unpaired", unpaired, "events with a bind_id; no arrow begins or ends there")
    if not arrows:
        return flows
    kinds = list(dict.fromkeys((*flows.kinds, "flow")))
    kind = np.full(len(arrows), kinds.index("flow"), np.min_scalar_type(len(kinds)))
    source, target = np.array(arrows, np.int64).T
    no_record = np.full(len(arrows), -1, np.int64)
    added = FlowTable(kind, source, target, kinds, no_record, no_record)
    return concatenate_tables([flows, added], kinds=kinds)


def _mask_without_id(columns: RankColumns, rows: Rows, table: EventTable, events: Ints) -> Bools:
    """Return a mask of the flow records without an id: they and their `events` have id 0."""
    is_without_id: Bools = table.correlation[events] == 0
    flow_ids = [columns.flow_ids[code] for code in columns.flow[rows[is_without_id]].tolist()]
    # Ids are JSON texts, so 0 may have quotes.
    is_without_id[is_without_id] = [text.strip('"') == "0" for text in flow_ids]
    return is_without_id


def counter_table(
    columns: RankColumns, rows: Rows, zero_ns: int, problems: Problems
) -> CounterTable:
    """Return counter samples; each arg of a record is a sample of its own series."""
    series: dict[tuple[str, str, str], int] = {}
    # The name of a series is formatted only once per pid, name, id and label.
    code_of_series: dict[tuple[int, int, int, str], int] = {}
    sample_series, sample_values, sample_rows = array("i"), array("d"), array("q")
    skipped = without_samples = 0
    key_columns = (columns.pid, columns.name, columns.flow)
    pids, names, flows = (column[rows].tolist() for column in key_columns)
    records = columns.record[rows].tolist()
    args = chain.from_iterable(
        _args_of(columns, records[first : first + _RECORDS_AT_ONCE])
        for first in range(0, len(records), _RECORDS_AT_ONCE)
    )
    for row, samples, pid, name, flow in zip(rows.tolist(), args, pids, names, flows, strict=True):
        without_samples += not samples
        for label, raw in samples.items():
            value = _parse_number(raw)
            if value is None:
                skipped += 1
                continue
            code = code_of_series.get((pid, name, flow, label))
            if code is None:
                text = columns.names[name]
                if flow >= 0:
                    text += f"[{columns.flow_ids[flow].strip(chr(34))}]"
                key = (columns.pids[pid], text, str(label))
                code = code_of_series[pid, name, flow, label] = series.setdefault(key, len(series))
            sample_series.append(code)
            sample_values.append(value)
            sample_rows.append(row)
    problems.add("skipped", skipped, "counter samples that are not numbers")
    problems.add("skipped", without_samples, "counter records without a sample")
    series_id, rows = np.array(sample_series, np.int32), np.array(sample_rows, np.int64)
    times = columns.start_ns[rows] - zero_ns
    order = np.lexsort((times, series_id))
    return CounterTable(
        time_ns=times[order],
        series_id=series_id[order],
        value=np.array(sample_values, np.float64)[order],
        series=list(series),
        record=columns.record[rows[order]],
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
    """Return async intervals: begins and ends paired by category, id and name.

    A begin without an end is kept with a duration of -1. An end without a begin is only counted.
    """
    opens = np.isin(columns.phase[rows], np.frombuffer(b"bS", np.uint8))
    name, flow = columns.name[rows].astype(np.int64), columns.flow[rows]
    is_empty = np.array([not text for text in columns.names.values], dtype=bool)
    is_unnamed_end = ~opens & is_empty[name]
    if is_unnamed_end.any():
        # If an id has ends without a name, its records are paired regardless of their names.
        ids = columns.category[rows].astype(np.int64) * (len(columns.flow_ids) + 1) + flow
        name[np.isin(ids, ids[is_unnamed_end])] = -1
    # Events without an id are paired within their process.
    process = np.where(flow < 0, columns.pid[rows], -1)
    keys = np.stack([columns.category[rows], flow, name, process], axis=1).astype(np.int64)
    group = np.unique(keys, axis=0, return_inverse=True)[1].reshape(-1) if len(rows) else keys[:, 0]
    start_ns = columns.start_ns[rows]
    begins, ends, alone = match_brackets(group, start_ns, opens)
    open_alone = alone[opens[alone]]
    problems.add("unpaired", len(open_alone), "async begins without an end; kept without duration")
    problems.add("unpaired", len(alone) - len(open_alone), "async ends without a begin")
    first = np.concatenate((rows[begins], rows[open_alone]))
    unknown = np.full(len(open_alone), -1, dtype=np.int64)
    dur = np.concatenate((start_ns[ends] - start_ns[begins], unknown))
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


def category_codes(columns: RankColumns, rows: Rows) -> CategoryCodes:
    """Return the categories of `rows`, in two bytes each if they fit."""
    codes = columns.category[rows]
    fits = len(columns.categories) <= np.iinfo(np.int16).max
    return codes.astype(np.int16) if fits else codes


class FlowEndpointFinder:
    """Finds the events to which flow records refer by thread and time.

    `of_thread` maps (pid code, tid code) to a track; `zero_ns` is subtracted from record times.
    """

    def __init__(
        self, table: EventTable, of_thread: dict[tuple[int, int], int], zero_ns: int
    ) -> None:
        self.table, self.of_thread, self.zero_ns = table, of_thread, zero_ns

    def rows_at(self, columns: RankColumns, rows: Rows) -> Ints:
        """Return the row of the innermost event at each flow record's time; -1 outside of events.

        Records with binding point "next" refer to the next event instead.
        """
        table = self.table
        track = self._tracks(columns, rows)
        time = columns.start_ns[rows] - self.zero_ns
        events_by_track, event_bounds = self._events_by_track
        result = np.full(len(rows), -1, dtype=np.int64)
        is_to_next = np.isin(rows, columns.ends_at_next)
        # Group 0 has the records without a track, so the group of a track is its number + 1.
        flows_by_track, flow_bounds = order_and_bounds(track + 1, len(table.tracks) + 1)
        for number in range(len(table.tracks)):
            flows = flows_by_track[flow_bounds[number + 1] : flow_bounds[number + 2]]
            if not len(flows):
                continue
            events = events_by_track[event_bounds[number] : event_bounds[number + 1]]
            start_ns = table.start_ns[events]
            # The last event that starts by the record's time; for "next", the first that starts at
            # or after it.
            position = np.searchsorted(start_ns, time[flows], side="right") - 1
            is_next = is_to_next[flows]
            position[is_next] = np.searchsorted(start_ns, time[flows[is_next]], side="left")
            # Positions before the first event and after the last select the appended -1.
            result[flows] = np.append(events, -1)[position]
        self._innermost_running(result, time, np.flatnonzero(~is_to_next))
        return result

    def by_correlation(self, columns: RankColumns, rows: Rows, event_rows: Ints) -> Ints:
        """Return `event_rows`, corrected if the flow's id is the correlation of another event.

        Times cannot distinguish events that start at the same instant.
        """
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
        for flow, first, after in zip(wrong.tolist(), low.tolist(), high.tolist(), strict=True):
            events = candidates[first:after]
            fits = (table.track[events] == track[flow]) & (table.start_ns[events] == time[flow])
            if fits.any():
                result[flow] = events[fits][0]
        return result

    @cached_property
    def _events_by_track(self) -> tuple[Rows, Ints]:
        return order_and_bounds(self.table.track, len(self.table.tracks))

    def _tracks(self, columns: RankColumns, rows: Rows) -> Ints:
        threads = len(columns.tids)
        thread = columns.pid[rows].astype(np.int64) * threads + columns.tid[rows]
        used_threads, position = distinct_codes(thread)
        tracks = [self.of_thread.get(divmod(code, threads), -1) for code in used_threads.tolist()]
        return np.array(tracks, dtype=np.int64)[position]

    def _innermost_running(self, result: Ints, time: Ints, flows: Rows) -> None:
        """Replace ended events of `flows` by the innermost events above them that still run.

        `result` and `time` have the event and the time of each flow record.
        """
        table = self.table
        flows = flows[result[flows] >= 0]
        while len(flows):
            row = result[flows]
            begin, dur, time_ns = table.start_ns[row], table.dur_ns[row], time[flows]
            has_ended = (time_ns >= begin + dur) & ~((dur == 0) & (time_ns == begin))
            flows = flows[has_ended]
            result[flows] = table.parent[result[flows]]
            flows = flows[result[flows] >= 0]


def _flow_kinds(columns: RankColumns, rows: Rows, kinds: dict[str, int]) -> tuple[Ints, Ints]:
    """Return a code of (category, name) for each record, and the kind of each code.

    `kinds` maps each kind to its code; new kinds are added.
    """
    both = columns.category[rows].astype(np.int64) * len(columns.names) + columns.name[rows]
    used, code = distinct_codes(both)
    kind_of_code = []
    for category_and_name in used.tolist():
        category, name = divmod(category_and_name, len(columns.names))
        text = columns.categories[category] or columns.names[name] or "flow"
        kind = _ID_OF_FLOW.sub("", text)
        if kind in _LAUNCH or (kind == "async" and columns.names[name] == "launch"):
            kind = "launch"
        kind_of_code.append(kinds.setdefault(kind, len(kinds)))
    return code, np.array(kind_of_code, dtype=np.int64)


def _pair_records(
    columns: RankColumns, rows: Rows, code: Ints, problems: Problems
) -> tuple[Rows, Rows]:
    """Pair the records of each flow; return positions in `rows` of the arrows' tails and heads.

    Records with the same `code` and id belong to one flow.
    """
    phase, has_id = columns.phase[rows], columns.flow[rows] >= 0
    ids = len(columns.flow_ids) + 1
    key = code * ids + columns.flow[rows] + 1
    size = (int(code.max()) + 1) * ids
    starts = np.flatnonzero(phase == ord("s"))
    ends = np.flatnonzero(phase != ord("s"))
    # Ids may be sparse, so these arrays are the largest while loading and are kept narrow.
    start_of_key = np.full(size, -1, dtype=np.int32)
    start_of_key[key[starts]] = starts
    # If a key has one start and no steps, all its ends belong to that start.
    is_simple = start_of_key >= 0
    is_simple[key[starts[start_of_key[key[starts]] != starts]]] = False  # several starts
    is_simple[key[phase == ord("t")]] = False
    is_simple[::ids] = False  # records without an id

    simple_heads = ends[is_simple[key[ends]]]
    others = np.flatnonzero(~is_simple[key] & has_id)
    other_tails, other_heads, lost_ends = _pair_by_time(columns, rows, key, phase, others)
    tails = np.concatenate((start_of_key[key[simple_heads]], other_tails))
    heads = np.concatenate((simple_heads, other_heads))

    has_end = mask_of_rows(tails, len(rows))
    problems.add("unpaired", int((~has_id).sum()), "flow records without an id")
    problems.add("unpaired", lost_ends, "flow ends without a start; kept, no arrow is drawn")
    problems.add(
        "unpaired",
        int((~has_end[starts] & has_id[starts]).sum()),
        "flow starts without an end; kept, no arrow is drawn",
    )
    return tails, heads


def _pair_by_time(
    columns: RankColumns, rows: Rows, key: Ints, phase: Codes, others: Rows
) -> tuple[Rows, Rows, int]:
    """Pair records by time, for ids with several starts, no start, or steps.

    ``s t f s f`` has the arrows s → t, t → f and s → f. Each begins at the latest start or step
    with the id before it. Returns tails, heads, and the number of steps and ends without a start.
    """
    if not len(others):
        return others, others, 0
    order = np.lexsort((phase[others] != ord("s"), columns.start_ns[rows[others]], key[others]))
    ordered = others[order]
    group, count = key[ordered], len(ordered)
    position = np.arange(count)
    is_start = phase[ordered] == ord("s")
    group_first = np.searchsorted(group, group)
    group_end = np.searchsorted(group, group, side="right")
    can_begin_arrow = is_start | (phase[ordered] == ord("t"))
    latest = last_true_positions(can_begin_arrow)
    tail = np.concatenate(([-1], latest[:-1]))
    has_started = last_true_positions(is_start) >= group_first
    # With skewed clocks, an end may precede its start; its arrow then begins at the first start.
    next_start = np.minimum.accumulate(np.where(is_start, position, count)[::-1])[::-1]
    is_early = ~is_start & ~has_started & (next_start < group_end)
    tail = np.where(is_early, np.minimum(next_start, count - 1), tail)
    is_paired = is_early | (~is_start & has_started)
    lost = int((~is_start & ~is_paired).sum())
    return ordered[tail[is_paired]], ordered[is_paired], lost


def _correlation(text: str) -> int:
    """Return a flow's id as a correlation id; -1 if it cannot be one."""
    digits = text.strip('"')
    is_number = digits.isascii() and digits.isdigit() and len(digits) <= 19
    return int(digits) if is_number and int(digits) < 1 << 63 else -1


def _args_of(columns: RankColumns, records: list[int]) -> list[dict[str, Any]]:
    get_many = getattr(columns.small_args, "get_many", None)
    if get_many is None:
        return [columns.small_args.get(record) or {} for record in records]
    return get_many(records)  # type: ignore[no-any-return]


def _parse_number(raw: Any) -> float | None:
    try:
        sample = float(raw)
    except (TypeError, ValueError, OverflowError):
        return None
    return sample if math.isfinite(sample) else None
