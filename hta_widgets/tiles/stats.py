"""Device time of any window by kind: unions over all streams of a rank."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from hta_widgets.taxonomy import KINDS
from hta_widgets.tiles.cells import pack
from hta_widgets.tiles.lanes import CounterLane, RankIndex
from hta_widgets.tiles.replies import Stats
from hta_widgets.trace.arrays import Ints
from hta_widgets.trace.intervals import Cover, Intervals, cover_of, subtract, union
from hta_widgets.trace.memo import stop_if_cancelled

_COMPUTE, _COMMUNICATION, _MEMORY = (
    KINDS.index(kind) for kind in ("compute", "communication", "memory")
)
MAX_BINS = 1 << 16

#: Maximum number of edges for which several ranks are measured together.
_EDGES_AT_ONCE = 1 << 16

#: Unions of one kind each; communication without compute; memory without either.
_PARTS = ("compute", "communication", "memory", "exposed", "memory_alone")


@dataclass(slots=True, frozen=True)
class DeviceTimes:
    """Cumulative device time of all ranks, exact at any instant.

    The ranks' data is laid end to end, so that one search serves all of them.
    """

    low: Ints
    high: Ints
    first: Ints
    last: Ints
    covers: dict[str, Cover]
    present: bool

    @classmethod
    def of(cls, indices: Sequence[RankIndex]) -> DeviceTimes:
        """Return the device work of ranks."""
        ranges = np.array([index.rank.range_ns for index in indices], np.int64).reshape(-1, 2)
        spans = np.array([device_range(index) for index in indices], np.int64).reshape(-1, 2)
        present = any(len(index.device_rows) for index in indices)
        times = cls(ranges[:, 0], ranges[:, 1], spans[:, 0], spans[:, 1], {}, present)
        pieces: dict[str, list[Intervals]] = {name: [] for name in _PARTS}
        for index, offset in zip(indices, times.offsets.tolist(), strict=True):
            move = index.rank.shift_ns + offset
            for name, part in zip(_PARTS, _parts_of(index), strict=True):
                pieces[name].append(Intervals(part.start + move, part.end + move))
            stop_if_cancelled()
        none = Intervals.none()
        for name, parts in pieces.items():
            start = np.concatenate([none.start, *(part.start for part in parts)])
            end = np.concatenate([none.end, *(part.end for part in parts)])
            times.covers[name] = cover_of(start, end)
        return times

    @property
    def offsets(self) -> Ints:
        """Offsets from the ranks' times to the times of the covers."""
        lengths = self.high - self.low
        before: Ints = np.cumsum(lengths) - lengths
        return before - self.low

    def between(self, edges: Ints, names: Sequence[str] = _PARTS) -> Iterator[dict[str, Ints]]:
        """Yield the parts between `edges`, one row per rank, for a few ranks at a time."""
        at_once = max(1, _EDGES_AT_ONCE // len(edges))
        for first in range(0, len(self.low), at_once):
            ranks = slice(first, first + at_once)
            inside = np.clip(edges, self.low[ranks, None], self.high[ranks, None])
            inside += self.offsets[ranks, None]
            yield {
                name: np.diff(self.covers[name].before(inside.ravel())[1].reshape(inside.shape))
                for name in names
            }

    def data_within(self, start: int, end: int) -> list[int]:
        """Return the part of a window within each rank's data."""
        return _within(start, end, self.low, self.high)

    def span_within(self, start: int, end: int) -> list[int]:
        """Return the part of a window between each rank's first and last device work."""
        return _within(start, end, self.first, self.last)


def _within(start: int, end: int, low: Ints, high: Ints) -> list[int]:
    found: list[int] = np.maximum(np.minimum(high, end) - np.maximum(low, start), 0).tolist()
    return found


def device_range(index: RankIndex) -> tuple[int, int]:
    """Return the first start and the last end of a rank's device work; 0 for none.

    In an export, the work stated for the whole job also counts, clipped to the export's window.
    """
    table, rows = index.rank.table, index.device_rows
    rows = rows[np.isin(table.kind[rows], (_COMPUTE, _COMMUNICATION, _MEMORY))]
    shift, trace = index.rank.shift_ns, index.rank.trace
    start = table.start_ns[rows] + shift
    edges = [start.min(), (start + table.dur_ns[rows]).max()] if len(rows) else []
    if trace.window_ns is not None and trace.stated_work_ns is not None:
        edges += np.clip(np.array(trace.stated_work_ns) + shift, *trace.window_ns).tolist()
    return (int(min(edges)), int(max(edges))) if edges else (0, 0)


def _parts_of(index: RankIndex) -> tuple[Intervals, ...]:
    table, rows = index.rank.table, index.device_rows
    kind = table.kind[rows]

    def united(code: int) -> Intervals:
        chosen = rows[kind == code]
        start = table.start_ns[chosen]
        return union(start, start + table.dur_ns[chosen])

    compute, communication, memory = map(united, (_COMPUTE, _COMMUNICATION, _MEMORY))
    exposed = subtract(communication, compute)
    memory_alone = subtract(subtract(memory, compute), communication)
    return compute, communication, memory, exposed, memory_alone


def compute_of(index: RankIndex) -> Intervals:
    """Return the compute intervals of a rank, with the clock's shift."""
    pieces, shift = _parts_of(index)[0], index.rank.shift_ns
    return Intervals(pieces.start + shift, pieces.end + shift)


def stats(
    start: int,
    end: int,
    indices: Sequence[RankIndex],
    device: DeviceTimes,
    *,
    ranks: Sequence[int] | None = None,
) -> Stats:
    """Answer ``stats``: the parts of a window, by rank and as shares of some ranks or all."""
    if end <= start:
        raise ValueError(f"a window must end after it starts, not {start} to {end}")
    columns: dict[str, list[int]] = {name: [] for name in _PARTS}
    for parts in device.between(np.array((start, end), np.int64)):
        for name, times in parts.items():
            columns[name] += times[:, 0].tolist()
    span = device.span_within(start, end)
    busy = zip(columns["compute"], columns["exposed"], columns["memory_alone"], strict=True)
    kinds = ("compute", "communication", "memory")
    known = [index.rank.rank for index in indices]
    chosen = (
        range(len(known)) if ranks is None else [known.index(one) for one in {*ranks} & {*known}]
    )
    whole = sum(span[at] for at in chosen)
    return {
        "start": start,
        "end": end,
        "ranks": known,
        "compute": columns["compute"],
        "communication": columns["communication"],
        "exposed": columns["exposed"],
        "memory": columns["memory_alone"],
        "data": device.data_within(start, end),
        "span": span,
        "idle": [inside - sum(parts) for inside, parts in zip(span, busy, strict=True)],
        "kinds": {name: sum(columns[name][at] for at in chosen) / whole for name in kinds}
        if whole and device.present
        else {},
    }


def minimap(
    start: int, end: int, bins: int, *, indices: Sequence[RankIndex], device: DeviceTimes
) -> tuple[dict[str, Any], bytes]:
    """Answer ``minimap``: the mean of all ranks over the whole job."""
    if not 1 <= bins <= MAX_BINS:
        raise ValueError(f"bins must be within 1 … {MAX_BINS}, not {bins}")
    steps = np.arange(bins + 1, dtype=np.int64)
    # In two parts, so that a long job times many bins stays within int64.
    whole, rest = divmod(end - start, bins)
    edges = start + whole * steps + rest * steps // bins
    if device.present:
        shown = {"compute": "compute", "exposed": "exposed", "memory": "memory_alone"}
        totals = {name: np.zeros(bins, np.int64) for name in shown}
        for parts in device.between(edges, tuple(shown.values())):
            for name, part in shown.items():
                totals[name] += parts[part].sum(axis=0)
    else:
        totals = {"cpu": np.zeros(bins, np.int64)}
        for index in indices:
            totals["cpu"] += _host_time(index, edges)
            stop_if_cancelled()
    weight = np.diff(edges).astype(np.float64) * len(indices)
    header, buffer = pack(
        {
            name: ("f32", np.divide(total, weight, out=np.zeros(bins), where=weight > 0))
            for name, total in totals.items()
        }
    )
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
