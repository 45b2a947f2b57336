"""The columns of a rank: its events, ranges, marks, steps, and the names of its tracks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

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


@dataclass(slots=True)
class _Part:
    """Columns of some records of one kind."""

    kind: Ints
    rowid: Ints
    phase: int
    start_ns: Ints
    dur_ns: Ints
    name: Ints
    category: Ints
    thread: Ints  # -1 for events of the device
    stream: Ints
    correlation: Ints
    flow: Ints

    def __len__(self) -> int:
        return len(self.start_ns)


def _part(
    kind: int | Ints,
    rowid: Ints,
    phase: str,
    start_ns: Ints,
    dur_ns: Ints,
    name: Ints,
    category: Ints,
    thread: Ints,
    **further: Ints,
) -> _Part:
    nothing = np.full(len(start_ns), -1, np.int64)
    columns = {"stream": nothing, "correlation": nothing, "flow": nothing, **further}
    kinds = np.full(len(start_ns), kind) if isinstance(kind, int) else kind
    return _Part(kinds, rowid, ord(phase), start_ns, dur_ns, name, category, thread, **columns)


def build_columns(
    rank: RankRows,
    steps: Steps | None,
    names: StringPool,
    gpu: str,
    recording: Recording,
    epoch_ns: int,
) -> tuple[RankColumns, Codes, Ints, list[dict[str, Any]]]:
    """Return a rank's columns, the kinds and row ids of its records, and records with names.

    Events of the device come first, in their order in `rank`, so that their numbers are known.
    """
    pool = StringPool()
    work = rank.device_events
    events = concatenate_blocks([work, rank.calls])
    parts = [
        _part(
            events.table, events.rowid, "X", events.start_ns, events.end_ns - events.start_ns,
            events.name, events.category, events.thread, stream=events.stream,
            correlation=events.correlation,
        )
    ]  # fmt: skip
    named: list[dict[str, Any]] = []
    if steps is not None:
        parts.append(_steps_part(rank.ranges, steps, names, named))
    parts += _ranges_parts(rank.ranges)
    tids, tid = _tids(parts, work)
    metadata = _naming_records(rank, gpu, recording, tids.values)
    count = sum(map(len, parts))
    extra = len(metadata)
    lookup = _compact_names(parts, names, pool)

    def column(name: str, fill: int) -> Ints:
        return np.concatenate([*(getattr(part, name) for part in parts), np.full(extra, fill)])

    timed = np.arange(count + extra) < count
    name_column = np.concatenate(
        [lookup[column("name", 0)[:count]], [pool.add(record["name"]) for record in metadata]]
    )
    flow = column("flow", -1)
    ranges = np.flatnonzero(flow >= 0)
    flow_ids = StringPool(str(number) for number in np.unique(flow[ranges]).tolist())
    flow[ranges] = np.unique(flow[ranges], return_inverse=True)[1]
    is_host = np.append(column("thread", 0)[:count] >= 0, [r["pid"] != gpu for r in metadata])
    columns = RankColumns(
        phase=np.concatenate(
            [*(np.full(len(part), part.phase) for part in parts), np.full(extra, _M)]
        ).astype(np.uint8),
        start_ns=column("start_ns", 0) + epoch_ns * timed,
        dur_ns=column("dur_ns", -1),
        timed=timed,
        name=name_column.astype(np.int32),
        category=column("category", 0).astype(np.int32),
        pid=np.where(is_host, 0, 1).astype(np.int32),
        tid=np.append(tid, [tids.add(str(record["tid"])) for record in metadata]).astype(np.int32),
        stream=column("stream", -1),
        correlation=column("correlation", -1),
        flow=flow.astype(np.int32),
        names=pool,
        categories=StringPool(CATEGORIES),
        pids=StringPool((str(id_in_system(rank.process)), gpu)),
        tids=tids,
        flow_ids=flow_ids,
        small_args={count + place: record["args"] for place, record in enumerate(metadata)},
        record=np.arange(count + extra, dtype=np.int64),
        copies=_copies(work),
    )
    kinds = column("kind", NAME).astype(np.uint8)
    first_name = len(named)
    rowids = column("rowid", 0)
    rowids[count:] = first_name + np.arange(extra)
    return columns, kinds, rowids, [*named, *metadata]


def _steps_part(
    ranges: NvtxRows, steps: Steps, names: StringPool, named: list[dict[str, Any]]
) -> _Part:
    rows = steps.rows
    pairs = zip(ranges.rowid[rows].tolist(), steps.numbers.tolist(), strict=True)
    named += [{"row": row, "number": number} for row, number in pairs]
    codes = [names.add(f"ProfilerStep#{number}") for number in steps.numbers.tolist()]
    start_ns = ranges.start_ns[rows]
    return _part(
        STEP, np.arange(len(rows)), "X", start_ns, ranges.end_ns[rows] - start_ns,
        np.array(codes, np.int64), np.full(len(rows), category_code("user_annotation")),
        ranges.thread[rows],
    )  # fmt: skip


def _ranges_parts(ranges: NvtxRows) -> list[_Part]:
    """Return ranges that nest, marks, and the begins and ends of ranges that do not."""

    def part(kind: int, phase: str, rows: Rows) -> _Part:
        start_ns, end_ns = ranges.start_ns[rows], ranges.end_ns[rows]
        is_end, is_range = phase == "e", phase == "X"
        nothing = np.full(len(rows), -1, np.int64)
        return _part(
            kind, ranges.rowid[rows], phase, end_ns if is_end else start_ns,
            end_ns - start_ns if is_range else nothing, ranges.name[rows], ranges.category[rows],
            ranges.thread[rows], flow=ranges.rowid[rows] if phase in "be" else nothing,
        )  # fmt: skip

    marks, asyncs = ranges.is_mark, np.flatnonzero(ranges.is_async)
    return [
        part(RANGE, "X", np.flatnonzero(~marks & ~ranges.is_async)),
        part(MARK, "i", np.flatnonzero(marks)),
        part(ASYNC_BEGIN, "b", asyncs),
        part(ASYNC_END, "e", asyncs),
    ]


def _tids(parts: list[_Part], work: EventBlock) -> tuple[StringPool, Ints]:
    """Return the ids of threads and streams, and their codes for each record."""
    thread = np.concatenate([part.thread for part in parts])
    stream = np.concatenate([part.stream for part in parts])
    unified = np.zeros(len(thread), bool)
    unified[: len(work)] = work.is_unified
    numbers = np.where(thread >= 0, thread, stream)
    distinct, codes = np.unique(numbers, return_inverse=True)
    pool = StringPool(map(str, distinct.tolist()))
    codes = codes.astype(np.int64)
    if unified.any():
        codes[unified] = pool.add(UNIFIED_MEMORY)
    return pool, codes


def _compact_names(parts: list[_Part], names: StringPool, pool: StringPool) -> Ints:
    """Add the names that a rank uses to its pool; return its code for each code of the file's."""
    used = np.unique(np.concatenate([part.name for part in parts]))
    lookup = np.zeros(len(names), np.int64)
    lookup[used] = [pool.add(names[code]) for code in used.tolist()]
    return lookup


def _naming_records(
    rank: RankRows, gpu: str, recording: Recording, tids: list[str]
) -> list[dict[str, Any]]:
    """Return the records that name the rank's processes, and its threads and streams."""
    pid = id_in_system(rank.process)
    process = recording.processes.get(rank.process, "")
    records = [_naming(pid, 0, "process_name", name=process)] if process else []
    if rank.device >= 0:
        records.append(_naming(gpu, 0, "process_name", name=process or gpu))
        records.append(_naming(gpu, 0, "process_labels", labels=gpu))
        if UNIFIED_MEMORY in tids:
            last = {"sort_index": _LAST_SORT}
            records.append(_naming(gpu, UNIFIED_MEMORY, "thread_name", name=UNIFIED_MEMORY))
            records.append(_naming(gpu, UNIFIED_MEMORY, "thread_sort_index", **last))
    for tid in filter(str.isdecimal, tids):
        name = recording.threads.get((rank.process, int(tid)))
        if name:
            records.append(_naming(pid, int(tid), "thread_name", name=f"thread {tid} ({name})"))
    return records


def _naming(pid: int | str, tid: int | str, what: str, **args: str | int) -> dict[str, Any]:
    return {"ph": "M", "name": what, "pid": pid, "tid": tid, "args": args}


def _copies(work: EventBlock) -> CopyTable:
    """Return sizes and rates of copies and fills; record numbers are positions in `work`."""
    rows = np.flatnonzero(work.size_bytes >= 0)
    size, dur_ns = work.size_bytes[rows], work.end_ns[rows] - work.start_ns[rows]
    with np.errstate(divide="ignore", invalid="ignore"):
        rate = np.where(dur_ns > 0, size / dur_ns, np.nan)
    return CopyTable(record=rows.astype(np.int64), gb_per_s=rate, size_bytes=size)
