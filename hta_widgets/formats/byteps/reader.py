"""Comm.json and server_profile.json."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import PurePath
from typing import Any

import numpy as np
import numpy.typing as npt

from hta_widgets.formats.byteps.rows import (
    PREFIX,
    REQUEST,
    TOTAL,
    Requests,
    WorkerRows,
    is_key,
    last_push_end,
    node_label,
    nth_of_group,
    requests_of,
    servers_of_keys,
    stage_of,
    worker_rows,
)
from hta_widgets.readers.discovery import natural_key
from hta_widgets.trace.build import build_trace
from hta_widgets.trace.columns import (
    AsyncTable,
    CounterTable,
    RankColumns,
    RecordSource,
    Track,
)
from hta_widgets.trace.names import IDENTITY, MARK
from hta_widgets.trace.problems import Problems
from hta_widgets.trace.trace import Trace
from hta_widgets.trace.tracks import Naming

_MACHINE = re.compile(r"(?i)(worker|host|node|machine|server)s?[-_. ]?\d+")
_NUMBERED = re.compile(r"(?i)(?:worker|server)[-_. ]?(\d{1,5})")
_EMPTY_NAME = {True: "comm.json", False: "server_profile.json"}


def place_workers(traces: Sequence[Trace], problems: Problems) -> list[Trace]:
    """Assign numbers to workers and their GPUs, and sort by both.

    A GPU's folder is called after its local rank. What holds these folders is a worker; workers
    count in natural order of their folders, those whose files are empty included.
    """
    told = [trace for trace in traces if _identity(trace)]
    others = [trace for trace in traces if not _identity(trace)]
    empty = _empty(problems, worker=True)
    folders = [_worker_folder(path) for path in (*(t.path for t in others), *empty)]
    numbers = _numbers(folders)
    placed = [trace.replace(**_identity(trace)) for trace in told]
    taken: dict[tuple[str | None, int], set[int]] = {}
    for trace in others:
        folder = _worker_folder(trace.path)
        job, worker = numbers[folder]
        local_rank = _local_rank(trace.path)
        used = taken.setdefault((job, worker), set())
        if local_rank is None or local_rank in used:
            stated, local_rank = local_rank, next(n for n in range(len(used) + 1) if n not in used)
            if stated is not None:
                problems.add(
                    "duplicate_rank",
                    1,
                    f"is of local rank {stated}, as another file is; kept as {local_rank}",
                    file=trace.path,
                )
        used.add(local_rank)
        placed.append(trace.replace(job=job, worker=worker, local_rank=local_rank))
    return sorted(placed, key=lambda trace: (trace.job or "", trace.worker, trace.local_rank))


def place_servers(traces: Sequence[Trace], problems: Problems) -> list[Trace]:
    """Assign numbers to servers in natural order of their files, empty files included."""
    told = [trace.replace(**_identity(trace)) for trace in traces if _identity(trace)]
    others = [trace for trace in traces if not _identity(trace)]
    numbers = _numbers([*(t.path for t in others), *_empty(problems, worker=False)])
    placed = told
    for trace in others:
        job, server = numbers[trace.path]
        placed.append(trace.replace(job=job, server=server))
    for job in {trace.job for trace in placed}:
        _name_keys([trace for trace in placed if trace.job == job])
    return sorted(placed, key=lambda trace: (trace.job or "", trace.server))


def _name_keys(servers: Sequence[Trace]) -> None:
    """Say on the tracks which tensor and partition a key is, which all servers' keys tell."""
    keys = [
        np.array(sorted({int(t.pid) for t in trace.tracks if is_key(t.pid)}), np.uint64)
        for trace in servers
    ]
    for trace, meaning in zip(servers, servers_of_keys(keys)[1], strict=True):
        for at, track in enumerate(trace.tracks):
            raw = meaning.get(int(track.pid) if is_key(track.pid) else -1, (0, -1))[1]
            if raw >= 0 and track.label.startswith("node "):
                label = f"{raw >> 16}:{raw & 0xFFFF} · {track.label.partition(' (')[0]}"
                trace.tracks[at] = replace(track, label=label)


def _identity(trace: Trace) -> dict[str, Any]:
    """Return what a file that we exported says of itself."""
    mark = trace.metadata.get(MARK)
    told = mark.get(IDENTITY) if isinstance(mark, dict) else None
    if not isinstance(told, dict):
        return {}
    numbers = {
        name: told[name]
        for name in ("worker", "local_rank", "server")
        if isinstance(told.get(name), int) and told[name] >= 0
    }
    job = told.get("job")
    return {**numbers, **({"job": job} if isinstance(job, str) else {})}


def _empty(problems: Problems, *, worker: bool) -> list[str]:
    return [
        problem.file
        for problem in problems
        if problem.kind == "empty"
        and problem.file
        and PurePath(problem.file).name == _EMPTY_NAME[worker]
    ]


def _local_rank(path: str) -> int | None:
    folder = PurePath(path).parent.name
    return int(folder) if folder.isdecimal() and len(folder) < 6 else None


def _worker_folder(path: str) -> str:
    folder = PurePath(path).parent
    return str(folder.parent) if _local_rank(path) is not None else str(folder)


def _numbers(paths: Sequence[str]) -> dict[str, tuple[str | None, int]]:
    """Return job and number of each path.

    Workers and servers that are numbered by their folders keep these numbers; others count in
    natural order within a job.
    """
    ordered = sorted(set(paths), key=natural_key)
    folders = {_job(path) for path in ordered}
    names = {folder: folder and PurePath(folder).name for folder in folders}
    if len(set(names.values())) < len(folders):
        names = {folder: folder for folder in folders}
    numbers: dict[str, tuple[str | None, int]] = {}
    count: dict[str | None, int] = {}
    for path in ordered:
        folder = _job(path)
        numbers[path] = (names[folder] or None, count.get(folder, 0))
        count[folder] = count.get(folder, 0) + 1
    stated = {path: _stated(path) for path in ordered}
    for folder in folders:
        own = {path: stated[path] for path in ordered if _job(path) == folder}
        if None not in own.values() and len(set(own.values())) == len(own):
            numbers |= {
                path: (numbers[path][0], number)
                for path, number in own.items()
                if number is not None
            }
    return numbers


def _stated(path: str) -> int | None:
    """Return the number of the worker or server in whose folder a path is."""
    found = [match for part in PurePath(path).parts if (match := _NUMBERED.fullmatch(part))]
    return int(found[-1][1]) if found else None


def _job(path: str) -> str | None:
    """Return the folder that the machines' folders are in."""
    parts = PurePath(path).parts
    at = [place for place, part in enumerate(parts) if _MACHINE.fullmatch(part)]
    return str(PurePath(*parts[: at[0]])) if at and at[0] else None


Ints = npt.NDArray[np.int64]

#: Category of the waits that no record states, but that follow from those around them.
BYTEPS_WAIT = "waiting"


def named_tracks(tracks: Sequence[Track]) -> list[Track]:
    """Return tracks that are called what they are, not taken for threads of a program."""
    return [replace(track, role="other") for track in tracks]


def in_flight(
    name: str, spans: Sequence[tuple[str, Ints, Ints]], others: CounterTable
) -> CounterTable:
    """Return counters of how many spans of each kind are open at a time."""
    times, series, values = [others.time_ns], [others.series_id], [others.value]
    known = list(others.series)
    for label, start, end in spans:
        if not len(start) or (name, label, "value") in others.series:
            continue
        change = np.concatenate([np.ones(len(start)), -np.ones(len(end))])
        at, where = np.unique(np.concatenate([start, end]), return_inverse=True)
        times.append(at)
        values.append(np.cumsum(np.bincount(where.reshape(-1), change)))
        series.append(np.full(len(at), len(known), np.int32))
        known.append((name, label, "value"))
    time_ns = np.concatenate(times)
    return CounterTable(
        time_ns=time_ns.astype(np.int64),
        series_id=np.concatenate(series).astype(np.int32),
        value=np.concatenate(values).astype(np.float64),
        series=known,
        record=np.concatenate(
            [others.record, np.full(len(time_ns) - len(others.record), -1, np.int64)]
        ),
    )


Rows = npt.NDArray[np.intp]

_CATEGORY = "byteps-server"
_WAIT = "waiting for other pushes"


def is_server(columns: RankColumns) -> bool:
    """Whether nearly all there is are begins and ends of requests."""
    # Counters are of our own exports.
    events = np.flatnonzero(columns.timed & ~np.isin(columns.phase, (ord("M"), ord("C"))))
    if not len(events):
        return False
    request = np.array([REQUEST.fullmatch(name) is not None for name in columns.names.values])
    bracket = np.isin(columns.phase[events], (ord("B"), ord("E")))
    # A broken record or two do not make a file another one.
    return int((bracket & request[columns.name[events]]).sum()) > len(events) // 2


def build_server(
    rank: int | None,
    columns: RankColumns,
    metadata: dict[str, Any],
    source: RecordSource,
    path: str,
    problems: Problems,
) -> Trace:
    """Build the trace of one server.

    A track holds the requests of one worker for one key. Requests that are open at the end of the
    file are asyncs without a duration. Pulls that came before the last push of their iteration
    wait for it; that part of them is shown as well.
    """
    brackets = np.flatnonzero(
        columns.timed & ((columns.phase == ord("B")) | (columns.phase == ord("E")))
    )
    group = columns.pid[brackets].astype(np.int64) * len(columns.names) + columns.name[brackets]
    opens = columns.phase[brackets] == ord("B")
    begins, ends, alone = (brackets[at] for at in first_in_first_out(group, opens))
    begun = brackets[opens]
    iteration = np.full(len(columns.phase), -1, np.int64)
    iteration[begun] = nth_of_group(group[opens])
    open_rows = alone[columns.phase[alone] == ord("B")]
    own = columns.categories.add(_CATEGORY)
    columns.category = np.full(len(columns.category), own, columns.category.dtype)
    nodes = _on_nodes(columns)
    trace = build_trace(
        columns,
        rank=0 if rank is None else rank,
        path=path,
        metadata=metadata,
        source=source,
        problems=problems,
        pairs=(begins, ends, alone),
        names=nodes,
        format="byteps-server",
        stated_rank=rank,
    )
    table = trace.table
    table.tracks[:] = [_as_in_file(track) for track in named_tracks(table.tracks)]
    of_record = np.full(int(columns.record.max(initial=-1)) + 1, -1, np.int64)
    of_record[columns.record] = iteration
    table.step[:] = of_record[table.record]
    trace.async_table = _open_requests(trace, columns, open_rows, iteration)
    requests = requests_of(trace)
    trace.counter_table = _open_over_time(trace, requests)
    trace.async_table = _with_waits(trace, requests)
    trace.memo.clear()
    return trace


def first_in_first_out(group: Ints, opens: npt.NDArray[np.bool_]) -> tuple[Rows, Rows, Rows]:
    """Pair each end with the first begin of its group that is open."""
    order = np.argsort(group, kind="stable")
    opening = opens[order]
    balance = np.cumsum(np.where(opening, 1, -1))
    starts = np.flatnonzero(np.diff(group[order], prepend=-1))
    sizes = np.diff(np.append(starts, len(order)))
    before = np.concatenate([[0], balance])[starts]
    level = balance - np.repeat(before, sizes)
    # An end without a begin takes the level lower than it ever was in its group.
    lost = np.zeros(len(order), np.bool_)
    for start, size in zip(starts.tolist(), sizes.tolist(), strict=True):
        own = level[start : start + size]
        if own.min(initial=0) < 0:
            lowest = np.minimum.accumulate(np.minimum(np.concatenate([[0], own]), 0))
            lost[start : start + size] = np.diff(lowest) < 0
    kept_ends = np.flatnonzero(~opening & ~lost)
    kept_begins = np.flatnonzero(opening)
    of_group = np.repeat(np.arange(len(starts)), sizes)
    ends_of = np.bincount(of_group[kept_ends], minlength=len(starts))
    paired = nth_of_group(of_group[kept_begins]) < ends_of[of_group[kept_begins]]
    alone = np.sort(np.concatenate([order[kept_begins[~paired]], order[np.flatnonzero(lost)]]))
    return order[kept_begins[paired]], order[kept_ends], alone


def _on_nodes(columns: RankColumns) -> Naming:
    """Put the requests of each worker for a key on a thread of its own; return their names."""
    names = Naming()
    keys = sorted(
        {columns.pids[code] for code in np.unique(columns.pid).tolist()},
        key=lambda text: (not is_key(text), int(text) if is_key(text) else 0, text),
    )
    names.process = {pid: f"key {pid}" for pid in keys}
    names.process_sort = {pid: place for place, pid in enumerate(keys)}
    tid_of_name = np.full(len(columns.names), columns.tids.add("other"), columns.tid.dtype)
    for code, name in enumerate(columns.names.values):
        found = REQUEST.fullmatch(name)
        if found is None:
            continue
        node = int(found[2])
        tid = f"node {node}"
        tid_of_name[code] = columns.tids.add(tid)
        for pid in keys:
            names.thread[pid, tid] = node_label(node)
            names.thread_sort[pid, tid] = node
    columns.tid = tid_of_name[columns.name]
    return names


def _as_in_file(track: Track) -> Track:
    return replace(track, tid=track.pid)


def _open_requests(trace: Trace, columns: RankColumns, rows: Rows, iteration: Ints) -> AsyncTable:
    rows = rows[np.argsort(columns.start_ns[rows], kind="stable")]
    return AsyncTable(
        start_ns=columns.start_ns[rows] - trace.zero_ns,
        dur_ns=np.full(len(rows), -1, np.int64),
        name=columns.name[rows],
        category=np.full(len(rows), trace.table.categories.add("open request"), np.int32),
        async_id=[str(iteration[row]) for row in rows.tolist()],
        pid=[columns.pids[code] for code in columns.pid[rows].tolist()],
        record=columns.record[rows],
    )


def _open_over_time(trace: Trace, requests: Requests) -> CounterTable:
    closed = requests.closed
    last = int(max(requests.start_ns.max(initial=0), requests.end_ns.max(initial=0)))
    end = np.where(closed, requests.end_ns, last)
    spans = [
        (node_label(node), requests.start_ns[of := requests.node == node], end[of])
        for node in np.unique(requests.node).tolist()
    ]
    return in_flight("open requests", spans, trace.counter_table)


def _with_waits(trace: Trace, requests: Requests) -> AsyncTable:
    """Add how long pulls waited for the last push of their iteration."""
    table, opened = trace.table, trace.async_table
    ready = last_push_end(requests)
    end = np.minimum(ready, requests.end_ns)
    at = np.flatnonzero(~requests.push & requests.closed & (end > requests.start_ns))
    tracks = [table.tracks[code] for code in table.track[requests.row[at]].tolist()]
    start = np.concatenate([opened.start_ns, requests.start_ns[at]])
    order = np.argsort(start, kind="stable")
    count = len(at)
    pids = [*opened.pid, *(track.pid for track in tracks)]
    ids = [*opened.async_id, *map(str, requests.iteration[at].tolist())]
    name, category = table.names.add(_WAIT), table.categories.add(BYTEPS_WAIT)
    return AsyncTable(
        start_ns=start[order],
        dur_ns=np.concatenate([opened.dur_ns, end[at] - requests.start_ns[at]])[order],
        name=np.concatenate([opened.name, np.full(count, name)]).astype(np.int32)[order],
        category=np.concatenate([opened.category, np.full(count, category)]).astype(np.int32)[
            order
        ],
        async_id=[ids[place] for place in order.tolist()],
        pid=[pids[place] for place in order.tolist()],
        record=np.concatenate([opened.record, np.full(count, -1)]).astype(np.int64)[order],
    )


#: What the files state since 2019-12; set where older ones do not.
_WORKER_CATEGORY = "Comm"
_WORKER_WAIT = "waiting for root"


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
        own = columns.categories.add(_WORKER_CATEGORY)
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
        name=np.full(len(at), table.names.add(_WORKER_WAIT), np.int32),
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
        spans.append((_WORKER_WAIT, waits.start_ns, waits.start_ns + np.maximum(waits.dur_ns, 0)))
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
