"""Build a `Trace` from the columns of a file's records.

Begin and end records are paired, events are sorted by start and classified, each gets a track, a
lane and the event that encloses it, and device work is linked to its launch by the correlation id.
Records that do not become events are counted as problems. `assign_steps` gives each event the
number of the ``ProfilerStep#n`` around it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from hta_widgets import taxonomy
from hta_widgets.taxonomy import MPI_CATEGORY
from hta_widgets.trace.arrays import (
    Bools,
    Codes,
    Ints,
    Rows,
    event_order,
    mask_of_rows,
    match_brackets,
    sorted_unique,
    stable_order,
)
from hta_widgets.trace.columns import EventTable, RankColumns, RecordSource, StringPool
from hta_widgets.trace.flows import (
    FlowEndpointFinder,
    async_table,
    counter_table,
    flow_table,
    instant_table,
)
from hta_widgets.trace.implausible import exclude_far_records, repair_durations
from hta_widgets.trace.problems import Problems
from hta_widgets.trace.trace import Trace
from hta_widgets.trace.tracks import TrackNames, assign_lanes, device_streams, find_tracks

#: Calls of all vendors that put work on a device; other calls with the same id only enclose them.
_LAUNCHING = re.compile(r"launch|memcpy|memset|submit|enqueue", re.IGNORECASE)


def launch_links(
    start: Ints, name: npt.NDArray[np.int32], names: StringPool, device: Bools, correlation: Ints
) -> tuple[Ints, Ints]:
    """Join host calls and device events by correlation id."""
    # One call may launch many events (a CUDA graph). If calls share an id (a runtime call and
    # the driver call inside it), the innermost that launches is used; if an id occurs again later
    # in the file, the last call before the device event is used. Tools write 0 for
    # events without an id.
    linked = (correlation != 0) & (correlation != -1)
    work = np.flatnonzero(linked & device)
    host = np.flatnonzero(linked & ~device)
    none = np.empty(0, dtype=np.int64)
    if not len(work) or not len(host):
        return none, none
    wanted = sorted_unique(correlation[work])
    code, is_known = _positions_in(correlation[host], wanted)
    host, code = host[is_known], code[is_known]
    if not len(host):
        return none, none
    host, code = _prefer_launching(host, code, name, names, len(wanted))
    by_code = stable_order(code)
    host, code = host[by_code], code[by_code]
    low = np.searchsorted(code, np.arange(len(wanted) + 1))
    work_code = np.searchsorted(wanted, correlation[work])
    first, after = low[work_code], low[work_code + 1]
    has_call = after > first
    work, first, after = work[has_call], first[has_call], after[has_call]
    chosen = after - 1
    several = np.flatnonzero(after - first > 1)
    for k in several.tolist():
        calls = host[first[k] : after[k]]
        before = int(np.searchsorted(start[calls], start[work[k]], side="right"))
        chosen[k] = first[k] + max(before - 1, 0)
    return host[chosen].astype(np.int64), work.astype(np.int64)


def _positions_in(values: Ints, wanted: Ints) -> tuple[Ints, Bools]:
    """Return the position of each value in the sorted `wanted`, and whether it is there."""
    code = np.minimum(np.searchsorted(wanted, values), len(wanted) - 1)
    return code, wanted[code] == values


def _prefer_launching(
    host: Ints, code: Ints, name: npt.NDArray[np.int32], names: StringPool, size: int
) -> tuple[Ints, Ints]:
    if np.bincount(code, minlength=size).max() <= 1:
        return host, code
    used = np.unique(name[host]).tolist()
    launching = mask_of_rows([n for n in used if _LAUNCHING.search(names[n])], len(names))[
        name[host]
    ]
    is_preferred = launching | ~mask_of_rows(code[launching], size)[code]
    return host[is_preferred], code[is_preferred]


_STEP = re.compile(r"ProfilerStep\s*#\s*(\d{1,18})(?!\d)")
#: Largest number in a name. Twice as much still fits into the column of steps.
_MAX_STEP = 10**18


def step_numbers(names: Sequence[str]) -> Ints:
    """Return the step number in each name, -1 for other names."""
    numbers = np.full(len(names), -1, dtype=np.int64)
    for code, text in enumerate(names):
        if text.startswith("ProfilerStep") and (match := _STEP.match(text)):
            numbers[code] = int(match[1])
    return numbers


def assign_steps(
    table: EventTable, device: Bools, launch_of: tuple[Ints, Ints], problems: Problems
) -> Ints:
    """Return the number of the enclosing step for every event, -1 outside of steps.

    It is n of ``ProfilerStep#n``. If a step begins after an earlier one of its number, as after a
    restart, it and later ones are numbered on: #5, #6, #5, #6 are steps 5, 6, 7, 8. Host events of
    all threads belong to the step in which they start. Device events belong to the step of their
    launch.
    """
    start, end = table.start_ns, table.end_ns
    step = np.full(len(table), -1, dtype=np.int64)
    named = step_numbers(table.names.values)
    if not (named >= 0).any():
        return step
    rows = np.flatnonzero((named[table.name] >= 0) & ~device)
    ranges = named[table.name[rows]], start[rows], end[rows]
    numbers, repeated = _number_on(*(column.tolist() for column in ranges))
    # In order of start, so that the innermost of nested steps is written last.
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
        "steps that begin after an earlier step of their number: they are numbered on",
    )
    return step


def _number_on(named: list[int], start: list[int], end: list[int]) -> tuple[list[int], int]:
    """Return the numbers of steps, by start, and how many of them repeat an earlier number."""
    numbers: list[int] = []
    end_of_step: dict[int, int] = {}
    offset = repeated = 0
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


def _count_devices(table: EventTable, problems: Problems) -> None:
    """Count the devices whose figures a rank combines."""
    used = np.unique(
        table.track[(table.stream >= 0) & np.isin(table.kind, _DEVICE_WORK_KINDS)]
    ).tolist()
    devices = {table.tracks[number].process for number in used}
    if len(devices) > 1:
        problems.add(
            "merged",
            len(devices),
            f"devices in one rank ({', '.join(sorted(devices))}): its figures join them, so it"
            " idles only while none of them works",
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
    **about: Any,
) -> Trace:
    """Sort and classify the records of one file, assign lanes and link them."""
    notes = Problems()
    by_phase = _rows_by_phase(columns, notes)
    if pairs is None:
        exclude_far_records(columns, by_phase, notes)
    rows, dur, phase, end_rows = _event_rows(columns, by_phase, notes, pairs)
    instant_rows = np.sort(np.concatenate((by_phase["iIR"], by_phase["X without dur"])))
    beside_rows: tuple[Rows, ...] = (
        by_phase["stf"],
        instant_rows,
        by_phase["bneSTF"],
        by_phase["C"],
    )
    times = (columns.start_ns[selected] for selected in (rows, *beside_rows[1:]) if len(selected))
    zero_ns = next((int(time.min()) for time in times), 0)
    order = event_order(columns.start_ns[rows] - zero_ns, dur)
    end_record = _end_records(columns, order, end_rows)
    # Drop the unused columns first: in large files they take the most memory.
    events, columns, beside_rows = _gather_columns(
        columns, rows[order], dur[order], phase[order], beside_rows, consume=consume
    )
    events["start_ns"] -= zero_ns
    end_record = repair_durations(columns, events, end_record, notes)
    del by_phase, rows, order, dur, phase, end_rows, instant_rows
    flow_rows, instant_rows, async_rows, counter_rows = beside_rows

    table, device, of_thread = _event_table(columns, events, notes, names)
    table.end_record = end_record
    del events

    launches = launch_links(table.start_ns, table.name, table.names, device, table.correlation)
    table.step = assign_steps(table, device, launches, notes)
    _count_devices(table, notes)
    finder = FlowEndpointFinder(table, of_thread, zero_ns)
    trace = Trace(
        rank=rank,
        path=path,
        metadata=metadata,
        flow_table=flow_table(columns, flow_rows, table, finder, launches, notes),
        counter_table=counter_table(columns, counter_rows, zero_ns, notes),
        instant_table=instant_table(columns, instant_rows, zero_ns),
        async_table=async_table(columns, async_rows, zero_ns, notes),
        zero_ns=zero_ns,
        source=source,
        resolution_ns=columns.resolution_ns,
        copy_table=columns.copies,
        _table=table,
        _rules_version=taxonomy.version(),
        **about,
    )
    problems.merge(notes, rank, path)
    return trace


def _rows_by_phase(columns: RankColumns, problems: Problems) -> dict[str, Rows]:
    """Return the rows of each group of phases that have a time; count all others."""
    phase, timed = columns.phase, columns.timed
    counts = np.bincount(phase, minlength=256)
    groups = {}
    for letters in ("X", "BE", "stf", "iIR", "bneSTF", "C"):
        codes = [code for code in letters.encode() if counts[code]]
        member = np.zeros(len(phase) if codes else 0, dtype=bool)
        for code in codes:
            member |= timed & (phase == code)
        groups[letters] = np.flatnonzero(member)
    complete = groups["X"]
    stated = columns.dur_ns[complete] != -1
    groups["X"] = complete if stated.all() else complete[stated]
    groups["X without dur"] = complete[~stated]
    problems.add(
        "repaired",
        len(groups["X without dur"]),
        "complete events that state no duration; kept as instants",
    )
    placed = sum(len(rows) for rows in groups.values()) + int(counts[ord("M")])
    if placed < len(phase):
        _count_unplaced(columns, problems)
    return groups


def _count_unplaced(columns: RankColumns, problems: Problems) -> None:
    is_known_phase = np.isin(columns.phase, np.frombuffer(b"XBEstfiIRbneSTFCM", dtype=np.uint8))
    timeless = is_known_phase & ~columns.timed & (columns.phase != ord("M"))
    problems.add("skipped", int(timeless.sum()), "records that state no time")
    for code in np.unique(columns.phase[~is_known_phase]).tolist():
        phase_text = f"of phase {chr(code)!r}" if code else "without a phase"
        problems.add("skipped", int((columns.phase == code).sum()), f"records {phase_text}")


def _event_rows(
    columns: RankColumns,
    by_phase: dict[str, Rows],
    problems: Problems,
    pairs: tuple[Rows, Rows, Rows] | None,
) -> tuple[Rows, Ints, Codes, Rows]:
    """Return rows, durations and phases of complete and of paired events, and the rows of ends."""
    # The paired events come last, in the order of their ends.
    rows = by_phase["X"]
    dur = columns.dur_ns[rows]
    brackets = by_phase["BE"]
    if not len(brackets):
        return (
            rows,
            _clip_negative_durations(dur, problems),
            np.zeros(len(rows), np.uint8),
            brackets,
        )
    if pairs is None:
        thread = columns.pid[brackets].astype(np.int64) * len(columns.tids) + columns.tid[brackets]
        opens = columns.phase[brackets] == ord("B")
        matched = match_brackets(thread, columns.start_ns[brackets], opens)
        begin_rows, end_rows, alone = (brackets[rows] for rows in matched)
        stated = columns.name[end_rows] != columns.names.add("")
        crossing = stated & (columns.name[end_rows] != columns.name[begin_rows])
        problems.add(
            "overlap",
            int(crossing.sum()),
            "ends (E) that name another event than the begin (B) they close; paired by order",
        )
    else:
        begin_rows, end_rows, alone = pairs
    lost_begins = int((columns.phase[alone] == ord("B")).sum())
    problems.add("unpaired", lost_begins, "begin records (B) without an end")
    problems.add("unpaired", len(alone) - lost_begins, "end records (E) without a begin")
    # Pairs in the order of the file, as BytePS servers write them, may end before they begin.
    dur = np.concatenate((dur, columns.start_ns[end_rows] - columns.start_ns[begin_rows]))
    return (
        np.concatenate((rows, begin_rows)),
        _clip_negative_durations(dur, problems),
        np.concatenate((np.zeros(len(rows), np.uint8), np.ones(len(begin_rows), np.uint8))),
        end_rows,
    )


def _clip_negative_durations(dur: Ints, problems: Problems) -> Ints:
    negative = int((dur < 0).sum())
    problems.add("repaired", negative, "negative durations; taken as zero")
    return np.maximum(dur, 0) if negative else dur


#: Columns of `RankColumns` with an entry per record, and their types in the event table.
_BY_ROW: dict[str, type[np.generic] | None] = {
    "phase": None,
    "start_ns": np.int64,
    "dur_ns": None,
    "timed": None,
    "name": np.int32,
    "category": np.int16,
    "pid": np.int32,
    "tid": np.int32,
    "stream": np.int32,  # int64 if an id needs it
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
    """Gather the events in `rows`, and the metadata records and other `groups` of rows."""
    # Events get the columns of the event table, and pid and tid.
    rows_kept = np.concatenate((*groups, np.flatnonzero(columns.phase == ord("M"))))
    rows_kept.sort()
    wide = len(columns.categories) > np.iinfo(np.int16).max
    events: dict[str, Any] = {"dur_ns": dur, "phase": phase}
    others: dict[str, Any] = {}
    for name, dtype in _BY_ROW.items():
        values = getattr(columns, name)
        if dtype is not None:
            if name == "stream" or (name == "category" and wide):
                dtype = np.promote_types(values.dtype, np.int32).type  # noqa: PLW2901
            events[name] = values[rows].astype(dtype, copy=False)
        others[name] = values[rows_kept].astype(np.int64 if name == "record" else values.dtype)
        if consume:
            setattr(columns, name, values[:0].copy())
    scoped = np.fromiter(columns.scope, np.int64, len(columns.scope))
    places = np.searchsorted(rows_kept, scoped).tolist()
    at_next = columns.ends_at_next[np.isin(columns.ends_at_next, rows_kept)]
    gathered = replace(
        columns,
        **others,
        ends_at_next=np.searchsorted(rows_kept, at_next),
        scope=dict(zip(places, columns.scope.values(), strict=True)),
    )
    return events, gathered, tuple(np.searchsorted(rows_kept, rows) for rows in groups)


def _event_table(
    columns: RankColumns, events: dict[str, Any], problems: Problems, names: TrackNames | None
) -> tuple[EventTable, Bools, dict[tuple[int, int], int]]:
    start, category, pid, tid = events["start_ns"], events["category"], events["pid"], events["tid"]
    kind = taxonomy.kind_codes(
        category, events["name"], columns.categories.values, columns.names.values
    )
    of_device = np.array(
        [taxonomy.is_device_category(text) for text in columns.categories.values], dtype=bool
    )
    device = of_device[category] if len(of_device) else np.zeros(len(start), dtype=bool)
    works = device & np.isin(kind, [*_DEVICE_WORK_KINDS, _MEMORY])
    stream = device_streams(events["stream"], device, works, pid, tid, columns, problems)
    annotates = device & (kind == _ANNOTATION)
    mpi = [code for code, text in enumerate(columns.categories.values) if text == MPI_CATEGORY]
    calls_mpi = np.isin(category, mpi) & ~device.any()
    places = find_tracks(pid, tid, stream, device, annotates, calls_mpi, start, columns, names)
    lanes = assign_lanes(
        start, events["dur_ns"], places.track, len(places.tracks), columns.resolution_ns
    )
    problems.add(
        "overlap", lanes.overlaps, "events that overlap without nesting; drawn in extra lanes"
    )
    problems.add(
        "rounding",
        lanes.rounded,
        f"events that nest only within the times' resolution of {columns.resolution_ns} ns",
    )
    problems.add("overflow", lanes.too_deep, "events nested deeper than 32 767 levels")
    tracks = [
        replace(track, nested=int(nested), lanes=int(all_lanes))
        for track, nested, all_lanes in zip(places.tracks, lanes.nested, lanes.lanes, strict=True)
    ]
    del events["pid"], events["tid"]
    events |= {
        "kind": kind,
        "track": places.track,
        "depth": lanes.depth,
        "parent": lanes.parent,
        "stream": stream,
        "step": np.full(len(start), -1, dtype=np.int64),
    }
    table = EventTable(**events, names=columns.names, categories=columns.categories, tracks=tracks)
    return table, device, places.of_thread


def _end_records(columns: RankColumns, order: Rows, end_rows: Rows) -> dict[int, int]:
    if not len(end_rows):
        return {}
    paired_from = len(order) - len(end_rows)
    positions = np.flatnonzero(order >= paired_from)
    records = columns.record[end_rows[order[positions] - paired_from]]
    return dict(zip(positions.tolist(), records.tolist(), strict=True))
