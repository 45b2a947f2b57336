"""Matching: which communication events of the ranks belong to the same collective or send."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import chain
from typing import Any

import numpy as np
import numpy.typing as npt

from hta_widgets.analysis.comm_events import (
    CommEvents,
    GroupName,
    Header,
    comm_events,
    header_of,
)
from hta_widgets.analysis.scope import Part, Parts, over_ranks
from hta_widgets.readers.formats import provided
from hta_widgets.trace.memo import memoized
from hta_widgets.trace.selection import Selection
from hta_widgets.trace.trace import Trace
from hta_widgets.trace.traceset import TraceSet

Ints = npt.NDArray[np.int64]

_TOLERANCE_NS = 500_000  # ranks leave a collective within this time of each other
_PROOF = 3  # agreeing ends that rule out chance
_MOST_PAIRS = 4_000_000
#: Position of an event without a match.
MISSING = int(np.iinfo(np.int64).min)


@dataclass(frozen=True, slots=True)
class Group:
    """A process group of the whole set."""

    label: str
    ranks: tuple[int, ...]
    size: int
    named: bool


@dataclass(frozen=True, slots=True, eq=False)
class Matching:
    """Events that belong together; one entry per event, sorted by collective, then rank."""

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
    groups: list[Group]
    counts: dict[str, int]
    matched_by: dict[str, int]
    missing_ranks: int
    lacking: list[bool]
    headers: list[Header]
    #: of each rank's events
    steps: list[Ints]
    executor: Any = None

    def __len__(self) -> int:
        return len(self.collective)

    def taken(self, field: str) -> Ints:
        """Return a field of `CommEvents`, entry by entry."""
        values = np.empty(len(self), dtype=np.int64)
        for mine, events in zip(self.of_trace, self.events, strict=True):
            values[mine] = getattr(events, field)[self.place[mine]]
        return values

    def sizes(self) -> Ints:
        """Return how many ranks' events each collective has."""
        return np.diff(np.append(self.starts, len(self)))

    def each(self, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Spread one value per collective over its entries."""
        return np.repeat(values, self.sizes())


def matching(traces: TraceSet) -> Matching:
    """Return which communication of the ranks belongs together.

    Collectives are matched by process group, then by sequence number where files have them, else
    by order within the group, shifted to where names and sizes agree (`aligned`).
    Sends and receives are matched within each pair of ranks. Kernels that name no group are
    taken by device stream, and matched only as far as their ends agree.
    """
    # The kept result holds on any clock; the ranks are on that of the set.
    return replace(_matched(traces), traces=list(traces.values()), executor=traces.executor)


def counted(match: Matching, chosen: Selection) -> tuple[npt.NDArray[np.bool_], dict[str, int]]:
    """Return which entries are selected, and the counts of selected events and collectives."""
    kept = np.zeros(len(match), dtype=bool)
    communication = alone = 0
    for number, (events, member) in enumerate(
        zip(match.events, _members(match, chosen), strict=True)
    ):
        mine = match.of_trace[number]
        kept[mine] = member[match.place[mine]]
        single = np.array([group.size == 1 for group in events.groups], dtype=bool)
        communication += int(member.sum())
        alone += int((member & single[events.group]).sum()) if len(single) else 0
    shown = np.unique(match.collective[kept])
    complete = (match.expected <= 0) | (match.sizes() >= match.expected)
    return kept, {
        "communication": communication,
        "matched": int(complete[shown].sum()),
        "partly_matched": int((~complete[shown]).sum()),
        "unmatched": communication - int(kept.sum()) - alone,
        "alone": alone,
    }


def _members(match: Matching, chosen: Selection) -> Iterator[npt.NDArray[np.bool_]]:
    """Yield for each rank which of its events are selected."""
    wanted = [chosen.ranks is None or trace.rank in chosen.ranks for trace in match.traces]
    some = any(
        value is not None
        for value in (chosen.start_ns, chosen.end_ns, chosen.tracks, chosen.query, chosen.ids)
    )
    if not some:
        for is_wanted, events in zip(wanted, match.events, strict=True):
            yield np.full(len(events.rows), is_wanted, dtype=bool)
        return
    asked = [trace for trace, is_wanted in zip(match.traces, wanted, strict=True) if is_wanted]
    rows = [(e.rows,) for e, is_wanted in zip(match.events, wanted, strict=True) if is_wanted]
    found = over_ranks(Parts(asked, chosen, match.executor), Part.has, each=rows)
    for is_wanted, events in zip(wanted, match.events, strict=True):
        yield next(found) if is_wanted else np.zeros(len(events.rows), dtype=bool)


def split(codes: Ints, count: int) -> list[Ints]:
    """Return for each of `count` codes where it stands, ascending."""
    if not count:
        return []
    order = np.argsort(codes, kind="stable")
    return np.split(order, np.cumsum(np.bincount(codes, minlength=count))[:-1])


def recorded_shift(trace: Trace) -> int:
    """Return the shift from a table's times to the recorded clock.

    Matching works on it whatever clock a set lies on, so that collectives keep their numbers.
    """
    return trace.shift_ns + trace.clock_offset_ns


# --- matching -------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Lane:
    """One sequence of collectives; members are (trace, places)."""

    group: int
    members: list[tuple[int, Ints]]
    sure: bool


@memoized
def _matched(of: TraceSet) -> Matching:
    traces = list(of.values())
    ranks = _communication(of)
    events, headers = [one.events for one in ranks], [one.header for one in ranks]
    keys, groups = identified(traces, events, headers)
    lanes = _lanes(events, keys, groups)
    contents: dict[Hashable, int] = {}
    codes = [
        np.array([contents.setdefault(item, len(contents)) for item in one.content], np.int64)
        for one in events
    ]
    found: list[tuple[Ints, Ints, Ints, Ints]] = []  # slot, trace, place, lane
    counts = dict.fromkeys(("communication", "matched", "partly_matched", "unmatched", "alone"), 0)
    counts["communication"] = sum(len(one.rows) for one in events)
    matched_by = {"sequence_number": 0, "order_and_time": 0}
    base = 0  # numbers of slots that no other lane uses
    for number, lane in enumerate(lanes):
        numbered = all((events[t].sequence[places] >= 0).all() for t, places in lane.members)
        slot = np.concatenate(
            _by_sequence(lane, events, codes)
            if numbered
            else _by_order(lane, traces, events, codes)
        )
        place = np.concatenate([places for _, places in lane.members])
        trace = np.repeat([t for t, _ in lane.members], [len(own) for _, own in lane.members])
        kept = slot != MISSING
        values, inverse, sizes = np.unique(slot[kept], return_inverse=True, return_counts=True)
        whole = _whole(lane, events, groups)
        several = sizes >= 2
        alone = "alone" if whole == 1 else "unmatched"
        counts[alone] += int((~kept).sum()) + int((~several).sum())
        complete = int((sizes[several] >= whole).sum()) if whole > 0 else int(several.sum())
        counts["matched"] += complete
        counts["partly_matched"] += int(several.sum()) - complete
        matched_by["sequence_number" if numbered else "order_and_time"] += int(several.sum())
        good = several[inverse]
        rows = np.flatnonzero(kept)[good]
        of_lane = np.full(len(rows), number, dtype=np.int64)
        found.append((inverse[good] + base, trace[rows], place[rows], of_lane))
        base += len(values)
    return _sorted(traces, ranks, lanes, (groups, keys), found, counts, matched_by)


@dataclass(slots=True, eq=False)
class _RankComm:
    """The communication of one rank."""

    events: CommEvents
    steps: Ints
    header: Header


def _comm_of_rank(trace: Trace) -> _RankComm:
    events = comm_events(trace)
    return _RankComm(events, trace.table.step[events.rows], header_of(trace))


def _communication(traces: TraceSet) -> list[_RankComm]:
    """Return the communication of the ranks: on their devices, or in calls on the host."""
    found = list(over_ranks(traces, _comm_of_rank))
    members = list(traces.values())
    for calls_of in provided("collectives"):
        for place, events in calls_of(members).items():
            found[place].events = events
            found[place].steps = members[place].table.step[events.rows]
    return found


def _sorted(
    traces: list[Trace],
    ranks: list[_RankComm],
    lanes: list[_Lane],
    of_groups: tuple[list[Group], list[list[int]]],
    found: list[tuple[Ints, Ints, Ints, Ints]],
    counts: dict[str, int],
    matched_by: dict[str, int],
) -> Matching:
    groups, keys = of_groups
    events, headers = [one.events for one in ranks], [one.header for one in ranks]
    empty = np.empty(0, dtype=np.int64)
    slot, trace, place, lane = (
        np.concatenate([part[k] for part in found]) if found else empty for k in range(4)
    )
    start = np.empty(len(slot), dtype=np.int64)
    for number, one in enumerate(events):
        mine = trace == number
        start[mine] = one.start_ns[place[mine]] + recorded_shift(traces[number])
    order = np.lexsort((trace, slot))
    slot, trace, place, lane, start = (a[order] for a in (slot, trace, place, lane, start))
    begins = np.flatnonzero(np.diff(slot, prepend=-1)) if len(slot) else empty
    first = np.minimum.reduceat(start, begins) if len(begins) else empty
    sizes = np.diff(np.append(begins, len(slot)))
    rank_of = np.empty(len(begins), dtype=np.int64)
    rank_of[np.argsort(first, kind="stable")] = np.arange(len(begins))
    numbers = np.repeat(rank_of, sizes)
    order = np.argsort(numbers, kind="stable")
    collective = numbers[order]
    group_of = np.array([one.group for one in lanes], dtype=np.int64)
    lane = lane[order]
    whole_of = np.array([_whole(one, events, groups) for one in lanes], dtype=np.int64)
    starts = np.flatnonzero(np.diff(collective, prepend=-1))
    return Matching(
        traces,
        events,
        collective,
        trace[order],
        place[order],
        lane,
        group_of[lane],
        split(trace[order], len(traces)),
        starts,
        whole_of[lane[starts]],
        groups,
        counts,
        matched_by,
        missing_ranks(traces, groups, headers),
        lacking(traces, groups, keys),
        headers,
        [one.steps for one in ranks],
    )


def _lanes(
    events: Sequence[CommEvents], keys: Sequence[Sequence[int]], groups: Sequence[Group]
) -> list[_Lane]:
    lanes: dict[tuple[int, int, int], _Lane] = {}
    for t, one in enumerate(events):
        if not len(one.rows):
            continue
        number = np.array(keys[t], dtype=np.int64)[one.group]
        pairs = np.stack([number, one.source, one.target], axis=1)
        distinct, inverse = np.unique(pairs, axis=0, return_inverse=True)
        inverse = inverse.reshape(-1)
        for k, (group, source, target) in enumerate(distinct.tolist()):
            lane = lanes.setdefault((group, source, target), _Lane(group, [], groups[group].named))
            lane.members.append((t, np.flatnonzero(inverse == k)))
    return list(lanes.values())


def _whole(lane: _Lane, events: Sequence[CommEvents], groups: Sequence[Group]) -> int:
    """Return how many ranks each collective of a lane has."""
    trace, places = lane.members[0]
    return 2 if events[trace].source[places[0]] >= 0 else groups[lane.group].size


def _by_sequence(lane: _Lane, events: Sequence[CommEvents], codes: Sequence[Ints]) -> list[Ints]:
    """Return slots by sequence number; one that repeats counts its repetitions."""
    contents = [codes[t][events[t].content_code[places]] for t, places in lane.members]
    content = np.concatenate(contents)
    numbers = np.concatenate([events[t].sequence[places] for t, places in lane.members])
    step = np.unique(numbers, return_inverse=True)[1].reshape(-1) * (int(content.max()) + 1)
    slot = np.unique(step + content, return_inverse=True)[1].reshape(-1).astype(np.int64)
    parts = np.split(slot, np.cumsum([len(one) for one in contents])[:-1])
    if all(len(np.unique(part)) == len(part) for part in parts):
        return parts
    slots: dict[tuple[int, int, int], int] = {}
    found = []
    for (t, places), own in zip(lane.members, contents, strict=True):
        sequence = events[t].sequence[places]
        seen: Counter[tuple[int, int]] = Counter()
        mine = np.empty(len(places), dtype=np.int64)
        for k, key in enumerate(zip(sequence.tolist(), own.tolist(), strict=True)):
            mine[k] = slots.setdefault((*key, seen[key]), len(slots))
            seen[key] += 1
        found.append(mine)
    return found


def _by_order(
    lane: _Lane, traces: Sequence[Trace], events: Sequence[CommEvents], codes: Sequence[Ints]
) -> list[Ints]:
    """Return slots by order, contents and times, against the rank that has most."""
    contents = [codes[t][events[t].content_code[places]] for t, places in lane.members]
    ends = [events[t].end_ns[places] + recorded_shift(traces[t]) for t, places in lane.members]
    most = max(range(len(lane.members)), key=lambda k: len(contents[k]))
    return [
        np.arange(len(contents[k]))
        if k == most
        else aligned(contents[most], ends[most], contents[k], ends[k], sure=lane.sure)
        for k in range(len(lane.members))
    ]


# --- alignment by order and time ------------------------------------------------------------------


def aligned(
    content: Ints, end_ns: Ints, other_content: Ints, other_end_ns: Ints, *, sure: bool
) -> Ints:
    """Return for each of the other rank's events its position in the first rank's sequence.

    Both sequences are of one process group, so they are parts of one sequence of collectives.
    The second is shifted along the first to where contents agree; of several such places, as
    repeating steps agree at many, the one counts at which all ends differ by the same time, which
    does not depend on the clocks. Where events are missing in between, those events match whose
    ends differ by the same time as most pairs do.
    """
    count = len(other_content)
    if not count or not len(content):
        return np.full(count, MISSING)
    shift, agreeing = _best_shift(content, end_ns, other_content, other_end_ns)
    in_order = np.full(count, MISSING) if shift is None else np.arange(count) + shift
    together = 0
    if shift is not None:
        together = min(len(content), shift + count) - max(0, shift)
    # A few ends agree by chance, unless all do.
    proof = 1 if sure or agreeing == len(content) == count else _PROOF
    if agreeing >= max(0.5 * together, proof):
        return in_order
    by_time = _by_time(content, end_ns, other_content, other_end_ns)
    timed = int((by_time != MISSING).sum())
    if timed >= (2 if sure else _PROOF) and timed > 1.5 * agreeing:
        return by_time
    # One or two events prove nothing by their ends.
    return in_order if sure or len(content) == count <= 2 else np.full(count, MISSING)


def _best_shift(
    content: Ints, end_ns: Ints, other_content: Ints, other_end_ns: Ints
) -> tuple[int | None, int]:
    """Return where the other sequence lies on the first, and how many ends agree there."""
    first, second = len(content), len(other_content)
    need = max(1, min(first, second) // 2)
    best: tuple[float, int, int] | None = None
    for shift in range(need - second, first - need + 1):
        low, high = max(0, shift), min(first, shift + second)
        there = slice(low - shift, high - shift)
        if content[low] != other_content[low - shift]:
            continue
        if not np.array_equal(content[low:high], other_content[there]):
            continue
        apart = other_end_ns[there] - end_ns[low:high]
        middle = np.median(apart)
        off = np.abs(apart - middle)
        # The farther apart, the less likely; but clocks may be off by far more than one step.
        share = (high - low) / min(first, second)
        cost = (float(np.median(off)) + 1_000.0) / share**2 + 0.003 * abs(float(middle))
        if best is None or cost < best[0]:
            best = (cost, shift, int((off <= _TOLERANCE_NS).sum()))
    return (None, 0) if best is None else (best[1], best[2])


def _by_time(content: Ints, end_ns: Ints, other_content: Ints, other_end_ns: Ints) -> Ints:
    """Match events of equal content at the difference of ends that most pairs share."""
    found = np.full(len(other_content), MISSING)
    if len(content) * len(other_content) > _MOST_PAIRS:
        return found
    apart = other_end_ns[:, None] - end_ns[None, :]
    equal = other_content[:, None] == content[None, :]
    sorted_apart = np.sort(apart[equal])
    if not len(sorted_apart):
        return found
    reach = np.searchsorted(sorted_apart, sorted_apart + _TOLERANCE_NS, side="right")
    votes = reach - np.arange(len(sorted_apart))
    leaders = np.flatnonzero(votes == votes.max())
    leader = int(leaders[np.abs(sorted_apart[leaders]).argmin()])
    middle = int(np.median(sorted_apart[leader : reach[leader]]))
    off = np.where(equal, np.abs(apart - middle), np.iinfo(np.int64).max)
    nearest, back = off.argmin(axis=1), off.argmin(axis=0)
    each = np.arange(len(other_content))
    good = (off[each, nearest] <= _TOLERANCE_NS) & (back[nearest] == each)
    found[good] = nearest[good]
    return found


# --- process groups -------------------------------------------------------------------------------


def identified(
    traces: Sequence[Trace], events: Sequence[CommEvents], headers: Sequence[Header]
) -> tuple[list[list[int]], list[Group]]:
    """Return for each trace's groups their numbers in one list of groups, and that list.

    A group is identified by its name and the list of its ranks. Where no two ranks call the group
    of a list by the same name, the n-th name of each is the same group.
    """
    copies = _copies(traces)
    by_members: dict[Hashable, dict[int, list[str]]] = defaultdict(dict)
    for t, one in enumerate(events):
        for group in one.groups:
            by_members[_members_key(group, copies[t])].setdefault(t, []).append(group.name)
    # Groups of several ranks that have no name of it in common.
    ordinal = {
        key: len(names) > 1 and max(Counter(chain(*map(set, names.values()))).values()) == 1
        for key, names in by_members.items()
    }
    streams = _stream_numbers(events)
    numbers: dict[Hashable, int] = {}
    identities: list[tuple[GroupName, int]] = []
    keys = []
    for t, one in enumerate(events):
        mine = []
        for group in one.groups:
            members = _members_key(group, copies[t])
            identity: Hashable = group.name
            if group.stream >= 0:
                identity = streams[t][group.stream]
            elif ordinal[members]:
                # Ranks call the same group by different names: the n-th of each is the same.
                identity = by_members[members][t].index(group.name)
            number = numbers.setdefault((members, identity), len(numbers))
            if number == len(identities):
                identities.append((group, copies[t]))
            mine.append(number)
        keys.append(mine)
    return keys, _labelled(identities, headers)


def _copies(traces: Sequence[Trace]) -> list[int]:
    """Tell apart runs that are loaded together: ranks that claim the same number."""
    seen: Counter[tuple[str | None, int]] = Counter()
    runs: dict[tuple[str | None, int], int] = {}
    copies = []
    for trace in traces:
        stated = stated_rank(trace)
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


def _stream_numbers(events: Sequence[CommEvents]) -> list[dict[int, int]]:
    """Return the identity of each stream without groups: its number, or its position."""
    used = [sorted({group.stream for group in one.groups if group.stream >= 0}) for one in events]
    same = len({tuple(streams) for streams in used if streams}) <= 1
    return [
        {stream: stream if same else place for place, stream in enumerate(streams)}
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
    """Return how many ranks the job has by the files' headers, -1 if none states it."""
    return max((header.world_size for header in headers if header.world_size > 0), default=-1)


def missing_ranks(
    traces: Sequence[Trace], groups: Sequence[Group], headers: Sequence[Header]
) -> int:
    """Return how many ranks of the job, by its groups and headers, have no file."""
    have = loaded_ranks(traces)
    named = {rank for group in groups for rank in group.ranks}
    return max(len(named - have), world_size(headers) - len(have), 0)


def lacking(
    traces: Sequence[Trace],
    groups: Sequence[Group],
    keys: Sequence[Sequence[int]],
) -> list[bool]:
    """Return for each rank whether the file of any rank in its groups is missing.

    `keys` are each rank's groups, as places in `groups`. A rank that is late in such a group, or
    elsewhere after it, may have waited for a missing rank.
    """
    have, members = loaded_ranks(traces), Counter(k for own in keys for k in set(own))
    incomplete = [
        bool(set(group.ranks) - have) if group.ranks else members[k] < group.size
        for k, group in enumerate(groups)
    ]
    return [any(incomplete[k] for k in own) for own in keys]


def loaded_ranks(traces: Iterable[Trace]) -> set[int]:
    """Return the ranks that have files, by the numbers that the files state."""
    return {stated_rank(trace) for trace in traces}


def stated_rank(trace: Trace) -> int:
    """Return the rank's number as its file states it, or else its key in the set."""
    return trace.rank if trace.stated_rank is None else trace.stated_rank
