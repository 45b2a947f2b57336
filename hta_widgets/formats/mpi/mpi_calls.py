"""Which MPI calls of a time line are collectives, and what tells that they belong together.

Time lines do not record communicators. Where the ranks of a job make the same collective calls in
the same order, as far as each is recorded, all of them are taken to meet in each call. Otherwise
calls are matched routine by routine, those that all ranks make equally often.

Calls in which all wait for all are one group. Those with a root are groups of their own: who waits
there for another and comes late to the next call has inherited it.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import numpy as np
import numpy.typing as npt

from hta_widgets.trace.trace import Trace
from hta_widgets.trace.derived import derived_once
from hta_widgets.trace.event_args import event_args
from hta_widgets.trace.event_args import numbers_of
from hta_widgets.formats.mpi.mpi_names import COLLECTIVES
from hta_widgets.formats.mpi.mpi_names import MPI_CATEGORY
from hta_widgets.formats.mpi.mpi_names import ROOT_RECEIVES
from hta_widgets.formats.mpi.mpi_names import ROOT_SENDS

from hta_widgets.analysis.collective_args import OPERATIONS
from hta_widgets.analysis.collective_args import CommEvents
from hta_widgets.analysis.collective_args import GroupName

__all__ = ["has_mpi_calls", "mpi_calls"]

Ints = npt.NDArray[np.int64]

_OPERATIONS = {
    "MPI_Bcast": "broadcast",
    "MPI_Barrier": "barrier",
    "MPI_Reduce": "reduce",
    "MPI_Allreduce": "all_reduce",
    "MPI_Reduce_scatter": "reduce_scatter",
    "MPI_Reduce_scatter_block": "reduce_scatter",
    "MPI_Gather": "gather",
    "MPI_Gatherv": "gather",
    "MPI_Allgather": "all_gather",
    "MPI_Allgatherv": "all_gather",
    "MPI_Scatter": "scatter",
    "MPI_Scatterv": "scatter",
    "MPI_Alltoall": "all_to_all",
    "MPI_Alltoallv": "all_to_all",
    "MPI_Alltoallw": "all_to_all",
}
#: Routines of which each rank records its own block, or what it sends to one rank.
_PER_RANK = frozenset(
    f"MPI_{name}"
    for name in (
        "Allgather", "Gather", "Scatter", "Alltoall", "Alltoallv", "Alltoallw",
        "Reduce_scatter_block",
    )
)  # fmt: skip
_ROOTED = ROOT_SENDS | ROOT_RECEIVES
#: Blocks of which differ between ranks, so that one of them tells nothing of the whole.
_UNEVEN = frozenset({"MPI_Gatherv", "MPI_Scatterv", "MPI_Allgatherv"})


def has_mpi_calls(trace: Trace) -> bool:
    """Whether a rank's communication is MPI calls of a time line, exported ones included."""
    return MPI_CATEGORY in trace.table.categories.values and bool(len(_rows(trace)))


@derived_once("mpi_collective_rows")
def _rows(trace: Trace) -> npt.NDArray[np.intp]:
    """Return the events that are blocking collectives, by start."""
    table = trace.table
    codes = [code for code, name in enumerate(table.names.values) if name in COLLECTIVES]
    category = table.categories.values.index(MPI_CATEGORY)
    return np.flatnonzero(np.isin(table.name, codes) & (table.category == category))


def mpi_calls(traces: Sequence[Trace]) -> list[CommEvents]:
    """Return the collectives of the time lines of one or several jobs, rank by rank."""
    jobs: dict[str | None, list[int]] = {}
    for number, trace in enumerate(traces):
        jobs.setdefault(trace.job, []).append(number)
    found: dict[int, CommEvents] = {}
    for job, members in jobs.items():
        label = "MPI" if len(jobs) == 1 else f"MPI job {job}"
        events = _of_job([traces[number] for number in members], label)
        found.update(zip(members, events, strict=True))
    return [found[number] for number in range(len(traces))]


def _of_job(traces: Sequence[Trace], label: str) -> list[CommEvents]:
    calls = [_calls(trace, len(traces)) for trace in traces]
    if _all_meet([contents for _, _, contents in calls]):
        ranks = tuple(sorted(_stated(trace) for trace in traces))
        groups = [_of_all(routines, label, ranks) for routines, _, _ in calls]
    else:
        groups = _by_routine(traces, [routines for routines, _, _ in calls], label)
    return [
        _events(trace, *call, *group)
        for trace, call, group in zip(traces, calls, groups, strict=True)
    ]


def _of_all(
    routines: Sequence[str], label: str, ranks: tuple[int, ...]
) -> tuple[Ints, list[GroupName]]:
    """Return groups of all ranks: one, and one for each routine with a root."""
    names = ["", *sorted({name for name in routines if name in _ROOTED})]
    code = {name: number for number, name in enumerate(names)}
    listed = str(list(ranks))
    groups = [GroupName(f"{label} {name}".strip(), ranks, listed, len(ranks)) for name in names]
    return np.array([code.get(name, 0) for name in routines], dtype=np.int64), groups


def _stated(trace: Trace) -> int:
    return trace.rank if trace.stated_rank is None else trace.stated_rank


def _calls(trace: Trace, ranks: int) -> tuple[list[str], Ints, list[Hashable]]:
    """Return the routine of each collective, its size, and what its members have alike."""
    rows, table = _rows(trace), trace.table
    args = event_args(trace, rows, ("bytes", "root"))
    recorded, roots = numbers_of(args["bytes"]), numbers_of(args["root"]).tolist()
    routines = [table.names[code] for code in table.name[rows].tolist()]
    factors = np.array([ranks if routine in _PER_RANK else 1 for routine in routines], np.int64)
    uneven = np.array([routine in _UNEVEN for routine in routines], dtype=bool)
    sizes = np.where((recorded < 0) | uneven, -1, recorded * factors)
    alike = sizes.tolist()
    return routines, sizes, list(zip(routines, alike, roots, strict=True))


def _all_meet(contents: Sequence[Sequence[Hashable]]) -> bool:
    """Whether each rank's calls are those that the others begin with."""
    longest = max(contents, key=len)
    return all(list(longest[: len(one)]) == list(one) for one in contents)


def _by_routine(
    traces: Sequence[Trace], routines: Sequence[list[str]], label: str
) -> list[tuple[Ints, list[GroupName]]]:
    """Return groups of routines that all ranks call equally often; each other call is alone."""
    names = sorted({name for one in routines for name in one})
    counts = {name: {one.count(name) for one in routines} for name in names}
    code = {name: number for number, name in enumerate(names)}
    found = []
    for trace, one in zip(traces, routines, strict=True):
        mine = [
            GroupName(
                f"{label} {name}" + ("" if len(counts[name]) == 1 else f" of rank {trace.rank}"),
                (),
                "",
                -1,
            )
            for name in names
        ]
        found.append((np.array([code[name] for name in one], dtype=np.int64), mine))
    return found


def _events(
    trace: Trace,
    routines: list[str],
    sizes: Ints,
    contents: list[Hashable],
    group: Ints,
    groups: list[GroupName],
) -> CommEvents:
    rows, table = _rows(trace), trace.table
    names = sorted(set(routines))
    place = {name: number for number, name in enumerate(names)}
    name = np.array([place[routine] for routine in routines], dtype=np.int64)
    operation = np.array(
        [OPERATIONS.index(_OPERATIONS.get(routine, "other")) for routine in names], dtype=np.int64
    )
    pool: dict[Hashable, int] = {}
    content = np.array([pool.setdefault(item, len(pool)) for item in contents], dtype=np.int64)
    nothing = np.full(len(rows), -1, dtype=np.int64)
    start = table.start_ns[rows]
    return CommEvents(
        rows,
        start,
        start + table.dur_ns[rows],
        name,
        names,
        operation[name] if names else name,
        group,
        groups,
        sizes,
        list(pool),
        content,
        _count(group),
        nothing,
        nothing,
        np.array([routine in _ROOTED for routine in routines], dtype=np.int64),
    )


def _count(group: Ints) -> Ints:
    """Number the calls of each group in order."""
    numbers = np.empty(len(group), dtype=np.int64)
    for code in np.unique(group).tolist():
        mine = np.flatnonzero(group == code)
        numbers[mine] = np.arange(len(mine))
    return numbers
