"""Tracks (host threads, device streams) of a rank, and the lane and parent of each event.

On a track, an event that begins and ends within another is its child, one lane below. An event that
begins within another but ends after it *spills* into a lane below all nested lanes, so events of a
lane do not overlap::

    lane 0   ├──── aten::mm ────┤
    lane 1     ├─ launch ─┤
    lane 2               ├─ spilled ─┤
"""

from __future__ import annotations

import re
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field, replace
from heapq import heappop, heappush
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from hta_widgets.trace.arrays import (
    Array,
    Bools,
    Ints,
    distinct_codes,
    group_order,
    mask_of_rows,
    narrow,
    order_and_bounds,
)
from hta_widgets.trace.columns import RankColumns, StreamIds, StringPool, Track, TrackRole
from hta_widgets.trace.problems import Problems


@dataclass(slots=True)
class ResolvedNesting:
    """Nesting of a track's events, if some cross the end of another."""

    spilled: Ints  # rows of events that overlap another without nesting, in ascending order
    around: Ints  # the nested event that encloses each spilled event; -1 if none
    rounded: int  # number of events that are nested only within the resolution
    stop: Ints  # end of each event's subtree: the position after its last descendant

    def write_parents(self, begin: Ints, end: Ints, low: int, parent: Ints) -> None:
        """Set the parents of spilled events, and of the events that these enclose.

        `parent` has the rows of one track, beginning at row `low` of the table.
        """
        parent[self.spilled] = np.where(self.around >= 0, low + self.around, -1)
        last = _last_until(self.spilled, end[self.spilled], np.maximum(end, begin + 1))
        inside = np.flatnonzero(last >= 0)
        parent[inside] = np.maximum(parent[inside], low + last[inside])


def resolve_nesting(begin: Ints, end: Ints, stop: Ints, unit: int) -> ResolvedNesting:
    """Return the nesting of a track's events; edges within `unit` ns count as equal.

    Only events that another event outlasts, or that contain the end of such an event, are nested
    one by one. The nesting of all others is known.
    """
    is_outlasted = _is_outlasted(end, stop)
    outlasted_ends = np.sort(end[is_outlasted])
    ends_before = np.searchsorted(outlasted_ends, end, "left")
    contains_end = ends_before > np.searchsorted(outlasted_ends, begin, "right")
    rows = np.flatnonzero(is_outlasted | contains_end)
    return _nest_with_stack(rows, begin, end, stop, unit)


def _last_until(rows: Ints, ends: Ints, until: Ints) -> Ints:
    """Return, for each event, the last of `rows` before it that ends at or after its `until`.

    The result is -1 for events without such a row. `ends` has the end of each of `rows`.
    """
    last = np.full(len(until), -1, dtype=np.int64)
    if not len(rows):
        return last
    first = int(rows[0]) + 1
    rows_before = np.repeat(np.arange(1, len(rows) + 1), np.diff(rows, append=len(until) - 1))
    latest_end = np.maximum.accumulate(ends)
    has_row = np.flatnonzero(latest_end[rows_before - 1] >= until[first:])
    until, stop = until[first:][has_row], rows_before[has_row]
    # Move `stop` back over rows that end too early, 2^k rows at a time, the largest k first.
    latest_of = [ends]  # by k: latest end of the 2^k rows that begin at each row
    while 2 << (len(latest_of) - 1) <= len(ends):
        half = 1 << (len(latest_of) - 1)
        latest_of.append(np.maximum(latest_of[-1][:-half], latest_of[-1][half:]))
    for power, latest in reversed(list(enumerate(latest_of))):
        low = stop - (1 << power)
        is_early = (low >= 0) & (latest[np.maximum(low, 0)] < until)
        stop = np.where(is_early, low, stop)
    last[first + has_row] = rows[stop - 1]
    return last


def _is_outlasted(end: Ints, stop: Ints) -> Bools:
    """Return which events are outlasted by an event of their subtree."""
    result = np.zeros(len(end), dtype=bool)
    rows = np.flatnonzero(stop - np.arange(len(end)) > 1)
    if not len(rows):
        return result
    # Two ranges of 2^k events cover a subtree: one from its start, the other up to its end.
    descendants = stop[rows] - rows - 1
    k_of_rows = np.frexp(descendants.astype(np.float64))[1].astype(np.uint8) - 1
    latest_end = end.copy()  # latest end of the 2^k events that begin at each event
    for k in range(int(k_of_rows.max()) + 1):
        size = 1 << k
        if k:
            half = size >> 1
            np.maximum(latest_end[:-half], latest_end[half:], out=latest_end[:-half])
        members = rows[k_of_rows == k]
        latest = np.maximum(latest_end[members + 1], latest_end[stop[members] - size])
        result[members[latest > end[members]]] = True
    return result


def _nest_with_stack(rows: Ints, begin: Ints, end: Ints, stop: Ints, unit: int) -> ResolvedNesting:
    """Nest events one by one, with a stack of the open events.

    An event that starts at most `unit` before the end of the stack's top follows it as a sibling.
    An event that ends at most `unit` after the top is nested in it. Both kinds of events count as
    rounded. An event that ends later is spilled.
    """
    begins, ends = begin[rows].tolist(), end[rows].tolist()
    row_list, stops = rows.tolist(), stop[rows].tolist()
    stack: list[int] = []  # positions in `rows`, innermost last
    spilled: list[int] = []
    around: list[int] = []
    rounded: set[int] = set()
    for position, (row, start_ns, end_ns) in enumerate(zip(row_list, begins, ends, strict=True)):
        while stack:
            top = stack[-1]
            overlap_ns = ends[top] - start_ns
            if overlap_ns > 0:
                if overlap_ns > unit or end_ns <= ends[top] or start_ns <= begins[top]:
                    break
                rounded.add(row_list[top])
                stops[top] = row
            stack.pop()
            if stack and stops[stack[-1]] < stops[top]:
                stops[stack[-1]] = stops[top]
        if stack and end_ns > ends[stack[-1]]:
            if end_ns > ends[stack[-1]] + unit:
                spilled.append(row)
                enclosing = (row_list[outer] for outer in reversed(stack) if ends[outer] >= end_ns)
                around.append(next(enclosing, -1))
                continue
            rounded.add(row)
        stack.append(position)
    while len(stack) > 1:
        top = stack.pop()
        stops[stack[-1]] = max(stops[stack[-1]], stops[top])
    resolved_stop = stop.copy()
    resolved_stop[rows] = stops
    return ResolvedNesting(
        np.array(spilled, dtype=np.int64),
        np.array(around, dtype=np.int64),
        len(rounded),
        resolved_stop,
    )


_MAX_DEPTH = np.iinfo(np.int16).max
_FEW_TRACKS = 256


@dataclass(slots=True)
class LaneAssignment:
    """Lane and parent of each event."""

    depth: npt.NDArray[np.int16]
    parent: npt.NDArray[np.int32]  # row; -1 if it has no parent
    nested: Ints  # by track: number of lanes with properly nested events
    lanes: Ints  # by track: number of all lanes
    overlaps: int  # events placed in spill lanes
    rounded: int  # events that are nested only within the resolution
    too_deep: int  # events in the last lane, which they share because depths are int16


def assign_lanes(
    start: Ints, dur: Ints, track: npt.NDArray[np.int32], tracks: int, resolution_ns: int
) -> LaneAssignment:
    """Return lanes of events that are sorted by (start, longest first, file order).

    Starts must not be negative. Edges that differ by at most `resolution_ns` count as equal.
    """
    count = len(start)
    if not count:
        none = np.zeros(tracks, dtype=np.int64)
        return LaneAssignment(
            np.empty(0, np.int16), np.empty(0, np.int32), none, none.copy(), 0, 0, 0
        )
    order, first = order_and_bounds(track, tracks)
    begin, end = start[order], (start + dur)[order]

    stop = _subtree_ends(begin, end, first)
    depth = _depth(stop)
    parent = _parents(depth)
    crossing = (parent >= 0) & ((stop > stop[parent]) | (end > end[parent]))
    spill_lanes = np.zeros(tracks, dtype=np.int64)
    spilled_rows = [np.empty(0, dtype=np.int64)]
    rounded = 0
    for number in np.unique(track[order[crossing]]).tolist():
        low, high = first[number : number + 2].tolist()
        rows = slice(low, high)
        nesting = resolve_nesting(begin[rows], end[rows], stop[rows] - low, resolution_ns)
        spill_lanes[number] = _apply_nesting(
            nesting, begin[rows], end[rows], low, depth[rows], parent[rows]
        )
        spilled_rows.append(low + nesting.spilled)
        rounded += nesting.rounded

    overlaps = np.concatenate(spilled_rows)
    nested = _count_nested_lanes(depth, overlaps, first)
    too_deep = int((depth > _MAX_DEPTH).sum())

    result_depth = np.empty(count, dtype=np.int16)
    result_depth[order] = np.minimum(depth, _MAX_DEPTH) if too_deep else depth
    result_parent = np.empty(count, dtype=np.int32)
    # This is wrong for events without a parent (-1), which the next line overwrites.
    result_parent[order] = order[parent]
    result_parent[order[parent < 0]] = -1
    return LaneAssignment(
        depth=result_depth,
        parent=result_parent,
        nested=np.minimum(nested, _MAX_DEPTH + 1),
        lanes=np.minimum(nested + spill_lanes, _MAX_DEPTH + 1),
        overlaps=len(overlaps),
        rounded=rounded,
        too_deep=too_deep,
    )


def _apply_nesting(
    nesting: ResolvedNesting, begin: Ints, end: Ints, low: int, depth: Ints, parent: Ints
) -> int:
    """Set depths and parents of a track's events, which begin at row `low` of the table.

    Returns the number of spill lanes.
    """
    is_nested = np.ones(len(begin), dtype=bool)
    is_nested[nesting.spilled] = False
    nested_rows = np.flatnonzero(is_nested)
    # Depths and parents are computed ignoring the other events, so the ends of subtrees are
    # converted to positions among the nested events.
    nested_before = np.append(0, np.cumsum(is_nested))
    nested_depth = _depth(nested_before[nesting.stop[nested_rows]])
    nested_parent = _parents(nested_depth)
    depth[nested_rows] = nested_depth
    parent[nested_rows] = np.where(nested_parent >= 0, low + nested_rows[nested_parent], -1)
    # Spilled events come last: they may enclose nested events, and their lanes are the lowest.
    nesting.write_parents(begin, end, low, parent)
    spill_lane = first_free_lanes(begin[nesting.spilled], end[nesting.spilled])
    depth[nesting.spilled] = nested_depth.max() + 1 + spill_lane
    return int(spill_lane.max(initial=-1)) + 1


def _subtree_ends(begin: Ints, end: Ints, first: Ints) -> Ints:
    """Return the first event of the track that begins after each event has ended."""
    sizes = np.diff(first)
    span = int(end.max()) + 1
    if len(sizes) > _FEW_TRACKS and span.bit_length() + len(sizes).bit_length() <= 62:
        # The tracks are placed one after the other in time, so that a single search suffices.
        offset = np.repeat(np.arange(len(sizes)) * span, sizes)
        return _subtree_ends_of_track(begin + offset, end + offset)
    stop = np.empty(len(begin), dtype=np.int64)
    for low, high in pairwise(first.tolist()):
        if low < high:
            np.add(_subtree_ends_of_track(begin[low:high], end[low:high]), low, out=stop[low:high])
    return stop


def _subtree_ends_of_track(begin: Ints, end: Ints) -> Ints:
    stop = np.arange(1, len(begin) + 1)
    # Few events still run when the next one starts; the others need no search.
    open_rows = np.flatnonzero(end[:-1] > begin[1:])
    stop[open_rows] = np.searchsorted(begin, end[open_rows], side="left")
    return stop


def _depth(stop: Ints) -> Ints:
    """Return the number of subtrees that contain each event, from the ends of all subtrees."""
    count = len(stop)
    closed = np.bincount(stop, minlength=count + 1)[:count]
    np.cumsum(closed, out=closed)
    return np.subtract(np.arange(count), closed, out=closed)


def _parents(depth: Ints) -> Ints:
    """Return the parent of each event: the event just before the parent's first child."""
    count = len(depth)
    parent = np.full(count, -1, dtype=np.int64)
    deepest = int(depth.max())
    if not deepest:
        return parent
    by_depth = group_order(depth, deepest + 1)
    is_first_child = np.zeros(count, dtype=bool)
    is_first_child[1:] = depth[1:] > depth[:-1]
    # Sorted by depth, a first child is followed by its siblings.
    first_child = np.flatnonzero(is_first_child[by_depth])
    child_count = np.diff(first_child, append=count)
    parent[by_depth[first_child[0] :]] = np.repeat(by_depth[first_child] - 1, child_count)
    return parent


def _count_nested_lanes(depth: Ints, spilled: Ints, first: Ints) -> Ints:
    lanes = depth + 1
    lanes[spilled] = 0
    sizes = np.diff(first)
    nested = np.zeros(len(sizes), dtype=np.int64)
    filled = np.flatnonzero(sizes)
    nested[filled] = np.maximum.reduceat(lanes, first[:-1][filled])
    return nested


def first_free_lanes(begin: Ints, end: Ints) -> Ints:
    """Return the first free lane at each event's start; events are sorted by start."""
    busy: list[tuple[int, int]] = []  # (end, lane)
    free: list[int] = []
    lanes = []
    for start_ns, end_ns in zip(begin.tolist(), end.tolist(), strict=True):
        while busy and busy[0][0] <= start_ns:
            heappush(free, heappop(busy)[1])
        # If no lane is free, the lanes 0 to len(busy) - 1 are busy.
        lane = heappop(free) if free else len(busy)
        heappush(busy, (end_ns, lane))
        lanes.append(lane)
    return np.array(lanes, dtype=np.int64)


_STREAM_TID = re.compile(r"(?:stream\s*)?(\d{1,19}|0x[\da-f]{1,16})\s*", re.IGNORECASE)
#: Since 2026, host waits for a stream have a thread of their own, because they overlap its work.
_SYNC_THREAD = re.compile(r"stream -?\d+ \(sync\)")
_SPANS = {"Spans", "Traces"}

#: Order of processes if a file states none: programs (0), devices, spans of the profiler.
_DEVICE_SORT = 1 << 24
_SPANS_SORT = 1 << 29


@dataclass(frozen=True, slots=True)
class EventThreads:
    """The pid and tid of each event, as codes into `pids` and `tids`."""

    pid: npt.NDArray[np.int32]
    tid: npt.NDArray[np.int32]
    pids: StringPool
    tids: StringPool

    @property
    def codes(self) -> Ints:
        """For each event, a code of its thread: the pid times the number of tids, plus the tid."""
        return self.pid.astype(np.int64) * len(self.tids) + self.tid


@dataclass(slots=True)
class TrackNames:
    """Metadata of processes and threads, keyed by pid and by (pid, tid)."""

    process: dict[str, str] = field(default_factory=dict)
    labels: dict[str, str] = field(default_factory=dict)
    thread: dict[tuple[str, str], str] = field(default_factory=dict)
    process_sort: dict[str, int] = field(default_factory=dict)
    thread_sort: dict[tuple[str, str], int] = field(default_factory=dict)


@dataclass(slots=True)
class TrackAssignment:
    """The track of each event."""

    track: npt.NDArray[np.int32]  # position in `tracks`
    tracks: list[Track]
    #: track on which flow records find their events, by (pid code, tid code)
    of_thread: dict[tuple[int, int], int]


def read_track_names(columns: RankColumns) -> TrackNames:
    """Read the metadata records (phase M); later records replace earlier ones."""
    names = TrackNames()
    for row in np.flatnonzero(columns.phase == ord("M")).tolist():
        args = columns.small_args.get(int(columns.record[row]))
        if not args:
            continue
        pid, tid = columns.pids[columns.pid[row]], columns.tids[columns.tid[row]]
        match columns.names[columns.name[row]]:
            case "process_name":
                names.process[pid] = str(args.get("name", "")).strip()
            case "process_labels":
                names.labels[pid] = str(args.get("labels", "")).strip()
            case "thread_name":
                names.thread[pid, tid] = str(args.get("name", "")).strip()
            case "process_sort_index":
                _put_index(names.process_sort, pid, args)
            case "thread_sort_index":
                _put_index(names.thread_sort, (pid, tid), args)
    return names


def _put_index(table: dict[Any, int], key: object, args: dict[str, Any]) -> None:
    with suppress(TypeError, ValueError, OverflowError):
        table[key] = int(args.get("sort_index"))  # type: ignore[arg-type]


def device_streams(
    stream: StreamIds,
    device: Bools,
    works: Bools,
    threads: EventThreads,
    problems: Problems,
) -> StreamIds:
    """Return the device stream of each event; -1 for host events.

    The arg ``stream`` only applies to events on a `device`, because Triton's operators on the host
    have it, too. Device events without the arg get the stream of other events of their thread;
    otherwise the number in the tid or, if the thread `works`, a new number.
    """
    result = np.where(device, stream, stream.dtype.type(-1))
    if result.min(initial=0) < -1:
        result = _unsigned_ids(result, problems)
    missing = np.flatnonzero(device & (result < 0))
    if not len(missing):
        return narrow(result)
    used_threads, thread = distinct_codes(threads.codes)
    stream_of_thread = np.full(len(used_threads), -1, dtype=np.int64)
    for number in np.unique(thread[missing]).tolist():
        tid = threads.tids[int(used_threads[number]) % len(threads.tids)]
        stream_of_thread[number] = _number_of_thread(tid, -1)
    with_stream = np.flatnonzero(result >= 0)
    stream_of_thread[thread[with_stream]] = result[with_stream]
    missing_work = thread[missing[works[missing]]]
    unnumbered = np.unique(missing_work[stream_of_thread[missing_work] < 0])
    # New numbers are the smallest unused ones.
    candidates = np.arange(len(stream_of_thread) + len(unnumbered))
    stream_of_thread[unnumbered] = np.setdiff1d(candidates, stream_of_thread)[: len(unnumbered)]
    result = result.astype(np.int64)
    result[missing] = stream_of_thread[thread[missing]]
    return narrow(result)


def _unsigned_ids(ids: StreamIds, problems: Problems) -> Ints:
    """Return ids, reading values below -1 as unsigned numbers of 32 or 63 bits."""
    has_32_bits = (ids < -1) & (ids >= -(1 << 31))
    has_64_bits = ids < -(1 << 31)
    problems.add(
        "repaired",
        int(has_32_bits.sum() + has_64_bits.sum()),
        "stream ids below -1 or beyond 63 bits, taken as unsigned numbers of 32 or 63 bits",
    )
    unsigned = ids.astype(np.int64)
    unsigned[has_32_bits] += 1 << 32
    unsigned[has_64_bits] &= (1 << 63) - 1
    return unsigned


def _number_of_thread(tid: str, default: int) -> int:
    """Return the number in a tid such as ``7``, ``stream 7`` or ``0x7f``, or `default`."""
    match = _STREAM_TID.fullmatch(tid)
    number = integer_of(match[1]) if match else default
    return number if number < 1 << 63 else default


def integer_of(text: str) -> int:
    """Return an integer from decimal or, with ``0x``, hexadecimal digits."""
    return int(text, 16 if text[:2].lower() == "0x" else 10)


def find_tracks(
    threads: EventThreads,
    start: Ints,
    stream: StreamIds,
    names: TrackNames,
    *,
    on_device: Bools,
    annotates_device: Bools,
    calls_mpi: Bools,
) -> TrackAssignment:
    """Return the tracks of events that are sorted by start.

    A track has the events of a thread. Device annotations are a second track of their thread.
    """
    used_keys, track = distinct_codes(threads.codes * 2 + annotates_device)
    count = len(used_keys)
    first_ns = _of_first_event(track, start, count)
    has_stream = stream >= 0
    track_stream = _of_first_event(track[has_stream], stream[has_stream], count)
    of_device, of_mpi = mask_of_rows(track[on_device], count), mask_of_rows(track[calls_mpi], count)
    thread_of_track = [divmod(key // 2, len(threads.tids)) for key in used_keys.tolist()]
    device_pids = {thread_of_track[number][0] for number in np.flatnonzero(of_device).tolist()}
    new_tracks = []
    for number, (pid_code, tid_code) in enumerate(thread_of_track):
        pid, tid = threads.pids[pid_code], threads.tids[tid_code]
        role: TrackRole = "annotation"
        if not used_keys[number] % 2:
            role = _role_of_thread(
                pid,
                names.thread.get((pid, tid), ""),
                has_work=track_stream[number] >= 0 or of_mpi[number],
                on_device=of_device[number],
            )
        is_of_device = pid_code in device_pids
        sort_ns = int(first_ns[number])
        new_tracks.append(
            _track(pid, tid, role, int(track_stream[number]), names, sort_ns, device=is_of_device)
        )
    order = sorted(range(count), key=lambda number: new_tracks[number].sort)
    position = np.empty(count, dtype=np.int32)
    position[order] = np.arange(count, dtype=np.int32)
    of_thread: dict[tuple[int, int], int] = {}
    for number, thread in enumerate(thread_of_track):
        # The track of a thread's annotations follows the thread's other track.
        of_thread.setdefault(thread, int(position[number]))
    return TrackAssignment(
        position[track],
        disambiguate_tracks([new_tracks[number] for number in order]),
        of_thread,
    )


def _of_first_event(track: Array, values: Array, tracks: int) -> Ints:
    """Return the value of the first event of each track; -1 for tracks without events."""
    result = np.full(tracks, -1, dtype=np.int64)
    # Assigned in reverse order, so that the first event of each track is written last.
    result[track[::-1]] = values[::-1]
    return result


def _role_of_thread(pid: str, name: str, *, has_work: bool, on_device: bool) -> TrackRole:
    """Return the role of a thread's events; `has_work` is True for work on a stream or in MPI."""
    if _SYNC_THREAD.fullmatch(name):
        return "other"
    if has_work:
        return "stream"
    # Some events belong to a device as a whole, such as waits for all its streams.
    return "other" if on_device or pid in _SPANS else "thread"


def _track(
    pid: str,
    tid: str,
    role: TrackRole,
    stream: int,
    names: TrackNames,
    first_ns: int,
    *,
    device: bool,
) -> Track:
    process = _process_name(pid, names, device=device)
    thread = names.thread.get((pid, tid)) or _default_thread_name(tid, stream)
    default_sort = _DEVICE_SORT if device else 0
    if pid in _SPANS:
        default_sort = _SPANS_SORT
    process_sort = names.process_sort.get(pid, default_sort)
    thread_sort = names.thread_sort.get((pid, tid), _number_of_thread(tid, 0))
    # Annotations are above the stream, and host waits for the stream are below it.
    role_sort = {"annotation": 0, "other": 2 if stream >= 0 else 1}.get(role, 1)
    sort = process_sort, thread_sort, role_sort, first_ns
    return Track(pid, tid, role, thread, process, stream, sort, nested=0, lanes=0)


def _process_name(pid: str, names: TrackNames, *, device: bool) -> str:
    """Return the name of a process, or of the device on which its events are."""
    label, name = names.labels.get(pid, ""), names.process.get(pid, "")
    if device and label not in {"", "CPU"}:
        return label
    if name or pid in _SPANS or (device and pid and not pid.isdecimal()):
        return name or pid
    return f"device {pid}" if device and pid else f"process {pid}"


def _default_thread_name(tid: str, stream: int) -> str:
    if stream >= 0 and (not tid or _STREAM_TID.fullmatch(tid)):
        return f"stream {stream}"
    return f"thread {tid}" if tid.lstrip("-").isdigit() else tid


def disambiguate_tracks(tracks: list[Track]) -> list[Track]:
    """Make the names of `tracks` unique, and return the tracks.

    Equal names get the tid. Names that are still equal get the pid, and then a number.
    """
    for number, track in _tracks_of_same_name(tracks):
        tracks[number] = replace(track, label=f"{track.label} [{track.tid}]")
    for number, track in _tracks_of_same_name(tracks):
        tracks[number] = replace(track, process=f"{track.process} [{track.pid}]")
    for number, track in _tracks_of_same_name(tracks):
        tracks[number] = replace(track, label=f"{track.label} #{number}")
    return tracks


def _tracks_of_same_name(tracks: list[Track]) -> list[tuple[int, Track]]:
    """Return the tracks that share their name with another track, with their numbers."""
    count_of_key = Counter(track.key for track in tracks)
    return [(number, track) for number, track in enumerate(tracks) if count_of_key[track.key] > 1]
