"""The frame of all matched collectives, with arrivals, waits, transfers and bandwidths.

For example, two ranks begin an all-reduce of 4000 bytes at 0 and 30 ns, and both end it at 80 ns.
Rank 0 waits for 30 ns. The transfer takes 50 ns, which is 80 GB/s as defined by nccl-tests. The bus
bandwidth is the same, because each link carries ``2(n-1)/n`` = 1 times the message.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict
from typing import NamedTuple

import numpy as np
import pandas as pd

from hta_widgets.analysis.cross_rank.arrivals import (
    Arrivals,
    Clock,
    arrival_times,
    compute_time_between,
    entry_steps,
)
from hta_widgets.analysis.cross_rank.clock_fit import drift_fit
from hta_widgets.analysis.cross_rank.comm_events import (
    OPERATIONS,
    count_unsized,
    operation_codes,
    unsized_note,
)
from hta_widgets.analysis.cross_rank.matching import Matching, count_selected, matching
from hta_widgets.analysis.cross_rank.nodes import (
    DeviceLink,
    count_nodes,
    device_link,
    node_numbers,
)
from hta_widgets.analysis.frames import categorical, result_frame
from hta_widgets.analysis.map_ranks import map_ranks
from hta_widgets.analysis.notes import ambiguous_note, on_hosts_note
from hta_widgets.analysis.scope import Window, narrow_selection
from hta_widgets.arguments import check_arguments
from hta_widgets.trace.arrays import Bools, Floats, Ints
from hta_widgets.trace.columns import StringPool
from hta_widgets.trace.memo import memo
from hta_widgets.trace.traceset import Selection, TraceSet

_OTHER = OPERATIONS.index("other")
#: Collectives whose members state different sizes. The largest is the size of the message.
_ROOTED = operation_codes("gather", "scatter")
#: Collectives in which each link carries 2(n-1)/n of the message, (n-1)/n of it, or all of it.
_ALL_REDUCE = operation_codes("all_reduce")
_SHARED = operation_codes("reduce_scatter", "all_gather", "all_to_all", "gather", "scatter")
_UNSPLIT = operation_codes("broadcast", "reduce", "send_recv")
#: Largest bandwidth of slow ranks, relative to the other ranks.
_SLOW_RATIO = 2 / 3


@check_arguments
def collectives(
    traces: TraceSet,
    *,
    clock: Clock | None = None,
    selection: Selection | None = None,
    window: Window | None = None,
    ranks: Iterable[int] | None = None,
) -> pd.DataFrame:
    """Return arrival, wait, transfer and bandwidth of each rank in each collective.

    A collective moves data once the last of its ranks has arrived; until then, the others wait.
    Events of different ranks are matched by process group and sequence number or, if files have no
    numbers, by order, names, sizes and times within the group. Sends are matched with their
    receives. Collectives are matched before anything is selected, so the last arrival is the last
    one among all loaded ranks. Without communication on devices, these are collectives on hosts.

    Bandwidths are defined as in nccl-tests. The algorithm bandwidth is ``size / time``. The bus
    bandwidth is this multiplied by the part of the message that each link carries: ``2(n-1)/n`` for
    all-reduce, ``(n-1)/n`` for all-gather, reduce-scatter, all-to-all, gather and scatter, 1 for
    broadcast, reduce and send-receive. Size is the larger of input and output; time excludes waits.

    Parameters
    ----------
    traces : TraceSet
    clock : {"host", "fitted"}, optional
        The clock of the times, see `TraceSet.with_clock`. Default: the trace set's clock.
    selection, window, ranks : Selection, (start_ns, end_ns), iterable of int, optional
        The events whose rows are returned, restricted by time and ranks. Default: all. Events are
        not clipped to the window.

    Returns
    -------
    DataFrame
        Sorted by collective, then by rank. ``collective`` (int64), counted from 0 in order of time;
        ``name`` (categorical), as in the file; ``operation`` (categorical), such as ``all_reduce``;
        ``group`` (categorical), the process group's name, with its ranks if names repeat, or the
        stream's name, with the ranks of the listed group that it serves if times determine that
        group; ``size_bytes`` (int64, -1 unknown); ``rank``, ``id`` and ``step`` (int64) of the
        device event; ``arrival_ns`` and ``end_ns`` (int64), its start and end; ``wait_ns`` (int64),
        last arrival minus own arrival; ``transfer_ns`` (int64), own end minus last arrival,
        negative if a rank left before the last one arrived; ``last_rank`` (int64), the last to
        arrive, -1 if several arrived at the same time; ``exposed_ns`` (int64), the part of the
        event during which the rank does not compute; ``algbw_gb_s`` and ``busbw_gb_s`` (float64,
        NaN if unknown); ``link_share`` (float64), the bus bandwidth divided by the rate of the
        rank's link, above 1 if the rate is wrong, NaN if the group is on several nodes, whose
        network is not in files; ``ranks`` and ``group_size`` (int64), the number of ranks with
        events, and that of the group (-1 unknown).

        ``.attrs["matched"]`` counts selected ``communication`` events, the collectives that are
        ``matched`` on all their ranks or ``partly_matched``, and the events that are ``unmatched``
        or in a group of one rank (``alone``). The note names missing ranks, unknown element types,
        and clock drift, which is corrected in times on the fitted clock. ``.attrs["clock"]`` is the
        clock of the times, ``.attrs["matched_by"]`` counts collectives by how they were matched,
        ``.attrs["links"]`` lists ``device, link, gb_per_s, source`` and ``certainty`` of the links.
    """
    chosen = narrow_selection(traces, selection, window, ranks)
    traces = chosen.owner
    match = matching(traces)
    clock_name = traces.clock if clock is None else clock
    times = arrival_times(traces, match, clock_name)
    drift = drift_fit(traces).note if clock_name == "fitted" else ""
    is_selected, matched = count_selected(match, chosen)
    rows = np.flatnonzero(is_selected)
    size, algorithm, bus = _bandwidths(match, times)
    name_code, names = _entry_names(match)
    links = [device_link(header) for header in match.headers]
    return result_frame(
        {
            "collective": match.collective[rows],
            "name": categorical(name_code[rows], names),
            "operation": categorical(match.event_field("operation")[rows], OPERATIONS),
            "group": categorical(match.group[rows], [group.label for group in match.groups]),
            "size_bytes": size[rows],
            "rank": np.array(traces.ranks, dtype=np.int64)[match.trace[rows]],
            "id": match.event_field("rows")[rows],
            "step": entry_steps(match)[rows],
            "arrival_ns": times.arrival_ns[rows],
            "wait_ns": times.wait_ns[rows],
            "transfer_ns": (times.end_ns - times.last_ns)[rows],
            "end_ns": times.end_ns[rows],
            "last_rank": times.last_rank[rows],
            "exposed_ns": _exposed_ns(traces, match)[rows],
            "algbw_gb_s": algorithm[rows],
            "busbw_gb_s": bus[rows],
            "link_share": _link_shares(match, links, bus)[rows],
            "ranks": match.per_entry(match.sizes())[rows],
            "group_size": match.per_entry(match.expected)[rows],
        },
        matched=matched,
        note=[*_matching_notes(match, is_selected, matched, traces), drift if len(rows) else ""],
        copy=False,
        clock=clock_name,
        matched_by=match.matched_by,
        links=[asdict(link) for link in dict.fromkeys(links) if link.device],
        groups={
            group.label: {"ranks": list(group.ranks), "size": group.size} for group in match.groups
        },
    )


def _link_shares(match: Matching, links: Sequence[DeviceLink], bus: Floats) -> Floats:
    """Return bandwidths as shares of each rank's link bandwidth; NaN for groups across nodes."""
    headers = dict(zip((trace.rank for trace in match.traces), match.headers, strict=True))
    members = {rank for group in match.groups for rank in group.ranks}
    nodes = count_nodes(match.groups, node_numbers(headers, members | set(headers))[0])
    rates = np.array([link.gb_per_s for link in links], dtype=np.float64)[match.trace]
    return np.where(nodes[match.group] == 1, bus / rates, np.nan)


def _entry_names(match: Matching) -> tuple[Ints, list[str]]:
    pool, name_code = StringPool(), match.event_field("name")
    for entries, events in zip(match.of_trace, match.events, strict=True):
        codes = np.array([pool.add(text) for text in events.names], dtype=np.int64)
        name_code[entries] = codes[name_code[entries]]
    return name_code, pool.values


def _exposed_ns(traces: TraceSet, match: Matching) -> Ints:
    def derive() -> Ints:
        start, end = match.event_field("start_ns"), match.event_field("end_ns")
        times_by_rank = [(start[entries], end[entries]) for entries in match.of_trace]
        exposed = end - start
        computed_by_rank = map_ranks(
            match.traces, compute_time_between, each=times_by_rank, executor=match.executor
        )
        for entries, computed in zip(match.of_trace, computed_by_rank, strict=True):
            exposed[entries] -= computed
        return exposed

    return memo(traces, "exposed", derive)


def _bandwidths(match: Matching, times: Arrivals) -> tuple[Ints, Floats, Floats]:
    size, operation = match.event_field("size_bytes"), match.event_field("operation")
    size = np.where(np.isin(operation, _ROOTED), match.reduce_per_entry(np.maximum, size), size)
    members = _group_sizes(match)
    transfer = times.end_ns - times.last_ns
    has_rate = (size > 0) & (transfer > 0)
    # Bytes per nanosecond are 10^9 bytes per second.
    algorithm = np.full(len(match), np.nan)
    algorithm[has_rate] = size[has_rate] / transfer[has_rate]
    return size, algorithm, algorithm * bus_factor(operation, members)


def _group_sizes(match: Matching) -> Ints:
    """Return the group size of each entry, or the number of ranks with events if it is unknown."""
    return match.per_entry(np.where(match.expected > 0, match.expected, match.sizes()))


def bus_factor(operation: Ints, members: Ints) -> Floats:
    """Return the share of each message that a link carries; NaN if unknown."""
    share = (members - 1) / np.maximum(members, 1)
    return np.select(
        [np.isin(operation, codes) for codes in (_ALL_REDUCE, _SHARED, _UNSPLIT)],
        [2 * share, share, np.ones(len(operation))],
        np.nan,
    )


class BusBandwidth(NamedTuple):
    """The median bus bandwidth of messages of the same size."""

    size_bytes: int
    gb_per_s: float
    includes_waits: bool  # whether some times include waits for other ranks
    #: Ranks with a much lower bandwidth than others, to which `gb_per_s` then applies.
    slow_ranks: tuple[int, ...] = ()
    others_gb_per_s: float = np.nan


class ExposedOperation(NamedTuple):
    """The operation with the most exposed transfer time, and its share of the time."""

    operation: str
    share: float
    bandwidth: BusBandwidth | None = None


def largest_exposed_operation(traces: TraceSet, clock: Clock) -> ExposedOperation | None:
    """Return the operation with the most exposed transfer time.

    If messages with known bandwidth have at least half of the exposed time, their times are
    compared by operation and size, and the result has the bus bandwidth for that size. If some
    ranks have at most two thirds of the bandwidth of others, it is their bandwidth. A message takes
    its transfer time if it is matched on all its ranks, otherwise its event's time, with waits. The
    result is None if no communication is exposed, or if names do not state the operation.
    """
    calls = _exposed_calls(traces, clock)
    by_operation_ns = calls.groupby("operation")["exposed"].sum()
    total_ns = int(by_operation_ns.sum())
    if total_ns <= 0:
        return None
    sized = calls[calls["bus"].notna()]
    by_size = sized.groupby(["operation", "size"], as_index=False)["exposed"].sum()
    bandwidth = None
    if 2 * by_size["exposed"].sum() >= total_ns:
        largest = by_size.iloc[int(by_size["exposed"].argmax())]
        operation, size = int(largest["operation"]), int(largest["size"])
        messages = sized[(sized["operation"] == operation) & (sized["size"] == size)]
        bandwidth = _bus_bandwidth(size, messages)
    else:
        operation = int(by_operation_ns.index[int(by_operation_ns.argmax())])
        if operation == _OTHER:
            return None
    share = float(by_operation_ns[operation] / total_ns)
    return ExposedOperation(OPERATIONS[operation], share, bandwidth)


def _bus_bandwidth(size: int, messages: pd.DataFrame) -> BusBandwidth:
    """Return the bandwidth for messages of one size, or of only the slow ranks if any."""
    includes_waits = bool(messages["waits"].any())
    of_ranks = messages.groupby("rank")["bus"].median()
    is_slow = of_ranks <= _SLOW_RATIO * of_ranks.max()
    if includes_waits or not is_slow.any():
        return BusBandwidth(size, float(messages["bus"].median()), includes_waits)
    slow, others = (float(of_ranks[mask].median()) for mask in (is_slow, ~is_slow))
    return BusBandwidth(size, slow, False, tuple(of_ranks.index[is_slow].tolist()), others)


def _exposed_calls(traces: TraceSet, clock: Clock) -> pd.DataFrame:
    """Return the communication of groups of several ranks, and its exposed transfer times.

    ``bus`` is the bus bandwidth in GB/s, NaN if unknown; ``waits``: times may include waits.
    """
    match = matching(traces)
    wait_of_entry = arrival_times(traces, match, clock).wait_ns
    group_sizes = _group_sizes(match)
    is_complete = match.per_entry(match.is_complete)
    blocks: list[pd.DataFrame] = []
    for trace, events, entries in zip(match.traces, match.events, match.of_trace, strict=True):
        complete = entries[is_complete[entries]]
        members = np.array([group.size for group in events.groups], dtype=np.int64)[events.group]
        members[events.source >= 0] = 2  # sender and receiver
        members[match.place[complete]] = group_sizes[complete]
        wait_ns = np.full(len(events.rows), -1, dtype=np.int64)  # -1 if unknown
        wait_ns[match.place[complete]] = wait_of_entry[complete]
        begin_ns = np.minimum(events.start_ns + np.maximum(wait_ns, 0), events.end_ns)
        transfer_ns = events.end_ns - begin_ns
        has_rate = (events.size_bytes > 0) & (transfer_ns > 0) & (members > 1)
        has_rate &= ~np.isin(events.operation, _ROOTED)
        bytes_on_bus = events.size_bytes * bus_factor(events.operation, members)
        columns = {
            "operation": events.operation,
            "size": events.size_bytes,
            "rank": trace.rank,
            "exposed": transfer_ns - compute_time_between(trace, begin_ns, events.end_ns),
            "bus": np.where(has_rate, bytes_on_bus / np.maximum(transfer_ns, 1), np.nan),
            "waits": wait_ns < 0,
        }
        blocks.append(pd.DataFrame(columns)[members != 1])
    return pd.concat(blocks)


def _matching_notes(
    match: Matching, is_selected: Bools, matched: dict[str, int], traces: TraceSet
) -> list[str]:
    if not matched["communication"]:
        return ["no communication on a device is selected", on_hosts_note(match.on_hosts)]
    parts = []
    if matched["alone"]:
        parts.append(f"{matched['alone']} events belong to groups of one rank")
    if matched["unmatched"]:
        parts.append(
            f"{matched['unmatched']} events have no match on another rank"
            " and are not among the rows"
        )
    if matched["partly_matched"]:
        parts.append(
            f"for {matched['partly_matched']} collectives, events of some ranks are missing;"
            " those ranks may have arrived after the last one shown"
        )
    if match.missing_ranks:
        rank_count = match.missing_ranks + len(traces)
        parts.append(f"files of {match.missing_ranks} of {rank_count} ranks are missing")
    parts.append(
        unsized_note(
            count_unsized(events, match.place[entries[is_selected[entries]]])
            for entries, events in zip(match.of_trace, match.events, strict=True)
        )
    )
    return [*parts, ambiguous_note(match.ambiguous), on_hosts_note(match.on_hosts)]
