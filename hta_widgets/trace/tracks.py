"""Which track an event is on, and what the tracks are called."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from hta_widgets.trace.ordering import dense
from hta_widgets.trace.table import RankColumns
from hta_widgets.trace.table import Track
from hta_widgets.trace.table import TrackRole

__all__ = ["Naming", "Places", "device_streams", "find_tracks", "naming"]

Ints = npt.NDArray[np.int64]

_STREAM_TID = re.compile(r"(?:stream\s*)?(\d+)\s*", re.IGNORECASE)
_SPANS = {"Spans", "Traces"}

#: Where a file gives no order: programs first, then devices, then the profiler's own spans.
_DEVICE_SORT = 1 << 24
_SPANS_SORT = 1 << 29


@dataclass(slots=True)
class Naming:
    """What metadata records say of processes and threads; keys are pids, or (pid, tid)."""

    process: dict[str, str] = field(default_factory=dict)
    labels: dict[str, str] = field(default_factory=dict)
    thread: dict[tuple[str, str], str] = field(default_factory=dict)
    process_sort: dict[str, int] = field(default_factory=dict)
    thread_sort: dict[tuple[str, str], int] = field(default_factory=dict)


@dataclass(slots=True)
class Places:
    """The track of each event."""

    track: npt.NDArray[np.int32]  # position in `tracks`
    tracks: list[Track]
    #: (pid code, tid code) → the track on which flow records find their events
    of_thread: dict[tuple[int, int], int]


def naming(columns: RankColumns) -> Naming:
    """Read the metadata records (phase M); a later one wins over an earlier one."""
    found = Naming()
    for row in np.flatnonzero(columns.phase == ord("M")).tolist():
        args = columns.small_args.get(int(columns.record[row]))
        if not args:
            continue
        pid, tid = columns.pids[columns.pid[row]], columns.tids[columns.tid[row]]
        match columns.names[columns.name[row]]:
            case "process_name":
                found.process[pid] = str(args.get("name", "")).strip()
            case "process_labels":
                found.labels[pid] = str(args.get("labels", "")).strip()
            case "thread_name":
                found.thread[pid, tid] = str(args.get("name", "")).strip()
            case "process_sort_index":
                _put_index(found.process_sort, pid, args)
            case "thread_sort_index":
                _put_index(found.thread_sort, (pid, tid), args)
    return found


def _put_index(table: dict[Any, int], key: object, args: dict[str, Any]) -> None:
    try:
        table[key] = int(args.get("sort_index"))  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        return


def device_streams(
    stream: npt.NDArray[np.int32],
    device: npt.NDArray[np.bool_],
    pid: npt.NDArray[np.int32],
    tid: npt.NDArray[np.int32],
    columns: RankColumns,
) -> npt.NDArray[np.int32]:
    """Return the device stream of every event, -1 for host events.

    A stream argument counts on rows of a `device` category only: Triton's operators on the host
    carry one too. Device rows without the argument are on the stream of their thread: the one
    that other rows there state, else the one that the thread is called after.
    """
    result = np.where(device, stream, np.int32(-1))
    bare = np.flatnonzero(device & (stream < 0))
    if not len(bare):
        return result
    threads = len(columns.tids)
    slot = pid.astype(np.int64) * threads + tid
    thread, slots = dense(slot, len(columns.pids) * threads)
    of_thread = np.full(len(slots), -1, dtype=np.int32)
    for number in np.unique(thread[bare]).tolist():
        called = _STREAM_TID.fullmatch(columns.tids[int(slots[number]) % threads])
        if called and int(called[1]) < 1 << 31:
            of_thread[number] = int(called[1])
    known = np.flatnonzero(result >= 0)
    of_thread[thread[known]] = result[known]
    result[bare] = of_thread[thread[bare]]
    return result


def find_tracks(
    pid: npt.NDArray[np.int32],
    tid: npt.NDArray[np.int32],
    stream: npt.NDArray[np.int32],
    device: npt.NDArray[np.bool_],
    device_annotation: npt.NDArray[np.bool_],
    calls_mpi: npt.NDArray[np.bool_],
    start: Ints,
    columns: RankColumns,
    names: Naming | None = None,
) -> Places:
    """Make the tracks of events that are sorted by start.

    Parameters
    ----------
    pid, tid : arrays of int32
        Codes into the pools of `columns`.
    stream : array of int32
        The device stream of each event, -1 on the host.
    device : array of bool
        Events of a device.
    device_annotation : array of bool
        Events that name ranges on a device; they get tracks of their own, so that a stream's
        busy time is its kernels'.
    calls_mpi : array of bool
        Calls of MPI, whose tracks are communication as the streams of NCCL are.
    names : Naming, optional
        What processes and threads are called; read from the metadata records if left out.
    """
    threads = len(columns.tids)
    slot = (pid.astype(np.int64) * threads + tid) * 2 + device_annotation
    track, slots = dense(slot, len(columns.pids) * threads * 2)
    count = len(slots)
    first_row = np.empty(count, dtype=np.int64)
    first_row[track[::-1]] = np.arange(len(track) - 1, -1, -1)
    track_stream = np.full(count, -1, dtype=np.int32)
    on_device = np.flatnonzero(stream >= 0)[::-1]
    track_stream[track[on_device]] = stream[on_device]

    of_device = np.zeros(count, dtype=bool)
    of_device[track[device]] = True
    of_mpi = np.zeros(count, dtype=bool)
    of_mpi[track[calls_mpi]] = True

    names = naming(columns) if names is None else names
    device_pids = {columns.pids[int(slot) // 2 // threads] for slot in slots[of_device]}
    threads_of = [divmod(int(slot) // 2, threads) for slot in slots]
    found = [
        _track(
            columns.pids[pid_code],
            columns.tids[tid_code],
            _role(
                columns.pids[pid_code],
                stream=int(track_stream[number]),
                of_device=bool(of_device[number]),
                of_mpi=bool(of_mpi[number]),
                annotation=bool(slots[number] % 2),
            ),
            int(track_stream[number]),
            names,
            int(start[first_row[number]]),
            device=columns.pids[pid_code] in device_pids,
        )
        for number, (pid_code, tid_code) in enumerate(threads_of)
    ]
    order = sorted(range(count), key=lambda number: found[number].sort)
    position = np.empty(count, dtype=np.int32)
    position[order] = np.arange(count, dtype=np.int32)
    of_thread: dict[tuple[int, int], int] = {}
    for number, thread in enumerate(threads_of):
        # The annotations of a thread come after its other events, and give way to them.
        if thread not in of_thread:
            of_thread[thread] = int(position[number])
    return Places(
        position[track] if count else track,
        _distinct([found[number] for number in order]),
        of_thread,
    )


def _role(pid: str, *, stream: int, of_device: bool, of_mpi: bool, annotation: bool) -> TrackRole:
    if annotation:
        return "annotation"
    if stream >= 0 or of_mpi:
        return "stream"
    # A device as a whole has rows as well, such as waits for all its streams.
    return "other" if of_device or pid in _SPANS else "thread"


def _track(
    pid: str,
    tid: str,
    role: TrackRole,
    stream: int,
    names: Naming,
    first_ns: int,
    *,
    device: bool,
) -> Track:
    process = names.process.get(pid, "")
    label = names.labels.get(pid, "")
    if device:
        process = label if label not in {"", "CPU"} else process or f"device {pid}"
    process = process or (pid if pid in _SPANS else f"process {pid}")
    thread = names.thread.get((pid, tid), "")
    if not thread:
        if stream >= 0:
            thread = f"stream {stream}"
        else:
            thread = f"thread {tid}" if tid.lstrip("-").isdigit() else tid
    missing = _SPANS_SORT if pid in _SPANS else _DEVICE_SORT if device else 0
    thread_sort = names.thread_sort.get((pid, tid))
    if thread_sort is None:
        number = _STREAM_TID.fullmatch(tid)
        thread_sort = min(int(number[1]), 1 << 62) if number else 0
    return Track(
        pid=pid,
        tid=tid,
        role=role,
        label=thread,
        process=process,
        stream=stream,
        sort=(
            names.process_sort.get(pid, missing),
            thread_sort,
            0 if role == "annotation" else 1,
            first_ns,
        ),
        nested=0,
        lanes=0,
    )


def _distinct(tracks: list[Track]) -> list[Track]:
    """Tell apart tracks whose names are the same: by tid, then by pid, then by number."""
    for what in ("tid", "pid", "number"):
        seen = Counter(track.key for track in tracks)
        if len(seen) == len(tracks):
            break
        for number, track in enumerate(tracks):
            if seen[track.key] == 1:
                continue
            if what == "tid":
                tracks[number] = replace(track, label=f"{track.label} [{track.tid}]")
            elif what == "pid":
                tracks[number] = replace(track, process=f"{track.process} [{track.pid}]")
            else:
                tracks[number] = replace(track, label=f"{track.label} #{number}")
    return tracks
