"""Bytes between ranks in all-to-all collectives, by the splits that the files state.

Splits are rows of the first dimension, so rank i sends member j ``nelems · split[j] / sum(split)``
elements. For example, 40960 elements of 2 bytes in splits ``[4, 2, 3, 1]`` are 32768, 16384, 24576
and 8192 bytes. A name ``all_to_all`` with an empty list gives each member the same. Experts' tokens
are spread unevenly, and the matrix shows which ranks get most.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final, Literal, NamedTuple

import numpy as np
import pandas as pd

from hta_widgets.analysis.cross_rank.comm_events import (
    OPERATIONS,
    JobHeader,
    bytes_of,
    comm_events,
    job_header,
    recorded_operators,
)
from hta_widgets.analysis.cross_rank.nodes import node_numbers
from hta_widgets.analysis.frames import columns_of_rows, result_frame
from hta_widgets.analysis.map_ranks import map_ranks
from hta_widgets.analysis.scope import RankPart, Window, rank_parts
from hta_widgets.arguments import Positive, check_arguments
from hta_widgets.facts import note_text
from hta_widgets.trace.arrays import Rows
from hta_widgets.trace.columns import event_args
from hta_widgets.trace.selection import Selection
from hta_widgets.trace.trace import Trace
from hta_widgets.trace.traceset import TraceSet

_ALL_TO_ALL: Final = OPERATIONS.index("all_to_all")
_ARGS: Final = (
    "Collective name", "In msg nelems", "Out msg nelems", "dtype", "In split size",
    "Out split size",
)  # fmt: skip
_SCHEMA: Final = {
    "group": "str",
    **dict.fromkeys(("sender", "receiver", "count", "bytes"), "int64"),
    "share": "float64",
    **dict.fromkeys(("local", "same_node"), "bool"),
    "source": "str",
}


class _PeerTraffic(NamedTuple):
    """Exchange of a rank with a peer: calls, their bytes, and whether all are split equally."""

    calls: int = 0
    size_bytes: int = 0
    is_equal: bool = True

    def plus(self, size_bytes: int, *, is_equal: bool) -> _PeerTraffic:
        """Return the traffic with one more call."""
        both_equal = self.is_equal and is_equal
        return _PeerTraffic(self.calls + 1, self.size_bytes + size_bytes, both_equal)


@dataclass(frozen=True, slots=True)
class _RankTraffic:
    """The traffic of a rank by group and peer."""

    rank: int
    header: JobHeader
    sent: dict[tuple[str, int], _PeerTraffic]
    received: dict[tuple[str, int], _PeerTraffic]
    calls: int
    unknown: int


@check_arguments
def all_to_all_matrix(
    traces: TraceSet,
    *,
    by: Literal["rank", "node"] = "rank",
    gpus_per_node: Positive | None = None,
    selection: Selection | None = None,
    window: Window | None = None,
    ranks: Iterable[int] | None = None,
) -> pd.DataFrame:
    """Return the bytes that each rank sends to each other in all-to-all collectives.

    Parameters
    ----------
    traces : TraceSet
    by : {"rank", "node"}
        Rows of pairs of ranks, or of pairs of nodes.
    gpus_per_node : int, optional
        Ranks of a node. By default host names in the files separate nodes, else the number of
        devices that a file lists is assumed.
    selection : Selection, optional
        The communication kernels; all by default.
    window, ranks : (start_ns, end_ns), iterable of int, optional
        Narrow the selection in time and to ranks. A collective counts if its kernel is selected.

    Returns
    -------
    DataFrame
        One row per group, sender and receiver, in this order: ``count`` of collectives, ``bytes``;
        ``share`` of the sender's bytes; ``local``, to itself, a copy; ``same_node``; ``source``:
        ``sender`` or ``receiver``, whose splits they are, or ``equal split``.

        ``.attrs``: ``unknown``, collectives without splits or sizes; ``mismatches``, pairs for
        which both ranks' sums are known and differ; ``imbalance``, the bytes of the rank or node
        that receives most over the mean, without local copies, None if unknown;
        ``inter_node_bytes``; ``nodes``: ``file``, ``given`` or ``assumed``.

    Examples
    --------
    >>> matrix = all_to_all_matrix(traces)  # doctest: +SKIP
    >>> matrix.pivot(index="sender", columns="receiver", values="bytes")  # doctest: +SKIP
    """
    parts = rank_parts(traces, selection, window, ranks)
    results = list(map_ranks(parts, _traffic_of_rank))
    pairs, mismatches = _pairs(results)
    peers = {peer for each in results for _, peer in (*each.sent, *each.received)}
    headers = {each.rank: each.header for each in results}
    node_of, nodes_from = node_numbers(headers, peers | set(parts.ranks), gpus_per_node)
    rows = pd.DataFrame(columns_of_rows(pairs, {key: _SCHEMA[key] for key in _PAIR}))
    sender, receiver = (rows[key].map(node_of) for key in ("sender", "receiver"))
    rows = rows.assign(same_node=sender == receiver, local=rows["sender"] == rows["receiver"])
    inter_bytes = int(rows.loc[~rows["same_node"], "bytes"].sum())
    if by == "node":
        rows = rows.assign(sender=sender, receiver=receiver, local=False)
    keys = ["group", "sender", "receiver"]
    groups = rows.groupby(keys, sort=True)
    frame = groups[["count", "bytes"]].sum()
    frame = frame.join(groups[["local", "same_node"]].all()).join(groups["source"].first())
    frame = frame.reset_index()
    sent = frame.groupby(["group", "sender"])["bytes"].transform("sum")
    frame["share"] = frame["bytes"] / sent.where(sent > 0)
    received = frame[~frame["local"]].groupby("receiver")["bytes"].sum()
    has_traffic = len(received) and received.mean() > 0
    calls, unknown = (sum(getattr(each, key) for each in results) for key in ("calls", "unknown"))
    dtypes: Any = _SCHEMA
    none = "no all-to-all collectives" if not calls else "no all-to-all states its sizes and splits"
    return result_frame(
        {name: frame.astype(dtypes)[name] for name in _SCHEMA},
        matched={"collectives": calls},
        note=note_text("no_ranks") if not results else none if frame.empty else "",
        unknown=unknown,
        mismatches=mismatches,
        imbalance=float(received.max() / received.mean()) if has_traffic else None,
        inter_node_bytes=inter_bytes,
        nodes=nodes_from,
    )


_PAIR: Final = ("group", "sender", "receiver", "count", "bytes", "source")


def _pairs(results: list[_RankTraffic]) -> tuple[list[tuple[Any, ...]], int]:
    """Return group, sender, receiver, count, bytes and source, and the number of mismatches."""
    rows, mismatches = [], 0
    received = {
        (group, peer, each.rank): value
        for each in results
        for (group, peer), value in each.received.items()
    }
    for each in results:
        for (group, peer), (count, size, is_equal) in each.sent.items():
            other = received.pop((group, each.rank, peer), None)
            if other is not None and other.calls > count:
                # Some of the sender's lists are cut.
                received[group, each.rank, peer] = other
                continue
            mismatches += other is not None and other.calls == count and other.size_bytes != size
            rows.append(
                (group, each.rank, peer, count, size, "equal split" if is_equal else "sender")
            )
    rows += [
        (group, sender, receiver, count, size, "equal split" if is_equal else "receiver")
        for (group, sender, receiver), (count, size, is_equal) in received.items()
    ]
    return rows, mismatches


def _traffic_of_rank(part: RankPart) -> _RankTraffic:
    trace, events = part.trace, comm_events(part.trace)
    chosen = np.flatnonzero((events.operation == _ALL_TO_ALL) & part.contains(events.rows))
    start, end = part.clip_rows(events.rows[chosen])
    chosen = chosen[end > start]
    sent: dict[tuple[str, int], _PeerTraffic] = {}
    received: dict[tuple[str, int], _PeerTraffic] = {}
    unknown = 0
    for place, stated in zip(chosen.tolist(), split_args(trace, events.rows[chosen]), strict=True):
        group = events.groups[int(events.group[place])]
        sizes = [split_bytes(stated, way, len(group.ranks)) for way in ("In", "Out")]
        unknown += sizes[0] is None and sizes[1] is None
        for sums, split, way in zip((sent, received), sizes, ("In", "Out"), strict=True):
            is_equal = str(stated[f"{way} split size"]) == "[]"
            for peer, size in zip(group.ranks, split or (), strict=False):
                key = group.name, peer
                sums[key] = sums.get(key, _PeerTraffic()).plus(size, is_equal=is_equal)
    return _RankTraffic(part.rank, job_header(trace), sent, received, len(chosen), unknown)


def split_args(trace: Trace, rows: Rows) -> list[dict[str, Any]]:
    """Return the args of all-to-all events that `split_bytes` reads, or of their operators."""
    args = event_args(trace, rows, _ARGS)
    of_operator = event_args(trace, np.maximum(recorded_operators(trace, rows), 0), _ARGS)
    sources = [of_operator if name is None else args for name in args["Collective name"]]
    return [{key: source[key][at] for key in _ARGS} for at, source in enumerate(sources)]


def split_bytes(args: dict[str, Any], way: str, members: int) -> list[int] | None:
    """Return the bytes for each member of a group, None if the args do not have them.

    Examples
    --------
    >>> args = {"In msg nelems": 300, "dtype": "Float", "In split size": "[100, 200]"}
    >>> split_bytes(args, "In", 2)
    [400, 800]
    """
    elements, item_bytes = args.get(f"{way} msg nelems"), bytes_of(str(args.get("dtype")))
    try:
        split = json.loads(str(args.get(f"{way} split size")))
    except ValueError:  # none, or a list that was cut
        return None
    if type(elements) is not int or item_bytes <= 0 or not members or not isinstance(split, list):
        return None
    if not split:
        is_equal = str(args.get("Collective name")) == "all_to_all"
        return [elements * item_bytes // members] * members if is_equal else None
    if len(split) != members or not all(type(rows) is int and rows >= 0 for rows in split):
        return None
    return [elements * item_bytes * rows // max(sum(split), 1) for rows in split]
