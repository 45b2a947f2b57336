"""The columns of a rank: its events, ranges, marks, steps, and the names of its tracks."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields
from typing import Any, NamedTuple

import numpy as np

from hta_widgets.formats.event_rows import compact_texts, copy_table, naming_record
from hta_widgets.formats.nsight.nvtx import NvtxRows
from hta_widgets.formats.nsight.recording import Recording
from hta_widgets.formats.nsight.records import ASYNC_BEGIN, ASYNC_END, MARK, NAME, RANGE, STEP
from hta_widgets.formats.nsight.steps import Steps
from hta_widgets.formats.nsight.tables import (
    CATEGORIES,
    UNIFIED_MEMORY,
    EventBlock,
    category_code,
    concatenate_blocks,
    id_in_system,
)
from hta_widgets.trace.arrays import Codes, Ints, Rows
from hta_widgets.trace.columns import CopyTable, RankColumns, StringPool

_M = ord("M")
_LAST_SORT = 1 << 30


@dataclass(frozen=True, slots=True)
class RankRows:
    """The events of a rank: of its device (-1 for none), calls of its host, and NVTX ranges."""

    process: int
    device: int
    device_events: EventBlock
    calls: EventBlock
    ranges: NvtxRows


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


_HOST, _DEVICE = 0, 1
#: The thread of copies of managed memory, in place of their stream.
_UNIFIED_TID = -2


@dataclass(slots=True, kw_only=True)
class _Part:
    """Columns of some records; all of one phase."""

    phase: Ints
    kind: Ints
    rowid: Ints
    start_ns: Ints
    dur_ns: Ints
    name: Ints  # codes into the names of the file
    category: Ints
    pid: Ints  # `_HOST` or `_DEVICE`
    tid: Ints  # number of a thread or stream
    stream: Ints
    correlation: Ints
    flow: Ints  # row id of an asynchronous range


def _part(phase: str, rowid: Ints, **columns: Ints | int) -> _Part:
    """Return a part; a number stands for a column that has it everywhere."""
    columns = {
        "phase": ord(phase), "dur_ns": -1, "category": 0, "pid": _HOST, "stream": -1,
        "correlation": -1, "flow": -1, "rowid": rowid, **columns,
    }  # fmt: skip
    filled: dict[str, Any] = {
        name: np.full(len(rowid), value, np.int32) if isinstance(value, int) else value
        for name, value in columns.items()
    }
    return _Part(**filled)


def build_columns(
    rank: RankRows, steps: Steps | None, names: StringPool, gpu: str, recording: Recording
) -> RankRecords:
    """Return a rank's records.

    Events of the device come first, in their order in `rank`, so that their numbers are known.
    """
    named: list[dict[str, Any]] = []
    parts = [_events_part(rank)]
    if steps is not None:
        parts.append(_steps_part(rank.ranges, steps, names, named))
    parts += _ranges_parts(rank.ranges)
    tids = np.unique(np.concatenate([part.tid for part in parts])).tolist()
    naming = _naming_records(rank, gpu, recording, tids)
    parts.append(_naming_part(naming, names, gpu, len(named)))
    joined = _join(parts)
    parts.clear()
    tid_numbers, tid = np.unique(joined.tid, return_inverse=True)
    pool, lookup = compact_texts(joined.name, names)
    is_flow = joined.flow >= 0
    flow_numbers, joined.flow[is_flow] = np.unique(joined.flow[is_flow], return_inverse=True)
    timed = joined.phase != _M
    first_name = len(timed) - len(naming)
    columns = RankColumns(
        phase=joined.phase.astype(np.uint8),
        start_ns=joined.start_ns + (recording.epoch_ns or 0) * timed,
        dur_ns=joined.dur_ns,
        timed=timed,
        name=lookup[joined.name].astype(np.int32),
        category=joined.category.astype(np.int32, copy=False),
        pid=joined.pid.astype(np.int32, copy=False),
        tid=tid.astype(np.int32),
        stream=joined.stream,
        correlation=joined.correlation,
        flow=joined.flow.astype(np.int32),
        names=pool,
        categories=StringPool(CATEGORIES),
        pids=StringPool((str(id_in_system(rank.process)), gpu)),
        tids=StringPool(map(_tid_text, tid_numbers.tolist())),
        flow_ids=StringPool(map(str, flow_numbers.tolist())),
        small_args={first_name + place: record["args"] for place, record in enumerate(naming)},
        record=np.arange(len(timed), dtype=np.int64),
        copies=_copies(rank.device_events),
    )
    return RankRecords(columns, joined.kind.astype(np.uint8), joined.rowid, [*named, *naming])


def _join(parts: Iterable[_Part]) -> _Part:
    filled = [part for part in parts if len(part.rowid)]
    return _Part(
        **{
            column.name: np.concatenate([getattr(part, column.name) for part in filled])
            for column in fields(_Part)
        }
    )


def _tid_text(number: int) -> str:
    return UNIFIED_MEMORY if number == _UNIFIED_TID else str(number)


def _events_part(rank: RankRows) -> _Part:
    events = concatenate_blocks([rank.device_events, rank.calls])
    on_host = events.device < 0
    return _part(
        "X", events.rowid, kind=events.table, start_ns=events.start_ns,
        dur_ns=events.end_ns - events.start_ns, name=events.name, category=events.category,
        pid=np.where(on_host, np.int32(_HOST), np.int32(_DEVICE)),
        tid=np.where(
            on_host, events.thread, np.where(events.is_unified, _UNIFIED_TID, events.stream)
        ),
        stream=events.stream, correlation=events.correlation,
    )  # fmt: skip


def _steps_part(
    ranges: NvtxRows, steps: Steps, names: StringPool, named: list[dict[str, Any]]
) -> _Part:
    rows = steps.rows
    pairs = zip(ranges.rowid[rows].tolist(), steps.numbers.tolist(), strict=True)
    named += [{"row": row, "number": number} for row, number in pairs]
    codes = [names.add(f"ProfilerStep#{number}") for number in steps.numbers.tolist()]
    start_ns = ranges.start_ns[rows]
    return _part(
        "X", np.arange(len(rows)), kind=STEP, start_ns=start_ns,
        dur_ns=ranges.end_ns[rows] - start_ns, name=np.array(codes, np.int64),
        category=category_code("user_annotation"), tid=ranges.thread[rows],
    )  # fmt: skip


def _ranges_parts(ranges: NvtxRows) -> list[_Part]:
    """Return ranges that nest, marks, and the begins and ends of ranges that do not."""

    def part(kind: int, phase: str, rows: Rows, **columns: Ints) -> _Part:
        columns.setdefault("start_ns", ranges.start_ns[rows])
        return _part(
            phase, ranges.rowid[rows], kind=kind, name=ranges.name[rows],
            category=ranges.category[rows], tid=ranges.thread[rows], **columns,
        )  # fmt: skip

    nested = np.flatnonzero(~ranges.is_mark & ~ranges.is_async)
    asyncs = np.flatnonzero(ranges.is_async)
    flow = ranges.rowid[asyncs]
    return [
        part(RANGE, "X", nested, dur_ns=ranges.end_ns[nested] - ranges.start_ns[nested]),
        part(MARK, "i", np.flatnonzero(ranges.is_mark)),
        part(ASYNC_BEGIN, "b", asyncs, flow=flow),
        part(ASYNC_END, "e", asyncs, flow=flow, start_ns=ranges.end_ns[asyncs]),
    ]


def _naming_part(
    records: list[dict[str, Any]], names: StringPool, gpu: str, first_row: int
) -> _Part:
    tids = [_UNIFIED_TID if r["tid"] == UNIFIED_MEMORY else r["tid"] for r in records]
    return _part(
        "M", first_row + np.arange(len(records)), kind=NAME, start_ns=0,
        name=np.array([names.add(record["name"]) for record in records], np.int64),
        pid=np.array([_DEVICE if record["pid"] == gpu else _HOST for record in records], np.int64),
        tid=np.array(tids, np.int64),
    )  # fmt: skip


def _naming_records(
    rank: RankRows, gpu: str, recording: Recording, tids: list[int]
) -> list[dict[str, Any]]:
    """Return the records that name the rank's processes, and its threads and streams."""
    pid = id_in_system(rank.process)
    process = recording.processes.get(rank.process, "")
    records = [naming_record(pid, 0, "process_name", name=process)] if process else []
    if rank.device >= 0:
        records.append(naming_record(gpu, 0, "process_name", name=process or gpu))
        records.append(naming_record(gpu, 0, "process_labels", labels=gpu))
        if _UNIFIED_TID in tids:
            last = {"sort_index": _LAST_SORT}
            records.append(naming_record(gpu, UNIFIED_MEMORY, "thread_name", name=UNIFIED_MEMORY))
            records.append(naming_record(gpu, UNIFIED_MEMORY, "thread_sort_index", **last))
    for tid in tids:
        name = recording.threads.get((rank.process, tid))
        if name:
            records.append(naming_record(pid, tid, "thread_name", name=f"thread {tid} ({name})"))
    return records


def _copies(work: EventBlock) -> CopyTable:
    """Return sizes and rates of copies and fills; record numbers are positions in `work`."""
    rows = np.flatnonzero(work.size_bytes >= 0)
    return copy_table(rows, work.size_bytes[rows], (work.end_ns - work.start_ns)[rows])
