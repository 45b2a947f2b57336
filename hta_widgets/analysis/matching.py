"""Which device events on different ranks are one collective, or one send and its receive."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from hta_widgets.trace.selection import Selection
from hta_widgets.trace.trace import Trace
from hta_widgets.trace.traceset import TraceSet
from hta_widgets.trace.derived import derived_by_rules
from hta_widgets.trace.turns import rest

from hta_widgets.analysis.alignment import MISSING
from hta_widgets.analysis.alignment import aligned
from hta_widgets.analysis.collective_args import CommEvents
from hta_widgets.analysis.collective_args import comm_events
from hta_widgets.analysis.group_headers import Header
from hta_widgets.analysis.group_headers import header_of
from hta_widgets.formats.mpi.mpi_calls import has_mpi_calls
from hta_widgets.formats.mpi.mpi_calls import mpi_calls
from hta_widgets.analysis.over_ranks import over_ranks
from hta_widgets.analysis.process_groups import Group
from hta_widgets.analysis.process_groups import identified
from hta_widgets.analysis.process_groups import lacking
from hta_widgets.analysis.process_groups import missing_ranks
from hta_widgets.analysis.scope import Part
from hta_widgets.analysis.scope import Parts

__all__ = ["Matching", "counted", "matching", "recorded_shift", "split"]

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Matching:
    """Events that belong together; one entry per event, sorted by collective, then rank.

    Attributes
    ----------
    collective : array of int
        Number of the collective, from 0 in order of time.
    trace : array of int
        Position of the event's rank among `traces`.
    place : array of int
        Position of the event in its rank's `CommEvents`.
    lane : array of int
        Which sequence the collective is of: its group's, or that of a pair's sends.
    group : array of int
        Position in `groups`.
    of_trace : list of array of int
        The entries of each rank.
    starts : array of int
        Where each collective's entries begin.
    expected : array of int
        How many ranks each collective has, by its group; -1 where no file says.
    counts : dict
        Collectives ``matched`` on all their ranks, ``partly_matched`` (some ranks' events are
        missing) and ``unmatched`` (on one rank only), ``alone`` (groups of one rank), and
        ``communication``, the events of all of them.
    matched_by : dict
        How many collectives were matched by ``sequence_number`` and by ``order_and_time``.
    missing_ranks : int
        How many ranks take part, as far as files say, of which there is no file.
    lacking : list of bool
        Of each rank, whether one of its groups lacks a rank's file.
    """

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
        rest()
        return values

    def sizes(self) -> Ints:
        """Return how many ranks' events each collective has."""
        return np.diff(np.append(self.starts, len(self)))

    def each(self, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Spread one value per collective over its entries."""
        rest()
        return np.repeat(values, self.sizes())


def split(codes: Ints, count: int) -> list[Ints]:
    """Return for each of `count` codes where it stands, ascending."""
    if not count:
        return []
    order = np.argsort(codes, kind="stable")
    return np.split(order, np.cumsum(np.bincount(codes, minlength=count))[:-1])


def recorded_shift(trace: Trace) -> int:
    """Return what is to be added to a table's times for the recorded clock.

    Matching works on it whatever clock a set lies on, so that collectives keep their numbers.
    """
    return trace.shift_ns + trace.clock_offset_ns


def counted(match: Matching, chosen: Selection) -> tuple[npt.NDArray[np.bool_], dict[str, int]]:
    """Return which entries are selected, and the counts of what is."""
    kept = np.zeros(len(match), dtype=bool)
    communication = alone = 0
    rest()
    for number, (events, member) in enumerate(
        zip(match.events, _members(match, chosen), strict=True)
    ):
        mine = match.of_trace[number]
        kept[mine] = member[match.place[mine]]
        single = np.array([group.size == 1 for group in events.groups], dtype=bool)
        communication += int(member.sum())
        alone += int((member & single[events.group]).sum()) if len(single) else 0
    rest()
    shown = np.unique(match.collective[kept])
    rest()
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


def matching(traces: TraceSet) -> Matching:
    """Return which communication of the ranks belongs together.

    Collectives are matched by process group, then by sequence number where files have them, else
    by order within the group, laid upon each other where names and sizes agree (`aligned`).
    Sends and receives are matched within each pair of ranks. Kernels that name no group are
    taken by device stream, and matched only as far as their ends agree.
    """
    # What is kept holds on any clock; the ranks are on that of the set.
    return replace(_matched(traces), traces=list(traces.values()), executor=traces.executor)


@dataclass(slots=True)
class _Lane:
    """One sequence of collectives; members are (trace, places)."""

    group: int
    members: list[tuple[int, Ints]]
    sure: bool


@derived_by_rules("matching")
def _matched(of: TraceSet) -> Matching:
    traces = list(of.values())
    ranks = _communication(of)
    events, headers = [one.events for one in ranks], [one.header for one in ranks]
    keys, groups = identified(traces, events, headers)
    rest()
    lanes = _lanes(events, keys, groups)
    rest()
    contents: dict[Hashable, int] = {}
    codes = [
        np.array([contents.setdefault(item, len(contents)) for item in one.content], np.int64)
        for one in events
    ]
    found: list[tuple[Ints, Ints, Ints, Ints]] = []  # slot, trace, place, lane
    counts: Counter[str] = Counter(communication=sum(len(one.rows) for one in events))
    matched_by: Counter[str] = Counter(sequence_number=0, order_and_time=0)
    base = 0  # numbers of slots that no other lane uses
    for number, lane in enumerate(lanes):
        numbered = all((events[t].sequence[places] >= 0).all() for t, places in lane.members)
        slots = (
            _by_sequence(lane, events, codes)
            if numbered
            else _by_order(lane, traces, events, codes)
        )
        slot = np.concatenate(slots)
        trace = np.concatenate(
            [np.full(len(places), t, dtype=np.int64) for t, places in lane.members]
        )
        place = np.concatenate([places for _, places in lane.members])
        lost = int((slot == MISSING).sum())
        kept = slot != MISSING
        values, inverse, sizes = np.unique(slot[kept], return_inverse=True, return_counts=True)
        whole = _whole(lane, events, groups)
        several = sizes >= 2
        alone = "alone" if whole == 1 else "unmatched"
        counts[alone] += lost + int((~several).sum())
        complete = int((sizes[several] >= whole).sum()) if whole > 0 else int(several.sum())
        counts["matched"] += complete
        counts["partly_matched"] += int(several.sum()) - complete
        matched_by["sequence_number" if numbered else "order_and_time"] += int(several.sum())
        good = several[inverse]
        rows = np.flatnonzero(kept)[good]
        found.append(
            (
                inverse[good] + base,
                trace[rows],
                place[rows],
                np.full(len(rows), number, dtype=np.int64),
            )
        )
        base += len(values)
        rest()
    counted = {
        key: counts[key]
        for key in ("communication", "matched", "partly_matched", "unmatched", "alone")
    }
    return _sorted(traces, ranks, lanes, (groups, keys), found, counted, dict(matched_by))


@dataclass(slots=True, eq=False)
class _RankComm:
    """What is to be known of one rank."""

    events: CommEvents
    is_mpi: bool
    steps: Ints
    header: Header


def _comm_of_rank(trace: Trace) -> _RankComm:
    events = comm_events(trace)
    steps = trace.table.step[events.rows]
    return _RankComm(events, has_mpi_calls(trace), steps, header_of(trace))


def _communication(traces: TraceSet) -> list[_RankComm]:
    """Return what ranks communicate: on their devices, or in MPI calls."""
    found = list(over_ranks(traces, _comm_of_rank))
    by_calls = [
        (trace, one) for trace, one in zip(traces.values(), found, strict=True) if one.is_mpi
    ]
    calls = mpi_calls([trace for trace, _ in by_calls])
    for (trace, one), events in zip(by_calls, calls, strict=True):
        one.events, one.steps = events, trace.table.step[events.rows]
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
        rest()
    rest()
    order = np.lexsort((trace, slot))
    rest()
    slot, trace, place, lane, start = (a[order] for a in (slot, trace, place, lane, start))
    begins = np.flatnonzero(np.diff(slot, prepend=-1)) if len(slot) else empty
    first = np.minimum.reduceat(start, begins) if len(begins) else empty
    sizes = np.diff(np.append(begins, len(slot)))
    rank_of = np.empty(len(begins), dtype=np.int64)
    rank_of[np.argsort(first, kind="stable")] = np.arange(len(begins))
    numbers = np.repeat(rank_of, sizes)
    rest()
    order = np.argsort(numbers, kind="stable")
    rest()
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


# --- which collective of the group ----------------------------------------------------------------


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
        rest()
    return list(lanes.values())


def _whole(lane: _Lane, events: Sequence[CommEvents], groups: Sequence[Group]) -> int:
    """Return how many ranks each collective of a lane has."""
    trace, places = lane.members[0]
    return 2 if events[trace].source[places[0]] >= 0 else groups[lane.group].size


def _by_sequence(lane: _Lane, events: Sequence[CommEvents], codes: Sequence[Ints]) -> list[Ints]:
    """Return slots by sequence number; one that repeats counts its repetitions."""
    told = [codes[t][events[t].content_code[places]] for t, places in lane.members]
    content = np.concatenate(told)
    numbers = np.concatenate([events[t].sequence[places] for t, places in lane.members])
    step = np.unique(numbers, return_inverse=True)[1].reshape(-1) * (int(content.max()) + 1)
    slot = np.unique(step + content, return_inverse=True)[1].reshape(-1).astype(np.int64)
    parts = np.split(slot, np.cumsum([len(one) for one in told])[:-1])
    if all(len(np.unique(part)) == len(part) for part in parts):
        return parts
    slots: dict[tuple[int, int, int], int] = {}
    found = []
    for (t, places), alike in zip(lane.members, told, strict=True):
        sequence = events[t].sequence[places]
        seen: Counter[tuple[int, int]] = Counter()
        mine = np.empty(len(places), dtype=np.int64)
        for k, key in enumerate(zip(sequence.tolist(), alike.tolist(), strict=True)):
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
