"""Write MPI jobs with a known truth: profiles and a timeline in mpitrace's formats."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from operator import itemgetter
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from hta_widgets.arguments import Count, Size, check_arguments
from hta_widgets.errors import TraceError
from hta_widgets.files import new_folder, write_atomically, write_text
from hta_widgets.formats.mpi.model import (
    COLLECTIVES,
    ROOT_RECEIVES,
    ROOT_SENDS,
    ROUTINES,
    CallRow,
    MpiProfile,
    RankRow,
    Summary,
    bin_bounds,
)
from hta_widgets.trace.arrays import Floats, Ints

#: Sizes of the tensors, which MPI reduces in each step and broadcasts in the first step.
_GRADIENT_BYTES = (1152, 128, 73728, 256, 4718592, 512, 5120, 40)
_NEGOTIATION_BYTES = 8
_NEGOTIATIONS = 12
_STEP_NS = 12_000_000
_START_NS = 400_000
_LATENCY_NS = 9_000
_BYTES_PER_NS = 1.2

#: mpitrace subtracts times in float64 seconds since 1970, whose resolution is 0.24 µs.
_EPOCH_S = 1_600_000_000.0
_RECORD = np.dtype([
    ("begin_s", "f8"), ("end_s", "f8"), ("rank", "i4"), ("routine", "i4"), ("source", "i4"),
    ("target", "i4"), ("bytes", "i4"), ("caller", "u4"), ("callers_caller", "u4"), ("is_io", "i4"),
])  # fmt: skip
#: Smallest number of ranks for which mpitrace prints a histogram.
_HISTOGRAM_FROM, _HISTOGRAM_BINS = 33, 15
_WIDE, _NARROW = "-" * 71, "-" * 65


@check_arguments
def write_mpi_job(
    directory: str | Path,
    *,
    ranks: Size = 8,
    steps: Size = 30,
    slow_rank: int | None = 3,
    factor: float = 2.5,
    hosts: Size = 2,
    seed: Count = 0,
    traces: bool = True,
    files: Literal["all", "default"] = "all",
    gpu: bool = False,
    swapped: bool = False,
    job: int = 90001,
    truth_path: str | Path | None = None,
) -> dict[str, Any]:
    """Write mpitrace files of a data-parallel training job, and the truth about it.

    Ranks compute, negotiate like Horovod with twelve 8-byte all-reduces per step, and reduce
    gradients. The output depends only on the arguments.

    Parameters
    ----------
    directory : path-like
        Folder for ``mpi_profile.<job>.<rank>`` and ``<job>.trc``; created if missing. Existing
        files of the same job are deleted.
    ranks, steps : int
        Size of the job.
    slow_rank : int or None, default 3
        The slow rank, which computes longer. The last rank is slow if the number is too large; None
        means no slow rank.
    factor : float, default 2.5
        Factor by which the slow rank computes longer.
    hosts : int, default 2
        Number of hosts. Consecutive ranks share a host.
    seed : int
        Seed for all noise.
    traces : bool, default True
        Also write the timeline.
    files : {"all", "default"}
        Ranks with a profile: all ranks or, as is mpitrace's default, rank 0 and the ranks with the
        least, the median and the most time in MPI.
    gpu : bool, default False
        Reduce gradients with another library, so that MPI is used only to negotiate.
    swapped : bool, default False
        Write the timeline in the other byte order, like mpitrace with SWAP_BYTES=yes.
    job : int
        Batch job number.
    truth_path : path-like, optional
        File for the truth. By default ``DIR_truth.json``, next to the directory.

    Returns
    -------
    dict
        The contents of the truth file: ``slow_rank``; ``hosts`` by rank; ``comm_s`` and
        ``elapsed_s`` of each rank; ``zero_ns``, the start of each rank's clock relative to rank 0;
        the numbers of ``calls`` and ``events``; ``negotiation``, the shares of calls and bytes;
        ``waits``, with ``wait_ns``, ``imposed_ns`` and ``last`` by rank, for calls that synchronize
        all ranks; ``files`` and ``truth_path``.
    """
    if hosts > ranks or not 0 < factor < 1e6:
        raise TraceError(
            f"hosts={hosts} and factor={factor} do not fit a job of {ranks} ranks",
            remedy="Give no more hosts than ranks, and a factor above 0 and below 1,000,000.",
        )
    slow = None if slow_rank is None else min(slow_rank, ranks - 1)
    rng = np.random.default_rng(seed)
    calls = _simulate(ranks, steps, slow, factor, rng, gpu=gpu)
    per_host = -(-ranks // hosts)
    host = [f"node{rank // per_host + 1:02d}" for rank in range(ranks)]
    times, rows = _rank_rows(calls, host, per_host, rng)
    texts = {
        f"mpi_profile.{job}.{profile.rank}": profile_text(profile)
        for profile in _profiles(calls, times.spent_s, rows, str(job))
        if files == "all" or profile.rank == 0 or profile.roles
    }
    records = _records(calls, times, ">" if swapped else "<").tobytes() if traces else None
    folder = new_folder(directory).resolve()
    names = _write_files(folder, job, texts, records)
    truth_file = Path(truth_path) if truth_path else folder.with_name(f"{folder.name}_truth.json")
    truth = {
        "job": str(job), "ranks": ranks, "steps": steps, "slow_rank": slow, "factor": factor,
        "gpu": gpu, "hosts": host, "comm_s": [row.comm_s for row in rows],
        "elapsed_s": [row.elapsed_s for row in rows],
        "zero_ns": (times.zero_ns - times.zero_ns[0]).tolist(), **_truth_of_calls(calls, ranks),
        "files": names, "truth_path": str(truth_file),
    }  # fmt: skip
    write_text(truth_file, json.dumps(truth, indent=1))
    return truth


def _rank_rows(
    calls: _Calls, host: list[str], per_host: int, rng: np.random.Generator
) -> tuple[_RankTimes, list[RankRow]]:
    """Return the recorded times of calls, and the rows of the summary of all ranks."""
    ranks = len(host)
    rss_mib = rng.uniform(1500, 1900, ranks).round(3)
    switches = rng.integers(8_000, 12_000, ranks)
    user_share = rng.uniform(0.9, 0.99, ranks).round(3)
    zero_ns = rng.integers(0, 150_000, ranks)  # end of MPI_Init, when the rank's clock starts
    end_ns = calls.end_ns[-1].max() + rng.integers(100_000, 200_000, ranks)
    zero_s = _EPOCH_S + zero_ns / 1e9
    begin_s = (_EPOCH_S + calls.begin_ns / 1e9) - zero_s
    end_s = (_EPOCH_S + calls.end_ns / 1e9) - zero_s
    times = _RankTimes(begin_s, end_s, zero_ns)
    elapsed_s = (end_ns - zero_ns) / 1e9
    columns = (
        np.arange(ranks),
        np.array(host),
        np.arange(ranks) % per_host,
        times.spent_s.sum(axis=0),
        elapsed_s,
        elapsed_s * user_share,  # MPI polls, so waits count as user time
        elapsed_s * (1 - user_share),
        rss_mib,
        switches,
    )
    rows = zip(*(column.tolist() for column in columns), strict=True)
    return times, [RankRow(*row) for row in rows]


def _write_files(
    folder: Path, job: int, texts: Mapping[str, str], records: bytes | None
) -> list[str]:
    """Write a job's files, delete its older files, and return the names."""
    earlier = {*folder.glob(f"mpi_profile.{job}.*"), folder / f"{job}.trc"}
    names = list(texts)
    for name, text in texts.items():
        write_text(folder / name, text)
    if records is not None:
        names.append(f"{job}.trc")
        with write_atomically(folder / names[-1]) as file:
            file.write(records)
    for path in earlier - {folder / name for name in names}:
        path.unlink(missing_ok=True)
    return names


def _truth_of_calls(calls: _Calls, ranks: int) -> dict[str, Any]:
    reduced = calls.size_bytes[calls.routine == ROUTINES.index("MPI_Allreduce")]
    small = reduced[reduced <= _NEGOTIATION_BYTES]
    numbers, counts = np.unique(calls.routine, return_counts=True)
    return {
        "calls": dict(zip(map(ROUTINES.__getitem__, numbers), counts.tolist(), strict=True)),
        "events": len(calls.routine) * ranks,
        "negotiation": {
            "calls": len(small),
            "share_of_calls": len(small) / len(reduced),
            "share_of_bytes": int(small.sum()) / int(reduced.sum()),
        },
        "waits": _waits(calls),
    }


class _Calls(NamedTuple):
    """A job's calls; begin and end have an item per call and rank, on the job's clock."""

    routine: Ints
    size_bytes: Ints
    root: Ints
    begin_ns: Ints
    end_ns: Ints


class _RankTimes(NamedTuple):
    """Recorded times of calls, in seconds since `zero_ns`, the start of each rank."""

    begin_s: Floats
    end_s: Floats
    zero_ns: Ints

    @property
    def spent_s(self) -> Floats:
        return self.end_s - self.begin_s


class _MpiRun:
    def __init__(self, ranks: int, rng: np.random.Generator) -> None:
        self.calls: list[tuple[int, int, int, Ints, Ints]] = []
        self.now = _START_NS + rng.integers(0, 100_000, ranks)
        self._rng = rng

    def _random_durations(self, min_ns: int, max_ns: int) -> Ints:
        return self._rng.integers(min_ns, max_ns, len(self.now))

    def _call(self, name: str, size_bytes: int, root: int, begin: Ints, end: Ints) -> None:
        self.calls.append((ROUTINES.index(f"MPI_{name}"), size_bytes, root, begin, end))
        self.now = end

    def local(self, name: str) -> None:
        """Add a call that returns immediately."""
        begin = self.now + self._random_durations(500, 3_000)
        self._call(name, -1, -1, begin, begin + self._random_durations(0, 800))

    def meet(self, name: str, size_bytes: int) -> None:
        """Add a call in which all ranks wait for each other."""
        begin = self.now + self._random_durations(800, 2_500)
        moved = _LATENCY_NS + int(max(size_bytes, 0) / _BYTES_PER_NS)
        end = int(begin.max()) + moved + self._random_durations(300, 6_000)
        self._call(name, size_bytes, -1, begin, end)

    def from_root(self, name: str, size_bytes: int) -> None:
        """Add a call in which the other ranks wait for rank 0."""
        begin = self.now + self._random_durations(800, 2_500)
        sent_ns = int(begin[0]) + _LATENCY_NS // 3 + int(size_bytes / _BYTES_PER_NS)
        end = np.maximum(begin, sent_ns) + self._random_durations(300, 3_000)
        end[0] = sent_ns
        self._call(name, size_bytes, 0, begin, end)

    def to_root(self, name: str, size_bytes: int) -> None:
        """Add a call in which rank 0 waits for the other ranks."""
        begin = self.now + self._random_durations(800, 2_500)
        end = begin + self._random_durations(700, 2_000)
        end[0] = int(begin.max()) + _LATENCY_NS
        self._call(name, size_bytes, 0, begin, end)


def _simulate(
    ranks: int,
    steps: int,
    slow_rank: int | None,
    factor: float,
    rng: np.random.Generator,
    *,
    gpu: bool,
) -> _Calls:
    """Simulate a Horovod training job that computes, negotiates and reduces."""
    job = _MpiRun(ranks, rng)
    for name in ("Comm_rank", "Comm_size"):
        job.local(name)
    for _ in range(2):
        job.meet("Allgather", 4)
    job.meet("Barrier", -1)
    for size in _GRADIENT_BYTES[:3] if gpu else _GRADIENT_BYTES:
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
        for _ in range(_NEGOTIATIONS):
            job.meet("Allreduce", _NEGOTIATION_BYTES)
        for size in () if gpu else _GRADIENT_BYTES:
            job.meet("Allreduce", size)
    return _Calls(*map(np.array, zip(*job.calls, strict=True)))


def _routine_numbers(names: frozenset[str]) -> list[int]:
    return [ROUTINES.index(name) for name in names]


def _waits(calls: _Calls) -> dict[str, list[int]]:
    meeting = np.isin(calls.routine, _routine_numbers(COLLECTIVES - ROOT_SENDS - ROOT_RECEIVES))
    begin = calls.begin_ns[meeting]
    waits, last = begin.max(axis=1)[:, None] - begin, begin.argmax(axis=1)
    imposed = np.bincount(last, weights=waits.sum(axis=1), minlength=begin.shape[1])
    return {
        "wait_ns": waits.sum(axis=0).tolist(),
        "imposed_ns": imposed.astype(np.int64).tolist(),
        "last": np.bincount(last, minlength=begin.shape[1]).tolist(),
    }


def _records(
    calls: _Calls, times: _RankTimes, byte_order: Literal["<", ">"]
) -> npt.NDArray[np.void]:
    """Return the records of the timeline, with one row of calls per rank."""
    rank = np.arange(len(times.zero_ns))[:, None]
    records = np.zeros((len(rank), len(calls.routine)), _RECORD.newbyteorder(byte_order))
    sends = np.isin(calls.routine, _routine_numbers(ROOT_SENDS))
    records["begin_s"], records["end_s"] = times.begin_s.T, times.end_s.T
    records["rank"] = rank
    records["routine"] = calls.routine
    records["source"] = np.where(sends, calls.root, -1)
    records["target"] = np.where(sends, -1, calls.root)
    records["bytes"] = calls.size_bytes
    # Load addresses differ between processes, so only address differences are comparable.
    base = 0x5500_0000 + 0x1000 * rank
    records["caller"] = base + 0x2000 + 16 * calls.routine
    records["callers_caller"] = base + 0x1A0
    return records


def _profiles(
    calls: _Calls, spent_s: Floats, rows: list[RankRow], job: str
) -> Iterator[MpiProfile]:
    """Yield each rank's profile. The profile of rank 0 includes a summary of all ranks."""
    comm_s = spent_s.sum(axis=0)
    order = np.argsort(comm_s, kind="stable").tolist()
    low, middle, high = order[0], order[(len(order) - 1) // 2], order[-1]
    roles = {"minimum": low, "maximum": high, "median": middle}
    summary = Summary(
        tuple(rows),
        _histogram(comm_s) if len(rows) >= _HISTOGRAM_FROM else (),
        (),
        tuple((rows[rank].comm_s, rank) for rank in (low, middle, high)),
        max(((row.rss_mib, row.rank) for row in rows), key=itemgetter(0)),
        max(((row.elapsed_s, row.rank) for row in rows), key=itemgetter(0)),
    )
    for row in rows:
        routines, sizes = _tables(calls, spent_s[:, row.rank])
        roles_of_rank = tuple(role for role, rank in roles.items() if rank == row.rank)
        yield MpiProfile(
            job, row.rank, len(rows), ("MPI_Init()", "MPI_Finalize()"), roles_of_rank,
            comm_s=row.comm_s, elapsed_s=row.elapsed_s, user_s=row.user_s, system_s=row.system_s,
            rss_mib=row.rss_mib, routine_rows=routines, size_rows=sizes,
            summary=summary if row.rank == 0 else None,
        )  # fmt: skip


def _histogram(comm_s: Floats) -> tuple[tuple[float, int], ...]:
    """Return evenly spaced times in MPI, each with the number of ranks closest to it."""
    edges = np.linspace(comm_s.min(), comm_s.max(), _HISTOGRAM_BINS)
    nearest = np.abs(comm_s[:, None] - edges[None, :]).argmin(axis=1)
    counts = np.bincount(nearest, minlength=_HISTOGRAM_BINS)
    return tuple(zip(edges.tolist(), counts.tolist(), strict=True))


def _tables(calls: _Calls, spent_s: Floats) -> tuple[tuple[CallRow, ...], tuple[CallRow, ...]]:
    """Return a rank's calls by routine and, if they move bytes, by routine and size bin."""
    size = calls.size_bytes
    high = np.array([bin_bounds(size_bytes)[1] for size_bytes in size.tolist()])
    routines: list[CallRow] = []
    sizes: list[CallRow] = []
    for number in np.unique(calls.routine).tolist():
        is_of_routine = calls.routine == number
        name, count = ROUTINES[number], int(is_of_routine.sum())
        total_bytes = int(size[is_of_routine].clip(0).sum())
        time_s = float(spent_s[is_of_routine].sum())
        routines.append(CallRow(name, count, total_bytes / count, time_s))
        for edge in np.unique(high[is_of_routine]).tolist() if total_bytes else ():
            is_in_bin = is_of_routine & (high == edge)
            count = int(is_in_bin.sum())
            mean_bytes = int(size[is_in_bin].sum()) / count
            sizes.append(CallRow(name, count, mean_bytes, float(spent_s[is_in_bin].sum())))
    return tuple(routines), tuple(sizes)


def profile_text(profile: MpiProfile) -> str:
    """Return the profile file of one rank, without sections that are off by default."""
    return "".join(f"{line}\n" for line in _profile_lines(profile))


def _profile_lines(profile: MpiProfile) -> Iterator[str]:
    yield f"Data for MPI rank {profile.rank} of {profile.ntasks}:"
    yield f"Times from {profile.region[0]} to {profile.region[1]}."
    heading = "MPI Routine                        #calls     avg. bytes      time(sec)"
    yield from (_WIDE, heading, _WIDE)
    for row in profile.routine_rows:
        yield f"{row.routine:<28} {row.calls:12d}    {row.avg_bytes:11.1f}   {row.time_s:12.3f}"
    yield _WIDE
    for role in profile.roles:
        yield f"MPI task {profile.rank} of {profile.ntasks} had the {role} communication time."
    synchronized = not math.isnan(profile.sync_s)
    if synchronized:
        yield f"synchronization time     = {profile.sync_s:.3f} seconds."
    ending = " (including synchronization)." if synchronized else "."
    yield f"total communication time = {profile.comm_s:.3f} seconds{ending}"
    yield f"total elapsed time       = {profile.elapsed_s:.3f} seconds."
    if not math.isnan(profile.exclusive_s):
        yield f"exclusive elapsed time   = {profile.exclusive_s:.3f} seconds."
    yield f"user cpu time            = {profile.user_s:.3f} seconds."
    yield f"system time              = {profile.system_s:.3f} seconds."
    yield f"max resident set size    = {profile.rss_mib:.3f} MiB."
    if not math.isnan(profile.io_s):
        yield from ("", f"total MPI-IO time = {profile.io_s:.3f} seconds.")
    yield from ("", _NARROW, "Message size distributions:", "")
    yield from _profile_sizes(profile)
    if profile.summary is not None:
        yield from _profile_summary(profile.summary)


def _profile_sizes(profile: MpiProfile) -> Iterator[str]:
    shown = ""
    for row in profile.size_rows:
        if row.routine != shown:
            if shown:
                yield ""
            yield f"{row.routine:<22}    #calls    avg. bytes      time(sec)"
            shown = row.routine
        yield f"{'':20}{row.calls:12d}   {row.avg_bytes:11.1f}   {row.time_s:12.3f}"
    yield ""


def _profile_summary(summary: Summary) -> Iterator[str]:
    yield from (_NARROW, "", "Summary for all tasks:", "")
    rss, elapsed = summary.largest_rss_mib, summary.largest_elapsed_s
    yield f"  Rank {rss[1]} reported the largest memory utilization : {rss[0]:.2f} MiB"
    yield f"  Rank {elapsed[1]} reported the largest elapsed time : {elapsed[0]:.2f} sec"
    yield ""
    for name, (time_s, rank) in zip(("minimum", "median ", "maximum"), summary.comm_s, strict=True):
        yield f"  {name} communication time = {time_s:.3f} sec for task {rank}"
    if summary.io_s:
        yield ""
        for name, time_s in zip(("minimum", "average", "maximum"), summary.io_s, strict=True):
            yield f"  {name} MPI-IO time = {time_s:.3f} seconds"
    yield ""
    if summary.histogram and len(summary.ranks) >= _HISTOGRAM_FROM:
        yield from ("Histogram of times spent in MPI", "    time-bin    #ranks")
        for edge_s, ranks in summary.histogram:
            yield f"{edge_s:12.3f}  {ranks:8d}"
    yield from ("", "MPI timing summary for all ranks:")
    width = max((len(row.host) for row in summary.ranks), default=0) + 2
    yield (
        f"taskid {'host':>{width}}    cpu    comm(s)  elapsed(s)     user(s)   system(s)"
        "   size(MiB)    switches"
    )
    for row in summary.ranks:
        yield (
            f"{row.rank:6d} {row.host:>{width}} {row.cpu:6d} {row.comm_s:10.2f}  "
            f"{row.elapsed_s:10.2f}  {row.user_s:10.2f}  {row.system_s:10.2f}  "
            f"{row.rss_mib:10.2f}  {row.switches:10d}"
        )
