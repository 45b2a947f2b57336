"""Which worker, local rank or server a BytePS file is of: its folder says so, not the file."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import PurePath
from typing import Any

import numpy as np

from hta_widgets.formats.byteps.byteps_requests import is_key
from hta_widgets.formats.byteps.byteps_requests import servers_of_keys
from hta_widgets.trace.problems import Problems
from hta_widgets.trace.rank_scope import IDENTITY
from hta_widgets.trace.rank_scope import MARK
from hta_widgets.trace.trace import Trace

from hta_widgets.readers.natural import natural_key

__all__ = ["place_servers", "place_workers"]

_MACHINE = re.compile(r"(?i)(worker|host|node|machine|server)s?[-_. ]?\d+")
_NUMBERED = re.compile(r"(?i)(?:worker|server)[-_. ]?(\d{1,5})")
_EMPTY_NAME = {True: "comm.json", False: "server_profile.json"}


def place_workers(traces: Sequence[Trace], problems: Problems) -> list[Trace]:
    """Number workers and their GPUs, and sort by both.

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
    """Number servers in natural order of their files, those whose files are empty included."""
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
