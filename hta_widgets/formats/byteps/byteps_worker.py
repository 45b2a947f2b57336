"""BytePS workers' ``comm.json``: one file a GPU, one process a tensor, one thread a partition."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from hta_widgets.trace.build import build_trace
from hta_widgets.formats.byteps.byteps import PREFIX
from hta_widgets.formats.byteps.byteps import TOTAL
from hta_widgets.formats.byteps.byteps import WorkerRows
from hta_widgets.formats.byteps.byteps import nth_of_group
from hta_widgets.formats.byteps.byteps import stage_of
from hta_widgets.formats.byteps.byteps import worker_rows
from hta_widgets.trace.problems import Problems
from hta_widgets.trace.table import AsyncTable
from hta_widgets.trace.table import CounterTable
from hta_widgets.trace.table import RankColumns
from hta_widgets.trace.table import RecordSource
from hta_widgets.trace.trace import Trace
from hta_widgets.trace.tracks import Naming

from hta_widgets.formats.byteps.byteps_tracks import BYTEPS_WAIT
from hta_widgets.formats.byteps.byteps_tracks import in_flight
from hta_widgets.formats.byteps.byteps_tracks import named_tracks

__all__ = ["build_worker", "is_worker"]

Ints = npt.NDArray[np.int64]

#: What the files state since 2019-12; set where older ones do not.
_CATEGORY = "Comm"
_WAIT = "waiting for root"


def is_worker(columns: RankColumns) -> bool:
    """Whether nearly all complete events are of tensors, as none but BytePS names them."""
    complete = np.flatnonzero(columns.phase == ord("X"))
    if not len(complete):
        return False
    tensor = np.array([pid.startswith(PREFIX) for pid in columns.pids.values])
    # A broken record or two do not make a file another one.
    return int(tensor[columns.pid[complete]].sum()) > len(complete) // 2


def build_worker(
    rank: int | None,
    columns: RankColumns,
    metadata: dict[str, Any],
    source: RecordSource,
    path: str,
    problems: Problems,
) -> Trace:
    """Build the trace of one GPU of a worker.

    The records keep their names. What they lack is added: the step, counted from 0 in the file;
    on GPUs other than the root, how long a partition waits for the root to bring it back from
    the servers; and how many partitions are with the servers at a time.
    """
    blank = [code for code, text in enumerate(columns.categories.values) if not text]
    if blank:
        own = columns.categories.add(_CATEGORY)
        columns.category = np.where(np.isin(columns.category, blank), own, columns.category).astype(
            columns.category.dtype
        )
    trace = build_trace(
        columns,
        rank=0 if rank is None else rank,
        path=path,
        metadata=metadata,
        source=source,
        problems=problems,
        names=_naming(columns),
        format="byteps",
        stated_rank=rank,
    )
    table = trace.table
    table.tracks[:] = named_tracks(table.tracks)
    table.categories.add(BYTEPS_WAIT)
    table.step[:] = nth_of_group(table.track.astype(np.int64) * len(table.names) + table.name)
    rows = worker_rows(trace)
    trace.async_table = _waits(trace, rows)
    trace.counter_table = _counters(trace, rows)
    _note_problems(rows, rank, path, problems)
    trace.memo.clear()
    return trace


def _naming(columns: RankColumns) -> Naming:
    """Call tensors by their names, in the order of their declaration, and number partitions."""
    names = Naming()
    declared: dict[str, int] = {}
    threads = columns.pid.astype(np.int64) * max(len(columns.tids), 1) + columns.tid
    for code in np.unique(threads[columns.phase == ord("X")]).tolist():
        pid_code, tid_code = divmod(code, len(columns.tids))
        pid, tid = columns.pids[pid_code], columns.tids[tid_code]
        names.process[pid] = pid.removeprefix(PREFIX).removeprefix("byteps.")
        if tid == TOTAL:
            names.thread[pid, tid], names.thread_sort[pid, tid] = "whole", -1
        elif stage_of(pid, tid, f"{pid}.X") is not None:
            key = int(tid)
            names.thread[pid, tid] = f"partition {key & 0xFFFF}"
            names.thread_sort[pid, tid] = key & 0xFFFF
            declared[pid] = key >> 16
    last = max(declared.values(), default=0) + 1
    names.process_sort = {pid: declared.get(pid, last) for pid in names.process}
    return names


def _waits(trace: Trace, rows: WorkerRows) -> AsyncTable:
    """Return when partitions of a GPU that is not the root wait for the root's word."""
    table, parts = trace.table, rows.parts
    if "COPYH2D" not in rows.stages or rows.is_root:
        return trace.async_table
    copies = (parts.stage == rows.stages.index("COPYH2D")) & parts.complete & ~parts.first
    copies &= parts.queue_ns > 0
    at = np.flatnonzero(copies)
    at = at[np.argsort(parts.start_ns[at] - parts.queue_ns[at], kind="stable")]
    tracks = table.track[parts.row[at]]
    return AsyncTable(
        start_ns=parts.start_ns[at] - parts.queue_ns[at],
        dur_ns=parts.queue_ns[at],
        name=np.full(len(at), table.names.add(_WAIT), np.int32),
        category=np.full(len(at), table.categories.add(BYTEPS_WAIT), np.int32),
        async_id=[table.tracks[code].tid for code in tracks.tolist()],
        pid=[table.tracks[code].pid for code in tracks.tolist()],
        record=np.full(len(at), -1, np.int64),
    )


def _counters(trace: Trace, rows: WorkerRows) -> CounterTable:
    """Return how many partitions are in each of the stages that take long, at any time."""
    parts = rows.parts
    spans: list[tuple[str, Ints, Ints]] = []
    if rows.is_root:
        for name in ("PUSH", "PULL"):
            at = parts.stage == rows.stages.index(name)
            spans.append((name, parts.start_ns[at], parts.start_ns[at] + parts.dur_ns[at]))
    else:
        waits = trace.async_table
        spans.append((_WAIT, waits.start_ns, waits.start_ns + np.maximum(waits.dur_ns, 0)))
    return in_flight("partitions", spans, trace.counter_table)


def _note_problems(rows: WorkerRows, rank: int | None, path: str, problems: Problems) -> None:
    totals, parts = rows.totals, rows.parts
    problems.add("unpaired", int((totals.dur_ns == 0).sum()), "totals without an end", rank, path)
    if not len(totals.row):
        return
    steps = int(totals.step.max()) + 1
    groups = np.stack([parts.tensor, parts.key, parts.stage])
    counts = np.unique(groups, axis=1, return_counts=True)[1] if len(parts.row) else np.empty(0)
    problems.add(
        "truncated",
        int((counts < steps).sum()),
        f"stages of partitions that lack some of the {steps} steps",
        rank,
        path,
    )
    bare = set(range(len(rows.tensors))) - set(np.unique(parts.tensor).tolist())
    problems.add("truncated", len(bare), "tensors without any stage", rank, path)
