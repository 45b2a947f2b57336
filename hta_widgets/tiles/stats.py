"""Where the devices' time goes, in any window: unions over all streams of a rank."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from hta_widgets.model.intervals import Covered, union
from hta_widgets.model.table import KINDS
from hta_widgets.tiles.lane_index import CounterLane
from hta_widgets.tiles.protocol import pack
from hta_widgets.tiles.rank_index import RankIndex
from hta_widgets.tiles.spans import Ints

__all__ = ["DeviceTime", "minimap", "stats"]

_COMPUTE, _COMMUNICATION, _MEMORY = (
    KINDS.index(kind) for kind in ("compute", "communication", "memory")
)
MAX_BINS = 1 << 16

#: One row per union, one column per window.
Times = dict[str, npt.NDArray[np.int64]]


@dataclass(slots=True, frozen=True)
class DeviceTime:
    """Unions of a rank's device work; each is exact before any instant.

    Parameters
    ----------
    compute, communication, memory : Covered
        Of one kind each.
    both : Covered
        Compute and communication.
    busy : Covered
        All three kinds.
    """

    compute: Covered
    communication: Covered
    memory: Covered
    both: Covered
    busy: Covered
    any: bool

    @classmethod
    def of(cls, index: RankIndex) -> DeviceTime:
        """Return the unions of a rank, on the times that users see."""
        table, rows = index.rank.table, index.device_rows
        kind = table.kind[rows]
        start = table.start_ns[rows] + index.rank.shift_ns
        end = start + table.dur_ns[rows]

        def covered(*kinds: int) -> Covered:
            chosen = np.isin(kind, kinds)
            return Covered(*union(start[chosen], end[chosen]))

        return cls(
            covered(_COMPUTE),
            covered(_COMMUNICATION),
            covered(_MEMORY),
            covered(_COMPUTE, _COMMUNICATION),
            covered(_COMPUTE, _COMMUNICATION, _MEMORY),
            bool(len(rows)),
        )

    def between(self, edges: Ints) -> Times:
        """Return the time of each part between neighbouring `edges`."""
        compute, communication, memory, both, busy = (
            np.diff(part(edges))
            for part in (self.compute, self.communication, self.memory, self.both, self.busy)
        )
        return {
            "compute": compute,
            "communication": communication,
            "exposed": both - compute,
            "memory": busy - both,
            "busy": busy,
            "memory_union": memory,
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
    reply: dict[str, Any] = {"ranks": [index.rank.rank for index, _ in ranks]}
    for name in ("compute", "communication", "exposed", "memory"):
        reply[name] = [part[name] for part in parts]
    reply["data"] = data
    reply["idle"] = [inside - part["busy"] for inside, part in zip(data, parts, strict=True)]
    whole = sum(data)
    reply["kinds"] = {}
    if whole and any(device.any for _, device in ranks):
        reply["kinds"] = {
            "compute": sum(reply["compute"]) / whole,
            "communication": sum(reply["communication"]) / whole,
            "memory": sum(part["memory_union"] for part in parts) / whole,
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
            for name in totals:
                totals[name] += parts[name]
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
