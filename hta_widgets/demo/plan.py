"""What a demo job is made of before it runs: ranks, their speed and clocks, process groups."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from hta_widgets.demo.document import RANKS_A_HOST
from hta_widgets.demo.document import thread_ids
from hta_widgets.errors import TraceError

__all__ = ["Group", "Plan"]

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Group:
    """A process group."""

    name: str
    description: str
    ranks: tuple[int, ...]

    def config(self) -> dict[str, Any]:
        """Return its entry in ``distributedInfo.pg_config``."""
        return {
            "pg_name": self.name,
            "pg_desc": self.description,
            "backend_config": "cuda:nccl",
            "pg_size": len(self.ranks),
            "ranks": list(self.ranks),
        }


@dataclass(frozen=True, slots=True)
class Plan:
    """A job, before it runs."""

    ranks: int
    steps: int
    seed: int
    straggler: int | None
    factor: float
    speed: Floats  # cost factor by rank
    skew_ns: Ints  # what a rank's clock shows too much
    start_ns: Floats  # when its first step begins
    record_from_ns: Ints  # when its profiler starts to record
    written: tuple[int, ...]  # ranks that leave a file
    #: the process groups of each way of grouping: "world" reduces gradients, "tensor" splits work
    groups: dict[str, tuple[Group, ...]]

    @classmethod
    def draw(
        cls,
        ranks: int,
        steps: int,
        seed: int,
        *,
        straggler: int | None,
        factor: float,
        skew_us: float,
        tensor_ranks: int | None,
        strided: bool,
        missing: Sequence[int],
        uneven_us: float,
    ) -> Plan:
        """Draw all that the seed decides, after checking what the caller asked for."""
        if tensor_ranks is None:
            tensor_ranks = 2 if ranks >= 4 and ranks % 2 == 0 else 1
        written = tuple(rank for rank in range(ranks) if rank not in set(missing))
        _check(ranks, steps, tensor_ranks, factor, written)
        outside = [rank for rank in missing if not 0 <= rank < ranks]
        if outside or (straggler is not None and straggler < 0):
            raise TraceError(
                f"there is no rank {outside[0] if outside else straggler} in a job of {ranks}",
                remedy=f"The ranks are 0 to {ranks - 1}.",
            )
        if straggler is not None:
            straggler = min(straggler, ranks - 1) if ranks > 1 else None
        rng = np.random.default_rng([seed, 0])
        # Healthy ranks differ by the noise of each step alone: none is slow by chance of the seed.
        speed = np.ones(ranks)
        if straggler is not None:
            speed[straggler] = factor
        skew_ns = np.rint(rng.uniform(-skew_us, skew_us, ranks) * 1000).astype(np.int64)
        skew_ns[0] = 0
        start_ns = rng.exponential(150_000.0, ranks)
        record_from_ns = np.rint(rng.uniform(0, uneven_us, ranks) * 1000).astype(np.int64)
        return cls(
            ranks,
            steps,
            seed,
            straggler,
            factor,
            speed,
            skew_ns,
            start_ns,
            record_from_ns,
            written,
            _groups(ranks, tensor_ranks, strided=strided),
        )

    def partitions(self) -> dict[str, Ints]:
        """Return the members of all groups, (groups, members) for each way of grouping."""
        return {
            way: np.array([group.ranks for group in groups], np.int64)
            for way, groups in self.groups.items()
        }

    def groups_of(self, rank: int) -> dict[str, Group]:
        """Return the groups that a rank is in, by way of grouping."""
        return {
            way: next(group for group in groups if rank in group.ranks)
            for way, groups in self.groups.items()
        }

    def configs_of(self, rank: int) -> list[dict[str, Any]]:
        """Return ``pg_config`` of a rank."""
        groups = {"0": Group("0", "default_pg", tuple(range(self.ranks)))}
        groups |= {group.name: group for group in self.groups_of(rank).values()}
        return [group.config() for group in groups.values()]

    def names_of(self, rank: int) -> dict[str, str]:
        """Return what stands in a template's marks for this rank."""
        threads = thread_ids(rank)
        names = {f"TID{which}": str(tid) for which, tid in threads.items()}
        names |= {"PID": str(threads[0]), "DEV": str(rank % RANKS_A_HOST), "RANK": str(rank)}
        for way, group in self.groups_of(rank).items():
            names[f"SIZE_{way}"] = str(len(group.ranks))
            names[f"NAME_{way}"] = group.name
            names[f"DESC_{way}"] = group.description
            names[f"RANKS_{way}"] = str(list(group.ranks))
        return names


def _groups(ranks: int, tensor_ranks: int, *, strided: bool) -> dict[str, tuple[Group, ...]]:
    everyone = tuple(range(ranks))
    groups: dict[str, tuple[Group, ...]] = {"world": (Group("0", "default_pg", everyone),)}
    if tensor_ranks == 1:
        return groups
    neighbours = [everyone[i : i + tensor_ranks] for i in range(0, ranks, tensor_ranks)]
    groups["tensor"] = tuple(
        Group(str(1 + i), "mesh_tp", members) for i, members in enumerate(neighbours)
    )
    if strided:
        first = 1 + len(neighbours)
        groups["world"] = tuple(
            Group(str(first + i), "mesh_dp", everyone[i::tensor_ranks]) for i in range(tensor_ranks)
        )
    return groups


def _check(
    ranks: int, steps: int, tensor_ranks: int, factor: float, written: Sequence[int]
) -> None:
    if ranks < 1 or steps < 1:
        raise TraceError(
            f"a job needs ranks and steps, not {ranks} and {steps}",
            remedy="Give at least 1 of each.",
        )
    if tensor_ranks < 1 or ranks % tensor_ranks:
        raise TraceError(
            f"{ranks} ranks cannot be split into groups of {tensor_ranks}",
            remedy="Choose tensor_ranks that divides ranks, or 1.",
        )
    if factor <= 0:
        raise TraceError(f"the factor {factor} is no slowdown", remedy="Give a positive factor.")
    if not written:
        raise TraceError("every rank is missing", remedy="Leave at least one rank in.")
