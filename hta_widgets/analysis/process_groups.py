"""Which process groups a job has, when every rank tells of its own."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache

from hta_widgets.model import Trace
from hta_widgets.model.turns import rest

from .collective_args import CommEvents, GroupName
from .group_headers import Header

__all__ = ["Group", "identified", "lacking", "loaded_ranks", "missing_ranks", "world_size"]


@dataclass(frozen=True, slots=True)
class Group:
    """A process group as the whole set knows it.

    Attributes
    ----------
    label : str
        Unique within the set: the group's name, with its ranks where names repeat.
    ranks : tuple of int
        Members; empty where no file says.
    size : int
        How many members it has; -1 where no file says.
    named : bool
        Whether the files name it; else it stands for a device stream.
    """

    label: str
    ranks: tuple[int, ...]
    size: int
    named: bool


def identified(
    traces: Sequence[Trace], events: Sequence[CommEvents], headers: Sequence[Header]
) -> tuple[list[list[int]], list[Group]]:
    """Return for each trace's groups their numbers in one list of groups, and that list.

    A group is told by its name and the list of its ranks. Where no two ranks call the group of a
    list by the same name, the n-th name of each is the same group.
    """
    copies = _copies(traces)
    by_members: dict[Hashable, dict[int, list[str]]] = defaultdict(dict)
    for t, one in enumerate(events):
        for group in one.groups:
            by_members[_members_key(group, copies[t])].setdefault(t, []).append(group.name)
        rest()
    ordinal = {
        key: _differ(list(names.values())) for key, names in by_members.items() if key is not None
    }
    streams = _stream_numbers(events)
    numbers: dict[Hashable, int] = {}
    identities: list[tuple[GroupName, int]] = []
    keys = []
    for t, one in enumerate(events):
        mine = []
        for group in one.groups:
            members = _members_key(group, copies[t])
            who: Hashable = group.name
            if group.stream >= 0:
                who = streams[t][group.stream]
            elif ordinal[members]:
                # Ranks call the same group by different names: the n-th of each is the same.
                who = by_members[members][t].index(group.name)
            number = numbers.setdefault((members, who), len(numbers))
            if number == len(identities):
                identities.append((group, copies[t]))
            mine.append(number)
        keys.append(mine)
        rest()
    return keys, _labelled(identities, headers)


def _copies(traces: Sequence[Trace]) -> list[int]:
    """Tell apart runs that are loaded together: ranks that claim the same number."""
    seen: Counter[tuple[str | None, int]] = Counter()
    runs: dict[tuple[str | None, int], int] = {}
    copies = []
    for trace in traces:
        stated = trace.rank if trace.stated_rank is None else trace.stated_rank
        run = (trace.job, seen[trace.job, stated])
        copies.append(runs.setdefault(run, len(runs)))
        seen[trace.job, stated] += 1
    return copies


def _members_key(group: GroupName, copy: int) -> Hashable:
    if group.stream >= 0:
        return ("stream", copy)
    # As listed on the event: not every file has a header that completes long lists.
    return (_numerals(group.listed) or group.ranks, group.size, copy)


@lru_cache(maxsize=4096)
def _numerals(listed: str) -> tuple[str, ...]:
    return tuple(re.findall(r"\d+", listed))


def _differ(names: list[list[str]]) -> bool:
    """Whether no two ranks have a name of the group in common."""
    if len(names) < 2:
        return False
    every = [name for one in names for name in set(one)]
    return len(set(every)) == len(every)


def _stream_numbers(events: Sequence[CommEvents]) -> list[dict[int, int]]:
    """Return what stands for each stream without groups: its number, or its position."""
    used = [sorted({group.stream for group in one.groups if group.stream >= 0}) for one in events]
    distinct = {tuple(streams) for streams in used if streams}
    alike = len(distinct) <= 1
    return [
        {stream: stream if alike else place for place, stream in enumerate(streams)}
        for streams in used
    ]


def _labelled(identities: list[tuple[GroupName, int]], headers: Sequence[Header]) -> list[Group]:
    names = Counter((group.name, copy) for group, copy in identities if group.stream < 0)
    groups: list[Group] = []
    taken: set[str] = set()
    world = world_size(headers)
    for group, copy in identities:
        label, size, ranks = group.name, group.size, group.ranks
        if group.stream >= 0:
            label, size = f"stream {group.stream}", world
        else:
            if not ranks and size == world > 0:
                ranks = tuple(range(size))
            if names[label, copy] > 1 or not label:
                listed = group.listed or f"{size} ranks"
                label = f"{label} {listed}".strip()
        if copy:
            label = f"{label} ({copy + 1})"
        unique, again = label, 2
        while unique in taken:
            unique, again = f"{label} #{again}", again + 1
        taken.add(unique)
        groups.append(Group(unique, ranks, size, group.stream < 0))
    return groups


def world_size(headers: Iterable[Header]) -> int:
    """Return how many ranks the job has, as far as files say; -1 if none does."""
    sizes = [header.world_size for header in headers if header.world_size > 0]
    return max(sizes, default=-1)


def missing_ranks(
    traces: Sequence[Trace], groups: Sequence[Group], headers: Sequence[Header]
) -> int:
    """Return how many ranks take part, as far as files say, of which there is no file."""
    have = loaded_ranks(traces)
    named = {rank for group in groups for rank in group.ranks}
    return max(len(named - have), world_size(headers) - len(have), 0)


def lacking(
    traces: Sequence[Trace],
    groups: Sequence[Group],
    keys: Sequence[Sequence[int]],
) -> list[bool]:
    """Return for each rank whether the file of any rank in its groups is missing.

    `keys` are each rank's groups, as places in `groups`. Who comes late in such a group, or is
    late elsewhere after it, may have waited for a rank that is not there.
    """
    have, members = loaded_ranks(traces), Counter(k for own in keys for k in set(own))
    incomplete = [
        bool(set(group.ranks) - have) if group.ranks else members[k] < group.size
        for k, group in enumerate(groups)
    ]
    return [any(incomplete[k] for k in own) for own in keys]


def loaded_ranks(traces: Iterable[Trace]) -> set[int]:
    """Return the ranks that have files, by the numbers that the files state."""
    return {trace.rank if trace.stated_rank is None else trace.stated_rank for trace in traces}
