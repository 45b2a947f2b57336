"""The process groups of a job, from the names and rank lists stated by each rank.

Ranks number their groups independently. For example, the group of ranks 0 and 1 and the group of
ranks 2 and 3 may both have the name ``3``; the lists of ranks distinguish them. If the group of
ranks 0 and 1 is ``dp_0`` on rank 0 and ``dp_1`` on rank 1, the n-th name that a rank has for this
list of ranks is the same group on both.

Kernels that name no group are grouped by device stream, because a stream serves one group.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Sequence
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
    """A process group of a trace set; unknown `ranks` are empty, an unknown `size` is -1."""

    label: str
    ranks: tuple[int, ...]
    size: int
    named: bool  # otherwise, the events of a stream
    description: str = ""


def identify_groups(
    traces: Sequence[Trace], events: Sequence[CommEvents], headers: Sequence[JobHeader]
) -> tuple[list[list[int]], list[ProcessGroup]]:
    """Return the numbers of each trace's groups in a common list of groups, and that list.

    A group is identified by its name and the list of its ranks. If no two ranks have a common name
    for the groups with the same list, the n-th names of the ranks are the same group.
    """
    runs = _run_numbers(traces)
    names_of: dict[Hashable, dict[int, list[str]]] = defaultdict(dict)
    for number, comm in enumerate(events):
        for group in comm.groups:
            names = names_of[_members_key(group, runs[number])]
            names.setdefault(number, []).append(group.name)
    has_own_names = {}
    for members, names_by_trace in names_of.items():
        distinct = [name for listed in names_by_trace.values() for name in set(listed)]
        has_own_names[members] = len(names_by_trace) > 1 and len(set(distinct)) == len(distinct)
    # Streams without groups are identified by their numbers or, if these differ between traces, by
    # their positions among the trace's streams.
    used = [sorted({group.stream for group in comm.groups if group.stream >= 0}) for comm in events]
    is_same_everywhere = len({tuple(numbers) for numbers in used if numbers}) <= 1
    streams = [
        {stream: stream if is_same_everywhere else place for place, stream in enumerate(numbers)}
        for numbers in used
    ]
    ranks_of_streams = _ranks_of_streams(traces, events, headers, runs, streams)
    group_numbers: dict[Hashable, int] = {}
    groups: list[tuple[GroupName, int]] = []
    numbers_of_traces = []
    for number, comm in enumerate(events):
        numbers_of_trace = []
        for stated_group in comm.groups:
            ranks = ranks_of_streams[number].get(stated_group.stream, stated_group.ranks)
            group = replace(stated_group, ranks=ranks)
            members = _members_key(group, runs[number])
            # Identifies the group among the groups with the same members, on all traces.
            identity: Hashable = group.name
            if group.stream >= 0:
                identity = streams[number][group.stream]
            elif has_own_names[members]:
                identity = names_of[members][number].index(group.name)
            group_number = group_numbers.setdefault((members, identity), len(groups))
            if group_number == len(groups):
                groups.append((group, runs[number]))
            numbers_of_trace.append(group_number)
        numbers_of_traces.append(numbers_of_trace)
    return numbers_of_traces, _label_groups(groups, headers)


def _run_numbers(traces: Sequence[Trace]) -> list[int]:
    """Return a number for each trace's run; runs loaded together may have equal rank numbers.

    The first trace of each rank of a job belongs to the first run, the second to the second.
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
    """Return a key that is equal for groups of the same ranks of a run."""
    if group.stream >= 0:
        return ("stream", group.ranks, run)
    # The event's list is used, because not every file has a header that completes long lists.
    return (_numbers_in(group.listed) or group.ranks, group.size, run)


@lru_cache(maxsize=4096)
def _numbers_in(listed: str) -> tuple[str, ...]:
    return tuple(re.findall(r"\d+", listed))


def _ranks_of_streams(
    traces: Sequence[Trace],
    events: Sequence[CommEvents],
    headers: Sequence[JobHeader],
    runs: Sequence[int],
    streams: Sequence[dict[int, int]],
) -> list[dict[int, tuple[int, ...]]]:
    """Return, by trace, the ranks of streams without a group, where headers and times show them.

    A stream serves one group: the largest group in the header whose ranks' events can belong to the
    same collectives. The ranks are unknown if that is the group of all ranks, or if two groups that
    do not contain each other are possible. `streams` has the identities by which streams of
    different ranks are compared.
    """
    contents: dict[Hashable, int] = {}
    number_of = {(runs[number], stated_rank(trace)): number for number, trace in enumerate(traces)}

    @cache
    def sequence(number: int, identity: int) -> RankSequence:
        comm, shift_ns = events[number], recorded_shift(traces[number])
        identities = [streams[number].get(group.stream) for group in comm.groups]
        is_on_stream = np.array([other == identity for other in identities], bool)
        rows = np.flatnonzero(is_on_stream[comm.group])
        codes = [contents.setdefault(item, len(contents)) for item in comm.content]
        return RankSequence(
            np.array(codes, dtype=np.int64)[comm.content_code[rows]],
            comm.start_ns[rows] + shift_ns,
            comm.end_ns[rows] + shift_ns,
            comm.ends_together[rows],
            traces[number].table.step[comm.rows[rows]],
        )

    @cache
    def is_possible(ranks: tuple[int, ...], run: int, identity: int) -> bool:
        loaded = [number_of[run, rank] for rank in ranks if (run, rank) in number_of]
        sequences = [sequence(number, identity) for number in loaded]
        sequences = [member for member in sequences if len(member.end)]
        longest = max(sequences, key=lambda member: len(member.end))
        return all(
            np.mean(align_to_longest(longest, member, sure=False) != MISSING) >= 0.5
            for member in sequences
        )

    ranks_by_stream: list[dict[int, tuple[int, ...]]] = [{} for _ in traces]
    for number, (trace, header) in enumerate(zip(traces, headers, strict=True)):
        rank = stated_rank(trace)
        groups = {group.ranks for group in header.groups if rank in group.ranks} - {(rank,)}
        if len(groups) < 2:
            continue
        for stream, identity in streams[number].items():
            possible = [ranks for ranks in groups if is_possible(ranks, runs[number], identity)]
            largest = max(possible, key=len, default=())
            has_all_ranks = len(largest) == header.world_size
            if not has_all_ranks and all(set(ranks) <= set(largest) for ranks in possible):
                ranks_by_stream[number][stream] = largest
    return ranks_by_stream


def _label_groups(
    names_and_runs: list[tuple[GroupName, int]], headers: Sequence[JobHeader]
) -> list[ProcessGroup]:
    """Return groups with distinct labels, from the name of each and the number of its run."""
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
    """Return the job's number of ranks as in the files' headers; -1 if unknown."""
    return most_frequent_size(header.world_size for header in headers) or -1


def missing_ranks(
    traces: Sequence[Trace], groups: Sequence[ProcessGroup], headers: Sequence[JobHeader]
) -> int:
    """Return how many ranks of the job, according to groups and headers, have no file."""
    loaded = loaded_ranks(traces)
    named = {rank for group in groups for rank in group.ranks}
    return max(len(named - loaded), world_size(headers) - len(loaded), 0)


def missing_peers_mask(
    traces: Sequence[Trace], groups: Sequence[ProcessGroup], keys: Sequence[Sequence[int]]
) -> list[bool]:
    """Return, for each rank, whether the file of another rank of its groups is missing.

    `keys` are each rank's groups, as positions in `groups`. A rank that is late in such a group, or
    later in another group, may have waited for a missing rank.
    """
    loaded = loaded_ranks(traces)
    members = Counter(number for groups_of_rank in keys for number in set(groups_of_rank))
    is_incomplete = [
        bool(set(group.ranks) - loaded) if group.ranks else members[number] < group.size
        for number, group in enumerate(groups)
    ]
    return [any(is_incomplete[number] for number in groups_of_rank) for groups_of_rank in keys]


def loaded_ranks(traces: Iterable[Trace]) -> set[int]:
    """Return the ranks that have files, by the numbers stated in the files."""
    return {stated_rank(trace) for trace in traces}
