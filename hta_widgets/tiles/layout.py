"""Rows and lanes of the timeline: their order, numbers and labels.

Lanes are numbered consecutively across the job, so that an integer identifies a lane in requests. A
rank starts with the lanes of its folded row (device, communication, host), followed by the lanes of
its tracks and, in jobs with several ranks, by lanes of waits and late arrivals. For example, a
single rank with 3 lanes in its folded row and 2 streams of one lane each has lanes 0 to 4. A
`LaneRef` describes the contents of a lane.
"""

from __future__ import annotations

import os
import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, TypeVar

import numpy as np

from hta_widgets.taxonomy import KINDS, MPI_CATEGORY
from hta_widgets.tiles.stacks import foldable_stacks
from hta_widgets.trace.arrays import Codes, Ints, Rows
from hta_widgets.trace.build import step_numbers
from hta_widgets.trace.columns import AsyncTable, CounterTable, EventTable, StringPool, Track
from hta_widgets.trace.trace import Trace
from hta_widgets.trace.tracks import first_free_lanes

#: Maximum number of lanes in an async group. The last lane takes all remaining intervals.
MAX_LAYERS = 32
SummaryRole = Literal["gpu", "comm", "cpu"]
LaneRole = Literal["events", "gpu", "comm", "cpu", "counter", "async", "instant", "wait", "late"]
_COMMUNICATION = KINDS.index("communication")
_ANNOTATION = KINDS.index("annotation")
_SYNC = KINDS.index("sync")
_CPU = KINDS.index("cpu")
#: Maximum number of host lanes in a folded rank. The last lane may combine several threads.
MAX_CPU_LANES = 3
_SIDE_ROLES = {"counter", "async", "instant"}
_Key = TypeVar("_Key", bound=Hashable)
_STEP, _AUTOGRAD = 1, 2
_AUTOGRAD_NAME = "autograd::engine::evaluate_function"
#: A function that maps a pid to the name of the process.
ProcessName = Callable[[str], str]
_NUMBERED = re.compile(r"thread (\S+)(?: \((.*)\))?")
_AUTOGRAD_THREAD = re.compile(r"(pt_)?autograd", re.IGNORECASE)
#: Names that threads inherit from the program, and that do not distinguish them.
_INHERITED = re.compile(r"(pt_)?main_?thread|python[\d.]*|", re.IGNORECASE)
#: Units of the counter series that HTA writes.
_UNITS = {"Memcpy BW": "GB/s", "of known FLOPs": "TFLOP/s"}
_UNIT = re.compile(r"\(([^()]{1,8})\)$")
_SUFFIXES = re.compile(r"(\.pt)?(\.trace)?\.json(\.gz|\.zst)?$", re.IGNORECASE)


@dataclass(slots=True, frozen=True)
class AsyncGroup:
    """The asyncs with the same process and category."""

    pid: str
    category: str
    rows: Rows
    layer: Codes  # one per entry of `rows`

    @property
    def layers(self) -> int:
        """Number of lanes."""
        return int(self.layer.max()) + 1


@dataclass(slots=True, frozen=True)
class LaneRef:
    """What a lane shows.

    The meaning of `sources` depends on the role: positions of tracks in the table for ``events``
    and ``cpu``, the index of the series or group for counters, asyncs and instants, and the track
    of the collectives for ``wait`` and ``late`` (all tracks if empty).
    """

    role: LaneRole
    sources: tuple[int, ...] = ()
    depth: int = 0  # depth of events, or layer of asyncs
    spilled: bool = False  # whether events overlap without being nested
    annotations: bool = False  # whether a ``cpu`` lane includes annotations


@dataclass(slots=True)
class SummaryRow:
    """A lane of a folded rank. `tracks` becomes the `sources` of its `LaneRef`."""

    lane: int
    role: SummaryRole
    label: str
    tracks: tuple[int, ...] = ()
    annotations: bool = False
    #: Lanes of the waits and late arrivals of a communication lane; -1 for other lanes.
    wait: int = -1
    late: int = -1

    @property
    def ref(self) -> LaneRef:
        """The content of the lane."""
        return LaneRef(self.role, self.tracks, annotations=self.annotations)


@dataclass(slots=True)
class TrackRow:
    """A track, drawn on lanes `lane0` to `lane0 + lanes - 1`. The scene has the same fields.

    `lane0`, `wait` and `late` are set once the number of preceding lanes is known.
    """

    key: str
    process: str
    label: str
    role: str
    source: int  # position of the track, series or group
    events: int
    lane0: int = 0
    stream: int = -1
    lanes: int = 1
    nested: int = 1
    communication: bool = False
    range: tuple[float, float] | None = None
    unit: str = ""
    wait: int = -1
    late: int = -1
    #: First depth and number of depths for each stack of Python frames.
    stacks: Sequence[tuple[int, int]] = ()


@dataclass(slots=True)
class RankLayout:
    """The lanes of a rank, and their data."""

    rank: int
    trace: Trace
    #: First start and last end of the events or, without events, of the other records.
    range_ns: tuple[int, int]
    table: EventTable  # a snapshot, because kinds may change later
    lane0: int
    summary: list[SummaryRow]
    tracks: list[TrackRow]
    steps: Rows  # snapshot, like `table`
    async_groups: list[AsyncGroup]
    instant_groups: list[Rows]
    #: First lane per track of the table.
    track_lane0: Ints
    #: Lanes of waits, numbered after the tracks and drawn over the communication lanes.
    overlays: list[LaneRef]
    _starts: list[int] = field(init=False)

    def __post_init__(self) -> None:
        self._starts = [row.lane0 for row in self.tracks]

    @property
    def lanes(self) -> int:
        """Number of lanes."""
        return len(self.summary) + sum(row.lanes for row in self.tracks) + len(self.overlays)

    @property
    def shift_ns(self) -> int:
        """The clock shift. Public times are the times of the table plus the shift."""
        return self.trace.shift_ns

    def ref(self, lane: int) -> LaneRef:
        """Return what a lane of this rank shows."""
        offset = lane - self.lane0
        if offset < len(self.summary):
            return self.summary[offset].ref
        overlay = offset - (self.lanes - len(self.overlays))
        if overlay >= 0:
            return self.overlays[overlay]
        track = self.tracks[bisect_right(self._starts, lane) - 1]
        depth = lane - track.lane0
        match track.role:
            case "counter" | "async" | "instant":
                return LaneRef(track.role, (track.source,), depth)
            case _:
                return LaneRef("events", (track.source,), depth, depth >= track.nested)


@dataclass(slots=True)
class JobLayout:
    """The ranks of a job, in ascending order."""

    ranks: list[RankLayout]
    _starts: list[int] = field(init=False)
    _by_rank: dict[int, RankLayout] = field(init=False)

    def __post_init__(self) -> None:
        self._starts = [rank.lane0 for rank in self.ranks]
        self._by_rank = {rank.rank: rank for rank in self.ranks}

    @property
    def lanes(self) -> int:
        """Total number of lanes."""
        return self.ranks[-1].lane0 + self.ranks[-1].lanes if self.ranks else 0

    @property
    def has_waits(self) -> bool:
        """Whether any rank has lanes of waits, even if they are empty."""
        return any(rank.overlays for rank in self.ranks)

    def of_lane(self, lane: int) -> RankLayout:
        """Return the rank to which a lane belongs."""
        if not 0 <= lane < self.lanes:
            raise ValueError(f"no lane {lane}; lanes go from 0 to {self.lanes - 1}")
        return self.ranks[bisect_right(self._starts, lane) - 1]

    def of_rank(self, number: int) -> RankLayout:
        """Return the layout of the rank with this number."""
        try:
            return self._by_rank[number]
        except KeyError:
            raise ValueError(f"no rank {number}") from None


def lay_out(traces: Mapping[int, Trace]) -> JobLayout:
    """Create the lanes of all ranks and number them."""
    ranks: list[RankLayout] = []
    lane = 0
    several = len(traces) > 1
    for number in _ranks_to_draw(traces):
        ranks.append(_lay_out_rank(number, traces[number], lane, several=several))
        lane += ranks[-1].lanes
    return JobLayout(ranks)


def folded_lanes(table: EventTable) -> list[LaneRef]:
    """Return the lanes of a rank's folded row."""
    counts, _ = _count_events(table)
    return [row.ref for row in _summary_rows(counts, _host_threads(counts), 0)]


def async_groups(table: AsyncTable, categories: StringPool) -> list[AsyncGroup]:
    """Group asyncs by process and category, in order of first occurrence."""
    keys = list(zip(table.pid, table.category.tolist(), strict=True))
    durs = np.maximum(table.dur_ns, 0)
    groups = []
    for (pid, category), unsorted in _rows_by_key(keys).items():
        rows = unsorted[np.lexsort((-durs[unsorted], table.start_ns[unsorted]))]
        start_ns = table.start_ns[rows]
        layer = np.minimum(first_free_lanes(start_ns, start_ns + durs[rows]), MAX_LAYERS - 1)
        groups.append(AsyncGroup(pid, categories[category], rows, layer.astype(np.uint8)))
    return groups


def _rows_by_key(keys: Sequence[_Key]) -> dict[_Key, Rows]:
    numbers = {key: number for number, key in enumerate(dict.fromkeys(keys))}
    number_of_row = np.fromiter(map(numbers.__getitem__, keys), np.intp, len(keys))
    return {key: np.flatnonzero(number_of_row == number) for key, number in numbers.items()}


def thread_label(track: Track, *, main: bool, autograd: bool) -> str:
    """Return the label of a host thread: its purpose if that is known, otherwise its number."""
    numbered = _NUMBERED.fullmatch(track.label)
    name = (numbered[2] or "") if numbered else track.label
    if main:
        return "main thread"
    if autograd or _AUTOGRAD_THREAD.match(name):
        return "autograd thread"
    if name != track.process and not _INHERITED.fullmatch(name):
        return name
    return f"thread {numbered[1] if numbered else track.tid}"


def track_label(track: Track) -> str:
    """Return the label of a track other than a host thread."""
    if track.role in {"stream", "annotation"}:
        stream = f"stream {track.stream}" if track.stream >= 0 else track.label
        return stream if track.role == "stream" else f"{stream} annotations"
    # In BytePS traces, the whole synchronization of a tensor is labeled with the tensor's name.
    return track.process if track.label == "whole" else track.label


def place_label(trace: Trace) -> str:
    """Return the worker, server or rank named in a trace, with its GPU; "" if unknown."""
    if trace.server >= 0:
        return f"server {trace.server}"
    if trace.local_rank < 0:
        return ""
    if trace.worker >= 0:
        return f"worker {trace.worker} · GPU {trace.local_rank}"
    devices = [track.process for track in trace.table.tracks if track.role == "stream"]
    device = devices[0].rpartition("/device:")[2].replace(":", " ") if devices else ""
    return f"rank {trace.rank} · {device or f'GPU {trace.local_rank}'}"


def number_repeated(labels: Sequence[str]) -> list[str]:
    """Make labels unique by numbering repeats: ``autograd thread``, ``autograd thread 2``."""
    taken, counts = set(labels), Counter[str]()
    unique_labels = []
    for label in labels:
        counts[label] += 1
        unique = label
        if counts[label] > 1:
            while (unique := f"{label} {counts[label]}") in taken:
                counts[label] += 1
            taken.add(unique)
        unique_labels.append(unique)
    return unique_labels


def counter_label(name: str, series: str) -> str:
    """Return the label of a counter: its name, followed by the series.

    The series is omitted if it is "value", repeats the name or is a key of `_UNITS`.
    """
    omitted = {name, name.partition("[")[0], *_UNITS}
    if not series or series in omitted or series.lower() == "value":
        return name
    return f"{name} {series}"


def counter_unit(name: str, series: str) -> str:
    """Return the parenthesized unit at the end of the series or the name; "" if both lack one."""
    if series in _UNITS:
        return _UNITS[series]
    for text in (series, name):
        match = _UNIT.search(text)
        if match:
            return match[1]
    return ""


def job_title(paths: Sequence[str]) -> str:
    """Return a title for a job: the common directory of its files, or its only file."""
    if not paths:
        return "empty"
    if len(set(paths)) == 1:
        name = Path(paths[0]).name
        # mpitrace writes all ranks to a single file, whose name is only a number.
        if name.endswith(".trc") and (folder := Path(paths[0]).resolve().parent.name):
            return folder
        return _SUFFIXES.sub("", name) or name
    try:
        return Path(os.path.commonpath([Path(path).resolve() for path in paths])).name or "job"
    except ValueError:  # on several drives
        return "job"


def _ranks_to_draw(traces: Mapping[int, Trace]) -> list[int]:
    """Return the ranks with events, or all ranks if none has events.

    MPI profiles have totals but no events. Next to traces with events, their rows would be empty.
    """
    totals_only = {number for number, trace in traces.items() if trace.is_totals}
    return sorted(traces if len(totals_only) == len(traces) else set(traces) - totals_only)


@dataclass(slots=True, frozen=True)
class _TrackCounts:
    """Event counts of a rank by track, kind and flag. Flags are derived from event names."""

    tracks: list[Track]
    events: Ints
    #: Label of communication rows: the name of the library in use.
    library: str

    def count_of(self, track: int) -> int:
        return int(self.events[track].sum())

    def count_of_kind(self, track: int, kind: int) -> int:
        return int(self.events[track, kind].sum())

    def count_flagged(self, track: int, flag: int) -> int:
        return int(self.events[track, :, flag].sum())

    def communicates(self, track: int) -> bool:
        """Return whether a track has events and all of them are communication."""
        return self.count_of_kind(track, _COMMUNICATION) == self.count_of(track) > 0

    def with_role(self, *roles: str) -> list[int]:
        return [index for index, track in enumerate(self.tracks) if track.role in roles]


def _lay_out_rank(number: int, trace: Trace, lane0: int, *, several: bool) -> RankLayout:
    table = trace.table
    counts, steps = _count_events(table)
    threads = _host_threads(counts)
    summary = _summary_rows(counts, threads, lane0)
    asyncs = async_groups(trace.async_table, table.categories)
    instants = _rows_by_key(trace.instant_table.pid)
    rows = _track_rows(trace, counts, threads, asyncs, instants)
    track_lane0 = np.zeros(len(table.tracks), np.int64)
    lane = lane0 + len(summary)
    for row in rows:
        if row.role not in _SIDE_ROLES:
            track_lane0[row.source] = lane
        row.lane0 = lane
        lane += row.lanes
    overlays = _add_waits([*summary, *rows], lane) if several else []
    return RankLayout(
        rank=number,
        trace=trace,
        range_ns=(trace.start_ns, trace.end_ns),
        table=table,
        lane0=lane0,
        summary=summary,
        tracks=rows,
        steps=steps,
        async_groups=asyncs,
        instant_groups=list(instants.values()),
        track_lane0=track_lane0,
        overlays=overlays,
    )


def _track_rows(
    trace: Trace,
    counts: _TrackCounts,
    threads: Mapping[int, str],
    asyncs: list[AsyncGroup],
    instants: Mapping[str, Rows],
) -> list[TrackRow]:
    """Return the rows of a rank: streams, host threads, counters, then all others."""
    process_of = {track.pid: track.process for track in reversed(counts.tracks)}

    def process(pid: str) -> str:
        # Some tools write a name instead of a number as the pid.
        return process_of.get(pid) or (f"process {pid}" if pid.lstrip("-").isdigit() else pid)

    stacks = foldable_stacks(trace)
    others = [
        *_instant_rows(instants, process),
        *(_track_row(counts, track) for track in counts.with_role("other")),
    ]
    rows = [
        *(_track_row(counts, track) for track in _streams(counts)),
        *(
            _track_row(counts, track, text, stacks.get(track, ()))
            for track, text in threads.items()
        ),
        *_counter_rows(trace.counter_table, process),
        *_with_asyncs(others, list(_async_rows(asyncs, process))),
    ]
    # Table tracks already have unique keys. Numbering them first leaves these keys unchanged.
    ordered = sorted(rows, key=lambda row: row.role in _SIDE_ROLES)
    for row, key in zip(ordered, number_repeated([row.key for row in ordered]), strict=True):
        row.key = key
    return rows


def _add_waits(rows: Iterable[SummaryRow | TrackRow], first_lane: int) -> list[LaneRef]:
    """Assign lanes of waits and late arrivals to each communication row, and return these lanes."""
    overlays: list[LaneRef] = []
    for row in filter(_communicates, rows):
        row.wait = first_lane + len(overlays)
        row.late = row.wait + 1
        sources = (row.source,) if isinstance(row, TrackRow) else ()
        overlays += [LaneRef("wait", sources), LaneRef("late", sources)]
    return overlays


def _communicates(row: SummaryRow | TrackRow) -> bool:
    if isinstance(row, SummaryRow):
        return row.role == "comm"
    return row.communication and row.role == "stream"


def _count_events(table: EventTable) -> tuple[_TrackCounts, Rows]:
    flags = np.where(step_numbers(table.names.values) >= 0, np.uint8(_STEP), np.uint8(0))
    for code, name in enumerate(table.names.values):
        if name.startswith(_AUTOGRAD_NAME):
            flags[code] = _AUTOGRAD
    shape = (len(table.tracks), 8, 4)
    calls_mpi = MPI_CATEGORY in table.categories.values
    calls_nccl = any(name.startswith("nccl") for name in table.names.values)
    library = "MPI" if calls_mpi and not calls_nccl else "communication"
    if not len(table):
        return _TrackCounts(table.tracks, np.zeros(shape, np.int64), library), np.empty(0, np.intp)
    flag = flags[table.name]
    # Index into the flattened counts, with 2 bits for the flag and 3 for the kind.
    cell = (table.track.astype(np.intp) << 5) | (table.kind << np.uint8(2)) | flag
    events = np.bincount(cell, minlength=shape[0] * 32).reshape(shape)
    steps = np.flatnonzero(flag == _STEP) if (flags == _STEP).any() else np.empty(0, np.intp)
    on_host = np.array([track.role == "thread" for track in table.tracks])
    return _TrackCounts(table.tracks, events, library), steps[on_host[table.track[steps]]]


def _host_threads(counts: _TrackCounts) -> dict[int, str]:
    """Return host thread labels by track: main thread, then backward threads, then the others.

    The main thread is the thread with the most steps. Ties are broken by the number of calls.
    """
    threads = counts.with_role("thread")
    if not threads:
        return {}
    calls = {track: counts.count_of_kind(track, _CPU) for track in threads}

    def importance(track: int) -> tuple[int, ...]:
        return counts.count_flagged(track, _STEP), calls[track], counts.count_of(track)

    main = max(threads, key=importance)
    others = [track for track in threads if track != main]
    backward = [track for track in others if counts.count_flagged(track, _AUTOGRAD)]
    ordered = [main, *backward, *(track for track in others if track not in backward)]
    labels = {
        track: thread_label(
            counts.tracks[track],
            # Traces from tools other than profilers may contain no calls.
            main=track == main and calls[main] > 0,
            autograd=counts.count_flagged(track, _AUTOGRAD) > 0,
        )
        for track in ordered
    }
    label_counts = Counter(labels.values())
    for track, label in labels.items():
        if label_counts[label] > 1 and track not in backward:
            labels[track] = f"{label} {counts.tracks[track].tid}"
    return dict(zip(labels, number_repeated(list(labels.values())), strict=True))


def _streams(counts: _TrackCounts) -> list[int]:
    """Return the positions of device tracks, sorted by device, with streams before annotations.

    Communication streams follow the other streams.
    """
    tracks = counts.tracks
    devices: dict[str, int] = {}
    for track in sorted(tracks, key=lambda track: track.sort[0]):
        devices.setdefault(track.pid, len(devices))
    communication = {
        (tracks[stream].pid, tracks[stream].stream): counts.communicates(stream)
        for stream in counts.with_role("stream")
    }

    def order(stream: int) -> tuple[object, ...]:
        track = tracks[stream]
        communicates = communication.get((track.pid, track.stream), False)
        return devices[track.pid], track.role != "stream", communicates, track.stream, track.sort

    return sorted(counts.with_role("stream", "annotation"), key=order)


def _track_row(
    counts: _TrackCounts,
    track_index: int,
    label: str | None = None,
    stacks: Sequence[tuple[int, int]] = (),
) -> TrackRow:
    track = counts.tracks[track_index]
    return TrackRow(
        key=track.key,
        process=track.process,
        label=track_label(track) if label is None else label,
        role=track.role,
        stream=track.stream,
        lanes=track.lanes,
        nested=track.nested,
        events=counts.count_of(track_index),
        communication=counts.communicates(track_index),
        source=track_index,
        stacks=stacks,
    )


def _counter_rows(table: CounterTable, process: ProcessName) -> Iterator[TrackRow]:
    count = len(table.series)
    first = np.searchsorted(table.series_id, np.arange(count + 1))
    for index, (pid, name, series) in enumerate(table.series):
        values = table.value[first[index] : first[index + 1]]
        values = values[~np.isnan(values)]  # without gaps
        label = counter_label(name, series)
        yield TrackRow(
            key=f"{process(pid)} · {label}",
            process=process(pid),
            label=label,
            role="counter",
            source=index,
            events=int(first[index + 1] - first[index]),
            range=(float(values.min()), float(values.max())) if len(values) else (0.0, 0.0),
            unit=counter_unit(name, series),
        )


def _async_rows(groups: list[AsyncGroup], process: ProcessName) -> Iterator[TrackRow]:
    for group_index, group in enumerate(groups):
        label = group.category or "async"
        yield TrackRow(
            key=f"{process(group.pid)} · {label} async",
            process=process(group.pid),
            label=label,
            role="async",
            source=group_index,
            events=len(group.rows),
            lanes=group.layers,
            nested=group.layers,
        )


def _with_asyncs(rows: list[TrackRow], asyncs: list[TrackRow]) -> Iterator[TrackRow]:
    """Insert asyncs after the last row of their process, or at the top if it has no row."""
    last = {row.process: index for index, row in enumerate(rows) if row.role == "other"}
    yield from (row for row in asyncs if row.process not in last)
    below: dict[int, list[TrackRow]] = {}
    for row in asyncs:
        if row.process in last:
            below.setdefault(last[row.process], []).append(row)
    for index, row in enumerate(rows):
        yield row
        yield from below.get(index, ())


def _instant_rows(groups: Mapping[str, Rows], process: ProcessName) -> Iterator[TrackRow]:
    for index, (pid, rows) in enumerate(groups.items()):
        yield TrackRow(
            key=" · ".join(filter(None, (process(pid), "instants"))),
            process=process(pid),
            label="instants",
            role="instant",
            source=index,
            events=len(rows),
        )


def _summary_rows(counts: _TrackCounts, threads: Mapping[int, str], lane0: int) -> list[SummaryRow]:
    """Return the lanes of a folded rank: compute, communication and a few host threads."""
    rows: list[SummaryRow] = []

    def add(
        role: SummaryRole, label: str, tracks: Iterable[int] = (), *, annotations: bool = False
    ) -> None:
        rows.append(SummaryRow(lane0 + len(rows), role, label, tuple(tracks), annotations))

    streams = counts.with_role("stream")
    communication = sum(counts.count_of_kind(track, _COMMUNICATION) for track in streams)
    work = sum(counts.count_of(track) - counts.count_of_kind(track, _SYNC) for track in streams)
    if work > communication:
        add("gpu", "compute")
    if communication:
        add("comm", counts.library)
    working = [
        track
        for track in threads
        if counts.count_of(track) > counts.count_of_kind(track, _ANNOTATION)
    ]
    # Without device work, annotations are included because they describe the threads best.
    annotations = not rows
    if annotations and working:
        working = [track for track in threads if counts.count_of(track)]
    single = working if len(working) <= MAX_CPU_LANES else working[: MAX_CPU_LANES - 1]
    for track in single:
        add("cpu", threads[track], (track,), annotations=annotations)
    if others := working[len(single) :]:
        add("cpu", f"{len(others)} other threads", others, annotations=annotations)
    if not rows and counts.events.any():
        # The rank has neither known devices nor host threads. Annotations would cover all other
        # events, so they are shown only if the rank has nothing else.
        has_work = counts.events.sum() > counts.events[:, _ANNOTATION].sum()
        label = "work" if has_work else "all events"
        add("cpu", label, range(len(counts.tracks)), annotations=not has_work)
    return rows
