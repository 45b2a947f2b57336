"""Write a made-up MPI job, as mpitrace would have recorded it, whose truth is known."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Literal

import numpy as np

from hta_widgets.demo.mpi_calls import Calls
from hta_widgets.demo.mpi_calls import run_job
from hta_widgets.demo.mpi_files import Machine
from hta_widgets.demo.mpi_files import line_records
from hta_widgets.demo.mpi_files import profiles
from hta_widgets.demo.mpi_text import profile_text
from hta_widgets.errors import TraceError
from hta_widgets.formats.mpi.mpi_names import COLLECTIVES
from hta_widgets.formats.mpi.mpi_names import ROOT_RECEIVES
from hta_widgets.formats.mpi.mpi_names import ROOT_SENDS
from hta_widgets.formats.mpi.mpi_names import ROUTINES

__all__ = ["write_mpi_job"]

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
