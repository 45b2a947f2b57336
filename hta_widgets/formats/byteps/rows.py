"""Stages, partitions, requests as columns."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from hta_widgets.trace.memo import memoized

if TYPE_CHECKING:
    from hta_widgets.trace.trace import Trace


Ints = npt.NDArray[np.int64]

#: What tensors' names begin with.
PREFIX = "Comm."
#: The thread of a tensor's whole synchronisation.
TOTAL = "total"
#: In the order of the pipeline. Forks have others: they are placed by time.
STAGES: tuple[str, ...] = (
    "COORDINATE_REDUCE",
    "REDUCE",
    "COPYD2H",
    "PCIE_REDUCE",
    "COORDINATE_PUSH",
    "COMPRESS",
    "PUSH",
    "PULL",
    "DECOMPRESS",
    "COPYH2D",
    "COORDINATE_BROADCAST",
    "BROADCAST",
)


@dataclass(slots=True)
class TotalRows:
    """Whole synchronisations: of a tensor, in a step."""

    row: Ints  # id of the event
    tensor: Ints  # position in `WorkerRows.tensors`
    step: Ints
    start_ns: Ints
    dur_ns: Ints


@dataclass(slots=True)
class StageRows:
    """Stages of partitions, sorted by (tensor, key, step) and along the pipeline within them."""

    row: Ints
    tensor: Ints
    key: Ints
    stage: Ints  # position in `WorkerRows.stages`
    step: Ints
    start_ns: Ints
    dur_ns: Ints
    #: since the stage before ended; of a first stage, since the total began
    queue_ns: Ints
    #: whether it is the first of its partition and step
    first: npt.NDArray[np.bool_]
    #: whether its partition has in this step every stage that it has in any: of a cut file it
    #: may not, and then its queues are not known
    complete: npt.NDArray[np.bool_]


@dataclass(slots=True)
class WorkerRows:
    """The events of one worker's file by what they are."""

    tensors: list[str]  # without the prefix
    stages: list[str]  # in the order of the pipeline
    totals: TotalRows
    parts: StageRows
    #: events that are neither
    others: int = field(default=0)

    @property
    def is_root(self) -> bool:
        """Whether the file is of the GPU that talks to the servers: it waits for no other's word.

        Without servers it is the one that gives the others the word.
        """
        names = [self.stages[code] for code in np.unique(self.parts.stage).tolist()]
        if any(name in {"PUSH", "PULL"} for name in names):
            return True
        return bool(names) and not any(name.startswith("COORDINATE_") for name in names)


def declared_key(key: Ints) -> Ints:
    """Return which tensor in the order of declaration a key is of."""
    return key >> 16


def partition(key: Ints) -> Ints:
    """Return which partition of its tensor a key is."""
    return key & 0xFFFF


def stage_of(pid: str, tid: str, name: str) -> str | None:
    """Return the stage of an event, `TOTAL` for a tensor's whole, or None where it is neither."""
    if not pid.startswith(PREFIX) or not name.startswith(pid):
        return None
    if tid == TOTAL:
        return TOTAL if name == pid else None
    stage = name[len(pid) :]
    digits = tid.removeprefix("-")
    if len(stage) < 2 or stage[0] != "." or not digits.isdecimal() or len(digits) > 18:
        return None
    return stage[1:]


def nth_of_group(group: Ints) -> Ints:
    """Return how many earlier entries of the same group each entry has."""
    order = np.argsort(group, kind="stable")
    sorted_group = group[order]
    starts = np.flatnonzero(np.diff(sorted_group, prepend=sorted_group[:1] - 1))
    sizes = np.diff(np.append(starts, len(group)))
    nth = np.empty(len(group), np.int64)
    nth[order] = np.arange(len(group)) - np.repeat(starts, sizes)
    return nth


@memoized
def worker_rows(trace: Trace) -> WorkerRows:
    """Return the rows of a worker's trace; worked out once per trace.

    Times are those of `Trace.table`. Steps are those of its ``step`` column.
    """
    table = trace.table
    tensors: dict[str, int] = {}
    stages: dict[str, int] = {name: code for code, name in enumerate(STAGES)}
    pair = table.track.astype(np.int64) * max(len(table.names), 1) + table.name
    unique, inverse = np.unique(pair, return_inverse=True)
    of_pair = np.full((len(unique), 3), -1, np.int64)  # tensor, stage (-2: total), key
    for place, code in enumerate(unique.tolist()):
        track = table.tracks[code // len(table.names)]
        stage = stage_of(track.pid, track.tid, table.names[code % len(table.names)])
        if stage is None:
            continue
        tensor = tensors.setdefault(track.pid.removeprefix(PREFIX), len(tensors))
        if stage == TOTAL:
            of_pair[place] = tensor, -2, -1
        else:
            of_pair[place] = tensor, stages.setdefault(stage, len(stages)), int(track.tid)
    tensor, stage, key = of_pair[inverse.reshape(-1)].T
    whole, part = np.flatnonzero(stage == -2), np.flatnonzero(stage >= 0)
    totals = TotalRows(
        whole, tensor[whole], table.step[whole], table.start_ns[whole], table.dur_ns[whole]
    )
    parts = _queued(
        StageRows(
            part,
            tensor[part],
            key[part],
            stage[part],
            table.step[part],
            table.start_ns[part],
            table.dur_ns[part],
            np.empty(0, np.int64),
            np.empty(0, np.bool_),
            np.empty(0, np.bool_),
        ),
        totals,
    )
    names, parts.stage = _in_order(list(stages), parts)
    return WorkerRows(list(tensors), names, totals, parts, len(table) - len(whole) - len(part))


def _queued(rows: StageRows, totals: TotalRows) -> StageRows:
    """Sort along the pipeline, and work out how long each stage's task waited before it."""
    order = np.lexsort((rows.stage, rows.start_ns, rows.step, rows.key, rows.tensor))
    for name in ("row", "tensor", "key", "stage", "step", "start_ns", "dur_ns"):
        setattr(rows, name, getattr(rows, name)[order])
    if not len(order):
        return rows
    first = np.ones(len(order), np.bool_)
    first[1:] = (np.diff(rows.tensor) != 0) | (np.diff(rows.key) != 0) | (np.diff(rows.step) != 0)
    ready = np.empty(len(order), np.int64)
    ready[1:] = (rows.start_ns + rows.dur_ns)[:-1]
    steps = int(max(rows.step.max(), totals.step.max(initial=0))) + 1
    began = np.full((int(max(rows.tensor.max(), totals.tensor.max(initial=0))) + 1) * steps, -1)
    began[totals.tensor * steps + totals.step] = totals.start_ns
    own = began[(rows.tensor * steps + rows.step)[first]]
    # Of a cut file the total may be missing: what was waited before the first stage is unknown.
    ready[first] = np.where(own >= 0, own, rows.start_ns[first])
    rows.queue_ns, rows.first = rows.start_ns - ready, first
    starts = np.flatnonzero(first)
    sizes = np.diff(np.append(starts, len(order)))
    new_key = (np.diff(rows.tensor[starts], prepend=-1) != 0) | (
        np.diff(rows.key[starts], prepend=rows.key[0] - 1) != 0
    )
    of_key = np.cumsum(new_key) - 1
    most = np.zeros(int(of_key[-1]) + 1, np.int64)
    np.maximum.at(most, of_key, sizes)
    rows.complete = np.repeat(sizes == most[of_key], sizes)
    return rows


def _in_order(names: list[str], rows: StageRows) -> tuple[list[str], Ints]:
    """Put stages that are not BytePS's own behind those that they follow."""
    place = np.arange(len(names), dtype=np.float64)
    for code in range(len(STAGES), len(names)):
        at = np.flatnonzero((rows.stage == code) & ~rows.first)
        before = rows.stage[at - 1]
        before = before[before < len(STAGES)]
        place[code] = (float(before.max()) if len(before) else -1.0) + 0.5
    order = np.argsort(place, kind="stable")
    code_of = np.empty(len(names), np.int64)
    code_of[order] = np.arange(len(names))
    return [names[code] for code in order.tolist()], code_of[rows.stage]


if TYPE_CHECKING:
    from hta_widgets.trace.trace import Trace


Keys = npt.NDArray[np.uint64]

REQUEST = re.compile(r"(push|pull)-([0-9]{1,9})")
_KEYS = 1 << 64
_RAW_KEYS = 1 << 32
#: More servers than any job has.
_MOST_SERVERS = 4096


@dataclass(slots=True)
class Requests:
    """Requests of one server, sorted by arrival.

    Times are since `Trace.zero_ns`. Requests that were open when the file ended have an
    ``end_ns`` of -1 and a ``row`` of -1.
    """

    row: Ints  # id of the event
    key: Keys
    push: npt.NDArray[np.bool_]
    node: Ints
    iteration: Ints
    start_ns: Ints
    end_ns: Ints

    def __len__(self) -> int:
        return len(self.row)

    @property
    def closed(self) -> npt.NDArray[np.bool_]:
        """Whether the request was answered while the file was written."""
        return self.end_ns >= 0


def node_label(node: int) -> str:
    """Return what ps-lite's node id tells: workers are 9, 11, 13 …, servers even numbers."""
    if node < 8:
        return f"node {node}"
    return f"node {node} (ps rank {(node - 8) // 2})"


def is_key(text: str) -> bool:
    """Whether a process id is a key: a number of 64 bits, without a sign."""
    return text.isdecimal() and len(text) <= 20 and int(text) < _KEYS


@memoized
def requests_of(trace: Trace) -> Requests:
    """Return the requests of a server's trace; worked out once per trace."""
    table, asyncs = trace.table, trace.async_table
    parsed = [REQUEST.fullmatch(name) for name in table.names.values]
    is_request = np.array([found is not None for found in parsed], np.bool_)
    is_push = np.array([found is not None and found[1] == "push" for found in parsed], np.bool_)
    node = np.array([int(found[2]) if found else -1 for found in parsed], np.int64)
    keyed = [is_key(track.pid) for track in table.tracks]
    key = np.array(
        [int(track.pid) if good else 0 for track, good in zip(table.tracks, keyed, strict=True)],
        np.uint64,
    )
    rows = np.flatnonzero(is_request[table.name]) if len(table) else np.empty(0, np.int64)
    rows = rows[np.array(keyed, np.bool_)[table.track[rows]]] if len(rows) else rows
    opened = np.flatnonzero(is_request[asyncs.name] & (asyncs.record >= 0))
    opened = opened[np.array([is_key(asyncs.pid[at]) for at in opened.tolist()], np.bool_)]
    open_name = asyncs.name[opened]
    start = np.concatenate([table.start_ns[rows], asyncs.start_ns[opened]]).astype(np.int64)
    order = np.argsort(start, kind="stable")
    name = np.concatenate([table.name[rows], open_name])
    return Requests(
        row=np.concatenate([rows, np.full(len(opened), -1)]).astype(np.int64)[order],
        key=np.concatenate(
            [
                key[table.track[rows]] if len(rows) else key[:0],
                np.array([int(asyncs.pid[at]) for at in opened.tolist()], np.uint64),
            ]
        )[order],
        push=is_push[name][order],
        node=node[name][order],
        iteration=np.concatenate(
            [
                table.step[rows],
                np.array([int(asyncs.async_id[at]) for at in opened.tolist()], np.int64),
            ]
        )[order].astype(np.int64),
        start_ns=start[order],
        end_ns=np.concatenate([table.end_ns[rows], np.full(len(opened), -1)]).astype(np.int64)[
            order
        ],
    )


def last_push_end(requests: Requests) -> Ints:
    """Return for each request when the last push of its key and iteration was done, -1: unknown."""
    result = np.full(len(requests), -1, np.int64)
    if not len(requests):
        return result
    pairs = np.stack([requests.key.view(np.int64), requests.iteration])
    group = np.unique(pairs, axis=1, return_inverse=True)[1].reshape(-1)
    last = np.full(int(group.max()) + 1, -1, np.int64)
    done = requests.push & requests.closed
    np.maximum.at(last, group[done], requests.end_ns[done])
    return last[group]


def servers_of_keys(keys: Sequence[Keys]) -> tuple[int, list[Mapping[int, tuple[int, int]]]]:
    """Tell what keys on the wire mean, from the keys of all servers' files of a job.

    A server's keys are ``server * floor((2**64 - 1) / servers) + raw key``. The number of servers
    is the smallest for which raw keys have 32 bits at most and every tensor's partitions, which
    are counted over all files, begin at 0.
    """
    every = [int(key) for file in keys for key in file.tolist()]
    for servers in range(max(1, len(keys)), _MOST_SERVERS):
        stride = (_KEYS - 1) // servers
        raw = [key % stride for key in every]
        if max(raw, default=0) >= _RAW_KEYS or max(every, default=0) // stride >= servers:
            continue
        first: dict[int, int] = {}
        for key in raw:
            first[key >> 16] = min(first.get(key >> 16, 1 << 16), key & 0xFFFF)
        # With few files some partitions are on servers that are not here, but never all first ones.
        if min(first.values(), default=0) == 0 and max(first.values(), default=0) < 1 << 15:
            return servers, [
                {int(key): divmod(int(key), stride) for key in file.tolist()} for file in keys
            ]
    return 0, [{} for _ in keys]
