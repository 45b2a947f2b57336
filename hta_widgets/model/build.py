"""From the decoded records of one file to a `Trace`."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from hta_widgets import taxonomy

from . import side_tables
from .flows import Finder, flow_table
from .lanes import assign_lanes
from .links import launch_links
from .mpi_names import MPI_CATEGORY
from .ordering import event_order
from .pairs import match_brackets
from .problems import Problems
from .steps import assign_steps
from .table import EventTable, RankColumns, RecordSource
from .trace import Trace
from .tracks import Naming, device_streams, find_tracks

__all__ = ["build_trace"]

Ints = npt.NDArray[np.int64]
Rows = npt.NDArray[np.intp]

_ANNOTATION = taxonomy.KINDS.index("annotation")


def build_trace(
    columns: RankColumns,
    *,
    rank: int,
    path: str,
    metadata: dict[str, Any],
    source: RecordSource | None,
    problems: Problems,
    pairs: tuple[Rows, Rows, Rows] | None = None,
    names: Naming | None = None,
    **about: Any,
) -> Trace:
    """Sort, place, classify and link the records of one file.

    Parameters
    ----------
    columns : RankColumns
        The decoded records, in file order.
    rank : int
        Key of the trace in its set.
    path : str
        The file.
    metadata : dict
        The file's top-level keys.
    source : RecordSource or None
        Gives back the file's own bytes.
    problems : Problems
        Takes what had to be repaired or could not be used, for `rank` and `path`.
    pairs : tuple of three arrays of int, optional
        Rows of begins, of their ends, and of begins and ends left alone, where the reader knows
        better than the stack of a thread which belong together.
    names : Naming, optional
        What processes and threads are called, where no metadata records say so.
    **about
        Further fields of `Trace`: ``format, stated_rank, job, host, worker, local_rank, server``.
    """
    found = Problems()
    by_phase = _by_phase(columns, found)
    rows, dur, phase, end_rows = _event_rows(columns, by_phase, found, pairs)
    flow_rows = by_phase["stf"]
    instant_rows = np.sort(np.concatenate((by_phase["iIR"], by_phase["X without dur"])))
    async_rows, counter_rows = by_phase["bneSTF"], by_phase["C"]

    zero_ns = _zero(columns, (rows, instant_rows, async_rows, counter_rows))
    order = event_order(columns.start_ns[rows] - zero_ns, dur)
    rows, dur, phase = rows[order], dur[order], phase[order]
    table, device, of_thread = _table(columns, rows, dur, phase, zero_ns, found, names)
    if len(end_rows):
        table.end_record = _end_records(columns, order, end_rows)

    launches = launch_links(table.start_ns, table.name, table.names, device, table.correlation)
    table.step = assign_steps(
        table.start_ns, table.end_ns, table.name, table.names, device, launches
    )
    finder = Finder(table, of_thread, zero_ns)
    trace = Trace(
        rank=rank,
        path=path,
        metadata=metadata,
        flow_table=flow_table(columns, flow_rows, table, finder, launches, found),
        counter_table=side_tables.counters(columns, counter_rows, zero_ns, found),
        instant_table=side_tables.instants(columns, instant_rows, zero_ns),
        async_table=side_tables.asyncs(columns, async_rows, zero_ns, found),
        zero_ns=zero_ns,
        source=source,
        resolution_ns=columns.resolution_ns,
        copy_table=columns.copies,
        _table=table,
        _rules_version=taxonomy.version(),
        **about,
    )
    for problem in found:
        problems.add(problem.kind, problem.count, problem.detail, rank, path)
    return trace


def _by_phase(columns: RankColumns, problems: Problems) -> dict[str, Rows]:
    """Return the rows of each group of phases that has a time; count what has no place."""
    phase, timed = columns.phase, columns.timed
    counts = np.bincount(phase, minlength=256)
    groups = {}
    for letters in ("X", "BE", "stf", "iIR", "bneSTF", "C"):
        codes = [ord(letter) for letter in letters if counts[ord(letter)]]
        if not codes:
            groups[letters] = np.empty(0, dtype=np.intp)
            continue
        member = timed & (phase == codes[0])
        for code in codes[1:]:
            member |= timed & (phase == code)
        groups[letters] = np.flatnonzero(member)
    complete = groups["X"]
    if len(complete):
        stated = columns.dur_ns[complete] != -1
        groups["X"] = complete if stated.all() else complete[stated]
        groups["X without dur"] = complete[~stated]
    else:
        groups["X without dur"] = complete
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
    known = np.isin(columns.phase, np.frombuffer(b"XBEstfiIRbneSTFCM", dtype=np.uint8))
    timeless = known & ~columns.timed & (columns.phase != ord("M"))
    problems.add("skipped", int(timeless.sum()), "records that state no time")
    for code in np.unique(columns.phase[~known]).tolist():
        what = f"of phase {chr(code)!r}" if code else "without a phase"
        problems.add("skipped", int((columns.phase == code).sum()), f"records {what}")


def _event_rows(
    columns: RankColumns,
    by_phase: dict[str, Rows],
    problems: Problems,
    pairs: tuple[Rows, Rows, Rows] | None,
) -> tuple[Rows, Ints, npt.NDArray[np.uint8], Rows]:
    """Return rows, durations and phases of complete and of paired events, and the rows of ends.

    The paired events come last, in the order of their ends.
    """
    rows = by_phase["X"]
    dur = columns.dur_ns[rows]
    negative = dur < 0
    if negative.any():
        problems.add("repaired", int(negative.sum()), "negative durations; taken as zero")
        dur = np.maximum(dur, 0)
    brackets = by_phase["BE"]
    if not len(brackets):
        return rows, dur, np.zeros(len(rows), np.uint8), brackets
    if pairs is None:
        thread = columns.pid[brackets].astype(np.int64) * len(columns.tids) + columns.tid[brackets]
        opens = columns.phase[brackets] == ord("B")
        matched = match_brackets(thread, columns.start_ns[brackets], opens)
        begin_rows, end_rows, alone = (brackets[rows] for rows in matched)
    else:
        begin_rows, end_rows, alone = pairs
    lost_begins = int((columns.phase[alone] == ord("B")).sum())
    problems.add("unpaired", lost_begins, "begin records (B) without an end")
    problems.add("unpaired", len(alone) - lost_begins, "end records (E) without a begin")
    return (
        np.concatenate((rows, begin_rows)),
        np.concatenate((dur, columns.start_ns[end_rows] - columns.start_ns[begin_rows])),
        np.concatenate((np.zeros(len(rows), np.uint8), np.ones(len(begin_rows), np.uint8))),
        end_rows,
    )


def _zero(columns: RankColumns, rows_by_rank: tuple[Rows, ...]) -> int:
    """Return the earliest event's time: of complete ones, or of what there is without them."""
    for rows in rows_by_rank:
        if len(rows):
            return int(columns.start_ns[rows].min())
    return 0


def _table(
    columns: RankColumns,
    rows: Rows,
    dur: Ints,
    phase: npt.NDArray[np.uint8],
    zero_ns: int,
    problems: Problems,
    names: Naming | None,
) -> tuple[EventTable, npt.NDArray[np.bool_], dict[tuple[int, int], int]]:
    start = columns.start_ns[rows] - zero_ns
    name, category = columns.name[rows], columns.category[rows]
    pid, tid = columns.pid[rows], columns.tid[rows]
    kind = taxonomy.kind_codes(category, name, columns.categories.values, columns.names.values)
    of_device = np.array(
        [taxonomy.is_device_category(text) for text in columns.categories.values], dtype=bool
    )
    device = of_device[category] if len(of_device) else np.zeros(len(rows), dtype=bool)
    stream = device_streams(columns.stream[rows], device, pid, tid, columns)
    annotates = device & (kind == _ANNOTATION)
    calls_mpi = _is_of(MPI_CATEGORY, category, columns)
    places = find_tracks(pid, tid, stream, device, annotates, calls_mpi, start, columns, names)
    lanes = assign_lanes(start, dur, places.track, len(places.tracks), columns.resolution_ns)
    problems.add("overlap", lanes.overlaps, "events that overlap without nesting; in spill lanes")
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
    table = EventTable(
        start_ns=start,
        dur_ns=dur,
        name=name,
        category=side_tables.category_codes(columns, rows),
        kind=kind,
        track=places.track,
        depth=lanes.depth,
        parent=lanes.parent,
        stream=stream,
        correlation=columns.correlation[rows],
        step=np.full(len(rows), -1, dtype=np.int64),
        phase=phase,
        record=columns.record[rows],
        names=columns.names,
        categories=columns.categories,
        tracks=tracks,
    )
    return table, device, places.of_thread


def _is_of(
    wanted: str, category: npt.NDArray[np.int32], columns: RankColumns
) -> npt.NDArray[np.bool_]:
    if wanted not in columns.categories.values:
        return np.zeros(len(category), dtype=bool)
    found: npt.NDArray[np.bool_] = category == columns.categories.values.index(wanted)
    return found


def _end_records(columns: RankColumns, order: Rows, end_rows: Rows) -> dict[int, int]:
    paired_from = len(order) - len(end_rows)
    at = np.flatnonzero(order >= paired_from)
    records = columns.record[end_rows[order[at] - paired_from]]
    return dict(zip(at.tolist(), records.tolist(), strict=True))
