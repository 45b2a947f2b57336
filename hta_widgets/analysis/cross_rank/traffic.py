"""Bytes that each rank sends in collectives, within its node and to other nodes.

Files do not state the algorithm of a collective, so bytes are the minimum over all algorithms. With
a message of S bytes, and n ranks on h nodes, m of them on the sender's node:

==============================  ======================  ======================
collective                      a rank sends            to other nodes
==============================  ======================  ======================
all-reduce                      ``2·S·(n-1)/n``         ``2·S·(h-1)/h/m``
all-gather, reduce-scatter      ``S·(n-1)/n``           ``S·(h-1)/h/m``
broadcast, reduce               ``S·(n-1)/n``           ``S·(h-1)/n``
==============================  ======================  ======================

For example, 4 ranks on 2 nodes all-reduce 100 bytes. Each sends 150, and 50 of them leave the node.
The bytes of all-to-alls and sends are exact, because the file has their splits and peers.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final

import numpy as np
import pandas as pd

from hta_widgets.analysis.cross_rank.all_to_all import split_args, split_bytes
from hta_widgets.analysis.cross_rank.collectives import bus_factor
from hta_widgets.analysis.cross_rank.comm_events import (
    CommEvents,
    batched_sends,
    operation_codes,
    stated_rank,
)
from hta_widgets.analysis.cross_rank.comm_groups import ProcessGroup, identify_groups
from hta_widgets.analysis.cross_rank.matching import matching
from hta_widgets.analysis.cross_rank.nodes import DeviceLink, count_nodes, device_link, node_numbers
from hta_widgets.analysis.frames import result_frame
from hta_widgets.analysis.map_ranks import map_ranks
from hta_widgets.analysis.scope import RankPart, Window, rank_parts
from hta_widgets.arguments import Positive, check_arguments
from hta_widgets.facts import note_text
from hta_widgets.trace.arrays import Floats
from hta_widgets.trace.trace import Trace
from hta_widgets.trace.traceset import Selection, TraceSet

_ALL_REDUCE: Final = operation_codes("all_reduce")
_SHARED: Final = operation_codes("all_gather", "reduce_scatter")
_UNSPLIT: Final = operation_codes("broadcast", "reduce")
_ALL_TO_ALL, _SEND_RECV = operation_codes("all_to_all", "send_recv")
_EXACT: Final = (_ALL_TO_ALL, _SEND_RECV)
_SCHEMA: Any = {
    "rank": "int64", "name": "str", "group": "str", "count": "int64", "bytes": "int64",
    "intra_node_bytes": "int64", "inter_node_bytes": "int64", "unknown": "int64", "bound": "str",
    "nodes_from": "str", "busbw_gb_s": "float64", "link_share": "float64", "link": "str",
    "peak_source": "str", "peak_certainty": "str",
}  # fmt: skip


@check_arguments
def traffic(
    traces: TraceSet,
    *,
    gpus_per_node: Positive | None = None,
    selection: Selection | None = None,
    window: Window | None = None,
    ranks: Iterable[int] | None = None,
) -> pd.DataFrame:
    """Return the bytes that each rank sends in collectives, within its node and to others.

    Files do not state algorithms, so bytes are the minimum that any algorithm needs, without the
    part that stays on the rank: twice the message of an all-reduce, and once that of an all-gather,
    reduce-scatter, broadcast or reduce. Bytes of all-to-alls and sends are exact. The bus bandwidth
    is a lower bound, because its time includes waits for other ranks, whose files it does not need.

    Parameters
    ----------
    traces : TraceSet
    gpus_per_node : int, optional
        Ranks per node. By default, host names in the files separate nodes; without them, the number
        of devices listed in a file is used.
    selection, window, ranks : Selection, (start_ns, end_ns), iterable of int, optional
        The communication kernels to count, restricted by time and ranks. Default: all. Events are
        not clipped to the window.

    Returns
    -------
    DataFrame
        One row per rank, collective name and process group, most bytes first: ``rank, name,
        group``; ``count``, the number of collectives; ``bytes``, ``intra_node_bytes,
        inter_node_bytes`` (int64, -1 unknown), sent in total, within the node and to others;
        ``unknown``, the number of collectives without sizes, splits or peers, which the sums
        exclude; ``bound``: ``exact`` or ``lower``; ``nodes_from``: ``file``, ``given`` or
        ``assumed``; ``busbw_gb_s`` and ``link_share`` (float64, NaN unknown), the highest bus
        bandwidth of an event, including waits, and its share of the rate of the rank's ``link``,
        for groups on one node; ``peak_source, peak_certainty`` of that rate.

        ``.attrs``: ``inter_node_bytes`` of all ranks; ``unknown``, the number of their collectives
        that the sums exclude.

    Examples
    --------
    >>> rows = traffic(traces)  # doctest: +SKIP
    >>> rows.groupby("name")[["intra_node_bytes", "inter_node_bytes"]].sum()  # doctest: +SKIP
    """
    parts = rank_parts(traces, selection, window, ranks)
    match = matching(traces)
    numbers, groups = identify_groups(match.traces, match.events, match.headers)
    headers = dict(zip((trace.rank for trace in match.traces), match.headers, strict=True))
    members = {rank for group in groups for rank in group.ranks}
    node_of, nodes_from = node_numbers(headers, members | set(headers), gpus_per_node)
    groups_of = [[groups[number] for number in numbers_of_rank] for numbers_of_rank in numbers]
    columns = match.traces, match.events, groups_of, match.headers
    arguments = [
        (events, groups_of_rank, node_of, device_link(header))
        for trace, events, groups_of_rank, header in zip(*columns, strict=True)
        if trace.rank in parts.ranks
    ]
    # pandas 2 warns when it concatenates empty frames.
    blocks = [block for block in map_ranks(parts, _traffic_of_rank, each=arguments) if len(block)]
    frame = pd.concat(blocks or [pd.DataFrame(columns=list(_SCHEMA))], ignore_index=True)
    frame["nodes_from"] = nodes_from
    frame = frame.astype(_SCHEMA).sort_values(
        ["rank", "bytes", "name", "group"], ascending=[True, False, True, True], ignore_index=True
    )
    note = "" if len(frame) else "no communication"
    return result_frame(
        {name: frame[name] for name in _SCHEMA},
        matched={"communication": int(frame["count"].sum())},
        note=note if parts else note_text("no_ranks"),
        inter_node_bytes=int(frame["inter_node_bytes"].clip(lower=0).sum()),
        unknown=int(frame["unknown"].sum()),
    )


def _traffic_of_rank(
    part: RankPart,
    events: CommEvents,
    groups: list[ProcessGroup],
    node_of: dict[int, int],
    link: DeviceLink,
) -> pd.DataFrame:
    calls = _calls_of_rank(part, events, groups, node_of)
    by_name = calls.groupby(["name", "group"], sort=True)
    frame = by_name[["count", "unknown"]].sum()
    frame["busbw_gb_s"] = by_name["busbw_gb_s"].max()
    for column in ("bytes", "inter_node_bytes"):
        frame[column] = np.rint(by_name[column].sum(min_count=1)).fillna(-1)
    intra_node_bytes = frame["bytes"] - frame["inter_node_bytes"]
    frame["intra_node_bytes"] = intra_node_bytes.where(frame["inter_node_bytes"] >= 0, -1)
    frame["bound"] = np.where(by_name["is_exact"].all(), "exact", "lower")
    link_share = frame["busbw_gb_s"] / link.gb_per_s
    frame["link_share"] = link_share.where(by_name["is_local"].all())
    rows: pd.DataFrame = frame.reset_index().assign(
        rank=part.rank, link=link.link, peak_source=link.source, peak_certainty=link.certainty
    )
    return rows


def _calls_of_rank(
    part: RankPart, events: CommEvents, groups: list[ProcessGroup], node_of: dict[int, int]
) -> pd.DataFrame:
    """Return the selected calls that communicate with other ranks; NaN if unknown."""
    rank, operation = stated_rank(part.trace), events.operation
    ranks = np.array([group.size for group in groups], dtype=np.int64)[events.group]
    sent, crossing = _min_bytes(events, groups, node_of, rank)
    for place, pairs in _exact_bytes(part.trace, events, groups):
        sent[place] = sum(size for peer, size in pairs if peer != rank)
        node = node_of.get(rank)
        crossing[place] = sum(size for peer, size in pairs if node_of.get(peer) != node)
    duration_ns = events.end_ns - events.start_ns
    has_rate = (events.size_bytes > 0) & (ranks > 1) & (duration_ns > 0)
    bytes_on_bus = events.size_bytes * bus_factor(operation, np.where(events.source >= 0, 2, ranks))
    columns: dict[str, Any] = {
        "name": [events.names[code] for code in events.name.tolist()],
        "group": [groups[code].label for code in events.group.tolist()],
        "count": 1,
        "unknown": np.isnan(sent),
        "bytes": sent,
        "inter_node_bytes": crossing,
        "busbw_gb_s": np.where(has_rate, bytes_on_bus / np.maximum(duration_ns, 1), np.nan),
        "is_exact": np.isin(operation, _EXACT),
        "is_local": count_nodes(groups, node_of)[events.group] == 1,
    }
    calls: pd.DataFrame = pd.DataFrame(columns)[part.contains(events.rows) & (ranks != 1)]
    return calls


def _min_bytes(
    events: CommEvents, groups: list[ProcessGroup], node_of: dict[int, int], rank: int
) -> tuple[Floats, Floats]:
    """Return the minimum bytes a rank sends, in total and to other nodes; NaN if unknown.

    `n`, `h` and `m` are as in the module docstring.
    """
    nodes = count_nodes(groups, node_of)
    member_nodes = [[node_of[member] for member in group.ranks] for group in groups]
    neighbors = [numbers.count(node_of.get(rank, -1)) for numbers in member_nodes]
    n, h, m = (
        np.array(values, dtype=np.float64)[events.group]
        for values in ([group.size for group in groups], nodes, neighbors)
    )
    n, h, m = (np.where(values > 0, values, np.nan) for values in (n, h, m))
    size = np.where(events.size_bytes >= 0, events.size_bytes, np.nan)
    kinds = [np.isin(events.operation, codes) for codes in (_ALL_REDUCE, _SHARED, _UNSPLIT)]
    sent = size * (n - 1) / n
    crossing, crossing_unsplit = size * (h - 1) / h / m, size * (h - 1) / n
    return (
        np.select(kinds, [2 * sent, sent, sent], np.nan),
        np.select(kinds, [2 * crossing, crossing, crossing_unsplit], np.nan),
    )


def _exact_bytes(
    trace: Trace, events: CommEvents, groups: list[ProcessGroup]
) -> Iterator[tuple[int, list[tuple[int, int]]]]:
    """Yield the position and the bytes per peer of each all-to-all and send with known peers."""
    places = np.flatnonzero(events.operation == _ALL_TO_ALL)
    for place, stated in zip(places.tolist(), split_args(trace, events.rows[places]), strict=True):
        members = groups[int(events.group[place])].ranks
        if (split := split_bytes(stated, "In", len(members))) is not None:
            yield place, list(zip(members, split, strict=True))
    # The host records the sends of a batch before it launches the kernel that executes them.
    is_batch = (events.operation == _SEND_RECV) & (events.source < 0)
    for name, records in batched_sends(trace).groupby("group"):
        is_of_name = np.array([group.name == name for group in events.groups], dtype=bool)
        places = np.flatnonzero(is_batch & is_of_name[events.group])
        places = places[trace.launch_of[events.rows[places]] >= 0]
        launch_ns = trace.table.start_ns[trace.launch_of[events.rows[places]]]
        places, launch_ns = places[np.argsort(launch_ns)], np.sort(launch_ns)
        batch = np.searchsorted(launch_ns, records["start_ns"].to_numpy())
        pairs = list(zip(records["peer"].tolist(), records["bytes"].tolist(), strict=True))
        for number, place in enumerate(places.tolist()):
            yield place, [pairs[row] for row in np.flatnonzero(batch == number).tolist()]
    is_message = (events.operation == _SEND_RECV) & (events.source >= 0) & (events.target >= 0)
    own_rank = stated_rank(trace)
    for place in np.flatnonzero(is_message & (events.size_bytes >= 0)).tolist():
        message = int(events.target[place]), int(events.size_bytes[place])
        yield place, [message] if events.source[place] == own_rank else []
