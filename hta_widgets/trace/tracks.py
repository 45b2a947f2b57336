"""Tracks (host threads, device streams) of a rank, and the lane and parent of each event.

On a track, an event that begins and ends within another one is its child, one lane below. An event
that begins within another but ends after it *spills* into a lane below all nested ones, so no two
events of a lane overlap::

    lane 0   ├──── aten::mm ────┤
    lane 1     ├─ launch ─┤
    lane 2               ├─ spilled ─┤
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field, replace
from heapq import heappop, heappush
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from hta_widgets.trace.arrays import (
    Bools,
    Ints,
    compact_codes,
    fit_int32,
    group_order,
    mask_of_rows,
    order_and_bounds,
)
from hta_widgets.trace.columns import RankColumns, StreamIds, Track, TrackRole
from hta_widgets.trace.problems import Problems


@dataclass(slots=True)
class ResolvedNesting:
    """Nesting of the events of one track whose order is ambiguous."""

    spilled: Ints  # events that nest nowhere, ascending
    around: Ints  # the nested event that encloses each spilled one, -1 for none
    rounded: int
    stop: Ints  # end of the subtree of each event

    def write_parents(self, begin: Ints, end: Ints, low: int, parent: Ints) -> None:
        """Set the parents of spilled events, and of the events that these enclose."""
        # `parent` has the rows of one track, which begin at row `low` of the table.
        parent[self.spilled] = np.where(self.around >= 0, low + self.around, -1)
        last = _last_until(self.spilled, end[self.spilled], np.maximum(end, begin + 1))
        inside = np.flatnonzero(last >= 0)
        parent[inside] = np.maximum(parent[inside], low + last[inside])


def resolve_nesting(begin: Ints, end: Ints, stop: Ints, unit: int) -> ResolvedNesting:
    """Nest events of ambiguous order with a stack."""
    outlasted = _is_outlasted(end, stop)
    ends = np.sort(end[outlasted])
    # `holds` marks events that contain the end of an outlasted event, see `_is_outlasted`.
    holds = np.searchsorted(ends, end, "left") > np.searchsorted(ends, begin, "right")
    rows = np.flatnonzero(outlasted | holds)
    return _nest_with_stack(rows, begin, end, stop, unit)


def _last_until(rows: Ints, ends: Ints, until: Ints) -> Ints:
    """Return the last of `rows` before each event that ends at `until` or later, or -1."""
    last = np.full(len(until), -1, dtype=np.int64)
    if not len(rows):
        return last
    first = int(rows[0]) + 1
    before = np.repeat(np.arange(1, len(rows) + 1), np.diff(rows, append=len(until) - 1))
    reach = np.maximum.accumulate(ends)
    inside = np.flatnonzero(reach[before - 1] >= until[first:])
    until, at = until[first:][inside], before[inside]
    # Skip the rows that end too early, by a binary search in maxima over 2^k rows.
    longest = [ends]
    while 2 << (len(longest) - 1) <= len(ends):
        half = 1 << (len(longest) - 1)
        longest.append(np.maximum(longest[-1][:-half], longest[-1][half:]))
    for level in range(len(longest) - 1, -1, -1):
        low = at - (1 << level)
        early = (low >= 0) & (longest[level][np.maximum(low, 0)] < until)
        at = np.where(early, low, at)
    last[first + inside] = rows[at - 1]
    return last


def _is_outlasted(end: Ints, stop: Ints) -> Bools:
    """Return whether each event is outlasted: an event of its subtree ends after it."""
    result = np.zeros(len(end), dtype=bool)
    rows = np.flatnonzero(stop - np.arange(len(end)) > 1)
    if not len(rows):
        return result
    length = stop[rows] - rows - 1
    level = np.frexp(length.astype(np.float64))[1].astype(np.uint8) - 1
    longest = end.copy()
    for power in range(int(level.max()) + 1):
        size = 1 << power
        if power:
            half = size >> 1
            np.maximum(longest[:-half], longest[half:], out=longest[:-half])
        of_size = rows[level == power]
        latest = np.maximum(longest[of_size + 1], longest[stop[of_size] - size])
        result[of_size[latest > end[of_size]]] = True
    return result


def _nest_with_stack(rows: Ints, begin: Ints, end: Ints, stop: Ints, unit: int) -> ResolvedNesting:
    begins, ends = begin[rows].tolist(), end[rows].tolist()
    numbers, stop_ns = rows.tolist(), stop[rows].tolist()
    open_rows: list[int] = []  # nested, innermost last
    spilled: list[int] = []
    around: list[int] = []
    rounded: list[int] = []
    for k, (start, last) in enumerate(zip(begins, ends, strict=True)):
        while open_rows:
            top = open_rows[-1]
            over_by = ends[top] - start
            if over_by > 0:
                if over_by > unit or last <= ends[top] or start <= begins[top]:
                    break
                rounded.append(numbers[top])
                stop_ns[top] = numbers[k]
            open_rows.pop()
            if open_rows and stop_ns[open_rows[-1]] < stop_ns[top]:
                stop_ns[open_rows[-1]] = stop_ns[top]
        if open_rows and last > (limit := ends[open_rows[-1]]):
            if last > limit + unit:
                spilled.append(numbers[k])
                around.append(
                    next((numbers[o] for o in reversed(open_rows) if ends[o] >= last), -1)
                )
                continue
            rounded.append(numbers[k])
        open_rows.append(k)
    while len(open_rows) > 1:
        top = open_rows.pop()
        stop_ns[open_rows[-1]] = max(stop_ns[open_rows[-1]], stop_ns[top])
    settled = stop.copy()
    settled[rows] = stop_ns
    return ResolvedNesting(
        np.array(spilled, dtype=np.int64),
        np.array(around, dtype=np.int64),
        len(set(rounded)),
        settled,
    )


_MAX_DEPTH = np.iinfo(np.int16).max
_FEW_TRACKS = 256


@dataclass(slots=True)
class LaneAssignment:
    """Lane and parent of each event."""

    depth: npt.NDArray[np.int16]
    parent: npt.NDArray[np.int32]  # row, -1 for none
    nested: Ints  # by track: lanes of properly nested events
    lanes: Ints  # by track: all lanes
    overlaps: int  # events put into spill lanes
    rounded: int  # events that nest only within the resolution
    too_deep: int  # events that share the last lane because depths are int16


def assign_lanes(
    start: Ints, dur: Ints, track: npt.NDArray[np.int32], tracks: int, resolution_ns: int
) -> LaneAssignment:
    """Return lanes of events that are sorted by (start, longest first, file order).

    Starts are not negative. Edges that differ by at most `resolution_ns` are taken as equal.
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
    depth, parent, crossing = _nesting(end, stop)
    overlaps, rounded = np.empty(0, dtype=np.int64), 0
    spill_lanes = np.zeros(tracks, dtype=np.int64)
    if crossing.any():
        spilled = []
        for number in np.unique(track[order[crossing]]).tolist():
            low, high = first[number : number + 2].tolist()
            nesting = resolve_nesting(
                begin[low:high], end[low:high], stop[low:high] - low, resolution_ns
            )
            nested_rows = np.delete(np.arange(high - low), nesting.spilled)
            place = np.zeros(high - low + 1, dtype=np.int64)
            place[nested_rows + 1] = 1
            np.cumsum(place, out=place)
            level = _depth(place[nesting.stop[nested_rows]])
            above = _parents(level)
            depth[low + nested_rows] = level
            parent[low + nested_rows] = np.where(above >= 0, low + nested_rows[above], -1)
            nesting.write_parents(begin[low:high], end[low:high], low, parent[low:high])
            rows = low + nesting.spilled
            lane = _first_free_lanes(begin[rows], end[rows])
            depth[rows] = level.max() + 1 + lane
            spill_lanes[number] = lane.max(initial=-1) + 1
            spilled.append(rows)
            rounded += nesting.rounded
        overlaps = np.concatenate(spilled)

    nested = _count_nested_lanes(depth, overlaps, first)
    too_deep = int((depth > _MAX_DEPTH).sum())

    result_depth = np.empty(count, dtype=np.int16)
    result_depth[order] = np.minimum(depth, _MAX_DEPTH) if too_deep else depth
    result_parent = np.empty(count, dtype=np.int32)
    # Wrong for events without a parent (-1), which the next line overwrites.
    result_parent[order] = order[parent]
    result_parent[order[parent < 0]] = -1
    return LaneAssignment(
        result_depth,
        result_parent,
        np.minimum(nested, _MAX_DEPTH + 1),
        np.minimum(nested + spill_lanes, _MAX_DEPTH + 1),
        len(overlaps),
        rounded,
        too_deep,
    )


def _subtree_ends(begin: Ints, end: Ints, first: Ints) -> Ints:
    """Return the next event on each event's track that begins at its end or later."""
    sizes = np.diff(first)
    span = int(end.max()) + 1
    if len(sizes) > _FEW_TRACKS and span.bit_length() + len(sizes).bit_length() <= 62:
        # Put the tracks one after the other in time, so that one search serves all of them.
        offset = np.repeat(np.arange(len(sizes)) * span, sizes)
        return _subtree_ends_of_one(begin + offset, end + offset)
    stop = np.empty(len(begin), dtype=np.int64)
    for low, high in pairwise(first.tolist()):
        if low < high:
            np.add(_subtree_ends_of_one(begin[low:high], end[low:high]), low, out=stop[low:high])
    return stop


def _subtree_ends_of_one(begin: Ints, end: Ints) -> Ints:
    stop = np.arange(1, len(begin) + 1)
    # Only few events still run when the next one starts; the others need no search.
    open_rows = np.flatnonzero(end[:-1] > begin[1:])
    stop[open_rows] = np.searchsorted(begin, end[open_rows], side="left")
    return stop


def _depth(stop: Ints) -> Ints:
    """Return the number of subtrees that contain each event."""
    count = len(stop)
    closed = np.bincount(stop, minlength=count + 1)[:count]
    np.cumsum(closed, out=closed)
    return np.subtract(np.arange(count), closed, out=closed)


def _parents(depth: Ints) -> Ints:
    """Return the parent of each event: of a first child and its siblings, the event before it."""
    count = len(depth)
    parent = np.full(count, -1, dtype=np.int64)
    deepest = int(depth.max())
    if not deepest:
        return parent
    by_depth = group_order(depth, deepest + 1)
    deeper = np.zeros(count, dtype=bool)
    deeper[1:] = depth[1:] > depth[:-1]
    # In the order by depth, a first child is followed by its siblings.
    first_child = np.flatnonzero(deeper[by_depth])
    siblings = np.diff(first_child, append=count)
    parent[by_depth[first_child[0] :]] = np.repeat(by_depth[first_child] - 1, siblings)
    return parent


def _nesting(end: Ints, stop: Ints) -> tuple[Ints, Ints, Bools]:
    """Return each event's depth and parent, and whether it crosses the parent's end."""
    depth = _depth(stop)
    parent = _parents(depth)
    crossing = (stop > stop[parent]) | (end > end[parent])
    crossing &= parent >= 0
    return depth, parent, crossing


def _count_nested_lanes(depth: Ints, spilled: Ints, first: Ints) -> Ints:
    """Return the number of lanes of each track without its spill lanes."""
    proper = depth + 1
    proper[spilled] = 0
    sizes = np.diff(first)
    nested = np.zeros(len(sizes), dtype=np.int64)
    filled = np.flatnonzero(sizes)
    nested[filled] = np.maximum.reduceat(proper, first[:-1][filled])
    return nested


def _first_free_lanes(begin: Ints, end: Ints) -> Ints:
    """Return the first lane that is free when each event starts; events are sorted by start."""
    busy: list[tuple[int, int]] = []  # (end, lane)
    free: list[int] = []
    lanes = []
    for start_ns, end_ns in zip(begin.tolist(), end.tolist(), strict=True):
        while busy and busy[0][0] <= start_ns:
            heappush(free, heappop(busy)[1])
        # Without a free lane, the lanes 0 to len(busy) - 1 are busy.
        lane = heappop(free) if free else len(busy)
        heappush(busy, (end_ns, lane))
        lanes.append(lane)
    return np.array(lanes, dtype=np.int64)


_STREAM_TID = re.compile(r"(?:stream\s*)?(\d{1,19}|0x[\da-f]{1,16})\s*", re.IGNORECASE)
#: Waits of the host for a stream, which overlap its work, have a row of their own since 2026.
_IS_SYNC_ROW = re.compile(r"stream -?\d+ \(sync\)")
_SPANS = {"Spans", "Traces"}

#: Order of processes if a file gives none: programs, devices, the profiler's own spans.
_DEVICE_SORT = 1 << 24
_SPANS_SORT = 1 << 29


@dataclass(slots=True)
class TrackNames:
    """Metadata of processes and threads, by pid or (pid, tid)."""

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
    #: (pid code, tid code) → the track on which flow records find their events
    of_thread: dict[tuple[int, int], int]


def read_track_names(columns: RankColumns) -> TrackNames:
    """Read the metadata records (phase M); a later one wins over an earlier one."""
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
    try:
        table[key] = int(args.get("sort_index"))  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        return


def device_streams(
    stream: StreamIds,
    device: Bools,
    works: Bools,
    pid: npt.NDArray[np.int32],
    tid: npt.NDArray[np.int32],
    columns: RankColumns,
    problems: Problems,
) -> StreamIds:
    """Return the device stream of every event, -1 for host events."""
    # A stream argument counts on rows of a `device` category only: Triton's operators on the host
    # carry one too. Device rows without the argument are on the stream of their thread: that of
    # other rows of the thread, else the number in the tid, else a new number if the thread `works`.
    result = np.where(device, stream, stream.dtype.type(-1))
    if result.min(initial=0) < -1:
        result = _unsigned_ids(result, problems)
    without_stream = np.flatnonzero(device & (result < 0))
    if not len(without_stream):
        return _narrow(result)
    threads = len(columns.tids)
    slot = pid.astype(np.int64) * threads + tid
    thread, slots = compact_codes(slot, len(columns.pids) * threads)
    of_thread = np.full(len(slots), -1, dtype=np.int64)
    for number in np.unique(thread[without_stream]).tolist():
        of_thread[number] = _number_of_thread(columns.tids[int(slots[number]) % threads], -1)
    with_stream = np.flatnonzero(result >= 0)
    of_thread[thread[with_stream]] = result[with_stream]
    unnumbered = np.unique(
        thread[without_stream[works[without_stream] & (of_thread[thread[without_stream]] < 0)]]
    )
    of_thread[unnumbered] = _unused_ids(of_thread, len(unnumbered))
    ids = of_thread[thread[without_stream]]
    if not fit_int32(ids.max()):
        result = result.astype(np.int64)
    result[without_stream] = ids
    return _narrow(result)


def _unused_ids(ids: Ints, count: int) -> Ints:
    """Return the smallest ids that are not in use."""
    return np.setdiff1d(np.arange(len(ids) + count), ids)[:count]


def _unsigned_ids(ids: StreamIds, problems: Problems) -> Ints:
    """Return ids with those below -1, which are cut off or unsigned ones, as unsigned."""
    cut = (ids < -1) & (ids >= -(1 << 31))
    rest = ids < -(1 << 31)
    problems.add(
        "repaired",
        int(cut.sum() + rest.sum()),
        "stream ids below -1 or beyond 63 bits, taken as unsigned numbers of 32 or 63 bits",
    )
    wide = ids.astype(np.int64)
    wide[cut] += 1 << 32
    wide[rest] &= (1 << 63) - 1
    return wide


def _narrow(ids: StreamIds) -> StreamIds:
    """Return ids as int32 if all of them fit."""
    fits = ids.dtype != np.int32 and fit_int32(ids.min(initial=0), ids.max(initial=0))
    return ids.astype(np.int32) if fits else ids


def _number_of_thread(tid: str, default: int) -> int:
    """Return the number in a tid such as ``7``, ``stream 7`` or ``0x7f``, or `default`."""
    match = _STREAM_TID.fullmatch(tid)
    number = integer_of(match[1]) if match else default
    return number if number < 1 << 63 else default


def integer_of(text: str) -> int:
    """Return an integer in decimal or, with ``0x``, hexadecimal digits."""
    return int(text, 16 if text[:2].lower() == "0x" else 10)


def find_tracks(
    pid: npt.NDArray[np.int32],
    tid: npt.NDArray[np.int32],
    stream: StreamIds,
    device: Bools,
    device_annotation: Bools,
    calls_mpi: Bools,
    start: Ints,
    columns: RankColumns,
    names: TrackNames | None = None,
) -> TrackAssignment:
    """Make the tracks of events that are sorted by start."""
    threads = len(columns.tids)
    slot = (pid.astype(np.int64) * threads + tid) * 2 + device_annotation
    track, slots = compact_codes(slot, len(columns.pids) * threads * 2)
    count = len(slots)
    first_row = np.empty(count, dtype=np.int64)
    first_row[track[::-1]] = np.arange(len(track) - 1, -1, -1)
    track_stream = np.full(count, -1, dtype=np.int64)
    streamed = np.flatnonzero(stream >= 0)[::-1]
    track_stream[track[streamed]] = stream[streamed]

    of_device, of_mpi = mask_of_rows(track[device], count), mask_of_rows(track[calls_mpi], count)

    names = read_track_names(columns) if names is None else names
    device_pids = {columns.pids[int(slot) // 2 // threads] for slot in slots[of_device]}
    threads_of = [divmod(int(slot) // 2, threads) for slot in slots]
    new_tracks = []
    for number, (pid_code, tid_code) in enumerate(threads_of):
        pid_text, tid_text = columns.pids[pid_code], columns.tids[tid_code]
        if slots[number] % 2:
            role: TrackRole = "annotation"
        elif _IS_SYNC_ROW.fullmatch(names.thread.get((pid_text, tid_text), "")):
            role = "other"
        elif track_stream[number] >= 0 or of_mpi[number]:
            role = "stream"
        else:
            # Some rows are of a device as a whole, such as waits for all its streams.
            role = "other" if of_device[number] or pid_text in _SPANS else "thread"
        stream_number, first_ns = int(track_stream[number]), int(start[first_row[number]])
        on_device = pid_text in device_pids
        new_tracks.append(
            _track(pid_text, tid_text, role, stream_number, names, first_ns, device=on_device)
        )
    order = sorted(range(count), key=lambda number: new_tracks[number].sort)
    position = np.empty(count, dtype=np.int32)
    position[order] = np.arange(count, dtype=np.int32)
    of_thread: dict[tuple[int, int], int] = {}
    for number, thread in enumerate(threads_of):
        # A thread's own track comes before that of its annotations and has precedence.
        if thread not in of_thread:
            of_thread[thread] = int(position[number])
    return TrackAssignment(
        position[track] if count else track,
        disambiguate_tracks([new_tracks[number] for number in order]),
        of_thread,
    )


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
    process = names.process.get(pid, "")
    label = names.labels.get(pid, "")
    if device:
        unnamed = f"device {pid}" if pid.isdecimal() else pid
        process = label if label not in {"", "CPU"} else process or unnamed
    process = process or (pid if pid in _SPANS else f"process {pid}")
    thread = names.thread.get((pid, tid), "")
    if not thread:
        if stream >= 0 and (not tid or _STREAM_TID.fullmatch(tid)):
            thread = f"stream {stream}"
        else:
            thread = f"thread {tid}" if tid.lstrip("-").isdigit() else tid
    missing = _SPANS_SORT if pid in _SPANS else _DEVICE_SORT if device else 0
    thread_sort = names.thread_sort.get((pid, tid))
    if thread_sort is None:
        thread_sort = _number_of_thread(tid, 0)
    process_sort = names.process_sort.get(pid, missing)
    place = {"annotation": 0, "other": 2 if stream >= 0 else 1}.get(role, 1)
    sort = process_sort, thread_sort, place, first_ns
    return Track(pid, tid, role, thread, process, stream, sort, nested=0, lanes=0)


def disambiguate_tracks(tracks: list[Track]) -> list[Track]:
    """Disambiguate tracks of the same name: by tid, then by pid, then by number."""
    for attribute in ("tid", "pid", "number"):
        seen = Counter(track.key for track in tracks)
        if len(seen) == len(tracks):
            break
        for number, track in enumerate(tracks):
            if seen[track.key] == 1:
                continue
            if attribute == "tid":
                tracks[number] = replace(track, label=f"{track.label} [{track.tid}]")
            elif attribute == "pid":
                tracks[number] = replace(track, process=f"{track.process} [{track.pid}]")
            else:
                tracks[number] = replace(track, label=f"{track.label} #{number}")
    return tracks
