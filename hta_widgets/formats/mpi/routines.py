"""Analyses of MPI calls: routines, message sizes, negotiation, call stacks, two runs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from hta_widgets.analysis.cross_rank.comm_events import stated_rank
from hta_widgets.analysis.frames import Schema, columns_of_rows, float64, int64, result_frame
from hta_widgets.analysis.scope import RankPart, Window, rank_parts
from hta_widgets.arguments import check_arguments
from hta_widgets.errors import TraceError
from hta_widgets.facts import note_text
from hta_widgets.formats.event_rows import map_distinct
from hta_widgets.formats.mpi.model import (
    MPI_IO_CATEGORY,
    ROUTINES,
    CallRow,
    MpiJob,
    MpiProfile,
    StackFrame,
    bin_bounds,
    is_io,
    mpi_jobs,
    size_class,
)
from hta_widgets.taxonomy import MPI_CATEGORY
from hta_widgets.trace.arrays import Floats, Ints
from hta_widgets.trace.columns import event_args, to_int64
from hta_widgets.trace.trace import Trace
from hta_widgets.trace.traceset import Selection, TraceSet

_NAN = float("nan")
_CATEGORIES = (MPI_CATEGORY, MPI_IO_CATEGORY)


@dataclass(frozen=True, slots=True)
class MpiRank:
    """The MPI calls of one rank, from its profile or its time line."""

    job: str
    rank: int
    key: int
    ntasks: int
    is_profile: bool
    comm_s: float
    elapsed_s: float
    routines: tuple[CallRow, ...]
    sizes: tuple[CallRow, ...]

    @property
    def source(self) -> str:
        """Source of the calls: ``"profile"`` or ``"trace"``."""
        return "profile" if self.is_profile else "trace"


@dataclass(frozen=True, slots=True)
class MpiScope:
    """The MPI ranks of an analysis, their jobs, and a note."""

    jobs: list[MpiJob]
    ranks: list[MpiRank]
    note: str

    def match_counts(self) -> dict[str, int]:
        """Return the number of ranks for each source of calls, and the number of their routines."""
        return {
            "profiles": sum(rank.is_profile for rank in self.ranks),
            "time_lines": sum(not rank.is_profile for rank in self.ranks),
            "routines": sum(len(rank.routines) for rank in self.ranks),
        }


def by_events(selection: Selection | None, window: Window | None) -> bool:
    """Return whether events are selected. This excludes profiles, which are totals of a run."""
    return selection is not None or window is not None


def mpi_scope(
    traces: TraceSet,
    selection: Selection | None = None,
    window: Window | None = None,
    ranks: Iterable[int] | None = None,
    *,
    stale: bool = False,
) -> MpiScope:
    """Return the MPI calls of each rank.

    If a rank has both a profile and a time line, its profile is used unless events are selected.
    """
    part_of = {part.rank: part for part in rank_parts(traces, selection, window, ranks)}
    jobs = mpi_jobs(part.trace for part in part_of.values())
    calls_of_ranks: list[MpiRank] = []
    stale_ranks: list[str] = []
    without_events = 0
    for job in jobs:
        profiles = () if by_events(selection, window) else job.profiles
        without_events += len(job.profiles) - len(profiles)
        if not stale:
            left_over = [trace.profile.rank for trace in profiles if trace.profile.stale]
            stale_ranks += [f"{rank} of job {job.name}" for rank in left_over]
            profiles = tuple(trace for trace in profiles if not trace.profile.stale)
        ranks_with_profile = {trace.profile.rank for trace in profiles}
        ranks_of_job = [_calls_of_profile(trace, job) for trace in profiles]
        for trace in job.lines:
            if stated_rank(trace) in ranks_with_profile:
                continue
            part, key = part_of[trace.rank], ("mpi calls", job.name, job.ntasks)
            ranks_of_job.append(part.get_or_compute(key, partial(_calls_of_time_line, part, job)))
        calls_of_ranks += sorted(ranks_of_job, key=lambda rank: (rank.rank, rank.key))
    note = _scope_note(jobs, without_events, stale_ranks)
    return MpiScope(jobs, calls_of_ranks, note)


def _scope_note(jobs: Sequence[MpiJob], without_events: int, stale_ranks: Sequence[str]) -> str:
    notes = []
    if not jobs:
        notes.append(note_text("no_mpi"))
    if without_events:
        notes.append(
            f"{without_events} text profiles are left out: they hold totals of a whole run, without"
            " events to select"
        )
    if stale_ranks:
        notes.append(f"ranks {', '.join(stale_ranks)} are left out: they are from another run")
    return "; ".join(notes)


def _calls_of_profile(trace: Trace, job: MpiJob) -> MpiRank:
    profile = trace.profile
    return MpiRank(
        job=job.name,
        rank=profile.rank,
        key=trace.rank,
        ntasks=profile.ntasks,
        is_profile=True,
        comm_s=profile.comm_s,
        elapsed_s=profile.elapsed_s,
        routines=profile.routine_rows,
        sizes=profile.size_rows,
    )


def _calls_of_time_line(part: RankPart, job: MpiJob) -> MpiRank:
    """Sum the calls in a time line as mpitrace would, in whole nanoseconds."""
    trace, table = part.trace, part.table
    categories = [code for code, name in enumerate(table.categories.values) if name in _CATEGORIES]
    rows = part.rows[np.isin(table.category[part.rows], categories)]
    spent_ns = part.durations(rows)
    size = to_int64(event_args(trace, rows, ("bytes",))["bytes"])
    order = {name: number for number, name in enumerate(ROUTINES)}
    routines: list[CallRow] = []
    sizes: list[CallRow] = []
    codes = np.unique(table.name[rows]).tolist()
    for code in sorted(codes, key=lambda code: order.get(table.names[code], len(order))):
        name, is_of_name = table.names[code], table.name[rows] == code
        is_sized = is_of_name & (size >= 0)
        calls, total_bytes = int(is_of_name.sum()), int(size[is_sized].sum())
        time_s = int(spent_ns[is_of_name].sum()) / 1e9
        routines.append(CallRow(name, calls, total_bytes / calls, time_s))
        if total_bytes:
            sizes += _size_bins(name, size[is_sized], spent_ns[is_sized])
    # Times in time lines count from MPI_Init, which is before the first call.
    init_ns = -trace.zero_ns if trace.format == "mpi-trace" else 0
    start_ns = init_ns if part.low is None else part.low
    last_ns = int(table.end_ns.max()) if len(table) else start_ns
    end_ns = last_ns if part.high is None else min(part.high, last_ns)
    return MpiRank(
        job=job.name,
        rank=stated_rank(trace),
        key=trace.rank,
        ntasks=job.ntasks,
        is_profile=False,
        comm_s=sum(row.time_s for row in routines if not is_io(row.routine)),
        elapsed_s=max(end_ns - start_ns, 0) / 1e9,
        routines=tuple(routines),
        sizes=tuple(sizes),
    )


def _size_bins(name: str, size: Ints, spent_ns: Ints) -> list[CallRow]:
    """Return a routine's calls by size bin, given the size and time of each call."""
    upper_bounds = map_distinct(size, lambda size_bytes: bin_bounds(size_bytes)[1])
    bins = pd.DataFrame({"bytes": size, "time_ns": spent_ns}).groupby(upper_bounds, sort=True)
    return [
        CallRow(name, calls, total_bytes / calls, time_ns / 1e9)
        for total_bytes, time_ns, calls in bins.sum().assign(calls=bins.size()).to_numpy().tolist()
    ]


def safe_ratio(part: float, total: float) -> float:
    """Return part / total; NaN if the total is not positive."""
    return part / total if total > 0 else _NAN


@check_arguments
def mpi_routines(
    traces: TraceSet,
    *,
    by: str | None = None,
    stale: bool = False,
    selection: Selection | None = None,
    window: Window | None = None,
    ranks: Iterable[int] | None = None,
) -> pd.DataFrame:
    """Return the number of calls and the time of each MPI routine on each rank.

    Figures of text profiles are as printed. Times are in milliseconds, so a routine of 10 000 calls
    of 40 ns shows 0. For a rank without a profile, the events of its time line are summed in the
    same way. Time in a collective consists of waiting for the last rank and of transfers; profiles
    do not separate the two. `selection` and `window` apply to time lines only; with them, text
    profiles are left out, and the note lists them.

    Parameters
    ----------
    traces : TraceSet
    by : {None, "context", "communicator"}
        Also group by the contexts named by the program, or by the sizes of communicators, in
        profiles that have them. By default, use the table of the whole run.
    stale : bool, default False
        Include rank files left by another run of the job.
    selection, window : Selection, (start_ns, end_ns), optional
        The events to analyze, restricted by time. Default: all.
    ranks : iterable of int, optional
        Keys of the set, which differ from MPI ranks if several jobs are loaded.

    Returns
    -------
    DataFrame
        By job and rank, in the order of the file: ``job`` (str), ``rank`` (int64, the MPI rank);
        with `by` ``context`` and ``context_calls``, or ``comm_size_lo, comm_size_hi,
        comm_size_mean``; ``routine`` (str), ``calls`` (int64), ``avg_bytes`` (float64, 0 for
        routines without a size), ``time_s`` (float64), ``share_of_time`` (of the sum of the rows
        of this table that are communication; NaN for MPI-IO), ``share_of_comm`` and
        ``share_of_elapsed`` (of the rank's own totals), ``bytes`` (float64, calls times average),
        ``mean_us`` (float64), ``is_io`` (bool), ``key`` (int64, the rank in the set), ``source``
        (``"profile"`` or ``"trace"``).
    """
    if by not in _LABELS:
        raise TraceError(
            f"profiles cannot be split by {by!r}", remedy='Give "context" or "communicator".'
        )
    scoped_ranks = mpi_scope(traces, selection, window, ranks, stale=stale)
    rows: list[tuple[object, ...]] = []
    tables = 0
    for rank in scoped_ranks.ranks:
        sections: list[tuple[tuple[Any, ...], tuple[CallRow, ...]]] = [((), rank.routines)]
        if by is not None:
            profile = traces[rank.key].profile if rank.is_profile else None
            sections = [] if profile is None else _profile_sections(profile, by)
        tables += len(sections)
        for label, table in sections:
            rows += _routine_rows(rank, label, table)
    note = scoped_ranks.note
    if by is not None and not tables and not note:
        switch = {"context": "MPI_Pcontrol", "communicator": "PROFILE_BY_COMMUNICATOR"}[by]
        note = f"no profile has tables by {by}: mpitrace writes them with {switch}"
    schema = {
        "job": "object", "rank": "int64", **_LABELS[by], "routine": "object", "calls": "int64",
        **float64("avg_bytes time_s share_of_time share_of_comm share_of_elapsed bytes mean_us"),
        "is_io": "bool", "key": "int64", "source": "object",
    }  # fmt: skip
    return result_frame(
        columns_of_rows(rows, schema), matched=scoped_ranks.match_counts(), note=note
    )


def _routine_rows(
    rank: MpiRank, label: tuple[Any, ...], table: tuple[CallRow, ...]
) -> Iterator[tuple[object, ...]]:
    """Yield a row for each routine in a table; `label` has the table's columns from `_LABELS`."""
    total_s = sum(row.time_s for row in table if not is_io(row.routine))
    for row in table:
        time_s, io = row.time_s, is_io(row.routine)
        yield (
            rank.job, rank.rank, *label, *row,
            _NAN if io else safe_ratio(time_s, total_s),
            _NAN if io else safe_ratio(time_s, rank.comm_s),
            safe_ratio(time_s, rank.elapsed_s),
            row.calls * row.avg_bytes, safe_ratio(time_s * 1e6, row.calls), io,
            rank.key, rank.source,
        )  # fmt: skip


#: Additional columns for each way to split a profile.
_LABELS: dict[str | None, Schema] = {
    None: {},
    "context": {"context": "object", "context_calls": "int64"},
    "communicator": {**int64("comm_size_lo comm_size_hi"), "comm_size_mean": "float64"},
}


def _profile_sections(
    profile: MpiProfile, by: str
) -> list[tuple[tuple[Any, ...], tuple[CallRow, ...]]]:
    if by == "context":
        return [
            ((context.name, context.call_count), context.routines) for context in profile.contexts
        ]
    bins = profile.communicator_bins
    return [((bin_.size_lo, bin_.size_hi, bin_.mean_size), bin_.routines) for bin_ in bins]


@check_arguments
def mpi_message_sizes(
    traces: TraceSet,
    *,
    routine: str | None = None,
    stale: bool = False,
    selection: Selection | None = None,
    window: Window | None = None,
    ranks: Iterable[int] | None = None,
) -> pd.DataFrame:
    """Return one row per rank, routine and bin of message sizes.

    Bins are mpitrace's: 0 bytes, 1-4, 5-8, 9-16 and so on. Profiles print the average of each bin
    but not its bounds, which are derived from it. The meaning of a size depends on the routine: the
    whole message of a broadcast or an all-reduce, a rank's own block of a gather, the block for one
    rank of an all-to-all.

    Parameters
    ----------
    traces : TraceSet
    routine : str, optional
        Only this routine, such as ``"MPI_Allreduce"``.
    stale : bool, default False
        Include rank files left by another run of the job.
    selection, window, ranks : Selection, (start_ns, end_ns), iterable of int, optional
        The events to analyze, restricted by time and ranks. Default: all.

    Returns
    -------
    DataFrame
        By job, rank, routine and size: ``job`` (str), ``rank`` (int64, the MPI rank),
        ``routine`` (str), ``size_lo, size_hi`` (int64, bytes, both included), ``avg_bytes``
        (float64), ``calls`` (int64), ``time_s`` (float64), ``share_of_calls, share_of_time,
        share_of_bytes`` (float64, of the routine's bins), ``bytes`` (float64, calls times
        average), ``mean_us`` (float64), ``gb_per_s`` (float64, bytes over time; NaN if the time
        prints as 0), ``size_class`` (``small`` up to 8 bytes, ``medium`` up to 64 KiB,
        ``large``), ``key`` and ``source`` as in `mpi_routines`.

        Routines that moved no data have no bins. For small messages, time is latency and waiting
        for the last rank, not transfer: look at the shares of calls, time *and* bytes together.
    """
    scoped_ranks = mpi_scope(traces, selection, window, ranks, stale=stale)
    rows: list[tuple[object, ...]] = []
    for rank in scoped_ranks.ranks:
        sums = {row.routine: _sums(rank.sizes, row.routine) for row in rank.sizes}
        for row in rank.sizes:
            if routine is not None and row.routine != routine:
                continue
            size = row.calls * row.avg_bytes
            place = rank.job, rank.rank, row.routine, *bin_bounds(row.avg_bytes)
            figures = row.avg_bytes, row.calls, row.time_s
            shares = sums[row.routine].shares_of(row.calls, row.time_s, size)
            rates = safe_ratio(row.time_s * 1e6, row.calls), safe_ratio(size / 1e9, row.time_s)
            origin = size_class(row.avg_bytes), rank.key, rank.source
            rows.append((*place, *figures, *shares, size, *rates, *origin))
    of_routine = f" of {routine}" if routine else ""
    note = scoped_ranks.note or ("" if rows else f"no profile has message sizes{of_routine}")
    schema = {
        "job": "object", "rank": "int64", "routine": "object", **int64("size_lo size_hi"),
        "avg_bytes": "float64", "calls": "int64",
        **float64("time_s share_of_calls share_of_time share_of_bytes bytes mean_us gb_per_s"),
        "size_class": "object", "key": "int64", "source": "object",
    }  # fmt: skip
    return result_frame(
        columns_of_rows(rows, schema),
        matched={**scoped_ranks.match_counts(), "bins": len(rows)},
        note=note,
    )


class _Sums(NamedTuple):
    calls: int
    size_bytes: float
    time_s: float

    def shares_of(self, calls: int, time_s: float, size_bytes: float) -> tuple[float, ...]:
        return (
            safe_ratio(calls, self.calls), safe_ratio(time_s, self.time_s),
            safe_ratio(size_bytes, self.size_bytes),
        )  # fmt: skip


def _sums(bins: Iterable[CallRow], *routines: str, max_bytes: float = np.inf) -> _Sums:
    """Sum the bins of `routines` in which the mean message has at most `max_bytes`."""
    chosen = [row for row in bins if row.routine in routines and row.avg_bytes <= max_bytes]
    return _Sums(
        sum(row.calls for row in chosen),
        sum(row.calls * row.avg_bytes for row in chosen),
        sum(row.time_s for row in chosen),
    )


@check_arguments
def mpi_negotiation(
    traces: TraceSet,
    *,
    limit_bytes: int = 8,
    routine: str = "MPI_Allreduce",
    stale: bool = False,
    selection: Selection | None = None,
    window: Window | None = None,
    ranks: Iterable[int] | None = None,
) -> pd.DataFrame:
    """Return the share of small messages among each rank's calls to a routine.

    In each cycle, Horovod uses an all-reduce of 8 bytes to agree on which gradients are ready. On
    CPUs, these are most of the calls, about half of the time and few of the bytes. If NCCL
    transfers the gradients, all MPI all-reduces are such calls. Their time is spent waiting for the
    last rank: the same calls take little time after a barrier (``COLLECTIVE_BARRIER``).

    Parameters
    ----------
    traces : TraceSet
    limit_bytes : int, default 8
        Messages count as negotiation if the average in their bin is at most this size.
    routine : str, default "MPI_Allreduce"
    stale : bool, default False
        Include rank files left by an earlier run of the job.
    selection, window, ranks : Selection, (start_ns, end_ns), iterable of int, optional
        The events to analyze, restricted by time and ranks. Default: all.

    Returns
    -------
    DataFrame
        By job and rank: ``job`` (str), ``rank`` (int64), ``calls`` (int64), ``bytes`` (float64),
        ``time_s`` (float64), ``mean_us`` (float64) of the negotiation; ``share_of_calls,
        share_of_time, share_of_bytes`` (float64, of the routine's bins), ``share_of_comm`` and
        ``share_of_elapsed`` (of the rank's totals), ``share_of_routine_time`` (of the time
        printed for the routine, which differs from the sum of its bins by rounding);
        ``routine_calls, routine_time_s``; ``coordination_calls`` (int64) and
        ``coordination_time_s`` (float64): gathers and broadcasts of up to 4 bytes, which announce
        the ready gradients; ``key`` and ``source`` as in `mpi_routines`. Ranks that never call the
        routine have no row.
    """
    scoped_ranks = mpi_scope(traces, selection, window, ranks, stale=stale)
    rows: list[tuple[object, ...]] = []
    for rank in scoped_ranks.ranks:
        routine_row = next((row for row in rank.routines if row.routine == routine), None)
        if routine_row is None:
            continue
        calls, size, time = _sums(rank.sizes, routine, max_bytes=limit_bytes)
        shares = _sums(rank.sizes, routine).shares_of(calls, time, size)
        totals_s = rank.comm_s, rank.elapsed_s, routine_row.time_s
        announced = [size_row for size_row in rank.sizes if size_row.avg_bytes > 0]
        coordination = _sums(announced, "MPI_Gather", "MPI_Bcast", max_bytes=4)
        rows.append((
            rank.job, rank.rank, calls, size, time, safe_ratio(time * 1e6, calls), *shares,
            *(safe_ratio(time, total_s) for total_s in totals_s),
            routine_row.calls, routine_row.time_s,
            coordination.calls, coordination.time_s, rank.key, rank.source,
        ))  # fmt: skip
    schema = {
        "job": "object", **int64("rank calls"),
        **float64("bytes time_s mean_us share_of_calls share_of_time share_of_bytes"),
        **float64("share_of_comm share_of_elapsed share_of_routine_time"),
        "routine_calls": "int64", "routine_time_s": "float64", "coordination_calls": "int64",
        "coordination_time_s": "float64", "key": "int64", "source": "object",
    }  # fmt: skip
    return result_frame(
        columns_of_rows(rows, schema),
        matched={**scoped_ranks.match_counts(), "ranks": len(rows)},
        note=scoped_ranks.note or ("" if rows else f"no rank calls {routine}"),
        limit_bytes=int(limit_bytes),
    )


@check_arguments
def mpi_call_stacks(
    traces: TraceSet, *, stale: bool = False, ranks: Iterable[int] | None = None
) -> pd.DataFrame:
    """Return one row per call stack and routine, from profiles written with PROFILE_BY_CALL_STACK.

    Parameters
    ----------
    traces : TraceSet
    stale : bool, default False
        Include rank files left by an earlier run of the job.
    ranks : iterable of int, optional
        Keys of the trace set.

    Returns
    -------
    DataFrame
        ``job`` (str), ``rank`` and ``stack`` (int64; the number as printed), ``stack_time_s``
        (float64, MPI-IO included), ``site`` (str, the calling place: file and offset, or the
        function if the file was translated), ``frames`` (str, all levels from the inside out),
        ``routine`` (str), ``calls`` (int64), ``time_s`` (float64), ``share_of_time`` (of all
        stacks of the rank). Addresses differ between ranks, but offsets within a file do not, so
        rows can be grouped by ``frames``.
    """
    scoped_ranks = mpi_scope(traces, stale=stale, ranks=ranks)
    rows: list[tuple[object, ...]] = []
    count = 0
    for rank in scoped_ranks.ranks:
        stacks = traces[rank.key].profile.call_stacks if rank.is_profile else ()
        total = sum(row.time_s for stack in stacks for row in stack.routines)
        count += len({stack.index for stack in stacks if stack.routines})
        for stack in stacks:
            place = stack.index, stack.time_s, _frames(stack.frames[:1]), _frames(stack.frames)
            for row in stack.routines:
                call = row.routine, row.calls, row.time_s, safe_ratio(row.time_s, total)
                rows.append((rank.job, rank.rank, *place, *call))
    none = "no profile has call stacks: mpitrace writes them with PROFILE_BY_CALL_STACK"
    note = scoped_ranks.note or ("" if rows else none)
    schema = {
        "job": "object", **int64("rank stack"), "stack_time_s": "float64", "site": "object",
        "frames": "object", "routine": "object", "calls": "int64",
        **float64("time_s share_of_time"),
    }  # fmt: skip
    return result_frame(
        columns_of_rows(rows, schema),
        matched={**scoped_ranks.match_counts(), "stacks": count},
        note=note,
    )


def _frames(frames: Sequence[StackFrame]) -> str:
    return " < ".join(_frame(frame) for frame in frames)


def _frame(frame: StackFrame) -> str:
    if frame.function:
        return f"{frame.function} ({frame.source})" if frame.source else frame.function
    if not frame.file:
        return frame.address
    try:
        offset = hex(int(frame.offset, 16))
    except ValueError:
        offset = frame.offset
    return f"{frame.file.rpartition('/')[2]}+{offset}"


#: A routine and the bounds of a size bin. The bounds are -1 for all sizes.
_Key = tuple[str, int, int]
#: Calls, bytes and seconds of a rank.
_Means = tuple[float, ...]


@check_arguments
def mpi_compare(
    before: TraceSet,
    after: TraceSet,
    *,
    by_size: bool = True,
    before_ranks: Iterable[int] | None = None,
    after_ranks: Iterable[int] | None = None,
) -> pd.DataFrame:
    """Return calls, bytes and time by routine and size bin in two runs.

    Figures are means over the ranks that have tables of routines, so that runs of different sizes
    can be compared. With a single rank file per side, they are the figures of that rank. By
    default, mpitrace writes four files, which include the ranks with the least and the most time.
    These are not a representative sample; the note lists the ranks.

    Parameters
    ----------
    before, after : TraceSet
        For example, a run on CPUs and a run whose gradients are transferred by NCCL.
    by_size : bool, default True
        Whether to separate sizes. If so, calls outside of any bin (routines without bytes) are rows
        with ``size_lo`` and ``size_hi`` of -1.
    before_ranks, after_ranks : iterable of int, optional
        Keys of the trace sets to use.

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
    scopes = [mpi_scope(before, ranks=before_ranks), mpi_scope(after, ranks=after_ranks)]
    left, right = (scope.ranks for scope in scopes)
    rows = _changes(_means(left, by_size=by_size), _means(right, by_size=by_size))
    measures, words = ("calls", "bytes", "time_s"), ("before", "after", "diff")
    names = [f"{word}_{measure}" for measure in measures for word in words]
    schema = {
        "routine": "object", **int64("size_lo size_hi"), **dict.fromkeys(names, "float64"),
        **float64("before_mean_us after_mean_us"), "change": "object",
    }  # fmt: skip
    columns = columns_of_rows(rows, schema)
    if not by_size:
        del columns["size_lo"], columns["size_hi"]
    changes = [row[-1] for row in rows]
    return result_frame(
        columns,
        matched={
            "before_ranks": len(left),
            "after_ranks": len(right),
            **{kind: changes.count(kind) for kind in ("added", "removed", "changed", "same")},
        },
        note=_notes(left, right, [scope.note for scope in scopes]),
        before_ranks=[f"{rank.job}:{rank.rank}" for rank in left],
        after_ranks=[f"{rank.job}:{rank.rank}" for rank in right],
        before_ntasks=max((rank.ntasks for rank in left), default=0),
        after_ntasks=max((rank.ntasks for rank in right), default=0),
    )


def _changes(before: dict[_Key, _Means], after: dict[_Key, _Means]) -> list[tuple[Any, ...]]:
    """Return the rows of `mpi_compare`, by the change of time, largest first."""
    nothing = (0.0, 0.0, 0.0)
    pairs = {
        key: (before.get(key, nothing), after.get(key, nothing)) for key in {**before, **after}
    }

    def changed_time_s(key: _Key) -> float:
        (*_, before_s), (*_, after_s) = pairs[key]
        return abs(after_s - before_s)

    rows: list[tuple[Any, ...]] = []
    for key in sorted(pairs, key=changed_time_s, reverse=True):
        old, new = pairs[key]
        if key not in before:
            change = "added"
        elif key not in after:
            change = "removed"
        else:
            change = "changed" if old[:2] != new[:2] else "same"  # compares calls and bytes
        figures = [value for a, b in zip(old, new, strict=True) for value in (a, b, b - a)]
        mean_us = [safe_ratio(time_s * 1e6, calls) for calls, _, time_s in (old, new)]
        rows.append((*key, *figures, *mean_us, change))
    return rows


def _means(ranks: list[MpiRank], *, by_size: bool) -> dict[_Key, _Means]:
    """Return means over the ranks, keyed by routine or by size bin."""
    sums: defaultdict[_Key, Floats] = defaultdict(lambda: np.zeros(3))
    for rank in ranks:
        # Averages are printed to a tenth of a byte, so the sum over the bins is more accurate.
        bytes_of_bins = {
            size_row.routine: _sums(rank.sizes, size_row.routine).size_bytes
            for size_row in rank.sizes
        }
        for row in rank.routines:
            if not by_size or row.routine not in bytes_of_bins:
                size_bytes = bytes_of_bins.get(row.routine, row.calls * row.avg_bytes)
                sums[row.routine, -1, -1] += row.calls, size_bytes, row.time_s
        if by_size:
            for row in rank.sizes:
                key = (row.routine, *bin_bounds(row.avg_bytes))
                sums[key] += row.calls, row.calls * row.avg_bytes, row.time_s
    return {key: tuple((total / len(ranks)).tolist()) for key, total in sums.items()}


def _notes(before: list[MpiRank], after: list[MpiRank], notes: list[str]) -> list[str]:
    """Return a description of what the means of two runs cover, followed by `notes`."""
    sentences = []
    for name, ranks in (("before", before), ("after", after)):
        jobs = {rank.job for rank in ranks}
        if len(jobs) > 1:
            sentences.append(f"{name} holds {len(jobs)} jobs: figures are means over the jobs")
        elif ranks and len(ranks) < ranks[0].ntasks:
            listed = ", ".join(str(rank.rank) for rank in ranks[:8])
            sentences.append(
                f"{name} has routine tables of ranks {listed} of {ranks[0].ntasks} only"
            )
    job_sizes = {max((rank.ntasks for rank in ranks), default=0) for ranks in (before, after)}
    if len(job_sizes) > 1 and before and after:
        sentences.append("the jobs differ in size: figures are per rank")
    return [*sentences, *dict.fromkeys(notes)]
