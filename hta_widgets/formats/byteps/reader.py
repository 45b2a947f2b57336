"""Build traces from BytePS files: comm.json of workers, server_profile.json of servers."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import PurePath
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from hta_widgets.formats.byteps import MACHINE
from hta_widgets.formats.byteps.rows import (
    OPEN_REQUEST,
    PREFIX,
    REQUEST,
    TOTAL,
    Requests,
    WorkerRows,
    is_key,
    last_push_end,
    node_label,
    requests_of,
    servers_of_keys,
    stage_of,
    worker_rows,
)
from hta_widgets.formats.kineto.merged import RankContents
from hta_widgets.readers.discovery import natural_key
from hta_widgets.readers.ranks import is_rank
from hta_widgets.trace.arrays import Array, Bools, Ints, Rows, number_in_group
from hta_widgets.trace.columns import (
    AsyncTable,
    CounterTable,
    RankColumns,
    concatenate_tables,
    take_rows,
)
from hta_widgets.trace.merged_format import IDENTITY_KEY, MARK_KEY
from hta_widgets.trace.problems import Problems
from hta_widgets.trace.trace import Trace
from hta_widgets.trace.tracks import TrackNames

_NUMBERED = re.compile(r"(?i)(?:worker|server)[-_. ]?(\d{1,5})")

#: Category of waits. They are derived from the surrounding records.
_WAIT_CATEGORY = "waiting"
_WORKER_WAIT = "waiting for root"


def place_workers(traces: Sequence[Trace], problems: Problems) -> list[Trace]:
    """Assign numbers to workers and their GPUs, and sort by both.

    The folder of a GPU is named after its local rank, and the folder above it belongs to the
    worker. Workers are numbered in the natural order of their folders, including folders with empty
    files.
    """
    placed, others = _apply_stated_numbers(traces)
    paths = [*(trace.path for trace in others), *_empty_files(problems, "comm.json")]
    numbers = _numbers(paths, _worker_folder, has_gpu_folders=True)
    used_ranks: dict[tuple[str | None, int], set[int]] = {}
    for trace in others:
        job, worker = numbers[_worker_folder(trace.path)]
        used = used_ranks.setdefault((job, worker), set())
        stated = _local_rank(trace.path)
        free = next(number for number in range(len(used) + 1) if number not in used)
        local_rank = free if stated is None or stated in used else stated
        if stated is not None and local_rank != stated:
            detail = f"states local rank {stated}, as another file does; kept as {local_rank}"
            problems.add("duplicate_rank", 1, detail, file=trace.path)
        used.add(local_rank)
        placed.append(trace.replace(job=job, worker=worker, local_rank=local_rank))
    return sorted(placed, key=lambda trace: (trace.job or "", trace.worker, trace.local_rank))


def place_servers(traces: Sequence[Trace], problems: Problems) -> list[Trace]:
    """Assign numbers to servers in the natural order of their files, including empty files."""
    placed, others = _apply_stated_numbers(traces)
    paths = [*(trace.path for trace in others), *_empty_files(problems, "server_profile.json")]
    numbers = _numbers(paths, str, has_gpu_folders=False)
    for trace in others:
        job, server = numbers[trace.path]
        placed.append(trace.replace(job=job, server=server))
    for job in {trace.job for trace in placed}:
        _name_keys([trace for trace in placed if trace.job == job])
    return sorted(placed, key=lambda trace: (trace.job or "", trace.server))


def _name_keys(servers: Sequence[Trace]) -> None:
    """Label tracks with tensor and partition, which are inferred from the keys of all servers."""
    keys = [
        np.array(sorted({int(t.pid) for t in trace.tracks if is_key(t.pid)}), np.uint64)
        for trace in servers
    ]
    for trace, meaning in zip(servers, servers_of_keys(keys)[1], strict=True):
        for index, track in enumerate(trace.tracks):
            _, raw_key = meaning.get(int(track.pid) if is_key(track.pid) else -1, (0, -1))
            if raw_key >= 0 and track.label.startswith("node "):
                label = f"{raw_key >> 16}:{raw_key & 0xFFFF} · {track.label.partition(' (')[0]}"
                trace.tracks[index] = replace(track, label=label)


def _apply_stated_numbers(traces: Sequence[Trace]) -> tuple[list[Trace], list[Trace]]:
    """Return the traces with numbers stated in their files, and the remaining traces."""
    stated = [(trace, _stated_numbers(trace)) for trace in traces]
    placed = [trace.replace(**numbers) for trace, numbers in stated if numbers]
    return placed, [trace for trace, numbers in stated if not numbers]


def _stated_numbers(trace: Trace) -> dict[str, Any]:
    """Return the numbers and the job stated in a file exported by this package."""
    mark = trace.metadata.get(MARK_KEY)
    stated = mark.get(IDENTITY_KEY) if isinstance(mark, dict) else None
    if not isinstance(stated, dict):
        return {}
    numbers: dict[str, Any] = {
        name: number
        for name in ("worker", "local_rank", "server")
        if is_rank(number := stated.get(name))
    }
    job = stated.get("job")
    return numbers | ({"job": job} if isinstance(job, str) else {})


def _empty_files(problems: Problems, name: str) -> list[str]:
    return [
        problem.file
        for problem in problems
        if problem.kind == "empty" and problem.file and PurePath(problem.file).name == name
    ]


def _local_rank(path: str) -> int | None:
    folder = PurePath(path).parent.name
    return int(folder) if folder.isdecimal() and len(folder) < 6 else None


def _worker_folder(path: str) -> str:
    folder = PurePath(path).parent
    return str(folder if _local_rank(path) is None else folder.parent)


def _numbers(
    files: Sequence[str], place_of: Callable[[str], str], *, has_gpu_folders: bool
) -> dict[str, tuple[str | None, int]]:
    """Return the job and number of each place, which is a worker's folder or a server's file.

    `has_gpu_folders` is False for servers, because only workers have a folder per GPU.

    Numbers in folder names are kept if they are distinct within each job. Otherwise, places are
    numbered in natural order within the job.
    """
    jobs: defaultdict[tuple[str, str], set[str]] = defaultdict(set)
    run_of = _runs(files, has_gpu_folders=has_gpu_folders)
    for file in files:
        jobs[_job_folder(file), run_of[file]].add(place_of(file))
    names = {(folder, run): _join_folders(PurePath(folder).name, run) for folder, run in jobs}
    if len(set(names.values())) < len(jobs):
        names = {job: _join_folders(*job) for job in jobs}
    numbers: dict[str, tuple[str | None, int]] = {}
    for job in sorted(jobs):
        places = sorted(jobs[job], key=natural_key)
        stated = [number for place in places if (number := _stated_number(place)) is not None]
        are_distinct = len(set(stated)) == len(places)
        for position, place in enumerate(places):
            numbers[place] = names[job] or None, stated[position] if are_distinct else position
    return numbers


def _join_folders(*folders: str) -> str:
    return "/".join(filter(None, folders))


def _runs(files: Sequence[str], *, has_gpu_folders: bool) -> dict[str, str]:
    """Return the folder of each file's run; "" if the job has only one run.

    In a run, a worker writes one file per GPU, and a server writes one file. If there are more
    files, the folders below the worker's or server's folder are runs.
    """
    place_of = {
        file: (_job_folder(file), *_place_in_run(file, has_gpu_folders=has_gpu_folders))
        for file in files
    }
    runs_of = Counter(place[:-1] for place in set(place_of.values()))
    jobs = {job for (job, machine, _), runs in runs_of.items() if machine and runs > 1}
    return {file: run if job in jobs else "" for file, (job, _, _, run) in place_of.items()}


def _place_in_run(file: str, *, has_gpu_folders: bool) -> tuple[str, int | None, str]:
    """Return the folder of a file's worker or server, its GPU, and the folders between them."""
    *folders, _ = PurePath(file).parts
    numbered = [position for position, part in enumerate(folders) if _NUMBERED.fullmatch(part)]
    if not numbered:
        return "", None, ""
    first = numbered[-1] + 1
    gpu = _local_rank(file) if has_gpu_folders else None
    below = folders[first:] if gpu is None else folders[first:-1]
    run = "/".join(part for part in below if part != "traces")
    return str(PurePath(*folders[:first])), gpu, run


def _stated_number(path: str) -> int | None:
    matches = [match for part in PurePath(path).parts if (match := _NUMBERED.fullmatch(part))]
    return int(matches[-1][1]) if matches else None


def _job_folder(path: str) -> str:
    """Return the folder that contains the machine folders; "" if there are none."""
    parts = PurePath(path).parts
    first = next((index for index, part in enumerate(parts) if MACHINE.fullmatch(part)), 0)
    return str(PurePath(*parts[:first])) if first else ""


def is_server(columns: RankColumns) -> bool:
    """Return whether more than half of the records begin or end requests."""
    # Counters occur only in files exported by this package.
    events = np.flatnonzero(columns.timed & ~np.isin(columns.phase, (ord("M"), ord("C"))))
    if not len(events):
        return False
    is_request = np.array([REQUEST.fullmatch(name) is not None for name in columns.names.values])
    is_edge = np.isin(columns.phase[events], (ord("B"), ord("E")))
    return int((is_edge & is_request[columns.name[events]]).sum()) > len(events) // 2


class _RequestPairs(NamedTuple):
    begins: Rows
    ends: Rows  # for the same requests
    alone: Rows  # without a partner
    iteration: Ints  # per row: earlier requests by this worker for this key; -1 for ends


def build_server(contents: RankContents, path: str, problems: Problems) -> Trace:
    """Build the trace of one server.

    A track holds one worker's requests for one key. Requests that are open at the end of the file
    are async events without a duration. Further async events mark how long a pull waits for the
    last push of its iteration.
    """
    columns = contents.columns
    pairs = _pair_requests(columns)
    # Set categories and threads before the trace is built, because kinds and tracks depend on them.
    _fill_category(columns, "byteps-server")
    trace = contents.build(
        path,
        problems,
        pairs=(pairs.begins, pairs.ends, pairs.alone),
        names=_assign_node_threads(columns),
        format="byteps-server",
    )
    table = trace.table
    table.tracks[:] = [replace(track, role="other", tid=track.pid) for track in table.tracks]
    table.step[:] = pairs.iteration[np.searchsorted(columns.record, table.record)]
    trace.async_table = _open_requests(trace, columns, pairs)
    # Requests are taken from the table and the open async events. Waits and counters are derived
    # from them.
    requests = requests_of(trace)
    trace.counter_table = _open_over_time(trace, requests)
    trace.async_table = _add_waits(trace, requests)
    # Results memoized so far describe the tables without waits and counters.
    trace.memo.clear()
    return trace


def _pair_requests(columns: RankColumns) -> _RequestPairs:
    """Pair begins and ends by key and request. A server answers a worker's requests in order."""
    rows = np.flatnonzero(columns.timed & np.isin(columns.phase, (ord("B"), ord("E"))))
    request = columns.pid[rows].astype(np.int64) * len(columns.names) + columns.name[rows]
    is_begin = columns.phase[rows] == ord("B")
    iteration = np.full(len(columns.phase), -1, np.int64)
    iteration[rows[is_begin]] = number_in_group(request[is_begin])
    begins, ends, alone = (
        rows[positions] for positions in pair_first_in_first_out(request, is_begin)
    )
    return _RequestPairs(begins, ends, alone, iteration)


def _open_requests(trace: Trace, columns: RankColumns, pairs: _RequestPairs) -> AsyncTable:
    rows = pairs.alone[columns.phase[pairs.alone] == ord("B")]
    return _with_asyncs(
        trace,
        OPEN_REQUEST,
        start_ns=columns.start_ns[rows] - trace.zero_ns,
        name=columns.name[rows],
        ids=list(map(str, pairs.iteration[rows].tolist())),
        pids=[columns.pids[code] for code in columns.pid[rows].tolist()],
        record=columns.record[rows],
    )


def pair_first_in_first_out(group: Ints, opens: Bools) -> tuple[Rows, Rows, Rows]:
    """Pair ends with their group's first open begin; return begins, ends and unpaired rows."""
    open_count = pd.Series(np.where(opens, 1, -1)).groupby(group).cumsum()
    lowest = open_count.clip(upper=0).groupby(group).cummin()
    # An end without a begin takes the open count below the group's previous minimum.
    is_stray_end = (lowest < lowest.groupby(group).shift(fill_value=0)).to_numpy()
    begins, ends = np.flatnonzero(opens), np.flatnonzero(~opens & ~is_stray_end)
    # In each group, the first begins are paired, as many as there are ends.
    end_count = pd.Series(group[ends]).value_counts().reindex(group[begins], fill_value=0)
    is_paired = number_in_group(group[begins]) < end_count.to_numpy()
    alone = np.sort(np.concatenate([begins[~is_paired], np.flatnonzero(is_stray_end)]))
    begins = begins[is_paired]
    by_begin, by_end = (np.argsort(group[rows], kind="stable") for rows in (begins, ends))
    return begins[by_begin], ends[by_end], alone


def _assign_node_threads(columns: RankColumns) -> TrackNames:
    """Move each worker's requests for a key to a separate thread; return the thread names."""
    names = TrackNames()
    keys = sorted(
        {columns.pids[code] for code in np.unique(columns.pid).tolist()},
        key=lambda text: (not is_key(text), int(text) if is_key(text) else 0, text),
    )
    names.process = {pid: f"key {pid}" for pid in keys}
    names.process_sort = {pid: place for place, pid in enumerate(keys)}
    tid_of_name = np.full(len(columns.names), columns.tids.add("other"), columns.tid.dtype)
    for code, name in enumerate(columns.names.values):
        request = REQUEST.fullmatch(name)
        if request is None:
            continue
        node = int(request[2])
        tid = f"node {node}"
        tid_of_name[code] = columns.tids.add(tid)
        for pid in keys:
            names.thread[pid, tid] = node_label(node)
            names.thread_sort[pid, tid] = node
    columns.tid = tid_of_name[columns.name]
    return names


def _open_over_time(trace: Trace, requests: Requests) -> CounterTable:
    last = int(max(requests.start_ns.max(initial=0), requests.end_ns.max(initial=0)))
    end = np.where(requests.is_answered, requests.end_ns, last)
    spans = [
        (node_label(node), requests.start_ns[of_node := requests.node == node], end[of_node])
        for node in np.unique(requests.node).tolist()
    ]
    return _with_counters("open requests", spans, trace.counter_table)


def _add_waits(trace: Trace, requests: Requests) -> AsyncTable:
    """Return the async events, with added waits of pulls for the last push of their iteration."""
    table = trace.table
    end = np.minimum(last_push_end(requests), requests.end_ns)
    pulls = np.flatnonzero(~requests.push & requests.is_answered & (end > requests.start_ns))
    tracks = table.track[requests.row[pulls]].tolist()
    return _with_asyncs(
        trace,
        _WAIT_CATEGORY,
        start_ns=requests.start_ns[pulls],
        dur_ns=end[pulls] - requests.start_ns[pulls],
        name=table.names.add("waiting for other pushes"),
        ids=list(map(str, requests.iteration[pulls].tolist())),
        pids=[table.tracks[code].pid for code in tracks],
    )


def is_worker(columns: RankColumns) -> bool:
    """Return whether more than half of the complete events have BytePS tensor names."""
    complete = np.flatnonzero(columns.phase == ord("X"))
    if not len(complete):
        return False
    is_tensor = np.array([pid.startswith(PREFIX) for pid in columns.pids.values])
    return int(is_tensor[columns.pid[complete]].sum()) > len(complete) // 2


def build_worker(contents: RankContents, path: str, problems: Problems) -> Trace:
    """Build the trace of one GPU of a worker.

    Events keep their names from the file. Steps are numbered from 0 within the file. On a GPU other
    than the root, partitions wait for the root GPU to fetch them from the servers. These waits are
    added as async events. Counters show the number of partitions in a stage: PUSH and PULL on the
    root, and this wait on other GPUs.
    """
    columns = contents.columns
    _fill_category(columns, "Comm")  # in worker files since 2019-12
    names = _tensor_track_names(columns)
    trace = contents.build(path, problems, names=names, format="byteps")
    table = trace.table
    table.tracks[:] = [replace(track, role="other") for track in table.tracks]
    table.categories.add(_WAIT_CATEGORY)
    table.step[:] = number_in_group(table.track.astype(np.int64) * len(table.names) + table.name)
    rows = worker_rows(trace)
    if "COPYH2D" in rows.stages and not rows.is_root:
        trace.async_table = _root_waits(trace, rows)
    trace.counter_table = _in_flight(trace, rows)
    _note_problems(rows, contents.rank, path, problems)
    trace.memo.clear()
    return trace


def _fill_category(columns: RankColumns, category: str) -> None:
    blank = columns.categories.find("")
    if blank >= 0:
        code = columns.category.dtype.type(columns.categories.add(category))
        columns.category = np.where(columns.category == blank, code, columns.category)


def _tensor_track_names(columns: RankColumns) -> TrackNames:
    """Name processes after tensors and threads after partitions, ordered by key."""
    names = TrackNames()
    declared: dict[str, int] = {}
    threads = columns.pid.astype(np.int64) * max(len(columns.tids), 1) + columns.tid
    for code in np.unique(threads[columns.phase == ord("X")]).tolist():
        pid_code, tid_code = divmod(code, len(columns.tids))
        pid, tid = columns.pids[pid_code], columns.tids[tid_code]
        names.process[pid] = pid.removeprefix(PREFIX).removeprefix("byteps.")
        if tid == TOTAL:
            names.thread[pid, tid], names.thread_sort[pid, tid] = "whole", -1
        elif stage_of(pid, tid, f"{pid}.X") is not None:  # the thread may have stages
            key = int(tid)
            names.thread[pid, tid] = f"partition {key & 0xFFFF}"
            names.thread_sort[pid, tid] = key & 0xFFFF
            declared[pid] = key >> 16
    last = max(declared.values(), default=0) + 1
    names.process_sort = {pid: declared.get(pid, last) for pid in names.process}
    return names


def _root_waits(trace: Trace, rows: WorkerRows) -> AsyncTable:
    """Return the async events, with added waits of partitions for the root GPU."""
    table, parts = trace.table, rows.parts
    is_copy = (parts.stage == rows.stages.index("COPYH2D")) & parts.complete & ~parts.first
    waiting = np.flatnonzero(is_copy & (parts.queue_ns > 0))
    tracks = [table.tracks[code] for code in table.track[parts.row[waiting]].tolist()]
    return _with_asyncs(
        trace,
        _WAIT_CATEGORY,
        start_ns=parts.start_ns[waiting] - parts.queue_ns[waiting],
        dur_ns=parts.queue_ns[waiting],
        name=table.names.add(_WORKER_WAIT),
        ids=[track.tid for track in tracks],
        pids=[track.pid for track in tracks],
    )


def _in_flight(trace: Trace, rows: WorkerRows) -> CounterTable:
    """Return the counters, with the added number of partitions being sent or waited for."""
    parts, waits = rows.parts, trace.async_table
    if rows.is_root:
        start, end = parts.start_ns, parts.start_ns + parts.dur_ns
        stages = {name: parts.stage == rows.stages.index(name) for name in ("PUSH", "PULL")}
        spans = [(name, start[is_stage], end[is_stage]) for name, is_stage in stages.items()]
    else:
        # The file may have other async events.
        is_wait = waits.category == trace.table.categories.find(_WAIT_CATEGORY)
        start = waits.start_ns[is_wait]
        spans = [(_WORKER_WAIT, start, start + waits.dur_ns[is_wait])]
    return _with_counters("partitions", spans, trace.counter_table)


def _note_problems(rows: WorkerRows, rank: int | None, path: str, problems: Problems) -> None:
    totals, parts = rows.totals, rows.parts
    problems.add("unpaired", int((totals.dur_ns == 0).sum()), "totals without an end", rank, path)
    if not len(totals.row):
        return
    steps = int(totals.step.max()) + 1
    groups = np.stack([parts.tensor, parts.key, parts.stage])
    counts = np.unique(groups, axis=1, return_counts=True)[1] if len(parts.row) else np.empty(0)
    detail = f"partition stages without records in some of the {steps} steps"
    problems.add("truncated", int((counts < steps).sum()), detail, rank, path)
    without_parts = set(range(len(rows.tensors))) - set(np.unique(parts.tensor).tolist())
    problems.add("truncated", len(without_parts), "tensors without stages", rank, path)


def _with_asyncs(
    trace: Trace,
    category: str,
    *,
    start_ns: Ints,
    dur_ns: int | Ints = -1,
    name: int | Array,
    ids: list[str],
    pids: list[str],
    record: int | Ints = -1,
) -> AsyncTable:
    """Return the async events, adding some of a category; scalars apply to all added events."""
    count = len(start_ns)
    added = AsyncTable(
        start_ns, np.full(count, dur_ns, np.int64), np.full(count, name, np.int32),
        np.full(count, trace.table.categories.add(category), np.int32), ids, pids,
        np.full(count, record, np.int64),
    )  # fmt: skip
    table = concatenate_tables([trace.async_table, added])
    return take_rows(table, np.argsort(table.start_ns, kind="stable"))


def _with_counters(
    name: str, spans: Sequence[tuple[str, Ints, Ints]], others: CounterTable
) -> CounterTable:
    """Add, for each label, a counter of its open spans."""
    times, series_ids, values = [others.time_ns], [others.series_id], [others.value]
    series = list(others.series)
    for label, start, end in spans:
        if not len(start) or (name, label, "value") in others.series:
            continue
        change = np.concatenate([np.ones(len(start)), -np.ones(len(end))])
        edges_ns, edge_index = np.unique(np.concatenate([start, end]), return_inverse=True)
        times.append(edges_ns)
        values.append(np.cumsum(np.bincount(edge_index, change)))
        series_ids.append(np.full(len(edges_ns), len(series), np.int32))
        series.append((name, label, "value"))
    time_ns = np.concatenate(times).astype(np.int64)
    added = np.full(len(time_ns) - len(others.record), -1, np.int64)
    return CounterTable(
        time_ns=time_ns,
        series_id=np.concatenate(series_ids).astype(np.int32),
        value=np.concatenate(values).astype(np.float64),
        series=series,
        record=np.concatenate([others.record, added]),
    )
