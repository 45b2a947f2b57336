"""What mpitrace's text profile of one rank says: its tables, as they are printed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, get_type_hints

import numpy as np
import pandas as pd

from hta_widgets.formats.mpi.mpi_names import bin_bounds
from hta_widgets.formats.mpi.mpi_names import is_io

__all__ = [
    "CallStack",
    "CommunicatorBin",
    "Context",
    "MpiProfile",
    "RankRow",
    "RoutineRow",
    "SizeRow",
    "StackFrame",
    "Summary",
]

_NAN = float("nan")
_DTYPES: dict[type, Any] = {int: np.int64, float: np.float64, str: object}


class RoutineRow(NamedTuple):
    """A routine's calls; `avg_bytes` is NaN in call stacks, which print none."""

    routine: str
    calls: int
    avg_bytes: float
    time_s: float


class SizeRow(NamedTuple):
    """A routine's calls of one bin of message sizes."""

    routine: str
    calls: int
    avg_bytes: float
    time_s: float


class StackFrame(NamedTuple):
    """One level of a call stack; only offsets are the same on all ranks."""

    file: str
    address: str
    offset: str
    function: str = ""
    source: str = ""


class RankRow(NamedTuple):
    """A rank's line in the table that rank 0's file ends with; NaN and -1 for what it lacks."""

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
    """What happened within one context that the program named."""

    name: str
    call_count: int
    comm_s: float = _NAN
    elapsed_s: float = _NAN
    routines: tuple[RoutineRow, ...] = ()
    sizes: tuple[SizeRow, ...] = ()


@dataclass(frozen=True, slots=True)
class CommunicatorBin:
    """Calls in communicators of `size_lo` to `size_hi` ranks."""

    size_lo: int
    size_hi: int
    mean_size: float
    time_s: float = _NAN
    routines: tuple[RoutineRow, ...] = ()


@dataclass(frozen=True, slots=True)
class CallStack:
    """Calls from one place of the program; `frames` go from the inside out."""

    index: int
    time_s: float
    frames: tuple[StackFrame, ...] = ()
    routines: tuple[RoutineRow, ...] = ()


@dataclass(frozen=True, slots=True)
class Summary:
    """What rank 0's file says of all ranks.

    Attributes
    ----------
    ranks : tuple of RankRow
    histogram : tuple of (float, int)
        Seconds spent in MPI, and how many ranks fall into the bin; of more than 32 ranks only.
    io_s : tuple of float
        Least, mean and most time in MPI-IO; empty without.
    comm_s : tuple of (float, int)
        Least, median and most time in MPI, and the ranks that have it. The rank with the most
        waits for others; it is not the slow one.
    largest_rss_mib, largest_elapsed_s : (float, int)
        And the ranks; NaN and -1 where a file does not say.
    """

    ranks: tuple[RankRow, ...] = ()
    histogram: tuple[tuple[float, int], ...] = ()
    io_s: tuple[float, ...] = ()
    comm_s: tuple[tuple[float, int], ...] = ()
    largest_rss_mib: tuple[float, int] = (_NAN, -1)
    largest_elapsed_s: tuple[float, int] = (_NAN, -1)


@dataclass(frozen=True, slots=True)
class MpiProfile:
    """One rank's profile.

    Times are wall seconds as printed, to the millisecond. NaN stands for what is not printed.

    Attributes
    ----------
    job : str
        From the file's name: the batch job, with the time of the run where the name has it.
    rank, ntasks : int
    region : (str, str)
        Between which calls was measured, such as ``("MPI_Init()", "MPI_Finalize()")``.
    roles : tuple of str
        ``minimum``, ``maximum``, ``median`` where this rank's communication time is that.
    comm_s : float
        Time in MPI, without MPI-IO; includes `sync_s`.
    sync_s : float
        Time in the barriers that mpitrace puts before collectives if asked to.
    elapsed_s, exclusive_s : float
        From the first start to the last stop, and the sum of the measured periods.
    io_s : float
        Time in MPI-IO.
    user_s, system_s : float
        Time on processors.
    rss_mib : float
        Largest resident set.
    summary : Summary or None
        In rank 0's file.
    stale : bool
        Whether rank 0's file contradicts it: it was left over by another run.
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
    routine_rows: tuple[RoutineRow, ...] = ()
    size_rows: tuple[SizeRow, ...] = ()
    contexts: tuple[Context, ...] = ()
    communicator_bins: tuple[CommunicatorBin, ...] = ()
    call_stacks: tuple[CallStack, ...] = ()
    summary: Summary | None = None
    stale: bool = field(default=False, compare=False)

    @property
    def routines(self) -> pd.DataFrame:
        """The table of routines: ``routine, calls, avg_bytes, time_s``."""
        return _frame(RoutineRow, self.routine_rows)

    @property
    def sizes(self) -> pd.DataFrame:
        """Message sizes: ``routine, size_lo, size_hi, calls, avg_bytes, time_s``.

        Bounds are not printed; they are those of the bin that the average lies in.
        """
        frame = _frame(SizeRow, self.size_rows)
        bounds = [bin_bounds(row.avg_bytes) for row in self.size_rows]
        frame.insert(1, "size_lo", np.array([low for low, _ in bounds], dtype=np.int64))
        frame.insert(2, "size_hi", np.array([high for _, high in bounds], dtype=np.int64))
        return frame

    @property
    def ranks(self) -> pd.DataFrame:
        """Rank 0's table of all ranks; empty in other ranks' files."""
        return _frame(RankRow, () if self.summary is None else self.summary.ranks)

    @property
    def histogram(self) -> pd.DataFrame:
        """How many ranks spent how long in MPI: ``comm_s, ranks``."""
        rows = () if self.summary is None else self.summary.histogram
        return pd.DataFrame(
            {
                "comm_s": np.array([row[0] for row in rows], dtype=np.float64),
                "ranks": np.array([row[1] for row in rows], dtype=np.int64),
            }
        )

    def communication(self) -> tuple[RoutineRow, ...]:
        """Return the rows of routines that do not work on files."""
        return tuple(row for row in self.routine_rows if not is_io(row.routine))

    def __repr__(self) -> str:
        return (
            f"<MpiProfile rank {self.rank} of {self.ntasks}, job {self.job}: "
            f"{self.comm_s:,.3f} s of {self.elapsed_s:,.3f} s in MPI, "
            f"{len(self.routine_rows)} routines>"
        )


def _frame(kind: Any, rows: Sequence[Iterable[Any]]) -> pd.DataFrame:
    """Return named tuples as a frame with the dtypes of their fields."""
    columns = list(zip(*rows, strict=True)) or [()] * len(kind._fields)
    return pd.DataFrame(
        {
            name: pd.Series(list(values), dtype=_DTYPES[get_type_hints(kind)[name]])
            for name, values in zip(kind._fields, columns, strict=True)
        }
    )
