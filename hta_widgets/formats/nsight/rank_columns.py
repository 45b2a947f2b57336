"""The records of a rank: its events, ranges, marks, steps, and the names of its tracks."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from hta_widgets.formats.event_rows import (
    RowPlace,
    compact_texts,
    distinct_rows,
    naming_record,
    naming_records,
    rank_columns,
)
from hta_widgets.formats.nsight.recording import Recording
from hta_widgets.formats.nsight.steps import Steps
from hta_widgets.formats.nsight.tables import (
    ASYNC_BEGIN,
    ASYNC_END,
    CATEGORIES,
    MARK,
    NAME,
    STEP,
    UNIFIED_MEMORY,
    UNIFIED_THREAD,
    EventBlock,
    concatenate_blocks,
    id_in_system,
    thread_id,
)
from hta_widgets.trace.arrays import Codes, Ints
from hta_widgets.trace.columns import RankColumns, StringPool

_LAST_SORT = 1 << 30
_PHASES = {MARK: "i", ASYNC_BEGIN: "b", ASYNC_END: "e"}


class RankRows(NamedTuple):
    """The events of a rank: of its device, calls of its host, and NVTX ranges."""

    process: int
    device: int  # -1 for none
    work: EventBlock
    calls: EventBlock
    ranges: EventBlock


class RankRecords(NamedTuple):
    """The columns of a rank's records, and what `ExportRecords` makes them from.

    Attributes
    ----------
    columns : RankColumns
    kinds, rowids : array of int
        Of each record.
    named : list of dict
        Steps, and records that name tracks, by row id.
    """

    columns: RankColumns
    kinds: Codes
    rowids: Ints
    named: list[dict[str, Any]]


def build_columns(
    rank: RankRows, steps: Steps | None, names: StringPool, gpu: str, recording: Recording
) -> RankRecords:
    """Return a rank's records.

    Events of the device come first, in their order in `rank`, so that their numbers are known.
    """
    named: list[dict[str, Any]] = []
    parts = [rank.work, rank.calls]
    if steps is not None:
        ranges = rank.ranges if steps.ranges is None else steps.ranges
        parts.append(_step_events(ranges, steps, names, named))
    ends = rank.ranges.select(rank.ranges.kind == ASYNC_BEGIN)
    ends = replace(ends, kind=np.full(len(ends), ASYNC_END), start_ns=ends.end_ns)
    events = concatenate_blocks([*parts, rank.ranges, ends])
    threads, place = distinct_rows(np.minimum(events.device, 0), events.thread)
    places = [_place(rank.process, of, thread, gpu, recording) for of, thread in threads]
    naming = list(naming_records(places, events.device, place))
    naming += _unified_sorting(places, gpu)
    pool, lookup = compact_texts(events.name, names)
    columns = rank_columns(
        {**events.columns(), "name": lookup[events.name], "place": place},
        {"name": pool, "category": StringPool(CATEGORIES)},
        places,
        naming,
        recording.epoch_ns or 0,
    )
    _set_phases(columns, events)
    return RankRecords(
        columns,
        np.append(events.kind, np.full(len(naming), NAME)).astype(np.uint8),
        np.append(events.rowid, len(named) + np.arange(len(naming))),
        [*named, *naming],
    )


def _step_events(
    ranges: EventBlock, steps: Steps, names: StringPool, named: list[dict[str, Any]]
) -> EventBlock:
    ranges = ranges.take(steps.rows)
    pairs = zip(ranges.rowid.tolist(), steps.numbers.tolist(), strict=True)
    named += [{"row": row, "number": number} for row, number in pairs]
    return replace(
        ranges,
        kind=np.full(len(ranges), STEP),
        rowid=np.arange(len(ranges)),
        name=np.array([names.add(f"ProfilerStep#{n}") for n in steps.numbers.tolist()], np.int64),
        category=np.full(len(ranges), CATEGORIES.index("user_annotation")),
    )


def _place(process: int, device: int, thread: int, gpu: str, recording: Recording) -> RowPlace:
    process_name = recording.processes.get(process, "")
    text = str(thread_id(thread))
    if device >= 0:
        thread_name = text if thread == UNIFIED_THREAD else ""
        return RowPlace(gpu, text, process_name or gpu, thread_name)
    name = recording.threads.get((process, thread))
    thread_name = f"thread {thread} ({name})" if name else ""
    return RowPlace(str(id_in_system(process)), text, process_name, thread_name)


def _unified_sorting(places: list[RowPlace], gpu: str) -> Iterator[dict[str, Any]]:
    if any(place.tid == UNIFIED_MEMORY for place in places):
        yield naming_record(gpu, UNIFIED_MEMORY, "thread_sort_index", sort_index=_LAST_SORT)


def _set_phases(columns: RankColumns, events: EventBlock) -> None:
    """Make instants of marks, and begins and ends of ranges that do not nest."""
    for kind, phase in _PHASES.items():
        rows = np.flatnonzero(events.kind == kind)
        columns.phase[rows], columns.dur_ns[rows] = ord(phase), -1
    rows = np.flatnonzero(np.isin(events.kind, (ASYNC_BEGIN, ASYNC_END)))
    numbers, columns.flow[rows] = np.unique(events.rowid[rows], return_inverse=True)
    for number in numbers.tolist():
        columns.flow_ids.add(str(number))
