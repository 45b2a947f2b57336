"""The requests that a BytePS server was sent: whose, for which key, in which iteration."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from hta_widgets.trace.derived import derived_once

if TYPE_CHECKING:
    from hta_widgets.trace.trace import Trace

__all__ = [
    "REQUEST",
    "Requests",
    "is_key",
    "last_push_end",
    "node_label",
    "requests_of",
    "servers_of_keys",
]

Ints = npt.NDArray[np.int64]
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


@derived_once("byteps server")
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

    Parameters
    ----------
    keys : sequence of uint64 arrays
        Of each file, distinct.

    Returns
    -------
    servers : int
        0 where no number fits.
    meaning : list of mappings
        Of each file, from key to (server, raw key).
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
