"""Match the communication events of different ranks that belong to one collective or send."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from itertools import accumulate, chain, repeat
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from hta_widgets.analysis.cross_rank.comm_events import (
    SYNCHRONIZING_OPERATIONS,
    CommEvents,
    GroupName,
    JobHeader,
    comm_events,
    job_header,
)
from hta_widgets.analysis.scope import RankPart, RankParts, host_names, map_ranks
from hta_widgets.readers.formats import format_hooks
from hta_widgets.trace.arrays import Array, Bools, Floats, Ints
from hta_widgets.trace.memo import memoized
from hta_widgets.trace.selection import Selection
from hta_widgets.trace.trace import Trace
from hta_widgets.trace.traceset import TraceSet, most_frequent_size

_TOLERANCE_NS = 500_000  # ranks leave a collective within this time of each other
_CLOSE_NS = 20_000  # most leave within this time; lengths of steps differ by more
_MIN_AGREEING = 3  # agreeing ends needed to rule out chance
_MAX_DRIFT = 1e-4  # maximum drift between clocks
_FEW = 0.1  # maximum share of pairs of a guessed match that cannot be of one collective
_MAX_PAIRS = 4_000_000
_MAX_TRIED = 1 << 20  # pairs of all shifts together, above which a sample chooses the shifts
_SAMPLE, _FEW_SHIFTS = 64, 8  # pairs of each shift in the first sample; shifts always tried
_GOLDEN = 0.618033988749895
_PRIME, _BASE = (1 << 31) - 1, 1_000_003  # of hashes of contents
_COLUMNS = [
    "trace", "place", "group", "source", "target", "sequence", "content", "start", "end",
    "together",
]  # fmt: skip
#: Position of an event without a match.
MISSING = int(np.iinfo(np.int64).min)


@dataclass(slots=True)
class ProcessGroup:
    """A process group of the whole set."""

    label: str
    ranks: tuple[int, ...]
    size: int
    named: bool
    description: str = ""


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
        for mine, events in zip(self.of_trace, self.events, strict=True):
            values[mine] = getattr(events, field)[self.place[mine]]
        return values

    def sizes(self) -> Ints:
        """Return how many ranks' events each collective has."""
        return np.diff(np.append(self.starts, len(self)))

    def per_entry(self, values: Array) -> Array:
        """Return for each entry the value of its collective."""
        return np.repeat(values, self.sizes())

    def reduce_per_entry(self, reduce: np.ufunc, values: Array) -> Array:
        """Return for each entry the values of its collective's entries, reduced to one."""
        return self.per_entry(reduce.reduceat(values, self.starts)) if len(self) else values

    def last_entries(self, wait_ns: Ints) -> Ints:
        """Return for each collective the first of its entries that does not wait."""
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
        each = [(match.events[k].rows,) for k in wanted]
        for k, member in zip(
            wanted, map_ranks(selected, RankPart.contains, each=each), strict=True
        ):
            members[k] = member
    kept = np.zeros(len(match), dtype=bool)
    for entries, member in zip(match.of_trace, members, strict=True):
        kept[entries] = member[match.place[entries]]
    communication = sum(int(member.sum()) for member in members)
    alone = sum(
        int((member & events.is_single_rank).sum())
        for member, events in zip(members, match.events, strict=True)
    )
    complete = match.is_complete[np.unique(match.collective[kept])]
    return kept, {
        "communication": communication,
        "matched": int(complete.sum()),
        "partly_matched": int((~complete).sum()),
        "unmatched": communication - int(kept.sum()) - alone,
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


def recorded_shift(trace: Trace) -> int:
    """Return the shift from a table's times to the recorded clock."""
    # Matching always uses it, so that collectives keep their numbers on any clock.
    return trace.shift_ns + trace.clock_offset_ns


# --- matching -------------------------------------------------------------------------------------


@memoized
def _match(of: TraceSet) -> Matching:
    traces = list(of.values())
    events, steps, headers, on_hosts = _communication_of_ranks(of)
    keys, groups = identify_groups(traces, events, headers)
    table = _events_of_all(traces, events, keys)
    is_numbered = table.groupby("lane")["sequence"].transform("min") >= 0
    for _, of_lane in table[~is_numbered].groupby("lane"):
        named = groups[of_lane["group"].iloc[0]].named
        table.loc[of_lane.index, "sequence"] = _assign_by_order(of_lane, sure=named)
        table.loc[of_lane.index, "content"] = 0
    # Events of a rank that repeat a sequence number belong to different collectives.
    table["repeat"] = table.groupby(["lane", "trace", "sequence", "content"]).cumcount()
    slots = table.groupby(["lane", "sequence", "content", "repeat"])
    size, slot, first = slots["trace"].transform("size"), slots.ngroup(), slots["start"]
    group_size = np.array([group.size for group in groups], dtype=np.int64)
    whole = np.where(table["source"] >= 0, 2, group_size[table["group"]])
    kept = np.asarray((size >= 2) & (table["sequence"] != MISSING))
    # Collectives are numbered by their first start.
    order = np.lexsort((table["trace"], slot, first.transform("min")))
    order = order[kept[order]]
    trace, place, lane, group = (
        table[name].to_numpy()[order] for name in ("trace", "place", "lane", "group")
    )
    starts = np.flatnonzero(np.diff(slot.to_numpy()[order], prepend=-1))
    by_number = int(is_numbered.to_numpy()[order[starts]].sum())
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
        expected=whole[order[starts]],
        groups=groups,
        matched_by={"sequence_number": by_number, "order_and_time": len(starts) - by_number},
        missing_ranks=missing_ranks(traces, groups, headers),
        incomplete=has_missing_peers(traces, groups, keys),
        headers=headers,
        steps=steps,
        on_hosts=on_hosts,
    )


def _comm_of_rank(trace: Trace) -> tuple[CommEvents, Ints, JobHeader, Counter[str]]:
    events = comm_events(trace)
    return events, trace.table.step[events.rows], job_header(trace), host_names(trace)


def _communication_of_ranks(
    traces: TraceSet,
) -> tuple[list[CommEvents], list[Ints], list[JobHeader], list[Counter[str]]]:
    """Return each rank's communication (of devices or host calls), its steps, and its header."""
    results = list(map_ranks(traces, _comm_of_rank))
    events, steps = [result[0] for result in results], [result[1] for result in results]
    members = list(traces.values())
    for calls_of in format_hooks("collectives"):
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
            "together": _leave_together(events_of_rank),
        }
        blocks.append(pd.DataFrame(columns))
    table = pd.concat(blocks, ignore_index=True) if blocks else pd.DataFrame(columns=_COLUMNS)
    of_lane = ["group", "source", "target"]
    first = table.groupby(of_lane)["trace"].transform("min")
    table["lane"] = table.groupby([first, *of_lane]).ngroup()
    return table


def _assign_by_order(of_lane: pd.DataFrame, *, sure: bool) -> Ints:
    """Assign slots by order, contents and times, aligned with the rank that has most events."""
    ranks = [
        _RankSequence(*(lane[name].to_numpy() for name in _RankSequence._fields))
        for _, lane in of_lane.groupby("trace")
    ]
    most = max(ranks, key=lambda sequence: len(sequence.end))
    return np.concatenate(
        [
            np.arange(len(sequence.end))
            if sequence is most
            else _align_to_longest(most, sequence, sure=sure)
            for sequence in ranks
        ]
    )


# --- alignment by order and time ------------------------------------------------------------------


class _RankSequence(NamedTuple):
    """The events of one rank in a sequence of collectives."""

    content: Ints
    start: Ints
    end: Ints
    together: Bools


def _leave_together(events: CommEvents) -> Bools:
    """Return whether each event ends only after all ranks have arrived."""
    together: Bools = np.isin(events.operation, SYNCHRONIZING_OPERATIONS) & (events.early == 0)
    return together


def _align_to_longest(longest: _RankSequence, sequence: _RankSequence, *, sure: bool) -> Ints:
    """Return for each of a rank's events its position in the longest sequence."""
    place = align_sequences(longest.content, longest.end, sequence.content, sequence.end, sure=sure)
    mine = np.flatnonzero((place >= 0) & (place < len(longest.end)))
    if sure or not len(mine):
        return place
    # No event of a collective ends before another one of it begins, on clocks that drift.
    there = place[mine]
    apart = sequence.end[mine] - longest.end[there]
    middle, at = np.median(apart), np.median(sequence.end[mine])
    slack = _CLOSE_NS + _MAX_DRIFT * np.abs(sequence.end[mine] - at)
    early = np.maximum(
        longest.start[there] - (sequence.end[mine] - middle),
        sequence.start[mine] - middle - longest.end[there],
    )
    impossible = (early > slack) & sequence.together[mine] & longest.together[there]
    place[mine[impossible] if impossible.mean() <= _FEW else slice(None)] = MISSING
    return place


def align_sequences(
    content: Ints, end_ns: Ints, other_content: Ints, other_end_ns: Ints, *, sure: bool
) -> Ints:
    """Return for each of the other rank's events its position in the first rank's sequence."""
    # Both are parts of the sequence of collectives of one process group. The second is shifted
    # along the first to the position at which contents agree. Of several such positions, the one is
    # used at which all ends differ by nearly the same time, which does not depend on the clocks. If
    # events are missing in between, those events match whose ends differ by the time that most
    # pairs share.
    count = len(other_content)
    if not count or not len(content):
        return np.full(count, MISSING)
    shift, agreeing = _best_shift(content, end_ns, other_content, other_end_ns)
    in_order = np.full(count, MISSING) if shift is None else np.arange(count) + shift
    together = 0
    if shift is not None:
        together = min(len(content), shift + count) - max(0, shift)
    # A few agreeing ends may be chance, unless all agree.
    proof = 1 if sure or agreeing == len(content) == count else _MIN_AGREEING
    if agreeing >= max(0.5 * together, proof):
        return in_order
    by_time = _align_by_time(content, end_ns, other_content, other_end_ns)
    timed = int((by_time != MISSING).sum())
    # The order of a named group is better evidence than times that explain only a part of it.
    part = 0.75 * together if sure else 0
    if timed >= max(part, 2 if sure else _MIN_AGREEING) and timed > 1.5 * agreeing:
        return by_time
    # Ends of one or two events prove nothing.
    return in_order if sure or len(content) == count <= 2 else np.full(count, MISSING)


def _best_shift(
    content: Ints, end_ns: Ints, other_content: Ints, other_end_ns: Ints
) -> tuple[int | None, int]:
    """Return the position of the other sequence in the first, and the number of ends that agree."""
    first, second = len(content), len(other_content)
    if np.array_equal(content, other_content):
        apart = other_end_ns - end_ns
        off = np.abs(apart - np.median(apart))
        # If steps have equal lengths, a shift agrees as well; but ranks record the same steps.
        if (off <= _CLOSE_NS).sum() >= 0.9 * first:
            return 0, int((off <= _TOLERANCE_NS).sum())
    shorter = min(first, second)
    need = max(1, shorter // 2)
    shifts = _shifts_of_equal_content(content, other_content, need)
    best: tuple[float, int, int] | None = None
    for shift in _cheapest_shifts(shifts, end_ns, other_end_ns).tolist():
        low, high = _overlap(shift, first, second)
        there = slice(low - shift, high - shift)
        if not np.array_equal(content[low:high], other_content[there]):
            continue
        cost, off = _cost(other_end_ns[there] - end_ns[low:high], (high - low) / shorter)
        if best is None or cost < best[0]:
            best = (float(cost), shift, int((off <= _TOLERANCE_NS).sum()))
    return (None, 0) if best is None else (best[1], best[2])


def _overlap(shift: Any, first: int, second: int) -> tuple[Any, Any]:
    """Return the positions in the first sequence between which the shifted second one lies."""
    return np.maximum(shift, 0), np.minimum(first, shift + second)


def _cost(apart: Ints, share: Any) -> tuple[Any, Floats]:
    """Return how unlikely a shift is by differences of ends (last axis), and what varies in them.

    `share` is the part of the shorter sequence that has partners.
    """
    # The farther apart the ends are, the less likely a match; but clocks may differ by many steps.
    middle = np.median(apart, axis=-1, keepdims=True)
    off = np.abs(apart - middle)
    return (np.median(off, axis=-1) + 1_000.0) / share**2 + 0.003 * np.abs(middle[..., 0]), off


def _shifts_of_equal_content(content: Ints, other_content: Ints, need: int) -> Ints:
    """Return the shifts at which at least `need` pairs meet, all of equal content, by hashes."""
    first, second = len(content), len(other_content)
    shifts = np.arange(need - second, first - need + 1)
    # The sum of content[k] · base^k over a slice, times base^d, is that of the same contents
    # d places on. Unequal contents with equal sums are rare, and excluded afterwards.
    powers = accumulate(repeat(_BASE, max(first, second)), lambda a, b: a * b % _PRIME, initial=1)
    power = np.fromiter(powers, np.int64)
    sums, other_sums = (
        np.append(0, np.cumsum((codes + 1) * power[: len(codes)] % _PRIME))
        for codes in (content, other_content)
    )
    low, high = _overlap(shifts, first, second)
    ours = (sums[high] - sums[low]) % _PRIME * power[np.maximum(-shifts, 0)] % _PRIME
    theirs = (other_sums[high - shifts] - other_sums[low - shifts]) % _PRIME
    found: Ints = shifts[ours == theirs * power[np.maximum(shifts, 0)] % _PRIME]
    return found


def _cheapest_shifts(shifts: Ints, end_ns: Ints, other_end_ns: Ints) -> Ints:
    """Return the shifts with the lowest cost on a sample of pairs; all of them if there are few."""
    # Each round keeps a quarter of the shifts and takes four times as many pairs of each, so that
    # time grows with the length only, not with its square.
    first, second = len(end_ns), len(other_end_ns)
    shorter, size = min(first, second), _SAMPLE
    while len(shifts) > _FEW_SHIFTS and len(shifts) * shorter > _MAX_TRIED:
        # Multiples of the golden ratio spread evenly and never repeat with the steps.
        parts = np.arange(size) * _GOLDEN % 1.0
        costs = []
        for some in np.array_split(shifts[:, None], len(shifts) * size // _MAX_TRIED + 1):
            low, high = _overlap(some, first, second)
            place = low + (parts * (high - low)).astype(np.int64)
            share = (high - low)[:, 0] / shorter
            costs.append(_cost(other_end_ns[place - some] - end_ns[place], share)[0])
        least = np.argsort(np.concatenate(costs), kind="stable")
        shifts = np.sort(shifts[least[: max(len(shifts) // 4, _FEW_SHIFTS)]])
        size *= 4
    return shifts


def _align_by_time(content: Ints, end_ns: Ints, other_content: Ints, other_end_ns: Ints) -> Ints:
    """Match events of equal content at the difference of ends that most pairs share."""
    matched_positions = np.full(len(other_content), MISSING)
    if len(content) * len(other_content) > _MAX_PAIRS:
        return matched_positions
    apart = other_end_ns[:, None] - end_ns[None, :]
    equal = other_content[:, None] == content[None, :]
    sorted_apart = np.sort(apart[equal])
    if not len(sorted_apart):
        return matched_positions
    reach = np.searchsorted(sorted_apart, sorted_apart + _TOLERANCE_NS, side="right")
    votes = reach - np.arange(len(sorted_apart))
    leaders = np.flatnonzero(votes == votes.max())
    leader = int(leaders[np.abs(sorted_apart[leaders]).argmin()])
    middle = int(np.median(sorted_apart[leader : reach[leader]]))
    off = np.where(equal, np.abs(apart - middle), np.iinfo(np.int64).max)
    nearest, back = off.argmin(axis=1), off.argmin(axis=0)
    each = np.arange(len(other_content))
    good = (off[each, nearest] <= _TOLERANCE_NS) & (back[nearest] == each)
    matched_positions[good] = nearest[good]
    return matched_positions


# --- process groups -------------------------------------------------------------------------------


def identify_groups(
    traces: Sequence[Trace], events: Sequence[CommEvents], headers: Sequence[JobHeader]
) -> tuple[list[list[int]], list[ProcessGroup]]:
    """Return the numbers of each trace's groups in a common list of groups, and that list."""
    # A group is identified by its name and the list of its ranks. If no two ranks share a name for
    # the groups with one list, the n-th name on each rank is the same group.
    copies = _run_numbers(traces)
    by_members: dict[Hashable, dict[int, list[str]]] = defaultdict(dict)
    for t, comm in enumerate(events):
        for group in comm.groups:
            by_members[_members_key(group, copies[t])].setdefault(t, []).append(group.name)
    # By list of ranks: whether ranks call the same groups by different names.
    ordinal = {
        key: len(names) > 1 and max(Counter(chain(*map(set, names.values()))).values()) == 1
        for key, names in by_members.items()
    }
    streams = _stream_numbers(events)
    listed = _groups_of_streams(traces, events, headers, copies, streams)
    numbers: dict[Hashable, int] = {}
    identities: list[tuple[GroupName, int]] = []
    keys = []
    for t, comm in enumerate(events):
        mine = []
        for each in comm.groups:
            group = replace(each, ranks=listed[t].get(each.stream, each.ranks))
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
    return keys, _label_streams(identities, headers)


def _run_numbers(traces: Sequence[Trace]) -> list[int]:
    """Return a number for each trace's run: runs loaded together may share rank numbers."""
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
        return ("stream", group.ranks, copy)
    # Use the event's list: not every file has a header that completes long lists.
    return (_group_numbers_in(group.listed) or group.ranks, group.size, copy)


@lru_cache(maxsize=4096)
def _group_numbers_in(listed: str) -> tuple[str, ...]:
    return tuple(re.findall(r"\d+", listed))


def _stream_numbers(events: Sequence[CommEvents]) -> list[dict[int, int]]:
    """Return each stream's identity, without groups: its number, or position if numbers differ."""
    used = [sorted({group.stream for group in comm.groups if group.stream >= 0}) for comm in events]
    same = len({tuple(streams) for streams in used if streams}) <= 1
    return [
        {stream: stream if same else place for place, stream in enumerate(streams)}
        for streams in used
    ]


def _groups_of_streams(
    traces: Sequence[Trace],
    events: Sequence[CommEvents],
    headers: Sequence[JobHeader],
    copies: Sequence[int],
    streams: Sequence[dict[int, int]],
) -> list[dict[int, tuple[int, ...]]]:
    """Return by trace the ranks of streams without a group, where headers and times decide them."""
    # A stream serves one group. Of the groups that the header lists, it is the largest whose ranks'
    # events can be those of the same collectives. If it is that of all ranks, or two groups that do
    # not contain each other are possible, it stays open.
    contents: dict[Hashable, int] = {}
    place = {(copies[t], stated_rank(trace)): t for t, trace in enumerate(traces)}

    @cache
    def sequence(t: int, identity: int) -> _RankSequence:
        comm = events[t]
        mine = np.array([streams[t].get(group.stream) == identity for group in comm.groups], bool)
        rows = np.flatnonzero(mine[comm.group])
        codes = [contents.setdefault(item, len(contents)) for item in comm.content]
        return _RankSequence(
            np.array(codes, dtype=np.int64)[comm.content_code[rows]],
            comm.start_ns[rows] + recorded_shift(traces[t]),
            comm.end_ns[rows] + recorded_shift(traces[t]),
            _leave_together(comm)[rows],
        )

    @cache
    def is_possible(ranks: tuple[int, ...], copy: int, identity: int) -> bool:
        loaded = [place[copy, rank] for rank in ranks if (copy, rank) in place]
        sequences = [member for t in loaded if len((member := sequence(t, identity)).end)]
        most = max(sequences, key=lambda member: len(member.end))
        return all(
            np.mean(_align_to_longest(most, member, sure=False) != MISSING) >= 0.5
            for member in sequences
        )

    ranks_by_stream: list[dict[int, tuple[int, ...]]] = []
    for trace, header, copy, of_stream in zip(traces, headers, copies, streams, strict=True):
        rank = stated_rank(trace)
        groups = {
            group.ranks for group in header.groups if rank in group.ranks and len(group.ranks) > 1
        }
        ranks_by_stream.append({})
        for stream, identity in of_stream.items() if len(groups) > 1 else ():
            possible = [ranks for ranks in groups if is_possible(ranks, copy, identity)]
            largest = max(possible, key=len, default=())
            is_whole = len(largest) == header.world_size
            if not is_whole and all(set(ranks) <= set(largest) for ranks in possible):
                ranks_by_stream[-1][stream] = largest
    return ranks_by_stream


def _label_streams(
    identities: list[tuple[GroupName, int]], headers: Sequence[JobHeader]
) -> list[ProcessGroup]:
    names = Counter((group.name, copy) for group, copy in identities if group.stream < 0)
    groups: list[ProcessGroup] = []
    taken: set[str] = set()
    world = world_size(headers)
    for group, copy in identities:
        label, size, ranks = group.name, group.size, group.ranks
        if group.stream >= 0:
            label = f"stream {group.stream} {list(ranks) or ''}".strip()
            size = len(ranks) or world
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
        groups.append(ProcessGroup(unique, ranks, size, group.stream < 0))
    return groups


def world_size(headers: Iterable[JobHeader]) -> int:
    """Return the job's number of ranks as in the files' headers, -1 if unknown."""
    return most_frequent_size(header.world_size for header in headers) or -1


def missing_ranks(
    traces: Sequence[Trace], groups: Sequence[ProcessGroup], headers: Sequence[JobHeader]
) -> int:
    """Return how many ranks of the job, by its groups and headers, have no file."""
    have = loaded_ranks(traces)
    named = {rank for group in groups for rank in group.ranks}
    return max(len(named - have), world_size(headers) - len(have), 0)


def has_missing_peers(
    traces: Sequence[Trace], groups: Sequence[ProcessGroup], keys: Sequence[Sequence[int]]
) -> list[bool]:
    """Return for each rank whether the file of any rank in its groups is missing.

    `keys` are each rank's groups, as positions in `groups`. A rank that is late in such a group, or
    elsewhere after it, may have waited for a missing rank.
    """
    have, members = (
        loaded_ranks(traces),
        Counter(k for groups_of_rank in keys for k in set(groups_of_rank)),
    )
    incomplete = [
        bool(set(group.ranks) - have) if group.ranks else members[k] < group.size
        for k, group in enumerate(groups)
    ]
    return [any(incomplete[k] for k in groups_of_rank) for groups_of_rank in keys]


def loaded_ranks(traces: Iterable[Trace]) -> set[int]:
    """Return the ranks that have files, by the numbers that the files state."""
    return {stated_rank(trace) for trace in traces}


def stated_rank(trace: Trace) -> int:
    """Return the rank's number as its file states it, or else its key in the set."""
    return trace.rank if trace.stated_rank is None else trace.stated_rank
