"""When the ranks of a made-up MPI job come to their calls, and when they leave them."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from hta_widgets.formats.mpi.model import ROUTINES

Ints = npt.NDArray[np.int64]

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
