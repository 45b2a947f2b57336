"""A made-up MPI job's calls as mpitrace records them: 48-byte records, and profiles of ranks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from hta_widgets.demo.mpi_calls import Calls
from hta_widgets.formats.mpi.mpi_names import ROOT_SENDS
from hta_widgets.formats.mpi.mpi_names import ROUTINES
from hta_widgets.formats.mpi.mpi_names import bin_bounds
from hta_widgets.formats.mpi.mpi_tables_model import MpiProfile
from hta_widgets.formats.mpi.mpi_tables_model import RankRow
from hta_widgets.formats.mpi.mpi_tables_model import RoutineRow
from hta_widgets.formats.mpi.mpi_tables_model import SizeRow
from hta_widgets.formats.mpi.mpi_tables_model import Summary

__all__ = ["Machine", "line_records", "profiles"]

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

#: mpitrace keeps differences of seconds since 1970, which leaves steps of a quarter microsecond.
_EPOCH_S = 1_600_000_000.0
_RECORD = [
    ("begin_s", "f8"),
    ("end_s", "f8"),
    ("rank", "i4"),
    ("routine", "i4"),
    ("source", "i4"),
    ("target", "i4"),
    ("bytes", "i4"),
    ("caller", "u4"),
    ("callers_caller", "u4"),
    ("is_io", "i4"),
]
_HISTOGRAM_FROM, _HISTOGRAM_BINS = 33, 15


@dataclass(frozen=True, slots=True)
class Machine:
    """What ranks run on, by rank."""

    host: Sequence[str]
    cpu: Ints
    rss_mib: Floats
    switches: Ints
    user_share: Floats
    #: when each rank leaves the barrier within MPI_Init, in the job's time
    zero_ns: Ints


def line_records(calls: Calls, machine: Machine, *, swapped: bool) -> npt.NDArray[np.void]:
    """Return the records of a time line, rank by rank."""
    begin, end = _seconds(calls, machine)
    count, ranks = begin.shape
    order = ">" if swapped else "<"
    found = np.zeros((ranks, count), np.dtype([(name, f"{order}{kind}") for name, kind in _RECORD]))
    routine = np.array(calls.routine)
    root = np.array(calls.root)
    sends = np.isin(routine, [ROUTINES.index(name) for name in ROOT_SENDS])
    found["begin_s"], found["end_s"] = begin.T, end.T
    found["rank"] = np.arange(ranks)[:, None]
    found["routine"] = routine
    found["source"] = np.where(sends, root, -1)
    found["target"] = np.where(sends, -1, root)
    found["bytes"] = calls.size_bytes
    # Programs are loaded elsewhere in each process; only differences of addresses are alike.
    base = 0x5500_0000 + 0x1000 * np.arange(ranks)[:, None]
    found["caller"] = base + 0x2000 + 16 * routine
    found["callers_caller"] = base + 0x1A0
    return found.reshape(-1)


def _seconds(calls: Calls, machine: Machine) -> tuple[Floats, Floats]:
    """Return when each call begins and ends by the rank's own clock, a call a row."""
    zero = _EPOCH_S + machine.zero_ns / 1e9
    begin = (_EPOCH_S + np.array(calls.begin_ns) / 1e9) - zero
    return begin, (_EPOCH_S + np.array(calls.end_ns) / 1e9) - zero


def profiles(
    calls: Calls, machine: Machine, job: str, elapsed_ns: Ints
) -> tuple[list[MpiProfile], Floats]:
    """Return every rank's profile, and its time in MPI unrounded.

    Parameters
    ----------
    calls : Calls
    machine : Machine
    job : str
    elapsed_ns : array of int
        From MPI_Init to MPI_Finalize.
    """
    begin, end = _seconds(calls, machine)
    spent = end - begin
    comm = spent.sum(axis=0)
    elapsed = elapsed_ns / 1e9
    rows = [_rank_row(rank, machine, comm, elapsed) for rank in range(len(comm))]
    roles = _roles(comm)
    summary = Summary(
        tuple(rows),
        _histogram(comm),
        (),
        tuple((float(comm[rank]), rank) for rank in _extremes(comm)),
        (float(machine.rss_mib.max()), int(machine.rss_mib.argmax())),
        (float(elapsed.max()), int(elapsed.argmax())),
    )
    found = []
    for rank, row in enumerate(rows):
        routines, sizes = _tables(calls, spent[:, rank])
        found.append(
            MpiProfile(
                job,
                rank,
                len(rows),
                ("MPI_Init()", "MPI_Finalize()"),
                roles.get(rank, ()),
                comm_s=float(comm[rank]),
                elapsed_s=float(elapsed[rank]),
                user_s=row.user_s,
                system_s=row.system_s,
                rss_mib=row.rss_mib,
                routine_rows=routines,
                size_rows=sizes,
                summary=summary if rank == 0 else None,
            )
        )
    return found, comm


def _rank_row(rank: int, machine: Machine, comm: Floats, elapsed: Floats) -> RankRow:
    # MPI polls, so a processor is busy while it waits.
    busy = float(elapsed[rank])
    share = float(machine.user_share[rank])
    return RankRow(
        rank,
        machine.host[rank],
        int(machine.cpu[rank]),
        float(comm[rank]),
        busy,
        busy * share,
        busy * (1 - share),
        float(machine.rss_mib[rank]),
        int(machine.switches[rank]),
    )


def _extremes(comm: Floats) -> tuple[int, int, int]:
    """Return the ranks with the least, the (lower) median and the most time in MPI."""
    order = np.argsort(comm, kind="stable")
    return int(order[0]), int(order[(len(comm) - 1) // 2]), int(order[-1])


def _roles(comm: Floats) -> dict[int, tuple[str, ...]]:
    least, middle, most = _extremes(comm)
    roles: dict[int, tuple[str, ...]] = {}
    for rank, role in ((least, "minimum"), (most, "maximum"), (middle, "median")):
        roles[rank] = (*roles.get(rank, ()), role)
    return roles


def _histogram(comm: Floats) -> tuple[tuple[float, int], ...]:
    if len(comm) < _HISTOGRAM_FROM:
        return ()
    edges = np.linspace(float(comm.min()), float(comm.max()), _HISTOGRAM_BINS)
    place = np.abs(comm[:, None] - edges[None, :]).argmin(axis=1)
    counts = np.bincount(place, minlength=_HISTOGRAM_BINS)
    return tuple(zip(edges.tolist(), counts.tolist(), strict=True))


def _tables(calls: Calls, spent: Floats) -> tuple[tuple[RoutineRow, ...], tuple[SizeRow, ...]]:
    """Add one rank's calls up by routine, and by bin where bytes were moved."""
    routine, size = np.array(calls.routine), np.array(calls.size_bytes)
    routines: list[RoutineRow] = []
    sizes: list[SizeRow] = []
    for number in np.unique(routine).tolist():
        mine = routine == number
        name, count = ROUTINES[number], int(mine.sum())
        total = int(size[mine & (size > 0)].sum())
        routines.append(RoutineRow(name, count, total / count, float(spent[mine].sum())))
        if not total:
            continue
        high = np.array([bin_bounds(one)[1] for one in size.tolist()])
        for edge in np.unique(high[mine]).tolist():
            those = mine & (high == edge)
            number_of = int(those.sum())
            sizes.append(
                SizeRow(
                    name,
                    number_of,
                    int(size[those].sum()) / number_of,
                    float(spent[those].sum()),
                )
            )
    return tuple(routines), tuple(sizes)
