"""Waits and late arrivals in a view."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from hta_widgets.trace.intervals import Covered, Intervals, Ints, subtract, union
from hta_widgets.trace.traceset import TraceSet


def clusters(frame: pd.DataFrame) -> dict[str, Any]:
    """Answer ``clusters``: groups of ranks that are alike, and the ranks that are like no other.

    Parameters
    ----------
    frame : DataFrame
        What ``analysis.rank_clusters`` returned.

    Returns
    -------
    dict
        ``clusters`` by representative, ``outliers`` by rank, and the frame's ``note``.
    """
    alone = frame["is_outlier"].to_numpy(bool)
    reason = dict(zip(frame["rank"].tolist(), frame["why"].astype(str).tolist(), strict=True))
    groups = []
    for _, group in frame[~alone].groupby("cluster", sort=False):
        ranks = sorted(int(rank) for rank in group["rank"])
        stands = int(group["representative"].iloc[0])
        stands = stands if stands in ranks else ranks[0]
        groups.append({"representative": stands, "ranks": ranks, "why": reason[stands]})
    outliers = sorted(int(rank) for rank in frame["rank"][alone])
    return {
        "clusters": sorted(groups, key=lambda group: group["representative"]),
        "outliers": [{"rank": rank, "why": reason[rank]} for rank in outliers],
        "note": str(frame.attrs.get("note", "")),
    }


@dataclass(frozen=True, slots=True)
class Pieces:
    """Parts of communication events of one rank, in the order of a lane.

    Attributes
    ----------
    start, dur : array of int64
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


def pieces_of(start: Ints, dur: Ints, row: Ints) -> Pieces:
    """Return the pieces that have a length, in the order of a lane."""
    order = np.lexsort((row, -dur, start))
    order = order[dur[order] > 0]
    return Pieces(start[order], dur[order], row[order])


def waits_without_transfers(waits: Pieces, transfers: Intervals) -> Pieces:
    """Return when a rank does nothing but wait: the union of its waits less all its transfers.

    Of waits that overlap, each moment is of the one that began first; of those that began
    together, of the longest.
    """
    end = waits.start + waits.dur
    if not len(end):
        return waits
    # What earlier waits cover already is theirs.
    before = np.r_[waits.start[0], np.maximum.accumulate(end)[:-1]]
    start = np.maximum(waits.start, before)
    own = end > start
    start, end, row = start[own], end[own], waits.row[own]
    left = subtract(Intervals(start, end), union(transfers.start, transfers.end))
    of = np.searchsorted(start, left.start, side="right") - 1
    return Pieces(left.start, left.end - left.start, row[of])


_NUMBERS = (
    "collective",
    "rank",
    "id",
    "arrival_ns",
    "wait_ns",
    "transfer_ns",
    "last_rank",
    "size_bytes",
)

#: What `RankLateness` is made of.
_OF_RANK = ("id", "start_ns", "dur_ns", "wait_ns", "late_ns", "imposed_ns", "last_alone")


@dataclass(frozen=True, slots=True)
class RankLateness:
    """One rank's part in collectives, by start; times as users see them.

    Attributes
    ----------
    row : array of int64
        The events.
    start, end, wait_ns : array of int64
    late_ns : array of int64
        How long after the median of the others it came, where it alone came last; else 0.
    imposed_ns : array of int64
        What the others waited for it.
    last_alone : array of int64
        The rank that alone came last to the collective, -1 where several came at once.
    waited : Covered
        When it waits.
    exposed : Covered
        When it waits and does not compute.
    """

    row: Ints
    start: Ints
    end: Ints
    wait_ns: Ints
    late_ns: Ints
    imposed_ns: Ints
    last_alone: Ints
    waited: Covered
    exposed: Covered

    def waited_for(self, ranks: Sequence[int]) -> Covered:
        """Return when it waits at collectives to which one of `ranks` alone came last."""
        theirs = np.isin(self.last_alone, ranks)
        start = self.start[theirs]
        waited = union(start, start + self.wait_ns[theirs])
        return Covered(waited.start, waited.end)


class Lateness:
    """The matched collectives of a job, ready to be drawn and added up.

    Parameters
    ----------
    traces : TraceSet
    frame : DataFrame
        What ``analysis.collectives`` returned for them.
    compute : mapping of int to Intervals
        When each rank computes, in times as users see them.
    late : sequence of int, default none
        The ranks that the others wait for, of the whole job: `judgement`'s stragglers.

    Attributes
    ----------
    late : list of int
        These.
    frame : DataFrame
        One row per collective and rank, by rank and start: `frame` with ``call`` (which of the
        collectives, from 0 in order of time), ``start_ns`` (as users see it), ``dur_ns``,
        ``late_ns``, ``imposed_ns`` and ``last_alone`` (as in `RankLateness`). ``wait_ns`` ends with
        the event at the latest, as in ``analysis.exposed_waits``.
    note : str
        Why there is nothing, or what to know of it.
    """

    def __init__(
        self,
        traces: TraceSet,
        frame: pd.DataFrame,
        compute: Mapping[int, Intervals],
        late: Sequence[int] = (),
    ) -> None:
        self.late = list(late)
        self.note = str(frame.attrs.get("note", ""))
        # pandas copies the attrs, which name every rank of every group, with every column.
        frame = frame.copy(deep=False)
        frame.attrs = {}
        frame = _by_rank(traces, frame)
        self.frame = _with_lateness(frame)
        self._shift = {rank: trace.shift_ns for rank, trace in traces.items()}
        call = self.frame["call"].to_numpy(np.int64)
        self._by_call = np.argsort(call, kind="stable")
        self._first_of_call = np.searchsorted(
            call[self._by_call], np.arange(int(call.max(initial=-1)) + 2)
        )
        columns = {name: self.frame[name].to_numpy(np.int64) for name in _OF_RANK}
        of_rank = self.frame["rank"].to_numpy(np.int64)
        self._ranks: dict[int, RankLateness] = {}
        self._waited_for: tuple[Sequence[int], list[Covered]] = ((), [])
        for rank in traces:
            first, last = np.searchsorted(of_rank, (rank, rank + 1)).tolist()
            part = {name: column[first:last] for name, column in columns.items()}
            self._ranks[rank] = _rank(part, compute.get(rank, Intervals.none()))

    @classmethod
    def nothing(cls, traces: TraceSet, note: str) -> Lateness:
        """Return that of a job in which nobody waits for another rank, and why."""
        frame = pd.DataFrame({name: np.empty(0, np.int64) for name in _NUMBERS})
        frame["name"] = np.empty(0, np.str_)
        frame.attrs["note"] = note
        return cls(traces, frame, {})

    def rank(self, number: int) -> RankLateness:
        """Return one rank's part."""
        return self._ranks[number]

    def pieces(self, rank: int, role: str, *, folded: bool = False) -> Pieces:
        """Return the waits (``wait``) or the delays that made others wait (``late``) of a rank.

        Parameters
        ----------
        rank : int
        role : {"wait", "late"}
        folded : bool, default False
            All its collectives on one lane: where one waits while another moves data, the rank
            does not wait.

        Returns
        -------
        Pieces
            In times of the rank's table.
        """
        part = self._ranks[rank]
        start = part.start - self._shift[rank]
        if role == "late":
            return pieces_of(start - part.late_ns, part.late_ns, part.row)
        waits = pieces_of(start, part.wait_ns, part.row)
        if not folded:
            return waits
        transfers = union(start + part.wait_ns, part.end - self._shift[rank])
        return waits_without_transfers(waits, transfers)

    def within(self, start: int, end: int) -> dict[str, Any]:
        """Answer ``lateness``: what the collectives that overlap a window add up to, by rank."""
        if end <= start:
            raise ValueError(f"a window must end after it starts, not {start} to {end}")
        columns: dict[str, list[int]] = {
            name: [] for name in ("collectives", "last", "wait", "exposed_wait", "imposed")
        }
        for part in self._ranks.values():
            inside = (part.start < end) & ((part.end > start) | (part.start >= start))
            columns["collectives"].append(int(inside.sum()))
            columns["last"].append(int((inside & (part.late_ns > 0)).sum()))
            for name, cover in (("wait", part.waited), ("exposed_wait", part.exposed)):
                before = cover(np.array((start, end), np.int64))
                columns[name].append(int(before[1] - before[0]))
            columns["imposed"].append(int(part.imposed_ns[inside].sum()))
        # In a window as in the whole job: of those the ones that somebody waits for here.
        late = [
            rank
            for rank, imposed in zip(self._ranks, columns["imposed"], strict=True)
            if rank in self.late and imposed > 0
        ]
        return {
            "ranks": list(self._ranks),
            **columns,
            "wait_for_late": self.waited_for(late, start, end),
            "late": late,
            "note": self.note,
        }

    def waited_for(self, late: Sequence[int], start: int, end: int) -> list[int]:
        """Return how long each rank waits in a window where one of `late` alone comes last."""
        if not late:
            return [0] * len(self._ranks)
        # They are the same in nearly all windows.
        if self._waited_for[0] != tuple(late):
            covers = [part.waited_for(late) for part in self._ranks.values()]
            self._waited_for = (tuple(late), covers)
        edges = np.array((start, end), np.int64)
        return [int(np.diff(cover(edges))[0]) for cover in self._waited_for[1]]

    def collective(self, rank: int, row: int) -> dict[str, Any] | None:
        """Answer ``collective``: the same call on all ranks; None for what was not matched."""
        frame = self.frame
        at = np.flatnonzero((frame["rank"].to_numpy() == rank) & (frame["id"].to_numpy() == row))
        if not len(at):
            return None
        asked = frame.iloc[at[0]]
        call = int(asked["call"])
        first, last = self._first_of_call[call : call + 2].tolist()
        members = frame.iloc[self._by_call[first:last]]
        one = members.iloc[0]
        arrival = members["arrival_ns"].to_numpy(np.int64)
        return {
            "number": call + 1,
            "of": len(self._first_of_call) - 1,
            "name": str(one["name"]),
            "group": str(one["group"]),
            "size": int(one["size_bytes"]),
            "algbw": _number(asked["algbw_gb_s"]),
            "busbw": _number(asked["busbw_gb_s"]),
            "last_rank": int(one["last_rank"]),
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


def _rank(part: Mapping[str, Ints], compute: Intervals) -> RankLateness:
    start, wait = part["start_ns"], part["wait_ns"]
    waited = union(start, start + wait)
    return RankLateness(
        part["id"],
        start,
        start + part["dur_ns"],
        wait,
        part["late_ns"],
        part["imposed_ns"],
        part["last_alone"],
        Covered(waited.start, waited.end),
        Covered(*subtract(waited, compute)),
    )


def _by_rank(traces: TraceSet, frame: pd.DataFrame) -> pd.DataFrame:
    """Add the events' own times and the collectives' places, and sort by rank and start."""
    start, dur = np.zeros(len(frame), np.int64), np.zeros(len(frame), np.int64)
    ranks, rows = frame["rank"].to_numpy(np.int64), frame["id"].to_numpy(np.int64)
    by_rank = np.argsort(ranks, kind="stable")
    sorted_ranks = ranks[by_rank]
    for rank, trace in traces.items():
        first, last = np.searchsorted(sorted_ranks, (rank, rank + 1)).tolist()
        mine = by_rank[first:last]
        start[mine] = trace.table.start_ns[rows[mine]] + trace.shift_ns
        dur[mine] = trace.table.dur_ns[rows[mine]]
    _, call = np.unique(frame["collective"].to_numpy(np.int64), return_inverse=True)
    order = np.lexsort((rows, start, ranks))
    # Whoever leaves before the last one comes waits no longer.
    wait = np.minimum(frame["wait_ns"].to_numpy(np.int64), dur)
    frame = frame.assign(call=call.astype(np.int64), start_ns=start, dur_ns=dur, wait_ns=wait)
    columns = {str(name): _taken(frame[name], order) for name in frame}
    # Not put together into one block: that takes longer than taking them.
    return pd.DataFrame(columns, copy=False)


def _taken(column: pd.Series, order: npt.NDArray[np.intp]) -> Any:
    return column.array.take(order)


def _with_lateness(frame: pd.DataFrame) -> pd.DataFrame:
    """Add how late each is against the median of the others, and what that cost them."""
    number = frame["collective"].to_numpy(np.int64)
    arrival = frame["arrival_ns"].to_numpy(np.int64)
    wait = frame["wait_ns"].to_numpy(np.int64)
    order = np.lexsort((arrival, number))
    late, imposed = np.zeros(len(frame), np.int64), np.zeros(len(frame), np.int64)
    last_alone = np.full(len(frame), -1, np.int64)
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
        alone: npt.NDArray[np.bool_] = sorted_arrival[last] > sorted_arrival[last - 1]
        total = np.add.reduceat(wait[order], first)[several]
        # Who comes last alone comes after any median of the others: 0 says that nobody did.
        late[order[last]] = np.where(alone, sorted_arrival[last] - median, 0)
        imposed[order[last]] = np.where(alone, total, 0)
        of_call = np.full(len(first), -1, np.int64)
        of_call[several] = np.where(alone, frame["rank"].to_numpy(np.int64)[order[last]], -1)
        last_alone[order] = np.repeat(of_call, size)
    return frame.assign(late_ns=late, imposed_ns=imposed, last_alone=last_alone)
