"""Bytes between ranks in all-to-all collectives, from the splits in the files.

Splits are rows of the first dimension, so rank i sends ``nelems · split[j] / sum(split)`` elements
to member j. For example, 40960 elements of 2 bytes in splits ``[4, 2, 3, 1]`` are 32768, 16384,
24576 and 8192 bytes. With the name ``all_to_all`` and an empty list, all members get equal shares.
Mixtures of experts distribute tokens unevenly, and the matrix shows which ranks receive the most.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final, Literal, NamedTuple

import numpy as np
import pandas as pd

from hta_widgets.analysis.cross_rank.comm_events import (
    MAX_ELEMENTS,
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
from hta_widgets.trace.trace import Trace
from hta_widgets.trace.traceset import Selection, TraceSet

_ALL_TO_ALL: Final = OPERATIONS.index("all_to_all")
_ARGS: Final = (
    "Collective name", "In msg nelems", "Out msg nelems", "dtype", "In split size",
    "Out split size",
)  # fmt: skip
_SCHEMA: Any = {
    "group": "str",
    **dict.fromkeys(("sender", "receiver", "count", "bytes"), "int64"),
    "share": "float64",
    **dict.fromkeys(("local", "same_node"), "bool"),
    "source": "str",
}


class _Exchange(NamedTuple):
    """The bytes in one call between a rank and a peer, according to one of them."""

    group: str
    sender: int
    receiver: int
    size_bytes: int
    is_equal: bool  # whether the splits are equal
    source: str  # the rank that states the splits, as sender or receiver


@dataclass(frozen=True, slots=True)
class _RankTraffic:
    rank: int
    header: JobHeader
    exchanges: list[_Exchange]
    calls: int
    unknown: int  # number of calls without splits or sizes


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
    """Return the bytes that each rank sends to each other rank in all-to-all collectives.

    Parameters
    ----------
    traces : TraceSet
    by : {"rank", "node"}
        Return rows for pairs of ranks, or for pairs of nodes.
    gpus_per_node : int, optional
        Ranks per node. By default, host names in the files separate nodes; without them, the number
        of devices listed in a file is used.
    selection, window, ranks : Selection, (start_ns, end_ns), iterable of int, optional
        The communication kernels to analyze, restricted by time and ranks. Default: all.

    Returns
    -------
    DataFrame
        One row per ``group``, ``sender`` and ``receiver``, sorted by these. ``count``, the number
        of collectives; ``bytes``; ``share``, the share of the sender's bytes; ``local``, whether a
        rank sends to itself, which is a copy; ``same_node``; ``source``, whose splits were used:
        ``sender``, ``receiver``, or ``equal split`` if the splits are equal.

        ``.attrs``: ``unknown``, the number of collectives without splits or sizes; ``mismatches``,
        the number of pairs for which both ranks' sums are known and differ; ``imbalance``, the
        bytes of the rank or node that receives the most divided by the mean, without local copies,
        None if unknown; ``inter_node_bytes``; ``nodes``: ``file``, ``given`` or ``assumed``.

    Examples
    --------
    >>> matrix = all_to_all_matrix(traces)  # doctest: +SKIP
    >>> matrix.pivot(index="sender", columns="receiver", values="bytes")  # doctest: +SKIP
    """
    parts = rank_parts(traces, selection, window, ranks)
    results = list(map_ranks(parts, _traffic_of_rank))
    exchanges = [exchange for traffic in results for exchange in traffic.exchanges]
    rows, mismatches = _sums_of_pairs(exchanges)
    peers = {*rows["sender"].tolist(), *rows["receiver"].tolist()}
    headers = {traffic.rank: traffic.header for traffic in results}
    node_of, nodes_from = node_numbers(headers, peers | set(parts.ranks), gpus_per_node)
    sender_node, receiver_node = (rows[key].map(node_of) for key in ("sender", "receiver"))
    rows["same_node"] = sender_node == receiver_node
    rows["local"] = rows["sender"] == rows["receiver"]
    if by == "node":
        rows = rows.assign(sender=sender_node, receiver=receiver_node, local=False)
    frame = _matrix(rows)
    calls = sum(traffic.calls for traffic in results)
    note = ""
    if not results:
        note = note_text("no_ranks")
    elif not calls:
        note = "no all-to-all collectives"
    elif frame.empty:
        note = "no all-to-all records its sizes and splits"
    return result_frame(
        {name: frame[name] for name in _SCHEMA},
        matched={"collectives": calls},
        note=note,
        unknown=sum(traffic.unknown for traffic in results),
        mismatches=mismatches,
        imbalance=_imbalance(frame),
        inter_node_bytes=int(rows.loc[~rows["same_node"], "bytes"].sum()),
        nodes=nodes_from,
    )


def _matrix(rows: pd.DataFrame) -> pd.DataFrame:
    matrix = rows.groupby(["group", "sender", "receiver"], as_index=False).agg(
        {"count": "sum", "bytes": "sum", "local": "all", "same_node": "all", "source": "first"}
    )
    sent = matrix.groupby(["group", "sender"])["bytes"].transform("sum")
    return matrix.assign(share=matrix["bytes"] / sent.where(sent > 0)).astype(_SCHEMA)


def _imbalance(matrix: pd.DataFrame) -> float | None:
    """Return the most bytes received from others, relative to the mean; None if unknown."""
    received = matrix[~matrix["local"]].groupby("receiver")["bytes"].sum()
    has_traffic = len(received) > 0 and received.mean() > 0
    return float(received.max() / received.mean()) if has_traffic else None


def _sums_of_pairs(exchanges: list[_Exchange]) -> tuple[pd.DataFrame, int]:
    """Return one row per group, sender and receiver, and the number of mismatched pairs."""
    schema = {
        "group": "str", "sender": "int64", "receiver": "int64", "bytes": "int64",
        "is_equal": "bool", "source": "str",
    }  # fmt: skip
    pair = ["group", "sender", "receiver"]
    table = pd.DataFrame(columns_of_rows(exchanges, schema))
    sums = table.groupby([*pair, "source"], sort=False).agg(
        count=("bytes", "size"), bytes=("bytes", "sum"), is_equal=("is_equal", "all")
    )
    # Use the side with more calls, as the other's lists are truncated, or else the sender's.
    sums = sums.reset_index().sort_values(["count", "source"], ascending=[False, False])
    # `both` has a row from either side of each pair; if the sides agree, these are duplicates.
    both = sums[sums.duplicated([*pair, "count"], keep=False)]
    mismatches = len(both.drop_duplicates([*pair, "bytes"])) - len(both) // 2
    sums = sums.drop_duplicates(pair)
    sums["source"] = sums["source"].mask(sums["is_equal"], "equal split")
    return sums.drop(columns="is_equal"), mismatches


def _traffic_of_rank(part: RankPart) -> _RankTraffic:
    trace, events = part.trace, comm_events(part.trace)
    chosen = np.flatnonzero((events.operation == _ALL_TO_ALL) & part.contains(events.rows))
    start, end = part.clip_rows(events.rows[chosen])
    chosen = chosen[end > start]
    exchanges: list[_Exchange] = []
    unknown = 0
    for place, stated in zip(chosen.tolist(), split_args(trace, events.rows[chosen]), strict=True):
        group = events.groups[int(events.group[place])]
        splits = {way: split_bytes(stated, way, len(group.ranks)) for way in ("In", "Out")}
        unknown += all(split is None for split in splits.values())
        for way, split in splits.items():
            is_equal, is_sent = str(stated[f"{way} split size"]) == "[]", way == "In"
            source = "sender" if is_sent else "receiver"
            for peer, size in zip(group.ranks, split or (), strict=False):
                sender, receiver = (part.rank, peer) if is_sent else (peer, part.rank)
                exchanges.append(_Exchange(group.name, sender, receiver, size, is_equal, source))
    return _RankTraffic(part.rank, job_header(trace), exchanges, len(chosen), unknown)


def split_args(trace: Trace, rows: Rows) -> list[dict[str, Any]]:
    """Return the args that `split_bytes` reads, from all-to-all events or from their operators."""
    args = event_args(trace, rows, _ARGS)
    of_operator = event_args(trace, np.maximum(recorded_operators(trace, rows), 0), _ARGS)
    sources = [of_operator if name is None else args for name in args["Collective name"]]
    return [{key: source[key][at] for key in _ARGS} for at, source in enumerate(sources)]


def split_bytes(args: dict[str, Any], way: str, members: int) -> list[int] | None:
    """Return the bytes for each group member; None if the args do not state them.

    `way` is ``"In"`` for what the rank sends, and ``"Out"`` for what it receives.

    Examples
    --------
    >>> args = {"In msg nelems": 300, "dtype": "Float", "In split size": "[100, 200]"}
    >>> split_bytes(args, "In", 2)
    [400, 800]
    """
    elements, item_bytes = args.get(f"{way} msg nelems"), bytes_of(str(args.get("dtype")))
    try:
        split = json.loads(str(args.get(f"{way} split size")))
    except ValueError:  # the list is missing or was truncated
        return None
    if type(elements) is not int or not 0 <= elements < MAX_ELEMENTS or item_bytes <= 0:
        return None
    if not members or not isinstance(split, list):
        return None
    if not split:
        is_equal = str(args.get("Collective name")) == "all_to_all"
        return [elements * item_bytes // members] * members if is_equal else None
    if len(split) != members or not all(type(rows) is int and rows >= 0 for rows in split):
        return None
    return [elements * item_bytes * rows // max(sum(split), 1) for rows in split]
