"""Which MPI routines take the time, and from where they are called."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import pandas as pd

from hta_widgets.errors import TraceError
from hta_widgets.trace.selection import Selection
from hta_widgets.trace.traceset import TraceSet
from hta_widgets.formats.mpi.mpi_names import is_io
from hta_widgets.formats.mpi.mpi_tables_model import CallStack
from hta_widgets.formats.mpi.mpi_tables_model import MpiProfile
from hta_widgets.formats.mpi.mpi_tables_model import RoutineRow
from hta_widgets.formats.mpi.mpi_tables_model import StackFrame

from hta_widgets.formats.mpi.mpi_tables import MpiRank
from hta_widgets.formats.mpi.mpi_tables import divided
from hta_widgets.formats.mpi.mpi_tables import mpi_scope
from hta_widgets.analysis.results import result

__all__ = ["mpi_call_stacks", "mpi_routines"]

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

    Examples
    --------
    >>> traces = hw.load("runs/horovod")  # doctest: +SKIP
    >>> table = mpi_routines(traces)  # doctest: +SKIP
    >>> table.sort_values("time_s", ascending=False).head()  # doctest: +SKIP
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
    return result(_columns(tables, labels), matched=scope.matched(), note=note)


def _sections(
    profile: MpiProfile, by: str
) -> Iterator[tuple[tuple[Any, ...], tuple[RoutineRow, ...]]]:
    if by == "context":
        for context in profile.contexts:
            yield (context.name, context.call_count), context.routines
    else:
        for one in profile.communicator_bins:
            yield (one.size_lo, one.size_hi, one.mean_size), one.routines


def _columns(
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

    Examples
    --------
    >>> stacks = mpi_call_stacks(traces)  # doctest: +SKIP
    >>> stacks.groupby("frames").time_s.mean().nlargest(5)  # doctest: +SKIP
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
