"""Match the communication events of different ranks that belong to one collective or send.

1. The communication of each rank is read, with the process groups that it names (`comm_events`).
   Groups of different ranks are matched with each other (`comm_groups`).
2. Events are divided into lanes: a lane is the sequence of the collectives of a group, or of the
   sends between a pair of its ranks. All ranks of a lane run its collectives in the same order.
3. Each event gets a slot in its lane: the sequence number in the file or, without numbers, the
   position in the longest sequence of any rank (`alignment`).
4. Events of different ranks with the same lane and slot form a collective.

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
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from hta_widgets.analysis.cross_rank.alignment import (
    MISSING,
    RankSequence,
    align_to_longest,
    is_ambiguous,
)
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
from hta_widgets.trace.arrays import Array, Bools, Ints, number_in_group, positions_by_code
from hta_widgets.trace.intervals import union
from hta_widgets.trace.memo import memoize
from hta_widgets.trace.trace import Trace
from hta_widgets.trace.traceset import Selection, TraceSet

#: Columns of the communication of all ranks, one item per event.
_Events = dict[str, Array]
#: Exceeds the number of collectives in a recording window.
_WINDOW_SLOTS = 1 << 40
#: Above this number of pairs of windows, only the most common differences between their starts are
#: tried. Differences within this fraction of the shortest window count as nearly equal.
_MAX_OFFSETS, _PARTS_OF_WINDOW = 2_500, 8
#: Columns of `_entries_with_partners` that `_match` reads.
_COLUMNS = ("trace", "place", "lane", "group", "source", "slot", "numbered", "ambiguous")


@dataclass(frozen=True, slots=True, eq=False)
class Matching:
    """Communication events by collective: one entry per event, sorted by collective, then rank."""

    traces: list[Trace]
    events: list[CommEvents]
    # By entry.
    collective: Ints
    trace: Ints  # position in `traces`
    place: Ints  # position among the events of its trace
    lane: Ints
    group: Ints  # position in `groups`
    of_trace: list[Ints]  # entries by rank
    # By collective.
    starts: Ints  # the first entry
    expected: Ints  # number of ranks that take part; -1 if unknown
    groups: list[ProcessGroup]
    matched_by: dict[str, int]
    ambiguous: int  # number of collectives whose events may belong to a neighboring one
    missing_ranks: int
    incomplete: list[bool]  # per rank: whether the file of another rank in its groups is missing
    headers: list[JobHeader]
    steps: list[Ints]  # per rank: the step of each event
    on_hosts: list[Counter[str]]  # per rank: its unmatched host collectives, by name
    executor: Any = None

    def __len__(self) -> int:
        return len(self.collective)

    def event_field(self, field: str) -> Ints:
        """Return a field of `CommEvents` for each entry."""
        values = np.empty(len(self), dtype=np.int64)
        for entries, events in zip(self.of_trace, self.events, strict=True):
            values[entries] = getattr(events, field)[self.place[entries]]
        return values

    def sizes(self) -> Ints:
        """Return the number of ranks that have events in each collective."""
        return np.diff(np.append(self.starts, len(self)))

    def per_entry(self, values: Array) -> Array:
        """Return the value of each entry's collective."""
        return np.repeat(values, self.sizes())

    def reduce_per_entry(self, reduce: np.ufunc, values: Array) -> Array:
        """Return, for each entry, its collective's values reduced to one value."""
        return self.per_entry(reduce.reduceat(values, self.starts)) if len(self) else values

    def last_entries(self, wait_ns: Ints) -> Ints:
        """Return, for each collective, its first entry that does not wait."""
        late = np.where(wait_ns == 0, np.arange(len(self)), len(self))
        return np.minimum.reduceat(late, self.starts) if len(self) else late

    @property
    def is_complete(self) -> Bools:
        """Whether each collective has an event of every rank known to take part in it."""
        return (self.expected <= 0) | (self.sizes() >= self.expected)


def matching(traces: TraceSet) -> Matching:
    """Return the matched communication of the ranks of a trace set.

    For a job without communication on devices, collectives on hosts are matched in the same way.
    Kernels that name no group are grouped by device stream. A stream is assumed to serve the
    largest listed group whose ranks' times fit together. Such kernels are matched only as far as
    their ends agree and none ends before another begins. Order and times are compared within each
    recording window, because a rank may lack a window.
    """
    # The memoized result does not depend on the clock, but may hold another trace set's ranks.
    return replace(_match(traces), traces=list(traces.values()), executor=traces.executor)


@memoize
def _match(trace_set: TraceSet) -> Matching:
    """Return the matched communication, computed without an executor."""
    traces = list(trace_set.values())
    ranks = _communication_of_ranks(trace_set)
    events, headers = [rank.events for rank in ranks], [rank.header for rank in ranks]
    keys, groups = identify_groups(traces, events, headers)
    entries: _Events = dict.fromkeys(_COLUMNS, np.empty(0, np.int64))
    if sum(len(events_of_rank.rows) > 0 for events_of_rank in events) > 1:
        entries = _entries_with_partners(_events_of_all(traces, ranks, keys), groups)
    trace, place, lane, group, source, slot, is_numbered, ambiguous = (
        entries[name] for name in _COLUMNS
    )
    starts = np.flatnonzero(np.diff(slot, prepend=-1))
    by_number = int(is_numbered[starts].sum())
    group_size = np.array([process_group.size for process_group in groups], dtype=np.int64)
    is_pair = source[starts] >= 0
    return Matching(
        traces=traces,
        events=events,
        collective=np.repeat(np.arange(len(starts)), np.diff(np.append(starts, len(trace)))),
        trace=trace,
        place=place,
        lane=lane,
        group=group,
        of_trace=positions_by_code(trace, len(traces)),
        starts=starts,
        expected=np.where(is_pair, 2, group_size[group[starts]]),
        groups=groups,
        matched_by={"sequence_number": by_number, "order_and_time": len(starts) - by_number},
        ambiguous=len(np.unique(slot[ambiguous > 0])),
        missing_ranks=missing_ranks(traces, groups, headers),
        incomplete=missing_peers_mask(traces, groups, keys),
        headers=headers,
        steps=[rank.steps for rank in ranks],
        on_hosts=[rank.on_host for rank in ranks],
    )


class _RankCommunication(NamedTuple):
    events: CommEvents
    steps: Ints  # step of each event
    header: JobHeader
    on_host: Counter[str]  # other host collectives, by name
    has_device: bool
    windows_ns: Ints  # start and end of each recording window on the recorded clock


def _communication_of_ranks(traces: TraceSet) -> list[_RankCommunication]:
    """Return the ranks' communication on devices or, if there is none, on hosts."""
    results = list(map_ranks(traces, _communication_of_rank, comm_events))
    if len(results) > 1 and not any(len(result.events.rows) for result in results):
        results = list(map_ranks(traces, _communication_of_rank, host_comm_events))
    members = list(traces.values())
    # Exports are Kineto files whose events may have names from another format. If a rank has a
    # device, its host calls are not the collectives of its kernels.
    formats = () if all(result.has_device for result in results) else all_formats()
    for calls_of in load_references(format_.analyses.collectives for format_ in formats):
        for place, calls in calls_of(members).items():
            steps = members[place].table.step[calls.rows]
            results[place] = results[place]._replace(events=calls, steps=steps)
    return results


def _communication_of_rank(
    trace: Trace, events_of: Callable[[Trace], CommEvents]
) -> _RankCommunication:
    events = events_of(trace)
    rest = count_host_collectives(trace) - count_by_name(trace, events.rows)
    has_device = any(track.stream >= 0 for track in trace.tracks)
    steps = trace.table.step[events.rows]
    windows = trace.recorded_ns or [(0, trace.table.last_ns)]
    windows_ns = np.array(windows, np.int64) + recorded_shift(trace)
    return _RankCommunication(events, steps, job_header(trace), rest, has_device, windows_ns)


def _events_of_all(
    traces: Sequence[Trace], ranks: Sequence[_RankCommunication], keys: Sequence[Sequence[int]]
) -> _Events:
    """Concatenate the communication of all ranks, on the recorded clock.

    The column ``lane`` numbers the lanes in the order of their first trace.
    """
    contents: dict[Hashable, int] = {}
    blocks = []
    window_numbers = _number_windows(
        [rank.windows_ns for rank in ranks],
        [_first_steps(trace, rank) for trace, rank in zip(traces, ranks, strict=True)],
    )
    for number, (trace, rank) in enumerate(zip(traces, ranks, strict=True)):
        events_of_rank = rank.events
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
            "step": rank.steps,
            "window": window_numbers[number][_windows_of_events(trace, rank)],
        }
        blocks.append(columns)
    table = {name: np.concatenate([block[name] for block in blocks]) for name in blocks[0]}
    lane = _number_combinations(table["group"], table["source"], table["target"])
    first_trace = table["trace"][np.unique(lane, return_index=True)[1]]
    return table | {"lane": _number_combinations(first_trace[lane], lane)}


def _windows_of_events(trace: Trace, rank: _RankCommunication) -> Ints:
    start_ns = rank.events.start_ns + recorded_shift(trace)
    return np.searchsorted(rank.windows_ns[1:, 0], start_ns, side="right")


def _first_steps(trace: Trace, rank: _RankCommunication) -> Ints:
    window, has_step = _windows_of_events(trace, rank), rank.steps >= 0
    first = pd.Series(rank.steps[has_step]).groupby(window[has_step]).min()
    return first.reindex(range(len(rank.windows_ns)), fill_value=-1).to_numpy()


def _number_windows(windows_of_ranks: Sequence[Ints], steps_of_ranks: Sequence[Ints]) -> list[Ints]:
    """Return, for each rank, the job-wide numbers of its recording windows.

    Windows that overlap on the recorded clocks are one window of the job. If few overlap, the
    clocks differ, and each rank's windows are paired with those of the rank that has most.
    `steps_of_ranks` is the first step of each window, -1 if unknown.
    """
    counts = [len(windows) for windows in windows_of_ranks]
    in_order = [np.arange(count) for count in counts]
    if max(counts, default=1) == 1:
        return in_order
    starts, _ = union(*np.concatenate(windows_of_ranks).T)
    by_time = [
        np.searchsorted(starts, windows[:, 0], side="right") - 1 for windows in windows_of_ranks
    ]
    ranks_of_window = np.bincount(np.concatenate(by_time))
    overlapping = int(ranks_of_window[ranks_of_window > 1].sum())
    is_apart = all((np.diff(numbers) > 0).all() for numbers in by_time)
    longest = int(np.argmax(counts))
    # The rank with the most windows may have windows that no other rank has.
    shared = sum(min(count, sorted(counts)[-2]) for count in counts)
    if is_apart and 2 * overlapping >= shared:
        return by_time
    numbers, next_number = list(in_order), max(counts)
    for rank, (windows, steps) in enumerate(zip(windows_of_ranks, steps_of_ranks, strict=True)):
        if rank != longest:
            partners = _pair_windows(
                windows_of_ranks[longest], windows, steps_of_ranks[longest], steps
            )
            is_alone = partners < 0
            partners[is_alone] = next_number + np.arange(is_alone.sum())
            next_number += int(is_alone.sum())
            numbers[rank] = partners
    return numbers


def _pair_windows(windows: Ints, other_windows: Ints, steps: Ints, other_steps: Ints) -> Ints:
    """Return, for each of the other windows, the window that it overlaps; -1 if there is none.

    The clocks are shifted so that most windows overlap. Overlaps count twice as much as matching
    first steps, because a rank that lacks windows may count its steps from 0.
    """
    best_score, best_partners = (-1, 0), np.full(len(other_windows), -1)
    for offset in _clock_offsets(windows, other_windows):
        start, end = (other_windows - offset).T
        place = np.clip(np.searchsorted(windows[:, 0], start, "right") - 1, 0, None)
        low, high = np.maximum(start, windows[place, 0]), np.minimum(end, windows[place, 1])
        shorter = np.minimum(end - start, windows[place, 1] - windows[place, 0])
        overlaps = (2 * (high - low) >= shorter) & (np.diff(place, prepend=-1) > 0)
        is_known = overlaps & (steps[place] >= 0) & (other_steps >= 0)
        is_equal = steps[place] == other_steps
        agreeing = int((is_known & is_equal).sum()) - int((is_known & ~is_equal).sum())
        score = 2 * int(overlaps.sum()) + agreeing, -abs(offset)
        if score > best_score:
            best_score, best_partners = score, np.where(overlaps, place, -1)
    return best_partners


def _clock_offsets(windows: Ints, other_windows: Ints) -> list[int]:
    """Return the differences between windows' starts, or the most common ones if there are many."""
    offsets = np.sort((other_windows[:, :1] - windows[:, 0]).ravel())
    if len(offsets) > _MAX_OFFSETS:
        lengths = np.diff(np.concatenate((windows, other_windows)), axis=1)
        near_ns = max(int(lengths.min()) // _PARTS_OF_WINDOW, 1)
        first = np.searchsorted(offsets, offsets - near_ns)
        pairs = np.searchsorted(offsets, offsets + near_ns, "right") - first
        offsets = offsets[2 * pairs >= pairs.max()]
        # Keep one of several nearly equal differences.
        offsets = offsets[np.unique(offsets // near_ns, return_index=True)[1]]
    distinct: list[int] = offsets.tolist()
    return distinct


def _entries_with_partners(events: _Events, groups: Sequence[ProcessGroup]) -> _Events:
    """Return the events that other ranks share, by collective and rank.

    `events` is the result of `_events_of_all`. ``slot`` numbers the collectives by first start.
    ``numbered`` marks collectives identified by sequence numbers in the files. ``ambiguous`` marks
    collectives whose times also fit a neighboring one.
    """
    lane, trace, sequence = events["lane"], events["trace"], events["sequence"]
    lanes = int(lane.max()) + 1
    is_numbered = pd.Series(sequence).groupby(lane).min().to_numpy() >= 0
    rows_of_lanes = positions_by_code(lane, lanes)
    ambiguous = np.zeros(len(lane), dtype=bool)
    for number in np.flatnonzero(~is_numbered).tolist():
        rows = rows_of_lanes[number]
        of_lane = {name: column[rows] for name, column in events.items()}
        is_sure = groups[of_lane["group"][0]].named
        sequence[rows], ambiguous[rows] = _slots_by_order(of_lane, sure=is_sure)
        events["content"][rows] = 0  # the order has already compared the contents
    # If a rank repeats a sequence number, the events belong to different collectives.
    slot = _number_combinations(lane, sequence, events["content"])
    repeat = number_in_group(_number_combinations(slot, trace))
    slot = _number_combinations(slot, repeat)
    first_ns = pd.Series(events["start"]).groupby(slot).transform("min").to_numpy()
    has_partner = (np.bincount(slot)[slot] >= 2) & (sequence != MISSING)
    order = np.lexsort((trace, slot, first_ns))
    order = order[has_partner[order]]
    columns = events | {"slot": slot, "numbered": is_numbered[lane], "ambiguous": ambiguous}
    return {name: column[order] for name, column in columns.items()}


def _slots_by_order(of_lane: _Events, *, sure: bool) -> tuple[Ints, Bools]:
    """Return the slots of a lane's events, from their order within each recording window.

    The second array states whether another position fits as well.
    """
    slots = np.empty(len(of_lane["trace"]), dtype=np.int64)
    ambiguous = np.zeros(len(slots), dtype=bool)
    for window in np.unique(of_lane["window"]).tolist():
        rows = np.flatnonzero(of_lane["window"] == window)
        of_window = {name: column[rows] for name, column in of_lane.items()}
        positions, ambiguous[rows] = _positions_in_longest(of_window, sure=sure)
        slots[rows] = np.where(positions == MISSING, MISSING, positions + window * _WINDOW_SLOTS)
    return slots, ambiguous


def _positions_in_longest(events: _Events, *, sure: bool) -> tuple[Ints, Bools]:
    """Return the position of each event in the longest sequence of any rank.

    The second array states whether another position fits as well.
    """
    # Events are sorted by trace.
    edges = np.flatnonzero(np.diff(events["trace"], prepend=-1, append=-1))
    ranks = [
        RankSequence(*(events[name][low:high] for name in RankSequence._fields))
        for low, high in pairwise(edges.tolist())
    ]
    longest = max(ranks, key=lambda sequence: len(sequence.end))
    positions, ambiguous = [], []
    for sequence in ranks:
        if sequence is longest:
            place = np.arange(len(sequence.end))
        else:
            place = align_to_longest(longest, sequence, sure=sure)
        positions.append(place)
        ambiguous.append(np.full(len(place), is_ambiguous(longest, sequence, place)))
    return np.concatenate(positions), np.concatenate(ambiguous)


def _number_combinations(*columns: Array) -> Ints:
    """Return the number of each item's combination of values; combinations are sorted."""
    number = np.zeros(len(columns[0]), dtype=np.int64)
    for column in columns:
        code, distinct = pd.factorize(column, sort=True)
        number = pd.factorize(number * len(distinct) + code, sort=True)[0]
    return number


def count_selected(match: Matching, chosen: Selection) -> tuple[Bools, dict[str, int]]:
    """Return a mask of selected entries, and the counts of selected events and collectives."""
    members = [
        np.full(len(events.rows), chosen.ranks is None or trace.rank in chosen.ranks)
        for trace, events in zip(match.traces, match.events, strict=True)
    ]
    if not replace(chosen, ranks=None).is_everything:
        numbers = [number for number, member in enumerate(members) if member.any()]
        parts = RankParts([match.traces[number] for number in numbers], chosen, match.executor)
        rows_by_rank = [(match.events[number].rows,) for number in numbers]
        selected = map_ranks(parts, RankPart.contains, each=rows_by_rank)
        for number, member in zip(numbers, selected, strict=True):
            members[number] = member
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
    """Return which ranks of a trace set are selected."""
    return np.array([chosen.ranks is None or rank in chosen.ranks for rank in traces.ranks], bool)
