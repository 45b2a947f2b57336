"""Which number a rank has in its run, where a set had to give it another one."""

from __future__ import annotations

from collections.abc import Mapping

from hta_widgets.analysis.scope import Part

from hta_widgets.diff.families import MPI

__all__ = ["own_numbers"]


def own_numbers(parts: Mapping[int, Part]) -> dict[int, int]:
    """Return the number by which each rank finds its partner in another run.

    A set holds every file under a rank of its own: an MPI rank's profile and its time line state
    the same one, and the second gets a number that is free. Among those that are compared the
    stated one counts again, as long as it tells them apart.
    """
    numbers = {}
    for rank, part in parts.items():
        stated = part.trace.stated_rank if part.trace.format in MPI else None
        numbers[rank] = rank if stated is None else stated
    return numbers if len(set(numbers.values())) == len(numbers) else {rank: rank for rank in parts}
