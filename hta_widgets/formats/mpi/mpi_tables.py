"""The tables of MPI ranks, from text profiles and, where there are none, from time lines."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from hta_widgets.trace.selection import Selection
from hta_widgets.trace.trace import Trace
from hta_widgets.trace.traceset import TraceSet
from hta_widgets.trace.event_args import event_args
from hta_widgets.trace.event_args import numbers_of
from hta_widgets.formats.mpi.mpi_jobs import MpiJob
from hta_widgets.formats.mpi.mpi_jobs import mpi_jobs
from hta_widgets.formats.mpi.mpi_names import MPI_CATEGORY
from hta_widgets.formats.mpi.mpi_names import MPI_IO_CATEGORY
from hta_widgets.formats.mpi.mpi_names import ROUTINES
from hta_widgets.formats.mpi.mpi_names import bin_bounds
from hta_widgets.formats.mpi.mpi_names import is_io
from hta_widgets.formats.mpi.mpi_tables_model import RoutineRow
from hta_widgets.formats.mpi.mpi_tables_model import SizeRow

from hta_widgets.analysis.scope import Part
from hta_widgets.analysis.scope import parts

__all__ = ["Floats", "MpiRank", "MpiScope", "divided", "mpi_scope"]

Floats = npt.NDArray[np.float64]

_CATEGORIES = (MPI_CATEGORY, MPI_IO_CATEGORY)


@dataclass(frozen=True, slots=True)
class MpiRank:
    """What one rank says of its MPI calls.

    Attributes
    ----------
    job : str
    rank : int
        As the files state it.
    key : int
        In the set.
    ntasks : int
    is_profile : bool
        Else it was added up from a time line.
    comm_s, elapsed_s : float
    routines : tuple of RoutineRow
    sizes : tuple of SizeRow
    """

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
    """The ranks to work on.

    Attributes
    ----------
    jobs : list of MpiJob
    ranks : list of MpiRank
        By job, then rank.
    note : str
        What was left out.
    """

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

    Parameters
    ----------
    traces, selection, window, ranks
        As in all analyses.
    stale : bool
        Whether to take profiles in that were left over by another run.
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
