"""Args of events derived from other tables: NCCL communicators, waits, captured graphs.

NCCL pushes a range for each call. The range's payload has the communicator and the message size.
The kernel is launched within that range, or within ``ncclGroupEnd`` after the calls of a group::

    ncclGroupStart  ncclAllReduce {communicator, size}  ncclGroupEnd [cuLaunchKernelEx → kernel]

A communicator has the same id on all ranks and thus identifies their process group. In exports
without payloads, the ranges still name the operations of generic kernels
(``ncclDevKernel_Generic``).

A row of ``SYNCHRONIZATION`` has the correlation id of its call. If a stream waits for an event, the
args are the same as PyTorch's: the stream on which the event was recorded, and the call that
recorded it::

    CUDA_EVENT       eventSyncId 71, stream 33, correlation 601   cudaEventRecord
    SYNCHRONIZATION  eventSyncId 71, stream 21, correlation 603   cudaStreamWaitEvent
        {"wait_on_stream": 33, "wait_on_cuda_event_record_corr_id": 601, …}

CUDA reuses event ids, so ``eventSyncId`` takes precedence over ``eventId``.

A graph is captured once, instantiated, and launched many times. Its kernels refer to the node of
the instance, which is a clone of the captured node. The row of the captured node has the time of
its call::

    KERNEL                  graphNodeId 9000000007, gemm
    CUDA_GRAPH_NODE_EVENTS  9000000007, original 7
                            7, start 1250 on thread 4050    during its cudaLaunchKernel

Captured calls launch nothing themselves. Like calls in PyTorch's traces, they get the args
``kernel`` and ``graph node id``, so that a replay is attributed to the operators of its capture.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from hta_widgets.analysis.cross_rank.comm_events import bytes_of
from hta_widgets.formats.event_rows import distinct_rows, values_by_id
from hta_widgets.formats.nsight.nvtx import NvtxRanges
from hta_widgets.formats.nsight.tables import ID_BITS, Columns, processes_of
from hta_widgets.readers.sqlite import NO_TIME, Database
from hta_widgets.trace.arrays import Ints, first_positions
from hta_widgets.trace.columns import StringPool

_COMMUNICATOR, _SIZE = "NCCL communicator ID", "Message size [bytes]"
_RANKS, _RANK, _DEVICE = "No. of ranks", "Rank", "CUDA device"
#: Payload field that occurs only in the range of a kernel, which repeats the range of the call.
_CHANNELS = "No. of channels"
_GROUP_END = "ncclGroupEnd"
#: c10d's name for each NCCL name. Sends and receives are named after their kernel, because their
#: peers are numbered within the communicator.
_COLLECTIVES = {
    "ncclAllReduce": "allreduce",
    "ncclAllGather": "allgather",
    "ncclReduceScatter": "reduce_scatter",
    "ncclBroadcast": "broadcast",
    "ncclBcast": "broadcast",
    "ncclReduce": "reduce",
    "ncclAlltoAll": "all_to_all",
    "ncclGather": "gather",
    "ncclScatter": "scatter",
}
#: Collectives for which NCCL states the size of one rank's part.
_SIZED_BY_PART = {"allgather", "reduce_scatter"}
_CALL = re.compile(r"nccl[A-Z]\w+")
#: Kernels that can run any operation, so that their name does not show which.
_GENERIC = re.compile(r"generic", re.IGNORECASE)
#: Element type in a kernel's name. NCCL kernels without it, such as all-gathers, move bytes.
_DTYPE = re.compile(r"_([iu](?:8|16|32|64)|f(?:16|32|64)|bf16)_")
_DTYPES = {"i": "int", "u": "uint", "f": "float", "b": "bfloat"}
#: To find the range around a launch, at most this many preceding ranges are searched.
_MAX_NESTED = 16


class _NcclCall(NamedTuple):
    """An NCCL call. Without a payload, the communicator is None."""

    name: str
    communicator: int | None = None
    size_bytes: int = -1


def _initializations(ranges: NvtxRanges) -> list[Mapping[str, int]]:
    payloads = (ranges.payloads[number] for number in np.unique(ranges.columns["payload"]).tolist())
    return [payload for payload in payloads if {_COMMUNICATOR, _RANKS, _RANK} <= set(payload)]


def rank_in_communicators(ranges: NvtxRanges, device: int | None = None) -> int | None:
    """Return the rank in a process's largest communicator; None if no payload states it.

    With `device`, only this device's communicators are considered.
    """
    inits = _initializations(ranges)
    if device is not None:
        inits = [payload for payload in inits if payload.get(_DEVICE) == device]
    return max(inits, key=lambda payload: payload[_RANKS])[_RANK] if inits else None


def communication_args(
    kernels: Columns, calls: Columns, ranges: NvtxRanges, pool: StringPool
) -> list[dict[str, Any]]:
    """Return the args of a process's NCCL kernels."""
    group_sizes = {payload[_COMMUNICATOR]: payload[_RANKS] for payload in _initializations(ranges)}
    names = [pool[code] for code in kernels["name"].tolist()]
    launched = _calls_of_kernels(kernels, calls, ranges, pool)
    return [_args_of(*pair, group_sizes) for pair in zip(names, launched, strict=True)]


def _args_of(kernel: str, calls: list[_NcclCall], group_sizes: Mapping[int, int]) -> dict[str, Any]:
    """Return the known args of a kernel that executes `calls`."""
    communicators = {call.communicator for call in calls}
    if len(communicators) != 1:
        return {}
    communicator = calls[0].communicator
    operations = {_COLLECTIVES.get(call.name) for call in calls}
    operation = operations.pop() if len(operations) == 1 else None
    if communicator is None:
        is_generic = _GENERIC.search(kernel) is not None
        return {"Collective name": operation} if is_generic and operation is not None else {}
    group_size = group_sizes.get(communicator)
    args: dict[str, Any] = {
        "Process Group Name": f"NCCL {communicator:016x}",
        **({} if group_size is None else {"Group size": group_size}),
        **({} if operation is None else {"Collective name": operation}),
    }
    size_bytes = sum(call.size_bytes for call in calls)
    match = _DTYPE.search(kernel)
    dtype = "uint8" if match is None else _DTYPES[match[1][0]] + match[1].lstrip("iubf")
    elements, rest_bytes = divmod(size_bytes, bytes_of(dtype))
    parts = group_size if operation in _SIZED_BY_PART else 1
    if operation is None or rest_bytes or size_bytes < 0 or parts is None:
        return args
    return {
        **args,
        "dtype": dtype,
        "In msg nelems": elements if operation == "allgather" else elements * parts,
        "Out msg nelems": elements if operation == "reduce_scatter" else elements * parts,
    }


def _call_name(text: str) -> str:
    """Return the NCCL function named by a range, with or without prefix; "" if none is named."""
    if _CALL.fullmatch(text):
        return text
    name = f"nccl{text}"
    return name if name in _COLLECTIVES or name == _GROUP_END else ""


def _calls_of_kernels(
    kernels: Columns, calls: Columns, ranges: NvtxRanges, pool: StringPool
) -> list[list[_NcclCall]]:
    """Return the NCCL calls that each kernel executes; empty if unknown."""
    result: list[list[_NcclCall]] = [[] for _ in kernels["name"]]
    # Thread and launch time are -1 for kernels without a launch.
    thread_of_kernel, launch_ns = (
        values_by_id(calls["correlation"], calls[name], kernels["correlation"])
        for name in ("thread", "start_ns")
    )
    kernels_by_launch = np.argsort(launch_ns, kind="stable")
    ranges = ranges.select(np.argsort(ranges.columns["start_ns"], kind="stable"))
    for thread in np.unique(thread_of_kernel[thread_of_kernel >= 0]).tolist():
        thread_ranges = ranges.select(ranges.columns["thread"] == thread)
        thread_kernels = kernels_by_launch[thread_of_kernel[kernels_by_launch] == thread]
        calls_of_launches = _calls_on_thread(launch_ns[thread_kernels], thread_ranges, pool)
        for kernel, nccl_calls in zip(thread_kernels.tolist(), calls_of_launches, strict=True):
            result[kernel] = nccl_calls
    return result


def _calls_on_thread(
    launches_ns: Ints, ranges: NvtxRanges, pool: StringPool
) -> list[list[_NcclCall]]:
    """Return the calls of each launch on a thread. Launches and ranges are ordered by time."""
    columns = ranges.columns
    names = [_call_name(pool[code]) for code in columns["name"].tolist()]
    starts_ns, ends_ns = columns["start_ns"].tolist(), columns["end_ns"].tolist()
    first_later = np.searchsorted(columns["start_ns"], launches_ns, side="right").tolist()
    launches_of_range: defaultdict[int, list[int]] = defaultdict(list)
    pairs = zip(launches_ns.tolist(), first_later, strict=True)
    for launch, (launch_ns, later) in enumerate(pairs):
        around = (
            row
            for row in range(max(later - _MAX_NESTED, 0), later)
            if starts_ns[row] <= launch_ns <= ends_ns[row] and names[row]
        )
        launches_of_range[next(around, -1)].append(launch)  # the first one is the outermost
    launches_of_range.pop(-1, None)
    result: list[list[_NcclCall]] = [[] for _ in first_later]
    for row, launches in launches_of_range.items():
        calls = _calls_of_range(row, names, ranges)
        if len(launches) == 1:
            result[launches[0]] = calls
        elif len(launches) == len(calls):  # each kernel executes one call
            for launch, call in zip(launches, calls, strict=True):
                result[launch] = [call]
    return result


def _calls_of_range(row: int, names: list[str], ranges: NvtxRanges) -> list[_NcclCall]:
    """Return the call of a range or, if the range ends a group, all calls of the group."""
    first = row
    if names[row] == _GROUP_END:
        while first and names[first - 1] != _GROUP_END:
            first -= 1
    calls = []
    payload_codes = ranges.columns["payload"]
    for member in range(first, row + 1):
        name, payload = names[member], ranges.payloads[int(payload_codes[member])]
        if _CHANNELS in payload and member != row:
            continue
        if _SIZE in payload and _COMMUNICATOR in payload:
            calls.append(_NcclCall(name, payload[_COMMUNICATOR], payload[_SIZE]))
        elif not payload and name in _COLLECTIVES:
            calls.append(_NcclCall(name))
    return calls


_WAITS, _RECORDS = "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION", "CUPTI_ACTIVITY_KIND_CUDA_EVENT"
#: Columns that identify a recorded event.
_EVENT = ["process", "has_sync", "event"]
_KINDS = {1: "event", 2: "stream waits for event", 3: "stream", 4: "context"}
_STREAM_WAITS = 2
_NONE = (-1, (1 << 32) - 1)
#: Limit for the clones followed from a node to the captured node.
_MAX_CLONES = 16

ArgsOfCalls = dict[int, dict[str, Any]]


def wait_args(database: Database, calls: Columns) -> ArgsOfCalls:
    """Return args that show what each call waits for."""
    recordings = _rows_by_event(database, _RECORDS)
    without_sync = recordings.assign(has_sync=False, event=recordings["eventId"])
    recordings = pd.concat([recordings, without_sync]).sort_values(["correlationId", "streamId"])
    recordings = recordings.assign(record=recordings["correlationId"])
    waits = _rows_by_event(database, _WAITS, "syncType").sort_values("correlationId", kind="stable")
    # For each wait, the last recording before it.
    pairs: Any = pd.merge_asof(
        waits, recordings[["correlationId", *_EVENT, "record", "streamId"]], "correlationId",
        by=_EVENT, allow_exact_matches=False, suffixes=("", "_of_record"),
    ).fillna(-1).astype(np.int64)  # fmt: skip
    args_of = {(wait.process, wait.correlationId): _wait_args(wait) for wait in pairs.itertuples()}
    rows = np.flatnonzero(np.isin(calls["correlation"], pairs["correlationId"]))
    ids = zip(*(calls[name][rows].tolist() for name in ("process", "correlation")), strict=True)
    calls_by_row = zip(rows.tolist(), ids, strict=True)
    return {row: args_of[call] for row, call in calls_by_row if call in args_of}


def _wait_args(wait: Any) -> dict[str, Any]:
    """Return the args for a row of waits that is joined with the recording that ends the wait."""
    is_stream_wait = wait.syncType == _STREAM_WAITS
    stream_key = "waiting stream" if is_stream_wait else "waited stream"
    ids = {stream_key: wait.streamId, "waited event": wait.eventId}
    args: dict[str, Any] = {
        "synchronization": _KINDS.get(wait.syncType, f"type {wait.syncType}"),
        **{key: number for key, number in ids.items() if number not in _NONE},
    }
    if is_stream_wait and wait.record >= 0:
        args["wait_on_cuda_event_record_corr_id"] = wait.record
        args["wait_on_stream"] = wait.streamId_of_record
    return args


def _rows_by_event(database: Database, table: str, further: str = "") -> pd.DataFrame:
    """Return rows with their event: ``eventSyncId`` or else ``eventId``."""
    columns = f"globalPid correlationId streamId {further}"
    rows = pd.DataFrame(database.integers(table, columns, optional="eventId eventSyncId"))
    has_sync = ~rows["eventSyncId"].isin(_NONE)
    event = rows["eventSyncId"].where(has_sync, rows["eventId"])
    process = processes_of(rows["globalPid"].to_numpy())
    return rows.assign(process=process, has_sync=has_sync, event=event)


def capture_args(
    database: Database, kernels: Columns, calls: Columns, names: StringPool
) -> ArgsOfCalls:
    """Return kernel and node for each call that captured a kernel."""
    nodes = database.integers(
        "CUDA_GRAPH_NODE_EVENTS", "start globalTid graphNodeId", optional="originalGraphNodeId"
    )
    if not len(nodes["start"]):
        return {}
    node_of_kernel = _captured_nodes(nodes, kernels["graph_node"])
    is_captured = node_of_kernel >= 0
    is_captured &= processes_of(nodes["globalTid"])[node_of_kernel] == kernels["process"]
    pairs, _ = distinct_rows(node_of_kernel[is_captured], kernels["name"][is_captured])
    captured = np.array([node for node, _ in pairs], np.int64)
    call_of_pair = _calls_at(calls, nodes["globalTid"][captured], nodes["start"][captured])
    node_ids = nodes["graphNodeId"][captured].tolist()
    return {
        call: {"kernel": names[name], "graph node id": node_id}
        for (_, name), call, node_id in zip(pairs, call_of_pair.tolist(), node_ids, strict=True)
        if call >= 0
    }


def _calls_at(calls: Columns, threads: Ints, times_ns: Ints) -> Ints:
    """Return the call running on each thread at each time; -1 if there is none."""
    thread = (calls["process"] << ID_BITS) | calls["thread"]
    columns = {"thread": thread, "time_ns": calls["start_ns"], "call": np.arange(len(thread))}
    begins, instants = (
        pd.DataFrame(frame).sort_values("time_ns", kind="stable")
        for frame in (columns, {"thread": threads, "time_ns": times_ns})
    )
    # The call that began last is the current one unless it has ended.
    last = pd.merge_asof(instants, begins, "time_ns", by="thread").set_index(instants.index)["call"]
    call = last.sort_index().fillna(-1).to_numpy(np.int64)
    is_inside = np.append(calls["end_ns"], NO_TIME)[call] >= times_ns
    return np.where(is_inside, call, -1)


def _captured_nodes(nodes: Columns, node_ids: Ints) -> Ints:
    """Return, for each node of an instance, the row of the captured node; -1 if unknown."""
    rows = first_positions(nodes["graphNodeId"], node_ids)
    rows[node_ids < 0] = -1
    for _ in range(_MAX_CLONES):
        originals = first_positions(nodes["graphNodeId"], nodes["originalGraphNodeId"][rows])
        rows = np.where((rows >= 0) & (originals >= 0), originals, rows)
    return rows
