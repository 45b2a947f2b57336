"""Waits of calls on the host for events, streams and devices, as args.

A row of ``SYNCHRONIZATION`` has the correlation id of its call. If a stream waits for an event,
the args state the same as PyTorch's: the stream into which the event was recorded, and the
call that recorded it::

    CUDA_EVENT       eventSyncId 71, stream 33, correlation 601   cudaEventRecord
    SYNCHRONIZATION  eventSyncId 71, stream 21, correlation 603   cudaStreamWaitEvent
        {"wait_on_stream": 33, "wait_on_cuda_event_record_corr_id": 601, …}

Ids of events are reused, so ``eventSyncId`` takes precedence if an export has it.
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
    for process, correlation, stream, *event, kind in _rows(database, _WAITS, "syncType"):
        args: dict[str, Any] = {"synchronization": _KINDS.get(kind, f"type {kind}")}
        is_stream_wait = kind == _STREAM_WAITS
        stream_key = "waiting stream" if is_stream_wait else "waited stream"
        stated = ((stream_key, stream), ("waited event", event[0]))
        args |= {key: value for key, value in stated if value not in (-1, _NONE)}
        of_event = recordings[_event_key(process, *event)]
        earlier = bisect_left(of_event, (correlation, -1))
        if is_stream_wait and earlier:
            last = of_event[earlier - 1]
            args["wait_on_cuda_event_record_corr_id"], args["wait_on_stream"] = last
        waits[process, correlation] = args
    return waits


def _rows(database: Database, table: str, *further: str) -> Iterator[tuple[int, ...]]:
    """Yield process, correlation id, stream, event and recording, and further columns."""
    columns = database.integers(table, (*_COLUMNS[:3], *further), optional=_COLUMNS[3:])
    columns["globalPid"] = processes_of(columns["globalPid"])
    return zip(*(columns[name].tolist() for name in (*_COLUMNS, *further)), strict=True)


def _event_key(process: int, event: int, recording: int = -1) -> tuple[int, str, int]:
    """Return what identifies a recording of an event."""
    if recording in (-1, _NONE):
        return process, "eventId", event
    return process, "eventSyncId", recording


def _recordings(database: Database) -> defaultdict[tuple[int, str, int], list[tuple[int, int]]]:
    """Return the correlation id and the stream of each recording of events, ascending."""
    recordings: defaultdict[tuple[int, str, int], list[tuple[int, int]]] = defaultdict(list)
    for process, correlation, stream, *event in _rows(database, _RECORDS):
        for key in {_event_key(process, event[0]), _event_key(process, *event)}:
            recordings[key].append((correlation, stream))
    for of_event in recordings.values():
        of_event.sort()
    return recordings
