"""Joins the files of one rank that contain successive windows of a recording.

A profiler with ``schedule(repeat=2)`` writes a file per window and rank, and SGLang writes one per
stage::

    worker0.1700000000000.pt.trace.json    window 0 of rank 0
    worker0.1700000000500.pt.trace.json    window 1 of rank 0

Files are windows of a rank if they state or are named after the same rank, have the same world size
and host and a common process, do not overlap in time, and continue the numbers of steps or
launches. They are in one folder, or in folders like ``iteration_10`` and ``iteration_20``, as named
by torchtitan, and at least half of the ranks have several files. They become one `Trace`, whose
metadata state the windows (`merged_format.stated_windows`). Analyses do not count the time between
two windows, because nothing is known about it.
"""

from __future__ import annotations

import json
import re
from bisect import bisect_right
from collections import ChainMap, Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import pairwise
from pathlib import PurePath
from typing import Any

import numpy as np

from hta_widgets.readers.ranks import rank_in_name
from hta_widgets.trace.arrays import Array, Ints
from hta_widgets.trace.build import step_numbers
from hta_widgets.trace.columns import (
    ArgTable,
    AsyncTable,
    CopyTable,
    CounterTable,
    EventTable,
    FlowTable,
    InstantTable,
    JoinedRecords,
    RecordSource,
    StringPool,
    Track,
    concatenate_tables,
    replace_columns,
    take_rows,
)
from hta_widgets.trace.merged_format import MARK_KEY, windows_mark
from hta_widgets.trace.record_times import base_time_ns, move_record
from hta_widgets.trace.trace import Trace
from hta_widgets.trace.tracks import disambiguate_tracks

#: ``NAME.TIME.pt.trace.json``, the file names of `torch.profiler.tensorboard_trace_handler`.
_HANDLER_NAME = re.compile(r"(.+)\.\d{9,}\.pt\.trace\.json(\.gz)?")
_NUMBER = re.compile(r"\d+")
#: Starting a process takes longer than this, so a file that begins sooner after another belongs to
#: the same run.
_MIN_RESTART_NS = 1_000_000_000
#: A file that begins later than this after the end of another belongs to another run, even with the
#: same process id.
_MAX_PAUSE_NS = 7 * 86_400 * 1_000_000_000


#: Tables of a window, with times, rows, records and codes of the joined trace.
_WindowTables = tuple[EventTable, FlowTable, CounterTable, InstantTable, AsyncTable, CopyTable]


def join_windows(traces: Sequence[Trace]) -> tuple[list[Trace], dict[str, str]]:
    """Return one trace per rank and, for each further file of a rank, the rank's first file."""
    by_rank = _group_by_rank(traces)
    several = [files for files in by_rank.values() if len(files) > 1]
    # A profiler that repeats does so on all ranks. A single further file is from another run.
    if 2 * len(several) < len(by_rank):
        return list(traces), {}
    first_of: dict[str, str] = {}
    joined: dict[int, Trace | None] = {}
    for files in several:
        ordered = sorted(files, key=lambda trace: trace.zero_ns)
        if all(_follows(*pair) for pair in pairwise(ordered)):
            joined |= {id(trace): None for trace in files}
            joined[id(ordered[0])] = join_traces(ordered)
            first_of |= {trace.path: ordered[0].path for trace in ordered[1:]}
    results = (joined.get(id(trace), trace) for trace in traces)
    return [trace for trace in results if trace is not None], first_of


def _group_by_rank(traces: Sequence[Trace]) -> dict[tuple[Any, ...], list[Trace]]:
    """Group the files that may be windows by rank.

    If each folder has one file of a rank, files in folders that differ only in numbers are grouped.
    """
    identities = [_rank_identity(trace) for trace in traces]
    files_in_folder = Counter(identities)
    by_rank: dict[tuple[Any, ...], list[Trace]] = defaultdict(list)
    for trace, identity in zip(traces, identities, strict=True):
        if identity is not None:
            folder, *rank = identity
            is_single = files_in_folder[identity] == 1
            by_rank[_NUMBER.sub("#", folder) if is_single else folder, *rank].append(trace)
    return by_rank


def _rank_identity(trace: Trace) -> tuple[Any, ...] | None:
    """Return a key that files of one rank have in common; None for files without a window."""
    if trace.format != "kineto" or not len(trace) or trace.part or trace.export_part is not None:
        return None
    path = PurePath(trace.path)
    rank: Any = trace.stated_rank
    if rank is None:
        handler = _HANDLER_NAME.fullmatch(path.name)
        named = rank_in_name(path.name) or rank_in_name(path.parent.name)
        rank = named or (handler and handler[1])
    if rank is None:
        return None
    return str(path.parent), rank, trace.local_rank, trace.world_size, trace.host


def _follows(earlier: Trace, later: Trace) -> bool:
    """Return whether a file may contain a later window of the same process."""
    pause_ns = later.zero_ns - (earlier.zero_ns + earlier.table.last_ns)
    if not 0 <= pause_ns <= _MAX_PAUSE_NS:
        return False
    if _host_processes(earlier).isdisjoint(_host_processes(later)):
        return False
    ids = [trace.table.correlation for trace in (earlier, later)]
    calls, later_calls = (column[column > 0] for column in ids)
    steps = [step_numbers(trace.table.names.values) for trace in (earlier, later)]
    # Call ids never repeat, but a step may continue in the next window.
    if _numbers_continue([calls + 1, later_calls]) or _numbers_continue(steps):
        return True
    if PurePath(earlier.path).parent != PurePath(later.path).parent:
        return False
    return pause_ns < _MIN_RESTART_NS or not all((numbers >= 0).any() for numbers in steps)


def _numbers_continue(numbers: Sequence[Ints]) -> bool:
    """Return whether the second numbers begin at or after the end of the first; -1 is ignored."""
    first, second = (column[column >= 0] for column in numbers)
    return len(first) > 0 and len(second) > 0 and bool(second.min() >= first.max())


def _host_processes(trace: Trace) -> set[str]:
    return {track.pid for track in trace.table.tracks if track.role == "thread"}


def join_traces(windows: Sequence[Trace]) -> Trace:
    """Return the windows of one rank, in order of time, as one trace."""
    first = windows[0]
    pools: defaultdict[str, StringPool] = defaultdict(StringPool)
    tracks, track_codes = _join_tracks([trace.table.tracks for trace in windows])
    parts: list[tuple[Any, ...]] = []
    end_record: dict[int, int] = {}
    rows, records, last_step = 0, 0, -1
    for trace, track_code in zip(windows, track_codes, strict=True):
        shift_ns = trace.zero_ns - first.zero_ns
        depth = _joined_depths(trace.table, tracks, track_code)
        step = _continue_steps(trace.table.step, last_step)
        last_step = max(last_step, int(step.max(initial=-1)))
        events, *others = _renumber_tables(
            trace, pools, track_code, shift_ns=shift_ns, rows=rows, records=records
        )
        parts.append((replace_columns(events, depth=depth, step=step), *others))
        end_record |= {
            row + rows: record + records for row, record in trace.table.end_record.items()
        }
        rows += len(trace.table)
        records += 0 if trace.source is None else len(trace.source)
    event_tables, flows, counters, instants, asyncs, copies = zip(*parts, strict=True)
    counter_table = concatenate_tables(counters, series=pools["series"].values)
    order = np.lexsort((counter_table.time_ns, counter_table.series_id))
    metadata = _joined_metadata(windows)
    return first.replace(
        _table=concatenate_tables(
            event_tables,
            names=pools["names"],
            categories=pools["categories"],
            tracks=tracks,
            end_record=end_record,
        ),
        flow_table=concatenate_tables(flows, kinds=pools["flow_kinds"].values),
        counter_table=take_rows(counter_table, order),
        instant_table=concatenate_tables(instants),
        async_table=concatenate_tables(asyncs),
        copy_table=concatenate_tables(copies),
        metadata=metadata,
        source=WindowRecords.of(windows, metadata[MARK_KEY]),
        resolution_ns=min(trace.resolution_ns for trace in windows),
    )


def _joined_metadata(windows: Sequence[Trace]) -> dict[str, Any]:
    """Return all top-level keys, each from the first window that states it, with the mark."""
    times_ns = [(trace.zero_ns, trace.zero_ns + trace.table.last_ns) for trace in windows]
    stated = windows[0].metadata.get(MARK_KEY)
    mark = {**(stated if isinstance(stated, Mapping) else {}), **windows_mark(times_ns)}
    return dict(ChainMap({MARK_KEY: mark}, *(trace.metadata for trace in windows)))


def _renumber_tables(
    trace: Trace,
    pools: Mapping[str, StringPool],
    track_code: Array,
    *,
    shift_ns: int,
    rows: int,
    records: int,
) -> _WindowTables:
    """Return a window's tables with times, numbers and codes of the joined trace.

    The window is shifted by `shift_ns`; `rows` and `records` count rows and records before it.
    """
    table, flow = trace.table, trace.flow_table
    counter, instant, interval = trace.counter_table, trace.instant_table, trace.async_table
    name = _codes(pools["names"], table.names.values)
    category = _codes(pools["categories"], table.categories.values)

    def new_columns(points: EventTable | InstantTable | AsyncTable) -> dict[str, Array]:
        return {
            "name": name[points.name],
            "category": category[points.category],
            "record": points.record + records,
        }

    return (
        replace_columns(
            table,
            start_ns=table.start_ns + shift_ns,
            track=track_code[table.track],
            parent=np.where(table.parent >= 0, table.parent + rows, -1).astype(np.int32),
            **new_columns(table),
        ),
        replace_columns(
            flow,
            kind=_codes(pools["flow_kinds"], flow.kinds)[flow.kind],
            source=flow.source + rows,
            target=flow.target + rows,
            source_record=np.where(flow.source_record >= 0, flow.source_record + records, -1),
            target_record=np.where(flow.target_record >= 0, flow.target_record + records, -1),
        ),
        replace_columns(
            counter,
            time_ns=counter.time_ns + shift_ns,
            series_id=_codes(pools["series"], counter.series)[counter.series_id],
            record=counter.record + records,
        ),
        replace_columns(instant, time_ns=instant.time_ns + shift_ns, **new_columns(instant)),
        replace_columns(interval, start_ns=interval.start_ns + shift_ns, **new_columns(interval)),
        replace_columns(trace.copy_table, record=trace.copy_table.record + records),
    )


def _continue_steps(step: Ints, last_step: int) -> Ints:
    """Return the steps of a window; they continue after `last_step` if they would repeat it."""
    has_step = step >= 0
    offset = max(last_step + 1 - int(step[has_step].min()), 0) if has_step.any() else 0
    return np.where(has_step, step + offset, -1)


def _codes(pool: StringPool, values: Sequence[Any]) -> Any:
    return np.array([pool.add(value) for value in values], np.int32)


def _join_tracks(parts: Sequence[Sequence[Track]]) -> tuple[list[Track], list[Any]]:
    """Return the tracks of all windows, and for each window the positions of its tracks."""
    track_of_key: dict[tuple[str, str, str], Track] = {}
    for track in (track for tracks in parts for track in tracks):
        key = track.pid, track.tid, track.role
        other = track_of_key.setdefault(key, track)
        nested = max(track.nested, other.nested)
        spilled = max(track.lanes - track.nested, other.lanes - other.nested)
        track_of_key[key] = replace(other, nested=nested, lanes=nested + spilled)
    ordered = sorted(track_of_key, key=lambda key: track_of_key[key].sort)
    position = {key: number for number, key in enumerate(ordered)}
    codes = [
        np.array([position[track.pid, track.tid, track.role] for track in tracks], np.int32)
        for tracks in parts
    ]
    return disambiguate_tracks([track_of_key[key] for key in ordered]), codes


def _joined_depths(table: EventTable, tracks: Sequence[Track], track_code: Array) -> Array:
    """Return lanes in the joined tracks, where spill lanes may begin further down."""
    if not table.tracks:
        return table.depth
    nested = np.array([track.nested for track in table.tracks])
    joined = np.array([tracks[code].nested for code in track_code.tolist()])
    spilled = table.depth >= nested[table.track]
    return (table.depth + np.where(spilled, (joined - nested)[table.track], 0)).astype(np.int16)


class WindowRecords(JoinedRecords):
    """Records of several files, numbered in order, with times relative to the first."""

    def __init__(
        self, sources: Sequence[RecordSource], shifts_ns: Sequence[int], mark: dict[str, Any]
    ) -> None:
        super().__init__(sources)
        self._shifts_ns, self._mark = list(shifts_ns), mark

    @classmethod
    def of(cls, windows: Sequence[Trace], mark: dict[str, Any]) -> WindowRecords | None:
        """Return the records of traces; None if a trace has no records."""
        sources = [trace.source for trace in windows if trace.source is not None]
        if len(sources) < len(windows):
            return None
        bases = [base_time_ns(trace.metadata) for trace in windows]
        return cls(sources, [base - bases[0] for base in bases], mark)

    @property
    def metadata_text(self) -> dict[str, bytes]:
        """Top-level keys of all files, as JSON, and the mark of the windows."""
        texts = [getattr(source, "metadata_text", None) or {} for source in self.sources]
        if not any(texts):
            return {}
        return dict(ChainMap({MARK_KEY: json.dumps(self._mark).encode()}, *texts))

    @cached_property
    def comm_args(self) -> ArgTable | None:
        """Communication args, or None if they are unknown for some of the files."""
        if any(not hasattr(source, "comm_args") for source in self.sources):
            return None
        records, codes, texts = [], [], list[bytes]()
        for source, first in zip(self.sources, self.first, strict=False):
            table: ArgTable | None = source.comm_args  # type: ignore[attr-defined]
            if table is not None:
                records.append(table.record + first)
                codes.append(table.code + len(texts))
                texts += table.texts
        return ArgTable(np.concatenate(records), np.concatenate(codes), texts) if records else None

    def _ascending(self, wanted: Ints) -> Iterator[tuple[int, bytes]]:
        for record, text in super()._ascending(wanted):
            shift_ns = self._shifts_ns[bisect_right(self.first, record) - 1]
            yield record, move_record(text, shift_ns) if shift_ns else text
