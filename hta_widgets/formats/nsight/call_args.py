"""Args of CUDA calls: what they wait for, and which kernels they captured into CUDA graphs.

A row of ``SYNCHRONIZATION`` has the correlation id of its call. If a stream waits for an event,
the args state the same as PyTorch's: the stream into which the event was recorded, and the
call that recorded it::

    CUDA_EVENT       eventSyncId 71, stream 33, correlation 601   cudaEventRecord
    SYNCHRONIZATION  eventSyncId 71, stream 21, correlation 603   cudaStreamWaitEvent
        {"wait_on_stream": 33, "wait_on_cuda_event_record_corr_id": 601, …}

CUDA reuses the ids of events, so ``eventSyncId`` takes precedence over ``eventId``.

A graph is captured once, instantiated, and launched often. Its kernels state the node of the
instance, which is a clone of the captured node. The row of the captured node has the time of its
call::

    KERNEL                  graphNodeId 9000000007, gemm
    CUDA_GRAPH_NODE_EVENTS  9000000007, original 7
                            7, start 1250 on thread 4050    during its cudaLaunchKernel

Captured calls launch nothing themselves. They get the args ``kernel`` and ``graph node id``, as
calls in PyTorch's traces have, so that a replay is attributed to the operators of its capture.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import numpy as np

from hta_widgets.formats.event_rows import distinct_rows
from hta_widgets.formats.nsight.tables import ID_BITS, Columns, processes_of
from hta_widgets.readers.sqlite import Database
from hta_widgets.trace.arrays import Ints, first_positions
from hta_widgets.trace.columns import StringPool

_WAITS, _RECORDS = "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION", "CUPTI_ACTIVITY_KIND_CUDA_EVENT"
_COLUMNS, _EVENT_IDS = "globalPid correlationId streamId", "eventId eventSyncId"
_KINDS = {1: "event", 2: "stream waits for event", 3: "stream", 4: "context"}
_STREAM_WAITS = 2
_NONE = (1 << 32) - 1
_GRAPH_NODES = "CUDA_GRAPH_NODE_EVENTS"
#: Maximum number of clones that are followed from a node to the captured node.
_MAX_CLONES = 16

#: The args of calls by their row.
ArgsOfCalls = dict[int, dict[str, Any]]
#: By process and event: the correlation id and the stream of each recording, ascending.
_Recordings = defaultdict[tuple[int, str, int], list[tuple[int, int]]]


def wait_args(database: Database, calls: Columns) -> ArgsOfCalls:
    """Return what calls wait for."""
    waits: dict[tuple[int, int], dict[str, Any]] = {}
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
    rows = np.flatnonzero(np.isin(calls["correlation"], [number for _, number in waits]))
    process, correlation = (calls[name][rows].tolist() for name in ("process", "correlation"))
    places = zip(rows.tolist(), zip(process, correlation, strict=True), strict=True)
    return {row: waits[call] for row, call in places if call in waits}


def _rows(database: Database, table: str, further: str = "") -> Iterator[tuple[int, ...]]:
    """Yield process, correlation id, stream, ``eventId``, ``eventSyncId``, and a further column."""
    columns = database.integers(table, f"{_COLUMNS} {further}", optional=_EVENT_IDS)
    columns["globalPid"] = processes_of(columns["globalPid"])
    names = f"{_COLUMNS} {_EVENT_IDS} {further}".split()
    return zip(*(columns[name].tolist() for name in names), strict=True)


def _event_key(process: int, event: int, sync: int = -1) -> tuple[int, str, int]:
    """Return the key of a recorded event: its ``eventSyncId``, or its ``eventId`` without one."""
    if sync in (-1, _NONE):
        return process, "eventId", event
    return process, "eventSyncId", sync


def _recordings(database: Database) -> _Recordings:
    recordings: _Recordings = defaultdict(list)
    for process, correlation, stream, event, sync in _rows(database, _RECORDS):
        for key in {_event_key(process, event), _event_key(process, event, sync)}:
            recordings[key].append((correlation, stream))
    for event_recordings in recordings.values():
        event_recordings.sort()
    return recordings


def capture_args(
    database: Database, kernels: Columns, calls: Columns, names: StringPool
) -> ArgsOfCalls:
    """Return the kernel and the node of the calls that captured kernels."""
    nodes = database.integers(
        _GRAPH_NODES, "start globalTid graphNodeId", optional="originalGraphNodeId"
    )
    if not len(nodes["start"]):
        return {}
    node_of_kernel = _captured_nodes(nodes, kernels["graph_node"])
    is_captured = node_of_kernel >= 0
    is_captured &= processes_of(nodes["globalTid"])[node_of_kernel] == kernels["process"]
    kernels_of_thread = defaultdict(list)
    pairs, _ = distinct_rows(node_of_kernel[is_captured], kernels["name"][is_captured])
    for node, name in pairs:
        kernels_of_thread[int(nodes["globalTid"][node])].append((node, name))
    args = {}
    global_tid = (calls["process"] << ID_BITS) | calls["thread"]
    for thread, captured in kernels_of_thread.items():
        thread_calls = np.flatnonzero(global_tid == thread)
        thread_calls = thread_calls[np.argsort(calls["start_ns"][thread_calls], kind="stable")]
        captured_ns = nodes["start"][[node for node, _ in captured]]
        starts_ns = calls["start_ns"][thread_calls]
        last_begun = np.searchsorted(starts_ns, captured_ns, side="right") - 1
        for (node, name), time_ns, position in zip(
            captured, captured_ns.tolist(), last_begun.tolist(), strict=True
        ):
            call = int(thread_calls[position]) if position >= 0 else -1
            if call >= 0 and calls["end_ns"][call] >= time_ns:
                node_id = int(nodes["graphNodeId"][node])
                args[call] = {"kernel": names[name], "graph node id": node_id}
    return args


def _captured_nodes(nodes: Columns, node_ids: Ints) -> Ints:
    """Return the row of the captured node of each node of an instance; -1 for none."""
    rows = first_positions(nodes["graphNodeId"], node_ids)
    rows[node_ids < 0] = -1
    for _ in range(_MAX_CLONES):
        originals = first_positions(nodes["graphNodeId"], nodes["originalGraphNodeId"][rows])
        rows = np.where((rows >= 0) & (originals >= 0), originals, rows)
    return rows
