"""The process groups of a job, from each rank's group names and lists of ranks.

Ranks name their groups independently. For example, the groups of ranks 0 and 1 and of ranks 2 and 3
may both have the name ``3``, but their lists of ranks differ. If the group of ranks 0 and 1 is
``dp_0`` on rank 0 and ``dp_1`` on rank 1, the n-th names for a list of ranks are the same group.

Kernels that name no group are grouped by device stream, because a stream serves one group.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Collection, Hashable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from itertools import chain, count

import numpy as np

from hta_widgets.analysis.cross_rank.alignment import MISSING, RankSequence, align_to_longest
from hta_widgets.analysis.cross_rank.comm_events import (
    CommEvents,
    GroupName,
    JobHeader,
    recorded_shift,
    stated_rank,
)
from hta_widgets.trace.summary import most_frequent_size
from hta_widgets.trace.trace import Trace


@dataclass(slots=True)
class ProcessGroup:
    """A process group of a trace set. Unknown `ranks` are empty; an unknown `size` is -1."""

    label: str
    ranks: tuple[int, ...]
    size: int
    named: bool  # if not, it stands for the events of a stream
    description: str = ""


def identify_groups(
    traces: Sequence[Trace], events: Sequence[CommEvents], headers: Sequence[JobHeader]
) -> tuple[list[list[int]], list[ProcessGroup]]:
    """Return each trace's groups as indices into a common list of groups, and that list.

    A group is identified by its name and list of ranks. If no two ranks share a name for groups
    with the same list, the n-th name on each rank stands for the same group.
    """
    columns = traces, events, headers, _run_numbers(traces), _stream_identities(events)
    comms = [_RankComm(*fields) for fields in zip(*columns, strict=True)]
    names_of: dict[Hashable, dict[_RankComm, list[str]]] = defaultdict(dict)
    for comm in comms:
        for group in comm.events.groups:
            names_of[_members_key(group, comm.run)].setdefault(comm, []).append(group.name)
    has_own_names = {
        members: _are_all_distinct(names_by_trace.values())
        for members, names_by_trace in names_of.items()
    }
    ranks_of_streams = _ranks_of_streams(comms)
    group_numbers: dict[Hashable, int] = {}
    groups: list[tuple[GroupName, int]] = []
    numbers_of_traces = []
    for comm, ranks_by_stream in zip(comms, ranks_of_streams, strict=True):
        numbers_of_trace = []
        for stated_group in comm.events.groups:
            ranks = ranks_by_stream.get(stated_group.stream, stated_group.ranks)
            group = replace(stated_group, ranks=ranks)
            members = _members_key(group, comm.run)
            # Distinguishes the groups with the same members, equally on all traces.
            identity: Hashable = group.name
            if group.stream >= 0:
                identity = comm.streams[group.stream]
            elif has_own_names[members]:
                identity = names_of[members][comm].index(group.name)
            group_number = group_numbers.setdefault((members, identity), len(groups))
            if group_number == len(groups):
                groups.append((group, comm.run))
            numbers_of_trace.append(group_number)
        numbers_of_traces.append(numbers_of_trace)
    return numbers_of_traces, _label_groups(groups, headers)


def _are_all_distinct(names_by_trace: Collection[list[str]]) -> bool:
    """Return whether there are several traces and no two of them share a name."""
    names = [name for names_of_trace in names_by_trace for name in set(names_of_trace)]
    return len(names_by_trace) > 1 and len(set(names)) == len(names)


def _stream_identities(events: Sequence[CommEvents]) -> list[dict[int, int]]:
    """Return, per trace, the identity of each stream without a group.

    It is the stream's number or, if numbers differ between traces, the position among its streams.
    """
    used = [sorted({group.stream for group in comm.groups if group.stream >= 0}) for comm in events]
    is_same_everywhere = len({tuple(numbers) for numbers in used if numbers}) <= 1
    return [
        {stream: stream if is_same_everywhere else place for place, stream in enumerate(numbers)}
        for numbers in used
    ]


def _run_numbers(traces: Sequence[Trace]) -> list[int]:
    """Return the run number of each trace, as runs loaded together may have equal rank numbers.

    The first trace of each rank in a job belongs to the first run, the second to the second.
    """
    traces_of_rank: Counter[tuple[str | None, int]] = Counter()
    numbers: dict[tuple[str | None, int], int] = {}
    run_numbers = []
    for trace in traces:
        rank = (trace.job, stated_rank(trace))
        run = (trace.job, traces_of_rank[rank])
        run_numbers.append(numbers.setdefault(run, len(numbers)))
        traces_of_rank[rank] += 1
    return run_numbers


def _members_key(group: GroupName, run: int) -> Hashable:
    """Return a key that is equal for groups of the same ranks in a run."""
    if group.stream >= 0:
        return ("stream", group.ranks, run)
    # The event's list takes precedence, because not every header completes long lists.
    return (_numbers_in(group.listed) or group.ranks, group.size, run)


@lru_cache(maxsize=4096)
def _numbers_in(listed: str) -> tuple[str, ...]:
    return tuple(re.findall(r"\d+", listed))


@dataclass(frozen=True, slots=True, eq=False)
class _RankComm:
    trace: Trace
    events: CommEvents
    header: JobHeader
    run: int
    streams: dict[int, int]  # identity of each stream without a group

    def sequence(self, identity: int, contents: dict[Hashable, int]) -> RankSequence:
        """Return the events on the stream with an identity; add codes for missing `contents`."""
        events, shift_ns = self.events, recorded_shift(self.trace)
        is_on_stream = [self.streams.get(group.stream) == identity for group in events.groups]
        rows = np.flatnonzero(np.array(is_on_stream, bool)[events.group])
        codes = [contents.setdefault(item, len(contents)) for item in events.content]
        return RankSequence(
            np.array(codes, dtype=np.int64)[events.content_code[rows]],
            events.start_ns[rows] + shift_ns,
            events.end_ns[rows] + shift_ns,
            events.ends_together[rows],
            self.trace.table.step[events.rows[rows]],
        )


def _ranks_of_streams(comms: Sequence[_RankComm]) -> list[dict[int, tuple[int, ...]]]:
    """Return, per trace, the ranks of streams without a group, if headers and times imply them.

    A stream serves one group: the largest group in the header whose ranks' events can belong to the
    same collectives. The ranks are unknown if it has all ranks, or if possible groups overlap.
    """
    contents: dict[Hashable, int] = {}
    comm_of_rank = {(comm.run, stated_rank(comm.trace)): comm for comm in comms}

    @cache
    def sequence(run: int, rank: int, identity: int) -> RankSequence:
        return comm_of_rank[run, rank].sequence(identity, contents)

    @cache
    def is_possible(ranks: tuple[int, ...], run: int, identity: int) -> bool:
        loaded = [rank for rank in ranks if (run, rank) in comm_of_rank]
        sequences = [sequence(run, rank, identity) for rank in loaded]
        sequences = [member for member in sequences if len(member.end)]
        longest = max(sequences, key=lambda member: len(member.end))
        return all(
            np.mean(align_to_longest(longest, member, sure=False) != MISSING) >= 0.5
            for member in sequences
        )

    ranks_of_streams: list[dict[int, tuple[int, ...]]] = [{} for _ in comms]
    for comm, ranks_by_stream in zip(comms, ranks_of_streams, strict=True):
        rank = stated_rank(comm.trace)
        groups = {group.ranks for group in comm.header.groups if rank in group.ranks} - {(rank,)}
        if len(groups) < 2:
            continue
        for stream, identity in comm.streams.items():
            possible = [ranks for ranks in groups if is_possible(ranks, comm.run, identity)]
            largest = max(possible, key=len, default=())
            has_all_ranks = len(largest) == comm.header.world_size
            if not has_all_ranks and all(set(ranks) <= set(largest) for ranks in possible):
                ranks_by_stream[stream] = largest
    return ranks_of_streams


def _label_groups(
    names_and_runs: list[tuple[GroupName, int]], headers: Sequence[JobHeader]
) -> list[ProcessGroup]:
    """Return groups with distinct labels, given each group's name and run number."""
    names = Counter((group.name, run) for group, run in names_and_runs if group.stream < 0)
    groups: list[ProcessGroup] = []
    used_labels: set[str] = set()
    world = world_size(headers)
    for group, run in names_and_runs:
        label, size, ranks = group.name, group.size, group.ranks
        if group.stream >= 0:
            label = f"stream {group.stream} {list(ranks) or ''}".strip()
            size = len(ranks) or world
        else:
            if not ranks and size == world > 0:
                ranks = tuple(range(size))
            if names[label, run] > 1 or not label:
                listed = group.listed or f"{size} ranks"
                label = f"{label} {listed}".strip()
        if run:
            label = f"{label} ({run + 1})"
        label = next(
            candidate
            for candidate in chain([label], (f"{label} #{number}" for number in count(2)))
            if candidate not in used_labels
        )
        used_labels.add(label)
        groups.append(ProcessGroup(label, ranks, size, group.stream < 0))
    return groups


def world_size(headers: Iterable[JobHeader]) -> int:
    """Return the job's number of ranks according to file headers; -1 if unknown."""
    return most_frequent_size(header.world_size for header in headers) or -1


def missing_ranks(
    traces: Sequence[Trace], groups: Sequence[ProcessGroup], headers: Sequence[JobHeader]
) -> int:
    """Return how many of the job's ranks, according to groups and headers, have no file."""
    loaded = loaded_ranks(traces)
    named = {rank for group in groups for rank in group.ranks}
    return max(len(named - loaded), world_size(headers) - len(loaded), 0)


def missing_peers_mask(
    traces: Sequence[Trace], groups: Sequence[ProcessGroup], keys: Sequence[Sequence[int]]
) -> list[bool]:
    """Return, for each rank, whether another rank in its groups has no file.

    `keys` are each rank's groups, as indices into `groups`. A rank that is late in such a group, or
    later in another one, may have waited for a missing rank.
    """
    loaded = loaded_ranks(traces)
    members = Counter(number for groups_of_rank in keys for number in set(groups_of_rank))
    is_incomplete = [
        bool(set(group.ranks) - loaded) if group.ranks else members[number] < group.size
        for number, group in enumerate(groups)
    ]
    return [any(is_incomplete[number] for number in groups_of_rank) for groups_of_rank in keys]


def loaded_ranks(traces: Iterable[Trace]) -> set[int]:
    """Return the ranks that have files, as numbered in the files."""
    return {stated_rank(trace) for trace in traces}
