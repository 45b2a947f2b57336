"""Communicators and sizes of NCCL's kernels, from the payloads of NCCL's ranges.

NCCL pushes a range per call, whose payload has the communicator and the size of a message. The
kernel is launched within that range, or within ``ncclGroupEnd`` after the calls of a group::

    ncclGroupStart  ncclAllReduce {communicator, size}  ncclGroupEnd [cuLaunchKernelEx → kernel]

A communicator has the same id on all ranks, so it identifies their process group.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from hta_widgets.analysis.cross_rank.comm_events import bytes_of
from hta_widgets.formats.nsight.tables import MARK, EventBlock
from hta_widgets.trace.arrays import Ints
from hta_widgets.trace.columns import COMMUNICATION_KEYS, ArgTable, StringPool, arg_table

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
#: Type of elements in a kernel's name. NCCL's other kernels, such as all-gathers, move bytes.
_DTYPE = re.compile(r"_([iu](?:8|16|32|64)|f(?:16|32|64)|bf16)_")
_DTYPES = {"i": "int", "u": "uint", "f": "float", "b": "bfloat"}
#: Ranges that are nested within the range of a call.
_MAX_NESTED = 16


@dataclass(frozen=True, slots=True)
class Communicators:
    """Facts that the initialization of communicators states.

    Attributes
    ----------
    sizes : dict of int to int
        Number of ranks by communicator.
    rank : int or None
        The rank in the largest communicator.
    """

    sizes: Mapping[int, int]
    rank: int | None


def read_communicators(
    payloads: Sequence[Mapping[str, int]], device: int | None = None
) -> Communicators:
    """Return the sizes of communicators, and the rank, from the payloads of a rank's ranges.

    Only what is stated of `device` gives the rank of a process with several devices.
    """
    inits = [payload for payload in payloads if {_COMMUNICATOR, _RANKS, _RANK} <= set(payload)]
    sizes = {payload[_COMMUNICATOR]: payload[_RANKS] for payload in inits}
    if device is not None:
        inits = [payload for payload in inits if payload.get(_DEVICE) == device]
    largest = max(inits, key=lambda payload: payload[_RANKS], default=None)
    return Communicators(sizes, None if largest is None else largest[_RANK])


@dataclass(frozen=True, slots=True)
class _NcclCall:
    """A call of NCCL with a payload."""

    name: str
    communicator: int
    size_bytes: int


def communication_args(
    records: Ints,
    kernels: EventBlock,
    calls: EventBlock,
    ranges: EventBlock,
    pool: StringPool,
    payloads: Mapping[int, Mapping[str, int]],
) -> ArgTable | None:
    """Return the args of a rank's NCCL kernels, which have the ascending numbers `records`."""
    sizes = read_communicators([payloads.get(row, {}) for row in ranges.rowid.tolist()]).sizes
    names = [pool[code] for code in kernels.name.tolist()]
    numbers, texts = [], []
    for record, kernel, launched in zip(
        records.tolist(), names, _calls_of_kernels(kernels, calls, ranges, pool, payloads),
        strict=True,
    ):  # fmt: skip
        if launched:
            args = _args_of(kernel, launched, sizes)
            numbers.append(record)
            texts.append(b"\0".join(_json(args.get(key)) for key in COMMUNICATION_KEYS))
    return arg_table(numbers, texts)


def _json(value: object) -> bytes:
    return b"" if value is None else json.dumps(value).encode()


def _args_of(kernel: str, calls: list[_NcclCall], sizes: Mapping[int, int]) -> dict[str, Any]:
    """Return the args of a kernel that does the work of some calls."""
    communicators = {call.communicator for call in calls}
    if len(communicators) > 1:
        return {}
    communicator = calls[0].communicator
    ranks = sizes.get(communicator)
    operations = {_COLLECTIVES.get(call.name) for call in calls}
    operation = operations.pop() if len(operations) == 1 else None
    args: dict[str, Any] = {
        "Process Group Name": f"NCCL {communicator:016x}",
        "Group size": ranks,
        "Collective name": operation,
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


def _calls_of_kernels(
    kernels: EventBlock,
    calls: EventBlock,
    ranges: EventBlock,
    pool: StringPool,
    payloads: Mapping[int, Mapping[str, int]],
) -> list[list[_NcclCall]]:
    """Return for each kernel the calls whose work it does; none if they are not known."""
    launch_of = _launches(kernels, calls)
    result: list[list[_NcclCall]] = [[] for _ in range(len(kernels))]
    threads = np.append(calls.thread, -1)[launch_of]
    for thread in np.unique(threads[launch_of >= 0]).tolist():
        on_thread = ranges.take(np.flatnonzero((ranges.thread == thread) & (ranges.kind != MARK)))
        on_thread = on_thread.take(np.argsort(on_thread.start_ns, kind="stable"))
        places = np.flatnonzero(threads == thread)
        at_ns = calls.start_ns[launch_of[places]]
        order = np.argsort(at_ns, kind="stable")
        calls_of_launches = _calls_on_thread(at_ns[order], on_thread, pool, payloads)
        for place, calls_of_kernel in zip(places[order].tolist(), calls_of_launches, strict=True):
            result[place] = calls_of_kernel
    return result


def _launches(kernels: EventBlock, calls: EventBlock) -> Ints:
    """Return the call that launched each kernel, -1 for none."""
    if not len(calls):
        return np.full(len(kernels), -1, np.int64)
    order = np.argsort(calls.correlation, kind="stable")
    ids = calls.correlation[order]
    positions = np.maximum(np.searchsorted(ids, kernels.correlation, side="right") - 1, 0)
    return np.where(ids[positions] == kernels.correlation, order[positions], -1)


def _calls_on_thread(
    launches_ns: Ints,
    ranges: EventBlock,
    pool: StringPool,
    payloads: Mapping[int, Mapping[str, int]],
) -> list[list[_NcclCall]]:
    """Return the calls for each launch of a thread; launches and ranges are in order of time."""
    names = [pool[code] for code in ranges.name.tolist()]
    starts, ends = ranges.start_ns.tolist(), ranges.end_ns.tolist()
    around = [
        _range_around(launch, starts, ends, names, index)
        for launch, index in zip(
            launches_ns.tolist(),
            np.searchsorted(ranges.start_ns, launches_ns, side="right").tolist(),
            strict=True,
        )
    ]
    kernels_of = Counter(around)
    seen: Counter[int] = Counter()
    result = []
    for place in around:
        calls = [] if place < 0 else _calls_of_range(place, names, ranges, payloads)
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
        if starts[place] <= launch_ns <= ends[place] and _CALL.fullmatch(names[place]):
            outermost = place
    return outermost


def _calls_of_range(
    place: int, names: list[str], ranges: EventBlock, payloads: Mapping[int, Mapping[str, int]]
) -> list[_NcclCall]:
    """Return the call of a range, or the calls of the group that it ends."""
    first = place
    if names[place] == _GROUP_END:
        while first and names[first - 1] != _GROUP_END:
            first -= 1
    calls = []
    for number in range(first, place + 1):
        payload = payloads.get(int(ranges.rowid[number]), {})
        if _SIZE in payload and _COMMUNICATOR in payload:
            calls.append(_NcclCall(names[number], payload[_COMMUNICATOR], payload[_SIZE]))
    return calls
