"""Communicators and sizes of NCCL's kernels, from the payloads of NCCL's ranges.

NCCL pushes a range per call, whose payload has the communicator and the size of a message. The
kernel is launched within that range, or within ``ncclGroupEnd`` after the calls of a group::

    ncclGroupStart  ncclAllReduce {communicator, size}  ncclGroupEnd [cuLaunchKernelEx → kernel]

A communicator has the same id on all ranks, so it identifies their process group. Exports without
payloads still name the operations of generic kernels (``ncclDevKernel_Generic``).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np

from hta_widgets.analysis.cross_rank.comm_events import bytes_of
from hta_widgets.formats.event_rows import select_rows
from hta_widgets.formats.nsight.nvtx import NvtxRanges
from hta_widgets.formats.nsight.tables import Columns
from hta_widgets.trace.arrays import Ints, first_positions
from hta_widgets.trace.columns import StringPool

_COMMUNICATOR, _SIZE = "NCCL communicator ID", "Message size [bytes]"
_RANKS, _RANK, _DEVICE = "No. of ranks", "Rank", "CUDA device"
_GROUP_END = "ncclGroupEnd"
#: c10d's names by NCCL's. Sends and receives are named by their kernel: their peers are numbered
#: within the communicator.
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
#: Collectives whose message is the part of one rank.
_OF_PARTS = {"allgather", "reduce_scatter"}
_CALL = re.compile(r"nccl[A-Z]\w+")
#: Kernels that run any operation, which their name does not state.
_GENERIC = re.compile(r"generic", re.IGNORECASE)
#: Type of elements in a kernel's name. NCCL's other kernels, such as all-gathers, move bytes.
_DTYPE = re.compile(r"_([iu](?:8|16|32|64)|f(?:16|32|64)|bf16)_")
_DTYPES = {"i": "int", "u": "uint", "f": "float", "b": "bfloat"}
#: Ranges that are nested within the range of a call.
_MAX_NESTED = 16


class _NcclCall(NamedTuple):
    """A call of NCCL; without a payload, its communicator is not known."""

    name: str
    communicator: int | None = None
    size_bytes: int = -1


def _initializations(payloads: Iterable[Mapping[str, int]]) -> list[Mapping[str, int]]:
    """Return the payloads of the initialization of communicators."""
    return [payload for payload in payloads if {_COMMUNICATOR, _RANKS, _RANK} <= set(payload)]


def rank_in_communicators(ranges: NvtxRanges, device: int | None = None) -> int | None:
    """Return the rank in the largest communicator of a process; None if no payload states it.

    Only what is stated of `device` gives the rank of a process with several devices.
    """
    payloads = (ranges.payloads[number] for number in np.unique(ranges.columns["payload"]).tolist())
    inits = [
        payload
        for payload in _initializations(payloads)
        if device is None or payload.get(_DEVICE) == device
    ]
    return max(inits, key=lambda payload: payload[_RANKS])[_RANK] if inits else None


def communication_args(
    kernels: Columns, calls: Columns, ranges: NvtxRanges, pool: StringPool
) -> list[dict[str, Any]]:
    """Return the args of NCCL's kernels of a process."""
    payloads = (ranges.payloads[number] for number in np.unique(ranges.columns["payload"]).tolist())
    sizes = {payload[_COMMUNICATOR]: payload[_RANKS] for payload in _initializations(payloads)}
    names = [pool[code] for code in kernels["name"].tolist()]
    launched = _calls_of_kernels(kernels, calls, ranges, pool)
    return [_args_of(*pair, sizes) for pair in zip(names, launched, strict=True)]


def _args_of(kernel: str, calls: list[_NcclCall], sizes: Mapping[int, int]) -> dict[str, Any]:
    """Return the args of a kernel that does the work of some calls, without those unknown."""
    communicators = {call.communicator for call in calls}
    if len(communicators) != 1:
        return {}
    communicator = calls[0].communicator
    operations = {_COLLECTIVES.get(call.name) for call in calls}
    operation = operations.pop() if len(operations) == 1 else None
    if communicator is None:
        is_generic = _GENERIC.search(kernel) is not None
        return {"Collective name": operation} if is_generic and operation is not None else {}
    ranks = sizes.get(communicator)
    args: dict[str, Any] = {
        "Process Group Name": f"NCCL {communicator:016x}",
        **({} if ranks is None else {"Group size": ranks}),
        **({} if operation is None else {"Collective name": operation}),
    }
    size = sum(call.size_bytes for call in calls)
    match = _DTYPE.search(kernel)
    dtype = "uint8" if match is None else _DTYPES[match[1][0]] + match[1].lstrip("iubf")
    elements, rest = divmod(size, bytes_of(dtype))
    if operation is None or rest or size < 0:
        return args
    if operation not in _OF_PARTS:
        ranks = 1
    if ranks is None:  # the size of the whole is not known
        return args
    return {
        **args,
        "dtype": dtype,
        "In msg nelems": elements if operation == "allgather" else elements * ranks,
        "Out msg nelems": elements if operation == "reduce_scatter" else elements * ranks,
    }


def _call_name(text: str) -> str:
    """Return the name of NCCL's function of a range, whose prefix newer versions drop; or ""."""
    if _CALL.fullmatch(text):
        return text
    name = f"nccl{text}"
    return name if name in _COLLECTIVES or name == _GROUP_END else ""


def _calls_of_kernels(
    kernels: Columns, calls: Columns, ranges: NvtxRanges, pool: StringPool
) -> list[list[_NcclCall]]:
    """Return the calls whose work each kernel does; none if they are unknown."""
    result: list[list[_NcclCall]] = [[] for _ in kernels["name"]]
    launch_of = first_positions(calls["correlation"], kernels["correlation"])
    launch_of[kernels["correlation"] < 0] = -1
    threads = np.append(calls["thread"], -1)[launch_of]
    launches_ns = np.append(calls["start_ns"], 0)[launch_of]
    for thread in np.unique(threads[threads >= 0]).tolist():
        on_thread = ranges.select(ranges.columns["thread"] == thread)
        order = np.argsort(on_thread.columns["start_ns"], kind="stable")
        on_thread.columns = select_rows(on_thread.columns, order)
        places = np.flatnonzero(threads == thread)
        places = places[np.argsort(launches_ns[places], kind="stable")]
        calls_of_launches = _calls_on_thread(launches_ns[places], on_thread, pool)
        for place, calls_of_kernel in zip(places.tolist(), calls_of_launches, strict=True):
            result[place] = calls_of_kernel
    return result


def _calls_on_thread(
    launches_ns: Ints, ranges: NvtxRanges, pool: StringPool
) -> list[list[_NcclCall]]:
    """Return the calls for each launch of a thread; launches and ranges are in order of time."""
    columns = ranges.columns
    names = [_call_name(pool[code]) for code in columns["name"].tolist()]
    starts, ends = columns["start_ns"].tolist(), columns["end_ns"].tolist()
    first_later = np.searchsorted(columns["start_ns"], launches_ns, side="right").tolist()
    around = [
        _range_around(launch, starts, ends, names, index)
        for launch, index in zip(launches_ns.tolist(), first_later, strict=True)
    ]
    kernels_of = Counter(around)
    seen: Counter[int] = Counter()
    result = []
    for place in around:
        calls = [] if place < 0 else _calls_of_range(place, names, ranges)
        number, count = seen[place], kernels_of[place]
        seen[place] += 1
        if count == 1 or not calls:
            result.append(calls)
        else:  # several kernels: one for each call, else it is unknown which is whose
            result.append([calls[number]] if len(calls) == count else [])
    return result


def _range_around(
    launch_ns: int, starts: list[int], ends: list[int], names: list[str], index: int
) -> int:
    """Return the outermost range of NCCL around a launch, -1 for none."""
    outermost = -1
    for place in range(index - 1, max(index - 1 - _MAX_NESTED, -1), -1):
        if starts[place] <= launch_ns <= ends[place] and names[place]:
            outermost = place
    return outermost


def _calls_of_range(place: int, names: list[str], ranges: NvtxRanges) -> list[_NcclCall]:
    """Return the call of a range, or the calls of the group that it ends."""
    first = place
    if names[place] == _GROUP_END:
        while first and names[first - 1] != _GROUP_END:
            first -= 1
    calls = []
    for number in range(first, place + 1):
        payload = ranges.payloads[int(ranges.columns["payload"][number])]
        if _SIZE in payload and _COMMUNICATOR in payload:
            calls.append(_NcclCall(names[number], payload[_COMMUNICATOR], payload[_SIZE]))
        elif not payload and names[number] in _COLLECTIVES:
            calls.append(_NcclCall(names[number]))
    return calls
