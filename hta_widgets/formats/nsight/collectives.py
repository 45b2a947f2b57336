"""Communicators and sizes of NCCL's kernels, from the payloads of NCCL's ranges.

NCCL pushes a range per call. Its payload has the communicator and the size of a message. The
kernel is launched within that range, or within ``ncclGroupEnd`` after the calls of a group::

    ncclGroupStart  ncclAllReduce {communicator, size}  ncclGroupEnd [cuLaunchKernelEx → kernel]

A communicator has the same id on all ranks, so it identifies their process group. In exports
without payloads, ranges still name the operations of generic kernels (``ncclDevKernel_Generic``).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from hta_widgets.analysis.cross_rank.comm_events import bytes_of
from hta_widgets.formats.event_rows import values_by_id
from hta_widgets.formats.nsight.nvtx import NvtxRanges
from hta_widgets.formats.nsight.tables import Columns
from hta_widgets.trace.arrays import Ints
from hta_widgets.trace.columns import StringPool

_COMMUNICATOR, _SIZE = "NCCL communicator ID", "Message size [bytes]"
_RANKS, _RANK, _DEVICE = "No. of ranks", "Rank", "CUDA device"
#: A field of the payload of a kernel's range; such a range repeats the range of the call.
_CHANNELS = "No. of channels"
_GROUP_END = "ncclGroupEnd"
#: Names of c10d by names of NCCL. Sends and receives are named by their kernel, since their peers
#: are numbered within the communicator.
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
#: Collectives whose stated size is the size of one rank's part.
_SIZED_BY_PART = {"allgather", "reduce_scatter"}
_CALL = re.compile(r"nccl[A-Z]\w+")
#: Kernels that run any operation; their name does not state it.
_GENERIC = re.compile(r"generic", re.IGNORECASE)
#: Type of elements in a kernel's name. NCCL's other kernels, such as all-gathers, move bytes.
_DTYPE = re.compile(r"_([iu](?:8|16|32|64)|f(?:16|32|64)|bf16)_")
_DTYPES = {"i": "int", "u": "uint", "f": "float", "b": "bfloat"}
#: Maximum number of ranges before a launch that are searched for the range around it.
_MAX_NESTED = 16


class _NcclCall(NamedTuple):
    """A call of NCCL; the communicator is None without a payload."""

    name: str
    communicator: int | None = None
    size_bytes: int = -1


def _initializations(ranges: NvtxRanges) -> list[Mapping[str, int]]:
    """Return the payloads that initialize a communicator."""
    payloads = (ranges.payloads[number] for number in np.unique(ranges.columns["payload"]).tolist())
    return [payload for payload in payloads if {_COMMUNICATOR, _RANKS, _RANK} <= set(payload)]


def rank_in_communicators(ranges: NvtxRanges, device: int | None = None) -> int | None:
    """Return the rank in the largest communicator of a process; None if no payload states it.

    With `device`, only communicators of this device count.
    """
    inits = _initializations(ranges)
    if device is not None:
        inits = [payload for payload in inits if payload.get(_DEVICE) == device]
    return max(inits, key=lambda payload: payload[_RANKS])[_RANK] if inits else None


def communication_args(
    kernels: Columns, calls: Columns, ranges: NvtxRanges, pool: StringPool
) -> list[dict[str, Any]]:
    """Return the args of NCCL's kernels of a process."""
    group_sizes = {payload[_COMMUNICATOR]: payload[_RANKS] for payload in _initializations(ranges)}
    names = [pool[code] for code in kernels["name"].tolist()]
    launched = _calls_of_kernels(kernels, calls, ranges, pool)
    return [_args_of(*pair, group_sizes) for pair in zip(names, launched, strict=True)]


def _args_of(kernel: str, calls: list[_NcclCall], group_sizes: Mapping[int, int]) -> dict[str, Any]:
    """Return the known args of a kernel that does the work of some calls."""
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
    """Return the function of NCCL that a range names, with or without its prefix; "" for none."""
    if _CALL.fullmatch(text):
        return text
    name = f"nccl{text}"
    return name if name in _COLLECTIVES or name == _GROUP_END else ""


def _calls_of_kernels(
    kernels: Columns, calls: Columns, ranges: NvtxRanges, pool: StringPool
) -> list[list[_NcclCall]]:
    """Return the calls of NCCL whose work each kernel does; none if they are unknown."""
    result: list[list[_NcclCall]] = [[] for _ in kernels["name"]]
    # Both are -1 for kernels without a launch.
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
    """Return the calls for each launch of a thread; launches and ranges are in order of time."""
    columns = ranges.columns
    names = [_call_name(pool[code]) for code in columns["name"].tolist()]
    starts_ns, ends_ns = columns["start_ns"].tolist(), columns["end_ns"].tolist()
    first_later = np.searchsorted(columns["start_ns"], launches_ns, side="right").tolist()
    range_of_launch = []
    for launch_ns, later in zip(launches_ns.tolist(), first_later, strict=True):
        around = (
            row
            for row in range(max(later - _MAX_NESTED, 0), later)
            if starts_ns[row] <= launch_ns <= ends_ns[row] and names[row]
        )
        range_of_launch.append(next(around, -1))  # the first one is the outermost
    launches_in_range = Counter(range_of_launch)
    launches_before: Counter[int] = Counter()
    result = []
    for row in range_of_launch:
        calls = [] if row < 0 else _calls_of_range(row, names, ranges)
        number, count = launches_before[row], launches_in_range[row]
        launches_before[row] += 1
        if count == 1 or not calls:
            result.append(calls)
        elif len(calls) == count:  # each kernel does the work of one call
            result.append([calls[number]])
        else:
            result.append([])
    return result


def _calls_of_range(row: int, names: list[str], ranges: NvtxRanges) -> list[_NcclCall]:
    """Return the call of a range, or the calls of the group that the range ends."""
    first = row
    if names[row] == _GROUP_END:
        while first and names[first - 1] != _GROUP_END:
            first -= 1
    calls = []
    for place in range(first, row + 1):
        payload = ranges.payloads[int(ranges.columns["payload"][place])]
        if _CHANNELS in payload and place != row:
            continue
        if _SIZE in payload and _COMMUNICATOR in payload:
            calls.append(_NcclCall(names[place], payload[_COMMUNICATOR], payload[_SIZE]))
        elif not payload and names[place] in _COLLECTIVES:
            calls.append(_NcclCall(names[place]))
    return calls
