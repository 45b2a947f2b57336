"""Who waits for whom: the waits within collectives as lanes, and what they add up to in a view."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from hta_widgets.model import TraceSet
from hta_widgets.model.intervals import Covered, Intervals, subtract, union
from hta_widgets.tiles.spans import Ints

__all__ = ["Lateness", "Pieces"]

#: Of fewer collectives in view nothing is said of who is late.
LEAST_COLLECTIVES = 4
#: Nor where the others wait for less than this share of the view.
LEAST_SHARE = 0.02


@dataclass(frozen=True, slots=True)
class Pieces:
    """Parts of communication events of one rank, by start; times as in its table.

    Attributes
    ----------
    start, dur : arrays of int64
    row : array of int64
        The event that each is of.
    """

    start: Ints
    dur: Ints
    row: Ints

    def of_rows(self, member: npt.NDArray[np.bool_]) -> Pieces:
        """Return those of the events for which `member`, by row, is true."""
        kept = member[self.row]
        return Pieces(self.start[kept], self.dur[kept], self.row[kept])


@dataclass(frozen=True, slots=True)
class _Rank:
    """One rank's part in collectives, by start; times as users see them."""

    start: Ints
    end: Ints
    wait_ns: Ints
    late_ns: Ints
    last: npt.NDArray[np.bool_]  # it alone came last
    imposed_ns: Ints  # what the others waited for it
    waits: Pieces
    lates: Pieces
    wait_cover: Covered
    exposed_cover: Covered


class Lateness:
    """The matched collectives of a job, ready to be drawn and added up.

    Parameters
    ----------
    traces : TraceSet
    frame : DataFrame
        What ``analysis.collectives`` returned for them.
    compute : mapping of int to Intervals
        When each rank computes, in times as users see them.
    """

    def __init__(
        self, traces: TraceSet, frame: pd.DataFrame, compute: Mapping[int, Intervals]
    ) -> None:
        self.note = str(frame.attrs.get("note", ""))
        self._frame = _with_lateness(frame)
        self._groups = self._frame.groupby("collective", sort=True).indices
        self._ranks: dict[int, _Rank] = {}
        by_rank = self._frame.groupby("rank").indices
        for rank, trace in traces.items():
            part = self._frame.iloc[by_rank.get(rank, np.empty(0, np.intp))]
            rows = part["id"].to_numpy(np.int64)
            begin = trace.table.start_ns[rows]
            order = np.argsort(begin, kind="stable")
            rows, begin = rows[order], begin[order]

            def column(name: str, part: pd.DataFrame = part, order: Any = order) -> Ints:
                values: Ints = part[name].to_numpy(np.int64)[order]
                return values

            wait, late = column("wait_ns"), column("late_ns")
            last = column("alone_last").astype(bool)
            shift = trace.shift_ns
            waiting, tardy = wait > 0, last & (late > 0)
            united = union(begin + shift, begin + shift + wait)
            exposed = subtract(united, compute.get(rank, Intervals.none()))
            self._ranks[rank] = _Rank(
                begin + shift,
                begin + shift + trace.table.dur_ns[rows],
                wait,
                late,
                last,
                column("imposed_ns"),
                Pieces(begin[waiting], wait[waiting], rows[waiting]),
                Pieces((begin - late)[tardy], late[tardy], rows[tardy]),
                Covered(united.start, united.end),
                Covered(exposed.start, exposed.end),
            )

    def pieces(self, rank: int, role: str) -> Pieces:
        """Return the waits (``wait``) or the delays that made others wait (``late``) of a rank."""
        found = self._ranks[rank]
        return found.waits if role == "wait" else found.lates

    def within(self, start: int, end: int) -> dict[str, Any]:
        """Answer ``lateness``: what the collectives that overlap a window add up to, by rank."""
        if end <= start:
            raise ValueError(f"a window must end after it starts, not {start} to {end}")
        columns: dict[str, list[int]] = {
            name: [] for name in ("collectives", "last", "wait", "exposed_wait", "imposed")
        }
        for part in self._ranks.values():
            inside = (part.start < end) & (part.end > start)
            columns["collectives"].append(int(inside.sum()))
            columns["last"].append(int((inside & part.last).sum()))
            for name, cover in (("wait", part.wait_cover), ("exposed_wait", part.exposed_cover)):
                before = cover(np.array((start, end), np.int64))
                columns[name].append(int(before[1] - before[0]))
            columns["imposed"].append(int(part.imposed_ns[inside].sum()))
        return {
            "ranks": list(self._ranks),
            **columns,
            "late": self._late(columns, end - start),
            "note": self.note,
        }

    def _late(self, columns: Mapping[str, list[int]], length: int) -> list[int]:
        """Return the ranks that come last in most collectives and that the others wait for."""
        others = max(len(self._ranks) - 1, 1)
        found = zip(
            self._ranks, columns["collectives"], columns["last"], columns["imposed"], strict=True
        )
        return [
            rank
            for rank, count, last, imposed in found
            if count >= LEAST_COLLECTIVES
            and 2 * last > count
            and imposed >= LEAST_SHARE * length * others
        ]

    def collective(self, rank: int, row: int) -> dict[str, Any] | None:
        """Answer ``collective``: the same call on all ranks; None for what was not matched."""
        frame = self._frame
        at = np.flatnonzero((frame["rank"].to_numpy() == rank) & (frame["id"].to_numpy() == row))
        if not len(at):
            return None
        number = frame["collective"].iloc[at[0]]
        members = frame.iloc[self._groups[number]].sort_values("rank")
        first = members.iloc[0]
        arrival = members["arrival_ns"].to_numpy(np.int64)
        return {
            "number": int(np.searchsorted(np.array(list(self._groups)), number)) + 1,
            "of": len(self._groups),
            "name": str(first["name"]),
            "group": str(first["group"]),
            "size": int(first["size_bytes"]),
            "algbw": _number(frame["algbw_gb_s"].iloc[at[0]]),
            "busbw": _number(frame["busbw_gb_s"].iloc[at[0]]),
            "last_rank": int(first["last_rank"]),
            "late": int(members["late_ns"].max()),
            "ranks": [
                {
                    "rank": int(one["rank"]),
                    "id": int(one["id"]),
                    "arrival": int(one["arrival_ns"] - arrival.min()),
                    "wait": int(one["wait_ns"]),
                    "transfer": int(one["transfer_ns"]),
                }
                for one in members.to_dict("records")
            ],
        }


def _number(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None


def _with_lateness(frame: pd.DataFrame) -> pd.DataFrame:
    """Add how late each is against the median of the others, and what that cost them."""
    frame = frame.reset_index(drop=True)
    number = frame["collective"].to_numpy(np.int64)
    arrival = frame["arrival_ns"].to_numpy(np.int64)
    order = np.lexsort((arrival, number))
    late, imposed = np.zeros(len(frame), np.int64), np.zeros(len(frame), np.int64)
    alone = np.zeros(len(frame), dtype=bool)
    if len(frame):
        sorted_number, sorted_arrival = number[order], arrival[order]
        first = np.flatnonzero(np.r_[True, sorted_number[1:] != sorted_number[:-1]])
        size = np.diff(np.r_[first, len(order)])
        several = size > 1
        # The last of each, and the median of those before it.
        last = (first + size - 1)[several]
        low = first[several] + (size[several] - 2) // 2
        high = first[several] + (size[several] - 1) // 2
        median = (sorted_arrival[low] + sorted_arrival[high]) // 2
        single = sorted_arrival[last] > sorted_arrival[last - 1]
        total = np.add.reduceat(frame["wait_ns"].to_numpy(np.int64)[order], first)[several]
        alone[order[last]] = single
        late[order[last]] = np.where(single, sorted_arrival[last] - median, 0)
        imposed[order[last]] = np.where(single, total, 0)
    return frame.assign(late_ns=late, imposed_ns=imposed, alone_last=alone)
