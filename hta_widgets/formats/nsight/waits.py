"""Waits of calls on the host for events, streams and devices, as args.

A row of ``SYNCHRONIZATION`` has the correlation id of its call. If a stream waits for an event,
the args state the same as PyTorch's: the stream into which the event was recorded, and the
call that recorded it::

    CUDA_EVENT       eventSyncId 71, stream 33, correlation 601   cudaEventRecord
    SYNCHRONIZATION  eventSyncId 71, stream 21, correlation 603   cudaStreamWaitEvent
        {"wait_on_stream": 33, "wait_on_cuda_event_record_corr_id": 601, …}

CUDA reuses the ids of events, so ``eventSyncId`` takes precedence over ``eventId``.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

from hta_widgets.formats.nsight.tables import processes_of
from hta_widgets.readers.sqlite import Database

_WAITS, _RECORDS = "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION", "CUPTI_ACTIVITY_KIND_CUDA_EVENT"
_COLUMNS = ("globalPid", "correlationId", "streamId", "eventId", "eventSyncId")
_KINDS = {1: "event", 2: "stream waits for event", 3: "stream", 4: "context"}
_STREAM_WAITS = 2
_NONE = (1 << 32) - 1

#: The process and the correlation id of a call.
Call = tuple[int, int]


def read_waits(database: Database) -> dict[Call, dict[str, Any]]:
    """Return what calls wait for, as args."""
    waits = {}
    recordings = _recordings(database)
    for process, correlation, stream, event, sync, kind in _rows(database, _WAITS, "syncType"):
        args: dict[str, Any] = {"synchronization": _KINDS.get(kind, f"type {kind}")}
        is_stream_wait = kind == _STREAM_WAITS
        stream_key = "waiting stream" if is_stream_wait else "waited stream"
        ids = {stream_key: stream, "waited event": event}
        args |= {key: number for key, number in ids.items() if number not in (-1, _NONE)}
        event_recordings = recordings[_event_key(process, event, sync)]
        earlier = bisect_left(event_recordings, (correlation, -1))
        if is_stream_wait and earlier:
            last = event_recordings[earlier - 1]
            args["wait_on_cuda_event_record_corr_id"], args["wait_on_stream"] = last
        waits[process, correlation] = args
    return waits


def _rows(database: Database, table: str, *further: str) -> Iterator[tuple[int, ...]]:
    """Yield process, correlation id, stream, ``eventId``, ``eventSyncId``, and further columns."""
    columns = database.integers(table, (*_COLUMNS[:3], *further), optional=_COLUMNS[3:])
    columns["globalPid"] = processes_of(columns["globalPid"])
    return zip(*(columns[name].tolist() for name in (*_COLUMNS, *further)), strict=True)


def _event_key(process: int, event: int, sync: int = -1) -> tuple[int, str, int]:
    """Return the key of a recorded event: its ``eventSyncId``, or its ``eventId`` without one."""
    if sync in (-1, _NONE):
        return process, "eventId", event
    return process, "eventSyncId", sync


def _recordings(database: Database) -> defaultdict[tuple[int, str, int], list[tuple[int, int]]]:
    """Return the correlation id and the stream of each recording of events, ascending."""
    recordings: defaultdict[tuple[int, str, int], list[tuple[int, int]]] = defaultdict(list)
    for process, correlation, stream, event, sync in _rows(database, _RECORDS):
        for key in {_event_key(process, event), _event_key(process, event, sync)}:
            recordings[key].append((correlation, stream))
    for event_recordings in recordings.values():
        event_recordings.sort()
    return recordings
