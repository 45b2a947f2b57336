"""MPI profiles and time lines."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from hta_widgets.errors import TraceError
from hta_widgets.formats.mpi.model import (
    COLLECTIVES,
    ROOT_RECEIVES,
    ROOT_SENDS,
    ROUTINES,
    MpiProfile,
    RankRow,
    RoutineRow,
    SizeRow,
    Summary,
    bin_bounds,
)

#: Sizes of what is reduced in a step with MPI, and of what the first step broadcasts.
GRADIENT_BYTES = (1152, 128, 73728, 256, 4718592, 512, 5120, 40)
NEGOTIATION_BYTES = 8
NEGOTIATIONS = 12
_STEP_NS = 12_000_000
_START_NS = 400_000
_LATENCY_NS = 9_000
_BYTES_PER_NS = 1.2


@dataclass(slots=True)
class Calls:
    """All calls of a job; one row per call, one column per rank. Times are the job's own."""

    routine: list[int] = field(default_factory=list)
    size_bytes: list[int] = field(default_factory=list)
    root: list[int] = field(default_factory=list)
    begin_ns: list[Ints] = field(default_factory=list)
    end_ns: list[Ints] = field(default_factory=list)

    def add(self, name: str, size_bytes: int, root: int, begin_ns: Ints, end_ns: Ints) -> None:
        """Append one call of all ranks."""
        self.routine.append(ROUTINES.index(f"MPI_{name}"))
        self.size_bytes.append(size_bytes)
        self.root.append(root)
        self.begin_ns.append(begin_ns.copy())
        self.end_ns.append(end_ns.copy())


class _Job:
    """Ranks that go from call to call."""

    def __init__(self, ranks: int, rng: np.random.Generator) -> None:
        self.calls = Calls()
        self.now = _START_NS + rng.integers(0, 100_000, ranks)
        self._rng = rng
        self._ranks = ranks

    def _some(self, least: int, most: int) -> Ints:
        return self._rng.integers(least, most, self._ranks)

    def local(self, name: str) -> None:
        begin = self.now + self._some(500, 3_000)
        self.now = begin + self._some(0, 800)
        self.calls.add(name, -1, -1, begin, self.now)

    def meet(self, name: str, size_bytes: int) -> None:
        """Let all wait for all."""
        begin = self.now + self._some(800, 2_500)
        moved = _LATENCY_NS + int(max(size_bytes, 0) / _BYTES_PER_NS)
        self.now = int(begin.max()) + moved + self._some(300, 6_000)
        self.calls.add(name, size_bytes, -1, begin, self.now)

    def from_root(self, name: str, size_bytes: int) -> None:
        """Let all wait for rank 0, which waits for nobody."""
        begin = self.now + self._some(800, 2_500)
        moved = _LATENCY_NS // 3 + int(size_bytes / _BYTES_PER_NS)
        self.now = np.maximum(begin, int(begin[0]) + moved) + self._some(300, 3_000)
        self.now[0] = int(begin[0]) + moved
        self.calls.add(name, size_bytes, 0, begin, self.now)

    def to_root(self, name: str, size_bytes: int) -> None:
        """Let rank 0 wait for all, which wait for nobody."""
        begin = self.now + self._some(800, 2_500)
        self.now = begin + self._some(700, 2_000)
        self.now[0] = int(begin.max()) + _LATENCY_NS
        self.calls.add(name, size_bytes, 0, begin, self.now)


def run_job(
    ranks: int,
    steps: int,
    slow_rank: int | None,
    factor: float,
    rng: np.random.Generator,
    *,
    gpu: bool,
) -> Calls:
    """Train for some steps as Horovod does: compute, negotiate, reduce."""
    job = _Job(ranks, rng)
    for name in ("Comm_rank", "Comm_size"):
        job.local(name)
    for _ in range(2):
        job.meet("Allgather", 4)
    job.meet("Barrier", -1)
    for size in GRADIENT_BYTES[:3] if gpu else GRADIENT_BYTES:
        job.from_root("Bcast", size)
    for step in range(steps):
        compute = rng.normal(_STEP_NS, 0.03 * _STEP_NS, ranks).clip(0.8 * _STEP_NS)
        if slow_rank is not None:
            compute[slow_rank] *= factor
        job.now = job.now + np.rint(compute).astype(np.int64)
        if step % 4 == 0:
            job.to_root("Gather", 4)
            job.to_root("Gatherv", 0)
            job.from_root("Bcast", 4)
            job.from_root("Bcast", 25)
        for _ in range(NEGOTIATIONS):
            job.meet("Allreduce", NEGOTIATION_BYTES)
        for size in () if gpu else GRADIENT_BYTES:
            job.meet("Allreduce", size)
    return job.calls


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
    """Return every rank's profile, and its time in MPI unrounded."""
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


_WIDE, _NARROW = "-" * 71, "-" * 65
_TEXT_HISTOGRAM_FROM = 33


def profile_text(profile: MpiProfile) -> str:
    """Return the file of one rank; the sections that are off by default are left out."""
    return "".join(f"{line}\n" for line in _lines(profile))


def _lines(of: MpiProfile) -> Iterator[str]:
    yield f"Data for MPI rank {of.rank} of {of.ntasks}:"
    yield f"Times from {of.region[0]} to {of.region[1]}."
    yield _WIDE
    yield "MPI Routine                        #calls     avg. bytes      time(sec)"
    yield _WIDE
    for row in of.routine_rows:
        yield f"{row.routine:<28} {row.calls:12d}    {row.avg_bytes:11.1f}   {row.time_s:12.3f}"
    yield _WIDE
    for role in of.roles:
        yield f"MPI task {of.rank} of {of.ntasks} had the {role} communication time."
    synchronized = not math.isnan(of.sync_s)
    if synchronized:
        yield f"synchronization time     = {of.sync_s:.3f} seconds."
    yield f"total communication time = {of.comm_s:.3f} seconds" + (
        " (including synchronization)." if synchronized else "."
    )
    yield f"total elapsed time       = {of.elapsed_s:.3f} seconds."
    if not math.isnan(of.exclusive_s):
        yield f"exclusive elapsed time   = {of.exclusive_s:.3f} seconds."
    yield f"user cpu time            = {of.user_s:.3f} seconds."
    yield f"system time              = {of.system_s:.3f} seconds."
    yield f"max resident set size    = {of.rss_mib:.3f} MiB."
    if not math.isnan(of.io_s):
        yield ""
        yield f"total MPI-IO time = {of.io_s:.3f} seconds."
    yield ""
    yield _NARROW
    yield "Message size distributions:"
    yield ""
    yield from _sizes(of)
    if of.summary is not None:
        yield from _summary(of.summary)


def _sizes(of: MpiProfile) -> Iterator[str]:
    shown = ""
    for row in of.size_rows:
        if row.routine != shown:
            if shown:
                yield ""
            yield f"{row.routine:<22}    #calls    avg. bytes      time(sec)"
            shown = row.routine
        yield f"{'':20}{row.calls:12d}   {row.avg_bytes:11.1f}   {row.time_s:12.3f}"
    yield ""


def _summary(of: Summary) -> Iterator[str]:
    yield _NARROW
    yield ""
    yield "Summary for all tasks:"
    yield ""
    rss, elapsed = of.largest_rss_mib, of.largest_elapsed_s
    yield f"  Rank {rss[1]} reported the largest memory utilization : {rss[0]:.2f} MiB"
    yield f"  Rank {elapsed[1]} reported the largest elapsed time : {elapsed[0]:.2f} sec"
    yield ""
    for name, (time_s, rank) in zip(("minimum", "median ", "maximum"), of.comm_s, strict=True):
        yield f"  {name} communication time = {time_s:.3f} sec for task {rank}"
    if of.io_s:
        yield ""
        for name, time_s in zip(("minimum", "average", "maximum"), of.io_s, strict=True):
            yield f"  {name} MPI-IO time = {time_s:.3f} seconds"
    yield ""
    if of.histogram and len(of.ranks) >= _TEXT_HISTOGRAM_FROM:
        yield "Histogram of times spent in MPI"
        yield "    time-bin    #ranks"
        for edge_s, ranks in of.histogram:
            yield f"{edge_s:12.3f}  {ranks:8d}"
    yield ""
    yield "MPI timing summary for all ranks:"
    width = max((len(row.host) for row in of.ranks), default=0) + 2
    yield (
        f"taskid {'host':>{width}}    cpu    comm(s)  elapsed(s)     user(s)   system(s)"
        "   size(MiB)    switches"
    )
    for row in of.ranks:
        yield _rank(row, width)


def _rank(row: RankRow, width: int) -> str:
    return (
        f"{row.rank:6d} {row.host:>{width}} {row.cpu:6d} {row.comm_s:10.2f}  "
        f"{row.elapsed_s:10.2f}  {row.user_s:10.2f}  {row.system_s:10.2f}  {row.rss_mib:10.2f}  "
        f"{row.switches:10d}"
    )


_ROOTED = ROOT_SENDS | ROOT_RECEIVES


def write_mpi_job(
    directory: str | Path,
    *,
    ranks: int = 8,
    steps: int = 30,
    slow_rank: int | None = 3,
    factor: float = 2.5,
    hosts: int = 2,
    seed: int = 0,
    traces: bool = True,
    files: Literal["all", "default"] = "all",
    gpu: bool = False,
    swapped: bool = False,
    job: int = 90001,
    truth_path: str | Path | None = None,
) -> dict[str, Any]:
    """Write mpitrace's profiles and time line of a data-parallel training job, and the truth.

    Ranks compute, negotiate as Horovod does with twelve all-reduces of 8 bytes a step, and reduce
    gradients. The same arguments give the same bytes.

    Parameters
    ----------
    directory : path-like
        Where ``mpi_profile.<job>.<rank>`` and ``<job>.trc`` go; made if it is not there, and
        emptied of such files of the same job.
    ranks, steps : int
        Size of the job.
    slow_rank : int or None, default 3
        Computes longer; the last one if there are fewer, none if None.
    factor : float, default 2.5
        How many times longer.
    hosts : int, default 2
        Ranks are spread over so many hosts, in order.
    seed : int
        Of all noise.
    traces : bool, default True
        Whether to write the time line as well.
    files : {"all", "default"}
        Profiles of all ranks, or as mpitrace does unless told otherwise: of rank 0 and of those
        with the least, the median and the most time in MPI.
    gpu : bool, default False
        Whether gradients go through another library, so that MPI only negotiates.
    swapped : bool, default False
        Whether the time line is written in the other byte order, as SWAP_BYTES=yes does.
    job : int
        The batch job's number.
    truth_path : path-like, optional
        By default beside the directory: ``DIR_truth.json``.

    Returns
    -------
    dict
        The truth, as in the file: ``slow_rank``, ``hosts`` by rank, ``comm_s`` and ``elapsed_s``
        of each rank, ``zero_ns`` (how much later than rank 0's its clock starts), ``calls`` and
        ``events`` in numbers, ``negotiation`` with the shares of calls and bytes, ``waits`` of
        the calls in which all wait for all: ``wait_ns``, ``imposed_ns``, ``last`` by rank;
        ``files`` and ``truth_path``.

    Raises
    ------
    TraceError
        For a job that cannot be.

    Examples
    --------
    >>> truth = write_mpi_job("runs/mpi", ranks=4, steps=5)  # doctest: +SKIP
    >>> hw.load("runs/mpi")  # doctest: +SKIP
    """
    possible = min(ranks, steps, hosts) >= 1 and hosts <= ranks and factor > 0
    if not possible or files not in ("all", "default"):
        raise TraceError(
            "no such job",
            remedy="Give at least one rank, step and host, no more hosts than ranks, "
            'a positive factor, and files="all" or "default".',
        )
    slow = None if slow_rank is None else min(slow_rank, ranks - 1)
    rng = np.random.default_rng(seed)
    calls = run_job(ranks, steps, slow, factor, rng, gpu=gpu)
    machine = _machine(ranks, hosts, rng)
    last = np.array(calls.end_ns[-1]).max() + rng.integers(100_000, 200_000, ranks)
    told, comm = profiles(calls, machine, str(job), last - machine.zero_ns)

    folder = Path(directory)
    folder.mkdir(parents=True, exist_ok=True)
    for old in (*folder.glob(f"mpi_profile.{job}.*"), folder / f"{job}.trc"):
        old.unlink(missing_ok=True)
    kept = [profile for profile in told if files == "all" or profile.rank == 0 or profile.roles]
    names = [f"mpi_profile.{job}.{profile.rank}" for profile in kept]
    for name, profile in zip(names, kept, strict=True):
        (folder / name).write_text(profile_text(profile), "utf-8", newline="\n")
    if traces:
        names.append(f"{job}.trc")
        (folder / names[-1]).write_bytes(line_records(calls, machine, swapped=swapped).tobytes())
    truth_file = Path(truth_path) if truth_path else folder.with_name(f"{folder.name}_truth.json")
    truth = {
        "job": str(job),
        "ranks": ranks,
        "steps": steps,
        "slow_rank": slow,
        "factor": factor,
        "gpu": gpu,
        "hosts": list(machine.host),
        "comm_s": comm.tolist(),
        "elapsed_s": [profile.elapsed_s for profile in told],
        "zero_ns": (machine.zero_ns - machine.zero_ns[0]).tolist(),
        "calls": _counts(calls),
        "events": len(calls.routine) * ranks,
        "negotiation": _negotiation(calls),
        "waits": _waits(calls),
        "files": names,
        "truth_path": str(truth_file),
    }
    truth_file.write_text(json.dumps(truth, indent=1), "utf-8")
    return truth


def _machine(ranks: int, hosts: int, rng: np.random.Generator) -> Machine:
    per_host = -(-ranks // hosts)
    return Machine(
        [f"node{rank // per_host + 1:02d}" for rank in range(ranks)],
        np.arange(ranks) % per_host,
        rng.uniform(1500, 1900, ranks).round(3),
        rng.integers(8_000, 12_000, ranks),
        rng.uniform(0.9, 0.99, ranks).round(3),
        rng.integers(0, 150_000, ranks),
    )


def _counts(calls: Calls) -> dict[str, int]:
    """Return how often each rank calls each routine."""
    return {ROUTINES[number]: calls.routine.count(number) for number in sorted(set(calls.routine))}


def _negotiation(calls: Calls) -> dict[str, float]:
    number = ROUTINES.index("MPI_Allreduce")
    sizes = [
        size
        for size, routine in zip(calls.size_bytes, calls.routine, strict=True)
        if routine == number
    ]
    small = [size for size in sizes if size <= 8]
    return {
        "calls": len(small),
        "share_of_calls": len(small) / len(sizes),
        "share_of_bytes": sum(small) / sum(sizes),
    }


def _waits(calls: Calls) -> dict[str, list[int]]:
    """Return by rank the waits of calls in which all meet, and who kept the others waiting."""
    meeting = [
        place
        for place, number in enumerate(calls.routine)
        if ROUTINES[number] in COLLECTIVES and ROUTINES[number] not in _ROOTED
    ]
    begin = np.array([calls.begin_ns[place] for place in meeting])
    waits = begin.max(axis=1)[:, None] - begin
    last = begin.argmax(axis=1)
    ranks = begin.shape[1]
    return {
        "wait_ns": waits.sum(axis=0).tolist(),
        "imposed_ns": np.bincount(last, weights=waits.sum(axis=1), minlength=ranks)
        .astype(np.int64)
        .tolist(),
        "last": np.bincount(last, minlength=ranks).tolist(),
    }
