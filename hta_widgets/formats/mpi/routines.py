"""Routines and message sizes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from hta_widgets.analysis.scope import Part, parts, result
from hta_widgets.errors import TraceError
from hta_widgets.formats.mpi.model import (
    MPI_IO_CATEGORY,
    ROUTINES,
    CallStack,
    MpiJob,
    MpiProfile,
    RoutineRow,
    SizeRow,
    StackFrame,
    bin_bounds,
    is_io,
    mpi_jobs,
    size_class,
)
from hta_widgets.taxonomy import MPI_CATEGORY
from hta_widgets.trace.event_args import event_args, numbers_of
from hta_widgets.trace.selection import Selection
from hta_widgets.trace.trace import Trace
from hta_widgets.trace.traceset import TraceSet

Floats = npt.NDArray[np.float64]

_CATEGORIES = (MPI_CATEGORY, MPI_IO_CATEGORY)


@dataclass(frozen=True, slots=True)
class MpiRank:
    """What one rank says of its MPI calls."""

    job: str
    rank: int
    key: int
    ntasks: int
    is_profile: bool
    comm_s: float
    elapsed_s: float
    routines: tuple[RoutineRow, ...]
    sizes: tuple[SizeRow, ...]

    @property
    def source(self) -> str:
        """What the figures are from."""
        return "profile" if self.is_profile else "trace"


@dataclass(frozen=True, slots=True)
class MpiScope:
    """The ranks to work on."""

    jobs: list[MpiJob]
    ranks: list[MpiRank]
    note: str

    def matched(self) -> dict[str, int]:
        """Return how much there is of each source."""
        return {
            "profiles": sum(rank.is_profile for rank in self.ranks),
            "time_lines": sum(not rank.is_profile for rank in self.ranks),
            "routines": sum(len(rank.routines) for rank in self.ranks),
        }


def mpi_scope(
    traces: TraceSet,
    selection: Selection | None = None,
    window: tuple[int, int] | None = None,
    ranks: Iterable[int] | None = None,
    *,
    stale: bool = False,
) -> MpiScope:
    """Return what the ranks say of their MPI calls.

    A rank that has both a profile and a time line is told of by its profile, unless events are
    selected: profiles are totals of a whole run.
    """
    chosen = parts(traces, selection, window, ranks)
    by_events = selection is not None or window is not None
    jobs = mpi_jobs(part.trace for part in chosen)
    part_of = {part.rank: part for part in chosen}
    found: list[MpiRank] = []
    old: list[str] = []
    uncut = 0
    for job in jobs:
        told: set[int] = set()
        if by_events:
            uncut += len(job.profiles)
        else:
            for trace in job.profiles:
                if trace.profile.stale and not stale:
                    old.append(f"{trace.profile.rank} of job {job.name}")
                    continue
                told.add(trace.profile.rank)
                found.append(_of_profile(trace, job))
        lines = [trace for trace in job.lines if _stated(trace) not in told]
        found += [_of_line(part_of[trace.rank], job) for trace in lines]
    notes = []
    if not jobs:
        notes.append("no MPI profiles or time lines are loaded or selected")
    if uncut:
        notes.append(
            f"{uncut} text profiles are left out: they are totals of a whole run, of which no"
            " events can be selected"
        )
    if old:
        notes.append(f"left out as left over by another run: ranks {', '.join(old)}")
    return MpiScope(jobs, sorted(found, key=lambda one: _place(jobs, one)), "; ".join(notes))


def _place(jobs: list[MpiJob], rank: MpiRank) -> tuple[int, int, int]:
    names = [job.name for job in jobs]
    return names.index(rank.job), rank.rank, rank.key


def _stated(trace: Trace) -> int:
    return trace.rank if trace.stated_rank is None else trace.stated_rank


def _of_profile(trace: Trace, job: MpiJob) -> MpiRank:
    profile = trace.profile
    return MpiRank(
        job.name,
        profile.rank,
        trace.rank,
        profile.ntasks,
        True,
        profile.comm_s,
        profile.elapsed_s,
        profile.routine_rows,
        profile.size_rows,
    )


def _of_line(part: Part, job: MpiJob) -> MpiRank:
    """Add up the calls of a time line as mpitrace would, in whole nanoseconds."""
    trace, table = part.trace, part.table
    categories = [code for code, name in enumerate(table.categories.values) if name in _CATEGORIES]
    rows = part.rows[np.isin(table.category[part.rows], categories)]
    spent = part.durations(rows)
    size = numbers_of(event_args(trace, rows, ("bytes",))["bytes"])
    routines: list[RoutineRow] = []
    sizes: list[SizeRow] = []
    codes = np.unique(table.name[rows]).tolist()
    for code in sorted(codes, key=lambda code: _number(table.names[code])):
        mine = table.name[rows] == code
        name, calls = table.names[code], int(mine.sum())
        sized = mine & (size >= 0)
        total = int(size[sized].sum())
        routines.append(RoutineRow(name, calls, total / calls, int(spent[mine].sum()) / 1e9))
        if total:
            sizes += _bins(name, size[sized], spent[sized])
    start, end = _span(part)
    return MpiRank(
        job.name,
        _stated(trace),
        trace.rank,
        job.ntasks,
        False,
        sum(row.time_s for row in routines if not is_io(row.routine)),
        max(end - start, 0) / 1e9,
        tuple(routines),
        tuple(sizes),
    )


def _number(routine: str) -> int:
    """Return a routine's place in profiles; unknown ones come last."""
    return ROUTINES.index(routine) if routine in ROUTINES else len(ROUTINES)


def _span(part: Part) -> tuple[int, int]:
    """Return the window; sides that are open end with the rank's own events."""
    table = part.table
    # Time lines count from MPI_Init; the first call comes later.
    zero = -part.trace.zero_ns if part.trace.format == "mpi-trace" else 0
    first = zero if part.low is None else part.low
    last = int(table.end_ns.max()) if len(table) else first
    return first, last if part.high is None else min(part.high, last)


def _bins(name: str, size: npt.NDArray[np.int64], spent: npt.NDArray[np.int64]) -> list[SizeRow]:
    bounds = np.array([bin_bounds(one)[1] for one in np.unique(size).tolist()], dtype=np.int64)
    high = bounds[np.searchsorted(np.unique(size), size)]
    found = []
    for edge in np.unique(high).tolist():
        mine = high == edge
        calls = int(mine.sum())
        found.append(
            SizeRow(name, calls, int(size[mine].sum()) / calls, int(spent[mine].sum()) / 1e9)
        )
    return found


def divided(part: Floats, whole: Floats) -> Floats:
    """Divide; NaN where there is nothing to be a share of."""
    found: Floats = np.full(len(part), np.nan)
    np.divide(part, whole, out=found, where=whole > 0)
    return found


_Key = tuple[str, int, int]
_Figures = dict[_Key, tuple[float, float, float]]


def mpi_compare(
    before: TraceSet,
    after: TraceSet,
    *,
    by_size: bool = True,
    before_ranks: Iterable[int] | None = None,
    after_ranks: Iterable[int] | None = None,
) -> pd.DataFrame:
    """Return one row per routine and bin of sizes of two runs: calls, bytes and time of each.

    Figures are means over the ranks that have tables of routines, so that runs of different
    sizes compare. With one rank file on either side they are that rank's own figures. mpitrace's
    default of four files holds the ranks with the least and the most time, which is no fair
    sample; the note says of which ranks figures are.

    Parameters
    ----------
    before, after : TraceSet
        For example a run on processors and one whose gradients go through NCCL.
    by_size : bool, default True
        Whether to tell sizes apart; calls that are in no bin (routines without bytes) are then
        rows with ``size_lo`` and ``size_hi`` of -1.
    before_ranks, after_ranks : iterable of int, optional
        Keys of the sets to use.

    Returns
    -------
    DataFrame
        By the change of time, largest first: ``routine`` (str), with `by_size` ``size_lo,
        size_hi`` (int64); ``before_calls, after_calls, diff_calls, before_bytes, after_bytes,
        diff_bytes, before_time_s, after_time_s, diff_time_s, before_mean_us, after_mean_us``
        (float64, per rank; differences are after less before, means NaN without calls);
        ``change`` (``"added"``, ``"removed"``, ``"changed"`` or ``"same"``, by calls and bytes).
        ``.attrs["before_ranks"]``, ``.attrs["after_ranks"]`` list the ranks compared,
        ``.attrs["before_ntasks"]`` and ``.attrs["after_ntasks"]`` the sizes of the jobs.
    """
    left, right = mpi_scope(before, ranks=before_ranks), mpi_scope(after, ranks=after_ranks)
    sides = [_means(scope.ranks, by_size=by_size) for scope in (left, right)]
    keys = list(dict.fromkeys([*sides[0], *sides[1]]))
    nothing = (0.0, 0.0, 0.0)
    one, other = (
        np.array([side.get(key, nothing) for key in keys]).reshape(-1, 3) for side in sides
    )
    change = np.array([_change(key, sides[0], sides[1]) for key in keys], dtype=object)
    diff = other - one
    order = np.lexsort((np.arange(len(keys)), -np.abs(diff[:, 2])))
    columns: dict[str, Any] = {"routine": pd.Series([key[0] for key in keys], dtype=object)}
    if by_size:
        columns["size_lo"] = np.array([key[1] for key in keys], dtype=np.int64)
        columns["size_hi"] = np.array([key[2] for key in keys], dtype=np.int64)
    for place, name in enumerate(("calls", "bytes", "time_s")):
        columns[f"before_{name}"] = one[:, place]
        columns[f"after_{name}"] = other[:, place]
        columns[f"diff_{name}"] = diff[:, place]
    columns["before_mean_us"] = divided(one[:, 2] * 1e6, one[:, 0])
    columns["after_mean_us"] = divided(other[:, 2] * 1e6, other[:, 0])
    columns["change"] = pd.Series(change, dtype=object)
    frame = result(
        columns,
        matched={
            "before_ranks": len(left.ranks),
            "after_ranks": len(right.ranks),
            **{kind: int((change == kind).sum()) for kind in ("added", "removed", "changed")},
            "same": int((change == "same").sum()),
        },
        note=_note(left.ranks, right.ranks, (left.note, right.note)),
        before_ranks=[f"{rank.job}:{rank.rank}" for rank in left.ranks],
        after_ranks=[f"{rank.job}:{rank.rank}" for rank in right.ranks],
        before_ntasks=max((rank.ntasks for rank in left.ranks), default=0),
        after_ntasks=max((rank.ntasks for rank in right.ranks), default=0),
    )
    attrs = frame.attrs
    frame = frame.iloc[order].reset_index(drop=True)
    frame.attrs = attrs
    return frame


def _means(ranks: list[MpiRank], *, by_size: bool) -> _Figures:
    """Return calls, bytes and seconds per rank of each routine and bin."""
    sums: dict[_Key, np.ndarray] = {}

    def add(key: _Key, calls: int, size: float, time_s: float) -> None:
        sums.setdefault(key, np.zeros(3))
        sums[key] += (calls, size, time_s)

    for rank in ranks:
        # Averages are printed to a tenth of a byte: those of bins add up to less of an error.
        binned: dict[str, float] = {}
        for one in rank.sizes:
            binned[one.routine] = binned.get(one.routine, 0.0) + one.calls * one.avg_bytes
        for row in rank.routines:
            if not by_size or row.routine not in binned:
                size = binned.get(row.routine, row.calls * row.avg_bytes)
                add((row.routine, -1, -1), row.calls, size, row.time_s)
        for one in rank.sizes if by_size else ():
            key = (one.routine, *bin_bounds(one.avg_bytes))
            add(key, one.calls, one.calls * one.avg_bytes, one.time_s)
    found: _Figures = {}
    for key, total in sums.items():
        calls, size, time_s = (total / len(ranks)).tolist()
        found[key] = (calls, size, time_s)
    return found


def _change(key: _Key, before: _Figures, after: _Figures) -> str:
    if key not in before:
        return "added"
    if key not in after:
        return "removed"
    return "same" if before[key][:2] == after[key][:2] else "changed"


def _note(before: list[MpiRank], after: list[MpiRank], notes: tuple[str, str]) -> str:
    parts = []
    for name, ranks in (("before", before), ("after", after)):
        jobs = {rank.job: rank.ntasks for rank in ranks}
        if len(jobs) > 1:
            parts.append(f"{name} holds {len(jobs)} jobs, of which figures are means")
        elif ranks and len(ranks) < ranks[0].ntasks:
            listed = ", ".join(str(rank.rank) for rank in ranks[:8])
            parts.append(
                f"{name} has tables of routines of ranks {listed} of {ranks[0].ntasks} only"
            )
    sizes = {max((rank.ntasks for rank in ranks), default=0) for ranks in (before, after)}
    if len(sizes) > 1 and before and after:
        parts.append("the jobs differ in size: figures are per rank")
    return "; ".join([*parts, *dict.fromkeys(note for note in notes if note)])


def mpi_message_sizes(
    traces: TraceSet,
    *,
    routine: str | None = None,
    stale: bool = False,
    selection: Selection | None = None,
    window: tuple[int, int] | None = None,
    ranks: Iterable[int] | None = None,
) -> pd.DataFrame:
    """Return one row per rank, routine and bin of message sizes.

    Bins are mpitrace's: 0 bytes, 1-4, 5-8, 9-16 and so on. Profiles print the average of each bin
    but not its bounds, which follow from it. What a size means depends on the routine: the whole
    message of a broadcast or an all-reduce, a rank's own block of a gather, what goes to one rank
    of an all-to-all.

    Parameters
    ----------
    traces : TraceSet
    routine : str, optional
        Only this one, such as ``"MPI_Allreduce"``.
    stale, selection, window, ranks
        As in `mpi_routines`.

    Returns
    -------
    DataFrame
        By job, rank, routine and size: ``job`` (str), ``rank`` (int64, the MPI rank),
        ``routine`` (str), ``size_lo, size_hi`` (int64, bytes, both included), ``avg_bytes``
        (float64), ``calls`` (int64), ``time_s`` (float64), ``share_of_calls, share_of_time,
        share_of_bytes`` (float64, of the routine's bins), ``bytes`` (float64, calls times
        average), ``mean_us`` (float64), ``gb_per_s`` (float64, bytes over time; NaN where the
        time prints as 0), ``size_class`` (``small`` up to 8 bytes, ``medium`` up to 64 KiB,
        ``large``), ``key`` and ``source`` as in `mpi_routines`.

        Routines that moved no byte have no bins. Small messages are latency and waiting for the
        last rank, not transfer: look at shares of calls, time *and* bytes together.
    """
    scope = mpi_scope(traces, selection, window, ranks, stale=stale)
    flat = [
        (rank, row)
        for rank in scope.ranks
        for row in rank.sizes
        if routine is None or row.routine == routine
    ]
    note = scope.note
    if not flat and not note:
        note = "no profile tells message sizes" + (f" of {routine}" if routine else "")
    matched = {**scope.matched(), "bins": len(flat)}
    return result(_columns(flat), matched=matched, note=note)


def _columns(flat: list[tuple[MpiRank, SizeRow]]) -> dict[str, object]:
    bounds = np.array([bin_bounds(row.avg_bytes) for _, row in flat], np.int64).reshape(-1, 2)
    calls = np.array([row.calls for _, row in flat], dtype=np.int64)
    average = np.array([row.avg_bytes for _, row in flat], dtype=np.float64)
    time = np.array([row.time_s for _, row in flat], dtype=np.float64)
    owners: dict[tuple[int, str], int] = {}
    owner = np.array(
        [owners.setdefault((rank.key, row.routine), len(owners)) for rank, row in flat], np.int64
    )

    def share(values: Floats) -> Floats:
        sums: Floats = np.bincount(owner, weights=values).astype(np.float64)
        return divided(values, sums[owner])

    size = calls * average
    return {
        "job": pd.Series([rank.job for rank, _ in flat], dtype=object),
        "rank": np.array([rank.rank for rank, _ in flat], dtype=np.int64),
        "routine": pd.Series([row.routine for _, row in flat], dtype=object),
        "size_lo": bounds[:, 0],
        "size_hi": bounds[:, 1],
        "avg_bytes": average,
        "calls": calls,
        "time_s": time,
        "share_of_calls": share(calls.astype(np.float64)),
        "share_of_time": share(time),
        "share_of_bytes": share(size),
        "bytes": size,
        "mean_us": divided(time * 1e6, calls.astype(np.float64)),
        "gb_per_s": divided(size / 1e9, time),
        "size_class": pd.Series([size_class(row.avg_bytes) for _, row in flat], dtype=object),
        "key": np.array([rank.key for rank, _ in flat], dtype=np.int64),
        "source": pd.Series([rank.source for rank, _ in flat], dtype=object),
    }


def mpi_negotiation(
    traces: TraceSet,
    *,
    limit_bytes: int = 8,
    routine: str = "MPI_Allreduce",
    stale: bool = False,
    selection: Selection | None = None,
    window: tuple[int, int] | None = None,
    ranks: Iterable[int] | None = None,
) -> pd.DataFrame:
    """Return one row per rank: what part of a routine is messages of a few bytes.

    Horovod and its kin agree on which gradients are ready with an all-reduce of 8 bytes in each
    cycle. On processors that is most of the calls, about half of the time and hardly any of the
    bytes; where gradients go through NCCL, all of MPI's all-reduces are of this kind. Its time is
    waiting for the rank that comes last to the negotiation: the same calls take hardly any time
    when ranks meet in a barrier before (``COLLECTIVE_BARRIER``).

    Parameters
    ----------
    traces : TraceSet
    limit_bytes : int, default 8
        Messages up to this size, by the average of their bin, are negotiation.
    routine : str, default "MPI_Allreduce"
    stale, selection, window, ranks
        As in `mpi_routines`.

    Returns
    -------
    DataFrame
        By job and rank: ``job`` (str), ``rank`` (int64), ``calls`` (int64), ``bytes`` (float64),
        ``time_s`` (float64), ``mean_us`` (float64) of the negotiation; ``share_of_calls,
        share_of_time, share_of_bytes`` (float64, of the routine's bins), ``share_of_comm`` and
        ``share_of_elapsed`` (of the rank's totals), ``share_of_routine_time`` (of the time
        printed for the routine, which differs from the sum of its bins by rounding);
        ``routine_calls, routine_time_s``; ``coordination_calls`` (int64) and
        ``coordination_time_s`` (float64): gathers and broadcasts of up to 4 bytes, which tell
        who has what; ``key`` and ``source`` as in `mpi_routines`. Ranks that never call the
        routine have no row.
    """
    scope = mpi_scope(traces, selection, window, ranks, stale=stale)
    rows = [
        (rank, found)
        for rank in scope.ranks
        if (found := _negotiated(rank, routine, limit_bytes)) is not None
    ]
    own = [rank for rank, _ in rows]
    numbers = np.array([row for _, row in rows], np.float64).reshape(-1, len(_NEGOTIATED))
    of = dict(zip(_NEGOTIATED, numbers.T, strict=True))
    note = scope.note
    if not rows and not note:
        note = f"no rank calls {routine}"
    return result(
        {
            "job": pd.Series([one.job for one in own], dtype=object),
            "rank": np.array([one.rank for one in own], dtype=np.int64),
            "calls": of["calls"].astype(np.int64),
            "bytes": of["bytes"],
            "time_s": of["time_s"],
            "mean_us": divided(of["time_s"] * 1e6, of["calls"]),
            "share_of_calls": divided(of["calls"], of["bin_calls"]),
            "share_of_time": divided(of["time_s"], of["bin_time_s"]),
            "share_of_bytes": divided(of["bytes"], of["bin_bytes"]),
            "share_of_comm": divided(of["time_s"], np.array([one.comm_s for one in own])),
            "share_of_elapsed": divided(of["time_s"], np.array([one.elapsed_s for one in own])),
            "share_of_routine_time": divided(of["time_s"], of["routine_time_s"]),
            "routine_calls": of["routine_calls"].astype(np.int64),
            "routine_time_s": of["routine_time_s"],
            "coordination_calls": of["coordination_calls"].astype(np.int64),
            "coordination_time_s": of["coordination_time_s"],
            "key": np.array([one.key for one in own], dtype=np.int64),
            "source": pd.Series([one.source for one in own], dtype=object),
        },
        matched={**scope.matched(), "ranks": len(rows)},
        note=note,
        limit_bytes=int(limit_bytes),
    )


#: What `_negotiated` returns, in order.
_NEGOTIATED = (
    "calls",
    "bytes",
    "time_s",
    "bin_calls",
    "bin_bytes",
    "bin_time_s",
    "routine_calls",
    "routine_time_s",
    "coordination_calls",
    "coordination_time_s",
)


def _negotiated(rank: MpiRank, routine: str, limit_bytes: int) -> tuple[float, ...] | None:
    row = next((row for row in rank.routines if row.routine == routine), None)
    if row is None:
        return None
    bins = [one for one in rank.sizes if one.routine == routine]
    small = [one for one in bins if one.avg_bytes <= limit_bytes]
    told = [
        one
        for one in rank.sizes
        if one.routine in {"MPI_Gather", "MPI_Bcast"} and 0 < one.avg_bytes <= 4
    ]
    return (
        *_sums(small),
        *_sums(bins),
        row.calls,
        row.time_s,
        _sums(told)[0],
        _sums(told)[2],
    )


def _sums(bins: list[SizeRow]) -> tuple[float, float, float]:
    return (
        sum(one.calls for one in bins),
        sum(one.calls * one.avg_bytes for one in bins),
        sum(one.time_s for one in bins),
    )


_Table = tuple[MpiRank, tuple[Any, ...], tuple[RoutineRow, ...]]

_BY = (None, "context", "communicator")


def mpi_routines(
    traces: TraceSet,
    *,
    by: str | None = None,
    stale: bool = False,
    selection: Selection | None = None,
    window: tuple[int, int] | None = None,
    ranks: Iterable[int] | None = None,
) -> pd.DataFrame:
    """Return one row per rank and MPI routine: how often it was called and how long it took.

    Figures of text profiles are as printed: times to the millisecond, so a routine of 10 000
    calls of 40 ns shows 0. Where a rank has no profile, the events of its time line are added up
    in the same way. Time in a collective is waiting for the last rank and transferring; profiles
    do not tell them apart.

    Parameters
    ----------
    traces : TraceSet
    by : {None, "context", "communicator"}
        Also tell apart the contexts that the program named, or the sizes of communicators, of
        profiles that have them. The default is the table of the whole run.
    stale : bool, default False
        Also show rank files that another run of the job left over.
    selection, window
        Narrow the events of time lines. They cannot apply to text profiles, which are then left
        out; the note says so.
    ranks : iterable of int, optional
        Keys of the set, which differ from MPI ranks where several jobs are loaded.

    Returns
    -------
    DataFrame
        By job and rank, as the file prints them: ``job`` (str), ``rank`` (int64, the MPI rank);
        with `by` ``context`` and ``context_calls``, or ``comm_size_lo, comm_size_hi,
        comm_size_mean``; ``routine`` (str), ``calls`` (int64), ``avg_bytes`` (float64, 0 for
        routines without a size), ``time_s`` (float64), ``share_of_time`` (of the sum of the rows
        of this table that are communication; NaN for MPI-IO), ``share_of_comm`` and
        ``share_of_elapsed`` (of the rank's own totals), ``bytes`` (float64, calls times average),
        ``mean_us`` (float64), ``is_io`` (bool), ``key`` (int64, the rank in the set), ``source``
        (``"profile"`` or ``"trace"``).

    Raises
    ------
    TraceError
        For an unknown `by`.
    """
    if by not in _BY:
        raise TraceError(
            f"profiles cannot be split by {by!r}", remedy='Give "context" or "communicator".'
        )
    scope = mpi_scope(traces, selection, window, ranks, stale=stale)
    tables: list[_Table] = [(rank, (), rank.routines) for rank in scope.ranks]
    if by is not None:
        tables = [
            (rank, label, rows)
            for rank in scope.ranks
            if rank.is_profile
            for label, rows in _sections(traces[rank.key].profile, by)
        ]
    labels = {
        None: (),
        "context": ("context", "context_calls"),
        "communicator": ("comm_size_lo", "comm_size_hi", "comm_size_mean"),
    }[by]
    note = scope.note
    if by is not None and not tables and not note:
        switch = {"context": "MPI_Pcontrol", "communicator": "PROFILE_BY_COMMUNICATOR"}[by]
        note = f"no profile tells {by}s apart: mpitrace does so with {switch}"
    return result(_routine_columns(tables, labels), matched=scope.matched(), note=note)


def _sections(
    profile: MpiProfile, by: str
) -> Iterator[tuple[tuple[Any, ...], tuple[RoutineRow, ...]]]:
    if by == "context":
        for context in profile.contexts:
            yield (context.name, context.call_count), context.routines
    else:
        for one in profile.communicator_bins:
            yield (one.size_lo, one.size_hi, one.mean_size), one.routines


def _routine_columns(
    tables: Sequence[_Table],
    labels: tuple[str, ...],
) -> dict[str, object]:
    flat = [(rank, label, row) for rank, label, rows in tables for row in rows]
    sums = np.array(
        [
            total
            for _, _, rows in tables
            for total in [sum(row.time_s for row in rows if not is_io(row.routine))] * len(rows)
        ],
        dtype=np.float64,
    )
    calls = np.array([row.calls for _, _, row in flat], dtype=np.int64)
    average = np.array([row.avg_bytes for _, _, row in flat], dtype=np.float64)
    time = np.array([row.time_s for _, _, row in flat], dtype=np.float64)
    io = np.array([is_io(row.routine) for _, _, row in flat], dtype=bool)
    comm = np.array([rank.comm_s for rank, _, _ in flat], dtype=np.float64)
    elapsed = np.array([rank.elapsed_s for rank, _, _ in flat], dtype=np.float64)
    dtypes = {"context": object, "comm_size_mean": np.float64}
    return {
        "job": pd.Series([rank.job for rank, _, _ in flat], dtype=object),
        "rank": np.array([rank.rank for rank, _, _ in flat], dtype=np.int64),
        **{
            name: pd.Series(
                [label[place] for _, label, _ in flat], dtype=dtypes.get(name, np.int64)
            )
            for place, name in enumerate(labels)
        },
        "routine": pd.Series([row.routine for _, _, row in flat], dtype=object),
        "calls": calls,
        "avg_bytes": average,
        "time_s": time,
        "share_of_time": np.where(io, np.nan, divided(time, sums)),
        "share_of_comm": np.where(io, np.nan, divided(time, comm)),
        "share_of_elapsed": divided(time, elapsed),
        "bytes": calls * average,
        "mean_us": divided(time * 1e6, calls.astype(np.float64)),
        "is_io": io,
        "key": np.array([rank.key for rank, _, _ in flat], dtype=np.int64),
        "source": pd.Series([rank.source for rank, _, _ in flat], dtype=object),
    }


def mpi_call_stacks(
    traces: TraceSet,
    *,
    stale: bool = False,
    ranks: Iterable[int] | None = None,
) -> pd.DataFrame:
    """Return one row per call stack and routine, of profiles written with PROFILE_BY_CALL_STACK.

    Parameters
    ----------
    traces : TraceSet
    stale : bool, default False
        Also show rank files that another run of the job left over.
    ranks : iterable of int, optional
        Keys of the set.

    Returns
    -------
    DataFrame
        ``job`` (str), ``rank`` and ``stack`` (int64; the number as printed), ``stack_time_s``
        (float64, MPI-IO included), ``site`` (str, the calling place: file and offset, or the
        function where the file was translated), ``frames`` (str, all levels from the inside out),
        ``routine`` (str), ``calls`` (int64), ``time_s`` (float64), ``share_of_time`` (of all
        stacks of the rank). Addresses differ between ranks, offsets within a file do not, so
        ``frames`` can be grouped by.
    """
    scope = mpi_scope(traces, None, None, ranks, stale=stale)
    flat: list[tuple[MpiRank, CallStack, RoutineRow, float]] = []
    for rank in scope.ranks:
        stacks = traces[rank.key].profile.call_stacks if rank.is_profile else ()
        total = sum(row.time_s for stack in stacks for row in stack.routines)
        flat += [(rank, stack, row, total) for stack in stacks for row in stack.routines]
    time = np.array([row.time_s for _, _, row, _ in flat], dtype=np.float64)
    note = scope.note
    if not flat and not note:
        note = "no profile has call stacks: mpitrace writes them with PROFILE_BY_CALL_STACK"
    return result(
        {
            "job": pd.Series([rank.job for rank, _, _, _ in flat], dtype=object),
            "rank": np.array([rank.rank for rank, _, _, _ in flat], dtype=np.int64),
            "stack": np.array([stack.index for _, stack, _, _ in flat], dtype=np.int64),
            "stack_time_s": np.array([stack.time_s for _, stack, _, _ in flat], dtype=np.float64),
            "site": pd.Series([_frames(stack.frames[:1]) for _, stack, _, _ in flat], dtype=object),
            "frames": pd.Series([_frames(stack.frames) for _, stack, _, _ in flat], dtype=object),
            "routine": pd.Series([row.routine for _, _, row, _ in flat], dtype=object),
            "calls": np.array([row.calls for _, _, row, _ in flat], dtype=np.int64),
            "time_s": time,
            "share_of_time": divided(
                time, np.array([total for _, _, _, total in flat], dtype=np.float64)
            ),
        },
        matched={**scope.matched(), "stacks": len({(r.key, s.index) for r, s, _, _ in flat})},
        note=note,
    )


def _frames(frames: Sequence[StackFrame]) -> str:
    return " < ".join(_frame(frame) for frame in frames)


def _frame(frame: StackFrame) -> str:
    if frame.function:
        return f"{frame.function} ({frame.source})" if frame.source else frame.function
    if not frame.file:
        return frame.address
    return f"{frame.file.rpartition('/')[2]}+{_short(frame.offset)}"


def _short(offset: str) -> str:
    try:
        return hex(int(offset, 16))
    except ValueError:
        return offset
