"""Write the events, arguments and collectives of a job as blocks of a page."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt
import pandas as pd

from hta_widgets.analysis.cross_rank.matching import Matching, matching
from hta_widgets.analysis.cross_rank.waits import unmatched_rows
from hta_widgets.analysis.efficiency.call_efficiency import (
    CALL_RATES,
    call_efficiency,
    classes_of_calls,
)
from hta_widgets.analysis.frames import concat_arrays
from hta_widgets.analysis.host_activity import activities_by_thread, follows_stream_wait
from hta_widgets.analysis.steps import RankPhases, clipped_steps
from hta_widgets.export.pages.format import Block, ColumnWriter, EventTypes, NameTables, pack_block
from hta_widgets.live.job import TileEngine
from hta_widgets.tiles.details import args_of_record
from hta_widgets.tiles.lateness import LatenessIndex
from hta_widgets.tiles.layout import JobLayout, RankLayout, TrackRow
from hta_widgets.tiles.rank_index import RankIndex
from hta_widgets.tiles.scene import device_range
from hta_widgets.trace.arrays import Array, Ints, Rows
from hta_widgets.trace.columns import RecordSource
from hta_widgets.trace.conditions import device_trace_index
from hta_widgets.trace.host_stack import operator_tree
from hta_widgets.trace.intervals import CumulativeCoverage
from hta_widgets.trace.trace import Trace
from hta_widgets.trace.traceset import TraceSet

#: Minimum number of ranks for which similar ranks are grouped.
_MIN_RANKS = 3


def clusters_answer(engine: TileEngine) -> Mapping[str, Any] | None:
    """Return the groups of similar ranks (the reply to ``clusters``), or None if unavailable."""
    if len(engine.traces) < _MIN_RANKS:
        return None
    try:
        return engine.answer({"op": "clusters"})[0]
    except (OSError, ValueError, LookupError):
        # Clustering reads arguments from the trace files, which may no longer exist.
        return None


#: Minimum size of the text in a block of arguments. The last block may be smaller.
_BLOCK_BYTES = 256 << 10
#: Number of records sampled to estimate the total size of the arguments.
_SAMPLE = 4000


@dataclass
class PagePart:
    """A part of a page: an entry in the page's document, and blocks."""

    header: dict[str, Any]
    blocks: list[Block]
    #: Whether an overview includes all lanes, rather than only the lanes of a folded rank.
    has_all_lanes: bool = True

    @property
    def size_bytes(self) -> int:
        """The size of the blocks as embedded in the page."""
        return sum(block.size_bytes for block in self.blocks)


def _args_part(
    state: str, reason: str = "", blocks: Sequence[Block] = (), columns: object = None
) -> PagePart:
    """Return a part with a rank's arguments, or with the reason why they are missing.

    The last block is a directory of the other blocks.
    """
    header = {"state": state, "reason": reason, "blocks": max(len(blocks) - 1, 0)}
    return PagePart({**header, "columns": columns or {}}, list(blocks))


def embed_args(rank: RankLayout, limit_bytes: float) -> PagePart:
    """Return a part with all arguments of a rank, or with none if they exceed `limit_bytes`."""
    source = rank.trace.source
    if source is None:
        return _args_part("absent")
    records, places = _records(rank)
    if not len(records):
        return _args_part("absent")
    sample = records[:_SAMPLE]
    # The factor of 2 allows for smaller arguments outside the sample.
    try:
        text = b"".join(text for _, text in _texts(source, sample))
        if pack_block("", text).size_bytes * len(records) / len(sample) > 2 * limit_bytes:
            return _args_part("left out")
        return _write_args(rank, _texts(source, records), places, limit_bytes)
    except (OSError, ValueError, LookupError, RecursionError) as error:
        return _args_part("unreadable", str(error) or type(error).__name__)


def _records(rank: RankLayout) -> tuple[Ints, Ints]:
    """Return a rank's record numbers in ascending order, and the row of each record.

    Row numbers continue across tables: events, then asyncs, then instants.
    """
    table, asyncs, instants = rank.table, rank.trace.async_table, rank.trace.instant_table
    ends = np.array([*table.end_record.items()], np.int64).reshape(-1, 2)
    later_rows = len(table) + np.arange(len(asyncs) + len(instants))
    records = np.concatenate([table.record, ends[:, 1], asyncs.record, instants.record])
    places = np.concatenate([np.arange(len(table)), ends[:, 0], later_rows])
    order = np.argsort(records, kind="stable")
    order = order[records[order] >= 0]
    return records[order].astype(np.int64), places[order].astype(np.int64)


def _texts(source: RecordSource, records: Ints) -> Iterator[tuple[int, bytes]]:
    """Yield (position, args as JSON) for each record that has args; `records` is ascending."""
    distinct, first, counts = np.unique(records, return_index=True, return_counts=True)
    for start, count, (_, record) in zip(
        first.tolist(), counts.tolist(), source.records(distinct), strict=True
    ):
        if text := _args_of(record):
            for place in range(start, start + count):
                yield place, text


def _args_of(record: bytes) -> bytes:
    if b'"args"' not in record:
        return b""
    try:
        text = bytes(_decode(record).args)
    except msgspec.DecodeError:
        # The record is not strict JSON, so its values have to be converted.
        pairs = args_of_record(record)
        inner = ",".join(f"{json.dumps(key)}:{json.dumps(text)}" for key, text in pairs)
        return f"{{{inner}}}".encode("ascii") if pairs else b""
    return b"" if text in (b"null", b"{}") else text


class _Record(msgspec.Struct, gc=False):
    args: msgspec.Raw = msgspec.Raw(b"")


_decode = msgspec.json.Decoder(_Record).decode


def _batches(texts: Iterator[tuple[int, bytes]]) -> Iterator[list[tuple[int, bytes]]]:
    """Yield lists of texts. Each list except the last has at least `_BLOCK_BYTES` of text."""
    batch, size = [], 0
    for entry in texts:
        batch.append(entry)
        size += len(entry[1])
        if size >= _BLOCK_BYTES:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def _write_args(
    rank: RankLayout, texts: Iterator[tuple[int, bytes]], places: Ints, limit_bytes: float
) -> PagePart:
    blocks: list[Block] = []
    offsets: list[int] = []
    sizes: list[int] = []
    counts: list[int] = []
    used = 0
    for batch in _batches(texts):
        block = pack_block(f"args-{rank.rank}-{len(counts)}", b"".join(text for _, text in batch))
        blocks.append(block)
        offsets += [place for place, _ in batch]
        sizes += [len(text) for _, text in batch]
        counts.append(len(batch))
        used += block.size_bytes
        if used > limit_bytes:
            return _args_part("left out")
    if not counts:
        return _args_part("absent")
    writer = ColumnWriter()
    writer.ints("row", places[offsets], delta=True)
    writer.ints("size", sizes)
    writer.ints("block", counts)
    # The args of a begin event come first, even if the file has the end event first.
    table = rank.table
    swapped = [row for row, end in table.end_record.items() if end < table.record[row]]
    writer.ints("swapped", sorted(swapped), delta=True)
    blocks.append(writer.block(f"args-{rank.rank}-0-directory"))
    part = _args_part("embedded", "", blocks, writer.specs)
    return part if part.size_bytes <= limit_bytes else _args_part("left out")


#: Ids from this value on are written as floats: their differences may be inexact in JavaScript.
_WIDE = 1 << 50
_TRACK_FIELDS = ("key", "process", "role", "lane0", "lanes", "nested", "stream")


def full_rank(
    index: RankIndex,
    names: NameTables,
    phases: RankPhases,
    steps_on_device: Sequence[tuple[int, int, int]],
) -> PagePart:
    """Return a part with all events of a rank; `steps_on_device` is its item in `device_steps`."""
    rank = index.rank
    types = EventTypes(index, names)
    writer = ColumnWriter()
    _write_events(writer, index, types)
    _write_rows(writer, index, types, "asyncs")
    _write_rows(writer, index, types, "instants")
    _write_flows(writer, rank)
    series = _write_counters(writer, rank)
    _write_phases(writer, phases)
    operators = _write_operators(writer, rank)
    activities = _write_activities(writer, rank)
    signatures = _write_call_figures(writer, rank.trace)
    # Types of host-side collectives. They are not device work.
    on_host = device_trace_index(rank.trace).kind != rank.table.kind
    header = {
        **rank_header(rank),
        "detail": "full",
        "device_range": device_range(index),
        "types": types.listed,
        "host_collectives": np.unique(types.codes["events"][on_host]).tolist(),
        "operators": np.unique(types.codes["events"][operators]).tolist(),
        "activities": activities,
        "signatures": signatures,
        "clipped_steps": clipped_steps(rank.trace).tolist(),
        "device_steps": list(map(list, steps_on_device)),
        "flow_kinds": list(rank.trace.flow_table.kinds),
        "counters": series,
        "columns": writer.specs,
        "args": _args_part("absent").header,
    }
    return PagePart(header, [writer.block(f"rank-{rank.rank}")])


def _write_operators(writer: ColumnWriter, rank: RankLayout) -> Rows:
    """Write the parent operator of each operator, and the operator that encloses each launch.

    Return the rows of all operators. The page finds them by event type.
    """
    tree, call = operator_tree(rank.trace), rank.trace.launch_of
    writer.ints("operator_above", _rows_above(tree.forest.parent))
    writer.ints("launched_operator", tree.innermost[call[call >= 0]] + 1, delta=True)
    return tree.rows


def _rows_above(parent: Array) -> Ints:
    """Return the distance of each row from its parent, or 0 if it has no parent."""
    return np.where(parent < 0, 0, np.arange(len(parent)) - parent)


def _write_call_figures(writer: ColumnWriter, trace: Trace) -> list[dict[str, Any]]:
    """Write the FLOPs, bytes and rates of operator calls; return each signature's properties."""
    efficiency = call_efficiency(trace)
    if efficiency is None:
        return []
    rows = np.flatnonzero(efficiency.call_of_event >= 0)
    writer.ints("figures_event", rows, delta=True)
    writer.ints("figures_call", efficiency.call_of_event[rows], delta=True)
    calls = efficiency.calls
    for name in ("row", "longest", "signature", "kernels", "device_ns"):
        writer.ints(f"call_{name}", calls[name].to_numpy(), delta=name in {"row", "longest"})
    writer.ints("call_class", classes_of_calls(efficiency))
    for name in CALL_RATES:
        writer.floats(f"call_{name}", calls[name].to_numpy(), "<f4")
    return efficiency.signatures


def _write_activities(writer: ColumnWriter, rank: RankLayout) -> list[list[int]]:
    """Write the activities of launching threads; return [track, interval count] for each thread."""
    activities = activities_by_thread(rank.trace)
    starts = [start + rank.shift_ns for start, _ in activities.values()]
    writer.ints("activity_start", concat_arrays(starts), delta=True)
    writer.ints("activity", concat_arrays([activity for _, activity in activities.values()]))
    threads = [place_of_track(rank, track) for track in activities]
    return [[track, len(start)] for track, start in zip(threads, starts, strict=True)]


def rank_header(rank: RankLayout) -> dict[str, Any]:
    """Return the description of a rank's lanes for full ranks and for overviews."""
    # Range of device work in the job from which the rank was exported (None: unknown).
    work_ns = rank.trace.stated_work_ns
    # Times at which one recording window ends and the next begins.
    marks_ns = rank.trace.recorded_marks_ns + rank.shift_ns
    return {
        "rank": rank.rank,
        "range": list(rank.range_ns),
        "work": None if work_ns is None else [edge_ns + rank.shift_ns for edge_ns in work_ns],
        **({"marks": marks_ns.tolist()} if len(marks_ns) else {}),
        "lane0": rank.lane0,
        "lanes": rank.lanes,
        "summary": [
            {
                "lane": row.lane,
                "role": row.role,
                "tracks": [place_of_track(rank, track) for track in row.tracks],
                "annotations": row.annotations,
            }
            for row in rank.summary
        ],
        "tracks": [_track(rank, row) for row in rank.tracks],
        # Track -1 means all tracks.
        "overlays": [
            {"role": ref.role, "track": place_of_track(rank, ref.sources[0]) if ref.sources else -1}
            for ref in rank.overlays
        ],
    }


def place_of_track(rank: RankLayout, track: int) -> int:
    """Return the position of a track among the rows of its rank."""
    lane0 = int(rank.track_lane0[track])
    return next(index for index, row in enumerate(rank.tracks) if row.lane0 == lane0)


def _track(rank: RankLayout, row: TrackRow) -> dict[str, Any]:
    pid, tid, label, name, series = "", "", row.label, "", ""
    if row.role == "counter":
        pid, name, series = rank.trace.counter_table.series[row.source]
    elif row.role not in {"async", "instant"}:
        track = rank.table.tracks[row.source]
        pid, tid, label = track.pid, track.tid, track.label
    fields = {field: getattr(row, field) for field in _TRACK_FIELDS}
    labels = {"pid": pid, "tid": tid, "label": label}
    return {**fields, **labels, "counter_name": name, "counter_series": series}


def _write_rows(writer: ColumnWriter, index: RankIndex, types: EventTypes, name: str) -> None:
    """Write the columns that events, asyncs and instants share."""
    rows, rank = index.rows(name), index.rank
    if name == "events":
        lane = rank.track_lane0[rank.table.track] + rank.table.depth
    else:
        lane = index.side_lanes(name)
    writer.ints(f"{name}_start", rows.start_ns + rank.shift_ns, delta=True)
    if name != "instants":
        writer.ints(f"{name}_dur", rows.dur_ns)
    writer.ints(f"{name}_type", types.codes[name])
    writer.ints(f"{name}_lane", lane - rank.lane0)


def _write_events(writer: ColumnWriter, index: RankIndex, types: EventTypes) -> None:
    rank, table = index.rank, index.rank.table
    _write_rows(writer, index, types, "events")
    writer.ints("parent", _rows_above(table.parent))
    _write_ids(writer, "stream", table.stream, table.stream)
    writer.ints("step", _by_track(table.step, table.track))
    packed = _by_track(table.correlation, table.track, none=-1)
    _write_ids(writer, "correlation", table.correlation, packed)
    writer.ints("prelaunched_row", np.flatnonzero(rank.trace.prelaunched), delta=True)
    writer.ints("behind_row", np.flatnonzero(follows_stream_wait(rank.trace)), delta=True)
    writer.ints("phase_row", np.flatnonzero(table.phase), delta=True)


def _write_ids(writer: ColumnWriter, name: str, ids: Array, packed: Array) -> None:
    """Write ids as `packed`, or as floats if they could be inexact as integers in JavaScript."""
    if len(ids) and np.abs(ids.astype(np.float64)).max() >= _WIDE:
        writer.floats(f"{name}_wide", ids)
    else:
        writer.ints(name, packed)


def _by_track(values: Array, track: npt.NDArray[np.int32], none: int | None = None) -> Ints:
    """Return the differences along each track, zigzag-encoded as non-negative numbers.

    If `none` is given, this value is encoded as 0, and all other codes are increased by 1.
    """
    encoded = np.zeros(len(values), np.int64)
    rows = np.arange(len(values)) if none is None else np.flatnonzero(values != none)
    order = rows[np.argsort(track[rows], kind="stable")]
    is_first_of_track = np.diff(track[order], prepend=-1) != 0
    ordered: Ints = values[order].astype(np.int64)
    differences = np.where(is_first_of_track, ordered, np.diff(ordered, prepend=0))
    # Zigzag encoding maps 0, -1, 1, -2, … to 0, 1, 2, 3, …
    encoded[order] = ((differences << 1) ^ (differences >> 63)) + (none is not None)
    return encoded


def _write_flows(writer: ColumnWriter, rank: RankLayout) -> None:
    flows = rank.trace.flow_table
    stated = (flows.source_record >= 0) & (flows.target_record >= 0)
    writer.ints("flow_kind", flows.kind)
    # Flows of traces that are not read from records lack these columns.
    writer.ints("flow_stated", stated if len(stated) else np.zeros(len(flows)))
    writer.ints("flow_source", flows.source, delta=True)
    writer.ints("flow_target", flows.target - flows.source)


def _write_phases(writer: ColumnWriter, phases: RankPhases) -> None:
    writer.ints("range_row", phases.rows, delta=True)
    writer.ints("range_step", phases.step, delta=True)
    writer.ints("range_phase", phases.phase)


def _write_counters(writer: ColumnWriter, rank: RankLayout) -> list[int]:
    """Write the samples of all counters; return the sample count of each counter track."""
    table = rank.trace.counter_table
    first = np.searchsorted(table.series_id, np.arange(len(table.series) + 1))
    sources = [row.source for row in rank.tracks if row.role == "counter"]
    rows = [np.arange(first[series], first[series + 1]) for series in sources]
    chosen = concat_arrays(rows)
    writer.ints("counter_time", table.time_ns[chosen] + rank.shift_ns, delta=True)
    writer.floats("counter_value", table.value[chosen])
    return [len(part) for part in rows]


#: Largest integer that JavaScript represents exactly.
_LARGEST = (1 << 53) - 1
#: Number of decimals of the ratio between bus and algorithm bandwidth. The ratio is a simple
#: fraction, so further decimals are rounding errors.
_DECIMALS = 15


class CollectivesPart(PagePart):
    """The events and waits of collectives, and unmatched communication."""

    def __init__(
        self,
        job: JobLayout,
        traces: TraceSet,
        make_lateness: Callable[[], LatenessIndex],
        names: NameTables,
    ) -> None:
        super().__init__({"note": "", "columns": {}}, [])
        self.lateness: LatenessIndex | None = None
        try:
            lateness = make_lateness()
            match = matching(traces) if len(traces) > 1 else None
        except (OSError, ValueError, LookupError) as error:
            # Matching reads arguments from the trace files, which may no longer exist.
            self.header["note"] = str(error) or type(error).__name__
            return
        self.header |= {"note": lateness.note, "clock": lateness.clock}
        writer = ColumnWriter()
        if match is not None:
            self.header["unmatched"] = _write_unmatched(writer, match, len(job.ranks))
        if len(lateness.frame):
            self.lateness = lateness
            counts = _write_entries(writer, job, lateness.frame, names)
            calls = _write_calls(writer, lateness.frame)
            self.header |= {"late": lateness.late, **calls, "counts": counts}
        if writer.specs:
            self.header["columns"] = writer.specs
            self.blocks.append(writer.block("collectives"))

    def late(self, start: int, end: int) -> list[int]:
        """Return the ranks that others wait for in a window."""
        return [] if self.lateness is None else self.lateness.sums_in_window(start, end)["late"]

    def exposed_wait(self, rank: int) -> CumulativeCoverage | None:
        """Return when a rank waits without computing, in ns since the origin (None: unknown)."""
        return None if self.lateness is None else self.lateness.rank(rank).exposed


def _write_unmatched(writer: ColumnWriter, match: Matching, rank_count: int) -> list[int]:
    rows = [unmatched_rows(match, number) for number in range(rank_count)]
    if any(map(len, rows)):
        writer.ints("unmatched", np.concatenate(rows), delta=True)
    return list(map(len, rows))


def _write_entries(
    writer: ColumnWriter, job: JobLayout, frame: pd.DataFrame, names: NameTables
) -> list[int]:
    """Write an entry for each event, sorted by rank and start; return each rank's entry count."""

    def column(name: str) -> Ints:
        values: Ints = frame[name].to_numpy(np.int64)
        return values

    track, name = np.empty(len(frame), np.int64), np.empty(len(frame), np.int64)
    ranks, ids = column("rank"), column("id")
    counts = []
    for rank in job.ranks:
        entries = np.flatnonzero(ranks == rank.rank)
        counts.append(len(entries))
        rows, table = ids[entries], rank.table
        track[entries] = _map_distinct(table.track[rows], partial(place_of_track, rank))
        texts = table.names.values
        name[entries] = _map_distinct(
            table.name[rows],
            lambda code: names.names.add(texts[code]),  # noqa: B023
        )
    size = column("size_bytes")
    writer.ints("call", column("call"), delta=True)
    writer.ints("id", ids, delta=True)
    writer.ints("start", column("start_ns"), delta=True)
    writer.ints("dur", column("dur_ns"))
    writer.ints("wait", column("wait_ns"))
    writer.ints("transfer_added", column("transfer_ns") - column("dur_ns") + column("wait_ns"))
    # Arrivals are on a common clock, at a constant offset from the clock of the rank.
    writer.ints("clock", column("arrival_ns") - column("start_ns"), delta=True)
    writer.ints("late", column("late_ns"))
    writer.ints("imposed", column("imposed_ns"))
    writer.ints("size", np.where(size <= _LARGEST, size, -1))
    writer.ints("track", track)
    writer.ints("name", name)
    return counts


def _map_distinct(values: Array, function: Callable[[int], int]) -> Ints:
    distinct, inverse = np.unique(values, return_inverse=True)
    return np.array([function(value) for value in distinct.tolist()], np.int64)[inverse]


def _write_calls(writer: ColumnWriter, frame: pd.DataFrame) -> dict[str, Any]:
    """Write the values that all events of a collective share; return the names they refer to."""
    # As in `LatenessIndex`, each collective is represented by its event on the lowest rank.
    row_of_call = frame.drop_duplicates("call").sort_values("call").index.to_numpy()
    header: dict[str, Any] = {}
    codes_of: dict[str, Ints] = {}
    for column in ("name", "group"):
        # sorted as in replies to ``ribbon``
        codes, texts = pd.factorize(frame[column].astype(str), sort=True)
        codes_of[column] = codes.astype(np.int64)
        writer.ints(f"call_{column}", codes_of[column][row_of_call])
        header[f"{column}s"] = texts.tolist()
    # Ranks rarely use different names for a call, so most differences are 0.
    shared = codes_of["name"][row_of_call][frame["call"].to_numpy(np.int64)]
    writer.ints("call_name_added", codes_of["name"] - shared)
    first = frame.iloc[row_of_call]
    writer.ints("call_last_rank", first["last_rank"].to_numpy(np.int64))
    factor = (frame["busbw_gb_s"] / frame["algbw_gb_s"]).groupby(frame["call"]).max()
    writer.floats("call_bus_factor", np.round(factor.to_numpy(np.float64), _DECIMALS))
    return header
