"""Where the devices' time goes, in any window: unions over all streams of a rank."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from hta_widgets.model.intervals import Intervals, subtract, union
from hta_widgets.model.table import KINDS
from hta_widgets.tiles.lane_index import CounterLane
from hta_widgets.tiles.protocol import pack
from hta_widgets.tiles.rank_index import RankIndex
from hta_widgets.tiles.spans import Cover, Ints, cover_of

__all__ = ["DeviceTime", "minimap", "stats"]

_COMPUTE, _COMMUNICATION, _MEMORY = (
    KINDS.index(kind) for kind in ("compute", "communication", "memory")
)
MAX_BINS = 1 << 16


@dataclass(slots=True, frozen=True)
class DeviceTime:
    """A rank's device work, as times that add up; each is exact before any instant.

    Parameters
    ----------
    compute, communication, memory : Cover
        Unions of one kind each.
    exposed : Cover
        Communication that is not under compute.
    memory_alone : Cover
        Memory that is under neither.
    any : bool
        Whether the rank has device events at all.
    """

    compute: Cover
    communication: Cover
    memory: Cover
    exposed: Cover
    memory_alone: Cover
    any: bool

    @classmethod
    def of(cls, index: RankIndex) -> DeviceTime:
        """Return the times of a rank, on the clock that users see."""
        table, rows = index.rank.table, index.device_rows
        kind = table.kind[rows]

        def united(code: int) -> Intervals:
            chosen = rows[kind == code]
            start = table.start_ns[chosen] + index.rank.shift_ns
            return union(start, start + table.dur_ns[chosen])

        compute, communication, memory = map(united, (_COMPUTE, _COMMUNICATION, _MEMORY))
        return cls(
            compute=cover_of(*compute),
            communication=cover_of(*communication),
            memory=cover_of(*memory),
            exposed=cover_of(*subtract(communication, compute)),
            memory_alone=cover_of(*subtract(subtract(memory, compute), communication)),
            any=len(rows) > 0,
        )

    def between(self, edges: Ints) -> dict[str, Ints]:
        """Return the time of each part between neighbouring `edges`."""
        return {
            name: np.diff(getattr(self, name).before(edges)[1])
            for name in ("compute", "communication", "memory", "exposed", "memory_alone")
        }


def stats(start: int, end: int, ranks: Sequence[tuple[RankIndex, DeviceTime]]) -> dict[str, Any]:
    """Answer ``stats``: the parts of a window, by rank and as shares of all ranks."""
    if end <= start:
        raise ValueError(f"a window must end after it starts, not {start} to {end}")
    edges = np.array((start, end), np.int64)
    parts = [
        {name: int(values[0]) for name, values in device.between(edges).items()}
        for _, device in ranks
    ]
    data = [_inside(index, start, end) for index, _ in ranks]
    columns = {name: [part[name] for part in parts] for name in parts[0]} if parts else {}
    reply: dict[str, Any] = {
        "ranks": [index.rank.rank for index, _ in ranks],
        "compute": columns.get("compute", []),
        "communication": columns.get("communication", []),
        "exposed": columns.get("exposed", []),
        "memory": columns.get("memory_alone", []),
        "data": data,
        "idle": [
            inside - part["compute"] - part["exposed"] - part["memory_alone"]
            for inside, part in zip(data, parts, strict=True)
        ],
        "kinds": {},
    }
    whole = sum(data)
    if whole and any(device.any for _, device in ranks):
        reply["kinds"] = {
            name: sum(columns[name]) / whole for name in ("compute", "communication", "memory")
        }
    return reply


def _inside(index: RankIndex, start: int, end: int) -> int:
    """Return how much of a window lies within the rank's data."""
    low, high = index.rank.range_ns
    return max(0, min(high, end) - max(low, start))


def minimap(
    start: int, end: int, bins: int, ranks: Sequence[tuple[RankIndex, DeviceTime]]
) -> tuple[dict[str, Any], bytes]:
    """Answer ``minimap``: the mean of all ranks over the whole job."""
    if not 1 <= bins <= MAX_BINS:
        raise ValueError(f"bins must be within 1 … {MAX_BINS}, not {bins}")
    steps = np.arange(bins + 1, dtype=np.int64)
    # In two parts, so that a long job times many bins stays within int64.
    whole, rest = divmod(end - start, bins)
    edges = start + whole * steps + rest * steps // bins
    weight = np.diff(edges).astype(np.float64) * len(ranks)
    if any(device.any for _, device in ranks):
        totals = {name: np.zeros(bins, np.int64) for name in ("compute", "exposed", "memory")}
        for _, device in ranks:
            parts = device.between(edges)
            totals["compute"] += parts["compute"]
            totals["exposed"] += parts["exposed"]
            totals["memory"] += parts["memory_alone"]
    else:
        totals = {
            "cpu": sum((_host_time(index, edges) for index, _ in ranks), np.zeros(bins, np.int64))
        }
    shares = {
        name: np.divide(total, weight, out=np.zeros(bins), where=weight > 0)
        for name, total in totals.items()
    }
    header, buffer = pack({name: ("f32", share) for name, share in shares.items()})
    return {"start": start, "end": end, "bins": bins, "columns": header}, buffer


def _host_time(index: RankIndex, edges: Ints) -> Ints:
    """Return the time of a rank's first host lane between neighbouring `edges`."""
    first = next((row.lane for row in index.rank.summary if row.role == "cpu"), None)
    if first is None:
        return np.zeros(len(edges) - 1, np.int64)
    _, lane = index.lane(first)
    if isinstance(lane, CounterLane):
        raise TypeError("a summary lane holds events")
    return np.diff(lane.spans.cover.before(edges - index.rank.shift_ns)[1])
