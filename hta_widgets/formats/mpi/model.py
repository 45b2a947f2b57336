"""MPI routines, mpitrace's profiles of ranks, and the files of a job."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import Any, NamedTuple, get_type_hints

import numpy as np
import pandas as pd

from hta_widgets.analysis.frames import columns_of_rows
from hta_widgets.taxonomy import MPI_CATEGORY
from hta_widgets.trace.trace import Trace

#: Category of file operations, which exported time lines also use.
MPI_IO_CATEGORY = "mpi_io"


def mpi_names(text: str) -> tuple[str, ...]:
    """Return the full names of routines from short names separated by blanks."""
    return tuple(f"MPI_{name}" for name in text.split())


#: Routine names in order of their number. File operations come last.
ROUTINES = mpi_names(
    """
    Comm_rank Comm_size Send Ssend Rsend Bsend Isend Issend Irsend Ibsend
    Send_init Ssend_init Rsend_init Bsend_init Recv_init Recv Irecv Sendrecv
    Sendrecv_replace Buffer_attach Buffer_detach Probe Iprobe Test Testany Testall Testsome
    Wait Waitany Waitall Waitsome Start Startall Bcast Ibcast
    Barrier Ibarrier Reduce Ireduce Allreduce Iallreduce Reduce_scatter Ireduce_scatter
    Reduce_scatter_block Ireduce_scatter_block Gather Igather Gatherv Igatherv
    Scan Iscan Exscan Iexscan Allgather Neighbor_allgather Iallgather Ineighbor_allgather
    Allgatherv Neighbor_allgatherv Iallgatherv Ineighbor_allgatherv Scatter Iscatter
    Scatterv Iscatterv Alltoall Neighbor_alltoall Ialltoall Ineighbor_alltoall
    Alltoallv Neighbor_alltoallv Ialltoallv Ineighbor_alltoallv Alltoallw
    Neighbor_alltoallw Ialltoallw Ineighbor_alltoallw Accumulate Fetch_and_op Get
    Get_accumulate Put Raccumulate Rget Rget_accumulate Rput Win_allocate
    Win_allocate_shared Win_attach Win_complete Win_create Win_create_dynamic Win_detach
    Win_fence Win_flush Win_flush_all Win_flush_local Win_flush_local_all Win_free Win_lock
    Win_lock_all Win_post Win_start Win_sync Win_test Win_unlock Win_unlock_all Win_wait
    File_close File_delete File_iread File_iread_at File_iread_shared File_iwrite
    File_iwrite_at File_iwrite_shared File_open File_preallocate File_read File_read_all
    File_read_all_begin File_read_all_end File_read_at File_read_at_all
    File_read_at_all_begin File_read_at_all_end File_read_ordered File_read_ordered_begin
    File_read_ordered_end File_read_shared File_seek File_seek_shared File_set_view
    File_sync File_write File_write_all File_write_all_begin File_write_all_end
    File_write_at File_write_at_all File_write_at_all_begin File_write_at_all_end
    File_write_ordered File_write_ordered_begin File_write_ordered_end File_write_shared
    """
)

#: Number of the first file operation.
IO_FROM = ROUTINES.index("MPI_File_close")

#: Collectives whose root sends (or receives). Time lines record the root.
ROOT_SENDS = frozenset(mpi_names("Bcast Ibcast Scatter Iscatter Scatterv Iscatterv"))
ROOT_RECEIVES = frozenset(mpi_names("Reduce Ireduce Gather Igather Gatherv Igatherv"))

#: Calls that synchronize all ranks of a communicator. Nonblocking (I…) and neighborhood collectives
#: do not.
COLLECTIVES = frozenset(
    mpi_names(
        """
        Bcast Barrier Reduce Allreduce Reduce_scatter Reduce_scatter_block Gather Gatherv Scan
        Exscan Allgather Allgatherv Scatter Scatterv Alltoall Alltoallv Alltoallw
        """
    )
)

_LAST_BIN = 30


def is_io(routine: str) -> bool:
    """Return whether a routine is a file operation. Its time is not communication."""
    return routine.startswith("MPI_File_")


def bin_bounds(avg_bytes: float) -> tuple[int, int]:
    """Return the bounds of the size bin that contains an average: 0, 1-4, 5-8, 9-16 and so on."""
    if not avg_bytes > 0:
        return 0, 0
    low, high = 1, 4
    # Averages are printed to one decimal.
    while high < avg_bytes - 0.05 and high < 4 << (_LAST_BIN - 1):
        low, high = high + 1, high * 2
    return low, min(high, (1 << 31) - 1)


def size_class(size_bytes: float) -> str:
    """Return ``small`` (up to 8 bytes), ``medium`` (up to 64 KiB) or ``large``."""
    if size_bytes <= 8:
        return "small"
    return "medium" if size_bytes <= 1 << 16 else "large"


_NAN = float("nan")
_DTYPES = {int: "int64", float: "float64", str: "object"}


class CallRow(NamedTuple):
    """The calls of a routine, in total or in one size bin.

    `avg_bytes` is NaN in call stacks, because files state no sizes for them.
    """

    routine: str
    calls: int
    avg_bytes: float
    time_s: float


class StackFrame(NamedTuple):
    """One level of a call stack. Between ranks, only `offset` is comparable, not the address."""

    file: str
    address: str
    offset: str
    function: str = ""
    source: str = ""


class RankRow(NamedTuple):
    """A row of the table at the end of rank 0's file. Missing values are NaN or -1."""

    rank: int
    host: str
    cpu: int
    comm_s: float
    elapsed_s: float
    user_s: float
    system_s: float
    rss_mib: float
    switches: int


@dataclass(frozen=True, slots=True)
class Context:
    """Calls within a context named by the program."""

    name: str
    call_count: int
    comm_s: float = _NAN
    elapsed_s: float = _NAN
    routines: tuple[CallRow, ...] = ()
    sizes: tuple[CallRow, ...] = ()


@dataclass(frozen=True, slots=True)
class CommunicatorBin:
    """Calls in communicators of `size_lo` to `size_hi` ranks."""

    size_lo: int
    size_hi: int
    mean_size: float
    time_s: float = _NAN
    routines: tuple[CallRow, ...] = ()


@dataclass(frozen=True, slots=True)
class CallStack:
    """Calls from one place in the program. `frames` are ordered from the innermost outward."""

    index: int
    time_s: float
    frames: tuple[StackFrame, ...] = ()
    routines: tuple[CallRow, ...] = ()


@dataclass(frozen=True, slots=True)
class Summary:
    """The summary of all ranks, from rank 0's file."""

    ranks: tuple[RankRow, ...] = ()
    histogram: tuple[tuple[float, int], ...] = ()
    io_s: tuple[float, ...] = ()
    comm_s: tuple[tuple[float, int], ...] = ()
    largest_rss_mib: tuple[float, int] = (_NAN, -1)
    largest_elapsed_s: tuple[float, int] = (_NAN, -1)


@dataclass(frozen=True, slots=True)
class MpiProfile:
    """One rank's profile.

    Times are in wall-clock seconds as printed, to the millisecond. Values that are not printed are
    NaN.
    """

    job: str
    rank: int
    ntasks: int
    region: tuple[str, str] = ("", "")
    roles: tuple[str, ...] = ()
    comm_s: float = _NAN
    sync_s: float = _NAN
    elapsed_s: float = _NAN
    exclusive_s: float = _NAN
    io_s: float = _NAN
    user_s: float = _NAN
    system_s: float = _NAN
    rss_mib: float = _NAN
    routine_rows: tuple[CallRow, ...] = ()
    size_rows: tuple[CallRow, ...] = ()
    contexts: tuple[Context, ...] = ()
    communicator_bins: tuple[CommunicatorBin, ...] = ()
    call_stacks: tuple[CallStack, ...] = ()
    summary: Summary | None = None
    stale: bool = field(default=False, compare=False)

    @property
    def routines(self) -> pd.DataFrame:
        """The table of routines: ``routine, calls, avg_bytes, time_s``."""
        return _frame(CallRow, self.routine_rows)

    @property
    def sizes(self) -> pd.DataFrame:
        """Message sizes: ``routine, size_lo, size_hi, calls, avg_bytes, time_s``.

        The file does not print bounds. They are derived from the average, which lies in the bin.
        """
        frame = _frame(CallRow, self.size_rows)
        bounds = [bin_bounds(row.avg_bytes) for row in self.size_rows]
        low, high = np.array(bounds, dtype=np.int64).reshape(-1, 2).T
        frame.insert(1, "size_lo", low)
        frame.insert(2, "size_hi", high)
        return frame

    @property
    def ranks(self) -> pd.DataFrame:
        """The table of all ranks from rank 0's file; empty for other ranks' files."""
        return _frame(RankRow, () if self.summary is None else self.summary.ranks)

    @property
    def histogram(self) -> pd.DataFrame:
        """Histogram of ranks by time in MPI: ``comm_s, ranks``."""
        rows = () if self.summary is None else self.summary.histogram
        return pd.DataFrame(columns_of_rows(rows, {"comm_s": "float64", "ranks": "int64"}))

    def __repr__(self) -> str:
        return (
            f"<MpiProfile rank {self.rank} of {self.ntasks}, job {self.job}: "
            f"{self.comm_s:,.3f} s of {self.elapsed_s:,.3f} s in MPI, "
            f"{len(self.routine_rows)} routines>"
        )


def _frame(kind: Any, rows: Iterable[Iterable[Any]]) -> pd.DataFrame:
    schema = {name: _DTYPES[hint] for name, hint in get_type_hints(kind).items()}
    return pd.DataFrame(columns_of_rows(rows, schema))


MPI_FORMATS = ("mpi-profile", "mpi-trace")

#: The table of rank 0 prints times with two decimals. Files print three.
_ROUNDING = 0.0056


@dataclass(frozen=True, slots=True)
class MpiJob:
    """The profiles and time lines of a run. A rank may have both in one trace."""

    name: str
    profiles: tuple[Trace, ...]
    lines: tuple[Trace, ...]

    @property
    def head(self) -> MpiProfile | None:
        """Rank 0's profile, which lists all ranks."""
        profiles = (trace.profile for trace in self.profiles)
        return next((p for p in profiles if p.summary is not None and p.summary.ranks), None)

    @property
    def ntasks(self) -> int:
        """The number of ranks in the job or, without profiles, the number of time lines."""
        head = self.head
        if head is not None:
            return head.ntasks
        return max((trace.profile.ntasks for trace in self.profiles), default=len(self.lines))


def mpi_jobs(traces: Iterable[Trace]) -> list[MpiJob]:
    """Group MPI profiles and time lines by run, in the order of their files."""
    runs: dict[tuple[str, str], list[Trace]] = {}
    for trace in traces:
        if trace.format in MPI_FORMATS or MPI_CATEGORY in trace.table.categories.values:
            folder = str(PurePath(trace.path).parent)
            runs.setdefault((folder, trace.job or ""), []).append(trace)
    folders_of_job = Counter(job for _, job in runs)
    jobs = []
    for (folder, job), members in runs.items():
        members.sort(
            key=lambda trace: (-1 if trace.stated_rank is None else trace.stated_rank, trace.rank)
        )
        name = job if folders_of_job[job] == 1 else f"{PurePath(folder).name}/{job}"
        profiles = tuple(trace for trace in members if trace.profile is not None)
        lines = tuple(trace for trace in members if trace.format != "mpi-profile")
        jobs.append(MpiJob(name, profiles, lines))
    return jobs


def stale_reason(profile: MpiProfile, head: MpiProfile) -> str:
    """Return how a profile contradicts rank 0's table; "" if it does not.

    Runs within one batch job write files of the same names, but not for the same ranks.
    """
    if head.summary is None or profile.summary is not None:
        return ""
    if profile.ntasks != head.ntasks:
        return f"it is from a run of {profile.ntasks} ranks, rank 0's from {head.ntasks}"
    row = next((row for row in head.summary.ranks if row.rank == profile.rank), None)
    if row is None:
        return "rank 0's table does not list it"
    for measure, value, listed, unit in (
        ("communication time", profile.comm_s, row.comm_s, "s"),
        ("elapsed time", profile.elapsed_s, row.elapsed_s, "s"),
        ("resident set", profile.rss_mib, row.rss_mib, "MiB"),
    ):
        if abs(value - listed) > _ROUNDING:
            return f"its {measure} is {value:.3f} {unit}, rank 0's table lists {listed:.2f} {unit}"
    return ""
