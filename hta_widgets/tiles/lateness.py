"""Late arrivals and the waits that they cause, per lane, per window and over time.

It also answers ``clusters`` requests.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from hta_widgets.tiles import replies
from hta_widgets.tiles.packing import pack
from hta_widgets.tiles.windows import bin_starts, check_bins, check_window
from hta_widgets.trace.arrays import Bools, Ints, Rows
from hta_widgets.trace.intervals import CumulativeCoverage, Intervals, subtract, union
from hta_widgets.trace.traceset import TraceSet

#: Integer columns in the result of `analysis.collectives`.
_INTEGER_COLUMNS = (
    "collective", "rank", "id", "arrival_ns", "wait_ns", "transfer_ns", "last_rank", "size_bytes",
)  # fmt: skip
#: Columns from which a `RankLateness` is built.
_OF_RANK = ("id", "start_ns", "dur_ns", "wait_ns", "late_ns", "imposed_ns", "last_alone")


def clusters_reply(frame: pd.DataFrame) -> replies.Clusters:
    """Answer ``clusters`` with the groups of similar ranks and the outliers."""
    is_outlier = frame["is_outlier"].to_numpy(bool)
    reason = dict(zip(frame["rank"].tolist(), frame["why"].astype(str).tolist(), strict=True))
    groups: list[replies.SimilarRanks] = []
    for _, group in frame[~is_outlier].groupby("cluster", sort=False):
        ranks = sorted(int(rank) for rank in group["rank"])
        representative = int(group["representative"].iloc[0])
        if representative not in ranks:
            representative = ranks[0]
        why = reason[representative]
        groups.append({"representative": representative, "ranks": ranks, "why": why})
    outliers = sorted(int(rank) for rank in frame["rank"][is_outlier])
    return {
        "clusters": sorted(groups, key=lambda group: group["representative"]),
        "outliers": [{"rank": rank, "why": reason[rank]} for rank in outliers],
        "note": str(frame.attrs.get("note", "")),
    }


@dataclass(frozen=True, slots=True)
class EventPieces:
    """Waits or delays of a rank, in lane order; `row` has the rows of the collectives."""

    start: Ints
    dur: Ints
    row: Ints

    def select_rows(self, member: Bools) -> EventPieces:
        """Return the pieces of the events for which `member`, a mask by row, is True."""
        is_member = member[self.row]
        return EventPieces(self.start[is_member], self.dur[is_member], self.row[is_member])


def event_pieces(start: Ints, dur: Ints, row: Ints) -> EventPieces:
    """Return the waits or delays of nonzero length, in lane order."""
    order = np.lexsort((row, -dur, start))
    order = order[dur[order] > 0]
    return EventPieces(start[order], dur[order], row[order])


def waits_without_transfers(waits: EventPieces, transfers: Intervals) -> EventPieces:
    """Return the parts of a rank's waits that do not overlap its transfers.

    Time in which waits overlap counts for the wait that begins first; in a tie, for the longest.
    """
    end = waits.start + waits.dur
    if not len(end):
        return waits
    # Move the start of each wait to the latest end of the waits before it, if that is later.
    latest_end = np.r_[waits.start[0], np.maximum.accumulate(end)[:-1]]
    start = np.maximum(waits.start, latest_end)
    has_length = end > start
    start, end, row = start[has_length], end[has_length], waits.row[has_length]
    left = subtract(Intervals(start, end), union(transfers.start, transfers.end))
    containing = np.searchsorted(start, left.start, side="right") - 1
    return EventPieces(left.start, left.end - left.start, row[containing])


@dataclass(frozen=True, slots=True)
class RankLateness:
    """Collective events of a rank, sorted by start. Times include the clock shift."""

    row: Ints
    start: Ints
    end: Ints
    wait_ns: Ints
    late_ns: Ints
    imposed_ns: Ints
    last_alone: Ints
    waited: CumulativeCoverage
    exposed: CumulativeCoverage

    def waited_for(self, ranks: Sequence[int]) -> CumulativeCoverage:
        """Return the rank's waits at collectives in which one of `ranks` alone came last."""
        is_waited_for = np.isin(self.last_alone, ranks)
        start = self.start[is_waited_for]
        waited = union(start, start + self.wait_ns[is_waited_for])
        return CumulativeCoverage(waited.start, waited.end)


class LatenessIndex:
    """The matched collectives of a job, indexed by rank and by call.

    `frame` is the result of `analysis.collectives`, `compute` has the compute intervals of each
    rank, and `late` has the stragglers of the job.
    """

    def __init__(
        self,
        traces: TraceSet,
        frame: pd.DataFrame,
        compute: Mapping[int, Intervals],
        late: Sequence[int] = (),
        clock: replies.ClockFacts | None = None,
    ) -> None:
        self.late, self.clock = list(late), clock
        self.note = str(frame.attrs.get("note", ""))
        # Drop the attrs (all ranks of all groups), because pandas would copy them with every
        # column.
        frame = frame.copy(deep=False)
        frame.attrs = {}
        self.frame = _add_lateness(_sort_by_rank(traces, frame))
        self._shift = {rank: trace.shift_ns for rank, trace in traces.items()}
        call = self.frame["call"].to_numpy(np.int64)
        self._by_call = np.argsort(call, kind="stable")
        calls = np.arange(int(call.max(initial=-1)) + 2)
        self._first_of_call = np.searchsorted(call[self._by_call], calls)
        columns = {name: self.frame[name].to_numpy(np.int64) for name in _OF_RANK}
        of_rank = self.frame["rank"].to_numpy(np.int64)
        self._ranks: dict[int, RankLateness] = {}
        self._waited_for: tuple[Sequence[int], list[CumulativeCoverage]] = ((), [])
        for rank in traces:
            first, last = np.searchsorted(of_rank, (rank, rank + 1)).tolist()
            part = {name: column[first:last] for name, column in columns.items()}
            self._ranks[rank] = _rank_lateness(part, compute.get(rank, Intervals.empty()))

    @classmethod
    def empty(cls, traces: TraceSet, note: str) -> LatenessIndex:
        """Return the index of a job without matched collectives. `note` states the reason."""
        frame = pd.DataFrame({name: np.empty(0, np.int64) for name in _INTEGER_COLUMNS})
        frame["name"] = np.empty(0, np.str_)
        frame.attrs["note"] = note
        return cls(traces, frame, {})

    def rank(self, number: int) -> RankLateness:
        """Return the collective events of one rank."""
        return self._ranks[number]

    def pieces(self, rank: int, role: str, *, folded: bool = False) -> EventPieces:
        """Return a rank's waits (role ``wait``), or its delays that made others wait (``late``).

        Times are on the clock of the rank's table. If `folded`, all collectives share one lane, and
        waits during the transfer of another collective are omitted.
        """
        part = self._ranks[rank]
        start = part.start - self._shift[rank]
        if role == "late":
            return event_pieces(start - part.late_ns, part.late_ns, part.row)
        waits = event_pieces(start, part.wait_ns, part.row)
        if not folded:
            return waits
        transfers = union(start + part.wait_ns, part.end - self._shift[rank])
        return waits_without_transfers(waits, transfers)

    def sums_in_window(self, start: int, end: int) -> replies.Lateness:
        """Answer ``lateness`` with each rank's sums over the collectives that overlap a window."""
        check_window(start, end)
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
        # Keep those stragglers of the job for which other ranks wait in this window.
        late = [
            rank
            for rank, imposed in zip(self._ranks, columns["imposed"], strict=True)
            if rank in self.late and imposed > 0
        ]
        return {
            "start": start,
            "end": end,
            "ranks": list(self._ranks),
            "collectives": columns["collectives"],
            "last": columns["last"],
            "wait": columns["wait"],
            "exposed_wait": columns["exposed_wait"],
            "imposed": columns["imposed"],
            "wait_for_late": self.waited_for(late, start, end),
            "late": late,
            "note": self.note,
            "clock": self.clock,
        }

    def waited_for(self, late: Sequence[int], start: int, end: int) -> list[int]:
        """Return how long each rank waits in a window for a rank in `late` that alone came last."""
        if not late:
            return [0] * len(self._ranks)
        # Cached, because nearly all windows have the same stragglers.
        if self._waited_for[0] != tuple(late):
            covers = [part.waited_for(late) for part in self._ranks.values()]
            self._waited_for = (tuple(late), covers)
        edges = np.array((start, end), np.int64)
        return [int(np.diff(cover(edges))[0]) for cover in self._waited_for[1]]

    def collective_reply(self, rank: int, row: int) -> replies.Collective | None:
        """Answer ``collective``: the same call on all ranks, or None for an unmatched event."""
        frame = self.frame
        is_requested = (frame["rank"].to_numpy() == rank) & (frame["id"].to_numpy() == row)
        matches = np.flatnonzero(is_requested)
        if not len(matches):
            return None
        requested = frame.iloc[matches[0]]
        call = int(requested["call"])
        first, last = self._first_of_call[call : call + 2].tolist()
        members = frame.iloc[self._by_call[first:last]]
        first_member = members.iloc[0]
        arrival = members["arrival_ns"].to_numpy(np.int64)
        return {
            "number": call + 1,
            "of": len(self._first_of_call) - 1,
            "name": str(first_member["name"]),
            "group": str(first_member["group"]),
            "size": int(first_member["size_bytes"]),
            "algbw": _json_number(requested["algbw_gb_s"]),
            "busbw": _json_number(requested["busbw_gb_s"]),
            "last_rank": int(first_member["last_rank"]),
            "late": int(members["late_ns"].max()),
            "ranks": [
                {
                    "rank": int(member["rank"]),
                    "id": int(member["id"]),
                    "arrival": int(member["arrival_ns"] - arrival.min()),
                    "wait": int(member["wait_ns"]),
                    "transfer": int(member["transfer_ns"]),
                }
                for member in members.to_dict("records")
            ],
        }


def _json_number(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None


def _rank_lateness(part: Mapping[str, Ints], compute: Intervals) -> RankLateness:
    start, wait = part["start_ns"], part["wait_ns"]
    waited = union(start, start + wait)
    return RankLateness(
        row=part["id"],
        start=start,
        end=start + part["dur_ns"],
        wait_ns=wait,
        late_ns=part["late_ns"],
        imposed_ns=part["imposed_ns"],
        last_alone=part["last_alone"],
        waited=CumulativeCoverage(waited.start, waited.end),
        exposed=CumulativeCoverage(*subtract(waited, compute)),
    )


def _sort_by_rank(traces: TraceSet, frame: pd.DataFrame) -> pd.DataFrame:
    """Add event times and a consecutive collective number, and sort by rank and start."""
    start, dur = np.zeros(len(frame), np.int64), np.zeros(len(frame), np.int64)
    ranks, rows = frame["rank"].to_numpy(np.int64), frame["id"].to_numpy(np.int64)
    by_rank = np.argsort(ranks, kind="stable")
    sorted_ranks = ranks[by_rank]
    for rank, trace in traces.items():
        first, last = np.searchsorted(sorted_ranks, (rank, rank + 1)).tolist()
        entries = by_rank[first:last]
        start[entries] = trace.table.start_ns[rows[entries]] + trace.shift_ns
        dur[entries] = trace.table.dur_ns[rows[entries]]
    _, call = np.unique(frame["collective"].to_numpy(np.int64), return_inverse=True)
    order = np.lexsort((rows, start, ranks))
    # A rank whose event ends before the last rank arrives has waited for the whole event.
    wait = np.minimum(frame["wait_ns"].to_numpy(np.int64), dur)
    frame = frame.assign(call=call.astype(np.int64), start_ns=start, dur_ns=dur, wait_ns=wait)
    columns = {str(name): frame[name].array.take(order) for name in frame}
    # By default, pandas would consolidate the columns, and that takes longer than the sorting.
    return pd.DataFrame(columns, copy=False)


def _add_lateness(frame: pd.DataFrame) -> pd.DataFrame:
    """Add the lateness of each rank that alone came last, and the waits that it causes.

    Lateness is measured from the median arrival of the other ranks.
    """
    number = frame["collective"].to_numpy(np.int64)
    arrival = frame["arrival_ns"].to_numpy(np.int64)
    wait = frame["wait_ns"].to_numpy(np.int64)
    late, imposed = np.zeros(len(frame), np.int64), np.zeros(len(frame), np.int64)
    last_alone = np.full(len(frame), -1, np.int64)
    order = np.lexsort((arrival, number))
    sorted_number, sorted_arrival = number[order], arrival[order]
    first = np.flatnonzero(np.diff(sorted_number, prepend=sorted_number[:1] - 1))
    size = np.diff(np.append(first, len(order)))
    several = size > 1
    # Index of the last arrival in each collective, and the median of the arrivals before it.
    last = (first + size - 1)[several]
    low = first[several] + (size[several] - 2) // 2
    high = first[several] + (size[several] - 1) // 2
    median = (sorted_arrival[low] + sorted_arrival[high]) // 2
    alone: Bools = sorted_arrival[last] > sorted_arrival[last - 1]
    waits_before = np.append(0, np.cumsum(wait[order]))
    total = (waits_before[first + size] - waits_before[first])[several]
    # If a rank alone came last, its `late` is positive. It is 0 for all other ranks.
    late[order[last]] = np.where(alone, sorted_arrival[last] - median, 0)
    imposed[order[last]] = np.where(alone, total, 0)
    of_call = np.full(len(first), -1, np.int64)
    of_call[several] = np.where(alone, frame["rank"].to_numpy(np.int64)[order[last]], -1)
    last_alone[order] = np.repeat(of_call, size)
    return frame.assign(late_ns=late, imposed_ns=imposed, last_alone=last_alone)


class Ribbon:
    """Arrivals at the matched collectives of a job, sorted by time.

    Delays are measured from the median arrival (with an even number of ranks, the earlier of the
    two middle ones). Earlier arrivals have a delay of 0.
    """

    def __init__(self, lateness: LatenessIndex) -> None:
        frame = lateness.frame

        def column(name: str) -> Ints:
            return frame[name].to_numpy(np.int64)

        call, arrival, time, rank = map(column, ("call", "arrival_ns", "start_ns", "rank"))
        event = column("id")
        self._names, name = _distinct_names(frame["name"])
        self._calls = int(call.max()) + 1 if len(call) else 0
        by_call = np.lexsort((arrival, call))
        first = np.searchsorted(call[by_call], np.arange(self._calls))
        size = np.diff(np.r_[first, len(call)])
        median = arrival[by_call][first + (size - 1) // 2]
        late = np.maximum(arrival - median[call], 0)
        #: One row per arrival, sorted by time.
        self._arrivals = _take_rows(
            {"time": time, "late": late, "rank": rank, "call": call, "name": name, "id": event},
            np.argsort(time, kind="stable"),
        )
        last = by_call[first + size - 1]
        waited = np.add.reduceat(column("wait_ns")[by_call], first) if self._calls else first
        #: One row per call, timed at the arrival of its last rank.
        self._costs = {
            "time": time[last],
            "wait": waited // np.maximum(size - 1, 1),
            "rank": column("last_alone")[last],
            "call": np.arange(self._calls),
            "name": name[last],
            "id": event[last],
        }

    def bins_in_window(
        self, start: int, end: int, bins: int, ranks: Sequence[int] | None = None
    ) -> tuple[dict[str, Any], bytes]:
        """Answer ``ribbon``: the latest arrival per rank and bin, and the costliest call per bin.

        The window is divided into `bins` equal bins. `ranks` restricts whose arrivals are included.
        """
        check_window(start, end)
        check_bins(bins)
        edges = bin_starts(start, end, bins)

        def bin_of(time: Ints) -> Ints:
            return edges.searchsorted(time, "right") - 1

        rows = np.arange(*np.searchsorted(self._arrivals["time"], (start, end)))
        if ranks is not None:
            rows = rows[np.isin(self._arrivals["rank"][rows], np.asarray(ranks, np.int64))]
        arrivals = _take_rows(self._arrivals, rows)
        rank_and_bin = arrivals["rank"] * bins + bin_of(arrivals["time"])
        latest = _take_rows(arrivals, _position_of_largest(rank_and_bin, arrivals["late"]))
        time = self._costs["time"]
        costs = _take_rows(self._costs, np.flatnonzero((time >= start) & (time < end)))
        costliest = _take_rows(costs, _position_of_largest(bin_of(costs["time"]), costs["wait"]))
        columns: dict[str, tuple[str, npt.ArrayLike]] = {
            "rank": ("i32", latest["rank"]),
            "bin": ("u32", bin_of(latest["time"])),
            "late": ("f64", latest["late"]),
            "call": ("u32", latest["call"] + 1),
            "name": ("u32", latest["name"]),
            "id": ("u32", latest["id"]),
            "job_bin": ("u32", bin_of(costliest["time"])),
            "job_time": ("f64", costliest["time"]),
            "job_wait": ("f64", costliest["wait"]),
            "job_rank": ("i32", costliest["rank"]),
            "job_call": ("u32", costliest["call"] + 1),
            "job_name": ("u32", costliest["name"]),
            "job_id": ("u32", costliest["id"]),
        }
        header, buffer = pack(columns)
        return {
            "columns": header,
            "names": self._names,
            "of": self._calls,
            "most": int(self._arrivals["late"].max(initial=0)),
            "job_most": int(self._costs["wait"].max(initial=0)),
        }, buffer


def _take_rows(columns: Mapping[str, Ints], rows: Rows) -> dict[str, Ints]:
    return {name: values[rows] for name, values in columns.items()}


def _distinct_names(column: pd.Series) -> tuple[list[str], Ints]:
    """Return the names that occur, sorted, and the position of each row's name among them."""
    used = column.astype("category").cat.remove_unused_categories()
    names = sorted(map(str, used.cat.categories))
    codes: Ints = used.cat.reorder_categories(names).cat.codes.to_numpy().astype(np.int64)
    return names, codes


def _position_of_largest(key: Ints, value: Ints) -> Rows:
    """Return the position of the largest value per key, ordered by key. Ties go to the first."""
    order = np.lexsort((-value, key))
    return order[np.unique(key[order], return_index=True)[1]]
