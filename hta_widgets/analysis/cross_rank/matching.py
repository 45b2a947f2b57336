"""Match the communication events of different ranks that belong to one collective or send.

A `Matching` has one entry per event, sorted by collective, then by rank. For example, ranks 0 and 1
share collective 0, and ranks 0, 1 and 2 share collective 1::

    collective  0 0 1 1 1
    trace       0 1 0 1 2
    starts      0   2

``sizes()`` is [2, 3], and ``per_entry([5, 7])`` is [5, 5, 7, 7, 7].
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from hta_widgets.analysis.cross_rank.alignment import MISSING, RankSequence, align_to_longest
from hta_widgets.analysis.cross_rank.comm_events import (
    CommEvents,
    JobHeader,
    comm_events,
    host_comm_events,
    job_header,
    recorded_shift,
)
from hta_widgets.analysis.cross_rank.comm_groups import (
    ProcessGroup,
    identify_groups,
    missing_peers_mask,
    missing_ranks,
)
from hta_widgets.analysis.map_ranks import map_ranks
from hta_widgets.analysis.notes import count_by_name, count_host_collectives
from hta_widgets.analysis.scope import RankPart, RankParts
from hta_widgets.readers.formats import all_formats, load_references
from hta_widgets.trace.arrays import Array, Bools, Ints
from hta_widgets.trace.memo import memoize
from hta_widgets.trace.selection import Selection
from hta_widgets.trace.trace import Trace
from hta_widgets.trace.traceset import TraceSet

_COLUMNS = [
    "trace", "place", "group", "source", "target", "sequence", "content", "start", "end",
    "together", "lane", "numbered", "slot",
]  # fmt: skip


@dataclass(frozen=True, slots=True, eq=False)
class Matching:
    """Communication events by collective: one entry per event, sorted by collective, then rank."""

    traces: list[Trace]
    events: list[CommEvents]
    collective: Ints
    trace: Ints
    place: Ints
    lane: Ints
    group: Ints
    of_trace: list[Ints]
    starts: Ints
    expected: Ints
    groups: list[ProcessGroup]
    matched_by: dict[str, int]
    missing_ranks: int
    incomplete: list[bool]
    headers: list[JobHeader]
    #: by rank, the step of each of its events
    steps: list[Ints]
    #: by rank, its collectives on the host by name, which are not matched
    on_hosts: list[Counter[str]]
    executor: Any = None

    def __len__(self) -> int:
        return len(self.collective)

    def event_field(self, field: str) -> Ints:
        """Return a field of `CommEvents`, entry by entry."""
        values = np.empty(len(self), dtype=np.int64)
        for entries, events in zip(self.of_trace, self.events, strict=True):
            values[entries] = getattr(events, field)[self.place[entries]]
        return values

    def sizes(self) -> Ints:
        """Return how many ranks' events each collective has."""
        return np.diff(np.append(self.starts, len(self)))

    def per_entry(self, values: Array) -> Array:
        """Return the value of each entry's collective."""
        return np.repeat(values, self.sizes())

    def reduce_per_entry(self, reduce: np.ufunc, values: Array) -> Array:
        """Return the values of each entry's collective, reduced to one."""
        return self.per_entry(reduce.reduceat(values, self.starts)) if len(self) else values

    def last_entries(self, wait_ns: Ints) -> Ints:
        """Return the first entry of each collective that does not wait."""
        late = np.where(wait_ns == 0, np.arange(len(self)), len(self))
        return np.minimum.reduceat(late, self.starts) if len(self) else late

    @property
    def is_complete(self) -> Bools:
        """Whether each collective has an event of every rank known to take part."""
        return (self.expected <= 0) | (self.sizes() >= self.expected)


def matching(traces: TraceSet) -> Matching:
    """Match the communication events of the ranks.

    Collectives are matched by process group, then by sequence number where files have them, else
    by order within the group, shifted to where names and sizes agree (`align_sequences`).
    The collectives on hosts of a job without communication on devices are matched the same way.
    Sends and receives are matched within each pair of ranks. Kernels that name no group are
    grouped by device stream, and by the listed groups that their times allow, and matched only as
    far as their ends agree and none ends before another begins.
    """
    # The memoized result does not depend on the clock; its ranks are replaced by the set's.
    return replace(_match(traces), traces=list(traces.values()), executor=traces.executor)


def count_selected(match: Matching, chosen: Selection) -> tuple[Bools, dict[str, int]]:
    """Return which entries are selected, and the counts of selected events and collectives."""
    members = [
        np.full(len(events.rows), chosen.ranks is None or trace.rank in chosen.ranks)
        for trace, events in zip(match.traces, match.events, strict=True)
    ]
    if not replace(chosen, ranks=None).is_everything:
        wanted = [k for k, member in enumerate(members) if member.any()]
        selected = RankParts([match.traces[k] for k in wanted], chosen, match.executor)
        rows_by_rank = [(match.events[k].rows,) for k in wanted]
        for k, member in zip(
            wanted, map_ranks(selected, RankPart.contains, each=rows_by_rank), strict=True
        ):
            members[k] = member
    is_selected = np.zeros(len(match), dtype=bool)
    for entries, member in zip(match.of_trace, members, strict=True):
        is_selected[entries] = member[match.place[entries]]
    communication = sum(int(member.sum()) for member in members)
    alone = sum(
        int((member & events.is_single_rank).sum())
        for member, events in zip(members, match.events, strict=True)
    )
    complete = match.is_complete[np.unique(match.collective[is_selected])]
    return is_selected, {
        "communication": communication,
        "matched": int(complete.sum()),
        "partly_matched": int((~complete).sum()),
        "unmatched": communication - int(is_selected.sum()) - alone,
        "alone": alone,
    }


def selected_ranks(traces: TraceSet, chosen: Selection) -> Bools:
    """Return which ranks of a set are selected."""
    return np.array([chosen.ranks is None or rank in chosen.ranks for rank in traces.ranks], bool)


def positions_by_code(codes: Ints, count: int) -> list[Ints]:
    """Return the positions of each of the codes ``0 .. count-1``, ascending."""
    if not count:
        return []
    order = np.argsort(codes, kind="stable")
    return np.split(order, np.cumsum(np.bincount(codes, minlength=count))[:-1])


@memoize
def _match(trace_set: TraceSet) -> Matching:
    traces = list(trace_set.values())
    events, steps, headers, on_hosts = _communication_of_ranks(trace_set)
    keys, groups = identify_groups(traces, events, headers)
    order = pd.DataFrame(columns=_COLUMNS, dtype=np.int64)
    if sum(len(events_of_rank.rows) > 0 for events_of_rank in events) > 1:
        order = _entries_with_partners(_events_of_all(traces, events, keys), groups)
    trace, place, lane, group, slot, is_numbered = (
        order[name].to_numpy() for name in ("trace", "place", "lane", "group", "slot", "numbered")
    )
    starts = np.flatnonzero(np.diff(slot, prepend=-1))
    by_number = int(is_numbered[starts].sum())
    group_size = np.array([process_group.size for process_group in groups], dtype=np.int64)
    is_pair = order["source"].to_numpy()[starts] >= 0
    return Matching(
        traces=traces,
        events=events,
        collective=np.repeat(np.arange(len(starts)), np.diff(np.append(starts, len(order)))),
        trace=trace,
        place=place,
        lane=lane,
        group=group,
        of_trace=positions_by_code(trace, len(traces)),
        starts=starts,
        expected=np.where(is_pair, 2, group_size[group[starts]]),
        groups=groups,
        matched_by={"sequence_number": by_number, "order_and_time": len(starts) - by_number},
        missing_ranks=missing_ranks(traces, groups, headers),
        incomplete=missing_peers_mask(traces, groups, keys),
        headers=headers,
        steps=steps,
        on_hosts=on_hosts,
    )


def _entries_with_partners(table: pd.DataFrame, groups: Sequence[ProcessGroup]) -> pd.DataFrame:
    """Return the events that other ranks share, by collective and rank.

    `table` is from `_events_of_all`. Collectives, the column ``slot``, are ordered by first start;
    those with ``numbered`` are matched by the sequence numbers of the files.
    """
    table["numbered"] = table.groupby("lane")["sequence"].transform("min") >= 0
    for _, of_lane in table[~table["numbered"]].groupby("lane"):
        named = groups[of_lane["group"].iloc[0]].named
        table.loc[of_lane.index, "sequence"] = _assign_by_order(of_lane, sure=named)
        table.loc[of_lane.index, "content"] = 0
    # Events of a rank that repeat a sequence number belong to different collectives.
    table["repeat"] = table.groupby(["lane", "trace", "sequence", "content"]).cumcount()
    slots = table.groupby(["lane", "sequence", "content", "repeat"])
    table["slot"], first_ns = slots.ngroup(), slots["start"].transform("min")
    has_partner = (slots["trace"].transform("size") >= 2) & (table["sequence"] != MISSING)
    order = np.lexsort((table["trace"], table["slot"], first_ns))
    return table.iloc[order[has_partner.to_numpy()[order]]]


def _comm_of_rank(
    trace: Trace, events_of: Callable[[Trace], CommEvents]
) -> tuple[CommEvents, Ints, JobHeader, Counter[str], bool]:
    events = events_of(trace)
    rest = count_host_collectives(trace) - count_by_name(trace, events.rows)
    has_device = any(track.stream >= 0 for track in trace.tracks)
    return events, trace.table.step[events.rows], job_header(trace), rest, has_device


def _communication_of_ranks(
    traces: TraceSet,
) -> tuple[list[CommEvents], list[Ints], list[JobHeader], list[Counter[str]]]:
    """Return each rank's communication, its steps, its header, and calls on hosts that are left.

    The communication is that of devices, or that of hosts in a job of several ranks without any.
    """
    results = list(map_ranks(traces, _comm_of_rank, comm_events))
    if len(results) > 1 and not any(len(events.rows) for events, *_ in results):
        results = list(map_ranks(traces, _comm_of_rank, host_comm_events))
    events, steps = [result[0] for result in results], [result[1] for result in results]
    members = list(traces.values())
    # Exports are Kineto files whose events may have another format's names. Calls on the host of a
    # rank with a device are not the collectives of its kernels.
    formats = () if all(result[4] for result in results) else all_formats()
    for calls_of in load_references(format_.analyses.collectives for format_ in formats):
        for place, calls in calls_of(members).items():
            events[place], steps[place] = calls, members[place].table.step[calls.rows]
    return events, steps, [result[2] for result in results], [result[3] for result in results]


def _events_of_all(
    traces: Sequence[Trace], events: Sequence[CommEvents], keys: Sequence[Sequence[int]]
) -> pd.DataFrame:
    """Concatenate the communication of all ranks, on the recorded clock."""
    # A ``lane`` is one sequence of collectives, of a group or of a pair of its ranks.
    contents: dict[Hashable, int] = {}
    blocks = []
    for number, (trace, events_of_rank) in enumerate(zip(traces, events, strict=True)):
        codes = [contents.setdefault(item, len(contents)) for item in events_of_rank.content]
        columns = {
            "trace": np.full(len(events_of_rank.rows), number),
            "place": np.arange(len(events_of_rank.rows)),
            "group": np.array(keys[number], dtype=np.int64)[events_of_rank.group],
            "source": events_of_rank.source,
            "target": events_of_rank.target,
            "sequence": events_of_rank.sequence,
            "content": np.array(codes, dtype=np.int64)[events_of_rank.content_code],
            "start": events_of_rank.start_ns + recorded_shift(trace),
            "end": events_of_rank.end_ns + recorded_shift(trace),
            "together": events_of_rank.ends_together,
        }
        blocks.append(pd.DataFrame(columns))
    table = pd.concat(blocks, ignore_index=True)
    of_lane = ["group", "source", "target"]
    first = table.groupby(of_lane)["trace"].transform("min")
    table["lane"] = table.groupby([first, *of_lane]).ngroup()
    return table


def _assign_by_order(of_lane: pd.DataFrame, *, sure: bool) -> Ints:
    """Assign slots by order, contents and times, aligned with the rank that has most events."""
    ranks = [
        RankSequence(*(lane[name].to_numpy() for name in RankSequence._fields))
        for _, lane in of_lane.groupby("trace")
    ]
    longest = max(ranks, key=lambda sequence: len(sequence.end))
    return np.concatenate(
        [
            np.arange(len(sequence.end))
            if sequence is longest
            else align_to_longest(longest, sequence, sure=sure)
            for sequence in ranks
        ]
    )
