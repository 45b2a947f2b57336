"""Columns of BytePS events: totals and stages of a worker, requests of a server."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pandas as pd

from hta_widgets.trace.arrays import Bools, Ints
from hta_widgets.trace.memo import memoize

if TYPE_CHECKING:
    from hta_widgets.trace.trace import Trace

Keys = npt.NDArray[np.uint64]

PREFIX = "Comm."
#: Name of the thread that holds the total synchronizations of a tensor.
TOTAL = "total"
#: Stages in pipeline order. Stages that only occur in forks are inserted by time.
STAGES: tuple[str, ...] = (
    *("COORDINATE_REDUCE", "REDUCE", "COPYD2H", "PCIE_REDUCE", "COORDINATE_PUSH", "COMPRESS"),
    *("PUSH", "PULL", "DECOMPRESS", "COPYH2D", "COORDINATE_BROADCAST", "BROADCAST"),
)

#: Stage code of total synchronizations; -1 stands for any other event.
_TOTAL_CODE = -2
#: Category of requests that were open at the end of the file. Other async events are not requests.
OPEN_REQUEST = "open request"
REQUEST = re.compile(r"(push|pull)-([0-9]{1,9})")
_KEYS = 1 << 64
_RAW_KEYS = 1 << 32
#: Assumed maximum number of servers of a job.
_MAX_SERVERS = 4096


@dataclass(slots=True)
class TotalRows:
    """Total synchronizations, each of one tensor in one step."""

    row: Ints  # id of the event
    tensor: Ints  # position in `WorkerRows.tensors`
    step: Ints
    start_ns: Ints
    dur_ns: Ints


@dataclass(slots=True)
class StageRows:
    """Stages of partitions, sorted by (tensor, key, step), then in pipeline order."""

    row: Ints
    tensor: Ints
    key: Ints
    stage: Ints  # position in `WorkerRows.stages`
    step: Ints
    start_ns: Ints
    dur_ns: Ints
    #: time since the end of the previous stage or, in a first stage, since the start of the total
    queue_ns: Ints
    #: whether the stage is the partition's first in this step
    first: Bools
    #: whether the partition has all of its stages in this step; otherwise the file is truncated and
    #: the queues are unknown
    complete: Bools


@dataclass(slots=True)
class WorkerRows:
    """Totals and stages in the file of a worker."""

    tensors: list[str]  # without the prefix
    stages: list[str]  # in pipeline order
    totals: TotalRows
    parts: StageRows
    others: int  # number of events that are neither totals nor stages

    @property
    def recorded_stages(self) -> set[str]:
        """Names of the stages in the file."""
        return {self.stages[code] for code in np.unique(self.parts.stage).tolist()}

    @property
    def is_root(self) -> bool:
        """Whether the file belongs to the GPU that communicates with the servers.

        Without servers, this is the GPU that coordinates the other GPUs.
        """
        names = self.recorded_stages
        if names & {"PUSH", "PULL"}:
            return True
        return bool(names) and not any(name.startswith("COORDINATE_") for name in names)


def stage_of(pid: str, tid: str, name: str) -> str | None:
    """Return the stage of an event; `TOTAL` for a total synchronization, None for other events."""
    if not pid.startswith(PREFIX) or not name.startswith(pid):
        return None
    if tid == TOTAL:
        return TOTAL if name == pid else None
    stage = name[len(pid) :]
    digits = tid.removeprefix("-")
    if len(stage) < 2 or stage[0] != "." or not digits.isdecimal() or len(digits) > 18:
        return None
    return stage[1:]


@memoize
def worker_rows(trace: Trace) -> WorkerRows:
    """Return the rows of a worker's trace, with the times of `Trace.table`."""
    table = trace.table
    tensors: dict[str, int] = {}
    stages: dict[str, int] = {name: code for code, name in enumerate(STAGES)}
    pairs, pair_of_row = np.unique(
        table.track.astype(np.int64) * max(len(table.names), 1) + table.name, return_inverse=True
    )
    facts_of_pair = np.full((len(pairs), 3), -1, np.int64)  # tensor, stage (`_TOTAL_CODE`), key
    for pair_facts, pair in zip(facts_of_pair, pairs.tolist(), strict=True):
        track = table.tracks[pair // len(table.names)]
        stage_name = stage_of(track.pid, track.tid, table.names[pair % len(table.names)])
        if stage_name is None:
            continue
        tensor_code = tensors.setdefault(track.pid.removeprefix(PREFIX), len(tensors))
        if stage_name == TOTAL:
            pair_facts[:] = tensor_code, _TOTAL_CODE, -1
        else:
            stage_code = stages.setdefault(stage_name, len(stages))
            pair_facts[:] = tensor_code, stage_code, int(track.tid)
    tensor, stage, key = facts_of_pair[pair_of_row].T
    step, start, dur = table.step, table.start_ns, table.dur_ns
    total_rows, part = np.flatnonzero(stage == _TOTAL_CODE), np.flatnonzero(stage >= 0)
    totals = TotalRows(
        total_rows, tensor[total_rows], step[total_rows], start[total_rows], dur[total_rows]
    )
    part = part[np.lexsort((stage[part], start[part], step[part], key[part], tensor[part]))]
    parts = StageRows(
        row=part,
        tensor=tensor[part],
        key=key[part],
        stage=stage[part],
        step=step[part],
        start_ns=start[part],
        dur_ns=dur[part],
        queue_ns=np.zeros(len(part), np.int64),
        first=np.zeros(len(part), np.bool_),
        complete=np.zeros(len(part), np.bool_),
    )
    if len(part):
        _add_queues(parts, totals)
    names = _sort_stages(list(stages), parts)
    return WorkerRows(list(tensors), names, totals, parts, len(table) - len(total_rows) - len(part))


def _add_queues(rows: StageRows, totals: TotalRows) -> None:
    """Set the queue time of each stage, and the flags `first` and `complete`."""
    first = np.ones(len(rows.row), np.bool_)
    first[1:] = (np.diff(rows.tensor) != 0) | (np.diff(rows.key) != 0) | (np.diff(rows.step) != 0)
    # A task is ready for a stage at the end of its previous stage, which is in the row above.
    ready_ns = np.roll(rows.start_ns + rows.dur_ns, 1)
    tensors = int(max(rows.tensor.max(), totals.tensor.max(initial=0))) + 1
    steps = int(max(rows.step.max(), totals.step.max(initial=0))) + 1
    total_start = np.full((tensors, steps), -1)
    total_start[totals.tensor, totals.step] = totals.start_ns
    step_start = total_start[rows.tensor[first], rows.step[first]]
    # A truncated file may lack the total, so that the wait before the first stage is unknown.
    ready_ns[first] = np.where(step_start >= 0, step_start, rows.start_ns[first])
    rows.queue_ns, rows.first = rows.start_ns - ready_ns, first
    visits = pd.DataFrame({"tensor": rows.tensor, "key": rows.key, "visit": np.cumsum(first)})
    visits["stages"] = visits.groupby("visit")["visit"].transform("size")
    most_stages = visits.groupby(["tensor", "key"])["stages"].transform("max")
    rows.complete = (visits["stages"] == most_stages).to_numpy()


def _sort_stages(names: list[str], rows: StageRows) -> list[str]:
    """Insert unknown stages after the stages that precede them, and renumber the rows."""
    position = np.arange(len(names), dtype=np.float64)
    for code in range(len(STAGES), len(names)):
        rows_of_stage = np.flatnonzero((rows.stage == code) & ~rows.first)
        before = rows.stage[rows_of_stage - 1]
        position[code] = before[before < len(STAGES)].max(initial=-1) + 0.5
    order = np.argsort(position, kind="stable")
    rows.stage = np.argsort(order)[rows.stage]
    return [names[code] for code in order.tolist()]


@dataclass(slots=True)
class Requests:
    """Requests of a server, sorted by arrival.

    Times count from `Trace.zero_ns`. Requests that were open at the end of the file have an
    ``end_ns`` and a ``row`` of -1.
    """

    row: Ints  # id of the event
    key: Keys
    push: Bools
    node: Ints
    iteration: Ints
    start_ns: Ints
    end_ns: Ints

    def __len__(self) -> int:
        return len(self.row)

    @property
    def is_answered(self) -> Bools:
        """Whether each request was answered before the end of the file."""
        return self.end_ns >= 0


def node_label(node: int) -> str:
    """Return the label of a ps-lite node id. Workers are 9, 11, 13 …; servers are even numbers."""
    return f"node {node}" if node < 8 else f"node {node} (ps rank {(node - 8) // 2})"


def is_key(text: str) -> bool:
    """Return whether a process id is a key, that is, an unsigned 64-bit number."""
    return text.isdecimal() and len(text) <= 20 and int(text) < _KEYS


@memoize
def requests_of(trace: Trace) -> Requests:
    """Return the requests of a server's trace."""
    table, asyncs = trace.table, trace.async_table
    # Operation and node for each name; the node is -1 if the name is not a request's.
    matches = [REQUEST.fullmatch(name) for name in table.names.values]
    is_push = np.array([match is not None and match[1] == "push" for match in matches], np.bool_)
    node = np.array([int(match[2]) if match else -1 for match in matches], np.int64)
    is_request = node >= 0
    # For each track, whether it has a key, and the key.
    pids = [track.pid for track in table.tracks]
    has_key = np.array([is_key(pid) for pid in pids], np.bool_)
    key = np.array([int(pid) if is_key(pid) else 0 for pid in pids], np.uint64)
    rows = np.flatnonzero(is_request[table.name] & has_key[table.track])
    # Requests that were open at the end of the file are async events.
    is_open = (asyncs.category == table.categories.find(OPEN_REQUEST)) & is_request[asyncs.name]
    open_requests = [row for row in np.flatnonzero(is_open).tolist() if is_key(asyncs.pid[row])]
    open_key = np.array([int(asyncs.pid[row]) for row in open_requests], np.uint64)
    iteration = np.array([int(asyncs.async_id[row]) for row in open_requests], np.int64)
    open_rows = np.array(open_requests, np.int64)
    name = np.concatenate([table.name[rows], asyncs.name[open_rows]])
    start = np.concatenate([table.start_ns[rows], asyncs.start_ns[open_rows]]).astype(np.int64)
    missing = np.full(len(open_rows), -1)
    order = np.argsort(start, kind="stable")
    return Requests(
        row=np.concatenate([rows, missing]).astype(np.int64)[order],
        key=np.concatenate([key[table.track[rows]], open_key])[order],
        push=is_push[name][order],
        node=node[name][order],
        iteration=np.concatenate([table.step[rows], iteration]).astype(np.int64)[order],
        start_ns=start[order],
        end_ns=np.concatenate([table.end_ns[rows], missing]).astype(np.int64)[order],
    )


def last_push_end(requests: Requests) -> Ints:
    """Return when the last push of each request's key and iteration ended; -1 if unknown."""
    done = np.where(requests.push & requests.is_answered, requests.end_ns, -1)
    groups = pd.Series(done).groupby([requests.key, requests.iteration])
    return np.asarray(groups.transform("max"), np.int64)


def servers_of_keys(keys: Sequence[Keys]) -> tuple[int, list[Mapping[int, tuple[int, int]]]]:
    """Return the number of servers, and each file's keys as (server, raw key).

    The keys of a server are ``server * floor((2**64 - 1) / servers) + raw key``. The number of
    servers is the smallest for which all raw keys have at most 32 bits and each tensor's
    partitions, taken over all files of the job, begin at 0. It is 0 if no number is possible.
    """
    all_keys = [int(key) for file in keys for key in file.tolist()]
    for servers in range(max(1, len(keys)), _MAX_SERVERS):
        stride = (_KEYS - 1) // servers
        raw_keys = [key % stride for key in all_keys]
        if max(raw_keys, default=0) >= _RAW_KEYS or max(all_keys, default=0) // stride >= servers:
            continue
        # Lowest partition of each tensor: the last one in this order overwrites the others.
        first = {key >> 16: key & 0xFFFF for key in sorted(raw_keys, reverse=True)}.values()
        # If some files are missing, so are some partitions, but never every tensor's first one.
        if min(first, default=0) == 0 and max(first, default=0) < 1 << 15:
            return servers, [{key: divmod(key, stride) for key in file.tolist()} for file in keys]
    return 0, [{} for _ in keys]
