"""All events of a rank as columns."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from hta_widgets.analysis.host_stack import nested_parents
from hta_widgets.export.embed.blocks import Block, ColumnWriter
from hta_widgets.export.embed.names import Names, Types
from hta_widgets.lanes.layout import LaneRef, Rank
from hta_widgets.model import Trace
from hta_widgets.model.membership import device_index_of
from hta_widgets.tiles.rank_index import RankIndex
from hta_widgets.tiles.stats import device_range

__all__ = ["FullRank", "place_of_track", "rank_header"]

#: Differences of larger numbers may leave the range in which pages count exactly.
_WIDE = 1 << 50
_SIDE_ROLES = {"counter", "async", "instant"}

Ints = npt.NDArray[np.int64]


class FullRank:
    """A rank with all its events: its header in the page's document, and its block.

    Parameters
    ----------
    index : RankIndex
    names : Names
        Takes up the rank's strings.
    phases : (rows, steps, phases), optional
        Its ranges that are phases of steps, as `analysis.phase_times` finds them.
    """

    def __init__(
        self, index: RankIndex, names: Names, phases: tuple[Ints, Ints, Ints] | None = None
    ) -> None:
        rank = index.rank
        self.rank = rank
        types = Types(index, names)
        writer = ColumnWriter()
        _events(writer, rank, types)
        _asyncs(writer, index, types)
        _instants(writer, index, types)
        _flows(writer, rank)
        series = _counters(writer, rank)
        if phases is not None:
            _phases(writer, *phases)
        self.header: dict[str, Any] = {
            **rank_header(rank),
            "detail": "full",
            "device_range": device_range(index),
            "types": types.listed,
            "host_collectives": _host_collectives(rank, types),
            "flow_kinds": list(rank.trace.flow_table.kinds),
            "counters": series,
            "columns": writer.specs,
            "args": {"state": "absent", "reason": "", "blocks": 0, "columns": {}},
        }
        self.block: Block = writer.block(f"rank-{rank.rank}")


def _host_collectives(rank: Rank, types: Types) -> list[int]:
    """Return the types that are communication, but no device's work."""
    of_devices = device_index_of(rank.trace).kind
    found: list[int] = np.unique(types.codes["events"][of_devices != rank.table.kind]).tolist()
    return found


def rank_header(rank: Rank) -> dict[str, Any]:
    """Return what a page says of a rank's lanes, whatever it holds of them."""
    return {
        "rank": rank.rank,
        "range": list(rank.range_ns),
        "work": _work_of_job(rank.trace),
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
        "tracks": [_track(rank, at) for at in range(len(rank.tracks))],
        "overlays": [_overlay(rank, ref) for ref in rank.overlays],
    }


def _work_of_job(trace: Trace) -> list[int] | None:
    """Return when the device works in the job that a rank is an export of; None: not told."""
    stated = trace.stated_work_ns
    return None if stated is None else [edge + trace.shift_ns for edge in stated]


def place_of_track(rank: Rank, track: int) -> int:
    """Return where a track of the table stands among the rank's rows."""
    lane0 = int(rank.track_lane0[track])
    return next(at for at, row in enumerate(rank.tracks) if row.lane0 == lane0)


def _overlay(rank: Rank, ref: LaneRef) -> dict[str, Any]:
    """Return what one of the rank's last lanes holds; track -1 stands for all tracks."""
    return {
        "role": ref.role,
        "track": place_of_track(rank, ref.sources[0]) if ref.sources else -1,
    }


def _track(rank: Rank, at: int) -> dict[str, Any]:
    row = rank.tracks[at]
    header = {
        "key": row.key,
        "process": row.process,
        "role": row.role,
        "lane0": row.lane0,
        "lanes": row.lanes,
        "nested": row.nested,
        "stream": row.stream,
        "pid": "",
        "tid": "",
        "label": row.label,
        "counter_name": "",
        "counter_series": "",
    }
    if row.role not in _SIDE_ROLES:
        track = rank.table.tracks[row.source]
        return {**header, "pid": track.pid, "tid": track.tid, "label": track.label}
    if row.role == "counter":
        pid, name, series = rank.trace.counter_table.series[row.source]
        return {**header, "pid": pid, "counter_name": name, "counter_series": series}
    return header


def _events(writer: ColumnWriter, rank: Rank, types: Types) -> None:
    table = rank.table
    lane = rank.track_lane0[table.track] + table.depth
    stream = np.array([track.stream for track in table.tracks], np.int64)[table.track]
    writer.ints("events_start", table.start_ns + rank.shift_ns, delta=True)
    writer.ints("events_dur", table.dur_ns)
    writer.ints("events_type", types.codes["events"])
    writer.ints("events_lane", lane - rank.lane0)
    _exceptions(writer, "parent", _parents_by_lane(rank, lane), table.parent)
    _exceptions(writer, "nested", table.parent, nested_parents(rank.trace))
    _exceptions(writer, "stream", stream, table.stream)
    writer.ints("step", _by_track(table.step, table.track))
    if len(table) and np.abs(table.correlation).max() >= _WIDE:
        # As JSON would: no page counts that far.
        writer.floats("correlation_wide", table.correlation)
    else:
        writer.ints("correlation", _by_track(table.correlation, table.track, none=-1))
    writer.ints("phase_row", np.flatnonzero(table.phase), delta=True)


def _parents_by_lane(rank: Rank, lane: Ints) -> Ints:
    """Return the row of the latest event on the lane above, as the page will guess the parent."""
    parents = np.full(len(lane), -1, np.int64)
    order = np.argsort(lane, kind="stable")
    first = np.searchsorted(lane[order], np.arange(rank.lane0, rank.lane0 + rank.lanes + 1))
    for track in rank.tracks:
        if track.role in _SIDE_ROLES:
            continue
        for depth in range(1, track.lanes):
            at = track.lane0 + depth - rank.lane0
            above, own = order[first[at - 1] : first[at]], order[first[at] : first[at + 1]]
            before = np.searchsorted(above, own) - 1
            known = before >= 0
            parents[own[known]] = above[before[known]]
    return parents


def _exceptions(
    writer: ColumnWriter, name: str, guessed: npt.ArrayLike, right: npt.NDArray[Any]
) -> None:
    """Write the values, plus one, of the rows where the page would guess wrongly."""
    rows = np.flatnonzero(np.asarray(guessed) != right)
    writer.ints(f"{name}_row", rows, delta=True)
    writer.ints(name, right[rows].astype(np.int64) + 1)


def _by_track(
    values: npt.NDArray[Any], track: npt.NDArray[np.int32], none: int | None = None
) -> Ints:
    """Return differences along each track, folded to natural numbers.

    With `none`, that value is written as 0, and the others from 1 on.
    """
    out = np.zeros(len(values), np.int64)
    rows = np.arange(len(values)) if none is None else np.flatnonzero(values != none)
    order = rows[np.argsort(track[rows], kind="stable")]
    same = np.concatenate(([False], track[order][1:] == track[order][:-1]))[: len(order)]
    chosen: Ints = values[order].astype(np.int64)
    before = np.concatenate((np.zeros(1, np.int64), chosen[:-1]))[: len(chosen)]
    steps = chosen - np.where(same, before, 0)
    out[order] = ((steps << 1) ^ (steps >> 63)) + (none is not None)
    return out


def _asyncs(writer: ColumnWriter, index: RankIndex, types: Types) -> None:
    rows, rank = index.asyncs, index.rank
    writer.ints("asyncs_start", rows.start_ns + rank.shift_ns, delta=True)
    writer.ints("asyncs_dur", rows.dur_ns)
    writer.ints("asyncs_type", types.codes["asyncs"])
    writer.ints("asyncs_lane", index.side_lanes("asyncs") - rank.lane0)


def _instants(writer: ColumnWriter, index: RankIndex, types: Types) -> None:
    rows, rank = index.instants, index.rank
    writer.ints("instants_start", rows.start_ns + rank.shift_ns, delta=True)
    writer.ints("instants_type", types.codes["instants"])
    writer.ints("instants_lane", index.side_lanes("instants") - rank.lane0)


def _flows(writer: ColumnWriter, rank: Rank) -> None:
    flows = rank.trace.flow_table
    stated = (flows.source_record >= 0) & (flows.target_record >= 0)
    writer.ints("flow_kind", flows.kind)
    writer.ints("flow_stated", stated if len(stated) == len(flows) else np.zeros(len(flows)))
    writer.ints("flow_source", flows.source, delta=True)
    writer.ints("flow_target", flows.target - flows.source)


def _phases(writer: ColumnWriter, rows: Ints, steps: Ints, phases: Ints) -> None:
    writer.ints("range_row", rows, delta=True)
    writer.ints("range_step", steps, delta=True)
    writer.ints("range_phase", phases)


def _counters(writer: ColumnWriter, rank: Rank) -> list[int]:
    """Write the samples of all series; return how many each counter track has, in their order."""
    table = rank.trace.counter_table
    first = np.searchsorted(table.series_id, np.arange(len(table.series) + 1))
    sources = [row.source for row in rank.tracks if row.role == "counter"]
    rows = [np.arange(first[at], first[at + 1]) for at in sources]
    chosen = np.concatenate(rows) if rows else np.empty(0, np.int64)
    writer.ints("counter_time", table.time_ns[chosen] + rank.shift_ns, delta=True)
    writer.floats("counter_value", table.value[chosen])
    return [len(part) for part in rows]
