"""Which MPI profiles are of one job, and which were left over by an earlier run of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import PurePath

from hta_widgets.formats.mpi.mpi_names import MPI_CATEGORY
from hta_widgets.formats.mpi.mpi_tables_model import MpiProfile
from hta_widgets.formats.mpi.mpi_tables_model import RankRow
from hta_widgets.trace.trace import Trace

__all__ = ["MPI_FORMATS", "MpiJob", "is_stale", "mpi_jobs"]

MPI_FORMATS = ("mpi-profile", "mpi-trace")

#: Rank 0's table prints two digits, and the files three.
_ROUNDING = 0.0056


@dataclass(frozen=True, slots=True)
class MpiJob:
    """The profiles and time lines of one run.

    Attributes
    ----------
    name : str
        The job as files state it, with the folder in front where several have the same.
    profiles : tuple of Trace
        Those with a text profile, by MPI rank.
    lines : tuple of Trace
        Those with a time line, by MPI rank.
    """

    name: str
    profiles: tuple[Trace, ...]
    lines: tuple[Trace, ...]

    @property
    def head(self) -> MpiProfile | None:
        """Rank 0's profile, which lists all ranks."""
        for trace in self.profiles:
            if trace.profile.summary is not None and trace.profile.summary.ranks:
                found: MpiProfile = trace.profile
                return found
        return None

    @property
    def ntasks(self) -> int:
        """How many ranks the job has; of time lines alone, how many there are."""
        head = self.head
        if head is not None:
            return head.ntasks
        return max((trace.profile.ntasks for trace in self.profiles), default=len(self.lines))


def mpi_jobs(traces: Iterable[Trace]) -> list[MpiJob]:
    """Group MPI profiles and time lines by the run that they are of, in order of their files."""
    runs: dict[tuple[str, str], list[Trace]] = {}
    for trace in traces:
        if trace.format in MPI_FORMATS or MPI_CATEGORY in trace.table.categories.values:
            folder = str(PurePath(trace.path).parent)
            runs.setdefault((folder, trace.job or ""), []).append(trace)
    seen = Counter(job for _, job in runs)
    return [
        MpiJob(
            job if seen[job] == 1 else f"{PurePath(folder).name}/{job}",
            _by_rank(trace for trace in members if trace.profile is not None),
            _by_rank(trace for trace in members if trace.profile is None),
        )
        for (folder, job), members in runs.items()
    ]


def _by_rank(traces: Iterable[Trace]) -> tuple[Trace, ...]:
    def rank(trace: Trace) -> tuple[int, int]:
        return (-1 if trace.stated_rank is None else trace.stated_rank, trace.rank)

    return tuple(sorted(traces, key=rank))


def is_stale(profile: MpiProfile, head: MpiProfile) -> str:
    """Return what of a rank's profile contradicts rank 0's table; empty if nothing does.

    Runs within one batch job write files of the same names, but not for the same ranks.
    """
    if head.summary is None or profile.summary is not None:
        return ""
    if profile.ntasks != head.ntasks:
        return f"it is of {profile.ntasks} ranks, rank 0's of {head.ntasks}"
    row = _row(head.summary.ranks, profile.rank)
    if row is None:
        return "rank 0's table does not list it"
    for what, own, told, unit in (
        ("communication time", profile.comm_s, row.comm_s, "s"),
        ("elapsed time", profile.elapsed_s, row.elapsed_s, "s"),
        ("resident set", profile.rss_mib, row.rss_mib, "MiB"),
    ):
        if abs(own - told) > _ROUNDING:
            return f"its {what} is {own:.3f} {unit}, rank 0's table says {told:.2f} {unit}"
    return ""


def _row(rows: Sequence[RankRow], rank: int) -> RankRow | None:
    return next((row for row in rows if row.rank == rank), None)
