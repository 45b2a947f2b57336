"""Builds a `Trace` from the columns of a file's records.

Begin and end records are paired. Events are sorted by start, classified, and assigned a track, a
lane and their enclosing event. Device work is linked to its launch by correlation id. Records that
do not become events are counted as problems. `assign_steps` gives each event the number of the
``ProfilerStep#n`` around it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from hta_widgets import taxonomy
from hta_widgets.taxonomy import MPI_CATEGORY
from hta_widgets.text import duration
from hta_widgets.trace.arrays import (
    Bools,
    Codes,
    Ints,
    Rows,
    event_order,
    mask_of_rows,
    match_brackets,
    positions_in,
    sorted_unique,
    stable_order,
)
from hta_widgets.trace.columns import EventTable, RankColumns, RecordSource
from hta_widgets.trace.flows import (
    FlowEndpointFinder,
    add_bound_arrows,
    async_table,
    counter_table,
    flow_table,
    instant_table,
)
from hta_widgets.trace.implausible import exclude_far_records, repair_durations
from hta_widgets.trace.problems import Problems
from hta_widgets.trace.trace import Trace
from hta_widgets.trace.tracks import (
    EventThreads,
    LaneAssignment,
    TrackNames,
    assign_lanes,
    device_streams,
    find_tracks,
    read_track_names,
)

#: Calls of all vendors that start work on a device; others with their id only enclose them.
_LAUNCHING = re.compile(r"launch|memcpy|memset|submit|enqueue", re.IGNORECASE)


def launch_links(table: EventTable, device: Bools) -> tuple[Ints, Ints]:
    """Join host calls and device events by correlation id; return the rows of both.

    One call may launch many events (a CUDA graph). If a runtime call and the driver call within it
    have the same id, the innermost call that launches is used. If an id occurs again later in the
    file, the last call before the device event is used.
    """
    start, correlation = table.start_ns, table.correlation
    has_id = (correlation != 0) & (correlation != -1)  # tools write 0 for "none"
    work = np.flatnonzero(has_id & device)
    calls = np.flatnonzero(has_id & ~device)
    ids = sorted_unique(correlation[work])
    code = positions_in(ids, correlation[calls])
    calls, code = calls[code >= 0], code[code >= 0]
    calls, code = _prefer_launching(table, calls, code, len(ids))
    by_code = stable_order(code)
    calls, code = calls[by_code], code[by_code]
    # The calls of id `k` are calls[bounds[k] : bounds[k + 1]], ordered by start.
    bounds = np.searchsorted(code, np.arange(len(ids) + 1))
    work_code = np.searchsorted(ids, correlation[work])
    first, after = bounds[work_code], bounds[work_code + 1]
    has_call = after > first
    work, first, after = work[has_call], first[has_call], after[has_call]
    chosen = after - 1
    for number in np.flatnonzero(after - first > 1).tolist():  # several calls have this id
        call_starts = start[calls[first[number] : after[number]]]
        calls_before = int(np.searchsorted(call_starts, start[work[number]], side="right"))
        chosen[number] = first[number] + max(calls_before - 1, 0)
    return calls[chosen].astype(np.int64), work.astype(np.int64)


def _prefer_launching(table: EventTable, calls: Ints, code: Ints, codes: int) -> tuple[Ints, Ints]:
    """Drop calls that launch nothing if another with the same id does; return calls and codes."""
    if np.bincount(code, minlength=codes).max(initial=0) <= 1:
        return calls, code
    name, names = table.name[calls], table.names
    launching = [used for used in np.unique(name).tolist() if _LAUNCHING.search(names[used])]
    launches = mask_of_rows(launching, len(names))[name]
    is_preferred = launches | ~mask_of_rows(code[launches], codes)[code]
    return calls[is_preferred], code[is_preferred]


_STEP = re.compile(r"ProfilerStep\s*#\s*(\d{1,18})(?!\d)")
#: Largest step number that is read from a name; twice this number still fits in int64.
_MAX_STEP = 10**18


def step_numbers(names: Sequence[str]) -> Ints:
    """Return the step number in each name; -1 for other names."""
    numbers = np.full(len(names), -1, dtype=np.int64)
    for code, text in enumerate(names):
        if text.startswith("ProfilerStep") and (match := _STEP.match(text)):
            numbers[code] = int(match[1])
    return numbers


def assign_steps(
    table: EventTable, device: Bools, launch_of: tuple[Ints, Ints], problems: Problems
) -> Ints:
    """Return the number of the step around each event; -1 outside of steps.

    The number is n of ``ProfilerStep#n``. If numbers repeat, as after a restart, they continue from
    the highest one: #5, #6, #5, #6 are steps 5, 6, 7, 8. Host events of all threads belong to the
    step in which they start. Device events belong to the step in which they were launched.
    """
    start, end = table.start_ns, table.end_ns
    step = np.full(len(table), -1, dtype=np.int64)
    named = step_numbers(table.names.values)
    if not (named >= 0).any():
        return step
    rows = np.flatnonzero((named[table.name] >= 0) & ~device)
    numbers, repeated = _continue_numbers(
        named[table.name[rows]].tolist(), start[rows].tolist(), end[rows].tolist()
    )
    # Steps are written in order of start, so the innermost of nested steps is written last.
    for row, number in zip(rows.tolist(), numbers, strict=True):
        low, high = np.searchsorted(start, (start[row], end[row]))
        step[low:high] = number
    step[device] = -1
    step[rows] = numbers
    source, target = launch_of
    step[target] = step[source]
    problems.add(
        "merged",
        repeated,
        "steps that repeat the number of an earlier step; renumbered after the highest",
    )
    return step


def _continue_numbers(named: list[int], start: list[int], end: list[int]) -> tuple[list[int], int]:
    """Return the step numbers in order of start, and how many repeat an earlier number.

    Overlapping steps with the same number, on several threads, are one step.
    """
    numbers: list[int] = []
    end_of_step: dict[int, int] = {}
    offset = repeated = 0  # `offset` is added to the numbers in the file
    highest = -1
    for number, start_ns, end_ns in zip(named, start, end, strict=True):
        step = number + offset
        if start_ns >= end_of_step.get(step, start_ns + 1) and highest < _MAX_STEP:
            repeated += 1
            step = highest + 1
            offset = step - number
        end_of_step[step] = max(end_ns, end_of_step.get(step, end_ns))
        highest = max(highest, step)
        numbers.append(step)
    return numbers, repeated


_ANNOTATION = taxonomy.KINDS.index("annotation")
_MEMORY = taxonomy.KINDS.index("memory")
_DEVICE_WORK_KINDS = [taxonomy.KINDS.index(kind) for kind in ("compute", "communication")]
#: An event may start this long before its call, because host and device clocks differ.
_MAX_EARLY_NS = 10_000


def _count_devices(table: EventTable, problems: Problems) -> None:
    is_work = (table.stream >= 0) & np.isin(table.kind, _DEVICE_WORK_KINDS)
    devices = {table.tracks[track].process for track in np.unique(table.track[is_work]).tolist()}
    if len(devices) > 1:
        problems.add(
            "merged",
            len(devices),
            f"devices in one rank ({', '.join(sorted(devices))}): its figures combine them, and it"
            " is idle only while all of them are",
        )


def _count_early_starts(
    table: EventTable, launch_of: tuple[Ints, Ints], problems: Problems
) -> None:
    source, target = launch_of
    early_ns = table.start_ns[source] - table.start_ns[target]
    problems.add(
        "clock",
        int((early_ns > _MAX_EARLY_NS).sum()),
        "device events start before the call that launches them, by up to"
        f" {duration(int(early_ns.max(initial=0)))}: the clocks of host and device differ, so"
        " launch delays and idle causes are uncertain",
    )


def _count_repeated_work(table: EventTable, problems: Problems) -> None:
    start, dur = table.start_ns, table.dur_ns
    # Events are ordered by start and duration, so equal ones are adjacent.
    is_tie = (start[1:] == start[:-1]) & (dur[1:] == dur[:-1]) & (dur[1:] > 0)
    rows = np.flatnonzero(np.append(is_tie, False) | np.append(False, is_tie))
    is_work = np.isin(table.kind[rows], [*_DEVICE_WORK_KINDS, _MEMORY])
    rows = rows[is_work & (table.stream[rows] >= 0)]
    columns = (start, dur, table.track, table.name, table.correlation)
    keys = np.stack([column[rows].astype(np.int64) for column in columns], axis=1)
    problems.add(
        "overlap",
        len(rows) - len(np.unique(keys, axis=0)),
        "device events with the same stream, times, name and correlation as another event; if the"
        " file holds records twice, sums and counts include both",
    )


def build_trace(
    columns: RankColumns,
    *,
    rank: int,
    path: str,
    metadata: dict[str, Any],
    source: RecordSource | None,
    problems: Problems,
    pairs: tuple[Rows, Rows, Rows] | None = None,
    names: TrackNames | None = None,
    consume: bool = False,
    **trace_fields: Any,
) -> Trace:
    """Sort and classify the records of a file, assign lanes and add links.

    `pairs` has the rows of begin and end records paired by the format, and the rows of records
    without a partner. `consume` empties `columns` to save memory.
    """
    notes = Problems()
    by_phase = _rows_by_phase(columns, notes)
    if pairs is None:
        exclude_far_records(columns, by_phase, notes)
    rows, dur, phase, end_rows = _event_rows(columns, by_phase, notes, pairs)  # by record
    instant_rows = np.sort(np.concatenate((by_phase["iIRnT"], by_phase["X without dur"])))
    timed_rows = (instant_rows, by_phase["beSF"], by_phase["C"])
    other_rows: tuple[Rows, ...] = (by_phase["stf"], *timed_rows)
    # Time 0 is the start of the first event or, without events, of the first other record.
    zero_rows = rows if len(rows) else np.concatenate(timed_rows)
    zero_ns = int(columns.start_ns[zero_rows].min()) if len(zero_rows) else 0
    order = event_order(columns.start_ns[rows] - zero_ns, dur)
    end_record = _end_records(columns, order, end_rows)
    # Unused columns are dropped first, because they take the most memory in large files.
    events, columns, other_rows = _gather_columns(
        columns, rows[order], dur[order], phase[order], other_rows, consume=consume
    )
    events["start_ns"] -= zero_ns
    del by_phase, rows, order, dur, phase, end_rows, instant_rows, timed_rows
    flow_rows, instant_rows, async_rows, counter_rows = other_rows
    window_end_ns = _window_end(columns, instant_rows, zero_ns)
    end_record = repair_durations(columns, events, end_record, notes, window_end_ns=window_end_ns)
    table, device, of_thread = _event_table(columns, events, notes, names)
    table.end_record = end_record
    del events

    launches = launch_links(table, device)
    table.step = assign_steps(table, device, launches, notes)
    _count_devices(table, notes)
    _count_early_starts(table, launches, notes)
    _count_repeated_work(table, notes)
    finder = FlowEndpointFinder(table, of_thread, zero_ns)
    flows = flow_table(columns, flow_rows, finder, launches, notes)
    trace = Trace(
        rank=rank,
        path=path,
        metadata=metadata,
        flow_table=add_bound_arrows(flows, table, columns.bindings, notes),
        counter_table=counter_table(columns, counter_rows, zero_ns, notes),
        instant_table=instant_table(columns, instant_rows, zero_ns),
        async_table=async_table(columns, async_rows, zero_ns, notes),
        zero_ns=zero_ns,
        source=source,
        resolution_ns=columns.resolution_ns,
        copy_table=columns.copies,
        _table=table,
        _rules_version=taxonomy.version(),
        **trace_fields,
    )
    problems.merge(notes, rank, path)
    return trace


def _end_records(columns: RankColumns, order: Rows, end_rows: Rows) -> dict[int, int]:
    """Return the end record of each event with two records, by row of the sorted events.

    `order` sorts the results of `_event_rows`; paired events are the last of these.
    """
    first_paired = len(order) - len(end_rows)
    rows = np.flatnonzero(order >= first_paired)
    records = columns.record[end_rows[order[rows] - first_paired]]
    return dict(zip(rows.tolist(), records.tolist(), strict=True))


def _window_end(columns: RankColumns, instant_rows: Rows, zero_ns: int) -> int | None:
    """Return when the profiler stopped, on the time axis of the table; None if unknown."""
    is_stop = columns.name[instant_rows] == columns.names.find("Record Window End")
    stops_ns = columns.start_ns[instant_rows[is_stop]] - zero_ns
    return max(stops_ns.tolist(), default=None)


def _rows_by_phase(columns: RankColumns, problems: Problems) -> dict[str, Rows]:
    """Return the timed rows of each group of phases; count all other rows as problems."""
    phase, timed = columns.phase, columns.timed
    counts = np.bincount(phase, minlength=256)
    groups = {}
    for letters in ("X", "BE", "stf", "iIRnT", "beSF", "C"):
        codes = [code for code in letters.encode() if counts[code]]
        is_member = np.zeros(len(phase) if codes else 0, dtype=bool)
        for code in codes:
            is_member |= timed & (phase == code)
        groups[letters] = np.flatnonzero(is_member)
    complete = groups["X"]
    has_dur = columns.dur_ns[complete] != -1
    groups["X"] = complete if has_dur.all() else complete[has_dur]
    groups["X without dur"] = complete[~has_dur]
    problems.add(
        "repaired",
        len(groups["X without dur"]),
        "complete events without a duration; kept as instants",
    )
    metadata, used = int(counts[ord("M")]), sum(map(len, groups.values()))
    if metadata + used < len(phase):
        is_known_phase = np.isin(phase, np.frombuffer(b"XBEstfiIRbneSTFCM", dtype=np.uint8))
        lacks_time = is_known_phase & ~timed & (phase != ord("M"))
        problems.add("skipped", int(lacks_time.sum()), "records without a time")
        for code in np.unique(phase[~is_known_phase]).tolist():
            phase_text = f"of phase {chr(code)!r}" if code else "without a phase"
            problems.add("skipped", int((phase == code).sum()), f"records {phase_text}")
    problems.add("empty", metadata > 0 and not used, "it has metadata but no events")
    overflow = columns.names.find("trace_buffer_overflowed")
    if overflow >= 0:
        buffers = int((columns.name[phase == ord("M")] == overflow).sum())
        detail = "buffers that overflowed (trace_buffer_overflowed): the tracer dropped records"
        problems.add("skipped", buffers, detail)
    return groups


def _event_rows(
    columns: RankColumns,
    by_phase: dict[str, Rows],
    problems: Problems,
    pairs: tuple[Rows, Rows, Rows] | None,
) -> tuple[Rows, Ints, Codes, Rows]:
    """Return rows, durations and phases of complete and paired events, and the rows of ends.

    The paired events come last, in the order of the returned end records.
    """
    rows, brackets = by_phase["X"], by_phase["BE"]
    dur = columns.dur_ns[rows]
    if not len(brackets):
        phase = np.zeros(len(rows), np.uint8)
        return rows, _clip_negative_durations(dur, problems), phase, brackets
    begin_rows, end_rows, alone = pairs or _pair_brackets(columns, brackets, problems)
    lost_begins = int((columns.phase[alone] == ord("B")).sum())
    problems.add("unpaired", lost_begins, "begin records (B) without an end")
    problems.add("unpaired", len(alone) - lost_begins, "end records (E) without a begin")
    # Pairs in file order, as written by BytePS servers, may end before they begin.
    dur = np.concatenate((dur, columns.start_ns[end_rows] - columns.start_ns[begin_rows]))
    # Phases are codes: 0 for X, 1 for B.
    phase = np.repeat(np.array([0, 1], np.uint8), (len(rows), len(begin_rows)))
    rows = np.concatenate((rows, begin_rows))
    return rows, _clip_negative_durations(dur, problems), phase, end_rows


def _pair_brackets(columns: RankColumns, rows: Rows, problems: Problems) -> tuple[Rows, Rows, Rows]:
    """Return the begin and end records of each pair on a thread, and records without a partner."""
    thread = columns.pid[rows].astype(np.int64) * len(columns.tids) + columns.tid[rows]
    opens = columns.phase[rows] == ord("B")
    matched = match_brackets(thread, columns.start_ns[rows], opens)
    begin_rows, end_rows, alone = (rows[positions] for positions in matched)
    has_name = columns.name[end_rows] != columns.names.add("")
    is_crossing = has_name & (columns.name[end_rows] != columns.name[begin_rows])
    problems.add(
        "overlap",
        int(is_crossing.sum()),
        "ends (E) whose name differs from the begin (B) that they close; paired in order",
    )
    return begin_rows, end_rows, alone


def _clip_negative_durations(dur: Ints, problems: Problems) -> Ints:
    negative = int((dur < 0).sum())
    problems.add("repaired", negative, "negative durations; taken as zero")
    return np.maximum(dur, 0) if negative else dur


#: Columns of `RankColumns` with an entry per record, and their types in the event table; None marks
#: columns that the event table lacks or takes from elsewhere.
_BY_ROW: dict[str, type[np.generic] | None] = {
    "phase": None,
    "start_ns": np.int64,
    "dur_ns": None,
    "timed": None,
    "name": np.int32,
    "category": np.int16,
    "pid": np.int32,
    "tid": np.int32,
    "stream": np.int32,  # int64 if an id requires it
    "correlation": np.int64,
    "flow": None,
    "record": np.int64,
}


def _gather_columns(
    columns: RankColumns,
    rows: Rows,
    dur: Ints,
    phase: Codes,
    groups: tuple[Rows, ...],
    *,
    consume: bool,
) -> tuple[dict[str, Any], RankColumns, tuple[Rows, ...]]:
    """Separate events from other records.

    Returns the columns of the events in `rows`, with pid and tid; the columns of metadata records
    and of records in `groups`; and the new rows of `groups`.
    """
    other_rows = np.concatenate((*groups, np.flatnonzero(columns.phase == ord("M"))))
    other_rows.sort()
    has_many_categories = len(columns.categories) > np.iinfo(np.int16).max
    events: dict[str, Any] = {"dur_ns": dur, "phase": phase}
    others: dict[str, Any] = {}
    for name, dtype in _BY_ROW.items():
        values = getattr(columns, name)
        if dtype is not None:
            # These two columns get a wider type only if a value requires it.
            may_be_wider = name == "stream" or (name == "category" and has_many_categories)
            new_dtype = np.promote_types(values.dtype, np.int32) if may_be_wider else dtype
            events[name] = values[rows].astype(new_dtype, copy=False)
        others[name] = values[other_rows].astype(np.int64 if name == "record" else values.dtype)
        if consume:
            setattr(columns, name, values[:0].copy())
    scope_rows = np.fromiter(columns.scope, np.int64, len(columns.scope))
    new_scope_rows = np.searchsorted(other_rows, scope_rows).tolist()
    at_next = columns.ends_at_next[np.isin(columns.ends_at_next, other_rows)]
    other_columns = replace(
        columns,
        **others,
        ends_at_next=np.searchsorted(other_rows, at_next),
        scope=dict(zip(new_scope_rows, columns.scope.values(), strict=True)),
    )
    new_groups = tuple(np.searchsorted(other_rows, group) for group in groups)
    return events, other_columns, new_groups


def _event_table(
    columns: RankColumns, events: dict[str, Any], problems: Problems, names: TrackNames | None
) -> tuple[EventTable, Bools, dict[tuple[int, int], int]]:
    """Return the event table, a mask of the events on a device, and the track of each thread."""
    start, category = events["start_ns"], events["category"]
    threads = EventThreads(events.pop("pid"), events.pop("tid"), columns.pids, columns.tids)
    kind = taxonomy.kind_codes(
        category, events["name"], columns.categories.values, columns.names.values
    )
    is_device = [taxonomy.is_device_category(text) for text in columns.categories.values]
    # The additional last entry allows indexing for files without categories.
    device = np.array([*is_device, False], dtype=bool)[category]
    works = device & np.isin(kind, [*_DEVICE_WORK_KINDS, _MEMORY])
    stream = device_streams(events["stream"], device, works, threads, problems)
    mpi = [code for code, text in enumerate(columns.categories.values) if text == MPI_CATEGORY]
    assignment = find_tracks(
        threads,
        start,
        stream,
        read_track_names(columns) if names is None else names,
        on_device=device,
        annotates_device=device & (kind == _ANNOTATION),
        calls_mpi=np.isin(category, mpi) & ~device.any(),
    )
    lanes = assign_lanes(
        start, events["dur_ns"], assignment.track, len(assignment.tracks), columns.resolution_ns
    )
    _report_lanes(lanes, columns.resolution_ns, problems)
    tracks = [
        replace(track, nested=int(nested), lanes=int(all_lanes))
        for track, nested, all_lanes in zip(
            assignment.tracks, lanes.nested, lanes.lanes, strict=True
        )
    ]
    events |= {
        "kind": kind,
        "track": assignment.track,
        "depth": lanes.depth,
        "parent": lanes.parent,
        "stream": stream,
        "step": np.full(len(start), -1, dtype=np.int64),
    }
    table = EventTable(**events, names=columns.names, categories=columns.categories, tracks=tracks)
    return table, device, assignment.of_thread


def _report_lanes(lanes: LaneAssignment, resolution_ns: int, problems: Problems) -> None:
    problems.add(
        "overlap", lanes.overlaps, "events that overlap without nesting; drawn in extra lanes"
    )
    problems.add(
        "rounding",
        lanes.rounded,
        f"events that nest only within the time resolution of {resolution_ns} ns",
    )
    problems.add("overflow", lanes.too_deep, "events nested deeper than 32 767 levels")
